//! Devices under test: what can be asked of one, in words of measuring; how it is done, in words of its own system, is in its file.
//!
//! [`linux`] is a Linux machine or a part of one, over any [`Host`], [`freebsd`] a FreeBSD one, and [`vpp`] a VPP there; [`black_box`] is one
//! that nobody can log into. [`set`] are the configurations that users apply, [`sweep`] what campaigns vary. A change that can be taken back
//! gives a [`Change`], and the way back is
//! written down first. Start with [`Dut`].
//!
//! [`Host`]: crate::host::Host

pub mod black_box;
pub(crate) mod daemons;
pub mod freebsd;
pub mod linux;
pub mod set;
mod spread;
pub(crate) mod sweep;
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
pub use daemons::Ended;
pub use freebsd::FreeBsd;
pub use linux::Linux;
pub use set::Configuration;
pub use spread::Spread;
pub use sweep::Swept;
pub use vpp::Vpp;

use crate::control::Control;
use crate::error::LabError;
pub use crate::host::undo::Change;
use crate::host::{Host, Limit, Process};
use crate::interfaces::Counted;
use crate::networks::End;
use crate::telemetry::Observed;

/// A device under test.
pub trait Dut: fmt::Debug + Send + Sync {
    /// What people call it: the name of its host.
    fn name(&self) -> &str;

    /// Makes it a router between the networks of the bed. Returns what was set: `net/ipv4/ip_forward`, `1`.
    ///
    /// # Errors
    /// It cannot be set.
    fn prepare(&self) -> Result<BTreeMap<String, String>, LabError>;

    /// Applies a configuration; returns what that printed.
    ///
    /// # Errors
    /// A step failed, or took longer than a minute, or was stopped.
    fn apply(&self, configuration: &Configuration, control: &Control) -> Result<String, LabError>;

    /// What of a configuration that was applied is in force, as the DUT says it: names, such as `sysctl.txt`, and texts.
    ///
    /// # Errors
    /// It does not answer.
    fn in_force(
        &self,
        _configuration: &Configuration,
    ) -> Result<BTreeMap<String, String>, LabError> {
        Ok(BTreeMap::new())
    }

    /// Adds routes by next hops of the bed, for test frames that go further; returns its own words for them.
    ///
    /// # Errors
    /// It does not take them.
    fn route(&self, routes: &[Route]) -> Result<String, LabError>;

    /// Sets a value of a sweep, and verifies it. `None`: nothing can be taken back.
    ///
    /// # Errors
    /// It could not be set, or its own tables say otherwise; what was done is taken back.
    fn set(
        &self,
        swept: &Swept,
        version: IpVersion,
        value: u64,
        control: &Control,
    ) -> Result<Option<Change>, LabError>;

    /// Finds out how it is reset as it stands now.
    ///
    /// # Errors
    /// What has to be put back afterwards cannot be read.
    fn plan_reset(&self, reset: &Reset) -> Result<PlannedReset, LabError>;

