//! Frames that clients ask for: captures over some ports, and the queue of a port. Each keeps a bounded number of frames in bounded memory.
//!
//! A port that anybody listens to has one listener, which asks each [`Store`] whether it wants a frame. Start with [`Captures`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fwdlab_engine::capture::Captured;
use fwdlab_packet::bpf::Program;

use crate::limits;
use crate::rpc::Fault;
use crate::wire::{Hearing, Wire};

/// Frames that passed before a capture is stopped are waited for so long.
const SETTLE: Duration = Duration::from_millis(30);

/// What a store does when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// New frames are not kept.
    Fixed,
    /// The oldest make room.
    Cyclic,
}

impl Mode {
    /// TRex's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Fixed => "fixed",
            Mode::Cyclic => "cyclic",
        }
    }
}

/// A frame that is kept.
#[derive(Debug, Clone)]
pub struct Kept {
    pub bytes: Vec<u8>,
    pub length: u32,
    pub port: usize,
    pub outgoing: bool,
    /// Seconds on the server's clock.
    pub at_s: f64,
    /// Its number among those that the filter took.
    pub index: u64,
}

/// What is wanted.
pub struct Wanted {
    pub filter: Program,
    /// The filter in words.
    pub words: String,
    pub mode: Mode,
    /// Most frames.
    pub limit: usize,
    /// Bytes kept of each.
    pub snap: usize,
    pub sent: Vec<usize>,
    pub received: Vec<usize>,
}

/// Frames of one capture or queue.
pub struct Store {
    pub wanted: Wanted,
    /// When it began, on the server's clock.
    pub began_s: f64,
    pub is_stopped: bool,
    pub matched: u64,
    pub fetched: u64,
    /// Bytes of the frames that are kept.
    pub bytes: usize,
    pub frames: VecDeque<Kept>,
}

/// A store that listeners fill.
pub type Shared = Arc<Mutex<Store>>;

/// Nothing in a store is half done when a thread ends.
pub fn open(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// An empty one.
    pub fn new(wanted: Wanted, began: Instant) -> Store {
        Store {
            wanted,
            began_s: began.elapsed().as_secs_f64(),
            is_stopped: false,
            matched: 0,
            fetched: 0,
            bytes: 0,
            frames: VecDeque::new(),
        }
    }

    /// Takes a frame of a port, if it is wanted and there is room.
    pub fn offer(&mut self, port: usize, frame: &Captured<'_>, now: &dyn Fn(u64) -> f64) {
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
            at_s: now(frame.timestamp_ns),
            index,
        });
    }

    /// The oldest frame, which is not kept any more.
    pub fn take(&mut self) -> Option<Kept> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.bytes.len();
        Some(frame)
    }
}

/// What listens on a port, and for whom.
#[derive(Default)]
pub struct Ears {
    stores: Arc<Mutex<Vec<Shared>>>,
    hearing: Option<Box<dyn Hearing>>,
}

impl Ears {
    /// Fills this store, too, from now on.
    fn add(
        &mut self,
        at: usize,
        wire: &dyn Wire,
        store: &Shared,
        began: Instant,
    ) -> Result<(), Fault> {
        let lock = |stores: &Mutex<Vec<Shared>>| -> Vec<Shared> {
            stores
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        if self.hearing.is_none() {
            let stores = self.stores.clone();
            let heard = move |frame: &Captured<'_>| {
                let now = |timestamp_ns| server_time(timestamp_ns, began);
                for store in lock(&stores) {
                    open(&store).offer(at, frame, &now);
                }
            };
            self.hearing = Some(wire.listen(Box::new(heard)).map_err(Fault::execute)?);
        }
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.push(store.clone());
        Ok(())
    }

    /// Fills it no more; who is left alone does not listen.
    fn remove(&mut self, store: &Shared) {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|one| !Arc::ptr_eq(one, store));
        if stores.is_empty() {
            self.hearing = None;
        }
    }

    /// Waits for frames that have passed and have not been heard.
    fn settle(&self) {
        if let Some(hearing) = &self.hearing {
            hearing.settle(SETTLE);
        }
    }

    /// Does anybody listen?
    pub fn is_used(&self) -> bool {
        self.hearing.is_some()
    }
}

/// The system's time of a frame, on the clock that begins with the server.
fn server_time(timestamp_ns: u64, began: Instant) -> f64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let ago = since.as_secs_f64() - timestamp_ns as f64 / 1e9;
    began.elapsed().as_secs_f64() - ago
}

/// All captures of all clients; they belong to nobody, as in TRex.
#[derive(Default)]
pub struct Captures {
    pub all: BTreeMap<u32, Shared>,
    last: u32,
}

impl Captures {
    /// Begins one; its number.
    pub fn start(
        &mut self,
        wanted: Wanted,
        ports: &mut [(&dyn Wire, &mut Ears)],
        began: Instant,
    ) -> Result<u32, Fault> {
        if self.all.len() >= limits::CAPTURES {
            return Err(Fault::execute(format!(
                "there are {} captures already, and there may be no more; remove one",
                self.all.len()
            )));
        }
        let used: Vec<usize> = (wanted.sent.iter().chain(&wanted.received))
            .copied()
            .collect();
        let store = Arc::new(Mutex::new(Store::new(wanted, began)));
        for (at, (wire, ears)) in ports.iter_mut().enumerate() {
            if used.contains(&at)
                && let Err(fault) = ears.add(at, *wire, &store, began)
            {
                ports.iter_mut().for_each(|(_, ears)| ears.remove(&store));
                return Err(fault);
            }
        }
        // zero is no number of a capture, and one that is in use is no new one
        loop {
            self.last = self.last.wrapping_add(1).max(1);
            if !self.all.contains_key(&self.last) {
                break;
            }
        }
        self.all.insert(self.last, store);
        Ok(self.last)
    }

    /// The one of this number.
    pub fn get(&self, id: u64) -> Result<&Shared, Fault> {
        let number = u32::try_from(id).ok();
        let store = number.and_then(|id| self.all.get(&id));
        store.ok_or_else(|| Fault::execute(format!("there is no capture {id}")))
    }
}

/// Ends what fills a store; what it has stays.
pub fn stop<'a>(store: &Shared, ears: impl Iterator<Item = &'a mut Ears>) {
    let mut ears: Vec<&mut Ears> = ears.collect();
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
    open(store).is_stopped = true;
    ears.iter_mut().for_each(|ears| ears.remove(store));
}

/// The queue of a port: the last frames that came in.
pub fn queue(
    at: usize,
    size: usize,
    wire: &dyn Wire,
    ears: &mut Ears,
    began: Instant,
) -> Result<Shared, Fault> {
    let store = Arc::new(Mutex::new(Store::new(
        Wanted {
            filter: Program::everything(),
            words: String::new(),
            mode: Mode::Cyclic,
            limit: size,
            snap: usize::MAX,
            sent: Vec::new(),
            received: vec![at],
        },
        began,
    )));
    ears.add(at, wire, &store, began)?;
    Ok(store)
}
