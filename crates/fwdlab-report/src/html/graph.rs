//! Graphs of procedures: curves over frame size, load or time, as RFC 2544 wants them.
//!
//! Places are percentages and everything else is in pixels, as in `svg`, so that text and marks keep their size at every
//! width. Curves are told apart by their marks and by their names at the right end; colour only helps. The tables beneath
//! have the figures. Which graphs there are is decided in [`of`]. Start there.

use std::ops::RangeInclusive;

use fwdlab_model::outcome::{Cost, Found, LatencyPoint, Outcome};
use fwdlab_model::procedure::Interval;
use fwdlab_model::search::{SearchOutcome, SearchStep};

use super::markup::Markup;
use super::svg::Scale;
use crate::number::{Prefix, count, delay, percent, rate};
use crate::procedures::frames;
use crate::procedures::tables::{PERCENTILES, over_trials, samples_of};
use crate::search;
use crate::words::several;

/// Height of what is drawn in, of a graph that is one of several beside each other, and of the numbers below it, in pixels.
const HEIGHT: f64 = 250.0;
const LOW: f64 = 170.0;
const NUMBERS: f64 = 24.0;
/// Names at the right end are so far apart at least.
const NAME: f64 = 15.0;
/// Curves with more points have marks at some of them only.
const MARKED: usize = 25;
/// Curves with more points are drawn as the smallest and the largest of each of so many parts.
const PARTS: usize = 400;
/// Numbers of frame sizes are so far apart at least, in percent of the width.
const APART: f64 = 4.0;

/// Marks, in the order of the curves: circle, square, triangle, diamond, triangle on its tip, plus, cross.
const MARKS: [&str; 7] = [
    "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
    "M-3.2 -3.2H3.2V3.2H-3.2z",
    "M0 -4.2L4.2 3.2H-4.2z",
    "M0 -4.6L4.6 0L0 4.6L-4.6 0z",
    "M0 4.2L4.2 -3.2H-4.2z",
    "M-4.4 0H4.4M0 -4.4V4.4",
    "M-3.4 -3.4L3.4 3.4M-3.4 3.4L3.4 -3.4",
];

/// A curve with its name and its points, from the left.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
    line: Line,
}

/// What joins the points of a curve.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Solid,
    /// What should be, not what was measured.
    Dashed,
    /// Each point stands for itself.
    None,
}

impl Curve {
    fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Curve {
        Curve {
            name: name.into(),
            points,
            line: Line::Solid,
        }
    }
}

/// How values are placed along an axis.
enum Places {
    /// Evenly.
    Linear(Scale),
    /// By their logarithm, between two values.
    Logarithmic(f64, f64),
}

/// An axis with its title and the numbers at it.
struct Axis {
    title: String,
    places: Places,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    fn linear(title: &str, scale: Scale, number: impl Fn(f64) -> String) -> Axis {
        Axis {
            title: title.to_owned(),
            ticks: scale.ticks().map(|tick| (tick, number(tick))).collect(),
            places: Places::Linear(scale),
        }
    }

    /// From 0 to 100 %, as RFC 2544 §26.3 wants it.
    fn whole_percent(title: &str) -> Axis {
        Axis::linear(title, Scale::covering([0.0, 100.0], 10), |tick| {
            format!("{tick:.0}")
        })
    }

    /// Rates, from zero.
    fn rates(curves: &[Curve]) -> Axis {
        let scale = Scale::covering(values(curves).chain([0.0]), 5);
        let prefix = Prefix::for_largest([scale.high()]);
        let title = format!("frames per second, {}", prefix.pps());
        Axis::linear(&title, scale, |tick| prefix.tick(tick, scale.step()))
    }

    /// Loads, from the left.
    fn loads(title: &str, curves: &[Curve]) -> Axis {
        let points = curves.iter().flat_map(|curve| &curve.points);
        let scale = Scale::covering(points.map(|(load, _)| *load).chain([0.0]), 8);
        let prefix = Prefix::for_largest([scale.high()]);
        let title = format!("{title}, {}", prefix.pps());
        Axis::linear(&title, scale, |tick| prefix.tick(tick, scale.step()))
    }

    /// Rates that are close together: not from zero.
    fn close_rates(curves: &[Curve]) -> Axis {
        Axis::close("frames per second", Scale::covering(values(curves), 5))
    }

    /// Loads that are close together: not from zero.
    fn close_loads(title: &str, curves: &[Curve]) -> Axis {
        let points = curves.iter().flat_map(|curve| &curve.points);
        Axis::close(title, Scale::covering(points.map(|(load, _)| *load), 8))
    }

