//! Files that are complete at any time: journals that grow by lines, files that are replaced
//! atomically, the lock.
//!
//! It knows the names of the files of a run and nothing about their contents. A file is replaced by
//! writing a new one next to it and renaming it; a journal line is one write. Start with
//! [`Journal`] and [`replace`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;

use crate::error::StoreError;
use crate::id::RunId;
use crate::{regular, seal};

pub(crate) const RUN: &str = "run.json";
pub(crate) const SUMMARY: &str = "summary.json";
pub(crate) const REPORT: &str = "report.html";
pub(crate) const EVENTS: &str = "events.jsonl";
pub(crate) const TRIALS: &str = "trials.jsonl";
/// The counts of the DUT's host around trials; absent if nothing was read.
pub(crate) const TELEMETRY: &str = "telemetry.jsonl";
/// Requests of other processes to a running run.
pub(crate) const REQUESTS: &str = "requests.jsonl";
/// Tags and a note by the user.
pub(crate) const LABELS: &str = "labels.json";
pub(crate) const HOOKS: &str = "hooks.jsonl";
pub(crate) const INPUTS: &str = "inputs";
pub(crate) const RAW: &str = "raw";
/// Delays of the frames of a trial, an HDR histogram log.
pub(crate) const LATENCY: &str = "latency.hlog";
pub(crate) const LOCK: &str = ".lock";
/// Checksums of all files of a run that ended.
pub(crate) const CHECKSUMS: &str = "checksums.sfv";
/// Reserved space for the final records of a run on a full disk.
pub(crate) const RESERVE: &str = ".reserve";
/// A file that is being written.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// A run that is being created; becomes a run by renaming.
pub(crate) const NEW_PREFIX: &str = ".new-";
/// A run that is being removed.
pub(crate) const TRASH_PREFIX: &str = ".trash-";

/// Returns true if the root contains this name, or is about to.
pub(crate) fn is_taken(root: &Path, id: &str) -> bool {
    [root.join(id), root.join(format!("{NEW_PREFIX}{id}"))]
        .iter()
        .any(|path| path.symlink_metadata().is_ok())
}

/// Returns true for the name of a left-over: of a run that was being created or removed.
///
/// A directory that a user gave a similar name is kept.
pub(crate) fn is_left_over(name: &str) -> bool {
    let of = [NEW_PREFIX, TRASH_PREFIX].iter();
    of.filter_map(|prefix| name.strip_prefix(prefix))
        .any(|id| RunId::suffix_of(id).is_some())
}

/// A file that only grows, by whole lines.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    len: u64,
    torn: bool,
}

impl Journal {
    /// Creates the file in `dir`; `kept_in` is the directory's name by the time of the first
    /// append.
    pub(crate) fn create(dir: &Path, kept_in: &Path, name: &str) -> Result<Journal, StoreError> {
        let path = dir.join(name);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(StoreError::system("create", &path))?;
        Ok(Journal {
            file,
            path: kept_in.join(name),
            len: 0,
            torn: false,
        })
    }

    /// Opens the file of a run that continues. Removes an incomplete last line.
    pub(crate) fn reopen(dir: &Path, name: &str) -> Result<Journal, StoreError> {
        let path = dir.join(name);
        let open = || -> io::Result<(File, u64)> {
            // continuing somebody else's run must not write through a symbolic link
            drop(regular::open_io(&path)?);
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .custom_flags(NO_LINK)
                .open(&path)?;
            let len = whole_lines(&file)?;
            file.set_len(len)?;
            Ok((file, len))
        };
        let (file, len) = open().map_err(StoreError::system("open", &path))?;
        Ok(Journal {
            file,
            path,
            len,
            torn: false,
        })
    }

