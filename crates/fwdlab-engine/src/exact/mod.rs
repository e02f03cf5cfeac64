//! Bursts of test frames with instruction counts, on a machine whose processor counts instructions.
//!
//! Such a machine is emulated (`qemu -icount shift=0`): its time stamp counter advances by one for
//! every instruction, regardless of the host. A burst is one `BPF_PROG_TEST_RUN` of an exact number
//! of frames, or one start of the kernel's own generator, and all processing of these frames
//! happens within it, on the only CPU. The caller interprets the numbers. Start with
//! [`Exact::open`]; [`per_instruction`] shows whether this is such a machine.

mod pktgen;
mod poller;
mod sys;

use std::path::PathBuf;
use std::time::Duration;

use fwdlab_model::campaign::Generator;
use fwdlab_model::trial::Stream;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::analysis::Expected;
use crate::error::EngineError;
use crate::generator::{Receiver, Sender};
use crate::port::{PathSpec, within};
use crate::signature::SignaturePlace;
use crate::sink::Sink;
use crate::traffic::{Addresses, Frames, TestFrames};
use crate::xdp_count::XdpCount;
use crate::xdp_live::XdpLive;
use pktgen::Pktgen;
use poller::Poller;

/// How often to yield to the other threads of the machine without a new frame before sleeping:
/// checking costs instructions as well.
const PATIENCE: u32 = 4;

/// A timer may delay frames: frames that have not come after this number of naps are lost. The
/// clock of a machine that counts instructions skips idle time, so naps take little real time. Each
/// is long, because the idle time is read before the next one.
const NAPS: u32 = 20;
const NAP: Duration = Duration::from_millis(50);

/// A data plane that polls has forwarded everything if nothing has come for this number of naps.
const DRAINED: u32 = 3;

/// The path on which such a data plane forwards.
const POLLED: usize = 0;

/// The first release with live frames.
const LIVE_FRAMES: (u32, u32) = (5, 18);

/// Sender and receivers of some paths, for bursts.
pub struct Exact {
    ports: Ports,
    addresses: Addresses,
    nonce: u16,
    /// The data plane on the first path, if it polls.
    poller: Option<Poller>,
}

/// The sender, and the receivers at the other ends.
enum Ports {
    /// Test frames.
    Live {
        sender: Box<XdpLive>,
        receivers: Vec<XdpCount>,
    },
    /// Frames without a signature: every frame counts.
    Pktgen {
        sender: Pktgen,
        sinks: Vec<Sink>,
        /// The namespace of the ports.
        netns: Option<PathBuf>,
    },
}

impl Ports {
    fn generator(&self) -> Generator {
        match self {
            Ports::Live { .. } => Generator::LiveFrames,
            Ports::Pktgen { .. } => Generator::Pktgen,
        }
    }

    fn received(&mut self, path: usize) -> Result<u64, EngineError> {
        let none = || EngineError::Frames(format!("there is no path {path}"));
        match self {
            Ports::Live { receivers, .. } => {
                Ok(receivers.get_mut(path).ok_or_else(none)?.counts()?.received)
            }
            Ports::Pktgen { sinks, .. } => Ok(sinks.get(path).ok_or_else(none)?.counts()?.frames),
        }
    }

    fn prepare(&mut self, path: usize, count: u32) -> Result<(), EngineError> {
        match self {
            Ports::Live { sender, .. } => sender.prepare_burst(path, count),
            Ports::Pktgen { sender, .. } => sender.prepare(path, count),
        }
    }

    fn burst(&mut self, count: u32) -> Result<(), EngineError> {
        match self {
            Ports::Live { sender, .. } => sender.burst(count),
            Ports::Pktgen { sender, .. } => sender.burst(),
        }
    }

    fn sent(&mut self, path: usize) -> Result<u64, EngineError> {
        match self {
            Ports::Live { sender, .. } => Ok(sender.counts()?.sent[path]),
            Ports::Pktgen { sender, .. } => sender.sent(path),
        }
    }
}

/// The result of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that came back.
    pub received: u64,
    /// Instructions executed from the call that sends the frames until the last one arrived.
    pub instructions: u64,
}

