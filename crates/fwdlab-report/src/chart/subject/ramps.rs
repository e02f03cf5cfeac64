//! Ramps of several runs or devices in one graph: what each forwarded over time, beside what was offered.

use fwdlab_model::outcome::{Found, Outcome, Ramp};

use super::named_apart;
use crate::chart::{Axis, Chart, Curve, Curves};

/// Ramps with the same frames in one graph each: over time where they offered the same, and over the offered load always. `named` gives
/// each its name in the graph; ramps that are alone in what they send are left out.
pub fn ramps<'a>(named: impl IntoIterator<Item = (String, &'a Outcome)>) -> Vec<Chart> {
    let mut groups: Vec<(String, Vec<(String, &Ramp)>)> = Vec::new();
    for (name, outcome) in named {
        let Found::Ramp(ramp) = &outcome.found else {
            continue;
        };
        let frames = crate::procedures::frames(outcome);
        match groups.iter_mut().find(|(own, _)| *own == frames) {
            Some((_, all)) => all.push((name, ramp)),
            None => groups.push((frames, vec![(name, ramp)])),
        }
    }
    groups.retain(|(_, all)| all.len() > 1);
    let mut charts = Vec::new();
    for (frames, all) in groups {
        let mut curves: Vec<Curve> = all
            .iter()
            .map(|(name, ramp)| {
                let points = ramp
                    .samples
                    .iter()
                    .map(|s| (s.offered_load_pps(), s.forwarding_rate_pps()));
                let mut points: Vec<(f64, f64)> = points.collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Curve::new(name.clone(), points)
            })
            .collect();
        let most = curves
            .iter()
            .flat_map(|c| c.points.last())
            .map(|p| p.0)
            .fold(0.0, f64::max);
        curves.push(Curve::new("no loss", vec![(0.0, 0.0), (most, most)]).dashed());
        let graph = Curves::new(
            Axis::loads("offered load", &curves),
            Axis::rates(&curves),
            curves,
        );
        charts.push(Chart::curves(
            "ramps-over-load",
            format!("Forwarded over offered, {frames}"),
            graph,
        ));
        let at = |s: &fwdlab_model::procedure::Interval| {
            (s.at_ns as f64 + s.length_ns as f64 / 2.0) / 1e9
        };
        let mut curves: Vec<Curve> = all
            .iter()
            .map(|(name, ramp)| {
                let points = ramp
                    .samples
                    .iter()
                    .map(|s| (at(s), s.forwarding_rate_pps()));
                Curve::new(name.clone(), points.collect())
            })
            .collect();
        let mut offered: Vec<(f64, f64)> = Vec::new();
        for (n, point) in all
            .iter()
            .flat_map(|(_, ramp)| ramp.samples.iter().enumerate())
        {
            // the most that any of them offered in a second, as the public viewer of TRex load tests draws it
            let own = (at(point), point.offered_load_pps());
            match offered.get_mut(n) {
                Some(most) => most.1 = most.1.max(own.1),
                None => offered.push(own),
            }
        }
        curves.push(Curve::new("offered", offered).dashed());
        let graph = Curves::new(Axis::time(&curves), Axis::rates(&curves), curves);
        charts.push(Chart::curves(
            "ramps-over-time",
            format!("Forwarded over time, {frames}"),
            graph,
        ));
    }
    named_apart(&mut charts);
    charts
}
