//! What a search costs of our own time: a full NDR and PDR search as FD.io CSIT makes it, and one step of it.
//!
//! The DUT is one comparison, so that what is measured is the search. `docs/throughput.md` has the figures.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use measure::mlr::{Question, Search, typed};

/// Trials of the search below, the warm-up included: the check value of the field's own implementation.
const TRIALS: u64 = 36;

/// Searches a DUT that forwards a million frames per second; returns how many trials that took.
fn search(question: &Question) -> u64 {
    let mut search = Search::new(question).expect("a right question");
    let mut trials = 0;
    while let Some(trial) = search.next_trial() {
        let loss = 1.0 - (1e6 / trial.load_pps).min(1.0);
        search.record(black_box(loss), trial.duration_ns);
        trials += 1;
    }
    trials
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
    assert_eq!(search(&question), TRIALS);
    let mut group = c.benchmark_group("mlrsearch");
    group.throughput(Throughput::Elements(TRIALS));
    group.bench_function("ndr+pdr", |b| b.iter(|| search(black_box(&question))));
    group.finish();
}

criterion_group!(benches, ndr_and_pdr);
criterion_main!(benches);
