//! The command line of ministat, with its messages.
//!
//! Parsed here and not by the program's own parser because the messages must equal those of the
//! original. Options may follow files, as with the C library of Linux. Start at
//! [`Arguments::parse`].

use super::input::strtod;
use super::{Level, MAX_SETS, Model, Output};

/// Default number of columns of the plot.
pub const DEFAULT_WIDTH: usize = 74;

/// A parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    /// Everything but the files.
    pub options: Options,
    /// Names of files, at most [`MAX_SETS`]; `-` or an empty list is standard input.
    pub files: Vec<Vec<u8>>,
}

/// How to read, compare and print.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The generation of the program.
    pub model: Model,
    /// The plot and its bars (`-A`, `-n`, `-s`).
    pub plot: PlotStyle,
    /// True if sets are compared with the first (not with `-n`).
    pub comparisons: bool,
    /// True if names and the table head are printed (not with `-q`).
    pub headers: bool,
    /// Column of the data, from 1 (`-C`).
    pub column: usize,
    /// Confidence level (`-c`).
    pub level: Level,
    /// Bytes that separate columns (`-d`).
    pub delimiters: Vec<u8>,
    /// Columns of the plot, without the frame (`-w`).
    pub width: usize,
}

/// Whether and how the plot is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlotStyle {
    /// No plot.
    None,
    /// All bars on one line.
    #[default]
    SharedBar,
    /// One line per set.
    SeparateBars,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            model: Model::default(),
            plot: PlotStyle::default(),
            comparisons: true,
            headers: true,
            column: 1,
            level: Level::default(),
            delimiters: b" \t".to_vec(),
            width: DEFAULT_WIDTH,
        }
    }
}

impl Arguments {
    /// Parses the arguments after the program's name.
    ///
    /// `width` is the plot's width without `-w`: 74, or on a terminal [`terminal_width`]. The error
    /// is what the program prints before it exits.
    pub fn parse<A: AsRef<[u8]>>(
        arguments: &[A],
        model: Model,
        width: usize,
    ) -> Result<Self, Output> {
        let (mut separate_bars, mut suppress_plot, mut raw) = (false, false, false);
        let mut options = Options {
            model,
            width,
            ..Options::default()
        };
        let mut level = None;
        let mut files = Vec::new();
        let usage = |whine: &str| Output::usage(model, whine);

        let mut remaining = arguments.iter().map(AsRef::as_ref);
        while let Some(argument) = remaining.next() {
            let mut letters = match argument {
                b"--" => {
                    files.extend(remaining.map(<[u8]>::to_vec));
                    break;
                }
                [b'-', letters @ ..] if !letters.is_empty() => letters,
                file => {
                    files.push(file.to_vec());
                    continue;
                }
            };
            while let [letter, rest @ ..] = letters {
                letters = rest;
                if !takes_value(*letter) {
                    match letter {
                        b'A' => suppress_plot = true,
                        b'n' => raw = true,
                        b's' => separate_bars = true,
                        b'q' if model == Model::Freebsd => options.headers = false,
                        _ => return Err(Output::getopt(model, Refused::Unknown, *letter)),
                    }
                    continue;
                }
                // The value is the rest of this argument, or the next one.
                letters = &[];
                let value = if rest.is_empty() {
                    remaining.next()
                } else {
                    Some(rest)
                };
                let Some(value) = value else {
                    return Err(Output::getopt(model, Refused::NoValue, *letter));
                };
                match letter {
                    b'C' => {
                        let column =
                            strtol(value).ok_or_else(|| usage("Invalid column number."))?;
                        options.column = usize::try_from(column)
                            .ok()
                            .filter(|column| *column > 0)
                            .ok_or_else(|| usage("Column number should be positive."))?;
                    }
                    b'c' => {
                        let percent = if value.is_empty() {
                            Some(0.0)
                        } else {
                            strtod(value)
                        };
                        let percent =
                            percent.ok_or_else(|| usage("Not a floating point number"))?;
                        // A level given earlier is kept, as in the original.
                        level = Level::from_percent(percent).or(level);
                        if level.is_none() {
                            return Err(usage("No support for confidence level"));
                        }
                    }
                    b'd' if value.is_empty() => {
                        return Err(usage("Can't use empty delimiter string"));
                    }
                    b'd' => options.delimiters = value.to_vec(),
                    _ => {
                        let width =
                            strtol(value).ok_or_else(|| usage("Invalid width, not a number."))?;
                        options.width = usize::try_from(width)
                            .map_err(|_| usage("Unable to move beyond left margin."))?;
                    }
                }
            }
        }
        if files.len() > MAX_SETS {
            return Err(usage("Too many datasets."));
        }
        options.level = level.unwrap_or_default();
        options.comparisons = !raw;
        options.plot = match (raw || suppress_plot, separate_bars) {
            (true, _) => PlotStyle::None,
            (false, true) => PlotStyle::SeparateBars,
            (false, false) => PlotStyle::SharedBar,
        };
        Ok(Self { options, files })
    }
}

