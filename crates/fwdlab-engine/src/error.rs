//! What can go wrong between a frame and a device: what was tried, on what, and what the system said.

use std::io;

/// Why an engine could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried and on what: `attach the counter to rx0`.
        what: String,
        /// What the system answered.
        source: io::Error,
    },
    /// The kernel refused a BPF object.
    #[error("cannot {what}: {reason}")]
    Bpf {
        /// What was tried and on what.
        what: String,
        /// The loader's words, the system's answer included.
        reason: String,
    },
    /// The stream cannot be sent.
    #[error("cannot build the frames: {0}")]
    Frames(String),
    /// A port does not take such frames. Nothing was sent.
    #[error(
        "{port} has an MTU of {mtu} bytes and cannot send frames of {bytes} bytes without FCS; use shorter frames, or raise \
         the MTU at both ends: ip link set {port} mtu {needed}"
    )]
    TooLong {
        /// The port.
        port: String,
        /// Its MTU.
        mtu: u32,
        /// Length of the longest frame, without FCS.
        bytes: usize,
        /// The MTU that it needs.
        needed: usize,
    },
    /// A recording could not be sent to its end.
    #[error("the recording broke off; the frames before that were sent: {0}")]
    Recording(String),
    /// Not with this engine; another may.
    #[error("{engine} cannot {what}")]
    Unsupported {
        /// Its name in results.
        engine: &'static str,
        /// What it cannot do.
        what: String,
    },
    /// Timestamps that two ports do not have in common. Nothing was changed.
    #[error("no {kind} timestamps: {reason}. Nothing was changed. Use {instead}")]
    NoStamps {
        /// Which kind was asked for.
        kind: &'static str,
        /// What was tried on which port, and what the system said.
        reason: String,
        /// What to use.
        instead: &'static str,
    },
    /// The path was tried with a few frames and did not carry them.
    #[error("{sender} sent {sent} of {due} frames into {tx} and {received} arrived at {rx}")]
    PathNotProven {
        /// Which engine tried.
        sender: &'static str,
        /// Where the frames went in.
        tx: String,
        /// Where they should have come out.
        rx: String,
        /// Frames that were to be sent.
        due: u64,
        /// Frames sent.
        sent: u64,
        /// Frames that came back.
        received: u64,
    },
    /// Every engine was tried.
    #[error("no engine works here: {0}")]
    NoneWorks(String),
    /// A part of the tester that is on another machine failed, or was lost.
    #[error(transparent)]
    Elsewhere(Box<dyn std::error::Error + Send + Sync>),
    /// Receivers can count here, and find out nothing else: why. Nothing was sent.
    #[error("frames can only be counted here, and not timed or put in order: {0}")]
    OnlyCounts(String),
    /// A thread of the engine ended in a way it should not.
    #[error("the sender thread failed: {0}")]
    Thread(String),
}

impl EngineError {
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        EngineError::System {
            what: what.into(),
            source: source.into(),
        }
    }

    pub(crate) fn bpf(what: impl Into<String>, error: &dyn std::error::Error) -> Self {
        let mut reason = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !reason.contains(&text) {
                reason.push_str(": ");
                reason.push_str(&text);
            }
            cause = inner.source();
        }
        EngineError::Bpf {
            what: what.into(),
            reason,
        }
    }
}
