//! The counters of a trial as a chain of meters, from the generator to the receiver.
//!
//! A [`Meter`] is a counter at one stage of the frames' path: its reading in the trial, and how
//! reliable that is. The chain is data, so that a bed with a switch has more stages, and a DUT
//! without a login has fewer readings; `fwdlab_measure::conservation` evaluates it. Start with
//! [`Counters`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Loss, Place, Reason};

/// A stage of the frames' path, where a meter can be.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The generator's own counter.
    Generator,
    /// The port that the generator sends on.
    GeneratorPort,
    /// The port where frames enter the DUT.
    DutInput,
    /// The port where frames leave the DUT.
    DutOutput,
    /// The port that the receiver listens on.
    ReceiverPort,
    /// The receiver's own counter.
    Receiver,
    /// Any other stage, by its usual name: `the switch's port 12`.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Generator => "the generator",
            Stage::GeneratorPort => "the generator's port",
            Stage::DutInput => "the DUT's input",
            Stage::DutOutput => "the DUT's output",
            Stage::ReceiverPort => "the receiver's port",
            Stage::Receiver => "the receiver",
            Stage::Other(name) => name,
        })
    }
}

/// The reading of a meter over a trial, and how reliable it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Reading {
    /// It counts exactly the frames of the trial: conservation must hold to the frame.
    Exact {
        /// Frames that passed.
        passed: u64,
    },
    /// It also counts other frames, or is off by a factor: for information only, never to judge
    /// validity.
    Approximate {
        /// Frames that passed, according to the meter.
        passed: u64,
        /// Why it is approximate.
        why: String,
    },
    /// It was not read.
    Absent {
        /// Why it was not read.
        why: String,
    },
}

/// A counter at one stage, over one trial; read while no frames flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Meter {
    /// Its stage.
    pub stage: Stage,
    /// Name of the counter: `rx_packets`.
    pub counter: String,
    /// Its reading.
    #[serde(flatten)]
    pub reading: Reading,
    /// Frames that reached this stage and were dropped there, by a counter of drops; 0 means that
    /// such a counter was read and found none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Loss>,
    /// The device between the previous meter and this one, if frames can be lost in it; absent for
    /// a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across: Option<Place>,
}

impl Meter {
    /// Returns a meter behind a wire that counted `passed` frames exactly, and has no counter of
    /// drops.
    pub fn exact(stage: Stage, counter: &str, passed: u64) -> Meter {
        Meter {
            stage,
            counter: counter.into(),
            reading: Reading::Exact { passed },
            dropped: Vec::new(),
            across: None,
        }
    }

    /// Adds a count of frames that it dropped.
    #[must_use]
    pub fn and_dropped(mut self, place: Place, frames: u64, counter: &str) -> Meter {
        self.dropped.push(Loss {
            place,
            frames,
            counter: counter.into(),
            reasons: Vec::new(),
        });
        self
    }

    /// Adds a device before it.
    #[must_use]
    pub fn behind(self, device: Place) -> Meter {
        Meter {
            across: Some(device),
            ..self
        }
    }

    /// Returns the frames that left here; `None` if it was not read.
    pub fn passed(&self) -> Option<u64> {
        match self.reading {
            Reading::Exact { passed } | Reading::Approximate { passed, .. } => Some(passed),
            Reading::Absent { .. } => None,
        }
    }

    /// Returns the frames that left here, if conservation must hold for it.
    pub fn exactly(&self) -> Option<u64> {
        match self.reading {
            Reading::Exact { passed } => Some(passed),
            _ => None,
        }
    }

    /// Returns the frames in its counters of drops.
    pub fn frames_dropped(&self) -> u64 {
        self.dropped.iter().map(|loss| loss.frames).sum()
    }

    /// Marks it as not read, for this reason.
    pub fn is_not_read(&mut self, reason: &str) {
        self.reading = Reading::Absent { why: reason.into() };
        self.dropped.clear();
    }

    /// Marks its reading as approximate, for this reason.
    pub fn is_approximate(&mut self, reason: String) {
        if let Reading::Exact { passed } = self.reading {
            self.reading = Reading::Approximate {
                passed,
                why: reason,
            };
        }
    }

    /// Returns why conservation need not hold for it, if so.
    pub fn not_exact(&self) -> Option<NotExact> {
        let (is_read, reason) = match &self.reading {
            Reading::Exact { .. } => return None,
            Reading::Approximate { why: reason, .. } => (true, reason),
            Reading::Absent { why: reason } => (false, reason),
        };
        Some(NotExact {
            stage: self.stage.clone(),
            is_read,
            why: reason.clone(),
        })
    }

    /// Adds the reading at the same stage of another direction.
    fn add(&mut self, other: &Meter) {
        let passed = self.passed().zip(other.passed());
        let doubt = match self.passed() {
            None => self.not_exact(),
            Some(_) => other.not_exact().or_else(|| self.not_exact()),
        };
        self.reading = match (passed, doubt.map(|doubt| doubt.why)) {
            (Some((one, two)), None) => Reading::Exact { passed: one + two },
            (Some((one, two)), Some(reason)) => Reading::Approximate {
                passed: one + two,
                why: reason,
            },
            (None, reason) => Reading::Absent {
                why: reason.unwrap_or_default(),
            },
        };
        for loss in &other.dropped {
            super::add(&mut self.dropped, loss);
        }
    }
}

