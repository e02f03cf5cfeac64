//! Memory shared with the kernel: the frames of an AF_XDP socket and its rings
//! (`Documentation/networking/af_xdp.rst`); and the socket options that no safe library has.
#![allow(unsafe_code, reason = "memory shared with the kernel, system calls")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::xdp::{XdpDesc, XdpDescOptions, XdpRingOffset};

use crate::sys::set_option;

/// A frame lies within one chunk, at any offset. The kernel accepts chunks of 2048 bytes or a page.
pub(super) const CHUNK_BYTES: usize = 2048;

/// A mapping; unmapped when dropped.
struct Map {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone; every access goes through the types below, by
// &mut or atomics.
unsafe impl Send for Map {}

impl Map {
    /// Maps zeroed memory of our own or, with a socket and an offset, one of its rings.
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

    /// Returns the `T` at `offset`, which must be inside and aligned.
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

/// The memory of the frames (UMEM).
pub(super) struct Umem {
    map: Map,
}

impl Umem {
    /// Allocates `chunks` chunks.
    pub(super) fn new(chunks: usize) -> io::Result<Umem> {
        let map = Map::new(chunks * CHUNK_BYTES, None)?;
        Ok(Umem { map })
    }

    /// Address and length, for registration.
    pub(super) fn region(&self) -> (u64, u64) {
        (self.map.start.as_ptr() as u64, self.map.length as u64)
    }

    /// Returns some of its bytes. The kernel only reads them, between [`Producer::publish`] and its
    /// consumption.
    #[inline]
    pub(super) fn bytes(&mut self, start: usize, length: usize) -> &mut [u8] {
        assert!(start <= self.map.length && length <= self.map.length - start);
        // SAFETY: inside of the mapping; &mut self makes it the only reference; bytes have no
        // invalid values.
        unsafe { std::slice::from_raw_parts_mut(self.map.start.as_ptr().add(start), length) }
    }
}

/// The common part of both kinds of ring: two positions that count up for ever, and entries, a
/// power of two.
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
        // SAFETY: inside of the mapping, aligned, alive as long as self; the kernel accesses it
        // atomically too.
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

/// The ring of frames to send: we produce, the kernel consumes.
pub(super) struct Producer {
    ring: Ring<XdpDesc>,
    position: u32,
    /// The kernel's position as of our last look, because every look may miss the cache.
    consumed: u32,
}

impl Producer {
    /// Maps a socket's transmit ring.
    pub(super) fn new(
        socket: &OwnedFd,
        offsets: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<Producer> {
        let ring = Ring::new(socket, libc::XDP_PGOFF_TX_RING as u64, offsets, entries)?;
        Ok(Producer {
            ring,
            position: 0,
            consumed: 0,
        })
    }

    /// Returns the entries that the kernel has not consumed yet, as far as it has published that.
    #[inline]
    pub(super) fn pending(&mut self) -> u32 {
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        self.position.wrapping_sub(self.consumed)
    }

    /// Returns true if there is a free entry.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.position.wrapping_sub(self.consumed) <= self.ring.mask
            || self.pending() <= self.ring.mask
    }

    /// Writes the next entry; there must be room. The kernel sees it after [`Producer::publish`].
    #[inline]
    pub(super) fn push(&mut self, start: usize, bytes: u32, options: u32) {
        assert!(self.has_room());
        let descriptor = XdpDesc {
            addr: start as u64,
            len: bytes,
            options: XdpDescOptions::from_bits_retain(options),
        };
        // SAFETY: the entry is inside of the ring, and free: the kernel does not read it before it
        // is published.
        unsafe { self.ring.entry(self.position).write(descriptor) };
        self.position = self.position.wrapping_add(1);
    }

    /// Shows the kernel what was pushed.
    #[inline]
    pub(super) fn publish(&self) {
        self.ring.producer().store(self.position, Ordering::Release);
    }

