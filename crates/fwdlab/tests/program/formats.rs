//! Output and stored files follow the committed schemas, and have the documented names and units.
//! Python's jsonschema decides. Start with [`follows`].

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{
    Lab, PROGRAM, TINY, json_lines, list, number, python_with, read_json, skipped, tool, unsealed,
};

pub fn committed(kind: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schemas/{kind}.json"));
    read_json(&path)
}

/// Asserts that the value follows the committed schema; lists all violations.
#[track_caller]
pub fn follows(kind: &str, value: &Value) {
    all_follow(kind, [value]);
}

#[track_caller]
fn all_follow<'a>(kind: &str, values: impl IntoIterator<Item = &'a Value>) {
    all_valid(&committed(kind), values);
}

/// Asserts that the values follow a schema; lists all violations.
#[track_caller]
pub fn all_valid<'a>(schema: &Value, values: impl IntoIterator<Item = &'a Value>) {
    let values: Vec<&Value> = values.into_iter().collect();
    for (value, violations) in values.iter().zip(violations(schema, &values)) {
        assert!(violations.is_empty(), "{violations:#?}\n{value:#}");
    }
}

/// Asserts that no value follows a schema.
#[track_caller]
pub fn none_valid(schema: &Value, values: &[Value]) {
    let values: Vec<&Value> = values.iter().collect();
    for (value, violations) in values.iter().zip(violations(schema, &values)) {
        assert!(!violations.is_empty(), "it is accepted: {value:#}");
    }
}

/// Returns the violations of a schema by each value; nothing, which is counted as skipped, without
/// Python's jsonschema.
#[track_caller]
fn violations(schema: &Value, values: &[&Value]) -> Vec<Vec<String>> {
    const CHECK: &str = "import json, sys\n\
        from jsonschema.validators import validator_for\n\
        schema, values = json.load(sys.stdin)\n\
        checks = validator_for(schema)(schema)\n\
        checks.check_schema(schema)\n\
        words = lambda error: f'{error.message[:500]} at {error.json_path}'\n\
        print(json.dumps([[words(error) for error in checks.iter_errors(value)] for value in values]))";
    let Some(python) = python_with("jsonschema") else {
        skipped("no Python that has jsonschema");
        return Vec::new();
    };
    let checker = Command::new(python)
        .args(["-c", CHECK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut checker = checker.unwrap();
    let input = json!([schema, values]);
    serde_json::to_writer(checker.stdin.take().unwrap(), &input).unwrap();
    let output = checker.wait_with_output().unwrap();
    assert!(output.status.success(), "the schema cannot be used");
    let found: Vec<Vec<String>> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.len(), values.len());
    found
}

/// A schema that accepts everything would make the next test worthless.
#[test]
fn the_program_prints_the_committed_schemas_which_refuse_what_is_wrong() {
    for kind in ["run", "summary", "trial", "rebuild", "event"] {
        let printed: Value = serde_json::from_str(&tool(&[PROGRAM, "schema", kind])).unwrap();
        let committed = committed(kind);
        assert_eq!(printed, committed, "{kind}: run `cargo xtask schemas`");
        none_valid(&committed, &[json!({})]);
        if kind == "event" {
            let warning =
                |text: Value| json!({"t": 0.5, "run": "r", "event": "warning", "text": text});
            all_valid(&committed, [&warning("words".into())]);
            none_valid(&committed, &[warning(7.into())]);
        }
    }
}

/// The stream, the document and the files of a run contain the same records, ordered by time.
#[test]
fn output_and_files_of_a_run_follow_the_schemas() {
    let Some(lab) = Lab::root() else { return };
    let ended = lab.run(&format!("{TINY} --json-stream"));
    ended.measured();
    assert_eq!(ended.err, "", "a stream is all that is said");
    let reported: Result<Vec<Value>, _> = ended.out.lines().map(serde_json::from_str).collect();
    let events = reported.unwrap();
    all_follow("event", &events);
    assert_eq!(events[0]["event"], "run_started");
    assert_eq!(events[0]["format"], fwdlab_model::version::EVENT_FORMAT);
    assert_eq!(events[events.len() - 1]["event"], "run_finished");
    assert!(events.is_sorted_by_key(|event| number(&event["t"])));
    let run = lab.only_run();
    let id = run.file_name().unwrap().to_str().unwrap();
    assert!(events.iter().all(|e| e["run"] == id));

    // stored events are the same, with fewer progress events
    let kept = json_lines(&run.join("events.jsonl"));
    let is_progress = |event: &&Value| event["event"] == "progress";
    let lasting = |of: &[Value]| -> Vec<Value> {
        let lasting = of.iter().filter(|event| !is_progress(event));
        lasting.cloned().collect()
    };
    assert_eq!(lasting(&events), lasting(&kept));
    assert!(kept.iter().all(|event| events.contains(event)));
    let reported = events.iter().filter(is_progress).count();
    assert!(
        reported > kept.iter().filter(is_progress).count(),
        "{reported} of progress"
    );

    // the document consists of the stored header, summary and trials
    let shown = lab.run("runs show @1 --json");
    let mut document = shown.code(0).document();
    let mut take = |name: &str| document.as_object_mut().unwrap().remove(name).unwrap();
    let (info, trials) = (take("info"), take("trials"));
    assert_eq!(take("directory"), run.to_str().unwrap());
    assert_eq!(list(&take("rebuilds")).len(), 0);
    follows("summary", &document);
    assert_eq!(document, unsealed(read_json(&run.join("summary.json"))));
    follows("run", &info);
    assert_eq!(info, unsealed(read_json(&run.join("run.json"))));
    assert_eq!(info["state"], "finished");
    assert_eq!(list(&trials), json_lines(&run.join("trials.jsonl")));
    all_follow("trial", list(&trials));
    for trial in list(&trials) {
        let is_held_up = number(&trial["windows_not_offered"]) > 0.0;
        for name in [
            "offered_load_pps",
            "forwarding_rate_ungated_pps",
            "duration_s",
        ] {
            assert!(is_held_up || number(&trial[name]) > 0.0, "{name}: {trial}");
        }
    }
    let html = lab.kept("report.html");
    assert!(html.contains("<svg") && html.trim_end().ends_with("</html>"));
    assert!(
        !html.contains("src=\"http") && !html.contains("href=\"http"),
        "one file, nothing loaded"
    );
    // the result follows from the trials
    lab.run("runs verify @1")
        .code(0)
        .prints(&["test_cases, control"]);
}

/// Results go to standard output, everything else to standard error.
#[test]
fn results_go_to_stdout_and_messages_to_stderr() {
    let lab = Lab::new();
    let trial = "trial --engine sim --load 1Mpps --for 1s";
    let ended = lab.run(trial);
    ended.code(0).prints(&["report.html", "64"]);
    assert!(ended.err.contains("1 step, simulated") && !ended.out.contains("1 step"));
    assert!(
        !(ended.out + &ended.err).contains('\x1b'),
        "colour in a pipe"
    );
    assert_eq!(lab.run(&format!("{trial} -q")).code(0).err, "");
    // a simulated DUT has no probes
    let document = lab.json(trial);
    assert!(document["noise"]["states"].is_null(), "{document}");
    assert!(document["trials"][0]["probes"].is_null(), "{document}");
}
