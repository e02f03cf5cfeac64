//! The procedures of RFC 2544 and of those that replace parts of it (RFC 6201, 8219, 9004), one file each.
//!
//! All of them measure one frame size under the conditions of a [`Setup`]; [`suite`] puts them one after the other over all
//! sizes. Definitions and formulas: docs/methodology.md, "RFC 2544 tests".

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

/// What the procedures of one frame size have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Frame size, FCS counted.
    pub frame_size: FrameSize,
    /// Frames per second of the full line; `None` where there is no line, as between namespaces.
    pub line_rate_pps: Option<f64>,
    /// What the tester can offer; the line rate where it reaches that.
    pub max_load_pps: f64,
    /// The rest.
    pub conditions: Conditions,
}

impl Setup {
    /// The rate of 100 %: the line's, or what the tester can offer where there is none.
    pub fn full_rate_pps(&self) -> f64 {
        self.line_rate_pps.unwrap_or(self.max_load_pps)
    }

    /// The largest load: no more than the line carries.
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

    /// A trial that the first lost frame decides.
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
