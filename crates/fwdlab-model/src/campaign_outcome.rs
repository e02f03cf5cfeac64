//! What a campaign found: of every test case its iterations, and what they say together.
//!
//! How it comes about is in `fwdlab_measure::campaign`. Start with [`CaseOutcome`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::Case;
use crate::outcome::{Outcome, Unit};

/// A test case with all its iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseOutcome {
    /// Name of the test case: [`Case::id`].
    pub test_case: String,
    /// The test case.
    #[serde(flatten)]
    pub case: Case,
    /// What the good iterations say together, one per figure.
    pub figures: Vec<CaseFigure>,
    /// Sweeps of all good iterations put together; of other procedures the iteration in the middle.
    pub outcomes: Vec<Outcome>,
    /// Every iteration, in the order in which they were made.
    pub iterations: Vec<Iteration>,
    /// Why its figures are not to be relied on: its own trials were too noisy, or its rates vary too much. Absent when they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// A figure over the good iterations of a test case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseFigure {
    /// What it is: `throughput`, `ndr`, `receive rate`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// One value per good iteration.
    pub values: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// Half of the 95 % confidence interval of the mean, Student; absent below three values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_half_width: Option<f64>,
    /// Coefficient of variation, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_percent: Option<f64>,
}

/// One iteration of a test case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Iteration {
    /// Which, from 1.
    pub iteration: u32,
    /// What was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<Outcome>,
    /// Why it has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl CaseOutcome {
    /// The iterations without a result, and why.
    pub fn failures(&self) -> impl Iterator<Item = (u32, &str)> {
        let failed = self.iterations.iter();
        failed.filter_map(|one| Some((one.iteration, one.failure.as_deref()?)))
    }
}
