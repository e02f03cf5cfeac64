//! Compares configurations, runs or files of numbers: what differs, by how much, and whether it is
//! proven.
//!
//! It takes series of values, arranges them in rows (test cases) and columns (what is compared),
//! applies the tests of `stats`, and renders the outcome as text, Markdown, CSV, ministat blocks
//! or, through serde, JSON; [`html`](crate::html::comparison) renders a page. It does not read
//! stores or parse arguments. Start with [`compare`]; [`changes()`] finds steps in a series of
//! runs.

mod arrange;
mod changes;
mod formats;
mod judge;
mod limit;
mod text;

use std::collections::BTreeMap;

use fwdlab_model::comparison::Verdict;
use fwdlab_model::facts::EMULATOR;
use fwdlab_model::instructions::{BURST, FunctionShare, GENERATOR};
use fwdlab_model::series::{FORWARDING_RATE, SENDERS, Series};
use fwdlab_stats::Confidence;
use serde::Serialize;

pub use changes::{Changes, changes};
pub(crate) use changes::{Group, Groups};
pub(crate) use formats::table;
pub use formats::{csv, markdown, ministat};
pub use fwdlab_model::threshold::Judged;
pub(crate) use judge::FEWEST_VALUES;
pub(crate) use limit::in_short;
pub use limit::{ACCEPT_INCONCLUSIVE, Limit, LimitError};
pub(crate) use text::{Scale, difference_cell, notes, other_tests};
pub use text::{changes as changes_text, text};

/// The value of [`Options::by`] that makes every argument a column.
pub const SOURCE: &str = "source";

/// Procedures whose figures depend on a given load.
const AT_A_LOAD: [&str; 4] = ["trial", "forwarding-rate", "latency", "soak"];

/// Series under one name: a run, or a file of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Name, unique among the sources.
    pub name: String,
    /// The series of the source.
    pub series: Vec<Series>,
}

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// The metric, as in [`fwdlab_model::series::Series`].
    pub metric: String,
    /// The label whose values become columns, or several labels separated by commas. Default:
    /// [`SOURCE`], or the configuration if there is only one source.
    pub by: Option<String>,
    /// Labels that distinguish rows, separated by commas; series that differ in other labels are
    /// joined. Default: chosen automatically.
    pub rows: Option<String>,
    /// Filters; a series is compared if all of them keep it.
    pub filters: Vec<Filter>,
    /// The column to compare with. Default: the first.
    pub baseline: Option<String>,
    /// The test that decides.
    pub test: TestChoice,
    /// Pair the n-th values of two columns.
    pub paired: bool,
    /// Differences between rebuilds of one run up to this size cannot be proven; a logarithm of a
    /// ratio.
    pub allowance: f64,
    /// Confidence of intervals and verdicts.
    pub confidence: Confidence,
    /// Margin for equivalence, in percent: test whether differences are smaller than this.
    pub equivalence_percent: Option<f64>,
}

impl Options {
    /// Returns options for all series of a metric: the automatic test, 95 % confidence.
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

/// Keeps or excludes series by a label: `configuration:a,b`, `-size:1518`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The label.
    pub key: String,
    /// The values.
    pub values: Vec<String>,
    /// Exclude series with these values, rather than keep them.
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
                format!("`{typed}` is not a filter: say a label and its values, as in size:64 or -configuration:plain,nat")
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

/// The choice of the deciding test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TestChoice {
    /// Welch's t, or ranks if outliers or two modes contradict a normal distribution.
    #[default]
    Auto,
    /// Student's t, as in ministat.
    Student,
    /// Welch's t.
    Welch,
    /// Mann-Whitney U; for pairs, Wilcoxon's signed ranks.
    Rank,
}

