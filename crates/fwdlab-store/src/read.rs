//! Reads runs from disk: complete or damaged, running or ended.
//!
//! Only a missing or unreadable `run.json` is an error; other damage only loses the damaged part
//! and is described as text. Checksums are verified. It changes nothing on disk, so a run can be
//! read while it is written. Start with [`load`].

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use fwdlab_model::event::{Event, EventKind, RebuildRecord};
use fwdlab_model::import::ImportedRecord;
use fwdlab_model::instructions::BootRecord;
use fwdlab_model::result::{RunInfo, RunState, Summary, TrialRecord};
use fwdlab_model::version::RUN_FORMAT;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::StoreError;
use crate::files::{CHECKSUMS, EVENTS, HOOKS, INPUTS, RUN, SUMMARY, TELEMETRY, TRIALS, is_locked};
use crate::regular;
use crate::run_dir::raw_path;
use crate::seal::{self, Seal};
use crate::upgrade;

/// Maximum size of a journal: a million trials with all their counters need half of it.
const JOURNAL_CAP_BYTES: u64 = 8 << 30;
/// Maximum size of a line: a trial of a day, sampled ten times a second, needs a quarter of it.
const LINE_CAP_BYTES: u64 = 256 << 20;
/// Maximum number of damaged lines of a journal that are reported individually.
const TOLD: usize = 20;

/// The contents of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// Its directory.
    pub path: PathBuf,
    /// The header of the run, as written.
    pub info: RunInfo,
    /// The current state of the run: `info.state`, but [`RunState::Interrupted`] if that is running
    /// and no process runs it.
    pub state: RunState,
    /// The result, if there is one.
    pub summary: Option<Summary>,
    /// Trials, in order.
    pub trials: Vec<TrialRecord>,
    /// Rebuilds of a paired comparison, in order.
    pub rebuilds: Vec<RebuildRecord>,
    /// All boots of a virtual machine.
    pub boots: Vec<BootRecord>,
    /// Runs of an archive, in order.
    pub imported: Vec<ImportedRecord>,
    /// What is missing or damaged, in sentences; empty for a run that ended properly.
    pub problems: Vec<String>,
    /// Problems among these that are not damage: left by a killed process.
    pub cut_off: Vec<String>,
    /// True if its files have checksums; old runs do not.
    pub is_protected: bool,
}

/// A file of a run that has changed.
pub(crate) struct Change {
    /// Its path in the run.
    pub(crate) name: String,
    /// The change, in a sentence.
    pub(crate) description: String,
}

impl StoredRun {
    /// Returns the journal, without its damaged lines, which are among the run's problems.
    pub fn events(&self) -> Vec<Event> {
        self.journal(parse_as)
    }

    /// Returns only those of its events in which an iteration ended: they grow with the result, and
    /// the others with the duration of the run.
    pub fn ended_iterations(&self) -> Vec<Event> {
        self.journal(|line| match &kind_of(line)?[..] {
            ITERATION => parse_as(line),
            _ => Ok(None),
        })
    }

    fn journal(&self, parse: fn(&[u8]) -> serde_json::Result<Option<Event>>) -> Vec<Event> {
        let mut events = read_lines(&self.path.join(EVENTS), self.is_protected, parse).records;
        for event in &mut events {
            if let EventKind::IterationFinished { iteration, .. } = &mut event.kind {
                upgrade::kind(iteration);
            }
        }
        events
    }

    /// Returns the counts of the DUT's host around its trials, as read; empty if there are none.
    pub fn telemetry(&self) -> Vec<fwdlab_model::telemetry::Record> {
        let path = self.path.join(TELEMETRY);
        match path.is_file() {
            true => read_lines(&path, self.is_protected, parse_as).records,
            false => Vec::new(),
        }
    }

    /// Returns the results of the hooks of its campaign.
    pub fn hooks(&self) -> Vec<fwdlab_model::hook::HookRecord> {
        let path = self.path.join(HOOKS);
        match path.is_file() {
            true => read_lines(&path, self.is_protected, parse_as).records,
            false => Vec::new(),
        }
    }

    /// Returns files that have changed since the run ended: inputs, raw data and reports, which are
    /// not read otherwise; in sentences. Empty for a run in progress, or one without checksums.
    pub fn changed_files(&self) -> Vec<String> {
        let changes = self.changes().into_iter();
        changes.map(|change| change.description).collect()
    }

