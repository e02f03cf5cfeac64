//! `fwdlab import netbenches`: imports published measurements of others as stored runs, and audits
//! what they publish.
//!
//! `fwdlab-netbenches` does the work; this module has the arguments, the progress and the summary.
//! Start with [`Netbenches::run`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use fwdlab_netbenches::{
    self as netbenches, Audit, BlockFinding, Imported, Options, Progress, SetResult,
};
use serde_json::json;

use super::Global;
use super::run::{catch_signals, page, signalled};
use super::run_screen::command_line;
use crate::exit_code::{Code, Usage};
use crate::output::{self, Counter};

/// Findings of each kind that are listed; `--verbose` and `--json` list all.
const LISTED: usize = 20;

/// The netbenches archive: logs of pkt-gen, 2015 to today
///
/// Every result set (a directory of logs) becomes one stored run, for use with `fwdlab runs show`,
/// `fwdlab compare` and report.html. A run's value is the median of the receiver's samples from 5 s
/// after the first frame received to 2 s before the last sent; the value by the archive's own rule
/// is stored with it. Sets that were imported before are listed and skipped.
///
/// With --audit nothing is imported. For every ministat block of every README, and every file of
/// values, the audit reports whether it follows from the logs, by which generation of ministat, or
/// what differs. Findings are results: the exit code is 0.
#[derive(Debug, Args)]
pub struct Netbenches {
    /// The archive, or a directory of it
    dir: PathBuf,
    /// Only these result sets: a path, or a pattern with * ** ?; everything below a match is
    /// included. May be repeated
    #[arg(long = "set", value_name = "PATH|GLOB")]
    sets: Vec<String>,
    /// Check what follows from the logs, and import nothing
    #[arg(long)]
    audit: bool,
    /// Replace what was imported before
    #[arg(long, alias = "again", conflicts_with = "audit")]
    replace: bool,
}

impl Netbenches {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        if !self.dir.is_dir() {
            return Err(Usage(format!(
                "{} is not a directory: give the archive, or a directory in it",
                self.dir.display()
            ))
            .into());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let signal = catch_signals(&stop)?;
        let code = if self.audit {
            self.audit(global, &stop)?
        } else {
            self.import(global, &stop)?
        };
        Ok(signalled(&signal).unwrap_or(code))
    }

    fn import(&self, global: &Global, stop: &AtomicBool) -> anyhow::Result<Code> {
        let runs = global.runs_root()?;
        let options = Options {
            archive: &self.dir,
            runs: &runs,
            choices: &self.sets,
            again: self.replace,
            tool_version: env!("CARGO_PKG_VERSION"),
            command_line: &command_line(),
            entropy: super::run::random_seed(),
        };
        let started = Instant::now();
        let mut counter = Counter::new(global.verbosity());
        let imported = netbenches::import(&options, stop, &page, &mut |p| show(&mut counter, p))
            .with_context(|| format!("import {}", self.dir.display()))?;
        counter.clear();
        if !imported.unmatched.is_empty() && imported.sets.is_empty() {
            return Err(Usage(format!(
                "no result set of {} matches --set {}",
                self.dir.display(),
                imported.unmatched.join(", --set ")
            ))
            .into());
        }
        if global.json {
            output::json(&document(&imported))?;
        } else {
            print_import(&imported, global, started.elapsed().as_secs_f64());
        }
        let failed = |set: &&netbenches::SetOutcome| matches!(set.result, SetResult::Failed(_));
        if let Some(set) = imported.sets.iter().find(failed) {
            anyhow::bail!(
                "{} could not be stored, such as {}",
                count(
                    imported.sets.iter().filter(failed).count() as u64,
                    "result set"
                ),
                set.path
            );
        }
        Ok(Code::Done)
    }

    fn audit(&self, global: &Global, stop: &AtomicBool) -> anyhow::Result<Code> {
        let started = Instant::now();
        let mut counter = Counter::new(global.verbosity());
        let audit = netbenches::audit(&self.dir, &self.sets, stop, &mut |p| show(&mut counter, p))
            .with_context(|| format!("audit {}", self.dir.display()))?;
        counter.clear();
        if audit.stopped {
            output::note("stopped before everything was read: no findings");
            return Ok(Code::Done);
        }
        if global.json {
            output::json(&json!({
                "blocks": audit.blocks, "files": audit.files, "problems": audit.problems,
            }))?;
        } else {
            output::lines(&findings(&audit, global));
            output::note(&read(&audit.progress, started.elapsed().as_secs_f64()));
        }
        Ok(Code::Done)
    }
}

