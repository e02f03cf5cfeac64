//! Safe use of ports: checks the use of an interface before frames are sent on it or a program is
//! attached to it.
//!
//! A port that is needed for something else is refused unless each of its dangers is accepted by
//! name; a port that another fwdlab uses is always refused. Engines do everything else on the port.
//! Start with [`Port::take`], or with [`TrafficPort::take`] for ports that the kernel may not know;
//! [`destinations`] judges addresses, [`interface_facts`] reads the kernel's facts about an
//! interface, `next_interfaces` follows frames that are sent on it, [`lock`] excludes other
//! fwdlabs. Ports in a test-bed file are judged in the same way, with messages for the owner of the
//! file: `claim`.

pub mod answering;
mod binding;
mod card;
mod changes;
pub mod counters;
mod danger;
pub mod destinations;
mod egress;
mod held_settings;
pub mod interface_facts;
pub mod lock;
pub(crate) mod noise;
pub mod private;
pub(crate) mod routes;
pub mod state;
mod sys;
mod traffic_port;
mod user_port;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::PortSpec;

use self::changes::{Bytes, Disabled, Ipv6, Mtu};
use self::held_settings::HeldSetting;
pub use card::Stamping;
pub use danger::{Danger, dangers};
pub use interface_facts::Facts;
pub use lock::{Lock, Role};
pub use traffic_port::TrafficPort;
pub use user_port::{UserCounts, UserPort};

use crate::error::LabError;
use crate::host::wire::Network;

/// Time limit for the link of a port, and the interval of checks.
const LINK_PATIENCE: Duration = Duration::from_secs(4);
const LINK_POLL: Duration = Duration::from_millis(20);

/// An interface that is ours to use until this value is dropped or the process ends, however it
/// ends.
#[derive(Debug)]
pub struct Port {
    /// Its location, by its own name.
    pub spec: PortSpec,
    /// Its properties.
    pub facts: Facts,
    silence: Option<HeldSetting<Ipv6>>,
    mtu: Option<HeldSetting<Mtu>>,
    _locks: Vec<Lock>,
}

impl Port {
    /// Inspects an interface, refuses it if it is in use, and reserves it against other fwdlabs.
    ///
    /// `accepted` are the dangers that the user has explicitly accepted.
    ///
    /// # Errors
    /// [`LabError::Preflight`]: there is no such interface, it is down, in use, or another fwdlab
    /// has it. Nothing was changed.
    pub fn take(spec: &PortSpec, roles: &[Role], accepted: &[Danger]) -> Result<Port, LabError> {
        held_settings::sweep();
        let facts = interface_facts::read_facts(spec)?;
        let spec = &facts.spec_in(spec);
        let mut found = dangers_of(spec, &facts, roles)?;
        found.retain(|(danger, _)| !accepted.contains(danger));
        if !found.is_empty() {
            return Err(refusal(spec, roles, &found));
        }
        if !facts.up {
            return Err(LabError::Preflight(format!(
                "{} is down. Bring it up with: ip {}link set {} up",
                spec.interface,
                in_netns(spec),
                spec.interface
            )));
        }
        wait_for_link(spec)?;
        Ok(Port {
            spec: spec.clone(),
            _locks: locks(spec, &facts, roles)?,
            facts,
            silence: None,
            mtu: None,
        })
    }

    /// Returns a port that we made ourselves, or that another value of ours reserves.
    ///
    /// # Errors
    /// Fails if there is no such port, or if it has no link.
    pub fn own_port(spec: &PortSpec) -> Result<Port, LabError> {
        let facts = interface_facts::read_facts(spec)?;
        let spec = facts.spec_in(spec);
        wait_for_link(&spec)?;
        Ok(Port {
            spec,
            facts,
            silence: None,
            mtu: None,
            _locks: Vec::new(),
        })
    }

