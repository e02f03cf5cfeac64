//! Imports the result sets of an archive: one run per set, one record per run of the archive.
//!
//! Several threads read the sets, which appear in batches, each run completely or not at all. The
//! caller passes the renderer, because reports are in another crate. Start with [`import`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fwdlab_measure::imported::cases;
use fwdlab_model::facts::Facts;
use fwdlab_model::import::{ARCHIVE, ImportedRecord, KIND, MEASURED_AT, NETBENCHES, SET};
use fwdlab_model::result::{Noise, RunInfo, RunState, Summary, Validity};
use fwdlab_model::version::RUN_FORMAT;
use jiff::Timestamp;
use serde_json::Value;

use fwdlab_store::{RunId, RunWriter, StagedRun, StoreError, file_name_of, list, publish, remove};

use crate::parallel;

use super::config::Traffic;
use super::info::{Info, time_of};
use super::names::{Kind, labels};
use super::published::{Plotted, Row, Values};
use super::reading::{Reader, RunFacts, Tally};
use super::set::{Case, ResultSet, sets};
use super::walk::{Tree, shown_path};

/// Number of runs that appear together, after one sync.
const BATCH: usize = 64;
/// Largest input that is kept, in bytes.
const LARGEST_INPUT: u64 = 1 << 20;
/// Characters of a set's path in the id of its run: its end is more informative than its beginning.
const ID_PATH: usize = 72;
/// Number of directories above a result set that are searched for its configuration sets.
const CONFIGS_ABOVE: usize = 4;

/// Options of an import.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The archive, or a part of it.
    pub archive: &'a Path,
    /// The directory of runs.
    pub runs: &'a Path,
    /// Paths or patterns of result sets; empty: all.
    pub choices: &'a [String],
    /// Replace earlier imports.
    pub again: bool,
    /// Version of the program.
    pub tool_version: &'a str,
    /// The command line.
    pub command_line: &'a [String],
    /// Source of the random characters of ids.
    pub entropy: u64,
}

/// The progress of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Finished result sets.
    pub done: usize,
    /// Total number of result sets.
    pub sets: usize,
    /// Statistics of the logs that were read.
    pub tally: Tally,
}

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// Every chosen set, by path.
    pub sets: Vec<SetOutcome>,
    /// Statistics of the logs that were read.
    pub tally: Tally,
    /// Files of the archive by kind.
    pub files: BTreeMap<Kind, u64>,
    /// What could not be read or understood, in sentences.
    pub problems: Vec<String>,
    /// Choices that match no set.
    pub unmatched: Vec<String>,
    /// True if it was stopped before all sets were done.
    pub stopped: bool,
}

/// The result for one set.
#[derive(Debug, Clone, PartialEq)]
pub struct SetOutcome {
    /// Its path.
    pub path: String,
    /// Its test cases.
    pub cases: usize,
    /// Its runs.
    pub runs: usize,
    /// Runs among them without a value.
    pub invalid: usize,
    /// The result.
    pub result: SetResult,
}

/// The result of importing a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetResult {
    /// Imported as the run with this id.
    Imported(String),
    /// Imported as the run with the first id, which replaced the second.
    Replaced(String, String),
    /// This run already contains the same logs.
    Already(String),
    /// This run contains other logs of that path.
    Changed(String),
    /// It could not be stored.
    Failed(String),
}

