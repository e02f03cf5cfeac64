//! Controls a run from outside: by a signal, and by requests of other processes in its directory.
//!
//! Waiting code calls [`Control::is_stopped`], which also reads requests, a few times per second:
//! there is no thread for them. The run reports heeded requests as events. Start with [`Control`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_model::event::Request;
use fwdlab_store::Requests;

use crate::error::LabError;

/// Interval at which requests are read.
const LOOK: Duration = Duration::from_millis(200);

/// Stops, pauses or skips in a run from outside. When it is stopped, the current trial ends,
/// everything is undone, and results so far are kept.
///
/// A run has one; each of its turns has a child of it ([`Control::begin_turn`]), which is stopped
/// with the run, or alone when the turn is skipped.
#[derive(Debug, Clone, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    /// Of a turn's control: this turn is to be skipped.
    skip: Arc<AtomicBool>,
    steering: Arc<Mutex<Steering>>,
}

#[derive(Debug, Default)]
struct Steering {
    requests: Option<Requests>,
    looked: Option<Instant>,
    is_paused: bool,
    /// The turns that are being measured and may be skipped, in the order in which they began.
    turns: Vec<Arc<AtomicBool>>,
    /// Requests that were handled and not reported yet; `false`: it could not be heeded.
    heeded: Vec<(Request, bool)>,
}

impl Control {
    /// Asks the run to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Returns true if the run or turn must end: a run because it was asked to stop, a turn for
    /// that reason or because it is skipped.
    pub fn is_stopped(&self) -> bool {
        self.steering().look(&self.stop);
        self.skip.load(Ordering::Acquire) || self.stop.load(Ordering::Acquire)
    }

    /// Fails if the run or turn must end.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub fn check(&self) -> Result<(), LabError> {
        match self.is_stopped() {
            true => Err(LabError::Interrupted),
            false => Ok(()),
        }
    }

    /// Returns the flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Heeds these requests from now on.
    pub(crate) fn follow_requests(&self, requests: Requests) {
        self.steering().requests = Some(requests);
    }

    /// Returns true if the next trial must wait.
    pub(crate) fn is_paused(&self) -> bool {
        let is_paused = self.steering().look(&self.stop).is_paused;
        is_paused && !self.is_stopped()
    }

    /// Creates the control of a turn that begins now. A request to skip applies to the turn that
    /// began first.
    pub(crate) fn begin_turn(&self) -> Control {
        let turn = self.part();
        self.steering().turns.push(turn.skip.clone());
        turn
    }

    /// Creates the control of a part of the run that cannot be skipped alone.
    pub(crate) fn part(&self) -> Control {
        Control {
            skip: Arc::default(),
            ..self.clone()
        }
    }

    /// Skips a turn.
    pub(crate) fn skip(&self) {
        self.skip.store(true, Ordering::Release);
    }

    /// Ends a turn, and returns whether it was to be skipped.
    pub(crate) fn end_turn(&self) -> bool {
        let mut steering = self.steering();
        // a request of a moment ago is for this turn
        steering.looked = None;
        steering.look(&self.stop);
        steering.turns.retain(|turn| !Arc::ptr_eq(turn, &self.skip));
        self.skip.load(Ordering::Acquire)
    }

    /// Returns the requests handled since the last call, and whether they could be heeded.
    pub(crate) fn handled_requests(&self) -> Vec<(Request, bool)> {
        std::mem::take(&mut self.steering().heeded)
    }

    fn steering(&self) -> std::sync::MutexGuard<'_, Steering> {
        // its fields are independent of each other
        self.steering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steering {
    /// Heeds new requests if the interval has passed.
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
                Request::Skip => (self.turns.iter()).any(|turn| !turn.swap(true, Ordering::AcqRel)),
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

    /// Creates a control that heeds a folder without intervals.
    fn control_in(dir: &std::path::Path) -> Control {
        let control = Control::default();
        control.follow_requests(Requests::open(dir));
        control
    }

    fn look(control: &Control) {
        control.steering().looked = None;
        control.is_stopped();
    }

    #[test]
    fn requests_are_handled_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let say = |request: Request| {
            let mut file = (OpenOptions::new().append(true).create(true))
                .open(dir.path().join("requests.jsonl"))
                .unwrap();
            let line = serde_json::json!({ "request": request });
            writeln!(file, "{line}").unwrap();
        };
        let control = control_in(dir.path());
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
        // of two turns, the one that began first is skipped
        let [first, second] = [control.begin_turn(), control.begin_turn()];
        assert!(!first.is_stopped());
        say(Skip);
        look(&control);
        assert!(first.is_stopped() && !second.is_stopped() && !control.is_stopped());
        assert!(first.end_turn() && !second.end_turn());
        say(Skip);
        look(&control);
        say(Stop);
        look(&control);
        assert!(control.is_stopped());
        let handled = [
            (Pause, true),
            (Skip, false),
            (Pause, false),
            (Resume, true),
            (Skip, true),
            (Skip, false),
            (Stop, true),
        ];
        assert_eq!(control.handled_requests(), handled);
        assert_eq!(control.handled_requests(), []);
    }
}
