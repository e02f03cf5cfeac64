//! Records of bursts with instruction counts: one per boot of a virtual machine.
//!
//! Instructions are not time: they show the length of a frame's path, and nothing about caches,
//! locks or several CPUs. `fwdlab_measure::exact` evaluates them. Start with [`BootRecord`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::Validity;
use crate::trial::Stream;

/// A boot of a virtual machine, with what was measured on it: a line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BootRecord {
    /// Which boot, from 1.
    pub boot: u32,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// Name of the test case.
    pub test_case: String,
    /// Which iteration of it, from 1.
    pub iteration: u32,
    /// It is the reference once more, for the A/A control.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The image, as it was asked for.
    pub image: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Ticks of the processor's counter per instruction: 1 where it counts instructions.
    pub ticks_per_instruction: f64,
    /// From the start of the machine until it answered, in seconds of the host.
    pub boot_s: f64,
    /// What was sent.
    pub stream: Stream,
    /// Frames of a burst.
    pub frames: u32,
    /// All bursts, in order.
    pub bursts: Vec<BurstRecord>,
    /// Instructions by function of the burst in the middle, those of the tester subtracted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
    /// May it be used?
    pub validity: Validity,
}

/// A burst.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstRecord {
    /// Where it went.
    pub way: Way,
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that came back.
    pub received: u64,
    /// Instructions from the call that sends until the last frame was there.
    pub instructions: u64,
}

/// Where a burst goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Through the DUT.
    Through,
    /// From the generator to the receiver, past the DUT.
    Past,
}

/// What a frame costs a DUT in instructions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exact {
    /// The image.
    pub image: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Instructions that the DUT executes for a frame: median of the bursts through it less that of those past it.
    pub instructions_per_frame: f64,
    /// Its uncertainty: lower and upper end.
    pub interval: [f64; 2],
    /// Of bursts through the DUT, generator and receiver included.
    pub through_per_frame: f64,
    /// Of generator and receiver alone.
    pub tester_per_frame: f64,
    /// Frames of a burst.
    pub frames: u32,
    /// Bursts through the DUT that count.
    pub bursts: u32,
    /// Bursts through the DUT that were left out at the beginning: caches warmed up.
    pub warm_up: u32,
    /// Frames lost over frames sent through the DUT.
    pub frame_loss_ratio: f64,
    /// Instructions of the DUT for a frame by function, the most first: what each takes by itself. Absent where no profile was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
    /// What it costs more than the reference; of the reference itself the A/A control, in boots of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// What a function takes by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionShare {
    /// Its name, with its module: `nft_do_chain [nf_tables]`.
    pub function: String,
    /// Instructions per frame.
    pub per_frame: f64,
}

/// How many instructions more a frame costs than with the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Name of the reference's test case.
    pub reference: String,
    /// Instructions more per frame; negative: less.
    pub instructions_per_frame: f64,
    /// Its uncertainty: lower and upper end.
    pub interval: [f64; 2],
    /// The same in percent of the reference.
    pub percent: f64,
    /// The uncertainty does not reach to zero.
    pub proven: bool,
    /// In which functions, the largest differences first; absent without profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
}
