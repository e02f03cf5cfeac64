//! The labs on this host: the undo record of every lab, and the sweep of labs whose process died.
//!
//! Before a lab changes anything, it records what it will create: the namespaces in the first line
//! of its record, and how to undo every other change in the following lines (see
//! [`crate::host::undo`]). It locks the record before giving it its name, and keeps the lock as
//! long as it lives; a record with a free lock is abandoned, and is undone by the next lab, or by
//! `fwdlab bed down`. Records are in `/run/fwdlab`, which a reboot empties together with the
//! namespaces. Start with [`Registry::register`].

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(not(test))]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::host::undo::{Left as Steps, Undo};
use crate::host::{Address, Host, Limit, Local, netns};

/// The prefix of all our namespaces.
pub const PREFIX: &str = "fwdlab-";

/// The directory of the records.
pub(crate) const DIRECTORY: &str = "/run/fwdlab";

/// Directories for records of ordinary users, who measure on other machines: below the first of
/// these variables that is set.
const OF_USERS: [(&str, &str); 3] = [
    ("XDG_RUNTIME_DIR", "fwdlab"),
    ("XDG_STATE_HOME", "fwdlab/labs"),
    ("HOME", ".local/state/fwdlab/labs"),
];

/// Returns the directory of records and of locks of test beds.
pub(crate) fn directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return DIRECTORY.into();
    }
    let set = |(name, below): (&str, &str)| {
        let folder = std::env::var_os(name).filter(|folder| !folder.is_empty())?;
        Some(Path::new(&folder).join(below))
    };
    OF_USERS
        .into_iter()
        .find_map(set)
        .unwrap_or_else(|| DIRECTORY.into())
}

/// The extension of records, and that of records that are being written.
const RECORD: &str = "json";
const DRAFT: &str = "new";

/// An older draft without a lock belongs to a process that died, because writing a record takes no
/// time.
const DRAFTED: Duration = Duration::from_secs(60);

/// Maximum number of drafts that were swept by others, or whose letters were taken: more are not a
/// coincidence.
const ATTEMPTS: u32 = 100;

/// What a lab has created, recorded before it is created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Four letters that identify the lab.
    pub id: String,
    /// The process that created it.
    pub pid: u32,
    /// Network namespaces.
    pub namespaces: Vec<String>,
    /// True if it outlives its process: created by `fwdlab bed up`.
    pub keep: bool,
    /// The network namespace of that process, in which its changes on this machine must be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<String>,
}

/// A lab that was found on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLab {
    /// Its record.
    pub record: Record,
    /// True if a process holds its lock.
    pub in_use: bool,
}

/// The records of all labs of this host.
#[derive(Debug, Clone)]
pub struct Registry {
    directory: PathBuf,
}

/// A record whose lock we hold; dropping it undoes the lab.
#[derive(Debug)]
pub struct Registration {
    record: Record,
    path: PathBuf,
    lock: File,
    changes: Arc<Undo>,
}

/// A record without its final name.
#[derive(Debug)]
struct Draft {
    record: Record,
    path: PathBuf,
    /// The final name.
    name: PathBuf,
    lock: File,
}

/// An abandoned file of the registry, locked so that only one sweep handles it.
struct Abandoned(File);

impl Registry {
    /// Opens the registry, and creates its directory.
    ///
    /// # Errors
    /// The directory cannot be created: not root, or not in a user namespace of ours.
    pub fn open() -> Result<Registry, LabError> {
        Registry::at(directory())
    }

    /// The same in this directory.
    pub(crate) fn at(directory: impl Into<PathBuf>) -> Result<Registry, LabError> {
        let directory = directory.into();
        fs::create_dir_all(&directory)
            .map_err(|e| LabError::system(format!("make {}", directory.display()), e))?;
        Ok(Registry { directory })
    }

