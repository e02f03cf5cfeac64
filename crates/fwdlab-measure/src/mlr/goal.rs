//! The goals of a search, their presets, and the chain of targets from coarse to fine that leads to
//! a goal.

use std::time::Duration;

/// Names of predefined goals.
pub const PRESETS: [&str; 5] = ["ndr", "pdr", "rfc2544", "tst009", "strict"];

/// A condition that a load meets or does not (draft-ietf-bmwg-mlrsearch, "Search Goal").
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Maximum loss ratio of a good trial.
    pub loss_ratio: f64,
    /// Maximum share of bad trial time at a load that passes.
    pub exceed_ratio: f64,
    /// Duration of the trials of the coarsest target.
    pub initial_trial: Duration,
    /// Duration from which on a trial counts as full-length.
    pub final_trial: Duration,
    /// Trial time that decides a load.
    pub duration_sum: Duration,
    /// Relative width of a sufficiently narrow interval.
    pub width: f64,
    /// Number of coarser targets before the last.
    pub preceding_targets: u32,
    /// Factor by which steps grow while one bound is missing.
    pub expansion: u32,
    /// The whole search fails if the smallest load does not meet this goal.
    pub fail_fast: bool,
}

impl Default for Goal {
    /// The no-drop rate as in FD.io CSIT.
    fn default() -> Self {
        Goal {
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            initial_trial: Duration::from_secs(1),
            final_trial: Duration::from_secs(1),
            duration_sum: Duration::from_secs(21),
            width: 0.005,
            preceding_targets: 2,
            expansion: 2,
            fail_fast: true,
        }
    }
}

impl Goal {
    /// Returns a preset by name: [`PRESETS`].
    pub fn preset(name: &str) -> Option<Goal> {
        let minute = Duration::from_secs(60);
        match name {
            "ndr" => Some(Goal::default()),
            "pdr" => Some(Goal {
                loss_ratio: 0.005,
                ..Goal::default()
            }),
            "rfc2544" => Some(Goal {
                exceed_ratio: 0.0,
                final_trial: minute,
                duration_sum: minute,
                ..Goal::default()
            }),
            "tst009" => Some(Goal {
                initial_trial: minute,
                final_trial: minute,
                duration_sum: 2 * minute,
                ..Goal::default()
            }),
            "strict" => Some(Goal {
                exceed_ratio: 0.005,
                ..Goal::default()
            }),
            _ => None,
        }
    }

    /// Checks a goal.
    ///
    /// # Errors
    /// A ratio outside its range, or durations that contradict each other.
    pub fn check(&self) -> Result<(), String> {
        let ratio = |what: &str, value: f64| {
            if (0.0..1.0).contains(&value) {
                Ok(())
            } else {
                Err(format!(
                    "the {what} must be at least 0 and below 1, not {value}"
                ))
            }
        };
        ratio("loss ratio", self.loss_ratio)?;
        ratio("exceed ratio", self.exceed_ratio)?;
        ratio("width", self.width)?;
        if self.width <= 0.0 {
            return Err("a width of 0 is never reached".into());
        }
        if self.expansion < 2 {
            return Err(format!(
                "the expansion must be at least 2, not {}",
                self.expansion
            ));
        }
        if self.preceding_targets > 30 {
            return Err(format!(
                "{} preceding targets; the maximum is 30",
                self.preceding_targets
            ));
        }
        if self.initial_trial.is_zero() {
            return Err("a trial of 0 s has no frames".into());
        }
        if self.final_trial < self.initial_trial {
            return Err(format!(
                "the final trial ({:?}) is shorter than the initial one ({:?})",
                self.final_trial, self.initial_trial
            ));
        }
        if self.duration_sum < self.final_trial {
            return Err(format!(
                "the duration sum ({:?}) is shorter than one final trial ({:?})",
                self.duration_sum, self.final_trial
            ));
        }
        Ok(())
    }
}

/// One step on the way to a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// That of the goal.
    pub loss_ratio: f64,
    /// That of the goal.
    pub exceed_ratio: f64,
    /// Duration of its trials; longer ones also count as full-length.
    pub trial_ns: u64,
    /// Trial time that decides a load.
    pub sum_ns: u64,
    /// Width of a sufficiently narrow interval, in steps of the grid.
    pub width: u32,
    /// The whole search fails if the smallest load does not meet it.
    pub fail_fast: bool,
}

/// Returns the chain of targets of a goal, coarsest first; `width` is the goal's width in steps of
/// the grid.
pub(super) fn targets(goal: &Goal, width: u32) -> Vec<Target> {
    let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
    let sum = goal.duration_sum.as_secs_f64();
    let ratio = goal.initial_trial.as_secs_f64() / sum;
    let last = Target {
        loss_ratio: goal.loss_ratio,
        exceed_ratio: goal.exceed_ratio,
        trial_ns: goal.final_trial.as_nanos() as u64,
        sum_ns: goal.duration_sum.as_nanos() as u64,
        width,
        fail_fast: goal.fail_fast,
    };
    let steps = goal.preceding_targets;
    (0..=steps)
        .rev()
        .map(|k| {
            if k == 0 {
                return last.clone();
            }
            let sum_ns = if k == steps {
                goal.initial_trial.as_nanos() as u64
            } else {
                nanoseconds(sum * ratio.powf(f64::from(k) / f64::from(steps)))
            };
            Target {
                trial_ns: last.trial_ns.min(sum_ns),
                sum_ns,
                width: width.saturating_mul(1 << k),
                fail_fast: false,
                ..last.clone()
            }
        })
        .collect()
}
