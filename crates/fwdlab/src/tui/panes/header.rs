//! The first two lines, at every width: the run, its progress, its times, its state.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::app::{App, Mode};
use super::super::theme::Theme;
use super::{clock, fitted};

/// Columns of the bar.
const BAR: usize = 14;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let width = usize::from(area.width);
    let head = &app.head;
    let state = state(app);
    let mut title = format!("fwdlab  {}", head.name);
    if !head.bed.is_empty() {
        title += &format!(" on {}", head.bed);
    }
    // the state must be visible; names may be cut
    let id = format!("  {}  ", head.id);
    let room = width.saturating_sub(state.0.chars().count() + 1);
    let id_fits = title.chars().count() + id.chars().count() <= room;
    let title = match id_fits {
        true => title + &id,
        false => fitted(&title, room, theme),
    };
    let gap = width.saturating_sub(title.chars().count() + state.0.chars().count());
    let first = Line::from(vec![
        Span::styled(title, theme.strong()),
        Span::raw(" ".repeat(gap)),
        Span::styled(state.0, state.1),
    ]);
    let (done, steps) = (app.progress()).map_or((0, 0), |at| (at.done, at.steps));
    let share = match (app.end(), steps) {
        (Some(end), _) if end.is_good => 1.0,
        (_, 0) => 0.0,
        (_, steps) => f64::from(done.min(steps)) / f64::from(steps),
    };
    let full = (share * BAR as f64).round() as usize;
    let (on, off) = (theme.pick("█", "#"), theme.pick("░", "."));
    let bar = on.repeat(full) + &off.repeat(BAR - full);
    let valid = app.trials().iter().filter(|trial| trial.is_valid).count();
    let invalid = app.trials().len() - valid;
    // most important first: facts that do not fit are left out
    let mut facts = vec![(format!("{done}/{steps} steps"), theme.plain())];
    if let Some(left) = app.left_s() {
        facts.push((format!("left ~{}", clock(left)), theme.plain()));
    }
    let elapsed = (format!("elapsed {}", clock(app.elapsed_s())), theme.plain());
    facts.insert(1, elapsed);
    if invalid > 0 {
        facts.insert(
            1,
            (format!("{valid} valid, {invalid} INVALID"), theme.strong()),
        );
    } else if valid > 0 {
        facts.push((format!("{valid} valid, 0 invalid"), theme.plain()));
    }
    let mut room = width.saturating_sub(BAR);
    let mut second = vec![Span::styled(bar, theme.forwarded())];
    for (at, (words, style)) in facts.into_iter().enumerate() {
        let gap = if at == 0 { " " } else { "  " };
        let needs = gap.len() + words.chars().count();
        if needs <= room {
            room -= needs;
            second.extend([Span::raw(gap), Span::styled(words, style)]);
        }
    }
    let second = Line::from(second);
    for (line, y) in [first, second].into_iter().zip(area.y..area.bottom()) {
        let row = Rect {
            y,
            height: 1,
            ..area
        };
        line.render(row, frame.buffer_mut());
    }
}

/// Returns the state of the run in a word or two.
fn state(app: &App) -> (String, ratatui::style::Style) {
    let theme_free = ratatui::style::Style::new().add_modifier(ratatui::style::Modifier::REVERSED);
    let word = match (app.mode, app.end()) {
        (Mode::Replay, _) if app.is_playing() => format!(" REPLAY x{} ", app.speed),
        (Mode::Replay, Some(_)) => " REPLAY end ".into(),
        (Mode::Replay, None) => " REPLAY held ".into(),
        _ if app.is_frozen() => format!(" FROZEN at {} ", clock(app.elapsed_s())),
        (_, Some(end)) if end.is_good => " finished ".into(),
        (_, Some(_)) => " ended ".into(),
        _ if app.is_stopping => " stopping ".into(),
        _ if app.is_paused() => " PAUSED ".into(),
        _ => return (" running ".into(), ratatui::style::Style::new()),
    };
    (word, theme_free)
}