    /// Records and locks a lab with this many DUTs. Creates nothing else.
    ///
    /// The record is written to a draft that only its lock distinguishes from an abandoned one, and
    /// gets its name when it is complete and locked: a record that is not locked belongs to a dead
    /// lab.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn register(&self, duts: usize, keep: bool) -> Result<Registration, LabError> {
        let namespaces = |id: &str| {
            std::iter::once(format!("{PREFIX}{id}-gen"))
                .chain((0..duts).map(|k| format!("{PREFIX}{id}-dut{k}")))
                .collect()
        };
        self.register_with(&namespaces, keep)
    }

    /// The same for a lab on existing hosts, where only recorded changes are undone.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(crate) fn register_on_hosts(&self) -> Result<Registration, LabError> {
        self.register_with(&|_| Vec::new(), false)
    }

    fn register_with(
        &self,
        namespaces: &dyn Fn(&str) -> Vec<String>,
        keep: bool,
    ) -> Result<Registration, LabError> {
        let mut attempts = 0;
        loop {
            let mut draft = self.draft()?;
            draft.hold()?;
            draft.write(namespaces, keep)?;
            match draft.publish() {
                // another lab has its letters, or a sweep removed the draft before it was locked
                Err(e) if [Errno::EXIST, Errno::NOENT].contains(&e) && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                Err(e) => {
                    let _ = fs::remove_file(&draft.path);
                    return Err(LabError::system(
                        format!("write {}", draft.name.display()),
                        e,
                    ));
                }
                Ok(()) => {
                    let record = draft.lock.try_clone();
                    let record = record.map_err(|e| {
                        LabError::system(format!("write {}", draft.name.display()), e)
                    })?;
                    return Ok(Registration {
                        changes: Arc::new(Undo::new(record)),
                        record: draft.record,
                        path: draft.name,
                        lock: draft.lock,
                    });
                }
            }
            let _ = fs::remove_file(&draft.path);
        }
    }

    /// Creates the file of a draft, unlocked and empty.
    fn draft(&self) -> Result<Draft, LabError> {
        let number = entropy();
        let id = letters(number);
        let path = self.directory.join(format!("{id}-{number:016x}.{DRAFT}"));
        // records contain files that a set replaces: readable only by the owner
        let lock = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| LabError::system(format!("write {}", path.display()), e))?;
        Ok(Draft {
            name: self.directory.join(format!("{id}.json")),
            path,
            lock,
            record: Record {
                id,
                pid: std::process::id(),
                namespaces: Vec::new(),
                keep: false,
                net: netns::own(),
            },
        })
    }

    /// Returns all labs on this host. A damaged record counts by its name alone.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<FoundLab>, LabError> {
        let records = self.files(RECORD)?;
        let mut found: Vec<FoundLab> = records.iter().filter_map(|path| read_lab(path)).collect();
        found.sort_by(|a, b| a.record.id.cmp(&b.record.id));
        Ok(found)
    }

    /// Undoes every abandoned lab; with `kept` also those that outlive their process. Returns their
    /// names. Leaves processes of others running; [`left_behind`] reports them.
    ///
    /// # Errors
    /// The registry cannot be read. A lab that cannot be undone is left for the next sweep.
    pub fn sweep(&self, kept: bool) -> Result<Vec<String>, LabError> {
        self.sweep_by(kept, &Address::reach)
    }

    /// The same with another function that connects to hosts.
    pub(crate) fn sweep_by(
        &self,
        kept: bool,
        reach: &dyn Fn(&Address) -> Arc<dyn Host>,
    ) -> Result<Vec<String>, LabError> {
        for draft in self.files(DRAFT)? {
            if is_old(&draft)
                && let Some(_held) = Abandoned::take(&draft)
            {
                let _ = fs::remove_file(&draft);
            }
        }
        let mut swept = Vec::new();
        for path in self.files(RECORD)? {
            // locked until the lab is gone, so that only one sweep undoes it
            let Some(mut lab) = Abandoned::take(&path) else {
                continue;
            };
            let Some((record, mut steps)) = read(&mut lab.0, &path) else {
                continue;
            };
            if let Some(net) = &record.net
                && netns::own().as_ref() != Some(net)
            {
                steps.enter(&netns::file_of(net));
            }
            if !record.keep || kept {
                undo(&record, &path, |goes_anyway| {
                    steps.undo_change(&path, goes_anyway, reach)
                });
                swept.push(record.id);
            }
        }
        swept.sort();
        Ok(swept)
    }

    fn files(&self, kind: &str) -> Result<Vec<PathBuf>, LabError> {
        let action = |e| LabError::system(format!("read {}", self.directory.display()), e);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(action)? {
            let path = entry.map_err(action)?.path();
            if path.extension().is_some_and(|e| e == kind) {
                files.push(path);
            }
        }
        Ok(files)
    }

    /// Returns a lock that only one lab at a time holds while it builds.
    ///
    /// # Errors
    /// The lock file cannot be created.
    pub(crate) fn build_lock(&self) -> Result<File, LabError> {
        let path = self.directory.join("build.lock");
        let action = || format!("lock {}", path.display());
        let file = File::create(&path).map_err(|e| LabError::system(action(), e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| LabError::system(action(), e))?;
        Ok(file)
    }
}

