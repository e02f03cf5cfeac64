//! AF_XDP: the fastest sender that needs neither privileges nor driver support, and faster with a
//! driver that has zero-copy.
//!
//! Frames are in memory shared with the kernel. In copy mode, one system call makes the kernel copy
//! a batch of them into its own packets; if the driver offers zero-copy, the device reads them in
//! place. Send only. Copy mode is about a third faster than `crate::af_packet`, and cannot overload
//! a DUT either. Start with [`sender`].

mod memory;
mod metadata;
mod socket;
mod sys;
mod tx;

pub use tx::{BusyPoll, Options, ZeroCopy, sender, sender_with, senders};
