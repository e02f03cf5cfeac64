//! Numbers for many frames at once: the values of variables, the contents of fields, the sums of checksums.
//!
//! Mostly they are evenly apart, or all the same; then two numbers say it, and nothing is done frame by frame. What they are
//! about is not known here. Start with [`Values`]; sums of them are made by a [`Total`].

/// How many frames the variables are moved on for at once: whatever there is to decide about a variable or a field is then
/// decided once for all of these frames. With 16, frames took 3 % longer.
pub(super) const AHEAD: usize = 32;

/// Something about each of the next frames.
pub(super) type Column = [u64; AHEAD];

/// Numbers that are evenly apart. They wrap: a step may be down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Line {
    pub first: u64,
    pub step: u64,
}

impl Line {
    /// The same in all frames.
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

/// Numbers for the next frames: a line, and what is added to it, if something is.
pub(super) type Parts<'a> = (Line, Option<&'a Column>);

/// What a variable says in the next frames: evenly apart, or one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values {
    line: Line,
    /// What is added to the line, if something is.
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

    /// They are a number and what is then written to the column.
    pub fn set_column(&mut self, number: u64) -> &mut Column {
        (self.line, self.has_column) = (Line::level(number), true);
        &mut self.column
    }
}

/// A sum for each of the next frames. It is known when it is [finished](Total::finish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Total {
    /// What has been added and is evenly apart; when finished, only what is the same in all frames.
    line: Line,
    /// What else.
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

    /// Begins anew with one number.
    pub fn begin(&mut self, number: u64) {
        (self.line, self.has_column) = (Line::level(number), false);
    }

    /// Adds numbers, each shifted to the left by so many bits.
    ///
    /// Not inlined, because the compiler then no longer sees that the columns are two, and takes numbers one by one.
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

    /// Everything has been added.
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

    /// The same as another that is finished, and so much more.
    pub fn copy(&mut self, other: &Total, more: u64) {
        self.line = Line::level(other.line.first.wrapping_add(more));
        self.column.copy_from_slice(&other.column);
    }
}