    /// Resets it; returns when that is done, with what it told of its course.
    ///
    /// # Errors
    /// It failed, took longer than the limit, or was stopped.
    fn reset(&self, planned: &PlannedReset, limit: Limit<'_>) -> Result<Vec<Moment>, LabError>;

    /// Has it examine so many rules per frame, of which the last permits these sources and destinations, and deny all else (RFC 2544
    /// §11.4). Gives its own words for it to `tell` before that is done.
    ///
    /// # Errors
    /// It does not take them; what was done is taken back.
    fn filter(
        &self,
        permitted: &[(String, String)],
        rules: u32,
        tell: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError>;

    /// Sets the routes of [`Updates::A`] for the first time (RFC 2544 §11.3). Gives its own words for both to `tell` before that is done.
    ///
    /// # Errors
    /// It does not take them; what was done is taken back.
    fn begin_updates(
        &self,
        version: IpVersion,
        tell: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError>;

    /// Changes these routes, and verifies that.
    ///
    /// # Errors
    /// It does not take them.
    fn update(&self, version: IpVersion, to: Updates) -> Result<(), LabError>;

    /// Starts an SNMP agent. It ends when what is returned is dropped, which has the words that started it.
    ///
    /// # Errors
    /// There is none that could be started.
    fn start_agent(&self, agent: &Agent<'_>) -> Result<(Box<dyn Process>, String), LabError>;

    /// What its ports counted; `None`: nobody can read that.
    ///
    /// # Errors
    /// They should be there and are not.
    fn counters(&self) -> Result<Option<PortPair<Counted>>, LabError>;

    /// Ports that are not up, or not there: `eth1 in fwdlab-x-dut0 is gone`.
    ///
    /// # Errors
    /// It does not answer.
    fn ports_amiss(&self) -> Result<Vec<String>, LabError>;

    /// How often the links of its ports came or went so far, by port and host, as far as it counts that.
    ///
    /// # Errors
    /// It does not answer.
    fn link_changes(&self) -> Result<BTreeMap<String, u64>, LabError> {
        Ok(BTreeMap::new())
    }

    /// How a configuration that spreads frames over tunnels has spread them so far; `None`: it does not.
    ///
    /// # Errors
    /// It does not answer.
    fn spread(&self) -> Result<Option<Spread>, LabError> {
        Ok(None)
    }

    /// Which daemons of the configuration that was applied live no more, as far as it names them.
    ///
    /// # Errors
    /// It does not answer.
    fn daemons_ended(&self) -> Result<Vec<Ended>, LabError> {
        Ok(Vec::new())
    }

    /// Has others been started in their places, as a reset may have done? They are watched from now on.
    ///
    /// # Errors
    /// They do not live either.
    fn meet_daemons(&self) -> Result<(), LabError> {
        Ok(())
    }

    /// For how long what forwards has waited for its CPU so far; `None`: nobody can read that.
    fn waited(&self) -> Option<Duration>;

    /// Begins to count what forwarding takes of it; who closes the account gets what it took since. `None`: nobody can read that.
    ///
    /// # Errors
    /// It does not answer.
    fn account(&self) -> Result<Option<Account<'_>>, LabError> {
        Ok(None)
    }

    /// Is it the kernel that forwards, so that the kernel knows why it dropped a frame?
    fn is_kernel(&self) -> bool {
        true
    }

    /// Offloads of its ports, as far as they can be read: `eth0:feature`, `on` or `off`.
    fn offloads(&self) -> BTreeMap<String, String>;

    /// Where commands of the user's run on it, as those of its configurations do; `None`: nobody can log into it.
    fn place(&self) -> Option<Arc<dyn Host>> {
        None
    }

    /// Where it can be read while it is measured; `None`: nobody can.
    fn observed(&self) -> Option<Observed> {
        None
    }

    /// Takes a change back, if that was not done already.
    ///
    /// # Errors
    /// It could not be taken back; that is tried again when the bed goes.
    fn take_back(&self, change: Change, limit: Limit<'_>) -> Result<(), LabError>;

    /// Takes all changes back, the last first; says which ones could not be, and why.
    fn undo(&self) -> Vec<String>;
}

/// Counts what forwarding takes of a DUT until it is called; of the frames it knows nothing.
pub type Account<'a> = Box<dyn FnOnce() -> Result<Work, LabError> + 'a>;

/// Something of both ports of the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortPair<T> {
    /// Of the port into which test frames go.
    pub input: T,
    /// Of the port at which they leave.
    pub output: T,
}

/// A route by a next hop of the bed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Prefix and its length.
    pub network: (IpAddr, u8),
    /// Behind which port the next hop is.
    pub out: End,
}

/// A reset that can be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedReset {
    /// What is reset.
    pub reset: Reset,
    /// How, in the words of its system.
    how: String,
}

/// What `sh` does, with its begin told as the first moment.
pub(crate) fn timed(script: &str) -> String {
    format!("date '+moment %s.%N began'\n{script}")
}

/// The two states between which routes change: the same networks, each through the other next hop than in the other state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updates {
    /// The first.
    A,
    /// The second.
    B,
}

/// An agent that answers queries.
#[derive(Debug, Clone, Copy)]
pub struct Agent<'a> {
    /// The community that may read.
    pub community: &'a str,
    /// Who asks.
    pub from: Ipv4Addr,
    /// Where it listens.
    pub at: (Ipv4Addr, u16),
    /// On which CPUs it runs; none: on any.
    pub cpus: &'a [usize],
}
