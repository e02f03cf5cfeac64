//! Joins the shards of a campaign into one run, as if one process had measured it.
//!
//! Results that do not depend on the machine are pooled: counts of instructions, and simulated
//! DUTs. Those of measured DUTs are not: each test case keeps its shard ([`machines`]). The result
//! is derived from all boots and trials; nothing is measured. Shards that do not belong together
//! are named. Start with [`merge`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fwdlab_measure::campaign::sequence;
use fwdlab_measure::exact;
use fwdlab_measure::shard::Shard;
use fwdlab_measure::trust;
use fwdlab_model::campaign::Order;
use fwdlab_model::event::{Event, EventKind};
use fwdlab_model::facts::{EMULATOR, IMAGE, TEST_BED};
use fwdlab_model::result::{RunInfo, RunState, SHARDS, ShardRun, Summary, TrialRecord};
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::version::EVENT_FORMAT;
use fwdlab_store::{RunId, RunWriter, StagedRun, StoreError, StoredRun, publish};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::machines::Label;
use super::entropy;
use super::method::bursts::{self, CONSOLE, PAST, THROUGH};
use super::plan::{CAMPAIGN, SHARD};
use super::procedure_run::invalid;
use super::verify::derive_with;
use crate::error::LabError;

/// Parameters that may differ between shards: the shard itself, where its campaign file was, its
/// test bed, and the CPUs of its machine.
const OWN: [&str; 5] = [SHARD, "file", "bed", "generator_cpus", "dut_cpus"];

/// Inputs that a run adds to those of its campaign.
const ADDED: [&str; 3] = ["images/", "in-force/", "bed.toml"];

/// The shards of a campaign, which belong together and are complete.
pub struct Shards {
    /// In the order of their numbers.
    runs: Vec<(Shard, StoredRun)>,
    inputs: BTreeMap<String, Vec<u8>>,
    /// For each shard, the numbers of its trials or rebuilds in the joined run, by their numbers in
    /// the shard.
    numbers: Vec<BTreeMap<u32, u32>>,
    /// Their results depend on the machines that measured them.
    are_measured: bool,
}

impl Shards {
    /// Checks that these runs are all shards of one campaign.
    ///
    /// # Errors
    /// Names shards that are missing, duplicate, unfinished, damaged, or of another campaign or
    /// program.
    pub fn new(runs: Vec<StoredRun>) -> Result<Shards, LabError> {
        let mut shards = Vec::new();
        for run in runs {
            let shard = shard_of(&run)?;
            is_whole(&run)?;
            shards.push((shard, run));
        }
        shards.sort_by_key(|(shard, _)| *shard);
        let Some((first, of_first)) = shards.first() else {
            return wrong("give the shards of a campaign".into());
        };
        for pair in shards.windows(2) {
            let [(one, a), (other, b)] = pair else {
                continue;
            };
            if one.number() == other.number() && one.count() == other.count() {
                let ids = (&a.info.id, &b.info.id);
                return wrong(format!("{} and {} are both shard {one}", ids.0, ids.1));
            }
        }
        for (shard, run) in &shards[1..] {
            if shard.count() != first.count() {
                return wrong(format!(
                    "{} is shard {first}, and {} is shard {shard}: they divide the campaign differently",
                    of_first.info.id, run.info.id
                ));
            }
            belongs_to(of_first, run)?;
        }
        are_comparable(&shards)?;
        let is_here = |number: &u32| shards.iter().any(|(shard, _)| shard.number() == *number);
        let missing: Vec<String> = (1..=first.count())
            .filter(|number| !is_here(number))
            .map(|number| format!("{number}/{}", first.count()))
            .collect();
        if !missing.is_empty() {
            return wrong(format!(
                "missing: shard {}. Measure it with: fwdlab run CAMPAIGN --shard {}",
                missing.join(", "),
                missing[0]
            ));
        }
        let inputs = inputs(&shards)?;
        let numbers = numbers(&shards)?;
        let are_measured = shards.iter().any(|(_, run)| machines::is_measured(run));
        if are_measured {
            machines::check(&shards)?;
        }
        for ((_, run), numbers) in shards.iter_mut().zip(&numbers) {
            for trial in &mut run.trials {
                renumber(&mut trial.trial, numbers);
            }
            for record in &mut run.rebuilds {
                renumber(&mut record.rebuild, numbers);
            }
            let cases = run.summary.iter_mut().flat_map(|all| &mut all.test_cases);
            for iteration in cases.flat_map(|case| &mut case.iterations) {
                renumber_all(iteration, numbers);
            }
        }
        Ok(Shards {
            runs: shards,
            inputs,
            numbers,
            are_measured,
        })
    }

