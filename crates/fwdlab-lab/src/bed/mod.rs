//! Test beds: DUTs, ports, the paths through them, and the networks between them.
//!
//! A [`Bed`] knows its hosts and ports, and reads their counters; each kind of bed is built in its
//! own file, the embedded one of veth pairs in [`veth`]. The operations of a DUT are in
//! [`crate::dut`]. Start with [`Bed`].

pub mod guest;
pub(crate) mod switch;
pub mod veth;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::{PathSpec, PortSpec};
use fwdlab_model::test_bed::Ends;

pub use switch::SwitchPackets;

use self::switch::BedSwitch;
use crate::dut::{Dut, EndedDaemon, PortPair, Spread};
use crate::error::LabError;
use crate::host::Host;
use crate::host::registry::Registration;
use crate::host::undo::Undo;
use crate::interfaces::{Counted, counters_of, link_changes, port_problems, read_counters};
use crate::networks::Networks;
use crate::ports::UserPort;
use crate::vm::machine::Machine;

/// A test bed. Dropping it removes it.
#[derive(Debug)]
pub struct Bed {
    /// Dropped before the rest of the bed.
    duts: Vec<Arc<dyn Dut>>,
    /// The hosts of the tester's ports.
    tester: Testers,
    networks: Networks,
    paths: Vec<PathSpec>,
    /// True if frames also pass through the DUT in the reverse direction.
    both_ways: bool,
    notes: BTreeMap<String, String>,
    sysctls: BTreeMap<String, String>,
    built: veth::Built,
    /// How to undo changes on its hosts.
    changes: Arc<Undo>,
    ground: BedBase,
    switch: Option<BedSwitch>,
    ports: TesterPorts,
    /// Reservations of its ports, which keep others from using them as long as the bed exists.
    _claims: Vec<Claim>,
}

/// A reservation that keeps others from using something until it is dropped.
pub(crate) type Claim = Box<dyn std::fmt::Debug + Send + Sync>;

/// The hosts of the tester's ports.
#[derive(Debug, Clone)]
pub(crate) struct Testers {
    /// The host of the port that sends frames into the DUT.
    pub a: Arc<dyn Host>,
    /// The host of the port that receives them from the DUT; often the same.
    pub b: Arc<dyn Host>,
    /// The second sender into the DUT, if frames come from two hosts.
    pub second: Option<Second>,
}

/// A port that sends in addition to the first.
#[derive(Debug, Clone)]
pub(crate) struct Second {
    pub host: Arc<dyn Host>,
    pub port: PortSpec,
    pub mac: [u8; 6],
}

impl Testers {
    /// Uses one host for all ports.
    pub fn one(host: Arc<dyn Host>) -> Testers {
        Testers {
            a: host.clone(),
            b: host,
            second: None,
        }
    }
}

/// What the tester's ports are, and how they count.
#[derive(Debug)]
pub(crate) enum TesterPorts {
    /// Network interfaces, with counters of the kernel.
    Interfaces {
        /// Those that do not count frames taken by a receiver in XDP.
        blind: Vec<String>,
    },
    /// Ports of user space.
    User(Arc<Ends<UserPort>>),
}

impl Default for TesterPorts {
    fn default() -> TesterPorts {
        TesterPorts::Interfaces { blind: Vec::new() }
    }
}

impl TesterPorts {
    /// Returns the ports of user space; none if they are interfaces.
    fn of_user(&self) -> impl Iterator<Item = &UserPort> {
        let ports = match self {
            TesterPorts::Interfaces { .. } => None,
            TesterPorts::User(ports) => Some([&ports.a, &ports.b]),
        };
        ports.into_iter().flatten()
    }
}

/// What a bed is built on, and removed with.
#[derive(Debug)]
enum BedBase {
    /// This machine, whose registry contains the bed.
    Here(Registration),
    /// A virtual machine of ours, which ends with the last bed in it.
    Guest { _machine: Arc<Machine> },
}

