//! `/api/runs/ID`: a run with its result and its trials; and its report as one page.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use fwdlab_model::result::TrialRecord;
use serde::Deserialize;
use serde_json::json;

use super::{directory, flame, json, run_blocking};
use crate::error::Refusal;
use crate::server::{Page, Shared};

/// A report contains its style, and no script.
const REPORT: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; sandbox allow-popups";

/// The query.
#[derive(Deserialize)]
pub struct Wanted {
    /// Leave out what is long: the summary and the trials.
    #[serde(default)]
    brief: bool,
}

/// Handles a request for the run.
pub async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let mut run = fwdlab_store::load(&directory(&shared, &id)?)?;
        run.info.state = run.state;
        // it may contain disks, hosts and keys
        run.info.facts.kernel_command_line = None;
        let mut document = json!({
            "info": run.info,
            "problems": run.problems,
            "labels": fwdlab_store::labels(&run.path).unwrap_or_default(),
            "has_result": run.summary.is_some(),
            "flames": flame::list_flames(&run),
        });
        if !wanted.brief {
            run.trials.iter_mut().for_each(shorten);
            document["summary"] = json!(run.summary);
            document["trials"] = json!(run.trials);
        }
        json(&document)
    })
    .await
}

/// Removes the parts of a trial that no page shows and that are most of its bytes.
pub fn shorten(trial: &mut TrialRecord) {
    trial.probes.clear();
    trial.other_states.clear();
    trial.counters = fwdlab_model::loss::Counters::default();
}

/// Handles a request for the report.
pub async fn report(state: State<Arc<Shared>>, id: Path<String>) -> Result<Response, Refusal> {
    rendered(state, id, |shared| shared.report).await
}

/// Handles a request for the content of the report, which the page of the run contains.
pub async fn fragment(state: State<Arc<Shared>>, id: Path<String>) -> Result<Response, Refusal> {
    rendered(state, id, |shared| shared.fragment).await
}

/// Handles a request for a chart as a file.
pub async fn chart(
    State(shared): State<Arc<Shared>>,
    Path((id, file)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let run = fwdlab_store::load(&directory(&shared, &id)?)?;
        let picture = (shared.picture)(run, &file)
            .ok_or_else(|| Refusal::missing("this run has no such chart"))?;
        let kind = match file.ends_with(".png") {
            true => "image/png",
            false => "image/svg+xml",
        };
        let headers = [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, REPORT)];
        Ok((headers, picture).into_response())
    })
    .await
}

async fn rendered(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    render: fn(&Shared) -> Page,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let run = fwdlab_store::load(&directory(&shared, &id)?)?;
        let page = render(&shared)(run)
            .ok_or_else(|| Refusal::missing("this run has no result yet, and so no report"))?;
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, REPORT),
        ];
        Ok((headers, page).into_response())
    })
    .await
}
