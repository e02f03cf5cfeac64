//! The test cases: which are done, which is being measured, what was found.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::app::{App, Ended, Pane};
use super::super::theme::Theme;
use super::{fitted, framed, lines};

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme, title: &str) {
    let inner = framed(frame, area, title, theme);
    let current = app.current_case();
    let width = usize::from(inner.width);
    let longest = app
        .cases()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let names = longest.min(width * 2 / 5);
    let all: Vec<Line<'_>> = app
        .cases()
        .enumerate()
        .map(|(at, (name, ended))| {
            let (sign, style) = sign(app, theme, Some(at) == current, &ended);
            let so_far = format!(
                "{:>2}/{}",
                ended.len(),
                app.head.iterations.max(ended.len() as u32)
            );
            let room = width.saturating_sub(names + so_far.len() + 5);
            let found = fitted(&found(&ended), room, theme);
            Line::from(vec![
                Span::styled(format!("{sign} "), style),
                Span::styled(
                    format!("{:<names$}", fitted(name, names, theme)),
                    if Some(at) == current {
                        theme.strong()
                    } else {
                        theme.plain()
                    },
                ),
                Span::raw(format!("  {found:<room$} {so_far}")),
            ])
        })
        .collect();
    if all.is_empty() {
        lines(frame, inner, &[Line::from("none has begun")], 0);
        return;
    }
    // the one that is being measured stays in sight, unless somebody looks elsewhere
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
    ended: &[&Ended],
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

/// The middle of its iterations, and how far they are apart; or why there is none.
fn found(ended: &[&Ended]) -> String {
    let mut good: Vec<&&Ended> = ended.iter().filter(|one| one.value.is_some()).collect();
    good.sort_by(|a, b| {
        a.value
            .partial_cmp(&b.value)
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let Some(median) = good.get(good.len().saturating_sub(1) / 2) else {
        return ended
            .last()
            .map_or(String::new(), |last| last.words.clone());
    };
    let first = median.words.split(", ").next().unwrap_or_default();
    let apart = match (
        good.first().and_then(|one| one.value),
        good.last().and_then(|one| one.value),
    ) {
        (Some(least), Some(most)) if good.len() > 1 && most > 0.0 => {
            format!(
                "  {} apart",
                fwdlab_report::number::percent(100.0 * (most - least) / most)
            )
        }
        _ => String::new(),
    };
    let failed = ended.iter().filter(|one| one.failed).count();
    let failed = if failed > 0 {
        format!("  {failed} failed")
    } else {
        String::new()
    };
    format!("{first}{apart}{failed}")
}
