//! Which labs stand on this host: the undo record of every lab, and the sweeping of labs whose process died.
//!
//! Before a lab changes anything it writes down here what it will make: the namespaces in the first line of its record, and how to take
//! back every other change in those behind it (see [`crate::host::undo`]). It holds a lock on that record from before the record
//! has its name, as long as it lives; a record whose lock is free belongs to nobody and is undone by the next lab, or by
//! `fwdlab bed down`. Records live in `/run/fwdlab`, which a reboot empties together with the namespaces. Start with [`Registry::register`].

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
use crate::host::{Address, Host, Limit, Local};

/// Every namespace of ours begins like this.
pub const PREFIX: &str = "fwdlab-";

/// Where records are.
pub(crate) const DIRECTORY: &str = "/run/fwdlab";

/// Where those of ordinary users are, who measure on other machines: below the first of these that is set.
const OF_USERS: [(&str, &str); 3] = [
    ("XDG_RUNTIME_DIR", "fwdlab"),
    ("XDG_STATE_HOME", "fwdlab/labs"),
    ("HOME", ".local/state/fwdlab/labs"),
];

/// The folder with records, and with locks of test beds.
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

/// How the names of records end, and those of records that are being written.
const RECORD: &str = "json";
const DRAFT: &str = "new";

/// A draft that is older and that nobody holds is of a process that died: others take no time to become records.
const DRAFTED: Duration = Duration::from_secs(60);

/// So many drafts that others swept, or whose letters were taken, are no accident.
const ATTEMPTS: u32 = 100;

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
    lock: File,
    changes: Arc<Undo>,
}

/// A record that has no name yet.
#[derive(Debug)]
struct Draft {
    record: Record,
    path: PathBuf,
    /// The name it gets.
    name: PathBuf,
    lock: File,
}

/// A file of the registry that has no owner, held so that only one sweep deals with it.
struct Abandoned(File);

impl Registry {
    /// Opens the registry, making its directory.
    ///
    /// # Errors
    /// The directory cannot be made: not root, or not in a user namespace of ours.
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

    /// Writes down a lab with this many DUTs and takes hold of it. Nothing is made yet.
    ///
    /// The record is written into a draft that only its lock tells from a dead one, and gets its name when it is whole and held:
    /// whoever finds a record finds it held, or its lab is dead.
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

    /// The same of a lab on hosts that stay, with everything on them that is not taken back.
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
                // its letters are another's, or somebody swept it before it was held
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

    /// A file for a record, which is neither held nor written.
    fn draft(&self) -> Result<Draft, LabError> {
        let number = entropy();
        let id = letters(number);
        let path = self.directory.join(format!("{id}-{number:016x}.{DRAFT}"));
        // the contents of files that a set replaces are in it
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
            },
        })
    }

    /// All labs on this host. A record that is damaged counts by its name alone.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<Found>, LabError> {
        let records = self.files(RECORD)?;
        let mut found: Vec<Found> = records.iter().filter_map(|path| look(path)).collect();
        found.sort_by(|a, b| a.record.id.cmp(&b.record.id));
        Ok(found)
    }

    /// Undoes every lab that nobody holds; kept ones too when `kept` is set. Says which ones. Processes of others are left, and
    /// told by [`left_behind`].
    ///
    /// # Errors
    /// The registry cannot be read. A lab that resists is left for the next sweep.
    pub fn sweep(&self, kept: bool) -> Result<Vec<String>, LabError> {
        self.sweep_by(kept, &Address::reach)
    }

    /// The same with another way to the hosts on which something is left.
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
            // held until the lab is gone: nobody else undoes half of it
            let Some(mut lab) = Abandoned::take(&path) else {
                continue;
            };
            let Some((record, steps)) = read(&mut lab.0, &path) else {
                continue;
            };
            if !record.keep || kept {
                undo(&record, &path, |goes_anyway| {
                    steps.take_back(&path, goes_anyway, reach)
                });
                swept.push(record.id);
            }
        }
        swept.sort();
        Ok(swept)
    }

    fn files(&self, kind: &str) -> Result<Vec<PathBuf>, LabError> {
        let what = |e| LabError::system(format!("read {}", self.directory.display()), e);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(what)? {
            let path = entry.map_err(what)?.path();
            if path.extension().is_some_and(|e| e == kind) {
                files.push(path);
            }
        }
        Ok(files)
    }

    /// A lock that only one lab at a time holds while it builds.
    ///
    /// # Errors
    /// The lock file cannot be made.
    pub(crate) fn build_lock(&self) -> Result<File, LabError> {
        let path = self.directory.join("build.lock");
        let what = || format!("lock {}", path.display());
        let file = File::create(&path).map_err(|e| LabError::system(what(), e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| LabError::system(what(), e))?;
        Ok(file)
    }
}

