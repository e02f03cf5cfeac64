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
use fwdlab_store::Follower;

use crate::api::run_blocking;
use crate::api::trend::family;
use crate::error::Refusal;
use crate::server::Shared;

/// The end of a journal in which the latest progress is searched.
const TAIL_BYTES: u64 = 256 << 10;

/// Handles the request.
pub async fn all(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let text = run_blocking(move || {
        let mut states: BTreeMap<String, u32> = BTreeMap::new();
        let mut running = String::new();
        let all = fwdlab_store::list(&shared.runs)?;
        // the newest comes first: the latest result of every campaign, and of every other kind of
        // run
        let mut families = BTreeSet::new();
        let results = all.iter().filter_map(|entry| {
            let (info, summary) = (entry.info.as_ref()?, entry.summary.as_ref()?);
            families.insert(family(info)).then_some((info, summary))
        });
        let results = fwdlab_report::prometheus::text(&results.collect::<Vec<_>>());
        for entry in &all {
            let state = entry.state.map(|state| format!("{state:?}").to_lowercase());
            *states
                .entry(state.unwrap_or_else(|| "damaged".into()))
                .or_default() += 1;
            if entry.state == Some(RunState::Running) {
                running += &progress(&entry.path, &label(&entry.id));
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
    let length = std::fs::metadata(dir.join("events.jsonl")).map_or(0, |file| file.len());
    let follower = Follower::from(dir, length.saturating_sub(TAIL_BYTES));
    let Ok(mut follower) = follower else {
        return String::new();
    };
    let mut last = String::new();
    while let Ok(events) = follower.poll() {
        if events.is_empty() {
            break;
        }
        for followed in events {
            if let EventKind::Progress {
                done,
                steps,
                left_s,
                offered_load_pps,
                forwarding_rate_pps,
                ..
            } = followed.event.kind
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
                last.clear();
                for (name, value) in numbers {
                    if let Some(value) = value {
                        let _ = writeln!(last, "{name}{{run=\"{id}\"}} {value}");
                    }
                }
            }
        }
    }
    last
}

/// Escapes the value of a label as the format requires.
fn label(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}
