//! Renders a chart as a self-contained SVG, for READMEs, slides and papers.
//!
//! It looks like the page in light mode; the viewer provides the fonts. Start with [`draw`].

use super::shapes::{self, NUMBERS};
use crate::chart::{Chart, Curves, Plot, Row, Rows, Size};
use crate::markup::Markup;
use crate::table::{shorten, wrap};

const STYLE: &str = include_str!("svg.css");
/// Style of heat maps and gaps, which few pictures have.
const CELLS: &str = include_str!("cells.css");

/// Width of the picture, in pixels.
const WIDTH: f64 = 960.0;
/// Margin, in pixels.
const EDGE: f64 = 16.0;
/// Left edge and width of the drawing of rows, in pixels; labels are to the left, values to the
/// right.
const DRAWING: (f64, f64) = (230.0, 500.0);
/// Characters per line of a label.
const LABEL: usize = 32;
/// Lines of a label.
const LINES: usize = 3;
/// Distance between lines of text, in pixels.
const LINE: f64 = 15.0;
/// Width of the reason of a gap, in characters.
const NOTE: usize = 140;
/// Height of a cell of a heat map, in pixels.
const CELL: f64 = 28.0;
/// Left edge and width of curves, in pixels; names are to the right.
const PLOT: (f64, f64) = (80.0, 690.0);

/// Renders the picture.
pub fn draw(chart: &Chart) -> String {
    let mut body = Markup::default();
    let mut y = EDGE;
    if !chart.title.is_empty() {
        y += 18.0;
        text(&mut body, (EDGE, y), "title", &shorten(&chart.title, 100));
        y += 12.0;
    }
    let height = match &chart.plot {
        Plot::Rows(rows) => draw_rows(&mut body, rows, y),
        Plot::Curves(curves) => draw_curves(&mut body, curves, y),
    };
    let height = (height + EDGE).ceil();
    let (wide, tall) = (format!("{WIDTH}"), format!("{height}"));
    let view = format!("0 0 {WIDTH} {height}");
    let mut m = Markup::default();
    let attributes = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("width", wide.as_str()),
        ("height", tall.as_str()),
        ("viewBox", view.as_str()),
        ("role", "img"),
        ("aria-label", &chart.screen_reader_text()),
    ];
    m.within("svg", &attributes, |m| {
        let has_cells = |curves: &Curves| {
            curves.size == Size::Cells || curves.curves.iter().any(|curve| !curve.gaps.is_empty())
        };
        m.within("style", &[], |m| {
            m.trusted(STYLE);
            if matches!(&chart.plot, Plot::Curves(curves) if has_cells(curves)) {
                m.trusted(CELLS);
            }
        });
        m.shape(
            "rect",
            &[("class", "paper"), ("width", "100%"), ("height", "100%")],
        );
        m.append(body);
    });
    m.finish()
}

fn text(m: &mut Markup, (x, y): (f64, f64), class: &str, words: &str) {
    let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
    m.leaf("text", &[("class", class), ("x", &x), ("y", &y)], words);
}

/// Adds a part of the picture with its own coordinates.
fn part(
    m: &mut Markup,
    (x, y): (f64, f64),
    (wide, tall): (f64, f64),
    body: impl FnOnce(&mut Markup),
) {
    let attributes = [
        ("x", &format!("{x:.1}")),
        ("y", &format!("{y:.1}")),
        ("width", &format!("{wide}")),
        ("height", &format!("{tall}")),
    ];
    let attributes = attributes.map(|(name, value)| (name, value.as_str()));
    let [a, b, c, d] = attributes;
    m.within("svg", &[a, b, c, d, ("overflow", "visible")], body);
}

/// Draws rows from `top`, and returns where they end, in pixels.
fn draw_rows(m: &mut Markup, rows: &Rows, top: f64) -> f64 {
    let mut y = legend(m, rows, top + 6.0);
    for row in &rows.rows {
        let label = lines_of(row);
        let requested = LINE * label.len() as f64 + 6.0;
        let height = shapes::height(row).max(requested);
        if row.is_control {
            let place = format!("{y:.1}");
            let ends = (format!("{EDGE}"), format!("{}", WIDTH - EDGE));
            shapes::line(m, "apart", (&ends.0, &ends.1), (&place, &place));
        }
        let middle = y + height / 2.0;
        for (n, (class, words)) in label.iter().enumerate() {
            let offset = LINE * (n as f64 - (label.len() as f64 - 1.0) / 2.0);
            text(m, (EDGE, middle + offset + 4.0), class, words);
        }
        part(m, (DRAWING.0, y), (DRAWING.1, height), |m| {
            shapes::row(m, &rows.axis, &rows.references, row, height);
        });
        let values = [row.value.as_str(), row.verdict.as_str()];
        let values: Vec<&str> = values
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect();
        for (n, words) in values.iter().enumerate() {
            let offset = LINE * (n as f64 - (values.len() as f64 - 1.0) / 2.0);
            text(
                m,
                (WIDTH - EDGE, middle + offset + 4.0),
                "end label",
                &shorten(words, 34),
            );
        }
        y += height;
    }
    part(m, (DRAWING.0, y), (DRAWING.1, 22.0), |m| {
        shapes::numbers(m, &rows.axis)
    });
    y += 22.0;
    let names = shapes::names_height(&rows.references);
    if names > 0.0 {
        part(m, (DRAWING.0, y), (DRAWING.1, names), |m| {
            shapes::reference_names(m, &rows.axis, &rows.references)
        });
        y += names;
    }
    y += LINE;
    text(
        m,
        (DRAWING.0 + DRAWING.1 / 2.0, y),
        "middle",
        &rows.axis.heading(),
    );
    y + 4.0
}

