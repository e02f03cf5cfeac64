//! Reports the fate of frames: received, lost at a place, unexplained, not sent.
//!
//! It does not count; `measure` balances the ledgers. Start with [`fates`].

use fwdlab_model::event::RebuildRecord;
use fwdlab_model::loss::{Ledger, Loss, Place, Reason};
use fwdlab_model::result::Summary;

use crate::number::{count, percent, share};
use crate::shape::{self, Labels, Shape};
use crate::table::{Cell, Column, Mark, Table, capital, table};
use crate::trials::dut_name;

/// The name of a test case or configuration, and its ledger.
pub(crate) type Fate = (String, Ledger);

/// Returns the ledgers of traffic that was sent: one per test case, or one per configuration,
/// summed over the rebuilds.
pub(crate) fn fates(summary: &Summary, rebuilds: &[RebuildRecord]) -> Vec<Fate> {
    let rated = shape::rated(summary);
    let labels = Labels::from_cases(&rated);
    let of_windows = rated
        .iter()
        .map(|case| (labels.label(case), case.found.ledger.clone()));
    let names = rebuilds.iter().map(|r| r.ledgers.len()).max().unwrap_or(0);
    let of_slices = (0..names).map(|index| {
        let ledgers = rebuilds.iter().filter_map(|r| r.ledgers.get(index));
        (dut_name(summary, rebuilds, index), Ledger::total(ledgers))
    });
    let of_slices = of_slices.filter(|_| Shape::from_summary(summary) == Shape::Slices);
    let all: Vec<Fate> = of_windows.chain(of_slices).collect();
    all.into_iter()
        .filter(|(_, ledger)| ledger.frames_sent > 0)
        .collect()
}

/// Returns where the frames of a ledger were lost: a row per place, then the unexplained frames,
/// then the meters that are not exact to the frame.
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
    // no number: a value that was not read is not 0
    let not_exact = ledger.not_exact.iter().map(|meter| {
        let stage = meter.stage.to_string();
        ["", meter.reliability(), &stage, &meter.why].map(Cell::text)
    });
    table! {
        [share, frames, place, counter] in losses.chain([unexplained]).chain(not_exact);
        right("share", "ratio") => share,
        right("frames", "frames") => frames,
        left("where", "place") => place,
        below("counter", "counter") => counter,
    }
}

/// Returns the fate of all frames, a row per ledger: received, lost at each place, unexplained, not
/// sent.
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

/// Returns the places where frames were lost, in the order of the path.
pub(crate) fn places(fates: &[Fate]) -> Vec<Place> {
    let all = fates.iter().flat_map(|(_, ledger)| &ledger.losses);
    let mut places: Vec<Place> = all.map(|loss| loss.place.clone()).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Returns the counters that show the losses, a sentence per place and counter; then the kernel's
/// reasons of each ledger, and the meters that are not exact to the frame.
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

/// Returns the name of the counter, with the kernel's reasons if there are any.
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

#[cfg(test)]
mod tests {
    use fwdlab_model::loss::{NotExact, Stage};

    use super::*;

    #[test]
    fn an_unread_meter_is_shown_as_not_read() {
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
        let reported = losses(&ledger).text(200);
        let words: Vec<&str> = reported.split_whitespace().collect();
        let reported = words.join(" ");
        for requested in [
            "3.0 % 30 between the generator's port and the receiver's port",
            "not read the DUT's input",
            "a black box",
        ] {
            assert!(reported.contains(requested), "{reported}");
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
