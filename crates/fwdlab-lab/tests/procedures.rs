//! Tests every procedure on the simulated DUT with known properties: capacity, buffer, delays,
//! times of recovery and reset are measured within the procedure's own resolution, over shapes and
//! seeds.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use fwdlab_engine::sim::Simulation;
use fwdlab_measure::compliance::Conditions;
use fwdlab_measure::procedure::{Procedure, Session};
use fwdlab_measure::remaining::{Capacities, ahead};
use fwdlab_measure::rfc2544::back_to_back::{BackToBack, buffer};
use fwdlab_measure::rfc2544::frame_loss::FrameLoss;
use fwdlab_measure::rfc2544::latency::Latency;
use fwdlab_measure::rfc2544::recovery::Recovery;
use fwdlab_measure::rfc2544::reset::Reset;
use fwdlab_measure::rfc2544::suite::{Plan, Suite, Test};
use fwdlab_measure::rfc2544::throughput::Throughput;
use fwdlab_measure::rfc2544::{Setup, bursts};
use fwdlab_measure::{equilibrium, loaded_latency, mrr, plr, ramp, soak, sweep};
use fwdlab_model::campaign;
use fwdlab_model::campaign::value::{Period, Share};
use fwdlab_model::outcome::{Cost, Found, LatencyMode, Outcome};
use fwdlab_model::procedure::{Answer, Question, Waits};
use fwdlab_model::units::FrameSize;

const SECOND: u64 = 1_000_000_000;

/// Makes all trials on the DUT. Returns the outcomes and the number of trials.
fn run(dut: &str, procedure: impl Procedure + 'static) -> (Vec<Outcome>, u32) {
    let (outcomes, trials) = watched(dut, procedure, |_, _| {});
    (outcomes, trials.len() as u32)
}

fn watched(
    dut: &str,
    procedure: impl Procedure + 'static,
    mut watch: impl FnMut(&Question, &Answer),
) -> (Vec<Outcome>, Vec<bool>) {
    let mut simulation = Simulation::new(dut.parse().unwrap());
    let mut session = Session::new(Box::new(procedure));
    let mut valid = Vec::new();
    while let Some((question, _)) = session.next_trial() {
        let (answer, _) = simulation.answer(&question, 2000);
        watch(&question, &answer);
        valid.push(session.record(&answer).validity.is_valid());
        assert!(valid.len() < 20_000, "it never ends");
    }
    (session.outcomes(), valid)
}

