//! Drives ports by hand, as a library: senders and receivers on ports are started, read, controlled
//! and stopped, and return values.
//!
//! The caller decides what is sent, and how it is displayed; this only drives the ports, for a
//! command, a server or a dashboard alike. Ports are taken with all checks and locks
//! ([`TrafficPort::take`]), and nothing is left on one when its [`Session`] is gone. Start with
//! [`Session::start`], then [`Session::read`] now and then, and [`Session::stop`]; [`Session::run`]
//! does all three until it is over. [`figures`] contains the returned values; [`BackToBack`] is a
//! cable of our own. Other uses of ports have their own files: [`capture`],
//! [`absorber`] (counts and removes frames of others), [`one_by_one`].

pub mod absorber;
mod back_to_back;
mod busy;
pub mod capture;
pub mod figures;
pub mod listening;
pub mod one_by_one;
pub mod pushing;
pub mod stamping;
mod watch;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use fwdlab_engine::af_packet::Foreign;
use fwdlab_engine::replay::{Pace, Recording, Replay};
use fwdlab_engine::resolve::resolve;
use fwdlab_engine::stamps::Kind;
use fwdlab_engine::sys::monotonic_ns;
use fwdlab_engine::{
    Counting, EngineError, Expected, Frames, Histogram, LoadPlan, Mode, PortReceiver, PortSender,
    Rejected, Schedule, Sender,
};
use fwdlab_model::link::MeanSize;

pub use self::back_to_back::{BackToBack, user_space_pair};
pub use self::busy::BusyCpus;
pub use self::figures::{Period, Received, SendDuration, Sent};
use self::figures::{SenderReadings, Snapshot};
use crate::control::Control;
use crate::error::LabError;
use crate::ports::{Port, TrafficPort};

/// Interval at which we check whether something is over.
const POLL: Duration = Duration::from_millis(2);
/// Time limit for a started sender's frames to appear in the port's counters, and for its first
/// frame if that may be due later.
const FIRST_FRAMES: Duration = Duration::from_millis(250);
/// Time limit for a first frame that is due earlier, because a busy machine may delay the sender's
/// start; and for the other frames after the first of them have appeared.
const ALL_OF_THE_FIRST: Duration = Duration::from_secs(2);
/// Frames may be in flight after the last one was sent.
const DRAIN_QUIET: Duration = Duration::from_millis(50);
/// Drivers of hardware read the card's counters every two seconds at the slowest.
const DRAIN_AT_MOST: Duration = Duration::from_secs(3);
/// The rest of the last interval is reported if it is longer than this.
const REST: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

/// Practically forever, and far from the end of any clock.
pub const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Advice if the next hop cannot be resolved.
pub const SAY_NEXT_HOP: &str = "Specify the next hop: --dst-mac MAC, or --via ADDRESS";

/// A source of frames on a port.
pub enum Source {
    /// An engine, and what it sends.
    Engine(Box<PortSender>, Box<Frames>),
    /// A recording.
    Replay(Box<Replay>),
}

impl Source {
    /// Returns the sender.
    pub fn sender(&mut self) -> Result<&mut dyn Sender, EngineError> {
        match self {
            Source::Engine(lone, _) => lone.sender(),
            Source::Replay(replay) => Ok(replay.as_mut()),
        }
    }

    /// Returns the engine that sends.
    pub fn engine(&mut self) -> Engine {
        match self {
            Source::Replay(_) => Engine {
                name: Mode::AfPacket.name(),
                mode: Mode::AfPacket.name().into(),
                not_taken: Vec::new(),
            },
            Source::Engine(lone, _) => {
                let not_taken = words(lone.rejected());
                let capabilities = lone.sender().map(|sender| sender.capabilities());
                Engine {
                    name: capabilities.as_ref().map_or("none", |c| c.mode.name()),
                    mode: capabilities.map_or("none".into(), |c| c.reached()),
                    not_taken,
                }
            }
        }
    }
}

/// An engine, as described in results.
pub struct Engine {
    /// Its name.
    pub name: &'static str,
    /// The name and the features in use on this port: `af-xdp copy, 2 queues, need-wakeup`.
    pub mode: String,
    /// Why others were not taken.
    pub not_taken: Vec<String>,
}