impl Exact {
    /// Binds sender and receivers to the ports of these paths, which are in one namespace.
    ///
    /// # Errors
    /// Missing privileges, a kernel without the requested generator, or a port that does not exist.
    pub fn open(
        paths: &[PathSpec],
        addresses: &Addresses,
        requested: Generator,
    ) -> Result<Exact, EngineError> {
        let by_pktgen = match requested {
            Generator::Auto => !has_live_frames()?,
            Generator::LiveFrames => false,
            Generator::Pktgen => true,
        };
        let ports = without_types(|| match by_pktgen {
            false => {
                let receivers = paths.iter().map(|path| XdpCount::open(&path.rx));
                Ok(Ports::Live {
                    receivers: receivers.collect::<Result<_, _>>()?,
                    sender: Box::new(XdpLive::open(paths, &[])?),
                })
            }
            true => {
                let sinks = paths.iter().map(|path| Sink::linear(&path.rx));
                let ports = paths.iter().map(|path| path.tx.interface.clone());
                Ok(Ports::Pktgen {
                    sinks: sinks.collect::<Result<_, _>>()?,
                    sender: Pktgen::new(ports.collect()),
                    netns: paths.first().and_then(|path| path.tx.netns.clone()),
                })
            }
        })?;
        Ok(Exact {
            ports,
            addresses: *addresses,
            nonce: 0,
            poller: None,
        })
    }

    /// Takes hold of the data plane on the first path, a process that polls: it is stopped, except
    /// while frames of a burst wait for it. Its first `idle` threads never poll.
    ///
    /// # Errors
    /// It does not poll, or the kernel has no live frames.
    pub fn hold(&mut self, process: u32, idle: usize) -> Result<(), EngineError> {
        let poller = Poller::hold(process, idle)?;
        if let Ports::Pktgen { .. } = &self.ports {
            let reason = "it is counted with live frames only: use a kernel from 5.18 on, and omit generator";
            return Err(poller.error(reason.into()));
        }
        self.poller = Some(poller);
        Ok(())
    }

    /// Returns the generator in use.
    pub fn generator(&self) -> Generator {
        self.ports.generator()
    }

    /// Prepares bursts of a stream.
    ///
    /// # Errors
    /// If there is no such set of flows, or the engines refuse.
    pub fn arm(&mut self, stream: &Stream) -> Result<(), EngineError> {
        sys::mark_ready();
        let (sender, receivers) = match &mut self.ports {
            Ports::Live { sender, receivers } => (sender, receivers),
            Ports::Pktgen { sender, .. } => return sender.arm(stream, &self.addresses),
        };
        self.nonce = self.nonce.wrapping_add(1);
        let frames = TestFrames::for_stream(stream, &self.addresses, false, self.nonce)?;
        sender.arm(&Frames::Test(frames))?;
        let expected = Expected {
            nonce: self.nonce,
            buffer_bytes: Some(stream.frame_size_bytes.buffer_bytes()),
            place: SignaturePlace::UdpPayload,
            analysis: None,
        };
        receivers
            .iter_mut()
            .try_for_each(|receiver| receiver.expect(&expected))
    }

    /// Sends a number of frames into a path, a multiple of [`XdpLive::BURST_BATCH`], and returns
    /// their cost.
    ///
    /// # Errors
    /// If it is not armed, there is no such path, or the system refuses.
    pub fn burst(&mut self, path: usize, count: u32) -> Result<Burst, EngineError> {
        match &self.ports {
            Ports::Live { .. } => match &self.poller {
                Some(poller) if path == POLLED => self.ports.drain(count, poller),
                _ => self.ports.measure(path, count),
            },
            Ports::Pktgen { netns, .. } => {
                let netns = netns.clone();
                within(&netns, || self.ports.measure(path, count))
            }
        }
    }
}