/// Interface counters of one path, as the kernel reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Generator's sending port: packets, dropped.
    pub tx: (u64, u64),
    /// The DUT's ports, if they can be read.
    pub dut: Option<DutPorts>,
    /// Generator's receiving port: packets, dropped (receive side).
    pub rx: (u64, u64),
    /// Why `rx` is not known.
    pub rx_not_read: Option<&'static str>,
    /// How often the DUT may have found no room in the ring to the receiver, if that is known.
    pub rx_full: u64,
    /// Frames that arrived at the receiving port and were lost there, because the receiver was too
    /// slow; 0 if the port does not count them.
    pub rx_missed: u64,
    /// A switch's ports, if there is one that can be queried.
    pub switch: Option<SwitchPackets>,
}

/// Counters of the DUT's ports on one path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DutPorts {
    /// Input: packets, dropped (receive side).
    pub input: (u64, u64),
    /// Output: packets, dropped (transmit side).
    pub output: (u64, u64),
    /// False if they may be some seconds old.
    pub are_exact: bool,
}

/// The parts of a bed with existing hosts.
pub(crate) struct Parts {
    pub duts: Vec<Arc<dyn Dut>>,
    pub tester: Testers,
    pub networks: Networks,
    pub paths: Vec<PathSpec>,
    pub both_ways: bool,
    pub sysctls: BTreeMap<String, String>,
    pub registration: Registration,
    pub switch: Option<BedSwitch>,
    pub claims: Vec<Claim>,
    pub ports: TesterPorts,
}

impl Bed {
    /// Creates a bed from existing parts: nothing is built, and changes on its hosts are undone
    /// when it is dropped.
    pub(crate) fn from_parts(parts: Parts) -> Bed {
        Bed {
            duts: parts.duts,
            tester: parts.tester,
            networks: parts.networks,
            paths: parts.paths,
            both_ways: parts.both_ways,
            notes: BTreeMap::new(),
            sysctls: parts.sysctls,
            built: veth::Built::default(),
            changes: parts.registration.changes().clone(),
            ground: BedBase::Here(parts.registration),
            switch: parts.switch,
            ports: parts.ports,
            _claims: parts.claims,
        }
    }

    /// Returns four letters that identify the lab; `vm` for a bed in a virtual machine.
    pub fn id(&self) -> &str {
        match &self.ground {
            BedBase::Here(registration) => &registration.record().id,
            BedBase::Guest { .. } => "vm",
        }
    }

    /// Returns the number of parallel DUTs.
    pub fn duts(&self) -> usize {
        self.duts.len()
    }

    /// Returns one of them.
    pub fn dut(&self, dut: usize) -> &Arc<dyn Dut> {
        &self.duts[dut]
    }

    /// Returns the host of the port that sends frames into the DUT.
    pub fn tester(&self) -> &Arc<dyn Host> {
        &self.tester.a
    }

    /// Returns the name of the generator's namespace, or of its host.
    pub fn generator(&self) -> &str {
        self.tester.a.name()
    }

    /// Returns the second sender.
    pub(crate) fn second(&self) -> Option<&Second> {
        self.tester.second.as_ref()
    }

    /// Returns the network namespaces of the bed on this machine.
    pub fn namespaces(&self) -> &[String] {
        match &self.ground {
            BedBase::Here(registration) => &registration.record().namespaces,
            BedBase::Guest { .. } => &[],
        }
    }

    /// Returns the addresses of its ports, and the networks behind them.
    pub fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Returns what it records of changes, to undo them.
    pub(crate) fn changes(&self) -> &Arc<Undo> {
        &self.changes
    }

    /// Returns the path through each DUT; if frames go both ways, the second is the reverse path.
    pub fn paths(&self) -> &[PathSpec] {
        &self.paths
    }

    /// Returns the number of paths: one through each DUT, or two through one.
    pub fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// Describes what runs where, and what could not be arranged.
    pub fn notes(&self) -> &BTreeMap<String, String> {
        &self.notes
    }

