//! Test beds as files: on which hosts the tester's ports and the device under test are, how they are reached, and what joins them.
//!
//! A [`TestBed`] that exists is well formed: every host is a place, every port has a name, and the networks of its links have room. Whether
//! anything of it is there is found out by those who use it. Start with [`BedFile::parse`].
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
//! assert!(error.to_string().starts_with("x.toml:7:12: `shs://root@router1` is no host"));
//! # Ok::<(), fwdlab_model::file::FileError>(())
//! ```

use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::de::DeTable;

use crate::campaign::Engine;
use crate::campaign::value::Period;
use crate::file::{FileError, Origin, Step};
use crate::typed::{Numbers, typed};

/// What the file of a test bed describes.
#[derive(Debug, Clone, PartialEq)]
pub enum BedFile {
    /// Hosts that stand.
    Hosts(Box<TestBed>),
    /// A virtual machine that boots an image, with tester and DUT in it: `debian:linux-image-...`. Instructions are counted there.
    Image {
        /// Its name.
        name: String,
        /// What it boots.
        image: String,
    },
}

/// A test bed of hosts that stand.
#[derive(Debug, Clone, PartialEq)]
pub struct TestBed {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// Who sends, and counts what comes back.
    pub generator: Generator,
    /// What is measured.
    pub dut: Device,
    /// The network between the tester and each port of the DUT, where one was given: its address, and how long its prefix is.
    pub networks: Ends<Option<(Ipv4Addr, u8)>>,
    /// Where it was read, for errors.
    pub origin: Origin,
}

/// Something of both ways into the DUT: test frames go in at `a` and come out at `b`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ends<T> {
    /// Where test frames go into the DUT
    pub a: T,
    /// Where they come out of it
    pub b: T,
}

/// Who sends, and counts what comes back
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Generator {
    /// Where: local, netns:NAME, or ssh://USER@HOST:PORT
    #[serde(default = "local")]
    pub host: Place,
    /// Its ports
    pub ports: Ends<String>,
    /// What sends; by default the fastest that proves itself there
    #[serde(default)]
    pub engine: Engine,
    /// CPUs that it may use; by default any
    #[serde(default)]
    pub cpus: Vec<usize>,
}

fn local() -> Place {
    Place::Local
}

/// What is measured
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Device {
    /// Where: local, netns:NAME, or ssh://USER@HOST:PORT; not of kind none. vm:IMAGE boots a virtual machine with tester and DUT in it
    pub host: Option<Place>,
    /// Of which kind it is
    #[serde(default)]
    pub kind: System,
    /// Its ports; not of kind none
    pub ports: Option<Ends<String>>,
    /// MAC addresses of its ports, where nobody can log in and ask
    pub macs: Option<Ends<Mac>>,
    /// When it is ready after it was reached
    pub ready: Option<Ready>,
    /// Where a VPP listens; its ports are interfaces in its own words. By default /run/vpp/cli.sock
    pub socket: Option<String>,
    /// The program that speaks to a VPP; by default vppctl in PATH
    pub vppctl: Option<String>,
}

impl Device {
    /// Where a VPP listens.
    pub fn socket(&self) -> &str {
        self.socket.as_deref().unwrap_or("/run/vpp/cli.sock")
    }
}

/// What runs on the device
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Linux, whose kernel forwards
    #[default]
    Linux,
    /// FreeBSD; not yet run on the real thing
    Freebsd,
    /// BSDRP and other nanobsd images; not yet run on the real thing
    Bsdrp,
    /// A VPP that runs there
    Vpp,
    /// A black box: nobody can log in, and it is configured already
    None,
}

/// A command that succeeds when the device is ready
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ready {
    /// For its shell; tried again and again
    pub command: String,
    /// How long at most
    #[serde(default = "ten_minutes")]
    pub within: Period,
}

fn ten_minutes() -> Period {
    Period(Duration::from_secs(600))
}

/// Where a host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The machine that fwdlab runs on.
    Local,
    /// A network namespace of it.
    Namespace(String),
    /// A machine that answers to SSH, as it was written: `ssh://root@router1`.
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
                "`{text}` is no host; write local, netns:NAME, ssh://[user@]host[:port], or vm:IMAGE"
            )),
        }
    }
}

/// A file of this name can be in a folder.
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
        let bad = || format!("`{text}` is no MAC address; write one like 02:00:5e:10:00:01");
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

/// A test bed: on which hosts the tester's ports and the device under test are, and what joins them
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "TestBed")]
pub struct Text {
    /// Version of fwdlab this was written for
    #[serde(default, rename = "fwdlab")]
    #[expect(dead_code, reason = "for people and for later versions")]
    written_for: Option<String>,
    /// Its name: letters, digits, -, _ and .
    bed: String,
    /// What it is, in one line
    #[serde(default)]
    about: String,
    /// Who sends, and counts what comes back; not with vm:IMAGE, where it is in the machine
    generator: Option<Generator>,
    /// What is measured
    dut: Device,
    /// What joins their ports; by default a to a and b to b, with the networks for benchmarks
    #[serde(default)]
    link: Vec<Link>,
}

