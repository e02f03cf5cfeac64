//! Single frames: each is sent or received by its own system call, without delay.
//!
//! For requests and answers, which must not wait for a batch to fill: ping and its answers, or
//! iterating over the frames that arrive. Use senders and receivers for anything faster. Start with
//! [`SinglePort::open`].

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

/// Buffer for frames that were not read yet; the kernel may grant less.
const BUFFER_BYTES: usize = 16 << 20;

/// A port whose frames are handled one by one.
pub struct SinglePort {
    interface: String,
    socket: OwnedFd,
}

impl SinglePort {
    /// Opens a port. Other consumers see the frames that arrive, too, unless an XDP program takes
    /// them.
    ///
    /// # Errors
    /// If the interface does not exist, or without CAP_NET_RAW in its namespace.
    pub fn open(port: &PortSpec) -> Result<SinglePort, EngineError> {
        SinglePort::open_with(port, |socket, index| {
            sys::ignore_outgoing(socket)?;
            set_socket_recv_buffer_size(socket, BUFFER_BYTES)?;
            sys::bind(socket, index, libc::ETH_P_ALL as u16)
        })
    }

    /// Opens a port whose socket is set up for the interface with this index.
    fn open_with(
        port: &PortSpec,
        set_up: impl FnOnce(&OwnedFd, u32) -> std::io::Result<()> + Send,
    ) -> Result<SinglePort, EngineError> {
        let socket = within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let open = || {
                let socket = sys::open()?;
                set_up(&socket, index)?;
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

    /// Opens a port for requests: it receives ARP and neighbour solicitations, including those to
    /// multicast addresses, and nothing else.
    ///
    /// # Errors
    /// As [`SinglePort::open`].
    pub fn open_for_questions(port: &PortSpec) -> Result<SinglePort, EngineError> {
        SinglePort::open_with(port, |socket, index| {
            sys::ignore_outgoing(socket)?;
            sys::attach_filter(socket, &questions())?;
            sys::bind(socket, index, libc::ETH_P_ALL as u16)?;
            sys::join(socket, index, libc::PACKET_MR_ALLMULTI as u16)
        })
    }

    /// Opens a port to send only: it receives nothing. Its frames are marked as ours (see
    /// [`Foreign`](super::Foreign)).
    ///
    /// # Errors
    /// As [`SinglePort::open`].
    pub fn open_to_send(port: &PortSpec) -> Result<SinglePort, EngineError> {
        SinglePort::open_with(port, |socket, index| {
            sys::set_mark(socket, OURS)?;
            sys::bind(socket, index, 0)
        })
    }

    /// Sends a frame. Returns false if there was no room for it.
    ///
    /// # Errors
    /// If the system refuses: the link is down, the frame is too long.
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

    /// Receives a frame, waiting up to `patience`; returns its length without FCS, which exceeds
    /// the buffer's if the frame was truncated. `None` if there was none, or a signal came.
    ///
    /// # Errors
    /// If the system refuses: the interface is gone.
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

    /// Returns the frames that did not fit the buffer since the last call.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn dropped(&self) -> Result<u32, EngineError> {
        sys::take_drops(&self.socket)
            .map_err(|e| EngineError::system("read the packet counters", e))
    }
}
