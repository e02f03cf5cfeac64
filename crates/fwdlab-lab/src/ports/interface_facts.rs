//! Reads the kernel's facts about an interface: its address, speed and state, and its users.
//!
//! Facts only, read with `ip -j` and from /proc in the interface's namespace;
//! [`dangers`](super::dangers) judges them. An interface can be requested by any of its names;
//! everything is read by its own name. Start with [`read_facts`].

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fwdlab_engine::PortSpec;
use serde_json::Value;

use crate::error::LabError;
use crate::host::registry::Registry;
use crate::host::{Host, Local};

/// Facts about an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its own name, which routes and counters use; `ip link property` and udev give it others.
    pub name: String,
    /// Its index in its namespace.
    pub index: u32,
    /// Its link-layer address, if it is an Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Largest IP packet that it accepts, in bytes.
    pub mtu: u32,
    /// Administrative state.
    pub up: bool,
    /// True if the link has a carrier.
    pub carrier: bool,
    /// Kind of virtual interface: `veth`, `bridge`; `None` for hardware.
    pub kind: Option<String>,
    /// Its speed in bit/s; `None` if it has none, as virtual interfaces.
    pub speed_bps: Option<u64>,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The prefix of a default route through it, or of a part of one.
    pub default_route: Option<String>,
    /// Connections with one of its addresses, in words.
    pub connections: Vec<String>,
    /// Neighbours that answered in the last seconds.
    pub neighbours: Vec<IpAddr>,
    /// The bridge or bond it is a port of.
    pub master: Option<String>,
    /// Interfaces on top of it, such as VLANs.
    pub above: Vec<String>,
    /// Its own ports, if it is a bridge or bond.
    pub ports: Vec<String>,
    /// The XDP program attached to it.
    pub xdp_program: Option<String>,
    /// The lab whose test bed contains it, if a process uses that.
    pub test_bed: Option<String>,
}

impl Facts {
    /// Returns the interface that these facts describe, by its own name.
    pub(super) fn spec_in(&self, spec: &PortSpec) -> PortSpec {
        PortSpec {
            netns: spec.netns.clone(),
            interface: self.name.clone(),
        }
    }
}

/// Returns the interface's own name; `None` if there is no such interface.
pub(super) fn own_name(spec: &PortSpec) -> Result<Option<String>, LabError> {
    let links = within(&spec.netns, links)?;
    Ok(link_of(&links, &spec.interface).and_then(|link| word(&link["ifname"])))
}

/// Reads the facts about an interface.
///
/// # Errors
/// [`LabError::Preflight`]: there is no such interface or namespace; [`LabError::Host`]: no `ip`.
pub fn read_facts(spec: &PortSpec) -> Result<Facts, LabError> {
    if !spec.is_interface() {
        let kind = if spec.is_memif() { "memif" } else { "DPDK" };
        return Err(LabError::Preflight(format!(
            "{} is a {kind} port, and a network interface is needed here. {kind} ports work with \
             traffic send, receive, ping and selftest, and in test beds",
            spec.interface
        )));
    }
    let test_beds = test_beds();
    within(&spec.netns, || {
        let links = links()?;
        let mut facts = links_of(&links, &spec.interface).ok_or_else(|| {
            LabError::Preflight(format!(
                "there is no interface {}{}; there are: {}",
                spec.interface,
                match &spec.netns {
                    Some(path) => format!(" in {}", path.display()),
                    None => String::new(),
                },
                names(&links).join(", ")
            ))
        })?;
        let name = facts.name.as_str();
        facts.addresses = addresses(&ip(&["address", "show", "dev", name])?);
        facts.neighbours = neighbours(&ip(&["neighbour", "show", "dev", name])?);
        facts.default_route = super::routes::default_route(&Local, name)?;
        for file in ["tcp", "tcp6", "udp", "udp6"] {
            if let Ok(text) = fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
                facts
                    .connections
                    .extend(connections(file, &text, &facts.addresses));
            }
        }
        facts.speed_bps = speed_bps(&facts.name);
        let here = fs::metadata("/proc/thread-self/ns/net").map(|m| (m.dev(), m.ino()));
        facts.test_bed = here.ok().and_then(|here| {
            let found = test_beds.iter().find(|(_, namespace)| *namespace == here);
            found.map(|(id, _)| id.clone())
        });
        Ok(facts)
    })
}

