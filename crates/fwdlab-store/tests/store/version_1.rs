//! Runs written by earlier versions are read like today's.

use std::fs;

use fwdlab_model::outcome::{Found, Outcome};
use fwdlab_model::procedure::Purpose;
use fwdlab_model::units::FrameSize;

use super::samples::{finished, info};

/// `fwdlab throughput --engine sim --dut capacity=1e6 --max 3Mpps --size 128` of version 1, with a
/// custom goal.
#[test]
fn a_search_of_version_1_is_an_outcome_with_its_trials() {
    let root = tempfile::tempdir().unwrap();
    let head = finished(&info("2026-11-22-throughput-h5jj", "2026-11-22T16:28:03Z"));
    let run = root.path().join(&head.id);
    fs::create_dir(&run).unwrap();
    let mut head = serde_json::to_value(&head).unwrap();
    head["format"] = 1.into();
    fs::write(run.join("run.json"), head.to_string()).unwrap();
    for (name, text) in [
        ("summary.json", include_str!("version_1/summary.json")),
        ("trials.jsonl", include_str!("version_1/trials.jsonl")),
        ("events.jsonl", ""),
    ] {
        fs::write(run.join(name), text).unwrap();
    }
    let run = fwdlab_store::load(&run).unwrap();
    assert_eq!(run.problems, [""; 0]);
    let outcomes: Vec<&Outcome> = run.summary.as_ref().unwrap().outcomes().collect();
    let [outcome] = outcomes[..] else {
        panic!("{:?}", run.summary);
    };
    assert!(outcome.answered && outcome.verdict == "found");
    let case = &run.summary.as_ref().unwrap().test_cases[0];
    assert!(case.test_case.starts_with("128B-"), "{}", case.test_case);
    assert_eq!(outcome.frame_size_bytes, FrameSize::new(128).unwrap());
    let Found::Mlrsearch(found) = &outcome.found else {
        panic!("{outcome:?}");
    };
    let lower = found.goals[0].relevant_lower_bound_pps.unwrap();
    assert_eq!(lower.round(), 977_821.0);
    assert_eq!(run.trials.len(), 8);
    let first = run.trials[0].asked.as_ref().unwrap();
    assert_eq!(first.question.purpose, Purpose::WarmUp);
    for (trial, step) in run.trials[1..].iter().zip(&found.steps) {
        let requested = trial.asked.as_ref().unwrap();
        assert_eq!(requested.question.purpose, Purpose::Search);
        assert_eq!(requested.question.peak_pps(), step.load_pps);
        let (answer, ledger) = (&requested.answer, &trial.ledger);
        assert_eq!(answer.frames_lost(), ledger.frames_lost);
        assert_eq!(answer.duration_ns, 1_000_000_000);
        assert!(!requested.evaluation.is_empty() && !requested.question.reason.is_empty());
    }
    // it is a figure to compare, and its trials are not
    let series = run.series();
    let reported: Vec<_> = series
        .iter()
        .map(|s| (s.metric.as_str(), s.values.len()))
        .collect();
    assert_eq!(reported, [("goal-1", 1)]);
    assert_eq!(series[0].labels["frame_size_bytes"], "128");
}
