//! A histogram of times with a bounded relative error, with a layout that a BPF program can fill.
//!
//! Each value below 128 ns has its own bucket; above, every power of two is divided into 64
//! buckets, so that a value is known to ±0.8 %. For output it becomes an HDR histogram. The BPF
//! twin is `bpf/histogram.h`. Start with [`Histogram`].

use serde::{Deserialize, Serialize};

/// Buckets per power of two.
const PER_OCTAVE: u64 = 64;
const PER_OCTAVE_BITS: u32 = 6;

/// The largest value that is distinguished from larger ones: 2^40 ns, some 18 minutes.
pub const LARGEST_NS: u64 = (1 << 40) - 1;

/// Number of buckets.
pub const BUCKETS: usize = index(LARGEST_NS) + 1;

/// Returns the index of the bucket for a value.
#[inline]
pub const fn index(value_ns: u64) -> usize {
    let value = if value_ns > LARGEST_NS {
        LARGEST_NS
    } else {
        value_ns
    };
    if value < 2 * PER_OCTAVE {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - PER_OCTAVE_BITS;
    (((shift as u64) << PER_OCTAVE_BITS) + (value >> shift)) as usize
}

/// Returns the smallest and the largest value of a bucket.
pub const fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < 2 * PER_OCTAVE {
        return (index, index);
    }
    let shift = (index >> PER_OCTAVE_BITS) - 1;
    let low = (index - (shift << PER_OCTAVE_BITS)) << shift;
    (low, low + (1 << shift) - 1)
}

/// Counts of times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub struct Histogram {
    counts: Box<[u64]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS].into(),
        }
    }
}

/// For serialization: the counts up to the last bucket in use.
impl From<Histogram> for Vec<u64> {
    fn from(of: Histogram) -> Vec<u64> {
        let used = of.counts.iter().rposition(|count| *count > 0);
        of.counts[..used.map_or(0, |last| last + 1)].to_vec()
    }
}

impl TryFrom<Vec<u64>> for Histogram {
    type Error = String;

    fn try_from(mut counts: Vec<u64>) -> Result<Histogram, String> {
        if counts.len() > BUCKETS {
            return Err(format!("{} buckets, where {BUCKETS} are all", counts.len()));
        }
        counts.resize(BUCKETS, 0);
        Ok(Histogram {
            counts: counts.into(),
        })
    }
}

impl Histogram {
    /// Adds one value. Values above [`LARGEST_NS`] count as that.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.counts[index(value_ns)] += 1;
    }

    /// Adds `count` values to a bucket: the counts of a BPF program.
    pub fn add(&mut self, index: usize, count: u64) {
        self.counts[index] += count;
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
    }

    /// Returns the value that a share of all values does not exceed (nearest rank), in nanoseconds:
    /// the upper bound of its bucket, as in HDR histograms. `None` if there are no values.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.len() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.buckets().find_map(|(_, high, count)| {
            seen += count;
            (seen >= rank).then_some(high)
        })
    }

    /// Returns the mean in nanoseconds, with each value in the middle of its bucket. `None` if
    /// there are no values.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self
            .buckets()
            .map(|(low, high, count)| (low as f64 + high as f64) / 2.0 * count as f64)
            .sum();
        (!self.is_empty()).then(|| sum / self.len() as f64)
    }

    /// Iterates over lower bound, upper bound and count of every bucket that has values, in
    /// ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, &count)| {
                let (low, high) = bounds(index);
                (low, high, count)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_histogram_survives_serialization() {
        for values in [&[][..], &[0], &[0, 5, 5, 1 << 20], &[u64::MAX]] {
            let mut histogram = Histogram::default();
            for value in values {
                histogram.record(*value);
            }
            let text = serde_json::to_string(&histogram).unwrap();
            assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        }
        let long = serde_json::to_string(&vec![1; BUCKETS + 1]).unwrap();
        let error = serde_json::from_str::<Histogram>(&long).unwrap_err();
        assert!(error.to_string().contains("buckets, where"), "{error}");
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (low, high) = bounds(bucket);
            assert_eq!(low, next);
            assert_eq!((index(low), index(high)), (bucket, bucket));
            next = high + 1;
        }
        assert_eq!(next, LARGEST_NS + 1);
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_by_nearest_rank() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.mean()), (None, None));
        (1..=100).for_each(|value| histogram.record(value));
        assert_eq!(histogram.quantile(0.5), Some(50));
        assert_eq!(histogram.quantile(0.99), Some(99));
        assert_eq!(histogram.quantile(1.0), Some(100));
        assert_eq!(histogram.quantile(0.0), Some(1));
        assert_eq!(histogram.mean(), Some(50.5));
        assert_eq!(histogram.len(), 100);
    }

    proptest! {
        #[test]
        fn a_value_is_known_to_a_hundredth(value in 0..=LARGEST_NS) {
            let (low, high) = bounds(index(value));
            prop_assert!(low <= value && value <= high);
            prop_assert!((high - low) as f64 <= value as f64 / 64.0);
        }
    }
}
