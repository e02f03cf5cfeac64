//! Every flipped bit is reported, and a directory from an untrusted source is harmless.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use fwdlab_store::{RunWriter, StoreError, StoredRun, list, load, remove};

use super::samples::*;

const ID: &str = "2026-11-21-quick-7f3k";
const NOW: &str = "2026-11-21T09:00:00Z";

/// Coprime to 8, so that every bit of a byte is flipped in turn.
const STRIDE: usize = 13;

/// Returns everything that a reader learns about a run.
fn read_everything(dir: &Path) -> Result<(StoredRun, Vec<fwdlab_model::event::Event>), StoreError> {
    let run = load(dir)?;
    let events = run.events();
    Ok((run, events))
}

/// A changed digit that is still valid JSON: undetectable before there were checksums.
#[test]
fn a_wrong_figure_is_not_shown() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, NOW);
    let dir = root.path().join(ID);
    let edit = |name: &str, from: &str, to: &str| {
        let whole = fs::read_to_string(dir.join(name)).unwrap();
        assert!(whole.contains(from), "{whole}");
        fs::write(dir.join(name), whole.replacen(from, to, 1)).unwrap();
        let run = load(&dir).unwrap();
        fs::write(dir.join(name), whole).unwrap();
        (run.problems.join("; "), run)
    };
    let (said, run) = edit("summary.json", "815000", "855000");
    assert!(
        said.contains("summary.json is damaged: its checksum"),
        "{said}"
    );
    assert_eq!(run.summary, None);
    let (said, run) = edit("trials.jsonl", "812345", "852345");
    assert!(said.starts_with("line 1 of trials.jsonl is damaged and was left out: its checksum"));
    assert_eq!(run.trials, [trial(2), trial(3)]);
    let (said, _) = edit("events.jsonl", "warning 2", "warning 3");
    assert!(
        said.starts_with("line 2 of events.jsonl is damaged"),
        "{said}"
    );
    let (said, run) = edit("run.json", "6.18.0", "6.19.0");
    assert!(
        said.contains("run.json is damaged") && said.contains("may be wrong"),
        "{said}"
    );
    assert_eq!(run.trials.len(), 3);
    // editing a file by hand invalidates its checksum, which is reported as well
    let (said, _) = edit("summary.json", "crc32", "crc33");
    assert!(
        said.contains("summary.json is damaged: it has no checksum"),
        "{said}"
    );

    // Without checksums, only unreadable files are reported.
    unprotect(&dir);
    let old = load(&dir).unwrap();
    assert_eq!(
        (old.is_protected, old.problems.len(), old.trials.len()),
        (false, 0, 3)
    );
    let (said, _) = edit("events.jsonl", "\"warning\"", "\"warming\"");
    assert!(
        said.starts_with("line 1 of events.jsonl is damaged"),
        "{said}"
    );
}

/// What a killed process leaves is incomplete, but not damaged; the same in a finished run is
/// damage.
#[test]
fn leftovers_of_a_killed_process_are_no_damage() {
    let root = tempfile::tempdir().unwrap();
    let mut run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    run.trial(&trial(1)).unwrap();
    drop(run);
    let dir = root.path().join(ID);
    let cut = |name: &str| {
        let path = dir.join(name);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], br#"{"half":"#].concat()).unwrap();
    };
    let killed = load(&dir).unwrap();
    assert_eq!(killed.cut_off, ["its process ended without a report"]);
    assert_eq!(killed.cut_off, killed.problems);
    cut("trials.jsonl");
    let killed = load(&dir).unwrap();
    assert_eq!((killed.cut_off.len(), killed.trials.len()), (2, 1));
    assert_eq!(killed.cut_off, killed.problems);
    assert_eq!(killed.changed_files(), Vec::<String>::new());
    fs::remove_dir_all(&dir).unwrap();

    finished_run(root.path(), ID, NOW);
    cut("trials.jsonl");
    let ended = load(&dir).unwrap();
    assert!(ended.cut_off.is_empty() && !ended.problems.is_empty());
}

/// A damaged list is reported as such, and not as damage of the files in it; a list of a version
/// without its own checksum is read as before.
#[test]
fn a_damaged_list_is_reported() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, NOW);
    let dir = root.path().join(ID);
    let path = dir.join("checksums.sfv");
    let whole = fs::read_to_string(&path).unwrap();
    let reported = |text: &str| {
        fs::write(&path, text).unwrap();
        let run = load(&dir).unwrap();
        (run.problems.join("; "), run.changed_files())
    };
    let at = whole.find(" ").unwrap() + 1;
    let other = if whole.as_bytes()[at] == b'0' {
        "1"
    } else {
        "0"
    };
    let mut damaged = whole.clone();
    damaged.replace_range(at..=at, other);
    let (problems, changed) = reported(&damaged);
    assert!(
        problems.starts_with("checksums.sfv is damaged"),
        "{problems}"
    );
    assert_eq!(changed, Vec::<String>::new());
    let (old, _) = whole.split_once(";").unwrap();
    assert_eq!(reported(old), (String::new(), vec![]));
    assert_eq!(reported(&whole), (String::new(), vec![]));
}

/// Runs `work` in a thread; if it does not end within a minute, it counts as endless.
fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    done.recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{what}: it hangs"))
}

/// Creates something at a path that is not a regular file, or is endless.
type Trap = fn(&Path);

