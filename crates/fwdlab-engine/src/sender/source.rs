//! The frames of a trial and their due times: one interface for test frames and profiles.
//!
//! A sender reads the clock, passes the time to a [`Source`], and takes the due frames one by one.
//! Nothing here knows sockets. Start with [`Source`]; [`Slot`] describes the previous contents of a
//! buffer.

use fwdlab_packet::{FrameTemplate, Order, Signature, Walk};

use super::warp::{LoadWarp, Straight, Warp};
use crate::error::EngineError;
use crate::generator::Schedule;
use crate::pacer::{
    CATCH_UP, Curve, Even, FINE, FRACTION, LONGEST_NS, Lag, Pacer, Plan, StallPolicy, gap,
};
use crate::signature::{self, SignaturePlace};
use crate::traffic::player::{NextFrame, Player, Room, Slot};
use crate::traffic::share::Share;
use crate::traffic::{Frames, TestFrames, TrafficFrames};
use fwdlab_model::procedure::Stretch;

/// Maximum memory of cached frames, so that they and their rings fit a second-level cache.
pub(crate) const CACHE_BYTES: usize = 1 << 20;
/// Maximum number of cached frames: each has its own descriptor or message header.
const CACHE_FRAMES: u64 = 16_384;

/// The backlog is at most a second of a load.
const MOST_GIVEN_UP: u64 = 1 << 24;

/// The frames of one trial, in order, each at its time.
pub trait Source {
    /// Sets the time to `now_ns` (CLOCK_MONOTONIC) and drops frames that are too late. Returns
    /// `None` if nothing is due, otherwise the lateness of the oldest frame; always 0 at full
    /// speed.
    fn set_time(&mut self, now_ns: u64) -> Option<u64>;

    /// Moves to the path of the next frame, counted from the selected one, and returns it.
    fn turn(&mut self) -> usize;

    /// Returns true if there is another frame that was due at the last
    /// [`set_time`](Self::set_time), for the path that [`turn`](Self::turn) returned.
    fn has_next(&self) -> bool;

    /// Returns the lane of the next frame. Frames that must not overtake each other have the same
    /// lane: those of one flow.
    fn lane(&self) -> u32;

    /// Writes the next frame; there must be one, see [`has_next`](Self::has_next).
    fn write(&mut self, buffer: &mut [u8], slot: &mut Slot);

    /// Writes the frames for which [`has_next`](Self::has_next) is true, until there is no more
    /// room.
    fn fill(&mut self, room: &mut impl Room)
    where
        Self: Sized,
    {
        fill_one_by_one(self, room);
    }

    /// Skips the next frame: the sender has it cached.
    fn skip(&mut self);

    /// Returns a lower bound of the time until the next frame is due.
    fn idle_ns(&self, _now_ns: u64) -> u64 {
        0
    }

    /// Returns true if no more frames will come.
    fn has_ended(&self) -> bool;

    /// Called when the time is over at `now_ns`. Returns true if frames still leave; otherwise
    /// those that were planned and not taken will never leave.
    fn goes_on(&mut self, now_ns: u64) -> bool;

    /// Ends the trial, perhaps early: the backlog will never leave.
    fn end(&mut self);

    /// Returns the frames that were due and will never leave.
    fn not_sent(&self) -> u64;

    /// Returns the frames that were missed and have left since.
    fn made_up(&self) -> u64;

    /// Changes the load from `now_ns` on.
    fn set_load(&mut self, load_pps: f64, now_ns: u64);

    /// Changes the rate of each stream from `now_ns` on; test frames have no streams.
    fn set_rates(&mut self, _rates: &[f64], _now_ns: u64) {}
}

fn fill_one_by_one(frames: &mut impl Source, room: &mut impl Room) {
    while frames.has_next() {
        let Some((buffer, mut slot)) = room.next() else {
            return;
        };
        frames.write(buffer, &mut slot);
        room.filled(slot);
    }
}

/// A frame that is sent repeatedly without changes.
#[derive(Debug, Clone)]
pub struct Cached {
    /// Its length and stream.
    pub slot: Slot,
    /// The frame without FCS.
    pub bytes: Vec<u8>,
}

/// Properties of the frames that a sender needs before a trial.
#[derive(Debug)]
pub struct Outline {
    /// Bytes of the longest frame.
    pub buffer_len: usize,
    /// Number of streams that are counted; 0 for test frames.
    pub streams: usize,
    /// Number of paths.
    pub paths: usize,
    /// All frames, if they repeat and take no more than 1 MiB.
    pub cycle: Option<Vec<Cached>>,
    /// How to recognise our frames.
    pub(crate) signed: Signed,
}

/// How to read the stream and number of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed {
    nonce: u16,
    place: Option<SignaturePlace>,
}

impl Signed {
    /// Returns stream and number of a frame; `None` if it has no signature.
    pub(crate) fn number(self, frame: &[u8]) -> Option<(u16, u64)> {
        let signature = signature::find(frame, signature::network(frame)?, self.place?)?;
        let signature = Signature::read(signature).filter(|s| s.nonce == self.nonce)?;
        Some((signature.stream, signature.sequence))
    }
}

