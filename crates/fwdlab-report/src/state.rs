//! Why a cell has no figure, or one with a warning: failed, did not boot, not applicable, not measured, livelock, overloaded.
//!
//! Every format uses these words, so that an empty cell never means two things. Start with [`State::of`].

use fwdlab_model::outcome::{FORWARDS_NOTHING, Found, Outcome, Unit};
use fwdlab_model::test_case::{NoResult, TestCase};

/// A DUT that forwards less than this share of its best rate when it is offered more is in livelock (RFC 2544 §26.3 and MLRsearch call it
/// so; the value is that of ramps).
pub(crate) const LIVELOCK: f64 = 0.9;

/// How it stands with the figure of a test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// There is one, and nothing is to be said beside it.
    Measured,
    /// There is one, and the DUT forwards less when it is offered more.
    Livelock,
    /// Nothing came back of a load that was offered.
    ForwardsNothing,
    /// There is one of a load that the DUT does not carry: frames were lost.
    Overloaded,
    /// All iterations failed.
    Failed,
    /// They failed because the DUT did not come up.
    DidNotBoot,
    /// They failed because the DUT is of a kind that cannot be asked for that.
    NotApplicable,
    /// Nothing was tried.
    NotMeasured,
}

impl State {
    /// That of a test case.
    pub fn of(case: &TestCase) -> State {
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

    /// The word for it; none where nothing is to be said.
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

    /// A figure with what is to be said beside it: rates have that, times and costs do not.
    pub fn beside(self, unit: Unit, figure: &str) -> String {
        match self.words() {
            Some(words) if unit == Unit::FramesPerSecond => format!("{figure}, {words}"),
            _ => figure.to_owned(),
        }
    }

    /// What stands in place of a figure.
    pub fn instead(self) -> &'static str {
        self.words().unwrap_or("no result")
    }
}

fn is_livelock(outcome: &Outcome) -> bool {
    let ratio = match &outcome.found {
        Found::Ramp(ramp) => ramp.collapse_ratio,
        Found::FrameLoss(found) => found.collapse_ratio,
        _ => None,
    };
    ratio.is_some_and(|ratio| ratio < LIVELOCK)
}

/// One load was asked for, and it was too much.
fn is_overloaded(outcome: &Outcome) -> bool {
    match &outcome.found {
        Found::Trial(trial) => trial.frame_loss_ratio > 0.0,
        Found::Latency(latency) => latency
            .points
            .iter()
            .any(|p| p.lossy as usize == p.repetitions.len() && p.lossy > 0),
        _ => false,
    }
}
