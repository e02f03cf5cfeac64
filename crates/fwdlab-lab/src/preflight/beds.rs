//! Checks of test beds: that every host is reachable, that its ports are as they should be, and
//! that frames pass.
//!
//! Hosts are accessed in the same way as in a measurement. The last two checks build the bed as a
//! run does, listen for other traffic on its links, and send a hundred frames; all of this is
//! undone. Start with [`bed`].

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
use fwdlab_engine::{Addresses, Choice, LoadPlan, Mode, Proof, Schedule, StallPolicy};
use fwdlab_model::campaign::{self, Engine};
use fwdlab_model::profile::Profile;
use fwdlab_model::test_bed::{Place, PortKind, System, TestBed};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use serde::Serialize;

use super::Check;
use crate::bed::{Bed, DutPorts};
use crate::control::Control;
use crate::error::LabError;
use crate::host::Host;
use crate::host::wire::{Network, Noise};
use crate::networks::{Networks, mac};
use crate::ports::noise;
use crate::site::existing::ports::{self, PortCommands};
use crate::site::{Site, Wanted, existing};
use crate::tester::{Frames, Rig};

/// How long to listen for unsolicited frames on the links: a spanning tree sends every two seconds.
/// LLDP does every 30 s and CDP every 60 s; to see these, use `fwdlab capture`.
const IDLE: Duration = Duration::from_millis(3200);

/// Time for frames that the DUT sends because a link was just taken up, or addresses are new.
const SETTLE: Duration = Duration::from_secs(2);

/// Duration of the measurement of what the bed carries.
const CARRIED: Duration = Duration::from_millis(800);

/// Load of frames that end at a router, which may limit its answers.
const LAST_HOP_PPS: f64 = 1000.0;

/// Number of frames that show whether the DUT forwards.
const FRAMES: u64 = 100;

/// Frames that no router forwards: their TTL ends there (RFC 1812 §5.2.7.3).
const LAST_HOP: &str =
    "[[stream]]\nlayers = [{ ipv4 = { ttl = 1 } }, 'udp']\nsize = 128\nflows = 10\n";

/// The checks of one host of a test bed, or of the path through all of them.
#[derive(Debug, Serialize)]
pub struct HostChecks {
    /// Its role in the test bed: `generator`, `dut`, `path`.
    pub host: &'static str,
    /// The checks.
    pub checks: Vec<Check>,
}

/// Runs all checks for a virtual machine as a test bed. Whether it boots is shown by a run.
pub fn image() -> Vec<HostChecks> {
    let mut checks = super::emulator::checks();
    checks.extend(super::images::checks());
    vec![HostChecks {
        host: "dut",
        checks,
    }]
}

/// Runs all checks for a whole machine as a DUT. Whether its system lets us log in is shown by a
/// run.
pub fn machine(disk: Result<&Path, String>) -> Vec<HostChecks> {
    let mut checks = super::emulator::checks();
    checks.push(super::kvm::check());
    checks.push(match disk {
        Ok(path) => Check::ok("disk", format!("{} can be started", path.display())),
        Err(reason) => Check::fail(
            "disk",
            reason,
            "set host = \"vm:DISK\" with a disk that a machine starts from: raw, qcow2, vmdk, vdi",
        ),
    });
    vec![HostChecks {
        host: "dut",
        checks,
    }]
}

/// The fix for an error whose message contains what to do.
const RESOLVE: &str = "resolve this error, then run fwdlab doctor again";

/// A role in a test bed: its name, its host if that can be logged into, and its ports there with
/// their names in checks.
type Role<'a> = (
    &'static str,
    Option<&'a Place>,
    Vec<(&'static str, &'a str)>,
);

