//! AF_XDP: the fastest sender that needs neither privileges nor a driver that helps, and faster where a driver does.
//!
//! Frames lie in memory shared with the kernel. In copy mode, one system call makes it copy a batch of them into packets of
//! its own; where the driver offers zero-copy, the device reads them where they are. Send only. Copy mode is about a third
//! faster than `crate::af_packet`, and as unable to overload a DUT. Start with [`sender`].

mod memory;
mod metadata;
mod socket;
mod sys;
mod tx;

pub use tx::{BusyPoll, Options, ZeroCopy, sender, sender_with};
