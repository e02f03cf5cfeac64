//! Profile of a test case: the functions with the largest shares of time or instructions, and their
//! call paths.
//!
//! A flame graph needs more room than a terminal has: it is in the report and on the dashboard.

use fwdlab_report::number::percent;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::{App, Costly};
use super::super::theme::Theme;
use super::{fitted, text_popup};

/// Columns of a bar for 100 %.
const BAR: f64 = 24.0;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let mut words = vec![format!("{:>7} {:>7}  function", "itself", "with all")];
    words.extend(app.costly().iter().map(|one: &Costly| {
        let bar = theme
            .pick("█", "#")
            .repeat((one.itself * BAR).round() as usize);
        let line = format!(
            "{:>7} {:>7}  {} {bar}",
            percent(100.0 * one.itself),
            percent(100.0 * one.with_all),
            one.name
        );
        fitted(&line, 74, theme)
    }));
    words.push("The graph: fwdlab serve, or report.html of the run.".into());
    text_popup(frame, area, 78, "where it went", words, (app, theme));
}
