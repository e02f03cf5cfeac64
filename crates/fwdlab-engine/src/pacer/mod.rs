//! Schedule arithmetic for the senders: a [`Pacer`] returns how many frames are due at a given
//! time, and [`StallPolicy`] decides what happens to missed frames.
//!
//! It reads no clock, sends nothing and cannot wait, so its tests are arithmetic. It follows the
//! same rule as `bpf/schedule.h`, so all engines keep the same schedule (`tests/schedule.rs`
//! compares the two). Start with [`StallPolicy`] and [`Pacer::due`]; a [`Plan`] holds the planned
//! times: one load, or a [`Curve`] of loads. [`crate::traffic::player`] handles streams with
//! different rates; it uses the same gaps and, in the socket senders, the same [`Lag`].

mod curve;
mod plan;

use fwdlab_model::procedure::Stretch;
use serde::{Deserialize, Serialize};

pub use self::curve::{Curve, MOST_PPS};
pub use self::plan::{Even, Plan};

/// A sender that stalls for longer than this has missed frames. After a shorter stall the owed
/// frames leave at once: a longer burst would fill the DUT's ring (256 frames, 100 us at 2.5 Mpps),
/// so that the mean would be right but the load wrong.
pub(crate) const CATCH_UP_US: u32 = 100;

/// The same in the unit of schedules.
pub(crate) const CATCH_UP: u64 = (CATCH_UP_US as u64 * 1000) << FRACTION;

/// What a sender does about frames that it missed because it stalled for more than 100 us: another
/// process got its CPU, or the port refused the frames.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum StallPolicy {
    /// Drop all missed frames but the newest, and count them as not sent. The load never exceeds
    /// the intended one, and its mean is lower: for trials whose result is what a DUT loses at a
    /// load.
    Skip,
    /// Delay the schedule by the length of the stall, then catch up: gaps are a quarter shorter
    /// until nothing is owed. The mean is exact, and the load never exceeds the intended one by
    /// more than a third. For everything else.
    ///
    /// - At most one second's load is owed; the rest is not sent.
    /// - Frames owed at the end of the sending time leave right after it, if that takes less than
    ///   100 ms; otherwise they are not sent.
    /// - If the sender is stopped, owed frames are not sent.
    /// - If the load changes, the number of owed frames stays the same.
    ///
    /// A frame that was due during a stall has waited from its own due time to the end of the
    /// stall, and its intended departure is earlier than its real one by this wait. The additional
    /// delay from catching up slowly is the sender's choice, for the DUT's sake, and does not count
    /// as a wait: a stall of 100 ms at 10 kpps affects the latencies of the 1000 frames that were
    /// due in it, from 100 ms down to nothing, but not those of the 3000 later frames that leave
    /// while the sender catches up.
    ///
    /// Note: with half the gap the sender would catch up three times as fast, and overload every
    /// DUT that is loaded to more than half of its capacity. With 7/8 of the gap a sender that
    /// stalls for more than an eighth of the time never catches up, and that happens on shared
    /// machines.
    CatchUp {
        /// Never exceed this rate: the line rate of an emulated link. At this load nothing can be
        /// made up.
        most_pps: Option<f64>,
    },
}

impl StallPolicy {
    /// Returns by which part of itself a gap is shorter while frames are owed, in 1/65536; 0:
    /// nothing is made up.
    pub(crate) fn relief(self, load_pps: f64) -> u32 {
        match self {
            StallPolicy::Skip => 0,
            StallPolicy::CatchUp { most_pps } => {
                let room = most_pps.map_or(1.0, |most| 1.0 - load_pps / most);
                (room.clamp(0.0, 0.25) * 65536.0) as u32
            }
        }
    }

    /// Returns the name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            StallPolicy::Skip => "skip",
            StallPolicy::CatchUp { .. } => "catch-up",
        }
    }
}

/// Maximum of what is owed, in the unit of schedules: a sender that was stopped for an hour must
/// not send faster for three.
const MOST_OWED: u64 = 1_000_000_000 << FRACTION;

