//! Splits readings of a speed probe into a slow and a fast stratum, if there are two.
//!
//! For the contention gate: the threshold comes from the probe alone and never from a result, so
//! that choosing windows by it cannot flatter anybody. Not a general clustering. Start at [`split`].

use crate::sample::Sample;

/// Whether probe readings fall into one group or two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Split {
    /// One group, a continuum, or too few readings to tell.
    Uniform,
    /// Two groups with a valley between them.
    Two {
        /// Readings of at least this value belong to the high stratum.
        threshold: f64,
        /// Median of the low stratum.
        low_centre: f64,
        /// Median of the high stratum.
        high_centre: f64,
        /// Share of the readings in the high stratum, 0 to 1.
        share_high: f64,
    },
}

/// Fewest readings from which two groups are believed.
pub const MIN_READINGS: usize = 60;
/// Each stratum holds at least this share of the readings; fewer are outliers, not a state.
const MIN_SHARE: f64 = 0.05;
/// The centres differ at least by this factor; less is not worth a gate.
const MIN_RATIO: f64 = 1.1;
/// Share of the variance (of logarithms) that the split explains. The best split of a uniform
/// distribution explains 0.75, of a normal one 0.64.
const MIN_EXPLAINED: f64 = 0.8;
/// Readings in the middle third between the centres, over those around the emptier centre (a
/// window equally wide). A continuum has about 1; a long tail, which explains much variance too,
/// has no valley either.
const MAX_VALLEY: f64 = 1.0 / 3.0;

