//! A machine that is reached over SSH with the user's own client: their configuration, keys, agent,
//! jump hosts and known hosts.
//!
//! All commands share one connection ([`link`]); each has a session on it, and a remote wrapper by
//! which it can be ended with everything that it started ([`shell_text`]). A lost connection is
//! reopened for the next command. Only keys are used, because a password cannot be entered. Start
//! with [`Ssh::new`].

mod agent;
mod link;
mod shell_text;
mod ssh_errors;
mod target;
#[cfg(test)]
pub(crate) mod tests;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use target::{BadTarget, Target};

use self::link::Link;
use self::shell_text::{Input, Job, Status};
use super::local::{AFTER_ITS_END, Captured, LOOK, LocalProcess, feed, spawn};
use super::{
    Address, Command, Failure, Host, HostError, Limit, Local, Output, Process, ProcessEnd,
    ProcessEvent, as_file_error, quoted, without_program,
};
use crate::sys::kill_group;

/// If a session ended without a status, the end of its connection is noticed within this time.
const NOTICE: Duration = Duration::from_millis(500);

/// The status is the last output, or nearly: number of bytes to search while a command runs.
const TAIL: usize = 4096;

/// A machine that is reached over SSH.
#[derive(Debug)]
pub struct Ssh {
    name: String,
    target: Target,
    goes_with_us: bool,
    link: Mutex<Option<Arc<Link>>>,
}

impl Ssh {
    /// Creates a host for this machine; connects when needed.
    pub fn new(target: Target) -> Ssh {
        Ssh {
            name: target.in_known_hosts(),
            target,
            goes_with_us: false,
            link: Mutex::default(),
        }
    }

    /// The same for a machine that ends with this process: changes on it need not be undone when it
    /// is gone.
    pub fn ephemeral(target: Target) -> Ssh {
        Ssh {
            goes_with_us: true,
            ..Ssh::new(target)
        }
    }

    /// Returns its address.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the connection; opens a new one if there is none.
    fn link(&self, limit: Limit<'_>) -> Result<Arc<Link>, Failure> {
        let mut kept = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = &*kept
            && link.end(Duration::ZERO).is_none()
        {
            return Ok(link.clone());
        }
        // it cleans up there before a new one begins
        *kept = None;
        let link = Arc::new(Link::open(&self.target, limit)?);
        *kept = Some(link.clone());
        Ok(link)
    }

    /// Runs words there with bytes as their input.
    fn carry_out(
        &self,
        words: &[String],
        input: Option<&[u8]>,
        limit: Limit<'_>,
    ) -> Result<Output, Failure> {
        let started = Instant::now();
        let link = self.link(limit)?;
        let left = Limit {
            time: limit.time.saturating_sub(started.elapsed()),
            ..limit
        };
        let (how, bytes) = match input {
            Some(bytes) => (Input::Bytes(bytes.len()), bytes),
            None => (Input::Nothing, &[][..]),
        };
        let (client, job) = link.session();
        let session = Session::begin(&link, &client, job, words, how, bytes)?;
        match session.wait(left) {
            Err(Failure::TimedOut { said: output, .. }) => Err(Failure::TimedOut {
                after: limit.time,
                said: output,
            }),
            done => done,
        }
    }

    /// Runs a script of ours in the shell there.
    fn shell(
        &self,
        action: &str,
        text: &str,
        arguments: &[&str],
        input: Option<&[u8]>,
    ) -> Result<Vec<u8>, HostError> {
        self.shell_within(action, text, arguments, input, Limit::OURS)
    }

    /// The same with a limit.
    fn shell_within(
        &self,
        action: &str,
        text: &str,
        arguments: &[&str],
        input: Option<&[u8]>,
        limit: Limit<'_>,
    ) -> Result<Vec<u8>, HostError> {
        let words = ["sh", "-c", text, "sh"].into_iter();
        let words: Vec<String> = words
            .chain(arguments.iter().copied())
            .map(str::to_owned)
            .collect();
        let output = self.carry_out(&words, input, limit);
        let failed = |failure| as_file_error(HostError::new(&self.name, action, failure));
        Ok(output.map_err(failed)?.stdout)
    }

