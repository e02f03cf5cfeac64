//! Listing runs and naming them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use fwdlab_model::result::RunState;
use fwdlab_store::{Roots, list, resolve};

use super::samples::*;

const OLD: &str = "2026-11-20-quick-7f3k";
const MIDDLE: &str = "2026-11-21-quick-7g00";
const NEW: &str = "2026-11-21-quick-0abc";

fn three_runs(root: &Path) {
    finished_run(root, MIDDLE, "2026-11-21T09:00:00Z");
    finished_run(root, NEW, "2026-11-21T12:00:00.5+02:00");
    finished_run(root, OLD, "2026-11-20T23:00:00Z");
}

#[test]
fn the_newest_run_comes_first() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    assert_eq!(list(&root.join("none")).unwrap(), []);
    three_runs(root);
    let runs = list(root).unwrap();
    let ids: Vec<_> = runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(ids, [NEW, MIDDLE, OLD]);
    let run = &runs[0];
    assert_eq!(run.path, root.join(NEW));
    assert_eq!(run.state, Some(RunState::Finished));
    assert_eq!(
        run.started_at.unwrap().to_string(),
        "2026-11-21T10:00:00.5Z"
    );
    assert_eq!(run.info.as_ref().unwrap().command_line, ["fwdlab", "quick"]);
    assert_eq!(run.summary, Some(summary(NEW)));
    assert_eq!(run.measured_at, run.started_at);
    assert_eq!(run.problems, Vec::<String>::new());
}

#[test]
fn damaged_runs_and_foreign_directories_are_listed_last_and_never_fatal() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    three_runs(root);
    fs::remove_file(root.join(MIDDLE).join("summary.json")).unwrap();
    fs::create_dir(root.join("notes")).unwrap();
    fs::create_dir(root.join("2026-11-22-quick-0000")).unwrap();
    fs::create_dir_all(root.join("2026-11-23-quick-0000/run.json")).unwrap();
    fs::create_dir(root.join(".hidden")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    std::os::unix::fs::symlink(root.join(NEW), root.join("latest")).unwrap();
    let copy = root.join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(root.join(OLD).join("run.json"), copy.join("run.json")).unwrap();

    let runs = list(root).unwrap();
    let found: Vec<_> = runs
        .iter()
        .map(|run| (run.id.as_str(), run.problems.join("; ")))
        .collect();
    let expect = [
        (NEW, ""),
        (MIDDLE, "summary.json: No such file"),
        ("copy", "different names: 2026-11-20-quick-7f3k"),
        (OLD, ""),
        ("notes", "is not a run: it has no run.json"),
        ("2026-11-23-quick-0000", "run.json: Is a directory"),
        ("2026-11-22-quick-0000", "is not a run: it has no run.json"),
    ];
    assert_eq!(found.len(), expect.len(), "{found:#?}");
    for ((id, problems), (expect_id, says)) in found.iter().zip(expect) {
        assert_eq!(*id, expect_id);
        assert!(problems.contains(says), "{id}: {problems}");
        assert_eq!(problems.is_empty(), says.is_empty(), "{id}: {problems}");
    }
}

/// A run that is in two directories is listed once, as in the first.
#[test]
fn runs_of_several_directories_are_found_like_those_of_one() {
    let [own, archive] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [own, archive] = [own.path(), archive.path()];
    finished_run(own, MIDDLE, "2026-11-21T09:00:00Z");
    three_runs(archive);
    let roots = &Roots::new(own.to_owned(), [archive.to_owned()]);
    let runs = list(roots).unwrap().into_iter().map(|run| run.path);
    let expect = [archive.join(NEW), own.join(MIDDLE), archive.join(OLD)];
    assert_eq!(runs.collect::<Vec<_>>(), expect);
    for (name, at) in [("@1", 0), ("@2", 1), ("7g00", 1), (OLD, 2)] {
        assert_eq!(resolve(roots, name).unwrap(), expect[at], "{name}");
    }
    let error = resolve(roots, "7").unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("2 runs: {MIDDLE}, {OLD}")),
        "{error}"
    );
    let error = resolve(roots, "none").unwrap_err().to_string();
    let both = format!("3 runs in {} and {}", own.display(), archive.display());
    assert!(error.contains(&both), "{error}");
}