    /// Returns the same, with the names of the files.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let mut changed = Vec::new();
        if !self.is_protected || self.state == RunState::Running {
            return changed;
        }
        // errors in the list itself are among the problems
        let listed = listed(&self.path, self.state, &mut Vec::new());
        if listed.is_empty() {
            return changed;
        }
        for (name, sum) in &listed {
            let reported = match seal::sum_of(&self.path.join(name)) {
                // already reported where it is read
                Ok(_) if [TRIALS, EVENTS].contains(&name.as_str()) => continue,
                Ok(found) if found == *sum => continue,
                Ok(_) => format!("{name} has changed since the run ended"),
                Err(error) => error.to_string(),
            };
            let name = name.clone();
            changed.push(Change {
                name,
                description: reported,
            });
        }
        match seal::names(&self.path) {
            Ok(names) => changed.extend(
                (names.into_iter().filter(|name| !listed.contains_key(name))).map(|name| {
                    let reported = format!("{name} did not exist when the run ended");
                    Change {
                        name,
                        description: reported,
                    }
                }),
            ),
            Err(error) => changed.push(Change {
                name: String::new(),
                description: error.to_string(),
            }),
        }
        changed
    }

    /// Returns the inputs, by the names under which they were kept.
    ///
    /// # Errors
    /// [`StoreError::System`].
    pub fn inputs(&self) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
        let names = seal::names(&self.path)?.into_iter();
        let inputs = names.filter_map(|path| {
            let name = path.strip_prefix(INPUTS)?.strip_prefix('/')?.to_owned();
            Some((name, self.path.join(path)))
        });
        inputs
            .map(|(name, path)| {
                let bytes = regular::read_io(&path).map_err(StoreError::system("read", &path))?;
                Ok((name, bytes))
            })
            .collect()
    }

    /// Returns the path of a file of raw data, if it was kept.
    pub fn raw_path(&self, test_case: &str, trial: u32, name: &str) -> PathBuf {
        raw_path(&self.path, test_case, trial, name)
    }
}

/// Reads the run in a directory.
///
/// # Errors
/// [`StoreError::NotARun`] without `run.json`; [`StoreError::Damaged`], [`StoreError::Newer`] or
/// [`StoreError::System`] if that file is not readable.
pub fn load(dir: &Path) -> Result<StoredRun, StoreError> {
    let Head {
        info,
        state,
        mut problems,
        is_protected,
    } = head(dir)?;
    let summary = summary(dir, &info, state, is_protected, &mut problems);
    let trials = read_lines(&dir.join(TRIALS), is_protected, |line| {
        parse_record(line).map(Some)
    });
    // a checksum detects damage of an event as well as parsing it does
    let check: fn(&[u8]) -> serde_json::Result<Option<()>> = match is_protected {
        true => |_| Ok(None),
        false => check_event,
    };
    let events = read_lines(&dir.join(EVENTS), is_protected, check);
    // the incomplete last line of a killed process is not damage: it was never written completely
    let was_killed = info.state == RunState::Running;
    let mut cut_off = match state {
        RunState::Interrupted if was_killed => vec![NO_REPORT.to_owned()],
        _ => Vec::new(),
    };
    let last = [&trials.incomplete, &events.incomplete]
        .into_iter()
        .flatten();
    cut_off.extend(last.filter(|_| was_killed).cloned());
    let ended = is_protected && state != RunState::Running;
    let listed = match ended {
        true => listed(dir, state, &mut problems),
        false => BTreeMap::new(),
    };
    let mut run = StoredRun {
        path: dir.to_owned(),
        info,
        state,
        summary,
        trials: Vec::new(),
        rebuilds: Vec::new(),
        boots: Vec::new(),
        imported: Vec::new(),
        problems,
        cut_off,
        is_protected,
    };
    for (name, sum, damage) in [
        (TRIALS, trials.sum, trials.problems),
        (EVENTS, events.sum, events.problems),
    ] {
        // every line may be intact, but some of them missing
        if damage.is_empty() && listed.get(name).is_some_and(|listed| *listed != sum) {
            run.problems.push(format!(
                "{name} has changed since the run ended: lines are missing or were added"
            ));
        }
        run.problems.extend(damage);
    }
    for record in trials.records {
        match record {
            Record::Trial(trial) => run.trials.push(*trial),
            Record::Rebuild(rebuild) => run.rebuilds.push(*rebuild),
            Record::Boot(boot) => run.boots.push(*boot),
            Record::Imported(record) => run.imported.push(*record),
        }
    }
    if let Some(summary) = &mut run.summary {
        upgrade::complete(summary, &run.trials);
    }
    Ok(run)
}