fn takes_value(letter: u8) -> bool {
    matches!(letter, b'C' | b'c' | b'd' | b'w')
}

/// Returns true if the next argument is the value of this one's last option, as after `-w` or
/// `-nC`.
///
/// For callers that add options of their own: such a value belongs to the original's option, even
/// if it looks like one of theirs.
pub fn awaits_value(argument: &[u8]) -> bool {
    let [b'-', letters @ ..] = argument else {
        return false;
    };
    let first = letters.iter().position(|letter| takes_value(*letter));
    first.is_some_and(|first| first + 1 == letters.len())
}

/// Returns the plot's width on a terminal without `-w`: the value of `COLUMNS` if it is set, or
/// else the terminal's columns minus 2 for the frame.
pub fn terminal_width(columns_variable: &[u8], terminal_columns: u16) -> usize {
    let columns = match (columns_variable, terminal_columns) {
        (b"", 0) => return DEFAULT_WIDTH,
        (b"", columns) => i32::from(columns) - 2,
        (text, _) => atoi(text),
    };
    // The original crashes on a negative width; here it becomes one column, which is refused.
    usize::try_from(columns).unwrap_or(1)
}

/// An argument that C's getopt refuses.
enum Refused {
    Unknown,
    NoValue,
}

impl Output {
    fn getopt(model: Model, refused: Refused, letter: u8) -> Self {
        let glibc = model == Model::Debian;
        let mut stderr = Vec::from(match (refused, glibc) {
            (Refused::Unknown, true) => "ministat: invalid option -- '",
            (Refused::Unknown, false) => "ministat: illegal option -- ",
            (Refused::NoValue, true) => "ministat: option requires an argument -- '",
            (Refused::NoValue, false) => "ministat: option requires an argument -- ",
        });
        stderr.push(letter);
        stderr.extend_from_slice(if glibc { b"'\n" } else { b"\n" });
        let usage = Self::usage(model, "Unknown option");
        stderr.extend_from_slice(&usage.stderr);
        Self { stderr, ..usage }
    }

    fn usage(model: Model, whine: &str) -> Self {
        let (flags, quiet) = match model {
            Model::Freebsd => (
                "-Anqs",
                "\t-q : suppress printing summary-statistics headers and data-set names\n",
            ),
            _ => ("-Ans", ""),
        };
        let text = format!(
            "{whine}\n\
             Usage: ministat [-C column] [-c confidence] [-d delimiter(s)] [{flags}] [-w width] [file [file ...]]\n\
             \tconfidence = {{80%, 90%, 95%, 98%, 99%, 99.5%}}\n\
             \t-A : print statistics only. suppress the graph.\n\
             \t-C : column number to extract (starts and defaults to 1)\n\
             \t-d : delimiter(s) string, default to \" \\t\"\n\
             \t-n : print summary statistics only, no graph/test\n\
             {quiet}\
             \t-s : print avg/median/stddev bars on separate lines\n\
             \t-w : width of graph/test output (default 74 or terminal width)\n"
        );
        Self {
            stdout: Vec::new(),
            stderr: text.into_bytes(),
            exit_code: 2,
        }
    }
}