/// Runs `work` on a thread inside a namespace.
pub(crate) fn within<T: Send>(
    netns: &Option<PathBuf>,
    work: impl FnOnce() -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    if let Some(path) = netns.as_ref().filter(|path| !path.exists()) {
        return Err(LabError::Preflight(format!(
            "there is no network namespace {}; `ip netns` lists the named ones",
            path.display()
        )));
    }
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                fwdlab_engine::port::enter(netns)?;
                work()
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Returns namespaces of test beds in use, with the lab that they belong to.
fn test_beds() -> Vec<(String, (u64, u64))> {
    // without root we can neither read the registry nor disturb other test beds
    let labs = Registry::open().and_then(|registry| registry.list());
    labs.unwrap_or_default()
        .into_iter()
        .filter(|lab| lab.in_use && lab.record.pid != std::process::id())
        .flat_map(|lab| {
            let id = lab.record.id;
            lab.record.namespaces.into_iter().filter_map(move |name| {
                let file = fs::metadata(Path::new("/run/netns").join(name)).ok()?;
                Some((id.clone(), (file.dev(), file.ino())))
            })
        })
        .collect()
}

fn ip(arguments: &[&str]) -> Result<Value, LabError> {
    let text = Local.query("ip", &[&["-j"], arguments].concat())?;
    // an empty list is printed as nothing, or as an empty array
    Ok(serde_json::from_str(text.trim()).unwrap_or_else(|_| Value::Array(Vec::new())))
}

/// Returns all interfaces of the calling thread's namespace.
pub(super) fn links() -> Result<Value, LabError> {
    ip(&["-d", "link", "show"])
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn names(links: &Value) -> Vec<String> {
    list(links)
        .iter()
        .filter_map(|link| word(&link["ifname"]))
        .collect()
}

/// Returns the part of `ip -j -d link show` about one interface, by any of its names.
pub(super) fn link_of<'a>(links: &'a Value, name: &str) -> Option<&'a Value> {
    list(links).iter().find(|link| {
        link["ifname"] == name || list(&link["altnames"]).iter().any(|other| other == name)
    })
}

/// Returns the ports of a bridge or bond. A VRF has none: it does not forward frames between its
/// interfaces.
pub(super) fn ports_of(links: &Value, name: &str) -> Vec<String> {
    let is_vrf = link_of(links, name).is_some_and(|l| l["linkinfo"]["info_kind"] == "vrf");
    let ports = list(links).iter().filter(|link| link["master"] == name);
    ports
        .filter(|_| !is_vrf)
        .filter_map(|link| word(&link["ifname"]))
        .collect()
}

fn links_of(links: &Value, name: &str) -> Option<Facts> {
    let link = link_of(links, name)?;
    let flag = |flag: &str| list(&link["flags"]).iter().any(|set| set == flag);
    let program = &link["xdp"]["prog"];
    let kind = word(&link["linkinfo"]["info_kind"]);
    let ethernet = link["link_type"] == "ether";
    Some(Facts {
        name: word(&link["ifname"])?,
        index: link["ifindex"].as_u64()? as u32,
        mac: word(&link["address"])
            .filter(|_| ethernet)
            .and_then(|text| mac(&text)),
        mtu: link["mtu"].as_u64().unwrap_or(0) as u32,
        up: flag("UP"),
        carrier: flag("LOWER_UP"),
        kind,
        master: word(&link["master"]),
        above: list(links)
            .iter()
            // for a veth this is its other end, not an interface below
            .filter(|other| {
                other["link"] == link["ifname"] && other["linkinfo"]["info_kind"] != "veth"
            })
            .filter_map(|other| word(&other["ifname"]))
            .collect(),
        ports: link["ifname"]
            .as_str()
            .map_or_else(Vec::new, |name| ports_of(links, name)),
        xdp_program: program["id"]
            .as_u64()
            .map(|id| match word(&program["name"]) {
                Some(name) => format!("{name} (id {id})"),
                None => format!("with id {id}"),
            }),
        ..Facts::default()
    })
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        *octet = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(octets)
}

