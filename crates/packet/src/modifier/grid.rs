//! A Cartesian set at work: from the numbers of its members to their values, one digit for each dimension.
//!
//! In which order members are visited is [`permutation`](crate::permutation)'s business. Start with [`Grid::read`].

use super::machine::{AHEAD, Column};
use super::variable::{Dimension, Values};
use crate::permutation::{Tour, Visits};
use std::sync::Arc;

/// [`Source::Grid`](super::Source::Grid) at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    pub tour: Tour,
    /// The first runs fastest.
    digits: Arc<[Digit]>,
}

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
        }
    }

    /// The values of so many members, one column for each dimension; goes on by `stride` members after each.
    pub fn read(&mut self, stride: u64, columns: &mut [Column], members: usize) {
        if self.read_row(stride, columns, members) {
            return;
        }
        let mut rest = [0; AHEAD];
        self.tour.visit(stride, &mut rest[..members]);
        for (digit, column) in self.digits.iter().zip(columns) {
            digit.count.divide(&mut rest, column);
            match &digit.values {
                Values::Range { first, step: 1, .. } => column.iter_mut().for_each(|n| *n += first),
                Values::Range { first, step, .. } => {
                    column.iter_mut().for_each(|n| *n = first + step * *n);
                }
                Values::List(values) => column.iter_mut().for_each(|n| *n = values[*n as usize]),
            }
        }
    }
}

impl Grid {
    /// As [`read`](Self::read), where the members follow one another and differ in the first digit alone: as nearly all do
    /// in sequence. Otherwise false, and nothing is done.
    fn read_row(&mut self, stride: u64, columns: &mut [Column], members: usize) -> bool {
        let (Some(member), Some(fastest)) = (self.tour.in_sequence(stride), self.digits.first())
        else {
            return false;
        };
        if fastest.count.of(member).1 + AHEAD as u64 > fastest.count.by {
            return false;
        }
        let mut rest = member;
        for (at, (digit, column)) in self.digits.iter().zip(columns).enumerate() {
            let first;
            (rest, first) = digit.count.of(rest);
            if at > 0 {
                column.fill(digit.values.get(first));
            } else {
                for (n, value) in (first..).zip(column) {
                    *value = digit.values.get(n);
                }
            }
        }
        self.tour.advance(members as u64);
        true
    }
}

/// A number that others are divided by over and over.
#[derive(Debug, PartialEq, Eq)]
struct Divisor {
    by: u64,
    how: Division,
}

#[derive(Debug, PartialEq, Eq)]
enum Division {
    /// All quotients are 0.
    None,
    /// 2^64 / `by`, rounded up: multiplying by that gives the same.
    Reciprocal(u64),
    Full,
}

impl Divisor {
    /// For dividing what is below `end`.
    fn new(by: u64, end: u64) -> Divisor {
        let how = match by {
            _ if end <= by => Division::None,
            // Exact below 2^32: the error of the reciprocal, below 1, times the number stays below 2^64 / `by` (Granlund
            // and Montgomery 1994).
            2.. if end <= 1 << 32 => Division::Reciprocal(u64::MAX / by + 1),
            _ => Division::Full,
        };
        Divisor { by, how }
    }

    /// Quotient and remainder of one number.
    #[inline]
    fn of(&self, number: u64) -> (u64, u64) {
        let quotient = match self.how {
            Division::None => 0,
            Division::Reciprocal(reciprocal) => {
                ((u128::from(number) * u128::from(reciprocal)) >> 64) as u64
            }
            Division::Full => number / self.by,
        };
        (quotient, number - quotient * self.by)
    }

    /// Leaves the quotients where the numbers were.
    fn divide(&self, numbers: &mut Column, remainders: &mut Column) {
        let by = self.by;
        match self.how {
            Division::None => {
                remainders.copy_from_slice(numbers);
                numbers.fill(0);
            }
            Division::Reciprocal(reciprocal) => divide_all(numbers, remainders, |number| {
                let quotient = (u128::from(number) * u128::from(reciprocal)) >> 64;
                (quotient as u64, number - quotient as u64 * by)
            }),
            Division::Full => divide_all(numbers, remainders, |number| (number / by, number % by)),
        }
    }
}

/// Not inlined, because the compiler then knows how many there are and keeps all of them in registers that it does not have.
#[inline(never)]
fn divide_all(numbers: &mut [u64], remainders: &mut [u64], divide: impl Fn(u64) -> (u64, u64)) {
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
        /// Whatever is differed between, member after member comes out.
        #[test]
        fn rows_are_members(
            counts in proptest::collection::vec(1..100_u64, 1..4),
            step in 1..5_u64,
            listed: bool,
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
            let mut grid = Grid::new(&dimensions, Visits::Sequential);
            let len: u64 = counts.iter().product();
            let mut member = 0;
            for members in reads {
                let mut columns = vec![[0; AHEAD]; counts.len()];
                grid.read(1, &mut columns, members);
                for frame in 0..members {
                    let mut rest = member % len;
                    for (dimension, column) in dimensions.iter().zip(&columns) {
                        let digit = rest % dimension.values.count();
                        rest /= dimension.values.count();
                        let value = match &dimension.values {
                            Values::Range { first, step, .. } => first + step * digit,
                            Values::List(values) => values[digit as usize],
                        };
                        prop_assert_eq!(column[frame], value);
                    }
                    member += 1;
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