/// Reads what [`StoredRun::series`] needs of a run. If its result is intact and current, the run
/// has only its first trial, and its result has only figures, because the journals and the evidence
/// for each iteration are most of a run. Damage of what is not read is not among its problems.
///
/// # Errors
/// As [`load`].
pub fn load_values(dir: &Path) -> Result<StoredRun, StoreError> {
    match from_result(dir)? {
        Some(run) => Ok(run),
        None => load(dir),
    }
}

/// Returns a run from its result and its first record, if its series need no others.
fn from_result(dir: &Path) -> Result<Option<StoredRun>, StoreError> {
    let head = head(dir)?;
    let has_ended = head.is_protected && head.info.state != RunState::Running;
    let Ok(bytes) = regular::read_io(&dir.join(SUMMARY)) else {
        return Ok(None);
    };
    if !has_ended || !head.problems.is_empty() || seal::check(&bytes) != Seal::Intact {
        return Ok(None);
    }
    let Some(summary) = upgrade::figures(&bytes) else {
        return Ok(None);
    };
    let Some(trials) = first_trial(&dir.join(TRIALS), &summary.procedure) else {
        return Ok(None);
    };
    Ok(Some(StoredRun {
        path: dir.to_owned(),
        info: head.info,
        state: head.state,
        summary: Some(summary),
        trials,
        rebuilds: Vec::new(),
        boots: Vec::new(),
        imported: Vec::new(),
        problems: Vec::new(),
        cut_off: Vec::new(),
        is_protected: true,
    }))
}

/// Returns the first trial of a journal; `None` if that is damaged or another record.
fn first_trial(path: &Path, procedure: &str) -> Option<Vec<TrialRecord>> {
    if procedure == "exact" {
        return Some(Vec::new());
    }
    let mut line = Vec::new();
    let mut file = BufReader::new(regular::open(path).ok()?.take(LINE_CAP_BYTES));
    file.read_until(b'\n', &mut line).ok()?;
    let line = line.strip_suffix(b"\n")?;
    match (seal::check(line), parse_record(line).ok()?) {
        (Seal::Intact, Record::Trial(trial)) => Some(vec![*trial]),
        _ => None,
    }
}

/// Returns the checksums of a finished run, by path.
pub(crate) fn listed(
    dir: &Path,
    state: RunState,
    problems: &mut Vec<String>,
) -> BTreeMap<String, u32> {
    let path = dir.join(CHECKSUMS);
    let text = match regular::read_io(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            // a run that could not continue may only have had space for its header
            if error.kind() != io::ErrorKind::NotFound || state == RunState::Finished {
                problems.push(StoreError::system("read", &path)(error).to_string());
            }
            return BTreeMap::new();
        }
    };
    if seal::check_list(&text) == Seal::Broken {
        // it is unknown which entry is wrong; journals and the result have checksums of their own
        problems.push(format!(
            "{CHECKSUMS} is damaged: {CHANGED}, so inputs, reports and raw data cannot be checked"
        ));
        return BTreeMap::new();
    }
    let mut sums = BTreeMap::new();
    for (number, line) in (1..).zip(seal::parse_list(&text)) {
        match line {
            Some((name, sum)) => {
                sums.insert(name.to_owned(), sum);
            }
            None => problems.push(format!("line {number} of {CHECKSUMS} is damaged")),
        }
    }
    for name in [TRIALS, EVENTS] {
        if !sums.contains_key(name) {
            problems.push(format!(
                "{CHECKSUMS} is damaged: it has no entry for {name}"
            ));
        }
    }
    sums
}

/// The header of a run and its state.
pub(crate) struct Head {
    pub(crate) info: RunInfo,
    pub(crate) state: RunState,
    pub(crate) problems: Vec<String>,
    pub(crate) is_protected: bool,
}

pub(crate) fn head(dir: &Path) -> Result<Head, StoreError> {
    let path = dir.join(RUN);
    let read = || -> Result<(RunInfo, Seal), StoreError> {
        match regular::read_io(&path) {
            Ok(bytes) => match (parse_versioned(&path, &bytes), seal::check(&bytes)) {
                (Err(StoreError::Newer { .. }), Seal::Broken) => Err(changed(&path)),
                (info, seal) => Ok((info?, seal)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => {
                Err(StoreError::NotARun {
                    path: dir.to_owned(),
                })
            }
            Err(error) => Err(StoreError::system("read", &path)(error)),
        }
    };
    let (mut info, mut seal) = read()?;
    let mut problems = Vec::new();
    let mut state = info.state;
    if state == RunState::Running {
        match is_locked(dir) {
            Ok(true) => {}
            Ok(false) => {
                // It may have ended properly between the two reads; now nothing is written any
                // more.
                (info, seal) = read()?;
                state = info.state;
                if state == RunState::Running {
                    state = RunState::Interrupted;
                    problems.push(NO_REPORT.to_owned());
                }
            }
            Err(error) => problems.push(format!("cannot tell whether it still runs: {error}")),
        }
    }
    if dir.file_name().is_some_and(|name| name != info.id.as_str()) {
        problems.push(format!(
            "its directory and the run have different names: {}",
            info.id
        ));
    }
    if seal == Seal::Broken {
        problems.push(format!(
            "{}; its information about the run may be wrong",
            changed(&path)
        ));
    }
    Ok(Head {
        info,
        state,
        problems,
        is_protected: seal != Seal::None,
    })
}

/// The message for a run whose process was killed.
const NO_REPORT: &str = "its process ended without a report";

/// Returns the error for changed bytes.
fn changed(path: &Path) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        reason: CHANGED.into(),
    }
}

