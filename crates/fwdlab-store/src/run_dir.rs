//! Writes one run while it goes on; everything that was handed over survives the process.
//!
//! It does not read (see [`crate::StoredRun`]) and does not decide what is worth keeping, except that progress is not.
//! Start with [`RunWriter::create`]; a writer that is dropped without [`RunWriter::finish`] leaves an interrupted run.

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
    SUMMARY, TELEMETRY, TRIALS, file_name_of, is_locked, json, remove_tree, replace, replace_json,
    stays_inside, sync_tree, take_lock,
};
use crate::read::{StoredRun, head, load};
use crate::{hdr, regular, seal};

/// Room for the last event, the list of checksums and the head of a run: with all facts of a host a head has a tenth of it.
const RESERVE_BYTES: u64 = 64 << 10;

/// Progress is journalled so often: a campaign of a week has 60 MB of it.
const PROGRESS_S: f64 = 1.0;

/// The directory of a run that goes on. One process writes a run, any number may read it meanwhile.
///
/// The kernel says whether the run still runs, by a lock that ends with this process; children forked without exec share
/// it and must not outlive the run.
#[derive(Debug)]
pub struct RunWriter {
    dir: PathBuf,
    events: Journal,
    trials: Journal,
    /// From the first reading on.
    telemetry: Option<Journal>,
    /// From the first hook on.
    hooks: Option<Journal>,
    /// When progress was journalled last, in the time of the run.
    progress: f64,
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
            // What is left when this fails too is removed by the next listing.
            let _ = remove_tree(&staging);
        })
    }

    /// Opens a run that did not come to its end, to go on with it, and says what is kept of it. Nothing of it has changed yet but a last
    /// line that its process was stopped in; [`RunWriter::go_on`] says that it runs again.
    ///
    /// # Errors
    /// [`StoreError::StillRunning`] when a process writes it; [`StoreError::Damaged`] when what is kept is not what was written, so that
    /// nobody could say what is still to do; [`StoreError::System`].
    pub fn reopen(dir: &Path) -> Result<(RunWriter, StoredRun), StoreError> {
        // a copy without hidden files has no lock, and one that is no run gets none
        head(dir)?;
        let lock = take_lock(dir).map_err(|error| match is_locked(dir) {
            Ok(true) => StoreError::StillRunning {
                path: dir.to_owned(),
            },
            _ => error,
        })?;
        let events = Journal::reopen(dir, EVENTS)?;
        let trials = Journal::reopen(dir, TRIALS)?;
        let reopened = |name| match dir.join(name).exists() {
            true => Journal::reopen(dir, name).map(Some),
            false => Ok(None),
        };
        let (telemetry, hooks) = (reopened(TELEMETRY)?, reopened(HOOKS)?);
        let stored = load(dir)?;
        if let Some(why) = stored.problems.first() {
            return Err(StoreError::Damaged {
                path: dir.to_owned(),
                why: why.clone(),
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

    /// Says that a run that was opened again runs, with this head, and takes away what was derived at an earlier end.
    ///
    /// # Errors
    /// [`StoreError::System`], such as a full disk; it can be opened again.
    pub fn go_on(&self, info: &RunInfo) -> Result<(), StoreError> {
        replace_json(&self.dir.join(RUN), info)?;
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

    /// A file of raw data as [`RunWriter::raw`] kept it.
    ///
    /// # Errors
    /// [`StoreError::System`].
    pub fn kept_raw(&self, test_case: &str, trial: u32, name: &str) -> Result<Vec<u8>, StoreError> {
        let path = raw_path(&self.dir, test_case, trial, name);
        regular::read_io(&path).map_err(StoreError::system("read", &path))
    }

    /// An input as it is kept, if there is one of this name.
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

    /// Begins a run that appears only when it is whole, together with others ([`StagedRun::finish`], [`publish`]).
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

    /// The run's directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Journals an event; of progress, which comes several times a second, what is new for those who look on: one a second.
    ///
    /// # Errors
    /// [`StoreError::System`]; the event is then not in the journal, and later ones can be.
    pub fn event(&mut self, event: &Event) -> Result<(), StoreError> {
        if let EventKind::Progress { .. } = event.kind {
            if event.t - self.progress < PROGRESS_S {
                return Ok(());
            }
            self.progress = event.t;
        }
        self.events.append(event)
    }

    /// Keeps the record of a trial ([`fwdlab_model::result::TrialRecord`]), a rebuild ([`fwdlab_model::event::RebuildRecord`]),
    /// or a boot ([`fwdlab_model::instructions::BootRecord`]).
    ///
    /// # Errors
    /// As [`RunWriter::event`].
    pub fn trial(&mut self, record: &impl Serialize) -> Result<(), StoreError> {
        self.trials.append(record)
    }

    /// Keeps a reading of the DUT's host around a trial.
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

    /// Keeps what became of a hook.
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

    /// Replaces the records of all trials: what they are judged by may be known only in the end.
    ///
    /// # Errors
    /// [`StoreError::System`]; the records are then those of before.
    pub fn judged_again(&mut self, records: &[impl Serialize]) -> Result<(), StoreError> {
        self.trials.replace(records)
    }

    /// Keeps a file of raw data under `raw/<test case>/<trial>/<name>`, replacing an earlier one.
    ///
    /// # Errors
    /// [`StoreError::BadName`] when `name` is not the name of a file, [`StoreError::System`].
    pub fn raw(
        &self,
        test_case: &str,
        trial: u32,
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
        self.keep(&raw_path(&self.dir, test_case, trial, name), bytes)
    }

    /// Keeps the delays of the frames of a trial, which began `began` and lasted `duration`, as an HDR histogram log: of each
    /// direction, tagged where there are two. Returns its path in the run's directory; `None` when no frame was timed.
    ///
    /// # Errors
    /// [`StoreError::System`].
    pub fn latencies(
        &self,
        test_case: &str,
        trial: u32,
        (began, duration): (SystemTime, Duration),
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
        let log = hdr::log(&about, began, &intervals);
        self.raw(test_case, trial, LATENCY, log.as_bytes())?;
        let path = raw_path(Path::new(""), test_case, trial, LATENCY);
        Ok(Some(path.to_string_lossy().into_owned()))
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
            return Err(bad("another input of the run has this name"));
        }
        self.keep(&path, bytes)
    }

    fn keep(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let dir = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(dir).map_err(StoreError::system("create", dir))?;
        // Not durable yet: `finish` brings everything to the disk at once, outside any measurement.
        replace(path, bytes, false)
    }

    /// Gives free what was reserved for the last words: nothing more will be measured, and the disk may be full.
    pub fn make_room(&self) {
        // it may be gone already; if it cannot be removed, there is no room that could be made
        let _ = fs::remove_file(self.dir.join(RESERVE));
    }

    /// Ends the run: writes what was derived, brings everything to the disk, and only then says so in `run.json`.
    ///
    /// `info` is the run's head as it stands now, with its final state and the time.
    ///
    /// # Errors
    /// [`StoreError::System`], such as a full disk: what was kept before is intact, and `run.json` then says that the run
    /// failed and why. Room for that was reserved when the run began.
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

/// A run that is written whole before anyone sees it: for runs that were not measured now, which come by the hundred and
/// can be made again. Dropped unpublished, it was never there.
#[derive(Debug)]
pub struct StagedRun {
    writer: RunWriter,
    dir: PathBuf,
    published: bool,
}

impl StagedRun {
    /// To hand over records and inputs.
    pub fn writer(&mut self) -> &mut RunWriter {
        &mut self.writer
    }

    /// Keeps a derived file beside the summary, such as `gnuplot.data`.
    ///
    /// # Errors
    /// [`StoreError::BadName`] when `name` is not the name of a file or is taken, [`StoreError::System`].
    pub fn derived(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.writer.dir.join(name);
        if name.contains('/') || !stays_inside(name) || path.symlink_metadata().is_ok() {
            return Err(StoreError::BadName {
                what: "a derived file",
                name: name.to_owned(),
                why: "it must be a file name that differs from the run's own files",
            });
        }
        replace(&path, bytes, false)
    }

    /// Writes what was derived. Nothing is brought to the disk yet: [`publish`] does that for many runs at once.
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
            // What is left when this fails is removed by a later listing.
            let _ = remove_tree(&self.writer.dir);
        }
    }
}

/// Lets staged runs appear, each at once, after one sync of the file system for all of them. Says for each whether it did.
///
/// A sync per file took longer than everything else: a run has ten files, an archive a thousand runs.
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
        // The names are only a second journal entry away; a run that loses its name in a power failure is imported again.
        let _ = dir.sync_all();
    }
    published
}

/// Puts everything into a new directory that a run has from the beginning. `dir` is the name it will have when anything is
/// appended.
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

/// Takes room on the disk that nobody else gets.
fn reserve(path: &Path) -> Result<(), StoreError> {
    use rustix::fs::{FallocateFlags, fallocate};
    let take = || -> io::Result<()> {
        let mut file = File::create_new(path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
            // what a file system without it is asked for byte by byte
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

/// Lets a directory appear under the name of its run. Fails on an existing run, because no run is an empty directory.
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

/// Where a file of raw data of a trial, or of a boot, lies in the directory of a run.
pub fn raw_path(dir: &Path, test_case: &str, trial: u32, name: &str) -> PathBuf {
    dir.join(RAW)
        .join(file_name_of(test_case))
        .join(trial.to_string())
        .join(name)
}