    /// Splits the answers of several files.
    fn each(
        &self,
        verb: &str,
        paths: &[&str],
        action: &str,
        output: &[u8],
    ) -> Result<Vec<Result<Vec<u8>, HostError>>, HostError> {
        let mut rest = output;
        let each = paths.iter().map(|path| {
            let torn = || Failure::Lost("its answer is incomplete".into());
            let (status, content) =
                next_answer(&mut rest).ok_or_else(|| HostError::new(&self.name, action, torn()))?;
            Ok(match status {
                "0" => Ok(content.to_vec()),
                _ => {
                    let reason = without_program(&String::from_utf8_lossy(content));
                    let action = format!("{verb} {path}");
                    Err(HostError::new(&self.name, action, Failure::File(reason)))
                }
            })
        });
        each.collect()
    }

    fn put_file(&self, ours: &Path, action: &str) -> Result<String, HostError> {
        let failed = |e: std::io::Error| {
            let reason = Failure::File(format!("here: {e}"));
            HostError::new(&self.name, action, reason)
        };
        let content = std::fs::read(ours).map_err(failed)?;
        let mode = std::fs::metadata(ours).map_err(failed)?.permissions();
        let mode = match mode.mode() & 0o111 {
            0 => "644",
            _ => "755",
        };
        let text = "mkdir -p \"$1\" && cat >\"$1/$2\" && chmod $3 \"$1/$2\"";
        let folder = self.new_path(action)?;
        let name = last_name(ours);
        self.shell(action, text, &[&folder, &name, mode], Some(&content))?;
        Ok(format!("{folder}/{name}"))
    }

    fn put_folder(&self, ours: &Path, action: &str) -> Result<String, HostError> {
        // follow links, and ignore local owners, which mean nothing there
        let tar = Command::new("tar", &["-chf", "-", "--format=ustar", "-C"]);
        let mut tar = tar.called(action);
        let whole = ours.to_string_lossy();
        tar.words.extend([whole.into_owned(), ".".into()]);
        let packed = Local.run(&tar, Limit::OURS).map_err(|e| {
            let reason = Failure::File(format!("here: {e}"));
            HostError::new(&self.name, action, reason)
        })?;
        let text = "mkdir -p \"$1\" && cd \"$1\" && tar -xof -";
        let path = format!("{}/{}", self.new_path(action)?, last_name(ours));
        self.shell(action, text, &[&path], Some(&packed.stdout))?;
        Ok(path)
    }

    fn new_path(&self, action: &str) -> Result<String, HostError> {
        let link = self.link(Limit::OURS);
        let link = link.map_err(|failure| HostError::new(&self.name, action, failure))?;
        Ok(link.path())
    }
}

impl Host for Ssh {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> Address {
        match self.goes_with_us {
            true => Address::Agent(self.name.clone()),
            false => Address::Ssh(self.target.clone()),
        }
    }

    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError> {
        let input = command.input.as_deref().map(str::as_bytes);
        self.carry_out(&command.words, input, limit)
            .map_err(|failure| HostError::new(&self.name, command, failure))
    }

    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError> {
        let error = |failure| HostError::new(&self.name, command, failure);
        let link = self.link(Limit::OURS).map_err(error)?;
        let (client, job) = link.session();
        let (how, input) = match command.input.as_deref() {
            Some(text) => (Input::Bytes(text.len()), text),
            None => (Input::Nothing, ""),
        };
        let line = line(&job, &command.words, how).map_err(error)?;
        let here = Command {
            words: client,
            ..command.clone().with_input(format!("{line}{input}"))
        };
        Ok(Box::new(Following {
            process: Some(LocalProcess::start(&self.name, command, &here)?),
            command: command.to_string(),
            host: self.name.clone(),
            program: command.program().to_owned(),
            job,
            link,
            has_begun: false,
            status: None,
        }))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.shell(&format!("read {path}"), "exec cat <\"$1\"", &[path], None)
    }

    /// A file gets its new content only when all of it has arrived.
    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError> {
        // a command starts after its input has arrived completely
        let action = format!("write {path}");
        self.shell(&action, "exec cat >\"$1\"", &[path], Some(content))
            .map(drop)
    }

    /// In one session.
    fn read_each(&self, paths: &[&str]) -> Result<Vec<Result<Vec<u8>, HostError>>, HostError> {
        let action = format!("read {} files", paths.len());
        let text = format!("for f; do {}; done", answer("cat <\"$f\""));
        let output = self.shell(&action, &text, paths, None)?;
        self.each("read", paths, &action, &output)
    }