/// Imports the chosen sets. `render` makes the report of a run.
///
/// Stops between two sets if `stop` is set; finished sets are kept.
///
/// # Errors
/// [`StoreError::System`] if the archive or the directory of runs cannot be read.
pub fn import(
    options: &Options<'_>,
    stop: &AtomicBool,
    render: &(dyn Fn(&RunInfo, &Summary) -> String + Sync),
    listener: &mut dyn FnMut(&Progress),
) -> Result<Imported, StoreError> {
    let tree = Tree::scan(options.archive)?;
    let mut imported = Imported {
        files: tree.counts(),
        problems: tree.problems.clone(),
        ..Imported::default()
    };
    let all = sets(&tree);
    for choice in options.choices {
        if !all.iter().any(|set| set.is_chosen_by(choice)) {
            imported.unmatched.push(choice.clone());
        }
    }
    let chosen: Vec<(u64, ResultSet)> = (0..)
        .zip(all)
        .filter(|(_, set)| {
            options.choices.is_empty() || options.choices.iter().any(|c| set.is_chosen_by(c))
        })
        .collect();
    fs::create_dir_all(options.runs).map_err(StoreError::system("create", options.runs))?;
    let work = Work {
        options,
        now: Timestamp::now(),
        library: Library::from_tree(&tree),
        tree: &tree,
        known: known(options.runs)?,
        render,
    };
    let mut progress = Progress {
        sets: chosen.len(),
        ..Progress::default()
    };
    let mut batch: Vec<(StagedRun, SetOutcome)> = Vec::new();
    let mut outcomes: Vec<SetOutcome> = Vec::new();
    listener(&progress);
    parallel::each(
        &chosen,
        stop,
        |(number, set)| work.set(*number, set),
        |worked| {
            progress.done += 1;
            progress.tally.add(&worked.tally);
            imported.problems.extend(worked.problems);
            match worked.staged {
                Some(staged) => batch.push((staged, worked.outcome)),
                None => outcomes.push(worked.outcome),
            }
            if batch.len() >= BATCH {
                outcomes.extend(appear(options.runs, &mut batch));
            }
            listener(&progress);
            true
        },
    );
    outcomes.extend(appear(options.runs, &mut batch));
    outcomes.sort_by(|a, b| a.path.cmp(&b.path));
    imported.stopped = stop.load(Ordering::Relaxed) && progress.done < progress.sets;
    imported.sets = outcomes;
    imported.tally = progress.tally;
    Ok(imported)
}

/// Publishes a batch of runs, and removes those that they replace.
fn appear(root: &Path, batch: &mut Vec<(StagedRun, SetOutcome)>) -> Vec<SetOutcome> {
    let (staged, mut outcomes): (Vec<_>, Vec<_>) = std::mem::take(batch).into_iter().unzip();
    for (published, outcome) in publish(root, staged).into_iter().zip(&mut outcomes) {
        if let Err(error) = published {
            outcome.result = SetResult::Failed(error.to_string());
        } else if let SetResult::Replaced(_, old) = &outcome.result
            && let Err(error) = remove(&root.join(old))
        {
            outcome.result = SetResult::Failed(format!("imported, but the old run stays: {error}"));
        }
    }
    outcomes
}

/// A run from an earlier import.
struct ImportedRun {
    id: String,
    archive: String,
    set: String,
    fingerprint: String,
}

fn known(root: &Path) -> Result<Vec<ImportedRun>, StoreError> {
    let text = |info: &RunInfo, key: &str| -> String {
        let value = info.parameters.get(key).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let infos = list(root)?.into_iter().filter_map(|entry| entry.info);
    Ok(infos
        .filter(|info| info.kind == KIND)
        .map(|info| ImportedRun {
            archive: text(&info, ARCHIVE),
            set: text(&info, SET),
            fingerprint: text(&info, "fingerprint"),
            id: info.id,
        })
        .collect())
}

/// Files that belong to more than one set: configuration sets and pkt-gen configurations, searched
/// once.
struct Library {
    /// Directories of configuration sets by their parent directory.
    configs: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// pkt-gen configurations by name.
    traffic: BTreeMap<String, Vec<PathBuf>>,
}

impl Library {
    fn from_tree(tree: &Tree) -> Library {
        let mut library = Library {
            configs: BTreeMap::new(),
            traffic: BTreeMap::new(),
        };
        for (path, directory) in &tree.directories {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("config")
                && let Some(parent) = path.parent()
            {
                let found = library.configs.entry(parent.to_owned()).or_default();
                found.push(path.clone());
            }
            let of_traffic = |part: std::path::Component<'_>| {
                part.as_os_str()
                    .to_string_lossy()
                    .starts_with("pktgen.configs")
            };
            if path.components().any(of_traffic) {
                for file in &directory.files {
                    let found = library.traffic.entry(file.text.clone()).or_default();
                    found.push(path.join(&file.file_name));
                }
            }
        }
        library
    }

    /// Finds the directory of a configuration set, next to and above the results.
    fn configuration(&self, tree: &Tree, set: &ResultSet, name: &str) -> Option<PathBuf> {
        set.home
            .ancestors()
            .take(CONFIGS_ABOVE)
            .filter_map(|above| self.configs.get(above))
            .flatten()
            .map(|configs| configs.join(name))
            .find(|path| tree.directories.contains_key(path))
    }

    /// Returns the pkt-gen configuration with a name, if there is only one.
    fn traffic(&self, name: &str) -> Option<&Path> {
        match self.traffic.get(name).map(Vec::as_slice) {
            Some([one]) => Some(one),
            _ => None,
        }
    }
}

