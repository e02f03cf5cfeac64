//! The plan of a changing load: stretches in each of which it is constant or changes linearly.
//!
//! Frame n is planned for the first nanosecond at which the integral of the load has reached n.
//! Integrals are integers and every time is computed from the start of its stretch, so no error
//! accumulates: not within a stretch, not where stretches meet, not over days. A frame that falls
//! on a boundary belongs to the later stretch; while the load is 0 nothing is planned. Start with
//! [`Curve::new`].

use std::sync::Arc;

use fwdlab_model::procedure::Stretch;

use super::{FRACTION, LONGEST_NS, Lag, Plan};

/// Loads are counted in 2^-20 frames per second: an error of at most an eighth of a frame in 78
/// hours.
const LOAD: f64 = (1 << 20) as f64;

/// One frame in the unit of integrals, which is half a nanosecond at the smallest load: the
/// integral of a stretch is an integer.
const FRAME: u128 = (2 * 1_000_000_000) << 20;

/// A 65536th of a frame.
const STEP: u128 = FRAME >> 16;

/// The largest load in frames per second: above it several frames would be planned for the same
/// nanosecond.
pub const MOST_PPS: f64 = 1e9;

/// No more frames are planned.
const NEVER: u64 = u64::MAX;

/// Maximum relative error of a floating-point result: 2^-48, which is 16 times the rounding error
/// of all steps together.
const UNSURE: f64 = 1.0 / (1_u64 << 48) as f64;

/// One stretch. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    begin: u64,
    length: u64,
    from: u64,
    to: u64,
}

/// The planned times of a load over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pieces: Arc<[Piece]>,
    /// Position of the next frame: index of its piece, and the integral from the start of that
    /// piece.
    piece: usize,
    done: u128,
    /// Its planned time, in the unit of plans.
    next: u64,
    /// The integral from a frame to the next: one frame of each sender.
    frame: u128,
}

impl Curve {
    /// Returns the curve of consecutive stretches; the final load of the last one continues. Loads
    /// are between 0 and [`MOST_PPS`].
    pub fn new(stretches: &[Stretch]) -> Curve {
        let mut pieces = Vec::with_capacity(stretches.len() + 1);
        let mut begin = 0;
        let mut push = |length: u64, from_pps: f64, to_pps: f64| {
            let length = length.min(LONGEST_NS - begin);
            let load = |pps: f64| (pps.clamp(0.0, MOST_PPS) * LOAD).round() as u64;
            if length > 0 {
                pieces.push(Piece {
                    begin,
                    length,
                    from: load(from_pps),
                    to: load(to_pps),
                });
            }
            begin += length;
        };
        for stretch in stretches {
            push(stretch.duration_ns, stretch.from_pps, stretch.to_pps);
        }
        let last = stretches.last().map_or(0.0, |last| last.to_pps);
        push(LONGEST_NS, last, last);
        let mut curve = Curve {
            pieces: pieces.into(),
            piece: 0,
            done: 0,
            next: 0,
            frame: FRAME,
        };
        curve.move_to(0);
        curve
    }

    /// Advances by a number of 65536ths of a frame, for frames that are not evenly spaced.
    pub(crate) fn advance_steps(&mut self, steps: u64) {
        self.move_to(u128::from(steps) * STEP);
    }

    /// Returns how many whole 65536ths of a frame the integral grows from the next frame to this
    /// time; `None` if that is before the next frame.
    pub(crate) fn steps(&self, until: u64) -> Option<u64> {
        Some((self.reached(until)? / STEP) as u64)
    }

    /// Returns the number of frames planned before this time, from the next one on.
    pub(crate) fn before(&self, time: u64) -> u64 {
        let last = time.checked_sub(1);
        last.and_then(|last| self.followers(last))
            .map_or(0, |more| more + 1)
    }

    /// Returns the load at the next frame, in frames per second, and its rate of change per second.
    pub(crate) fn slope(&self) -> (f64, f64) {
        let Some(piece) = self.pieces.get(self.piece) else {
            return (0.0, 0.0);
        };
        let at = (self.next >> FRACTION).saturating_sub(piece.begin) as f64;
        let slope = piece.slope() / piece.length as f64;
        let load = (piece.from as f64 + slope * at) / LOAD;
        (load.max(0.0), slope / LOAD * 1e9)
    }

    /// Returns the number of frames after the next one in the same stretch.
    pub(crate) fn in_stretch(&self) -> u64 {
        let Some(piece) = self.pieces.get(self.piece) else {
            return 0;
        };
        ((piece.total() - 1 - self.done) / FRAME) as u64
    }

