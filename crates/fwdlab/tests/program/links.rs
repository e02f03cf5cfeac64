//! Changes to the bed while it measures: links that go down. Start with [`only_one_is_blamed`].

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::conservation::conserved;
use crate::support::{Lab, PATIENCE, count, json_lines, list, skipped, tool, try_tool};

const QUICK: &str = "quick --size 64 --flows 10 -n 1 --trial 700ms --load max --json-stream";
const TRIAL: &str = "trial --load 20kpps --for 1s --json-stream --set 'nft add table ip marked'";

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
        skipped(reason);
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

/// Waits for ports.
mod slow {
    use super::*;

    /// The DUT's port is down for a moment, the receiver's is deleted, and the engine itself sees
    /// that the sender's is down; all trials of a procedure use one bed, which is rebuilt with its
    /// configuration. Scripted hosts in `lab` test every moment of a run, and ports that do not
    /// come back.
    #[test]
    fn a_trial_with_a_port_down_or_removed_is_invalid_and_repeated() {
        for (line, namespace, port, steps) in [
            (QUICK, 1, "eth0", "down up"),
            (QUICK, 0, "rx0", "delete"),
            (TRIAL, 0, "tx0", "down up"),
        ] {
            let Some(lab) = Lab::root() else { return };
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
            let done = change_port(&bed[namespace], port, steps);
            run.wait(PATIENCE).measured();
            // on a busy host the generator may fall short in the next trial of a procedure, which
            // is then repeated, too
            if let Some([first, again]) = only_one_is_blamed(&lab, port, done)
                && line == QUICK
            {
                assert_eq!(again["iteration"], first["iteration"]);
            }
        }
    }
}
