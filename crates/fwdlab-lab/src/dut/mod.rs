//! Devices under test: the operations that measuring needs; each system implements them in its own
//! file.
//!
//! [`linux`] is a Linux machine or a part of one, over any [`Host`]; [`freebsd`] is FreeBSD, and
//! [`vpp`] is VPP; [`unix`] has what the first two share; [`black_box`] is a DUT without login,
//! [`data_plane`] has data planes of guests that count instructions. [`set`] has the configurations
//! that users apply, [`sweep`] what campaigns vary. A change that can be undone returns a
//! [`Change`], and the undo command is recorded first. Start with [`Dut`].
//!
//! [`Host`]: crate::host::Host

pub mod black_box;
pub(crate) mod daemons;
pub(crate) mod data_plane;
pub mod freebsd;
pub mod linux;
pub mod set;
mod spread;
pub(crate) mod sweep;
mod unix;
mod upload;
mod verify;
pub mod vpp;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use fwdlab_model::efficiency::Work;
use fwdlab_model::procedure::Moment;
use fwdlab_model::reset::Reset;
use fwdlab_model::trial::IpVersion;

pub use black_box::BlackBox;
pub use daemons::EndedDaemon;
pub use freebsd::FreeBsd;
pub use linux::{Hashing, Linux};
pub use set::Configuration;
pub use spread::Spread;
pub use sweep::SweptParameter;
pub use vpp::Vpp;

use crate::control::Control;
use crate::error::LabError;
pub use crate::host::undo::Change;
use crate::host::{Command, Host, Limit, Process};
use crate::interfaces::Counted;
use crate::networks::{End, Networks, Side};
use crate::telemetry::Observed;

/// A device under test.
pub trait Dut: fmt::Debug + Send + Sync {
    /// Returns its name for people: the name of its host.
    fn name(&self) -> &str;

    /// Returns what it is, in messages about what it cannot do: `, which is VPP`.
    fn kind(&self) -> &'static str;

    /// Makes it a router between the networks of the bed. Returns what was set:
    /// `net/ipv4/ip_forward`, `1`.
    ///
    /// # Errors
    /// A setting cannot be made.
    fn prepare(&self) -> Result<BTreeMap<String, String>, LabError>;

    /// Applies a configuration; returns its output.
    ///
    /// # Errors
    /// A step failed, exceeded its time limit (a minute by default), or was stopped.
    fn apply(&self, configuration: &Configuration, control: &Control) -> Result<String, LabError>;

    /// Returns what of an applied configuration is in force, as the DUT reports it: names, such as
    /// `sysctl.txt`, and texts.
    ///
    /// # Errors
    /// The DUT does not answer.
    fn in_force(
        &self,
        _configuration: &Configuration,
    ) -> Result<BTreeMap<String, String>, LabError> {
        Ok(BTreeMap::new())
    }

    /// Adds routes via next hops of the bed, for test frames with more distant destinations;
    /// returns the routes in the DUT's own syntax.
    ///
    /// # Errors
    /// The DUT does not accept them.
    fn route(&self, routes: &[Route]) -> Result<String, LabError>;

    /// Sets a value of a sweep, and verifies it. `None`: nothing can be undone.
    ///
    /// # Errors
    /// The value could not be set, or the DUT's tables differ; the change is undone.
    fn set(
        &self,
        swept: &SweptParameter,
        version: IpVersion,
        value: u64,
        control: &Control,
    ) -> Result<Option<Change>, LabError>;

    /// Prepares a reset for the DUT's current state.
    ///
    /// # Errors
    /// What has to be restored afterwards cannot be read.
    fn plan_reset(&self, reset: &Reset) -> Result<PlannedReset, LabError> {
        let action = format!("plan the reset `{reset}`");
        refuse(self, action, "leave the reset test out")
    }

