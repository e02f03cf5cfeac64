//! Schedule arithmetic for the senders: told the time, a [`Pacer`] says how many frames are due, and [`HoldUps`] what becomes
//! of those that a sender missed.
//!
//! It reads no clock, sends nothing and cannot wait, so that its tests are arithmetic. The rule is the one of
//! `bpf/schedule.h`, so that all engines keep the same schedule (`tests/schedule.rs` compares the two). Start with
//! [`HoldUps`] and [`Pacer::due`]; what is planned for when is a [`Plan`]: one load, or a [`Curve`] of loads. Streams with
//! different rates are the business of [`crate::traffic::player`], which uses the same gaps and, in the socket senders, the same
//! [`Lag`].

mod curve;
mod plan;

use fwdlab_model::procedure::Stretch;
use serde::{Deserialize, Serialize};

pub use self::curve::{Curve, MOST_PPS};
pub use self::plan::{Even, Plan};

/// A sender that was held up for longer has missed frames. What it owes for less leaves at once: a longer debt that is paid in
/// a burst fills the DUT's ring (256 frames, 100 us at 2.5 Mpps): the mean would be right and the load wrong.
pub(crate) const CATCH_UP_US: u32 = 100;

/// The same in the unit of schedules.
pub(crate) const CATCH_UP: u64 = (CATCH_UP_US as u64 * 1000) << FRACTION;

/// What a sender does about frames that it missed because it was held up for more than 100 us: the system gave its CPU to
/// somebody else, or the port refused them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum HoldUps {
    /// All but the newest frame will never leave, and are counted as not sent. The load is never above the intended one, and
    /// below it in the mean: for trials whose result is what a DUT loses at a load.
    Forgive,
    /// The schedule is put off by as much, and catches up: gaps are a quarter shorter until nothing is owed. The mean is
    /// exact, and the load at no time more than a third above the intended one. For everything else.
    ///
    /// - Of what is owed, no more than a second's load is kept; the rest is not sent.
    /// - What is owed at the end of the sending time leaves right after it, if that takes less than 100 ms; or it is not sent.
    /// - When the sender is stopped, what is owed is not sent.
    /// - When the load changes, as many frames stay owed.
    ///
    /// A frame that was due while the sender was held up has waited from its own time until that was over, and its intended
    /// departure is earlier by this wait than when it leaves. Leaving later because gaps are only a quarter shorter is what the
    /// sender chose, for the DUT's sake, and no wait: a hold-up of 100 ms at 10 kpps is in the latencies of the 1000 frames that
    /// were due in it, from 100 ms down to nothing, and not in those of the 3000 that were due later and leave while it is made up.
    ///
    /// Note: gaps half as long would pay back three times as soon, and overload every DUT that is loaded with more than
    /// half of what it can do. With gaps of 7/8 a sender that loses more than an eighth of the time never catches up, and on
    /// shared machines that happens.
    MakeUp {
        /// Never faster than this: the line rate of an emulated link. At this load nothing can be made up.
        most_pps: Option<f64>,
    },
}

impl HoldUps {
    /// By which part of itself a gap is shorter while frames are owed, in 1/65536; 0: nothing is made up.
    pub(crate) fn relief(self, load_pps: f64) -> u32 {
        match self {
            HoldUps::Forgive => 0,
            HoldUps::MakeUp { most_pps } => {
                let room = most_pps.map_or(1.0, |most| 1.0 - load_pps / most);
                (room.clamp(0.0, 0.25) * 65536.0) as u32
            }
        }
    }

    /// The name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            HoldUps::Forgive => "forgive",
            HoldUps::MakeUp { .. } => "make-up",
        }
    }
}

/// More than this is not owed, in the unit of schedules: who was stopped for an hour does not send faster for three.
const MOST_OWED: u64 = 1_000_000_000 << FRACTION;

/// What is owed at the end leaves within this time after it, or not at all.
pub(crate) const OVERTIME_NS: u64 = 100_000_000;

/// The same in the unit of schedules.
const OVERTIME: u64 = OVERTIME_NS << FRACTION;

/// Hold-ups that are told apart as long as not all frames that were due in them have left; of more, the last ones count as one, with
/// what lies between them. A sender beside three other processes on its CPU has some 60 in a second, and owes no more than that.
const HOLD_UPS: usize = 16;

/// Frames that are planned from one time to another were due while the sender was held up, and waited until a third: the end of the
/// hold-up, which is the second, unless the load has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waited {
    from: u64,
    to: u64,
    until: u64,
}

