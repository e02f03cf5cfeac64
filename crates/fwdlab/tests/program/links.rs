//! Hands in the bed while it measures: a link that goes down, a DUT that vanishes.

use crate::conservation::conserved;
use crate::support::{Lab, PATIENCE, json_lines, list, root, tool};

const LONG: &[&str] = &[
    "quick",
    "--size",
    "64",
    "--flows",
    "10",
    "-n",
    "1",
    "--trial",
    "700ms",
    "--load",
    "max",
    "--json-stream",
];

#[test]
fn a_trial_with_a_link_down_is_invalid_and_repeated() {
    if !root("a_trial_with_a_link_down_is_invalid_and_repeated") {
        return;
    }
    let lab = Lab::new();
    let mut quick = lab.start(LONG);
    quick.event("progress");
    let dut = quick.bed()[1].clone();
    tool(&["ip", "-n", &dut, "link", "set", "eth1", "down"]);
    std::thread::sleep(std::time::Duration::from_millis(100));
    tool(&["ip", "-n", &dut, "link", "set", "eth1", "up"]);
    let ended = quick.wait(PATIENCE);
    ended.measured();

    let trials = json_lines(&lab.only_run().join("trials.jsonl"));
    assert_eq!(trials.len(), 3, "a test case, its control, and one again");
    let reasons = list(&trials[0]["validity"]["reasons"]);
    assert!(
        reasons
            .iter()
            .any(|r| r.as_str().unwrap().contains("eth1 in")
                && r.as_str().unwrap().contains("went down")),
        "{reasons:?}"
    );
    let again = trials[1..]
        .iter()
        .find(|t| t["test_case"] == trials[0]["test_case"])
        .unwrap();
    assert_eq!(again["iteration"], trials[0]["iteration"]);
    // the others are not touched by it: the DUT forwards again
    for trial in &trials[1..] {
        assert_eq!(list(&trial["validity"]["reasons"]).len(), 0, "{trial}");
        assert!(trial["frames_received"].as_u64().unwrap() > 0, "{trial}");
    }
    trials.iter().for_each(conserved);
    lab.assert_clean("a link down");
}

#[test]
fn a_dut_that_vanishes_ends_the_run() {
    if !root("a_dut_that_vanishes_ends_the_run") {
        return;
    }
    let lab = Lab::new();
    let mut quick = lab.start(LONG);
    quick.event("progress");
    let dut = quick.bed()[1].clone();
    tool(&["ip", "netns", "delete", &dut]);
    let ended = quick.wait(PATIENCE);
    ended.code(4).says(&[&dut]);
    let shown = lab.run(&["runs", "show", "@1"]);
    shown.code(0);
    assert!(shown.out.contains(&dut), "{}", shown.out);
    lab.assert_clean("a DUT that vanished");
}