struct Work<'a> {
    options: &'a Options<'a>,
    now: Timestamp,
    tree: &'a Tree,
    library: Library,
    known: Vec<ImportedRun>,
    render: &'a (dyn Fn(&RunInfo, &Summary) -> String + Sync),
}

struct ImportedPart {
    outcome: SetOutcome,
    staged: Option<StagedRun>,
    tally: Tally,
    problems: Vec<String>,
}

/// The contents of a set.
#[derive(Default)]
struct Content {
    records: Vec<ImportedRecord>,
    /// By test case: values by the archive's rule in the order of names.
    published: BTreeMap<String, Vec<f64>>,
    inputs: BTreeSet<(String, PathBuf)>,
    parameters: BTreeMap<String, Value>,
    /// The model of the DUT's CPU, according to the archive.
    cpu_model: Option<String>,
    fingerprint: u64,
    tally: Tally,
    problems: Vec<String>,
}

impl Work<'_> {
    fn set(&self, number: u64, set: &ResultSet) -> ImportedPart {
        let mut content = self.read(set);
        let problems = std::mem::take(&mut content.problems);
        let fingerprint = format!("{:016x}", content.fingerprint);
        let archive = fs::canonicalize(self.options.archive)
            .unwrap_or_else(|_| self.options.archive.to_owned())
            .to_string_lossy()
            .into_owned();
        let before = self.known.iter().find(|known| {
            let same_logs = known.fingerprint == fingerprint
                && (ends_with(&known.set, &set.path) || ends_with(&set.path, &known.set));
            same_logs || known.archive == archive && known.set == set.path
        });
        let mut outcome = SetOutcome {
            path: set.path.clone(),
            cases: set.cases.len(),
            runs: content.records.len(),
            invalid: content
                .records
                .iter()
                .filter(|record| !record.validity.is_valid())
                .count(),
            result: SetResult::Failed(String::new()),
        };
        let tally = content.tally;
        let done = |outcome, staged| ImportedPart {
            outcome,
            staged,
            tally,
            problems,
        };
        if let Some(before) = before.filter(|_| !self.options.again) {
            outcome.result = if before.fingerprint == fingerprint {
                SetResult::Already(before.id.clone())
            } else {
                SetResult::Changed(before.id.clone())
            };
            return done(outcome, None);
        }
        content.cpu_model =
            cpu_folder(&format!("{archive}/{}", set.path)).map(|folder| folder.replace('_', " "));
        content.parameters.extend([
            (ARCHIVE.to_owned(), Value::from(archive.as_str())),
            (SET.to_owned(), Value::from(set.path.as_str())),
            ("fingerprint".to_owned(), Value::from(fingerprint)),
        ]);
        match self.stage(number, set, &archive, &content) {
            Ok((staged, id)) => {
                outcome.result = match before {
                    Some(before) => SetResult::Replaced(id, before.id.clone()),
                    None => SetResult::Imported(id),
                };
                done(outcome, Some(staged))
            }
            Err(error) => {
                outcome.result = SetResult::Failed(error.to_string());
                done(outcome, None)
            }
        }
    }

    fn stage(
        &self,
        number: u64,
        set: &ResultSet,
        archive: &str,
        content: &Content,
    ) -> Result<(StagedRun, String), StoreError> {
        let options = self.options;
        let mut entropy = options.entropy.wrapping_add(number.wrapping_mul(4096));
        let (mut staged, mut info) = loop {
            let id = RunId::free(
                options.runs,
                self.now,
                &id_words(archive, &set.path),
                entropy,
            );
            let info = self.info(id.into(), content);
            match RunWriter::stage(options.runs, &info) {
                Ok(staged) => break (staged, info),
                // Another thread or process was faster.
                Err(StoreError::IdTaken { .. }) => entropy = entropy.wrapping_add(1),
                Err(error) => return Err(error),
            }
        };
        let mut doubts = warnings(content);
        for (name, path) in &content.inputs {
            let kept = match fs::read(options.archive.join(path)) {
                Ok(bytes) => staged
                    .writer()
                    .input(name, &bytes)
                    .map_err(|error| error.to_string()),
                Err(error) => Err(format!("cannot read {}: {error}", shown_path(path))),
            };
            // The numbers are complete without it.
            doubts.extend(kept.err());
        }
        let summary = Summary {
            format: RUN_FORMAT,
            run: info.id.clone(),
            procedure: NETBENCHES.to_owned(),
            test_cases: Vec::new(),
            control: None,
            imported: cases(&content.records),
            noise: Noise::default(),
            warnings: doubts,
            imix_estimate_l2_bps: None,
            thresholds: Vec::new(),
        };
        let writer = staged.writer();
        for record in &content.records {
            writer.trial(record)?;
        }
        let mut rows = Vec::new();
        for (case, values) in &content.published {
            let name = if case.is_empty() { "bench" } else { case };
            staged.derived(
                &format!("{}.pps", file_name_of(name)),
                Values::text(values.iter().copied()).as_bytes(),
            )?;
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            if let Some(median) = super::rule::median(&sorted) {
                rows.push(Row {
                    index: name.to_owned(),
                    median,
                    min: sorted.first().copied(),
                    max: sorted.last().copied(),
                });
            }
        }
        if !rows.is_empty() {
            staged.derived("gnuplot.data", Plotted::text(&rows).as_bytes())?;
        }
        info.state = RunState::Finished;
        info.finished_at = Some(Timestamp::now().to_string());
        staged.finish(&info, &summary, &(self.render)(&info, &summary))?;
        let id = info.id;
        Ok((staged, id))
    }

    fn info(&self, id: String, content: &Content) -> RunInfo {
        RunInfo {
            format: RUN_FORMAT,
            id,
            kind: KIND.to_owned(),
            tool_version: self.options.tool_version.to_owned(),
            command_line: self.options.command_line.to_vec(),
            seed: 0,
            started_at: self.now.to_string(),
            finished_at: None,
            state: RunState::Running,
            gaps: Vec::new(),
            error: None,
            note: None,
            parameters: content.parameters.clone(),
            facts: Facts {
                cpu_model: content.cpu_model.clone().unwrap_or_default(),
                ..Facts::default()
            },
        }
    }

    fn read(&self, set: &ResultSet) -> Content {
        let mut content = Content {
            fingerprint: 0x6c62_272e_07bb_0142,
            ..Content::default()
        };
        let mut reader = Reader::new(self.options.archive);
        let mut output: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut has_started: Option<Timestamp> = None;
        for case in &set.cases {
            let info = self.info_file(case, &mut content);
            for (key, value) in info.iter().flat_map(|info| {
                [
                    ("uname", &info.uname),
                    ("image", &info.image),
                    ("begun", &info.started),
                    ("ended", &info.ended),
                ]
            }) {
                output.entry(key).or_default().extend(value.clone());
            }
            let times = info.iter().flat_map(|info| [&info.started, &info.ended]);
            let time = times.flatten().find_map(|text| time_of(text));
            has_started = has_started.into_iter().chain(time).min();
            let (labels, division) = labels(&case.name, info.as_ref());
            let traffic = labels
                .get("traffic")
                .and_then(|name| self.library.traffic(name));
            if let Some(path) = traffic {
                content.keep_input(&format!("pktgen.configs/{}", last_name(path)), path);
            }
            let configuration = labels
                .get("configuration")
                .or(labels.get("name"))
                .and_then(|name| self.library.configuration(self.tree, set, name));
            if let Some(directory) = configuration {
                self.keep_tree(&directory, &mut content);
            }
            let mut facts: Vec<RunFacts> = case
                .runs
                .iter()
                .map(|files| reader.run(case, files))
                .collect();
            for fact in &mut facts {
                fact.record.labels.clone_from(&labels);
                fact.record.warnings.extend(division.clone());
                self.fill_in(&mut fact.record, traffic);
                content.tally.add(&fact.tally);
                content.fingerprint =
                    (content.fingerprint ^ fact.fingerprint).wrapping_mul(0x0000_0100_0000_01b3);
            }
            let mut by_name: Vec<&RunFacts> = facts.iter().collect();
            by_name.sort_by(|a, b| a.digits.cmp(&b.digits));
            let values: Vec<f64> = by_name
                .iter()
                .filter_map(|fact| Some(fact.legacy.ok()?.median))
                .collect();
            if !values.is_empty() {
                content.published.insert(case.name.clone(), values);
            }
            content
                .records
                .extend(facts.into_iter().map(|fact| fact.record));
            if case.runs.is_empty() {
                self.values_without_logs(case, &labels, &mut content);
            }
            for path in case.pps.iter().chain(&case.equilibrium) {
                content.keep_input(&format!("published/{}", last_name(path)), path);
            }
        }
        for directory in BTreeSet::from([&set.home, &set.directory]) {
            for (kind, folder) in [(Kind::Readme, ""), (Kind::Plotted, "published/")] {
                for file in self.tree.files(directory, kind) {
                    content.keep_input(
                        &format!("{folder}{}", file.text),
                        &directory.join(&file.file_name),
                    );
                }
            }
        }
        for (key, values) in output {
            let values: Vec<String> = values.into_iter().collect();
            if !values.is_empty() {
                content.parameters.insert(key.to_owned(), values.into());
            }
        }
        if let Some(has_started) = has_started {
            let has_started = Value::from(has_started.to_string());
            content
                .parameters
                .insert(MEASURED_AT.to_owned(), has_started);
        }
        self.drop_large(&mut content);
        content
    }

    fn info_file(&self, case: &Case, content: &mut Content) -> Option<Info> {
        let path = case.info.as_ref()?;
        match fs::read(self.options.archive.join(path)) {
            Ok(bytes) => {
                let info = Info::parse(&bytes[..bytes.len().min(LARGEST_INPUT as usize)]);
                for line in &info.unknown {
                    content.problems.push(format!(
                        "{}: a line was not understood: {line}",
                        shown_path(path)
                    ));
                }
                content.keep_input(&last_name(path), path);
                Some(info)
            }
            Err(error) => {
                content
                    .problems
                    .push(format!("cannot read {}: {error}", shown_path(path)));
                None
            }
        }
    }

    /// Adds values that are in no command line from the pkt-gen configuration.
    fn fill_in(&self, record: &mut ImportedRecord, traffic: Option<&Path>) {
        let missing = record.frame_size_bytes.is_none()
            || record.flows.is_none()
            || record.ip_version.is_none();
        let Some(path) = traffic.filter(|_| missing) else {
            return;
        };
        let Ok(bytes) = fs::read(self.options.archive.join(path)) else {
            return;
        };
        let traffic = Traffic::parse(&bytes);
        record.frame_size_bytes = record.frame_size_bytes.or(traffic.frame_size_bytes);
        record.flows = record.flows.or(traffic.flows);
        record.ip_version = record.ip_version.or(traffic.ip_version);
        record.sources.push(shown_path(path));
    }

    /// Adds figures without logs in the archive, marked as such.
    fn values_without_logs(
        &self,
        case: &Case,
        labels: &BTreeMap<String, String>,
        content: &mut Content,
    ) {
        for path in case.pps.iter().chain(&case.equilibrium) {
            let bytes = match fs::read(self.options.archive.join(path)) {
                Ok(bytes) => bytes,
                Err(error) => {
                    content
                        .problems
                        .push(format!("cannot read {}: {error}", shown_path(path)));
                    continue;
                }
            };
            let values = Values::parse(&bytes);
            for line in &values.unknown {
                content
                    .problems
                    .push(format!("{}: not a number: {line}", shown_path(path)));
            }
            let of_pps = case.pps.contains(path);
            for (iteration, (text, value)) in (1..).zip(&values.values) {
                for byte in text.bytes() {
                    content.fingerprint =
                        (content.fingerprint ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                }
                let reason = if of_pps {
                    "there is no log: the value is the archive's".to_owned()
                } else {
                    format!("no log says what the value {text} counts")
                };
                content.records.push(ImportedRecord {
                    imported_from: NETBENCHES.to_owned(),
                    test_case: case.name.clone(),
                    labels: labels.clone(),
                    iteration,
                    forwarding_rate_pps: None,
                    forwarding_rate_legacy_pps: of_pps.then_some(*value),
                    samples: 0,
                    samples_legacy: 0,
                    duration_s: None,
                    intended_load_pps: None,
                    offered_load_pps: None,
                    frames_sent: None,
                    frames_received: None,
                    frame_loss_ratio: None,
                    throughput_l2_bps: None,
                    ip_version: None,
                    frame_size_bytes: None,
                    flows: None,
                    sources: vec![shown_path(path)],
                    warnings: Vec::new(),
                    validity: Validity {
                        reasons: vec![reason],
                    },
                });
            }
        }
    }

    /// Adds the files of a configuration set, under its name.
    fn keep_tree(&self, directory: &Path, content: &mut Content) {
        let name = last_name(directory);
        let below = self
            .tree
            .directories
            .range(directory.to_owned()..)
            .take_while(|(path, _)| path.starts_with(directory));
        for (path, found) in below {
            let inside = path.strip_prefix(directory).unwrap_or(path);
            for file in &found.files {
                let place = inside.join(&file.file_name);
                content.keep_input(
                    &format!("configs/{name}/{}", place.to_string_lossy()),
                    &path.join(&file.file_name),
                );
            }
        }
    }

    fn drop_large(&self, content: &mut Content) {
        let (root, problems) = (self.options.archive, &mut content.problems);
        let mut names = BTreeSet::new();
        content.inputs.retain(|(name, path)| {
            // Two names that only differ in bytes that are not UTF-8: the first is kept.
            let first = names.insert(name.clone());
            let small = fs::metadata(root.join(path)).is_ok_and(|m| m.len() <= LARGEST_INPUT);
            if !(first && small) {
                problems.push(format!(
                    "{} is not stored with the inputs: it is larger than 1 MiB, unreadable, or its name is taken",
                    shown_path(path)
                ));
            }
            first && small
        });
    }
}

