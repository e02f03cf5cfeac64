//! What is read equals what was written, for any values.

use fwdlab_model::event::{EventKind, RebuildRecord};
use fwdlab_model::loss::{Counters, Ledger, Loss, Place, Reason};
use fwdlab_model::result::{RunInfo, Stratum, TrialRecord, Validity};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_store::{RunWriter, load};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::samples::{event, finished, info, rebuild, summary, trial};

const ID: &str = "2026-11-21-quick-7f3k";

/// Any number that has a JSON form.
fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

/// Any text, including line ends and control characters.
fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..8).prop_map(String::from_iter)
}

fn reasons() -> impl Strategy<Value = Vec<Reason>> {
    vec(
        (text(), any::<u64>()).prop_map(|(reason, frames)| Reason { reason, frames }),
        0..3,
    )
}

fn ledger() -> impl Strategy<Value = Ledger> {
    let place = prop_oneof![
        Just(Place::DutInput),
        Just(Place::Dut),
        Just(Place::Receiver)
    ];
    let loss =
        (place, any::<u64>(), text(), reasons()).prop_map(|(place, frames, counter, reasons)| {
            Loss {
                place,
                frames,
                counter,
                reasons,
            }
        });
    (
        any::<Option<u64>>(),
        any::<u64>(),
        any::<i64>(),
        vec(loss, 0..3),
    )
        .prop_map(|(intended, sent, lost, losses)| Ledger {
            frames_intended: intended,
            frames_beside: 0,
            frames_sent: sent,
            frames_lost: lost,
            losses,
            ..Ledger::default()
        })
}

fn stream() -> impl Strategy<Value = Stream> {
    let version = prop_oneof![Just(IpVersion::Ipv4), Just(IpVersion::Ipv6)];
    (version, 84..=1518_u16, 1..=60_000_u32).prop_map(|(version, size, flows)| {
        Stream::new(version, FrameSize::new(size).unwrap(), flows).unwrap()
    })
}

fn any_trial() -> impl Strategy<Value = TrialRecord> {
    (
        (text(), stream(), ledger(), option::of(reasons())),
        (
            number(),
            option::of(number()),
            option::of(number()),
            number(),
        ),
        (any::<u32>(), any::<bool>(), any::<u64>(), vec(text(), 0..3)),
    )
        .prop_map(|(what, numbers, rest)| TrialRecord {
            test_case: what.0,
            stream: what.1,
            ledger: what.2,
            counters: Counters {
                receiver_late: rest.2,
                drop_reasons: what.3,
                ..Counters::default()
            },
            offered_load_pps: numbers.0,
            not_saturated: false,
            intended_load_pps: numbers.1,
            quiet: Stratum {
                windows: rest.0,
                forwarding_rate_pps: numbers.2,
            },
            duration_s: numbers.3,
            control: rest.1,
            validity: Validity { reasons: rest.3 },
            ..trial(rest.0)
        })
}

fn any_rebuild() -> impl Strategy<Value = RebuildRecord> {
    (
        any::<u32>(),
        vec(any::<u32>(), 0..4),
        vec(number(), 0..4),
        any::<u64>(),
        vec(ledger(), 0..3),
    )
        .prop_map(|(number, places, numbers, sent, ledgers)| RebuildRecord {
            places,
            forwarding_rate_pps: numbers,
            frames_sent: sent,
            ledgers,
            ..rebuild(number)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_come_back_as_they_were(
        trials in vec(any_trial(), 0..4),
        rebuilds in vec(any_rebuild(), 0..4),
        seed in any::<u64>(),
        words in vec(text(), 0..4),
        rate in option::of(number()),
    ) {
        let root = tempfile::tempdir().unwrap();
        let info = RunInfo { seed, command_line: words, ..info(ID, "2026-11-21T09:00:00Z") };
        let mut summary = summary(ID);
        summary.test_cases[0].figures[0].interval_half_width = rate;
        let mut run = RunWriter::create(root.path(), &info).unwrap();
        let mut events = vec![event(0, EventKind::RunStarted {
            format: fwdlab_model::version::EVENT_FORMAT,
            info: Box::new(info.clone()),
            estimate_s: 60.0,
            guessed: false,
            steps: 3,
        })];
        for record in trials.iter().cloned().map(Box::new) {
            events.push(event(1, EventKind::TrialFinished { record }));
        }
        for record in rebuilds.iter().cloned().map(Box::new) {
            events.push(event(2, EventKind::RebuildFinished { record }));
        }
        events.push(event(3, EventKind::RunFinished { summary: Box::new(summary.clone()) }));
        for event in &events {
            run.event(event).unwrap();
        }
        for record in &trials {
            run.trial(record).unwrap();
        }
        for record in &rebuilds {
            run.trial(record).unwrap();
        }
        run.finish(&finished(&info), Some(&summary), None).unwrap();

        let stored = load(&root.path().join(ID)).unwrap();
        prop_assert_eq!(&stored.problems, &Vec::<String>::new());
        prop_assert_eq!(stored.events(), events);
        prop_assert_eq!(stored.info, finished(&info));
        prop_assert_eq!(stored.summary, Some(summary));
        prop_assert_eq!(stored.trials, trials);
        prop_assert_eq!(stored.rebuilds, rebuilds);
    }
}
