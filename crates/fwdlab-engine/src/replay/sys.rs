//! System calls of the replay: a packet socket, and batches of frames of any lengths.
#![allow(unsafe_code, reason = "socket options and sendmmsg")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys::{check, set_option};

/// Maximum number of frames per system call.
pub(super) const BATCH: usize = 64;

/// A packet socket that only sends, past the queueing discipline.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// Opens a socket on an interface.
    pub(super) fn open(interface: u32) -> io::Result<Socket> {
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        check(fd)?;
        // SAFETY: a descriptor that nobody else has.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let on: libc::c_int = 1;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)?;
        // SAFETY: an all-zero address is valid, and it outlives the call.
        unsafe {
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = interface as libc::c_int;
            check(libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            ))?;
        }
        Ok(Socket(socket))
    }

    /// Sends frames, at most [`BATCH`]; returns how many were taken: at least one, unless there are
    /// none. An error refers to the first frame.
    pub(super) fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        // SAFETY: all-zero headers and vectors are valid.
        let mut vectors: [libc::iovec; BATCH] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        for ((frame, vector), message) in frames.iter().zip(&mut vectors).zip(&mut messages) {
            // the kernel only reads it
            vector.iov_base = frame.as_ptr().cast_mut().cast();
            vector.iov_len = frame.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` headers point at one vector each, and those at a frame each;
        // all outlive the call.
        let sent = unsafe { libc::sendmmsg(self.0.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
