//! The tables of a report, filled from a summary.
//!
//! It decides which columns there are and what stands in them; how they look is the renderers' business. Start with
//! [`cases`] and [`comparisons`].

use fwdlab_model::campaign::PLAIN;
use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::event::RebuildRecord;
use fwdlab_model::loss::{Ledger, Loss, Place, Reason};
use fwdlab_model::result::{Summary, TrialRecord};

use crate::name::dut;
use crate::number::{Prefix, clock, count, difference, interval, p_value, percent, share};
use crate::shape::{self, Labels, Rated, Shape, does_not_forward};
use crate::state::State;
use crate::table::{Cell, Column, Mark, Table, capital, table};
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

/// One row per test case: what was offered, what came back, what was lost. Always the same columns, but for the kind of DUT.
pub(crate) fn all_of_cases(summary: &Summary) -> Table {
    let all = shape::rated(summary);
    let prefix = prefix(&all);
    let offered = all.iter().filter_map(|case| case.found.offered_load_pps);
    let offered_prefix = Prefix::for_largest(offered);
    let used = |case: &Rated<'_>| {
        let (used, failed) = (case.rates.len(), case.case.failures().count());
        Cell::with_values(
            format!("{used}/{}", used + failed),
            [used, failed].map(|n| n.to_string()),
        )
    };
    let mut table = table! {
        (case, own, stream, found) in all.iter().map(|case| (case, &case.case.case, case.stream, &case.found));
        left("configuration", "configuration") => Cell::text(&own.configuration),
        left("DUT", "dut") => Cell::new(dut(own.dut), own.dut),
        left("profile", "profile") => Cell::text(own.variant.profile.clone().unwrap_or_default()),
        right("size", "frame_size_bytes") =>
            Cell::new(format!("{} B", stream.frame_size_bytes), stream.frame_size_bytes),
        right("flows", "flows") => Cell::new(count(stream.flows), stream.flows),
        left("IP", "ip_version") =>
            Cell::new(stream.ip_version.to_string(), stream.ip_version.to_string().to_lowercase()),
        right("offered load", "offered_load_pps") =>
            Cell::optional(found.offered_load_pps, "-", |pps| offered_prefix.rate(pps)),
        plus_minus("forwarding rate", "forwarding_rate_pps", "interval_half_width_pps") =>
            forwarding_rate(case, prefix),
        right("loss", "frame_loss_ratio") =>
            Cell::optional(found.frame_loss_ratio, "-", |ratio| percent(100.0 * ratio)),
        right("used", "iterations", "iterations_invalid") => used(case),
    };
    // before there were other kinds, there was no such column
    if all.iter().all(|case| case.case.case.dut.is_linux()) {
        table.remove("DUT");
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
    Cell::with_values(
        text,
        [found.forwarding_rate_pps, case.half_width].map(optional_raw),
    )
}

