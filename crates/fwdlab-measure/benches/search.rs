//! The computing time of procedures: a full NDR and PDR search as in FD.io CSIT, on a steady and on
//! a noisy DUT, and the fits of a PLRsearch of half an hour.
//!
//! The DUT is only a comparison and a random number, so the procedure dominates. The figures are in
//! `docs/reference/ndr.md` and `docs/reference/rfc2544.md`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fwdlab_measure::mlr::{Question, Search, typed};
use fwdlab_measure::order::Random;
use fwdlab_measure::plr::Plr;
use fwdlab_measure::procedure::Procedure;
use fwdlab_model::campaign;
use fwdlab_model::procedure::Answer;
use fwdlab_model::units::FrameSize;

/// Trials of the search below, including the warm-up: the same number as the reference
/// implementation.
const TRIALS: u64 = 36;

/// Searches a DUT that forwards a million frames per second, give or take this share from trial to
/// trial; returns the number of trials.
fn search(question: &Question, noise: f64) -> u64 {
    let mut search = Search::new(question).expect("a right question");
    let mut random = Random::new(1);
    let mut trials = 0;
    while let Some(trial) = search.next_trial() {
        let capacity = 1e6 * (1.0 + noise * (unit(&mut random) - 0.5));
        let loss = 1.0 - (capacity / trial.load_pps).min(1.0);
        search.record(black_box(loss), trial.duration_ns);
        trials += 1;
    }
    trials
}

fn unit(random: &mut Random) -> f64 {
    random.next_u64() as f64 / u64::MAX as f64
}

fn ndr_and_pdr(c: &mut Criterion) {
    let goals = typed::parse("ndr,pdr").expect("presets");
    let question = Question {
        goals: goals.into_iter().map(|named| named.goal).collect(),
        min_load_pps: 9001.0,
        max_load_pps: 14_880_952.0,
        warm_up_ns: 1_000_000_000,
        time_limit_ns: u64::MAX,
    };
    assert_eq!(search(&question, 0.0), TRIALS);
    let mut group = c.benchmark_group("mlrsearch");
    for (name, noise) in [("ndr+pdr", 0.0), ("ndr+pdr, noisy DUT", 0.02)] {
        group.throughput(Throughput::Elements(search(&question, noise)));
        group.bench_function(name, |b| {
            b.iter(|| search(black_box(&question), noise));
        });
    }
    group.finish();
}

/// Half an hour of trials of a DUT that begins to lose frames at a million per second; returns
/// their number.
fn soak() -> u64 {
    let mut random = Random::new(7);
    let loads_pps = (9001.0, 14_880_952.0);
    let plr = Plr::new(FrameSize::MIN, loads_pps, campaign::Plr::default(), 1);
    let mut plr = plr.expect("right parameters");
    let mut trials = 0;
    while let Some(question) = plr.next_trial() {
        let (load, seconds) = (question.peak_pps(), question.duration_ns() as f64 / 1e9);
        // the stretch function of docs/methodology.md, "Soak and PLRsearch", and a geometric number
        // of lost frames
        let lost_pps = 2e4 * ((load - 1e6) / 2e4).exp().ln_1p();
        let lost = -unit(&mut random).max(1e-300).ln() * lost_pps.min(load) * seconds;
        let sent = question.frames();
        plr.record(
            &question,
            &Answer {
                frames_intended: sent,
                frames_sent: sent,
                frames_received: sent - (lost as u64).min(sent),
                duration_ns: question.duration_ns(),
                ..Answer::default()
            },
        );
        trials += 1;
    }
    trials
}

fn critical_load(c: &mut Criterion) {
    let mut group = c.benchmark_group("plrsearch");
    group.sample_size(10);
    group.throughput(Throughput::Elements(soak()));
    group.bench_function("30 minutes", |b| b.iter(soak));
    group.finish();
}

criterion_group!(benches, ndr_and_pdr, critical_load);
criterion_main!(benches);
