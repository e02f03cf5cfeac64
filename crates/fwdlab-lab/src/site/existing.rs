//! A site of existing hosts: the test bed of a file, on this machine, in its namespaces, and on
//! machines reached by SSH.
//!
//! It builds no hosts. Ports are inspected, taken up and given addresses, and the DUT becomes a
//! router; all of this is recorded first, and undone when the bed is removed. Hosts are connected
//! once, when the first bed is requested, and only one process at a time can use a test bed. Start
//! with [`Site::existing`].

pub(crate) mod ports;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_engine::{Choice, PathSpec, PortSpec};
use fwdlab_model::campaign::Kind;
use fwdlab_model::campaign::value::Period;
use fwdlab_model::facts::{Facts, TEST_BED};
use fwdlab_model::file::FileError;
use fwdlab_model::test_bed::{self, Ends, Mac, Place, PortKind, System, TestBed};

use self::ports::{Link, PortCommands};
use super::lock::{Locks, Wait, bed_lock};
use super::{Builder, Site, Wanted};
use crate::bed::switch::{BedSwitch, SwitchAccess};
use crate::bed::{Bed, Claim, Parts, Second, TesterPorts, Testers};
use crate::control::Control;
use crate::dut::freebsd::FreebsdKind;
use crate::dut::vpp::cli::Cli;
use crate::dut::{BlackBox, Dut, FreeBsd, Linux, Vpp};
use crate::error::LabError;
use crate::host::reboot::reboot_and_wait;
use crate::host::registry::Registry;
use crate::host::ssh::Target;
use crate::host::undo::{Address, Undo};
use crate::host::wire::{self, Network, Noise};
use crate::host::{Command, Failure, Host, HostError, Limit, Netns, Remote, Ssh, netns};
use crate::networks::{Networks, Side, Subnet};
use crate::placement::Placement;
use crate::ports::answering::{Answering, mac_of_dut};
use crate::ports::noise::capture_noise;
use crate::ports::{UserPort, claim};
use crate::snmp::agent::Agent;
use crate::switch_config::Addresses;
use crate::tester::distributed::{self, Port};
use crate::tester::local::Chosen;
use crate::tester::{self, Rig};

/// Time limit for the link of a port that was just taken up.
const LINK_PATIENCE: Duration = Duration::from_secs(6);

/// Interval of checks while waiting for something.
const LOOK: Duration = Duration::from_millis(200);

/// Time limit for uploading and starting an agent, also over a slow link.
const AGENT: Duration = Duration::from_secs(120);

/// Time limit for the greeting of a running agent, also on a busy machine and over a slow link.
const HELLO: Duration = Duration::from_secs(10);

/// Time limit for an agent to release its ports.
const LETTING_GO: Limit<'static> = Limit {
    time: Duration::from_secs(2),
    is_stopped: &|| false,
};

/// Time limit for one check whether the DUT is ready.
const READY: Duration = Duration::from_secs(30);

impl Site {
    /// Creates a site of the hosts of a test bed, without connecting to any of them. `program` is
    /// uploaded to those that need an agent.
    ///
    /// # Errors
    /// Fails on an invalid address, with its position in the file.
    pub fn existing(bed: TestBed, program: &Path) -> Result<Site, FileError> {
        Ok(Site(Arc::new(ExistingHosts::new(bed, program)?)))
    }
}

impl ExistingHosts {
    /// The same with a virtual machine of ours as the DUT, with the locks of its site.
    pub(super) fn with_machine(mut self, machine: Target, locks: Arc<Locks>) -> ExistingHosts {
        self.locks = locks;
        self.dut = Some(Address::Agent(machine.to_string()));
        self.machine = Some(machine);
        self
    }

    pub(super) fn new(bed: TestBed, program: &Path) -> Result<ExistingHosts, FileError> {
        let mut testers: Vec<Address> = Vec::new();
        let mut seats = Vec::new();
        for port in bed.tester_ports() {
            let address = address(&bed, &[port.role, "host"], port.host)?;
            let known = testers.iter().position(|known| *known == address);
            seats.push(known.unwrap_or(testers.len()));
            if known.is_none() {
                testers.push(address);
            }
        }
        let dut = match &bed.dut.host {
            Some(place) => Some(address(&bed, &["dut", "host"], place)?),
            None => None,
        };
        Ok(ExistingHosts {
            testers,
            seats,
            dut,
            machine: None,
            program: program.to_owned(),
            reached: Mutex::new(None),
            user_ports: Mutex::new(None),
            locks: Arc::default(),
            control: Mutex::default(),
            bed,
        })
    }
}

