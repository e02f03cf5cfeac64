//! Charts of offered load, forwarding rate and loss over time, and of a ramp over its load.
//!
//! Several ramps in one graph are in `ramps`. Start with [`over_time`].

use fwdlab_model::outcome::{Outcome, Ramp};
use fwdlab_model::procedure::Interval;

use crate::chart::{Axis, Chart, Curve, Curves, Reference, Size};
use crate::procedures::{frames, shown};

/// Draws each outcome that has samples over time.
pub(in crate::procedures) fn over_time(charts: &mut Vec<Chart>, outcomes: &[&Outcome]) {
    for outcome in outcomes {
        let title = match outcomes.len() {
            1 => String::new(),
            _ => frames(outcome),
        };
        draw_over_time(charts, outcome, title);
    }
}

/// Draws offered load, forwarding rate and loss over time.
fn draw_over_time(charts: &mut Vec<Chart>, outcome: &Outcome, title: String) {
    let shown = shown(&outcome.found);
    let samples = shown.samples();
    if samples.len() < 2 {
        return;
    }
    let at = |sample: &Interval| (sample.at_ns as f64 + sample.length_ns as f64 / 2.0) / 1e9;
    let curve = |name: &str, of: fn(&Interval) -> f64| {
        Curve::new(name, samples.iter().map(|s| (at(s), of(s))).collect())
    };
    let rates = [
        curve("forwarded", |s| s.forwarding_rate_pps()),
        curve("offered", |s| s.offered_load_pps()).dashed(),
    ];
    let lost = [curve("lost", |s| 100.0 * s.loss_ratio())];
    let moments = shown.moments().into_iter();
    let moments: Vec<Reference> = moments.map(|(name, s)| Reference::new(s, name)).collect();
    charts.push(Chart::curves(
        "over-time",
        title,
        Curves::new(Axis::time(&rates), Axis::rates(&rates), rates.to_vec())
            .moments(moments.clone()),
    ));
    charts.push(Chart::curves(
        "over-time",
        "",
        Curves::new(
            Axis::time(&rates),
            Axis::percents("lost, % of the frames sent", &lost),
            lost.to_vec(),
        )
        .moments(moments)
        .size(Size::Strip),
    ));
    if outcome.found.get::<Ramp>().is_some() {
        over_load(charts, samples);
    }
}

/// Draws the forwarding rate of a ramp over its offered load: the gap below the diagonal is the
/// loss.
fn over_load(charts: &mut Vec<Chart>, samples: &[Interval]) {
    let mut points: Vec<(f64, f64)> = samples
        .iter()
        .map(|s| (s.offered_load_pps(), s.forwarding_rate_pps()))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((most, _)) = points.last().copied() else {
        return;
    };
    let curves = [
        Curve::new("forwarded", points).points_only(),
        Curve::new("no loss", vec![(0.0, 0.0), (most, most)]).dashed(),
    ];
    charts.push(Chart::curves(
        "over-load",
        "Forwarded over offered",
        Curves::new(
            Axis::loads("offered load", &curves),
            Axis::rates(&curves),
            curves.to_vec(),
        ),
    ));
}
