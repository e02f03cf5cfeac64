//! The offset of CLOCK_REALTIME from CLOCK_MONOTONIC, and whether the time of day was set.
//!
//! NTP slews both alike, so their difference is constant until the time of day is set
//! (`settimeofday`, a leap second, `adjtimex` with an offset). The kernel reports that by
//! cancelling a timer (timerfd_create(2)). Start with [`Watch`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Number of readings, of which the best is used.
const READINGS: usize = 9;

/// The offset of CLOCK_REALTIME from CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockOffset {
    /// Maximum error of the offset.
    pub within_ns: u64,
    /// The offset.
    pub ahead_ns: i128,
}

impl ClockOffset {
    /// Reads both clocks several times and keeps the pair of readings that took the least time.
    pub fn read() -> ClockOffset {
        let now = |clock| {
            let now = clock_gettime(clock);
            i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
        };
        let reading = |_| {
            let before = now(ClockId::Monotonic);
            let realtime = now(ClockId::Realtime);
            let after = now(ClockId::Monotonic);
            ClockOffset {
                within_ns: ((after - before) / 2 + 1) as u64,
                ahead_ns: realtime - (before + after) / 2,
            }
        };
        let first = reading(0);
        (1..READINGS).map(reading).fold(first, ClockOffset::min)
    }

    /// Converts a time of day to CLOCK_MONOTONIC; 0 if it is before the start of that clock.
    pub fn to_monotonic(self, realtime_ns: u64) -> u64 {
        u64::try_from(i128::from(realtime_ns) - self.ahead_ns).unwrap_or(0)
    }

    /// Converts a time of CLOCK_MONOTONIC to a time of day.
    pub fn to_realtime(self, monotonic_ns: u64) -> u64 {
        u64::try_from(i128::from(monotonic_ns) + self.ahead_ns).unwrap_or(0)
    }

    /// Returns by how much the time of day was set between this reading and a later one, if that
    /// exceeds the errors of both.
    pub fn step_to(self, later: ClockOffset) -> Option<i64> {
        let step = later.ahead_ns - self.ahead_ns;
        let off = i128::from(self.within_ns + later.within_ns);
        (step.abs() > off).then_some(step as i64)
    }
}

/// Watches the time of day from its start.
#[derive(Debug)]
pub struct Watch {
    begin: ClockOffset,
    timer: OwnedFd,
    /// The kernel reports it only once.
    was_set: AtomicBool,
}

impl Watch {
    /// Starts to watch.
    ///
    /// # Errors
    /// If the kernel provides no timer.
    pub fn begin() -> io::Result<Watch> {
        let timer = timerfd_create(
            TimerfdClockId::Realtime,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let never = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                // the year 2262, the end of 64-bit nanoseconds
                tv_sec: i64::MAX / 1_000_000_000,
                tv_nsec: 0,
            },
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &never)?;
        Ok(Watch {
            begin: ClockOffset::read(),
            timer,
            was_set: AtomicBool::new(false),
        })
    }

    /// Returns by how much the time of day has been set since the start; 0 if it was set but hardly
    /// changed, or was set back. `None` if it was not set.
    pub fn step_ns(&self) -> Option<i64> {
        let mut expirations = [0; 8];
        if let Err(rustix::io::Errno::CANCELED) = rustix::io::read(&self.timer, &mut expirations) {
            self.was_set.store(true, Ordering::Relaxed);
        }
        let step = self.begin.step_to(ClockOffset::read());
        step.or(self.was_set.load(Ordering::Relaxed).then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: ClockOffset = ClockOffset {
        within_ns: 30,
        ahead_ns: 1_700_000_000_000_000_000,
    };

    #[test]
    fn times_of_one_clock_on_the_other() {
        assert_eq!(AT.to_monotonic(1_700_000_000_000_000_007), 7);
        assert_eq!(AT.to_realtime(7), 1_700_000_000_000_000_007);
        assert_eq!(AT.to_monotonic(5), 0);
    }

    #[test]
    fn a_step_is_more_than_the_readings_are_off() {
        let later = |ns| ClockOffset {
            within_ns: 20,
            ahead_ns: AT.ahead_ns + ns,
        };
        for (ns, step) in [
            (0, None),
            (50, None),
            (-50, None),
            (51, Some(51)),
            (-1_000_000_000, Some(-1_000_000_000)),
        ] {
            assert_eq!(AT.step_to(later(ns)), step, "{ns}");
        }
    }

    /// The kernel's own clocks: two readings agree within their stated errors.
    #[test]
    fn readings_agree_unless_the_clock_is_set() {
        let watch = Watch::begin().unwrap();
        match watch.step_ns() {
            None => assert!(watch.begin.ahead_ns > 0),
            Some(step) => println!(
                "SKIPPED: readings_agree_unless_the_clock_is_set: somebody set the clock, by {step} ns"
            ),
        }
    }
}
