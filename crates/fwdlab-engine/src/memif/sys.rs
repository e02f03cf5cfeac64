//! Memory shared with a memif peer: regions, the words of rings, and the bytes of buffers.
//!
//! The peer is another process with the same pages. It may write any value at any time, so nothing
//! here takes a length, an offset or a position from shared memory: callers do, and every access is
//! checked against the size of the region. Start with [`Region`].
#![allow(unsafe_code, reason = "memory shared with another process")]

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};

/// Maximum size of a region of the peer.
pub(super) const MAX_REGION_BYTES: u64 = 1 << 30;

/// `MEMIF_COOKIE`: marks a ring of this layout.
pub(super) const COOKIE: u32 = 0x3E31F20;

/// Bytes of a ring before its descriptors: head in the first cache line, tail in the second.
const RING_HEADER: usize = 128;
const DESCRIPTOR_BYTES: usize = 16;

/// A mapped region; unmapped when dropped.
pub(super) struct Region {
    start: NonNull<u8>,
    length: usize,
    file: OwnedFd,
}

// SAFETY: the mapping lives as long as the value; it is accessed by atomics, by copies through raw
// pointers, and by `Span`s, which never overlap within this process.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Allocates a region of zeros that can never shrink, so that neither end can get SIGBUS.
    pub(super) fn create(length: usize) -> io::Result<Region> {
        let file = rustix::fs::memfd_create(
            "fwdlab-memif",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, length as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Region::map(file, length, libc::MAP_POPULATE)
    }

    /// Maps a region of the peer.
    ///
    /// # Errors
    /// If it is too large, if the file is smaller, or if the peer could shrink it later.
    pub(super) fn adopt(file: OwnedFd, length: u64) -> io::Result<Region> {
        let refuse = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        if length == 0 || length > MAX_REGION_BYTES {
            return refuse(format!(
                "{length} bytes; the limit is {MAX_REGION_BYTES} bytes"
            ));
        }
        let seals = fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return refuse(
                "its file is not sealed against shrinking; set zero-copy=no at the peer".into(),
            );
        }
        // only now: before the seal was checked, the size could still change
        let size = fstat(&file)?.st_size;
        if u64::try_from(size).map_or(true, |size| size < length) {
            return refuse(format!("{length} bytes, and its file has {size}"));
        }
        // not populated: a sparse file would get all its pages
        Region::map(file, length as usize, 0)
    }

    fn map(file: OwnedFd, length: usize, flags: libc::c_int) -> io::Result<Region> {
        // SAFETY: no address is requested, so nothing that exists is replaced.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | flags,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast()) {
            Some(start) if start.as_ptr() as isize != -1 => Ok(Region {
                start,
                length,
                file,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns its file, to share it.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns its length in bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Hands out parts of a region for exclusive use by one owner each, besides the region itself
    /// for everything else.
    ///
    /// # Panics
    /// If parts overlap or exceed the region: they are our own layout.
    pub(super) fn carve(self, parts: &[Range<usize>]) -> (Arc<Region>, Vec<Span>) {
        let region = Arc::new(self);
        let mut end = 0;
        let spans = parts.iter().map(|part| {
            assert!(end <= part.start && part.start <= part.end && part.end <= region.length);
            end = part.end;
            Span {
                region: region.clone(),
                part: part.clone(),
            }
        });
        let spans = spans.collect();
        (region, spans)
    }

    fn has(&self, offset: usize, length: usize) -> bool {
        offset <= self.length && length <= self.length - offset
    }

    /// Copies bytes out of it; false if they are not inside.
    #[inline]
    #[must_use]
    pub(super) fn copy_out(&self, offset: u32, to: &mut [u8]) -> bool {
        if !self.has(offset as usize, to.len()) {
            return false;
        }
        // SAFETY: inside of the mapping, as just checked; `to` is our own memory. If the peer
        // writes meanwhile, the copy has some mixture of bytes, each of which is valid.
        unsafe {
            let from = self.start.as_ptr().add(offset as usize);
            ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
        }
        true
    }

    /// Copies bytes into it; false if they are not inside.
    #[inline]
    #[must_use]
    pub(super) fn copy_in(&self, offset: u32, from: &[u8]) -> bool {
        if !self.has(offset as usize, from.len()) {
            return false;
        }
        // SAFETY: inside of the mapping, as just checked; `from` is our own memory. Only memory of
        // a peer is written in this way, and no `Span` of ours is there.
        unsafe {
            let to = self.start.as_ptr().add(offset as usize);
            ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
        true
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.length);
        }
    }
}

/// A part of one of our own regions, for exclusive use in this process. The peer should only read
/// it.
pub(super) struct Span {
    region: Arc<Region>,
    part: Range<usize>,
}

impl Span {
    /// Returns some of its bytes.
    ///
    /// # Panics
    /// If they are not inside: only our own layout may be used here.
    #[inline]
    pub(super) fn bytes(&mut self, at: usize, length: usize) -> &mut [u8] {
        let room = self.part.end - self.part.start;
        assert!(at <= room && length <= room - at);
        // SAFETY: inside of the mapping; `Region::carve` hands out every byte once, so &mut self
        // makes it the only reference of this process. A peer that breaks the protocol may write
        // here meanwhile: then the frame has other bytes, and all bytes are valid. Frames are
        // written here, and no length or offset is ever read from them.
        unsafe {
            let start = self.region.start.as_ptr().add(self.part.start + at);
            std::slice::from_raw_parts_mut(start, length)
        }
    }

    /// Returns the offset in its region of one of its bytes.
    pub(super) fn offset(&self, at: usize) -> u32 {
        (self.part.start + at) as u32
    }
}

/// One entry of a ring: a buffer, or a part of a frame in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Descriptor {
    pub flags: u16,
    pub region: u16,
    pub length: u32,
    pub offset: u32,
}

