//! Why a cell has no figure, or one with a warning: failed, did not boot, not applicable, not
//! measured, livelock, overloaded.
//!
//! Every format uses these words, so that an empty cell never means two things. Start with
//! [`State::from_case`].

use fwdlab_model::outcome::{
    FORWARDS_NOTHING, FrameLoss, Latency, Outcome, Ramp, SingleTrial, Unit,
};
use fwdlab_model::test_case::{NoResult, TestCase};

/// A DUT is in livelock if, under a higher load, it forwards less than this share of its best rate.
/// RFC 2544 §26.3 and MLRsearch define the term; the value is that of ramps.
pub(crate) const LIVELOCK: f64 = 0.9;

/// The state of a test case's figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The figure exists and needs no remark.
    Measured,
    /// The figure exists, but the DUT forwards less under a higher load.
    Livelock,
    /// There is no figure: a load was offered and no frame came back.
    ForwardsNothing,
    /// The figure exists, but at a requested load the DUT lost frames.
    Overloaded,
    /// There is no figure: iterations failed.
    Failed,
    /// All failed iterations failed because the DUT did not boot.
    DidNotBoot,
    /// All failed iterations failed because this kind of DUT does not support the measurement.
    NotApplicable,
    /// Nothing was measured.
    NotMeasured,
}

impl State {
    /// Returns the state of a test case.
    pub fn from_case(case: &TestCase) -> State {
        let found = || {
            case.outcomes
                .iter()
                .chain(case.iterations.iter().flat_map(|i| &i.outcomes))
        };
        let has_figures = case.figures.iter().any(|figure| !figure.values.is_empty());
        match () {
            () if case.iterations.is_empty() && case.outcomes.is_empty() => State::NotMeasured,
            () if !has_figures && found().any(|one| one.found.forwards_nothing()) => {
                State::ForwardsNothing
            }
            () if !has_figures && case.failures().next().is_some() => {
                let all = |kind| {
                    let mut failed = case.iterations.iter().filter(|i| i.failure.is_some());
                    failed.all(|iteration| iteration.no_result == kind)
                };
                match () {
                    () if all(NoResult::DidNotBoot) => State::DidNotBoot,
                    () if all(NoResult::NotApplicable) => State::NotApplicable,
                    () => State::Failed,
                }
            }
            () if found().any(is_livelock) => State::Livelock,
            () if found().any(is_overloaded) => State::Overloaded,
            () => State::Measured,
        }
    }

    /// Returns the word for the state; `None` if no remark is needed.
    pub fn words(self) -> Option<&'static str> {
        match self {
            State::Measured => None,
            State::Livelock => Some("livelock"),
            State::Overloaded => Some("overloaded"),
            State::ForwardsNothing => Some(FORWARDS_NOTHING),
            State::Failed => Some("failed"),
            State::DidNotBoot => Some("did not boot"),
            State::NotApplicable => Some("not applicable"),
            State::NotMeasured => Some("not measured"),
        }
    }

    /// Adds the remark to a figure. Only rates get one, times and costs do not.
    pub fn beside(self, unit: Unit, figure: &str) -> String {
        match self.words() {
            Some(words) if unit == Unit::FramesPerSecond => format!("{figure}, {words}"),
            _ => figure.to_owned(),
        }
    }

    /// Returns why a test case has no figure: its state, and the reason of its first failure.
    pub fn reason(case: &TestCase) -> String {
        let state = State::from_case(case).instead();
        let failure = case.failures().next();
        failure.map_or(state.to_owned(), |(_, why)| format!("{state}: {why}"))
    }

    /// Returns the text that replaces a missing figure.
    pub fn instead(self) -> &'static str {
        self.words().unwrap_or("no result")
    }
}

fn is_livelock(outcome: &Outcome) -> bool {
    let ramp = outcome
        .found
        .get()
        .and_then(|one: &Ramp| one.collapse_ratio);
    let loss = outcome
        .found
        .get()
        .and_then(|one: &FrameLoss| one.collapse_ratio);
    ramp.or(loss).is_some_and(|ratio| ratio < LIVELOCK)
}

/// Returns true if the DUT lost frames at a requested load: in a single trial, or in all
/// repetitions at one of the loads of a latency test.
fn is_overloaded(outcome: &Outcome) -> bool {
    let found = &outcome.found;
    let points = found.get::<Latency>().map_or(&[][..], |one| &one.points);
    let mut lossy = points.iter().filter(|point| point.lossy > 0);
    found
        .get()
        .is_some_and(|trial: &SingleTrial| trial.frame_loss_ratio > 0.0)
        || lossy.any(|point| point.lossy as usize == point.repetitions.len())
}