impl Draft {
    /// From here on it is held. Waits for a sweep that takes it away just now; the draft is then not published.
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
    /// What was written down.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Where every change is written down that does not go with a namespace.
    pub(crate) fn changes(&self) -> &Arc<Undo> {
        &self.changes
    }

    /// Lets go of the lab without undoing it.
    pub fn leave_standing(self) {
        // what it lists stays, and so does its record; the lock goes even where a child that was just forked has the file, too
        let this = std::mem::ManuallyDrop::new(self);
        let _ = flock(&this.lock, FlockOperation::Unlock);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // on the hosts that it has, to which another way may not be found any more
        undo(&self.record, &self.path, |goes_anyway| {
            self.changes.take_rest_back(goes_anyway, Limit::OURS)
        });
        // what is left is the next one's, even where a child that was just forked has the file, too
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Abandoned {
    /// Takes a file that nobody holds; `None` when somebody does, or when it is gone.
    ///
    /// A shared lock finds out whether it has an owner, as those that only look do: they are not in each other's way. Once free, a file
    /// is free for ever, but another sweep may have taken it away before this one had it for itself.
    fn take(path: &Path) -> Option<Abandoned> {
        let file = File::options().read(true).write(true).open(path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
        let taken = Abandoned(file);
        flock(&taken.0, FlockOperation::LockExclusive).ok()?;
        has_its_name(&taken.0, path).then_some(taken)
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        // not only ours: a child that was just forked has the file, too
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Is it still the file of this name?
fn has_its_name(file: &File, path: &Path) -> bool {
    let of = |data: fs::Metadata| (data.dev(), data.ino());
    let (ours, there) = (file.metadata().map(of), fs::metadata(path).map(of));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

/// Was it last written to some time ago?
fn is_old(draft: &Path) -> bool {
    let written = fs::metadata(draft).and_then(|data| data.modified());
    written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > DRAFTED))
}

/// A lab as it is found. The lock is let go at once and only asked for shared, so that nobody who starts or sweeps fails by it.
fn look(path: &Path) -> Option<Found> {
    look_at(File::open(path).ok()?, path)
}

fn look_at(mut file: File, path: &Path) -> Option<Found> {
    let in_use = flock(&file, FlockOperation::NonBlockingLockShared).is_err();
    let _ = flock(&file, FlockOperation::Unlock);
    // its lab went between two looks
    if !in_use && !has_its_name(&file, path) {
        return None;
    }
    let (record, _) = read(&mut file, path)?;
    Some(Found { record, in_use })
}

/// What a record says, and the steps behind it; of a damaged one, what its name does.
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
        })
    });
    Some((record?, Steps::of(steps)))
}

/// Undoes a lab: its changes on other hosts, its processes, its namespaces and what is in them, its record. What others run there is left
/// alone. What could not be undone keeps its record and is tried again.
///
/// `take_back` does so with its changes, but for those on hosts that go anyway, and says what could not be taken back.
fn undo(
    record: &Record,
    path: &Path,
    take_back: impl FnOnce(&dyn Fn(&Address) -> bool) -> Vec<String>,
) {
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
    let of_lab = |host: &Address| matches!(host, Address::Namespace(name) if names.contains(name));
    let amiss = take_back(&of_lab);
    let mut all_gone = amiss.is_empty();
    leave(amiss.into_iter().map(|what| Left::Change {
        what,
        record: path.to_owned(),
    }));
    for name in names.iter().filter(|n| n.starts_with(PREFIX)) {
        let file = Path::new("/run/netns").join(name);
        if !file.exists() {
            continue;
        }
        end_processes_in(name, &mark(&record.id));
        let deleted = Local.ask("ip", &["netns", "delete", name]);
        all_gone &= deleted.is_ok() || !file.exists();
    }
    if all_gone {
        let _ = fs::remove_file(path);
    }
}

