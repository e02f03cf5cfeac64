//! An agent on a host over SSH: copies our program there, once for every version, and runs it in a
//! session.
//!
//! It ends with the session; the session's wrapper then ends everything it has started. Start with
//! [`Ssh::start_agent`].

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::link::Link;
use super::shell_text::{Input, Job};
use super::ssh_errors::last_words;
use super::{Ssh, line};
use crate::host::wire::connection::{Connection, EndReason};
use crate::host::{Command, Failure, Host, HostError, Limit, Remote};
use crate::sys::{die_with_parent, kill_group};

/// The operation, for errors.
const WHAT: &str = "start an agent there";

/// The last output of a session that has ended arrives within this time.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Name of a program that is not replaced by another version.
const NAME: &str = "fwdlab";

/// Looks for our program in two directories, because some systems mount one of them noexec: the
/// user's cache, and `$4`, which is removed with the connection. Prints the path of the program
/// `$1` of `$2` bytes and checksum `$3`. With `$5`, reads the program from standard input if it is
/// not there yet, and prints the error of starting it if that fails.
const BRING: &str = "\
is_ours() { [ -f \"$1\" ] && [ $(($(wc -c <\"$1\"))) -eq $size ] || return 1
    ! command -v sha256sum >/dev/null || [ \"$(sha256sum <\"$1\" | cut -d' ' -f1)\" = $sum ] || return 1
    why=$(\"$1\" --version 2>&1 >/dev/null </dev/null); }
name=$1 size=$2 sum=$3 brought=$5 kept= why=
for folder in \"${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/fwdlab/agent\" \"$4\"; do
    umask 077
    mkdir -p \"$folder\" 2>/dev/null && [ -O \"$folder\" ] || continue
    if is_ours \"$folder/$name\"; then echo \"$folder/$name\"; exit; fi
    [ \"$brought\" ] || continue
    new=$folder/new.$$
    # what is read is read once: a folder that executes nothing hands it on
    if [ \"$kept\" ]; then cp \"$kept\" \"$new\" && rm -f \"$kept\"; else cat >\"$new\"; fi
    chmod 700 \"$new\" && is_ours \"$new\" || { kept=$new; continue; }
    rm -f \"$folder\"/fwdlab-* && mv -f \"$new\" \"$folder/$name\" && echo \"$folder/$name\" && exit
done
[ -z \"$kept\" ] || rm -f \"$kept\"
[ -z \"$brought\" ] || { echo \"$why\" >&2; exit 1; }";

/// Advice in errors.
const ADVICE: &str = "it runs neither in ~/.cache/fwdlab/agent nor in the folder for temporary files. Check that they are writable, have \
                      free space, and are mounted without noexec";

impl Ssh {
    /// Starts this program there as an agent, and copies it first if needed. The agent ends, with
    /// everything it started, when the returned value is dropped, or the connection is lost.
    ///
    /// # Errors
    /// The host cannot be reached, or does not run our program, and why.
    pub fn start_agent(&self, program: &Path, limit: Limit<'_>) -> Result<Remote, HostError> {
        let error = |failure| HostError::new(&self.name, WHAT, failure);
        self.check_compatible(limit)?;
        let path = self.bring(program, limit)?;
        let link = self.link(limit).map_err(error)?;
        let folder = link.path();
        let words = [&*path, "agent", "--stdio", &*folder].map(str::to_owned);
        let (stream, end) = begin(&link, &words, limit).map_err(error)?;
        let connection = Connection::new(stream, Box::new(end)).with_heartbeat();
        let connection = connection.map_err(refused).map_err(error)?;
        let hello = connection.hello(limit).map_err(error)?;
        let ours = env!("CARGO_PKG_VERSION");
        if hello.version != ours {
            let reason = format!("it is fwdlab {}, and this is fwdlab {ours}", hello.version);
            return Err(error(Failure::Refused(reason)));
        }
        Ok(Remote::new(&self.name, Arc::new(connection)).with_address(self.address()))
    }

    /// Checks that our program can run there.
    fn check_compatible(&self, limit: Limit<'_>) -> Result<(), HostError> {
        let theirs = self.run(&Command::new("uname", &["-s", "-m"]), limit)?;
        let theirs = String::from_utf8_lossy(&theirs.stdout);
        let own = rustix::system::uname();
        let [system, machine] = [own.sysname(), own.machine()].map(|of| of.to_string_lossy());
        if theirs.trim() == format!("{system} {machine}") {
            return Ok(());
        }
        let reason = Failure::Refused(format!(
            "its system is {}, and this fwdlab is for {system} {machine}: what needs an agent there cannot be done",
            theirs.trim()
        ));
        Err(HostError::new(&self.name, WHAT, reason))
    }

    /// Copies the program there if needed, and returns its path.
    fn bring(&self, program: &Path, limit: Limit<'_>) -> Result<String, HostError> {
        let action = format!("bring {} there", program.display());
        let failed = |reason: String| HostError::new(&self.name, &action, Failure::File(reason));
        let content = std::fs::read(program).map_err(|e| failed(format!("here: {e}")))?;
        let sum: String = Sha256::digest(&content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("{NAME}-{}-{}", env!("CARGO_PKG_VERSION"), &sum[..16]);
        let fallback = self.new_path(&action)?;
        for (brought, bytes) in [("", None), ("brought", Some(&*content))] {
            let arguments = [&*name, &content.len().to_string(), &sum, &fallback, brought];
            let output = match self.shell_within(&action, BRING, &arguments, bytes, limit) {
                Err(error) => match error.failure {
                    Failure::File(reason) if reason.trim().is_empty() => {
                        return Err(failed(ADVICE.into()));
                    }
                    Failure::File(reason) => {
                        return Err(failed(format!("{ADVICE}. Its error: {}", reason.trim())));
                    }
                    _ => return Err(error),
                },
                output => output?,
            };
            let path = String::from_utf8_lossy(&output).trim().to_owned();
            if !path.is_empty() {
                return Ok(path);
            }
        }
        Err(failed(ADVICE.into()))
    }
}

/// Starts a session; returns our end of its stream, and the state of its end.
fn begin(
    link: &Arc<Link>,
    words: &[String],
    limit: Limit<'_>,
) -> Result<(UnixStream, Session), Failure> {
    let (client, job) = link.session();
    let line = line(&job, words, Input::Stream)?;
    let pair = UnixStream::pair().and_then(|(ours, theirs)| {
        let again = theirs.try_clone()?;
        Ok((ours, theirs, again))
    });
    let (mut ours, theirs, again) = pair.map_err(refused)?;
    let output = Arc::new(Mutex::new(String::new()));
    let (stop, stopped) = channel();
    let (started, is_started) = channel();
    let gathered = output.clone();
    // our processes die with the thread that started them
    let keeper = std::thread::spawn(move || {
        let child = start(&client, theirs, again);
        match child {
            Err(failure) => drop(started.send(Err(failure))),
            Ok(mut child) => {
                let stderr = child.stderr.take();
                let gatherer = std::thread::spawn(move || gather(stderr, &gathered));
                let _ = started.send(Ok(()));
                // nothing is sent: the sender is dropped
                let _ = stopped.recv();
                kill_group(child.id());
                let _ = child.wait();
                let _ = gatherer.join();
            }
        }
    });
    let session = Session {
        link: link.clone(),
        job,
        stderr: output,
        stop: Some(stop),
        keeper: Some(keeper),
    };
    let lost = || Failure::Lost(session.words());
    is_started.recv().map_err(|_| lost())??;
    ours.write_all(line.as_bytes()).map_err(|_| lost())?;
    session.await_begin(&mut ours, limit)?;
    Ok((ours, session))
}

fn start(words: &[String], input: UnixStream, output: UnixStream) -> Result<Child, Failure> {
    let mut process = std::process::Command::new(&words[0]);
    process
        .args(&words[1..])
        .stdin(Stdio::from(OwnedFd::from(input)))
        .stdout(Stdio::from(OwnedFd::from(output)))
        .stderr(Stdio::piped());
    die_with_parent(&mut process);
    process.spawn().map_err(|e| super::link::no_client(&e))
}

fn refused(error: std::io::Error) -> Failure {
    Failure::Refused(error.to_string())
}

fn gather(pipe: Option<impl Read>, into: &Mutex<String>) {
    let lines = pipe.map(BufReader::new).into_iter();
    for line in lines.flat_map(BufRead::lines).map_while(Result::ok) {
        let mut all = into.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_str(&line);
        all.push('\n');
    }
}

/// A running session; it ends when this is dropped.
#[derive(Debug)]
struct Session {
    link: Arc<Link>,
    job: Job,
    stderr: Arc<Mutex<String>>,
    stop: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Session {
    /// Reads until the command begins, because a login shell may print something first.
    fn await_begin(&self, stream: &mut UnixStream, limit: Limit<'_>) -> Result<(), Failure> {
        let started = Instant::now();
        let look = Duration::from_millis(50);
        stream.set_read_timeout(Some(look)).map_err(refused)?;
        let (mut all, mut byte) = (Vec::new(), [0]);
        while self.job.begun(&all).is_none() {
            match stream.read(&mut byte) {
                Ok(0) => return Err(Failure::Lost(self.words())),
                Ok(_) => all.push(byte[0]),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Failure::Lost(self.words())),
            }
            if (limit.is_stopped)() {
                return Err(Failure::Stopped);
            }
            if started.elapsed() > limit.time {
                return Err(Failure::TimedOut {
                    after: limit.time,
                    said: self.last_stderr(),
                });
            }
        }
        Ok(())
    }

    fn last_stderr(&self) -> String {
        let output = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        output.clone()
    }
}

impl EndReason for Session {
    fn words(&self) -> String {
        let started = Instant::now();
        let reported = loop {
            if let Some(reason) = self.link.end(Duration::ZERO) {
                return reason;
            }
            let output = self.last_stderr();
            let status = self.job.status(output.as_bytes());
            if status.is_some() || started.elapsed() > LAST_WORDS {
                break status.map(|(status, place)| (status, output[..place.start].to_owned()));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        match reported {
            Some((status, output)) => {
                let output = last_words(&output);
                let colon = if output.is_empty() { "" } else { ": " };
                format!("its agent ended ({}){colon}{output}", status.words())
            }
            None => "its agent does not answer".into(),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // one that has ended has already cleaned up
        if self.job.status(self.last_stderr().as_bytes()).is_none()
            && self.link.end(Duration::ZERO).is_none()
        {
            self.link.kill(&self.job);
        }
        drop(self.stop.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}
