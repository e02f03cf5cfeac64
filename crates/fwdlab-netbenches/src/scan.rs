//! Scans bytes for words and numbers, for the parsers of this folder.
//!
//! It knows no format. Start with [`Scan`].

/// The unread rest of a piece of text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan<'a>(pub(super) &'a [u8]);

impl<'a> Scan<'a> {
    /// Skips `text`, if it comes next.
    pub(super) fn skip_text(&mut self, text: &[u8]) -> bool {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Skips blanks.
    pub(super) fn blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// Returns the digits that come next, possibly none.
    pub(super) fn digits(&mut self) -> &'a [u8] {
        let end = self
            .0
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        digits
    }

    /// Parses an integer that fits.
    pub(super) fn whole(&mut self) -> Option<u64> {
        whole(self.digits())
    }

    /// Parses a decimal number without exponent, possibly negative.
    pub(super) fn decimal(&mut self) -> Option<f64> {
        let start = self.0;
        let negative = self.skip_text(b"-");
        let before = self.digits();
        // The common case, exact up to 2^53.
        if self.0.first() != Some(&b'.') && before.len() <= 15 {
            let value = whole(before)? as f64;
            return Some(if negative { -value } else { value });
        }
        if self.skip_text(b".") {
            self.digits();
        }
        let text = &start[..start.len() - self.0.len()];
        std::str::from_utf8(text).ok()?.parse().ok()
    }

    /// Parses a decimal number with an optional prefix K, M, G, T, and scales it: `1.5 M`.
    pub(super) fn scaled(&mut self) -> Option<f64> {
        let number = self.decimal()?;
        self.blanks();
        let factor = match self.0.first() {
            Some(b'K' | b'k') => 1e3,
            Some(b'M') => 1e6,
            Some(b'G') => 1e9,
            Some(b'T') => 1e12,
            _ => return Some(number),
        };
        self.0 = &self.0[1..];
        Some(number * factor)
    }
}

/// Converts digits to a number, unless there are none or too many.
pub(super) fn whole(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Returns the position of `needle`.
pub(super) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = haystack.get(from..)?.iter().position(|byte| *byte == first) {
        if haystack[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Returns words separated by white space.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
}

/// Returns a text for people: bytes that are not UTF-8 and control characters are replaced, long
/// text is cut.
pub(super) fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 120;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST)]);
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push_str("...");
    }
    shown
}

/// Formats with `%.8g`, as ministat prints the figures of a set: the contents of a `.pps` file.
pub fn general8(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    // Rust rounds the exact value half to even, as C libraries do.
    let scientific = format!("{value:.7e}");
    let exponent: i32 = scientific
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or_default();
    if !(-4..8).contains(&exponent) {
        let (mantissa, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let rounded = format!("{value:.*}", (7 - exponent).max(0) as usize);
    if rounded.contains('.') {
        rounded
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    } else {
        rounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, value, rest) in [
            (&b"123 pps"[..], Some(123.0), &b"pps"[..]),
            (b"-5x", Some(-5.0), b"x"),
            (b"14.856 Mpps", Some(14_856_000.0), b"pps"),
            (b"0.00", Some(0.0), b""),
            (b"1.5Kpps", Some(1500.0), b"pps"),
            (b"pps", None, b"pps"),
            (b"", None, b""),
            (b"-", None, b""),
        ] {
            let mut scan = Scan(text);
            assert_eq!(scan.scaled(), value, "{text:?}");
            assert_eq!(scan.0, rest, "{text:?}");
        }
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole(b"18446744073709551616"), None);
        assert_eq!(whole(&[b'9'; 400]), None);
    }

    /// Expected texts are from printf(1) of coreutils.
    #[test]
    fn as_printf() {
        for (value, text) in [
            (4_201_494.5, "4201494.5"),
            (14_796_094.5, "14796094"),
            (14_796_095.5, "14796096"),
            (123_456_789.0, "1.2345679e+08"),
            (100_000_000.0, "1e+08"),
            (0.0, "0"),
            (1.483, "1.483"),
            (0.000_012_345_678_9, "1.2345679e-05"),
            (99_999_999.7, "1e+08"),
        ] {
            assert_eq!(general8(value), text);
        }
    }

    #[test]
    fn found_or_not() {
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!(find(b"aaa", b"ab"), None);
        assert_eq!(find(b"", b"ab"), None);
        assert_eq!(find(b"main_thread", b"main_thread"), Some(0));
        assert_eq!(words(b" a  b\tc\r").collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    }
}
