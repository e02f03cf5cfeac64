//! `fwdlab trial`, `ramp`, `rfc2544` and `soak` from outside: known truths of simulated DUTs, tables, what is kept and told, and
//! once the kernel of this host.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    Lab, NOT_REACHED, PROGRAM, all_outcomes, dropped, is_held_up, list, number, passed, root,
    skipped,
};

const SIM: &[&str] = &["--engine", "sim", "--dut"];

fn on(lab: &Lab, command: &str, dut: &str, more: &[&str]) -> Value {
    lab.json(&[&[command], SIM, &[dut], more].concat())
}

fn outcomes<'a>(document: &'a Value, procedure: &str) -> Vec<&'a Value> {
    let all = all_outcomes(document).into_iter();
    all.filter(|outcome| outcome["procedure"] == procedure)
        .collect()
}

/// Theoretical rates of RFC 2544 at 10 Gbit/s (docs/methodology.md, "Units and line rates"),
/// capacity, buffer, delay and times as simulated.
#[test]
fn the_suite_tells_the_truth_of_a_simulated_dut() {
    let lab = Lab::new();
    let dut = "capacity=1e6,link=10Gbps,buffer=800,latency=15us,recovery=30ms,reboot=8s";
    let document = on(
        &lab,
        "rfc2544",
        dut,
        &["--sizes", "64,512,1518", "--full", "--reset", "OS reboot"],
    );
    let found = outcomes(&document, "throughput");
    let line: Vec<f64> = found
        .iter()
        .map(|o| number(&o["found"]["line_rate_pps"]).floor())
        .collect();
    assert_eq!(line, [14_880_952.0, 2_349_624.0, 812_743.0]);
    for (outcome, truth) in found.iter().zip([1e6, 1e6, 812_743.0]) {
        let pps = number(&outcome["found"]["throughput_pps"]);
        // a buffer of 800 frames hides an excess of 13 frames per second for a minute
        let resolution = number(&outcome["found"]["resolution_pps"]);
        assert!(
            pps <= truth + 14.0 && truth - pps <= resolution,
            "{outcome}"
        );
        let label = outcome["compliance"]["shortened"].to_string();
        assert!(
            label.contains("simulated") && !label.contains("60 s"),
            "{label}"
        );
    }
    for outcome in outcomes(&document, "latency") {
        assert_eq!(
            number(&outcome["found"]["points"][0]["typical_ns"]["median"]),
            15_000.0
        );
    }
    let buffers = outcomes(&document, "back-to-back");
    assert!((number(&buffers[0]["found"]["buffer_frames"]) / 800.0 - 1.0).abs() < 0.01);
    for buffer in &buffers[..2] {
        let [low, high] =
            ["buffer_min_frames", "buffer_max_frames"].map(|end| number(&buffer["found"][end]));
        assert!(low <= 800.0 && 800.0 <= high, "{buffer}");
    }
    assert!(
        buffers[2]["verdict"]
            .as_str()
            .unwrap()
            .starts_with("not applicable")
    );
    let recovery = outcomes(&document, "recovery");
    assert!((number(&recovery[0]["found"]["recovery_s"]["mean"]) - 0.03).abs() < 1e-5);
    for outcome in outcomes(&document, "reset") {
        assert!((number(&outcome["found"]["by_timestamp_s"]["mean"]) - 8.0).abs() < 1e-4);
    }
    // every trial is there with its question and its answer
    for trial in list(&document["trials"]) {
        assert!(trial["asked"]["question"]["reason"].is_string(), "{trial}");
        assert!(trial["asked"]["answer"]["frames_sent"].is_u64());
    }
    let again = on(
        &lab,
        "rfc2544",
        dut,
        &["--sizes", "64,512,1518", "--full", "--reset", "OS reboot"],
    );
    assert_eq!(all_outcomes(&again), all_outcomes(&document));
}

