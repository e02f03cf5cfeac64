//! This machine: its programs and its files.
//!
//! Every child starts its own process group, its output is captured, and it dies with this process.
//! Other kinds of hosts also run their commands here. Start with [`Local`].

use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::{Address, Command, Failure, Host, HostError, Limit, Output, Process, ProcessEvent};
use crate::sys::{die_with_parent, kill_group};

/// How often to check a command that keeps its output open, or was asked to end.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// How long to wait for output after a command has ended: a daemon that it started may keep the
/// output open.
pub(super) const AFTER_ITS_END: Duration = Duration::from_millis(300);

/// How long to wait after a signal has ended a command. A scheduler sends it to all processes of a
/// job, one after the other: if this one is next, the command has not failed. 200 ms were too
/// short where seven tests share two CPUs.
pub(crate) const ENDED_TOGETHER: Duration = Duration::from_secs(1);

/// Size of the pipe for output that is not read yet, in bytes.
const PIPE: usize = 1 << 20;

/// This machine.
#[derive(Debug, Clone, Copy)]
pub struct Local;

impl Host for Local {
    fn name(&self) -> &'static str {
        "this machine"
    }

    fn address(&self) -> Address {
        Address::ThisMachine
    }

    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError> {
        run_as(self.name(), command, command, limit)
    }

    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError> {
        Ok(Box::new(LocalProcess::start(
            self.name(),
            command,
            command,
        )?))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let failed = |e: std::io::Error| Failure::File(e.to_string());
        std::fs::read(path)
            .map_err(|e| HostError::new(self.name(), format!("read {path}"), failed(e)))
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError> {
        let failed = |e: std::io::Error| Failure::File(e.to_string());
        std::fs::write(path, content)
            .map_err(|e| HostError::new(self.name(), format!("write {path}"), failed(e)))
    }

    fn put(&self, ours: &Path) -> Result<String, HostError> {
        in_its_place(self.name(), ours)
    }
}

/// Returns the path of a local file for a host that sees all files of this machine.
pub(super) fn in_its_place(host: &str, ours: &Path) -> Result<String, HostError> {
    let failed = |reason: String| {
        HostError::new(
            host,
            format!("find {}", ours.display()),
            Failure::File(reason),
        )
    };
    let whole = std::fs::canonicalize(ours).map_err(|e| failed(e.to_string()))?;
    let text = whole.into_os_string().into_string();
    text.map_err(|_| failed("its name is not UTF-8".into()))
}

/// Runs a command of a host with a command of this machine.
pub(super) fn run_as(
    host: &str,
    command: &Command,
    here: &Command,
    limit: Limit<'_>,
) -> Result<Output, HostError> {
    let error = |failure| HostError::new(host, command, failure);
    let mut child = spawn(here).map_err(&error)?;
    feed(&mut child, command.input.as_deref().map(str::as_bytes));
    let mut output = Captured::take_from(&mut child);
    let started = Instant::now();
    let (mut timed_out, mut stopped) = (false, false);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| error(from_io_error(&e)))? {
            break status;
        }
        timed_out = timed_out || started.elapsed() > limit.time;
        stopped = stopped || (limit.is_stopped)();
        if timed_out || stopped {
            kill_group(child.id());
        }
        output.wait(LOOK);
    };
    let output = output.collect();
    if stopped {
        return Err(error(Failure::Stopped));
    }
    if status.success() {
        return Ok(output);
    }
    if !timed_out && is_ended_by_signal(status) {
        std::thread::sleep(ENDED_TOGETHER);
        if (limit.is_stopped)() {
            return Err(error(Failure::Stopped));
        }
    }
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(error(match (timed_out, missing(&printed)) {
        (true, _) => Failure::TimedOut {
            after: limit.time,
            said: printed,
        },
        (false, Some(program)) => Failure::Missing { program },
        (false, None) => Failure::Exit {
            status: status.to_string(),
            said: printed,
        },
    }))
}

