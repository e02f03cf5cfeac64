//! Comparing configurations, runs or files of numbers: what differs, by how much, and is it proven?
//!
//! It is given series of values, arranges them into rows (test cases) and columns (what is compared), asks `stats`, and
//! renders the outcome as text, Markdown, CSV, ministat blocks or, through serde, JSON; [`html`](crate::html::comparison) makes a page of it. It reads no store and knows no
//! arguments. Start with [`compare`]; [`changes()`] looks for steps in a series of runs.

mod arrange;
mod changes;
mod formats;
mod judge;
mod limit;
mod text;

use std::collections::BTreeMap;

use fwdlab_model::comparison::Verdict;
use fwdlab_model::series::{FORWARDING_RATE, Series};
use fwdlab_stats::Confidence;
use serde::Serialize;

pub use changes::{Changes, changes};
pub(crate) use formats::table;
pub use formats::{csv, markdown, ministat};
pub use fwdlab_model::threshold::Judged;
pub(crate) use judge::FEWEST_VALUES;
pub use limit::{ACCEPT_BLIND, Limit, LimitError};
pub(crate) use text::{Scale, difference_cell, notes};
pub use text::{changes as changes_text, text};

/// The key of [`Options::by`] under which every argument is a column.
pub const SOURCE: &str = "source";

/// Procedures whose figures are of a load that is given.
const AT_A_LOAD: [&str; 4] = ["trial", "forwarding-rate", "latency", "soak"];

/// Series under one name: a run, or a file of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Unique among the sources.
    pub name: String,
    /// What it holds.
    pub series: Vec<Series>,
}

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// The metric, as in [`fwdlab_model::series::Series`].
    pub metric: String,
    /// The label whose values become columns, or several with commas between them; without it [`SOURCE`], or the configuration where
    /// there is one source.
    pub by: Option<String>,
    /// The labels that tell rows apart, with commas between them; series that differ in others are joined.
    pub rows: Option<String>,
    /// What is compared at all: series that every one of them keeps.
    pub filters: Vec<Filter>,
    /// The column that the others are compared with; without it the first.
    pub baseline: Option<String>,
    /// Which test.
    pub test: TestChoice,
    /// Take the n-th values of two columns as a pair.
    pub paired: bool,
    /// What rebuilds of one run cannot show to be real, as a logarithm of a ratio.
    pub allowance: f64,
    /// Of intervals and verdicts.
    pub confidence: Confidence,
    /// Differences up to this size are of no interest: are they proven to be that small?
    pub equivalence_percent: Option<f64>,
}

impl Options {
    /// All series of a metric, compared by the automatic test with 95 % confidence.
    pub fn new(metric: impl Into<String>) -> Options {
        Options {
            metric: metric.into(),
            by: None,
            rows: None,
            filters: Vec::new(),
            baseline: None,
            test: TestChoice::Auto,
            paired: false,
            allowance: 0.0,
            confidence: Confidence::P95,
            equivalence_percent: None,
        }
    }
}

/// Keeps series by a label, or leaves them out: `configuration:a,b`, `-size:1518`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The label.
    pub key: String,
    /// Its values.
    pub values: Vec<String>,
    /// Leaves out what has one of them, instead of all else.
    pub excludes: bool,
}

impl std::str::FromStr for Filter {
    type Err = String;

    fn from_str(typed: &str) -> Result<Filter, String> {
        let (excludes, rest) = match typed.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, typed),
        };
        let (key, values) = rest
            .split_once(':')
            .filter(|(key, values)| !key.trim().is_empty() && !values.trim().is_empty())
            .ok_or_else(|| {
                format!("`{typed}` is no filter: say a label and its values, as in size:64 or -configuration:plain,nat")
            })?;
        Ok(Filter {
            key: key.trim().to_owned(),
            values: values
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect(),
            excludes,
        })
    }
}

/// Which test decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TestChoice {
    /// Welch's t; ranks where outliers or two modes contradict normal values.
    #[default]
    Auto,
    /// Student's t, as ministat.
    Student,
    /// Welch's t.
    Welch,
    /// Mann and Whitney's U; of pairs Wilcoxon's signed ranks.
    Rank,
}

