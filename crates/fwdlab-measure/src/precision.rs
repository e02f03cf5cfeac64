//! Decides when a test case has been measured often enough: the interval of its figure is narrow
//! enough, or the maximum is reached.
//!
//! The figure is the first one of the test case, and its interval Student's 95 % interval of the
//! mean over its good iterations. Checking after every iteration and stopping at the first narrow
//! interval stops too early when it is narrow by chance, and such intervals contain the mean less
//! often: of 95 % intervals 93 % with at least ten values, and 92 % with five (the tests here count
//! them). Intervals of figures in percent, such as differences from a reference, are in points: a
//! share of a difference near zero is meaningless. Start with [`evaluate`].

use fwdlab_model::campaign::{Order, UntilPrecise};
use fwdlab_model::outcome::{Figure, Outcome, Unit};
use fwdlab_model::test_case::{Enough, Iteration, Stopped};
use fwdlab_stats::{Confidence, Sample};

use crate::trust;

/// The precision of a test case so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Precision {
    /// Its figure: the first of its first good iteration.
    pub figure: Option<Figure>,
    /// Half of the interval, in percent of the mean, or in points; `None` if there is no interval,
    /// or the mean is zero.
    pub half_width_percent: Option<f64>,
    /// True if that is narrow enough, with the minimum number of values.
    pub is_narrow: bool,
}

/// Evaluates the iterations of a test case so far.
pub fn evaluate(iterations: &[Iteration], until: &UntilPrecise) -> Precision {
    let good = || iterations.iter().filter(|one| one.failure.is_none());
    let figures = |one: &Iteration| -> Vec<Figure> {
        one.outcomes.iter().flat_map(Outcome::figures).collect()
    };
    let first = good().find_map(|one| figures(one).into_iter().next());
    let Some(first) = first else {
        return Precision {
            figure: None,
            half_width_percent: None,
            is_narrow: false,
        };
    };
    let own = |one: &Iteration| {
        let mut all = figures(one).into_iter();
        all.find(|other| (&other.name, other.unit) == (&first.name, first.unit))
    };
    let values: Vec<f64> = good().filter_map(own).map(|figure| figure.value).collect();
    let half_width_percent = half_width_percent(&values, first.unit);
    let requested = 100.0 * until.width.0;
    Precision {
        is_narrow: values.len() >= until.min as usize
            && half_width_percent.is_some_and(|half| half <= requested),
        half_width_percent,
        figure: Some(first),
    }
}

/// Returns true if a turn of windows is skipped because the precision is sufficient. `known`: for
/// each test case whether it is known precisely enough, and how often it was measured. The first
/// one and its control are a pair, and show how quiet the machine was for all: interleaved, they
/// are measured as long as any other is; grouped, the control as often as its test case.
pub fn leaves_out(
    (case, is_control): (usize, bool),
    iteration: u32,
    known: &[(bool, u32)],
    order: Order,
) -> bool {
    match (order, is_control, case) {
        (Order::Grouped, true, _) => iteration > known[case].1,
        (Order::Interleaved, _, 0) => known.iter().all(|(is_known, _)| *is_known),
        _ => known[case].0,
    }
}

/// Returns why a test case was measured this often. `is_judged_again`: at the end, with readings
/// that were not available when it stopped.
pub fn stopped(
    iterations: &[Iteration],
    until: &UntilPrecise,
    most: u32,
    is_judged_again: bool,
) -> Stopped {
    let found = evaluate(iterations, until);
    let made = iterations.len() as u32;
    Stopped {
        why: match found.is_narrow {
            true => Enough::NarrowEnough,
            false if made >= most => Enough::Maximum,
            false if is_judged_again => Enough::JudgedAgain,
            false => Enough::Stopped,
        },
        iterations: made,
        figure: found.figure.map(|figure| figure.name).unwrap_or_default(),
        half_width_percent: found.half_width_percent,
        requested_percent: 100.0 * until.width.0,
    }
}

