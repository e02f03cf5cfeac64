//! This machine: its programs and its files.
//!
//! Every child starts a process group of its own, its output is captured, and it dies with us. Other hosts of this machine run their
//! commands here, too. Start with [`Local`].

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Address, Command, Failure, Heard, Host, HostError, Limit, Output, Process};
use crate::sys::{die_with_parent, kill_group};

/// How often a command is looked at that keeps its output open, or has been asked to end.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// The output of a command that has ended may still be open in a daemon that it left behind: so long it is waited for.
pub(super) const AFTER_ITS_END: Duration = Duration::from_millis(300);

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
        Ok(Box::new(Going::start(self.name(), command, command)?))
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

/// Where a file of this machine is for a host that sees them all.
pub(super) fn in_its_place(host: &str, ours: &Path) -> Result<String, HostError> {
    let failed =
        |why: String| HostError::new(host, format!("find {}", ours.display()), Failure::File(why));
    let whole = std::fs::canonicalize(ours).map_err(|e| failed(e.to_string()))?;
    let text = whole.into_os_string().into_string();
    text.map_err(|_| failed("its name is not UTF-8".into()))
}

/// Runs a command of a host by way of a command of this machine.
pub(super) fn run_as(
    host: &str,
    command: &Command,
    here: &Command,
    limit: Limit<'_>,
) -> Result<Output, HostError> {
    let error = |failure| HostError::new(host, command, failure);
    let mut child = spawn(here).map_err(&error)?;
    feed(&mut child, command.input.as_deref().map(str::as_bytes));
    let mut output = Captured::of(&mut child);
    let began = Instant::now();
    let (mut timed_out, mut stopped) = (false, false);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| error(of_io(&e)))? {
            break status;
        }
        timed_out = timed_out || began.elapsed() > limit.time;
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
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(error(match (timed_out, missing(&said)) {
        (true, _) => Failure::TimedOut {
            after: limit.time,
            said,
        },
        (false, Some(program)) => Failure::Missing { program },
        (false, None) => Failure::Exit {
            status: status.to_string(),
            said,
        },
    }))
}

/// `exec of "nft" failed: No such file or directory` is what `ip netns exec` says, `nsenter: failed to execute nft: No such ...` what
/// that does, and `sh: 1: exec: nft: not found` a shell that was to become it.
fn missing(said: &str) -> Option<String> {
    let line = said.lines().last()?;
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

/// Starts a command of this machine; its input is up to the caller.
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
        _ => of_io(&e),
    })
}

fn of_io(error: &std::io::Error) -> Failure {
    Failure::Refused(error.to_string())
}

/// Writes its input while others read its output. A child that closes its input early says why on standard error.
pub(super) fn feed(child: &mut Child, input: Option<&[u8]>) {
    if let (Some(bytes), Some(mut pipe)) = (input, child.stdin.take()) {
        let bytes = bytes.to_owned();
        std::thread::spawn(move || pipe.write_all(&bytes));
    }
}

/// What a child writes, read while it runs: one that writes more than a pipe holds would wait for ever.
pub(super) struct Captured {
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// Ends when both are closed.
    open: Receiver<()>,
    is_closed: bool,
}

impl Captured {
    /// Of a child that was just started.
    pub fn of(child: &mut Child) -> Captured {
        let (closed, open) = channel();
        Captured {
            stdout: gather(child.stdout.take(), closed.clone()),
            stderr: gather(child.stderr.take(), closed),
            open,
            is_closed: false,
        }
    }

    /// Waits no longer than this, and less when both are closed just now: the child is about to end then.
    pub fn wait(&mut self, patience: Duration) {
        if self.is_closed {
            std::thread::sleep(patience);
        } else if self.open.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected) {
            self.is_closed = true;
            std::thread::sleep(patience / 20);
        }
    }

    /// Looks at what it has written to standard error so far.
    pub fn look<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.stderr.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All of it, when the child has ended.
    pub fn collect(self) -> Output {
        let _ = self.open.recv_timeout(AFTER_ITS_END);
        let take = |bytes: &Mutex<Vec<u8>>| {
            std::mem::take(&mut *bytes.lock().unwrap_or_else(PoisonError::into_inner))
        };
        Output {
            stdout: take(&self.stdout),
            stderr: take(&self.stderr),
        }
    }
}

