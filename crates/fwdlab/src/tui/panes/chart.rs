//! The rates over time: the forwarded rate as an area, the offered rate as a line above it. They
//! can be distinguished without colour.
//!
//! The newest reading is on the right; if there are few readings, each is several columns wide.
//! Start with [`draw`].

use fwdlab_report::number::Prefix;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::super::app::{App, Point};
use super::super::theme::{Symbols, Theme};
use super::clock;

/// Columns of the scale.
const SCALE: u16 = 7;
/// Maximum columns per reading.
const WIDEST: usize = 6;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    if area.height < 3 || area.width < SCALE + 10 {
        return;
    }
    let plot = Rect {
        x: area.x + SCALE,
        width: area.width - SCALE,
        height: area.height - 1,
        ..area
    };
    let per_column = if theme.symbols == Symbols::Braille {
        2
    } else {
        1
    };
    let most = usize::from(plot.width) * per_column;
    let points = app.points();
    let points = &points[points.len().saturating_sub(most)..];
    // clip the offered rate if it far exceeds the forwarded rate: it would flatten the rest
    let largest = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let (offered, forwarded) = (largest(|p| p.offered_pps), largest(|p| p.forwarded_pps));
    let top = nice(match forwarded > 0.0 {
        true => offered.min(1.7 * forwarded).max(forwarded),
        false => offered,
    });
    let prefix = Prefix::for_largest([top]);
    let buffer = frame.buffer_mut();
    let steps = if plot.height >= 6 { 2 } else { 1 };
    for step in 0..=steps {
        let value = top * f64::from(step) / f64::from(steps);
        let y = plot.bottom() - 1 - (plot.height - 1) * step / steps;
        let words = match step == steps {
            true => format!(
                "{} {}",
                prefix.tick(value, top / f64::from(steps)),
                prefix.pps()
            ),
            false => prefix.tick(value, top / f64::from(steps)),
        };
        let words = if words.len() > usize::from(SCALE) - 1 {
            prefix.tick(value, top / f64::from(steps))
        } else {
            words
        };
        buffer.set_string(
            area.x,
            y,
            format!("{words:>width$}", width = usize::from(SCALE) - 1),
            theme.faint(),
        );
    }
    let axis = theme.pick("│", "|");
    for y in plot.y..plot.bottom() {
        buffer.set_string(plot.x - 1, y, axis, theme.faint());
    }
    match theme.symbols {
        Symbols::Braille => braille(buffer, plot, points, top, theme),
        _ => columns(buffer, plot, points, top, theme),
    }
    let span = match (points.first(), points.last()) {
        (Some(first), Some(last)) if last.t - first.t >= 1.0 => {
            format!("last {}", clock(last.t - first.t))
        }
        (Some(_), Some(_)) => format!("last {} readings", points.len()),
        _ => String::new(),
    };
    let (area_sign, line_sign) = match theme.symbols {
        Symbols::Braille => ("⣿", "⠒"),
        Symbols::Block => ("█", "─"),
        Symbols::Ascii => (":", "-"),
    };
    let legend = Line::from(vec![
        ratatui::text::Span::styled(
            format!("{:>width$} ", prefix.pps(), width = usize::from(SCALE) - 1),
            theme.faint(),
        ),
        ratatui::text::Span::styled(line_sign.repeat(2), theme.offered()),
        ratatui::text::Span::raw(" offered  "),
        ratatui::text::Span::styled(area_sign.repeat(2), theme.forwarded()),
        ratatui::text::Span::raw(" forwarded  "),
        ratatui::text::Span::styled(span, theme.faint()),
    ]);
    let bottom = Rect {
        y: area.bottom() - 1,
        height: 1,
        ..area
    };
    legend.render(bottom, buffer);
}

