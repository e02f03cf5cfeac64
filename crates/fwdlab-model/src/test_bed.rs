//! Test beds as files: the hosts of the tester's ports and of the device under test, how to reach
//! them, and what connects them.
//!
//! A [`TestBed`] is well formed: every host is a place, every port has a name, and the networks of
//! its links are large enough. Whether any of it exists is checked when it is used. Start with
//! [`BedFile::parse`].
//!
//! ```
//! let text = "
//!     bed = 'rack1'
//!     [generator]
//!     host = 'local'
//!     ports = { a = 'ens1f0', b = 'ens1f1' }
//!     [dut]
//!     host = 'ssh://root@router1'
//!     ports = { a = 'eth1', b = 'eth2' }
//! ";
//! use fwdlab_model::test_bed::BedFile;
//! let BedFile::Hosts(bed) = BedFile::parse("rack1.toml", text)? else { unreachable!() };
//! assert_eq!(bed.dut.ports.unwrap().a, "eth1");
//!
//! let error = BedFile::parse("x.toml", &text.replace("ssh:", "shs:")).unwrap_err();
//! assert!(error.to_string().starts_with("x.toml:7:12: `shs://root@router1` is not a host"));
//! # Ok::<(), fwdlab_model::file::FileError>(())
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::campaign::Engine;
use crate::campaign::value::Period;
use crate::file::{FileError, Origin, Step};
use crate::typed::{Numbers, typed};
use crate::{dpdk, memif};

/// The kind of test bed that a file describes.
#[derive(Debug, Clone, PartialEq)]
pub enum BedFile {
    /// Existing hosts.
    Hosts(Box<TestBed>),
    /// A virtual machine that boots an image and contains tester and DUT: `debian:linux-image-...`.
    /// Instructions are counted there.
    Image {
        /// Its name.
        name: String,
        /// The image that it boots.
        image: String,
    },
    /// A virtual machine that starts a whole disk, and is the DUT; the tester is outside.
    Machine(Box<WholeMachine>),
}

/// A test bed of existing hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct TestBed {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its description, in one line.
    pub about: String,
    /// The sender, and the receiver if there is no separate one.
    pub generator: Generator,
    /// A second sender, into the same port of the DUT.
    pub second: Option<Second>,
    /// The receiver, if it is on another host than the sender.
    pub receiver: Option<Receiver>,
    /// The DUT.
    pub dut: Device,
    /// What is between tester and DUT, if it is not a cable.
    pub switch: Option<Switch>,
    /// A replacement for the DUT, to measure what the test bed itself carries.
    pub reference: Option<Reference>,
    /// The network between the tester and each port of the DUT, if configured: its address, and the
    /// length of its prefix.
    pub networks: Ends<Option<(Ipv4Addr, u8)>>,
    /// Its source, for errors.
    pub origin: Origin,
}

/// One value for each side of the DUT: test frames enter it at `a` and leave it at `b`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ends<T> {
    /// The side where test frames enter the DUT
    pub a: T,
    /// The side where they leave the DUT
    pub b: T,
}

/// A port of the tester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TesterPort<'a> {
    /// Its owner's key in the file: `generator`, `generator-2`, `receiver`.
    pub role: &'static str,
    /// Its host.
    pub host: &'a Place,
    /// Its name on that host.
    pub port: &'a str,
}

/// Maximum number of threads that send into a port: stream ids have 4 bits for them.
pub const MOST_SENDERS: u32 = 16;

/// Returns why a port cannot have this number of senders, if it cannot.
pub fn check_senders(senders: u32) -> Result<(), String> {
    match senders {
        1..=MOST_SENDERS => Ok(()),
        _ => Err(format!(
            "{senders} senders on a port; 1 to {MOST_SENDERS} are possible"
        )),
    }
}

/// The sender, and the receiver if there is no separate one
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Generator {
    /// Location: local, netns:NAME, or ssh://USER@HOST:PORT
    #[serde(default = "local")]
    pub host: Place,
    /// What its ports are
    #[serde(default)]
    pub kind: PortKind,
    /// Its ports: frames leave at a and come back at b, unless there is a receiver
    pub ports: GeneratorPorts,
    /// The sending engine; by default the fastest one that passes its self-test there
    #[serde(default)]
    pub engine: Engine,
    /// CPUs that the engine may use; by default any
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Threads that send into each port, each through its own queue; by default as many as the load
    /// needs according to the self-test, and one without it
    #[schemars(range(min = 1, max = MOST_SENDERS))]
    pub senders: Option<u32>,
}

/// What the ports of the tester are
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortKind {
    /// Network interfaces
    #[default]
    Interface,
    /// memif ports, connected to a DUT in user space on this machine: its ports are written as
    /// `SOCKET[,role=client|server][,id=N][,queues=N][,ring=N][,buffer=N][,secret=TEXT]`
    Memif,
    /// Ports with a driver of DPDK, on this machine: its ports are DPDK's device arguments, such as
    /// the PCI address of a card: `0000:03:00.0`. They need the program fwdlab-dpdk
    Dpdk,
}

impl PortKind {
    /// Returns what the names of such ports begin with.
    fn prefix(self) -> &'static str {
        match self {
            PortKind::Interface => "",
            PortKind::Memif => memif::PREFIX,
            PortKind::Dpdk => dpdk::PREFIX,
        }
    }
}

/// Ports of the generator
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorPorts {
    /// The port where frames leave: an interface, or the socket of a memif port
    pub a: String,
    /// The port where frames come back; omit it if there is a receiver
    pub b: Option<String>,
}

/// A second sender, into the same port of the DUT through a switch: each sender offers half of the
/// load
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Second {
    /// Location: local, netns:NAME, or ssh://USER@HOST:PORT
    #[serde(default = "local")]
    pub host: Place,
    /// Its port
    pub ports: OnlyA,
}

/// The port where frames leave
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnlyA {
    /// The port where frames leave
    pub a: String,
}

/// The receiver, if it is on another host than the sender; in bidirectional tests it also sends
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Receiver {
    /// Location: local, netns:NAME, or ssh://USER@HOST:PORT
    #[serde(default = "local")]
    pub host: Place,
    /// Its port
    pub ports: OnlyB,
}

/// The port where frames come back
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnlyB {
    /// The port where frames come back
    pub b: String,
}

fn local() -> Place {
    Place::Local
}

/// The device under test
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Device {
    /// Location: local, netns:NAME, or ssh://USER@HOST:PORT; not for kind none. vm:IMAGE boots a
    /// virtual machine that contains tester and DUT
    pub host: Option<Place>,
    /// The kind of device
    #[serde(default)]
    pub kind: System,
    /// Its ports; for kind none only with snmp, by their names in the agent (ifName)
    pub ports: Option<Ends<String>>,
    /// SNMP agent (v2c) of a device of kind none: 192.0.2.9 or 192.0.2.9:161. fwdlab reads the
    /// counters of its ports
    pub snmp: Option<Agent>,
    /// SNMP community of the agent; by default public
    pub community: Option<String>,
    /// How old the counters of the agent may be: fwdlab waits that long before it reads them.
    /// Without it they are approximate, and do not show where frames were lost
    pub settle: Option<Period>,
    /// MAC addresses of its ports, if fwdlab can neither log in to read them nor ask for them with
    /// ARP
    pub macs: Option<Ends<Mac>>,
    /// No device: what leaves at one port of the tester arrives at the other one.
    #[serde(skip)]
    pub is_loop: bool,
    /// How to check that it is ready once it can be reached
    pub ready: Option<Ready>,
    /// The socket of a VPP; its ports are VPP interface names. By default /run/vpp/cli.sock
    pub socket: Option<String>,
    /// The program that connects to a VPP; by default vppctl in PATH
    pub vppctl: Option<String>,
    /// CPUs of a Linux DUT that forward, in the order in which packet steering and a sweep of cores
    /// take them
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// The hardware of a virtual machine that boots the whole disk vm:DISK with its own system,
    /// with the tester outside; not for a kernel image
    pub machine: Option<Hardware>,
}

