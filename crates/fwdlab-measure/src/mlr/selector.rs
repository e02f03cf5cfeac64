//! The next trial for one goal: its targets in turn, each narrowed from the interval of the coarser
//! one.

use super::Strategy;
use super::bounds::{Bounds, Trials};
use super::goal::Target;
use super::grid::{limit, middle};

/// The smallest load does not meet a goal with `fail_fast`.
pub(super) struct MinimumLoad;

/// A trial that a goal proposes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TrialProposal {
    pub load: u32,
    pub duration_ns: u64,
    /// Width of the resulting interval.
    pub width: u32,
    pub strategy: Strategy,
}

impl TrialProposal {
    /// Prefers the lowest load, then the longest trial, then the widest interval; the earlier of
    /// equals is kept.
    pub fn precedes(&self, other: &TrialProposal) -> bool {
        (other.load, self.duration_ns, self.width) > (self.load, other.duration_ns, other.width)
    }
}

/// The next load in a bisection that jumps from one side, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jump {
    None,
    Down,
    Up,
}

/// The state of one goal.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    targets: Vec<Target>,
    expansion: u32,
    current: usize,
    /// The interval of the coarser target.
    low: Option<u32>,
    high: Option<u32>,
    next_width: u32,
    jump: Jump,
}

impl Selector {
    pub fn new(targets: Vec<Target>, expansion: u32) -> Selector {
        Selector {
            targets,
            expansion,
            current: 0,
            low: None,
            high: None,
            next_width: 0,
            jump: Jump::None,
        }
    }

    pub fn coarsest(&self) -> &Target {
        &self.targets[0]
    }

    pub fn final_target(&self) -> &Target {
        &self.targets[self.targets.len() - 1]
    }

    fn target(&self) -> &Target {
        &self.targets[self.current]
    }

    /// Starts with the interval of the first trials.
    pub fn begin(&mut self, low: u32, high: u32) {
        self.enter(Some(low), Some(high));
    }

    fn enter(&mut self, low: Option<u32>, high: Option<u32>) {
        (self.low, self.high) = (low, high);
        self.jump = Jump::None;
        let distance = match (low, high) {
            (Some(low), Some(high)) => high - low,
            _ => 0,
        };
        self.limit_width(distance);
    }

    fn limit_width(&mut self, width: u32) {
        self.next_width = width
            .max(self.target().width)
            .saturating_mul(self.expansion);
    }

    /// Returns the trial that this goal needs, or `None` if it is done.
    pub fn nominate(
        &mut self,
        trials: &Trials,
        global_width: u32,
        last: u32,
    ) -> Result<Option<TrialProposal>, MinimumLoad> {
        loop {
            let bounds = trials.bounds(self.target());
            if let Some((load, width, strategy)) = self.choose(bounds, global_width, last) {
                return Ok(Some(TrialProposal {
                    load,
                    duration_ns: self.target().trial_ns,
                    width,
                    strategy,
                }));
            }
            if self.current + 1 < self.targets.len() {
                self.current += 1;
                self.enter(bounds.lower, bounds.upper);
            } else if bounds.lower.is_none() && self.target().fail_fast {
                return Err(MinimumLoad);
            } else {
                // done only for now: another goal's trial may invalidate a bound
                return Ok(None);
            }
        }
    }

    fn choose(
        &mut self,
        bounds: Bounds,
        global_width: u32,
        last: u32,
    ) -> Option<(u32, u32, Strategy)> {
        let width = self.target().width;
        let (low, high) = (self.low, self.high);
        let skip = |load: u32| {
            bounds.lower.is_some_and(|lower| lower >= load)
                || bounds.upper.is_some_and(|upper| upper <= load)
                || matches!((bounds.lower, bounds.upper), (Some(l), Some(u)) if u - l <= width)
        };
        if let (Some(low), Some(high)) = (low, high)
            && width < high - low
            && u64::from(high - low) <= 2 * u64::from(width)
        {
            let load = middle(low, high, width);
            if !skip(load) {
                self.limit_width(width);
                return Some((load, width, Strategy::Halve));
            }
        }
        for (end, strategy) in [(low, Strategy::RefineLow), (high, Strategy::RefineHigh)] {
            if let Some(load) = end.filter(|&load| !skip(load)) {
                self.limit_width(width);
                return Some((load, width, strategy));
            }
        }
        let requested = self.next_width.max(global_width);
        match (bounds.lower, bounds.upper) {
            (None, Some(upper)) if upper > 0 => {
                let load = limit(
                    upper.saturating_sub(requested),
                    width,
                    None,
                    Some(upper),
                    last,
                )?;
                (!skip(load)).then_some((load, requested, Strategy::ExtendDown))
            }
            (Some(lower), None) if lower < last => {
                let load = limit(
                    lower.saturating_add(requested),
                    width,
                    Some(lower),
                    None,
                    last,
                )?;
                (!skip(load)).then_some((load, requested, Strategy::ExtendUp))
            }
            (Some(lower), Some(upper)) if lower < last && upper > 0 && upper - lower > width => {
                self.bisect(lower, upper, requested, last)
                    .map(|(load, width)| (load, width, Strategy::Bisect))
            }
            _ => None,
        }
    }

    fn bisect(&mut self, lower: u32, upper: u32, requested: u32, last: u32) -> Option<(u32, u32)> {
        let width = self.target().width;
        let middle = middle(lower, upper, width);
        let jump = |to: u32| limit(to, width, Some(lower), Some(upper), last);
        if let Some(high) = self.high.filter(|&high| middle < high)
            && upper >= requested
            && let Some(load) = jump(upper - requested)
            && middle < load
            && load < high
        {
            self.jump = Jump::Down;
            return Some((load, requested));
        }
        if let Some(low) = self.low.filter(|&low| middle > low)
            && let Some(load) = jump(lower.saturating_add(requested))
            && low < load
            && load < middle
        {
            self.jump = Jump::Up;
            return Some((load, requested));
        }
        self.jump = Jump::None;
        let left = (middle - lower).min(upper - middle);
        self.limit_width(left);
        Some((middle, left))
    }

    /// Called after the proposed trial was run.
    pub fn won(&mut self, nomination: &TrialProposal, trials: &Trials, global_width: &mut u32) {
        let Bounds { lower, upper } = trials.bounds(self.target());
        let load = Some(nomination.load);
        let went_on = match (nomination.strategy, self.jump) {
            (Strategy::ExtendDown, _) => load == upper,
            (Strategy::ExtendUp, _) => load == lower,
            (Strategy::Bisect, Jump::Down) => load == upper,
            (Strategy::Bisect, Jump::Up) => load == lower,
            _ => false,
        };
        if went_on {
            self.next_width = self.next_width.saturating_mul(self.expansion);
            *global_width = self.next_width;
        }
    }
}
