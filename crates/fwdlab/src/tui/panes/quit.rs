//! The question before leaving the screen of a run that is still running.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::super::app::{App, Mode};
use super::super::theme::Theme;
use super::{draw_popup, lines};

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let words = [
        match app.mode {
            Mode::Own => "The run continues.",
            _ => "The run of another process continues.",
        },
        "",
        "s    stop it: undo everything, keep what was measured",
        "l    leave it running: fwdlab top shows it again",
        "Esc  stay here",
    ];
    let inner = draw_popup(frame, area, (66, words.len() as u16 + 2), "quit?", theme);
    lines(frame, inner, &words.map(Line::from), 0);
}
