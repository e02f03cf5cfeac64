//! Charts of rates and other figures of test cases: a bar to the median, the range, a dot per
//! iteration, and the line rate.
//!
//! Start with [`forwarding_rates`] (windows) and [`figures`] (campaigns).

use fwdlab_model::outcome::Unit;
use fwdlab_model::result::{RunInfo, Summary};
use fwdlab_model::test_case::TestCase;

use super::crossed;
use crate::chart::{Axis, Chart, Mark, Quantity, Reference, Row, Scale, Tone, legend_of_values};
use crate::link;
use crate::name::{label, slug, value};
use crate::number::{rate, rate_with_interval};
use crate::procedures::charts::lines;
use crate::shape::{self, Labels, does_not_forward};
use crate::state::State;
use crate::table::shorten;

/// Width of the reason why a row has no figure, in columns; the table of failures has all of it.
const REASON: usize = 80;
/// Offered loads above this multiple of the largest forwarding rate are written at the edge, so
/// that rates stay legible.
const OFFERED_AT_MOST: f64 = 3.0;

/// Draws the forwarding rate of each test case, with the offered load.
pub(crate) fn forwarding_rates(info: &RunInfo, summary: &Summary) -> Chart {
    let all = shape::rated(summary);
    let labels = Labels::from_cases(&all);
    let rates = || all.iter().flat_map(|case| case.rates.iter().copied());
    let largest = rates().fold(0.0, f64::max);
    let offered = all.iter().filter_map(|c| c.found.offered_load_pps);
    let visible = offered.filter(|pps| largest == 0.0 || *pps <= OFFERED_AT_MOST * largest);
    let shown: Vec<f64> = rates().chain(visible).collect();
    let cases: Vec<&TestCase> = all.iter().map(|case| case.case).collect();
    let references = lines::of_cases(info, &cases, &shown);
    let all_shown = shown.iter().copied().chain(references.iter().map(|r| r.at));
    let axis = Axis::rates_along("forwarding rate", all_shown);
    let (_, end) = axis.ends();
    let mut legend = legend_of_values("iteration");
    legend.push((Tone::Offered, "offered load".into()));
    let rows = all.iter().map(|case| {
        let found = &case.found;
        let value = match (does_not_forward(&found.ledger), found.forwarding_rate_pps) {
            (true, _) => "does not forward".to_owned(),
            (false, None) => State::from_case(case.case).instead().to_owned(),
            (false, Some(pps)) => {
                let value = rate_with_interval(pps, case.half_width);
                match found.not_saturated {
                    true => format!("at least {value}"),
                    false => value,
                }
            }
        };
        let mut marks = Row::of_values(found.forwarding_rate_pps, case.rates, rate, "iteration");
        let mut beyond = String::new();
        match found.offered_load_pps {
            Some(pps) if pps <= end => marks.push(Mark::Line {
                at: pps,
                tone: Tone::Offered,
                words: format!("offered {}", rate(pps)),
            }),
            Some(pps) => beyond = format!("offered {}", rate(pps)),
            None => {}
        }
        let failure = case.case.failures().next();
        let failure = failure.filter(|_| found.forwarding_rate_pps.is_none());
        Row {
            label: labels.label(case),
            value,
            verdict: failure.map_or(String::new(), |(_, why)| shorten(why, REASON)),
            marks,
            beyond,
            ..Row::default()
        }
        .hatched(case.rates.len(), case.case.iterations.len())
    });
    Chart::rows("forwarding-rate", axis, legend, rows).with_references(references)
}

/// Draws the figures of a campaign, a chart for each.
pub(crate) fn figures(info: &RunInfo, cases: &[TestCase]) -> Vec<Chart> {
    let mut names: Vec<(&str, Unit)> = Vec::new();
    for figure in cases.iter().flat_map(|case| &case.figures) {
        if !names.contains(&(figure.name.as_str(), figure.unit)) {
            names.push((&figure.name, figure.unit));
        }
    }
    let charts = names.into_iter().map(|(name, unit)| {
        let of = |case: &TestCase| {
            let found = case.figures.iter().find(|figure| figure.name == name);
            found.map(|figure| (figure.median, figure.values.clone()))
        };
        // a test case without any figure appears in every chart, with the reason
        let shown: Vec<&TestCase> = cases
            .iter()
            .filter(|case| of(case).is_some() || case.figures.is_empty())
            .collect();
        if let Some(lines) = crossed::crossed(link::link_speed(info), name, unit, &shown) {
            return lines;
        }
        let all: Vec<f64> = shown
            .iter()
            .filter_map(|case| of(case))
            .flat_map(|(_, values)| values)
            .collect();
        let references: Vec<Reference> = match unit {
            Unit::FramesPerSecond => lines::of_cases(info, &shown, &all),
            _ => Vec::new(),
        };
        let ends = all.iter().copied().chain(references.iter().map(|r| r.at));
        let axis = axis_along(name, unit, ends);
        let rows = shown.iter().map(|case| {
            let label = label(case, cases);
            match of(case) {
                Some((median, values)) => Row {
                    label,
                    value: State::from_case(case).beside(unit, &value(unit, median)),
                    marks: Row::of_values(Some(median), &values, |v| value(unit, v), "iteration"),
                    ..Row::default()
                }
                .hatched(values.len(), case.iterations.len()),
                None => Row {
                    label,
                    value: State::from_case(case).instead().to_owned(),
                    verdict: (case.failures().next())
                        .map_or(String::new(), |(_, why)| shorten(why, REASON)),
                    ..Row::default()
                },
            }
        });
        Chart::rows(&slug(name), axis, legend_of_values("iteration"), rows)
            .titled(name)
            .with_references(references)
    });
    charts.collect()
}

/// Returns a horizontal axis for a figure, from zero.
pub(super) fn axis_along(name: &str, unit: Unit, ends: impl IntoIterator<Item = f64>) -> Axis {
    match unit {
        Unit::FramesPerSecond => Axis::rates_along(name, ends),
        _ => {
            let scale = Scale::covering(ends.into_iter().chain([0.0]), 6);
            let tick = |at: f64| match at == 0.0 {
                true => "0".into(),
                false => value(unit, at),
            };
            Axis::linear(name, scale, tick)
                .with_room()
                .reading(quantity(unit))
        }
    }
}

pub(super) fn quantity(unit: Unit) -> Quantity {
    match unit {
        Unit::FramesPerSecond => Quantity::Rate,
        Unit::Nanoseconds | Unit::Cost => Quantity::Delay,
        Unit::Seconds => Quantity::Seconds,
        Unit::Frames => Quantity::Frames,
        Unit::Percent => Quantity::Percent,
        Unit::Joules => Quantity::Energy,
        Unit::Instructions => Quantity::Number,
    }
}
