//! Queries about interfaces: MTU and link.
//!
//! They use `ioctl`, because /sys shows the namespace in which it was mounted. Start with
//! [`Interfaces::open`].
#![allow(unsafe_code, reason = "a system call")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Queries interfaces of the namespace in which it was opened.
pub(crate) struct Interfaces {
    socket: OwnedFd,
}

impl Interfaces {
    /// Opens it in the calling thread's namespace.
    pub(crate) fn open() -> io::Result<Interfaces> {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::DGRAM,
            None,
        )?;
        Ok(Interfaces { socket })
    }

    /// Returns the largest packet, without the Ethernet header.
    pub(crate) fn mtu(&self, name: &str) -> io::Result<u32> {
        let mut request = request(name)?;
        self.query(libc::SIOCGIFMTU as libc::c_ulong, &mut request)?;
        // SAFETY: SIOCGIFMTU has written this member.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    /// Returns true if the interface is up and has a link. True if the driver does not know.
    pub(crate) fn runs(&self, name: &str) -> io::Result<bool> {
        let mut request = request(name)?;
        self.query(libc::SIOCGIFFLAGS as libc::c_ulong, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has written this member.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        // not IFF_RUNNING, which the kernel sets up to a second later
        let mut link = EthtoolValue {
            command: ETHTOOL_GLINK,
            data: 1,
        };
        request.ifr_ifru.ifru_data = (&raw mut link).cast();
        match self.query(SIOCETHTOOL, &mut request) {
            Err(error) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => return Err(error),
            _ => {}
        }
        Ok(flags & libc::IFF_UP != 0 && link.data != 0)
    }

    fn query(&self, question: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the request is valid for the call, its name ends with a zero byte, and what it
        // points to is alive.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), question as _, request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Prepares a request about the interface with this name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GLINK: u32 = 0x0a;