    fn close(title: &str, scale: Scale) -> Axis {
        let prefix = Prefix::for_largest([scale.high()]);
        let from = match scale.low() > 0.0 {
            true => "; does not begin at zero",
            false => "",
        };
        let title = format!("{title}, {}{from}", prefix.pps());
        Axis::linear(&title, scale, |tick| prefix.tick(tick, scale.step()))
    }

    /// Shares in percent, from zero.
    fn percents(title: &str, curves: &[Curve]) -> Axis {
        let scale = Scale::covering(values(curves).chain([0.0]), 4);
        Axis::linear(title, scale, short)
    }

    fn numbers(title: &str, curves: &[Curve]) -> Axis {
        let scale = Scale::covering(values(curves).chain([0.0]), 5);
        Axis::linear(title, scale, short)
    }

    /// Times by their logarithm.
    fn delays(curves: &[Curve]) -> Axis {
        let all = || values(curves).filter(|ns| *ns > 0.0);
        let high = all().fold(1.0, f64::max);
        let low = all().fold(high, f64::min);
        let (mut ticks, mut power) = (Vec::new(), 10f64.powf(low.log10().floor()));
        while power <= high * 10.0 {
            ticks.extend([1.0, 2.0, 5.0].map(|step| step * power));
            power *= 10.0;
        }
        let first = ticks.iter().rposition(|tick| *tick <= low).unwrap_or(0);
        let last = ticks.iter().position(|tick| *tick >= high * (1.0 - 1e-9));
        let last = last.unwrap_or(ticks.len() - 1).max(first + 1);
        let ticks = &ticks[first..=last];
        // over many powers of ten only these have numbers
        let is_few = ticks.len() <= 7;
        let number = |tick: f64| match is_few || (tick.log10().fract().abs() < 1e-6) {
            true => delay(tick).replace(".00", "").replace(".0 ", " "),
            false => String::new(),
        };
        Axis {
            title: "delay, logarithmic".into(),
            places: Places::Logarithmic(ticks[0], ticks[ticks.len() - 1]),
            ticks: ticks.iter().map(|tick| (*tick, number(*tick))).collect(),
        }
    }

    /// Frame sizes: at their places between 0 and the largest, so that what grows with every byte is a straight line.
    fn sizes(curves: &[Curve]) -> Axis {
        let points = curves.iter().flat_map(|curve| &curve.points);
        let mut sizes: Vec<f64> = points.map(|(size, _)| *size).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let scale = Scale::covering(sizes.iter().copied().chain([0.0]), 8);
        // the largest has its number in any case
        let mut ticks: Vec<(f64, String)> = Vec::new();
        let mut free = f64::INFINITY;
        for size in sizes.iter().rev() {
            let has_room = free - scale.percent(*size) >= APART;
            if has_room {
                free = scale.percent(*size);
            }
            ticks.push((
                *size,
                if has_room {
                    short(*size)
                } else {
                    String::new()
                },
            ));
        }
        Axis {
            title: "frame size, bytes".into(),
            ticks,
            places: Places::Linear(scale),
        }
    }

    /// Values of a parameter, from zero.
    fn parameter(title: &str, curves: &[Curve]) -> Axis {
        let points = curves.iter().flat_map(|curve| &curve.points);
        let all = points.map(|(value, _)| *value);
        Axis::linear(title, Scale::covering(all.chain([0.0]), 8), |tick| {
            count(tick as u64)
        })
    }

    /// Time since the begin.
    fn time(curves: &[Curve]) -> Axis {
        let all = curves.iter().flat_map(|curve| &curve.points);
        let longest = all.map(|(s, _)| *s).fold(0.0, f64::max);
        let (unit, divisor) = match longest {
            s if s > 3.0 * 3600.0 => ("hours", 3600.0),
            s if s > 300.0 => ("minutes", 60.0),
            _ => ("seconds", 1.0),
        };
        let scale = Scale::covering([0.0, longest / divisor], 8);
        Axis {
            title: format!("time, {unit}"),
            ticks: scale.ticks().map(|t| (t * divisor, short(t))).collect(),
            places: Places::Linear(scale.times(divisor)),
        }
    }

    /// Where a value lies, in percent from the left or from below.
    fn percent(&self, value: f64) -> f64 {
        match &self.places {
            Places::Linear(scale) => scale.percent(value),
            Places::Logarithmic(low, high) => {
                let value = value.max(*low);
                (100.0 * (value / low).ln() / (high / low).ln()).clamp(0.0, 100.0)
            }
        }
    }
}

fn values(curves: &[Curve]) -> impl Iterator<Item = f64> {
    let points = curves.iter().flat_map(|curve| &curve.points);
    points.map(|(_, value)| *value)
}