    /// Returns the text of the campaign file.
    pub fn campaign(&self) -> String {
        let text = self.inputs.get("campaign.toml").cloned();
        String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
    }

    fn all(&self) -> impl Iterator<Item = &StoredRun> {
        self.runs.iter().map(|(_, run)| run)
    }

    /// Returns the head of the merged run.
    fn head(&self, root: &Path, command_line: Vec<String>) -> RunInfo {
        let first = &self.runs[0].1.info;
        let mut info = first.clone();
        let now = Timestamp::now();
        let name = (first.parameters.get("campaign")).and_then(Value::as_str);
        info.id = RunId::free(root, now, name.unwrap_or(CAMPAIGN), entropy(now)).into();
        info.command_line = command_line;
        info.state = RunState::Finished;
        let infos = || self.all().map(|run| &run.info);
        if let Some(earliest) = infos().map(|info| &info.started_at).min() {
            info.started_at.clone_from(earliest);
        }
        info.finished_at = infos().filter_map(|info| info.finished_at.clone()).max();
        info.gaps = infos().flat_map(|info| info.gaps.clone()).collect();
        info.note = None;
        info.parameters.remove(SHARD);
        let parts = self.runs.iter().map(|(shard, run)| ShardRun {
            shard: shard.number(),
            run: run.info.id.clone(),
            kernel: run.info.facts.kernel.clone(),
            cpu_model: run.info.facts.cpu_model.clone(),
            test_bed: run.info.facts.placement.get(TEST_BED).cloned(),
        });
        let parts: Vec<Value> = parts.map(|part| json!(part)).collect();
        info.parameters.insert(SHARDS.into(), parts.into());
        let mut summaries = self.all().filter_map(|run| run.summary.as_ref());
        if summaries.any(|summary| summary.procedure == exact::ID) {
            // shards may have images with different generators
            let boots = self.all().flat_map(|run| &run.boots);
            info.facts.engine = bursts::engine(boots);
        }
        for one in infos() {
            let images = one.facts.placement.iter();
            let images = images.filter(|(name, _)| name.starts_with(IMAGE));
            let images = images.map(|(name, words)| (name.clone(), words.clone()));
            info.facts.placement.extend(images);
        }
        info
    }

    /// Returns the events of all shards that belong to what they measured.
    fn events(&self) -> Vec<Event> {
        let mut all = Vec::new();
        for ((shard, run), numbers) in self.runs.iter().zip(&self.numbers) {
            let label = self.label(*shard, run);
            for mut event in run.events() {
                match &mut event.kind {
                    EventKind::TrialFinished { record } => {
                        renumber(&mut record.trial, numbers);
                        moved(record);
                        label.trial(record);
                    }
                    EventKind::RebuildFinished { record } => {
                        renumber(&mut record.rebuild, numbers);
                        label.rebuild(record);
                    }
                    EventKind::IterationFinished {
                        test_case,
                        iteration,
                    } => {
                        renumber_all(iteration, numbers);
                        label.iteration(test_case, iteration);
                    }
                    EventKind::HookFinished { record } => {
                        record.trial.iter_mut().for_each(|n| renumber(n, numbers));
                    }
                    EventKind::BootFinished { .. }
                    | EventKind::Warning { .. }
                    | EventKind::Note { .. } => {}
                    _ => continue,
                }
                all.push(event);
            }
        }
        all.sort_by(|a, b| a.t.total_cmp(&b.t));
        all
    }