/// How far a schedule is behind its plan, and how it catches up. A frame leaves at its planned time and the lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// In 1/65536 ns.
    time: u64,
    relief: u32,
    /// Is the sending time over, so that every frame is one that was missed?
    over: bool,
    /// Frames that were missed and have left since, in 1/65536: of four that leave in the time of three, one.
    made_up: u64,
    /// Hold-ups whose frames have not all left, a ring: the oldest, and how many there are.
    hold_ups: [Waited; HOLD_UPS],
    oldest: usize,
    kept: usize,
}

impl Lag {
    pub(crate) fn new(hold_ups: HoldUps, load_pps: f64) -> Lag {
        Lag {
            time: 0,
            relief: hold_ups.relief(load_pps),
            over: false,
            made_up: 0,
            hold_ups: [Waited {
                from: 0,
                to: 0,
                until: 0,
            }; HOLD_UPS],
            oldest: 0,
            kept: 0,
        }
    }

    /// The lag itself.
    #[inline]
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Are missed frames made up?
    #[inline]
    pub(crate) fn makes_up(&self) -> bool {
        self.relief > 0
    }

    /// Frames have left, and the next is planned so much later than the first of them.
    #[inline]
    pub(crate) fn advance(&mut self, frames: u64, step: u64) {
        if self.over {
            self.made_up += frames << 16;
        } else if self.time > 0 {
            self.made_up += frames.saturating_mul(self.relief.into());
        }
        if self.time > 0 {
            self.shorten(self.part(step));
        }
    }

    /// What was planned for a time that, made up as long as frames are owed, takes so long.
    fn unmade(&self, time: u64) -> u64 {
        let rest = u128::from(65_536 - self.relief);
        ((u128::from(time) << 16) / rest)
            .try_into()
            .unwrap_or(u64::MAX)
    }

    /// By how much such a step is shorter while frames are owed.
    fn part(&self, step: u64) -> u64 {
        let relief = u64::from(self.relief);
        (step >> 16) * relief + (((step & 0xffff) * relief) >> 16)
    }

    /// All that is left leaves so much later.
    pub(crate) fn lengthen(&mut self, time: u64) {
        self.time = self.time.saturating_add(time);
    }

    /// What was planned for so long will never leave, and the rest no later for it.
    pub(crate) fn shorten(&mut self, time: u64) {
        self.time = self.time.saturating_sub(time);
    }

    /// By how much the lag is too long: what is planned for that time is to be forgiven.
    pub(crate) fn excess(&self) -> u64 {
        self.time.saturating_sub(MOST_OWED)
    }

    /// The sender was held up: what should have left at the first of these times leaves at the second, and the rest after it.
    pub(crate) fn held_up(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        if self.kept == HOLD_UPS {
            let newest = &mut self.hold_ups[(self.oldest + self.kept - 1) % HOLD_UPS];
            (newest.to, newest.until) = (to, to);
            return;
        }
        let until = to;
        self.hold_ups[(self.oldest + self.kept) % HOLD_UPS] = Waited { from, to, until };
        self.kept += 1;
    }

    /// The intended departure of the next frame, which is planned then: when it leaves, less what it waited for the end of the
    /// hold-up in which it was due.
    #[inline]
    pub(crate) fn intended(&mut self, planned: u64) -> u64 {
        let leaves = planned.wrapping_add(self.time);
        if self.kept == 0 {
            return leaves;
        }
        leaves.wrapping_sub(self.wait(planned))
    }

    #[cold]
    fn wait(&mut self, planned: u64) -> u64 {
        while self.kept > 0 {
            let held_up = self.hold_ups[self.oldest];
            if planned < held_up.from {
                break;
            }
            if planned < held_up.to {
                return held_up.until.saturating_sub(planned);
            }
            self.oldest = (self.oldest + 1) % HOLD_UPS;
            self.kept -= 1;
        }
        0
    }

    /// Gaps change, and as many frames stay owed.
    pub(crate) fn change(&mut self, relief: u32, from: u128, to: u128) {
        self.relief = relief;
        if self.time > 0 {
            let time = scaled(u128::from(self.time) << FINE, to as f64 / from as f64);
            self.time = (time >> FINE) as u64;
        }
    }

    /// Gaps have changed, and the next frame is planned for another time than before. The longest wait stays as long as it was, and all
    /// that is owed counts as due in one hold-up: other waits are told too long where the load rises, too short where it falls.
    pub(crate) fn replan(&mut self, before: u64, planned: u64) {
        let waits = (0..self.kept).map(|at| {
            let held_up = self.hold_ups[(self.oldest + at) % HOLD_UPS];
            held_up.until.saturating_sub(held_up.from.max(before))
        });
        let longest = waits.max().unwrap_or(0);
        (self.oldest, self.kept) = (0, usize::from(longest > 0));
        self.hold_ups[0] = Waited {
            from: planned,
            to: planned.saturating_add(self.time),
            until: planned.saturating_add(longest),
        };
    }

