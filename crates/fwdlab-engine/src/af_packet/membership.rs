//! What a port receives in addition to its own frames: everything (promiscuous), or every
//! multicast. Ends when the value is dropped or the process ends.
//!
//! The kernel counts the requests, so other users of the same mode are not affected. Start with
//! [`Membership::join`].

use std::os::fd::OwnedFd;

use super::sys;
use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};

/// What is received in addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedFrames {
    /// Frames to any address.
    Everything,
    /// Frames to any multicast address.
    Multicast,
}

/// A port that receives it.
#[derive(Debug)]
pub struct Membership {
    _socket: OwnedFd,
}

impl Membership {
    /// Makes a port receive it while the value lives.
    ///
    /// # Errors
    /// If there is no such port, or without CAP_NET_RAW in its namespace.
    pub fn join(port: &PortSpec, takes: AcceptedFrames) -> Result<Membership, EngineError> {
        let socket = within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let kind = match takes {
                AcceptedFrames::Everything => libc::PACKET_MR_PROMISC,
                AcceptedFrames::Multicast => libc::PACKET_MR_ALLMULTI,
            };
            // it is not bound and receives nothing
            let socket = sys::open();
            socket
                .and_then(|socket| sys::join(&socket, index, kind as u16).map(|()| socket))
                .map_err(|e| EngineError::system(format!("set what {} takes", port.interface), e))
        })?;
        Ok(Membership { _socket: socket })
    }
}
