//! A host for tests: it answers as was recorded, remembers what it was asked, and fails as a host can.
//!
//! Nothing runs. Start with [`Scripted::new`], and [`Scripted::failing`] for one that fails.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Address, Command, Failure, Heard, Host, HostError, Limit, Output, Process};

/// What a scripted host is called.
pub(crate) const NAME: &str = "router1";

/// Gives the output for a command and its input.
type Answers = Box<dyn Fn(&str, &str) -> String + Send + Sync>;

/// A recorded host.
pub(crate) struct Scripted {
    answers: Answers,
    fails: Option<(usize, Fails)>,
    asked: Mutex<Vec<String>>,
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
}

impl Fails {
    /// Every way.
    pub const ALL: [Fails; 6] = [
        Fails::Refused,
        Fails::Missing,
        Fails::Exit,
        Fails::TimedOut,
        Fails::Lost,
        Fails::Garbage,
    ];

    /// What an error says of it, and what it says to do next.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Fails::Refused => ["Permission denied", "Look at what its user is allowed"],
            Fails::Missing => ["there is no program", "Install it there with"],
            Fails::Exit => ["exit status: 2", "it went wrong"],
            Fails::TimedOut => ["had no end after", "Try it there by hand"],
            Fails::Lost => [
                "Connection reset by peer",
                "runs and can be reached, and start again",
            ],
            Fails::Garbage => ["", ""],
        }
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted {:?}", self.fails)
    }
}

impl Scripted {
    /// One that gives these answers to commands and their input.
    pub fn new(answers: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Scripted {
        Scripted {
            answers: Box::new(answers),
            fails: None,
            asked: Mutex::default(),
        }
    }

    /// It fails when it is asked for the `at`th time, counted from zero.
    pub fn failing(self, at: usize, how: Fails) -> Scripted {
        Scripted {
            fails: Some((at, how)),
            ..self
        }
    }

    /// All commands so far, with their input behind them.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    }

    fn answer(&self, command: &Command, what: &str) -> Result<String, HostError> {
        let input = command.input.as_deref().unwrap_or_default();
        let number = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push(format!("{what}\n{input}").trim().to_owned());
            asked.len() - 1
        };
        let failing = self
            .fails
            .filter(|(at, how)| number == *at || *how == Fails::Lost && number > *at);
        let Some((_, how)) = failing else {
            return Ok((self.answers)(what, input));
        };
        let failure = match how {
            Fails::Garbage => return Ok("\u{fffd}\u{7}%&/ 17 eth\n\n\u{1b}[2J".into()),
            Fails::Refused => Failure::Refused("Permission denied".into()),
            Fails::Missing => Failure::Missing {
                program: command.program().to_owned(),
            },
            Fails::Exit => Failure::Exit {
                status: "exit status: 2".into(),
                said: "it went wrong\n".into(),
            },
            Fails::TimedOut => Failure::TimedOut {
                after: Duration::from_secs(60),
                said: String::new(),
            },
            Fails::Lost => Failure::Lost("Connection reset by peer".into()),
        };
        Err(HostError::new(NAME, what, failure))
    }
}

impl Host for Scripted {
    fn name(&self) -> &str {
        NAME
    }

    fn address(&self) -> Address {
        Address::Namespace(NAME.into())
    }

    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError> {
        let what = command.to_string();
        if (limit.is_stopped)() {
            return Err(HostError::new(NAME, what, Failure::Stopped));
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