/// Frames owed at the end leave within this time after it, or not at all.
pub(crate) const OVERTIME_NS: u64 = 100_000_000;

/// The same in the unit of schedules.
const OVERTIME: u64 = OVERTIME_NS << FRACTION;

/// Maximum number of stalls that are tracked separately until all their frames have left; beyond
/// it, the last ones are merged, including the time between them. A sender that shares its CPU with
/// three processes stalls some 60 times a second, and owes no more than a second.
const STALLS: usize = 16;

/// The wait of one stall: frames planned between `from` and `to` were due in it, and waited until
/// `until`, the end of the stall. That equals `to` unless the load has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StallWait {
    from: u64,
    to: u64,
    until: u64,
}

/// How far a schedule is behind its plan, and how it catches up. A frame leaves at its planned time
/// plus the lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// In 1/65536 ns.
    time: u64,
    relief: u32,
    /// True once the sending time is over: every further frame was missed.
    over: bool,
    /// Frames that were missed and have left since, in 1/65536: one of four that leave in the time
    /// of three.
    made_up: u64,
    /// A ring of stalls whose frames have not all left: index of the oldest, and their number.
    stalls: [StallWait; STALLS],
    oldest: usize,
    kept: usize,
}

impl Lag {
    pub(crate) fn new(stall_policy: StallPolicy, load_pps: f64) -> Lag {
        Lag {
            time: 0,
            relief: stall_policy.relief(load_pps),
            over: false,
            made_up: 0,
            stalls: [StallWait {
                from: 0,
                to: 0,
                until: 0,
            }; STALLS],
            oldest: 0,
            kept: 0,
        }
    }

    /// Returns the lag.
    #[inline]
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Returns true if missed frames are made up.
    #[inline]
    pub(crate) fn makes_up(&self) -> bool {
        self.relief > 0
    }

    /// Accounts for frames that have left; the next one is planned `step` later than the first of
    /// them.
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

    /// Returns the planned duration that takes `time` while frames are being made up.
    fn unmade(&self, time: u64) -> u64 {
        let rest = u128::from(65_536 - self.relief);
        ((u128::from(time) << 16) / rest)
            .try_into()
            .unwrap_or(u64::MAX)
    }

    /// Returns by how much a step is shorter while frames are owed.
    fn part(&self, step: u64) -> u64 {
        let relief = u64::from(self.relief);
        (step >> 16) * relief + (((step & 0xffff) * relief) >> 16)
    }

    /// Delays all remaining frames.
    pub(crate) fn lengthen(&mut self, time: u64) {
        self.time = self.time.saturating_add(time);
    }

    /// Drops what was planned for this duration; the remaining frames are not delayed by it.
    pub(crate) fn shorten(&mut self, time: u64) {
        self.time = self.time.saturating_sub(time);
    }

    /// Returns by how much the lag exceeds its maximum: frames planned for that duration must be
    /// dropped.
    pub(crate) fn excess(&self) -> u64 {
        self.time.saturating_sub(MOST_OWED)
    }

    /// Records a stall: the frame that should have left at `from` leaves at `to`, and the others
    /// after it.
    pub(crate) fn record_stall(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        if self.kept == STALLS {
            let newest = &mut self.stalls[(self.oldest + self.kept - 1) % STALLS];
            (newest.to, newest.until) = (to, to);
            return;
        }
        let until = to;
        self.stalls[(self.oldest + self.kept) % STALLS] = StallWait { from, to, until };
        self.kept += 1;
    }

