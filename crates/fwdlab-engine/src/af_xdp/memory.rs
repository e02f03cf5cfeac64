//! The positions of frames in the memory shared with the kernel: slots that are rewritten for each
//! frame, or a cycle of frames that are written once.
//!
//! A chunk of 2048 bytes holds several small frames, so 512 frames of 64 bytes need 32 kB of cache,
//! and do not all map to cache sets that are 2048 bytes apart. Start with [`FrameMemory`].

use super::metadata::{self, BYTES, ROOM};
use super::sys::{CHUNK_BYTES, Umem};
use crate::error::EngineError;
use crate::sender::source::{Outline, Source};
use crate::traffic::player::Slot;

/// The frames of one port.
pub(super) struct FrameMemory {
    umem: Umem,
    /// Offset and contents of each frame.
    frames: Vec<(usize, Slot)>,
    /// Distance of slots in bytes: a power of two. `None` for a cycle: all frames are written, and
    /// are sent in order.
    stride: Option<usize>,
    /// Slots that we may write, last in, first out, so that what is written stays in the cache.
    free: Vec<u32>,
    /// The next frame of a cycle.
    at: usize,
    /// Bytes before each frame for its metadata; 0 without metadata.
    room: usize,
}

impl FrameMemory {
    /// Allocates memory for `slots` slots, and behind them `spare` chunks that are never used for
    /// sending.
    pub(super) fn new(slots: usize, spare: usize) -> Result<FrameMemory, EngineError> {
        let umem = Umem::new(slots + spare)
            .map_err(|e| EngineError::system("map memory for frames", e))?;
        Ok(FrameMemory {
            umem,
            frames: vec![],
            stride: Some(CHUNK_BYTES),
            free: (0..slots as u32).rev().collect(),
            at: 0,
            room: 0,
        })
    }

    /// Address and length, for registration.
    pub(super) fn region(&self) -> (u64, u64) {
        self.umem.region()
    }

    /// Prepares slots for such frames, or writes all of them. None may be in flight. Frames with
    /// metadata are never cached, because no two are equal.
    pub(super) fn arm(&mut self, outline: &Outline, slots: usize, with_metadata: bool) {
        self.at = 0;
        self.frames.clear();
        self.free.clear();
        self.room = if with_metadata { ROOM } else { 0 };
        let cycle = outline.cycle.as_deref().filter(|_| !with_metadata);
        match cycle.and_then(|cycle| {
            let lengths = cycle.iter().map(|cached| cached.bytes.len());
            Some((cycle, packed(lengths, slots)?))
        }) {
            Some((cycle, starts)) => {
                self.stride = None;
                for (cached, start) in cycle.iter().zip(starts) {
                    self.frames.push((start, cached.slot));
                    let bytes = self.umem.bytes(start, cached.bytes.len());
                    bytes.copy_from_slice(&cached.bytes);
                }
            }
            None => {
                let room = self.room;
                let stride = (room + outline.buffer_len).next_power_of_two().max(64);
                self.stride = Some(stride);
                self.frames = (0..slots)
                    .map(|slot| (slot * stride + room, Slot::EMPTY))
                    .collect();
                self.free.extend((0..slots as u32).rev());
            }
        }
    }

    /// Begins a trial.
    pub(super) fn begin(&mut self) {
        self.at = 0;
    }

    /// Takes back all slots, once nothing else refers to them.
    pub(super) fn reclaim(&mut self) {
        self.free.clear();
        if self.stride.is_some() {
            self.free.extend((0..self.frames.len() as u32).rev());
        }
    }

    /// Takes back the slot of the frame that begins at `start`.
    #[inline]
    pub(super) fn release(&mut self, start: usize) {
        if let Some(stride) = self.stride {
            self.free.push((start / stride) as u32);
        }
    }

    /// Returns the device's departure time of the frame that begins at `start`, and the frame.
    /// `None` without metadata.
    pub(super) fn completed(&mut self, start: usize) -> Option<(Option<u64>, &[u8])> {
        let stride = self.stride.filter(|_| self.room > 0)?;
        let (_, slot) = self.frames.get(start / stride)?;
        let length = slot.bytes as usize;
        let bytes = self.umem.bytes(start.checked_sub(BYTES)?, BYTES + length);
        let (metadata, frame) = bytes.split_first_chunk()?;
        Some((metadata::completed(metadata), frame))
    }

    /// Returns the lane of the next frame.
    #[inline]
    pub(super) fn lane<S: Source>(&self, frames: &S) -> u32 {
        match self.stride {
            Some(_) => frames.lane(),
            None => self.frames[self.at].1.stream,
        }
    }

    /// Takes the next frame, of which there must be one: returns its offset and contents. `None` if
    /// no slot is free.
    #[inline]
    pub(super) fn take<S: Source>(&mut self, frames: &mut S) -> Option<(usize, Slot)> {
        if let Some(stride) = self.stride {
            let (start, slot) = &mut self.frames[self.free.pop()? as usize];
            frames.write(self.umem.bytes(*start, stride - self.room), slot);
            if self.room > 0 {
                let before = self.umem.bytes(*start - BYTES, BYTES);
                if let Some(metadata) = before.first_chunk_mut() {
                    metadata::request(metadata);
                }
            }
            return Some((*start, *slot));
        }
        frames.skip();
        let frame = self.frames[self.at];
        self.at += 1;
        if self.at == self.frames.len() {
            self.at = 0;
        }
        Some(frame)
    }
}

/// Returns the offsets of frames of these lengths: in order, each on its own cache lines, none
/// across the end of a chunk. `None` if they need more chunks.
fn packed(lengths: impl Iterator<Item = usize>, chunks: usize) -> Option<Vec<usize>> {
    let mut end = 0_usize;
    lengths
        .map(|bytes| {
            if end % CHUNK_BYTES + bytes > CHUNK_BYTES {
                end = end.next_multiple_of(CHUNK_BYTES);
            }
            let start = end;
            end += bytes.next_multiple_of(64);
            (end <= chunks * CHUNK_BYTES).then_some(start)
        })
        .collect()
}

#[cfg(test)]
impl FrameMemory {
    /// Writes what a device would write into the metadata of the frame that begins at `start`.
    pub(super) fn answer(&mut self, start: usize, at_ns: u64) {
        let answer = self.umem.bytes(start - BYTES + 8, 8);
        answer.copy_from_slice(&at_ns.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_frames_lie_in_one_chunk_each_and_apart(lengths in prop::collection::vec(1_usize..=2048, 0..100)) {
            let Some(starts) = packed(lengths.iter().copied(), 64) else {
                prop_assert!(lengths.len() > 64, "as many chunks would do");
                return Ok(());
            };
            let mut end = 0;
            for (start, bytes) in starts.into_iter().zip(lengths) {
                prop_assert!(start >= end && start % 64 == 0);
                end = start + bytes;
                prop_assert_eq!(start / CHUNK_BYTES, (end - 1) / CHUNK_BYTES);
            }
            prop_assert!(end <= 64 * CHUNK_BYTES);
        }
    }
}
