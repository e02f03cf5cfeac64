//! `/api/beds`: where runs were measured: every test bed, its machine, and its runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use fwdlab_model::result::RunState;
use fwdlab_report::html::{ShownBed, beds_fragment};
use serde_json::json;

use super::{json, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// Handles the request.
pub async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    run_blocking(move || {
        let mut beds: BTreeMap<String, ShownBed> = BTreeMap::new();
        for line in shared.lines.all(&shared.runs)? {
            if !beds.contains_key(&line.bed) {
                // the newest run comes first; one that cannot be read has no bed
                let info = fwdlab_store::entry(&line.path).info;
                let Some(mut last) = info else { continue };
                last.facts.kernel_command_line = None;
                let name = line.bed.clone();
                let (runs, running) = (0, Vec::new());
                let bed = ShownBed {
                    name,
                    last,
                    runs,
                    running,
                };
                beds.insert(line.bed.clone(), bed);
            }
            let Some(bed) = beds.get_mut(&line.bed) else {
                continue;
            };
            bed.runs += 1;
            if line.state == Some(RunState::Running) {
                bed.running.push(line.id.clone());
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
