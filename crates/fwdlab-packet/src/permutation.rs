//! The order in which the members of a numbered set are visited: the number of a visit determines
//! the member.
//!
//! For sets of any size, as the [`modifier`](crate::modifier)s of a stream span them; the flow sets
//! of the fixed UDP frame have a cheaper [`walk`](crate::walk). Start with [`Visits`]; it creates a
//! [`PermutationWalk`].

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use std::sync::Arc;

/// The order in which the members 0 to `len - 1` are visited.
///
/// Record the seed: seed and number of members determine the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Visits {
    /// 0, 1, 2, ..., round after round.
    Sequential,
    /// A pseudo-random permutation, the same in every round.
    Shuffled {
        /// Any number.
        seed: u64,
    },
    /// A different pseudo-random permutation in every round: random, but every member comes once
    /// per round.
    Reshuffled {
        /// Any number.
        seed: u64,
    },
    /// Drawn with replacement: after one round of `len` visits only 63.2 % of a large set have been
    /// seen.
    Random {
        /// Any number.
        seed: u64,
    },
}

impl Visits {
    /// Returns a tour of a set of `len` members, from the first visit on.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn tour(self, len: u64) -> PermutationWalk {
        assert!(len > 0, "an empty set cannot be visited");
        let tables = match self {
            Visits::Shuffled { seed } if len <= MOST_BY_TABLES => {
                Some(Arc::new(Tables::new(len, seed)))
            }
            _ => None,
        };
        PermutationWalk {
            visits: self,
            len,
            n: 0,
            round: 0,
            tables,
        }
    }
}

/// The state of a tour: knows the next visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermutationWalk {
    visits: Visits,
    len: u64,
    /// The number of the next visit in its round; for [`Visits::Random`], which has no rounds,
    /// since the first.
    n: u64,
    /// The number of the round, if rounds differ.
    round: u64,
    tables: Option<Arc<Tables>>,
}

impl PermutationWalk {
    /// Makes one visit for each element of `members`, and advances by `stride` visits after each.
    #[inline]
    pub fn visit(&mut self, stride: u64, members: &mut [u64]) {
        // Move the tables out instead of cloning the `Arc`: counting another reference takes as
        // long as a frame.
        let tables = self.tables.take();
        match (self.visits, &tables) {
            (Visits::Sequential, _) => self.visit_by(stride, members, |tour| tour.n),
            (Visits::Shuffled { .. }, Some(tables)) => {
                let end = self.n.checked_add(members.len() as u64);
                if stride == 1 && end.is_some_and(|end| end < self.len) {
                    tables.permute_all(self.n, self.len, members);
                    self.n += members.len() as u64;
                } else {
                    self.visit_by(stride, members, |tour| tables.permute(tour.n, tour.len));
                }
            }
            (Visits::Shuffled { seed }, None) => {
                self.visit_by(stride, members, |tour| permute(tour.n, tour.len, seed));
            }
            (Visits::Reshuffled { seed }, _) => self.visit_by(stride, members, |tour| {
                permute(tour.n, tour.len, mix(seed, tour.round))
            }),
            (Visits::Random { seed }, _) => {
                self.visit_by(stride, members, |tour| scale(mix(seed, tour.n), tour.len));
            }
        }
        self.tables = tables;
    }

    #[inline]
    fn visit_by(
        &mut self,
        stride: u64,
        members: &mut [u64],
        member: impl Fn(&PermutationWalk) -> u64,
    ) {
        for place in members {
            *place = member(self);
            self.advance(stride);
        }
    }

    /// Returns the same tour, back at its first visit.
    pub fn restarted(&self) -> PermutationWalk {
        let (n, round) = (0, 0);
        let tables = self.tables.clone();
        PermutationWalk {
            n,
            round,
            tables,
            ..*self
        }
    }

    /// Returns true if the visits are the same, regardless of the current positions.
    pub fn is_like(&self, other: &PermutationWalk) -> bool {
        (self.visits, self.len) == (other.visits, other.len)
    }

    /// Returns the number of the next visit in its round.
    #[inline]
    pub fn place(&self) -> u64 {
        self.n
    }

    /// Returns the next member, if each visit leads to the following member and the last one is not
    /// reached.
    #[inline]
    pub fn in_sequence(&self, stride: u64) -> Option<u64> {
        (self.visits == Visits::Sequential && stride == 1).then_some(self.n)
    }

    /// Returns the number of visits after which they repeat, if they ever do.
    pub fn period(&self) -> Option<u64> {
        match self.visits {
            Visits::Sequential | Visits::Shuffled { .. } => Some(self.len),
            Visits::Reshuffled { .. } | Visits::Random { .. } => None,
        }
    }

