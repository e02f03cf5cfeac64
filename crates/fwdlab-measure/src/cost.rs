//! The cost of a parameter: the shape of the time per frame over its values, and its size with an
//! interval.
//!
//! Time per frame is the reciprocal of the rate: a constant cost per rule is a line in it, and a
//! hyperbola in frames per second. Noise is assumed to be relative to the time, so that slow points
//! do not outweigh the others. Of four shapes, the one with the smallest Bayesian information
//! criterion is chosen, if it fits the points: otherwise each stretch of values has its own slope.
//! Start with [`fit`].

use fwdlab_model::outcome::{Cost, Stretch, Sweep};
use fwdlab_stats::{Confidence, student};

/// The relative precision of rates: shapes that fit better than this are equal, and the simplest is
/// chosen.
const RESOLUTION: f64 = 1e-6;

/// A cost is reported only if its criterion is better by this than that of no cost: positive
/// evidence (Kass and Raftery 1995).
const EVIDENCE: f64 = 2.0;

/// A run: value of the parameter and frames per second.
pub type Run = (u64, f64);

/// A shape fails visibly if it misses a point by more than this share of its time, and by more than
/// the point's own interval: the resolution of rate searches is as large.
const VISIBLE: f64 = 0.01;

/// Probability of rejecting a correct shape because it misses one of the points.
const FALSE_ALARM: f64 = 0.01;

/// Returns the cost of a unit of this parameter: the shape that explains the runs best. `None` with
/// fewer than three values or runs without a rate, and for a parameter that is meant to increase
/// the rate.
pub fn parameter_cost(parameter: &str, runs: &[Run]) -> Option<Cost> {
    match Sweep::is_resource_sweep(parameter) {
        true => None,
        false => fit(runs),
    }
}

/// Returns the shape that explains the runs best; `None` with fewer than three values or runs
/// without a rate.
pub fn fit(runs: &[Run]) -> Option<Cost> {
    let mut values: Vec<u64> = runs.iter().map(|(value, _)| *value).collect();
    values.sort_unstable();
    values.dedup();
    if values.len() < 3 || runs.iter().any(|(_, pps)| *pps <= 0.0) {
        return None;
    }
    let times: Vec<f64> = runs.iter().map(|(_, pps)| 1e9 / pps).collect();
    let weights: Vec<f64> = times.iter().map(|time| time.powi(-2)).collect();
    let n = times.len() as f64;
    let least = n * RESOLUTION.powi(2);
    let criterion =
        |residue: f64, parameters: f64| n * (residue.max(least) / n).ln() + parameters * n.ln();
    let nothing = vec![0.0; times.len()];
    let level = Line::fit_line(&nothing, &times, &weights);
    let mean = level.at_zero;

    let constant = Cost::Constant { frame_ns: mean };
    let mut best = (criterion(level.residue, 1.0) - EVIDENCE, constant);
    let mut consider = |criterion: f64, cost: Option<Cost>| {
        if let Some(cost) = cost
            && criterion < best.0
        {
            best = (criterion, cost);
        }
    };
    let linear: Vec<f64> = runs.iter().map(|(value, _)| *value as f64).collect();
    let line = Line::fit_line(&linear, &times, &weights);
    consider(
        criterion(line.residue, 2.0),
        line.is_rising().then(|| Cost::Linear {
            frame_ns: line.at_zero,
            unit_ns: line.slope,
            unit_ns_interval: line.interval(),
        }),
    );
    let doublings: Vec<f64> = linear.iter().map(|value| value.max(1.0).log2()).collect();
    let line = Line::fit_line(&doublings, &times, &weights);
    consider(
        criterion(line.residue, 2.0),
        line.is_rising().then(|| Cost::Logarithmic {
            frame_ns: line.at_zero,
            doubling_ns: line.slope,
            doubling_ns_interval: line.interval(),
        }),
    );
    // the position of a cliff is a choice among several, which counts as a parameter
    let chosen = 2.0 * (values.len() as f64 - 1.0).ln();
    for pair in values.windows(2) {
        let part = |beyond: bool| {
            let of = runs
                .iter()
                .zip(&times)
                .filter(|((value, _), _)| (*value > pair[0]) == beyond);
            let times: Vec<f64> = of.map(|(_, time)| *time).collect();
            let weights: Vec<f64> = times.iter().map(|time| time.powi(-2)).collect();
            Line::fit_line(&vec![0.0; times.len()], &times, &weights)
        };
        let (before, after) = (part(false), part(true));
        let (low, high) = (before.at_zero, after.at_zero);
        let residue = before.residue + after.residue;
        consider(
            criterion(residue, 3.0) + chosen,
            (high > low).then_some(Cost::Cliff {
                frame_ns: low,
                beyond_ns: high,
                last_before: pair[0],
                first_after: pair[1],
            }),
        );
    }
    let repeated = Repeated::from_runs(&values, runs, &times);
    Some(match repeated.misses(|value| time_at(&best.1, value)) {
        false => best.1,
        true => Cost::Stretches {
            frame_ns: repeated.points.first()?.time,
            stretches: repeated.stretches(),
        },
    })
}