/// Splits positive readings in two, or says that they are one group.
///
/// The cut is the one that explains most variance of the logarithms (two-means in one dimension,
/// which is Otsu's threshold), found by trying every place between sorted readings. It stands if
/// it explains enough, separates the centres enough, and lies in a valley; see the constants.
/// Readings that are zero or negative make the answer [`Split::Uniform`].
pub fn split(readings: &Sample) -> Split {
    let n = readings.n();
    if n < MIN_READINGS || readings.min() <= 0.0 {
        return Split::Uniform;
    }
    // Relative to the smallest: keeps the sums of squares small and exact.
    let logs: Vec<f64> = readings
        .sorted()
        .iter()
        .map(|v| (v / readings.min()).ln())
        .collect();
    let total: f64 = logs.iter().sum();
    let least = (MIN_SHARE * n as f64).ceil() as usize;

    let mut low_sum = 0.0;
    let mut best = (0.0, least);
    for (cut, log) in logs.iter().enumerate() {
        if (least..=n - least).contains(&cut) {
            let (k, rest) = (cut as f64, (n - cut) as f64);
            let gap = (total - low_sum) / rest - low_sum / k;
            let between = k * rest / n as f64 * gap * gap;
            if between > best.0 {
                best = (between, cut);
            }
        }
        low_sum += log;
    }
    let (between, cut) = best;
    let mean = total / n as f64;
    let all: f64 = logs.iter().map(|v| (v - mean) * (v - mean)).sum();

    let low_log = crate::sample::median_of_sorted(&logs[..cut]);
    let high_log = crate::sample::median_of_sorted(&logs[cut..]);
    let third = (high_log - low_log) / 3.0;
    let around = |centre: f64| {
        logs.partition_point(|v| *v <= centre + 0.5 * third)
            - logs.partition_point(|v| *v < centre - 0.5 * third)
    };
    let valley = around(0.5 * (low_log + high_log)) as f64;
    let emptier = around(low_log).min(around(high_log)) as f64;

    let two = third > 0.0
        && between >= MIN_EXPLAINED * all
        && high_log - low_log >= MIN_RATIO.ln()
        && valley <= MAX_VALLEY * emptier;
    if !two {
        return Split::Uniform;
    }
    let value = |log: f64| readings.min() * log.exp();
    Split::Two {
        threshold: value(0.5 * (logs[cut - 1] + logs[cut])),
        low_centre: value(low_log),
        high_centre: value(high_log),
        share_high: (n - cut) as f64 / n as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use std::f64::consts::TAU;

    struct Draw(SplitMix64);

    impl Draw {
        fn uniform(&mut self) -> f64 {
            (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
        }
        fn normal(&mut self) -> f64 {
            // Box and Muller 1958.
            let radius = (-2.0 * self.uniform().max(1e-15).ln()).sqrt();
            radius * (TAU * self.uniform()).cos()
        }
    }

    /// How many of 500 samples of `n` readings are split in two.
    fn twos(n: usize, mut reading: impl FnMut(&mut Draw) -> f64) -> usize {
        let mut draw = Draw(SplitMix64::new(7));
        (0..500)
            .filter(|_| {
                let readings: Vec<f64> = (0..n).map(|_| reading(&mut draw)).collect();
                split(&Sample::new(readings).unwrap()) != Split::Uniform
            })
            .count()
    }

    #[test]
    fn one_group_is_hardly_ever_split() {
        for n in [60, 100, 1000] {
            assert!(
                twos(n, |d| 3.0 * (0.05 * d.normal()).exp()) <= 5,
                "narrow, {n}"
            );
            assert!(
                twos(n, |d| 3.0 * (0.3 * d.normal()).exp()) <= 5,
                "wide, {n}"
            );
            assert!(twos(n, |d| 1.7 + 2.0 * d.uniform()) <= 5, "continuum, {n}");
            assert!(
                twos(n, |d| 3.8 * d.uniform().max(1e-9).powf(0.2)) <= 5,
                "one long tail, {n}"
            );
        }
        // Sparse in the middle by chance when readings are few, hence only many.
        let spike = |d: &mut Draw| {
            if d.uniform() < 0.8 {
                3.8
            } else {
                1.9 + 1.9 * d.uniform()
            }
        };
        assert!(twos(1000, spike) <= 5, "spike with a flat tail");
    }

    /// The probe of dataplane.md §0: 1.7 to 3.87, fast at 3.1 and above, slow below 2.4.
    #[test]
    fn two_groups_are_found_between_their_centres() {
        for share in [0.15, 0.5, 0.85] {
            let found = twos(100, |d| {
                let centre = if d.uniform() < share { 3.7 } else { 2.1 };
                centre * (0.05 * d.normal()).exp()
            });
            assert!(found >= 490, "share {share}: {found}");
        }
        // A tenth of the bursts is half disturbed.
        let smeared = twos(200, |d| match d.uniform() {
            u if u < 0.6 => 3.8 * (0.03 * d.normal()).exp(),
            u if u < 0.9 => 2.0 * (0.05 * d.normal()).exp(),
            _ => 2.0 + 1.8 * d.uniform(),
        });
        assert!(smeared >= 490, "{smeared}");
    }

    #[test]
    fn reports_threshold_centres_and_share() {
        let mut readings = vec![2.0; 30];
        readings.extend([3.9, 4.0, 4.1].repeat(30));
        let Split::Two {
            threshold,
            low_centre,
            high_centre,
            share_high,
        } = split(&Sample::new(readings).unwrap())
        else {
            panic!("two groups expected");
        };
        assert!((threshold - (2.0_f64 * 3.9).sqrt()).abs() < 1e-12);
        assert!((low_centre - 2.0).abs() < 1e-12 && (high_centre - 4.0).abs() < 1e-12);
        assert_eq!(share_high, 0.75);
    }

    #[test]
    fn few_equal_close_or_impossible_readings_are_uniform() {
        let uniform =
            |values: Vec<f64>| assert_eq!(split(&Sample::new(values).unwrap()), Split::Uniform);
        uniform(vec![1.0, 2.0]);
        uniform(vec![3.0; 1000]);
        uniform([3.0, 3.2].repeat(100));
        uniform([0.0, 3.2].repeat(100));
        // Two of a hundred are outliers, not a state.
        let mut readings = [3.8, 3.82, 3.84, 3.86].repeat(25);
        readings[..2].fill(1.9);
        uniform(readings);
    }
}