/// Parses a whole C string like `strtol` with a cast to `int`: saturated to 64 bits, truncated to
/// 32. Empty is 0.
fn strtol(text: &[u8]) -> Option<i32> {
    if text.is_empty() {
        return Some(0);
    }
    let start = text
        .iter()
        .position(|b| !matches!(b, b' ' | b'\t'..=b'\r'))?;
    let (negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all_digits.then(|| int(digits, negative))
}

/// Parses the number at the beginning of a C string; 0 if there is none.
fn atoi(text: &[u8]) -> i32 {
    let text = text.trim_ascii_start();
    let negative = text.first() == Some(&b'-');
    let digits = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    let end = digits.iter().position(|b| !b.is_ascii_digit());
    int(&digits[..end.unwrap_or(digits.len())], negative)
}

fn int(digits: &[u8], negative: bool) -> i32 {
    let signed = |digit: &u8| i64::from(digit - b'0') * if negative { -1 } else { 1 };
    let value = digits
        .iter()
        .fold(0_i64, |v, d| v.saturating_mul(10).saturating_add(signed(d)));
    value as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, Output> {
        Arguments::parse(arguments, Model::Freebsd, 74)
    }

    fn error_message(arguments: &[&str]) -> String {
        let output = parse(arguments).unwrap_err();
        assert_eq!(output.exit_code, 2);
        let text = String::from_utf8(output.stderr).unwrap();
        text.split("\nUsage:").next().unwrap().to_owned()
    }

    #[test]
    fn options_and_files_in_any_order() {
        let a = parse(&[
            "-sw40", "a", "-C", "2", "-c99.5", "-d", ",;", "-q", "--", "-n",
        ])
        .unwrap();
        assert_eq!(a.files, [b"a".to_vec(), b"-n".to_vec()]);
        assert_eq!(
            a.options,
            Options {
                plot: PlotStyle::SeparateBars,
                headers: false,
                column: 2,
                level: Level::P99_5,
                delimiters: b",;".to_vec(),
                width: 40,
                ..Options::default()
            }
        );
        assert_eq!(parse(&["-A"]).unwrap().options.plot, PlotStyle::None);
        let raw = parse(&["-n", "-"]).unwrap();
        assert_eq!(
            (raw.options.comparisons, raw.files),
            (false, vec![b"-".to_vec()])
        );
    }

    #[test]
    fn whining() {
        assert_eq!(
            error_message(&["-x"]),
            "ministat: illegal option -- x\nUnknown option"
        );
        assert_eq!(
            error_message(&["-C"]),
            "ministat: option requires an argument -- C\nUnknown option"
        );
        assert_eq!(error_message(&["-C0"]), "Column number should be positive.");
        assert_eq!(error_message(&["-C", "x"]), "Invalid column number.");
        assert_eq!(
            error_message(&["-c", "97"]),
            "No support for confidence level"
        );
        assert_eq!(error_message(&["-c", "x"]), "Not a floating point number");
        assert_eq!(
            error_message(&["-d", ""]),
            "Can't use empty delimiter string"
        );
        assert_eq!(
            error_message(&["-w", "abc"]),
            "Invalid width, not a number."
        );
        assert_eq!(
            error_message(&["-w-5"]),
            "Unable to move beyond left margin."
        );
        assert_eq!(error_message(&["f"; 8]), "Too many datasets.");
        assert!(Arguments::parse(&["-q"], Model::Debian, 74).is_err());
    }

    #[test]
    fn values_that_are_the_next_argument() {
        for argument in ["-w", "-C", "-c", "-d", "-nsC", "-Aw"] {
            assert!(awaits_value(argument.as_bytes()), "{argument}");
        }
        for argument in ["", "-", "w", "-n", "-w7", "-Cw", "-dC", "--"] {
            assert!(!awaits_value(argument.as_bytes()), "{argument}");
        }
    }

    /// As Debian's program on a terminal with this number of columns; it crashes where this is 1.
    #[test]
    fn width_on_a_terminal() {
        for (variable, columns, width) in [
            ("", 60, 58),
            ("", 0, 74),
            ("", 2, 0),
            ("", 1, 1),
            ("40", 60, 40),
            (" 30x", 60, 30),
            ("abc", 60, 0),
            ("-5", 60, 1),
        ] {
            assert_eq!(
                terminal_width(variable.as_bytes(), columns),
                width,
                "{variable} {columns}"
            );
        }
    }

    /// As the original on a 64-bit machine.
    #[test]
    fn integers_wrap_as_in_c() {
        assert_eq!(strtol(b"4294967297"), Some(1));
        assert_eq!(strtol(b"99999999999999999999"), Some(-1));
        assert_eq!(strtol(b"-99999999999999999999"), Some(0));
        assert_eq!(strtol(b" +7"), Some(7));
        assert_eq!(
            (strtol(b""), strtol(b" "), strtol(b"-"), strtol(b"7 ")),
            (Some(0), None, None, None)
        );
    }
}
