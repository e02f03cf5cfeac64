//! The memif receiver: a thread that polls the rings of a port, and counts or analyses.
//!
//! Frames that arrive before the first trial stay in the rings, and are late ones of that trial.
//! The thread spins while frames arrive and takes naps once none has come for a while, so an open
//! receiver costs a CPU only during trials. A frame arrived when the thread found it: frames of one
//! burst have the same time. Start with [`MemifReceiver::open`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::port::{Half, Port};
use super::ring::Incoming;
use crate::analysis::{Analyser, Analysis, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::generator::Receiver;
use crate::port::pin;
use crate::sender::thread::BATCH;
use crate::stamps::{Origin, Origins};
use crate::sys::{become_preferred, monotonic_ns};

const NAME: &str = "memif";

/// The thread spins for this time after the last frame: rates above 10 frames/s are timed without
/// naps.
const SPIN_NS: u64 = 100_000_000;
const NAP: Duration = Duration::from_micros(200);

/// After this time without a frame, the thread gives its CPU to others between two looks.
const POLITE_NS: u64 = 50_000;

/// The receiver.
///
/// Frames with broken descriptors count as foreign. Frames that arrived before a peer restarted are
/// read before those of its successor.
pub(super) struct MemifReceiver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Keeps the connection open.
    _port: Port,
}

struct Shared {
    found: Mutex<Found>,
    /// Set with the first trial.
    expecting: AtomicBool,
    stop: AtomicBool,
}

struct Found {
    /// `None` before the first trial.
    analyser: Option<Analyser>,
    has_analysis: bool,
    malformed: u64,
}

impl MemifReceiver {
    pub(super) fn open(port: &Port, cpus: &[usize]) -> Result<MemifReceiver, EngineError> {
        let shared = Arc::new(Shared {
            found: Mutex::new(Found {
                analyser: None,
                has_analysis: false,
                malformed: 0,
            }),
            expecting: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let (ours, mut half, cpus) = (shared.clone(), Half::new(port), cpus.to_vec());
        let thread = thread::Builder::new()
            .name("fwdlab-receive".into())
            .spawn(move || {
                // without its CPU it still counts
                let _ = pin(&cpus);
                // as senders: a sender in this process must not keep it from its CPU
                become_preferred();
                ours.poll(&mut half);
            })
            .map_err(|e| EngineError::system("start the thread of a memif receiver", e))?;
        Ok(MemifReceiver {
            shared,
            thread: Some(thread),
            _port: port.clone(),
        })
    }
}

impl Shared {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, half: &mut Half<Incoming>) {
        let mut last_ns = 0;
        while !self.stop.load(Ordering::Acquire) {
            let found = self.take_frames(half);
            let now_ns = monotonic_ns();
            if found {
                last_ns = now_ns;
            } else if now_ns.saturating_sub(last_ns) > SPIN_NS {
                thread::sleep(NAP);
            } else if now_ns.saturating_sub(last_ns) > POLITE_NS {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Looks once at all rings; returns true if there was a frame.
    #[inline]
    fn take_frames(&self, half: &mut Half<Incoming>) -> bool {
        if !self.expecting.load(Ordering::Acquire) {
            return false;
        }
        let mut any = false;
        for ring in 0..half.rings.len() {
            match half.rings[ring].poll() {
                Ok(0) => {}
                Ok(frames) => {
                    any = true;
                    // it may have filled up, and been read in part, since the last look
                    if usize::from(frames) + BATCH >= half.rings[ring].size() {
                        half.was_full();
                    }
                    self.found().take(&mut half.rings[ring]);
                }
                Err(fault) => {
                    let rings = half.broken(fault);
                    self.finish(rings);
                    break;
                }
            }
        }
        if let Some(old) = half.renew() {
            self.finish(old);
        }
        any
    }

    /// Reads what is in the rings of a connection that has ended: no more than they hold.
    #[cold]
    fn finish(&self, rings: Vec<Incoming>) {
        for mut ring in rings {
            // what was there before a fault has been counted in `available`
            let _ = ring.poll();
            while self.found().take(&mut ring) > 0 {}
        }
    }
}

impl Found {
    /// Takes frames that the last look found.
    #[inline]
    fn take(&mut self, ring: &mut Incoming) -> usize {
        // not earlier: they would seem to arrive before they left
        let now_ns = monotonic_ns();
        let malformed = ring.malformed();
        let frames = match &mut self.analyser {
            Some(analyser) => ring.frames(|frame| {
                analyser.frame(frame, now_ns);
            }),
            None => ring.frames(|_| {}),
        };
        self.malformed += ring.malformed() - malformed;
        frames
    }
}

impl Receiver for MemifReceiver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        let analyser = match &expected.analysis {
            Some(_) => Analyser::new(NAME, expected)?,
            None => Analyser::counting(expected),
        };
        *self.shared.found() = Found {
            analyser: Some(analyser),
            has_analysis: expected.analysis.is_some(),
            malformed: 0,
        };
        self.shared.expecting.store(true, Ordering::Release);
        Ok(())
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        let found = self.shared.found();
        let counts = found.analyser.as_ref().map(Analyser::counts);
        let mut counts = counts.unwrap_or_default();
        counts.foreign += found.malformed;
        Ok(counts)
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        let found = self.shared.found();
        let analyser = found.analyser.as_ref().filter(|_| found.has_analysis);
        Ok(analyser.map(|a| a.analysis(Origins::from_intended(Origin::POLLED))))
    }
}

impl Drop for MemifReceiver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
