//! Hosts: where commands run and files are, which may be this machine, one of its network
//! namespaces, or a remote machine.
//!
//! Nothing in [`Host`] assumes that it is local: a host takes words and texts, and returns texts.
//! How DUTs use this is in [`crate::dut`]. Start with [`Host`] and [`Command`]; the kinds of hosts
//! are [`local`], [`netns`], [`mod@ssh`] and [`remote`].

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

/// A machine, or a part of one, that runs commands.
pub trait Host: fmt::Debug + Send + Sync {
    /// Returns its name for people: `this machine`, `fwdlab-ab3d-dut0`.
    fn name(&self) -> &str;

    /// Returns the address by which other processes find it, too.
    fn address(&self) -> Address;

    /// Runs a command to its end.
    ///
    /// # Errors
    /// The command could not be started, failed, or exceeded the limit, or the host was lost.
    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError>;

    /// Starts a command that keeps running; it ends, with everything it started, when the returned
    /// value is dropped.
    ///
    /// # Errors
    /// The command could not be started.
    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError>;

    /// Reads a file, as commands of the host see it.
    ///
    /// # Errors
    /// The file cannot be read, or the host was lost.
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError>;

    /// Replaces the content of a file, as commands of the host see it.
    ///
    /// # Errors
    /// The file cannot be written, or the host was lost.
    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError>;

    /// Reads several small text files, in one round trip if each would need one.
    ///
    /// # Errors
    /// The host was lost. A file that cannot be read is an error in its position.
    fn read_each(&self, paths: &[&str]) -> Result<Vec<Result<Vec<u8>, HostError>>, HostError> {
        let each = paths.iter().map(|path| one_file(self.read(path)));
        each.collect()
    }

    /// Writes these texts to files in order, in one round trip if each would need one.
    ///
    /// # Errors
    /// The host was lost. A file that cannot be written is an error in its position, and later
    /// files are still written.
    fn write_each(&self, files: &[(&str, &str)]) -> Result<Vec<Result<(), HostError>>, HostError> {
        let each = files.iter();
        each.map(|(path, text)| one_file(self.write(path, text.as_bytes())))
            .collect()
    }

    /// Makes a local file or directory available to commands of the host, and returns its path
    /// there.
    ///
    /// # Errors
    /// The file does not exist here, it cannot be written there, or the host was lost.
    fn put(&self, ours: &Path) -> Result<String, HostError>;

    /// Closes a connection that is shared by commands; the next command opens a new one. Processes
    /// that still run keep the old one.
    fn disconnect(&self) {}

    /// Returns to which system the files belong that its commands write.
    fn files(&self) -> Files {
        match self.address() {
            Address::Ssh(_) => Files::Machine,
            Address::Agent(_) => Files::Guest,
            Address::ThisMachine | Address::Namespace(_) => Files::Ours,
        }
    }

    /// Returns what a command of ours prints, as text.
    ///
    /// # Errors
    /// As for [`Host::run`].
    fn query(&self, program: &str, arguments: &[&str]) -> Result<String, HostError> {
        let output = self.run(&Command::new(program, arguments), Limit::OURS)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command of ours with a text as its standard input.
    ///
    /// # Errors
    /// As for [`Host::run`].
    fn feed(&self, program: &str, arguments: &[&str], input: &str) -> Result<(), HostError> {
        let command = Command::new(program, arguments).with_input(input);
        self.run(&command, Limit::OURS).map(drop)
    }
}

/// Separates errors of one file, after which others can still be tried, from other errors.
fn one_file<T>(of: Result<T, HostError>) -> Result<Result<T, HostError>, HostError> {
    match of {
        Err(error) if !matches!(error.failure, Failure::File(_)) => Err(error),
        of => Ok(of),
    }
}

/// To which system the files of a host belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// A separate machine: changes persist, and it can be restarted.
    Machine,
    /// A virtual machine that is removed after the measurement.
    Guest,
    /// A view of this machine, in which `/etc`, `/run` and `/var` are private and vanish with it.
    View,
    /// This machine: not to be changed.
    Ours,
}