/// A port that sends.
pub struct Sending {
    /// The source of its frames; dropped before the port that it uses.
    pub source: Source,
    /// The port.
    pub port: TrafficPort,
    /// Load and duration.
    pub schedule: Schedule,
    /// Mean size of its frames, for bits per second.
    pub mean: MeanSize,
    /// Counts what others send on the port, from the first start on.
    others: Option<Foreign>,
}

impl Sending {
    /// Opens a port with the first of these engines that can send such frames there, with this
    /// number of threads, and prepares it.
    ///
    /// # Errors
    /// Fails if none of them can.
    pub fn open(
        port: impl Into<TrafficPort>,
        engines: &[Mode],
        cpus: &[usize],
        frames: Frames,
        schedule: Schedule,
        mean: MeanSize,
        senders: u32,
    ) -> Result<Sending, LabError> {
        let port = port.into();
        let mut lone = PortSender::open_among(port.spec(), engines, cpus, senders)?;
        lone.arm(&frames)?;
        Ok(Sending {
            port,
            source: Source::Engine(Box::new(lone), Box::new(frames)),
            schedule,
            mean,
            others: None,
        })
    }

    /// Opens a port that sends a recording this number of times, one frame at a time.
    ///
    /// # Errors
    /// Fails if the port cannot be opened.
    pub fn replay(
        port: TrafficPort,
        recording: Recording,
        pace: Pace,
        rounds: u64,
        cpus: &[usize],
        schedule: Schedule,
        mean: MeanSize,
    ) -> Result<Sending, LabError> {
        let interface = port.needs_interface("sending a capture")?;
        let replay = Replay::open(&interface.spec, recording, pace, rounds, cpus)?;
        Ok(Sending {
            port,
            source: Source::Replay(Box::new(replay)),
            schedule,
            mean,
            others: None,
        })
    }

    /// Enables departure timestamps of this kind, with the next engine if this one cannot take
    /// them. A recording has none.
    ///
    /// # Errors
    /// Fails if the requested engine cannot take them, or none can.
    pub fn stamp(&mut self, kind: Kind) -> Result<(), LabError> {
        if let Source::Engine(lone, frames) = &mut self.source {
            lone.stamp(kind)?;
            lone.arm(frames)?;
        }
        Ok(())
    }

    /// Reads the counts of the sender, of its port, and of frames that others sent there.
    fn reading(&mut self) -> Result<SenderReadings, LabError> {
        let sender = self.source.sender()?;
        let (counts, reaches_port) = (sender.counts()?, sender.capabilities().counts_at_driver);
        if self.others.is_none() && reaches_port {
            self.others = Some(Foreign::open(self.port.spec())?);
        }
        // a foreign frame between the two readings looks like a missing frame of ours, which the
        // next reading corrects
        let port = self.port.counters()?;
        let foreign = self.others.as_ref().map(Foreign::counts).transpose()?;
        let foreign = foreign.map_or(0, |counts| counts.frames);
        Ok(SenderReadings {
            counts,
            port,
            foreign,
            reaches_port,
            took: None,
        })
    }

    /// Returns when the last frame left, and how long all took; `None` if it was stopped before, or
    /// has no fixed number. `first` is when its first frames were seen.
    fn send_duration(
        &mut self,
        first: Instant,
    ) -> Result<Option<(Instant, SendDuration)>, LabError> {
        let is_replay = matches!(self.source, Source::Replay(_));
        let sender = self.source.sender()?;
        let given = sender.counts()?.total();
        let has_all = is_replay || self.schedule.frames.is_some_and(|frames| given >= frames);
        let progress = sender.sending_times().filter(|_| has_all && given > 0);
        let Some((progress, ended_ns)) = progress.and_then(|c| Some((c, c.ended_ns?))) else {
            return Ok(None);
        };
        let ended = before_now(Duration::from_nanos(
            monotonic_ns().saturating_sub(ended_ns),
        ));
        let due = |frames| Some(self.schedule.load.due_after(frames)?.as_secs_f64());
        let since_begin = ended_ns.saturating_sub(progress.begun_ns) as f64 / 1e9;
        let since_first = ended.saturating_duration_since(first).as_secs_f64();
        let elapsed = match (progress.planned_ns, due(given - 1)) {
            (Some(planned_ns), _) => {
                let planned_s = planned_ns as f64 / 1e9;
                SendDuration {
                    seconds: since_begin,
                    planned_s: Some(planned_s).filter(|_| planned_ns > 0),
                    gap_s: since_begin / (given - 1).max(1) as f64,
                }
            }
            // the first frame of a profile may be due later, and any first frame may be seen late
            (None, Some(planned)) => SendDuration {
                seconds: since_begin.min(since_first.max(planned)),
                planned_s: Some(planned),
                gap_s: due(given).map_or(0.0, |next| next - planned),
            },
            (None, None) => SendDuration {
                seconds: since_begin,
                ..SendDuration::default()
            },
        };
        Ok(Some((ended, elapsed)))
    }

