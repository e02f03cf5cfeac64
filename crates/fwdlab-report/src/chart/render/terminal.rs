//! Draws charts in a terminal: bars as characters, curves as braille dots.
//!
//! Colour carries no meaning. Start with [`draw`].

use crate::chart::{
    Chart, Curve, Curves, HeatCell, Line, Mark, Plot, Reference, Row, Rows, Size, Tone,
};
use crate::table::{self, Cell, Column, Table, shorten, wrap};

/// The edge of a drawing, and a line at a value.
const BAR: char = '\u{2502}';
const LEVEL: char = '\u{250a}';
/// Height of curves, in lines.
const LINES: usize = 14;
/// Width of the tick labels next to curves, in columns.
const NUMBERS: usize = 8;
/// Smallest width for a drawing, in columns.
const FEWEST: usize = 40;

/// Draws the chart in `width` columns.
pub(crate) fn draw(chart: &Chart, width: usize) -> String {
    let width = width.max(FEWEST);
    let mut text = String::new();
    if !chart.title.is_empty() {
        text += &format!("{}\n", shorten(&printable(&chart.title), width));
    }
    text + &match &chart.plot {
        Plot::Rows(rows) => draw_rows(rows, width),
        Plot::Curves(curves) => draw_curves(curves, width),
    }
}

/// Replaces control characters: names come from outside and must not control the terminal.
fn printable(text: &str) -> String {
    text.replace(crate::screen::steers, "?")
}

/// Returns the character of a mark.
fn sign(tone: Tone) -> char {
    match tone {
        Tone::Median | Tone::Received => '\u{2588}',
        Tone::Partial => '\u{2592}',
        Tone::Span => '\u{2500}',
        Tone::Dot | Tone::Quiet => '\u{25cf}',
        Tone::Ungated => '\u{25cb}',
        Tone::Contended => '\u{d7}',
        Tone::Offered => '\u{2506}',
        Tone::Mean => '\u{2503}',
        Tone::Interval | Tone::Less | Tone::More | Tone::Same | Tone::Unknown => '\u{2592}',
        Tone::LostAtInput => 'i',
        Tone::LostBetween => 'b',
        Tone::LostInDut => 'd',
        Tone::LostAtOutput => 'o',
        Tone::LostByReceiver => 'r',
        Tone::Unexplained => '?',
    }
}

fn draw_rows(rows: &Rows, width: usize) -> String {
    let longest = |of: &dyn Fn(&Row) -> usize| rows.rows.iter().map(of).max().unwrap_or(0);
    let label = longest(&|row| row.name().chars().count()).min(width / 3);
    let value = longest(&|row| row.value.chars().count()).min(width / 3);
    let wide = width.saturating_sub(label + value + 4).max(10);
    let mut text = String::new();
    for row in &rows.rows {
        let name = shorten(&printable(&row.name()), label);
        let drawn = drawn_row(rows, row, wide);
        let reported = shorten(&printable(&row.value), value);
        text += &format!(" {name:<label$} {BAR}{drawn}{BAR} {reported}");
        text.truncate(text.trim_end().len());
        text.push('\n');
        // why there is nothing to draw
        if row.marks.is_empty() && !row.verdict.is_empty() {
            text += &wrap(&printable(&row.verdict), width, "   ");
        }
    }
    let (low, high) = rows.axis.ends();
    let number = |requested: f64| {
        let near = rows.axis.ticks.iter().find(|(at, _)| *at == requested);
        near.map_or_else(String::new, |(_, number)| number.clone())
    };
    let (low, high) = (number(low), number(high));
    let gap = (wide + 2).saturating_sub(low.chars().count() + high.chars().count());
    text += &format!(
        " {:label$} {low}{:gap$}{high}  {}\n",
        "",
        "",
        rows.axis.heading()
    );
    for Reference { at, label } in &rows.references {
        text += &format!(" {}: {}\n", printable(label), rows.axis.quantity.words(*at));
    }
    let legend = rows
        .legend
        .iter()
        .map(|(tone, words)| format!("{} {}", sign(*tone), printable(words)));
    let legend = legend.collect::<Vec<_>>().join("   ");
    if !legend.is_empty() {
        text += &wrap(&legend, width, " ");
    }
    text
}