    /// Advances by `visits` visits.
    #[inline]
    pub fn advance(&mut self, visits: u64) {
        let left = self.len.saturating_sub(self.n);
        if visits < left {
            self.n += visits;
        } else if matches!(self.visits, Visits::Random { .. }) {
            self.n = self.n.wrapping_add(visits);
        } else {
            let beyond = visits - left;
            self.n = beyond % self.len;
            self.round = self.round.wrapping_add(1 + beyond / self.len);
        }
    }
}

/// A permutation from two tables, so fast that a frame of a shuffled set takes hardly longer than
/// one of a sequential set (benches/frame.rs).
///
/// A number is split in two parts, high and low; small numbers are all high. The first table
/// rotates the high part by an amount that depends on the low part; the second replaces the high
/// part, and changes the low part by a pattern that depends on the high part. Each step is
/// invertible, so their composition is a permutation. Its domain is slightly larger than the set,
/// and is walked until the result is in range, as in [`permute`].
///
/// Note: one multiplication instead of each look-up (a Feistel network of three rounds) took longer
/// and was visibly regular; mixing by xor, shift and multiplication needs a power of two, and
/// walking half of it costs a mispredicted branch per frame.
#[derive(Debug, PartialEq, Eq)]
struct Tables {
    low_bits: u32,
    /// Rotations, indexed by low part.
    turns: Box<[u32]>,
    /// Indexed by high part: its replacement, shifted into place, and the pattern for the low part.
    places: Box<[u32]>,
}

/// The largest set that is shuffled by [`Tables`]. They take 128 kB then: more would evict frames
/// from the cache.
const MOST_BY_TABLES: u64 = 1 << 28;

/// The number of members computed at once if their low parts are consecutive.
const ROW: usize = 32;

/// High parts have at least this number of bits: 2048 entries of 4 bytes fit the L1 cache several
/// times. Smaller sets have one table entry per member, and their order is as random as possible;
/// with 32 by 32 for 1000 it was not.
const HIGH_BITS: u32 = 11;

impl Tables {
    fn new(len: u64, seed: u64) -> Tables {
        let bits = bits(len);
        let low_bits = bits.saturating_sub(HIGH_BITS).min(bits / 2);
        let high_count = len.div_ceil(1 << low_bits);
        let turns = (0..1 << low_bits).map(|low| scale(mix(seed, low), high_count) as u32);
        let mut highs: Vec<u32> = (0..high_count as u32).collect();
        // Fisher-Yates shuffle
        for last in (1..highs.len()).rev() {
            let other = scale(mix(!seed, last as u64), last as u64 + 1);
            highs.swap(last, other as usize);
        }
        let pattern = |high: u32| mix(seed ^ !seed << 32, high.into()) & mask(low_bits);
        Tables {
            low_bits,
            turns: turns.collect(),
            places: highs
                .iter()
                .map(|high| high << low_bits | pattern(*high) as u32)
                .collect(),
        }
    }

    /// Computes the members of the visits from number `index` on; none of them may be beyond the
    /// round.
    fn permute_all(&self, mut index: u64, len: u64, mut members: &mut [u64]) {
        let mut room = [0; ROW];
        while !members.is_empty() {
            let low = (index & mask(self.low_bits)) as usize;
            let turns = &self.turns[low..];
            let row = members.len().min(turns.len()).min(ROW);
            let (these, rest) = members.split_at_mut(row);
            if self.step_row(index, &turns[..row], &mut room[..row], these) >= len {
                for member in these.iter_mut().filter(|member| **member >= len) {
                    *member = self.permute(*member, len);
                }
            }
            (index, members) = (index + row as u64, rest);
        }
    }

    /// Applies [`step`](Self::step) to consecutive numbers with the same high part; returns the
    /// largest member. In three loops, of which the first and the last vectorise.
    fn step_row(&self, index: u64, turns: &[u32], steps: &mut [u32], members: &mut [u64]) -> u64 {
        let (from, count) = ((index >> self.low_bits) as u32, self.places.len() as u32);
        for (high, turn) in steps.iter_mut().zip(turns) {
            let turned = from + turn;
            *high = if turned < count {
                turned
            } else {
                turned - count
            };
        }
        for step in steps.iter_mut() {
            *step = self.places[*step as usize];
        }
        let low = (index & mask(self.low_bits)) as u32;
        // Signed, because every vector unit can compare signed integers; the numbers are small
        // enough.
        let mut largest = 0_i32;
        for ((member, step), low) in members.iter_mut().zip(steps).zip(low..) {
            let number = *step ^ low;
            largest = largest.max(number as i32);
            *member = number.into();
        }
        largest as u64
    }