/// The frame continues in the next descriptor.
pub(super) const FLAG_NEXT: u16 = 1;
/// The consumer of a ring polls it and wants no interrupts.
pub(super) const FLAG_MASK: u16 = 1;

/// The words of a ring: two positions that count up for ever, and descriptors, a power of two.
pub(super) struct RingMemory {
    region: Arc<Region>,
    start: usize,
    mask: u16,
}

impl RingMemory {
    /// Returns the bytes that a ring takes.
    pub(super) fn bytes(log2_size: u8) -> usize {
        RING_HEADER + (DESCRIPTOR_BYTES << log2_size)
    }

    /// Returns the ring at an offset. `None` if it is not inside of the region, not aligned to 8
    /// bytes, or larger than positions of 16 bits allow.
    pub(super) fn new(region: &Arc<Region>, offset: u32, log2_size: u8) -> Option<RingMemory> {
        let start = offset as usize;
        if log2_size > 15 || !start.is_multiple_of(8) || !region.has(start, Self::bytes(log2_size))
        {
            return None;
        }
        Some(RingMemory {
            region: region.clone(),
            start,
            mask: ((1_u32 << log2_size) - 1) as u16,
        })
    }

    /// Returns the number of descriptors.
    #[inline]
    pub(super) fn size(&self) -> u16 {
        self.mask + 1
    }

    /// Returns the index of the descriptor at a position.
    #[inline]
    pub(super) fn index(&self, position: u16) -> usize {
        usize::from(position & self.mask)
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU16 {
        debug_assert!(at + 2 <= RING_HEADER + (usize::from(self.mask) + 1) * DESCRIPTOR_BYTES);
        // SAFETY: all callers pass an even constant within the header, or within a descriptor whose
        // index is masked; `new` has checked that the whole ring is inside of the mapping, which is
        // aligned to a page, at a multiple of 8. Both processes access it atomically.
        unsafe { AtomicU16::from_ptr(self.region.start.as_ptr().add(self.start + at).cast()) }
    }

    #[inline]
    fn long(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at + 4 <= RING_HEADER + (usize::from(self.mask) + 1) * DESCRIPTOR_BYTES);
        // SAFETY: as in `word`, with multiples of 4.
        unsafe { AtomicU32::from_ptr(self.region.start.as_ptr().add(self.start + at).cast()) }
    }

