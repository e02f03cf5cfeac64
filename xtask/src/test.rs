//! `make test`: the checks, the lints and all tests, counted together, with what was skipped and why in the last lines.
//!
//! A test that cannot run here prints `SKIPPED: <test>: <reason>` and returns; cargo calls that passed, this runner does
//! not. It knows nothing of what the tests test. Start with [`all`].

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Context;
use serde_json::Value;

use crate::check;

mod links;
mod programs;

/// How the line of a test ends that failed.
const FAILED: &str = " ... FAILED";
/// So many failures of a program are tried once more.
const MANY: usize = 5;

/// Runs everything; `true` if nothing failed. One failure keeps nothing else from running.
pub fn all(root: &Path) -> anyhow::Result<bool> {
    let mut tally = Tally::default();

    println!("== layout");
    let findings = check::all(root)?;
    findings.iter().for_each(|finding| println!("{finding}"));
    tally.count("layout", findings.is_empty());

    lint(root, &mut tally, "rustfmt", &["fmt", "--all", "--check"])?;
    // clippy's compiler lints what it compiles: nothing is compiled twice
    let lints = is_installed(root, "clippy", &mut tally)?;
    println!("== {}tests", if lints { "clippy, " } else { "" });
    let mut cargo = cargo(root);
    cargo.args(compiler(lints));
    let built = programs::build(cargo)?;
    if lints {
        tally.count("clippy", built.warnings == 0);
    }
    match built.programs {
        None => tally.failed.push("cargo could not build all tests".into()),
        Some(all) => {
            links(root, &built.messages, &mut tally)?;
            println!("{} programs; each is shown when it ends", all.len());
            programs::run(all, &mut |ended| show(&ended, &mut tally));
            documentation(root, lints, &mut tally)?;
        }
    }

    print!("{tally}");
    Ok(tally.failed.is_empty())
}

/// Shows what a test program said, and counts it.
fn show(ended: &programs::Ended, tally: &mut Tally) {
    let name = &ended.program.name;
    println!("-- {name}, {:.1} s", ended.took.as_secs_f64());
    let failed = ended.said.lines().filter(|line| line.ends_with(FAILED));
    let is_machine = has_ended_itself(&ended.said) && failed.count() <= MANY;
    let has_another = ended.program.sends_frames() && is_machine;
    let mut heard = listen(ended, has_another);
    if has_another {
        once_more(&mut heard, &mut |test| {
            println!("-- {name}, {test} once more, alone");
            listen(&programs::again(&ended.program, test), false)
        });
    }
    tally.add(heard);
}

/// Shows what people should see of what a test program said. What failed and has another try is no verdict yet, and reads as none: not to
/// people, and not to programs that look for names of failed tests.
fn listen(ended: &programs::Ended, has_another: bool) -> Tally {
    let mut reader = Reader::default();
    for line in ended.said.lines() {
        let is_about_failures = reader.in_failures;
        let Some(line) = reader.read(line) else {
            continue;
        };
        match has_another.then(|| first_try(line, is_about_failures)) {
            Some(Some(told)) => println!("{told}"),
            _ => println!("{line}"),
        }
    }
    if !ended.succeeded && reader.tally.failed.is_empty() {
        let last = ended.said.lines().last().unwrap_or("it said nothing");
        let name = &ended.program.name;
        reader.tally.failed.push(format!("{name}: {last}"));
    }
    reader.tally
}

/// How a line of a first try reads, if it is about what failed.
fn first_try(line: &str, is_about_failures: bool) -> Option<String> {
    if let Some(test) = line.strip_suffix(FAILED) {
        Some(format!("{test} ... is tried once more below"))
    } else if let Some(counts) = line.strip_prefix("test result: FAILED. ") {
        let counts = counts.replace(" failed;", " to be tried once more;");
        Some(format!("first try: {counts}"))
    } else if line == "failures:" {
        Some("first try:".to_owned())
    } else {
        is_about_failures.then(|| format!("| {line}"))
    }
}

/// Did a test program come to its end? One that crashed has tests of which nobody knows.
fn has_ended_itself(said: &str) -> bool {
    said.lines().any(|line| line.starts_with("test result: "))
}