    /// Resets the DUT; returns when the reset has finished, with the moments it reported.
    ///
    /// # Errors
    /// The reset failed, exceeded the limit, or was stopped.
    fn reset(&self, planned: &PlannedReset, _limit: Limit<'_>) -> Result<Vec<Moment>, LabError> {
        let action = format!("carry out the reset `{}`", planned.reset);
        refuse(self, action, "leave the reset test out")
    }

    /// Makes the DUT evaluate this number of rules per frame, of which the last permits these
    /// sources and destinations, and deny everything else (RFC 2544 §11.4). First passes the rules
    /// in the DUT's own syntax to `tell`.
    ///
    /// # Errors
    /// The DUT does not accept them; the change is undone.
    fn filter(
        &self,
        permitted: &[(String, String)],
        rules: u32,
        tell: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError>;

    /// Sets the routes of [`Updates::A`] for the first time (RFC 2544 §11.3). First passes both
    /// states in the DUT's own syntax to `tell`.
    ///
    /// # Errors
    /// The DUT does not accept them; the change is undone.
    fn begin_updates(
        &self,
        _version: IpVersion,
        _tell: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        refuse(self, "update routes", "leave this modifier out")
    }

    /// Changes these routes, and verifies them.
    ///
    /// # Errors
    /// The DUT does not accept them.
    fn update(&self, _version: IpVersion, _to: Updates) -> Result<(), LabError> {
        refuse(self, "update routes", "leave this modifier out")
    }

    /// Starts an SNMP agent, which ends when the returned process is dropped; also returns the
    /// command line.
    ///
    /// # Errors
    /// No agent can be started.
    fn start_agent(&self, _agent: &Agent<'_>) -> Result<(Box<dyn Process>, String), LabError> {
        let instead = "start one there by hand, or leave this modifier out";
        refuse(self, "start an SNMP agent", instead)
    }

    /// Returns the counters of its ports; `None` if they cannot be read.
    ///
    /// # Errors
    /// They should exist and do not.
    fn counters(&self) -> Result<Option<PortPair<Counted>>, LabError>;

    /// Returns how old these counters may be when they are read; `None` if that is not known.
    fn age_of_counters(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    /// Returns ports that are not up or do not exist: `eth1 in fwdlab-x-dut0 is gone`.
    ///
    /// # Errors
    /// The DUT does not answer.
    fn port_problems(&self) -> Result<Vec<String>, LabError>;

    /// Returns how often the links of its ports went up or down so far, by port and host, as far as
    /// this is counted.
    ///
    /// # Errors
    /// The DUT does not answer.
    fn link_changes(&self) -> Result<BTreeMap<String, u64>, LabError> {
        Ok(BTreeMap::new())
    }

    /// Returns how a configuration with tunnels has spread frames over them so far; `None` for
    /// other configurations.
    ///
    /// # Errors
    /// The DUT does not answer.
    fn spread(&self) -> Result<Option<Spread>, LabError> {
        Ok(None)
    }

    /// Returns which listed daemons of the applied configuration have ended.
    ///
    /// # Errors
    /// The DUT does not answer.
    fn daemons_ended(&self) -> Result<Vec<EndedDaemon>, LabError> {
        Ok(Vec::new())
    }

    /// Finds the daemons that have replaced them, for example after a reset, and watches these from
    /// now on.
    ///
    /// # Errors
    /// The new ones are not running either.
    fn find_new_daemons(&self) -> Result<(), LabError> {
        Ok(())
    }

    /// Returns how long the forwarding thread has waited for its CPU so far; `None` if unknown.
    fn waited(&self) -> Option<Duration> {
        None
    }

    /// Starts to count the cost of forwarding; closing the account returns the cost since then.
    /// `None` if it cannot be read.
    ///
    /// # Errors
    /// The DUT does not answer.
    fn account(&self) -> Result<Option<Account<'_>>, LabError> {
        Ok(None)
    }

    /// Returns true if the kernel forwards, and therefore knows why it dropped a frame.
    fn is_kernel(&self) -> bool {
        true
    }

    /// Returns the offloads of its ports, as far as they can be read: `eth0:feature`, `on` or
    /// `off`.
    fn offloads(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns the host where users' commands run, like those of its configurations; `None` without
    /// login.
    fn place(&self) -> Option<Arc<dyn Host>> {
        None
    }

    /// Returns how to read its state during a measurement; `None` if that is impossible.
    fn observed(&self) -> Option<Observed> {
        None
    }

    /// Undoes a change, unless that was done already.
    ///
    /// # Errors
    /// It could not be undone; the teardown of the bed tries again.
    fn undo_change(&self, change: Change, limit: Limit<'_>) -> Result<(), LabError>;

    /// Undoes all changes in reverse order; returns which could not be undone, and why.
    fn undo(&self) -> Vec<String>;
}

/// Returns the error for what cannot be done with this kind of DUT, and what to do instead.
fn refuse<T>(
    dut: &(impl Dut + ?Sized),
    action: impl Into<String>,
    instead: impl Into<String>,
) -> Result<T, LabError> {
    Err(LabError::NotAsked {
        dut: dut.name().to_owned(),
        what: action.into(),
        of_kind: dut.kind(),
        instead: instead.into(),
    })
}

/// The ports of a DUT, input and output, and what is connected to them.
#[derive(Debug)]
struct Sides {
    ports: [String; 2],
    networks: Networks,
}

impl Sides {
    fn new(ports: [&str; 2], networks: Networks) -> Sides {
        Sides {
            ports: ports.map(str::to_owned),
            networks,
        }
    }

    /// Returns the name of a port.
    fn port(&self, end: End) -> &str {
        let [input, output] = &self.ports;
        match end {
            End::Input => input,
            End::Output => output,
        }
    }

    /// Returns the networks of both ports, with the ports.
    fn each(&self) -> [(&Side, &str); 2] {
        [End::Input, End::Output].map(|end| (self.networks.side(end), self.port(end)))
    }
}

/// Runs the command of a reset that prints its moments, on the host where it was planned.
fn run_reset(
    host: &dyn Host,
    command: Command,
    planned: &PlannedReset,
    limit: Limit<'_>,
) -> Result<Vec<Moment>, LabError> {
    let command = command.called(planned.description.trim());
    match host.run(&command, limit).map_err(LabError::from) {
        Ok(output) => Ok(Moment::parse_all(&output.text())),
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(source) => Err(LabError::NotReset {
            what: planned.reset.to_string(),
            source: Box::new(source),
        }),
    }
}

/// Counts the cost of forwarding on a DUT until it is called; does not count frames.
pub type Account<'a> = Box<dyn FnOnce() -> Result<Work, LabError> + 'a>;

/// A value for each of the two test ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortPair<T> {
    /// For the port that receives test frames.
    pub input: T,
    /// For the port that sends them.
    pub output: T,
}

/// A route via a next hop of the bed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Prefix and its length.
    pub network: (IpAddr, u8),
    /// The port of the next hop.
    pub out: End,
}

/// A prepared reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedReset {
    /// What is reset.
    pub reset: Reset,
    /// The command or script, in the syntax of its system.
    description: String,
}

/// Returns a script for `sh` that prints its start as the first moment.
pub(crate) fn timed(script: &str) -> String {
    format!("date '+moment %s.%N began'\n{script}")
}

/// The two states between which routes change: the same networks, each via the other next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updates {
    /// The first.
    A,
    /// The second.
    B,
}

/// An agent that answers SNMP queries.
#[derive(Debug, Clone, Copy)]
pub struct Agent<'a> {
    /// The community with read access.
    pub community: &'a str,
    /// The address from which queries come.
    pub from: Ipv4Addr,
    /// The address and port where it listens.
    pub at: (Ipv4Addr, u16),
    /// The CPUs on which it runs; empty: any.
    pub cpus: &'a [usize],
}
