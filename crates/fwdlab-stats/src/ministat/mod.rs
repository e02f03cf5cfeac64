//! ministat(1) byte for byte: the usual comparison in this field.
//!
//! Four generations of the program disagree in the median of an even N, the percent line and the
//! last digits of the deviation; [`Model`] chooses one. For verdicts of our own use
//! [`compare`](crate::compare()), which does not copy the rounded table and its mislabelled column.
//! Start at [`run`] for the whole program, at [`Report::new`] for its numbers.
//!
//! If the original would crash (a plot one column wide, or of values that are not finite) this
//! returns an error.

mod arguments;
mod input;
mod plot;
mod student_table;

pub use arguments::{Arguments, DEFAULT_WIDTH, Options, PlotStyle, awaits_value, terminal_width};
pub use input::{InputError, read_values};
pub use plot::Plot;
pub use student_table::Level;

use std::io::Read;

use crate::format::general;
use input::reason;

/// A generation of ministat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Model {
    /// Debian's package 20150715: upper median, one-pass variance, percentages of the error itself.
    Debian,
    /// FreeBSD from late 2015: like Debian's, but the median is the mean of the two middle values.
    Freebsd2015,
    /// FreeBSD from mid 2016: the percent line includes the reference's own error.
    Freebsd2016,
    /// Current FreeBSD: two-pass variance over the sorted data.
    #[default]
    Freebsd,
}

/// Maximum number of data sets: as many as there are symbols.
pub const MAX_SETS: usize = 7;
/// Minimum number of values of a data set.
pub const MIN_VALUES: usize = 3;

/// The characters of plot cells, indexed by the or-ed indices (1 to 7) of the sets in a cell.
const SYMBOLS: [u8; MAX_SETS + 1] = *b" x+*%#@O";

/// Everything ministat prints, as values.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The generation that computed it.
    pub model: Model,
    /// Confidence level of the comparisons.
    pub level: Level,
    /// The data sets; the first is the reference.
    pub sets: Vec<Set>,
    /// The plot, unless it is disabled.
    pub plot: Option<Plot>,
    /// Whether names and the table head are printed.
    pub headers: bool,
}

/// One line of the summary table and the comparison below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// The set's mark in plot and table.
    pub symbol: char,
    /// Usually the file name, in bytes as the system has it.
    pub label: Vec<u8>,
    /// Number of values.
    pub n: usize,
    /// First of the sorted values.
    pub min: f64,
    /// Last of the sorted values.
    pub max: f64,
    /// Median according to the model.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation according to the model; NaN if rounding made its square negative.
    pub stdev: f64,
    /// Comparison with the first set; `None` for that set itself and if comparisons are disabled.
    pub difference: Option<Difference>,
}

/// "Difference at C% confidence", with its numbers, proven or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// True if the difference exceeds its half-width; only then are the numbers printed.
    pub proven: bool,
    /// Mean of the set less mean of the reference.
    pub difference: f64,
    /// Half-width of the interval of `difference`.
    pub half_width: f64,
    /// `difference` in percent of the reference.
    pub difference_percent: f64,
    /// Half-width of the interval of `difference_percent`, according to the model.
    pub half_width_percent: f64,
    /// Standard deviation pooled over the two sets.
    pub pooled_stdev: f64,
}

/// The output of a run of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Bytes for standard output.
    pub stdout: Vec<u8>,
    /// Bytes for standard error.
    pub stderr: Vec<u8>,
    /// Exit code: 0, 2, or 1 from older models when a file cannot be opened or read.
    pub exit_code: u8,
}

/// Why there is no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The plot has one column, which would be infinitely wide; or none for sets of growing height,
    /// on which Debian's program crashes.
    #[error("cannot plot in so few columns; use -w 2 or more, or -A for no plot")]
    TooNarrow,
    /// A value in the plot is not finite, or the span is too small or too large to divide.
    #[error(
        "cannot plot values that are not finite or span more than numbers can; use -A for no plot"
    )]
    NotFinite,
    /// There is no set, or there are more sets than symbols.
    #[error("1 to {MAX_SETS} data sets can be compared")]
    SetCount,
    /// A set has fewer than [`MIN_VALUES`] values.
    #[error("a data set has fewer than {MIN_VALUES} values")]
    TooFewValues,
    /// The plot has more cells than is sensible.
    #[error("cannot plot that many cells; use a smaller -w, or -A for no plot")]
    TooLarge,
}