    #[inline]
    fn permute(&self, index: u64, len: u64) -> u64 {
        let mut x = index;
        loop {
            x = self.step(x);
            if x < len {
                return x;
            }
        }
    }

    #[inline]
    fn step(&self, x: u64) -> u64 {
        let low = x & mask(self.low_bits);
        let turned = (x >> self.low_bits) as usize + self.turns[low as usize] as usize;
        let high = turned.min(turned.wrapping_sub(self.places.len()));
        u64::from(self.places[high]) ^ low
    }
}

/// Returns the number of bits of the numbers below `len`.
fn bits(len: u64) -> u32 {
    u64::BITS - (len - 1).leading_zeros()
}

/// Returns the number at position `index` in a pseudo-random permutation of 0 to `len - 1`.
///
/// A Feistel network over the next power of two, walked until the result is in range: at most half
/// of the domain is outside, so two evaluations on average suffice (Black and Rogaway 2002, "cycle
/// walking").
#[inline]
pub fn permute(index: u64, len: u64, seed: u64) -> u64 {
    debug_assert!(index < len);
    let bits = bits(len);
    if bits == 0 {
        return 0;
    }
    let low_bits = bits / 2;
    let (low_mask, high_mask) = (mask(low_bits), mask(bits - low_bits));
    let mut x = index;
    loop {
        let (mut low, mut high) = (x & low_mask, x >> low_bits);
        for round in 0..ROUNDS {
            let key = seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            high ^= hash(key, low) & high_mask;
            low ^= hash(!key, high) & low_mask;
        }
        x = high << low_bits | low;
        if x < len {
            return x;
        }
    }
}

/// Pairs of Feistel rounds. Luby and Rackoff need four single rounds; these are six.
const ROUNDS: u64 = 3;

/// The round function, with one multiplication: [`mix`] has two, and takes half as long again.
#[inline]
fn hash(key: u64, half: u64) -> u64 {
    let z = (half ^ key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z << 29)) >> 32
}

/// Returns a mask of the lowest `bits` bits.
fn mask(bits: u32) -> u64 {
    (1_u64 << bits) - 1
}

/// Mixes both numbers into one that looks like neither.
#[inline]
pub fn mix(seed: u64, n: u64) -> u64 {
    split_mix(seed.wrapping_add(n.wrapping_mul(0xd134_2543_de82_ef95)))
}

/// Returns the first output of SplitMix64 (Steele, Lea, Flood 2014) for a seed.
#[inline]
pub(crate) fn split_mix(seed: u64) -> u64 {
    SplitMix64::seed_from_u64(seed).next_u64()
}