    /// Keeps the kernel from sending frames of its own while the port is ours, by disabling IPv6,
    /// which restores its link-local address by itself when it is enabled again. `false`: the port
    /// has IPv6 addresses that would be lost, and nothing was changed.
    ///
    /// # Errors
    /// Fails if IPv6 cannot be disabled, or the record cannot be written.
    pub fn silence(&mut self) -> Result<bool, LabError> {
        let is_set = |address: &IpAddr| match address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        };
        if self.facts.addresses.iter().any(is_set) {
            return Ok(false);
        }
        let requested = Disabled { disable_ipv6: 1 };
        self.silence = Some(HeldSetting::take(Ipv6, &self.spec, requested)?);
        Ok(true)
    }

    /// Raises the port's MTU to this number of bytes while it is ours. Call this before programs
    /// are attached to it: drivers refuse longer frames afterwards.
    ///
    /// # Errors
    /// Fails if the port does not support it, or the record cannot be written.
    pub fn raise_mtu(&mut self, bytes: u32) -> Result<(), LabError> {
        let held = HeldSetting::take(Mtu, &self.spec, Bytes { mtu: bytes })?;
        self.facts.mtu = held.got.mtu;
        self.mtu = Some(held);
        Ok(())
    }
}

/// Returns the same interface by its own name. A missing interface keeps the given name, so that
/// taking it reports the error.
pub fn by_own_name(spec: PortSpec) -> PortSpec {
    match interface_facts::own_name(&spec) {
        Ok(Some(interface)) => PortSpec { interface, ..spec },
        _ => spec,
    }
}

/// Returns everything that speaks against this use of an interface.
fn dangers_of(
    spec: &PortSpec,
    facts: &Facts,
    roles: &[Role],
) -> Result<Vec<(Danger, String)>, LabError> {
    let mut found = dangers(facts);
    if roles.contains(&Role::Send) {
        found.extend(danger::dangers_beyond(&egress::next_interfaces(spec)?));
    }
    // a program looks at arriving frames: it conflicts with another program, and not with sending
    found.retain(|(danger, _)| *danger != Danger::XdpProgram || roles.contains(&Role::Receive));
    Ok(found)
}

fn locks(spec: &PortSpec, facts: &Facts, roles: &[Role]) -> Result<Vec<Lock>, LabError> {
    let locks = roles
        .iter()
        .map(|&role| Lock::take(spec, &facts.index.to_string(), role));
    locks.collect()
}

/// Uses of a tester's port in a test bed: frames are sent there, or received, or both.
const OF_TESTERS: [Role; 2] = [Role::Send, Role::Receive];

/// A tester's port of a test bed, reserved against other fwdlabs as long as this lives. It may be
/// down; the caller takes it up.
#[derive(Debug)]
pub(crate) struct Claimed {
    _locks: Vec<Lock>,
}

/// Reserves a tester's port of a test bed. Addresses in the `networks` of its links are no danger.
///
/// # Errors
/// [`LabError::Preflight`]: the port is in use, or another fwdlab has it; with advice for the owner
/// of the bed's file.
pub(crate) fn claim(spec: &PortSpec, networks: &[Network]) -> Result<Claimed, LabError> {
    held_settings::sweep();
    let facts = interface_facts::read_facts(spec)?;
    let spec = &facts.spec_in(spec);
    match needed(spec, &facts, networks)? {
        Some((reason, instead)) => Err(LabError::Preflight(format!(
            "{} cannot be used for tests: {reason}. Use another port in the test bed, or {instead}",
            spec.interface
        ))),
        None => Ok(Claimed {
            _locks: locks(spec, &facts, &OF_TESTERS)?,
        }),
    }
}

/// Returns who needs a tester's port of a test bed, and what to do about it, without changing the
/// port.
///
/// # Errors
/// Fails if there is no such port.
pub(crate) fn needed_by(
    spec: &PortSpec,
    networks: &[Network],
) -> Result<Option<(String, String)>, LabError> {
    let facts = interface_facts::read_facts(spec)?;
    needed(&facts.spec_in(spec), &facts, networks)
}

