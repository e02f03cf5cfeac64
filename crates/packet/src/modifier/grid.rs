//! A Cartesian set at work: from the numbers of its members to their values, one digit for each dimension.
//!
//! In which order members are visited is [`permutation`](crate::permutation)'s business. Start with [`Grid::read`].

use super::column::{AHEAD, Column, Line, Values as Said};
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

    /// The values of so many members, for each dimension; goes on by `stride` members after each.
    pub fn read(&mut self, stride: u64, said: &mut [Said], members: usize) {
        let mut rest = [0; AHEAD];
        self.tour.visit(stride, &mut rest[..members]);
        for (digit, said) in self.digits.iter().zip(said) {
            let first = match &digit.values {
                Values::Range { first, .. } => *first,
                Values::List(_) => 0,
            };
            let column = said.set_column(first);
            digit.count.divide(&mut rest, column);
            match &digit.values {
                Values::Range { step: 1, .. } => {}
                Values::Range { step, .. } => column.iter_mut().for_each(|n| *n *= step),
                Values::List(values) => column.iter_mut().for_each(|n| *n = values[*n as usize]),
            }
        }
    }

    /// As [`read`](Self::read), where the members follow one another and differ in the first digit alone: as nearly all do
    /// in sequence. Otherwise false, and nothing is done.
    pub fn read_row(&mut self, stride: u64, said: &mut [Said], members: usize) -> bool {
        let (Some(member), Some(fastest)) = (self.tour.in_sequence(stride), self.digits.first())
        else {
            return false;
        };
        let (mut rest, first) = fastest.count.of(member);
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
            (rest, number) = digit.count.of(rest);
            said.set_line(Line::level(digit.values.get(number)));
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
    /// 2^`shift` / `by`, rounded up, of 32 bits: multiplying by that gives the same, and vectors can do it.
    Short {
        reciprocal: u64,
        shift: u32,
    },
    /// 2^64 / `by`, rounded up.
    Long(u64),
    Full,
}

impl Divisor {
    /// For dividing what is below `end`.
    fn new(by: u64, end: u64) -> Divisor {
        let how = match by {
            _ if end <= by => Division::None,
            // Exact: the error of the reciprocal, below 1, times the number stays below 2^`shift` / `by` (Granlund and
            // Montgomery 1994), which here is at least 2^31.
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

    /// Quotient and remainder of one number.
    #[inline]
    fn of(&self, number: u64) -> (u64, u64) {
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

    /// Leaves the quotients where the numbers were.
    fn divide(&self, numbers: &mut Column, remainders: &mut Column) {
        let by = self.by;
        match self.how {
            Division::None => {
                remainders.copy_from_slice(numbers);
                numbers.fill(0);
            }
            Division::Short { reciprocal, shift } => {
                // What 32 bits hold is said to be so: such numbers are multiplied two at a time.
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
                let mut said = vec![Said::new(); counts.len()];
                if !grid.read_row(1, &mut said, members) {
                    grid.read(1, &mut said, members);
                }
                for frame in 0..members {
                    let mut rest = member % len;
                    for (dimension, said) in dimensions.iter().zip(&said) {
                        let digit = rest % dimension.values.count();
                        rest /= dimension.values.count();
                        let value = match &dimension.values {
                            Values::Range { first, step, .. } => first + step * digit,
                            Values::List(values) => values[digit as usize],
                        };
                        prop_assert_eq!(said.get(frame), value);
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
