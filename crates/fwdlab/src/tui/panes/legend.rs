//! The last line: only the keys that currently do something.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::app::{App, Mode, Overlay};
use super::super::keys::{Key, KeyFunction};
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
    let arrows = match (
        app.settings.keys(KeyFunction::Back),
        app.settings.keys(KeyFunction::On),
    ) {
        ([Key::Left, ..], [Key::Right, ..]) => theme.pick("←→", "<>").to_owned(),
        _ => key(KeyFunction::Back) + &key(KeyFunction::On),
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
            keys.push((key(KeyFunction::Quit), "quit"));
            keys.push((key(KeyFunction::Help), "help"));
            keys.push((
                key(KeyFunction::Freeze),
                match (app.mode, app.is_playing() || !app.is_frozen()) {
                    (Mode::Replay, _) if app.is_playing() => "hold",
                    (Mode::Replay, _) => "play",
                    (_, true) => "freeze",
                    (_, false) => "unfreeze",
                },
            ));
            if !app.trials().is_empty() {
                keys.push((arrows, "trial"));
                keys.push((key(KeyFunction::Loss), "loss"));
                if app.has_latency() {
                    keys.push((key(KeyFunction::Latency), "latency"));
                }
            }
            keys.push((key(KeyFunction::Pane), "pane"));
            if app.is_steered() {
                let word = if app.is_paused() { "resume" } else { "pause" };
                keys.push((key(KeyFunction::Pause), word));
                keys.push((key(KeyFunction::Skip), "skip"));
            }
            if app.mode == Mode::Own && app.is_steered() {
                keys.push((key(KeyFunction::Detach), "detach"));
            }
            if app.mode == Mode::Replay {
                keys.push((
                    key(KeyFunction::Faster) + &key(KeyFunction::Slower),
                    "speed",
                ));
            }
        }
    }
    let owned = keys.into_iter();
    owned.map(|(key, word)| (key, word.to_owned())).collect()
}

/// Returns the first key for this function.
pub fn first(app: &App, does: KeyFunction) -> String {
    let key = app.settings.keys(does).first();
    key.map_or(String::new(), ToString::to_string)
}
