//! `fwdlab ndr` from outside: the check values of the method, known truths of simulated DUTs, what is kept and
//! told, wrong questions, and once the kernel of this host.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::conservation::conserved;
use crate::support::{Lab, PROGRAM, all_outcomes, count, json_lines, list, number, root};

const SIM: &[&str] = &["ndr", "--engine", "sim", "--max", "14880952"];

fn on(lab: &Lab, dut: &str, more: &[&str]) -> Value {
    lab.json(&[SIM, &["--dut", dut], more].concat())
}

fn goals(document: &Value) -> &[Value] {
    list(&found(document)["goals"])
}

fn found(document: &Value) -> &Value {
    &all_outcomes(document)[0]["found"]
}

/// docs/methodology.md, "Check values of searches", from the field's own implementation.
#[test]
fn ndr_and_pdr_of_a_million_frames_are_the_published_ones() {
    let lab = Lab::new();
    let document = on(
        &lab,
        "capacity=1e6",
        &["--goals", "ndr,pdr", "--min", "9001", "--warm-up", "1s"],
    );
    let trials = list(&document["trials"]);
    assert_eq!(trials.len(), 36, "with the warm-up");
    assert_eq!(found(&document)["max_load_index"], 1479);
    let bounds: Vec<[u64; 2]> = goals(&document)
        .iter()
        .map(|goal| {
            assert_eq!(goal["regular"], true);
            ["relevant_lower_bound_index", "relevant_upper_bound_index"]
                .map(|key| count(&goal[key]))
        })
        .collect();
    assert_eq!(bounds, [[940, 941], [941, 942]]);
    let near =
        |value: &Value, expect: f64| assert!((number(value) - expect).abs() < 5e-4, "{value}");
    near(
        &goals(&document)[0]["relevant_lower_bound_pps"],
        999_432.834,
    );
    near(
        &goals(&document)[0]["relevant_upper_bound_pps"],
        1_004_453.039,
    );
    near(
        &goals(&document)[1]["conditional_throughput_pps"],
        1_000_000.039,
    );
    assert_eq!(trials[0]["asked"]["question"]["purpose"], "warm_up");
    let course = list(&found(&document)["course"]);
    assert_eq!(course.len(), 35);
    assert_eq!(count(&course[0]["load_index"]), 1479);
    for (step, trial) in course.iter().zip(&trials[1..]) {
        let (intended, lost) = (
            count(&trial["frames_intended"]),
            count(&trial["frames_lost"]),
        );
        assert_eq!(intended, number(&step["load_pps"]).round() as u64);
        assert_eq!(number(&step["loss_ratio"]), lost as f64 / intended as f64);
        conserved(trial);
        let asked = &trial["asked"]["question"];
        assert_eq!(number(&asked["stretches"][0]["duration_ns"]), 1e9);
        assert!(!asked["reason"].as_str().unwrap().is_empty());
    }
    // what is kept is what was told
    let run = lab.only_run();
    assert_eq!(json_lines(&run.join("trials.jsonl")), trials);
}

/// Truth is known: every bound is where capacity and buffer put it, or the words say why there is none.
#[test]
fn simulated_duts_give_up_their_capacity() {
    let lab = Lab::new();
    for capacity in [50e3, 123_456.0, 3e6, 12e6] {
        for (more, expect) in [
            ("", capacity),
            // 1000 frames hide an excess of 1000 in a second
            (",buffer=1000", capacity + 1000.0),
            (",livelock=2", capacity),
            (",stall=10ms/1s,buffer=1000000", capacity * 1.0),
        ] {
            let document = on(
                &lab,
                &format!("capacity={capacity}{more}"),
                &["--goals", "ndr"],
            );
            let goal = &goals(&document)[0];
            let (lower, upper) = (
                number(&goal["relevant_lower_bound_pps"]),
                number(&goal["relevant_upper_bound_pps"]),
            );
            if more.contains("stall") {
                // a large buffer takes what comes in a stall, and more: at least the capacity passes
                assert!(lower >= 0.99 * expect, "{capacity}{more}: {lower}");
                continue;
            }
            assert!(lower <= expect + 1.0, "{capacity}{more}: {lower}..{upper}");
            assert!(upper >= expect - 1.0, "{capacity}{more}: {lower}..{upper}");
            assert!(1.0 - lower / upper <= 0.005, "{capacity}{more}");
        }
    }
    // one flow uses one core, many use all
    let of_flows = |flows: &str| {
        let arguments = ["--goals", "pdr", "--flows", flows];
        let document = on(&lab, "capacity=1e6,cores=4", &arguments);
        number(&goals(&document)[0]["conditional_throughput_pps"])
    };
    assert!((of_flows("1") / 1e6 - 1.0).abs() < 0.01);
    assert!(of_flows("20000") > 3e6);
}

