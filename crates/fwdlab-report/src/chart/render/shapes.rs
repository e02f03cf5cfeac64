//! Draws marks as SVG shapes: a row, an axis, curves. Pages and pictures share them.
//!
//! Positions along an axis are in percent of the available width; everything across it is in
//! pixels, so text and dots have the same size at every width. Start with [`row`] and [`plot`].

use std::collections::BTreeMap;

use crate::chart::axis::short;
use crate::chart::{Axis, Band, Curve, Curves, Line, Mark, Reference, Row, Size, Tone};
use crate::markup::{Attributes, Markup};
use crate::number::count;

/// Height of the tick labels below curves, in pixels.
pub(super) const NUMBERS: f64 = 24.0;
/// Smallest distance between curve names at the right end, in pixels.
const NAME: f64 = 15.0;
/// Distance between the gaps of several curves at one place, in pixels.
const GAP: f64 = 14.0;
/// Width for curve names at the right end, in characters. If any name is longer, all names are
/// above the drawing.
const BESIDE: usize = 11;
/// With more curves, the names are above the drawing, too.
const CURVES: usize = 12;
/// On a page, curves have switches from this number on, and up to the number of classes in the
/// style sheet.
const SWITCHES: usize = 3;
const TRACES: usize = 16;
/// Curves with more points have no point marks.
const MARKED: usize = 25;
/// Number of points of a long curve whose values can be read.
const READ: usize = 60;
/// Number of parts of a long curve; only the smallest and the largest value of each part are drawn.
const PARTS: usize = 400;

/// Point marks, in the order of the curves: circle, square, triangle, diamond, inverted triangle,
/// plus, cross.
pub(super) const POINTS: [&str; 7] = [
    "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
    "M-3.2 -3.2H3.2V3.2H-3.2z",
    "M0 -4.2L4.2 3.2H-4.2z",
    "M0 -4.6L4.6 0L0 4.6L-4.6 0z",
    "M0 4.2L4.2 -3.2H-4.2z",
    "M-4.4 0H4.4M0 -4.4V4.4",
    "M-3.4 -3.4L3.4 3.4M-3.4 3.4L3.4 -3.4",
];

impl Tone {
    /// Returns the class of the tone in style sheets.
    pub(super) fn class(self) -> &'static str {
        match self {
            Tone::Median => "bar",
            Tone::Partial => "bar partial",
            Tone::Span => "whisker",
            Tone::Dot => "dot",
            Tone::Quiet => "dot quiet",
            Tone::Ungated => "dot ungated",
            Tone::Contended => "dot contended",
            Tone::Offered => "offered",
            Tone::Mean => "mean",
            Tone::Interval => "interval",
            Tone::Less => "interval less",
            Tone::More => "interval more",
            Tone::Same => "interval none",
            Tone::Unknown => "interval unknown",
            Tone::Received => "place received",
            Tone::LostAtInput => "place dut-input",
            Tone::LostBetween => "place between",
            Tone::LostInDut => "place dut",
            Tone::LostAtOutput => "place dut-output",
            Tone::LostByReceiver => "place receiver",
            Tone::Unexplained => "place unexplained",
        }
    }

    /// Returns true if the tone is part of a whole, whose parts are drawn one after another.
    fn is_part(self) -> bool {
        self.class().starts_with("place")
    }
}

/// Draws a sample of a tone, 22 pixels wide and 12 high.
pub(super) fn swatch(m: &mut Markup, tone: Tone) {
    let class = tone.class();
    let line = |m: &mut Markup, [x1, y1, x2, y2]: [&str; 4]| {
        m.shape(
            "line",
            &[
                ("class", class),
                ("x1", x1),
                ("y1", y1),
                ("x2", x2),
                ("y2", y2),
            ],
        );
    };
    match tone {
        Tone::Dot | Tone::Quiet | Tone::Ungated | Tone::Contended => {
            m.shape(
                "circle",
                &[("class", class), ("cx", "11"), ("cy", "6"), ("r", "3.2")],
            );
        }
        Tone::Span => {
            for ends in [
                ["2", "6", "20", "6"],
                ["2", "1", "2", "11"],
                ["20", "1", "20", "11"],
            ] {
                line(m, ends);
            }
        }
        Tone::Offered | Tone::Mean => line(m, ["11", "0", "11", "12"]),
        Tone::Partial => hatched(m, ("2", "20"), 6.0, 10.0, ""),
        _ => m.shape(
            "rect",
            &[
                ("class", class),
                ("x", "2"),
                ("y", "1"),
                ("width", "18"),
                ("height", "10"),
            ],
        ),
    }
}

