//! Reports outcomes of procedures: one table per procedure over all frame sizes, as in RFC 2544,
//! and the sentences that qualify them.
//!
//! It does not know formats, except for `--explain` ([`explain`]). [`shown()`] has what each
//! procedure shows. Start with [`headline`] and [`sections`].

pub(crate) mod charts;
mod costs;
mod events;
mod loaded_latency;
mod loads;
mod rfc2544;
mod shown;
pub(crate) mod tables;

use fwdlab_model::outcome::{Compliance, Outcome, SingleTrial};
use fwdlab_model::result::{RunInfo, Summary, TrialRecord};
use fwdlab_model::variant::Variant;

pub(crate) use self::costs::{describe_sweep, difference_cells, difference_columns, slope};
use self::rfc2544::losses_side_by_side;
pub(crate) use self::shown::shown;
use crate::efficiency;
use crate::number::{clock, count, plural, rate, seconds};
use crate::screen::{harmless, width};
use crate::section::{FAILED, Format, Named, Section, Titled, WARNING, named};
use crate::table::{Cell, Mark, Table, capital, table, wrap};
use crate::telemetry;
use crate::thresholds;
use crate::words::{self, all_warnings};

/// Largest number of rows over time in the terminal.
const ROWS: usize = 12;

/// Largest number of rows over time in Markdown and on the page. The records and CSV have all.
pub(crate) const MORE_ROWS: usize = 40;

/// Returns the headline: the result of the first procedure for the first frame size, and the number
/// of further ones.
pub(crate) fn headline(outcomes: &[Outcome]) -> String {
    let Some(first) = outcomes.first() else {
        return "Nothing was measured".into();
    };
    let words = match (first.found.get(), series(first).as_str()) {
        (Some(found), "plain") => crate::search::headline(found),
        _ => format!("{}, {}: {}", title(first), frames(first), figure(first)),
    };
    match outcomes.len() {
        1 => words,
        more => format!("{words}; {} in all", plural(more, "result")),
    }
}

/// Names the frames: `64 B`, or the name of a profile.
pub(crate) fn frames(outcome: &Outcome) -> String {
    match &outcome.variant.profile {
        Some(profile) => format!("{profile} (mean {} B)", outcome.frame_size_bytes),
        None => format!("{} B", outcome.frame_size_bytes),
    }
}

/// Describes how the series of an outcome differs from a plain one, apart from the frames.
pub(crate) fn series(outcome: &Outcome) -> String {
    let variant = Variant {
        profile: None,
        ..outcome.variant.clone()
    };
    match variant.is_plain() {
        true => "plain".into(),
        false => variant.to_string(),
    }
}

/// Returns the main figure of an outcome, or why there is none.
pub(crate) fn figure(outcome: &Outcome) -> String {
    let is_found = outcome.answered && !outcome.found.forwards_nothing();
    let figure = match is_found {
        true => shown(&outcome.found).figure(),
        // a trial shows the offered load with the intended one
        false => (outcome.found.get())
            .filter(|found: &&SingleTrial| found.offered_load_pps > 0.0)
            .map(|found| loads::trial(found, !outcome.answered)),
    };
    figure.unwrap_or_else(|| outcome.verdict.clone())
}

/// Outcomes of one procedure and series, with a title.
pub(crate) struct Group<'a> {
    /// The procedure, and the series if it is not plain.
    pub title: String,
    /// How the series differs from a plain one.
    pub series: String,
    /// One outcome per frame size.
    pub outcomes: Vec<&'a Outcome>,
}

/// Groups outcomes by procedure and series, in order of execution.
pub(crate) fn groups(outcomes: &[Outcome]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for outcome in outcomes {
        let title = title(outcome);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.outcomes.push(outcome),
            None => groups.push(Group {
                title,
                series: series(outcome),
                outcomes: vec![outcome],
            }),
        }
    }
    groups
}

/// Returns the title: `Throughput`, or with its series: `Throughput, both directions, broadcast`.
fn title(outcome: &Outcome) -> String {
    let name = shown::name(&outcome.found);
    match series(outcome).as_str() {
        "plain" => name.to_owned(),
        series => format!("{name}, {series}"),
    }
}

