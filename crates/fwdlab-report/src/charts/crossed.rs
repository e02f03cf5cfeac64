//! Charts of a figure over two things that the test cases vary, such as frame size and flows: a
//! line for each value of one over the values of the other.
//!
//! Test cases that vary one thing, or no number, are rows. Start with [`crossed`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::Unit;
use fwdlab_model::test_case::TestCase;

use super::rates::quantity;
use crate::chart::{Axis, Chart, Curve, Curves, Scale, Size, partial, values};
use crate::name::{Number, label_without, slug, value};
use crate::procedures::charts::lines;
use crate::state::State;
use crate::table::capital;

/// Fewest values of a number that are an axis.
const VALUES: usize = 3;
/// With more lines than can be told apart, a chart is a heat map, which has this many rows and
/// columns at most: a value with its unit needs the width of a column.
const LINES: usize = 6;
const CELLS: (usize, usize) = (40, 10);

/// Returns the value of a number of a test case, if it has one.
fn number_of(case: &TestCase, number: Number) -> Option<f64> {
    let stream = &case.case.stream;
    match number {
        _ if case.case.variant.profile.is_some() => None,
        Number::Size => Some(f64::from(stream.frame_size_bytes.bytes())),
        Number::Flows => Some(f64::from(stream.flows)),
    }
}

