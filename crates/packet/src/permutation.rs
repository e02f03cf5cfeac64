//! In which order the members of a numbered set are visited, without a table: number n of the visit is computed from n
//! alone.
//!
//! For sets of any size, as the [`modifier`](crate::modifier)s of a stream span them; the flow sets of the fixed UDP frame have a
//! cheaper [`walk`](crate::walk). Start with [`Visits`].

/// In which order the members 0 to `len - 1` are visited.
///
/// Record the seed: it decides the order, together with the number of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visits {
    /// 0, 1, 2, ..., round after round.
    Sequential,
    /// A pseudo-random permutation, the same in every round.
    Shuffled {
        /// Any number.
        seed: u64,
    },
    /// Another pseudo-random permutation in every round: random, and yet every member once per round.
    Reshuffled {
        /// Any number.
        seed: u64,
    },
    /// Drawn with replacement: after one round of `len` visits only 63.2 % of a large set have been seen.
    Random {
        /// Any number.
        seed: u64,
    },
}

impl Visits {
    /// The member that visit `n` of a set of `len` members goes to.
    ///
    /// # Panics
    /// When `len` is 0.
    #[inline]
    pub fn member(self, n: u64, len: u64) -> u64 {
        match self {
            Visits::Sequential => reduce(n, len),
            Visits::Shuffled { seed } => permute(reduce(n, len), len, seed),
            Visits::Reshuffled { seed } => permute(n % len, len, mix(seed, n / len)),
            Visits::Random { seed } => scale(mix(seed, n), len),
        }
    }
}

/// `n % len`, without a division where there is nothing to divide.
#[inline]
fn reduce(n: u64, len: u64) -> u64 {
    if n < len { n } else { n % len }
}

/// The number that takes the place of `index` in a pseudo-random permutation of 0 to `len - 1`.
///
/// A Feistel network over the next power of two, walked until the result is in range: at most half of the domain is
/// out of it, so two evaluations on average suffice (Black and Rogaway 2002, "cycle walking").
#[inline]
pub fn permute(index: u64, len: u64, seed: u64) -> u64 {
    debug_assert!(index < len);
    let bits = u64::BITS - (len - 1).leading_zeros();
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

/// A round's function. One multiplication: with the better [`mix`] in its place a frame of a shuffled set took 59 ns
/// instead of 44 (benches/frame.rs, on a vCPU).
#[inline]
fn hash(key: u64, half: u64) -> u64 {
    let z = (half ^ key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z << 29)) >> 32
}

/// So many low bits.
fn mask(bits: u32) -> u64 {
    (1_u64 << bits) - 1
}

/// A number that depends on both and looks like neither: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
#[inline]
pub(crate) fn mix(seed: u64, n: u64) -> u64 {
    let z = seed
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(n.wrapping_mul(0xd134_2543_de82_ef95));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Takes 64 random bits to 0 to `len - 1`, by multiplication; uneven by at most one part in 2^64 / `len`.
#[inline]
pub(crate) fn scale(random: u64, len: u64) -> u64 {
    ((u128::from(random) * u128::from(len)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn all_small_permutations_are_permutations() {
        for len in 1..300 {
            for seed in 0..5 {
                let visited: HashSet<u64> = (0..len).map(|n| permute(n, len, seed)).collect();
                assert!(visited.len() as u64 == len && visited.iter().all(|n| *n < len));
            }
        }
    }

    #[test]
    fn random_sees_63_percent_in_a_round() {
        let visits = Visits::Random { seed: 1 };
        let seen: HashSet<u64> = (0..10_000).map(|n| visits.member(n, 10_000)).collect();
        // 1 - 1/e, with ten standard deviations (0.31 % each, sqrt(e^-1 - 2e^-2) / 100)
        assert!((6010..6630).contains(&seen.len()), "{}", seen.len());
    }

    #[test]
    fn shuffled_is_no_stride_and_reshuffled_changes() {
        let order = |visits: Visits, from: u64| -> Vec<u64> {
            (from..from + 1000)
                .map(|n| visits.member(n, 1000))
                .collect()
        };
        let shuffled = order(Visits::Shuffled { seed: 3 }, 0);
        assert_eq!(shuffled, order(Visits::Shuffled { seed: 3 }, 5000));
        let steps: HashSet<u64> = shuffled
            .windows(2)
            .map(|w| (w[1] + 1000 - w[0]) % 1000)
            .collect();
        // 999 random steps out of 1000 have some 632 different values.
        assert!((580..690).contains(&steps.len()), "{}", steps.len());
        let reshuffled = Visits::Reshuffled { seed: 3 };
        assert_ne!(order(reshuffled, 0), order(reshuffled, 1000));
        assert_ne!(shuffled, order(Visits::Shuffled { seed: 4 }, 0));
    }

    proptest! {
        #[test]
        fn every_round_visits_every_member_once(len in 1..3000_u64, seed: u64, round in 0..1_000_000_u64) {
            for visits in [Visits::Sequential, Visits::Shuffled { seed }, Visits::Reshuffled { seed }] {
                let visited: HashSet<u64> =
                    (round * len..(round + 1) * len).map(|n| visits.member(n, len)).collect();
                prop_assert!(visited.len() as u64 == len && visited.iter().all(|n| *n < len));
            }
        }

        #[test]
        fn the_largest_sets(len in 1 << 62..u64::MAX, n: u64, seed: u64) {
            let (a, b) = (permute(n % len, len, seed), permute((n ^ 1) % len, len, seed));
            prop_assert!(a < len && b < len && (a != b || n % len == (n ^ 1) % len));
            let random = Visits::Random { seed };
            prop_assert!(random.member(n, len) < len);
        }
    }
}