/// Returns the time per frame of a shape, in nanoseconds.
fn time_at(cost: &Cost, value: u64) -> f64 {
    match *cost {
        Cost::Constant { frame_ns } | Cost::Stretches { frame_ns, .. } => frame_ns,
        Cost::Linear {
            frame_ns, unit_ns, ..
        } => frame_ns + unit_ns * value as f64,
        Cost::Logarithmic {
            frame_ns,
            doubling_ns,
            ..
        } => frame_ns + doubling_ns * (value as f64).max(1.0).log2(),
        Cost::Cliff {
            frame_ns,
            beyond_ns,
            last_before,
            ..
        } => match value <= last_before {
            true => frame_ns,
            false => beyond_ns,
        },
    }
}

/// All runs at one value.
struct Point {
    value: u64,
    /// Mean time per frame, in nanoseconds.
    time: f64,
    runs: f64,
}

/// The result of repeated runs, independent of the shape.
struct Repeated {
    points: Vec<Point>,
    /// Standard deviation of a run, as a share of its time; `None` if no value was measured twice.
    deviation: Option<f64>,
    freedom: f64,
}

impl Repeated {
    fn from_runs(values: &[u64], runs: &[Run], times: &[f64]) -> Repeated {
        let mut squares = 0.0;
        let points: Vec<Point> = (values.iter())
            .map(|&value| {
                let own = || {
                    let all = runs.iter().zip(times);
                    all.filter(move |((at, _), _)| *at == value)
                        .map(|(_, time)| *time)
                };
                let runs = own().count() as f64;
                let time = own().sum::<f64>() / runs;
                squares += own().map(|one| (one / time - 1.0).powi(2)).sum::<f64>();
                Point { value, time, runs }
            })
            .collect();
        let freedom = (runs.len() - points.len()) as f64;
        Repeated {
            points,
            deviation: (freedom > 0.0).then(|| (squares / freedom).sqrt().max(RESOLUTION)),
            freedom,
        }
    }

    /// Returns true if a shape visibly misses one of the points, by more than chance explains.
    fn misses(&self, shape: impl Fn(u64) -> f64) -> bool {
        self.miss(&self.points, shape)
    }

    fn miss(&self, points: &[Point], shape: impl Fn(u64) -> f64) -> bool {
        let level = 1.0 - FALSE_ALARM / self.points.len() as f64;
        let (Some(deviation), Some(confidence)) = (self.deviation, Confidence::new(level)) else {
            return false;
        };
        let half = student::critical(confidence, self.freedom) * deviation;
        points.iter().any(|point| {
            let off = (shape(point.value) / point.time - 1.0).abs();
            off > VISIBLE + half / point.runs.sqrt()
        })
    }

