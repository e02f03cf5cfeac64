//! Seeded random numbers, and the two distributions that a DUT needs.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Up to this number of expected losses they are drawn one by one; beyond, a normal distribution is
/// accurate to 1 %.
const DRAWN_SINGLY: f64 = 1000.0;

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(SplitMix64);

impl Random {
    /// Returns sequence `number` of this seed.
    pub fn new(seed: u64, number: u64) -> Random {
        // consecutive numbers must not give the same sequence shifted by one step
        let first = |seed| SplitMix64::seed_from_u64(seed).next_u64();
        let start = first(seed) ^ first(number.wrapping_mul(0xd134_2543_de82_ef95));
        Random(SplitMix64::seed_from_u64(start))
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number above 0 and at most 1.
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns a standard normal number (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Returns how many of `n` events happen, each with this probability.
    pub fn binomial(&mut self, n: u64, probability: f64) -> u64 {
        if probability <= 0.0 {
            return 0;
        }
        let mean = n as f64 * probability;
        if mean > DRAWN_SINGLY {
            let drawn = mean + self.normal() * (mean * (1.0 - probability)).sqrt();
            return (drawn.round().max(0.0) as u64).min(n);
        }
        // the number of steps from one event to the next is geometric
        let per_step = (-probability).ln_1p();
        let (mut at, mut events) = (0, 0);
        loop {
            // a cast from float saturates
            let gap = (self.unit().ln() / per_step) as u64;
            at = u64::saturating_add(at, gap).saturating_add(1);
            if at > n {
                return events;
            }
            events += 1;
        }
    }
}
