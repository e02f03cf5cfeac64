//! Reports forwarding rates of quiet windows, and configurations compared with a reference DUT.
//!
//! The tables are in `tables`, the sentences in `words`. Start with [`sections`].

pub(crate) mod tables;

use std::borrow::Cow;

use fwdlab_model::loss::Ledger;
use fwdlab_model::result::{RunInfo, Summary};

use crate::number::{difference, round_up};
use crate::screen::width;
use crate::section::{Format, Losses, Named, Section, WARNING, named};
use crate::shape::{self, Labels, Rated};
use crate::table::{Cell, Column, Mark, Table, shorten};
use crate::{answer, campaign, efficiency, exact, fates, telemetry, words};

/// Width of a row of dots, in columns: fewer show nothing, more add nothing.
const DOTS: std::ops::RangeInclusive<usize> = 11..=25;
/// Width of a configuration's name, in columns; long commands follow in full below the table.
const CONFIGURATION: usize = 24;
/// Smallest share of the lost frames, in percent, from which a place counts for the kind of a loss.
const KIND_PERCENT: f64 = 1.0;

/// Returns the sections below the headline.
pub(crate) fn sections(info: &RunInfo, summary: &Summary, format: Format) -> Vec<Section> {
    match format {
        Format::Terminal => narrow(info, summary),
        Format::Document => wide(info, summary),
    }
}

fn wide(info: &RunInfo, summary: &Summary) -> Vec<Section> {
    let mut sections = Vec::new();
    if !shape::comparisons(summary).is_empty() {
        sections.push(Section::table("", tables::comparisons(summary)));
    }
    if !shape::rated(summary).is_empty() {
        sections.push(Section::table("", tables::cases(summary)));
    }
    sections.extend(efficiency::sections(info, &summary.test_cases));
    let control = shape::control(summary).map(words::control_words);
    let sentences = run_answers(info, summary)
        .chain(campaign::verdicts(summary))
        .chain(named("found", telemetry::sentences(summary)))
        .chain(words::noise(summary))
        .chain(named("control", control))
        .chain(named(WARNING, words::all_warnings(summary)))
        .chain(named("estimate", words::imix_words(summary)))
        .chain(named("method", [words::method_words(info, summary)]))
        .chain(named(
            "columns",
            words::signs_words(summary).map(str::to_owned),
        ));
    sections.push(Section::Sentences(sentences.collect()));
    sections
}

fn narrow(info: &RunInfo, summary: &Summary) -> Vec<Section> {
    let mut sections = Vec::new();
    if noise_first(summary) {
        sections.push(Section::Doubt(words::noise(summary).collect()));
    }
    if !shape::comparisons(summary).is_empty() {
        sections.push(Section::table("", comparison_table(summary)));
    }
    sections.push(Section::Sentences(run_answers(info, summary).collect()));
    let rated = shape::rated(summary);
    if !rated.is_empty() {
        sections.push(Section::table("", case_table(summary)));
        sections.push(Section::Losses(losses(&rated)));
    }
    sections.extend(efficiency::sections(info, &summary.test_cases));
    let to_do = words::noise(summary).skip(1);
    let sentences = to_do
        .filter(|_| !noise_first(summary))
        .chain(campaign::verdicts(summary))
        .chain(named("found", telemetry::sentences(summary)))
        .chain(caveats(summary))
        .chain(named("L2 rate", words::l2_words(summary)))
        .chain(named("estimate", words::imix_words(summary)))
        .chain(named("link", info.facts.link.clone()))
        .chain(named("method", [words::method_words(info, summary)]))
        .chain(named("", words::signs_words(summary).map(str::to_owned)));
    sections.push(Section::Sentences(sentences.collect()));
    sections
}

/// Returns the question of the run with its answers, and the costs in instructions.
fn run_answers(info: &RunInfo, summary: &Summary) -> impl Iterator<Item = Named> {
    let all = &summary.test_cases;
    let requested = answer::question(info).map(|_| campaign::campaign_answers(info, all));
    let beside = named("exact", exact::compare_with_rates(all));
    requested.into_iter().flatten().chain(beside)
}

/// Returns true if the verdict on noise comes directly below the headline, because the headline is
/// in doubt.
fn noise_first(summary: &Summary) -> bool {
    let rated = shape::rated(summary);
    let of_headline = shape::principal(&rated).is_some_and(|case| case.case.doubt.is_some());
    summary.noise.too_noisy || of_headline
}

