//! What procedures found, in words and tables: one table per procedure over all frame sizes, as RFC 2544 has them.
//!
//! For the terminal and for the page alike. Start with [`headline`] and [`tables`]; [`explain`] is for `--explain`.

use model::outcome::{Compliance, Cost, Found, LatencyMode, Outcome, Spread};
use model::result::{RunInfo, Summary, TrialRecord};
use model::variant::Variant;

use crate::number::{bits_per_second, count, percent, rate, seconds};
use crate::table::{Cell, Column, Mark, Table, wrap};
use crate::text::{WIDTH, all_warnings, paragraph};
use crate::words::{self, several};

/// Samples of a table of a ramp or a soak; the page and the records have all of them.
const ROWS: usize = 12;

/// The answer: what the first procedure found, for the first frame size and how many more.
pub(crate) fn headline(outcomes: &[Outcome]) -> String {
    let Some(first) = outcomes.first() else {
        return "Nothing was measured".into();
    };
    let words = format!(
        "{}, {}: {}",
        name(&first.found),
        frames(first),
        figure(first)
    );
    match outcomes.len() {
        1 => words,
        more => format!("{words}; {} in all", several(more, "result")),
    }
}

/// What was sent: `64 B`, or the name of a profile.
fn frames(outcome: &Outcome) -> String {
    match &outcome.variant.profile {
        Some(profile) => format!("{profile} (mean {} B)", outcome.frame_size_bytes),
        None => format!("{} B", outcome.frame_size_bytes),
    }
}

/// What tells the series of an outcome from a plain one, in words; the frames are said elsewhere.
fn series(outcome: &Outcome) -> String {
    let variant = Variant {
        profile: None,
        ..outcome.variant.clone()
    };
    match variant.is_plain() {
        true => "plain".into(),
        false => variant.to_string(),
    }
}

/// The rate of a modified series in percent of the unmodified one's, as far as both have one.
fn percent_of_unmodified<'a>(
    outcome: &Outcome,
    mut others: impl Iterator<Item = &'a Outcome>,
) -> Option<f64> {
    if outcome.variant.modifiers.is_empty() {
        return None;
    }
    let unmodified = outcome.variant.unmodified();
    let other = others.find(|other| {
        other.variant == unmodified && other.frame_size_bytes == outcome.frame_size_bytes
    })?;
    let rate = |outcome: &Outcome| outcome.found.rate_pps().filter(|_| outcome.answered);
    Some(100.0 * rate(outcome)? / rate(other)?)
}

/// Both directions together, where there are two: what one offers and gets is in the figures.
fn together(outcome: &Outcome) -> Option<f64> {
    let both = outcome.variant.both_directions && outcome.answered;
    outcome
        .found
        .rate_pps()
        .filter(|_| both)
        .map(|pps| 2.0 * pps)
}

/// A procedure's name as a title.
fn name(found: &Found) -> &'static str {
    match found {
        Found::Ramp(_) => "Ramp",
        Found::Throughput(_) => "Throughput",
        Found::Latency(_) => "Latency",
        Found::FrameLoss(_) => "Frame loss rate",
        Found::BackToBack(_) => "Back-to-back frames",
        Found::Recovery(_) => "System recovery",
        Found::Reset(_) => "Reset",
        Found::Mrr(_) => "Maximum receive rate",
        Found::Soak(_) => "Soak",
        Found::Plr(_) => "Critical load",
        Found::Equilibrium(_) => "Equilibrium",
        Found::Sweep(_) => "Sweep",
        Found::Trial(_) => "Trial",
    }
}