impl Outline {
    /// Returns the frames that repeat, each with its own number as its kind, for engines whose
    /// buffers keep their frames.
    pub fn numbered(&self) -> Option<Vec<Cached>> {
        let number = |(number, cached): (u32, &Cached)| Cached {
            slot: Slot {
                kind: Some(number),
                ..cached.slot
            },
            bytes: cached.bytes.clone(),
        };
        let cycle = self.cycle.as_ref()?;
        Some((0..).zip(cycle).map(number).collect())
    }

    /// Examines the frames, and renders them if they can be cached.
    pub(crate) fn from_frames(frames: &Frames, share: Share) -> Result<Outline, EngineError> {
        match frames {
            Frames::Test(frames) => Ok(Outline {
                buffer_len: frames.template.buffer_len(),
                streams: 0,
                paths: 1,
                cycle: None,
                signed: Signed {
                    nonce: frames.nonce,
                    place: Some(SignaturePlace::UdpPayload),
                },
            }),
            Frames::Traffic(frames) => {
                let mut player = Player::of_share(frames, None, share)?;
                Ok(Outline {
                    buffer_len: player.buffer_len(),
                    streams: player.streams(),
                    paths: paths(frames),
                    // each port steps through its own cache, and would take frames of another port
                    cycle: match paths(frames) {
                        1 => cycle(&mut player),
                        _ => None,
                    },
                    signed: Signed {
                        nonce: frames.nonce,
                        place: frames.traffic.place(),
                    },
                })
            }
        }
    }
}

/// Returns the number of paths that the frames go into.
pub(crate) fn paths(frames: &TrafficFrames) -> usize {
    let paths = frames.traffic.streams.iter().map(|stream| stream.path + 1);
    paths.max().unwrap_or(1)
}

fn cycle(player: &mut Player) -> Option<Vec<Cached>> {
    let frames = player.cycle().filter(|&frames| frames <= CACHE_FRAMES)?;
    let mut buffer = vec![0; player.buffer_len()];
    let mut room = CACHE_BYTES;
    let mut cycle = vec![];
    for _ in 0..frames {
        let upcoming = player.upcoming()?;
        let bytes = player.take(&mut buffer, None, 0);
        // an extra cache line, because the frame may not be aligned
        room = room.checked_sub(bytes.next_multiple_of(64) + 64)?;
        cycle.push(Cached {
            slot: Slot {
                bytes: bytes as u32,
                stream: upcoming.stream,
                kind: None,
            },
            bytes: buffer[..bytes].to_vec(),
        });
    }
    Some(cycle)
}

/// Test frames at planned times.
pub(crate) struct TestSource<P = Even> {
    template: FrameTemplate,
    walk: Walk,
    flows: u32,
    lane: u32,
    /// Number of senders, modulo the number of flows.
    lane_step: u32,
    signature: Signature,
    pacer: Option<Pacer<P>>,
    left: u64,
    due: u64,
}

impl TestSource {
    /// Test frames at one load, or at full speed.
    pub(crate) fn new(frames: &TestFrames, schedule: &Schedule, share: Share) -> TestSource {
        let length_ns = length_ns(schedule);
        let pacer = |pps| Pacer::new(pps, schedule.stall_policy, 0, length_ns);
        let pacer = schedule.load.peak_pps().map(pacer);
        TestSource::paced(frames, schedule, pacer, share)
    }
}

impl TestSource<Curve> {
    /// Test frames with a load over time.
    pub(crate) fn over(
        stretches: &[Stretch],
        frames: &TestFrames,
        schedule: &Schedule,
        share: Share,
    ) -> TestSource<Curve> {
        let pacer = Pacer::over(stretches, schedule.stall_policy, 0, length_ns(schedule));
        TestSource::paced(frames, schedule, Some(pacer), share)
    }
}

impl<P: Plan> TestSource<P> {
    fn paced(
        frames: &TestFrames,
        schedule: &Schedule,
        pacer: Option<Pacer<P>>,
        share: Share,
    ) -> TestSource<P> {
        let (first, every) = (share.first(0), u64::from(share.of));
        let flows = frames.flows.len();
        TestSource {
            template: frames.template.clone(),
            walk: frames.flows.walk(Order::Sequential).every(first, every),
            flows: flows as u32,
            lane: (first % flows) as u32,
            lane_step: (every % flows) as u32,
            signature: Signature {
                nonce: frames.nonce,
                stream: share.id(0),
                ..Signature::default()
            },
            pacer: pacer.map(|pacer| pacer.every(first, every)),
            left: schedule.frames.unwrap_or(u64::MAX),
            due: 0,
        }
    }

    /// Sets the due time of the first frame.
    pub(crate) fn starting(mut self, start_ns: u64) -> TestSource<P> {
        self.pacer = self.pacer.map(|pacer| pacer.starting(start_ns));
        self
    }
}

impl<P: Plan> Source for TestSource<P> {
    #[inline]
    fn set_time(&mut self, now_ns: u64) -> Option<u64> {
        let Some(pacer) = &mut self.pacer else {
            self.signature.timestamp_ns = now_ns;
            self.due = self.left;
            return (self.due > 0).then_some(0);
        };
        let oldest_ns = pacer.departure_ns();
        self.due = pacer.due(now_ns).min(self.left);
        (self.due > 0).then(|| now_ns.saturating_sub(oldest_ns))
    }

