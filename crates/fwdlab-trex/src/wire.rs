//! A port as this crate sees it: [`Wire`]. The real one is `lab`'s [`Port`]; tests have one of values.

use std::time::{Duration, Instant};

use fwdlab_engine::af_packet::{Membership, Takes};
use fwdlab_engine::groups::Groups;
use fwdlab_engine::replay::{Pace, Recording, Replay};
use fwdlab_engine::{EngineError, Frames, LoneSender, Mode, Schedule, SendCounts, Sender};
use fwdlab_lab::ports::counters::{self, Counters};
use fwdlab_lab::ports::{Port, state};
use fwdlab_lab::session::listening::{Heard, Listening};
use fwdlab_lab::session::pushing::Pusher;

/// Speed that a port without one of its own is said to have: percentages need one.
const SPEED_BPS: u64 = 10_000_000_000;

/// Loads from which on the fastest engine is worth a CPU.
const FAST_PPS: f64 = 100_000.0;

/// Frames that were handed over show in the port's counters by then.
const SHOWN: Duration = Duration::from_millis(20);

/// What is asked of a port.
pub trait Wire: Send {
    /// Its name.
    fn name(&self) -> &str;
    /// Its own address.
    fn mac(&self) -> [u8; 6];
    /// Where its frames go, unless a client says.
    fn peer(&self) -> Option<[u8; 6]>;
    /// Its speed.
    fn speed_bps(&self) -> u64;
    /// What it is made of: the kind of a virtual interface, or nothing for a card.
    fn kind(&self) -> Option<&str>;
    /// Has it a link?
    fn is_up(&self) -> bool;
    /// What was counted on it, by the kernel or by us; why not.
    fn counters(&self) -> Result<Counters, String>;
    /// Everything that the kernel counted on it, by [`counters::NAMES`]; why not.
    fn details(&self) -> Result<Vec<u64>, String>;
    /// Sends, from now or from a time of CLOCK_MONOTONIC on.
    fn send(
        &self,
        frames: Frames,
        schedule: Schedule,
        begin_ns: Option<u64>,
    ) -> Result<Box<dyn Sending>, EngineError>;
    /// Sends a recording so many times, from now on.
    fn play(
        &self,
        recording: Recording,
        rounds: u64,
        schedule: Schedule,
    ) -> Result<Box<dyn Sending>, EngineError>;
    /// What tells groups of frames apart that arrive; none without the privileges.
    fn groups(&mut self) -> Option<&mut Groups>;
    /// Hands over every frame that passes from now on, until what is returned is dropped; why not.
    fn listen(&self, heard: Heard) -> Result<Box<dyn Hearing>, String>;
    /// Sends these by hand, with so much time between them, while the caller goes on; why not.
    fn push(&mut self, frames: Vec<Vec<u8>>, gap: Duration) -> Result<(), String>;
    /// Takes frames to all addresses or not, and to all multicast addresses or not; why not.
    fn take_in(&mut self, everything: bool, multicast: bool) -> Result<(), String>;
}

/// A port that is listened to.
pub trait Hearing: Send {
    /// Waits until what passed before this has been heard, or so long at most.
    fn settle(&self, at_most: Duration);
}

impl Hearing for Listening {
    fn settle(&self, at_most: Duration) {
        Listening::settle(self, at_most);
    }
}

/// A sender that has begun.
pub trait Sending: Send {
    /// As of [`fwdlab_engine::Sender::set_rates`].
    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError>;
    /// As of [`fwdlab_engine::Sender::set_load`].
    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError>;
    /// As of [`fwdlab_engine::Sender::counts`].
    fn counts(&mut self) -> Result<SendCounts, EngineError>;
    /// Looks after it, and says whether everything has been sent.
    fn is_done(&mut self) -> Result<bool, EngineError>;
    /// Ends it; the counts are final.
    fn stop(&mut self) -> Result<SendCounts, EngineError>;
}

/// A port of this machine, which is ours as long as this lives.
pub struct OfLab {
    port: Port,
    speed_bps: u64,
    peer: Option<[u8; 6]>,
    cpus: Vec<usize>,
    groups: Result<Groups, EngineError>,
    pusher: Option<Pusher>,
    everything: Option<Membership>,
    multicast: Option<Membership>,
}

impl OfLab {
    /// This port; where it has no speed, and none is said, 10 Gbit/s.
    pub fn new(port: Port, speed_bps: Option<u64>, peer: Option<[u8; 6]>, cpus: &[usize]) -> OfLab {
        let speed_bps = speed_bps.or(port.facts.speed_bps).unwrap_or(SPEED_BPS);
        OfLab {
            groups: Groups::open(&port.spec),
            pusher: None,
            everything: None,
            multicast: None,
            port,
            speed_bps,
            peer,
            cpus: cpus.to_vec(),
        }
    }