/// What joins two ports
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Link {
    /// A port of the generator and a port of the DUT: generator.a, dut.a
    ends: [String; 2],
    /// The network between them: 198.18.0.0/24. The DUT has its first address, the tester its second
    net: Option<String>,
}

/// What a test bed will say in a later version.
const NOT_YET: [(&str, &str); 3] = [
    ("receiver", "a receiver on another host than the sender"),
    ("switch", "switches"),
    ("reference", "reference endpoints"),
];

impl BedFile {
    /// Reads the text of a test bed. `file`: for errors.
    ///
    /// # Errors
    /// Says where in the file what is wrong.
    pub fn parse(file: &str, text: &str) -> Result<BedFile, FileError> {
        let origin = Origin {
            file: file.into(),
            text: text.into(),
        };
        let root = DeTable::parse(text).map_err(|error| origin.reading(&error))?;
        for (key, what) in NOT_YET {
            if root.get_ref().contains_key(key) {
                let why = format!("not supported yet: {what}; omit this");
                return Err(origin.error(&[Step::Key(key)], why));
            }
        }
        let read = Text::deserialize(toml::de::Deserializer::from(root.clone()));
        let read = read.map_err(|error| origin.reading(&error))?;
        if !crate::campaign::is_name(&read.bed) {
            let why = "a name consists of at most 64 letters, digits, -, _ and .";
            return Err(origin.error(&[Step::Key("bed")], why));
        }
        if let Some(Place::Image(image)) = &read.dut.host {
            let is_alone = read.generator.is_none()
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
                    "a virtual machine has tester, DUT and links in it; omit everything but bed, about, and host in [dut]",
                )),
            };
        }
        let Some(generator) = read.generator else {
            let why = "there is no [generator]; add one with host and ports = { a = \"...\", b = \"...\" }";
            return Err(origin.error(&[Step::Key("dut")], why));
        };
        if let Place::Image(_) = generator.host {
            let why = "a virtual machine has tester and DUT in it; say vm:IMAGE in [dut], and omit [generator]";
            return Err(origin.error(&[Step::Key("generator"), Step::Key("host")], why));
        }
        let networks = networks(&read.link, &origin)?;
        let bed = TestBed {
            name: read.bed,
            about: read.about,
            generator,
            dut: read.dut,
            networks,
            origin,
        };
        bed.check()?;
        Ok(BedFile::Hosts(Box::new(bed)))
    }
}

impl TestBed {
    /// The same of one that is of hosts.
    ///
    /// # Errors
    /// As [`BedFile::parse`], and where it is a virtual machine.
    pub fn parse(file: &str, text: &str) -> Result<TestBed, FileError> {
        match BedFile::parse(file, text)? {
            BedFile::Hosts(bed) => Ok(*bed),
            BedFile::Image { .. } => Err(FileError {
                file: file.into(),
                place: None,
                why: "it is a virtual machine, and here hosts are wanted".into(),
            }),
        }
    }

    /// An error about the value at the end of this way, or as near as there is one.
    pub fn error(&self, way: &[&str], why: impl Into<String>) -> FileError {
        let way: Vec<Step<'_>> = way.iter().map(|key| Step::Key(key)).collect();
        self.origin.error(&way, why)
    }

