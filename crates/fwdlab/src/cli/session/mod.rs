//! A session by hand: senders and receivers on ports, driven until they are done or a signal comes, told second by second.
//!
//! What is sent, and how a second reads on the screen, is the command's; here is only the driving, the same for all of them.
//! Nothing is left on a port when a [`Session`] is gone. Start with [`Session::begin`]; [`options`] has what the commands'
//! arguments share.

pub mod back_to_back;
pub mod options;
pub mod range;
pub mod stamping;
pub mod streams;
pub mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use fwdlab_engine::analysis;
use fwdlab_engine::replay::Replay;
use fwdlab_engine::{
    EngineError, Expected, Frames, Histogram, HoldUps, LoneReceiver, LoneSender, Mode,
    ReceiveCounts, Schedule, SendCounts, Sender,
};
use fwdlab_lab::LabError;
use fwdlab_lab::ports::counters::{self, Counters};
use fwdlab_lab::ports::{Port, state};
use fwdlab_lab::run::Control;
use fwdlab_model::latency::HeldUp;
use fwdlab_model::link::{Layer, MeanSize};

use crate::exit_code::Code;

/// How often we look whether something is over.
const POLL: Duration = Duration::from_millis(2);
/// A sender that has begun is given this time until its frames show in the port's counters.
const FIRST_FRAMES: Duration = Duration::from_millis(250);
/// Frames may be under way when the last one was sent.
const DRAIN_QUIET: Duration = Duration::from_millis(50);
const DRAIN_AT_MOST: Duration = Duration::from_secs(2);
/// How often people are told.
pub const SECOND: Duration = Duration::from_secs(1);
/// As good as for ever, and far from the end of any clock.
pub const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Signals that ask a session to stop.
pub struct Signals {
    control: Control,
    which: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches Ctrl-C and its relatives from now on.
    pub fn catch() -> anyhow::Result<Signals> {
        let control = Control::default();
        let which = super::run::catch_signals(&control)?;
        Ok(Signals { control, which })
    }

    /// Has one come?
    pub fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }

    /// How the program ends: done when nothing was asked to go on until a signal, and when it was: a user who says that it is
    /// enough has not interrupted anything.
    pub fn code(&self, endless: bool) -> Code {
        match self.which.load(Ordering::Acquire) {
            0 => Code::Done,
            2 if endless => Code::Done,
            15 => Code::Terminated,
            _ => Code::Interrupted,
        }
    }
}

/// What puts frames on a port.
pub enum Source {
    /// An engine, and what it sends.
    Engine(Box<LoneSender>, Box<Frames>),
    /// A recording.
    Replay(Box<Replay>),
}

impl Source {
    /// What sends.
    pub fn sender(&mut self) -> Result<&mut dyn Sender, EngineError> {
        match self {
            Source::Engine(lone, _) => lone.sender(),
            Source::Replay(replay) => Ok(replay.as_mut()),
        }
    }

