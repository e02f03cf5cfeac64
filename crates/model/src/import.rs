//! What is kept of other people's measurements: one [`ImportedRecord`] per run of an archive.
//!
//! An archive says less than a trial of ours: what it does not say is absent. Every figure can be computed again from the
//! files named in `sources`. See [`crate::result`] for our own trials.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::Validity;
use crate::trial::IpVersion;

/// One run of an archive, as one line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedRecord {
    /// The archive's format: `netbenches`. This key tells the record from a trial of ours.
    pub imported_from: String,
    /// Name of the test case: the labels joined by dots, as in the archive's file names.
    pub test_case: String,
    /// What was varied: `image`, `configuration`, `traffic`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Which repetition, as the archive numbers it.
    pub iteration: u32,
    /// The result by our trimming rule; absent when the log gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
    /// The result by the archive's own rule, for exact reproduction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_legacy_pps: Option<f64>,
    /// Samples our rule used.
    pub samples: u32,
    /// Samples the archive's own rule used.
    pub samples_legacy: u32,
    /// Seconds of traffic that our rule used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Median of what the sender says it sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_load_pps: Option<f64>,
    /// Frames sent in the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_sent: Option<u64>,
    /// Frames received in the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_received: Option<u64>,
    /// Lost over sent, where both are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_loss_ratio: Option<f64>,
    /// Network layer, from the sender's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_version: Option<IpVersion>,
    /// Frame size with FCS, from the sender's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_size_bytes: Option<u32>,
    /// Flows, from the address and port ranges of the sender's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// Files it comes from, relative to the archive; bytes that are not UTF-8 are replaced.
    pub sources: Vec<String>,
    /// What makes a reader doubt the number.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// May it be used?
    pub validity: Validity,
}
