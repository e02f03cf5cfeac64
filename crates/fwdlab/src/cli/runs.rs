//! `fwdlab runs`: lists, shows, verifies and removes stored runs. Start with [`Runs::run`].

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use fwdlab_lab::run::THROUGH;
use fwdlab_lab::run::flame::SAMPLES;
use fwdlab_model::facts::TEST_BED;
use fwdlab_model::import::is_chosen;
use fwdlab_model::instructions::BootRecord;
use fwdlab_model::result::RunState;
use fwdlab_report::html::ShownFacts;
use fwdlab_report::listing;
use fwdlab_report::number::counted;
use fwdlab_report::rows;
use fwdlab_report::run::{CaseProfile, Counted};
use fwdlab_stats::ministat::Model;
use fwdlab_store::{Roots, RunEntry, StoreError};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Global;
use super::archive::{Export, Import};
use super::label::{Note, Tag};
use super::merge::Merge;
use super::prune::Prune;
use super::rebuild::Rebuild;
use super::report::{self, FormatOptions, Loaded};
use super::run::{Document, case_profile, kept_in};
use super::steer::Steer;
use crate::exit_code::{Code, Usage};
use crate::output::{self, Level};

/// What to do with stored runs. A run is named by its id, a unique prefix of it or of its last four
/// characters, a tag that no other run has, or `@1` for the latest, `@2` for the one before.
#[derive(Debug, Subcommand)]
pub enum Runs {
    /// List runs, newest first
    Ls(List),
    /// Show the result of a run again
    Show {
        /// Run: an id, a tag, or @1 for the latest
        run: String,
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Explain why each trial was made, and its result
        #[arg(long)]
        explain: bool,
        /// Facts of the host that the page of --format html includes; stored pages are brief
        #[arg(long, value_enum, default_value_t)]
        facts: Facts,
    },
    /// Print the values of runs for other programs such as DuckDB: a row per figure and value, with
    /// all labels
    Table {
        /// Runs [default: all]
        #[arg(value_name = "RUN")]
        names: Vec<String>,
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: RowFormat,
        #[command(flatten)]
        which: List,
    },
    /// Check whether runs are unchanged, and whether their results follow from their trials
    Verify {
        /// Runs [default: all]
        #[arg(value_name = "RUN")]
        names: Vec<String>,
    },
    /// Pause, resume or stop a run in progress, or skip its test case; needs write access to its
    /// directory
    Steer(Steer),
    /// Write finished runs to one file, for fwdlab runs import on another machine
    Export(Export),
    /// Import runs from an export file: all of them unchanged, or none
    Import(Import),
    /// Join the shards of a campaign (fwdlab run --shard) into one run, as if one process had
    /// measured it
    Merge(Merge),
    /// Tag a run: find and name it by its tags, and protect it from runs prune
    Tag(Tag),
    /// Attach a note to a run
    Note(Note),
    /// Compute the results and pages of runs again from their trials, with the statistics of this
    /// version
    Rebuild(Rebuild),
    /// Remove old runs by rule; without --yes, only list them
    Prune(Prune),
    /// Remove runs
    Rm {
        /// Runs: ids, tags, or @1 for the latest
        // not `runs`, which is the id of the global option --runs: clap requires one type per id
        #[arg(required = true, value_name = "RUN")]
        names: Vec<String>,
    },
}

/// Which runs are listed, and in which order.
#[derive(Debug, Args)]
pub struct List {
    /// Only runs of this kind: quick, throughput, ramp, rfc2544, soak, import, ...
    #[arg(long)]
    kind: Option<String>,
    /// Only imported result sets at this path or below it; `*`, `**` and `?` as in fwdlab import
    /// netbenches --set
    #[arg(long, value_name = "GLOB")]
    set: Option<String>,
    /// Only runs measured at this time (UTC) or later: 2026-11-21, 2026-11-21T08:50:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Only runs that have this tag
    #[arg(long)]
    tag: Option<String>,
    /// Order, newest first: by the time the run began in this store, or the time it was measured;
    /// these differ for imported runs
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
}