    /// In one session.
    fn write_each(&self, files: &[(&str, &str)]) -> Result<Vec<Result<(), HostError>>, HostError> {
        let action = format!("write {} files", files.len());
        let each = answer("printf %s \"$2\" | cat >\"$1\"");
        let text = format!("while [ $# -gt 0 ]; do {each}; shift 2; done");
        let words: Vec<&str> = files.iter().flat_map(|&(path, of)| [path, of]).collect();
        let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
        let output = self.shell(&action, &text, &words, None)?;
        let all = self.each("write", &paths, &action, &output)?.into_iter();
        Ok(all.map(|one| one.map(drop)).collect())
    }

    /// The copies are removed with the connection.
    fn put(&self, ours: &Path) -> Result<String, HostError> {
        let action = format!("put {} there", ours.display());
        match ours.is_dir() {
            true => self.put_folder(ours, &action),
            false => self.put_file(ours, &action),
        }
    }

    fn disconnect(&self) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Returns a script that runs another one, and prints its status, the length of its output in
/// bytes, and its output. The output must be text, because a shell cannot store zero bytes.
fn answer(text: &str) -> String {
    format!(
        "LC_ALL=C; o=$({{ {text}; s=$?; }} 2>&1; printf '/%s' $s); s=${{o##*/}}; o=${{o%/*}}; printf '%s %s\\n%s' \"$s\" \"${{#o}}\" \"$o\""
    )
}

/// Parses the next of these answers: status and output.
fn next_answer<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, &'a [u8])> {
    let end = rest.iter().position(|&byte| byte == b'\n')?;
    let head = std::str::from_utf8(&rest[..end]).ok()?;
    let (status, length) = head.split_once(' ')?;
    let (content, behind) = rest[end + 1..].split_at_checked(length.parse().ok()?)?;
    *rest = behind;
    Some((status, content))
}

/// Returns the file name of a file or directory, for its copy.
fn last_name(of: &Path) -> String {
    let whole = std::fs::canonicalize(of).unwrap_or_else(|_| of.to_owned());
    let name = of.file_name().or(whole.file_name()).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the line that runs words.
fn line(job: &Job, words: &[String], input: Input) -> Result<String, Failure> {
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Failure::Refused("a word has a zero byte in it".into()));
    }
    Ok(format!("{}\n", job.run(words, input)))
}

/// A command that is running.
struct Session<'a> {
    link: &'a Link,
    job: Job,
    program: &'a str,
    child: Child,
    output: Captured,
}

impl<'a> Session<'a> {
    fn begin(
        link: &'a Link,
        client: &[String],
        job: Job,
        words: &'a [String],
        how: Input,
        input: &[u8],
    ) -> Result<Session<'a>, Failure> {
        let line = line(&job, words, how)?;
        let here = Command {
            words: client.to_vec(),
            ..Command::new("ssh", &[]).with_input("")
        };
        let mut child = spawn(&here)?;
        feed(&mut child, Some(&[line.as_bytes(), input].concat()));
        let output = Captured::take_from(&mut child);
        Ok(Session {
            link,
            job,
            program: words.first().map_or("", String::as_str),
            child,
            output,
        })
    }

    fn wait(mut self, limit: Limit<'_>) -> Result<Output, Failure> {
        let started = Instant::now();
        let gave_up = loop {
            if let Ok(Some(_)) = self.child.try_wait() {
                break None;
            }
            let tail = |stderr: &[u8]| {
                let from = stderr.len().saturating_sub(TAIL);
                self.job.status(&stderr[from..]).is_some()
            };
            if self.output.look(tail) {
                // a daemon that it left behind may keep its output open
                let reported = Instant::now();
                while reported.elapsed() < AFTER_ITS_END
                    && matches!(self.child.try_wait(), Ok(None))
                {
                    self.output.wait(LOOK);
                }
                break None;
            }
            if (limit.is_stopped)() {
                break Some(Failure::Stopped);
            }
            if started.elapsed() > limit.time {
                break Some(Failure::TimedOut {
                    after: limit.time,
                    said: String::new(),
                });
            }
            self.output.wait(LOOK);
        };
        if gave_up.is_some() {
            self.link.kill(&self.job);
        }
        kill_group(self.child.id());
        let _ = self.child.wait();
        let mut output = self.output.collect();
        // discard earlier output of a login shell
        let has_started = self.job.begun(&output.stdout);
        output.stdout.drain(..has_started.unwrap_or_default());
        let reported = self.job.status(&output.stderr);
        if let Some((_, place)) = &reported {
            output.stderr.drain(place.clone());
        }
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        match (gave_up, reported.map(|(status, _)| status)) {
            (Some(Failure::TimedOut { after, .. }), _) => Err(Failure::TimedOut {
                after,
                said: printed,
            }),
            (Some(failure), _) => Err(failure),
            (None, Some(Status::Code(0))) => Ok(output),
            (None, Some(status)) => Err(failed(status, self.program, printed)),
            (None, None) => Err(session_lost(self.link, &printed)),
        }
    }
}

