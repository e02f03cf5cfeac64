//! A machine that is reached over SSH with the user's own client: their configuration, keys, agent,
//! jump hosts and known hosts.
//!
//! All commands share one connection ([`link`]); each has a session on it, and a remote wrapper by
//! which it can be ended with everything that it started ([`far`]). A lost connection is reopened
//! for the next command. Only keys are used, because a password cannot be entered. Start with
//! [`Ssh::new`].

mod agent;
mod far;
mod link;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod words;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use target::{BadTarget, Target};

use self::far::{Input, Job, Status};
use self::link::Link;
use super::local::{AFTER_ITS_END, Captured, Going, LOOK, feed, spawn};
use super::{
    Address, Command, Failure, Heard, Host, HostError, Limit, Local, Output, Process, of_file,
    quoted, without_program,
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
    pub fn that_goes_with_us(target: Target) -> Ssh {
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
        let began = Instant::now();
        let link = self.link(limit)?;
        let left = Limit {
            time: limit.time.saturating_sub(began.elapsed()),
            ..limit
        };
        let (how, bytes) = match input {
            Some(bytes) => (Input::Bytes(bytes.len()), bytes),
            None => (Input::Nothing, &[][..]),
        };
        let (client, job) = link.session();
        let session = Session::begin(&link, &client, job, words, how, bytes)?;
        match session.wait(left) {
            Err(Failure::TimedOut { said, .. }) => Err(Failure::TimedOut {
                after: limit.time,
                said,
            }),
            done => done,
        }
    }

    /// Runs a script of ours in the shell there.
    fn shell(
        &self,
        what: &str,
        text: &str,
        arguments: &[&str],
        input: Option<&[u8]>,
    ) -> Result<Vec<u8>, HostError> {
        self.shell_within(what, text, arguments, input, Limit::OURS)
    }

    /// The same with a limit.
    fn shell_within(
        &self,
        what: &str,
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
        let failed = |failure| of_file(HostError::new(&self.name, what, failure));
        Ok(output.map_err(failed)?.stdout)
    }

    /// Splits the answers of several files.
    fn each(
        &self,
        verb: &str,
        paths: &[&str],
        what: &str,
        said: &[u8],
    ) -> Result<Vec<Result<Vec<u8>, HostError>>, HostError> {
        let mut rest = said;
        let each = paths.iter().map(|path| {
            let torn = || Failure::Lost("its answer is not whole".into());
            let (status, content) =
                next_answer(&mut rest).ok_or_else(|| HostError::new(&self.name, what, torn()))?;
            Ok(match status {
                "0" => Ok(content.to_vec()),
                _ => {
                    let why = without_program(&String::from_utf8_lossy(content));
                    let what = format!("{verb} {path}");
                    Err(HostError::new(&self.name, what, Failure::File(why)))
                }
            })
        });
        each.collect()
    }

    fn put_file(&self, ours: &Path, what: &str) -> Result<String, HostError> {
        let failed = |e: std::io::Error| {
            let why = Failure::File(format!("here: {e}"));
            HostError::new(&self.name, what, why)
        };
        let content = std::fs::read(ours).map_err(failed)?;
        let mode = std::fs::metadata(ours).map_err(failed)?.permissions();
        let mode = match mode.mode() & 0o111 {
            0 => "644",
            _ => "755",
        };
        let text = "mkdir -p \"$1\" && cat >\"$1/$2\" && chmod $3 \"$1/$2\"";
        let folder = self.new_path(what)?;
        let name = last_name(ours);
        self.shell(what, text, &[&folder, &name, mode], Some(&content))?;
        Ok(format!("{folder}/{name}"))
    }

    fn put_folder(&self, ours: &Path, what: &str) -> Result<String, HostError> {
        // follow links, and ignore local owners, which mean nothing there
        let tar = Command::new("tar", &["-chf", "-", "--format=ustar", "-C"]);
        let mut tar = tar.called(what);
        let whole = ours.to_string_lossy();
        tar.words.extend([whole.into_owned(), ".".into()]);
        let packed = Local.run(&tar, Limit::OURS).map_err(|e| {
            let why = Failure::File(format!("here: {e}"));
            HostError::new(&self.name, what, why)
        })?;
        let text = "mkdir -p \"$1\" && cd \"$1\" && tar -xof -";
        let path = format!("{}/{}", self.new_path(what)?, last_name(ours));
        self.shell(what, text, &[&path], Some(&packed.stdout))?;
        Ok(path)
    }

    fn new_path(&self, what: &str) -> Result<String, HostError> {
        let link = self.link(Limit::OURS);
        let link = link.map_err(|failure| HostError::new(&self.name, what, failure))?;
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
            going: Some(Going::start(&self.name, command, &here)?),
            what: command.to_string(),
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
        let what = format!("write {path}");
        self.shell(&what, "exec cat >\"$1\"", &[path], Some(content))
            .map(drop)
    }

    /// In one session.
    fn read_each(&self, paths: &[&str]) -> Result<Vec<Result<Vec<u8>, HostError>>, HostError> {
        let what = format!("read {} files", paths.len());
        let text = format!("for f; do {}; done", answer("cat <\"$f\""));
        let said = self.shell(&what, &text, paths, None)?;
        self.each("read", paths, &what, &said)
    }

    /// In one session.
    fn write_each(&self, files: &[(&str, &str)]) -> Result<Vec<Result<(), HostError>>, HostError> {
        let what = format!("write {} files", files.len());
        let each = answer("printf %s \"$2\" | cat >\"$1\"");
        let text = format!("while [ $# -gt 0 ]; do {each}; shift 2; done");
        let words: Vec<&str> = files.iter().flat_map(|&(path, of)| [path, of]).collect();
        let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
        let said = self.shell(&what, &text, &words, None)?;
        let all = self.each("write", &paths, &what, &said)?.into_iter();
        Ok(all.map(|one| one.map(drop)).collect())
    }

    /// The copies are removed with the connection.
    fn put(&self, ours: &Path) -> Result<String, HostError> {
        let what = format!("put {} there", ours.display());
        match ours.is_dir() {
            true => self.put_folder(ours, &what),
            false => self.put_file(ours, &what),
        }
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
        let output = Captured::of(&mut child);
        Ok(Session {
            link,
            job,
            program: words.first().map_or("", String::as_str),
            child,
            output,
        })
    }

    fn wait(mut self, limit: Limit<'_>) -> Result<Output, Failure> {
        let began = Instant::now();
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
                let told = Instant::now();
                while told.elapsed() < AFTER_ITS_END && matches!(self.child.try_wait(), Ok(None)) {
                    self.output.wait(LOOK);
                }
                break None;
            }
            if (limit.is_stopped)() {
                break Some(Failure::Stopped);
            }
            if began.elapsed() > limit.time {
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
        let begun = self.job.begun(&output.stdout);
        output.stdout.drain(..begun.unwrap_or_default());
        let told = self.job.status(&output.stderr);
        if let Some((_, place)) = &told {
            output.stderr.drain(place.clone());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match (gave_up, told.map(|(status, _)| status)) {
            (Some(Failure::TimedOut { after, .. }), _) => Err(Failure::TimedOut { after, said }),
            (Some(failure), _) => Err(failure),
            (None, Some(Status::Code(0))) => Ok(output),
            (None, Some(status)) => Err(failed(status, self.program, said)),
            (None, None) => Err(without_a_word(self.link, &said)),
        }
    }
}

/// Returns the failure of a command that ended with this status.
fn failed(status: Status, program: &str, said: String) -> Failure {
    match status {
        Status::Missing => Failure::Missing {
            program: program.to_owned(),
        },
        Status::Code(_) => Failure::Exit {
            status: status.words(),
            said,
        },
        Status::Input => {
            let why = format!("its input did not arrive, and it was not begun: {said}");
            Failure::File(why.trim_end_matches([':', ' ', '\n']).to_owned())
        }
        Status::Stopped => Failure::Stopped,
    }
}

/// Returns the failure of a command whose session has ended without a status.
fn without_a_word(link: &Link, said: &str) -> Failure {
    if let Some(why) = link.end(NOTICE) {
        return Failure::Lost(why);
    }
    if said.contains("session request failed") || said.contains("open failed") {
        return Failure::Refused(format!(
            "it takes no more commands at the same time ({}). Raise MaxSessions in its sshd_config",
            words::last_words(said)
        ));
    }
    Failure::Exit {
        status: "killed there".into(),
        said: said.to_owned(),
    }
}

/// A command that keeps running there.
#[derive(Debug)]
struct Following {
    /// `None` after it was ended.
    going: Option<Going>,
    what: String,
    host: String,
    program: String,
    job: Job,
    link: Arc<Link>,
    has_begun: bool,
    status: Option<Status>,
}

impl Following {
    /// Returns a line of output, without the mark of its end if that is in it.
    fn heard(&mut self, line: String) -> Option<String> {
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
    fn ended(&self) -> Result<Heard, HostError> {
        let failure = match self.status {
            Some(status @ Status::Code(_)) => return Ok(Heard::End(status.words())),
            Some(status) => failed(status, &self.program, String::new()),
            None => without_a_word(&self.link, ""),
        };
        Err(HostError::new(&self.host, &self.what, failure))
    }
}

impl Process for Following {
    fn next(&mut self, patience: Duration) -> Result<Heard, HostError> {
        let until = Instant::now() + patience;
        loop {
            let Some(going) = &mut self.going else {
                return self.ended();
            };
            // standard output may arrive after standard error has reported the end
            let left = match self.status {
                Some(_) => AFTER_ITS_END,
                None => until.saturating_duration_since(Instant::now()),
            };
            match going.next(left)? {
                Heard::Line(line) => {
                    if let Some(line) = self.heard(line) {
                        return Ok(Heard::Line(line));
                    }
                }
                Heard::Silence if self.status.is_none() => return Ok(Heard::Silence),
                Heard::Silence | Heard::End(_) => self.going = None,
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if self.going.is_some() && self.status.is_none() {
            self.link.kill(&self.job);
        }
    }
}
