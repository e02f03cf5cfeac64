//! A host for tests: gives recorded answers, remembers all commands, and fails like real hosts.
//!
//! Runs nothing. Start with [`Scripted::new`], and [`Scripted::failing`] for one that fails;
//! [`Faults`] is for several hosts.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{
    Address, Command, Failure, Files, Host, HostError, Limit, Output, Process, ProcessEnd,
    ProcessEvent,
};
use crate::control::Control;

/// The default name of a scripted host.
pub(crate) const NAME: &str = "router1";

/// Returns the output of a command with this input; for `sh -c` the input is the script.
type Answers = Box<dyn Fn(&str, &str) -> String + Send + Sync>;

/// Output that cannot be understood.
const GARBAGE: &str = "\u{fffd}\u{7}%&/ 17 eth\n\n\u{1b}[2J";

/// A system's message for a missing file.
const NO_FILE: &str = "No such file or directory (os error 2)";

/// A recorded host.
pub(crate) struct Scripted {
    name: String,
    answers: Answers,
    asked: Mutex<Vec<String>>,
    faults: Arc<Faults>,
    files: Files,
}

/// When the hosts that share this fail: their commands are counted together.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    fails: Option<(usize, Fails)>,
    /// Stops the run at this command.
    stops: Option<(usize, Control)>,
    /// Lost hosts are back when the next bed is built.
    pub comes_back: bool,
    so_far: Mutex<PartialOutput>,
}

#[derive(Debug, Default)]
struct PartialOutput {
    /// The commands so far, with the names of their hosts.
    asked: Vec<(String, String)>,
    /// Hosts that cannot be reached any more.
    lost: BTreeSet<String>,
}

impl Faults {
    /// The `at`th command, counted from zero, fails like this.
    pub fn at(at: usize, how: Fails) -> Faults {
        Faults {
            fails: Some((at, how)),
            ..Faults::default()
        }
    }

    /// No command fails, but the run is stopped during the `at`th.
    pub fn stopping(at: usize, control: &Control) -> Faults {
        Faults {
            stops: Some((at, control.clone())),
            ..Faults::default()
        }
    }

    /// The `at`th command fails like this, because who ended it has stopped the run, too.
    pub fn ending(at: usize, how: Fails, control: &Control) -> Faults {
        Faults {
            fails: Some((at, how)),
            ..Faults::stopping(at, control)
        }
    }

    /// The host of the `at`th command is lost, and is back when the next bed is built.
    pub fn dropping(at: usize) -> Faults {
        Faults {
            comes_back: true,
            ..Faults::at(at, Fails::Lost)
        }
    }

    /// Must be called when a bed is built.
    pub fn next_bed(&self) {
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        if self.comes_back {
            so_far.lost.clear();
        }
    }

    /// Returns the commands of all hosts so far: the name of the host, and the command.
    pub fn commands(&self) -> Vec<(String, String)> {
        let so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        so_far.asked.clone()
    }

    /// Counts an operation of a host that is not a command.
    ///
    /// # Errors
    /// It fails now; [`Fails::Garbage`] has no effect.
    pub fn fail(&self, host: &str, action: &str) -> Result<(), HostError> {
        let failure = match self.matching(host, action) {
            None | Some(Fails::Garbage) => return Ok(()),
            Some(how) => how.failure(action),
        };
        Err(HostError::new(host, action, failure))
    }

    /// Counts a command of a host, and returns how it fails.
    fn matching(&self, host: &str, action: &str) -> Option<Fails> {
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        let number = so_far.asked.len();
        so_far.asked.push((host.to_owned(), action.to_owned()));
        if let Some((_, control)) = self.stops.as_ref().filter(|(at, _)| *at == number) {
            control.stop();
        }
        if so_far.lost.contains(host) {
            return Some(Fails::Lost);
        }
        let (_, how) = self.fails.filter(|(at, _)| *at == number)?;
        if how == Fails::Lost {
            so_far.lost.insert(host.to_owned());
        }
        Some(how)
    }
}

/// How a command fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fails {
    /// The user may not do this.
    Refused,
    /// The program does not exist.
    Missing,
    /// The command ends with an error.
    Exit,
    /// It does not end.
    TimedOut,
    /// The connection breaks, and does not come back.
    Lost,
    /// The command prints something that cannot be understood.
    Garbage,
    /// The file does not exist.
    File,
}

impl Fails {
    /// All kinds of failures.
    pub const ALL: [Fails; 7] = [
        Fails::Refused,
        Fails::Missing,
        Fails::Exit,
        Fails::TimedOut,
        Fails::Lost,
        Fails::Garbage,
        Fails::File,
    ];

    /// Returns the failure of a program.
    fn failure(self, program: &str) -> Failure {
        let exit = |status: &str, output: &str| Failure::Exit {
            status: status.into(),
            said: output.into(),
        };
        match self {
            Fails::Refused => Failure::Refused("Permission denied".into()),
            Fails::Missing => Failure::Missing {
                program: program.to_owned(),
            },
            Fails::Exit | Fails::Garbage => exit("exit status: 2", "it went wrong\n"),
            Fails::TimedOut => Failure::TimedOut {
                after: Duration::from_secs(60),
                said: String::new(),
            },
            Fails::Lost => Failure::Lost("Connection reset by peer".into()),
            Fails::File => exit("exit status: 1", NO_FILE),
        }
    }

