//! Tests on ranks, for values that are not normal because of outliers, skew or two modes.
//!
//! Mann–Whitney for two samples, Wilcoxon's signed ranks for differences of pairs, each with its
//! Hodges–Lehmann estimate; exact for small samples, ties included. [`compare`](crate::compare())
//! adds percentages and a verdict to the first. Start at [`rank_sum`] and [`signed_rank`].

use crate::normal;
use crate::sample::{Confidence, Interval, Sample};

/// The outcome of a rank test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTest {
    /// Two-sided p-value.
    pub p_value: f64,
    /// Smallest p-value that samples of this size can have, regardless of their values.
    pub smallest_p: f64,
    /// Hodges–Lehmann estimate: median of all pairwise differences, or of all pairwise averages.
    pub shift: f64,
    /// Confidence interval of `shift`; `None` if the samples are too small for it.
    pub interval: Option<Interval>,
}

/// Up to this number of values in total, the distribution under the null hypothesis is enumerated;
/// above it, it is nearly normal.
const EXACT: usize = 50;

/// Mann and Whitney's U (Wilcoxon's rank sum) of `other` against `reference`.
///
/// Exact up to 50 values in total, with ties by the permutation distribution of their mean ranks;
/// above, normal with corrections for ties and continuity.
pub fn rank_sum(reference: &Sample, other: &Sample, confidence: Confidence) -> RankTest {
    let (x, y) = (reference.sorted(), other.sorted());
    let n = x.len() + y.len();
    let mut pool: Vec<(f64, bool)> = x.iter().map(|v| (*v, false)).collect();
    pool.extend(y.iter().map(|v| (*v, true)));
    pool.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values: Vec<f64> = pool.iter().map(|(value, _)| *value).collect();
    let ranks = Ranks::new(&values);
    let observed: usize = pool
        .iter()
        .zip(&ranks.doubled)
        .filter(|((_, is_y), _)| *is_y)
        .map(|(_, rank)| rank)
        .sum();

    let (n1, n2) = (x.len() as f64, y.len() as f64);
    let mean = n1 * n2 / 2.0;
    let total = n as f64;
    let variance = mean / 6.0 * (total + 1.0);
    let p_value = if n <= EXACT {
        subset_sums(&ranks.doubled, y.len()).two_sided(observed, y.len() * (n + 1))
    } else {
        let tied_variance = variance - mean / 6.0 * ranks.tie_term / (total * (total - 1.0));
        let u = observed as f64 / 2.0 - n2 * (n2 + 1.0) / 2.0;
        normal_two_sided(u - mean, tied_variance)
    };

    let lower_tail = lower_tail(n, y.len());
    let Shift { shift, interval } =
        shift_between(x, y, lower_tail.as_deref(), (mean, variance), confidence);
    RankTest {
        p_value,
        smallest_p: smallest_p(lower_tail.as_deref(), mean, variance),
        shift,
        interval,
    }
}

/// Returns only the estimate of [`rank_sum`], if the test itself was already made, for example on
/// the logarithms of these values.
pub(crate) fn shift(reference: &Sample, other: &Sample, confidence: Confidence) -> Shift {
    let (x, y) = (reference.sorted(), other.sorted());
    let n = x.len() + y.len();
    let mean = x.len() as f64 * y.len() as f64 / 2.0;
    let variance = mean / 6.0 * (n as f64 + 1.0);
    let lower_tail = lower_tail(n, y.len());
    shift_between(x, y, lower_tail.as_deref(), (mean, variance), confidence)
}

/// The distance of a sample from another: see [`RankTest`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shift {
    pub(crate) shift: f64,
    pub(crate) interval: Option<Interval>,
}

/// Returns the lower tail of the rank sum of `size` of `n` values, if it is enumerated: without
/// ties, where exact tests are symmetric, so that it determines both ends.
fn lower_tail(n: usize, size: usize) -> Option<Vec<f64>> {
    (n <= EXACT).then(|| {
        let plain: Vec<usize> = (1..=n).map(|rank| 2 * rank).collect();
        subset_sums(&plain, size).lower_tail(size * (size + 1))
    })
}

