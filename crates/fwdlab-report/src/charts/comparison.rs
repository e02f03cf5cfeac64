//! Charts of a comparison of runs: the differences with their intervals, and the values behind
//! them. Start with [`differences`].

use super::differences::tone;
use crate::chart::{Axis, Chart, Mark, Quantity, Row, Scale, Tone, legend_of_values};
use crate::compare::{Outcome, Scale as Written, difference_cell};
use crate::number::{difference, interval};

/// Largest number of values of a column that are drawn as dots; more could not be told apart.
const DOTS: usize = 60;

/// Draws differences in percent around zero, by test case.
pub(crate) fn differences(outcome: &Outcome) -> Chart {
    let compared = || outcome.rows.iter().flat_map(|row| &row.comparisons);
    let ends = compared().flat_map(|c| {
        let ends = c.interval_percent.into_iter().flatten();
        ends.chain(c.difference_percent)
    });
    let wide = format!("{} % interval", outcome.confidence_percent);
    let mut rows = Vec::new();
    for test_case in &outcome.rows {
        for (index, compared) in test_case.comparisons.iter().enumerate() {
            let [value, would] = difference_cell(compared);
            let mut marks = Vec::new();
            marks.extend(compared.interval_percent.map(|[low, high]| Mark::Bar {
                from: low,
                to: high,
                tone: tone(compared.verdict),
                words: format!("{wide} {} %", interval([low, high])),
            }));
            marks.extend(compared.difference_percent.map(|percent| Mark::Line {
                at: percent,
                tone: Tone::Mean,
                words: format!("{} %", difference(percent, compared.interval_percent)),
            }));
            rows.push(Row {
                group: first(index, &test_case.test_case),
                label: compared.column.clone(),
                value,
                verdict: would,
                marks,
                ..Row::default()
            });
        }
    }
    Chart::rows(
        "comparison",
        Axis::differences(&format!("difference from {}, %", outcome.baseline), ends),
        vec![
            (Tone::Interval, wide.clone()),
            (Tone::Mean, "difference".into()),
        ],
        rows,
    )
}

/// Returns `name` for the first of several rows that share it, and nothing for the others.
fn first(index: usize, name: &str) -> String {
    match index {
        0 => name.to_owned(),
        _ => String::new(),
    }
}

/// Draws the values of each column: a bar to the median, the range, a dot per value.
pub(crate) fn values(outcome: &Outcome, written: &Written) -> Chart {
    let cells = || {
        outcome
            .rows
            .iter()
            .flat_map(|row| row.cells.iter().flatten())
    };
    let ends = cells().flat_map(|cell| [cell.min, cell.max]);
    let scale = Scale::covering(ends.chain([0.0]), 6);
    let mut legend = legend_of_values("value");
    if cells().all(|cell| cell.values.len() > DOTS) {
        legend.pop();
    }
    let mut rows = Vec::new();
    for test_case in &outcome.rows {
        for (index, cell) in test_case.cells.iter().flatten().enumerate() {
            let [value, span] = written.cell(cell);
            let mut marks = Row::of_values(
                Some(cell.median),
                &cell.values,
                |v| written.plain(v),
                "value",
            );
            if cell.values.len() > DOTS {
                marks.pop();
            }
            rows.push(Row {
                group: first(index, &test_case.test_case),
                label: cell.column.clone(),
                value,
                verdict: span,
                marks,
                ..Row::default()
            });
        }
    }
    let axis = Axis::linear(&written.title(&outcome.metric), scale, |v| {
        written.tick(v, scale.step())
    });
    Chart::rows("values", axis.reading(Quantity::Number), legend, rows)
}
