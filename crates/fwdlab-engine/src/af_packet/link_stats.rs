//! Reads a counter of an interface over rtnetlink: the frames that its driver dropped.
//!
//! The packet sender needs it to distinguish a frame that the driver dropped from one that never
//! reached the driver. Not a general statistics reader. Works without privileges, in the namespace
//! where it was opened. Start with [`LinkStats`].

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::netdev::route_socket;

/// `struct nlmsghdr` and `struct if_stats_msg`.
const HEADER: usize = 16;
const STATS_HEADER: usize = 12;
/// `IFLA_STATS_LINK_64`, also as a bit of the filter mask.
const LINK_64: u16 = 1;
const NLM_F_REQUEST: u16 = 1;
const RTM_NEWSTATS: u16 = 92;
const RTM_GETSTATS: u16 = 94;

/// A socket for requests to the kernel.
pub(super) struct LinkStats {
    socket: OwnedFd,
}

impl LinkStats {
    /// Opens a socket in the calling thread's namespace.
    pub(super) fn open() -> io::Result<LinkStats> {
        Ok(LinkStats {
            socket: route_socket()?,
        })
    }

    /// Returns `tx_dropped` of the interface, as in `ip -s link`.
    pub(super) fn tx_dropped(&self, interface: u32) -> io::Result<u64> {
        // interrupts are meant for the sender's sockets; this call returns at once anyway
        let sent = rustix::io::retry_on_intr(|| {
            send(&self.socket, &request(interface), SendFlags::empty())
        })?;
        debug_assert_eq!(sent, HEADER + STATS_HEADER);
        let mut answer = [0; 1024];
        let (bytes, _) =
            rustix::io::retry_on_intr(|| recv(&self.socket, &mut answer[..], RecvFlags::empty()))?;
        tx_dropped(&answer[..bytes])
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no link statistics"))
    }
}

/// Builds an `RTM_GETSTATS` request for one interface.
fn request(interface: u32) -> [u8; HEADER + STATS_HEADER] {
    let mut bytes = [0; HEADER + STATS_HEADER];
    bytes[0..4].copy_from_slice(&((HEADER + STATS_HEADER) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&RTM_GETSTATS.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&interface.to_ne_bytes());
    bytes[HEADER + 8..HEADER + 12].copy_from_slice(&u32::from(LINK_64).to_ne_bytes());
    bytes
}

/// Returns the eighth counter of `struct rtnl_link_stats64` in an answer; `None` for any other
/// answer.
fn tx_dropped(answer: &[u8]) -> Option<u64> {
    let half = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    if half(4)? != RTM_NEWSTATS || half(HEADER + STATS_HEADER + 2)? != LINK_64 {
        return None;
    }
    let counters = answer.get(HEADER + STATS_HEADER + 4..)?;
    Some(u64::from_ne_bytes(*counters.get(7 * 8..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_answers_and_a_missing_one_is_an_error() {
        let stats = LinkStats::open().unwrap();
        assert!(stats.tx_dropped(1).is_ok());
        assert!(stats.tx_dropped(u32::MAX >> 1).is_err());
        assert!(stats.tx_dropped(1).is_ok(), "after an error it still works");
    }

    #[test]
    fn short_and_other_answers_are_none() {
        let mut answer = vec![0; HEADER + STATS_HEADER + 4 + 25 * 8];
        assert_eq!(tx_dropped(&answer), None);
        answer[4..6].copy_from_slice(&RTM_NEWSTATS.to_ne_bytes());
        answer[HEADER + STATS_HEADER + 2] = LINK_64 as u8;
        answer[HEADER + STATS_HEADER + 4 + 56] = 7;
        assert_eq!(tx_dropped(&answer), Some(7_u64.to_le()));
        assert_eq!(tx_dropped(&answer[..HEADER + STATS_HEADER + 4 + 60]), None);
    }
}
