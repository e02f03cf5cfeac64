//! Meters that are not read, that count others' frames, or that are off by a factor: outcomes with words, and no invalid trials.
//!
//! On simulated DUTs, whose truth is known. What every meter of the real test bed says to the frame is in `conservation`. Start with
//! [`trial`].

use serde_json::Value;

use crate::support::{Lab, all_outcomes, count, list, meter};

/// One trial of 500,000 frames, and what is told of it.
fn trial(dut: &str) -> (Value, String) {
    let lab = Lab::new();
    let line = [
        "trial", "--engine", "sim", "--dut", dut, "--max", "2e6", "--load", "500kpps", "--for",
        "1s",
    ];
    let document = lab.json(&line);
    let told = lab.run(&line);
    assert_eq!(told.code, 0, "{told:?}");
    let words: Vec<&str> = told.out.split_whitespace().collect();
    (document, words.join(" "))
}

fn losses(trial: &Value) -> Vec<(String, u64)> {
    let all = list(&trial["losses"]).iter();
    all.map(|loss| (loss["place"].to_string(), count(&loss["frames"])))
        .collect()
}

#[track_caller]
fn is_valid(trial: &Value) {
    assert_eq!(list(&trial["validity"]["reasons"]).len(), 0, "{trial}");
    assert_eq!(count(&trial["frames_unexplained"]), 0, "{trial}");
}

#[test]
fn what_a_black_box_loses_is_between_its_ports() {
    let (document, words) = trial("capacity=1e6,counters=none,drop-every=1000");
    let [trial] = list(&document["trials"]) else {
        panic!("{document}");
    };
    is_valid(trial);
    assert_eq!(
        losses(trial),
        [(
            r#"{"between":["generator_port","receiver_port"]}"#.into(),
            500
        )]
    );
    let input = meter(trial, "dut_input");
    assert_eq!(
        (&input["standing"], &input["passed"]),
        (&Value::from("absent"), &Value::Null)
    );
    assert!(
        words.contains("the DUT's input: not read: the DUT is a black box: nobody can ask it"),
        "{words}"
    );
}

#[test]
fn frames_of_others_are_told_where_they_hide_nothing() {
    for (at, not_exact) in [
        ("generator-port", &["generator_port", "dut_input"][..]),
        ("dut-input", &["dut_input"]),
        ("dut-output", &[]),
        ("receiver-port", &[]),
    ] {
        let (document, words) = trial(&format!("capacity=1e6,drop-every=1000,foreign=3@{at}"));
        let [trial] = list(&document["trials"]) else {
            panic!("{at}: {document}");
        };
        is_valid(trial);
        let lost: u64 = losses(trial).iter().map(|(_, frames)| frames).sum();
        assert_eq!(lost, 500, "{at}: {trial}");
        let stages: Vec<&str> = (trial["not_exact"].as_array().into_iter().flatten())
            .map(|meter| meter["stage"].as_str().unwrap())
            .collect();
        assert_eq!(stages, not_exact, "{at}: {trial}");
        let told = "approximate: it counted 3 frames more than left the generator";
        assert_eq!(words.contains(told), !not_exact.is_empty(), "{at}: {words}");
    }
}

#[test]
fn a_meter_that_is_off_by_a_factor_is_named() {
    let (document, words) = trial("capacity=1e6,counters=1024,loss=1e-3");
    let [first, second, third] = list(&document["trials"]) else {
        panic!("{document}");
    };
    // two trials cannot tell a factor from frames that are gone
    for trial in [first, second] {
        let reasons = trial["validity"]["reasons"].to_string();
        assert!(reasons.contains("do not add up"), "{reasons}");
    }
    is_valid(third);
    assert_eq!(meter(third, "dut_output")["standing"], "approximate");
    let named = "the DUT's output: approximate: it reports 976.6 frames for every 1000";
    assert!(words.contains(named), "{words}");
    assert_eq!(all_outcomes(&document)[0]["answered"], true);
}
