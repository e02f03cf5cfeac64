//! Memory shared with the kernel: the frames of an AF_XDP socket and its rings (`Documentation/networking/af_xdp.rst`).
#![allow(unsafe_code, reason = "memory shared with the kernel")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::xdp::{XdpDesc, XdpDescOptions, XdpRingOffset};

/// Bytes of a frame's buffer. The kernel takes 2048 or a page.
pub(super) const FRAME_BYTES: usize = 2048;

/// A mapping; unmapped when dropped.
struct Map {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone; every access goes through the types below, by &mut or atomics.
unsafe impl Send for Map {}

impl Map {
    /// Zeroed memory of our own, or, with a socket and an offset, one of its rings.
    fn new(length: usize, ring: Option<(&OwnedFd, u64)>) -> io::Result<Map> {
        let (flags, fd, offset) = match ring {
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
            Some((socket, offset)) => (libc::MAP_SHARED, socket.as_raw_fd(), offset),
        };
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_POPULATE,
                fd,
                offset as libc::off_t,
            )
        };
        match NonNull::new(start.cast()) {
            Some(start) if start.as_ptr() as isize != -1 => Ok(Map { start, length }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The `T` at `offset`, which must be inside and aligned.
    fn at<T>(&self, offset: u64, count: usize) -> NonNull<T> {
        let offset = offset as usize;
        assert!(offset + count * size_of::<T>() <= self.length);
        // SAFETY: inside of the mapping, as just asserted.
        let pointer = unsafe { self.start.add(offset) }.cast();
        assert!(pointer.is_aligned());
        pointer
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.length);
        }
    }
}

/// The buffers of the frames (UMEM).
pub(super) struct Frames {
    map: Map,
    count: usize,
}

impl Frames {
    /// Buffers for `count` frames.
    pub(super) fn new(count: usize) -> io::Result<Frames> {
        let map = Map::new(count * FRAME_BYTES, None)?;
        Ok(Frames { map, count })
    }

    /// Address and length, for registration.
    pub(super) fn region(&self) -> (u64, u64) {
        (self.map.start.as_ptr() as u64, self.map.length as u64)
    }

    /// The buffer of frame `index`. The kernel only reads it, between [`Producer::publish`] and its consumption.
    #[inline]
    pub(super) fn frame(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.count);
        // SAFETY: inside of the mapping; &mut self makes it the only reference; bytes have no invalid values.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.map.start.as_ptr().add(index * FRAME_BYTES),
                FRAME_BYTES,
            )
        }
    }
}

/// What both kinds of ring have: two positions that count up for ever, and a power of two of entries.
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    mask: u32,
    _map: Map,
}

// SAFETY: the pointers lead into the mapping, which is Send.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    fn new(
        socket: &OwnedFd,
        page_offset: u64,
        offsets: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<Ring<T>> {
        assert!(entries.is_power_of_two());
        let length = offsets.desc as usize + entries as usize * size_of::<T>();
        let map = Map::new(length, Some((socket, page_offset)))?;
        Ok(Ring {
            producer: map.at(offsets.producer, 1),
            consumer: map.at(offsets.consumer, 1),
            flags: offsets.flags.map(|flags| map.at(flags, 1)),
            entries: map.at(offsets.desc, entries as usize),
            mask: entries - 1,
            _map: map,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside of the mapping, aligned, alive as long as self; the kernel accesses it atomically too.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn entry(&self, position: u32) -> NonNull<T> {
        // SAFETY: the mask keeps it inside of the entries.
        unsafe { self.entries.add((position & self.mask) as usize) }
    }
}

/// The ring of frames to be sent: we produce, the kernel consumes.
pub(super) struct Producer {
    ring: Ring<XdpDesc>,
    position: u32,
}

impl Producer {
    /// Maps a socket's transmit ring.
    pub(super) fn new(
        socket: &OwnedFd,
        offsets: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<Producer> {
        let ring = Ring::new(socket, libc::XDP_PGOFF_TX_RING as u64, offsets, entries)?;
        Ok(Producer { ring, position: 0 })
    }

    /// Entries that the kernel has not taken yet, as far as it has told.
    #[inline]
    pub(super) fn pending(&self) -> u32 {
        self.position
            .wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Free entries.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        (self.ring.mask + 1).saturating_sub(self.pending())
    }

    /// Writes the next entry; there must be room. The kernel sees it after [`Producer::publish`].
    #[inline]
    pub(super) fn push(&mut self, frame: usize, bytes: usize) {
        assert!(self.room() > 0);
        let descriptor = XdpDesc {
            addr: (frame * FRAME_BYTES) as u64,
            len: bytes as u32,
            options: XdpDescOptions::empty(),
        };
        // SAFETY: the entry is inside of the ring, and free: the kernel does not read it before it is published.
        unsafe { self.ring.entry(self.position).write(descriptor) };
        self.position = self.position.wrapping_add(1);
    }

    /// Shows the kernel what was pushed.
    #[inline]
    pub(super) fn publish(&self) {
        self.ring.producer().store(self.position, Ordering::Release);
    }

    /// Does the kernel want a system call before it looks at the ring?
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.ring.flags else {
            return true;
        };
        // SAFETY: as in `Ring::producer`.
        unsafe { flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The ring of frames whose buffers are ours again: the kernel produces, we consume.
pub(super) struct Completions {
    ring: Ring<u64>,
    position: u32,
}

impl Completions {
    /// Maps a socket's completion ring.
    pub(super) fn new(
        socket: &OwnedFd,
        offsets: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<Completions> {
        let page_offset = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let ring = Ring::new(socket, page_offset, offsets, entries)?;
        Ok(Completions { ring, position: 0 })
    }

    /// The next frame that is ours again.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        if self.position == self.ring.producer().load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: inside of the ring, and written: the producer is ahead of us.
        let address = unsafe { self.ring.entry(self.position).read() };
        self.position = self.position.wrapping_add(1);
        self.ring.consumer().store(self.position, Ordering::Release);
        Some(address as usize / FRAME_BYTES)
    }
}
