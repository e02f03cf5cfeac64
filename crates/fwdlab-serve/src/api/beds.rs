//! `/api/beds`: where runs were measured: every test bed, its machine, and its runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use fwdlab_model::result::RunState;
use fwdlab_report::html::{ShownBed, beds_fragment};
use serde_json::json;

use super::runs::bed;
use super::{json, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// Handles the request.
pub async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    run_blocking(move || {
        let mut beds: BTreeMap<String, ShownBed> = BTreeMap::new();
        for entry in fwdlab_store::list(&shared.runs)? {
            let Some(mut info) = entry.info else { continue };
            info.facts.kernel_command_line = None;
            let name = bed(&info);
            // the newest run comes first
            let bed = beds.entry(name.clone()).or_insert_with(|| ShownBed {
                name,
                last: info,
                runs: 0,
                running: Vec::new(),
            });
            bed.runs += 1;
            if entry.state == Some(RunState::Running) {
                bed.running.push(entry.id);
            }
        }
        let all: Vec<ShownBed> = beds.into_values().collect();
        let listed = all.iter().map(|bed| {
            json!({
                "name": bed.name, "facts": bed.last.facts, "runs": bed.runs, "last_run": bed.last.id,
                "last_started_at": bed.last.started_at, "running": bed.running,
            })
        });
        json(&json!({ "beds": listed.collect::<Vec<_>>(), "html": beds_fragment(&all) }))
    })
    .await
}