fn show(counter: &mut Counter, progress: &Progress) {
    counter.show(progress.done as u64, progress.sets as u64, || {
        format!(
            "result sets  {}  {:.0} MB",
            count(progress.tally.receivers, "log"),
            progress.tally.bytes as f64 / 1e6
        )
    });
}

/// Prints what was imported, set by set, and what could not be parsed.
fn print_import(imported: &Imported, global: &Global, seconds: f64) {
    let mut text = String::new();
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for set in &imported.sets {
        let (kind, id, note) = match &set.result {
            SetResult::Imported(id) => ("imported", id, String::new()),
            SetResult::Replaced(id, old) => ("replaced", id, format!("  instead of {old}")),
            SetResult::Already(id) => ("there already", id, String::new()),
            SetResult::Changed(id) => (
                "changed",
                id,
                "  its logs differ; replace it with --replace".to_owned(),
            ),
            SetResult::Failed(reason) => ("failed", reason, String::new()),
        };
        *totals.entry(kind).or_default() += 1;
        let invalid = match set.invalid {
            0 => String::new(),
            n => format!(", {n} without a value"),
        };
        text.push_str(&format!(
            "{kind:<13} {}  {}, {}{invalid}\n              {id}{note}\n",
            printable(&set.path),
            count(set.cases as u64, "test case"),
            count(set.runs as u64, "run"),
        ));
    }
    output::lines(&text);
    for choice in &imported.unmatched {
        output::note(&format!("warning   no result set matches --set {choice}"));
    }
    problems(&imported.problems, global);
    let files: Vec<String> = imported
        .files
        .iter()
        .map(|(kind, n)| format!("{} {n}", words(*kind)))
        .collect();
    output::note(&format!("files: {}", files.join(", ")));
    let totals: Vec<String> = totals
        .iter()
        .map(|(kind, n)| format!("{n} {kind}"))
        .collect();
    let stopped = if imported.stopped {
        "; stopped early"
    } else {
        ""
    };
    output::note(&format!(
        "{}: {}{stopped}",
        count(imported.sets.len() as u64, "result set"),
        totals.join(", ")
    ));
    let progress = Progress {
        tally: imported.tally,
        ..Progress::default()
    };
    output::note(&read(&progress, seconds));
}

fn problems(problems: &[String], global: &Global) {
    let all = global.verbosity() == output::Verbosity::Verbose;
    let shown = if all { problems.len() } else { LISTED };
    for problem in problems.iter().take(shown) {
        output::note(&format!("warning   {}", printable(problem)));
    }
    if problems.len() > shown {
        output::note(&format!(
            "warning   {} more of this kind; --verbose shows all",
            problems.len() - shown
        ));
    }
}

fn document(imported: &Imported) -> serde_json::Value {
    let sets: Vec<_> = imported
        .sets
        .iter()
        .map(|set| {
            let (result, run, note) = match &set.result {
                SetResult::Imported(id) => ("imported", Some(id), None),
                SetResult::Replaced(id, old) => ("replaced", Some(id), Some(old)),
                SetResult::Already(id) => ("already", Some(id), None),
                SetResult::Changed(id) => ("changed", Some(id), None),
                SetResult::Failed(reason) => ("failed", None, Some(reason)),
            };
            json!({
                "set": set.path, "test_cases": set.cases, "runs": set.runs, "runs_invalid": set.invalid,
                "result": result, "run": run, "note": note,
            })
        })
        .collect();
    let tally = &imported.tally;
    let files: BTreeMap<String, u64> = imported
        .files
        .iter()
        .map(|(kind, n)| (words(*kind).to_owned(), *n))
        .collect();
    json!({
        "sets": sets,
        "receiver_logs": tally.receivers, "sender_logs": tally.senders, "logs_unreadable": tally.unreadable,
        "bytes": tally.bytes, "lines": tally.lines, "samples": tally.samples, "lines_unknown": tally.unknown,
        "files": files, "problems": imported.problems, "stopped": imported.stopped,
    })
}

fn words(kind: netbenches::Kind) -> &'static str {
    use netbenches::Kind;
    match kind {
        Kind::Receiver => "receiver logs",
        Kind::Sender => "sender logs",
        Kind::Info => ".info",
        Kind::Pps => ".pps",
        Kind::Equilibrium => ".equilibrium",
        Kind::EquilibriumMax => ".equilibrium.max",
        Kind::Plotted => ".data",
        Kind::Readme => "READMEs and texts",
        Kind::Profile => "profiles",
        Kind::Hook => "outputs of hooks",
        Kind::LabConfiguration => "lab configurations",
        Kind::Picture => "images and plots",
        Kind::Other => "configuration sets and others",
    }
}

