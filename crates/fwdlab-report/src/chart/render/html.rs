//! Draws charts on a page: labels are text that wraps, and drawings are as wide as the page allows.
//!
//! A chart is a grid of label, drawing and value, so long commands never overlap the drawing. The
//! page adds the tables. Start with [`draw`].

use super::shapes::{self, NUMBERS};
use crate::chart::{Chart, Curves, Plot, Reference, Row, Rows, Size};
use crate::markup::Markup;
use crate::table::shorten;

/// Largest number of rows that are kept on one sheet of paper.
const SHORT: usize = 8;
/// Charts with more rows have tick labels above the rows, too.
const MANY: usize = 20;
/// Width of a label, in characters; the table has the full name.
const LABEL: usize = 70;
/// Width of the reason of a gap, in characters.
const NOTE: usize = 160;

/// Draws several charts; low ones are next to each other.
pub(crate) fn all(m: &mut Markup, charts: &[Chart]) {
    let is_low =
        |chart: &Chart| matches!(&chart.plot, Plot::Curves(curves) if curves.size == Size::Low);
    let mut rest = charts;
    while let Some(first) = rest.first() {
        let low = rest.iter().take_while(|chart| is_low(chart)).count();
        if low > 1 {
            m.within("div", &[("class", "graphs")], |m| {
                rest[..low].iter().for_each(|chart| draw(m, chart))
            });
            rest = &rest[low..];
        } else {
            draw(m, first);
            rest = &rest[1..];
        }
    }
}

/// Draws a chart.
pub(crate) fn draw(m: &mut Markup, chart: &Chart) {
    match &chart.plot {
        Plot::Rows(rows) => draw_rows(m, rows),
        Plot::Curves(curves) => draw_curves(m, chart, curves),
    }
}

fn draw_rows(m: &mut Markup, rows: &Rows) {
    if !rows.legend.is_empty() {
        m.within("div", &[("class", "legend")], |m| {
            for (tone, words) in &rows.legend {
                named(m, words, |m| shapes::swatch(m, *tone));
            }
        });
    }
    // a longer chart may continue on the next sheet
    let class = match rows.rows.len() > SHORT {
        true => "chart long",
        false => "chart",
    };
    m.within("div", &[("class", class)], |m| {
        // the tick labels below the last row may be off the screen
        if rows.rows.len() > MANY {
            line(m, "line axis-line", |_| {}, |m| numbers(m, rows), |_| {});
        }
        for row in &rows.rows {
            draw_row(m, rows, row);
        }
        let axis = |m: &mut Markup| {
            numbers(m, rows);
            reference_names(m, rows, &rows.references);
            m.leaf("div", &[("class", "axis-title")], &rows.axis.heading());
        };
        line(m, "line axis-line", |_| {}, axis, |_| {});
    });
}

fn numbers(m: &mut Markup, rows: &Rows) {
    let attributes = [
        ("class", "row axis"),
        ("height", "22"),
        ("aria-hidden", "true"),
    ];
    m.within("svg", &attributes, |m| shapes::numbers(m, &rows.axis));
}

/// Draws a mark with its meaning, for the legend.
fn named(m: &mut Markup, words: &str, mark: impl FnOnce(&mut Markup)) {
    m.within("span", &[], |m| {
        let swatch = [("width", "22"), ("height", "12"), ("aria-hidden", "true")];
        m.within("svg", &swatch, mark);
        m.text(words);
    });
}

fn reference_names(m: &mut Markup, rows: &Rows, references: &[Reference]) {
    if references.is_empty() {
        return;
    }
    let height = format!("{}", shapes::names_height(references));
    m.within("svg", &[("class", "row names"), ("height", &height)], |m| {
        shapes::reference_names(m, &rows.axis, references);
    });
}

fn draw_row(m: &mut Markup, rows: &Rows, row: &Row) {
    let class = match (row.is_control, row.is_thin, row.group.is_empty()) {
        (true, ..) => "line control",
        (_, true, false) => "line thin first",
        (_, true, true) => "line thin",
        (_, _, false) => "line first",
        _ => "line",
    };
    let label = |m: &mut Markup| {
        if !row.group.is_empty() {
            m.leaf(
                "strong",
                &[("title", &row.group)],
                &shorten(&row.group, LABEL),
            );
            m.text(" ");
        }
        let tag = if row.is_code { "code" } else { "span" };
        m.leaf(tag, &[("title", &row.label)], &shorten(&row.label, LABEL));
    };
    let drawing = |m: &mut Markup| {
        let height = shapes::height(row);
        let attributes = [
            ("class", "row"),
            ("height", &format!("{height}")),
            ("role", "img"),
            ("aria-label", &row.screen_reader_text()),
        ];
        m.within("svg", &attributes, |m| {
            shapes::row(m, &rows.axis, &rows.references, row, height);
        });
    };
    line(m, class, label, drawing, |m| {
        m.text(&row.value);
        if !row.verdict.is_empty() {
            m.leaf("div", &[("class", "verdict")], &row.verdict);
        }
    });
}

