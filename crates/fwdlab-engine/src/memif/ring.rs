//! Rings of frames: one direction of one queue, seen from either end.
//!
//! The client owns all memory. In the ring of its own frames (S2M) it moves the head and the server
//! the tail; in the other (M2S) the head offers empty buffers and the tail returns them filled. So
//! each end moves one position of each ring, and reads the other. The peer may write anything into
//! both: its position is checked to move forward by no more than it may, descriptors are read once
//! and checked, and a frame is copied before anybody looks at it. Start with [`Outgoing`] and
//! [`Incoming`].

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::sys::{Descriptor, FLAG_MASK, FLAG_NEXT, Region, RingMemory, Span};
use crate::sender::thread::BATCH;
use crate::traffic::player::{Room, Slot};

/// The longest frame that is put together from several buffers, in bytes.
pub(super) const MAX_FRAME_BYTES: usize = 16 << 10;

/// How the peer broke the protocol. The connection must end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Fault(pub String);

/// The stream of a frame of an earlier trial.
const NO_STREAM: u32 = u32::MAX;

/// The regions of a connection, by their index.
pub(super) type Regions = Arc<[Arc<Region>]>;

/// Where the frames of a ring are.
pub(super) enum Buffers {
    /// In our own memory: a buffer of this length for each descriptor.
    Own { span: Span, each_bytes: usize },
    /// Where the descriptors of the peer say.
    Peer(Regions),
}

/// The ring of frames that we send.
pub(super) struct Outgoing {
    ring: RingMemory,
    event: OwnedFd,
    buffers: Buffers,
    /// Our position: of the next frame.
    position: u16,
    /// The peer's position, as of the last look.
    seen: u16,
    /// Descriptors that we may fill.
    room: u16,
    /// The most descriptors that were ever free: when all are free again, the peer has read all
    /// frames.
    capacity: u16,
    /// Frames taken since the last [`publish`](Self::publish), and those in the ring among them.
    taken: usize,
    pushed: u16,
    /// What each of our own buffers holds, by index.
    slots: Vec<Slot>,
    /// The stream of each frame in the ring, by index.
    streams: Vec<u32>,
    /// The frame on its way into memory of the peer, which may change frames there.
    staged: (Vec<u8>, Slot),
    placed: u64,
    refused: u64,
    fault: Option<Fault>,
}

impl Outgoing {
    /// Takes over an empty ring. With our own buffers we are the client.
    pub(super) fn new(ring: RingMemory, event: OwnedFd, buffers: Buffers) -> Outgoing {
        let size = ring.size();
        let (room, staged) = match &buffers {
            Buffers::Own { .. } => (size, 0),
            Buffers::Peer(_) => (0, MAX_FRAME_BYTES),
        };
        Outgoing {
            ring,
            event,
            buffers,
            position: 0,
            seen: 0,
            room,
            capacity: room,
            taken: 0,
            pushed: 0,
            slots: vec![Slot::EMPTY; usize::from(size)],
            streams: vec![NO_STREAM; usize::from(size)],
            staged: (vec![0; staged], Slot::EMPTY),
            placed: 0,
            refused: 0,
            fault: None,
        }
    }

    /// Forgets what the buffers hold: other frames follow.
    pub(super) fn forget(&mut self) {
        self.slots.fill(Slot::EMPTY);
        self.staged.1 = Slot::EMPTY;
    }

    /// Leaves the frames in the ring to an earlier trial: their streams are not reported.
    pub(super) fn disown(&mut self) {
        self.streams.fill(NO_STREAM);
    }

    /// Returns the frames placed in the ring so far.
    pub(super) fn placed(&self) -> u64 {
        self.placed
    }

    /// Returns the frames that were taken and did not fit into the peer's buffer.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the frames in the ring that the peer has not read, as of the last
    /// [`poll`](Self::poll). Exact if we are the client; as the server, exact if the peer offers
    /// all its buffers again once it has read all frames, as DPDK and libmemif do.
    pub(super) fn left(&self) -> u16 {
        self.capacity - self.room
    }