/// Returns the distinct values of a number; none if a test case has no such number.
fn distinct(cases: &[&TestCase], number: Number) -> Vec<f64> {
    let all: Option<Vec<f64>> = cases.iter().map(|case| number_of(case, number)).collect();
    let mut all = all.unwrap_or_default();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Draws a figure of test cases that vary a number and something else; `None` if they do not.
pub(super) fn crossed(
    link: Option<LinkSpeed>,
    name: &str,
    unit: Unit,
    cases: &[&TestCase],
) -> Option<Chart> {
    let numbers = [Number::Size, Number::Flows];
    let (number, count) = numbers
        .map(|number| (number, distinct(cases, number).len()))
        .into_iter()
        .rev()
        .max_by_key(|(_, count)| *count)?;
    let mut curves: Vec<Curve> = Vec::new();
    for case in cases {
        let label = label_without(case, cases, Some(number));
        let place = curves.iter().position(|curve| curve.name == label);
        let place = place.unwrap_or_else(|| {
            curves.push(Curve::new(label, Vec::new()));
            curves.len() - 1
        });
        let (curve, at) = (&mut curves[place], number_of(case, number)?);
        let Some(figure) = case.figures.iter().find(|figure| figure.name == name) else {
            curve.gaps.push((at, State::reason(case)));
            continue;
        };
        curve.points.push((at, figure.median));
        let is_limited = figure.generator_limited > 0;
        curve.at_least.extend(is_limited.then_some(at));
        let limited = is_limited.then(|| "the generator is the limit".to_owned());
        let remark = limited.or_else(|| partial(figure.values.len(), case.iterations.len()));
        curve.hollow.extend(remark.map(|remark| (at, remark)));
    }
    let is_heat_map = curves.len() > LINES;
    let most = if is_heat_map { CELLS.0 } else { LINES };
    let is_crossed = count >= VALUES && (2..=most).contains(&curves.len());
    if is_heat_map && count > CELLS.1 {
        return None;
    }
    // several test cases at one place: they vary something that has no name
    let places = |curve: &Curve| curve.points.len() + curve.gaps.len();
    if !is_crossed
        || curves
            .iter()
            .any(|curve| places(curve) > count || places(curve) < 2)
    {
        return None;
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    if let (Number::Size, Unit::FramesPerSecond, false) = (number, unit, is_heat_map) {
        let most = values(&curves).fold(0.0, f64::max);
        let sizes = cases.iter().map(|case| case.case.stream.frame_size_bytes);
        let rates =
            sizes.filter_map(|size| Some((f64::from(size.bytes()), link?.line_rate_pps(size))));
        let mut rates: Vec<(f64, f64)> = rates
            .filter(|(_, pps)| *pps <= lines::AT_MOST * most)
            .collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        rates.dedup();
        if rates.len() > 1 {
            curves.push(Curve::new("line rate", rates).dashed());
        }
    }
    let across = match number {
        Number::Size => Axis::sizes(&curves),
        Number::Flows => Axis::logarithmic_parameter("flows", &curves),
    };
    let up = match unit {
        Unit::FramesPerSecond => Axis::rates(&curves),
        _ => {
            let scale = Scale::covering(values(&curves).chain([0.0]), 5);
            Axis::linear(name, scale, |at| value(unit, at)).reading(quantity(unit))
        }
    };
    let mut curves = Curves::new(across, up, curves);
    let has = |of: fn(&Curve) -> bool| curves.curves.iter().any(of);
    let hollow = has(|curve| !curve.hollow.is_empty());
    let gaps = has(|curve| !curve.gaps.is_empty());
    let words: &[(bool, &str)] = match is_heat_map {
        false => &[
            (hollow, "hollow: with a remark"),
            (gaps, "cross: no figure"),
        ],
        true => &[
            (true, "stronger colour: more"),
            (hollow, "hatched: with a remark"),
        ],
    };
    for (_, words) in words.iter().filter(|(is_used, _)| *is_used) {
        curves.up.title += &format!("; {words}");
    }
    if is_heat_map {
        curves.size = Size::Cells;
    }
    Some(Chart::curves(&slug(name), capital(name), curves))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Plot;

    /// Draws test cases of these sizes and flows: the values of the only figure, of two iterations.
    fn drawn(cases: &[(u32, u32, &[f64])]) -> Option<Curves> {
        let case = |(size, flows, values): &(u32, u32, &[f64])| -> TestCase {
            let median = values.first().copied().unwrap_or_default();
            let figure = serde_json::json!({
                "name": "receive rate", "unit": "frames/s", "better": "higher", "values": values, "median": median,
                "generator_limited": u32::from(*size == 1280),
            });
            let figures = if values.is_empty() {
                vec![]
            } else {
                vec![figure]
            };
            serde_json::from_value(serde_json::json!({
                "test_case": "x", "configuration": "plain", "ip_version": "ipv4", "frame_size_bytes": size,
                "flows": flows, "figures": figures, "outcomes": [],
                "iterations": [{ "iteration": 1, "failure": "the bed is gone" }, { "iteration": 2 }, { "iteration": 3 }],
            }))
            .unwrap()
        };
        let cases: Vec<TestCase> = cases.iter().map(case).collect();
        let cases: Vec<&TestCase> = cases.iter().collect();
        let chart = crossed(None, "receive rate", Unit::FramesPerSecond, &cases)?;
        match chart.plot {
            Plot::Curves(curves) => Some(curves),
            Plot::Rows(_) => None,
        }
    }

    #[test]
    fn two_things_are_lines_with_gaps_and_remarks() {
        let full: &[f64] = &[1e6, 1e6, 1e6];
        let crossed = drawn(&[
            (64, 1, full),
            (128, 1, &[]),
            (256, 1, full),
            (64, 2, full),
            (128, 2, &[2e6]),
            (256, 2, full),
        ]);
        let curves = crossed.unwrap().curves;
        let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["1 flow", "2 flows"]);
        assert_eq!(curves[0].points, [(64.0, 1e6), (256.0, 1e6)]);
        let gap = (128.0, "failed: the bed is gone".to_owned());
        assert_eq!(curves[0].gaps, [gap]);
        let remark = "from 1 of 3 iterations".to_owned();
        assert_eq!(curves[1].hollow, [(128.0, remark)]);
        // more lines than can be told apart are a heat map
        let sized = |size: u32| (1..=7).map(move |flows| (size, flows, full));
        let mut many: Vec<_> = [64, 128, 256, 512, 768, 1024, 1280]
            .into_iter()
            .flat_map(sized)
            .collect();
        many[7].2 = &[];
        many[8].2 = &[2e6];
        let heat = drawn(&many).unwrap();
        assert_eq!(heat.size, Size::Cells);
        let cell = |curve: usize, at: f64| heat.cell(&heat.curves[curve], at).unwrap();
        assert_eq!(
            (cell(0, 64.0).text, cell(0, 64.0).class),
            ("1.000 Mpps".into(), "h0")
        );
        assert_eq!(
            cell(0, 128.0).words,
            "1 flow, 128 B: failed: the bed is gone"
        );
        assert_eq!(
            (cell(1, 128.0).class, cell(1, 128.0).is_hatched),
            ("h6", true)
        );
        let limited = cell(6, 1280.0);
        assert_eq!(limited.text, ">= 1.000 Mpps");
        assert_eq!(
            limited.words,
            "7 flows, 1280 B: >= 1.000 Mpps, the generator is the limit"
        );
        // one thing, and two of two values each, are rows
        assert_eq!(
            drawn(&[(64, 1, full), (128, 1, full), (256, 1, full)]),
            None
        );
        let four = [(64, 1, full), (128, 1, full), (64, 2, full), (128, 2, full)];
        assert_eq!(drawn(&four), None);
    }
}
