//! Whether a run can be trusted: its state, noise, control and thresholds in a few words, warnings,
//! and the standards it met.
//!
//! It judges nothing itself: verdicts are part of the summary. Start with [`Mark`] and [`signs`].

use fwdlab_model::comparison::Verdict;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{RunState, Summary};
use serde::Serialize;

use crate::number::plural;
use crate::run::Run;
use crate::section::Level;
use crate::shape::{self, Shape, is_in_instructions};
use crate::words::all_warnings;
use crate::{campaign, procedures};

/// What a result is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// There is a result for every iteration, and no doubt about it.
    Good,
    /// Too noisy, a control differs, or iterations failed.
    Doubtful,
    /// There is no result.
    NoResult,
    /// A threshold could not be judged.
    Inconclusive,
    /// A threshold was not kept.
    LimitExceeded,
}

impl Mark {
    /// Returns the mark of a result; the state of its run is not considered.
    pub fn from_summary(summary: &Summary) -> Mark {
        let limits = &summary.thresholds;
        let has_result = !summary.imported.is_empty() || !summary.outcomes().all(Outcome::fails);
        let control = shape::control(summary).map(|control| control.verdict);
        let is_doubtful = !summary.is_quiet()
            || matches!(control, Some(Verdict::Less | Verdict::More))
            || summary
                .test_cases
                .iter()
                .any(|case| case.failures().next().is_some());
        match () {
            () if limits.iter().any(|limit| !limit.failed.is_empty()) => Mark::LimitExceeded,
            () if !has_result => Mark::NoResult,
            () if limits.iter().any(|limit| !limit.passed) => Mark::Inconclusive,
            () if is_doubtful => Mark::Doubtful,
            () => Mark::Good,
        }
    }
}

/// Returns the level of a run: of its result, unless it did not finish.
pub fn level(state: Option<RunState>, summary: Option<&Summary>) -> Level {
    match (state, summary.map(Mark::from_summary)) {
        (None | Some(RunState::Failed), _) | (_, Some(Mark::LimitExceeded)) => Level::Fail,
        (Some(RunState::Running), _) => Level::Plain,
        (Some(RunState::Finished), Some(Mark::Good)) => Level::Ok,
        _ => Level::Warn,
    }
}

/// Returns short remarks for and against a run; true marks the good ones.
pub(crate) fn signs(run: &Run<'_>) -> Vec<(bool, String)> {
    let (info, summary, rebuilds) = (run.info, run.summary, run.rebuilds);
    let mut signs = Vec::new();
    match info.state {
        RunState::Finished => {}
        RunState::Running => signs.push((false, "unfinished".into())),
        RunState::Interrupted => signs.push((false, "interrupted".into())),
        RunState::Failed => signs.push((false, "failed".into())),
    }
    let trials = run.trials.iter().map(|t| &t.validity);
    let by_rebuilds = !rebuilds.is_empty();
    let (validities, what): (Vec<_>, _) = if by_rebuilds {
        (rebuilds.iter().map(|r| &r.validity).collect(), "rebuild")
    } else {
        (trials.collect(), "trial")
    };
    let invalid = validities.iter().filter(|v| !v.is_valid()).count();
    // valid trials are no good sign if nothing follows from them
    let has_result = summary
        .test_cases
        .iter()
        .any(|case| !case.figures.is_empty())
        || summary
            .comparisons()
            .any(|one| one.difference_percent.is_some());
    if !validities.is_empty() && (has_result || invalid > 0) {
        signs.push(match invalid {
            0 => (
                true,
                format!("{}, all valid", plural(validities.len(), what)),
            ),
            _ => (
                false,
                format!("{invalid} of {} invalid", plural(validities.len(), what)),
            ),
        });
    }
    if !summary.thresholds.is_empty() {
        let all = summary.thresholds.len();
        let missed = summary.thresholds.iter().filter(|one| !one.passed).count();
        signs.push(match missed {
            0 => (true, format!("{} kept", plural(all, "threshold"))),
            _ => (
                false,
                format!("{missed} of {} not passed", plural(all, "threshold")),
            ),
        });
    }
    let doubtful = summary
        .test_cases
        .iter()
        .filter(|case| case.doubt.is_some());
    let in_doubt = doubtful.count();
    let noisy = summary.noise.too_noisy;
    signs.push(match (noisy || in_doubt > 0, info.facts.is_simulated()) {
        _ if summary.noise.not_judged || info.state == RunState::Interrupted => {
            (false, "noise not judged".into())
        }
        (true, _) if noisy => (false, "machine too noisy to tell".into()),
        (true, _) => {
            let cases = plural(in_doubt, "test case");
            (false, format!("{cases} too noisy to tell"))
        }
        (false, true) => (true, "simulated, nothing was sent".into()),
        (false, false) if is_in_instructions(&summary.test_cases) => {
            (true, "counted, not timed: no noise".into())
        }
        (false, false) => (true, "machine quiet enough".into()),
    });
    if let Some(control) = shape::control(summary) {
        signs.push(match control.verdict {
            Verdict::NoDifference => (true, "A/A control shows no difference".into()),
            Verdict::Less | Verdict::More => (false, "A/A control differs from itself".into()),
            Verdict::CannotTell => (false, "A/A control cannot tell".into()),
        });
    }
    signs
}

