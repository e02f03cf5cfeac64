//! The sender thread that the socket engines share: it keeps the schedule, walks the flows and counts.
//!
//! What an engine adds is one [`Transmit`]: how a batch of frames gets from memory to a port. Nothing here knows which
//! kind of socket that is, and nothing in the loop allocates, locks or logs. Start with [`SocketSender`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use packet::{FrameTemplate, Order, Signature, Walk};

use crate::error::EngineError;
use crate::generator::{Capabilities, Frames, Schedule, SendCounts, Sender, TestFrames};
use crate::histogram::Histogram;
use crate::pacer::Pacer;
use crate::port::pin;
use crate::sys::{become_preferred, interrupt, monotonic_ns, prepare_interrupts};

/// Frames per system call at most. Larger batches gain nothing measurable and make bursts that a veth ring of 256 slots
/// cannot take twice.
pub(crate) const BATCH: usize = 64;

/// How frames get from memory to the ports of one engine.
pub(crate) trait Transmit: Send + 'static {
    /// Prepares buffers for such frames. No traffic flows.
    fn arm(&mut self, frames: &TestFrames) -> Result<(), EngineError>;

    /// A trial begins: forget what was counted before.
    fn begin(&mut self) -> Result<(), EngineError>;

    /// Takes up to `count` (1 to [`BATCH`]) frames for a path, and returns how many it took. The rest stays due.
    ///
    /// What became of them goes to `counters`, at the latest in [`Transmit::end`].
    fn send(
        &mut self,
        path: usize,
        count: usize,
        frames: &mut FrameSource,
        counters: &Counters,
    ) -> Result<usize, EngineError>;

    /// A trial ends: nothing may leave any more, and `counters` become final.
    fn end(&mut self, counters: &Counters) -> Result<(), EngineError>;
}

/// The frames of one trial, one after the other.
pub(crate) struct FrameSource {
    template: FrameTemplate,
    walk: Walk,
    signature: Signature,
}

impl FrameSource {
    fn new(frames: &TestFrames) -> FrameSource {
        FrameSource {
            template: frames.template.clone(),
            walk: frames.flows.walk(Order::Sequential),
            signature: Signature {
                nonce: frames.nonce,
                ..Signature::default()
            },
        }
    }

    /// Turns a buffer that holds any frame of the template into the next frame.
    #[inline]
    pub(crate) fn write_next(&mut self, buffer: &mut [u8]) {
        let flow = self.walk.next().expect("a walk is endless");
        self.template.patch(buffer, &flow, &self.signature);
        self.signature.sequence += 1;
    }

    /// The next frame will be number `sequence`, with the flow that belongs to it. Slow: for after a refusal.
    pub(crate) fn rewind_to(&mut self, sequence: u64) {
        self.walk = self.walk.starting_at(sequence);
        self.signature.sequence = sequence;
    }

    /// How many frames have been written, and the number of the next.
    pub(crate) fn sequence(&self) -> u64 {
        self.signature.sequence
    }
}

/// Writes some frame of a trial, so that [`FrameSource::write_next`] may turn it into any other.
pub(crate) fn write_any(frames: &TestFrames, buffer: &mut [u8]) {
    let signature = Signature::default();
    frames
        .template
        .write(buffer, &frames.flows.flow(0), &signature);
}

/// Written by the sender thread, read by everybody.
pub(crate) struct Counters {
    sent: Vec<AtomicU64>,
    refused: Vec<AtomicU64>,
}

impl Counters {
    fn new(paths: usize) -> Counters {
        let zeros = || (0..paths).map(|_| AtomicU64::new(0)).collect();
        Counters {
            sent: zeros(),
            refused: zeros(),
        }
    }

    /// Frames of this trial given to the driver of a path's port.
    pub(crate) fn set_sent(&self, path: usize, frames: u64) {
        self.sent[path].store(frames, Ordering::Relaxed);
    }

    /// Frames of this trial that were taken and did not get as far as the driver.
    pub(crate) fn set_refused(&self, path: usize, frames: u64) {
        self.refused[path].store(frames, Ordering::Relaxed);
    }
}

/// A [`Sender`] around one [`Transmit`].
pub(crate) struct SocketSender<T> {
    capabilities: Capabilities,
    cpus: Vec<usize>,
    paths: usize,
    frames: Option<TestFrames>,
    /// Absent while the thread has it, and after the thread has died.
    transmit: Option<T>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<(T, Result<(), EngineError>)>>,
}

struct Shared {
    stop: AtomicBool,
    done: AtomicBool,
    path: AtomicUsize,
    forgiven: AtomicU64,
    counters: Counters,
}

impl Shared {
    fn new(paths: usize) -> Shared {
        Shared {
            stop: AtomicBool::new(false),
            done: AtomicBool::new(true),
            path: AtomicUsize::new(0),
            forgiven: AtomicU64::new(0),
            counters: Counters::new(paths),
        }
    }
}

