//! The interface to a port: [`Wire`]. The real one is `lab`'s [`Port`]; tests use a simulated one.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_engine::af_packet::Foreign;
use fwdlab_engine::af_packet::{AcceptedFrames, Membership};
use fwdlab_engine::groups::Groups;
use fwdlab_engine::replay::{Pace, Recording, Replay};
use fwdlab_engine::sink::SinkCounts;
use fwdlab_engine::{
    EngineError, Frames, Mode, PortSender, PortSpec, Schedule, SendCounts, Sender,
};
use fwdlab_lab::ports::counters::{self, Counters};
use fwdlab_lab::ports::{Port, state};
use fwdlab_lab::session::listening::{FrameCallback, Listening};
use fwdlab_lab::session::pushing::Pusher;

/// Speed reported for a port without one: percentages need a speed.
const SPEED_BPS: u64 = 10_000_000_000;

/// Loads from which on the fastest engine is worth a CPU.
const FAST_PPS: f64 = 100_000.0;

/// Frames that were handed over are in the port's counters after this time.
const SHOWN: Duration = Duration::from_millis(20);

/// The operations of a port.
pub trait Wire: Send {
    /// Returns its name.
    fn name(&self) -> &str;
    /// Returns its own address.
    fn mac(&self) -> [u8; 6];
    /// Returns the default destination of its frames.
    fn peer(&self) -> Option<[u8; 6]>;
    /// Returns its speed.
    fn speed_bps(&self) -> u64;
    /// Returns the kind of a virtual interface, or `None` for a card.
    fn kind(&self) -> Option<&str>;
    /// Returns true if it has a link.
    fn is_up(&self) -> bool;
    /// Returns its counters, from the kernel or from us, without what others sent; or why not.
    fn counters(&self) -> Result<Counters, String>;
    /// Returns the frames that others sent through it: the kernel, and programs.
    fn foreign(&self) -> u64;
    /// Returns all counters of the kernel for it, by [`counters::NAMES`]; or why not.
    fn details(&self) -> Result<Vec<u64>, String>;
    /// Starts to send, now or at a time of CLOCK_MONOTONIC.
    fn send(
        &self,
        frames: Frames,
        schedule: Schedule,
        begin_ns: Option<u64>,
    ) -> Result<Box<dyn Sending>, EngineError>;
    /// Starts to send a recording, `rounds` times.
    fn play(
        &self,
        recording: Recording,
        rounds: u64,
        schedule: Schedule,
    ) -> Result<Box<dyn Sending>, EngineError>;
    /// Returns the counter of received groups; `None` without the privileges.
    fn groups(&mut self) -> Option<&mut Groups>;
    /// Passes on every frame from now on, until the returned value is dropped; or why not.
    fn listen(&self, heard: FrameCallback) -> Result<Box<dyn PortListener>, String>;
    /// Sends single frames with this gap in the background; or why not.
    fn push(&mut self, frames: Vec<Vec<u8>>, gap: Duration) -> Result<(), String>;
    /// Sets whether frames to all addresses, and to all multicast addresses, are accepted; or why
    /// not.
    fn set_accepted(&mut self, everything: bool, multicast: bool) -> Result<(), String>;
}

/// A port with a listener.
pub trait PortListener: Send {
    /// Waits until all frames that passed before this call were processed, up to this time.
    fn settle(&self, at_most: Duration);
    /// Returns the frames that passed and were missed, because too many were waiting.
    fn missed(&self) -> Arc<AtomicU64>;
}

impl PortListener for Listening {
    fn settle(&self, at_most: Duration) {
        Listening::settle(self, at_most);
    }

    fn missed(&self) -> Arc<AtomicU64> {
        Listening::missed(self)
    }
}