/// Returns the program that a message reports as missing:
/// `exec of "nft" failed: No such file or directory` is printed by `ip netns exec`,
/// `nsenter: failed to execute nft: No such ...` by nsenter, and `sh: 1: exec: nft: not found` by a
/// shell.
fn missing(output: &str) -> Option<String> {
    let line = output.lines().last()?;
    if let Some(before) = line.strip_suffix(": not found") {
        return Some(before.rsplit_once(": exec: ")?.1.to_owned());
    }
    let program = line.strip_suffix(": No such file or directory")?;
    let quoted =
        (program.strip_prefix("exec of \"")).and_then(|rest| rest.strip_suffix("\" failed"));
    let plain = || {
        let (_, program) = program.split_once(": failed to execute ")?;
        Some(program)
    };
    quoted.or_else(plain).map(str::to_owned)
}

/// Starts a command of this machine; the caller writes its input.
pub(super) fn spawn(command: &Command) -> Result<Child, Failure> {
    let program = command.program();
    let mut process = std::process::Command::new(program);
    process
        .args(&command.words[1..])
        .stdin(match command.input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    die_with_parent(&mut process);
    process.spawn().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Failure::Missing {
            program: program.to_owned(),
        },
        _ => from_io_error(&e),
    })
}

fn from_io_error(error: &std::io::Error) -> Failure {
    Failure::Refused(error.to_string())
}

/// Writes the input of a child on a thread, while its output is read. A child that closes its input
/// early prints why on standard error.
pub(super) fn feed(child: &mut Child, input: Option<&[u8]>) {
    if let (Some(bytes), Some(mut pipe)) = (input, child.stdin.take()) {
        let bytes = bytes.to_owned();
        std::thread::spawn(move || pipe.write_all(&bytes));
    }
}

/// An output of a child, read without blocking.
#[derive(Debug)]
struct Pipe {
    /// `None` when it is closed.
    from: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl Pipe {
    fn new(from: Option<impl Into<OwnedFd>>) -> Pipe {
        let from: Option<OwnedFd> = from.map(Into::into);
        if let Some(from) = &from {
            // a smaller pipe works, too
            let _ = rustix::pipe::fcntl_setpipe_size(from, PIPE);
            rustix::io::ioctl_fionbio(from, true).expect("a pipe can be read without waiting");
        }
        Pipe {
            from,
            bytes: Vec::new(),
        }
    }

    /// Reads everything in the pipe.
    fn read(&mut self) {
        let mut bytes = [0; 1 << 14];
        while let Some(from) = &self.from {
            match rustix::io::read(from, &mut bytes) {
                Ok(length) if length > 0 => self.bytes.extend(&bytes[..length]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(_) | Err(_) => self.from = None,
            }
        }
    }

    /// Takes complete lines; with `no_more` also an incomplete last line.
    fn lines(&mut self, no_more: bool) -> Vec<String> {
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n');
        let length = match no_more {
            true => self.bytes.len(),
            false => whole.map_or(0, |last| last + 1),
        };
        let text = String::from_utf8_lossy(&self.bytes[..length]).into_owned();
        self.bytes.drain(..length);
        text.lines().map(str::to_owned).collect()
    }
}

/// The output of a child. The thread that waits for the child reads it, because a child that writes
/// more than a pipe holds would block. Output before the end of the child can be read at any time
/// later.
#[derive(Debug)]
pub(super) struct Captured {
    stdout: Pipe,
    stderr: Pipe,
    was_closed: bool,
}

impl Captured {
    /// Captures the output of a child that was just started.
    pub fn take_from(child: &mut Child) -> Captured {
        Captured {
            stdout: Pipe::new(child.stdout.take()),
            stderr: Pipe::new(child.stderr.take()),
            was_closed: false,
        }
    }

    fn read(&mut self) {
        self.stdout.read();
        self.stderr.read();
    }

    /// Reads new output, and waits for it no longer than `patience`; less if both outputs were just
    /// closed, because then the child is about to end.
    pub fn wait(&mut self, patience: Duration) {
        let open = [&self.stdout, &self.stderr].map(|pipe| pipe.from.as_ref());
        let mut open: Vec<PollFd<'_>> = (open.into_iter().flatten())
            .map(|from| PollFd::new(from, PollFlags::IN))
            .collect();
        if open.is_empty() {
            let is_new = !std::mem::replace(&mut self.was_closed, true);
            return std::thread::sleep(if is_new { patience / 20 } else { patience });
        }
        let patience = Timespec::try_from(patience).ok();
        // an early end of the poll is handled in the next round
        let _ = rustix::event::poll(&mut open, patience.as_ref());
        self.read();
    }

    /// Passes what was written to standard error so far to `look`.
    pub fn look<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.stderr.bytes)
    }

