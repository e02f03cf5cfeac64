//! Frames requested by clients: captures over some ports, and the queue of a port. Each keeps a
//! bounded number of frames in bounded memory.
//!
//! A port with any captures has one listener, which offers each frame to every [`Store`]. Start
//! with [`Captures`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fwdlab_engine::capture::Captured;
use fwdlab_packet::bpf::Program;

use crate::limits;
use crate::rpc::Fault;
use crate::wire::{PortListener, Wire};

/// Maximum wait for frames that passed before a capture is stopped.
const SETTLE: Duration = Duration::from_millis(30);

/// What a full store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It drops new frames.
    Fixed,
    /// It drops the oldest frames.
    Cyclic,
}

impl Mode {
    /// Returns TRex's name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Fixed => "fixed",
            Mode::Cyclic => "cyclic",
        }
    }
}

/// A stored frame.
#[derive(Debug, Clone)]
pub struct Kept {
    pub bytes: Vec<u8>,
    pub length: u32,
    pub port: usize,
    pub outgoing: bool,
    /// Nanoseconds on the server's clock.
    pub at_ns: u64,
    /// Its number among those that passed the filter.
    pub index: u64,
}

/// The frames to store.
pub struct CaptureFilter {
    pub filter: Program,
    /// The filter expression.
    pub expression: String,
    pub mode: Mode,
    /// Maximum number of frames.
    pub limit: usize,
    /// Bytes kept of each frame.
    pub snap: usize,
    pub sent: Vec<usize>,
    pub received: Vec<usize>,
}

/// Frames of one capture or queue.
pub struct Store {
    pub wanted: CaptureFilter,
    /// When it began, on the server's clock.
    pub began_s: f64,
    pub is_stopped: bool,
    pub matched: u64,
    pub fetched: u64,
    /// Bytes of the stored frames.
    pub bytes: usize,
    /// In chronological order.
    pub frames: VecDeque<Kept>,
    /// The time of the last frame that was taken.
    taken_ns: u64,
    /// The missed frames of its listeners, and those from before they were added.
    listeners: Vec<(Arc<AtomicU64>, u64)>,
    /// Missed frames of former listeners.
    missed: u64,
}

/// A store that listeners fill.
pub type Shared = Arc<Mutex<Store>>;

/// Locks a store. A thread that panicked leaves it consistent.
pub fn open(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Creates an empty store.
    pub fn new(requested: CaptureFilter, started: Instant) -> Store {
        Store {
            wanted: requested,
            began_s: started.elapsed().as_secs_f64(),
            is_stopped: false,
            matched: 0,
            fetched: 0,
            bytes: 0,
            frames: VecDeque::new(),
            taken_ns: 0,
            listeners: Vec::new(),
            missed: 0,
        }
    }

    /// Returns the frames that passed while it was being filled but reached no filter, because too
    /// many were waiting.
    pub fn missed(&self) -> u64 {
        let since = |(now, before): &(Arc<AtomicU64>, u64)| now.load(Ordering::Relaxed) - before;
        self.missed + self.listeners.iter().map(since).sum::<u64>()
    }

    /// Detaches it from its listeners.
    fn end(&mut self) {
        self.is_stopped = true;
        self.missed = self.missed();
        self.listeners.clear();
    }

    /// Stores a frame of a port, with a time of the server's clock, if it matches and there is
    /// room.
    pub fn offer(&mut self, port: usize, frame: &Captured<'_>, at_ns: u64) {
        let ports = match frame.outgoing {
            true => &self.wanted.sent,
            false => &self.wanted.received,
        };
        let length = frame.original_len as usize;
        if self.is_stopped
            || !ports.contains(&port)
            || !self.wanted.filter.accepts(frame.bytes, length)
        {
            return;
        }
        let index = self.matched;
        self.matched += 1;
        let snap = frame.bytes.len().min(self.wanted.snap);
        while self.frames.len() >= self.wanted.limit || self.bytes + snap > limits::CAPTURE_BYTES {
            match self.wanted.mode {
                Mode::Fixed => return,
                Mode::Cyclic => drop(self.take()),
            }
        }
        self.bytes += snap;
        self.frames.push_back(Kept {
            bytes: frame.bytes[..snap].to_vec(),
            length: frame.original_len,
            port,
            outgoing: frame.outgoing,
            // a later frame was already taken: times must not run backwards
            at_ns: at_ns.max(self.taken_ns),
            index,
        });
        // each port has its own listener thread, some milliseconds apart; numbers follow the times
        let mut at = self.frames.len() - 1;
        while at > 0 && self.frames[at - 1].at_ns > self.frames[at].at_ns {
            self.frames.swap(at - 1, at);
            let earlier = self.frames[at].index;
            self.frames[at].index = std::mem::replace(&mut self.frames[at - 1].index, earlier);
            at -= 1;
        }
    }

    /// Removes and returns the oldest frame.
    pub fn take(&mut self) -> Option<Kept> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.bytes.len();
        self.taken_ns = frame.at_ns;
        Some(frame)
    }
}

