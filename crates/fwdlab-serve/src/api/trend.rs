//! `/api/trend`: a figure over runs, with the points where it changed and what was different there.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use fwdlab_model::result::RunInfo;
use fwdlab_report::compare::{self, Source};
use fwdlab_report::html::trend_fragment;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::compare::{metrics, options, sources};
use super::{json, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// Maximum number of runs on a chart, the latest ones.
const MOST: usize = 200;

/// The query.
#[derive(Debug, Default, Deserialize)]
pub struct Wanted {
    /// Only runs of this campaign, or of this kind if they have none.
    #[serde(default)]
    of: String,
    #[serde(default)]
    metric: String,
}

#[derive(Serialize)]
struct Point {
    run: String,
    started_at: String,
}

/// Handles the request.
pub async fn trend(
    State(shared): State<Arc<Shared>>,
    Query(requested): Query<Wanted>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let mut all = shared.lines.all(&shared.runs)?;
        all.retain(|line| line.mark.is_some());
        let families: BTreeSet<&str> = all.iter().map(|line| &line.family[..]).collect();
        let latest = || all.first().map(|line| line.family.clone());
        let of = match requested.of.is_empty() {
            true => latest().unwrap_or_default(),
            false => requested.of,
        };
        let runs = all.iter().filter(|line| line.family == of).take(MOST);
        let runs = runs.filter_map(|line| fwdlab_store::entry(&line.path).info);
        let mut runs: Vec<RunInfo> = runs.collect();
        runs.reverse();
        let ids: Vec<String> = runs.iter().map(|info| info.id.clone()).collect();
        let sources = sources(&shared, &ids)?;
        let metrics = metrics(&sources);
        let is_known = metrics.contains(&requested.metric);
        let metric = if is_known {
            Some(requested.metric)
        } else {
            metrics.first().cloned()
        };
        let has_metric = |source: &Source| {
            let mut all = source.series.iter();
            all.any(|series| Some(&series.metric) == metric.as_ref())
        };
        let runs = runs.iter().zip(sources);
        let runs = runs.filter(|(_, source)| has_metric(source));
        let (runs, sources): (Vec<&RunInfo>, Vec<Source>) = runs.unzip();
        let points: Vec<Point> = runs
            .iter()
            .map(|info| Point {
                run: info.id.clone(),
                started_at: info.started_at.clone(),
            })
            .collect();
        let series: Vec<_> = sources
            .iter()
            .map(|source| {
                let of_metric = source
                    .series
                    .iter()
                    .filter(|s| Some(&s.metric) == metric.as_ref());
                let of_metric = of_metric.map(|series| {
                    json!({
                        "test_case": series.test_case,
                        "configuration": series.labels.get("configuration"),
                        "unit": series.unit,
                        "values": series.values,
                    })
                });
                of_metric.collect::<Vec<_>>()
            })
            .collect();
        let options = options(&shared, metric.clone().unwrap_or_default());
        let changes = match sources.len() {
            0 | 1 => None,
            _ => compare::changes(&sources, &options).ok(),
        };
        json(&json!({
            "families": families,
            "of": of,
            "metrics": metrics,
            "metric": metric,
            "runs": points,
            "series": series,
            "html": changes.as_ref().map(|changes| trend_fragment(&of, &runs, changes)),
            "changes": changes,
        }))
    })
    .await
}
