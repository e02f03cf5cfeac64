//! The process that contains DPDK: how it is found, started, asked and ended.
//!
//! It is asked over a socket, its standard input, and ends when that is closed; what it prints is
//! kept for errors. Start with [`Process::start`].

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::EngineError;
use crate::part::message::{receive, send};
use crate::part::{Answer, Link, Question};

/// The program, and the variable with its path.
const PROGRAM: &str = "fwdlab-dpdk";
const VARIABLE: &str = "FWDLAB_DPDK";

/// DPDK needs some seconds with much memory.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// An answer may take this long on a busy machine: its end is noticed at once.
const LEAST_PATIENCE: Duration = Duration::from_secs(15);

/// How long it may take to give its ports back.
const END_PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// The last lines of its output that are kept, and that are shown.
const LINES: usize = 64;
const SHOWN: usize = 6;

/// A running process.
#[derive(Debug)]
pub(super) struct Process {
    /// `None` once an answer is missing: a late one would be taken for that to the next question.
    stream: Mutex<Option<UnixStream>>,
    child: Mutex<Child>,
    said: Arc<Mutex<VecDeque<String>>>,
    /// Reads its output to the end.
    reader: Mutex<Option<JoinHandle<()>>>,
    is_lost: AtomicBool,
}

impl Process {
    /// Starts the program, which must have our version.
    ///
    /// # Errors
    /// There is no such program, or it ends, with what it said.
    pub fn start() -> Result<Process, EngineError> {
        let program = find()?;
        let action = || format!("start {}", program.display());
        let (ours, theirs) =
            UnixStream::pair().map_err(|e| EngineError::system("make a pair of sockets", e))?;
        let mut child = Command::new(&program)
            .arg(env!("CARGO_PKG_VERSION"))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // an interrupt from the terminal reaches this process only, which then ends that one
            .process_group(0)
            .spawn()
            .map_err(|e| EngineError::system(action(), e))?;
        let said = Arc::<Mutex<VecDeque<String>>>::default();
        let reader = child.stderr.take().map(|output| {
            let said = said.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    said.push_back(line);
                    if said.len() > LINES {
                        said.pop_front();
                    }
                }
            })
        });
        let process = Process {
            stream: Mutex::new(Some(ours)),
            child: Mutex::new(child),
            said,
            reader: Mutex::new(reader),
            is_lost: AtomicBool::new(false),
        };
        let action = action();
        match process.query(&action, &Question::Here, &[], START_PATIENCE)? {
            Answer::Done => Ok(process),
            other => Err(Process::unexpected(&action, &other)),
        }
    }

    /// Returns true if it has answered every question so far, and lives.
    pub fn answers(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_lost.load(Ordering::Relaxed) && matches!(child.try_wait(), Ok(None))
    }

    /// Waits for its end, and ends it if it does not end itself; returns how it ended.
    fn end(&self, patience: Duration) -> String {
        self.is_lost.store(true, Ordering::Relaxed);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) if since.elapsed() < patience => thread::sleep(LOOK),
                _ => break,
            }
        }
        // it hangs: the kernel takes its ports
        let _ = child.kill();
        let _ = child.wait();
        "it was killed".into()
    }

    /// Returns the end of its output, without the addresses of a stack. Call this after its end.
    fn last_words(&self) -> String {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = reader.take() {
            let _ = reader.join();
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let is_address = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
        let lines = said.iter().map(|line| line.trim());
        let lines: Vec<&str> = lines.filter(|line| !is_address(line)).collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("; ")
    }
}

impl Link for Arc<Process> {
    fn query(
        &self,
        action: &str,
        question: Question,
        bytes: &[u8],
        patience: Duration,
    ) -> Result<Answer, EngineError> {
        let patience = patience.max(LEAST_PATIENCE);
        Process::query(self, action, &question, bytes, patience)
    }

    fn unexpected(&self, action: &str, answer: Answer) -> EngineError {
        Process::unexpected(action, &answer)
    }
}

impl Process {
    fn query(
        &self,
        action: &str,
        question: &Question,
        bytes: &[u8],
        patience: Duration,
    ) -> Result<Answer, EngineError> {
        let mut guard = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match guard.as_mut() {
            None => Err(ErrorKind::NotConnected.into()),
            Some(stream) => ask(stream, question, bytes, patience),
        };
        match answer {
            Ok(Answer::Failed(reason)) => Err(refused(action, reason)),
            Ok(answer) => Ok(answer),
            Err(error) => {
                *guard = None;
                let is_silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                let end = self.end(if is_silent {
                    Duration::ZERO
                } else {
                    END_PATIENCE
                });
                let reason = match is_silent {
                    true => format!(
                        "{PROGRAM} did not answer within {} s",
                        patience.as_secs_f64()
                    ),
                    false => format!("{PROGRAM} has ended ({end})"),
                };
                let said = self.last_words();
                let said = if said.is_empty() {
                    said
                } else {
                    format!(": {said}")
                };
                Err(refused(action, reason + &said))
            }
        }
    }

    fn unexpected(action: &str, answer: &Answer) -> EngineError {
        refused(action, format!("its answers are out of step ({answer:?})"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.end(END_PATIENCE);
    }
}

fn ask(
    stream: &mut UnixStream,
    question: &Question,
    bytes: &[u8],
    patience: Duration,
) -> std::io::Result<Answer> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    send(stream, question, bytes)?;
    Ok(receive(stream)?.0)
}

fn refused(action: &str, reason: String) -> EngineError {
    EngineError::DpdkProcess {
        action: action.into(),
        reason,
    }
}

/// Finds the program: where the variable says, next to this program, or in `PATH`.
fn find() -> Result<PathBuf, EngineError> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    let mut files = folders.map(|folder| folder.join(PROGRAM));
    files.find(|file| file.is_file()).ok_or_else(|| {
        let reason = format!(
            "there is no program {PROGRAM} beside this one or in PATH: install the package {PROGRAM}, or build it where libdpdk-dev \
             is installed with cargo build --release -p {PROGRAM} --features driver, and set {VARIABLE} to its path"
        );
        refused("use DPDK", reason)
    })
}
