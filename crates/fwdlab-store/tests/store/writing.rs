//! The files in the directory, and when they are written.

use std::fs;

use fwdlab_model::event::EventKind;
use fwdlab_model::result::RunState;
use fwdlab_model::telemetry::{Reading, Record, When};
use fwdlab_store::{RunWriter, StoreError, load};

use super::samples::*;

const ID: &str = "2026-11-21-quick-7f3k";
const NOW: &str = "2026-11-21T09:00:00Z";

#[test]
fn a_run_is_kept_whole() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("not/there/yet");
    let info = info(ID, NOW);
    let mut run = RunWriter::create(&root, &info).unwrap();
    let dir = root.join(ID);
    assert_eq!(run.path(), dir);

    run.input("nft.conf", b"add table x\n").unwrap();
    run.input("fw/etc/rc.conf", b"\xff\0").unwrap();
    let progress = EventKind::Progress {
        activity: "64 B".into(),
        done: 1,
        steps: 2,
        left_s: 3.0,
        offered_load_pps: None,
        forwarding_rate_pps: None,
        estimate: None,
    };
    run.event(&warning(1)).unwrap();
    let first = event(2, progress.clone());
    run.event(&first).unwrap();
    // only as much progress is kept as followers need
    let soon = fwdlab_model::event::Event {
        t: 2.5,
        ..event(2, progress)
    };
    run.event(&soon).unwrap();
    let record = Box::new(trial(1));
    let trial_finished = event(3, EventKind::TrialFinished { record });
    run.event(&trial_finished).unwrap();
    run.trial(&trial(1)).unwrap();
    run.trial(&rebuild(1)).unwrap();
    run.raw("64B/control", 1, "intervals.csv", b"old").unwrap();
    run.raw("64B/control", 1, "intervals.csv", b"t,sent\n")
        .unwrap();

    let running = load(&dir).unwrap();
    assert_eq!(running.state, RunState::Running);
    assert_eq!(running.problems, Vec::<String>::new());
    assert_eq!(running.trials, [trial(1)]);

    run.finish(&finished(&info), Some(&summary(ID)), Some("<html>"))
        .unwrap();
    let stored = load(&dir).unwrap();
    assert_eq!(stored.problems, Vec::<String>::new());
    assert_eq!(stored.info, finished(&info));
    assert_eq!(stored.state, RunState::Finished);
    assert_eq!(stored.summary, Some(summary(ID)));
    assert_eq!(stored.trials, [trial(1)]);
    assert_eq!(stored.rebuilds, [rebuild(1)]);
    assert_eq!(stored.events(), [warning(1), first, trial_finished]);
    let raw = stored.raw_path("64B/control", 1, "intervals.csv");
    assert_eq!(raw, dir.join("raw/64B+control/1/intervals.csv"));
    assert_eq!(fs::read(raw).unwrap(), b"t,sent\n");
    assert_eq!(
        fs::read(dir.join("inputs/fw/etc/rc.conf")).unwrap(),
        b"\xff\0"
    );
    assert_eq!(fs::read(dir.join("report.html")).unwrap(), b"<html>");
    assert_eq!(temporary_files(&dir), 0);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
}

fn temporary_files(dir: &std::path::Path) -> usize {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let inside = if entry.path().is_dir() {
                temporary_files(&entry.path())
            } else {
                0
            };
            inside + usize::from(entry.file_name().to_string_lossy().starts_with(".tmp"))
        })
        .sum()
}

#[test]
fn an_id_is_taken_once() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, NOW);
    let before = load(&root.path().join(ID)).unwrap();
    let error = RunWriter::create(root.path(), &info(ID, NOW)).unwrap_err();
    assert!(
        matches!(&error, StoreError::IdTaken { path } if path.ends_with(ID)),
        "{error}"
    );
    assert_eq!(load(&root.path().join(ID)).unwrap(), before);
    assert_eq!(
        fs::read_dir(root.path()).unwrap().count(),
        1,
        "nothing left behind"
    );
}