/// A number without zeros that say nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A graph.
struct Graph<'a> {
    /// What it is of, where there are several.
    title: String,
    across: Axis,
    up: Axis,
    curves: &'a [Curve],
    /// Moments to point at, with words.
    moments: Vec<(f64, String)>,
    height: f64,
    /// A value in words, for those who point at a mark.
    words: fn(f64) -> String,
}

/// The graphs of outcomes of one procedure.
pub(super) fn of(m: &mut Markup, outcomes: &[&Outcome]) {
    let Some(first) = outcomes.first() else {
        return;
    };
    match &first.found {
        Found::Throughput(_) => throughput(m, outcomes),
        Found::Latency(_) => latency(m, outcomes),
        Found::FrameLoss(_) => frame_loss(m, outcomes),
        Found::BackToBack(_) => back_to_back(m, outcomes),
        Found::Ramp(_) | Found::Soak(_) | Found::Trial(_) | Found::ForwardingRate(_) => {
            for outcome in outcomes {
                let title = match outcomes.len() {
                    1 => String::new(),
                    _ => frames(outcome),
                };
                over_time(m, outcome, title);
            }
        }
        Found::Plr(_) => critical_load(m, outcomes),
        Found::Sweep(_) => sweep(m, outcomes),
        Found::Mlrsearch(_) => {
            for outcome in outcomes {
                if let Found::Mlrsearch(found) = &outcome.found {
                    search(m, found);
                }
            }
        }
        Found::Recovery(_)
        | Found::Reset(_)
        | Found::Bursts(_)
        | Found::Mrr(_)
        | Found::Maxfwd(_)
        | Found::Equilibrium(_)
        | Found::Exact(_) => {}
        Found::Paired(_) => differences(m, outcomes),
    }
}

fn bytes(outcome: &Outcome) -> f64 {
    f64::from(outcome.frame_size_bytes.bytes())
}

/// RFC 2544 §26.1: frame rate over frame size, theoretical and measured. Frames of a profile have no one size.
fn throughput(m: &mut Markup, outcomes: &[&Outcome]) {
    let (mut theoretical, mut measured) = (Vec::new(), Vec::new());
    for outcome in outcomes.iter().filter(|o| o.variant.profile.is_none()) {
        if let Found::Throughput(found) = &outcome.found {
            let size = bytes(outcome);
            theoretical.extend(found.line_rate_pps.map(|pps| (size, pps)));
            measured.extend(found.throughput_pps.map(|pps| (size, pps)));
        }
    }
    if measured.len() < 2 {
        return;
    }
    let mut curves = vec![Curve::new("measured", measured)];
    if !theoretical.is_empty() {
        curves.push(Curve {
            line: Line::Dashed,
            ..Curve::new("theoretical", theoretical)
        });
    }
    graph(
        m,
        &Graph {
            title: String::new(),
            across: Axis::sizes(&curves),
            up: Axis::rates(&curves),
            curves: &curves,
            moments: Vec::new(),
            height: HEIGHT,
            words: rate,
        },
    );
}

/// Percentiles of the delay over the load, a graph per frame size; over the frame size where there is one load.
fn latency(m: &mut Markup, outcomes: &[&Outcome]) {
    let points = |outcome: &Outcome| match &outcome.found {
        Found::Latency(found) => {
            let mut points = found.points.clone();
            points.retain(|point| !point.repetitions.is_empty());
            points.sort_by(|a, b| a.percent.total_cmp(&b.percent));
            points
        }
        _ => Vec::new(),
    };
    let measured: Vec<&&Outcome> = outcomes.iter().filter(|o| !points(o).is_empty()).collect();
    let has_loads = measured.iter().any(|outcome| points(outcome).len() > 1);
    let shown = |points: &[(f64, LatencyPoint)]| -> Vec<Curve> {
        let curve = |percentile: &crate::procedures::tables::Percentile| {
            let over = |(at, point): &(f64, LatencyPoint)| {
                Some((*at, over_trials(&point.repetitions, *percentile)?))
            };
            Curve::new(percentile.0, points.iter().filter_map(over).collect())
        };
        let mut curves: Vec<Curve> = PERCENTILES.iter().map(curve).collect();
        curves.retain(|curve| !curve.points.is_empty());
        if curves.iter().all(|curve| curve.name != "p99.9") {
            // what RFC 8219 asks for, however few frames there are
            let over = |(at, point): &(f64, LatencyPoint)| Some((*at, point.worst_case_ns?.median));
            let points: Vec<_> = points.iter().filter_map(over).collect();
            let place = curves.len().saturating_sub(1);
            if !points.is_empty() {
                curves.insert(place, Curve::new("worst case", points));
            }
        }
        curves
    };
    let several = has_loads && measured.len() > 1;
    let draw = |m: &mut Markup, title: String, curves: &[Curve], across: Axis| {
        graph(
            m,
            &Graph {
                title,
                across,
                up: Axis::delays(curves),
                curves,
                moments: Vec::new(),
                height: if several { LOW } else { HEIGHT },
                words: delay,
            },
        );
    };
    if has_loads {
        let class = if several { "graphs" } else { "" };
        m.within("div", &[("class", class)], |m| {
            for outcome in &measured {
                let over_load: Vec<_> = points(outcome)
                    .into_iter()
                    .map(|point| (point.percent, point))
                    .collect();
                let curves = shown(&over_load);
                let across = Axis::whole_percent("load, % of the throughput");
                draw(m, frames(outcome), &curves, across);
            }
        });
    } else if measured.len() > 1 {
        let over_size: Vec<_> = measured
            .iter()
            .flat_map(|outcome| points(outcome).into_iter().map(|p| (bytes(outcome), p)))
            .collect();
        let curves = shown(&over_size);
        let across = Axis::sizes(&curves);
        draw(m, String::new(), &curves, across);
    }
}