    /// Looks which frames the peer has read since, and passes their streams to `read`.
    ///
    /// # Errors
    /// If the peer moved its position further than it may.
    #[inline]
    pub(super) fn poll(&mut self, mut read: impl FnMut(u32)) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let (theirs, name) = match self.buffers {
            Buffers::Own { .. } => (self.ring.tail(), "tail"),
            Buffers::Peer(_) => (self.ring.head(), "head"),
        };
        let more = theirs.wrapping_sub(self.seen);
        if more > self.ring.size() - self.room {
            return self.fail(format!(
                "it moved the {name} of a ring of {} from {} to {theirs} with {} descriptors left",
                self.ring.size(),
                self.seen,
                self.ring.size() - self.room
            ));
        }
        let before = self.left();
        self.seen = theirs;
        self.room += more;
        self.capacity = self.capacity.max(self.room);
        for back in (self.left() + 1..=before).rev() {
            let index = self.ring.index(self.position.wrapping_sub(back));
            if self.streams[index] != NO_STREAM {
                read(self.streams[index]);
            }
        }
        Ok(())
    }

    fn fail<T>(&mut self, reason: String) -> Result<T, Fault> {
        let fault = Fault(reason);
        self.fault = Some(fault.clone());
        Err(fault)
    }

    /// Returns true if there is room for another frame before the next
    /// [`publish`](Self::publish).
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.room > 0 && self.taken < BATCH && self.fault.is_none()
    }

    /// Returns true if the ring itself has no room: the peer does not read, or offers no buffers.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Places a frame that may lie in the buffer already, from the last time; `slot.kind` is its
    /// own number. There must be room.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8], slot: Slot) {
        if let Some((buffer, held)) = self.next() {
            if held.kind != slot.kind {
                buffer[..bytes.len()].copy_from_slice(bytes);
            }
            self.filled(slot);
        }
    }

    /// Returns true if there are frames to [`publish`](Self::publish).
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.pushed > 0
    }

    /// Shows the peer the new frames. Returns true if it had to be woken.
    #[inline]
    pub(super) fn publish(&mut self) -> bool {
        self.taken = 0;
        if std::mem::take(&mut self.pushed) == 0 {
            return false;
        }
        match self.buffers {
            Buffers::Own { .. } => self.ring.set_head(self.position),
            Buffers::Peer(_) => self.ring.set_tail(self.position),
        }
        // the peer unmasks first and looks at the position then; we do the opposite
        fence(Ordering::SeqCst);
        let wants_event = self.ring.flags() & FLAG_MASK == 0;
        if wants_event {
            // if its counter is full, it has not reacted to earlier events either
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
        wants_event
    }

    /// Copies the staged frame into the peer's next buffer. `None` if it does not fit there.
    fn deliver(&mut self, bytes: u32) -> Result<Option<()>, Fault> {
        let Buffers::Peer(regions) = &self.buffers else {
            return Ok(None);
        };
        let buffer = self.ring.descriptor(self.position);
        if bytes > buffer.length {
            return Ok(None);
        }
        let frame = &self.staged.0[..bytes as usize];
        let region = regions.get(usize::from(buffer.region));
        if !region.is_some_and(|region| region.copy_in(buffer.offset, frame)) {
            return self.fail(format!(
                "it offered a buffer at {} in region {}, which is not there",
                buffer.offset, buffer.region
            ));
        }
        self.ring.set_descriptor(
            self.position,
            Descriptor {
                flags: 0,
                length: bytes,
                ..buffer
            },
        );
        Ok(Some(()))
    }
}

#[cfg(test)]
impl Outgoing {
    /// Moves the head to where it must not be.
    pub(super) fn set_position(&mut self, position: u16) {
        self.ring.set_head(position);
    }

    /// Gives the last frame a length that no buffer has.
    pub(super) fn spoil(&mut self) {
        let last = self.position.wrapping_sub(1);
        let descriptor = Descriptor {
            length: u32::MAX,
            ..self.ring.descriptor(last)
        };
        self.ring.set_descriptor(last, descriptor);
    }

    /// Returns the events that the peer has not read.
    pub(super) fn events(&self) -> u64 {
        let mut events = [0; 8];
        let _ = rustix::io::read(&self.event, &mut events);
        u64::from_ne_bytes(events)
    }
}

impl Room for Outgoing {
    #[inline]
    fn next(&mut self) -> Option<(&mut [u8], Slot)> {
        if !self.has_room() {
            return None;
        }
        Some(match &mut self.buffers {
            Buffers::Own { span, each_bytes } => {
                let index = self.ring.index(self.position);
                let buffer = span.bytes(index * *each_bytes, *each_bytes);
                (buffer, self.slots[index])
            }
            Buffers::Peer(_) => (&mut self.staged.0[..], self.staged.1),
        })
    }

    #[inline]
    fn filled(&mut self, slot: Slot) {
        self.taken += 1;
        let index = self.ring.index(self.position);
        match &self.buffers {
            Buffers::Own { span, each_bytes } => {
                self.slots[index] = slot;
                let descriptor = Descriptor {
                    flags: 0,
                    region: 0,
                    length: slot.bytes,
                    offset: span.offset(index * each_bytes),
                };
                self.ring.set_descriptor(self.position, descriptor);
            }
            Buffers::Peer(_) => {
                self.staged.1 = slot;
                if !matches!(self.deliver(slot.bytes), Ok(Some(()))) {
                    self.refused += 1;
                    return;
                }
            }
        }
        self.streams[index] = slot.stream;
        self.position = self.position.wrapping_add(1);
        self.room -= 1;
        self.pushed += 1;
        self.placed += 1;
    }
}