/// A command that keeps running.
pub trait Process: fmt::Debug + Send {
    /// Returns what it prints next, on standard output or standard error; waits no longer than
    /// `patience`.
    ///
    /// # Errors
    /// The host was lost.
    fn next(&mut self, patience: Duration) -> Result<ProcessEvent, HostError>;
}

/// What a running command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Printed a line, without its newline.
    Line(String),
    /// Printed nothing in this time.
    Silence,
    /// Ended.
    End(ProcessEnd),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// True if its exit status is 0.
    pub is_success: bool,
    /// A description of its exit status.
    pub status: String,
}

impl ProcessEnd {
    /// A command that succeeded.
    pub fn success() -> ProcessEnd {
        std::process::ExitStatus::default().into()
    }
}

impl From<std::process::ExitStatus> for ProcessEnd {
    fn from(status: std::process::ExitStatus) -> ProcessEnd {
        ProcessEnd {
            is_success: status.success(),
            status: status.to_string(),
        }
    }
}

/// A program with its arguments and input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Its standard input; `None`: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Its name in errors, if that differs from its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shown: Option<String>,
}

impl Command {
    /// Creates a command from a program and its arguments.
    pub fn new(program: &str, arguments: &[&str]) -> Command {
        let words = std::iter::once(program).chain(arguments.iter().copied());
        Command {
            words: words.map(str::to_owned).collect(),
            input: None,
            shown: None,
        }
    }

    /// Creates a command from a text for `sh`.
    pub fn shell(text: &str) -> Command {
        Command::new("sh", &["-c", text]).called(text.trim())
    }

    /// Sets its standard input.
    pub fn with_input(self, input: impl Into<String>) -> Command {
        Command {
            input: Some(input.into()),
            ..self
        }
    }

    /// Sets its name in errors, because people want to see their own command, not what fwdlab wraps
    /// around it.
    pub fn called(self, name: impl Into<String>) -> Command {
        Command {
            shown: Some(name.into()),
            ..self
        }
    }

    /// Returns the program.
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

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+,./:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

/// Ends a command early, with everything that it started.
#[derive(Clone, Copy)]
pub struct Limit<'a> {
    /// The longest time it may take.
    pub time: Duration,
    /// Checked repeatedly; returns true when the result is no longer needed.
    pub is_stopped: &'a dyn Fn() -> bool,
}

impl Limit<'_> {
    /// For commands of ours: two million routes are set in less, and a host that hangs is noticed.
    pub const OURS: Limit<'static> = Limit {
        time: Duration::from_secs(300),
        is_stopped: &|| false,
    };
}

/// The output of a command that succeeded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Returns all of it as text, standard error last.
    pub fn text(&self) -> String {
        let [stdout, stderr] = [&self.stdout, &self.stderr].map(|b| String::from_utf8_lossy(b));
        format!("{stdout}{stderr}")
    }
}

/// Removes the name of the shell and the line from a message like
/// `sh: 1: cannot open /x: No such file`.
pub(crate) fn without_program(output: &str) -> String {
    let output = output.trim();
    let mut rest = output;
    for part in ["sh: ", "cat: ", "/bin/sh: "] {
        rest = rest.strip_prefix(part).unwrap_or(rest);
    }
    match rest.split_once(": ") {
        Some((number, rest)) if number.trim_start_matches("line ").parse::<u32>().is_ok() => rest,
        _ => rest,
    }
    .to_owned()
}

/// Turns the failure of a command that reads or writes a file for us into one of that file.
pub(crate) fn as_file_error(error: HostError) -> HostError {
    match error.failure {
        Failure::Exit { said: output, .. } => {
            let reason = Failure::File(without_program(&output));
            HostError::new(&error.host, error.what, reason)
        }
        _ => error,
    }
}

/// Returns the error for an answer of a host that has an unexpected format.
pub(crate) fn not_understood(host: &dyn Host, action: &str, output: &str) -> LabError {
    let output: String = output.chars().take(80).collect();
    LabError::Preflight(format!(
        "`{action}` on {} gives \"{}\", which is not what it should look like. Try it there by hand",
        host.name(),
        output.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a real shell.
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
            let output = Local.run(&Command::shell(&line), Limit::OURS).unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
        let command = Command::new("ip", &["route", "show", "to", "a b"]);
        assert_eq!(command.to_string(), "ip route show to 'a b'");
    }
}