/// The message for a wrong checksum.
pub(crate) const CHANGED: &str = "its checksum does not match";

/// Returns the summary, if there is one; adds errors to the problems. A changed one is omitted,
/// because its figures may be wrong.
pub(crate) fn summary(
    dir: &Path,
    info: &RunInfo,
    state: RunState,
    is_protected: bool,
    problems: &mut Vec<String>,
) -> Option<Summary> {
    let path = dir.join(SUMMARY);
    let bytes = match regular::read_io(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let missing = error.kind() == io::ErrorKind::NotFound;
            if !missing || state == RunState::Finished {
                problems.push(StoreError::system("read", &path)(error).to_string());
            }
            return None;
        }
    };
    let sound = match seal::check(&bytes) {
        Seal::Broken => Err(changed(&path)),
        Seal::None if is_protected => Err(StoreError::Damaged {
            path: path.clone(),
            reason: NO_CHECKSUM.into(),
        }),
        _ => versioned(&path, &bytes).and_then(|format| {
            upgrade::summary(&bytes, format, info).map_err(|error| StoreError::Damaged {
                path: path.clone(),
                reason: error.to_string(),
            })
        }),
    };
    sound.map_err(|error| problems.push(error.to_string())).ok()
}

/// The parts of the document of a run, as `runs show --json` prints it.
#[derive(Deserialize)]
struct Document {
    info: RunInfo,
    #[serde(default)]
    trials: Vec<TrialRecord>,
    #[serde(default)]
    rebuilds: Vec<RebuildRecord>,
    #[serde(default)]
    boots: Vec<BootRecord>,
    #[serde(default)]
    imported: Vec<ImportedRecord>,
}

/// Reads a run from a file with its JSON document, such as a baseline in a repository.
///
/// # Errors
/// The file cannot be read, is no document of a run, or is of a newer version; the run has no
/// result.
pub fn load_document(path: &Path) -> Result<StoredRun, StoreError> {
    let bytes = regular::read_io(path).map_err(StoreError::system("read", path))?;
    let another = |reason: String| StoreError::Damaged {
        path: path.to_owned(),
        reason: format!("it is not the JSON document of a run with a result: {reason}"),
    };
    let damaged = |error: serde_json::Error| another(error.to_string());
    let format = versioned(path, &bytes).map_err(|error| match error {
        StoreError::Damaged { reason, .. } => another(reason),
        error => error,
    })?;
    let document: Document = serde_json::from_slice(&bytes).map_err(damaged)?;
    let summary = upgrade::summary(&bytes, format, &document.info).map_err(damaged)?;
    Ok(StoredRun {
        path: path.to_owned(),
        state: document.info.state,
        info: document.info,
        summary: Some(summary),
        trials: document.trials,
        rebuilds: document.rebuilds,
        boots: document.boots,
        imported: document.imported,
        problems: Vec::new(),
        cut_off: Vec::new(),
        is_protected: false,
    })
}

/// The message for a missing checksum.
const NO_CHECKSUM: &str = "it has no checksum, unlike all others of this run";

