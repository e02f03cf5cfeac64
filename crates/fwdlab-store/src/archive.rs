//! Runs in one file, to share or to keep: a compressed tar archive with a directory for each run.
//!
//! An import extracts all runs or none, and moves them into place only after their contents were
//! verified. Archives may come from anybody, so only regular files in directories of runs are
//! extracted. Start with [`export`] and [`import_runs`].

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use fwdlab_model::facts::ShownFacts;
use tar::{Archive, Builder, Entry, EntryType, Header};

use crate::error::StoreError;
use crate::files::{
    CHECKSUMS, LABELS, NEW_PREFIX, REQUESTS, RUN, is_locked, is_relative_inside, is_taken,
    remove_tree, sync_tree,
};
use crate::{StoredRun, brief, load, regular, seal};

/// Maximum unpacked size of an archive; an hour of trials is some megabytes.
const MOST_BYTES: u64 = 64 << 30;

/// Maximum size of the headers before the content of an entry, with long names and PAX records.
/// They are held in memory.
const MOST_HEADER_BYTES: u64 = 1 << 20;

/// Writes finished runs into one archive: unchanged, or in brief form without what identifies their
/// host.
///
/// # Errors
/// [`StoreError::StillRunning`], [`StoreError::NotARun`], [`StoreError::NotBrief`],
/// [`StoreError::System`].
pub fn export(
    runs: &[PathBuf],
    to: impl Write,
    file: &Path,
    facts: ShownFacts,
) -> Result<(), StoreError> {
    let cannot = || StoreError::system("write", file);
    let mut archive = Builder::new(GzEncoder::new(to, Compression::default()));
    for run in runs {
        let name = run.file_name().unwrap_or_default().to_string_lossy();
        if !run.join(RUN).is_file() {
            return Err(StoreError::NotARun { path: run.clone() });
        }
        if is_locked(run).map_err(StoreError::system("read", run))? {
            return Err(StoreError::StillRunning { path: run.clone() });
        }
        let mut files = vec![RUN.to_owned()];
        let beside = [CHECKSUMS, REQUESTS, LABELS].iter();
        files.extend(
            beside
                .map(|&name| name.to_owned())
                .filter(|name| run.join(name).exists()),
        );
        files.extend(seal::names(run)?);
        let changed = match facts {
            ShownFacts::Full => Vec::new(),
            ShownFacts::Brief => brief::files(run)?,
        };
        for path in &files {
            let new = changed.iter().find(|(name, _)| name == path);
            if let Some((_, None)) = new {
                continue;
            }
            let mut content = regular::open(&run.join(path))?;
            let about = (content.metadata()).map_err(StoreError::system("read", run))?;
            let mut header = Header::new_gnu();
            // no metadata of the user who made it
            header.set_metadata_in_mode(&about, tar::HeaderMode::Deterministic);
            header.set_mode(0o644);
            if let Some((_, Some(bytes))) = new {
                header.set_size(bytes.len() as u64);
                let path = format!("{name}/{path}");
                archive
                    .append_data(&mut header, path, &bytes[..])
                    .map_err(cannot())?;
                continue;
            }
            header.set_size(about.len());
            // a file that grows during the export would shift everything after it
            let content = (&mut content).take(about.len());
            let path = format!("{name}/{path}");
            archive
                .append_data(&mut header, path, content)
                .map_err(cannot())?;
        }
    }
    let compressed = archive.into_inner().map_err(cannot())?;
    compressed
        .finish()
        .map_err(cannot())?
        .flush()
        .map_err(cannot())
}

