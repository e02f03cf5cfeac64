//! The last line: the keys that do something now, and only these.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::app::{App, Mode, Overlay};
use super::super::theme::Theme;

/// Between a key and its word, and between two of them.
const GAPS: usize = 3;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let mut left = usize::from(area.width);
    let mut spans = Vec::new();
    for (key, word) in keys(app, theme) {
        let width = key.chars().count() + word.chars().count() + GAPS;
        if width > left + 2 {
            break;
        }
        left = left.saturating_sub(width);
        spans.push(Span::styled(key, theme.focus()));
        spans.push(Span::raw(format!(" {word}  ")));
    }
    Line::from(spans).render(area, frame.buffer_mut());
}

/// What can be typed, the most important first.
pub fn keys(app: &App, theme: Theme) -> Vec<(String, String)> {
    let arrows = theme.pick("←→", "<>");
    let mut keys: Vec<(&str, &str)> = Vec::new();
    match app.overlay {
        Some(Overlay::Quit) => {
            if app.is_steered() {
                keys.push(("s", "stop"));
            }
            keys.extend([("l", "leave"), ("Esc", "cancel")]);
        }
        Some(Overlay::Loss | Overlay::Latency) => {
            keys.extend([("Esc", "back"), (arrows, "other trials")])
        }
        Some(Overlay::Help | Overlay::Flame) => keys.push(("Esc", "back")),
        None => {
            keys.push(("q", "quit"));
            keys.push(("?", "help"));
            keys.push((
                "space",
                match (app.mode, app.is_playing() || !app.is_frozen()) {
                    (Mode::Replay, _) if app.is_playing() => "hold",
                    (Mode::Replay, _) => "play",
                    (_, true) => "freeze",
                    (_, false) => "unfreeze",
                },
            ));
            if !app.trials().is_empty() {
                keys.push((arrows, "trial"));
                keys.push(("e", "loss"));
                if app.has_latency() {
                    keys.push(("l", "latency"));
                }
            }
            keys.push(("tab", "pane"));
            if app.is_steered() {
                keys.push(("p", if app.is_paused() { "resume" } else { "pause" }));
                keys.push(("s", "skip"));
            }
            if app.mode == Mode::Own && app.is_steered() {
                keys.push(("d", "detach"));
            }
            if app.mode == Mode::Replay {
                keys.push(("+-", "speed"));
            }
        }
    }
    let owned = keys.into_iter();
    owned
        .map(|(key, word)| (key.to_owned(), word.to_owned()))
        .collect()
}
