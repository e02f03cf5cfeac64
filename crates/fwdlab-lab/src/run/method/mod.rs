//! The methods of counting: each file measures one turn of a run on one test bed, and does not know
//! the others.
//!
//! [`whole_trials`]: trials that count as a whole, for every procedure that is a search or a list
//! of loads. [`windows`]: the quiet windows of long trials. [`slices`]: DUTs that take turns within
//! a trial, in a [`row`]. [`bursts`]: instructions in guests. [`super::conduct`] decides the order
//! of the turns. Start with [`of`], the only place that distinguishes them.

use std::time::Duration;

use fwdlab_model::campaign::{Case, Procedure};
use fwdlab_model::result::Noise;
use fwdlab_model::test_case::TestCase;

use self::whole_trials::WholeTrials;
use super::Measured;
use super::campaign::Running;
use super::conduct::Method;
use super::plan::{Agenda, Plan};
use crate::error::LabError;

pub(super) mod bursts;
mod row;
pub(super) mod slices;
mod whole_trials;
mod windows;

/// A method of counting: what it can measure, in which turns, and how far its results can be
/// trusted. A [`Method`] measures the turns.
pub(super) trait CountingMethod {
    /// Rejects what it cannot measure, before any traffic.
    ///
    /// # Errors
    /// Fails with the first mistake, and its position in the file.
    fn check(&self, plan: &Plan) -> Result<(), LabError>;

    /// Groups test cases: those of a group are measured in one turn.
    fn groups(&self, cases: &[Case]) -> Vec<Vec<usize>> {
        (0..cases.len()).map(|case| vec![case]).collect()
    }

    /// Returns the test case that is measured once more, in turns of its own, as A/A control.
    fn controlled(&self, _: &[Case]) -> Option<usize> {
        None
    }

    /// Returns the number of trials in a turn that measures these test cases, and its duration.
    ///
    /// # Errors
    /// Fails if the procedure makes no sense with the likely loads.
    fn estimate(&self, plan: &Plan, cases: &[usize]) -> Result<(u32, Duration), LabError>;

    /// Prepares for the turns of a run.
    fn method<'a>(&'a self, plan: &'a Plan, agenda: &'a Agenda) -> Box<dyn Method + 'a>;

    /// Compares the test cases of a run with each other, and judges how far they can be trusted.
    fn judge(&self, running: &Running<'_>, cases: &mut [TestCase], measured: &Measured) -> Noise;
}

/// Returns the method of counting of a procedure.
pub(super) fn of(procedure: &Procedure) -> &dyn CountingMethod {
    match procedure {
        Procedure::Maxfwd(p) => p,
        Procedure::Paired(p) => p,
        Procedure::Exact(p) => p,
        _ => &WholeTrials,
    }
}
