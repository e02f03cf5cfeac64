//! What offers the frames of trials and counts what comes back, wherever it runs.
//!
//! A [`Rig`] makes one trial at a time and knows nothing of beds, DUTs or procedures. [`local`] is one in this process, [`remote`] one behind
//! an agent on another host, `apart` one whose sender and receiver are on two, and nothing above this folder can tell. Start with [`Rig`].

pub(crate) mod apart;
pub mod bursts;
pub(crate) mod local;
pub mod remote;

pub use local::Chosen;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fwdlab_engine::analysis::{Analysis, AnalysisPlan};
use fwdlab_engine::tester::Proof;
use fwdlab_engine::{Histogram, Reading, ReceiveCounts, Schedule, Traffic};
use fwdlab_model::trial::Stream;

use crate::error::LabError;

/// The frames of a trial.
#[derive(Debug, Clone)]
pub enum Frames<'a> {
    /// Test frames of a stream.
    Stream(&'a Stream),
    /// Any others: of a profile, both ways, with broadcasts among them.
    Traffic(&'a Arc<Traffic>),
}

/// What sends and receives: each path of a bed from one of its ports to another.
pub trait Rig: Send {
    /// Names of sender and receiver in results.
    fn names(&self) -> (&'static str, &'static str);

    /// Sends some frames into one path, slowly, and says how many came back.
    fn prove(&mut self, path: usize, stream: &Stream, frames: u64) -> Result<Proof, LabError>;

    /// Prepares the next trial; counts start at zero. With a plan the receivers find out more than counts ([`Rig::analysis`]).
    fn arm(&mut self, frames: Frames<'_>, analysis: Option<AnalysisPlan>) -> Result<(), LabError>;

    /// The mark that all frames of the armed trial carry.
    fn nonce(&self) -> u16;

    /// Starts to send, and returns at once.
    fn start(&mut self, schedule: Schedule) -> Result<(), LabError>;

    /// Sends into another path from now on.
    fn select(&mut self, path: usize) -> Result<(), LabError>;

    /// Goes on from other memory after a pause of the returned length.
    fn renew(&mut self) -> Result<Duration, LabError>;

    /// Has everything been sent, or the time run out?
    fn is_done(&self) -> bool;

    /// The counts since the start, all of one moment.
    fn read(&mut self) -> Result<Reading, LabError>;

    /// Ends sending, waits until no more frames arrive, and returns the final counts.
    fn stop(&mut self) -> Result<Reading, LabError>;

    /// Everything that the receiver of one path has counted.
    fn receive_counts(&mut self, path: usize) -> Result<ReceiveCounts, LabError>;

    /// What the receiver of one path found out; `None` when there was no plan.
    fn analysis(&mut self, path: usize) -> Result<Option<Analysis>, LabError>;

    /// How late the frames of the trial left, where the sender knows.
    fn lateness(&self) -> Result<Option<Histogram>, LabError>;

    /// Now, by the clock of its trials. That of a simulated one may run as it likes, and whoever measures time in a trial or beside it
    /// looks at this one.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Lets time pass on that clock.
    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// How long ago something was.
    fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }
}