/// Returns noise, control and warnings.
fn caveats(summary: &Summary) -> Vec<Named> {
    let mut noise = Vec::new();
    if !noise_first(summary) && !summary.noise.verdict.is_empty() {
        noise.push(summary.noise.verdict.clone());
    }
    let rated = shape::rated(summary);
    noise.extend(words::windows_words(&rated));
    noise.extend(words::state_words(&summary.noise, &rated));
    let case = shape::principal(&rated);
    if let Some((case, gate)) = case.and_then(|case| Some((case, words::gate_words(case)?))) {
        let labels = Labels::from_cases(&rated);
        noise.push(format!("{}: {gate}", labels.label(case)));
    }
    let mut noise = noise.into_iter();
    let first = noise.next();
    let control = shape::control(summary).map(words::control_words);
    named("noise", first)
        .chain(named("", noise))
        .chain(named("control", control))
        .chain(named(WARNING, words::all_warnings(summary)))
        .collect()
}

/// Returns the table of test cases, with the deviation of every iteration.
fn case_table(summary: &Summary) -> Table {
    let mut table = tables::cases(summary);
    // deviations from the row's own median, on one scale for all rows: rows are comparable, and
    // each shows its spread
    let rated = shape::rated(summary);
    let deviations: Vec<Vec<f64>> = rated.iter().map(deviations).collect();
    let largest = deviations
        .iter()
        .flatten()
        .fold(0.0f64, |largest, value| largest.max(value.abs()));
    if let Some(width) = dots_width(&table).filter(|_| largest > 0.0) {
        let range = round_up(largest);
        let ends = [-range, range].map(|end| format!("{end:+} %"));
        let values = deviations.iter().map(Vec::as_slice);
        add_dots(&mut table, values, [-range, range], ends, width);
    }
    table
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

/// Returns the table of comparisons, with the difference in every rebuild.
fn comparison_table(summary: &Summary) -> Table {
    let compared = shape::comparisons(summary);
    let mut table = tables::comparisons(summary);
    // the last three columns do not fit; the verdict has the detectable difference
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
        let values = compared.iter().map(|one| one.values_percent.as_slice());
        add_dots(&mut table, values, [low, high], ends, width);
    }
    table
}

/// Returns the columns left for dots next to the table; `None` if there are too few.
fn dots_width(table: &Table) -> Option<usize> {
    // one blank before the table, two before the dots
    let left = width().saturating_sub(table.text_width() + 3);
    (left >= *DOTS.start()).then(|| left.min(*DOTS.end()))
}

/// Adds a column with the dots of each row, between the names of both ends.
fn add_dots<'a>(
    table: &mut Table,
    values: impl Iterator<Item = &'a [f64]>,
    [low, high]: [f64; 2],
    [left, right]: [String; 2],
    width: usize,
) {
    let gap = width.saturating_sub(left.len());
    table
        .columns
        .push(Column::left(&format!("{left}{right:>gap$}"), &[]));
    for (row, values) in table.rows.iter_mut().zip(values) {
        row.cells.push(Cell {
            text: dots_around_zero(values, low, high, width),
            raw: Vec::new(),
        });
    }
}

/// Draws dots, with a `|` at zero unless a dot is there.
fn dots_around_zero(values: &[f64], low: f64, high: f64, width: usize) -> String {
    let zero = fwdlab_stats::dots(&[0.0], low, high, width);
    fwdlab_stats::dots(values, low, high, width)
        .chars()
        .zip(zero.chars())
        .map(|(dot, zero)| if dot == ' ' && zero != ' ' { '|' } else { dot })
        .collect()
}

/// Returns where frames were lost: for the principal test case, and for each other one with a new
/// kind of loss.
fn losses(cases: &[Rated<'_>]) -> Vec<Losses> {
    let labels = Labels::from_cases(cases);
    let Some(principal) = shape::principal(cases) else {
        return Vec::new();
    };
    let mut shown: Vec<Vec<Cow<'_, str>>> = Vec::new();
    let mut losses = Vec::new();
    for case in std::iter::once(principal).chain(cases) {
        let ledger = &case.found.ledger;
        let kind = kind(ledger);
        if ledger.frames_sent == 0 || shown.contains(&kind) {
            continue;
        }
        losses.push(Losses {
            title: format!(
                "lost at {}: {}",
                labels.label(case),
                words::lost_words(ledger)
            ),
            table: fates::losses(ledger),
            not_sent: words::not_sent_words(ledger),
        });
        shown.push(kind);
    }
    losses
}

/// Returns the kind of a loss: the places with a significant share of the lost frames.
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
}