/// Why nothing was compared. All of these are usage errors.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// No series has the metric.
    #[error("nothing has the metric `{metric}`; there is {there_is}")]
    NoMetric {
        /// The requested metric.
        metric: String,
        /// The available metrics.
        there_is: String,
    },
    /// The label is unknown.
    #[error("no series has a label `{key}`; --by accepts {there_is}")]
    NoLabel {
        /// The requested label.
        key: String,
        /// The labels that vary.
        there_is: String,
    },
    /// The filters exclude everything.
    #[error("no series passes all filters; leave one out, or see the labels with --format json")]
    NothingLeft,
    /// There is only one column.
    #[error("only one column to compare ({by} is {only}); {advice}")]
    OneColumn {
        /// The label of the columns.
        by: String,
        /// The only value.
        only: String,
        /// Advice.
        advice: String,
    },
    /// The baseline matches no column, or several.
    #[error("the baseline `{name}` is {what}; columns are {columns}")]
    Baseline {
        /// The requested baseline.
        name: String,
        /// `no column` or `the beginning of several columns`.
        what: &'static str,
        /// The available columns.
        columns: String,
    },
    /// No test case is in the baseline and in another column.
    #[error("nothing to compare: no test case is in {baseline} and in another column. {there_is}")]
    NothingInCommon {
        /// The baseline.
        baseline: String,
        /// The test cases of each column.
        there_is: String,
    },
    /// Values cannot be paired.
    #[error("cannot pair the values of {columns} ({test_case}): {why}")]
    NotPaired {
        /// The columns.
        columns: String,
        /// The row.
        test_case: String,
        /// The reason.
        why: String,
    },
    /// A value is not finite, or its square overflows or underflows.
    #[error("{column}: value {place} is {value}, which is outside the range that can be compared")]
    Value {
        /// The column of the value.
        column: String,
        /// Number of the value, from 1.
        place: usize,
        /// The value.
        value: f64,
    },
    /// The series cannot be cut into groups.
    #[error("{test_case}: {why}")]
    NoChanges {
        /// The row.
        test_case: String,
        /// The reason.
        why: String,
    },
    /// ministat refuses the row.
    #[error("{test_case}: ministat cannot show this: {why}")]
    Ministat {
        /// The row.
        test_case: String,
        /// The reason.
        why: String,
    },
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Name of the metric.
    pub metric: String,
    /// Unit of all values; empty for bare numbers.
    pub unit: String,
    /// The label whose values are the columns.
    pub by: String,
    /// The column that the others are compared with: the first of `columns`.
    pub baseline: String,
    /// Confidence of all intervals and verdicts, in percent.
    pub confidence_percent: f64,
    /// The columns, baseline first.
    pub columns: Vec<Column>,
    /// One row per test case that is in the baseline and in another column.
    pub rows: Vec<Row>,
    /// Test cases that are not in every column.
    pub unmatched: Vec<Unmatched>,
}

/// A column: a configuration, run or file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Column {
    /// Name of the column: the value of the label.
    pub name: String,
    /// The runs and files of its values.
    pub sources: Vec<String>,
    /// Labels that all of its series share.
    pub labels: BTreeMap<String, String>,
}

/// A row: one test case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The test case in words.
    pub test_case: String,
    /// The labels that distinguish it from other rows.
    pub labels: BTreeMap<String, String>,
    /// One cell per column; absent if the column has no valid value for this test case.
    pub cells: Vec<Option<Cell>>,
    /// Comparisons of the other columns that have values with the baseline.
    pub comparisons: Vec<Compared>,
}

/// Values of one test case in one column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Name of the column.
    pub column: String,
    /// Number of values.
    pub n: usize,
    /// Median; for an even number of values, the mean of the two middle ones.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation; absent for a single value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdev: Option<f64>,
    /// Half of the confidence interval of the mean (Student), in percent of the mean; for counts,
    /// half of the interval of their median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_half_width_percent: Option<f64>,
    /// Number of records left out because they were invalid or had no result.
    pub left_out: u32,
    /// Origins of the joined series, if there is more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<String>,
    /// The values in order of measurement.
    pub values: Vec<f64>,
    /// Warnings about the values that hold for any comparison.
    pub warnings: Vec<String>,
}

/// The comparison of a column with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the column.
    pub column: String,
    /// Numbers of values: of the baseline and of this column. For pairs, both are the number of
    /// pairs.
    pub n: [usize; 2],
    /// Numbers of values on each side for which the generator was the limit. Lower bounds are not
    /// compared: if this is set, there is no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_limited: Option<[u32; 2]>,
    /// How values were paired; absent for independent values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Pairs>,
    /// The test: `student`, `welch`, `mann_whitney`, `exact`, `counts`, `paired_t`, `signed_rank`.
    pub test: &'static str,
    /// The assumption of the test.
    pub assumption: &'static str,
    /// Why the test was chosen, if that depended on the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Difference of means, or the Hodges-Lehmann estimate for ranks, in the unit of the values;
    /// absent for pairs, which are compared by their ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Confidence interval of `difference`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Difference in percent of the baseline.
    pub difference_percent: Option<f64>,
    /// Confidence interval of `difference_percent`.
    pub interval_percent: Option<[f64; 2]>,
    /// Smallest true difference that this number of values with this spread would show with 80 %
    /// probability; for counts, that is certain to show.
    pub detectable_percent: Option<f64>,
    /// Two-sided p-value.
    pub p_value: Option<f64>,
    /// The p-value adjusted for the number of comparisons in the row (Holm); absent if there is
    /// only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value_adjusted: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Set if the medians contradict the estimate of the test, or if counts are not comparable:
    /// nothing is proven then, and no percentage is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagreement: Option<String>,
    /// Result of two one-sided tests, if a margin was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equivalence: Option<Equivalence>,
    /// Results of the other tests.
    pub other_tests: Vec<OtherTest>,
    /// For instructions: the functions that take more or less, the largest difference first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
    /// Warnings about values that violate the assumption.
    pub warnings: Vec<String>,
}