/// Returns the lines of a label, each with its class.
fn lines_of(row: &Row) -> Vec<(&'static str, String)> {
    let broken = |words: &str| -> Vec<String> {
        let lines = wrap(&shorten(words, LABEL * LINES - 6), LABEL, "");
        lines.lines().map(str::to_owned).take(LINES).collect()
    };
    let class = if row.is_code { "label code" } else { "label" };
    let group = broken(&row.group)
        .into_iter()
        .map(|line| ("label strong", line));
    group
        .chain(broken(&row.label).into_iter().map(|line| (class, line)))
        .collect()
}

fn legend(m: &mut Markup, rows: &Rows, top: f64) -> f64 {
    let names = rows.legend.iter().map(|(_, words)| words.as_str());
    named(m, &names.collect::<Vec<_>>(), top, |m, n| {
        shapes::swatch(m, rows.legend[n].0)
    })
}

/// Draws a legend in as many lines as it needs; `mark` draws the mark with a given index.
fn named(m: &mut Markup, names: &[&str], top: f64, mark: impl Fn(&mut Markup, usize)) -> f64 {
    if names.is_empty() {
        return top;
    }
    let (mut x, mut y) = (EDGE, top);
    for (n, words) in names.iter().enumerate() {
        // characters of this size are about 6.6 pixels wide
        let wide = 46.0 + 6.6 * words.chars().count() as f64;
        if x + wide > WIDTH - EDGE && x > EDGE {
            x = EDGE;
            y += 18.0;
        }
        part(m, (x, y), (22.0, 12.0), |m| mark(m, n));
        text(m, (x + 27.0, y + 10.0), "", &shorten(words, 120));
        x += wide;
    }
    y + 26.0
}

/// Draws a heat map from `top`, and returns where it ends, in pixels.
fn draw_cells(m: &mut Markup, curves: &Curves, top: f64) -> f64 {
    text(m, (EDGE, top + 12.0), "", &curves.up.heading());
    let columns = curves.columns();
    let left = DRAWING.0;
    let wide = (WIDTH - EDGE - left) / columns.len() as f64;
    let middle = |n: usize| left + wide * (n as f64 + 0.5);
    let mut y = top + 36.0;
    text(m, (EDGE, y), "", &curves.across.heading());
    for (n, (_, name)) in columns.iter().enumerate() {
        text(m, (middle(n), y), "middle", name);
    }
    y += 8.0;
    for curve in &curves.curves {
        text(m, (EDGE, y + 18.0), "label", &shorten(&curve.name, LABEL));
        for (n, (at, _)) in columns.iter().enumerate() {
            let Some(cell) = curves.cell(curve, *at) else {
                continue;
            };
            let place = (left + wide * n as f64 + 1.0, y + 1.0);
            part(m, place, (wide - 2.0, CELL - 2.0), |m| {
                let whole = [("class", cell.class), ("width", "100%"), ("height", "100%")];
                m.within("rect", &whole, |m| m.leaf("title", &[], &cell.words));
                if cell.is_hatched {
                    m.within("g", &[("class", "cell")], |m| {
                        shapes::hatched(m, ("0", "100%"), CELL - 5.0, 5.0, &cell.words);
                    });
                }
            });
            let most = (wide / 6.6) as usize;
            text(
                m,
                (middle(n), y + 17.0),
                "middle label",
                &shorten(&cell.text, most),
            );
        }
        y += CELL;
    }
    gap_notes(m, curves, y + 4.0)
}

/// Writes why there are gaps from `top`, and returns where this ends, in pixels.
fn gap_notes(m: &mut Markup, curves: &Curves, top: f64) -> f64 {
    let mut y = top;
    for note in curves.gap_notes() {
        y += LINE;
        text(
            m,
            (EDGE, y),
            "",
            &format!("\u{d7} {}", shorten(&note, NOTE)),
        );
    }
    y
}

fn draw_curves(m: &mut Markup, curves: &Curves, top: f64) -> f64 {
    if curves.size == Size::Cells {
        return draw_cells(m, curves, top);
    }
    let is_beside = shapes::has_names_at_ends(curves);
    let top = match is_beside {
        true => top,
        false => {
            let names: Vec<&str> = curves.curves.iter().map(|c| c.name.as_str()).collect();
            named(m, &names, top + 6.0, |m, n| {
                shapes::curve_swatch(m, n, &curves.curves[n])
            })
        }
    };
    let wide = if is_beside {
        PLOT.1
    } else {
        WIDTH - EDGE - PLOT.0
    };
    let y = top + 12.0;
    text(m, (EDGE, y), "", &curves.up.heading());
    let y = y + 14.0;
    let height = curves.size.pixels();
    part(m, (PLOT.0, y), (wide, height), |m| {
        shapes::plot(m, curves, Some(wide))
    });
    let y = y + height + NUMBERS + LINE;
    text(
        m,
        (PLOT.0 + wide / 2.0, y),
        "middle",
        &curves.across.heading(),
    );
    gap_notes(m, curves, y + 4.0)
}
