//! The tester: one sender and one receiver per path, chosen, proven, and read together.
//!
//! It takes the fastest engine that works here and carries frames over every path, and says why faster ones were left
//! out. It knows one trial at a time and nothing of searches or of what the counts mean. Start with [`Tester::open`].

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_model::trial::Stream;
use serde::{Deserialize, Serialize};

use crate::analysis::{Analysis, AnalysisPlan, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::generator::{Capabilities, Counting, Mode, Receiver, Schedule, SendCounts, Sender};
use crate::histogram::Histogram;
use crate::load::LoadPlan;
use crate::pacer::HoldUps;
use crate::port::{PathSpec, PortSpec};
use crate::signature::SignaturePlace;
use crate::sys::monotonic_ns;
use crate::traffic::beside::Beside;
use crate::traffic::{Addresses, Frames, TestFrames, Traffic, TrafficFrames};
use crate::{af_packet, af_xdp, memory, mtu, xdp_count, xdp_live};

/// How many frames prove a path when a tester opens: fewer than the shortest queue on the way holds (a veth: 256), or a busy host that lets
/// the DUT wait would prove that no engine works.
const PROOF_FRAMES: u64 = 200;
/// Others may send through a queue, too; an engine that does not work here loses frames every time.
const PROOF_TRIES: u32 = 3;
/// Modest: every engine and every DUT can do it.
const PROOF_LOAD_PPS: f64 = 50_000.0;
/// A path that carries nothing for so long will not carry the rest.
const PROOF_PATIENCE: Duration = Duration::from_millis(200);

/// After the last frame was sent, frames may still be in the DUT: wait until nothing has arrived for so long. A slow DUT
/// (10 kpps) with 256 frames in its queue lets some arrive every 0.1 ms.
const DRAIN_QUIET: Duration = Duration::from_millis(20);
/// But no longer than this: some other host's frames may never end.
const DRAIN_AT_MOST: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(1);

/// The tester.
pub struct Tester {
    paths: Vec<PathSpec>,
    /// Sending ports of this machine.
    ports: Vec<PortSpec>,
    addresses: Addresses,
    sender: Box<dyn Sender>,
    receivers: Vec<Box<dyn Receiver>>,
    nonce: u16,
    /// The second path is the way back through the DUT of the first, with these addresses.
    way_back: Option<Addresses>,
    /// Which of the frames armed last a router does not forward.
    beside: Beside,
    /// Why receivers can find out nothing beyond counts, where they cannot.
    only_counts: Option<String>,
}

/// Opens the parts of a tester, wherever they are.
pub trait Opener {
    /// A sender of this engine on the sending ports of all paths.
    ///
    /// # Errors
    /// It cannot be opened there.
    fn sender(&mut self, mode: Mode) -> Result<Box<dyn Sender>, EngineError>;

    /// Receivers on all paths, of one kind: what they count must be comparable. Those that were tried before are kept in `rejected`.
    ///
    /// # Errors
    /// None can be opened.
    fn receivers(
        &mut self,
        rejected: &mut Vec<Rejected>,
    ) -> Result<Vec<Box<dyn Receiver>>, EngineError>;

    /// Sending ports of this machine, whose MTU is looked at before frames are armed; those elsewhere are looked at there.
    fn ports(&self) -> Vec<PortSpec> {
        Vec::new()
    }

    /// Why receivers can find out nothing beyond counts, where they cannot: frames leave and arrive by two clocks, for one.
    fn only_counts(&self) -> Option<String> {
        None
    }
}

/// All parts in this process.
struct Here<'a> {
    paths: &'a [PathSpec],
    cpus: &'a [usize],
}

impl Opener for Here<'_> {
    fn sender(&mut self, mode: Mode) -> Result<Box<dyn Sender>, EngineError> {
        open_sender(mode, self.paths, self.cpus)
    }

    fn receivers(
        &mut self,
        rejected: &mut Vec<Rejected>,
    ) -> Result<Vec<Box<dyn Receiver>>, EngineError> {
        let ports: Vec<&PortSpec> = self.paths.iter().map(|path| &path.rx).collect();
        of_one_kind(rejected, |counting| {
            ports
                .iter()
                .map(|port| open_receiver(counting, port))
                .collect()
        })
    }

    fn ports(&self) -> Vec<PortSpec> {
        self.paths.iter().map(|path| path.tx.clone()).collect()
    }
}

