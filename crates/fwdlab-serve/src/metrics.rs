//! `/metrics`: the number of runs, the progress of running ones, and the latest results, in the
//! text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use fwdlab_model::event::EventKind;
use fwdlab_model::result::RunState;

use crate::api::load::latest_events;
use crate::api::run_blocking;
use crate::error::Refusal;
use crate::server::Shared;

/// Handles the request.
pub async fn all(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let text = run_blocking(move || {
        let mut states: BTreeMap<String, u32> = BTreeMap::new();
        let mut running = String::new();
        let all = shared.lines.all(&shared.runs)?;
        // the newest comes first: the latest result of every campaign, and of every other kind of
        // run
        let mut families = BTreeSet::new();
        let latest = all
            .iter()
            .filter(|line| line.mark.is_some() && families.insert(&line.family));
        let latest: Vec<_> = latest.map(|line| fwdlab_store::entry(&line.path)).collect();
        let results = latest
            .iter()
            .filter_map(|entry| Some((entry.info.as_ref()?, entry.summary.as_ref()?)));
        let results = fwdlab_report::prometheus::text(&results.collect::<Vec<_>>());
        for line in &all {
            let state = line.state.map(|state| format!("{state:?}").to_lowercase());
            *states
                .entry(state.unwrap_or_else(|| "damaged".into()))
                .or_default() += 1;
            if line.state == Some(RunState::Running) {
                running += &progress(&line.path, &label(&line.id));
            }
        }
        let mut text =
            String::from("# HELP fwdlab_runs Stored runs by state.\n# TYPE fwdlab_runs gauge\n");
        for (state, runs) in states {
            let _ = writeln!(text, "fwdlab_runs{{state=\"{state}\"}} {runs}");
        }
        Ok(text + &running + &results)
    })
    .await?;
    Ok((
        [(CONTENT_TYPE, fwdlab_report::prometheus::CONTENT_TYPE)],
        text,
    )
        .into_response())
}

fn progress(dir: &std::path::Path, id: &str) -> String {
    let mut text = String::new();
    let last = latest_events(dir).into_iter().rev();
    let mut last = last.filter(|event| matches!(event.kind, EventKind::Progress { .. }));
    if let Some(EventKind::Progress {
        done,
        steps,
        left_s,
        offered_load_pps,
        forwarding_rate_pps,
        ..
    }) = last.next().map(|event| event.kind)
    {
        let numbers = [
            ("fwdlab_run_steps_done", Some(f64::from(done))),
            ("fwdlab_run_steps", Some(f64::from(steps))),
            ("fwdlab_run_left_seconds", Some(left_s)),
            ("fwdlab_run_offered_frames_per_second", offered_load_pps),
            (
                "fwdlab_run_forwarded_frames_per_second",
                forwarding_rate_pps,
            ),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                let _ = writeln!(text, "{name}{{run=\"{id}\"}} {value}");
            }
        }
    }
    text
}

/// Escapes the value of a label as the format requires.
fn label(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}
