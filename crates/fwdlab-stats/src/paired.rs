//! Values measured in pairs: the comparison for a machine whose speed drifts.
//!
//! Two configurations take turns within fractions of a second, so drift affects both alike and
//! cancels in the ratio; one rebuild of the test bed yields one value. For samples measured one
//! after the other, use [`compare`](crate::compare()). Start at [`compare_paired`];
//! [`compare_pairs`] has all options.

use crate::compare::{
    Assumption, Equivalence, POWER, Test, Verdict, cost_of_ranks, equivalence_from,
};
use crate::rank::signed_rank;
use crate::sample::{Confidence, Interval, Sample};
use crate::student;
use crate::warning::{Warning, warnings_of_percentages};

/// Fewest rebuilds for a verdict; with two, t is 12.7 and proves nothing useful.
pub const MIN_REBUILDS: usize = 3;

/// The error that all slices and rebuilds of one run share, as a logarithm: 0.2 %. On a quiet
/// machine the interval over rebuilds alone is as narrow as 0.1 %, and A/A differences of that size
/// were "proven": the order of visits, the process and the boot of the machine are the same in all
/// rebuilds. A difference within this allowance is never claimed.
pub const ALLOWANCE: f64 = 0.002;

/// The outcome of [`compare_paired`]; the optional fields are `None` together, exactly when the
/// verdict is [`Verdict::TooFewValues`].
#[derive(Debug, Clone, PartialEq)]
pub struct PairedOutcome {
    /// The test: [`Test::PairedT`] or [`Test::SignedRank`].
    pub test: Test,
    /// Number of rebuilds.
    pub n: usize,
    /// Mean difference from the reference, in percent of it; by ranks the pseudomedian.
    pub difference_percent: f64,
    /// Confidence interval of `difference_percent`, low and high end.
    pub interval_percent: Option<[f64; 2]>,
    /// Standard deviation between the rebuilds, in percent.
    pub spread_percent: Option<f64>,
    /// Smallest true difference that this many rebuilds of this spread show with 80 % probability.
    pub detectable_percent: Option<f64>,
    /// Two-sided p-value of the test.
    pub p_value: Option<f64>,
    /// The conclusion.
    pub verdict: Verdict,
    /// Contradictions to normal, independent values: outliers, modes, drift; with their values in
    /// percent.
    pub warnings: Vec<Warning>,
}

/// Compares with the reference by Student's t over rebuilds.
///
/// `ln_ratios` holds one value per rebuild, `ln(other / reference)`: the unit of repetition is the
/// rebuild and never the slice within it, because rebuilds have a spread of their own.
pub fn compare_paired(ln_ratios: &Sample, confidence: Confidence) -> PairedOutcome {
    compare_pairs(ln_ratios, Assumption::Normal, 0.0, confidence)
}

/// Like [`compare_paired`], with a choice of test and an allowance.
///
/// Under [`Assumption::Nothing`] (which still assumes symmetry) by Wilcoxon's signed ranks, which
/// need 6 pairs at 95 %; otherwise by Student's t. `allowance` is a difference, as a logarithm,
/// that all pairs may share, so no number of pairs proves it to be real: the interval is wider by
/// that amount on both sides, and the p-value tests "the difference is within the allowance".
pub fn compare_pairs(
    ln_ratios: &Sample,
    assumption: Assumption,
    allowance: f64,
    confidence: Confidence,
) -> PairedOutcome {
    let n = ln_ratios.n();
    let ranks = assumption == Assumption::Nothing;
    let by_ranks = signed_rank(ln_ratios, confidence);
    let centre = if ranks {
        by_ranks.shift
    } else {
        ln_ratios.mean()
    };
    let mut outcome = PairedOutcome {
        test: if ranks {
            Test::SignedRank
        } else {
            Test::PairedT
        },
        n,
        difference_percent: percent(centre),
        interval_percent: None,
        spread_percent: None,
        detectable_percent: None,
        p_value: None,
        verdict: Verdict::TooFewValues,
        warnings: warnings_of_percentages(&ln_ratios.map(percent)),
    };
    if ranks {
        // Ranks do not need normal values, but do need an order without a trend.
        let drift = |warning: &Warning| matches!(warning, Warning::Drift { .. });
        outcome.warnings.retain(drift);
    }
    let alpha = 1.0 - confidence.get();
    let enough = n >= MIN_REBUILDS && (!ranks || by_ranks.smallest_p <= alpha);
    let Some(stdev) = ln_ratios.stdev().filter(|_| enough) else {
        let needed = if ranks {
            // The smallest p-value of n signs is 2 / 2^n.
            (2.0 / alpha).log2().ceil() as usize
        } else {
            MIN_REBUILDS
        };
        let too_few = Warning::TooFewValues { n, needed };
        outcome.warnings.insert(0, too_few);
        return outcome;
    };

    let df = (n - 1) as f64;
    let error = stdev / (n as f64).sqrt();
    let t = student::critical(confidence, df);
    // The part of the difference beyond the allowance, towards zero.
    let beyond = (centre.abs() - allowance).max(0.0);
    let detectable = (t + student::quantile(POWER, df)) * error;
    let (interval, detectable, p_value) = if ranks {
        let shifted = ln_ratios.map(|ln| ln - allowance.copysign(centre));
        let p = if beyond > 0.0 {
            signed_rank(&shifted, confidence).p_value
        } else {
            1.0
        };
        let exact = Interval::around(centre, 0.0);
        let detectable = detectable * cost_of_ranks().sqrt();
        (by_ranks.interval.unwrap_or(exact), detectable, p)
    } else {
        let p = if error > 0.0 {
            student::two_sided_p(beyond / error, df)
        } else if beyond == 0.0 {
            1.0
        } else {
            0.0
        };
        (Interval::around(centre, t * error), detectable, p)
    };
    let interval = Interval {
        low: interval.low - allowance,
        high: interval.high + allowance,
    };
    outcome.interval_percent = Some([percent(interval.low), percent(interval.high)]);
    outcome.spread_percent = Some(percent(stdev));
    outcome.detectable_percent = Some(percent(detectable) + percent(allowance));
    outcome.p_value = Some(p_value);
    outcome.verdict = match Verdict::from_interval(interval) {
        // With ties the test and the interval of ranks may disagree; the test decides.
        _ if ranks && p_value > alpha => Verdict::NoDifference,
        _ if ranks && centre > 0.0 => Verdict::Greater,
        _ if ranks => Verdict::Less,
        verdict => verdict,
    };
    outcome
}

