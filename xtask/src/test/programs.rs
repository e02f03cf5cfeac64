//! The test programs that cargo builds: those that only compute run side by side, those that send frames one after the other, and of the
//! longest those tests alone that judge rates, and last those that boot guests.
//!
//! It does not read what they say: that is the parent's. Start with [`build`], then [`run`].

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::tree::ours;

/// Crates whose tests send frames: what runs beside them would hold the sender up.
const FRAMES: &[&str] = &["engine", "lab", "fwdlab"];

/// So many of the others at a time.
const LANES: usize = 2;

/// The program that takes most of the time: fwdlab as its users have it. To run the other programs beside it as well was no faster, and
/// held up senders.
const LONGEST: &str = "fwdlab program";

/// Its tests that want the CPUs for themselves stand in modules of this name.
const ALONE: &str = "::alone::";

/// Those that boot guests: two at a time, and with no others. They start in the order of their names, so the longest has a module whose
/// name stands in front: begun last it would run alone for most of its time.
const IN_GUESTS: &str = "::in_guests::";

/// Property tests try the same cases in every run of `make test`, as the fuzz targets do: when it fails, a change did it. New cases
/// come with `cargo test`, or with another seed here.
const SEED: &str = "PROPTEST_RNG_SEED";

/// A test program.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Of its crate, and of the target: `packet stack`.
    pub name: String,
    path: PathBuf,
    /// Of its crate, where cargo would run it.
    directory: PathBuf,
}

/// What a program said, and how it ended.
pub struct Ended {
    pub program: Program,
    pub said: String,
    pub succeeded: bool,
    pub took: Duration,
}

/// What came of building.
pub struct Built {
    /// `None` when one does not build.
    pub programs: Option<Vec<Program>>,
    /// What the compiler, or clippy in its place, does not like about our crates.
    pub warnings: usize,
    /// What cargo said of everything it built.
    pub messages: Vec<Value>,
}

/// Builds all test programs, and the benchmarks to see that they build; shows what the compiler says.
pub fn build(mut cargo: Command) -> anyhow::Result<Built> {
    let mut child = cargo
        .args([
            "test",
            "--workspace",
            "--all-targets",
            "--no-run",
            "--quiet",
        ])
        .arg("--message-format=json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("run cargo")?;
    let output = child.stdout.take().context("read what cargo says")?;
    let (mut programs, mut warnings, mut messages) = (Vec::new(), 0, Vec::new());
    for line in BufReader::new(output).lines() {
        let line = line.context("read what cargo says")?;
        programs.extend(program(&line));
        if let Some(told) = diagnostic(&line) {
            println!("{}", told.trim_end());
            warnings += 1;
        }
        messages.extend(serde_json::from_str::<Value>(&line).ok());
    }
    let succeeded = child.wait().context("wait for cargo")?.success();
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Built {
        programs: succeeded.then_some(programs),
        warnings,
        messages,
    })
}

/// What a message of cargo says of our code, as people read it.
fn diagnostic(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_diagnostic = message["reason"] == "compiler-message";
    let rendered = message["message"]["rendered"].as_str();
    rendered.filter(|_| is_diagnostic).map(str::to_owned)
}

/// The test program that a message of cargo is about, if it is about one.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_bench = message["target"]["kind"][0] == "bench";
    let is_test =
        message["reason"] == "compiler-artifact" && message["profile"]["test"] == true && !is_bench;
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program {
        name: format!(
            "{} {}",
            ours(directory.file_name()?.to_str()?),
            message["target"]["name"].as_str()?
        ),
        path: path.into(),
        directory: directory.into(),
    })
}

impl Program {
    /// Do its tests send frames? Then a machine that does something else may hold them up.
    pub fn sends_frames(&self) -> bool {
        let of = self.name.split(' ').next().unwrap_or_default();
        FRAMES.contains(&of)
    }
}

/// Runs all, those that send frames last, and hands over each as it ends.
pub fn run(programs: Vec<Program>, each: &mut dyn FnMut(Ended)) {
    let (frames, beside): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::sends_frames);
    side_by_side(beside, each);
    for program in frames {
        if program.name == LONGEST {
            let threads = at_a_time();
            let neither = ["--skip", ALONE, "--skip", IN_GUESTS];
            let arguments = [&neither[..], &["--test-threads", &threads]].concat();
            each(one(program.clone(), &arguments));
            for (part, name) in [(ALONE, ", alone"), (IN_GUESTS, ", in guests")] {
                let mut ended = one(program.clone(), &[part]);
                ended.program.name += name;
                each(ended);
            }
        } else {
            each(one(program, &[]));
        }
    }
}

