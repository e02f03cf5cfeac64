//! A Cartesian set: turns the numbers of its members into values, one digit for each dimension.
//!
//! [`permutation`](crate::permutation) decides the order of the members. Start with [`Grid::read`].

use super::column::{AHEAD, Column, Line, Values as Said};
use super::variable::{Dimension, Values};
use crate::permutation::{PermutationWalk, Visits};
use std::sync::Arc;

/// The state of a [`Source::Grid`](super::Source::Grid).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    pub tour: PermutationWalk,
    /// The first one changes fastest.
    digits: Arc<[Digit]>,
    /// For each dimension, its digits in the order of the visits, followed by the first [`AHEAD`]
    /// of them again, because that many are read at once.
    listed: Option<Arc<[Box<[u16]>]>>,
}

/// Sets whose members are precomputed in the order of their visits, shared by all machines that use
/// them.
///
/// Caches favour sequential reads: frames of a million shuffled flows take 1.7 ns less than with
/// members that are computed and divided (engine, benches/veth). A list takes milliseconds to
/// build; all lists together take at most 16 MB of memory, and sets beyond that are computed.
#[derive(Debug)]
pub struct Lists {
    known: Vec<Grid>,
    room_bytes: usize,
}

impl Default for Lists {
    fn default() -> Lists {
        Lists {
            known: vec![],
            room_bytes: 16 << 20,
        }
    }
}

impl Lists {
    /// Lists a set that advances by `stride` members, if that helps and there is room.
    pub(super) fn list(&mut self, grid: &mut Grid, stride: u64) {
        let is_same = |known: &&Grid| known.tour.is_like(&grid.tour) && known.digits == grid.digits;
        let known = self.known.iter().find(is_same);
        if let Some(known) = known.filter(|_| stride == 1) {
            grid.listed = known.listed.clone();
            return;
        }
        let in_rows = grid.tour.in_sequence(1).is_some()
            && (grid.digits.first()).is_some_and(|first| first.count.by >= LONG_ROW);
        let fits = |digit: &Digit| digit.count.by <= 1 << u16::BITS;
        if stride != 1 || in_rows || !grid.digits.iter().all(fits) {
            return;
        }
        let bytes = grid.tour.period().and_then(|len| {
            let members = usize::try_from(len).ok()?.checked_add(2 * AHEAD)?;
            members.checked_mul(2 * grid.digits.len())
        });
        let Some(left) = bytes.and_then(|bytes| self.room_bytes.checked_sub(bytes)) else {
            return;
        };
        self.room_bytes = left;
        grid.listed = Some(grid.list());
        self.known.push(grid.clone());
    }
}

/// Sequential sets whose first dimension has at least this many values are not listed: nearly all
/// of their members come in [rows](Grid::read_row), which are faster still.
const LONG_ROW: u64 = 8 * AHEAD as u64;

/// A digit of a member's number.
#[derive(Debug, PartialEq, Eq)]
struct Digit {
    values: Values,
    count: Divisor,
}

impl Grid {
    pub fn new(dimensions: &[Dimension], visits: Visits) -> Grid {
        let len = dimensions.iter().map(|d| d.values.count()).product();
        let mut end = len;
        let digit = |d: &Dimension| {
            let count = Divisor::new(d.values.count(), end);
            end /= count.by;
            Digit {
                values: d.values.clone(),
                count,
            }
        };
        Grid {
            tour: visits.tour(len),
            digits: dimensions.iter().map(digit).collect(),
            listed: None,
        }
    }

    /// Builds [`listed`](Self::listed) for a set whose visits repeat.
    fn list(&self) -> Arc<[Box<[u16]>]> {
        let mut tour = self.tour.restarted();
        let members = tour.period().unwrap_or(0) as usize + AHEAD;
        let room = || Vec::with_capacity(members + AHEAD);
        let mut lists: Vec<Vec<u16>> = self.digits.iter().map(|_| room()).collect();
        for _ in 0..members.div_ceil(AHEAD) {
            let mut rest = [0; AHEAD];
            tour.visit(1, &mut rest);
            for (digit, list) in self.digits.iter().zip(&mut lists) {
                let mut column = [0; AHEAD];
                digit.count.divide(&mut rest, &mut column);
                list.extend(column.map(|number| number as u16));
            }
        }
        lists.into_iter().map(Vec::into_boxed_slice).collect()
    }