    /// Returns the run of all shards, with its result.
    fn joined(&self, info: RunInfo, events: &[Event]) -> Result<StoredRun, LabError> {
        let (_, first) = &self.runs[0];
        let (mut trials, mut rebuilds) = (Vec::new(), Vec::new());
        for (shard, run) in &self.runs {
            let label = self.label(*shard, run);
            trials.extend(run.trials.iter().cloned().map(|mut trial| {
                moved(&mut trial);
                label.trial(&mut trial);
                trial
            }));
            rebuilds.extend(run.rebuilds.iter().cloned().map(|mut record| {
                label.rebuild(&mut record);
                record
            }));
        }
        trials.sort_by_key(|trial| trial.trial);
        rebuilds.sort_by_key(|record| record.rebuild);
        let mut boots: Vec<_> = self.all().flat_map(|run| run.boots.clone()).collect();
        boots.sort_by_key(|boot| boot.boot);
        let mut warnings = Vec::new();
        for (shard, run) in &self.runs {
            // a number of trials is not that of all
            let counted = invalid(&run.trials);
            let own = run.summary.iter().flat_map(|summary| &summary.warnings);
            for warning in own.filter(|warning| counted.as_ref() != Some(*warning)) {
                let has = |run: &StoredRun| {
                    let of = run.summary.as_ref();
                    of.is_some_and(|summary| summary.warnings.contains(warning))
                };
                let warning = match self.are_measured && !self.all().all(has) {
                    true => format!("shard {}: {warning}", shard.number()),
                    false => warning.clone(),
                };
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        warnings.extend(invalid(&trials));
        let mut summary = Summary {
            run: info.id.clone(),
            test_cases: self.test_cases(&info)?,
            thresholds: Vec::new(),
            warnings,
            ..first
                .summary
                .clone()
                .expect("a shard without a result is refused")
        };
        if self.are_measured {
            let all = || {
                let summaries = self.runs.iter();
                summaries.filter_map(|(shard, run)| Some((shard.number(), run.summary.as_ref()?)))
            };
            summary.noise = trust::of_shards(all().map(|(shard, of)| (shard, &of.noise)));
            summary.control = trust::worst(all().filter_map(|(_, of)| of.control.clone()));
            summary.imix_estimate_l2_bps = None;
            summary
                .warnings
                .extend(machines::differing_facts(&self.runs));
        }
        let mut run = StoredRun {
            info,
            trials,
            rebuilds,
            boots,
            summary: Some(summary.clone()),
            ..first.clone()
        };
        let again = derive_with(&run, || events.to_vec());
        // whole test cases have the result that their shard has
        if let (true, Some(difference)) = (self.are_measured, again.differences.first()) {
            return wrong(format!(
                "the result of a shard does not follow from its trials: {difference}"
            ));
        }
        let (result, _) = again
            .renewed(&summary)
            .map_err(|error| LabError::Preflight(format!("the result of all shards: {error}")))?;
        run.summary = Some(result);
        Ok(run)
    }

    /// Returns the test cases in the order of the campaign, with the iterations of all shards.
    fn test_cases(&self, info: &RunInfo) -> Result<Vec<TestCase>, LabError> {
        let of = |name: &str| info.parameters.get(name);
        let names = of("test_cases").and_then(Value::as_array).into_iter();
        let names = names.flatten().filter_map(Value::as_str);
        let iterations = of("iterations").and_then(Value::as_u64).unwrap_or(0);
        let is_whole = |case: &TestCase| {
            let numbers = case.iterations.iter().map(|one| u64::from(one.iteration));
            // it may have been precise enough
            let last = match &case.stopped {
                Some(_) => case.iterations.len() as u64,
                None => iterations,
            };
            numbers.eq(1..=last)
        };
        let mut cases = Vec::new();
        for name in names {
            let mut own: Vec<TestCase> = Vec::new();
            for (shard, run) in &self.runs {
                let label = self.label(*shard, run);
                let parts = run.summary.iter().flat_map(|summary| &summary.test_cases);
                own.extend(parts.filter(|case| case.test_case == name).map(|part| {
                    let mut part = part.clone();
                    label.case(&mut part);
                    let noise = run.summary.as_ref().map(|summary| &summary.noise);
                    if let (true, None) = (self.are_measured, &part.doubt) {
                        part.doubt = noise.and_then(trust::of_noisy_shard);
                    }
                    part
                }));
            }
            if !self.are_measured && !own.is_empty() {
                let rest = own.split_off(1);
                let all = &mut own[0].iterations;
                all.extend(rest.into_iter().flat_map(|part| part.iterations));
                all.sort_by_key(|one| one.iteration);
            }
            if own.is_empty() || !own.iter().all(is_whole) {
                return wrong(format!(
                    "not every iteration of {name} is in these shards exactly once"
                ));
            }
            cases.extend(own);
        }
        // the references of a shard are next to its test cases
        cases.sort_by_key(|case| case.case.variant.shard);
        Ok(cases)
    }

    /// Returns what marks the measurements of a shard.
    fn label<'a>(&self, shard: Shard, run: &'a StoredRun) -> Label<'a> {
        Label::new(run, self.are_measured.then_some(shard.number()))
    }

