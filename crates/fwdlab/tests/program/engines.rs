//! Every engine that is asked for sends, says its name in every record, and conserves frames.

use crate::conservation::conserved;
use crate::support::{Lab, TINY, list, root};

#[test]
fn the_engine_that_is_asked_for_is_the_one_that_sends() {
    if !root("the_engine_that_is_asked_for_is_the_one_that_sends") {
        return;
    }
    let lab = Lab::new();
    for engine in ["xdp-live", "af-xdp", "af-packet"] {
        let document = lab.json(&[TINY, &["--engine", engine]].concat());
        let told = document["info"]["facts"]["engine"].as_str().unwrap();
        assert!(told.starts_with(engine), "{told}");
        let trials = list(&document["trials"]);
        assert!(trials.len() >= 2, "a test case and its control");
        for trial in trials {
            assert_eq!(trial["engine"], engine);
            conserved(trial);
        }
        lab.assert_clean(engine);
    }
}

/// IPv6 and large frames pass as well, and every size is the one that was asked for.
#[test]
fn both_versions_of_ip_and_the_sizes_at_the_ends_pass() {
    if !root("both_versions_of_ip_and_the_sizes_at_the_ends_pass") {
        return;
    }
    let lab = Lab::new();
    let document = lab.json(&[
        "quick", "--ipv4", "--ipv6", "--size", "84,1518", "--flows", "1", "-n", "1", "--trial",
        "100ms", "--load", "max",
    ]);
    let cases: Vec<&str> = list(&document["test_cases"])
        .iter()
        .map(|case| case["test_case"].as_str().unwrap())
        .collect();
    assert_eq!(
        cases,
        [
            "84B-1flow-ipv4",
            "1518B-1flow-ipv4",
            "84B-1flow-ipv6",
            "1518B-1flow-ipv6"
        ]
    );
    for trial in list(&document["trials"]) {
        conserved(trial);
        assert!(trial["frames_received"].as_u64().unwrap() > 1000, "{trial}");
    }
}