/// Imports the runs of an archive, all or none, and returns their directories.
///
/// # Errors
/// [`StoreError::BadArchive`], [`StoreError::IdTaken`] if such a run exists,
/// [`StoreError::System`].
pub fn import_runs(root: &Path, from: impl Read, file: &Path) -> Result<Vec<PathBuf>, StoreError> {
    fs::create_dir_all(root).map_err(StoreError::system("create", root))?;
    let mut staged = Staged::default();
    let bad = |cause: String| StoreError::BadArchive {
        path: file.to_owned(),
        reason: cause,
    };
    let unreadable = |error: io::Error| bad(format!("it cannot be read: {error}"));
    let limits = Rc::new(Limits::default());
    let mut archive = Archive::new(Limited {
        from: GzDecoder::new(from),
        limits: limits.clone(),
    });
    let mut entries = archive.entries().map_err(unreadable)?;
    loop {
        limits.part.set(MOST_HEADER_BYTES);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(unreadable)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let run = path.split('/').next().unwrap_or_default().to_owned();
        match entry.header().entry_type() {
            EntryType::Directory => continue,
            EntryType::Regular if is_run_path(&path) => {}
            EntryType::Regular => {
                return Err(bad(format!(
                    "`{}` is not a file of a run",
                    path.escape_debug()
                )));
            }
            _ => {
                let cause = format!("`{}` is not a regular file", path.escape_debug());
                return Err(bad(cause));
            }
        }
        limits.part.set(entry.size());
        staged.begin(root, &run)?;
        let to = root.join(format!("{NEW_PREFIX}{path}"));
        copy(&mut entry, &to).map_err(|error| match error.raw_os_error() {
            Some(_) => StoreError::system("write", &to)(error),
            None => unreadable(error),
        })?;
    }
    if staged.runs.is_empty() {
        return Err(bad("there is no run in it".into()));
    }
    for run in &staged.runs {
        let stored =
            load(&root.join(format!("{NEW_PREFIX}{run}"))).map_err(|error| match error {
                newer @ StoreError::Newer { .. } => newer,
                error => bad(format!("{run} cannot be read: {error}")),
            })?;
        if let Some(cause) = changes_since_end(&stored) {
            return Err(bad(format!("{run} is not as it was written: {cause}")));
        }
    }
    staged.publish(root)
}

/// How much may still be read of an archive.
struct Limits {
    /// In total.
    all: Cell<u64>,
    /// Of the headers of an entry, or of its content.
    part: Cell<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            all: Cell::new(MOST_BYTES),
            part: Cell::new(MOST_HEADER_BYTES),
        }
    }
}

/// A reader that fails if an archive exceeds its limits. Sizes in headers are not trusted.
struct Limited<R> {
    from: R,
    limits: Rc<Limits>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Limits { all, part } = &*self.limits;
        let most = to.len().min(1 << 20) as u64;
        let most = most.min(all.get()).min(part.get());
        if most == 0 && !to.is_empty() {
            return Err(io::Error::other(match all.get() {
                0 => format!("it holds more than {} GiB", MOST_BYTES >> 30),
                _ => format!(
                    "the headers of an entry take more than {} MiB",
                    MOST_HEADER_BYTES >> 20
                ),
            }));
        }
        let read = self.from.read(&mut to[..most as usize])?;
        all.set(all.get() - read as u64);
        part.set(part.get() - read as u64);
        Ok(read)
    }
}

/// Returns how the run differs from what was written when it ended. A run that never ended is not a
/// fault of the archive.
fn changes_since_end(stored: &StoredRun) -> Option<String> {
    stored.changed_files().into_iter().next()
}

/// Returns true for `RUN/file` or deeper, without a hidden name in the place of a run.
fn is_run_path(path: &str) -> bool {
    let Some((run, file)) = path.split_once('/') else {
        return false;
    };
    is_relative_inside(path) && !run.starts_with('.') && !file.starts_with('.')
}

fn copy(entry: &mut Entry<'_, impl Read>, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    // a duplicate name would replace the content of the first
    io::copy(entry, &mut File::create_new(to)?)?;
    Ok(())
}

/// Runs that are not visible yet; if dropped, they are removed.
#[derive(Debug, Default)]
struct Staged {
    runs: BTreeSet<String>,
    directories: Vec<PathBuf>,
}

impl Staged {
    fn begin(&mut self, root: &Path, run: &str) -> Result<(), StoreError> {
        if self.runs.contains(run) {
            return Ok(());
        }
        if is_taken(root, run) {
            return Err(StoreError::IdTaken {
                path: root.join(run),
            });
        }
        let dir = root.join(format!("{NEW_PREFIX}{run}"));
        fs::create_dir(&dir).map_err(StoreError::system("create", &dir))?;
        self.runs.insert(run.to_owned());
        self.directories.push(dir);
        Ok(())
    }

    fn publish(mut self, root: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let mut published = Vec::new();
        for dir in &self.directories {
            sync_tree(dir)?;
        }
        for run in std::mem::take(&mut self.runs) {
            let (from, to) = (root.join(format!("{NEW_PREFIX}{run}")), root.join(&run));
            if to.symlink_metadata().is_ok() {
                return Err(StoreError::IdTaken { path: to });
            }
            fs::rename(&from, &to).map_err(StoreError::system("create", &to))?;
            published.push(to);
        }
        Ok(published)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for dir in &self.directories {
            // if this fails, a later listing removes the rest
            let _ = remove_tree(dir);
        }
    }
}
