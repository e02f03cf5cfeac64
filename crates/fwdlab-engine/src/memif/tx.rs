//! The memif sender: frames written into buffers that the peer reads.
//!
//! As the client we own the buffers: each keeps its frame, so only the bytes that change are
//! written. As the server we copy into buffers of the peer. All queues of all ports are served by
//! one thread, in one order; frames of one flow stay on one queue.
//!
//! A ring is the input queue of the peer. In trials ([`StallPolicy::Skip`]) a frame that finds it
//! full is dropped, as at the end of a link: a peer that is too slow loses frames, and does not
//! slow the sender down. In all other cases the frame waits. Start with [`sender`].

use std::thread;
use std::time::{Duration, Instant};

use super::Role;
use super::port::{Half, Port};
use super::ring::{MAX_FRAME_BYTES, Outgoing};
use crate::error::EngineError;
use crate::generator::{Capabilities, Copies, Mode, Schedule, Sender, Timestamps};
use crate::pacer::StallPolicy;
use crate::sender::counters::Counters;
use crate::sender::source::{Cached, Outline, Source};
use crate::sender::thread::{BATCH, SocketSender, Transmit};
use crate::traffic::player::{Room, Slot};

const CAPABILITIES: Capabilities = Capabilities {
    copies: Copies::ByPeer,
    profiles: true,
    hot_load: true,
    timestamps: Timestamps::Software,
    counts_at_driver: false,
    ..Capabilities::plain(
        Mode::Memif,
        "memif: memory shared with a program such as VPP or DPDK, one thread",
    )
};

/// How long the start of a trial waits for a peer.
const PEER_PATIENCE: Duration = Duration::from_secs(5);

/// How long the end of a trial waits for the peer to read the next frame: it may need the same CPU.
const DRAIN_QUIET: Duration = Duration::from_millis(200);
const DRAIN_PAUSE: Duration = Duration::from_micros(100);

/// After this many looks in a row at a full ring, the peer is not running: leave the CPU to it, for
/// less time than it needs to read a ring.
const STALLED_LOOKS: u32 = 2000;
const STALL_PAUSE: Duration = Duration::from_micros(50);

/// Opens a sender that sends into these ports, one for each path.
pub(super) fn sender(ports: &[Port], cpus: &[usize]) -> impl Sender + use<> {
    let transmit = MemifTransmit {
        ports: ports.iter().map(PathPort::new).collect(),
        cycle: None,
        at: 0,
        drops: false,
        scratch: (vec![], Slot::EMPTY),
    };
    SocketSender::new(ports.len(), cpus, transmit)
}

struct MemifTransmit {
    ports: Vec<PathPort>,
    /// Frames that repeat, and the next of them.
    cycle: Option<Vec<Cached>>,
    at: usize,
    /// Frames that find a ring full are dropped.
    drops: bool,
    /// The last frame that was dropped.
    scratch: (Vec<u8>, Slot),
}

/// The port of a path, and what happened to its frames in this trial.
struct PathPort {
    port: Port,
    half: Half<Outgoing>,
    /// In rings of connections that ended in this trial.
    ended: Tally,
    /// Frames that were placed in the rings at hand before this trial.
    before: Tally,
    /// Frames of this trial that found the ring full and were dropped.
    dropped: u64,
    /// Frames that the peer has read, and that were dropped, before this trial.
    earlier: (u64, u64),
    /// Calls in a row that have placed nothing.
    stalled: u32,
}

/// Frames in rings.
#[derive(Clone, Copy, Default)]
struct Tally {
    placed: u64,
    /// Placed, and not read by the peer.
    left: u64,
    /// Did not fit into the peer's buffer.
    refused: u64,
}

impl Tally {
    fn of(rings: &[Outgoing]) -> Tally {
        rings.iter().fold(Tally::default(), |sum, ring| Tally {
            placed: sum.placed + ring.placed(),
            left: sum.left + u64::from(ring.left()),
            refused: sum.refused + ring.refused(),
        })
    }

    /// Returns what was counted since: frames left from before are not among those left.
    fn since(self, before: Tally) -> Tally {
        let placed = self.placed - before.placed;
        Tally {
            placed,
            left: self.left.min(placed),
            refused: self.refused - before.refused,
        }
    }

    fn and(self, other: Tally) -> Tally {
        Tally {
            placed: self.placed + other.placed,
            left: self.left + other.left,
            refused: self.refused + other.refused,
        }
    }
}

impl PathPort {
    fn new(port: &Port) -> PathPort {
        PathPort {
            port: port.clone(),
            half: Half::new(port),
            ended: Tally::default(),
            before: Tally::default(),
            dropped: 0,
            earlier: (0, 0),
            stalled: 0,
        }
    }

    fn begin(&mut self) -> Result<(), EngineError> {
        self.port.wait_for_peer(PEER_PATIENCE)?;
        if let Some(old) = self.half.renew() {
            self.port.lost(Tally::of(&old).left);
        }
        self.ended = Tally::default();
        self.before = Tally::of(&self.half.rings);
        self.dropped = 0;
        self.earlier = self.port.transmitted();
        self.half.rings.iter_mut().for_each(Outgoing::disown);
        Ok(())
    }

    /// Looks which frames the peer has read, and follows a change of the connection.
    #[inline]
    fn poll(&mut self, counters: &Counters) {
        let mut streams = counters.tally();
        for ring in 0..self.half.rings.len() {
            if let Err(fault) = self.half.rings[ring].poll(|stream| streams.add(stream)) {
                let rings = self.half.broken(fault);
                self.settle(&rings);
            }
            if self.half.rings.is_empty() {
                return;
            }
        }
        if let Some(mut old) = self.half.renew() {
            for ring in &mut old {
                // a fault does not matter any more
                let _ = ring.poll(|stream| streams.add(stream));
            }
            self.settle(&old);
        }
    }

