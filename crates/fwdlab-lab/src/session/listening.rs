//! Captures frames of a port in the background.
//!
//! For callers that do something else meanwhile; otherwise use a
//! [`Capturing`](super::capture::Capturing). Start with [`Listening::open`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::PortSpec;
use fwdlab_engine::capture::{Capture, Captured, Options};

use crate::error::LabError;

/// Timeout of one read from a quiet port.
const PATIENCE: Duration = Duration::from_millis(8);

/// Frames are handed over at most this long after the first one.
const SOON_MS: u32 = 2;

/// Memory for frames that have not been handed over yet: half a second of 1 Gbit/s, for a thread
/// that waits for its CPU.
const RING_BYTES: usize = 64 << 20;

/// Called with each frame.
pub type FrameCallback = Box<dyn FnMut(&Captured<'_>) + Send>;

/// Captures a port until this is dropped.
pub struct Listening {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Number of complete reads that timed out without a frame.
    quiet: AtomicU64,
    /// Frames that were lost because the memory was full.
    missed: Arc<AtomicU64>,
}

impl Listening {
    /// Captures frames from now on, in both directions, except those that are sent past the
    /// kernel's queues.
    ///
    /// # Errors
    /// Fails if there is no such port, or without CAP_NET_RAW.
    pub fn open(spec: &PortSpec, mut received: FrameCallback) -> Result<Listening, LabError> {
        let options = Options {
            ring_bytes: RING_BYTES,
            // leave the mode of the port unchanged
            promiscuous: false,
            retire_ms: SOON_MS,
            ..Options::default()
        };
        let mut capture = Capture::open(spec, &options)?;
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let work = move || {
            while !theirs.is_over.load(Ordering::Relaxed) {
                let looked = capture.frames(PATIENCE, &mut |frame| {
                    received(&frame);
                    true
                });
                if let Ok(so_far) = capture.statistics() {
                    theirs.missed.store(so_far.dropped, Ordering::Relaxed);
                }
                match looked {
                    Ok(0) => drop(theirs.quiet.fetch_add(1, Ordering::AcqRel)),
                    Ok(_) => {}
                    // it was set down, and may come up again
                    Err(_) => thread::sleep(PATIENCE),
                }
            }
        };
        let thread = thread::Builder::new().name("listen".into());
        thread.spawn(work).map_err(|source| LabError::System {
            what: format!("start a thread for {}", spec.interface),
            source,
        })?;
        Ok(Listening { shared })
    }

    /// Returns the number of frames that were lost because too many waited, which is updated while
    /// this lives.
    pub fn missed(&self) -> Arc<AtomicU64> {
        self.shared.missed.clone()
    }

    /// Waits until frames that passed before this call have been handed over, with a time limit.
    pub fn settle(&self, at_most: Duration) {
        let quiet = || self.shared.quiet.load(Ordering::Acquire);
        let (started, before) = (Instant::now(), quiet());
        // the read in progress may have started before
        while quiet() < before + 2 && started.elapsed() < at_most {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}
