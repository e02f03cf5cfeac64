//! `/api/runs/ID/steer`: requests to pause or resume a run, skip a test case or stop. The run
//! answers in its journal.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use fwdlab_model::event::Request;
use serde::Deserialize;

use super::{directory, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

#[derive(Deserialize)]
struct Asked {
    request: Request,
}

/// Handles the request.
pub async fn steer(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: String,
) -> Result<StatusCode, Refusal> {
    let requested: Asked = serde_json::from_str(&body).map_err(|_| {
        Refusal::wrong(r#"say what to do: {"request": "pause"}, resume, skip or stop"#)
    })?;
    run_blocking(move || {
        fwdlab_store::request(&directory(&shared, &id)?, requested.request)?;
        Ok(StatusCode::ACCEPTED)
    })
    .await
}
