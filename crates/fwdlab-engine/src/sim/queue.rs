//! The buffer of a core, as a fluid: frames flow in and out evenly, and those that do not fit are
//! lost.
//!
//! It knows neither time nor frames, only amounts per phase; rates are constant within a phase, so
//! the level moves in one direction and its bounds are exact.

/// A period with constant rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Phase {
    /// Frames that arrive.
    pub arriving: f64,
    /// Frames that could be served.
    pub served: f64,
}

/// A buffer and its losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Queue {
    room: f64,
    level: f64,
    longest: f64,
    overflow: f64,
}

impl Queue {
    pub fn new(room: f64) -> Queue {
        Queue {
            room,
            level: 0.0,
            longest: 0.0,
            overflow: 0.0,
        }
    }

    /// Passes a phase.
    pub fn pass(&mut self, phase: &Phase) {
        let level = self.level + (phase.arriving - phase.served);
        self.overflow += (level - self.room).max(0.0);
        self.level = level.clamp(0.0, self.room);
        self.longest = self.longest.max(self.level);
    }

    /// Passes a phase in which frames arrive in `bursts` bursts: evenly during this share of the
    /// time.
    pub fn pass_bursts(&mut self, phase: &Phase, bursts: f64, share: f64) {
        let share = share.clamp(0.0, 1.0);
        if bursts <= 0.0 || share >= 1.0 {
            return self.pass(phase);
        }
        let (arriving, served) = (phase.arriving / bursts, phase.served / bursts);
        let one = |queue: &mut Queue, part: f64| {
            queue.pass(&Phase {
                arriving: arriving * part,
                served: served * part.min(share),
            });
            queue.pass(&Phase {
                arriving: 0.0,
                served: served * (part - share).max(0.0),
            });
        };
        let whole = bursts.floor();
        let mut passed = 0.0;
        while passed < whole {
            let (level, overflow) = (self.level, self.overflow);
            one(self, 1.0);
            passed += 1.0;
            if self.level == level {
                // all other bursts are like this one
                self.overflow += (whole - passed) * (self.overflow - overflow);
                passed = whole;
            }
        }
        let rest = bursts - whole;
        if rest > 0.0 {
            one(self, rest);
        }
    }

    /// Loses the frames in it.
    pub fn flush(&mut self) {
        self.overflow += self.level;
        self.level = 0.0;
    }

    /// Loses frames that never enter it.
    pub fn lose(&mut self, frames: f64) {
        self.overflow += frames;
    }

    /// Returns the share of the coming phase after which this number of frames will have been lost
    /// in total; `None` if it will not.
    pub fn share_until_lost(&self, phase: &Phase, frames: f64) -> Option<f64> {
        let gain = phase.arriving - phase.served;
        let needed = (self.room - self.level) + (frames - self.overflow).max(0.0);
        (gain > 0.0 && gain >= needed).then(|| (needed / gain).max(0.0))
    }

    /// Returns the level after this share of the coming phase.
    pub fn level_at(&self, phase: &Phase, share: f64) -> f64 {
        (self.level + share * (phase.arriving - phase.served)).clamp(0.0, self.room)
    }

    /// Returns the frames in it.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Returns the frames lost so far.
    pub fn overflow(&self) -> f64 {
        self.overflow
    }

    /// Returns the highest level so far.
    pub fn longest(&self) -> f64 {
        self.longest
    }
}