    /// Returns true if the kernel needs a system call before it looks at the ring.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.ring.flags else {
            return true;
        };
        // SAFETY: as in `Ring::producer`.
        unsafe { flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The ring of returned frames: the kernel produces, we consume.
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

    /// Returns the offset of the next returned frame.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        if self.position == self.ring.producer().load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: inside of the ring, and written: the producer is ahead of us.
        let address = unsafe { self.ring.entry(self.position).read() };
        self.position = self.position.wrapping_add(1);
        self.ring.consumer().store(self.position, Ordering::Release);
        Some(address as usize)
    }
}

/// Gives the kernel `entries` chunks to receive into, all at once. A driver that receives in place
/// takes them when the socket is bound, even if the socket only sends.
pub(super) fn give_chunks(
    socket: &OwnedFd,
    offsets: &XdpRingOffset,
    first_chunk: usize,
    entries: u32,
) -> io::Result<()> {
    let page_offset = libc::XDP_UMEM_PGOFF_FILL_RING;
    let ring: Ring<u64> = Ring::new(socket, page_offset, offsets, entries)?;
    for number in 0..entries {
        let address = (first_chunk + number as usize) * CHUNK_BYTES;
        // SAFETY: inside of the ring, and free: the kernel has not been given any entry yet.
        unsafe { ring.entry(number).write(address as u64) };
    }
    ring.producer().store(entries, Ordering::Release);
    Ok(())
}

/// Sets the maximum number of frames per system call, if the kernel supports it (6.17).
pub(super) fn set_budget(socket: &OwnedFd, frames: u32) -> io::Result<()> {
    /// `XDP_MAX_TX_SKB_BUDGET`
    const MAX_TX_SKB_BUDGET: libc::c_int = 9;
    set_option(socket, libc::SOL_XDP, MAX_TX_SKB_BUDGET, &frames)
}

/// Polls the driver's queue from our system calls, with this time and this number of frames per
/// poll, and defers its interrupts meanwhile.
pub(super) fn set_busy_poll(socket: &OwnedFd, wait_us: u32, budget: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1_u32)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &wait_us)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, &budget)
}

/// `struct ethtool_channels`
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_ringparam`
#[repr(C)]
#[derive(Default)]
struct Rings {
    command: u32,
    most: [u32; 4],
    rx: u32,
    others: [u32; 3],
}

/// Returns the number of transmit queues in use on an interface of the calling thread's namespace,
/// as in `ethtool -l`.
pub(super) fn transmit_queues(socket: &OwnedFd, interface: &str) -> io::Result<u32> {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    ethtool(socket, interface, &mut channels)?;
    Ok(channels.tx + channels.combined)
}

/// Returns the length of the receive rings of an interface of the calling thread's namespace, as in
/// `ethtool -g`.
pub(super) fn receive_ring(socket: &OwnedFd, interface: &str) -> io::Result<u32> {
    const ETHTOOL_GRINGPARAM: u32 = 0x10;
    let mut rings = Rings {
        command: ETHTOOL_GRINGPARAM,
        ..Rings::default()
    };
    ethtool(socket, interface, &mut rings)?;
    Ok(rings.rx)
}

/// Asks a driver; `T` is the structure of the command that it begins with.
fn ethtool<T>(socket: &OwnedFd, interface: &str, answer: &mut T) -> io::Result<()> {
    const SIOCETHTOOL: u32 = 0x8946;
    // SAFETY: an ifreq is integers and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut *answer).cast();
    // SAFETY: the request names the interface and leads to the answer; both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    use rustix::net::sockopt::{
        set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size, set_xdp_umem_reg,
        xdp_mmap_offsets,
    };
    use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

    #[test]
    fn a_driver_finds_as_many_chunks_as_its_ring_has_entries() {
        let socket = socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => {
                let test = "a_driver_finds_as_many_chunks_as_its_ring_has_entries";
                let _ = writeln!(io::stderr(), "SKIPPED: {test}: {error}");
                return;
            }
        };
        let umem = Umem::new(8 + 64).unwrap();
        let (addr, len) = umem.region();
        let registration = XdpUmemReg {
            addr,
            len,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        set_xdp_umem_reg(&socket, registration).unwrap();
        set_xdp_umem_fill_ring_size(&socket, 64).unwrap();
        set_xdp_umem_completion_ring_size(&socket, 64).unwrap();
        let offsets = xdp_mmap_offsets(&socket).unwrap();
        give_chunks(&socket, &offsets.fr, 8, 64).unwrap();
        let seen: Ring<u64> =
            Ring::new(&socket, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, 64).unwrap();
        assert_eq!(seen.producer().load(Ordering::Acquire), 64);
        let addresses: Vec<u64> = (0..64)
            // SAFETY: inside of the ring, and written before.
            .map(|at| unsafe { seen.entry(at).read() })
            .collect();
        let expected: Vec<u64> = (8..72).map(|chunk| chunk * CHUNK_BYTES as u64).collect();
        assert_eq!(addresses, expected);
        assert!(
            addresses
                .iter()
                .all(|address| address + CHUNK_BYTES as u64 <= len)
        );
    }
}