/// Hardware of a virtual machine
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Hardware {
    /// Number of CPUs
    #[schemars(range(min = 1, max = 256))]
    pub cpus: u32,
    /// Memory, in MiB
    #[schemars(range(min = 64, max = 1_048_576))]
    pub memory_mib: u32,
    /// Type of its disk and ports
    pub devices: Devices,
}

impl Default for Hardware {
    fn default() -> Hardware {
        Hardware {
            cpus: 1,
            memory_mib: 1024,
            devices: Devices::Virtio,
        }
    }
}

/// Types of virtual devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Devices {
    /// Paravirtual devices: virtio
    #[default]
    Virtio,
    /// Devices that every system has drivers for: an IDE disk and Intel e1000 ports
    Classic,
}

/// A test bed whose DUT is a virtual machine that starts a whole disk; the tester is on the local
/// machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeMachine {
    /// Its name.
    pub name: String,
    /// Its description, in one line.
    pub about: String,
    /// Its disk, as typed.
    pub image: String,
    /// The kind of its system.
    pub kind: System,
    /// Its hardware.
    pub hardware: Hardware,
    /// How to tell that it is ready after it was reached.
    pub ready: Option<Ready>,
    /// The networks of its links, if configured.
    pub networks: Ends<Option<(Ipv4Addr, u8)>>,
    /// Its source, for errors.
    pub origin: Origin,
}

impl Device {
    /// Returns the socket of a VPP.
    pub fn socket(&self) -> &str {
        self.socket.as_deref().unwrap_or("/run/vpp/cli.sock")
    }
}

/// A switch between tester and DUT
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Switch {
    /// Location, if it is a Linux bridge: local, netns:NAME, or ssh://USER@HOST:PORT. fwdlab reads
    /// its counters and its address learning
    pub host: Option<Place>,
    /// Its SNMP agent (v2c), if it is not a Linux bridge: 192.0.2.9 or 192.0.2.9:161. fwdlab reads
    /// its counters
    pub snmp: Option<Agent>,
    /// SNMP community of the agent; by default public
    pub community: Option<String>,
    /// Its ports, by the device connected to each
    pub ports: SwitchPorts,
    /// The VLAN of each link, used to print a switch configuration
    #[serde(default)]
    pub vlans: Vlans,
}

/// The address of an SNMP agent, and its UDP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent(pub IpAddr, pub u16);

/// The port of SNMP agents.
const SNMP: u16 = 161;

impl FromStr for Agent {
    type Err = String;

    fn from_str(text: &str) -> Result<Agent, String> {
        let parts = || {
            let (ip, port) = text.rsplit_once(':')?;
            let inner = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']'));
            let ip: IpAddr = inner.unwrap_or(ip).parse().ok()?;
            // the colons of an address must not be mistaken for the one before a port
            (ip.is_ipv6() == inner.is_some()).then_some(Agent(ip, port.parse().ok()?))
        };
        let alone = text.parse().ok().map(|ip| Agent(ip, SNMP));
        alone.or_else(parts).ok_or_else(|| {
            format!(
                "`{text}` is not an address of an SNMP agent; write one like 192.0.2.9, 192.0.2.9:161 or [2001:db8::9]:161"
            )
        })
    }
}

typed!(Agent, Numbers::No, "an address in quotes, such as \"192.0.2.9\"", {
    "description": "An SNMP agent: 192.0.2.9, 192.0.2.9:161 or [2001:db8::9]:161",
    "type": "string"
});

/// Ports of a switch, by the device connected to each
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SwitchPorts {
    /// Connected to port a of the generator
    pub tester_a: Option<String>,
    /// Connected to port a of the second generator
    pub tester_2: Option<String>,
    /// Connected to port a of the DUT
    pub dut_a: Option<String>,
    /// Connected to port b of the DUT
    pub dut_b: Option<String>,
    /// Connected to port b of the generator or of the receiver
    pub tester_b: Option<String>,
}

impl SwitchPorts {
    /// Returns those with names, with their keys, in the order in which frames pass them.
    pub fn named(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("tester-a", &self.tester_a),
            ("tester-2", &self.tester_2),
            ("dut-a", &self.dut_a),
            ("dut-b", &self.dut_b),
            ("tester-b", &self.tester_b),
        ];
        let named = all.into_iter();
        named
            .filter_map(|(key, port)| Some((key, port.as_deref()?)))
            .collect()
    }
}

/// The VLANs of the two links
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vlans {
    /// VLAN of link a
    #[schemars(range(min = 1, max = 4094))]
    pub a: u16,
    /// VLAN of link b
    #[schemars(range(min = 1, max = 4094))]
    pub b: u16,
}

impl Default for Vlans {
    fn default() -> Vlans {
        Vlans { a: 701, b: 702 }
    }
}

/// A replacement for the DUT, to measure what the test bed itself carries: a Linux router, or,
/// without any keys, a loop (a cable or a bridge) from port a to port b of the tester
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reference {
    /// Location: local, netns:NAME, or ssh://USER@HOST:PORT; not for a loop
    pub host: Option<Place>,
    /// Its ports; not for a loop
    pub ports: Option<Ends<String>>,
}

/// The system that runs on the device
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Linux; its kernel forwards
    #[default]
    Linux,
    /// FreeBSD; not yet tested on real hardware
    Freebsd,
    /// BSDRP and other nanobsd images; not yet tested on real hardware
    Bsdrp,
    /// A running VPP
    Vpp,
    /// A black box: already configured, without a login
    None,
}

/// A command that succeeds when the device is ready
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ready {
    /// A command for the device's shell; repeated until it succeeds
    pub command: String,
    /// The time limit
    #[serde(default = "ten_minutes")]
    pub within: Period,
}

fn ten_minutes() -> Period {
    Period(Duration::from_secs(600))
}

/// Location of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The local machine.
    Local,
    /// One of its network namespaces.
    Namespace(String),
    /// A machine reached by SSH, as typed: `ssh://root@router1`.
    Ssh(String),
    /// A virtual machine that boots this image.
    Image(String),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let namespace = text.strip_prefix("netns:");
        match (text, namespace) {
            ("local", _) => Ok(Place::Local),
            (_, Some(name)) if is_netns(name) => Ok(Place::Namespace(name.into())),
            _ if text.starts_with("vm:") && text.len() > "vm:".len() => {
                Ok(Place::Image(text["vm:".len()..].into()))
            }
            _ if text.starts_with("ssh://") && text.len() > "ssh://".len() => {
                Ok(Place::Ssh(text.into()))
            }
            _ => Err(format!(
                "`{text}` is not a host; write local, netns:NAME, ssh://[user@]host[:port], or vm:IMAGE"
            )),
        }
    }
}

/// The form used in files.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Local => f.write_str("local"),
            Place::Namespace(name) => write!(f, "netns:{name}"),
            Place::Ssh(text) => f.write_str(text),
            Place::Image(image) => write!(f, "vm:{image}"),
        }
    }
}

/// Returns true if a file can have this name.
fn is_netns(name: &str) -> bool {
    !name.is_empty() && name.len() < 256 && !name.contains('/') && name != "." && name != ".."
}

