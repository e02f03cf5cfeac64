//! Imported measurements: one [`ImportedRecord`] per run of an archive.
//!
//! An archive contains less than our trials: missing values are absent. Every figure can be
//! recomputed from the files in `sources`. See [`crate::result`] for our own trials.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::Validity;
use crate::trial::IpVersion;

/// The kind of a run that was imported.
pub const KIND: &str = "import";

/// The archive of netbenches, as records name its format.
pub const NETBENCHES: &str = "netbenches";

/// The parameter of an imported run with the start time of its first series, if the archive has it.
pub const MEASURED_AT: &str = "measured_at";

/// The parameter that names the directory of the archive.
pub const ARCHIVE: &str = "archive";

/// The parameter that is the path of the result set in its archive.
pub const SET: &str = "set";

/// One run of an archive, as one line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedRecord {
    /// The archive's format: `netbenches`. This key distinguishes the record from our own trials.
    pub imported_from: String,
    /// Name of the test case: the labels joined by dots, as in the archive's file names.
    pub test_case: String,
    /// What was varied: `image`, `configuration`, `traffic`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Number of the repetition in the archive.
    pub iteration: u32,
    /// The result by our trimming rule; absent when the log does not yield one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
    /// The result by the archive's own rule, for exact reproduction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_legacy_pps: Option<f64>,
    /// Samples that our rule used.
    pub samples: u32,
    /// Samples that the archive's own rule used.
    pub samples_legacy: u32,
    /// Seconds of traffic that our rule used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// The load requested from the sender (`-R`); absent when it sent as fast as possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended_load_pps: Option<f64>,
    /// Median of the rate that the sender reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_load_pps: Option<f64>,
    /// Frames sent in the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_sent: Option<u64>,
    /// Frames received in the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_received: Option<u64>,
    /// Lost over sent frames, if both are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_loss_ratio: Option<f64>,
    /// Layer-2 throughput found by the equilibrium method, in bit/s of frames without FCS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_l2_bps: Option<f64>,
    /// Network layer, from the sender's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_version: Option<IpVersion>,
    /// Frame size with FCS, from the sender's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_size_bytes: Option<u32>,
    /// Flows, from the address and port ranges of the sender's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// Source files, relative to the archive; bytes that are not UTF-8 are replaced.
    pub sources: Vec<String>,
    /// Reasons to doubt the result.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Whether the run may be used.
    pub validity: Validity,
}

/// The result of one test case of an archive over its runs, by our rule and by the archive's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedCase {
    /// Name of the test case, as [`ImportedRecord::test_case`].
    pub test_case: String,
    /// What was varied: `image`, `configuration`, `traffic`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The results by our trimming rule.
    pub ours: ImportedSeries,
    /// The results by the archive's own rule.
    pub legacy: ImportedSeries,
    /// Median by our rule compared with that by the archive's own rule, in percent of the latter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_difference_percent: Option<f64>,
    /// Median layer-2 throughput by the equilibrium method, in bit/s of frames without FCS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_l2_bps: Option<f64>,
    /// Median offered load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_load_pps: Option<f64>,
    /// Lost over sent frames, over the runs in which both totals are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_loss_ratio: Option<f64>,
    /// Network layer, if all runs agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_version: Option<IpVersion>,
    /// Frame size with FCS, if all runs agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_size_bytes: Option<u32>,
    /// Flows, if all runs agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// Number of invalid runs.
    pub iterations_invalid: u32,
    /// Reasons to doubt the result.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Results of all runs of one test case by one rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedSeries {
    /// Forwarding rates of the valid runs, ordered by run number.
    pub iterations_pps: Vec<f64>,
    /// Their median; for an even number of runs, the mean of the two middle ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_pps: Option<f64>,
    /// Lowest forwarding rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_pps: Option<f64>,
    /// Highest forwarding rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pps: Option<f64>,
}

/// Returns true if a choice matches the path of a result set or a directory above it. A choice is a
/// path, or a pattern in which `*` matches any letters but `/`, `**` any letters and `?` one letter
/// but `/`.
pub fn is_chosen(path: &str, choice: &str) -> bool {
    let choice = choice.trim_end_matches('/');
    let choice = choice.strip_prefix("./").unwrap_or(choice);
    let path = match path {
        "." => "",
        path => path,
    };
    if choice.is_empty() || choice == "." {
        return true;
    }
    let parts: Vec<&str> = path.split('/').collect();
    (1..=parts.len()).any(|end| {
        let ancestor = parts[..end].join("/");
        ancestor == choice || matches(choice.as_bytes(), ancestor.as_bytes())
    })
}

/// Matches a pattern: `*` any letters but `/`, `**` any letters, `?` one letter but `/`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where to retry after a star matched too little: pattern and text, for both kinds of star.
    let (mut p, mut t) = (0, 0);
    type Retry = Option<(usize, usize)>;
    let (mut one, mut any): (Retry, Retry) = (None, None);
    loop {
        if pattern[p..].starts_with(b"**") {
            p += 2;
            any = Some((p, t));
            one = None;
        } else if pattern.get(p) == Some(&b'*') {
            p += 1;
            one = Some((p, t));
        } else if p == pattern.len() && t == text.len() {
            return true;
        } else if t < text.len()
            && p < pattern.len()
            && (pattern[p] == text[t] || pattern[p] == b'?' && text[t] != b'/')
        {
            p += 1;
            t += 1;
        } else if let Some((after, taken)) =
            one.filter(|(_, taken)| text.get(*taken).is_some_and(|letter| *letter != b'/'))
        {
            one = Some((after, taken + 1));
            (p, t) = (after, taken + 1);
        } else if let Some((after, taken)) = any.filter(|(_, taken)| *taken < text.len()) {
            any = Some((after, taken + 1));
            one = None;
            (p, t) = (after, taken + 1);
        } else {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_costs_at_most_the_square_of_its_length() {
        // quadratic at most
        let stars = "*a".repeat(500);
        assert!(!matches(stars.as_bytes(), &[b'a'; 499]));
        let stars = "**a".repeat(200) + "b";
        assert!(!matches(stars.as_bytes(), &[b'a'; 5000]));
    }
}
