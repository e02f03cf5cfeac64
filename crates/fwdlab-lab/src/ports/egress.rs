//! Follows frames that are sent on an interface: down to the interface below it, out of its ports,
//! into the bridge at its other end.
//!
//! The path is read from `ip -j -d link`, through all visible namespaces: of processes
//! (containers), with a name, or held open by a process. [`dangers`](super::dangers) judges the
//! stations on it. Routes, tunnels without a device and packet filters are not followed. Start with
//! [`next_interfaces`].

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;

use fwdlab_engine::PortSpec;
use fwdlab_engine::netdev::namespace_number;
use serde_json::Value;

use super::interface_facts::{self, Facts, list, word};
use crate::error::LabError;
use crate::host::netns::{identity, namespaces};

/// Another interface that the frames leave by, or a bridge that they enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextInterface {
    /// Its name and how frames get there: `eth0, a port of br0`.
    pub link: String,
    /// Its properties, without those that merely follow from this path.
    pub facts: Facts,
}

/// Returns everything that frames sent on an interface go through, the nearest first.
///
/// # Errors
/// Fails if the namespace is gone, or there is no `ip`.
pub fn next_interfaces(spec: &PortSpec) -> Result<Vec<NextInterface>, LabError> {
    let mut walk = Walk::default();
    let here = walk.enter(spec.netns.clone())?;
    let links = &walk.namespaces[here].links;
    if let Some(name) =
        interface_facts::link_of(links, &spec.interface).and_then(|link| word(&link["ifname"]))
    {
        walk.leave(here, &name)?;
    }
    Ok(walk.found)
}

#[derive(Default)]
struct Walk {
    namespaces: Vec<Namespace>,
    /// Namespace and name of visited interfaces, and whether frames left by them.
    seen: Vec<(usize, String, bool)>,
    found: Vec<NextInterface>,
}

struct Namespace {
    path: Option<PathBuf>,
    /// Device and inode.
    id: (u64, u64),
    links: Value,
}

impl Walk {
    /// Returns the number of a namespace, which is read once.
    fn enter(&mut self, path: Option<PathBuf>) -> Result<usize, LabError> {
        let (id, links) = interface_facts::within(&path, || {
            Ok((
                identity("/proc/thread-self/ns/net"),
                interface_facts::links()?,
            ))
        })?;
        let id = id.unwrap_or_default();
        if let Some(known) = self.namespaces.iter().position(|n| n.id == id) {
            return Ok(known);
        }
        self.namespaces.push(Namespace { path, id, links });
        Ok(self.namespaces.len() - 1)
    }

    /// Follows frames that leave by this interface.
    fn leave(&mut self, at: usize, name: &str) -> Result<(), LabError> {
        if !self.is_new(at, name, true) {
            return Ok(());
        }
        match next_hop(&self.namespaces[at].links, name) {
            NextHop::Wire => Ok(()),
            NextHop::Ports(ports) => self.leave_by_ports(at, name, ports),
            NextHop::Below(end) => match self.find(at, &end)? {
                Some((there, below)) => {
                    self.add(
                        there,
                        &below,
                        format!("{below}, which is below {name}"),
                        false,
                    )?;
                    self.leave(there, &below)
                }
                None => Ok(()),
            },
            NextHop::OtherEnd(end) => match self.find(at, &end)? {
                Some((there, other)) => self.arrive(there, &other, name),
                None => Ok(()),
            },
        }
    }

    /// Follows frames that arrive at this interface, the other end of `from`: a bridge that it is a
    /// port of forwards them.
    fn arrive(&mut self, at: usize, name: &str, from: &str) -> Result<(), LabError> {
        let links = &self.namespaces[at].links;
        let master = interface_facts::link_of(links, name).and_then(|link| word(&link["master"]));
        let Some(master) = master.filter(|_| self.is_new(at, name, false)) else {
            return Ok(());
        };
        let NextHop::Ports(mut ports) = next_hop(&self.namespaces[at].links, &master) else {
            return Ok(());
        };
        let way = format!("{master}, which has {name}, the other end of {from}, as a port");
        self.add(at, &master, way, false)?;
        ports.retain(|port| port != name);
        self.leave_by_ports(at, &master, ports)
    }

