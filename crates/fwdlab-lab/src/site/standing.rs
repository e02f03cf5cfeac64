//! A site of hosts that stand: the test bed of a file, on this machine, in namespaces of it, and on machines that answer to SSH.
//!
//! Nothing is built. Ports are looked at, taken up and given addresses, the DUT becomes a router, and all of that is written down before and
//! taken back when the bed goes. Hosts are reached once, when the first bed is wanted, and one process at a time has a test bed. Start with
//! [`Site::standing`].

pub(crate) mod ports;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_engine::{Choice, PathSpec, PortSpec};
use fwdlab_model::campaign::Kind;
use fwdlab_model::facts::Facts;
use fwdlab_model::family;
use fwdlab_model::file::FileError;
use fwdlab_model::test_bed::{Ends, Place, System, TestBed};
use rustix::fs::{FlockOperation, flock};

use self::ports::{Link, Words};
use super::{Builder, Site, Wanted};
use crate::agent;
use crate::bed::networks::Subnet;
use crate::bed::{Bed, Networks, Parts};
use crate::dut::freebsd::Making;
use crate::dut::vpp::cli::Cli;
use crate::dut::{BlackBox, Dut, FreeBsd, Linux, Vpp};
use crate::error::LabError;
use crate::host::ssh::{BadTarget, Target};
use crate::host::undo::Undo;
use crate::host::{Command, Host, Limit, Local, Netns, Remote, Ssh, netns};
use crate::placement::Placement;
use crate::registry::{self, Registry};
use crate::tester::local::Chosen;
use crate::tester::{self, Rig};

/// A link that was taken up a moment ago may need so long.
const LINK_PATIENCE: Duration = Duration::from_secs(6);

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(200);

/// An agent is brought and started in less, over a slow link, too.
const AGENT: Limit<'static> = Limit {
    time: Duration::from_secs(120),
    is_stopped: &|| false,
};

impl Site {
    /// The hosts of a test bed, none of which is reached so far. `program` is brought to those that need an agent.
    ///
    /// # Errors
    /// An address that is none, with its place in the file.
    pub fn standing(bed: TestBed, program: &Path) -> Result<Site, FileError> {
        let tester = way(&bed, &["generator", "host"], &bed.generator.host)?;
        let dut = match &bed.dut.host {
            Some(place) => Some(way(&bed, &["dut", "host"], place)?),
            None => None,
        };
        Ok(Site(Arc::new(Standing {
            tester,
            dut,
            program: program.to_owned(),
            reached: Mutex::new(None),
            bed,
        })))
    }
}

/// The CPUs that a test bed gives the sender, where that runs on this machine.
///
/// # Errors
/// A CPU that is not there, or not ours to use.
pub fn placement(bed: &TestBed) -> Result<Placement, LabError> {
    let cpus = &bed.generator.cpus;
    let is_here = !matches!(bed.generator.host, Place::Ssh(_));
    if is_here && !cpus.is_empty() {
        // says which are there
        Placement::choose(cpus)?;
    }
    let words = match (is_here, cpus.is_empty()) {
        (_, true) => "any CPU: none was given in the test bed".to_owned(),
        (_, false) => format!("CPUs {cpus:?}, as in the test bed"),
    };
    Ok(Placement {
        generator_cpus: cpus.clone(),
        dut_cpus: Vec::new(),
        notes: BTreeMap::from([
            ("generator".to_owned(), words),
            (
                "dut".to_owned(),
                "on CPUs of its own choice: fwdlab does not place a DUT that stands".to_owned(),
            ),
        ]),
    })
}

/// How a VPP on the DUT's host is spoken to, if it is one.
pub(crate) fn cli(bed: &TestBed, host: &Arc<dyn Host>) -> Cli {
    let dut = &bed.dut;
    let program = dut.vppctl.as_deref().unwrap_or("vppctl");
    Cli::new(host.clone(), program, dut.socket())
}

/// Whose words are understood on the DUT.
pub(crate) fn words<'a>(bed: &TestBed, cli: &'a Cli) -> Words<'a> {
    match bed.dut.kind {
        System::Linux | System::None => Words::Linux,
        System::Freebsd | System::Bsdrp => Words::FreeBsd,
        System::Vpp => Words::Vpp(cli),
    }
}

fn way(bed: &TestBed, at: &[&str], place: &Place) -> Result<Way, FileError> {
    Way::to(place).map_err(|why| bed.error(at, why))
}

/// The host at a place.
///
/// # Errors
/// An address that is none.
pub(crate) fn reach(place: &Place) -> Result<Arc<dyn Host>, String> {
    Ok(Way::to(place)?.reach())
}