/// By which time runs are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Sort {
    /// When the run began: the order of @1, @2, ...
    #[default]
    Began,
    /// When it was measured
    Measured,
}

/// Parses a day or a time, in UTC.
fn since(text: &str) -> Result<Timestamp, String> {
    let day = || -> Option<Timestamp> {
        let day: Date = text.parse().ok()?;
        Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let time = text.parse().ok().or_else(day);
    time.ok_or_else(|| "give a date or a time: 2026-11-21, 2026-11-21T08:50:00Z".into())
}

/// How much of the host a page tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Facts {
    /// What a reader needs to judge the figures
    #[default]
    Brief,
    /// Also the kernel's command line and directories of the command, which may name disks, hosts,
    /// keys and people
    Full,
}

impl Facts {
    /// Returns the equivalent type of the report crate.
    pub fn shown(self) -> ShownFacts {
        match self {
            Facts::Brief => ShownFacts::Brief,
            Facts::Full => ShownFacts::Full,
        }
    }
}

/// The formats of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// As at the end of the run
    #[default]
    Text,
    /// For an issue or an email
    Markdown,
    /// Plain numbers in base units
    Csv,
    /// The page
    Html,
    /// Everything, with every trial
    Json,
}

/// The formats of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RowFormat {
    /// A JSON object per line
    #[default]
    Jsonl,
    /// The same columns; tags and labels are JSON
    Csv,
}

impl Runs {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let roots = &global.runs_roots()?;
        match self {
            Runs::Ls(requested) => list(roots, &requested, global),
            Runs::Table {
                names,
                format,
                which,
            } => table(roots, &names, format, &which, global),
            Runs::Verify { names } => verify(roots, &names, global),
            Runs::Show {
                run,
                format,
                explain,
                facts,
            } => show(roots, &run, format, explain, facts, global),
            Runs::Steer(steer) => steer.run(roots, global),
            Runs::Export(export) => export.run(roots, global),
            Runs::Import(import) => import.run(roots, global),
            Runs::Merge(merge) => merge.run(roots, global),
            Runs::Tag(tag) => tag.run(roots, global),
            Runs::Note(note) => note.run(roots, global),
            Runs::Rebuild(rebuild) => rebuild.run(roots, global),
            Runs::Prune(prune) => prune.run(roots, global),
            Runs::Rm { names } => remove(roots, &names, global),
        }
    }
}

impl List {
    /// Returns the requested runs in the requested order, numbered like all runs.
    fn choose(&self, all: Vec<RunEntry>) -> Vec<(usize, RunEntry)> {
        let mut entries: Vec<_> = (1..).zip(all).collect();
        entries.retain(|(_, entry)| self.matches_filter(entry));
        if self.sort == Sort::Measured {
            entries.sort_by_key(|(_, entry)| Reverse(entry.measured_at));
        }
        entries
    }

    fn matches_filter(&self, entry: &RunEntry) -> bool {
        let info = entry.info.as_ref();
        let set = || info?.parameters.get("set")?.as_str();
        (self.kind.as_ref()).is_none_or(|kind| info.is_some_and(|info| info.kind == *kind))
            && (self.set.as_ref()).is_none_or(|glob| set().is_some_and(|set| is_chosen(set, glob)))
            && (self.tag.as_ref()).is_none_or(|tag| entry.labels.tags.contains(tag))
            && (self.since).is_none_or(|since| entry.measured_at.is_some_and(|at| at >= since))
    }
}