    fn leave_by_ports(&mut self, at: usize, of: &str, ports: Vec<String>) -> Result<(), LabError> {
        for port in ports {
            self.add(at, &port, format!("{port}, a port of {of}"), true)?;
            self.leave(at, &port)?;
        }
        Ok(())
    }

    fn is_new(&mut self, at: usize, name: &str, leaves: bool) -> bool {
        let step = (at, name.to_owned(), leaves);
        let new = !self.seen.contains(&step);
        if new {
            self.seen.push(step);
        }
        new
    }

    /// Inspects a station. `is_port`: it is known to have a master, because we came here through
    /// it.
    fn add(&mut self, at: usize, name: &str, way: String, is_port: bool) -> Result<(), LabError> {
        let namespace = &self.namespaces[at];
        let facts = interface_facts::read_facts(&PortSpec {
            netns: namespace.path.clone(),
            interface: name.to_owned(),
        })?;
        self.found.push(NextInterface {
            link: way,
            facts: Facts {
                master: facts.master.filter(|_| !is_port),
                // interfaces on top of it, and programs for arriving frames, do not see our frames
                above: Vec::new(),
                ports: Vec::new(),
                xdp_program: None,
                ..facts
            },
        });
        Ok(())
    }

    /// Returns namespace and name of an end; `None` if it is not visible from here.
    fn find(&mut self, at: usize, end: &End) -> Result<Option<(usize, String)>, LabError> {
        let (index, id) = match end {
            End::Here(name) => return Ok(Some((at, name.clone()))),
            End::There { index, namespace } => (*index, *namespace),
        };
        let Some(path) = self.namespace_of(at, id)? else {
            return Ok(None);
        };
        let there = self.enter(Some(path))?;
        let links = list(&self.namespaces[there].links);
        let link = links.iter().find(|link| link["ifindex"] == index);
        Ok(link.and_then(|link| Some((there, word(&link["ifname"])?))))
    }

    /// Returns the namespace that another one knows by this number.
    fn namespace_of(&self, at: usize, id: i32) -> Result<Option<PathBuf>, LabError> {
        // a path may lead back
        let known = self.namespaces.iter().filter_map(|n| n.path.clone());
        interface_facts::within(&self.namespaces[at].path, || {
            let mut observed = HashSet::new();
            Ok(known.chain(namespaces()).find(|path| {
                let is_new = identity(path).is_some_and(|id| observed.insert(id));
                let file = is_new.then(|| File::open(path).ok()).flatten();
                file.is_some_and(|file| matches!(namespace_number(file.as_fd()), Ok(n) if n == id))
            }))
        })
    }
}

/// Where frames that leave by an interface go next.
#[derive(Debug, PartialEq, Eq)]
enum NextHop {
    /// Nowhere visible from here.
    Wire,
    /// Out of the ports of a bridge or bond.
    Ports(Vec<String>),
    /// Out of the interface below it.
    Below(End),
    /// In at the other end of a pair.
    OtherEnd(End),
}

/// Another interface.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// In the same namespace.
    Here(String),
    /// In the namespace that this one knows by a number, by its index there.
    There { index: u64, namespace: i32 },
}