#[test]
fn duts_at_the_ends_end_with_the_right_words() {
    let lab = Lab::new();
    for (dut, code, words) in [
        ("capacity=1e9", 0, "the largest load meets it"),
        ("capacity=1000", 5, "not even the smallest load meets it"),
        (
            "capacity=1e6,loss=0.5",
            5,
            "not even the smallest load meets it",
        ),
        (
            "capacity=20e6,generator=2Mpps",
            0,
            "the tester is the limit",
        ),
    ] {
        let ended = lab.run(&[SIM, &["--dut", dut, "--goals", "ndr"]].concat());
        ended.code(code);
        let said = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(words), "{dut}: {}", ended.out);
    }
    // a load that the generator did not offer never passes; 0.5 % of its frames may be missing
    let document = on(&lab, "capacity=20e6,generator=2Mpps", &["--goals", "ndr"]);
    assert!(number(&goals(&document)[0]["relevant_lower_bound_pps"]) <= 2e6 / 0.995);
    assert_eq!(goals(&document)[0]["tester_bound"], true);
}

/// Trials that end when they are bad for every goal leave the search as it is, and say so.
#[test]
fn an_early_end_saves_time_and_changes_nothing_else() {
    let lab = Lab::new();
    for (dut, goals_typed) in [
        ("capacity=1e6", "ndr,pdr"),
        (
            "capacity=3e6,buffer=5000,noise=0.02,loss=1e-7,seed=3",
            "ndr;loss=2%,final=5s,sum=30s",
        ),
        ("capacity=2e5,livelock=0.3,cores=2", "rfc2544;pdr"),
    ] {
        let searched = |early: &str| {
            on(
                &lab,
                dut,
                &[
                    "--goals",
                    goals_typed,
                    "--early-end",
                    early,
                    "--time-limit",
                    "9h",
                ],
            )
        };
        let (whole, early) = (searched("no"), searched("yes"));
        let course = |document: &Value| -> Vec<(u64, u64)> {
            let steps = list(&found(document)["course"]).iter();
            steps
                .map(|t| (count(&t["load_index"]), count(&t["duration_ns"])))
                .collect()
        };
        assert_eq!(course(&whole), course(&early), "{dut}");
        assert_eq!(goals(&whole), goals(&early), "{dut}");
        let saved = number(&found(&whole)["traffic_s"]) - number(&found(&early)["traffic_s"]);
        assert!(saved > 1.0, "{dut}: {saved} s");
        let ended = list(&early["trials"])
            .iter()
            .filter(|t| t["asked"]["answer"]["ended_early"] == true);
        for trial in ended.clone() {
            let asked = &trial["asked"]["question"]["stretches"][0];
            let intended = number(&asked["duration_ns"]) / 1e9;
            assert!(number(&trial["duration_s"]) < intended, "{trial}");
            conserved(trial);
        }
        assert!(ended.count() > 0);
        assert!(
            list(&whole["trials"])
                .iter()
                .all(|t| t["asked"]["answer"]["ended_early"].is_null())
        );
    }
    let ended = lab.run(&[SIM, &["--early-end", "yes", "--explain"]].concat());
    let said = ended.code(0).out.split_whitespace().collect::<Vec<_>>();
    assert!(
        said.join(" ")
            .contains("Ended early: its verdict could no longer change"),
        "{}",
        ended.out
    );
}

/// RFC 2544 throughput: eight trials and 139.5 s instead of eleven minutes (docs/methodology.md,
/// "Check values of searches"); named only as shortened.
#[test]
fn rfc2544_takes_its_short_cuts_and_says_so() {
    let lab = Lab::new();
    let document = on(&lab, "capacity=1e6", &["--goals", "rfc2544"]);
    let trials = list(&document["trials"]);
    let seconds: f64 = trials[1..].iter().map(|t| number(&t["duration_s"])).sum();
    assert!(
        trials.len() - 1 <= 10 && seconds < 200.0,
        "{} trials, {seconds} s",
        trials.len()
    );
    let text = lab.run(&[SIM, &["--goals", "rfc2544", "--explain"]].concat());
    text.code(0);
    assert!(
        text.out
            .contains("RFC 2544 §26.1 throughput procedure, shortened:"),
        "{}",
        text.out
    );
    assert!(
        text.out
            .contains("First look: the output at the largest load"),
        "{}",
        text.out
    );
    let shown = lab.run(&["runs", "show", "@1"]);
    assert!(shown.code(0).out.contains("rfc2544"), "{}", shown.out);
}