/// The receivers of lowest cost that open on all paths, by what opens those of a kind.
///
/// # Errors
/// None do.
pub fn of_one_kind<T>(
    rejected: &mut Vec<Rejected>,
    mut open: impl FnMut(Counting) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    match open(Counting::Xdp) {
        Ok(receivers) => return Ok(receivers),
        Err(reason) => rejected.push(Rejected {
            engine: Counting::Xdp.name(),
            reason,
        }),
    }
    open(Counting::AfPacket)
}

/// What is wanted of the engines.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// This sender and no other; `None` is the fastest that works.
    pub mode: Option<Mode>,
    /// CPUs of the sender's thread; empty is any.
    pub cpus: Vec<usize>,
    /// Prove every path with this stream, which the DUT is known to forward; `None` takes an engine unproven.
    pub prove: Option<Stream>,
    /// The second of two paths is the way back through the DUT of the first: addresses there.
    pub way_back: Option<Addresses>,
    /// What will be sent besides test frames: an engine that cannot is not taken.
    pub traffic: Vec<Arc<Traffic>>,
}

/// An engine that was tried and not taken.
#[derive(Debug)]
pub struct Rejected {
    /// Its name in results: of a sender or of a receiver.
    pub engine: &'static str,
    /// Why.
    pub reason: EngineError,
}

/// All counts of a trial at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// When the frames that were sent were counted, CLOCK_MONOTONIC of who sends.
    pub at_ns: u64,
    /// Frames sent into each path that a router forwards.
    pub sent: Vec<u64>,
    /// Frames sent beside these that a router does not forward: broadcasts and the like.
    pub beside: Vec<u64>,
    /// Frames that were due and not sent.
    pub not_sent: u64,
    /// How often frames were due and there was no room for one.
    pub ring_full: u64,
    /// System calls that told the kernel to send.
    pub wakeups: u64,
    /// For how long the sender's threads waited for a CPU, in nanoseconds, as far as the kernel says.
    pub sender_waited_ns: u64,
    /// Frames that came back from each path.
    pub received: Vec<u64>,
    /// When those of the first path were counted, by the clock of who receives, which may be another machine's: of two readings the
    /// difference says how long frames were counted, and nothing else can be said of it.
    pub received_at_ns: u64,
}

/// What a path did with a few frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Frames sent.
    pub sent: u64,
    /// Frames that came back.
    pub received: u64,
}

impl Tester {
    /// Opens the receivers that cost least and the fastest sender that works, in the order of [`Mode::ALL`], and says
    /// which were tried before and why they were not taken.
    ///
    /// With [`Choice::prove`], a sender works when every frame of a proof comes back on every path, at the third try at the latest. The DUT must be known
    /// to forward the proof's stream, for a DUT that does not makes every engine fail.
    ///
    /// # Errors
    /// No receiver can be opened, the sender asked for does not work, or none does.
    pub fn open(
        paths: &[PathSpec],
        addresses: &Addresses,
        choice: &Choice,
    ) -> Result<(Tester, Vec<Rejected>), EngineError> {
        let mut here = Here {
            paths,
            cpus: &choice.cpus,
        };
        Tester::open_by(&mut here, paths, addresses, choice)
    }