    /// Can what is left, from the next frame to the end, be made up now that it is so late after the end?
    pub(crate) fn fits(&mut self, left: u64, late: u64) -> bool {
        self.over = true;
        self.makes_up() && late.saturating_add(left - self.part(left)) <= OVERTIME
    }

    /// Frames that were missed and have left since.
    pub(crate) fn made_up(&self) -> u64 {
        self.made_up >> 16
    }

    /// Nothing is owed any more.
    pub(crate) fn settle(&mut self) {
        (self.time, self.kept) = (0, 0);
    }
}

/// Schedules count 1/65536 ns after the start: 2^64 of them are 78 hours.
pub(crate) const FRACTION: u32 = 16;

/// No schedule is longer, in nanoseconds.
pub(crate) const LONGEST_NS: u64 = u64::MAX >> FRACTION;

/// Times that are added up have 64 bits behind that unit, so that a frame a year from now is due when it should be.
///
/// Note: without them 14.88 Mpps are wrong by 5 * 10^-8, which nobody would see; but streams whose rates are multiples of
/// each other would leave step.
pub(crate) const FINE: u32 = 64;

/// The time between frames, in 1/65536 ns with [`FINE`] more bits: at least one unit, at most 78 hours. A rate that is not a
/// positive number gives the longest gap.
pub(crate) fn gap(rate_pps: f64) -> u128 {
    const LONGEST: u128 = (u64::MAX as u128) << FINE;
    const SHORTEST: u128 = 1 << FINE;
    const SECOND: u128 = (1_000_000_000 << FRACTION) << FINE;
    // the range in which nothing below overflows: 36 hours to a unit
    if rate_pps.is_nan() || rate_pps < 1.0 / 131_072.0 {
        return LONGEST;
    }
    if rate_pps > 1e14 {
        return SHORTEST;
    }
    let (mantissa, exponent) = parts(rate_pps);
    let (whole, rest) = (SECOND / mantissa, SECOND % mantissa);
    if exponent >= 0 {
        whole >> exponent
    } else {
        (whole << -exponent) + (rest << -exponent) / mantissa
    }
    .clamp(SHORTEST, LONGEST)
}

/// A gap that is `factor` times as long, to the last bit: gaps that are multiples of each other stay so. A factor that is not
/// a positive number gives the longest gap.
pub(crate) fn scaled(gap: u128, factor: f64) -> u128 {
    const LONGEST: u128 = (u64::MAX as u128) << FINE;
    if factor.is_nan() || factor <= 0.0 || factor > 1e15 {
        return LONGEST;
    }
    let mantissa = u128::from(factor.to_bits() & ((1 << 52) - 1) | 1 << 52);
    // at least 3: the factor is below 2^50
    let shift = 1075 - (factor.to_bits() >> 52) as u32;
    let (high, low) = (
        (gap >> 64) * mantissa,
        (gap & u128::from(u64::MAX)) * mantissa,
    );
    let high = match shift.checked_sub(64) {
        Some(right) => high.checked_shr(right).unwrap_or(0),
        None if high.leading_zeros() > 64 - shift => high << (64 - shift),
        None => return LONGEST,
    };
    high.saturating_add(low.checked_shr(shift).unwrap_or(0))
        .clamp(1 << FINE, LONGEST)
}

/// A positive number as an odd integer times a power of two.
fn parts(number: f64) -> (u128, i32) {
    let mantissa = number.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let zeros = mantissa.trailing_zeros();
    let exponent = (number.to_bits() >> 52) as i32 - 1075 + zeros as i32;
    (u128::from(mantissa >> zeros), exponent)
}

/// The departure times of one trial's frames.
///
/// The schedule advances by what is planned and not by the time of sending, so that the mean is exact: frame n is planned when
/// n frames are due of the load since the start, those [not sent](Self::not_sent) counted, and leaves then or, when frames are
/// made up, some time later.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pacer<P = Even> {
    start_ns: u64,
    /// A frame that is planned later than this does not leave: a nanosecond before the end.
    last: u64,
    hold_ups: HoldUps,
    plan: P,
    lag: Lag,
    not_sent: u64,
}

