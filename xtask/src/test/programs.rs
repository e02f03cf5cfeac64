//! The test programs that cargo builds: those that only compute run side by side, those that send frames one after the other.
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

/// Crates whose tests send frames: what runs beside them would hold the sender up.
const FRAMES: &[&str] = &["engine", "lab", "fwdlab"];

/// So many of the others at a time.
const LANES: usize = 2;

/// Property tests try the same cases in every run of `make test`, as the fuzz targets do: when it fails, a change did it. New cases
/// come with `cargo test`, or with another seed here.
const SEED: &str = "PROPTEST_RNG_SEED";

/// A test program.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Of the folder of its crate, and of the target: `packet stack`.
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

/// Builds all test programs; `None` when one does not build, and cargo has said why.
pub fn build(mut cargo: Command) -> anyhow::Result<Option<Vec<Program>>> {
    let mut child = cargo
        .args(["test", "--workspace", "--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("run cargo")?;
    let output = child.stdout.take().context("read what cargo says")?;
    let mut programs = Vec::new();
    for line in BufReader::new(output).lines() {
        programs.extend(program(&line.context("read what cargo says")?));
    }
    let succeeded = child.wait().context("wait for cargo")?.success();
    programs.sort_by_key(Program::sends_frames);
    Ok(succeeded.then_some(programs))
}

/// The test program that a message of cargo is about, if it is about one.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program {
        name: format!(
            "{} {}",
            directory.file_name()?.to_str()?,
            message["target"]["name"].as_str()?
        ),
        path: path.into(),
        directory: directory.into(),
    })
}

impl Program {
    fn sends_frames(&self) -> bool {
        let of = self.name.split(' ').next().unwrap_or_default();
        FRAMES.contains(&of)
    }
}

/// Runs all, those that send frames last and alone, and hands over each as it ends.
pub fn run(programs: Vec<Program>, each: &mut dyn FnMut(Ended)) {
    let (alone, beside): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::sends_frames);
    side_by_side(beside, each);
    for program in alone {
        each(one(program));
    }
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
                    if sender.send(one(program)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        ends.iter().for_each(each);
    });
}

fn one(program: Program) -> Ended {
    let began = Instant::now();
    let mut command = Command::new(&program.path);
    command
        .arg("--show-output")
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
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/packet/Cargo.toml","target":{{"kind":["test"],"name":"stack"}},"profile":{{"test":{test}}},"executable":"/t/stack-1"}}"#
            )
        };
        let found = program(&message(true)).unwrap();
        assert_eq!(found.name, "packet stack");
        assert_eq!(found.path, Path::new("/t/stack-1"));
        assert_eq!(found.directory, Path::new("/a/crates/packet"));
        assert_eq!(program(&message(false)), None);
        assert_eq!(
            program(r#"{"reason":"build-finished","success":true}"#),
            None
        );
        assert_eq!(program("no JSON"), None);
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
        for program in &programs[..2] {
            std::fs::remove_file(&program.path).unwrap();
        }
        ends.sort();
        assert_eq!(ends[0].0, "absent");
        assert!(ends[0].1.contains("/absent") && !ends[0].2, "{ends:?}");
        assert!(ends[1].1.contains("signal") && !ends[1].2, "{ends:?}");
        assert_eq!(ends[2], ("good".into(), "/\n--show-output\n".into(), true));
    }
}