    fn move_to(&mut self, integral: u128) {
        self.done += integral;
        while let Some(piece) = self.pieces.get(self.piece) {
            if self.done < piece.total() {
                self.next = (piece.begin + piece.reaches(self.done)) << FRACTION;
                return;
            }
            self.done -= piece.total();
            self.piece += 1;
        }
        self.next = NEVER;
    }

    /// Returns the integral from the next frame to this time, minus one unit if that is in a pause:
    /// a frame that falls on the start of a pause is planned for its end.
    fn reached(&self, until: u64) -> Option<u128> {
        if self.next > until {
            return None;
        }
        let now = until >> FRACTION;
        let mut reached = 0;
        for piece in &self.pieces[self.piece..] {
            let at = now.saturating_sub(piece.begin);
            if at < piece.length {
                reached += piece.integral(at);
                let pause = u128::from(piece.total() == 0);
                return Some(reached - self.done - pause);
            }
            reached += piece.total();
        }
        Some(reached.saturating_sub(1 + self.done))
    }
}

impl Plan for Curve {
    #[inline]
    fn next(&self) -> u64 {
        self.next
    }

    #[inline]
    fn followers(&self, until: u64) -> Option<u64> {
        Some((self.reached(until)? / self.frame) as u64)
    }

    fn all_followers(&self, until: u64) -> Option<u64> {
        self.followers(until)
    }

    /// While frames are owed, `behind` equals the planned duration minus the part that is made up.
    #[inline]
    fn overdue(&self, behind: u64, lag: &Lag) -> u64 {
        let planned = self.next.saturating_add(lag.unmade(behind));
        self.followers(planned).unwrap_or(0)
    }

    fn frames(&self, time: u64) -> u64 {
        self.before(self.next.saturating_add(time))
    }

    fn time(&self, frames: u64) -> u64 {
        self.clone().advance(frames)
    }

    #[inline]
    fn advance(&mut self, frames: u64) -> u64 {
        let before = self.next;
        self.move_to(u128::from(frames) * self.frame);
        self.next - before
    }

    fn every(mut self, first: u64, every: u64) -> Curve {
        self.move_to(u128::from(first) * FRAME);
        self.frame = u128::from(every) * FRAME;
        self
    }
}

impl Piece {
    /// Returns the load at the end minus the load at the start.
    #[inline]
    fn slope(&self) -> f64 {
        self.to as f64 - self.from as f64
    }

    /// Returns its whole integral.
    #[inline]
    fn total(&self) -> u128 {
        u128::from(self.from + self.to) * u128::from(self.length)
    }

    /// Returns the integral from its start to a time in it, rounded down:
    /// `2 from t + (to - from) t^2 / length`.
    #[inline]
    fn integral(&self, at: u64) -> u128 {
        let even = 2 * u128::from(self.from) * u128::from(at);
        if self.from == self.to {
            return even;
        }
        let change = u128::from(self.to.abs_diff(self.from));
        let (square, length) = (u128::from(at) * u128::from(at), u128::from(self.length));
        // split to avoid an overflow
        let (whole, rest) = (square / length * change, square % length * change);
        match self.to > self.from {
            true => even + whole + rest / length,
            false => even - whole - rest.div_ceil(length),
        }
    }

    /// Returns the first time at which the integral reaches this value, which is less than the
    /// total.
    #[inline]
    fn reaches(&self, integral: u128) -> u64 {
        let (from, requested) = (self.from as f64, integral as f64);
        let root = (from * from + self.slope() * requested / self.length as f64).max(0.0);
        let root = root.sqrt();
        let guess = requested / (from + root);
        let error = guess * UNSURE * (1.0 + from / root);
        let (low, high) = ((guess - error).ceil(), (guess + error).ceil());
        match low == high {
            true => low as u64,
            false => self.search(integral, low as u64),
        }
    }