/// Returns a round number not below this one.
fn nice(largest: f64) -> f64 {
    if largest <= 0.0 || !largest.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(largest.log10().floor());
    // half of each has few digits, too
    let steps = [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 4.0, 6.0, 8.0, 10.0];
    let step = steps
        .into_iter()
        .find(|step| step * power >= largest * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

/// Returns the readings from left to right, each with as many columns as fit.
fn spread(points: &[Point], room: usize) -> impl Iterator<Item = (usize, &Point)> {
    let each = (room / points.len().max(1)).clamp(1, WIDEST);
    let begin = room.saturating_sub(points.len() * each);
    let columns = points
        .iter()
        .flat_map(move |point| std::iter::repeat_n(point, each));
    (begin..room).zip(columns)
}

/// Draws two columns and four rows of dots per character.
fn braille(buffer: &mut Buffer, plot: Rect, points: &[Point], top: f64, theme: Theme) {
    let rows = usize::from(plot.height) * 4;
    let dots = usize::from(plot.width) * 2;
    // for each cell, the dots of both rates, and whether the area covers it
    let mut cells = vec![(0u8, false); usize::from(plot.width) * usize::from(plot.height)];
    let dot = |cells: &mut Vec<(u8, bool)>, x: usize, row: usize, of_area: bool| {
        let (column, line) = (x / 2, (rows - 1 - row) / 4);
        let bit = match (x % 2, (rows - 1 - row) % 4) {
            (0, 3) => 0x40,
            (1, 3) => 0x80,
            (0, row) => 1 << row,
            (_, row) => 8 << row,
        };
        let cell = &mut cells[line * usize::from(plot.width) + column];
        cell.0 |= bit;
        cell.1 |= of_area;
    };
    for (x, point) in spread(points, dots) {
        let height =
            |pps: f64| ((pps / top) * rows as f64).round().clamp(0.0, rows as f64) as usize;
        for row in 0..height(point.forwarded_pps) {
            dot(&mut cells, x, row, true);
        }
        if let Some(row) = height(point.offered_pps).checked_sub(1) {
            dot(&mut cells, x, row, false);
        }
    }
    for (at, (bits, of_area)) in cells.into_iter().enumerate() {
        if bits != 0 {
            let (x, y) = (at % usize::from(plot.width), at / usize::from(plot.width));
            let style = if of_area {
                theme.forwarded()
            } else {
                theme.offered()
            };
            let sign = char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ');
            buffer.set_string(
                plot.x + x as u16,
                plot.y + y as u16,
                sign.to_string(),
                style,
            );
        }
    }
}

/// Draws a column for each reading, in eighths of a character or in whole ones.
fn columns(buffer: &mut Buffer, plot: Rect, points: &[Point], top: f64, theme: Theme) {
    const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let parts = if theme.symbols == Symbols::Block {
        8
    } else {
        1
    };
    let rows = usize::from(plot.height) * parts;
    for (x, point) in spread(points, usize::from(plot.width)) {
        let height =
            |pps: f64| ((pps / top) * rows as f64).round().clamp(0.0, rows as f64) as usize;
        let (full, line) = (height(point.forwarded_pps), height(point.offered_pps));
        for row in 0..usize::from(plot.height) {
            let in_cell = full.saturating_sub(row * parts).min(parts);
            let y = plot.bottom() - 1 - row as u16;
            let x = plot.x + x as u16;
            if in_cell > 0 {
                let sign = if parts == 8 { EIGHTHS[in_cell] } else { ":" };
                buffer.set_string(x, y, sign, theme.forwarded());
            }
            let is_line = line > 0 && (line - 1) / parts == row;
            if is_line && in_cell == 0 {
                buffer.set_string(x, y, theme.pick("─", "-"), theme.offered());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nice;

    #[test]
    fn scales_end_in_round_numbers() {
        for (largest, top) in [
            (0.0, 1.0),
            (1.0, 1.0),
            (1.31e6, 1.4e6),
            (14.88e6, 16e6),
            (997.0, 1000.0),
            (2.1, 4.0),
        ] {
            let found = nice(largest);
            assert!((found / top - 1.0).abs() < 1e-9, "{largest}: {found}");
        }
    }
}
