//! Runs written by an earlier program, whose only counters were those of a bed of veths: they are
//! read as chains with the same content.
//!
//! The runs in `format-1/` are real: a simulated trial, a trial on the test bed with a rule that
//! drops, and a small `quick`. Their facts were shortened, and the checksums left out. Start with
//! [`old_runs`].

use std::path::Path;

use fwdlab_measure::conservation::{balance, is_settled, objections};
use fwdlab_model::event::EventKind;
use fwdlab_model::loss::{Meter, Stage};
use fwdlab_store::{StoredRun, load};

fn old_runs() -> Vec<StoredRun> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-1");
    let dirs = std::fs::read_dir(root).expect("it is committed");
    let read = |dir: &Path| load(dir).expect("it was written by this program");
    let mut runs: Vec<StoredRun> = dirs
        .map(|dir| read(&dir.expect("it is a directory").path()))
        .collect();
    runs.sort_by(|a, b| a.info.id.cmp(&b.info.id));
    runs
}

#[test]
fn the_ledgers_of_old_runs_follow_from_their_chains() {
    let runs = old_runs();
    assert_eq!(runs.len(), 3);
    for run in &runs {
        assert_eq!(run.problems, [""; 0], "{}", run.info.id);
        assert!(!run.trials.is_empty());
        for trial in &run.trials {
            let counters = &trial.counters;
            let ledger = balance(counters, trial.ledger.frames_intended);
            assert_eq!(ledger, trial.ledger, "{} {}", run.info.id, trial.trial);
            assert!(is_settled(counters) && objections(&ledger, counters).is_empty());
            let stages: Vec<&Stage> = counters.chain.meters.iter().map(|m| &m.stage).collect();
            let known = [
                &Stage::GeneratorPort,
                &Stage::DutInput,
                &Stage::DutOutput,
                &Stage::ReceiverPort,
            ];
            assert_eq!(stages, known);
        }
    }
}

#[test]
fn counts_of_old_runs_are_in_the_right_fields() {
    let runs = old_runs();
    let of = |run: &str, trial: usize| {
        let run = runs.iter().find(|r| r.info.id.contains(run)).unwrap();
        run.trials[trial].clone()
    };
    let simulated = of("f0fr", 0);
    let passed = |meter: &Meter| meter.exactly().unwrap();
    let all: Vec<u64> = simulated.counters.chain.meters.iter().map(passed).collect();
    assert_eq!(all, [1_000_000, 1_000_000, 998_959, 998_959]);
    assert_eq!(simulated.counters.chain.meters[0].frames_dropped(), 200_000);
    // one frame of neighbour discovery reached the receiver
    let bed = of("x9q9", 1);
    assert_eq!(bed.counters.receiver_foreign, 1);
    assert_eq!(
        bed.counters.chain.passed(&Stage::DutOutput),
        Some(bed.counters.receiver_received + 1)
    );
    let [inside] = &bed.ledger.losses[..] else {
        panic!("{:?}", bed.ledger);
    };
    assert_eq!(inside.reasons[0].reason, "netfilter drop");
}

#[test]
fn the_events_of_old_runs_are_read() {
    for run in old_runs() {
        let events = run.events();
        let finished = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::TrialFinished { .. }));
        assert_eq!(finished.count(), run.trials.len(), "{}", run.info.id);
    }
}
