//! Values measured in pairs: the comparison that survives a machine whose speed wanders.
//!
//! Two configurations take turns within fractions of a second, so that drift meets both alike and
//! cancels in the ratio; one rebuild of the arrangement gives one value. Not for samples measured
//! one after the other: that is [`compare`](crate::compare). Start at [`compare_paired`].

use crate::compare::{POWER, Verdict};
use crate::sample::{Confidence, Interval, Sample};
use crate::student;
use crate::warning::{Warning, warnings_of_percentages};

/// Fewest rebuilds from which a verdict is drawn; with two, t is 12.7 and proves nothing useful.
pub const MIN_REBUILDS: usize = 3;

/// The outcome of [`compare_paired`]; the optional fields are `None` together, exactly when the
/// verdict is [`Verdict::TooFewValues`].
#[derive(Debug, Clone, PartialEq)]
pub struct PairedOutcome {
    /// Number of rebuilds.
    pub n: usize,
    /// Mean difference from the reference, in percent of it.
    pub difference_percent: f64,
    /// Confidence interval of `difference_percent`, low and high end.
    pub interval_percent: Option<[f64; 2]>,
    /// Standard deviation between the rebuilds, in percent.
    pub spread_percent: Option<f64>,
    /// Smallest true difference that this many rebuilds of this spread show with 80 % probability.
    pub detectable_percent: Option<f64>,
    /// Two-sided p-value of paired t.
    pub p_value: Option<f64>,
    /// The conclusion.
    pub verdict: Verdict,
    /// What contradicts normal, independent values: outliers, modes, drift; their values in percent.
    pub warnings: Vec<Warning>,
}

