//! The current measurement: offered and forwarded rate, loss, latency, a chart of the rates, and
//! the state of a search.

use fwdlab_report::number::{delay, percent, rate};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

use super::super::app::{App, Bracket, Trial};
use super::super::theme::Theme;
use super::{chart, fitted, framed, lines};

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let inner = framed(frame, area, &title(app, area, theme), theme);
    let mut top = Vec::new();
    let trial = app.shown_trial();
    top.extend(rates(app, trial, theme));
    let width = usize::from(inner.width);
    if let Some(trial) = trial {
        top.push(Line::from(fitted(&latest(trial), width, theme)));
    }
    if let Some(standing) = app.progress()
        && app.end().is_none()
        && !standing.activity.is_empty()
    {
        let estimate = standing
            .estimate
            .as_ref()
            .map_or(String::new(), |e| format!("  {e}"));
        let next = format!("next      {}{estimate}", standing.activity);
        top.push(Line::from(Span::styled(
            fitted(&next, width, theme),
            theme.faint(),
        )));
    }
    if let Some(end) = app.end() {
        let style = if end.is_good {
            theme.plain()
        } else {
            theme.bad()
        };
        let words = format!("the run   {}", end.words);
        top.push(Line::from(Span::styled(
            fitted(&words, width, theme),
            style,
        )));
    }
    let bracket = app.bracket().map(|bracket| search(&bracket, width, theme));
    let [above, middle, below] = Layout::vertical([
        Constraint::Length(top.len() as u16),
        Constraint::Fill(1),
        Constraint::Length(u16::from(bracket.is_some())),
    ])
    .areas(inner);
    lines(frame, above, &top, 0);
    chart::draw(frame, middle, app, theme);
    if let Some(bracket) = bracket {
        lines(frame, below, &[bracket], 0);
    }
}

fn title(app: &App, area: Rect, theme: Theme) -> String {
    let Some(case) = app.current_case() else {
        return match app.shown_trial() {
            Some(trial) => format!(
                "last: {}",
                fitted(app.case_name(trial.case), area.width.into(), theme)
            ),
            None => "now".into(),
        };
    };
    let procedure = match app.head.procedure.as_str() {
        "" => String::new(),
        name => format!(" / {name}"),
    };
    let what = match app.is_frozen() {
        true => "then",
        false => "now",
    };
    let room = usize::from(area.width).saturating_sub(procedure.chars().count() + 12);
    format!(
        "{what}: {}{procedure}",
        fitted(app.case_name(case), room, theme)
    )
}

/// Returns the line with the offered and the forwarded rate.
fn rates(app: &App, trial: Option<&Trial>, theme: Theme) -> Vec<Line<'static>> {
    let Some(point) = app.points().last() else {
        return vec![Line::from("no frames yet")];
    };
    let lost = (point.offered_pps - point.forwarded_pps).max(0.0) / point.offered_pps.max(1e-9);
    // figures of a trial are exact, readings during a trial are not
    let (lost, is_exact) = match trial {
        Some(trial) if trial.t >= point.t => (trial.loss_ratio, true),
        _ => (lost, false),
    };
    let mut words = vec![
        Span::raw("offered "),
        Span::styled(format!("{:>11}", rate(point.offered_pps)), theme.figure()),
        Span::raw("   forwarded "),
        Span::styled(format!("{:>11}", rate(point.forwarded_pps)), theme.figure()),
        Span::raw(if is_exact { "   loss " } else { "   loss ~" }),
        Span::styled(percent(100.0 * lost), theme.figure()),
    ];
    let delays = trial.and_then(|trial| {
        let requested = trial.record.as_ref()?.asked.as_ref()?;
        requested.answer.delays
    });
    if let Some(delays) = delays {
        let p99 = delays
            .supported_p99_ns()
            .map_or(String::new(), |p99| format!(" p99 {}", delay(p99 as f64)));
        words.push(Span::raw(format!(
            "   latency p50 {}{p99}",
            delay(delays.p50_ns as f64)
        )));
    }
    vec![Line::from(words)]
}

/// Returns the last trial in words.
fn latest(trial: &Trial) -> String {
    let number = format!("trial {:<3} ", trial.number);
    let Some(record) = &trial.record else {
        return format!("{number} iteration {}", trial.iteration);
    };
    if !trial.is_valid {
        return format!("{number} INVALID: {}", record.validity.reasons.join("; "));
    }
    match &record.asked {
        Some(requested) if !requested.evaluation.is_empty() => {
            format!(
                "{number} {}: {}",
                requested.question.reason, requested.evaluation
            )
        }
        Some(requested) => format!("{number} {}", requested.question.reason),
        None => format!("{number} iteration {}", trial.iteration),
    }
    .replace(|c: char| c.is_control(), " ")
}

/// Draws the state of the search for the largest load without loss, on a scale from 0 to the
/// largest load tried.
fn search(bracket: &Bracket, width: usize, theme: Theme) -> Line<'static> {
    let words = match (bracket.lower_pps, bracket.upper_pps) {
        (Some(lower), Some(upper)) if lower < upper => {
            format!("no loss up to {}, loss from {}", rate(lower), rate(upper))
        }
        // one load had no loss in one trial, and loss in another
        (Some(lower), Some(upper)) => {
            format!("no loss at {}, but loss at {}", rate(lower), rate(upper))
        }
        (Some(lower), None) => format!("no loss up to {}", rate(lower)),
        (None, Some(upper)) => format!("loss from {}", rate(upper)),
        (None, None) => String::new(),
    };
    let head = format!("search    {words}, {} trials  ", bracket.trials);
    if head.trim_end().chars().count() > width {
        // omit the scale and the number of trials, keep the loads
        return Line::from(fitted(&format!("search    {words}"), width, theme));
    }
    let room = width.saturating_sub(head.chars().count() + 2);
    let mut spans = vec![Span::raw(head.clone())];
    if room >= 10 {
        let top = bracket
            .upper_pps
            .unwrap_or(bracket.most_pps)
            .max(bracket.lower_pps.unwrap_or(0.0))
            * 1.05;
        let at = |pps: f64| ((pps / top.max(1e-9)) * room as f64).round() as usize;
        let lower = bracket.lower_pps.map_or(0, at).min(room);
        let upper = bracket.upper_pps.map_or(room, at).clamp(lower, room);
        spans.extend([
            Span::raw("["),
            Span::styled(theme.pick("█", "#").repeat(lower), theme.good()),
            Span::styled(theme.pick("▒", "=").repeat(upper - lower), theme.doubtful()),
            Span::styled(theme.pick("·", ".").repeat(room - upper), theme.faint()),
            Span::raw("]"),
        ]);
    }
    Line::from(spans)
}
