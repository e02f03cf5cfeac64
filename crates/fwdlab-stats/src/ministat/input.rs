//! Parses data files like ministat: lines, columns, and numbers as C's `strtod` accepts them.
//!
//! The caller opens the file; it is read piece by piece and no further than its first error, so an
//! endless stream is refused as early as by the original. Start at [`read_values`].

use std::io::{ErrorKind, Read};

use super::{MIN_VALUES, Model, Options};

/// Why a data set is refused; [`run`](super::run) adds the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A field is not a number.
    #[error("Invalid data on line {line}")]
    InvalidData {
        /// Line number from 1; comments and empty lines count.
        line: usize,
    },
    /// Fewer than [`MIN_VALUES`] values.
    #[error("must contain at least 3 data points")]
    TooFewValues,
    /// Reading failed before the end of the file; contains the system's message. The original
    /// ignores the error and uses the values so far.
    #[error("{0}")]
    CannotRead(String),
}

/// Reads the values of one column, in file order. Skips lines without that column, and everything
/// from a field that starts with `#`. A directory reads as empty.
pub fn read_values(mut source: impl Read, options: &Options) -> Result<Vec<f64>, InputError> {
    let mut lines = Lines::new(options);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return lines.finish(),
            Ok(length) => lines.feed(&buffer[..length])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::IsADirectory => return lines.finish(),
            Err(error) => return Err(InputError::CannotRead(reason(&error))),
        }
    }
}

/// Returns the system's message for an error.
pub(super) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let words = text.split_once(" (os error ").map(|(words, _)| words);
    words.map_or(text.clone(), str::to_owned)
}

/// Assembles bytes into lines and parses the values on them.
struct Lines {
    /// Column of the data, from 1.
    column: usize,
    /// For each byte, whether it separates columns.
    separates: [bool; 256],
    /// True if a line of digits with a point is the value: no column before it, and none of these
    /// bytes is a separator.
    plain: bool,
    /// Longest line in bytes; the rest of a longer one counts as another line.
    longest: usize,
    /// The beginning of an incomplete line.
    begun: Vec<u8>,
    /// Number of lines so far.
    line: usize,
    values: Vec<f64>,
}

impl Lines {
    fn new(options: &Options) -> Self {
        let mut separates = [false; 256];
        for delimiter in &options.delimiters {
            separates[usize::from(*delimiter)] = true;
        }
        let of_numbers = b".0123456789";
        Self {
            column: options.column,
            plain: options.column == 1 && !of_numbers.iter().any(|b| separates[usize::from(*b)]),
            separates,
            // BUFSIZ of the C library, less the final NUL.
            longest: if options.model == Model::Debian {
                8191
            } else {
                1023
            },
            begun: Vec::new(),
            line: 0,
            values: Vec::new(),
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), InputError> {
        while !bytes.is_empty() {
            let room = self.longest - self.begun.len();
            let window = &bytes[..bytes.len().min(room)];
            let end = window.iter().position(|b| *b == b'\n');
            let (piece, rest) = bytes.split_at(end.map_or(window.len(), |end| end + 1));
            bytes = rest;
            if end.is_none() && piece.len() < room {
                self.begun.extend_from_slice(piece);
            } else if self.begun.is_empty() {
                self.take(piece)?;
            } else {
                let mut line = std::mem::take(&mut self.begun);
                line.extend_from_slice(piece);
                self.take(&line)?;
                line.clear();
                self.begun = line;
            }
        }
        Ok(())
    }

    fn take(&mut self, text: &[u8]) -> Result<(), InputError> {
        self.line += 1;
        if let Some(value) = plain(text).filter(|_| self.plain) {
            self.values.push(value);
        } else if let Some(field) = self.field(trim(text)) {
            let line = self.line;
            self.values
                .push(strtod(field).ok_or(InputError::InvalidData { line })?);
        }
        Ok(())
    }

    fn field<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let mut fields = text
            .split(|b| self.separates[usize::from(*b)])
            .filter(|field| !field.is_empty())
            .take_while(|field| field[0] != b'#');
        fields.nth(self.column.checked_sub(1)?)
    }

    fn finish(mut self) -> Result<Vec<f64>, InputError> {
        if !self.begun.is_empty() {
            let line = std::mem::take(&mut self.begun);
            self.take(&line)?;
        }
        if self.values.len() < MIN_VALUES {
            Err(InputError::TooFewValues)
        } else {
            Ok(self.values)
        }
    }
}

/// Parses a line that contains only a number of at most 15 digits: most lines of most files.
///
/// Its digits and the power of ten are both exact, so their quotient is rounded once, as `strtod`
/// rounds (Clinger 1990).
fn plain(line: &[u8]) -> Option<f64> {
    const MOST_DIGITS: usize = 15;
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    if text.is_empty() || text.len() > MOST_DIGITS + 1 {
        return None;
    }
    let (mut digits, mut count, mut decimals) = (0_u64, 0, None);
    for byte in text {
        match (byte, &mut decimals) {
            (b'0'..=b'9', decimals) => {
                digits = digits * 10 + u64::from(byte - b'0');
                count += 1;
                *decimals = decimals.map(|n: usize| n + 1);
            }
            (b'.', None) => decimals = Some(0),
            _ => return None,
        }
    }
    const POWERS: [f64; MOST_DIGITS + 1] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
    ];
    let is_number = (1..=MOST_DIGITS).contains(&count);
    is_number.then(|| digits as f64 / POWERS[decimals.unwrap_or(0)])
}