impl<T: Transmit> SocketSender<T> {
    pub(crate) fn new(
        capabilities: Capabilities,
        paths: usize,
        cpus: &[usize],
        transmit: T,
    ) -> Self {
        SocketSender {
            capabilities,
            cpus: cpus.to_vec(),
            paths,
            frames: None,
            transmit: Some(transmit),
            shared: Arc::new(Shared::new(paths)),
            thread: None,
        }
    }

    fn no_path(path: usize) -> EngineError {
        EngineError::Frames(format!("there is no path {path}"))
    }
}

impl<T: Transmit> Sender for SocketSender<T> {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        let frames = frames.test(self.capabilities.mode.name())?;
        let Some(transmit) = &mut self.transmit else {
            return Err(EngineError::Frames("the sender still runs".into()));
        };
        transmit.arm(frames)?;
        self.frames = Some(frames.clone());
        Ok(())
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        if schedule.path >= self.paths {
            return Err(Self::no_path(schedule.path));
        }
        let Some(frames) = &self.frames else {
            return Err(EngineError::Frames("the sender is not armed".into()));
        };
        let source = FrameSource::new(frames);
        let Some(mut transmit) = self.transmit.take() else {
            return Err(EngineError::Frames("the sender still runs".into()));
        };
        prepare_interrupts();
        let shared = Arc::new(Shared::new(self.paths));
        shared.path.store(schedule.path, Ordering::Relaxed);
        shared.done.store(false, Ordering::Relaxed);
        self.shared = shared.clone();
        let cpus = self.cpus.clone();
        let thread = thread::Builder::new()
            .name("fwdlab-send".into())
            .spawn(move || {
                let pinned = pin(&cpus);
                become_preferred();
                let result = pinned
                    .and_then(|()| transmit.begin())
                    .and_then(|()| send(&mut transmit, source, schedule, &shared))
                    .and(transmit.end(&shared.counters));
                shared.done.store(true, Ordering::Release);
                (transmit, result)
            })
            .map_err(|e| EngineError::system("start the sender thread", e))?;
        self.thread = Some(thread);
        Ok(())
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        if path >= self.paths {
            return Err(Self::no_path(path));
        }
        self.shared.path.store(path, Ordering::Relaxed);
        Ok(())
    }

    fn set_load(&mut self, _load_pps: f64) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: self.capabilities().mode.name(),
            what: "change the load while it sends".into(),
        })
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        Ok(None)
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { sent, refused } = &self.shared.counters;
        Ok(SendCounts {
            sent: sent.iter().map(read).collect(),
            not_sent: read(&self.shared.forgiven) + refused.iter().map(read).sum::<u64>(),
            ..SendCounts::default()
        })
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        if let Some(thread) = self.thread.take() {
            self.shared.stop.store(true, Ordering::Release);
            while !thread.is_finished() {
                // a socket may block when its buffer is full
                interrupt(&thread);
                thread::sleep(Duration::from_millis(1));
            }
            let (transmit, result) = thread
                .join()
                .map_err(|_| EngineError::Thread("it panicked".into()))?;
            self.transmit = Some(transmit);
            result?;
        }
        self.counts()
    }

    fn is_done(&self) -> bool {
        self.shared.done.load(Ordering::Acquire)
    }
}

impl<T> Drop for SocketSender<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.stop.store(true, Ordering::Release);
            while !thread.is_finished() {
                interrupt(&thread);
                thread::sleep(Duration::from_millis(1));
            }
            let _ = thread.join();
        }
    }
}

/// The loop of the sender thread: until it is told to stop, everything is sent, or the time has run out.
///
/// The clock of the schedule starts here and not in [`Sender::start`], so that a thread that was slow to start owes
/// nothing.
fn send<T: Transmit>(
    transmit: &mut T,
    mut frames: FrameSource,
    schedule: Schedule,
    shared: &Shared,
) -> Result<(), EngineError> {
    let start_ns = monotonic_ns();
    let end_ns = start_ns.saturating_add(schedule.at_most.as_nanos() as u64);
    let mut pacer = schedule.load_pps.map(|pps| Pacer::new(pps, start_ns));
    let all = schedule.frames.unwrap_or(u64::MAX);
    while !shared.stop.load(Ordering::Acquire) && frames.sequence() < all {
        let now = monotonic_ns();
        if now >= end_ns {
            break;
        }
        let mut count = (all - frames.sequence()).min(BATCH as u64);
        if let Some(pacer) = &mut pacer {
            count = count.min(pacer.due(now));
            shared.forgiven.store(pacer.not_sent(), Ordering::Relaxed);
        }
        if count == 0 {
            std::hint::spin_loop();
            continue;
        }
        let path = shared.path.load(Ordering::Relaxed);
        let taken = transmit.send(path, count as usize, &mut frames, &shared.counters)?;
        if let Some(pacer) = &mut pacer {
            pacer.taken(taken as u64);
        }
    }
    Ok(())
}