#[test]
fn one_seed_gives_one_search() {
    let lab = Lab::new();
    let loads = |seed: &str| -> Vec<(u64, u64)> {
        let document = on(&lab, "capacity=1e6,noise=0.01,loss=1e-6", &["--seed", seed]);
        let trials = list(&document["trials"]).iter();
        trials
            .map(|t| (count(&t["frames_intended"]), count(&t["frames_lost"])))
            .collect()
    };
    assert_eq!(loads("7"), loads("7"));
    assert_ne!(loads("7"), loads("8"));
}

#[test]
fn events_are_told_while_it_runs() {
    let lab = Lab::new();
    let ended = lab.run(&[SIM, &["--json-stream"]].concat());
    ended.code(0);
    let events: Vec<Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["event"], "run_started");
    let finished = events
        .iter()
        .filter(|e| e["event"] == "trial_finished")
        .count();
    assert_eq!(finished, 36);
    let last = events.last().unwrap();
    assert_eq!(last["event"], "run_finished");
    assert_eq!(goals(&last["summary"]).len(), 2);
}

#[test]
fn wrong_questions_are_code_2_before_anything_is_made() {
    let lab = Lab::new();
    for (arguments, words) in [
        (&["--min", "2e7"][..], "below the largest"),
        (&["--goals", "npr"], "ndr, pdr, rfc2544, tst009, strict"),
        (
            &["--goal", "loss=0,final=60s,sum=30s"],
            "shorter than one final trial",
        ),
        (&["--goals", "ndr;loss=0"], "twice"),
        (&["--min", "10"], "below one frame"),
        (
            &["--dut", "capacity=1e6,bufer=1"],
            "character 14: there is no key `bufer`",
        ),
        (&["--size", "16385"], "64 to 16384"),
        (&["--flows", "0"], "1 to 60000"),
        (&["--max", "fast"], "fast"),
    ] {
        let base = if arguments[0] == "--max" {
            &SIM[..3]
        } else {
            SIM
        };
        let ended = lab.run(&[base, arguments].concat());
        ended.code(2).says(&[words]);
        assert!(ended.out.is_empty());
    }
    assert!(!lab.runs().exists(), "no run was made");
}

/// The schema of a trial is the one that `fwdlab schema trial` prints.
#[test]
fn trials_are_what_their_schema_says() {
    let lab = Lab::new();
    let document = on(&lab, "capacity=1e6", &[]);
    for (kind, values) in [
        ("trial", list(&document["trials"]).to_vec()),
        ("summary", vec![json_lines_one(&lab)]),
    ] {
        let text = crate::support::tool(&[PROGRAM, "schema", kind]);
        let schema: Value = serde_json::from_str(&text).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for value in &values {
            let wrong: Vec<String> = validator
                .iter_errors(value)
                .map(|e| e.to_string())
                .collect();
            assert!(wrong.is_empty(), "{kind}: {wrong:?}");
        }
    }
}

fn json_lines_one(lab: &Lab) -> Value {
    let text = std::fs::read_to_string(lab.only_run().join("summary.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

const REAL: &[&str] = &[
    "ndr",
    "--goal",
    "loss=50%,exceed=0.5,initial=100ms,final=100ms,sum=300ms,width=20%",
    "--flows",
    "10",
    "--warm-up",
    "100ms",
    "--max",
    "400kpps",
    "--min",
    "20kpps",
    "--time-limit",
    "20s",
];

#[test]
fn a_search_that_is_interrupted_keeps_its_trials() {
    if !root("a_search_that_is_interrupted_keeps_its_trials") {
        return;
    }
    let lab = Lab::new();
    let mut search = lab.start(&[REAL, &["--goals", "tst009", "--json-stream"]].concat());
    search.event("bed_ready");
    std::thread::sleep(Duration::from_millis(700));
    search.signal(Signal::INT);
    let ended = search.wait(Duration::from_secs(20));
    ended.code(130);
    lab.assert_clean("ndr");
    let shown = lab.run(&["runs", "show", "@1", "--json"]);
    let run: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(run["info"]["state"], "interrupted");
}

mod alone {
    use super::*;

    /// The kernel of this host, with a goal so lax that most machines meet it: frames are conserved in every trial.
    #[test]
    fn this_kernel_is_searched_and_every_frame_has_a_fate() {
        if !root("this_kernel_is_searched_and_every_frame_has_a_fate") {
            return;
        }
        let lab = Lab::alone();
        let document = lab.json(REAL);
        let trials = list(&document["trials"]);
        assert!(trials.len() >= 2, "{trials:?}");
        for trial in trials {
            conserved(trial);
            assert!(count(&trial["frames_sent"]) > 0);
        }
        let verdict = document["noise"]["verdict"].as_str().unwrap();
        assert!(verdict.contains("trials had the DUT's CPU"), "{verdict}");
        lab.assert_clean("ndr");
    }
}
