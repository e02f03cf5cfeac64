//! The summary in the terminal: 80 columns, fewer on a narrower one ([`fit`]), no colour, ASCII but for `±`.
//!
//! It arranges the tables of `content` and the sentences of `words`; where the run was saved is the caller's to say.
//! Start with [`quick`].

use std::borrow::Cow;

use fwdlab_model::loss::Ledger;
use fwdlab_model::result::{RunInfo, Summary, TrialRecord};

use crate::answer;
use crate::chart::runs;
use crate::chart::terminal::{self, Symbols};
use crate::content;
use crate::grid;
use crate::headline;
use crate::imported::KIND;
use crate::number::{difference, round_up};
use crate::run::Run;
use crate::screen::{paragraph, width};
use crate::shape::{self, Labels, Rated, Shape};
use crate::table::{Cell, Column, Mark, Table, shorten, wrap};
use crate::tips::Tips;
use crate::words;

pub use crate::screen::{fit, harmless, steers};

/// Columns for a row of dots: less shows nothing, more says nothing new.
const DOTS: std::ops::RangeInclusive<usize> = 11..=25;
/// Columns for the name of a configuration: commands are long, and stand in full below.
const CONFIGURATION: usize = 24;
/// A place counts for the kind of a loss when it took at least this share of the lost frames, in percent.
const KIND_PERCENT: f64 = 1.0;

/// The same with the charts of the run below it, drawn in characters.
pub fn with_charts(run: &Run<'_>) -> String {
    let mut text = quick(run.info, run.summary);
    if let Some(note) = &run.info.note {
        text += &paragraph("note", &note.replace(steers, " "));
    }
    text += &grid_text(run);
    text += &harmless(&Tips::of(run).text());
    for chart in runs::all(&[*run]) {
        text += &format!("\n\n{}", terminal::draw(&chart, width(), Symbols::Unicode));
    }
    text.trim_end().to_owned() + "\n"
}

/// Systems under conditions, where it is more than a list.
fn grid_text(run: &Run<'_>) -> String {
    let Some(grid) = grid::of(&[*run]).filter(|grid| grid.is_worth_showing(1)) else {
        return String::new();
    };
    let mut text = format!("\n{}", grid.table().text(width()));
    for sentence in grid.notes() {
        text += &paragraph("", &sentence);
    }
    harmless(&text)
}

/// The summary of a run as people see it in the terminal: the answer first, then why to trust it or not.
pub fn quick(info: &RunInfo, summary: &Summary) -> String {
    let mut text = wrap(&headline::of(info, summary).line(), width(), "");
    text.push('\n');
    text += &match Shape::of(summary) {
        _ if info.kind == KIND => crate::imported::text(summary),
        Shape::Campaign => crate::campaign::text(info, summary),
        Shape::Procedures => crate::procedures::text(info, summary),
        Shape::Windows | Shape::Slices => windows_or_slices(info, summary),
    };
    // Commands and reasons come from outside: none of them shall steer the terminal.
    harmless(&text)
}

/// Forwarding rates of quiet windows, or configurations beside a reference DUT, below their headline.
fn windows_or_slices(info: &RunInfo, summary: &Summary) -> String {
    let mut text = String::new();
    let rated = shape::rated(summary);
    if noise_first(summary) {
        for (name, sentence) in words::noise(summary) {
            text.push_str(&paragraph(name, &sentence));
        }
        text.push('\n');
    }
    if !shape::comparisons(summary).is_empty() {
        text.push_str(&comparison_table(summary));
        text.push('\n');
    }
    if answer::question(info).is_some() {
        for (name, sentence) in crate::campaign::asked(info, &summary.test_cases) {
            text.push_str(&paragraph(name, &sentence));
        }
    }
    for sentence in crate::exact::beside(&summary.test_cases) {
        text.push_str(&paragraph("exact", &sentence));
    }
    if !rated.is_empty() {
        text.push_str(&case_table(summary));
        text.push('\n');
        let losses = losses(&rated);
        if !losses.is_empty() {
            text.push_str(&losses);
            text.push('\n');
        }
    }
    text.push_str(&crate::efficiency::text(info, &summary.test_cases));
    if !noise_first(summary) {
        for (name, sentence) in words::noise(summary).skip(1) {
            text.push_str(&paragraph(name, &sentence));
        }
    }
    for (name, sentence) in crate::campaign::verdicts(summary) {
        text.push_str(&paragraph(name, &sentence));
    }
    for sentence in crate::telemetry::sentences(summary) {
        text.push_str(&paragraph("found", &sentence));
    }
    text.push_str(&doubts(summary));
    if let Some(l2) = words::l2_words(summary) {
        text.push_str(&paragraph("L2 rate", &l2));
    }
    if let Some(imix) = words::imix_words(summary) {
        text.push_str(&paragraph("estimate", &imix));
    }
    if let Some(link) = &info.facts.link {
        text.push_str(&paragraph("link", link));
    }
    text.push_str(&paragraph("method", &words::method_words(info, summary)));
    if let Some(signs) = words::signs_words(summary) {
        text.push_str(&paragraph("", signs));
    }
    text
}

