//! Following a running run, and sending requests to it.

use std::fs::OpenOptions;
use std::io::Write;

use fwdlab_model::event::{Event, Request};
use fwdlab_store::{Followed, Follower, RunWriter, StoreError, request};

use super::samples::*;

const ID: &str = "2026-11-21-quick-7f3k";
const NOW: &str = "2026-11-21T09:00:00Z";

fn events_of(followed: Vec<Followed>) -> Vec<Event> {
    followed.into_iter().map(|one| one.event).collect()
}

#[test]
fn history_comes_first_and_nothing_comes_twice() {
    let root = tempfile::tempdir().unwrap();
    let mut run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    let dir = run.path().to_owned();
    for n in 1..=3 {
        run.event(&warning(n)).unwrap();
    }
    let mut follower = Follower::open(&dir).unwrap();
    let history = follower.poll().unwrap();
    let second = history[1].end;
    assert_eq!(events_of(history), [warning(1), warning(2), warning(3)]);
    assert_eq!(follower.poll().unwrap(), []);
    run.event(&warning(4)).unwrap();
    assert_eq!(events_of(follower.poll().unwrap()), [warning(4)]);
    // a returning follower continues at its position
    let mut again = Follower::from(&dir, second).unwrap();
    assert_eq!(events_of(again.poll().unwrap()), [warning(3), warning(4)]);
    assert!(follower.is_running().unwrap());
    run.finish(&finished(&info(ID, NOW)), None, None).unwrap();
    assert!(!follower.is_running().unwrap());
    assert_eq!(follower.poll().unwrap(), []);
    assert_eq!(follower.damaged(), 0);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(matches!(follower.poll(), Err(StoreError::System { .. })));
    assert!(matches!(
        Follower::open(root.path()),
        Err(StoreError::NotARun { .. })
    ));
}

#[test]
fn lines_are_whole_however_they_are_written_and_however_long() {
    let root = tempfile::tempdir().unwrap();
    let mut run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    let mut follower = Follower::open(run.path()).unwrap();
    // longer than any piece read at a time
    let long = event(
        1,
        fwdlab_model::event::EventKind::Note {
            text: "x".repeat(3 << 20),
        },
    );
    run.event(&long).unwrap();
    run.event(&warning(2)).unwrap();
    let journal = run.path().join("events.jsonl");
    let mut file = OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(b"{\"t\":3.0,\"run\":\"").unwrap();
    let mut all = Vec::new();
    loop {
        let some = follower.poll().unwrap();
        if some.is_empty() {
            break;
        }
        all.extend(events_of(some));
    }
    assert_eq!(all, [long, warning(2)]);
    file.write_all(b"r\",\"event\":\"note\",\"text\":\"whole\"}\nnonsense\n")
        .unwrap();
    run.event(&warning(4)).unwrap();
    let later = events_of(follower.poll().unwrap());
    assert_eq!((later.len(), &later[1]), (2, &warning(4)));
    assert_eq!(follower.damaged(), 1);
}

#[test]
fn only_a_running_run_takes_requests() {
    let root = tempfile::tempdir().unwrap();
    let run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    let dir = run.path().to_owned();
    request(&dir, Request::Pause).unwrap();
    run.finish(&finished(&info(ID, NOW)), None, None).unwrap();
    let error = request(&dir, Request::Stop).unwrap_err();
    assert!(matches!(error, StoreError::NotRunning { .. }), "{error}");
    // requests are not damage
    let stored = fwdlab_store::load(&dir).unwrap();
    assert_eq!(stored.changed_files(), ["x"; 0]);
    assert!(dir.join("requests.jsonl").is_file());
}
