//! Finds change points: where a series of runs steps up or down.
//!
//! The columns are the elements of the series, in order; if there is only one column, its values
//! are. [`fwdlab_stats::partition`] makes the cuts (jumpavg of FD.io CSIT). Start with [`changes`].

use fwdlab_model::outcome::Better;
use fwdlab_model::series::Series;
use fwdlab_stats::{Sample, Shift};
use serde::Serialize;

use super::arrange::all_rows;
use super::judge::not_comparable;
use super::{CompareError, Options, Source};

/// The groups of every test case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changes {
    /// Name of the metric.
    pub metric: String,
    /// Unit of all values; empty for bare numbers.
    pub unit: String,
    /// One entry per test case.
    pub rows: Vec<Groups>,
}

/// A series cut into groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Groups {
    /// The test case in words.
    pub test_case: String,
    /// The groups in order; together they are the series.
    pub groups: Vec<Group>,
    /// Description length in bits, which the cuts minimize.
    pub bits: f64,
    /// Elements without a valid value, which are skipped.
    pub missing: Vec<String>,
    /// Elements whose counts are not comparable with those of the last element, and why; they are
    /// skipped.
    pub not_comparable: Vec<String>,
    /// The median of every element, with its number among all, from 1.
    #[serde(skip)]
    pub medians: Vec<(usize, f64)>,
}

/// A part of the series that is one population.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Number of the first element, from 1.
    pub first: usize,
    /// Number of the last element.
    pub last: usize,
    /// Name of the first element.
    pub from: String,
    /// Name of the last element.
    pub to: String,
    /// Number of values.
    pub n: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Standard deviation of the values (population).
    pub stdev: f64,
    /// `first`, `regression` (worse than before) or `progression`.
    pub shift: &'static str,
    /// Difference from the mean of the previous group; absent for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_percent: Option<f64>,
    /// True for a last group of one element: wait for the next run before raising an alarm.
    pub unconfirmed: bool,
}

/// Cuts the series of every test case into groups.
///
/// # Errors
/// See [`CompareError`].
pub fn changes(sources: &[Source], options: &Options) -> Result<Changes, CompareError> {
    let arranged = all_rows(sources, options)?;
    let mut rows = Vec::new();
    for line in &arranged.rows {
        let mut elements: Vec<(String, Vec<f64>)> = Vec::new();
        let mut missing = Vec::new();
        let mut not_alike = Vec::new();
        let mut medians = Vec::new();
        let better = line.cells.iter().flatten().next().map(|one| one.better);
        let has_value = |cell: &&Vec<&Series>| cell.iter().any(|one| !one.values.is_empty());
        let last = line.cells.iter().rfind(has_value);
        for (number, (column, cell)) in (1..).zip(arranged.columns.iter().zip(&line.cells)) {
            if let Some(why) = last.and_then(|last| not_comparable([last, cell], "")) {
                not_alike.push(format!("{}: {why}", column.name));
                continue;
            }
            let values: Vec<f64> = cell.iter().flat_map(|s| s.values.clone()).collect();
            let sample = Sample::new(values.clone());
            medians.extend(sample.ok().map(|sample| (number, sample.median())));
            if arranged.columns.len() == 1 {
                let each = values.iter().enumerate();
                elements.extend(each.map(|(i, v)| (format!("value {}", i + 1), vec![*v])));
            } else if values.is_empty() {
                missing.push(column.name.clone());
            } else {
                elements.push((column.name.clone(), values));
            }
        }
        rows.push(Groups {
            medians,
            missing,
            not_comparable: not_alike,
            ..groups(&line.test_case, &elements, better.unwrap_or_default())?
        });
    }
    Ok(Changes {
        metric: options.metric.clone(),
        unit: arranged.unit,
        rows,
    })
}

fn groups(
    test_case: &str,
    elements: &[(String, Vec<f64>)],
    better: Better,
) -> Result<Groups, CompareError> {
    let error = |reason: &str| CompareError::NoChanges {
        test_case: test_case.to_owned(),
        why: reason.to_owned(),
    };
    let samples = elements
        .iter()
        .map(|(name, values)| {
            Sample::new(values.clone()).map_err(|reason| error(&format!("{name}: {reason}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let partition = fwdlab_stats::partition(&samples)
        .filter(|found| found.bits.is_finite())
        .ok_or_else(|| error("change points need at least one value and no negative values"))?;
    let mut groups: Vec<Group> = Vec::new();
    for found in &partition.groups {
        let difference_percent = groups
            .last()
            .filter(|before| before.mean != 0.0)
            .map(|before| 100.0 * (found.mean / before.mean - 1.0));
        let (first, last) = (found.range.start, found.range.end - 1);
        groups.push(Group {
            first: first + 1,
            last: last + 1,
            from: elements[first].0.clone(),
            to: elements[last].0.clone(),
            n: samples[first..=last].iter().map(Sample::n).sum(),
            mean: found.mean,
            stdev: found.stdev,
            shift: match (found.shift, better) {
                (Shift::First, _) => "first",
                (Shift::Down, Better::Higher) | (Shift::Up, Better::Lower) => "regression",
                (Shift::Up, Better::Higher) | (Shift::Down, Better::Lower) => "progression",
            },
            difference_percent,
            unconfirmed: first > 0 && first == last && last + 1 == elements.len(),
        });
    }
    Ok(Groups {
        test_case: test_case.to_owned(),
        groups,
        bits: partition.bits,
        missing: Vec::new(),
        not_comparable: Vec::new(),
        medians: Vec::new(),
    })
}
