//! The rig in this process: the engine's tester.
//!
//! Only this file of the lab uses it directly. Start with [`open`].

use std::collections::BTreeMap;
use std::time::Duration;

use fwdlab_engine::analysis::{Analysis, AnalysisPlan};
use fwdlab_engine::tester::Proof;
use fwdlab_engine::{
    Addresses, Choice, EngineError, Histogram, PathSpec, Reading, ReceiveCounts, Rejected,
    Schedule, Tester,
};
use fwdlab_model::trial::Stream;

use super::{Frames, Rig};
use crate::error::LabError;

/// The chosen engine, and why faster ones were not chosen.
#[derive(Debug)]
pub struct Chosen {
    /// A description of the engine, and why it was chosen.
    pub words: String,
    /// The others by name, and why they were not chosen.
    pub rejected: BTreeMap<String, String>,
}

/// Opens the fastest engine that works on these paths, or the requested one.
///
/// # Errors
/// None works, or the requested one does not.
pub(crate) fn open(
    paths: &[PathSpec],
    addresses: &Addresses,
    choice: &Choice,
) -> Result<(Box<dyn Rig>, Chosen), EngineError> {
    let (tester, rejected) = Tester::open(paths, addresses, choice)?;
    let chosen = words(&tester, rejected, choice);
    Ok((Box::new(tester), chosen))
}

/// Describes the engine that a tester has chosen.
pub(super) fn words(tester: &Tester, rejected: Vec<Rejected>, choice: &Choice) -> Chosen {
    let mut words = format!(
        "{} ({})",
        tester.capabilities().reached(),
        tester.capabilities().summary
    );
    match choice.mode {
        Some(_) => words.push_str(", as requested"),
        None if choice.first == Some(tester.mode()) => {
            words.push_str(", which reaches the load according to the self-test")
        }
        None if rejected.is_empty() => {
            words.push_str(", the fastest engine that passed the path check")
        }
        None => {
            let names: Vec<&str> = rejected.iter().map(|r| r.engine).collect();
            words.push_str(&format!("; not possible here: {}", names.join(", ")));
        }
    }
    Chosen {
        words,
        rejected: rejected
            .iter()
            .map(|r| (r.engine.to_owned(), r.reason.to_string()))
            .collect(),
    }
}

impl Rig for Tester {
    fn names(&self) -> (&'static str, &'static str) {
        (self.mode().name(), self.receiver_name())
    }

    fn prove(&mut self, path: usize, stream: &Stream, frames: u64) -> Result<Proof, LabError> {
        Ok(Tester::prove(self, path, stream, frames)?)
    }

    fn arm(&mut self, frames: Frames<'_>, analysis: Option<AnalysisPlan>) -> Result<(), LabError> {
        match frames {
            Frames::Stream(stream) => self.arm_with(stream, analysis)?,
            Frames::Traffic(traffic) => self.arm_traffic(traffic, analysis)?,
        }
        Ok(())
    }

    fn nonce(&self) -> u16 {
        Tester::nonce(self)
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), LabError> {
        Ok(Tester::start(self, schedule)?)
    }

    fn select(&mut self, path: usize) -> Result<(), LabError> {
        Ok(Tester::select(self, path)?)
    }

    fn renew(&mut self) -> Result<Duration, LabError> {
        Ok(Tester::renew(self)?)
    }

    fn is_done(&self) -> bool {
        Tester::is_done(self)
    }

    fn read(&mut self) -> Result<Reading, LabError> {
        Ok(Tester::read(self)?)
    }

    fn stop(&mut self) -> Result<Reading, LabError> {
        Ok(Tester::stop(self)?)
    }

    fn receive_counts(&mut self, path: usize) -> Result<ReceiveCounts, LabError> {
        Ok(Tester::receive_counts(self, path)?)
    }

    fn analysis(&mut self, path: usize) -> Result<Option<Analysis>, LabError> {
        Ok(Tester::analysis(self, path)?)
    }

    fn lateness(&self) -> Result<Option<Histogram>, LabError> {
        Ok(Tester::lateness(self)?)
    }
}
