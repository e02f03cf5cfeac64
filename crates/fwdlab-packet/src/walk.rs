//! Walks: the order in which the flows of a set are sent.
//!
//! Every [`Order`] sends every flow equally often; a generator that skips some makes tests of state
//! tables wrong. Not for picking flows with replacement, which reaches only 63 % of them in a
//! round. Start with [`FlowSet::walk`], which returns a [`Walk`].

use crate::flow::{Digits, Flow, FlowSet};
use crate::permutation::split_mix;

/// The order in which the flows of a set are sent. In both orders, every flow comes once per round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// 0, 1, 2, ...
    Sequential,
    /// A fixed permutation that depends on the seed alone (and on the number of flows). Record the
    /// seed.
    Shuffled {
        /// Any number.
        seed: u64,
    },
}

/// An endless walk through a flow set: frame n carries flow `(offset + n * step) mod len`.
///
/// The step shares no factor with `len`, so each round of `len` frames, wherever it starts, carries
/// every flow exactly once. In [`Order::Sequential`] offset and step are 0 and 1.
///
/// In [`Order::Shuffled`] both come from the seed, and the step is chosen so that frames close in
/// time are far apart in number: all partial quotients of `step / len` (the quotients of Euclid's
/// algorithm) are at most [`MAX_QUOTIENT`], hence any two of w consecutive frames are more than
/// `len / (10 * w)` apart, modulo `len`. A step near len/2 or len/3 would be coprime as well, but
/// would interleave a few sequential runs. The walk is still a stride, not a random permutation:
/// within each dimension it moves regularly.
///
/// Note: a pseudo-random permutation (an LCG over a power of two that skips numbers beyond the set)
/// was rejected. It keeps state, whereas here a second sender thread, a checking receiver or a BPF
/// program computes the flow of frame n from n alone, with one 64-bit multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    flows: FlowSet,
    offset: u64,
    step: u64,
    digits: Digits,
    step_digits: Digits,
}

/// Bound on the quotients described at [`Walk`].
///
/// Zaremba's conjecture says that 5 allows a step for every length; 8 leaves a choice for the seed.
pub const MAX_QUOTIENT: u64 = 8;

impl Walk {
    pub(crate) fn new(flows: FlowSet, order: Order) -> Walk {
        let len = flows.len();
        let (offset, step) = match order {
            Order::Sequential => (0, 1),
            Order::Shuffled { seed } => {
                let random = split_mix(seed);
                (random % len, step(len, random))
            }
        };
        Walk {
            flows,
            offset,
            step,
            digits: flows.digits(offset),
            step_digits: flows.digits(step % len),
        }
    }

    /// Returns the walk of one of several senders: its frame n carries the flow of frame
    /// `first + n * every` of this walk.
    #[must_use]
    pub fn every(self, first: u64, every: u64) -> Walk {
        let len = self.flows.len();
        // fits: all three are less than 2^32
        let step = self.step * (every % len) % len;
        Walk {
            offset: self.index(first),
            step,
            digits: self.flows.digits(self.index(first)),
            step_digits: self.flows.digits(step),
            ..self
        }
    }

    /// Returns the number of the flow that frame `n` carries.
    pub fn index(&self, n: u64) -> u64 {
        let len = self.flows.len();
        // Fits: all three are less than 2^32.
        (self.offset + n % len * self.step) % len
    }

    /// Returns the flow of frame 0.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the distance in flow numbers from frame to frame, modulo the number of flows.
    pub fn step(&self) -> u64 {
        self.step
    }
}

impl Iterator for Walk {
    type Item = Flow;

    /// Returns the next frame's flow; never `None`.
    #[inline]
    fn next(&mut self) -> Option<Flow> {
        let flow = self.flows.at(self.digits);
        // Add the step digit by digit. Dropping the carry out of the last digit is the modulo.
        let mut carry = 0;
        for ((digit, step), count) in self
            .digits
            .iter_mut()
            .zip(self.step_digits)
            .zip(self.flows.counts())
        {
            let sum = *digit + step + carry;
            carry = u64::from(sum >= count);
            *digit = if sum >= count { sum - count } else { sum };
        }
        Some(flow)
    }
}