fn addresses(shown: &Value) -> Vec<IpAddr> {
    list(shown)
        .iter()
        .flat_map(|link| list(&link["addr_info"]))
        .filter_map(|address| address["local"].as_str()?.parse().ok())
        .collect()
}

/// Returns neighbours that answered lately; permanent entries were configured and prove nothing.
fn neighbours(shown: &Value) -> Vec<IpAddr> {
    list(shown)
        .iter()
        .filter(|neighbour| {
            list(&neighbour["state"])
                .iter()
                .any(|state| state == "REACHABLE" || state == "DELAY" || state == "PROBE")
        })
        .filter_map(|neighbour| neighbour["dst"].as_str()?.parse().ok())
        .collect()
}

/// Returns connections in /proc/net/tcp and similar files that have one of these local addresses.
fn connections(file: &str, table: &str, addresses: &[IpAddr]) -> Vec<String> {
    const ESTABLISHED: &str = "01";
    let protocol = if file.starts_with("tcp") {
        "TCP"
    } else {
        "UDP"
    };
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (ours, theirs) = (endpoint(fields.next()?)?, endpoint(fields.next()?)?);
            let established = fields.next()? == ESTABLISHED;
            (established && addresses.contains(&ours.0)).then(|| {
                format!(
                    "a {protocol} connection with {} port {} goes through it",
                    theirs.0, theirs.1
                )
            })
        })
        .collect()
}