/// RFC 2544 §26.3: loss over load, both from 0 to 100 %; and what came out, which shows livelock.
fn frame_loss(m: &mut Markup, outcomes: &[&Outcome]) {
    let (mut lost, mut forwarded) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        let Found::FrameLoss(found) = &outcome.found else {
            continue;
        };
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
    graph(
        m,
        &Graph {
            title: "Frame loss".into(),
            across: across(),
            up: Axis::whole_percent("lost, % of the frames sent"),
            curves: &lost,
            moments: Vec::new(),
            height: HEIGHT,
            words: percent,
        },
    );
    graph(
        m,
        &Graph {
            title: "Forwarding rate".into(),
            across: across(),
            up: Axis::rates(&forwarded),
            curves: &forwarded,
            moments: Vec::new(),
            height: HEIGHT,
            words: rate,
        },
    );
}

/// The longest burst over the frame size, and the buffer behind it.
fn back_to_back(m: &mut Markup, outcomes: &[&Outcome]) {
    let (mut burst, mut buffer) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        if let Found::BackToBack(found) = &outcome.found {
            let size = bytes(outcome);
            burst.extend(found.burst_frames.map(|spread| (size, spread.mean)));
            buffer.extend(found.buffer_frames.map(|frames| (size, frames)));
        }
    }
    if burst.len() < 2 {
        return;
    }
    let curves = [Curve::new("burst", burst), Curve::new("buffer", buffer)];
    graph(
        m,
        &Graph {
            title: String::new(),
            across: Axis::sizes(&curves),
            up: Axis::numbers("frames", &curves),
            curves: &curves,
            moments: Vec::new(),
            height: HEIGHT,
            words: |frames| format!("{frames:.0} frames"),
        },
    );
}

/// What was offered, what came back and what was lost, over time.
fn over_time(m: &mut Markup, outcome: &Outcome, title: String) {
    let samples = samples_of(outcome);
    if samples.len() < 2 {
        return;
    }
    let at = |sample: &Interval| (sample.at_ns as f64 + sample.length_ns as f64 / 2.0) / 1e9;
    let curve = |name: &str, of: fn(&Interval) -> f64| {
        Curve::new(name, samples.iter().map(|s| (at(s), of(s))).collect())
    };
    let rates = [
        curve("forwarded", |s| s.forwarding_rate_pps()),
        Curve {
            line: Line::Dashed,
            ..curve("offered", |s| s.offered_load_pps())
        },
    ];
    let lost = [curve("lost", |s| 100.0 * s.loss_ratio())];
    let mut moments = Vec::new();
    if let Found::Ramp(found) = &outcome.found {
        let edge = |edge: &fwdlab_model::outcome::Edge| edge.at_s;
        moments.extend(edge(&found.up).map(|s| (s, "loss begins".to_owned())));
        let down = found.down.as_ref().and_then(edge);
        moments.extend(down.map(|s| (s, "loss ends".to_owned())));
    }
    graph(
        m,
        &Graph {
            title,
            across: Axis::time(&rates),
            up: Axis::rates(&rates),
            curves: &rates,
            moments: moments.clone(),
            height: HEIGHT,
            words: rate,
        },
    );
    graph(
        m,
        &Graph {
            title: String::new(),
            across: Axis::time(&rates),
            up: Axis::percents("lost, % of the frames sent", &lost),
            curves: &lost,
            moments,
            height: 0.6 * LOW,
            words: percent,
        },
    );
    if matches!(outcome.found, Found::Ramp(_)) {
        over_load(m, samples);
    }
}

