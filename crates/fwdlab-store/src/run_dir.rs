//! Writes one run in progress; everything passed to it survives the process.
//!
//! It does not read (see [`crate::StoredRun`]) and does not select what to keep, except progress
//! events. Start with [`RunWriter::create`]; a writer that is dropped without [`RunWriter::finish`]
//! leaves an interrupted run.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fwdlab_model::event::{Event, EventKind};
use fwdlab_model::hook::HookRecord;
use fwdlab_model::latency::Bucket;
use fwdlab_model::result::{RunInfo, RunState, Summary};
use fwdlab_model::telemetry::Record;
use serde::Serialize;

use crate::error::StoreError;
use crate::files::{
    CHECKSUMS, EVENTS, HOOKS, INPUTS, Journal, LATENCY, NEW_PREFIX, RAW, REPORT, RESERVE, RUN,
    SUMMARY, TELEMETRY, TRIALS, file_name_of, is_relative_inside, json, remove_tree, replace,
    replace_json, sync_tree, take_lock,
};
use crate::read::{StoredRun, head, load};
use crate::{hdr, regular, seal};

/// Space for the last event, the list of checksums and the header of a run: with all facts of a
/// host a header needs a tenth of it.
const RESERVE_BYTES: u64 = 64 << 10;

/// Interval of progress events in the journal, in seconds: a campaign of a week has 60 MB of them.
const PROGRESS_S: f64 = 1.0;

/// The directory of a run in progress. One process writes a run, any number may read it meanwhile.
///
/// A lock shows whether the run is still running; the kernel releases it when this process ends.
/// Children forked without exec share it and must not outlive the run.
#[derive(Debug)]
pub struct RunWriter {
    dir: PathBuf,
    events: Journal,
    trials: Journal,
    /// Created with the first reading.
    telemetry: Option<Journal>,
    /// Created with the first hook.
    hooks: Option<Journal>,
    /// Time of the last progress event in the journal, in the time of the run.
    progress: f64,
    _lock: File,
}

impl RunWriter {
    /// Creates `root/<info.id>/`, and `root` if it is missing. `info.state` should be
    /// [`RunState::Running`].
    ///
    /// The directory appears under its name with all files of a run and the lock held.
    ///
    /// # Errors
    /// [`StoreError::IdTaken`] if there is such a run: choose another id. [`StoreError::System`]
    /// with the path.
    pub fn create(root: &Path, info: &RunInfo) -> Result<RunWriter, StoreError> {
        if !is_relative_inside(&info.id) || info.id.contains('/') || info.id.starts_with('.') {
            return Err(StoreError::BadName {
                item: "a run",
                name: info.id.clone(),
                reason: "an id is the name of a directory",
            });
        }
        fs::create_dir_all(root).map_err(StoreError::system("create", root))?;
        let dir = root.join(&info.id);
        let staging = root.join(format!("{NEW_PREFIX}{}", info.id));
        if let Err(source) = fs::create_dir(&staging) {
            return Err(if is_taken(&source) {
                StoreError::IdTaken { path: dir }
            } else {
                StoreError::system("create", &dir)(source)
            });
        }
        let make = || {
            let mut writer = fill(&staging, &dir, info, true)?;
            rename(&staging, &dir)?;
            writer.dir.clone_from(&dir);
            Ok(writer)
        };
        make().inspect_err(|_| {
            // If this fails, too, the next listing removes the rest.
            let _ = remove_tree(&staging);
        })
    }

    /// Opens an unfinished run to continue it, and returns its contents. Only removes an incomplete
    /// last line; [`RunWriter::go_on`] then marks it as running again.
    ///
    /// # Errors
    /// [`StoreError::StillRunning`] if a process writes it; [`StoreError::Damaged`] if its contents
    /// have changed, so that the remaining work is unknown; [`StoreError::System`].
    pub fn reopen(dir: &Path) -> Result<(RunWriter, StoredRun), StoreError> {
        // a copy without hidden files has no lock, and a directory that is not a run must not get
        // one
        head(dir)?;
        let lock = take_lock(dir)?;
        let events = Journal::reopen(dir, EVENTS)?;
        let trials = Journal::reopen(dir, TRIALS)?;
        let reopened = |name| match dir.join(name).exists() {
            true => Journal::reopen(dir, name).map(Some),
            false => Ok(None),
        };
        let (telemetry, hooks) = (reopened(TELEMETRY)?, reopened(HOOKS)?);
        let stored = load(dir)?;
        if let Some(cause) = stored.problems.first() {
            return Err(StoreError::Damaged {
                path: dir.to_owned(),
                reason: cause.clone(),
            });
        }
        let writer = RunWriter {
            dir: dir.to_owned(),
            events,
            trials,
            telemetry,
            hooks,
            progress: f64::NEG_INFINITY,
            _lock: lock,
        };
        Ok((writer, stored))
    }