/// Returns the CPUs that a test bed gives the sender. They are checked only if the sender runs on
/// this machine.
///
/// # Errors
/// Fails if a CPU does not exist, or if we may not use it.
pub fn placement(bed: &TestBed) -> Result<Placement, LabError> {
    let cpus = &bed.generator.cpus;
    let is_here = !matches!(bed.generator.host, Place::Ssh(_));
    if is_here && !cpus.is_empty() {
        // fails with a list of the CPUs that exist
        Placement::choose(cpus, 1)?;
    }
    let words = match (is_here, cpus.is_empty()) {
        (_, true) => "any CPU: the test bed sets no `cpus`".to_owned(),
        (_, false) => format!("CPUs {cpus:?}, as in the test bed"),
    };
    Ok(Placement {
        generator_cpus: cpus.clone(),
        senders: bed.generator.senders.unwrap_or(1),
        first_engine: None,
        dut_cpus: Vec::new(),
        notes: BTreeMap::from([
            ("generator".to_owned(), words),
            (
                "dut".to_owned(),
                "not pinned: fwdlab does not place external DUTs".to_owned(),
            ),
        ]),
    })
}

/// Returns the command line interface of a VPP on the DUT's host; used only if the DUT is VPP.
pub(crate) fn cli(bed: &TestBed, host: &Arc<dyn Host>) -> Cli {
    let dut = &bed.dut;
    let program = dut.vppctl.as_deref().unwrap_or("vppctl");
    Cli::new(host.clone(), program, dut.socket())
}

/// Returns the command language of the DUT.
pub(crate) fn words<'a>(bed: &TestBed, cli: &'a Cli) -> PortCommands<'a> {
    match bed.dut.kind {
        System::Linux | System::None => PortCommands::Linux,
        System::Freebsd | System::Bsdrp => PortCommands::FreeBsd,
        System::Vpp => PortCommands::Vpp(cli),
    }
}

fn address(bed: &TestBed, at: &[&str], place: &Place) -> Result<Address, FileError> {
    Address::try_from(place).map_err(|reason| bed.error(at, reason))
}

/// Returns the host at a place.
///
/// # Errors
/// Fails on an invalid address.
pub(crate) fn reach(place: &Place) -> Result<Arc<dyn Host>, String> {
    Ok(Address::try_from(place)?.reach())
}

/// Returns the port of a host if that is this machine or one of its namespaces.
pub(crate) fn spec(place: &Place, port: &str) -> Option<PortSpec> {
    let netns = match place {
        Place::Local => None,
        Place::Namespace(name) => netns::file(name),
        Place::Ssh(_) | Place::Image(_) => return None,
    };
    Some(PortSpec {
        netns,
        interface: port.to_owned(),
    })
}

