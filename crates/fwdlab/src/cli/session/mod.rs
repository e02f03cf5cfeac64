//! Shared by the commands that send and receive by hand: signals, arguments, text. The library
//! drives the ports ([`fwdlab_lab::session`]).
//!
//! Start with [`Signals`]; [`options`] has the shared arguments, [`words`] the text of each second.

pub mod options;
pub mod range;
pub mod stamping;
pub mod streams;
pub mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fwdlab_lab::control::Control;
use signal_hook::consts::SIGINT;

use crate::exit_code::Code;

/// Interval between two lines of output.
pub const SECOND: Duration = Duration::from_secs(1);

/// Signals that stop a session.
pub struct Signals {
    control: Control,
    signal: Arc<AtomicUsize>,
}

impl Signals {
    /// Starts to catch Ctrl-C and similar signals.
    pub fn catch() -> anyhow::Result<Signals> {
        let control = Control::default();
        let which = super::run::catch_signals(&control.flag())?;
        Ok(Signals {
            control,
            signal: which,
        })
    }

    /// Returns the flag that stops a session.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns true if a signal has arrived.
    pub fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }

    /// Returns true if the only signal was Ctrl-C, and clears it: the caller handles it and
    /// continues.
    pub fn take_interrupt(&self) -> bool {
        let which = &self.signal;
        let relaxed = (Ordering::AcqRel, Ordering::Acquire);
        if (which.compare_exchange(SIGINT as usize, 0, relaxed.0, relaxed.1)).is_err() {
            return false;
        }
        self.control.flag().store(false, Ordering::Release);
        if which.load(Ordering::Acquire) != 0 {
            // another signal arrived meanwhile
            self.control.stop();
        }
        true
    }

    /// Returns the exit code: done without a signal, and also after Ctrl-C in an endless session,
    /// because that is its normal end.
    pub fn code(&self, endless: bool) -> Code {
        match self.signal.load(Ordering::Acquire) {
            0 => Code::Done,
            2 if endless => Code::Done,
            15 => Code::Terminated,
            _ => Code::Interrupted,
        }
    }
}
