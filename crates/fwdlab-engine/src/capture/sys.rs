//! System calls of the capture: a packet socket with a ring of blocks that the kernel fills
//! (TPACKET_V3).
#![allow(
    unsafe_code,
    reason = "socket options and memory shared with the kernel"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::stamps::Kind;
use crate::stamps::sys::stamp_arrivals;
use crate::sys::{check, set_option};

/// Offset of a block's status (`struct tpacket_block_desc`: version, offset to private data, then
/// this).
const BLOCK_STATUS: usize = 8;

/// A socket, and the ring it shares with the kernel.
#[derive(Debug)]
pub(super) struct Ring {
    socket: OwnedFd,
    memory: ptr::NonNull<u8>,
    block_bytes: usize,
    blocks: usize,
}

// SAFETY: the memory belongs to this value alone; the kernel hands blocks over with the status
// word.
unsafe impl Send for Ring {}

/// The kernel's counts since they were read last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Statistics {
    /// Frames that passed the filter, including dropped ones.
    pub frames: u32,
    /// Frames dropped because the ring was full.
    pub dropped: u32,
}

impl Ring {
    /// Opens a packet socket with a ring; it receives nothing yet.
    pub(super) fn open(block_bytes: usize, blocks: usize, retire_ms: u32) -> io::Result<Ring> {
        // SAFETY: no memory is involved.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            check(fd)?;
            OwnedFd::from_raw_fd(fd)
        };
        option(
            &socket,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
        )?;
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes as u32,
            tp_block_nr: blocks as u32,
            // the kernel requires it to fit, but fills blocks with frames of any length
            tp_frame_size: block_bytes as u32,
            tp_frame_nr: blocks as u32,
            tp_retire_blk_tov: retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        option(&socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping of the socket's ring, as long as was asked for.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                block_bytes * blocks,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = ptr::NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring {
            socket,
            memory,
            block_bytes,
            blocks,
        })
    }

    /// Keeps this many bytes of each frame.
    pub(super) fn keep(&self, bytes: u32) -> io::Result<()> {
        let mut instruction = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: bytes,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: &raw mut instruction,
        };
        set_option(
            &self.socket,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            &program,
        )
    }

    /// Captures only incoming frames.
    pub(super) fn ignore_outgoing(&self) -> io::Result<()> {
        option(&self.socket, libc::PACKET_IGNORE_OUTGOING, &1_i32)
    }

    /// Enables stamps of arriving frames in addition to those of the ring.
    pub(super) fn stamp(&self, kind: Kind) -> io::Result<()> {
        stamp_arrivals(&self.socket, kind)
    }

    /// Accepts frames to all addresses, until the socket is closed.
    pub(super) fn be_promiscuous(&self, interface: u32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        option(&self.socket, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Captures all frames of an interface from now on.
    pub(super) fn bind(&self, interface: u32) -> io::Result<()> {
        // SAFETY: an all-zero address is valid, and it outlives the call.
        unsafe {
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = interface as libc::c_int;
            check(libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            ))
        }
    }

    /// Sends a frame out of the interface the ring is bound to.
    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame outlives the call.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the bytes of a block, if the kernel has delivered it.
    pub(super) fn block(&self, index: usize) -> Option<&[u8]> {
        if self.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let begin = index * self.block_bytes;
        // SAFETY: inside the mapping; the kernel leaves the block alone until it is released, which
        // needs `&mut self`.
        Some(unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(begin), self.block_bytes)
        })
    }

    /// Returns a block to the kernel.
    pub(super) fn release(&mut self, index: usize) {
        self.status(index)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.blocks);
        // SAFETY: inside the mapping and aligned, for blocks are whole pages; kernel and we use it
        // as one word.
        unsafe {
            let at = self
                .memory
                .as_ptr()
                .add(index * self.block_bytes + BLOCK_STATUS);
            AtomicU32::from_ptr(at.cast())
        }
    }

    /// Waits until a block may be available, up to `patience_ms`. `Err` if the interface is gone or
    /// down.
    pub(super) fn wait(&self, patience_ms: i32) -> io::Result<()> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which outlives the call.
        match unsafe { libc::poll(&raw mut poll, 1, patience_ms) } {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                error => Err(error),
            },
            _ if poll.revents & libc::POLLERR != 0 => Err(self.take_error()?),
            _ => Ok(()),
        }
    }

    fn take_error(&self) -> io::Result<io::Error> {
        let error: libc::c_int = get(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR)?;
        Ok(io::Error::from_raw_os_error(if error == 0 {
            libc::ENETDOWN
        } else {
            error
        }))
    }

    /// Returns the kernel's counts since the last call.
    pub(super) fn statistics(&self) -> io::Result<Statistics> {
        let [frames, dropped, _frozen]: [u32; 3] =
            get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(Statistics { frames, dropped })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nothing refers to any more.
        unsafe {
            libc::munmap(self.memory.as_ptr().cast(), self.block_bytes * self.blocks);
        }
    }
}

fn option<T>(socket: &OwnedFd, name: libc::c_int, value: &T) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, name, value)
}

fn get<T: Default + Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value has the length given, and any bits are a value of the integers used here.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    })?;
    Ok(value)
}