    /// Returns the sysctls of the first DUT and the generator: `dut:net/...`, value.
    pub fn sysctls(&self) -> &BTreeMap<String, String> {
        &self.sysctls
    }

    /// Returns the offloads of the first DUT's ports: `eth0:feature`, `on` or `off`.
    pub fn offloads(&self) -> BTreeMap<String, String> {
        self.duts[0].offloads()
    }

    /// Returns how long the DUT's thread has waited for its CPU so far; zero if unknown.
    pub fn waited(&self, dut: usize) -> Duration {
        self.duts[dut].waited().unwrap_or_default()
    }

    /// Returns how long nothing must move before counters of its DUTs show everything.
    pub fn age_of_counters(&self) -> Duration {
        let ages = self.duts.iter().filter_map(|dut| dut.age_of_counters());
        ages.max().unwrap_or_default()
    }

    /// Reads the interface counters of one path.
    ///
    /// # Errors
    /// A namespace or an interface is gone.
    pub fn counters(&self, path: usize) -> Result<PortCounters, LabError> {
        let undo = self.both_ways && path == 1;
        let dut = &self.duts[if undo { 0 } else { path }];
        let on_path = |ports: PortPair<Counted>| {
            let (input, output) = match undo {
                false => (ports.input, ports.output),
                true => (ports.output, ports.input),
            };
            DutPorts {
                input: (input.rx_packets, input.rx_dropped),
                output: (output.tx_packets, output.tx_dropped),
                are_exact: dut.age_of_counters().is_some(),
            }
        };
        let tester = match &self.ports {
            TesterPorts::Interfaces { blind } => self.interface_counters(path, undo, blind)?,
            TesterPorts::User(ports) => user_counters(ports, undo)?,
        };
        Ok(PortCounters {
            dut: dut.counters()?.map(on_path),
            switch: match &self.switch {
                Some(switch) => Some(switch.packets(undo)?),
                None => None,
            },
            ..tester
        })
    }

    /// Reads the kernel's counters of the tester's ports.
    fn interface_counters(
        &self,
        path: usize,
        undo: bool,
        blind: &[String],
    ) -> Result<PortCounters, LabError> {
        let Testers { a, b, second } = &self.tester;
        let (sends, receives) = match undo {
            false => (a, b),
            true => (b, a),
        };
        let ways = &self.paths[path];
        let table = read_counters(sends.as_ref())?;
        let mut tx = counters_of(&table, &ways.tx.interface, sends.as_ref())?;
        let rx = match Arc::ptr_eq(sends, receives) {
            true => counters_of(&table, &ways.rx.interface, sends.as_ref())?,
            false => {
                let table = read_counters(receives.as_ref())?;
                counters_of(&table, &ways.rx.interface, receives.as_ref())?
            }
        };
        if let Some(Second { host, port, .. }) = second.as_ref().filter(|_| !undo) {
            let table = read_counters(host.as_ref())?;
            let beside = counters_of(&table, &port.interface, host.as_ref())?;
            tx.tx_packets += beside.tx_packets;
            tx.tx_dropped += beside.tx_dropped;
        }
        Ok(PortCounters {
            tx: (tx.tx_packets, tx.tx_dropped),
            rx: (rx.rx_packets, rx.rx_dropped),
            rx_not_read: (blind.contains(&ways.rx.interface))
                .then_some("a TAP device does not count what a receiver in XDP takes"),
            ..PortCounters::default()
        })
    }

    /// Returns ports that are not up or do not exist: `rx0 in fwdlab-x-gen is gone`.
    ///
    /// # Errors
    /// A namespace is gone.
    pub fn port_problems(&self) -> Result<Vec<String>, LabError> {
        let mut problem: Vec<String> = self.ports.of_user().filter_map(UserPort::problem).collect();
        for (host, ports) in self.ports_of_tester() {
            problem.extend(port_problems(host.as_ref(), &ports)?);
        }
        for dut in &self.duts {
            problem.extend(dut.port_problems()?);
        }
        Ok(problem)
    }

