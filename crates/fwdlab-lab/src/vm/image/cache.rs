//! The user's cache: downloads and build results, each under its checksum, complete or not at all.
//!
//! Everything in it can be recreated, and it does not know about kernels or archives: an entry is a
//! directory that the caller fills. Start with [`Cache::for_user`] and [`Cache::make`].
//!
//! ```text
//! CACHE/lock               locked while something is made or removed
//! CACHE/tmp/               what is being made; can be deleted if the lock is free
//! CACHE/names/NAME         the checksum of the entry that has this name
//! CACHE/KIND/CHECKSUM/     an entry: its files, and entry.json with their sizes and checksums
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::error::ImageError;

/// Reports slow steps to the user.
pub(crate) type Report<'a> = &'a mut dyn FnMut(&str);

/// Number of most recently used initial file systems that are kept, because every new build of this
/// program makes another one.
const INITRAMFS_KEPT: usize = 8;

/// A disk with less free space is full, which explains why a program could not write.
const FULL: u64 = 1 << 20;

/// The record of an entry; written last, into the entry's directory.
const RECORD: &str = "entry.json";

/// A directory with downloads and build results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A kernel with its modules.
    Image,
    /// Packages with programs for guests, unpacked.
    Programs,
    /// A guest's initial file system.
    Initramfs,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Image, Kind::Programs, Kind::Initramfs];

    fn folder(self) -> &'static str {
        match self {
            Kind::Image => "images",
            Kind::Programs => "programs",
            Kind::Initramfs => "initramfs",
        }
    }
}

/// An entry whose files are complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) folder: PathBuf,
    /// Facts that were stored by the code that made it.
    pub(crate) facts: Facts,
    files: BTreeMap<String, FileRecord>,
}

pub(crate) type Facts = BTreeMap<String, String>;

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    title: String,
    facts: Facts,
    files: BTreeMap<String, FileRecord>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct FileRecord {
    bytes: u64,
    crc32: u32,
}

/// An entry as shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its kind.
    pub kind: Kind,
    /// Its description.
    pub title: String,
    /// Its checksum.
    pub checksum: String,
    /// The names by which it was requested.
    pub names: Vec<String>,
    /// Its size on the disk.
    pub bytes: u64,
    /// When it was made or last used.
    pub last_use: SystemTime,
}

/// Which entries are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal<'a> {
    /// All of them, and the package lists.
    All,
    /// Those that were not used for this long.
    UnusedFor(Duration),
    /// The one with this name or checksum.
    Named(&'a str),
}

impl Cache {
    /// Opens the cache of the current user: `FWDLAB_CACHE`, or `fwdlab` in `XDG_CACHE_HOME` or in
    /// `~/.cache`; without a home directory, one in the directory for temporary files.
    ///
    /// # Errors
    /// The directory cannot be created, or the one for temporary files belongs to another user.
    pub fn for_user() -> Result<Cache, ImageError> {
        let user = rustix::process::geteuid().as_raw();
        match own_place() {
            Some(folder) => Cache::at(&folder),
            None => Cache::private(&shared_place(user), user),
        }
    }

    /// Returns the path of that directory without creating it.
    pub(crate) fn place_of_user() -> PathBuf {
        own_place().unwrap_or_else(|| shared_place(rustix::process::geteuid().as_raw()))
    }

