//! The graphs that RFC 2544 requires: throughput and bursts over the frame size, loss over the
//! load, delays.
//!
//! Start with [`throughput`].

use fwdlab_model::outcome::{BackToBack, FrameLoss, Outcome, Throughput};

use super::of_type;
use crate::chart::{Axis, Chart, Curve, Curves, Quantity, Size};
use crate::procedures::frames;
use crate::procedures::shown::{LoadDelays, shown};
use crate::procedures::tables::{PERCENTILES, Percentile, median_over_trials};

fn bytes(outcome: &Outcome) -> f64 {
    f64::from(outcome.frame_size_bytes.bytes())
}

/// Draws the frame rate over the frame size, theoretical and measured (RFC 2544 §26.1). Skips
/// profiles, which have no single size.
pub(in crate::procedures) fn throughput(charts: &mut Vec<Chart>, outcomes: &[&Outcome]) {
    let (mut theoretical, mut measured, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let all = of_type::<Throughput>(outcomes);
    for (outcome, found) in all.filter(|(outcome, _)| outcome.variant.profile.is_none()) {
        let size = bytes(outcome);
        theoretical.extend(found.line_rate_pps.map(|pps| (size, pps)));
        measured.extend(found.throughput_pps.map(|pps| (size, pps)));
        shares.extend(found.percent.map(|percent| (size, percent)));
    }
    if measured.len() < 2 {
        return;
    }
    let mut curves = vec![Curve::new("measured", measured)];
    if !theoretical.is_empty() {
        curves.push(Curve::new("theoretical", theoretical).dashed());
    }
    let whole = match curves.len() {
        1 => "largest load",
        _ => "line rate",
    };
    let shares = [Curve::new("measured", shares)];
    let graph = |up: Axis, curves: &[Curve]| {
        Curves::new(Axis::sizes(curves), up, curves.to_vec()).size(Size::Low)
    };
    charts.push(Chart::curves(
        "throughput",
        "Frame rate",
        graph(Axis::rates(&curves), &curves),
    ));
    charts.push(Chart::curves(
        "throughput",
        format!("Share of the {whole}"),
        graph(Axis::whole_percent(&format!("% of the {whole}")), &shares),
    ));
}

/// Returns the loads at which delays were measured, in ascending order.
fn at_loads(outcome: &Outcome) -> Vec<(f64, LoadDelays)> {
    let delays = shown(&outcome.found).delays().into_iter();
    let measured = delays.filter(|one| !one.trials.is_empty());
    let mut points: Vec<_> = measured
        .filter_map(|one| Some((one.percent?, one)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Draws percentiles of the delay, over the load in percent of `whole` with a graph per frame size,
/// or over the frame size if there is only one load.
pub(in crate::procedures) fn latency(charts: &mut Vec<Chart>, outcomes: &[&Outcome], whole: &str) {
    let all = outcomes.iter().map(|outcome| (outcome, at_loads(outcome)));
    let measured: Vec<_> = all.filter(|(_, points)| !points.is_empty()).collect();
    let has_loads = measured.iter().any(|(_, points)| points.len() > 1);
    let shown = |points: &[(f64, &LoadDelays)]| -> Vec<Curve> {
        let curve = |percentile: &Percentile| {
            let over = |(at, point): &(f64, &LoadDelays)| {
                Some((*at, median_over_trials(&point.trials, *percentile)?))
            };
            Curve::new(percentile.0, points.iter().filter_map(over).collect())
        };
        let mut curves: Vec<Curve> = PERCENTILES.iter().map(curve).collect();
        curves.retain(|curve| !curve.points.is_empty());
        if curves.iter().all(|curve| curve.name != "p99.9") {
            // RFC 8219 requires it, even for few frames
            let over = |(at, point): &(f64, &LoadDelays)| Some((*at, point.worst_case_ns?));
            let points: Vec<_> = points.iter().filter_map(over).collect();
            let place = curves.len().saturating_sub(1);
            if !points.is_empty() {
                curves.insert(place, Curve::new("worst case", points));
            }
        }
        curves
    };
    let several = has_loads && measured.len() > 1;
    let mut draw = |title: String, curves: Vec<Curve>, across: Axis| {
        let size = if several { Size::Low } else { Size::Whole };
        let curves = Curves::new(across, Axis::delays(&curves), curves.clone()).size(size);
        charts.push(Chart::curves("latency", title, curves));
    };
    if has_loads {
        for (outcome, points) in &measured {
            let over_load: Vec<_> = points.iter().map(|(load, point)| (*load, point)).collect();
            let across = Axis::whole_percent(&format!("load, % of {whole}"));
            draw(frames(outcome), shown(&over_load), across);
        }
    } else if measured.len() > 1 {
        let over_size: Vec<_> = measured
            .iter()
            .flat_map(|(outcome, points)| points.iter().map(|(_, point)| (bytes(outcome), point)))
            .collect();
        let curves = shown(&over_size);
        let across = Axis::sizes(&curves);
        draw(String::new(), curves, across);
    } else {
        percentiles(charts, outcomes);
    }
}

/// Draws the delay of each outcome with one load by percentile.
pub(in crate::procedures) fn percentiles(charts: &mut Vec<Chart>, outcomes: &[&Outcome]) {
    let curve = |outcome: &&Outcome| {
        let delays = shown(&outcome.found).delays();
        let [LoadDelays { trials, .. }] = &delays[..] else {
            return None;
        };
        // the longest delay has infinitely many nines
        let finite = PERCENTILES.iter().filter(|(.., share, _)| *share < 1.0);
        let at =
            |one: &Percentile| Some((-(1.0 - one.2).log10(), median_over_trials(trials, *one)?));
        let points: Vec<_> = finite.filter_map(at).collect();
        (points.len() > 1).then(|| Curve::new(frames(outcome), points))
    };
    let curves: Vec<Curve> = outcomes.iter().filter_map(curve).collect();
    if !curves.is_empty() {
        let (across, up) = (Axis::percentiles(&curves), Axis::delays(&curves));
        charts.push(Chart::curves(
            "latency",
            "Latency",
            Curves::new(across, up, curves),
        ));
    }
}

/// Draws loss over load, both from 0 to 100 % (RFC 2544 §26.3), and the forwarding rate, which
/// shows livelock.
pub(in crate::procedures) fn frame_loss(charts: &mut Vec<Chart>, outcomes: &[&Outcome]) {
    let (mut lost, mut forwarded) = (Vec::new(), Vec::new());
    for (outcome, found) in of_type::<FrameLoss>(outcomes) {
        let name = frames(outcome);
        let points = || found.points.iter().rev();
        let of_lost = points().map(|p| (p.percent, p.loss_percent)).collect();
        let of_rate = points().map(|p| (p.percent, p.forwarding_rate_pps));
        lost.push(Curve::new(name.clone(), of_lost));
        forwarded.push(Curve::new(name, of_rate.collect()));
    }
    if lost.iter().all(|curve| curve.points.is_empty()) {
        return;
    }
    let across = || Axis::whole_percent("load, % of the full rate");
    charts.push(Chart::curves(
        "frame-loss",
        "Frame loss",
        Curves::new(
            across(),
            Axis::whole_percent("lost, % of the frames sent"),
            lost.to_vec(),
        ),
    ));
    charts.push(Chart::curves(
        "frame-loss",
        "Forwarding rate",
        Curves::new(across(), Axis::rates(&forwarded), forwarded.to_vec()),
    ));
}

/// Draws the longest burst over the frame size, and the buffer size that follows from it.
pub(in crate::procedures) fn back_to_back(charts: &mut Vec<Chart>, outcomes: &[&Outcome]) {
    let (mut burst, mut buffer) = (Vec::new(), Vec::new());
    for (outcome, found) in of_type::<BackToBack>(outcomes) {
        let size = bytes(outcome);
        burst.extend(found.burst_frames.map(|spread| (size, spread.mean)));
        buffer.extend(found.buffer_frames.map(|frames| (size, frames)));
    }
    if burst.len() < 2 {
        return;
    }
    let curves = [Curve::new("burst", burst), Curve::new("buffer", buffer)];
    charts.push(Chart::curves(
        "back-to-back",
        "",
        Curves::new(
            Axis::sizes(&curves),
            Axis::numbers("frames", &curves).reading(Quantity::Frames),
            curves.to_vec(),
        ),
    ));
}