fn half_width_percent(values: &[f64], unit: Unit) -> Option<f64> {
    if values.len() < trust::FEWEST_VALUES {
        return None;
    }
    let sample = Sample::new(values.to_vec()).ok()?;
    let half = sample.mean_interval(Confidence::P95)?.half_width();
    match unit {
        Unit::Percent => Some(half),
        _ if half == 0.0 => Some(0.0),
        _ => Some(100.0 * half / sample.mean().abs()).filter(|percent| percent.is_finite()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fwdlab_model::campaign::HalfWidth;
    use fwdlab_model::outcome::{Compliance, Found, SingleTrial};
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::variant::Variant;

    use super::*;
    use crate::order::Random;

    fn until(percent: f64, min: u32) -> UntilPrecise {
        UntilPrecise {
            width: HalfWidth(percent / 100.0),
            min,
        }
    }

    pub(crate) fn iteration(iteration: u32, pps: Option<f64>) -> Iteration {
        let outcome = |pps| Outcome {
            frame_size_bytes: FrameSize::MIN,
            variant: Variant::default(),
            found: Found::Trial(SingleTrial {
                intended_load_pps: 1e6,
                offered_load_pps: 1e6,
                forwarding_rate_pps: pps,
                frame_loss_ratio: 0.0,
                directions: Vec::new(),
                duration_s: 1.0,
                delays: None,
                samples: Vec::new(),
            }),
            verdict: String::new(),
            answered: true,
            not_applicable: false,
            compliance: Compliance::default(),
            warnings: Vec::new(),
            trials: 1,
        };
        Iteration {
            iteration,
            failure: pps.is_none().then(|| "link down".into()),
            outcomes: pps.map(outcome).into_iter().collect(),
            ..Iteration::default()
        }
    }

    fn made(values: &[Option<f64>]) -> Vec<Iteration> {
        let numbered = values.iter().zip(1..);
        numbered.map(|(pps, n)| iteration(n, *pps)).collect()
    }

    /// 99, 100, 101, 99, 101: mean 100, standard deviation 1, so ±1.2416 (t with 4 degrees of
    /// freedom 2.7764).
    #[test]
    fn a_test_case_is_known_when_its_interval_is_narrow() {
        let values = [99.0, 100.0, 101.0, 99.0, 101.0].map(Some);
        let found = evaluate(&made(&values), &until(1.3, 5));
        let half = found.half_width_percent.unwrap();
        assert!((half - 1.2416).abs() < 1e-3, "{half}");
        assert!(found.is_narrow);
        assert!(!evaluate(&made(&values), &until(1.2, 5)).is_narrow);
        // too few values, even if the interval is narrow
        assert!(!evaluate(&made(&values[..4]), &until(50.0, 5)).is_narrow);
        // an iteration without a result has no value
        let mut failed = values.to_vec();
        failed[2] = None;
        assert!(!evaluate(&made(&failed), &until(50.0, 5)).is_narrow);
        failed.push(Some(100.0));
        let found = evaluate(&made(&failed), &until(1.3, 5));
        assert!(found.is_narrow && found.figure.unwrap().name == "forwarding rate");
    }

    #[test]
    fn nothing_and_zero_have_no_share() {
        assert_eq!(evaluate(&[], &until(1.0, 5)).half_width_percent, None);
        let failed = made(&[None; 9]);
        assert!(!evaluate(&failed, &until(1.0, 5)).is_narrow);
        let zeros = made(&[Some(0.0); 9]);
        assert!(
            !evaluate(&zeros, &until(1.0, 5)).is_narrow,
            "nothing forwarded is no figure"
        );
        let around_zero = made(&[-1.0, 1.0, -1.0, 1.0, -1.0, 1.0].map(Some));
        assert!(!evaluate(&around_zero, &until(50.0, 5)).is_narrow);
    }

    /// For a figure in percent the interval is in points: a difference of about 0 % is known to
    /// half a percent of the reference.
    #[test]
    fn differences_are_known_in_points() {
        let differences = [0.1, -0.1, 0.2, -0.2, 0.0];
        let half = half_width_percent(&differences, Unit::Percent).unwrap();
        assert!((half - 0.1963).abs() < 1e-3, "{half}");
        assert!(half_width_percent(&differences, Unit::Nanoseconds).is_none_or(|half| half > 1e3));
    }

    #[test]
    fn a_control_is_measured_while_it_is_informative() {
        let of = |case, is_control, known: &[(bool, u32)], order| {
            leaves_out((case, is_control), 12, known, order)
        };
        let (known, unknown) = ((true, 11), (false, 11));
        let interleaved = Order::Interleaved;
        for is_control in [false, true] {
            assert!(!of(0, is_control, &[known, unknown], interleaved));
            assert!(of(0, is_control, &[known, known], interleaved));
        }
        assert!(of(1, false, &[unknown, known], interleaved));
        assert!(!of(1, false, &[known, unknown], interleaved));
        // grouped, nothing is known about the others when the first one is measured
        assert!(of(0, false, &[known, (false, 0)], Order::Grouped));
        assert!(of(0, true, &[(false, 11), unknown], Order::Grouped));
        assert!(!of(0, true, &[(true, 12), unknown], Order::Grouped));
    }

    #[test]
    fn the_reason_of_the_end_is_recorded() {
        let narrow = made(&[100.0, 100.1, 99.9, 100.0, 100.0].map(Some));
        let reason = |made: &[Iteration], most| stopped(made, &until(1.0, 5), most, false).why;
        assert_eq!(reason(&narrow, 50), Enough::NarrowEnough);
        assert_eq!(reason(&narrow, 5), Enough::NarrowEnough);
        let wide = made(&[90.0, 110.0, 95.0, 105.0, 100.0].map(Some));
        assert_eq!(reason(&wide, 5), Enough::Maximum);
        assert_eq!(reason(&wide, 9), Enough::Stopped);
        let judged_again = stopped(&wide, &until(1.0, 5), 9, true);
        assert_eq!(judged_again.why, Enough::JudgedAgain);
        let reported = stopped(&wide, &until(1.0, 5), 5, true);
        assert_eq!((reported.iterations, reported.requested_percent), (5, 1.0));
        assert!(reported.half_width_percent.unwrap() > 9.0);
    }

    /// Returns the percentage of campaigns whose final interval contains the mean, and after how
    /// many iterations they end.
    fn coverage(variation_percent: f64, min: u32, most: usize, campaigns: usize) -> (f64, f64) {
        let until = until(1.0, min);
        let mut random = Random::new(20_261_123);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let (mut hold, mut all) = (0, 0);
        for _ in 0..campaigns {
            let mut values: Vec<f64> = Vec::new();
            while values.len() < most {
                let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * uniform()).cos();
                values.push(100.0 + variation_percent * normal);
                let half = half_width_percent(&values, Unit::FramesPerSecond);
                let requested = 100.0 * until.width.0;
                if values.len() >= until.min as usize && half.is_some_and(|half| half <= requested)
                {
                    break;
                }
            }
            all += values.len();
            let sample = Sample::new(values).unwrap();
            let interval = sample.mean_interval(Confidence::P95).unwrap();
            hold += usize::from(interval.low <= 100.0 && 100.0 <= interval.high);
        }
        let share = |n: usize| n as f64 / campaigns as f64;
        (100.0 * share(hold), share(all))
    }

    /// Checks docs/methodology.md: the real coverage of 95 % intervals that are checked after every
    /// iteration, in the worst case, which is where some 10 to 35 iterations are needed. The table
    /// there is from 6000 campaigns each.
    #[test]
    fn sequential_intervals_have_their_nominal_coverage() {
        let mean = |min| {
            let all = [1.5, 2.0, 2.5, 3.0].map(|variation| coverage(variation, min, 50, 1000).0);
            all.iter().sum::<f64>() / 4.0
        };
        let fixed = coverage(2.0, 20, 20, 1000).0;
        assert!((93.8..=96.2).contains(&fixed), "not looked at: {fixed}");
        for (min, right) in [(3, 90.7), (5, 92.3), (10, 93.7)] {
            let found = mean(min);
            assert!((found - right).abs() < 0.9, "{min}: {found}, not {right}");
        }
        // and it takes no more iterations than necessary: (1.96 * 2 / 1)² are 15, and some for t
        let (_, made) = coverage(2.0, 10, 50, 200);
        assert!((14.0..=20.0).contains(&made), "{made}");
    }
}
