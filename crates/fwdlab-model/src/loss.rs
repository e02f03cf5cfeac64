//! Where frames were lost: places, counters, and the ledger of one trial.
//!
//! Every frame that was sent is either received, or lost at a place according to a counter, or
//! unexplained. `fwdlab_measure::conservation` fills a [`Ledger`] from a chain of [`Meter`]s; this
//! file only has the types. Start with [`Counters`] and [`Ledger`].

mod meter;

pub use self::meter::{Chain, Counters, INPUT_FULL, Meter, NotExact, Reading, Stage, VethCounts};

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place on the path of a frame, in the order in which frames pass it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Between the generator and the DUT's forwarding: the DUT's input queue was full.
    DutInput,
    /// Somewhere between two stages, because no meter between them is exact.
    Between(Stage, Stage),
    /// In another device of the test bed, by its usual name.
    In(String),
    /// Inside the DUT.
    Dut,
    /// At the DUT's output: the queue towards the receiver was full.
    DutOutput,
    /// In the tester, behind the wire.
    Receiver,
}

impl Place {
    /// Describes the place: "at the DUT's input".
    pub fn words(&self) -> Cow<'static, str> {
        match self {
            Place::DutInput => "at the DUT's input".into(),
            Place::Between(after, before) => format!("between {after} and {before}").into(),
            Place::In(device) => format!("in {device}").into(),
            Place::Dut => "in the DUT".into(),
            Place::DutOutput => "at the DUT's output".into(),
            Place::Receiver => "at the receiver".into(),
        }
    }
}

/// Frames lost for one reason, as named by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// The reason, such as `netfilter drop`.
    pub reason: String,
    /// Frames lost for this reason.
    pub frames: u64,
}

/// Frames lost at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// The place.
    pub place: Place,
    /// Number of lost frames.
    pub frames: u64,
    /// The counter, or the difference of counters, that shows the loss.
    pub counter: String,
    /// Reasons, if the kernel reports them; may add up to less than `frames`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(frames: &u64) -> bool {
    *frames == 0
}

/// Where every frame of one trial ended up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Frames that should have been sent (intended load × duration); absent when frames are sent as
    /// fast as possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_intended: Option<u64>,
    /// Frames among these that the generator did not send.
    pub frames_not_sent: u64,
    /// The generator was the bottleneck: it sent less than 99.5 % of the intended frames.
    #[serde(default)]
    pub gen_limited: bool,
    /// Frames handed to the generator's port.
    pub frames_sent: u64,
    /// Additional frames sent during the trial that a router does not forward. They count neither
    /// as sent nor as lost.
    #[serde(default, alias = "frames_beside", skip_serializing_if = "is_zero")]
    pub frames_additional: u64,
    /// Frames received.
    pub frames_received: u64,
    /// `frames_sent - frames_received`; negative when more frames came back.
    pub frames_lost: i64,
    /// Losses with a known place, in the order of the frames' path.
    pub losses: Vec<Loss>,
    /// Frames that no counter explains; any other value than 0 makes the trial invalid.
    pub frames_unexplained: u64,
    /// Meters that do not count exactly, and why. Losses at such a meter are only known to have
    /// occurred between two others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_exact: Vec<NotExact>,
}

impl Ledger {
    /// Adds up the ledgers of several trials; the result obeys the same conservation.
    pub fn total<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> Ledger {
        let mut sum = Ledger::default();
        for ledger in ledgers {
            if let Some(intended) = ledger.frames_intended {
                *sum.frames_intended.get_or_insert(0) += intended;
            }
            sum.frames_not_sent += ledger.frames_not_sent;
            sum.gen_limited |= ledger.gen_limited;
            sum.frames_sent += ledger.frames_sent;
            sum.frames_additional += ledger.frames_additional;
            sum.frames_received += ledger.frames_received;
            sum.frames_lost += ledger.frames_lost;
            sum.frames_unexplained += ledger.frames_unexplained;
            for loss in &ledger.losses {
                add(&mut sum.losses, loss);
            }
            for meter in &ledger.not_exact {
                let known = |m: &NotExact| (&m.stage, m.is_read) == (&meter.stage, meter.is_read);
                if !sum.not_exact.iter().any(known) {
                    sum.not_exact.push(meter.clone());
                }
            }
        }
        sum.losses.sort_by(|a, b| a.place.cmp(&b.place));
        sum
    }
}

/// Adds a loss to those with the same counter and place.
fn add(losses: &mut Vec<Loss>, loss: &Loss) {
    let same = |known: &&mut Loss| (&known.place, &known.counter) == (&loss.place, &loss.counter);
    match losses.iter_mut().find(same) {
        None => losses.push(loss.clone()),
        Some(known) => {
            known.frames += loss.frames;
            for reason in &loss.reasons {
                add_reason(&mut known.reasons, reason);
            }
        }
    }
}

fn add_reason(reasons: &mut Vec<Reason>, reason: &Reason) {
    match reasons.iter_mut().find(|r| r.reason == reason.reason) {
        None => reasons.push(reason.clone()),
        Some(known) => known.frames += reason.frames,
    }
}
