//! Errors of the engines: what was tried, on what, and the system's answer.

use std::io;

/// Why an engine failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried and on what: `attach the counter to rx0`.
        action: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The kernel refused a BPF object.
    #[error("cannot {action}: {reason}")]
    Bpf {
        /// What was tried and on what.
        action: String,
        /// The loader's message, with the system's answer.
        reason: String,
    },
    /// A port takes no AF_XDP socket.
    #[error(
        "cannot open an AF_XDP socket on queue {queue} of {port} ({driver}, Linux {kernel}): {source}{remedy}"
    )]
    NoXdpSocket {
        /// The port.
        port: String,
        /// Its queue, from 0.
        queue: u32,
        /// Its driver.
        driver: String,
        /// The kernel's release.
        kernel: String,
        /// The system's answer.
        source: io::Error,
        /// What may be wrong and what to do, after a semicolon; may be empty.
        remedy: String,
    },
    /// The stream cannot be sent.
    #[error("cannot build the frames: {0}")]
    Frames(String),
    /// A frame exceeds the MTU of a port. Nothing was sent.
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
    /// A data plane that polls cannot be counted.
    #[error("the data plane, process {process}: {reason}")]
    Poller {
        /// Its number.
        process: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// A memif socket has no peer, or one that cannot be used.
    #[error("cannot use the memif socket {}: {reason}", socket.display())]
    Memif {
        /// Its path.
        socket: std::path::PathBuf,
        /// What was tried, and what the peer did.
        reason: String,
    },
    /// A DPDK port cannot be used.
    #[error("cannot use the DPDK port {port}: {reason}")]
    Dpdk {
        /// Its name.
        port: String,
        /// What was tried, DPDK's answer, and what to do.
        reason: String,
    },
    /// The process that contains DPDK refuses, or has ended.
    #[error("cannot {action}: {reason}")]
    DpdkProcess {
        /// What was tried and on what.
        action: String,
        /// What it answered, or its last words.
        reason: String,
    },
    /// A recording could not be replayed to its end.
    #[error("the recording ended early; the frames before that were sent: {0}")]
    Recording(String),
    /// This engine cannot do it; another one may.
    #[error("{engine} cannot {action}")]
    Unsupported {
        /// Its name in results.
        engine: &'static str,
        /// What it cannot do.
        action: String,
    },
    /// The two ports do not both support these timestamps. Nothing was changed.
    #[error("no {kind} timestamps: {reason}. Nothing was changed. Use {instead}")]
    NoStamps {
        /// The requested kind of timestamps.
        kind: &'static str,
        /// What was tried on which port, and the system's answer.
        reason: String,
        /// The alternative.
        instead: &'static str,
    },
    /// The path did not carry the frames of a proof.
    #[error("{sender} sent {sent} of {due} frames into {tx} and {received} arrived at {rx}")]
    PathNotProven {
        /// The engine that tried.
        sender: &'static str,
        /// The port that the frames were sent into.
        tx: String,
        /// The port where they should have arrived.
        rx: String,
        /// Frames to send.
        due: u64,
        /// Frames sent.
        sent: u64,
        /// Frames that came back.
        received: u64,
    },
    /// Every engine was tried and none works.
    #[error("no engine works here: {0}")]
    NoneWorks(String),
    /// A remote part of the tester failed, or the connection to it was lost.
    #[error(transparent)]
    Elsewhere(Box<dyn std::error::Error + Send + Sync>),
    /// Receivers can only count here; contains the reason. Nothing was sent.
    #[error("frames can only be counted here, and not timed or put in order: {0}")]
    OnlyCounts(String),
    /// One of several senders of a port failed.
    #[error("sender {sender} of {of}: {reason}")]
    OfSender {
        /// Its number, from 1.
        sender: u32,
        /// Number of senders.
        of: u32,
        /// Why.
        reason: Box<EngineError>,
    },
    /// A thread of the engine ended unexpectedly.
    #[error("the sender thread failed: {0}")]
    Thread(String),
}

impl EngineError {
    pub(crate) fn system(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        EngineError::System {
            action: operation.into(),
            source: source.into(),
        }
    }

    pub(crate) fn bpf(operation: impl Into<String>, error: &dyn std::error::Error) -> Self {
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
            action: operation.into(),
            reason,
        }
    }
}
