//! Two independent samples: how far apart they are, and whether that is proven.
//!
//! The answer is a value with an interval, in the unit of the samples and in percent of the
//! reference, and the smallest difference that these samples could have shown. For values measured
//! in pairs, [`paired`](crate::paired) is far more sensitive. Start at [`compare`].

use crate::rank::{rank_sum, shift};
use crate::sample::{Confidence, Interval, Sample};
use crate::student;
use crate::warning::{Warning, warnings};
use std::fmt;

/// What a comparison assumes about the values; it determines the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assumption {
    /// Normal, and both samples spread alike: Student's t with the pooled deviation.
    EqualSpread,
    /// Normal, each sample with its own spread: Welch's t. Our default.
    #[default]
    Normal,
    /// Nothing but that one sample is a shifted copy of the other: Mann and Whitney's U.
    Nothing,
}

/// The test behind a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Student's t, pooled.
    Student,
    /// Welch's t.
    Welch,
    /// Mann and Whitney's U, with the estimate of Hodges and Lehmann.
    MannWhitney,
    /// Neither sample has any spread: the values themselves differ or do not.
    Exact,
    /// Student's t on the differences of pairs.
    PairedT,
    /// Wilcoxon's signed ranks on the differences of pairs, with the estimate of Hodges and
    /// Lehmann.
    SignedRank,
}

/// The conclusion, relative to the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Proven to be below the reference.
    Less,
    /// Proven to be above the reference.
    Greater,
    /// No difference proven; this is not proof of equality.
    NoDifference,
    /// Too few values for a conclusion.
    TooFewValues,
}

/// The outcome of [`compare`].
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The assumption.
    pub assumption: Assumption,
    /// The test that the assumption implies.
    pub test: Test,
    /// Number of values of the reference and of the other sample.
    pub n: [usize; 2],
    /// Centre of the reference: its mean, or its median under [`Assumption::Nothing`].
    pub reference: f64,
    /// Centre of the other sample.
    pub value: f64,
    /// Distance of the other sample from the reference, in the unit of the samples: the difference
    /// of the means, or under [`Assumption::Nothing`] the median of all pairwise differences.
    pub difference: f64,
    /// Confidence interval of `difference`; `None` if there are too few values.
    pub interval: Option<Interval>,
    /// `difference` in percent of the reference; `None` if that is undefined: a reference of zero,
    /// or values that are not positive under [`Assumption::Nothing`].
    pub difference_percent: Option<f64>,
    /// Confidence interval of `difference_percent`, which includes the reference's own error
    /// (Fieller, or ranks of ratios). Excludes zero exactly if `interval` does. For positive values
    /// it ends at -100 %. Also `None` if the reference is not proven to differ from zero.
    pub interval_percent: Option<Interval>,
    /// Two-sided p-value; `None` if there are too few values.
    pub p_value: Option<f64>,
    /// Smallest true difference, in the unit of the samples, that samples of this size and spread
    /// show with 80 % probability (if they are normal); `None` if there are too few values.
    pub detectable: Option<f64>,
    /// `detectable` in percent of the reference; `None` if it is, or for a reference of zero.
    pub detectable_percent: Option<f64>,
    /// The conclusion.
    pub verdict: Verdict,
    /// Contradictions to the assumption in the data, and the sample they are in.
    pub warnings: Vec<(Side, Warning)>,
}

/// One of two compared samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The reference.
    Reference,
    /// The other sample.
    Other,
}

/// Probability of detecting a difference of the detectable size (docs/methodology.md, "How many
/// iterations").
pub(crate) const POWER: f64 = 0.80;

/// Fewest values per side with which ranks can prove a difference at 95 %.
const MIN_RANKS: usize = 4;
/// Fewest values per side that have a spread.
const MIN_SPREAD: usize = 2;

/// Compares two samples by the test that the assumption allows.
///
/// Student and Welch need 2 values per side; Mann–Whitney needs enough for a sufficiently small
/// p-value (4 at 95 %). If neither sample has any spread the comparison is exact: p is 0 or 1.
pub fn compare(
    reference: &Sample,
    other: &Sample,
    assumption: Assumption,
    confidence: Confidence,
) -> Comparison {
    let exact = [reference, other].iter().all(|s| s.variance() == Some(0.0));
    let mut comparison = match assumption {
        _ if exact => by_identity(reference, other),
        Assumption::EqualSpread => by_means(reference, other, Test::Student, confidence),
        Assumption::Normal => by_means(reference, other, Test::Welch, confidence),

        Assumption::Nothing => by_ranks(reference, other, confidence),
    };
    comparison.assumption = assumption;
    comparison.warnings = contradictions(reference, other, &comparison);
    comparison
}

