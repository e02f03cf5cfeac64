//! One AF_XDP socket: a transmit queue of a port, its two rings, and the mode that the driver
//! accepted.
//!
//! Does not know the contents or the counts of frames. Start with [`Queue`].

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets, xdp_options,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XdpOptionsFlags, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with};

use super::metadata;
use super::sys::{CHUNK_BYTES, Completions, Producer, give_chunks, set_budget, set_busy_poll};
use super::tx::{Options, ZeroCopy};
use crate::sender::counters::Counters;
use crate::sender::thread::BATCH;

/// Entries of a queue's rings, a power of two. A slot is free again when the DUT has fetched its
/// frame, so there must be clearly more than a veth queue holds (256): with fewer, the sender waits
/// for the DUT, and overload shows no loss.
pub(super) const ENTRIES: u32 = 512;

/// Frames in the ring are charged to the socket. The kernel grants less if `net.core.wmem_max` is
/// lower.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// Chunks that a queue gives to a driver with zero-copy, as many as its fill ring has entries,
/// which are a power of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) first_chunk: usize,
    pub(super) entries: u32,
}

/// A socket on one transmit queue.
pub(super) struct Queue {
    socket: OwnedFd,
    ring: Producer,
    completions: Completions,
    /// True if the device reads frames in place; otherwise the kernel has copied them when they
    /// leave the ring.
    pub zero_copy: bool,
    /// Streams of the frames in the ring, indexed by frame number modulo [`ENTRIES`].
    streams: Box<[u32]>,
    /// Frames of this trial that were put into the ring, and how many of them were counted as sent.
    produced: u64,
    counted: u64,
    /// Frames that were put into the ring and were not returned yet.
    in_flight: u64,
    /// Options of every descriptor.
    descriptor_options: u32,
}

impl Queue {
    /// Opens a socket on a queue of an interface, with its own memory or that of the first queue.
    pub(super) fn open(
        interface: u32,
        queue: u32,
        (addr, len): (u64, u64),
        options: &Options,
        first: Option<&Queue>,
        with_metadata: bool,
        given: Option<Given>,
    ) -> io::Result<Queue> {
        let socket = socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
        if first.is_none() {
            let umem = XdpUmemReg {
                addr,
                len,
                chunk_size: CHUNK_BYTES as u32,
                headroom: 0,
                flags: match with_metadata {
                    true => XdpUmemRegFlags::from_bits_retain(metadata::UMEM_FLAG),
                    false => XdpUmemRegFlags::empty(),
                },
                tx_metadata_len: if with_metadata {
                    metadata::BYTES as u32
                } else {
                    0
                },
            };
            set_xdp_umem_reg(&socket, umem)?;
        }
        // bind requires a fill ring, although this socket never receives
        set_xdp_umem_fill_ring_size(&socket, given.map_or(1, |given| given.entries))?;
        set_xdp_umem_completion_ring_size(&socket, ENTRIES)?;
        set_xdp_tx_ring_size(&socket, ENTRIES)?;
        let offsets = xdp_mmap_offsets(&socket)?;
        if let Some(given) = given {
            give_chunks(&socket, &offsets.fr, given.first_chunk, given.entries)?;
        }
        let ring = Producer::new(&socket, &offsets.tx, ENTRIES)?;
        let completions = Completions::new(&socket, &offsets.cr, ENTRIES)?;
        // a whole batch per call instead of half of one; older kernels do not support it
        let _ = set_budget(&socket, BATCH as u32);
        if let Some(busy_poll) = options.busy_poll {
            set_busy_poll(&socket, busy_poll.wait_us, busy_poll.budget)?;
        }
        match first {
            None => {
                // without a flag about copies the kernel tries zero-copy, and falls back to copies
                // if the driver refuses
                let copies = match options.zero_copy {
                    ZeroCopy::Try => SocketAddrXdpFlags::empty(),
                    ZeroCopy::Never => SocketAddrXdpFlags::XDP_COPY,
                    ZeroCopy::Require => SocketAddrXdpFlags::XDP_ZEROCOPY,
                };
                let flags = copies | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
                bind(&socket, &SocketAddrXdp::new(flags, interface, queue))?;
            }
            Some(first) => {
                // everything else is the same as for the first one
                let flags = SocketAddrXdpFlags::XDP_SHARED_UMEM;
                bind(
                    &socket,
                    &SocketAddrXdpWithSharedUmem {
                        addr: SocketAddrXdp::new(flags, interface, queue),
                        shared_umem_fd: first.socket.as_fd(),
                    },
                )?;
            }
        }
        let zero_copy = xdp_options(&socket)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        Ok(Queue {
            socket,
            ring,
            completions,
            zero_copy,
            streams: vec![0; ENTRIES as usize].into(),
            produced: 0,
            counted: 0,
            in_flight: 0,
            descriptor_options: match with_metadata {
                true => metadata::DESCRIPTOR_OPTION,
                false => 0,
            },
        })
    }

    /// Begins a trial.
    pub(super) fn begin(&mut self) {
        (self.produced, self.counted) = (0, 0);
    }

    /// Returns true if there is room for a frame.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.ring.has_room()
    }

    /// Puts a frame into the ring, which must have room. The kernel sees it after
    /// [`publish`](Self::publish).
    #[inline]
    pub(super) fn push(&mut self, start: usize, bytes: u32, stream: u32) {
        self.ring.push(start, bytes, self.descriptor_options);
        self.streams[self.produced as usize % ENTRIES as usize] = stream;
        self.produced += 1;
        self.in_flight += 1;
    }

    /// Shows the kernel what was put into the ring.
    #[inline]
    pub(super) fn publish(&self) {
        self.ring.publish();
    }

    /// Returns the offset of the next frame that the kernel has returned.
    #[inline]
    pub(super) fn complete(&mut self) -> Option<usize> {
        let start = self.completions.pop()?;
        self.in_flight = self.in_flight.saturating_sub(1);
        Some(start)
    }

    /// Returns the number of frames that were not returned yet.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the frames of this trial that have not been given to the driver, or to the wire with
    /// zero-copy.
    #[inline]
    pub(super) fn unsent(&mut self) -> u64 {
        if self.zero_copy {
            return self.in_flight;
        }
        // The kernel may publish its position late, but a completed frame has left the ring.
        u64::from(self.ring.pending()).min(self.in_flight)
    }

    /// Counts the streams of the frames sent since the last call; returns the frames of this trial
    /// that were sent.
    #[inline]
    pub(super) fn count(&mut self, counters: &Counters) -> u64 {
        let sent = self.produced.saturating_sub(self.unsent());
        if counters.streams() > 0 {
            let mut streams = counters.tally();
            for number in self.counted..sent {
                streams.add(self.streams[number as usize % ENTRIES as usize]);
            }
        }
        self.counted = self.counted.max(sent);
        sent
    }

    /// Wakes the kernel to look at the ring, if it requested that. It is not an error if the kernel
    /// makes no progress.
    #[inline]
    pub(super) fn wake(&self, counters: &Counters) -> io::Result<()> {
        if !self.ring.needs_wakeup() {
            return Ok(());
        }
        counters.count_wakeup();
        match send(&self.socket, &[], SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
