//! Student's t distribution, for any real number of degrees of freedom.
//!
//! Exact to about 1e-13, unlike the three-decimal table that [`ministat`](crate::ministat) must
//! copy. Start at [`critical`]: the factor that turns a standard error into an interval.

use crate::normal;
use crate::sample::Confidence;
use crate::special::{beta_half, gamma_ratio_half};
use std::f64::consts::PI;

/// Above this the normal distribution at a corrected argument is exact to 1e-13.
const NEARLY_NORMAL: f64 = 1e7;

/// Probability of a value at most `t` with `df` degrees of freedom; NaN unless `df > 0`.
pub fn cdf(t: f64, df: f64) -> f64 {
    if t < 0.0 {
        upper_tail(-t, df)
    } else {
        1.0 - upper_tail(t, df)
    }
}

/// The `t` below which a value lies with probability `p`; infinite at 0 and 1, NaN outside.
pub fn quantile(p: f64, df: f64) -> f64 {
    let t = |q| solve_upper_tail(q, |t| upper_tail(t, df), |t| t_density(t, df));
    if p < 0.5 { -t(p) } else { t(1.0 - p) }
}

/// The `t` that `|T|` does not exceed with the given confidence: half-width of a two-sided interval
/// in standard errors.
pub fn critical(confidence: Confidence, df: f64) -> f64 {
    let tail = 0.5 * (1.0 - confidence.get());
    solve_upper_tail(tail, |t| upper_tail(t, df), |t| t_density(t, df))
}

/// Two-sided p-value: probability of a `|T|` of at least `|t|`.
pub fn two_sided_p(t: f64, df: f64) -> f64 {
    2.0 * upper_tail(t.abs(), df)
}

/// Probability of a value above `t`, accurate far out in the tail.
pub fn upper_tail(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        f64::NAN
    } else if t < 0.0 {
        1.0 - upper_tail(-t, df)
    } else if df > NEARLY_NORMAL {
        // Abramowitz & Stegun 26.7.8; the error is of order 1/df².
        let excess = if df.is_finite() {
            t * t / (2.0 * df)
        } else {
            0.0
        };
        normal::upper_tail(t * (1.0 - 0.25 / df) / (1.0 + excess).sqrt())
    } else if t.is_infinite() {
        0.0
    } else {
        beta_half(0.5 * df, t / df.sqrt())
    }
}

/// `t` times the density at `t`, a product that does not underflow before the tail itself.
fn t_density(t: f64, df: f64) -> f64 {
    if df > NEARLY_NORMAL {
        return normal::x_density(t);
    }
    let root_r = t / df.sqrt();
    let ln = if root_r > 1e8 {
        2.0 * root_r.ln()
    } else {
        (root_r * root_r).ln_1p()
    };
    gamma_ratio_half(0.5 * df) / (df * PI).sqrt() * (t.ln() - 0.5 * (df + 1.0) * ln).exp()
}

