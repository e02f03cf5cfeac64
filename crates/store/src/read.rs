//! Reads what is left of a run, whole or damaged, running or long dead.
//!
//! Only a missing or unreadable `run.json` is an error; all other damage costs the damaged part and is told in words. It
//! changes nothing on disk, so that a run can be read while it is written. Start with [`load`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::event::{Event, RebuildRecord};
use model::import::ImportedRecord;
use model::result::{RunInfo, RunState, Summary, TrialRecord};
use model::version::RUN_FORMAT;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::StoreError;
use crate::files::{EVENTS, RUN, SUMMARY, TRIALS, is_locked};
use crate::run_dir::raw_path;

/// What is kept of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// Its directory.
    pub path: PathBuf,
    /// The head of the run, as written.
    pub info: RunInfo,
    /// How the run stands now: `info.state`, but [`RunState::Interrupted`] when it says running and no process runs it.
    pub state: RunState,
    /// The result, if there is one.
    pub summary: Option<Summary>,
    /// Trials, in order.
    pub trials: Vec<TrialRecord>,
    /// Rebuilds of a paired comparison, in order.
    pub rebuilds: Vec<RebuildRecord>,
    /// Runs of an archive, in order.
    pub imported: Vec<ImportedRecord>,
    /// What is missing or damaged, in sentences; empty for a run that ended in order.
    pub problems: Vec<String>,
}

impl StoredRun {
    /// The journal, and what is damaged in it.
    pub fn events(&self) -> (Vec<Event>, Vec<String>) {
        read_lines(&self.path.join(EVENTS), |line| serde_json::from_slice(line))
    }

    /// Where a file of raw data lies, if it was kept.
    pub fn raw_path(&self, test_case: &str, trial: u32, name: &str) -> PathBuf {
        raw_path(&self.path, test_case, trial, name)
    }
}

/// Reads the run in a directory.
///
/// # Errors
/// [`StoreError::NotARun`] without `run.json`; [`StoreError::Damaged`], [`StoreError::Newer`] or [`StoreError::System`]
/// when that file cannot be understood.
pub fn load(dir: &Path) -> Result<StoredRun, StoreError> {
    let Head {
        info,
        state,
        mut problems,
    } = head(dir)?;
    let summary = summary(dir, state, &mut problems);
    let mut trials = Vec::new();
    let mut rebuilds = Vec::new();
    let mut imported = Vec::new();
    let (records, damage) = read_lines(&dir.join(TRIALS), parse_record);
    problems.extend(damage);
    for record in records {
        match record {
            Record::Trial(trial) => trials.push(*trial),
            Record::Rebuild(rebuild) => rebuilds.push(*rebuild),
            Record::Imported(record) => imported.push(*record),
        }
    }
    Ok(StoredRun {
        path: dir.to_owned(),
        info,
        state,
        summary,
        trials,
        rebuilds,
        imported,
        problems,
    })
}

/// The head of a run and how it stands.
pub(crate) struct Head {
    pub(crate) info: RunInfo,
    pub(crate) state: RunState,
    pub(crate) problems: Vec<String>,
}

pub(crate) fn head(dir: &Path) -> Result<Head, StoreError> {
    let path = dir.join(RUN);
    let read = || -> Result<RunInfo, StoreError> {
        match fs::read(&path) {
            Ok(bytes) => parse_versioned(&path, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => {
                Err(StoreError::NotARun {
                    path: dir.to_owned(),
                })
            }
            Err(error) => Err(StoreError::system("read", &path)(error)),
        }
    };
    let mut info = read()?;
    let mut problems = Vec::new();
    let mut state = info.state;
    if state == RunState::Running {
        match is_locked(dir) {
            Ok(true) => {}
            Ok(false) => {
                // It may have ended in order between the two looks; now nobody writes any more.
                info = read()?;
                state = info.state;
                if state == RunState::Running {
                    state = RunState::Interrupted;
                    problems.push("its process ended without a word".to_owned());
                }
            }
            Err(error) => problems.push(format!("cannot tell whether it still runs: {error}")),
        }
    }
    if dir.file_name().is_some_and(|name| name != info.id.as_str()) {
        problems.push(format!(
            "its directory has another name than the run: {}",
            info.id
        ));
    }
    Ok(Head {
        info,
        state,
        problems,
    })
}

/// The summary, if there is one; what is wrong with it is added to the problems.
pub(crate) fn summary(dir: &Path, state: RunState, problems: &mut Vec<String>) -> Option<Summary> {
    let path = dir.join(SUMMARY);
    match fs::read(&path) {
        Ok(bytes) => parse_versioned(&path, &bytes)
            .map_err(|error| problems.push(error.to_string()))
            .ok(),
        Err(error) => {
            let missing = error.kind() == io::ErrorKind::NotFound;
            if !missing || state == RunState::Finished {
                problems.push(StoreError::system("read", &path)(error).to_string());
            }
            None
        }
    }
}

/// Parses a file that says its format; what a newer program added inside the same format is ignored.
fn parse_versioned<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let damaged = |error: serde_json::Error| StoreError::Damaged {
        path: path.to_owned(),
        why: error.to_string(),
    };
    // First the version alone: a newer format may have changed anything else.
    let Version { format } = serde_json::from_slice(bytes).map_err(damaged)?;
    if format > RUN_FORMAT {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found: format,
            supported: RUN_FORMAT,
        });
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

enum Record {
    Trial(Box<TrialRecord>),
    Rebuild(Box<RebuildRecord>),
    Imported(Box<ImportedRecord>),
}

fn parse_record(line: &[u8]) -> serde_json::Result<Record> {
    #[derive(Deserialize)]
    struct Kind {
        rebuild: Option<IgnoredAny>,
        imported_from: Option<IgnoredAny>,
    }
    let kind: Kind = serde_json::from_slice(line)?;
    match (kind.rebuild, kind.imported_from) {
        (Some(_), _) => serde_json::from_slice(line).map(Record::Rebuild),
        (None, Some(_)) => serde_json::from_slice(line).map(Record::Imported),
        (None, None) => serde_json::from_slice(line).map(Record::Trial),
    }
}

/// All whole lines that can be parsed, and what is wrong with the others.
fn read_lines<T>(
    path: &Path,
    parse: impl Fn(&[u8]) -> serde_json::Result<T>,
) -> (Vec<T>, Vec<String>) {
    let mut records = Vec::new();
    let mut problems = Vec::new();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            problems.push(StoreError::system("read", path)(error).to_string());
            return (records, problems);
        }
    };
    for (number, line) in (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')) {
        let Some(line) = line.strip_suffix(b"\n") else {
            problems.push(format!(
                "line {number} of {name} is incomplete and was left out: its writer was stopped in the middle of it"
            ));
            break;
        };
        if line.is_empty() {
            continue;
        }
        match parse(line) {
            Ok(record) => records.push(record),
            Err(error) => problems.push(format!(
                "line {number} of {name} is damaged and was left out: {error}"
            )),
        }
    }
    (records, problems)
}