    /// Stores all records, files and events.
    fn store(
        &self,
        run: &StoredRun,
        events: Vec<Event>,
        staged: &mut StagedRun,
    ) -> Result<(), LabError> {
        let writer = staged.writer();
        for (name, bytes) in &self.inputs {
            writer.input(name, bytes)?;
        }
        for trial in &run.trials {
            writer.trial(trial)?;
        }
        for record in &run.rebuilds {
            writer.trial(record)?;
        }
        for boot in &run.boots {
            writer.trial(boot)?;
        }
        for ((number, shard), numbers) in self.runs.iter().zip(&self.numbers) {
            let label = self.label(*number, shard);
            for trial in &shard.trials {
                let log = latency_log(trial);
                if let Some((folder, name)) = log.and_then(|log| parts(log)) {
                    let path = shard.path.join(log.unwrap_or_default());
                    let bytes = std::fs::read(&path).map_err(StoreError::system("read", &path))?;
                    writer.raw(folder, trial.trial, name, &bytes)?;
                }
            }
            for boot in &shard.boots {
                for name in [CONSOLE, THROUGH, PAST] {
                    let path = shard.raw_path(&boot.test_case, boot.boot, name);
                    if let Ok(bytes) = std::fs::read(path) {
                        writer.raw(&boot.test_case, boot.boot, name, &bytes)?;
                    }
                }
            }
            for mut record in shard.telemetry() {
                renumber(&mut record.trial, numbers);
                label.telemetry(&mut record);
                writer.telemetry(&record)?;
            }
            for mut hook in shard.hooks() {
                hook.trial.iter_mut().for_each(|n| renumber(n, numbers));
                writer.hook(&hook)?;
            }
        }
        let last = events.last().map_or(0.0, |event| event.t);
        let own = |t, kind| Event {
            t,
            run: run.info.id.clone(),
            kind,
        };
        writer.event(&own(
            0.0,
            EventKind::RunStarted {
                format: EVENT_FORMAT,
                info: Box::new(run.info.clone()),
                estimate_s: 0.0,
                guessed: false,
                steps: (run.trials.len() + run.boots.len()) as u32,
            },
        ))?;
        for event in events {
            writer.event(&own(event.t, event.kind))?;
        }
        if let Some(summary) = &run.summary {
            let summary = Box::new(summary.clone());
            writer.event(&own(last, EventKind::RunFinished { summary }))?;
        }
        Ok(())
    }
}