#[test]
fn only_regular_files_are_read() {
    let fifo: Trap = |path| {
        let made = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    let device: Trap = |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let socket: Trap = |path| drop(UnixListener::bind(path).unwrap());
    let elsewhere: Trap = |path| std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
    // a sparse file of a terabyte needs no disk space, and would fill the memory
    let endless: Trap = |path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    for name in [
        "run.json",
        "summary.json",
        "trials.jsonl",
        "events.jsonl",
        "checksums.sfv",
        ".lock",
    ] {
        for (what, says, trap) in [
            ("FIFO", "FIFO", fifo),
            ("device", "symbolic link", device),
            ("socket", "o", socket),
            ("link", "symbolic link", elsewhere),
            ("hole", "larger than|too long|is damaged", endless),
        ] {
            // a sparse file is read until it is too long, which takes time
            if what == "hole" && !["summary.json", "trials.jsonl"].contains(&name) {
                continue;
            }
            let root = tempfile::tempdir().unwrap();
            finished_run(root.path(), ID, NOW);
            let path = root.path().join(ID).join(name);
            fs::remove_file(&path).unwrap();
            if name == ".lock" {
                // it is read if the header says that the run is still running
                let head = path.with_file_name("run.json");
                let text = fs::read_to_string(&head).unwrap();
                fs::write(&head, text.replace("finished\"", "running\"")).unwrap();
            }
            trap(&path);
            let place = format!("{what} as {name}");
            let said = ends(&place, {
                let root = root.path().to_owned();
                move || {
                    let listed = list(&root).unwrap().remove(0).problems;
                    let loaded = match load(&root.join(ID)) {
                        Ok(run) => run.problems,
                        Err(error) => vec![error.to_string()],
                    };
                    [listed, loaded].concat().join("; ")
                }
            });
            let is_told = says.split('|').any(|word| said.contains(word));
            assert!(is_told && !said.is_empty(), "{place}: {said}");
        }
    }
}

/// Resuming a run of unknown origin writes to its own files, and nowhere else.
#[test]
fn a_run_is_opened_again_by_its_own_files_only() {
    let root = tempfile::tempdir().unwrap();
    let precious = root.path().join("precious");
    for name in ["trials.jsonl", "events.jsonl", "telemetry.jsonl", ".lock"] {
        for is_link in [true, false] {
            fs::write(&precious, "no line at all").unwrap();
            let runs = root.path().join("runs");
            finished_run(&runs, ID, NOW);
            let dir = runs.join(ID);
            let path = dir.join(name);
            let _ = fs::remove_file(&path);
            match is_link {
                true => std::os::unix::fs::symlink(&precious, &path).unwrap(),
                false => {
                    let made = Command::new("mkfifo").arg(&path).status().unwrap();
                    assert!(made.success());
                }
            }
            let opened = ends(name, move || {
                RunWriter::reopen(&dir).map(drop).map_err(|e| e.to_string())
            });
            let error = opened.expect_err(name);
            assert!(error.contains(name), "{error}");
            assert_eq!(fs::read_to_string(&precious).unwrap(), "no line at all");
            fs::remove_dir_all(&runs).unwrap();
        }
    }
}

#[test]
fn only_what_was_left_over_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let kept = [
        ".trash-mine",
        ".trash-",
        ".trash-2026-11-21-quick",
        ".new-mine",
    ];
    for name in kept {
        let dir = root.path().join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("precious"), "x").unwrap();
        let then = std::time::SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(&dir).unwrap().set_modified(then).unwrap();
    }
    let busy = root.path().join(format!(".trash-{ID}"));
    fs::create_dir(&busy).unwrap();
    fs::write(busy.join(".lock"), "").unwrap();
    let lock = fs::File::open(busy.join(".lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(list(root.path()).unwrap(), []);
    for name in kept {
        assert!(root.path().join(name).join("precious").exists(), "{name}");
    }
    assert!(busy.exists(), "somebody holds its lock");
    drop(lock);
    assert_eq!(list(root.path()).unwrap(), []);
    assert!(!busy.exists());

    // a removed copy with another name is hidden under a name that a later listing recognises
    finished_run(root.path(), ID, NOW);
    let copy = root.path().join("copy");
    fs::rename(root.path().join(ID), &copy).unwrap();
    remove(&copy).unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), kept.len());
}

/// In the second tier, because they take long.
mod slow {
    use super::*;

    #[test]
    fn no_flipped_bit_is_silently_wrong() {
        let root = tempfile::tempdir().unwrap();
        finished_run(root.path(), ID, NOW);
        let dir = root.path().join(ID);
        let whole = read_everything(&dir).unwrap();
        assert_eq!(whole.0.problems, Vec::<String>::new());
        for name in [
            "run.json",
            "summary.json",
            "trials.jsonl",
            "events.jsonl",
            "checksums.sfv",
        ] {
            let path = dir.join(name);
            let bytes = fs::read(&path).unwrap();
            let (mut flips, mut seen) = (0, 0);
            for bit in (0..8 * bytes.len()).step_by(STRIDE) {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                fs::write(&path, &flipped).unwrap();
                flips += 1;
                let at = format!("bit {bit} of {name}");
                match read_everything(&dir) {
                    Err(error) => {
                        seen += 1;
                        let listed = list(root.path()).unwrap();
                        assert_eq!(listed[0].problems, [error.to_string()], "{at}");
                    }
                    Ok((run, events)) if run.problems.is_empty() => {
                        // only the information whether it is protected may be lost
                        let same = StoredRun {
                            is_protected: true,
                            ..run
                        };
                        assert_eq!((same, events), whole, "{at}");
                    }
                    Ok(_) => seen += 1,
                }
            }
            println!("{name}: {seen} of {flips} flipped bits told");
            // unreported damage is in what only `verify` reads: the checksums of inputs and reports
            assert!(
                seen == flips || name == "checksums.sfv" || 100 * seen > 98 * flips,
                "{name}: {seen} of {flips}"
            );
            assert!(2 * seen > flips, "{name}: {seen} of {flips}");
            fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(read_everything(&dir).unwrap(), whole);
    }
}