/// How a host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    Here,
    Namespace(String),
    Ssh(Target),
}

impl Way {
    fn to(place: &Place) -> Result<Way, String> {
        Ok(match place {
            Place::Local => Way::Here,
            Place::Namespace(name) => Way::Namespace(name.clone()),
            Place::Ssh(text) => Way::Ssh(text.parse().map_err(|e: BadTarget| e.to_string())?),
            Place::Image(image) => return Err(format!("vm:{image} is no host that stands")),
        })
    }

    /// In words: `router1`.
    fn words(&self) -> String {
        match self {
            Way::Here => "this machine".into(),
            Way::Namespace(name) => format!("the network namespace {name}"),
            Way::Ssh(target) => target.to_string(),
        }
    }

    fn reach(&self) -> Arc<dyn Host> {
        match self {
            Way::Here => Arc::new(Local),
            Way::Namespace(name) => Arc::new(Netns::bare(name)),
            Way::Ssh(target) => Arc::new(Ssh::new(target.clone())),
        }
    }

    fn is_here(&self) -> bool {
        !matches!(self, Way::Ssh(_))
    }
}

#[derive(Debug)]
struct Standing {
    bed: TestBed,
    tester: Way,
    dut: Option<Way>,
    program: PathBuf,
    reached: Mutex<Option<Arc<Hosts>>>,
}

/// The hosts, once they were reached.
#[derive(Debug)]
struct Hosts {
    tester: Arc<dyn Host>,
    /// Behind which the rig is, on another machine.
    agent: Option<Remote>,
    dut: Option<Arc<dyn Host>>,
    /// Nobody else measures on this test bed.
    _lock: Lock,
}

