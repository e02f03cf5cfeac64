//! Does what the archive publishes follow from its logs? Every ministat block of every README, and every file of values.
//!
//! Blocks are not parsed into claims: the whole block is computed again from the logs, by every generation of ministat, and
//! compared line by line. Where that fails it says what differs, and looks for the cause. Start with [`audit`].

mod blocks;
mod evidence;
mod files;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use fwdlab_store::StoreError;

use crate::parallel;

use super::importing::Progress;
use super::names::Kind;
use super::readme::{blocks, strays};
use super::set::{ResultSet, sets};
use super::walk::{Tree, shown_path};
use evidence::{CaseFacts, Evidence};

/// Largest README that is read.
const LARGEST_README: u64 = 16 << 20;

/// What follows and what does not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Audit {
    /// One finding per ministat block, by README and line.
    pub blocks: Vec<BlockFinding>,
    /// One finding per file of values.
    pub files: Vec<FileFinding>,
    /// What was read.
    pub progress: Progress,
    /// What could not be read or understood, in sentences.
    pub problems: Vec<String>,
    /// It was stopped before everything was read; there are no findings then.
    pub stopped: bool,
}

/// Whether a ministat block follows from the logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockFinding {
    /// The README, relative to the archive.
    pub readme: String,
    /// The block's first line.
    pub line: usize,
    /// `exact`, or what differs.
    pub status: String,
    /// Sets whose comparison with the first is not in the block: cut off, or printed with `-n`. Only what is there was held
    /// against the logs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_comparison: Vec<String>,
    /// Generations of ministat that print this block: `debian`, `2015`, `2016`, `freebsd`.
    pub models: Vec<&'static str>,
    /// How the median of an even number of samples was taken, per run: `mean`, `upper`; both where it makes no difference.
    pub median_rules: Vec<&'static str>,
    /// The files that the sets of the block follow from.
    pub sources: Vec<String>,
    /// Set by set: name in the block, where its values come from.
    pub sets: Vec<SetFinding>,
}

/// One set of a block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetFinding {
    /// Its name in the block.
    pub label: String,
    /// Where its values come from; absent when nothing in the archive gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// It is borrowed from another directory than the README's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub borrowed: bool,
    /// Its row was taken as printed, for its logs are not here; what the block says of it was computed from the row.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub as_printed: bool,
}

/// Whether a file of values follows from the logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileFinding {
    /// The file, relative to the archive.
    pub file: String,
    /// `exact`, or what differs.
    pub status: String,
    /// Why, as far as the archive shows: `run removed`, `log overwritten`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// Median rules that give its values.
    pub median_rules: Vec<&'static str>,
    /// The logs.
    pub sources: Vec<String>,
}

impl BlockFinding {
    /// Does it follow from the logs?
    pub fn is_exact(&self) -> bool {
        self.status == EXACT
    }
}

/// Everything follows.
const EXACT: &str = "exact";

/// Audits the archive below `root`; with `choices`, what lies in or below the chosen result sets. Sources are searched in the
/// whole archive.
///
/// # Errors
/// [`StoreError::System`] when the archive cannot be read.
pub fn audit(
    root: &Path,
    choices: &[String],
    stop: &AtomicBool,
    listener: &mut dyn FnMut(&Progress),
) -> Result<Audit, StoreError> {
    let tree = Tree::of(root)?;
    let all = sets(&tree);
    let mut audit = Audit {
        problems: tree.problems.clone(),
        ..Audit::default()
    };
    audit.progress.sets = all.len();
    let mut facts: Vec<(usize, Vec<CaseFacts>)> = Vec::new();
    let numbered: Vec<(usize, &ResultSet)> = all.iter().enumerate().collect();
    parallel::each(
        &numbered,
        stop,
        |(number, set)| (*number, CaseFacts::read(root, set)),
        |(number, cases)| {
            audit.progress.done += 1;
            for run in cases.iter().flat_map(|case| &case.runs) {
                audit.progress.tally.add(&run.tally);
            }
            facts.push((number, cases));
            listener(&audit.progress);
            true
        },
    );
    if stop.load(Ordering::Relaxed) {
        audit.stopped = true;
        return Ok(audit);
    }
    facts.sort_by_key(|(number, _)| *number);
    let is_chosen = |path: &Path| {
        choices.is_empty() || {
            let here = ResultSet {
                path: shown_path(path),
                directory: path.to_owned(),
                home: path.to_owned(),
                cases: Vec::new(),
            };
            choices.iter().any(|choice| here.is_chosen_by(choice))
        }
    };
    let mut evidence = Evidence::of(root, &all, facts.into_iter().map(|(_, cases)| cases));
    let figures: Vec<FileFinding> = evidence.files(&mut audit.problems);
    let chosen = |finding: &FileFinding| {
        is_chosen(Path::new(&finding.file).parent().unwrap_or(Path::new("")))
    };
    audit.files = figures.into_iter().filter(chosen).collect();
    for directory in tree.directories.keys().filter(|path| is_chosen(path)) {
        for file in tree.files(directory, Kind::Readme) {
            let path = directory.join(&file.file_name);
            match read_readme(root, &path) {
                Ok(text) => {
                    let found = blocks(&text);
                    for (line, text) in strays(&text, &found) {
                        audit.problems.push(format!(
                            "{}:{line}: the header of a ministat table without a table: {text}",
                            shown_path(&path)
                        ));
                    }
                    for block in &found {
                        audit.blocks.push(evidence.judge(&path, block));
                    }
                }
                Err(problem) => audit.problems.push(problem),
            }
        }
    }
    audit
        .blocks
        .sort_by(|a, b| (&a.readme, a.line).cmp(&(&b.readme, b.line)));
    audit.files.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(audit)
}

fn read_readme(root: &Path, path: &Path) -> Result<Vec<u8>, String> {
    let full = root.join(path);
    let problem = |error| format!("cannot read {}: {error}", shown_path(path));
    let size = fs::metadata(&full).map_err(problem)?.len();
    if size > LARGEST_README {
        return Err(format!(
            "{} has {size} bytes, too many for a text, and was not searched",
            shown_path(path)
        ));
    }
    fs::read(&full).map_err(problem)
}
