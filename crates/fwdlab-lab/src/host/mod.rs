//! Hosts: where commands run and files are, be it this machine, a network namespace of it, or a machine far away.
//!
//! Nothing in [`Host`] assumes that it is here: a host takes words and texts, and gives texts back. What a DUT does with that is in
//! [`crate::dut`]. Start with [`Host`] and [`Command`]; the hosts themselves are [`local`], [`netns`], [`mod@ssh`] and [`remote`].

pub(crate) mod confinement;
#[cfg(test)]
mod contract;
pub mod local;
pub mod netns;
pub mod reboot;
pub mod registry;
pub mod remote;
#[cfg(test)]
pub(crate) mod scratch;
#[cfg(test)]
pub(crate) mod scripted;
pub mod ssh;
pub mod undo;
pub mod wire;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
pub use crate::failure::{Failure, HostError};
pub use local::Local;
pub use netns::Netns;
pub use remote::Remote;
pub use ssh::Ssh;
pub use undo::Address;

/// A machine, or a part of one, that takes commands.
pub trait Host: fmt::Debug + Send + Sync {
    /// What people call it: `this machine`, `fwdlab-ab3d-dut0`.
    fn name(&self) -> &str;

    /// Where another process finds it, too.
    fn address(&self) -> Address;

    /// Runs a command to its end.
    ///
    /// # Errors
    /// It could not be started, did not end with success or in time, or the host was lost on the way.
    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError>;

    /// Starts a command that goes on; it ends, with everything it started, when what is returned is dropped.
    ///
    /// # Errors
    /// It could not be started.
    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError>;

    /// A file, as its commands see it.
    ///
    /// # Errors
    /// It cannot be read, or the host was lost.
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError>;

    /// Makes this the content of a file, as its commands see it.
    ///
    /// # Errors
    /// It cannot be written, or the host was lost.
    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError>;

    /// Several small files of text, at once where each by itself would be a journey.
    ///
    /// # Errors
    /// The host was lost. A file that cannot be read is an error in its place.
    fn read_each(&self, paths: &[&str]) -> Result<Vec<Result<Vec<u8>, HostError>>, HostError> {
        let each = paths.iter().map(|path| one_file(self.read(path)));
        each.collect()
    }

    /// Makes these texts the content of files, one after the other, at once where each by itself would be a journey.
    ///
    /// # Errors
    /// The host was lost. A file that cannot be written is an error in its place, and those behind it are written all the same.
    fn write_each(&self, files: &[(&str, &str)]) -> Result<Vec<Result<(), HostError>>, HostError> {
        let each = files.iter();
        each.map(|(path, text)| one_file(self.write(path, text.as_bytes())))
            .collect()
    }

    /// Makes a file or folder of this machine's available to its commands, and says under which path.
    ///
    /// # Errors
    /// There is no such thing here, it cannot be written there, or the host was lost.
    fn put(&self, ours: &Path) -> Result<String, HostError>;

    /// Whose the files are that its commands write.
    fn files(&self) -> Files {
        match self.address() {
            Address::Ssh(_) => Files::Machine,
            Address::Agent(_) => Files::Guest,
            Address::ThisMachine | Address::Namespace(_) => Files::Ours,
        }
    }

    /// What a command of ours prints, as text.
    ///
    /// # Errors
    /// As [`Host::run`].
    fn ask(&self, program: &str, arguments: &[&str]) -> Result<String, HostError> {
        let output = self.run(&Command::new(program, arguments), Limit::OURS)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command of ours with a text as its standard input.
    ///
    /// # Errors
    /// As [`Host::run`].
    fn feed(&self, program: &str, arguments: &[&str], input: &str) -> Result<(), HostError> {
        let command = Command::new(program, arguments).with_input(input);
        self.run(&command, Limit::OURS).map(drop)
    }
}

/// What is wrong with one file is no reason not to look at the next one.
fn one_file<T>(of: Result<T, HostError>) -> Result<Result<T, HostError>, HostError> {
    match of {
        Err(error) if !matches!(error.failure, Failure::File(_)) => Err(error),
        of => Ok(of),
    }
}

/// Whose the files of a host are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// Those of a machine of its own: what is changed there stays, and it can be restarted.
    Machine,
    /// Those of a machine that goes when it has been measured.
    Guest,
    /// A view of this machine's, in which `/etc`, `/run` and `/var` are its own and go with it.
    View,
    /// This machine's: not to be touched.
    Ours,
}

