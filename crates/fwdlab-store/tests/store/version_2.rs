//! Results of version 2, which had one list per kind of procedure, are read as test cases.

use std::fs;
use std::path::Path;

use fwdlab_model::outcome::Found;
use fwdlab_model::result::Summary;
use fwdlab_model::test_case::TestCase;
use fwdlab_model::version::RUN_FORMAT;
use serde_json::{Value, json};

use super::samples::{finished, info};

const ID: &str = "2026-11-22-quick-evtx";

/// Reads a run of version 2; `kept` has its summary and the relevant part of its header.
fn read(root: &Path, kept: &str) -> (Summary, Value) {
    let kept: Value = serde_json::from_str(kept).unwrap();
    let head = finished(&info(ID, "2026-11-22T16:28:03Z"));
    let run = root.join(&head.id);
    fs::create_dir(&run).unwrap();
    let mut head = serde_json::to_value(&head).unwrap();
    head["format"] = 2.into();
    for key in ["kind", "parameters"] {
        head[key] = kept["info"][key].clone();
    }
    fs::write(run.join("run.json"), head.to_string()).unwrap();
    fs::write(run.join("summary.json"), kept["summary"].to_string()).unwrap();
    fs::write(run.join("trials.jsonl"), "").unwrap();
    fs::write(run.join("events.jsonl"), "").unwrap();
    let read = fwdlab_store::load(&run).unwrap();
    assert_eq!(read.problems, [""; 0]);
    let summary = read.summary.unwrap();
    assert_eq!(summary.format, RUN_FORMAT);
    (summary, kept["summary"].clone())
}

fn name_and_configuration(case: &TestCase) -> (&str, &str) {
    (&case.test_case, &case.case.configuration)
}

/// `fwdlab quick --size 64,512 --flows 1 -n 3`, with a second attempt.
#[test]
fn windows_of_a_command() {
    let root = tempfile::tempdir().unwrap();
    let (summary, kept) = read(root.path(), include_str!("version_2/quick.json"));
    let [first, second] = &summary.test_cases[..] else {
        panic!("{summary:?}");
    };
    assert_eq!(name_and_configuration(first), ("64B-1flow-ipv4", "plain"));
    assert_eq!(second.case.stream.frame_size_bytes.bytes(), 512);
    for (case, kept) in [first, second]
        .into_iter()
        .zip(kept["test_cases"].as_array().unwrap())
    {
        let figure = case.forwarding_rate().unwrap();
        assert_eq!(json!(figure.values), kept["iterations_pps"]);
        assert_eq!(json!(figure.median), kept["forwarding_rate_pps"]);
        assert_eq!(
            json!(figure.interval_half_width),
            kept["interval_half_width_pps"]
        );
        let found = case.windows().unwrap();
        assert_eq!(json!(found.ledger.frames_sent), kept["frames_sent"]);
        assert_eq!(json!(found.quiet), kept["quiet"]);
        assert_eq!(json!(case.doubt), kept["doubt"]);
        let warnings: Vec<&String> = case.warnings().collect();
        assert_eq!(json!(warnings), kept["warnings"]);
        assert_eq!(case.iterations.len(), 6);
    }
    assert!(summary.control.is_some());
}

