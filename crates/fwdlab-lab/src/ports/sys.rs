//! System calls of ports: the flags of an interface (SIOCGIFFLAGS), and a network namespace of a thread's own.
#![allow(unsafe_code, reason = "system calls")]

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType, socket};

/// `IFF_UP` and the others, in the calling thread's namespace.
pub(super) fn interface_flags(name: &str) -> io::Result<libc::c_int> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all zero is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request has a name with an end and outlives the call, which writes into it.
    let result = unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS as _,
            &raw mut request,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has written this member.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    // two's complement of 16 bits, of which the highest is a flag too
    Ok(libc::c_int::from(flags as u16))
}

/// A new network namespace for the calling thread.
pub(super) fn unshare_network() -> io::Result<()> {
    // SAFETY: only the namespace of this thread changes; no memory or file descriptor is involved.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
