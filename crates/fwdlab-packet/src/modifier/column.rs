//! Numbers for many frames at once: the values of variables, the contents of fields, the sums of
//! checksums.
//!
//! Most are evenly spaced or constant; then two numbers describe them, and no work is done per
//! frame. This file does not know what the numbers mean. Start with [`Values`]; [`Total`] adds them
//! up.

/// The number of frames for which variables are advanced at once: decisions about a variable or a
/// field are made once for all of them. With 16, frames took 3 % longer.
pub(super) const AHEAD: usize = 32;

/// One number for each of the next frames.
pub(super) type Column = [u64; AHEAD];

/// Evenly spaced numbers. They wrap, so a step may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Line {
    pub first: u64,
    pub step: u64,
}

impl Line {
    /// The same number in all frames.
    pub const fn level(number: u64) -> Line {
        Line {
            first: number,
            step: 0,
        }
    }

    #[inline]
    pub fn at(self, frame: usize) -> u64 {
        self.first
            .wrapping_add(self.step.wrapping_mul(frame as u64))
    }

    pub fn fill(self, column: &mut Column) {
        let mut number = self.first;
        for place in column {
            *place = number;
            number = number.wrapping_add(self.step);
        }
    }
}

/// Numbers for the next frames: a line, and an optional column that is added to it.
pub(super) type Parts<'a> = (Line, Option<&'a Column>);

/// The values of a variable in the next frames: evenly spaced, or listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values {
    line: Line,
    /// Added to the line if `has_column` is set.
    column: Column,
    has_column: bool,
}

impl Values {
    pub fn new() -> Values {
        Values {
            line: Line::default(),
            column: [0; AHEAD],
            has_column: false,
        }
    }

    #[inline]
    pub fn get(&self, frame: usize) -> u64 {
        match self.has_column {
            true => self.line.at(frame).wrapping_add(self.column[frame]),
            false => self.line.at(frame),
        }
    }

    pub fn parts(&self) -> Parts<'_> {
        (self.line, self.has_column.then_some(&self.column))
    }

    pub fn set_line(&mut self, line: Line) {
        (self.line, self.has_column) = (line, false);
    }

    /// Sets the values to `number` plus what the caller writes to the returned column.
    pub fn set_column(&mut self, number: u64) -> &mut Column {
        (self.line, self.has_column) = (Line::level(number), true);
        &mut self.column
    }
}

/// A sum for each of the next frames. Valid after [`finish`](Total::finish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Total {
    /// The sum of all lines; after `finish`, only its constant part counts.
    line: Line,
    /// The rest of the sum.
    column: Column,
    has_column: bool,
}

impl Total {
    pub fn new() -> Total {
        Total {
            line: Line::default(),
            column: [0; AHEAD],
            has_column: false,
        }
    }

    #[inline]
    pub fn get(&self, frame: usize) -> u64 {
        self.line.first.wrapping_add(self.column[frame])
    }

    /// Starts a new sum with one number.
    pub fn begin(&mut self, number: u64) {
        (self.line, self.has_column) = (Line::level(number), false);
    }

    /// Adds numbers, each shifted to the left by `shift` bits.
    ///
    /// Not inlined: if it is, the compiler no longer sees that the two columns are distinct, and
    /// does not vectorise.
    #[inline(never)]
    pub fn add(&mut self, (line, column): Parts<'_>, shift: u32) {
        self.line.first = self.line.first.wrapping_add(line.first << shift);
        self.line.step = self.line.step.wrapping_add(line.step << shift);
        let Some(column) = column else { return };
        let sums = self.column.iter_mut().zip(column);
        match (self.has_column, shift) {
            (true, 0) => sums.for_each(|(sum, n)| *sum = sum.wrapping_add(*n)),
            (true, _) => sums.for_each(|(sum, n)| *sum = sum.wrapping_add(n << shift)),
            (false, 0) => sums.for_each(|(sum, n)| *sum = *n),
            (false, _) => sums.for_each(|(sum, n)| *sum = n << shift),
        }
        self.has_column = true;
    }

    /// Call this after the last `add`.
    pub fn finish(&mut self) {
        let rise = Line {
            first: 0,
            step: self.line.step,
        };
        match (self.has_column, rise.step) {
            (true, 0) => {}
            (false, 0) => self.column = [0; AHEAD],
            (false, _) => rise.fill(&mut self.column),
            (true, _) => {
                let mut room = [0; AHEAD];
                rise.fill(&mut room);
                let sums = self.column.iter_mut().zip(&room);
                sums.for_each(|(sum, n)| *sum = sum.wrapping_add(*n));
            }
        }
    }

    /// Sets this to a finished sum plus `more`.
    pub fn copy(&mut self, other: &Total, more: u64) {
        self.line = Line::level(other.line.first.wrapping_add(more));
        self.column.copy_from_slice(&other.column);
    }
}
