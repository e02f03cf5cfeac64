//! Removes a run, completely or not at all.
//!
//! The run is first renamed to a hidden name, in one step; only then are its files deleted. If this
//! is interrupted, the next listing completes it. Start with [`remove`].

use std::fs;
use std::path::Path;

use jiff::Timestamp;

use crate::error::StoreError;
use crate::files::{TRASH_PREFIX, is_locked, remove_tree};
use crate::id::RunId;
use crate::index::is_run;

/// Removes the run in a directory, damaged or not.
///
/// # Errors
/// [`StoreError::StillRunning`] while a process writes it, [`StoreError::NotARun`] for another
/// directory, [`StoreError::System`].
pub fn remove(run: &Path) -> Result<(), StoreError> {
    let cannot = |source| StoreError::system("remove", run)(source);
    let (Some(root), Some(name)) = (run.parent(), run.file_name()) else {
        return Err(StoreError::NotARun {
            path: run.to_owned(),
        });
    };
    let name = name.to_string_lossy();
    if !run.symlink_metadata().map_err(cannot)?.is_dir() || !is_run(root, &name) {
        return Err(StoreError::NotARun {
            path: run.to_owned(),
        });
    }
    if is_locked(run).map_err(cannot)? {
        return Err(StoreError::StillRunning {
            path: run.to_owned(),
        });
    }
    // a later listing recognises a left-over by its name, and a copy of a run may have any name
    let hidden = match RunId::suffix_of(&name) {
        Some(_) => name.into_owned(),
        None => RunId::new(Timestamp::UNIX_EPOCH, &name, 0).into(),
    };
    let trash = root.join(format!("{TRASH_PREFIX}{hidden}"));
    if is_locked(&trash).map_err(cannot)? {
        return Err(StoreError::StillRunning { path: trash });
    }
    remove_tree(&trash).map_err(cannot)?;
    fs::rename(run, &trash).map_err(cannot)?;
    remove_tree(&trash).map_err(cannot)
}