impl Content {
    fn keep_input(&mut self, name: &str, path: &Path) {
        self.inputs.insert((name.to_owned(), path.to_owned()));
    }
}

fn warnings(content: &Content) -> Vec<String> {
    let records = &content.records;
    let invalid = records.iter().filter(|r| !r.validity.is_valid()).count();
    let mut warnings = Vec::new();
    if invalid > 0 {
        warnings.push(format!(
            "{invalid} of {} runs are not valid: see their reasons",
            records.len()
        ));
    }
    if content.tally.unknown > 0 {
        warnings.push(format!(
            "{} of {} lines of logs were not understood",
            content.tally.unknown, content.tally.lines
        ));
    }
    warnings
}

/// Returns true if `part` is the path, or its end.
fn ends_with(path: &str, part: &str) -> bool {
    part == "." || Path::new(path).ends_with(part)
}

/// Converts the name of a file to that of an input: one component, no `..`.
pub(crate) fn last_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the component of a path with a CPU's name: `Xeon_E5-2650_8Cores`,
/// `Xeon_E5-2650v4_2x12Cores`.
fn cpu_folder(path: &str) -> Option<&str> {
    let is_one = |folder: &&str| {
        let lower = folder.to_ascii_lowercase();
        let cores = lower.strip_suffix("cores").or(lower.strip_suffix("core"));
        let count = cores.and_then(|rest| rest.rsplit(['_', '-']).next());
        count.is_some_and(|n| {
            n.ends_with(|c: char| c.is_ascii_digit())
                && n.bytes().all(|b| b.is_ascii_digit() || b == b'x')
        })
    };
    path.split('/').rev().find(is_one)
}

/// Returns the words that distinguish a set's path from others: its CPU, and as much of its end as
/// fits.
fn id_words(archive: &str, path: &str) -> String {
    let whole = format!("{archive}/{path}");
    let cpu = cpu_folder(&whole).unwrap_or_default();
    let words: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(*part, "." | "results" | "RAW") && *part != cpu)
        .collect();
    let room = ID_PATH.saturating_sub(cpu.chars().count());
    // Whole components from the end, as many as fit.
    let mut first = words.len().saturating_sub(1);
    let length = |from: usize| words[from..].join("-").chars().count();
    while first > 0 && length(first - 1) <= room {
        first -= 1;
    }
    let shown = words.get(first..).unwrap_or_default().join("-");
    let skipped = shown.chars().count().saturating_sub(room);
    let end: String = shown.chars().skip(skipped).collect();
    let ends = [cpu, end.trim_matches(|c: char| !c.is_alphanumeric())];
    let ends: Vec<&str> = ends.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{KIND}-{}", ends.join("-"))
}