/// So many tests of the longest program: three on two CPUs, for they wait for a quarter of their time. (Those that boot guests do not:
/// three of them took 295 s where two took 291.)
fn at_a_time() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (cpus * 3 / 2).to_string()
}

/// Runs one of its tests once more, with nothing beside it.
pub fn again(program: &Program, test: &str) -> Ended {
    one(program.clone(), &["--exact", test])
}

fn side_by_side(programs: Vec<Program>, each: &mut dyn FnMut(Ended)) {
    let queue = Mutex::new(VecDeque::from(programs));
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let (sender, ends) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(program) = next() {
                    if sender.send(one(program, &[])).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        ends.iter().for_each(each);
    });
}

fn one(program: Program, arguments: &[&str]) -> Ended {
    let began = Instant::now();
    let mut command = Command::new(&program.path);
    command
        .arg("--show-output")
        .args(arguments)
        .current_dir(&program.directory)
        .env("CARGO_MANIFEST_DIR", &program.directory);
    if std::env::var_os(SEED).is_none() {
        command.env(SEED, "1");
    }
    let (said, succeeded) = output(&mut command)
        .unwrap_or_else(|error| (format!("{}: {error:#}\n", program.path.display()), false));
    Ended {
        program,
        said,
        succeeded,
        took: began.elapsed(),
    }
}

/// Runs a command to its end; what it wrote to both its outputs, in order.
fn output(command: &mut Command) -> anyhow::Result<(String, bool)> {
    let mut said = String::new();
    let status = super::stream(command, &mut |line| {
        said.push_str(line);
        said.push('\n');
    })?;
    if status.code().is_none_or(|code| code != 0 && code != 101) {
        // libtest ends with 0 or 101; anything else is a crash, and no test says so
        said += &format!("{status}\n");
    }
    Ok((said, status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_cargos_messages() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/fwdlab-packet/Cargo.toml","target":{{"kind":["test"],"name":"stack"}},"profile":{{"test":{test}}},"executable":"/t/stack-1"}}"#
            )
        };
        let found = program(&message(true)).unwrap();
        assert_eq!(found.name, "packet stack");
        assert_eq!(found.path, Path::new("/t/stack-1"));
        assert_eq!(found.directory, Path::new("/a/crates/fwdlab-packet"));
        assert_eq!(program(&message(false)), None);
        assert_eq!(
            program(r#"{"reason":"build-finished","success":true}"#),
            None
        );
        assert_eq!(program("no JSON"), None);
        let bench = message(true).replace(r#""kind":["test"]"#, r#""kind":["bench"]"#);
        assert_eq!(program(&bench), None);
        let warning =
            r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"unused\n"}}"#;
        assert_eq!(diagnostic(warning).unwrap(), "unused\n");
        assert_eq!(diagnostic(&message(true)), None);
    }

    #[test]
    fn programs_run_and_a_crash_is_told() {
        let script = |name: &str, text: &str| {
            let path =
                std::env::temp_dir().join(format!("fwdlab-xtask-{}-{name}", std::process::id()));
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, executable).unwrap();
            Program {
                name: name.into(),
                path,
                directory: "/".into(),
            }
        };
        let programs = vec![
            script("good", "pwd; echo \"$1\" >&2"),
            script("crashed", "kill -SEGV $$"),
            script(LONGEST, "echo $*"),
            Program {
                name: "absent".into(),
                path: "/absent".into(),
                directory: "/".into(),
            },
        ];
        let mut ends = Vec::new();
        run(programs.clone(), &mut |ended| {
            ends.push((ended.program.name, ended.said, ended.succeeded))
        });
        for program in &programs[..3] {
            std::fs::remove_file(&program.path).unwrap();
        }
        ends.sort();
        assert_eq!(ends[0].0, "absent");
        assert!(ends[0].1.contains("/absent") && !ends[0].2, "{ends:?}");
        assert!(ends[1].1.contains("signal") && !ends[1].2, "{ends:?}");
        let threads = at_a_time();
        let neither = format!("--skip ::alone:: --skip ::in_guests:: --test-threads {threads}");
        let longest = [
            (LONGEST, &*neither),
            ("fwdlab program, alone", "::alone::"),
            ("fwdlab program, in guests", "::in_guests::"),
        ];
        for (ended, (name, arguments)) in ends[2..5].iter().zip(longest) {
            let said = format!("--show-output {arguments}\n");
            assert_eq!(*ended, (name.into(), said, true));
        }
        assert_eq!(ends[5], ("good".into(), "/\n--show-output\n".into(), true));
    }
}
