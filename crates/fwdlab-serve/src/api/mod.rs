//! The API about runs: one file per path. This one contains what they share.

pub mod beds;
pub mod compare;
pub mod events;
pub mod flame;
pub mod load;
pub mod run;
pub mod runs;
pub mod steer;
pub mod trend;

use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::Refusal;
use crate::server::Shared;

/// Runs work that reads files on a thread where it does not block other requests.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(Refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this request ended in a panic, which is a bug; the server keeps running".into(),
        ))
    })
}

/// Returns a value as JSON.
pub fn json(value: &impl Serialize) -> Result<Response, Refusal> {
    let text = serde_json::to_string(value)
        .map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// Returns the directory of the run with this id: only ever a direct subdirectory of a directory of
/// runs.
pub fn directory(shared: &Shared, id: &str) -> Result<PathBuf, Refusal> {
    let missing = || Refusal::missing("there is no such run");
    let is_name = !id.is_empty()
        && !id.starts_with('.')
        && !id.contains(['/', '\\', '\0'])
        && Path::new(id).components().count() == 1;
    let is_run = |path: &PathBuf| {
        let is_there = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        is_there && path.join("run.json").is_file()
    };
    let mut all = shared.runs.all().iter().map(|root| root.join(id));
    match is_name {
        true => all.find(is_run).ok_or_else(missing),
        false => Err(missing()),
    }
}