/// A meter for which conservation need not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotExact {
    /// Its stage.
    pub stage: Stage,
    /// True if it was read and is approximate, false if it was not read.
    pub is_read: bool,
    /// The reason.
    pub why: String,
}

impl NotExact {
    /// Returns `approximate` or `not read`.
    pub fn reliability(&self) -> &'static str {
        match self.is_read {
            true => "approximate",
            false => "not read",
        }
    }
}

/// For people: `the DUT's input: not read: it has no login`.
impl fmt::Display for NotExact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.stage, self.reliability(), self.why)
    }
}

/// The meters between generator and receiver, in the order in which frames pass them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Chain {
    /// The existing meters, from the generator's port to the receiver's.
    pub meters: Vec<Meter>,
}

impl Chain {
    /// Returns the meter at a stage.
    pub fn at(&self, stage: &Stage) -> Option<&Meter> {
        self.meters.iter().find(|meter| meter.stage == *stage)
    }

    /// Returns the frames that left a stage according to its meter, if it was read.
    pub fn passed(&self, stage: &Stage) -> Option<u64> {
        self.at(stage)?.passed()
    }

    /// Marks the meters of these stages as not read.
    pub fn not_read(&mut self, stages: &[Stage], reason: &str) {
        for meter in &mut self.meters {
            if stages.contains(&meter.stage) {
                meter.is_not_read(reason);
            }
        }
    }

    fn add(&mut self, other: &Chain) {
        for meter in &other.meters {
            match self.meters.iter_mut().find(|m| m.stage == meter.stage) {
                Some(known) => known.add(meter),
                None => self.meters.push(meter.clone()),
            }
        }
    }
}

/// Also reads records of format 1, whose counters were those of a bed of veths.
impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Chain, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Stored {
            Chain { meters: Vec<Meter> },
            Format1(VethCounts),
        }
        Ok(match Stored::deserialize(deserializer)? {
            Stored::Chain { meters } => Chain { meters },
            Stored::Format1(counts) => counts.chain(),
        })
    }
}

/// The counter of frames that found the DUT's input full, if only the generator's port shows it.
pub const INPUT_FULL: &str = "tx_dropped of the generator's port: input ring full";

/// Counts of the four ports of a veth test bed, one way, with the names in records of format 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct VethCounts {
    /// `tx_packets` of the generator's port.
    pub generator_port_tx_packets: u64,
    /// `tx_dropped` of the generator's port: the peer's ring was full.
    pub generator_port_tx_dropped: u64,
    /// `rx_packets` of the DUT's input port.
    pub dut_in_rx_packets: u64,
    /// `rx_dropped` of the DUT's input port: the same frames as `tx_dropped` of the peer.
    pub dut_in_rx_dropped: u64,
    /// `tx_packets` of the DUT's output port.
    pub dut_out_tx_packets: u64,
    /// `tx_dropped` of the DUT's output port: the peer's ring was full.
    pub dut_out_tx_dropped: u64,
    /// `rx_packets` of the receiver's port.
    pub receiver_port_rx_packets: u64,
}

impl VethCounts {
    /// Returns the chain of a bed with veth ports: a frame that finds the ring full is counted at
    /// both ends.
    pub fn chain(&self) -> Chain {
        let full = match self.dut_in_rx_dropped {
            same if same == self.generator_port_tx_dropped => {
                "tx_dropped of the generator's port and rx_dropped of the DUT's input, which agree: input ring full"
            }
            _ => INPUT_FULL,
        };
        let mut input = Meter::exact(Stage::DutInput, "rx_packets", self.dut_in_rx_packets);
        // behind a wire only the DUT knows what it dropped; on veth nothing is missing between both
        let missing = (self.generator_port_tx_packets).saturating_sub(self.dut_in_rx_packets);
        let only_here = (self.dut_in_rx_dropped).saturating_sub(self.generator_port_tx_dropped);
        if missing.min(only_here) > 0 {
            let counter = "drops of the DUT's input, which received them";
            input = input.and_dropped(Place::DutInput, missing.min(only_here), counter);
        }
        Chain {
            meters: vec![
                Meter::exact(
                    Stage::GeneratorPort,
                    "tx_packets",
                    self.generator_port_tx_packets,
                )
                .and_dropped(Place::DutInput, self.generator_port_tx_dropped, full),
                input,
                Meter::exact(Stage::DutOutput, "tx_packets", self.dut_out_tx_packets)
                    .and_dropped(
                        Place::DutOutput,
                        self.dut_out_tx_dropped,
                        "tx_dropped of the DUT's output: the receiver's ring was full",
                    )
                    .behind(Place::Dut),
                Meter::exact(
                    Stage::ReceiverPort,
                    "rx_packets",
                    self.receiver_port_rx_packets,
                ),
            ],
        }
    }
}

