//! Readings of the machine's probes: they are stored with everything that they judge, and every
//! trial of every procedure is judged once. Start with [`windows_carry_what_the_probes_read`].

use std::fs;

use serde_json::Value;

use crate::support::{Lab, TINY, count, json_lines, list, number, root, skipped};

const NO_DISTANCE: &str = "no distance could be read: one CPU, or the other one was never free";

/// Returns the number of windows of a trial, over all strata.
fn judged(trial: &Value) -> u64 {
    let apart = trial["other_states"].as_array();
    count(&trial["quiet"]["windows"])
        + count(&trial["contended"]["windows"])
        + apart.map_or(0, |all| all.iter().map(|s| count(&s["windows"])).sum())
}

/// Returns the distances in the readings; fails on a reading without a speed.
fn distances<'a>(readings: impl IntoIterator<Item = &'a Value>) -> Vec<f64> {
    let of = |reading: &Value| {
        assert!(number(&reading["additions_per_ns"]) > 0.0, "{reading}");
        let distances = reading["distances_ns"].as_array();
        distances.map_or_else(Vec::new, |all| all.iter().map(number).collect())
    };
    readings.into_iter().flat_map(of).collect()
}

#[test]
fn trials_of_procedures_carry_what_the_probes_read() {
    const TEST: &str = "trials_of_procedures_carry_what_the_probes_read";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let document = lab.json(&[
        "trial", "--size", "64", "--flows", "10", "--load", "10kpps", "--max", "20kpps", "--for",
        "200ms",
    ]);
    let run = lab.only_run();
    let trials = json_lines(&run.join("trials.jsonl"));
    assert!(!trials.is_empty());
    for trial in &trials {
        let probes = list(&trial["probes"]);
        assert_eq!(probes.len(), 2, "before and after: {trial}");
        assert_eq!(judged(trial), 1, "{trial}");
    }
    let read = distances(trials.iter().flat_map(|trial| list(&trial["probes"])));
    let facts = fs::read_to_string(run.join("run.json")).unwrap();
    let facts = &serde_json::from_str::<Value>(&facts).unwrap()["facts"];
    assert!(facts["placement"]["distance"].is_string(), "{facts}");
    if read.is_empty() {
        return skipped(TEST, NO_DISTANCE);
    }
    assert!(
        read.iter().all(|ns| (2.0..100_000.0).contains(ns)),
        "{read:?}"
    );
    // the states in the facts are those in the summary
    let states = &document["noise"]["states"];
    assert_eq!(&facts["states"], states, "{document}");
    for state in states.as_array().into_iter().flatten() {
        assert!(
            number(&state["percent"]) <= 100.0 && count(&state["readings"]) > 0,
            "{state}"
        );
    }
}

#[test]
fn a_simulated_dut_has_no_probes() {
    let lab = Lab::new();
    let line = "trial --engine sim --dut capacity=1e6 --load 900kpps";
    let document = lab.json(&line.split(' ').collect::<Vec<_>>());
    assert!(document["noise"]["states"].is_null(), "{document}");
    for trial in json_lines(&lab.only_run().join("trials.jsonl")) {
        assert!(trial["probes"].is_null() && judged(&trial) == 0, "{trial}");
    }
}

/// The file with the windows of `quick` has the readings at both edges, and every window is in one
/// stratum.
#[test]
fn windows_carry_what_the_probes_read() {
    const TEST: &str = "windows_carry_what_the_probes_read";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    lab.run(TINY).measured();
    let run = lab.only_run();
    let mut read = 0;
    for trial in json_lines(&run.join("trials.jsonl")) {
        let case = trial["test_case"].as_str().unwrap().replace('/', "+");
        let number = count(&trial["trial"]).to_string();
        let path = run.join("raw").join(case).join(number);
        let text = fs::read_to_string(path.join("intervals.csv")).unwrap();
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap().split(',').collect();
        assert_eq!(
            head[head.len() - 4..],
            [
                "probe_before_per_ns",
                "probe_after_per_ns",
                "distance_before_ns",
                "distance_after_ns"
            ]
        );
        let windows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        assert_eq!(
            judged(&trial) + count(&trial["windows_not_offered"]),
            windows.len() as u64,
            "{trial}"
        );
        for window in &windows {
            assert_eq!(window.len(), head.len());
            for distance in window.iter().rev().take(2).filter(|d| !d.is_empty()) {
                assert!(distance.parse::<f64>().unwrap() > 1.0, "{window:?}");
                read += 1;
            }
        }
    }
    if read == 0 {
        skipped(TEST, NO_DISTANCE);
    }
}
