//! `/api/runs/ID/load`: the chart of the latest windows of a run in progress; and the end of a
//! journal.

use std::path;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use fwdlab_model::event::{Event, EventKind};
use fwdlab_report::html::{LoadWindow, load_fragment};
use fwdlab_store::Follower;

use super::{directory, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// The end of a journal in which the latest progress is searched.
const TAIL_BYTES: u64 = 512 << 10;

/// Maximum number of windows in the chart.
const WINDOWS: usize = 600;

/// Returns the latest events of the run in a directory, however long its journal is.
pub fn latest_events(dir: &path::Path) -> Vec<Event> {
    let length = std::fs::metadata(dir.join("events.jsonl")).map_or(0, |file| file.len());
    let mut events = Vec::new();
    if let Ok(mut follower) = Follower::from(dir, length.saturating_sub(TAIL_BYTES)) {
        while let Ok(more) = follower.poll()
            && !more.is_empty()
        {
            events.extend(more.into_iter().map(|followed| followed.event));
        }
    }
    events
}

/// Handles the request.
pub async fn chart(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    run_blocking(move || {
        let events = latest_events(&directory(&shared, &id)?).into_iter();
        let window = |event: Event| match event.kind {
            EventKind::Progress {
                offered_load_pps,
                forwarding_rate_pps,
                ..
            } => Some(LoadWindow {
                end_s: event.t,
                offered_load_pps: offered_load_pps.unwrap_or_default(),
                forwarding_rate_pps: forwarding_rate_pps?,
            }),
            _ => None,
        };
        let windows: Vec<LoadWindow> = events.filter_map(window).collect();
        let chart = load_fragment(&windows[windows.len().saturating_sub(WINDOWS)..]);
        Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], chart).into_response())
    })
    .await
}