impl Pacer {
    /// A schedule of `load_pps` frames per second, the first of them at `start_ns` and the last before `end_ns`.
    ///
    /// The gap is at least 1/65536 ns and at most 78 hours. A load that is not a positive number gives the longest gap.
    pub fn new(load_pps: f64, hold_ups: HoldUps, start_ns: u64, end_ns: u64) -> Pacer {
        Pacer::following(Even::new(load_pps), load_pps, hold_ups, start_ns, end_ns)
    }

    /// Another load from `now_ns` on. Of the time to the next frame as much is left as has not passed, at the new load; of what
    /// was due before and was not taken, one frame is due now, and of the others becomes what [`HoldUps`] says.
    pub fn set_load(&mut self, load_pps: f64, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.start_ns) << FRACTION;
        self.miss(elapsed);
        let now = fine(elapsed);
        let gap = gap(load_pps);
        let slot = self.plan.next + fine(self.lag.time);
        let slot = match slot.checked_sub(now) {
            Some(left) if left > 0 => now.saturating_add(self.plan.rest(left, gap)),
            _ => now,
        };
        (self.lag).change(self.hold_ups.relief(load_pps), self.plan.gap, gap);
        self.plan.gap = gap;
        // nothing is planned for before the start
        let before = self.lag.time.saturating_sub((slot >> FINE) as u64);
        let dropped = self.plan.frames(self.lag.excess().max(before));
        self.lag.shorten(self.plan.time(dropped));
        self.not_sent += dropped;
        let before = self.plan.next();
        self.plan.next = slot - fine(self.lag.time);
        self.lag.replan(before, self.plan.next());
    }
}

impl Pacer<Curve> {
    /// A schedule of a load that changes ([`Curve::new`]), from `start_ns` on and to before `end_ns`. What is missed is made up
    /// as if the load was at its peak all the time: never faster than the link carries.
    pub fn over(
        stretches: &[Stretch],
        hold_ups: HoldUps,
        start_ns: u64,
        end_ns: u64,
    ) -> Pacer<Curve> {
        let ends = stretches.iter().flat_map(|s| [s.from_pps, s.to_pps]);
        let peak_pps = ends.fold(0.0, f64::max);
        Pacer::following(Curve::new(stretches), peak_pps, hold_ups, start_ns, end_ns)
    }
}

impl<P: Plan> Pacer<P> {
    fn following(
        plan: P,
        peak_pps: f64,
        hold_ups: HoldUps,
        start_ns: u64,
        end_ns: u64,
    ) -> Pacer<P> {
        Pacer {
            start_ns,
            last: end_ns
                .saturating_sub(start_ns)
                .saturating_sub(1)
                .min(LONGEST_NS)
                << FRACTION,
            hold_ups,
            plan,
            lag: Lag::new(hold_ups, peak_pps),
            not_sent: 0,
        }
    }

    /// The same schedule with another start.
    pub(crate) fn starting(mut self, start_ns: u64) -> Pacer<P> {
        self.start_ns = start_ns;
        self
    }

