//! The order in which the frames of a stream arrive: duplicates, reordering and its extent, from
//! the last [`WINDOW`] numbers.
//!
//! Two bits for each number: whether it has arrived, and whether it ended a gap. For a number that
//! ended a gap, its position in the order of arrival is stored; if a frame from inside the gap
//! comes later, it is late by the number of frames since then. So a frame in order costs one bit,
//! and only the word being written is ever cleared. Start with [`Order`].

use super::WINDOW;

/// Numbers in one word.
const BITS: u64 = 64;

/// Twice the window, so that nothing in the window is overwritten.
const WORDS: usize = 2 * (WINDOW / BITS) as usize;

/// The numbers from 64 times `number` on.
#[derive(Debug, Clone, Copy, Default)]
struct BitmapWord {
    number: u64,
    seen: u64,
    gap_ends: u64,
}

/// Position of a frame relative to earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    InOrder,
    Reordered { extent: u64 },
    Duplicate,
    Older,
}

/// The state of a stream's order.
#[derive(Debug, Clone)]
pub(super) struct Order {
    next: u64,
    /// Frames so far, without duplicates and older ones.
    arrived: u64,
    words: Box<[BitmapWord]>,
    /// For a number that ended a gap, its position in the order of arrival; modulo 2^32.
    places: Box<[u32]>,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            next: 0,
            arrived: 0,
            words: vec![BitmapWord::default(); WORDS].into(),
            places: vec![0; WINDOW as usize].into(),
        }
    }
}

impl Order {
    /// Returns the next expected number (`NextExp` of RFC 4737).
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Classifies one more frame.
    pub(super) fn arrive(&mut self, number: u64) -> Arrival {
        let bit = 1 << (number % BITS);
        if number < self.next {
            if self.next - number > WINDOW {
                return Arrival::Older;
            }
            let word = self.word(number);
            if word.seen & bit != 0 {
                return Arrival::Duplicate;
            }
            word.seen |= bit;
            let extent = self.extent(number);
            self.arrived += 1;
            return Arrival::Reordered { extent };
        }
        let ends_gap = number > self.next;
        let word = self.word(number);
        word.seen |= bit;
        if ends_gap {
            word.gap_ends |= bit;
            self.places[(number % WINDOW) as usize] = self.arrived as u32;
        }
        self.next = number + 1;
        self.arrived += 1;
        Arrival::InOrder
    }

    fn word(&mut self, number: u64) -> &mut BitmapWord {
        let number = number / BITS;
        let word = &mut self.words[number as usize % WORDS];
        if word.number != number {
            *word = BitmapWord {
                number,
                ..BitmapWord::default()
            };
        }
        word
    }

    /// Returns how many frames arrived since the first one with a higher number: the one that ended
    /// the gap of `number`.
    fn extent(&self, number: u64) -> u64 {
        let first = number / BITS;
        let above = !1 << (number % BITS);
        for (word_number, mask) in (first..=first + WINDOW / BITS)
            .zip([above].into_iter().chain(std::iter::repeat(u64::MAX)))
        {
            let word = self.words[word_number as usize % WORDS];
            let ends = word.gap_ends & mask;
            if word.number == word_number && ends != 0 {
                let end = word_number * BITS + u64::from(ends.trailing_zeros());
                let place = self.places[(end % WINDOW) as usize];
                return u64::from((self.arrived as u32).wrapping_sub(place));
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 4737 by its definitions, over all frames so far: sections 3.3 and 4.2.2, and RFC 5560
    /// for duplicates.
    fn by_definition(numbers: &[u64]) -> Vec<Arrival> {
        let mut arrived: Vec<u64> = vec![];
        numbers
            .iter()
            .map(|&number| {
                let next = arrived.iter().max().map_or(0, |highest| highest + 1);
                if number + WINDOW < next {
                    return Arrival::Older;
                }
                if arrived.contains(&number) {
                    return Arrival::Duplicate;
                }
                let i = arrived.len();
                let arrival = if number >= next {
                    Arrival::InOrder
                } else {
                    let j = arrived.iter().position(|&other| other > number).unwrap();
                    Arrival::Reordered {
                        extent: (i - j) as u64,
                    }
                };
                arrived.push(number);
                arrival
            })
            .collect()
    }

    fn by_order(numbers: &[u64]) -> Vec<Arrival> {
        let mut order = Order::default();
        numbers.iter().map(|&number| order.arrive(number)).collect()
    }

    #[test]
    fn the_examples_of_rfc_4737() {
        // section 6.1: packet 4; 6.2: packets 5 and 6; 6.3: packets 4, 5 and 6
        for (numbers, extents) in [
            (&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10][..], &[4][..]),
            (&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10], &[1, 2]),
            (&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11], &[4, 5, 6]),
        ] {
            let found: Vec<u64> = by_order(numbers)
                .iter()
                .filter_map(|arrival| match arrival {
                    Arrival::Reordered { extent } => Some(*extent),
                    _ => None,
                })
                .collect();
            assert_eq!(found, extents);
        }
    }

    #[test]
    fn the_edge_of_the_window() {
        let last = 3 * WINDOW + 17;
        let mut order = Order::default();
        for number in [0, last - WINDOW + 1, last] {
            assert_eq!(order.arrive(number), Arrival::InOrder);
        }
        assert_eq!(order.arrive(0), Arrival::Older);
        assert_eq!(order.arrive(last - WINDOW), Arrival::Older);
        assert_eq!(order.arrive(last - WINDOW + 1), Arrival::Duplicate);
        assert_eq!(
            order.arrive(last - WINDOW + 2),
            Arrival::Reordered { extent: 1 }
        );
        assert_eq!(order.arrive(last), Arrival::Duplicate);
    }

    /// Numbers that mostly rise, with losses, duplicates, late frames, and jumps.
    fn sequences() -> impl Strategy<Value = Vec<u64>> {
        let step = prop_oneof![
            20 => Just((1_i64, 0_u64)),
            3 => (2..100_i64, Just(0)),
            3 => (Just(1), 1..200_u64),
            1 => (1..40_000_i64, 0..70_000_u64),
            1 => (1..200_000_i64, Just(0)),
        ];
        proptest::collection::vec(step, 0..250).prop_map(|steps| {
            let mut at = -1;
            steps
                .into_iter()
                .map(|(forward, back)| {
                    if back == 0 {
                        at += forward;
                    }
                    (at as u64)
                        .wrapping_add(u64::from(at < 0))
                        .saturating_sub(back)
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
        #[test]
        fn as_defined(numbers in sequences()) {
            prop_assert_eq!(by_order(&numbers), by_definition(&numbers));
        }
    }
}