/// Why each trial of a search or of a procedure was made, and what it said.
pub fn explain(trials: &[TrialRecord]) -> String {
    crate::procedures::explain(trials)
}

/// Does the verdict on noise stand below the headline, because the headline is in doubt?
fn noise_first(summary: &Summary) -> bool {
    let rated = shape::rated(summary);
    let of_headline = shape::principal(&rated).is_some_and(|case| case.case.doubt.is_some());
    summary.noise.too_noisy || of_headline
}

/// Noise, control and warnings.
fn doubts(summary: &Summary) -> String {
    let mut text = String::new();
    let mut noise = Vec::new();
    if !noise_first(summary) && !summary.noise.verdict.is_empty() {
        noise.push(summary.noise.verdict.clone());
    }
    let rated = shape::rated(summary);
    noise.extend(words::windows_words(&rated));
    noise.extend(words::state_words(&summary.noise, &rated));
    let case = shape::principal(&rated);
    if let Some((case, gate)) = case.and_then(|case| Some((case, words::gate_words(case)?))) {
        let labels = Labels::of(&rated);
        noise.push(format!("{}: {gate}", labels.label(case)));
    }
    for (index, sentence) in noise.iter().enumerate() {
        text.push_str(&paragraph(if index == 0 { "noise" } else { "" }, sentence));
    }
    if let Some(control) = shape::control(summary) {
        text.push_str(&paragraph("control", &words::control_words(control)));
    }
    for warning in words::all_warnings(summary) {
        text.push_str(&paragraph("warning", &warning));
    }
    text
}

fn case_table(summary: &Summary) -> String {
    let mut table = content::cases(summary);
    // Deviations from the row's own median, on one scale for all rows: rows can be compared, and each shows its spread.
    let rated = shape::rated(summary);
    let deviations: Vec<Vec<f64>> = rated.iter().map(deviations).collect();
    let largest = deviations
        .iter()
        .flatten()
        .fold(0.0f64, |largest, value| largest.max(value.abs()));
    if let Some(width) = dots_width(&table).filter(|_| largest > 0.0) {
        let range = round_up(largest);
        let ends = [-range, range].map(|end| format!("{end:+} %"));
        let gap = width.saturating_sub(ends[0].len() + ends[1].len());
        let head = format!("{}{}{}", ends[0], " ".repeat(gap), ends[1]);
        let rows: Vec<String> = deviations
            .iter()
            .map(|values| dots_around_zero(values, -range, range, width))
            .collect();
        add_dots(&mut table, &head, rows);
    }
    table.text(width())
}

fn deviations(case: &Rated<'_>) -> Vec<f64> {
    let Some(median) = case.found.forwarding_rate_pps.filter(|pps| *pps > 0.0) else {
        return Vec::new();
    };
    case.rates
        .iter()
        .map(|pps| 100.0 * (pps / median - 1.0))
        .collect()
}

fn comparison_table(summary: &Summary) -> String {
    let compared = shape::comparisons(summary);
    let mut table = content::comparisons(summary);
    // The last three have no room here; the verdict says what was detectable.
    table.columns.truncate(6);
    let names: Vec<String> = table
        .rows
        .iter()
        .map(|row| row.cells[0].text.clone())
        .collect();
    table.columns[4].head = "n".into();
    table.columns[5].below = true;
    for ((row, name), comparison) in table.rows.iter_mut().zip(&names).zip(&compared) {
        row.cells[5].text = words::verdict(comparison);
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        row.cells.truncate(6);
        row.cells[0].text = shorten(&name, CONFIGURATION);
        if row.mark == Mark::Control {
            row.cells[0].text = "A/A control".into();
        } else if row.cells[0].text != name {
            row.cells[5].text = format!("{}\n{name}", row.cells[5].text);
        }
    }
    let values = compared
        .iter()
        .flat_map(|c| c.values_percent.iter().copied());
    let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if let Some(width) = dots_width(&table).filter(|_| high > low) {
        let ends = [low, high].map(|end| difference(end, Some([-0.5, 0.5])));
        let gap = width.saturating_sub(ends[0].len() + ends[1].len());
        let head = format!("{}{}{}", ends[0], " ".repeat(gap), ends[1]);
        let rows = compared
            .iter()
            .map(|c| dots_around_zero(&c.values_percent, low, high, width))
            .collect();
        add_dots(&mut table, &head, rows);
    }
    table.text(width())
}

