//! The contention gate: which windows the machine was quiet in.
//!
//! Shared virtual CPUs change their speed by 40 % within seconds. A probe measures the speed of the DUT's CPU before and
//! after every window; a window is quiet when both readings are near the machine's full speed. The choice looks at the
//! probe alone and never at the result, so it cannot flatter anybody. Start with [`Gate::calibrate`].

use stats::{Sample, Split, split};

/// A quiet reading is at least this share of the full speed. On the machines measured so far, quiet readings scatter by
/// 3 % and contended ones lie 15 to 55 % below.
const QUIET_SHARE: f64 = 0.93;

/// Fewest readings from which a threshold is drawn.
pub const MIN_READINGS: usize = 20;

/// The speed that separates quiet from contended.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    threshold: f64,
    words: String,
}

impl Gate {
    /// Finds the threshold from readings of the probe, and from nothing else.
    ///
    /// If the readings fall into two groups, full speed is the centre of the faster one; else it is their upper
    /// quartile. `None` with fewer than [`MIN_READINGS`].
    pub fn calibrate(readings: &[f64]) -> Option<Gate> {
        if readings.len() < MIN_READINGS {
            return None;
        }
        let sample = Sample::new(readings).ok().filter(|s| s.min() > 0.0)?;
        let gate = match split(&sample) {
            Split::Two {
                threshold,
                low_centre,
                high_centre,
                share_high,
            } => Gate {
                threshold: threshold.max(QUIET_SHARE * high_centre),
                words: format!(
                    "two speeds, {low_centre:.2} and {high_centre:.2} additions/ns; the CPU had the higher one in {:.0} % of {} readings",
                    100.0 * share_high,
                    sample.n()
                ),
            },
            Split::Uniform => Gate {
                threshold: QUIET_SHARE * sample.quantile(0.75),
                words: format!(
                    "one speed, {:.2} additions/ns (upper quartile of {} readings)",
                    sample.quantile(0.75),
                    sample.n()
                ),
            },
        };
        Some(gate)
    }

    /// Additions per nanosecond from which on a reading is quiet.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// How the threshold was found, for people.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Was the CPU at full speed on both sides of a window?
    pub fn passes(&self, before: f64, after: f64) -> bool {
        before.min(after) >= self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(slow: usize, fast: usize) -> Vec<f64> {
        let spread =
            |centre: f64, i: usize| centre * (1.0 + 0.02 * ((i * 7 % 11) as f64 / 5.0 - 1.0));
        (0..slow)
            .map(|i| spread(9.0, i))
            .chain((0..fast).map(|i| spread(17.5, i)))
            .collect()
    }

    #[test]
    fn two_speeds_are_told_apart() {
        let gate = Gate::calibrate(&readings(40, 60)).unwrap();
        assert!(
            gate.threshold() > 15.0 && gate.threshold() < 17.0,
            "{gate:?}"
        );
        assert!(gate.passes(17.5, 17.2) && !gate.passes(17.5, 9.1) && !gate.passes(9.0, 17.5));
    }

    #[test]
    fn one_speed_passes_itself() {
        let all = readings(0, 100);
        let gate = Gate::calibrate(&all).unwrap();
        assert!(all.iter().all(|&r| gate.passes(r, r)), "{gate:?}");
        assert!(!gate.passes(14.0, 17.5));
    }

    #[test]
    fn too_few_or_senseless_readings_give_no_gate() {
        assert_eq!(Gate::calibrate(&readings(0, 19)), None);
        assert_eq!(Gate::calibrate(&[0.0; 50]), None);
        assert_eq!(Gate::calibrate(&[f64::NAN; 50]), None);
    }
}
