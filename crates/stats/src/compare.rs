//! Two independent samples: how far apart are they, and is that proven?
//!
//! The answer is a value with an interval, in the unit of the samples and in percent of the
//! reference, and with the smallest difference these samples could have shown. Not for values
//! measured in pairs, which [`paired`](crate::paired) compares far more sharply.
//! Start at [`compare`].

use crate::sample::{Confidence, Interval, Sample};
use crate::student;

/// What a comparison takes for granted about the values; it decides the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assumption {
    /// Normal, and both samples spread alike: Student's t with the pooled deviation.
    EqualSpread,
    /// Normal, each sample with its own spread: Welch's t. Our default.
    #[default]
    Normal,
}

/// What was found, seen from the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Proven to lie below the reference.
    Less,
    /// Proven to lie above the reference.
    Greater,
    /// Not proven to differ; this is not proof of equality.
    NoDifference,
    /// Not enough values to say anything.
    TooFewValues,
}

/// The outcome of [`compare`].
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What was assumed.
    pub assumption: Assumption,
    /// Number of values of the reference and of the other sample.
    pub n: [usize; 2],
    /// Mean of the reference.
    pub reference: f64,
    /// Mean of the other sample.
    pub value: f64,
    /// `value - reference`, in the unit of the samples.
    pub difference: f64,
    /// Confidence interval of `difference`; `None` when there are too few values.
    pub interval: Option<Interval>,
    /// `difference` in percent of the reference; `None` when the reference is zero.
    pub difference_percent: Option<f64>,
    /// Confidence interval of `difference_percent`, which counts the reference's own error too
    /// (Fieller). Excludes zero exactly when `interval` does. `None` when there are too few values
    /// or the reference is not proven to differ from zero.
    pub interval_percent: Option<Interval>,
    /// Two-sided p-value; `None` when there are too few values.
    pub p_value: Option<f64>,
    /// Smallest true difference, in the unit of the samples, that samples of this size and spread
    /// show with 80 % probability; `None` when there are too few values.
    pub detectable: Option<f64>,
    /// `detectable` in percent of the reference.
    pub detectable_percent: Option<f64>,
    /// The conclusion.
    pub verdict: Verdict,
}

/// Probability with which a difference of the detectable size is shown (methods.md §8.4).
pub(crate) const POWER: f64 = 0.80;

/// Compares the means of two samples; each needs at least 2 values.
///
/// When neither sample has any spread the comparison is exact: no t, p is 0 or 1.
pub fn compare(
    reference: &Sample,
    other: &Sample,
    assumption: Assumption,
    confidence: Confidence,
) -> Comparison {
    let (m1, m2) = (reference.mean(), other.mean());
    let difference = m2 - m1;
    let percent = |v: f64| (m1 != 0.0).then(|| 100.0 * v / m1);
    let mut comparison = Comparison {
        assumption,
        n: [reference.n(), other.n()],
        reference: m1,
        value: m2,
        difference,
        interval: None,
        difference_percent: percent(difference),
        interval_percent: None,
        p_value: None,
        detectable: None,
        detectable_percent: None,
        verdict: Verdict::TooFewValues,
    };
    let (Some(s1), Some(s2)) = (reference.variance(), other.variance()) else {
        return comparison;
    };
    let MeanErrors {
        squares: [a, b],
        df,
    } = mean_errors(assumption, [s1, s2], comparison.n);
    let error = (a + b).sqrt();
    let t = if error == 0.0 {
        0.0
    } else {
        student::critical(confidence, df)
    };
    let interval = Interval::around(difference, t * error);
    comparison.interval = Some(interval);
    comparison.interval_percent = fieller(m2 / m1, [a, b].map(|v| t * t * v / (m1 * m1)))
        .map(|ratio| ratio.map(|r| 100.0 * (r - 1.0)));
    comparison.p_value = Some(if error > 0.0 {
        student::two_sided_p(difference / error, df)
    } else if difference == 0.0 {
        1.0
    } else {
        0.0
    });
    let detectable = if error > 0.0 {
        (t + student::quantile(POWER, df)) * error
    } else {
        0.0
    };
    comparison.detectable = Some(detectable);
    comparison.detectable_percent = percent(detectable).map(f64::abs);
    comparison.verdict = Verdict::of(interval);
    comparison
}

impl Verdict {
    /// The verdict that follows from an interval of the difference.
    pub(crate) fn of(interval: Interval) -> Self {
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

fn mean_errors(assumption: Assumption, variances: [f64; 2], n: [usize; 2]) -> MeanErrors {
    let [n1, n2] = n.map(|n| n as f64);
    let [v1, v2] = variances;
    match assumption {
        Assumption::EqualSpread => {
            let df = n1 + n2 - 2.0;
            let pooled = ((n1 - 1.0) * v1 + (n2 - 1.0) * v2) / df;
            MeanErrors {
                squares: [pooled / n1, pooled / n2],
                df,
            }
        }
        Assumption::Normal => {
            let (a, b) = (v1 / n1, v2 / n2);
            // Shares instead of squares of variances: those could underflow.
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
/// It holds every ρ for which `numerator - ρ denominator` is not proven to differ from zero, hence
/// contains 1 exactly when the test of the difference proves nothing. `None` when unbounded.
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

    /// methods.md §8.1: 440068 ± 144126 at 95 %; the archive used t = 2.306.
    #[test]
    fn published_comparison() {
        let reference = from_summary(5, 4_648_293.8, 94_545.404);
        let other = from_summary(5, 5_088_362.1, 102_920.87);
        let c = compare(&reference, &other, Assumption::EqualSpread, Confidence::P95);
        assert_eq!(c.verdict, Verdict::Greater);
        assert!((c.difference - 440_068.3).abs() < 0.01);
        assert!((c.interval.unwrap().half_width() - 144_126.0).abs() < 1.0);
        assert!((c.difference_percent.unwrap() - 9.46731).abs() < 1e-5);
        // ministat's own interval of the percentage is ± 3.23827; Fieller's is near it.
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

    /// The table of methods.md §8.4, in multiples of the coefficient of variation.
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
    }
}