/// Parses `0100007F:0016`: words in the machine's byte order, and a port.
fn endpoint(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let words: Vec<u32> = (0..address.len() / 8)
        .map(|n| u32::from_str_radix(address.get(n * 8..n * 8 + 8)?, 16).ok())
        .collect::<Option<_>>()?;
    let octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let address = match octets.len() {
        4 => Ipv4Addr::from(*octets.first_chunk::<4>()?).into(),
        16 => Ipv6Addr::from(*octets.first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

/// Returns the speed from `ethtool`. A veth claims 10 Gbit/s, and other virtual interfaces make
/// similar claims that mean nothing.
fn speed_bps(name: &str) -> Option<u64> {
    let driver = Local.query("ethtool", &["-i", name]).ok()?;
    let is_virtual = [
        "veth",
        "tun",
        "bridge",
        "dummy",
        "bonding",
        "team",
        "openvswitch",
    ];
    let driver = driver
        .lines()
        .find_map(|line| line.strip_prefix("driver: "))?;
    if is_virtual.contains(&driver.trim()) {
        return None;
    }
    speed_of(&Local.query("ethtool", &[name]).ok()?)
}

/// Parses `Speed: 10000Mb/s` in the output of ethtool; `None` for `Unknown!`.
fn speed_of(text: &str) -> Option<u64> {
    let speed = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Speed: "))?;
    let megabits: u64 = speed.strip_suffix("Mb/s")?.parse().ok()?;
    (megabits > 0).then_some(megabits * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// A machine with a bridge, a VLAN, a veth pair and an XDP program (iproute2 6.1, shortened).
    const LINKS: &str = r#"[
        {"ifindex":2,"ifname":"eth0","altnames":["enp1s0"],"flags":["BROADCAST","UP","LOWER_UP"],"mtu":1500,"master":"br0",
         "link_type":"ether","address":"52:54:00:12:34:56","xdp":{"mode":1,"prog":{"id":17,"name":"xdp_filter","tag":"ab"}}},
        {"ifindex":3,"link":"eth0","ifname":"eth0.7","flags":["UP"],"mtu":1500,"link_type":"ether","address":"52:54:00:12:34:56","linkinfo":{"info_kind":"vlan"}},
        {"ifindex":5,"link":"va","ifname":"vb","flags":["NO-CARRIER","UP"],"mtu":9000,"link_type":"ether","address":"02:00:00:00:00:01","linkinfo":{"info_kind":"veth"}},
        {"ifindex":6,"link":"vb","ifname":"va","flags":[],"mtu":1500,"link_type":"ether","address":"02:00:00:00:00:02","linkinfo":{"info_kind":"veth"}},
        {"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536,"link_type":"loopback","address":"00:00:00:00:00:00"}]"#;

    #[test]
    fn links_are_found_by_any_name() {
        let links = json(LINKS);
        for name in ["eth0", "enp1s0"] {
            let eth0 = links_of(&links, name).unwrap();
            assert_eq!((eth0.index, eth0.up, eth0.carrier), (2, true, true));
            assert_eq!(eth0.name, "eth0");
            assert_eq!(eth0.mac, Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
            assert_eq!(eth0.master.as_deref(), Some("br0"));
            assert_eq!(eth0.above, ["eth0.7"]);
            assert_eq!(eth0.xdp_program.as_deref(), Some("xdp_filter (id 17)"));
        }
        let vb = links_of(&links, "vb").unwrap();
        assert_eq!((vb.mtu, vb.up, vb.carrier), (9000, true, false));
        assert_eq!((vb.kind.as_deref(), vb.above.len()), (Some("veth"), 0));
        assert_eq!(links_of(&links, "lo").unwrap().mac, None);
        assert_eq!(links_of(&links, "eth7"), None);
    }

    #[test]
    fn neighbours_and_addresses() {
        let shown = json(
            r#"[{"dst":"10.0.0.1","lladdr":"02:00:00:00:00:01","state":["REACHABLE"]},
                {"dst":"10.0.0.2","lladdr":"02:00:00:00:00:02","state":["STALE"]},
                {"dst":"10.0.0.3","lladdr":"02:00:00:00:00:03","state":["PERMANENT"]}]"#,
        );
        assert_eq!(neighbours(&shown), ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        let shown =
            json(r#"[{"addr_info":[{"local":"10.0.0.5","prefixlen":8},{"local":"fe80::1"}]},{}]"#);
        assert_eq!(addresses(&shown).len(), 2);
    }

    #[test]
    fn connections_of_an_address() {
        // a little-endian machine: an ssh session, a listener, a mapped address
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
             0: 0500000A:0016 0900000A:D431 01 00000000:00000000 00:00000000 00000000     0\n\
             1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n\
             2: 0100007F:0016 0100007F:D432 01 00000000:00000000 00:00000000 00000000     0\n";
        let ours = ["10.0.0.5".parse().unwrap()];
        if cfg!(target_endian = "little") {
            assert_eq!(
                connections("tcp", table, &ours),
                ["a TCP connection with 10.0.0.9 port 54321 goes through it"]
            );
        }
        assert_eq!(connections("tcp", table, &[]), [""; 0]);
        let mapped = "0000000000000000FFFF00000500000A:0016";
        if cfg!(target_endian = "little") {
            assert_eq!(endpoint(mapped), Some((ours[0], 22)));
        }
        for bad in ["", "x", "0500000A", "05:1", "zz00000A:0016"] {
            assert_eq!(endpoint(bad), None, "{bad}");
        }
    }

    #[test]
    fn speeds() {
        assert_eq!(
            speed_of("Settings for eth0:\n\tSpeed: 2500Mb/s\n"),
            Some(2_500_000_000)
        );
        assert_eq!(speed_of("\tSpeed: Unknown!\n"), None);
        assert_eq!(speed_of(""), None);
    }

    #[test]
    fn the_loopback_interface_is_there_and_others_are_named() {
        let spec = |interface: &str| PortSpec {
            netns: None,
            interface: interface.into(),
        };
        match read_facts(&spec("lo")) {
            Ok(facts) => assert_eq!(facts.index, 1),
            Err(error) => return println!("SKIPPED: the_loopback_interface_is_there: {error}"),
        }
        let error = read_facts(&spec("nosuch0")).unwrap_err().to_string();
        assert!(
            error.contains("no interface nosuch0; there are: lo"),
            "{error}"
        );
        let nowhere = PortSpec {
            netns: Some("/run/netns/fwdlab-nosuch".into()),
            interface: "lo".into(),
        };
        let error = read_facts(&nowhere).unwrap_err().to_string();
        assert!(error.contains("no network namespace"), "{error}");
    }
}
