//! When frames are planned, one after another: what a [`Pacer`](super::Pacer) follows, and the plan of one load.
//!
//! A plan knows nothing of senders that are late. Every plan is compiled into a pacer of its own, so that one load costs
//! nothing for what others need. Start with [`Plan`]; a load that changes is a [`Curve`](super::Curve).

use super::{FINE, Lag, Pacer, fine, gap, scaled};

/// Planned times, in 1/65536 ns after the start.
pub trait Plan: Sized {
    /// When the next frame is planned.
    fn next(&self) -> u64;

    /// How many more frames than the next are planned up to this time, which is near; `None`: the next is planned for later.
    fn followers(&self, until: u64) -> Option<u64>;

    /// The same up to any time.
    fn all_followers(&self, until: u64) -> Option<u64>;

    /// How many more frames than the next leave at once, of a sender that is so much behind with the next and has this lag.
    fn overdue(&self, behind: u64, lag: &Lag) -> u64;

    /// How many frames are planned for such a time from the next on, the next included.
    fn frames(&self, time: u64) -> u64;

    /// How much later than the next the frame so many after it is planned.
    fn time(&self, frames: u64) -> u64;

    /// On by so many frames; returns how much later the next is planned.
    fn advance(&mut self, frames: u64) -> u64;

    /// [`Pacer::set_load`], of a plan that is changed from outside. Of another the engine refuses to.
    fn set_load(_pacer: &mut Pacer<Self>, _load_pps: f64, _now_ns: u64) {}
}

/// One load: one gap after the other, from the start on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Even {
    pub(super) gap: u128,
    /// For when the next frame is planned after the start.
    pub(super) next: u128,
}

impl Even {
    /// The first frame at the start. The gap is at least 1/65536 ns and at most 78 hours. A load that is not a positive
    /// number gives the longest gap.
    pub(super) fn new(load_pps: f64) -> Even {
        Even {
            gap: gap(load_pps),
            next: 0,
        }
    }

    #[inline]
    fn whole_gap(&self) -> u64 {
        (self.gap >> FINE) as u64
    }

    /// The time to the next frame from `now` on, when the gap becomes another.
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
        // gaps are a little longer than their whole units: the last frame of many may be planned for later
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

    /// A part of a gap is counted as one. [`time`](Self::time) loses less than a unit: this finds again how many they were.
    fn frames(&self, time: u64) -> u64 {
        fine(time).div_ceil(self.gap) as u64
    }

    /// Without the parts of a unit.
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

    fn set_load(pacer: &mut Pacer, load_pps: f64, now_ns: u64) {
        pacer.set_load(load_pps, now_ns);
    }
}