    /// The engine that sends.
    pub fn engine(&mut self) -> Engine {
        match self {
            Source::Replay(_) => Engine {
                name: Mode::AfPacket.name(),
                mode: Mode::AfPacket.name().into(),
                not_taken: Vec::new(),
            },
            Source::Engine(lone, _) => {
                let not_taken = lone.rejected().iter().map(words::rejected).collect();
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

/// An engine for results.
pub struct Engine {
    /// Its name.
    pub name: &'static str,
    /// The name and what it reached on this port: `af-xdp copy, 2 queues, need-wakeup`.
    pub mode: String,
    /// Why others were not taken.
    pub not_taken: Vec<String>,
}

/// A port that sends.
pub struct Sending {
    /// Where.
    pub port: Port,
    /// What.
    pub source: Source,
    /// How much, and for how long.
    pub schedule: Schedule,
    /// Mean size of its frames, for bits per second.
    pub mean: MeanSize,
}

/// A port that receives.
pub struct Receiving {
    /// Where.
    pub port: Port,
    /// What counts.
    pub receiver: LoneReceiver,
    /// What is expected.
    pub expected: Expected,
}

/// What a sender did, in a second or altogether.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// Frames given to the port, of which it may have dropped some.
    pub given: u64,
    /// Frames that were due and not sent.
    pub not_sent: u64,
    /// Of the frames sent: missed because the sender was held up, and sent later.
    pub made_up: u64,
    /// How often there was no room.
    pub ring_full: u64,
    /// System calls that told the kernel to send.
    pub wakeups: u64,
    /// Of each stream; empty where there is one kind of frame.
    pub streams: Vec<u64>,
    /// Frames per second that left.
    pub rate_pps: f64,
    /// The load that was intended last; `None`: flat out.
    pub intended_pps: Option<f64>,
    /// Bits per second with preamble and gap.
    pub l1_bps: f64,
    /// Bits per second of frames with FCS.
    pub l2_bps: f64,
    /// What became of frames that the sender missed.
    pub hold_ups: Option<HoldUps>,
    /// What the port's own counters say.
    pub port: Counters,
    /// How late frames left, since the begin.
    pub lateness: Option<Histogram>,
}

impl Sent {
    /// What this host's hold-ups did to frames that were to leave at certain times.
    pub fn held_up(&self) -> Option<HeldUp> {
        self.intended_pps?;
        Some(analysis::held_up(
            self.made_up,
            self.not_sent,
            self.lateness.as_ref(),
        ))
    }

    /// Of the frames given to the port: dropped by it, as far as its counters tell ours from others, and from those that were
    /// tried again.
    pub fn dropped(&self) -> u64 {
        let did_not_leave = self.given.saturating_sub(self.port.tx_packets);
        self.port.tx_dropped.min(did_not_leave)
    }

    /// Frames that left the port.
    pub fn left(&self) -> u64 {
        self.given - self.dropped()
    }

    /// Less left than was due: the generator or its port was the limit (the default of our methods, 0.5 %). Flat out everything
    /// is due that the port was given.
    pub fn is_limited(&self) -> bool {
        let due = match self.intended_pps {
            Some(_) => self.given + self.not_sent,
            None => self.given,
        };
        (self.left() as f64) < 0.995 * due as f64
    }
}

/// What a receiver counted, in a second or altogether.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// What is ours and what is not.
    pub counts: ReceiveCounts,
    /// What the port's own counters say.
    pub port: Counters,
    /// Frames per second of all kinds, by the port's counters.
    pub port_pps: f64,
    /// Frames per second with our signature.
    pub ours_pps: f64,
    /// Bits per second of all frames, with preamble and gap; `None` where the port does not count their bytes.
    pub l1_bps: Option<f64>,
    /// Bits per second of all frames, with FCS.
    pub l2_bps: Option<f64>,
}

/// A part of a session, or the whole of it.
#[derive(Debug, Clone, Default)]
pub struct Period {
    /// When it ended, in seconds after the begin of the session.
    pub at_s: f64,
    /// How long it was.
    pub duration_s: f64,
    /// Of each sending port.
    pub sent: Vec<Sent>,
    /// Of each receiving port.
    pub received: Vec<Received>,
}

/// Ports, and how long.
pub struct Session {
    /// Ports that send.
    pub sending: Vec<Sending>,
    /// Ports that receive.
    pub receiving: Vec<Receiving>,
    /// The end, when the senders have no end of their own.
    pub at_most: Duration,
    /// The end when so many frames of ours have come, or frames of any kind where none of ours is expected.
    pub receive_at_most: Option<u64>,
    /// Time between two periods that are told.
    pub interval: Duration,
}

/// Readings from the begin of a session.
pub struct Begun(Snapshot);

/// Readings of everything at one time.
#[derive(Clone)]
struct Snapshot {
    at: Instant,
    sent: Vec<(SendCounts, Counters)>,
    received: Vec<(ReceiveCounts, Counters)>,
}

impl Session {
    /// Starts everything, and takes the next engine where frames do not get as far as the wire.
    ///
    /// # Errors
    /// An engine failed, or none works.
    pub fn begin(&mut self, signals: &Signals) -> anyhow::Result<Begun> {
        for receiving in &mut self.receiving {
            receiving.receiver.expect(&receiving.expected)?;
        }
        let mut begin = self.snapshot()?;
        for sending in &mut self.sending {
            start(sending)?;
        }
        begin.at = self.wait_for_first_frames(&begin, signals)?;
        // counts start at zero where the senders start; their ports' counters may have moved already
        for (counts, _) in &mut begin.sent {
            *counts = SendCounts::default();
        }
        Ok(Begun(begin))
    }

    /// Goes on until the senders are done, the time is over, or a signal comes; tells every interval and returns the whole.
    ///
    /// # Errors
    /// An engine failed, or a port went down or away: whatever was attached is detached.
    pub fn run(
        &mut self,
        Begun(begin): Begun,
        signals: &Signals,
        each_interval: &mut dyn FnMut(&Period),
    ) -> anyhow::Result<Period> {
        let mut last = begin.clone();
        let mut next = begin.at + self.interval;
        loop {
            std::thread::sleep(POLL.min(next.saturating_duration_since(Instant::now())));
            let over =
                signals.is_stopped() || begin.at.elapsed() >= self.at_most || self.is_done()?;
            if over {
                break;
            }
            if Instant::now() >= next {
                next += self.interval;
                self.check_ports()?;
                let now = self.snapshot()?;
                each_interval(&self.period(&begin, &last, &now)?);
                last = now;
            }
        }
        let ended = self.ended(begin.at);
        let lateness = self.lateness()?;
        for sending in &mut self.sending {
            let name = sending.port.spec.interface.clone();
            let stopped = sending.source.sender()?.stop();
            if let Err(error) = stopped {
                return Err(self
                    .cause(error)
                    .context(format!("sending into {name} ended")));
            }
        }
        let mut end = self.drain(signals)?;
        end.at = ended;
        if end.at - last.at > Duration::from_millis(20) && last.at > begin.at {
            each_interval(&self.period(&begin, &last, &end)?);
        }
        let mut whole = self.period(&begin, &begin, &end)?;
        for (sent, lateness) in whole.sent.iter_mut().zip(lateness) {
            sent.lateness = lateness;
        }
        Ok(whole)
    }

    /// The clock starts with the first frame, so that no rate counts the time in which an engine gets ready. An engine whose
    /// frames do not show in the port's counters does not send, whatever it counts: the next one is taken.
    fn wait_for_first_frames(
        &mut self,
        begin: &Snapshot,
        signals: &Signals,
    ) -> anyhow::Result<Instant> {
        let mut first = None;
        for (sending, (_, before)) in self.sending.iter_mut().zip(&begin.sent) {
            loop {
                let started = Instant::now();
                let mut handed_over = 0;
                while started.elapsed() < FIRST_FRAMES && !signals.is_stopped() {
                    handed_over = sending.source.sender()?.counts()?.total();
                    if handed_over > 0 {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                // we may look late
                let since = sending.schedule.load.due_after(handed_over);
                first.get_or_insert_with(|| before_now(since.unwrap_or_default()));
                // a load below some frames per second has its first frame later
                if handed_over == 0 || sending.port.facts.kind.is_none() {
                    break;
                }
                let left = |port: Counters| port.tx_packets + port.tx_dropped;
                let mut on_the_wire = 0;
                while on_the_wire == 0 && started.elapsed() < 2 * FIRST_FRAMES {
                    on_the_wire = left(counters::read(&sending.port.spec)?.since(*before));
                    std::thread::sleep(Duration::from_millis(1));
                }
                let Source::Engine(lone, frames) = &mut sending.source else {
                    break;
                };
                if on_the_wire > 0 || signals.is_stopped() {
                    break;
                }
                let sender = lone.sender()?;
                let name = sender.capabilities().mode.name();
                let handed_over = sender.stop()?.total();
                lone.reject(
                    EngineError::Unsupported {
                        engine: name,
                        what: format!(
                            "send into {}: of {handed_over} frames that the kernel took none left the port (the other end of \
                             a veth needs NAPI for live frames: ethtool -K PEER gro on)",
                            sending.port.spec.interface
                        ),
                    },
                    frames,
                )?;
                lone.sender()?.start(sending.schedule.clone())?;
                first = None;
            }
        }
        Ok(first.unwrap_or_else(Instant::now))
    }

    /// When the senders ended. Those whose time was over sent for as long as they were to, whenever we saw that they were done:
    /// a look that comes 2 ms late would make a load of 10 s wrong by 0.02 %.
    fn ended(&self, begin: Instant) -> Instant {
        let now = Instant::now();
        let length = (self.sending.iter().map(|sending| sending.schedule.at_most)).max();
        match length.and_then(|length| begin.checked_add(length)) {
            Some(end) if end < now + POLL * 5 && now < end + SECOND => end,
            _ => now,
        }
    }

    fn is_done(&mut self) -> anyhow::Result<bool> {
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

    /// A port that is down carries nothing, and nobody may notice.
    fn check_ports(&self) -> Result<(), LabError> {
        let sending = self.sending.iter().map(|sending| &sending.port);
        let receiving = self.receiving.iter().map(|receiving| &receiving.port);
        sending
            .chain(receiving)
            .try_for_each(|port| state::check(&port.spec))
    }

    /// Why a sender failed: that its port is gone says more than what the system call answered.
    fn cause(&self, error: EngineError) -> anyhow::Error {
        match self.check_ports() {
            Err(port) => port.into(),
            Ok(()) => LabError::from(error).into(),
        }
    }

    fn lateness(&mut self) -> anyhow::Result<Vec<Option<Histogram>>> {
        self.sending
            .iter_mut()
            .map(|sending| Ok(sending.source.sender()?.lateness()?))
            .collect()
    }

    fn snapshot(&mut self) -> anyhow::Result<Snapshot> {
        let at = Instant::now();
        let mut snapshot = Snapshot {
            at,
            sent: Vec::new(),
            received: Vec::new(),
        };
        for sending in &mut self.sending {
            let port = counters::read(&sending.port.spec)?;
            snapshot
                .sent
                .push((sending.source.sender()?.counts()?, port));
        }
        for receiving in &mut self.receiving {
            let port = counters::read(&receiving.port.spec)?;
            snapshot
                .received
                .push((receiving.receiver.receiver()?.counts()?, port));
        }
        Ok(snapshot)
    }

    /// Waits until nothing arrives any more, and reads everything for the last time. The counters of hardware follow some time
    /// behind.
    fn drain(&mut self, signals: &Signals) -> anyhow::Result<Snapshot> {
        let began = Instant::now();
        let mut quiet_since = began;
        let mut last = self.snapshot()?;
        while began.elapsed() < DRAIN_AT_MOST
            && quiet_since.elapsed() < DRAIN_QUIET
            && !self.sending.is_empty()
            && !signals.is_stopped()
        {
            std::thread::sleep(POLL);
            let now = self.snapshot()?;
            if now.received != last.received || now.sent != last.sent {
                quiet_since = Instant::now();
            }
            last = now;
        }
        Ok(last)
    }

    fn period(
        &mut self,
        begin: &Snapshot,
        from: &Snapshot,
        to: &Snapshot,
    ) -> anyhow::Result<Period> {
        let duration_s = (to.at - from.at).as_secs_f64().max(1e-9);
        let mut period = Period {
            at_s: (to.at - begin.at).as_secs_f64(),
            duration_s,
            ..Period::default()
        };
        let pairs = self.sending.iter_mut().zip(from.sent.iter().zip(&to.sent));
        for (sending, ((before, port_before), (now, port_now))) in pairs {
            let was = |at: usize| before.streams.get(at).copied().unwrap_or(0);
            let mut sent = Sent {
                given: now.total().saturating_sub(before.total()),
                not_sent: now.not_sent.saturating_sub(before.not_sent),
                made_up: now.made_up.saturating_sub(before.made_up),
                hold_ups: (!sending.schedule.load.is_flat_out())
                    .then_some(sending.schedule.hold_ups),
                ring_full: now.ring_full.saturating_sub(before.ring_full),
                wakeups: now.wakeups.saturating_sub(before.wakeups),
                streams: (now.streams.iter().enumerate())
                    .map(|(at, &count)| count.saturating_sub(was(at)))
                    .collect(),
                intended_pps: sending.schedule.load.at(to.at - begin.at),
                port: port_now.since(*port_before),
                lateness: sending.source.sender()?.lateness()?,
                ..Sent::default()
            };
            let bytes = now.bytes.unwrap_or(0) - before.bytes.unwrap_or(0);
            let mean = MeanSize::new(bytes + 4 * sent.given, sent.given)
                .filter(|_| bytes > 0)
                .unwrap_or(sending.mean);
            sent.rate_pps = sent.left() as f64 / duration_s;
            sent.l1_bps = mean.bps(Layer::L1, sent.rate_pps);
            sent.l2_bps = mean.bps(Layer::L2, sent.rate_pps);
            period.sent.push(sent);
        }
        let pairs = (self.receiving.iter_mut()).zip(from.received.iter().zip(&to.received));
        for (receiving, ((before, port_before), (now, port_now))) in pairs {
            let counts = since(now, before);
            let port = port_now.since(*port_before);
            let port_pps = port.rx_packets as f64 / duration_s;
            // kernel counters count neither the FCS nor what is between frames
            let l2_bps = 8.0 * (port.rx_bytes as f64 / duration_s + 4.0 * port_pps);
            // a veth with an XDP program counts the bytes of some frames without their Ethernet header
            let counts_bytes = receiving.port.facts.kind.as_deref() != Some("veth")
                || receiving.receiver.receiver()?.name() != "xdp";
            period.received.push(Received {
                counts,
                port,
                port_pps,
                ours_pps: counts.received as f64 / duration_s,
                l1_bps: counts_bytes.then_some(l2_bps + 8.0 * 20.0 * port_pps),
                l2_bps: counts_bytes.then_some(l2_bps),
            });
        }
        Ok(period)
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Snapshot) -> bool {
        self.sent == other.sent && self.received == other.received
    }
}

fn start(sending: &mut Sending) -> anyhow::Result<()> {
    if let Source::Engine(lone, frames) = &mut sending.source {
        lone.arm(frames)
            .with_context(|| format!("prepare to send into {}", sending.port.spec.interface))?;
    }
    let schedule = sending.schedule.clone();
    sending.source.sender()?.start(schedule)?;
    Ok(())
}

/// So long ago, a second at the most.
fn before_now(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_sub(time.min(SECOND)).unwrap_or(now)
}

fn since(now: &ReceiveCounts, before: &ReceiveCounts) -> ReceiveCounts {
    ReceiveCounts {
        received: now.received.saturating_sub(before.received),
        wrong_length: now.wrong_length.saturating_sub(before.wrong_length),
        late: now.late.saturating_sub(before.late),
        foreign: now.foreign.saturating_sub(before.foreign),
        dropped_by_receiver: now
            .dropped_by_receiver
            .saturating_sub(before.dropped_by_receiver),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_port_dropped_has_not_left() {
        let sent = |given, tx_dropped, not_sent, intended_pps| Sent {
            given,
            not_sent,
            intended_pps,
            port: Counters {
                tx_dropped,
                ..Counters::default()
            },
            ..Sent::default()
        };
        for (sent, left, limited) in [
            (sent(1000, 0, 0, Some(1e3)), 1000, false),
            (sent(1000, 5, 0, Some(1e3)), 995, false),
            (sent(1000, 6, 0, Some(1e3)), 994, true),
            (sent(998, 2, 2, Some(1e3)), 996, false),
            (sent(998, 4, 2, Some(1e3)), 994, true),
            (sent(1000, 0, 9000, None), 1000, false),
            (sent(1000, 1000, 0, None), 0, true),
            // a frame of somebody else's that was dropped is not a frame of ours that left
            (sent(10, 11, 0, Some(1e3)), 0, true),
            (sent(0, 0, 0, None), 0, false),
        ] {
            assert_eq!(
                (sent.left(), sent.is_limited()),
                (left, limited),
                "{sent:?}"
            );
        }
        // dropped, tried again, and gone
        let mut again = sent(100, 40, 0, Some(1e3));
        again.port.tx_packets = 100;
        assert_eq!((again.dropped(), again.left()), (0, 100));
        again.port.tx_packets = 90;
        assert_eq!((again.dropped(), again.left()), (10, 90));
    }
}
