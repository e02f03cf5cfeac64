//! The result of comparing one configuration with another.
//!
//! `stats` computes it; this is the form that is stored and shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The conclusion of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Proven: this configuration forwards less.
    Less,
    /// Proven: this configuration forwards more.
    More,
    /// No difference was proven.
    NoDifference,
    /// Inconclusive: too few values, or the machine is too noisy.
    CannotTell,
}

/// One configuration compared with the plain DUT. For the A/A control, the plain DUT compared with
/// itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The configuration, as typed; `control` for the A/A control.
    pub configuration: String,
    /// True for the A/A control.
    pub control: bool,
    /// Mean difference in percent of the plain DUT's forwarding rate; negative means slower. Absent
    /// when there are too few values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_percent: Option<f64>,
    /// 95 % confidence interval of the difference, lower and upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<[f64; 2]>,
    /// The smallest difference that this run would have detected with 80 % power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
    /// Standard deviation of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_percent: Option<f64>,
    /// Two-sided p-value of "no difference".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// The conclusion.
    pub verdict: Verdict,
    /// The individual values in percent, in order: one per rebuild (paired slices) or per block
    /// (A/A control).
    pub values_percent: Vec<f64>,
    /// Median forwarding rate of this configuration, for orientation only: the comparison does not
    /// use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
    /// Median forwarding rate of the plain DUT in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_forwarding_rate_pps: Option<f64>,
    /// Reasons to doubt the result.
    pub warnings: Vec<String>,
    /// Why the comparison is inconclusive: too few values, or too much spread. Absent when it is
    /// conclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}
