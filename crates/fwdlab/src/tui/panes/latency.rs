//! The latencies of the trial on the screen, and of earlier trials at other loads.

use fwdlab_model::procedure::Delays;
use fwdlab_report::number::{count, delay, rate};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::{App, Trial};
use super::super::theme::Theme;
use super::text_popup;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let Some(shown) = app.shown_trial() else {
        return;
    };
    let of_case = app.trials().iter().rev();
    let of_case = of_case.filter(|trial| trial.case == shown.case);
    let measured: Vec<(&Trial, Delays)> = of_case
        .filter_map(|trial| Some((trial, trial.delays()?)))
        .collect();
    let mut words = vec![
        app.case_name(shown.case).to_owned(),
        format!(
            "{:>9} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "trial", "offered", "min", "p50", "p99", "p99.9", "max"
        ),
    ];
    let telemetry = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| delay(ns as f64));
    words.extend(measured.iter().map(|(trial, of)| {
        let mark = if trial.number == shown.number {
            ">"
        } else {
            " "
        };
        format!(
            "{mark}{:>8} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9}",
            trial.number,
            rate(trial.offered_pps),
            telemetry(Some(of.min_ns)),
            telemetry(Some(of.p50_ns)),
            telemetry(of.supported_p99_ns()),
            telemetry(of.p999_ns),
            telemetry(Some(of.max_ns)),
        )
    }));
    match shown.delays() {
        None => words.push("Trial shown: no latency was measured in it.".into()),
        Some(of) => words.push(format!(
            "Trial shown: {} frames were timed; -: too few lie above it to tell.",
            count(of.frames)
        )),
    }
    text_popup(frame, area, 78, "latency", words, (app, theme));
}
