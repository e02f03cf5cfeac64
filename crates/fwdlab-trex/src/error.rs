//! What can go wrong before anything is served: [`TrexError`]. What goes wrong in a call is [`Fault`](crate::rpc::Fault).

use std::io;
use std::net::SocketAddr;

use fwdlab_lab::LabError;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum TrexError {
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {address} for the {what} of TRex: {source}; choose another with --{option}"
    )]
    Listen {
        /// `RPC` or `publisher`.
        what: &'static str,
        /// Which.
        address: SocketAddr,
        /// The option that chooses another.
        option: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A port cannot be prepared.
    #[error("{0}")]
    Port(LabError),
    /// The system has no random numbers, or no threads.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