/// Writes the joined run of all shards to `root`, and returns it. `judge` adds to its result before
/// it is stored, and `page` renders it.
///
/// # Errors
/// Fails if not every iteration is in the shards exactly once, or if the run cannot be stored.
pub fn merge(
    root: &Path,
    shards: &Shards,
    command_line: Vec<String>,
    judge: impl FnOnce(&mut StoredRun),
    page: impl FnOnce(&StoredRun) -> String,
) -> Result<StoredRun, LabError> {
    let events = shards.events();
    let mut run = shards.joined(shards.head(root, command_line), &events)?;
    judge(&mut run);
    let mut staged = RunWriter::stage(root, &run.info)?;
    shards.store(&run, events, &mut staged)?;
    run.path = staged.writer().path().to_owned();
    if let Some(summary) = &run.summary {
        staged.finish(&run.info, summary, &page(&run))?;
    }
    let published: Result<Vec<PathBuf>, _> = publish(root, vec![staged]).into_iter().collect();
    run.path = published?.remove(0);
    Ok(run)
}

fn wrong<T>(reason: String) -> Result<T, LabError> {
    Err(LabError::Preflight(format!("cannot merge: {reason}")))
}

fn shard_of(run: &StoredRun) -> Result<Shard, LabError> {
    let shard = run.info.parameters.get(SHARD).and_then(Value::as_str);
    match shard.and_then(|shard| shard.parse().ok()) {
        Some(shard) => Ok(shard),
        None => wrong(format!(
            "{} is no shard: it was not measured with fwdlab run --shard",
            run.info.id
        )),
    }
}

/// Returns the numbers that the trials of each shard have in the joined run: those of a run that
/// measured all turns in their order. Trials that were cut off, and measured again, are last.
fn numbers(shards: &[(Shard, StoredRun)]) -> Result<Vec<BTreeMap<u32, u32>>, LabError> {
    let info = &shards[0].1.info;
    let of = |name: &str| info.parameters.get(name).cloned().unwrap_or_default();
    let parsed: serde_json::Result<(Vec<String>, u32, Order)> = (|| {
        let [names, iterations, order] = ["test_cases", "iterations", "order"].map(of);
        Ok((
            serde_json::from_value(names)?,
            serde_json::from_value(iterations)?,
            serde_json::from_value(order)?,
        ))
    })();
    let mut all = vec![BTreeMap::new(); shards.len()];
    let rebuilds = shards.iter().enumerate().flat_map(|(at, (_, run))| {
        let own = run.rebuilds.iter();
        own.map(move |record| (at, record.rebuild))
    });
    for ((at, rebuild), number) in rebuilds.zip(1..) {
        all[at].insert(rebuild, number);
    }
    if shards.iter().all(|(_, run)| run.trials.is_empty()) {
        return Ok(all);
    }
    let Ok((names, iterations, order)) = parsed else {
        return wrong(format!("{} does not record its order", info.id));
    };
    let turns = sequence(names.len(), iterations, order, info.seed);
    let turns = turns.iter().zip(0..);
    let places: BTreeMap<(&str, u32), u32> = turns
        .map(|(turn, at)| ((&names[turn.case][..], turn.iteration), at))
        .collect();
    let mut trials = Vec::new();
    for (at, (_, run)) in shards.iter().enumerate() {
        for trial in &run.trials {
            let place = places.get(&(&trial.test_case[..], trial.iteration));
            trials.push((trial.validity.is_cut_off(), place, at, trial.trial));
        }
    }
    trials.sort_unstable();
    for ((_, _, at, trial), number) in trials.into_iter().zip(1..) {
        all[at].insert(trial, number);
    }
    Ok(all)
}

/// Replaces the number of a trial.
fn renumber(trial: &mut u32, numbers: &BTreeMap<u32, u32>) {
    *trial = numbers.get(trial).copied().unwrap_or(*trial);
}

fn renumber_all(iteration: &mut Iteration, numbers: &BTreeMap<u32, u32>) {
    let trials = iteration.trials.iter_mut();
    trials.for_each(|trial| renumber(trial, numbers));
}

fn latency_log(trial: &TrialRecord) -> Option<&str> {
    trial.asked.as_ref()?.latency_log.as_deref()
}

