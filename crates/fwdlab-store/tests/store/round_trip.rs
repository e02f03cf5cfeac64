//! What is read equals what was written, for any values.

use fwdlab_model::event::{EventKind, RebuildRecord};
use fwdlab_model::loss::{Counters, Ledger, Loss, Place, Reason};
use fwdlab_model::management::{Management, Requests};
use fwdlab_model::probe::ApartStratum;
use fwdlab_model::procedure::{Answer, Asked, Delays, Purpose, Question};
use fwdlab_model::result::{Gap, RunInfo, StallPolicy, Stratum, TrialRecord, Validity};
use fwdlab_model::test_case::{Enough, Stopped};
use fwdlab_model::threshold::Judged;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_store::{RunWriter, load};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::samples::{event, finished, info, rebuild, summary, trial};

const ID: &str = "2026-11-21-quick-7f3k";

/// A value whose fields have their former names equals the one that was stored.
fn assert_read_by_former_names<T>(value: &T, names: &[(&str, &str)])
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let mut json = serde_json::to_string(value).unwrap();
    for (now, former) in names {
        let [now, former] = [now, former].map(|name| format!("\"{name}\""));
        assert!(json.contains(&now), "{now}: {json}");
        json = json.replace(&now, &former);
    }
    assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *value);
}

/// Runs of version 0.2.0 and earlier have other names of fields.
#[test]
fn fields_with_their_former_names_are_read() {
    let mut record = trial(1);
    record.ledger.frames_additional = 1;
    record.counters.generator_additional = 2;
    record.other_states = vec![ApartStratum {
        slowed: true,
        round_trip_ns: Vec::new(),
        moved: false,
        stratum: Stratum::default(),
    }];
    let delays = Delays {
        stalled_frames: 3,
        longest_stall_ns: 4,
        ..Delays::default()
    };
    let answer = Answer {
        frames_additional: 5,
        delays: Some(delays),
        ..Answer::default()
    };
    record.asked = Some(Box::new(Asked {
        question: Question::constant(FrameSize::MIN, 1e6, 1, Purpose::Measure, "a reason"),
        answer,
        evaluation: "a verdict".into(),
        latency_log: None,
    }));
    assert_read_by_former_names(
        &record,
        &[
            ("stall_policy", "hold_ups"),
            ("skip", "forgive"),
            ("other_states", "apart"),
            ("frames_additional", "frames_beside"),
            ("generator_additional", "generator_beside"),
            ("stalled_frames", "held_up_frames"),
            ("longest_stall_ns", "held_up_max_ns"),
            ("evaluation", "says"),
        ],
    );
    assert_read_by_former_names(&StallPolicy::CatchUp, &[("catch-up", "make-up")]);
    let gap = Gap {
        from: String::new(),
        to: String::new(),
        after: 2,
        discarded: 1,
    };
    assert_read_by_former_names(&gap, &[("discarded", "cut_off")]);
    assert_read_by_former_names(&Judged::new("x".into()), &[("inconclusive", "blind")]);
    let stopped = Stopped {
        why: Enough::Stopped,
        iterations: 3,
        figure: String::new(),
        half_width_percent: None,
        requested_percent: 1.0,
    };
    let names = [
        ("requested_percent", "wanted_percent"),
        ("stopped", "broken_off"),
    ];
    assert_read_by_former_names(&stopped, &names);
    let requests = Requests {
        timeout_ns: 1,
        ..Requests::default()
    };
    assert_read_by_former_names(&requests, &[("timeout_ns", "patience_ns")]);
    let management = Management {
        carries_pps: None,
        every_s: 1.0,
        timeout_s: 2.0,
        loads: Vec::new(),
        requests: Vec::new(),
    };
    assert_read_by_former_names(&management, &[("timeout_s", "patience_s")]);
}

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
            frames_additional: 0,
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
