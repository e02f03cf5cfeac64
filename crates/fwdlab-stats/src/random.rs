//! A small seeded random generator for resampling.

use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014). The caller
/// supplies and records the seed, so every result is reproducible.
pub(crate) struct SplitMix64(rand_xoshiro::SplitMix64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeedableRng::seed_from_u64(seed))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`. The bias of the product is `bound / 2^64`, negligible for an index.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the reference implementation (prng.di.unimi.it) for seed 1234567.
    #[test]
    fn reference_outputs() {
        let mut random = SplitMix64::new(1_234_567);
        let outputs: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        assert_eq!(
            outputs,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut random = SplitMix64::new(1);
        let mut seen = [0_u32; 7];
        for _ in 0..7000 {
            seen[random.below(7)] += 1;
        }
        assert!(
            seen.iter().all(|count| (850..1150).contains(count)),
            "{seen:?}"
        );
    }
}