    fn line(points: &[Point]) -> Line {
        let of = |of: fn(&Point) -> f64| points.iter().map(of).collect::<Vec<f64>>();
        Line::fit_line(
            &of(|point| point.value as f64),
            &of(|point| point.time),
            &of(|point| point.runs * point.time.powi(-2)),
        )
    }

    /// Returns the longest stretches that a line fits, from the smallest value on.
    fn stretches(&self) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        let mut first = 0;
        while first + 1 < self.points.len() {
            let mut last = first + 1;
            while last + 1 < self.points.len() {
                let longer = &self.points[first..=last + 1];
                let line = Repeated::line(longer);
                if self.miss(longer, |value| line.at_zero + line.slope * value as f64) {
                    break;
                }
                last += 1;
            }
            let points = &self.points[first..=last];
            let line = Repeated::line(points);
            let deviation = self.deviation.unwrap_or_default();
            let half = student::critical(Confidence::P95, self.freedom) * deviation / line.spread;
            stretches.push(Stretch {
                from: points[0].value,
                to: points[points.len() - 1].value,
                unit_ns: line.slope,
                unit_ns_interval: (line.slope - half, line.slope + half),
            });
            first = last;
        }
        stretches
    }
}

/// A line by weighted least squares.
struct Line {
    at_zero: f64,
    slope: f64,
    residue: f64,
    /// Standard error of the slope, and its degrees of freedom.
    error: f64,
    freedom: f64,
    /// Root of the weighted sum of squared deviations of x: an error in y changes the slope by that
    /// error divided by this.
    spread: f64,
}

impl Line {
    fn fit_line(x: &[f64], y: &[f64], weights: &[f64]) -> Line {
        let all: f64 = weights.iter().sum();
        let mean = |of: &[f64]| of.iter().zip(weights).map(|(v, w)| v * w).sum::<f64>() / all;
        let (mean_x, mean_y) = (mean(x), mean(y));
        let points = || x.iter().zip(y).zip(weights);
        let xx: f64 = points().map(|((x, _), w)| w * (x - mean_x).powi(2)).sum();
        let xy: f64 = points()
            .map(|((x, y), w)| w * (x - mean_x) * (y - mean_y))
            .sum();
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        let at_zero = mean_y - slope * mean_x;
        let residue = points()
            .map(|((x, y), w)| w * (y - at_zero - slope * x).powi(2))
            .sum::<f64>();
        let freedom = x.len() as f64 - 2.0;
        Line {
            at_zero,
            slope,
            residue,
            error: (residue / freedom / xx).sqrt(),
            freedom,
            spread: xx.sqrt(),
        }
    }

    fn is_rising(&self) -> bool {
        self.slope > 0.0
    }

