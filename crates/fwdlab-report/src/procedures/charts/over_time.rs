//! Charts of offered load, forwarding rate and loss over time, and of a ramp over its load.
//!
//! Several ramps in one graph are in `ramps`. Start with [`over_time`].

use fwdlab_model::outcome::{Outcome, Ramp};
use fwdlab_model::procedure::Interval;

use crate::chart::{Axis, Band, Chart, Curve, Curves, Reference, Scale, Size};
use crate::procedures::{frames, shown};

/// The generator is the limit if it offers less than this share of the intended load.
const OFFERED: f64 = 0.98;
/// Label of what the generator could not offer.
const LIMITED: &str = "generator's limit";
/// Limits shorter than this part of the measurement are stalls, and are not shaded.
const SHORT: usize = 30;

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
            .moments(moments.clone())
            .bands(limited_times(samples)),
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
    let intended = samples.iter().map(|sample| sample.intended_load_pps);
    let intended = intended.fold(most, f64::max);
    let curves = [
        Curve::new("forwarded", points),
        Curve::new("no loss", vec![(0.0, 0.0), (intended, intended)]).dashed(),
    ];
    // without loss, the curve is the diagonal
    let scale = Scale::covering([0.0, intended], 8);
    let beyond = most < OFFERED * intended;
    let beyond = beyond.then(|| Band {
        from: most,
        to: intended,
        label: LIMITED.into(),
    });
    charts.push(Chart::curves(
        "over-load",
        "Forwarded over offered",
        Curves::new(
            Axis::of_rates("offered load", scale),
            Axis::of_rates("frames per second", scale),
            curves.to_vec(),
        )
        .bands(beyond.into_iter().collect()),
    ));
}

/// Returns the times in which the generator offered less than intended, except short ones.
fn limited_times(samples: &[Interval]) -> Vec<Band> {
    let is_limited = |s: &Interval| s.offered_load_pps() < OFFERED * s.intended_load_pps;
    let runs = samples.chunk_by(|a, b| is_limited(a) == is_limited(b));
    let limited = runs.filter(|run| is_limited(&run[0]) && run.len() * SHORT >= samples.len());
    let bands = limited.map(|run| {
        let last = &run[run.len() - 1];
        Band {
            from: run[0].at_ns as f64 / 1e9,
            to: (last.at_ns + last.length_ns) as f64 / 1e9,
            label: LIMITED.into(),
        }
    });
    bands.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lasting_limit_of_the_generator_is_shaded() {
        let sample = |n: u64, frames: u64| Interval {
            at_ns: n * 1_000_000_000,
            length_ns: 1_000_000_000,
            intended_load_pps: 100.0 * n as f64,
            frames_sent: frames,
            frames_received: frames,
        };
        let up_to = |limit: u64| (0..100).map(move |n| sample(n, (100 * n).min(limit)));
        let samples: Vec<Interval> = up_to(8000).collect();
        let bands = limited_times(&samples);
        assert_eq!(bands.len(), 1);
        // 8,000 is less than 98 % of the load from the 82nd second on
        assert_eq!((bands[0].from, bands[0].to), (82.0, 100.0));
        let mut stalled: Vec<Interval> = up_to(u64::MAX).collect();
        stalled[50].frames_sent = 10;
        assert_eq!(limited_times(&stalled), []);
    }
}