    /// Returns the intended departure of the next frame, planned for `planned`: its real departure
    /// minus its wait for the end of the stall in which it was due.
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
            let stalled = self.stalls[self.oldest];
            if planned < stalled.from {
                break;
            }
            if planned < stalled.to {
                return stalled.until.saturating_sub(planned);
            }
            self.oldest = (self.oldest + 1) % STALLS;
            self.kept -= 1;
        }
        0
    }

    /// Changes the gap; the number of owed frames stays the same.
    pub(crate) fn change(&mut self, relief: u32, from: u128, to: u128) {
        self.relief = relief;
        if self.time > 0 {
            let time = scaled(u128::from(self.time) << FINE, to as f64 / from as f64);
            self.time = (time >> FINE) as u64;
        }
    }

    /// Adjusts the waits after a change of gaps, which moved the planned time of the next frame.
    /// The longest wait is kept, and all owed frames count as due in one stall: other waits are
    /// overestimated if the load rises, and underestimated if it falls.
    pub(crate) fn replan(&mut self, before: u64, planned: u64) {
        let waits = (0..self.kept).map(|at| {
            let stalled = self.stalls[(self.oldest + at) % STALLS];
            stalled.until.saturating_sub(stalled.from.max(before))
        });
        let longest = waits.max().unwrap_or(0);
        (self.oldest, self.kept) = (0, usize::from(longest > 0));
        self.stalls[0] = StallWait {
            from: planned,
            to: planned.saturating_add(self.time),
            until: planned.saturating_add(longest),
        };
    }

    /// Returns true if the rest, from the next frame to the end, can be made up this late after the
    /// end.
    pub(crate) fn fits(&mut self, left: u64, late: u64) -> bool {
        self.over = true;
        self.makes_up() && late.saturating_add(left - self.part(left)) <= OVERTIME
    }

    /// Returns the frames that were missed and have left since.
    pub(crate) fn made_up(&self) -> u64 {
        self.made_up >> 16
    }

    /// Clears the backlog.
    pub(crate) fn settle(&mut self) {
        (self.time, self.kept) = (0, 0);
    }
}

/// Fractional bits of a schedule's nanoseconds: 1/65536 ns after the start; 2^64 of them are 78
/// hours.
pub(crate) const FRACTION: u32 = 16;

/// The longest schedule, in nanoseconds.
pub(crate) const LONGEST_NS: u64 = u64::MAX >> FRACTION;

/// Additional fractional bits of times that are added up, so that a frame a year from now is still
/// on time.
///
/// Note: without them the rate is wrong by 5 * 10^-8 at 14.88 Mpps, which would not matter; but
/// streams whose rates are multiples of each other would drift apart.
pub(crate) const FINE: u32 = 64;

/// Returns the time between frames, in 1/65536 ns with [`FINE`] more bits: at least one unit, at
/// most 78 hours. A rate that is not a positive number gives the longest gap.
pub(crate) fn gap(rate_pps: f64) -> u128 {
    const LONGEST: u128 = (u64::MAX as u128) << FINE;
    const SHORTEST: u128 = 1 << FINE;
    const SECOND: u128 = (1_000_000_000 << FRACTION) << FINE;
    // the range without overflows below: gaps from 1/65536 ns to 36 hours
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

/// Returns a gap that is `factor` times as long, exact to the last bit: gaps that are multiples of
/// each other stay so. A factor that is not a positive number gives the longest gap.
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

/// Returns a positive number as an odd integer times a power of two.
fn parts(number: f64) -> (u128, i32) {
    let mantissa = number.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let zeros = mantissa.trailing_zeros();
    let exponent = (number.to_bits() >> 52) as i32 - 1075 + zeros as i32;
    (u128::from(mantissa >> zeros), exponent)
}

/// The departure times of one trial's frames.
///
/// The schedule advances by planned times and not by the times of sending, so the mean is exact:
/// frame n is planned when n frames of the load are due since the start, including those [not
/// sent](Self::not_sent), and leaves then or, while frames are made up, some time later.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pacer<P = Even> {
    start_ns: u64,
    /// A frame planned later than this does not leave: a nanosecond before the end.
    last: u64,
    stall_policy: StallPolicy,
    plan: P,
    lag: Lag,
    not_sent: u64,
}

impl Pacer {
    /// Returns a schedule of `load_pps` frames per second, the first of them at `start_ns` and the
    /// last before `end_ns`.
    ///
    /// The gap is at least 1/65536 ns and at most 78 hours. A load that is not a positive number
    /// gives the longest gap.
    pub fn new(load_pps: f64, stall_policy: StallPolicy, start_ns: u64, end_ns: u64) -> Pacer {
        Pacer::following(
            Even::new(load_pps),
            load_pps,
            stall_policy,
            start_ns,
            end_ns,
        )
    }

