//! Keeps runs: one directory per run, readable at any time, even after its process was killed.
//!
//! It writes what it gets and reads it back; it judges no number, renders nothing, prints nothing,
//! and knows neither engines nor hosts. Start with [`RunWriter`] (a run in progress) and
//! [`StoredRun`] (a run on disk), then [`runs_root`] (the directory of runs), [`list`] and
//! [`resolve`] (list them, and find one).
//!
//! ```text
//! runs/2026-11-21-quick-7f3k/
//!   run.json          the head of the run: id, command line, seed, state, facts of the host
//!   inputs/           what was used, verbatim
//!   events.jsonl      the journal: one event per line, appended with one write each
//!   trials.jsonl      one trial, rebuild or boot per line
//!   requests.jsonl    requests of other processes while it ran: pause, resume, skip, stop
//!   labels.json       labels by the user: tags and a note
//!   telemetry.jsonl   what the DUT's host counted around trials, where that is read: one line each
//!   raw/<test case>/<trial>/intervals.csv, latency.hlog
//!   summary.json      the result, derived from the trials
//!   report.html       the report, derived from the summary
//!   checksums.sfv     checksums of all of these, when the run has ended
//!   .lock             held by the process that writes: the kernel knows whether a run continues
//! ```

#![forbid(unsafe_code)]

mod archive;
mod brief;
mod error;
mod files;
mod follow;
pub mod hdr;
mod id;
mod index;
mod labels;
pub mod loadtest;
mod query;
mod read;
mod rebuild;
mod regular;
mod remove;
mod request;
mod root;
mod run_dir;
mod seal;
mod series;
mod upgrade;

pub use archive::{export, import_runs};
pub use error::StoreError;
pub use files::file_name_of;
pub use follow::{Followed, Follower, is_last};
pub use id::RunId;
pub use index::{RunEntry, directories, entry, list, list_heads};
pub use labels::{Labels, label, labels};
pub use query::resolve;
pub use read::{StoredRun, load, load_document, load_values};
pub use rebuild::rebuild;
pub use remove::remove;
pub use request::{Requests, request};
pub use root::{Roots, Surroundings, runs_root};
pub use run_dir::{RunWriter, StagedRun, publish, raw_path};
