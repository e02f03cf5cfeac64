//! memif: frames through memory shared with another process, such as VPP or DPDK.
//!
//! No kernel and no copy by it is involved: a frame costs some tens of nanoseconds, so a router in
//! user space can be measured on one machine. One end is the server, which listens on a socket; the
//! client connects to it and owns all memory. This engine can be either. The peer is not trusted:
//! invalid data in the shared memory or on the socket ends in an error or a counted frame.
//!
//! Frames are sent by the same loop as with every socket engine, and received frames go to the same
//! analysis. A frame counts as sent once the peer has given its buffer back, so frames that are
//! still in a ring at the end of a trial, or are lost when the peer restarts, are not sent. In
//! trials a frame that finds the ring full is sent, and lost at the peer's input. Layout and
//! messages are those of memif 2.0 (libmemif's header with the cookie 0x3E31F20). Start with
//! [`Port::open`], then [`sender`] and [`receiver`].

mod control;
mod message;
mod name;
mod port;
mod ring;
mod rx;
mod sys;
#[cfg(test)]
mod testpmd;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trials;
mod tx;

use std::time::Duration;

pub use fwdlab_model::memif::{MAX_QUEUES, MAX_RING_LOG2, Options, Role};

pub use self::name::open;
pub use self::port::{Port, Status};
use crate::error::EngineError;
use crate::generator::{Receiver, Sender};
use crate::port::{PathSpec, PortSpec};

/// How long a sender that is opened waits for its peer, which may start at the same time.
const PEER_PATIENCE: Duration = Duration::from_secs(10);

/// Returns a sender into these ports, one for each path. A port has one sender at a time.
pub fn sender(ports: &[Port], cpus: &[usize]) -> impl Sender + use<> {
    tx::sender(ports, cpus)
}

/// Returns a receiver on this port, whose thread runs on these CPUs; empty: any. A port has one
/// receiver at a time.
///
/// # Errors
/// If its thread cannot be started.
pub fn receiver(port: &Port, cpus: &[usize]) -> Result<impl Receiver + use<>, EngineError> {
    rx::receiver(port, cpus)
}

/// Returns a sender into the sending ports of these paths, which have the names of memif ports.
///
/// # Errors
/// If a port is none, cannot be opened, or has no peer.
pub(crate) fn sender_on(
    paths: &[PathSpec],
    cpus: &[usize],
) -> Result<impl Sender + use<>, EngineError> {
    let ports = paths.iter().map(|path| open(&path.tx));
    let ports: Vec<Port> = ports.collect::<Result<_, _>>()?;
    // all are open now: one may be the peer of another
    (ports.iter()).try_for_each(|port| port.wait_for_peer(PEER_PATIENCE))?;
    Ok(sender(&ports, cpus))
}

/// Returns a receiver on the port with this name.
///
/// # Errors
/// If it is no memif port, or cannot be opened. A peer may come later.
pub(crate) fn receiver_on(
    port: &PortSpec,
    cpus: &[usize],
) -> Result<impl Receiver + use<>, EngineError> {
    receiver(&open(port)?, cpus)
}
