//! A stored run, as the formats receive it.
//!
//! It does not know where the run is stored. Start with [`Run`].

use fwdlab_model::event::RebuildRecord;
use fwdlab_model::result::{RunInfo, Summary, TrialRecord};
use fwdlab_model::stacks::{Profile, Stacks};

/// A run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Its name in a report of several runs.
    pub name: &'a str,
    /// What is known since its start: parameters, host, state.
    pub info: &'a RunInfo,
    /// Its result.
    pub summary: &'a Summary,
    /// Its trials.
    pub trials: &'a [TrialRecord],
    /// Its rebuilds.
    pub rebuilds: &'a [RebuildRecord],
    /// Profiles of the DUT, if they were recorded.
    pub profiles: &'a [CaseProfile],
}

impl<'a> Run<'a> {
    /// A run named by its id, without trials, rebuilds and profiles.
    pub fn new(info: &'a RunInfo, summary: &'a Summary) -> Run<'a> {
        Run {
            name: &info.id,
            info,
            summary,
            trials: &[],
            rebuilds: &[],
            profiles: &[],
        }
    }
}

/// The profile of a test case, by call path.
#[derive(Debug, Clone)]
pub struct CaseProfile {
    /// Its name.
    pub test_case: String,
    /// What was counted.
    pub counted: Counted,
}

/// What was counted by call path.
#[derive(Debug, Clone)]
pub enum Counted {
    /// Instructions per frame through the DUT, generator and receiver included.
    Instructions(Profile),
    /// Samples of the DUT's CPUs while frames flowed.
    Samples(Stacks),
}

impl CaseProfile {
    /// The instructions per frame, if they were counted.
    pub(crate) fn instructions(&self) -> Option<&Profile> {
        match &self.counted {
            Counted::Instructions(through) => Some(through),
            Counted::Samples(_) => None,
        }
    }
}