/// What a ramp forwarded at each load it offered: below the line from corner to corner is what was lost.
fn over_load(m: &mut Markup, samples: &[Interval]) {
    let mut points: Vec<(f64, f64)> = samples
        .iter()
        .map(|s| (s.offered_load_pps(), s.forwarding_rate_pps()))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((most, _)) = points.last().copied() else {
        return;
    };
    let curves = [
        Curve {
            line: Line::None,
            ..Curve::new("forwarded", points)
        },
        Curve {
            line: Line::Dashed,
            ..Curve::new("no loss", vec![(0.0, 0.0), (most, most)])
        },
    ];
    graph(
        m,
        &Graph {
            title: "Forwarded over offered".into(),
            across: Axis::loads("offered load", &curves),
            up: Axis::rates(&curves),
            curves: &curves,
            moments: Vec::new(),
            height: HEIGHT,
            words: rate,
        },
    );
}

/// Loads of a search that are shown lie at most so many times above its bounds, or below them: a first look at the line rate would
/// press all the others onto one line.
const NEAR_BOUNDS: f64 = 1.25;

/// The loads around what a search found in the end, smallest and largest; all where it found nothing.
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

/// How a search went on: its trials and, after each, the bounds of every goal; then what trials lost at their loads.
pub(super) fn search(m: &mut Markup, search: &SearchOutcome) {
    let course = &search.course;
    if course.len() < 2 {
        return;
    }
    let near = near_bounds(search);
    let shown = course.iter().filter(|step| near.contains(&step.load_pps));
    let left_out = match course.len() - shown.clone().count() {
        0 => String::new(),
        far => format!(", without {} outliers", several(far, "trial")),
    };
    let number = |index: usize| (index + 1) as f64;
    let trials = course.iter().enumerate();
    let trials = trials
        .map(|(index, step)| (number(index), step.load_pps))
        .filter(|(_, load)| near.contains(load));
    let mut curves = vec![Curve {
        line: Line::None,
        ..Curve::new("trials", trials.collect())
    }];
    for (goal, label) in search::labels(search).into_iter().enumerate() {
        let bound = |of: fn(&SearchStep) -> &[Option<f64>]| -> Vec<(f64, f64)> {
            let steps = course.iter().enumerate();
            steps
                .filter_map(|(index, step)| Some((number(index), (*of(step).get(goal)?)?)))
                .filter(|(_, bound)| near.contains(bound))
                .collect()
        };
        curves.push(Curve {
            line: Line::Dashed,
            ..Curve::new(format!("{label} not met"), bound(|s| &s.upper_bounds_pps))
        });
        curves.push(Curve::new(
            format!("{label} met"),
            bound(|s| &s.lower_bounds_pps),
        ));
    }
    curves.retain(|curve| !curve.points.is_empty());
    graph(
        m,
        &Graph {
            title: format!("Trials and bounds{left_out}"),
            across: Axis::parameter("trial", &curves),
            up: Axis::close_rates(&curves),
            curves: &curves,
            moments: Vec::new(),
            height: HEIGHT,
            words: rate,
        },
    );
    let lost = shown.map(|step| (step.load_pps, 100.0 * step.loss_ratio));
    let curves = [Curve {
        line: Line::None,
        ..Curve::new("trials", lost.collect())
    }];
    graph(
        m,
        &Graph {
            title: format!("Loss over load{left_out}"),
            across: Axis::close_loads("intended load", &curves),
            up: Axis::percents("lost or not sent, % of the frames due", &curves),
            curves: &curves,
            moments: Vec::new(),
            height: LOW,
            words: percent,
        },
    );
}

/// How the estimates of a critical load came closer.
fn critical_load(m: &mut Markup, outcomes: &[&Outcome]) {
    for outcome in outcomes {
        let Found::Plr(found) = &outcome.found else {
            continue;
        };
        if found.estimates.len() < 2 {
            continue;
        }
        let curve = |name: &str, of: fn(&fwdlab_model::outcome::Estimate) -> f64| {
            let settled = found.estimates.iter().skip(found.estimates.len() / 10);
            let points = settled.map(|e| (e.at_s, of(e)));
            Curve::new(name, points.collect())
        };
        // the first ones are far off
        let curves = [
            curve("stretch", |e| e.stretch_pps),
            curve("erf", |e| e.erf_pps),
        ];
        graph(
            m,
            &Graph {
                title: "Estimates of both models, after the first tenth".into(),
                across: Axis::time(&curves),
                up: Axis::close_rates(&curves),
                curves: &curves,
                moments: Vec::new(),
                height: HEIGHT,
                words: rate,
            },
        );
    }
}