    /// Counts what was in rings whose connection has ended.
    #[cold]
    fn settle(&mut self, rings: &[Outgoing]) {
        let ended = Tally::of(rings);
        self.port.lost(ended.left);
        self.ended = self.ended.and(ended.since(self.before));
        self.before = Tally::default();
    }

    /// Returns the counts of this trial.
    fn tally(&self) -> Tally {
        let now = Tally::of(&self.half.rings).since(self.before);
        self.ended.and(now)
    }

    /// Returns the frames of this trial that the peer may still read.
    fn waiting(&self) -> u64 {
        Tally::of(&self.half.rings).since(self.before).left
    }

    /// Publishes the counts; `left`: frames in rings that the peer will never read.
    #[inline]
    fn publish(&self, path: usize, left: u64, counters: &Counters) {
        let tally = self.tally();
        let read = tally.placed - tally.left;
        counters.set_sent(path, read + self.dropped);
        counters.set_refused(path, tally.refused + left);
        let (earlier_read, earlier_dropped) = self.earlier;
        (self.port).set_transmitted(earlier_read + read, earlier_dropped + self.dropped);
    }
}

impl MemifTransmit {
    /// Takes due frames. A ring without room ends the batch, or drops the frame.
    #[inline]
    fn fill<S: Source>(&mut self, path: usize, frames: &mut S, counters: &Counters) {
        let port = &mut self.ports[path];
        let rings = &mut port.half.rings;
        let queues = rings.len();
        if queues == 0 {
            counters.ring_was_full();
            return;
        }
        if let ([ring], None) = (&mut rings[..], &self.cycle) {
            frames.fill(ring);
        }
        let most = port.dropped + if self.drops { BATCH as u64 } else { 0 };
        while frames.has_next() {
            let cached = self.cycle.as_ref().map(|cycle| &cycle[self.at]);
            let lane = cached.map_or_else(|| frames.lane(), |cached| cached.slot.stream);
            let ring = &mut rings[lane as usize % queues];
            let is_full = ring.is_full();
            if is_full {
                counters.ring_was_full();
            }
            if !ring.has_room() && (!is_full || port.dropped == most) {
                return;
            }
            let stream = match (cached, ring.next()) {
                (Some(Cached { slot, bytes }), room) => {
                    let has_room = room.is_some();
                    frames.skip();
                    self.at = (self.at + 1) % self.cycle.as_ref().map_or(1, Vec::len);
                    if has_room {
                        ring.put(bytes, *slot);
                        continue;
                    }
                    slot.stream
                }
                (None, Some((buffer, mut slot))) => {
                    frames.write(buffer, &mut slot);
                    ring.filled(slot);
                    continue;
                }
                (None, None) => {
                    let (buffer, slot) = &mut self.scratch;
                    frames.write(buffer, slot);
                    slot.stream
                }
            };
            port.dropped += 1;
            counters.add_of_stream(stream, 1);
        }
    }
}

impl Transmit for MemifTransmit {
    fn capabilities(&self) -> Capabilities {
        let queues = self.ports.first().map(|port| port.port.status().queues.0);
        Capabilities {
            queues: queues.unwrap_or(1).clamp(1, usize::from(u16::MAX)) as u16,
            ..CAPABILITIES
        }
    }

    fn arm(&mut self, outline: &Outline) -> Result<(), EngineError> {
        for port in &mut self.ports {
            let options = port.port.options();
            let longest = match options.role {
                Role::Client => options.buffer_bytes as usize,
                Role::Server => MAX_FRAME_BYTES,
            };
            if outline.buffer_len > longest {
                return Err(EngineError::Memif {
                    socket: options.socket.clone(),
                    reason: format!(
                        "frames of {} bytes without FCS do not fit into its buffers of {longest}: \
                         use longer buffers or shorter frames",
                        outline.buffer_len
                    ),
                });
            }
            port.half.rings.iter_mut().for_each(Outgoing::forget);
        }
        self.scratch = (vec![0; outline.buffer_len], Slot::EMPTY);
        self.cycle = outline.numbered();
        Ok(())
    }

    fn begin(&mut self, schedule: &Schedule) -> Result<(), EngineError> {
        self.at = 0;
        self.drops = schedule.stall_policy == StallPolicy::Skip;
        self.ports.iter_mut().try_for_each(PathPort::begin)
    }

    #[inline]
    fn send<S: Source>(
        &mut self,
        path: usize,
        frames: &mut S,
        counters: &Counters,
    ) -> Result<(), EngineError> {
        self.ports[path].poll(counters);
        self.fill(path, frames, counters);
        let port = &mut self.ports[path];
        port.stalled += 1;
        for ring in &mut port.half.rings {
            if ring.has_news() {
                port.stalled = 0;
            }
            if ring.publish() {
                counters.count_wakeup();
            }
        }
        port.publish(path, port.ended.left, counters);
        if port.stalled > STALLED_LOOKS {
            port.stalled = 0;
            thread::sleep(STALL_PAUSE);
        }
        Ok(())
    }

    fn end(&mut self, counters: &Counters) -> Result<(), EngineError> {
        for (path, port) in self.ports.iter_mut().enumerate() {
            let mut progress = (u64::MAX, Instant::now());
            loop {
                port.poll(counters);
                let waiting = port.waiting();
                if waiting < progress.0 {
                    progress = (waiting, Instant::now());
                }
                if waiting == 0 || progress.1.elapsed() > DRAIN_QUIET {
                    break;
                }
                thread::sleep(DRAIN_PAUSE);
            }
            port.publish(path, port.tally().left, counters);
        }
        Ok(())
    }
}