/// Cuts a C string at NUL, and white space at its end.
fn trim(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
    let kept = text[..end]
        .iter()
        .rposition(|b| !is_space(*b))
        .map_or(0, |last| last + 1);
    &text[..kept]
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Parses a whole C string as a number, or returns `None` if C's `strtod` would not consume all of
/// it.
pub(super) fn strtod(text: &[u8]) -> Option<f64> {
    let start = text.iter().position(|b| !is_space(*b))?;
    let (negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let magnitude = match digits {
        [b'0', b'x' | b'X', hex @ ..] => hexadecimal(hex)?,
        [b'n' | b'N', ..] => nan(digits)?,
        // Rust parses the rest like C, except for a second sign.
        [b'-' | b'+', ..] => return None,
        _ => std::str::from_utf8(digits).ok()?.parse().ok()?,
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// `nan` or `nan(letters, digits and _)`.
fn nan(text: &[u8]) -> Option<f64> {
    let (word, tag) = text.split_at_checked(3)?;
    let tagged = match tag {
        [] => true,
        [b'(', inner @ .., b')'] => inner
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'_'),
        _ => false,
    };
    (word.eq_ignore_ascii_case(b"nan") && tagged).then_some(f64::NAN.copysign(1.0))
}

/// Parses hexadecimal digits with an optional point and binary exponent, rounded half to even.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let end = text
        .iter()
        .position(|b| matches!(b, b'p' | b'P'))
        .unwrap_or(text.len());
    let (digits, exponent_text) = text.split_at(end);
    let mut exponent = match exponent_text {
        [] => 0,
        [_, number @ ..] => binary_exponent(number)?,
    };
    // The highest 60 bits or so; the lowest bit is set if any bit below was.
    let (mut mantissa, mut any, mut fraction) = (0_u64, false, false);
    for byte in digits {
        if *byte == b'.' && !fraction {
            fraction = true;
            continue;
        }
        let digit = u64::from(char::from(*byte).to_digit(16)?);
        any = true;
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | digit;
            exponent -= if fraction { 4 } else { 0 };
        } else {
            mantissa |= u64::from(digit != 0);
            exponent += if fraction { 0 } else { 4 };
        }
    }
    any.then(|| scale(mantissa, exponent))
}

/// Parses a decimal exponent, clamped to where every result is zero or infinite anyway.
fn binary_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for byte in digits {
        let digit = i64::from(char::from(*byte).to_digit(10)?);
        // Beyond the length of any text times four.
        value = (value * 10 + digit).min(1 << 50);
    }
    Some(if negative { -value } else { value })
}

