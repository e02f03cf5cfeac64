//! The protocol between a host and its agent, over one stream of bytes.
//!
//! The stream may be a port of a virtual machine, a pipe or a serial line; who carries it does not matter here. One question is answered
//! after the other. [`connection`] is the asking side; as a host it is [`super::Remote`]. The answering side is [`crate::agent`]. Start
//! with [`Question`].

pub mod connection;
pub(crate) mod part;
pub(crate) mod rig;

use std::io::{self, Read, Write};
use std::time::Duration;

use fwdlab_engine::{Addresses, Burst};
use fwdlab_model::campaign::Generator;
use fwdlab_model::trial::Stream;
use serde::{Deserialize, Serialize};

use super::{Command, Failure};

/// A message is no longer: more is a stream that is out of step.
const MOST_BYTES: u32 = 1 << 30;

/// What is asked of an agent. A file's content travels behind it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// Who are you?
    Hello,
    /// Run a command to its end.
    Run { place: Place, command: Command },
    /// Start a command and do not wait for its end.
    Start { place: Place, command: Command },
    /// The next line of its output.
    Next { process: u32, patience_ms: u64 },
    /// End it.
    End { process: u32 },
    /// A file, please.
    Read { place: Place, path: String },
    /// What follows is the content of this file.
    Write { place: Place, path: String },
    /// What follows is a file of this name, for commands; say where it is.
    Put { name: String, executable: bool },
    /// Open sender and receivers for bursts; answers to later questions about bursts are from them.
    OpenBursts {
        paths: Vec<Path>,
        addresses: AddressWords,
        stream: Stream,
        generator: Generator,
    },
    /// Send a number of frames into a path, and answer with their cost.
    Burst { path: usize, frames: u32 },
    /// Do nothing for this time, by the agent's own clock.
    Rest { time_ms: u64 },
    /// Close them.
    CloseBursts,
    /// Something of a rig.
    Rig(rig::Question),
    /// Something of a part of a tester; frames travel behind it.
    Part(part::Question),
    /// Reserve this port for a test bed, or answer why it cannot be used.
    Claim {
        port: (Place, String),
        networks: Vec<Network>,
    },
    /// Release all reserved ports.
    Release,
    /// Listen for frames that nobody sent for a test.
    Hear {
        ports: Vec<(Place, String)>,
        time_ms: u64,
    },
    /// End the machine.
    PowerOff,
}

/// Where on the machine: its first network namespace, or that of a name.
pub type Place = Option<String>;

/// A way through a DUT: namespace and interface of sender and receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Path {
    /// Where frames are sent.
    pub tx: (Place, String),
    /// Where they are to arrive.
    pub rx: (Place, String),
}

/// [`Addresses`], for the journey.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AddressWords {
    source_mac: [u8; 6],
    destination_mac: [u8; 6],
    ipv4: (std::net::Ipv4Addr, std::net::Ipv4Addr),
    ipv6: (std::net::Ipv6Addr, std::net::Ipv6Addr),
}

impl From<Addresses> for AddressWords {
    fn from(of: Addresses) -> AddressWords {
        AddressWords {
            source_mac: of.source_mac,
            destination_mac: of.destination_mac,
            ipv4: of.ipv4,
            ipv6: of.ipv6,
        }
    }
}

impl From<AddressWords> for Addresses {
    fn from(of: AddressWords) -> Addresses {
        Addresses {
            source_mac: of.source_mac,
            destination_mac: of.destination_mac,
            ipv4: of.ipv4,
            ipv6: of.ipv6,
        }
    }
}

/// A network of a test bed: its address, and how long its prefix is.
pub(crate) type Network = (std::net::Ipv4Addr, u8);

/// Frames of one kind that came in at a port by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Noise {
    /// The port.
    pub port: String,
    /// What they are: `STP`, `LLDP`.
    pub what: String,
    /// How many.
    pub frames: u64,
}

/// What an agent answers. Bytes of files and of output travel behind it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// Who it is.
    Hello(Hello),
    /// A command succeeded; the first `stdout` bytes are its standard output, the rest its standard error.
    Output { stdout: usize },
    /// A command is running.
    Started { process: u32 },
    /// A line of its output.
    Line(String),
    /// No output within the time.
    Silence,
    /// It has ended.
    Ended(String),
    /// Where a file is.
    Path(String),
    /// What sends bursts, in words.
    Sends(String),
    /// What became of a burst.
    Burst(Burst),
    /// What a rig answers.
    Rig(rig::Answer),
    /// What a part of a tester answers.
    Part(part::Answer),
    /// Frames that nobody sent for a test.
    Heard(Vec<Noise>),
    /// It could not be done.
    Failed(Failure),
}

/// Who an agent is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version of the program.
    pub version: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Ticks of its processor's counter per instruction.
    pub per_instruction: f64,
    /// CPUs.
    pub cpus: usize,
    /// Which CLOCK_MONOTONIC is its own: agents that say the same have the same clock.
    #[serde(default)]
    pub clock: String,
}

/// Name of the guest's channel, as set when the machine was started.
pub(crate) const CHANNEL: &str = "fwdlab";

/// Keeps a connection alive when there is no message.
pub(crate) const BEAT: [u8; 8] = [0; 8];

/// How often the asking side sends a beat while it waits.
pub(crate) const BEAT_EVERY: Duration = Duration::from_millis(200);

/// An agent that sends frames and receives neither question nor beat for this time stops them and ends.
pub(crate) const DEAF_FOR: Duration = Duration::from_millis(900);

/// Which CLOCK_MONOTONIC a process of this machine reads: that of its boot, with the offset of its time namespace.
pub(crate) fn clock() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let offset = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let offset: Vec<&str> = offset.split_whitespace().collect();
    format!("{} {}", boot.trim(), offset.join(" "))
}

/// Writes a message and the bytes behind it.
pub(crate) fn send(
    stream: &mut dyn Write,
    message: &impl Serialize,
    bytes: &[u8],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut all = Vec::with_capacity(8 + text.len() + bytes.len());
    all.extend((text.len() as u32).to_le_bytes());
    all.extend((bytes.len() as u32).to_le_bytes());
    all.extend(text);
    all.extend(bytes);
    stream.write_all(&all)?;
    stream.flush()
}

/// Reads a message and the bytes behind it.
pub(crate) fn receive<T: for<'a> Deserialize<'a>>(
    stream: &mut dyn Read,
) -> io::Result<(T, Vec<u8>)> {
    let mut lengths = [0; 8];
    // a beat has no content
    while lengths == [0; 8] {
        stream.read_exact(&mut lengths)?;
    }
    let [text, bytes] = [0, 4].map(|at| {
        let of = &lengths[at..at + 4];
        u32::from_le_bytes([of[0], of[1], of[2], of[3]])
    });
    if text > MOST_BYTES || bytes > MOST_BYTES {
        let why = format!("a message of {text} and {bytes} bytes: the stream is out of step");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut message = vec![0; text as usize];
    stream.read_exact(&mut message)?;
    let mut behind = vec![0; bytes as usize];
    stream.read_exact(&mut behind)?;
    Ok((serde_json::from_slice(&message)?, behind))
}