/// Runs all checks of a test bed, in the order in which a person would look. `program` is uploaded
/// to hosts that need an agent. Everything built for the checks is undone at once when `control`
/// stops them.
pub fn bed(bed: &TestBed, program: &Path, control: &Control) -> Vec<HostChecks> {
    let mut all = Vec::new();
    let site = match Site::existing(bed.clone(), program) {
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
    site.set_control(control);
    let mut places: Vec<Role<'_>> = Vec::new();
    for (number, port) in bed.tester_ports().into_iter().enumerate() {
        let key = ["port a", "port b", "port a"][number];
        match places.iter_mut().find(|(role, ..)| *role == port.role) {
            Some((.., ports)) => ports.push((key, port.port)),
            None => places.push((port.role, Some(port.host), vec![(key, port.port)])),
        }
    }
    let of_dut = bed.dut.ports.as_ref();
    let of_dut = of_dut.map_or_else(Vec::new, |ports| {
        vec![("port a", &*ports.a), ("port b", &*ports.b)]
    });
    places.push(("dut", bed.dut.host.as_ref(), of_dut));
    for (host, place, ports) in places {
        if control.is_stopped() {
            return all;
        }
        let Some(place) = place else {
            let reason = "a black box: it has no login";
            all.push(HostChecks {
                host,
                checks: vec![Check::skip("reached", reason)],
            });
            continue;
        };
        let checks = match existing::reach(place) {
            Ok(_) if host == "generator" && bed.generator.kind != PortKind::Interface => {
                check_user_ports(&site, bed.generator.kind)
            }
            Ok(there) => {
                let cli = existing::cli(bed, &there);
                let words = match host {
                    "dut" => existing::words(bed, &cli),
                    _ => PortCommands::Linux,
                };
                let tester = (host != "dut").then(|| existing::link_networks(bed));
                check_host(there.as_ref(), place, &ports, words, tester.as_deref())
            }
            Err(reason) => vec![Check::fail("reached", reason, "look at its address")],
        };
        all.push(HostChecks { host, checks });
    }
    if let Some(switch) = &bed.switch {
        all.push(HostChecks {
            host: "switch",
            checks: super::switch::checks(switch, &existing::addresses(bed).0),
        });
    }
    all.push(HostChecks {
        host: "links",
        checks: vec![same_mtu(bed)],
    });
    let is_there = all
        .iter()
        .all(|of| of.checks.iter().all(|c| !c.is_failure()));
    let mut checks = match is_there {
        true => check_path(bed, &site, control),
        false => vec![Check::skip("forwarding", "a host has failures")],
    };
    // only one process at a time can use the bed
    drop(site);
    let is_wanted = is_there && !control.is_stopped();
    if let (true, Some(reference)) = (is_wanted, bed.with_reference()) {
        checks.push(match bed_capacity(&reference, program, control) {
            Ok(words) => Check::ok("reference", words),
            Err(error) => Check::fail(
                "reference",
                error.to_string(),
                "check [reference] in the bed's file, and that it is connected in place of the DUT",
            ),
        });
    }
    all.push(HostChecks {
        host: "path",
        checks,
    });
    all
}

/// Compares the MTU of all ports that can be queried: a port silently drops frames that exceed its
/// own.
fn same_mtu(bed: &TestBed) -> Check {
    let (_, mtus) = existing::addresses(bed);
    let mut all: Vec<u32> = mtus.iter().map(|(_, mtu)| *mtu).collect();
    all.sort_unstable();
    all.dedup();
    match &all[..] {
        [] => Check::skip("same MTU", "no port reports its MTU"),
        [mtu] => Check::ok(
            "same MTU",
            format!("{mtu} at all {} ports whose MTU can be read", mtus.len()),
        ),
        _ => {
            let words: Vec<String> = mtus
                .iter()
                .map(|(port, mtu)| format!("{port} {mtu}"))
                .collect();
            Check::fail(
                "same MTU",
                format!("frames are lost where it is smaller: {}", words.join(", ")),
                "make them equal: ip link set dev PORT mtu 1500, or that of your longest frames",
            )
        }
    }
}

/// Measures what the test bed itself carries, with its reference in place of the DUT: smallest
/// frames, as fast as they can be sent.
fn bed_capacity(bed: &TestBed, program: &Path, control: &Control) -> Result<String, LabError> {
    let failed = |error: fwdlab_model::file::FileError| LabError::Preflight(error.to_string());
    let site = Site::existing(bed.clone(), program).map_err(failed)?;
    site.set_control(control);
    let placement = existing::placement(bed)?;
    let dut = campaign::Dut::default();
    let built = site.build(&Wanted::with_one_dut(&dut, &placement))?;
    settle(control)?;
    let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).expect("a stream that there is");
    let choice = Choice {
        mode: mode(bed.generator.engine),
        first: None,
        cpus: placement.generator_cpus.clone(),
        senders: placement.senders,
        prove: Some(stream.clone()),
        way_back: None,
        traffic: Vec::new(),
    };
    let (mut rig, chosen) = site.open(&built, &choice)?;
    rig.arm(Frames::Stream(&stream), None)?;
    rig.start(Schedule {
        load: LoadPlan::FlatOut,
        frames: None,
        at_most: CARRIED * 3,
        stall_policy: StallPolicy::Skip,
        path: 0,
    })?;
    rig.wait(CARRIED / 4);
    let from = rig.read()?;
    rig.wait(CARRIED);
    let to = rig.read()?;
    rig.stop()?;
    let sent = (to.sent[0] - from.sent[0]) as f64 / ((to.at_ns - from.at_ns) as f64 / 1e9);
    let span_s = (to.received_at_ns - from.received_at_ns) as f64 / 1e9;
    let carried = (to.received[0] - from.received[0]) as f64 / span_s;
    Ok(format!(
        "{} carries {:.0} kpps of 64 B frames, of {:.0} kpps that are offered ({}): the speed of a faster DUT cannot be measured here",
        match bed.dut.host {
            Some(_) => "a plain Linux router in place of the DUT",
            None => "a loop in place of the DUT",
        },
        carried / 1000.0,
        sent / 1000.0,
        chosen.words.split(' ').next().unwrap_or_default()
    ))
}

