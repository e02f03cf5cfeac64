//! Runs are readable at any instant: killed processes, and files truncated at every byte.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fwdlab_model::result::RunState;
use fwdlab_store::{RunWriter, StoreError, list, load};

use super::samples::*;

const CHILD: &str = "STORE_TEST_WRITE_RUNS_IN";
const STEPS: u32 = 30;

/// Starts itself as a child process that writes one run after another and prints what it has
/// stored, and kills it (SIGKILL) at a random moment, many times over. Everything that was stored
/// must be there, complete.
#[test]
fn a_killed_process_loses_nothing_it_handed_over() {
    if let Some(root) = std::env::var_os(CHILD) {
        write_runs(Path::new(&root));
    }
    let test = "store::crash::a_killed_process_loses_nothing_it_handed_over";
    let mut random = Lcg(0x5eed);
    let (mut interrupted, mut whole, mut unconfirmed) = (0, 0, 0);
    for round in 0..40 {
        let root = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, root.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut handed_over = BTreeMap::<String, u32>::new();
        let mut note = |line: String| {
            // The last line of a killed child may be incomplete: then it confirms nothing.
            let confirmed = line.strip_prefix("kept ").and_then(|rest| {
                let (id, n) = rest.strip_suffix('.')?.split_once(' ')?;
                Some((id.to_owned(), n.parse().ok()?))
            });
            handed_over.extend(confirmed);
        };
        for line in lines.by_ref().take(random.below(4 * STEPS) as usize) {
            note(line.unwrap());
        }
        std::thread::sleep(Duration::from_micros(random.below(1000).into()));
        child.kill().unwrap();
        child.wait().unwrap();
        lines.for_each(|line| note(line.unwrap()));

        let runs = list(root.path()).unwrap();
        for (id, n) in &handed_over {
            let found = runs.iter().any(|run| run.id == *id);
            assert!(found, "round {round}: {id} ({n}) is lost");
        }
        for run in runs {
            let handed_over = handed_over.get(&run.id).copied().unwrap_or(0);
            let (state, kept) = check(&run.path, handed_over);
            match state {
                RunState::Interrupted => interrupted += 1,
                RunState::Finished => whole += 1,
                state => panic!("round {round}: {} is {state:?}", run.id),
            }
            unconfirmed += u32::from(kept > handed_over);
        }
    }
    // The test is meaningful only if it hit both unfinished and complete runs. How often it hit the
    // moment between a write and its confirmation depends on the machine; journals truncated at
    // every byte are tested below.
    println!("{interrupted} interrupted, {whole} whole, {unconfirmed} with an unconfirmed event");
    assert!(interrupted >= 10 && whole >= 10);
}

struct Lcg(u64);

impl Lcg {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as u32 % limit
    }
}

/// The child process: never returns.
fn write_runs(root: &Path) -> ! {
    let mut out = std::io::stdout();
    for number in 0.. {
        let info = info(
            &format!("2026-11-21-quick-{number:04}"),
            "2026-11-21T09:00:00Z",
        );
        let mut run = RunWriter::create(root, &info).unwrap();
        for n in 1..=STEPS {
            if n % 10 == 1 {
                run.raw("a/b", n, "intervals.csv", &raw(n)).unwrap();
            }
            run.event(&warning(n)).unwrap();
            run.trial(&trial(n)).unwrap();
            writeln!(out, "kept {} {n}.", info.id).unwrap();
        }
        run.finish(&finished(&info), Some(&summary(&info.id)), Some("<html>"))
            .unwrap();
    }
    unreachable!()
}

fn raw(n: u32) -> Vec<u8> {
    vec![b'0' + (n % 10) as u8; 10_000]
}

/// Reads the run and returns its state and the number of its events.
fn check(dir: &Path, handed_over: u32) -> (RunState, u32) {
    let run = load(dir).unwrap();
    let events = run.events();
    let kept = run.trials.len() as u32;
    assert!(kept >= handed_over && events.len() as u32 >= handed_over);
    for (n, record) in (1..).zip(&run.trials) {
        assert_eq!(*record, trial(n));
        if n % 10 == 1 {
            let path = run.raw_path("a/b", n, "intervals.csv");
            assert_eq!(fs::read(path).unwrap(), raw(n));
        }
    }
    for (n, event) in (1..).zip(&events) {
        assert_eq!(*event, warning(n));
    }
    let unexpected = |problem: &&String| {
        !problem.contains("ended without a report") && !problem.contains("is incomplete")
    };
    assert_eq!(run.problems.iter().find(unexpected), None);
    if run.state == RunState::Finished {
        assert_eq!((kept, events.len() as u32), (STEPS, STEPS));
        assert_eq!(run.summary, Some(summary(&run.info.id)));
        assert_eq!(run.problems, Vec::<String>::new());
    }
    (run.state, events.len() as u32)
}

const ID: &str = "2026-11-21-quick-7f3k";

/// Every seventh byte, and all bytes around the ends of lines and of the file.
fn cuts(whole: &[u8]) -> impl Iterator<Item = usize> {
    let is_end = |at: usize| whole.get(at).is_none_or(|byte| *byte == b'\n');
    (0..=whole.len())
        .filter(move |&cut| cut % 7 == 0 || (cut.saturating_sub(2)..=cut + 1).any(is_end))
}

