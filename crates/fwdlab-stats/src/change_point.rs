//! Change points: where a series of results over versions or days steps up or down.
//!
//! The method of FD.io CSIT ("jumpavg"): cut the series into groups, each a normal population, so
//! that the whole description takes the fewest bits; a new group must save more bits than its own
//! description costs (docs/methodology.md, "Change points"). To compare two samples, use
//! [`compare`](crate::compare()). Start at [`partition`].

use crate::sample::Sample;
use crate::special::ln_gamma;
use std::f64::consts::{LN_2, PI};
use std::ops::Range;

/// A series cut into groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// The groups in order; together they cover the series.
    pub groups: Vec<Group>,
    /// Length of the description, in bits.
    pub bits: f64,
}

/// A section of the series that is one population.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Indices of its elements in the series.
    pub range: Range<usize>,
    /// Mean of all their values.
    pub mean: f64,
    /// Population standard deviation of all their values.
    pub stdev: f64,
    /// How the group begins. A group of one element may still be an outlier: wait for the next
    /// element before raising an alarm.
    pub shift: Shift,
}

/// How a group differs from the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// There is no previous group.
    First,
    /// Its mean is lower: a regression, if the values are rates.
    Down,
    /// Its mean is higher: a progression, if the values are rates.
    Up,
}

/// The largest value in units: it spans 13 bits, 12 significant ones and one more.
const MAX: f64 = 8191.0;

/// Returns the partition with the fewest bits; each element's values (say, the iterations of one
/// version) stay together. `None` for an empty series or one with a negative value, which has no
/// code.
///
/// For each prefix of the series only the best partition is kept, as in the reference
/// implementation: time grows as the square of the length.
pub fn partition(series: &[Sample]) -> Option<Partition> {
    let max = series.iter().map(Sample::max).reduce(f64::max)?;
    if series.iter().any(|sample| sample.min() < 0.0) {
        return None;
    }
    let unit = if max > 0.0 { max / MAX } else { 1.0 };
    let moments: Vec<Moments> = series
        .iter()
        .map(|sample| Moments::new(sample, unit))
        .collect();

    // best[j]: the best description of the first j elements.
    let mut best = vec![Best {
        bits: 0.0,
        start: 0,
        last: Moments::NONE,
    }];
    for end in 1..=series.len() {
        let mut group = Moments::NONE;
        let mut choice: Option<Best> = None;
        for start in (0..end).rev() {
            group = group.with(moments[start]);
            let before = &best[start];
            let previous = (start > 0).then_some(before.last.mean);
            let bits = before.bits + bits(group, previous);
            if choice.as_ref().is_none_or(|choice| bits < choice.bits) {
                choice = Some(Best {
                    bits,
                    start,
                    last: group,
                });
            }
        }
        best.extend(choice);
    }

    let mut groups = Vec::new();
    let mut end = series.len();
    while end > 0 {
        let Best { start, last, .. } = best[end];
        let shift = match start {
            0 => Shift::First,
            _ if last.mean < best[start].last.mean => Shift::Down,
            _ => Shift::Up,
        };
        let (mean, stdev) = (last.mean * unit, last.stdev() * unit);
        groups.push(Group {
            range: start..end,
            mean,
            stdev,
            shift,
        });
        end = start;
    }
    groups.reverse();
    Some(Partition {
        groups,
        bits: best[series.len()].bits,
    })
}

struct Best {
    bits: f64,
    start: usize,
    last: Moments,
}

/// Count, mean and sum of squared deviations, which can be merged.
#[derive(Clone, Copy)]
struct Moments {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    const NONE: Self = Self {
        n: 0.0,
        mean: 0.0,
        squares: 0.0,
    };

    fn new(sample: &Sample, unit: f64) -> Self {
        let one = |value: &f64| Self {
            n: 1.0,
            mean: value / unit,
            squares: 0.0,
        };
        sample.values().iter().map(one).fold(Self::NONE, Self::with)
    }

    /// Chan, Golub and LeVeque (1979).
    fn with(self, other: Self) -> Self {
        let n = self.n + other.n;
        let gap = other.mean - self.mean;
        Self {
            n,
            mean: self.mean + gap * other.n / n,
            squares: self.squares + other.squares + gap * gap * self.n * other.n / n,
        }
    }

    fn stdev(self) -> f64 {
        (self.squares / self.n).sqrt()
    }
}