/// A running sender.
pub trait Sending: Send {
    /// As [`fwdlab_engine::Sender::set_rates`].
    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError>;
    /// As [`fwdlab_engine::Sender::set_load`].
    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError>;
    /// As [`fwdlab_engine::Sender::counts`].
    fn counts(&mut self) -> Result<SendCounts, EngineError>;
    /// Does periodic work, and returns true if everything has been sent.
    fn is_done(&mut self) -> Result<bool, EngineError>;
    /// Stops it; the counts are final.
    fn stop(&mut self) -> Result<SendCounts, EngineError>;
}

/// A port of this machine, which is ours while this lives.
pub struct LabWire {
    port: Port,
    speed_bps: u64,
    peer: Option<[u8; 6]>,
    engines: Engines,
    groups: Result<Groups, EngineError>,
    foreign: Result<Foreign, EngineError>,
    pusher: Option<Pusher>,
    everything: Option<Membership>,
    multicast: Option<Membership>,
}

impl LabWire {
    /// Wraps this port; without a speed of its own or a given one, it has 10 Gbit/s.
    pub fn new(
        port: Port,
        speed_bps: Option<u64>,
        peer: Option<[u8; 6]>,
        cpus: &[usize],
    ) -> LabWire {
        let speed_bps = speed_bps.or(port.facts.speed_bps).unwrap_or(SPEED_BPS);
        LabWire {
            groups: Groups::open(&port.spec),
            foreign: Foreign::open(&port.spec),
            pusher: None,
            everything: None,
            multicast: None,
            engines: Engines {
                spec: port.spec.clone(),
                cpus: cpus.to_vec(),
                socket: Arc::default(),
            },
            port,
            speed_bps,
            peer,
        }
    }

    /// Returns what the port does not support, and why.
    pub fn missing(&self) -> Vec<String> {
        let name = self.name();
        let groups =
            self.groups.as_ref().err().map(|reason| {
                format!("{name}: flow statistics and latency are not offered: {reason}")
            });
        let foreign = self.foreign.as_ref().err().map(|reason| {
            format!(
                "{name}: frames that the kernel or other programs send are counted as ours: {reason}"
            )
        });
        groups.into_iter().chain(foreign).collect()
    }

    fn foreign_counts(&self) -> SinkCounts {
        let counted = self.foreign.as_ref().ok().map(Foreign::counts);
        counted.and_then(Result::ok).unwrap_or_default()
    }
}

impl Wire for LabWire {
    fn name(&self) -> &str {
        &self.port.spec.interface
    }

    fn mac(&self) -> [u8; 6] {
        self.port.facts.mac.unwrap_or_default()
    }

    fn peer(&self) -> Option<[u8; 6]> {
        self.peer
    }

    fn speed_bps(&self) -> u64 {
        self.speed_bps
    }

    fn kind(&self) -> Option<&str> {
        self.port.facts.kind.as_deref()
    }

    fn is_up(&self) -> bool {
        state::check(&self.port.spec).is_ok()
    }

    fn counters(&self) -> Result<Counters, String> {
        // read before the port's counters, so that frames in between are not subtracted from ours
        let foreign = self.foreign_counts();
        let mut counters = counters::read(&self.port.spec).map_err(|error| error.to_string())?;
        counters.tx_packets = counters.tx_packets.saturating_sub(foreign.frames);
        counters.tx_bytes = counters.tx_bytes.saturating_sub(foreign.bytes);
        // a veth counts some frames without their Ethernet header; if we count all frames, our
        // numbers are better
        if let Some(Ok(all)) = self.groups.as_ref().ok().map(Groups::all) {
            counters.rx_packets = all.frames;
            counters.rx_bytes = all.bytes - 4 * all.frames;
        }
        Ok(counters)
    }

    fn foreign(&self) -> u64 {
        self.foreign_counts().frames
    }

    fn details(&self) -> Result<Vec<u64>, String> {
        counters::all(&self.port.spec).map_err(|error| error.to_string())
    }

