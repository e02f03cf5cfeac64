//! A receiver with a thread that polls the queues of a port, and counts or analyses their frames.
//!
//! Frames that arrive before the first trial stay in the queues, and are late ones of that trial.
//! The thread spins while frames arrive and takes naps once none has come for a while, so an open
//! receiver costs a CPU only during trials. A frame arrived when the thread found it: frames of one
//! burst have the same time. Engines only add how frames get from the queues of a port to a
//! [`Sink`]: memif does, and engines outside of this crate can. Start with [`Poll`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::analysis::{Analyser, Analysis, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::generator::{Counting, Receiver};
use crate::port::pin;
use crate::stamps::{Origin, Origins};
use crate::sys::{become_preferred, monotonic_ns};

/// The thread spins for this time after the last frame: rates above 10 frames/s are timed without
/// naps.
const SPIN_NS: u64 = 100_000_000;
const NAP: Duration = Duration::from_micros(200);

/// After this time without a frame, the thread gives its CPU to others between two looks.
const POLITE_NS: u64 = 50_000;

/// The receive queues of a port.
pub trait Poll: Send + 'static {
    /// Looks once at all queues and passes the frames found to `sink`, one burst after the other.
    /// Returns true if there was a frame.
    fn poll(&mut self, sink: &Sink) -> bool;
}

/// Takes the frames of a port.
#[derive(Debug)]
pub struct Sink {
    found: Mutex<Found>,
    /// Set with the first trial.
    expecting: AtomicBool,
    stop: AtomicBool,
}

#[derive(Debug)]
struct Found {
    /// `None` before the first trial.
    analyser: Option<Analyser>,
    has_analysis: bool,
    malformed: u64,
}

/// Takes the frames of a burst.
#[derive(Debug)]
pub struct Burst<'a> {
    found: MutexGuard<'a, Found>,
    arrival_ns: u64,
}

impl Sink {
    /// Begins a burst whose frames have been found: they arrive now. Finding them first matters,
    /// because otherwise they would seem to arrive before they left.
    #[inline]
    pub fn burst(&self) -> Burst<'_> {
        Burst {
            found: self.found(),
            arrival_ns: monotonic_ns(),
        }
    }

    #[inline]
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Burst<'_> {
    /// Takes a frame without FCS.
    #[inline]
    pub fn frame(&mut self, frame: &[u8]) {
        if let Some(analyser) = &mut self.found.analyser {
            analyser.frame(frame, self.arrival_ns);
        }
    }

    /// Counts frames that could not be read.
    #[inline]
    pub fn malformed(&mut self, frames: u64) {
        self.found.malformed += frames;
    }
}

/// The receiver. Malformed frames count as foreign.
#[derive(Debug)]
pub struct PollingReceiver {
    counting: Counting,
    sink: Arc<Sink>,
    thread: Option<JoinHandle<()>>,
}

impl PollingReceiver {
    /// Starts its thread on these CPUs; empty: any.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn open<P: Poll>(
        counting: Counting,
        mut queues: P,
        cpus: &[usize],
    ) -> Result<PollingReceiver, EngineError> {
        let sink = Arc::new(Sink {
            found: Mutex::new(Found {
                analyser: None,
                has_analysis: false,
                malformed: 0,
            }),
            expecting: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let (ours, cpus) = (sink.clone(), cpus.to_vec());
        let thread = thread::Builder::new()
            .name("fwdlab-receive".into())
            .spawn(move || {
                // without its CPU it still counts
                let _ = pin(&cpus);
                // as senders: a sender in this process must not keep it from its CPU
                become_preferred();
                keep_polling(&mut queues, &ours);
            })
            .map_err(|e| EngineError::system("start the thread of a receiver", e))?;
        Ok(PollingReceiver {
            counting,
            sink,
            thread: Some(thread),
        })
    }
}

fn keep_polling<P: Poll>(queues: &mut P, sink: &Sink) {
    let mut last_ns = 0;
    while !sink.stop.load(Ordering::Acquire) {
        let found = sink.expecting.load(Ordering::Acquire) && queues.poll(sink);
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

impl Receiver for PollingReceiver {
    fn name(&self) -> &'static str {
        self.counting.name()
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        let analyser = match &expected.analysis {
            Some(_) => Analyser::new(self.name(), expected)?,
            None => Analyser::counting(expected),
        };
        *self.sink.found() = Found {
            analyser: Some(analyser),
            has_analysis: expected.analysis.is_some(),
            malformed: 0,
        };
        self.sink.expecting.store(true, Ordering::Release);
        Ok(())
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        let found = self.sink.found();
        let counts = found.analyser.as_ref().map(Analyser::counts);
        let mut counts = counts.unwrap_or_default();
        counts.foreign += found.malformed;
        Ok(counts)
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        let found = self.sink.found();
        let analyser = found.analyser.as_ref().filter(|_| found.has_analysis);
        Ok(analyser.map(|a| a.analysis(Origins::from_intended(Origin::POLLED))))
    }
}

impl Drop for PollingReceiver {
    fn drop(&mut self) {
        self.sink.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
