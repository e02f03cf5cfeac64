//! The procedures of RFC 2544 and of those that replace parts of it (RFC 6201, 8219, 9004), one
//! file each.
//!
//! Each of them measures one frame size under the conditions of a [`Setup`]; [`suite`] runs them in
//! turn over all sizes. Definitions and formulas: docs/methodology.md, "RFC 2544 tests".

pub mod back_to_back;
pub mod bursts;
pub mod frame_loss;
pub mod latency;
pub mod recovery;
pub mod reset;
pub mod suite;
pub mod throughput;

use fwdlab_model::procedure::{Ending, Purpose, Question};
use fwdlab_model::units::FrameSize;

use crate::compliance::Conditions;
use crate::procedure::check_load;

/// The common parameters of the procedures for one frame size.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Frame size, including the FCS.
    pub frame_size: FrameSize,
    /// Frames per second of the full line; `None` if there is no line, as between namespaces.
    pub line_rate_pps: Option<f64>,
    /// The tester's limit; the line rate if it reaches that.
    pub max_load_pps: f64,
    /// The conditions of the series.
    pub conditions: Conditions,
}

impl Setup {
    /// Returns the rate of 100 %: the line rate, or the tester's limit if there is no line.
    pub fn full_rate_pps(&self) -> f64 {
        self.line_rate_pps.unwrap_or(self.max_load_pps)
    }

    /// Returns the largest load: no more than the line carries.
    pub fn largest_pps(&self) -> f64 {
        self.max_load_pps.min(self.full_rate_pps())
    }

    fn check(&self) -> Result<(), String> {
        check_load("the largest load", self.max_load_pps)?;
        self.line_rate_pps
            .map_or(Ok(()), |pps| check_load("the line rate", pps))
    }

    fn question(
        &self,
        load_pps: f64,
        duration_ns: u64,
        purpose: Purpose,
        reason: String,
    ) -> Question {
        Question {
            waits: self.conditions.waits,
            ..Question::constant(self.frame_size, load_pps, duration_ns, purpose, reason)
        }
    }

    /// Returns a trial that ends with the first lost frame.
    fn lossless_question(
        &self,
        load_pps: f64,
        duration_ns: u64,
        purpose: Purpose,
        reason: String,
    ) -> Question {
        Question {
            ending: Some(Ending::Lost { frames: 0 }),
            ..self.question(load_pps, duration_ns, purpose, reason)
        }
    }
}
