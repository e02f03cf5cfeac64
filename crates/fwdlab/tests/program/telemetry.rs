//! Telemetry of the DUT from outside: readings around a campaign's trials, planted causes that are
//! found, samplers that are killed or interrupted, and the live view of queues. Start with
//! [`a_rule_that_drops_and_a_wrong_setting_are_found_and_named`].

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Lab, PATIENCE, count, json_lines, list, number, root, skipped, try_tool};
use crate::wire::{MAC_B, Wire};

/// Writes a campaign with one trial to a file.
fn file(lab: &Lab, text: &str) -> String {
    let path = lab.path().join("campaign.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the process ids of this lab's samplers.
fn samplers(lab: &Lab) -> Vec<i32> {
    let all = lab.processes();
    let own = all.iter().filter(|line| line.contains("@@ sample"));
    own.map(|line| line.split(':').next().unwrap().parse().unwrap())
        .collect()
}

/// A sampler that is killed during a trial costs only its samples, which is reported; an interrupt
/// leaves no sampler behind.
#[test]
fn a_sampler_that_is_killed_or_interrupted() {
    const TEST: &str = "a_sampler_that_is_killed_or_interrupted";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let text = "campaign = 'kill'\niterations = 2\nseed = 1\n[bed]\nmax = '100kpps'\n[telemetry]\nevery = '100ms'\ncollect = ['cpu']\n\
                [procedure]\nid = 'trial'\nload = '2kpps'\nfor = '2s'\n";
    let mut started = lab.start(&["run", &file(&lab, text), "--json-stream"]);
    started.wait_until("a sampler", |_| !samplers(&lab).is_empty());
    for sampler in samplers(&lab) {
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

/// Sends frames to a port with four queues; the first gets all of them. Counts every frame in the
/// right queue.
#[test]
fn queues_count_every_frame() {
    const TEST: &str = "queues_count_every_frame";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    wire.ip("link del pa");
    // frames from the only queue of one end go to the first queue of the other
    wire.ip(&format!(
        "link add name pa numtxqueues 1 numrxqueues 1 type veth peer name pb address {MAC_B} numtxqueues 1 numrxqueues 4"
    ));
    // queues count frames if the receiving end has NAPI and the sending end does not segment
    let prepare = "ethtool -K pb gro on && ethtool -K pa tso off";
    if try_tool(&["ip", "netns", "exec", &wire.name, "sh", "-c", prepare]).is_err() {
        return skipped(TEST, "no ethtool, or no GRO on veth");
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
    let ended = looking.wait(Duration::from_secs(20));
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
    const TEST: &str = "a_flame_graph_has_an_iteration_of_its_own";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let text = "campaign = 'flame'\niterations = 1\nseed = 1\n[bed]\nmax = '100kpps'\n[telemetry]\ncollect = []\nperf = { for = '500ms' }\n\
                [procedure]\nid = 'trial'\nload = '5kpps'\nfor = '300ms'\n";
    let path = file(&lab, text);
    let ended = lab.run(&["run", &path, "--json"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
    lab.assert_clean("a flame graph");
    let case = &document["test_cases"][0];
    assert_eq!(list(&case["iterations"]).len(), 1);
    let reported = fs::read_to_string(lab.only_run().join("events.jsonl")).unwrap();
    let reason = reported
        .lines()
        .find(|line| line.contains("no flame graph of"));
    if let Some(reason) = reason {
        let known = "install the package linux-perf|perf took no sample|perf record|none of its trials is valid";
        assert!(
            known.split('|').any(|words| reason.contains(words)),
            "{reason}"
        );
        return skipped(TEST, &format!("no samples here: {reason}"));
    }
    let folded = directory_file(&lab.only_run(), "perf.folded").expect("samples are kept");
    let folded = fs::read_to_string(folded).unwrap();
    let samples: u64 = (folded.lines())
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    // 997 samples per second and CPU
    let cpus = list(&document["info"]["parameters"]["dut_cpus"])
        .len()
        .max(1) as u64;
    assert!(
        (1..=2 * 500 * cpus).contains(&samples),
        "{samples}: {folded}"
    );
    let page = lab.run(&["runs", "show", "@1", "--format", "html"]).out;
    assert!(page.contains("Flame graph: 64 B") && page.contains("of the samples"));
}

/// Returns a file with this name anywhere in a directory.
fn directory_file(directory: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.into_iter().find_map(|path| match path.is_dir() {
        true => directory_file(&path, name),
        false => path.ends_with(name).then_some(path),
    })
}

/// A meter that shows 10 W plus 0.2 mW for every frame per second: a frame costs 0.2 mJ on top of
/// idling.
#[test]
fn the_cost_of_a_frame_matches_the_meter() {
    const TEST: &str = "the_cost_of_a_frame_matches_the_meter";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let state = lab.path().join("meter");
    let meter = format!(
        r#"awk -v state={} '/eth0:/ {{ frames = $3 }} FILENAME == "/proc/uptime" {{ now = $1 }}
        END {{ if ((getline line < state) > 0) {{ split(line, was); close(state) }}
        pps = now > was[1] ? (frames - was[2]) / (now - was[1]) : 0
        print now, frames > state; print 10 + 0.0002 * pps }}' /proc/net/dev /proc/uptime"#,
        state.display()
    );
    let text = format!(
        "campaign = 'energy'\niterations = 1\nseed = 1\n[bed]\nmax = '20kpps'\n[matrix]\nflows = 10\n[telemetry]\nevery = '250ms'\n\
         collect = []\npower = '''{meter}'''\n[procedure]\nid = 'energy'\nloads = ['50%']\nsettle = '600ms'\nfor = '1500ms'\n"
    );
    let ended = lab.run(&["run", &file(&lab, &text), "--json"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
    ended.measured();
    let outcome = &document["test_cases"][0]["outcomes"][0]["found"];
    let points = list(&outcome["points"]);
    let rates = points.iter().map(|one| number(&one["forwarding_rate_pps"]));
    let rates: Vec<f64> = rates.collect();
    if rates.len() < 3 || rates[2] < 1e3 {
        return skipped(TEST, "the sender stalled in every trial");
    }
    let watts = points.iter().map(|one| one["watts"]["command"].as_f64());
    let Some(watts) = watts.collect::<Option<Vec<f64>>>() else {
        let trials = list(&document["trials"]).iter();
        let samples: Vec<&Value> = trials.map(|t| &t["telemetry"]["samples"]).collect();
        let reason = format!("samplers got no CPU in time: {samples:?} samples");
        return skipped(TEST, &reason);
    };
    assert!((watts[0] - 10.0).abs() < 0.1, "{points:?}");
    for (watts, rate) in watts.iter().zip(&rates).skip(1) {
        let beyond = 0.0002 * rate;
        let error = (watts - 10.0 - beyond).abs();
        assert!(error < 0.15 * beyond, "{points:?}");
    }
    let meter = &outcome["meters"][0];
    let beyond = number(&meter["marginal_joules_per_frame"]);
    assert!((beyond / 0.0002 - 1.0).abs() < 0.15, "{meter}");
    let whole = number(&meter["joules_per_frame"]);
    assert!((whole - watts[2] / rates[2]).abs() < 1e-9, "{meter}");
    lab.run(&["report", "@1", "--format", "markdown"])
        .code(0)
        .prints(&["uJ", "idle", "overload"]);
    // without samples, there are no readings under load
    let blind = text.replace("every = '250ms'", "");
    lab.run(&["check", &file(&lab, &blind)])
        .code(2)
        .prints(&["every = \"1s\""]);
}

/// Many runs.
mod slow {
    use super::*;

    /// A rule drops every second frame: it is found and named, with the exact number of frames; CPU
    /// shares add up; every reading is stored. In a second configuration, strict source validation
    /// drops frames from sources whose route back uses another port: the setting is named, with the
    /// frames that it cost.
    #[test]
    fn a_rule_that_drops_and_a_wrong_setting_are_found_and_named() {
        const TEST: &str = "a_rule_that_drops_and_a_wrong_setting_are_found_and_named";
        if !root(TEST) {
            return;
        }
        if try_tool(&["nft", "--version"]).is_err() {
            return skipped(TEST, "no nft");
        }
        let lab = Lab::new();
        let text = r#"
campaign = "tele"
iterations = 1
seed = 1
[bed]
max = "100kpps"
[telemetry]
every = "100ms"
[matrix]
configuration = ["half", "strict"]
flows = 256
[configuration]
half = """nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; }'
nft add rule ip t f numgen inc mod 2 == 0 counter drop"""
strict = "ip route replace 198.18.10.2/31 via 198.19.0.2 dev eth1; sysctl -qw net.ipv4.conf.eth0.rp_filter=1"
[procedure]
id = "trial"
load = "5kpps"
for = "600ms"
"#;
        let ended = lab.run(&["run", &file(&lab, text), "--json"]);
        let document: Value =
            serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
        lab.assert_clean("telemetry");
        let directory = lab.only_run();
        lab.run(&["runs", "verify", "@1"]).code(0);
        let kept = json_lines(&directory.join("telemetry.jsonl"));
        let times: Vec<f64> = kept.iter().map(|one| number(&one["uptime_s"])).collect();
        assert!(times.is_sorted(), "{times:?}");
        let valid = |case: &Value| -> Vec<Value> {
            let trials = list(&document["trials"]).iter();
            let is_valid = |trial: &Value| list(&trial["validity"]["reasons"]).is_empty();
            let own = trials.filter(|one| one["test_case"] == case["test_case"] && is_valid(one));
            own.cloned().collect()
        };
        let [half, strict] = list(&document["test_cases"]) else {
            panic!("{document}");
        };

        let trials = valid(half);
        let Some(trial) = trials.first() else {
            return skipped(TEST, "the sender stalled in every trial");
        };
        let reported = &trial["telemetry"];
        let drops = reported["drops"].as_object().unwrap();
        let rule = "nft ip t f: numgen inc mod 2 0 drop";
        let in_dut: u64 = list(&trial["losses"])
            .iter()
            .filter(|loss| loss["place"] == "dut")
            .map(|loss| count(&loss["frames"]))
            .sum();
        assert_eq!(count(&drops[rule]), in_dut, "{drops:?}");
        assert!(in_dut > 0);
        let found = list(&half["findings"]);
        let finding = found.iter().find(|one| one["cause"] == "dropped");
        let finding = finding.unwrap_or_else(|| panic!("{found:?}"));
        let sentence = finding["sentence"].as_str().unwrap();
        assert!(sentence.contains(rule), "{finding}");
        assert_eq!(count(&finding["of_trials"]), trials.len() as u64);
        // causes that were not planted are not found; on a busy host, frames do wait for the DUT's CPU
        // until its ring is full
        let others = "hot-queue flow-control at-limit counters-disagree far-node";
        for cause in others.split(' ') {
            assert!(found.iter().all(|one| one["cause"] != cause), "{found:?}");
        }
        let cpus = list(&reported["cpus"]);
        assert!(cpus.iter().any(|cpu| cpu["forwards"] == true), "{cpus:?}");
        for cpu in cpus {
            let parts = ["user", "system", "irq", "softirq", "idle", "steal"];
            let sum: f64 = (parts.iter())
                .map(|part| number(&cpu[format!("{part}_ratio")]))
                .sum();
            assert!(
                (sum - 1.0).abs() < 1e-6 || count(&cpu["ticks"]) == 0,
                "{cpu}"
            );
        }
        // all frames that reached the DUT came through the queue of its input
        let mut queues = list(&reported["queues"]).iter();
        let queue = queues.find(|queue| queue["port"] == "eth0").unwrap();
        let port = &reported["ports"]["eth0"];
        assert_eq!(queue["packets"], port["rx_packets"], "{reported}");
        let of_trial = kept.iter().filter(|one| one["trial"] == trial["trial"]);
        let when: Vec<&str> = of_trial.map(|one| one["when"].as_str().unwrap()).collect();
        let ends = (when[0], when[when.len() - 1]);
        assert_eq!(ends, ("before", "after"), "{when:?}");
        assert_eq!(count(&reported["samples"]), when.len() as u64 - 2);
        let shown = lab.run(&["runs", "show", "@1"]).out;
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("dropped on purpose: nft ip t f"), "{shown}");
        let page = fs::read_to_string(directory.join("report.html")).unwrap();
        assert!(page.contains("Load of the DUT") && page.contains("numgen inc mod 2"));

        let trials = valid(strict);
        let Some(trial) = trials.last() else {
            return skipped(TEST, "the sender stalled in every trial");
        };
        let dropped = count(&trial["telemetry"]["drops"]["TcpExt IPReversePathFilter"]);
        let sent = count(&trial["counters"]["generator_sent"]);
        assert!(dropped > 0 && dropped < sent, "{trial}");
        let found = list(&strict["findings"]);
        let says = |one: &&Value| one["sentence"].as_str().unwrap().contains("reverse-path");
        let finding = found
            .iter()
            .find(says)
            .unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!(finding["cause"], "dropped", "{finding}");
        let look = finding["setting"].as_str().unwrap_or_default();
        assert!(look.contains("rp_filter"), "{finding}");
    }
}
