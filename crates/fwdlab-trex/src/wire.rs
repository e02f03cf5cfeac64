//! A port as this crate sees it: [`Wire`]. The real one is `lab`'s [`Port`]; tests have one of values.

use std::time::{Duration, Instant};

use fwdlab_engine::groups::Groups;
use fwdlab_engine::{EngineError, Frames, LoneSender, Mode, Schedule, SendCounts};
use fwdlab_lab::ports::counters::{self, Counters};
use fwdlab_lab::ports::{Port, state};

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
    /// Sends, from now or from a time of CLOCK_MONOTONIC on.
    fn send(
        &self,
        frames: Frames,
        schedule: Schedule,
        begin_ns: Option<u64>,
    ) -> Result<Box<dyn Sending>, EngineError>;
    /// What tells groups of frames apart that arrive; none without the privileges.
    fn groups(&mut self) -> Option<&mut Groups>;
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
}

impl OfLab {
    /// This port; where it has no speed, and none is said, 10 Gbit/s.
    pub fn new(port: Port, speed_bps: Option<u64>, peer: Option<[u8; 6]>, cpus: &[usize]) -> OfLab {
        let speed_bps = speed_bps.or(port.facts.speed_bps).unwrap_or(SPEED_BPS);
        OfLab {
            groups: Groups::open(&port.spec),
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

    fn groups(&mut self) -> Option<&mut Groups> {
        self.groups.as_mut().ok()
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
