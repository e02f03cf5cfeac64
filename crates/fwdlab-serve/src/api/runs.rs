//! `/api/runs`: a page of the list of runs, newest first, optionally filtered.
//!
//! Lines of runs that have ended are kept until their directory changes: with 10,000 runs, reading
//! all of them takes seconds. Other pages choose among them, and read only the chosen runs. Start
//! with [`list`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::extract::{Query, State};
use axum::response::Response;
use fwdlab_model::facts::TEST_BED;
use fwdlab_model::result::{RunInfo, RunState};
use fwdlab_report::listing;
use fwdlab_report::trust::Mark;
use fwdlab_store::{Roots, RunEntry, StoreError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{json, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// Number of runs on a page.
const PAGE: usize = 100;

/// Times of directories are this coarse on some file systems: a directory that changed later may
/// change again without showing it.
const COARSE: Duration = Duration::from_secs(2);

/// The query.
#[derive(Debug, Default, Deserialize)]
pub struct Wanted {
    /// Words and `key:value`, all of which must match; `*` matches any text.
    #[serde(default)]
    q: String,
    /// Number of the page, from 1.
    #[serde(default)]
    page: usize,
}

/// A page of the list.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    /// Number of runs that match.
    total: usize,
    /// Number of runs on a page.
    page_size: usize,
    runs: Vec<&'a Line>,
}

/// One run of the list.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Its directory.
    #[serde(skip)]
    pub path: PathBuf,
    /// The series that it belongs to: the name of its campaign, or its kind.
    #[serde(skip)]
    pub family: String,
    pub id: String,
    kind: String,
    name: String,
    pub bed: String,
    pub state: Option<RunState>,
    /// What the result is worth, if there is one.
    pub mark: Option<Mark>,
    started_at: String,
    /// For imported runs, the date of measurement in their archive.
    measured_at: Option<Timestamp>,
    finished_at: Option<String>,
    test_cases: usize,
    configurations: Vec<String>,
    sizes: Vec<String>,
    result: String,
    problem: Option<String>,
    tags: Vec<String>,
    note: Option<String>,
}

/// The line of a run that has ended.
struct Kept {
    /// When its directory changed last.
    changed: SystemTime,
    line: Arc<Line>,
    /// True if this listing has found its directory.
    found: bool,
}

/// Lines of runs that have ended, by their directories.
#[derive(Default)]
pub struct Lines(Mutex<HashMap<OsString, Kept>>);

impl Lines {
    /// Returns the lines of all runs, the newest measurement first.
    pub fn all(&self, runs: &Roots) -> Result<Vec<Arc<Line>>, StoreError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for (path, changed) in fwdlab_store::directories(runs.clone())? {
            let kept = known.get_mut(path.as_os_str());
            if let Some(kept) = kept.filter(|kept| Some(kept.changed) == changed) {
                kept.found = true;
                all.push((kept.line.measured_at, kept.line.clone()));
                continue;
            }
            let line = Arc::new(line(fwdlab_store::entry(&path)));
            all.push((line.measured_at, line.clone()));
            let has_ended = matches!(line.state, Some(RunState::Finished | RunState::Failed));
            if let Some(changed) = changed.filter(|at| at.elapsed().is_ok_and(|t| t > COARSE))
                && has_ended
            {
                let found = true;
                let kept = Kept {
                    changed,
                    line,
                    found,
                };
                known.insert(path.into_os_string(), kept);
            }
        }
        known.retain(|_, kept| std::mem::take(&mut kept.found));
        all.sort_unstable_by(|(at, a), (bt, b)| bt.cmp(at).then_with(|| b.id.cmp(&a.id)));
        Ok(all.into_iter().map(|(_, line)| line).collect())
    }
}

/// Handles the request.
pub async fn list(
    State(shared): State<Arc<Shared>>,
    Query(requested): Query<Wanted>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let q = requested.q.to_lowercase();
        let terms: Vec<&str> = q.split_whitespace().collect();
        let mut all = shared.lines.all(&shared.runs)?;
        all.retain(|line| terms.iter().all(|term| keeps(line, term)));
        let before = requested.page.saturating_sub(1).saturating_mul(PAGE);
        let runs = all.iter().skip(before).take(PAGE);
        json(&Listed {
            total: all.len(),
            page_size: PAGE,
            runs: runs.map(Arc::as_ref).collect(),
        })
    })
    .await
}

