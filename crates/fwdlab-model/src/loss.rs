//! Where frames were lost: places, counters, and the ledger of one trial.
//!
//! Every frame that was sent is either received, or lost at a place according to a counter, or
//! unexplained. `fwdlab_measure::conservation` fills a [`Ledger`] from a chain of [`Meter`]s; this
//! file only has the types. Start with [`Counters`] and [`Ledger`].

mod meter;

pub use self::meter::{Chain, Counters, Meter, NotExact, Reading, Stage, VethCounts};

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place on the way of a frame, in the order in which frames pass it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Between the generator and the DUT's forwarding: the DUT's input queue was full.
    DutInput,
    /// Somewhere between two stages, for no meter between them is exact.
    Between(Stage, Stage),
    /// In another device of the bed, as people call it.
    In(String),
    /// Inside the DUT.
    Dut,
    /// At the DUT's output: the queue towards the receiver was full.
    DutOutput,
    /// On our side, after the wire.
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

/// Frames lost for one reason, in the kernel's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// The reason, such as `netfilter drop`.
    pub reason: String,
    /// Frames lost for it.
    pub frames: u64,
}

/// Frames lost at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Where.
    pub place: Place,
    /// How many.
    pub frames: u64,
    /// The counter, or the difference of counters, that says so.
    pub counter: String,
    /// Why, where the kernel tells; may add up to less than `frames`.
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

/// What became of every frame of one trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Frames that should have been sent (intended load × duration); absent when flat out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_intended: Option<u64>,
    /// Of these, frames that the generator did not send.
    pub frames_not_sent: u64,
    /// The generator was the bottleneck: it sent less than 99.5 % of what was intended.
    #[serde(default)]
    pub gen_limited: bool,
    /// Frames handed to the generator's port.
    pub frames_sent: u64,
    /// Frames handed over beside these, which a router does not forward; they are neither sent nor lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frames_beside: u64,
    /// Frames that came back.
    pub frames_received: u64,
    /// `frames_sent - frames_received`; negative when more came back.
    pub frames_lost: i64,
    /// Named losses, in the order of the way.
    pub losses: Vec<Loss>,
    /// Frames that no counter explains; anything but 0 makes the trial invalid.
    pub frames_unexplained: u64,
    /// Meters that say nothing to the frame, and why: what was lost beside them is only known to be between two others.
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
            sum.frames_beside += ledger.frames_beside;
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
