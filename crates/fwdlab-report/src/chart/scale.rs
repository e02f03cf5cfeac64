//! A linear scale that begins and ends at ticks, which are 1, 2 or 5 times a power of ten apart.
//!
//! `axis` adds the labels. Start with [`Scale::covering`].

use crate::number::round_up;

/// A linear scale that begins and ends at ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    /// Returns the scale that covers `values` with about `ticks` ticks. Ignores values that are not
    /// finite.
    pub fn covering(values: impl IntoIterator<Item = f64>, ticks: u32) -> Scale {
        let (low, high) = values
            .into_iter()
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let (low, high) = match () {
            () if low > high => (0.0, 1.0),
            () if low == high => (low.min(0.0), if high > 0.0 { high } else { high + 1.0 }),
            () => (low, high),
        };
        let step = round_up((high - low) / f64::from(ticks));
        Scale {
            low: (low / step + 1e-9).floor() * step,
            high: (high / step - 1e-9).ceil() * step,
            step,
        }
    }

    /// Starts the scale at `least` if it starts lower, for values that cannot be smaller.
    pub fn not_below(self, least: f64) -> Scale {
        Scale {
            low: self.low.max(least),
            ..self
        }
    }

    /// Multiplies every value by `factor`.
    pub fn times(self, factor: f64) -> Scale {
        Scale {
            low: self.low * factor,
            high: self.high * factor,
            step: self.step * factor,
        }
    }

    /// Returns the distance between two ticks.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Returns the left end.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Returns the right end.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Returns the ticks, from the left.
    pub fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let step = self.step;
        // multiples of the step, so that zero is exactly zero
        let first = (self.low / step - 1e-9).ceil();
        let count = ((self.high / step + 1e-9).floor() - first) as u32;
        (0..=count).map(move |index| (first + f64::from(index)) * step)
    }

    /// Returns the position of a value, in percent of the width; values outside are clamped to the
    /// ends.
    pub fn percent(&self, value: f64) -> f64 {
        (100.0 * (value - self.low) / (self.high - self.low)).clamp(0.0, 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_1_2_5_and_hold_the_values() {
        let check = |low: f64, high: f64, expect: &[f64]| {
            let scale = Scale::covering([low, high], 5);
            let ticks: Vec<f64> = scale.ticks().collect();
            assert_eq!(ticks.len(), expect.len(), "{ticks:?}");
            for (tick, expect) in ticks.iter().zip(expect) {
                assert!((tick - expect).abs() <= 1e-9 * expect.abs(), "{ticks:?}");
            }
        };
        check(0.0, 1.8e6, &[0.0, 0.5e6, 1.0e6, 1.5e6, 2.0e6]);
        check(0.0, 1.0, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(-2.9, 1.2, &[-3.0, -2.0, -1.0, 0.0, 1.0, 2.0]);
        check(-38.0, 31.0, &[-40.0, -20.0, 0.0, 20.0, 40.0]);
        check(5.0, 5.0, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn no_tick_is_outside_the_possible_values() {
        let ticks = |low, high| {
            let scale = Scale::covering([low, high], 7).not_below(-100.0);
            scale.ticks().collect::<Vec<_>>()
        };
        assert_eq!(
            ticks(-90.0, 900.0),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
        );
        assert_eq!(
            ticks(-65.0, 200.0),
            [-100.0, -50.0, 0.0, 50.0, 100.0, 150.0, 200.0]
        );
    }

    #[test]
    fn no_values_and_no_numbers_still_give_a_scale() {
        for values in [
            vec![],
            vec![f64::NAN],
            vec![0.0],
            vec![-3.0],
            vec![f64::INFINITY, 7.0],
        ] {
            let scale = Scale::covering(values.clone(), 5);
            assert!(scale.ticks().count() >= 2, "{values:?}: {scale:?}");
            assert!((0.0..=100.0).contains(&scale.percent(0.0)));
        }
    }
}
