//! Groups of positive readings that are far apart: levels between which a machine jumps.
//!
//! Density clustering in one dimension, on logarithms: the readings determine the number of groups,
//! and a continuum is one group however wide it is. The caller interprets the groups. Start at
//! [`clusters`].

use crate::sample::Sample;

/// Two readings are neighbours if the larger is at most this many times the smaller. Readings of
/// one level scatter by less than that, and closer levels are not worth separating.
pub const NEIGHBOURS: f64 = 1.15;

/// A reading belongs to a group if at least this share of all readings, and at least [`FEWEST`],
/// are its neighbours; otherwise it is a stray, for example one taken during a jump.
const DENSE_SHARE: f64 = 0.02;
const FEWEST: usize = 3;

/// A group holds at least this share of the readings; smaller groups are strays that happen to
/// agree.
const MIN_SHARE: f64 = 0.03;

/// Minimum number of readings.
pub const MIN_CLUSTERED: usize = 20;

/// One group of readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// Its smallest reading.
    pub low: f64,
    /// Its median.
    pub centre: f64,
    /// Its largest reading.
    pub high: f64,
    /// Share of all readings, 0 to 1.
    pub share: f64,
}

impl Cluster {
    /// Returns true if the reading belongs to this group, or is a neighbour of one that does.
    pub fn contains(&self, reading: f64) -> bool {
        // groups are more than NEIGHBOURS apart, so half of that (on a log scale) on either side
        // keeps them disjoint
        let half = NEIGHBOURS.sqrt();
        reading * half >= self.low && reading <= self.high * half
    }
}

/// Returns the groups of the readings, lowest first; none if there are fewer than [`MIN_CLUSTERED`]
/// readings, or if one is not positive.
pub fn clusters(readings: &Sample) -> Vec<Cluster> {
    let (sorted, n) = (readings.sorted(), readings.n());
    if n < MIN_CLUSTERED || readings.min() <= 0.0 {
        return Vec::new();
    }
    let dense = FEWEST.max((DENSE_SHARE * n as f64).ceil() as usize);
    let is_dense = |value: f64| {
        let below = sorted.partition_point(|v| *v < value / NEIGHBOURS);
        let up_to = sorted.partition_point(|v| *v <= value * NEIGHBOURS);
        up_to - below > dense
    };
    let kept: Vec<f64> = sorted.iter().copied().filter(|v| is_dense(*v)).collect();
    kept.chunk_by(|a, b| *b <= a * NEIGHBOURS)
        .filter(|group| group.len() as f64 >= MIN_SHARE * n as f64)
        .map(|group| Cluster {
            low: group[0],
            centre: crate::sample::median_of_sorted(group),
            high: group[group.len() - 1],
            share: group.len() as f64 / n as f64,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Readings around levels: for each level its number of readings, within `scatter` of it,
    /// unordered.
    fn around(levels: &[(f64, usize)], scatter: f64) -> Sample {
        let mut random = SplitMix64::new(11);
        let mut unit = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut readings: Vec<f64> = levels
            .iter()
            .flat_map(|&(level, count)| vec![level; count])
            .map(|level| level * (1.0 + scatter * (2.0 * unit() - 1.0)))
            .collect();
        readings.sort_by(|a, b| (a * 7919.0 % 1.0).total_cmp(&(b * 7919.0 % 1.0)));
        Sample::new(readings).unwrap()
    }

    /// The levels of dataplane.md §10, in very different shares.
    #[test]
    fn levels_are_found_however_many_there_are() {
        let three = clusters(&around(&[(45.0, 40), (118.0, 800), (475.0, 160)], 0.12));
        let centres: Vec<f64> = three.iter().map(|c| c.centre.round()).collect();
        assert_eq!(three.len(), 3, "{three:?}");
        for (centre, level) in centres.iter().zip([45.0, 118.0, 475.0]) {
            assert!((centre / level - 1.0).abs() < 0.06, "{centres:?}");
        }
        assert!((three[1].share - 0.8).abs() < 0.01);
        assert!(three[0].contains(41.0) && !three[0].contains(118.0) && !three[1].contains(300.0));
        assert_eq!(clusters(&around(&[(118.0, 100)], 0.12)).len(), 1);
        assert_eq!(clusters(&around(&[(60.0, 50), (90.0, 50)], 0.05)).len(), 2);
    }

    #[test]
    fn a_continuum_is_one_group() {
        assert_eq!(clusters(&around(&[(100.0, 1000)], 0.6)).len(), 1);
        assert_eq!(
            clusters(&around(&[(100.0, 500), (125.0, 500)], 0.12)).len(),
            1
        );
    }

    #[test]
    fn strays_are_no_group_and_join_none() {
        let mut readings = around(&[(118.0, 100), (475.0, 100)], 0.05)
            .sorted()
            .to_vec();
        readings.extend([200.0, 210.0, 290.0]);
        let two = clusters(&Sample::new(readings).unwrap());
        assert_eq!(two.len(), 2, "{two:?}");
        assert!(two.iter().all(|c| !c.contains(210.0)), "{two:?}");
    }

    #[test]
    fn few_or_impossible_readings_give_none() {
        assert!(clusters(&around(&[(118.0, 19)], 0.05)).is_empty());
        let with_zero = [vec![118.0; 40], vec![0.0]].concat();
        assert!(clusters(&Sample::new(with_zero).unwrap()).is_empty());
    }
}