    /// The same with parts that `opener` opens, some of them perhaps on other machines. `paths` is what they are called.
    ///
    /// # Errors
    /// As [`Tester::open`].
    pub fn open_by(
        opener: &mut dyn Opener,
        paths: &[PathSpec],
        addresses: &Addresses,
        choice: &Choice,
    ) -> Result<(Tester, Vec<Rejected>), EngineError> {
        let mut rejected = vec![];
        let mut receivers = opener.receivers(&mut rejected)?;
        // somewhere else in each session, so that frames of the one before are not taken for ours
        let mut nonce = (monotonic_ns() >> 10) as u16;
        let all = Mode::ALL;
        let modes = choice.mode.as_ref().map_or(&all[..], std::slice::from_ref);
        for &mode in modes {
            let reason = match opener.sender(mode) {
                Err(reason) => reason,
                Ok(sender) => {
                    let mut tester = Tester {
                        paths: paths.to_vec(),
                        addresses: *addresses,
                        sender,
                        receivers,
                        nonce,
                        way_back: choice.way_back,
                        beside: Beside::default(),
                        ports: opener.ports(),
                        only_counts: opener.only_counts(),
                    };
                    let proven = tester.prove_all(choice.prove.as_ref());
                    match proven.and_then(|()| tester.try_all(&choice.traffic)) {
                        Ok(()) => return Ok((tester, rejected)),
                        Err(reason) => {
                            (receivers, nonce) = (tester.receivers, tester.nonce);
                            reason
                        }
                    }
                }
            };
            if choice.mode.is_some() {
                return Err(reason);
            }
            rejected.push(Rejected {
                engine: mode.name(),
                reason,
            });
        }
        let reasons: Vec<String> = rejected
            .iter()
            .map(|rejected| format!("{}: {}", rejected.engine, rejected.reason))
            .collect();
        Err(EngineError::NoneWorks(reasons.join("; ")))
    }

    /// Can it send all of this?
    fn try_all(&mut self, traffic: &[Arc<Traffic>]) -> Result<(), EngineError> {
        traffic.iter().try_for_each(|traffic| {
            let frames = Frames::Traffic(TrafficFrames {
                traffic: traffic.clone(),
                nonce: self.nonce,
            });
            match self.sender.arm(&frames) {
                Err(reason @ EngineError::Unsupported { .. }) => Err(reason),
                // what is wrong with the frames themselves is said when they are armed for a trial
                _ => Ok(()),
            }
        })
    }

    fn prove_all(&mut self, stream: Option<&Stream>) -> Result<(), EngineError> {
        let Some(stream) = stream else {
            return Ok(());
        };
        for path in 0..self.receivers.len() {
            let mut tries = PROOF_TRIES;
            loop {
                let Proof { sent, received } = self.prove(path, stream, PROOF_FRAMES)?;
                if sent == PROOF_FRAMES && received == sent {
                    break;
                }
                tries -= 1;
                if tries == 0 {
                    return Err(EngineError::PathNotProven {
                        sender: self.mode().name(),
                        tx: name(self.paths.get(path).map(|path| &path.tx)),
                        rx: name(self.paths.get(path).map(|path| &path.rx)),
                        due: PROOF_FRAMES,
                        sent,
                        received,
                    });
                }
            }
        }
        Ok(())
    }

    /// The sender that was taken.
    pub fn mode(&self) -> Mode {
        self.capabilities().mode
    }

    /// What the sender is and can.
    pub fn capabilities(&self) -> Capabilities {
        self.sender.capabilities()
    }