    /// Appends one line with one write call, so that a process killed at any time leaves at most an
    /// incomplete last line.
    ///
    /// A line that did not fit on the disk is removed, so that later lines are intact. A record is
    /// a JSON object; a checksum is added as its last member.
    pub(crate) fn append(&mut self, record: &impl Serialize) -> Result<(), StoreError> {
        let mut line = Vec::with_capacity(1024);
        if self.torn {
            line.push(b'\n');
        }
        self.write(&mut line, record)?;
        match self.file.write_all(&line) {
            Ok(()) => {
                self.torn = false;
                self.len += line.len() as u64;
                Ok(())
            }
            Err(source) => {
                self.torn |= self.file.set_len(self.len).is_err();
                Err(StoreError::system("append to", &self.path)(source))
            }
        }
    }
}

impl Journal {
    /// Appends the line of a record to a text.
    fn write(&self, text: &mut Vec<u8>, record: &impl Serialize) -> Result<(), StoreError> {
        let begin = text.len();
        serde_json::to_writer(&mut *text, record).map_err(|source| StoreError::Record {
            path: self.path.clone(),
            source,
        })?;
        seal::line(text, begin);
        text.push(b'\n');
        Ok(())
    }

    /// Replaces all lines atomically.
    pub(crate) fn replace(&mut self, records: &[impl Serialize]) -> Result<(), StoreError> {
        let mut text = Vec::new();
        for record in records {
            self.write(&mut text, record)?;
        }
        replace(&self.path, &text, false)?;
        // later lines are appended to the new file
        let file = OpenOptions::new().append(true).open(&self.path);
        self.file = file.map_err(StoreError::system("open", &self.path))?;
        (self.len, self.torn) = (text.len() as u64, false);
        Ok(())
    }
}

/// Never follows a symbolic link, and never blocks on a FIFO.
pub(crate) const NO_LINK: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;

/// Returns the number of bytes in complete lines.
fn whole_lines(file: &File) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut end = file.metadata()?.len();
    let mut piece = [0; 4096];
    while end > 0 {
        let begin = end.saturating_sub(piece.len() as u64);
        let piece = &mut piece[..(end - begin) as usize];
        file.read_exact_at(piece, begin)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Writes a file so that its name always refers to the complete old or new content.
///
/// With `durable`, also after a power failure.
pub(crate) fn replace(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dir = path.parent().unwrap_or(Path::new("."));
    let temporary = dir.join(format!("{TEMPORARY_PREFIX}{name}"));
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        if durable {
            file.sync_all()?;
        }
        drop(file);
        fs::rename(&temporary, path)?;
        if durable {
            sync(dir)?;
        }
        Ok(())
    };
    write().map_err(|source| {
        // Nothing else can be done about a temporary file that cannot be removed; readers ignore
        // it.
        let _ = fs::remove_file(&temporary);
        StoreError::system("write", path)(source)
    })
}

/// [`replace`] with the JSON text of a record, indented for people; durable.
pub(crate) fn replace_json(path: &Path, record: &impl Serialize) -> Result<(), StoreError> {
    replace(path, &json(path, record)?, true)
}

/// The JSON text of a record that is meant for `path`, indented for people, with its checksum.
pub(crate) fn json(path: &Path, record: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec_pretty(record).map_err(|source| StoreError::Record {
        path: path.to_owned(),
        source,
    })?;
    seal::file(&mut text);
    Ok(text)
}

