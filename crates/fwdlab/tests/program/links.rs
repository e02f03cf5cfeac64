//! Changes to the bed while it measures: links that go down. Start with [`only_one_is_blamed`].

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::conservation::conserved;
use crate::support::{Lab, PATIENCE, count, json_lines, list, number, skipped, try_tool};

/// Returns true if the reasons of an invalid trial name the port: it went down, is still down, or
/// is gone.
fn names_port(trial: &Value, port: &str) -> bool {
    let what = ["went down", "is down", "is gone"];
    let names = |reason: &Value| {
        let reason = reason.as_str().unwrap();
        reason.contains(&format!("{port} in")) && what.iter().any(|w| reason.contains(w))
    };
    list(&trial["validity"]["reasons"]).iter().any(names)
}

/// Asserts that the trial at the time of the change is invalid because of the port, and repeated,
/// and that later trials are unaffected, because the DUT forwards.
#[track_caller]
fn only_one_is_blamed(lab: &Lab, port: &str, done: Timestamp) {
    let trials = json_lines(&lab.only_run().join("trials.jsonl"));
    lab.assert_clean("a port down or away");
    let Some(at) = trials.iter().position(|trial| names_port(trial, port)) else {
        let ran = |trial: &Value| {
            let started: Timestamp = trial["started_at"].as_str().unwrap().parse().unwrap();
            let into = done.duration_since(started).as_secs_f64();
            (0.0..number(&trial["duration_s"])).contains(&into)
        };
        assert!(!trials.iter().any(ran), "{done} {trials:?}");
        return skipped("this host is so busy that no trial ran while the port was down");
    };
    let first = &trials[at];
    let is_again = |trial: &Value| {
        trial["test_case"] == first["test_case"] && trial["iteration"] == first["iteration"]
    };
    assert!(trials[at + 1..].iter().any(is_again), "{trials:?}");
    for trial in &trials[at + 1..] {
        assert!(!names_port(trial, port), "{trial}");
        assert!(count(&trial["frames_received"]) > 0, "{trial}");
        conserved(trial);
    }
}

/// Waits for ports.
mod slow {
    use super::*;

    /// The DUT's port is down for a moment, or the receiver's is deleted. Scripted hosts in `lab`
    /// test every moment of a run, and ports that do not come back; `engine` tests the sender's.
    #[test]
    fn a_trial_with_a_port_down_or_removed_is_invalid_and_repeated() {
        for (namespace, port, step) in [(1, "eth0", "set eth0 down"), (0, "rx0", "delete rx0")] {
            let Some(lab) = Lab::root() else { return };
            let line = "quick --size 64 --flows 10 -n 1 --trial 700ms --load max --json-stream";
            let mut run = lab.start(line);
            run.event("progress");
            let bed = run.bed();
            let sent = || {
                let file = "/sys/class/net/tx0/statistics/tx_packets";
                let text = try_tool(&["ip", "netns", "exec", &bed[0], "cat", file]);
                text.map_or(0, |text| text.trim().parse::<u64>().unwrap())
            };
            let at = sent();
            // more frames than the path check sends
            run.wait_until("traffic", |_| sent() > at + 3500);
            let link = |step: &str| {
                let words = step.split(' ');
                try_tool(
                    &["ip", "-n", &bed[namespace], "link"]
                        .into_iter()
                        .chain(words)
                        .collect::<Vec<_>>(),
                )
            };
            link(step).unwrap();
            let done = Timestamp::now();
            std::thread::sleep(Duration::from_millis(100));
            // by now the program may have noticed it, ended the trial and removed the bed
            _ = link("set eth0 up");
            run.wait(PATIENCE).measured();
            only_one_is_blamed(&lab, port, done);
        }
    }
}