    /// Returns words that the error contains: what happened, and what to do next.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Fails::Refused => ["Permission denied", "Check the permissions of its user"],
            Fails::Missing => ["there is no program", "Install it there with"],
            Fails::Exit => ["exit status: 2", "it went wrong"],
            Fails::TimedOut => ["timed out after", "Run it there by hand"],
            Fails::Lost => [
                "Connection reset by peer",
                "is running and reachable, and start again",
            ],
            Fails::Garbage => ["", ""],
            Fails::File => [NO_FILE, ""],
        }
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted {} {:?}", self.name, self.faults.fails)
    }
}

impl Scripted {
    /// Creates a host with these answers to commands and their input.
    pub fn new(answers: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Scripted {
        Scripted {
            name: NAME.to_owned(),
            answers: Box::new(answers),
            asked: Mutex::default(),
            faults: Arc::default(),
            files: Files::View,
        }
    }

    /// Sets the kind of its files.
    pub fn with_files(self, files: Files) -> Scripted {
        Scripted { files, ..self }
    }

    /// Sets its name.
    pub fn called(self, name: &str) -> Scripted {
        Scripted {
            name: name.to_owned(),
            ..self
        }
    }

    /// Makes the `at`th command fail, counted from zero.
    pub fn failing(self, at: usize, how: Fails) -> Scripted {
        self.with(&Arc::new(Faults::at(at, how)))
    }

    /// Makes it share faults with other hosts.
    pub fn with(self, faults: &Arc<Faults>) -> Scripted {
        Scripted {
            faults: faults.clone(),
            ..self
        }
    }

    /// Returns all commands so far, each followed by its input.
    pub fn commands(&self) -> Vec<String> {
        let requested = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        requested.clone()
    }

    /// Returns the output of a command, or how it fails. A batch that fails by itself has done half
    /// of its work; a command that does not end, prints garbage, or loses the host has done all of
    /// it: these are the worst cases for undoing it.
    fn answer(&self, command: &Command, action: &str) -> Result<String, HostError> {
        let input = command.input.as_deref().unwrap_or_default();
        {
            let mut requested = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            requested.push(format!("{action}\n{input}").trim().to_owned());
        }
        let text = match (command.program(), &command.words[..]) {
            ("sh", [_, option, text, ..]) if option == "-c" => text,
            _ => input,
        };
        let is_file = ["read ", "write "]
            .iter()
            .any(|verb| action.starts_with(verb));
        let was_lost = self.is_lost();
        let Some(how) = self.faults.matching(&self.name, action) else {
            return Ok((self.answers)(action, text));
        };
        match how {
            Fails::Exit if action.ends_with("-batch -") => {
                let lines: Vec<&str> = text.lines().collect();
                (self.answers)(action, &lines[..lines.len() / 2].join("\n"));
            }
            Fails::Garbage | Fails::TimedOut => drop((self.answers)(action, text)),
            Fails::Lost if !was_lost => drop((self.answers)(action, text)),
            _ => {}
        }
        if how == Fails::Garbage {
            return Ok(GARBAGE.into());
        }
        let failure = match how {
            Fails::File if is_file => Failure::File(NO_FILE.into()),
            how => how.failure(command.program()),
        };
        Err(HostError::new(&self.name, action, failure))
    }

    fn is_lost(&self) -> bool {
        let so_far = self.faults.so_far.lock();
        let so_far = so_far.unwrap_or_else(PoisonError::into_inner);
        so_far.lost.contains(&self.name)
    }
}

impl Host for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> Address {
        Address::Namespace(self.name.clone())
    }

    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError> {
        let action = command.to_string();
        if (limit.is_stopped)() {
            return Err(HostError::new(&self.name, action, Failure::Stopped));
        }
        Ok(Output {
            stdout: self.answer(command, &action)?.into_bytes(),
            stderr: Vec::new(),
        })
    }

    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError> {
        let output = self.answer(command, &command.to_string())?;
        Ok(Box::new(ScriptedLines(
            output.lines().map(str::to_owned).collect(),
        )))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let cat = Command::new("cat", &[path]);
        self.answer(&cat, &format!("read {path}"))
            .map(String::into_bytes)
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError> {
        let cat = Command::new("cat", &[path]).with_input(String::from_utf8_lossy(content));
        self.answer(&cat, &format!("write {path}")).map(drop)
    }

    fn put(&self, ours: &Path) -> Result<String, HostError> {
        let path = format!("/tmp/fwdlab/{}", ours.display());
        let put = Command::new("tar", &[&path]);
        self.answer(&put, &format!("put {}", ours.display()))?;
        Ok(path)
    }

    fn files(&self) -> Files {
        self.files
    }
}

/// The lines of a command that then ends.
#[derive(Debug)]
struct ScriptedLines(VecDeque<String>);

impl Process for ScriptedLines {
    fn next(&mut self, _: Duration) -> Result<ProcessEvent, HostError> {
        Ok(match self.0.pop_front() {
            Some(line) => ProcessEvent::Line(line),
            None => ProcessEvent::End(ProcessEnd::success()),
        })
    }
}
