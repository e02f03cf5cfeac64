//! The order of measurements, chosen so that a drift of the machine affects all of them alike.
//!
//! Every order comes from a seed that is recorded with the run. It knows nothing about what it
//! orders.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A small, fast, well-known generator (SplitMix64, Steele, Lea, Flood 2014): orders need no better
/// one.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    /// Returns a generator that depends only on this seed.
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a permutation of `0..n` (Fisher and Yates; the bias of the modulo is below n /
    /// 2^64).
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut items: Vec<usize> = (0..n).collect();
        for last in (1..n).rev() {
            items.swap(last, (self.next_u64() % (last as u64 + 1)) as usize);
        }
        items
    }
}

/// Returns randomised complete blocks: every block holds each of `0..items` once, in its own order.
/// Blocks are created lazily.
pub fn blocks(items: usize, blocks: usize, seed: u64) -> impl Iterator<Item = Vec<usize>> {
    let mut random = Random::new(seed);
    (0..blocks).map(move |_| random.permutation(items))
}

/// Returns one balanced block of slices: a permutation and its mirror image (A B B A, or C A B B A
/// C).
///
/// Every item's two slices are symmetric around the block's middle, so a linear drift cancels
/// exactly.
pub fn mirrored(items: usize, random: &mut Random) -> Vec<usize> {
    let forward = random.permutation(items);
    forward
        .iter()
        .chain(forward.iter().rev())
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_complete_and_repeatable() {
        let plan: Vec<_> = blocks(7, 100, 42).collect();
        assert!(plan.iter().cloned().eq(blocks(7, 100, 42)));
        assert!(!plan.iter().cloned().eq(blocks(7, 100, 43)));
        // blocks are only created on demand, however many there are
        assert_eq!(blocks(7, usize::MAX, 42).next(), Some(plan[0].clone()));
        for block in &plan {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..7).collect::<Vec<_>>());
        }
        // each item is first about equally often: 100/7, binomial spread 3.5
        for item in 0..7 {
            let first = plan.iter().filter(|block| block[0] == item).count();
            assert!((4..=28).contains(&first), "{item}: {first}");
        }
    }

    #[test]
    fn a_linear_drift_cancels_in_a_mirrored_block() {
        let mut random = Random::new(1);
        for items in 1..6 {
            let block = mirrored(items, &mut random);
            for item in 0..items {
                let positions: usize = block
                    .iter()
                    .enumerate()
                    .filter(|&(_, &i)| i == item)
                    .map(|(at, _)| at)
                    .sum();
                assert_eq!(positions, 2 * items - 1, "{block:?}");
            }
        }
    }
}
