//! Full disks, read-only file systems, missing permissions: real ones, in a mount namespace of a
//! child process.
//!
//! Each test starts itself again in such an environment; if it cannot be created, the test is
//! skipped with the reason.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fwdlab_model::event::EventKind;
use fwdlab_model::result::{RunInfo, RunState};
use fwdlab_store::{RunWriter, StoreError, list, load, remove};

use super::samples::*;

const CHILD: &str = "STORE_TEST_FAULT_IN";
const ID: &str = "2026-11-21-quick-7f3k";
const NOW: &str = "2026-11-21T09:00:00Z";

/// Inside the test's environment, returns its directory. Outside, runs the test again in an
/// environment created by `command` (the test is appended to its words), and returns `None`.
fn world(test: &str, command: &[&str], prepare: impl FnOnce(&Path)) -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os(CHILD) {
        return Some(dir.into());
    }
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    let start = |program: &[&str]| {
        Command::new(command[0])
            .args(&command[1..])
            .args(program)
            .env(CHILD, dir.path())
            .output()
    };
    match start(&["true"]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr);
            skipped(test, reason.trim());
            return None;
        }
        Err(error) => {
            skipped(test, &format!("{}: {error}", command[0]));
            return None;
        }
    }
    let exe = std::env::current_exe().unwrap();
    let output = start(&[exe.to_str().unwrap(), "--exact", test, "--nocapture"]).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    None
}

fn is_root() -> bool {
    // The owner of a file that this process created.
    use std::os::unix::fs::MetadataExt;
    tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
}

/// Returns `unshare` with a script that mounts something on `$STORE_TEST_FAULT_IN` and then runs
/// the words after it.
fn mounted(script: &str) -> Vec<&str> {
    let user = if is_root() { "-m" } else { "-rm" };
    vec!["unshare", user, "sh", "-c", script, "sh"]
}

#[test]
fn a_full_disk_loses_only_what_did_not_fit() {
    let script = format!("mount -t tmpfs -o size=256k none \"${CHILD}\" && exec \"$@\"");
    let test = "store::faults::a_full_disk_loses_only_what_did_not_fit";
    let Some(root) = world(test, &mounted(&script), |_| {}) else {
        return;
    };
    let info = info(ID, NOW);
    let mut run = RunWriter::create(&root, &info).unwrap();
    run.event(&warning(1)).unwrap();
    run.trial(&trial(1)).unwrap();

    let filler = root.join("filler");
    let fill = |leave: u64| {
        let mut file = fs::File::create(&filler).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(leave)).unwrap();
    };
    // Room for a part of the line: it is written partially, and that part must be removed.
    fill(8192);
    let long = |n| {
        event(
            n,
            EventKind::Warning {
                text: "x".repeat(40_000),
            },
        )
    };
    let error = run.event(&long(2)).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("cannot append to "), "{said}");
    assert!(
        said.contains("2026-11-21-quick-7f3k/events.jsonl: No space left on device"),
        "{said}"
    );
    assert!(
        said.contains("Free some space") && said.contains("--runs DIR"),
        "{said}"
    );
    run.event(&warning(3)).unwrap();
    let stored = load(run.path()).unwrap();
    assert_eq!(
        (stored.events(), stored.problems),
        (vec![warning(1), warning(3)], vec![])
    );

    fill(0);
    let error = run
        .raw("a", 1, "intervals.csv", &[0; 10_000])
        .unwrap_err()
        .to_string();
    assert!(error.contains("intervals.csv: No space left"), "{error}");
    assert!(!run.path().join("raw/a/1/intervals.csv").exists());
    let error =
        RunWriter::create(&root, &super::samples::info("2026-11-21-quick-0000", NOW)).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
    let names: Vec<_> = list(&root).unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(names, [ID]);
    assert_eq!(
        fs::read_dir(&root).unwrap().count(),
        2,
        "a run that could not be created leaves nothing"
    );

    // Not a byte is left, but the run still records the error.
    let dir = run.path().to_owned();
    let error = run
        .finish(&finished(&info), Some(&summary(ID)), None)
        .unwrap_err();
    assert!(
        error.to_string().contains("summary.json: No space left"),
        "{error}"
    );
    let stored = load(&dir).unwrap();
    assert_eq!(stored.state, RunState::Failed);
    assert_eq!(stored.info.error, Some(error.to_string()));
    assert_eq!((stored.summary, stored.trials), (None, vec![trial(1)]));
    assert_eq!(stored.problems, Vec::<String>::new());

    // There is no room for the last event of a failed run either.
    fs::remove_file(&filler).unwrap();
    remove(&dir).unwrap();
    let mut run = RunWriter::create(&root, &info).unwrap();
    fill(0);
    run.event(&long(1)).unwrap_err();
    run.make_room();
    run.event(&warning(2)).unwrap();
    let failed = RunInfo {
        state: RunState::Failed,
        error: Some("no room".into()),
        ..finished(&info)
    };
    run.finish(&failed, None, None).unwrap();
    let stored = load(&dir).unwrap();
    assert_eq!((&stored.info, stored.events()), (&failed, vec![warning(2)]));
    assert_eq!(stored.problems, Vec::<String>::new());

    // A report that does not fit does not use up the room of the last events.
    fs::remove_file(&filler).unwrap();
    remove(&dir).unwrap();
    let run = RunWriter::create(&root, &info).unwrap();
    fill(8192);
    let report = "x".repeat(300_000);
    let error = run
        .finish(&finished(&info), None, Some(&report))
        .unwrap_err();
    let stored = load(&dir).unwrap();
    assert_eq!(stored.state, RunState::Failed);
    assert_eq!(stored.info.error, Some(error.to_string()));
}