/// What sends frames may be held up by the tests beside it and by other people's machines: what failed is tried once more, alone. What
/// passes then is counted and named. When many fail it is not the machine.
fn once_more(heard: &mut Tally, run: &mut dyn FnMut(&str) -> Tally) {
    if heard.failed.len() > MANY {
        return;
    }
    for test in std::mem::take(&mut heard.failed) {
        let again = run(&test);
        match &again {
            // it was not run: there is no test of this name
            again if *again == Tally::default() => heard.failed.push(test),
            again if again.passed > 0 => heard.second.push(test),
            _ => {}
        }
        heard.add(again);
    }
}

/// Links in the documentation of the crates, with the libraries of the test build.
fn links(root: &Path, messages: &[Value], tally: &mut Tally) -> anyhow::Result<()> {
    println!("== links in doc comments");
    // of this platform: what others need was never downloaded
    let host = Command::new("rustc")
        .arg("-vV")
        .stderr(Stdio::inherit())
        .output()
        .context("run rustc")?;
    let host = String::from_utf8_lossy(&host.stdout);
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV says no host")?;
    let output = cargo(root)
        .args(["metadata", "--format-version=1", "--offline"])
        .args(["--filter-platform", host])
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo metadata")?;
    let metadata =
        serde_json::from_slice(&output.stdout).context("read what cargo metadata says")?;
    tally.count("links in doc comments", links::check(messages, &metadata)?);
    Ok(())
}

/// Examples in the documentation of the crates.
fn documentation(root: &Path, lints: bool, tally: &mut Tally) -> anyhow::Result<()> {
    let mut reader = Reader::default();
    let mut tests = cargo(root);
    // as root if we are
    tests.arg("--root").args(compiler(lints));
    tests.args(["test", "--workspace", "--doc", "--quiet"]);
    let ended = stream(&mut tests, &mut |line| {
        if let Some(line) = reader.read(line) {
            println!("{line}");
        }
    })?;
    if !ended.success() && reader.tally.failed.is_empty() {
        tally
            .failed
            .push("cargo could not build or run all examples of the documentation".into());
    }
    tally.add(reader.tally);
    Ok(())
}

fn lint(root: &Path, tally: &mut Tally, component: &str, arguments: &[&str]) -> anyhow::Result<()> {
    println!("== {component}");
    if is_installed(root, component, tally)? {
        let ended = stream(cargo(root).args(arguments), &mut |line| println!("{line}"))?;
        tally.count(component, ended.success());
    }
    Ok(())
}

/// Is a component of the toolchain there? When it is not, what it checks is skipped.
fn is_installed(root: &Path, component: &str, tally: &mut Tally) -> anyhow::Result<bool> {
    let command = component.trim_start_matches("rust");
    let probe = cargo(root)
        .args([command, "--version"])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let installed = probe.context("run cargo")?.success();
    if !installed {
        tally.skipped.push(format!(
            "{component}: not installed; get it with: rustup component add {component}"
        ));
    }
    Ok(installed)
}

/// What cargo is told of the compiler of our crates.
fn compiler(lints: bool) -> &'static [&'static str] {
    match lints {
        true => &[
            "--config",
            "build.rustc-workspace-wrapper=\"clippy-driver\"",
        ],
        false => &[],
    }
}

/// cargo through the script that finds it and keeps root from building.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(root.join("scripts/cargo"));
    command
        .current_dir(root)
        .env("CARGO_TERM_COLOR", "never")
        .env_remove("CARGO_MANIFEST_DIR");
    command
}

/// Runs a command and hands over what it writes to both its outputs, in order, line by line.
fn stream(command: &mut Command, line: &mut dyn FnMut(&str)) -> anyhow::Result<ExitStatus> {
    let (reader, writer) = io::pipe().context("open a pipe")?;
    let also = writer.try_clone().context("open a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(also)
        .spawn()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    // the command keeps its own ends of the pipe; the end of the output is seen only when they are closed
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for bytes in BufReader::new(reader).split(b'\n') {
        line(&String::from_utf8_lossy(
            &bytes.context("read what it says")?,
        ));
    }
    child.wait().context("wait for its end")
}

/// What passed, failed and was skipped.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
    /// Of those that passed: who did so only at the second try.
    second: Vec<String>,
    /// `test: reason`
    skipped: Vec<String>,
}