/// The plainest DUT has no buffer: bursts of one frame are sent, and each test has its answer.
#[test]
fn the_suite_has_answers_on_the_default_dut() {
    let lab = Lab::new();
    let line = "rfc2544 --engine sim --link 10G --sizes 64,128,1518 --json";
    let output = lab.run(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(output.code, 0, "{output:?}");
    let document: Value = serde_json::from_str(&output.out).unwrap();
    let buffers = outcomes(&document, "back-to-back");
    assert_eq!(buffers.len(), 3);
    for outcome in &buffers[..2] {
        assert_eq!(outcome["answered"], true, "{outcome}");
        let found = &outcome["found"];
        assert_eq!(number(&found["buffer_min_frames"]), 0.0);
        assert!(number(&found["buffer_max_frames"]) < 2.1, "{found}");
    }
    // a million frames per second are more than the line has of 1518 bytes
    let verdict = buffers[2]["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("not applicable"), "{verdict}");
}

#[test]
fn a_flapping_link_is_no_result() {
    let lab = Lab::new();
    let line = [
        &["trial"],
        SIM,
        &[
            "capacity=1e6,flap=1",
            "--max",
            "2e6",
            "--load",
            "500kpps",
            "--for",
            "1s",
            "--json",
        ],
    ]
    .concat();
    let output = lab.run(&line);
    assert_eq!(output.code, 5, "{output:?}");
    let document: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(all_outcomes(&document)[0]["answered"], false);
    let trials = list(&document["trials"]);
    assert_eq!(trials.len(), 3);
    let reasons = trials[0]["validity"]["reasons"].to_string();
    assert!(reasons.contains("went down"), "{reasons}");
}

#[test]
fn ramp_and_soak_say_what_happens() {
    let lab = Lab::new();
    let document = on(
        &lab,
        "ramp",
        "capacity=2e6,link=10Gbps,livelock=0.2",
        &["--up-down"],
    );
    let found = &all_outcomes(&document)[0]["found"];
    assert!(
        (number(&found["up"]["saturation_pps"]) - 2e6).abs() < 5e4,
        "{}",
        found["up"]
    );
    assert!(
        all_outcomes(&document)[0]["warnings"]
            .to_string()
            .contains("livelock")
    );
    let document = on(
        &lab,
        "soak",
        "capacity=1e6,drift=-30%/h",
        &["--max", "2e6", "--load", "900kpps"],
    );
    assert_eq!(all_outcomes(&document)[0]["found"]["passed"], false);
    let document = on(
        &lab,
        "soak",
        "capacity=1e6",
        &["--max", "2e6", "--for", "2min"],
    );
    let load = number(&all_outcomes(&document)[0]["found"]["critical_load_pps"]);
    assert!((load / 1e6 - 1.0).abs() < 0.01, "{load}");
}

/// How many trials a suite takes depends on what the DUT forwards, by more than a factor of two.
#[test]
fn what_is_estimated_is_made() {
    let lab = Lab::new();
    for capacity in ["2e5", "3e6", "8e6"] {
        let dut = format!("capacity={capacity},link=10Gbps,buffer=500,reboot=8s");
        let more = ["--sizes", "64,512", "--json-stream"];
        let output = lab.run(&[&["rfc2544"], SIM, &[dut.as_str()], &more[..]].concat());
        output.code(0);
        let events = output.out.lines();
        let events = events.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let (mut estimated, mut made) = (0.0, 0.0);
        for event in events {
            match event["event"].as_str().unwrap() {
                "run_started" => estimated = number(&event["steps"]),
                "trial_finished" => made += 1.0,
                _ => {}
            }
        }
        let wrong = made / estimated;
        assert!((1.0 / 1.3..1.3).contains(&wrong), "{dut}: {wrong}");
    }
}

#[test]
fn events_and_explanations() {
    let lab = Lab::new();
    let line = [
        &["rfc2544"],
        SIM,
        &[
            "capacity=1e6,link=1Gbps",
            "--sizes",
            "64",
            "--tests",
            "throughput",
        ],
    ]
    .concat();
    let output = lab.run(&[&line[..], &["--json-stream"]].concat());
    let events: Vec<Value> = output
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["event"], "run_started");
    assert_eq!(events[events.len() - 1]["event"], "run_finished");
    let output = lab.run(&[&line[..], &["--explain"]].concat());
    let text = output.out;
    assert!(
        text.contains("Ended early") && text.contains("alfway between"),
        "{text}"
    );
    assert!(text.contains("procedure, shortened"), "{text}");
}

/// What was shown at the end is shown again from what is stored, to the byte.
#[test]
fn a_stored_run_shows_the_same_again() {
    let lab = Lab::new();
    let sim = |command: &'static str, dut: &'static str, more: &[&'static str]| {
        [&[command], SIM, &[dut], more].concat()
    };
    let line = "capacity=1e6,link=10Gbps,buffer=300,latency=15us,jitter=2us,noise=0.01";
    for line in [
        sim("rfc2544", line, &["--sizes", "64,1518"]),
        sim("ramp", line, &["--ramp", "1min", "--up-down"]),
        sim("soak", line, &["--load", "900kpps", "--for", "1min"]),
        sim("soak", line, &["--for", "2min"]),
        sim("ndr", line, &["--goals", "ndr,pdr", "--explain"]),
        sim(
            "trial",
            line,
            &["--load", "1Mpps", "--delays", "--sample", "1s"],
        ),
    ] {
        let measured = lab.run(&line);
        assert!([0, 5].contains(&measured.code), "{line:?}: {measured:?}");
        assert!(
            measured.out.lines().all(|line| line.starts_with("saved")
                || line.starts_with("report")
                || line.chars().count() <= 80),
            "{}",
            measured.out
        );
        let show = |arguments: &[&str]| {
            let shown = lab.run(&[&["runs", "show", "@1"], arguments].concat());
            shown.code(0);
            shown.out
        };
        let explain = line.iter().find(|word| **word == "--explain");
        assert_eq!(
            show(explain.map_or(&[][..], std::slice::from_ref)),
            measured.out
        );
        let directory = measured.out.lines().find(|line| line.starts_with("saved"));
        let directory = Path::new(directory.unwrap()["saved".len()..].trim());
        let page = fs::read_to_string(directory.join("report.html")).unwrap();
        assert_eq!(show(&["--format", "html"]).trim(), page.trim());
        let markdown = show(&["--format", "markdown"]);
        assert!(
            markdown.starts_with("**") && markdown.contains("| ---:"),
            "{markdown}"
        );
        let csv = show(&["--format", "csv"]);
        // as many values as names in every line, those in quotes counted as one
        let values = |row: &str| {
            let outside: String = row.split('"').step_by(2).collect();
            outside.matches(',').count()
        };
        let columns: Vec<usize> = csv.lines().map(values).collect();
        assert!(columns.len() > 1, "{csv}");
        assert!(columns.iter().all(|n| *n == columns[0]), "{csv}");
    }
    // --json at the end and later
    let line = sim(
        "trial",
        "capacity=1e6",
        &["--max", "2e6", "--for", "1s", "--json"],
    );
    assert_eq!(
        lab.run(&line).out,
        lab.run(&["runs", "show", "@1", "--json"]).out
    );
    lab.run(&["runs", "show", "@1", "--json", "--format", "csv"])
        .code(2);
}

/// Every trial that measured delays has an HDR histogram log, and another reader finds in it what the record says.
#[test]
fn delays_are_kept_as_histograms() {
    let lab = Lab::new();
    let document = on(
        &lab,
        "rfc2544",
        "capacity=1e6,link=10Gbps,latency=15us,jitter=2us",
        &["--sizes", "64,1518", "--tests", "latency"],
    );
    let directory = Path::new(document["directory"].as_str().unwrap());
    let with_delays: Vec<&Value> = list(&document["trials"])
        .iter()
        .filter(|trial| trial["asked"]["answer"]["delays"].is_object())
        .collect();
    assert_eq!(with_delays.len(), 6);
    let mut logs = Vec::new();
    for trial in &with_delays {
        let log = trial["asked"]["latency_log"].as_str().unwrap();
        assert!(
            log.starts_with("raw/") && log.ends_with("/latency.hlog"),
            "{log}"
        );
        logs.push(directory.join(log));
    }
    let points = &outcomes(&document, "latency")[0]["found"]["points"][0];
    let delays = &points["repetitions"][0];
    assert_eq!(delays["frames"], 500);
    assert!(
        delays["p90_ns"].is_u64() && delays["p9999_ns"].is_null(),
        "{delays}"
    );
    let venv = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python3");
    let mut pythons = [venv, "python3"].into_iter();
    let has_reader = |python: &&str| {
        let probe = Command::new(python)
            .args(["-c", "import hdrh.log"])
            .output();
        probe.is_ok_and(|probe| probe.status.success())
    };
    let Some(python) = pythons.find(has_reader) else {
        skipped(
            "delays_are_kept_as_histograms",
            "Python's hdrhistogram is not installed; scripts/bootstrap --tests installs it",
        );
        return;
    };
    let reader = "
import sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
for path in sys.argv[1:]:
    h = HistogramLogReader(path, HdrHistogram(1, (1 << 40) - 1, 3)).get_next_interval_histogram()
    print(h.get_total_count(), h.get_value_at_percentile(50), h.get_value_at_percentile(99.9))
";
    let output = Command::new(python)
        .args(["-c", reader])
        .args(&logs)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let found = String::from_utf8(output.stdout).unwrap();
    for (trial, line) in with_delays.iter().zip(found.lines()) {
        let delays = &trial["asked"]["answer"]["delays"];
        let said = ["frames", "p50_ns", "worst_case_ns"].map(|field| number(&delays[field]));
        let read: Vec<f64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        for (said, read) in said.iter().zip(&read) {
            // three digits
            assert!((read / said - 1.0).abs() < 0.001, "{line}: {delays}");
        }
    }
}

/// In its shortest form, end to end on the kernel of this host.
#[test]
fn the_suite_runs_on_the_kernel_of_this_host() {
    if !root("the_suite_runs_on_the_kernel_of_this_host") {
        return;
    }
    let lab = Lab::new();
    let line = [
        "rfc2544",
        "--sizes",
        "64",
        "--tests",
        "throughput,frame-loss",
        "--max",
        "200kpps",
        "--trial",
        "200ms",
        "--search",
        "100ms",
        "--resolution",
        "25",
        "--json",
    ];
    let output = lab.run(&line);
    // a noisy host may make the answer invalid, never absent
    output.measured();
    let document: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(all_outcomes(&document).len(), 2);
    for outcome in all_outcomes(&document) {
        assert!(
            outcome["compliance"]["shortened"]
                .to_string()
                .contains("200 ms instead of 60 s")
        );
        let verdict = outcome["verdict"].as_str().unwrap();
        match number(&outcome["trials"]) > 0.0 {
            true => (),
            // a thread that got no CPU for as long as a trial takes
            false if is_held_up(verdict) => {
                skipped(
                    "the_suite_runs_on_the_kernel_of_this_host",
                    &format!("this host held the sender up: {verdict}"),
                );
                return;
            }
            false => panic!("{outcome}"),
        }
    }
    assert!(
        document["noise"]["verdict"]
            .as_str()
            .unwrap()
            .contains("trials")
    );
}

/// Capacity as simulated; one frame in a hundred is a broadcast, which costs the simulated DUT nothing.
#[test]
fn series_of_a_simulated_dut_have_known_truths() {
    let lab = Lab::new();
    let dut = "capacity=1e6,link=10Gbps";
    let document = on(
        &lab,
        "rfc2544",
        dut,
        &[
            "--sizes",
            "64",
            "--tests",
            "throughput",
            "--full",
            "--resolution",
            "0.01",
            "--destinations",
            "both",
            "--both-directions",
            "--modifier",
            "broadcast",
        ],
    );
    let found = outcomes(&document, "throughput");
    let series: Vec<(&str, bool)> = found
        .iter()
        .map(|o| {
            (
                o["variant"]["destinations"].as_str().unwrap(),
                o["variant"]["modifiers"].is_array(),
            )
        })
        .collect();
    let expect = [
        ("single", false),
        ("single", true),
        ("random", false),
        ("random", true),
    ];
    assert_eq!(series, expect);
    for (outcome, (_, modified)) in found.iter().zip(expect) {
        // each direction has half of the DUT
        let truth = if modified { 5e5 / 0.99 } else { 5e5 };
        let pps = number(&outcome["found"]["throughput_pps"]);
        let resolution = number(&outcome["found"]["resolution_pps"]);
        assert!(
            pps <= truth && truth - pps <= resolution,
            "{pps} of {truth}: {outcome}"
        );
        let label = outcome["compliance"]["shortened"].to_string();
        assert!(
            !label.contains("direction") && !label.contains("address pair"),
            "{label}"
        );
    }
    for trial in list(&document["trials"]) {
        let directions = list(&trial["directions"]);
        assert_eq!(directions.len(), 2, "{trial}");
        let sum = |of: &str| directions.iter().map(|d| number(&d[of])).sum::<f64>();
        assert_eq!(sum("frames_sent"), number(&trial["frames_sent"]));
        assert_eq!(sum("frames_received"), number(&trial["frames_received"]));
        if trial["variant"]["modifiers"].is_array() {
            let beside = number(&trial["frames_beside"]);
            assert!((beside - sum("frames_sent") / 99.0).abs() <= 2.0, "{trial}");
        }
    }
    let head = fs::read_to_string(lab.only_run().join("run.json")).unwrap();
    let head: Value = serde_json::from_str(&head).unwrap();
    assert_eq!(head["parameters"]["both_directions"], true);
    assert_eq!(list(&head["parameters"]["series"]).len(), 4);
}

/// 7 x 64, 4 x 594 and 1 x 1518 bytes: twelve frames in 4582 bytes of the line.
#[test]
fn a_profile_has_its_own_line_rate() {
    let lab = Lab::new();
    let more = ["--profile", "imix", "--tests", "throughput"];
    let document = on(&lab, "rfc2544", "capacity=1e9,link=10Gbps", &more);
    let outcome = outcomes(&document, "throughput")[0];
    let line = 1e10 * 12.0 / (8.0 * 4582.0);
    assert!(
        (number(&outcome["found"]["throughput_pps"]) / line - 1.0).abs() < 1e-9,
        "{outcome}"
    );
    assert_eq!(outcome["variant"]["profile"], "imix");
    assert!(
        outcome["compliance"]["shortened"]
            .to_string()
            .contains("profile imix")
    );
    let document = lab.json(
        &[
            &["ndr", "--profile", "imix"],
            SIM,
            &["capacity=1e6,link=10Gbps"],
        ]
        .concat(),
    );
    assert_eq!(all_outcomes(&document)[0]["variant"]["profile"], "imix");
    assert_eq!(document["trials"][0]["test_case"], "imix");
}

#[test]
fn what_series_cannot_be_is_told_before_anything_happens() {
    let lab = Lab::new();
    let sim = |command: &'static str, more: &[&'static str]| {
        [&[command], SIM, &["capacity=1e6,link=10Gbps"], more].concat()
    };
    for (line, words) in [
        (
            sim("rfc2544", &["--profile", "imix", "--sizes", "64"]),
            "--sizes",
        ),
        (
            sim("trial", &["--profile", "imix", "--size", "64"]),
            "--size",
        ),
        (
            sim("trial", &["--profile", "imix", "--flows", "7"]),
            "--flows",
        ),
        (sim("trial", &["--profile", "tcp-syn"]), "signature"),
        (
            sim("trial", &["--profile", "nothing"]),
            "no profile `nothing`",
        ),
        (sim("trial", &["--destinations", "all"]), "random"),
        (sim("trial", &["--modifier", "noise"]), "no `noise`"),
        (
            sim("trial", &["--modifier", "broadcast,broadcast"]),
            "one of them",
        ),
        (
            sim("trial", &["--modifier", "filters=25"]),
            "has no rules, routes",
        ),
        (sim("trial", &["--modifier", "management"]), "or management"),
        (sim("trial", &["--modifier", "filters=7"]), "filters=25"),
    ] {
        lab.run(&line).code(2).says(&[words]);
    }
}

