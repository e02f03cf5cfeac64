//! The doors of the crate: a [`Sender`] puts frames on ports, a [`Receiver`] counts what comes back.
//!
//! Both know frames, ports and time, and nothing of test beds, searches or printing. Every engine is one
//! implementation; [`crate::Tester`] puts a sender and its receivers together and chooses between engines.

use std::time::Duration;

use packet::{FlowSet, FrameTemplate};

use crate::error::EngineError;

/// Which engine, by the name that appears in every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// XDP live frames: a BPF program sends from inside the kernel's test run.
    XdpLive,
    /// AF_XDP socket, copy mode.
    AfXdp,
    /// AF_PACKET socket, `sendmmsg` past the queueing discipline.
    AfPacket,
}

impl Mode {
    /// All senders, fastest first: the order in which they are tried.
    pub const ALL: [Mode; 3] = [Mode::XdpLive, Mode::AfXdp, Mode::AfPacket];

    /// The name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::XdpLive => "xdp-live",
            Mode::AfXdp => "af-xdp",
            Mode::AfPacket => "af-packet",
        }
    }
}

/// What an engine can do, for results and for the choice between engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The engine.
    pub mode: Mode,
    /// One line for people.
    pub summary: &'static str,
    /// Needs CAP_BPF and CAP_NET_ADMIN outside of any user namespace.
    pub needs_privileges: bool,
    /// A frame counted as sent has been given to the device driver.
    pub counts_at_driver: bool,
}

/// The frames of one trial.
#[derive(Debug, Clone)]
pub struct Frames {
    /// What they look like.
    pub template: FrameTemplate,
    /// Which addresses and ports they carry, every flow equally often.
    pub flows: FlowSet,
    /// The trial's nonce, in every signature.
    pub nonce: u16,
}

/// When frames leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Intended load in frames per second; `None` is flat out.
    pub load_pps: Option<f64>,
    /// Send so many frames and no more.
    pub frames: Option<u64>,
    /// No frame leaves later than this after the start, whatever happens to us.
    pub at_most: Duration,
    /// Index of the path that gets the first frames.
    pub path: usize,
}

/// What a sender has done since [`Sender::start`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Frames given to the port of each path.
    pub sent: Vec<u64>,
    /// Frames that were due but could not be sent: the sender was held up or refused.
    pub not_sent: u64,
}

impl SendCounts {
    /// Frames sent on all paths.
    pub fn total(&self) -> u64 {
        self.sent.iter().sum()
    }
}

/// What a receiver has seen since [`Receiver::expect`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Frames with our signature and this trial's nonce.
    pub received: u64,
    /// Of these, frames that are not as long as they were sent.
    pub wrong_length: u64,
    /// Frames with our signature of another trial.
    pub late: u64,
    /// Frames that are not ours.
    pub foreign: u64,
    /// Frames the receiver itself dropped; they are part of `received`.
    pub dropped_by_receiver: u64,
}

/// Puts frames on ports, from a thread of its own.
pub trait Sender: Send {
    /// What this engine is and can.
    fn capabilities(&self) -> Capabilities;

    /// Prepares the frames of the next trial. Nothing is sent.
    ///
    /// # Errors
    /// The engine cannot send such frames.
    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError>;

    /// Starts to send and returns at once.
    ///
    /// # Errors
    /// The sender is not armed, still running, or the system refuses.
    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError>;

    /// Sends from now on into another path; takes effect within a batch.
    ///
    /// # Errors
    /// There is no such path, or the system refuses.
    fn select(&mut self, path: usize) -> Result<(), EngineError>;

    /// Pauses for the returned time and goes on with memory newly taken from the system, where the sender takes memory
    /// from it; the frames of the pause are not due. Where frames lie in memory decides how often the caches of the CPUs
    /// collide, and so by some 2 % how fast the DUT is: one trial should see more than one arrangement.
    ///
    /// # Errors
    /// The sender does not run, or the system refuses.
    fn renew(&mut self) -> Result<Duration, EngineError> {
        Ok(Duration::ZERO)
    }

    /// Counts since the start; cheap, at any time.
    ///
    /// # Errors
    /// The counters cannot be read.
    fn counts(&self) -> Result<SendCounts, EngineError>;

    /// Ends sending, waits for the thread, and returns the final counts.
    ///
    /// # Errors
    /// The thread failed.
    fn stop(&mut self) -> Result<SendCounts, EngineError>;

    /// Has everything been sent, or the time run out?
    fn is_done(&self) -> bool;
}

/// Counts the frames that come back on one port.
pub trait Receiver: Send {
    /// The name in results.
    fn name(&self) -> &'static str;

    /// Frames of this nonce and length are expected from now on; counts start at zero.
    ///
    /// # Errors
    /// The system refuses.
    fn expect(&mut self, nonce: u16, buffer_bytes: u16) -> Result<(), EngineError>;

    /// Counts since [`Receiver::expect`]; cheap, at any time.
    ///
    /// # Errors
    /// The counters cannot be read.
    fn counts(&mut self) -> Result<ReceiveCounts, EngineError>;
}