    /// Reads the values of `members` members for each dimension, and advances by `stride` members
    /// after each.
    pub fn read(&mut self, stride: u64, said: &mut [Said], members: usize) {
        let mut rest = [0; AHEAD];
        let at = self.tour.place() as usize;
        match self.listed {
            Some(_) => self.tour.advance(members as u64),
            None => self.tour.visit(stride, &mut rest[..members]),
        }
        for (number, (digit, said)) in self.digits.iter().zip(said).enumerate() {
            let first = match &digit.values {
                Values::Range { first, .. } => *first,
                Values::List(_) => 0,
            };
            let column = said.set_column(first);
            match &self.listed {
                Some(listed) => {
                    let listed = &listed[number][at..at + AHEAD];
                    let places = column.iter_mut().zip(listed);
                    places.for_each(|(n, listed)| *n = u64::from(*listed));
                }
                None => digit.count.divide(&mut rest, column),
            }
            match &digit.values {
                Values::Range { step: 1, .. } => {}
                Values::Range { step, .. } => column.iter_mut().for_each(|n| *n *= step),
                Values::List(values) => column.iter_mut().for_each(|n| *n = values[*n as usize]),
            }
        }
    }

    /// Like [`read`](Self::read), if the members are consecutive and differ only in the first
    /// digit, as nearly all do in sequence. Otherwise returns false and does nothing.
    pub fn read_row(&mut self, stride: u64, said: &mut [Said], members: usize) -> bool {
        let (Some(member), Some(fastest)) = (self.tour.in_sequence(stride), self.digits.first())
        else {
            return false;
        };
        let (mut rest, first) = fastest.count.div_rem(member);
        if first + AHEAD as u64 > fastest.count.by {
            return false;
        }
        match &fastest.values {
            Values::Range { step, .. } => said[0].set_line(Line {
                first: fastest.values.get(first),
                step: *step,
            }),
            Values::List(values) => {
                let row = &values[first as usize..][..AHEAD];
                said[0].set_column(0).copy_from_slice(row);
            }
        }
        for (digit, said) in self.digits[1..].iter().zip(&mut said[1..]) {
            let number;
            (rest, number) = digit.count.div_rem(rest);
            said.set_line(Line::level(digit.values.get(number)));
        }
        self.tour.advance(members as u64);
        true
    }
}

/// A divisor that is used many times.
#[derive(Debug, PartialEq, Eq)]
struct Divisor {
    by: u64,
    how: Division,
}

#[derive(Debug, PartialEq, Eq)]
enum Division {
    /// All quotients are 0.
    None,
    /// 2^`shift` / `by`, rounded up, in 32 bits: multiplying by it gives the same quotient, and
    /// vectorises.
    Short {
        reciprocal: u64,
        shift: u32,
    },
    /// 2^64 / `by`, rounded up.
    Long(u64),
    Full,
}

impl Divisor {
    /// Prepares the division of numbers below `end`.
    fn new(by: u64, end: u64) -> Divisor {
        let how = match by {
            _ if end <= by => Division::None,
            // Exact: the error of the reciprocal, below 1, times the number stays below 2^`shift` /
            // `by` (Granlund and Montgomery 1994), which here is at least 2^31.
            1.. if end <= 1 << 31 => {
                let shift = 31 + u64::BITS - (by - 1).leading_zeros();
                Division::Short {
                    reciprocal: (1_u64 << shift).div_ceil(by),
                    shift,
                }
            }
            2.. if end <= 1 << 32 => Division::Long(u64::MAX / by + 1),
            _ => Division::Full,
        };
        Divisor { by, how }
    }

    /// Returns quotient and remainder of one number.
    #[inline]
    fn div_rem(&self, number: u64) -> (u64, u64) {
        let quotient = match self.how {
            Division::None => 0,
            Division::Short { reciprocal, shift } => (number * reciprocal) >> shift,
            Division::Long(reciprocal) => {
                ((u128::from(number) * u128::from(reciprocal)) >> 64) as u64
            }
            Division::Full => number / self.by,
        };
        (quotient, number - quotient * self.by)
    }

    /// Replaces the numbers by their quotients.
    fn divide(&self, numbers: &mut Column, remainders: &mut Column) {
        let by = self.by;
        match self.how {
            Division::None => {
                remainders.copy_from_slice(numbers);
                numbers.fill(0);
            }
            Division::Short { reciprocal, shift } => {
                // The casts show the compiler that the numbers fit 32 bits, so that it multiplies
                // two at a time.
                let short = |number: u64| u64::from(number as u32);
                divide_all(numbers, remainders, |number| {
                    let quotient = (short(number) * short(reciprocal)) >> shift;
                    (quotient, number - short(quotient) * short(by))
                });
            }
            Division::Long(reciprocal) => divide_all(numbers, remainders, |number| {
                let quotient = (u128::from(number) * u128::from(reciprocal)) >> 64;
                (quotient as u64, number - quotient as u64 * by)
            }),
            Division::Full => divide_all(numbers, remainders, |number| (number / by, number % by)),
        }
    }
}