/// Whether two samples are the same for all practical purposes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equivalence {
    /// Differences up to this size, in percent of the reference, do not matter.
    pub margin_percent: f64,
    /// The interval that decides, in percent: at 90 % for a claim at 95 %.
    pub interval_percent: Option<Interval>,
    /// The conclusion.
    pub verdict: EquivalenceVerdict,
}

/// The conclusion of [`equivalence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EquivalenceVerdict {
    /// Proven to differ by less than the margin.
    Equivalent,
    /// Proven to differ by more than the margin.
    Different,
    /// Neither is proven.
    Undecided,
    /// Too few values for a conclusion.
    TooFewValues,
}

/// Two one-sided tests whether the difference is within `± margin_percent` of the reference.
///
/// Answers "no regression", which [`Verdict::NoDifference`] does not. If both of two tests must
/// reject, that costs no confidence, so the interval may be narrower: 90 % for a claim at 95 %.
pub fn equivalence(
    reference: &Sample,
    other: &Sample,
    margin_percent: f64,
    assumption: Assumption,
    confidence: Confidence,
) -> Equivalence {
    equivalence_from(margin_percent, confidence, |narrower| {
        compare(reference, other, assumption, narrower).interval_percent
    })
}

/// Returns the claim that follows from the interval at the narrower confidence of two one-sided
/// tests.
pub(crate) fn equivalence_from(
    margin_percent: f64,
    confidence: Confidence,
    interval_percent: impl FnOnce(Confidence) -> Option<Interval>,
) -> Equivalence {
    // For confidence at or below 50 % no narrower interval exists.
    let narrower = Confidence::new(2.0 * confidence.get() - 1.0);
    let interval_percent = narrower.and_then(interval_percent);
    let verdict = match interval_percent {
        None => EquivalenceVerdict::TooFewValues,
        Some(i) if -margin_percent < i.low && i.high < margin_percent => {
            EquivalenceVerdict::Equivalent
        }
        Some(i) if i.low > margin_percent || i.high < -margin_percent => {
            EquivalenceVerdict::Different
        }
        Some(_) => EquivalenceVerdict::Undecided,
    };
    Equivalence {
        margin_percent,
        interval_percent,
        verdict,
    }
}

/// An assumption that the data do not contradict, and the evidence against the usual one.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The assumption.
    pub assumption: Assumption,
    /// Evidence against normal values: outliers and modes. Also filled under [`Assumption::Normal`]
    /// if ranks could prove nothing.
    pub because: Vec<(Side, Warning)>,
}

/// Chooses [`Assumption::Normal`], or [`Assumption::Nothing`] if outliers or two modes contradict
/// it.
///
/// Chooses ranks only if they can prove something with samples this small: the p-value of a
/// complete separation, times the `family` of comparisons made together, must be small enough.
pub fn choose(reference: &Sample, other: &Sample, family: usize, confidence: Confidence) -> Choice {
    let of_side = |(side, sample): (Side, &Sample)| {
        let found = warnings(sample).into_iter().filter(Warning::is_not_normal);
        found.map(|warning| (side, warning)).collect::<Vec<_>>()
    };
    let sides = [(Side::Reference, reference), (Side::Other, other)];
    let because: Vec<_> = sides.into_iter().flat_map(of_side).collect();
    let alpha = 1.0 - confidence.get();
    // Large samples can always prove something, and computing their ranks takes time.
    let large = reference.n().min(other.n()) > 50;
    let able = || rank_sum(reference, other, confidence).smallest_p * family as f64 <= alpha;
    let ranks = !because.is_empty() && (large || able());
    Choice {
        assumption: if ranks {
            Assumption::Nothing
        } else {
            Assumption::Normal
        },
        because,
    }
}

/// The precision of a planned comparison of two samples of equal size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Half-width of the interval of the difference, in percent of the mean.
    pub half_width_percent: f64,
    /// Smallest difference shown with 80 % probability, in percent of the mean.
    pub detectable_percent: f64,
}

/// Returns the precision of `n` values per side with a coefficient of variation of `cv_percent`
/// (docs/methodology.md, "How many iterations"); `None` below 2 values.
pub fn planned_precision(n: usize, cv_percent: f64, confidence: Confidence) -> Option<Precision> {
    if n < MIN_SPREAD {
        return None;
    }
    let df = (2 * n - 2) as f64;
    let error = (2.0 / n as f64).sqrt() * cv_percent;
    let t = student::critical(confidence, df);
    Some(Precision {
        half_width_percent: t * error,
        detectable_percent: (t + student::quantile(POWER, df)) * error,
    })
}

