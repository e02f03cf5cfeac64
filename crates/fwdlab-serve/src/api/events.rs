//! `/api/runs/ID/events`: past events from the first one on, then new ones, as server-sent events.
//!
//! The id of an event is the end of its line in the journal: a client that reconnects with
//! `Last-Event-ID`, or requests `?after=`, continues from there, even on another server. Each
//! client has a few events in memory at a time, and a slow client delays only its own stream. The
//! last event is `end`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Sent, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures_core::Stream;
use fwdlab_model::event::{Event, EventKind};
use fwdlab_store::{Followed, Follower};
use serde::Deserialize;
use tokio::sync::mpsc;

use super::run::shorten;
use super::{directory, run_blocking};
use crate::error::Refusal;
use crate::server::Shared;

/// Maximum number of events that wait for a slow client.
const WAITING: usize = 32;

/// Interval of checking a journal.
const LOOK: Duration = Duration::from_millis(200);

/// Where to begin.
#[derive(Debug, Deserialize)]
pub struct From {
    after: Option<u64>,
}

/// Handles the request.
pub async fn follow(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let permit = shared.following.clone().try_acquire_owned().map_err(|_| {
        let reason = "too many browsers follow runs of this server; close some";
        Refusal(StatusCode::SERVICE_UNAVAILABLE, reason.into())
    })?;
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok());
    let last = last.and_then(|last| last.parse().ok());
    let after = last.or(from.after).unwrap_or(0);
    let dir = directory(&shared, &id)?;
    let follower = run_blocking(move || open(&dir, after)).await?;
    let (send, receive) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let _permit = permit;
        feed(follower, send).await;
    });
    let events = Sse::new(Events(receive)).keep_alive(KeepAlive::default());
    Ok(events.into_response())
}

/// A position beyond the end is from another journal: then start from the beginning.
fn open(dir: &std::path::Path, after: u64) -> Result<Follower, Refusal> {
    let length = std::fs::metadata(dir.join("events.jsonl")).map_or(0, |file| file.len());
    let after = if after > length { 0 } else { after };
    Ok(Follower::from(dir, after)?)
}

async fn feed(mut follower: Follower, send: mpsc::Sender<Sent>) {
    loop {
        let looked = tokio::task::spawn_blocking(move || {
            let running = follower.is_running();
            let events = follower.poll();
            (follower, running, events)
        });
        let Ok((back, running, events)) = looked.await else {
            return;
        };
        follower = back;
        let Ok(events) = events else {
            // the run was removed
            let _ = send.send(end()).await;
            return;
        };
        let is_empty = events.is_empty();
        for event in events {
            let Some(event) = sent(event) else { continue };
            if send.send(event).await.is_err() {
                return;
            }
        }
        if is_empty {
            if !running.unwrap_or(false) {
                let _ = send.send(end()).await;
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = send.closed() => return,
            }
        }
    }
}

fn end() -> Sent {
    Sent::default().event("end").data("{}")
}

fn sent(followed: Followed) -> Option<Sent> {
    let Followed { end, event } = followed;
    let event = brief(event);
    let text = serde_json::to_string(&event).ok()?;
    Some(Sent::default().id(end.to_string()).data(text))
}

/// Reduces an event to what pages show.
fn brief(mut event: Event) -> Event {
    match &mut event.kind {
        EventKind::RunStarted { info, .. } | EventKind::RunResumed { info, .. } => {
            info.facts.kernel_command_line = None;
        }
        EventKind::BedReady { facts } => facts.kernel_command_line = None,
        EventKind::TrialFinished { record } => shorten(record),
        _ => {}
    }
    event
}

/// The stream of events for one client.
pub struct Events(mpsc::Receiver<Sent>);

impl Stream for Events {
    type Item = Result<Sent, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}