/// A command that goes on.
pub trait Process: fmt::Debug + Send {
    /// What it prints next, on standard output or standard error; waits no longer than this.
    ///
    /// # Errors
    /// The host was lost.
    fn next(&mut self, patience: Duration) -> Result<Heard, HostError>;
}

/// What was heard of a command that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A line, without its end.
    Line(String),
    /// Nothing in this time.
    Silence,
    /// It has ended: its status in words.
    End(String),
}

/// A program with its arguments, and what it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Its standard input; `None`: nothing to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What errors call it, where that is not its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shown: Option<String>,
}

impl Command {
    /// A program with arguments.
    pub fn new(program: &str, arguments: &[&str]) -> Command {
        let words = std::iter::once(program).chain(arguments.iter().copied());
        Command {
            words: words.map(str::to_owned).collect(),
            input: None,
            shown: None,
        }
    }

    /// A text for `sh`.
    pub fn shell(text: &str) -> Command {
        Command::new("sh", &["-c", text]).called(text.trim())
    }

    /// The same with a text as its standard input.
    pub fn with_input(self, input: impl Into<String>) -> Command {
        Command {
            input: Some(input.into()),
            ..self
        }
    }

    /// The same under another name: people want to see their own words in an error, and not what we put around them.
    pub fn called(self, name: impl Into<String>) -> Command {
        Command {
            shown: Some(name.into()),
            ..self
        }
    }

    /// The program.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Some(shown) => f.write_str(shown),
            None => {
                let words = self.words.iter().map(|word| quoted(word));
                f.write_str(&words.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+,./:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

/// What ends a command before it ends by itself: all that it started is killed, too.
#[derive(Clone, Copy)]
pub struct Limit<'a> {
    /// Longest time it may take.
    pub time: Duration,
    /// Asked again and again; true when nobody wants it any more.
    pub is_stopped: &'a dyn Fn() -> bool,
}

impl Limit<'_> {
    /// For commands of ours: two million routes are set in less, and a host that hangs is noticed.
    pub const OURS: Limit<'static> = Limit {
        time: Duration::from_secs(300),
        is_stopped: &|| false,
    };
}

/// What a command said that ended with success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// On standard output.
    pub stdout: Vec<u8>,
    /// On standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// All of it as text, standard error last.
    pub fn text(&self) -> String {
        let [stdout, stderr] = [&self.stdout, &self.stderr].map(|b| String::from_utf8_lossy(b));
        format!("{stdout}{stderr}")
    }
}

/// `sh: 1: cannot open /x: No such file` is what a shell says; who it is matters to nobody.
pub(crate) fn without_program(said: &str) -> String {
    let said = said.trim();
    let mut rest = said;
    for part in ["sh: ", "cat: ", "/bin/sh: "] {
        rest = rest.strip_prefix(part).unwrap_or(rest);
    }
    match rest.split_once(": ") {
        Some((number, rest)) if number.trim_start_matches("line ").parse::<u32>().is_ok() => rest,
        _ => rest,
    }
    .to_owned()
}

/// What a command said that reads or writes a file for us, as words of that file.
pub(crate) fn of_file(error: HostError) -> HostError {
    match error.failure {
        Failure::Exit { said, .. } => {
            let why = Failure::File(without_program(&said));
            HostError::new(&error.host, error.what, why)
        }
        _ => error,
    }
}

/// What a host answered is not what it answers to this.
pub(crate) fn not_understood(host: &dyn Host, what: &str, said: &str) -> LabError {
    let said: String = said.chars().take(80).collect();
    LabError::Preflight(format!(
        "`{what}` on {} gives \"{}\", which is not what it should look like. Try it there by hand",
        host.name(),
        said.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell is the judge.
    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        for word in [
            "",
            "plain",
            "a b",
            "it's",
            "$HOME",
            "`x`",
            "*",
            "a\nb",
            "--x=1,2:/y",
        ] {
            let line = format!("printf %s {}", quoted(word));
            let said = Local.run(&Command::shell(&line), Limit::OURS).unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout), word);
        }
        let command = Command::new("ip", &["route", "show", "to", "a b"]);
        assert_eq!(command.to_string(), "ip route show to 'a b'");
    }
}