fn shift_between(
    x: &[f64],
    y: &[f64],
    lower_tail: Option<&[f64]>,
    (mean, variance): (f64, f64),
    confidence: Confidence,
) -> Shift {
    let pairs = x.len() * y.len();
    // both indices only increase from x to x and y to y, because no difference grows with x
    let split_at = |d: f64| {
        let (mut paired, mut split) = (0, SplitValues::default());
        for x in x {
            paired += y[paired..].iter().take_while(|y| *y - x <= d).count();
            let (below, above) = y.split_at(paired);
            split.add(
                paired,
                below.last().map(|y| y - x),
                above.first().map(|y| y - x),
            );
        }
        split
    };
    let between = |low: f64, high: f64| {
        let (mut from, mut found) = (0, Vec::new());
        for x in x {
            from += y[from..].iter().take_while(|y| *y - x <= low).count();
            let inside = y[from..].iter().map(|y| y - x);
            found.extend(inside.take_while(|d| *d <= high));
        }
        found
    };
    let range = (y[0] - x[x.len() - 1], y[y.len() - 1] - x[0]);
    let mut ordered = Ordered::new(range, pairs, x.len() + y.len(), split_at, between);
    Shift {
        shift: 0.5 * (ordered.nth(pairs.div_ceil(2)) + ordered.nth(pairs / 2 + 1)),
        interval: critical(lower_tail, mean, variance, confidence).map(|k| Interval {
            low: ordered.nth(k),
            high: ordered.nth(pairs + 1 - k),
        }),
    }
}

/// Wilcoxon's signed ranks: tests whether the centre of these differences of pairs is zero.
///
/// Zeros count in the estimate but not in the test (Wilcoxon's own rule); exact up to 50 others.
pub fn signed_rank(differences: &Sample, confidence: Confidence) -> RankTest {
    let mut nonzero: Vec<f64> = differences
        .values()
        .iter()
        .copied()
        .filter(|d| *d != 0.0)
        .collect();
    nonzero.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let sizes: Vec<f64> = nonzero.iter().map(|d| d.abs()).collect();
    let ranks = Ranks::new(&sizes);
    let observed: usize = nonzero
        .iter()
        .zip(&ranks.doubled)
        .filter(|(d, _)| **d > 0.0)
        .map(|(_, rank)| rank)
        .sum();
    let moments = |n: f64| (n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0);
    let (mean, variance) = moments(nonzero.len() as f64);
    let p_value = if nonzero.len() <= EXACT {
        all_subset_sums(&ranks.doubled).two_sided(observed, ranks.doubled.iter().sum::<usize>() / 2)
    } else {
        normal_two_sided(
            observed as f64 / 2.0 - mean,
            variance - ranks.tie_term / 48.0,
        )
    };

    let x = differences.sorted();
    let n = x.len();
    let lower_tail = (n <= EXACT).then(|| {
        let plain: Vec<usize> = (1..=n).map(|rank| 2 * rank).collect();
        all_subset_sums(&plain).lower_tail(0)
    });
    let (mean, variance) = moments(n as f64);
    let averages = n * (n + 1) / 2;
    let split_at = |d: f64| {
        let (mut end, mut split) = (n, SplitValues::default());
        for i in 0..n {
            let average = |j: usize| x[i].midpoint(x[j]);
            while end > i && average(end - 1) > d {
                end -= 1;
            }
            let above = end.max(i);
            split.add(
                end.saturating_sub(i),
                (end > i).then(|| average(end - 1)),
                (above < n).then(|| average(above)),
            );
        }
        split
    };
    let between = |low: f64, high: f64| {
        let mut found = Vec::new();
        for (i, first) in x.iter().enumerate() {
            let from = i + x[i..].partition_point(|second| first.midpoint(*second) <= low);
            let inside = x[from..].iter().map(|second| first.midpoint(*second));
            found.extend(inside.take_while(|average| *average <= high));
        }
        found
    };
    let mut ordered = Ordered::new((x[0], x[n - 1]), averages, n, split_at, between);
    RankTest {
        p_value,
        smallest_p: smallest_p(lower_tail.as_deref(), mean, variance),
        shift: 0.5 * (ordered.nth(averages.div_ceil(2)) + ordered.nth(averages / 2 + 1)),
        interval: critical(lower_tail.as_deref(), mean, variance, confidence).map(|k| Interval {
            low: ordered.nth(k),
            high: ordered.nth(averages + 1 - k),
        }),
    }
}

