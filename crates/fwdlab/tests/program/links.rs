//! Changes to the bed while it measures: a link that goes down, a DUT that vanishes. Start with
//! [`a_trial_with_a_port_down_or_removed_is_invalid_and_repeated`].

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::conservation::conserved;
use crate::support::{
    Lab, NOT_REACHED, PATIENCE, count, json_lines, list, reports_stall, root, skipped, tool,
    try_tool,
};

const LONG: [&str; 12] = [
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

/// Changes a port of the bed from outside. Returns the time of the first change.
fn change_port(namespace: &str, port: &str, steps: &str) -> Timestamp {
    let mut done = None;
    for step in steps.split(' ') {
        match step {
            "delete" => drop(tool(&["ip", "-n", namespace, "link", "delete", port])),
            // by now the program may have noticed it, ended the trial and removed the bed
            "up" => drop(try_tool(&[
                "ip", "-n", namespace, "link", "set", port, "up",
            ])),
            step => drop(tool(&["ip", "-n", namespace, "link", "set", port, step])),
        }
        done.get_or_insert_with(Timestamp::now);
        std::thread::sleep(Duration::from_millis(100));
    }
    done.expect("a step")
}

/// Returns true if the reasons of an invalid trial name the port: it went down, is still down, or
/// is gone.
fn names_port(trial: &Value, port: &str) -> bool {
    let reasons = list(&trial["validity"]["reasons"]);
    let mut reasons = reasons.iter().filter_map(Value::as_str);
    let what = ["went down", "is down", "is gone"];
    reasons.any(|reason| {
        reason.contains(&format!("{port} in")) && what.iter().any(|w| reason.contains(w))
    })
}

/// Asserts that the trial at the time of the change is invalid because of the port, and repeated,
/// and that later trials are unaffected, because the DUT forwards. Returns the trial and its
/// repetition; `None` on a host that is so busy that no trial was running.
#[track_caller]
fn only_one_is_blamed(lab: &Lab, port: &str, done: Timestamp) -> Option<[Value; 2]> {
    let trials = json_lines(&lab.only_run().join("trials.jsonl"));
    lab.assert_clean("a port down or away");
    let ran = |trial: &&Value| {
        let started: Timestamp = trial["started_at"].as_str().unwrap().parse().unwrap();
        let into = done.duration_since(started).as_secs_f64();
        (0.0..trial["duration_s"].as_f64().unwrap()).contains(&into)
    };
    let at = trials.iter().position(|trial| names_port(trial, port));
    let Some(at) = at else {
        assert!(trials.iter().find(ran).is_none(), "{done} {trials:?}");
        let reason = "this host is so busy that no trial ran while the port was down";
        skipped("only_one_is_blamed", reason);
        return None;
    };
    let first = &trials[at];
    let mut again = trials[at + 1..].iter();
    let again = again.find(|trial| trial["test_case"] == first["test_case"]);
    let again = again.unwrap_or_else(|| panic!("{trials:?}"));
    for trial in &trials[at + 1..] {
        assert!(!names_port(trial, port), "{trial}");
        assert!(count(&trial["frames_received"]) > 0, "{trial}");
        conserved(trial);
    }
    Some([first.clone(), again.clone()])
}

/// All trials of a procedure use one bed: it is rebuilt, with its configuration. The engine itself
/// sees that its port is down.
#[test]
fn a_procedure_continues_after_the_senders_port_went_down() {
    if !root("a_procedure_continues_after_the_senders_port_went_down") {
        return;
    }
    let lab = Lab::new();
    let mut command = vec!["trial", "--load", "20kpps", "--for", "1s", "--json-stream"];
    command.extend(["--set", "nft add table ip marked"]);
    let mut trial = lab.start(&command);
    let bed = trial.bed();
    let sent = || {
        let file = "/sys/class/net/tx0/statistics/tx_packets";
        let text = try_tool(&["ip", "netns", "exec", &bed[0], "cat", file]);
        text.map_or(0, |text| text.trim().parse::<u64>().unwrap())
    };
    trial.event("progress");
    let at = sent();
    trial.wait_until("traffic", |_| sent() > at + 200);
    let done = change_port(&bed[0], "tx0", "down up");
    trial.wait(PATIENCE).measured();
    // on a busy host the generator may fall short in the next trial, which is then repeated, too
    only_one_is_blamed(&lab, "tx0", done);
}

#[test]
fn a_dut_that_vanishes_ends_the_run() {
    if !root("a_dut_that_vanishes_ends_the_run") {
        return;
    }
    let lab = Lab::new();
    let mut quick = lab.start(&LONG);
    quick.event("progress");
    let dut = quick.bed()[1].clone();
    tool(&["ip", "netns", "delete", &dut]);
    let ended = quick.wait(PATIENCE);
    ended.code(4).says(&[&dut]);
    lab.run(&["runs", "show", "@1"]).code(0).prints(&[&dut]);
    lab.assert_clean("a DUT that vanished");
}

/// Waits for ports.
mod slow {
    use super::*;

    /// The DUT's port is down for a moment, the receiver's is deleted. Scripted hosts in `lab` test
    /// every moment of a run.
    #[test]
    fn a_trial_with_a_port_down_or_removed_is_invalid_and_repeated() {
        if !root("a_trial_with_a_port_down_or_removed_is_invalid_and_repeated") {
            return;
        }
        for (namespace, port, steps) in [(1, "eth0", "down up"), (0, "rx0", "delete")] {
            let lab = Lab::new();
            let mut quick = lab.start(&LONG);
            quick.event("progress");
            let done = change_port(&quick.bed()[namespace], port, steps);
            quick.wait(PATIENCE).measured();
            if let Some([first, again]) = only_one_is_blamed(&lab, port, done) {
                assert_eq!(again["iteration"], first["iteration"]);
            }
        }
    }

    /// A configuration removes a port in every trial, after more frames than the path check sends: that
    /// test case fails, and the other one is measured.
    #[test]
    fn a_port_that_does_not_come_back_ends_the_test_case_only() {
        if !root("a_port_that_does_not_come_back_ends_the_test_case_only") {
            return;
        }
        let lab = Lab::new();
        let file = lab.path().join("campaign.toml");
        let text = "
        campaign = 'ports'
        iterations = 1
        [configuration]
        loses = '(while [ $(cat /sys/class/net/eth0/statistics/rx_packets) -lt 1500 ]; do sleep 0.05; done; ip link delete eth1) >/dev/null 2>&1 &'
        [matrix]
        configuration = ['plain', 'loses']
        flows = 10
        [procedure]
        id = 'trial'
        load = '20kpps'
        for = '1s'
    ";
        std::fs::write(&file, text).unwrap();
        let ended = lab.run(&["run", file.to_str().unwrap(), "--json"]);
        if reports_stall(&ended.err) {
            return skipped(
                "a_port_that_does_not_come_back_ends_the_test_case_only",
                NOT_REACHED,
            );
        }
        ended.code(7);
        let document: Value = serde_json::from_str(&ended.out).unwrap();
        let trials = list(&document["trials"]);
        let of = |name: &str| -> Vec<&Value> {
            let is_of = |t: &&Value| t["test_case"].as_str().unwrap().starts_with(name);
            trials.iter().filter(is_of).collect()
        };
        // three, unless a busy host failed to build one of the beds
        assert!((1..=3).contains(&of("loses").len()), "{trials:?}");
        assert!(
            of("loses").iter().all(|t| names_port(t, "eth1")),
            "{trials:?}"
        );
        let plain = of("plain");
        assert!(!plain.is_empty());
        for trial in plain {
            assert!(!names_port(trial, "eth1"), "{trial}");
            assert!(count(&trial["frames_received"]) > 0, "{trial}");
        }
        lab.assert_clean("a port that does not come back");
    }
}