/// Returns the addresses behind the ports of a switch, and the MTU of every port of a test bed, as
/// far as the hosts answer.
pub fn addresses(bed: &TestBed) -> (Addresses, Vec<(String, u32)>) {
    let keys = ["tester-a", "tester-b", "tester-2"];
    let testers = bed.tester_ports().into_iter().zip(keys);
    let testers = testers.filter(|_| bed.generator.kind == PortKind::Interface);
    let mut requested: Vec<(&'static str, Place, String, System)> = testers
        .map(|(port, key)| (key, port.host.clone(), port.port.to_owned(), System::Linux))
        .collect();
    if let (Some(host), Some(ports)) = (&bed.dut.host, &bed.dut.ports) {
        for (key, port) in [("dut-a", &ports.a), ("dut-b", &ports.b)] {
            requested.push((key, host.clone(), port.clone(), bed.dut.kind));
        }
    }
    if let Some(switch) = &bed.switch
        && let Some(host) = &switch.host
    {
        for (_, port) in switch.ports.named() {
            requested.push(("switch", host.clone(), port.to_owned(), System::Linux));
        }
    }
    let (mut addresses, mut mtus) = (Vec::new(), Vec::new());
    let mut hosts: Vec<(Place, Arc<dyn Host>)> = Vec::new();
    for (key, place, port, kind) in requested {
        let known = hosts.iter().find(|(known, _)| *known == place);
        let host = match known {
            Some((_, host)) => host.clone(),
            None => {
                let Ok(host) = reach(&place) else { continue };
                hosts.push((place, host.clone()));
                host
            }
        };
        let cli = cli(bed, &host);
        let words = match kind {
            System::Linux => PortCommands::Linux,
            _ => words(bed, &cli),
        };
        if let Ok(link) = ports::read_link(host.as_ref(), &port, words) {
            if key != "switch" {
                addresses.push((key, Mac(link.mac)));
            }
            mtus.extend(
                link.mtu
                    .map(|mtu| (format!("{port} of {}", host.name()), mtu)),
            );
        }
    }
    if let Some(macs) = bed.dut.macs {
        addresses.extend([("dut-a", macs.a), ("dut-b", macs.b)]);
    }
    (addresses, mtus)
}

/// Returns the networks that a test bed gives its links.
pub(crate) fn link_networks(bed: &TestBed) -> Vec<Network> {
    let Ends { a, b } = bed.networks;
    [a, b].into_iter().flatten().collect()
}

/// Ports that an agent reserves until this is dropped.
#[derive(Debug)]
struct RemoteClaim(Remote);

impl Drop for RemoteClaim {
    fn drop(&mut self) {
        // the agent releases all ports of a bed, also when it ends
        let _ = (self.0).put_to("let go of ports", &wire::Question::Release, &[], LETTING_GO);
    }
}

/// Indices of ports in [`TestBed::tester_ports`].
const A: usize = 0;
const B: usize = 1;
const SECOND: usize = 2;

#[derive(Debug)]
pub(super) struct ExistingHosts {
    bed: TestBed,
    /// The hosts of the tester, each once.
    testers: Vec<Address>,
    /// The host of each port in [`TestBed::tester_ports`].
    seats: Vec<usize>,
    dut: Option<Address>,
    /// The SSH address of the DUT's host, if it is a virtual machine of ours.
    machine: Option<Target>,
    program: PathBuf,
    reached: Mutex<Option<Arc<Hosts>>>,
    /// The tester's ports if the kernel does not know them: opened once, because some peers do not
    /// survive a second connection.
    user_ports: Mutex<Option<Arc<Ends<UserPort>>>>,
    /// Keep others from measuring on this test bed and on its DUT.
    locks: Arc<Locks>,
    /// Ends long operations.
    control: Mutex<Control>,
}

/// The hosts, after they were connected.
#[derive(Debug)]
struct Hosts {
    /// Hosts of the tester, in the order of [`ExistingHosts::testers`].
    testers: Vec<Station>,
    dut: Option<Arc<dyn Host>>,
}

/// A host of the tester.
#[derive(Debug, Clone)]
struct Station {
    host: Arc<dyn Host>,
    /// The agent, if a rig or a part of it is on another machine.
    agent: Option<Remote>,
}

impl Station {
    /// Returns true if the agent answers, or if there is none.
    fn is_reachable(&self, limit: Limit<'_>) -> bool {
        let agent = self.agent.as_ref();
        agent.is_none_or(|agent| agent.is_reachable(limit))
    }
}

impl ExistingHosts {
    /// Returns the hosts; connects to them at the first call.
    fn hosts(&self) -> Result<Arc<Hosts>, LabError> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        match &*reached {
            Some(hosts) => Ok(hosts.clone()),
            None => {
                let hosts = self.reach(None)?;
                Ok(reached.insert(hosts).clone())
            }
        }
    }

    /// The same, but restarts agents that no longer answer.
    fn hosts_anew(&self) -> Result<Arc<Hosts>, LabError> {
        let hosts = self.hosts()?;
        let control = self.control();
        let is_stopped = || control.is_stopped();
        let mut stations = hosts.testers.iter();
        if stations.all(|station| station.is_reachable(within(HELLO, &is_stopped))) {
            return Ok(hosts);
        }
        let renewed = self.reach(Some(&hosts))?;
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(reached.insert(renewed).clone())
    }

    /// Connects to the hosts. `known` hosts are reused, except for lost agents.
    fn reach(&self, known: Option<&Hosts>) -> Result<Arc<Hosts>, LabError> {
        let control = self.control();
        let is_stopped = || control.is_stopped();
        self.reserve(&mut |queue| Err(queue.refusal()))?;
        let mut testers = Vec::new();
        for (number, address) in self.testers.iter().enumerate() {
            let known = known.map(|known| &known.testers[number]);
            let known = known.filter(|known| known.is_reachable(within(HELLO, &is_stopped)));
            testers.push(match (known, address) {
                (Some(known), _) => known.clone(),
                (None, Address::Ssh(target)) => {
                    let ssh = Ssh::new(target.clone());
                    let agent = ssh.start_agent(&self.program, within(AGENT, &is_stopped))?;
                    Station {
                        host: Arc::new(ssh),
                        agent: Some(agent),
                    }
                }
                (None, address) => Station {
                    host: address.reach(),
                    agent: None,
                },
            });
        }
        let dut = match known {
            Some(known) => known.dut.clone(),
            None => self.dut.as_ref().map(|address| match &self.machine {
                Some(target) => Arc::new(Ssh::ephemeral(target.clone())),
                None => address.reach(),
            }),
        };
        if let (Some(dut), None) = (&dut, known) {
            dut.run(&Command::new("true", &[]), within(READY, &is_stopped))?;
            self.wait_until_ready(dut.as_ref(), &is_stopped)?;
        }
        Ok(Arc::new(Hosts { testers, dut }))
    }

    fn control(&self) -> Control {
        let control = self.control.lock();
        control.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the host of the DUT.
    pub(super) fn dut_host(&self) -> Result<Arc<dyn Host>, LabError> {
        let dut = self.hosts()?.dut.clone();
        dut.ok_or_else(|| LabError::Preflight("fwdlab cannot log in to its DUT".into()))
    }

    pub(super) fn wait_until_ready(
        &self,
        dut: &dyn Host,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), LabError> {
        let Some(ready) = &self.bed.dut.ready else {
            return Ok(());
        };
        let command = Command::shell(&ready.command);
        let started = Instant::now();
        loop {
            let Err(error) = dut.run(&command, within(READY, is_stopped)) else {
                return Ok(());
            };
            if is_stopped() {
                return Err(LabError::Interrupted);
            }
            if started.elapsed() >= ready.within.0 {
                return Err(LabError::Preflight(format!(
                    "{} was not ready within {:.0} s: {error}",
                    dut.name(),
                    ready.within.0.as_secs_f64()
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the ports and addresses of this bed.
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

    /// Returns the DUT on its host, before any preparation.
    fn device(
        &self,
        host: &Arc<dyn Host>,
        ports: [&str; 2],
        networks: Networks,
        lab: &str,
        is_unconfined: bool,
        undo: &Arc<Undo>,
    ) -> Result<Arc<dyn Dut>, LabError> {
        let dut = &self.bed.dut;
        let bsd = |making| FreeBsd::new(host.clone(), making, ports, networks, undo.clone());
        Ok(match dut.kind {
            System::Linux | System::None => {
                let is_namespace = matches!(self.dut, Some(Address::Namespace(_)));
                ports::keep(host, ports, is_namespace, undo)?;
                let place: Arc<dyn Host> = match &self.dut {
                    Some(Address::Namespace(name)) => {
                        Arc::new(Netns::place(name, lab, is_unconfined))
                    }
                    _ => host.clone(),
                };
                let undo = undo.clone();
                let linux = Linux::new(host.clone(), place, ports, networks, undo);
                Arc::new(linux.on(&dut.cpus, None))
            }
            System::Freebsd => Arc::new(bsd(FreebsdKind::Plain)),
            System::Bsdrp => Arc::new(bsd(FreebsdKind::Bsdrp)),
            System::Vpp => {
                let vpp = Vpp::new(host.clone(), dut.socket(), ports, networks, undo.clone());
                Arc::new(vpp.with_program(dut.vppctl.as_deref().unwrap_or("vppctl")))
            }
        })
    }

    /// Returns the switch, if it can be queried and every port exists.
    fn switch(&self) -> Result<Option<BedSwitch>, LabError> {
        let Some(switch) = &self.bed.switch else {
            return Ok(None);
        };
        let ports = switch.ports.named().into_iter();
        let ports: Vec<&str> = ports.map(|(_, port)| port).collect();
        let requested = match (&switch.host, &switch.snmp) {
            (Some(place), _) => {
                let host = reach(place).map_err(LabError::Preflight)?;
                for port in ports {
                    ports::read_link(host.as_ref(), port, PortCommands::Linux)?;
                }
                SwitchAccess::Host(host)
            }
            (None, Some(at)) => {
                let agent = agent_at(*at, switch.community.as_deref(), &ports)?;
                SwitchAccess::Agent(Arc::new(Mutex::new(agent)))
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(BedSwitch {
            asked: requested,
            ports: switch.ports.clone(),
        }))
    }

    /// Reserves a port of the tester against other fwdlabs; refuses one that is in use.
    fn claim(&self, station: &Station, seat: usize, port: &str) -> Result<Claim, LabError> {
        let networks = link_networks(&self.bed);
        let Some(agent) = &station.agent else {
            return Ok(Box::new(claim(&self.port(seat, port), &networks)?));
        };
        let question = wire::Question::Claim {
            port: (None, port.to_owned()),
            networks,
        };
        let action = format!("claim {port}");
        match agent.put_to(&action, &question, &[], Limit::OURS) {
            Ok(_) => Ok(Box::new(RemoteClaim(agent.clone()))),
            // the agent refuses because of the port, not for lack of a permission
            Err(HostError {
                host,
                failure: Failure::Refused(reason),
                ..
            }) => Err(LabError::Preflight(format!("on {host}, {reason}"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers the questions of a black box for its next hop until the bed is removed. Returns the
    /// MAC address of its port, if `asks` and it answers.
    fn meet(
        &self,
        station: &Station,
        seat: usize,
        link: &Link,
        side: Side,
        asks: bool,
    ) -> Result<(Option<Claim>, Option<[u8; 6]>), LabError> {
        let Some(agent) = &station.agent else {
            let port = self.port(seat, &link.name);
            let answering = Answering::to_dut(&port, side)?;
            let found = asks.then(|| mac_of_dut(&port, &side)).transpose()?;
            return Ok((Some(Box::new(answering)), found.flatten()));
        };
        let question = wire::Question::Meet {
            port: (None, link.name.clone()),
            side,
            asks,
        };
        let action = "answer the DUT";
        match agent.put_to(action, &question, &[], Limit::OURS)? {
            (wire::Answer::Met(found), _) => Ok((None, found)),
            (other, _) => {
                let reason = wire::connection::unexpected_answer(&other);
                Err(LabError::from(HostError::new(agent.name(), action, reason)))
            }
        }
    }

    /// Makes the tester the neighbour of a black box on both links, and returns the networks with
    /// its MAC addresses.
    fn neighbours(
        &self,
        hosts: &Hosts,
        links: &Ends<Link>,
        control: &Control,
        claims: &mut Vec<Claim>,
    ) -> Result<Networks, LabError> {
        let own = Ends {
            a: links.a.mac,
            b: links.b.mac,
        };
        if self.bed.dut.is_loop {
            // frames that leave at one port are addressed to the other one
            let theirs = Ends { a: own.b, b: own.a };
            return Ok(self.networks(own, theirs));
        }
        let given = self.bed.dut.macs.map(|macs| Ends {
            a: macs.a.0,
            b: macs.b.0,
        });
        let unknown = Ends {
            a: [0; 6],
            b: [0; 6],
        };
        let mut networks = self.networks(own, given.unwrap_or(unknown));
        if self.bed.generator.kind != PortKind::Interface {
            return Ok(networks);
        }
        for (seat, link, side) in [
            (A, &links.a, &mut networks.input),
            (B, &links.b, &mut networks.output),
        ] {
            let station = &hosts.testers[self.seats[seat]];
            wait_for_link(station.host.as_ref(), &link.name, control)?;
            let (claim, found) = self.meet(station, seat, link, *side, given.is_none())?;
            claims.extend(claim);
            if given.is_some() {
                continue;
            }
            side.dut_mac = found.ok_or_else(|| {
                LabError::Preflight(format!(
                    "the DUT of {} does not say its MAC address: no answer at {} to ARP for {}, nor to neighbour discovery for {}. Give its \
                     port that address, or set macs = {{ a = \"02:...\", b = \"02:...\" }} in [dut]",
                    self.bed.name, link.name, side.ipv4.dut, side.ipv6.dut
                ))
            })?;
        }
        Ok(networks)
    }

    /// Returns the tester's port with its namespace, in the engine's format.
    fn port(&self, seat: usize, interface: &str) -> PortSpec {
        PortSpec {
            netns: match &self.testers[self.seats[seat]] {
                Address::Namespace(name) => netns::file(name),
                Address::ThisMachine | Address::Agent(_) | Address::Ssh(_) => None,
            },
            interface: interface.to_owned(),
        }
    }
}

/// Waits before retries after a lost host: a dropped connection is back at once, a router that
/// restarts in a minute.
const PATIENCE: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

impl Builder for ExistingHosts {
    fn build(&self, requested: &Wanted<'_>) -> Result<Bed, LabError> {
        let refuse = |action: &str, instead: &str| {
            let name = &self.bed.name;
            Err(LabError::Preflight(format!(
                "the test bed {name} {action}. {instead}"
            )))
        };
        if requested.duts != 1 {
            return refuse(
                "has one DUT, and a comparison side by side needs several that are alike",
                "Measure configurations in turn, with a campaign of maxfwd, or compare on the embedded bed",
            );
        }
        if requested.dut.kind != Kind::Linux {
            return refuse(
                &format!(
                    "defines its DUT itself, and it is not {}",
                    requested.dut.kind
                ),
                "Omit dut in the matrix, or measure on the embedded bed",
            );
        }
        if requested.is_managed {
            return refuse(
                "has no known management port",
                "Omit management frames, set address to the DUT's management address, or measure on the embedded bed",
            );
        }
        let registry = Registry::open()?;
        registry.sweep(false)?;
        let hosts = self.hosts_anew()?;
        let registration = registry.register_on_hosts()?;
        let undo = registration.changes().clone();
        // on a busy host every step takes seconds
        let control = self.control();
        let mut claims = Vec::new();
        let mut tester = |seat: usize, port: &str| {
            control.check()?;
            let station = &hosts.testers[self.seats[seat]];
            let link = ports::read_link(station.host.as_ref(), port, PortCommands::Linux)?;
            claims.push(self.claim(station, seat, &link.name)?);
            let tester = &station.host;
            ports::set_link_up(tester, &link, PortCommands::Linux, &undo)?;
            ports::silence(tester, &link.name, &undo)?;
            Ok::<Link, LabError>(link)
        };
        let theirs = self.bed.tester();
        let user_ports = self.user_ports()?;
        let of_tester = match &user_ports {
            Some(ports) => connected(ports)?,
            None => Ends {
                a: tester(A, theirs.a.port)?,
                b: tester(B, theirs.b.port)?,
            },
        };
        let second = match self.bed.second() {
            None => None,
            Some(second) => Some(tester(SECOND, second.port)?),
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
                let take = |port| {
                    control.check()?;
                    ports::take(host, port, words, &undo)
                };
                let of_dut = Ends {
                    a: take(&ports.a)?,
                    b: take(&ports.b)?,
                };
                same_mtu(&self.bed, &of_tester, &of_dut)?;
                if let Some(second) = &second {
                    let of_second = Ends {
                        a: second.clone(),
                        b: of_tester.b.clone(),
                    };
                    same_mtu(&self.bed, &of_second, &of_dut)?;
                }
                let networks = self.networks(macs(&of_tester), macs(&of_dut));
                control.check()?;
                let lab = &registration.record().id;
                let ports = [&*of_dut.a.name, &*of_dut.b.name];
                let dut =
                    self.device(host, ports, networks, lab, requested.is_unconfined, &undo)?;
                control.check()?;
                let set = dut.prepare()?.into_iter();
                sysctls.extend(set.map(|(name, value)| (format!("dut:{name}"), value)));
                (dut, networks)
            }
            _ => {
                let name = format!("the DUT of {}", self.bed.name);
                let networks = self.neighbours(&hosts, &of_tester, &control, &mut claims)?;
                let dut = BlackBox::new(&name);
                let of = &self.bed.dut;
                let dut = match (of.snmp, of.ports.clone()) {
                    (Some(at), Some(Ends { a, b })) => {
                        let agent = agent_at(at, of.community.as_deref(), &[&a, &b])?;
                        dut.with_agent(agent, [a, b], of.settle.map(|Period(settle)| settle))
                    }
                    _ => dut,
                };
                (Arc::new(dut), networks)
            }
        };
        let host = |seat: usize| hosts.testers[self.seats[seat]].host.clone();
        let interfaces = match user_ports {
            Some(_) => Vec::new(),
            None => self.bed.tester_ports(),
        };
        for (seat, port) in interfaces.iter().enumerate() {
            wait_for_link(host(seat).as_ref(), port.port, &control)?;
        }
        let (a, b) = (
            self.port(A, &of_tester.a.name),
            self.port(B, &of_tester.b.name),
        );
        let mut paths = vec![PathSpec {
            tx: a.clone(),
            rx: b.clone(),
        }];
        if requested.both_ways {
            paths.push(PathSpec { tx: b, rx: a });
        }
        Ok(Bed::from_parts(Parts {
            duts: vec![dut],
            tester: Testers {
                a: host(A),
                b: host(B),
                second: second.map(|link| Second {
                    host: host(SECOND),
                    port: self.port(SECOND, &link.name),
                    mac: link.mac,
                }),
            },
            networks,
            paths,
            both_ways: requested.both_ways,
            sysctls,
            registration,
            switch: self.switch()?,
            claims,
            ports: match &user_ports {
                Some(ports) => TesterPorts::User(ports.clone()),
                None => TesterPorts::Interfaces {
                    blind: blind(&of_tester),
                },
            },
        }))
    }

    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError> {
        let addresses = bed.networks().forward();
        let hosts = self.hosts()?;
        let agent = |seat: usize| hosts.testers[self.seats[seat]].agent.as_ref();
        if bed.second().is_none() {
            match (agent(A), agent(B)) {
                (None, None) => return Ok(tester::local::open(bed.paths(), &addresses, choice)?),
                (Some(agent), _) if self.seats[A] == self.seats[B] => {
                    let port = |port: &PortSpec| (None, port.interface.clone());
                    let paths = bed.paths().iter().map(|path| wire::Path {
                        tx: port(&path.tx),
                        rx: port(&path.rx),
                    });
                    let paths: Vec<wire::Path> = paths.collect();
                    let control = self.control();
                    let is_stopped = || control.is_stopped();
                    let limit = within(Limit::OURS.time, &is_stopped);
                    return tester::remote::open(agent, &paths, &addresses, choice, limit);
                }
                _ => {}
            }
        }
        let port = |seat: usize, spec: &PortSpec| match agent(seat) {
            Some(agent) => Port::There(agent.clone(), spec.interface.clone()),
            None => Port::Here(spec.clone()),
        };
        let mut ways = Vec::new();
        for (number, path) in bed.paths().iter().enumerate() {
            let (sends, receives) = match number {
                0 => (A, B),
                _ => (B, A),
            };
            let mut tx = vec![(port(sends, &path.tx), None)];
            if let Some(second) = bed.second().filter(|_| number == 0) {
                tx.push((port(SECOND, &second.port), Some(second.mac)));
            }
            ways.push(distributed::Way {
                tx,
                rx: port(receives, &path.rx),
            });
        }
        distributed::open(&ways, &addresses, choice)
    }

    fn capture_noise(&self, _: &Bed, time: Duration) -> Result<Vec<Noise>, LabError> {
        let hosts = self.hosts()?;
        let mut near = Vec::new();
        let mut far = Vec::new();
        let ports = self.bed.tester_ports();
        for (number, station) in hosts.testers.iter().enumerate() {
            let seats = self.seats.iter().enumerate();
            let ours = seats.filter(|(_, station)| **station == number);
            let ours: Vec<(usize, &str)> = ours.map(|(seat, _)| (seat, ports[seat].port)).collect();
            match &station.agent {
                Some(agent) => far.push((agent.clone(), ours)),
                None => near.extend(ours.into_iter().map(|(seat, port)| self.port(seat, port))),
            }
        }
        // all of them in the same second
        std::thread::scope(|scope| {
            let far: Vec<_> = far
                .iter()
                .map(|(agent, ours)| {
                    scope.spawn(move || {
                        let question = wire::Question::Hear {
                            ports: ours
                                .iter()
                                .map(|(_, port)| (None, (*port).to_owned()))
                                .collect(),
                            time_ms: time.as_millis() as u64,
                        };
                        let action = "listen at ports";
                        match agent.put_to(action, &question, &[], Limit::OURS)? {
                            (wire::Answer::Heard(noise), _) => Ok(noise),
                            (other, _) => {
                                let reason = wire::connection::unexpected_answer(&other);
                                Err(LabError::from(HostError::new(agent.name(), action, reason)))
                            }
                        }
                    })
                })
                .collect();
            let mut all = capture_noise(&near, time)?;
            for thread in far {
                let received = thread.join();
                all.extend(received.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(all)
        })
    }

    fn user_ports(&self) -> Result<Option<Arc<Ends<UserPort>>>, LabError> {
        if self.bed.generator.kind == PortKind::Interface {
            return Ok(None);
        }
        let mut opened = self
            .user_ports
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_lost = |ports: &Arc<Ends<UserPort>>| ports.a.is_lost() || ports.b.is_lost();
        if opened.as_ref().is_some_and(is_lost) {
            // their process has died: another one gets them
            *opened = None;
        }
        if let Some(ports) = &*opened {
            return Ok(Some(ports.clone()));
        }
        let Ends { a, b } = self.bed.tester();
        let ports = Ends {
            a: UserPort::take(&self.port(A, a.port), &[])?,
            b: UserPort::take(&self.port(B, b.port), &[])?,
        };
        Ok(Some(opened.insert(Arc::new(ports)).clone()))
    }

    fn set_control(&self, control: &Control) {
        let mut handled = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        *handled = control.clone();
    }

    /// Locks the test bed, and the machine that is its DUT: all of its settings are recorded and
    /// restored, and with two beds at once the second would record the settings of the first.
    fn reserve(&self, wait: Wait<'_>) -> Result<(), LabError> {
        let mut all = vec![bed_lock(&self.bed.name)];
        if let Some(dut @ (Address::ThisMachine | Address::Ssh(_))) = &self.dut
            && self.machine.is_none()
        {
            let file = format!("dut-{dut}").replace(|c: char| !c.is_alphanumeric(), "-");
            all.push((file, format!("the DUT of {}, {dut}", self.bed.name)));
        }
        self.locks.take(&all, wait)
    }

    fn used_by(&self, run: &str) {
        self.locks.used_by(run);
    }

    fn is_local(&self) -> bool {
        let mut all = self.testers.iter().chain(&self.dut);
        !all.any(|address| matches!(address, Address::Ssh(_)))
    }

    fn patience(&self) -> &[Duration] {
        &PATIENCE
    }

    fn kind(&self) -> System {
        self.bed.dut.kind
    }

    fn dut_cpus(&self) -> Option<usize> {
        Some(self.bed.dut.cpus.len())
    }

    fn file(&self) -> Option<&str> {
        Some(&self.bed.origin.text)
    }

    fn changes(&self) -> Option<Vec<String>> {
        let mut all = Vec::new();
        let ports = self.bed.tester_ports();
        for (number, address) in self.testers.iter().enumerate() {
            let seats = self.seats.iter().zip(&ports);
            let ours: Vec<_> = seats
                .filter(|(seat, _)| **seat == number)
                .map(|(_, port)| port)
                .collect();
            let names: Vec<&str> = ours.iter().map(|port| port.port).collect();
            if self.bed.generator.kind != PortKind::Interface {
                all.push(format!(
                    "{address}: opens {}; a card is bound to a driver for user space, and given back",
                    names.join(" and ")
                ));
                continue;
            }
            let mut roles: Vec<&str> = ours.iter().map(|port| port.role).collect();
            roles.dedup();
            all.push(format!(
                "{address} ({}): {} {} brought up, with IPv6 off, and restored after every iteration{}",
                roles.join(", "),
                names.join(" and "),
                if names.len() == 1 { "is" } else { "are" },
                match address {
                    Address::Ssh(_) =>
                        "; fwdlab copies itself to ~/.cache/fwdlab/agent, where it stays for the next run",
                    _ => "",
                }
            ));
        }
        if let (Some(dut), Some(ports)) = (&self.dut, &self.bed.dut.ports) {
            let rules = match self.bed.dut.kind {
                System::Linux => {
                    " (and the rules of nftables, settings of network and memory, all addresses, routes and offloads)"
                }
                _ => "",
            };
            all.push(format!(
                "{dut} (DUT): {} and {} are brought up and get addresses, neighbours and routes of the test, and forwarding is switched on; \
                 all of this{rules} is restored after every iteration",
                ports.a,
                ports.b
            ));
        }
        Some(all)
    }

    fn can_reboot(&self) -> Result<(), String> {
        match &self.dut {
            Some(Address::Ssh(_)) => Ok(()),
            Some(address) => Err(format!(
                "its DUT is {address}, which is not restarted, because fwdlab runs there, too"
            )),
            None => Err("fwdlab cannot log in to its DUT".into()),
        }
    }

    fn reboot(&self, limit: Limit<'_>) -> Result<String, LabError> {
        self.can_reboot().map_err(LabError::Preflight)?;
        let dut = self.dut_host()?;
        let boot = reboot_and_wait(dut.as_ref(), limit)?;
        self.wait_until_ready(dut.as_ref(), limit.is_stopped)?;
        Ok(boot)
    }

    /// Returns facts about the DUT, as far as it answers.
    fn facts(&self, placement: &Placement, privileged: bool) -> Facts {
        let mut facts = match (&self.dut, self.hosts()) {
            (Some(_), Ok(hosts)) => match &hosts.dut {
                Some(dut) => {
                    let read = match self.bed.dut.kind {
                        System::Freebsd | System::Bsdrp => crate::facts::freebsd_facts,
                        System::Linux | System::Vpp | System::None => crate::facts::collect_facts,
                    };
                    read(dut.as_ref(), placement, privileged)
                }
                None => Facts::default(),
            },
            _ => Facts::default(),
        };
        facts.driver = None;
        if let Ok(hosts) = self.hosts() {
            self.describe(&hosts, &mut facts);
        }
        facts.privileged = privileged;
        facts.placement.extend(placement.notes.clone());
        let TestBed { name, about, .. } = &self.bed;
        let words = match about.is_empty() {
            true => name.clone(),
            false => format!("{name}: {about}"),
        };
        facts.placement.insert(TEST_BED.into(), words);
        facts
    }
}

impl ExistingHosts {
    /// Adds the cards of the DUT and of the tester, and the tester's hosts that are not the DUT's.
    fn describe(&self, hosts: &Hosts, facts: &mut Facts) {
        let cards = match self.bed.dut.kind {
            System::Linux => Some(crate::facts::cards as fn(&dyn Host, &str, &[&str]) -> _),
            System::Freebsd | System::Bsdrp => Some(crate::facts::freebsd_cards as _),
            System::Vpp | System::None => None,
        };
        if let (Some(dut), Some(ports), Some(cards)) = (&hosts.dut, &self.bed.dut.ports, cards) {
            let found = cards(dut.as_ref(), "DUT", &[&ports.a, &ports.b]);
            facts.cards.extend(found);
        }
        if self.bed.generator.kind != PortKind::Interface {
            let ports = self.user_ports().ok().flatten();
            let ports = ports.iter().flat_map(|ports| [&ports.a, &ports.b]);
            let card = |port| crate::facts::card_in_user_space("generator", port);
            facts.cards.extend(ports.filter_map(card));
            return;
        }
        for (seat, port) in self.bed.tester_ports().iter().enumerate() {
            let number = self.seats[seat];
            let host = hosts.testers[number].host.as_ref();
            facts
                .cards
                .extend(crate::facts::cards(host, port.role, &[port.port]));
            if self.dut.as_ref() != Some(&self.testers[number]) {
                let of_host = || {
                    crate::facts::in_one_line(&crate::facts::collect_facts(
                        host,
                        &Placement::default(),
                        false,
                    ))
                };
                facts
                    .testers
                    .entry(port.role.to_owned())
                    .or_insert_with(of_host);
            }
        }
    }
}

/// Connects to the SNMP agent of a device with these ports.
fn agent_at(
    at: test_bed::Agent,
    community: Option<&str>,
    ports: &[&str],
) -> Result<Agent, LabError> {
    Agent::open((at.0, at.1).into(), community.unwrap_or("public"), ports)
}

/// Waits for the peers or links of ports of user space. Those without addresses of their own get
/// those of the embedded bed.
fn connected(ports: &Ends<UserPort>) -> Result<Ends<Link>, LabError> {
    let link = |port: &UserPort, mac| {
        port.wait_for_peer(LINK_PATIENCE)?;
        Ok::<_, LabError>(Link {
            name: port.spec().interface.clone(),
            mac: port.mac().unwrap_or(mac),
            mtu: None,
            is_up: true,
            has_link: Some(true),
            is_tap: false,
        })
    };
    let Networks { input, output, .. } = Networks::EMBEDDED;
    Ok(Ends {
        a: link(&ports.a, input.tester_mac)?,
        b: link(&ports.b, output.tester_mac)?,
    })
}

/// Returns the tester's ports that are TAP devices.
fn blind(links: &Ends<Link>) -> Vec<String> {
    let taps = [&links.a, &links.b].into_iter().filter(|link| link.is_tap);
    taps.map(|link| link.name.clone()).collect()
}

fn within(time: Duration, is_stopped: &dyn Fn() -> bool) -> Limit<'_> {
    Limit { time, is_stopped }
}

fn wait_for_link(host: &dyn Host, port: &str, control: &Control) -> Result<(), LabError> {
    let started = Instant::now();
    control.check()?;
    while ports::read_link(host, port, PortCommands::Linux)?.has_link == Some(false) {
        control.check()?;
        if started.elapsed() >= LINK_PATIENCE {
            return Err(LabError::Preflight(format!(
                "{port} of {} has no link after {:.0} s. Is the cable in, and is the other end up?",
                host.name(),
                LINK_PATIENCE.as_secs_f64()
            )));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Checks that both ends of a link have the same MTU; otherwise one of them silently drops frames.
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
