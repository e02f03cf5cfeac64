//! Checks whether the figures that the archive publishes follow from its logs: every ministat block
//! of every README, and every file of values.
//!
//! Blocks are not parsed into claims: the whole block is recomputed from the logs, by every
//! generation of ministat, and compared line by line. If that fails, the difference is reported
//! with its cause, if one is found. Start with [`audit`].

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
use super::readme::{blocks, unmatched_lines};
use super::set::{ResultSet, sets};
use super::walk::{Tree, shown_path};
use evidence::{CaseFacts, Evidence};

/// Largest README that is read.
const LARGEST_README: u64 = 16 << 20;

/// The result of an audit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Audit {
    /// One finding per ministat block, by README and line.
    pub blocks: Vec<BlockFinding>,
    /// One finding per file of values.
    pub files: Vec<FileFinding>,
    /// Statistics of the logs that were read.
    pub progress: Progress,
    /// What could not be read or understood, in sentences.
    pub problems: Vec<String>,
    /// True if it was stopped early; then there are no findings.
    pub stopped: bool,
}

/// Whether a ministat block follows from the logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockFinding {
    /// The README, relative to the archive.
    pub readme: String,
    /// The block's first line.
    pub line: usize,
    /// `exact`, or the difference.
    pub status: String,
    /// Sets whose comparison with the first is not in the block: omitted, or printed with `-n`.
    /// Only the existing parts were compared with the logs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_comparison: Vec<String>,
    /// Generations of ministat that print this block: `debian`, `2015`, `2016`, `freebsd`.
    pub models: Vec<&'static str>,
    /// How the median of an even number of samples was taken, per run: `mean`, `upper`; both if
    /// they are equal.
    pub median_rules: Vec<&'static str>,
    /// The files from which the sets of the block follow.
    pub sources: Vec<String>,
    /// For each set: name in the block, source of its values.
    pub sets: Vec<SetFinding>,
}

/// One set of a block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetFinding {
    /// Its name in the block.
    pub label: String,
    /// Source of its values; absent if nothing in the archive yields them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// True if it is from another directory than the README's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub borrowed: bool,
    /// True if its row was taken as printed, because its logs are not available; the rest of the
    /// block was computed from the row.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub as_printed: bool,
}

/// Whether a file of values follows from the logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileFinding {
    /// The file, relative to the archive.
    pub file: String,
    /// `exact`, or the difference.
    pub status: String,
    /// The cause, as far as the archive shows it: `run removed`, `log overwritten`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// Median rules that yield its values.
    pub median_rules: Vec<&'static str>,
    /// The logs.
    pub sources: Vec<String>,
}

impl BlockFinding {
    /// Returns true if it follows from the logs.
    pub fn is_exact(&self) -> bool {
        self.status == EXACT
    }
}

/// The status if everything follows.
const EXACT: &str = "exact";

/// Audits the archive below `root`; with `choices`, only the chosen result sets and what is below
/// them. Sources are searched in the whole archive.
///
/// # Errors
/// [`StoreError::System`] if the archive cannot be read.
pub fn audit(
    root: &Path,
    choices: &[String],
    stop: &AtomicBool,
    listener: &mut dyn FnMut(&Progress),
) -> Result<Audit, StoreError> {
    let tree = Tree::scan(root)?;
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
    let mut evidence = Evidence::collect(root, &all, facts.into_iter().map(|(_, cases)| cases));
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
                    for (line, text) in unmatched_lines(&text, &found) {
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
