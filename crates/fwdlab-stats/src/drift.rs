//! Detects a trend over the order of measurement.
//!
//! The Theil–Sen slope, the median of the slopes between all pairs of values, which a few outliers
//! cannot move, with an interval from Kendall's rank statistic. It finds trends;
//! [`partition`](crate::partition) finds steps. Start at [`drift`].

use crate::normal;
use crate::sample::{Confidence, Interval, Sample, median_of_sorted};

/// Fewest values for which a trend can be distinguished from chance (docs/methodology.md, "Outliers
/// and trends").
pub const MIN_DRIFT: usize = 6;

/// Longer samples are first averaged in this number of consecutive batches: the number of pairs
/// grows as the square.
const MAX_BATCHES: usize = 500;

/// A trend over the order of measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Change from the first value to the last along the trend, in the unit of the sample.
    pub change: f64,
    /// Confidence interval of `change`; a trend is proven when it excludes zero.
    pub interval: Interval,
    /// `change` in percent of the median; `None` if the median is zero.
    pub change_percent: Option<f64>,
}

/// Theil–Sen trend with Sen's interval (1968); `None` below [`MIN_DRIFT`] values.
pub fn drift(sample: &Sample, confidence: Confidence) -> Option<Drift> {
    if sample.n() < MIN_DRIFT {
        return None;
    }
    let per_batch = sample.n().div_ceil(MAX_BATCHES);
    let batches: Vec<f64> = sample
        .values()
        .chunks_exact(per_batch)
        .map(|batch| batch.iter().sum::<f64>() / per_batch as f64)
        .collect();
    let n = batches.len() as f64;
    let mut slopes: Vec<f64> = (1..batches.len())
        .flat_map(|later| {
            let batches = &batches;
            (0..later).map(move |i| (batches[later] - batches[i]) / (later - i) as f64)
        })
        .collect();
    slopes.sort_by(f64::total_cmp);

    // The standard deviation of Kendall's S if there is no trend.
    let z = normal::quantile(0.5 + 0.5 * confidence.get());
    let spread = z * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let outside = ((slopes.len() as f64 - spread) / 2.0).floor().max(0.0) as usize;
    let steps = (sample.n() - 1) as f64 / per_batch as f64;
    let change = median_of_sorted(&slopes) * steps;
    let interval = Interval {
        low: slopes[outside] * steps,
        high: slopes[slopes.len() - 1 - outside] * steps,
    };
    let median = sample.median();
    let change_percent = (median != 0.0).then(|| 100.0 * change / median.abs());
    Some(Drift {
        change,
        interval,
        change_percent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn find(values: Vec<f64>) -> Option<Drift> {
        drift(&Sample::new(values).unwrap(), Confidence::P95)
    }

    /// An exact line keeps its slope in spite of two outliers.
    #[test]
    fn outliers_do_not_bend_the_line() {
        let mut values: Vec<f64> = (0..21).map(|i| 100.0 + 0.5 * f64::from(i)).collect();
        values[3] = 500.0;
        values[15] = -200.0;
        let d = find(values).unwrap();
        assert_eq!(d.change, 10.0);
        assert!(!d.interval.contains(0.0));
        assert!((d.change_percent.unwrap() - 10.0 / 105.0 * 100.0).abs() < 0.5);
    }

    #[test]
    fn noise_is_rarely_called_a_trend() {
        let mut random = SplitMix64::new(2);
        let false_alarms = |n: usize, random: &mut SplitMix64| {
            (0..1000)
                .filter(|_| {
                    let values = (0..n).map(|_| random.below(1 << 40) as f64).collect();
                    !find(values).unwrap().interval.contains(0.0)
                })
                .count()
        };
        for n in [6, 10, 30] {
            let count = false_alarms(n, &mut random);
            assert!((10..=75).contains(&count), "{n}: {count} of 1000");
        }
    }

    #[test]
    fn long_samples_are_batched_and_short_ones_refused() {
        let long = find((0..10_000).map(f64::from).collect()).unwrap();
        assert!((long.change - 9_999.0).abs() < 1e-6);
        assert_eq!(find(vec![1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(find(vec![7.0; 6]).unwrap().change, 0.0);
    }
}