/// All counters of one trial, read while no frames flow: those of generator and receiver, which are
/// always exact, and the meters between them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Frames that the generator handed to its port, by its own count, and that should come back.
    pub generator_sent: u64,
    /// Additional frames that the generator handed over and a router does not forward: broadcasts,
    /// queries to the DUT.
    #[serde(
        default,
        alias = "generator_beside",
        skip_serializing_if = "super::is_zero"
    )]
    pub generator_additional: u64,
    /// Frames that were due but that the generator did not hand over.
    pub generator_not_sent: u64,
    /// How often frames were due while the generator's ring or queue was full.
    #[serde(default)]
    pub generator_ring_full: u64,
    /// System calls of the generator to make the kernel send.
    #[serde(default)]
    pub generator_wakeups: u64,
    /// The meters between generator and receiver.
    #[serde(flatten)]
    pub chain: Chain,
    /// Frames of this trial, by the receiver's own count.
    pub receiver_received: u64,
    /// Frames among these whose length differs from that sent.
    pub receiver_wrong_length: u64,
    /// Frames of an earlier trial.
    pub receiver_late: u64,
    /// Frames that are not ours.
    pub receiver_foreign: u64,
    /// Frames of this trial that the kernel dropped, by its own reasons; absent when they could not
    /// be read.
    pub drop_reasons: Option<Vec<Reason>>,
}

impl Counters {
    /// Adds up the counters of several directions through the DUT.
    pub fn total<'a>(all: impl IntoIterator<Item = &'a Counters>) -> Counters {
        let mut sum = Counters::default();
        for counters in all {
            sum.generator_sent += counters.generator_sent;
            sum.generator_additional += counters.generator_additional;
            sum.generator_not_sent += counters.generator_not_sent;
            sum.generator_ring_full += counters.generator_ring_full;
            sum.generator_wakeups += counters.generator_wakeups;
            sum.chain.add(&counters.chain);
            sum.receiver_received += counters.receiver_received;
            sum.receiver_wrong_length += counters.receiver_wrong_length;
            sum.receiver_late += counters.receiver_late;
            sum.receiver_foreign += counters.receiver_foreign;
            for reason in counters.drop_reasons.iter().flatten() {
                super::add_reason(sum.drop_reasons.get_or_insert_default(), reason);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn black_box() -> Counters {
        let mut chain = VethCounts {
            generator_port_tx_packets: 10,
            receiver_port_rx_packets: 8,
            ..VethCounts::default()
        }
        .chain();
        chain.not_read(&[Stage::DutInput, Stage::DutOutput], "a black box");
        Counters {
            generator_sent: 10,
            chain,
            receiver_received: 8,
            ..Counters::default()
        }
    }

    #[test]
    fn unread_meters_have_no_number_on_disk() {
        let counters = black_box();
        let json = serde_json::to_value(&counters).unwrap();
        let input = &json["meters"][1];
        assert_eq!(
            (&input["stage"], &input["standing"], input.get("passed")),
            (&"dut_input".into(), &"absent".into(), None)
        );
        assert_eq!(json["meters"][0]["passed"], 10);
        let back: Counters = serde_json::from_value(json).unwrap();
        assert_eq!(back, counters);
    }

    #[test]
    fn a_sum_with_a_part_that_was_not_read_is_not_known() {
        let whole = Counters {
            chain: VethCounts::default().chain(),
            ..Counters::default()
        };
        for order in [[&black_box(), &whole], [&whole, &black_box()]] {
            let sum = Counters::total(order);
            assert_eq!(sum.chain.passed(&Stage::GeneratorPort), Some(10));
            assert_eq!(sum.chain.passed(&Stage::DutInput), None);
            let words = sum.chain.meters[1].not_exact().unwrap().to_string();
            assert_eq!(words, "the DUT's input: not read: a black box");
        }
    }

    #[test]
    fn a_stage_that_we_have_no_name_for_keeps_its_own() {
        let stage = Stage::Other("the switch's port 12".into());
        let json = serde_json::to_string(&stage).unwrap();
        assert_eq!(json, "\"the switch's port 12\"");
        assert_eq!(serde_json::from_str::<Stage>(&json).unwrap(), stage);
        assert_eq!(
            serde_json::from_str::<Stage>("\"dut_input\"").unwrap(),
            Stage::DutInput
        );
    }

    #[test]
    fn counters_of_format_1_become_a_chain() {
        let text = r#"{"generator_sent":12,"generator_not_sent":0,"generator_port_tx_packets":10,"generator_port_tx_dropped":2,
            "dut_in_rx_packets":10,"dut_in_rx_dropped":2,"dut_out_tx_packets":9,"dut_out_tx_dropped":0,
            "receiver_port_rx_packets":9,"receiver_received":9,"receiver_wrong_length":0,"receiver_late":0,"receiver_foreign":0,
            "drop_reasons":null}"#;
        let counters: Counters = serde_json::from_str(text).unwrap();
        let passed = |meter: &Meter| meter.exactly().unwrap();
        let all: Vec<u64> = counters.chain.meters.iter().map(passed).collect();
        assert_eq!(all, [10, 10, 9, 9]);
        assert_eq!(counters.chain.meters[0].frames_dropped(), 2);
    }
}
