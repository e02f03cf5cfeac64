//! What modifiers change on the DUT of the bed while a series runs (RFC 2544 §11): filters, routing updates and management.
//!
//! How the DUT does it is its own ([`crate::dut`]); here is when. Whatever is set is read back or shown to work before anything is
//! measured, told with its exact commands, and taken back when [`Modified`] is dropped. Frames of broadcasts are in [`super::traffic`],
//! queries in [`super::manage`]. Start with [`Modified::begin`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::variant::{Modifier, Variant};

use super::manage::{Asking, Management};
use super::traffic::Traffic;
use crate::bed::Bed;
use crate::dut::{self, Change, Dut};
use crate::error::LabError;
use crate::host::Limit;

/// How often we look whether an update is due.
const TICK: Duration = Duration::from_millis(5);

/// What is changed on the DUT; dropping it takes that back.
pub(super) struct Modified {
    dut: Arc<dyn Dut>,
    changes: Vec<Change>,
    filters: bool,
    updates: Option<Updates>,
    management: Option<Management>,
}

impl Modified {
    /// Applies the modifiers of a series, and tells the commands.
    ///
    /// # Errors
    /// A command failed, or what was set is not there.
    pub fn begin(
        bed: &Bed,
        traffic: &Traffic,
        streams: &[Stream],
        variant: &Variant,
        dut_cpus: &[usize],
        tell: &mut dyn FnMut(&str, String) -> Result<(), LabError>,
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
                    let mut tell = |text| tell("filters", text);
                    modified
                        .changes
                        .push(dut.filter(&permitted, *rules, &mut tell)?);
                    modified.filters = true;
                }
                Modifier::Updates { interval_s } => {
                    let version = streams[0].ip_version;
                    let mut tell = |how: String| {
                        let when = format!("every {interval_s} s and at the begin of every trial");
                        tell(
                            "updates",
                            format!("routing updates on the DUT, {when}, {how}"),
                        )
                    };
                    modified
                        .changes
                        .push(dut.begin_updates(version, &mut tell)?);
                    modified.updates = Some(Updates {
                        dut: dut.clone(),
                        version,
                        interval: Duration::from_secs_f64(*interval_s),
                        made: Arc::default(),
                        failed: Arc::default(),
                    });
                }
                Modifier::Management => {
                    modified.management = Some(Management::begin(bed, dut_cpus, tell)?);
                }
                Modifier::Broadcast => {}
            }
        }
        Ok(modified)
    }

    /// A trial begins: the first update and the first query, and the next ones in their time, until what is returned is dropped.
    pub fn trial(&self) -> (Option<Running>, Option<Asking>) {
        (
            self.updates.as_ref().map(Updates::run),
            self.management.as_ref().map(Management::trial),
        )
    }

    /// Are there filters that deny what is not of the test?
    pub fn filters(&self) -> bool {
        self.filters
    }
}

impl Drop for Modified {
    fn drop(&mut self) {
        for change in self.changes.drain(..).rev() {
            // what fails is tried again when the bed goes, and the host may be gone already, with everything on it
            let _ = self.dut.take_back(change, Limit::OURS);
        }
    }
}

/// Changes routes on the DUT.
struct Updates {
    dut: Arc<dyn Dut>,
    version: IpVersion,
    interval: Duration,
    /// Updates so far: their number decides the state of the next.
    made: Arc<AtomicU64>,
    failed: Arc<Mutex<Option<LabError>>>,
}

/// Updates in the course of a trial; ends when dropped.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    made: Arc<AtomicU64>,
    before: u64,
    failed: Arc<Mutex<Option<LabError>>>,
}

impl Updates {
    /// The first update now, the next ones every interval.
    fn run(&self) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let (dut, version, interval) = (self.dut.clone(), self.version, self.interval);
        let (made, failed, stopped) = (self.made.clone(), self.failed.clone(), stop.clone());
        let before = made.load(Ordering::Acquire);
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut next = Duration::ZERO;
            while !stopped.load(Ordering::Acquire) {
                if began.elapsed() < next {
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
    /// Ends the updates, and says how many there were.
    ///
    /// # Errors
    /// One failed, or the DUT did not take it.
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