/// Scales 64 random bits to 0 to `len - 1`, by multiplication; uneven by at most one part in 2^64 /
/// `len`.
#[inline]
pub(crate) fn scale(random: u64, len: u64) -> u64 {
    ((u128::from(random) * u128::from(len)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Returns the members of `count` visits, from visit `first` on.
    fn members(visits: Visits, len: u64, first: u64, count: usize) -> Vec<u64> {
        let (mut tour, mut members) = (visits.tour(len), vec![0; count]);
        tour.advance(first);
        // in two parts, as callers may
        let (some, others) = members.split_at_mut(count / 3);
        tour.visit(1, some);
        tour.visit(1, others);
        members
    }

    fn is_permutation(visited: impl Iterator<Item = u64>, len: u64) -> bool {
        let visited: HashSet<u64> = visited.collect();
        visited.len() as u64 == len && visited.iter().all(|n| *n < len)
    }

    #[test]
    fn all_small_permutations_are_permutations() {
        for len in 1..300 {
            for seed in 0..5 {
                assert!(is_permutation((0..len).map(|n| permute(n, len, seed)), len));
                let tables = Tables::new(len, seed);
                assert!(is_permutation(
                    (0..len).map(|n| tables.permute(n, len)),
                    len
                ));
            }
        }
    }

    #[test]
    fn random_sees_63_percent_in_a_round() {
        let visited = members(Visits::Random { seed: 1 }, 10_000, 0, 10_000);
        let seen: HashSet<u64> = visited.into_iter().collect();
        // 1 - 1/e, with ten standard deviations (0.31 % each, sqrt(e^-1 - 2e^-2) / 100)
        assert!((6010..6630).contains(&seen.len()), "{}", seen.len());
    }

    #[test]
    fn shuffled_repeats_and_reshuffled_changes() {
        let order = |visits: Visits, from: u64| members(visits, 1000, from, 1000);
        let shuffled = order(Visits::Shuffled { seed: 3 }, 0);
        assert_eq!(shuffled, order(Visits::Shuffled { seed: 3 }, 5000));
        assert_ne!(shuffled, order(Visits::Shuffled { seed: 4 }, 0));
        let reshuffled = Visits::Reshuffled { seed: 3 };
        assert_ne!(order(reshuffled, 0), order(reshuffled, 1000));
    }

    #[test]
    fn shuffled_looks_random() {
        for len in [1000, 1024, 4099, 100_000] {
            for seed in 0..10 {
                let members = members(Visits::Shuffled { seed }, len, 0, len as usize);
                let steps = members.windows(2).map(|w| (w[1] + len - w[0]) % len);
                let different = steps.collect::<HashSet<u64>>().len() as f64 / len as f64;
                // 1 - 1/e of random steps are different, with five standard deviations (sqrt(e^-1 -
                // 2e^-2) each)
                let spread = 5.0 * 0.312 / (len as f64).sqrt();
                assert!(
                    (different - 0.632).abs() < spread,
                    "{len} {seed}: {different}"
                );
                // Neither the previous member nor the number of the visit predicts the member.
                let numbered = (0..len).zip(members.iter().copied()).collect();
                let apart = |visits: usize| -> Vec<(u64, u64)> {
                    members
                        .windows(visits + 1)
                        .map(|w| (w[0], w[visits]))
                        .collect()
                };
                let by_size = |n: u64| n * 8 / len;
                for (what, surprise) in [
                    ("numbers", surprise(numbered, by_size)),
                    ("neighbours", surprise(apart(1), by_size)),
                    ("next but one", surprise(apart(2), by_size)),
                    ("low bits", surprise(apart(1), |n| n % 8)),
                ] {
                    // Chi-squared with at most 63 degrees of freedom: exceeds 140 once in 10
                    // million.
                    assert!(surprise < 140.0, "{len} {seed} {what}: {surprise}");
                }
            }
        }
    }

    /// Chi-squared of pairs of numbers, each assigned to one of 8 classes.
    fn surprise(pairs: Vec<(u64, u64)>, class: impl Fn(u64) -> u64) -> f64 {
        let mut classes = [[0.0_f64; 8]; 8];
        for (a, b) in &pairs {
            classes[class(*a) as usize][class(*b) as usize] += 1.0;
        }
        let expected = pairs.len() as f64 / 64.0;
        let squares = classes.iter().flatten().map(|n| (n - expected).powi(2));
        squares.sum::<f64>() / expected
    }

    proptest! {
        #[test]
        fn every_round_visits_every_member_once(len in 1..3000_u64, seed: u64, round in 0..1_000_000_u64) {
            for visits in [Visits::Sequential, Visits::Shuffled { seed }, Visits::Reshuffled { seed }] {
                let visited = members(visits, len, round * len, len as usize);
                prop_assert!(is_permutation(visited.into_iter(), len));
            }
        }

        /// Single visits lead to the same members as many visits at once.
        #[test]
        fn many_visits_at_once_are_the_same_visits(
            len in 1..5_000_000_u64, first: u64, seed: u64, parts in proptest::collection::vec(1..80_usize, 1..6),
        ) {
            let mut one_by_one = Visits::Shuffled { seed }.tour(len);
            one_by_one.advance(first);
            let mut at_once = one_by_one.clone();
            for part in parts {
                let mut members = vec![0; part];
                at_once.visit(1, &mut members);
                for member in members {
                    let mut expected = [0];
                    one_by_one.visit(0, &mut expected);
                    one_by_one.advance(1);
                    prop_assert_eq!(member, expected[0]);
                }
            }
        }

        #[test]
        fn the_largest_sets(len in 1 << 62..u64::MAX, n: u64, seed: u64) {
            let (a, b) = (permute(n % len, len, seed), permute((n ^ 1) % len, len, seed));
            prop_assert!(a < len && b < len && (a != b || n % len == (n ^ 1) % len));
            for visits in [
                Visits::Sequential,
                Visits::Shuffled { seed },
                Visits::Reshuffled { seed },
                Visits::Random { seed },
            ] {
                prop_assert!(members(visits, len, n, 9).iter().all(|member| *member < len));
            }
        }

        #[test]
        fn strides_and_advances_are_the_same_steps(
            len in 1..50_u64, n in 0..200_u64, stride in 0..99_u64, seed: u64,
        ) {
            for visits in [
                Visits::Sequential,
                Visits::Shuffled { seed },
                Visits::Reshuffled { seed },
                Visits::Random { seed },
            ] {
                let (mut tour, mut members_with_stride) = (visits.tour(len), [0; 3]);
                tour.advance(n);
                tour.visit(stride, &mut members_with_stride);
                let all = members(visits, len, 0, 500);
                let expected = [n, n + stride, n + 2 * stride].map(|visit| all[visit as usize]);
                prop_assert_eq!(members_with_stride, expected);
            }
        }
    }
}
