//! Writes the sentences about a search: the result for each goal, and the number of trials it took.
//!
//! The terminal and the page share it; its table is among those of the procedures. Start with
//! [`headline`].

use fwdlab_model::search::{GoalResult, SearchOutcome, name_of};

use crate::number::{plural, seconds};

/// Returns the headline: `NDR 999.4 kpps, PDR 1.004 Mpps`.
pub(crate) fn headline(search: &SearchOutcome) -> String {
    let found: Vec<String> = search
        .goals
        .iter()
        .enumerate()
        .map(|(index, goal)| {
            let label = label(index, &search.goals);
            let beyond = search
                .maximum_far_above(goal)
                .map_or(String::new(), |best| {
                    format!(" (far below the {} forwarded at a higher load)", rate(best))
                });
            match (goal.relevant_lower_bound_pps, goal.relevant_upper_bound_pps) {
                (Some(pps), Some(_)) if goal.regular && !goal.tester_bound => {
                    format!("{label} {}{beyond}", rate(pps))
                }
                (Some(pps), _) => format!("{label} at least {}{beyond}", rate(pps)),
                (None, Some(pps)) => format!("{label} below {}", rate(pps)),
                (None, None) => format!("{label} unknown"),
            }
        })
        .collect();
    found.join(", ")
}

/// Returns the label of a goal: `NDR`, `PDR`, the name of a preset, or `PDR 0.1 %` for a custom
/// goal. Further goals with the same loss are numbered.
fn label(index: usize, goals: &[GoalResult]) -> String {
    let goal = &goals[index];
    match goal.name.as_str() {
        "ndr" | "pdr" => return goal.name.to_uppercase(),
        name if !name.contains('=') => return name.to_owned(),
        _ => {}
    }
    let name = name_of(goal.goal.loss_ratio);
    let alike = |other: &&GoalResult| {
        other.name.contains('=') && other.goal.loss_ratio == goal.goal.loss_ratio
    };
    match goals[..index].iter().filter(alike).count() {
        0 => name,
        more => format!("{name} ({})", more + 1),
    }
}

/// Returns the labels of all goals.
pub(crate) fn labels(search: &SearchOutcome) -> Vec<String> {
    let places = 0..search.goals.len();
    places.map(|index| label(index, &search.goals)).collect()
}

fn rate(pps: f64) -> String {
    crate::number::rate(pps)
}

/// Returns a sentence on how much was measured.
pub(crate) fn extent(search: &SearchOutcome) -> String {
    format!(
        "MLRsearch, {} with {} of traffic; loads from {} to {} ({}), in {}",
        plural(search.trials as usize, "trial"),
        seconds(search.traffic_s),
        rate(search.min_load_pps),
        rate(search.max_load_pps),
        search.max_load_source,
        plural(search.max_load_index as usize, "step"),
    )
}
