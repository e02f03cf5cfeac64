//! Locks of test beds and of machines that are DUTs, and the queue of processes that wait for one.
//!
//! A lock is a locked file in the directory of the registry; its content describes the holder, for
//! people. A place in its queue is the name of an abstract Unix socket, like the locks of
//! [`crate::ports::lock`]. The kernel removes both with the process, however it ends. Start with
//! [`Locks::take`].

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::host::registry::{self, Registry};
use crate::ports::lock::bound;

/// Who is ahead of a process that requests a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// What is locked: `the test bed rack`.
    pub of: String,
    /// Number of processes that wait and came earlier.
    pub ahead: usize,
    /// The process that has the lock; `None` if it is just starting or ending.
    pub holder: Option<Holder>,
}

/// The process that has a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its id.
    pub process: u32,
    /// When it took the lock.
    pub since: Timestamp,
    /// Its run, as soon as that has an id.
    pub run: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(run) = &self.run {
            write!(f, "run {run}, ")?;
        }
        let since = self.since.strftime("%Y-%m-%d %H:%M:%S UTC");
        write!(f, "process {}, since {since}", self.process)
    }
}

impl Queue {
    /// Returns the error of a process that does not wait.
    pub(super) fn refusal(&self) -> LabError {
        let holder = match &self.holder {
            Some(holder) => holder.to_string(),
            None => "a process that is just starting or ending".into(),
        };
        LabError::Preflight(format!(
            "another fwdlab measures on {}: {holder}. Wait for it (fwdlab run --wait does), or end it",
            self.of
        ))
    }
}

/// Decides whether to continue to wait, a few times per second.
pub(super) type Wait<'a> = &'a mut dyn FnMut(&Queue) -> Result<(), LabError>;

/// The locks of a site, once they are taken.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<Vec<Lock>>);

impl Locks {
    /// Takes all of these locks, unless that is done: `(file, what it locks)`. All processes must
    /// take those of test beds before those of machines, so that none of them waits forever.
    pub fn take(&self, all: &[(String, String)], wait: Wait<'_>) -> Result<(), LabError> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_empty() {
            Registry::open()?;
            let directory = registry::directory();
            let locks = all.iter();
            let locks = locks.map(|(name, of)| Lock::take(&directory, name, of, wait));
            *taken = locks.collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Records the run of this process for those that wait.
    pub fn used_by(&self, run: &str) {
        for lock in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            lock.describe(Some(run));
        }
    }
}

/// Returns the lock of a test bed.
pub(super) fn bed_lock(name: &str) -> (String, String) {
    (format!("bed-{name}"), format!("the test bed {name}"))
}

/// A lock that ends with the process, however it ends.
#[derive(Debug)]
struct Lock {
    file: File,
    since: Timestamp,
}

impl Lock {
    /// Takes a lock after all processes that came earlier.
    fn take(directory: &Path, name: &str, of: &str, wait: Wait<'_>) -> Result<Lock, LabError> {
        let path = directory.join(format!("{name}.lock"));
        let failed = |e: std::io::Error| LabError::system(format!("lock {}", path.display()), e);
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        let key = file.metadata().map_err(failed)?;
        let queue = format!("fwdlab/queue/{}:{}/", key.dev(), key.ino());
        // a time since boot: 20 digits sort as numbers do
        let now = clock_gettime(ClockId::Boottime);
        let ticket = format!("{:020}", now.tv_sec * 1_000_000_000 + now.tv_nsec);
        let place = format!("{queue}{ticket}/{}", std::process::id());
        let _place = bound(&place).map_err(|e| failed(e.into()))?;
        loop {
            let names = fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
            let ahead = ahead(&names, &queue, &place);
            if ahead == 0 {
                match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => break,
                    Err(Errno::WOULDBLOCK) => {}
                    Err(e) => return Err(failed(e.into())),
                }
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            wait(&Queue {
                of: of.to_owned(),
                ahead,
                holder: serde_json::from_str(&text).ok(),
            })?;
        }
        let lock = Lock {
            file,
            since: Timestamp::now(),
        };
        lock.describe(None);
        Ok(lock)
    }

    /// Writes the holder into the file. Nothing depends on it, so errors are ignored.
    fn describe(&self, run: Option<&str>) {
        let holder = Holder {
            process: std::process::id(),
            since: self.since,
            run: run.map(str::to_owned),
        };
        let text = serde_json::to_vec(&holder).expect("strings and numbers serialise");
        let _ = self.file.set_len(0);
        let _ = self.file.write_all_at(&text, 0);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
        // unlock explicitly: a child that was just forked holds the file, too
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Returns the number of places in a queue before this one, from the names of all Unix sockets
/// (/proc/net/unix).
fn ahead(names: &str, queue: &str, place: &str) -> usize {
    let names = names.lines().filter_map(|line| line.split_once('@'));
    let places = names.filter(|(_, name)| name.starts_with(queue));
    places.filter(|(_, name)| *name < place).count()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn refuse(queue: &Queue) -> Result<(), LabError> {
        Err(queue.refusal())
    }

    fn take(folder: &Path, wait: Wait<'_>) -> Result<Lock, LabError> {
        Lock::take(folder, "bed-x", "the test bed x", wait)
    }

    /// Those who wait know who is ahead, and take the lock in the order in which they came. Others
    /// are refused, also between two holders.
    #[test]
    fn a_lock_goes_to_the_process_that_came_first() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let first = take(folder, &mut refuse).unwrap();
        let refused = take(folder, &mut refuse).unwrap_err().to_string();
        let own = format!("process {}, since 2", std::process::id());
        assert!(refused.contains(&own), "{refused}");
        first.describe(Some("2026-x"));
        let (came, coming) = mpsc::channel();
        let (took, taken) = mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..3 {
                let (came, took) = (came.clone(), took.clone());
                scope.spawn(move || {
                    let mut is_new = true;
                    let lock = take(folder, &mut |queue| {
                        if std::mem::take(&mut is_new) {
                            came.send(queue.clone()).unwrap();
                        }
                        std::thread::sleep(Duration::from_millis(1));
                        Ok(())
                    });
                    took.send(number).unwrap();
                    drop(lock.unwrap());
                });
                let queue = coming.recv_timeout(Duration::from_secs(60)).unwrap();
                assert_eq!(queue.ahead, number);
                let holder = queue.holder.unwrap().to_string();
                assert!(holder.starts_with("run 2026-x, process "), "{holder}");
            }
            drop(first);
            let order: Vec<usize> = taken.iter().take(3).collect();
            assert_eq!(order, [0, 1, 2]);
        });
        // the lock is free, but another process waits
        let key = fs::metadata(folder.join("bed-x.lock")).unwrap();
        let place = format!("fwdlab/queue/{}:{}/{:020}/1", key.dev(), key.ino(), 1);
        let waiting = bound(&place).unwrap();
        let refused = take(folder, &mut refuse).unwrap_err().to_string();
        assert!(refused.contains("just starting or ending"), "{refused}");
        drop(waiting);
        drop(take(folder, &mut refuse).unwrap());
    }
}
