//! `fwdlab runs steer`: sends a request to a run of another process, without a screen.
//!
//! The run follows it if possible, and records the outcome in its journal. Start with
//! [`Steer::run`].

use clap::{Args, ValueEnum};
use fwdlab_model::event::Request;
use fwdlab_store::{Roots, StoreError};
use serde_json::json;

use super::Global;
use crate::exit_code::{Code, Usage};
use crate::output;

/// What is asked of which run.
#[derive(Debug, Args)]
pub struct Steer {
    /// Run: an id, a tag, or @1 for the latest
    run: String,
    /// Request
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
}

/// What a run can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Start no new trial until the run is resumed
    Pause,
    /// Continue after a pause
    Resume,
    /// Skip the test case that is being measured
    Skip,
    /// Stop the run: undo all changes, keep what was measured
    Stop,
}

impl Steer {
    /// Sends the request. Does not wait for its effect.
    pub fn run(self, roots: &Roots, global: &Global) -> anyhow::Result<Code> {
        let dir = fwdlab_store::resolve(roots, &self.run)?;
        let request = match self.what {
            What::Pause => Request::Pause,
            What::Resume => Request::Resume,
            What::Skip => Request::Skip,
            What::Stop => Request::Stop,
        };
        fwdlab_store::request(&dir, request).map_err(|error| match error {
            StoreError::NotRunning { .. } => anyhow::Error::from(Usage(format!(
                "{error}; fwdlab runs ls shows which runs are active"
            ))),
            error => error.into(),
        })?;
        output::note(&format!(
            "requested {}; the run records in its journal whether it did that",
            dir.display()
        ));
        if global.json {
            output::json(&json!({ "asked": request, "of": dir }))?;
        }
        Ok(Code::Done)
    }
}
