//! memif: frames through memory shared with another process, such as VPP or DPDK.
//!
//! No kernel and no copy by it is involved: a frame costs some tens of nanoseconds, so a router in
//! user space can be measured on one machine. One end is the server, which listens on a socket; the
//! client connects to it and owns all memory. This engine can be either. The peer is not trusted:
//! invalid data in the shared memory or on the socket ends in an error or a counted frame.
//!
//! Frames are sent by the same loop as with every socket engine, and received frames go to the same
//! analysis. A frame counts as sent once the peer has given its buffer back, so frames that are
//! still in a ring at the end of a trial, or are lost when the peer restarts, are not sent. Start
//! with [`Port::open`], then [`sender`] and [`receiver`]. Layout and messages are those
//! of memif 2.0 (libmemif's header with the cookie 0x3E31F20).

mod control;
mod message;
pub(crate) mod name;
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

use std::path::PathBuf;

pub use self::port::{Port, Status};
use crate::error::EngineError;
use crate::generator::{Receiver, Sender};
use crate::port::{PathSpec, PortSpec};

/// The most queues in each direction.
pub const MAX_QUEUES: u16 = 16;

/// The longest ring has 2 to the power of this many frames; as libmemif's.
pub const MAX_RING_LOG2: u8 = 14;

/// Which end of the socket we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Connects, and owns the memory.
    Client,
    /// Listens.
    Server,
}

/// The properties of a memif port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// Path of the socket; one that begins with `@` is an abstract name.
    pub socket: PathBuf,
    /// Our role; the peer has the other.
    pub role: Role,
    /// Number of the interface; both ends have the same.
    pub id: u32,
    /// Shared secret of up to 24 bytes; empty for none.
    pub secret: String,
    /// Queues in each direction, 1 to [`MAX_QUEUES`]: as the client as many of them as the server
    /// allows, as the server at most these.
    pub queues: u16,
    /// As the client, the logarithm of the number of frames in a ring; the server may allow fewer.
    pub ring_log2: u8,
    /// As the client, the length of a buffer in bytes, a multiple of 64. Longer frames are not
    /// sent.
    pub buffer_bytes: u32,
}

impl Options {
    /// Returns the options of a port with one queue of 1024 frames of up to 2048 bytes.
    pub fn new(socket: impl Into<PathBuf>, role: Role) -> Options {
        Options {
            socket: socket.into(),
            role,
            id: 0,
            secret: String::new(),
            queues: 1,
            ring_log2: 10,
            buffer_bytes: 2048,
        }
    }
}

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
    rx::MemifReceiver::open(port, cpus)
}

/// Returns a sender into the sending ports of these paths, which have the names of memif ports.
///
/// # Errors
/// If a port is none, cannot be opened, or has no peer.
pub(crate) fn sender_on(
    paths: &[PathSpec],
    cpus: &[usize],
) -> Result<impl Sender + use<>, EngineError> {
    let ports = paths.iter().map(|path| name::open_alone(&path.tx));
    let ports: Vec<Port> = ports.collect::<Result<_, _>>()?;
    // all are open now: one may be the peer of another
    for path in paths {
        name::open(&path.tx)?;
    }
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
    receiver(&name::open_alone(port)?, cpus)
}