/// Draws label, drawing and value of one row.
fn line(
    m: &mut Markup,
    class: &str,
    label: impl FnOnce(&mut Markup),
    drawing: impl FnOnce(&mut Markup),
    value: impl FnOnce(&mut Markup),
) {
    m.within("div", &[("class", class)], |m| {
        m.within("div", &[("class", "label")], label);
        m.within("div", &[("class", "drawing")], drawing);
        m.within("div", &[("class", "value")], value);
    });
}

fn gap_notes(m: &mut Markup, curves: &Curves) {
    for note in curves.gap_notes() {
        m.leaf(
            "div",
            &[("class", "note")],
            &format!("\u{2715} {}", shorten(&note, NOTE)),
        );
    }
}

/// Draws a heat map: a table, which screen readers can read.
fn draw_cells(m: &mut Markup, chart: &Chart, curves: &Curves) {
    let columns = curves.columns();
    if !chart.title.is_empty() {
        m.leaf("h3", &[], &chart.title);
    }
    m.leaf("div", &[("class", "note")], &curves.up.heading());
    let reached = [
        ("class", "scroll"),
        ("tabindex", "0"),
        ("role", "group"),
        ("aria-label", &chart.screen_reader_text()),
    ];
    m.within("div", &reached, |m| {
        m.within("table", &[("class", "heat")], |m| {
            m.within("thead", &[], |m| {
                m.within("tr", &[], |m| {
                    // columns have the same width
                    m.leaf("td", &[], &curves.across.title);
                    for (_, name) in &columns {
                        m.leaf("th", &[("scope", "col")], name);
                    }
                });
            });
            m.within("tbody", &[], |m| {
                for curve in &curves.curves {
                    m.within("tr", &[], |m| {
                        m.leaf("th", &[("scope", "row")], &curve.name);
                        for (at, _) in &columns {
                            let Some(cell) = curves.cell(curve, *at) else {
                                m.leaf("td", &[], "");
                                continue;
                            };
                            let hatched = if cell.is_hatched { " hatched" } else { "" };
                            let class = format!("{}{hatched}", cell.class);
                            let attributes = [("class", class.as_str()), ("title", &cell.words)];
                            m.leaf("td", &attributes, &cell.text);
                        }
                    });
                }
            });
        });
    });
    gap_notes(m, curves);
}

fn draw_curves(m: &mut Markup, chart: &Chart, curves: &Curves) {
    if curves.size == Size::Cells {
        return draw_cells(m, chart, curves);
    }
    let spoken = chart.screen_reader_text();
    let height = format!("{}", curves.size.pixels() + NUMBERS);
    let has_switches = shapes::has_switches(curves);
    let is_beside = shapes::has_names_at_ends(curves) && !has_switches;
    let class = if is_beside { "graph" } else { "graph wide" };
    m.within("div", &[("class", class)], |m| {
        if !chart.title.is_empty() {
            m.leaf("h3", &[], &chart.title);
        }
        if !is_beside {
            m.within("div", &[("class", "legend")], |m| {
                for (n, curve) in curves.curves.iter().enumerate() {
                    let swatch = |m: &mut Markup| shapes::curve_swatch(m, n, curve);
                    if !has_switches {
                        named(m, &curve.name, swatch);
                        continue;
                    }
                    m.within("label", &[], |m| {
                        let class = shapes::trace(n);
                        let shown = [("type", "checkbox"), ("class", &class), ("checked", "")];
                        m.shape("input", &shown);
                        named(m, &curve.name, swatch);
                    });
                }
            });
        }
        m.leaf("div", &[("class", "up-title")], &curves.up.heading());
        let attributes = [
            ("class", "plot"),
            ("height", height.as_str()),
            ("role", "img"),
            ("aria-label", spoken.as_str()),
        ];
        m.within("svg", &attributes, |m| shapes::plot(m, curves, None));
        m.leaf("div", &[("class", "axis-title")], &curves.across.heading());
        gap_notes(m, curves);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Curve};

    #[test]
    fn every_switch_hides_its_curve_without_a_script() {
        let page = |count: u32| {
            let curve = |n: u32| Curve::new(format!("{n}"), vec![(0.0, 1.0), (1.0, f64::from(n))]);
            let curves: Vec<Curve> = (0..count).map(curve).collect();
            let (across, up) = (Axis::parameter("x", &curves), Axis::rates(&curves));
            let mut m = Markup::default();
            draw(
                &mut m,
                &Chart::curves("x", "", Curves::new(across, up, curves)),
            );
            m.finish()
        };
        for count in [1, 2, 3, 16, 17] {
            let page = page(count);
            let has_switches = (3..=16).contains(&count);
            assert_eq!(page.contains("checkbox"), has_switches, "{count}");
            for n in (0..count).filter(|_| has_switches) {
                let switch = format!("type=\"checkbox\" class=\"t{n}\"");
                let curve = format!("<g class=\"t{n}\">");
                let style = format!(".graph:has(input.t{n}:not(:checked)) g.t{n}");
                assert!(
                    page.contains(&switch) && page.contains(&curve),
                    "{n}: {page}"
                );
                assert!(crate::html::STYLE.contains(&style), "{style}");
            }
        }
    }
}
