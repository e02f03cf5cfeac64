//! The page of a comparison: what is proven, the differences with their intervals, the values behind them, one table.
//!
//! Its sentences and its table are those of [`crate::compare`] in Markdown. Start with [`comparison`].

use fwdlab_model::comparison::Verdict;

use super::charts::{axis_line, chart, line};
use super::markup::Markup;
use super::svg::{Scale, row};
use super::{document, note, section, table};
use crate::compare::{Cell, Compared, Judged, Outcome, Scale as Written, difference_cell, notes};
use crate::number::{difference, difference_tick, interval};
use crate::table::shorten;
use crate::words::several;

/// So many values of a column are drawn as dots; more are no longer told apart.
const DOTS: usize = 60;
/// Characters of a name in a label; the table has all of it.
const LABEL: usize = 60;

/// A comparison as one self-contained page.
pub fn comparison(outcome: &Outcome, judged: &[Judged]) -> String {
    let written = Written::of(outcome);
    let metric = written.title(&outcome.metric);
    document("fwdlab compare", |m| {
        m.within("header", &[], |m| {
            let origin = format!(
                "fwdlab compare, {metric}, by {}, baseline {}",
                outcome.by, outcome.baseline
            );
            m.leaf("p", &[("class", "origin")], &origin);
            m.leaf("h1", &[("class", "long")], &headline(outcome));
        });
        section(m, &format!("Difference from {}", outcome.baseline), |m| {
            m.within("figure", &[], |m| differences(m, outcome));
        });
        section(m, "Values", |m| {
            m.within("figure", &[], |m| {
                values(m, outcome, &written);
                table(m, &crate::compare::table(outcome));
            });
        });
        section(m, "Notes", |m| {
            m.within("ul", &[("class", "keys")], |m| {
                let mut last = "";
                for (name, sentence) in notes(outcome, judged, true, usize::MAX) {
                    last = if name.is_empty() { last } else { name };
                    m.leaf("li", &[], &note(&format!("{last}: {sentence}")));
                }
            });
        });
    })
}

/// What is proven, in a sentence.
fn headline(outcome: &Outcome) -> String {
    let all: Vec<&Compared> = outcome.rows.iter().flat_map(|r| &r.comparisons).collect();
    let proven = all.iter().filter(|c| c.is_proven()).count();
    let baseline = &outcome.baseline;
    match (&all[..], proven) {
        ([one], 1) => {
            let [value, _] = difference_cell(one);
            format!("Proven: {} differs from {baseline} by {value}", one.column)
        }
        ([one], _) => format!("No difference proven between {} and {baseline}", one.column),
        (_, 0) => format!(
            "No difference from {baseline} proven in {}",
            several(all.len(), "comparison")
        ),
        _ => format!(
            "Proven differences from {baseline}: {proven} of {}",
            several(all.len(), "comparison")
        ),
    }
}

/// Differences in percent around zero, with their intervals: test case by test case.
fn differences(m: &mut Markup, outcome: &Outcome) {
    let compared = || outcome.rows.iter().flat_map(|row| &row.comparisons);
    let ends = compared().flat_map(|c| {
        let ends = c.interval_percent.into_iter().flatten();
        ends.chain(c.difference_percent)
    });
    let scale = Scale::covering(ends.chain([0.0]), 7);
    let wide = format!("{} % interval", outcome.confidence_percent);
    let legend = [("interval", wide.as_str()), ("mean", "difference")];
    chart(m, &legend, |m| {
        for test_case in &outcome.rows {
            for (index, compared) in test_case.comparisons.iter().enumerate() {
                let class = match compared.verdict {
                    Verdict::Less => "interval less",
                    Verdict::More => "interval more",
                    Verdict::NoDifference => "interval none",
                    Verdict::CannotTell => "interval unknown",
                };
                let [value, would] = difference_cell(compared);
                let words = format!("{}, {}: {value}", test_case.test_case, compared.column);
                let draw = |m: &mut Markup| {
                    row(m, scale, 34.0, &words, |row| {
                        if let Some([low, high]) = compared.interval_percent {
                            let title = format!("{wide} {} %", interval([low, high]));
                            row.bar(low, high, 18.0, class, &title);
                        }
                        if let Some(percent) = compared.difference_percent {
                            let ends = compared.interval_percent;
                            let title = format!("{} %", difference(percent, ends));
                            row.upright(percent, 4.0, 4.0, "mean", &title);
                        }
                    });
                };
                let label =
                    |m: &mut Markup| names(m, index, &test_case.test_case, &compared.column);
                let class = if index == 0 { "line first" } else { "line" };
                line(m, class, label, draw, |m| {
                    m.text(&value);
                    m.leaf("div", &[("class", "verdict")], &would);
                });
            }
        }
        let title = format!("difference from {}, %", outcome.baseline);
        axis_line(m, scale, &title, |value| {
            difference_tick(value, scale.step())
        });
    });
}

/// The test case above the first of its columns.
fn names(m: &mut Markup, index: usize, test_case: &str, column: &str) {
    if index == 0 && !test_case.is_empty() {
        m.leaf(
            "strong",
            &[("title", test_case)],
            &shorten(test_case, LABEL),
        );
        m.text(" ");
    }
    m.leaf("span", &[("title", column)], &shorten(column, LABEL));
}

/// A bar to the median of each column, whiskers from smallest to largest, a dot per value.
fn values(m: &mut Markup, outcome: &Outcome, written: &Written) {
    let cells = || {
        outcome
            .rows
            .iter()
            .flat_map(|row| row.cells.iter().flatten())
    };
    let ends = cells().flat_map(|cell| [cell.min, cell.max]);
    let scale = Scale::covering(ends.chain([0.0]), 6);
    let has_dots = |cell: &Cell| cell.values.len() <= DOTS;
    let mut legend = vec![("bar", "median"), ("whisker", "smallest to largest")];
    if cells().any(has_dots) {
        legend.push(("dot", "one value, first at the top"));
    }
    chart(m, &legend, |m| {
        for test_case in &outcome.rows {
            for (index, cell) in test_case.cells.iter().flatten().enumerate() {
                let [value, span] = written.cell(cell);
                let words = format!("{}, {}: {value}", test_case.test_case, cell.column);
                let draw = |m: &mut Markup| {
                    row(m, scale, 40.0, &words, |row| {
                        row.bar(0.0, cell.median, 18.0, "bar", &format!("median {value}"));
                        row.whisker(cell.min, cell.max, "whisker");
                        if has_dots(cell) {
                            row.dots(&cell.values, "dot", |index, value| {
                                format!("value {}: {}", index + 1, written.plain(value))
                            });
                        }
                    });
                };
                let label = |m: &mut Markup| names(m, index, &test_case.test_case, &cell.column);
                let class = if index == 0 { "line first" } else { "line" };
                line(m, class, label, draw, |m| {
                    m.text(&value);
                    m.leaf("div", &[("class", "verdict")], &span);
                });
            }
        }
        axis_line(m, scale, &written.title(&outcome.metric), |value| {
            written.tick(value, scale.step())
        });
    });
}
