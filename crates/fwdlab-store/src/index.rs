//! Which runs there are: the newest first, each with its state and its result.
//!
//! It loads no trials, and nothing it meets stops it: a damaged run or a foreign directory is listed with what is wrong.
//! Hidden directories, files and symbolic links are passed over. Start with [`list`].
//!
//! Note: every listing reads the heads and summaries of all runs: 70 ms for a thousand runs in a debug build
//! (`a_thousand_runs_are_listed` in the tests). An index in a database would have to be kept true against people who copy
//! and delete directories; it can wait until such a measurement asks for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fwdlab_model::import::{KIND, MEASURED_AT};
use fwdlab_model::result::{RunInfo, RunState, Summary};
use jiff::Timestamp;

use crate::error::StoreError;
use crate::files::{RUN, TRASH_PREFIX, is_left_over, is_locked, remove_tree};
use crate::id::RunId;
use crate::labels::{Labels, labels};
use crate::read::{Head, head, summary};

/// A run that is being created for longer than this has lost its process.
const CREATION_TIME: Duration = Duration::from_secs(60);

/// One line of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEntry {
    /// Name of its directory, which is the id of the run.
    pub id: String,
    /// Its directory.
    pub path: PathBuf,
    /// The head of the run, as written; absent where it cannot be read: the problems say why.
    pub info: Option<RunInfo>,
    /// How it stands now, as [`crate::StoredRun::state`].
    pub state: Option<RunState>,
    /// When it began: of an imported run, when it was imported.
    pub started_at: Option<Timestamp>,
    /// When it was measured: of an imported run what its archive says, if it does.
    pub measured_at: Option<Timestamp>,
    /// The result, if there is one.
    pub summary: Option<Summary>,
    /// What people say of it.
    pub labels: Labels,
    /// What is missing or damaged, in sentences.
    pub problems: Vec<String>,
}

/// All runs in `root`, the newest first, what cannot be dated last. No such directory: no runs.
///
/// Removes what a killed process left of runs that it was creating or removing.
///
/// # Errors
/// [`StoreError::System`] when the directory itself cannot be read.
pub fn list(root: &Path) -> Result<Vec<RunEntry>, StoreError> {
    let mut entries: Vec<_> = names(root)?.into_iter().map(|id| entry(root, id)).collect();
    entries.sort_by(|a, b| (b.started_at, &b.id).cmp(&(a.started_at, &a.id)));
    Ok(entries)
}

fn entry(root: &Path, id: String) -> RunEntry {
    let path = root.join(&id);
    let mut entry = RunEntry {
        id,
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
            entry.summary = summary(&entry.path, &info, state, is_protected, problems);
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

/// Names of all directories in `root`, hidden ones left out, the latest date first.
pub(crate) fn names(root: &Path) -> Result<Vec<String>, StoreError> {
    let directory = match fs::read_dir(root) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::system("read", root)(error)),
    };
    let mut names = Vec::new();
    for entry in directory {
        let entry = entry.map_err(StoreError::system("read", root))?;
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_left_over(&name) {
            clean(&entry.path(), &name);
        } else if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort_by(|a, b| b.cmp(a));
    Ok(names)
}

/// Could it be meant when somebody names a run? Foreign directories never are.
pub(crate) fn is_run(root: &Path, name: &str) -> bool {
    RunId::suffix_of(name).is_some() || root.join(name).join(RUN).is_file()
}

/// Removes a left-over, if it is one; where that fails (a read-only directory), the next listing tries again.
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

/// When the first series of an imported run was measured.
fn measured_at(info: &RunInfo) -> Option<Timestamp> {
    info.parameters.get(MEASURED_AT)?.as_str()?.parse().ok()
}