/// Why nothing was compared. All of them are wrong use.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// No series has the metric.
    #[error("nothing has the metric `{metric}`; there is {there_is}")]
    NoMetric {
        /// What was asked for.
        metric: String,
        /// What there is instead.
        there_is: String,
    },
    /// The label is unknown.
    #[error("no series has a label `{key}`; --by accepts {there_is}")]
    NoLabel {
        /// What was asked for.
        key: String,
        /// Labels that vary.
        there_is: String,
    },
    /// Filters leave nothing.
    #[error("no series passes all filters; leave one out, or see the labels with --format json")]
    NothingLeft,
    /// There is one column only.
    #[error("only one column to compare ({by} is {only}); {advice}")]
    OneColumn {
        /// The label of the columns.
        by: String,
        /// The only value.
        only: String,
        /// What to do.
        advice: String,
    },
    /// The baseline is no column, or several.
    #[error("the baseline `{name}` is {what}; columns are {columns}")]
    Baseline {
        /// What was asked for.
        name: String,
        /// `no column` or `the beginning of several columns`.
        what: &'static str,
        /// What there is.
        columns: String,
    },
    /// No test case is in the baseline and another column.
    #[error("nothing to compare: no test case is in {baseline} and in another column. {there_is}")]
    NothingInCommon {
        /// The baseline.
        baseline: String,
        /// Test cases per column.
        there_is: String,
    },
    /// Values cannot be paired.
    #[error("cannot pair the values of {columns} ({test_case}): {why}")]
    NotPaired {
        /// Which columns.
        columns: String,
        /// Which row.
        test_case: String,
        /// What is in the way.
        why: String,
    },
    /// A value is not finite, or so large or small that its square is not.
    #[error("{column}: value {place} is {value}, which is outside the range that can be compared")]
    Value {
        /// Where it is.
        column: String,
        /// Its place, from 1.
        place: usize,
        /// The value.
        value: f64,
    },
    /// There is no description of such a series.
    #[error("{test_case}: {why}")]
    NoChanges {
        /// Which row.
        test_case: String,
        /// Why.
        why: String,
    },
    /// ministat refuses the row.
    #[error("{test_case}: ministat cannot show this: {why}")]
    Ministat {
        /// Which row.
        test_case: String,
        /// Why.
        why: String,
    },
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// What was compared.
    pub metric: String,
    /// Unit of all values; empty for bare numbers.
    pub unit: String,
    /// The label whose values are the columns.
    pub by: String,
    /// The column that the others are compared with: the first of `columns`.
    pub baseline: String,
    /// Of all intervals and verdicts.
    pub confidence_percent: f64,
    /// The columns, baseline first.
    pub columns: Vec<Column>,
    /// One per test case that is in the baseline and in another column.
    pub rows: Vec<Row>,
    /// Test cases that are not in every column.
    pub unmatched: Vec<Unmatched>,
}

/// A column: what is compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Column {
    /// Its name: the value of the label.
    pub name: String,
    /// Runs and files it comes from.
    pub sources: Vec<String>,
    /// Labels that all of its series share.
    pub labels: BTreeMap<String, String>,
}

/// A row: one test case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// In words.
    pub test_case: String,
    /// What tells it from other rows.
    pub labels: BTreeMap<String, String>,
    /// One per column; absent where the column has no valid value of this test case.
    pub cells: Vec<Option<Cell>>,
    /// The columns after the baseline that have values, compared with it.
    pub comparisons: Vec<Compared>,
}

/// Values of one test case in one column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// The column.
    pub column: String,
    /// Number of values.
    pub n: usize,
    /// Median; of an even number the mean of the two middle ones.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation; absent for one value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdev: Option<f64>,
    /// Half of the confidence interval of the mean (Student), in percent of the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_half_width_percent: Option<f64>,
    /// Records left out because they were invalid or had no result.
    pub left_out: u32,
    /// Series whose values stand one after the other here, where there is more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<String>,
    /// The values in order of measurement.
    pub values: Vec<f64>,
    /// What makes a reader doubt them, whatever they are compared with.
    pub warnings: Vec<String>,
}

/// A column compared with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The column.
    pub column: String,
    /// Numbers of values: of the baseline and of this column; of pairs twice their number.
    pub n: [usize; 2],
    /// Of how many values of both the generator was the limit. Lower bounds are not compared: nothing else is known then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_limited: Option<[u32; 2]>,
    /// How values were paired; absent for independent ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Pairs>,
    /// The test: `student`, `welch`, `mann_whitney`, `exact`, `paired_t`, `signed_rank`.
    pub test: &'static str,
    /// What it takes for granted.
    pub assumption: &'static str,
    /// Why it was chosen, where the data had a say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In the unit of the values: difference of means, or of Hodges and Lehmann with ranks; absent for pairs, which are
    /// compared by their ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Confidence interval of `difference`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// In percent of the baseline.
    pub difference_percent: Option<f64>,
    /// Confidence interval of `difference_percent`.
    pub interval_percent: Option<[f64; 2]>,
    /// Smallest true difference that so many values of this spread show with 80 % probability.
    pub detectable_percent: Option<f64>,
    /// Two-sided.
    pub p_value: Option<f64>,
    /// The same adjusted by Holm for the comparisons of this row; absent where it is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value_adjusted: Option<f64>,
    /// What is proven.
    pub verdict: Verdict,
    /// Medians and the test's own estimate say different things: nothing is proven then, and no percentage is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagreement: Option<String>,
    /// Two one-sided tests, where a margin was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equivalence: Option<Equivalence>,
    /// What the other tests say.
    pub beside: Vec<Beside>,
    /// What contradicts the assumption.
    pub warnings: Vec<String>,
}

