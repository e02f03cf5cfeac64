//! Judges from facts alone whether an interface is in use by others; each danger has its own text
//! and its own option.
//!
//! [`interface_facts`](super::interface_facts) reads the facts; this has no I/O, so that tests can
//! use values of machines that we do not have. Start with [`dangers`].

use std::net::IpAddr;

use fwdlab_engine::PortSpec;

use super::destinations::is_for_tests;
use super::egress::NextInterface;
use super::interface_facts::Facts;
use super::routes;

/// A reason not to use an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Danger {
    /// A default route uses it.
    DefaultRoute,
    /// It has an address that is not a test address.
    Address,
    /// It has active connections.
    InUse,
    /// It is a port of a bridge or bond, is one with ports, or has interfaces on top of it.
    Member,
    /// An XDP program is attached to it.
    XdpProgram,
    /// It is in the test bed of a running measurement.
    TestBed,
}

impl Danger {
    /// Returns the option with which a user accepts it.
    pub fn flag(self) -> &'static str {
        match self {
            Danger::DefaultRoute => "--allow-default-route",
            Danger::Address => "--allow-address",
            Danger::InUse => "--allow-in-use",
            Danger::Member => "--allow-in-bridge",
            Danger::XdpProgram => "--allow-xdp-program",
            Danger::TestBed => "--allow-in-test-bed",
        }
    }

    /// Returns the remedy for the owner of a test-bed file that contains the interface.
    pub(super) fn instead(self, spec: &PortSpec) -> String {
        let (ip, port) = (super::in_netns(spec), &spec.interface);
        match self {
            Danger::DefaultRoute => "give the default route another interface".into(),
            Danger::Address => format!("remove its addresses: ip {ip}addr flush dev {port}"),
            Danger::InUse => "stop the programs that use it".into(),
            Danger::Member => format!("remove it from there: ip {ip}link set {port} nomaster"),
            Danger::XdpProgram => {
                format!("detach the program: ip {ip}link set dev {port} xdp off")
            }
            Danger::TestBed => "wait until that measurement has ended".into(),
        }
    }
}

/// Returns the dangers of an interface, in words.
pub fn dangers(facts: &Facts) -> Vec<(Danger, String)> {
    let mut found = Vec::new();
    let mut danger = |danger, words: String| found.push((danger, words));
    if let Some(prefix) = &facts.default_route {
        danger(Danger::DefaultRoute, routes::words(prefix));
    }
    for address in facts.addresses.iter().filter(|a| is_in_use(**a)) {
        danger(
            Danger::Address,
            format!("it has the address {address}, which is not a test address"),
        );
    }
    if let Some(connection) = facts.connections.first() {
        let more = match facts.connections.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        danger(Danger::InUse, format!("{connection}{more}"));
    }
    for neighbour in facts.neighbours.iter().filter(|a| is_in_use(**a)).take(1) {
        danger(
            Danger::InUse,
            format!("{neighbour} is an active neighbour of it"),
        );
    }
    if let Some(master) = &facts.master {
        danger(Danger::Member, format!("it is a port of {master}"));
    }
    if let Some(port) = facts.ports.first() {
        danger(Danger::Member, format!("{port} is a port of it"));
    }
    if let Some(above) = facts.above.first() {
        danger(Danger::Member, format!("{above} is on top of it"));
    }
    if let Some(program) = &facts.xdp_program {
        danger(
            Danger::XdpProgram,
            format!("the XDP program {program} is attached to it"),
        );
    }
    if let Some(lab) = &facts.test_bed {
        danger(
            Danger::TestBed,
            format!("a measurement uses its test bed {lab}"),
        );
    }
    found
}

/// Returns the dangers of what lies beyond an interface, in words.
pub fn dangers_beyond(beyond: &[NextInterface]) -> Vec<(Danger, String)> {
    let of = |station: &NextInterface| {
        let way = format!("frames sent on it go to {}, and ", station.link);
        let found = dangers(&station.facts).into_iter();
        found.map(move |(danger, words)| (danger, format!("{way}{words}")))
    };
    beyond.iter().flat_map(of).collect()
}

/// Returns true if the address may be used to reach this host, or a host from it.
fn is_in_use(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !link_local && !is_for_tests(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(facts: &Facts) -> Vec<Danger> {
        dangers(facts)
            .into_iter()
            .map(|(danger, _)| danger)
            .collect()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_lab_port_is_no_danger() {
        let facts = Facts {
            addresses: [
                "198.18.0.2",
                "2001:2::2",
                "fe80::1",
                "192.0.2.7",
                "2001:db8::7",
            ]
            .map(address)
            .to_vec(),
            neighbours: vec![address("198.18.0.1"), address("fe80::2")],
            ..Facts::default()
        };
        assert_eq!(kinds(&facts), []);
        assert_eq!(kinds(&Facts::default()), []);
    }

    #[test]
    fn every_danger_has_its_flag() {
        let facts = Facts {
            default_route: Some("default".into()),
            addresses: vec![
                address("192.168.1.5"),
                address("2a00::5"),
                address("127.0.0.1"),
            ],
            connections: vec!["a".into(), "b".into()],
            neighbours: vec![address("192.168.1.1"), address("192.168.1.2")],
            master: Some("br0".into()),
            ports: vec!["eth1".into()],
            above: vec!["eth0.7".into()],
            xdp_program: Some("xdp_filter (id 7)".into()),
            test_bed: Some("ab3d".into()),
            ..Facts::default()
        };
        let found = dangers(&facts);
        assert_eq!(
            kinds(&facts),
            [
                Danger::DefaultRoute,
                Danger::Address,
                Danger::Address,
                Danger::Address,
                Danger::InUse,
                Danger::InUse,
                Danger::Member,
                Danger::Member,
                Danger::Member,
                Danger::XdpProgram,
                Danger::TestBed
            ]
        );
        assert!(found[4].1.ends_with("a and 1 more"), "{found:?}");
        let mut flags: Vec<&str> = found.iter().map(|(danger, _)| danger.flag()).collect();
        flags.sort_unstable();
        flags.dedup();
        assert_eq!(flags.len(), 6);
        assert!(flags.iter().all(|flag| flag.starts_with("--allow-")));
    }

    #[test]
    fn interfaces_behind_a_port_are_judged_like_the_port() {
        let station = |way: &str, has_default: bool| NextInterface {
            link: way.into(),
            facts: Facts {
                default_route: has_default.then(|| "0.0.0.0/1".into()),
                ..Facts::default()
            },
        };
        assert_eq!(dangers_beyond(&[station("pb, a port of br0", false)]), []);
        let found = dangers_beyond(&[
            station("br0, of which pb is a port", false),
            station("eth0, a port of br0", true),
        ]);
        let words = "frames sent on it go to eth0, a port of br0, and it carries a part of a default route (0.0.0.0/1)";
        assert_eq!(found, [(Danger::DefaultRoute, words.to_owned())]);
    }
}
