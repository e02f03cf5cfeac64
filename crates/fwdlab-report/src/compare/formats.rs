//! Renders a comparison as Markdown, CSV and ministat blocks.
//!
//! Markdown has the terminal's content in one table; CSV has plain numbers, one line per test case
//! and column; ministat has exactly the bytes that the tool prints. Start with [`markdown`].

use std::collections::BTreeSet;

use fwdlab_stats::ministat::{Level, MAX_SETS, Model, Options, Report};

use super::text::{difference_cell, equivalence_cell, equivalence_head, notes};
use super::{CompareError, Judged, Outcome, Row};
use crate::number::p_value;
use crate::table::{Cell as Text, Column, Mark, Table, csv_line, escaped};

/// Renders one table, then the sentences that qualify it.
pub fn markdown(outcome: &Outcome, judged: &[Judged]) -> String {
    let mut text = table(outcome).markdown();
    text.push('\n');
    for (name, sentence) in notes(outcome, judged, false, usize::MAX) {
        text.push_str(&format!("- {name}: {}\n", escaped(&sentence)));
    }
    text
}

/// Returns one table with a row per test case; the columns are next to each other.
pub(crate) fn table(outcome: &Outcome) -> Table {
    let scale = super::text::Scale::for_outcome(outcome);
    let mut columns = vec![Column::left(&scale.title(&outcome.metric), &[])];
    for (index, column) in outcome.columns.iter().enumerate() {
        columns.push(Column::plus_minus(&column.name, &[]));
        columns.push(Column::right("min - max", &[]));
        if index > 0 {
            columns.push(Column::left("difference", &[]));
            columns.push(Column::right("p", &[]));
            if let Some(head) = equivalence_head(outcome) {
                columns.push(Column::left(&head, &[]));
            }
        }
    }
    let mut table = Table::new(columns);
    for row in &outcome.rows {
        let mut cells = vec![row.test_case.clone()];
        for (index, cell) in row.cells.iter().enumerate() {
            cells.extend(
                cell.as_ref()
                    .map_or(["NA".into(), String::new()], |c| scale.cell(c)),
            );
            if index > 0 {
                let compared = row
                    .comparisons
                    .iter()
                    .find(|c| c.column == outcome.columns[index].name);
                let [value, would] =
                    compared.map_or([String::new(), String::new()], difference_cell);
                cells.push(if would.is_empty() {
                    value
                } else {
                    format!("{value}; {would}")
                });
                let p = compared.and_then(|c| c.p_value_adjusted.or(c.p_value));
                cells.push(p.map_or(String::new(), p_value));
                if equivalence_head(outcome).is_some() {
                    let [claim, _] =
                        compared.map_or([String::new(), String::new()], equivalence_cell);
                    cells.push(claim);
                }
            }
        }
        table.push(Mark::None, cells.into_iter().map(Text::text).collect());
    }
    table
}

/// A line of the CSV.
struct Entry<'a> {
    outcome: &'a Outcome,
    cell: &'a super::Cell,
    compared: Option<&'a super::Compared>,
}

impl Entry<'_> {
    fn of(&self, get: fn(&super::Compared) -> Option<f64>) -> String {
        optional(self.compared.and_then(get))
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// The name of a field, and its text in a line.
type Field = (&'static str, fn(&Entry<'_>) -> String);

