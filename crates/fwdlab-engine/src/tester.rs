//! The tester: one sender and one receiver per path, chosen, proven, and read together.
//!
//! It chooses the fastest engine that works on this host and carries frames over every path, and
//! reports why it rejected faster ones. It handles one trial at a time, and knows nothing of
//! searches or of the meaning of the counts. Start with [`Tester::open`].

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
use crate::pacer::StallPolicy;
use crate::port::{PathSpec, PortSpec};
use crate::signature::SignaturePlace;
use crate::sys::monotonic_ns;
use crate::traffic::expect::Expectation;
use crate::traffic::unforwarded::UnforwardedFrames;
use crate::traffic::{Addresses, Frames, TestFrames, Traffic, TrafficFrames};
use crate::{af_packet, af_xdp, dpdk, memif, memory, mtu, xdp_count, xdp_live};

/// The number of frames that prove a path when a tester opens: fewer than the shortest queue on the
/// path holds (a veth: 256). With more, a busy host that delays the DUT would make every engine
/// fail.
const PROOF_FRAMES: u64 = 200;
/// Other processes may send through a queue, too; an engine that does not work loses frames every
/// time.
const PROOF_TRIES: u32 = 3;
/// Low enough for every engine and every DUT.
const PROOF_LOAD_PPS: f64 = 50_000.0;
/// After this time without any frame, the rest will not arrive either.
const PROOF_PATIENCE: Duration = Duration::from_millis(200);

/// After the last frame was sent, frames may still be in the DUT: wait until none has arrived for
/// this time. A slow DUT (10 kpps) with 256 frames in its queue delivers one every 0.1 ms.
const DRAIN_QUIET: Duration = Duration::from_millis(20);
/// The limit of that wait: frames of another host may never end.
const DRAIN_AT_MOST: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(1);

/// A sender and its receivers.
pub struct Tester {
    paths: Vec<PathSpec>,
    /// Sending ports of this machine.
    ports: Vec<PortSpec>,
    addresses: Addresses,
    sender: Box<dyn Sender>,
    receivers: Vec<Box<dyn Receiver>>,
    nonce: u16,
    /// Set if the second path is the way back through the DUT of the first, with these addresses.
    way_back: Option<Addresses>,
    /// The frames armed last that a router does not forward.
    beside: UnforwardedFrames,
    /// Why receivers can only count, if they can.
    only_counts: Option<String>,
    /// The streams to analyse, each of which several senders may share.
    shared: Expectation,
}

/// Opens the parts of a tester, local or remote.
pub trait Opener {
    /// Opens a sender of this engine on the sending ports of all paths.
    ///
    /// # Errors
    /// If it cannot be opened there.
    fn sender(&mut self, mode: Mode) -> Result<Box<dyn Sender>, EngineError>;

    /// Opens receivers on all paths, all of one kind: their counts must be comparable. Adds the
    /// rejected ones to `rejected`.
    ///
    /// # Errors
    /// If none can be opened.
    fn receivers(
        &mut self,
        rejected: &mut Vec<Rejected>,
    ) -> Result<Vec<Box<dyn Receiver>>, EngineError>;

    /// Returns the sending ports of this machine: their MTU is checked before frames are armed. A
    /// remote host checks its own.
    fn ports(&self) -> Vec<PortSpec> {
        Vec::new()
    }

    /// Returns why receivers can only count, if they can: for example because departures and
    /// arrivals use two clocks.
    fn only_counts(&self) -> Option<String> {
        None
    }
}

/// All parts in this process.
struct LocalParts<'a> {
    paths: &'a [PathSpec],
    cpus: &'a [usize],
    senders: u32,
}