fn needed(
    spec: &PortSpec,
    facts: &Facts,
    networks: &[Network],
) -> Result<Option<(String, String)>, LabError> {
    let is_of_bed = |address: &IpAddr| match address {
        IpAddr::V4(address) => networks.iter().any(|(network, length)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
            u32::from(*address) & mask == u32::from(*network)
        }),
        IpAddr::V6(_) => false,
    };
    let mut facts = facts.clone();
    facts.addresses.retain(|address| !is_of_bed(address));
    facts.neighbours.retain(|address| !is_of_bed(address));
    let own = dangers(&facts);
    let beyond = danger::dangers_beyond(&egress::next_interfaces(spec)?);
    let mut instead: Vec<String> = own.iter().map(|(danger, _)| danger.instead(spec)).collect();
    instead.dedup();
    if !beyond.is_empty() {
        instead.push("join it with nothing but the test bed".into());
    }
    let reasons: Vec<&str> = own
        .iter()
        .chain(&beyond)
        .map(|(_, words)| words.as_str())
        .collect();
    Ok((!reasons.is_empty()).then(|| (reasons.join("; "), instead.join(", and "))))
}

/// Waits for the link: one that was just set up may need some seconds.
fn wait_for_link(spec: &PortSpec) -> Result<(), LabError> {
    let started = Instant::now();
    loop {
        match state::check(spec) {
            Ok(()) => return Ok(()),
            Err(_) if started.elapsed() < LINK_PATIENCE => thread::sleep(LINK_POLL),
            Err(error) => {
                return Err(LabError::Preflight(format!(
                    "{error}. Is the cable in, and is the other end up?"
                )));
            }
        }
    }
}

/// Returns the file of a network namespace from a name (`ip netns`), a path, or the id of a
/// process.
pub fn netns(name: &str) -> PathBuf {
    if name.contains('/') {
        PathBuf::from(name)
    } else if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        Path::new("/proc").join(name).join("ns/net")
    } else {
        Path::new("/run/netns").join(name)
    }
}

fn in_netns(spec: &PortSpec) -> String {
    match &spec.netns {
        Some(path) if path.starts_with("/run/netns") => match path.file_name() {
            Some(name) => format!("-n {} ", name.to_string_lossy()),
            None => String::new(),
        },
        _ => String::new(),
    }
}

