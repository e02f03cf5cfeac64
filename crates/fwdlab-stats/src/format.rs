//! Formats numbers like C's `printf` with `%g`.
//!
//! For output that must match another program byte for byte; everything else uses Rust's own
//! formatting. Start at [`general`].

/// `%.{precision}g`: at most `precision` significant digits, no trailing zeros, an exponent below
/// 1e-4 and from `10^precision` on. NaN keeps its sign, as glibc prints it.
pub(crate) fn general(value: f64, precision: usize) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return format!("{sign}nan");
    }
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    // Rust rounds the exact binary value half to even, as C libraries do.
    let scientific = format!("{:.*e}", precision - 1, value.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} writes an exponent");
    let exponent: i32 = exponent
        .parse()
        .expect("{:e} writes a small integer exponent");
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let digits = digits.trim_end_matches('0');

    if exponent < -4 || exponent >= precision as i32 {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!(
            "{sign}{first}{point}{rest}e{exponent_sign}{:02}",
            exponent.abs()
        );
    }
    if exponent < 0 {
        let zeros = "0".repeat((-1 - exponent) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    // Restore the zeros trimmed before the point; zero itself lost its only digit.
    let whole = exponent as usize + 1;
    let digits = format!("{digits:0<whole$}");
    let (before, after) = digits.split_at(whole);
    let point = if after.is_empty() { "" } else { "." };
    format!("{sign}{before}{point}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Expected texts come from printf(3) of glibc.
    #[test]
    fn as_printf() {
        for (value, six, eight) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (-1.5, "-1.5", "-1.5"),
            (100_000.0, "100000", "100000"),
            (999_999.5, "1e+06", "999999.5"),
            (1_000_000.0, "1e+06", "1000000"),
            (12_345_678.5, "1.23457e+07", "12345678"),
            (12_345_679.5, "1.23457e+07", "12345680"),
            (123_456_789.0, "1.23457e+08", "1.2345679e+08"),
            (0.0001, "0.0001", "0.0001"),
            (0.000_099_999_99, "0.0001", "9.999999e-05"),
            (0.000_01, "1e-05", "1e-05"),
            (0.1, "0.1", "0.1"),
            (2.5, "2.5", "2.5"),
            (440_068.3, "440068", "440068.3"),
            (1e100, "1e+100", "1e+100"),
            (5e-324, "4.94066e-324", "4.9406565e-324"),
            (f64::MAX, "1.79769e+308", "1.7976931e+308"),
            (f64::INFINITY, "inf", "inf"),
            (f64::NEG_INFINITY, "-inf", "-inf"),
            (f64::NAN.copysign(1.0), "nan", "nan"),
            (f64::NAN.copysign(-1.0), "-nan", "-nan"),
        ] {
            assert_eq!(general(value, 6), six);
            assert_eq!(general(value, 8), eight);
        }
    }

    proptest! {
        #[test]
        fn reads_back_within_its_precision(value in prop::num::f64::NORMAL, precision in 1..17_usize) {
            let back: f64 = general(value, precision).parse().unwrap();
            // parsing and dividing round once each
            let tolerance = 0.5 * 10_f64.powi(1 - precision as i32) * (1.0 + 1e-9) + f64::EPSILON;
            prop_assert!((back / value - 1.0).abs() <= tolerance || back.is_infinite());
        }
    }
}