/// A configuration and its difference were in a list of comparisons.
#[test]
fn slices_of_a_command() {
    let root = tempfile::tempdir().unwrap();
    let comparison = |configuration: &str, difference: f64| {
        json!({
            "configuration": configuration, "control": false, "difference_percent": difference,
            "interval_percent": [difference - 0.5, difference + 0.5], "detectable_percent": 0.7,
            "verdict": "less", "values_percent": [difference - 0.1, difference, difference + 0.1],
            "forwarding_rate_pps": 8e5, "plain_forwarding_rate_pps": 8.2e5, "warnings": ["a drift"],
        })
    };
    let kept = json!({
        "info": { "kind": "quick", "parameters": { "test_cases": ["84B-7flows-ipv6"], "versus": ["a", "b"] } },
        "summary": {
            "format": 2, "run": ID, "procedure": "paired", "test_cases": [],
            "comparisons": [comparison("a", -2.0), comparison("b", -5.0)],
            "noise": { "calibration": "", "verdict": "", "too_noisy": false }, "warnings": [],
        }
    });
    let (summary, _) = read(root.path(), &kept.to_string());
    let names: Vec<_> = summary
        .test_cases
        .iter()
        .map(name_and_configuration)
        .collect();
    assert_eq!(
        names,
        [("a/84B-7flows-ipv6", "a"), ("b/84B-7flows-ipv6", "b")]
    );
    let b = &summary.test_cases[1];
    assert_eq!(b.case.stream.flows, 7);
    assert_eq!(b.figures[0].values, [-5.1, -5.0, -4.9]);
    assert_eq!(b.figures[0].interval_half_width, Some(0.5));
    assert_eq!(b.iterations.len(), 3);
    let compared: Vec<f64> = summary
        .comparisons()
        .map(|one| one.difference_percent.unwrap())
        .collect();
    assert_eq!(compared, [-2.0, -5.0]);
    let warnings: Vec<&String> = b.warnings().collect();
    assert_eq!(warnings, ["a drift"]);
}

/// `fwdlab rfc2544 --tests throughput,frame-loss --size 64,128`: four outcomes of two sizes.
#[test]
fn outcomes_of_a_suite_belong_to_their_sizes() {
    let root = tempfile::tempdir().unwrap();
    let (summary, kept) = read(root.path(), include_str!("version_2/rfc2544.json"));
    let reported: Vec<(u16, Vec<&str>)> = summary
        .test_cases
        .iter()
        .map(|case| {
            let outcomes = case.outcomes.iter();
            let size = case.case.stream.frame_size_bytes.bytes();
            (size, outcomes.map(|o| o.found.procedure()).collect())
        })
        .collect();
    let both = || vec!["throughput", "frame-loss"];
    assert_eq!(reported, [(64, both()), (128, both())]);
    let figure = &summary.test_cases[1].figures[0];
    assert_eq!(figure.name, "throughput");
    let of_128 =
        kept["outcomes"].as_array().unwrap().iter().find(|outcome| {
            outcome["procedure"] == "throughput" && outcome["frame_size_bytes"] == 128
        });
    assert_eq!(
        json!(figure.median),
        of_128.unwrap()["found"]["throughput_pps"]
    );
}

/// A campaign of two configurations by windows, whose iterations were only numbers.
#[test]
fn windows_of_a_campaign() {
    let root = tempfile::tempdir().unwrap();
    let (summary, kept) = read(root.path(), include_str!("version_2/windows.json"));
    let names: Vec<_> = summary
        .test_cases
        .iter()
        .map(name_and_configuration)
        .collect();
    let expected = ["plain", "rule"].map(|name| (format!("{name}/64B-1flow-ipv4"), name));
    assert_eq!(
        names,
        expected.each_ref().map(|(id, name)| (id.as_str(), *name))
    );
    for (case, kept) in summary
        .test_cases
        .iter()
        .zip(kept["cases"].as_array().unwrap())
    {
        assert_eq!(json!(case.rates()), kept["figures"][0]["values"]);
        let iterations = kept["iterations"].as_array().unwrap();
        for (one, kept) in case.iterations.iter().zip(iterations) {
            let Found::Maxfwd(found) = &one.outcomes[0].found else {
                panic!("{one:?}");
            };
            let kept = &kept["outcomes"][0]["found"];
            assert_eq!(json!(found.quiet.windows), kept["windows"]);
            assert_eq!(json!(found.contended.windows), kept["windows_not_quiet"]);
            assert_eq!(json!(found.offered_load_pps), kept["offered_load_pps"]);
        }
    }
}