    fn send(
        &self,
        frames: Frames,
        schedule: Schedule,
        begin_ns: Option<u64>,
    ) -> Result<Box<dyn Sending>, EngineError> {
        // the fastest engine cannot wait for a time, and uses all of its CPU
        let is_slow = (schedule.load.peak_pps()).is_some_and(|pps| pps < FAST_PPS);
        let modes = match begin_ns.is_some() || is_slow {
            true => SLOWER,
            false => &Mode::ALL[..],
        };
        let lone = self.engines.ready(modes, &frames)?;
        let before = counters::read(&self.port.spec).unwrap_or_default();
        let mut started = Started {
            is_proven: self.port.facts.kind.is_none(),
            port: Port::own_port(&self.port.spec)
                .map_err(|e| EngineError::Frames(e.to_string()))?,
            engines: self.engines.clone(),
            lone: Some(lone),
            frames,
            schedule,
            at: Instant::now(),
            before,
        };
        let schedule = started.schedule.clone();
        match begin_ns {
            Some(begin_ns) => started.sender()?.start_at(schedule, begin_ns)?,
            None => started.sender()?.start(schedule)?,
        }
        Ok(Box::new(started))
    }

    fn play(
        &self,
        recording: Recording,
        rounds: u64,
        schedule: Schedule,
    ) -> Result<Box<dyn Sending>, EngineError> {
        let pace = Pace::Own { speed: 1.0 };
        let mut replay =
            Replay::open(&self.port.spec, recording, pace, rounds, &self.engines.cpus)?;
        Sender::start(&mut replay, schedule)?;
        Ok(Box::new(replay))
    }

    fn groups(&mut self) -> Option<&mut Groups> {
        self.groups.as_mut().ok()
    }