/// Returns the failure of a command that ended with this status.
fn failed(status: Status, program: &str, output: String) -> Failure {
    match status {
        Status::Missing => Failure::Missing {
            program: program.to_owned(),
        },
        Status::Code(_) => Failure::Exit {
            status: status.words(),
            said: output,
        },
        Status::Input => {
            let reason = format!("its input did not arrive, and it was not started: {output}");
            Failure::File(reason.trim_end_matches([':', ' ', '\n']).to_owned())
        }
        Status::Stopped => Failure::Stopped,
    }
}

/// Returns the failure of a command whose session has ended without a status.
fn session_lost(link: &Link, output: &str) -> Failure {
    if let Some(reason) = link.end(NOTICE) {
        return Failure::Lost(reason);
    }
    if output.contains("session request failed") || output.contains("open failed") {
        return Failure::Refused(format!(
            "it accepts no more commands at the same time ({}). Raise MaxSessions in its sshd_config",
            ssh_errors::last_words(output)
        ));
    }
    Failure::Exit {
        status: "killed there".into(),
        said: output.to_owned(),
    }
}

/// A command that keeps running there.
#[derive(Debug)]
struct Following {
    /// `None` after it was ended.
    process: Option<LocalProcess>,
    command: String,
    host: String,
    program: String,
    job: Job,
    link: Arc<Link>,
    has_begun: bool,
    status: Option<Status>,
}

impl Following {
    /// Returns a line of output, without the mark of its end if that is in it.
    fn strip_end_mark(&mut self, line: String) -> Option<String> {
        let whole = format!("{line}\n");
        if !self.has_begun && self.job.begun(whole.as_bytes()).is_some() {
            self.has_begun = true;
            return None;
        }
        let Some((status, place)) = self.job.status(whole.as_bytes()) else {
            return Some(line);
        };
        self.status = Some(status);
        (place.start > 0).then(|| whole[..place.start].to_owned())
    }

    /// Describes its end; an error if it did not begin, or its status is unknown.
    fn ended(&self) -> Result<ProcessEvent, HostError> {
        let failure = match self.status {
            Some(status @ Status::Code(code)) => {
                return Ok(ProcessEvent::End(ProcessEnd {
                    is_success: code == 0,
                    status: status.words(),
                }));
            }
            Some(status) => failed(status, &self.program, String::new()),
            None => session_lost(&self.link, ""),
        };
        Err(HostError::new(&self.host, &self.command, failure))
    }
}

impl Process for Following {
    fn next(&mut self, patience: Duration) -> Result<ProcessEvent, HostError> {
        let until = Instant::now() + patience;
        loop {
            let Some(running) = &mut self.process else {
                return self.ended();
            };
            // standard output may arrive after standard error has reported the end
            let left = match self.status {
                Some(_) => AFTER_ITS_END,
                None => until.saturating_duration_since(Instant::now()),
            };
            match running.next(left)? {
                ProcessEvent::Line(line) => {
                    if let Some(line) = self.strip_end_mark(line) {
                        return Ok(ProcessEvent::Line(line));
                    }
                }
                ProcessEvent::Silence if self.status.is_none() => return Ok(ProcessEvent::Silence),
                ProcessEvent::Silence | ProcessEvent::End(_) => self.process = None,
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if self.process.is_some() && self.status.is_none() {
            self.link.kill(&self.job);
        }
    }
}