/// Parses a file with a format version; ignores additions by a newer program in the same format.
fn parse_versioned<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, StoreError> {
    versioned(path, bytes)?;
    serde_json::from_slice(bytes).map_err(|error| StoreError::Damaged {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Checks that a file has a known format, and returns it.
fn versioned(path: &Path, bytes: &[u8]) -> Result<u32, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let damaged = |error: serde_json::Error| StoreError::Damaged {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    // First only the version: a newer format may have changed anything else.
    let Version { format } = serde_json::from_slice(bytes).map_err(damaged)?;
    if format > RUN_FORMAT {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found: format,
            supported: RUN_FORMAT,
        });
    }
    Ok(format)
}

enum Record {
    Trial(Box<TrialRecord>),
    Rebuild(Box<RebuildRecord>),
    Boot(Box<BootRecord>),
    Imported(Box<ImportedRecord>),
}

fn parse_record(line: &[u8]) -> serde_json::Result<Record> {
    #[derive(Deserialize)]
    struct Kind {
        rebuild: Option<IgnoredAny>,
        boot: Option<IgnoredAny>,
        imported_from: Option<IgnoredAny>,
        load_index: Option<IgnoredAny>,
    }
    let kind: Kind = serde_json::from_slice(line)?;
    if kind.load_index.is_some() {
        return upgrade::searched(line).map(Record::Trial);
    }
    if kind.boot.is_some() {
        return serde_json::from_slice(line).map(Record::Boot);
    }
    match (kind.rebuild, kind.imported_from) {
        (Some(_), _) => serde_json::from_slice(line).map(Record::Rebuild),
        (None, Some(_)) => serde_json::from_slice(line).map(Record::Imported),
        (None, None) => serde_json::from_slice(line).map(Record::Trial),
    }
}

/// Checks an event of this or an earlier version: earlier ones had other results.
fn check_event(line: &[u8]) -> serde_json::Result<Option<()>> {
    match &kind_of(line)?[..] {
        "run_finished" | ITERATION => Ok(None),
        _ => serde_json::from_slice::<Event>(line).map(|_| None),
    }
}

/// The kind of an event in which an iteration ended.
const ITERATION: &str = "iteration_finished";

/// Returns the kind of an event.
fn kind_of(line: &[u8]) -> serde_json::Result<String> {
    #[derive(Deserialize)]
    struct Kind {
        event: String,
    }
    serde_json::from_slice::<Kind>(line).map(|kind| kind.event)
}

fn parse_as<T: DeserializeOwned>(line: &[u8]) -> serde_json::Result<Option<T>> {
    serde_json::from_slice(line).map(Some)
}

/// The readable part of a journal.
struct Lines<T> {
    records: Vec<T>,
    problems: Vec<String>,
    /// The problem of an incomplete last line.
    incomplete: Option<String>,
    /// Checksum of the whole file.
    sum: u32,
}

/// Returns what `parse` takes of the intact lines, and the problems of the others.
fn read_lines<T>(
    path: &Path,
    is_protected: bool,
    parse: impl Fn(&[u8]) -> serde_json::Result<Option<T>>,
) -> Lines<T> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut hasher = crc32fast::Hasher::new();
    let mut found = Lines {
        records: Vec::new(),
        problems: Vec::new(),
        incomplete: None,
        sum: 0,
    };
    let mut read = || -> Result<u64, StoreError> {
        let cannot = || StoreError::system("read", path);
        let mut file = BufReader::new(regular::open(path)?.take(JOURNAL_CAP_BYTES));
        let (mut line, mut more_damaged) = (Vec::new(), 0);
        for number in 1.. {
            line.clear();
            let mut piece = (&mut file).take(LINE_CAP_BYTES);
            let length = piece.read_until(b'\n', &mut line).map_err(cannot())?;
            hasher.update(&line);
            let wrong = if length == 0 {
                break;
            } else if !line.ends_with(b"\n") {
                let is_too_long = length as u64 == LINE_CAP_BYTES || file.get_ref().limit() == 0;
                let reason = match is_too_long {
                    true => "too long to be valid, and everything after it was left out",
                    false => "incomplete and was left out: its writer was stopped while writing it",
                };
                let reported = format!("line {number} of {name} is {reason}");
                found.incomplete = (!is_too_long).then(|| reported.clone());
                found.problems.push(reported);
                break;
            } else {
                let line = &line[..length - 1];
                match seal::check(line) {
                    _ if line.is_empty() => continue,
                    Seal::Broken => CHANGED.to_owned(),
                    Seal::None if is_protected => NO_CHECKSUM.to_owned(),
                    _ => match parse(line) {
                        Ok(record) => {
                            found.records.extend(record);
                            continue;
                        }
                        Err(error) => error.to_string(),
                    },
                }
            };
            match found.problems.len() < TOLD {
                true => found.problems.push(format!(
                    "line {number} of {name} is damaged and was left out: {wrong}"
                )),
                false => more_damaged += 1,
            }
        }
        Ok(more_damaged)
    };
    match read() {
        Ok(0) => {}
        Ok(more) => found
            .problems
            .push(format!("{more} more lines of {name} are damaged")),
        Err(error) => found.problems.push(error.to_string()),
    }
    found.sum = hasher.finalize();
    found
}
