//! Counts the frames that others send through our port: the kernel (MLD, ARP, neighbour discovery)
//! and programs such as `lldpd`.
//!
//! The counters of a port include them, so they must be subtracted to get what we have sent. The
//! engines bypass the kernel's packet taps, and
//! [`SinglePort::open_to_send`](super::SinglePort::open_to_send) marks its frames: an outgoing
//! frame that a packet socket sees without that mark is foreign. Changes nothing on the port. Start
//! with [`Foreign::open`].

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::{RecvFlags, recv};

use super::{filter, sys};
use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};
use crate::sink::SinkCounts;

/// The socket mark of frames that we send through the kernel's queues.
pub(super) const OURS: u32 = 0xf1ab_0000;

/// A counter of foreign frames that leave through a port.
pub struct Foreign {
    socket: OwnedFd,
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Foreign {
    /// Starts to count.
    ///
    /// # Errors
    /// If the interface does not exist, or without CAP_NET_RAW in its namespace.
    pub fn open(port: &PortSpec) -> Result<Foreign, EngineError> {
        let failed = |e| {
            let action = format!("count foreign frames that leave through {}", port.interface);
            EngineError::system(action, e)
        };
        within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let socket = sys::open().map_err(failed)?;
            // the filter is attached before the first frame can arrive
            sys::attach_filter(&socket, &filter::foreign()).map_err(failed)?;
            sys::bind(&socket, index, libc::ETH_P_ALL as u16).map_err(failed)?;
            Ok(Foreign {
                socket,
                frames: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
            })
        })
    }

    /// Returns what has left since it was opened, bytes without FCS. If the socket's buffer
    /// overflows between two calls, the bytes of the frames that did not fit are missing; the
    /// number of frames is exact.
    ///
    /// # Errors
    /// If the counter cannot be read.
    pub fn counts(&self) -> Result<SinkCounts, EngineError> {
        let add = |sum: &AtomicU64, more: u64| sum.fetch_add(more, Ordering::Relaxed) + more;
        // TRUNC returns the full length of a frame although nothing of it is kept
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let mut bytes = 0;
        while let Ok((_, length)) = recv(&self.socket, &mut [0_u8; 1][..], flags) {
            bytes += length as u64;
        }
        let frames = sys::take_statistics(&self.socket)
            .map_err(|e| EngineError::system("read the count of foreign frames", e))?;
        Ok(SinkCounts {
            frames: add(&self.frames, frames.into()),
            bytes: add(&self.bytes, bytes),
        })
    }
}