/// Warnings of the run, then those of its outcomes.
pub(crate) fn warnings(summary: &Summary) -> Vec<String> {
    let mut warnings = all_warnings(summary);
    warnings.extend(match Shape::from_summary(summary) {
        Shape::Procedures => procedures::caveats(&procedures::outcomes(summary)),
        Shape::Campaign => campaign::caveats(&summary.test_cases),
        Shape::Windows | Shape::Slices => Vec::new(),
    });
    warnings
}

/// Test cases of a campaign that are too noisy to be relied on, with the reasons.
pub(crate) fn too_noisy(summary: &Summary) -> Vec<String> {
    match Shape::from_summary(summary) {
        Shape::Campaign => campaign::too_noisy(&summary.test_cases),
        _ => Vec::new(),
    }
}

/// The standards of its procedures.
pub(crate) fn methods(summary: &Summary) -> Vec<String> {
    match Shape::from_summary(summary) {
        Shape::Procedures => procedures::methods(&procedures::outcomes(summary)),
        Shape::Campaign => campaign::methods(&summary.test_cases),
        Shape::Windows | Shape::Slices => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{level as level_of, *};

    #[test]
    fn a_level_follows_from_state_and_result() {
        let summary = |limit: serde_json::Value, noisy: bool| -> Summary {
            serde_json::from_value(serde_json::json!({
                "format": 3, "run": "r", "procedure": "p", "warnings": [], "thresholds": limit,
                "noise": { "calibration": "", "verdict": "", "too_noisy": noisy },
                "test_cases": [{
                    "test_case": "x", "configuration": "plain", "ip_version": "ipv4", "frame_size_bytes": 64,
                    "flows": 1, "figures": [], "iterations": [], "outcomes": [{
                        "procedure": "trial", "frame_size_bytes": 64, "verdict": "", "answered": true,
                        "compliance": { "standard": "" }, "trials": 1, "found": {
                            "intended_load_pps": 1e6, "offered_load_pps": 1e6, "forwarding_rate_pps": 9e5,
                            "frame_loss_ratio": 0.1, "duration_s": 1.0,
                        },
                    }],
                }],
            }))
            .unwrap()
        };
        let exceeded = serde_json::json!([{ "limit": "x", "passed": false, "failed": ["y"], "not_judged": [], "inconclusive": [], "kept": 0 }]);
        let (finished, none) = (Some(RunState::Finished), serde_json::json!([]));
        let level = |state, limit: &serde_json::Value, noisy| {
            level_of(state, Some(&summary(limit.clone(), noisy)))
        };
        assert_eq!(level(finished, &none, false), Level::Ok);
        assert_eq!(level(finished, &none, true), Level::Warn);
        assert_eq!(level(finished, &exceeded, false), Level::Fail);
        assert_eq!(
            level(Some(RunState::Interrupted), &none, false),
            Level::Warn
        );
        assert_eq!(level(Some(RunState::Failed), &none, false), Level::Fail);
        assert_eq!(level_of(None, None), Level::Fail);
    }
}
