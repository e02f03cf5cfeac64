//! The protocol between a host and its agent, over one stream of bytes.
//!
//! The stream may be a port of a virtual machine, a pipe or a serial line. Questions are answered
//! in order. [`connection`] is the asking side, [`super::Remote`] makes it a host. The answering
//! side is [`crate::agent`]. Start with [`Question`].

pub mod connection;
pub(crate) mod rig;

use std::time::Duration;

pub(crate) use fwdlab_engine::part::message::{BEAT, receive, send};
use fwdlab_engine::{Addresses, Burst, part};
use fwdlab_model::campaign::Generator;
use fwdlab_model::trial::Stream;
use serde::{Deserialize, Serialize};

use super::{Command, Failure, ProcessEnd};
use crate::networks::Side;

/// A question to an agent. The content of a file follows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// Identify yourself.
    Hello,
    /// Run a command to its end.
    Run { place: Place, command: Command },
    /// Start a command and do not wait for its end.
    Start { place: Place, command: Command },
    /// Return the next line of its output.
    Next { process: u32, patience_ms: u64 },
    /// End it.
    End { process: u32 },
    /// Return the content of a file.
    Read { place: Place, path: String },
    /// Write the bytes that follow to this file.
    Write { place: Place, path: String },
    /// Store the bytes that follow as a file of this name, for commands; return its path.
    Put { name: String, executable: bool },
    /// Open sender and receivers for bursts, which answer later questions about bursts.
    OpenBursts {
        paths: Vec<Path>,
        addresses: Addresses,
        stream: Stream,
        generator: Generator,
        /// The data plane on the first path, a process that polls, and how many of its first
        /// threads do not.
        poller: Option<(u32, usize)>,
    },
    /// Send a number of frames into a path, and answer with their cost.
    Burst { path: usize, frames: u32 },
    /// Do nothing for this time, by the agent's own clock.
    Rest { time_ms: u64 },
    /// Close them.
    CloseBursts,
    /// A question to a rig.
    Rig(rig::Question),
    /// A question to a part of a tester; frames follow it.
    Part(part::Question),
    /// Reserve this port for a test bed, or answer why it cannot be used.
    Claim {
        port: (Place, String),
        networks: Vec<Network>,
    },
    /// Answer the DUT's ARP and neighbour discovery on this port until the ports are released; ask
    /// for the DUT's own MAC address, if it is unknown.
    Meet {
        port: (Place, String),
        side: Side,
        asks: bool,
    },
    /// Release all reserved ports.
    Release,
    /// Listen for frames that are not part of a test.
    Hear {
        ports: Vec<(Place, String)>,
        time_ms: u64,
    },
    /// End the machine.
    PowerOff,
}

/// A network namespace of the machine: the initial one, or the named one.
pub type Place = Option<String>;

/// A path through a DUT: namespace and interface of sender and receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Path {
    /// Where frames are sent.
    pub tx: (Place, String),
    /// Where they should arrive.
    pub rx: (Place, String),
}

/// A network of a test bed: its address and prefix length.
pub(crate) type Network = (std::net::Ipv4Addr, u8);

/// Frames of one kind that arrived at a port without a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Noise {
    /// The port.
    pub port: String,
    /// Their kind: `STP`, `LLDP`.
    pub what: String,
    /// Their number.
    pub frames: u64,
}

/// The answer of an agent. Bytes of files and of output follow it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// Its identity.
    Hello(Hello),
    /// A command succeeded; the first `stdout` bytes are its standard output, the rest its standard
    /// error.
    Output { stdout: usize },
    /// A command is running.
    Started { process: u32 },
    /// A line of its output.
    Line(String),
    /// No output within the time.
    Silence,
    /// It has ended.
    Ended(ProcessEnd),
    /// The path of a file.
    Path(String),
    /// The sender of bursts.
    Sends(Generator),
    /// The result of a burst.
    Burst(Burst),
    /// The answer of a rig.
    Rig(rig::Answer),
    /// The answer of a part of a tester.
    Part(part::Answer),
    /// Frames that are not part of a test.
    Heard(Vec<Noise>),
    /// The MAC address of the DUT's port, if it was asked and answered.
    Met(Option<[u8; 6]>),
    /// It could not be done.
    Failed(Failure),
}

/// The identity of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version of the program.
    pub version: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Ticks of its processor's counter per instruction.
    pub per_instruction: f64,
    /// Number of CPUs.
    pub cpus: usize,
    /// The identity of its CLOCK_MONOTONIC: agents with equal values share a clock.
    #[serde(default)]
    pub clock: String,
}

/// Name of the guest's channel, as set when the machine was started.
pub(crate) const CHANNEL: &str = "fwdlab";

/// How often the asking side sends a beat while it waits.
pub(crate) const BEAT_EVERY: Duration = Duration::from_millis(200);

/// An agent that sends frames and receives neither question nor beat for this time stops them and
/// ends.
pub(crate) const DEAF_FOR: Duration = Duration::from_millis(900);

/// Returns the identity of the CLOCK_MONOTONIC that a process of this machine reads: the boot id
/// and the offset of its time namespace.
pub(crate) fn clock() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let offset = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let offset: Vec<&str> = offset.split_whitespace().collect();
    format!("{} {}", boot.trim(), offset.join(" "))
}
