//! Frames of a port handled one at a time, on a thread beside the one that tells of them.
//!
//! For questions and answers, and for a walk through what arrives; everything faster is for a [`Session`](super::Session). What
//! is in the frames is the caller's. Start with [`OneByOne::open`] and [`OneByOne::run`]; what [`Hands`] can do is in [`talk`]
//! (ask, answer) and [`walk`] (look at the numbers of frames).

pub mod talk;
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

/// How long a system call waits before it looks whether it is over.
const SLICE: Duration = Duration::from_millis(50);
/// Longest frame, with offloads.
const BUFFER: usize = 1 << 16;

/// A port whose frames are handled one by one.
pub struct OneByOne {
    port: Port,
    single: SinglePort,
    cpus: Vec<usize>,
}

/// What the thread counts.
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

/// The port as the thread has it that handles its frames.
pub struct Hands<'a> {
    single: &'a SinglePort,
    control: &'a Control,
    counts: &'a Counts,
    stop: &'a AtomicBool,
}

impl OneByOne {
    /// A port, and the CPUs of the thread that handles its frames (none: any). Frames that arrive are seen beside whoever else
    /// takes them.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(port: Port, cpus: &[usize]) -> Result<OneByOne, LabError> {
        Ok(OneByOne {
            single: SinglePort::open(&port.spec)?,
            port,
            cpus: cpus.to_vec(),
        })
    }

    /// Does the work on a thread of its own until it ends, and tells of every interval. The work is asked to end when the port
    /// goes down or away.
    ///
    /// # Errors
    /// The work's, or that the port is gone.
    pub fn run<T: Send>(
        &self,
        control: &Control,
        interval: Duration,
        work: impl FnOnce(&Hands<'_>) -> Result<T, LabError> + Send,
        each_interval: &mut dyn FnMut(Counted, Duration),
    ) -> Result<(T, Counted), LabError> {
        let (counts, stop) = (Counts::default(), AtomicBool::new(false));
        let hands = Hands {
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

impl Hands<'_> {
    /// Shall the work end?
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.control.is_stopped()
    }

    /// Sends a frame. `false`: there was no room for it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn send(&self, frame: &[u8]) -> Result<bool, LabError> {
        Ok(self.single.send(frame)?)
    }

    /// Takes a frame and returns its length, which is more than the buffer's when the end was cut off. `None`: there was none
    /// in this time.
    ///
    /// # Errors
    /// The system refuses.
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
