//! Measured values, and statistics of one set of them.
//!
//! A [`Sample`] holds at least one value, all finite, in the order of measurement; its numbers are
//! in the caller's unit. [`compare`](crate::compare()) compares two samples. Start at
//! [`Sample::new`].

use crate::student;

/// Values in the order they were measured: at least one, all finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    values: Vec<f64>,
    sorted: Vec<f64>,
}

/// Why values do not make a [`Sample`].
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// There are no values.
    #[error("no values")]
    Empty,
    /// One of the values was NaN or infinite.
    #[error("value number {} is {value}, not a finite number", .index + 1)]
    NotFinite {
        /// Index of the first such value, from 0.
        index: usize,
        /// The value itself.
        value: f64,
    },
}

/// A confidence level strictly between 0 and 1, such as 0.95.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Confidence(f64);

/// A range of values, both ends included; `low <= high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Confidence {
    /// 90 %.
    pub const P90: Self = Self(0.90);
    /// 95 %, the default everywhere.
    pub const P95: Self = Self(0.95);
    /// 99 %.
    pub const P99: Self = Self(0.99);

    /// A level such as 0.95 (not 95); `None` unless strictly between 0 and 1.
    pub fn new(level: f64) -> Option<Self> {
        (level > 0.0 && level < 1.0).then_some(Self(level))
    }

    /// The level, between 0 and 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Default for Confidence {
    fn default() -> Self {
        Self::P95
    }
}

impl Interval {
    /// The interval `centre ± half_width`.
    pub fn around(centre: f64, half_width: f64) -> Self {
        Self {
            low: centre - half_width,
            high: centre + half_width,
        }
    }

    /// Returns true if `value` is inside, ends included.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half the distance between the ends.
    pub fn half_width(self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// Applies an increasing function, such as a change of unit, to both ends.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self {
            low: f(self.low),
            high: f(self.high),
        }
    }
}

impl Sample {
    /// Takes values in the order of measurement.
    pub fn new(values: impl Into<Vec<f64>>) -> Result<Self, SampleError> {
        let values = values.into();
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(SampleError::NotFinite {
                index,
                value: values[index],
            });
        }
        if values.is_empty() {
            return Err(SampleError::Empty);
        }
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Self { values, sorted })
    }

    /// Applies a function that keeps values finite, in the same order.
    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        let values = self.values.iter().map(|v| f(*v)).collect();
        // already sorted if the function is increasing, which this sort detects
        let mut sorted: Vec<f64> = self.sorted.iter().map(|v| f(*v)).collect();
        sorted.sort_by(f64::total_cmp);
        Self { values, sorted }
    }

    /// Number of values, at least 1.
    pub fn n(&self) -> usize {
        self.values.len()
    }

    /// The values in the order of measurement.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The values in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// Smallest value.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// Largest value.
    pub fn max(&self) -> f64 {
        self.sorted[self.n() - 1]
    }

    /// Arithmetic mean.
    pub fn mean(&self) -> f64 {
        let n = self.n() as f64;
        let rough = self.sorted.iter().sum::<f64>() / n;
        // Adding the mean of the residues removes the rounding error of the long sum.
        rough + self.sorted.iter().map(|v| v - rough).sum::<f64>() / n
    }

    /// Median; for even n the mean of the two middle values.
    pub fn median(&self) -> f64 {
        median_of_sorted(&self.sorted)
    }

    /// Sample variance, divisor n - 1; `None` for a single value.
    pub fn variance(&self) -> Option<f64> {
        let mean = self.mean();
        let squares: f64 = self.sorted.iter().map(|v| (v - mean) * (v - mean)).sum();
        (self.n() >= 2).then(|| squares / (self.n() - 1) as f64)
    }

    /// Sample standard deviation, divisor n - 1; `None` for a single value.
    pub fn stdev(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// Coefficient of variation, stdev over |mean|; `None` for a single value or a mean of zero.
    pub fn cv(&self) -> Option<f64> {
        let mean = self.mean();
        if mean == 0.0 {
            None
        } else {
            self.stdev().map(|s| s / mean.abs())
        }
    }

    /// Quantile `p`, linear between order statistics (R's type 7); `p` is clamped to 0..=1.
    pub fn quantile(&self, p: f64) -> f64 {
        let place = p.clamp(0.0, 1.0) * (self.n() - 1) as f64;
        let below = place.floor() as usize;
        let above = (below + 1).min(self.n() - 1);
        let share = place - below as f64;
        self.sorted[below] * (1.0 - share) + self.sorted[above] * share
    }

    /// Confidence interval of the mean by Student's t; `None` for a single value.
    pub fn mean_interval(&self, confidence: Confidence) -> Option<Interval> {
        let n = self.n() as f64;
        let error = self.stdev()? / n.sqrt();
        Some(Interval::around(
            self.mean(),
            student::critical(confidence, n - 1.0) * error,
        ))
    }
}