/// Holm's adjustment (1979) of p-values of several comparisons, in the order given.
///
/// If only those below 5 % are claimed, the probability of any false claim is below 5 %.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut floor: f64 = 0.0;
    for (place, index) in order.into_iter().enumerate() {
        let remaining = (p_values.len() - place) as f64;
        floor = floor.max((p_values[index] * remaining).min(1.0));
        adjusted[index] = floor;
    }
    adjusted
}

/// Ranks of ascending values; tied values share their mean rank. Doubled, so that they are
/// integers.
struct Ranks {
    doubled: Vec<usize>,
    /// Sum of t³ - t over groups of t tied values.
    tie_term: f64,
}

impl Ranks {
    fn new(ascending: &[f64]) -> Self {
        let mut doubled = Vec::with_capacity(ascending.len());
        let mut tie_term = 0.0;
        for group in ascending.chunk_by(|a, b| a == b) {
            let before = doubled.len();
            doubled.extend(std::iter::repeat_n(
                2 * before + group.len() + 1,
                group.len(),
            ));
            let t = group.len() as f64;
            tie_term += t * t * t - t;
        }
        Self { doubled, tie_term }
    }
}

/// The number of subsets for each sum of doubled ranks; integers below 2^53.
struct SumCounts(Vec<f64>);

/// Subsets of `size` ranks.
fn subset_sums(ranks: &[usize], size: usize) -> SumCounts {
    let total: usize = ranks.iter().sum();
    let mut counts = vec![vec![0.0; total + 1]; size + 1];
    counts[0][0] = 1.0;
    for (seen, rank) in ranks.iter().enumerate() {
        // Descending, so that no rank is used twice.
        for taken in (1..=size.min(seen + 1)).rev() {
            let (fewer, more) = counts.split_at_mut(taken);
            for sum in *rank..=total {
                more[0][sum] += fewer[taken - 1][sum - rank];
            }
        }
    }
    SumCounts(counts.swap_remove(size))
}