    /// Marks a reopened run as running, with this header, and removes what was derived at an
    /// earlier end.
    ///
    /// # Errors
    /// [`StoreError::System`], such as a full disk; it can be opened again.
    pub fn go_on(&self, info: &RunInfo) -> Result<(), StoreError> {
        self.head(info)?;
        for name in [CHECKSUMS, SUMMARY, REPORT, RESERVE] {
            let path = self.dir.join(name);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::system("remove", &path)(source));
                }
                _ => {}
            }
        }
        reserve(&self.dir.join(RESERVE))
    }

    /// Replaces the header of the run.
    ///
    /// # Errors
    /// [`StoreError::System`], such as a full disk.
    pub fn head(&self, info: &RunInfo) -> Result<(), StoreError> {
        replace_json(&self.dir.join(RUN), info)
    }

    /// Returns a file of raw data that [`RunWriter::raw`] kept.
    ///
    /// # Errors
    /// [`StoreError::System`].
    pub fn kept_raw(&self, test_case: &str, trial: u32, name: &str) -> Result<Vec<u8>, StoreError> {
        let path = raw_path(&self.dir, test_case, trial, name);
        regular::read_io(&path).map_err(StoreError::system("read", &path))
    }

    /// Returns an input, if there is one with this name.
    ///
    /// # Errors
    /// [`StoreError::System`].
    pub fn kept_input(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.dir.join(INPUTS).join(name);
        match regular::read_io(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::system("read", &path)(error)),
        }
    }

    /// Creates a run that appears only when it is complete, together with others
    /// ([`StagedRun::finish`], [`publish`]).
    ///
    /// # Errors
    /// As [`RunWriter::create`].
    pub fn stage(root: &Path, info: &RunInfo) -> Result<StagedRun, StoreError> {
        let dir = root.join(&info.id);
        let staging = root.join(format!("{NEW_PREFIX}{}", info.id));
        fs::create_dir_all(root).map_err(StoreError::system("create", root))?;
        match fs::create_dir(&staging) {
            Ok(()) if dir.symlink_metadata().is_err() => {}
            Ok(()) => {
                let _ = remove_tree(&staging);
                return Err(StoreError::IdTaken { path: dir });
            }
            Err(source) if is_taken(&source) => return Err(StoreError::IdTaken { path: dir }),
            Err(source) => return Err(StoreError::system("create", &staging)(source)),
        }
        let writer = fill(&staging, &staging, info, false).inspect_err(|_| {
            let _ = remove_tree(&staging);
        })?;
        Ok(StagedRun {
            writer,
            dir,
            published: false,
        })
    }

    /// Returns the run's directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Appends an event to the journal; of progress events, which come several times a second, only
    /// one per second.
    ///
    /// # Errors
    /// [`StoreError::System`]; then the event is not in the journal, but later ones may be.
    pub fn event(&mut self, event: &Event) -> Result<(), StoreError> {
        if let EventKind::Progress { .. } = event.kind {
            if event.t - self.progress < PROGRESS_S {
                return Ok(());
            }
            self.progress = event.t;
        }
        self.events.append(event)
    }

    /// Appends the record of a trial ([`fwdlab_model::result::TrialRecord`]), a rebuild
    /// ([`fwdlab_model::event::RebuildRecord`]), or a boot
    /// ([`fwdlab_model::instructions::BootRecord`]).
    ///
    /// # Errors
    /// As [`RunWriter::event`].
    pub fn trial(&mut self, record: &impl Serialize) -> Result<(), StoreError> {
        self.trials.append(record)
    }

    /// Appends a reading of the DUT's host around a trial.
    ///
    /// # Errors
    /// As [`RunWriter::event`].
    pub fn telemetry(&mut self, record: &Record) -> Result<(), StoreError> {
        let journal = match &mut self.telemetry {
            Some(journal) => journal,
            none => none.insert(Journal::create(&self.dir, &self.dir, TELEMETRY)?),
        };
        journal.append(record)
    }

    /// Appends the result of a hook.
    ///
    /// # Errors
    /// As [`RunWriter::event`].
    pub fn hook(&mut self, record: &HookRecord) -> Result<(), StoreError> {
        let journal = match &mut self.hooks {
            Some(journal) => journal,
            none => none.insert(Journal::create(&self.dir, &self.dir, HOOKS)?),
        };
        journal.append(record)
    }

    /// Replaces the records of all trials: some criteria for judging them may be known only at the
    /// end.
    ///
    /// # Errors
    /// [`StoreError::System`]; then the old records are kept.
    pub fn judged_again(&mut self, records: &[impl Serialize]) -> Result<(), StoreError> {
        self.trials.replace(records)
    }

    /// Keeps a file of raw data under `raw/<test case>/<trial>/<name>`, replacing an earlier one.
    ///
    /// # Errors
    /// [`StoreError::BadName`] if `name` is not the name of a file, [`StoreError::System`].
    pub fn raw(
        &self,
        test_case: &str,
        trial: u32,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        if name.contains('/') || !is_relative_inside(name) {
            return Err(StoreError::BadName {
                item: "raw data",
                name: name.to_owned(),
                reason: "it must be the name of a file",
            });
        }
        self.keep(&raw_path(&self.dir, test_case, trial, name), bytes)
    }

    /// Keeps the delays of the frames of a trial, which began at `began` and lasted `duration`, as
    /// an HDR histogram log: those of each direction, tagged if there are two. Returns its path in
    /// the run's directory; `None` if no frame was timed.
    ///
    /// # Errors
    /// [`StoreError::System`].
    pub fn latencies(
        &self,
        test_case: &str,
        trial: u32,
        (started, duration): (SystemTime, Duration),
        latencies: &[Vec<Bucket>],
    ) -> Result<Option<String>, StoreError> {
        if latencies.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let directions = ["forward", "reverse"].into_iter();
        let intervals: Vec<hdr::Interval<'_>> = directions
            .zip(latencies)
            .map(|(direction, of_one)| hdr::Interval {
                tag: (latencies.len() > 1).then(|| direction.to_owned()),
                start: Duration::ZERO,
                duration,
                latencies: of_one,
            })
            .collect();
        let about = format!("fwdlab: latencies in ns, {test_case}, trial {trial}");
        let log = hdr::log(&about, started, &intervals);
        self.raw(test_case, trial, LATENCY, log.as_bytes())?;
        let path = raw_path(Path::new(""), test_case, trial, LATENCY);
        Ok(Some(path.to_string_lossy().into_owned()))
    }

    /// Keeps an input verbatim under `inputs/<name>`; `name` may be a path such as
    /// `fw/etc/nftables.conf`.
    ///
    /// # Errors
    /// [`StoreError::BadName`] if the path would leave `inputs/` or already exists,
    /// [`StoreError::System`].
    pub fn input(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let bad = |cause| StoreError::BadName {
            item: "an input",
            name: name.to_owned(),
            reason: cause,
        };
        if !is_relative_inside(name) {
            return Err(bad("it must be a relative path without `..`"));
        }
        let path = self.dir.join(INPUTS).join(name);
        if path.exists() {
            return Err(bad("another input of the run has this name"));
        }
        self.keep(&path, bytes)
    }

    fn keep(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let dir = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(dir).map_err(StoreError::system("create", dir))?;
        // Not durable yet: `finish` syncs everything at once, outside any measurement.
        replace(path, bytes, false)
    }

    /// Frees the reserved space: measurements are over, and the disk may be full.
    pub fn make_room(&self) {
        // it may already be gone; if it cannot be removed, no space can be freed
        let _ = fs::remove_file(self.dir.join(RESERVE));
    }

    /// Ends the run: writes the derived files, syncs everything to the disk, and only then updates
    /// `run.json`.
    ///
    /// `info` is the run's current header, with its final state and the time.
    ///
    /// # Errors
    /// [`StoreError::System`], such as a full disk: what was kept before is intact, and `run.json`
    /// then contains the failure. Space for that was reserved when the run began.
    pub fn finish(
        self,
        info: &RunInfo,
        summary: Option<&Summary>,
        report_html: Option<&str>,
    ) -> Result<(), StoreError> {
        let run = self.dir.join(RUN);
        let ended = self
            .derived(summary, report_html)
            .and_then(|()| replace_json(&run, info));
        ended.inspect_err(|error| {
            self.make_room();
            let failed = RunInfo {
                state: RunState::Failed,
                error: Some(error.to_string()),
                ..info.clone()
            };
            // The caller gets the first error, which is the cause of this one.
            let _ = replace_json(&run, &failed);
        })
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
        self.make_room();
        let checksums = seal::list(&self.dir)?;
        replace(&self.dir.join(CHECKSUMS), checksums.as_bytes(), true)?;
        sync_tree(&self.dir)
    }
}