    /// Returns the slope's 95 % interval.
    fn interval(&self) -> (f64, f64) {
        let confidence = Confidence::new(0.95).expect("0.95 is a confidence");
        let half = student::critical(confidence, self.freedom) * self.error;
        (self.slope - half, self.slope + half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Random;

    const VALUES: [u64; 8] = [0, 1, 5, 10, 25, 50, 100, 200];

    fn runs(time_ns: impl Fn(u64) -> f64, noise: f64, seed: u64) -> Vec<Run> {
        let mut random = Random::new(seed);
        let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        VALUES
            .iter()
            .flat_map(|&value| [value; 3])
            .map(|value| {
                // nearly normal: the sum of twelve
                let normal: f64 = (0..12).map(|_| unit()).sum::<f64>() - 6.0;
                (value, 1e9 / time_ns(value) * (1.0 + noise * normal))
            })
            .collect()
    }

    #[test]
    fn the_line_of_a_textbook() {
        // Anscombe's first: y = 3.0001 + 0.5001 x, standard error of the slope 0.1179
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [
            8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68,
        ];
        let line = Line::fit_line(&x, &y, &[1.0; 11]);
        let close = |value: f64, expect: f64| assert!((value - expect).abs() < 5e-5, "{value}");
        close(line.at_zero, 3.0001);
        close(line.slope, 0.5001);
        close(line.error, 0.1179);
        // t with 9 degrees of freedom: 2.262
        assert!((line.interval().1 - (0.50009 + 2.262 * 0.11791)).abs() < 1e-4);
    }

    #[test]
    fn each_shape_is_known_again() {
        let noises = [(0.0, 1), (0.002, 20)];
        for (noise, seeds) in noises {
            let (mut right, mut covered) = ([0; 4], 0);
            for seed in 0..seeds {
                let of = |time: &dyn Fn(u64) -> f64| fit(&runs(time, noise, seed)).unwrap();
                right[0] += i32::from(matches!(of(&|_| 800.0), Cost::Constant { .. }));
                if let Cost::Linear {
                    unit_ns,
                    unit_ns_interval: (low, high),
                    ..
                } = of(&|rules| 800.0 + 20.0 * rules as f64)
                {
                    right[1] += 1;
                    assert!((unit_ns - 20.0).abs() < 0.5, "{unit_ns}");
                    covered += i32::from(low - 1e-9 <= 20.0 && 20.0 <= high + 1e-9);
                }
                let log = of(&|entries| 800.0 + 30.0 * (entries.max(1) as f64).log2());
                right[2] += i32::from(matches!(log, Cost::Logarithmic { .. }));
                let cliff = of(&|entries| if entries > 25 { 1600.0 } else { 800.0 });
                right[3] += i32::from(matches!(
                    cliff,
                    Cost::Cliff {
                        last_before: 25,
                        first_after: 50,
                        ..
                    }
                ));
            }
            for (shape, right) in right.into_iter().enumerate() {
                assert!(
                    right * 10 >= seeds as i32 * 9,
                    "shape {shape}, noise {noise}: {right} of {seeds}"
                );
            }
            assert!(covered * 10 >= seeds as i32 * 8, "{covered} of {seeds}");
        }
    }

    /// The case of the issue: 20 ns a rule, and a cliff. A line through both fits neither.
    #[test]
    fn a_line_that_misses_its_points_is_no_cost_of_one() {
        let actual = |rules: u64| {
            let cliff = if rules > 25 { 1.5 } else { 1.0 };
            cliff * (800.0 + 20.0 * rules as f64)
        };
        for (noise, seed) in [(0.0, 1), (0.002, 2), (0.002, 3)] {
            let Some(Cost::Stretches {
                frame_ns,
                stretches,
            }) = fit(&runs(actual, noise, seed))
            else {
                panic!("{:?}", fit(&runs(actual, noise, seed)))
            };
            assert!((frame_ns / 800.0 - 1.0).abs() < 0.01, "{frame_ns}");
            let reported: Vec<(u64, u64)> = stretches.iter().map(|s| (s.from, s.to)).collect();
            assert_eq!(reported, [(0, 25), (25, 50), (50, 200)]);
            for (stretch, slope) in [(stretches[0], 20.0), (stretches[2], 30.0)] {
                let (low, high) = stretch.unit_ns_interval;
                assert!(low - 0.5 < slope && slope < high + 0.5, "{stretch:?}");
                assert!((stretch.unit_ns / slope - 1.0).abs() < 0.05, "{stretch:?}");
            }
        }
    }

    #[test]
    fn cores_cost_nothing() {
        assert!(parameter_cost("rules", &runs(|_| 800.0, 0.0, 1)).is_some());
        assert_eq!(parameter_cost("cores", &runs(|_| 800.0, 0.0, 1)), None);
    }

    #[test]
    fn no_shape_without_figures() {
        assert_eq!(fit(&[(0, 1e6), (1, 9e5), (1, 9e5)]), None);
        assert_eq!(fit(&[(0, 1e6), (1, 9e5), (2, 0.0)]), None);
    }
}