/// One process at a time has a test bed: a lock that goes with it, however it ends.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // not only ours: a child that was just forked has the file, too
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Standing {
    fn hosts(&self) -> Result<Arc<Hosts>, LabError> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hosts) = &*reached {
            return Ok(hosts.clone());
        }
        let lock = self.lock()?;
        let (tester, agent): (Arc<dyn Host>, _) = match &self.tester {
            Way::Ssh(target) => {
                let ssh = Ssh::new(target.clone());
                let agent = ssh.start_agent(&self.program, AGENT)?;
                (Arc::new(ssh), Some(agent))
            }
            way => (way.reach(), None),
        };
        let dut = self.dut.as_ref().map(Way::reach);
        if let Some(dut) = &dut {
            dut.ask("true", &[])?;
            self.wait_until_ready(dut.as_ref())?;
        }
        let hosts = Arc::new(Hosts {
            tester,
            agent,
            dut,
            _lock: lock,
        });
        *reached = Some(hosts.clone());
        Ok(hosts)
    }

    /// Goes with the process, however it ends.
    fn lock(&self) -> Result<Lock, LabError> {
        Registry::open()?;
        let path = registry::directory().join(format!("bed-{}.lock", self.bed.name));
        let failed = |e: std::io::Error| LabError::system(format!("lock {}", path.display()), e);
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LabError::Preflight(format!(
                "another fwdlab measures on the test bed {}. Wait for it, or end it (who: fuser {})",
                self.bed.name,
                path.display()
            ))),
            Err(e) => Err(failed(e.into())),
        }
    }

    fn wait_until_ready(&self, dut: &dyn Host) -> Result<(), LabError> {
        let Some(ready) = &self.bed.dut.ready else {
            return Ok(());
        };
        let command = Command::shell(&ready.command);
        let began = Instant::now();
        loop {
            let limit = Limit {
                time: Duration::from_secs(30),
                is_stopped: &|| false,
            };
            let Err(error) = dut.run(&command, limit) else {
                return Ok(());
            };
            if began.elapsed() >= ready.within.0 {
                return Err(LabError::Preflight(format!(
                    "{} was not ready within {:.0} s: {error}",
                    dut.name(),
                    ready.within.0.as_secs_f64()
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The ports and addresses of this bed.
    fn networks(&self, tester: Ends<[u8; 6]>, dut: Ends<[u8; 6]>) -> Networks {
        let mut networks = Networks::EMBEDDED;
        let given = &self.bed.networks;
        for (side, tester, dut, given) in [
            (&mut networks.input, tester.a, dut.a, given.a),
            (&mut networks.output, tester.b, dut.b, given.b),
        ] {
            (side.tester_mac, side.dut_mac) = (tester, dut);
            if let Some((network, length)) = given {
                let host = |number: u32| Ipv4Addr::from(u32::from(network) + number);
                side.ipv4 = Subnet {
                    dut: host(1),
                    next_hop: host(2),
                    length,
                    ..side.ipv4
                };
            }
        }
        networks
    }

    /// The DUT on its host, which is not prepared so far.
    fn device(
        &self,
        host: &Arc<dyn Host>,
        networks: Networks,
        lab: &str,
        is_unconfined: bool,
        undo: &Arc<Undo>,
    ) -> Result<Arc<dyn Dut>, LabError> {
        let dut = &self.bed.dut;
        let ports = dut.ports.as_ref().map(|ports| [&*ports.a, &*ports.b]);
        let ports = ports.unwrap_or_default();
        let bsd = |making| FreeBsd::new(host.clone(), making, ports, networks, undo.clone());
        Ok(match dut.kind {
            System::Linux | System::None => {
                ports::keep_rules(host, undo)?;
                let place: Arc<dyn Host> = match &self.dut {
                    Some(Way::Namespace(name)) => Arc::new(Netns::place(name, lab, is_unconfined)),
                    _ => host.clone(),
                };
                let undo = undo.clone();
                Arc::new(Linux::new(host.clone(), place, ports, networks, undo))
            }
            System::Freebsd => Arc::new(bsd(Making::Plain)),
            System::Bsdrp => Arc::new(bsd(Making::Bsdrp)),
            System::Vpp => {
                let vpp = Vpp::new(host.clone(), dut.socket(), ports, networks, undo.clone());
                Arc::new(vpp.with_program(dut.vppctl.as_deref().unwrap_or("vppctl")))
            }
        })
    }

    /// Namespace of the tester's ports, as the engine wants it.
    fn port(&self, interface: &str) -> PortSpec {
        PortSpec {
            netns: match &self.tester {
                Way::Namespace(name) => netns::file(name),
                Way::Here | Way::Ssh(_) => None,
            },
            interface: interface.to_owned(),
        }
    }
}

impl Builder for Standing {
    fn build(&self, wanted: &Wanted<'_>) -> Result<Bed, LabError> {
        let refuse = |what: &str, instead: &str| {
            let name = &self.bed.name;
            Err(LabError::Preflight(format!(
                "the test bed {name} {what}. {instead}"
            )))
        };
        if wanted.duts != 1 {
            return refuse(
                "has one DUT, and a comparison side by side needs several that are alike",
                "Measure configurations one after the other, with a campaign of maxfwd, or compare on the embedded bed",
            );
        }
        if wanted.dut.kind != Kind::Linux {
            return refuse(
                &format!("says itself what its DUT is, and not {}", wanted.dut.kind),
                "Omit dut in the matrix, or measure on the embedded bed",
            );
        }
        if wanted.is_managed {
            return refuse(
                "has no port for management of which fwdlab knows",
                "Omit management frames, or measure on the embedded bed",
            );
        }
        let registry = Registry::open()?;
        registry.sweep(false)?;
        let hosts = self.hosts()?;
        let registration = registry.register_on_hosts()?;
        let undo = registration.changes().clone();
        let theirs = &self.bed.generator.ports;
        let tester = |port| {
            let link = ports::take(&hosts.tester, port, Words::Linux, &undo)?;
            ports::silence(&hosts.tester, port, &undo)?;
            Ok::<Link, LabError>(link)
        };
        let of_tester = Ends {
            a: tester(&theirs.a)?,
            b: tester(&theirs.b)?,
        };
        let macs = |links: &Ends<Link>| Ends {
            a: links.a.mac,
            b: links.b.mac,
        };
        let mut sysctls = BTreeMap::new();
        let (dut, networks): (Arc<dyn Dut>, Networks) = match (&hosts.dut, &self.bed.dut.ports) {
            (Some(host), Some(ports)) => {
                let cli = cli(&self.bed, host);
                let words = words(&self.bed, &cli);
                let take = |port| ports::take(host, port, words, &undo);
                let of_dut = Ends {
                    a: take(&ports.a)?,
                    b: take(&ports.b)?,
                };
                same_mtu(&self.bed, &of_tester, &of_dut)?;
                let networks = self.networks(macs(&of_tester), macs(&of_dut));
                let lab = &registration.record().id;
                let dut = self.device(host, networks, lab, wanted.is_unconfined, &undo)?;
                let set = dut.prepare()?.into_iter();
                sysctls.extend(set.map(|(name, value)| (format!("dut:{name}"), value)));
                (dut, networks)
            }
            _ => {
                let given = self.bed.dut.macs.unwrap_or_default();
                let given = Ends {
                    a: given.a.0,
                    b: given.b.0,
                };
                let name = format!("the DUT of {}", self.bed.name);
                (
                    Arc::new(BlackBox::new(&name)),
                    self.networks(macs(&of_tester), given),
                )
            }
        };
        wait_for_links(hosts.tester.as_ref(), theirs)?;
        let path = |tx: &str, rx: &str| PathSpec {
            tx: self.port(tx),
            rx: self.port(rx),
        };
        let mut paths = vec![path(&theirs.a, &theirs.b)];
        if wanted.both_ways {
            paths.push(path(&theirs.b, &theirs.a));
        }
        Ok(Bed::of(Parts {
            duts: vec![dut],
            tester: hosts.tester.clone(),
            networks,
            paths,
            both_ways: wanted.both_ways,
            sysctls,
            registration,
        }))
    }

    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError> {
        let addresses = bed.networks().forward();
        let Some(agent) = &self.hosts()?.agent else {
            return Ok(tester::local::open(bed.paths(), &addresses, choice)?);
        };
        let port = |port: &PortSpec| (None, port.interface.clone());
        let paths = bed.paths().iter().map(|path| agent::Path {
            tx: port(&path.tx),
            rx: port(&path.rx),
        });
        let paths: Vec<agent::Path> = paths.collect();
        tester::remote::open(agent, &paths, &addresses, choice)
    }

    fn is_here(&self) -> bool {
        self.tester.is_here() && self.dut.as_ref().is_none_or(Way::is_here)
    }

    fn system(&self) -> Option<family::System> {
        match self.bed.dut.kind {
            System::Linux => Some(family::System::Linux),
            System::Freebsd | System::Bsdrp => Some(family::System::FreeBsd),
            System::Vpp | System::None => None,
        }
    }

    fn file(&self) -> Option<&str> {
        Some(&self.bed.origin.text)
    }

    fn changes(&self) -> Option<Vec<String>> {
        let ports = &self.bed.generator.ports;
        let mut all = vec![format!(
            "{} (generator): {} and {} are taken up, and IPv6 is off there{}; taken back after every iteration",
            self.tester.words(),
            ports.a,
            ports.b,
            match self.tester {
                Way::Ssh(_) =>
                    "; fwdlab is brought to ~/.cache/fwdlab/agent, where it stays for the next run",
                _ => "",
            }
        )];
        if let (Some(dut), Some(ports)) = (&self.dut, &self.bed.dut.ports) {
            let rules = match self.bed.dut.kind {
                System::Linux => ", and the rules of nftables,",
                _ => "",
            };
            all.push(format!(
                "{} (DUT): {} and {} are taken up and get addresses, neighbours and routes of the test, forwarding is switched on; all of \
                 it{rules} as before after every iteration",
                dut.words(),
                ports.a,
                ports.b
            ));
        }
        Some(all)
    }

    /// Of the DUT, as far as it can be asked.
    fn facts(&self, placement: &Placement, privileged: bool) -> Facts {
        let mut facts = match (&self.dut, self.hosts()) {
            (Some(_), Ok(hosts)) => match &hosts.dut {
                Some(dut) => crate::facts::of(dut.as_ref(), placement, privileged),
                None => Facts::default(),
            },
            _ => Facts::default(),
        };
        facts.driver = None;
        facts.privileged = privileged;
        facts.placement.extend(placement.notes.clone());
        let TestBed { name, about, .. } = &self.bed;
        let words = match about.is_empty() {
            true => name.clone(),
            false => format!("{name}: {about}"),
        };
        facts.placement.insert("test bed".into(), words);
        facts
    }
}

fn wait_for_links(host: &dyn Host, ports: &Ends<String>) -> Result<(), LabError> {
    let began = Instant::now();
    for port in [&ports.a, &ports.b] {
        while ports::look(host, port, Words::Linux)?.has_link == Some(false) {
            if began.elapsed() >= LINK_PATIENCE {
                return Err(LabError::Preflight(format!(
                    "{port} of {} has no link after {:.0} s. Is the cable in, and is the other end up?",
                    host.name(),
                    LINK_PATIENCE.as_secs_f64()
                )));
            }
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// Both ends of a link take the same frames, or one drops them without a word.
fn same_mtu(bed: &TestBed, tester: &Ends<Link>, dut: &Ends<Link>) -> Result<(), LabError> {
    for (key, ours, theirs) in [("a", &tester.a, &dut.a), ("b", &tester.b, &dut.b)] {
        if let (Some(ours), Some(theirs)) = (ours.mtu, theirs.mtu)
            && ours != theirs
        {
            return Err(LabError::Preflight(format!(
                "the ends of link {key} of {} have different MTUs: {ours} at the tester, {theirs} at the DUT. Make them equal: ip link set mtu",
                bed.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
