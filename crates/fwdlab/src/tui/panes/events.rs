//! The events, newest last.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::app::{App, Mark, Pane};
use super::super::theme::Theme;
use super::{clock, fitted, framed, lines};

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme, title: &str) {
    let inner = framed(frame, area, title, theme);
    let telemetry = app.events();
    let height = usize::from(inner.height);
    // scroll up from the newest
    let back = if app.pane == Pane::Events {
        app.scroll
    } else {
        0
    };
    let end = telemetry
        .len()
        .saturating_sub(back)
        .max(height.min(telemetry.len()));
    let width = usize::from(inner.width);
    let shown: Vec<Line<'_>> = telemetry[end.saturating_sub(height)..end]
        .iter()
        .map(|telemetry| {
            let time = clock(telemetry.t);
            let (sign, style) = match telemetry.mark {
                Mark::Plain => (" ", theme.plain()),
                Mark::Good => (theme.pick("✓", "v"), theme.good()),
                Mark::Bad => ("!", theme.bad()),
            };
            let words = fitted(
                &telemetry.words,
                width.saturating_sub(time.len().max(6) + 3),
                theme,
            );
            Line::from(vec![
                Span::styled(format!("{time:>6} "), theme.faint()),
                Span::styled(format!("{sign} "), style),
                Span::raw(words),
            ])
        })
        .collect();
    lines(frame, inner, &shown, 0);
}
