//! The output streams of pkt-gen: messages go to standard error at once, the rates and totals to
//! standard output.
//!
//! If standard output is not a terminal, it is buffered until the end, as the C library does for
//! the original: in a log of both streams, the totals are the last lines. Start with
//! [`Log::message`].

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fwdlab_lab::session::figures::Counted;

use super::arguments::Arguments;
use super::lines::{self, Interval, Place, Units, Window, place};
use crate::output;

/// Both streams. Threads can share it; lines are never interleaved.
pub struct Log {
    state: Mutex<State>,
    units: Units,
    framing: bool,
    average: bool,
}

struct State {
    held: String,
    hold: bool,
    window: Window,
    first: bool,
}

impl Log {
    /// Creates a log, and prints nothing.
    pub fn new(arguments: &Arguments) -> Log {
        Log {
            state: Mutex::new(State {
                held: String::new(),
                hold: !std::io::stdout().is_terminal(),
                window: Window::default(),
                first: true,
            }),
            units: if arguments.plain {
                Units::Plain
            } else {
                Units::Scaled
            },
            framing: arguments.framing,
            average: arguments.average,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a message with timestamp and origin to standard error.
    pub fn message(&self, place: Place, text: &str) {
        let _one_at_a_time = self.state();
        write_error(&lines::message(SystemTime::now(), place, text));
    }

    /// Prints a message that the original does not have to standard error.
    pub fn remark(&self, text: &str) {
        let _one_at_a_time = self.state();
        write_error(&format!("pkt-gen: {text}\n"));
    }

    /// Prints text to standard output.
    pub fn print(&self, text: &str) {
        let mut state = self.state();
        if state.hold {
            state.held.push_str(text);
        } else {
            output::result(text);
        }
    }

    /// Prints the line of an interval.
    pub fn rate(&self, counted: Counted, length: Duration) {
        let mut state = self.state();
        let interval = Interval {
            counted,
            us: length.as_micros() as u64,
            first: std::mem::take(&mut state.first),
        };
        let average = if self.average {
            state.window.add(interval.pps(), self.units)
        } else {
            String::new()
        };
        let line = interval.line(self.units, self.framing, &average);
        write_error(&lines::message(SystemTime::now(), place::RATE, &line));
    }

    /// Prints the totals.
    pub fn totals(&self, what: &'static str, counted: Counted, seconds: f64) {
        let totals = lines::Totals {
            what,
            counted,
            seconds,
        };
        self.print(&totals.lines(self.units, self.framing));
    }
}

/// Prints the buffered output, however the program ends.
impl Drop for Log {
    fn drop(&mut self) {
        let held = std::mem::take(&mut self.state().held);
        if !held.is_empty() {
            output::result(&held);
        }
    }
}

fn write_error(text: &str) {
    output::bytes(&[], text.as_bytes());
}
