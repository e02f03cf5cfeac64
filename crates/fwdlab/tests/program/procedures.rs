//! `fwdlab trial`, `ramp`, `rfc2544` and `soak` from outside: known truths of simulated DUTs, tables, what is kept and told, and
//! once the kernel of this host.

use serde_json::Value;

use crate::support::{Lab, list, number, root};

const SIM: &[&str] = &["--engine", "sim", "--dut"];

fn on(lab: &Lab, command: &str, dut: &str, more: &[&str]) -> Value {
    lab.json(&[&[command], SIM, &[dut], more].concat())
}

fn outcomes<'a>(document: &'a Value, procedure: &str) -> Vec<&'a Value> {
    let all = list(&document["outcomes"]).iter();
    all.filter(|outcome| outcome["procedure"] == procedure)
        .collect()
}

/// Theoretical rates of RFC 2544 at 10 Gbit/s (methods.md §9.1), capacity, buffer, delay and times as simulated.
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
    assert_eq!(again["outcomes"], document["outcomes"]);
}

#[test]
fn lying_counters_and_flapping_links_are_no_results() {
    let lab = Lab::new();
    for (dut, words) in [
        ("capacity=1e6,counters=1024", "do not add up"),
        ("capacity=1e6,flap=1", "went down"),
    ] {
        let line = [
            &["trial"],
            SIM,
            &[
                dut, "--max", "2e6", "--load", "500kpps", "--for", "1s", "--json",
            ],
        ]
        .concat();
        let output = lab.run(&line);
        assert_eq!(output.code, 5, "{dut}: {output:?}");
        let document: Value = serde_json::from_str(&output.out).unwrap();
        assert_eq!(document["outcomes"][0]["answered"], false);
        let trials = list(&document["trials"]);
        assert_eq!(trials.len(), 3, "{dut}");
        assert!(
            trials[0]["validity"]["reasons"].to_string().contains(words),
            "{}",
            trials[0]["validity"]
        );
    }
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
    let found = &document["outcomes"][0]["found"];
    assert!(
        (number(&found["up"]["saturation_pps"]) - 2e6).abs() < 5e4,
        "{}",
        found["up"]
    );
    assert!(
        document["outcomes"][0]["warnings"]
            .to_string()
            .contains("livelock")
    );
    let document = on(
        &lab,
        "soak",
        "capacity=1e6,drift=-30%/h",
        &["--max", "2e6", "--load", "900kpps"],
    );
    assert_eq!(document["outcomes"][0]["found"]["passed"], false);
    let document = on(
        &lab,
        "soak",
        "capacity=1e6",
        &["--max", "2e6", "--for", "2min"],
    );
    let load = number(&document["outcomes"][0]["found"]["critical_load_pps"]);
    assert!((load / 1e6 - 1.0).abs() < 0.01, "{load}");
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
        text.contains("ended early") && text.contains("half way between"),
        "{text}"
    );
    assert!(text.contains("procedure, shortened"), "{text}");
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
    assert_eq!(list(&document["outcomes"]).len(), 2);
    for outcome in list(&document["outcomes"]) {
        assert!(
            outcome["compliance"]["shortened"]
                .to_string()
                .contains("200 ms instead of 60 s")
        );
        assert!(number(&outcome["trials"]) > 0.0, "{outcome}");
    }
    assert!(
        document["noise"]["verdict"]
            .as_str()
            .unwrap()
            .contains("trials")
    );
}