/// [`equivalence`](crate::equivalence) of values measured in pairs, compared as [`compare_pairs`]
/// does.
pub fn equivalence_of_pairs(
    ln_ratios: &Sample,
    margin_percent: f64,
    assumption: Assumption,
    allowance: f64,
    confidence: Confidence,
) -> Equivalence {
    equivalence_from(margin_percent, confidence, |narrower| {
        let outcome = compare_pairs(ln_ratios, assumption, allowance, narrower);
        let [low, high] = outcome.interval_percent?;
        Some(Interval { low, high })
    })
}

/// A logarithm of a ratio as a difference in percent.
fn percent(ln: f64) -> f64 {
    100.0 * ln.exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcome(percents: &[f64]) -> PairedOutcome {
        let ln: Vec<f64> = percents.iter().map(|p| (p / 100.0).ln_1p()).collect();
        compare_paired(&Sample::new(ln).unwrap(), Confidence::P95)
    }

    /// dataplane.md §9: 12 rebuilds with a spread of 0.95 % give ± 0.60 %.
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

    /// R's sleep data by Wilcoxon's signed ranks: of the 512 sign patterns of nine ranks,
    /// enumerated with their ties, 4 are as extreme as the data (all differences but the zero have
    /// one sign).
    #[test]
    fn ranks_of_the_sleep_data() {
        let d = [-1.2, -2.4, -1.3, -1.3, 0.0, -1.0, -1.8, -0.8, -4.6, -1.4];
        let sample = Sample::new(d.map(|v| v / 100.0)).unwrap();
        let o = compare_pairs(&sample, Assumption::Nothing, 0.0, Confidence::P95);
        assert!((o.p_value.unwrap() - 2.0 / 512.0).abs() < 1e-12);
        assert_eq!((o.test, o.verdict), (Test::SignedRank, Verdict::Less));
        let five = Sample::new([0.01; 5]).unwrap();
        let o = compare_pairs(&five, Assumption::Nothing, 0.0, Confidence::P95);
        assert_eq!(o.verdict, Verdict::TooFewValues);
        assert_eq!(o.warnings, [Warning::TooFewValues { n: 5, needed: 6 }]);
    }

    /// A difference that is proven without an allowance is not proven if the interval reaches into
    /// it.
    #[test]
    fn an_allowance_widens_the_interval() {
        let sample = Sample::new([0.0030, 0.0031, 0.0029, 0.0030, 0.0032, 0.0028]).unwrap();
        for assumption in [Assumption::Normal, Assumption::Nothing] {
            let by = |allowance| compare_pairs(&sample, assumption, allowance, Confidence::P95);
            assert_eq!(by(0.0).verdict, Verdict::Greater);
            assert_eq!(by(0.002).verdict, Verdict::Greater);
            assert_eq!(by(0.003).verdict, Verdict::NoDifference);
            assert!(by(0.003).p_value.unwrap() > 0.5);
            let ([low, high], [lower, higher]) = (
                by(0.0).interval_percent.unwrap(),
                by(0.002).interval_percent.unwrap(),
            );
            assert!((low - lower - 0.2).abs() < 0.001 && (higher - high - 0.2).abs() < 0.001);
        }
    }

    #[test]
    fn equivalence_of_alternating_measurements() {
        let sample = Sample::new([0.001, -0.002, 0.003, 0.0, -0.001, 0.002]).unwrap();
        let verdict = |margin| {
            equivalence_of_pairs(&sample, margin, Assumption::Normal, 0.0, Confidence::P95).verdict
        };
        use crate::compare::EquivalenceVerdict::{Equivalent, Undecided};
        assert_eq!((verdict(1.0), verdict(0.1)), (Equivalent, Undecided));
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