fn family(info: &RunInfo) -> String {
    let campaign = info.parameters.get("campaign").and_then(|c| c.as_str());
    campaign.unwrap_or(&info.kind).to_owned()
}

/// Returns where it was measured, in a word: the name of the test bed, or the machine.
fn bed(info: &RunInfo) -> String {
    // early runs have a parameter instead
    let placed = info.facts.placement.get(TEST_BED).map(String::as_str);
    let asked = || info.parameters.get("bed").and_then(|bed| bed.as_str());
    let named = placed
        .or_else(asked)
        .and_then(|words| words.split(':').next());
    let of_host = || match info.facts.is_simulated() {
        true => "simulated".to_owned(),
        false => "this machine".to_owned(),
    };
    named.map_or_else(of_host, str::to_owned)
}

fn line(entry: RunEntry) -> Line {
    let info = entry.info.as_ref();
    let cases = entry.summary.iter().flat_map(|s| &s.test_cases);
    let mut configurations: Vec<String> = Vec::new();
    let mut sizes: Vec<String> = Vec::new();
    for case in cases.clone() {
        let size = case.case.stream.frame_size_bytes.to_string();
        let configuration = case.case.configuration.clone();
        if !configurations.contains(&configuration) {
            configurations.push(configuration);
        }
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let name = info.and_then(|info| {
        let mut named = ["campaign", "set", "configuration"].iter();
        named.find_map(|key| Some(info.parameters.get(*key)?.as_str()?.to_owned()))
    });
    let error = info.and_then(|info| info.error.clone());
    Line {
        path: entry.path,
        family: info.map(family).unwrap_or_default(),
        kind: info.map(|info| info.kind.clone()).unwrap_or_default(),
        name: name.unwrap_or_default(),
        bed: info.map(bed).unwrap_or_default(),
        state: entry.state,
        mark: entry.summary.as_ref().map(Mark::from_summary),
        measured_at: entry.measured_at,
        started_at: info.map(|i| i.started_at.clone()).unwrap_or_default(),
        finished_at: info.and_then(|info| info.finished_at.clone()),
        test_cases: cases.count(),
        configurations,
        sizes,
        result: info
            .zip(entry.summary.as_ref())
            .map_or_else(String::new, |(info, summary)| {
                listing::answer(info, summary)
            }),
        problem: error.or_else(|| entry.problems.first().cloned()),
        tags: entry.labels.tags.into_iter().collect(),
        note: entry.labels.note,
        id: entry.id,
    }
}

/// Returns true if a line fits a term in lower case.
fn keeps(line: &Line, term: &str) -> bool {
    let (negated, term) = match term.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, term),
    };
    let state = line.state.map(|s| format!("{s:?}").to_lowercase());
    let state = state.unwrap_or_else(|| "damaged".into());
    let one = |value: &str, globs: &str| {
        let is_lower = value
            .bytes()
            .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        let value = match is_lower {
            true => Cow::Borrowed(value),
            false => Cow::Owned(value.to_lowercase()),
        };
        globs.split(',').any(|glob| is_like(&value, glob))
    };
    let any = |values: &[String], globs: &str| values.iter().any(|value| one(value, globs));
    let found = match term.split_once(':') {
        Some(("kind", globs)) => one(&line.kind, globs),
        Some(("state", globs)) => one(&state, globs),
        Some(("bed", globs)) => one(&line.bed, globs),
        Some(("id", globs)) => one(&line.id, globs),
        Some(("tag", globs)) => any(&line.tags, globs),
        Some(("size", globs)) => any(&line.sizes, globs),
        Some(("configuration" | "config-set", globs)) => any(&line.configurations, globs),
        _ => {
            let glob = format!("*{term}*");
            one(&line.id, &glob)
                || one(&line.name, &glob)
                || one(&line.kind, &glob)
                || one(&state, &glob)
                || one(&line.bed, &glob)
                || any(&line.tags, &glob)
                || any(&line.configurations, &glob)
        }
    };
    found != negated
}

/// Matches a text with `*` in the pattern for any characters; the time is proportional to the
/// product of both lengths.
fn is_like(text: &str, glob: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_anything() {
        for (text, glob, expect) in [
            ("nft-sets", "nft-*", true),
            ("nft-sets", "*sets", true),
            ("nft-sets", "n*t*s", true),
            ("nft-sets", "nft", false),
            ("nft", "nft", true),
            ("ab", "ab*b", false),
            ("", "*", true),
        ] {
            assert_eq!(is_like(text, glob), expect, "{text} {glob}");
        }
    }
}