/// What configurations cost beside the reference over the values of a parameter, and the line through it.
fn differences(m: &mut Markup, outcomes: &[&Outcome]) {
    let (mut parameter, mut costs) = (String::new(), Vec::new());
    for outcome in outcomes {
        let Found::Paired(found) = &outcome.found else {
            continue;
        };
        let (Some(of), Some(slope)) = (&found.parameter, &found.slope) else {
            continue;
        };
        parameter.clone_from(of);
        let points = found.points.iter();
        let points = points.filter_map(|point| Some((point.value? as f64, point.cost_ns?)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let line = points.iter().map(|(value, _)| *value);
        let line = line.map(|value| (value, slope.fixed_ns + slope.unit_ns * value));
        costs.push(Curve {
            line: Line::Dashed,
            ..Curve::new("a line", line.collect())
        });
        costs.push(Curve::new(frames(outcome), points));
    }
    if costs.iter().all(|curve| curve.points.len() < 2) {
        return;
    }
    graph(
        m,
        &Graph {
            title: "Time per frame more than the reference DUT takes".into(),
            across: Axis::parameter(&parameter, &costs),
            up: Axis::numbers("nanoseconds per frame", &costs),
            curves: &costs,
            moments: Vec::new(),
            height: HEIGHT,
            words: |ns| format!("{ns:.1} ns"),
        },
    );
}

/// What came out over the values of a parameter, and what a frame cost there: what each rule adds is a straight line.
fn sweep(m: &mut Markup, outcomes: &[&Outcome]) {
    let mut parameter = String::new();
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        let Found::Sweep(found) = &outcome.found else {
            continue;
        };
        parameter.clone_from(&found.parameter);
        let points = found.points.iter();
        let points = points.filter_map(|p| Some((p.value as f64, p.median_pps?)));
        let mut points: Vec<_> = points.filter(|(_, pps)| *pps > 0.0).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let of_frame = points.iter().map(|(value, pps)| (*value, 1e9 / pps));
        costs.push(Curve::new(frames(outcome), of_frame.collect()));
        if let Some(line) = found.cost.as_ref().and_then(|cost| fitted(cost, &points)) {
            costs.push(Curve {
                line: Line::Dashed,
                ..Curve::new("fitted", line)
            });
        }
        rates.push(Curve::new(frames(outcome), points));
    }
    rates.retain(|curve| curve.points.len() > 1);
    costs.retain(|curve| curve.points.len() > 1);
    if rates.is_empty() {
        return;
    }
    graph(
        m,
        &Graph {
            title: "Forwarding rate".into(),
            across: Axis::parameter(&parameter, &rates),
            up: Axis::rates(&rates),
            curves: &rates,
            moments: Vec::new(),
            height: HEIGHT,
            words: rate,
        },
    );
    graph(
        m,
        &Graph {
            title: "Time per frame".into(),
            across: Axis::parameter(&parameter, &costs),
            up: Axis::numbers("nanoseconds per frame", &costs),
            curves: &costs,
            moments: Vec::new(),
            height: HEIGHT,
            words: |ns| format!("{ns:.1} ns"),
        },
    );
}

/// The line that stands for what was found to be the cost, where it is a line.
fn fitted(cost: &Cost, points: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let (frame_ns, unit_ns) = match *cost {
        Cost::Constant { frame_ns } => (frame_ns, 0.0),
        Cost::Linear {
            frame_ns, unit_ns, ..
        } => (frame_ns, unit_ns),
        Cost::Logarithmic { .. } | Cost::Cliff { .. } => return None,
    };
    let ends = [points.first()?.0, points.last()?.0];
    Some(ends.map(|value| (value, frame_ns + unit_ns * value)).into())
}

/// Draws a graph.
fn graph(m: &mut Markup, graph: &Graph<'_>) {
    let names: Vec<&str> = graph.curves.iter().map(|c| c.name.as_str()).collect();
    let spoken = format!(
        "{}{}{} over {}: {}. The figures are in the table below.",
        graph.title,
        if graph.title.is_empty() { "" } else { ", " },
        graph.up.title,
        graph.across.title,
        names.join(", ")
    );
    let height = graph.height;
    let whole = format!("{}", height + NUMBERS);
    m.within("div", &[("class", "graph")], |m| {
        if !graph.title.is_empty() {
            m.leaf("h3", &[], &graph.title);
        }
        m.leaf("div", &[("class", "up-title")], &graph.up.title);
        let attributes = [
            ("class", "plot"),
            ("height", whole.as_str()),
            ("role", "img"),
            ("aria-label", spoken.as_str()),
        ];
        m.within("svg", &attributes, |m| {
            grid(m, graph);
            for (moment, words) in &graph.moments {
                let x = at(graph.across.percent(*moment));
                let bottom = format!("{height}");
                let line = [
                    ("class", "moment"),
                    ("x1", x.as_str()),
                    ("x2", x.as_str()),
                    ("y1", "0"),
                    ("y2", bottom.as_str()),
                ];
                m.shape("line", &line);
                let before = graph.across.percent(*moment) > 80.0;
                let (class, dx) = if before { ("end", "-5") } else { ("", "5") };
                let text = [("class", class), ("x", &x), ("dx", dx), ("y", "12")];
                m.leaf("text", &text, words);
            }
            for (n, curve) in graph.curves.iter().enumerate() {
                draw(m, graph, n, curve);
            }
            names_at_the_end(m, graph);
        });
        m.leaf("div", &[("class", "axis-title")], &graph.across.title);
    });
}

fn at(percent: f64) -> String {
    format!("{percent:.2}%")
}

/// Grid lines with their numbers.
fn grid(m: &mut Markup, graph: &Graph<'_>) {
    let height = graph.height;
    for (tick, number) in &graph.up.ticks {
        let place = format!("{:.1}", up(graph, *tick));
        let class = if *tick == 0.0 { "zero" } else { "grid" };
        m.shape(
            "line",
            &[
                ("class", class),
                ("x1", "0"),
                ("x2", "100%"),
                ("y1", &place),
                ("y2", &place),
            ],
        );
        let text = [
            ("class", "end"),
            ("x", "0"),
            ("dx", "-8"),
            ("dy", "4"),
            ("y", place.as_str()),
        ];
        if !number.is_empty() {
            m.leaf("text", &text, number);
        }
    }
    let (bottom, below) = (format!("{height}"), format!("{}", height + 5.0));
    let numbers = format!("{}", height + 18.0);
    for (tick, number) in &graph.across.ticks {
        let x = at(graph.across.percent(*tick));
        m.shape(
            "line",
            &[
                ("class", "zero"),
                ("x1", &x),
                ("x2", &x),
                ("y1", &bottom),
                ("y2", &below),
            ],
        );
        let text = [("class", "middle"), ("x", x.as_str()), ("y", &numbers)];
        if !number.is_empty() {
            m.leaf("text", &text, number);
        }
    }
}

/// Pixels from the top.
fn up(graph: &Graph<'_>, value: f64) -> f64 {
    graph.height * (1.0 - graph.up.percent(value) / 100.0)
}

/// Colour and mark of the curve with this number.
fn style(n: usize, base: &str) -> String {
    format!("{base} c{}", n % MARKS.len())
}

fn draw(m: &mut Markup, graph: &Graph<'_>, n: usize, curve: &Curve) {
    let height = graph.height;
    let place = |(x, y): (f64, f64)| {
        // lines are drawn in a picture 1000 wide, which is stretched
        format!("{:.1},{:.1}", 10.0 * graph.across.percent(x), up(graph, y))
    };
    let points: Vec<String> = thinned(&curve.points).into_iter().map(place).collect();
    let (view, tall) = (format!("0 0 1000 {height}"), format!("{height}"));
    let class = match curve.line {
        Line::Dashed => "curve dashed",
        Line::Solid | Line::None => "curve",
    };
    let class = style(n, class);
    let stretched = [
        ("width", "100%"),
        ("height", tall.as_str()),
        ("viewBox", view.as_str()),
        ("preserveAspectRatio", "none"),
        ("class", "stretched"),
    ];
    if curve.line != Line::None {
        m.within("svg", &stretched, |m| {
            m.shape(
                "polyline",
                &[("class", &class), ("points", &points.join(" "))],
            );
        });
        if curve.points.len() > MARKED {
            return;
        }
    }
    for (x, y) in &curve.points {
        let title = format!("{}, {}: {}", curve.name, short(*x), (graph.words)(*y));
        mark(m, n, &at(graph.across.percent(*x)), up(graph, *y), &title);
    }
}

fn mark(m: &mut Markup, n: usize, x: &str, y: f64, title: &str) {
    let y = format!("{y:.1}");
    m.within("svg", &[("x", x), ("y", &y), ("class", "at")], |m| {
        let shape = MARKS[n % MARKS.len()];
        m.within("path", &[("class", &style(n, "mark")), ("d", shape)], |m| {
            if !title.is_empty() {
                m.leaf("title", &[], title);
            }
        });
    });
}

/// The names of the curves where they end, moved apart.
fn names_at_the_end(m: &mut Markup, graph: &Graph<'_>) {
    let mut names: Vec<(usize, &str, f64)> = graph
        .curves
        .iter()
        .enumerate()
        .filter_map(|(n, curve)| Some((n, curve.name.as_str(), up(graph, curve.points.last()?.1))))
        .collect();
    names.sort_by(|a, b| a.2.total_cmp(&b.2));
    let mut lowest = f64::NEG_INFINITY;
    for (_, _, y) in &mut names {
        *y = y.max(lowest + NAME);
        lowest = *y;
    }
    let mut highest = graph.height + NAME;
    for (_, _, y) in names.iter_mut().rev() {
        *y = y.min(highest - NAME);
        highest = *y;
    }
    for (n, name, y) in names {
        let y = format!("{y:.1}");
        let place = [("x", "100%"), ("y", y.as_str()), ("class", "at")];
        m.within("svg", &place, |m| {
            let shape = MARKS[n % MARKS.len()];
            m.within("g", &[("transform", "translate(12 0)")], |m| {
                m.shape("path", &[("class", &style(n, "mark")), ("d", shape)]);
            });
            m.leaf("text", &[("x", "20"), ("y", "4")], name);
        });
    }
}

/// The points of a curve, or of a long one the smallest and the largest of each part, so that no dip is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 * PARTS {
        return points.to_vec();
    }
    points
        .chunks(points.len().div_ceil(PARTS))
        .flat_map(|part| {
            let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
            let low = part.iter().min_by(by_value).copied();
            let high = part.iter().max_by(by_value).copied();
            let mut ends: Vec<(f64, f64)> = low.into_iter().chain(high).collect();
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
            ends
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Vec<Curve> {
        vec![Curve::new("x", points.to_vec())]
    }

    #[test]
    fn a_logarithmic_axis_holds_the_values() {
        let check = |low: f64, high: f64, numbers: &[&str]| {
            let axis = Axis::delays(&curve(&[(1.0, low), (2.0, high)]));
            let told = axis.ticks.iter().map(|(_, number)| number.as_str());
            assert_eq!(told.collect::<Vec<_>>(), numbers);
            let (from, to) = (axis.percent(low), axis.percent(high));
            assert!((0.0..=100.0).contains(&from) && from < to && to <= 100.0);
        };
        check(23e3, 51e3, &["20 us", "50 us", "100 us"]);
        check(900.0, 1e3, &["500 ns", "1 us"]);
        check(
            20e3,
            1.05e6,
            &[
                "20 us", "50 us", "100 us", "200 us", "500 us", "1 ms", "2 ms",
            ],
        );
        let same = Axis::delays(&curve(&[(1.0, 15e3)]));
        assert_eq!(same.ticks.len(), 2);
        assert!(!Axis::delays(&curve(&[(1.0, 0.0)])).ticks.is_empty());
    }

    #[test]
    fn sizes_lie_where_their_bytes_are_and_their_numbers_have_room() {
        let axis = Axis::sizes(&curve(&[
            (1518.0, 1.0),
            (66.0, 1.0),
            (64.0, 1.0),
            (128.0, 2.0),
        ]));
        let places = [64.0, 128.0, 1518.0].map(|size| axis.percent(size));
        assert_eq!(places.map(|place| place.round()), [4.0, 8.0, 95.0]);
        let told: Vec<&str> = axis.ticks.iter().map(|(_, told)| told.as_str()).collect();
        assert_eq!(told, ["1518", "128", "", "64"]);
    }

    #[test]
    fn a_linear_cost_is_a_straight_line() {
        let cost = Cost::Linear {
            frame_ns: 700.0,
            unit_ns: 12.0,
            unit_ns_interval: (11.0, 13.0),
        };
        let points: Vec<(f64, f64)> = [0.0, 1.0, 10.0, 100.0, 1000.0]
            .map(|rules| (rules, 700.0 + 12.0 * rules))
            .into();
        let curves = curve(&points);
        let (across, up) = (
            Axis::parameter("rules", &curves),
            Axis::numbers("ns", &curves),
        );
        let at = |(x, y): (f64, f64)| (across.percent(x), up.percent(y));
        let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
        let places: Vec<(f64, f64)> = points.iter().copied().map(at).collect();
        let whole = slope(places[0], places[4]);
        for pair in places.windows(2) {
            assert!((slope(pair[0], pair[1]) / whole - 1.0).abs() < 1e-9);
        }
        let line = fitted(&cost, &points).unwrap();
        assert_eq!(line, [points[0], points[4]]);
    }

    #[test]
    fn a_dip_of_one_second_is_drawn() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|s| (f64::from(s), 7.0)).collect();
        points[54_321].1 = 1.0;
        let drawn = thinned(&points);
        assert!(drawn.len() <= 2 * PARTS);
        assert!(drawn.contains(&(54_321.0, 1.0)));
        assert!(drawn.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
}