/// The ring of frames that we receive.
pub(super) struct Incoming {
    ring: RingMemory,
    /// We poll; the peer gets it only because the protocol wants one.
    _event: OwnedFd,
    memory: Memory,
    /// Our position: of the next frame.
    position: u16,
    /// The peer's position, as of the last look.
    seen: u16,
    /// Descriptors that it has filled.
    available: u16,
    frame: Vec<u8>,
    malformed: u64,
}

/// Where received frames are.
pub(super) enum Memory {
    /// In our own region: a buffer of this length for each descriptor, from an offset on.
    Own {
        region: Arc<Region>,
        offset: u32,
        each_bytes: u32,
    },
    /// Where the descriptors of the peer say.
    Peer(Regions),
}

impl Incoming {
    /// Takes over an empty ring: masks its interrupts and, if we are the client, offers all
    /// buffers.
    pub(super) fn new(ring: RingMemory, event: OwnedFd, memory: Memory) -> Incoming {
        ring.set_flags(FLAG_MASK);
        let incoming = Incoming {
            _event: event,
            memory,
            position: 0,
            seen: 0,
            available: 0,
            frame: vec![0; MAX_FRAME_BYTES],
            malformed: 0,
            ring,
        };
        (0..incoming.ring.size()).for_each(|position| incoming.offer(position));
        incoming.publish_offers();
        incoming
    }

    /// As the client, shows the server the buffers of a ring of which nothing was read yet. It may
    /// have filled some: their descriptors stay as they are.
    pub(super) fn publish_offers(&self) {
        if let Memory::Own { .. } = self.memory {
            self.ring.set_head(self.ring.size());
        }
    }

    /// Returns the frames that it holds.
    pub(super) fn size(&self) -> usize {
        self.ring.size().into()
    }

    /// Returns the frames that could not be read, because their descriptors were wrong.
    pub(super) fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Looks how many descriptors the peer has filled and we have not read.
    ///
    /// # Errors
    /// If the peer moved its position further than it may.
    #[inline]
    pub(super) fn poll(&mut self) -> Result<u16, Fault> {
        let (theirs, name) = match self.memory {
            Memory::Own { .. } => (self.ring.tail(), "tail"),
            Memory::Peer(_) => (self.ring.head(), "head"),
        };
        let more = theirs.wrapping_sub(self.seen);
        if more > self.ring.size() - self.available {
            return Err(Fault(format!(
                "it moved the {name} of a ring of {} from {} to {theirs} with {} frames unread",
                self.ring.size(),
                self.seen,
                self.available
            )));
        }
        self.seen = theirs;
        self.available += more;
        Ok(self.available)
    }

    /// Passes copies of the frames to `take`, no more than were there at the last
    /// [`poll`](Self::poll) and about [`BATCH`], and gives their buffers back. Returns the number
    /// of frames.
    #[inline]
    pub(super) fn frames(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let (first, mut frames) = (self.position, 0);
        while self.available > 0 && frames < BATCH {
            frames += 1;
            match self.next() {
                Some(bytes) => take(&self.frame[..bytes]),
                None => self.malformed += 1,
            }
        }
        if let Memory::Own { .. } = self.memory {
            for back in 0..self.position.wrapping_sub(first) {
                self.offer(first.wrapping_add(back));
            }
            let head = self.position.wrapping_add(self.ring.size());
            self.ring.set_head(head);
        } else {
            self.ring.set_tail(self.position);
        }
        frames
    }

    /// Copies the next frame; returns its length. `None` if it is not a proper frame.
    #[inline]
    fn next(&mut self) -> Option<usize> {
        let mut bytes = Some(0);
        while self.available > 0 {
            let part = self.ring.descriptor(self.position);
            bytes = bytes.and_then(|at| self.copy(part, at));
            self.position = self.position.wrapping_add(1);
            self.available -= 1;
            if part.flags & FLAG_NEXT == 0 {
                return bytes;
            }
        }
        // the last descriptor continues nowhere
        None
    }

    #[inline]
    fn copy(&mut self, part: Descriptor, at: usize) -> Option<usize> {
        let end = at.checked_add(part.length as usize)?;
        let to = self.frame.get_mut(at..end)?;
        let (region, offset) = match &self.memory {
            // the peer has no right to change where our buffers are
            Memory::Own {
                region,
                offset,
                each_bytes,
            } => {
                if part.length > *each_bytes {
                    return None;
                }
                let index = self.ring.index(self.position) as u32;
                (region, offset + index * each_bytes)
            }
            Memory::Peer(regions) => (regions.get(usize::from(part.region))?, part.offset),
        };
        region.copy_out(offset, to).then_some(end)
    }

    /// Makes the buffer of a descriptor of our own ring empty.
    #[inline]
    fn offer(&self, position: u16) {
        if let Memory::Own {
            offset, each_bytes, ..
        } = self.memory
        {
            let index = self.ring.index(position) as u32;
            self.ring.set_descriptor(
                position,
                Descriptor {
                    flags: 0,
                    region: 0,
                    length: each_bytes,
                    offset: offset + index * each_bytes,
                },
            );
        }
    }
}
