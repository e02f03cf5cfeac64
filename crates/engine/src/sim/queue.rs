//! The buffer in front of one core, as a fluid: frames run in and out evenly, and what does not fit is lost.
//!
//! It knows neither time nor frames, only amounts per phase; rates are constant within a phase, so that the level moves
//! one way and its bounds are exact.

/// A stretch of time in which nothing changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Phase {
    pub length_ns: u64,
    /// Frames that arrive in it.
    pub arriving: f64,
    /// Frames that could be served in it.
    pub served: f64,
}

/// A buffer and what it has lost.
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

    pub fn pass(&mut self, phase: &Phase) {
        let level = self.level + (phase.arriving - phase.served);
        self.overflow += (level - self.room).max(0.0);
        self.level = level.clamp(0.0, self.room);
        self.longest = self.longest.max(self.level);
    }

    /// Frames lost so far.
    pub fn overflow(&self) -> f64 {
        self.overflow
    }

    /// The highest level so far.
    pub fn longest(&self) -> f64 {
        self.longest
    }
}