/// Returns the height of a row, in pixels, which depends on its marks.
pub(super) fn height(row: &Row) -> f64 {
    let has_dots = row
        .marks
        .iter()
        .any(|m| matches!(m, Mark::Dots { values, .. } if !values.is_empty()));
    let has = |requested: fn(Tone) -> bool| {
        row.marks
            .iter()
            .any(|m| matches!(m, Mark::Bar { tone, .. } if requested(*tone)))
    };
    match () {
        () if row.is_thin => 26.0,
        () if row.marks.is_empty() => 30.0,
        () if has(Tone::is_part) => 42.0,
        () if has(|tone| matches!(tone, Tone::Median | Tone::Partial)) => 46.0,
        () if has_dots => 52.0,
        () => 34.0,
    }
}

fn at(percent: f64) -> String {
    format!("{percent:.3}%")
}

/// Most dots of a row that are all drawn.
const ALL_DOTS: usize = 500;

/// Returns how many dots are at a place, and the first of them. Of very many dots, those less than
/// a quarter of a dot apart are one place: they cannot be told apart, and would make the page
/// large. Places are in percent of the width and pixels of the height.
fn visible(places: &[(f64, f64)]) -> Vec<(u64, usize)> {
    if places.len() <= ALL_DOTS {
        return (0..places.len()).map(|index| (1, index)).collect();
    }
    let mut seen = BTreeMap::new();
    let mut dots: Vec<(u64, usize)> = Vec::new();
    for (index, (x, y)) in places.iter().enumerate() {
        let cell = ((x * 4.0).round() as i64, (y / 1.6).round() as i64);
        let own = *seen.entry(cell).or_insert_with(|| {
            dots.push((0, index));
            dots.len() - 1
        });
        dots[own].0 += 1;
    }
    dots
}

/// Draws a row over the lines of the axis.
pub(super) fn row(m: &mut Markup, axis: &Axis, references: &[Reference], row: &Row, height: f64) {
    for (tick, _) in &axis.ticks {
        let class = if *tick == 0.0 { "zero" } else { "grid" };
        upright(m, axis, *tick, (0.0, height), class, "");
    }
    for reference in references {
        upright(
            m,
            axis,
            reference.at,
            (0.0, height),
            "reference",
            &reference.label,
        );
    }
    let middle = height / 2.0;
    for mark in &row.marks {
        match mark {
            Mark::Bar {
                from,
                to,
                tone,
                words,
            } => {
                let thick = match tone {
                    Tone::Median | Tone::Partial if height > 40.0 => 22.0,
                    tone if tone.is_part() => height - 16.0,
                    _ if height > 40.0 => 26.0,
                    _ => 18.0,
                };
                let (left, right) = (axis.percent(from.min(*to)), axis.percent(from.max(*to)));
                if *tone == Tone::Partial {
                    hatched(m, (&at(left), &at(right)), middle, thick, words);
                    continue;
                }
                titled(
                    m,
                    "rect",
                    &[
                        ("class", tone.class()),
                        ("x", &at(left)),
                        ("width", &at(right - left)),
                        ("y", &format!("{}", middle - thick / 2.0)),
                        ("height", &format!("{thick}")),
                    ],
                    words,
                );
            }
            Mark::Span { low, high } => {
                let y = format!("{middle}");
                let class = Tone::Span.class();
                let ends = (at(axis.percent(*low)), at(axis.percent(*high)));
                line(m, class, (&ends.0, &ends.1), (&y, &y));
                for end in [low, high] {
                    upright(m, axis, *end, (middle - 6.0, middle + 6.0), class, "");
                }
            }
            // from top to bottom, in order: close values do not hide each other, and a drift shows
            // as a slope
            Mark::Dots {
                values,
                tone,
                words,
            } => {
                let room = height - 12.0;
                let place = |(index, value): (usize, &f64)| {
                    let y = 6.0 + room * (index as f64 + 0.5) / values.len() as f64;
                    (axis.percent(*value), y)
                };
                let places: Vec<_> = values.iter().enumerate().map(place).collect();
                for (at_place, first) in visible(&places) {
                    let (x, y) = places[first];
                    let words = match at_place {
                        1 => words[first].clone(),
                        many => format!("{}, and {} more here", words[first], count(many - 1)),
                    };
                    titled(
                        m,
                        "circle",
                        &[
                            ("class", tone.class()),
                            ("cx", &at(x)),
                            ("cy", &format!("{y:.1}")),
                            ("r", "3.2"),
                        ],
                        &words,
                    );
                }
            }
            Mark::Line { at, tone, words } => {
                let short = if *tone == Tone::Mean && height > 40.0 {
                    6.0
                } else {
                    4.0
                };
                upright(m, axis, *at, (short, height - short), tone.class(), words);
            }
        }
    }
    if !row.beyond.is_empty() {
        let y = format!("{}", middle + 4.0);
        m.leaf(
            "text",
            &[("class", "beyond"), ("x", "100%"), ("y", &y)],
            &format!("{} \u{25b8}", row.beyond),
        );
    }
}

