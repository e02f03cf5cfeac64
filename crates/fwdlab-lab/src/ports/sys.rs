//! System calls for ports: the flags of an interface (SIOCGIFFLAGS), waiting for its changes to
//! settle (SIOCETHTOOL), and a network namespace for one thread.
#![allow(unsafe_code, reason = "system calls")]

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType, socket};

/// Returns `IFF_UP` and the other flags, in the calling thread's namespace.
pub(super) fn interface_flags(name: &str) -> io::Result<libc::c_int> {
    // SAFETY: all zero is a valid union.
    let ifru: libc::__c_anonymous_ifr_ifru = unsafe { std::mem::zeroed() };
    // SAFETY: this request reads only the name.
    let ifru = unsafe { query(name, libc::SIOCGIFFLAGS, ifru) }?;
    // SAFETY: the call has written this member.
    let flags = unsafe { ifru.ifru_flags };
    // two's complement of 16 bits, of which the highest is a flag, too
    Ok(libc::c_int::from(flags as u16))
}

/// Waits until no one is changing the interface, in the calling thread's namespace: the kernel
/// answers this query under its lock for such changes (RTNL).
pub(super) fn settle(name: &str) {
    const ETHTOOL_GLINK: u32 = 0x0a;
    // `struct ethtool_value`
    let mut value = [ETHTOOL_GLINK, 0];
    let ifru = libc::__c_anonymous_ifr_ifru {
        ifru_data: value.as_mut_ptr().cast(),
    };
    // SAFETY: the value outlives the call, which writes its second number.
    drop(unsafe { query(name, libc::SIOCETHTOOL, ifru) });
}

/// Sends an ioctl about an interface.
///
/// # Safety
/// The members of `ifru` that the request reads must be valid.
unsafe fn query(
    name: &str,
    request: libc::c_ulong,
    ifru: libc::__c_anonymous_ifr_ifru,
) -> io::Result<libc::__c_anonymous_ifr_ifru> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut requested = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: ifru,
    };
    if name.len() >= requested.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in requested.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request has a name with an end and outlives the call; the caller answers for the
    // rest.
    match unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut requested) } {
        0.. => Ok(requested.ifr_ifru),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Creates a new network namespace for the calling thread.
pub(super) fn unshare_network() -> io::Result<()> {
    // SAFETY: only the namespace of this thread changes; no memory or file descriptor is involved.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