/// Returns the precision of `n` differences of pairs with a standard deviation of `sd_percent` of
/// the mean: like [`planned_precision`], with the spread that remains if both values of a pair are
/// measured in turns, and n - 1 degrees of freedom. `None` below 2 pairs.
pub fn planned_precision_of_pairs(
    n: usize,
    sd_percent: f64,
    confidence: Confidence,
) -> Option<Precision> {
    if n < MIN_SPREAD {
        return None;
    }
    let df = (n - 1) as f64;
    let error = sd_percent / (n as f64).sqrt();
    let t = student::critical(confidence, df);
    Some(Precision {
        half_width_percent: t * error,
        detectable_percent: (t + student::quantile(POWER, df)) * error,
    })
}

/// Returns a comparison that contains only the two centres so far.
fn undecided(
    test: Test,
    reference: &Sample,
    other: &Sample,
    centre: fn(&Sample) -> f64,
) -> Comparison {
    let (m1, m2) = (centre(reference), centre(other));
    Comparison {
        assumption: Assumption::default(),
        test,
        n: [reference.n(), other.n()],
        reference: m1,
        value: m2,
        difference: m2 - m1,
        interval: None,
        // divide by the absolute value, so that a negative reference keeps the sign of the
        // difference
        difference_percent: (m1 != 0.0).then(|| 100.0 * (m2 - m1) / m1.abs()),
        interval_percent: None,
        p_value: None,
        detectable: None,
        detectable_percent: None,
        verdict: Verdict::TooFewValues,
        warnings: Vec::new(),
    }
}

fn by_identity(reference: &Sample, other: &Sample) -> Comparison {
    let comparison = undecided(Test::Exact, reference, other, Sample::median);
    let interval = Interval::around(comparison.difference, 0.0);
    Comparison {
        interval: Some(interval),
        interval_percent: comparison
            .difference_percent
            .map(|d| Interval::around(d, 0.0)),
        p_value: Some(if comparison.difference == 0.0 {
            1.0
        } else {
            0.0
        }),
        detectable: Some(0.0),
        detectable_percent: comparison.difference_percent.map(|_| 0.0),
        verdict: Verdict::from_interval(interval),
        ..comparison
    }
}

/// Compares means by [`Test::Student`], or by [`Test::Welch`] for any other `test`.
fn by_means(reference: &Sample, other: &Sample, test: Test, confidence: Confidence) -> Comparison {
    let comparison = undecided(test, reference, other, Sample::mean);
    let (Some(s1), Some(s2)) = (reference.variance(), other.variance()) else {
        return comparison;
    };
    let (m1, m2) = (comparison.reference, comparison.value);
    let MeanErrors { squares, df } = mean_errors(test, [s1, s2], comparison.n);
    let error = squares.iter().sum::<f64>().sqrt();
    let t = student::critical(confidence, df);
    let interval = Interval::around(comparison.difference, t * error);
    let detectable = (t + student::quantile(POWER, df)) * error;
    // no ratio of positive values is negative: cutting off that part loses no true value
    let least = match reference.min() > 0.0 && other.min() > 0.0 {
        true => 0.0,
        false => f64::NEG_INFINITY,
    };
    let percent = |ratio: f64| 100.0 * (ratio.max(least) - 1.0);
    let interval_percent = fieller(m2 / m1, squares.map(|v| t * t * v / (m1 * m1)))
        .map(|ratio| ratio.map(percent))
        .map(|percent| match m1 < 0.0 {
            true => Interval {
                low: -percent.high,
                high: -percent.low,
            },
            false => percent,
        });
    Comparison {
        interval: Some(interval),
        interval_percent,
        p_value: Some(student::two_sided_p(comparison.difference / error, df)),
        detectable: Some(detectable),
        detectable_percent: (m1 != 0.0).then(|| 100.0 * detectable / m1.abs()),
        verdict: Verdict::from_interval(interval),
        ..comparison
    }
}

/// Under normality ranks need this many times the values of a t-test (Hodges and Lehmann 1956).
pub(crate) fn cost_of_ranks() -> f64 {
    std::f64::consts::PI / 3.0
}

