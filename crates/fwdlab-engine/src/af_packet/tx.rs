//! The packet sender: batches of frames, patched in place, through one socket per path.
//!
//! The port's counters define what was sent: on Linux 6.18, veth,
//!
//! - a frame the kernel took is one `tx_packets` (once the peer's NAPI, if it runs one, has fetched
//!   the frame);
//! - a frame that found the peer's queue full is one `tx_dropped`, and the sender gets ENOBUFS;
//! - a frame that could not even be given to the driver (stopped queue, no memory) gets ENOBUFS as
//!   well, and counts nowhere.
//!
//! The second was offered to the DUT and lost there; only the third was not sent. `sendmmsg` does
//! not distinguish them: it stops at the refused frame and returns the number before it. So the
//! sender reads `tx_dropped` after refusals, and counts as many of them as sent as the port has
//! dropped. Then `sent = tx_packets + tx_dropped` exactly, unless somebody else sends into the
//! port; several threads of this sender share what the port has dropped.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_send_buffer_size;

use super::link_stats::LinkStats;
use super::sys::{self, Batch};
use crate::error::EngineError;
use crate::generator::{Capabilities, Mode, Schedule, Sender, Timestamps};
use crate::port::{PathSpec, PortSpec, interface_index, within};
use crate::sender::counters::Counters;
use crate::sender::source::{Outline, Signed, Source};
use crate::sender::thread::{BATCH, SocketSender, Transmit};
use crate::stamps::{Departing, Kind, Log, Offers};
use crate::sys::monotonic_ns;
use crate::traffic::player::Slot;
use crate::traffic::share::Share;

const CAPABILITIES: Capabilities = Capabilities {
    profiles: true,
    hot_load: true,
    timestamps: Timestamps::Software,
    ..Capabilities::plain(
        Mode::AfPacket,
        "AF_PACKET: sendmmsg of up to 64 frames, bypassing the queueing discipline, one thread",
    )
};

/// Frames in the DUT's queue are charged to the socket. The kernel grants less if
/// `net.core.wmem_max` is lower.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// While frames are refused, read the port's drops no more often than this: a request costs about 3
/// µs.
const ASK_EVERY_NS: u64 = 1_000_000;

/// How long the end of a trial waits for departures that were not reported yet.
const STAMPS_PATIENCE: Duration = Duration::from_millis(200);
const STAMPS_PAUSE: Duration = Duration::from_millis(1);

/// Opens the sender on the sending ports of all paths.
///
/// # Errors
/// If an interface does not exist, or without CAP_NET_RAW in its namespace.
pub fn sender(paths: &[PathSpec], cpus: &[usize]) -> Result<impl Sender + use<>, EngineError> {
    senders(paths, cpus, 1)
}

/// Opens the sender with several threads, each with its own sockets.
///
/// # Errors
/// As [`sender`]; if there are too many.
pub fn senders(
    paths: &[PathSpec],
    cpus: &[usize],
    senders: u32,
) -> Result<impl Sender + use<>, EngineError> {
    let drops: Vec<Arc<PortDrops>> = paths.iter().map(|_| Arc::default()).collect();
    let shares = Share::all(senders)?;
    let transmits = (shares.iter()).map(|_| PacketTransmit::open(paths, &drops));
    let transmits = transmits.collect::<Result<_, _>>()?;
    Ok(SocketSender::with_threads(paths.len(), cpus, transmits))
}

struct PacketTransmit {
    sockets: Vec<Socket>,
    /// The frames of one call, or all frames if they are cached.
    batch: Batch,
    slots: Vec<Slot>,
    is_cached: bool,
    /// The frames that were taken and not yet given to the kernel: index of the first, and their
    /// number.
    first: usize,
    held: usize,
    /// The path used last.
    path: usize,
    link_stats: LinkStats,
    signed: Option<Signed>,
}

struct Socket {
    spec: PortSpec,
    index: u32,
    socket: OwnedFd,
    tally: Tally,
    drops: Arc<PortDrops>,
    /// Departures, if requested.
    departing: Option<Departing>,
}

/// What happened to one path's frames in this trial.
#[derive(Default)]
struct Tally {
    accepted: u64,
    refused: u64,
    /// Refused frames that the port dropped, as of the last request.
    dropped: u64,
    /// For each stream, refused frames whose fate is not known yet.
    open: Vec<u64>,
    asked_ns: u64,
}

/// The port's `tx_dropped`, shared by all threads that send into it.
#[derive(Default)]
struct PortDrops {
    /// At the start of the trial.
    before: AtomicU64,
    /// Drops of this trial that threads have counted as their own. Which thread's frame was dropped
    /// is unknown, but each drop is counted once.
    counted: Mutex<u64>,
}

impl PortDrops {
    fn begin(&self, dropped: u64) {
        self.before.store(dropped, Ordering::Relaxed);
        *self.counted() = 0;
    }

    fn counted(&self) -> MutexGuard<'_, u64> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many of a thread's refused frames the port has dropped, if it has dropped
    /// `dropped` in all.
    fn take(&self, dropped: u64, refused: u64) -> u64 {
        let mut counted = self.counted();
        let of_trial = dropped.saturating_sub(self.before.load(Ordering::Relaxed));
        let own = of_trial.saturating_sub(*counted).min(refused);
        *counted += own;
        own
    }
}

