//! `/api/runs/ID`: a run with its result and its trials; and its report as one page.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use fwdlab_model::result::TrialRecord;
use fwdlab_report::chart::{Chart, svg};
use serde::Serialize;
use serde_json::json;

use super::{directory, flame, json, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// A report contains its style, and no script.
const REPORT: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; sandbox allow-popups";

#[derive(Serialize)]
struct Latency<'a> {
    test_case: &'a str,
    trial: u32,
    offered_load_pps: f64,
}

/// A chart of the report, and its description.
#[derive(Serialize)]
struct Named {
    name: String,
    spoken: String,
}

impl Named {
    fn new(chart: &Chart) -> Named {
        Named {
            name: chart.name.clone(),
            spoken: chart.screen_reader_text(),
        }
    }
}

/// Handles a request for the run.
pub async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let mut run = fwdlab_store::load(&directory(&shared, &id)?)?;
        run.info.state = run.state;
        // it may contain disks, hosts and keys
        run.info.facts.kernel_command_line = None;
        let latencies: Vec<Latency<'_>> = run
            .trials
            .iter()
            .filter(|trial| {
                trial
                    .asked
                    .as_ref()
                    .is_some_and(|a| a.latency_log.is_some())
            })
            .map(|trial| Latency {
                test_case: &trial.test_case,
                trial: trial.trial,
                offered_load_pps: trial.offered_load_pps,
            })
            .collect();
        let mut trials = run.trials.clone();
        trials.iter_mut().for_each(shorten);
        json(&json!({
            "info": run.info,
            "problems": run.problems,
            "labels": fwdlab_store::labels(&run.path).unwrap_or_default(),
            "summary": run.summary,
            "trials": trials,
            "flames": flame::list_flames(&run),
            "latencies": latencies,
            "charts": (shared.charts)(&run).iter().map(Named::new).collect::<Vec<_>>(),
        }))
    })
    .await
}

/// Removes the parts of a trial that no page shows and that are most of its bytes.
pub fn shorten(trial: &mut TrialRecord) {
    trial.probes.clear();
    trial.other_states.clear();
    trial.counters = fwdlab_model::loss::Counters::default();
}

/// Handles a request for one of the report's charts, as drawn in the report.
pub async fn chart(
    State(shared): State<Arc<Shared>>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let run = fwdlab_store::load(&directory(&shared, &id)?)?;
        let charts = (shared.charts)(&run);
        let requested = name.strip_suffix(".svg");
        let found = charts
            .iter()
            .find(|chart| Some(chart.name.as_str()) == requested);
        let chart =
            found.ok_or_else(|| Refusal::missing("the report of this run has no such chart"))?;
        let headers = [
            (CONTENT_TYPE, "image/svg+xml"),
            (CONTENT_SECURITY_POLICY, REPORT),
        ];
        Ok((headers, svg::draw(chart)).into_response())
    })
    .await
}

/// Handles a request for the report.
pub async fn report(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let run = fwdlab_store::load(&directory(&shared, &id)?)?;
        let page = (shared.report)(&run)
            .ok_or_else(|| Refusal::missing("this run has no result yet, and so no report"))?;
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, REPORT),
        ];
        Ok((headers, page).into_response())
    })
    .await
}