/// The kernel of this host forwards both ways, mixes and broadcasts; the ports' own counters say the same.
#[test]
fn series_on_the_kernel_of_this_host() {
    if !root("series_on_the_kernel_of_this_host") {
        return;
    }
    let lab = Lab::new();
    let document = lab.json(&[
        "trial",
        "--load",
        "20kpps",
        "--for",
        "500ms",
        "--max",
        "30kpps",
        "--profile",
        "imix",
        "--both-directions",
        "--modifier",
        "broadcast",
    ]);
    let trials = list(&document["trials"]);
    let (mut plain, mut modified) = (0, 0);
    for trial in trials {
        let counters = &trial["counters"];
        let sent = number(&trial["frames_sent"]);
        let beside = trial["frames_beside"].as_f64().unwrap_or(0.0);
        // of the ports of the bed, read by the kernel
        let through = |stage| passed(trial, stage) as f64;
        assert_eq!(through("generator_port"), sent + beside, "{trial}");
        assert_eq!(through("dut_input"), sent + beside);
        assert_eq!(
            through("receiver_port"),
            // the kernel of the DUT may say a word of its own
            number(&trial["frames_received"]) + number(&counters["receiver_foreign"])
        );
        let directions = list(&trial["directions"]);
        assert_eq!(directions.len(), 2);
        assert!(
            directions
                .iter()
                .all(|d| number(&d["frames_received"]) > 0.0),
            "{trial}"
        );
        let [there, back] = [0, 1].map(|k| number(&directions[k]["frames_sent"]));
        assert!((there - back).abs() <= 0.01 * there + 1.0, "{there} {back}");
        if trial["variant"]["modifiers"].is_array() {
            // one frame in a hundred of each direction, also where the sender was held up and few left
            let wanted = 0.01 * (sent + beside);
            assert!(
                (beside - wanted).abs() <= 2.0 + 0.05 * wanted,
                "{beside} of {sent}"
            );
            modified += 1;
        } else {
            assert_eq!(beside, 0.0);
            plain += 1;
        }
    }
    assert!(plain > 0 && modified > 0);
    let document = lab.json(&[
        "trial",
        "--load",
        "20kpps",
        "--for",
        "500ms",
        "--max",
        "30kpps",
        "--destinations",
        "random",
    ]);
    for trial in list(&document["trials"]) {
        assert!(number(&trial["frames_received"]) > 0.0, "{trial}");
    }
    lab.assert_clean("series");
}

