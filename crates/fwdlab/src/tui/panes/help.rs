//! Explains the keys and the words on the screen.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::{App, Mode};
use super::super::keys::KeyFunction;
use super::super::theme::Theme;
use super::legend::first;
use super::{text_popup, wrapped};

/// Columns of the window.
const WIDTH: u16 = 76;

/// Words on the screen, with their meaning.
const MEANT: [(&str, &str); 6] = [
    ("offered", "frames per second that were really sent"),
    ("forwarded", "frames per second that came back from the DUT"),
    (
        "loss ~",
        "between two readings; without ~ of a whole trial, exact",
    ),
    (
        "search",
        "loads between which the largest one without loss lies",
    ),
    ("apart", "smallest and largest iteration of a test case"),
    ("invalid", "trials that do not count, and the reason"),
];

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let key = |does: &[KeyFunction]| {
        let keys: Vec<String> = does.iter().map(|does| first(app, *does)).collect();
        keys.join(" ")
    };
    let mut words: Vec<(String, String)> = Vec::new();
    let mut say = |word: String, means: &str| words.push((word, means.to_owned()));
    match app.mode {
        Mode::Replay => {
            say(key(&[KeyFunction::Freeze]), "pause or continue the replay");
            let speed = key(&[KeyFunction::Faster, KeyFunction::Slower]);
            say(speed, "twice as fast, half as fast");
        }
        _ => say(
            key(&[KeyFunction::Freeze]),
            "freeze the screen while the run continues; again: back to now",
        ),
    }
    let ten = key(&[KeyFunction::PageBack, KeyFunction::PageOn]);
    let ends = key(&[KeyFunction::First, KeyFunction::Latest]);
    say(
        key(&[KeyFunction::Back, KeyFunction::On]),
        &format!("one trial back or on ({ten}: ten; {ends})"),
    );
    let scroll = key(&[KeyFunction::Up, KeyFunction::Down]);
    say(
        key(&[KeyFunction::Pane]),
        &format!("next pane; {scroll} scroll it"),
    );
    say(
        key(&[KeyFunction::Loss]),
        "what became of every frame of the trial shown",
    );
    say(
        key(&[KeyFunction::Latency]),
        "latencies of the trials of its test case",
    );
    say(
        key(&[KeyFunction::Flame]),
        "where the DUT's time or instructions went, if recorded",
    );
    if app.is_steered() {
        say(
            key(&[KeyFunction::Pause]),
            "pause: the next trial waits; again: continue",
        );
        say(
            key(&[KeyFunction::Skip]),
            "skip the test case that is measured, from now on",
        );
    }
    let quit = match app.mode {
        Mode::Replay => "quit",
        _ => "quit: asks whether the run stops or continues",
    };
    if app.mode == Mode::Own {
        say(
            key(&[KeyFunction::Detach]),
            "leave the screen; the run continues (fwdlab top shows it)",
        );
    }
    say(key(&[KeyFunction::Quit]), quit);
    match app.mode {
        Mode::Own => say(
            "ctrl-c".into(),
            "stop the run: everything is undone, results are kept",
        ),
        Mode::Other => say("ctrl-c".into(), "leave the screen; the run continues"),
        Mode::Replay => {}
    }
    say(
        key(&[KeyFunction::Keep]),
        "leave, and keep the last screen on the terminal",
    );
    say("ctrl-z".into(), "suspend, back to the shell; fg resumes");
    say(String::new(), "");
    for (word, means) in MEANT {
        say(word.to_owned(), means);
    }
    let width = WIDTH.min(area.width).saturating_sub(2);
    let longest = words.iter().map(|(word, _)| word.chars().count()).max();
    let (word, room) = (longest.unwrap_or(0), usize::from(width));
    let room = room.saturating_sub(word + 2) as u16;
    let words: Vec<String> = words
        .into_iter()
        .flat_map(|(key, means)| {
            let mut means = wrapped(&means, room, "").into_iter();
            let first = format!("{key:<word$}  {}", means.next().unwrap_or_default());
            let rest = means.map(|more| format!("{:word$}  {more}", ""));
            std::iter::once(first).chain(rest).collect::<Vec<_>>()
        })
        .collect();
    let height = words.len() as u16 + 2;
    let title = match height > area.height {
        true => format!("keys and words ({scroll}: more)"),
        false => "keys and words".to_owned(),
    };
    text_popup(frame, area, WIDTH, &title, words, (app, theme));
}
