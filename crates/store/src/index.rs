//! Which runs there are: the newest first, each with its state and a line about its result.
//!
//! It loads no trials, and nothing it meets stops it: a damaged run or a foreign directory is listed with what is wrong.
//! Hidden directories, files and symbolic links are passed over. Start with [`list`].
//!
//! Note: every listing reads the heads and summaries of all runs: 70 ms for a thousand runs in a debug build
//! (`listing_is_fast_enough` in the tests). An index in a database would have to be kept true against people who copy
//! and delete directories; it can wait until such a measurement asks for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use model::outcome::{Found, Unit};
use model::result::{RunInfo, RunState, Summary};

use crate::error::StoreError;
use crate::files::{NEW_PREFIX, RUN, TRASH_PREFIX, is_locked, remove_tree};
use crate::id::RunId;
use crate::read::{Head, head, summary};

/// A run that is being created for longer than this has lost its process.
const CREATION_TIME: Duration = Duration::from_secs(60);

/// One line of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEntry {
    /// Name of its directory, which is the id of the run.
    pub id: String,
    /// Its directory.
    pub path: PathBuf,
    /// The head of the run, as written; absent where it cannot be read: the problems say why.
    pub info: Option<RunInfo>,
    /// How it stands now, as [`crate::StoredRun::state`].
    pub state: Option<RunState>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The result in one line.
    pub result: Option<String>,
    /// What is missing or damaged, in sentences.
    pub problems: Vec<String>,
}

/// All runs in `root`, the newest first, what cannot be dated last. No such directory: no runs.
///
/// Removes what a killed process left of runs that it was creating or removing.
///
/// # Errors
/// [`StoreError::System`] when the directory itself cannot be read.
pub fn list(root: &Path) -> Result<Vec<RunEntry>, StoreError> {
    let mut entries: Vec<_> = names(root)?.into_iter().map(|id| entry(root, id)).collect();
    entries.sort_by(|a, b| (b.started_at, &b.id).cmp(&(a.started_at, &a.id)));
    Ok(entries)
}

fn entry(root: &Path, id: String) -> RunEntry {
    let path = root.join(&id);
    let mut entry = RunEntry {
        id,
        info: None,
        state: None,
        started_at: None,
        result: None,
        problems: Vec::new(),
        path,
    };
    match head(&entry.path) {
        Ok(Head {
            info,
            state,
            problems,
        }) => {
            entry.problems = problems;
            entry.result =
                summary(&entry.path, state, &mut entry.problems).map(|s| in_one_line(&s));
            entry.started_at = info
                .started_at
                .parse()
                .map_err(|error| entry.problems.push(format!("started_at: {error}")))
                .ok();
            entry.state = Some(state);
            entry.info = Some(info);
        }
        Err(error) => entry.problems.push(error.to_string()),
    }
    entry
}

/// Names of all directories in `root`, hidden ones left out, the latest date first.
pub(crate) fn names(root: &Path) -> Result<Vec<String>, StoreError> {
    let directory = match fs::read_dir(root) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::system("read", root)(error)),
    };
    let mut names = Vec::new();
    for entry in directory {
        let entry = entry.map_err(StoreError::system("read", root))?;
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(NEW_PREFIX) || name.starts_with(TRASH_PREFIX) {
            clean(&entry.path(), &name);
        } else if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort_by(|a, b| b.cmp(a));
    Ok(names)
}

/// Could it be meant when somebody names a run? Foreign directories never are.
pub(crate) fn is_run(root: &Path, name: &str) -> bool {
    RunId::suffix_of(name).is_some() || root.join(name).join(RUN).is_file()
}

/// Removes a left-over, if it is one; where that fails (a read-only directory), the next listing tries again.
fn clean(path: &Path, name: &str) {
    let old = || {
        fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > CREATION_TIME))
    };
    if name.starts_with(TRASH_PREFIX) || (old() && matches!(is_locked(path), Ok(false))) {
        let _ = remove_tree(path);
    }
}

/// `64B-1flow-ipv4 1.421 Mpps ± 0.003, 5 more`, or `nft ...: -2.10 % ± 0.40`.
fn in_one_line(summary: &Summary) -> String {
    let more = |all: usize| match all {
        0 | 1 => String::new(),
        _ => format!(", {} more", all - 1),
    };
    let mut line = if let Some(comparison) = summary.comparisons.first() {
        let difference = match (comparison.difference_percent, comparison.interval_percent) {
            (Some(difference), Some([lower, upper])) => {
                format!("{difference:+.2} % ± {:.2}", (upper - lower) / 2.0)
            }
            (Some(difference), None) => format!("{difference:+.2} %"),
            (None, _) => "no result".to_owned(),
        };
        let all = summary.comparisons.len();
        // a configuration may be several lines of commands
        let words: Vec<&str> = comparison.configuration.split_whitespace().collect();
        format!("{}: {difference}{}", words.join(" "), more(all))
    } else if let Some(case) = summary.imported.first() {
        let median = case.ours.median_pps.or(case.legacy.median_pps);
        let rate = match (median, case.throughput_l2_bps) {
            (Some(pps), _) => in_mpps(pps, None),
            (None, Some(bps)) => format!("{:.1} Mbit/s L2", bps / 1e6),
            (None, None) => "no result".to_owned(),
        };
        format!("{} {rate}{}", case.test_case, more(summary.imported.len()))
    } else if let Some(case) = summary.cases.first() {
        let result = match case.figures.first() {
            Some(figure) if figure.unit == Unit::FramesPerSecond => {
                in_mpps(figure.median, figure.interval_half_width)
            }
            Some(figure) => format!("{} {:.4}", figure.name, figure.median),
            None => "no result".to_owned(),
        };
        format!("{} {result}{}", case.test_case, more(summary.cases.len()))
    } else if let Some(case) = summary.test_cases.first() {
        let rate = match case.forwarding_rate_pps {
            Some(pps) => in_mpps(pps, case.interval_half_width_pps),
            None => "no result".to_owned(),
        };
        format!(
            "{} {rate}{}",
            case.test_case,
            more(summary.test_cases.len())
        )
    } else if let Some(outcome) = summary.outcomes.first() {
        let result = match &outcome.found {
            Found::Throughput(found) => found.throughput_pps.map(|pps| in_mpps(pps, None)),
            _ => None,
        };
        format!(
            "{} {}B {}{}",
            outcome.found.procedure(),
            outcome.frame_size_bytes,
            result.as_ref().unwrap_or(&outcome.verdict),
            more(summary.outcomes.len())
        )
    } else {
        "no result".to_owned()
    };
    if summary.noise.too_noisy {
        line.push_str("; the machine was too noisy");
    }
    line
}

fn in_mpps(pps: f64, half_width_pps: Option<f64>) -> String {
    let half_width = half_width_pps.map_or(String::new(), |pps| format!(" ± {:.3}", pps / 1e6));
    format!("{:.3} Mpps{half_width}", pps / 1e6)
}
