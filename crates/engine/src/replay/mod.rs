//! Replay: the frames of a capture, sent again as they are, at their own times or at others.
//!
//! A [`Recording`] is all frames of a file with the times between them; the [`Replay`] is a [`Sender`] of its own, for no other
//! one keeps times that follow no rule. It gives up no frame: after a hold-up times are put off and catch up
//! ([`HoldUps::MakeUp`]), and a frame that the port refuses is tried again. Reading files is the caller's business. Start with [`Recording::new`].

mod sys;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::sys::{BATCH, Socket};
use crate::error::EngineError;
use crate::generator::{Capabilities, Frames, Mode, Schedule, SendCounts, Sender};
use crate::histogram::Histogram;
use crate::pacer::{CATCH_UP_US, FRACTION, HoldUps, Lag, OVERTIME_NS};
use crate::port::{PortSpec, interface_index, pin, within};
use crate::sys::{become_preferred, monotonic_ns};

const CAPABILITIES: Capabilities = Capabilities::plain(
    Mode::AfPacket,
    "AF_PACKET: sendmmsg past the queueing discipline, each frame at its own time, one thread",
);

/// Time for the thread to start.
const LEAD_NS: u64 = 1_000_000;
/// Longer waits are slept, but for the rest, which no sleep hits.
const SPIN_NS: u64 = 200_000;
/// A port that refuses frames is given this time before the next try.
const RETRY_NS: u64 = 20_000;

/// Frames of a capture, with the times between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    bytes: Vec<u8>,
    frames: Vec<Recorded>,
    /// From the begin of one round to that of the next.
    round_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Recorded {
    /// After the first frame.
    at_ns: u64,
    begin: usize,
    len: u32,
}

impl Recording {
    /// Frames in the order in which they are to leave, each with its time on any clock. One that was captured before the frame
    /// before it leaves with that.
    ///
    /// Between two rounds lies the mean time between two frames.
    pub fn new<'a>(frames: impl IntoIterator<Item = (u64, &'a [u8])>) -> Recording {
        let mut recording = Recording {
            bytes: Vec::new(),
            frames: Vec::new(),
            round_ns: 0,
        };
        let mut first = None;
        let mut latest = 0;
        for (timestamp_ns, bytes) in frames {
            let first = *first.get_or_insert(timestamp_ns);
            latest = latest.max(timestamp_ns.saturating_sub(first));
            recording.frames.push(Recorded {
                at_ns: latest,
                begin: recording.bytes.len(),
                len: bytes.len() as u32,
            });
            recording.bytes.extend_from_slice(bytes);
        }
        let gaps = recording.frames.len().saturating_sub(1) as u64;
        let mean = latest.checked_div(gaps).unwrap_or(0);
        // a single frame, and frames without times, have no time between them
        recording.round_ns = latest + mean.max(if latest == 0 { 1_000_000 } else { 1 });
        recording
    }

    /// How many frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// From the first frame to the last, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.frames.last().map_or(0, |last| last.at_ns)
    }

    /// The bytes of all frames together, without FCS.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The same recording with changed bytes, each frame as long as it was.
    #[must_use]
    pub fn map(&self, mut change: impl FnMut(&mut [u8])) -> Recording {
        let mut recording = self.clone();
        for frame in &recording.frames {
            change(&mut recording.bytes[frame.begin..frame.begin + frame.len as usize]);
        }
        recording
    }

    /// A frame.
    pub fn frame(&self, index: usize) -> &[u8] {
        let frame = &self.frames[index];
        &self.bytes[frame.begin..frame.begin + frame.len as usize]
    }
}

/// At which times the frames of a recording leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// At their own, so many times faster.
    Own {
        /// 1: as they were captured; 2: in half the time.
        speed: f64,
    },
    /// One after another at the schedule's load, or flat out.
    Schedule,
}

/// Sends a recording.
pub struct Replay {
    port: PortSpec,
    socket: Arc<Socket>,
    recording: Arc<Recording>,
    pace: Pace,
    rounds: u64,
    cpus: Vec<usize>,
    progress: Arc<Progress>,
    running: Option<Running>,
}

struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), EngineError>>,
}

/// Written by the thread, read by everybody.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    made_up: AtomicU64,
    refusals: AtomicU64,
    wakeups: AtomicU64,
    ended: AtomicBool,
    all: AtomicU64,
    lateness: Mutex<Histogram>,
}