/// Returns a step through `len` flows as described at [`Walk`]: the first good one of a random
/// sequence.
///
/// One number in 8 is good for 2000 flows, one in 300 near 2^32 (counted), so the draws do not run
/// out. (Trying neighbours of a single draw instead can take 2^28 tries: all numbers below len/9
/// are bad.)
fn step(len: u64, random: u64) -> u64 {
    (1..10_000)
        .map(|draw| split_mix(random.wrapping_add(draw)) % len)
        .find(|step| spreads(len, *step))
        .unwrap_or(1)
}

/// Returns true if the step is coprime with `len` and has only small quotients. Euclid's algorithm
/// answers both.
fn spreads(len: u64, step: u64) -> bool {
    let (mut a, mut b) = (len, step);
    while b != 0 {
        if a / b > MAX_QUOTIENT {
            return false;
        }
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::tests::any_set;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn every_length_has_a_step_that_spreads() {
        for len in 3..3000 {
            let step = step(len, len);
            assert!(spreads(len, step), "{step} of {len}");
        }
    }

    #[test]
    fn shuffled_neighbours_are_far_apart() {
        for flows in [100, 2000, 10_007] {
            let walk = FlowSet::default_v4(flows)
                .unwrap()
                .walk(Order::Shuffled { seed: 5 });
            for apart in 1..20 {
                let distance = walk.index(apart).abs_diff(walk.index(0));
                let distance = distance.min(u64::from(flows) - distance);
                assert!(
                    10 * apart * distance > u64::from(flows),
                    "{apart} of {flows}"
                );
            }
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let set = FlowSet::default_v4(2000).unwrap();
        let walk = |seed| set.walk(Order::Shuffled { seed });
        assert_eq!(walk(1), walk(1));
        let steps: HashSet<u64> = (0..100).map(|seed| walk(seed).step()).collect();
        let offsets: HashSet<u64> = (0..100).map(|seed| walk(seed).offset()).collect();
        assert!(steps.len() > 50 && offsets.len() > 90);
    }

    fn any_order() -> impl Strategy<Value = Order> {
        prop_oneof![
            Just(Order::Sequential),
            any::<u64>().prop_map(|seed| Order::Shuffled { seed })
        ]
    }

    proptest! {
        #[test]
        fn every_round_has_every_flow_once(
            set in any_set(),
            order in any_order(),
            start in 0..u64::MAX,
        ) {
            let round = usize::try_from(set.len()).unwrap();
            let mut walk = set.walk(order).every(start, 1);
            for _ in 0..2 {
                let flows: HashSet<Flow> = walk.by_ref().take(round).collect();
                prop_assert_eq!(flows.len(), round);
            }
        }

        #[test]
        fn walking_is_indexing(set in any_set(), order in any_order(), start in 0..u64::MAX - 3000) {
            let walk = set.walk(order);
            for (n, flow) in (start..).zip(walk.every(start, 1)).take(3000) {
                prop_assert_eq!(flow, set.flow(walk.index(n)));
            }
        }

        #[test]
        fn several_senders_walk_as_one(
            set in any_set(), order in any_order(), first in 0..u64::MAX, senders in 1..20_u64,
        ) {
            let whole = set.walk(order);
            let own = whole.every(first, senders);
            let walked: Vec<Flow> = own.take(300).collect();
            for (n, flow) in (0..).zip(walked) {
                let frame = (u128::from(first) + u128::from(n * senders)) % u128::from(set.len());
                prop_assert_eq!(flow, set.flow(whole.index(frame as u64)));
                prop_assert_eq!(own.index(n), whole.index(frame as u64));
            }
        }

        #[test]
        fn the_largest_sets_do_not_overflow(seed in any::<u64>(), n in any::<u64>()) {
            let walk = FlowSet::default_v4(65_535 * 65_536).unwrap().walk(Order::Shuffled { seed });
            let expect = (u128::from(walk.offset()) + u128::from(n) * u128::from(walk.step()))
                % (65_535 * 65_536);
            prop_assert_eq!(u128::from(walk.index(n)), expect);
        }
    }
}
