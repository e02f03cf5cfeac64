//! What the senders with a socket share: the thread, where its frames come from, and what it counts.
//!
//! An engine adds how a batch of frames gets from memory to a port ([`thread::Transmit`]) and nothing else: AF_PACKET, AF_XDP
//! and memory do. Start with [`thread::SocketSender`]; [`source`] says which frame is due, `counters` what the thread publishes.

pub(crate) mod counters;
pub(crate) mod source;
pub(crate) mod thread;
mod warp;
