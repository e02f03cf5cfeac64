//! Traffic: a profile once everything is known that can be known beforehand. Frames as bytes, programs, times.
//!
//! A [`Traffic`] is what a sender puts into one port. It says nothing of files, addresses of ports or absolute loads: those
//! are settled when a profile is compiled. Start with [`Stream`].

use std::sync::Arc;

use packet::modifier::Program;

/// Streams that leave through one port.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The profile's name, for results.
    pub name: String,
    /// The streams; at least one.
    pub streams: Vec<Stream>,
}

/// Frames that follow each other at one rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// In the signature of its frames, in counts and results; no two streams of a profile, in either direction, share one.
    pub id: u16,
    /// Its name, for results.
    pub name: String,
    /// What its frames look like; an IMIX has one kind for each size.
    pub kinds: Vec<Kind>,
    /// Which kind the frames are, one after another, over and over: indices into `kinds`.
    pub pattern: Vec<u16>,
    /// When they leave.
    pub timing: Timing,
}

/// Frames of one make: a template, and what differs from frame to frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// A whole frame without FCS, all checksums right.
    pub template: Vec<u8>,
    /// What is written into it. An [`Instruction::Signature`](packet::modifier::Instruction::Signature), where there is one,
    /// has room for [`packet::signature::LEN`] bytes.
    pub program: Program,
}

impl Kind {
    /// Do its frames carry a signature, so that they can be told from others and counted one by one?
    pub fn is_signed(&self) -> bool {
        self.program.instructions.iter().any(|instruction| {
            matches!(instruction, packet::modifier::Instruction::Signature { .. })
        })
    }
}

/// When the frames of a stream leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Frames per second while it sends, at the profile's own load; a trial's load scales all streams alike.
    pub rate_pps: f64,
    /// How many, and in which groups.
    pub mode: Emission,
    /// Nothing leaves before this time after the start of the trial, or after the stream before it has ended.
    pub delay_ns: u64,
    /// Does it wait for another stream to end?
    pub waits: bool,
    /// Which stream starts when it has ended: an index into [`Traffic::streams`], possibly its own.
    pub next: Option<usize>,
    /// How often it may run before the chain ends here; `None`: without end.
    pub runs: Option<u32>,
}

/// How many frames a stream sends, and in which groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Emission {
    /// One after another until the trial ends.
    Continuous,
    /// So many and no more.
    Burst {
        /// How many.
        frames: u64,
    },
    /// Groups with pauses between them.
    Bursts {
        /// Frames in each.
        frames: u64,
        /// From the last frame of one to the first of the next, in nanoseconds; scaled by the load as the rate is not.
        pause_ns: u64,
        /// How many groups; `None`: without end.
        bursts: Option<u64>,
    },
}

/// Traffic with a trial's nonce.
#[derive(Debug, Clone)]
pub struct TrafficFrames {
    /// What is sent.
    pub traffic: Arc<Traffic>,
    /// The trial's nonce, in every signature.
    pub nonce: u16,
}
