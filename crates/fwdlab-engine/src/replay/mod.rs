//! Replay: sends the frames of a capture again unchanged, at their own times or at others.
//!
//! A [`Recording`] is read while it is sent, so its size does not matter; the [`Replay`] is a
//! separate [`Sender`], because no other one supports irregular times. It drops no frame: after a
//! stall it delays its times and catches up ([`StallPolicy::CatchUp`]), and a frame that the port
//! refuses is tried again. The caller reads files and supplies a [`Source`]. Start with
//! [`Recording::open`].

mod recording;
mod sys;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::recording::Unsent;
pub use self::recording::{Clock, Recording, Source, SourceError};
use self::sys::{BATCH, Socket};
use crate::error::EngineError;
use crate::generator::{Capabilities, Mode, Schedule, SendCounts, Sender, SendingTimes};
use crate::histogram::Histogram;
use crate::load::LoadPlan;
use crate::mtu;
use crate::pacer::{CATCH_UP_US, FRACTION, Lag, OVERTIME_NS, StallPolicy};
use crate::port::{PortSpec, interface_index, pin, within};
use crate::sys::{become_preferred, monotonic_ns};
use crate::traffic::Frames;
use fwdlab_packet::pcap::on_wire;

const CAPABILITIES: Capabilities = Capabilities::plain(
    Mode::AfPacket,
    "AF_PACKET: sendmmsg bypassing the queueing discipline, each frame at its own time, one thread",
);

/// Time for the thread to start.
const LEAD_NS: u64 = 1_000_000;
/// Longer waits are slept, except for this last part, because sleeps are inexact.
const SPIN_NS: u64 = 200_000;
/// Time before the next try after a port refused a frame.
const RETRY_NS: u64 = 20_000;

/// The departure times of a recording's frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Their own times, `speed` times as fast.
    Own {
        /// 1: as captured; 2: in half the time.
        speed: f64,
    },
    /// In order at the schedule's load, or at full speed.
    Schedule,
}

/// Sends a recording.
pub struct Replay {
    port: PortSpec,
    socket: Arc<Socket>,
    recording: Recording,
    looked_at: Option<u64>,
    /// The port's MTU.
    mtu: u32,
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

/// Written by the thread, read by others.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    made_up: AtomicU64,
    refusals: AtomicU64,
    wakeups: AtomicU64,
    bytes: AtomicU64,
    not_sent: AtomicU64,
    begun_ns: AtomicU64,
    /// When the last of all frames left, and when it should have left, after the start; 0: not yet.
    ended_ns: AtomicU64,
    planned_ns: AtomicU64,
    lateness: Mutex<Histogram>,
}

impl Replay {
    /// Opens a port for a recording that is sent `rounds` times.
    ///
    /// # Errors
    /// If there are no frames, or frames that are too long; if the interface does not exist, or
    /// without CAP_NET_RAW in its namespace.
    pub fn open(
        port: &PortSpec,
        recording: Recording,
        pace: Pace,
        rounds: u64,
        cpus: &[usize],
    ) -> Result<Replay, EngineError> {
        if recording.frames() == 0 {
            return Err(EngineError::Frames("the recording has no frames".into()));
        }
        let mtu = mtu::port_mtu(port)?;
        mtu::judge(&port.interface, mtu, recording.most())?;
        let socket = within(&port.netns, || {
            Socket::open(interface_index(&port.interface)?).map_err(|e| {
                EngineError::system(format!("open a packet socket on {}", port.interface), e)
            })
        })?;
        Ok(Replay {
            port: port.clone(),
            socket: Arc::new(socket),
            looked_at: (!recording.is_whole()).then_some(recording.frames()),
            recording,
            mtu,
            pace,
            rounds,
            cpus: cpus.to_vec(),
            progress: Arc::default(),
            running: None,
        })
    }
}

impl Replay {
    /// Returns how many frames are checked before sending; `None`: all.
    pub fn frames_checked(&self) -> Option<u64> {
        self.looked_at
    }
}