/// The `t >= 0` with `tail(t) = q`, for a symmetric distribution whose `ln tail` is concave in
/// `ln t`.
///
/// Newton's method on logarithms, which approaches the root from one side. Steps are capped so that
/// the first one, far from the root, cannot leave the range of `f64`. `t_density` is `t` times the
/// density.
pub(crate) fn solve_upper_tail(
    q: f64,
    tail: impl Fn(f64) -> f64,
    t_density: impl Fn(f64) -> f64,
) -> f64 {
    if !(0.0..=0.5).contains(&q) || tail(1.0).is_nan() {
        return f64::NAN;
    }
    if q == 0.5 {
        return 0.0;
    }
    if q == 0.0 {
        return f64::INFINITY;
    }
    let mut t: f64 = 1.0;
    for _ in 0..2000 {
        let now = tail(t);
        let slope = t_density(t) / now;
        // Overshot into underflow: halve on the way back.
        let step = if now > 0.0 && slope > 0.0 {
            ((now / q).ln() / slope).clamp(-1.0, 1.0)
        } else {
            -0.7
        };
        t *= step.exp();
        if step.abs() < 4.0 * f64::EPSILON || !t.is_finite() {
            break;
        }
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::distribution::{ContinuousCDF, StudentsT};

    proptest! {
        #[test]
        fn cdf_agrees_with_statrs(t in -60.0..60.0_f64, df in 0.6..3000.0_f64) {
            let theirs = StudentsT::new(0.0, 1.0, df).unwrap().cdf(t);
            prop_assert!((cdf(t, df) - theirs).abs() < 1e-11, "{} {}", cdf(t, df), theirs);
        }

        #[test]
        fn quantile_inverts_upper_tail(ln_q in -60.0..-0.7_f64, df in 0.5..1e5_f64) {
            let q = ln_q.exp();
            let t = solve_upper_tail(q, |t| upper_tail(t, df), |t| t_density(t, df));
            prop_assert!((upper_tail(t, df) / q - 1.0).abs() < 1e-10);
        }
    }

    /// Closed forms for one, two and four degrees of freedom.
    #[test]
    fn closed_forms() {
        for i in 0..400 {
            let t = f64::from(i) * 0.05;
            assert!(
                (cdf(t, 1.0) - (0.5 + t.atan() / PI)).abs() < 1e-15,
                "df 1, {t}"
            );
            assert!(
                (cdf(t, 2.0) - (0.5 + t / (2.0 * (2.0 + t * t).sqrt()))).abs() < 1e-15,
                "df 2, {t}"
            );
            let s = t / (4.0 + t * t).sqrt();
            assert!(
                (cdf(t, 4.0) - (0.5 + 0.75 * (s - s.powi(3) / 3.0))).abs() < 1e-15,
                "df 4, {t}"
            );
        }
    }

    /// docs/methodology.md, "ministat": table 4.499, exact 4.501; and the usual table.
    #[test]
    fn table_values() {
        for (p, df, t) in [
            (0.999, 8.0, 4.501),
            (0.975, 1.0, 12.706),
            (0.975, 4.0, 2.776),
            (0.975, 8.0, 2.306),
            (0.80, 4.0, 0.941),
            (0.995, 100.0, 2.626),
        ] {
            assert!(
                (quantile(p, df) - t).abs() < 0.0005,
                "{p} {df}: {}",
                quantile(p, df)
            );
            assert!((quantile(1.0 - p, df) + t).abs() < 0.0005, "{p} {df}");
        }
        assert!((critical(Confidence::P95, 8.0) - 2.306_004_135_204_166).abs() < 1e-12);
        assert!((two_sided_p(2.306_004_135_204_166, 8.0) - 0.05).abs() < 1e-14);
    }

    #[test]
    fn large_df_meets_the_normal_distribution_without_a_step() {
        for t in [0.1, 1.0, 1.96, 4.0] {
            let below = upper_tail(t, NEARLY_NORMAL * 0.999_999);
            let above = upper_tail(t, NEARLY_NORMAL * 1.000_001);
            assert!((below / above - 1.0).abs() < 1e-9, "{t}: {below} {above}");
            assert_eq!(upper_tail(t, f64::INFINITY), normal::upper_tail(t));
        }
    }

    #[test]
    fn extremes_do_not_hang_or_panic() {
        assert_eq!(quantile(0.0, 3.0), f64::NEG_INFINITY);
        assert_eq!(quantile(1.0, 3.0), f64::INFINITY);
        assert_eq!(quantile(0.5, 3.0), 0.0);
        assert_eq!(upper_tail(f64::INFINITY, 3.0), 0.0);
        for bad in [
            quantile(-0.1, 3.0),
            quantile(0.9, 0.0),
            cdf(1.0, -1.0),
            cdf(f64::NAN, 1.0),
        ] {
            assert!(bad.is_nan());
        }
        assert!((quantile(1e-300, 1.0) / -(1e300 / PI) - 1.0).abs() < 1e-9);
        assert!(quantile(f64::MIN_POSITIVE, 1e9) < -37.0);
    }
}