/// Draws a hatched bar: a thick dashed line, which is hatched at every width and in every viewer.
pub(super) fn hatched(
    m: &mut Markup,
    (left, right): (&str, &str),
    middle: f64,
    thick: f64,
    words: &str,
) {
    let (y, thick) = (format!("{middle}"), format!("{thick}"));
    let attributes = [
        ("class", Tone::Partial.class()),
        ("x1", left),
        ("x2", right),
        ("y1", &y),
        ("y2", &y),
        ("stroke-width", &thick),
        ("stroke-dasharray", "3 3"),
    ];
    titled(m, "line", &attributes, words);
}

/// Draws the tick labels below rows.
pub(super) fn numbers(m: &mut Markup, axis: &Axis) {
    for (tick, number) in &axis.ticks {
        let x = at(axis.percent(*tick));
        line(m, "grid", (&x, &x), ("0", "5"));
        m.leaf(
            "text",
            &[("class", "middle"), ("x", &x), ("y", "18")],
            number,
        );
    }
}

/// Draws the names of references below their lines: from the left, one per line of text.
pub(super) fn reference_names(m: &mut Markup, axis: &Axis, references: &[Reference]) {
    for (n, reference) in references.iter().enumerate() {
        let percent = axis.percent(reference.at);
        let class = if percent > 50.0 { "end" } else { "" };
        let dx = if percent > 50.0 { "-4" } else { "4" };
        let y = format!("{}", 12 + 15 * n);
        let bottom = format!("{}", 15 * (n + 1));
        line(m, "reference", (&at(percent), &at(percent)), ("0", &bottom));
        let words = format!("{}: {}", reference.label, axis.quantity.words(reference.at));
        m.leaf(
            "text",
            &[("class", class), ("x", &at(percent)), ("dx", dx), ("y", &y)],
            &words,
        );
    }
}

/// Returns the height of [`reference_names`], in pixels.
pub(super) fn names_height(references: &[Reference]) -> f64 {
    15.0 * references.len() as f64
}

/// Draws a line between two points.
pub(super) fn line(m: &mut Markup, class: &str, (x1, x2): (&str, &str), (y1, y2): (&str, &str)) {
    let ends = [("x1", x1), ("x2", x2), ("y1", y1), ("y2", y2)];
    let [a, b, c, d] = ends;
    m.shape("line", &[("class", class), a, b, c, d]);
}

fn upright(
    m: &mut Markup,
    axis: &Axis,
    value: f64,
    (top, bottom): (f64, f64),
    class: &str,
    words: &str,
) {
    let x = at(axis.percent(value));
    let ends = (format!("{top}"), format!("{bottom}"));
    titled(
        m,
        "line",
        &[
            ("class", class),
            ("x1", &x),
            ("x2", &x),
            ("y1", &ends.0),
            ("y2", &ends.1),
        ],
        words,
    );
}

fn titled(m: &mut Markup, tag: &'static str, attributes: Attributes<'_>, words: &str) {
    if words.is_empty() {
        m.shape(tag, attributes);
    } else {
        m.within(tag, attributes, |m| m.leaf("title", &[], words));
    }
}

impl Size {
    /// Returns the height of the plot area, in pixels.
    pub(super) fn pixels(self) -> f64 {
        match self {
            Size::Whole | Size::Cells => 250.0,
            Size::Low => 170.0,
            Size::Strip => 102.0,
        }
    }
}