/// Compares with the reference by Student's t over rebuilds.
///
/// `ln_ratios` holds one value per rebuild, `ln(other / reference)`: the unit of repetition is the
/// rebuild and never the slice within it, because a rebuild has a spread of its own.
pub fn compare_paired(ln_ratios: &Sample, confidence: Confidence) -> PairedOutcome {
    let percent = |ln: f64| 100.0 * ln.exp_m1();
    let n = ln_ratios.n();
    let mean = ln_ratios.mean();
    let mut outcome = PairedOutcome {
        n,
        difference_percent: percent(mean),
        interval_percent: None,
        spread_percent: None,
        detectable_percent: None,
        p_value: None,
        verdict: Verdict::TooFewValues,
        warnings: warnings_of_percentages(&ln_ratios.map(percent)),
    };
    let Some(stdev) = ln_ratios.stdev().filter(|_| n >= MIN_REBUILDS) else {
        outcome.warnings.insert(
            0,
            Warning::TooFewValues {
                n,
                needed: MIN_REBUILDS,
            },
        );
        return outcome;
    };
    let df = (n - 1) as f64;
    let error = stdev / (n as f64).sqrt();
    let t = student::critical(confidence, df);
    let interval = Interval::around(mean, t * error);
    outcome.interval_percent = Some([percent(interval.low), percent(interval.high)]);
    outcome.spread_percent = Some(percent(stdev));
    outcome.detectable_percent = Some(percent((t + student::quantile(POWER, df)) * error));
    outcome.p_value = Some(if error > 0.0 {
        student::two_sided_p(mean / error, df)
    } else if mean == 0.0 {
        1.0
    } else {
        0.0
    });
    outcome.verdict = Verdict::of(interval);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcome(percents: &[f64]) -> PairedOutcome {
        let ln: Vec<f64> = percents.iter().map(|p| (p / 100.0).ln_1p()).collect();
        compare_paired(&Sample::new(ln).unwrap(), Confidence::P95)
    }

    /// dataplane.md §9: 12 rebuilds, spread 0.95 %, give ± 0.60 %.
    #[test]
    fn twelve_rebuilds_of_one_percent_spread() {
        let raw = Sample::new((0..12).map(f64::from).collect::<Vec<_>>()).unwrap();
        let scale = 0.0095 / raw.stdev().unwrap();
        let ln: Vec<f64> = raw
            .values()
            .iter()
            .map(|v| (v - raw.mean()) * scale - 0.0018)
            .collect();
        let o = compare_paired(&Sample::new(ln).unwrap(), Confidence::P95);
        let [low, high] = o.interval_percent.unwrap();
        assert!((0.5 * (high - low) - 0.60).abs() < 0.01);
        assert!((o.difference_percent + 0.18).abs() < 0.001);
        assert!((o.spread_percent.unwrap() - 0.95).abs() < 0.01);
        // (2.201 + 0.876) · 0.95 / √12
        assert!((o.detectable_percent.unwrap() - 0.844).abs() < 0.01);
        assert_eq!(o.verdict, Verdict::NoDifference);
    }

    /// R's sleep data: t.test(extra1, extra2, paired = TRUE): p = 0.002833, -2.4598858 -0.7001142.
    #[test]
    fn sleep_data_as_in_r() {
        let d = [-1.2, -2.4, -1.3, -1.3, 0.0, -1.0, -1.8, -0.8, -4.6, -1.4];
        let o = compare_paired(&Sample::new(d.map(|v| v / 100.0)).unwrap(), Confidence::P95);
        assert!((o.p_value.unwrap() - 0.002_832_89).abs() < 1e-7);
        let [low, high] = o
            .interval_percent
            .unwrap()
            .map(|p| 100.0 * (p / 100.0).ln_1p());
        assert!((low + 2.459_885_8).abs() < 1e-6 && (high + 0.700_114_2).abs() < 1e-6);
        assert_eq!(o.verdict, Verdict::Less);
    }

    #[test]
    fn few_or_identical_values() {
        let o = outcome(&[1.0, 2.0]);
        assert_eq!(
            (o.verdict, o.interval_percent, o.p_value),
            (Verdict::TooFewValues, None, None)
        );
        assert_eq!(outcome(&[0.0, 0.0, 0.0]).verdict, Verdict::NoDifference);
        let o = outcome(&[1.0, 1.0, 1.0]);
        assert_eq!(
            (o.verdict, o.p_value, o.detectable_percent),
            (Verdict::Greater, Some(0.0), Some(0.0))
        );
    }

    #[test]
    fn warnings_are_in_percent() {
        let texts = |percents: &[f64]| {
            outcome(percents)
                .warnings
                .iter()
                .map(Warning::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            texts(&[1.0, 2.0]),
            ["too few values: 2, at least 3 are needed"]
        );
        let outlier = texts(&[-0.5, 0.1, 0.3, -0.2, -9.25]);
        assert!(
            outlier[0].starts_with("value 5 (-9.25) lies far"),
            "{outlier:?}"
        );
        let rising: Vec<f64> = (0..12).map(|i| 0.5 * f64::from(i) - 3.0).collect();
        assert_eq!(
            texts(&rising),
            ["the values drift by +5.5 % from first to last"]
        );
    }

    proptest! {
        /// Exchanging the two configurations mirrors the outcome.
        #[test]
        fn symmetric(ln in prop::collection::vec(-0.1..0.1_f64, 3..20)) {
            let there = compare_paired(&Sample::new(ln.clone()).unwrap(), Confidence::P95);
            let mirrored: Vec<f64> = ln.iter().map(|v| -v).collect();
            let back = compare_paired(&Sample::new(mirrored).unwrap(), Confidence::P95);
            prop_assert!((there.p_value.unwrap() - back.p_value.unwrap()).abs() < 1e-9);
            let product = (1.0 + there.difference_percent / 100.0) * (1.0 + back.difference_percent / 100.0);
            prop_assert!((product - 1.0).abs() < 1e-12);
            prop_assert_eq!(there.verdict == Verdict::Less, back.verdict == Verdict::Greater);
        }
    }
}