fn drawn_row(rows: &Rows, row: &Row, wide: usize) -> String {
    let mut cells = vec![' '; wide];
    let place =
        |value: f64| ((rows.axis.percent(value) / 100.0 * wide as f64) as usize).min(wide - 1);
    let (low, high) = rows.axis.ends();
    if low < 0.0 && high > 0.0 {
        cells[place(0.0)] = LEVEL;
    }
    for reference in &rows.references {
        cells[place(reference.at)] = LEVEL;
    }
    for mark in &row.marks {
        match mark {
            Mark::Bar { from, to, tone, .. } => {
                let (from, to) = (place(from.min(*to)), place(from.max(*to)));
                cells[from..=to].fill(sign(*tone));
            }
            // the span covers the end of the bar: draw only its part beyond the bar
            Mark::Span { low, high } => {
                let end = place(*high);
                let from = place(*low);
                for cell in cells[from..=end].iter_mut().filter(|cell| **cell == ' ') {
                    *cell = sign(Tone::Span);
                }
            }
            Mark::Dots { values, tone, .. } => {
                for value in values {
                    cells[place(*value)] = sign(*tone);
                }
            }
            Mark::Line { at, tone, .. } => cells[place(*at)] = sign(*tone),
        }
    }
    cells.into_iter().collect()
}

/// Draws a heat map as a table of its values. Notes below it have what its cells have no room for.
fn draw_cells(curves: &Curves, width: usize) -> String {
    let columns = curves.columns();
    let heads = columns.iter().map(|(_, name)| Column::right(name, &[]));
    let first = Column::left(&curves.across.heading(), &[]);
    let mut table = Table::new(std::iter::once(first).chain(heads).collect());
    let mut notes = String::new();
    for curve in &curves.curves {
        let mut cells = vec![Cell::text(printable(&curve.name))];
        for (at, _) in &columns {
            let cell = curves.cell(curve, *at);
            let text = cell.as_ref().map_or("", |cell| &cell.text);
            let has_note = |cell: &HeatCell| cell.is_hatched || cell.class == "gap";
            let note = cell.as_ref().filter(|cell| has_note(cell));
            cells.push(Cell::text(match note {
                Some(_) => format!("{text} *"),
                None => text.to_owned(),
            }));
            if let Some(note) = note {
                notes += &wrap(&format!("* {}", printable(&note.words)), width, "   ");
            }
        }
        table.push(table::Mark::None, cells);
    }
    format!(" {}\n{}{notes}", curves.up.heading(), table.text(width))
}

fn draw_curves(curves: &Curves, width: usize) -> String {
    if curves.size == Size::Cells {
        return draw_cells(curves, width);
    }
    let names = curves
        .curves
        .iter()
        .map(|curve| curve.name.chars().count() + 3);
    let names = names.max().unwrap_or(0).min(width / 4);
    let wide = width.saturating_sub(NUMBERS + names + 3).max(20);
    let mut canvas = Canvas {
        wide,
        braille: vec![0; wide * LINES],
    };
    for curve in &curves.curves {
        canvas.curve(curves, curve);
    }
    let mut lines = canvas.lines();
    for (at, _) in curves.curves.iter().flat_map(|curve| &curve.gaps) {
        let place = (curves.across.percent(*at) / 100.0 * wide as f64) as usize;
        lines[LINES - 1][place.min(wide - 1)] = '\u{d7}';
    }
    let lines = lines.into_iter().map(String::from_iter);
    let mut beside: Vec<String> = vec![String::new(); LINES];
    for (n, curve) in curves.curves.iter().enumerate() {
        let Some((_, last)) = curve.points.last() else {
            continue;
        };
        let requested = line_of(curves.up.percent(*last));
        // the next free line: downwards, then upwards
        let free = (requested..LINES)
            .chain((0..requested).rev())
            .find(|line| beside[*line].is_empty());
        if let Some(line) = free {
            beside[line] = shorten(&format!("{} {}", letter(n), printable(&curve.name)), names);
        }
    }
    let mut numbers = vec![String::new(); LINES];
    for (at, number) in &curves.up.ticks {
        let line = &mut numbers[line_of(curves.up.percent(*at))];
        if line.is_empty() {
            line.clone_from(number);
        }
    }
    let mut text = format!("{:NUMBERS$} {}\n", "", curves.up.heading());
    for ((number, line), name) in numbers.iter().zip(lines).zip(beside) {
        text += format!("{number:>NUMBERS$} {BAR}{line}{BAR} {name}").trim_end();
        text.push('\n');
    }
    let mut below = vec![' '; wide + 2];
    for (at, number) in &curves.across.ticks {
        let middle = (curves.across.percent(*at) / 100.0 * wide as f64) as usize;
        let long = number.chars().count();
        let from = middle
            .saturating_sub(long / 2)
            .min((wide + 2).saturating_sub(long));
        let free = from == 0 || below[from - 1] == ' ';
        if free && from + long <= below.len() && below[from..from + long].iter().all(|c| *c == ' ')
        {
            number
                .chars()
                .zip(from..)
                .for_each(|(c, place)| below[place] = c);
        }
    }
    let below: String = below.into_iter().collect();
    text += format!("{:NUMBERS$} {below}", "").trim_end();
    text += &format!("\n{:NUMBERS$} {}\n", "", curves.across.heading());
    let across = curves.across.quantity;
    for note in curves.gap_notes() {
        let note = format!("\u{d7} {}", printable(&note));
        text += &wrap(&note, width, &" ".repeat(NUMBERS + 1));
    }
    for band in &curves.bands {
        let (from, to) = (across.words(band.from), across.words(band.to));
        text += &format!(
            "{:NUMBERS$} {from} to {to}: {}\n",
            "",
            printable(&band.label)
        );
    }
    for reference in curves.moments.iter().chain(&curves.references) {
        let of = match curves.moments.contains(reference) {
            true => across,
            false => curves.up.quantity,
        };
        text += &format!(
            "{:NUMBERS$} {}: {}\n",
            "",
            printable(&reference.label),
            of.words(reference.at)
        );
    }
    text
}

