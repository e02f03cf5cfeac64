//! Replaces what was derived of a run that has ended: its result, its page, and then the list of checksums.
//!
//! It derives nothing itself. What was measured is never touched, and a run in which anything measured has changed is left as it is: new
//! checksums would hide that. Start with [`rebuild`].

use fwdlab_model::result::Summary;

use crate::error::StoreError;
use crate::files::{CHECKSUMS, REPORT, SUMMARY, replace, replace_json, take_lock};
use crate::{StoredRun, seal};

/// Writes this result and this page in place of those that the run has. Stopped at any instant, it can be done again.
///
/// # Errors
/// [`StoreError::StillRunning`]; [`StoreError::Damaged`] when anything else of it is not what was written; [`StoreError::System`].
pub fn rebuild(run: &StoredRun, summary: &Summary, report_html: &str) -> Result<(), StoreError> {
    let dir = &run.path;
    let damaged = |why: String| StoreError::Damaged {
        path: dir.clone(),
        why,
    };
    // held until the end: nobody goes on with the run meanwhile
    let _lock = take_lock(dir).map_err(|_| StoreError::StillRunning { path: dir.clone() })?;
    if !run.is_protected {
        return Err(damaged(
            "it was written before there were checksums: nobody knows whether it is whole".into(),
        ));
    }
    let is_derived = |name: &str| [SUMMARY, REPORT].contains(&name);
    let changed = run.changes();
    let measured = changed.iter().find(|change| !is_derived(&change.name));
    let told = measured.map(|change| change.told.clone());
    if let Some(why) = told.or_else(|| run.problems.first().cloned()) {
        return Err(damaged(why));
    }
    replace_json(&dir.join(SUMMARY), summary)?;
    replace(&dir.join(REPORT), report_html.as_bytes(), true)?;
    replace(&dir.join(CHECKSUMS), seal::list(dir)?.as_bytes(), true)
}
