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
use crate::outcome::{Better, FORWARDING_RATE, Found, Maxfwd, Outcome, Paired, Unit};
use crate::telemetry::{Finding, Telemetry};

/// A test case with all its iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestCase {
    /// Its name: [`Case::id`], without the configuration where a command measured only one.
    pub test_case: String,
    /// The test case.
    #[serde(flatten)]
    pub case: Case,
    /// What the good iterations say together, one per figure.
    pub figures: Vec<CaseFigure>,
    /// Windows, slices and sweeps of all good iterations put together; of other procedures the iteration in the middle.
    pub outcomes: Vec<Outcome>,
    /// Every iteration, in the order in which they were made.
    pub iterations: Vec<Iteration>,
    /// What telemetry of the DUT explains, over all its valid trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Why its figures are not to be relied on: its own trials were too noisy, or its rates vary too much. Absent when they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// What forwarding took of the DUT: in every iteration that counts, in the trial that forwarded most frames per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Why it was measured so often, where that followed from what was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

/// Why a test case was measured so often and not oftener, where an interval decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopped {
    /// Why.
    pub why: Enough,
    /// Iterations that were made, those without a result included.
    pub iterations: u32,
    /// The figure whose interval was looked at; empty where there was none.
    pub figure: String,
    /// Half of its 95 % interval, in percent of it; of a figure in percent, in points of them. Absent below three values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width_percent: Option<f64>,
    /// How narrow it was wanted.
    pub wanted_percent: f64,
}

/// Why a test case is not measured any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Enough {
    /// Its interval is narrow enough.
    NarrowEnough,
    /// So many iterations were made as may be.
    Maximum,
    /// It was narrow enough then, and by the readings of the whole run, by which windows are judged in the end, it is not.
    JudgedAgain,
    /// The run was stopped or broke off, or there was nothing left to measure.
    BrokenOff,
}

/// A figure over the good iterations of a test case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseFigure {
    /// What it is: `throughput`, `ndr`, `receive rate`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
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
    /// Of this many values the DUT may forward more: the generator was the limit.
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
    /// Which, from 1.
    pub iteration: u32,
    /// What was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<Outcome>,
    /// Why it has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The kind of that failure; absent for an ordinary failure.
    #[serde(default, skip_serializing_if = "NoResult::is_plain")]
    pub no_result: NoResult,
    /// The trials that it rests on, by their numbers in the run; of slices the rebuilds. Those that were invalid are among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<u32>,
    /// What the DUT's host counted in its valid trials, together; absent where it was not read.
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
    /// The DUT is of a kind that cannot be asked for what was to be measured.
    NotApplicable,
    /// A hook of the user's failed: what it belongs to does not count.
    Hook,
    /// The user stopped the run: the iteration is made again when the run goes on.
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
    fn from(why: T) -> Failure {
        Failure {
            why: why.into(),
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

    /// The same with the reason why it has no result. What was found stays, except around a hook that failed: that does not count.
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
        self.outcomes
            .iter()
            .find_map(|outcome| match &outcome.found {
                Found::Maxfwd(found) => Some(&**found),
                _ => None,
            })
    }

    /// Returns the results of slices, if the procedure has slices.
    pub fn slices(&self) -> Option<&Paired> {
        self.outcomes
            .iter()
            .find_map(|outcome| match &outcome.found {
                Found::Paired(found) => Some(found),
                _ => None,
            })
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
