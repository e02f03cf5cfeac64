//! The layout of the panes, by the size of the terminal. 80x24 shows everything; wider terminals
//! show panes side by side that otherwise share an area.
//!
//! Start with [`draw`].

mod cases;
mod chart;
mod current;
mod dut;
mod events;
mod flame;
mod header;
mod help;
mod latency;
mod legend;
mod loss;
mod quit;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

use super::app::{App, Overlay, Pane};
use super::theme::Theme;

/// From this number of columns on, panes are side by side.
const WIDE: u16 = 110;
/// The smallest useful terminal.
const LEAST: (u16, u16) = (40, 10);

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let all = frame.area();
    if all.width < LEAST.0 || all.height < LEAST.1 {
        Line::from("terminal too small: q quits").render(all, frame.buffer_mut());
        return;
    }
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(all);
    header::draw(frame, head, app, theme);
    match all.width >= WIDE {
        true => draw_side_by_side(frame, body, app, theme),
        false => draw_stacked(frame, body, app, theme),
    }
    legend::draw(frame, foot, app, theme);
    match app.overlay {
        Some(Overlay::Help) => help::draw(frame, body, app, theme),
        Some(Overlay::Loss) => loss::draw(frame, body, app, theme),
        Some(Overlay::Latency) => latency::draw(frame, body, app, theme),
        Some(Overlay::Flame) => flame::draw(frame, body, app, theme),
        Some(Overlay::Quit) => quit::draw(frame, body, app, theme),
        None => {}
    }
}

/// Draws the console's ports: a finished table, and the key to leave.
pub fn ports(frame: &mut Frame<'_>, table: &str, theme: Theme) {
    let [body, foot] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    let inner = framed(frame, body, "ports", theme);
    let rows: Vec<Line<'_>> = table
        .lines()
        .zip(0..)
        .map(|(line, at)| match at {
            0 => Line::styled(line.to_owned(), theme.strong()),
            _ => Line::from(line.to_owned()),
        })
        .collect();
    lines(frame, inner, &rows, 0);
    let keys = Line::from(vec![
        Span::styled("q", theme.focus()),
        Span::raw(" back to the prompt  "),
        Span::styled("c", theme.focus()),
        Span::raw(" clear counters"),
    ]);
    keys.render(foot, frame.buffer_mut());
}

fn draw_side_by_side(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(58), Constraint::Fill(1)]).areas(area);
    let below = (area.height / 3).clamp(6, 14);
    let [now, dut] = Layout::vertical([Constraint::Fill(1), Constraint::Length(below)]).areas(left);
    let cases = (app.cases().len() as u16 + 2).clamp(5, area.height * 3 / 5);
    let [top, events] =
        Layout::vertical([Constraint::Length(cases), Constraint::Fill(1)]).areas(right);
    current::draw(frame, now, app, theme);
    dut::draw(frame, dut, app, theme, "dut");
    cases::draw(frame, top, app, theme, "test cases");
    events::draw(frame, events, app, theme, "events");
}

fn draw_stacked(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let below = (area.height * 2 / 5).clamp(4, 12);
    let [now, rest] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(below)]).areas(area);
    current::draw(frame, now, app, theme);
    match app.pane {
        Pane::Cases => cases::draw(frame, rest, app, theme, "[test cases] dut events"),
        Pane::Dut => dut::draw(frame, rest, app, theme, "test cases [dut] events"),
        Pane::Events => events::draw(frame, rest, app, theme, "test cases dut [events]"),
    }
}

/// Draws a border with a title. Returns the area inside.
fn framed(frame: &mut Frame<'_>, area: Rect, title: &str, theme: Theme) -> Rect {
    let title = Span::styled(format!(" {title} "), theme.strong());
    let block = Block::bordered()
        .border_set(theme.border())
        .border_style(theme.faint())
        .title(title);
    let inner = block.inner(area);
    block.render(area, frame.buffer_mut());
    inner
}

/// Draws a window of this size in the centre, over the current contents.
fn draw_popup(
    frame: &mut Frame<'_>,
    area: Rect,
    (width, height): (u16, u16),
    title: &str,
    theme: Theme,
) -> Rect {
    let width = width.min(area.width);
    let height = height.min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(place, frame.buffer_mut());
    framed(frame, place, title, theme)
}

/// Draws lines of text in a window as high as they are, scrolled like the screen.
fn text_popup(
    frame: &mut Frame<'_>,
    area: Rect,
    width: u16,
    title: &str,
    words: Vec<impl Into<Line<'static>>>,
    (app, theme): (&App, Theme),
) {
    let size = (width, words.len() as u16 + 2);
    let inner = draw_popup(frame, area, size, title, theme);
    let words: Vec<Line<'_>> = words.into_iter().map(Into::into).collect();
    lines(frame, inner, &words, app.scroll);
}

/// Draws lines, starting at a scroll position.
fn lines(frame: &mut Frame<'_>, area: Rect, lines: &[Line<'_>], scroll: usize) {
    let most = lines.len().saturating_sub(area.height.into());
    let shown = lines.iter().skip(scroll.min(most));
    for (line, y) in shown.zip(area.y..area.bottom()) {
        let row = Rect {
            y,
            height: 1,
            ..area
        };
        line.render(row, frame.buffer_mut());
    }
}

/// Wraps text to a width in characters.
fn wrapped(text: &str, width: u16, indent: &str) -> Vec<String> {
    let text = fwdlab_report::table::wrap(text, usize::from(width).max(20), indent);
    text.lines().map(str::to_owned).collect()
}

/// Formats a time like a clock: `0:07`, `1:12:40`.
fn clock(seconds: f64) -> String {
    let all = seconds.clamp(0.0, 1e9) as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Cuts text to a width; dots mark the cut.
fn fitted(text: &str, width: usize, theme: Theme) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let dots = theme.pick("…", "~");
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + dots
}
