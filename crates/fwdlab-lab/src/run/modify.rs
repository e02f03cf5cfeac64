//! Changes by modifiers on the DUT while a series runs (RFC 2544 §11): filters, routing updates and
//! management.
//!
//! [`crate::dut`] defines how a DUT makes the changes; this module defines when. Every change is
//! read back or shown to work before anything is measured, reported with its exact commands, and
//! undone when [`Modified`] is dropped. Frames of broadcasts are in [`super::traffic`], queries in
//! [`super::manage`]. Start with [`Modified::begin`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::variant::{Modifier, Variant};

use super::manage::{Management, RunningQueries};
use super::traffic::Traffic;
use crate::bed::Bed;
use crate::dut::{self, Change, Dut};
use crate::error::LabError;
use crate::host::Limit;

/// Interval at which we check whether an update is due.
const TICK: Duration = Duration::from_millis(5);

/// Changes on the DUT; dropping it undoes them.
pub(super) struct Modified {
    dut: Arc<dyn Dut>,
    changes: Vec<Change>,
    filters: bool,
    updates: Option<Updates>,
    management: Option<Management>,
}

impl Modified {
    /// Applies the modifiers of a series, and reports the commands.
    ///
    /// # Errors
    /// Fails if a command failed, or if a change is not in effect.
    pub fn begin(
        bed: &Bed,
        traffic: &Traffic,
        streams: &[Stream],
        variant: &Variant,
        dut_cpus: &[usize],
        report: &mut dyn FnMut(&str, String) -> Result<(), LabError>,
    ) -> Result<Modified, LabError> {
        let dut = bed.dut(0).clone();
        let mut modified = Modified {
            dut: dut.clone(),
            changes: Vec::new(),
            filters: false,
            updates: None,
            management: None,
        };
        for modifier in &variant.modifiers {
            match modifier {
                Modifier::Filters { rules } => {
                    let permitted = traffic.pairs(&streams[0], variant);
                    let mut report = |text| report("filters", text);
                    modified
                        .changes
                        .push(dut.filter(&permitted, *rules, &mut report)?);
                    modified.filters = true;
                }
                Modifier::Updates { interval_s } => {
                    let version = streams[0].ip_version;
                    let mut report = |how: String| {
                        let when = format!("every {interval_s} s and at the begin of every trial");
                        report(
                            "updates",
                            format!("routing updates on the DUT, {when}, {how}"),
                        )
                    };
                    modified
                        .changes
                        .push(dut.begin_updates(version, &mut report)?);
                    modified.updates = Some(Updates {
                        dut: dut.clone(),
                        version,
                        interval: Duration::from_secs_f64(*interval_s),
                        made: Arc::default(),
                        failed: Arc::default(),
                    });
                }
                Modifier::Management => {
                    modified.management = Some(Management::begin(bed, dut_cpus, report)?);
                }
                Modifier::Broadcast => {}
            }
        }
        Ok(modified)
    }

    /// Starts a trial: makes the first update and the first query now, and the next ones at their
    /// intervals, until the returned values are dropped.
    pub fn trial(&self) -> (Option<Running>, Option<RunningQueries>) {
        (
            self.updates.as_ref().map(Updates::run),
            self.management.as_ref().map(Management::trial),
        )
    }

    /// Returns true if there are filters that deny everything but the test's frames.
    pub fn filters(&self) -> bool {
        self.filters
    }
}

impl Drop for Modified {
    fn drop(&mut self) {
        for change in self.changes.drain(..).rev() {
            // a failed undo is retried when the bed is removed; the host may be gone already, with
            // all changes
            let _ = self.dut.undo_change(change, Limit::OURS);
        }
    }
}

/// Changes routes on the DUT.
struct Updates {
    dut: Arc<dyn Dut>,
    version: IpVersion,
    interval: Duration,
    /// Number of updates so far, which decides the state of the next one.
    made: Arc<AtomicU64>,
    failed: Arc<Mutex<Option<LabError>>>,
}

/// Updates during a trial; they end when it is dropped.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    made: Arc<AtomicU64>,
    before: u64,
    failed: Arc<Mutex<Option<LabError>>>,
}

impl Updates {
    /// Makes the first update now, and another one after every interval.
    fn run(&self) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let (dut, version, interval) = (self.dut.clone(), self.version, self.interval);
        let (made, failed, stopped) = (self.made.clone(), self.failed.clone(), stop.clone());
        let before = made.load(Ordering::Acquire);
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let mut next = Duration::ZERO;
            while !stopped.load(Ordering::Acquire) {
                if started.elapsed() < next {
                    std::thread::sleep(TICK);
                    continue;
                }
                next += interval;
                let number = made.load(Ordering::Acquire);
                let to = match number.is_multiple_of(2) {
                    true => dut::Updates::B,
                    false => dut::Updates::A,
                };
                if let Err(error) = dut.update(version, to) {
                    if let Ok(mut failed) = failed.lock() {
                        *failed = Some(error);
                    }
                    break;
                }
                made.store(number + 1, Ordering::Release);
            }
        });
        Running {
            stop,
            thread: Some(thread),
            made: self.made.clone(),
            before,
            failed: self.failed.clone(),
        }
    }
}

impl Running {
    /// Ends the updates, and returns their number.
    ///
    /// # Errors
    /// Fails if an update failed, or the DUT did not apply it.
    pub fn end(mut self) -> Result<u64, LabError> {
        self.finish();
        let failed = self.failed.lock().ok().and_then(|mut failed| failed.take());
        match failed {
            Some(error) => Err(error),
            None => Ok(self.made.load(Ordering::Acquire) - self.before),
        }
    }

    fn finish(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.finish();
    }
}
