//! The last line: only the keys that currently do something.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::app::{App, Mode, Overlay};
use super::super::keys::{Does, Key};
use super::super::theme::Theme;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let keys = keys(app, theme);
    let long = |(key, word): &(String, String)| key.chars().count() + 1 + word.chars().count();
    let width = usize::from(area.width);
    // narrow the gaps if that shows more keys
    let all: usize = keys.iter().map(|one| long(one) + 2).sum();
    let gap = if all > width + 2 { 1 } else { 2 };
    let mut used = 0;
    let mut spans = Vec::new();
    for one in keys {
        used += long(&one);
        if used > width {
            break;
        }
        used += gap;
        let (key, word) = one;
        spans.push(Span::styled(key, theme.focus()));
        spans.push(Span::raw(format!(" {word}{:gap$}", "")));
    }
    Line::from(spans).render(area, frame.buffer_mut());
}

/// Returns the keys, most important first.
pub fn keys(app: &App, theme: Theme) -> Vec<(String, String)> {
    let key = |does| first(app, does);
    let arrows = match (app.settings.keys(Does::Back), app.settings.keys(Does::On)) {
        ([Key::Left, ..], [Key::Right, ..]) => theme.pick("←→", "<>").to_owned(),
        _ => key(Does::Back) + &key(Does::On),
    };
    let mut keys: Vec<(String, &str)> = Vec::new();
    match app.overlay {
        Some(Overlay::Quit) => {
            if app.is_steered() {
                keys.push(("s".into(), "stop"));
            }
            keys.extend([("l".into(), "leave"), ("Esc".into(), "cancel")]);
        }
        Some(Overlay::Loss | Overlay::Latency) => {
            keys.extend([("Esc".into(), "back"), (arrows, "other trials")])
        }
        Some(Overlay::Help | Overlay::Flame) => keys.push(("Esc".into(), "back")),
        None => {
            keys.push((key(Does::Quit), "quit"));
            keys.push((key(Does::Help), "help"));
            keys.push((
                key(Does::Freeze),
                match (app.mode, app.is_playing() || !app.is_frozen()) {
                    (Mode::Replay, _) if app.is_playing() => "hold",
                    (Mode::Replay, _) => "play",
                    (_, true) => "freeze",
                    (_, false) => "unfreeze",
                },
            ));
            if !app.trials().is_empty() {
                keys.push((arrows, "trial"));
                keys.push((key(Does::Loss), "loss"));
                if app.has_latency() {
                    keys.push((key(Does::Latency), "latency"));
                }
            }
            keys.push((key(Does::Pane), "pane"));
            if app.is_steered() {
                let word = if app.is_paused() { "resume" } else { "pause" };
                keys.push((key(Does::Pause), word));
                keys.push((key(Does::Skip), "skip"));
            }
            if app.mode == Mode::Own && app.is_steered() {
                keys.push((key(Does::Detach), "detach"));
            }
            if app.mode == Mode::Replay {
                keys.push((key(Does::Faster) + &key(Does::Slower), "speed"));
            }
        }
    }
    let owned = keys.into_iter();
    owned.map(|(key, word)| (key, word.to_owned())).collect()
}

/// Returns the first key for this function.
pub fn first(app: &App, does: Does) -> String {
    let key = app.settings.keys(does).first();
    key.map_or(String::new(), ToString::to_string)
}