/// Subsets of any size.
fn all_subset_sums(ranks: &[usize]) -> SumCounts {
    let total: usize = ranks.iter().sum();
    let mut counts = vec![0.0; total + 1];
    counts[0] = 1.0;
    for rank in ranks {
        for sum in (*rank..=total).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    SumCounts(counts)
}

impl SumCounts {
    /// Share of subsets with a sum at least as far from the mean as the observed one.
    fn two_sided(&self, observed: usize, mean: usize) -> f64 {
        let far = |sum: &usize| sum.abs_diff(mean) >= observed.abs_diff(mean);
        let extreme: f64 = (0..self.0.len()).filter(far).map(|sum| self.0[sum]).sum();
        extreme / self.0.iter().sum::<f64>()
    }

    /// Cumulative probabilities of the statistic 0, 1, 2, ... for untied (even) doubled ranks,
    /// whose smallest sum is `least`.
    fn lower_tail(&self, least: usize) -> Vec<f64> {
        let all: f64 = self.0.iter().sum();
        let cumulate = |sum: &mut f64, count: &f64| {
            *sum += count;
            Some(*sum / all)
        };
        self.0[least..]
            .iter()
            .step_by(2)
            .scan(0.0, cumulate)
            .collect()
    }
}

/// Two-sided p of a statistic's distance from its mean, with correction for continuity.
fn normal_two_sided(distance: f64, variance: f64) -> f64 {
    let z = (distance.abs() - 0.5).max(0.0) / variance.sqrt();
    // All values tied: no variance, no evidence.
    if z.is_nan() {
        1.0
    } else {
        2.0 * normal::upper_tail(z)
    }
}

fn smallest_p(lower_tail: Option<&[f64]>, mean: f64, variance: f64) -> f64 {
    lower_tail.map_or_else(
        || normal_two_sided(mean, variance),
        |tail| (2.0 * tail[0]).min(1.0),
    )
}

/// Returns the number, counted from 1 from either end, of the ordered difference that bounds the
/// interval.
fn critical(
    lower_tail: Option<&[f64]>,
    mean: f64,
    variance: f64,
    confidence: Confidence,
) -> Option<usize> {
    let tail = 0.5 * (1.0 - confidence.get());
    let k = match lower_tail {
        Some(cumulative) => cumulative.partition_point(|p| *p <= tail * (1.0 + 1e-12)),
        None => (mean - normal::quantile(1.0 - tail) * variance.sqrt() + 0.5).max(0.0) as usize,
    };
    (k > 0).then_some(k)
}

/// The values split at a number.
#[derive(Debug, Clone, Copy)]
struct SplitValues {
    /// The number of values at or below it.
    at_most: usize,
    /// The largest of them.
    below: f64,
    /// The smallest of the others.
    above: f64,
}

impl Default for SplitValues {
    fn default() -> Self {
        Self {
            at_most: 0,
            below: f64::NEG_INFINITY,
            above: f64::INFINITY,
        }
    }
}

impl SplitValues {
    /// Adds `at_most` values and updates the nearest ones.
    fn add(&mut self, at_most: usize, below: Option<f64>, above: Option<f64>) {
        self.at_most += at_most;
        self.below = below.map_or(self.below, |value| self.below.max(value));
        self.above = above.map_or(self.above, |value| self.above.min(value));
    }
}

/// A very large ordered set of values that is never stored: it can only be split at a given number,
/// and the values between two numbers can be listed.
///
/// Each split walks through all measured values, so the number of splits matters: bisecting the
/// representable numbers took 64 splits for each requested value. This guesses a position from the
/// counts on both sides, which earlier requests contribute to, and lists the last few values.
struct Ordered<P, B> {
    split_at: P,
    between: B,
    /// Up to this number of values is listed.
    few: usize,
    /// Keys of numbers, and how many values are at or below each: ascending, the first below all
    /// values.
    counted: Vec<(i64, usize)>,
    /// The last listed values: the number of values below them, and the values in order.
    listed: (usize, Vec<f64>),
}

impl<P: Fn(f64) -> SplitValues, B: Fn(f64, f64) -> Vec<f64>> Ordered<P, B> {
    /// A set of `all` values from `range.0` to `range.1`.
    fn new(range: (f64, f64), all: usize, few: usize, split_at: P, between: B) -> Self {
        Self {
            split_at,
            between,
            few,
            counted: vec![(key_below(range.0), 0), (key(range.1), all)],
            listed: (0, Vec::new()),
        }
    }

    /// Returns the `k`-th smallest value, counted from 1.
    fn nth(&mut self, k: usize) -> f64 {
        let mut step = 0;
        loop {
            let index = k.checked_sub(self.listed.0 + 1);
            if let Some(value) = index.and_then(|index| self.listed.1.get(index)) {
                return *value;
            }
            let at = self.counted.partition_point(|(_, count)| *count < k);
            let ((low, fewer), (high, more)) = (self.counted[at - 1], self.counted[at]);
            if low == key_below(number(high)) {
                return number(high);
            }
            if more - fewer <= self.few {
                let mut values = (self.between)(number(low), number(high));
                values.sort_unstable_by(f64::total_cmp);
                self.listed = (fewer, values);
                continue;
            }
            // Alternate between a little below and a little above the position that evenly spread
            // values would have, so that both ends come near it; sometimes take the middle of the
            // representable numbers, which guarantees an end for any distribution.
            let margin = self.few as f64 / 4.0;
            let guess = |off: f64| {
                let share = (k as f64 + off - fewer as f64) / (more - fewer) as f64;
                let (from, to) = (number(low), number(high));
                key(from + share.clamp(0.0, 1.0) * (to - from))
            };
            let middle = match step % 4 {
                0 | 2 => guess(-margin),
                1 => guess(margin),
                // rounded down: the number just below zero would round to zero, where no value is
                // found
                _ => (low >> 1) + (high >> 1) + (low & high & 1),
            };
            step += 1;
            let SplitValues {
                at_most,
                below,
                above,
            } = (self.split_at)(number(middle.clamp(low + 1, high - 1)));
            // no value lies between the nearest values on both sides
            let found = [(key(below), at_most), (key_below(above), at_most)];
            let is_new = |point: &(i64, usize)| low < point.0 && point.0 < high;
            let new = found.into_iter().filter(is_new).collect::<Vec<_>>();
            self.counted.splice(at..at, new);
        }
    }
}

/// Returns the key of the next number below a value; both zeros are one number.
fn key_below(value: f64) -> i64 {
    key(value).saturating_sub(if value == 0.0 { 2 } else { 1 })
}

/// Maps bit patterns so that their order is the order of the numbers.
fn flip(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn key(value: f64) -> i64 {
    flip((value + 0.0).to_bits() as i64)
}

fn number(key: i64) -> f64 {
    f64::from_bits(flip(key) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::stats_tests::Alternative;
    use statrs::stats_tests::mannwhitneyu::{MannWhitneyUMethod, mannwhitneyu};

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    fn both(x: &[f64], y: &[f64]) -> RankTest {
        rank_sum(&sample(x), &sample(y), Confidence::P95)
    }

    /// Wraps values for [`Ordered`], and counts the splits.
    fn ordered<'a>(
        values: &'a [f64],
        few: usize,
        parted: &'a std::cell::Cell<u32>,
    ) -> Ordered<impl Fn(f64) -> SplitValues + 'a, impl Fn(f64, f64) -> Vec<f64> + 'a> {
        let split_at = move |d: f64| {
            parted.set(parted.get() + 1);
            let at = values.partition_point(|v| *v <= d);
            let mut split = SplitValues::default();
            split.add(
                at,
                at.checked_sub(1).map(|i| values[i]),
                values.get(at).copied(),
            );
            split
        };
        let between = move |low, high| {
            let inside = values.iter().copied();
            inside.filter(|v| low < *v && *v <= high).collect()
        };
        let range = (values[0], values[values.len() - 1]);
        Ordered::new(range, values.len(), few, split_at, between)
    }

    proptest! {
        /// For any distribution, with repetitions and on both sides of zero, the k-th value is
        /// found quickly.
        #[test]
        fn the_kth_is_the_kth(
            mut values in prop::collection::vec(
                prop_oneof![-3..3_i32, -1_000_000..1_000_000].prop_map(|v| f64::from(v) / 7.0), 1..200,
            ),
            extreme in prop::option::of(prop::sample::select(vec![f64::MAX, -f64::MAX, 5e-324, -5e-324])),
            few in 0..20_usize,
            ks in prop::collection::vec(0..200_usize, 1..5),
        ) {
            values.extend(extreme);
            values.sort_by(f64::total_cmp);
            let parted = std::cell::Cell::new(0);
            let mut ordered = ordered(&values, few, &parted);
            for k in ks {
                let k = k % values.len();
                // a zero equals a zero, regardless of its sign
                prop_assert_eq!(ordered.nth(k + 1), values[k]);
            }
            prop_assert!(parted.get() < 500, "{}", parted.get());
        }
    }

    /// Between the smallest number below zero and zero there is only the other zero: the search
    /// must terminate there.
    #[test]
    fn the_smallest_number_below_zero_is_found() {
        let values = [-5e-324, 0.0, 0.0];
        let parted = std::cell::Cell::new(0);
        let mut ordered = ordered(&values, 0, &parted);
        assert_eq!([1, 2, 3].map(|k| ordered.nth(k)), values);
    }

    /// A comparison of a million values once took seconds because it walked through all of them 64
    /// times for each of four positions.
    #[test]
    fn few_walks_find_the_estimate_and_its_interval() {
        let mut random = crate::random::SplitMix64::new(18);
        let mut normal = || {
            (0..12)
                .map(|_| random.next_u64() as f64 / u64::MAX as f64)
                .sum::<f64>()
        };
        let n = 300;
        let x: Vec<f64> = (0..n).map(|_| 1e6 + 2e4 * normal()).collect();
        let y: Vec<f64> = (0..n).map(|_| 1.001e6 + 2e4 * normal()).collect();
        let mut differences: Vec<f64> = y
            .iter()
            .flat_map(|y| x.iter().map(move |x| y - x))
            .collect();
        differences.sort_by(f64::total_cmp);
        let parted = std::cell::Cell::new(0);
        let all = differences.len();
        let mut ordered = ordered(&differences, 2 * n, &parted);
        for k in [all / 2, all / 2 + 1, all / 2 - 4000, all / 2 + 4000] {
            assert_eq!(ordered.nth(k), differences[k - 1]);
        }
        assert!(parted.get() <= 20, "{} walks", parted.get());
        // and this equals the test's own estimate
        assert_eq!(
            both(&x, &y).shift,
            0.5 * (differences[all / 2 - 1] + differences[all / 2])
        );
    }

    /// Hollander & Wolfe (1973), p. 69, as in R's wilcox.test: one-sided p = 0.1272.
    #[test]
    fn permeability_of_membranes() {
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let y = [1.15, 0.88, 0.90, 0.74, 1.21];
        let test = both(&y, &x);
        assert!(
            (test.p_value - 2.0 * 0.127_206_1).abs() < 1e-6,
            "{}",
            test.p_value
        );
        // R: wilcox.test(x, y, conf.int = TRUE): 0.305 (-0.15, 0.76).
        assert!((test.shift - 0.305).abs() < 1e-12);
        let interval = test.interval.unwrap();
        assert!((interval.low + 0.15).abs() < 1e-12 && (interval.high - 0.76).abs() < 1e-12);
    }

    /// Hollander & Wolfe (1973), p. 29, as in R's wilcox.test: V = 40, one-sided p = 0.01953.
    #[expect(clippy::approx_constant, reason = "3.14 was measured")]
    #[test]
    fn depression_scores() {
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(b, a)| b - a).collect();
        let test = signed_rank(&sample(&differences), Confidence::P95);
        assert_eq!(test.p_value, 2.0 * 0.019_531_25);
        assert!((test.shift - 0.46).abs() < 1e-12, "{}", test.shift);
    }

    /// docs/methodology.md, "Which test": 3+3 0.1, 4+4 0.029, 5+5 0.0079.
    #[test]
    fn smallest_possible_p() {
        for (n, p) in [(3, 0.1), (4, 2.0 / 70.0), (5, 2.0 / 252.0)] {
            let low: Vec<f64> = (0..n).map(f64::from).collect();
            let high: Vec<f64> = (0..n).map(|v| f64::from(v) + 100.0).collect();
            let test = both(&low, &high);
            assert!((test.p_value - p).abs() < 1e-15 && test.smallest_p == test.p_value);
            assert_eq!(test.interval.is_some(), p <= 0.05);
        }
        let six = signed_rank(&sample(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Confidence::P95);
        assert_eq!((six.p_value, six.interval.is_some()), (0.03125, true));
        assert_eq!(
            signed_rank(&sample(&[1.0; 5]), Confidence::P95).smallest_p,
            0.0625
        );
    }

    #[test]
    fn all_equal_is_no_evidence() {
        for n in [4, 60] {
            let equal = vec![7.0; n];
            assert_eq!(
                (both(&equal, &equal).p_value, both(&equal, &equal).shift),
                (1.0, 0.0)
            );
            let zeros = signed_rank(&sample(&vec![0.0; n]), Confidence::P95);
            assert_eq!((zeros.p_value, zeros.shift), (1.0, 0.0));
        }
    }

    /// The approximation takes over without a step.
    #[test]
    fn exact_and_normal_agree_where_they_meet() {
        let x: Vec<f64> = (0..25).map(|i| f64::from(i * 7 % 50)).collect();
        let y: Vec<f64> = (0..25).map(|i| f64::from(i * 7 % 50) * 1.1 + 3.3).collect();
        let exact = both(&x, &y);
        let (_, approximate) = mannwhitneyu(
            &x,
            &y,
            MannWhitneyUMethod::AsymptoticInclContinuityCorrection,
            Alternative::TwoSided,
        )
        .unwrap();
        assert!(
            (exact.p_value - approximate).abs() < 0.003,
            "{} {approximate}",
            exact.p_value
        );
    }

    /// Holm's own procedure on five values; R: p.adjust(p, "holm").
    #[test]
    fn holm_as_in_r() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005, 0.5]);
        for (ours, expect) in adjusted.iter().zip([0.04, 0.09, 0.09, 0.025, 0.5]) {
            assert!((ours - expect).abs() < 1e-15);
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    /// Share of all ways to pick `k` ranks whose sum is as far from the mean as that of the first
    /// `k`.
    fn enumerate(pool: &[f64], k: usize) -> f64 {
        let mean_rank = |v: f64| {
            let below = pool.iter().filter(|p| **p < v).count() as f64;
            let equal = pool.iter().filter(|p| **p == v).count() as f64;
            below + (equal + 1.0) / 2.0
        };
        let ranks: Vec<f64> = pool.iter().map(|v| mean_rank(*v)).collect();
        let mean = k as f64 * (pool.len() as f64 + 1.0) / 2.0;
        let observed = (ranks[..k].iter().sum::<f64>() - mean).abs();
        let (mut all, mut extreme) = (0.0, 0.0);
        for subset in (0_u32..1 << pool.len()).filter(|s| s.count_ones() as usize == k) {
            let sum: f64 = (0..pool.len())
                .filter(|i| subset >> i & 1 == 1)
                .map(|i| ranks[i])
                .sum();
            all += 1.0;
            extreme += f64::from(u8::from((sum - mean).abs() >= observed - 1e-9));
        }
        extreme / all
    }

    proptest! {
        /// The larger sample first: statrs 0.19 counts the wrong tail when the first is the
        /// smaller.
        #[test]
        fn exact_p_agrees_with_statrs(
            x in prop::collection::hash_set(0..100_000_i32, 8..12),
            y in prop::collection::hash_set(0..100_000_i32, 3..8),
        ) {
            prop_assume!(x.is_disjoint(&y));
            let (x, y): (Vec<f64>, Vec<f64>) =
                (x.into_iter().map(f64::from).collect(), y.into_iter().map(f64::from).collect());
            let (_, p) = mannwhitneyu(&x, &y, MannWhitneyUMethod::Exact, Alternative::TwoSided).unwrap();
            prop_assert!((both(&x, &y).p_value - p.min(1.0)).abs() < 1e-12);
        }

        #[test]
        fn tied_p_agrees_with_enumeration(
            x in prop::collection::vec(0..5_u8, 1..6), y in prop::collection::vec(0..5_u8, 1..6),
        ) {
            let (x, y): (Vec<f64>, Vec<f64>) =
                (x.into_iter().map(f64::from).collect(), y.into_iter().map(f64::from).collect());
            let pool: Vec<f64> = y.iter().chain(&x).copied().collect();
            prop_assert!((both(&x, &y).p_value - enumerate(&pool, y.len())).abs() < 1e-12);
        }

        #[test]
        fn large_samples_agree_with_statrs(
            x in prop::collection::vec(0..40_i32, 30..60), y in prop::collection::vec(5..45_i32, 30..60),
        ) {
            let (x, y): (Vec<f64>, Vec<f64>) =
                (x.into_iter().map(f64::from).collect(), y.into_iter().map(f64::from).collect());
            let method = MannWhitneyUMethod::AsymptoticInclContinuityCorrection;
            let (_, p) = mannwhitneyu(&x, &y, method, Alternative::TwoSided).unwrap();
            let ours = both(&x, &y).p_value;
            prop_assert!((ours - p).abs() < 1e-8 * p + 1e-12, "{} {}", ours, p);
        }

        #[test]
        fn shift_is_the_median_of_all_differences(
            x in prop::collection::vec(-1e3..1e3_f64, 1..15), y in prop::collection::vec(-1e3..1e3_f64, 1..15),
        ) {
            let differences: Vec<f64> = y.iter().flat_map(|y| x.iter().map(move |x| y - x)).collect();
            prop_assert_eq!(both(&x, &y).shift, sample(&differences).median());
            let averages: Vec<f64> =
                (0..x.len()).flat_map(|i| x[i..].iter().map(|l| x[i].midpoint(*l)).collect::<Vec<_>>()).collect();
            prop_assert_eq!(signed_rank(&sample(&x), Confidence::P95).shift, sample(&averages).median());
        }

        /// The interval excludes zero exactly when the test rejects, without ties.
        #[test]
        fn interval_agrees_with_the_test(
            x in prop::collection::vec(0.0..1.0_f64, 4..20), y in prop::collection::vec(0.2..1.5_f64, 4..20),
        ) {
            let test = both(&x, &y);
            prop_assert_eq!(test.p_value <= 0.05, !test.interval.unwrap().contains(0.0));
        }
    }
}