    #[inline]
    fn turn(&mut self) -> usize {
        0
    }

    #[inline]
    fn has_next(&self) -> bool {
        self.due > 0
    }

    #[inline]
    fn lane(&self) -> u32 {
        self.lane
    }

    #[inline]
    fn write(&mut self, buffer: &mut [u8], slot: &mut Slot) {
        if let Some(pacer) = &mut self.pacer {
            self.signature.timestamp_ns = pacer.intended_ns();
            pacer.taken(1);
        }
        self.due -= 1;
        self.left -= 1;
        self.lane += self.lane_step;
        if self.lane >= self.flows {
            self.lane -= self.flows;
        }
        let flow = self.walk.next().expect("a walk is endless");
        if slot.kind.is_some() {
            self.template.patch(buffer, &flow, &self.signature);
        } else {
            self.template.write(buffer, &flow, &self.signature);
            *slot = Slot {
                bytes: self.template.buffer_len() as u32,
                stream: 0,
                kind: Some(0),
            };
        }
        self.signature.sequence += 1;
    }

    /// At full speed, what is the same for all frames is done once.
    #[inline]
    fn fill(&mut self, room: &mut impl Room) {
        if self.pacer.is_some() {
            return fill_one_by_one(self, room);
        }
        let filled = Slot {
            bytes: self.template.buffer_len() as u32,
            stream: 0,
            kind: Some(0),
        };
        let mut due = self.due;
        while due > 0
            && let Some((buffer, slot)) = room.next()
        {
            let flow = self.walk.next().expect("a walk is endless");
            match slot.kind {
                Some(_) => self.template.patch(buffer, &flow, &self.signature),
                None => self.template.write(buffer, &flow, &self.signature),
            }
            room.filled(filled);
            self.signature.sequence += 1;
            due -= 1;
        }
        let taken = self.due - due;
        self.due = due;
        self.left -= taken;
        let flows = u64::from(self.flows);
        let steps = taken % flows * u64::from(self.lane_step);
        self.lane = ((u64::from(self.lane) + steps) % flows) as u32;
    }

    fn skip(&mut self) {
        unreachable!("test frames are never the same");
    }

    fn has_ended(&self) -> bool {
        self.left == 0
    }

    fn goes_on(&mut self, now_ns: u64) -> bool {
        self.pacer
            .as_mut()
            .is_some_and(|pacer| pacer.goes_on(now_ns))
    }

    fn end(&mut self) {
        // if all frames were sent, nothing is owed
        if let Some(pacer) = self.pacer.as_mut().filter(|_| self.left > 0) {
            pacer.abandon();
        }
    }

    fn not_sent(&self) -> u64 {
        self.pacer.as_ref().map_or(0, Pacer::not_sent)
    }

    fn made_up(&self) -> u64 {
        self.pacer.as_ref().map_or(0, Pacer::made_up)
    }

    fn set_load(&mut self, load_pps: f64, now_ns: u64) {
        if let Some(pacer) = &mut self.pacer {
            P::set_load(pacer, load_pps, now_ns);
        }
    }
}

fn whole_gap(load_pps: f64) -> u64 {
    ((gap(load_pps) >> FINE) as u64).max(1)
}

/// Returns the duration of a trial.
fn length_ns(schedule: &Schedule) -> u64 {
    schedule.at_most.as_nanos().min(LONGEST_NS.into()) as u64
}

/// The frames of a profile. All streams catch up on missed frames together: the player's time is
/// delayed, and then runs faster until it has caught up.
pub(crate) struct TrafficSource<W = Straight> {
    player: Player,
    warp: W,
    start_ns: u64,
    /// A frame planned later than this does not leave: a nanosecond before the end.
    last: u64,
    /// The part of the load that this sender has: 1 for a single one.
    part: f64,
    /// This sender's load, if there is one.
    load_pps: Option<f64>,
    /// The mean time between frames; missed time is counted in multiples of it.
    gap: u64,
    stall_policy: StallPolicy,
    lag: Lag,
    left: u64,
    /// Frames that are due up to here leave, as of the last look; all of them at full speed.
    until: u64,
    /// The current path.
    turn: usize,
    now_ns: u64,
    overtime: bool,
    given_up: u64,
}

impl TrafficSource {
    /// Frames at one load, which is the player's, or at full speed.
    pub(crate) fn new(player: Player, schedule: &Schedule) -> TrafficSource {
        let load_pps = schedule.load.peak_pps();
        let gap = load_pps.map_or(1, |pps| whole_gap(pps * player.part_of_load()));
        let straight = Straight { moved: 0 };
        TrafficSource::with(player, straight, gap, schedule)
    }
}

impl TrafficSource<LoadWarp> {
    /// Frames with a load over time.
    pub(crate) fn over(
        stretches: &[Stretch],
        frames: &TrafficFrames,
        schedule: &Schedule,
        share: Share,
    ) -> Result<TrafficSource<LoadWarp>, EngineError> {
        let (player, bent) = LoadWarp::new(stretches, frames, share)?;
        Ok(TrafficSource::with(player, bent, 1, schedule))
    }
}