#[test]
fn of_many_who_create_the_same_run_one_succeeds() {
    let root = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let info = info(&format!("2026-11-21-quick-{round:04}"), NOW);
        let created = std::thread::scope(|scope| {
            let creators: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| RunWriter::create(root.path(), &info)))
                .collect();
            let results: Vec<_> = creators.into_iter().map(|c| c.join().unwrap()).collect();
            for error in results.iter().filter_map(|result| result.as_ref().err()) {
                assert!(matches!(error, StoreError::IdTaken { .. }), "{error}");
            }
            results.into_iter().flatten().count()
        });
        assert_eq!(created, 1);
    }
}

#[test]
fn names_that_would_leave_the_run_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for id in ["", ".", "..", "../x", "a/b", "/x", ".hidden"] {
        let error = RunWriter::create(root.path(), &info(id, NOW)).unwrap_err();
        assert!(matches!(error, StoreError::BadName { .. }), "{id}: {error}");
    }
    let run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    run.input("once", b"1").unwrap();
    for name in ["", "..", "../run.json", "/etc/passwd", "once"] {
        let error = run.input(name, b"2").unwrap_err();
        assert!(
            matches!(error, StoreError::BadName { .. }),
            "{name}: {error}"
        );
    }
    for name in ["", "..", "a/b", "../x"] {
        let error = run.raw("../../case", 1, name, b"").unwrap_err();
        assert!(
            matches!(error, StoreError::BadName { .. }),
            "{name}: {error}"
        );
    }
    run.raw("../../case", 1, "x", b"").unwrap();
    assert!(run.path().join("raw/%2e.+..+case/1/x").is_file());
}

#[test]
fn a_dropped_writer_leaves_an_interrupted_run() {
    let root = tempfile::tempdir().unwrap();
    let mut run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    run.trial(&trial(1)).unwrap();
    drop(run);
    let stored = load(&root.path().join(ID)).unwrap();
    assert_eq!(stored.state, RunState::Interrupted);
    assert_eq!(stored.info.state, RunState::Running);
    assert_eq!(stored.problems, ["its process ended without a report"]);
    assert_eq!(stored.trials, [trial(1)]);
}

/// Between reading the state "running" and finding the lock free, a run can finish; a reader must
/// not report it as interrupted.
#[test]
fn a_reader_never_mistakes_the_end_for_an_interruption() {
    let root = tempfile::tempdir().unwrap();
    let mut looks = 0;
    for round in 0..40 {
        let info = info(&format!("2026-11-21-quick-{round:04}"), NOW);
        let run = RunWriter::create(root.path(), &info).unwrap();
        let dir = run.path().to_owned();
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for look in 1.. {
                            let stored = load(&dir).unwrap();
                            assert_ne!(stored.state, RunState::Interrupted);
                            if stored.state == RunState::Finished {
                                return look;
                            }
                        }
                        unreachable!()
                    })
                })
                .collect();
            run.finish(&finished(&info), None, None).unwrap();
            looks += readers.into_iter().map(|r| r.join().unwrap()).sum::<u32>();
        });
    }
    assert!(looks > 80, "readers came too late to see anything: {looks}");
}

/// Readings have their own journal, created with the first one; a process that dies in the middle
/// of a line loses that line.
#[test]
fn readings_of_the_dut_are_a_journal() {
    let root = tempfile::tempdir().unwrap();
    let mut run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    let file = root.path().join(ID).join("telemetry.jsonl");
    assert!(!file.exists(), "a run that reads nothing has none");
    let reading = |trial| Record {
        test_case: "plain".into(),
        trial,
        when: When::Before,
        reading: Reading {
            uptime_s: 1.5,
            ..Reading::default()
        },
    };
    for trial in 1..=2 {
        run.telemetry(&reading(trial)).unwrap();
    }
    drop(run);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}{}", &text[..20])).unwrap();
    let stored = load(&root.path().join(ID)).unwrap();
    assert_eq!(stored.telemetry(), [reading(1), reading(2)]);
}