impl Draft {
    /// Locks the draft. Waits for a sweep that is removing it; in that case the draft cannot be
    /// published.
    fn hold(&self) -> Result<(), LabError> {
        flock(&self.lock, FlockOperation::LockExclusive)
            .map_err(|e| LabError::system(format!("lock {}", self.path.display()), e))
    }

    fn write(
        &mut self,
        namespaces: &dyn Fn(&str) -> Vec<String>,
        keep: bool,
    ) -> Result<(), LabError> {
        self.record.namespaces = namespaces(&self.record.id);
        self.record.keep = keep;
        let text = serde_json::to_vec(&self.record).expect("strings and numbers serialise");
        self.lock
            .write_all(&text)
            .map_err(|e| LabError::system(format!("write {}", self.path.display()), e))
    }

    fn publish(&self) -> Result<(), Errno> {
        // of a lab whose record was lost
        let stand = |name: &String| Path::new("/run/netns").join(name).exists();
        if self.record.namespaces.iter().any(stand) {
            return Err(Errno::EXIST);
        }
        renameat_with(CWD, &self.path, CWD, &self.name, RenameFlags::NOREPLACE)
    }
}

impl Registration {
    /// Returns the record.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the log of changes that do not vanish with a namespace.
    pub(crate) fn changes(&self) -> &Arc<Undo> {
        &self.changes
    }