    /// The name of the receivers, all of one kind.
    pub fn receiver_name(&self) -> &'static str {
        self.receivers.first().map_or("none", |first| first.name())
    }

    /// The nonce of the trial that was armed last.
    pub fn nonce(&self) -> u16 {
        self.nonce
    }

    /// Sends a few frames of a stream into one path at a modest load, waits until all are back or none has come for
    /// 200 ms, and says how many were sent and came back. What that proves is for the caller to judge.
    ///
    /// # Errors
    /// The engines cannot do it.
    pub fn prove(
        &mut self,
        path: usize,
        stream: &Stream,
        frames: u64,
    ) -> Result<Proof, EngineError> {
        self.arm_path(path, stream, None)?;
        self.start(Schedule {
            load: LoadPlan::Constant(PROOF_LOAD_PPS),
            frames: Some(frames),
            at_most: Duration::from_secs_f64(frames as f64 / PROOF_LOAD_PPS) * 2 + PROOF_PATIENCE,
            hold_ups: HoldUps::Forgive,
            path,
        })?;
        let mut progress = (0, Instant::now());
        loop {
            thread::sleep(POLL);
            let received = self.receive_counts(path)?.received;
            if received > progress.0 {
                progress = (received, Instant::now());
            }
            if received >= frames || progress.1.elapsed() > PROOF_PATIENCE {
                break;
            }
        }
        let reading = self.stop()?;
        Ok(Proof {
            sent: reading.sent[path],
            received: reading.received[path],
        })
    }

    /// Prepares the next trial: a new nonce, one more than the last; counts start at zero. Nothing is sent.
    ///
    /// # Errors
    /// There is no such set of flows, or the engines refuse.
    pub fn arm(&mut self, stream: &Stream) -> Result<(), EngineError> {
        self.arm_with(stream, None)
    }

    /// The same, and the receivers find out more than counts: [`Tester::analysis`].
    ///
    /// # Errors
    /// As [`Tester::arm`]; [`EngineError::Unsupported`] where a receiver only counts.
    pub fn arm_with(
        &mut self,
        stream: &Stream,
        analysis: Option<AnalysisPlan>,
    ) -> Result<(), EngineError> {
        self.arm_path(0, stream, analysis)
    }

    /// The same with the addresses of a path: on the way back the flows are reversed.
    fn arm_path(
        &mut self,
        path: usize,
        stream: &Stream,
        analysis: Option<AnalysisPlan>,
    ) -> Result<(), EngineError> {
        let nonce = self.nonce.wrapping_add(1);
        let frames = match self.way_back.filter(|_| path == 1) {
            Some(addresses) => TestFrames::of(stream, &addresses, true, nonce)?,
            None => TestFrames::of(stream, &self.addresses, false, nonce)?,
        };
        self.beside = Beside::default();
        self.expect(
            &Frames::Test(frames),
            &Expected {
                nonce,
                buffer_bytes: Some(stream.frame_size_bytes.buffer_bytes()),
                place: SignaturePlace::UdpPayload,
                analysis,
            },
        )
    }

    /// Prepares the next trial with other frames than those of a stream: of a profile, both ways, with broadcasts among them.
    ///
    /// # Errors
    /// As [`Tester::arm_with`].
    pub fn arm_traffic(
        &mut self,
        traffic: &Arc<Traffic>,
        analysis: Option<AnalysisPlan>,
    ) -> Result<(), EngineError> {
        let nonce = self.nonce.wrapping_add(1);
        self.beside = Beside::of(traffic);
        let frames = Frames::Traffic(TrafficFrames {
            traffic: traffic.clone(),
            nonce,
        });
        self.expect(
            &frames,
            &Expected {
                nonce,
                buffer_bytes: None,
                place: traffic.place().unwrap_or(SignaturePlace::UdpPayload),
                analysis,
            },
        )
    }

    fn expect(&mut self, frames: &Frames, expected: &Expected) -> Result<(), EngineError> {
        let most = frames.most();
        if self.sender.capabilities().mode != Mode::Memory {
            (self.ports.iter()).try_for_each(|port| mtu::check(port, most))?;
        }
        if let (Some(_), Some(why)) = (&expected.analysis, &self.only_counts) {
            return Err(EngineError::OnlyCounts(why.clone()));
        }
        self.sender.arm(frames)?;
        for receiver in &mut self.receivers {
            receiver.expect(expected)?;
        }
        self.nonce = expected.nonce;
        Ok(())
    }

    /// What the receiver of one path found out; `None` when the trial was armed without a plan.
    ///
    /// # Errors
    /// There is no such path, or the counters cannot be read.
    pub fn analysis(&mut self, path: usize) -> Result<Option<Analysis>, EngineError> {
        self.check(path)?;
        self.receivers[path].analysis()
    }

    /// How late the frames of this trial left ([`Sender::lateness`]).
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        self.sender.lateness()
    }

    /// Sends with another intended load from now on ([`Sender::set_load`]).
    ///
    /// # Errors
    /// The sender does not run, was started flat out or with stretches, or cannot.
    pub fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        self.sender.set_load(load_pps)
    }

    /// Starts to send and returns at once.
    ///
    /// # Errors
    /// Not armed, still running, no such path, or the system refuses.
    pub fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        self.check(schedule.path)?;
        self.sender.start(schedule)
    }

    /// Sends from now on into another path; takes effect within a batch.
    ///
    /// # Errors
    /// There is no such path, or the system refuses.
    pub fn select(&mut self, path: usize) -> Result<(), EngineError> {
        self.check(path)?;
        self.sender.select(path)
    }

    /// Pauses for the returned time and goes on from other memory ([`Sender::renew`]).
    ///
    /// # Errors
    /// The sender does not run, or the system refuses.
    pub fn renew(&mut self) -> Result<Duration, EngineError> {
        self.sender.renew()
    }

    /// Has everything been sent, or the time run out, or is somebody lost who counts? The one who is told then by [`Tester::stop`].
    pub fn is_done(&self) -> bool {
        self.sender.is_done() || self.receivers.iter().any(|receiver| receiver.is_lost())
    }

    /// The counts since the start. They are read one after the other within some microseconds, `sent` first, so that
    /// frames may be counted as received a moment before they are counted as sent, at high loads.
    ///
    /// # Errors
    /// A counter cannot be read.
    pub fn read(&mut self) -> Result<Reading, EngineError> {
        let (sent, at_ns) = self.sender.counts_at()?;
        self.reading(sent, at_ns)
    }

    /// Ends sending, waits until no more frames arrive, and returns the final counts.
    ///
    /// # Errors
    /// The sender failed, or a counter cannot be read.
    pub fn stop(&mut self) -> Result<Reading, EngineError> {
        let (sent, at_ns) = self.sender.stop_at()?;
        let begin = Instant::now();
        let mut reading = self.reading(sent.clone(), at_ns)?;
        let mut quiet_since = begin;
        while reading.received.iter().sum::<u64>() < reading.sent.iter().sum()
            && quiet_since.elapsed() < DRAIN_QUIET
            && begin.elapsed() < DRAIN_AT_MOST
        {
            thread::sleep(POLL);
            let next = self.reading(sent.clone(), at_ns)?;
            if next.received != reading.received {
                quiet_since = Instant::now();
            }
            reading = next;
        }
        Ok(reading)
    }

    /// Everything the receiver of one path has counted in this trial.
    ///
    /// # Errors
    /// There is no such path, or the counters cannot be read.
    pub fn receive_counts(&mut self, path: usize) -> Result<ReceiveCounts, EngineError> {
        self.check(path)?;
        self.receivers[path].counts()
    }

    fn reading(
        &mut self,
        SendCounts {
            mut sent,
            not_sent,
            ring_full,
            wakeups,
            streams,
            waited_ns,
            ..
        }: SendCounts,
        at_ns: u64,
    ) -> Result<Reading, EngineError> {
        let (mut received, mut received_at_ns) = (Vec::new(), 0);
        for (path, receiver) in self.receivers.iter_mut().enumerate() {
            let (counts, at_ns) = receiver.counts_at()?;
            received.push(counts.received);
            if path == 0 {
                received_at_ns = at_ns;
            }
        }
        let beside = self.beside.count(&streams, sent.len());
        for (sent, beside) in sent.iter_mut().zip(&beside) {
            // streams are counted a moment later
            *sent = sent.saturating_sub(*beside);
        }
        Ok(Reading {
            at_ns,
            sent,
            beside,
            not_sent,
            ring_full,
            wakeups,
            sender_waited_ns: waited_ns,
            received,
            received_at_ns,
        })
    }

    fn check(&self, path: usize) -> Result<(), EngineError> {
        if path < self.receivers.len() {
            Ok(())
        } else {
            Err(EngineError::Frames(format!("there is no path {path}")))
        }
    }
}

/// Opens the sender of one mode on the sending ports of all paths.
///
/// # Errors
/// It cannot be opened there.
pub fn open_sender(
    mode: Mode,
    paths: &[PathSpec],
    cpus: &[usize],
) -> Result<Box<dyn Sender>, EngineError> {
    Ok(match mode {
        Mode::XdpLive => Box::new(xdp_live::XdpLive::open(paths, cpus)?),
        Mode::AfXdp => Box::new(af_xdp::sender(paths, cpus)?),
        Mode::AfPacket => Box::new(af_packet::sender(paths, cpus)?),
        Mode::Memory => Box::new(memory::sender(paths.len(), cpus)),
    })
}

/// Opens a receiver of this kind on a port.
///
/// # Errors
/// It cannot be opened there.
pub fn open_receiver(
    counting: Counting,
    port: &PortSpec,
) -> Result<Box<dyn Receiver>, EngineError> {
    Ok(match counting {
        Counting::Xdp => Box::new(xdp_count::XdpCount::open(port)?),
        Counting::AfPacket => Box::new(af_packet::PacketCount::open(port)?),
    })
}

fn name(port: Option<&PortSpec>) -> String {
    port.map_or_else(|| "a port".into(), |port| port.interface.clone())
}