impl Model {
    /// All generations, oldest first.
    pub const ALL: [Self; 4] = [
        Self::Debian,
        Self::Freebsd2015,
        Self::Freebsd2016,
        Self::Freebsd,
    ];

    /// Returns the model with this name: `debian`, `2015`, `2016` or `freebsd`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.name() == name)
    }

    /// Returns the name that [`Model::from_name`] accepts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::Freebsd2015 => "2015",
            Self::Freebsd2016 => "2016",
            Self::Freebsd => "freebsd",
        }
    }
}

/// Runs the whole program after its arguments are parsed.
///
/// `open` opens a file of the arguments by its name; `-` is standard input, which is also opened if
/// there is no file. Files are opened and read in the model's own order, and none after an error.
pub fn run<R: Read>(
    arguments: &Arguments,
    open: impl FnMut(&[u8]) -> std::io::Result<R>,
) -> Output {
    match report(arguments, open) {
        Ok(report) => report.into(),
        Err(refusal) => refusal,
    }
}

/// Runs the program up to the numbers; the error is what the program prints before it exits.
pub fn report<R: Read>(
    arguments: &Arguments,
    mut open: impl FnMut(&[u8]) -> std::io::Result<R>,
) -> Result<Report, Output> {
    let options = &arguments.options;
    let stdin = [b"-".to_vec()];
    let names = match arguments.files.as_slice() {
        [] => &stdin,
        files => files,
    };
    let refuse = |what: &str, name: &[u8], cause: &str| {
        // Current FreeBSD gives every failure the same code.
        let code = if options.model == Model::Freebsd {
            2
        } else {
            1
        };
        Output::failure(&[what.as_bytes(), name, b": ", cause.as_bytes()], code)
    };
    let opened = names.iter().map(|name| {
        let source = open(name).map_err(|e| refuse("ministat: Cannot open ", name, &reason(&e)));
        source.map(|source| (name, source))
    });
    let mut sets = Vec::with_capacity(names.len());
    let mut read = |(name, source): (&Vec<u8>, R)| -> Result<(), Output> {
        let named = options.model == Model::Freebsd && !arguments.files.is_empty();
        let label = if name == b"-" && !named {
            b"<stdin>"
        } else {
            name.as_slice()
        };
        let values = read_values(source, options).map_err(|error| match &error {
            InputError::TooFewValues => {
                let text = format!(" {error}");
                Output::failure(&[b"Dataset ", label, text.as_bytes()], 2)
            }
            InputError::InvalidData { .. } => {
                let text = format!("ministat: {error} in ");
                Output::failure(&[text.as_bytes(), label], 2)
            }
            InputError::CannotRead(cause) => refuse("ministat: Cannot read ", label, cause),
        })?;
        sets.push((label.to_vec(), values));
        Ok(())
    };
    if options.model == Model::Freebsd {
        // This model opens all files before it reads the first, which decides which of two failures
        // it reports.
        let opened = opened.collect::<Result<Vec<_>, Output>>()?;
        opened.into_iter().try_for_each(read)?;
    } else {
        for opened in opened {
            read(opened?)?;
        }
    }
    Report::new(sets, options)
        .map_err(|error| Output::failure(&[format!("ministat: {error}").as_bytes()], 2))
}

impl From<Report> for Output {
    fn from(report: Report) -> Self {
        Self {
            stdout: report.render(),
            stderr: Vec::new(),
            exit_code: 0,
        }
    }
}

impl Output {
    fn failure(text: &[&[u8]], exit_code: u8) -> Self {
        let mut stderr = text.concat();
        stderr.push(b'\n');
        Self {
            stdout: Vec::new(),
            stderr,
            exit_code,
        }
    }
}

