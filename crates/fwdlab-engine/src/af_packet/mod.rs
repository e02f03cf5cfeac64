//! AF_PACKET: the engine that works in any network namespace that we own.
//!
//! The sender gives frames to the driver with `sendmmsg`, past the queueing discipline; the
//! receiver counts with a classic BPF filter and copies almost nothing. Neither is fast: sending a
//! frame costs as much as a router needs to forward it, so this sender alone cannot overload a DUT.
//! Start with [`sender()`] and [`PacketCount`].

mod analyse;
mod filter;
mod foreign;
mod link_stats;
mod membership;
mod rx;
mod single;
mod sys;
mod tx;

pub use foreign::Foreign;
pub use membership::{AcceptedFrames, Membership};
pub use rx::PacketCount;
pub use single::SinglePort;
pub use tx::{sender, senders};