    /// Releases the lab without undoing it.
    pub fn leave_standing(self) {
        // its namespaces and its record stay; unlock explicitly, because a child that was just
        // forked may have the file open, too
        let this = std::mem::ManuallyDrop::new(self);
        let _ = flock(&this.lock, FlockOperation::Unlock);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // with the hosts it is connected to, because a new connection may fail
        undo(&self.record, &self.path, |goes_anyway| {
            self.changes.undo_rest(goes_anyway, Limit::OURS)
        });
        // leave the rest to the next sweep; unlock explicitly, because a child that was just forked
        // may have the file open, too
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Abandoned {
    /// Takes an unlocked file; `None` if it is locked, or gone.
    ///
    /// First tries a shared lock, like readers do, so that they do not disturb each other. An
    /// abandoned file stays abandoned, but another sweep may have removed it before this one gets
    /// the exclusive lock.
    fn take(path: &Path) -> Option<Abandoned> {
        let file = File::options().read(true).write(true).open(path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
        let taken = Abandoned(file);
        flock(&taken.0, FlockOperation::LockExclusive).ok()?;
        has_same_path(&taken.0, path).then_some(taken)
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        // unlock explicitly, because a child that was just forked may have the file open, too
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Returns true if the file still has this name.
fn has_same_path(file: &File, path: &Path) -> bool {
    let of = |data: fs::Metadata| (data.dev(), data.ino());
    let (ours, there) = (file.metadata().map(of), fs::metadata(path).map(of));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

/// Returns true if the last write to a draft was some time ago.
fn is_old(draft: &Path) -> bool {
    let written = fs::metadata(draft).and_then(|data| data.modified());
    written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > DRAFTED))
}

/// Reads a lab. Takes the lock only shared and for a moment, so that no start or sweep fails
/// because of it.
fn read_lab(path: &Path) -> Option<FoundLab> {
    read_lab_file(File::open(path).ok()?, path)
}

fn read_lab_file(mut file: File, path: &Path) -> Option<FoundLab> {
    let in_use = flock(&file, FlockOperation::NonBlockingLockShared).is_err();
    let _ = flock(&file, FlockOperation::Unlock);
    // its lab vanished between two checks
    if !in_use && !has_same_path(&file, path) {
        return None;
    }
    let (record, _) = read(&mut file, path)?;
    Some(FoundLab { record, in_use })
}

/// Reads a record and the steps after it; of a damaged record, only its name.
fn read(file: &mut File, path: &Path) -> Option<(Record, Steps)> {
    let mut text = Vec::new();
    let _ = file.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let (head, steps) = text.split_once('\n').unwrap_or((&text, ""));
    let record = serde_json::from_str(head).ok().or_else(|| {
        Some(Record {
            id: path.file_stem()?.to_str()?.to_owned(),
            pid: 0,
            namespaces: Vec::new(),
            keep: false,
            net: None,
        })
    });
    Some((record?, Steps::parse(steps)))
}

/// Undoes a lab: its changes on other hosts, its processes, its namespaces with their contents, its
/// record. Processes of others are left alone. If something could not be undone, the record is kept
/// for another attempt.
///
/// `undo_change` undoes its changes, except those on hosts that vanish anyway, and returns what
/// could not be undone.
fn undo(
    record: &Record,
    path: &Path,
    take_back: impl FnOnce(&dyn Fn(&Address) -> bool) -> Vec<String>,
) {
    let mut names: Vec<String> = record.namespaces.clone();
    // a record torn by a crash lists no namespaces; their names identify them
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
    let of_lab = |host: &Address| matches!(host, Address::Namespace(name) if names.contains(name));
    let problem = take_back(&of_lab);
    let mut all_gone = problem.is_empty();
    leave(problem.into_iter().map(|action| Left::Change {
        what: action,
        record: path.to_owned(),
    }));
    for name in names.iter().filter(|n| n.starts_with(PREFIX)) {
        let file = Path::new("/run/netns").join(name);
        if !file.exists() {
            continue;
        }
        end_processes_in(name, &mark(&record.id));
        let deleted = Local.query("ip", &["netns", "delete", name]);
        all_gone &= deleted.is_ok() || !file.exists();
    }
    if all_gone {
        let _ = fs::remove_file(path);
    }
}

/// Returns the name of a mount that only processes started by a configuration of this lab see.
pub(crate) fn mark(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Returns a line for a shell with its own mounts: processes that it starts belong to the lab from
/// then on, and do not see the registry.
pub(crate) fn marking(id: &str) -> String {
    format!("mount -t tmpfs -o size=4k '{}' {DIRECTORY}\n", mark(id))
}

/// Something left behind by a lab that was undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// A process of others in a namespace that was removed.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
        /// The namespace, which has lost its name and its ports.
        namespace: String,
    },
    /// A change that could not be undone.
    Change {
        /// The change, and why it could not be undone.
        what: String,
        /// The record that contains it.
        record: PathBuf,
    },
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Left::Process {
                pid,
                name,
                namespace,
            } => write!(
                f,
                "process {pid} ({name}) runs in {namespace}, was not started by fwdlab and was left alone: the namespace no \
                 longer has a name or ports"
            ),
            Left::Change {
                what: action,
                record,
            } => write!(
                f,
                "{action}. It is recorded in {}, and the next start of fwdlab tries again",
                record.display()
            ),
        }
    }
}

/// Accesses what this process left behind so far.
#[cfg(not(test))]
fn with_leftovers<T>(work: impl FnOnce(&mut Vec<Left>) -> T) -> T {
    static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());
    work(&mut LEFT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The same in tests, which share a process and have one thread each.
#[cfg(test)]
fn with_leftovers<T>(work: impl FnOnce(&mut Vec<Left>) -> T) -> T {
    thread_local! {
        static LEFT: std::cell::RefCell<Vec<Left>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    LEFT.with_borrow_mut(work)
}

fn leave(left: impl IntoIterator<Item = Left>) {
    let left: Vec<Left> = left.into_iter().collect();
    with_leftovers(|all| all.extend(left));
}

/// Returns what the labs that this process undid left behind since the last call.
pub fn left_behind() -> Vec<Left> {
    with_leftovers(std::mem::take)
}

/// Ends processes that configurations left running in a namespace, because they would keep it
/// alive. Other processes there keep running, without the ports.
fn end_processes_in(namespace: &str, mark: &str) {
    let Ok(pids) = Local.query("ip", &["netns", "pids", namespace]) else {
        return;
    };
    let pids = pids.lines().filter_map(|line| line.trim().parse().ok());
    let mut left = Vec::new();
    for pid in pids.filter(|pid| *pid != std::process::id()) {
        match is_marked(pid, mark) {
            // it has ended by itself
            None => {}
            Some(true) => {
                if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            Some(false) => left.push(Left::Process {
                pid,
                name: fs::read_to_string(format!("/proc/{pid}/comm"))
                    .map_or_else(|_| "?".into(), |name| name.trim().to_owned()),
                namespace: namespace.to_owned(),
            }),
        }
    }
    if left.is_empty() {
        return;
    }
    // other processes keep the namespace alive, which would keep the ports
    for port in veths(namespace) {
        let _ = Local.query("ip", &["-n", namespace, "link", "delete", &port]);
    }
    leave(left);
}

/// Returns true if a process sees the mark; `None` if there is no such process.
fn is_marked(pid: u32, mark: &str) -> Option<bool> {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
    // after the optional fields: type, source, options
    let mut sources = mounts
        .lines()
        .filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(1));
    Some(sources.any(|source| source == mark))
}

/// `2: tx0@if3: <BROADCAST,MULTICAST> mtu ...`
fn veths(namespace: &str) -> Vec<String> {
    let list = ["-n", namespace, "-o", "link", "show", "type", "veth"];
    let text = Local.query("ip", &list).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split(": ").nth(1)?.split('@').next())
        .map(str::to_owned)
        .collect()
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
    use crate::host::Command;

    /// Undo steps contain the files that a set replaces, whatever their modes.
    #[test]
    fn records_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let lab = registry.register_on_hosts().unwrap();
        let mode = fs::metadata(&lab.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_unlocked_lab_is_swept_and_a_locked_one_is_not() {
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

    /// Whatever happens between two steps of a starting lab, its record stays and is locked.
    #[test]
    fn a_lab_that_starts_is_not_swept() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let others = || {
            assert_eq!(registry.sweep(true).unwrap(), Vec::<String>::new());
            registry.list().unwrap()
        };
        // only an old draft is removed before it is locked; publishing it then fails instead of
        // creating a record without a lock
        let draft = registry.draft().unwrap();
        assert_eq!(others(), []);
        assert!(draft.path.exists());
        let ago = std::time::SystemTime::now() - 2 * DRAFTED;
        draft.lock.set_modified(ago).unwrap();
        assert_eq!(others(), []);
        assert!(!draft.path.exists());
        draft.hold().unwrap();
        assert_eq!(draft.publish(), Err(Errno::NOENT));

        let mut draft = registry.draft().unwrap();
        draft.hold().unwrap();
        assert_eq!(others(), []);
        draft
            .write(&|id| vec![format!("{PREFIX}{id}-gen")], false)
            .unwrap();
        assert_eq!(others(), []);
        // the letters of another lab are not taken
        fs::write(&draft.name, b"another's").unwrap();
        assert_eq!(draft.publish(), Err(Errno::EXIST));
        assert_eq!(fs::read(&draft.name).unwrap(), b"another's");
        fs::remove_file(&draft.name).unwrap();
        draft.publish().unwrap();
        let found = others();
        assert!(found[0].in_use, "{found:?}");
        assert_eq!(found[0].record, draft.record);
        // the locked file is the one with the name
        let (held, named) = (draft.lock.metadata(), fs::metadata(&draft.name));
        assert_eq!(held.unwrap().ino(), named.unwrap().ino());

        let ours = registry.register(1, false).unwrap();
        assert_eq!(others().len(), 2);
        drop((draft, ours));
    }

    /// Many labs start while others list and sweep: each of them exists until it is dropped.
    #[test]
    fn listing_and_sweeping_do_not_block_others() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over() {
                    assert_eq!(registry.sweep(true).unwrap(), Vec::<String>::new());
                }
            });
            scope.spawn(|| {
                while !is_over() {
                    assert!(registry.list().unwrap().iter().all(|lab| lab.in_use));
                }
            });
            // ends the other threads if this fails
            let labs = std::panic::catch_unwind(|| {
                (0..300)
                    .map(|_| registry.register(1, false).unwrap())
                    .collect::<Vec<_>>()
            });
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            for lab in &labs.unwrap() {
                assert!(lab.path.exists(), "{lab:?}");
            }
        });
        assert!(registry.list().unwrap().is_empty());
        assert!(registry.files(DRAFT).unwrap().is_empty());
    }

    /// A lab that is just vanishing does not count as abandoned; and one that leaves changes behind
    /// is unlocked at once, even if another process has its file open.
    #[test]
    fn an_ending_lab_is_not_abandoned() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let lab = registry.register_on_hosts().unwrap();
        let (path, looked) = (lab.path.clone(), File::open(&lab.path).unwrap());
        drop(lab);
        assert_eq!(read_lab_file(looked, &path), None);

        let host: Arc<dyn Host> = Arc::new(Local);
        let lab = registry.register_on_hosts().unwrap();
        let (id, of_a_child) = (lab.record().id.clone(), lab.lock.try_clone().unwrap());
        let never = Command::new("false", &[]);
        lab.changes().before(&host, "nothing", never).unwrap();
        drop(lab);
        assert_eq!(registry.sweep(true).unwrap(), [id]);
        drop(of_a_child);
    }

    /// While one process reads a record and another undoes its lab, a sweep waits for both, and
    /// finds that it is gone.
    #[test]
    fn a_record_is_undone_once() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let kept = registry.register(1, true).unwrap();
        let (id, path) = (kept.record().id.clone(), kept.path.clone());
        kept.leave_standing();
        let looks = File::open(&path).unwrap();
        flock(&looks, FlockOperation::LockShared).unwrap();
        std::thread::scope(|scope| {
            let sweeps = scope.spawn(|| registry.sweep(true).unwrap());
            wait_until_locked_out(&path);
            assert!(path.exists(), "swept while somebody held it");
            flock(&looks, FlockOperation::Unlock).unwrap();
            assert_eq!(sweeps.join().unwrap(), std::slice::from_ref(&id));
        });

        // another sweep was first, and a new lab has the letters now
        fs::write(&path, b"dead").unwrap();
        let looks = File::open(&path).unwrap();
        flock(&looks, FlockOperation::LockShared).unwrap();
        std::thread::scope(|scope| {
            let sweeps = scope.spawn(|| registry.sweep(true).unwrap());
            wait_until_locked_out(&path);
            fs::remove_file(&path).unwrap();
            fs::write(&path, b"alive").unwrap();
            flock(&looks, FlockOperation::Unlock).unwrap();
            assert_eq!(sweeps.join().unwrap(), Vec::<String>::new());
        });
        assert_eq!(fs::read(&path).unwrap(), b"alive");
    }

    /// Waits until another thread is blocked by our lock of this file.
    fn wait_until_locked_out(path: &Path) {
        use std::os::unix::fs::MetadataExt;
        let inode = format!(":{} ", fs::metadata(path).unwrap().ino());
        let started = std::time::Instant::now();
        let is_waiting = || {
            let locks = fs::read_to_string("/proc/locks").unwrap();
            let mut waiting = locks.lines().filter(|line| line.contains("-> FLOCK"));
            waiting.any(|line| line.contains(&inode))
        };
        while !is_waiting() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "it does not wait"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// For a process that died: the next one undoes its changes on this machine, changes in its
    /// namespaces vanish with them, and what cannot be undone is reported and kept. Records without
    /// steps of earlier versions are read, too.
    #[test]
    fn changes_of_dead_processes_are_undone() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let lab = registry.register(1, true).unwrap();
        let (id, path) = (lab.record().id.clone(), lab.path.clone());
        let old = fs::read_to_string(&path).unwrap();
        assert!(!old.contains('\n'), "{old}");
        let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let here: Arc<dyn Host> = Arc::new(Local);
        let dut: Arc<dyn Host> = Arc::new(crate::host::Netns::bare(&lab.record().namespaces[1]));
        for name in ["one", "two"] {
            fs::write(file(name), "").unwrap();
        }
        let remove = |host: &Arc<dyn Host>, name: &str| {
            let command = Command::new("rm", &[&file(name)]);
            lab.changes().before(host, name, command).unwrap()
        };
        remove(&here, "one");
        remove(&here, "not there");
        // that namespace was never created, so nothing runs in it
        remove(&dut, "two");
        lab.leave_standing();

        left_behind();
        registry.sweep(true).unwrap();
        assert!(!fs::exists(file("one")).unwrap() && fs::exists(file("two")).unwrap());
        assert!(path.exists(), "there is something left to do");
        let output: Vec<String> = left_behind().iter().map(ToString::to_string).collect();
        let of_this = output.iter().filter(|left| left.contains(&id));
        let of_this: Vec<&String> = of_this.collect();
        assert!(
            of_this[0].contains("not there could not be undone: `rm ")
                && of_this[0].contains("the next start of fwdlab tries again"),
            "{output:?}"
        );

        // now it can be removed
        fs::write(file("not there"), "").unwrap();
        registry.sweep(true).unwrap();
        assert!(!fs::exists(file("not there")).unwrap() && !path.exists());
        fs::write(&path, old).unwrap();
        assert_eq!(registry.sweep(true).unwrap(), [id]);
        assert!(!path.exists());
    }

    /// A process in another network namespace may find the record of one that died.
    #[test]
    fn changes_are_undone_in_the_namespace_of_the_process_that_made_them() {
        let test = "changes_are_undone_in_the_namespace_of_the_process_that_made_them";
        if !crate::user_namespace::is_root() {
            return println!("SKIPPED: {test}: not root");
        }
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let lab = registry.register(0, true).unwrap();
        let seen = directory.path().join("seen");
        let command = format!("readlink /proc/self/ns/net > {}", seen.display());
        let here: Arc<dyn Host> = Arc::new(Local);
        let undo = Command::shell(&command);
        lab.changes().before(&here, "a setting", undo).unwrap();
        let path = lab.path.clone();
        let own = lab.record().net.clone().unwrap();
        lab.leave_standing();

        // as if the process that died had run in the namespace of this child
        let mut child = std::process::Command::new("unshare");
        let mut child = child.args(["--net", "sleep", "60"]).spawn().unwrap();
        let net = format!("/proc/{}/ns/net", child.id());
        let started = std::time::Instant::now();
        let other = loop {
            let net = fs::read_link(&net).unwrap().to_string_lossy().into_owned();
            if net != own {
                break net;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "no namespace");
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&own, &other)).unwrap();
        registry.sweep(true).unwrap();
        assert_eq!(fs::read_to_string(&seen).unwrap().trim(), other);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!path.exists());

        // one that is gone is reported, and nothing is done in another one
        fs::write(&path, text.replace(&own, "net:[1]")).unwrap();
        left_behind();
        registry.sweep(true).unwrap();
        let output: Vec<String> = left_behind().iter().map(ToString::to_string).collect();
        assert!(output[0].contains("cannot open net:[1]"), "{output:?}");
        assert_eq!(fs::read_to_string(&seen).unwrap().trim(), other);
        assert!(path.exists());
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
