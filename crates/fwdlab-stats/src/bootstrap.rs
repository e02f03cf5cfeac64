//! Intervals by resampling, for statistics without a formula: medians, ratios, percentiles.
//!
//! Resample what was repeated (iterations, rebuilds), never seconds within one: those are nearly
//! identical and would suggest a precision that does not exist. Start at [`bootstrap_median`].

use crate::normal;
use crate::random::SplitMix64;
use crate::sample::{Confidence, Interval, Sample, median_of_sorted};

/// Fewest values worth resampling (docs/methodology.md, "Which test").
pub const MIN_BOOTSTRAP: usize = 8;

/// The number of resamples with which the ends of a 95 % interval hardly vary between seeds.
pub const DEFAULT_RESAMPLES: usize = 10_000;

/// [`bootstrap`] of the median, [`DEFAULT_RESAMPLES`] times.
pub fn bootstrap_median(sample: &Sample, confidence: Confidence, seed: u64) -> Option<Interval> {
    bootstrap(
        sample,
        median_of_sorted,
        DEFAULT_RESAMPLES,
        confidence,
        seed,
    )
}

/// Bias-corrected and accelerated interval (Efron 1987) of any statistic of the values.
///
/// `statistic` gets ascending values, as many as the sample has or one less. The seed determines
/// the result: record it. `None` below [`MIN_BOOTSTRAP`] values or without resamples.
pub fn bootstrap(
    sample: &Sample,
    statistic: impl Fn(&[f64]) -> f64,
    resamples: usize,
    confidence: Confidence,
    seed: u64,
) -> Option<Interval> {
    let (n, sorted) = (sample.n(), sample.sorted());
    if n < MIN_BOOTSTRAP || resamples == 0 {
        return None;
    }
    let mut random = SplitMix64::new(seed);
    let mut drawn = vec![0_u32; n];
    let mut values = Vec::with_capacity(n);
    let mut estimates: Vec<f64> = (0..resamples)
        .map(|_| {
            drawn.fill(0);
            for _ in 0..n {
                drawn[random.below(n)] += 1;
            }
            // Counting the draws yields a sorted resample without sorting.
            values.clear();
            for (&value, &times) in sorted.iter().zip(&drawn) {
                values.extend(std::iter::repeat_n(value, times as usize));
            }
            statistic(&values)
        })
        .collect();
    estimates.sort_by(f64::total_cmp);

    let observed = statistic(sorted);
    let below = estimates.partition_point(|e| *e < observed);
    let not_above = estimates.partition_point(|e| *e <= observed);
    // Half of the ties count as below: the median of a small sample often repeats exactly.
    let share = (below + not_above) as f64 / (2 * resamples) as f64;
    let bias = normal::quantile(share.clamp(0.5 / resamples as f64, 1.0 - 0.5 / resamples as f64));
    let acceleration = acceleration(sorted, &statistic);
    let end = |z: f64| {
        let shifted = bias + z;
        let p = normal::cdf(bias + shifted / (1.0 - acceleration * shifted));
        estimates[((p * resamples as f64) as usize).min(resamples - 1)]
    };
    let z = normal::quantile(0.5 + 0.5 * confidence.get());
    Some(Interval {
        low: end(-z),
        high: end(z),
    })
}

/// Skewness of the statistic when one value at a time is left out (jackknife), divided by 6.
fn acceleration(sorted: &[f64], statistic: impl Fn(&[f64]) -> f64) -> f64 {
    let mut rest = sorted[1..].to_vec();
    let mut left_out = Vec::with_capacity(sorted.len());
    left_out.push(statistic(&rest));
    for i in 1..sorted.len() {
        rest[i - 1] = sorted[i - 1];
        left_out.push(statistic(&rest));
    }
    let mean = left_out.iter().sum::<f64>() / left_out.len() as f64;
    let sum = |power: i32| left_out.iter().map(|v| (mean - v).powi(power)).sum::<f64>();
    let squares = sum(2);
    if squares > 0.0 {
        sum(3) / (6.0 * squares.powf(1.5))
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal_sample(n: usize, random: &mut SplitMix64) -> Sample {
        let uniform = |r: &mut SplitMix64| (r.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        Sample::new(
            (0..n)
                .map(|_| normal::quantile(uniform(random).max(1e-15)))
                .collect::<Vec<_>>(),
        )
        .unwrap()
    }

    #[test]
    fn repeatable_and_only_with_enough_values() {
        let sample = normal_sample(30, &mut SplitMix64::new(3));
        let once = bootstrap_median(&sample, Confidence::P95, 42).unwrap();
        assert_eq!(Some(once), bootstrap_median(&sample, Confidence::P95, 42));
        assert!(once.low < once.high && once.contains(sample.median()));
        let few = Sample::new([1.0; 7]).unwrap();
        assert_eq!(bootstrap_median(&few, Confidence::P95, 42), None);
        let equal = bootstrap_median(&Sample::new([5.0; 8]).unwrap(), Confidence::P95, 42).unwrap();
        assert_eq!((equal.low, equal.high), (5.0, 5.0));
    }

    /// The true median, 0, lies inside about 95 % of the intervals.
    #[test]
    fn covers_the_true_median() {
        let mut random = SplitMix64::new(11);
        let covered = (0..400_u64)
            .filter(|&seed| {
                let sample = normal_sample(25, &mut random);
                let interval = bootstrap(&sample, median_of_sorted, 1000, Confidence::P95, seed);
                interval.unwrap().contains(0.0)
            })
            .count();
        assert!((364..=394).contains(&covered), "{covered} of 400");
    }

    /// For the mean of a normal sample the bootstrap must be close to the formula.
    #[test]
    fn mean_agrees_with_the_formula() {
        let sample = normal_sample(200, &mut SplitMix64::new(5));
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let ours = bootstrap(&sample, mean, DEFAULT_RESAMPLES, Confidence::P95, 1).unwrap();
        let formula = sample.mean_interval(Confidence::P95).unwrap();
        let tolerance = 0.1 * formula.half_width();
        assert!(
            (ours.low - formula.low).abs() < tolerance,
            "{ours:?} {formula:?}"
        );
        assert!(
            (ours.high - formula.high).abs() < tolerance,
            "{ours:?} {formula:?}"
        );
    }
}