    /// Makes it an empty ring.
    pub(super) fn clear(&self) {
        self.long(0).store(COOKIE, Ordering::Relaxed);
        self.set_flags(0);
        self.set_head(0);
        self.set_tail(0);
    }

    pub(super) fn cookie(&self) -> u32 {
        self.long(0).load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn flags(&self) -> u16 {
        self.word(4).load(Ordering::Relaxed)
    }

    pub(super) fn set_flags(&self, flags: u16) {
        self.word(4).store(flags, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn head(&self) -> u16 {
        self.word(6).load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set_head(&self, position: u16) {
        self.word(6).store(position, Ordering::Release);
    }

    #[inline]
    pub(super) fn tail(&self) -> u16 {
        self.word(64).load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set_tail(&self, position: u16) {
        self.word(64).store(position, Ordering::Release);
    }

    /// Reads the descriptor at a position, once: the peer may change it at any time.
    #[inline]
    pub(super) fn descriptor(&self, position: u16) -> Descriptor {
        let at = RING_HEADER + self.index(position) * DESCRIPTOR_BYTES;
        Descriptor {
            flags: self.word(at).load(Ordering::Relaxed),
            region: self.word(at + 2).load(Ordering::Relaxed),
            length: self.long(at + 4).load(Ordering::Relaxed),
            offset: self.long(at + 8).load(Ordering::Relaxed),
        }
    }

    /// Writes the descriptor at a position, without its metadata.
    #[inline]
    pub(super) fn set_descriptor(&self, position: u16, descriptor: Descriptor) {
        let at = RING_HEADER + self.index(position) * DESCRIPTOR_BYTES;
        self.word(at).store(descriptor.flags, Ordering::Relaxed);
        self.word(at + 2)
            .store(descriptor.region, Ordering::Relaxed);
        self.long(at + 4)
            .store(descriptor.length, Ordering::Relaxed);
        self.long(at + 8)
            .store(descriptor.offset, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_can_shrink_or_is_smaller_than_claimed_is_refused() {
        let file = |seals, length| {
            let file = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&file, length).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            file
        };
        assert!(Region::adopt(file(SealFlags::SHRINK, 8192), 8192).is_ok());
        let refused = [
            (file(SealFlags::GROW, 8192), 8192, "not sealed"),
            (file(SealFlags::SHRINK, 8192), 8193, "has 8192"),
            (file(SealFlags::SHRINK, 8192), 0, "0 bytes"),
            (file(SealFlags::SHRINK, 8192), u64::MAX, "the limit"),
        ];
        for (file, length, reason) in refused {
            let error = Region::adopt(file, length).err().expect(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
        // no memory file at all
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert!(Region::adopt(pipe, 1).is_err());
    }

    #[test]
    fn our_own_region_cannot_be_shrunk_by_the_peer() {
        let region = Region::create(8192).unwrap();
        assert!(ftruncate(region.file(), 4096).is_err());
        assert_eq!(fstat(region.file()).unwrap().st_size, 8192);
    }

    #[test]
    fn nothing_outside_of_a_region_is_accessible() {
        let region = Region::create(4096).unwrap();
        let mut to = [0; 16];
        assert!(region.copy_out(4080, &mut to) && region.copy_in(4080, &to));
        for offset in [4081, 4096, u32::MAX] {
            assert!(!region.copy_out(offset, &mut to) && !region.copy_in(offset, &to));
        }
        let region = Arc::new(region);
        assert!(RingMemory::new(&region, 0, 7).is_some());
        // too large, too far back, not aligned, more than positions can tell apart
        for (offset, log2_size) in [(0, 8), (2048, 7), (4, 7), (u32::MAX - 7, 0), (0, 255)] {
            assert!(RingMemory::new(&region, offset, log2_size).is_none());
        }
    }
}
