//! The test cases: which are done, which is being measured, and their results.

use fwdlab_report::number::percent;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::app::{App, FinishedIteration, Pane};
use super::super::settings::Column;
use super::super::theme::Theme;
use super::{fitted, framed, lines};

/// Columns of the sign, the gap between columns, and the minimum for a name.
const SIGN: usize = 2;
const GAP: usize = 2;
const LEAST_NAME: usize = 12;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme, title: &str) {
    let inner = framed(frame, area, title, theme);
    let current = app.current_case();
    let width = usize::from(inner.width);
    let mut longest = 0;
    let mut rows = Vec::new();
    for (at, (name, ended)) in app.cases().enumerate() {
        longest = longest.max(name.chars().count());
        let cells = app.settings.columns.iter();
        let cells: Vec<String> = cells.map(|column| cell(*column, &ended, app)).collect();
        let sign = sign(app, theme, Some(at) == current, &ended);
        rows.push((sign, name, cells, Some(at) == current));
    }
    let widths: Vec<usize> = (0..app.settings.columns.len())
        .map(|at| rows.iter().map(|row| row.2[at].chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    let shown = fitting_columns(&app.settings.columns, &widths, width, longest);
    let cells_wide: usize = shown.iter().map(|&at| widths[at] + GAP).sum();
    let names = longest.min(width.saturating_sub(cells_wide + SIGN));
    // figures are aligned to the right edge
    let all: Vec<Line<'_>> = rows
        .iter()
        .map(|((sign, style), name, cells, is_current)| {
            let name_style = match is_current {
                true => theme.strong(),
                false => theme.plain(),
            };
            let mut spans = vec![
                Span::styled(format!("{sign} "), *style),
                Span::styled(
                    format!("{:<names$}", fitted(name, names, theme)),
                    name_style,
                ),
            ];
            let mut free = width.saturating_sub(SIGN + names + cells_wide);
            for &at in &shown {
                let (text, wide) = (&cells[at], widths[at]);
                let is_last = app.settings.columns[at] == Column::Iterations;
                let gap = GAP
                    + if is_last {
                        std::mem::take(&mut free)
                    } else {
                        0
                    };
                let text = fitted(text, width.saturating_sub(SIGN + names + gap), theme);
                spans.push(Span::raw(format!("{:gap$}{text:<wide$}", "")));
            }
            Line::from(spans)
        })
        .collect();
    if all.is_empty() {
        lines(frame, inner, &[Line::from("none has begun")], 0);
        return;
    }
    // keep the current test case visible, unless the user has scrolled
    let height = usize::from(inner.height);
    let follow = current.map_or(0, |at| {
        (at + 1).saturating_sub(height.saturating_sub(1).max(1))
    });
    let scroll = if app.pane == Pane::Cases && app.scroll > 0 {
        app.scroll
    } else {
        follow
    };
    lines(frame, inner, &all, scroll);
}

fn sign(
    app: &App,
    theme: Theme,
    is_current: bool,
    ended: &[&FinishedIteration],
) -> (&'static str, ratatui::style::Style) {
    let failed = ended.iter().any(|one| one.failed);
    let is_done = app.end().is_some()
        || (app.head.iterations > 0 && ended.len() as u32 >= app.head.iterations);
    match (failed, is_current, is_done && !ended.is_empty()) {
        (true, _, _) => ("!", theme.bad()),
        (_, true, false) => (">", theme.strong()),
        (_, _, true) => (theme.pick("✓", "v"), theme.good()),
        _ => (" ", theme.plain()),
    }
}

/// Returns the indices of the columns that fit. If there is not enough room, first shortens names,
/// down to a few letters, then drops columns from the right; never drops the first column and the
/// number of iterations.
fn fitting_columns(
    columns: &[Column],
    widths: &[usize],
    width: usize,
    longest: usize,
) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).filter(|&at| widths[at] > 0).collect();
    let needs = |shown: &[usize]| {
        let cells: usize = shown.iter().map(|&at| widths[at] + GAP).sum();
        SIGN + longest.min(LEAST_NAME) + cells
    };
    while needs(&shown) > width {
        let mut last = shown.iter().skip(1).rev();
        let Some(&out) = last.find(|&&at| columns[at] != Column::Iterations) else {
            break;
        };
        shown.retain(|&at| at != out);
    }
    shown
}

/// Returns the text of a column.
fn cell(column: Column, ended: &[&FinishedIteration], app: &App) -> String {
    let mut good: Vec<&&FinishedIteration> =
        ended.iter().filter(|one| one.value.is_some()).collect();
    good.sort_by(|a, b| {
        a.value
            .partial_cmp(&b.value)
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let first =
        |one: &&&FinishedIteration| one.words.split(", ").next().unwrap_or_default().to_owned();
    let ends = (good.first(), good.last());
    match column {
        Column::Figure => match good.get(good.len().saturating_sub(1) / 2) {
            Some(median) => first(median),
            // show why there is no figure
            None => ended
                .last()
                .map_or(String::new(), |last| last.words.clone()),
        },
        Column::Apart => match (
            ends.0.and_then(|one| one.value),
            ends.1.and_then(|one| one.value),
        ) {
            (Some(least), Some(most)) if good.len() > 1 && most > 0.0 => {
                format!("{} apart", percent(100.0 * (most - least) / most))
            }
            _ => String::new(),
        },
        Column::Smallest => ends.0.map_or(String::new(), &first),
        Column::Largest => ends.1.map_or(String::new(), &first),
        Column::Last => ended.last().map_or(String::new(), |last| first(&last)),
        Column::Failed => match ended.iter().filter(|one| one.failed).count() {
            0 => String::new(),
            failed => format!("{failed} failed"),
        },
        Column::Iterations => {
            format!(
                "{}/{}",
                ended.len(),
                app.head.iterations.max(ended.len() as u32)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_leave_from_the_right_and_names_before_them() {
        use Column::{Apart, Figure, Iterations};
        let columns = [Figure, Apart, Iterations];
        let fit = |width| fitting_columns(&columns, &[20, 11, 3], width, 24);
        assert_eq!(fit(78), [0, 1, 2]);
        assert_eq!(fit(54), [0, 1, 2]);
        assert_eq!(fit(53), [0, 2]);
        assert_eq!(fit(10), [0, 2]);
        // empty columns take no room
        assert_eq!(fitting_columns(&columns, &[20, 0, 3], 78, 24), [0, 2]);
    }
}