    /// How many frames are due at `now_ns`, those not [`taken`](Self::taken) since they were due included.
    ///
    /// When the oldest of them has been due for more than 100 us, only the newest is, and of the others becomes what
    /// [`HoldUps`] says.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> u64 {
        let Some(elapsed) = now_ns.checked_sub(self.start_ns) else {
            return 0;
        };
        let elapsed = elapsed << FRACTION;
        let Some(behind) = elapsed.checked_sub(self.slot()) else {
            return 0;
        };
        if behind > CATCH_UP {
            self.miss(elapsed);
            return 1;
        }
        let Some(frames) = self.plan.followers(elapsed.min(self.last)) else {
            return 0;
        };
        if self.lag.time == 0 {
            return frames + 1;
        }
        frames.min(self.plan.overdue(behind, &self.lag)) + 1
    }

    /// All frames that are due but the newest were missed.
    #[cold]
    fn miss(&mut self, elapsed: u64) {
        let now = elapsed.saturating_sub(self.lag.time);
        let missed = self.plan.all_followers(now).unwrap_or(0);
        if self.lag.makes_up() {
            let from = self.slot();
            self.lag.lengthen(self.plan.time(missed));
            self.lag.held_up(from, self.slot());
            self.forgive(self.plan.frames(self.lag.excess()));
        } else {
            self.forgive(missed);
        }
    }

    /// When the oldest frame not taken leaves, CLOCK_MONOTONIC.
    #[inline]
    pub fn departure_ns(&self) -> u64 {
        self.start_ns + (self.slot() >> FRACTION)
    }

    /// Its intended departure, which is in its signature and from which its latency counts: the same, less what it waited because
    /// the sender was held up when it was due ([`HoldUps::MakeUp`]).
    #[inline]
    pub fn intended_ns(&mut self) -> u64 {
        self.start_ns + (self.lag.intended(self.plan.next()) >> FRACTION)
    }

    /// The sender has taken care of so many due frames.
    #[inline]
    pub fn taken(&mut self, frames: u64) {
        let step = self.plan.advance(frames);
        self.lag.advance(frames, step);
    }

    /// The time is over at `now_ns`. Does anything still leave? Otherwise what was planned and not taken will never leave.
    pub fn goes_on(&mut self, now_ns: u64) -> bool {
        let Some(left) = self.last.checked_sub(self.plan.next()) else {
            self.lag.settle();
            return false;
        };
        let Some(followers) = self.plan.all_followers(self.last) else {
            self.lag.settle();
            return false;
        };
        let now = now_ns.saturating_sub(self.start_ns) << FRACTION;
        let late = now.saturating_sub(self.last);
        if self.lag.fits(left, late) {
            return true;
        }
        self.forgive(followers + 1);
        self.lag.settle();
        false
    }

    /// The sender is stopped before the end: what is owed will never leave.
    pub fn abandon(&mut self) {
        self.forgive(self.plan.frames(self.lag.time));
    }

    /// Frames that were due and will never leave.
    pub fn not_sent(&self) -> u64 {
        self.not_sent
    }

    /// Frames that were missed and have left since.
    pub fn made_up(&self) -> u64 {
        self.lag.made_up()
    }

    fn slot(&self) -> u64 {
        self.plan.next().saturating_add(self.lag.time)
    }

    fn forgive(&mut self, frames: u64) {
        self.not_sent += frames;
        let time = self.plan.time(frames);
        self.plan.advance(frames);
        self.lag.shorten(time);
    }
}

