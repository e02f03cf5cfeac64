//! The requested engine sends, records its name in every record, and conserves frames, for both IP
//! versions and all sizes.
//!
//! The frames of each engine are tested in `engine`; `conservation` counts those of the fastest one
//! from outside.

use crate::conservation::conserved;
use crate::support::{Lab, count, list, root};

#[test]
fn the_engine_that_is_asked_for_sends_both_versions_of_ip_and_the_sizes_at_the_ends() {
    if !root("the_engine_that_is_asked_for_sends_both_versions_of_ip_and_the_sizes_at_the_ends") {
        return;
    }
    let lab = Lab::new();
    let document = lab.json(&[
        "quick",
        "--engine",
        "af-packet",
        "--ipv4",
        "--ipv6",
        "--size",
        "84,1518",
        "--flows",
        "1",
        "-n",
        "1",
        "--trial",
        "100ms",
        "--load",
        "max",
    ]);
    let reported = document["info"]["facts"]["engine"].as_str().unwrap();
    assert!(reported.starts_with("af-packet"), "{reported}");
    let cases: Vec<&str> = list(&document["test_cases"])
        .iter()
        .map(|case| case["test_case"].as_str().unwrap())
        .collect();
    assert_eq!(
        cases,
        [
            "plain/84B-1flow-ipv4",
            "plain/1518B-1flow-ipv4",
            "plain/84B-1flow-ipv6",
            "plain/1518B-1flow-ipv6"
        ]
    );
    let trials = list(&document["trials"]);
    assert!(trials.len() > cases.len(), "test cases and a control");
    for trial in trials {
        assert_eq!(trial["engine"], "af-packet");
        conserved(trial);
        assert!(count(&trial["frames_received"]) > 1000, "{trial}");
    }
    lab.assert_clean("engines");
}