/// Values taken as pairs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pairs {
    /// Their number.
    pub n: usize,
    /// What makes them pairs, in words.
    pub why: &'static str,
    /// Standard deviation of the differences.
    pub spread_percent: Option<f64>,
    /// How far the baseline wandered from first to last; absent below 6 pairs.
    pub drift_of_baseline: Option<Drift>,
    /// How far the differences wandered; a trend here is a reason for doubt.
    pub drift_of_differences: Option<Drift>,
}

/// A trend over the order of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Drift {
    /// From first to last: in percent, of differences in percentage points.
    pub change_percent: f64,
    /// Its confidence interval.
    pub interval_percent: [f64; 2],
}

/// Is a difference proven to be of no interest?
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Equivalence {
    /// Differences up to this size are of no interest.
    pub margin_percent: f64,
    /// The interval that decides: at 90 % for a claim at 95 %.
    pub interval_percent: Option<[f64; 2]>,
    /// `equivalent`, `different`, `undecided` or `cannot_tell`.
    pub verdict: &'static str,
}

/// The verdict of a test that does not decide here.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Beside {
    /// The test, as in [`Compared::test`].
    pub test: &'static str,
    /// In percent of the baseline.
    pub difference_percent: Option<f64>,
    /// Its confidence interval.
    pub interval_percent: Option<[f64; 2]>,
    /// Two-sided, not adjusted.
    pub p_value: Option<f64>,
    /// What it would prove.
    pub verdict: Verdict,
}

/// A test case that is not in every column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unmatched {
    /// In words.
    pub test_case: String,
    /// Columns that have valid values of it.
    pub only_in: Vec<String>,
    /// Columns that have none.
    pub missing_in: Vec<String>,
}

/// Compares every column with the baseline, test case by test case.
///
/// # Errors
/// See [`CompareError`]: there is nothing to compare, or not so.
pub fn compare(sources: &[Source], options: &Options) -> Result<Outcome, CompareError> {
    let arranged = arrange::arrange(sources, options)?;
    judge::judge(&arranged, options)
}

/// What is compared unless something else is asked for: the forwarding rate, else the first metric that all have.
pub fn common_metric(sources: &[Source]) -> String {
    let has = |source: &Source, metric: &str| {
        // a file of numbers is of any
        let mut all = source.series.iter();
        all.any(|series| series.metric == metric || series.metric.is_empty())
    };
    let in_all = |metric: &&str| sources.iter().all(|source| has(source, metric));
    let of_first = sources.iter().flat_map(|source| &source.series);
    let of_first = of_first.map(|series| series.metric.as_str());
    let mut candidates = std::iter::once(FORWARDING_RATE).chain(of_first);
    candidates
        .find(in_all)
        .filter(|metric| !metric.is_empty())
        .unwrap_or(FORWARDING_RATE)
        .to_owned()
}

/// Why two things with these labels are not comparable, in words: their values were found otherwise, or one was not measured at all. That
/// hardware, kernels and configurations differ is no reason: that is what is compared.
pub(crate) fn unlike(
    one: &BTreeMap<String, String>,
    other: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut told = Vec::new();
    // where the load is given and not sought, figures are of that load
    let of_load = one
        .get("procedure")
        .is_some_and(|id| AT_A_LOAD.contains(&&id[..]));
    let keys = ["procedure", "load"];
    for key in keys.into_iter().filter(|key| *key != "load" || of_load) {
        if let (Some(one), Some(other)) = (one.get(key), other.get(key))
            && one != other
        {
            told.push(format!("{key} {other} against {one}"));
        }
    }
    let simulated = |labels: &BTreeMap<String, String>| {
        let engine = labels.get("engine")?;
        Some(engine == "sim" || engine.starts_with("sim:"))
    };
    match (simulated(one), simulated(other)) {
        (Some(false), Some(true)) => told.push("it is simulated".into()),
        (Some(true), Some(false)) => told.push("what it is compared with is simulated".into()),
        _ => {}
    }
    told
}

impl Compared {
    /// Is it proven that the column differs?
    pub fn is_proven(&self) -> bool {
        matches!(self.verdict, Verdict::Less | Verdict::More)
    }
}