impl Tally {
    fn count(&mut self, name: &str, passed: bool) {
        if passed {
            self.passed += 1;
        } else {
            self.failed.push(name.into());
        }
    }

    fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.second.extend(other.second);
        self.skipped.extend(other.skipped);
    }
}

/// The last lines of the run: failures, skips by reason, and one line that machines read too.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        for name in &self.failed {
            writeln!(f, "failed: {name}")?;
        }
        for name in &self.second {
            writeln!(f, "passed only at the second try, alone: {name}")?;
        }
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for skip in &self.skipped {
            let (test, reason) = skip.split_once(": ").unwrap_or(("unnamed", skip));
            reasons.entry(reason).or_default().push(test);
        }
        for (reason, tests) in reasons {
            writeln!(
                f,
                "skipped {}: {reason} ({})",
                tests.len(),
                tests.join(", ")
            )?;
        }
        let Tally {
            passed,
            failed,
            skipped,
            second: _,
        } = self;
        writeln!(
            f,
            "{passed} passed, {} failed, {} skipped",
            failed.len(),
            skipped.len()
        )
    }
}

/// Reads the output of `cargo test -- --show-output`: counts, and drops what passing tests said.
#[derive(Debug, Default)]
struct Reader {
    tally: Tally,
    /// Of the test program that is running: what its passing tests called skipped.
    skipped: Vec<String>,
    in_successes: bool,
    in_failures: bool,
}

impl Reader {
    /// Takes a line and returns it if people should see it.
    fn read<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.finish_program(counts);
        } else if line == "successes:" {
            self.in_successes = true;
        } else if line == "failures:" {
            (self.in_successes, self.in_failures) = (false, true);
        } else if let Some(skip) = skip(line).filter(|_| !self.in_failures) {
            // said by a passing test, or past libtest straight to the terminal
            if self.skipped.iter().any(|known| known == skip) {
                return None;
            }
            self.skipped.push(skip.into());
            return Some(line);
        } else if let Some((test, reason)) = ignored(line) {
            self.tally.skipped.push(format!("{test}: {reason}"));
        } else if let Some(test) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(FAILED))
        {
            self.tally.failed.push(test.into());
        }
        (!self.in_successes).then_some(line)
    }

    /// `ok. 12 passed; 0 failed; 1 ignored; ...`
    fn finish_program(&mut self, counts: &str) {
        let count = |what: &str| {
            counts
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(what)?.trim().parse::<usize>().ok())
                .unwrap_or(0)
        };
        self.tally.passed += count("passed").saturating_sub(self.skipped.len());
        self.tally.skipped.append(&mut self.skipped);
        (self.in_successes, self.in_failures) = (false, false);
    }
}

/// `test: reason` of a line that says so, also behind the name that libtest prints first when it has one thread.
fn skip(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("SKIPPED")?;
    let starts_here = before.is_empty() || before.ends_with(" ... ");
    starts_here.then(|| rest.trim_start_matches(':').trim())
}

