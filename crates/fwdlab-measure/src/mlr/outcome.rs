//! Records and descriptions of a search: each trial's reason and meaning, each goal's result, and
//! the deviations from an RFC 2544 throughput test.
//!
//! Texts without figures, which are shown next to them. Start with [`goals`] and [`reason`].

use fwdlab_model::link::Line;
use fwdlab_model::search::{GoalDefinition, GoalResult, SearchStep};

use super::bounds::{Class, classify};
use super::goal::Goal;
use super::typed::Named;
use super::{Failure, Planned, Reason, Search};
use crate::compliance::no_medium;
use crate::procedure::{TESTER_BOUND, is_tester_bound};

/// The start of a sender is not exact to the microsecond: it may send for this much longer.
pub(super) const START_SKEW_S: f64 = 10e-6;

const MINUTE_NS: u128 = 60_000_000_000;

/// Checks that a goal's width is at least a frame in its trials at the smallest load.
///
/// # Errors
/// The goal, and a valid width.
pub fn check_width(goals: &[Named], min_load_pps: f64) -> Result<(), String> {
    for named in goals {
        let seconds = named.goal.final_trial.as_secs_f64();
        let frames = min_load_pps * named.goal.width * seconds;
        if frames < 1.0 {
            return Err(format!(
                "goal {}: a width of {} at the smallest load of {min_load_pps} frames per second is {frames:.2} frames in a trial of \
                 {seconds} s; a resolution below one frame is meaningless: raise --min or the width, or use longer trials",
                named.name, named.goal.width
            ));
        }
    }
    Ok(())
}

/// Returns the reason for a trial.
pub fn reason(planned: &Planned, goals: &[Named]) -> String {
    match planned.reason {
        Reason::WarmUp => "warms the DUT up; its result is not used".into(),
        Reason::Maximum => "first look: the output at the largest load".into(),
        Reason::Estimate => "a guess from the forwarding rate seen before".into(),
        Reason::Goal { goal, strategy } => format!("{}: {strategy}", goals[goal].label),
    }
}

/// Describes what the trial just recorded means for each goal, and what is now known about its
/// load.
pub fn describe_trial(
    search: &Search,
    planned: &Planned,
    goals: &[Named],
    loss_ratio: f64,
) -> Vec<String> {
    if planned.warm_up {
        return Vec::new();
    }
    let made = search
        .trials()
        .iter()
        .find(|(load, _)| *load == planned.load_index)
        .map_or(&[][..], |(_, made)| made);
    goals
        .iter()
        .zip(&search.finals)
        .map(|(named, target)| {
            let quality = if loss_ratio <= named.goal.loss_ratio {
                "good"
            } else {
                "bad"
            };
            let known = match classify(made, target) {
                Class::Lower => "this load meets it",
                Class::Upper => "this load fails it",
                Class::Undecided => "this load is open",
            };
            format!("{}: {quality}, {known}", named.label)
        })
        .collect()
}

/// Returns the result of every goal. `unreached_pps` is the smallest load that the generator did
/// not reach.
pub fn goals(search: &Search, goals: &[Named], unreached_pps: Option<f64>) -> Vec<GoalResult> {
    let grid = search.grid();
    goals
        .iter()
        .zip(search.outcome())
        .map(|(named, outcome)| {
            let (lower, upper) = (outcome.relevant_lower_bound, outcome.relevant_upper_bound);
            let pps = |index: Option<u32>| index.map(|index| grid.load(index));
            // the load above was not offered, instead of lost
            let is_unreached = |pps: f64| unreached_pps.is_some_and(|unreached| pps >= unreached);
            let max = grid.load(grid.last());
            let tester_bound = pps(lower).is_some_and(|found| {
                pps(upper).is_none_or(is_unreached) || is_tester_bound(found, max)
            });
            let mut verdict = match (lower, upper) {
                (None, None) => "no load is decided".to_owned(),
                (None, Some(_)) if pps(upper).is_some_and(is_unreached) => {
                    "cannot tell: the generator did not reach the loads that could meet it".into()
                }
                (None, Some(0)) => "not even the smallest load meets it".into(),
                (None, Some(_)) => "no load is known to meet it".into(),
                (Some(_), None) if lower == Some(grid.last()) => {
                    "the largest load meets it: the DUT may forward more".into()
                }
                (Some(_), None) => "no load is known to fail it".into(),
                (Some(_), Some(_)) if outcome.is_regular => "found".into(),
                (Some(_), Some(_)) => "between its bounds, which are wider than requested".into(),
            };
            if tester_bound && upper.is_some() {
                verdict.push_str("; ");
                verdict.push_str(TESTER_BOUND);
            }
            GoalResult {
                name: named.name.clone(),
                goal: definition(&named.goal),
                relevant_lower_bound_index: lower,
                relevant_lower_bound_pps: pps(lower),
                relevant_upper_bound_index: upper,
                relevant_upper_bound_pps: pps(upper),
                conditional_throughput_pps: outcome.conditional_throughput_pps,
                width_achieved: pps(lower)
                    .zip(pps(upper))
                    .map(|(lower, upper)| 1.0 - lower / upper),
                regular: outcome.is_regular,
                tester_bound,
                verdict,
            }
        })
        .collect()
}

/// Returns the trials in order, with the bounds after each.
pub fn steps(search: &Search) -> Vec<SearchStep> {
    let pps = |index: u32| search.grid().load(index);
    let steps = search.steps().iter();
    steps
        .map(|step| SearchStep {
            load_index: Some(step.load),
            load_pps: pps(step.load),
            duration_ns: step.duration_ns,
            loss_ratio: step.loss_ratio,
            lower_bounds_pps: step.bounds.iter().map(|b| b.lower.map(pps)).collect(),
            upper_bounds_pps: step.bounds.iter().map(|b| b.upper.map(pps)).collect(),
        })
        .collect()
}

