//! The result of a hook: a user command before, during or after a measurement.
//!
//! A line of `hooks.jsonl`, and an event. Start with [`HookRecord`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::{On, When};

/// A hook that was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookRecord {
    /// When it ran.
    pub when: When,
    /// The command, as it stands in the campaign.
    pub command: String,
    /// Where it ran.
    pub on: On,
    /// What that host is called.
    pub host: String,
    /// The test case; absent around the whole campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_case: Option<String>,
    /// Its iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The trial, where it ran around or during one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u32>,
    /// When it was started (RFC 3339, UTC); absent where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// How long it ran, in seconds.
    pub duration_s: f64,
    /// How it ended, in words: `exit status: 0`, `ended with the trial`.
    pub status: String,
    /// What it printed, standard error included; of much the beginning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Bytes that it printed beyond that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_left_out_bytes: u64,
    /// Why what it belongs to does not count; absent when all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}
