//! Finds a run by name: `2026-11-21-quick-7f3k`, its beginning, the beginning of `7f3k`, a tag of
//! one run, or `@1` for the newest.
//!
//! It finds directories and does not read runs, except their dates for `@n`. Start with
//! [`resolve`].

use std::fs;
use std::path::{Path, PathBuf};

use fwdlab_model::import::{ARCHIVE, SET};

use crate::error::StoreError;
use crate::id::RunId;
use crate::index::{RunEntry, is_run, list_heads, names_in};
use crate::labels::labels;
use crate::root::Roots;

/// Number of ids in a message.
const SHOWN: usize = 5;

/// Returns the directory of the run with this name, in this order: `@n`, the n-th newest readable
/// run; an exact id; exact random characters; the tag of one run; the unique beginning of an id or
/// of its random characters; the path of an imported result set.
///
/// # Errors
/// [`StoreError::NoSuchRun`] and [`StoreError::Ambiguous`] with the existing runs.
pub fn resolve(roots: impl Into<Roots>, name: &str) -> Result<PathBuf, StoreError> {
    let roots = &roots.into();
    if let Some(number) = name.strip_prefix('@') {
        let runs = list_heads(roots)?
            .into_iter()
            .filter(|run| run.started_at.is_some());
        let number: Option<usize> = number.parse().ok();
        return number
            .and_then(|n| runs.map(|run| run.path).nth(n.checked_sub(1)?))
            .ok_or_else(|| unknown(roots, name));
    }
    if name.is_empty() {
        return Err(unknown(roots, name));
    }
    let mut runs = names_in(roots)?;
    runs.retain(|(root, id)| is_run(root, id));
    let matching = |matches: &dyn Fn(&Path, &str) -> bool| -> Vec<&(PathBuf, String)> {
        runs.iter().filter(|(root, id)| matches(root, id)).collect()
    };
    for candidates in [
        matching(&|_, id| id == name),
        matching(&|_, id| RunId::suffix_of(id) == Some(name)),
        // before the beginnings of ids, whose matches change from day to day
        matching(&|root, id| labels(&root.join(id)).is_ok_and(|labels| labels.tags.contains(name))),
        matching(&|_, id| {
            id.starts_with(name) || RunId::suffix_of(id).is_some_and(|s| s.starts_with(name))
        }),
    ] {
        match candidates.as_slice() {
            [] => {}
            [(root, one)] => return Ok(root.join(one)),
            several => {
                let is_candidate = |id: &String| several.iter().any(|(_, one)| one == id);
                let all = list_heads(roots)?.into_iter().map(|run| run.id);
                return Err(StoreError::Ambiguous {
                    name: name.to_owned(),
                    candidates: all.filter(is_candidate).collect(),
                });
            }
        }
    }
    find_set(roots, name)?.ok_or_else(|| unknown(roots, name))
}

/// Returns the run of an imported result set: by its path in the archive, or its location.
fn find_set(roots: &Roots, name: &str) -> Result<Option<PathBuf>, StoreError> {
    let typed = name.trim_end_matches('/');
    if !typed.contains('/') && !Path::new(typed).is_dir() {
        return Ok(None);
    }
    let place = fs::canonicalize(typed).ok();
    let is_meant = |run: &RunEntry| {
        let text = |key| run.info.as_ref()?.parameters.get(key)?.as_str();
        let (Some(archive), Some(set)) = (text(ARCHIVE), text(SET)) else {
            return false;
        };
        let lies = Path::new(archive).join(set);
        set == typed || place.as_ref() == Some(&lies) || Path::new(typed) == lies
    };
    let mut found: Vec<RunEntry> = list_heads(roots)?.into_iter().filter(is_meant).collect();
    match found.len() {
        0 | 1 => Ok(found.pop().map(|run| run.path)),
        _ => Err(StoreError::Ambiguous {
            name: name.to_owned(),
            candidates: found.into_iter().map(|run| run.id).collect(),
        }),
    }
}

fn unknown(roots: &Roots, name: &str) -> StoreError {
    let all = list_heads(roots).unwrap_or_default().into_iter();
    let is_run = |run: &RunEntry| run.path.parent().is_some_and(|root| is_run(root, &run.id));
    let ids: Vec<String> = all.filter(is_run).map(|run| run.id).collect();
    let there_is = match ids.len() {
        0 => format!("there are no runs in {roots}"),
        1 => format!("the only run in {roots} is {}", ids[0]),
        n if n <= SHOWN => format!("there are {n} runs in {roots}: {}", ids.join(", ")),
        n => format!(
            "there are {n} runs in {roots}, the latest {}",
            ids[..SHOWN].join(", ")
        ),
    };
    StoreError::NoSuchRun {
        name: name.to_owned(),
        there_is,
    }
}