fn letter(n: usize) -> char {
    char::from(b'a' + (n % 26) as u8)
}

/// Returns the line of a position in percent from the bottom.
fn line_of(percent: f64) -> usize {
    (((100.0 - percent) / 100.0 * LINES as f64) as usize).min(LINES - 1)
}

/// A canvas of dots; a braille character has two by four of them.
struct Canvas {
    wide: usize,
    braille: Vec<u8>,
}

impl Canvas {
    fn dot(&mut self, x: f64, y: f64) {
        let column = ((x * 2.0 * self.wide as f64) as usize).min(2 * self.wide - 1);
        let line = (((1.0 - y) * 4.0 * LINES as f64) as usize).min(4 * LINES - 1);
        let cell = line / 4 * self.wide + column / 2;
        // bits of braille: the first three rows of both columns, then the fourth row
        let bit = match (line % 4, column % 2) {
            (3, 0) => 6,
            (3, _) => 7,
            (row, 0) => row,
            (row, _) => row + 3,
        };
        self.braille[cell] |= 1 << bit;
    }

    fn curve(&mut self, curves: &Curves, curve: &Curve) {
        let place = |(x, y): (f64, f64)| {
            (
                curves.across.percent(x) / 100.0,
                curves.up.percent(y) / 100.0,
            )
        };
        let points: Vec<(f64, f64)> = curve.points.iter().copied().map(place).collect();
        for (x, y) in &points {
            self.dot(*x, *y);
        }
        if curve.line == Line::None {
            return;
        }
        for (pair, own) in points.windows(2).zip(curve.points.windows(2)) {
            let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
            if curve
                .gaps
                .iter()
                .any(|(at, _)| (own[0].0..own[1].0).contains(at))
            {
                continue;
            }
            let steps = ((x1 - x0).abs() * 2.0 * self.wide as f64)
                .max((y1 - y0).abs() * 4.0 * LINES as f64)
                .ceil() as usize;
            for step in 1..steps {
                if curve.line == Line::Dashed && step / 2 % 2 == 1 {
                    continue;
                }
                let part = step as f64 / steps as f64;
                let y = if curve.line == Line::Steps {
                    y0
                } else {
                    y0 + part * (y1 - y0)
                };
                self.dot(x0 + part * (x1 - x0), y);
            }
        }
    }

    fn lines(&self) -> Vec<Vec<char>> {
        let cell = |dots: &u8| match dots {
            0 => ' ',
            dots => char::from_u32(0x2800 + u32::from(*dots)).unwrap_or(' '),
        };
        let lines = self.braille.chunks(self.wide);
        lines.map(|line| line.iter().map(cell).collect()).collect()
    }
}
