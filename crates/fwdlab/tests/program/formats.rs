//! What is printed and kept follows the committed schemas, and carries the names and units that were promised.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Lab, PATIENCE, json_lines, list, number, root, tool, unsealed};
use crate::support::{PROGRAM, TINY};

const SCHEMAS: [&str; 5] = ["run", "summary", "trial", "rebuild", "event"];

pub fn committed(kind: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schemas/{kind}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Fails with every violation when the value does not follow the committed schema.
#[track_caller]
pub fn follows(kind: &str, value: &Value) {
    let schema = jsonschema::validator_for(&committed(kind)).unwrap();
    let errors: Vec<String> = schema
        .iter_errors(value)
        .map(|e| format!("{} at {}", e, e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{kind}: {errors:#?}");
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_program_prints_the_committed_schemas() {
    for kind in SCHEMAS {
        let printed: Value = serde_json::from_str(&tool(&[PROGRAM, "schema", kind])).unwrap();
        assert_eq!(
            printed,
            committed(kind),
            "{kind}: run `cargo xtask schemas`"
        );
    }
}

/// A schema that lets everything pass would make the tests below worthless.
#[test]
fn the_schemas_refuse_what_is_wrong() {
    for kind in SCHEMAS {
        let schema = jsonschema::validator_for(&committed(kind)).unwrap();
        assert!(!schema.is_valid(&serde_json::json!({})), "{kind}");
    }
    let event = jsonschema::validator_for(&committed("event")).unwrap();
    let warning =
        |text: Value| serde_json::json!({"t": 0.5, "run": "r", "event": "warning", "text": text});
    assert!(event.is_valid(&warning("words".into())));
    assert!(!event.is_valid(&warning(7.into())));
}

#[test]
fn the_document_and_the_files_of_a_run_follow_the_schemas() {
    if !root("the_document_and_the_files_of_a_run_follow_the_schemas") {
        return;
    }
    let lab = Lab::new();
    let mut document = lab.json(TINY);
    let run = lab.only_run();

    let whole = document.as_object_mut().unwrap();
    let take = |whole: &mut serde_json::Map<String, Value>, name: &str| whole.remove(name).unwrap();
    let info = take(whole, "info");
    let trials = take(whole, "trials");
    assert_eq!(take(whole, "directory"), run.to_str().unwrap());
    assert_eq!(list(&take(whole, "rebuilds")).len(), 0);
    // the rest of the document is the summary, the same that is kept
    follows("summary", &document);
    assert_eq!(document, unsealed(read(&run.join("summary.json"))));
    follows("run", &info);
    assert_eq!(info, unsealed(read(&run.join("run.json"))));
    assert_eq!(info["state"], "finished");

    let kept = json_lines(&run.join("trials.jsonl"));
    assert_eq!(kept.len(), list(&trials).len());
    for trial in kept.iter().chain(list(&trials)) {
        follows("trial", trial);
        let is_held_up = number(&trial["windows_not_offered"]) > 0.0;
        for name in [
            "offered_load_pps",
            "forwarding_rate_ungated_pps",
            "duration_s",
        ] {
            assert!(is_held_up || number(&trial[name]) > 0.0, "{name}: {trial}");
        }
        for name in [
            "frames_sent",
            "frames_received",
            "frames_lost",
            "frames_unexplained",
        ] {
            assert!(
                trial[name].is_i64() || trial[name].is_u64(),
                "{name}: {trial}"
            );
        }
    }
    for event in json_lines(&run.join("events.jsonl")) {
        follows("event", &event);
    }
    let html = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(html.contains("<svg") && html.trim_end().ends_with("</html>"));
    assert!(
        !html.contains("src=\"http") && !html.contains("href=\"http"),
        "one file, nothing loaded"
    );
}

#[test]
fn every_line_of_the_stream_is_an_event_and_the_first_names_the_format() {
    if !root("every_line_of_the_stream_is_an_event_and_the_first_names_the_format") {
        return;
    }
    let lab = Lab::new();
    let quick = lab.start(&[TINY, &["--json-stream"]].concat());
    let ended = quick.wait(PATIENCE);
    ended.measured();
    assert_eq!(ended.err, "", "a stream is all that is said");
    let events: Vec<Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    events.iter().for_each(|event| follows("event", event));
    assert_eq!(events[0]["event"], "run_started");
    assert_eq!(events[0]["format"], fwdlab_model::version::EVENT_FORMAT);
    assert_eq!(events[events.len() - 1]["event"], "run_finished");
    let times: Vec<f64> = events.iter().map(|e| number(&e["t"])).collect();
    assert!(times.is_sorted(), "{times:?}");
    let run = lab.only_run();
    assert!(
        events
            .iter()
            .all(|e| e["run"] == run.file_name().unwrap().to_str().unwrap())
    );

    // what is kept is the same, with less of its progress
    let kept = json_lines(&run.join("events.jsonl"));
    let is_progress = |event: &&Value| event["event"] == "progress";
    let lasting = |of: &[Value]| -> Vec<Value> {
        of.iter()
            .filter(|event| !is_progress(event))
            .cloned()
            .collect()
    };
    assert_eq!(lasting(&events), lasting(&kept));
    assert!(kept.iter().all(|event| events.contains(event)));
    let told = events.iter().filter(is_progress).count();
    assert!(
        told > kept.iter().filter(is_progress).count(),
        "{told} of progress"
    );
}

/// Results on standard output, everything else on standard error; a reader that goes away is no error.
#[test]
fn results_and_chatter_are_apart() {
    if !root("results_and_chatter_are_apart") {
        return;
    }
    let lab = Lab::new();
    let ended = lab.run(TINY);
    ended.measured();
    assert!(ended.out.contains("report.html") && ended.out.contains("64"));
    assert!(ended.err.contains("test bed") && !ended.out.contains("test bed"));
    assert!(
        !ended.out.contains('\x1b') && !ended.err.contains('\x1b'),
        "colour in a pipe"
    );

    let quiet = lab.run(&[TINY, &["-q"]].concat());
    quiet.measured();
    assert_eq!(quiet.err, "");

    let pipe = [&[
        "sh",
        "-c",
        "\"$@\" | true; exit ${PIPESTATUS:-0}",
        "sh",
        PROGRAM,
    ][..]]
    .concat();
    let closed = crate::support::ended(lab.with(&pipe, TINY));
    closed.code(0).says(&[]);
}
