//! Test beds: is every host there, are its ports what they should be, and do frames go through?
//!
//! Hosts are looked at through the same doors as when they are measured. The last two checks build the bed as a run does, look who else
//! talks on its links, and send a hundred frames; all of that is taken back. Start with [`bed`].

use std::path::Path;
use std::time::Duration;

use fwdlab_engine::{Choice, Mode};
use fwdlab_model::campaign::{self, Engine};
use fwdlab_model::test_bed::{Ends, Place, TestBed};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use serde::Serialize;

use super::Check;
use crate::error::LabError;
use crate::host::Host;
use crate::site::standing::ports::{self, Words};
use crate::site::{Site, Wanted, standing};

/// Who talks on the links by itself is listened to for so long.
const IDLE: Duration = Duration::from_secs(1);

/// A link that was just taken up, and addresses that are new, make the DUT say so.
const SETTLE: Duration = Duration::from_secs(2);

/// So many frames show whether the DUT forwards.
const FRAMES: u64 = 100;

/// The checks of one host of a test bed, or of the way through all of them.
#[derive(Debug, Serialize)]
pub struct HostChecks {
    /// Its part in the test bed: `generator`, `dut`, `path`.
    pub host: &'static str,
    /// What was looked at.
    pub checks: Vec<Check>,
}

/// All checks of a virtual machine as a test bed: whether it boots is shown by a run.
pub fn image() -> Vec<HostChecks> {
    let mut checks = super::emulator::checks();
    checks.extend(super::images::checks());
    vec![HostChecks {
        host: "dut",
        checks,
    }]
}

/// All checks of a test bed, in the order in which a person would look. `program` is brought to hosts that need an agent.
pub fn bed(bed: &TestBed, program: &Path) -> Vec<HostChecks> {
    let mut all = Vec::new();
    let site = match Site::standing(bed.clone(), program) {
        Ok(site) => site,
        Err(error) => {
            let fix = "write local, netns:NAME, or ssh://[user@]host[:port]";
            let checks = vec![Check::fail("address", error.to_string(), fix)];
            return vec![HostChecks {
                host: "path",
                checks,
            }];
        }
    };
    let places = [
        (
            "generator",
            Some(&bed.generator.host),
            Some(&bed.generator.ports),
        ),
        ("dut", bed.dut.host.as_ref(), bed.dut.ports.as_ref()),
    ];
    for (host, place, ports) in places {
        let (Some(place), Some(ports)) = (place, ports) else {
            let why = "a black box: nobody can log in";
            all.push(HostChecks {
                host,
                checks: vec![Check::skip("reached", why)],
            });
            continue;
        };
        let checks = match standing::reach(place) {
            Ok(there) => {
                let cli = standing::cli(bed, &there);
                let words = match host {
                    "dut" => standing::words(bed, &cli),
                    _ => Words::Linux,
                };
                of_host(there.as_ref(), place, ports, words)
            }
            Err(why) => vec![Check::fail("reached", why, "look at its address")],
        };
        all.push(HostChecks { host, checks });
    }
    let is_there = all
        .iter()
        .all(|of| of.checks.iter().all(|c| !c.is_failure()));
    let checks = match is_there {
        true => of_path(bed, &site),
        false => vec![Check::skip("forwarding", "a host has failures")],
    };
    all.push(HostChecks {
        host: "path",
        checks,
    });
    all
}

fn of_host(host: &dyn Host, place: &Place, ports: &Ends<String>, words: Words<'_>) -> Vec<Check> {
    let system = match host.ask("uname", &["-s", "-r"]) {
        Ok(said) => said.trim().to_owned(),
        Err(error) => {
            let fix = match place {
                Place::Ssh(text) => {
                    format!("try by hand: ssh {}", text.trim_start_matches("ssh://"))
                }
                Place::Namespace(name) => format!("ip netns list; ip netns add {name}"),
                Place::Local | Place::Image(_) => {
                    "see what this machine lacks: fwdlab doctor".into()
                }
            };
            return vec![Check::fail("reached", error.to_string(), fix)];
        }
    };
    let mut checks = vec![Check::ok("reached", format!("{}, {system}", host.name()))];
    match host.ask("id", &["-u"]) {
        Ok(id) if id.trim() == "0" => {}
        Ok(_) => checks.push(Check::fail(
            "privileges",
            "its user is not root, and ports and routes cannot be set",
            "reach it as root: ssh://root@...",
        )),
        Err(error) => checks.push(Check::skip("privileges", error.to_string())),
    }
    for (key, port) in [("port a", &ports.a), ("port b", &ports.b)] {
        checks.push(of_port(host, key, port, words));
        // by ethtool
        if let Words::Linux = words {
            checks.extend(offloads(host, port));
        }
    }
    if let (Words::Linux, Place::Local | Place::Ssh(_)) = (words, place) {
        checks.extend(of_machine(host));
    }
    checks
}

fn of_port(host: &dyn Host, key: &'static str, port: &str, words: Words<'_>) -> Check {
    let link = match ports::look(host, port, words) {
        Ok(link) => link,
        Err(error) => return Check::fail(key, error.to_string(), "ip -brief link"),
    };
    match ports::in_use(host, port, words) {
        Ok(None) => {}
        Ok(Some(why)) => {
            let fix = "give the test bed another port";
            return Check::fail(key, format!("{port} is no port for a test: {why}"), fix);
        }
        Err(error) => return Check::fail(key, error.to_string(), "see what it says there"),
    }
    let mut words = vec![port.to_owned()];
    words.extend(link.mtu.map(|mtu| format!("MTU {mtu}")));
    if let Some(driver) = field(host, &["-i", port], "driver") {
        words.push(driver);
    }
    words.extend(field(host, &[port], "Speed").filter(|speed| speed != "Unknown!"));
    let words = words.join(", ");
    match (link.is_up, link.has_link.unwrap_or(true)) {
        (true, true) => Check::ok(key, words),
        (true, false) => Check::warn(
            key,
            format!("{words}, no link"),
            "look at the cable and at the other end, which may be down",
        ),
        (false, _) => Check::ok(key, format!("{words}, down: it is taken up for a run")),
    }
}

