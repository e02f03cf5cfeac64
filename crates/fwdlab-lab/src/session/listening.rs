//! Frames of a port, heard in the background for as long as somebody wants them.
//!
//! For those who do something else meanwhile and look now and then; who has nothing else to do takes a
//! [`Capturing`](super::capture::Capturing). Start with [`Listening::open`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::PortSpec;
use fwdlab_engine::capture::{Capture, Captured, Options};

use crate::error::LabError;

/// A quiet port is looked at so often.
const PATIENCE: Duration = Duration::from_millis(8);

/// Frames are handed over so soon after the first of them.
const SOON_MS: u32 = 2;

/// Memory for frames that have not been heard yet: half a second of 1 Gbit/s, for a thread that waits for its CPU.
const RING_BYTES: usize = 64 << 20;

/// What is done with a frame.
pub type Heard = Box<dyn FnMut(&Captured<'_>) + Send>;

/// A port that is listened to, until this is dropped.
pub struct Listening {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// How often the port was looked at from begin to end of the patience, and nothing was there.
    quiet: AtomicU64,
    /// Frames that found the memory full.
    missed: Arc<AtomicU64>,
}

impl Listening {
    /// Hears what passes from now on, both ways; frames that were sent past the kernel's queues leave unheard.
    ///
    /// # Errors
    /// There is no such port, or no CAP_NET_RAW.
    pub fn open(spec: &PortSpec, mut heard: Heard) -> Result<Listening, LabError> {
        let options = Options {
            ring_bytes: RING_BYTES,
            // the port's own affair
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
                    heard(&frame);
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

    /// Frames that passed and were not heard, because too many waited: counted while this lives.
    pub fn missed(&self) -> Arc<AtomicU64> {
        self.shared.missed.clone()
    }

    /// Waits until what passed before this has been heard, or so long at most.
    pub fn settle(&self, at_most: Duration) {
        let quiet = || self.shared.quiet.load(Ordering::Acquire);
        let (began, before) = (Instant::now(), quiet());
        // the look that is under way may have begun before
        while quiet() < before + 2 && began.elapsed() < at_most {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}
