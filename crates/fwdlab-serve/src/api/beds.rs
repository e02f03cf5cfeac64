//! `/api/beds`: where runs were measured: every test bed, its machine, and its runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use fwdlab_model::facts::Facts;
use fwdlab_model::result::RunState;
use serde::Serialize;

use super::runs::bed;
use super::{json, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

#[derive(Serialize)]
struct Bed {
    name: String,
    /// From its latest run.
    facts: Facts,
    runs: u32,
    last_run: String,
    last_started_at: String,
    running: Vec<String>,
}

/// Handles the request.
pub async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    run_blocking(move || {
        let mut beds: BTreeMap<String, Bed> = BTreeMap::new();
        for entry in fwdlab_store::list(&shared.runs)? {
            let Some(info) = entry.info else { continue };
            let name = bed(&info);
            // the newest run comes first
            let bed = beds.entry(name.clone()).or_insert_with(|| Bed {
                name,
                facts: Facts {
                    kernel_command_line: None,
                    ..info.facts
                },
                runs: 0,
                last_run: info.id,
                last_started_at: info.started_at,
                running: Vec::new(),
            });
            bed.runs += 1;
            if entry.state == Some(RunState::Running) {
                bed.running.push(entry.id);
            }
        }
        json(&beds.into_values().collect::<Vec<_>>())
    })
    .await
}
