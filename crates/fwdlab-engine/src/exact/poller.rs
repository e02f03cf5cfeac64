//! A data plane in user space that polls its ports: a process of a machine that counts
//! instructions.
//!
//! It executes instructions without frames, too. So it is stopped, except while frames wait for it:
//! then all its work is on them. Its frames are counted elsewhere. Start with [`Poller::hold`].

use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::EngineError;

/// How often to check the states of its threads, by the machine's clock.
const LOOK: Duration = Duration::from_millis(5);

/// Checks until it must be polling: while it starts, it executes a second of instructions.
const STARTS: u32 = 4000;

/// Checks until it must have stopped.
const STOPS: u32 = 200;

/// Checks that find the same thread running: then it polls.
const POLLS: u32 = 4;

/// A data plane that is stopped.
#[derive(Debug)]
pub(super) struct Poller {
    pid: Pid,
}

impl Poller {
    /// Waits until one of the threads of a process polls, and stops the process. Its first `idle`
    /// threads only initialise it, and then wait for its user.
    ///
    /// # Errors
    /// The process has ended, or none of its threads polls.
    pub(super) fn hold(process: u32, idle: usize) -> Result<Poller, EngineError> {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| EngineError::Poller {
            process,
            reason: "there is no such process".into(),
        })?;
        let poller = Poller { pid };
        let mut running = 0;
        for _ in 0..STARTS {
            running = match poller.threads()?.get(idle..) {
                Some(others) if others.contains(&'R') => running + 1,
                _ => 0,
            };
            if running == POLLS {
                poller.stop()?;
                return Ok(poller);
            }
            std::thread::sleep(LOOK);
        }
        Err(poller.error("none of its threads polls".into()))
    }

    /// Lets it run.
    ///
    /// # Errors
    /// It has ended.
    pub(super) fn resume(&self) -> Result<(), EngineError> {
        self.signal(Signal::CONT)
    }

    /// Stops all its threads.
    ///
    /// # Errors
    /// It has ended, or a thread does not stop.
    pub(super) fn stop(&self) -> Result<(), EngineError> {
        self.signal(Signal::STOP)?;
        for _ in 0..STOPS {
            if self.threads()?.iter().all(|state| *state == 'T') {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Err(self.error("its threads do not stop".into()))
    }

    fn signal(&self, signal: Signal) -> Result<(), EngineError> {
        let sent = kill_process(self.pid, signal);
        sent.map_err(|e| self.error(format!("signal {signal:?}: {e}")))
    }

    /// Returns the states of its threads, that of the first one first.
    fn threads(&self) -> Result<Vec<char>, EngineError> {
        let folder = format!("/proc/{}/task", self.pid.as_raw_nonzero());
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => self.error("it has ended".into()),
            _ => self.error(format!("read {folder}: {e}")),
        };
        let entries = fs::read_dir(&folder).map_err(failed)?;
        let mut threads: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        threads.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        // a thread may end meanwhile
        let stats = threads
            .iter()
            .map(|path| fs::read_to_string(path.join("stat")));
        let states: Vec<char> = stats.flatten().filter_map(|stat| state_of(&stat)).collect();
        match states.first() {
            None | Some('Z') => Err(self.error("it has ended".into())),
            Some(_) => Ok(states),
        }
    }

    pub(super) fn error(&self, reason: String) -> EngineError {
        EngineError::Poller {
            process: self.pid.as_raw_nonzero().get().unsigned_abs(),
            reason,
        }
    }
}

/// `212 (rte-worker-1) R 1 ...`: names may contain anything.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_does_not_poll_is_not_held() {
        assert_eq!(state_of("212 (a) S (b) R 1 2"), Some('R'));
        let mut ended = Command::new("true").spawn().unwrap();
        // until it is waited for, it is a zombie
        let error = Poller::hold(ended.id(), 0).unwrap_err().to_string();
        assert!(error.contains("it has ended"), "{error}");
        ended.wait().unwrap();
    }

    #[test]
    fn the_only_thread_of_a_process_may_poll() {
        let polls = ["-c", "while :; do :; done"];
        let mut polls = Command::new("sh").args(polls).spawn().unwrap();
        let states = Poller::hold(polls.id(), 0).and_then(|poller| poller.threads());
        polls.kill().unwrap();
        polls.wait().unwrap();
        assert_eq!(states.unwrap(), ['T']);
    }
}