#[test]
fn a_journal_cut_anywhere_keeps_its_whole_lines() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, "2026-11-21T09:00:00Z");
    let dir = root.path().join(ID);
    for name in ["trials.jsonl", "events.jsonl"] {
        let path = dir.join(name);
        let whole = fs::read(&path).unwrap();
        for cut in cuts(&whole) {
            fs::write(&path, &whole[..cut]).unwrap();
            let run = load(&dir).unwrap();
            let kept = match name {
                "trials.jsonl" => run.trials.len(),
                _ => run.events().len(),
            };
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(kept, lines, "{name} cut at {cut}");
            let says = match cut {
                _ if cut == whole.len() => "",
                // the list of checksums detects what the lines cannot
                _ if cut == 0 || whole[cut - 1] == b'\n' => {
                    &format!("{name} has changed since the run ended")
                }
                _ => &format!("line {} of {name} is incomplete", lines + 1),
            };
            let said = run.problems.join("; ");
            assert!(said.starts_with(says), "{name} cut at {cut}: {said}");
            assert_eq!(run.problems.len(), usize::from(!says.is_empty()), "{said}");
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_damaged_line_costs_only_itself() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, "2026-11-21T09:00:00Z");
    let dir = root.path().join(ID);
    let path = dir.join("trials.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    // A power failure leaves zeros instead of a line, and a repaired journal contains an empty
    // line.
    let zeroes = "\0".repeat(lines[1].len());
    fs::write(&path, format!("{}\n{zeroes}\n\n{}\n", lines[0], lines[2])).unwrap();
    let run = load(&dir).unwrap();
    assert_eq!(run.trials, [trial(1), trial(3)]);
    assert_eq!(run.problems.len(), 1);
    assert!(
        run.problems[0].starts_with("line 2 of trials.jsonl is damaged"),
        "{:?}",
        run.problems
    );
    fs::remove_file(&path).unwrap();
    assert!(load(&dir).unwrap().problems[0].contains("trials.jsonl: No such file"));
    fs::write(&path, "x\n".repeat(1000)).unwrap();
    let problems = load(&dir).unwrap().problems;
    assert_eq!(problems.len(), 21);
    assert_eq!(problems[20], "980 more lines of trials.jsonl are damaged");
}

#[test]
fn a_truncated_head_or_summary_is_reported() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, "2026-11-21T09:00:00Z");
    let dir = root.path().join(ID);
    let whole = |name: &str| fs::read(dir.join(name)).unwrap();
    let (head, result) = (whole("run.json"), whole("summary.json"));
    // Without the last newline both are still complete.
    for cut in cuts(&head).filter(|cut| *cut < head.len() - 1) {
        fs::write(dir.join("run.json"), &head[..cut]).unwrap();
        let error = load(&dir).unwrap_err();
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "cut at {cut}: {error}"
        );
        let runs = list(root.path()).unwrap();
        assert_eq!(runs[0].info, None);
        assert_eq!(runs[0].problems, [error.to_string()]);
    }
    fs::write(dir.join("run.json"), &head).unwrap();
    for cut in cuts(&result).filter(|cut| *cut < result.len() - 1) {
        fs::write(dir.join("summary.json"), &result[..cut]).unwrap();
        let run = load(&dir).unwrap();
        assert_eq!((run.summary, run.trials.len()), (None, 3));
        assert!(
            run.problems[0].contains("summary.json is damaged"),
            "{:?}",
            run.problems
        );
    }
}

#[test]
fn newer_formats_are_named_and_newer_fields_accepted() {
    let root = tempfile::tempdir().unwrap();
    finished_run(root.path(), ID, "2026-11-21T09:00:00Z");
    let dir = root.path().join(ID);
    unprotect(&dir);
    let before = load(&dir).unwrap();
    assert_eq!((before.problems.len(), before.trials.len()), (0, 3));
    let edit = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(dir.join(name), text.replace(from, to)).unwrap();
    };
    edit(
        "run.json",
        "{\n  \"format\"",
        "{\n  \"later\": [1],\n  \"format\"",
    );
    edit(
        "summary.json",
        "{\n  \"format\"",
        "{\n  \"later\": {},\n  \"format\"",
    );
    edit(
        "trials.jsonl",
        "{\"test_case\"",
        "{\"later\":null,\"test_case\"",
    );
    assert_eq!(load(&dir).unwrap(), before);

    edit("summary.json", "\"format\": 4", "\"format\": 5");
    let run = load(&dir).unwrap();
    assert_eq!(run.summary, None);
    assert!(
        run.problems[0].contains("summary.json has format 5"),
        "{:?}",
        run.problems
    );

    edit("run.json", "\"format\": 4", "\"kind\": 7, \"format\": 99");
    let error = load(&dir).unwrap_err().to_string();
    assert!(
        error.contains("format 99") && error.contains("up to 4"),
        "{error}"
    );
    assert_eq!(list(root.path()).unwrap()[0].problems, [error]);
}
