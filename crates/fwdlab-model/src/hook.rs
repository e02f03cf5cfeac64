//! The result of a hook: a user command before, during or after a measurement.
//!
//! A line of `hooks.jsonl`, and an event. Start with [`HookRecord`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::{On, When};

/// A hook that was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookRecord {
    /// The hook point.
    pub when: When,
    /// The command, as written in the campaign.
    pub command: String,
    /// Where it ran.
    pub on: On,
    /// Name of that host.
    pub host: String,
    /// The test case; absent for hooks around the whole campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_case: Option<String>,
    /// Its iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The trial, for hooks around or during a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u32>,
    /// Start time (RFC 3339, UTC); absent when it was not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Duration, in seconds.
    pub duration_s: f64,
    /// How it ended, in words: `exit status: 0`, `ended with the trial`.
    pub status: String,
    /// The beginning of its output, including standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Bytes of output beyond that, which are not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_left_out_bytes: u64,
    /// Why the affected measurement does not count; absent on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}
