//! Where frames were lost: places, counters, and the ledger of one trial.
//!
//! Every frame that was sent is either received, or lost at a named place by a named counter, or unexplained. The
//! arithmetic that fills a [`Ledger`] from counters is in `fwdlab_measure::conservation`; this is only its vocabulary.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place on the way of a frame, in the order in which frames pass it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Between the generator and the DUT's forwarding: the DUT's input queue was full.
    DutInput,
    /// Inside the DUT.
    Dut,
    /// At the DUT's output: the queue towards the receiver was full.
    DutOutput,
    /// On our side, after the wire.
    Receiver,
}

impl Place {
    /// For people: "at the DUT's input".
    pub fn words(self) -> &'static str {
        match self {
            Place::DutInput => "at the DUT's input",
            Place::Dut => "in the DUT",
            Place::DutOutput => "at the DUT's output",
            Place::Receiver => "at the receiver",
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

/// Counters of all stages over one trial, from standstill to standstill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Frames the generator handed to its port, by its own count, and that should come back.
    pub generator_sent: u64,
    /// Frames it handed over beside these, which a router does not forward: broadcasts, queries to the DUT.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generator_beside: u64,
    /// Frames that were due and that the generator did not hand over.
    pub generator_not_sent: u64,
    /// How often frames were due and the generator's ring or queue had no room.
    #[serde(default)]
    pub generator_ring_full: u64,
    /// System calls by which the generator told the kernel to send.
    #[serde(default)]
    pub generator_wakeups: u64,
    /// `tx_packets` of the generator's port.
    pub generator_port_tx_packets: u64,
    /// `tx_dropped` of the generator's port: the other end's ring was full.
    pub generator_port_tx_dropped: u64,
    /// `rx_packets` of the DUT's input port.
    pub dut_in_rx_packets: u64,
    /// `rx_dropped` of the DUT's input port.
    pub dut_in_rx_dropped: u64,
    /// `tx_packets` of the DUT's output port.
    pub dut_out_tx_packets: u64,
    /// `tx_dropped` of the DUT's output port: the other end's ring was full.
    pub dut_out_tx_dropped: u64,
    /// `rx_packets` of the receiver's port.
    pub receiver_port_rx_packets: u64,
    /// Frames of this trial, by the receiver's own count.
    pub receiver_received: u64,
    /// Of these, frames of another length than sent.
    pub receiver_wrong_length: u64,
    /// Frames of an earlier trial.
    pub receiver_late: u64,
    /// Frames that are not ours.
    pub receiver_foreign: u64,
    /// Frames of this trial that the kernel dropped, by its own reasons; `None` where it could not be asked.
    pub drop_reasons: Option<Vec<Reason>>,
}

impl Counters {
    /// Those of several ways through the DUT, added up.
    pub fn total<'a>(all: impl IntoIterator<Item = &'a Counters>) -> Counters {
        let mut sum = Counters::default();
        for counters in all {
            sum.generator_sent += counters.generator_sent;
            sum.generator_beside += counters.generator_beside;
            sum.generator_not_sent += counters.generator_not_sent;
            sum.generator_ring_full += counters.generator_ring_full;
            sum.generator_wakeups += counters.generator_wakeups;
            sum.generator_port_tx_packets += counters.generator_port_tx_packets;
            sum.generator_port_tx_dropped += counters.generator_port_tx_dropped;
            sum.dut_in_rx_packets += counters.dut_in_rx_packets;
            sum.dut_in_rx_dropped += counters.dut_in_rx_dropped;
            sum.dut_out_tx_packets += counters.dut_out_tx_packets;
            sum.dut_out_tx_dropped += counters.dut_out_tx_dropped;
            sum.receiver_port_rx_packets += counters.receiver_port_rx_packets;
            sum.receiver_received += counters.receiver_received;
            sum.receiver_wrong_length += counters.receiver_wrong_length;
            sum.receiver_late += counters.receiver_late;
            sum.receiver_foreign += counters.receiver_foreign;
            for reason in counters.drop_reasons.iter().flatten() {
                let reasons = sum.drop_reasons.get_or_insert_default();
                match reasons.iter_mut().find(|r| r.reason == reason.reason) {
                    Some(known) => known.frames += reason.frames,
                    None => reasons.push(reason.clone()),
                }
            }
        }
        sum
    }
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
                match sum.losses.iter_mut().find(|l| l.place == loss.place) {
                    None => sum.losses.push(loss.clone()),
                    Some(known) => {
                        known.frames += loss.frames;
                        for reason in &loss.reasons {
                            match known.reasons.iter_mut().find(|r| r.reason == reason.reason) {
                                None => known.reasons.push(reason.clone()),
                                Some(same) => same.frames += reason.frames,
                            }
                        }
                    }
                }
            }
        }
        sum.losses.sort_by_key(|loss| loss.place);
        sum
    }
}
