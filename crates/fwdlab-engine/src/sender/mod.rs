//! Code shared by the socket senders: the thread, the source of its frames, and its counters.
//!
//! An engine only adds how a batch of frames gets from memory to a port ([`Transmit`]): AF_PACKET,
//! AF_XDP, memif and memory do, and engines outside of this crate can. Start with [`SocketSender`];
//! a [`Source`] decides which frame is due, [`Counters`] hold what the thread publishes.

pub(crate) mod counters;
pub(crate) mod source;
pub(crate) mod thread;
mod warp;

pub use self::counters::{Counters, Tally};
pub use self::source::{Cached, Outline, Source};
pub use self::thread::{BATCH, SocketSender, Transmit};
pub use crate::traffic::player::{Room, Slot};