/// What changes figures without a word: frames that are held back or put together.
fn offloads(host: &dyn Host, port: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    let paused = ["RX", "TX"].map(|way| field(host, &["-a", port], way));
    if paused.iter().flatten().any(|state| state == "on") {
        checks.push(Check::warn(
            "flow control",
            format!("{port} sends or obeys pause frames: a sender slows down and no loss is seen"),
            format!("ethtool -A {port} autoneg off rx off tx off"),
        ));
    }
    let lro = field(host, &["-k", port], "large-receive-offload");
    if lro.is_some_and(|state| state.starts_with("on")) {
        checks.push(Check::warn(
            "offloads",
            format!("{port} puts frames together before they are routed (LRO)"),
            format!("ethtool -K {port} lro off"),
        ));
    }
    checks
}

/// `driver: veth` of what ethtool says; `None` where it says nothing, or is not there.
fn field(host: &dyn Host, arguments: &[&str], name: &str) -> Option<String> {
    let said = host.ask("ethtool", arguments).ok()?;
    let lines = said.lines().filter_map(|line| line.trim().split_once(':'));
    lines
        .filter(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .find(|value| !value.is_empty())
}

fn of_machine(host: &dyn Host) -> Vec<Check> {
    let mut checks = Vec::new();
    if host.ask("pgrep", &["-x", "irqbalance"]).is_ok() {
        checks.push(Check::warn(
            "irqbalance",
            "it moves interrupts while frames are counted",
            "systemctl stop irqbalance",
        ));
    }
    let file = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    if let Ok(governor) = host.read(file) {
        let governor = String::from_utf8_lossy(&governor).trim().to_owned();
        if governor != "performance" {
            checks.push(Check::warn(
                "cpu governor",
                format!("{governor}: the clock of the CPUs changes with the load"),
                "cpupower frequency-set -g performance",
            ));
        }
    }
    checks
}

/// Frames of others, and ours.
fn of_path(bed: &TestBed, site: &Site) -> Vec<Check> {
    match try_path(bed, site) {
        Ok(checks) => checks,
        Err(error) => vec![Check::fail(
            "forwarding",
            error.to_string(),
            "see what is said above of the hosts",
        )],
    }
}

fn try_path(file: &TestBed, site: &Site) -> Result<Vec<Check>, LabError> {
    let placement = standing::placement(file)?;
    let dut = campaign::Dut::default();
    let wanted = Wanted::of_one(&dut, &placement);
    let bed = site.build(&wanted)?;
    let mut checks = Vec::new();
    std::thread::sleep(SETTLE);
    let before = bed.counters(0)?;
    std::thread::sleep(IDLE);
    let after = bed.counters(0)?;
    let came = (after.rx.0 + after.rx.1).saturating_sub(before.rx.0 + before.rx.1);
    checks.push(match came {
        0 => Check::ok("idle links", "nobody else talks there"),
        _ => Check::warn(
            "idle links",
            format!(
                "{came} frames came in at {} in an idle second, from a switch (STP, LLDP, CDP) or the DUT",
                file.generator.ports.b
            ),
            format!("see which: fwdlab capture {}", file.generator.ports.b),
        ),
    });
    let stream = |version| {
        let stream = Stream::new(version, FrameSize::new(128).expect("a frame size"), 10);
        stream.expect("flows that there are")
    };
    let mut choice = Choice {
        mode: match file.generator.engine {
            Engine::AfPacket => Some(Mode::AfPacket),
            Engine::AfXdp => Some(Mode::AfXdp),
            Engine::XdpLive => Some(Mode::XdpLive),
            Engine::Auto | Engine::Sim => None,
        },
        cpus: placement.generator_cpus.clone(),
        prove: Some(stream(IpVersion::Ipv4)),
        way_back: None,
    };
    let (mut rig, chosen) = match site.open(&bed, &choice) {
        Ok(opened) => opened,
        // where the DUT forwards nothing no engine can prove itself: what becomes of its frames is told below
        Err(_) => {
            choice.prove = None;
            choice.mode = choice.mode.or(Some(Mode::AfPacket));
            site.open(&bed, &choice)?
        }
    };
    checks.push(Check::ok("engine", chosen.words));
    for (name, version) in [
        ("forwarding IPv4", IpVersion::Ipv4),
        ("forwarding IPv6", IpVersion::Ipv6),
    ] {
        let proof = rig.prove(0, &stream(version), FRAMES)?;
        let words = format!("{} of {} frames came back", proof.received, proof.sent);
        checks.push(match proof.received {
            0 => Check::fail(
                name,
                words,
                format!(
                    "look at the DUT: ip route get {}, nft list ruleset, and at the cables: is a joined with a?",
                    bed.networks().output.ipv4.first
                ),
            ),
            received if received < proof.sent => {
                Check::warn(name, words, "look where they are lost: fwdlab trial")
            }
            _ => Check::ok(name, words),
        });
    }
    drop(rig);
    Ok(checks)
}
