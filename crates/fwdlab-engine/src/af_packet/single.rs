//! Frames one at a time: sent and received by system calls of their own, at once.
//!
//! For questions and answers, where what counts is that nobody waits for a batch to fill: ping, its answers, a walk through
//! the frames that arrive. Everything faster is for senders and receivers. Start with [`SinglePort::open`].

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::filter::questions;
use super::foreign::OURS;
use super::sys;
use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};

/// Room for frames that have not been taken; the kernel gives what it allows.
const BUFFER_BYTES: usize = 16 << 20;

/// A port whose frames are handled one by one.
pub struct SinglePort {
    interface: String,
    socket: OwnedFd,
}

impl SinglePort {
    /// Opens it. Frames that arrive are seen beside whoever else takes them, unless an XDP program does.
    ///
    /// # Errors
    /// An interface that does not exist, or no CAP_NET_RAW in its namespace.
    pub fn open(port: &PortSpec) -> Result<SinglePort, EngineError> {
        let socket = within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let open = || {
                let socket = sys::open()?;
                sys::ignore_outgoing(&socket)?;
                set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
                sys::bind(&socket, index, libc::ETH_P_ALL as u16)?;
                Ok(socket)
            };
            open().map_err(|e: std::io::Error| {
                EngineError::system(format!("open {}", port.interface), e)
            })
        })?;
        Ok(SinglePort {
            interface: port.interface.clone(),
            socket,
        })
    }

    /// Opens it for questions: it receives ARP and neighbour solicitations, those to multicast addresses too, and nothing else.
    ///
    /// # Errors
    /// As of [`SinglePort::open`].
    pub fn open_for_questions(port: &PortSpec) -> Result<SinglePort, EngineError> {
        let socket = within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let open = || {
                let socket = sys::open()?;
                sys::ignore_outgoing(&socket)?;
                sys::attach_filter(&socket, &questions())?;
                sys::bind(&socket, index, libc::ETH_P_ALL as u16)?;
                sys::join(&socket, index, libc::PACKET_MR_ALLMULTI as u16)?;
                Ok(socket)
            };
            open().map_err(|e: std::io::Error| {
                EngineError::system(format!("open {}", port.interface), e)
            })
        })?;
        Ok(SinglePort {
            interface: port.interface.clone(),
            socket,
        })
    }

    /// Opens it to send alone: it receives nothing. Its frames are marked as ours (see [`Foreign`](super::Foreign)).
    ///
    /// # Errors
    /// As of [`SinglePort::open`].
    pub fn open_to_send(port: &PortSpec) -> Result<SinglePort, EngineError> {
        let socket = within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let open = || {
                let socket = sys::open()?;
                sys::set_mark(&socket, OURS)?;
                sys::bind(&socket, index, 0)?;
                Ok(socket)
            };
            open().map_err(|e: std::io::Error| {
                EngineError::system(format!("open {}", port.interface), e)
            })
        })?;
        Ok(SinglePort {
            interface: port.interface.clone(),
            socket,
        })
    }

    /// Sends a frame. `false`: there was no room for it.
    ///
    /// # Errors
    /// The system refuses: the link is down, the frame is too long.
    pub fn send(&self, frame: &[u8]) -> Result<bool, EngineError> {
        match rustix::io::retry_on_intr(|| send(&self.socket, frame, SendFlags::empty())) {
            Ok(_) => Ok(true),
            Err(Errno::NOBUFS) => Ok(false),
            Err(e) => Err(EngineError::system(
                format!("send into {}", self.interface),
                e,
            )),
        }
    }

    /// Takes a frame, waiting so long for one; returns its length without FCS, which is more than the buffer's when the end
    /// was cut off. `None`: there was none, or a signal came.
    ///
    /// # Errors
    /// The system refuses: the interface is gone.
    pub fn receive(
        &self,
        buffer: &mut [u8],
        patience: Duration,
    ) -> Result<Option<usize>, EngineError> {
        let failed = |e| EngineError::system(format!("receive from {}", self.interface), e);
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let mut take = || match recv(&self.socket, &mut *buffer, flags) {
            Ok((_, len)) => Ok(Some(len)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(e) => Err(failed(e)),
        };
        if let Some(len) = take()? {
            return Ok(Some(len));
        }
        let mut events = [PollFd::new(&self.socket, PollFlags::IN)];
        let patience = Timespec::try_from(patience).ok();
        match poll(&mut events, patience.as_ref()) {
            Ok(0) | Err(Errno::INTR) => Ok(None),
            Ok(_) => take(),
            Err(e) => Err(failed(e)),
        }
    }

    /// Frames that arrived since the last call and found no room.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn dropped(&self) -> Result<u32, EngineError> {
        sys::take_drops(&self.socket)
            .map_err(|e| EngineError::system("read the packet counters", e))
    }
}