typed!(Place, Numbers::No, "a host in quotes, such as \"local\"", {
    "description": "local, netns:NAME, ssh://[user@]host[:port], or vm:IMAGE",
    "type": "string",
    "pattern": "^(local|netns:[^/]+|ssh://.+|vm:.+)$"
});

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Mac, String> {
        let bad = || format!("`{text}` is not a MAC address; write one like 02:00:5e:10:00:01");
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts
                .next()
                .filter(|part| part.len() == 2)
                .ok_or_else(bad)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        match (parts.next(), mac[0] & 1) {
            (None, 0) => Ok(Mac(mac)),
            (None, _) => Err(format!(
                "`{text}` is of a group, and a port has one of its own"
            )),
            _ => Err(bad()),
        }
    }
}

typed!(Mac, Numbers::No, "a MAC address in quotes, such as \"02:00:5e:10:00:01\"", {
    "description": "A MAC address: 02:00:5e:10:00:01",
    "type": "string",
    "pattern": "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$"
});

/// A test bed: the hosts of the tester's ports and of the device under test, and the links between
/// them
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "TestBed")]
pub struct Text {
    /// The version of fwdlab that this file was written for
    #[serde(default, rename = "fwdlab")]
    #[expect(dead_code, reason = "for people and for later versions")]
    written_for: Option<String>,
    /// Name of the test bed: letters, digits, -, _ and .
    bed: String,
    /// Its description, in one line
    #[serde(default)]
    about: String,
    /// The sender, and the receiver if there is no separate one; not with vm:IMAGE, which contains
    /// it
    generator: Option<Generator>,
    /// A second sender, into the same port of the DUT
    #[serde(rename = "generator-2")]
    generator_2: Option<Second>,
    /// The receiver, if it is on another host than the sender
    receiver: Option<Receiver>,
    /// The device under test
    dut: Device,
    /// A switch between tester and DUT
    switch: Option<Switch>,
    /// A replacement for the DUT, to measure what the test bed itself carries
    reference: Option<Reference>,
    /// The links between ports; by default a to a and b to b, with the benchmark networks
    #[serde(default)]
    link: Vec<Link>,
}

/// A link between two ports
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Link {
    /// A port of the tester and a port of the DUT: generator.a, dut.a
    ends: [String; 2],
    /// The network of the link: 198.18.0.0/24. The DUT gets the first address, the tester the
    /// second
    net: Option<String>,
}

impl BedFile {
    /// Parses a test bed. `file`: for errors.
    ///
    /// # Errors
    /// The position in the file and what is wrong there.
    pub fn parse(file: &str, text: &str) -> Result<BedFile, FileError> {
        let origin = Origin {
            file: file.into(),
            text: text.into(),
        };
        let read: Text = origin.read()?;
        if !crate::campaign::is_name(&read.bed) {
            let reason = "a name consists of at most 64 letters, digits, -, _ and .";
            return Err(origin.error(&[Step::Key("bed")], reason));
        }
        if let Some(Place::Image(image)) = &read.dut.host
            && (read.dut.machine.is_some() || read.dut.kind != System::Linux)
        {
            let image = image.clone();
            return whole_machine(read, image, origin);
        }
        if let Some(Place::Image(image)) = &read.dut.host {
            let is_alone = read.generator.is_none()
                && read.generator_2.is_none()
                && read.receiver.is_none()
                && read.switch.is_none()
                && read.reference.is_none()
                && read.link.is_empty()
                && read.dut.ports.is_none()
                && read.dut.macs.is_none()
                && read.dut.ready.is_none()
                && read.dut.kind == System::Linux;
            return match is_alone {
                true => Ok(BedFile::Image {
                    name: read.bed,
                    image: image.clone(),
                }),
                false => Err(origin.error(
                    &[Step::Key("dut"), Step::Key("host")],
                    "a virtual machine contains tester, DUT and links; omit everything but bed, about, and host in [dut]. For a disk that starts as a \
                     whole, with the tester outside, add machine = {}",
                )),
            };
        }
        if read.dut.machine.is_some() {
            let reason = "only a virtual machine has this; set host = \"vm:DISK\", or omit it";
            return Err(origin.error(&[Step::Key("dut"), Step::Key("machine")], reason));
        }
        let Some(generator) = read.generator else {
            let reason = "there is no [generator]; add one with host and ports = { a = \"...\", b = \"...\" }";
            return Err(origin.error(&[Step::Key("dut")], reason));
        };
        if let Place::Image(_) = generator.host {
            let reason = "a virtual machine contains tester and DUT; set host = \"vm:IMAGE\" in [dut], and omit [generator]";
            return Err(origin.error(&[Step::Key("generator"), Step::Key("host")], reason));
        }
        let networks = networks(&read.link, read.receiver.is_some(), &origin)?;
        let mut bed = TestBed {
            name: read.bed,
            about: read.about,
            generator,
            switch: read.switch,
            reference: read.reference,
            second: read.generator_2,
            receiver: read.receiver,
            dut: read.dut,
            networks,
            origin,
        };
        // as they are named everywhere else
        let prefix = bed.generator.kind.prefix();
        let GeneratorPorts { a, b } = &mut bed.generator.ports;
        for port in [Some(a), b.as_mut()].into_iter().flatten() {
            port.insert_str(0, prefix);
        }
        bed.check()?;
        Ok(BedFile::Hosts(Box::new(bed)))
    }
}

/// Returns a test bed for a whole disk: everything else of it is created locally.
fn whole_machine(read: Text, image: String, origin: Origin) -> Result<BedFile, FileError> {
    let wrong = |key_path: &[&str], reason: &str| {
        let key_path: Vec<Step<'_>> = key_path.iter().map(|key| Step::Key(key)).collect();
        Err(origin.error(&key_path, reason))
    };
    let of_others = [
        ("generator", read.generator.is_some()),
        ("generator-2", read.generator_2.is_some()),
        ("receiver", read.receiver.is_some()),
        ("switch", read.switch.is_some()),
        ("reference", read.reference.is_some()),
    ];
    if let Some((role, _)) = of_others.iter().find(|(_, is_there)| *is_there) {
        let reason = "the tester of a virtual machine is always this machine; omit it";
        return wrong(&[role], reason);
    }
    let dut = &read.dut;
    let of_dut = [
        ("ports", dut.ports.is_some()),
        ("macs", dut.macs.is_some()),
        ("socket", dut.socket.is_some()),
        ("vppctl", dut.vppctl.is_some()),
    ];
    if !dut.cpus.is_empty() {
        let reason = "a virtual machine forwards on all its CPUs: set machine = { cpus = N }";
        return wrong(&["dut", "cpus"], reason);
    }
    if let Some((key, _)) = of_dut.iter().find(|(_, is_there)| *is_there) {
        let reason = "fwdlab creates the ports of a virtual machine; omit them";
        return wrong(&["dut", key], reason);
    }
    if matches!(dut.kind, System::Vpp | System::None) {
        let reason = "a virtual machine as a DUT has kind linux, freebsd or bsdrp; use existing hosts for other kinds";
        return wrong(&["dut", "kind"], reason);
    }
    let hardware = dut.machine.unwrap_or_default();
    if !(1..=256).contains(&hardware.cpus) {
        return wrong(&["dut", "machine", "cpus"], "a machine has 1 to 256 CPUs");
    }
    if !(64..=1_048_576).contains(&hardware.memory_mib) {
        return wrong(
            &["dut", "machine", "memory-mib"],
            "a machine has 64 to 1048576 MiB of memory",
        );
    }
    let networks = networks(&read.link, false, &origin)?;
    Ok(BedFile::Machine(Box::new(WholeMachine {
        name: read.bed,
        about: read.about,
        image,
        kind: dut.kind,
        hardware,
        ready: read.dut.ready,
        networks,
        origin,
    })))
}