    /// Returns the complete output after the child has ended.
    pub fn collect(mut self) -> Output {
        self.read();
        let started = Instant::now();
        while self.is_open() && started.elapsed() < AFTER_ITS_END {
            self.wait(LOOK);
        }
        Output {
            stdout: self.stdout.bytes,
            stderr: self.stderr.bytes,
        }
    }

    fn is_open(&self) -> bool {
        self.stdout.from.is_some() || self.stderr.from.is_some()
    }
}

/// A command of this machine that keeps running.
#[derive(Debug)]
pub(super) struct LocalProcess {
    child: Child,
    output: Captured,
    lines: VecDeque<String>,
    status: Option<ExitStatus>,
}

impl LocalProcess {
    /// Starts a command of a host with a command of this machine.
    pub fn start(host: &str, command: &Command, here: &Command) -> Result<LocalProcess, HostError> {
        let mut child = spawn(here).map_err(|failure| HostError::new(host, command, failure))?;
        feed(&mut child, here.input.as_deref().map(str::as_bytes));
        let output = Captured::take_from(&mut child);
        Ok(LocalProcess {
            child,
            output,
            lines: VecDeque::new(),
            status: None,
        })
    }

    fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }
}

impl Process for LocalProcess {
    fn next(&mut self, patience: Duration) -> Result<ProcessEvent, HostError> {
        let until = Instant::now() + patience;
        loop {
            let ended = self.has_ended();
            self.output.read();
            self.lines.extend(self.output.stdout.lines(ended));
            self.lines.extend(self.output.stderr.lines(ended));
            if let Some(line) = self.lines.pop_front() {
                return Ok(ProcessEvent::Line(line));
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.status {
                Some(status) => return Ok(ProcessEvent::End(status.into())),
                None if left.is_zero() => return Ok(ProcessEvent::Silence),
                None => self.output.wait(left.min(10 * LOOK)),
            }
        }
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        if !self.has_ended() {
            kill_group(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// Returns true if a signal ended a command, or one that its shell waited for: a shell then ends
/// with 128 and the number of the signal.
fn is_ended_by_signal(status: ExitStatus) -> bool {
    const OF_SHELLS: std::ops::RangeInclusive<i32> = 129..=159;
    let reported = status.code().is_some_and(|code| OF_SHELLS.contains(&code));
    status.signal().is_some() || reported
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ProcessEnd;

    fn limit(ms: u64, is_stopped: &dyn Fn() -> bool) -> Limit<'_> {
        Limit {
            time: Duration::from_millis(ms),
            is_stopped,
        }
    }

    #[test]
    fn output_errors_and_time() {
        assert_eq!(Local.query("echo", &["a", "b"]).unwrap(), "a b\n");
        let output = |command: &Command| Local.run(command, Limit::OURS).unwrap_err().to_string();
        let error = output(&Command::shell("echo no such thing >&2; exit 3"));
        assert_eq!(
            error,
            "`echo no such thing >&2; exit 3` failed on this machine (exit status: 3): no such thing"
        );
        let error = output(&Command::new("fwdlab-no-such-program", &["x"]));
        assert!(
            error.contains("no program `fwdlab-no-such-program`"),
            "{error}"
        );
        // more output than a pipe holds, and more input, at the same time
        let much = "x".repeat(1_000_000);
        let echo = Command::new("cat", &[]).with_input(&*much);
        let big = Local.run(&echo, limit(20_000, &|| false)).unwrap();
        assert_eq!(big.stdout.len(), 1_000_000);
        let sleep = Command::shell("echo so far >&2; exec sleep 60");
        let stopped = Local.run(&sleep, limit(20_000, &|| true)).unwrap_err();
        assert_eq!(stopped.failure, Failure::Stopped);
        let slow = Local.run(&sleep, limit(200, &|| false)).unwrap_err();
        let slow = slow.to_string();
        assert!(slow.contains("was killed: so far"), "{slow}");
    }

    /// A scheduler ends the command first, and this program a moment later.
    #[test]
    fn a_command_that_ended_together_with_this_program_has_not_failed() {
        for script in ["kill -TERM $$", "kill -KILL $$", "sh -c 'kill $$'; exit $?"] {
            let ended = Command::shell(script);
            let begun = Instant::now();
            let both = || begun.elapsed() > ENDED_TOGETHER / 2;
            let error = Local.run(&ended, limit(20_000, &both)).unwrap_err();
            assert_eq!(error.failure, Failure::Stopped, "{script}");
            let alone = Local.run(&ended, limit(20_000, &|| false)).unwrap_err();
            assert!(matches!(alone.failure, Failure::Exit { .. }), "{alone}");
        }
    }

    /// Its earlier output is not lost.
    #[test]
    fn a_daemon_left_behind_does_not_block_the_command() {
        let daemon = Command::shell("echo started; sleep 2 & echo $!");
        let started = Instant::now();
        let output = Local.run(&daemon, Limit::OURS).unwrap();
        assert!(started.elapsed() < Duration::from_millis(1500));
        let text = output.text();
        assert!(text.starts_with("started\n"), "{text}");
        let daemon = text.lines().nth(1).unwrap();
        Local.query("kill", &[daemon]).unwrap();
    }

    #[test]
    fn output_is_streamed_by_line_and_stops_without_a_listener() {
        let count = Command::shell("echo one; echo two >&2; exit 4");
        let mut process = Local.start(&count).unwrap();
        let mut received: Vec<String> = Vec::new();
        let status = loop {
            match process.next(Duration::from_secs(10)).unwrap() {
                ProcessEvent::Line(line) => received.push(line),
                ProcessEvent::Silence => panic!("{received:?}"),
                ProcessEvent::End(end) => break end.status,
            }
        };
        received.sort();
        assert_eq!(received, ["one", "two"]);
        assert_eq!(status, "exit status: 4");
        // a late reader loses nothing
        let much = Command::shell("seq 10000; printf 'and so on'");
        let mut process = LocalProcess::start("here", &much, &much).unwrap();
        while !process.has_ended() {
            std::thread::sleep(LOOK);
        }
        let count = (1..=10_000).map(|n: u32| n.to_string());
        for line in count.chain(["and so on".to_owned()]) {
            assert_eq!(
                process.next(Duration::ZERO).unwrap(),
                ProcessEvent::Line(line)
            );
        }
        let end = process.next(Duration::ZERO).unwrap();
        assert_eq!(end, ProcessEvent::End(ProcessEnd::success()));

        let mut process = Local.start(&Command::shell("echo $$; sleep 60")).unwrap();
        let ProcessEvent::Line(pid) = process.next(Duration::from_secs(10)).unwrap() else {
            panic!("it says who it is");
        };
        assert_eq!(process.next(Duration::ZERO).unwrap(), ProcessEvent::Silence);
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn missing_programs_are_recognised_by_the_error_message() {
        let of = |output: &str| missing(output);
        assert_eq!(
            of("exec of \"nft\" failed: No such file or directory\n").as_deref(),
            Some("nft")
        );
        assert_eq!(
            of("nsenter: failed to execute nft: No such file or directory\n").as_deref(),
            Some("nft")
        );
        assert_eq!(of("sh: 1: exec: nft: not found\n").as_deref(), Some("nft"));
        assert_eq!(of("sh: 1: nft: not found\n"), None);
        assert_eq!(of("cat: /x: No such file or directory\n"), None);
        assert_eq!(of(""), None);
    }
}