impl Report {
    /// Computes what ministat prints for 1 to [`MAX_SETS`] labelled sets of at least [`MIN_VALUES`]
    /// values each, in the order in which they were read.
    pub fn new(sets: Vec<(Vec<u8>, Vec<f64>)>, options: &Options) -> Result<Self, ReportError> {
        if sets.is_empty() || sets.len() > MAX_SETS {
            return Err(ReportError::SetCount);
        }
        if sets.iter().any(|(_, values)| values.len() < MIN_VALUES) {
            return Err(ReportError::TooFewValues);
        }
        let sets: Vec<(Vec<u8>, Numbers)> = sets
            .into_iter()
            .map(|(label, values)| (label, Numbers::new(values, options.model)))
            .collect();
        let plot = match options.plot {
            PlotStyle::None => None,
            PlotStyle::SharedBar | PlotStyle::SeparateBars => {
                let numbers: Vec<&Numbers> = sets.iter().map(|(_, numbers)| numbers).collect();
                Some(Plot::new(&numbers, options)?)
            }
        };
        let (_, reference) = &sets[0];
        let summary = |(index, (label, numbers)): (usize, &(Vec<u8>, Numbers))| {
            let compared = index > 0 && options.comparisons;
            let difference = compared.then(|| numbers.difference(reference, options));
            Set {
                symbol: char::from(SYMBOLS[index + 1]),
                label: label.clone(),
                n: numbers.n(),
                min: numbers.min(),
                max: numbers.max(),
                median: numbers.median,
                mean: numbers.mean,
                stdev: numbers.stdev(),
                difference,
            }
        };
        Ok(Self {
            model: options.model,
            level: options.level,
            sets: sets.iter().enumerate().map(summary).collect(),
            plot,
            headers: options.headers,
        })
    }

    /// The report as ministat prints it.
    pub fn render(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.headers {
            for set in &self.sets {
                out.push(set.symbol as u8);
                out.push(b' ');
                out.extend_from_slice(&set.label);
                out.push(b'\n');
            }
        }
        if let Some(plot) = &self.plot {
            plot.render(&mut out);
        }
        if self.headers {
            out.extend_from_slice(
                b"    N           Min           Max        Median           Avg        Stddev\n",
            );
        }
        for set in &self.sets {
            let line = format!(
                "{} {:3} {:>13} {:>13} {:>13} {:>13} {:>13}\n",
                set.symbol,
                set.n,
                self.number(set.min, 8),
                self.number(set.max, 8),
                self.number(set.median, 8),
                self.number(set.mean, 8),
                self.number(set.stdev, 8),
            );
            out.extend_from_slice(line.as_bytes());
            if let Some(difference) = &set.difference {
                out.extend_from_slice(self.difference_text(difference).as_bytes());
            }
        }
        out
    }

    fn difference_text(&self, d: &Difference) -> String {
        let level = self.level.percent();
        if !d.proven {
            return format!("No difference proven at {level:.1}% confidence\n");
        }
        // A NaN in a proven difference can only come from 0/0.
        let number = |value: f64| {
            self.number(
                if value.is_nan() {
                    f64::NAN.copysign(-1.0)
                } else {
                    value
                },
                6,
            )
        };
        format!(
            "Difference at {level:.1}% confidence\n\t{} +/- {}\n\t{}% +/- {}%\n\t(Student's t, pooled s = {})\n",
            number(d.difference),
            number(d.half_width),
            number(d.difference_percent),
            number(d.half_width_percent),
            number(d.pooled_stdev),
        )
    }

    fn number(&self, value: f64, precision: usize) -> String {
        // FreeBSD's printf omits the sign of NaN.
        let unsigned = value.is_nan() && self.model != Model::Debian;
        general(
            if unsigned { value.copysign(1.0) } else { value },
            precision,
        )
    }
}

/// The numbers of one set, each by the model's own sequence of operations: another order of the
/// same sums would change the last printed digit.
#[derive(Debug)]
struct Numbers {
    sorted: Vec<f64>,
    median: f64,
    mean: f64,
    variance: f64,
}