/// Median of ascending values, mean of the two middle ones for even n; the slice is not empty.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        sorted[middle - 1].midpoint(sorted[middle])
    }
}

/// Median of at least one value; reorders them.
pub(crate) fn median_of(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let is_odd = values.len() % 2 == 1;
    let (below, at, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    match below.iter().copied().max_by(f64::total_cmp) {
        Some(below) if !is_odd => below.midpoint(*at),
        _ => *at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::statistics::Statistics;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    #[test]
    fn textbook_values() {
        let s = sample(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((s.n(), s.mean(), s.min(), s.max()), (8, 5.0, 2.0, 9.0));
        assert_eq!(s.median(), 4.5);
        assert_eq!(s.variance(), Some(32.0 / 7.0));
        assert_eq!(s.cv(), Some((32.0_f64 / 7.0).sqrt() / 5.0));
        assert_eq!(sample(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(sample(&[3.0, 1.0, 2.0]).values(), [3.0, 1.0, 2.0]);
    }

    /// R: quantile(c(1, 2, 3, 4), c(0, .1, .25, .5, .9, 1)).
    #[test]
    fn quantiles_are_those_of_r() {
        let s = sample(&[4.0, 1.0, 3.0, 2.0]);
        for (p, expect) in [
            (0.0, 1.0),
            (0.1, 1.3),
            (0.25, 1.75),
            (0.5, 2.5),
            (0.9, 3.7),
            (1.0, 4.0),
        ] {
            assert!((s.quantile(p) - expect).abs() < 1e-12, "{p}");
        }
    }

    #[test]
    fn single_value_has_no_spread() {
        let s = sample(&[7.0]);
        assert_eq!((s.median(), s.quantile(0.3), s.mean()), (7.0, 7.0, 7.0));
        assert_eq!(
            (s.stdev(), s.cv(), s.mean_interval(Confidence::P95)),
            (None, None, None)
        );
    }

    #[test]
    fn spread_survives_a_large_offset() {
        let s = sample(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
        assert_eq!(s.variance(), Some(30.0));
        assert_eq!(sample(&[100_000_000.1; 3]).stdev(), Some(0.0));
    }

    #[test]
    fn refuses_what_is_not_a_number() {
        assert_eq!(Sample::new([]), Err(SampleError::Empty));
        let error = Sample::new([1.0, f64::INFINITY]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "value number 2 is inf, not a finite number"
        );
        assert!(Sample::new([f64::NAN]).is_err());
    }

    /// By hand, with t(0.975; 3) = 3.182446 of the usual tables.
    #[test]
    fn interval_of_the_mean() {
        let s = sample(&[4.98, 5.02, 5.00, 5.04]);
        let i = s.mean_interval(Confidence::P95).unwrap();
        let half = 3.182_446_305_284_263 * s.stdev().unwrap() / 2.0;
        assert!((i.low - (5.01 - half)).abs() < 1e-12 && (i.high - (5.01 + half)).abs() < 1e-12);
        assert!(i.contains(5.0) && !i.contains(5.1));
        assert!(Confidence::new(95.0).is_none() && Confidence::new(f64::NAN).is_none());
    }

    proptest! {
        #[test]
        fn moments_agree_with_statrs(values in prop::collection::vec(-1e6..1e6_f64, 2..200)) {
            let s = sample(&values);
            prop_assert!((s.mean() - values.iter().mean()).abs() < 1e-9);
            let theirs = values.iter().std_dev();
            prop_assert!((s.stdev().unwrap() - theirs).abs() < 1e-9 * theirs.max(1.0));
            prop_assert!(s.min() <= s.median() && s.median() <= s.max());
        }
    }
}