fn by_ranks(reference: &Sample, other: &Sample, confidence: Confidence) -> Comparison {
    let ranks = rank_sum(reference, other, confidence);
    let comparison = undecided(Test::MannWhitney, reference, other, Sample::median);
    let alpha = 1.0 - confidence.get();
    let enough = ranks.smallest_p <= alpha;
    // Logarithms preserve ranks, so the test of ratios is the same test.
    let ln = |s: &Sample| (s.min() > 0.0).then(|| s.map(f64::ln));
    let percent = |ln: f64| 100.0 * ln.exp_m1();
    let ratios = ln(reference)
        .zip(ln(other))
        .map(|(x, y)| shift(&x, &y, confidence));
    let means = by_means(reference, other, Test::Welch, confidence);
    let detectable = means
        .detectable
        .filter(|_| enough)
        .map(|d| d * cost_of_ranks().sqrt());
    let verdict = match ranks.p_value {
        _ if !enough => Verdict::TooFewValues,
        p if p > alpha || ranks.shift == 0.0 => Verdict::NoDifference,
        _ if ranks.shift > 0.0 => Verdict::Greater,
        _ => Verdict::Less,
    };
    Comparison {
        difference: ranks.shift,
        interval: ranks.interval,
        difference_percent: ratios.map(|r| percent(r.shift)),
        interval_percent: ratios.and_then(|r| r.interval).map(|i| i.map(percent)),
        p_value: enough.then_some(ranks.p_value),
        detectable,
        detectable_percent: detectable
            .filter(|_| comparison.reference != 0.0)
            .map(|d| 100.0 * d / comparison.reference.abs()),
        verdict,
        ..comparison
    }
}

fn contradictions(
    reference: &Sample,
    other: &Sample,
    comparison: &Comparison,
) -> Vec<(Side, Warning)> {
    let needed = match comparison.assumption {
        Assumption::EqualSpread | Assumption::Normal => MIN_SPREAD,
        Assumption::Nothing => MIN_RANKS,
    };
    let sides = [(Side::Reference, reference), (Side::Other, other)];
    let contradicts = |warning: &Warning| match warning {
        // Ranks do not need normal values, but do need an order without a trend.
        Warning::Outlier { .. }
        | Warning::Outliers { .. }
        | Warning::Bimodal { .. }
        | Warning::Unchecked { .. } => comparison.assumption != Assumption::Nothing,
        Warning::TooFewValues { .. } | Warning::NoSpread { .. } | Warning::Drift { .. } => true,
    };
    let of_side = |(side, sample): (Side, &Sample)| {
        let too_few = comparison.verdict == Verdict::TooFewValues && sample.n() < needed;
        let too_few = too_few.then_some(Warning::TooFewValues {
            n: sample.n(),
            needed,
        });
        let spread = too_few
            .is_none()
            .then(|| Warning::spread_warning(sample))
            .flatten();
        too_few
            .into_iter()
            .chain(spread)
            .chain(warnings(sample))
            .filter(contradicts)
            .map(|warning| (side, warning))
            .collect::<Vec<_>>()
    };
    sides.into_iter().flat_map(of_side).collect()
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Student => "Student's t",
            Self::Welch => "Welch's t",
            Self::MannWhitney => "Mann-Whitney U",
            Self::Exact => "exact",
            Self::PairedT => "paired t",
            Self::SignedRank => "Wilcoxon signed rank",
        })
    }
}

impl Verdict {
    /// The verdict that follows from an interval of the difference.
    pub(crate) fn from_interval(interval: Interval) -> Self {
        if interval.low > 0.0 {
            Self::Greater
        } else if interval.high < 0.0 {
            Self::Less
        } else {
            Self::NoDifference
        }
    }
}

/// Squared standard errors of the two means, and the degrees of freedom of their difference.
struct MeanErrors {
    squares: [f64; 2],
    df: f64,
}

fn mean_errors(test: Test, variances: [f64; 2], n: [usize; 2]) -> MeanErrors {
    let [n1, n2] = n.map(|n| n as f64);
    let [v1, v2] = variances;
    match test {
        Test::Student => {
            let df = n1 + n2 - 2.0;
            let pooled = ((n1 - 1.0) * v1 + (n2 - 1.0) * v2) / df;
            MeanErrors {
                squares: [pooled / n1, pooled / n2],
                df,
            }
        }
        _ => {
            let (a, b) = (v1 / n1, v2 / n2);
            // Shares instead of squares of variances, which could underflow.
            let share = a / (a + b);
            let df = 1.0 / (share * share / (n1 - 1.0) + (1.0 - share).powi(2) / (n2 - 1.0));
            MeanErrors {
                squares: [a, b],
                df,
            }
        }
    }
}

