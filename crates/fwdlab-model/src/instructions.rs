//! Records of bursts with instruction counts: one per boot of a virtual machine.
//!
//! Instructions are not time: they show the length of a frame's path, and nothing about caches,
//! locks or several CPUs. `fwdlab_measure::exact` evaluates them. Start with [`BootRecord`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::Generator;
use crate::result::Validity;
use crate::stacks::{self, Profile};
use crate::trial::Stream;

/// The label with the number of frames of a burst, whose beginning and end are in the counts, too.
pub const BURST: &str = "burst";

/// The label with the sender of the bursts: the DUT executes different instructions for the frames
/// of different senders.
pub const GENERATOR: &str = "generator";

/// One boot of a virtual machine, with the measurements made on it: a line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BootRecord {
    /// Number of the boot, from 1.
    pub boot: u32,
    /// Start time (RFC 3339, UTC).
    pub started_at: String,
    /// Name of the test case.
    pub test_case: String,
    /// Number of the iteration, from 1.
    pub iteration: u32,
    /// True for the A/A control: the reference a second time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// True if the guest continued from the state of a boot that it shares with the other test
    /// cases of its image and iteration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The image, as typed.
    pub image: String,
    /// Release of the image's kernel.
    pub kernel: String,
    /// The sender of the bursts. Absent in runs before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// Ticks of the processor's counter per instruction: 1 if it counts instructions.
    pub ticks_per_instruction: f64,
    /// Time from starting the machine until it answered, in seconds of the host's clock; with that
    /// of the shared boot for the guest that waited for it.
    pub boot_s: f64,
    /// The test traffic.
    pub stream: Stream,
    /// Frames per burst.
    pub frames: u32,
    /// All bursts, in order.
    pub bursts: Vec<BurstRecord>,
    /// Instructions by function in the middle burst, without those of the tester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
    /// Whether the boot may be used.
    pub validity: Validity,
}

/// One burst.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstRecord {
    /// The path of the burst.
    pub way: Way,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Instructions from the sending call until the last frame arrived.
    pub instructions: u64,
}

/// The path of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Through the DUT.
    Through,
    /// From the generator directly to the receiver, bypassing the DUT.
    Past,
    /// Through a data plane that polls, with half the frames: shows whether its instructions are
    /// proportional to frames.
    Half,
}

/// The cost of a frame on a DUT, in instructions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exact {
    /// The image.
    pub image: String,
    /// Release of the image's kernel.
    pub kernel: String,
    /// The sender of the bursts. Absent in runs before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// Instructions that the DUT executes per frame: median of the bursts through it minus that of
    /// the bursts bypassing it.
    pub instructions_per_frame: f64,
    /// Uncertainty: lower and upper bound.
    pub interval: [f64; 2],
    /// Instructions per frame in bursts through the DUT, including generator and receiver.
    pub through_per_frame: f64,
    /// Instructions per frame of generator and receiver alone.
    pub tester_per_frame: f64,
    /// Frames per burst.
    pub frames: u32,
    /// Bursts through the DUT that count.
    pub bursts: u32,
    /// Initial bursts through the DUT that were discarded to warm up caches.
    pub warm_up: u32,
    /// Frames lost over frames sent through the DUT.
    pub frame_loss_ratio: f64,
    /// Instructions per frame on the DUT by function, excluding its callees, the largest first.
    /// Absent without a profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
    /// Additional cost compared with the reference. For the reference itself, the A/A control,
    /// measured in separate boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// Why it is not compared with the reference, although both have a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
}

impl Exact {
    /// Returns half the width of the interval.
    pub fn half_width(&self) -> f64 {
        (self.interval[1] - self.interval[0]) / 2.0
    }

    /// Returns the instructions by function; empty without a profile.
    pub fn profile(&self) -> Profile {
        let functions = self.functions.iter();
        functions
            .map(|f| (f.function.clone(), f.per_frame))
            .collect()
    }
}

/// Returns why counts of two senders are not comparable, by their names, if they have any: that of
/// the reference and the other one. A sender that only one of them recorded is unknown.
pub fn differing_generators(reference: Option<&str>, other: Option<&str>) -> Option<String> {
    let name = |generator: Option<&str>| match generator {
        Some(generator) => generator.to_owned(),
        None => "an unknown generator".to_owned(),
    };
    (reference != other).then(|| {
        format!(
            "its frames came from {}, those of the reference from {}, and the DUT executes different instructions for them. Count both with \
             the same one: generator = \"pktgen\" works on every kernel",
            name(other),
            name(reference)
        )
    })
}

/// Shares of lost frames that differ by more than this make counts incomparable. At this size they
/// change a count by less than two boots differ.
const LOSSES_ALIKE: f64 = 1e-4;

/// Returns why counts are not comparable if different shares of the frames were lost: those of the
/// reference and of the other one. Counts are per frame sent, and a lost frame takes other
/// instructions than a forwarded one. A loss that the reference does not have is never ignored.
pub fn differing_losses(reference: f64, other: f64) -> Option<String> {
    let lost = |ratio: f64| match ratio {
        0.0 => "none".to_owned(),
        ratio => {
            let percent = 100.0 * ratio;
            // two significant digits
            let digits = (1.0 - percent.log10().floor()).max(2.0) as usize;
            format!("{percent:.digits$} %")
        }
    };
    let is_new = (reference == 0.0) != (other == 0.0);
    let are_apart = (reference - other).abs() > LOSSES_ALIKE;
    (is_new || are_apart).then(|| {
        format!(
            "of its frames, {} were lost, of those of the reference {}, and instructions are per frame sent",
            lost(other),
            lost(reference)
        )
    })
}

/// Returns by how much functions differ between two profiles, if it is at least this much; the
/// largest difference first.
pub fn changes(before: &Profile, after: &Profile, least: f64) -> Vec<FunctionShare> {
    let rows = stacks::difference(before, after).into_iter();
    rows.filter(|row| row.difference().abs() >= least)
        .map(|row| FunctionShare {
            per_frame: row.difference(),
            function: row.function,
        })
        .collect()
}

/// Instructions of one function, excluding its callees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionShare {
    /// Name of the function, with its module: `nft_do_chain [nf_tables]`.
    pub function: String,
    /// Instructions per frame.
    pub per_frame: f64,
}

/// Additional instructions per frame compared with the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Name of the reference's test case.
    pub reference: String,
    /// Additional instructions per frame; negative means fewer.
    pub instructions_per_frame: f64,
    /// Uncertainty: lower and upper bound.
    pub interval: [f64; 2],
    /// The difference in percent of the reference.
    pub percent: f64,
    /// Proven: the uncertainty excludes zero.
    pub proven: bool,
    /// The difference by function, the largest first; absent without profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
}