    fn listen(&self, received: FrameCallback) -> Result<Box<dyn PortListener>, String> {
        match Listening::open(&self.port.spec, received) {
            Ok(listening) => Ok(Box::new(listening)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn push(&mut self, frames: Vec<Vec<u8>>, gap: Duration) -> Result<(), String> {
        let pusher = match &self.pusher {
            Some(pusher) => pusher,
            None => {
                let pusher = Pusher::open(&self.port.spec).map_err(|error| error.to_string())?;
                self.pusher.insert(pusher)
            }
        };
        match pusher.push(frames, gap) {
            true => Ok(()),
            false => Err(format!(
                "{} still sends what was pushed before; try again",
                self.name()
            )),
        }
    }

    fn set_accepted(&mut self, everything: bool, multicast: bool) -> Result<(), String> {
        let spec = &self.port.spec;
        for (member, requested, takes) in [
            (&mut self.everything, everything, AcceptedFrames::Everything),
            (&mut self.multicast, multicast, AcceptedFrames::Multicast),
        ] {
            if member.is_some() != requested {
                *member = match requested {
                    true => Some(Membership::join(spec, takes).map_err(|e| e.to_string())?),
                    false => None,
                };
            }
        }
        Ok(())
    }
}

/// All but the fastest.
const SLOWER: &[Mode] = Mode::ALL.split_at(1).1;

/// The engines of a port, which its profiles share.
#[derive(Clone)]
struct Engines {
    spec: PortSpec,
    cpus: Vec<usize>,
    socket: Arc<Mutex<Socket>>,
}

/// The AF_XDP socket of a port's queue, of which there is one. The kernel takes its time to release
/// the queue, and opening another socket meanwhile fails: so it stays open between profiles, and
/// profiles that send at the same time use another engine.
#[derive(Default)]
enum Socket {
    #[default]
    Closed,
    Idle(Box<PortSender>),
    Sends,
}

impl Engines {
    fn socket(&self) -> MutexGuard<'_, Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first of these engines that can send these frames, prepared for them.
    fn ready(&self, modes: &[Mode], frames: &Frames) -> Result<PortSender, EngineError> {
        let mut reasons = Vec::new();
        for &mode in modes {
            let mut socket = self.socket();
            let idle = match (mode, &mut *socket) {
                (Mode::AfXdp, Socket::Sends) => {
                    reasons.push("af-xdp: another profile sends with it".into());
                    continue;
                }
                (Mode::AfXdp, before) => match std::mem::replace(before, Socket::Sends) {
                    Socket::Idle(lone) => Some(*lone),
                    Socket::Closed | Socket::Sends => None,
                },
                _ => None,
            };
            drop(socket);
            let opened = match idle {
                Some(lone) => Ok(lone),
                None => PortSender::open(&self.spec, Some(mode), &self.cpus),
            };
            match opened.and_then(|mut lone| lone.arm(frames).map(|()| lone)) {
                Ok(mut lone) => {
                    lone.sender()?.share_cpu();
                    return Ok(lone);
                }
                Err(error) => {
                    if mode == Mode::AfXdp {
                        *self.socket() = Socket::Closed;
                    }
                    if matches!(error, EngineError::TooLong { .. }) {
                        return Err(error);
                    }
                    reasons.push(format!("{}: {error}", mode.name()));
                }
            }
        }
        Err(EngineError::NoneWorks(reasons.join("; ")))
    }

    /// Takes back an engine that no longer sends.
    fn done(&self, mut lone: PortSender) {
        let Ok(sender) = lone.sender() else { return };
        if sender.capabilities().mode == Mode::AfXdp {
            let is_stopped = sender.stop().is_ok();
            *self.socket() = match is_stopped {
                true => Socket::Idle(Box::new(lone)),
                false => Socket::Closed,
            };
        }
    }
}

/// An engine that sends into a port of this machine.
struct Started {
    engines: Engines,
    /// `None` once no engine works any more.
    lone: Option<PortSender>,
    port: Port,
    frames: Frames,
    schedule: Schedule,
    at: Instant,
    before: Counters,
    /// True once frames were seen to leave: the fastest engine counts them even if a virtual port
    /// accepts none.
    is_proven: bool,
}

impl Started {
    fn sender(&mut self) -> Result<&mut dyn Sender, EngineError> {
        let none = || EngineError::Frames("there is no engine".into());
        self.lone.as_mut().ok_or_else(none)?.sender()
    }

    fn prove(&mut self) -> Result<(), EngineError> {
        if self.is_proven || self.at.elapsed() < SHOWN {
            return Ok(());
        }
        let sender = self.sender()?;
        if sender.capabilities().mode != Mode::XdpLive {
            self.is_proven = true;
            return Ok(());
        }
        if sender.counts()?.total() == 0 {
            return Ok(());
        }
        let since = counters::read(&self.port.spec)
            .unwrap_or_default()
            .since(self.before);
        self.is_proven = true;
        if since.tx_packets + since.tx_dropped > 0 {
            return Ok(());
        }
        // none of its frames left the port
        self.sender()?.stop()?;
        self.lone = None;
        let mut next = self.engines.ready(SLOWER, &self.frames)?;
        next.sender()?.start(self.schedule.clone())?;
        self.lone = Some(next);
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(lone) = self.lone.take() {
            self.engines.done(lone);
        }
    }
}

impl Sending for Started {
    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError> {
        self.sender()?.set_rates(rates)
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        self.sender()?.set_load(load_pps)
    }

    fn counts(&mut self) -> Result<SendCounts, EngineError> {
        self.sender()?.counts()
    }

    fn is_done(&mut self) -> Result<bool, EngineError> {
        self.prove()?;
        Ok(self.sender()?.is_done())
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        self.sender()?.stop()
    }
}

/// A recording only has its own rate.
impl Sending for Replay {
    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError> {
        Sender::set_rates(self, rates)
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        Sender::set_load(self, load_pps)
    }

    fn counts(&mut self) -> Result<SendCounts, EngineError> {
        Sender::counts(self)
    }

    fn is_done(&mut self) -> Result<bool, EngineError> {
        Ok(Sender::is_done(self))
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        Sender::stop(self)
    }
}
