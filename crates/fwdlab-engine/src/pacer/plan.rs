//! The planned times of frames, which a [`Pacer`](super::Pacer) follows, and the plan of one load.
//!
//! A plan knows nothing of stalls. Every plan is compiled into its own pacer, so a constant load
//! does not pay for the others. Start with [`Plan`]; a changing load is a [`Curve`](super::Curve).

use super::{FINE, Lag, Pacer, fine, gap, scaled};

/// Planned times, in 1/65536 ns after the start.
pub trait Plan: Sized {
    /// Returns the planned time of the next frame.
    fn next(&self) -> u64;

    /// Returns how many frames after the next one are planned up to this time, which is near;
    /// `None` if the next one is planned later.
    fn followers(&self, until: u64) -> Option<u64>;

    /// Like `followers`, for any time.
    fn all_followers(&self, until: u64) -> Option<u64>;

    /// Returns how many frames after the next one leave at once, if the sender is `behind` with the
    /// next one and has this lag.
    fn overdue(&self, behind: u64, lag: &Lag) -> u64;

    /// Returns how many frames are planned for this duration, starting with the next one.
    fn frames(&self, time: u64) -> u64;

    /// Returns how much later than the next frame the one `frames` after it is planned.
    fn time(&self, frames: u64) -> u64;

    /// Advances by `frames`; returns how much later the next frame is planned.
    fn advance(&mut self, frames: u64) -> u64;

    /// Keeps every `every`-th frame, from number `first` on: those of one of several senders.
    /// Called before the first frame is taken.
    fn every(self, first: u64, every: u64) -> Self;

    /// Implements [`Pacer::set_load`], if the plan can be changed from outside. Otherwise the
    /// engine refuses.
    fn set_load(_pacer: &mut Pacer<Self>, _load_pps: f64, _now_ns: u64) {}
}

/// One load: constant gaps, from the start on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Even {
    pub(super) gap: u128,
    /// Number of senders: a gap is this many gaps of the load.
    pub(super) senders: u64,
    /// Planned time of the next frame after the start.
    pub(super) next: u128,
}

impl Even {
    /// The first frame is at the start. The gap is at least 1/65536 ns and at most 78 hours. A load
    /// that is not a positive number gives the longest gap.
    pub(super) fn new(load_pps: f64) -> Even {
        Even {
            gap: gap(load_pps),
            senders: 1,
            next: 0,
        }
    }

    #[inline]
    fn whole_gap(&self) -> u64 {
        (self.gap >> FINE) as u64
    }

    /// Returns the time from `now` to the next frame after a change of the gap.
    pub(super) fn rest(&self, left: u128, gap: u128) -> u128 {
        scaled(left, gap as f64 / self.gap as f64)
    }
}

impl Plan for Even {
    #[inline]
    fn next(&self) -> u64 {
        (self.next >> FINE) as u64
    }

    #[inline]
    fn followers(&self, until: u64) -> Option<u64> {
        let planned = fine(until).checked_sub(self.next)?;
        // gaps are slightly longer than their whole units: the last of many frames may be planned
        // later
        let frames = (planned >> FINE) as u64 / self.whole_gap();
        Some(frames - u64::from(u128::from(frames).saturating_mul(self.gap) > planned))
    }

    fn all_followers(&self, until: u64) -> Option<u64> {
        let planned = fine(until).checked_sub(self.next)?;
        Some((planned / self.gap) as u64)
    }

    #[inline]
    fn overdue(&self, behind: u64, lag: &Lag) -> u64 {
        let gap = self.whole_gap();
        behind / (gap - lag.part(gap))
    }

    /// Rounds up to whole gaps. [`time`](Self::time) loses less than a unit, so this is its
    /// inverse.
    fn frames(&self, time: u64) -> u64 {
        fine(time).div_ceil(self.gap) as u64
    }

    /// Without the fraction of a unit.
    fn time(&self, frames: u64) -> u64 {
        let time = u128::from(frames).saturating_mul(self.gap) >> FINE;
        time.try_into().unwrap_or(u64::MAX)
    }

    #[inline]
    fn advance(&mut self, frames: u64) -> u64 {
        self.next = self
            .next
            .saturating_add(u128::from(frames).saturating_mul(self.gap));
        frames.saturating_mul(self.whole_gap())
    }

    fn every(self, first: u64, every: u64) -> Even {
        Even {
            gap: self.gap.saturating_mul(every.into()),
            senders: every,
            next: self.gap.saturating_mul(first.into()),
        }
    }

    fn set_load(pacer: &mut Pacer, load_pps: f64, now_ns: u64) {
        pacer.set_load(load_pps, now_ns);
    }
}