impl Opener for LocalParts<'_> {
    fn sender(&mut self, mode: Mode) -> Result<Box<dyn Sender>, EngineError> {
        open_sender(mode, self.paths, self.cpus, self.senders)
    }

    fn receivers(
        &mut self,
        rejected: &mut Vec<Rejected>,
    ) -> Result<Vec<Box<dyn Receiver>>, EngineError> {
        let ports: Vec<&PortSpec> = self.paths.iter().map(|path| &path.rx).collect();
        if ports.iter().any(|port| !port.is_interface()) {
            // its thread spins: beside the sender, and not where the DUT runs
            let open = |port: &&PortSpec| polling_receiver(port, self.cpus);
            return ports.iter().map(open).collect();
        }
        cheapest_receivers(rejected, |counting| {
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

/// Returns the cheapest receivers that open on all paths; `open` opens one kind.
///
/// # Errors
/// If none opens.
pub fn cheapest_receivers<T>(
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

/// The requirements for the engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Use this sender and no other; `None` chooses the fastest that works.
    pub mode: Option<Mode>,
    /// Otherwise, try this sender before the others.
    pub first: Option<Mode>,
    /// CPUs of the sender's threads; empty: any.
    pub cpus: Vec<usize>,
    /// Number of threads that send into each port, each through its own queue.
    pub senders: u32,
    /// Prove every path with this stream, which the DUT is known to forward; `None` skips the
    /// proof.
    pub prove: Option<Stream>,
    /// The second of two paths is the way back through the DUT of the first: its addresses.
    pub way_back: Option<Addresses>,
    /// Traffic to send besides test frames: an engine that cannot send it is rejected.
    pub traffic: Vec<Arc<Traffic>>,
}

impl Choice {
    /// Returns the senders to try, in this order: the requested one, or all with the preferred one
    /// first.
    fn modes(&self, all: &[Mode]) -> Vec<Mode> {
        match self.mode {
            Some(mode) => vec![mode],
            None => Mode::in_order(all, self.first),
        }
    }
}

/// An engine that was tried and rejected.
#[derive(Debug)]
pub struct Rejected {
    /// Name of the sender or receiver in results.
    pub engine: &'static str,
    /// Why it was rejected.
    pub reason: EngineError,
}

/// All counts of a trial at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// When the sent frames were counted, CLOCK_MONOTONIC of the sending machine.
    pub at_ns: u64,
    /// Frames sent into each path that a router forwards.
    pub sent: Vec<u64>,
    /// Frames also sent into each path that a router does not forward: broadcasts and the like.
    pub beside: Vec<u64>,
    /// Frames that were due and not sent.
    pub not_sent: u64,
    /// Of these, the frames of each of several senders of a port.
    pub not_sent_by_sender: Vec<u64>,
    /// How often frames were due and the ring was full.
    pub ring_full: u64,
    /// System calls that woke the kernel to send.
    pub wakeups: u64,
    /// How long the sender's threads waited for a CPU, in nanoseconds, as far as the kernel reports
    /// it.
    pub sender_waited_ns: u64,
    /// Frames that came back from each path.
    pub received: Vec<u64>,
    /// When the frames of the first path were counted, by the clock of the receiver, which may be
    /// on another machine: only differences between two readings are meaningful.
    pub received_at_ns: u64,
}

/// The result of a proof: what a path did with a few frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Frames sent.
    pub sent: u64,
    /// Frames that came back.
    pub received: u64,
}

impl Tester {
    /// Opens the cheapest receivers and the fastest sender that work, in the order of
    /// [`Choice::modes`], and returns the rejected ones with the reasons.
    ///
    /// With [`Choice::prove`], a sender works if every frame of a proof comes back on every path,
    /// within three tries. The DUT must be known to forward the proof's stream; otherwise every
    /// engine fails.
    ///
    /// # Errors
    /// If no receiver can be opened, the requested sender does not work, or none does.
    pub fn open(
        paths: &[PathSpec],
        addresses: &Addresses,
        choice: &Choice,
    ) -> Result<(Tester, Vec<Rejected>), EngineError> {
        let mut here = LocalParts {
            paths,
            cpus: &choice.cpus,
            senders: choice.senders,
        };
        Tester::open_by(&mut here, paths, addresses, choice)
    }

    /// Like [`Tester::open`], with parts that `opener` opens, possibly on other machines. `paths`
    /// supplies their names.
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
        // start with a different nonce in each session, so that frames of the previous one are not
        // mistaken for ours
        let mut nonce = (monotonic_ns() >> 10) as u16;
        let all = paths
            .first()
            .map_or(&Mode::ALL[..], |path| Mode::of(&path.tx));
        for mode in choice.modes(all) {
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
                        beside: UnforwardedFrames::default(),
                        ports: opener.ports(),
                        only_counts: opener.only_counts(),
                        shared: Expectation::default(),
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

    /// Checks that the sender can send all of this.
    fn try_all(&mut self, traffic: &[Arc<Traffic>]) -> Result<(), EngineError> {
        traffic.iter().try_for_each(|traffic| {
            let frames = Frames::Traffic(TrafficFrames {
                traffic: traffic.clone(),
                nonce: self.nonce,
            });
            match self.sender.arm(&frames) {
                Err(reason @ EngineError::Unsupported { .. }) => Err(reason),
                // errors in the frames themselves are reported when they are armed for a trial
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

    /// Returns the chosen sender.
    pub fn mode(&self) -> Mode {
        self.capabilities().mode
    }

    /// Returns the properties of the sender.
    pub fn capabilities(&self) -> Capabilities {
        self.sender.capabilities()
    }

    /// Returns the name of the receivers, which are all of one kind.
    pub fn receiver_name(&self) -> &'static str {
        self.receivers.first().map_or("none", |first| first.name())
    }

    /// Returns the nonce of the trial that was armed last.
    pub fn nonce(&self) -> u16 {
        self.nonce
    }

    /// Sends a few frames of a stream into one path at a low load, waits until all are back or none
    /// has come for 200 ms, and returns the numbers sent and received. The caller judges them.
    ///
    /// # Errors
    /// If the engines cannot do it.
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
            stall_policy: StallPolicy::Skip,
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

    /// Prepares the next trial: the nonce increases by one, counts restart at zero. Sends nothing.
    ///
    /// # Errors
    /// If there is no such set of flows, or the engines refuse.
    pub fn arm(&mut self, stream: &Stream) -> Result<(), EngineError> {
        self.arm_with(stream, None)
    }

    /// Like [`Tester::arm`], with an analysis by the receivers: [`Tester::analysis`].
    ///
    /// # Errors
    /// As [`Tester::arm`]; [`EngineError::Unsupported`] if a receiver only counts.
    pub fn arm_with(
        &mut self,
        stream: &Stream,
        analysis: Option<AnalysisPlan>,
    ) -> Result<(), EngineError> {
        self.arm_path(0, stream, analysis)
    }

    /// Like `arm_with`, with the addresses of a path: on the way back the flows are reversed.
    fn arm_path(
        &mut self,
        path: usize,
        stream: &Stream,
        analysis: Option<AnalysisPlan>,
    ) -> Result<(), EngineError> {
        let nonce = self.nonce.wrapping_add(1);
        let frames = match self.way_back.filter(|_| path == 1) {
            Some(addresses) => TestFrames::for_stream(stream, &addresses, true, nonce)?,
            None => TestFrames::for_stream(stream, &self.addresses, false, nonce)?,
        };
        self.beside = UnforwardedFrames::default();
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

    /// Prepares the next trial with frames other than those of a stream: from a profile, in both
    /// directions, with broadcasts.
    ///
    /// # Errors
    /// As [`Tester::arm_with`].
    pub fn arm_traffic(
        &mut self,
        traffic: &Arc<Traffic>,
        analysis: Option<AnalysisPlan>,
    ) -> Result<(), EngineError> {
        let nonce = self.nonce.wrapping_add(1);
        self.beside = UnforwardedFrames::from_traffic(traffic);
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
        if let (Some(_), Some(reason)) = (&expected.analysis, &self.only_counts) {
            return Err(EngineError::OnlyCounts(reason.clone()));
        }
        self.sender.arm(frames)?;
        let mut expected = expected.clone();
        if let Some(plan) = &mut expected.analysis {
            let senders = self.sender.capabilities().senders;
            self.shared = Expectation::from_plan(plan, frames).from_senders(frames, senders.into());
            *plan = self.shared.plan();
        }
        for receiver in &mut self.receivers {
            receiver.expect(&expected)?;
        }
        self.nonce = expected.nonce;
        Ok(())
    }

    /// Returns the analysis of one path's receiver; `None` if the trial was armed without a plan.
    ///
    /// # Errors
    /// If there is no such path, or the counters cannot be read.
    pub fn analysis(&mut self, path: usize) -> Result<Option<Analysis>, EngineError> {
        self.check(path)?;
        let analysis = self.receivers[path].analysis()?;
        Ok(analysis.map(|analysis| self.shared.together(analysis)))
    }

    /// Returns how late the frames of this trial left ([`Sender::lateness`]).
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        self.sender.lateness()
    }

    /// Changes the intended load ([`Sender::set_load`]).
    ///
    /// # Errors
    /// If the sender is not running, was started at full speed or with stretches, or cannot.
    pub fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        self.sender.set_load(load_pps)
    }

    /// Starts sending and returns immediately.
    ///
    /// # Errors
    /// If it is not armed or still running, there is no such path, or the system refuses.
    pub fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        self.check(schedule.path)?;
        self.sender.start(schedule)
    }

    /// Sends into another path from now on; takes effect within a batch.
    ///
    /// # Errors
    /// If there is no such path, or the system refuses.
    pub fn select(&mut self, path: usize) -> Result<(), EngineError> {
        self.check(path)?;
        self.sender.select(path)
    }

    /// Pauses for the returned time and continues with other memory ([`Sender::renew`]).
    ///
    /// # Errors
    /// If the sender is not running, or the system refuses.
    pub fn renew(&mut self) -> Result<Duration, EngineError> {
        self.sender.renew()
    }

    /// Returns true if everything was sent, the time is over, or a receiver is lost;
    /// [`Tester::stop`] then reports which one.
    pub fn is_done(&self) -> bool {
        self.sender.is_done() || self.receivers.iter().any(|receiver| receiver.is_lost())
    }

    /// Returns the counts since the start. They are read in turn within some microseconds, `sent`
    /// first, so at high loads a frame may be counted as received before it is counted as sent.
    ///
    /// # Errors
    /// If a counter cannot be read.
    pub fn read(&mut self) -> Result<Reading, EngineError> {
        let (sent, at_ns) = self.sender.counts_at()?;
        self.reading(sent, at_ns)
    }

    /// Stops sending, waits until no more frames arrive, and returns the final counts.
    ///
    /// # Errors
    /// If the sender failed, or a counter cannot be read.
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

    /// Returns all counts of one path's receiver in this trial.
    ///
    /// # Errors
    /// If there is no such path, or the counters cannot be read.
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
            senders,
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
            // streams are counted slightly later
            *sent = sent.saturating_sub(*beside);
        }
        Ok(Reading {
            at_ns,
            sent,
            beside,
            not_sent,
            not_sent_by_sender: senders.iter().map(|own| own.not_sent).collect(),
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

/// Opens the sender of one mode on the sending ports of all paths, with this number of threads.
///
/// # Errors
/// If it cannot be opened there, or not with several threads.
pub fn open_sender(
    mode: Mode,
    paths: &[PathSpec],
    cpus: &[usize],
    senders: u32,
) -> Result<Box<dyn Sender>, EngineError> {
    for PathSpec { tx, .. } in paths {
        fits(
            tx,
            mode == Mode::Memory || Mode::of(tx).contains(&mode),
            mode.name(),
        )?;
    }
    Ok(match (mode, senders) {
        (Mode::AfXdp, _) => Box::new(af_xdp::senders(paths, cpus, senders)?),
        (Mode::AfPacket, _) => Box::new(af_packet::senders(paths, cpus, senders)?),
        (Mode::Memory, _) => Box::new(memory::senders(paths.len(), cpus, senders)?),
        (Mode::XdpLive, _) => xdp_live::senders(paths, cpus, senders)?,
        (Mode::Memif, 2..) => {
            return Err(EngineError::Unsupported {
                engine: mode.name(),
                action: format!(
                    "send with {senders} threads: one thread sends into all its queues"
                ),
            });
        }
        (Mode::Memif, _) => Box::new(memif::sender_on(paths, cpus)?),
        (Mode::Dpdk, _) => Box::new(dpdk::sender_on(paths, cpus, senders)?),
    })
}

/// Opens a receiver of this kind on a port.
///
/// # Errors
/// If it cannot be opened there.
pub fn open_receiver(
    counting: Counting,
    port: &PortSpec,
) -> Result<Box<dyn Receiver>, EngineError> {
    fits(
        port,
        Counting::of(port).contains(&counting),
        counting.name(),
    )?;
    Ok(match counting {
        Counting::Xdp => Box::new(xdp_count::XdpCount::open(port)?),
        Counting::AfPacket => Box::new(af_packet::PacketCount::open(port)?),
        Counting::Memif | Counting::Dpdk => polling_receiver(port, &[])?,
    })
}

/// Opens the receiver of a port that is no network interface, with a thread that polls on these
/// CPUs.
fn polling_receiver(port: &PortSpec, cpus: &[usize]) -> Result<Box<dyn Receiver>, EngineError> {
    Ok(match port.is_dpdk() {
        true => Box::new(dpdk::receiver_on(port, cpus)?),
        false => Box::new(memif::receiver_on(port, cpus)?),
    })
}

/// Refuses an engine on a port of another kind.
fn fits(port: &PortSpec, fits: bool, engine: &'static str) -> Result<(), EngineError> {
    let kind = match port {
        _ if port.is_memif() => "a memif port: omit the engine, there is only one for it",
        _ if port.is_dpdk() => "a DPDK port: omit the engine, there is only one for it",
        _ => "a network interface: memif ports are named memif:SOCKET, DPDK ports dpdk:DEVICE",
    };
    match fits {
        true => Ok(()),
        false => Err(EngineError::Unsupported {
            engine,
            action: format!("use {}, which is {kind}", port.interface),
        }),
    }
}

fn name(port: Option<&PortSpec>) -> String {
    port.map_or_else(|| "a port".into(), |port| port.interface.clone())
}