/// How values were paired.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pairs {
    /// Number of pairs.
    pub n: usize,
    /// The reason for pairing, in words.
    pub why: &'static str,
    /// Standard deviation of the differences, in percent.
    pub spread_percent: Option<f64>,
    /// Drift of the baseline from first to last; absent below 6 pairs.
    pub drift_of_baseline: Option<Drift>,
    /// Drift of the differences; a trend here is a reason for doubt.
    pub drift_of_differences: Option<Drift>,
}

/// A trend over the order of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Drift {
    /// Change from first to last, in percent; for differences, in percentage points.
    pub change_percent: f64,
    /// Confidence interval of `change_percent`.
    pub interval_percent: [f64; 2],
}

/// The result of an equivalence test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Equivalence {
    /// Differences up to this size are considered equivalent, in percent.
    pub margin_percent: f64,
    /// The deciding interval: at 90 % for a claim at 95 %.
    pub interval_percent: Option<[f64; 2]>,
    /// `equivalent`, `different`, `undecided` or `cannot_tell`.
    pub verdict: &'static str,
}

/// The result of a test that does not decide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OtherTest {
    /// The test, as in [`Compared::test`].
    pub test: &'static str,
    /// Difference in percent of the baseline.
    pub difference_percent: Option<f64>,
    /// Confidence interval of `difference_percent`.
    pub interval_percent: Option<[f64; 2]>,
    /// Two-sided p-value, not adjusted.
    pub p_value: Option<f64>,
    /// The verdict of this test.
    pub verdict: Verdict,
}

/// A test case that is not in every column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unmatched {
    /// The test case in words.
    pub test_case: String,
    /// Columns that have valid values of it.
    pub only_in: Vec<String>,
    /// Columns that have none.
    pub missing_in: Vec<String>,
}

/// Compares every column with the baseline, test case by test case.
///
/// # Errors
/// See [`CompareError`]: there is nothing to compare, or the options do not fit the data.
pub fn compare(sources: &[Source], options: &Options) -> Result<Outcome, CompareError> {
    let arranged = arrange::arrange(sources, options)?;
    judge::judge(&arranged, options)
}

/// Returns the default metric: the forwarding rate if all sources have it, else the first metric of
/// the first source that all have.
pub fn common_metric(sources: &[Source]) -> String {
    let has = |source: &Source, metric: &str| {
        // a file of numbers matches every metric
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

/// Returns why two columns with these labels are not comparable: different procedures, loads or
/// numbers of senders, or only one of them is simulated. Different hardware, kernels and
/// configurations are what is compared, so they are no reason.
pub(crate) fn incomparable_reason(
    one: &BTreeMap<String, String>,
    other: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut reported = Vec::new();
    // the load matters if it was given rather than searched for
    let of_load = one
        .get("procedure")
        .is_some_and(|id| AT_A_LOAD.contains(&&id[..]));
    let keys = ["procedure", "load", SENDERS, EMULATOR, BURST, GENERATOR];
    for key in keys.into_iter().filter(|key| *key != "load" || of_load) {
        if let (Some(one), Some(other)) = (one.get(key), other.get(key))
            && one != other
        {
            reported.push(format!("{key} {other} against {one}"));
        }
    }
    let simulated = |labels: &BTreeMap<String, String>| {
        let engine = labels.get("engine")?;
        Some(engine == "sim" || engine.starts_with("sim:"))
    };
    match (simulated(one), simulated(other)) {
        (Some(false), Some(true)) => reported.push("it is simulated".into()),
        (Some(true), Some(false)) => reported.push("what it is compared with is simulated".into()),
        _ => {}
    }
    reported
}

impl Outcome {
    /// Returns why a column is not comparable with the baseline, if it is not. Labels of the
    /// columns are expected to differ.
    pub(crate) fn unlike(&self, column: &Column) -> Option<String> {
        let others = |column: &Column| {
            let mut labels = column.labels.clone();
            labels.retain(|key, _| self.by.split(',').all(|by| by != key));
            labels
        };
        let reason = incomparable_reason(&others(self.columns.first()?), &others(column));
        (!reason.is_empty()).then(|| {
            let (name, reason) = (&column.name, reason.join("; "));
            format!("{name} is not comparable with {}: {reason}", self.baseline)
        })
    }
}

impl Compared {
    /// Returns true if the column is proven to differ.
    pub fn is_proven(&self) -> bool {
        matches!(self.verdict, Verdict::Less | Verdict::More)
    }
}