    /// Why groups cannot be told apart, if they cannot.
    pub fn without_groups(&self) -> Option<String> {
        self.groups.as_ref().err().map(ToString::to_string)
    }
}

impl Wire for OfLab {
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
        let mut counters = counters::read(&self.port.spec).map_err(|error| error.to_string())?;
        // a veth counts some frames without their Ethernet header; where we look at all of them, we know better
        if let Some(Ok(all)) = self.groups.as_ref().ok().map(Groups::all) {
            counters.rx_packets = all.frames;
            counters.rx_bytes = all.bytes - 4 * all.frames;
        }
        Ok(counters)
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
        // the fastest engine cannot wait for a time, and leaves nothing of its CPU to others
        let is_slow = (schedule.load.peak_pps()).is_some_and(|pps| pps < FAST_PPS);
        let modes = match begin_ns.is_some() || is_slow {
            true => &Mode::ALL[1..],
            false => &Mode::ALL[..],
        };
        let mut lone = LoneSender::open_among(&self.port.spec, modes, &self.cpus)?;
        lone.arm(&frames)?;
        lone.sender()?.share_cpu();
        let before = counters::read(&self.port.spec).unwrap_or_default();
        match begin_ns {
            Some(begin_ns) => lone.sender()?.start_at(schedule.clone(), begin_ns)?,
            None => lone.sender()?.start(schedule.clone())?,
        }
        Ok(Box::new(Started {
            is_proven: self.port.facts.kind.is_none(),
            port: Port::of_ours(&self.port.spec).map_err(|e| EngineError::Frames(e.to_string()))?,
            lone,
            frames,
            schedule,
            at: Instant::now(),
            before,
        }))
    }

    fn play(
        &self,
        recording: Recording,
        rounds: u64,
        schedule: Schedule,
    ) -> Result<Box<dyn Sending>, EngineError> {
        let pace = Pace::Own { speed: 1.0 };
        let mut replay = Replay::open(&self.port.spec, recording, pace, rounds, &self.cpus)?;
        Sender::start(&mut replay, schedule)?;
        Ok(Box::new(replay))
    }

    fn groups(&mut self) -> Option<&mut Groups> {
        self.groups.as_mut().ok()
    }

    fn listen(&self, heard: Heard) -> Result<Box<dyn Hearing>, String> {
        match Listening::open(&self.port.spec, heard) {
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

    fn take_in(&mut self, everything: bool, multicast: bool) -> Result<(), String> {
        let spec = &self.port.spec;
        for (member, wanted, takes) in [
            (&mut self.everything, everything, Takes::Everything),
            (&mut self.multicast, multicast, Takes::Multicast),
        ] {
            if member.is_some() != wanted {
                *member = match wanted {
                    true => Some(Membership::of(spec, takes).map_err(|e| e.to_string())?),
                    false => None,
                };
            }
        }
        Ok(())
    }
}

/// An engine that sends into a port of this machine.
struct Started {
    lone: LoneSender,
    port: Port,
    frames: Frames,
    schedule: Schedule,
    at: Instant,
    before: Counters,
    /// Frames were seen to leave: the fastest engine counts them even where a virtual port takes none.
    is_proven: bool,
}

impl Started {
    fn prove(&mut self) -> Result<(), EngineError> {
        let sender = self.lone.sender()?;
        if self.is_proven || self.at.elapsed() < SHOWN {
            return Ok(());
        }
        let mode = sender.capabilities().mode;
        if mode != Mode::XdpLive {
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
        sender.stop()?;
        let reason = EngineError::Unsupported {
            engine: mode.name(),
            what: format!(
                "send into {}: none of the frames left the port",
                self.port.spec.interface
            ),
        };
        self.lone.reject(reason, &self.frames)?;
        self.lone.sender()?.start(self.schedule.clone())
    }
}

impl Sending for Started {
    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError> {
        self.lone.sender()?.set_rates(rates)
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        self.lone.sender()?.set_load(load_pps)
    }

    fn counts(&mut self) -> Result<SendCounts, EngineError> {
        self.lone.sender()?.counts()
    }

    fn is_done(&mut self) -> Result<bool, EngineError> {
        self.prove()?;
        Ok(self.lone.sender()?.is_done())
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        self.lone.sender()?.stop()
    }
}

/// A recording has one rate, its own.
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
