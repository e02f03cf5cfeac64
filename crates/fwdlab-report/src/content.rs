//! The tables of a report, filled from a summary.
//!
//! It decides which columns there are and what stands in them; how they look is the renderers' business. Start with
//! [`cases`] and [`comparisons`].

use fwdlab_model::campaign::PLAIN;
use fwdlab_model::event::RebuildRecord;
use fwdlab_model::loss::{Ledger, Loss, Place, Reason};
use fwdlab_model::result::{Summary, TrialRecord};

use crate::name::dut;
use crate::number::{Prefix, clock, count, difference, interval, p_value, percent, share};
use crate::shape::{self, Labels, Rated, Shape, does_not_forward};
use crate::state::State;
use crate::table::{Cell, Column, Mark, Table, capital};
use crate::words;

fn optional_raw<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// The prefix for all forwarding rates of the test cases.
pub(crate) fn prefix(cases: &[Rated<'_>]) -> Prefix {
    Prefix::for_largest(
        cases
            .iter()
            .filter_map(|case| case.found.forwarding_rate_pps),
    )
}

/// The test cases for people: without the configuration, the profile and the IP version where all have the same.
pub(crate) fn cases(summary: &Summary) -> Table {
    let mut table = all_of_cases(summary);
    let all = shape::rated(summary);
    let labels = Labels::of(&all);
    for (head, is_shown) in [
        ("configuration", labels.configuration),
        ("DUT", labels.dut),
        (
            "profile",
            all.iter()
                .any(|case| case.case.case.variant.profile.is_some()),
        ),
        ("IP", labels.ip_version),
    ] {
        if !is_shown {
            table.remove(head);
        }
    }
    table
}

/// One row per test case: what was offered, what came back, what was lost. Always the same columns.
pub(crate) fn all_of_cases(summary: &Summary) -> Table {
    let all = shape::rated(summary);
    let prefix = prefix(&all);
    let offered = all.iter().filter_map(|case| case.found.offered_load_pps);
    let offered_prefix = Prefix::for_largest(offered);
    let mut table = Table::new(vec![
        Column::left("configuration", &["configuration"]),
        Column::left("profile", &["profile"]),
        Column::right("size", &["frame_size_bytes"]),
        Column::right("flows", &["flows"]),
        Column::left("IP", &["ip_version"]),
        Column::right("offered load", &["offered_load_pps"]),
        Column::plus_minus(
            "forwarding rate",
            &["forwarding_rate_pps", "interval_half_width_pps"],
        ),
        Column::right("loss", &["frame_loss_ratio"]),
        Column::right("used", &["iterations", "iterations_invalid"]),
    ]);
    // before there were other kinds, there was no such column
    let has_kinds = all.iter().any(|case| !case.case.case.dut.is_linux());
    if has_kinds {
        table.columns.insert(1, Column::left("DUT", &["dut"]));
    }
    for case in &all {
        let (stream, found) = (case.stream, &case.found);
        let ip_version = stream.ip_version.to_string();
        let (used, failed) = (case.rates.len(), case.case.failures().count());
        let mut cells = vec![
            Cell::text(case.case.case.configuration.clone()),
            Cell::text(case.case.case.variant.profile.clone().unwrap_or_default()),
            Cell::number(
                format!("{} B", stream.frame_size_bytes),
                stream.frame_size_bytes,
            ),
            Cell::number(count(stream.flows), stream.flows),
            Cell {
                raw: vec![ip_version.to_lowercase()],
                text: ip_version,
            },
            Cell::optional(found.offered_load_pps, "-", |pps| offered_prefix.rate(pps)),
            forwarding_rate(case, prefix),
            Cell::optional(found.frame_loss_ratio, "-", |ratio| percent(100.0 * ratio)),
            Cell {
                text: format!("{used}/{}", used + failed),
                raw: vec![used.to_string(), failed.to_string()],
            },
        ];
        if has_kinds {
            let kind = case.case.case.dut;
            let cell = Cell {
                text: dut(kind).into(),
                raw: vec![kind.to_string()],
            };
            cells.insert(1, cell);
        }
        table.push(Mark::None, cells);
    }
    table
}

fn forwarding_rate(case: &Rated<'_>, prefix: Prefix) -> Cell {
    let found = &case.found;
    let text = match (found.forwarding_rate_pps, case.half_width) {
        _ if does_not_forward(&found.ledger) => "does not forward".into(),
        (None, _) => State::of(case.case).instead().into(),
        (Some(pps), None) => prefix.rate(pps),
        (Some(pps), Some(half)) => prefix.rate_with_interval(pps, half),
    };
    // The warning of the test case says why.
    let text = if found.not_saturated && found.forwarding_rate_pps.is_some() {
        format!(">= {text}")
    } else {
        text
    };
    Cell {
        text,
        raw: vec![
            optional_raw(found.forwarding_rate_pps),
            optional_raw(case.half_width),
        ],
    }
}

/// Gated beside ungated, per test case.
pub(crate) fn noise(summary: &Summary) -> Table {
    let all = shape::rated(summary);
    let prefix = prefix(&all);
    let labels = Labels::of(&all);
    let mut table = Table::new(vec![
        Column::left("test case", &["test_case"]),
        Column::right("quiet", &["quiet_pps"]),
        Column::right("CV", &["variation_percent"]),
        Column::right("quiet windows", &["quiet_windows"]),
        Column::right("contended", &["contended_pps"]),
        Column::right("contended windows", &["contended_windows"]),
        Column::right("ungated", &["forwarding_rate_ungated_pps"]),
        Column::right("CV", &["variation_ungated_percent"]),
        Column::right("not offered", &["windows_not_offered"]),
    ]);
    let rate = |value: Option<f64>| Cell::optional(value, "-", |pps| prefix.rate(pps));
    let variation = |value: Option<f64>| Cell::optional(value, "-", percent);
    let windows = |number: u32| Cell::number(count(number), number);
    for case in &all {
        let found = &case.found;
        table.push(
            Mark::None,
            vec![
                Cell::text(labels.label(case)),
                rate(
                    found
                        .quiet
                        .forwarding_rate_pps
                        .or(found.forwarding_rate_pps),
                ),
                variation(case.variation_percent),
                windows(found.quiet.windows),
                rate(found.contended.forwarding_rate_pps),
                windows(found.contended.windows),
                rate(found.forwarding_rate_ungated_pps),
                variation(found.variation_ungated_percent),
                windows(found.windows_not_offered),
            ],
        );
    }
    table
}

/// One row per configuration compared with the plain DUT; the A/A control last.
pub(crate) fn comparisons(summary: &Summary) -> Table {
    let compared = shape::comparisons(summary);
    let prefix = Prefix::for_largest(
        compared
            .iter()
            .flat_map(|c| [c.forwarding_rate_pps, c.plain_forwarding_rate_pps])
            .flatten(),
    );
    let mut table = Table::new(vec![
        Column::prose("configuration", &["configuration"]),
        Column::right("difference", &["difference_percent"]),
        Column::right(
            "95 % interval",
            &["interval_low_percent", "interval_high_percent"],
        ),
        Column::right("p", &["p_value"]),
        Column::right("rebuilds", &["values"]),
        Column::prose("verdict", &["verdict"]),
        Column::right("detectable", &["detectable_percent"]),
        Column::right("forwarding rate", &["forwarding_rate_pps"]),
        Column::right("plain DUT", &["plain_forwarding_rate_pps"]),
    ]);
    for comparison in compared {
        let mark = if comparison.control {
            Mark::Control
        } else {
            Mark::None
        };
        let name = if comparison.control {
            "A/A control (plain DUT again)"
        } else {
            &comparison.configuration
        };
        let ends = comparison.interval_percent;
        let verdict = match comparison.verdict {
            fwdlab_model::comparison::Verdict::Less => "less",
            fwdlab_model::comparison::Verdict::More => "more",
            fwdlab_model::comparison::Verdict::NoDifference => "no_difference",
            fwdlab_model::comparison::Verdict::CannotTell => "cannot_tell",
        };
        table.push(
            mark,
            vec![
                Cell {
                    text: name.into(),
                    raw: vec![comparison.configuration.clone()],
                },
                Cell::optional(comparison.difference_percent, "-", |value| {
                    format!("{} %", difference(value, ends))
                }),
                Cell {
                    text: ends.map_or_else(|| "-".into(), |ends| format!("{} %", interval(ends))),
                    raw: vec![
                        optional_raw(ends.map(|e| e[0])),
                        optional_raw(ends.map(|e| e[1])),
                    ],
                },
                Cell::optional(comparison.p_value, "-", p_value),
                Cell::number(
                    comparison.values_percent.len().to_string(),
                    comparison.values_percent.len(),
                ),
                Cell {
                    text: words::short_verdict(comparison).into(),
                    raw: vec![verdict.into()],
                },
                Cell::optional(comparison.detectable_percent, "-", |value| {
                    format!("{} %", difference(value, None).trim_start_matches('+'))
                }),
                Cell::optional(comparison.forwarding_rate_pps, "-", |pps| prefix.rate(pps)),
                Cell::optional(comparison.plain_forwarding_rate_pps, "-", |pps| {
                    prefix.rate(pps)
                }),
            ],
        );
    }
    table
}

/// Whose frames a ledger counts, and the ledger.
pub(crate) type Fate = (String, Ledger);

/// The ledgers in which anything was sent: one per test case, or one per configuration added up over the rebuilds.
pub(crate) fn fates(summary: &Summary, rebuilds: &[RebuildRecord]) -> Vec<Fate> {
    let rated = shape::rated(summary);
    let labels = Labels::of(&rated);
    let of_windows = rated
        .iter()
        .map(|case| (labels.label(case), case.found.ledger.clone()));
    let names = rebuilds.iter().map(|r| r.ledgers.len()).max().unwrap_or(0);
    let of_slices = (0..names).map(|index| {
        let ledgers = rebuilds.iter().filter_map(|r| r.ledgers.get(index));
        (dut_name(summary, rebuilds, index), Ledger::total(ledgers))
    });
    let of_slices = of_slices.filter(|_| Shape::of(summary) == Shape::Slices);
    let all: Vec<Fate> = of_windows.chain(of_slices).collect();
    all.into_iter()
        .filter(|(_, ledger)| ledger.frames_sent > 0)
        .collect()
}

/// Where the frames of one ledger were lost: one row per place, then the unexplained, then meters that say nothing to the frame.
pub(crate) fn losses(ledger: &Ledger) -> Table {
    let mut table = Table::new(loss_columns());
    for cells in loss_rows(ledger) {
        table.push(Mark::None, cells);
    }
    table
}

/// What became of all frames, one row per ledger: received, lost at each place that occurs, unexplained, not sent.
pub(crate) fn all_fates(fates: &[Fate]) -> Table {
    let places = places(fates);
    let mut columns = vec![
        Column::prose("frames of", &["test_case"]),
        Column::right("sent", &["frames_sent"]),
        Column::right("received", &["frames_received"]),
    ];
    for place in &places {
        columns.push(Column::right(
            &format!("lost {}", place.words()),
            &["frames_lost"],
        ));
    }
    columns.extend([
        Column::right("unexplained", &["frames_unexplained"]),
        Column::right("not sent", &["frames_not_sent"]),
    ]);
    let mut table = Table::new(columns);
    for (name, ledger) in fates {
        let part = |frames: u64| {
            let share = percent(share(frames as f64, ledger.frames_sent as f64));
            Cell::number(format!("{} ({share})", count(frames)), frames)
        };
        let whole = |frames: u64| Cell::number(count(frames), frames);
        let mut cells = vec![
            Cell::text(name),
            whole(ledger.frames_sent),
            part(ledger.frames_received),
        ];
        for place in &places {
            let at = |loss: &&Loss| loss.place == *place;
            cells.push(part(
                ledger.losses.iter().filter(at).map(|l| l.frames).sum(),
            ));
        }
        cells.extend([
            whole(ledger.frames_unexplained),
            whole(ledger.frames_not_sent),
        ]);
        table.push(Mark::None, cells);
    }
    table
}

/// Places at which anything was lost, in the order of the way.
pub(crate) fn places(fates: &[Fate]) -> Vec<Place> {
    let all = fates.iter().flat_map(|(_, ledger)| &ledger.losses);
    let mut places: Vec<Place> = all.map(|loss| loss.place.clone()).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Which counters tell the losses, and the kernel's reasons: one sentence per place and counter, the ledgers named
/// where they have reasons of their own.
pub(crate) fn counters(fates: &[Fate]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for place in places(fates) {
        let at_place = || {
            fates.iter().flat_map(|(name, ledger)| {
                let losses = ledger.losses.iter().filter(|loss| loss.place == place);
                losses.map(move |loss| (name, loss))
            })
        };
        let mut known: Vec<&str> = Vec::new();
        for (_, loss) in at_place() {
            if !known.contains(&loss.counter.as_str()) {
                known.push(&loss.counter);
                sentences.push(format!("Lost {}: {}.", place.words(), loss.counter));
            }
        }
        for (name, loss) in at_place().filter(|(_, loss)| !loss.reasons.is_empty()) {
            let reasons = reasons(loss);
            sentences.push(format!(
                "The kernel's reasons {}, {name}: {reasons}.",
                place.words()
            ));
        }
    }
    let all = Ledger::total(fates.iter().map(|(_, ledger)| ledger));
    for meter in &all.not_exact {
        sentences.push(format!("{}.", capital(&meter.to_string())));
    }
    sentences
}

fn loss_columns() -> Vec<Column> {
    vec![
        Column::right("share", &["ratio"]),
        Column::right("frames", &["frames"]),
        Column::left("where", &["place"]),
        Column::below("counter", &["counter"]),
    ]
}

fn loss_rows(ledger: &Ledger) -> Vec<Vec<Cell>> {
    let sent = ledger.frames_sent as f64;
    let row = |frames: u64, place: &str, counter: String| {
        vec![
            Cell::number(
                percent(share(frames as f64, sent)),
                frames as f64 / sent.max(1.0),
            ),
            Cell::number(count(frames), frames),
            Cell::text(place),
            Cell::text(counter),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = ledger
        .losses
        .iter()
        .map(|loss| row(loss.frames, &loss.place.words(), counter_words(loss)))
        .collect();
    rows.push(row(ledger.frames_unexplained, "unexplained", String::new()));
    // no number: what is not read is not 0
    rows.extend(ledger.not_exact.iter().map(|meter| {
        vec![
            Cell::text(""),
            Cell::text(meter.standing()),
            Cell::text(meter.stage.to_string()),
            Cell::text(&meter.why),
        ]
    }));
    rows
}

/// The counter, and the kernel's reasons where it tells them.
pub(crate) fn counter_words(loss: &Loss) -> String {
    if loss.reasons.is_empty() {
        loss.counter.clone()
    } else {
        format!("{}; the kernel's reasons: {}", loss.counter, reasons(loss))
    }
}

fn reasons(loss: &Loss) -> String {
    let words = |reason: &Reason| format!("{} {}", reason.reason, count(reason.frames));
    loss.reasons
        .iter()
        .map(words)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Two cells: the verdict, and the reasons where there are any.
fn validity_cells(reasons: &[String]) -> (Mark, [Cell; 2]) {
    let (mark, word) = match reasons {
        [] => (Mark::None, "valid"),
        _ => (Mark::Invalid, "invalid"),
    };
    (mark, [Cell::text(word), Cell::text(reasons.join("; "))])
}

/// Every trial, in order of execution.
pub(crate) fn trials(trials: &[TrialRecord]) -> Table {
    let rates = trials
        .iter()
        .flat_map(|t| [Some(t.offered_load_pps), t.forwarding_rate_pps])
        .flatten();
    let prefix = Prefix::for_largest(rates);
    let mut table = Table::new(vec![
        Column::right("trial", &["trial"]),
        Column::left("validity", &["validity"]),
        Column::left("test case", &["test_case"]),
        Column::right("iteration", &["iteration"]),
        Column::left("started", &["started_at"]),
        Column::right("intended load", &["intended_load_pps"]),
        Column::right("offered load", &["offered_load_pps"]),
        Column::right("forwarding rate", &["forwarding_rate_pps"]),
        Column::right("ungated", &["forwarding_rate_ungated_pps"]),
        Column::right("quiet", &["quiet_windows"]),
        Column::right("contended", &["contended_windows"]),
        Column::right("not offered", &["windows_not_offered"]),
        Column::right("loss", &["frame_loss_ratio"]),
        Column::right("unexplained", &["frames_unexplained"]),
        Column::below("reasons", &["reasons"]),
    ]);
    let rate = |value: Option<f64>, absent| Cell::optional(value, absent, |pps| prefix.rate(pps));
    let number = |number: u64| Cell::number(count(number), number);
    for trial in trials {
        let (mark, [validity, mut reasons]) = validity_cells(&trial.validity.reasons);
        if trial.not_saturated && mark == Mark::None {
            reasons =
                Cell::text("not saturated: the generator was the limit, the DUT may forward more");
        }
        let control = if trial.control && !trial.test_case.ends_with("/control") {
            " (control)"
        } else {
            ""
        };
        table.push(
            mark,
            vec![
                number(trial.trial.into()),
                validity,
                Cell::text(format!("{}{control}", trial.test_case)),
                number(trial.iteration.into()),
                Cell {
                    text: clock(&trial.started_at),
                    raw: vec![trial.started_at.clone()],
                },
                rate(trial.intended_load_pps, "flat out"),
                rate(Some(trial.offered_load_pps), "-"),
                rate(trial.forwarding_rate_pps, "-"),
                rate(trial.forwarding_rate_ungated_pps, "-"),
                number(trial.quiet.windows.into()),
                number(trial.contended.windows.into()),
                number(trial.windows_not_offered.into()),
                Cell::number(
                    percent(100.0 * trial.frame_loss_ratio),
                    trial.frame_loss_ratio,
                ),
                number(trial.ledger.frames_unexplained),
                reasons,
            ],
        );
    }
    table
}

/// Every rebuild, in order: differences of the configurations, which place they stood in, validity.
pub(crate) fn rebuilds(rebuilds: &[RebuildRecord]) -> Table {
    let mut columns = vec![
        Column::right("rebuild", &["rebuild"]),
        Column::left("validity", &["validity"]),
        Column::left("started", &["started_at"]),
        Column::prose("places", &["places"]),
        Column::right("blocks used", &["blocks"]),
        Column::right("not offered", &["blocks_not_offered"]),
        Column::right("plain DUT", &["plain_forwarding_rate_pps"]),
    ];
    let configurations = rebuilds
        .iter()
        .map(|r| r.difference_percent.len())
        .max()
        .unwrap_or(0);
    for index in 1..configurations {
        let head = place_name(index);
        columns.push(Column::right(&head, &["difference_percent"]));
    }
    columns.extend([
        Column::right("unexplained", &["frames_unexplained"]),
        Column::below("reasons", &["reasons"]),
    ]);
    let mut table = Table::new(columns);
    let prefix = Prefix::for_largest(
        rebuilds
            .iter()
            .filter_map(|r| r.forwarding_rate_pps.first().copied()),
    );
    for rebuild in rebuilds {
        let (mark, [validity, reasons]) = validity_cells(&rebuild.validity.reasons);
        let places: Vec<String> = rebuild
            .places
            .iter()
            .map(|&place| place_name(place as usize))
            .collect();
        let plain = rebuild.forwarding_rate_pps.first().copied();
        let mut cells = vec![
            Cell::number(rebuild.rebuild.to_string(), rebuild.rebuild),
            validity,
            Cell {
                text: clock(&rebuild.started_at),
                raw: vec![rebuild.started_at.clone()],
            },
            Cell::text(places.join(", ")),
            Cell::number(count(rebuild.blocks), rebuild.blocks),
            Cell::number(
                count(rebuild.blocks_not_offered),
                rebuild.blocks_not_offered,
            ),
            Cell::optional(plain, "-", |pps| prefix.rate(pps)),
        ];
        for index in 1..configurations {
            cells.push(Cell::optional(
                rebuild.difference_percent.get(index).copied(),
                "-",
                |value| format!("{} %", difference(value, Some([-0.5, 0.5]))),
            ));
        }
        let unexplained: u64 = rebuild.ledgers.iter().map(|l| l.frames_unexplained).sum();
        cells.extend([Cell::number(count(unexplained), unexplained), reasons]);
        table.push(mark, cells);
    }
    table
}

/// How a DUT of a row is called where its command has no room: `plain`, `control`, `#1`.
pub(crate) fn place_name(index: usize) -> String {
    match index {
        0 => "plain".into(),
        1 => "control".into(),
        other => format!("#{}", other - 1),
    }
}

/// What a DUT of a row is.
fn dut_name(summary: &Summary, rebuilds: &[RebuildRecord], index: usize) -> String {
    let known = rebuilds.iter().find_map(|r| r.compared.get(index));
    match (index, known) {
        (1, _) => "A/A control".into(),
        (0, Some(dut)) if dut.configuration != PLAIN => dut.configuration.clone(),
        (0, _) => "plain DUT".into(),
        (_, Some(dut)) => dut.configuration.clone(),
        (_, None) => {
            let mut compared = summary.comparisons();
            let name = compared.nth(index - 2).map(|c| c.configuration.clone());
            name.unwrap_or_else(|| place_name(index))
        }
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::loss::{NotExact, Stage};

    use super::*;

    /// What lies between the two ends is said, and what was not read has no number.
    #[test]
    fn a_meter_that_was_not_read_is_said_to_be_not_read() {
        let ledger = Ledger {
            frames_sent: 1000,
            frames_received: 970,
            frames_lost: 30,
            losses: vec![Loss {
                place: Place::Between(Stage::GeneratorPort, Stage::ReceiverPort),
                frames: 30,
                counter: "tx_packets less rx_packets".into(),
                reasons: Vec::new(),
            }],
            not_exact: vec![NotExact {
                stage: Stage::DutInput,
                is_read: false,
                why: "a black box".into(),
            }],
            ..Ledger::default()
        };
        let told = losses(&ledger).text(200);
        let words: Vec<&str> = told.split_whitespace().collect();
        let told = words.join(" ");
        for wanted in [
            "3.0 % 30 between the generator's port and the receiver's port",
            "not read the DUT's input",
            "a black box",
        ] {
            assert!(told.contains(wanted), "{told}");
        }
        let fates = [("64 B".to_owned(), ledger)];
        let sentences = counters(&fates);
        assert_eq!(
            sentences.last().map(String::as_str),
            Some("The DUT's input: not read: a black box.")
        );
        assert_eq!(places(&fates).len(), 1);
    }
}