/// A run that is written completely before it is visible: for imports, which come by the hundred
/// and can be repeated. If dropped unpublished, it is removed.
#[derive(Debug)]
pub struct StagedRun {
    writer: RunWriter,
    dir: PathBuf,
    published: bool,
}

impl StagedRun {
    /// Returns the writer for records and inputs.
    pub fn writer(&mut self) -> &mut RunWriter {
        &mut self.writer
    }

    /// Keeps a derived file next to the summary, such as `gnuplot.data`.
    ///
    /// # Errors
    /// [`StoreError::BadName`] if `name` is not the name of a file or is taken,
    /// [`StoreError::System`].
    pub fn derived(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.writer.dir.join(name);
        if name.contains('/') || !is_relative_inside(name) || path.symlink_metadata().is_ok() {
            return Err(StoreError::BadName {
                item: "a derived file",
                name: name.to_owned(),
                reason: "it must be a file name that differs from the run's own files",
            });
        }
        replace(&path, bytes, false)
    }

    /// Writes the derived files. Does not sync: [`publish`] does that for many runs at once.
    ///
    /// # Errors
    /// [`StoreError::System`].
    pub fn finish(
        &self,
        info: &RunInfo,
        summary: &Summary,
        report_html: &str,
    ) -> Result<(), StoreError> {
        let dir = &self.writer.dir;
        replace(
            &dir.join(SUMMARY),
            &json(&dir.join(SUMMARY), summary)?,
            false,
        )?;
        replace(&dir.join(REPORT), report_html.as_bytes(), false)?;
        let checksums = seal::list(dir)?;
        replace(&dir.join(CHECKSUMS), checksums.as_bytes(), false)?;
        replace(&dir.join(RUN), &json(&dir.join(RUN), info)?, false)
    }
}