    /// Changes the load from `now_ns` on. The remaining fraction of the current gap is kept, at the
    /// new load; of the frames that were due before and not taken, one is due now, and the others
    /// are treated as [`StallPolicy`] defines.
    pub fn set_load(&mut self, load_pps: f64, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.start_ns) << FRACTION;
        self.miss(elapsed);
        let now = fine(elapsed);
        let gap = gap(load_pps).saturating_mul(self.plan.senders.into());
        let slot = self.plan.next + fine(self.lag.time);
        let slot = match slot.checked_sub(now) {
            Some(left) if left > 0 => now.saturating_add(self.plan.rest(left, gap)),
            _ => now,
        };
        (self.lag).change(self.stall_policy.relief(load_pps), self.plan.gap, gap);
        self.plan.gap = gap;
        // nothing is planned before the start
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
    /// Returns a schedule of a changing load ([`Curve::new`]), from `start_ns` on and to before
    /// `end_ns`. Missed frames are made up as if the load was always at its peak: never faster than
    /// the link.
    pub fn over(
        stretches: &[Stretch],
        stall_policy: StallPolicy,
        start_ns: u64,
        end_ns: u64,
    ) -> Pacer<Curve> {
        let ends = stretches.iter().flat_map(|s| [s.from_pps, s.to_pps]);
        let peak_pps = ends.fold(0.0, f64::max);
        Pacer::following(
            Curve::new(stretches),
            peak_pps,
            stall_policy,
            start_ns,
            end_ns,
        )
    }
}

impl<P: Plan> Pacer<P> {
    fn following(
        plan: P,
        peak_pps: f64,
        stall_policy: StallPolicy,
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
            stall_policy,
            plan,
            lag: Lag::new(stall_policy, peak_pps),
            not_sent: 0,
        }
    }

    /// Returns the same schedule with another start.
    pub(crate) fn starting(mut self, start_ns: u64) -> Pacer<P> {
        self.start_ns = start_ns;
        self
    }

    /// Keeps every `every`-th frame, from number `first` on: those of one of several senders.
    #[must_use]
    pub fn every(self, first: u64, every: u64) -> Pacer<P> {
        Pacer {
            plan: self.plan.every(first, every),
            ..self
        }
    }

    /// Returns how many frames are due at `now_ns`, including earlier ones that were not
    /// [`taken`](Self::taken).
    ///
    /// If the oldest of them has been due for more than 100 us, only the newest is due, and the
    /// others are treated as [`StallPolicy`] defines.
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

    /// Handles missed frames: all due frames but the newest.
    #[cold]
    fn miss(&mut self, elapsed: u64) {
        let now = elapsed.saturating_sub(self.lag.time);
        let missed = self.plan.all_followers(now).unwrap_or(0);
        if self.lag.makes_up() {
            let from = self.slot();
            self.lag.lengthen(self.plan.time(missed));
            self.lag.record_stall(from, self.slot());
            self.forgive(self.plan.frames(self.lag.excess()));
        } else {
            self.forgive(missed);
        }
    }

    /// Returns when the oldest frame that was not taken leaves, CLOCK_MONOTONIC.
    #[inline]
    pub fn departure_ns(&self) -> u64 {
        self.start_ns + (self.slot() >> FRACTION)
    }

    /// Returns its intended departure, which goes into its signature and from which its latency
    /// counts: its departure minus its wait if the sender stalled when it was due
    /// ([`StallPolicy::CatchUp`]).
    #[inline]
    pub fn intended_ns(&mut self) -> u64 {
        self.start_ns + (self.lag.intended(self.plan.next()) >> FRACTION)
    }

    /// Accounts for due frames that the sender has handled.
    #[inline]
    pub fn taken(&mut self, frames: u64) {
        let step = self.plan.advance(frames);
        self.lag.advance(frames, step);
    }

    /// Called when the time is over at `now_ns`. Returns true if frames still leave; otherwise
    /// those that were planned and not taken will never leave.
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

    /// Stops the sender before the end: the owed frames will never leave.
    pub fn abandon(&mut self) {
        self.forgive(self.plan.frames(self.lag.time));
    }

    /// Returns the frames that were due and will never leave.
    pub fn not_sent(&self) -> u64 {
        self.not_sent
    }

    /// Returns the frames that were missed and have left since.
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