/// Returns the folder of a file of raw data, and its name: `raw/FOLDER/TRIAL/NAME`.
fn parts(path: &str) -> Option<(&str, &str)> {
    let (folder, rest) = path.strip_prefix("raw/")?.split_once('/')?;
    Some((folder, rest.split_once('/')?.1))
}

/// Sets the path of the latencies of a trial to that of its new number.
fn moved(trial: &mut TrialRecord) {
    let path = latency_log(trial).and_then(parts);
    let path = path.map(|(folder, name)| format!("raw/{folder}/{}/{name}", trial.trial));
    if let (Some(path), Some(asked)) = (path, &mut trial.asked) {
        asked.latency_log = Some(path);
    }
}

/// Checks that a shard is finished, and unchanged since then.
fn is_whole(run: &StoredRun) -> Result<(), LabError> {
    let id = &run.info.id;
    if run.state == RunState::Running {
        return wrong(format!("{id} is still running"));
    }
    if run.state != RunState::Finished || run.summary.is_none() {
        return wrong(format!(
            "{id} is not finished: continue it with: fwdlab run --resume {id}"
        ));
    }
    let changed = run.problems.iter().cloned().chain(run.changed_files());
    match changed.into_iter().next() {
        Some(problem) => wrong(format!("{id} is damaged: {problem}")),
        None => Ok(()),
    }
}

/// Checks that the counts of all shards are comparable: the emulated processor depends on the
/// emulator, and each image must be the same in all shards that use it.
fn are_comparable(shards: &[(Shard, StoredRun)]) -> Result<(), LabError> {
    let mut known: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (_, run) in shards {
        let id = &run.info.id;
        for (name, words) in &run.info.facts.placement {
            if name != EMULATOR && !name.starts_with(IMAGE) {
                continue;
            }
            let (other, first) = *known.entry(name).or_insert((id, words));
            if first != words {
                return wrong(format!(
                    "{other} and {id} are not comparable: {name} was {first} in the first and {words} in the second"
                ));
            }
        }
    }
    Ok(())
}

/// Checks that a shard is of the same campaign as another one.
fn belongs_to(first: &StoredRun, other: &StoredRun) -> Result<(), LabError> {
    let (a, b) = (&first.info, &other.info);
    let differ = |what: &str, one: &dyn std::fmt::Display, two: &dyn std::fmt::Display| {
        wrong(format!(
            "{} and {} are not of one campaign: {what} was {one} in the first and {two} in the second",
            a.id, b.id
        ))
    };
    if a.format != b.format {
        return differ("the format of runs", &a.format, &b.format);
    }
    if a.tool_version != b.tool_version {
        return differ("the version of fwdlab", &a.tool_version, &b.tool_version);
    }
    if a.seed != b.seed {
        return differ("the seed", &a.seed, &b.seed);
    }
    let names = a.parameters.keys().chain(b.parameters.keys());
    for name in names.filter(|name| !OWN.contains(&name.as_str())) {
        let [one, two] = [a, b].map(|info| info.parameters.get(name).unwrap_or(&Value::Null));
        if one != two {
            return differ(&format!("`{name}`"), one, two);
        }
    }
    Ok(())
}

/// Returns the inputs of all shards. What each run added itself is kept for each shard, if it
/// differs.
fn inputs(shards: &[(Shard, StoredRun)]) -> Result<BTreeMap<String, Vec<u8>>, LabError> {
    let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (shard, run) in shards {
        for (name, bytes) in run.inputs()? {
            match all.get(&name) {
                Some(known) if *known == bytes => {}
                Some(_) if ADDED.iter().any(|folder| name.starts_with(folder)) => {
                    all.insert(format!("shards/{}/{name}", shard.number()), bytes);
                }
                Some(_) => {
                    return wrong(format!(
                        "{} and {} are not of one campaign: their {name} differ",
                        shards[0].1.info.id, run.info.id
                    ));
                }
                None => {
                    all.insert(name, bytes);
                }
            }
        }
    }
    Ok(all)
}

mod machines;
#[cfg(test)]
mod tests;
