//! Change points: where a series over runs steps up or down.
//!
//! Columns are the elements of the series, in their order; with a single column its values are. The cut is made by
//! [`fwdlab_stats::partition`] (jumpavg of FD.io CSIT). Start with [`changes`].

use fwdlab_stats::{Sample, Shift};
use serde::Serialize;

use super::arrange::all_rows;
use super::{CompareError, Options, Source};

/// The groups of every test case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changes {
    /// What is looked at.
    pub metric: String,
    /// Unit of all values; empty for bare numbers.
    pub unit: String,
    /// One per test case.
    pub rows: Vec<Groups>,
}

/// A series cut into groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Groups {
    /// The test case in words.
    pub test_case: String,
    /// The groups in order; together they are the series.
    pub groups: Vec<Group>,
    /// Length of the description, which the cut makes as short as possible.
    pub bits: f64,
    /// Elements without a valid value: they are passed over.
    pub missing: Vec<String>,
}

/// A stretch of the series that is one population.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Place of its first element, from 1.
    pub first: usize,
    /// Place of its last element.
    pub last: usize,
    /// Name of its first element.
    pub from: String,
    /// Name of its last element.
    pub to: String,
    /// Values in it.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (population).
    pub stdev: f64,
    /// `first`, `regression` or `progression`.
    pub shift: &'static str,
    /// Against the mean of the group before; absent for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_percent: Option<f64>,
    /// The last group, of one element: wait for the next before an alarm.
    pub unconfirmed: bool,
}

/// Cuts the series of every test case.
///
/// # Errors
/// See [`CompareError`].
pub fn changes(sources: &[Source], options: &Options) -> Result<Changes, CompareError> {
    let arranged = all_rows(sources, options)?;
    let mut rows = Vec::new();
    for line in &arranged.rows {
        let mut elements: Vec<(String, Vec<f64>)> = Vec::new();
        let mut missing = Vec::new();
        for (column, cell) in arranged.columns.iter().zip(&line.cells) {
            let values: Vec<f64> = cell.iter().flat_map(|s| s.values.clone()).collect();
            if arranged.columns.len() == 1 {
                let each = values.iter().enumerate();
                elements.extend(each.map(|(i, v)| (format!("value {}", i + 1), vec![*v])));
            } else if values.is_empty() {
                missing.push(column.name.clone());
            } else {
                elements.push((column.name.clone(), values));
            }
        }
        rows.push(groups(&line.test_case, &elements, missing)?);
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
    missing: Vec<String>,
) -> Result<Groups, CompareError> {
    let error = |why: &str| CompareError::NoChanges {
        test_case: test_case.to_owned(),
        why: why.to_owned(),
    };
    let samples = elements
        .iter()
        .map(|(name, values)| {
            Sample::new(values.clone()).map_err(|why| error(&format!("{name}: {why}")))
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
            shift: match found.shift {
                Shift::First => "first",
                Shift::Down => "regression",
                Shift::Up => "progression",
            },
            difference_percent,
            unconfirmed: first > 0 && first == last && last + 1 == elements.len(),
        });
    }
    Ok(Groups {
        test_case: test_case.to_owned(),
        groups,
        bits: partition.bits,
        missing,
    })
}