fn list(roots: &Roots, requested: &List, global: &Global) -> anyhow::Result<Code> {
    let all = fwdlab_store::list(roots)?;
    let is_empty = all.is_empty();
    let entries = requested.choose(all);
    if global.json {
        let infos = entries.iter().filter_map(|(_, e)| e.info.as_ref());
        output::json(&infos.collect::<Vec<_>>())?;
        return Ok(Code::Done);
    }
    let time = |at: Option<Timestamp>| at.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string());
    let states: Vec<String> = entries
        .iter()
        .map(|(_, entry)| {
            let state = entry.state.map(|s| format!("{s:?}").to_lowercase());
            state.unwrap_or_else(|| "damaged".into())
        })
        .collect();
    let lines: Vec<listing::Entry<'_>> = entries
        .iter()
        .zip(&states)
        .map(|((place, entry), state)| listing::Entry {
            place: entry.started_at.map(|_| *place),
            id: &entry.id,
            began: time(entry.started_at),
            measured: time(entry.measured_at.filter(|at| Some(*at) != entry.started_at)),
            state,
            tags: Vec::from_iter(entry.labels.tags.iter().map(String::as_str)).join(" "),
            result: match (&entry.info, &entry.summary, entry.problems.first()) {
                (Some(info), Some(summary), _) => listing::answer(info, summary),
                (_, _, Some(problem)) => problem.clone(),
                (info, _, None) => info
                    .as_ref()
                    .and_then(|info| info.error.clone())
                    .unwrap_or_default(),
            },
        })
        .collect();
    match (lines.is_empty(), is_empty) {
        (false, _) => {
            let levels = entries
                .iter()
                .map(|(_, entry)| fwdlab_report::trust::level(entry.state, entry.summary.as_ref()));
            let levels = std::iter::once(Level::Plain).chain(levels);
            for (level, lines) in levels.zip(listing::lines(&lines)) {
                output::named(level, &lines);
            }
        }
        (true, true) => output::note(&format!(
            "no runs in {roots}; create one with: fwdlab quick"
        )),
        (true, false) => output::note(&format!("none of the runs in {roots} matches")),
    }
    Ok(Code::Done)
}

/// Returns the directories of these runs.
pub(super) fn resolve_all(roots: &Roots, names: &[String]) -> Result<Vec<PathBuf>, StoreError> {
    let names = names.iter();
    names
        .map(|name| fwdlab_store::resolve(roots, name))
        .collect()
}

/// Prints the values of runs, run by run. Names what is missing or damaged; the rows of other runs
/// are complete.
fn table(
    roots: &Roots,
    names: &[String],
    format: RowFormat,
    which: &List,
    global: &Global,
) -> anyhow::Result<Code> {
    if global.json || global.json_stream {
        let words = "runs table prints a row per line, and no document: --format jsonl or csv";
        return Err(Usage(words.into()).into());
    }
    let named = resolve_all(roots, names)?;
    let mut entries = which.choose(fwdlab_store::list_heads(roots)?);
    entries.retain(|(_, entry)| names.is_empty() || named.contains(&entry.path));
    if entries.is_empty() {
        output::note(&format!("none of the runs in {roots} matches"));
    }
    if format == RowFormat::Csv {
        output::result(&rows::csv_head());
    }
    let mut code = Code::Done;
    for (_, entry) in &entries {
        let warn = |reason: &str| output::note(&format!("warning   {}: {reason}", entry.id));
        let run = match fwdlab_store::load_values(&entry.path) {
            Ok(run) => run,
            Err(error) => {
                warn(&error.to_string());
                code = Code::NotValid;
                continue;
            }
        };
        for problem in &run.problems {
            warn(problem);
            // what a killed process left is complete as far as it goes
            if !run.cut_off.contains(problem) {
                code = Code::NotValid;
            }
        }
        let common = rows::RunColumns {
            run: &entry.id,
            kind: &run.info.kind,
            state: run.state,
            measured_at: entry.measured_at.map(|at| at.to_string()),
            tags: entry.labels.tags.iter().map(String::as_str).collect(),
            fwdlab: &run.info.tool_version,
        };
        let bed = run.info.facts.placement.get(TEST_BED).map(String::as_str);
        let mut series = run.series();
        series.extend(run.without_figures());
        let format = match format {
            RowFormat::Jsonl => rows::Format::Jsonl,
            RowFormat::Csv => rows::Format::Csv,
        };
        let text = rows::of_series(&common, bed, &series, format, output::harmless);
        output::bytes(text.as_bytes(), &[]);
    }
    Ok(code)
}

