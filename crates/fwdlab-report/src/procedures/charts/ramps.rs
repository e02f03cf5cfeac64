//! Charts of ramps of several runs or devices: forwarding rates over time, with the offered load
//! and the line rate. Start with [`ramps`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{Outcome, Ramp};
use fwdlab_model::units::FrameSize;

use super::lines::ceiling;
use crate::chart::{Axis, Chart, Curve, Curves, number_duplicates};

/// Draws ramps with the same frames in one graph each: over time if they offered the same load, and
/// always over the offered load. `named` has the name of each ramp in the graph. Skips ramps that
/// have no counterpart.
pub fn ramps<'a>(
    named: impl IntoIterator<Item = (String, &'a Outcome, Option<LinkSpeed>)>,
) -> Vec<Chart> {
    let mut groups: Vec<(String, Vec<(String, &Ramp)>)> = Vec::new();
    let mut links: Vec<(String, LinkSpeed, FrameSize)> = Vec::new();
    for (name, outcome, link) in named {
        let Some(ramp) = outcome.found.get::<Ramp>() else {
            continue;
        };
        let frames = crate::procedures::frames(outcome);
        let size = outcome.frame_size_bytes;
        let line = link.map(|link| (frames.clone(), link, size));
        links.extend(line.filter(|line| !links.contains(line)));
        match groups.iter_mut().find(|(own, _)| *own == frames) {
            Some((_, all)) => all.push((name, ramp)),
            None => groups.push((frames, vec![(name, ramp)])),
        }
    }
    groups.retain(|(_, all)| all.len() > 1);
    let mut charts = Vec::new();
    for (frames, all) in groups {
        let own = links.iter().filter(|(own, ..)| *own == frames);
        let own: Vec<(LinkSpeed, FrameSize)> = own.map(|(_, link, size)| (*link, *size)).collect();
        let ceilings = |curves: &[Curve]| -> Vec<Curve> {
            let lines = own.iter();
            lines
                .filter_map(|(link, size)| ceiling(*link, *size, curves))
                .collect()
        };
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
        let lines = ceilings(&curves);
        curves.push(Curve::new("no loss", vec![(0.0, 0.0), (most, most)]).dashed());
        curves.extend(lines);
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
            // the largest load that any of them offered in this second, as in the public viewer of
            // TRex load tests
            let own = (at(point), point.offered_load_pps());
            match offered.get_mut(n) {
                Some(most) => most.1 = most.1.max(own.1),
                None => offered.push(own),
            }
        }
        let lines = ceilings(&curves);
        curves.push(Curve::new("offered", offered).dashed());
        curves.extend(lines);
        let graph = Curves::new(Axis::time(&curves), Axis::rates(&curves), curves);
        charts.push(Chart::curves(
            "ramps-over-time",
            format!("Forwarded over time, {frames}"),
            graph,
        ));
    }
    number_duplicates(&mut charts);
    charts
}
