//! A search in words and tables: what was found for each goal, why each trial was made.
//!
//! For the terminal and for the page alike. Start with [`headline`] and [`goals`]; [`explain`] is for `--explain`.

use fwdlab_model::result::{RunInfo, Summary, TrialRecord};
use fwdlab_model::search::{GoalResult, SearchOutcome, name_of};

use crate::number::{Prefix, clock, count, percent, seconds};
use crate::table::{Cell, Column, Mark, Table, wrap};
use crate::text::{all_warnings, paragraph, width};
use crate::words::{self, several};

/// The answer: `NDR 999.4 kpps, PDR 1.004 Mpps`.
pub(crate) fn headline(search: &SearchOutcome) -> String {
    let found: Vec<String> = search
        .goals
        .iter()
        .enumerate()
        .map(|(index, goal)| {
            let label = label(index, &search.goals);
            let beyond = search.far_above(goal).map_or(String::new(), |best| {
                format!(
                    " (far below the {} that came out of a higher load)",
                    rate(best)
                )
            });
            match (goal.relevant_lower_bound_pps, goal.relevant_upper_bound_pps) {
                (Some(pps), Some(_)) if goal.regular && !goal.tester_bound => {
                    format!("{label} {}{beyond}", rate(pps))
                }
                (Some(pps), _) => format!("{label} at least {}{beyond}", rate(pps)),
                (None, Some(pps)) => format!("{label} below {}", rate(pps)),
                (None, None) => format!("{label} unknown"),
            }
        })
        .collect();
    found.join(", ")
}

/// `NDR`, `PDR`, a preset's name, or for a goal of one's own `PDR 0.1 %`, which the table spells out; a second one of the same
/// loss has its number.
fn label(index: usize, goals: &[GoalResult]) -> String {
    let goal = &goals[index];
    match goal.name.as_str() {
        "ndr" | "pdr" => return goal.name.to_uppercase(),
        name if !name.contains('=') => return name.to_owned(),
        _ => {}
    }
    let name = name_of(goal.goal.loss_ratio);
    let alike = |other: &&GoalResult| {
        other.name.contains('=') && other.goal.loss_ratio == goal.goal.loss_ratio
    };
    match goals[..index].iter().filter(alike).count() {
        0 => name,
        more => format!("{name} ({})", more + 1),
    }
}

/// The same for all goals.
pub(crate) fn labels(search: &SearchOutcome) -> Vec<String> {
    let places = 0..search.goals.len();
    places.map(|index| label(index, &search.goals)).collect()
}

fn rate(pps: f64) -> String {
    crate::number::rate(pps)
}

/// One row per goal.
pub(crate) fn goals(search: &SearchOutcome) -> Table {
    let all = search.goals.iter();
    let prefix = Prefix::for_largest(all.flat_map(|goal| {
        [
            goal.relevant_lower_bound_pps,
            goal.relevant_upper_bound_pps,
            goal.conditional_throughput_pps,
        ]
        .into_iter()
        .flatten()
    }));
    let mut table = Table::new(vec![
        Column::left("goal", &["goal"]),
        Column::right("meets it", &["relevant_lower_bound_pps"]),
        Column::right("does not", &["relevant_upper_bound_pps"]),
        Column::right("forwards there", &["conditional_throughput_pps"]),
        Column::right("of largest load", &["share_of_largest_load_percent"]),
        Column::below("verdict", &["verdict"]),
    ]);
    for (index, goal) in search.goals.iter().enumerate() {
        let label = label(index, &search.goals);
        let cell = |pps| Cell::optional(pps, "none", |pps| prefix.rate(pps));
        let share = goal
            .relevant_lower_bound_pps
            .map(|pps| 100.0 * pps / search.max_load_pps);
        let words = match goal.name.contains('=') {
            true => format!("{}: {}", goal.name, goal.verdict),
            false if goal.verdict == "found" => String::new(),
            false => goal.verdict.clone(),
        };
        table.push(
            Mark::default(),
            vec![
                Cell::text(label),
                cell(goal.relevant_lower_bound_pps),
                cell(goal.relevant_upper_bound_pps),
                cell(goal.conditional_throughput_pps),
                Cell::optional(share, "", percent),
                Cell {
                    text: words,
                    raw: vec![goal.verdict.clone()],
                },
            ],
        );
    }
    table
}

/// How much was measured, in a sentence.
pub(crate) fn extent(search: &SearchOutcome) -> String {
    let mut text = format!(
        "{} with {} of traffic; loads from {} to {} ({}), in {}",
        several(search.trials as usize, "trial"),
        seconds(search.traffic_s),
        rate(search.min_load_pps),
        rate(search.max_load_pps),
        search.max_load_source,
        several(search.max_load_index as usize, "step"),
    );
    if search.trials_invalid > 0 {
        text += &format!(
            "; {} invalid, repeated and not used",
            several(search.trials_invalid as usize, "trial")
        );
    }
    text
}