/// Bits that describe one group: its size, its mean (cheaper near the previous one), its deviation,
/// and its values as a point on the sphere that mean and deviation define.
fn bits(group: Moments, previous: Option<f64>) -> f64 {
    let (k, mean, stdev) = (group.n, group.mean, group.stdev());
    let mut bits = (k * (k + 1.0)).log2();
    bits += match previous {
        None => (MAX + 1.0).log2(),
        Some(previous) => {
            let all = previous * previous - (previous - 1.0) * MAX + MAX * MAX / 2.0;
            -(((mean - previous).abs() + 1.0) / all).log2()
        }
    };
    if k >= 2.0 {
        bits += ((stdev + 1.0) * (stdev + 2.0)).log2() + (1.0 - 1.0 / (MAX + 2.0)).log2();
        let sphere = LN_2 + PI.ln() * (k - 1.0) / 2.0 - ln_gamma((k - 1.0) / 2.0)
            + (k - 2.0) * (stdev + 1.0).ln()
            + k.ln() * (k - 2.0) / 2.0;
        bits += sphere / LN_2;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(values: &[f64]) -> Vec<Sample> {
        values.iter().map(|v| Sample::new([*v]).unwrap()).collect()
    }

    fn check(values: &[f64], sizes: &[usize], shifts: &[Shift], bits: f64) {
        let found = partition(&series(values)).unwrap();
        let lengths: Vec<usize> = found.groups.iter().map(|g| g.range.len()).collect();
        assert_eq!(lengths, sizes);
        assert_eq!(
            found.groups.iter().map(|g| g.shift).collect::<Vec<_>>(),
            shifts
        );
        assert!(
            (found.bits - bits).abs() < 5e-7,
            "{} bits, not {bits}",
            found.bits
        );
    }

    /// The check values of docs/methodology.md, "Change points", from CSIT's implementation.
    #[test]
    fn check_values() {
        use Shift::{Down, First, Up};
        check(&[100.0; 10], &[10], &[First], 38.960635);
        let step = [
            100.0, 101.0, 99.0, 100.0, 100.0, 101.0, 90.0, 91.0, 89.0, 90.0, 90.0,
        ];
        check(&step, &[6, 5], &[First, Down], 119.811057);
        let noise = [
            100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 99.0, 99.0, 98.0, 97.0, 98.0, 99.0,
        ];
        check(&noise, &[12], &[First], 123.799676);
        let dip = [100.0, 101.0, 99.0, 100.0, 70.0, 100.0, 101.0, 99.0, 100.0];
        check(&dip, &[4, 1, 4], &[First, Down, Up], 107.601976);
    }

    #[test]
    fn values_of_one_element_stay_together() {
        let versions: Vec<Sample> = [
            [100.0, 101.0, 99.0],
            [100.0, 99.0, 101.0],
            [80.0, 81.0, 79.0],
        ]
        .into_iter()
        .map(|v| Sample::new(v).unwrap())
        .collect();
        let found = partition(&versions).unwrap();
        assert_eq!(found.groups.len(), 2);
        assert!((found.groups[1].mean - 80.0).abs() < 1e-9);
        assert_eq!(found.groups[1].range, 2..3);
        assert!((found.groups[1].stdev - (2.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        // The same values as single elements are cut at the same place.
        let flat: Vec<f64> = versions.iter().flat_map(|s| s.values().to_vec()).collect();
        assert_eq!(partition(&series(&flat)).unwrap().groups[1].range, 6..9);
    }

    #[test]
    fn nothing_negative_and_zero() {
        assert_eq!(partition(&[]), None);
        assert_eq!(partition(&series(&[1.0, -1.0])), None);
        let zeros = partition(&series(&[0.0; 5])).unwrap();
        assert_eq!(zeros.groups.len(), 1);
        assert!(zeros.bits.is_finite());
    }

    proptest! {
        #[test]
        fn groups_cover_the_series(values in prop::collection::vec(0.0..1e7_f64, 1..40)) {
            let found = partition(&series(&values)).unwrap();
            let mut next = 0;
            for group in &found.groups {
                prop_assert_eq!(group.range.start, next);
                next = group.range.end;
                let own = Sample::new(&values[group.range.clone()]).unwrap();
                prop_assert!((group.mean - own.mean()).abs() < 1e-6 * own.mean().max(1.0));
            }
            prop_assert_eq!(next, values.len());
        }

        /// The unit is derived from the largest value, so the unit of measurement does not matter.
        #[test]
        fn scale_does_not_matter(values in prop::collection::vec(1.0..1e3_f64, 1..30), scale in 1e-3..1e6_f64) {
            let scaled: Vec<f64> = values.iter().map(|v| v * scale).collect();
            let (one, other) = (partition(&series(&values)).unwrap(), partition(&series(&scaled)).unwrap());
            prop_assert!((one.bits - other.bits).abs() < 1e-6);
        }
    }
}
