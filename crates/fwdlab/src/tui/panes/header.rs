//! The first two lines: which run, how far, how long, how good. At every width.

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
    // the state must be seen, the names may be cut
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
    let (done, steps) = (app.standing()).map_or((0, 0), |at| (at.done, at.steps));
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
    let left = app
        .left_s()
        .map_or(String::new(), |left| format!("  left ~{}", clock(left)));
    let mut second = vec![
        Span::styled(bar, theme.forwarded()),
        Span::raw(format!(
            " {done}/{steps} steps  elapsed {}{left}",
            clock(app.elapsed_s())
        )),
    ];
    if valid + invalid > 0 {
        second.push(Span::raw(format!("  {valid} valid")));
        let style = if invalid > 0 {
            theme.doubtful()
        } else {
            theme.plain()
        };
        second.push(Span::styled(format!(", {invalid} invalid"), style));
    }
    for (line, y) in [first, Line::from(second)]
        .into_iter()
        .zip(area.y..area.bottom())
    {
        let row = Rect {
            y,
            height: 1,
            ..area
        };
        line.render(row, frame.buffer_mut());
    }
}

/// How the run stands, in a word or two.
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