impl<W: Warp> TrafficSource<W> {
    fn with(player: Player, warp: W, gap: u64, schedule: &Schedule) -> TrafficSource<W> {
        let load_pps = schedule.load.peak_pps();
        let part = player.part_of_load();
        TrafficSource {
            part,
            player,
            warp,
            start_ns: 0,
            last: length_ns(schedule).saturating_sub(1) << FRACTION,
            load_pps: load_pps.map(|load_pps| load_pps * part),
            gap,
            stall_policy: schedule.stall_policy,
            lag: Lag::new(schedule.stall_policy, load_pps.unwrap_or(f64::MAX)),
            left: schedule.frames.unwrap_or(u64::MAX),
            until: 0,
            turn: 0,
            now_ns: 0,
            overtime: false,
            given_up: 0,
        }
    }

    /// Sets the start of its time.
    pub(crate) fn starting(mut self, start_ns: u64) -> TrafficSource<W> {
        (self.start_ns, self.now_ns) = (start_ns, start_ns);
        self
    }

    #[inline]
    fn is_due(&self) -> bool {
        self.left > 0
            && self.player.due().is_some_and(|due| {
                self.slot(due) <= self.until && (!self.overtime || self.is_planned(due))
            })
    }

    fn units(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.start_ns).min(LONGEST_NS) << FRACTION
    }

    /// Returns the departure of a frame that the player has due at `due`.
    #[inline]
    fn slot(&self, due: u64) -> u64 {
        self.warp.planned(due).wrapping_add(self.lag.time())
    }

    /// Returns the intended departure of the next frame: see [`StallPolicy::CatchUp`].
    #[inline]
    fn intended_ns(&mut self, next: NextFrame) -> u64 {
        let planned = self.warp.planned(next.due);
        let intended = self.lag.intended(planned) - self.player.waited();
        self.start_ns + (intended >> FRACTION)
    }

    /// Returns true if it is planned for a time before the end.
    fn is_planned(&self, due: u64) -> bool {
        self.warp.is_due_by(due, self.last)
    }

    /// Advances after the departure of a frame that was due at `due`.
    #[inline]
    fn advance(&mut self, due: u64) {
        self.left -= 1;
        if let Some(next) = self.player.due() {
            self.lag.advance(1, self.warp.step(due, next));
        }
    }

    /// Handles a frame that is too late to catch up at once, or a change of the load.
    #[cold]
    fn miss(&mut self, late: u64, elapsed: u64) {
        if !self.lag.makes_up() {
            let now = elapsed.wrapping_sub(self.lag.time());
            return self.warp.forgive(&mut self.player, now);
        }
        let missed = late / self.gap * self.gap;
        self.lag.lengthen(missed);
        self.lag
            .record_stall(elapsed - late, elapsed - late + missed);
        self.drop_excess();
    }

    /// Changes the sender's load to this one; `missed` is the gap between owed frames.
    fn change(
        &mut self,
        load_pps: f64,
        missed: u128,
        now_ns: u64,
        player: impl FnOnce(&mut Player, u64),
    ) {
        let (Some(before), Some(_)) = (self.load_pps, self.warp.moved()) else {
            return;
        };
        let now = self.units(now_ns);
        let due = self.player.due();
        if let Some(due) = due
            && let Some(late) = now.checked_sub(self.slot(due))
            && self.lag.makes_up()
        {
            self.miss(late, now);
        }
        // the backlog leaves as before, and the other frames after it
        let planned = due.map(|due| self.warp.planned(due));
        let of_player = self.warp.player_time(now.wrapping_sub(self.lag.time()));
        player(&mut self.player, of_player);
        (self.load_pps, self.gap) = (Some(load_pps), whole_gap(load_pps));
        let (lag, relief) = (
            self.lag.time(),
            self.stall_policy.relief(load_pps / self.part),
        );
        self.lag.change(relief, gap(before), missed);
        if let Some(moved) = self.warp.moved() {
            *moved += lag as i64 - self.lag.time() as i64;
        }
        if let (Some(planned), Some(due)) = (planned, self.player.due()) {
            self.lag.replan(planned, self.warp.planned(due));
        }
        self.drop_excess();
    }

    /// Limits the backlog of endless streams to a second's load. A stream with a fixed number of
    /// frames sends all of them, however late.
    fn drop_excess(&mut self) {
        self.give_up_while(|source, _| source.lag.excess() > 0 && !source.player.is_counted());
    }

    /// Drops frames while `holds` is true for the next one and its planned time.
    fn give_up_while(&mut self, holds: impl Fn(&Self, u64) -> bool) {
        // streams that start each other without a delay are always due
        for _ in 0..self.left.min(MOST_GIVEN_UP) {
            let Some(due) = self.player.due().filter(|&due| holds(self, due)) else {
                break;
            };
            self.player.skip();
            let next = self.player.due().unwrap_or(due);
            self.lag.shorten(self.warp.step(due, next));
            self.given_up += 1;
        }
    }
}

impl<W: Warp> Source for TrafficSource<W> {
    #[inline]
    fn set_time(&mut self, now_ns: u64) -> Option<u64> {
        self.now_ns = now_ns;
        if self.load_pps.is_none() {
            self.until = u64::MAX;
            return self.is_due().then_some(0);
        }
        self.until = self.units(now_ns);
        let late = self.until.checked_sub(self.slot(self.player.due()?))?;
        if late > CATCH_UP {
            self.miss(late, self.until);
        }
        self.is_due().then_some(late >> FRACTION)
    }