impl Socket {
    fn open(path: &PathSpec, drops: &Arc<PortDrops>) -> Result<Socket, EngineError> {
        let action = || format!("open a packet socket on {}", path.tx.interface);
        let (index, socket) = within(&path.tx.netns, || {
            let index = interface_index(&path.tx.interface)?;
            let socket = sys::open().map_err(|e| EngineError::system(action(), e))?;
            Ok((index, socket))
        })?;
        sys::bind(&socket, index, 0)
            .and_then(|()| sys::bypass_qdisc(&socket))
            .map_err(|e| EngineError::system(action(), e))?;
        set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)
            .map_err(|e| EngineError::system(action(), e))?;
        Ok(Socket {
            spec: path.tx.clone(),
            index,
            socket,
            tally: Tally::default(),
            drops: drops.clone(),
            departing: None,
        })
    }

    fn tx_dropped(&self, link_stats: &LinkStats) -> Result<u64, EngineError> {
        link_stats.tx_dropped(self.index).map_err(|e| {
            EngineError::system(format!("read the counters of {}", self.interface()), e)
        })
    }

    fn interface(&self) -> &str {
        &self.spec.interface
    }

    /// Reads the departures that have arrived.
    fn take_departures(&mut self) -> Result<(), EngineError> {
        let Some(departing) = &mut self.departing else {
            return Ok(());
        };
        departing.take().map_err(|e| {
            EngineError::system(
                format!("read the departures of frames from {}", self.spec.interface),
                e,
            )
        })
    }

    /// Reads how many of the refused frames the port has dropped.
    ///
    /// If it has dropped only some of them, it is unknown which: they are attributed to the first
    /// streams.
    fn query(&mut self, link_stats: &LinkStats, counters: &Counters) -> Result<(), EngineError> {
        let dropped = self.tx_dropped(link_stats)?;
        let tally = &mut self.tally;
        let mut more = self.drops.take(dropped, tally.refused - tally.dropped);
        tally.dropped += more;
        for (stream, open) in (0..).zip(&mut tally.open) {
            let part = more.min(*open);
            counters.add_of_stream(stream, part);
            *open -= part;
            more -= part;
        }
        Ok(())
    }

    fn publish(&self, path: usize, counters: &Counters) {
        let tally = &self.tally;
        counters.set_sent(path, tally.accepted + tally.dropped);
        counters.set_refused(path, tally.refused - tally.dropped);
    }
}

impl PacketTransmit {
    fn open(paths: &[PathSpec], drops: &[Arc<PortDrops>]) -> Result<PacketTransmit, EngineError> {
        let Some(first) = paths.first() else {
            return Err(EngineError::Frames("a sender needs a path".into()));
        };
        let link_stats = within(&first.tx.netns, || {
            LinkStats::open().map_err(|e| EngineError::system("open a routing socket", e))
        })?;
        let sockets = paths.iter().zip(drops);
        let sockets = sockets.map(|(path, drops)| Socket::open(path, drops));
        Ok(PacketTransmit {
            sockets: sockets.collect::<Result<_, _>>()?,
            batch: Batch::new(std::iter::empty(), 0),
            slots: vec![],
            is_cached: false,
            first: 0,
            held: 0,
            path: 0,
            link_stats,
            signed: None,
        })
    }

    /// Takes due frames, if those taken before have all left.
    #[inline]
    fn fill<S: Source>(&mut self, frames: &mut S) {
        if self.held > 0 {
            return;
        }
        if self.is_cached {
            while self.held < BATCH && frames.has_next() {
                frames.skip();
                self.held += 1;
            }
            return;
        }
        self.first = 0;
        while self.held < BATCH && frames.has_next() {
            frames.write(self.batch.frame(self.held), &mut self.slots[self.held]);
            self.held += 1;
        }
    }

    /// Removes the first of the held frames.
    #[inline]
    fn pass(&mut self) -> Slot {
        let slot = self.slots[self.first];
        if let Some(departing) = &mut self.sockets[self.path].departing {
            let frame = &self.batch.frame(self.first)[..slot.bytes as usize];
            departing.sent(self.signed.and_then(|signed| signed.number(frame)));
        }
        self.held -= 1;
        self.first += 1;
        if self.first == self.batch.len() {
            self.first = 0;
        }
        slot
    }
}

impl Transmit for PacketTransmit {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn arm(&mut self, outline: &Outline) -> Result<(), EngineError> {
        self.signed = Some(outline.signed);
        self.is_cached = outline.cycle.is_some();
        match &outline.cycle {
            Some(cycle) => {
                let lengths = cycle.iter().map(|cached| cached.bytes.len());
                self.batch = Batch::new(lengths, BATCH);
                for (index, cached) in cycle.iter().enumerate() {
                    self.batch.frame(index).copy_from_slice(&cached.bytes);
                }
                self.slots = cycle.iter().map(|cached| cached.slot).collect();
            }
            None => {
                self.batch = Batch::new((0..BATCH).map(|_| outline.buffer_len), BATCH);
                self.slots = vec![Slot::EMPTY; BATCH];
            }
        }
        for socket in &mut self.sockets {
            socket.tally.open = vec![0; outline.streams];
        }
        Ok(())
    }

