//! Which labs stand on this host: the undo record of every lab, and the sweeping of labs whose process died.
//!
//! Before a lab changes anything it writes down here what it will make. It holds a lock on that record as long as it
//! lives; a record whose lock is free belongs to nobody and is undone by the next lab, or by `fwdlab bed down`. Records
//! live in `/run/fwdlab`, which a reboot empties together with the namespaces. Start with [`Registry::register`].

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::command::run;
use crate::error::LabError;

/// Every namespace of ours begins like this.
pub const PREFIX: &str = "fwdlab-";

/// What a lab has made, as written down before it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Four letters that name the lab.
    pub id: String,
    /// Process that made it.
    pub pid: u32,
    /// Network namespaces.
    pub namespaces: Vec<String>,
    /// It shall outlive its process: made by `fwdlab bed up`.
    pub keep: bool,
}

/// A lab as found on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its record.
    pub record: Record,
    /// A process holds it.
    pub in_use: bool,
}

/// The records of all labs of this host.
#[derive(Debug, Clone)]
pub struct Registry {
    directory: PathBuf,
}

/// A record that we hold; dropping it undoes the lab.
#[derive(Debug)]
pub struct Registration {
    record: Record,
    path: PathBuf,
    _lock: File,
}

impl Registry {
    /// Opens the registry, making its directory.
    ///
    /// # Errors
    /// The directory cannot be made: not root, or not in a user namespace of ours.
    pub fn open() -> Result<Registry, LabError> {
        Registry::at("/run/fwdlab")
    }

    fn at(directory: impl Into<PathBuf>) -> Result<Registry, LabError> {
        let directory = directory.into();
        fs::create_dir_all(&directory)
            .map_err(|e| LabError::system(format!("make {}", directory.display()), e))?;
        Ok(Registry { directory })
    }

    /// Writes down a lab with this many DUTs and takes hold of it. Nothing is made yet.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn register(&self, duts: usize, keep: bool) -> Result<Registration, LabError> {
        let mut attempt = 0;
        loop {
            let id = letters(entropy() ^ attempt);
            let path = self.directory.join(format!("{id}.json"));
            let lock = match File::create_new(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && attempt < 100 => {
                    attempt += 1;
                    continue;
                }
                Err(e) => return Err(LabError::system(format!("write {}", path.display()), e)),
            };
            // the lock first: a sweep that finds the file before its content must find it held
            flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive)
                .map_err(|e| LabError::system(format!("lock {}", path.display()), e))?;
            let namespaces = std::iter::once(format!("{PREFIX}{id}-gen"))
                .chain((0..duts).map(|k| format!("{PREFIX}{id}-dut{k}")))
                .collect();
            let record = Record {
                id,
                pid: std::process::id(),
                namespaces,
                keep,
            };
            let text = serde_json::to_vec(&record).expect("strings and numbers serialise");
            fs::write(&path, text)
                .map_err(|e| LabError::system(format!("write {}", path.display()), e))?;
            return Ok(Registration {
                record,
                path,
                _lock: lock,
            });
        }
    }

    /// All labs on this host. A record that is damaged counts by its name alone.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<Found>, LabError> {
        let what = |e| LabError::system(format!("read {}", self.directory.display()), e);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(what)? {
            let path = entry.map_err(what)?.path();
            if path.extension().is_some_and(|e| e == "json")
                && let Some(lab) = look(&path)
            {
                found.push(lab);
            }
        }
        found.sort_by(|a, b| a.record.id.cmp(&b.record.id));
        Ok(found)
    }

    /// Undoes every lab that nobody holds; kept ones too when `kept` is set. Says which ones.
    ///
    /// # Errors
    /// The registry cannot be read. A lab that resists is left for the next sweep.
    pub fn sweep(&self, kept: bool) -> Result<Vec<String>, LabError> {
        let mut swept = Vec::new();
        for lab in self.list()? {
            if lab.in_use || (lab.record.keep && !kept) {
                continue;
            }
            undo(
                &lab.record,
                &self.directory.join(format!("{}.json", lab.record.id)),
            );
            swept.push(lab.record.id);
        }
        Ok(swept)
    }

    /// A lock that only one lab at a time holds while it builds.
    ///
    /// # Errors
    /// The lock file cannot be made.
    pub(crate) fn build_lock(&self) -> Result<File, LabError> {
        let path = self.directory.join("build.lock");
        let what = || format!("lock {}", path.display());
        let file = File::create(&path).map_err(|e| LabError::system(what(), e))?;
        flock(file.as_fd(), FlockOperation::LockExclusive)
            .map_err(|e| LabError::system(what(), e))?;
        Ok(file)
    }
}