/// The listener of a port, and its stores.
#[derive(Default)]
pub struct PortCapture {
    stores: Arc<Mutex<Vec<Shared>>>,
    hearing: Option<Box<dyn PortListener>>,
    /// Frames missed by earlier listeners.
    missed: u64,
}

impl PortCapture {
    /// Fills this store, too, from now on.
    fn add(
        &mut self,
        at: usize,
        wire: &dyn Wire,
        store: &Shared,
        started: Instant,
    ) -> Result<(), Fault> {
        let lock = |stores: &Mutex<Vec<Shared>>| -> Vec<Shared> {
            stores
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        if self.hearing.is_none() {
            let stores = self.stores.clone();
            let mut clock = Clock::new(started);
            let received = move |frame: &Captured<'_>| {
                let at_ns = clock.at(frame.timestamp_ns);
                for store in lock(&stores) {
                    open(&store).offer(at, frame, at_ns);
                }
            };
            self.hearing = Some(wire.listen(Box::new(received)).map_err(Fault::execute)?);
        }
        if let Some(hearing) = &self.hearing {
            let missed = hearing.missed();
            let before = missed.load(Ordering::Relaxed);
            open(store).listeners.push((missed, before));
        }
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.push(store.clone());
        Ok(())
    }

    /// Stops filling it; without any store left, stops listening.
    fn remove(&mut self, store: &Shared) {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|one| !Arc::ptr_eq(one, store));
        let is_last = stores.is_empty();
        drop(stores);
        if is_last {
            // a listener that has not ended yet must not fill the stores of the next one
            self.stores = Arc::default();
            self.missed = self.missed();
            self.hearing = None;
        }
    }

    /// Waits for frames that have passed and are still being processed.
    fn settle(&self) {
        if let Some(hearing) = &self.hearing {
            hearing.settle(SETTLE);
        }
    }

    /// Returns the frames that were missed while listening, since the server started.
    pub fn missed(&self) -> u64 {
        let now = self.hearing.as_ref().map(|one| one.missed());
        self.missed + now.map_or(0, |missed| missed.load(Ordering::Relaxed))
    }

    /// Returns true if there are any stores.
    pub fn is_used(&self) -> bool {
        self.hearing.is_some()
    }
}

/// Converts the system's time of frames to the clock that begins with the server.
struct Clock {
    began: Instant,
    /// The system's time at the last comparison, and the server's clock relative to it, in
    /// nanoseconds.
    system_ns: u64,
    behind_ns: u64,
    last_ns: u64,
}

impl Clock {
    /// The system's clock may be set: both clocks are compared this often.
    const LOOK_NS: u64 = 1_000_000_000;

    fn new(started: Instant) -> Clock {
        let mut clock = Clock {
            began: started,
            system_ns: 0,
            behind_ns: 0,
            last_ns: 0,
        };
        clock.read_frames();
        clock
    }

    fn read_frames(&mut self) {
        let before = self.began.elapsed();
        let system = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let between = (before + self.began.elapsed()) / 2;
        self.system_ns = system.as_nanos() as u64;
        self.behind_ns = system.saturating_sub(between).as_nanos() as u64;
    }

    /// Converts a time of the system; the result is never before the previous one.
    fn at(&mut self, system_ns: u64) -> u64 {
        if system_ns.abs_diff(self.system_ns) > Clock::LOOK_NS {
            self.read_frames();
        }
        self.last_ns = self.last_ns.max(system_ns.saturating_sub(self.behind_ns));
        self.last_ns
    }
}

/// All captures of all clients; they have no owners, as in TRex.
#[derive(Default)]
pub struct Captures {
    pub all: BTreeMap<u32, Shared>,
    last: u32,
}