/// Rules and routes of the DUT are read from outside while the series runs: the kernel counts what each rule examined.
#[test]
fn filters_and_updates_are_on_the_dut_while_their_series_runs() {
    const TEST: &str = "filters_and_updates_are_on_the_dut_while_their_series_runs";
    if !root(TEST) {
        return;
    }
    if crate::support::try_tool(&["nft", "--version"]).is_err() {
        skipped(TEST, "there is no nft");
        return;
    }
    let lab = Lab::new();
    let mut run = lab.start(&[
        "trial",
        "--load",
        "10kpps",
        "--for",
        "1500ms",
        "--max",
        "20kpps",
        "--modifier",
        "filters=25,updates=200ms",
    ]);
    let inside = |line: &[&str]| {
        let namespaces = crate::support::namespaces();
        let ours = namespaces.iter().filter(|name| name.ends_with("-dut0"));
        let said = ours.map(|name| {
            crate::support::try_tool(&[&["ip", "netns", "exec", name], line].concat())
                .unwrap_or_default()
        });
        said.collect::<String>()
    };
    // of each rule: frames, and whether it accepts
    let (mut rules, mut hops) = (Vec::new(), std::collections::BTreeSet::new());
    while !run.has_ended() {
        let table = inside(&["nft", "list", "table", "inet", "fwdlab_filters"]);
        let now: Vec<(u64, bool)> = (table.lines())
            .filter_map(|line| {
                let (_, counts) = line.split_once("counter packets ")?;
                Some((
                    counts.split(' ').next()?.parse().ok()?,
                    line.ends_with("accept"),
                ))
            })
            .collect();
        if !now.is_empty() {
            rules = now;
            hops.extend(
                inside(&["ip", "route", "show", "198.51.100.0/28"])
                    .lines()
                    .map(str::to_owned),
            );
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run.wait(crate::support::PATIENCE).measured();
    // 24 that match nothing, the one that permits, the denial of all else, which has seen the frames of the proof
    assert_eq!(rules.len(), 26, "{rules:?}");
    assert!(
        rules[..24].iter().all(|rule| *rule == (0, false)),
        "{rules:?}"
    );
    assert!(rules[24].1 && rules[24].0 > 1000, "{rules:?}");
    assert!(
        !rules[25].1 && (1..1000).contains(&rules[25].0),
        "{rules:?}"
    );
    assert_eq!(hops.len(), 2, "{hops:?}");
    let kept = lab.only_run().join("inputs/series");
    let of_series = fs::read_dir(kept).unwrap().next().unwrap().unwrap().path();
    let kept = |name: &str| fs::read_to_string(of_series.join(name)).unwrap();
    assert!(kept("filters.txt").contains("ip saddr 192.0.2.24 "));
    assert!(kept("updates.txt").contains("state B"));
    lab.assert_clean("filters");
}

/// A burst of n frames at line rate takes n/C to forward and (n-1)/line to come in.
#[test]
fn bursty_traffic_finds_the_gap() {
    let lab = Lab::new();
    let more = ["--sizes", "64", "--burst", "16,1024", "--tests", "bursts"];
    let document = on(
        &lab,
        "rfc2544",
        "capacity=1e6,link=10Gbps,buffer=500",
        &more,
    );
    let outcome = outcomes(&document, "bursts")[0];
    let bursts = list(&outcome["found"]["bursts"]);
    let line = 1e10 / 672.0;
    let truth = 16.0 / 1e6 - 15.0 / line;
    let gap = number(&bursts[0]["gap_s"]);
    assert!(
        (0.99 * truth..=1.01 * truth).contains(&gap),
        "{gap}, not {truth}"
    );
    // 1024 frames need 955 places
    assert!(bursts[1]["gap_s"].is_null(), "{outcome}");
    assert!(
        outcome["verdict"]
            .as_str()
            .unwrap()
            .contains("1024 frames lose"),
        "{outcome}"
    );
    let line = [
        &["rfc2544"],
        SIM,
        &["capacity=1e6,link=10Gbps", "--burst", "16"],
    ]
    .concat();
    for (more, words) in [
        (&["--burst", "1"][..], "at least two"),
        (&["--profile", "imix"], "have their own timing"),
        (&["--modifier", "broadcast"], "have their own timing"),
    ] {
        lab.run(&[&line[..], more].concat()).code(2).says(&[words]);
    }
}

/// On the kernel of this host: every trial is of bursts, and its frames are counted by the ports as they are by us.
#[test]
fn bursts_on_the_kernel_of_this_host() {
    const TEST: &str = "bursts_on_the_kernel_of_this_host";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let document = lab.json(&[
        "rfc2544", "--sizes", "64", "--tests", "bursts", "--burst", "16", "--max", "100kpps",
        "--trial", "400ms", "--search", "400ms",
    ]);
    let outcome = outcomes(&document, "bursts")[0];
    if is_held_up(outcome["verdict"].as_str().unwrap()) {
        return skipped(TEST, NOT_REACHED);
    }
    assert!(number(&outcome["trials"]) >= 1.0, "{outcome}");
    for trial in list(&document["trials"]) {
        assert_eq!(trial["engine"], "af-packet");
        let question = &trial["asked"]["question"];
        assert_eq!(number(&question["bursts"]["frames"]), 16.0);
        let handed = passed(trial, "generator_port") + dropped(trial, "generator_port");
        assert_eq!(handed as f64, number(&trial["frames_sent"]), "{trial}");
    }
    lab.assert_clean("bursts");
}

/// Queries and answers are counted from outside: by the kernel of the DUT.
#[test]
fn the_dut_is_managed_while_its_series_runs() {
    const TEST: &str = "the_dut_is_managed_while_its_series_runs";
    if !root(TEST) {
        return;
    }
    let line = |time| {
        [
            "trial",
            "--load",
            "10kpps",
            "--for",
            time,
            "--max",
            "20kpps",
            "--modifier",
            "management",
        ]
    };
    let lab = Lab::new();
    // something that listens and is no agent: the query comes back
    let set = "setsid python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((\"0.0.0.0\", 161))
while True: s.sendto(*s.recvfrom(2000))' > /dev/null 2>&1 & until grep -q :00A1 /proc/net/udp; do sleep 0.05; done";
    lab.run(&[&line("500ms")[..], &["--set", set]].concat())
        .code(4)
        .says(&[
            "no SNMP agent on the DUT",
            "not an SNMPv2c message",
            "apt-get install snmpd",
        ]);
    lab.assert_clean("what is no agent");
    drop(lab);

    let programs = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    if !std::env::split_paths(&programs).any(|path| path.join("snmpd").is_file()) {
        skipped(TEST, "there is no snmpd");
        return;
    }
    let lab = Lab::new();
    let mut run = lab.start(&line("3s"));
    // datagrams that came in and went out, and the agent
    let (mut datagrams, mut agents) = (Vec::new(), std::collections::BTreeSet::new());
    while !run.has_ended() {
        let namespaces = crate::support::namespaces();
        let ours = namespaces.iter().find(|name| name.ends_with("-dut0"));
        if let Some(dut) = ours {
            let inside = |line: &[&str]| crate::support::try_tool(line).unwrap_or_default();
            let counts = inside(&["ip", "netns", "exec", dut, "cat", "/proc/net/snmp"]);
            let udp = counts.lines().rfind(|line| line.starts_with("Udp: "));
            let numbers = udp.into_iter().flat_map(|line| line.split(' '));
            let now: Vec<u64> = numbers.filter_map(|n| n.parse().ok()).collect();
            if now.len() > 3 {
                // InDatagrams, OutDatagrams (RFC 4113)
                datagrams = vec![now[0], now[3]];
            }
            let pids = inside(&["ip", "netns", "pids", dut]);
            agents.extend(pids.lines().filter_map(|pid| {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
                (name.trim() == "snmpd").then(|| pid.to_owned())
            }));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run.wait(crate::support::PATIENCE).measured();
    assert_eq!(agents.len(), 1, "{agents:?}");
    let agent = format!("/proc/{}/comm", agents.first().unwrap());
    let still = fs::read_to_string(agent).unwrap_or_default();
    assert_ne!(still.trim(), "snmpd");

    let run = lab.only_run();
    let (mut asked, mut trials) = (0.0, 0);
    for trial in &crate::support::json_lines(&run.join("trials.jsonl")) {
        let answer = &trial["asked"]["answer"];
        if !trial["variant"]["modifiers"].is_array() {
            assert!(answer["management"].is_null(), "{trial}");
            continue;
        }
        let queries = &answer["management"];
        assert!(number(&queries["asked"]) >= 3.0, "{queries}");
        assert_eq!(queries["asked"], queries["answered"], "{queries}");
        asked += number(&queries["asked"]);
        trials += 1;
    }
    assert!(trials > 0);
    // beside the trials one query that found the agent, and those that came before it listened
    let [queries, answers] = datagrams[..] else {
        panic!("{datagrams:?}")
    };
    assert_eq!((queries, answers), (asked as u64 + 1, asked as u64 + 1));
    let of_series = fs::read_dir(run.join("inputs/series"));
    let of_series = of_series.unwrap().next().unwrap().unwrap().path();
    let kept = fs::read_to_string(of_series.join("management.txt")).unwrap();
    assert!(kept.contains("rocommunity=public 169.254.11.2"), "{kept}");
    lab.assert_clean("management");
}

/// The truth of a DUT is planted, and its tester has a limit and is held up: what is said is right, or it is said that it cannot be told.
/// More runs of it: `scripts/judge --runs 200`.
#[test]
fn planted_truths_are_found_or_nothing_is_said() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/judge");
    let judged = Command::new("python3")
        .args([script, "--runs", "10", "--seed", "3", "--program", PROGRAM])
        .output()
        .unwrap();
    assert!(judged.status.success(), "{judged:?}");
}
