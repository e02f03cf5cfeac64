//! The intended load over time: how fast the frames of a schedule leave.
//!
//! [`crate::pacer`] turns it into due times. Start with [`LoadPlan`].

use std::sync::Arc;
use std::time::Duration;

use fwdlab_model::procedure::Stretch;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::pacer::{Curve, FRACTION, MOST_PPS, Plan};

/// The intended load over time, in frames per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LoadPlan {
    /// As fast as the engine can.
    FlatOut,
    /// One load from start to end, unless [`Sender::set_load`](crate::Sender::set_load) changes it.
    Constant(f64),
    /// Consecutive stretches; the final load of the last one continues until the schedule ends.
    /// Frame n leaves when the integral of the load has reached n.
    Stretches(Arc<[Stretch]>),
}

impl LoadPlan {
    /// Returns a plan of these stretches; if all have the same load, that constant load.
    pub fn from_stretches(stretches: Vec<Stretch>) -> LoadPlan {
        let first = stretches.first().map_or(0.0, |first| first.from_pps);
        let is_first = |stretch: &Stretch| stretch.from_pps == first && stretch.to_pps == first;
        match stretches.iter().all(is_first) && first > 0.0 {
            true => LoadPlan::Constant(first),
            false => LoadPlan::Stretches(stretches.into()),
        }
    }

    /// Returns the load at a time after the start; `None`: full speed.
    pub fn at(&self, elapsed: Duration) -> Option<f64> {
        let stretches = match self {
            LoadPlan::FlatOut => return None,
            LoadPlan::Constant(pps) => return Some(*pps),
            LoadPlan::Stretches(stretches) => stretches,
        };
        let mut left = elapsed.as_nanos().try_into().unwrap_or(u64::MAX);
        for stretch in stretches.iter() {
            match left.checked_sub(stretch.duration_ns) {
                None => return Some(stretch.load_at(left)),
                Some(rest) => left = rest,
            }
        }
        Some(stretches.last().map_or(0.0, |last| last.to_pps))
    }

    /// Returns the largest load; `None`: full speed.
    pub fn peak_pps(&self) -> Option<f64> {
        match self {
            LoadPlan::FlatOut => None,
            LoadPlan::Constant(pps) => Some(*pps),
            LoadPlan::Stretches(stretches) => {
                let ends = stretches.iter().flat_map(|s| [s.from_pps, s.to_pps]);
                Some(ends.fold(0.0, f64::max))
            }
        }
    }

    /// Returns the time after the start when this number of frames is due; `None`: full speed, or
    /// never.
    pub fn due_after(&self, frames: u64) -> Option<Duration> {
        match self {
            LoadPlan::FlatOut => None,
            LoadPlan::Constant(pps) => Duration::try_from_secs_f64(frames as f64 / pps).ok(),
            LoadPlan::Stretches(stretches) => {
                let mut curve = Curve::new(stretches);
                curve.advance(frames);
                let at = Some(curve.next()).filter(|at| *at < u64::MAX)?;
                Some(Duration::from_nanos(at >> FRACTION))
            }
        }
    }

    /// Returns true if frames leave as fast as the engine can.
    pub fn is_flat_out(&self) -> bool {
        *self == LoadPlan::FlatOut
    }

    /// Checks that senders can follow the plan.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let LoadPlan::Stretches(stretches) = self else {
            return Ok(());
        };
        let ends = stretches.iter().flat_map(|s| [s.from_pps, s.to_pps]);
        if let Some(load) = ends.into_iter().find(|pps| !(0.0..=MOST_PPS).contains(pps)) {
            return Err(EngineError::Frames(format!(
                "a stretch has a load of {load} frames/s; it must be between 0 and {MOST_PPS}"
            )));
        }
        match self.peak_pps() {
            Some(peak) if peak > 0.0 => Ok(()),
            _ => Err(EngineError::Frames(
                "no stretch has a load above 0, so nothing would be sent".into(),
            )),
        }
    }

    /// Returns the error of an engine that cannot change this load.
    pub(crate) fn unchangeable(&self) -> EngineError {
        EngineError::Frames(match self {
            LoadPlan::FlatOut => {
                "the sender was started flat out and has no load to change; start it with one".into()
            }
            _ => "the sender follows a load over time, which is not changed from outside; start it with one load".into(),
        })
    }
}

impl From<Option<f64>> for LoadPlan {
    /// This load, or full speed for `None`.
    fn from(load_pps: Option<f64>) -> LoadPlan {
        load_pps.map_or(LoadPlan::FlatOut, LoadPlan::Constant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_by_steps_and_by_ramps() {
        const TEN_S: u64 = 10_000_000_000;
        let stretch = |from_pps, to_pps| Stretch {
            duration_ns: TEN_S,
            from_pps,
            to_pps,
        };
        let steps = [100.0, 200.0, 400.0].map(|pps| stretch(pps, pps));
        let ramp = [stretch(100.0, 200.0), stretch(200.0, 400.0)];
        let at = |plan: &LoadPlan, seconds: f64| plan.at(Duration::from_secs_f64(seconds));
        let steps = LoadPlan::from_stretches(steps.into());
        for (seconds, load) in [(0.0, 100.0), (9.9, 100.0), (10.0, 200.0), (1e6, 400.0)] {
            assert_eq!(at(&steps, seconds), Some(load));
        }
        let ramp = LoadPlan::from_stretches(ramp.into());
        for (seconds, load) in [(5.0, 150.0), (15.0, 300.0), (25.0, 400.0)] {
            assert_eq!(at(&ramp, seconds), Some(load));
        }
        assert_eq!(ramp.peak_pps(), Some(400.0));
        assert_eq!(ramp.due_after(1500), Some(Duration::from_secs(10)));
        assert_eq!(
            LoadPlan::Constant(10.0).due_after(5),
            Some(Duration::from_millis(500))
        );
        assert_eq!(at(&LoadPlan::FlatOut, 5.0), None);
        let constant = LoadPlan::from_stretches(vec![stretch(5.0, 5.0); 3]);
        assert_eq!(constant, LoadPlan::Constant(5.0));
    }

    #[test]
    fn impossible_loads_are_refused() {
        let plan = |from_pps, to_pps| {
            LoadPlan::Stretches(Arc::new([Stretch {
                duration_ns: 1,
                from_pps,
                to_pps,
            }]))
        };
        for (from, to) in [(-1.0, 1.0), (1.0, f64::NAN), (0.0, 0.0), (1.0, 2e9)] {
            assert!(plan(from, to).check().is_err(), "{from} {to}");
        }
        assert!(plan(0.0, 1.0).check().is_ok());
    }
}