fn gather(pipe: Option<impl Read + Send + 'static>, closed: Sender<()>) -> Arc<Mutex<Vec<u8>>> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let gathered = all.clone();
    std::thread::spawn(move || {
        let _dropped_at_the_end = closed;
        let Some(mut pipe) = pipe else { return };
        let mut bytes = [0; 4096];
        loop {
            match pipe.read(&mut bytes) {
                Ok(0) => return,
                Ok(length) => {
                    let mut all = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                    all.extend(&bytes[..length]);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    all
}

/// A command of this machine that goes on.
#[derive(Debug)]
pub(super) struct Going {
    child: Child,
    lines: Receiver<String>,
    status: Option<ExitStatus>,
}

impl Going {
    /// Starts a command of a host by way of a command of this machine.
    pub fn start(host: &str, command: &Command, here: &Command) -> Result<Going, HostError> {
        let mut child = spawn(here).map_err(|failure| HostError::new(host, command, failure))?;
        feed(&mut child, here.input.as_deref().map(str::as_bytes));
        let (line, lines) = channel();
        follow(child.stdout.take(), line.clone());
        follow(child.stderr.take(), line);
        Ok(Going {
            child,
            lines,
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

fn follow(pipe: Option<impl Read + Send + 'static>, line: Sender<String>) {
    std::thread::spawn(move || {
        let lines = pipe.map(BufReader::new).into_iter();
        for text in lines.flat_map(BufRead::lines).map_while(Result::ok) {
            // nobody listens any more
            if line.send(text).is_err() {
                return;
            }
        }
    });
}

impl Process for Going {
    fn next(&mut self, patience: Duration) -> Result<Heard, HostError> {
        let until = Instant::now() + patience;
        loop {
            let ended = self.has_ended();
            let left = until.saturating_duration_since(Instant::now());
            match self
                .lines
                .recv_timeout(if ended { LOOK } else { left.min(10 * LOOK) })
            {
                Ok(line) => return Ok(Heard::Line(line)),
                Err(_) if ended => {
                    let status = self.status.map(|status| status.to_string());
                    return Ok(Heard::End(status.unwrap_or_default()));
                }
                Err(_) if left.is_zero() => return Ok(Heard::Silence),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if !self.has_ended() {
            kill_group(self.child.id());
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(ms: u64, is_stopped: &dyn Fn() -> bool) -> Limit<'_> {
        Limit {
            time: Duration::from_millis(ms),
            is_stopped,
        }
    }

    #[test]
    fn output_errors_and_time() {
        assert_eq!(Local.ask("echo", &["a", "b"]).unwrap(), "a b\n");
        let said = |command: &Command| Local.run(command, Limit::OURS).unwrap_err().to_string();
        let error = said(&Command::shell("echo no such thing >&2; exit 3"));
        assert_eq!(
            error,
            "`echo no such thing >&2; exit 3` failed on this machine (exit status: 3): no such thing"
        );
        let error = said(&Command::new("fwdlab-no-such-program", &["x"]));
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

    /// What it said before is not lost.
    #[test]
    fn a_daemon_that_is_left_behind_keeps_nobody() {
        let daemon = Command::shell("echo started; sleep 2 & echo $!");
        let began = Instant::now();
        let output = Local.run(&daemon, Limit::OURS).unwrap();
        assert!(began.elapsed() < Duration::from_millis(1500));
        let text = output.text();
        assert!(text.starts_with("started\n"), "{text}");
        let daemon = text.lines().nth(1).unwrap();
        Local.ask("kill", &[daemon]).unwrap();
    }

    #[test]
    fn what_goes_on_is_heard_line_by_line_and_ends_when_nobody_listens() {
        let count = Command::shell("echo one; echo two >&2; exit 4");
        let mut going = Local.start(&count).unwrap();
        let mut heard: Vec<String> = Vec::new();
        let status = loop {
            match going.next(Duration::from_secs(10)).unwrap() {
                Heard::Line(line) => heard.push(line),
                Heard::Silence => panic!("{heard:?}"),
                Heard::End(status) => break status,
            }
        };
        heard.sort();
        assert_eq!(heard, ["one", "two"]);
        assert_eq!(status, "exit status: 4");

        let mut going = Local.start(&Command::shell("echo $$; sleep 60")).unwrap();
        let Heard::Line(pid) = going.next(Duration::from_secs(10)).unwrap() else {
            panic!("it says who it is");
        };
        assert_eq!(going.next(Duration::ZERO).unwrap(), Heard::Silence);
        drop(going);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn programs_that_are_not_there_are_known_by_what_is_said() {
        let of = |said: &str| missing(said);
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