    fn start(&mut self) -> Result<(), LabError> {
        if let Source::Engine(lone, frames) = &mut self.source {
            lone.arm(frames).map_err(|source| LabError::OnPort {
                what: format!("prepare to send into {}", self.port.spec().interface),
                reason: Box::new(source.into()),
            })?;
        }
        Ok(self.source.sender()?.start(self.schedule.clone())?)
    }
}

/// A port that receives.
pub struct Receiving {
    /// The receiver; dropped before the port that it uses.
    pub receiver: PortReceiver,
    /// The port.
    pub port: TrafficPort,
    /// Expected frames.
    pub expected: Expected,
}

impl Receiving {
    /// Opens a port with this receiver, or the one of lowest cost that works there.
    ///
    /// # Errors
    /// Fails if it does not open, or none does.
    pub fn open(
        port: impl Into<TrafficPort>,
        counting: Option<Counting>,
        expected: Expected,
    ) -> Result<Receiving, LabError> {
        let port = port.into();
        let receiver = PortReceiver::open(port.spec(), counting)?;
        Ok(Receiving {
            port,
            receiver,
            expected,
        })
    }

    /// Returns the name of the receiver, and why others were not taken.
    ///
    /// # Errors
    /// Fails if there is none, after one could not detect the expected frames.
    pub fn engine(&mut self) -> Result<(&'static str, Vec<String>), LabError> {
        let name = self.receiver.receiver()?.name();
        Ok((name, words(self.receiver.rejected())))
    }
}

/// Describes engines that were not taken, and why.
fn words(rejected: &[Rejected]) -> Vec<String> {
    let words = |Rejected { engine, reason }: &Rejected| {
        let reason = reason.to_string();
        match reason.starts_with(engine) {
            true => reason,
            false => format!("{engine}: {reason}"),
        }
    };
    rejected.iter().map(words).collect()
}

/// Ports, and how long they run.
pub struct Session {
    /// Ports that send.
    pub sending: Vec<Sending>,
    /// Ports that receive.
    pub receiving: Vec<Receiving>,
    /// Time limit, for senders without an end of their own.
    pub at_most: Duration,
    /// Ends after this number of our frames has arrived, or of any frames if none of ours is
    /// expected.
    pub receive_at_most: Option<u64>,
    /// `None` before the start.
    readings: Option<Readings>,
}

/// Readings of a session that has started.
struct Readings {
    begin: Snapshot,
    /// The last reading that was reported.
    last: Snapshot,
}

/// Totals of a session that is over.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Since the last reading, if that is long enough to be reported.
    pub rest: Option<Period>,
    /// Since the beginning.
    pub whole: Period,
}

impl Session {
    /// Creates a session of these ports.
    pub fn new(sending: Vec<Sending>, receiving: Vec<Receiving>) -> Session {
        Session {
            sending,
            receiving,
            at_most: FOR_EVER,
            receive_at_most: None,
            readings: None,
        }
    }

    /// Starts everything, and takes the next engine if frames do not reach the wire.
    ///
    /// # Errors
    /// Fails if an engine failed, or none works.
    pub fn start(&mut self, control: &Control) -> Result<(), LabError> {
        for receiving in &mut self.receiving {
            receiving.receiver.expect(&receiving.expected)?;
        }
        let mut begin = self.snapshot()?;
        self.sending.iter_mut().try_for_each(Sending::start)?;
        begin.at = self.wait_for_first_frames(&mut begin, control)?;
        begin.senders_started();
        self.readings = Some(Readings {
            last: begin.clone(),
            begin,
        });
        Ok(())
    }