impl Numbers {
    fn new(values: Vec<f64>, model: Model) -> Self {
        let n = values.len() as f64;
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in &values {
            let square = value * value;
            sum = nan_as_sse(sum, *value, sum + value);
            squares = nan_as_sse(square, squares, square + squares);
        }
        let mean = sum / n;
        let sorted = sort(values);
        let middle = sorted.len() / 2;
        let median = match model {
            Model::Debian => sorted[middle],
            _ if sorted.len().is_multiple_of(2) => (sorted[middle] + sorted[middle - 1]) / 2.0,
            _ => sorted[middle],
        };
        let variance = match model {
            Model::Freebsd => {
                let residues = sorted.iter().fold(0.0, |s, v| s + (v - mean) * (v - mean));
                residues / (n - 1.0)
            }
            _ => {
                let share = sum * sum / n;
                nan_as_sse(squares, share, squares - share) / (n - 1.0)
            }
        };
        Self {
            sorted,
            median,
            mean,
            variance,
        }
    }

    fn n(&self) -> usize {
        self.sorted.len()
    }

    fn min(&self) -> f64 {
        self.sorted[0]
    }

    fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    fn stdev(&self) -> f64 {
        nan_as_sse(self.variance, self.variance, self.variance.sqrt())
    }

    fn difference(&self, reference: &Self, options: &Options) -> Difference {
        let (n, n_ref) = (self.n() as f64, reference.n() as f64);
        let df = n + n_ref - 2.0;
        let t = options.level.t(self.n() + reference.n() - 2);
        let pooled = (n - 1.0) * self.variance + (n_ref - 1.0) * reference.variance;
        let pooled_stdev = (pooled / df).sqrt();
        let half_width = t * (pooled_stdev * (1.0 / n + 1.0 / n_ref).sqrt());
        let difference = self.mean - reference.mean;
        let percent_error = match options.model {
            Model::Debian | Model::Freebsd2015 => half_width,
            Model::Freebsd2016 | Model::Freebsd => {
                // The error of the ratio, scaled back by the reference below.
                let own = (n - 1.0) * self.variance;
                let scaled = (n_ref - 1.0) * reference.variance * (self.mean * self.mean)
                    / (reference.mean * reference.mean);
                t * ((own + scaled) * ((n + n_ref) / (n * n_ref * df))).sqrt()
            }
        };
        Difference {
            proven: difference.abs() > half_width,
            difference,
            half_width,
            difference_percent: difference * 100.0 / reference.mean,
            half_width_percent: percent_error * 100.0 / reference.mean,
            pooled_stdev,
        }
    }
}

/// Returns the NaN that the original's instructions produce, because its sign is printed: the first
/// operand that is NaN, else a new one, which is negative.
fn nan_as_sse(first: f64, second: f64, result: f64) -> f64 {
    if !result.is_nan() {
        result
    } else if first.is_nan() {
        first
    } else if second.is_nan() {
        second
    } else {
        f64::NAN.copysign(-1.0)
    }
}

/// Sorts as glibc's qsort does with ministat's comparison, for which NaN equals everything.
fn sort(mut values: Vec<f64>) -> Vec<f64> {
    if values.iter().any(|v| v.is_nan()) {
        merge_sort(&mut values);
    } else if values.iter().any(|v| v.to_bits() == (-0.0_f64).to_bits()) {
        // Stable, so that 0 and -0 keep their order.
        values.sort_by(|a, b| a.partial_cmp(b).expect("no NaN left"));
    } else {
        values.sort_unstable_by(f64::total_cmp);
    }
    values
}

/// glibc's plain merge sort. With NaN the result depends on which pairs it compares.
fn merge_sort(values: &mut [f64]) {
    if values.len() < 2 {
        return;
    }
    let middle = values.len() / 2;
    merge_sort(&mut values[..middle]);
    merge_sort(&mut values[middle..]);
    let (first, second) = values.split_at(middle);
    let (mut i, mut j) = (0, 0);
    let mut merged = Vec::with_capacity(values.len());
    while i < first.len() && j < second.len() {
        if first[i] > second[j] {
            merged.push(second[j]);
            j += 1;
        } else {
            merged.push(first[i]);
            i += 1;
        }
    }
    merged.extend_from_slice(&first[i..]);
    merged.extend_from_slice(&second[j..]);
    values.copy_from_slice(&merged);
}
