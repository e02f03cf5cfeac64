//! Schedule arithmetic for the socket senders: told the time, a [`Pacer`] says how many frames are due.
//!
//! It reads no clock, sends nothing and cannot wait, so that its tests are arithmetic. The rule is the one of
//! `bpf/transmit.bpf.c`, so that all engines keep the same schedule. Start with [`Pacer::due`].

/// A sender that was held up for longer gives up the frames it owes, and counts them. A longer debt would be paid in a
/// burst that fills the DUT's ring (256 frames, 100 us at 2.5 Mpps): the mean would be right and the load wrong.
pub(crate) const CATCH_UP_US: u32 = 100;

const CATCH_UP_NS: u64 = CATCH_UP_US as u64 * 1000;

/// Times inside are 1/65536 ns after the start: fine enough that the mean rate of 100 Mpps is right to 10^-6.
const FRACTION: u32 = 16;

/// The departure times of one trial's frames: one gap after the other, from the start on.
///
/// The schedule advances by the gap and not by the time of sending, so that the mean is exact: frame n is due n gaps
/// after the start, minus what was forgiven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    start_ns: u64,
    gap: u64,
    /// When the next frame is due, in 1/65536 ns after the start.
    next: u64,
    not_sent: u64,
}

impl Pacer {
    /// A schedule of `load_pps` frames per second, the first of them at `start_ns`.
    ///
    /// The gap is at least 1/65536 ns and at most 78 hours. A load that is not a positive number gives the longest gap.
    pub fn new(load_pps: f64, start_ns: u64) -> Pacer {
        let gap = 1e9 / load_pps * f64::from(1 << FRACTION);
        let longest = u64::MAX >> FRACTION << FRACTION;
        Pacer {
            start_ns,
            gap: if load_pps > 0.0 {
                // a cast from float saturates
                (gap.round() as u64).clamp(1, longest)
            } else {
                longest
            },
            next: 0,
            not_sent: 0,
        }
    }

    /// How many frames are due at `now_ns`, those not [`taken`](Self::taken) since they were due included.
    ///
    /// When the oldest of them has been due for more than 100 us, all but the newest are forgiven: they will never leave,
    /// and [`not_sent`](Self::not_sent) counts them. A burst to make up for a pause would not be the intended load.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> u64 {
        let Some(elapsed) = now_ns.checked_sub(self.start_ns) else {
            return 0;
        };
        let Some(behind) = (elapsed << FRACTION).checked_sub(self.next) else {
            return 0;
        };
        let due = behind / self.gap + 1;
        if behind <= CATCH_UP_NS << FRACTION {
            return due;
        }
        self.not_sent += due - 1;
        self.next += (due - 1) * self.gap;
        1
    }

    /// The sender has taken care of so many due frames.
    #[inline]
    pub fn taken(&mut self, frames: u64) {
        self.next = self.next.saturating_add(frames.saturating_mul(self.gap));
    }

    /// Frames that were due and forgiven.
    pub fn not_sent(&self) -> u64 {
        self.not_sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn absurd_loads_do_not_overflow() {
        for load in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            let mut pacer = Pacer::new(load, START);
            pacer.due(START);
            pacer.taken(u64::MAX);
            assert_eq!(pacer.due(START + SECOND), 0, "{load}");
        }
    }
}
