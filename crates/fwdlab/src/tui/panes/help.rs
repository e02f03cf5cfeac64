//! What the keys do, and what the words on the screen mean.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::super::app::{App, Mode};
use super::super::theme::Theme;
use super::{lines, over};

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let mut words =
        vec!["space        freeze the screen while the run goes on; again: back to now"];
    if app.mode == Mode::Replay {
        words = vec![
            "space        hold the replay, or go on",
            "+ -          twice as fast, half as fast",
        ];
    }
    words.extend([
        "left right   one trial back or on (PageUp, PageDown: ten; Home, End)",
        "tab          next pane; up and down scroll it",
        "e            what became of every frame of the trial shown",
        "l            latencies of the trials of its test case",
        "f            where the DUT's time or instructions went, where it is kept",
    ]);
    if app.is_steered() {
        words.extend([
            "p            pause: the next trial waits; again: go on",
            "s            skip the test case that is measured, from now on",
        ]);
    }
    words.extend(match app.mode {
        Mode::Own => &[
            "d            leave the screen; the run goes on (fwdlab top shows it)",
            "q            quit: asks whether the run stops or goes on",
            "Ctrl-C       stop the run: everything is undone, results are kept",
        ][..],
        Mode::Other => &[
            "q            quit: asks whether the run stops or goes on",
            "Ctrl-C       leave the screen; the run goes on",
        ],
        Mode::Replay => &["q            quit"],
    });
    words.extend([
        "Q            leave, and keep the screen's last words on the terminal",
        "Ctrl-Z       to the shell; fg comes back",
        "",
        "offered      frames per second that were really sent",
        "forwarded    frames per second that came back from the DUT",
        "loss ~       between two readings; without ~ of a whole trial, exact",
        "search       loads between which the largest one without loss lies",
        "apart        smallest and largest iteration of a test case",
        "invalid      trials that count for nothing, and say why",
    ]);
    let size = (76, words.len() as u16 + 2);
    let inner = over(frame, area, size, "keys and words", theme);
    let words: Vec<Line<'_>> = words.into_iter().map(Line::from).collect();
    lines(frame, inner, &words, app.scroll);
}
