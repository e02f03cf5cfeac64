//! The readings of a simulated test bed's counters: correct, off by a factor, missing, or with
//! foreign frames.
//!
//! Turns the truth of a trial into the counters that a tester would have; interpreting them is up
//! to the caller. Start with [`Simulation::counters`].

use std::fmt;
use std::str::FromStr;

use fwdlab_model::loss::{Counters, Stage, VethCounts};

use super::{Counts, Simulation};

/// Behaviour of the DUT's own counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counting {
    /// Exact.
    #[default]
    Exact,
    /// They report 1000 frames for this number.
    PerThousand(u32),
    /// They cannot be read: a black box.
    Nobody,
}

/// Frames in every trial that are not of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// Number of frames.
    pub frames: u64,
    /// Port where they are added.
    pub at: Port,
}

/// A port on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// The generator's: it sends them itself, and they end in the DUT.
    Generator,
    /// The DUT's input: they end in the DUT.
    DutInput,
    /// The DUT's output: the DUT sends them, and the receiver counts them.
    DutOutput,
    /// The receiver's: something behind the DUT sends them, and the receiver counts them.
    Receiver,
}

/// All ports, with their names in specifications.
const PORTS: [(Port, &str); 4] = [
    (Port::Generator, "generator-port"),
    (Port::DutInput, "dut-input"),
    (Port::DutOutput, "dut-output"),
    (Port::Receiver, "receiver-port"),
];

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = PORTS.iter().find(|(port, _)| port == self);
        f.write_str(of.map_or("", |(_, name)| name))
    }
}

impl FromStr for Port {
    type Err = ();
    fn from_str(text: &str) -> Result<Port, ()> {
        let of = PORTS.iter().find(|(_, name)| *name == text);
        of.map(|(port, _)| *port).ok_or(())
    }
}

impl Simulation {
    /// Returns the counters of a trial in which `beside` frames were sent in addition to those that
    /// come back.
    pub fn counters(&self, counts: &Counts, beside: u64) -> Counters {
        let into_dut = counts.sent - counts.lost_at_input + beside;
        let mut ports = VethCounts {
            generator_port_tx_packets: into_dut,
            generator_port_tx_dropped: counts.lost_at_input,
            dut_in_rx_packets: into_dut,
            dut_in_rx_dropped: counts.lost_at_input,
            dut_out_tx_packets: counts.received,
            dut_out_tx_dropped: 0,
            receiver_port_rx_packets: counts.received,
        };
        let foreign = self.dut().foreign.map_or(0, |foreign| {
            join(&mut ports, foreign);
            match foreign.at {
                Port::Generator | Port::DutInput => 0,
                Port::DutOutput | Port::Receiver => foreign.frames,
            }
        });
        if let Counting::PerThousand(frames) = self.dut().counters {
            inflate_forwarded(&mut ports, frames);
        }
        let mut chain = ports.chain();
        if self.dut().counters == Counting::Nobody {
            chain.not_read(
                &[Stage::DutInput, Stage::DutOutput],
                "the DUT is a black box that cannot be queried",
            );
        }
        Counters {
            generator_sent: counts.sent,
            generator_additional: beside,
            generator_not_sent: counts.not_sent(),
            chain,
            receiver_received: counts.received,
            receiver_foreign: foreign,
            ..Counters::default()
        }
    }
}

/// Foreign frames pass the ports from where they are added to where they end.
fn join(ports: &mut VethCounts, Foreign { frames, at }: Foreign) {
    match at {
        Port::Generator => {
            ports.generator_port_tx_packets += frames;
            ports.dut_in_rx_packets += frames;
        }
        Port::DutInput => ports.dut_in_rx_packets += frames,
        Port::DutOutput => {
            ports.dut_out_tx_packets += frames;
            ports.receiver_port_rx_packets += frames;
        }
        Port::Receiver => ports.receiver_port_rx_packets += frames,
    }
}

/// Makes the DUT report 1000 frames for this number.
fn inflate_forwarded(ports: &mut VethCounts, frames: u32) {
    for count in [
        &mut ports.dut_in_rx_packets,
        &mut ports.dut_in_rx_dropped,
        &mut ports.dut_out_tx_packets,
    ] {
        *count = (*count as f64 * 1000.0 / f64::from(frames)).round() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(dut: &str, sent: u64) -> Counters {
        let counts = Counts {
            intended: sent,
            sent,
            received: sent,
            ..Counts::default()
        };
        Simulation::new(dut.parse().unwrap()).counters(&counts, 0)
    }

    fn passed(counters: &Counters) -> Vec<Option<u64>> {
        let meters = counters.chain.meters.iter();
        meters.map(|meter| meter.passed()).collect()
    }

    #[test]
    fn counters_lie_or_are_not_there() {
        // docs/methodology.md, "Units and line rates": 564842 in units of 1024 are 551.6 K
        let lying = passed(&counters("counters=1024", 564_842));
        assert_eq!(lying, [564_842, 551_604, 551_604, 564_842].map(Some));
        let black_box = passed(&counters("counters=none", 10));
        assert_eq!(black_box, [Some(10), None, None, Some(10)]);
    }

    #[test]
    fn frames_of_others_pass_the_ports_from_where_they_join() {
        for (at, ports, seen) in [
            ("generator-port", [12, 12, 10, 10], 0),
            ("dut-input", [10, 12, 10, 10], 0),
            ("dut-output", [10, 10, 12, 12], 2),
            ("receiver-port", [10, 10, 10, 12], 2),
        ] {
            let counters = counters(&format!("foreign=2@{at}"), 10);
            assert_eq!(passed(&counters), ports.map(Some), "{at}");
            assert_eq!(counters.receiver_foreign, seen, "{at}");
        }
    }
}