fn one(dut: &str, procedure: impl Procedure + 'static) -> Outcome {
    let (mut outcomes, _) = run(dut, procedure);
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

fn setup(line_rate_pps: f64) -> Setup {
    Setup {
        frame_size: FrameSize::MIN,
        line_rate_pps: Some(line_rate_pps),
        max_load_pps: line_rate_pps,
        conditions: Conditions {
            waits: Waits::default(),
            ..Conditions::met()
        },
    }
}

/// 10 Gbit/s, frames of 64 bytes.
const LINE: f64 = 1e10 / 672.0;

fn throughput_of(
    dut: &str,
    change: impl FnOnce(&mut Setup, &mut Plan),
) -> (Outcome, fwdlab_model::outcome::Throughput) {
    let (mut setup, mut plan) = (setup(LINE), Plan::standard());
    change(&mut setup, &mut plan);
    let outcome = one(dut, Throughput::new(setup, &plan).unwrap());
    match outcome.found.clone() {
        Found::Throughput(found) => (outcome, found),
        other => panic!("{other:?}"),
    }
}

#[test]
fn throughput_finds_the_capacity() {
    for capacity in [2e5, 987_654.0, 1e6, 7.1e6, 1.4e7] {
        for shape in [
            "",
            ",buffer=500",
            ",livelock=0.4",
            ",cores=2,buffer=10",
            ",latency=20us,jitter=5us",
            ",reboot=3s,cost=5ns",
        ] {
            let dut = format!("capacity={capacity}{shape}");
            let (outcome, found) = throughput_of(&dut, |_, _| {});
            // two cores and 2000 flows: the core with more flows decides
            let mut simulation = Simulation::new(dut.parse().unwrap());
            let actual = lossless(&mut simulation);
            let pps = found.throughput_pps.unwrap();
            assert!(
                pps <= actual && actual - pps <= found.resolution_pps * 1.001,
                "{dut}: {pps}, not {actual}"
            );
            assert!(
                outcome.answered && (outcome.verdict == "found" || actual >= LINE),
                "{outcome:?}"
            );
            assert_eq!(outcome.warnings, Vec::<String>::new(), "{dut}");
            assert!((found.percent.unwrap() - 100.0 * pps / LINE).abs() < 1e-9);
        }
    }
}

/// Returns the largest load without loss in a minute, found by brute force from below line rate.
fn lossless(simulation: &mut Simulation) -> f64 {
    let (mut low, mut high) = (0.0, LINE);
    while high - low > 1.0 {
        let middle = (low + high) / 2.0;
        let counts = simulation.trial(&fwdlab_engine::sim::Trial {
            load_pps: middle,
            duration_ns: 60 * SECOND,
            frame_size: FrameSize::MIN,
            flows: 2000,
        });
        if counts.lost() == 0 {
            low = middle
        } else {
            high = middle
        }
    }
    high
}

/// The resolution is relative to the result: a tenth of a percent of line rate is known as
/// precisely as all of it.
#[test]
fn a_slow_dut_is_known_as_well_as_a_fast_one() {
    for capacity in [2e4, 1.5e5, 1.5e6, 1.4e7] {
        let (outcome, found) =
            throughput_of(&format!("capacity={capacity}"), |_, p| p.search_ns = SECOND);
        let pps = found.throughput_pps.unwrap();
        // a hundredth of the full rate is the floor
        let resolution = 0.005 * f64::max(found.lossy_pps.unwrap(), 0.01 * LINE);
        assert!((found.resolution_pps - resolution).abs() < 1e-6);
        assert!(
            pps <= capacity && capacity - pps <= resolution,
            "{outcome:?}"
        );
        // from line rate to 744 frames per second by halving, each trial ended by its first lost
        // frame; and the confirmation
        assert!(outcome.trials <= 17, "{}", outcome.trials);
    }
}

#[test]
fn a_confirmation_at_full_length_catches_what_buffers_hide() {
    // a buffer of 2 million frames passes an excess of 2 Mpps for a second, and of 33 kpps for a
    // minute
    let (outcome, found) =
        throughput_of("capacity=5e6,buffer=2000000", |_, p| p.search_ns = SECOND);
    let pps = found.throughput_pps.unwrap();
    assert!(
        pps <= 5e6 + 2e6 / 60.0 && pps > 5e6 - 2.0 * found.resolution_pps,
        "{pps}"
    );
    assert!(found.confirmations_failed > 0);
    assert!(
        outcome.warnings.iter().any(|w| w.contains("buffers hide")),
        "{outcome:?}"
    );
    // the guiding trials are short, the confirming ones are not: the label is that of the final
    // trials
    assert!(
        outcome
            .compliance
            .shortened
            .iter()
            .all(|s| !s.contains("instead of 60 s"))
    );
    let (outcome, _) = throughput_of("capacity=5e6", |_, p| {
        (p.search_ns, p.final_ns) = (SECOND, 5 * SECOND)
    });
    assert!(
        outcome
            .compliance
            .label()
            .contains("trials of 5 s instead of 60 s"),
        "{outcome:?}"
    );
}

#[test]
fn throughput_at_the_ends() {
    let (outcome, found) = throughput_of("capacity=1e9", |_, _| {});
    assert_eq!(found.throughput_pps, Some(LINE));
    assert_eq!(outcome.verdict, "no loss at line rate");
    assert!(!found.tester_bound);
    let (outcome, found) = throughput_of("capacity=1e9,generator=8Mpps", |setup, _| {
        setup.max_load_pps = 8e6
    });
    assert_eq!(
        (found.throughput_pps, found.tester_bound),
        (Some(8e6), true)
    );
    assert!(outcome.verdict.contains("the tester is the limit"));
    let (outcome, found) = throughput_of("capacity=7.9e6,generator=8Mpps", |setup, _| {
        setup.max_load_pps = 8e6
    });
    assert!(found.tester_bound && outcome.answered, "{outcome:?}");
    let (outcome, found) = throughput_of("capacity=1e6,drop-every=2", |_, _| {});
    assert_eq!((found.throughput_pps, outcome.answered), (None, false));
    assert!(
        outcome.verdict.contains("lost at every load"),
        "{outcome:?}"
    );
    // trials end with the first lost frame and report it
    let mut early = 0;
    let (_, valid) = watched(
        "capacity=1e6",
        Throughput::new(setup(LINE), &Plan::standard()).unwrap(),
        |question, answer| {
            assert_eq!(answer.ended_early, answer.frames_lost() > 0);
            early +=
                u32::from(answer.ended_early && answer.duration_ns < question.duration_ns() / 100);
        },
    );
    assert!(early >= 3 && valid.iter().all(|valid| *valid));
}

#[test]
fn invalid_trials_are_repeated_and_a_standard_is_claimed_only_if_met() {
    let machine = || {
        let setup = Setup {
            conditions: Conditions::met(),
            ..setup(LINE)
        };
        Throughput::new(setup, &Plan::standard()).unwrap()
    };
    let (steady, _) = run("capacity=4e6", machine());
    assert_eq!(steady[0].compliance.label(), "RFC 2544 §26.1 throughput");
    let (flaps, valid) = watched("capacity=4e6,flap=3", machine(), |_, _| {});
    assert_eq!(
        valid.iter().filter(|valid| !**valid).count(),
        valid.len() / 3
    );
    assert_eq!(flaps[0].found, steady[0].found);
    let (never, valid) = watched("capacity=4e6,flap=1", machine(), |_, _| {});
    assert_eq!(valid, [false; 3]);
    assert!(never[0].verdict.contains("3 trials") && never[0].verdict.contains("went down"));
    assert!(!never[0].answered && never[0].trials == 0);
}

#[test]
fn latency_in_both_modes() {
    let latency = |mode, throughput_pps, percents: &[f64]| {
        let plan = Plan {
            latency_mode: mode,
            latency_percents: percents.to_vec(),
            ..Plan::standard()
        };
        Latency::new(setup(LINE), throughput_pps, &plan).unwrap()
    };
    let dut = "capacity=1e6,latency=20us,jitter=2us,seed=3";
    let measured = |mode, percents: &[f64]| {
        let outcome = one(dut, latency(mode, 9e5, percents));
        assert!(outcome.answered, "{outcome:?}");
        match outcome.found {
            Found::Latency(found) => (found.points, outcome.trials),
            other => panic!("{other:?}"),
        }
    };
    let (points, trials) = measured(LatencyMode::Rfc2544, &[100.0]);
    let found = points[0].latency_ns.unwrap();
    assert_eq!((trials, found.repetitions), (20, 20));
    // mean of twenty exponential values with mean 2 us: standard error 0.45 us
    assert!((found.mean - 22_000.0).abs() < 4.0 * 450.0, "{found:?}");
    let (points, trials) = measured(LatencyMode::Rfc8219, &[100.0, 50.0, 10.0]);
    assert_eq!((trials, points.len()), (60, 3));
    for point in points {
        assert!(point.repetitions.iter().all(|delays| delays.frames == 500));
        // the median of 500: ln 2 of the mean, standard error 2 us / sqrt(500); the median of
        // twenty is better still
        let typical = point.typical_ns.unwrap();
        assert!(
            (typical.median - (20_000.0 + 2000.0 * 2f64.ln())).abs() < 90.0,
            "{typical:?}"
        );
        assert!(typical.p1 <= typical.median && typical.median <= typical.p99);
        // 99.9 % of 500 is their largest: 20 us + 2 us * (ln 500 + 0.58)
        let worst = point.worst_case_ns.unwrap();
        assert!((worst.median - 33_600.0).abs() < 2000.0, "{worst:?}");
    }
    let none = one(dut, latency(LatencyMode::Rfc8219, 0.0, &[100.0]));
    assert!(none.verdict.contains("not applicable"), "{none:?}");
    // at an overload it is the buffer's delay, and reported as such
    let over = latency(LatencyMode::Rfc8219, 2e6, &[100.0]);
    let outcome = one("capacity=1e6,buffer=1000,latency=20us", over);
    assert!(outcome.warnings[0].contains("full buffer"), "{outcome:?}");
}

#[test]
fn frame_loss_goes_down_until_two_loads_are_clean() {
    let curve = |dut: &str, step: f64| {
        let plan = Plan {
            loss_step_percent: step,
            ..Plan::standard()
        };
        let outcome = one(dut, FrameLoss::new(setup(1e6), &plan).unwrap());
        match outcome.found.clone() {
            Found::FrameLoss(found) => (outcome, found),
            other => panic!("{other:?}"),
        }
    };
    let (outcome, found) = curve("capacity=725000", 10.0);
    let percents: Vec<f64> = found.points.iter().map(|point| point.percent).collect();
    assert_eq!(percents, [100.0, 90.0, 80.0, 70.0, 60.0]);
    for point in &found.points {
        let actual = (1.0 - 725_000.0 / point.load_pps).max(0.0) * 100.0;
        assert!((point.loss_percent - actual).abs() < 1e-3, "{point:?}");
    }
    assert!(outcome.answered && found.ended_clean && found.collapse_ratio == Some(1.0));
    assert_eq!(curve("capacity=725000", 5.0).1.points.len(), 8);
    // a clean load between lossy ones does not end it
    let (_, found) = curve("capacity=1e9,burst=10/3", 10.0);
    assert_eq!(found.points.len(), 2);
    let (outcome, found) = curve("capacity=5e5,livelock=0.5", 10.0);
    assert!(
        (found.collapse_ratio.unwrap() - 0.5).abs() < 0.01,
        "{found:?}"
    );
    assert!(outcome.warnings[0].contains("livelock"));
    let (outcome, found) = curve("capacity=1e6,drop-every=2", 10.0);
    // ten steps, then halves down to 0.16 %
    assert!(!outcome.answered && found.points.len() == 16);
    assert!(
        outcome
            .compliance
            .label()
            .contains("no two loads without loss")
    );
    // a load that the generator did not offer is not clean, though it lost nothing
    let (outcome, found) = curve("capacity=1e6,generator=850kpps", 10.0);
    assert_eq!(found.points.len(), 2);
    let words = "the generator did not reach 2 of the loads";
    assert!(outcome.warnings[0].contains(words), "{outcome:?}");
    assert!(outcome.answered);
    // loads that the tester cannot offer are left out and reported
    let mut limited = setup(1e6);
    limited.max_load_pps = 850_000.0;
    let outcome = one(
        "capacity=725000,generator=850kpps",
        FrameLoss::new(limited, &Plan::standard()).unwrap(),
    );
    assert!(
        outcome.compliance.label().contains("does not reach 100 %"),
        "{outcome:?}"
    );
}

#[test]
fn back_to_back_finds_the_buffer() {
    let searched = |throughput_pps: f64, burst_repetitions: u32, burst_ns: u64| {
        let plan = Plan {
            burst_repetitions,
            burst_ns,
            ..Plan::standard()
        };
        BackToBack::new(setup(LINE), (throughput_pps, None), &plan).unwrap()
    };
    let measured = |dut: &str, throughput_pps: f64, burst_ns: u64| {
        let outcome = one(dut, searched(throughput_pps, 5, burst_ns));
        match outcome.found.clone() {
            Found::BackToBack(found) => (outcome, found),
            other => panic!("{other:?}"),
        }
    };
    // a burst of more than 10 ms that loses a frame ends early, and is reported so
    watched(
        "capacity=1e6,buffer=1000",
        searched(1e6, 1, 2 * SECOND),
        |question, answer| {
            let lossy = answer.frames_lost() > 0;
            assert_eq!(
                answer.ended_early,
                lossy && question.duration_ns() > SECOND / 100
            );
        },
    );
    for capacity in [1e6, 5e6, 1.2e7] {
        for buffer in [1000, 26_000, 400_000] {
            let dut = format!("capacity={capacity},buffer={buffer}");
            let (outcome, found) = measured(&dut, capacity, 2 * SECOND);
            let size = found.buffer_frames.unwrap();
            assert!(
                (size / f64::from(buffer) - 1.0).abs() < 0.01,
                "{dut}: {size}"
            );
            assert_eq!(found.burst_frames.unwrap().stdev, Some(0.0));
            assert!(
                outcome.answered
                    && outcome
                        .compliance
                        .label()
                        .contains("5 repetitions instead of 50")
            );
        }
    }
    // check values of docs/methodology.md, "Back-to-back frames"
    let (implied, corrected, _) = buffer(26_000.0, LINE, 1e7);
    assert!((implied - 1.7472e-3).abs() < 5e-8 && (corrected - 0.57308e-3).abs() < 5e-9);
    let verdict = |dut: &str, throughput: f64, burst_ns: u64| {
        let (outcome, found) = measured(dut, throughput, burst_ns);
        assert!(!outcome.answered && found.buffer_frames.is_none());
        outcome.verdict
    };
    assert!(
        verdict("capacity=1e9", LINE, 2 * SECOND)
            .contains("not applicable: the DUT forwards everything")
    );
    assert!(verdict("capacity=1e6", 0.0, 2 * SECOND).contains("not applicable: no throughput"));
    // 5000 frames
    let short_ns = (5000.5 / LINE * 1e9) as u64;
    assert!(verdict("capacity=1e6,buffer=9000", 1e6, short_ns).contains("raise the limit"));
}

/// Measures the throughput, and the buffer that is derived from it, as the suite does.
fn suite_buffer(dut: &str, bytes: u16, plan: Plan) -> (Outcome, fwdlab_model::outcome::BackToBack) {
    let size = FrameSize::new(bytes).unwrap();
    let line = 1e10 / (8.0 * f64::from(bytes + 20));
    let setup = Setup {
        frame_size: size,
        ..setup(line)
    };
    let plan = Plan {
        tests: vec![Test::BackToBack],
        ..plan
    };
    let (outcomes, _) = run(
        &format!("{dut},link=10Gbps"),
        Suite::new(vec![setup], plan).unwrap(),
    );
    let outcome = outcomes.into_iter().next_back().unwrap();
    match outcome.found.clone() {
        Found::BackToBack(found) => (outcome, found),
        other => panic!("{other:?}"),
    }
}

/// The error of the throughput is amplified by 1 / (1 - T/L): the buffer is an interval that
/// contains the true value.
#[test]
fn the_interval_of_a_buffer_holds_it_near_the_line_too() {
    for share in [0.1, 0.5, 0.9, 0.97] {
        for buffer in [0u32, 17, 1000, 26_000] {
            for (bytes, line) in [(64u16, LINE), (512, 1e10 / 4256.0)] {
                let dut = format!("capacity={:.3},buffer={buffer}", share * line);
                for plan in [Plan::short(), Plan::standard()] {
                    let (outcome, found) = suite_buffer(&dut, bytes, plan);
                    let actual = f64::from(buffer);
                    let (low, high) = (
                        found.buffer_min_frames.unwrap(),
                        found.buffer_max_frames.unwrap(),
                    );
                    assert!(
                        outcome.answered && low <= actual && actual <= high,
                        "{dut}, {bytes} bytes: {actual} is not in {low} to {high}"
                    );
                    // to 1 % by the throughput, and a frame or two by the burst; and what a buffer
                    // hides in five seconds
                    let hidden = f64::from(buffer) / (5.0 * line * (1.0 - share));
                    assert!(
                        high - low <= 2.1 + actual * (0.012 + 1.1 * hidden),
                        "{dut}, {bytes} bytes: {low} to {high}"
                    );
                    let output = found.buffer_frames.unwrap();
                    assert!(low <= output && output <= high, "{found:?}");
                }
            }
        }
    }
}

#[test]
fn no_buffer_is_a_result() {
    for bytes in [64, 128, 1518] {
        let (outcome, found) = suite_buffer("capacity=5e5", bytes, Plan::short());
        assert!(outcome.answered, "{bytes}: {outcome:?}");
        assert_eq!(found.buffer_min_frames, Some(0.0), "{bytes}: {found:?}");
        assert!(found.buffer_max_frames.unwrap() < 2.1, "{bytes}: {found:?}");
    }
}

#[test]
fn recovery_and_reset_times_are_measured() {
    let plan = Plan {
        reset: Some("OS reboot".into()),
        ..Plan::standard()
    };
    for recovery_ms in [0u64, 20, 250, 4000] {
        for capacity in [1e6, 8e6] {
            let dut = format!("capacity={capacity},buffer=300,recovery={recovery_ms}ms");
            let outcome = one(&dut, Recovery::new(setup(LINE), capacity, &plan).unwrap());
            let Found::Recovery(found) = &outcome.found else {
                panic!("{outcome:?}")
            };
            let mean = found.recovery_s.unwrap().mean;
            let actual = recovery_ms as f64 / 1e3;
            assert!(
                (mean - actual).abs() <= found.resolution_s.unwrap(),
                "{dut}: {mean}"
            );
            assert_eq!(found.repetitions_s.len(), 10);
        }
    }
    let verdict = |dut: &str, throughput: f64| {
        let recovery = Recovery::new(setup(LINE), throughput, &plan);
        one(dut, recovery.unwrap()).verdict
    };
    assert!(verdict("capacity=1e6,recovery=2min", 1e6).contains("did not recover"));
    assert!(verdict("capacity=1e9", LINE).contains("cannot overload"));
    assert!(verdict("capacity=1e9", 1e6).contains("not an overload"));

    for reboot in [2u64, 45, 120] {
        let dut = format!("capacity=1e6,buffer=100,reboot={reboot}s");
        let outcome = one(&dut, Reset::new(setup(LINE), 1e5, &plan).unwrap());
        let Found::Reset(found) = &outcome.found else {
            panic!("{outcome:?}")
        };
        for time in [found.by_loss_s.unwrap(), found.by_timestamp_s.unwrap()] {
            assert!((time.mean - reboot as f64).abs() < 1e-4 && time.repetitions == 5);
        }
        assert!(outcome.warnings.is_empty(), "{outcome:?}");
    }
    // it comes back slowly: additional losses make the figures differ
    let reset = || Reset::new(setup(LINE), 9e5, &plan).unwrap();
    let outcome = one("capacity=1e6,reboot=5s,slow-start=10s", reset());
    assert!(
        outcome
            .warnings
            .iter()
            .any(|w| w.contains("different times")),
        "{outcome:?}"
    );
    let outcome = one("capacity=1e6,reboot=1h", reset());
    assert!(outcome.verdict.contains("did not come back"), "{outcome:?}");
}

#[test]
fn a_ramp_shows_where_loss_begins_and_a_collapse() {
    let ramped = |dut: &str, up_down: bool| {
        let p = campaign::Ramp {
            up_down,
            ..campaign::Ramp::default()
        };
        let ramp = ramp::Ramp::new(FrameSize::MIN, LINE, p).unwrap();
        let resolution = ramp.resolution_pps();
        let outcome = one(dut, ramp);
        match outcome.found.clone() {
            Found::Ramp(found) => (outcome, found, resolution),
            other => panic!("{other:?}"),
        }
    };
    for capacity in [1e6, 6.5e6, 1.3e7] {
        for shape in [
            "",
            ",buffer=1000",
            ",jitter=5us",
            ",loss=1e-5",
            ",recovery=50ms",
        ] {
            let (outcome, found, resolution) = ramped(&format!("capacity={capacity}{shape}"), true);
            let up = found.up.saturation_pps.unwrap();
            assert!((up - capacity).abs() <= 2.0 * resolution, "{shape}: {up}");
            assert!(
                (found.max_ok_pps - capacity).abs() <= 2.0 * resolution,
                "{found:?}"
            );
            let down = found.down.unwrap().saturation_pps.unwrap();
            assert!(
                (down - capacity).abs() <= 2.0 * resolution,
                "{shape}: {down}"
            );
            assert!(
                outcome.answered && outcome.warnings.is_empty(),
                "{outcome:?}"
            );
            assert_eq!(found.samples.len(), 1260);
        }
    }
    for (dut, bound) in [
        ("capacity=1.47e7", true),
        ("capacity=1.4e7", false),
        ("capacity=8.9e6,generator=9Mpps", true),
        ("capacity=1e9,generator=9Mpps", true),
        ("capacity=8e6,generator=9Mpps", false),
    ] {
        let (outcome, found, _) = ramped(dut, false);
        assert_eq!(found.tester_bound, bound, "{dut}: {outcome:?}");
        assert_eq!(outcome.verdict == "found", !bound, "{outcome:?}");
    }
    let (outcome, found, _) = ramped("capacity=5e6,livelock=0.3", false);
    assert!(found.collapse_ratio.unwrap() < 0.5 && outcome.warnings[0].contains("livelock"));
    let (outcome, _, _) = ramped("capacity=1e9", false);
    assert!(outcome.verdict.contains("may forward more") && outcome.answered);
    let (outcome, _, _) = ramped("capacity=1e6,drop-every=2", false);
    assert!(
        outcome.verdict.contains("lost at every load"),
        "{outcome:?}"
    );
    let (outcome, _, _) = ramped("capacity=1e9,generator=9Mpps", false);
    assert!(
        outcome
            .verdict
            .contains("above, the generator did not reach its load"),
        "{outcome:?}"
    );
}

/// A coarse ramp determines the capacity to within a step, a fine one to within the threshold: both
/// intervals contain the true value.
#[test]
fn the_intervals_of_a_ramp_hold_the_truth() {
    let mut random = fwdlab_measure::order::Random::new(11);
    let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut found_edges = 0;
    for n in 0..300 {
        let target = 10f64.powf(5.0 + 2.0 * unit()).round();
        let capacity = (target * (0.05 + 1.1 * unit())).round();
        let buffer = [0.0, 0.0, 1.0, 100.0, 1e-3 * capacity, 0.05 * capacity][n % 6].round();
        let more = ["", ",livelock=0.3", ",collapse=0.5"][n % 3];
        let up_down = n % 2 == 1;
        let sample_ns = [SECOND / 10, SECOND / 2, SECOND, 2 * SECOND][n % 4];
        // ten samples at least
        let ramp_ns = sample_ns * (10 + (unit() * [10.0, 100.0, 600.0][n % 3]) as u64);
        let p = campaign::Ramp {
            warm_up: Period::seconds(2),
            ramp: Period(Duration::from_nanos(ramp_ns)),
            hold: Period::seconds([0, 10][n / 2 % 2]),
            sample: Period(Duration::from_nanos(sample_ns)),
            up_down,
            threshold: Share([0.001, 0.0001, 0.02][n / 5 % 3]),
            target: None,
        };
        let dut = format!("capacity={capacity},buffer={buffer}{more}");
        let (warm_up_ns, hold_ns) = (p.warm_up.ns(), p.hold.ns());
        let at_rise = |pps: f64| (warm_up_ns as f64 + pps / target * ramp_ns as f64) / 1e9;
        let top_s = (warm_up_ns + ramp_ns + hold_ns) as f64 / 1e9;
        let ramp = ramp::Ramp::new(FrameSize::MIN, target, p.clone());
        let outcome = one(&dut, ramp.unwrap());
        let Found::Ramp(found) = &outcome.found else {
            panic!("{outcome:?}")
        };
        let falls = top_s + (1.0 - capacity / target) * ramp_ns as f64 / 1e9;
        let rises = at_rise(capacity);
        for (edge, moment) in [(Some(&found.up), rises), (found.down.as_ref(), falls)] {
            let Some(edge) = edge else { continue };
            let about = format!("{dut}, {p:?}: {edge:?}");
            if let Some(low) = edge.lower_pps {
                // a frame more or less
                let one = 1e9 / sample_ns as f64;
                assert!(low <= capacity + one, "{about}");
            }
            let Some(upper) = edge.upper_pps else {
                assert!(edge.at_s.is_none(), "{about}");
                continue;
            };
            found_edges += 1;
            assert!(capacity <= upper, "{about}");
            let (from, until) = (edge.from_s.unwrap(), edge.until_s.unwrap());
            // the load rises in steps of a tenth of a second
            assert!(
                from - 0.05 <= moment && moment <= until + 0.05,
                "{moment}, {about}"
            );
        }
    }
    assert!(found_edges > 200, "{found_edges}");
}

/// A DUT that delays every frame by 50 us, and one whose buffer of 1000 frames is full in overload:
/// then a frame waits for all of them.
#[test]
fn delays_over_load_are_those_of_the_dut_or_of_its_full_buffer() {
    let of = |dut: &str, load_pps: f64| {
        let p = campaign::LoadedLatency {
            duration: Period::seconds(1),
            repetitions: 2,
            ..campaign::LoadedLatency::default()
        };
        let latency = loaded_latency::LoadedLatency::new(FrameSize::MIN, load_pps, 10_000, p);
        let outcome = one(dut, latency.unwrap());
        assert!(
            outcome.answered && outcome.warnings.is_empty(),
            "{outcome:?}"
        );
        match outcome.found {
            Found::LoadedLatency(found) => found.points,
            other => panic!("{other:?}"),
        }
    };
    let typical_us = |points: &[fwdlab_model::outcome::LoadedPoint]| -> Vec<f64> {
        let typical = points.iter().map(|point| point.typical_ns.unwrap().median);
        typical.map(|ns| (ns / 1e3).round()).collect()
    };
    let points = of("capacity=2e6,latency=50us", 1e6);
    assert_eq!(typical_us(&points), [50.0; 4], "{points:?}");
    assert!(points.iter().all(|point| point.frame_loss_ratio == 0.0));
    // 1.25 million frames into 1 million: a fifth is lost, and the buffer of 1000 frames drains in
    // a millisecond
    let points = of("capacity=1e6,latency=50us,buffer=1000", 1.25e6);
    assert_eq!(typical_us(&points[..2]), [50.0; 2], "{points:?}");
    let full = &points[3];
    assert!((full.frame_loss_ratio - 0.2).abs() < 0.01, "{full:?}");
    let waits_us = typical_us(&points)[3];
    assert!((waits_us / 1050.0 - 1.0).abs() < 0.05, "{full:?}");
}

#[test]
fn mrr_soak_and_equilibrium() {
    let mrr = || mrr::Mrr::new(FrameSize::MIN, LINE, campaign::Mrr::default()).unwrap();
    let outcome = one("capacity=2e6,noise=0.01,seed=5", mrr());
    let Found::Mrr(found) = &outcome.found else {
        panic!("{outcome:?}")
    };
    let rate = found.receive_rate_pps.unwrap();
    assert!((rate.mean / 2e6 - 1.0).abs() < 4.0 * 0.01 / 10f64.sqrt() && rate.repetitions == 10);
    assert!(!found.tester_bound && outcome.warnings.is_empty());
    // more than the output divided by 1.1 must be offered, or the rate is a lower bound
    for (dut, bound) in [
        ("capacity=1e9", true),
        ("capacity=1.4e7", true),
        ("capacity=1.35e7", false),
    ] {
        let outcome = one(dut, mrr());
        assert_eq!(outcome.found.is_tester_bound(), bound, "{dut}: {outcome:?}");
        let says = outcome.verdict.contains("the tester is the limit");
        assert_eq!(says, bound, "{outcome:?}");
    }
    // a load that is not offered gives no value
    let outcome = one("capacity=8e6,generator=9Mpps", mrr());
    assert!(
        !outcome.answered && outcome.figures().is_empty(),
        "{outcome:?}"
    );
    let words = "the generator did not reach the load: it sent 9000000 of 14880952 frames";
    assert!(outcome.verdict.contains(words), "{outcome:?}");

    let soaked = |dut: &str| {
        let soak = soak::Soak::new(FrameSize::MIN, 9.5e5, campaign::Soak::default());
        let outcome = one(dut, soak.unwrap());
        match outcome.found {
            Found::Soak(found) => (outcome.verdict, found),
            other => panic!("{other:?}"),
        }
    };
    let (verdict, found) = soaked("capacity=1e6,jitter=5us");
    assert!(found.passed && verdict.starts_with("passed"), "{verdict}");
    assert_eq!(
        (
            found.longest_lossless_s,
            found.loss_bursts,
            found.samples.len()
        ),
        (1800.0, 0, 1800)
    );
    // 20 % an hour: after a quarter of an hour the load is too high
    let (verdict, found) = soaked("capacity=1e6,drift=-20%/h");
    assert!(!found.passed && verdict.contains("drifts"), "{verdict}");
    assert!((found.longest_lossless_s - 900.0).abs() < 61.0, "{found:?}");
    let trend = found.trend_pps_per_hour.unwrap();
    assert!(trend < 0.0 && trend > -2e5, "{trend}");
    let (verdict, found) = soaked("capacity=1e6,burst=7/1");
    assert!(verdict.contains("loss ratio"), "{verdict}");
    assert!(
        found.frames_lost == 7
            && (1..=7).contains(&found.loss_bursts)
            && found.longest_burst_s >= 1.0
    );

    for capacity in [3e5, 1e6, 6e6, 9.9e6] {
        let p = campaign::Equilibrium::default();
        let outcome = one(
            &format!("capacity={capacity}"),
            equilibrium::Equilibrium::new(FrameSize::MIN, LINE, p).unwrap(),
        );
        let Found::Equilibrium(found) = &outcome.found else {
            panic!("{outcome:?}")
        };
        let rate = found.equilibrium_pps.unwrap();
        // the tolerance of the last comparison, and its final step
        assert!((rate / capacity - 1.0).abs() < 0.021, "{capacity}: {rate}");
        assert!(
            outcome.answered && (found.max_seen_pps.unwrap() - capacity).abs() < 0.02 * capacity
        );
    }
}

#[test]
fn a_soak_finds_the_critical_load_and_reports_a_drift() {
    let p = campaign::Plr {
        duration: Period::seconds(200),
        ..campaign::Plr::default()
    };
    let plr = plr::Plr::new(FrameSize::MIN, (9001.0, LINE), p, 1);
    let outcome = one("capacity=5e6,buffer=1000", plr.unwrap());
    let Found::Plr(found) = &outcome.found else {
        panic!("{outcome:?}")
    };
    let load = found.critical_load_pps.unwrap();
    assert!((load / 5e6 - 1.0).abs() < 0.01, "{found:?}");
    assert!(found.lower_pps.unwrap() <= load && load <= found.upper_pps.unwrap());
    assert!(outcome.answered, "{outcome:?}");
}

#[test]
fn a_sweep_measures_the_cost_of_a_rule() {
    let sweep = |dut: &str, values: &[u64]| {
        let inner: sweep::Inner = Box::new(|_| {
            let p = campaign::Mrr {
                trials: 3,
                ..campaign::Mrr::default()
            };
            Ok(Box::new(mrr::Mrr::new(FrameSize::MIN, LINE, p)?))
        });
        let p = campaign::Sweep {
            parameter: "rules".into(),
            values: values.to_vec(),
            runs: 3,
            apply: None,
            undo: None,
        };
        let sweep = sweep::Sweep::new(FrameSize::MIN, p, 1, inner);
        let outcome = one(dut, sweep.unwrap());
        match outcome.found.clone() {
            Found::Sweep(found) => (outcome, found),
            other => panic!("{other:?}"),
        }
    };
    let values = [0, 1, 5, 10, 25, 50, 100, 200, 500, 1000];
    for (cost_ns, noise) in [(20.0, "0"), (3.0, "0.002"), (100.0, "0.01")] {
        let (outcome, found) = sweep(
            &format!("capacity=1e6,cost={cost_ns}ns,noise={noise},seed=2"),
            &values,
        );
        let Some(Cost::Linear {
            frame_ns,
            unit_ns,
            unit_ns_interval: (low, high),
        }) = found.cost
        else {
            panic!("{found:?}")
        };
        assert!(
            (unit_ns / cost_ns - 1.0).abs() < 0.05 && (frame_ns - 1000.0).abs() < 30.0,
            "{found:?}"
        );
        assert!(
            low - 0.01 <= cost_ns && cost_ns <= high + 0.01,
            "{cost_ns}: {low} to {high}"
        );
        assert!(outcome.answered && found.inner == "mrr");
        assert_eq!(found.points.len(), 10);
        assert_eq!(found.points[0].runs_pps.len(), 3);
        assert_eq!(found.points[0].percent_of_reference, Some(100.0));
    }
    let (_, found) = sweep("capacity=1e6,cliff=100/40%", &values);
    assert!(
        matches!(
            found.cost,
            Some(Cost::Cliff {
                last_before: 100,
                first_after: 200,
                ..
            })
        ),
        "{found:?}"
    );
    let (_, found) = sweep("capacity=1e6,noise=0.005", &values);
    assert!(
        matches!(found.cost, Some(Cost::Constant { .. })),
        "{found:?}"
    );
    let (outcome, _) = sweep("capacity=1e6,cost=20ns,drift=-100%/h", &values);
    assert!(
        outcome
            .warnings
            .iter()
            .any(|w| w.contains("the machine drifts")),
        "{outcome:?}"
    );
}

#[test]
fn the_suite_measures_every_size_and_is_the_same_each_time() {
    let sizes = [64, 128, 512, 1518];
    let setups = || {
        let of = |bytes| {
            let frame_size = FrameSize::new(bytes).unwrap();
            let line = frame_size.line_rate_pps(1e10);
            Setup {
                frame_size,
                line_rate_pps: Some(line),
                max_load_pps: line,
                conditions: Conditions {
                    frame_sizes: sizes.to_vec(),
                    ..Conditions::met()
                },
            }
        };
        sizes.map(of).to_vec()
    };
    let plan = Plan {
        reset: Some("OS reboot".into()),
        ..Plan::short()
    };
    let dut = "capacity=1.5e6,link=10Gbps,buffer=800,latency=15us,jitter=2us,recovery=30ms,reboot=8s,seed=9";
    let (outcomes, trials) = run(dut, Suite::new(setups(), plan.clone()).unwrap());
    assert_eq!(outcomes.len(), sizes.len() * 6);
    for outcome in &outcomes {
        // 1518 bytes fill the line before they fill the DUT
        let fits = outcome.frame_size_bytes.bytes() == 1518;
        let needs_overload = matches!(outcome.found, Found::BackToBack(_) | Found::Recovery(_));
        assert_eq!(outcome.answered, !(fits && needs_overload), "{outcome:?}");
        assert!(!outcome.compliance.is_met());
    }
    let (again, _) = run(dut, Suite::new(setups(), plan.clone()).unwrap());
    assert_eq!(outcomes, again);
    // the estimate is of the right size
    let capacities = Capacities::guess(1.5e6);
    let estimated = ahead(&mut Suite::new(setups(), plan).unwrap(), &capacities).trials;
    assert!(
        estimated.abs_diff(trials) * 10 <= trials,
        "{estimated} of {trials}"
    );
}

#[test]
fn impossible_measurements_are_refused_before_any_traffic() {
    let wrong = |result: Result<Suite, String>, words: &str| {
        let error = result.err().unwrap_or_else(|| panic!("no error: {words}"));
        assert!(error.contains(words), "{error}");
    };
    let suite = |setups: Vec<Setup>, change: &dyn Fn(&mut Plan)| {
        let mut plan = Plan::short();
        change(&mut plan);
        Suite::new(setups, plan)
    };
    let good = || vec![setup(LINE)];
    wrong(suite(vec![], &|_| {}), "no frame size");
    wrong(suite([good(), good()].concat(), &|_| {}), "twice");
    wrong(suite(good(), &|p| p.tests = vec![]), "no test");
    wrong(suite(good(), &|p| p.resolution = 1e-9), "below one frame");
    wrong(
        suite(good(), &|p| p.resolution = 1.5),
        "not finer than the largest load",
    );
    wrong(
        suite(good(), &|p| p.search_ns = 2 * p.final_ns),
        "shorter than those of the search",
    );
    wrong(suite(good(), &|p| p.loss_step_percent = 20.0), "up to 10 %");
    wrong(
        suite(good(), &|p| p.latency_repetitions = 0),
        "one repetition",
    );
    wrong(
        suite(good(), &|p| p.latency_percents = vec![120.0]),
        "at most 100 %",
    );
    wrong(suite(good(), &|p| p.burst_ns = 31 * SECOND), "at most 30 s");
    wrong(
        suite(good(), &|p| p.recovery_repetitions = 0),
        "one repetition",
    );
    wrong(suite(vec![setup(0.0)], &|_| {}), "above 0");
    wrong(suite(vec![setup(f64::INFINITY)], &|_| {}), "at most 1e12");
    assert!(suite(good(), &|p| p.tests = vec![Test::Recovery]).is_ok());
}

/// A burst of n frames takes n/C to forward, and (n-1)/R to send: the difference is the gap. It
/// must fit the buffer, minus what is forwarded while it arrives.
#[test]
fn bursts_find_the_gap_that_the_capacity_needs() {
    for (capacity, buffer, cores) in [
        (1e6, 2000, 1),
        (3e6, 300, 1),
        (1.2e7, 100, 1),
        (2e7, 0, 1),
        (5e5, 5000, 2),
    ] {
        let dut = format!("capacity={capacity},buffer={buffer},cores={cores}");
        let plan = Plan {
            burst_frames: bursts::FRAMES.to_vec(),
            ..Plan::standard()
        };
        let outcome = one(&dut, bursts::Bursty::new(setup(LINE), &plan).unwrap());
        let Found::Bursts(found) = &outcome.found else {
            panic!("{outcome:?}")
        };
        assert!(outcome.answered && found.bursts.len() == 4, "{outcome:?}");
        // two cores: hashing gives one of them a little more than half
        let uneven = if cores == 2 { 0.1 } else { 0.0 };
        for burst in &found.bursts {
            let (n, all) = (f64::from(burst.frames), capacity * f64::from(cores));
            let needs = n * (1.0 - all / LINE);
            let room = f64::from(buffer) * f64::from(cores);
            let actual = (n / all - (n - 1.0) / LINE).max(1.0 / LINE);
            match burst.gap_s {
                Some(gap) if all >= LINE => {
                    assert!((gap * LINE - 1.0).abs() < 1e-9, "{dut}: {burst:?}")
                }
                Some(gap) => {
                    assert!(needs <= room + 1.0, "{dut}: {burst:?} cannot fit");
                    let most =
                        actual * (1.0 + bursts::RESOLUTION) * (1.0 + uneven) + uneven * n / all;
                    // what the buffer hides in a minute
                    let least = actual - room / all / 60.0 * n / all - 1e-9;
                    assert!(
                        least <= gap && gap <= most,
                        "{dut}: {gap}, not {actual}: {burst:?}"
                    );
                }
                None => assert!(needs * (1.0 + uneven) > room, "{dut}: {burst:?} fits"),
            }
        }
    }
}