/// A time in the unit of sums.
fn fine(time: u64) -> u128 {
    u128::from(time) << FINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    const MAKE_UP: HoldUps = HoldUps::MakeUp { most_pps: None };

    fn forgiving(load_pps: f64) -> Pacer {
        Pacer::new(load_pps, HoldUps::Forgive, START, u64::MAX)
    }

    /// Runs for a second of simulated time, looking at the clock every `step_ns`; returns what was sent and forgiven.
    fn second(load_pps: f64, step_ns: u64) -> (u64, u64) {
        let mut pacer = forgiving(load_pps);
        let mut sent = 0;
        for now in (START..START + SECOND).step_by(step_ns as usize) {
            let due = pacer.due(now);
            pacer.taken(due);
            sent += due;
        }
        (sent, pacer.not_sent())
    }

    #[test]
    fn nothing_before_the_start_and_one_frame_at_the_start() {
        let mut pacer = forgiving(1e6);
        assert_eq!(pacer.due(0), 0);
        assert_eq!(pacer.due(START - 1), 0);
        assert_eq!(pacer.due(START), 1);
        pacer.taken(1);
        assert_eq!(pacer.due(START + 999), 0);
        assert_eq!(pacer.due(START + 1000), 1);
    }

    #[test]
    fn the_mean_is_exact_at_any_load_and_clock_step() {
        for (load, step) in [(10e3, 700), (50e3, 13), (1.8e6, 333), (14_880_952.0, 977)] {
            let (sent, not_sent) = second(load, step);
            assert_eq!(not_sent, 0);
            // frames become due until the last look at the clock, less than a step before the end
            let expected = load * (1.0 - step as f64 / 1e9);
            assert!(
                (expected - 1.0..=load + 1.0).contains(&(sent as f64)),
                "{sent} of {load} at steps of {step} ns"
            );
        }
    }

    #[test]
    fn frames_that_could_not_be_taken_stay_due() {
        let mut pacer = forgiving(1e6);
        assert_eq!(pacer.due(START + 9_000), 10);
        pacer.taken(3);
        assert_eq!(pacer.due(START + 9_000), 7);
        assert_eq!(pacer.not_sent(), 0);
    }

    #[test]
    fn a_short_hold_up_is_caught_up_and_a_longer_one_forgiven() {
        let mut pacer = forgiving(1e6);
        assert_eq!(pacer.due(START + 100_000), 101);
        assert_eq!(pacer.not_sent(), 0);

        let mut pacer = forgiving(1e6);
        assert_eq!(pacer.due(START + 100_001), 1);
        assert_eq!(pacer.not_sent(), 100);
        pacer.taken(1);
        // and the schedule goes on where it would be
        assert_eq!(pacer.due(START + 100_999), 0);
        assert_eq!(pacer.due(START + 101_000), 1);
    }

    #[test]
    fn sent_and_forgiven_together_are_the_intended_load() {
        // every look at the clock but the first comes too late
        let (sent, not_sent) = second(1e6, 200_000);
        assert_eq!(sent, 5000);
        assert_eq!(sent + not_sent, 999_801);
    }

    /// 1.6374 Mpps have gaps of whole units and a part, and the hold-up ends about when the schedule does: with whole units alone
    /// one frame of 193,000 was counted too many.
    #[test]
    fn a_long_hold_up_is_counted_to_the_frame() {
        const LENGTH: u64 = 277_427_629;
        for hold_ups in [HoldUps::Forgive, MAKE_UP] {
            for late in 0..30 {
                let mut pacer = Pacer::new(1_637_400.0, hold_ups, START, START + LENGTH);
                let at = 159_308_755;
                let sleep = (at, LENGTH - at + late - 10);
                let sent = departures(&mut pacer, LENGTH, 100, &[sleep]).len() as u64;
                assert_eq!(sent + pacer.not_sent(), 454_260, "{hold_ups:?}, {late}");
            }
        }
    }

    #[test]
    fn gaps_are_exact() {
        let second = 1_000_000_000_u128 << FRACTION << FINE;
        assert_eq!(gap(1.0), second);
        assert_eq!(gap(1e6), second / 1_000_000);
        assert_eq!(gap(14_880_952.0), second / 14_880_952);
        assert_eq!(gap(0.5), second * 2);
        assert_eq!(gap(2.75), second * 4 / 11);
        assert_eq!(gap(12_345.125), second * 8 / 98_761);
        assert_eq!(gap(f64::from(1 << 30)), second >> 30);
        for factor in [1.0, 0.25, 8.0, 1000.0, 1.0 / 1024.0] {
            assert_eq!(scaled(gap(1e3), factor), gap(1e3 / factor), "{factor}");
        }
    }

    proptest! {
        /// A day at any load: the last frame is due to a unit where the exact fraction says.
        #[test]
        fn nothing_adds_up(rate in 1_u32..200_000_000, eighths in 0_u32..8) {
            let rate = f64::from(rate) + f64::from(eighths) / 8.0;
            let frames = (rate * 86_400.0) as u128;
            let exact = (frames * 8 * (1_000_000_000 << FRACTION)) / (rate * 8.0) as u128;
            let at = (gap(rate) * frames) >> FINE;
            prop_assert!(exact - at <= 1, "{exact} {at}");
        }

        #[test]
        fn gaps_that_are_multiples_stay_multiples(
            rate in 1_u32..1_000_000, times in 2_u32..1000, factor in 1e-6..1e6_f64,
        ) {
            let (long, short) = (gap(rate.into()), gap(f64::from(rate) * f64::from(times)));
            let (long, short) = (scaled(long, factor), scaled(short, factor));
            // both are rounded down to 2^-64 of a unit
            let off = long.abs_diff(short * u128::from(times));
            prop_assert!(short == 1 << FINE || off <= 4 * u128::from(times) * (factor.ceil() as u128), "{off}");
        }
    }

    #[test]
    fn a_new_load_leaves_no_gap_and_no_debt() {
        let mut pacer = forgiving(1e3);
        assert_eq!(pacer.due(START), 1);
        pacer.taken(1);
        // a quarter of the millisecond has passed: three quarters of the new one are left
        pacer.set_load(8e3, START + 250_000);
        assert_eq!(pacer.due(START + 343_749), 0);
        assert_eq!(pacer.due(START + 343_750), 1);
        assert_eq!(pacer.departure_ns(), START + 343_750);
        pacer.taken(1);
        assert_eq!(pacer.due(START + 468_750), 1);
        // two frames are due: one is forgiven, and the new load begins with the other
        pacer.set_load(1e6, START + 593_750);
        assert_eq!(pacer.not_sent(), 1);
        assert_eq!(pacer.due(START + 593_750), 1);
        assert_eq!(pacer.due(START + 594_750), 2);
    }

    #[test]
    fn absurd_loads_do_not_overflow() {
        for load in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            let mut pacer = forgiving(load);
            pacer.due(START);
            pacer.taken(u64::MAX);
            assert_eq!(pacer.due(START + SECOND), 0, "{load}");
        }
    }

    /// A sender that looks at the clock every `step_ns`, takes all that is due, and sleeps at some times; until the end of a
    /// schedule of `length_ns` and as long after it as it goes on. Returns the departures in ns after the start.
    fn departures(
        pacer: &mut Pacer,
        length_ns: u64,
        step_ns: u64,
        sleeps: &[(u64, u64)],
    ) -> Vec<u64> {
        let (mut now, mut sleeps) = (START, sleeps.iter());
        let mut sleep = sleeps.next();
        let mut departures = vec![];
        while now < START + length_ns || pacer.goes_on(now) {
            for _ in 0..pacer.due(now) {
                departures.push(pacer.departure_ns() - START);
                pacer.taken(1);
            }
            now += step_ns;
            if let Some((at, long)) = sleep.filter(|(at, _)| now >= START + at) {
                now = START + at + long;
                sleep = sleeps.next();
            }
        }
        departures
    }

    #[test]
    fn a_hold_up_is_made_up_with_gaps_a_quarter_shorter() {
        const MS: u64 = 1_000_000;
        let mut pacer = Pacer::new(1e6, MAKE_UP, START, START + 200 * MS);
        let departures = departures(&mut pacer, 200 * MS, 250, &[(10 * MS, 20 * MS)]);
        assert_eq!(departures.len(), 200_000);
        assert_eq!((pacer.not_sent(), pacer.made_up()), (0, 20_000));
        // frames 0 to 9999 in time, the others from 30 ms on until they have caught up after 60 ms, and then in time again
        let expected = |frame: u64| match frame {
            0..10_000 => frame * 1000,
            10_000..90_000 => 30 * MS + (frame - 10_000) * 750,
            _ => frame * 1000,
        };
        for (frame, &departure) in (0..).zip(&departures) {
            assert!(
                departure.abs_diff(expected(frame)) <= 1000,
                "frame {frame} leaves after {departure} ns, not {}",
                expected(frame)
            );
        }
        assert!(departures.windows(2).all(|pair| pair[1] - pair[0] >= 749));
    }

    /// The second hold-up comes while the first is made up: each is in what the frames waited that were due in it, and in nothing else.
    #[test]
    fn frames_wait_for_the_end_of_the_hold_up_in_which_they_were_due() {
        const MS: u64 = 1_000_000;
        let mut pacer = Pacer::new(1e5, MAKE_UP, START, START + 200 * MS);
        let held_up = [(10 * MS, 30 * MS), (40 * MS, 45 * MS)];
        let (mut now, mut frame) = (START, 0);
        while now < START + 200 * MS {
            let mut due = pacer.due(now);
            while due > 0 {
                let planned = frame * 10_000;
                let waited = pacer.departure_ns() - pacer.intended_ns();
                let begun = held_up
                    .iter()
                    .find(|(from, to)| (*from..*to).contains(&planned));
                let expected = match begun {
                    // a hold-up begins when the next frame should have left
                    Some((from, _)) if planned - from < 10_000 => waited,
                    Some((_, to)) => to - planned,
                    None => 0,
                };
                assert!(
                    waited.abs_diff(expected) <= 20_000,
                    "frame {frame} waited {waited} ns, not {expected}"
                );
                pacer.taken(1);
                frame += 1;
                due -= 1;
            }
            now += 1000;
            if let Some((from, to)) = held_up.iter().find(|(from, _)| now == START + from) {
                now += to - from;
            }
        }
        assert_eq!((frame, pacer.not_sent()), (20_000, 0));
        assert_eq!(pacer.lag.kept, 0);
    }

    /// Of more hold-ups than are told apart the last ones are one: nothing that waited is said to have waited less.
    #[test]
    fn many_hold_ups_are_not_forgotten() {
        const MS: u64 = 1_000_000;
        let mut pacer = Pacer::new(1e5, MAKE_UP, START, u64::MAX);
        let mut now = START;
        let mut held_up = vec![];
        for _ in 0..100 {
            while pacer.due(now) > 0 {
                pacer.taken(1);
                now += 1000;
            }
            held_up.push((now - START, now - START + 5 * MS));
            now += 5 * MS;
        }
        // longer than all before it: whoever was due then is still owed
        let mut frame = ((pacer.plan.next >> FINE) as u64 >> FRACTION) / 10_000;
        while pacer.due(now) > 0 {
            let (planned, intended) = (frame * 10_000, pacer.intended_ns() - START);
            let waited = pacer.departure_ns() - START - intended;
            let begun = held_up
                .iter()
                .find(|(from, to)| (from + 10_000..*to).contains(&planned));
            let expected = begun.map_or(0, |(_, to)| to - planned);
            assert!(
                waited + 20_000 >= expected,
                "frame {frame}: {waited} of {expected}"
            );
            assert!(
                intended + 1 >= planned,
                "frame {frame} is intended before its time"
            );
            pacer.taken(1);
            frame += 1;
            now += 7500;
        }
        assert!(frame > 10_000);
    }

    #[test]
    fn the_longest_wait_survives_a_change_of_the_load() {
        for load in [1e4, 1e6] {
            let mut pacer = Pacer::new(1e5, MAKE_UP, START, u64::MAX);
            pacer.due(START);
            pacer.taken(1);
            assert_eq!(pacer.due(START + 100_000_000), 1);
            pacer.set_load(load, START + 100_000_000);
            // the frame after the first was due after 10 us
            let waited = pacer.departure_ns() - pacer.intended_ns();
            assert!(waited.abs_diff(99_990_000) <= 10_000, "{load}: {waited}");
        }
    }

    #[test]
    fn what_is_owed_at_the_end_leaves_soon_after_or_never() {
        const MS: u64 = 1_000_000;
        for (held_up, sent, made_up) in [(20, 1000, 200), (110, 1000, 900), (140, 100, 0)] {
            let mut pacer = Pacer::new(1e4, MAKE_UP, START, START + 100 * MS);
            // from 10 ms on, or from 80 ms on
            let at = if held_up > 100 { 10 } else { 80 };
            let sleep = (at * MS, held_up * MS);
            let departures = departures(&mut pacer, 100 * MS, 1000, &[sleep]);
            assert_eq!(departures.len(), sent, "{held_up} ms");
            assert_eq!(pacer.not_sent(), 1000 - sent as u64, "{held_up} ms");
            assert_eq!(pacer.made_up(), made_up, "{held_up} ms");
            assert!(departures.last().unwrap() / MS <= 200);
        }
    }

    #[test]
    fn a_second_is_owed_at_most_and_who_is_stopped_owes_nothing() {
        let mut pacer = Pacer::new(1e6, MAKE_UP, START, u64::MAX);
        assert_eq!(pacer.due(START + 60 * SECOND), 1);
        assert_eq!(pacer.not_sent(), 59_000_000);
        pacer.taken(1);
        pacer.abandon();
        // the frame that has left was one of four
        assert_eq!((pacer.not_sent(), pacer.made_up()), (60_000_000, 0));
        assert_eq!(pacer.departure_ns(), START + 60 * SECOND + 1000);
    }

    #[test]
    fn a_link_is_never_overloaded() {
        let held = |most| {
            HoldUps::MakeUp {
                most_pps: Some(most),
            }
            .relief(1e6)
        };
        assert_eq!(held(1e6), 0);
        assert_eq!(held(0.9e6), 0);
        assert_eq!(held(1.25e6), 13107);
        assert_eq!(held(1e7), 16384);
        assert_eq!(MAKE_UP.relief(1e6), 16384);
    }

    #[test]
    fn as_many_frames_are_owed_when_the_load_changes() {
        let mut pacer = Pacer::new(1e5, MAKE_UP, START, u64::MAX);
        assert_eq!(pacer.due(START + 10_000_000), 1);
        pacer.set_load(1e6, START + 10_000_000);
        assert_eq!(
            pacer.lag.time.div_ceil((pacer.plan.gap >> FINE) as u64),
            1000
        );
        let now = pacer.departure_ns();
        pacer.taken(1);
        assert_eq!(pacer.departure_ns(), now + 750);
        // of 1000 frames at 100 pps a second's are owed, and no more than fit into the time that has passed
        pacer.set_load(100.0, START + 10_000_750);
        assert_eq!(pacer.lag.time.div_ceil((pacer.plan.gap >> FINE) as u64), 1);
        assert_eq!(pacer.not_sent(), 999);
    }

    proptest! {
        /// Whatever happens: all that was intended was sent, or is counted.
        #[test]
        fn nothing_is_lost(
            load in 1_000_u32..3_000_000, makes_up: bool, step in 100_u64..300_000, length in 1_000_000_u64..300_000_000,
            sleeps in prop::collection::vec((0_u64..300_000_000, 0_u64..150_000_000), 0..4),
        ) {
            let mut sleeps = sleeps;
            sleeps.sort_unstable();
            let hold_ups = if makes_up { MAKE_UP } else { HoldUps::Forgive };
            let mut pacer = Pacer::new(load.into(), hold_ups, START, START + length);
            let sent = departures(&mut pacer, length, step, &sleeps).len() as u64;
            // one at the start, and one for each gap before the end
            let intended = (u128::from(length - 1) * u128::from(load) / u128::from(SECOND)) as u64 + 1;
            prop_assert_eq!(sent + pacer.not_sent(), intended);
            prop_assert!(pacer.made_up() <= sent);
        }
    }
}