/// Name and reason of an ignored test.
fn ignored(line: &str) -> Option<(&str, &str)> {
    let (test, state) = line.strip_prefix("test ")?.split_once(" ... ")?;
    match state.strip_prefix("ignored")? {
        "" => Some((test, "ignored")),
        reason => Some((test, reason.strip_prefix(", ")?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/lab-1)

running 5 tests
test bed::stands ... ok
test bed::falls ... ok
test cpu::pins ... FAILED
test big ... ignored
test slow ... ignored, takes an hour

successes:

---- bed::stands stdout ----
SKIPPED: bed::stands: needs root
SKIPPED: bed::stands: needs root
chatter

successes:
    bed::stands
    bed::falls

failures:

---- cpu::pins stdout ----
SKIPPED: cpu::pins: a failing test skips nothing
panicked at here

failures:
    cpu::pins

test result: FAILED. 2 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/a.rs (target/debug/deps/a-1)

test bed::lies ... SKIPPED bed::lies: no veth
ok
successes:

---- bed::stands stdout ----
SKIPPED: bed::stands: needs root

test result: ok. 11 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn output_of_cargo_test_is_counted() {
        let mut reader = Reader::default();
        let shown: Vec<&str> = OUTPUT
            .lines()
            .filter_map(|line| reader.read(line))
            .collect();
        assert_eq!(
            reader.tally,
            Tally {
                passed: 1 + 9,
                failed: vec!["cpu::pins".into()],
                second: Vec::new(),
                skipped: [
                    "big: ignored",
                    "slow: takes an hour",
                    "bed::stands: needs root",
                    "bed::lies: no veth",
                    "bed::stands: needs root"
                ]
                .map(String::from)
                .into(),
            }
        );
        assert!(shown.contains(&"panicked at here"));
        assert!(!shown.contains(&"chatter"));
        assert_eq!(
            shown
                .iter()
                .filter(|line| line.starts_with("SKIPPED: bed"))
                .count(),
            2
        );
    }

    #[test]
    fn the_last_line_stands_alone_and_skips_are_grouped() {
        let tally = Tally {
            passed: 7,
            failed: vec!["a".into()],
            second: vec!["e".into()],
            skipped: vec![
                "b: needs root".into(),
                "c: needs root".into(),
                "d: no veth".into(),
            ],
        };
        assert_eq!(
            tally.to_string(),
            "\nfailed: a\npassed only at the second try, alone: e\nskipped 2: needs root (b, c)\nskipped 1: no veth (d)\n7 passed, 1 failed, 3 skipped\n"
        );
    }

    #[test]
    fn what_failed_is_tried_once_more_unless_much_failed() {
        let failed = |names: &[&str]| Tally {
            passed: 1,
            failed: names.iter().map(|&name| name.into()).collect(),
            ..Tally::default()
        };
        let mut heard = failed(&["held_up", "broken", "busy"]);
        once_more(&mut heard, &mut |test| Tally {
            passed: usize::from(test == "held_up"),
            failed: vec!["broken".to_owned(); usize::from(test == "broken")],
            skipped: vec!["busy: a busy host".to_owned(); usize::from(test == "busy")],
            second: Vec::new(),
        });
        assert_eq!(
            heard,
            Tally {
                passed: 2,
                second: vec!["held_up".into()],
                skipped: vec!["busy: a busy host".into()],
                ..failed(&["broken"])
            }
        );
        let mut heard = failed(&["no test of this name"]);
        once_more(&mut heard, &mut |_| Tally::default());
        assert_eq!(heard, failed(&["no test of this name"]));
        // until then nothing says that it failed
        let mut reader = Reader::default();
        let told: Vec<String> = OUTPUT
            .lines()
            .filter_map(|line| {
                let is_about_failures = reader.in_failures;
                let line = reader.read(line)?;
                Some(first_try(line, is_about_failures).unwrap_or_else(|| line.to_owned()))
            })
            .collect();
        for mark in ["FAILED", "failures:", " 1 failed"] {
            assert!(!told.iter().any(|line| line.contains(mark)), "{told:#?}");
        }
        assert!(told.contains(&"| panicked at here".to_owned()), "{told:#?}");
        assert!(told.contains(&"|     cpu::pins".to_owned()), "{told:#?}");
        assert!(has_ended_itself(OUTPUT));
        assert!(!has_ended_itself(
            "test a ... FAILED\nsignal: 11 (SIGSEGV)\n"
        ));
        let mut heard = failed(&["a", "b", "c", "d", "e", "f"]);
        once_more(&mut heard, &mut |_| panic!("this is not the machine"));
        assert_eq!(heard.failed.len(), 6);
    }

    #[test]
    fn both_outputs_are_read_and_the_exit_code_kept() {
        let mut lines = Vec::new();
        let mut run = |script: &str| {
            stream(Command::new("sh").args(["-c", script]), &mut |line| {
                lines.push(line.to_owned())
            })
            .unwrap()
            .success()
        };
        assert!(run("echo a; echo b >&2"));
        assert!(!run("exit 3"));
        assert_eq!(lines, ["a", "b"]);
    }
}