impl TestBed {
    /// Parses a test bed of hosts.
    ///
    /// # Errors
    /// As [`BedFile::parse`], and if it is a virtual machine.
    pub fn parse(file: &str, text: &str) -> Result<TestBed, FileError> {
        match BedFile::parse(file, text)? {
            BedFile::Hosts(bed) => Ok(*bed),
            BedFile::Image { .. } | BedFile::Machine(_) => Err(FileError {
                file: file.into(),
                place: None,
                reason: "it is a virtual machine, but hosts are needed here".into(),
            }),
        }
    }

    /// Returns an error about the value at this path, or its closest existing parent.
    pub fn error(&self, key_path: &[&str], reason: impl Into<String>) -> FileError {
        let key_path: Vec<Step<'_>> = key_path.iter().map(|key| Step::Key(key)).collect();
        self.origin.error(&key_path, reason)
    }

    fn check(&self) -> Result<(), FileError> {
        let wrong = |key_path: &[&str], reason: &str| Err(self.error(key_path, reason));
        self.check_tester()?;
        if let Some(switch) = &self.switch {
            self.check_switch(switch)?;
        }
        if let Some(reference) = &self.reference {
            self.check_reference(reference)?;
        }
        if let Some(Err(reason)) = self.generator.senders.map(check_senders) {
            return wrong(&["generator", "senders"], &reason);
        }
        if self.generator.engine == Engine::Sim {
            let reason = "a simulated DUT needs no test bed; omit engine, or omit the test bed";
            return wrong(&["generator", "engine"], reason);
        }
        let dut = &self.dut;
        self.check_agent("dut", dut.snmp, dut.community.as_deref())?;
        if dut.settle.is_some() && dut.snmp.is_none() {
            let reason =
                "it is for the counters of an SNMP agent; add snmp = \"ADDRESS\", or omit this";
            return wrong(&["dut", "settle"], reason);
        }
        match (dut.kind, &dut.host, &dut.ports, &dut.macs) {
            (kind, None, ..) if kind != System::None => wrong(
                &["dut"],
                "it needs a host: local, netns:NAME, or ssh://[user@]host[:port]; a black box has kind = \"none\"",
            ),
            (kind, _, None, _) if kind != System::None => {
                wrong(&["dut"], "it needs ports = { a = \"...\", b = \"...\" }")
            }
            (kind, .., Some(_)) if kind != System::None => wrong(
                &["dut", "macs"],
                "fwdlab reads the MAC addresses of the DUT; omit this, or set kind = \"none\"",
            ),
            (System::None, Some(_), ..) => wrong(
                &["dut", "host"],
                "fwdlab does not log in to a DUT of kind none; omit host, or set another kind",
            ),
            (System::None, _, None, _) if dut.snmp.is_some() => wrong(
                &["dut", "snmp"],
                "it needs ports = { a = \"...\", b = \"...\" }: their names in the agent (ifName)",
            ),
            (System::None, _, Some(_), _) if dut.snmp.is_none() && !dut.is_loop => wrong(
                &["dut", "ports"],
                "ports of a DUT of kind none are known only by their SNMP agent; add snmp = \"ADDRESS\", or omit this",
            ),
            (kind, ..) if kind != System::None && dut.snmp.is_some() => wrong(
                &["dut", "snmp"],
                "fwdlab logs in to this DUT and reads its counters; omit this, or set kind = \"none\"",
            ),
            (System::None, ..) if dut.ready.is_some() => wrong(
                &["dut", "ready"],
                "no command can run on a DUT of kind none; omit this",
            ),
            (kind, ..) if kind != System::Vpp && (dut.socket.is_some() || dut.vppctl.is_some()) => {
                wrong(
                    &["dut"],
                    "socket and vppctl are for VPP: set kind = \"vpp\", or omit them",
                )
            }
            (kind, ..) if kind != System::Linux && !dut.cpus.is_empty() => wrong(
                &["dut", "cpus"],
                "only a Linux DUT can be given CPUs; omit this",
            ),
            _ if dut
                .cpus
                .iter()
                .enumerate()
                .any(|(n, cpu)| dut.cpus[..n].contains(cpu)) =>
            {
                wrong(&["dut", "cpus"], "a CPU is listed twice")
            }
            (_, host, ports, _) => {
                if let Some(ports) = ports {
                    if !matches!(dut.kind, System::Vpp | System::None) {
                        self.check_ports("dut", ports)?;
                    }
                    for (key, port) in [("a", &ports.a), ("b", &ports.b)] {
                        let is_it =
                            |of: &TesterPort<'_>| Some(of.host) == host.as_ref() && of.port == port;
                        if let Some(of) = self.tester_ports().into_iter().find(is_it) {
                            let reason = format!("`{port}` is a port of the {} already", of.role);
                            return wrong(&["dut", "ports", key], &reason);
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the tester's port at each port of the DUT.
    pub fn tester(&self) -> Ends<TesterPort<'_>> {
        let Generator { host, ports, .. } = &self.generator;
        let of_generator = |port| TesterPort {
            role: "generator",
            host,
            port,
        };
        Ends {
            a: of_generator(&*ports.a),
            b: match &self.receiver {
                Some(receiver) => TesterPort {
                    role: "receiver",
                    host: &receiver.host,
                    port: &receiver.ports.b,
                },
                // one of the two exists
                None => of_generator(ports.b.as_deref().unwrap_or_default()),
            },
        }
    }

    /// Returns the port of the second sender.
    pub fn second(&self) -> Option<TesterPort<'_>> {
        self.second.as_ref().map(|second| TesterPort {
            role: "generator-2",
            host: &second.host,
            port: &second.ports.a,
        })
    }

    /// Returns the same test bed with its reference in place of the DUT, if it has one.
    pub fn with_reference(&self) -> Option<TestBed> {
        let Reference { host, ports } = self.reference.clone()?;
        let dut = Device {
            kind: match &host {
                Some(_) => System::Linux,
                None => System::None,
            },
            is_loop: host.is_none(),
            host,
            ports,
            snmp: None,
            community: None,
            settle: None,
            macs: None,
            ready: None,
            socket: None,
            vppctl: None,
            cpus: Vec::new(),
            machine: None,
        };
        Some(TestBed {
            dut,
            reference: None,
            ..self.clone()
        })
    }

    /// Checks the SNMP community of a device.
    fn check_agent(
        &self,
        device: &str,
        snmp: Option<Agent>,
        community: Option<&str>,
    ) -> Result<(), FileError> {
        let reason = match (snmp, community) {
            (None, Some(_)) => "it needs an SNMP agent; add snmp = \"ADDRESS\", or omit this",
            (_, Some(text)) if text.is_empty() || text.len() > 63 => {
                "a community has 1 to 63 characters"
            }
            _ => return Ok(()),
        };
        Err(self.error(&[device, "community"], reason))
    }

    fn check_switch(&self, switch: &Switch) -> Result<(), FileError> {
        let wrong = |key_path: &[&str], reason: String| Err(self.error(key_path, reason));
        if let Some(Place::Image(_)) = &switch.host {
            return wrong(
                &["switch", "host"],
                "a virtual machine cannot be a switch".into(),
            );
        }
        if switch.host.is_some() && switch.snmp.is_some() {
            let reason = "a Linux bridge is queried through its host; omit this, or omit host";
            return wrong(&["switch", "snmp"], reason.into());
        }
        self.check_agent("switch", switch.snmp, switch.community.as_deref())?;
        let ports = switch.ports.named();
        if ports.is_empty() {
            let reason = "it needs its ports, named after what is connected to them: { tester-a = \"...\", dut-a = \"...\", dut-b = \"...\", tester-b = \"...\" }";
            return wrong(&["switch", "ports"], reason.into());
        }
        for (number, (key, port)) in ports.iter().enumerate() {
            let key_path = ["switch", "ports", key];
            if let Some((other, _)) = ports[..number].iter().find(|(_, known)| known == port) {
                return wrong(
                    &key_path,
                    format!("`{port}` is already the port of {other}"),
                );
            }
            // a switch that is a host has interfaces; others have port names of any form
            let is_name = !port.is_empty() && !port.contains(char::is_whitespace);
            if !is_name || (switch.host.is_some() && !is_port(port)) {
                return wrong(
                    &key_path,
                    format!("`{port}` is not the name of a port, such as swp1"),
                );
            }
        }
        if switch.ports.tester_2.is_some() && self.second.is_none() {
            let reason = "there is no [generator-2]; omit this, or add one";
            return wrong(&["switch", "ports", "tester-2"], reason.into());
        }
        let Vlans { a, b } = switch.vlans;
        for (key, id) in [("a", a), ("b", b)] {
            if !(1..=4094).contains(&id) {
                return wrong(
                    &["switch", "vlans", key],
                    format!("a VLAN has a number from 1 to 4094, not {id}"),
                );
            }
        }
        match a == b {
            true => wrong(
                &["switch", "vlans", "b"],
                format!(
                    "{b} is the VLAN of link a: in the same VLAN, frames would bypass the DUT; use another"
                ),
            ),
            false => Ok(()),
        }
    }

    fn check_reference(&self, reference: &Reference) -> Result<(), FileError> {
        let wrong = |key_path: &[&str], reason: &str| Err(self.error(key_path, reason));
        match (&reference.host, &reference.ports) {
            (None, None) => Ok(()),
            (Some(Place::Image(_)), _) => wrong(
                &["reference", "host"],
                "a virtual machine is a complete test bed; use local, netns:NAME, or ssh://[user@]host[:port]",
            ),
            (Some(_), Some(ports)) => self.check_ports("reference", ports),
            _ => wrong(
                &["reference"],
                "a router needs host and ports = { a = \"...\", b = \"...\" }; a loop, such as a cable, has neither",
            ),
        }
    }

    /// Returns all ports of the tester: at a, at b, and that of the second sender.
    pub fn tester_ports(&self) -> Vec<TesterPort<'_>> {
        let Ends { a, b } = self.tester();
        [a, b].into_iter().chain(self.second()).collect()
    }

    fn check_tester(&self) -> Result<(), FileError> {
        let wrong = |key_path: &[&str], reason: String| Err(self.error(key_path, reason));
        match (&self.generator.ports.b, &self.receiver) {
            (None, None) => {
                return wrong(
                    &["generator", "ports"],
                    "there is no port for frames that come back: set b = \"...\", too, or add [receiver] with host and ports = { b = \"...\" }".into(),
                );
            }
            (Some(port), Some(_)) => {
                return wrong(
                    &["generator", "ports", "b"],
                    format!("the receiver has port b; omit `{port}` here, or omit [receiver]"),
                );
            }
            _ => {}
        }
        let places = [
            ("generator-2", self.second.as_ref().map(|of| &of.host)),
            ("receiver", self.receiver.as_ref().map(|of| &of.host)),
        ];
        for (role, place) in places {
            if let Some(Place::Image(image)) = place {
                let reason =
                    format!("vm:{image} contains tester and DUT and is a complete test bed");
                return wrong(&[role, "host"], reason);
            }
        }
        if self.receiver.as_ref().map(|of| &of.host) == Some(&self.generator.host) {
            return wrong(
                &["receiver", "host"],
                "that is the generator's host: omit [receiver], and set ports = { a = \"...\", b = \"...\" } in [generator]".into(),
            );
        }
        if self.generator.kind != PortKind::Interface {
            return self.check_user_ports();
        }
        let ports = self.tester_ports();
        for (number, port) in ports.iter().enumerate() {
            let key = match number {
                1 => "b",
                _ => "a",
            };
            let key_path = [port.role, "ports", key];
            if !is_port(port.port) {
                let mut reason = format!(
                    "`{}` is not the name of an interface, such as eth1",
                    port.port
                );
                if port.port.contains('/') {
                    reason += "; memif ports have kind = \"memif\" in [generator]";
                } else if port.port.contains(':') {
                    reason += "; DPDK ports have kind = \"dpdk\" in [generator]";
                }
                return wrong(&key_path, reason);
            }
            let is_same =
                |other: &&TesterPort<'_>| (other.host, other.port) == (port.host, port.port);
            if let Some(other) = ports[..number].iter().find(is_same) {
                let reason = format!(
                    "`{}` is already port a of the {}; frames come out at another one",
                    port.port, other.role
                );
                return wrong(&key_path, reason);
            }
        }
        Ok(())
    }

    /// Checks a bed whose tester has ports that the kernel does not know.
    fn check_user_ports(&self) -> Result<(), FileError> {
        let wrong = |key_path: &[&str], reason: String| Err(self.error(key_path, reason));
        let kind = self.generator.kind;
        let is_memif = kind == PortKind::Memif;
        let name = if is_memif { "memif" } else { "DPDK" };
        if self.generator.host != Place::Local {
            let reason =
                format!("a {name} port belongs to this machine; say host = \"local\", or omit it");
            return wrong(&["generator", "host"], reason);
        }
        if self.generator.engine != Engine::Auto {
            let reason = format!("{name} ports have an engine of their own; omit this");
            return wrong(&["generator", "engine"], reason);
        }
        if is_memif && self.generator.senders.is_some_and(|senders| senders > 1) {
            let reason = "one thread sends into all queues of a memif port; omit this";
            return wrong(&["generator", "senders"], reason.into());
        }
        let others = [
            ("receiver", self.receiver.is_some()),
            ("generator-2", self.second.is_some()),
            ("switch", is_memif && self.switch.is_some()),
            ("reference", is_memif && self.reference.is_some()),
        ];
        if let Some((key, _)) = others.iter().find(|(_, is_there)| *is_there) {
            let reason =
                format!("both {name} ports are connected to the DUT, and nothing else; omit this");
            return wrong(&[key], reason);
        }
        if is_memif && (self.dut.kind != System::None || self.dut.macs.is_none()) {
            let reason = "a DUT behind memif ports is a black box: say kind = \"none\" and macs";
            return wrong(&["dut"], reason.into());
        }
        if self.dut.kind == System::None && self.dut.macs.is_none() && !self.dut.is_loop {
            let reason = format!("{name} ports answer no ARP yet: say the DUT's macs");
            return wrong(&["dut"], reason);
        }
        let Ends { a, b } = self.tester();
        let mut known = None;
        for (key, port) in [("a", a), ("b", b)] {
            let end = match is_memif {
                true => memif::Options::named(port.port)
                    .map(|options| format!("{:?}", (options.socket, options.role, options.id))),
                false => dpdk::device(port.port)
                    .map(|device| device.split(',').next().unwrap_or_default().to_owned()),
            };
            let end = match end {
                Ok(end) => end,
                Err(reason) => return wrong(&["generator", "ports", key], reason),
            };
            if known.as_ref() == Some(&end) {
                let reason = match is_memif {
                    true => "that is port a already; say another socket or id",
                    false => "that is port a already; say another device",
                };
                return wrong(&["generator", "ports", key], reason.into());
            }
            known = Some(end);
        }
        Ok(())
    }

    fn check_ports(&self, of: &str, ports: &Ends<String>) -> Result<(), FileError> {
        for (key, port) in [("a", &ports.a), ("b", &ports.b)] {
            if !is_port(port) {
                let reason = format!("`{port}` is not the name of an interface, such as eth1");
                return Err(self.error(&[of, "ports", key], reason));
            }
        }
        match ports.a == ports.b {
            true => Err(self.error(
                &[of, "ports", "b"],
                format!(
                    "`{}` is port a already; frames come out at another one",
                    ports.b
                ),
            )),
            false => Ok(()),
        }
    }
}

/// Returns true if the kernel accepts this name.
fn is_port(port: &str) -> bool {
    (1..16).contains(&port.len())
        && !port.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
        && port != "."
        && port != ".."
}

/// Returns the networks of the links.
fn networks(
    links: &[Link],
    has_receiver: bool,
    origin: &Origin,
) -> Result<Ends<Option<(Ipv4Addr, u8)>>, FileError> {
    let mut networks = Ends::default();
    let mut seen = Vec::new();
    for (number, link) in links.iter().enumerate() {
        let at = |key: &'static str| [Step::Key("link"), Step::Item(number), Step::Key(key)];
        let wrong = |key, reason: String| Err(origin.error(&at(key), reason));
        let mut ends = link.ends.each_ref().map(String::as_str);
        ends.sort_unstable_by_key(|end| !end.starts_with("dut."));
        let place = match ends {
            ["dut.a", "generator.a"] => &mut networks.a,
            ["dut.b", "generator.b"] if !has_receiver => &mut networks.b,
            ["dut.b", "receiver.b"] if has_receiver => &mut networks.b,
            _ => {
                return wrong(
                    "ends",
                    format!(
                        "a link joins generator.a with dut.a, or {}.b with dut.b, not {} with {}; exchange the names of ports if they are connected differently",
                        if has_receiver {
                            "receiver"
                        } else {
                            "generator"
                        },
                        link.ends[0],
                        link.ends[1]
                    ),
                );
            }
        };
        if seen.contains(&ends[0]) {
            return wrong("ends", format!("{} has a link already", ends[0]));
        }
        seen.push(ends[0]);
        let Some(text) = &link.net else { continue };
        match network(text) {
            Ok(network) => *place = Some(network),
            Err(reason) => return wrong("net", reason),
        }
    }
    Ok(networks)
}

fn network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let bad = || format!("`{text}` is not an IPv4 network; write one like 198.18.0.0/24");
    let (address, length) = text.split_once('/').ok_or_else(bad)?;
    let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
    let length: u8 = length.parse().map_err(|_| bad())?;
    if !(8..=30).contains(&length) {
        return Err(format!(
            "a network of two hosts has a prefix of 8 to 30 bits, not of {length}"
        ));
    }
    let network = Ipv4Addr::from(u32::from(address) & (u32::MAX << (32 - u32::from(length))));
    match network == address {
        true => Ok((network, length)),
        false => Err(format!(
            "`{text}` is an address in a network; the network is {network}/{length}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
bed = 'r1'
[generator]
host = 'netns:gen'
ports = { a = 'tx', b = 'rx' }
[dut]
host = 'ssh://root@r1'
ports = { a = 'eth1', b = 'eth2' }
ready = { command = 'true', within = '2m' }
[[link]]
ends = ['generator.a', 'dut.a']
net = '10.1.0.0/24'
";

    #[test]
    fn all_parts_of_a_bed_are_parsed() {
        let whole = WHOLE.replacen("ready", "cpus = [3, 1]\nready", 1);
        let bed = TestBed::parse("r1.toml", &whole).unwrap();
        assert_eq!(bed.generator.host, Place::Namespace("gen".into()));
        assert_eq!(bed.dut.host, Some(Place::Ssh("ssh://root@r1".into())));
        assert_eq!(bed.dut.kind, System::Linux);
        assert_eq!(bed.dut.cpus, [3, 1]);
        assert_eq!(bed.networks.a, Some((Ipv4Addr::new(10, 1, 0, 0), 24)));
        assert_eq!(bed.networks.b, None);
        let ready = bed.dut.ready.unwrap();
        assert_eq!(ready.within.0, Duration::from_secs(120));
    }

    /// Each error with its position and a suggestion.
    #[test]
    fn errors_have_a_place_and_a_suggestion() {
        for (from, to, expected) in [
            ("bed = 'r1'", "bed = 'r 1'", "r1.toml:1:7: a name consists"),
            (
                "netns:gen",
                "netns:",
                "r1.toml:3:8: `netns:` is not a host; write local",
            ),
            (
                "b = 'rx'",
                "b = 'tx'",
                "r1.toml:4:25: `tx` is already port a of the generator",
            ),
            (
                "'eth2'",
                "'a/b'",
                "r1.toml:7:27: `a/b` is not the name of an interface",
            ),
            (
                "ports = { a = 'eth1', b = 'eth2' }\n",
                "",
                "r1.toml:5:2: it needs ports",
            ),
            (
                "host = 'ssh://root@r1'\n",
                "",
                "r1.toml:5:2: it needs a host",
            ),
            (
                "ready",
                "cpus = [3, 3]\nready",
                "r1.toml:8:1: a CPU is listed twice",
            ),
            (
                "[dut]\n",
                "[dut]\nkind = 'freebsd'\ncpus = [1]\n",
                "r1.toml:7:1: only a Linux DUT can be given CPUs",
            ),
            (
                "[dut]\n",
                "[dut]\nkind = 'linus'\n",
                "r1.toml:6:8: unknown name `linus`; did you mean `linux`?",
            ),
            (
                "[dut]\n",
                "[dut]\nkind = 'none'\n",
                "r1.toml:7:8: fwdlab does not log in to",
            ),
            (
                "ready",
                "raedy",
                "r1.toml:8:1: unknown key `raedy`; did you mean `ready`?",
            ),
            (
                "'dut.a'",
                "'dut.b'",
                "r1.toml:10:1: a link joins generator.a with dut.a",
            ),
            (
                "10.1.0.0/24",
                "10.1.0.1/24",
                "r1.toml:11:7: `10.1.0.1/24` is an address in a network; the network is 10.1.0.0/24",
            ),
            (
                "10.1.0.0/24",
                "10.1.0.0/31",
                "r1.toml:11:7: a network of two hosts",
            ),
            (
                "10.1.0.0/24",
                "10.1/24",
                "r1.toml:11:7: `10.1/24` is not an IPv4 network",
            ),
            (
                "'netns:gen'",
                "'local'\nengine = 'sim'",
                "r1.toml:4:10: a simulated DUT needs no test bed",
            ),
            (
                "'netns:gen'",
                "'netns:gen'\nsenders = 17",
                "r1.toml:4:11: 17 senders on a port; 1 to 16 are possible",
            ),
        ] {
            assert!(WHOLE.contains(from), "{from}");
            let text = WHOLE.replacen(from, to, 1);
            let error = TestBed::parse("r1.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn memif_ports_are_named_as_everywhere_else() {
        let text = "bed = 'm'\n[generator]\nkind = 'memif'\nports = { a = '/run/a,id=1', b = '/run/b,role=server' }\n\
            [dut]\nkind = 'none'\nmacs = { a = '02:00:00:00:00:0a', b = '02:00:00:00:00:0b' }\n";
        let bed = TestBed::parse("x", text).unwrap();
        let names = bed.tester_ports();
        assert_eq!(
            (names[A].port, names[B].port),
            ("memif:/run/a,id=1", "memif:/run/b,role=server")
        );
        let kind = "kind = 'memif'\n";
        for (from, to, expected) in [
            (
                kind,
                "",
                "x:3:15: `/run/a,id=1` is not the name of an interface, such as eth1; memif ports have kind",
            ),
            (
                "/run/a,id=1",
                "/run/a,id=x",
                "x:4:15: `id=x` is not valid in",
            ),
            (
                "/run/a,id=1",
                "memif:/run/a",
                "x:4:15: `memif:memif:/run/a` has no path",
            ),
            (
                "/run/a,id=1",
                "/run/a,queues=17",
                "x:4:15: a memif port has 1 to 16 queues",
            ),
            (
                "/run/a,id=1",
                "/run/b,role=server,ring=64",
                "x:4:49: that is port a already",
            ),
            (
                kind,
                "kind = 'memif'\nhost = 'netns:x'\n",
                "x:4:8: a memif port belongs to this machine",
            ),
            (
                kind,
                "kind = 'memif'\nengine = 'af-xdp'\n",
                "x:4:10: memif ports have an engine of their own",
            ),
            (
                "[dut]",
                "[switch]\nports = { dut-a = 'x' }\n[dut]",
                "x:5:2: both memif ports are connected",
            ),
            (
                ", b = '/run/b,role=server'",
                "",
                "x:4:1: there is no port for frames that come back",
            ),
            (
                "kind = 'none'\nmacs = { a = '02:00:00:00:00:0a', b = '02:00:00:00:00:0b' }",
                "host = 'local'\nports = { a = 'c', b = 'd' }",
                "x:5:2: a DUT behind memif ports is a black box",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let error = TestBed::parse("x", &text.replacen(from, to, 1))
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn dpdk_ports_are_devices_of_this_machine() {
        let text = "bed = 'm'\n[generator]\nkind = 'dpdk'\nports = { a = '0000:03:00.0', b = 'net_tap0,iface=t0' }\n\
            [dut]\nhost = 'ssh://r1'\nports = { a = 'c', b = 'd' }\n";
        let bed = TestBed::parse("x", text).unwrap();
        let names = bed.tester_ports();
        assert_eq!(
            (names[A].port, names[B].port),
            ("dpdk:0000:03:00.0", "dpdk:net_tap0,iface=t0")
        );
        TestBed::parse("x", &text.replace("'dpdk'\n", "'dpdk'\nsenders = 4\n")).unwrap();
        for (from, to, expected) in [
            (
                "kind = 'dpdk'\n",
                "",
                "x:3:15: `0000:03:00.0` is not the name of an interface, such as eth1; DPDK ports have kind",
            ),
            (
                "'net_tap0,iface=t0'",
                "'0000:03:00.0,x=1'",
                "x:4:35: that is port a already; say another device",
            ),
            (
                "'0000:03:00.0'",
                "'a b'",
                "x:4:15: `dpdk:a b` names no device",
            ),
            (
                "kind = 'dpdk'\n",
                "kind = 'dpdk'\nhost = 'ssh://t1'\n",
                "x:4:8: a DPDK port belongs to this machine",
            ),
            (
                "host = 'ssh://r1'\nports = { a = 'c', b = 'd' }",
                "kind = 'none'",
                "x:5:2: DPDK ports answer no ARP yet: say the DUT's macs",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let error = TestBed::parse("x", &text.replacen(from, to, 1))
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_black_box_may_have_an_agent_that_counts() {
        let text = "bed = 'm'\n[generator]\nhost = 'local'\nports = { a = 'tx', b = 'rx' }\n\
            [dut]\nkind = 'none'\nsnmp = '192.0.2.1'\ncommunity = 'x'\nsettle = '10s'\nports = { a = 'GigabitEthernet0/0/1', b = 'ge-0/0/2' }\n";
        let bed = TestBed::parse("x", text).unwrap();
        let agent = Agent([192, 0, 2, 1].into(), 161);
        assert_eq!(bed.dut.snmp, Some(agent));
        for (from, to, expected) in [
            (
                "ports = { a = 'GigabitEthernet0/0/1', b = 'ge-0/0/2' }",
                "",
                "x:7:8: it needs ports",
            ),
            ("snmp = '192.0.2.1'\n", "", "x:7:13: it needs an SNMP agent"),
            (
                "snmp = '192.0.2.1'\ncommunity = 'x'\n",
                "",
                "x:7:10: it is for the counters of an SNMP agent",
            ),
            (
                "snmp = '192.0.2.1'\ncommunity = 'x'\nsettle = '10s'\n",
                "",
                "x:7:1: ports of a DUT of kind none are known only by their SNMP agent",
            ),
            (
                "kind = 'none'",
                "host = 'ssh://r'",
                "x:7:8: fwdlab logs in to this DUT",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let error = TestBed::parse("x", &text.replacen(from, to, 1))
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    const A: usize = 0;
    const B: usize = 1;

    #[test]
    fn sender_and_receiver_may_be_two_hosts_and_senders_may_be_two() {
        let text = WHOLE.replace("a = 'tx', b = 'rx' }", "a = 'tx' }");
        let more = "[receiver]\nhost = 'ssh://r'\nports = { b = 'tx' }\n[generator-2]\nhost = 'netns:gen'\nports = { a = 'ty' }\n";
        let whole =
            format!("{text}[[link]]\nends = ['receiver.b', 'dut.b']\nnet = '10.2.0.0/24'\n{more}");
        let bed = TestBed::parse("x", &whole).unwrap();
        let roles: Vec<_> = bed
            .tester_ports()
            .iter()
            .map(|of| (of.role, of.port))
            .collect();
        assert_eq!(
            roles,
            [
                ("generator", "tx"),
                ("receiver", "tx"),
                ("generator-2", "ty")
            ]
        );
        assert_eq!(*bed.tester().b.host, Place::Ssh("ssh://r".into()));
        assert_eq!(bed.networks.b, Some((Ipv4Addr::new(10, 2, 0, 0), 24)));
        for (from, to, expected) in [
            (
                more,
                "",
                "a link joins generator.a with dut.a, or generator.b",
            ),
            (
                "a = 'tx' }",
                "a = 'tx', b = 'rx' }",
                "x:4:25: the receiver has port b; omit `rx`",
            ),
            (
                "ssh://r'\n",
                "netns:gen'\n",
                "that is the generator's host: omit [receiver]",
            ),
            ("'ty'", "'tx'", "`tx` is already port a of the generator"),
            (
                "b = 'tx'",
                "b = 'a b'",
                "`a b` is not the name of an interface",
            ),
            (
                "host = 'ssh://r'",
                "host = 'vm:x'",
                "vm:x contains tester and DUT",
            ),
            ("b = 'tx' }", "a = 'tx' }", "unknown key `a`"),
        ] {
            assert!(whole.contains(from), "{from}");
            let error = TestBed::parse("x", &whole.replacen(from, to, 1))
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = TestBed::parse("x", &text).unwrap_err().to_string();
        assert!(
            error.starts_with("x:4:1: there is no port for frames that come back"),
            "{error}"
        );
    }

    #[test]
    fn a_switch_and_a_reference_are_named_with_their_ports() {
        let more = "[switch]\nhost = 'netns:sw'\nports = { tester-a = 's1', dut-a = 's2', tester-b = 's4' }\n[reference]\n";
        let whole = format!("{WHOLE}{more}");
        let bed = TestBed::parse("x", &whole).unwrap();
        let switch = bed.switch.clone().unwrap();
        assert_eq!(
            switch.ports.named(),
            [("tester-a", "s1"), ("dut-a", "s2"), ("tester-b", "s4")]
        );
        assert_eq!((switch.vlans.a, switch.vlans.b), (701, 702));
        // a loop has no owner that could be asked
        let reference = bed.with_reference().unwrap();
        assert_eq!(
            (reference.dut.kind, reference.dut.host),
            (System::None, None)
        );
        let router = whole.replace(
            "[reference]\n",
            "[reference]\nhost = 'local'\nports = { a = 'ra', b = 'rb' }\n",
        );
        let reference = TestBed::parse("x", &router)
            .unwrap()
            .with_reference()
            .unwrap();
        assert_eq!(
            (reference.dut.kind, reference.dut.ports.unwrap().b),
            (System::Linux, "rb".into())
        );
        for (from, to, expected) in [
            (
                "dut-a = 's2'",
                "dut-a = 's1'",
                "x:14:36: `s1` is already the port of tester-a",
            ),
            (
                "dut-a = 's2'",
                "dut = 's1'",
                "unknown key `dut`; did you mean `dut-a`?",
            ),
            (
                "dut-a = 's2'",
                "dut-a = 'Gi1/0/1'",
                "`Gi1/0/1` is not the name of a port",
            ),
            (
                "dut-a = 's2'",
                "tester-2 = 's2'",
                "there is no [generator-2]",
            ),
            (
                "{ tester-a = 's1', dut-a = 's2', tester-b = 's4' }",
                "{}",
                "it needs its ports",
            ),
            (
                "[reference]",
                "vlans = { a = 7, b = 7 }\n[reference]",
                "in the same VLAN, frames would bypass the DUT",
            ),
            (
                "[reference]",
                "vlans = { a = 7, b = 4095 }\n[reference]",
                "from 1 to 4094",
            ),
            (
                "[reference]",
                "[reference]\nhost = 'local'",
                "a router needs host and ports",
            ),
            (
                "[switch]",
                "[switch]\nsnmp = '192.0.2.9'",
                "queried through its host",
            ),
            (
                "[switch]",
                "[switch]\ncommunity = 'x'",
                "it needs an SNMP agent",
            ),
            (
                "host = 'netns:sw'",
                "snmp = 'sw1'",
                "x:13:8: `sw1` is not an address of an SNMP agent",
            ),
        ] {
            assert!(whole.contains(from), "{from}");
            let error = TestBed::parse("x", &whole.replacen(from, to, 1))
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
        // port names of other vendors' switches have any form
        let foreign = whole
            .replace("host = 'netns:sw'\n", "")
            .replace("'s1'", "'Gi1/0/1'");
        assert!(TestBed::parse("x", &foreign).is_ok());
        let agent = |text: &str| {
            text.parse::<Agent>()
                .map(|Agent(ip, port)| (ip.to_string(), port))
        };
        assert_eq!(agent("192.0.2.9"), Ok(("192.0.2.9".into(), 161)));
        assert_eq!(agent("192.0.2.9:1161"), Ok(("192.0.2.9".into(), 1161)));
        assert_eq!(agent("2001:db8::9"), Ok(("2001:db8::9".into(), 161)));
        assert_eq!(
            agent("[2001:db8::9]:1161"),
            Ok(("2001:db8::9".into(), 1161))
        );
        assert!(agent("[192.0.2.9]:1").is_err() && agent("192.0.2.9:x").is_err());
    }

    #[test]
    fn a_virtual_machine_is_all_of_a_bed() {
        let text = "bed = 'v'\n[dut]\nhost = 'vm:debian:linux-image-cloud-amd64'\n";
        let expected = BedFile::Image {
            name: "v".into(),
            image: "debian:linux-image-cloud-amd64".into(),
        };
        assert_eq!(BedFile::parse("x", text).unwrap(), expected);
        let error = BedFile::parse("x", &format!("{text}ports = {{ a = 'a', b = 'b' }}\n"));
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("x:3:8: a virtual machine contains tester, DUT and links"),
            "{error}"
        );
        let error = BedFile::parse("x", &WHOLE.replace("netns:gen", "vm:x")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("x:3:8: a virtual machine contains tester and DUT"),
            "{error}"
        );
        let error = BedFile::parse("x", "bed = 'v'\n[dut]\nhost = 'local'\n").unwrap_err();
        assert!(
            error.to_string().contains("there is no [generator]"),
            "{error}"
        );
    }

    #[test]
    fn a_disk_that_boots_as_a_machine_needs_only_its_name() {
        let text = "bed = 'v'\n[dut]\nhost = 'vm:bsd.qcow2'\nkind = 'freebsd'\n";
        let BedFile::Machine(machine) = BedFile::parse("x", text).unwrap() else {
            panic!("it is a machine")
        };
        assert_eq!(
            (&*machine.image, machine.kind),
            ("bsd.qcow2", System::Freebsd)
        );
        assert_eq!(machine.hardware, Hardware::default());
        // required for Linux, because a kernel could be meant, too
        let linux =
            "bed = 'v'\n[dut]\nhost = 'vm:disk'\nmachine = { cpus = 2, devices = 'classic' }\n";
        let BedFile::Machine(machine) = BedFile::parse("x", linux).unwrap() else {
            panic!("it is a machine")
        };
        let hardware = machine.hardware;
        assert_eq!(
            (hardware.cpus, hardware.memory_mib, hardware.devices),
            (2, 1024, Devices::Classic)
        );
        for (text, reason) in [
            (
                format!("{text}ports = {{ a = 'a', b = 'b' }}\n"),
                "x:5:1: fwdlab creates the ports of a virtual machine",
            ),
            (
                text.replace("freebsd", "vpp"),
                "x:4:8: a virtual machine as a DUT has kind",
            ),
            (
                format!("{text}machine = {{ cpus = 0 }}\n"),
                "x:5:20: a machine has 1 to 256",
            ),
            (
                format!("{text}machine = {{ memory-mib = 1 }}\n"),
                "64 to 1048576",
            ),
            (
                format!("{text}machine = {{ ram = 1 }}\n"),
                "unknown key `ram`",
            ),
            (
                format!("{text}[generator]\nports = {{ a = 'a', b = 'b' }}\n"),
                "x:5:2: the tester of a virtual machine is always this machine",
            ),
            (
                WHOLE.replacen(
                    "host = 'ssh://root@r1'\n",
                    "host = 'ssh://root@r1'\nmachine = {}\n",
                    1,
                ),
                "only a virtual machine has this",
            ),
        ] {
            let error = BedFile::parse("x", &text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_black_box_has_nothing_but_addresses() {
        let text = WHOLE.replacen(
            "host = 'ssh://root@r1'\nports = { a = 'eth1', b = 'eth2' }\nready = { command = 'true', within = '2m' }\n",
            "kind = 'none'\nmacs = { a = '02:00:00:00:00:0a', b = '02:00:00:00:00:0B' }\n",
            1,
        );
        let bed = TestBed::parse("x", &text).unwrap();
        assert_eq!(bed.dut.macs.unwrap().b, Mac([2, 0, 0, 0, 0, 0x0b]));
        for (mac, reason) in [
            ("01:00:00:00:00:0a", "of a group"),
            ("02:00:00:00:00", "is not a MAC"),
        ] {
            let text = text.replace("02:00:00:00:00:0a", mac);
            let error = TestBed::parse("x", &text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
