//! What a port takes in beside its own: everything (promiscuous), or every multicast. It ends with the value, or with the process.
//!
//! The kernel counts who wants it, so others who do are not disturbed. Start with [`Membership::of`].

use std::os::fd::OwnedFd;

use super::sys;
use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};

/// What is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Frames to any address.
    Everything,
    /// Frames to any multicast address.
    Multicast,
}

/// A port that takes it.
#[derive(Debug)]
pub struct Membership {
    _socket: OwnedFd,
}

impl Membership {
    /// Lets a port take it, as long as this lives.
    ///
    /// # Errors
    /// There is no such port, or no CAP_NET_RAW in its namespace.
    pub fn of(port: &PortSpec, takes: Takes) -> Result<Membership, EngineError> {
        let socket = within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let kind = match takes {
                Takes::Everything => libc::PACKET_MR_PROMISC,
                Takes::Multicast => libc::PACKET_MR_ALLMULTI,
            };
            // it is bound to nothing and receives nothing
            let socket = sys::open();
            socket
                .and_then(|socket| sys::join(&socket, index, kind as u16).map(|()| socket))
                .map_err(|e| EngineError::system(format!("set what {} takes", port.interface), e))
        })?;
        Ok(Membership { _socket: socket })
    }
}