    /// Returns true if everything was sent, everything that was waited for was received, or the
    /// time is over.
    ///
    /// # Errors
    /// Fails if an engine failed.
    pub fn is_over(&mut self) -> Result<bool, LabError> {
        let begin = self.readings()?.begin.at;
        Ok(begin.elapsed() >= self.at_most || self.is_done()?)
    }

    /// Returns the figures since the last reading, or since the beginning.
    ///
    /// # Errors
    /// Fails if an engine failed, or a port went down or disappeared.
    pub fn read(&mut self) -> Result<Period, LabError> {
        self.check_ports()?;
        let now = self.snapshot()?;
        let readings = self.readings()?;
        let (begin, last) = (readings.begin.clone(), readings.last.clone());
        let period = self.period(&begin, &last, &now, false)?;
        if let Some(readings) = &mut self.readings {
            readings.last = now;
        }
        Ok(period)
    }

    /// Changes the load of one of the ports that send. Loads that are known in advance belong into
    /// its schedule.
    ///
    /// # Errors
    /// Fails if there is no such port, if it sends flat out or with stretches, or if its engine
    /// cannot change the load.
    pub fn set_load(&mut self, port: usize, load_pps: f64) -> Result<(), LabError> {
        let Some(sending) = self.sending.get_mut(port) else {
            let action = format!("there is no sending port {port}");
            return Err(EngineError::Frames(action).into());
        };
        sending.source.sender()?.set_load(load_pps)?;
        sending.schedule.load = LoadPlan::Constant(load_pps);
        Ok(())
    }

    /// Stops sending, waits for frames in flight, and returns the totals. The session can be
    /// started again.
    ///
    /// # Errors
    /// Fails if an engine failed, or a port went down or disappeared.
    pub fn stop(&mut self, control: &Control) -> Result<Totals, LabError> {
        let begin = self.readings()?.begin.at;
        let elapsed: Vec<_> = (self.sending.iter_mut())
            .map(|sending| sending.send_duration(begin))
            .collect::<Result<_, _>>()?;
        let all: Option<Vec<_>> = elapsed.iter().copied().collect();
        let all = all.filter(|all| !all.is_empty());
        let ended = match &all {
            Some(all) => all.iter().map(|(ended, _)| *ended).max().unwrap_or(begin),
            None => self.ended(begin),
        };
        let lateness = self.lateness()?;
        for at in 0..self.sending.len() {
            let sending = &mut self.sending[at];
            if let Err(error) = sending.source.sender()?.stop() {
                let action = format!("sending into {} ended", sending.port.spec().interface);
                let explanation = Box::new(self.cause(error));
                return Err(LabError::OnPort {
                    what: action,
                    reason: explanation,
                });
            }
        }
        let first = self.readings()?.begin.clone();
        let mut end = self.drain(&first, control)?;
        end.at = ended;
        let Some(Readings { mut begin, last }) = self.readings.take() else {
            return Ok(Totals::default());
        };
        let rest = match end.at.saturating_duration_since(last.at) > REST && last.at > begin.at {
            true => Some(self.period(&begin, &last, &end, false)?),
            false => None,
        };
        // we may have seen the first frames late
        for (ended, elapsed) in all.into_iter().flatten() {
            let first = ended.checked_sub(Duration::from_secs_f64(elapsed.seconds));
            begin.at = first.map_or(begin.at, |first| first.min(begin.at));
        }
        for (sender, elapsed) in end.sent.iter_mut().zip(&elapsed) {
            sender.took = elapsed.map(|(_, elapsed)| elapsed);
        }
        let mut whole = self.period(&begin, &begin, &end, true)?;
        for (sent, lateness) in whole.sent.iter_mut().zip(lateness) {
            sent.lateness = lateness;
        }
        Ok(Totals { rest, whole })
    }

