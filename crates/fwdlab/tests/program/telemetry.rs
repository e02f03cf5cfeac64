//! Telemetry of the DUT from outside: readings around a campaign's trials, planted causes that are
//! found, samplers that are killed or interrupted, and the live view of queues. Start with
//! [`slow::a_rule_that_drops_is_found_and_named`].

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::conservation::conserved;
use crate::support::{
    Lab, PATIENCE, count, is_valid, json_lines, list, number, skipped, tool, try_tool,
};
use crate::wire::{MAC_B, wired};

/// Returns the process ids of this lab's samplers.
fn samplers(lab: &Lab) -> Vec<i32> {
    let all = lab.processes();
    let own = all.iter().filter(|line| line.contains("@@ sample"));
    own.map(|line| line.split(':').next().unwrap().parse().unwrap())
        .collect()
}

/// Sends frames to a port with four queues; the first gets all of them. Counts every frame in the
/// right queue.
#[test]
fn queues_count_every_frame() {
    let Some((lab, wire)) = wired() else { return };
    wire.ip("link del pa");
    // frames from the only queue of one end go to the first queue of the other
    wire.ip(&format!(
        "link add name pa numtxqueues 1 numrxqueues 1 type veth peer name pb address {MAC_B} numtxqueues 1 numrxqueues 4"
    ));
    // queues count frames if the receiving end has NAPI and the sending end does not segment
    let prepare = "ethtool -K pb gro on && ethtool -K pa tso off";
    if try_tool(&["ip", "netns", "exec", &wire.name, "sh", "-c", prepare]).is_err() {
        return skipped("no ethtool, or no GRO on veth");
    }
    wire.ip("link set pa up");
    wire.ip("link set pb up");
    let on = format!("netns:{}", wire.name);
    let mut looking = lab.start(&["queues", "pb", "--on", &on, "--json-stream"]);
    looking.event("second");
    let send = format!(
        "send --port pa --dst-mac {MAC_B} --for 500frames --load 5kpps --engine af-packet --flows 1"
    );
    let sent = wire.json(&lab, &send);
    assert_eq!(count(&sent["send"][0]["frames_sent"]), 500);
    looking.signal(Signal::INT);
    let ended = looking.wait(PATIENCE);
    let last = ended.out.lines().last().unwrap();
    let document: Value = serde_json::from_str(last).unwrap();
    assert_eq!(document["event"], "finished", "{ended:?}");
    let queues = list(&document["rx_queues"]);
    let packets = queues.iter().map(|queue| count(&queue["packets"]));
    assert_eq!(packets.collect::<Vec<_>>(), [500, 0, 0, 0]);
    let of_port = ["rx_packets", "tx_packets"].map(|way| count(&document[way]));
    assert_eq!(of_port, [500, 0]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let line = lab.run(&["queues", "pb", "--on", &on, "--for", "100ms"]);
    line.code(0).prints(&["[Q3 ", "[QT "]);
}

/// The flame graph of a test case comes from a separate iteration, which does not enter the
/// figures.
#[test]
fn a_flame_graph_has_an_iteration_of_its_own() {
    let Some(lab) = Lab::root() else { return };
    let text = "campaign = 'flame'\niterations = 1\nseed = 1\n[bed]\nmax = '100kpps'\n[telemetry]\ncollect = []\nperf = { for = '500ms' }\n\
                [procedure]\nid = 'trial'\nload = '5kpps'\nfor = '300ms'\n";
    let document = lab.campaign(text).document();
    lab.assert_clean("a flame graph");
    let case = &document["test_cases"][0];
    assert_eq!(list(&case["iterations"]).len(), 1);
    let reported = lab.kept("events.jsonl");
    let mut lines = reported.lines();
    if let Some(reason) = lines.find(|line| line.contains("no flame graph of")) {
        let known = "install the package linux-perf|perf took no sample|perf record|none of its trials is valid";
        assert!(
            known.split('|').any(|words| reason.contains(words)),
            "{reason}"
        );
        return skipped(&format!("no samples here: {reason}"));
    }
    let run = lab.only_run();
    let folded = tool(&["find", run.to_str().unwrap(), "-name", "perf.folded"]);
    let folded = fs::read_to_string(folded.trim()).expect("samples are kept");
    let samples: u64 = (folded.lines())
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    // 997 samples per second and CPU
    let cpus = list(&document["info"]["parameters"]["dut_cpus"]).len() as u64;
    let most = 2 * 500 * cpus.max(1);
    assert!((1..=most).contains(&samples), "{samples}: {folded}");
    let page = lab.run("runs show @1 --format html").out;
    assert!(page.contains("Flame graph: 64 B") && page.contains("of the samples"));
}

/// Many runs.
mod slow {
    use super::*;

    /// A rule drops every second frame: it is found and named, with the exact number of frames; CPU
    /// shares add up; every reading is stored. `measure` and `lab` test other causes.
    #[test]
    fn a_rule_that_drops_is_found_and_named() {
        if try_tool(&["nft", "--version"]).is_err() {
            return skipped("no nft");
        }
        let Some(lab) = Lab::root() else { return };
        let text = r#"
campaign = "tele"
iterations = 1
seed = 1
[bed]
max = "100kpps"
[telemetry]
every = "100ms"
[matrix]
configuration = "half"
flows = 256
[configuration]
half = """nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; }'
nft add rule ip t f numgen inc mod 2 == 0 counter drop"""
[procedure]
id = "trial"
load = "5kpps"
for = "600ms"
"#;
        let document = lab.campaign(text).document();
        lab.assert_clean("telemetry");
        lab.run("runs verify @1").code(0);
        let kept = json_lines(&lab.only_run().join("telemetry.jsonl"));
        assert!(
            kept.is_sorted_by_key(|one| number(&one["uptime_s"])),
            "{kept:?}"
        );
        let half = &document["test_cases"][0];
        let is_own = |trial: &&Value| trial["test_case"] == half["test_case"] && is_valid(trial);
        let trials: Vec<&Value> = list(&document["trials"]).iter().filter(is_own).collect();
        let Some(trial) = trials.first() else {
            return skipped("the sender stalled in every trial");
        };
        let reported = &trial["telemetry"];
        let rule = "nft ip t f: numgen inc mod 2 0 drop";
        let in_dut: u64 = list(&trial["losses"])
            .iter()
            .filter(|loss| loss["place"] == "dut")
            .map(|loss| count(&loss["frames"]))
            .sum();
        assert_eq!(count(&reported["drops"][rule]), in_dut, "{reported}");
        conserved(trial);
        let inside = list(&trial["losses"]).iter();
        let inside = inside.filter(|loss| loss["place"] == "dut");
        for reason in inside.map(|loss| &loss["reasons"][0]) {
            assert_eq!(reason["reason"], "netfilter drop", "{trial}");
            assert_eq!(reason["frames"], in_dut, "{trial}");
        }
        // both ends, although it has one window
        assert_eq!(list(&trial["probes"]).len(), 2, "{trial}");
        let facts = &document["info"]["facts"];
        assert!(facts["placement"]["distance"].is_string(), "{facts}");
        assert_eq!(facts["states"], document["noise"]["states"], "{document}");
        assert!(in_dut > 0);
        let mut found = list(&half["findings"]).iter();
        let finding = found.find(|one| one["cause"] == "dropped").unwrap();
        assert!(finding["sentence"].to_string().contains(rule), "{finding}");
        assert_eq!(count(&finding["of_trials"]), trials.len() as u64);
        let cpus = list(&reported["cpus"]);
        assert!(cpus.iter().any(|cpu| cpu["forwards"] == true), "{cpus:?}");
        let of_trial = kept.iter().filter(|one| one["trial"] == trial["trial"]);
        let when: Vec<&str> = of_trial.map(|one| one["when"].as_str().unwrap()).collect();
        let ends = (when[0], when[when.len() - 1]);
        assert_eq!(ends, ("before", "after"), "{when:?}");
        assert_eq!(count(&reported["samples"]), when.len() as u64 - 2);
        lab.run("runs show @1")
            .prints(&["dropped on purpose: nft ip t f"]);
        let page = lab.kept("report.html");
        assert!(page.contains("Load of the DUT") && page.contains("numgen inc mod 2"));
    }

    /// A sampler that is killed during a trial costs only its samples, which is reported; an
    /// interrupt leaves no sampler behind.
    #[test]
    fn a_sampler_that_is_killed_or_interrupted() {
        let Some(lab) = Lab::root() else { return };
        let text = "campaign = 'kill'\niterations = 2\nseed = 1\n[bed]\nmax = '100kpps'\n[telemetry]\nevery = '100ms'\ncollect = ['cpu']\n\
                    [procedure]\nid = 'trial'\nload = '2kpps'\nfor = '4s'\n"; // longer than a busy machine takes to find the sampler
        lab.write("c.toml", text);
        let mut started = lab.start("run c.toml --json-stream");
        // a process that is executing another program has no environment for a moment: another list
        // may lack it
        let mut found = Vec::new();
        started.wait_until("a sampler", |_| {
            found = samplers(&lab);
            !found.is_empty()
        });
        for sampler in found {
            // a sampler's shell started by another program ends with it
            let _ = kill_process(Pid::from_raw(sampler).unwrap(), Signal::KILL);
        }
        let finished = started.event("trial_finished");
        let reported = &finished["record"]["telemetry"];
        let reason = reported["missing"]["samples"].as_str().unwrap_or_default();
        assert!(reason.contains("ended before the trial"), "{reported}");
        assert!(!list(&reported["cpus"]).is_empty(), "the rest is read");
        started.wait_until("another sampler", |_| !samplers(&lab).is_empty());
        started.signal(Signal::INT);
        assert_eq!(started.wait(PATIENCE).code, 130);
        lab.assert_clean("an interrupt while a sampler ran");
    }
}