impl Ports {
    fn measure(&mut self, path: usize, count: u32) -> Result<Burst, EngineError> {
        let before = self.received(path)?;
        self.prepare(path, count)?;
        let (mut received, mut end, mut waited, mut naps) = (0, 0, 0, 0);
        // how far the clock advances without instructions until the end
        let mut idle = Idle::begin()?;
        sys::mark_begin();
        let begin = sys::counter();
        let sent = self.burst(count);
        loop {
            let now = self.received(path)? - before;
            if now > received {
                (received, end, waited, naps) = (now, sys::counter(), 0, 0);
                idle.is_known = false;
            }
            if received >= u64::from(count) || naps == NAPS {
                break;
            }
            if waited < PATIENCE {
                waited += 1;
                // another thread of the kernel does the rest
                std::thread::yield_now();
            } else {
                // or it waits for a timer
                idle.read()?;
                naps += 1;
                std::thread::sleep(NAP);
            }
        }
        sys::mark_end();
        idle.read()?;
        let sent = sent.and_then(|()| self.sent(path))?;
        Ok(Burst {
            sent,
            // only our frames should arrive, and if all frames count, a neighbour's ARP request
            // would count, too
            received: received.min(sent),
            // a tick of the counter is a nanosecond of the machine's clock
            instructions: end
                .saturating_sub(begin)
                .saturating_sub(idle.until_end + idle.reading_before_end),
        })
    }
}

impl Ports {
    /// Like [`Ports::measure`], for a data plane that polls: frames wait in its ring until all have
    /// been sent, and then it forwards them without an empty poll between them. The end is when the
    /// receiver got the last one; later the data plane polls without frames.
    fn drain(&mut self, count: u32, poller: &Poller) -> Result<Burst, EngineError> {
        let before = self.received(POLLED)?;
        self.prepare(POLLED, count)?;
        self.receiver(POLLED)?.end_after(count)?;
        let idle_before = idle_ns()?;
        let clock = Clock::read();
        sys::mark_begin();
        let begin = sys::counter();
        let sent = self.burst(count);
        for _ in 0..PATIENCE {
            std::thread::yield_now();
        }
        std::thread::sleep(NAP);
        sys::mark_pause();
        let paused = sys::counter();
        let idle = idle_ns()? - idle_before;
        if self.received(POLLED)? > before {
            let reason = "frames came back while it was stopped: something else forwards them";
            return Err(poller.error(reason.into()));
        }
        let paused = sys::counter() - paused;
        sys::mark_resume();
        poller.resume()?;
        let (mut received, mut naps) = (0, 0);
        while received < u64::from(count) && naps < DRAINED {
            std::thread::sleep(NAP);
            let now = self.received(POLLED)? - before;
            naps = if now > received { 0 } else { naps + 1 };
            received = now;
        }
        sys::mark_end();
        let end = clock.at(self.receiver(POLLED)?.ended_ns()?);
        let slept = idle_ns()? - idle_before - idle;
        poller.stop()?;
        if slept > 0 {
            return Err(poller.error(format!(
                "it does not poll: the machine was idle for {slept} ns while it forwarded"
            )));
        }
        sent?;
        Ok(Burst {
            sent: self.sent(POLLED)?,
            received,
            instructions: end.saturating_sub(begin).saturating_sub(idle + paused),
        })
    }

    fn receiver(&mut self, path: usize) -> Result<&mut XdpCount, EngineError> {
        let receiver = match self {
            Ports::Live { receivers, .. } => receivers.get_mut(path),
            Ports::Pktgen { .. } => None,
        };
        receiver.ok_or_else(|| EngineError::Frames(format!("path {path} has no such receiver")))
    }
}

/// The processor's counter and the monotonic clock at the same time.
struct Clock {
    ticks: u64,
    ns: u64,
}

impl Clock {
    fn read() -> Clock {
        let now = clock_gettime(ClockId::Monotonic);
        Clock {
            ticks: sys::counter(),
            ns: now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs(),
        }
    }

    /// Returns the counter at a time between then and now; 0 for an earlier time.
    fn at(&self, ns: u64) -> u64 {
        let now = Clock::read();
        let ticks_per_ns = (now.ticks - self.ticks) as f64 / (now.ns - self.ns).max(1) as f64;
        match ns.checked_sub(self.ns) {
            Some(since) => self.ticks + (since as f64 * ticks_per_ns).round() as u64,
            None => 0,
        }
    }
}