/// Checks that files are unchanged, and that results follow from the trials.
fn verify(roots: &Roots, names: &[String], global: &Global) -> anyhow::Result<Code> {
    let mut directories = resolve_all(roots, names)?;
    if names.is_empty() {
        directories.extend(
            fwdlab_store::list(roots)?
                .into_iter()
                .map(|entry| entry.path),
        );
    }
    let mut all = Vec::new();
    for directory in &directories {
        let id = directory.file_name().unwrap_or_default().to_string_lossy();
        let found = verified(directory, id.into_owned());
        if !global.json {
            output::lines(&found.text());
        }
        all.push(found);
    }
    match global.json {
        true => output::json(&all)?,
        false if all.is_empty() => output::note(&format!("no runs in {roots}")),
        false => {
            let of = |integrity| all.iter().filter(|run| run.integrity == integrity).count();
            output::note(&format!(
                "{}: {} intact, {} incomplete, {} damaged",
                counted(all.len() as u64, "run"),
                of(Integrity::Intact),
                of(Integrity::Incomplete),
                of(Integrity::Damaged)
            ));
        }
    }
    let is_damaged = |run: &Verified| run.integrity == Integrity::Damaged;
    Ok(match all.iter().any(is_damaged) {
        false => Code::Done,
        true => Code::NotValid,
    })
}

/// The state of a run's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Integrity {
    /// Files are unchanged, and the result follows from them.
    Intact,
    /// Files are unchanged, but the end is missing: the process was killed or is still running.
    Incomplete,
    /// Files have changed, or the result does not follow from them.
    #[default]
    Damaged,
}

/// The outcome of the verification of a run.
#[derive(Debug, Default, Serialize)]
struct Verified {
    run: String,
    integrity: Integrity,
    /// True if its files have checksums.
    protected: bool,
    /// Parts that are missing because the process was killed or is still running.
    missing: Vec<String>,
    /// All changed files, and results that do not follow from the trials.
    differences: Vec<String>,
    /// Parts of the result that were derived again and agree.
    derived: Vec<String>,
    /// Parts of the result that cannot be derived, and why.
    not_derived: Vec<String>,
}

impl Verified {
    fn text(&self) -> String {
        let state = match self.integrity {
            Integrity::Intact => "intact",
            Integrity::Incomplete => "incomplete",
            Integrity::Damaged => "DAMAGED",
        };
        let mut text = format!("{}  {state}", self.run);
        if !self.protected && self.integrity != Integrity::Damaged {
            text += " as far as can be checked: it is not protected, because it was written before checksums existed";
        }
        for difference in self.missing.iter().chain(&self.differences) {
            text += &format!("\n  {difference}");
        }
        if !self.derived.is_empty() {
            text += &format!(
                "\n  follows from what was measured: {}",
                self.derived.join(", ")
            );
        }
        for reason in &self.not_derived {
            text += &format!("\n  not derived: {reason}");
        }
        text
    }
}

fn verified(directory: &Path, id: String) -> Verified {
    let mut found = Verified {
        run: id,
        ..Verified::default()
    };
    let run = match fwdlab_store::load(directory) {
        Ok(run) => run,
        Err(error) => {
            found.differences.push(error.to_string());
            return found;
        }
    };
    found.protected = run.is_protected;
    let damage = run
        .problems
        .iter()
        .filter(|problem| !run.cut_off.contains(problem));
    found.differences.extend(damage.cloned());
    found.missing.clone_from(&run.cut_off);
    if run.state == RunState::Running {
        found.missing.push("it is still running".into());
    }
    found.differences.extend(run.changed_files());
    let again = fwdlab_lab::run::verify::derive(&run);
    found.differences.extend(again.differences);
    found.derived.extend(again.derived);
    found.not_derived.extend(again.not_derived);
    found.integrity = match (found.differences.is_empty(), found.missing.is_empty()) {
        (false, _) => Integrity::Damaged,
        (true, false) => Integrity::Incomplete,
        (true, true) => Integrity::Intact,
    };
    found
}

