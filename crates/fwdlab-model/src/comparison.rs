//! The outcome of comparing a configuration with another one.
//!
//! `stats` computes it; this is the form in which it is kept and shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the comparison can claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Proven: it forwards less.
    Less,
    /// Proven: it forwards more.
    More,
    /// No difference proven.
    NoDifference,
    /// Too few values, or the machine is too noisy to tell.
    CannotTell,
}

/// One configuration against the plain DUT (or, for the A/A control, the plain DUT against itself).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The configuration, as typed; `control` for the A/A control.
    pub configuration: String,
    /// This is the A/A control.
    pub control: bool,
    /// Mean difference in percent of the plain DUT's forwarding rate; negative is slower. Absent with too few values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_percent: Option<f64>,
    /// 95 % confidence interval of the difference, lower and upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<[f64; 2]>,
    /// The smallest difference this run would have shown, with 80 % power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
    /// Standard deviation between the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_percent: Option<f64>,
    /// Two-sided p-value of "no difference".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// What can be claimed.
    pub verdict: Verdict,
    /// The values behind it, in percent, in order: one per rebuild (paired slices) or block (A/A control).
    pub values_percent: Vec<f64>,
    /// Median forwarding rate of this configuration, for orientation only: the comparison does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
    /// Median forwarding rate of the plain DUT in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_forwarding_rate_pps: Option<f64>,
    /// What makes a reader doubt it.
    pub warnings: Vec<String>,
    /// Why nothing is decided: too few values, or values too far apart. Absent when something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}