/// Converts a time to the unit of sums.
fn fine(time: u64) -> u128 {
    u128::from(time) << FINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    const MAKE_UP: StallPolicy = StallPolicy::CatchUp { most_pps: None };

    fn forgiving(load_pps: f64) -> Pacer {
        Pacer::new(load_pps, StallPolicy::Skip, START, u64::MAX)
    }

    /// Runs for a second of simulated time, reading the clock every `step_ns`; returns the frames
    /// sent and dropped.
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
            // frames become due until the last reading of the clock, less than a step before the
            // end
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
    fn a_short_stall_is_caught_up_and_a_longer_one_forgiven() {
        let mut pacer = forgiving(1e6);
        assert_eq!(pacer.due(START + 100_000), 101);
        assert_eq!(pacer.not_sent(), 0);

        let mut pacer = forgiving(1e6);
        assert_eq!(pacer.due(START + 100_001), 1);
        assert_eq!(pacer.not_sent(), 100);
        pacer.taken(1);
        // and the schedule continues where it would be
        assert_eq!(pacer.due(START + 100_999), 0);
        assert_eq!(pacer.due(START + 101_000), 1);
    }

    #[test]
    fn sent_and_forgiven_together_are_the_intended_load() {
        // every reading of the clock but the first comes too late
        let (sent, not_sent) = second(1e6, 200_000);
        assert_eq!(sent, 5000);
        assert_eq!(sent + not_sent, 999_801);
    }

    /// 1.6374 Mpps have gaps of whole units and a fraction, and the stall ends about when the
    /// schedule does: with whole units alone one frame of 193,000 was counted too many.
    #[test]
    fn a_long_stall_is_counted_to_the_frame() {
        const LENGTH: u64 = 277_427_629;
        for stall_policy in [StallPolicy::Skip, MAKE_UP] {
            for late in 0..30 {
                let mut pacer = Pacer::new(1_637_400.0, stall_policy, START, START + LENGTH);
                let at = 159_308_755;
                let sleep = (at, LENGTH - at + late - 10);
                let sent = departures(&mut pacer, LENGTH, 100, &[sleep]).len() as u64;
                assert_eq!(sent + pacer.not_sent(), 454_260, "{stall_policy:?}, {late}");
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
        /// A day at any load: the last frame is due exactly at the unit of the exact fraction.
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
        // two frames are due: one is dropped, and the new load begins with the other
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

    /// A sender that reads the clock every `step_ns`, takes all due frames, and sleeps at given
    /// times; until the end of a schedule of `length_ns` and as long after it as frames leave.
    /// Returns the departures in ns after the start.
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
    fn a_stall_is_caught_up_with_gaps_a_quarter_shorter() {
        const MS: u64 = 1_000_000;
        let mut pacer = Pacer::new(1e6, MAKE_UP, START, START + 200 * MS);
        let departures = departures(&mut pacer, 200 * MS, 250, &[(10 * MS, 20 * MS)]);
        assert_eq!(departures.len(), 200_000);
        assert_eq!((pacer.not_sent(), pacer.made_up()), (0, 20_000));
        // frames 0 to 9999 on time, the others from 30 ms on until they have caught up after 60 ms,
        // and then on time again
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

    /// The second stall comes while the first is being made up: each affects the waits of the
    /// frames that were due in it, and of no others.
    #[test]
    fn frames_wait_for_the_end_of_the_stall_in_which_they_were_due() {
        const MS: u64 = 1_000_000;
        let mut pacer = Pacer::new(1e5, MAKE_UP, START, START + 200 * MS);
        let stalled = [(10 * MS, 30 * MS), (40 * MS, 45 * MS)];
        let (mut now, mut frame) = (START, 0);
        while now < START + 200 * MS {
            let mut due = pacer.due(now);
            while due > 0 {
                let planned = frame * 10_000;
                let waited = pacer.departure_ns() - pacer.intended_ns();
                let started = stalled
                    .iter()
                    .find(|(from, to)| (*from..*to).contains(&planned));
                let expected = match started {
                    // a stall begins when the next frame should have left
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
            if let Some((from, to)) = stalled.iter().find(|(from, _)| now == START + from) {
                now += to - from;
            }
        }
        assert_eq!((frame, pacer.not_sent()), (20_000, 0));
        assert_eq!(pacer.lag.kept, 0);
    }

    /// Stalls beyond the tracked number are merged: no frame's wait is underestimated.
    #[test]
    fn many_stalls_are_not_forgotten() {
        const MS: u64 = 1_000_000;
        let mut pacer = Pacer::new(1e5, MAKE_UP, START, u64::MAX);
        let mut now = START;
        let mut stalled = vec![];
        for _ in 0..100 {
            while pacer.due(now) > 0 {
                pacer.taken(1);
                now += 1000;
            }
            stalled.push((now - START, now - START + 5 * MS));
            now += 5 * MS;
        }
        // longer than all stalls before it: the frames that were due then are still owed
        let mut frame = ((pacer.plan.next >> FINE) as u64 >> FRACTION) / 10_000;
        while pacer.due(now) > 0 {
            let (planned, intended) = (frame * 10_000, pacer.intended_ns() - START);
            let waited = pacer.departure_ns() - START - intended;
            let started = stalled
                .iter()
                .find(|(from, to)| (from + 10_000..*to).contains(&planned));
            let expected = started.map_or(0, |(_, to)| to - planned);
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
    fn missed_frames_leave_soon_after_the_end_or_never() {
        const MS: u64 = 1_000_000;
        for (stalled, sent, made_up) in [(20, 1000, 200), (110, 1000, 900), (140, 100, 0)] {
            let mut pacer = Pacer::new(1e4, MAKE_UP, START, START + 100 * MS);
            // from 10 ms on, or from 80 ms on
            let at = if stalled > 100 { 10 } else { 80 };
            let sleep = (at * MS, stalled * MS);
            let departures = departures(&mut pacer, 100 * MS, 1000, &[sleep]);
            assert_eq!(departures.len(), sent, "{stalled} ms");
            assert_eq!(pacer.not_sent(), 1000 - sent as u64, "{stalled} ms");
            assert_eq!(pacer.made_up(), made_up, "{stalled} ms");
            assert!(departures.last().unwrap() / MS <= 200);
        }
    }

    #[test]
    fn at_most_a_second_is_caught_up_and_nothing_after_a_stop() {
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
            StallPolicy::CatchUp {
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
    fn a_change_of_load_keeps_the_number_of_missed_frames() {
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
        // of 1000 frames at 100 pps one second's load is owed, and no more than fit into the
        // elapsed time
        pacer.set_load(100.0, START + 10_000_750);
        assert_eq!(pacer.lag.time.div_ceil((pacer.plan.gap >> FINE) as u64), 1);
        assert_eq!(pacer.not_sent(), 999);
    }

    proptest! {
        /// For any stalls: every intended frame was sent or is counted.
        #[test]
        fn nothing_is_lost(
            load in 1_000_u32..3_000_000, makes_up: bool, step in 100_u64..300_000, length in 1_000_000_u64..300_000_000,
            sleeps in prop::collection::vec((0_u64..300_000_000, 0_u64..150_000_000), 0..4),
        ) {
            let mut sleeps = sleeps;
            sleeps.sort_unstable();
            let stall_policy = if makes_up { MAKE_UP } else { StallPolicy::Skip };
            let mut pacer = Pacer::new(load.into(), stall_policy, START, START + length);
            let sent = departures(&mut pacer, length, step, &sleeps).len() as u64;
            // one at the start, and one for each gap before the end
            let intended = (u128::from(length - 1) * u128::from(load) / u128::from(SECOND)) as u64 + 1;
            prop_assert_eq!(sent + pacer.not_sent(), intended);
            prop_assert!(pacer.made_up() <= sent);
        }
    }
}
