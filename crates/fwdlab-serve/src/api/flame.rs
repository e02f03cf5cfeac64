//! `/api/runs/ID/flame`: samples or instructions by call path, as folded stacks, from which the
//! page draws flame graphs.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use fwdlab_store::StoredRun;
use serde::{Deserialize, Serialize};

use super::{directory, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// The files with call paths that a run may have, and their subjects.
const FILES: [(&str, &str); 3] = [
    ("samples", "perf.folded"),
    ("through", "through.folded"),
    ("past", "past.folded"),
];

/// Maximum size of a file: no browser shows more.
const CAP_BYTES: u64 = 32 << 20;

/// An existing file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flame {
    /// Name of the test case.
    case: String,
    /// Number of the boot; 0: an iteration without boots.
    #[serde(default)]
    boot: u32,
    /// `samples`, `through`, `past`.
    of: String,
}

/// Returns those of a run.
pub fn list_flames(run: &StoredRun) -> Vec<Flame> {
    let cases = run.summary.iter().flat_map(|summary| &summary.test_cases);
    let sampled = cases.map(|case| (case.test_case.clone(), 0));
    let boots = run.boots.iter().map(|b| (b.test_case.clone(), b.boot));
    let mut found = Vec::new();
    for (case, boot) in sampled.chain(boots) {
        for (of, file) in FILES {
            if run.raw_path(&case, boot, file).is_file() {
                let (case, of) = (case.clone(), of.to_owned());
                found.push(Flame { case, boot, of });
            }
        }
    }
    found
}

/// Handles the request.
pub async fn stacks(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(requested): Query<Flame>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let run = fwdlab_store::load(&directory(&shared, &id)?)?;
        // only files in the list: the name of a test case becomes a path
        let is_there = list_flames(&run).contains(&requested);
        let file = FILES.iter().find(|(of, _)| *of == requested.of);
        let missing = || Refusal::missing("this run has no such profile");
        let (_, file) = file.filter(|_| is_there).ok_or_else(missing)?;
        let path = run.raw_path(&requested.case, requested.boot, file);
        let is_small = path.metadata().is_ok_and(|file| file.len() <= CAP_BYTES);
        let text = is_small.then(|| std::fs::read_to_string(path).ok());
        let text = text.flatten().ok_or_else(missing)?;
        Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
    })
    .await
}
