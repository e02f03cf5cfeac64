//! What is kept of a search for loads: the loads of its trials, and the result of each goal.
//!
//! `fwdlab_measure::mlr` chooses the trials; this file only holds what is kept. Loads appear twice,
//! as an index on the search's grid (an integer, for programs that compare) and in frames per
//! second (for people).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::{Figure, Unit};
use crate::variant::Variant;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchOutcome {
    /// Differences from a plain series.
    #[serde(default, skip_serializing_if = "Variant::is_plain")]
    pub variant: Variant,
    /// Smallest load; it has index 0.
    pub min_load_pps: f64,
    /// Largest load.
    pub max_load_pps: f64,
    /// Where the largest load comes from, in words.
    pub max_load_source: String,
    /// Index of the largest load.
    pub max_load_index: u32,
    /// Number of valid trials, including the warm-up.
    pub trials: u32,
    /// Seconds of traffic in all trials; on a simulated DUT in simulated time.
    pub traffic_s: f64,
    /// One entry per goal, in the given order.
    pub goals: Vec<GoalResult>,
    /// The trials that the search used, in order.
    #[serde(default, alias = "course", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<SearchStep>,
    /// Why the search ended without a result for every goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Differences from an RFC 2544 throughput test; empty when there are none.
    pub shortened: Vec<String>,
}

/// A load that meets a goal is doubtful if it is a smaller share than this of the rate that came
/// out of a higher load.
const FAR_BELOW: f64 = 0.7;

impl SearchOutcome {
    /// Returns the load of every goal that was found.
    pub fn figures(&self) -> Vec<Figure> {
        let goals = self.goals.iter().zip(1..);
        goals
            .filter_map(|(goal, number)| {
                // a definition is too long for a name
                let name = match goal.name.contains('=') {
                    true => format!("goal {number}"),
                    false => goal.name.clone(),
                };
                goal.relevant_lower_bound_pps.map(|value| Figure {
                    name,
                    unit: Unit::FramesPerSecond,
                    better: Unit::FramesPerSecond.better(),
                    value,
                })
            })
            .collect()
    }

    /// Returns the maximum that the DUT forwarded in this search, if that is far more than the load
    /// that met the goal: it may lose a little long before it is overloaded, or the trials in
    /// between were disturbed.
    pub fn maximum_far_above(&self, goal: &GoalResult) -> Option<f64> {
        let forwarded = |step: &SearchStep| step.load_pps * (1.0 - step.loss_ratio);
        let best = self.steps.iter().map(forwarded).fold(0.0, f64::max);
        let met = goal.relevant_lower_bound_pps?;
        (met < FAR_BELOW * best).then_some(best)
    }
}

/// One trial of a search, and the bounds known after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchStep {
    /// Index of its load on the search's grid: 0 is the smallest load. Absent in older runs, which
    /// did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_index: Option<u32>,
    /// Its load.
    pub load_pps: f64,
    /// Intended duration.
    pub duration_ns: u64,
    /// Lost frames over intended frames, as given to the search.
    pub loss_ratio: f64,
    /// Largest load known to meet each goal, in the order of the goals.
    pub lower_bounds_pps: Vec<Option<f64>>,
    /// Smallest load known not to meet each goal.
    pub upper_bounds_pps: Vec<Option<f64>>,
}

/// The result for one goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalResult {
    /// `ndr`, `pdr` or another preset's name, or the goal as text.
    pub name: String,
    /// The goal.
    pub goal: GoalDefinition,
    /// Largest load known to meet the goal, and below every load known not to meet it: its index on
    /// the grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relevant_lower_bound_index: Option<u32>,
    /// That load in frames per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relevant_lower_bound_pps: Option<f64>,
    /// Smallest load known not to meet the goal: its index on the grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relevant_upper_bound_index: Option<u32>,
    /// That load in frames per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relevant_upper_bound_pps: Option<f64>,
    /// Typical forwarding rate at the relevant lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditional_throughput_pps: Option<f64>,
    /// Distance between the bounds, relative to the upper one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width_achieved: Option<f64>,
    /// Both bounds are known, and their distance is within the goal's width.
    pub regular: bool,
    /// The tester limits the result, or is so close to it that the DUT may forward more.
    pub tester_bound: bool,
    /// The result in words.
    pub verdict: String,
}

/// Returns the label of a goal without a name: no-drop rate, or partial-drop rate with its loss,
/// `NDR` and `PDR 0.5 %`.
pub fn name_of(loss_ratio: f64) -> String {
    match loss_ratio {
        0.0 => "NDR".into(),
        // as many digits as were typed, without the noise of the binary fraction
        ratio => format!("PDR {} %", (ratio * 1e10).round() / 1e8),
    }
}

/// A goal with all defaults resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalDefinition {
    /// A trial is good if its loss ratio does not exceed this.
    pub loss_ratio: f64,
    /// A load passes if the share of bad trial time does not exceed this.
    pub exceed_ratio: f64,
    /// Duration of the shortest trials, in nanoseconds.
    pub initial_trial_ns: u64,
    /// Minimum duration of a full trial, in nanoseconds.
    pub final_trial_ns: u64,
    /// Total trial time that decides a load, in nanoseconds.
    pub duration_sum_ns: u64,
    /// Relative width of the interval at which the search ends.
    pub width: f64,
    /// Number of coarser targets before the final one.
    pub preceding_targets: u32,
    /// Factor by which steps grow while one bound is missing.
    pub expansion: u32,
    /// The whole search fails if the smallest load does not meet the goal.
    pub fail_fast: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A real case: the search met its goal at 361.3 kpps, and 650 kpps came out of higher loads.
    #[test]
    fn a_goal_far_below_the_forwarded_rate_is_noticed() {
        let step = |load_pps: f64, loss_ratio: f64| SearchStep {
            load_index: None,
            load_pps,
            duration_ns: 1_000_000_000,
            loss_ratio,
            lower_bounds_pps: vec![None],
            upper_bounds_pps: vec![None],
        };
        let goal = |met: Option<f64>| -> GoalResult {
            serde_json::from_value(serde_json::json!({
                "name": "ndr", "relevant_lower_bound_pps": met, "regular": true, "tester_bound": false, "verdict": "",
                "goal": {
                    "loss_ratio": 0.0, "exceed_ratio": 0.5, "initial_trial_ns": 1, "final_trial_ns": 1, "duration_sum_ns": 1, "width": 0.005,
                    "preceding_targets": 2, "expansion": 2, "fail_fast": false
                }
            }))
            .unwrap()
        };
        let search = SearchOutcome {
            variant: Variant::default(),
            min_load_pps: 9e3,
            max_load_pps: 1e6,
            max_load_source: String::new(),
            max_load_index: 1,
            trials: 2,
            traffic_s: 2.0,
            goals: Vec::new(),
            steps: vec![step(1e6, 0.35), step(361.3e3, 0.0)],
            failure: None,
            shortened: Vec::new(),
        };
        assert_eq!(search.maximum_far_above(&goal(Some(361.3e3))), Some(650e3));
        assert_eq!(search.maximum_far_above(&goal(Some(500e3))), None);
        assert_eq!(search.maximum_far_above(&goal(None)), None);
    }
}
