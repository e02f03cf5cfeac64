//! The list of runs: the newest first, each with its state and its result.
//!
//! It loads no trials and always succeeds: a damaged run or a foreign directory is listed with its
//! problems. Hidden directories, files and symbolic links are skipped. Start with [`list`].
//!
//! Note: every listing reads the headers and summaries of all runs: 0.4 s of CPU time for a
//! thousand campaigns of three iterations. An index in a database would have to be kept consistent
//! while people copy and delete directories. The dashboard keeps lines in memory instead, until
//! [`directories`] tells that a run has changed.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fwdlab_model::import::{KIND, MEASURED_AT};
use fwdlab_model::result::{RunInfo, RunState, SHARDS, Summary};
use jiff::Timestamp;

use crate::error::StoreError;
use crate::files::{RUN, TRASH_PREFIX, is_left_over, is_locked, remove_tree};
use crate::id::RunId;
use crate::labels::{Labels, labels};
use crate::read::{Head, head, summary};
use crate::root::Roots;

/// A run in creation for longer than this has lost its process.
const CREATION_TIME: Duration = Duration::from_secs(60);

/// One line of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEntry {
    /// Name of its directory, which is the id of the run.
    pub id: String,
    /// Its directory.
    pub path: PathBuf,
    /// The header of the run, as written; absent if it cannot be read: the problems contain the
    /// reason.
    pub info: Option<RunInfo>,
    /// Its current state, as [`crate::StoredRun::state`].
    pub state: Option<RunState>,
    /// When it began; for an imported run, when it was imported.
    pub started_at: Option<Timestamp>,
    /// When it was measured; for an imported run from its archive, if known.
    pub measured_at: Option<Timestamp>,
    /// The result, if there is one.
    pub summary: Option<Summary>,
    /// Tags and note of the user.
    pub labels: Labels,
    /// What is missing or damaged, in sentences.
    pub problems: Vec<String>,
}

/// Returns all runs in directories of runs, the newest first, those without a date last. Empty if
/// the directories do not exist.
///
/// Removes what a killed process left of runs that it was creating or removing.
///
/// # Errors
/// [`StoreError::System`] if a directory itself cannot be read.
pub fn list(roots: impl Into<Roots>) -> Result<Vec<RunEntry>, StoreError> {
    listed(&roots.into(), true)
}

/// Returns the same without the results, for which not even their files are read.
///
/// # Errors
/// As [`list`].
pub fn list_heads(roots: impl Into<Roots>) -> Result<Vec<RunEntry>, StoreError> {
    listed(&roots.into(), false)
}

/// Returns the directories of all runs, for [`entry`], in no order, and when each changed last.
///
/// # Errors
/// As [`list`].
pub fn directories(
    roots: impl Into<Roots>,
) -> Result<Vec<(PathBuf, Option<SystemTime>)>, StoreError> {
    let all = found_in(&roots.into())?.into_iter();
    let directory = |(_, entry): (String, DirEntry)| {
        let changed = entry.metadata().and_then(|of| of.modified());
        (entry.path(), changed.ok())
    };
    Ok(all.map(directory).collect())
}

/// Returns the line of one run.
pub fn entry(directory: &Path) -> RunEntry {
    read(directory.to_owned(), true)
}

fn listed(roots: &Roots, with_results: bool) -> Result<Vec<RunEntry>, StoreError> {
    let all = found_in(roots)?.into_iter();
    let all = all.map(|(_, entry)| read(entry.path(), with_results));
    let mut entries: Vec<RunEntry> = all.collect();
    entries.sort_by(|a, b| (listed_at(b), &b.id).cmp(&(listed_at(a), &a.id)));
    Ok(entries)
}

/// Returns the time by which runs are sorted: a joined run began with its first shard, and comes
/// after all of them.
fn listed_at(entry: &RunEntry) -> Option<Timestamp> {
    let info = entry.info.as_ref()?;
    let end = info
        .finished_at
        .as_ref()
        .filter(|_| info.parameters.contains_key(SHARDS));
    end.and_then(|end| end.parse().ok()).or(entry.started_at)
}

fn read(path: PathBuf, with_result: bool) -> RunEntry {
    let id = path.file_name().unwrap_or_default().to_string_lossy();
    let mut entry = RunEntry {
        id: id.into_owned(),
        info: None,
        state: None,
        started_at: None,
        measured_at: None,
        summary: None,
        labels: Labels::default(),
        problems: Vec::new(),
        path,
    };
    match labels(&entry.path) {
        Ok(labels) => entry.labels = labels,
        Err(error) => entry.problems.push(error.to_string()),
    }
    match head(&entry.path) {
        Ok(Head {
            info,
            state,
            problems,
            is_protected,
        }) => {
            entry.problems.extend(problems);
            let problems = &mut entry.problems;
            if with_result {
                entry.summary = summary(&entry.path, &info, state, is_protected, problems);
            }
            entry.started_at = info
                .started_at
                .parse()
                .map_err(|error| entry.problems.push(format!("started_at: {error}")))
                .ok();
            entry.measured_at = match info.kind.as_str() {
                KIND => measured_at(&info),
                _ => entry.started_at,
            };
            entry.state = Some(state);
            entry.info = Some(info);
        }
        Err(error) => entry.problems.push(error.to_string()),
    }
    entry
}

/// Returns the names of all directories in directories of runs, and where they are: each name once,
/// in the first of the directories that have it.
pub(crate) fn names_in(roots: &Roots) -> Result<Vec<(PathBuf, String)>, StoreError> {
    let all = found_in(roots)?.into_iter();
    let place = |(name, entry): (String, DirEntry)| {
        let path = entry.path();
        Some((path.parent()?.to_owned(), name))
    };
    Ok(all.filter_map(place).collect())
}

fn found_in(roots: &Roots) -> Result<Vec<(String, DirEntry)>, StoreError> {
    let mut all: Vec<(String, DirEntry)> = Vec::new();
    for root in roots.all() {
        let known: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
        let own = found(root)?.into_iter();
        all.extend(own.filter(|(name, _)| !known.contains(name)));
    }
    Ok(all)
}

/// Returns all directories in `root` by name, without hidden ones.
fn found(root: &Path) -> Result<Vec<(String, DirEntry)>, StoreError> {
    let directory = match fs::read_dir(root) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::system("read", root)(error)),
    };
    let mut all = Vec::new();
    for entry in directory {
        let entry = entry.map_err(StoreError::system("read", root))?;
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_left_over(&name) {
            clean(&entry.path(), &name);
        } else if !name.starts_with('.') {
            all.push((name, entry));
        }
    }
    Ok(all)
}

/// Returns true if this name can refer to a run. Foreign directories never can.
pub(crate) fn is_run(root: &Path, name: &str) -> bool {
    RunId::suffix_of(name).is_some() || root.join(name).join(RUN).is_file()
}

/// Removes a left-over, if it is one; if that fails (a read-only directory), the next listing tries
/// again.
fn clean(path: &Path, name: &str) {
    let old = || {
        fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > CREATION_TIME))
    };
    let is_free = matches!(is_locked(path), Ok(false));
    if is_free && (name.starts_with(TRASH_PREFIX) || old()) {
        let _ = remove_tree(path);
    }
}

/// Returns when the first series of an imported run was measured.
fn measured_at(info: &RunInfo) -> Option<Timestamp> {
    info.parameters.get(MEASURED_AT)?.as_str()?.parse().ok()
}