/// Columns left for dots beside the table.
fn dots_width(table: &Table) -> Option<usize> {
    // One blank before the table, two before the dots.
    let left = width().saturating_sub(table.text_width() + 3);
    (left >= *DOTS.start()).then(|| left.min(*DOTS.end()))
}

fn add_dots(table: &mut Table, head: &str, rows: Vec<String>) {
    table.columns.push(Column::left(head, &[]));
    for (row, dots) in table.rows.iter_mut().zip(rows) {
        row.cells.push(Cell {
            text: dots,
            raw: Vec::new(),
        });
    }
}

/// Dots with a `|` where zero is, unless a dot is there.
fn dots_around_zero(values: &[f64], low: f64, high: f64, width: usize) -> String {
    let zero = fwdlab_stats::dots(&[0.0], low, high, width);
    fwdlab_stats::dots(values, low, high, width)
        .chars()
        .zip(zero.chars())
        .map(|(dot, zero)| if dot == ' ' && zero != ' ' { '|' } else { dot })
        .collect()
}

/// Where frames were lost: for the principal test case, and for every other whose loss is of another kind.
fn losses(cases: &[Rated<'_>]) -> String {
    let labels = Labels::of(cases);
    let Some(principal) = shape::principal(cases) else {
        return String::new();
    };
    let mut shown: Vec<Vec<Cow<'_, str>>> = Vec::new();
    let mut text = String::new();
    for case in std::iter::once(principal).chain(cases) {
        let ledger = &case.found.ledger;
        let kind = kind(ledger);
        if ledger.frames_sent == 0 || shown.contains(&kind) {
            continue;
        }
        let head = format!(
            "lost at {}: {}",
            labels.label(case),
            words::lost_words(ledger)
        );
        text.push_str(&wrap(&head, width(), " "));
        text.push_str(&loss_lines(&content::losses(ledger)));
        if let Some(not_sent) = words::not_sent_words(ledger) {
            text.push_str(&wrap(&not_sent, width(), "   "));
        }
        shown.push(kind);
    }
    text
}

/// `  50.5 %  1,520,000  at the DUT's input: the counter`, wrapped under its first word.
fn loss_lines(table: &Table) -> String {
    let widest = |index: usize| {
        let cells = table.rows.iter().map(|row| row.cells[index].text.len());
        cells.max().unwrap_or(0)
    };
    let (shares, frames) = (widest(0), widest(1));
    let mut text = String::new();
    for row in &table.rows {
        let [share, number, place, counter] = &row.cells[..] else {
            continue;
        };
        let start = format!("   {:>shares$}  {:>frames$}  ", share.text, number.text);
        let colon = if counter.text.is_empty() { "" } else { ":" };
        let words = format!("{}{colon} {}", place.text, counter.text);
        let body = wrap(&words, width(), &" ".repeat(start.len()));
        text.push_str(&start);
        text.push_str(body.get(start.len()..).unwrap_or_default());
    }
    text
}

/// The places that took a share worth naming of what a test case lost.
fn kind(ledger: &Ledger) -> Vec<Cow<'static, str>> {
    let lost = ledger.frames_lost.max(0) as f64;
    let mut kind: Vec<Cow<'static, str>> = ledger
        .losses
        .iter()
        .filter(|loss| crate::number::share(loss.frames as f64, lost) >= KIND_PERCENT)
        .map(|loss| loss.place.words())
        .collect();
    if ledger.frames_unexplained > 0 {
        kind.push("unexplained".into());
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_marked_unless_a_value_is_there() {
        assert_eq!(
            dots_around_zero(&[-2.0, 1.0], -2.0, 2.0, 5),
            "x | x".replace(" x", "x ")
        );
        assert_eq!(dots_around_zero(&[0.0], -2.0, 2.0, 5), "  x  ");
    }

    #[test]
    fn a_paragraph_hangs() {
        let text = paragraph("noise", &"word ".repeat(20));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(" noise    word") && lines[1].starts_with("          word"));
        assert!(lines.iter().all(|line| line.chars().count() <= width()));
    }
}