    /// Returns the daemons of all DUTs' configurations that have ended.
    ///
    /// # Errors
    /// A host does not answer.
    pub(crate) fn daemons_ended(&self) -> Result<Vec<EndedDaemon>, LabError> {
        let mut ended = Vec::new();
        for dut in &self.duts {
            ended.extend(dut.daemons_ended()?);
        }
        Ok(ended)
    }

    /// Returns for every DUT how a configuration with tunnels has spread frames over them so far.
    ///
    /// # Errors
    /// A host does not answer.
    pub(crate) fn spread(&self) -> Result<Vec<Option<Spread>>, LabError> {
        self.duts.iter().map(|dut| dut.spread()).collect()
    }

    /// Returns how often the links of its ports went up or down so far, if their host counts that:
    /// `rx0 in fwdlab-x-gen`, 2. A memif port counts its connections, and a DPDK port nothing.
    ///
    /// # Errors
    /// A host does not answer.
    pub fn link_changes(&self) -> Result<BTreeMap<String, u64>, LabError> {
        let connections =
            |port: &UserPort| Some((port.spec().interface.clone(), port.connections()?));
        let mut changes: BTreeMap<_, _> = self.ports.of_user().filter_map(connections).collect();
        for (host, ports) in self.ports_of_tester() {
            changes.extend(link_changes(host.as_ref(), &ports)?);
        }
        for dut in &self.duts {
            changes.extend(dut.link_changes()?);
        }
        Ok(changes)
    }

    /// Returns the processes of this machine that are the DUT: the peers of memif ports.
    pub(crate) fn processes_of_dut(&self) -> impl Iterator<Item = u32> {
        self.ports.of_user().filter_map(UserPort::process)
    }

    /// Returns the interfaces of the tester, by their hosts.
    fn ports_of_tester(&self) -> Vec<(&Arc<dyn Host>, Vec<String>)> {
        if let TesterPorts::User(_) = self.ports {
            return Vec::new();
        }
        let paths = &self.paths[..self.duts.len()];
        let of = |end: fn(&PathSpec) -> &PortSpec| -> Vec<String> {
            paths
                .iter()
                .map(|path| end(path).interface.clone())
                .collect()
        };
        let (mut sends, receives) = (of(|path| &path.tx), of(|path| &path.rx));
        let Testers { a, b, second } = &self.tester;
        let mut ports = match Arc::ptr_eq(a, b) {
            true => {
                sends.extend(receives);
                vec![(a, sends)]
            }
            false => vec![(a, sends), (b, receives)],
        };
        if let Some(Second { host, port, .. }) = second {
            ports.push((host, vec![port.interface.clone()]));
        }
        ports
    }

    /// Replaces its DUT by one of which only the name is known.
    #[cfg(test)]
    pub(crate) fn make_black_box(&mut self, name: &str) {
        self.duts = vec![Arc::new(crate::dut::BlackBox::new(name))];
    }

    /// Returns true if its links can be listened to: the kernel sees no frame of other ports.
    pub(crate) fn has_links(&self) -> bool {
        matches!(self.ports, TesterPorts::Interfaces { .. })
    }

    /// Keeps the bed when the process ends; `fwdlab bed down` removes it.
    pub fn leave_standing(self) {
        if let BedBase::Here(registration) = self.ground {
            registration.leave_standing();
        }
    }
}

/// Returns what ports of user space have counted.
fn user_counters(ports: &Ends<UserPort>, undo: bool) -> Result<PortCounters, LabError> {
    let (sends, receives) = match undo {
        false => (&ports.a, &ports.b),
        true => (&ports.b, &ports.a),
    };
    let counted = receives.counts()?;
    Ok(PortCounters {
        tx: sends.counts()?.tx,
        rx: counted.rx.unwrap_or_default(),
        rx_missed: counted.rx.map_or(0, |(_, missed)| missed),
        rx_not_read: (counted.rx.is_none())
            .then_some("a memif port has no counter but the receiver's own"),
        rx_full: counted.rx_full,
        ..PortCounters::default()
    })
}
