//! AF_XDP in copy mode: the fastest sender that needs neither privileges nor a driver that helps.
//!
//! Frames lie in memory shared with the kernel; one system call makes it copy a batch of them into packets of its own.
//! Send only, and not zero-copy, which veth refuses with EOPNOTSUPP. About a third faster than `crate::af_packet`,
//! and as unable to overload a DUT. Start with [`sender`].

mod sys;
mod tx;

pub use tx::sender;