/// The one figure of an outcome, or why there is none.
fn figure(outcome: &Outcome) -> String {
    let verdict = || outcome.verdict.clone();
    if !outcome.answered {
        return verdict();
    }
    match &outcome.found {
        Found::Throughput(found) => found.throughput_pps.map_or_else(verdict, |pps| {
            let share = found
                .percent
                .map_or(String::new(), |p| format!(" ({})", percent(p)));
            format!("{}{}{share}", at_least(found.tester_bound), rate(pps))
        }),
        Found::Ramp(found) => match (found.up.saturation_pps, found.up.at_s) {
            (Some(pps), Some(_)) if found.tester_bound => {
                format!("loss begins above {}, the tester's limit", rate(pps))
            }
            (Some(pps), Some(_)) => format!("loss begins above {}", rate(pps)),
            (Some(pps), None) => format!("no lasting loss up to {}", rate(pps)),
            _ => verdict(),
        },
        Found::Latency(found) => {
            let spread = found
                .points
                .first()
                .and_then(|p| p.typical_ns.or(p.latency_ns));
            spread.map_or_else(verdict, |spread| format!("typical {}", time(spread.median)))
        }
        Found::FrameLoss(found) => found.points.first().map_or_else(verdict, |point| {
            format!(
                "{} lost at {}",
                percent(point.loss_percent),
                rate(point.load_pps)
            )
        }),
        Found::BackToBack(found) => found.burst_frames.map_or_else(verdict, |burst| {
            format!("{} frames", count(burst.mean.round() as i128))
        }),
        Found::Recovery(found) => found.recovery_s.map_or_else(verdict, |s| seconds(s.mean)),
        Found::Reset(found) => found
            .by_timestamp_s
            .map_or_else(verdict, |s| seconds(s.mean)),
        Found::Mrr(found) => found.receive_rate_pps.map_or_else(verdict, |r| {
            format!("{}{}", at_least(found.tester_bound), rate(r.mean))
        }),
        Found::Soak(_) => verdict(),
        Found::Plr(found) => match (found.critical_load_pps, found.lower_pps, found.upper_pps) {
            (Some(pps), Some(lower), Some(upper)) => {
                format!("{} ({} to {})", rate(pps), rate(lower), rate(upper))
            }
            _ => verdict(),
        },
        Found::Equilibrium(found) => found.equilibrium_pps.map_or_else(verdict, rate),
        Found::Sweep(found) => found.cost.as_ref().map_or_else(verdict, cost),
        Found::Trial(found) => format!(
            "{} of {} offered came back, {} lost",
            rate(found.forwarding_rate_pps),
            rate(found.offered_load_pps),
            percent(100.0 * found.frame_loss_ratio)
        ),
    }
}

/// What stands before the figure of a DUT that may do more.
fn at_least(tester_bound: bool) -> &'static str {
    if tester_bound { "at least " } else { "" }
}

/// What a parameter costs, in words.
fn cost(cost: &Cost) -> String {
    match cost {
        Cost::Constant { frame_ns } => format!("no cost seen, {frame_ns:.1} ns a frame"),
        Cost::Linear {
            unit_ns,
            unit_ns_interval: (low, high),
            ..
        } => format!("{unit_ns:.3} ns each ({low:.3} to {high:.3})"),
        Cost::Logarithmic {
            doubling_ns,
            doubling_ns_interval: (low, high),
            ..
        } => format!("{doubling_ns:.3} ns each doubling ({low:.3} to {high:.3})"),
        Cost::Cliff {
            frame_ns,
            beyond_ns,
            last_before,
            first_after,
        } => format!(
            "a cliff between {last_before} and {first_after}: {frame_ns:.0} to {beyond_ns:.0} ns a frame"
        ),
    }
}

/// Nanoseconds for people.
fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{:.3} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.3} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

fn spread_cells(spread: Option<Spread>, format: impl Fn(f64) -> String) -> Vec<Cell> {
    let of = |value: fn(&Spread) -> f64| Cell::optional(spread.as_ref().map(value), "", &format);
    vec![of(|s| s.mean), of(|s| s.min), of(|s| s.max)]
}