/// The fields after test case and labels.
#[rustfmt::skip]
const FIELDS: [Field; 25] = [
    ("metric", |e| e.outcome.metric.clone()),
    ("unit", |e| e.outcome.unit.clone()),
    ("by", |e| e.outcome.by.clone()),
    ("baseline", |e| e.outcome.baseline.clone()),
    ("column", |e| e.cell.column.clone()),
    ("n", |e| e.cell.n.to_string()),
    ("median", |e| e.cell.median.to_string()),
    ("min", |e| e.cell.min.to_string()),
    ("max", |e| e.cell.max.to_string()),
    ("mean", |e| e.cell.mean.to_string()),
    ("stdev", |e| optional(e.cell.stdev)),
    ("interval_half_width_percent", |e| optional(e.cell.interval_half_width_percent)),
    ("left_out", |e| e.cell.left_out.to_string()),
    ("pairs", |e| optional(e.compared.and_then(|c| Some(c.pairs.as_ref()?.n)))),
    ("test", |e| optional(e.compared.map(|c| c.test))),
    ("difference", |e| e.of(|c| c.difference)),
    ("difference_percent", |e| e.of(|c| c.difference_percent)),
    ("interval_low_percent", |e| e.of(|c| c.interval_percent.map(|[low, _]| low))),
    ("interval_high_percent", |e| e.of(|c| c.interval_percent.map(|[_, high]| high))),
    ("detectable_percent", |e| e.of(|c| c.detectable_percent)),
    ("p_value", |e| e.of(|c| c.p_value)),
    ("p_value_adjusted", |e| e.of(|c| c.p_value_adjusted)),
    ("verdict", |e| {
        let verdict = e.compared.and_then(|c| serde_json::to_value(c.verdict).ok());
        optional(verdict.as_ref().and_then(|v| v.as_str()))
    }),
    ("equivalence", |e| optional(e.compared.and_then(|c| Some(c.equivalence.as_ref()?.verdict)))),
    ("warnings", |e| {
        let compared = e.compared.into_iter().flat_map(|c| &c.warnings);
        let all: Vec<&str> = e.cell.warnings.iter().chain(compared).map(String::as_str).collect();
        all.join("; ")
    }),
];

/// Renders one line per test case and column, including the baseline, with its comparison (RFC
/// 4180).
pub fn csv(outcome: &Outcome) -> String {
    let keys: BTreeSet<&str> = outcome
        .rows
        .iter()
        .flat_map(|row| row.labels.keys().map(String::as_str))
        .collect();
    let mut head = vec!["test_case"];
    head.extend(&keys);
    head.extend(FIELDS.map(|(name, _)| name));
    let mut text = csv_line(head.into_iter());
    for row in &outcome.rows {
        for index in 0..row.cells.len() {
            let fields = fields(outcome, row, index, &keys);
            if let Some(fields) = fields {
                text.push_str(&csv_line(fields.iter().map(String::as_str)));
            }
        }
    }
    text
}

fn fields(
    outcome: &Outcome,
    row: &Row,
    index: usize,
    keys: &BTreeSet<&str>,
) -> Option<Vec<String>> {
    let cell = row.cells[index].as_ref()?;
    let compared = row
        .comparisons
        .iter()
        .find(|c| c.column == cell.column && index > 0);
    let mut fields = vec![row.test_case.clone()];
    fields.extend(keys.iter().map(|key| optional(row.labels.get(*key))));
    let entry = Entry {
        outcome,
        cell,
        compared,
    };
    fields.extend(FIELDS.map(|(_, value)| value(&entry)));
    Some(fields)
}

/// Renders the output of a version of ministat, byte for byte; several rows have titles.
///
/// # Errors
/// [`CompareError::Ministat`]: it takes 1 to 7 sets of at least 3 values, and six levels of
/// confidence.
pub fn ministat(outcome: &Outcome, model: Model) -> Result<Vec<u8>, CompareError> {
    let mut out = Vec::new();
    for (index, row) in outcome.rows.iter().enumerate() {
        let error = |reason: String| CompareError::Ministat {
            test_case: row.test_case.clone(),
            why: reason,
        };
        let level = Level::from_percent(outcome.confidence_percent).ok_or_else(|| {
            let levels: Vec<String> = Level::ALL.iter().map(|l| l.percent().to_string()).collect();
            error(format!("it supports the confidences {}", levels.join(", ")))
        })?;
        let cells: Vec<_> = row.cells.iter().flatten().collect();
        if cells.len() > MAX_SETS {
            return Err(error(format!(
                "it supports {MAX_SETS} sets, but there are {}",
                cells.len()
            )));
        }
        let sets = cells
            .iter()
            .map(|cell| (cell.column.clone().into_bytes(), cell.values.clone()))
            .collect();
        let options = Options {
            model,
            level,
            ..Options::default()
        };
        let report = Report::new(sets, &options).map_err(|reason| error(reason.to_string()))?;
        if outcome.rows.len() > 1 {
            let blank = if index == 0 { "" } else { "\n" };
            out.extend_from_slice(format!("{blank}# {}\n", row.test_case).as_bytes());
        }
        out.extend_from_slice(&report.render());
    }
    Ok(out)
}
