//! `/api/runs/ID/latency`: the latencies of one trial by percentile, from its histogram.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::{directory, json, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// The requested trial.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    trial: u32,
    case: String,
}

/// A point of the curve: this share of all frames took no longer than this.
#[derive(Debug, Serialize)]
struct Point {
    percentile: f64,
    ns: u64,
}

/// Handles the request.
pub async fn percentiles(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(requested): Query<Wanted>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let run = fwdlab_store::load(&directory(&shared, &id)?)?;
        let missing = || Refusal::missing("this trial has no histogram of latencies");
        let trial = run
            .trials
            .iter()
            .find(|t| t.trial == requested.trial && t.test_case == requested.case)
            .filter(|trial| {
                trial
                    .asked
                    .as_ref()
                    .is_some_and(|a| a.latency_log.is_some())
            })
            .ok_or_else(missing)?;
        let path = run.raw_path(&trial.test_case, trial.trial, "latency.hlog");
        let text = std::fs::read_to_string(path).map_err(|_| missing())?;
        let curve = fwdlab_store::hdr::percentiles(&text).ok_or_else(missing)?;
        let points = curve.into_iter();
        let points = points.map(|(percentile, ns)| Point { percentile, ns });
        json(&points.collect::<Vec<_>>())
    })
    .await
}