    #[inline]
    fn turn(&mut self) -> usize {
        self.turn = self.player.path();
        self.turn
    }

    #[inline]
    fn has_next(&self) -> bool {
        self.is_due() && self.player.path() == self.turn
    }

    #[inline]
    fn lane(&self) -> u32 {
        self.player.upcoming().map_or(0, |upcoming| upcoming.stream)
    }

    #[inline]
    fn write(&mut self, buffer: &mut [u8], slot: &mut Slot) {
        let Some(upcoming) = self.player.upcoming() else {
            return;
        };
        let timestamp_ns = if self.load_pps.is_some() {
            self.intended_ns(upcoming)
        } else {
            self.now_ns
        };
        *slot = Slot {
            bytes: self.player.take(buffer, slot.kind, timestamp_ns) as u32,
            stream: upcoming.stream,
            kind: Some(upcoming.kind),
        };
        self.advance(upcoming.due);
    }

    #[inline]
    fn fill(&mut self, room: &mut impl Room) {
        // at full speed there are no due times, and frames of one kind all change at the same
        // offsets
        if self.load_pps.is_some() || !self.player.is_uniform() {
            return fill_one_by_one(self, room);
        }
        if self.has_next() {
            self.left -= self.player.fill(self.left, self.now_ns, room);
        }
    }

    #[inline]
    fn skip(&mut self) {
        match self.player.due().filter(|_| self.load_pps.is_some()) {
            Some(due) => {
                self.player.skip();
                self.advance(due);
            }
            // cached frames never end; at full speed, their times do not matter
            None => self.left -= 1,
        }
    }

    fn idle_ns(&self, now_ns: u64) -> u64 {
        // a paused stream waits for an order
        let due = self.player.due().map_or(u64::MAX, |due| self.slot(due));
        due.saturating_sub(self.units(now_ns)) >> FRACTION
    }

    fn has_ended(&self) -> bool {
        self.left == 0 || self.player.due().is_none() && !self.player.has_paused_stream()
    }

    fn goes_on(&mut self, now_ns: u64) -> bool {
        let (Some(due), Some(_)) = (self.player.due(), self.load_pps) else {
            return false;
        };
        self.overtime = true;
        if self.is_planned(due) {
            let left = self.last.wrapping_sub(self.warp.planned(due));
            let late = self.units(now_ns).saturating_sub(self.last);
            if self.lag.fits(left, late) {
                return true;
            }
            self.give_up_while(Self::is_planned);
        }
        self.lag.settle();
        false
    }

    fn end(&mut self) {
        let (Some(due), Some(_)) = (self.player.due(), self.load_pps) else {
            return;
        };
        // if all frames were sent, nothing is owed
        let until = self.slot(due);
        self.give_up_while(|source, due| source.lag.time() > 0 && source.warp.planned(due) < until);
        self.lag.settle();
    }

    fn not_sent(&self) -> u64 {
        self.player.not_sent() + self.given_up
    }

    fn made_up(&self) -> u64 {
        self.lag.made_up()
    }

    fn set_load(&mut self, load_pps: f64, now_ns: u64) {
        // paused streams have no load
        if self.player.due().is_some() {
            let player = |player: &mut Player, now| player.set_load(load_pps, now);
            let own_pps = load_pps * self.part;
            self.change(own_pps, gap(own_pps), now_ns, player);
        }
    }