impl Captures {
    /// Starts a capture and returns its number.
    pub fn start(
        &mut self,
        requested: CaptureFilter,
        ports: &mut [(&dyn Wire, &mut PortCapture)],
        started: Instant,
    ) -> Result<u32, Fault> {
        if self.all.len() >= limits::CAPTURES {
            return Err(Fault::execute(format!(
                "there are {} captures already, and there may be no more; remove one",
                self.all.len()
            )));
        }
        let used: Vec<usize> = (requested.sent.iter().chain(&requested.received))
            .copied()
            .collect();
        let store = Arc::new(Mutex::new(Store::new(requested, started)));
        for (at, (wire, ears)) in ports.iter_mut().enumerate() {
            if used.contains(&at)
                && let Err(fault) = ears.add(at, *wire, &store, started)
            {
                ports.iter_mut().for_each(|(_, ears)| ears.remove(&store));
                return Err(fault);
            }
        }
        // zero is not a valid number, and numbers in use are skipped
        loop {
            self.last = self.last.wrapping_add(1).max(1);
            if !self.all.contains_key(&self.last) {
                break;
            }
        }
        self.all.insert(self.last, store);
        Ok(self.last)
    }

    /// Returns the capture with this number.
    pub fn get(&self, id: u64) -> Result<&Shared, Fault> {
        let number = u32::try_from(id).ok();
        let store = number.and_then(|id| self.all.get(&id));
        store.ok_or_else(|| Fault::execute(format!("there is no capture {id}")))
    }
}

/// Stops filling a store; its frames are kept.
pub fn stop<'a>(store: &Shared, ears: impl Iterator<Item = &'a mut PortCapture>) {
    let mut ears: Vec<&mut PortCapture> = ears.collect();
    if open(store).is_stopped {
        return;
    }
    for one in &ears {
        let stores = one.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let is_its = stores.iter().any(|other| Arc::ptr_eq(other, store));
        drop(stores);
        if is_its {
            one.settle();
        }
    }
    open(store).end();
    ears.iter_mut().for_each(|ears| ears.remove(store));
}

/// Creates the queue of a port: the last frames that arrived.
pub fn queue(
    at: usize,
    size: usize,
    wire: &dyn Wire,
    ears: &mut PortCapture,
    started: Instant,
) -> Result<Shared, Fault> {
    let store = Arc::new(Mutex::new(Store::new(
        CaptureFilter {
            filter: Program::accept_all(),
            expression: String::new(),
            mode: Mode::Cyclic,
            limit: size,
            snap: usize::MAX,
            sent: Vec::new(),
            received: vec![at],
        },
        started,
    )));
    ears.add(at, wire, &store, started)?;
    Ok(store)
}

#[cfg(test)]
mod tests {
    use fwdlab_engine::stamps::Kind;

    use super::*;

    #[test]
    fn times_of_a_capture_never_run_backwards_and_numbers_follow_them() {
        let started = Instant::now();
        let mut store = Store::new(
            CaptureFilter {
                filter: Program::accept_all(),
                expression: String::new(),
                mode: Mode::Fixed,
                limit: 9,
                snap: 1,
                sent: Vec::new(),
                received: vec![0, 1],
            },
            started,
        );
        let mut offer = |port, at_ns| {
            let frame = Captured {
                timestamp_ns: 0,
                stamped: Kind::User,
                original_len: 60,
                bytes: &[7; 60],
                outgoing: false,
            };
            store.offer(port, &frame, at_ns);
            let times = store.frames.iter().map(|frame| (frame.at_ns, frame.index));
            times.collect::<Vec<_>>()
        };
        for at_ns in [10, 20, 30] {
            offer(0, at_ns);
        }
        offer(1, 15);
        assert_eq!(offer(1, 25), [(10, 0), (15, 1), (20, 2), (25, 3), (30, 4)]);
        assert_eq!(store.take().unwrap().at_ns, 10);
        assert_eq!(store.take().unwrap().at_ns, 15);
        let late = Captured {
            timestamp_ns: 0,
            stamped: Kind::User,
            original_len: 60,
            bytes: &[7; 60],
            outgoing: false,
        };
        store.offer(1, &late, 12);
        let left: Vec<u64> = store.frames.iter().map(|frame| frame.at_ns).collect();
        assert_eq!(left, [15, 20, 25, 30]);
        // frames that a listener missed earlier or misses later do not count for this store
        let missed = Arc::new(AtomicU64::new(5));
        store.listeners.push((missed.clone(), 5));
        missed.store(8, Ordering::Relaxed);
        store.end();
        missed.store(9, Ordering::Relaxed);
        assert_eq!(store.missed(), 3);
    }

    #[test]
    fn a_clock_keeps_differences_and_never_goes_back() {
        let mut clock = Clock::new(Instant::now());
        let now = clock.system_ns + 1000;
        let first = clock.at(now);
        assert_eq!(clock.at(now + 7), first + 7);
        assert_eq!(clock.at(now + 3), first + 7);
    }
}
