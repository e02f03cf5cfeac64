//! Tests that every catalogue entry ends with sentences that answer its question, for plausible
//! results of its procedure.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use fwdlab_measure::campaign::summarise;
use fwdlab_model::campaign::{Campaign, Case};
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{Noise, Summary};
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::version::RUN_FORMAT;
use serde_json::{Value, json};

/// Number of rebuilds or iterations, and how much less each test case forwards than the one before.
const ITERATIONS: u32 = 6;
const LESS: f64 = 0.1;

fn entries() -> Vec<(String, String)> {
    let catalogue = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fwdlab/catalogue");
    let files = |folder: &Path| -> Vec<PathBuf> {
        let listed = fs::read_dir(folder).expect("the catalogue is there");
        let paths = listed.map(|entry| entry.map(|one| one.path()));
        paths.collect::<Result<_, _>>().expect("it can be read")
    };
    let folders = files(&catalogue).into_iter().filter(|path| path.is_dir());
    let all = folders.flat_map(|folder| files(&folder));
    let all = all.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    all.map(|path| {
        let text = fs::read_to_string(&path).expect("an entry can be read");
        (path.display().to_string(), text)
    })
    .collect()
}

/// Returns the result of a procedure on a DUT that forwards `pps`, for the test case at index
/// `place`.
fn found(procedure: &str, pps: f64, place: usize, first: &str) -> Value {
    let spread = json!({"repetitions": 1, "mean": pps, "median": pps, "p1": pps, "p99": pps, "min": pps, "max": pps});
    let percent = -100.0 * LESS * place as f64;
    match procedure {
        "mrr" => {
            json!({"load_pps": 2.0 * pps, "receive_rate_pps": spread, "trials_pps": [pps], "tester_bound": false})
        }
        "equilibrium" => {
            json!({"max_load_pps": 2.0 * pps, "tolerance": 0.01, "equilibrium_pps": pps, "steps": []})
        }
        "forwarding-rate" => json!({
            "load_pps": 2.0 * pps, "forwarding_rate_pps": spread, "not_saturated": false, "lower_forwarding_rate_pps": pps, "samples": []
        }),
        "ramp" => json!({
            "target_pps": 2.0 * pps, "loss_threshold": 0.01, "up": {"resolution_pps": 1.0, "reason": "lost"}, "max_ok_pps": pps,
            "max_forwarding_rate_pps": pps, "held_forwarding_rate_pps": 0.9 * pps, "collapse_ratio": 0.9, "tester_bound": false, "samples": []
        }),
        "recovery" => {
            json!({"overload_pps": 2.0 * pps, "rest_pps": 0.5 * pps, "recovery_s": spread, "repetitions_s": [0.1]})
        }
        "churn" => json!({
            "event": "add", "load_pps": pps, "share": 0.5, "resolution_s": 0.01, "base_pps": spread, "deficit_s": spread, "dips": [], "samples": []
        }),
        "energy" => {
            json!({"meters": [{"name": "package", "idle_watts": 5.0, "full_watts": 9.0, "joules_per_frame": 1e-6}], "points": []})
        }
        "management" => json!({
            "every_s": 0.1, "timeout_s": 1.0, "loads": [],
            "requests": [{"request": "echo", "at": [{"asked": 10, "answered": 10, "wrong": 0, "lost": 0, "silent_s": 0.0}], "late_s": 0.0}]
        }),
        "paired" => json!({"reference": "plain", "points": [{"comparison": {
            "configuration": "x", "control": false, "difference_percent": percent, "interval_percent": [percent - 1.0, percent + 1.0],
            "verdict": "less", "values_percent": [percent], "warnings": [],
        }}]}),
        "exact" => {
            let difference = (place > 0).then(|| json!({
                "reference": first, "instructions_per_frame": 10.0, "interval": [9.0, 11.0], "percent": 1.0, "proven": true
            }));
            json!({
                "image": "i", "kernel": "k", "instructions_per_frame": 1000.0, "interval": [999.0, 1001.0], "through_per_frame": 2000.0,
                "tester_per_frame": 1000.0, "frames": 100, "bursts": 4, "warm_up": 1, "frame_loss_ratio": 0.0, "difference": difference
            })
        }
        _ => panic!("{procedure}: what does it find?"),
    }
}

fn measured(campaign: &Campaign, case: &Case, place: usize, iterations: u32) -> TestCase {
    let iterations = (1..=iterations).map(|iteration| {
        let wander = f64::from(iteration % 3) * 1e-3;
        let pps = 1e6 * (1.0 - LESS * place as f64 / campaign.cases.len() as f64 + wander);
        let procedure = campaign.procedure.id();
        let outcome = json!({
            "frame_size_bytes": case.stream.frame_size_bytes, "procedure": procedure, "verdict": "as found", "answered": true, "compliance": {"standard": "", "shortened": []},
            "found": found(procedure, pps, place, &campaign.cases[0].id()), "trials": 1
        });
        Iteration {
            iteration,
            outcomes: vec![serde_json::from_value::<Outcome>(outcome).expect("an outcome")],
            failure: None,
            trials: vec![iteration],
            ..Iteration::default()
        }
    });
    summarise(case.id(), case, iterations.collect())
}

fn summary(campaign: &Campaign, iterations: u32) -> Summary {
    let cases = campaign.cases.iter().enumerate();
    Summary {
        format: RUN_FORMAT,
        run: "2026-11-21-run-7f3k".into(),
        procedure: "campaign".into(),
        test_cases: cases
            .map(|(at, case)| measured(campaign, case, at, iterations))
            .collect(),
        control: None,
        imported: Vec::new(),
        noise: Noise::default(),
        warnings: Vec::new(),
        thresholds: Vec::new(),
        imix_estimate_l2_bps: None,
    }
}

/// The page of one iteration each of two sizes and two numbers of flows: comparisons without enough
/// values are counted, and the results of all test cases are in one table.
#[test]
fn a_page_says_once_what_all_test_cases_have_in_common() {
    let text =
        "campaign = 'c'\n[matrix]\nsize = [64, 512]\nflows = [1, 2000]\n[procedure]\nid = 'mrr'\n";
    let campaign = Campaign::parse("c", text).unwrap();
    let page = |iterations| {
        let (info, summary) = (common::normal().info, summary(&campaign, iterations));
        let run = fwdlab_report::run::Run::new(&info, &summary);
        fwdlab_report::html::page(&run, fwdlab_report::html::ShownFacts::Brief)
    };
    let [one, six] = [1, ITERATIONS].map(page);
    for (page, few) in [(&one, 1), (&six, 0)] {
        assert_eq!(page.matches("too few values to tell").count(), few);
        assert_eq!(page.matches(">Maximum receive rate<").count(), 1);
    }
    assert!(one.contains("4 comparisons have too few values to tell"));
}

#[test]
fn every_entry_ends_with_an_answer() {
    let entries = entries();
    assert!(entries.len() > 70, "{}", entries.len());
    for (name, text) in entries {
        let campaign = Campaign::parse(&name, &text).unwrap();
        let summary = summary(&campaign, ITERATIONS);
        let mut info = common::normal().info;
        info.parameters = [("question".to_owned(), campaign.question.into())].into();
        let reported = fwdlab_report::text::quick(&info, &summary).to_string();
        eprintln!(
            "{name}: {}",
            reported.split("\n question").nth(1).unwrap_or_default()
        );
        assert!(reported.contains("\n question"), "{name}: {reported}");
        assert!(reported.contains("\n answer"), "{name}: {reported}");
    }
}
