//! Charts of rates and costs over the values of a parameter, with the line on which every unit
//! would cost the same.
//!
//! Start with [`sweep`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{Cost, Outcome, Paired, Sweep};
use fwdlab_model::units::FrameSize;

use super::lines::ceiling;
use super::of_type;
use crate::chart::{Axis, Chart, Curve, Curves, Plot, Quantity, Size};
use crate::procedures::frames;

/// Number of segments of a curved line.
const STEPS: u32 = 40;

/// Draws the cost of configurations compared with the reference, over the values of a parameter,
/// with the fitted line, and the distances from it.
pub(in crate::procedures) fn differences(charts: &mut Vec<Chart>, outcomes: &[&Outcome]) {
    let (mut parameter, mut costs, mut rests) = (String::new(), Vec::new(), Vec::new());
    for (outcome, found) in of_type::<Paired>(outcomes) {
        let (Some(of), Some(slope)) = (&found.parameter, &found.slope) else {
            continue;
        };
        parameter.clone_from(of);
        let points = found.points.iter();
        let points = points.filter_map(|point| Some((point.value? as f64, point.cost_ns?)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let on_line = |value: f64| slope.fixed_ns + slope.unit_ns * value;
        let line = points.iter().map(|&(value, _)| (value, on_line(value)));
        costs.push(Curve::new("fitted line", line.collect()).dashed());
        let rest = points
            .iter()
            .map(|&(value, cost)| (value, cost - on_line(value)));
        rests.push(Curve::new(frames(outcome), rest.collect()));
        costs.push(Curve::new(frames(outcome), points));
    }
    if costs.iter().all(|curve| curve.points.len() < 2) {
        return;
    }
    let chart = |title: &str, curves: Vec<Curve>, size| {
        let across = Axis::parameter(&parameter, &curves);
        let up = Axis::numbers("nanoseconds per frame", &curves).reading(Quantity::Nanoseconds);
        let mut graph = Curves::new(across, up, curves);
        graph.size = size;
        Chart::curves("cost", title, graph)
    };
    let title = "Time per frame more than the reference DUT takes";
    charts.push(chart(title, costs, Size::default()));
    charts.push(chart("Distance from the fitted line", rests, Size::Strip));
}

/// Draws the forwarding rate over the values of a parameter, the time per frame, and how far it is
/// from a straight line, on which it would be if every unit cost the same.
pub(in crate::procedures) fn sweep(
    charts: &mut Vec<Chart>,
    outcomes: &[&Outcome],
    link: Option<LinkSpeed>,
) {
    let named = outcomes.iter().map(|one| (frames(one), *one, link));
    let named: Vec<Named<'_>> = named.collect();
    charts.extend(graphs(&named));
}

/// A sweep with its name and its link.
pub(crate) type Named<'a> = (String, &'a Outcome, Option<LinkSpeed>);

/// Draws sweeps of several systems over the same parameter with the same frames, in one graph each.
/// Skips sweeps that have no counterpart.
pub(crate) fn combine(all: &[Named<'_>]) -> Vec<Chart> {
    let mut groups: Vec<(String, Vec<Named<'_>>)> = Vec::new();
    for one in all {
        let Some(found) = one.1.found.get::<Sweep>() else {
            continue;
        };
        let of = format!("{}, {}", found.parameter, frames(one.1));
        match groups.iter_mut().find(|(own, _)| *own == of) {
            Some((_, own)) => own.push(one.clone()),
            None => groups.push((of, vec![one.clone()])),
        }
    }
    let charts = groups
        .into_iter()
        .filter(|(_, own)| own.len() > 1)
        .flat_map(|(of, own)| {
            graphs(&own).into_iter().map(move |chart| Chart {
                name: "sweeps-together".into(),
                title: format!("{}, {of}", chart.title),
                ..chart
            })
        });
    charts.collect()
}

/// Draws the graphs of sweeps over one parameter.
fn graphs(all: &[Named<'_>]) -> Vec<Chart> {
    let mut parameter = String::new();
    let (mut rates, mut costs, mut rests) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_fitted = true;
    let mut ceilings: Vec<(LinkSpeed, FrameSize)> = Vec::new();
    for (name, outcome, link) in all {
        let Some(found) = outcome.found.get::<Sweep>() else {
            continue;
        };
        parameter.clone_from(&found.parameter);
        let points = found.points.iter();
        let points = points.filter_map(|p| Some((p.value as f64, p.median_pps?)));
        let mut points: Vec<_> = points.filter(|(_, pps)| *pps > 0.0).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.len() < 2 {
            continue;
        }
        let of_frame = points.iter().map(|(value, pps)| (*value, 1e9 / pps));
        let of_frame: Vec<(f64, f64)> = of_frame.collect();
        let before = if all.len() > 1 {
            format!("{name}, ")
        } else {
            String::new()
        };
        let missing = found.points.iter().filter(|p| p.median_pps.is_none());
        let gaps: Vec<(f64, String)> = missing
            .map(|point| (point.value as f64, "no result".into()))
            .collect();
        let curve = |points| Curve {
            gaps: gaps.clone(),
            ..Curve::new(name.clone(), points)
        };
        rates.push(curve(points.clone()));
        if Sweep::is_resource_sweep(parameter.as_str()) {
            let one = points[0].1 / points[0].0.max(1.0);
            let linear = points
                .iter()
                .map(|(cores, _)| (*cores, one * cores))
                .collect();
            rates.push(Curve::new(format!("{before}linear reference"), linear).dashed());
            continue;
        }
        let line = found.cost().and_then(|cost| fitted(cost, &points));
        // if the cost is not linear, the line through both ends shows the deviation
        let (which, line) = match line {
            Some(line) => ("fitted", line),
            None => (
                "linear reference",
                vec![of_frame[0], of_frame[of_frame.len() - 1]],
            ),
        };
        is_fitted &= which == "fitted";
        if let [(from, low), .., (to, high)] = line[..] {
            let slope = (high - low) / (to - from).max(f64::MIN_POSITIVE);
            let rest = of_frame.iter();
            let rest = rest.map(|(value, cost)| (*value, cost - low - slope * (value - from)));
            rests.push(curve(rest.collect()));
        }
        costs.push(curve(of_frame));
        let which = format!("{before}{which}");
        rates.push(Curve::new(which.clone(), rates_of(&line, &points)).dashed());
        costs.push(Curve::new(which, line).dashed());
        let size = outcome.frame_size_bytes;
        ceilings.extend(
            link.map(|link| (link, size))
                .filter(|one| !ceilings.contains(one)),
        );
    }
    rates.retain(|curve| curve.points.len() > 1);
    costs.retain(|curve| curve.points.len() > 1);
    rests.retain(|curve| curve.points.len() > 1);
    if rates.is_empty() {
        return Vec::new();
    }
    let lines = ceilings.into_iter();
    let lines: Vec<Curve> = lines
        .filter_map(|(link, size)| ceiling(link, size, &rates))
        .collect();
    rates.extend(lines);
    let graph = |title: String, up: Axis, curves: &[Curve]| {
        let across = Axis::parameter(&parameter, curves);
        Chart::curves("sweep", title, Curves::new(across, up, curves.to_vec()))
    };
    let times =
        |title: &str, curves: &[Curve]| Axis::numbers(title, curves).reading(Quantity::Nanoseconds);
    let mut charts = vec![graph("Forwarding rate".into(), Axis::rates(&rates), &rates)];
    if !costs.is_empty() {
        let up = times("nanoseconds per frame", &costs);
        let cost = match is_fitted {
            true => "",
            false => ": not linear",
        };
        charts.push(graph(format!("Time per frame{cost}"), up, &costs));
    }
    if !rests.is_empty() {
        let title = match is_fitted {
            true => "Distance from the fitted line",
            false => "Distance from a straight line",
        };
        let up = times("nanoseconds per frame", &rests);
        let mut rest = graph(title.into(), up, &rests);
        if let Plot::Curves(curves) = &mut rest.plot {
            curves.size = Size::Strip;
        }
        charts.push(rest);
    }
    charts
}

/// Returns the fitted line of the cost, if the cost is linear.
fn fitted(cost: &Cost, points: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let (frame_ns, unit_ns) = match *cost {
        Cost::Constant { frame_ns } => (frame_ns, 0.0),
        Cost::Linear {
            frame_ns, unit_ns, ..
        } => (frame_ns, unit_ns),
        Cost::Logarithmic { .. } | Cost::Cliff { .. } | Cost::Stretches { .. } => return None,
    };
    let ends = [points.first()?.0, points.last()?.0];
    Some(ends.map(|value| (value, frame_ns + unit_ns * value)).into())
}

/// Converts the line to rates: the forwarding rate if every unit cost the same. It is curved, so it
/// also has points between the measured values.
fn rates_of(line: &[(f64, f64)], points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let [(first, low), .., (last, high)] = line else {
        return Vec::new();
    };
    let slope = (high - low) / (last - first).max(f64::MIN_POSITIVE);
    let cost = |value: f64| low + slope * (value - first);
    let even = (0..=STEPS).map(|n| first + (last - first) * f64::from(n) / f64::from(STEPS));
    let mut all: Vec<f64> = even.chain(points.iter().map(|(value, _)| *value)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let rates = all.into_iter().map(|value| (value, 1e9 / cost(value)));
    rates
        .filter(|(_, pps)| pps.is_finite() && *pps > 0.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let curves = vec![Curve::new("x", points.clone())];
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
        // and a curved line of rates, which meets the measured values
        let rates = rates_of(&line, &points);
        for (value, cost) in &points {
            let (_, pps) = rates.iter().find(|(own, _)| own == value).unwrap();
            assert!((pps * cost / 1e9 - 1.0).abs() < 1e-9);
        }
        assert!(rates.windows(2).all(|pair| pair[0].1 > pair[1].1));
    }
}