/// Gated beside ungated, per test case.
pub(crate) fn noise(summary: &Summary) -> Table {
    let all = shape::rated(summary);
    let prefix = prefix(&all);
    let labels = Labels::of(&all);
    let rate = |value: Option<f64>| Cell::optional(value, "-", |pps| prefix.rate(pps));
    let variation = |value: Option<f64>| Cell::optional(value, "-", percent);
    let windows = |number: u32| Cell::new(count(number), number);
    table! {
        (case, found) in all.iter().map(|case| (case, &case.found));
        left("test case", "test_case") => Cell::text(labels.label(case)),
        right("quiet", "quiet_pps") => rate(found.quiet.forwarding_rate_pps.or(found.forwarding_rate_pps)),
        right("CV", "variation_percent") => variation(case.variation_percent),
        right("quiet windows", "quiet_windows") => windows(found.quiet.windows),
        right("contended", "contended_pps") => rate(found.contended.forwarding_rate_pps),
        right("contended windows", "contended_windows") => windows(found.contended.windows),
        right("ungated", "forwarding_rate_ungated_pps") => rate(found.forwarding_rate_ungated_pps),
        right("CV", "variation_ungated_percent") => variation(found.variation_ungated_percent),
        right("not offered", "windows_not_offered") => windows(found.windows_not_offered),
    }
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
    let verdict = |verdict| match verdict {
        Verdict::Less => "less",
        Verdict::More => "more",
        Verdict::NoDifference => "no_difference",
        Verdict::CannotTell => "cannot_tell",
    };
    let name = |comparison: &Comparison| match comparison.control {
        true => "A/A control (plain DUT again)".to_owned(),
        false => comparison.configuration.clone(),
    };
    let ends = |ends: Option<[f64; 2]>| {
        let text = ends.map_or_else(|| "-".into(), |ends| format!("{} %", interval(ends)));
        Cell::with_values(
            text,
            [0, 1].map(|end| optional_raw(ends.map(|ends| ends[end]))),
        )
    };
    let rate = |value: Option<f64>| Cell::optional(value, "-", |pps| prefix.rate(pps));
    let mark = |control| if control { Mark::Control } else { Mark::None };
    table! {
        one in compared, mark(one.control);
        prose("configuration", "configuration") => Cell::new(name(one), &one.configuration),
        right("difference", "difference_percent") => Cell::optional(one.difference_percent, "-", |value| {
            format!("{} %", difference(value, one.interval_percent))
        }),
        right("95 % interval", "interval_low_percent", "interval_high_percent") => ends(one.interval_percent),
        right("p", "p_value") => Cell::optional(one.p_value, "-", p_value),
        right("rebuilds", "values") => Cell::new(one.values_percent.len().to_string(), one.values_percent.len()),
        prose("verdict", "verdict") => Cell::new(words::short_verdict(one), verdict(one.verdict)),
        right("detectable", "detectable_percent") => Cell::optional(one.detectable_percent, "-", |value| {
            format!("{} %", difference(value, None).trim_start_matches('+'))
        }),
        right("forwarding rate", "forwarding_rate_pps") => rate(one.forwarding_rate_pps),
        right("plain DUT", "plain_forwarding_rate_pps") => rate(one.plain_forwarding_rate_pps),
    }
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
    let sent = ledger.frames_sent as f64;
    let row = |frames: u64, place: &str, counter: String| {
        let share = percent(share(frames as f64, sent));
        let share = Cell::new(share, frames as f64 / sent.max(1.0));
        let frames = Cell::new(count(frames), frames);
        [share, frames, Cell::text(place), Cell::text(counter)]
    };
    let losses = ledger.losses.iter();
    let losses = losses.map(|loss| row(loss.frames, &loss.place.words(), counter_words(loss)));
    let unexplained = row(ledger.frames_unexplained, "unexplained", String::new());
    // no number: what is not read is not 0
    let not_exact = ledger.not_exact.iter().map(|meter| {
        let stage = meter.stage.to_string();
        ["", meter.standing(), &stage, &meter.why].map(Cell::text)
    });
    table! {
        [share, frames, place, counter] in losses.chain([unexplained]).chain(not_exact);
        right("share", "ratio") => share,
        right("frames", "frames") => frames,
        left("where", "place") => place,
        below("counter", "counter") => counter,
    }
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
            Cell::new(format!("{} ({share})", count(frames)), frames)
        };
        let whole = |frames: u64| Cell::new(count(frames), frames);
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
    let rate = |value: Option<f64>, absent| Cell::optional(value, absent, |pps| prefix.rate(pps));
    let number = |number: u64| Cell::new(count(number), number);
    let test_case =
        |trial: &TrialRecord| match trial.control && !trial.test_case.ends_with("/control") {
            true => format!("{} (control)", trial.test_case),
            false => trial.test_case.clone(),
        };
    let each = trials.iter().map(|trial| {
        let (mark, [validity, mut reasons]) = validity_cells(&trial.validity.reasons);
        if trial.not_saturated && mark == Mark::None {
            reasons =
                Cell::text("not saturated: the generator was the limit, the DUT may forward more");
        }
        (trial, mark, validity, reasons)
    });
    table! {
        (trial, mark, validity, reasons) in each, mark;
        right("trial", "trial") => number(trial.trial.into()),
        left("validity", "validity") => validity,
        left("test case", "test_case") => Cell::text(test_case(trial)),
        right("iteration", "iteration") => number(trial.iteration.into()),
        left("started", "started_at") => Cell::new(clock(&trial.started_at), &trial.started_at),
        right("intended load", "intended_load_pps") => rate(trial.intended_load_pps, "flat out"),
        right("offered load", "offered_load_pps") => rate(Some(trial.offered_load_pps), "-"),
        right("forwarding rate", "forwarding_rate_pps") => rate(trial.forwarding_rate_pps, "-"),
        right("ungated", "forwarding_rate_ungated_pps") => rate(trial.forwarding_rate_ungated_pps, "-"),
        right("quiet", "quiet_windows") => number(trial.quiet.windows.into()),
        right("contended", "contended_windows") => number(trial.contended.windows.into()),
        right("not offered", "windows_not_offered") => number(trial.windows_not_offered.into()),
        right("loss", "frame_loss_ratio") =>
            Cell::new(percent(100.0 * trial.frame_loss_ratio), trial.frame_loss_ratio),
        right("unexplained", "frames_unexplained") => number(trial.ledger.frames_unexplained),
        below("reasons", "reasons") => reasons,
    }
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
            Cell::new(rebuild.rebuild.to_string(), rebuild.rebuild),
            validity,
            Cell::new(clock(&rebuild.started_at), &rebuild.started_at),
            Cell::text(places.join(", ")),
            Cell::new(count(rebuild.blocks), rebuild.blocks),
            Cell::new(
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
        cells.extend([Cell::new(count(unexplained), unexplained), reasons]);
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
