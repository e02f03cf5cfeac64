//! Code shared by the socket senders: the thread, the source of its frames, and its counters.
//!
//! An engine only adds how a batch of frames gets from memory to a port ([`thread::Transmit`]):
//! AF_PACKET, AF_XDP and memory do. Start with [`thread::SocketSender`]; [`source`] decides which
//! frame is due, `counters` holds what the thread publishes.

pub(crate) mod counters;
pub(crate) mod source;
pub(crate) mod thread;
mod warp;
