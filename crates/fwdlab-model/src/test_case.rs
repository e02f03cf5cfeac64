//! The common form of results: for every test case its iterations, and their summary.
//!
//! Whatever measured it, a command, a campaign or a search, a run has a list of [`TestCase`]s, and
//! everything that shows, lists or compares results reads them. `fwdlab_measure::campaign` creates
//! them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::Case;
use crate::comparison::Comparison;
use crate::efficiency::Work;
use crate::outcome::{Better, FORWARDING_RATE, Maxfwd, Outcome, Paired, Unit};
use crate::telemetry::{Finding, Telemetry};

/// A test case with all its iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestCase {
    /// Name of the test case: [`Case::id`], without the configuration if a command measured only
    /// one.
    pub test_case: String,
    /// The test case.
    #[serde(flatten)]
    pub case: Case,
    /// One entry per figure, over all good iterations.
    pub figures: Vec<CaseFigure>,
    /// Results over all good iterations together, for procedures with windows, slices or sweeps.
    /// For other procedures, those of the median iteration.
    pub outcomes: Vec<Outcome>,
    /// Every iteration, in the order of execution.
    pub iterations: Vec<Iteration>,
    /// What the DUT's telemetry shows, over all its valid trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Why its figures are unreliable: its trials were too noisy, or its rates vary too much.
    /// Absent when they are reliable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// The resources that the DUT used for forwarding, summed over the trials with the highest
    /// forwarding rate of each iteration that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Why this number of iterations was made, if the results determined it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// Why a test case stopped after a number of iterations, if an interval determined it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopped {
    /// The reason.
    pub why: Enough,
    /// Number of iterations, including those without a result.
    pub iterations: u32,
    /// The figure whose interval was checked; empty if there was none.
    pub figure: String,
    /// Half of its 95 % confidence interval, in percent of the figure, or in percentage points if
    /// the figure is in percent. Absent with fewer than three values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width_percent: Option<f64>,
    /// The requested half width.
    #[serde(alias = "wanted_percent")]
    pub requested_percent: f64,
}

/// Why a test case needs no more iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Enough {
    /// Its interval is narrow enough.
    NarrowEnough,
    /// The maximum number of iterations was reached.
    Maximum,
    /// Its interval was narrow enough when it stopped, but not after its windows were judged by the
    /// readings of the whole run.
    JudgedAgain,
    /// The run was stopped or aborted, or nothing was left to measure.
    #[serde(alias = "broken_off")]
    Stopped,
}

/// A figure over the good iterations of a test case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseFigure {
    /// Name of the figure: `throughput`, `ndr`, `receive rate`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// The direction in which it improves.
    pub better: Better,
    /// One value per good iteration.
    pub values: Vec<f64>,
    /// Median of the values.
    pub median: f64,
    /// Half of the 95 % confidence interval of the mean (Student); absent with fewer than three
    /// values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_half_width: Option<f64>,
    /// Coefficient of variation, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_percent: Option<f64>,
    /// Number of values limited by the generator: the DUT may forward more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generator_limited: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl CaseFigure {
    /// Returns true if the interval of a non-negative quantity reaches zero: its values do not
    /// determine it, and it is not shown as a figure.
    pub fn is_undetermined(&self) -> bool {
        let is_positive = !matches!(self.unit, Unit::Percent | Unit::Cost);
        let half = self.interval_half_width.unwrap_or(0.0);
        is_positive && self.median > 0.0 && half >= self.median
    }
}

/// One iteration of a test case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Iteration {
    /// Number of the iteration, from 1.
    pub iteration: u32,
    /// The results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<Outcome>,
    /// Why it has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The kind of failure; absent for an ordinary failure.
    #[serde(default, skip_serializing_if = "NoResult::is_plain")]
    pub no_result: NoResult,
    /// Numbers of its trials in the run, or of its rebuilds if it was measured by slices. Includes
    /// invalid ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<u32>,
    /// Counters of the DUT's host, summed over the valid trials; absent when they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Box<Telemetry>>,
}

/// Kinds of failures of an iteration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoResult {
    /// An ordinary failure.
    #[default]
    Failed,
    /// The DUT did not come up.
    DidNotBoot,
    /// The DUT's kind does not support this measurement.
    NotApplicable,
    /// A user hook failed: the measurement it belongs to does not count.
    Hook,
    /// The user stopped the run. Resuming the run measures the iteration again.
    Interrupted,
}

impl NoResult {
    fn is_plain(&self) -> bool {
        *self == NoResult::Failed
    }
}

/// Why an iteration has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The message.
    pub why: String,
    /// Its kind.
    pub kind: NoResult,
}

/// An ordinary failure.
impl<T: Into<String>> From<T> for Failure {
    fn from(reason: T) -> Failure {
        Failure {
            why: reason.into(),
            kind: NoResult::Failed,
        }
    }
}

impl Iteration {
    /// Returns it with this failure, or none, instead of its own.
    pub fn with(self, failure: Option<Failure>) -> Iteration {
        let (failure, no_result) = match failure {
            Some(failure) => (Some(failure.why), failure.kind),
            None => (None, NoResult::Failed),
        };
        Iteration {
            failure,
            no_result,
            ..self
        }
    }

    /// The same with the reason why it has no result. Its outcomes are kept, except around a failed
    /// hook: those do not count.
    pub fn without_result(mut self, failure: Failure) -> Iteration {
        if failure.kind == NoResult::Hook {
            self.outcomes.clear();
        }
        self.with(Some(failure))
    }
}

impl TestCase {
    /// Iterates over the iterations without a result, with the reasons.
    pub fn failures(&self) -> impl Iterator<Item = (u32, &str)> {
        let failed = self.iterations.iter();
        failed.filter_map(|one| Some((one.iteration, one.failure.as_deref()?)))
    }

    /// Returns a figure by its name.
    pub fn figure(&self, name: &str) -> Option<&CaseFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns the results of quiet windows, if the procedure has windows.
    pub fn windows(&self) -> Option<&Maxfwd> {
        self.outcomes.iter().find_map(|outcome| outcome.found.get())
    }

    /// Returns the results of slices, if the procedure has slices.
    pub fn slices(&self) -> Option<&Paired> {
        self.outcomes.iter().find_map(|outcome| outcome.found.get())
    }

    /// Iterates over the differences from the reference DUT measured by slices, one per swept
    /// value.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        let points = self.slices().into_iter().flat_map(|found| &found.points);
        points.map(|point| &point.comparison)
    }

    /// Returns the median forwarding rate in frames per second, if that is the figure of the test
    /// case.
    pub fn forwarding_rate(&self) -> Option<&CaseFigure> {
        self.figure(FORWARDING_RATE)
    }

    /// Returns the forwarding rates of the good iterations, if they are the figure of the test
    /// case.
    pub fn rates(&self) -> &[f64] {
        self.forwarding_rate().map_or(&[], |figure| &figure.values)
    }

    /// Iterates over reasons to doubt its figures, in addition to [`TestCase::doubt`].
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.outcomes.iter().flat_map(|outcome| &outcome.warnings)
    }
}
