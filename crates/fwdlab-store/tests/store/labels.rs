//! Labels and notes of runs, and rebuilding what is derived from them.

use std::fs::{self, File};
use std::path::Path;

use fwdlab_model::facts::ShownFacts;
use fwdlab_store::{
    Labels, StoreError, export, import_runs, label, labels, list, load, rebuild, resolve,
};

use super::samples::*;

const ID: &str = "2026-11-21-quick-7f3k";
const OTHER: &str = "2026-11-22-quick-0000";
const NOW: &str = "2026-11-21T09:00:00Z";

fn said(tags: &[&str], note: Option<&str>) -> Labels {
    Labels {
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        note: note.map(str::to_owned),
    }
}

#[test]
fn labels_do_not_change_measured_data() {
    let dir = tempfile::tempdir().unwrap();
    finished_run(dir.path(), ID, NOW);
    let run = dir.path().join(ID);
    finished_run(dir.path(), OTHER, NOW);
    assert_eq!(labels(&run).unwrap(), Labels::default());
    let words = said(&["baseline", "q"], Some("first\nlines"));
    label(&run, &words).unwrap();
    assert_eq!(labels(&run).unwrap(), words);
    let loaded = load(&run).unwrap();
    assert_eq!(
        (loaded.problems.clone(), loaded.changed_files()),
        (vec![], vec![])
    );
    // it is found and listed by its labels
    let listed = list(dir.path()).unwrap();
    let of = |id: &str| {
        listed
            .iter()
            .find(|entry| entry.id == id)
            .unwrap()
            .labels
            .clone()
    };
    assert_eq!((of(ID), of(OTHER)), (words.clone(), Labels::default()));
    assert_eq!(resolve(dir.path(), "baseline").unwrap(), run);
    label(&dir.path().join(OTHER), &said(&["baseline"], None)).unwrap();
    let error = resolve(dir.path(), "baseline").unwrap_err();
    assert!(matches!(error, StoreError::Ambiguous { .. }), "{error}");
    // and labels are exported with it
    let mut bytes = Vec::new();
    export(
        std::slice::from_ref(&run),
        &mut bytes,
        Path::new("x"),
        ShownFacts::Full,
    )
    .unwrap();
    let there = tempfile::tempdir().unwrap();
    let taken = import_runs(there.path(), &bytes[..], Path::new("x")).unwrap();
    assert_eq!(labels(&taken[0]).unwrap(), words);
    // invalid labels change nothing
    let error = label(&run, &said(&["two words"], None)).unwrap_err();
    assert!(error.to_string().contains("`two words`"), "{error}");
    let long = "x".repeat(70_000);
    assert!(label(&run, &said(&[], Some(&long))).is_err());
    assert_eq!(labels(&run).unwrap(), words);
}

#[test]
fn damaged_labels_are_reported_and_cost_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    finished_run(dir.path(), ID, NOW);
    let run = dir.path().join(ID);
    label(&run, &said(&["baseline"], None)).unwrap();
    let path = run.join("labels.json");
    let text = fs::read_to_string(&path).unwrap();
    for text in [
        text.replace("baseline", "fastline"),
        "{}".into(),
        String::new(),
    ] {
        fs::write(&path, text).unwrap();
        assert!(matches!(labels(&run), Err(StoreError::Damaged { .. })));
        let listed = list(dir.path()).unwrap();
        assert!(listed[0].problems[0].contains("labels.json"), "{listed:?}");
        assert!(listed[0].summary.is_some());
    }
}

#[test]
fn a_result_that_is_derived_again_is_protected_again() {
    let dir = tempfile::tempdir().unwrap();
    finished_run(dir.path(), ID, NOW);
    let run = dir.path().join(ID);
    let mut summary = load(&run).unwrap().summary.unwrap();
    summary.procedure = "another".into();
    // a page that was lost, or changed by hand, is rebuilt
    fs::write(run.join("report.html"), "mine").unwrap();
    rebuild(&load(&run).unwrap(), &summary, "<p>").unwrap();
    let now = load(&run).unwrap();
    assert_eq!(
        (now.problems.clone(), now.changed_files()),
        (vec![], vec![])
    );
    assert_eq!(now.summary.unwrap(), summary);
    assert_eq!(fs::read_to_string(run.join("report.html")).unwrap(), "<p>");
    // interrupted in between: the new result with the old list
    let list = fs::read(run.join("checksums.sfv")).unwrap();
    summary.procedure = "a third".into();
    rebuild(&load(&run).unwrap(), &summary, "<p>").unwrap();
    fs::write(run.join("checksums.sfv"), list).unwrap();
    rebuild(&load(&run).unwrap(), &summary, "<p>").unwrap();
    assert_eq!(load(&run).unwrap().changed_files(), Vec::<String>::new());
}

#[test]
fn new_checksums_hide_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    finished_run(dir.path(), ID, NOW);
    let run = dir.path().join(ID);
    let summary = load(&run).unwrap().summary.unwrap();
    for name in ["trials.jsonl", "events.jsonl", "inputs/nft.conf"] {
        let path = run.join(name);
        let Ok(whole) = fs::read(&path) else {
            panic!("{name}")
        };
        let mut less = whole.clone();
        less.truncate(less.len() / 2);
        fs::write(&path, &less).unwrap();
        let before = fs::read(run.join("summary.json")).unwrap();
        let error = rebuild(&load(&run).unwrap(), &summary, "<p>").unwrap_err();
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "{name}: {error}"
        );
        assert_eq!(fs::read(run.join("summary.json")).unwrap(), before);
        fs::write(&path, whole).unwrap();
    }
    // a running run is not rebuilt either
    let lock = File::create(run.join(".lock")).unwrap();
    lock.lock().unwrap();
    let error = rebuild(&load(&run).unwrap(), &summary, "<p>").unwrap_err();
    assert!(matches!(error, StoreError::StillRunning { .. }), "{error}");
}