impl Registration {
    /// What was written down.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Lets go of the lab without undoing it.
    pub fn leave_standing(self) {
        // the lock goes with the file handle, the record and what it lists stay
        let mut this = std::mem::ManuallyDrop::new(self);
        if let Ok(nothing) = File::open("/dev/null") {
            drop(std::mem::replace(&mut this._lock, nothing));
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        undo(&self.record, &self.path);
    }
}

fn look(path: &Path) -> Option<Found> {
    let file = File::open(path).ok()?;
    let in_use = flock(file.as_fd(), FlockOperation::NonBlockingLockShared).is_err();
    let record = fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .or_else(|| {
            let id = path.file_stem()?.to_str()?.to_owned();
            Some(Record {
                id,
                pid: 0,
                namespaces: Vec::new(),
                keep: false,
            })
        })?;
    Some(Found { record, in_use })
}

/// Undoes a lab: its processes, its namespaces and what is in them, its record. Errors are of no use to anybody here: what
/// could not be undone keeps its record and is tried again.
fn undo(record: &Record, path: &Path) {
    let mut names: Vec<String> = record.namespaces.clone();
    // a record torn by a crash lists nothing; the names tell
    if let Ok(entries) = fs::read_dir("/run/netns") {
        let prefix = format!("{PREFIX}{}-", record.id);
        for name in entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
        {
            if name.starts_with(&prefix) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let mut all_gone = true;
    for name in names.iter().filter(|n| n.starts_with(PREFIX)) {
        let file = Path::new("/run/netns").join(name);
        if !file.exists() {
            continue;
        }
        kill_processes_in(name);
        let deleted = run("ip", &["netns", "delete", name]);
        all_gone &= deleted.is_ok() || !file.exists();
    }
    if all_gone {
        let _ = fs::remove_file(path);
    }
}

/// Processes that a configuration left running in a namespace would keep it alive. Never our own.
fn kill_processes_in(namespace: &str) {
    let Ok(pids) = run("ip", &["netns", "pids", namespace]) else {
        return;
    };
    for pid in pids
        .lines()
        .filter_map(|line| line.trim().parse::<i32>().ok())
    {
        if let Some(pid) = rustix::process::Pid::from_raw(pid)
            && pid != rustix::process::getpid()
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

fn letters(mut bits: u64) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    (0..4)
        .map(|_| {
            let letter = ALPHABET[(bits % 32) as usize];
            bits /= 32;
            char::from(letter)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_that_nobody_holds_is_swept_and_a_held_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let held = registry.register(2, false).unwrap();
        assert_eq!(held.record().namespaces.len(), 3);
        assert!(registry.list().unwrap()[0].in_use);
        assert_eq!(registry.sweep(true).unwrap(), Vec::<String>::new());

        let kept = registry.register(1, true).unwrap();
        let id = kept.record().id.clone();
        kept.leave_standing();
        assert_eq!(registry.sweep(false).unwrap(), Vec::<String>::new());
        assert_eq!(registry.list().unwrap().len(), 2);
        assert_eq!(registry.sweep(true).unwrap(), [id]);

        drop(held);
        assert!(registry.list().unwrap().is_empty());
    }

    #[test]
    fn torn_records_are_swept_too() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        fs::write(directory.path().join("abcd.json"), b"{\"id\":\"ab").unwrap();
        fs::write(directory.path().join("notes.txt"), b"").unwrap();
        assert_eq!(registry.sweep(false).unwrap(), ["abcd"]);
        assert!(registry.list().unwrap().is_empty());
    }
}