impl Drop for StagedRun {
    fn drop(&mut self) {
        if !self.published {
            // If this fails, a later listing removes the rest.
            let _ = remove_tree(&self.writer.dir);
        }
    }
}

/// Publishes staged runs, each atomically, after one sync of the file system for all of them.
/// Returns the result for each.
///
/// A sync per file took longer than everything else: a run has ten files, an archive a thousand
/// runs.
pub fn publish(root: &Path, staged: Vec<StagedRun>) -> Vec<Result<PathBuf, StoreError>> {
    let synced = File::open(root).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
    let published = staged
        .into_iter()
        .map(|mut run| {
            if let Err(source) = &synced {
                let source = io::Error::new(source.kind(), source.to_string());
                return Err(StoreError::system("bring to the disk", &run.dir)(source));
            }
            rename(&run.writer.dir, &run.dir)?;
            run.published = true;
            Ok(run.dir.clone())
        })
        .collect();
    if let Ok(dir) = File::open(root) {
        // Only the names are not synced yet; a run that loses its name in a power failure is
        // imported again.
        let _ = dir.sync_all();
    }
    published
}

/// Creates all initial files of a run in a new directory. `dir` is its name by the time of the
/// first append.
fn fill(
    staging: &Path,
    dir: &Path,
    info: &RunInfo,
    durable: bool,
) -> Result<RunWriter, StoreError> {
    let lock = take_lock(staging)?;
    for name in [INPUTS, RAW] {
        let path = staging.join(name);
        fs::create_dir(&path).map_err(StoreError::system("create", &path))?;
    }
    let events = Journal::create(staging, dir, EVENTS)?;
    let trials = Journal::create(staging, dir, TRIALS)?;
    let run = staging.join(RUN);
    replace(&run, &json(&run, info)?, durable)?;
    if durable {
        reserve(&staging.join(RESERVE))?;
    }
    Ok(RunWriter {
        dir: staging.to_owned(),
        events,
        trials,
        telemetry: None,
        hooks: None,
        progress: f64::NEG_INFINITY,
        _lock: lock,
    })
}

/// Reserves space on the disk.
fn reserve(path: &Path) -> Result<(), StoreError> {
    use rustix::fs::{FallocateFlags, fallocate};
    let take = || -> io::Result<()> {
        let mut file = File::create_new(path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
            // on file systems without fallocate, write the bytes
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                file.write_all(&vec![0; RESERVE_BYTES as usize])
            }
            answer => Ok(answer?),
        }
    };
    take().map_err(StoreError::system(
        "reserve space for the final records in",
        path,
    ))
}

/// Renames a directory to the name of its run. Fails on an existing run, because no run is an empty
/// directory.
fn rename(staging: &Path, dir: &Path) -> Result<(), StoreError> {
    match fs::rename(staging, dir) {
        Ok(()) => Ok(()),
        Err(source) if is_taken(&source) => Err(StoreError::IdTaken {
            path: dir.to_owned(),
        }),
        Err(source) => Err(StoreError::system("create", dir)(source)),
    }
}

fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty)
}

/// Returns the path of a file of raw data of a trial, or of a boot, in the directory of a run.
pub fn raw_path(dir: &Path, test_case: &str, trial: u32, name: &str) -> PathBuf {
    dir.join(RAW)
        .join(file_name_of(test_case))
        .join(trial.to_string())
        .join(name)
}
