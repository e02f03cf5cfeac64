//! Detects that the wall clock is set during a trial.
//!
//! Compares the wall clock with the monotonic clock, which is never set. Start with [`ClockWatch`].

use std::time::{Instant, SystemTime};

/// Detects steps of the wall clock: no duration of ours uses it, but a step means that someone
/// works on this host during the measurement.
pub(super) struct ClockWatch {
    wall: SystemTime,
    steady: Instant,
}

impl ClockWatch {
    /// Starts the comparison.
    pub fn new() -> Self {
        ClockWatch {
            wall: SystemTime::now(),
            steady: Instant::now(),
        }
    }

    /// Describes by how much the clock was set since; `None` if it was not.
    pub fn step(&self) -> Option<String> {
        let wall = match self.wall.elapsed() {
            Ok(forward) => forward.as_secs_f64(),
            Err(backward) => -backward.duration().as_secs_f64(),
        };
        let step = wall - self.steady.elapsed().as_secs_f64();
        (step.abs() > 0.1).then(|| format!("the clock was set by {step:+.1} s during the trial"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_undisturbed_clock_has_no_step() {
        let watch = ClockWatch::new();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(watch.step(), None);
        for (set, words) in [(3.0, "+3.0 s"), (-3.0, "-3.0 s")] {
            let by = Duration::from_secs(3);
            let wall = match set > 0.0 {
                true => watch.wall - by,
                false => watch.wall + by,
            };
            let step = ClockWatch { wall, ..watch }.step().unwrap();
            assert!(step.contains(words), "{step}");
        }
    }
}