/// Draws curves with grid, tick labels and names. Lines stretch to the available width. If `width`
/// is known they are drawn in it, for programs that would stretch the thickness of lines, too.
pub(super) fn plot(m: &mut Markup, curves: &Curves, width: Option<f64>) {
    grid(m, curves);
    let height = curves.size.pixels();
    // several bands of one kind have their name once, where there is most room
    let wide = |band: &&Band| band.to - band.from;
    let named = curves
        .bands
        .iter()
        .max_by(|a, b| wide(a).total_cmp(&wide(b)));
    for band in &curves.bands {
        let (left, right) = (
            curves.across.percent(band.from),
            curves.across.percent(band.to),
        );
        let attributes = [
            ("class", "band"),
            ("x", &at(left)),
            ("width", &at(right - left)),
            ("height", &format!("{height}")),
        ];
        let attributes = attributes.map(|(name, value)| (name, value as &str));
        titled(m, "rect", &attributes, &band.label);
        if named.is_some_and(|named| named == band || named.label != band.label) {
            upright_name(m, (left + right) / 2.0, height - 8.0, &band.label);
        }
    }
    // labels of close moments are below each other
    let mut last = (f64::NEG_INFINITY, 12.0);
    for moment in &curves.moments {
        let percent = curves.across.percent(moment.at);
        let x = at(percent);
        line(m, "moment", (&x, &x), ("0", &format!("{height}")));
        let is_close = (percent - last.0).abs() < 15.0;
        last = (percent, if is_close { last.1 + 14.0 } else { 12.0 });
        upright_name(m, percent, last.1, &moment.label);
    }
    for reference in &curves.references {
        let y = up(curves, reference.at);
        let place = format!("{y:.1}");
        line(m, "reference", ("0", "100%"), (&place, &place));
        let above = format!("{:.1}", if y < 16.0 { y + 14.0 } else { y - 4.0 });
        let words = format!(
            "{}: {}",
            reference.label,
            curves.up.quantity.words(reference.at)
        );
        m.leaf("text", &[("x", "6"), ("y", &above)], &words);
    }
    for (n, curve) in curves.curves.iter().enumerate() {
        m.within("g", &[("class", &trace(n))], |m| {
            draw(m, curves, n, curve, width)
        });
    }
    if has_names_at_ends(curves) && !(width.is_none() && has_switches(curves)) {
        draw_curve_names(m, curves);
    }
}

/// Draws the name of a vertical line, on the side that has room.
fn upright_name(m: &mut Markup, percent: f64, y: f64, words: &str) {
    let (class, dx) = if percent > 50.0 {
        ("end", "-5")
    } else {
        ("", "5")
    };
    let (x, y) = (at(percent), format!("{y}"));
    m.leaf(
        "text",
        &[("class", class), ("x", &x), ("dx", dx), ("y", &y)],
        words,
    );
}

/// Returns true if the names of the curves are at their right ends rather than above the drawing.
pub(super) fn has_names_at_ends(curves: &Curves) -> bool {
    let all = &curves.curves;
    all.len() <= CURVES && all.iter().all(|curve| curve.name.chars().count() <= BESIDE)
}

/// Returns true if a page lists the curves with a switch for each.
pub(super) fn has_switches(curves: &Curves) -> bool {
    (SWITCHES..=TRACES).contains(&curves.curves.len())
}

/// Returns the class of everything that belongs to a curve, which its switch hides.
pub(super) fn trace(n: usize) -> String {
    format!("t{n}")
}

/// Draws a sample of a curve for the list of names, 22 by 12 pixels.
pub(super) fn curve_swatch(m: &mut Markup, n: usize, curve: &Curve) {
    if curve.line != Line::None {
        let class = match curve.line {
            Line::Dashed => "curve dashed",
            _ => "curve",
        };
        line(m, &style(n, class), ("1", "21"), ("6", "6"));
    }
    m.within("g", &[("transform", "translate(11 6)")], |m| {
        let shape = POINTS[n % POINTS.len()];
        m.shape("path", &[("class", &style(n, "mark")), ("d", shape)]);
    });
}

/// Draws grid lines with their labels.
fn grid(m: &mut Markup, curves: &Curves) {
    let height = curves.size.pixels();
    for (tick, number) in &curves.up.ticks {
        let place = format!("{:.1}", up(curves, *tick));
        let class = if *tick == 0.0 { "zero" } else { "grid" };
        line(m, class, ("0", "100%"), (&place, &place));
        let text = [
            ("class", "end"),
            ("x", "0"),
            ("dx", "-8"),
            ("dy", "4"),
            ("y", place.as_str()),
        ];
        if !number.is_empty() {
            m.leaf("text", &text, number);
        }
    }
    let ends = (format!("{height}"), format!("{}", height + 5.0));
    let numbers = format!("{}", height + 18.0);
    for (tick, number) in &curves.across.ticks {
        let x = at(curves.across.percent(*tick));
        line(m, "zero", (&x, &x), (&ends.0, &ends.1));
        if !number.is_empty() {
            m.leaf(
                "text",
                &[("class", "middle"), ("x", x.as_str()), ("y", &numbers)],
                number,
            );
        }
    }
}

