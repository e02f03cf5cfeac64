//! A host for tests: it answers as was recorded, remembers what it was asked, and fails as a host can.
//!
//! Nothing runs. Start with [`Scripted::new`], and [`Scripted::failing`] for one that fails; [`Faults`] is for several.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Address, Command, Failure, Files, Heard, Host, HostError, Limit, Output, Process};
use crate::control::Control;

/// What a scripted host is called that has no other name.
pub(crate) const NAME: &str = "router1";

/// Gives the output for a command and its input; the input of a text for `sh` is that text.
type Answers = Box<dyn Fn(&str, &str) -> String + Send + Sync>;

/// What nobody understands.
const GARBAGE: &str = "\u{fffd}\u{7}%&/ 17 eth\n\n\u{1b}[2J";

/// What a system says of a file that it has not.
const NO_FILE: &str = "No such file or directory (os error 2)";

/// A recorded host.
pub(crate) struct Scripted {
    name: String,
    answers: Answers,
    asked: Mutex<Vec<String>>,
    faults: Arc<Faults>,
    files: Files,
}

/// When hosts fail that share this: what all of them are asked is counted together.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    fails: Option<(usize, Fails)>,
    /// Somebody stops the run just then.
    stops: Option<(usize, Control)>,
    /// Who is lost is there again when the next bed is built.
    pub comes_back: bool,
    so_far: Mutex<SoFar>,
}

#[derive(Debug, Default)]
struct SoFar {
    /// The host that was asked, and what.
    asked: Vec<(String, String)>,
    /// Hosts that cannot be reached any more.
    lost: BTreeSet<String>,
}

impl Faults {
    /// Whoever is asked for the `at`th time, counted from zero, fails so.
    pub fn at(at: usize, how: Fails) -> Faults {
        Faults {
            fails: Some((at, how)),
            ..Faults::default()
        }
    }

    /// Nobody fails, but who is asked for the `at`th time is asked in a run that is stopped meanwhile.
    pub fn stopping(at: usize, control: &Control) -> Faults {
        Faults {
            stops: Some((at, control.clone())),
            ..Faults::default()
        }
    }

    /// Whoever is asked for the `at`th time is lost, and is there again when the next bed is built.
    pub fn dropping(at: usize) -> Faults {
        Faults {
            comes_back: true,
            ..Faults::at(at, Fails::Lost)
        }
    }

    /// A bed is built.
    pub fn next_bed(&self) {
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        if self.comes_back {
            so_far.lost.clear();
        }
    }

    /// What all hosts were asked so far: the name of the host, and what.
    pub fn asked(&self) -> Vec<(String, String)> {
        let so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        so_far.asked.clone()
    }

    /// Something of a host is asked that is no command.
    ///
    /// # Errors
    /// It fails now; with an answer that nobody understands it does not.
    pub fn fail(&self, host: &str, what: &str) -> Result<(), HostError> {
        let failure = match self.of(host, what) {
            None | Some(Fails::Garbage) => return Ok(()),
            Some(how) => how.failure(what),
        };
        Err(HostError::new(host, what, failure))
    }

    /// A host is asked; how it fails.
    fn of(&self, host: &str, what: &str) -> Option<Fails> {
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        let number = so_far.asked.len();
        so_far.asked.push((host.to_owned(), what.to_owned()));
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

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fails {
    /// Our user may not do this.
    Refused,
    /// The program is not there.
    Missing,
    /// The command ends with an error.
    Exit,
    /// It does not end.
    TimedOut,
    /// The connection breaks, and does not come back.
    Lost,
    /// The command says something that nobody understands.
    Garbage,
    /// There is no such file.
    File,
}

impl Fails {
    /// Every way.
    pub const ALL: [Fails; 7] = [
        Fails::Refused,
        Fails::Missing,
        Fails::Exit,
        Fails::TimedOut,
        Fails::Lost,
        Fails::Garbage,
        Fails::File,
    ];

    /// What comes of a program that fails so.
    fn failure(self, program: &str) -> Failure {
        let exit = |status: &str, said: &str| Failure::Exit {
            status: status.into(),
            said: said.into(),
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

    /// What an error says of it, and what it says to do next.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Fails::Refused => ["Permission denied", "Look at what its user is allowed"],
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
    /// One that gives these answers to commands and their input.
    pub fn new(answers: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Scripted {
        Scripted {
            name: NAME.to_owned(),
            answers: Box::new(answers),
            asked: Mutex::default(),
            faults: Arc::default(),
            files: Files::View,
        }
    }

    /// The same with files of this kind.
    pub fn with_files(self, files: Files) -> Scripted {
        Scripted { files, ..self }
    }

    /// The same under this name.
    pub fn called(self, name: &str) -> Scripted {
        Scripted {
            name: name.to_owned(),
            ..self
        }
    }

    /// It fails when it is asked for the `at`th time, counted from zero.
    pub fn failing(self, at: usize, how: Fails) -> Scripted {
        self.with(&Arc::new(Faults::at(at, how)))
    }

    /// It fails with others.
    pub fn with(self, faults: &Arc<Faults>) -> Scripted {
        Scripted {
            faults: faults.clone(),
            ..self
        }
    }

    /// All commands so far, with their input behind them.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    }

    /// What a command says, or how it fails. One that fails by itself has done half of what it was to do, where it can; one that does not
    /// end, or during which the host is lost, all of it: that is the worst for whoever has to take it back.
    fn answer(&self, command: &Command, what: &str) -> Result<String, HostError> {
        let input = command.input.as_deref().unwrap_or_default();
        {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push(format!("{what}\n{input}").trim().to_owned());
        }
        let text = match (command.program(), &command.words[..]) {
            ("sh", [_, option, text, ..]) if option == "-c" => text,
            _ => input,
        };
        let is_file = ["read ", "write "]
            .iter()
            .any(|verb| what.starts_with(verb));
        let was_lost = self.is_lost();
        let Some(how) = self.faults.of(&self.name, what) else {
            return Ok((self.answers)(what, text));
        };
        match how {
            Fails::Exit if what.ends_with("-batch -") => {
                let lines: Vec<&str> = text.lines().collect();
                (self.answers)(what, &lines[..lines.len() / 2].join("\n"));
            }
            Fails::Garbage | Fails::TimedOut => drop((self.answers)(what, text)),
            Fails::Lost if !was_lost => drop((self.answers)(what, text)),
            _ => {}
        }
        if how == Fails::Garbage {
            return Ok(GARBAGE.into());
        }
        let failure = match how {
            Fails::File if is_file => Failure::File(NO_FILE.into()),
            how => how.failure(command.program()),
        };
        Err(HostError::new(&self.name, what, failure))
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
        let what = command.to_string();
        if (limit.is_stopped)() {
            return Err(HostError::new(&self.name, what, Failure::Stopped));
        }
        Ok(Output {
            stdout: self.answer(command, &what)?.into_bytes(),
            stderr: Vec::new(),
        })
    }

    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError> {
        let said = self.answer(command, &command.to_string())?;
        Ok(Box::new(Said(said.lines().map(str::to_owned).collect())))
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

/// Lines of a command that then ends.
#[derive(Debug)]
struct Said(VecDeque<String>);

impl Process for Said {
    fn next(&mut self, _: Duration) -> Result<Heard, HostError> {
        Ok(match self.0.pop_front() {
            Some(line) => Heard::Line(line),
            None => Heard::End("exit status: 0".into()),
        })
    }
}
