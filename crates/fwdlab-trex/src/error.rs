//! Errors before anything is served: [`TrexError`]. The errors of calls are
//! [`Fault`](crate::rpc::Fault)s.

use std::io;
use std::net::SocketAddr;

use fwdlab_lab::LabError;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TrexError {
    /// The server cannot listen on an address.
    #[error(
        "cannot listen on {address} for the {action} of TRex: {source}; choose another with --{option}"
    )]
    Listen {
        /// `RPC` or `publisher`.
        action: &'static str,
        /// The address.
        address: SocketAddr,
        /// The option that changes it.
        option: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A port cannot be prepared.
    #[error("{0}")]
    Port(LabError),
    /// The system has no random numbers, or no threads.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}
