//! The plot: points stacked over one line, and below it bars from mean - s to mean + s.
//!
//! Only draws sets of numbers; copies visible quirks of the original (the height of the last set
//! decides, and a set that is taller than the previous one blanks rows that were cut). Start at
//! [`Plot::new`].

use super::{Model, Numbers, Options, PlotStyle, ReportError, SYMBOLS};

/// The plot as rows of characters, without its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    canvas: Option<Canvas>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Canvas {
    width: usize,
    /// Rows of cells from the bottom; row 0 is always empty and is not printed.
    cells: Vec<u8>,
    height: usize,
    bars: Vec<Vec<u8>>,
}

/// Larger plots are refused: nobody wants a gigabyte of output.
const MAX_CELLS: usize = 1 << 30;

/// Initial ends of the span; values beyond them do not move it, as in ministat.
const LARGEST_END: f64 = 999e99;

/// Columns of equal width; the first and the last value are at the centre of theirs.
struct Scale {
    start: f64,
    step: f64,
}

impl Plot {
    /// Draws the sets with the requested number of columns; draws nothing if the values have no
    /// span.
    pub(super) fn new(sets: &[&Numbers], options: &Options) -> Result<Self, ReportError> {
        let width = options.width;
        let (mut min, mut max) = (LARGEST_END, -LARGEST_END);
        for set in sets {
            let stdev = set.stdev();
            for end in [set.min(), set.max(), set.mean - stdev, set.mean + stdev] {
                // NaN fails these comparisons, so it moves neither end.
                if end < min {
                    min = end;
                }
                if end > max {
                    max = end;
                }
            }
        }
        let span = max - min;
        if span == 0.0 {
            return Ok(Self { canvas: None });
        }
        if width == 1 {
            return Err(ReportError::TooNarrow);
        }
        let step = span / (width as f64 - 1.0);
        let scale = Scale {
            start: min - 0.5 * step,
            step,
        };
        let bars = if options.plot == PlotStyle::SeparateBars {
            sets.len()
        } else {
            1
        };
        if width.saturating_mul(bars) > MAX_CELLS {
            return Err(ReportError::TooLarge);
        }
        let mut canvas = Canvas {
            width,
            cells: Vec::new(),
            height: 0,
            bars: vec![vec![b' '; width]; bars],
        };
        for (index, set) in sets.iter().enumerate() {
            // Resizing to nothing frees the original's canvas where realloc(p, 0) does.
            let vanishes = width == 0 && index > 0 && options.model == Model::Debian;
            let height_before = canvas.height;
            canvas.draw_points(set, index as u8 + 1, &scale)?;
            if vanishes && canvas.height > height_before {
                return Err(ReportError::TooNarrow);
            }
            canvas.draw_bar(set, index.min(bars - 1), &scale)?;
        }
        Ok(Self {
            canvas: Some(canvas),
        })
    }

    pub(super) fn render(&self, out: &mut Vec<u8>) {
        let Some(canvas) = &self.canvas else {
            out.extend_from_slice(b"[no plot, span is zero width]\n");
            return;
        };
        let mut line = |left: u8, content: &mut dyn Iterator<Item = u8>| {
            out.push(left);
            out.extend(content);
            out.extend_from_slice(&[left, b'\n']);
        };
        line(b'+', &mut std::iter::repeat_n(b'-', canvas.width));
        for row in (1..canvas.height).rev() {
            let cells = &canvas.cells[row * canvas.width..(row + 1) * canvas.width];
            line(
                b'|',
                &mut cells.iter().map(|sets| SYMBOLS[usize::from(*sets)]),
            );
        }
        for bar in &canvas.bars {
            line(b'|', &mut bar.iter().copied());
        }
        line(b'+', &mut std::iter::repeat_n(b'-', canvas.width));
    }
}

impl Scale {
    /// Returns the column of a value. It may be outside the canvas because of rounding: the last
    /// value by one, the mean of a set without a deviation by any distance. Nothing is drawn there.
    fn column(&self, value: f64) -> Result<isize, ReportError> {
        let column = (value - self.start) / self.step;
        if column.abs() < f64::from(i32::MAX) {
            Ok(column as isize)
        } else {
            Err(ReportError::NotFinite)
        }
    }
}

impl Canvas {
    /// Stacks values that share a column; `mark` is the set's index from 1, or-ed into its cells.
    fn draw_points(&mut self, set: &Numbers, mark: u8, scale: &Scale) -> Result<(), ReportError> {
        let columns: Vec<isize> = set
            .sorted
            .iter()
            .map(|value| scale.column(*value))
            .collect::<Result<_, _>>()?;
        let tallest = columns
            .chunk_by(|a, b| a == b)
            .map(<[isize]>::len)
            .max()
            .unwrap_or(0);
        let height = tallest + 1;
        if height > self.height {
            if height.saturating_mul(self.width) > MAX_CELLS {
                return Err(ReportError::TooLarge);
            }
            self.cells.resize(height * self.width, 0);
            self.cells[self.height * self.width..].fill(0);
        }
        self.height = height;
        for stack in columns.chunk_by(|a, b| a == b) {
            for row in 1..=stack.len() {
                let cell = (row * self.width).checked_add_signed(stack[0]);
                if let Some(cell) = cell.and_then(|cell| self.cells.get_mut(cell)) {
                    *cell |= mark;
                }
            }
        }
        Ok(())
    }

    fn draw_bar(&mut self, set: &Numbers, bar: usize, scale: &Scale) -> Result<(), ReportError> {
        let bar = &mut self.bars[bar];
        let stdev = set.stdev();
        if !stdev.is_nan() {
            let low = scale.column(set.mean - stdev)?;
            let high = scale.column(set.mean + stdev)?;
            put(bar, high, b'|');
            put(bar, low, b'|');
            for column in low + 1..high {
                let empty = |cell: &&mut u8| **cell == b' ';
                if let Some(cell) = at(bar, column).filter(empty) {
                    *cell = b'_';
                }
            }
        }
        put(bar, scale.column(set.median)?, b'M');
        put(bar, scale.column(set.mean)?, b'A');
        Ok(())
    }
}

fn at(bar: &mut [u8], column: isize) -> Option<&mut u8> {
    usize::try_from(column)
        .ok()
        .and_then(|column| bar.get_mut(column))
}

fn put(bar: &mut [u8], column: isize, mark: u8) {
    if let Some(cell) = at(bar, column) {
        *cell = mark;
    }
}
