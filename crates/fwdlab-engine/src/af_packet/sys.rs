//! System calls on packet sockets that no safe library has: bind, options, filters, statistics,
//! `sendmmsg`.
#![allow(unsafe_code, reason = "system calls")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::sys::{check, set_option};

/// One instruction of a classic BPF program.
pub(super) type Instruction = libc::sock_filter;

/// Opens a raw packet socket in the calling thread's network namespace; it receives nothing before
/// [`bind`].
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds the socket: it sends into this interface, and receives frames of `protocol` from it (host
/// order; 0: none).
pub(super) fn bind(socket: &OwnedFd, interface: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address outlives the call and has the length given.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        )
    })
}

/// Sends past the queueing discipline, straight to the driver.
pub(super) fn bypass_qdisc(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)
}

/// Marks the frames of this socket in the kernel.
pub(super) fn set_mark(socket: &OwnedFd, mark: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, &mark)
}

/// Receives only incoming frames.
pub(super) fn ignore_outgoing(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)
}

/// Makes the interface accept frames of this kind (`PACKET_MR_*`), until the socket is closed.
pub(super) fn join(socket: &OwnedFd, interface: u32, kind: u16) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface as libc::c_int,
        mr_type: kind,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &request,
    )
}

/// Replaces the socket's filter, from the next frame on.
pub(super) fn attach_filter(socket: &OwnedFd, program: &[Instruction]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // the kernel copies the program before the call returns, and does not write to it
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Returns the frames that passed the filter since the last call, including those that did not fit
/// the buffer.
pub(super) fn take_statistics(socket: &OwnedFd) -> io::Result<u32> {
    statistics(socket).map(|statistics| statistics.tp_packets)
}

/// Returns the frames that did not fit the buffer since the last call.
pub(super) fn take_drops(socket: &OwnedFd) -> io::Result<u32> {
    statistics(socket).map(|statistics| statistics.tp_drops)
}

fn statistics(socket: &OwnedFd) -> io::Result<libc::tpacket_stats> {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of::<libc::tpacket_stats>() as u32;
    // SAFETY: value and length outlive the call, and the length is the value's.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    })?;
    Ok(statistics)
}

/// Frames in one piece of memory, each on its own cache lines, and the structures with which
/// `sendmmsg` sends them.
pub(super) struct Batch {
    bytes: Box<[u8]>,
    /// Offset and length of each frame.
    frames: Box<[(usize, usize)]>,
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the raw pointers in vectors and messages are set from our own buffers in each `send`, and
// read only there.
unsafe impl Send for Batch {}

impl Batch {
    /// Allocates frames of these lengths; at most `most` are sent at a time.
    pub(super) fn new(lengths: impl Iterator<Item = usize>, most: usize) -> Batch {
        let mut end = 0;
        let mut frames: Box<[_]> = lengths
            .map(|bytes| {
                let start = end;
                end += bytes.next_multiple_of(64);
                (start, bytes)
            })
            .collect();
        let bytes: Box<[u8]> = vec![0; end + 63].into();
        let align = bytes.as_ptr().align_offset(64).min(63);
        frames.iter_mut().for_each(|(start, _)| *start += align);
        let vector = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: an mmsghdr is integers and pointers, for which zero is a value.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Batch {
            bytes,
            frames,
            vectors: vec![vector; most].into(),
            messages: vec![message; most].into(),
        }
    }

    /// Returns the number of frames.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the buffer of frame `index`.
    #[inline]
    pub(super) fn frame(&mut self, index: usize) -> &mut [u8] {
        let (start, bytes) = self.frames[index];
        &mut self.bytes[start..start + bytes]
    }

    /// Sends `count` frames from `first` on, wrapping after the last one, each with the length that
    /// `length` returns; waits for room. Returns how many the kernel took: at least one, unless
    /// `count` is 0.
    ///
    /// If it took fewer than `count`, the next one was refused for a reason that the kernel does
    /// not report. An error refers to the first frame.
    #[inline]
    pub(super) fn send(
        &mut self,
        socket: &OwnedFd,
        first: usize,
        count: usize,
        length: impl Fn(usize) -> usize,
    ) -> io::Result<usize> {
        let mut index = first;
        let mut messages = 0;
        let prepared = self.vectors.iter_mut().zip(&mut self.messages);
        for (vector, message) in prepared.take(count) {
            let (start, bytes) = self.frames[index];
            let frame = &mut self.bytes[start..start + length(index).min(bytes)];
            vector.iov_base = frame.as_mut_ptr().cast();
            vector.iov_len = frame.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            messages += 1;
            index += 1;
            if index == self.frames.len() {
                index = 0;
            }
        }
        // SAFETY: the first `messages` headers point at one vector each, and those at a frame each,
        // all of which we own and keep until the call is over.
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), messages, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_at_most_the_offered_frames() {
        let (socket, _other) = std::os::unix::net::UnixDatagram::pair().expect("a pair of sockets");
        let socket = OwnedFd::from(socket);
        let mut batch = Batch::new([60, 60].into_iter(), 2);
        for (count, taken) in [(0, 0), (1, 1), (2, 2)] {
            let sent = batch.send(&socket, 1, count, |_| 60);
            assert_eq!(sent.expect("there is room"), taken);
        }
    }
}
