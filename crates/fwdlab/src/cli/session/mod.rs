//! What the commands by hand share: signals, arguments, words. Driving the ports is the library's ([`fwdlab_lab::session`]).
//!
//! Start with [`Signals`]; [`options`] has what the commands' arguments share, [`words`] how a second reads on the screen.

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

/// How often people are told.
pub const SECOND: Duration = Duration::from_secs(1);

/// Signals that ask a session to stop.
pub struct Signals {
    control: Control,
    which: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches Ctrl-C and its relatives from now on.
    pub fn catch() -> anyhow::Result<Signals> {
        let control = Control::default();
        let which = super::run::catch_signals(&control.flag())?;
        Ok(Signals { control, which })
    }

    /// What stops a session when one comes.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Has one come?
    pub fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }

    /// Was it Ctrl-C, and nothing else? Then it is forgotten: whoever asks does what it means, and goes on.
    pub fn take_interrupt(&self) -> bool {
        let which = &self.which;
        let relaxed = (Ordering::AcqRel, Ordering::Acquire);
        if (which.compare_exchange(SIGINT as usize, 0, relaxed.0, relaxed.1)).is_err() {
            return false;
        }
        self.control.flag().store(false, Ordering::Release);
        if which.load(Ordering::Acquire) != 0 {
            // another one came meanwhile
            self.control.stop();
        }
        true
    }

    /// How the program ends: done when nothing was asked to go on until a signal, and when it was: a user who says that it is
    /// enough has not interrupted anything.
    pub fn code(&self, endless: bool) -> Code {
        match self.which.load(Ordering::Acquire) {
            0 => Code::Done,
            2 if endless => Code::Done,
            15 => Code::Terminated,
            _ => Code::Interrupted,
        }
    }
}
