//! The standard normal distribution.
//!
//! Tail probabilities keep their relative accuracy far out, where `1 - cdf(x)` would be zero. Use
//! [`student`](crate::student) for anything computed from the spread of a sample.

use crate::special::erfc;
use crate::student::solve_upper_tail;
use std::f64::consts::{PI, SQRT_2};

/// Probability of a value at most `x`.
pub fn cdf(x: f64) -> f64 {
    if x < 0.0 {
        upper_tail(-x)
    } else {
        1.0 - upper_tail(x)
    }
}

/// The `x` below which a value lies with probability `p`; infinite at 0 and 1, NaN outside.
pub fn quantile(p: f64) -> f64 {
    let x = |q| solve_upper_tail(q, upper_tail, x_density);
    if p < 0.5 { -x(p) } else { x(1.0 - p) }
}

/// Probability of a value above `x`.
pub fn upper_tail(x: f64) -> f64 {
    if x < 0.0 {
        1.0 - upper_tail(-x)
    } else {
        0.5 * erfc(x / SQRT_2)
    }
}

/// `x` times the density at `x`.
pub(crate) fn x_density(x: f64) -> f64 {
    x * (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, Normal};

    #[test]
    fn agrees_with_statrs() {
        let reference = Normal::standard();
        for i in -800..=800 {
            let x = f64::from(i) * 0.01;
            let theirs = reference.cdf(x);
            assert!((cdf(x) - theirs).abs() <= 1e-8 * theirs, "cdf({x})");
            if x.abs() < 6.0 {
                assert!((quantile(cdf(x)) - x).abs() < 1e-6, "quantile(cdf({x}))");
            }
        }
    }

    #[test]
    fn table_values() {
        for (p, x) in [
            (0.9, 1.281_551_565_544_600_4),
            (0.975, 1.959_963_984_540_054),
            (0.995, 2.575_829_303_548_900_4),
            (0.999, 3.090_232_306_167_813_5),
        ] {
            assert!((quantile(p) - x).abs() < 1e-13, "{p}");
            assert!((quantile(1.0 - p) + x).abs() < 1e-13, "{p}");
        }
        // Abramowitz & Stegun table 26.2: Q(10) = 7.61985e-24.
        assert!((upper_tail(10.0) / 7.619_853_024_160_527e-24 - 1.0).abs() < 1e-12);
        assert_eq!(quantile(0.5), 0.0);
        assert_eq!(quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(quantile(1.0), f64::INFINITY);
        assert!(quantile(1.5).is_nan() && quantile(f64::NAN).is_nan());
    }
}
