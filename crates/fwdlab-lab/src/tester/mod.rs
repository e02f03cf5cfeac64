//! Sends the frames of trials and counts what comes back, on any host.
//!
//! A [`Rig`] runs one trial at a time and does not know beds, DUTs or procedures. [`local`] is one
//! in this process, [`remote`] one behind an agent on another host, and the sender and receiver of
//! `distributed` are on different hosts; code outside this folder cannot tell them apart. Start
//! with [`Rig`].

pub mod bursts;
pub(crate) mod distributed;
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
    /// Any others: of a profile, in both directions, with broadcasts among them.
    Traffic(&'a Arc<Traffic>),
}

/// Sends and receives frames: each path of a bed leads from one of its ports to another.
pub trait Rig: Send {
    /// Returns the names of sender and receiver in results.
    fn names(&self) -> (&'static str, &'static str);

    /// Sends some frames into one path, slowly, and returns how many came back.
    fn prove(&mut self, path: usize, stream: &Stream, frames: u64) -> Result<Proof, LabError>;

    /// Prepares the next trial; counts start at zero. With a plan the receivers also analyse frames
    /// ([`Rig::analysis`]).
    fn arm(&mut self, frames: Frames<'_>, analysis: Option<AnalysisPlan>) -> Result<(), LabError>;

    /// Returns the mark that all frames of the armed trial carry.
    fn nonce(&self) -> u16;

    /// Starts to send, and returns at once.
    fn start(&mut self, schedule: Schedule) -> Result<(), LabError>;

    /// Sends into another path from now on.
    fn select(&mut self, path: usize) -> Result<(), LabError>;

    /// Continues with other memory after a pause of the returned length.
    fn renew(&mut self) -> Result<Duration, LabError>;

    /// Returns true if everything has been sent, or the time has run out.
    fn is_done(&self) -> bool;

    /// Returns the counts since the start, all from one moment.
    fn read(&mut self) -> Result<Reading, LabError>;

    /// Stops sending, waits until no more frames arrive, and returns the final counts.
    fn stop(&mut self) -> Result<Reading, LabError>;

    /// Returns everything that the receiver of one path has counted.
    fn receive_counts(&mut self, path: usize) -> Result<ReceiveCounts, LabError>;

    /// Returns the analysis of the receiver of one path; `None` without a plan.
    fn analysis(&mut self, path: usize) -> Result<Option<Analysis>, LabError>;

    /// Returns how late the frames of the trial left, if the sender knows.
    fn lateness(&self) -> Result<Option<Histogram>, LabError>;

    /// Returns the current time by the clock of its trials. A simulated clock may run at any speed,
    /// so every measurement of time in or around a trial must use this one.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Waits by that clock.
    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Returns the time since `then`.
    fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }
}
