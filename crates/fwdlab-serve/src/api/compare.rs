//! `/api/compare?run=A&run=B`: compares two or more runs, in numbers and in ministat's format.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use fwdlab_model::series::FORWARDING_RATE;
use fwdlab_report::compare::{self, Options, Source};
use fwdlab_report::html::comparison_fragment;
use serde_json::json;

use super::{directory, json, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// Maximum number of runs in a comparison.
const MOST: usize = 20;

/// Returns the decoded pairs of a query, in order.
pub fn pairs(query: Option<&str>) -> Vec<(String, String)> {
    let uri = format!("/?{}", query.unwrap_or_default());
    let parsed = uri.parse::<axum::http::Uri>().ok();
    let parsed = parsed
        .and_then(|uri| axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
    parsed.map(|query| query.0).unwrap_or_default()
}

/// Returns the series of runs.
pub fn sources(shared: &Shared, ids: &[String]) -> Result<Vec<Source>, Refusal> {
    let one = |id: &String| {
        let run = fwdlab_store::load_values(&directory(shared, id)?)?;
        let name = id.clone();
        let series = run.series();
        Ok(Source { name, series })
    };
    ids.iter().map(one).collect()
}

/// Returns all their metrics, first those that most runs have.
pub fn metrics(sources: &[Source]) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    for series in sources.iter().flat_map(|source| &source.series) {
        if !all.contains(&series.metric) {
            all.push(series.metric.clone());
        }
    }
    let has = |source: &Source, metric: &String| source.series.iter().any(|s| s.metric == *metric);
    let rank = |metric: &String| {
        let runs = sources.iter().filter(|source| has(source, metric)).count();
        (Reverse(runs), *metric != FORWARDING_RATE)
    };
    all.sort_by_key(rank);
    all
}

/// Returns the labels in which series of this metric differ.
fn varying(sources: &[Source], metric: &str) -> Vec<String> {
    let series = sources.iter().flat_map(|source| &source.series);
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (label, value) in series
        .filter(|s| s.metric == metric)
        .flat_map(|s| &s.labels)
    {
        values.entry(label).or_default().insert(value);
    }
    let varying = values.into_iter().filter(|(_, values)| values.len() > 1);
    varying.map(|(label, _)| label.to_owned()).collect()
}

/// Returns the default options of a comparison.
pub fn options(shared: &Shared, metric: String) -> Options {
    Options {
        allowance: shared.allowance,
        ..Options::new(metric)
    }
}

/// Handles the request.
pub async fn compare(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let query = pairs(query.as_deref());
    let of = |key: &str| query.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    let ids = query.iter().filter(|(key, _)| key == "run");
    let ids: Vec<String> = ids.map(|(_, id)| id.clone()).collect();
    let (metric, by) = (of("metric"), of("by"));
    if ids.is_empty() || ids.len() > MOST {
        return Err(Refusal::wrong(format!(
            "name 1 to {MOST} runs: ?run=A&run=B"
        )));
    }
    run_blocking(move || {
        let sources = sources(&shared, &ids)?;
        let metrics = metrics(&sources);
        let metric = metric.filter(|metric| !metric.is_empty());
        let has = |source: &Source, metric: &str| source.series.iter().any(|s| s.metric == metric);
        let is_common = |metric: &str| sources.iter().all(|source| has(source, metric));
        if sources.len() > 1 && !metrics.iter().any(|metric| is_common(metric)) {
            let of = |source: &Source| {
                let mut own: Vec<&str> = source.series.iter().map(|s| &s.metric[..]).collect();
                own.dedup();
                format!("{} has {}", source.name, own.join(", "))
            };
            let all: Vec<String> = sources.iter().map(of).collect();
            let reason = format!("these runs have no figure in common: {}", all.join("; "));
            return Err(Refusal::wrong(reason));
        }
        let metric = metric.or_else(|| metrics.first().cloned());
        let metric = metric.ok_or_else(|| Refusal::missing("these runs have no figures"))?;
        let labels = varying(&sources, &metric);
        // the test cases of one run are compared with each other
        let first = || labels.first().filter(|_| sources.len() == 1).cloned();
        let options = Options {
            by: by.filter(|by| !by.is_empty()).or_else(first),
            ..options(&shared, metric)
        };
        let outcome = compare::compare(&sources, &options)
            .map_err(|error| Refusal::wrong(error.to_string()))?;
        let ministat = compare::ministat(&outcome, fwdlab_stats::ministat::Model::default());
        let ministat = ministat.map(|text| String::from_utf8_lossy(&text).into_owned());
        json(&json!({
            "outcome": outcome,
            "metrics": metrics,
            "labels": labels,
            "by": options.by,
            "html": comparison_fragment(&outcome),
            "text": compare::text(&outcome, &[], false).to_string(),
            "ministat": ministat.unwrap_or_else(|error| error.to_string()),
        }))
    })
    .await
}
