//! Counters of the DUT's host during the last trial that has them: CPUs, drops, interrupts.

use fwdlab_model::telemetry::Telemetry;
use fwdlab_report::number::{count, percent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::app::{App, Pane};
use super::super::theme::Theme;
use super::{fitted, framed, lines, wrapped};

/// Columns of a CPU's bar.
const BAR: usize = 10;
/// Columns of a CPU.
const CPU: usize = 28;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme, title: &str) {
    let read = app.trials().iter().rev().take(1000).find_map(|trial| {
        let telemetry = trial.record.as_ref()?.telemetry.as_ref()?;
        Some((trial.number, telemetry))
    });
    let Some((number, telemetry)) = read else {
        let inner = framed(frame, area, title, theme);
        let words = "the DUT's host was not read: add `[telemetry]` to the campaign (docs/reference/telemetry.md)";
        let words: Vec<Line<'_>> = wrapped(words, inner.width, "")
            .into_iter()
            .map(Line::from)
            .collect();
        lines(frame, inner, &words, 0);
        return;
    };
    let host = telemetry.host.replace(|c: char| c.is_control(), " ");
    let title = format!("{title}: {host}, trial {number}");
    let inner = framed(
        frame,
        area,
        &fitted(&title, area.width.saturating_sub(6).into(), theme),
        theme,
    );
    let all = words(telemetry, inner.width.into(), theme);
    let scroll = if app.pane == Pane::Dut { app.scroll } else { 0 };
    lines(frame, inner, &all, scroll);
}

fn words(telemetry: &Telemetry, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut cpus: Vec<_> = telemetry.cpus.iter().collect();
    // forwarding CPUs first, then by load
    cpus.sort_by(|a, b| {
        (b.forwards, b.busy_ratio())
            .partial_cmp(&(a.forwards, a.busy_ratio()))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let per_line = (width / CPU).max(1);
    for some in cpus.chunks(per_line).take(8) {
        let spans = some.iter().flat_map(|cpu| {
            let busy = cpu.busy_ratio().clamp(0.0, 1.0);
            let full = (busy * BAR as f64).round() as usize;
            let kinds = [
                (cpu.softirq_ratio, "si"),
                (cpu.system_ratio, "sy"),
                (cpu.user_ratio, "us"),
                (cpu.irq_ratio, "hi"),
                (cpu.steal_ratio, "st"),
            ];
            let kind = kinds.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
            let kind = kind
                .filter(|(ratio, _)| *ratio >= 0.01)
                .map_or("", |(_, kind)| kind);
            let style = match busy {
                busy if busy >= 0.95 => theme.bad(),
                busy if busy >= 0.7 => theme.doubtful(),
                _ => theme.good(),
            };
            let mark = if cpu.forwards { "" } else { "other" };
            let words = format!(" {:>4.0}% {kind:<2} {mark}", 100.0 * busy);
            [
                Span::raw(format!("cpu{:<3}", cpu.cpu)),
                Span::styled(
                    theme.pick("█", "#").repeat(full) + &theme.pick("░", ".").repeat(BAR - full),
                    style,
                ),
                Span::raw(format!("{words:<width$}", width = CPU - BAR - 6)),
            ]
        });
        lines.push(Line::from(spans.collect::<Vec<_>>()));
    }
    let seconds = telemetry.between_s.max(1e-9);
    let mut drops: Vec<(String, u64)> = telemetry
        .drops
        .iter()
        .map(|(name, &n)| (name.replace(|c: char| c.is_control(), " "), n))
        .collect();
    drops.extend(
        (telemetry.softnet.iter())
            .filter(|cpu| cpu.dropped > 0)
            .map(|cpu| (format!("cpu{} backlog full", cpu.cpu), cpu.dropped)),
    );
    drops.retain(|(_, frames)| *frames > 0);
    drops.sort_by_key(|(_, frames)| std::cmp::Reverse(*frames));
    if drops.is_empty() {
        lines.push(Line::from("no counter of drops rose"));
    }
    for (name, frames) in drops {
        let per_second = count((frames as f64 / seconds).round() as i128);
        let share = percent(100.0 * frames as f64 / telemetry.frames_sent.max(1) as f64);
        let words = format!(
            "{name}  {} dropped ({share}), {per_second}/s",
            count(frames)
        );
        lines.push(Line::from(Span::styled(
            fitted(&words, width, theme),
            theme.strong(),
        )));
    }
    let interrupts: u64 = telemetry
        .interrupts
        .iter()
        .flat_map(|interrupt| interrupt.counts.values())
        .sum();
    let mut rest = vec![format!("read over {:.1} s", telemetry.between_s)];
    if interrupts > 0 {
        rest.push(format!(
            "interrupts {}/s",
            count((interrupts as f64 / seconds).round() as i128)
        ));
    }
    if let Some(hottest) = telemetry.hottest_celsius {
        rest.push(format!("hottest {hottest:.0} C"));
    }
    if let (Some(low), Some(high)) = (telemetry.lowest_mhz, telemetry.highest_mhz) {
        rest.push(format!("{low:.0} to {high:.0} MHz"));
    }
    lines.push(Line::from(Span::styled(
        fitted(&rest.join("  "), width, theme),
        theme.faint(),
    )));
    lines
}