/// Returns what was read, in one sentence.
fn read(progress: &Progress, seconds: f64) -> String {
    let tally = &progress.tally;
    let mut text = format!(
        "read {} and {} ({:.1} MB, {}, {}) in {seconds:.1} s",
        count(tally.receivers, "receiver log"),
        count(tally.senders, "sender log"),
        tally.bytes as f64 / 1e6,
        count(tally.lines, "line"),
        count(tally.samples, "sample"),
    );
    if tally.unknown > 0 {
        text.push_str(&format!(
            "; {} not understood",
            count(tally.unknown, "line")
        ));
    }
    if tally.unreadable > 0 {
        text.push_str(&format!("; {} unreadable", count(tally.unreadable, "log")));
    }
    text
}

/// Returns the audit as text: totals, then the values that do not follow from the data, grouped by
/// reason.
fn findings(audit: &Audit, global: &Global) -> String {
    let all = global.verbosity() == output::Verbosity::Verbose;
    let (exact, differing): (Vec<_>, Vec<_>) =
        audit.blocks.iter().partition(|block| block.is_exact());
    let place = |block: &BlockFinding| format!("{}:{}", printable(&block.readme), block.line);
    let mut text = format!(
        "ministat blocks in READMEs: {}, {} follow from the logs\n",
        audit.blocks.len(),
        exact.len()
    );
    let mut models: BTreeMap<String, usize> = BTreeMap::new();
    for block in &exact {
        *models.entry(block.models.join(" ")).or_default() += 1;
    }
    for (models, n) in models {
        text.push_str(&format!("  {n:>5}  by ministat {models}\n"));
    }
    for block in exact.iter().filter(|_| all) {
        text.push_str(&format!(
            "  {}  {}\n",
            place(block),
            printable(&block.status)
        ));
    }
    let sets = exact
        .iter()
        .flat_map(|block| block.sets.iter().map(move |set| (block, set)));
    let taken = sets.filter(|(_, set)| set.as_printed).map(|(block, set)| {
        format!(
            "  {}\n         the row of {} was taken as printed: its logs are not here\n",
            place(block),
            printable(&set.label)
        )
    });
    listed(&mut text, &Vec::from_iter(taken), all);
    let cut = exact
        .iter()
        .filter(|block| !block.without_comparison.is_empty());
    let cut = cut.map(|block| {
        format!(
            "  {}\n         the comparison of {} is missing in the block: it was cut off, or printed with -n\n",
            place(block),
            printable(&block.without_comparison.join(", "))
        )
    });
    listed(&mut text, &Vec::from_iter(cut), all);
    if !differing.is_empty() {
        text.push_str(&format!(
            "\nblocks that do not follow: {}\n",
            differing.len()
        ));
        let differing = differing.iter().map(|block| {
            format!(
                "  {}\n         {}\n",
                place(block),
                printable(&block.status)
            )
        });
        listed(&mut text, &Vec::from_iter(differing), all);
    }
    let exact = audit
        .files
        .iter()
        .filter(|file| file.cause.is_none())
        .count();
    text.push_str(&format!(
        "\nfiles of values: {}, {exact} follow from the logs\n",
        audit.files.len()
    ));
    let mut causes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in &audit.files {
        if let Some(cause) = file.cause {
            let line = format!(
                "  {}\n         {}\n",
                printable(&file.file),
                printable(&file.status)
            );
            causes.entry(cause).or_default().push(line);
        }
    }
    for (cause, lines) in causes {
        text.push_str(&format!("\n{cause}: {}\n", lines.len()));
        listed(&mut text, &lines, all);
    }
    if !audit.problems.is_empty() {
        text.push_str(&format!(
            "\nnot read or not understood: {}\n",
            audit.problems.len()
        ));
        let lines = audit
            .problems
            .iter()
            .map(|p| format!("  {}\n", printable(p)));
        listed(&mut text, &Vec::from_iter(lines), all);
    }
    text
}

fn listed(text: &mut String, lines: &[String], all: bool) {
    let shown = if all { lines.len() } else { LISTED };
    text.extend(lines.iter().take(shown).map(String::as_str));
    if lines.len() > shown {
        text.push_str(&format!("  {} more: --verbose\n", lines.len() - shown));
    }
}

/// Escapes names from other people's files, so that none of them controls the terminal.
fn printable(text: &str) -> String {
    text.replace(fwdlab_report::text::steers, "?")
}

fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