    fn set_rates(&mut self, rates: &[f64], now_ns: u64) {
        let Some(before) = self.load_pps else { return };
        let sum = self.player.own_load_pps(rates);
        let load_pps = if sum > 0.0 { sum } else { before };
        // if the load is lower from now on, the backlog must not replace frames of paused streams
        let due = gap(load_pps).min(gap(before));
        let player = |player: &mut Player, now| player.set_rates(rates, now);
        self.change(load_pps, due, now_ns, player);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LoadPlan;
    use crate::traffic::{Emission, Kind, Stream, Timing, Traffic, TrafficFrames};
    use fwdlab_packet::modifier::{Instruction, Program};
    use std::time::Duration;

    const START: u64 = 5_000_000_000;
    const MS: u64 = 1_000_000;
    const MAKE_UP: StallPolicy = StallPolicy::CatchUp { most_pps: None };

    /// Buffers of which a part has room; every third holds no frame.
    struct Rooms {
        all: Vec<(Vec<u8>, Slot)>,
        at: usize,
        end: usize,
    }

    impl Room for Rooms {
        fn next(&mut self) -> Option<(&mut [u8], Slot)> {
            let has_room = self.at < self.end;
            let (buffer, slot) = &mut self.all[self.at];
            has_room.then_some((buffer, *slot))
        }

        fn filled(&mut self, slot: Slot) {
            self.all[self.at].1 = slot;
            self.at += 1;
        }
    }

    /// Filled in parts, with several senders and fewer flows than those: the frames, lanes and ends
    /// are those of frames that are written one by one.
    #[test]
    fn test_frames_are_the_same_filled_or_written() {
        for (flows, of, most) in [
            (7, 1, None),
            (7, 5, Some(50)),
            (3, 5, None),
            (1, 2, Some(10)),
        ] {
            let share = Share { sender: of - 1, of };
            let schedule = Schedule {
                load: LoadPlan::FlatOut,
                frames: most,
                at_most: Duration::from_secs(1),
                stall_policy: MAKE_UP,
                path: 0,
            };
            let frames = crate::testing::test_frames(flows);
            let source = || TestSource::new(&frames, &schedule, share).starting(START);
            let (mut filling, mut writing) = (source(), source());
            let template = vec![0; frames.template.buffer_len()];
            let mut rooms = Rooms {
                all: vec![(template.clone(), Slot::EMPTY); 65],
                at: 0,
                end: 0,
            };
            let mut written = rooms.all.clone();
            // what a buffer holds after the first frame stays when it is forgotten
            for turn in 0..3 {
                rooms.at = 0;
                for end in [1, 8, 64] {
                    let now_ns = START + turn * MS + end as u64;
                    assert_eq!(filling.set_time(now_ns), writing.set_time(now_ns));
                    let first = rooms.at;
                    rooms.end = end;
                    filling.fill(&mut rooms);
                    for (buffer, slot) in &mut written[first..end] {
                        if writing.has_next() {
                            writing.write(buffer, slot);
                        }
                    }
                    assert_eq!(rooms.all, written);
                    assert_eq!(filling.lane(), writing.lane(), "{flows} {of}");
                    assert_eq!(filling.has_next(), writing.has_next());
                    assert_eq!(filling.has_ended(), writing.has_ended());
                }
                for number in (0..64).step_by(3) {
                    rooms.all[number].1 = Slot::EMPTY;
                    written[number].1 = Slot::EMPTY;
                }
            }
            assert_eq!(filling.has_ended(), most.is_some());
        }
    }

    /// 20 frames at 1 Mpps and a pause of 1 ms, repeated, which start another stream; and one
    /// continuous stream.
    fn chain() -> Player {
        let stream = |id: u16, rate_pps, mode, next| Stream {
            id,
            name: id.to_string(),
            kinds: vec![Kind {
                template: vec![0; 60],
                program: Program::default(),
                place: None,
            }],
            pattern: vec![0],
            timing: Timing {
                waits: id == 1,
                next,
                ..Timing::new(rate_pps, mode)
            },
            path: 0,
        };
        let bursts = Emission::Bursts {
            frames: 20,
            pause_ns: MS,
            bursts: Some(2),
        };
        let frames = TrafficFrames {
            traffic: Traffic {
                name: "chain".into(),
                streams: vec![
                    stream(0, 1e6, bursts, Some(1)),
                    stream(1, 1e5, Emission::Burst { frames: 30 }, Some(0)),
                    stream(2, 1e4, Emission::Continuous, None),
                ],
            }
            .into(),
            nonce: 1,
        };
        Player::new(&frames, Some(1_110_000.0)).expect("traffic that can be played")
    }

    fn source(stall_policy: StallPolicy, at_most: u64, frames: Option<u64>) -> TrafficSource {
        let schedule = Schedule {
            load: LoadPlan::Constant(1_110_000.0),
            frames,
            at_most: Duration::from_nanos(at_most),
            stall_policy,
            path: 0,
        };
        TrafficSource::new(chain(), &schedule).starting(START)
    }

    /// Returns streams and departures (ns after the start) of a sender that looks every 100 ns and
    /// sleeps once.
    fn play(
        source: &mut TrafficSource,
        at_most: u64,
        sleep: Option<(u64, u64)>,
    ) -> Vec<(u32, u64)> {
        let (mut now, mut sleep) = (START, sleep);
        let mut left = vec![];
        while !source.has_ended() && (now < START + at_most || source.goes_on(now)) {
            if source.set_time(now).is_some() {
                while source.has_next() {
                    let due = source.player.due().expect("there is a next");
                    left.push((source.lane(), source.slot(due) >> FRACTION));
                    source.skip();
                }
            }
            now += 100;
            if let Some((_, long)) = sleep.take_if(|(at, _)| now >= START + *at) {
                now += long;
            }
        }
        left
    }

    #[test]
    fn chains_and_bursts_are_delayed_as_a_whole_and_catch_up() {
        let streams = |played: &[(u32, u64)]| -> Vec<u32> { played.iter().map(|p| p.0).collect() };
        let planned = play(&mut source(MAKE_UP, 300 * MS, None), 300 * MS, None);
        let mut stalled = source(MAKE_UP, 300 * MS, None);
        let played = play(&mut stalled, 300 * MS, Some((10 * MS, 20 * MS)));
        assert_eq!(streams(&played), streams(&planned));
        assert_eq!(stalled.not_sent(), 0);
        assert!(stalled.made_up() > 0);
        for (number, (played, planned)) in played.iter().zip(&planned).enumerate() {
            let lag = played.1 - planned.1;
            // at most 20 ms; a third of the time since then has been made up
            let expected = match planned.1 {
                at if at < 10 * MS => 0,
                at => (20 * MS).saturating_sub((at - 10 * MS) / 4),
            };
            assert!(
                lag.abs_diff(expected) <= MS,
                "frame {number}, planned for {} ns, leaves {lag} ns later, not {expected}",
                planned.1
            );
        }
        for (played, planned) in played.windows(2).zip(planned.windows(2)) {
            let (gap, own) = (played[1].1 - played[0].1, planned[1].1 - planned[0].1);
            assert!(gap + 1 >= own * 3 / 4, "{gap} ns in place of {own}");
        }
    }

    /// Returns when frames are planned, leave, and are intended to leave (ns after the start), for
    /// a sender that looks every 100 ns and stalls from 10 to 30 ms and, while it catches up, from
    /// 40 to 45 ms.
    fn times_with_two_stalls(source: &mut TrafficSource) -> Vec<(u64, u64, u64)> {
        let (mut now, mut frames) = (START, vec![]);
        while now < START + 150 * MS {
            if source.set_time(now).is_some() {
                while source.has_next() {
                    let next = source.player.upcoming().expect("there is a next");
                    let planned = next.due >> FRACTION;
                    let leaves = source.slot(next.due) >> FRACTION;
                    let intended = source.intended_ns(next) - START;
                    frames.push((planned, leaves, intended));
                    source.skip();
                }
            }
            now += match now - START {
                at if at == 10 * MS => 20 * MS,
                at if at == 40 * MS => 5 * MS,
                _ => 100,
            };
        }
        frames
    }

    #[test]
    fn frames_of_chains_wait_for_the_end_of_the_stall_in_which_they_were_due() {
        let frames = times_with_two_stalls(&mut source(MAKE_UP, 150 * MS, None));
        for &(planned, leaves, intended) in &frames {
            let expected = match planned {
                at if (10 * MS..30 * MS).contains(&at) => 30 * MS - at,
                at if (40 * MS..45 * MS).contains(&at) => 45 * MS - at,
                _ => 0,
            };
            let waited = leaves - intended;
            assert!(
                waited.abs_diff(expected) <= 2000,
                "planned for {planned} ns, waited {waited} ns, not {expected}"
            );
        }
        assert!(frames.iter().any(|frame| frame.1 - frame.2 > 19 * MS));
    }

    /// Frames of endless streams are dropped. A stream with a fixed number of frames sends all of
    /// them later, and those that were due have waited.
    #[test]
    fn forgiven_groups_report_their_wait() {
        let mut source = source(StallPolicy::Skip, 150 * MS, None);
        let frames = times_with_two_stalls(&mut source);
        let late: Vec<u64> = (frames.iter().map(|(_, leaves, intended)| leaves - intended))
            .filter(|waited| *waited > 0)
            .collect();
        // the next of its group was due right after 10 ms, and so were the others; their pause was
        // over long before 30 ms
        assert!(
            late.first().is_some_and(|first| *first > 18 * MS),
            "{late:?}"
        );
        assert!(late.len() > 1 && source.not_sent() > 0, "{late:?}");
        for pair in frames.windows(2) {
            assert!(pair[0].1 <= pair[1].1, "frames leave in their order");
        }
    }

    /// Together with an endless stream, whose backlog is limited to a second's load.
    #[test]
    fn a_burst_sends_all_its_frames_however_late() {
        let stream = |mode| Stream {
            id: 0,
            name: "burst".into(),
            kinds: vec![Kind {
                template: vec![0; 60],
                program: Program::default(),
                place: None,
            }],
            pattern: vec![0],
            timing: Timing::new(1e5, mode),
            path: 0,
        };
        let burst = Emission::Burst { frames: 1000 };
        for modes in [&[burst][..], &[burst, Emission::Continuous]] {
            let frames = TrafficFrames {
                traffic: Traffic {
                    name: "bursts".into(),
                    streams: modes.iter().map(|mode| stream(*mode)).collect(),
                }
                .into(),
                nonce: 1,
            };
            let load_pps = 1e5 * modes.len() as f64;
            let schedule = Schedule {
                load: LoadPlan::Constant(load_pps),
                frames: None,
                at_most: Duration::from_secs(3600),
                stall_policy: MAKE_UP,
                path: 0,
            };
            let player = Player::new(&frames, Some(load_pps)).expect("traffic that can be played");
            let mut source = TrafficSource::new(player, &schedule).starting(START);
            let played = play(&mut source, 3020 * MS, Some((5 * MS, 3000 * MS)));
            let of_burst = played.iter().filter(|(stream, _)| *stream == 0).count();
            assert_eq!((of_burst, modes.len() > 1), (1000, source.not_sent() > 0));
            assert!(source.made_up() > 0);
        }
    }

    #[test]
    fn missed_frames_at_the_end_are_sent_or_counted() {
        let planned = play(&mut source(MAKE_UP, 300 * MS, None), 300 * MS, None).len() as u64;
        for (sleep, all) in [((290 * MS, 40 * MS), true), ((100 * MS, 190 * MS), false)] {
            let mut source = source(MAKE_UP, 300 * MS, None);
            let sent = play(&mut source, 300 * MS, Some(sleep)).len() as u64;
            assert_eq!((sent + source.not_sent(), sent == planned), (planned, all));
        }
        // stopped early
        let mut source = source(MAKE_UP, 300 * MS, None);
        source.set_time(START + 100 * MS);
        source.end();
        let due = planned_until(100 * MS);
        assert!(
            source.not_sent().abs_diff(due) <= 100,
            "{} of {due}",
            source.not_sent()
        );
        assert_eq!(source.made_up(), 0);
    }

    fn planned_until(at_most: u64) -> u64 {
        play(&mut source(MAKE_UP, at_most, None), at_most, None).len() as u64
    }

    /// Buffers for a number of frames, and what was written.
    struct Heap {
        left: usize,
        buffers: Vec<(Vec<u8>, Slot)>,
        frames: Vec<(Vec<u8>, u32)>,
    }

    impl Room for Heap {
        fn next(&mut self) -> Option<(&mut [u8], Slot)> {
            let turn = self.frames.len() % self.buffers.len();
            let (buffer, slot) = &mut self.buffers[turn];
            (self.left > 0).then_some((buffer, *slot))
        }

        fn filled(&mut self, slot: Slot) {
            let turn = self.frames.len() % self.buffers.len();
            let (buffer, held) = &mut self.buffers[turn];
            *held = slot;
            let frame = buffer[..slot.bytes as usize].to_vec();
            self.frames.push((frame, slot.stream));
            self.left -= 1;
        }
    }

    /// At full speed with one kind and with two, and with a load: batches contain the same frames
    /// as single calls.
    #[test]
    fn batches_are_the_same_frames() {
        let signed = |byte| Kind {
            template: vec![byte; 60],
            program: Program {
                instructions: vec![Instruction::Signature { offset: 20 }],
                ..Program::default()
            },
            place: None,
        };
        for (kinds, load_pps) in [(1, None), (2, None), (1, Some(1e6))] {
            let stream = Stream {
                id: 7,
                name: "signed".into(),
                kinds: (0..kinds).map(signed).collect(),
                pattern: (0..u16::from(kinds)).collect(),
                timing: Timing::new(1e6, Emission::Continuous),
                path: 0,
            };
            let traffic = Traffic {
                name: "one stream".into(),
                streams: vec![stream],
            };
            let frames = TrafficFrames {
                traffic: traffic.into(),
                nonce: 1,
            };
            let schedule = Schedule {
                load: load_pps.into(),
                frames: Some(1000),
                at_most: Duration::from_secs(1),
                stall_policy: StallPolicy::Skip,
                path: 0,
            };
            let source = || {
                let player = Player::new(&frames, load_pps).expect("traffic that can be played");
                let player = match load_pps {
                    Some(_) => player,
                    None => player.without_times(),
                };
                TrafficSource::new(player, &schedule).starting(START)
            };
            assert_eq!(
                source().player.is_uniform(),
                kinds == 1 && load_pps.is_none()
            );
            let fresh = || Heap {
                left: 0,
                buffers: vec![(vec![0; 64], Slot::EMPTY); 5],
                frames: vec![],
            };
            let (mut one_by_one, mut batches) = (source(), source());
            let (mut expected, mut filled) = (fresh(), fresh());
            let mut batch = [0, 1, 64, 3, 31].into_iter().cycle();
            let mut now = START;
            while !batches.has_ended() {
                now += 20_000;
                let room = batch.next().unwrap_or(1);
                (expected.left, filled.left) = (room, room);
                one_by_one.set_time(now);
                batches.set_time(now);
                fill_one_by_one(&mut one_by_one, &mut expected);
                batches.fill(&mut filled);
                assert_eq!(filled.frames, expected.frames);
                assert_eq!(batches.left, one_by_one.left);
            }
            assert_eq!(filled.frames.len(), 1000);
        }
    }

    #[test]
    fn a_fixed_number_of_frames_is_sent_in_spite_of_stalls() {
        for stall_policy in [MAKE_UP, StallPolicy::Skip] {
            let mut source = source(stall_policy, 3000 * MS, Some(5000));
            let sent = play(&mut source, 3000 * MS, Some((10 * MS, 20 * MS)));
            source.end();
            assert_eq!(sent.len(), 5000);
            assert_eq!(source.not_sent() > 0, stall_policy == StallPolicy::Skip);
        }
    }

    #[test]
    fn a_change_of_load_keeps_the_number_of_missed_frames() {
        // half the rates: a backlog of 10 ms becomes 20 ms, except for pauses
        let mut source = source(MAKE_UP, 1000 * MS, None);
        play_until(&mut source, 10 * MS);
        source.set_time(START + 30 * MS);
        let (due, missed) = (source.player.due().unwrap(), source.lag.time() / source.gap);
        let slot = source.slot(due);
        assert!(missed > 20_000, "{missed}");
        source.set_load(555_000.0, START + 30 * MS);
        // not earlier, and less than a gap later
        let moved = source.slot(source.player.due().unwrap()) - slot;
        assert!(moved >> FRACTION <= 1000, "{moved}");
        assert_eq!(source.lag.time() / source.gap, missed);
        assert_eq!(source.not_sent(), 0);
    }

    fn play_until(source: &mut TrafficSource, until: u64) {
        for now in (START..START + until).step_by(100) {
            source.set_time(now);
            while source.has_next() {
                source.skip();
            }
        }
    }
}