/// Returns why a search has no result for every goal.
pub fn failure(search: &Search, goals: &[Named]) -> Option<String> {
    search.failure().map(|failure| match failure {
        Failure::MinimumLoad { goal } => format!(
            "the smallest load fails {}: check for a fault, or search from a smaller load",
            goals[*goal].label
        ),
        Failure::TimeLimit => {
            "the time limit was reached; the bounds known so far are given".to_owned()
        }
    })
}

/// Returns goals for which trials below the result lost more than the goal allows (loss inversion),
/// with their number and the total.
pub fn inversions(search: &Search, goals: &[Named]) -> Vec<String> {
    goals
        .iter()
        .zip(search.outcome())
        .filter_map(|(named, outcome)| {
            let lower = outcome.relevant_lower_bound?;
            let below = search.trials().iter().filter(|(load, _)| *load < lower);
            let losses: Vec<bool> = below
                .flat_map(|(_, made)| made)
                .map(|trial| trial.loss_ratio > named.goal.loss_ratio)
                .collect();
            let bad = losses.iter().filter(|bad| **bad).count();
            (bad > 0).then(|| {
                format!(
                    "{}: {bad} of {} trials below the result lost more than the goal allows (loss inversion): the DUT or the \
                     machine is noisy",
                    named.label,
                    losses.len()
                )
            })
        })
        .collect()
}

/// Returns the points in which a search with these goals is not an RFC 2544 throughput test. The
/// waits are up to the lab: none are made here.
pub fn shortened(goals: &[Named], line: Option<Line>, simulated: bool) -> Vec<String> {
    let mut points = Vec::new();
    let mut point = |holds: &dyn Fn(&Goal) -> bool, words: &str| {
        let of: Vec<&str> = goals
            .iter()
            .filter(|named| holds(&named.goal))
            .map(|named| named.label.as_str())
            .collect();
        match of.len() {
            0 => {}
            n if n == goals.len() => points.push(words.to_owned()),
            _ => points.push(format!("{words} ({})", of.join("; "))),
        }
    };
    point(&|goal| goal.loss_ratio > 0.0, "loss is allowed");
    point(
        &|goal| goal.exceed_ratio > 0.0,
        "a load passes although some of its trials lost frames",
    );
    point(
        &|goal| goal.final_trial.as_nanos() < MINUTE_NS,
        "trials shorter than 60 s",
    );
    points.push(
        "no wait of 2 s for late frames and 5 s after a trial, no address learning in every trial"
            .into(),
    );
    points.push("one frame size, not all of RFC 2544 §9".into());
    if simulated {
        points.push("the DUT is simulated".into());
    }
    points.extend(no_medium(line));
    points
}

fn definition(goal: &Goal) -> GoalDefinition {
    GoalDefinition {
        loss_ratio: goal.loss_ratio,
        exceed_ratio: goal.exceed_ratio,
        initial_trial_ns: goal.initial_trial.as_nanos() as u64,
        final_trial_ns: goal.final_trial.as_nanos() as u64,
        duration_sum_ns: goal.duration_sum.as_nanos() as u64,
        width: goal.width,
        preceding_targets: goal.preceding_targets,
        expansion: goal.expansion,
        fail_fast: goal.fail_fast,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlr::{Question, typed};

    /// A search against a DUT with this loss at every load.
    fn searched(text: &str, loss: impl Fn(f64) -> f64) -> (Search, Vec<Named>) {
        let named = typed::parse(text).unwrap();
        let mut search = Search::new(&Question {
            goals: named.iter().map(|n| n.goal.clone()).collect(),
            min_load_pps: 9001.0,
            max_load_pps: 14_880_952.0,
            warm_up_ns: 0,
            time_limit_ns: 1_200_000_000_000,
        })
        .unwrap();
        while let Some(trial) = search.next_trial() {
            search.record(loss(trial.load_pps), trial.duration_ns);
        }
        (search, named)
    }

    #[test]
    fn duts_at_the_ends_get_the_right_words() {
        let (search, named) = searched("ndr,pdr", |_| 0.0);
        for goal in goals(&search, &named, None) {
            assert_eq!(
                goal.verdict,
                "the largest load meets it: the DUT may forward more"
            );
            assert!(goal.tester_bound && !goal.regular);
            assert_eq!(goal.relevant_lower_bound_pps, Some(14_880_952.0));
        }
        assert_eq!(failure(&search, &named), None);

        let (search, named) = searched("ndr,pdr", |_| 1.0);
        let all = goals(&search, &named, None);
        assert_eq!(all[0].verdict, "not even the smallest load meets it");
        assert_eq!(all[0].relevant_upper_bound_index, Some(0));
        assert!(failure(&search, &named).unwrap().contains("fails ndr"));

        // loss at low loads and none at high ones: a lower bound above an upper one does not count
        let (search, named) = searched("ndr", |load| if load < 2e6 { 0.1 } else { 0.0 });
        assert!(
            goals(&search, &named, None)[0]
                .relevant_lower_bound_pps
                .is_none_or(|pps| pps > 2e6)
        );
    }

    #[test]
    fn a_standard_is_named_only_for_what_it_defines() {
        let of = |text: &str| shortened(&typed::parse(text).unwrap(), None, false).join("; ");
        assert!(of("ndr").contains("shorter than 60 s"));
        assert!(!of("rfc2544").contains("60 s"), "{}", of("rfc2544"));
        assert!(of("rfc2544").contains("late frames"));
        assert!(of("ndr,pdr").contains("loss is allowed (pdr)"));
    }
}