    fn begin(&mut self, _: &Schedule) -> Result<(), EngineError> {
        (self.first, self.held) = (0, 0);
        for socket in &mut self.sockets {
            if let Some(departing) = &mut socket.departing {
                departing.begin().map_err(|e| {
                    EngineError::system(
                        format!("timestamp frames that leave {}", socket.spec.interface),
                        e,
                    )
                })?;
            }
            let mut open = std::mem::take(&mut socket.tally.open);
            open.fill(0);
            // no thread sends before all of them are here
            socket.drops.begin(socket.tx_dropped(&self.link_stats)?);
            socket.tally = Tally {
                open,
                ..Tally::default()
            };
        }
        Ok(())
    }

    fn send<S: Source>(
        &mut self,
        path: usize,
        frames: &mut S,
        counters: &Counters,
    ) -> Result<(), EngineError> {
        self.fill(frames);
        if self.held == 0 {
            return Ok(());
        }
        self.path = path;
        let socket = &self.sockets[path];
        let slots = &self.slots;
        let length = |index: usize| slots[index].bytes as usize;
        counters.count_wakeup();
        let accepted = match self
            .batch
            .send(&socket.socket, self.first, self.held, length)
        {
            Ok(accepted) => accepted,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => 0,
                // interrupted while waiting for room: nothing was sent
                Some(libc::EINTR) => return Ok(()),
                _ => {
                    let action = format!("send into {}", socket.interface());
                    return Err(EngineError::system(action, error));
                }
            },
        };
        let mut streams = counters.tally();
        for _ in 0..accepted {
            streams.add(self.pass().stream);
        }
        drop(streams);
        self.sockets[path].tally.accepted += accepted as u64;
        if self.held == 0 {
            self.sockets[path].publish(path, counters);
            return self.sockets[path].take_departures();
        }
        // the frame after the accepted ones was refused; those behind it were not tried
        counters.ring_was_full();
        let slot = self.pass();
        let socket = &mut self.sockets[path];
        socket.tally.refused += 1;
        if let Some(open) = socket.tally.open.get_mut(slot.stream as usize) {
            *open += 1;
        }
        let now = monotonic_ns();
        if now - socket.tally.asked_ns >= ASK_EVERY_NS {
            socket.tally.asked_ns = now;
            socket.query(&self.link_stats, counters)?;
        }
        socket.publish(path, counters);
        socket.take_departures()
    }

    fn holds(&self) -> bool {
        self.held > 0
    }

    fn end(&mut self, counters: &Counters) -> Result<(), EngineError> {
        for (path, socket) in self.sockets.iter_mut().enumerate() {
            if socket.tally.refused > 0 {
                socket.query(&self.link_stats, counters)?;
            }
            socket.publish(path, counters);
            // a card reports the time some time after it has sent the frame
            let begin = Instant::now();
            socket.take_departures()?;
            while socket.departing.as_ref().is_some_and(|d| d.open() > 0)
                && begin.elapsed() < STAMPS_PATIENCE
            {
                thread::sleep(STAMPS_PAUSE);
                socket.take_departures()?;
            }
        }
        // frames still held were due and will never be sent
        let tally = &self.sockets[self.path].tally;
        let held = std::mem::take(&mut self.held) as u64;
        counters.set_refused(self.path, tally.refused - tally.dropped + held);
        Ok(())
    }

    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        for socket in &mut self.sockets {
            socket.departing = None;
            if kind == Kind::User {
                continue;
            }
            let offers = Offers::query(&socket.spec)?;
            if let Some(reason) = offers.against_departures(kind) {
                return Err(EngineError::Unsupported {
                    engine: Mode::AfPacket.name(),
                    action: format!("provide {} timestamps: {reason}", kind.name()),
                });
            }
            let departing = Departing::new(&socket.socket, kind, offers.clock).map_err(|e| {
                EngineError::system(
                    format!("timestamp frames that leave {}", socket.interface()),
                    e,
                )
            })?;
            socket.departing = Some(departing);
        }
        Ok(())
    }

    fn departures(&mut self) -> Option<Log> {
        let mut logs = (self.sockets.iter_mut()).filter_map(|s| Some(s.departing.as_mut()?.log()));
        let first = logs.next()?;
        Some(logs.fold(first, Log::and))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads had 10 and 5 frames refused, and the port has dropped 12 of them.
    #[test]
    fn a_drop_is_counted_by_one_thread() {
        let drops = PortDrops::default();
        drops.begin(100);
        assert_eq!(drops.take(106, 10), 6);
        assert_eq!(drops.take(106, 5), 0);
        assert_eq!(drops.take(112, 4), 4);
        assert_eq!(drops.take(112, 5), 2);
        drops.begin(112);
        assert_eq!(drops.take(113, 5), 1);
    }
}