/// The name of a mount that only processes see that a configuration of this lab started.
pub(crate) fn mark(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// A line for a shell with mounts of its own: what it starts is the lab's from then on, and does not see the registry.
pub(crate) fn marking(id: &str) -> String {
    format!("mount -t tmpfs -o size=4k '{}' {DIRECTORY}\n", mark(id))
}

/// What is left of a lab that was undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// A process of somebody else's in a namespace that was removed.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
        /// The namespace, which has no name and no ports any more.
        namespace: String,
    },
    /// A change that could not be taken back.
    Change {
        /// Which one, and why.
        what: String,
        /// Where it is written down.
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
            Left::Change { what, record } => write!(
                f,
                "{what}. It is written down in {}, and the next start of fwdlab tries again",
                record.display()
            ),
        }
    }
}

/// What was left so far, by this process.
#[cfg(not(test))]
fn with_left<T>(work: impl FnOnce(&mut Vec<Left>) -> T) -> T {
    static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());
    work(&mut LEFT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The same in tests, which are many in one process and each on a thread of its own.
#[cfg(test)]
fn with_left<T>(work: impl FnOnce(&mut Vec<Left>) -> T) -> T {
    thread_local! {
        static LEFT: std::cell::RefCell<Vec<Left>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    LEFT.with_borrow_mut(work)
}

fn leave(left: impl IntoIterator<Item = Left>) {
    let left: Vec<Left> = left.into_iter().collect();
    with_left(|all| all.extend(left));
}

/// What was left of the labs that this process undid, since it was asked last.
pub fn left_behind() -> Vec<Left> {
    with_left(std::mem::take)
}

/// Ends what configurations left running in a namespace, and would keep that alive. Whoever else is there stays, without the ports.
fn end_processes_in(namespace: &str, mark: &str) {
    let Ok(pids) = Local.ask("ip", &["netns", "pids", namespace]) else {
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
    // they keep the namespace, which would keep the ports
    for port in veths(namespace) {
        let _ = Local.ask("ip", &["-n", namespace, "link", "delete", &port]);
    }
    leave(left);
}

/// Does a process see the mark? `None` when there is no such process.
fn is_marked(pid: u32, mark: &str) -> Option<bool> {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
    // behind the optional fields: type, source, options
    let mut sources = mounts
        .lines()
        .filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(1));
    Some(sources.any(|source| source == mark))
}

/// `2: tx0@if3: <BROADCAST,MULTICAST> mtu ...`
fn veths(namespace: &str) -> Vec<String> {
    let list = ["-n", namespace, "-o", "link", "show", "type", "veth"];
    let text = Local.ask("ip", &list).unwrap_or_default();
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

    /// Undo steps contain the files that a set replaces, of whatever mode these are.
    #[test]
    fn nobody_else_reads_a_record() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let lab = registry.register_on_hosts().unwrap();
        let mode = fs::metadata(&lab.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

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

    /// Whatever happens between two steps of a lab that starts, its record stays, and is held.
    #[test]
    fn a_lab_that_starts_is_not_swept() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let others = || {
            assert_eq!(registry.sweep(true).unwrap(), Vec::<String>::new());
            registry.list().unwrap()
        };
        // nobody takes a draft away that is not held yet, but an old one; publishing that then fails instead of making a record that
        // nobody holds
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
        // letters of another lab's are not taken from it
        fs::write(&draft.name, b"another's").unwrap();
        assert_eq!(draft.publish(), Err(Errno::EXIST));
        assert_eq!(fs::read(&draft.name).unwrap(), b"another's");
        fs::remove_file(&draft.name).unwrap();
        draft.publish().unwrap();
        let found = others();
        assert!(found[0].in_use, "{found:?}");
        assert_eq!(found[0].record, draft.record);
        // what is held is what has the name
        let (held, named) = (draft.lock.metadata(), fs::metadata(&draft.name));
        assert_eq!(held.unwrap().ino(), named.unwrap().ino());

        let ours = registry.register(1, false).unwrap();
        assert_eq!(others().len(), 2);
        drop((draft, ours));
    }

    /// Many labs that start while others look and sweep: all of them stand until they are dropped.
    #[test]
    fn those_who_look_and_those_who_sweep_are_in_nobodys_way() {
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
            // ends the others when this fails
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

    /// A lab that goes just now is none that nobody holds; and one that goes with something left to do is free at once, whoever else has
    /// its file.
    #[test]
    fn a_lab_that_goes_is_held_or_gone() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path()).unwrap();
        let lab = registry.register_on_hosts().unwrap();
        let (path, looked) = (lab.path.clone(), File::open(&lab.path).unwrap());
        drop(lab);
        assert_eq!(look_at(looked, &path), None);

        let host: Arc<dyn Host> = Arc::new(Local);
        let lab = registry.register_on_hosts().unwrap();
        let (id, of_a_child) = (lab.record().id.clone(), lab.lock.try_clone().unwrap());
        let never = Command::new("false", &[]);
        lab.changes().before(&host, "nothing", never).unwrap();
        drop(lab);
        assert_eq!(registry.sweep(true).unwrap(), [id]);
        drop(of_a_child);
    }

    /// Somebody looks at it, another undoes it: the one that sweeps waits for both, and finds out that it is gone.
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
            std::thread::sleep(Duration::from_millis(50));
            assert!(path.exists(), "swept while somebody held it");
            flock(&looks, FlockOperation::Unlock).unwrap();
            assert_eq!(sweeps.join().unwrap(), std::slice::from_ref(&id));
        });

        // another sweep was first, and another lab has the letters now
        fs::write(&path, b"dead").unwrap();
        let looks = File::open(&path).unwrap();
        flock(&looks, FlockOperation::LockShared).unwrap();
        std::thread::scope(|scope| {
            let sweeps = scope.spawn(|| registry.sweep(true).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            fs::remove_file(&path).unwrap();
            fs::write(&path, b"alive").unwrap();
            flock(&looks, FlockOperation::Unlock).unwrap();
            assert_eq!(sweeps.join().unwrap(), Vec::<String>::new());
        });
        assert_eq!(fs::read(&path).unwrap(), b"alive");
    }

    /// Of a process that died: what it changed on this machine is taken back by the next, what is in its namespaces goes with them, and
    /// what cannot be taken back is said and kept. A record of before there were steps is read as well.
    #[test]
    fn changes_of_the_dead_are_taken_back() {
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
        // that namespace was never made: it is not asked
        remove(&dut, "two");
        lab.leave_standing();

        left_behind();
        registry.sweep(true).unwrap();
        assert!(!fs::exists(file("one")).unwrap() && fs::exists(file("two")).unwrap());
        assert!(path.exists(), "there is something left to do");
        let said: Vec<String> = left_behind().iter().map(ToString::to_string).collect();
        let of_this = said.iter().filter(|left| left.contains(&id));
        let of_this: Vec<&String> = of_this.collect();
        assert!(
            of_this[0].contains("not there could not be taken back: `rm ")
                && of_this[0].contains("the next start of fwdlab tries again"),
            "{said:?}"
        );

        // now it can be
        fs::write(file("not there"), "").unwrap();
        registry.sweep(true).unwrap();
        assert!(!fs::exists(file("not there")).unwrap() && !path.exists());
        fs::write(&path, old).unwrap();
        assert_eq!(registry.sweep(true).unwrap(), [id]);
        assert!(!path.exists());
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
