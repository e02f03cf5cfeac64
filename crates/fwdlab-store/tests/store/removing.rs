//! Removing runs.

use std::fs;

use fwdlab_store::{RunWriter, StoreError, list, load, remove};

use super::samples::*;

const ID: &str = "2026-11-21-quick-7f3k";
const NOW: &str = "2026-11-21T09:00:00Z";

#[test]
fn a_removed_run_is_gone() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, NOW);
    finished_run(root.path(), "2026-11-21-quick-0000", NOW);
    remove(&root.path().join(ID)).unwrap();
    assert_eq!(list(root.path()).unwrap().len(), 1);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    assert!(remove(&root.path().join(ID)).is_err());
}

#[test]
fn a_running_run_stays() {
    let root = tempfile::tempdir().unwrap();
    let run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    let path = run.path().to_owned();
    let error = remove(&path).unwrap_err();
    assert!(matches!(error, StoreError::StillRunning { .. }), "{error}");
    assert!(load(&path).unwrap().problems.is_empty());
    drop(run);
    remove(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn damaged_runs_can_be_removed_and_other_directories_cannot() {
    let root = tempfile::tempdir().unwrap();
    let damaged = root.path().join(ID);
    fs::create_dir_all(damaged.join("raw")).unwrap();
    remove(&damaged).unwrap();
    assert!(!damaged.exists());
    for name in ["notes", ".config"] {
        let path = root.path().join(name);
        fs::create_dir(&path).unwrap();
        let error = remove(&path).unwrap_err();
        assert!(matches!(error, StoreError::NotARun { .. }), "{error}");
        assert!(path.exists());
    }
    let elsewhere = tempfile::tempdir().unwrap();
    finished_run(elsewhere.path(), ID, NOW);
    std::os::unix::fs::symlink(elsewhere.path().join(ID), &damaged).unwrap();
    assert!(remove(&damaged).is_err());
    assert!(elsewhere.path().join(ID).join("run.json").exists());
}

#[test]
fn an_interrupted_removal_is_completed_later() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, NOW);
    let trash = root.path().join(format!(".trash-{ID}"));
    fs::rename(root.path().join(ID), &trash).unwrap();
    // The same id again, removed before any listing: the older remains must not be in the way.
    finished_run(root.path(), ID, NOW);
    remove(&root.path().join(ID)).unwrap();
    assert!(!trash.exists());

    finished_run(root.path(), ID, NOW);
    fs::rename(root.path().join(ID), &trash).unwrap();
    assert_eq!(list(root.path()).unwrap(), []);
    assert!(!trash.exists());
}