impl Sender for Replay {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn arm(&mut self, _frames: &Frames) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: "replay",
            action: "send frames other than those of its recording".into(),
        })
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        if self.running.is_some() {
            return Err(EngineError::Frames("the sender is still running".into()));
        }
        let load_pps = match (self.pace, &schedule.load) {
            (Pace::Own { .. }, _) | (_, LoadPlan::FlatOut) => None,
            (_, LoadPlan::Constant(pps)) => Some(*pps),
            (_, LoadPlan::Stretches(_)) => {
                return Err(EngineError::Unsupported {
                    engine: "replay",
                    action: "send a recording at a changing load; use its recorded times, or a constant load".into(),
                });
            }
        };
        let coming = (self.recording).play(self.rounds, &self.port.interface, self.mtu)?;
        self.progress = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let job = Job {
            interface: self.port.interface.clone(),
            socket: self.socket.clone(),
            coming,
            times: match (self.pace, load_pps) {
                (Pace::Own { speed }, _) => Times::Own { speed },
                (Pace::Schedule, Some(pps)) => Times::Even { gap_ns: 1e9 / pps },
                (Pace::Schedule, None) => Times::FlatOut,
            },
            frames: schedule.frames.unwrap_or(u64::MAX),
            at_most: schedule.at_most,
            lag: Lag::new(
                match schedule.stall_policy {
                    StallPolicy::Skip => StallPolicy::CatchUp { most_pps: None },
                    make_up => make_up,
                },
                load_pps.unwrap_or(0.0),
            ),
            last_due_ns: None,
            progress: self.progress.clone(),
            stop: stop.clone(),
        };
        let cpus = self.cpus.clone();
        let thread = thread::Builder::new()
            .name("fwdlab-replay".into())
            .spawn(move || {
                pin(&cpus)?;
                become_preferred();
                job.run()
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
            action: "change the load while it sends".into(),
        })
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        let lateness = self.progress.lateness.lock();
        let lateness = lateness.unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok((!lateness.is_empty()).then(|| lateness.clone()))
    }

    fn sending_times(&self) -> Option<SendingTimes> {
        let read = |time: &AtomicU64| Some(time.load(Ordering::Acquire)).filter(|ns| *ns > 0);
        let ended_ns = read(&self.progress.ended_ns);
        Some(SendingTimes {
            begun_ns: read(&self.progress.begun_ns)?,
            ended_ns,
            planned_ns: ended_ns.map(|_| self.progress.planned_ns.load(Ordering::Relaxed)),
        })
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let progress = &self.progress;
        Ok(SendCounts {
            sent: vec![read(&progress.sent)],
            not_sent: read(&progress.not_sent),
            made_up: read(&progress.made_up),
            ring_full: read(&progress.refusals),
            wakeups: read(&progress.wakeups),
            bytes: Some(read(&progress.bytes)),
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

/// Departure times, once the load is known.
#[derive(Debug, Clone, Copy)]
enum Times {
    Own { speed: f64 },
    Even { gap_ns: f64 },
    FlatOut,
}

impl Times {
    /// Returns when frame `number` is due, in nanoseconds after the start; `own_ns` is its own
    /// time.
    fn due_ns(self, own_ns: u64, number: u64) -> u64 {
        match self {
            Times::FlatOut => 0,
            Times::Even { gap_ns } => (number as f64 * gap_ns) as u64,
            // no rounding at the speed of the capture
            Times::Own { speed: 1.0 } => own_ns,
            Times::Own { speed } => (own_ns as f64 / speed) as u64,
        }
    }
}

/// The thread's work.
struct Job {
    interface: String,
    socket: Arc<Socket>,
    coming: Unsent,
    times: Times,
    frames: u64,
    at_most: Duration,
    lag: Lag,
    /// When the last frame that left should have left, after the start; `None` at full speed.
    last_due_ns: Option<u64>,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
}

impl Job {
    fn run(mut self) -> Result<(), EngineError> {
        let start = monotonic_ns() + LEAD_NS;
        let end = start.saturating_add(self.at_most.as_nanos().min(u64::MAX.into()) as u64);
        self.progress.begun_ns.store(start, Ordering::Relaxed);
        let (mut next, mut last) = (0, start);
        while !self.stop.load(Ordering::Acquire) {
            if next == self.frames || !self.coming.fill(BATCH + 1)? {
                let planned = self.last_due_ns.unwrap_or(last - start);
                self.progress.planned_ns.store(planned, Ordering::Relaxed);
                self.progress.ended_ns.store(last, Ordering::Release);
                return Ok(());
            }
            let Some(planned) = self.planned(start, next) else {
                continue;
            };
            let due = planned.saturating_add(self.lag.time() >> FRACTION);
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
                self.lag.lengthen((now - due) << FRACTION);
            }
            let taken = self.send(start, now, next)?;
            last = monotonic_ns();
            next += taken as u64;
            self.progress.sent.store(next, Ordering::Relaxed);
            (self.progress.made_up).store(self.lag.made_up(), Ordering::Relaxed);
        }
        let until = monotonic_ns().min(end);
        let not_sent = self.owed(start, until, next);
        self.progress.not_sent.store(not_sent, Ordering::Relaxed);
        Ok(())
    }

    /// Returns when the next frame is due without stalls.
    fn planned(&self, start: u64, number: u64) -> Option<u64> {
        let (own_ns, _) = self.coming.frames().next()?;
        Some(start.saturating_add(self.times.due_ns(own_ns, number)))
    }

    /// Sends due frames, and returns how many the port took.
    fn send(&mut self, start: u64, now: u64, number: u64) -> Result<usize, EngineError> {
        let mut batch: [&[u8]; BATCH] = [&[]; BATCH];
        let mut gaps = [0; BATCH];
        let mut dues = [0; BATCH];
        let mut count = 0;
        let room = (BATCH as u64).min(self.frames - number) as usize;
        let mut lookahead = self.lag;
        {
            let mut coming = (number..).zip(self.coming.frames()).peekable();
            while count < room
                && let Some((n, (own_ns, frame))) = coming.next()
            {
                let due = self.times.due_ns(own_ns, n);
                if start + due + (lookahead.time() >> FRACTION) > now && count > 0 {
                    break;
                }
                let next = coming.peek();
                let next = next.map(|(n, (own_ns, _))| self.times.due_ns(*own_ns, *n));
                gaps[count] = next.map_or(0, |next| next.saturating_sub(due)) << FRACTION;
                (batch[count], dues[count]) = (frame, due);
                lookahead.advance(1, gaps[count]);
                count += 1;
            }
        }
        let batch = &batch[..count];
        self.progress.wakeups.fetch_add(1, Ordering::Relaxed);
        let taken = match self.socket.send(batch) {
            Ok(taken) => taken,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS | libc::EAGAIN) => 0,
                Some(libc::EINTR) => return Ok(0),
                _ => {
                    return Err(EngineError::system(
                        format!(
                            "send frame {} of the recording ({} bytes) into {}",
                            number + 1,
                            batch[0].len(),
                            self.interface
                        ),
                        error,
                    ));
                }
            },
        };
        let bytes: usize = batch[..taken]
            .iter()
            .map(|frame| on_wire(frame.len()))
            .sum();
        if let Some(last) = taken
            .checked_sub(1)
            .filter(|_| !matches!(self.times, Times::FlatOut))
        {
            self.last_due_ns = Some(dues[last]);
        }
        let all = taken == count;
        gaps[..taken]
            .iter()
            .for_each(|gap| self.lag.advance(1, *gap));
        self.coming.pass(taken);
        self.progress
            .bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        if !all {
            self.refused();
        }
        Ok(taken)
    }

    /// Returns the frames that were due before this time and have not left, as far as they are in
    /// memory.
    fn owed(&mut self, start: u64, until: u64, number: u64) -> u64 {
        let mut due = 0;
        if matches!(self.times, Times::FlatOut) {
            return due;
        }
        // errors in frames that will not be sent do not matter
        while number + due < self.frames && self.coming.fill(2).unwrap_or(false) {
            match self.planned(start, number + due) {
                Some(planned) if planned < until => {
                    due += 1;
                    self.coming.pass(1);
                }
                _ => break,
            }
        }
        due
    }

    /// Waits shortly because the port has no room.
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

    #[test]
    fn frames_are_due_at_their_own_times_or_at_others() {
        let due = |times: Times| -> Vec<u64> {
            let own = [0, 400, 400, 600, 1000];
            (0..)
                .zip(own)
                .map(|(n, own_ns)| times.due_ns(own_ns, n))
                .collect()
        };
        assert_eq!(due(Times::Own { speed: 1.0 }), [0, 400, 400, 600, 1000]);
        assert_eq!(due(Times::Own { speed: 2.0 }), [0, 200, 200, 300, 500]);
        assert_eq!(due(Times::Even { gap_ns: 10.0 }), [0, 10, 20, 30, 40]);
        assert_eq!(due(Times::FlatOut), [0; 5]);
    }
}