impl Replay {
    /// Opens a port for a recording, so many rounds of it.
    ///
    /// # Errors
    /// There are no frames, the interface does not exist, or no CAP_NET_RAW in its namespace.
    pub fn open(
        port: &PortSpec,
        recording: Arc<Recording>,
        pace: Pace,
        rounds: u64,
        cpus: &[usize],
    ) -> Result<Replay, EngineError> {
        if recording.is_empty() {
            return Err(EngineError::Frames("the recording has no frames".into()));
        }
        let socket = within(&port.netns, || {
            Socket::open(interface_index(&port.interface)?).map_err(|e| {
                EngineError::system(format!("open a packet socket on {}", port.interface), e)
            })
        })?;
        Ok(Replay {
            port: port.clone(),
            socket: Arc::new(socket),
            recording,
            pace,
            rounds,
            cpus: cpus.to_vec(),
            progress: Arc::default(),
            running: None,
        })
    }
}

impl Sender for Replay {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn arm(&mut self, _frames: &Frames) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: "replay",
            what: "send other frames than those of its recording".into(),
        })
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        if self.running.is_some() {
            return Err(EngineError::Frames("the sender still runs".into()));
        }
        self.progress = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let job = Job {
            interface: self.port.interface.clone(),
            socket: self.socket.clone(),
            recording: self.recording.clone(),
            times: match (self.pace, schedule.load_pps) {
                (Pace::Own { speed }, _) => Times::Own { speed },
                (Pace::Schedule, Some(pps)) => Times::Even { gap_ns: 1e9 / pps },
                (Pace::Schedule, None) => Times::FlatOut,
            },
            frames: (self.rounds.saturating_mul(self.recording.len() as u64))
                .min(schedule.frames.unwrap_or(u64::MAX)),
            at_most: schedule.at_most,
            lag: Lag::new(
                match schedule.hold_ups {
                    HoldUps::Forgive => HoldUps::MakeUp { most_pps: None },
                    make_up => make_up,
                },
                schedule.load_pps.unwrap_or(0.0),
            ),
            progress: self.progress.clone(),
            stop: stop.clone(),
        };
        self.progress.all.store(job.frames, Ordering::Relaxed);
        let cpus = self.cpus.clone();
        let thread = thread::Builder::new()
            .name("fwdlab-replay".into())
            .spawn(move || {
                pin(&cpus)?;
                become_preferred();
                let result = job.run();
                job.progress.ended.store(true, Ordering::Release);
                result
            })
            .map_err(|e| EngineError::system("start the sender thread", e))?;
        self.running = Some(Running { stop, thread });
        Ok(())
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        match path {
            0 => Ok(()),
            _ => Err(EngineError::Frames(format!("there is no path {path}"))),
        }
    }

    fn set_load(&mut self, _load_pps: f64) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: "replay",
            what: "change the load while it sends".into(),
        })
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        let lateness = self.progress.lateness.lock();
        let lateness = lateness.unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok((!lateness.is_empty()).then(|| lateness.clone()))
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        let sent = self.progress.sent.load(Ordering::Relaxed);
        let all = self.progress.all.load(Ordering::Relaxed);
        let ended = self.progress.ended.load(Ordering::Acquire);
        Ok(SendCounts {
            sent: vec![sent],
            not_sent: if ended { all.saturating_sub(sent) } else { 0 },
            made_up: self.progress.made_up.load(Ordering::Relaxed),
            ring_full: self.progress.refusals.load(Ordering::Relaxed),
            wakeups: self.progress.wakeups.load(Ordering::Relaxed),
            ..SendCounts::default()
        })
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        if let Some(Running { stop, thread }) = self.running.take() {
            stop.store(true, Ordering::Release);
            thread.thread().unpark();
            thread
                .join()
                .map_err(|_| EngineError::Thread("it panicked".into()))??;
        }
        self.counts()
    }

    fn is_done(&self) -> bool {
        self.running
            .as_ref()
            .is_none_or(|running| running.thread.is_finished())
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// When frames leave, once the load is known.
#[derive(Debug, Clone, Copy)]
enum Times {
    Own { speed: f64 },
    Even { gap_ns: f64 },
    FlatOut,
}

impl Times {
    /// When frame `number` is due, in nanoseconds after the start.
    fn due_ns(self, recording: &Recording, number: u64) -> u64 {
        match self {
            Times::FlatOut => 0,
            Times::Even { gap_ns } => (number as f64 * gap_ns) as u64,
            Times::Own { speed } => {
                let len = recording.len() as u64;
                let own = recording.frames[(number % len) as usize].at_ns
                    + number / len * recording.round_ns;
                // whole nanoseconds stay exact at the speed of the capture
                if speed == 1.0 {
                    own
                } else {
                    (own as f64 / speed) as u64
                }
            }
        }
    }
}

/// What the thread does.
struct Job {
    interface: String,
    socket: Arc<Socket>,
    recording: Arc<Recording>,
    times: Times,
    frames: u64,
    at_most: Duration,
    lag: Lag,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
}

impl Job {
    fn run(&self) -> Result<(), EngineError> {
        let start = monotonic_ns() + LEAD_NS;
        let end = start.saturating_add(self.at_most.as_nanos().min(u64::MAX.into()) as u64);
        let len = self.recording.len() as u64;
        let (mut next, mut lag) = (0, self.lag);
        let mut batch: Vec<&[u8]> = Vec::with_capacity(BATCH);
        while next < self.frames && !self.stop.load(Ordering::Acquire) {
            let planned = start.saturating_add(self.times.due_ns(&self.recording, next));
            let due = planned.saturating_add(lag.time() >> FRACTION);
            let now = monotonic_ns();
            if planned >= end || now >= end.saturating_add(OVERTIME_NS) {
                break;
            }
            if now < due {
                let left = due - now;
                if left > SPIN_NS {
                    thread::park_timeout(Duration::from_nanos((left - SPIN_NS).min(50_000_000)));
                } else {
                    std::hint::spin_loop();
                }
                continue;
            }
            if !matches!(self.times, Times::FlatOut) {
                let mut lateness = self
                    .progress
                    .lateness
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                lateness.record(now - due);
            }
            if now - due > u64::from(CATCH_UP_US) * 1000 && !matches!(self.times, Times::FlatOut) {
                lag.lengthen((now - due) << FRACTION);
            }
            batch.clear();
            let room = (BATCH as u64).min(self.frames - next);
            let mut ahead = lag;
            for n in next..next + room {
                let due = start + self.times.due_ns(&self.recording, n);
                if due + (ahead.time() >> FRACTION) > now {
                    break;
                }
                batch.push(self.recording.frame((n % len) as usize));
                self.pass(&mut ahead, n);
            }
            self.progress.wakeups.fetch_add(1, Ordering::Relaxed);
            match self.socket.send(&batch) {
                Ok(taken) => {
                    (next..next + taken as u64).for_each(|n| self.pass(&mut lag, n));
                    next += taken as u64;
                    self.progress.sent.store(next, Ordering::Relaxed);
                    (self.progress.made_up).store(lag.made_up(), Ordering::Relaxed);
                    if taken < batch.len() {
                        self.refused();
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::ENOBUFS | libc::EAGAIN) => self.refused(),
                    Some(libc::EINTR) => {}
                    _ => {
                        let frame = next % len;
                        return Err(EngineError::system(
                            format!(
                                "send frame {} of the recording ({} bytes) into {}",
                                frame + 1,
                                self.recording.frame(frame as usize).len(),
                                self.interface
                            ),
                            error,
                        ));
                    }
                },
            }
        }
        Ok(())
    }

    /// A frame has left.
    fn pass(&self, lag: &mut Lag, number: u64) {
        let due = |number| self.times.due_ns(&self.recording, number);
        lag.advance(1, (due(number + 1) - due(number)) << FRACTION);
    }

    /// The port has no room: not now, but soon.
    fn refused(&self) {
        self.progress.refusals.fetch_add(1, Ordering::Relaxed);
        let until = monotonic_ns() + RETRY_NS;
        while monotonic_ns() < until {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let frames: [(u64, &[u8]); 3] = [(1000, b"ab"), (1400, b"c"), (1300, b"def")];
        Recording::new(frames)
    }

    #[test]
    fn frames_keep_their_bytes_and_never_leave_before_the_one_before() {
        let recording = recording();
        assert_eq!((recording.len(), recording.bytes()), (3, 6));
        assert_eq!(recording.frame(2), b"def");
        assert_eq!(recording.duration_ns(), 400);
        let due =
            |times: Times| -> Vec<u64> { (0..5).map(|n| times.due_ns(&recording, n)).collect() };
        // the next round begins 400 + 400 / 2 after the first
        assert_eq!(due(Times::Own { speed: 1.0 }), [0, 400, 400, 600, 1000]);
        assert_eq!(due(Times::Own { speed: 2.0 }), [0, 200, 200, 300, 500]);
        assert_eq!(due(Times::Even { gap_ns: 10.0 }), [0, 10, 20, 30, 40]);
        assert_eq!(due(Times::FlatOut), [0; 5]);
    }

    #[test]
    fn captures_without_times_have_rounds_all_the_same() {
        let one: [(u64, &[u8]); 1] = [(7, b"a")];
        assert_eq!(Recording::new(one).round_ns, 1_000_000);
        let same: [(u64, &[u8]); 2] = [(7, b"a"), (7, b"b")];
        assert_eq!(Recording::new(same).round_ns, 1_000_000);
        let none: [(u64, &[u8]); 0] = [];
        assert!(Recording::new(none).is_empty());
    }
}