    fn check(&self) -> Result<(), FileError> {
        let wrong = |way: &[&str], why: &str| Err(self.error(way, why));
        self.check_ports("generator", &self.generator.ports)?;
        if self.generator.engine == Engine::Sim {
            let why = "a simulated DUT needs no test bed; omit engine, or omit the test bed";
            return wrong(&["generator", "engine"], why);
        }
        let dut = &self.dut;
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
                "the DUT is asked for its MAC addresses; omit this, or say kind = \"none\"",
            ),
            (System::None, Some(_), ..) => wrong(
                &["dut", "host"],
                "nobody logs into a DUT of kind none; omit host, or give it another kind",
            ),
            (System::None, .., None) => wrong(
                &["dut"],
                "nobody can ask a DUT of kind none for its MAC addresses; say macs = { a = \"02:...\", b = \"02:...\" }",
            ),
            (System::None, ..) if dut.ready.is_some() => wrong(
                &["dut", "ready"],
                "nobody can run a command on a DUT of kind none; omit this",
            ),
            (kind, ..) if kind != System::Vpp && (dut.socket.is_some() || dut.vppctl.is_some()) => {
                wrong(
                    &["dut"],
                    "socket and vppctl are of VPP: say kind = \"vpp\", or omit them",
                )
            }
            (_, host, ports, _) => {
                if let Some(ports) = ports {
                    if dut.kind != System::Vpp {
                        self.check_ports("dut", ports)?;
                    }
                    let is_same_host = host.as_ref() == Some(&self.generator.host);
                    let theirs = &self.generator.ports;
                    if is_same_host && [&theirs.a, &theirs.b].contains(&&ports.a) {
                        let why = format!("`{}` is a port of the generator already", ports.a);
                        return wrong(&["dut", "ports"], &why);
                    }
                }
                Ok(())
            }
        }
    }

    fn check_ports(&self, of: &str, ports: &Ends<String>) -> Result<(), FileError> {
        for (key, port) in [("a", &ports.a), ("b", &ports.b)] {
            // what the kernel takes as a name
            let is_port = (1..16).contains(&port.len())
                && !port.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
                && port != "."
                && port != "..";
            if !is_port {
                let why = format!("`{port}` is no name of an interface, such as eth1");
                return Err(self.error(&[of, "ports", key], why));
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

/// What the links say.
fn networks(links: &[Link], origin: &Origin) -> Result<Ends<Option<(Ipv4Addr, u8)>>, FileError> {
    let mut networks = Ends::default();
    let mut seen = Vec::new();
    for (number, link) in links.iter().enumerate() {
        let at = |key: &'static str| [Step::Key("link"), Step::Item(number), Step::Key(key)];
        let wrong = |key, why: String| Err(origin.error(&at(key), why));
        let mut ends = link.ends.each_ref().map(String::as_str);
        ends.sort_unstable_by_key(|end| !end.starts_with("dut."));
        let place = match ends {
            ["dut.a", "generator.a"] => &mut networks.a,
            ["dut.b", "generator.b"] => &mut networks.b,
            _ => {
                return wrong(
                    "ends",
                    format!(
                        "a link joins generator.a with dut.a, or generator.b with dut.b, and not {} with {}; exchange the names of \
                         ports where they are joined otherwise",
                        link.ends[0], link.ends[1]
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
            Err(why) => return wrong("net", why),
        }
    }
    Ok(networks)
}

fn network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let bad = || format!("`{text}` is no IPv4 network; write one like 198.18.0.0/24");
    let (address, length) = text.split_once('/').ok_or_else(bad)?;
    let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
    let length: u8 = length.parse().map_err(|_| bad())?;
    if !(8..=30).contains(&length) {
        return Err(format!(
            "a network of two hosts has a prefix of 8 to 30 bits, and not of {length}"
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
    fn a_bed_says_where_everything_is() {
        let bed = TestBed::parse("r1.toml", WHOLE).unwrap();
        assert_eq!(bed.generator.host, Place::Namespace("gen".into()));
        assert_eq!(bed.dut.host, Some(Place::Ssh("ssh://root@r1".into())));
        assert_eq!(bed.dut.kind, System::Linux);
        assert_eq!(bed.networks.a, Some((Ipv4Addr::new(10, 1, 0, 0), 24)));
        assert_eq!(bed.networks.b, None);
        let ready = bed.dut.ready.unwrap();
        assert_eq!(ready.within.0, Duration::from_secs(120));
    }

    /// Each with its place, and with what would be right.
    #[test]
    fn mistakes_have_a_place_and_a_suggestion() {
        for (from, to, expected) in [
            ("bed = 'r1'", "bed = 'r 1'", "r1.toml:1:7: a name consists"),
            (
                "netns:gen",
                "netns:",
                "r1.toml:3:8: `netns:` is no host; write local",
            ),
            (
                "b = 'rx'",
                "b = 'tx'",
                "r1.toml:4:25: `tx` is port a already",
            ),
            (
                "'eth2'",
                "'a/b'",
                "r1.toml:7:27: `a/b` is no name of an interface",
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
                "[dut]\n",
                "[dut]\nkind = 'linus'\n",
                "r1.toml:6:8: unknown name `linus`; did you mean `linux`?",
            ),
            (
                "[dut]\n",
                "[dut]\nkind = 'none'\n",
                "r1.toml:7:8: nobody logs into",
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
                "r1.toml:11:7: `10.1/24` is no IPv4 network",
            ),
            (
                "[[link]]",
                "[receiver]\nx = 1\n[[link]]",
                "r1.toml:9:2: not supported yet: a receiver",
            ),
            (
                "'netns:gen'",
                "'local'\nengine = 'sim'",
                "r1.toml:4:10: a simulated DUT needs no test bed",
            ),
        ] {
            assert!(WHOLE.contains(from), "{from}");
            let text = WHOLE.replacen(from, to, 1);
            let error = TestBed::parse("r1.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
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
            error.starts_with("x:3:8: a virtual machine has tester, DUT and links"),
            "{error}"
        );
        let error = BedFile::parse("x", &WHOLE.replace("netns:gen", "vm:x")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("x:3:8: a virtual machine has tester and DUT"),
            "{error}"
        );
        let error = BedFile::parse("x", "bed = 'v'\n[dut]\nhost = 'local'\n").unwrap_err();
        assert!(
            error.to_string().contains("there is no [generator]"),
            "{error}"
        );
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
        for (mac, why) in [
            ("01:00:00:00:00:0a", "of a group"),
            ("02:00:00:00:00", "is no MAC"),
        ] {
            let text = text.replace("02:00:00:00:00:0a", mac);
            let error = TestBed::parse("x", &text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