/// Runs `work` with the kernel's types hidden: no program here needs them, but the loader would
/// read all of them for every object, which takes an emulated machine a third of a second.
fn without_types<T: Send>(
    work: impl FnOnce() -> Result<T, EngineError> + Send,
) -> Result<T, EngineError> {
    within(&None, || {
        // if they cannot be hidden, or do not exist, it only takes longer
        let _ = sys::hide_types();
        work()
    })
}

/// Returns true if this kernel supports live frames.
fn has_live_frames() -> Result<bool, EngineError> {
    const FILE: &str = "/proc/sys/kernel/osrelease";
    let release = std::fs::read_to_string(FILE)
        .map_err(|e| EngineError::system(format!("read {FILE}"), e))?;
    Ok(version_of(&release).is_none_or(|version| version >= LIVE_FRAMES))
}

/// `6.1.0-56-cloud-amd64` is 6.1.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// How long the machine was idle until the last frame arrived.
struct Idle {
    begin: u64,
    until_end: u64,
    /// Instructions spent on reading it while frames were still missing.
    reading: u64,
    reading_before_end: u64,
    /// True if nothing has arrived since it was read.
    is_known: bool,
}

impl Idle {
    fn begin() -> Result<Idle, EngineError> {
        Ok(Idle {
            begin: idle_ns()?,
            until_end: 0,
            reading: 0,
            reading_before_end: 0,
            is_known: false,
        })
    }

    /// Reads it, if frames have arrived since the last time. The machine has not been idle since
    /// the last of them.
    fn read(&mut self) -> Result<(), EngineError> {
        if self.is_known {
            return Ok(());
        }
        sys::mark_pause();
        let begin = sys::counter();
        self.until_end = idle_ns()? - self.begin;
        self.reading_before_end = self.reading;
        self.reading += sys::counter().saturating_sub(begin);
        sys::mark_resume();
        self.is_known = true;
        Ok(())
    }
}

/// Returns the total idle time of the machine. Its clock advances then without instructions: the
/// kernel waits for some 20 ms when it sets up and ends a test run.
fn idle_ns() -> Result<u64, EngineError> {
    const FILE: &str = "/proc/timer_list";
    let text = std::fs::read_to_string(FILE)
        .map_err(|e| EngineError::system(format!("read {FILE} for the idle time of the CPU"), e))?;
    let mut all = text.lines().filter_map(idle_of).peekable();
    match all.peek() {
        Some(_) => Ok(all.sum()),
        None => Err(EngineError::Frames(format!(
            "{FILE} does not contain how long the CPU was idle: instructions are counted on kernels with CONFIG_NO_HZ_IDLE or _FULL"
        ))),
    }
}

/// `  .idle_sleeptime : 17353410419004 nsecs`.
fn idle_of(line: &str) -> Option<u64> {
    let rest = line.trim().strip_prefix(".idle_sleeptime")?;
    rest.split_whitespace().find_map(|word| word.parse().ok())
}

/// Returns how far the counter advances per instruction: 1 if it counts instructions. Otherwise the
/// number has no meaning.
///
/// The minimum of several loops: any other work of the guest, such as a timer's, only adds
/// instructions. With a single loop, a boot of Linux 6.12 gave 1.011.
pub fn per_instruction() -> f64 {
    const TIMES: u32 = 50_000;
    let once = |_| {
        let begin = sys::counter();
        sys::loops(TIMES);
        (sys::counter() - begin) as f64 / (2.0 * f64::from(TIMES))
    };
    (0..10).map(once).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_parsed_from_kernel_output() {
        assert_eq!(
            idle_of("  .idle_sleeptime : 17353410419004 nsecs"),
            Some(17_353_410_419_004)
        );
        assert_eq!(idle_of("  .idle_sleeps    : 5304217"), None);
    }

    #[test]
    fn live_frames_came_with_5_18() {
        assert_eq!(version_of("6.1.0-56-cloud-amd64\n"), Some((6, 1)));
        assert!(version_of("5.10.0-30-amd64") < Some(LIVE_FRAMES));
        assert_eq!(version_of("rolling"), None);
    }
}
