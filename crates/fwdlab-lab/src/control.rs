//! How a run is steered from outside: by a signal, and by what other processes ask for in its directory.
//!
//! Whoever waits asks [`Control::is_stopped`], and that is where requests are read, a few times a second: there is no thread for it.
//! What was heeded is told by the run as an event. Start with [`Control`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_model::event::Request;
use fwdlab_store::Requests;

/// Requests are looked for so often.
const LOOK: Duration = Duration::from_millis(200);

/// Stops, pauses or skips in a run from outside. Stopped, the current trial ends, everything is undone, what was measured is kept.
#[derive(Debug, Clone, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    steering: Arc<Mutex<Steering>>,
}

#[derive(Debug, Default)]
struct Steering {
    requests: Option<Requests>,
    looked: Option<Instant>,
    is_paused: bool,
    /// A test case is being measured that may be left out.
    can_skip: bool,
    skips: bool,
    /// What was heeded and not told yet; `false`: it could not be.
    heeded: Vec<(Request, bool)>,
}

impl Control {
    /// Asks the run to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Is what goes on now to end: because the run has been asked to stop, or because this test case is to be skipped?
    pub fn is_stopped(&self) -> bool {
        let skips = self.steering().look(&self.stop).skips;
        skips || self.stop.load(Ordering::Acquire)
    }

    /// The flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Heeds these requests from now on.
    pub(crate) fn heed(&self, requests: Requests) {
        self.steering().requests = Some(requests);
    }

    /// Is the next trial to wait?
    pub(crate) fn is_paused(&self) -> bool {
        let is_paused = self.steering().look(&self.stop).is_paused;
        is_paused && !self.is_stopped()
    }

    /// From here on a test case is measured that may be skipped.
    pub(crate) fn begin_case(&self) {
        self.steering().can_skip = true;
    }

    /// It has ended; was it to be skipped?
    pub(crate) fn end_case(&self) -> bool {
        let mut steering = self.steering();
        // who asked a moment ago meant this one
        steering.looked = None;
        steering.look(&self.stop);
        steering.can_skip = false;
        std::mem::take(&mut steering.skips)
    }

    /// What was heeded since the last time, and whether it could be.
    pub(crate) fn heeded(&self) -> Vec<(Request, bool)> {
        std::mem::take(&mut self.steering().heeded)
    }

    fn steering(&self) -> std::sync::MutexGuard<'_, Steering> {
        // its fields are independent of each other
        self.steering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steering {
    /// Heeds what was requested, where it is time to look.
    fn look(&mut self, stop: &AtomicBool) -> &Steering {
        let is_time = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK);
        let Some(requests) = self.requests.as_mut().filter(|_| is_time) else {
            return self;
        };
        self.looked = Some(Instant::now());
        for request in requests.read() {
            let is_heeded = match request {
                Request::Pause => !std::mem::replace(&mut self.is_paused, true),
                Request::Resume => std::mem::take(&mut self.is_paused),
                Request::Skip => {
                    self.skips = self.can_skip;
                    self.can_skip
                }
                Request::Stop => !stop.swap(true, Ordering::AcqRel),
            };
            self.heeded.push((request, is_heeded));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use Request::{Pause, Resume, Skip, Stop};

    use super::*;

    /// A control that heeds a folder, without the pauses between looks.
    fn heeding(dir: &std::path::Path) -> Control {
        let control = Control::default();
        control.heed(Requests::of(dir));
        control
    }

    fn look(control: &Control) {
        control.steering().looked = None;
        let stopped = control.is_stopped();
        assert!(!stopped || control.stop.load(Ordering::Acquire) || control.steering().skips);
    }

    #[test]
    fn requests_are_heeded_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let say = |request: Request| {
            let mut file = (OpenOptions::new().append(true).create(true))
                .open(dir.path().join("requests.jsonl"))
                .unwrap();
            let line = serde_json::json!({ "request": request });
            writeln!(file, "{line}").unwrap();
        };
        let control = heeding(dir.path());
        assert!(!control.is_stopped() && !control.is_paused());
        say(Pause);
        look(&control);
        assert!(control.is_paused());
        // there is nothing to skip, and nothing is skipped later for that
        say(Skip);
        say(Pause);
        say(Resume);
        look(&control);
        assert!(!control.is_paused() && !control.is_stopped());
        control.begin_case();
        assert!(!control.is_stopped());
        say(Skip);
        look(&control);
        assert!(control.is_stopped() && control.end_case());
        assert!(!control.is_stopped() && !control.end_case());
        say(Stop);
        look(&control);
        assert!(control.is_stopped());
        let heeded = [
            (Pause, true),
            (Skip, false),
            (Pause, false),
            (Resume, true),
            (Skip, true),
            (Stop, true),
        ];
        assert_eq!(control.heeded(), heeded);
        assert_eq!(control.heeded(), []);
    }
}