/// Fieller's interval of a ratio of two means, given the ratio and the squared half-widths of
/// denominator and numerator, both relative to the denominator.
///
/// It contains every ρ for which `numerator - ρ denominator` is not proven to differ from zero,
/// hence contains 1 exactly if the test of the difference proves nothing. `None` if unbounded.
fn fieller(ratio: f64, [u, w]: [f64; 2]) -> Option<Interval> {
    let lead = 1.0 - u;
    let half = (u * ratio * ratio + w * lead).sqrt() / lead;
    let interval = Interval::around(ratio / lead, half);
    (lead > 0.0 && interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::distribution::{ContinuousCDF, StudentsT};
    use statrs::statistics::Statistics;
    use statrs::stats_tests::NaNPolicy;
    use statrs::stats_tests::f_oneway::f_oneway;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    /// Samples with a given mean and standard deviation, for published summaries.
    fn from_summary(n: usize, mean: f64, stdev: f64) -> Sample {
        let raw = sample(&(0..n).map(|i| i as f64).collect::<Vec<_>>());
        let scale = stdev / raw.stdev().unwrap();
        sample(
            &raw.values()
                .iter()
                .map(|v| mean + (v - raw.mean()) * scale)
                .collect::<Vec<_>>(),
        )
    }

    /// docs/methodology.md, "ministat": 440068 ± 144126 at 95 %; the archive used t = 2.306.
    #[test]
    fn published_comparison() {
        let reference = from_summary(5, 4_648_293.8, 94_545.404);
        let other = from_summary(5, 5_088_362.1, 102_920.87);
        let c = compare(&reference, &other, Assumption::EqualSpread, Confidence::P95);
        assert_eq!(c.verdict, Verdict::Greater);
        assert!((c.difference - 440_068.3).abs() < 0.01);
        assert!((c.interval.unwrap().half_width() - 144_126.0).abs() < 1.0);
        assert!((c.difference_percent.unwrap() - 9.46731).abs() < 1e-5);
        // ministat's own interval of the percentage is ± 3.23827; Fieller's is close to it.
        assert!((c.interval_percent.unwrap().half_width() - 3.238).abs() < 0.02);
    }

    /// R: t.test(b, a) and t.test(b, a, var.equal = TRUE) for R's own example of sleep data
    /// (extra ~ group): t = -1.8608, df = 17.776, p = 0.07939, interval -3.3654832 0.2054832.
    #[test]
    fn sleep_data_as_in_r() {
        let one = sample(&[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]);
        let two = sample(&[1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]);
        let welch = compare(&two, &one, Assumption::Normal, Confidence::P95);
        assert!((welch.p_value.unwrap() - 0.079_394_14).abs() < 1e-7);
        assert!((welch.interval.unwrap().low + 3.365_483_2).abs() < 1e-6);
        assert!((welch.interval.unwrap().high - 0.205_483_2).abs() < 1e-6);
        assert_eq!(welch.verdict, Verdict::NoDifference);
        let student = compare(&two, &one, Assumption::EqualSpread, Confidence::P95);
        assert!((student.p_value.unwrap() - 0.079_186_71).abs() < 1e-7);
        assert!((student.interval.unwrap().low + 3.363_874).abs() < 1e-6);
    }

    /// The table of docs/methodology.md, "How many iterations", in multiples of the coefficient of
    /// variation.
    #[test]
    fn detectable_difference_table() {
        for (n, half_width, detectable) in [
            (3, 2.27, 3.03),
            (5, 1.46, 2.02),
            (10, 0.94, 1.33),
            (20, 0.64, 0.91),
        ] {
            let s = from_summary(n, 100.0, 1.0);
            let c = compare(&s, &s, Assumption::EqualSpread, Confidence::P95);
            assert!(
                (c.interval.unwrap().half_width() - half_width).abs() < 0.01,
                "{n}"
            );
            assert!(
                (c.detectable_percent.unwrap() - detectable).abs() < 0.01,
                "{n}"
            );
        }
    }

    #[test]
    fn no_spread_is_compared_exactly() {
        let line_rate = sample(&[14.88; 5]);
        let same = compare(&line_rate, &line_rate, Assumption::Normal, Confidence::P95);
        assert_eq!(
            (same.p_value, same.verdict),
            (Some(1.0), Verdict::NoDifference)
        );
        let less = compare(
            &line_rate,
            &sample(&[14.0; 5]),
            Assumption::Normal,
            Confidence::P95,
        );
        assert_eq!((less.p_value, less.verdict), (Some(0.0), Verdict::Less));
        assert_eq!(
            less.interval_percent.map(|i| i.low),
            less.difference_percent
        );
    }

    #[test]
    fn small_or_constant_samples_are_reported() {
        let warned = |a: &[f64], b: &[f64], assumption| {
            let c = compare(&sample(a), &sample(b), assumption, Confidence::P95);
            c.warnings
                .iter()
                .map(|(_, w)| w.to_string())
                .collect::<Vec<_>>()
        };
        let three = "3 values are too few to see outliers; 5 are needed";
        assert_eq!(
            warned(&[1.0, 2.0, 3.0], &[1.0, 2.0, 4.0], Assumption::Normal),
            [three; 2]
        );
        assert_eq!(
            warned(
                &[14.88; 5],
                &[14.0, 14.2, 14.1, 13.9, 14.05],
                Assumption::Normal
            ),
            ["all 5 values are 14.88: at a limit, or one measurement repeated"]
        );
        let none: [&str; 0] = [];
        let four = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(warned(&four, &four, Assumption::Nothing), none);
    }

    #[test]
    fn ranks_are_chosen_if_the_data_require_them() {
        let plain = sample(&[100.0, 101.0, 99.0, 100.5, 99.5]);
        let outlier = sample(&[95.0, 96.0, 94.5, 95.5, 300.0]);
        let modes = sample(&[90.0, 90.1, 80.0, 80.1, 80.05]);
        let choice = |other: &Sample, family| choose(&plain, other, family, Confidence::P95);
        assert_eq!(
            choice(&plain, 1),
            Choice {
                assumption: Assumption::Normal,
                because: vec![]
            }
        );
        assert_eq!(choice(&outlier, 1).assumption, Assumption::Nothing);
        assert!(matches!(
            choice(&outlier, 1).because[..],
            [(Side::Other, Warning::Outlier { index: 4, .. })]
        ));
        assert_eq!(choice(&modes, 6).assumption, Assumption::Nothing);
        // 2/252 seven times is 0.056: ranks could not prove anything among seven comparisons.
        assert_eq!(choice(&modes, 7).assumption, Assumption::Normal);
        assert!(!choice(&modes, 7).because.is_empty());
    }

    /// Choosing by the data must not raise the rate of false alarms above the stated one.
    #[test]
    fn the_choice_costs_no_confidence() {
        let mut random = crate::random::SplitMix64::new(8);
        let mut normal = || {
            let uniform = (random.below(1 << 52) as f64 + 0.5) / (1_u64 << 52) as f64;
            crate::normal::quantile(uniform)
        };
        for n in [5, 8] {
            let mut draw = || sample(&(0..n).map(|_| 100.0 + normal()).collect::<Vec<_>>());
            let alarms = (0..3000)
                .filter(|_| {
                    let (a, b) = (draw(), draw());
                    let assumption = choose(&a, &b, 1, Confidence::P95).assumption;
                    compare(&a, &b, assumption, Confidence::P95).verdict != Verdict::NoDifference
                })
                .count();
            // 150 of 3000 are 5 %; the standard deviation of the count is 12.
            assert!((75..=190).contains(&alarms), "{n}: {alarms} of 3000");
        }
    }

    #[test]
    fn too_few_values_and_a_zero_reference() {
        let c = compare(
            &sample(&[1.0]),
            &sample(&[2.0, 3.0]),
            Assumption::Normal,
            Confidence::P95,
        );
        assert_eq!(
            (c.verdict, c.p_value, c.interval),
            (Verdict::TooFewValues, None, None)
        );
        let zero = sample(&[-1.0, 1.0]);
        let c = compare(
            &zero,
            &sample(&[2.0, 3.0]),
            Assumption::Normal,
            Confidence::P95,
        );
        assert_eq!((c.difference_percent, c.interval_percent), (None, None));
    }

    /// R's sleep data has ties (its wilcox.test reports approximately 0.06933); of all 184 756 ways
    /// to split the ranks, 12 160 are as extreme.
    #[test]
    fn ranks_of_the_sleep_data() {
        let one = sample(&[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]);
        let two = sample(&[1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]);
        let c = compare(&one, &two, Assumption::Nothing, Confidence::P95);
        assert!((c.p_value.unwrap() - 12_160.0 / 184_756.0).abs() < 1e-12);
        assert_eq!(
            (c.test, c.verdict),
            (Test::MannWhitney, Verdict::NoDifference)
        );
        assert_eq!((c.difference_percent, c.interval_percent), (None, None));
    }

    #[test]
    fn ranks_shrug_off_an_outlier() {
        let reference = sample(&[100.0, 101.0, 99.0, 100.5, 99.5, 100.2]);
        let other = sample(&[95.0, 96.0, 94.5, 95.5, 300.0, 95.2]);
        let welch = compare(&reference, &other, Assumption::Normal, Confidence::P95);
        assert_eq!(welch.verdict, Verdict::NoDifference);
        assert!(matches!(
            welch.warnings[..],
            [(Side::Other, Warning::Outlier { index: 4, .. })]
        ));
        let ranks = compare(&reference, &other, Assumption::Nothing, Confidence::P90);
        assert_eq!((ranks.verdict, ranks.warnings.len()), (Verdict::Less, 0));
        assert!((ranks.difference_percent.unwrap() + 4.7).abs() < 0.2);
        assert!(ranks.interval_percent.unwrap().high < 0.0);
    }

    #[test]
    fn three_values_a_side_prove_nothing_by_ranks() {
        let c = compare(
            &sample(&[1.0, 2.0, 3.0]),
            &sample(&[11.0, 12.0, 13.0]),
            Assumption::Nothing,
            Confidence::P95,
        );
        assert_eq!(
            (c.verdict, c.p_value, c.detectable),
            (Verdict::TooFewValues, None, None)
        );
        let warning = Warning::TooFewValues { n: 3, needed: 4 };
        assert_eq!(
            c.warnings,
            [(Side::Reference, warning), (Side::Other, warning)]
        );
    }

    #[test]
    fn equivalence_needs_a_margin_and_precision() {
        let verdict = |stdev: f64, shift: f64| {
            let reference = from_summary(5, 100.0, stdev);
            let other = from_summary(5, 100.0 + shift, stdev);
            equivalence(&reference, &other, 2.0, Assumption::Normal, Confidence::P95).verdict
        };
        assert_eq!(verdict(0.5, 0.5), EquivalenceVerdict::Equivalent);
        assert_eq!(verdict(5.0, 0.5), EquivalenceVerdict::Undecided);
        assert_eq!(verdict(0.5, -9.0), EquivalenceVerdict::Different);
        let one = sample(&[1.0]);
        let none = equivalence(&one, &one, 2.0, Assumption::Normal, Confidence::P95);
        assert_eq!(none.verdict, EquivalenceVerdict::TooFewValues);
        // The deciding interval is at 90 %: t(8) = 1.860.
        let s = from_summary(5, 100.0, 1.0);
        let e = equivalence(&s, &s, 2.0, Assumption::EqualSpread, Confidence::P95);
        assert!((e.interval_percent.unwrap().half_width() - 1.860 * (0.4_f64).sqrt()).abs() < 0.01);
    }

    /// The table of docs/methodology.md, "How many iterations", for coefficients of variation of
    /// 0.8 % and 3.8 %.
    #[test]
    fn planned_precision_table() {
        for (n, small, large) in [
            (3, 2.4, 11.5),
            (5, 1.6, 7.7),
            (10, 1.1, 5.0),
            (20, 0.7, 3.5),
        ] {
            for (cv, expect) in [(0.8, small), (3.8, large)] {
                let p = planned_precision(n, cv, Confidence::P95).unwrap();
                assert!(
                    (p.detectable_percent - expect).abs() < 0.06,
                    "{n} {cv}: {p:?}"
                );
            }
        }
        assert_eq!(planned_precision(1, 0.8, Confidence::P95), None);
    }

    /// Against `solve_power` of `TTestIndPower` and `TTestPower` of statsmodels 0.14 (power 0.8,
    /// alpha 0.05), which solve the noncentral t distribution: our formula is 1.2 % below at three
    /// values a side, 5.1 % at three pairs, and 1.2 % at five of them.
    #[test]
    fn planned_precision_against_statsmodels() {
        let table = [
            (3, 3.070_892, 3.264_044, 0.052),
            (5, 2.024_440, 1.681_997, 0.012),
            (10, 1.324_947, 0.996_002, 0.012),
            (20, 0.909_129, 0.660_442, 0.012),
            (50, 0.565_880, 0.404_183, 0.012),
        ];
        for (n, unpaired, pairs, most) in table {
            let of = |planned: Option<Precision>| planned.unwrap().detectable_percent;
            for (found, right, most) in [
                (
                    of(planned_precision(n, 1.0, Confidence::P95)),
                    unpaired,
                    0.012,
                ),
                (
                    of(planned_precision_of_pairs(n, 1.0, Confidence::P95)),
                    pairs,
                    most,
                ),
            ] {
                let wrong = found / right - 1.0;
                assert!(wrong.abs() < most, "{n}: {found}, not {right}");
            }
        }
        assert_eq!(planned_precision_of_pairs(1, 0.8, Confidence::P95), None);
    }

    /// An increase is positive for negative values, too: -90 is 10 % above -100.
    #[test]
    fn a_negative_reference_keeps_the_sign() {
        for assumption in [Assumption::Normal, Assumption::EqualSpread] {
            let (less, more) = ([-100.0, -101.0, -99.0], [-90.0, -91.0, -89.0]);
            let c = compare(&sample(&less), &sample(&more), assumption, Confidence::P95);
            let (i, d) = (c.interval_percent.unwrap(), c.difference_percent.unwrap());
            assert!(
                (d - 10.0).abs() < 1e-9 && i.contains(d) && i.low > 0.0,
                "{c:?}"
            );
            assert_eq!(c.verdict, Verdict::Greater);
        }
        let c = compare(
            &sample(&[-4.0; 3]),
            &sample(&[-5.0; 3]),
            Assumption::Normal,
            Confidence::P95,
        );
        assert_eq!(
            (c.difference_percent, c.verdict),
            (Some(-25.0), Verdict::Less)
        );
    }

    /// A ratio of positive values is positive; the conclusion of the test does not change.
    #[test]
    fn the_interval_of_positive_values_ends_at_minus_100_percent() {
        for (reference, other) in [
            ([500.0, 520.0, 510.0], [25.0, 303.0, 800.0]),
            ([500.0, 520.0, 510.0], [1.0, 2.0, 180.0]),
            ([1000.0, 1005.0, 998.0], [5.0, 60.0, 400.0]),
        ] {
            let c = compare(
                &sample(&reference),
                &sample(&other),
                Assumption::Normal,
                Confidence::P95,
            );
            let (i, d) = (c.interval_percent.unwrap(), c.difference_percent.unwrap());
            assert!(i.low >= -100.0 && i.contains(d), "{c:?}");
            assert_eq!(Verdict::from_interval(i), c.verdict, "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn percent_interval_agrees_with_the_test(
            a in prop::collection::vec(50.0..60.0_f64, 2..12),
            b in prop::collection::vec(52.0..62.0_f64, 2..12),
        ) {
            for assumption in [Assumption::EqualSpread, Assumption::Normal] {
                let c = compare(&sample(&a), &sample(&b), assumption, Confidence::P95);
                let proven = c.verdict != Verdict::NoDifference;
                prop_assert_eq!(proven, c.p_value.unwrap() < 0.05);
                if let Some(percent) = c.interval_percent {
                    prop_assert_eq!(proven, !percent.contains(0.0));
                    prop_assert!(percent.contains(c.difference_percent.unwrap()));
                }
            }
        }

        /// With two groups the analysis of variance is Student's test: F = t².
        #[test]
        fn student_agrees_with_the_analysis_of_variance_of_statrs(
            a in prop::collection::vec(-1e3..1e3_f64, 2..40), b in prop::collection::vec(-8e2..1.2e3_f64, 2..40),
        ) {
            let ours = compare(&sample(&a), &sample(&b), Assumption::EqualSpread, Confidence::P95);
            let (f, p) = f_oneway(vec![a.clone(), b.clone()], NaNPolicy::Error).unwrap();
            // Its F is a difference of large sums, which cancels for equal means.
            prop_assume!(f > 1e-4);
            // statrs computes p as 1 minus the distribution function, which loses the other digits.
            prop_assert!((ours.p_value.unwrap() - p).abs() < 1e-7, "{:?} {}", ours.p_value, p);
            let quantile = StudentsT::new(0.0, 1.0, (a.len() + b.len() - 2) as f64).unwrap().inverse_cdf(0.975);
            let half = quantile * ours.difference.abs() / f.sqrt();
            let interval = ours.interval.unwrap();
            prop_assert!((interval.half_width() - half).abs() < 1e-6 * half, "{:?} {}", interval, half);
            prop_assert!((ours.difference - (b.mean() - a.mean())).abs() < 1e-9);
        }

        /// The formulas of docs/methodology.md, "Which test", with the moments and the distribution
        /// of statrs.
        #[test]
        fn welch_agrees_with_statrs(
            a in prop::collection::vec(-1e3..1e3_f64, 2..40), b in prop::collection::vec(9e2..9.5e2_f64, 2..40),
        ) {
            let ours = compare(&sample(&a), &sample(&b), Assumption::Normal, Confidence::P95);
            let [n1, n2] = [&a, &b].map(|s| s.len() as f64);
            let (u, v) = ((&a).variance() / n1, (&b).variance() / n2);
            let t = (b.mean() - a.mean()) / (u + v).sqrt();
            let df = (u + v).powi(2) / (u * u / (n1 - 1.0) + v * v / (n2 - 1.0));
            let theirs = StudentsT::new(0.0, 1.0, df).unwrap();
            let p = 2.0 * theirs.cdf(-t.abs());
            prop_assert!((ours.p_value.unwrap() - p).abs() < 1e-9, "{:?} {}", ours.p_value, p);
            let half = theirs.inverse_cdf(0.975) * (u + v).sqrt();
            let interval = ours.interval.unwrap();
            prop_assert!((interval.half_width() - half).abs() < 1e-6 * half, "{:?} {}", interval, half);
        }
    }
}
