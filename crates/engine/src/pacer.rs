//! Schedule arithmetic for the socket senders: told the time, a [`Pacer`] says how many frames are due.
//!
//! It reads no clock, sends nothing and cannot wait, so that its tests are arithmetic. The rule is the one of
//! `bpf/transmit.bpf.c`, so that all engines keep the same schedule. Start with [`Pacer::due`]; streams with different rates
//! are the business of [`crate::traffic::player`], which uses the same gaps.

/// A sender that was held up for longer gives up the frames it owes, and counts them. A longer debt would be paid in a
/// burst that fills the DUT's ring (256 frames, 100 us at 2.5 Mpps): the mean would be right and the load wrong.
pub(crate) const CATCH_UP_US: u32 = 100;

/// The same in the unit of schedules.
pub(crate) const CATCH_UP: u64 = (CATCH_UP_US as u64 * 1000) << FRACTION;

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

/// The departure times of one trial's frames: one gap after the other, from the start on.
///
/// The schedule advances by the gap and not by the time of sending, so that the mean is exact: frame n is due n gaps
/// after the start, minus what was forgiven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    start_ns: u64,
    gap: u128,
    /// When the next frame is due after the start.
    next: u128,
    not_sent: u64,
}

impl Pacer {
    /// A schedule of `load_pps` frames per second, the first of them at `start_ns`.
    ///
    /// The gap is at least 1/65536 ns and at most 78 hours. A load that is not a positive number gives the longest gap.
    pub fn new(load_pps: f64, start_ns: u64) -> Pacer {
        Pacer {
            start_ns,
            gap: gap(load_pps),
            next: 0,
            not_sent: 0,
        }
    }

    /// How many frames are due at `now_ns`, those not [`taken`](Self::taken) since they were due included. The last of them
    /// may be due 1/1000 ns later.
    ///
    /// When the oldest of them has been due for more than 100 us, all but the newest are forgiven: they will never leave,
    /// and [`not_sent`](Self::not_sent) counts them. A burst to make up for a pause would not be the intended load.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> u64 {
        let Some(elapsed) = now_ns.checked_sub(self.start_ns) else {
            return 0;
        };
        let Some(behind) = (elapsed << FRACTION).checked_sub(self.next()) else {
            return 0;
        };
        let due = behind / (self.gap >> FINE) as u64 + 1;
        if behind <= CATCH_UP {
            return due;
        }
        self.forgive(due - 1);
        1
    }

    /// When the oldest frame not taken is due, CLOCK_MONOTONIC.
    #[inline]
    pub fn departure_ns(&self) -> u64 {
        self.start_ns + (self.next() >> FRACTION)
    }

    /// The sender has taken care of so many due frames.
    #[inline]
    pub fn taken(&mut self, frames: u64) {
        self.next = self
            .next
            .saturating_add(u128::from(frames).saturating_mul(self.gap));
    }

    /// Another load from `now_ns` on. Of the time to the next frame as much is left as has not passed, at the new load; what
    /// was due before and was not taken is forgiven but for one frame, which is due now.
    pub fn set_load(&mut self, load_pps: f64, now_ns: u64) {
        let now = u128::from(now_ns.saturating_sub(self.start_ns)) << FRACTION << FINE;
        let gap = gap(load_pps);
        match self.next.checked_sub(now) {
            Some(left) => {
                self.next = now.saturating_add(scaled(left, gap as f64 / self.gap as f64));
            }
            None => {
                self.not_sent += ((now - self.next) / self.gap) as u64;
                self.next = now;
            }
        }
        self.gap = gap;
    }

    /// Frames that were due and forgiven.
    pub fn not_sent(&self) -> u64 {
        self.not_sent
    }

    fn next(&self) -> u64 {
        (self.next >> FINE) as u64
    }

    /// So many due frames will never leave.
    pub(crate) fn forgive(&mut self, frames: u64) {
        self.not_sent += frames;
        self.taken(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    /// Runs for a second of simulated time, looking at the clock every `step_ns`; returns what was sent and forgiven.
    fn second(load_pps: f64, step_ns: u64) -> (u64, u64) {
        let mut pacer = Pacer::new(load_pps, START);
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
        let mut pacer = Pacer::new(1e6, START);
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
        let mut pacer = Pacer::new(1e6, START);
        assert_eq!(pacer.due(START + 9_000), 10);
        pacer.taken(3);
        assert_eq!(pacer.due(START + 9_000), 7);
        assert_eq!(pacer.not_sent(), 0);
    }

    #[test]
    fn a_short_hold_up_is_caught_up_and_a_longer_one_forgiven() {
        let mut pacer = Pacer::new(1e6, START);
        assert_eq!(pacer.due(START + 100_000), 101);
        assert_eq!(pacer.not_sent(), 0);

        let mut pacer = Pacer::new(1e6, START);
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
        let mut pacer = Pacer::new(1e3, START);
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
            let mut pacer = Pacer::new(load, START);
            pacer.due(START);
            pacer.taken(u64::MAX);
            assert_eq!(pacer.due(START + SECOND), 0, "{load}");
        }
    }
}