/// Returns the position of a value, in pixels from the top.
fn up(curves: &Curves, value: f64) -> f64 {
    curves.size.pixels() * (1.0 - curves.up.percent(value) / 100.0)
}

/// Returns the classes for colour and mark of the curve with this number.
fn style(n: usize, base: &str) -> String {
    format!("{base} c{}", n % POINTS.len())
}

fn draw(m: &mut Markup, curves: &Curves, n: usize, curve: &Curve, width: Option<f64>) {
    let height = curves.size.pixels();
    // lines are drawn 1000 units wide and then stretched
    let wide = width.unwrap_or(1000.0);
    let place = |(x, y): &(f64, f64)| (wide * curves.across.percent(*x) / 100.0, up(curves, *y));
    let drawn = thinned(&curve.points);
    let class = match curve.line {
        Line::Dashed => "curve dashed",
        Line::Solid | Line::Steps | Line::None => "curve",
    };
    let class = style(n, class);
    // a gap interrupts the line
    let gaps_before = |x: f64| curve.gaps.iter().filter(|(gap, _)| *gap < x).count();
    for part in drawn.chunk_by(|a, b| gaps_before(a.0) == gaps_before(b.0)) {
        if curve.line == Line::None {
            break;
        }
        let mut points: Vec<String> = Vec::with_capacity(part.len());
        let mut before: Option<f64> = None;
        for (x, y) in part.iter().map(place) {
            if let (Line::Steps, Some(before)) = (curve.line, before) {
                points.push(format!("{x:.1},{before:.1}"));
            }
            points.push(format!("{x:.1},{y:.1}"));
            before = Some(y);
        }
        let attributes = [("class", class.as_str()), ("points", &points.join(" "))];
        match width {
            Some(_) => m.shape("polyline", &attributes),
            None => {
                let (view, tall) = (format!("0 0 1000 {height}"), format!("{height}"));
                let stretched = [
                    ("width", "100%"),
                    ("height", tall.as_str()),
                    ("viewBox", view.as_str()),
                    ("preserveAspectRatio", "none"),
                    ("class", "stretched"),
                ];
                m.within("svg", &stretched, |m| m.shape("polyline", &attributes));
            }
        }
    }
    for (x, reason) in &curve.gaps {
        let words = format!("{}, {}: {reason}", curve.name, short(*x));
        // the gaps of other curves at this place are above each other
        let has_gap = |curve: &&Curve| curve.gaps.iter().any(|(at, _)| at == x);
        let y = height - GAP * curves.curves[..n].iter().filter(has_gap).count() as f64;
        let percent = curves.across.percent(*x);
        point(m, n, &at(percent), y, &words, "gap");
        if let Some(reason) = gap_name(curves, percent, reason) {
            let (class, dx) = match percent > 80.0 {
                true => ("gap-name end", "-7"),
                false => ("gap-name", "7"),
            };
            let y = format!("{:.1}", y - 6.0);
            let place = [("class", class), ("x", &at(percent)), ("dx", dx), ("y", &y)];
            m.leaf("text", &place, reason);
        }
    }
    for ((x, _), interval) in curve.points.iter().zip(&curve.intervals) {
        let Some((low, high)) = interval else {
            continue;
        };
        let x = at(curves.across.percent(*x));
        let ends = (
            format!("{:.1}", up(curves, *high)),
            format!("{:.1}", up(curves, *low)),
        );
        line(m, &style(n, "curve span"), (&x, &x), (&ends.0, &ends.1));
    }
    // a long curve has no marks, but its values can still be read at some places
    let (every, class) = match curve.line != Line::None && curve.points.len() > MARKED {
        true => (curve.points.len().div_ceil(READ), "hidden"),
        false => (1, ""),
    };
    for (x, y) in curve.points.iter().step_by(every) {
        let remark = curve.hollow.iter().find(|(at, _)| at == x);
        let words = format!(
            "{}, {}: {}{}",
            curve.name,
            short(*x),
            curves.words(curve, *x, *y),
            remark.map_or(String::new(), |(_, words)| format!(", {words}"))
        );
        let class = if remark.is_some() { "hollow" } else { class };
        point(
            m,
            n,
            &at(curves.across.percent(*x)),
            up(curves, *y),
            &words,
            class,
        );
    }
}

