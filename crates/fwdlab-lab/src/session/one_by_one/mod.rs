//! Handles frames of a port one at a time, on a thread separate from the one that reports them.
//!
//! For queries and answers, and for walks through arriving frames; everything faster uses a
//! [`Session`](super::Session). The caller defines the content of frames. Start with
//! [`FrameSession::open`] and [`FrameSession::run`]; the abilities of [`FramePort`] are in
//! [`queries`] (query, answer) and [`walk`] (check the numbers of frames).

pub mod queries;
pub mod walk;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fwdlab_engine::af_packet::SinglePort;
use fwdlab_engine::port::pin;

use super::POLL;
use super::figures::Counted;
use super::watch::Watch;
use crate::control::Control;
use crate::error::LabError;
use crate::ports::Port;

/// Timeout of a system call, after which it checks whether it is over.
const SLICE: Duration = Duration::from_millis(50);
/// Longest frame, with offloads.
const BUFFER: usize = 1 << 16;

/// A port whose frames are handled one by one.
pub struct FrameSession {
    port: Port,
    single: SinglePort,
    cpus: Vec<usize>,
}

/// Counts of the thread.
#[derive(Default)]
struct Counts {
    frames: AtomicU64,
    bytes: AtomicU64,
    batches: AtomicU64,
}

impl Counts {
    fn read(&self) -> Counted {
        Counted {
            frames: self.frames.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
        }
    }
}

/// The port, for the thread that handles its frames.
pub struct FramePort<'a> {
    single: &'a SinglePort,
    control: &'a Control,
    counts: &'a Counts,
    stop: &'a AtomicBool,
}

impl FrameSession {
    /// Opens a port, with the CPUs of the thread that handles its frames (empty: any). Other
    /// receivers of the frames still get them.
    ///
    /// # Errors
    /// Fails if the port cannot be opened.
    pub fn open(port: Port, cpus: &[usize]) -> Result<FrameSession, LabError> {
        Ok(FrameSession {
            single: SinglePort::open(&port.spec)?,
            port,
            cpus: cpus.to_vec(),
        })
    }

    /// Runs `work` on its own thread until it ends, and reports every interval. The work is told to
    /// end when the port goes down or disappears.
    ///
    /// # Errors
    /// Fails with the error of the work, or if the port is gone.
    pub fn run<T: Send>(
        &self,
        control: &Control,
        interval: Duration,
        work: impl FnOnce(&FramePort<'_>) -> Result<T, LabError> + Send,
        each_interval: &mut dyn FnMut(Counted, Duration),
    ) -> Result<(T, Counted), LabError> {
        let (counts, stop) = (Counts::default(), AtomicBool::new(false));
        let hands = FramePort {
            single: &self.single,
            control,
            counts: &counts,
            stop: &stop,
        };
        let mut watch = Watch::new(&self.port, interval, Counted::default());
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                pin(&self.cpus)?;
                work(&hands)
            });
            let mut gone = None;
            loop {
                std::thread::sleep(POLL);
                let is_over = thread.is_finished();
                let now = Instant::now();
                if let Some((counted, length)) = watch.interval(now, counts.read(), is_over) {
                    each_interval(counted, length);
                }
                if is_over {
                    break;
                }
                if let Err(error) = watch.check(now) {
                    gone.get_or_insert(error);
                    stop.store(true, Ordering::Relaxed);
                }
            }
            let ended = (thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match gone {
                Some(error) => Err(error),
                None => Ok((ended?, counts.read())),
            }
        })
    }
}

impl FramePort<'_> {
    /// Returns true if the work must end.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.control.is_stopped()
    }

    /// Sends a frame. `false`: there was no room for it.
    ///
    /// # Errors
    /// Fails if the system refuses it.
    pub fn send(&self, frame: &[u8]) -> Result<bool, LabError> {
        Ok(self.single.send(frame)?)
    }

    /// Receives a frame and returns its length, which exceeds the buffer's if the frame was
    /// truncated. `None`: there was none in this time.
    ///
    /// # Errors
    /// Fails if the system refuses it.
    pub fn receive(
        &self,
        buffer: &mut [u8],
        patience: Duration,
    ) -> Result<Option<usize>, LabError> {
        Ok(self.single.receive(buffer, patience)?)
    }

    fn count(&self, bytes: usize) {
        self.counts.frames.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn count_batch(&self) {
        self.counts.batches.fetch_add(1, Ordering::Relaxed);
    }
}