    /// Finds the same time from one near it, if floating point is not accurate enough.
    #[cold]
    fn search(&self, integral: u128, near: u64) -> u64 {
        let is_there = |at: u64| self.integral(at) >= integral;
        let (mut low, mut high, mut width) = (near.min(self.length), near.min(self.length), 1);
        while !is_there(high) {
            high = (high + width).min(self.length);
            width *= 2;
        }
        width = 1;
        while low > 0 && is_there(low) {
            low = low.saturating_sub(width);
            width *= 2;
        }
        while low < high {
            let middle = u64::midpoint(low, high);
            match is_there(middle) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pacer::{Pacer, StallPolicy};

    const START: u64 = 1_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;
    const MAKE_UP: StallPolicy = StallPolicy::CatchUp { most_pps: None };

    fn stretch(duration_ns: u64, from_pps: f64, to_pps: f64) -> Stretch {
        Stretch {
            duration_ns,
            from_pps,
            to_pps,
        }
    }

    /// For integer loads, whose integrals are multiples of 1 / (2 duration 10^9) of a frame. Exact,
    /// and computed in a different way: every stretch in the common denominator of all.
    fn due_by(stretches: &[(u64, u64, u64)], at: u64) -> u64 {
        let mut halves = 0_u128;
        let (mut begin, mut rest, mut is_pause) = (0, (0_u128, 1_u128), false);
        for &(length, from, to) in stretches {
            if at < begin {
                break;
            }
            let (t, l) = (u128::from(at - begin), u128::from(length));
            is_pause = from == 0 && to == 0;
            if at >= begin + length {
                halves += u128::from(from + to) * l;
            } else {
                // (2 from t l + (to - from) t t) / l
                let rising = 2 * u128::from(from) * t * l + u128::from(to) * t * t;
                rest = (rising - u128::from(from) * t * t, l);
            }
            begin += length;
        }
        let frame = 2 * u128::from(SECOND);
        let integral = halves * rest.1 + rest.0;
        let on_a_frame = integral.is_multiple_of(frame * rest.1);
        let whole = (integral / (frame * rest.1)) as u64;
        // a frame at the start of a pause is planned for its end
        if is_pause && on_a_frame {
            whole
        } else {
            whole + 1
        }
    }

    fn curve(stretches: &[(u64, u64, u64)]) -> Curve {
        let stretches: Vec<Stretch> = (stretches.iter())
            .map(|&(length, from, to)| stretch(length, from as f64, to as f64))
            .collect();
        Curve::new(&stretches)
    }

    /// Returns the planned times in nanoseconds, all before a given time.
    fn times(mut curve: Curve, before: u64) -> Vec<u64> {
        let mut times = vec![];
        while curve.next() < before << FRACTION {
            times.push(curve.next() >> FRACTION);
            curve.advance(1);
        }
        times
    }

    #[test]
    fn frames_of_a_ramp_leave_when_they_are_due() {
        // 0 to 2000 pps in 2 s: t^2 * 500 frames, and frame n after sqrt(n / 500) s
        let planned = times(curve(&[(2 * SECOND, 0, 2000)]), 2 * SECOND);
        assert_eq!(planned.len(), 2000);
        for (n, &at) in planned.iter().enumerate() {
            let exact = (n as f64 / 500.0).sqrt() * 1e9;
            assert!((at as f64 - exact - 0.5).abs() <= 0.51, "{n}: {at} {exact}");
        }
        assert_eq!(
            (planned[0], planned[500], planned[1125]),
            (0, SECOND, 3 * SECOND / 2)
        );
    }

    #[test]
    fn one_load_is_what_it_is_without_stretches() {
        let (mut even, mut over) = (
            Pacer::new(1e6, MAKE_UP, START, START + SECOND),
            Pacer::over(
                &[stretch(SECOND / 10, 1e6, 1e6)],
                MAKE_UP,
                START,
                START + SECOND,
            ),
        );
        let mut now = START;
        while now < START + SECOND || even.goes_on(now) | over.goes_on(now) {
            now += if now % SECOND == 300_000_000 {
                30_000_000
            } else {
                1500
            };
            let due = even.due(now);
            assert_eq!(over.due(now), due);
            for _ in 0..due {
                assert_eq!(even.departure_ns(), over.departure_ns());
                assert_eq!(even.intended_ns(), over.intended_ns());
                even.taken(1);
                over.taken(1);
            }
        }
        assert_eq!(
            (even.not_sent(), even.made_up()),
            (over.not_sent(), over.made_up())
        );
    }

    #[test]
    fn a_pause_has_no_frames() {
        let planned = times(
            curve(&[
                (SECOND, 0, 0),
                (SECOND, 4, 4),
                (SECOND, 0, 0),
                (SECOND, 2, 2),
            ]),
            u64::MAX >> FRACTION,
        );
        let ms: Vec<u64> = planned.iter().take(8).map(|at| at / 1_000_000).collect();
        // the frame that falls on the start of the second pause leaves after it
        assert_eq!(ms, [1000, 1250, 1500, 1750, 3000, 3500, 4000, 4500]);
        // and is not counted before, neither at the start of the pause nor in it
        let paused = curve(&[(SECOND, 4, 4), (SECOND, 0, 0), (SECOND, 2, 2)]);
        for (ms, due) in [
            (999, 4),
            (1000, 4),
            (1500, 4),
            (1999, 4),
            (2000, 5),
            (2500, 6),
        ] {
            assert_eq!(
                paused.before((ms * 1_000_000 + 1) << FRACTION),
                due,
                "{ms} ms"
            );
        }
        let falling = times(curve(&[(SECOND, 10, 0)]), u64::MAX >> FRACTION);
        assert_eq!(falling.len(), 5);
    }

    /// 50 hours, up and down and up again: no frame is lost between stretches, and the last one is
    /// on time.
    #[test]
    fn days_do_not_add_up() {
        const HOURS: u64 = 3600 * SECOND;
        let mut curve = curve(&[
            (20 * HOURS, 1, 9_999_999),
            (25 * HOURS, 9_999_999, 3),
            (5 * HOURS, 7, 7),
        ]);
        let due = 20 * 3600 * 5_000_000 + 25 * 3600 * 5_000_001;
        assert_eq!(curve.before((45 * HOURS) << FRACTION), due);
        curve.advance(due);
        assert_eq!(curve.next() >> FRACTION, 45 * HOURS);
        curve.advance(7 * 3600);
        assert_eq!(curve.next() >> FRACTION, 46 * HOURS);
    }

    fn stretches() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
        let load = || prop_oneof![Just(0_u64), 1_u64..100, 1_u64..5_000_000];
        let length = prop_oneof![1_u64..100, 1_u64..3_000_000, Just(1_000_000)];
        let flat = (length.clone(), load()).prop_map(|(length, load)| (length, load, load));
        let any = (length, load(), load());
        prop::collection::vec(prop_oneof![flat, any], 1..6).prop_map(|mut all| {
            // make sure something is sent at the end
            all.push((1 << 40, 1_000_000, 1_000_000));
            all
        })
    }

    proptest! {
        /// At any time the number of planned frames equals the integral, each frame later than the
        /// previous one.
        #[test]
        fn frames_are_the_integral(stretches in stretches(), looks in prop::collection::vec(0_u64..20_000_000, 1..20)) {
            let curve = curve(&stretches);
            let end = looks.iter().max().unwrap() + 1;
            let planned = times(curve.clone(), end);
            prop_assert!(planned.windows(2).all(|pair| pair[0] < pair[1]));
            for at in looks {
                let due = due_by(&stretches, at);
                prop_assert_eq!(planned.iter().filter(|&&planned| planned <= at).count() as u64, due, "by {}", at);
                // and the same by counting without iterating
                prop_assert_eq!(curve.before((at + 1) << FRACTION), due);
            }
        }

        /// In one step or in many, from any position.
        #[test]
        fn steps_are_frames(stretches in stretches(), frames in 0_u64..5000, part in 1_u64..2000) {
            let (mut one, mut many) = (curve(&stretches), curve(&stretches));
            one.advance(frames);
            let mut left = frames << 16;
            while left > 0 {
                let steps = left.min(part * 977);
                many.advance_steps(steps);
                left -= steps;
            }
            prop_assert_eq!(one, many);
        }

        /// For any stalls and any load: every due frame was sent or is counted.
        #[test]
        fn nothing_is_lost(
            stretches in stretches(), makes_up: bool, step in 100_u64..300_000, length in 1_u64..30_000_000,
            sleeps in prop::collection::vec((0_u64..30_000_000, 0_u64..150_000_000), 0..4),
        ) {
            let mut sleeps = sleeps;
            sleeps.sort_unstable();
            let loads: Vec<Stretch> = (stretches.iter())
                .map(|&(length, from, to)| stretch(length, from as f64, to as f64))
                .collect();
            let stall_policy = if makes_up { MAKE_UP } else { StallPolicy::Skip };
            let mut pacer = Pacer::over(&loads, stall_policy, START, START + length);
            let (mut now, mut sent, mut last) = (START, 0, 0);
            while now < START + length || pacer.goes_on(now) {
                for _ in 0..pacer.due(now) {
                    prop_assert!(pacer.departure_ns() <= now && pacer.intended_ns() <= pacer.departure_ns());
                    prop_assert!(pacer.departure_ns() >= last, "{} {last}", pacer.departure_ns());
                    last = pacer.departure_ns();
                    pacer.taken(1);
                    sent += 1;
                }
                now += step;
                if let Some(&(_, long)) = sleeps.first().filter(|(at, _)| now >= START + at) {
                    sleeps.remove(0);
                    now += long;
                }
            }
            prop_assert_eq!(sent + pacer.not_sent(), due_by(&stretches, length - 1));
            prop_assert!(pacer.made_up() <= sent);
        }
    }
}