/// Returns the first words of the reason of a gap if there is room before the next gap. A graph has
/// room for about one character per percent of its width.
fn gap_name<'a>(curves: &Curves, percent: f64, reason: &'a str) -> Option<&'a str> {
    let all = curves.curves.iter().flat_map(|curve| &curve.gaps);
    let others = all.map(|(at, _)| (curves.across.percent(*at) - percent).abs());
    let room = others.filter(|away| *away > 0.0).fold(45.0, f64::min);
    let fits = |words: &&str| words.chars().count() as f64 <= room;
    let short = reason.split(": ").next().unwrap_or(reason);
    Some(short).filter(fits)
}

/// Draws a point: `class` is empty, or `hollow`, `hidden` or `gap`.
fn point(m: &mut Markup, n: usize, x: &str, y: f64, words: &str, class: &str) {
    let y = format!("{y:.1}");
    m.within(
        "svg",
        &[
            ("x", x),
            ("y", &y),
            ("class", "at"),
            ("overflow", "visible"),
        ],
        |m| {
            let shape = match class {
                "gap" => POINTS[POINTS.len() - 1],
                _ => POINTS[n % POINTS.len()],
            };
            let class = style(n, "mark") + if class.is_empty() { "" } else { " " } + class;
            titled(m, "path", &[("class", &class), ("d", shape)], words);
        },
    );
}

/// Draws the names of the curves at their right ends, moved apart.
fn draw_curve_names(m: &mut Markup, curves: &Curves) {
    let mut names: Vec<(usize, &str, f64)> = curves
        .curves
        .iter()
        .enumerate()
        .filter_map(|(n, curve)| Some((n, curve.name.as_str(), up(curves, curve.points.last()?.1))))
        .collect();
    names.sort_by(|a, b| a.2.total_cmp(&b.2));
    let mut lowest = f64::NEG_INFINITY;
    for (_, _, y) in &mut names {
        *y = y.max(lowest + NAME);
        lowest = *y;
    }
    let mut highest = curves.size.pixels() + NAME;
    for (_, _, y) in names.iter_mut().rev() {
        *y = y.min(highest - NAME);
        highest = *y;
    }
    for (n, name, y) in names {
        let y = format!("{y:.1}");
        let place = [
            ("x", "100%"),
            ("y", y.as_str()),
            ("class", "at"),
            ("overflow", "visible"),
        ];
        m.within("svg", &place, |m| {
            let shape = POINTS[n % POINTS.len()];
            m.within("g", &[("transform", "translate(12 0)")], |m| {
                m.shape("path", &[("class", &style(n, "mark")), ("d", shape)]);
            });
            m.leaf("text", &[("x", "20"), ("y", "4")], name);
        });
    }
}

/// Returns the points of a curve. Reduces a long curve to the smallest and the largest value of
/// each part, so that no dip disappears.
pub(super) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 * PARTS {
        return points.to_vec();
    }
    points
        .chunks(points.len().div_ceil(PARTS))
        .flat_map(|part| {
            let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
            let low = part.iter().min_by(by_value).copied();
            let high = part.iter().max_by(by_value).copied();
            let mut ends: Vec<(f64, f64)> = low.into_iter().chain(high).collect();
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
            ends
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is lost: the dots at a place are counted.
    #[test]
    fn dots_at_the_same_place_are_drawn_once() {
        let few: Vec<(f64, f64)> = vec![(50.0, 6.0); 500];
        assert_eq!(visible(&few).len(), 500);
        let mut many = vec![(50.0, 6.0); 600];
        many.extend([(50.1, 6.1), (51.0, 6.0), (50.0, 9.0), (50.0, 9.0)]);
        assert_eq!(visible(&many), [(601, 0), (1, 601), (2, 602)]);
    }

    #[test]
    fn a_dip_of_one_second_is_drawn() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|s| (f64::from(s), 7.0)).collect();
        points[54_321].1 = 1.0;
        let drawn = thinned(&points);
        assert!(drawn.len() <= 2 * PARTS);
        assert!(drawn.contains(&(54_321.0, 1.0)));
        assert!(drawn.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
}
