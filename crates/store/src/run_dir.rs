//! Writes one run while it goes on; everything that was handed over survives the process.
//!
//! It does not read (see [`crate::StoredRun`]) and does not decide what is worth keeping, except that progress is not.
//! Start with [`RunWriter::create`]; a writer that is dropped without [`RunWriter::finish`] leaves an interrupted run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use model::event::{Event, EventKind};
use model::result::{RunInfo, RunState, Summary};
use serde::Serialize;

use crate::error::StoreError;
use crate::files::{
    EVENTS, INPUTS, Journal, NEW_PREFIX, RAW, REPORT, RUN, SUMMARY, TRIALS, file_name_of,
    remove_tree, replace, replace_json, stays_inside, sync_tree, take_lock,
};

/// The directory of a run that goes on. One process writes a run, any number may read it meanwhile.
///
/// The kernel says whether the run still runs, by a lock that ends with this process; children forked without exec share
/// it and must not outlive the run.
#[derive(Debug)]
pub struct RunWriter {
    dir: PathBuf,
    events: Journal,
    trials: Journal,
    _lock: File,
}

impl RunWriter {
    /// Makes `root/<info.id>/`, and `root` where it is missing. `info.state` should be [`RunState::Running`].
    ///
    /// The directory appears under its name with everything in it that a run has, lock held.
    ///
    /// # Errors
    /// [`StoreError::IdTaken`] when there is such a run: choose another id. [`StoreError::System`] with the path.
    pub fn create(root: &Path, info: &RunInfo) -> Result<RunWriter, StoreError> {
        if !stays_inside(&info.id) || info.id.contains('/') || info.id.starts_with('.') {
            return Err(StoreError::BadName {
                what: "a run",
                name: info.id.clone(),
                why: "an id is the name of a directory",
            });
        }
        fs::create_dir_all(root).map_err(StoreError::system("create", root))?;
        let dir = root.join(&info.id);
        let taken = |error: &io::Error| {
            use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty};
            matches!(error.kind(), AlreadyExists | DirectoryNotEmpty)
        };
        let staging = root.join(format!("{NEW_PREFIX}{}", info.id));
        if let Err(source) = fs::create_dir(&staging) {
            return Err(if taken(&source) {
                StoreError::IdTaken { path: dir }
            } else {
                StoreError::system("create", &dir)(source)
            });
        }
        let fill = || {
            let lock = take_lock(&staging)?;
            for name in [INPUTS, RAW] {
                let path = staging.join(name);
                fs::create_dir(&path).map_err(StoreError::system("create", &path))?;
            }
            let events = Journal::create(&staging, &dir, EVENTS)?;
            let trials = Journal::create(&staging, &dir, TRIALS)?;
            replace_json(&staging.join(RUN), info)?;
            // Fails on an existing run, because no run is an empty directory.
            match fs::rename(&staging, &dir) {
                Ok(()) => Ok(RunWriter {
                    dir: dir.clone(),
                    events,
                    trials,
                    _lock: lock,
                }),
                Err(source) if taken(&source) => Err(StoreError::IdTaken { path: dir.clone() }),
                Err(source) => Err(StoreError::system("create", &dir)(source)),
            }
        };
        fill().inspect_err(|_| {
            // What is left when this fails too is removed by the next listing.
            let _ = remove_tree(&staging);
        })
    }

    /// The run's directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Journals an event, except progress, which nobody needs afterwards.
    ///
    /// # Errors
    /// [`StoreError::System`]; the event is then not in the journal, and later ones can be.
    pub fn event(&mut self, event: &Event) -> Result<(), StoreError> {
        match event.kind {
            EventKind::Progress { .. } => Ok(()),
            _ => self.events.append(event),
        }
    }

    /// Keeps the record of a trial ([`model::result::TrialRecord`]) or rebuild ([`model::event::RebuildRecord`]).
    ///
    /// # Errors
    /// As [`RunWriter::event`].
    pub fn trial(&mut self, record: &impl Serialize) -> Result<(), StoreError> {
        self.trials.append(record)
    }

    /// Keeps a file of raw data under `raw/<test case>/<iteration>/<name>`, replacing an earlier one.
    ///
    /// # Errors
    /// [`StoreError::BadName`] when `name` is not the name of a file, [`StoreError::System`].
    pub fn raw(
        &self,
        test_case: &str,
        iteration: u32,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        if name.contains('/') || !stays_inside(name) {
            return Err(StoreError::BadName {
                what: "raw data",
                name: name.to_owned(),
                why: "it must be the name of a file",
            });
        }
        self.keep(&raw_path(&self.dir, test_case, iteration, name), bytes)
    }

    /// Keeps an input verbatim under `inputs/<name>`; `name` may be a path such as `fw/etc/nftables.conf`.
    ///
    /// # Errors
    /// [`StoreError::BadName`] when the path would leave `inputs/` or is there already, [`StoreError::System`].
    pub fn input(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let bad = |why| StoreError::BadName {
            what: "an input",
            name: name.to_owned(),
            why,
        };
        if !stays_inside(name) {
            return Err(bad("it must be a relative path without `..`"));
        }
        let path = self.dir.join(INPUTS).join(name);
        if path.exists() {
            return Err(bad("another input of the run has it"));
        }
        self.keep(&path, bytes)
    }

    fn keep(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let dir = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(dir).map_err(StoreError::system("create", dir))?;
        // Not durable yet: `finish` brings everything to the disk at once, outside any measurement.
        replace(path, bytes, false)
    }

    /// Ends the run: writes what was derived, brings everything to the disk, and only then says so in `run.json`.
    ///
    /// `info` is the run's head as it stands now, with its final state and the time.
    ///
    /// # Errors
    /// [`StoreError::System`], such as a full disk: what was kept before is intact, and `run.json` then says that the run
    /// failed and why, if even that can be written.
    pub fn finish(
        self,
        info: &RunInfo,
        summary: Option<&Summary>,
        report_html: Option<&str>,
    ) -> Result<(), StoreError> {
        self.derived(summary, report_html).inspect_err(|error| {
            let failed = RunInfo {
                state: RunState::Failed,
                error: Some(error.to_string()),
                ..info.clone()
            };
            // The caller gets the first error, which is the cause of this one.
            let _ = replace_json(&self.dir.join(RUN), &failed);
        })?;
        replace_json(&self.dir.join(RUN), info)
    }

    fn derived(
        &self,
        summary: Option<&Summary>,
        report_html: Option<&str>,
    ) -> Result<(), StoreError> {
        if let Some(summary) = summary {
            replace_json(&self.dir.join(SUMMARY), summary)?;
        }
        if let Some(html) = report_html {
            replace(&self.dir.join(REPORT), html.as_bytes(), true)?;
        }
        sync_tree(&self.dir)
    }
}

/// Where a file of raw data lies.
pub(crate) fn raw_path(dir: &Path, test_case: &str, iteration: u32, name: &str) -> PathBuf {
    dir.join(RAW)
        .join(file_name_of(test_case))
        .join(iteration.to_string())
        .join(name)
}