fn refusal(spec: &PortSpec, roles: &[Role], found: &[(Danger, String)]) -> LabError {
    let action = if roles.contains(&Role::Send) {
        "refusing to send on"
    } else {
        "refusing to attach to"
    };
    let reasons: Vec<&str> = found.iter().map(|(_, words)| words.as_str()).collect();
    let mut flags: Vec<&str> = Vec::new();
    for (danger, _) in found {
        if !flags.contains(&danger.flag()) {
            flags.push(danger.flag());
        }
    }
    LabError::Preflight(format!(
        "{action} {}: {}. Use another port, or, if nothing else uses this one, add {}",
        spec.interface,
        reasons.join("; "),
        flags.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Host, Local};

    #[test]
    fn namespaces_by_name_path_or_pid() {
        assert_eq!(netns("gen"), Path::new("/run/netns/gen"));
        assert_eq!(netns("42"), Path::new("/proc/42/ns/net"));
        assert_eq!(netns("/proc/self/ns/net"), Path::new("/proc/self/ns/net"));
    }

    /// A port with two names and half a default route; behind its other end, in a namespace without
    /// a name, is a bridge that leads back to a bridge with an address that is in use.
    #[test]
    fn a_port_is_judged_by_its_own_name_and_by_where_frames_go() {
        let test = "a_port_is_judged_by_its_own_name_and_by_where_frames_go";
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: {test}: needs root");
        }
        // the namespace is this thread's
        let netns = private::namespace_with_pair(1).unwrap();
        let spec = PortSpec {
            netns: Some(netns),
            interface: "harmless0".into(),
        };
        let ip = |lines: &str| Local.feed("ip", &["-batch", "-"], lines);
        let refused = |accepted: &[Danger]| {
            let taken = Port::take(&spec, &[Role::Send], accepted);
            taken
                .map(|port| port.spec.interface)
                .map_err(|e| e.to_string())
        };
        ip("link property add dev a altname harmless0\n").unwrap();
        assert_eq!(refused(&[]).as_deref(), Ok("a"));
        for route in ["default", "0.0.0.0/1", "128.0.0.0/1"] {
            ip(&format!("route add {route} dev a\n")).unwrap();
            let error = refused(&[]).unwrap_err();
            assert!(
                error.starts_with("refusing to send on a: it carries "),
                "{error}"
            );
            assert!(error.contains("--allow-default-route"), "{error}");
            assert_eq!(refused(&[Danger::DefaultRoute]).as_deref(), Ok("a"));
            ip(&format!("route del {route} dev a\n")).unwrap();
        }
        let mut container = std::process::Command::new("unshare")
            .args(["--net", "sh", "-c", "echo there; exec cat"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = [0; 6];
        let output = container.stdout.as_mut().unwrap();
        std::io::Read::read_exact(output, &mut printed).unwrap();
        let pid = container.id();
        ip(&format!(
            "link add c type veth peer name d\nlink set dev b netns {pid}\nlink set dev c netns {pid}\n\
             link add up0 type bridge\nlink set dev d master up0\nlink set dev up0 up\nlink set dev d up\n\
             addr add 10.9.8.7/24 dev up0\n"
        ))
        .unwrap();
        let inside = "ip link add br0 type bridge; for port in b c; do ip link set dev $port master br0; \
                      ip link set dev $port up; done; ip link set br0 up";
        let target = format!("--net=/proc/{pid}/ns/net");
        Local
            .query("nsenter", &[&target, "sh", "-c", inside])
            .unwrap();
        let error = refused(&[]).unwrap_err();
        drop(container.stdin.take());
        container.wait().unwrap();
        assert!(
            error.contains("go to up0, which has d, the other end of c, as a port, and it has the address 10.9.8.7"),
            "{error}"
        );
    }

    #[test]
    fn a_beds_own_addresses_are_safe_and_others_need_an_option() {
        let spec = PortSpec {
            netns: Some("/run/netns/fwdlab-nosuch".into()),
            interface: "eth0".into(),
        };
        let of = |danger: Danger| danger.instead(&spec);
        assert_eq!(
            of(Danger::Member),
            "remove it from there: ip -n fwdlab-nosuch link set eth0 nomaster"
        );
        for danger in [
            Danger::DefaultRoute,
            Danger::Address,
            Danger::InUse,
            Danger::XdpProgram,
            Danger::TestBed,
        ] {
            assert!(!of(danger).contains("--allow"), "{danger:?}");
        }
        let spec = PortSpec {
            netns: None,
            interface: "lo".into(),
        };
        let facts = |addresses: &[&str]| Facts {
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            ..Facts::default()
        };
        let networks = [("10.77.1.0".parse().unwrap(), 24)];
        let judged = |facts: &Facts| needed(&spec, facts, &networks);
        match judged(&facts(&["10.77.1.2", "198.19.0.2"])) {
            Err(error) => {
                println!(
                    "SKIPPED: a_beds_own_addresses_are_safe_and_others_need_an_option: {error}"
                );
            }
            Ok(found) => {
                assert_eq!(found, None);
                let (reason, instead) = judged(&facts(&["10.77.2.2"])).unwrap().unwrap();
                assert!(reason.contains("10.77.2.2"), "{reason}");
                assert_eq!(instead, "remove its addresses: ip addr flush dev lo");
            }
        }
    }

    #[test]
    fn a_refusal_has_a_reason_and_the_option_that_allows_it() {
        let spec = PortSpec {
            netns: None,
            interface: "eth0".into(),
        };
        let found = [
            (Danger::Address, "it has the address 10.0.0.5".to_owned()),
            (Danger::Address, "it has the address 10.0.0.6".to_owned()),
            (
                Danger::DefaultRoute,
                "it carries the default route".to_owned(),
            ),
        ];
        let words = refusal(&spec, &[Role::Send], &found).to_string();
        assert_eq!(
            words,
            "refusing to send on eth0: it has the address 10.0.0.5; it has the address 10.0.0.6; it carries the default \
             route. Use another port, or, if nothing else uses this one, add --allow-address --allow-default-route"
        );
    }
}
