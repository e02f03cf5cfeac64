//! Looking at a port that works by itself: which interval is due, and whether the port is still there.
//!
//! For those that count in one place while the work is done in another (the kernel, a thread). Start with [`Watch::new`].

use std::time::{Duration, Instant};

use super::SECOND;
use super::figures::Counted;
use crate::error::LabError;
use crate::ports::{Port, state};

/// A last interval that is shorter than this is not told.
const SHORTEST: Duration = Duration::from_millis(10);

/// Readings of a port, now and then.
pub(super) struct Watch<'a> {
    port: &'a Port,
    interval: Duration,
    reported: (Instant, Counted),
    checked: Instant,
}

impl Watch<'_> {
    /// Begins where so much is counted.
    pub fn new(port: &Port, interval: Duration, counted: Counted) -> Watch<'_> {
        let now = Instant::now();
        Watch {
            port,
            interval,
            reported: (now, counted),
            checked: now,
        }
    }

    /// The interval that ends now, if one does: with the end of all of it, or when it is long enough.
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

    /// Looks after the port every second.
    ///
    /// # Errors
    /// It is down or gone.
    pub fn check(&mut self, now: Instant) -> Result<(), LabError> {
        if now - self.checked < SECOND {
            return Ok(());
        }
        self.checked = now;
        state::check(&self.port.spec)
    }
}