/// Removes a directory and its contents; another process may be doing the same.
pub(crate) fn remove_tree(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Syncs a directory and its contents to the disk.
pub(crate) fn sync_tree(dir: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(dir).map_err(StoreError::system("read", dir))? {
        let entry = entry.map_err(StoreError::system("read", dir))?;
        let path = entry.path();
        let kind = entry
            .file_type()
            .map_err(StoreError::system("read", &path))?;
        if kind.is_dir() {
            sync_tree(&path)?;
        } else if kind.is_file() {
            sync(&path).map_err(StoreError::system("bring to the disk", &path))?;
        }
    }
    sync(dir).map_err(StoreError::system("bring to the disk", dir))
}

/// Takes the lock of a run, and creates it if there is none; it is held while the file is open.
///
/// # Errors
/// [`StoreError::StillRunning`] if a process holds it; [`StoreError::System`].
pub(crate) fn take_lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(NO_LINK)
        .open(&path)
        .map_err(StoreError::system("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::StillRunning {
            path: dir.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(StoreError::system("lock", &path)(error)),
    }
}

/// Returns whether a process holds the lock of the run in `dir`: tries a shared lock, so that
/// readers do not mistake each other for the writer.
pub(crate) fn is_locked(dir: &Path) -> io::Result<bool> {
    let file = match regular::open_io(&dir.join(LOCK)) {
        Ok(file) => file,
        // A copy of a run without its hidden files.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Converts the name of a test case to the name of a directory; different test cases get different
/// names.
///
/// Letters, digits, `.`, `_`, `-` are kept; `/` becomes `+`; other bytes become `%` and two
/// hexadecimal digits; a result longer than 120 bytes is cut and gets a hash of the whole name.
pub fn file_name_of(test_case: &str) -> String {
    let mut name = String::with_capacity(test_case.len());
    for (at, byte) in test_case.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => name.push_str("%2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => name.push(byte.into()),
            b'/' => name.push('+'),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.is_empty() {
        return "%".into();
    }
    if name.len() > 120 {
        name.truncate(100);
        name.push_str(&format!("%-{:016x}", fnv1a(test_case)));
    }
    name
}

/// FNV-1a, 64 bits: the same in every build, unlike the standard library's hasher.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns true if the path stays inside the directory it is joined to, and is not that directory.
pub(crate) fn is_relative_inside(name: &str) -> bool {
    let mut components = Path::new(name).components().peekable();
    components.peek().is_some()
        && !name.ends_with('/')
        && components.all(|component| matches!(component, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_that_cannot_be_removed_is_closed_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), dir.path(), "a").unwrap();
        let record = |n: u8| std::collections::BTreeMap::from([("n", n)]);
        journal.append(&record(1)).unwrap();
        let real = journal.file.try_clone().unwrap();
        // Fails every write with "no space left" and every truncation with "invalid argument".
        journal.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = journal.append(&record(2)).unwrap_err().to_string();
        assert!(
            error.contains("No space left") && error.contains("--runs DIR"),
            "{error}"
        );
        journal.file = real;
        journal.file.write_all(b"[torn").unwrap();
        journal.append(&record(3)).unwrap();
        journal.append(&record(4)).unwrap();
        let text = fs::read_to_string(dir.path().join("a")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (line, says) in lines
            .iter()
            .zip([r#"{"n":1"#, "[torn", r#"{"n":3"#, r#"{"n":4"#])
        {
            assert!(line.starts_with(says), "{text}");
            let sealed = seal::check(line.as_bytes()) == seal::Seal::Intact;
            assert_eq!(sealed, says != "[torn", "{line}");
        }
        assert_eq!(lines.len(), 4, "{text}");
    }

    #[test]
    fn test_cases_get_distinct_file_names() {
        let long = "x".repeat(300);
        let cases = [
            ("64B-1flow-ipv4", "64B-1flow-ipv4"),
            ("64B-1flow-ipv4/control", "64B-1flow-ipv4+control"),
            ("64B-1flow-ipv4+control", "64B-1flow-ipv4%2bcontrol"),
            ("..", "%2e."),
            (".hidden", "%2ehidden"),
            ("nft add rule", "nft%20add%20rule"),
            ("", "%"),
            ("%", "%25"),
            ("é", "%c3%a9"),
        ];
        for (case, expect) in cases {
            assert_eq!(file_name_of(case), expect);
        }
        let (a, b) = (file_name_of(&long), file_name_of(&format!("{long}y")));
        assert_ne!(a, b);
        assert!(a.len() <= 120, "{a}");
        // From the test vectors of Fowler, Noll and Vo.
        assert_eq!(fnv1a("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn inputs_stay_inside() {
        for good in ["nft.conf", "fw/etc/nft.conf", ".hidden", "a b"] {
            assert!(is_relative_inside(good), "{good}");
        }
        for bad in ["", "/etc/passwd", "../x", "a/../../x", ".", "a/", "./a"] {
            assert!(!is_relative_inside(bad), "{bad}");
        }
    }
}
