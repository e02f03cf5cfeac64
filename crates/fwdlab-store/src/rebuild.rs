//! Replaces the derived files of a finished run: its result, its page, and then the list of
//! checksums.
//!
//! It derives nothing itself. Measured data is never touched, and a run with changes in measured
//! data is not rebuilt, because new checksums would hide them. Start with [`rebuild`].

use fwdlab_model::result::Summary;

use crate::error::StoreError;
use crate::files::{CHECKSUMS, REPORT, SUMMARY, replace, replace_json, take_lock};
use crate::{StoredRun, seal};

/// Replaces the run's result and page. If it is interrupted at any point, it can be repeated.
///
/// # Errors
/// [`StoreError::StillRunning`]; [`StoreError::Damaged`] if any other file has changed;
/// [`StoreError::System`].
pub fn rebuild(run: &StoredRun, summary: &Summary, report_html: &str) -> Result<(), StoreError> {
    let dir = &run.path;
    let damaged = |cause: String| StoreError::Damaged {
        path: dir.clone(),
        reason: cause,
    };
    // held until the end, so that nobody continues the run meanwhile
    let _lock = take_lock(dir)?;
    if !run.is_protected {
        return Err(damaged(
            "it was written before there were checksums, so damage cannot be detected".into(),
        ));
    }
    let is_derived = |name: &str| [SUMMARY, REPORT].contains(&name);
    let changed = run.changes();
    let measured = changed.iter().find(|change| !is_derived(&change.name));
    let reported = measured.map(|change| change.description.clone());
    if let Some(cause) = reported.or_else(|| run.problems.first().cloned()) {
        return Err(damaged(cause));
    }
    replace_json(&dir.join(SUMMARY), summary)?;
    replace(&dir.join(REPORT), report_html.as_bytes(), true)?;
    replace(&dir.join(CHECKSUMS), seal::list(dir)?.as_bytes(), true)
}