fn divide_all(numbers: &mut Column, remainders: &mut Column, divide: impl Fn(u64) -> (u64, u64)) {
    for (number, remainder) in numbers.iter_mut().zip(remainders) {
        (*number, *remainder) = divide(*number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn divides(number: u64, by: u64, end: u64) -> bool {
        let (mut numbers, mut remainders) = ([number; AHEAD], [0; AHEAD]);
        Divisor::new(by, end).divide(&mut numbers, &mut remainders);
        numbers == [number / by; AHEAD] && remainders == [number % by; AHEAD]
    }

    /// Any number of machines, with the same set or each with its own.
    #[test]
    fn lists_are_shared_and_bounded() {
        let grid = |first, count| {
            let values = Values::Range {
                first,
                step: 1,
                count,
            };
            let dimension = Dimension {
                name: String::new(),
                width: crate::modifier::Width::Four,
                values,
            };
            Grid::new(
                &[dimension.clone(), dimension],
                Visits::Shuffled { seed: 1 },
            )
        };
        let mut lists = Lists::default();
        let mut same = [grid(0, 1000), grid(0, 1000)];
        same.iter_mut().for_each(|grid| lists.list(grid, 1));
        let [Some(a), Some(b)] = same.map(|grid| grid.listed) else {
            panic!("there was room");
        };
        assert!(Arc::ptr_eq(&a, &b));
        let mut others: Vec<Grid> = (1..20).map(|first| grid(first, 1000)).collect();
        others.iter_mut().for_each(|grid| lists.list(grid, 1));
        let listed = others.iter().filter(|grid| grid.listed.is_some()).count();
        // 4 bytes for each member
        assert_eq!(listed, 16_777_216 / 4_000_256 - 1);
        // its digits do not fit 16 bits
        let mut large = grid(0, 70_000);
        Lists::default().list(&mut large, 1);
        assert_eq!(large.listed, None);
    }

    #[test]
    fn division_at_the_ends() {
        let end = 1 << 32;
        for by in [
            1,
            2,
            3,
            7,
            1000,
            65_535,
            65_536,
            (1 << 31) + 1,
            end - 1,
            end,
        ] {
            for number in [0, 1, by - 1, by, end / by * by - 1, end - 2, end - 1] {
                assert!(number >= end || divides(number, by, end), "{number} / {by}");
                assert!(number >= by || divides(number, by, by), "{number} / {by}");
            }
        }
    }

    proptest! {
        /// Listed, in rows, or computed: the members are those that the tour visits, with the
        /// values of their digits.
        #[test]
        fn members_are_those_of_the_tour(
            counts in proptest::collection::vec(1..400_u64, 1..4),
            step in 1..5_u64,
            listed: bool,
            shuffled: bool,
            in_lists: bool,
            begin in 0..1000_u64,
            stride in 1..3_u64,
            reads in proptest::collection::vec(1..=AHEAD, 1..40),
        ) {
            let dimensions: Vec<Dimension> = counts
                .iter()
                .map(|&count| Dimension {
                    name: String::new(),
                    width: crate::modifier::Width::Four,
                    values: match listed {
                        true => Values::List((0..count).map(|n| n * n).collect()),
                        false => Values::Range { first: 7, step, count },
                    },
                })
                .collect();
            let visits = match shuffled {
                true => Visits::Shuffled { seed: step },
                false => Visits::Sequential,
            };
            let mut grid = Grid::new(&dimensions, visits);
            let mut tour = visits.tour(counts.iter().product());
            grid.tour.advance(begin);
            tour.advance(begin);
            if in_lists {
                let mut lists = Lists::default();
                // another machine has the same set at another position
                lists.list(&mut grid.clone(), stride);
                lists.list(&mut grid, stride);
            }
            for members in reads {
                let mut said = vec![Said::new(); counts.len()];
                if !grid.read_row(stride, &mut said, members) {
                    grid.read(stride, &mut said, members);
                }
                for frame in 0..members {
                    let mut rest = [0];
                    tour.visit(stride, &mut rest);
                    for (dimension, said) in dimensions.iter().zip(&said) {
                        let digit = rest[0] % dimension.values.count();
                        rest[0] /= dimension.values.count();
                        let value = match &dimension.values {
                            Values::Range { first, step, .. } => first + step * digit,
                            Values::List(values) => values[digit as usize],
                        };
                        prop_assert_eq!(said.get(frame), value);
                    }
                }
            }
        }

        #[test]
        fn division_is_division(number: u32, by in 1..=u32::MAX, large: u64, large_by in 1..=u64::MAX) {
            prop_assert!(divides(number.into(), by.into(), 1 << 32));
            prop_assert!(divides(large % u64::MAX, large_by, u64::MAX));
        }
    }
}