/// Prints the result of a run in any format, all of it from stored data.
fn show(
    roots: &Roots,
    name: &str,
    request: Format,
    explain: bool,
    facts: Facts,
    global: &Global,
) -> anyhow::Result<Code> {
    let format = match (global.json, request) {
        (false, format) => format,
        (true, Format::Text | Format::Json) => Format::Json,
        (true, _) => {
            return Err(Usage("--json and --format select different formats".into()).into());
        }
    };
    let loaded = Loaded::open(roots, name)?;
    let run = &loaded.run;
    if format == Format::Json {
        output::json(&Document::new(run))?;
        return Ok(Code::Done);
    }
    let Some(summary) = &run.summary else {
        let reason = run.info.error.as_deref().unwrap_or("it has no summary");
        let state = format!("{:?}", run.state).to_lowercase();
        let left = format!(
            "{}  {state}: {reason}\nkept: {} and {}",
            run.info.id,
            counted(run.trials.len() as u64, "trial"),
            counted(run.rebuilds.len() as u64, "rebuild")
        );
        if format != Format::Text {
            return Err(Usage(format!("there is no result to print: {left}")).into());
        }
        output::lines(&format!("{left}\n{}", kept_in(&run.path)));
        return Ok(Code::Done);
    };
    let requested = match format {
        Format::Text | Format::Json => {
            let level = fwdlab_report::trust::level(Some(run.state), Some(summary));
            let mut text = fwdlab_report::text::quick(&run.info, summary);
            if explain {
                text.plain(&format!(
                    "\n{}\n",
                    fwdlab_report::text::explain(&run.trials)
                ));
            }
            output::answer(level, text);
            output::lines(&kept_in(&run.path));
            match fwdlab_store::labels(&run.path) {
                Ok(labels) => print_labels(&labels),
                Err(error) => output::note(&format!("warning   {error}")),
            }
            return Ok(Code::Done);
        }
        // a short version for messages; the report has all
        Format::Markdown => {
            output::result(&fwdlab_report::markdown::summary(&run.info, summary));
            return Ok(Code::Done);
        }
        Format::Csv => report::Format::Csv,
        Format::Html => report::Format::Html,
    };
    let made = FormatOptions {
        facts,
        model: Model::default(),
    };
    for (_, bytes) in made.files(requested, std::slice::from_ref(&loaded), false)? {
        output::result(&String::from_utf8_lossy(&bytes));
    }
    Ok(Code::Done)
}

/// Prints tags and note of a run.
fn print_labels(labels: &fwdlab_store::Labels) {
    if !labels.tags.is_empty() {
        let tags = Vec::from_iter(labels.tags.iter().map(String::as_str));
        output::lines(&format!("tags      {}", tags.join(" ")));
    }
    for (at, line) in labels.note.iter().flat_map(|note| note.lines()).enumerate() {
        let head = if at == 0 { "note" } else { "" };
        output::lines(&format!("{head:<10}{line}"));
    }
}

/// Returns the stored profiles by call path, if any boot has one.
pub(super) fn profiles(run: &fwdlab_store::StoredRun) -> Vec<CaseProfile> {
    let of = |boot: &BootRecord| {
        let path = run.raw_path(&boot.test_case, boot.boot, THROUGH);
        let text = std::fs::read_to_string(path).ok()?;
        Some(case_profile(boot, &text.parse().ok()?))
    };
    let sampled = run.summary.iter().flat_map(|summary| &summary.test_cases);
    let sampled = sampled.filter_map(|case| {
        let path = run.raw_path(&case.test_case, 0, SAMPLES);
        let text = std::fs::read_to_string(path).ok()?;
        Some(CaseProfile {
            test_case: case.test_case.clone(),
            counted: Counted::Samples(text.parse().ok()?),
        })
    });
    run.boots.iter().filter_map(of).chain(sampled).collect()
}

fn remove(roots: &Roots, names: &[String], global: &Global) -> anyhow::Result<Code> {
    // resolve all names first: @1 changes when a run is removed
    let directories = resolve_all(roots, names)?;
    for directory in &directories {
        fwdlab_store::remove(directory)
            .with_context(|| format!("remove {}", directory.display()))?;
        output::note(&format!("removed   {}", directory.display()));
    }
    if global.json {
        output::json(&serde_json::json!({ "removed": directories }))?;
    }
    Ok(Code::Done)
}
