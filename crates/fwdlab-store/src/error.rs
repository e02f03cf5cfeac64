//! Errors of stored runs: what was tried, on which path, the system's answer, what to do next.
//!
//! Damage inside a run that leaves the rest readable is not an error, but a text in the run's list
//! of problems. Start with [`StoreError`]; every message is complete on its own.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run could not be kept, found, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file of a run is damaged, so that what identifies its host cannot be removed.
    #[error("{} is damaged, so what it reveals about its host is not known; see fwdlab runs verify, or export all of it with --facts full", path.display())]
    NotBrief {
        /// The file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {item} {}: {source}{}", path.display(), advice(source))]
    System {
        /// What was tried: `append to`.
        item: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A record has no JSON form.
    #[error("cannot write a record to {}: {source}", path.display())]
    Record {
        /// The file it was for.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// The id is taken; use another one ([`crate::RunId::free`]).
    #[error("a run {} exists already", path.display())]
    IdTaken {
        /// Its directory.
        path: PathBuf,
    },
    /// The name is not valid for a file of the run.
    #[error("cannot store {item} under the name `{name}`: {reason}")]
    BadName {
        /// The kind of file.
        item: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A newer program wrote it.
    #[error(
        "{} has format {found}; this program reads formats up to {supported}. A newer version of the program reads it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// [`fwdlab_model::version::RUN_FORMAT`].
        supported: u32,
    },
    /// A file that is required for reading the run is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
    /// The directory is not a run.
    #[error("{} is not a run: it has no run.json", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// No run has this name.
    #[error("no run is called `{name}`: {there_is}")]
    NoSuchRun {
        /// What was typed.
        name: String,
        /// The number of runs, their directory, and the newest of them.
        there_is: String,
    },
    /// More than one run has this name.
    #[error("`{name}` is ambiguous, it matches {} runs: {}", candidates.len(), candidates.join(", "))]
    Ambiguous {
        /// What was typed.
        name: String,
        /// Ids of the runs, the newest first.
        candidates: Vec<String>,
    },
    /// A tag or a note is invalid.
    #[error("`{}` is not a valid label of a run: {reason}", text.escape_debug())]
    BadLabel {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The run cannot be removed or changed while it is running.
    #[error("{} is still running: stop it first (its process holds {}/.lock)", path.display(), path.display())]
    StillRunning {
        /// Its directory.
        path: PathBuf,
    },
    /// A run that has ended does not take requests.
    #[error("{} is not running and takes no more requests", path.display())]
    NotRunning {
        /// Its directory.
        path: PathBuf,
    },
    /// The file contains no runs, or damaged ones.
    #[error("no run was imported from {}: {reason}. An archive of runs is made with: fwdlab runs export RUN", path.display())]
    BadArchive {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no directory for runs.
    #[error(
        "no directory for runs: neither HOME nor XDG_DATA_HOME is set. Name one with --runs DIR or FWDLAB_RUNS"
    )]
    NoRoot,
}

impl StoreError {
    /// For `map_err`: adds what was tried, and on which path.
    pub fn system<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> StoreError + 'a {
        move |source| StoreError::System {
            item: what,
            path: path.to_owned(),
            source,
        }
    }
}

/// Returns what to try next, for errors that a user can fix.
fn advice(error: &io::Error) -> &'static str {
    use io::ErrorKind::{
        PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull, Unsupported,
    };
    match error.kind() {
        StorageFull | QuotaExceeded => {
            ". Free some space there, or store runs elsewhere with --runs DIR"
        }
        ReadOnlyFilesystem | PermissionDenied => {
            ". Store runs in a writable directory, with --runs DIR"
        }
        Unsupported => ". Store runs on a local file system, with --runs DIR",
        _ => "",
    }
}