    /// Continues after [`start`](Self::start) until it is over or stopped; reports every interval
    /// and returns the totals.
    ///
    /// # Errors
    /// Fails as [`read`](Self::read) and [`stop`](Self::stop) do; whatever was attached is detached
    /// when the session is dropped.
    pub fn run(
        &mut self,
        control: &Control,
        interval: Duration,
        each_interval: &mut dyn FnMut(&Period),
    ) -> Result<Period, LabError> {
        let mut next = self.readings()?.begin.at + interval;
        loop {
            std::thread::sleep(POLL.min(next.saturating_duration_since(Instant::now())));
            if control.is_stopped() || self.is_over()? {
                break;
            }
            if Instant::now() >= next {
                next += interval;
                each_interval(&self.read()?);
            }
        }
        let Totals { rest, whole } = self.stop(control)?;
        if let Some(rest) = rest {
            each_interval(&rest);
        }
        Ok(whole)
    }

    fn readings(&self) -> Result<&Readings, LabError> {
        let none = || EngineError::Frames("the session has not begun; start it first".into());
        Ok(self.readings.as_ref().ok_or_else(none)?)
    }

    /// Waits for the first frame, at which the clock starts, so that no rate includes the time in
    /// which an engine gets ready. An engine that hands over more frames than appear in the port's
    /// counters does not really send: the next one is taken.
    fn wait_for_first_frames(
        &mut self,
        begin: &mut Snapshot,
        control: &Control,
    ) -> Result<Instant, LabError> {
        let mut first = None;
        for (sending, before) in self.sending.iter_mut().zip(&mut begin.sent) {
            loop {
                let load = &sending.schedule.load;
                let is_due = load.is_flat_out()
                    || (load.due_after(1)).is_some_and(|due| due <= FIRST_FRAMES);
                let patience = match is_due {
                    true => ALL_OF_THE_FIRST,
                    false => FIRST_FRAMES,
                };
                let started = Instant::now();
                let mut handed_over = 0;
                while started.elapsed() < patience && !control.is_stopped() {
                    handed_over = sending.source.sender()?.counts()?.total();
                    if handed_over > 0 {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                // this check may be late: the last of these frames is due this long after the first
                let since = (sending.schedule.load).due_after(handed_over.saturating_sub(1));
                first.get_or_insert_with(|| before_now(since.unwrap_or_default()));
                // at a load of a few frames per second the first frame comes later; and not every
                // engine sends into a port
                let is_for_a_port = sending.source.sender()?.capabilities().counts_at_driver;
                if handed_over == 0 || sending.port.virtual_kind().is_none() || !is_for_a_port {
                    break;
                }
                let started = Instant::now();
                let mut accounted = 0;
                loop {
                    accounted = sending.reading()?.accounted(before).max(accounted);
                    let patience = match accounted {
                        0 => 2 * FIRST_FRAMES,
                        _ => ALL_OF_THE_FIRST,
                    };
                    if accounted >= handed_over || started.elapsed() >= patience {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                let is_replay = matches!(sending.source, Source::Replay(_));
                if accounted >= handed_over || control.is_stopped() || is_replay {
                    break;
                }
                let sender = sending.source.sender()?;
                let name = sender.capabilities().mode.name();
                let handed_over = sender.stop()?.total();
                let left = match sending.reading()?.accounted(before) {
                    0 => "none".to_owned(),
                    frames => format!("only {frames}"),
                };
                let Source::Engine(lone, frames) = &mut sending.source else {
                    break;
                };
                lone.reject(
                    EngineError::Unsupported {
                        engine: name,
                        action: format!(
                            "send into {}: the kernel accepted {handed_over} frames, but {left} left the port (the other end of \
                             a veth needs NAPI for live frames: ethtool -K PEER gro on)",
                            sending.port.spec().interface
                        ),
                    },
                    frames,
                )?;
                // late frames of the rejected engine do not count as the next one's
                *before = sending.reading()?;
                sending.source.sender()?.start(sending.schedule.clone())?;
                first = None;
            }
        }
        Ok(first.unwrap_or_else(Instant::now))
    }

    /// Returns when the senders ended. Those whose time was over sent for their planned time,
    /// whenever we saw that they were done: seeing it 2 ms late would make a load of 10 s wrong by
    /// 0.02 %.
    fn ended(&self, begin: Instant) -> Instant {
        let now = Instant::now();
        let length = (self.sending.iter().map(|sending| sending.schedule.at_most)).max();
        match length.and_then(|length| begin.checked_add(length)) {
            Some(end) if end < now + POLL * 5 && now < end + SECOND => end,
            _ => now,
        }
    }

    fn is_done(&mut self) -> Result<bool, LabError> {
        if let Some(frames) = self.receive_at_most {
            let mut all = 0;
            for receiving in &mut self.receiving {
                all += receiving.receiver.receiver()?.counts()?.received;
            }
            if all >= frames {
                return Ok(true);
            }
        }
        if self.sending.is_empty() {
            return Ok(false);
        }
        for sending in &mut self.sending {
            if !sending.source.sender()?.is_done() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that all ports are up: a port that is down carries nothing without any other sign.
    fn check_ports(&self) -> Result<(), LabError> {
        let sending = self.sending.iter().map(|sending| &sending.port);
        let receiving = self.receiving.iter().map(|receiving| &receiving.port);
        sending.chain(receiving).try_for_each(TrafficPort::check)
    }

    /// Returns why a sender failed: a missing port is a better reason than the error of the system
    /// call.
    fn cause(&self, error: EngineError) -> LabError {
        match self.check_ports() {
            Err(port) => port,
            Ok(()) => error.into(),
        }
    }

    fn lateness(&mut self) -> Result<Vec<Option<Histogram>>, LabError> {
        self.sending
            .iter_mut()
            .map(|sending| Ok(sending.source.sender()?.lateness()?))
            .collect()
    }

    fn snapshot(&mut self) -> Result<Snapshot, LabError> {
        let at = Instant::now();
        let mut snapshot = Snapshot {
            at,
            sent: Vec::new(),
            received: Vec::new(),
        };
        for sending in &mut self.sending {
            snapshot.sent.push(sending.reading()?);
        }
        for receiving in &mut self.receiving {
            let port = receiving.port.counters()?;
            snapshot
                .received
                .push((receiving.receiver.receiver()?.counts()?, port));
        }
        Ok(snapshot)
    }

    /// Waits until no more frames arrive and the ports have counted all that they were given, and
    /// reads everything for the last time. Counters of hardware are updated with a delay. Frames
    /// that arrive on a port that only sends are ignored: others may send to it.
    fn drain(&mut self, begin: &Snapshot, control: &Control) -> Result<Snapshot, LabError> {
        let started = Instant::now();
        let mut quiet_since = started;
        let is_settled = |now: &Snapshot| {
            (now.sent.iter().zip(&begin.sent)).all(|(now, then)| now.is_settled(then))
        };
        let mut last = self.snapshot()?;
        while started.elapsed() < DRAIN_AT_MOST
            && !self.sending.is_empty()
            && (!is_settled(&last) || quiet_since.elapsed() < DRAIN_QUIET && !control.is_stopped())
        {
            std::thread::sleep(POLL);
            let now = self.snapshot()?;
            let left = |snapshot: &Snapshot| -> Vec<_> {
                let sent = snapshot.sent.iter();
                sent.map(|s| {
                    let port = s.port.map(|port| (port.tx_packets, port.tx_dropped));
                    (s.counts.clone(), port)
                })
                .collect()
            };
            if now.received != last.received || left(&now) != left(&last) {
                quiet_since = Instant::now();
            }
            last = now;
        }
        Ok(last)
    }
}

/// Resolves the Ethernet address of the next hop on a port, from these addresses of ours.
///
/// # Errors
/// Fails if no host answers.
pub fn next_hop(
    port: &Port,
    ours: [u8; 6],
    source: IpAddr,
    target: IpAddr,
) -> Result<[u8; 6], LabError> {
    resolve(&port.spec, ours, source, target)?.ok_or_else(|| {
        LabError::Preflight(format!(
            "no answer for {target} on {} ({}). {SAY_NEXT_HOP}",
            port.spec.interface,
            match target {
                IpAddr::V4(_) => "ARP",
                IpAddr::V6(_) => "neighbour discovery",
            }
        ))
    })
}

/// Returns the instant that long ago.
fn before_now(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_sub(time).unwrap_or(now)
}