    /// Opens the cache in this directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn at(folder: &Path) -> Result<Cache, ImageError> {
        let failed =
            |e| ImageError::system(format!("make the cache folder {}", folder.display()), e);
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let folder = fs::canonicalize(folder).map_err(failed)?;
        Ok(Cache { folder })
    }

    /// Opens a cache where every user may write, and checks that no other user has created the
    /// directory.
    fn private(folder: &Path, user: u32) -> Result<Cache, ImageError> {
        let cache = match fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                let action = format!("make the cache folder {}", folder.display());
                return Err(ImageError::system(action, e));
            }
            _ => folder,
        };
        let is_ours = fs::symlink_metadata(cache)
            .is_ok_and(|m| m.is_dir() && m.uid() == user && m.mode() & 0o077 == 0);
        match is_ours {
            true => Cache::at(cache),
            false => Err(ImageError::not_usable(
                cache,
                "there is no home folder, and this one is not a private folder of the user. Set FWDLAB_CACHE to a folder for images",
            )),
        }
    }

    /// Returns its directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the entry with this checksum if it exists and is complete; removes a damaged one.
    ///
    /// Compares the size of every file, and the checksum of those that are not in a subdirectory of
    /// the entry; see [`Entry::is_intact`] for the others.
    pub(crate) fn find(&self, kind: Kind, checksum: &str, report: Report<'_>) -> Option<Entry> {
        let folder = self.folder.join(kind.folder()).join(checksum);
        if !folder.exists() {
            return None;
        }
        match read(&folder).filter(|(_, entry)| entry.seems_intact()) {
            Some((_, entry)) => {
                touch(&folder);
                Some(entry)
            }
            None => {
                report(&format!(
                    "{} is damaged and is created again",
                    folder.display()
                ));
                self.discard(&folder);
                None
            }
        }
    }

    /// Returns the entry with this checksum; if it does not exist, `fill` makes it in an empty
    /// directory.
    ///
    /// Only one process at a time makes something; the others wait, and find it. A failure leaves
    /// nothing behind.
    pub(crate) fn make(
        &self,
        kind: Kind,
        checksum: &str,
        title: &str,
        report: Report<'_>,
        fill: impl FnOnce(&Path, Report<'_>) -> Result<Facts, ImageError>,
    ) -> Result<Entry, ImageError> {
        if let Some(entry) = self.find(kind, checksum, report) {
            return Ok(entry);
        }
        self.locked(report, |report| {
            if let Some(entry) = self.find(kind, checksum, report) {
                return Ok(entry);
            }
            // a process that was killed may have left a child that still writes into its directory
            let new = self.folder.join(format!("tmp/new-{}", std::process::id()));
            let mut made = self.fill(&new, kind, checksum, title, |new| fill(new, report));
            if let Err(error) = made {
                made = Err(self.explain_full_disk(error, title));
                _ = remove_tree(&self.folder.join("tmp"));
            }
            let of_kind = self
                .list()
                .into_iter()
                .filter(|kept| kept.kind == Kind::Initramfs);
            for old in of_kind.skip(INITRAMFS_KEPT) {
                self.discard(&self.folder.join(old.kind.folder()).join(old.checksum));
            }
            made
        })
    }

    /// Replaces an error by a clear one if the disk is full, which programs report in many ways.
    fn explain_full_disk(&self, error: ImageError, title: &str) -> ImageError {
        let is_told = matches!(error, ImageError::System { .. });
        let text = error.to_string();
        let is_said = ["No space left", "Disk quota"]
            .iter()
            .any(|words| text.contains(words));
        let left = rustix::fs::statvfs(&self.folder).map_or(u64::MAX, |s| s.f_bavail * s.f_frsize);
        match !is_told && (is_said || left < FULL) {
            true => ImageError::system(
                format!("keep {title} in {}", self.folder.display()),
                io::ErrorKind::StorageFull,
            ),
            false => error,
        }
    }

    fn fill(
        &self,
        new: &Path,
        kind: Kind,
        checksum: &str,
        title: &str,
        fill: impl FnOnce(&Path) -> Result<Facts, ImageError>,
    ) -> Result<Entry, ImageError> {
        let all = self.folder.join(kind.folder());
        make_folder(new)?;
        make_folder(&all)?;
        let facts = fill(new)?;
        let record = Record {
            title: title.to_owned(),
            facts,
            files: survey(new)?,
        };
        let text = serde_json::to_vec(&record).expect("texts and numbers become JSON");
        write(&new.join(RECORD), &text)?;
        let folder = all.join(checksum);
        fs::rename(new, &folder)
            .map_err(|e| ImageError::system(format!("move {title} to {}", folder.display()), e))?;
        Ok(Entry {
            folder,
            facts: record.facts,
            files: record.files,
        })
    }

    /// Runs `act` while no other process makes or removes anything; the directory for temporary
    /// files is empty then.
    pub(crate) fn locked<T>(
        &self,
        report: Report<'_>,
        act: impl FnOnce(Report<'_>) -> Result<T, ImageError>,
    ) -> Result<T, ImageError> {
        let path = self.folder.join("lock");
        let failed = |e| ImageError::system(format!("lock {}", path.display()), e);
        let file = File::create(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                report("another fwdlab is at work in the cache; waiting for it");
                file.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        let rubbish = self.folder.join("tmp");
        _ = remove_tree(&rubbish);
        make_folder(&rubbish)?;
        act(report)
    }

    /// Returns the checksum that is stored for a name.
    pub(crate) fn checksum_of(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.join("names").join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Stores the checksum for a name, which may not contain a slash.
    pub(crate) fn keep_name(&self, name: &str, checksum: &str) -> Result<(), ImageError> {
        let folder = self.folder.join("names");
        make_folder(&folder)?;
        // first under a name of this process: a reader sees the old text or the new one
        let new = folder.join(format!(".{}-{name}", std::process::id()));
        write(&new, checksum.as_bytes())?;
        fs::rename(&new, folder.join(name))
            .map_err(|e| ImageError::system(format!("keep the name {name}"), e))
    }

    /// Returns all entries, last used first.
    pub fn list(&self) -> Vec<Kept> {
        let names: Vec<(String, String)> = entries(&self.folder.join("names"))
            .filter_map(|path| {
                let name = path.file_name()?.to_str()?.to_owned();
                let checksum = self.checksum_of(&name)?;
                Some((name, checksum)).filter(|(name, _)| !name.starts_with('.'))
            })
            .collect();
        let mut all: Vec<Kept> = Kind::ALL
            .into_iter()
            .flat_map(|kind| entries(&self.folder.join(kind.folder())).map(move |f| (kind, f)))
            .filter_map(|(kind, folder)| {
                let checksum = folder.file_name()?.to_str()?.to_owned();
                let (record, entry) = read(&folder)?;
                let mut names: Vec<String> = (names.iter().filter(|(_, of)| *of == checksum))
                    .map(|(name, _)| name.clone())
                    .collect();
                names.sort();
                Some(Kept {
                    kind,
                    title: record.title,
                    names,
                    bytes: entry.files.values().map(|file| file.bytes).sum(),
                    last_use: fs::metadata(folder.join(RECORD))
                        .and_then(|m| m.modified())
                        .ok()?,
                    checksum,
                })
            })
            .collect();
        all.sort_by_key(|kept| std::cmp::Reverse(kept.last_use));
        all
    }

    /// Removes entries, and returns them. A guest that was started from one keeps running, because
    /// the emulator has read it at the start.
    ///
    /// # Errors
    /// The cache cannot be locked or changed.
    pub fn remove(&self, which: Removal<'_>, report: Report<'_>) -> Result<Vec<Kept>, ImageError> {
        let now = SystemTime::now();
        self.locked(report, |_| {
            let mut removed = self.list();
            removed.retain(|kept| match which {
                Removal::All => true,
                Removal::UnusedFor(age) => now
                    .duration_since(kept.last_use)
                    .is_ok_and(|unused| unused >= age),
                Removal::Named(name) => {
                    kept.checksum == name || kept.names.iter().any(|n| n == name)
                }
            });
            for kept in &removed {
                for name in &kept.names {
                    _ = fs::remove_file(self.folder.join("names").join(name));
                }
                self.discard(&self.folder.join(kept.kind.folder()).join(&kept.checksum));
            }
            if which == Removal::All {
                // also what cannot be listed: damaged entries, names without an entry
                let kinds = Kind::ALL.map(Kind::folder).into_iter();
                for folder in kinds.chain(["names", "lists"]) {
                    let folder = self.folder.join(folder);
                    remove_tree(&folder).map_err(|e| {
                        ImageError::system(format!("remove {}", folder.display()), e)
                    })?;
                }
            }
            Ok(removed)
        })
    }

    /// Removes a damaged entry, and returns the error.
    pub(crate) fn damaged(&self, entry: &Entry) -> ImageError {
        let action =
            read(&entry.folder).map_or_else(|| "an entry".into(), |(record, _)| record.title);
        self.discard(&entry.folder);
        ImageError::Damaged {
            item: action,
            folder: self.folder.display().to_string(),
        }
    }

    /// Moves an entry away before it is deleted, so that no process finds half of it.
    fn discard(&self, folder: &Path) {
        let rubbish = self.folder.join(format!("tmp/old-{}", std::process::id()));
        _ = make_folder(&self.folder.join("tmp"));
        match fs::rename(folder, &rubbish) {
            Ok(()) => _ = remove_tree(&rubbish),
            Err(_) => _ = remove_tree(folder),
        }
    }
}

impl Entry {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn seems_intact(&self) -> bool {
        self.files.iter().all(|(name, record)| {
            let path = self.folder.join(name);
            let size_is_right = fs::metadata(&path).is_ok_and(|m| m.len() == record.bytes);
            let is_read = !name.contains('/');
            size_is_right
                && (!is_read || fs::read(&path).is_ok_and(|b| crc32fast::hash(&b) == record.crc32))
        })
    }

    /// Returns true if `content` is what was put into one of its files, or if the path is not in
    /// the entry.
    pub(crate) fn is_intact(&self, path: &Path, content: &[u8]) -> bool {
        let name = path.strip_prefix(&self.folder).ok().and_then(Path::to_str);
        match name.and_then(|name| self.files.get(name)) {
            Some(record) => {
                record.bytes == content.len() as u64 && record.crc32 == crc32fast::hash(content)
            }
            None => true,
        }
    }
}

fn own_place() -> Option<PathBuf> {
    place(|name| std::env::var_os(name).map(PathBuf::from))
}

fn shared_place(user: u32) -> PathBuf {
    std::env::temp_dir().join(format!("fwdlab-cache-{user}"))
}

fn place(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let given = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    // the XDG base directory specification: a relative path is ignored
    let absolute = |name| given(name).filter(|path| path.is_absolute());
    given("FWDLAB_CACHE")
        .or_else(|| absolute("XDG_CACHE_HOME").map(|base| base.join("fwdlab")))
        // a home may not exist; and with sudo it may be that of another user, who could not remove
        // files of root
        .or_else(|| {
            let home = absolute("HOME").filter(|home| is_own(home))?;
            Some(home.join(".cache/fwdlab"))
        })
}

fn is_own(folder: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    fs::metadata(folder).is_ok_and(|m| m.is_dir() && m.uid() == user)
}

fn read(folder: &Path) -> Option<(Record, Entry)> {
    let text = fs::read(folder.join(RECORD)).ok()?;
    let record: Record = serde_json::from_slice(&text).ok()?;
    let entry = Entry {
        folder: folder.to_owned(),
        facts: record.facts.clone(),
        files: record.files.clone(),
    };
    Some((record, entry))
}

fn touch(folder: &Path) {
    // a user who may not write there shares the cache of another user, and can still use it
    if let Ok(file) = File::options().append(true).open(folder.join(RECORD)) {
        _ = file.set_modified(SystemTime::now());
    }
}

/// Returns sizes and checksums of all files below a directory; ignores links.
fn survey(folder: &Path) -> Result<BTreeMap<String, FileRecord>, ImageError> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for path in entries(&next) {
            let kind = fs::symlink_metadata(&path)
                .map_err(|e| ImageError::system(format!("look at {}", path.display()), e))?;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                let content = fs::read(&path)
                    .map_err(|e| ImageError::system(format!("read {}", path.display()), e))?;
                let name = path.strip_prefix(folder).expect("found below it");
                let record = FileRecord {
                    bytes: content.len() as u64,
                    crc32: crc32fast::hash(&content),
                };
                files.insert(name.to_string_lossy().into_owned(), record);
            }
        }
    }
    Ok(files)
}