/// Checks one host. `tester`: the networks of the bed, if it is a host of the tester.
fn check_host(
    host: &dyn Host,
    place: &Place,
    ports: &[(&'static str, &str)],
    words: PortCommands<'_>,
    tester: Option<&[Network]>,
) -> Vec<Check> {
    let system = match host.query("uname", &["-s", "-r"]) {
        Ok(output) => output.trim().to_owned(),
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
    match host.query("id", &["-u"]) {
        Ok(id) if id.trim() == "0" => {}
        Ok(_) => checks.push(Check::fail(
            "privileges",
            "its user is not root, and ports and routes cannot be set",
            "reach it as root: ssh://root@...",
        )),
        Err(error) => checks.push(Check::skip("privileges", error.to_string())),
    }
    for &(key, port) in ports {
        let link = match ports::read_link(host, port, words) {
            Ok(link) => link,
            Err(error) => {
                checks.push(Check::fail(key, error.to_string(), "ip -brief link"));
                continue;
            }
        };
        let port = &*link.name;
        let spec = existing::spec(place, port);
        checks.push(match (tester, spec) {
            (Some(networks), Some(spec)) => {
                let look = || crate::ports::needed_by(&spec, networks);
                check_port(host, key, &link, &look)
            }
            _ => {
                let fix = "use another port in the test bed".to_owned();
                let look =
                    || Ok(ports::in_use(host, port, words)?.map(|reason| (reason, fix.clone())));
                check_port(host, key, &link, &look)
            }
        });
        // by ethtool
        if let PortCommands::Linux = words {
            checks.extend(offloads(host, port));
        }
    }
    if let (PortCommands::Linux, Place::Local | Place::Ssh(_)) = (words, place) {
        checks.extend(check_machine(host));
    }
    checks
}

/// Checks that the tester's ports have peers or links, if the kernel does not know these ports.
fn check_user_ports(site: &Site, kind: PortKind) -> Vec<Check> {
    let fix = match kind {
        PortKind::Dpdk => "is the cable in, and is the other end up?",
        _ => "start the DUT with this socket, the other role and the same id",
    };
    let ports = match site.user_ports() {
        Ok(ports) => ports,
        Err(error) => return vec![Check::fail("ports", error.to_string(), fix)],
    };
    let ports = ports
        .iter()
        .flat_map(|ports| [("port a", &ports.a), ("port b", &ports.b)]);
    let checks = ports.map(|(key, port)| match port.wait_for_peer(SETTLE) {
        Err(error) => Check::fail(key, error.to_string(), fix),
        Ok(words) => Check::ok(key, format!("{}: {words}", port.spec().interface)),
    });
    checks.collect()
}

/// Checks one port. `needed`: who needs the port, and what to do about it.
fn check_port(
    host: &dyn Host,
    key: &'static str,
    link: &ports::Link,
    needed: &dyn Fn() -> Result<Option<(String, String)>, LabError>,
) -> Check {
    let port = &*link.name;
    match needed() {
        Ok(None) => {}
        Ok(Some((reason, fix))) => {
            return Check::fail(
                key,
                format!("{port} cannot be used for tests: {reason}"),
                fix,
            );
        }
        Err(error) => return Check::fail(key, error.to_string(), RESOLVE),
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
            "check the cable and the other end, which may be down",
        ),
        (false, _) => Check::ok(key, format!("{words}, down: brought up for each run")),
    }
}

/// Checks settings that silently change figures: pause frames, and offloads that merge frames.
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

/// Returns a field in the output of ethtool, such as `driver: veth`; `None` if it is missing, or
/// ethtool is.
fn field(host: &dyn Host, arguments: &[&str], name: &str) -> Option<String> {
    let output = host.query("ethtool", arguments).ok()?;
    let lines = output
        .lines()
        .filter_map(|line| line.trim().split_once(':'));
    lines
        .filter(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .find(|value| !value.is_empty())
}

fn check_machine(host: &dyn Host) -> Vec<Check> {
    let mut checks = Vec::new();
    if host.query("pgrep", &["-x", "irqbalance"]).is_ok() {
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

/// Checks the path: unsolicited frames, and our own.
fn check_path(bed: &TestBed, site: &Site, control: &Control) -> Vec<Check> {
    match try_path(bed, site, control) {
        Ok(checks) => checks,
        Err(error) => vec![Check::fail("forwarding", error.to_string(), RESOLVE)],
    }
}

/// Checks that the DUT has permanent neighbour entries for its next hops. Ports of the tester do
/// not answer ARP, and a DUT that sends queries forwards nothing meanwhile.
fn static_neighbours(file: &TestBed, bed: &Bed) -> Check {
    let name = "static ARP";
    let Networks { input, output, .. } = bed.networks();
    let (Some(place), Some(ports)) = (&file.dut.host, &file.dut.ports) else {
        return match () {
            () if file.dut.is_loop => Check::skip(name, "a loop resolves no addresses"),
            () if file.generator.kind == PortKind::Interface => Check::ok(
                name,
                "the tester answers ARP and neighbour discovery of a black box",
            ),
            () => Check::warn(
                name,
                "a black box cannot be queried, and memif ports answer no ARP",
                format!(
                    "give it static entries: {} is at {}, {} at {}",
                    input.ipv4.next_hop,
                    mac(input.tester_mac),
                    output.ipv4.next_hop,
                    mac(output.tester_mac)
                ),
            ),
        };
    };
    if file.dut.kind != System::Linux {
        return Check::skip(
            name,
            "checked on Linux only; whether frames pass is checked below",
        );
    }
    let Ok(host) = existing::reach(place) else {
        return Check::skip(name, "the DUT cannot be reached");
    };
    for (port, side) in [(&ports.a, input), (&ports.b, output)] {
        let hop = side.ipv4.next_hop.to_string();
        let line = [
            "-4",
            "neigh",
            "show",
            "to",
            &hop,
            "dev",
            port,
            "nud",
            "permanent",
        ];
        match host.query("ip", &line) {
            Ok(printed) if printed.contains(&mac(side.tester_mac).to_string()) => {}
            Ok(_) => {
                return Check::fail(
                    name,
                    format!("the DUT has no permanent neighbour entry of {hop} at {port}"),
                    "find out what removes permanent neighbours there: ip monitor neigh",
                );
            }
            Err(error) => return Check::skip(name, error.to_string()),
        }
    }
    Check::ok(
        name,
        "the DUT's neighbours are permanent while it is measured",
    )
}

fn mode(engine: Engine) -> Option<Mode> {
    match engine {
        Engine::AfPacket => Some(Mode::AfPacket),
        Engine::AfXdp => Some(Mode::AfXdp),
        Engine::XdpLive => Some(Mode::XdpLive),
        Engine::Auto | Engine::Sim => None,
    }
}

/// Returns the frames that went into the DUT and out of it since `before`, by its own counters.
/// Some drivers update theirs every second.
fn frames_through(bed: &Bed, before: DutPorts, received: u64) -> Result<(u64, u64), LabError> {
    let started = Instant::now();
    loop {
        let now = bed.counters(0)?.dut.unwrap_or(before);
        let since = |now: (u64, u64), before: (u64, u64)| now.0.saturating_sub(before.0);
        let (input, output) = (
            since(now.input, before.input),
            since(now.output, before.output),
        );
        if input.min(output) >= received || started.elapsed() >= SETTLE {
            return Ok((input, output));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Checks that frames come back, and through the DUT. `frames_through`: counts of its ports, if
/// they can be read.
fn forwards(name: &'static str, proof: &Proof, through: Option<(u64, u64)>, fix: String) -> Check {
    let Proof { sent, received, .. } = *proof;
    let words = format!("{received} of {sent} frames came back");
    match through {
        _ if received == 0 => Check::fail(name, words, fix),
        // other hosts may send there, too
        Some((input, output)) if input.min(output) < received => Check::fail(
            name,
            format!(
                "{words}, but not all of them through the DUT: its ports counted {input} in and {output} out"
            ),
            "check the cables and the switch: frames get from the tester's port a to its port b without the DUT, or another \
             device has the DUT's address",
        ),
        _ if received < sent => Check::warn(name, words, "find where they are lost: fwdlab trial"),
        Some(_) => Check::ok(name, words),
        None => Check::ok(
            name,
            format!(
                "{words}; it is not known whether they passed the DUT: its counters cannot be read"
            ),
        ),
    }
}

/// Sends frames that end at a router, for a black box whose counters cannot be read.
fn last_hop(rig: &mut dyn Rig, addresses: Addresses) -> Result<Proof, LabError> {
    let failed = |e: &dyn std::fmt::Display| LabError::Preflight(e.to_string());
    let profile = Profile::parse("last hop", LAST_HOP).map_err(|e| failed(&e))?;
    let setting = Setting {
        direction: Direction::Forward,
        addresses,
        vlan: None,
        link: None,
        read: &|_| Err(std::io::ErrorKind::NotFound.into()),
    };
    let traffic = compile(&profile, &setting).map_err(|e| failed(&e))?.traffic;
    rig.arm(Frames::Traffic(&Arc::new(traffic)), None)?;
    rig.start(Schedule {
        load: LoadPlan::Constant(LAST_HOP_PPS),
        frames: Some(FRAMES),
        at_most: SETTLE,
        stall_policy: StallPolicy::CatchUp { most_pps: None },
        path: 0,
    })?;
    while !rig.is_done() {
        rig.wait(Duration::from_millis(5));
    }
    let last = rig.stop()?;
    Ok(Proof {
        // no router forwards them, so they count beside the others
        sent: last.beside[0],
        received: last.received[0],
    })
}

/// Judges whether frames get past a black box, by those with TTL 1.
fn bypass(proof: &Proof) -> Check {
    let Proof { sent, received } = *proof;
    let name = "bypass";
    match (sent, received) {
        (0, _) => Check::skip(name, "the tester sent no frame with TTL 1"),
        (_, 0) => Check::ok(
            name,
            format!(
                "none of {sent} frames with TTL 1 came back: no cable, bridge or switch leads past the DUT. Another router in its \
                 place cannot be excluded"
            ),
        ),
        _ => Check::warn(
            name,
            format!(
                "{received} of {sent} frames with TTL 1 came back, which a router drops: the ports of the tester are joined without \
                 the DUT, or the DUT does not decrement the TTL (some firewalls do not)"
            ),
            "disconnect the DUT and run this again: if frames still come back, look at the cables and bridges between the tester's ports",
        ),
    }
}

/// Waits for the frames that a new link causes.
fn settle(control: &Control) -> Result<(), LabError> {
    let started = Instant::now();
    while started.elapsed() < SETTLE {
        check_not_stopped(control)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn check_not_stopped(control: &Control) -> Result<(), LabError> {
    match control.is_stopped() {
        true => Err(LabError::Interrupted),
        false => Ok(()),
    }
}

fn try_path(file: &TestBed, site: &Site, control: &Control) -> Result<Vec<Check>, LabError> {
    let placement = existing::placement(file)?;
    let dut = campaign::Dut::default();
    let requested = Wanted::with_one_dut(&dut, &placement);
    let bed = site.build(&requested)?;
    let mut checks = Vec::new();
    settle(control)?;
    let noise = match bed.has_links() {
        true => site.capture_noise(&bed, IDLE)?,
        false => Vec::new(),
    };
    checks.extend(match (bed.has_links(), noise.is_empty()) {
        (true, true) => Some(Check::ok("idle links", "no other host sends there")),
        (true, false) => None,
        (false, _) => Some(Check::skip(
            "idle links",
            "a memif port has a single peer, the DUT",
        )),
    });
    for Noise {
        port,
        what: action,
        frames,
    } in noise
    {
        let fix = match noise::is_switch_noise(&action) {
            true => format!(
                "switch it off at the switch's port; the lines for one: fwdlab bed switch-config --vendor cisco {}",
                file.name
            ),
            false => format!("find the sender: fwdlab traffic capture --port {port}"),
        };
        let words = format!(
            "{action} at {port}: {frames} {} in three idle seconds",
            if frames == 1 { "frame" } else { "frames" }
        );
        checks.push(Check::warn("idle links", words, fix));
    }
    checks.push(static_neighbours(file, &bed));
    let stream = |version| {
        let stream = Stream::new(version, FrameSize::new(128).expect("a frame size"), 10);
        stream.expect("flows that there are")
    };
    check_not_stopped(control)?;
    let mut choice = Choice {
        mode: mode(file.generator.engine),
        first: None,
        cpus: placement.generator_cpus.clone(),
        senders: placement.senders,
        prove: Some(stream(IpVersion::Ipv4)),
        way_back: None,
        traffic: Vec::new(),
    };
    let (mut rig, chosen) = match site.open(&bed, &choice) {
        Ok(opened) => opened,
        // if the DUT forwards nothing, no engine can prove itself: the frames sent below show where
        // they are lost
        Err(_) => {
            choice.prove = None;
            // the one that works on every such port
            choice.mode = choice.mode.or(Mode::of(&bed.paths()[0].tx).last().copied());
            site.open(&bed, &choice)?
        }
    };
    checks.push(Check::ok("engine", chosen.words));
    let mut came_back = false;
    for (name, version) in [
        ("forwarding IPv4", IpVersion::Ipv4),
        ("forwarding IPv6", IpVersion::Ipv6),
    ] {
        check_not_stopped(control)?;
        let before = bed.counters(0)?.dut;
        let proof = rig.prove(0, &stream(version), FRAMES)?;
        came_back |= version == IpVersion::Ipv4 && proof.received > 0;
        let through = match before {
            Some(before) => Some(frames_through(&bed, before, proof.received)?),
            None => None,
        };
        let fix = format!(
            "check the DUT (ip route get {}, nft list ruleset) and the cables: port a must be connected to port a",
            bed.networks().output.ipv4.first
        );
        checks.push(forwards(name, &proof, through, fix));
    }
    if file.dut.host.is_none() {
        checks.push(match () {
            () if file.dut.is_loop => Check::skip("bypass", "a loop has no DUT"),
            () if came_back => bypass(&last_hop(rig.as_mut(), bed.networks().forward())?),
            () => Check::skip("bypass", "not known: no frame came back at all"),
        });
    }
    drop(rig);
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;
    use crate::host::Local;

    #[test]
    fn frames_that_come_back_have_to_go_through_the_dut() {
        let of = |received, through| {
            let proof = Proof {
                sent: 100,
                received,
            };
            forwards("forwarding IPv4", &proof, through, "look".into())
        };
        for (received, through, expected, words) in [
            (
                100,
                Some((100, 100)),
                Status::Ok,
                "100 of 100 frames came back",
            ),
            // other hosts send on its links, too
            (100, Some((107, 103)), Status::Ok, "100 of 100"),
            (90, Some((100, 90)), Status::Warn, "90 of 100"),
            (0, Some((100, 0)), Status::Fail, "0 of 100"),
            (
                100,
                Some((0, 0)),
                Status::Fail,
                "its ports counted 0 in and 0 out",
            ),
            (
                100,
                Some((100, 3)),
                Status::Fail,
                "counted 100 in and 3 out",
            ),
            (100, None, Status::Ok, "counters cannot be read"),
            (0, None, Status::Fail, "0 of 100"),
        ] {
            let check = of(received, through);
            assert_eq!(check.status, expected, "{check:?}");
            assert!(check.finding.contains(words), "{check:?}");
        }
    }

    /// In the second tier, because they take long.
    mod slow {
        use super::*;

        /// Two ports of the tester that are joined directly, and two with a router in between: its
        /// counters are not read.
        #[test]
        fn frames_that_get_past_a_black_box_are_noticed() {
            let test = "frames_that_get_past_a_black_box_are_noticed";
            if !crate::user_namespace::is_root() {
                return println!("SKIPPED: {test}: not root");
            }
            let found = |tester: &str, ports: [&str; 2], macs: [&str; 2]| {
                let [a, b] = ports;
                let text = format!(
                    "bed = 'bypass-{}'\n[generator]\nhost = 'netns:{tester}'\nengine = 'af-packet'\nports = {{ a = '{a}', b = '{b}' }}\n\
                     [dut]\nkind = 'none'\nmacs = {{ a = '{}', b = '{}' }}\n",
                    std::process::id(),
                    macs[0],
                    macs[1]
                );
                let bed = TestBed::parse("bypass.toml", &text).unwrap();
                let site = Site::existing(bed.clone(), Path::new("none")).unwrap();
                let checks = try_path(&bed, &site, &Control::default()).unwrap();
                let found = checks.into_iter().find(|check| check.name == "bypass");
                found.map(|check| (check.status, check.finding))
            };
            let name = format!("bypass-{}", std::process::id());
            let ip = |line: &str| Local.query("ip", &line.split(' ').collect::<Vec<_>>());
            ip(&format!("netns add {name}")).unwrap();
            ip(&format!("-n {name} link add ta type veth peer name tb")).unwrap();
            ip(&format!("-n {name} link add tc type veth peer name td")).unwrap();
            let any = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"];
            for port in ["tb", "td"] {
                ip(&format!("-n {name} link set {port} up")).unwrap();
            }
            let nowhere = found(&name, ["ta", "tc"], any);
            assert_eq!(nowhere.unwrap().0, Status::Skip);
            let wire = found(&name, ["ta", "tb"], any);
            ip(&format!("netns del {name}")).unwrap();
            let (status, words) = wire.unwrap();
            assert!(
                status == Status::Warn && words.contains("100 of 100 frames with TTL 1"),
                "{words}"
            );

            let embedded = Bed::up(1, &crate::placement::Placement::default(), false).unwrap();
            let Networks { input, output, .. } = *embedded.networks();
            let macs = [input, output].map(|side| mac(side.dut_mac).to_string());
            let router = found(
                embedded.generator(),
                ["tx0", "rx0"],
                macs.each_ref().map(String::as_str),
            );
            let (status, words) = router.unwrap();
            assert!(
                status == Status::Ok && words.contains("none of 100 frames"),
                "{words}"
            );
            assert!(words.contains("cannot be excluded"), "{words}");
        }
    }
}
