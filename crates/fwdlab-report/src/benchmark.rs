//! Renders figures for tools that track benchmarks: github-action-benchmark and Bencher.
//!
//! Both take a value for each name, and a range. Bencher's metric format has lower and upper
//! values, and its users say there which way is better; github-action-benchmark has files of which
//! smaller, or of which larger values are better. Start with [`bencher`].

use fwdlab_model::outcome::Better;
use fwdlab_model::series::metric;
use fwdlab_model::test_case::{CaseFigure, TestCase};
use serde_json::{Map, Value, json};

use crate::run::Run;
use crate::thresholds::interval;

/// Renders figures in Bencher's metric format: by test case and metric. The interval is absent if
/// the values do not determine one.
pub fn bencher(runs: &[Run<'_>]) -> Value {
    let mut all = Map::new();
    for (name, case, figure) in figures(runs) {
        let mut value = json!({ "value": figure.median });
        if let Some([low, high]) = interval(case, figure) {
            value["lower_value"] = low.into();
            value["upper_value"] = high.into();
        }
        let measures = all.entry(name).or_insert_with(|| json!({}));
        measures[metric(&figure.name)] = value;
    }
    all.into()
}

/// Renders figures for github-action-benchmark, for its `customSmallerIsBetter` or
/// `customBiggerIsBetter`.
///
/// # Errors
/// The names of two figures of which smaller and larger values are better: one file cannot contain
/// both.
pub fn github_action(runs: &[Run<'_>]) -> Result<Value, String> {
    let mut first: Option<(&str, Better)> = None;
    let mut entries = Vec::new();
    for (name, case, figure) in figures(runs) {
        let (other, better) = *first.get_or_insert((&figure.name, figure.better));
        if better != figure.better {
            return Err(format!(
                "{other} and {} cannot be in one file of github-action-benchmark, because smaller values of one and larger values of \
                 the other are better; use bencher or csv",
                figure.name
            ));
        }
        let mut entry = json!({
            "name": format!("{name} {}", figure.name),
            "unit": figure.unit.symbol(),
            "value": figure.median,
        });
        if let Some([low, high]) = interval(case, figure) {
            entry["range"] = format!("{low} to {high}").into();
        }
        entries.push(entry);
    }
    Ok(entries.into())
}

/// Returns all figures with the names of their test cases, which contain the run if there are
/// several.
fn figures<'a>(
    runs: &'a [Run<'_>],
) -> impl Iterator<Item = (String, &'a TestCase, &'a CaseFigure)> {
    let cases = runs
        .iter()
        .flat_map(|run| run.summary.test_cases.iter().map(move |case| (run, case)));
    cases.flat_map(move |(run, case)| {
        let name = match runs {
            [_] => case.test_case.clone(),
            _ => format!("{}/{}", run.name, case.test_case),
        };
        case.figures
            .iter()
            .map(move |figure| (name.clone(), case, figure))
    })
}