#[test]
fn a_read_only_file_system_can_be_read() {
    let script = format!(
        "mount --bind \"${CHILD}\" \"${CHILD}\" && mount -o remount,bind,ro \"${CHILD}\" && exec \"$@\""
    );
    let test = "store::faults::a_read_only_file_system_can_be_read";
    let prepare = |root: &Path| {
        finished_run(root, ID, NOW);
        drop(RunWriter::create(root, &info("2026-11-21-quick-dead", NOW)));
        fs::create_dir(root.join(".trash-2026-11-20-quick-0000")).unwrap();
    };
    let Some(root) = world(test, &mounted(&script), prepare) else {
        return;
    };
    refuses_but_reads(&root, "Read-only file system");
}

#[test]
fn a_directory_without_permission_can_be_read() {
    let test = "store::faults::a_directory_without_permission_can_be_read";
    let prepare = |root: &Path| {
        finished_run(root, ID, NOW);
        drop(RunWriter::create(root, &info("2026-11-21-quick-dead", NOW)));
        fs::create_dir(root.join(".trash-2026-11-20-quick-0000")).unwrap();
        fs::set_permissions(root, fs::Permissions::from_mode(0o555)).unwrap();
    };
    // Root may write anywhere, unless it lacks the capability.
    let command: &[&str] = if is_root() {
        &[
            "setpriv",
            "--bounding-set=-dac_override,-dac_read_search",
            "--",
        ]
    } else {
        &["env"]
    };
    let Some(root) = world(test, command, prepare) else {
        return;
    };
    refuses_but_reads(&root, "Permission denied");
}

fn refuses_but_reads(root: &Path, answer: &str) {
    let runs = list(root).unwrap();
    let states: Vec<_> = runs.iter().map(|run| run.state.unwrap()).collect();
    assert_eq!(states, [RunState::Interrupted, RunState::Finished]);
    assert_eq!(load(&runs[1].path).unwrap().trials.len(), 3);

    for runs_dir in [root.to_owned(), root.join("deeper")] {
        let error = RunWriter::create(&runs_dir, &info("2026-11-21-quick-0000", NOW)).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with(&format!("cannot create {}", runs_dir.display())),
            "{said}"
        );
        assert!(
            said.contains(answer) && said.contains("--runs DIR"),
            "{said}"
        );
    }
    let error = remove(&runs[1].path).unwrap_err();
    assert!(matches!(error, StoreError::System { .. }), "{error}");
    assert!(error.to_string().contains(answer), "{error}");
    assert_eq!(list(root).unwrap(), runs);
}

#[test]
fn a_root_that_is_a_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("file");
    fs::write(&root, "").unwrap();
    for error in [
        RunWriter::create(&root, &info(ID, NOW)).unwrap_err(),
        list(&root).unwrap_err(),
    ] {
        assert!(
            error.to_string().contains(root.to_str().unwrap()),
            "{error}"
        );
    }
}