/// The method, with the name of a standard only where it is due.
pub(crate) fn method(search: &SearchOutcome) -> String {
    match search.shortened.is_empty() {
        true => "MLRsearch; every condition of RFC 2544 throughput was met".into(),
        false => format!(
            "MLRsearch. RFC 2544 throughput procedure, shortened: {}",
            search.shortened.join("; ")
        ),
    }
}

/// The whole result for the terminal.
pub(crate) fn text(info: &RunInfo, summary: &Summary, search: &SearchOutcome) -> String {
    let mut text = wrap(&words::headline(info, summary).line(), width(), "");
    text.push('\n');
    text.push_str(&goals(search).text(width()));
    text.push('\n');
    for (name, sentence) in sentences(info, summary, search) {
        text.push_str(&paragraph(name, &sentence));
    }
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}

/// The result as Markdown, below its headline.
pub(crate) fn markdown(info: &RunInfo, summary: &Summary, search: &SearchOutcome) -> String {
    let mut text = crate::markdown::table(&goals(search));
    text.push('\n');
    for (name, sentence) in sentences(info, summary, search) {
        text += &format!("- {name}: {}\n", crate::markdown::escaped(&sentence));
    }
    text
}

/// What qualifies the figures: noise, warnings, extent, standard, the engine.
fn sentences(
    info: &RunInfo,
    summary: &Summary,
    search: &SearchOutcome,
) -> Vec<(&'static str, String)> {
    let mut sentences = Vec::new();
    sentences.extend(search.failure.iter().map(|why| ("ended", why.clone())));
    sentences.extend(words::noise(summary));
    sentences.extend(all_warnings(summary).into_iter().map(|w| ("warning", w)));
    sentences.push(("trials", extent(search)));
    sentences.push(("method", method(search)));
    sentences.extend(info.facts.link.iter().map(|link| ("link", link.clone())));
    sentences.push(("engine", info.facts.engine.clone()));
    sentences
}

/// Every trial of a search: which load, what was lost, why it was made and what it said.
pub(crate) fn trials(trials: &[TrialRecord]) -> Table {
    let right = Column::right;
    let mut table = Table::new(vec![
        right("trial", &["trial"]),
        Column::left("started", &["started_at"]),
        right("load", &["load_pps"]),
        right("step", &["load_index"]),
        right("for", &["duration_s"]),
        right("frames sent", &["frames_sent"]),
        right("lost", &["frames_lost"]),
        right("loss", &["loss_ratio"]),
        Column::prose("asked for, and what it said", &["reason"]),
    ]);
    for record in trials {
        let Some(search) = &record.search else {
            continue;
        };
        let (sent, lost) = (record.ledger.frames_sent, record.ledger.frames_lost);
        table.push(
            match record.validity.is_valid() {
                true => Mark::None,
                false => Mark::Invalid,
            },
            vec![
                Cell::number(record.trial.to_string(), record.trial),
                Cell {
                    text: clock(&record.started_at),
                    raw: vec![record.started_at.clone()],
                },
                Cell::number(rate(search.load_pps), search.load_pps),
                Cell::number(search.load_index.to_string(), search.load_index),
                Cell::number(seconds(record.duration_s), record.duration_s),
                Cell::number(count(sent), sent),
                Cell::number(count(lost), lost),
                Cell::number(percent(100.0 * search.loss_ratio), search.loss_ratio),
                Cell::text(why(record)),
            ],
        );
    }
    table
}

/// Why a trial was made, what it said, and whether it may be used.
fn why(record: &TrialRecord) -> String {
    let Some(search) = &record.search else {
        return String::new();
    };
    let mut why = search.reason.clone();
    if search.ended_early {
        why += &format!(
            ". Ended after {}: bad for every goal, whatever would have come",
            seconds(record.duration_s)
        );
    }
    if !search.says.is_empty() {
        why += &format!(". {}", search.says.join(". "));
    }
    if !record.validity.is_valid() {
        why += &format!(". INVALID: {}", record.validity.reasons.join("; "));
    }
    why
}

/// Every trial with its reason and its meaning.
pub(crate) fn explain(trials: &[TrialRecord]) -> String {
    let mut text = String::from("Why each trial was made, and what it said:\n\n");
    for record in trials {
        let Some(search) = &record.search else {
            continue;
        };
        let head = format!(
            "{:>4}  {:>11}  #{:<5} {:>6}  lost {}",
            record.trial,
            rate(search.load_pps),
            search.load_index,
            seconds(search.duration_ns as f64 / 1e9),
            percent(100.0 * search.loss_ratio),
        );
        text += &head;
        text.push('\n');
        text += &wrap(&why(record), width(), "      ");
    }
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}