/// Returns the labels of the standards. Points in which all procedures were shortened are listed
/// once, first.
pub(crate) fn methods(outcomes: &[Outcome]) -> Vec<String> {
    let all: Vec<&Compliance> = outcomes.iter().map(|outcome| &outcome.compliance).collect();
    let labelled: Vec<&Compliance> = all.into_iter().filter(|c| !c.standard.is_empty()).collect();
    let (Some(first), true) = (labelled.first(), labelled.len() > 1) else {
        return labelled
            .iter()
            .map(|compliance| compliance.label())
            .collect();
    };
    let everywhere = |point: &&String| labelled.iter().all(|c| c.shortened.contains(point));
    let common: Vec<String> = first.shortened.iter().filter(everywhere).cloned().collect();
    let mut labels: Vec<String> = Vec::new();
    if !common.is_empty() {
        labels.push(format!(
            "All procedures here are shortened: {}",
            common.join("; ")
        ));
    }
    for compliance in labelled {
        let own = compliance
            .shortened
            .iter()
            .filter(|point| !common.contains(point));
        let own: Vec<String> = own.cloned().collect();
        let label = match (own.is_empty(), common.is_empty()) {
            (true, false) => format!("{} procedure, shortened as listed", compliance.standard),
            _ => Compliance {
                shortened: own,
                ..compliance.clone()
            }
            .label(),
        };
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// Returns the warnings of outcomes, with procedure and frame sizes; the same warning for several
/// sizes appears once.
pub(crate) fn caveats(outcomes: &[Outcome]) -> Vec<String> {
    let mut doubts: Vec<(String, &str, Vec<String>)> = Vec::new();
    for outcome in outcomes {
        let title = title(outcome);
        let mut size = frames(outcome);
        // a list of sizes has its unit only at the end
        if let Some(bytes) = size.strip_suffix(" B") {
            size = bytes.into();
        }
        for warning in &outcome.warnings {
            match doubts
                .iter_mut()
                .find(|(t, w, _)| *t == title && w == warning)
            {
                Some((_, _, sizes)) => sizes.push(size.clone()),
                None => doubts.push((title.clone(), warning, vec![size.clone()])),
            }
        }
    }
    let line = |(title, warning, sizes): &(String, &str, Vec<String>)| {
        let unit = match sizes.last().and_then(|size| size.parse::<u16>().ok()) {
            Some(_) => " B",
            None => "",
        };
        format!("{title}, {}{unit}: {warning}", sizes.join(", "))
    };
    doubts.iter().map(line).collect()
}

/// Returns the tables of a group.
fn section(group: &Group<'_>, all: &[Outcome], format: Format) -> Section {
    Section::Procedure {
        title: group.title.clone(),
        tables: match format {
            Format::Terminal => narrow_tables(group, all),
            Format::Document => tables::tables(group, all, MORE_ROWS),
        },
    }
}

/// Returns the tables for the terminal: a repeated frame size is left out, and losses of several
/// sizes are next to each other if they fit.
fn narrow_tables(group: &Group<'_>, all: &[Outcome]) -> Vec<Titled> {
    let fits = |table: &Table| table.text_width() < width();
    let side_by_side = losses_side_by_side(&group.outcomes).filter(fits);
    let mut tables = match side_by_side {
        Some(table) => vec![Titled {
            title: "lost frames in % of those sent, by load in % of the full rate".into(),
            table,
        }],
        None => tables::tables(group, all, ROWS),
    };
    for Titled { table, .. } in &mut tables {
        table.hide_repeats("frames");
        for less_needed in ["L2 rate", "target"] {
            if !fits(table) {
                table.remove(less_needed);
            }
        }
    }
    tables
}

/// Returns the outcomes of all test cases.
pub(crate) fn outcomes(summary: &Summary) -> Vec<Outcome> {
    summary.outcomes().cloned().collect()
}

/// Returns why test cases have no outcome at all; an outcome without an answer reports the reason
/// itself.
fn failures(summary: &Summary) -> Vec<String> {
    let without = summary
        .test_cases
        .iter()
        .filter(|case| case.outcomes.is_empty());
    let reported = without.filter_map(|case| {
        let (_, reason) = case.failures().next()?;
        let nothing = "nothing was measured";
        (reason != nothing).then(|| format!("{}: {reason}", case.test_case))
    });
    reported.collect()
}

/// Returns the sections below the headline.
pub(crate) fn sections(info: &RunInfo, summary: &Summary, format: Format) -> Vec<Section> {
    let outcomes = outcomes(summary);
    let groups = groups(&outcomes);
    let mut sections: Vec<Section> = (groups.iter())
        .map(|group| section(group, &outcomes, format))
        .collect();
    sections.extend(efficiency::sections(info, &summary.test_cases));
    if format == Format::Terminal {
        sections.push(Section::Sentences(
            named(FAILED, failures(summary)).collect(),
        ));
    }
    sections.push(Section::Sentences(sentences(info, summary)));
    sections
}

/// Returns what qualifies the figures: noise, warnings, standards, the engine.
fn sentences(info: &RunInfo, summary: &Summary) -> Vec<Named> {
    let mut sentences: Vec<Named> = named("required", thresholds::sentences(summary))
        .chain(named("found", telemetry::sentences(summary)))
        .chain(words::noise(summary))
        .collect();
    let outcomes = outcomes(summary);
    let doubts = caveats(&outcomes);
    for found in outcomes.iter().filter_map(|outcome| outcome.found.get()) {
        let labels = crate::search::labels(found);
        let own = (found.goals.iter().zip(labels)).filter(|(goal, _)| goal.name.contains('='));
        let own = own.map(|(goal, label)| format!("{label}: {}", goal.name));
        sentences.extend(named("goal", own));
        sentences.extend(named("trials", [crate::search::extent(found)]));
    }
    sentences.extend(named(WARNING, all_warnings(summary)));
    sentences.extend(named(WARNING, doubts));
    sentences.extend(named("method", methods(&outcomes)));
    sentences.extend(named("link", info.facts.link.clone()));
    sentences.extend(named("engine", [info.facts.engine.clone()]));
    sentences
}

/// Merges all tables into one, for programs: the names of all fields, procedure and series first,
/// and for each row a value per field, empty if its table has no such field. Tables over time have
/// all their rows.
pub(crate) fn one_table(outcomes: &[Outcome]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut fields = vec!["procedure", "series"];
    let mut rows: Vec<Vec<(&str, String)>> = Vec::new();
    for group in groups(outcomes) {
        let procedure = group.outcomes[0].found.procedure();
        for titled in tables::tables(&group, outcomes, usize::MAX) {
            let own = titled.table.columns.iter().flat_map(|c| c.fields);
            let own: Vec<&str> = own.copied().collect();
            let new = own.iter().filter(|field| !fields.contains(*field));
            fields.extend(new.copied().collect::<Vec<_>>());
            for row in titled.table.rows {
                let values = row.cells.into_iter().flat_map(|cell| cell.raw);
                let mut named: Vec<(&str, String)> = own.iter().copied().zip(values).collect();
                named.push(("procedure", procedure.to_owned()));
                named.push(("series", group.series.clone()));
                rows.push(named);
            }
        }
    }
    let value = |row: &Vec<(&str, String)>, field: &str| {
        let known = row.iter().find(|(name, _)| *name == field);
        known.map_or_else(String::new, |(_, value)| value.clone())
    };
    let lines = rows
        .iter()
        .map(|row| fields.iter().map(|field| value(row, field)).collect());
    let lines = lines.collect();
    (fields, lines)
}

/// Returns a table of all trials that a procedure requested: the reason, the result, the
/// conclusion.
pub(crate) fn trials(trials: &[TrialRecord]) -> Table {
    let requested = trials.iter().filter_map(|record| {
        let requested = record.asked.as_ref()?;
        Some((record, &requested.question, &requested.answer))
    });
    let mark = |record: &TrialRecord| match record.validity.is_valid() {
        true => Mark::None,
        false => Mark::Invalid,
    };
    let pps = |pps: f64| Cell::new(rate(pps), pps);
    table! {
        (record, question, answer) in requested, mark(record);
        right("trial", "trial") => Cell::new(record.trial.to_string(), record.trial),
        left("started", "started_at") => Cell::new(clock(&record.started_at), &record.started_at),
        right("size", "frame_size_bytes") =>
            Cell::new(format!("{} B", question.frame_size_bytes), question.frame_size_bytes),
        right("load", "intended_load_pps") => pps(question.peak_pps()),
        right("for", "duration_s") => Cell::new(seconds(record.duration_s), record.duration_s),
        right("frames sent", "frames_sent") => Cell::new(count(answer.frames_sent), answer.frames_sent),
        right("lost", "frames_lost") => Cell::new(count(answer.frames_lost()), answer.frames_lost()),
        right("forwarded", "forwarding_rate_pps") => pps(answer.forwarding_rate_pps()),
        prose("intended, and its result", "reason") => Cell::text(trial_reason(record)),
    }
}

/// Describes why a trial was made, its conclusion, and whether it is valid.
fn trial_reason(record: &TrialRecord) -> String {
    let Some(requested) = &record.asked else {
        return String::new();
    };
    let mut text = requested.question.reason.clone();
    if !requested.evaluation.is_empty() {
        text += &format!(". {}", capital(&requested.evaluation));
    }
    if requested.answer.ended_early {
        text += match requested.question.reset_at_ns {
            None => ". Ended early: its verdict could no longer change",
            Some(_) => ". Ended when the DUT had been back for a while",
        };
    }
    if !record.validity.is_valid() {
        text += &format!(". INVALID: {}", record.validity.reasons.join("; "));
    }
    capital(&text)
}

/// Lists all trials with their reasons and conclusions.
pub(crate) fn explain(trials: &[TrialRecord]) -> String {
    let mut text = String::from("Why each trial was made, and its result:\n\n");
    for record in trials {
        let Some(requested) = &record.asked else {
            continue;
        };
        let (question, answer) = (&requested.question, &requested.answer);
        let (whole, real) = (question.duration_ns(), answer.duration_ns);
        let lasted = match answer.ended_early {
            true => format!(
                "{} of {}",
                seconds(real as f64 / 1e9),
                seconds(whole as f64 / 1e9)
            ),
            false => seconds(whole as f64 / 1e9),
        };
        let load = match question.is_constant() {
            true => rate(question.peak_pps()),
            false => format!("up to {}", rate(question.peak_pps())),
        };
        text += &format!(
            "{:>4}  {:>4} B  {load:>11}, {lasted}: lost {} of {} frames\n",
            record.trial,
            question.frame_size_bytes.bytes(),
            count(answer.frames_lost()),
            count(answer.frames_sent),
        );
        text += &wrap(&trial_reason(record), width(), "      ");
    }
    harmless(&text)
}

#[cfg(test)]
mod tests {
    use fwdlab_model::outcome::{Found, Mrr, Spread};
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::variant::{Direction, DirectionCounts};

    use super::*;

    fn outcome(bytes: u16, standard: &str, shortened: &[&str], warning: &str) -> Outcome {
        Outcome {
            frame_size_bytes: FrameSize::new(bytes).unwrap(),
            variant: Variant::default(),
            found: Found::Mrr(Mrr {
                load_pps: 1e6,
                receive_rate_pps: None,
                trials_pps: Vec::new(),
                tester_bound: false,
            }),
            verdict: "measured".into(),
            answered: true,
            not_applicable: false,
            compliance: Compliance {
                standard: standard.into(),
                shortened: shortened.iter().map(|s| (*s).to_owned()).collect(),
            },
            warnings: vec![warning.into()],
            trials: 1,
        }
    }

    /// 20 of 20,000 frames were due while the sender stalled: more than lie above p99.99, and as
    /// many as above p99.9.
    #[test]
    fn delays_that_may_be_the_senders_are_marked() {
        let table = |stalled_frames| {
            let found = Found::Trial(SingleTrial {
                intended_load_pps: 1e6,
                offered_load_pps: 1e6,
                forwarding_rate_pps: 1e6,
                frame_loss_ratio: 0.0,
                directions: Vec::new(),
                duration_s: 1.0,
                delays: Some(fwdlab_model::procedure::Delays {
                    frames: 20_000,
                    p50_ns: 500,
                    p90_ns: Some(900),
                    p99_ns: Some(990),
                    p999_ns: Some(999),
                    max_ns: 1_000,
                    stalled_frames,
                    ..fwdlab_model::procedure::Delays::default()
                }),
                samples: Vec::new(),
            });
            let outcomes = [Outcome {
                found,
                ..outcome(64, "", &[], "w")
            }];
            let all = groups(&outcomes);
            let mut text = crate::text::Text::default();
            let sections = all.iter().map(|g| section(g, &outcomes, Format::Terminal));
            sections.for_each(|one| crate::text::section(&one, &mut text));
            text.to_string()
        };
        assert!(!table(0).contains('*'), "{}", table(0));
        let (few, many) = (table(20), table(21));
        assert!(
            few.contains("1.00 us*") && !few.contains("999 ns*"),
            "{few}"
        );
        assert!(
            many.contains("999 ns*") && !many.contains("990 ns*"),
            "{many}"
        );
    }

    /// The direction that lost less does not forward as little as the other one.
    #[test]
    fn the_sum_of_both_directions_has_the_counts_of_each() {
        let counts = |direction, frames_received| DirectionCounts {
            direction,
            frames_intended: 2_000_000,
            frames_sent: 2_000_000,
            frames_received,
            samples: Vec::new(),
        };
        let table = |found| {
            let variant = Variant {
                both_directions: true,
                ..Variant::default()
            };
            let outcomes = [Outcome {
                variant,
                found,
                answered: true,
                ..outcome(64, "", &[], "w")
            }];
            let all = groups(&outcomes);
            let mut text = crate::text::Text::default();
            let sections = all.iter().map(|g| section(g, &outcomes, Format::Terminal));
            sections.for_each(|one| crate::text::section(&one, &mut text));
            text.to_string()
        };
        let trial = |directions| {
            Found::Trial(SingleTrial {
                intended_load_pps: 1e6,
                offered_load_pps: 1e6,
                forwarding_rate_pps: 250_000.0,
                frame_loss_ratio: 0.75,
                directions,
                duration_s: 2.0,
                delays: None,
                samples: Vec::new(),
            })
        };
        let both = table(trial(vec![
            counts(Direction::Forward, 1_600_000),
            counts(Direction::Reverse, 500_000),
        ]));
        assert!(
            both.contains("both ways") && both.contains("1.050 Mpps"),
            "{both}"
        );
        // only the worse direction is known: no sum
        let mrr = Found::Mrr(Mrr {
            load_pps: 1e6,
            receive_rate_pps: Some(Spread {
                mean: 250_000.0,
                median: 250_000.0,
                p1: 250_000.0,
                p99: 250_000.0,
                min: 250_000.0,
                max: 250_000.0,
                stdev: None,
                repetitions: 1,
            }),
            trials_pps: vec![250_000.0],
            tester_bound: false,
        });
        for found in [trial(Vec::new()), mrr] {
            let text = table(found);
            assert!(
                text.contains("250.0 kpps") && !text.contains("both ways"),
                "{text}"
            );
        }
    }

    #[test]
    fn series_are_distinguished_and_compared() {
        let with = |pps: f64, variant: Variant| Outcome {
            variant,
            found: Found::Equilibrium(fwdlab_model::outcome::Equilibrium {
                max_load_pps: 2e6,
                tolerance: 0.01,
                equilibrium_pps: Some(pps),
                max_seen_pps: None,
                steps: Vec::new(),
            }),
            ..outcome(64, "", &[], "w")
        };
        let both = Variant {
            both_directions: true,
            ..Variant::default()
        };
        let modified = Variant {
            modifiers: vec![fwdlab_model::variant::Modifier::Broadcast],
            ..both.clone()
        };
        let outcomes = [with(1e6, both), with(9e5, modified)];
        let all = groups(&outcomes);
        let mut text = crate::text::Text::default();
        let sections = all.iter().map(|g| section(g, &outcomes, Format::Terminal));
        sections.for_each(|one| crate::text::section(&one, &mut text));
        let text = text.to_string();
        for words in [
            "both directions, broadcast",
            "1.800 Mpps",
            "90.0 %",
            "of unmodified",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= width()),
            "{text}"
        );
        assert!(
            caveats(&outcomes)[0].contains("both directions, 64 B: w"),
            "{:?}",
            caveats(&outcomes)
        );
    }

    #[test]
    fn a_standard_is_named_only_if_met() {
        let alone = [outcome(64, "RFC X", &[], "w")];
        assert_eq!(methods(&alone), ["RFC X"]);
        let alone = [outcome(64, "RFC X", &["short"], "w")];
        assert_eq!(methods(&alone), ["RFC X procedure, shortened: short"]);
        let both = [
            outcome(64, "RFC X", &["short"], "w"),
            outcome(64, "RFC Y", &["short", "few"], "w"),
            outcome(128, "RFC Y", &["short", "few"], "w"),
        ];
        assert_eq!(
            methods(&both),
            [
                "All procedures here are shortened: short",
                "RFC X procedure, shortened as listed",
                "RFC Y procedure, shortened: few"
            ]
        );
        let one_met = [
            outcome(64, "RFC X", &[], "w"),
            outcome(64, "RFC Y", &["few"], "w"),
        ];
        assert_eq!(
            methods(&one_met),
            ["RFC X", "RFC Y procedure, shortened: few"]
        );
        assert_eq!(caveats(&both), ["Maximum receive rate, 64, 64, 128 B: w"]);
    }
}