/// Returns the entries of a directory; none if it does not exist.
pub(crate) fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let found = fs::read_dir(folder).into_iter().flatten();
    found.filter_map(|entry| Some(entry.ok()?.path()))
}

pub(crate) fn make_folder(path: &Path) -> Result<(), ImageError> {
    fs::create_dir_all(path)
        .map_err(|e| ImageError::system(format!("make the folder {}", path.display()), e))
}

pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), ImageError> {
    fs::write(path, content).map_err(|e| ImageError::system(format!("write {}", path.display()), e))
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn silent(_: &str) {}

    fn filled(text: &'static str) -> impl Fn(&Path, Report<'_>) -> Result<Facts, ImageError> {
        move |new, _| {
            make_folder(&new.join("deep"))?;
            write(&new.join("top"), text.as_bytes())?;
            write(&new.join("deep/file"), text.as_bytes())?;
            Ok(Facts::from([("fact".into(), text.into())]))
        }
    }

    #[test]
    fn cached_entries_are_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("a/b")).unwrap();
        assert_eq!(cache.find(Kind::Image, "sum", &mut silent), None);
        let made = cache
            .make(Kind::Image, "sum", "a title", &mut silent, filled("text"))
            .unwrap();
        let other = |_: &Path, _: Report<'_>| panic!("it is there");
        let again = cache
            .make(Kind::Image, "sum", "a title", &mut silent, other)
            .unwrap();
        assert_eq!(again, made);
        assert_eq!(again.facts["fact"], "text");
        assert_eq!(cache.checksum_of("debian:x=1:2~3"), None);
        cache.keep_name("debian:x=1:2~3", "sum").unwrap();
        assert_eq!(cache.checksum_of("debian:x=1:2~3").as_deref(), Some("sum"));
        let all = cache.list();
        assert_eq!(
            (all.len(), all[0].bytes, all[0].title.as_str()),
            (1, 8, "a title")
        );
        assert_eq!(all[0].names, ["debian:x=1:2~3"]);
    }

    #[test]
    fn of_two_concurrent_builders_one_builds() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let fill = |new: &Path, report: Report<'_>| {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(20));
                        filled("x")(new, report)
                    };
                    cache
                        .make(Kind::Image, "sum", "t", &mut silent, fill)
                        .unwrap();
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn damaged_entries_are_rebuilt() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let make = || {
            cache
                .make(Kind::Image, "sum", "t", &mut silent, filled("text"))
                .unwrap()
        };
        let entry = make();
        let damages: [(&str, Option<&[u8]>); 4] = [
            ("top", Some(b"tExt")),
            ("deep/file", Some(b"short text")),
            ("deep/file", None),
            (RECORD, Some(b"{}")),
        ];
        for (file, content) in damages {
            match content {
                Some(content) => fs::write(entry.path(file), content).unwrap(),
                None => fs::remove_file(entry.path(file)).unwrap(),
            }
            let mut reported = Vec::new();
            let found = cache.find(Kind::Image, "sum", &mut |text| {
                reported.push(text.to_owned())
            });
            assert_eq!(found, None, "{file}");
            assert!(reported[0].contains("is damaged"), "{reported:?}");
            assert_eq!(fs::read(make().path("top")).unwrap(), b"text");
        }
        // the same size, in a subdirectory: noticed when it is read
        let deep = entry.path("deep/file");
        assert!(entry.is_intact(&deep, b"text") && !entry.is_intact(&deep, b"tExt"));
        assert!(entry.is_intact(Path::new("/elsewhere"), b"anything"));
        assert!(
            cache
                .damaged(&entry)
                .to_string()
                .contains("has been removed")
        );
        assert_eq!(cache.find(Kind::Image, "sum", &mut silent), None);
    }

    #[test]
    fn a_failed_build_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let fail = |new: &Path, _: Report<'_>| {
            write(&new.join("half"), b"text")?;
            write(&new.join("no/such/folder"), b"")?;
            Ok(Facts::new())
        };
        assert!(
            cache
                .make(Kind::Image, "sum", "t", &mut silent, fail)
                .is_err()
        );
        assert!(!folder.path().join("tmp").exists());
        assert_eq!(cache.find(Kind::Image, "sum", &mut silent), None);
    }

    #[test]
    fn a_full_disk_leaves_nothing_half() {
        let folder = tempfile::tempdir().unwrap();
        let mounted = rustix::mount::mount(
            "small",
            folder.path(),
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            c"size=64k",
        );
        if let Err(e) = mounted {
            println!("SKIPPED: a_full_disk_leaves_nothing_half: cannot mount a small tmpfs: {e}");
            return;
        }
        let cache = Cache::at(folder.path()).unwrap();
        let fill = |new: &Path, _: Report<'_>| {
            write(&new.join("large"), &vec![1; 1 << 20])?;
            Ok(Facts::new())
        };
        let full = cache
            .make(Kind::Image, "sum", "t", &mut silent, fill)
            .unwrap_err();
        let small = cache.make(Kind::Image, "sum", "t", &mut silent, filled("small"));
        rustix::mount::unmount(folder.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
        assert!(full.to_string().contains("FWDLAB_CACHE"), "{full}");
        small.unwrap();
    }

    #[test]
    fn entries_are_removed_by_name_by_age_or_all() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let make = |sum: &str| {
            let entry = cache
                .make(Kind::Image, sum, sum, &mut silent, filled("x"))
                .unwrap();
            cache.keep_name(&format!("debian:{sum}"), sum).unwrap();
            entry
        };
        let remove = |which| {
            let removed = cache.remove(which, &mut silent).unwrap();
            removed
                .into_iter()
                .map(|kept| kept.title)
                .collect::<Vec<_>>()
        };
        let old = make("old");
        for sum in ["a", "b", "c"] {
            make(sum);
        }
        let then = SystemTime::now() - Duration::from_secs(1000);
        let file = File::options().append(true).open(old.path(RECORD)).unwrap();
        file.set_modified(then).unwrap();
        assert_eq!(cache.list().last().unwrap().title, "old");
        assert_eq!(
            remove(Removal::UnusedFor(Duration::from_secs(900))),
            ["old"]
        );
        assert_eq!(cache.checksum_of("debian:old"), None);
        assert_eq!(remove(Removal::Named("debian:b")), ["b"]);
        assert_eq!(remove(Removal::Named("nothing")), [""; 0]);
        assert_eq!(remove(Removal::All).len(), 2);
        assert!(cache.list().is_empty());
    }

    #[test]
    fn initial_file_systems_do_not_pile_up() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        for number in 0..INITRAMFS_KEPT + 3 {
            let sum = number.to_string();
            cache
                .make(Kind::Initramfs, &sum, &sum, &mut silent, filled("x"))
                .unwrap();
        }
        assert_eq!(cache.list().len(), INITRAMFS_KEPT);
    }

    #[test]
    fn the_cache_directory_can_be_chosen() {
        let of = |variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|(n, _)| *n == name);
            place(|name| value(name).map(|(_, value)| PathBuf::from(value)))
        };
        let home = tempfile::tempdir().unwrap();
        let home = home.path().to_str().unwrap();
        let in_home = Some(Path::new(home).join(".cache/fwdlab"));
        assert_eq!(
            of(&[("FWDLAB_CACHE", "x"), ("XDG_CACHE_HOME", "/y")]),
            Some("x".into())
        );
        assert_eq!(
            of(&[("XDG_CACHE_HOME", "/y"), ("HOME", home)]),
            Some("/y/fwdlab".into())
        );
        assert_eq!(of(&[("FWDLAB_CACHE", ""), ("HOME", home)]), in_home);
        assert_eq!(
            of(&[("XDG_CACHE_HOME", "relative"), ("HOME", home)]),
            in_home
        );
        assert_eq!(of(&[("HOME", "/nonexistent")]), None);
    }

    #[test]
    fn a_folder_of_another_user_is_refused_as_cache() {
        let folder = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let own = folder.path().join("own");
        assert!(Cache::private(&own, user).is_ok());
        assert!(Cache::private(&own, user).is_ok());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(Cache::private(&link, user).is_err());
        assert!(Cache::private(&own, user + 1).is_err());
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let reason = Cache::private(&open, user).unwrap_err().to_string();
        assert!(reason.contains("FWDLAB_CACHE"), "{reason}");
    }
}
