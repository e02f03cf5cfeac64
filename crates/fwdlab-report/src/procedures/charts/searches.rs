//! Charts of searches for a load: trials and bounds, and converging estimates.
//!
//! Start with [`search()`].

use std::ops::RangeInclusive;

use fwdlab_model::outcome::{CriticalLoad, Outcome};
use fwdlab_model::search::{SearchOutcome, SearchStep};

use super::of_type;
use crate::chart::{Axis, Chart, Curve, Curves, Line, Reference};
use crate::number::plural;
use crate::search;

/// Loads above the bounds of a search by more than this factor, or below by its inverse, are not
/// drawn: a first trial at the line rate would compress all others to one line.
const NEAR_BOUNDS: f64 = 1.25;

/// Returns the range of loads around the final bounds of a search; all loads if it has none.
fn near_bounds(search: &SearchOutcome) -> RangeInclusive<f64> {
    let bounds = search.goals.iter().flat_map(|goal| {
        let bounds = [goal.relevant_lower_bound_pps, goal.relevant_upper_bound_pps];
        bounds.into_iter().flatten()
    });
    let (low, high) = bounds.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), pps| {
        (low.min(pps), high.max(pps))
    });
    match low.is_finite() {
        true => low / NEAR_BOUNDS..=high * NEAR_BOUNDS,
        false => 0.0..=f64::INFINITY,
    }
}

/// Draws two graphs for each search.
pub(in crate::procedures) fn searches(charts: &mut Vec<Chart>, outcomes: &[&Outcome]) {
    for (_, found) in of_type(outcomes) {
        search(charts, found);
    }
}

/// Draws the course of a search: its trials and, after each, the bounds of every goal; then the
/// loss of each trial at its load.
fn search(charts: &mut Vec<Chart>, search: &SearchOutcome) {
    let progress = &search.steps;
    if progress.len() < 2 {
        return;
    }
    let near = near_bounds(search);
    let shown = progress.iter().filter(|step| near.contains(&step.load_pps));
    let left_out = match progress.len() - shown.clone().count() {
        0 => String::new(),
        far => format!(", without {} far from the bounds", plural(far, "trial")),
    };
    let number = |index: usize| (index + 1) as f64;
    let trials = progress.iter().enumerate();
    let trials = trials
        .map(|(index, step)| (number(index), step.load_pps))
        .filter(|(_, load)| near.contains(load));
    let mut curves = vec![Curve::new("trials", trials.collect()).points_only()];
    for (goal, label) in search::labels(search).into_iter().enumerate() {
        let bound = |of: fn(&SearchStep) -> &[Option<f64>]| -> Vec<(f64, f64)> {
            let steps = progress.iter().enumerate();
            steps
                .filter_map(|(index, step)| Some((number(index), (*of(step).get(goal)?)?)))
                .filter(|(_, bound)| near.contains(bound))
                .collect()
        };
        curves
            .push(Curve::new(format!("{label} not met"), bound(|s| &s.upper_bounds_pps)).dashed());
        let met = Curve::new(format!("{label} met"), bound(|s| &s.lower_bounds_pps));
        curves.push(Curve {
            line: Line::Steps,
            ..met
        });
    }
    curves.retain(|curve| !curve.points.is_empty());
    charts.push(Chart::curves(
        "search",
        format!("Trials and bounds{left_out}"),
        Curves::new(
            Axis::parameter("trial", &curves),
            Axis::close_rates(&curves),
            curves.to_vec(),
        ),
    ));
    let lost = shown.map(|step| (step.load_pps, 100.0 * step.loss_ratio));
    let curves = [Curve::new("trials", lost.collect()).points_only()];
    let up = Axis::losses("lost or not sent, % of the frames due", &curves);
    let named = || search.goals.iter().zip(search::labels(search));
    let bounds = named().filter_map(|(goal, label)| {
        let at = goal.relevant_lower_bound_pps?;
        Some(Reference::new(at, label))
    });
    let allowed = named().filter_map(|(goal, label)| {
        let percent = 100.0 * goal.goal.loss_ratio;
        let is_shown = percent > 0.0 && percent <= up.ends().1;
        is_shown.then(|| Reference::new(percent, format!("{label} allows")))
    });
    let (bounds, allowed) = (bounds.collect(), allowed.collect());
    charts.push(Chart::curves(
        "search",
        format!("Loss over load{left_out}"),
        Curves::new(
            Axis::close_loads("intended load", &curves),
            up,
            curves.to_vec(),
        )
        .moments(bounds)
        .references(allowed),
    ));
}

/// Draws how the estimates of a critical load converge.
pub(in crate::procedures) fn critical_load(charts: &mut Vec<Chart>, outcomes: &[&Outcome]) {
    for (_, found) in of_type::<CriticalLoad>(outcomes) {
        if found.estimates.len() < 2 {
            continue;
        }
        let curve = |name: &str, of: fn(&fwdlab_model::outcome::Estimate) -> f64| {
            let settled = found.estimates.iter().skip(found.estimates.len() / 10);
            let points = settled.map(|e| (e.at_s, of(e)));
            Curve::new(name, points.collect())
        };
        // the first estimates are far off
        let curves = [
            curve("stretch", |e| e.stretch_pps),
            curve("erf", |e| e.erf_pps),
        ];
        charts.push(Chart::curves(
            "critical-load",
            "Estimates of both models, after the first tenth",
            Curves::new(
                Axis::time(&curves),
                Axis::close_rates(&curves),
                curves.to_vec(),
            ),
        ));
    }
}