/// `mantissa * 2^exponent`, rounded once.
fn scale(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let shift = mantissa.leading_zeros();
    let mantissa = mantissa << shift;
    let exponent = exponent - i64::from(shift);
    // The value is 1.f * 2^top.
    let top = exponent + 63;
    if top > 1023 {
        return f64::INFINITY;
    }
    // Bits that f64 cannot keep: 11, and more below the smallest normal exponent.
    let dropped = 11 + (-1022 - top).max(0);
    if dropped > 64 {
        return 0.0;
    }
    let wide = u128::from(mantissa);
    let kept = (wide >> dropped) as u64;
    let (lost, half) = (wide & ((1 << dropped) - 1), 1_u128 << (dropped - 1));
    let rounded = kept + u64::from(lost > half || lost == half && kept & 1 == 1);
    // The implicit leading bit adds one to the exponent field, a carry adds another: both are
    // intended.
    let field = (top + 1022).max(0) as u64;
    f64::from_bits((field << 52) + rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(content: &[u8]) -> Result<Vec<f64>, InputError> {
        read_values(content, &Options::default())
    }

    #[test]
    fn lines_and_columns() {
        let options = |column, delimiters: &[u8]| Options {
            column,
            delimiters: delimiters.to_vec(),
            ..Options::default()
        };
        assert_eq!(
            read(b"1\n\n# no\n2 # yes\n 3\r\n4"),
            Ok(vec![1.0, 2.0, 3.0, 4.0])
        );
        let text = b"a,1\nb,2\nc\n#,9\nd,,3\n,4,5\n";
        assert_eq!(
            read_values(&text[..], &options(2, b",")),
            Ok(vec![1.0, 2.0, 3.0, 5.0])
        );
        assert_eq!(
            read(b"1\n2\n3x\n"),
            Err(InputError::InvalidData { line: 3 })
        );
        assert_eq!(read(b"1\n2\n"), Err(InputError::TooFewValues));
        assert_eq!(read(b"4#\n"), Err(InputError::InvalidData { line: 1 }));
        assert_eq!(read(b"1\n2\n\x003\n4\n5\n"), Ok(vec![1.0, 2.0, 4.0, 5.0]));
    }

    #[test]
    fn a_stream_is_read_to_its_first_error() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                buffer.fill(b'x');
                Ok(buffer.len())
            }
        }
        assert_eq!(
            read_values(Endless, &Options::default()),
            Err(InputError::InvalidData { line: 1 })
        );
        struct Broken(&'static [u8]);
        impl Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                match self.0.read(buffer)? {
                    0 => Err(std::io::Error::from_raw_os_error(5)),
                    length => Ok(length),
                }
            }
        }
        assert_eq!(
            read_values(Broken(b"1\n2\n3\n4\n"), &Options::default()),
            Err(InputError::CannotRead("Input/output error".to_owned()))
        );
    }

    proptest! {
        /// The fast and the slow path parse the same number, to the last bit.
        #[test]
        fn plain_numbers_are_read_as_all_others(text in "[0-9]{0,12}[.]?[0-9]{0,9}") {
            let long = strtod(text.as_bytes());
            if let Some(short) = plain(format!("{text}\n").as_bytes()) {
                prop_assert_eq!(Some(short.to_bits()), long.map(f64::to_bits), "{}", text);
            }
        }
    }

    #[test]
    fn a_line_is_plain_or_is_not() {
        assert_eq!(plain(b"14880952.4\n"), Some(14_880_952.4));
        for text in [
            "",
            ".",
            "1.2.3",
            " 1",
            "1\r\n",
            "-1",
            "1e3",
            "1234567890123456",
            "4#",
        ] {
            assert_eq!(plain(text.as_bytes()), None, "{text}");
        }
        let digits_separate = Options {
            delimiters: b"5".to_vec(),
            ..Options::default()
        };
        let found = read_values(&b"152\n2\n3\n"[..], &digits_separate);
        assert_eq!(found, Ok(vec![1.0, 2.0, 3.0]));
    }

    /// The numbers that glibc's strtod parses, to the last bit.
    #[test]
    fn numbers_as_c_spells_them() {
        for (text, value) in [
            ("1", 1.0),
            ("-1.5e3", -1500.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("\x0b7", 7.0),
            ("inf", f64::INFINITY),
            ("-INFINITY", f64::NEG_INFINITY),
            ("1e999", f64::INFINITY),
            ("1e-999", 0.0),
            ("0x10", 16.0),
            ("0X1.8p1", 3.0),
            ("0x.8", 0.5),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", 5e-324),
            ("0x1.fffffffffffff7p1023", f64::MAX),
            ("0x1.fffffffffffff8p1023", f64::INFINITY),
            ("0x0.fffffffffffff8p-1022", f64::MIN_POSITIVE),
            ("0x1.00000000000008p0", 1.0),
            (
                "0x1.000000000000080000000000000000001p0",
                1.0 + f64::EPSILON,
            ),
            ("0x1p99999999999999999999", f64::INFINITY),
            ("0x0p99999999999999999999", 0.0),
        ] {
            assert_eq!(strtod(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "", " ", "-", "+-1", "1e", "1x", "0x", "0x.", "0xp1", "0x1p", "0x1.2.3", "e5", "nan(",
            "nanx", "infi",
        ] {
            assert_eq!(strtod(text.as_bytes()), None, "{text}");
        }
        for text in ["nan", "-NaN", "nan()", "nan(a_1)"] {
            let value = strtod(text.as_bytes()).unwrap();
            assert!(value.is_nan());
            assert_eq!(value.is_sign_negative(), text.starts_with('-'));
        }
    }

    proptest! {
        #[test]
        fn hexadecimal_numbers_are_parsed(bits in any::<u64>()) {
            let value = f64::from_bits(bits).abs();
            prop_assume!(value.is_finite());
            let exact = (bits & ((1 << 52) - 1), (bits >> 52) & 0x7ff);
            let (lead, exponent) = if exact.1 == 0 { (0, -1022) } else { (1, exact.1 as i64 - 1023) };
            let text = format!("0x{lead}.{:013x}p{exponent}", exact.0);
            prop_assert_eq!(strtod(text.as_bytes()), Some(value));
        }

        #[test]
        fn bytes_never_panic(content in prop::collection::vec(any::<u8>(), 0..300), column in 1..4_usize) {
            let options = Options { column, ..Options::default() };
            if let Ok(values) = read_values(&content[..], &options) {
                prop_assert!(values.len() >= MIN_VALUES);
            }
        }

        /// The size of the pieces does not change the lines.
        #[test]
        fn pieces_make_the_same_lines(
            lines in prop::collection::vec((0..40_000_u32, 0..1500_usize), 3..30), piece in 1..3000_usize,
        ) {
            let content: String =
                lines.iter().map(|(value, blanks)| format!("{value}{}\n", " ".repeat(*blanks))).collect();
            let options = Options::default();
            let mut pieces = Lines::new(&options);
            for piece in content.as_bytes().chunks(piece) {
                pieces.feed(piece).unwrap();
            }
            let values: Vec<f64> = lines.iter().map(|(value, _)| f64::from(*value)).collect();
            prop_assert_eq!(&pieces.finish(), &Ok(values));
        }
    }
}