fn next_hop(links: &Value, name: &str) -> NextHop {
    let Some(link) = interface_facts::link_of(links, name) else {
        return NextHop::Wire;
    };
    let kind = link["linkinfo"]["info_kind"].as_str().unwrap_or_default();
    let ports = interface_facts::ports_of(links, name);
    if !ports.is_empty() {
        return NextHop::Ports(ports);
    }
    let there = || {
        Some(End::There {
            index: link["link_index"].as_u64().filter(|index| *index > 0)?,
            namespace: i32::try_from(link["link_netnsid"].as_i64()?).ok()?,
        })
    };
    let end = word(&link["link"])
        .or_else(|| word(&link["linkinfo"]["info_data"]["link"]))
        .map(End::Here)
        .or_else(there);
    match (end, kind) {
        (None, _) => NextHop::Wire,
        (Some(end), "veth" | "netkit") => NextHop::OtherEnd(end),
        (Some(end), _) => NextHop::Below(end),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::host::netns::namespace_mount;

    /// A machine with a bridge over a port and a veth pair, devices on top of the port, and remote
    /// ends (iproute2 6.1, shortened).
    const LINKS: &str = r#"[
        {"ifindex":2,"ifname":"eth0","master":"br0","link_type":"ether"},
        {"ifindex":3,"ifname":"mv0","link":"eth0","linkinfo":{"info_kind":"macvlan"}},
        {"ifindex":4,"ifname":"vx0","linkinfo":{"info_kind":"vxlan","info_data":{"link":"eth0"}}},
        {"ifindex":5,"ifname":"br0","linkinfo":{"info_kind":"bridge"}},
        {"ifindex":6,"ifname":"va","link":"vb","linkinfo":{"info_kind":"veth"}},
        {"ifindex":7,"ifname":"vb","link":"va","master":"br0","linkinfo":{"info_kind":"veth"}},
        {"ifindex":8,"ifname":"vc","link_index":9,"link_netnsid":0,"linkinfo":{"info_kind":"veth"}},
        {"ifindex":9,"ifname":"mv1","link_index":2,"link_netnsid":3,"linkinfo":{"info_kind":"macvlan"}},
        {"ifindex":10,"ifname":"vrf0","linkinfo":{"info_kind":"vrf"}},
        {"ifindex":11,"ifname":"eth1","master":"vrf0"}]"#;

    #[test]
    fn frames_go_down_out_and_across() {
        let links: Value = serde_json::from_str(LINKS).unwrap();
        let here = |name: &str| End::Here(name.into());
        let there = |index, namespace| End::There { index, namespace };
        for (name, expected) in [
            ("eth0", NextHop::Wire),
            ("mv0", NextHop::Below(here("eth0"))),
            ("vx0", NextHop::Below(here("eth0"))),
            ("br0", NextHop::Ports(vec!["eth0".into(), "vb".into()])),
            ("va", NextHop::OtherEnd(here("vb"))),
            ("vc", NextHop::OtherEnd(there(9, 0))),
            ("mv1", NextHop::Below(there(2, 3))),
            // a VRF receives frames, and sends them on only as routes direct
            ("vrf0", NextHop::Wire),
            ("nosuch", NextHop::Wire),
        ] {
            assert_eq!(next_hop(&links, name), expected, "{name}");
        }
    }

    #[test]
    fn namespaces_are_found_where_they_are_mounted() {
        let line =
            "604 28 0:4 net:[4026532281] /run/docker/netns/1a2b rw shared:331 - nsfs nsfs rw";
        assert_eq!(namespace_mount(line), Some("/run/docker/netns/1a2b"));
        let other = "24 29 0:22 / /proc rw,nosuid shared:12 - proc proc rw";
        assert_eq!(namespace_mount(other), None);
        assert_eq!(namespace_mount(""), None);
    }

    /// Containers have namespaces of processes without a name, and some namespaces are only held
    /// open.
    #[test]
    fn a_namespace_without_a_name_is_found() {
        let process = std::process::Command::new("unshare")
            .args(["--net", "sh", "-c", "echo there; exec cat"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn();
        let test = "a_namespace_without_a_name_is_found";
        let Ok(mut process) = process else {
            return println!("SKIPPED: {test}: no unshare");
        };
        let mut printed = [0; 6];
        let output = process.stdout.as_mut().unwrap();
        if output.read_exact(&mut printed).is_err() {
            let _ = process.wait();
            return println!("SKIPPED: {test}: needs root");
        }
        let running = PathBuf::from(format!("/proc/{}/ns/net", process.id()));
        let requested = identity(&running).unwrap();
        let is_there = || namespaces().find(|path| identity(path) == Some(requested));
        assert_eq!(is_there(), Some(running.clone()));
        let held = File::open(&running).unwrap();
        drop(process.stdin.take());
        process.wait().unwrap();
        let found = is_there().unwrap();
        assert!(
            found.ends_with(format!("fd/{}", held.as_raw_fd())),
            "{found:?}"
        );
    }

    #[test]
    fn the_kernel_reports_the_id_of_a_namespace() {
        // a namespace gets a number for itself only on request; a file that is not a namespace
        // never has one
        let own = File::open("/proc/thread-self/ns/net").unwrap();
        assert!(namespace_number(own.as_fd()).is_ok());
        let other = File::open("/dev/null").unwrap();
        assert!(namespace_number(other.as_fd()).is_err());
    }
}