/// One table per procedure with a title, in the order in which they were made.
pub(crate) fn tables(outcomes: &[Outcome]) -> Vec<(&'static str, Table)> {
    let mut tables: Vec<(&'static str, Table)> = Vec::new();
    for outcome in outcomes {
        let title = name(&outcome.found);
        if tables.iter().all(|(known, _)| *known != title) {
            let alike = outcomes.iter().filter(|o| name(&o.found) == title);
            tables.push((title, table(alike)));
        }
    }
    tables
}

/// The outcomes of one procedure.
fn table<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Table {
    let right = Column::right;
    let Some(first) = outcomes.clone().next() else {
        return Table::default();
    };
    let mut columns = vec![right("frame size", &["frame_size_bytes"])];
    let varied = outcomes.clone().any(|outcome| series(outcome) != "plain");
    let modified = outcomes
        .clone()
        .any(|outcome| !outcome.variant.modifiers.is_empty());
    let both = outcomes
        .clone()
        .any(|outcome| outcome.variant.both_directions);
    if varied {
        columns.push(Column::left("series", &["series"]));
    }
    columns.extend(match &first.found {
        Found::Throughput(_) => vec![
            right("theoretical", &["line_rate_pps"]),
            right("measured", &["throughput_pps"]),
            right("%", &["percent"]),
            right("L2", &["l2_bps"]),
        ],
        Found::Latency(_) => vec![
            right("load", &["load_pps"]),
            right("typical", &["typical_ns"]),
            right("p1", &["p1_ns"]),
            right("p99", &["p99_ns"]),
            right("worst case", &["worst_case_ns"]),
        ],
        Found::FrameLoss(_) => vec![
            right("% of full rate", &["percent"]),
            right("load", &["load_pps"]),
            right("% lost", &["loss_percent"]),
            right("forwarded", &["forwarding_rate_pps"]),
        ],
        Found::BackToBack(_) => vec![
            right("burst", &["burst_frames"]),
            right("min", &["min_frames"]),
            right("max", &["max_frames"]),
            right("time", &["implied_time_s"]),
            right("corrected", &["corrected_time_s"]),
            right("buffer", &["buffer_frames"]),
        ],
        Found::Recovery(_) => vec![
            right("overload", &["overload_pps"]),
            right("recovery", &["recovery_s"]),
            right("min", &["min_s"]),
            right("max", &["max_s"]),
        ],
        Found::Reset(_) => vec![
            right("load", &["load_pps"]),
            right("by lost frames", &["by_loss_s"]),
            right("by moments", &["by_timestamp_s"]),
        ],
        Found::Ramp(_) => vec![
            right("load", &["intended_load_pps"]),
            right("offered", &["offered_load_pps"]),
            right("forwarded", &["forwarding_rate_pps"]),
            right("% lost", &["loss_percent"]),
        ],
        Found::Soak(_) => vec![
            right("load", &["load_pps"]),
            right("lost", &["frames_lost"]),
            right("longest lossless", &["longest_lossless_s"]),
            right("bursts of loss", &["loss_bursts"]),
            right("trend per hour", &["trend_pps_per_hour"]),
        ],
        Found::Sweep(found) => vec![
            right(&found.parameter, &["value"]),
            right("median", &["median_pps"]),
            right("% of reference", &["percent_of_reference"]),
            right("ns a frame", &["frame_ns"]),
        ],
        _ => vec![right("result", &["rate_pps"])],
    });
    if both {
        columns.push(right("both directions", &["both_directions_pps"]));
    }
    if modified {
        columns.push(right("% of unmodified", &["percent_of_unmodified"]));
    }
    columns.push(Column::below("verdict", &["verdict"]));
    let mut table = Table::new(columns);
    let all = outcomes.clone();
    for outcome in outcomes {
        let compared = percent_of_unmodified(outcome, all.clone());
        let rows = rows(outcome);
        let last = rows.len().saturating_sub(1);
        for (n, row) in rows.into_iter().enumerate() {
            let mut cells = vec![Cell::number(frames(outcome), outcome.frame_size_bytes)];
            if varied {
                cells.push(Cell::text(series(outcome)));
            }
            cells.extend(row);
            if both {
                cells.push(Cell::optional(together(outcome), "", rate));
            }
            if modified {
                cells.push(Cell::optional(compared, "", |p| format!("{p:.1}")));
            }
            // the verdict stands once, below the last row
            let says_more = !matches!(outcome.verdict.as_str(), "found" | "measured");
            let verdict = if n == last && says_more {
                outcome.verdict.as_str()
            } else {
                ""
            };
            cells.push(Cell::text(verdict));
            table.push(Mark::None, cells);
        }
    }
    table
}

/// The rows of one outcome, without size and verdict.
fn rows(outcome: &Outcome) -> Vec<Vec<Cell>> {
    let optional = |pps: Option<f64>| Cell::optional(pps, "", rate);
    let share = |value: f64| Cell::number(percent(value), value);
    match &outcome.found {
        Found::Throughput(found) => vec![vec![
            optional(found.line_rate_pps),
            optional(found.throughput_pps),
            Cell::optional(found.percent, "", |p| format!("{p:.2}")),
            Cell::optional(found.l2_bps, "", bits_per_second),
        ]],
        Found::Latency(found) if found.points.is_empty() || !outcome.answered => {
            vec![vec![Cell::text(""); 5]]
        }
        Found::Latency(found) => found
            .points
            .iter()
            .map(|point| {
                let main = match found.mode {
                    LatencyMode::Rfc2544 => point.latency_ns,
                    LatencyMode::Rfc8219 => point.typical_ns,
                };
                let middle = |s: Spread| match found.mode {
                    LatencyMode::Rfc2544 => s.mean,
                    LatencyMode::Rfc8219 => s.median,
                };
                let load = format!("{} % = {}", point.percent, rate(point.load_pps));
                vec![
                    Cell::number(load, point.load_pps),
                    Cell::optional(main.map(middle), "", time),
                    Cell::optional(main.map(|s| s.p1), "", time),
                    Cell::optional(main.map(|s| s.p99), "", time),
                    Cell::optional(point.worst_case_ns.map(|s| s.median), "", time),
                ]
            })
            .collect(),
        Found::FrameLoss(found) => found
            .points
            .iter()
            .map(|point| {
                vec![
                    Cell::number(
                        format!("{:.4}", point.percent)
                            .trim_end_matches('0')
                            .trim_end_matches('.'),
                        point.percent,
                    ),
                    Cell::number(rate(point.load_pps), point.load_pps),
                    Cell::number(format!("{:.4}", point.loss_percent), point.loss_percent),
                    Cell::number(rate(point.forwarding_rate_pps), point.forwarding_rate_pps),
                ]
            })
            .collect(),
        Found::BackToBack(found) => {
            let mut row = spread_cells(found.burst_frames, |frames| count(frames.round() as i128));
            row.extend([
                Cell::optional(found.implied_time_s, "", seconds),
                Cell::optional(found.corrected_time_s, "", seconds),
                Cell::optional(found.buffer_frames, "", |frames| {
                    count(frames.round() as i128)
                }),
            ]);
            vec![row]
        }
        Found::Recovery(found) => {
            let mut row = vec![Cell::number(rate(found.overload_pps), found.overload_pps)];
            row.extend(spread_cells(found.recovery_s, seconds));
            vec![row]
        }
        Found::Reset(found) => vec![vec![
            Cell::number(rate(found.load_pps), found.load_pps),
            Cell::optional(found.by_loss_s.map(|s| s.mean), "", seconds),
            Cell::optional(found.by_timestamp_s.map(|s| s.mean), "", seconds),
        ]],
        Found::Ramp(found) => {
            let every = found.samples.len().div_ceil(ROWS).max(1);
            let shown = found.samples.iter().skip(every - 1).step_by(every);
            shown
                .map(|sample| {
                    vec![
                        Cell::number(rate(sample.intended_load_pps), sample.intended_load_pps),
                        Cell::number(rate(sample.offered_load_pps()), sample.offered_load_pps()),
                        Cell::number(
                            rate(sample.forwarding_rate_pps()),
                            sample.forwarding_rate_pps(),
                        ),
                        share(100.0 * sample.loss_ratio()),
                    ]
                })
                .collect()
        }
        Found::Soak(found) => vec![vec![
            Cell::number(rate(found.load_pps), found.load_pps),
            Cell::number(count(found.frames_lost), found.frames_lost),
            Cell::number(seconds(found.longest_lossless_s), found.longest_lossless_s),
            Cell::number(found.loss_bursts.to_string(), found.loss_bursts),
            Cell::optional(found.trend_pps_per_hour, "", |pps| format!("{pps:+.0} pps")),
        ]],
        Found::Sweep(found) => found
            .points
            .iter()
            .map(|point| {
                vec![
                    Cell::number(point.value.to_string(), point.value),
                    optional(point.median_pps),
                    Cell::optional(point.percent_of_reference, "", |p| format!("{p:.1}")),
                    Cell::optional(point.median_pps.map(|pps| 1e9 / pps), "", |ns| {
                        format!("{ns:.1}")
                    }),
                ]
            })
            .collect(),
        _ => vec![vec![Cell::text(figure(outcome))]],
    }
}

/// Labels of the standards. In which points all were shortened is said once, before what is each one's own.
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
            (true, false) => format!("{} procedure, shortened as said", compliance.standard),
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

/// What makes a reader doubt an outcome, with its procedure and sizes; what is said of several sizes stands once.
pub(crate) fn doubts(outcomes: &[Outcome]) -> Vec<String> {
    let mut doubts: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for outcome in outcomes {
        let title = name(&outcome.found);
        let mut size = match series(outcome).as_str() {
            "plain" => frames(outcome),
            series => format!("{} ({series})", frames(outcome)),
        };
        // sizes in a row have their unit once
        if let Some(bytes) = size.strip_suffix(" B") {
            size = bytes.into();
        }
        for warning in &outcome.warnings {
            match doubts
                .iter_mut()
                .find(|(t, w, _)| *t == title && w == warning)
            {
                Some((_, _, sizes)) => sizes.push(size.clone()),
                None => doubts.push((title, warning, vec![size.clone()])),
            }
        }
    }
    let line = |(title, warning, sizes): &(&str, &str, Vec<String>)| {
        let unit = match sizes.last().and_then(|size| size.parse::<u16>().ok()) {
            Some(_) => " B",
            None => "",
        };
        format!("{title}, {}{unit}: {warning}", sizes.join(", "))
    };
    doubts.iter().map(line).collect()
}

/// The whole result for the terminal.
pub(crate) fn text(info: &RunInfo, summary: &Summary) -> String {
    let mut text = wrap(&words::headline(info, summary).line(), WIDTH, "");
    text.push('\n');
    for (title, table) in tables(&summary.outcomes) {
        text.push_str(&format!(" {title}\n"));
        text.push_str(&table.text(WIDTH));
        text.push('\n');
    }
    text.push_str(&paragraph("noise", &summary.noise.verdict));
    for warning in all_warnings(summary)
        .iter()
        .chain(&doubts(&summary.outcomes))
    {
        text.push_str(&paragraph("warning", warning));
    }
    for method in methods(&summary.outcomes) {
        text.push_str(&paragraph("method", &method));
    }
    text.push_str(&paragraph("engine", &info.facts.engine));
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}

/// Every trial with its reason and its meaning.
pub fn explain(trials: &[TrialRecord]) -> String {
    let mut text = String::from("Why each trial was made, and what it said:\n\n");
    for record in trials {
        let Some(asked) = &record.asked else { continue };
        let (question, answer) = (&asked.question, &asked.answer);
        let early = if answer.ended_early {
            ", ended early: its verdict could not change any more"
        } else {
            ""
        };
        text += &format!(
            "{:>4}  {} B  up to {:>11}  {} of {}\n",
            record.trial,
            question.frame_size_bytes,
            rate(question.peak_pps()),
            seconds(answer.duration_ns as f64 / 1e9),
            seconds(question.duration_ns() as f64 / 1e9),
        );
        let invalid = match record.validity.is_valid() {
            true => String::new(),
            false => format!(". INVALID: {}", record.validity.reasons.join("; ")),
        };
        let says = match asked.says.as_str() {
            "" => String::new(),
            says => format!(". {says}"),
        };
        text += &wrap(
            &format!("{}{says}{early}{invalid}", question.reason),
            WIDTH,
            "      ",
        );
    }
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}

#[cfg(test)]
mod tests {
    use model::outcome::Mrr;
    use model::units::FrameSize;

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
            compliance: Compliance {
                standard: standard.into(),
                shortened: shortened.iter().map(|s| (*s).to_owned()).collect(),
            },
            warnings: vec![warning.into()],
            trials: 1,
        }
    }

    #[test]
    fn series_are_told_apart_and_compared() {
        let with = |pps: f64, variant: Variant| Outcome {
            variant,
            found: Found::Equilibrium(model::outcome::Equilibrium {
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
            modifiers: vec![model::variant::Modifier::Broadcast],
            ..both.clone()
        };
        let outcomes = [with(1e6, both), with(9e5, modified)];
        let text = tables(&outcomes)[0].1.text(WIDTH);
        for words in [
            "both directions, broadcast",
            "1.800 Mpps",
            "90.0",
            "% of unmodified",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        assert!(
            doubts(&outcomes)[0].contains("64 B (both directions)"),
            "{:?}",
            doubts(&outcomes)
        );
    }

    #[test]
    fn a_standard_is_named_alone_only_when_it_was_met() {
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
                "RFC X procedure, shortened as said",
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
        assert_eq!(doubts(&both), ["Maximum receive rate, 64, 64, 128 B: w"]);
    }
}