#[test]
fn a_run_has_many_names() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let said = |name: &str| match resolve(root, name) {
        Ok(path) => path.strip_prefix(root).unwrap().display().to_string(),
        Err(error) => error.to_string().replace(root.to_str().unwrap(), "ROOT"),
    };
    assert_eq!(
        said("@1"),
        "no run is called `@1`: there are no runs in ROOT"
    );
    three_runs(root);
    // Its random characters look like the year of all the others.
    let year = "2026-11-19-quick-2026";
    finished_run(root, year, "2026-11-19T09:00:00Z");
    fs::create_dir(root.join("notes")).unwrap();
    fs::create_dir(root.join("2026-11-22-quick-dead")).unwrap();

    // by start time, not by name; undated runs last
    let there_is = "there are 5 runs in ROOT: 2026-11-21-quick-0abc, 2026-11-21-quick-7g00, \
                    2026-11-20-quick-7f3k, 2026-11-19-quick-2026, 2026-11-22-quick-dead";
    for (name, expect) in [
        (OLD, OLD),
        ("7f3k", OLD),
        ("7f", OLD),
        ("2026-11-20", OLD),
        ("2026-11-21-quick-0", NEW),
        ("@1", NEW),
        ("@2", MIDDLE),
        ("@3", OLD),
        ("2026", year),
        ("dead", "2026-11-22-quick-dead"),
        (
            "7",
            "`7` is ambiguous, it matches 2 runs: 2026-11-21-quick-7g00, 2026-11-20-quick-7f3k",
        ),
        (
            "2026-11-21",
            "`2026-11-21` is ambiguous, it matches 2 runs: 2026-11-21-quick-0abc, 2026-11-21-quick-7g00",
        ),
        ("notes", &format!("no run is called `notes`: {there_is}")),
        ("@5", &format!("no run is called `@5`: {there_is}")),
        ("@0", &format!("no run is called `@0`: {there_is}")),
        ("@x", &format!("no run is called `@x`: {there_is}")),
        ("", &format!("no run is called ``: {there_is}")),
        ("..", &format!("no run is called `..`: {there_is}")),
    ] {
        assert_eq!(said(name), expect, "{name}");
    }
    finished_run(root, "2026-11-18-quick-0000", "2026-11-18T10:00:00Z");
    let error = said("zzz");
    assert!(error.starts_with(
        "no run is called `zzz`: there are 6 runs in ROOT, the latest 2026-11-21-quick-0abc"
    ));
    assert!(!error.contains("quick-dead"), "{error}");
}

#[test]
fn left_overs_of_a_killed_creation_are_removed_when_old() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let left_over = |name: &str, age_s: u64| {
        let dir = root.join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(".lock"), "").unwrap();
        let then = SystemTime::now() - Duration::from_secs(age_s);
        fs::File::open(&dir).unwrap().set_modified(then).unwrap();
        dir
    };
    let young = left_over(".new-2026-11-21-quick-0001", 0);
    let old = left_over(".new-2026-11-21-quick-0002", 3600);
    let busy = left_over(".new-2026-11-21-quick-0003", 3600);
    let from_the_future = root.join(".new-2026-11-21-quick-0004");
    fs::create_dir(&from_the_future).unwrap();
    let later = SystemTime::now() + Duration::from_secs(3600);
    fs::File::open(&from_the_future)
        .unwrap()
        .set_modified(later)
        .unwrap();
    let lock = fs::File::open(busy.join(".lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(list(root).unwrap(), []);
    assert_eq!(
        [young, old, busy, from_the_future].map(|dir| dir.exists()),
        [true, false, true, true]
    );
}

/// The measurement for the note in `index.rs` is printed and not asserted, because it depends on
/// the machine.
#[test]
fn a_thousand_runs_are_listed() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), NEW, "2026-11-21T09:00:00Z");
    // their headers get other ids below
    unprotect(&root.path().join(NEW));
    let text = |name: &str| fs::read_to_string(root.path().join(NEW).join(name)).unwrap();
    let (head, result) = (text("run.json"), text("summary.json"));
    for number in 1..1000 {
        let id = format!("2026-11-21-quick-{number:04}");
        let dir = root.path().join(&id);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("run.json"), head.replace(NEW, &id)).unwrap();
        fs::write(dir.join("summary.json"), &result).unwrap();
    }
    let begin = Instant::now();
    let runs = list(root.path()).unwrap();
    let duration = begin.elapsed();
    println!("1000 runs listed in {duration:?}");
    assert_eq!(runs.len(), 1000);
    assert!(runs.iter().all(|run| run.problems.is_empty()));
}
