//! Watches a port that works by itself: which interval has ended, and whether the port still
//! exists.
//!
//! For counts that are read in one place while the work is done in another (the kernel, a thread).
//! Start with [`Watch::new`].

use std::time::{Duration, Instant};

use super::SECOND;
use super::figures::Counted;
use crate::error::LabError;
use crate::ports::{Port, state};

/// A last interval that is shorter than this is not reported.
const SHORTEST: Duration = Duration::from_millis(10);

/// Periodic readings of a port.
pub(super) struct Watch<'a> {
    port: &'a Port,
    interval: Duration,
    reported: (Instant, Counted),
    checked: Instant,
}

impl Watch<'_> {
    /// Starts with this count.
    pub fn new(port: &Port, interval: Duration, counted: Counted) -> Watch<'_> {
        let now = Instant::now();
        Watch {
            port,
            interval,
            reported: (now, counted),
            checked: now,
        }
    }

    /// Returns the interval that ends now, if one does: at the end of everything, or when it is
    /// long enough.
    pub fn interval(
        &mut self,
        now: Instant,
        counted: Counted,
        is_over: bool,
    ) -> Option<(Counted, Duration)> {
        let (since, before) = self.reported;
        let length = now - since;
        if length < self.interval && !(is_over && length >= SHORTEST) {
            return None;
        }
        self.reported = (now, counted);
        Some((counted.since(before), length))
    }

    /// Checks the port every second.
    ///
    /// # Errors
    /// Fails if it is down or gone.
    pub fn check(&mut self, now: Instant) -> Result<(), LabError> {
        if now - self.checked < SECOND {
            return Ok(());
        }
        self.checked = now;
        state::check(&self.port.spec)
    }
}
