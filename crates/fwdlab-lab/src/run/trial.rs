//! One trial on the test bed: counters at standstill, traffic, windows or slices, counters at
//! standstill again.
//!
//! The measuring loop runs on its own thread on the DUT's CPU with real-time priority: it sleeps
//! nearly always, and its cost affects every configuration equally. It decides nothing about
//! results. Start with [`Bench`].

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use fwdlab_engine::analysis::AnalysisPlan;
use fwdlab_engine::{LoadPlan, Reading, ReceiveCounts, Schedule, StallPolicy};
use fwdlab_measure::conservation::{balance, is_settled, overcount};
use fwdlab_measure::maxfwd::Window;
use fwdlab_measure::overload::{
    Counts, LOOK_READINGS, Look, Overload, READINGS_PER_WINDOW, Search,
};
use fwdlab_measure::paired::{self, Slice};
use fwdlab_model::efficiency::Work;
use fwdlab_model::hook::HookRecord;
use fwdlab_model::loss::{Chain, Counters, INPUT_FULL, Meter, Place, Stage, VethCounts};
use fwdlab_model::procedure::{Question, Stretch};
use fwdlab_model::result::{Stratum, TrialRecord, Validity};
use fwdlab_model::trial::Stream;
use fwdlab_model::variant::Variant;

use super::hooks::{During, RunningHooks, SignallingRig};
use crate::bed::{Bed, DutPorts, PortCounters, SwitchPackets};
use crate::control::Control;
use crate::dut::EndedDaemon;
use crate::error::LabError;
use crate::placement::Placement;
use crate::telemetry::{self, Seen, Wanted};
use crate::tester::{Frames, Rig};
use crate::witness::probe::Probes;
use crate::witness::{self, Witnesses};

/// Number of frames that prove a path.
pub(super) const PROOF_FRAMES: u64 = 1000;

/// Length of a window: short compared with the seconds in which the host changes its behaviour,
/// long compared with the milliseconds of a scheduler.
const WINDOW: Duration = Duration::from_millis(20);

/// Time between a probe reading and the window after it: the DUT's thread and the sender waited for
/// the probes, catch up, and have that wait accounted before the counters of the window are read.
const AFTER_PROBES: Duration = Duration::from_micros(300);

/// Time from the start of the traffic to the first window: rings fill, caches warm, the DUT's
/// thread wakes.
pub(super) const WARM_UP: Duration = Duration::from_millis(80);

/// Windows between two rearrangements of the generator's memory: a trial of a second has four
/// arrangements.
const WINDOWS_PER_ARRANGEMENT: usize = 8;

/// Blocks of slices between two rearrangements.
const BLOCKS_PER_ARRANGEMENT: usize = 3;

/// Time from the first frame after a rearrangement to the next window.
const REFILL: Duration = Duration::from_millis(30);

/// Time after switching to another DUT (`dataplane.md` §9: takes effect well within 6 ms).
const SETTLE: Duration = Duration::from_millis(6);

/// Time for repeating a slice in which the generator stalled, or the DUT's CPU was taken away.
const SLICE_RETRIES: Duration = Duration::from_millis(80);

/// A trial without quiet windows, or with too few undisturbed slices, may take this multiple of its
/// duration.
const PATIENCE: u32 = 3;

/// Time to wait for a slow batch while frames are unaccounted for: a DUT that takes long for a
/// batch of frames looks as if nothing moved. 64 frames that pass 20,000 rules of 12 ns take 15 ms,
/// and longer on a busy host.
const LATE_BATCH: Duration = Duration::from_millis(500);

/// Counters that do not come to rest are used as they are after this number of readings; the
/// conservation check then shows it.
const STANDSTILL_READINGS: u32 = 50;

/// Returns the duration of a block of slices of this number of DUTs: each twice, in mirrored order.
pub(super) fn block(duts: u32) -> Duration {
    (SETTLE + paired::SLICE) * 2 * duts
}

/// Parameters of a trial.
pub(super) struct Bench<'a> {
    pub bed: &'a Bed,
    pub tester: &'a mut dyn Rig,
    /// Offered instead of the stream's test frames.
    pub traffic: Option<Arc<fwdlab_engine::Traffic>>,
    /// Counts the kernel's reasons for dropping frames. Costs the DUT time for every frame that the
    /// kernel frees, so it is used only for streams that lose frames inside the DUT.
    pub count_reasons: bool,
    /// What is read from the DUT's host around the load.
    pub telemetry: Option<&'a Wanted>,
    /// User commands while frames flow.
    pub hooks: Option<&'a During>,
    pub placement: &'a Placement,
    pub control: &'a Control,
}

/// Counts of one trial, from standstill to standstill.
pub(super) struct Counted {
    /// Counters per path.
    pub counters: Vec<Counters>,
    /// Of the frames that were due and not sent, those of each of several senders of a port.
    pub not_sent_by_sender: Vec<u64>,
    /// Conditions that make the trial invalid.
    pub objections: Vec<String>,
    /// A port of the bed went down or disappeared: one of the objections.
    pub is_broken: bool,
    /// When the tester was started.
    pub began: Option<Instant>,
    /// Daemons of the DUTs' configurations that are no longer running.
    pub ended: Vec<EndedDaemon>,
    /// Resources that forwarding took on the DUT, if there is only one and it reports them.
    pub work: Option<Work>,
    /// Telemetry of the DUT's host; `None` if it was not read.
    pub telemetry: Option<Box<Seen>>,
    /// Records of the hooks that ran while frames flowed.
    pub hooks: Vec<HookRecord>,
}

impl Counted {
    /// Returns the counts of a trial in which a port of the bed went down: the fate of its frames
    /// is unknown.
    pub fn link_down(paths: usize, reason: String) -> Counted {
        Counted {
            counters: vec![Counters::default(); paths],
            not_sent_by_sender: Vec::new(),
            objections: vec![reason],
            is_broken: true,
            began: None,
            ended: Vec::new(),
            work: None,
            telemetry: None,
            hooks: Vec::new(),
        }
    }

    /// Returns the counts of a look, or an error if a port went down, because looks are not
    /// repeated as trials are.
    pub fn or_link_down(self) -> Result<Counted, LabError> {
        match self.is_broken {
            false => Ok(self),
            true => Err(LabError::Disturbed {
                what: self.objections.join("; "),
                source: Box::new(LabError::Preflight("what was seen is of no use".into())),
            }),
        }
    }

    /// Returns true if no frame came back. A port may have gone down between two trials, and
    /// removed its routes.
    pub fn received_nothing(&self) -> bool {
        let all = Counters::total(&self.counters);
        all.generator_sent > 0 && all.receiver_received == 0
    }

    /// Counts frames that were due, but never left, as not sent, whether the sender stalled, was at
    /// its limit, or failed. (Its schedule may have counted one more: whether a frame is due just
    /// as the time ends is a matter of rounding.)
    pub fn count_not_sent(&mut self, ways: u64, frames: u64) {
        let sent = self
            .counters
            .iter()
            .map(|c| c.generator_sent + c.generator_additional);
        let not_sent = frames.saturating_sub(sent.sum());
        for (k, counters) in self.counters.iter_mut().enumerate() {
            counters.generator_not_sent = match (ways, k) {
                (2, _) => share(not_sent, k),
                (_, 0) => not_sent,
                _ => 0,
            };
        }
    }
}

/// Progress of a trial for the listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrialProgress {
    pub offered_load_pps: f64,
    pub forwarding_rate_pps: f64,
}

impl<'a> Bench<'a> {
    /// Creates a bench that offers test frames, and reads nothing besides the counters.
    pub fn new(
        bed: &'a Bed,
        tester: &'a mut dyn Rig,
        placement: &'a Placement,
        control: &'a Control,
    ) -> Bench<'a> {
        Bench {
            bed,
            tester,
            traffic: None,
            count_reasons: false,
            telemetry: None,
            hooks: None,
            placement,
            control,
        }
    }
}

impl Bench<'_> {
    /// Makes a trial of windows on path 0: for at least `duration`, and until `enough` returns true
    /// or patience ends.
    pub fn windows(
        &mut self,
        stream: &Stream,
        load_pps: Option<f64>,
        duration: Duration,
        enough: &(dyn Fn(&[Window]) -> bool + Sync),
        glimpse: &Sender<TrialProgress>,
    ) -> Result<(Vec<Window>, Counted), LabError> {
        let longest = duration * PATIENCE;
        let (bed, placement) = (self.bed, self.placement);
        self.count(stream, until(load_pps, longest), |tester, control| {
            let mut probes = Probes::open(placement);
            let started = tester.now();
            let mut windows: Vec<Window> = Vec::new();
            let mut before = probes.read();
            while !control.is_stopped()
                && tester.since(started) < longest
                && (tester.since(started) < duration || !enough(&windows))
            {
                if !windows.is_empty() && windows.len().is_multiple_of(WINDOWS_PER_ARRANGEMENT) {
                    renew(tester)?;
                    before = probes.read();
                }
                tester.wait(AFTER_PROBES);
                let start_s = tester.since(started).as_secs_f64();
                let waited = bed.waited(0);
                let from = tester.read()?;
                tester.wait(WINDOW);
                let to = tester.read()?;
                // the thread of a port that went down is gone
                let waited = bed.waited(0).saturating_sub(waited);
                let after = probes.read();
                let window = Window {
                    start_s,
                    duration_s: seconds(&from, &to),
                    received_s: received_seconds(&from, &to),
                    sent: sum(&to.sent) - sum(&from.sent),
                    received: sum(&to.received) - sum(&from.received),
                    dut_waited_s: waited.as_secs_f64(),
                    sender_waited_s: sender_waited_s(&from, &to),
                    before: std::mem::replace(&mut before, after.clone()),
                    after,
                };
                // a missing listener is no reason to stop
                let _ = glimpse.send(TrialProgress {
                    offered_load_pps: window.offered_load_pps(),
                    forwarding_rate_pps: window.forwarding_rate_pps(),
                });
                windows.push(window);
            }
            Ok(windows)
        })
    }

    /// Makes blocks of slices of this length, in the orders that `order` yields, for `duration`;
    /// longer, until patience ends, while too few of them can be used.
    pub fn slices(
        &mut self,
        stream: &Stream,
        load_pps: f64,
        (length, duration): (Duration, Duration),
        order: &mut (dyn FnMut() -> Vec<usize> + Send),
        places: &[usize],
    ) -> Result<(Vec<Vec<Slice>>, Counted), LabError> {
        let bed = self.bed;
        let longest = duration * PATIENCE;
        let lead = paired::lead(length);
        let retries = SLICE_RETRIES.as_nanos() / (lead + length).as_nanos();
        self.count(
            stream,
            until(Some(load_pps), longest + duration),
            |tester, control| {
                let started = tester.now();
                let mut blocks: Vec<Vec<Slice>> = Vec::new();
                let mut usable = 0;
                while !control.is_stopped()
                    && tester.since(started) < longest
                    && (tester.since(started) < duration || usable < paired::MIN_BLOCKS)
                {
                    if !blocks.is_empty() && blocks.len().is_multiple_of(BLOCKS_PER_ARRANGEMENT) {
                        renew(tester)?;
                    }
                    let mut block = Vec::new();
                    for configuration in order() {
                        let place = places
                            .iter()
                            .position(|&c| c == configuration)
                            .expect("every configuration has an index");
                        tester.select(place)?;
                        tester.wait(SETTLE);
                        let mut slice =
                            |length| one_slice(bed, tester, length, configuration, place);
                        let mut one = || -> Result<Slice, LabError> {
                            let is_led = lead.is_zero() || slice(lead)?.is_offered(load_pps);
                            Ok(Slice {
                                is_led,
                                ..slice(length)?
                            })
                        };
                        let mut slice = one()?;
                        for _ in 0..retries {
                            if slice.is_undisturbed(load_pps) || control.is_stopped() {
                                break;
                            }
                            slice = one()?;
                        }
                        block.push(slice);
                    }
                    usable += usize::from(paired::is_usable(&block, load_pps));
                    blocks.push(block);
                }
                Ok(blocks)
            },
        )
    }

    /// Makes a trial of one load on path 0 with the number of frames that are due in `duration`, by
    /// the clock. Frames that the sender could not send in time are counted as not sent: if the
    /// trial waited for them it would be longer, and its DUT would look better than it is.
    pub fn load(
        &mut self,
        stream: &Stream,
        load_pps: f64,
        duration: Duration,
    ) -> Result<Counted, LabError> {
        self.load_at(stream, load_pps, load_pps, duration)
    }

    /// The same with frames that leave at another rate than the load, and with pauses.
    pub fn load_at(
        &mut self,
        stream: &Stream,
        load_pps: f64,
        rate_pps: f64,
        duration: Duration,
    ) -> Result<Counted, LabError> {
        // the load is that of each direction
        let ways = self.path_count();
        let frames = ways * (load_pps * duration.as_secs_f64()).round() as u64;
        let schedule = within(rate_pps * ways as f64, duration, frames);
        // hooks that wait for the first frames see them in a reading
        let reads = self.hooks.is_some_and(|hooks| !hooks.is_empty());
        let ((), mut counted) = self.count(stream, schedule, |tester, control| {
            while !tester.is_done() && !control.is_stopped() {
                tester.wait(WINDOW);
                if reads {
                    tester.read()?;
                }
            }
            Ok(())
        })?;
        counted.count_not_sent(ways, frames);
        Ok(counted)
    }

    /// Returns the number of directions in which frames are offered.
    pub fn path_count(&self) -> u64 {
        (self.bed.path_count() - self.bed.duts() + 1) as u64
    }

    /// Returns what the generator offers flat out, in frames per second.
    pub fn flat_out(&mut self, stream: &Stream) -> Result<f64, LabError> {
        let schedule = until(None, Duration::from_secs(1));
        let (offered, counted) = self.count(stream, schedule, |tester, _| {
            let from = tester.read()?;
            tester.wait(WINDOW * 20);
            let to = tester.read()?;
            Ok((offered(&to) - offered(&from)) as f64 / seconds(&from, &to))
        })?;
        counted.or_link_down()?;
        Ok(offered / self.path_count() as f64)
    }

    /// Finds a load that overloads the DUT.
    pub fn overload(&mut self, stream: &Stream) -> Result<Overload, LabError> {
        let mut search = Search::default();
        loop {
            let schedule = until(Some(search.load_pps()), Duration::from_secs(1));
            let (readings, counted) = self.count(stream, schedule, |tester, _| {
                let mut readings = vec![counts(&tester.read()?)];
                for _ in 0..LOOK_READINGS {
                    tester.wait(WINDOW / READINGS_PER_WINDOW as u32);
                    readings.push(counts(&tester.read()?));
                }
                Ok(readings)
            })?;
            let counted = counted.or_link_down()?;
            let look = Look {
                readings,
                loses_inside: counted.counters.iter().any(loses_inside),
            };
            if let Some(found) = search.record(&look) {
                return Ok(found);
            }
        }
    }

    /// Reads all counters until two readings agree: a frame of the DUT's own between two reads
    /// would look like a residue.
    fn standstill(&mut self) -> Result<Vec<PathCounters>, LabError> {
        settle(self.bed, self.tester);
        let mut last = None;
        for _ in 0..STANDSTILL_READINGS {
            let now = (0..self.bed.path_count())
                .map(|k| {
                    Ok(PathCounters {
                        ports: self.bed.counters(k)?,
                        received: self.tester.receive_counts(k)?,
                    })
                })
                .collect::<Result<Vec<_>, LabError>>()?;
            if last.as_ref() == Some(&now) {
                return Ok(now);
            }
            last = Some(now);
            self.tester.wait(Duration::from_millis(2));
        }
        Ok(last.unwrap_or_default())
    }

    /// Counts frames from standstill to standstill around `work`, which runs on the DUT's CPU while
    /// traffic flows.
    fn count<T: Send>(
        &mut self,
        stream: &Stream,
        schedule: Schedule,
        work: impl FnOnce(&mut dyn Rig, &Control) -> Result<T, LabError> + Send,
    ) -> Result<(T, Counted), LabError> {
        let most_pps = schedule.load.peak_pps();
        self.count_and_analyse(stream, None, schedule, most_pps, work)
    }

    /// The same; with an analysis plan, the receivers examine every frame. The load never exceeds
    /// `most_pps`. Fails if it is stopped from outside: the counts of an incomplete trial are not
    /// used, and on a busy host over SSH each look for a load takes seconds.
    pub fn count_and_analyse<T: Send>(
        &mut self,
        stream: &Stream,
        analysis: Option<AnalysisPlan>,
        schedule: Schedule,
        most_pps: Option<f64>,
        work: impl FnOnce(&mut dyn Rig, &Control) -> Result<T, LabError> + Send,
    ) -> Result<(T, Counted), LabError> {
        self.control.check()?;
        let reading = self.telemetry.and_then(|requested| {
            // DUTs side by side share a host, whose counts cannot be divided
            let alone = (self.bed.duts() == 1).then(|| self.bed.dut(0).observed());
            Some(telemetry::TrialReading::begin(alone??, requested))
        });
        // if another program forwards, the kernel drops every frame after that has its copy
        let by_kernel = self.bed.dut(0).is_kernel();
        let mut beside = Witnesses::call(self.bed, self.count_reasons && by_kernel)?;
        let counted = self.count_watched(stream, analysis, schedule, most_pps, &mut beside, work);
        let (result, mut counted) = counted.map_err(|error| self.disturbed(error, &mut beside))?;
        counted.telemetry = reading.map(|reading| match reading {
            Ok(reading) => Box::new(reading.end()),
            Err(unread) => unread,
        });
        Ok((result, counted))
    }

    /// Converts a failure caused by a port of the bed into an error that permits a retry.
    fn disturbed(&self, error: LabError, beside: &mut Witnesses) -> LabError {
        if matches!(error, LabError::Interrupted | LabError::Store(_)) {
            return error;
        }
        let action = beside.failure_reasons(self.bed);
        match action.is_empty() {
            true => error,
            false => LabError::Disturbed {
                what: action.join("; "),
                source: Box::new(error),
            },
        }
    }

    fn count_watched<T: Send>(
        &mut self,
        stream: &Stream,
        analysis: Option<AnalysisPlan>,
        schedule: Schedule,
        most_pps: Option<f64>,
        beside: &mut Witnesses,
        work: impl FnOnce(&mut dyn Rig, &Control) -> Result<T, LabError> + Send,
    ) -> Result<(T, Counted), LabError> {
        let (paths, both_ways) = (self.bed.path_count(), self.path_count() > 1);
        let frames = match &self.traffic {
            Some(traffic) => Frames::Traffic(traffic),
            None => Frames::Stream(stream),
        };
        self.tester.arm(frames, analysis)?;
        beside.begin(self.tester.nonce())?;
        let before = self.standstill()?;

        // with several DUTs the frames cannot be attributed
        let account = match self.bed.duts() {
            1 => self.bed.dut(0).account()?,
            _ => None,
        };
        let waiting = (self.hooks.filter(|hooks| !hooks.is_empty())).map(During::wait_for_frames);
        let started = self.tester.now();
        self.tester.start(schedule)?;
        let tester = &mut *self.tester;
        let begin = waiting.as_ref().map(|hooks| hooks.begin.clone());
        let (control, cpus) = (
            self.control,
            self.placement.dut_cpus.get(..1).unwrap_or_default(),
        );
        let result = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                fwdlab_engine::port::pin(cpus)?;
                // without the privilege the loop is less punctual, and the windows record their
                // real lengths
                let _ = fwdlab_engine::sys::become_real_time();
                let Some(begin) = begin else {
                    tester.wait(WARM_UP);
                    return work(tester, control);
                };
                let mut watched = SignallingRig::new(tester, begin);
                watched.wait_for_frames(WARM_UP)?;
                work(&mut watched, control)
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let last = self.tester.stop();
        let elapsed_s = self.tester.since(started).as_secs_f64();
        let hooks = waiting.map(RunningHooks::end).unwrap_or_default();
        // report the first error; a rig that is lost cannot be stopped either
        let (result, last) = (result?, last?);
        self.control.check()?;

        let witness::Seen {
            mut objections,
            is_broken,
            ended,
            reasons,
        } = beside.observations(self.bed)?;
        objections.extend(hooks.iter().filter_map(|hook| hook.failure.clone()));
        objections.extend(
            most_pps.and_then(|load| overcount(offered(&last), last.not_sent, load, elapsed_s)),
        );
        let count = |after: &[PathCounters]| -> Vec<Counters> {
            let counters = before.iter().zip(after).enumerate();
            let of_path = counters.map(|(k, (before, after))| Counters {
                generator_sent: last.sent[k],
                generator_additional: last.beside[k],
                generator_not_sent: match k {
                    // frames of both directions alternate
                    _ if both_ways => share(last.not_sent, k),
                    0 => last.not_sent,
                    _ => 0,
                },
                generator_ring_full: if k == 0 { last.ring_full } else { 0 },
                generator_wakeups: if k == 0 { last.wakeups } else { 0 },
                receiver_received: after.received.received - before.received.received,
                receiver_wrong_length: after.received.wrong_length - before.received.wrong_length,
                receiver_late: after.received.late - before.received.late,
                receiver_foreign: after.received.foreign - before.received.foreign,
                // of one DUT, for both directions together; with several they cannot be attributed
                drop_reasons: match (paths, both_ways, k) {
                    (1, ..) | (_, true, 0) => reasons.clone(),
                    _ => None,
                },
                chain: chain(&before.ports, &after.ports),
            });
            of_path.collect()
        };
        let stopped = self.tester.now();
        let mut after = self.standstill()?;
        while !count(&after).iter().all(is_settled) && self.tester.since(stopped) < LATE_BATCH {
            self.tester.wait(WINDOW);
            after = self.standstill()?;
        }
        let mut counters = count(&after);
        objections.extend(missed(&before, &after));
        let mut work = account.map(|close| close()).transpose()?;
        if let Some(work) = &mut work {
            work.frames = counters.iter().map(|c| c.receiver_received).sum();
            // the DUT's own reasons; the kernel below it does not know what was forwarded
            if !work.drops.is_empty() {
                counters[0].drop_reasons = Some(work.drops.clone());
            }
        }
        Ok((
            result,
            Counted {
                counters,
                not_sent_by_sender: last.not_sent_by_sender,
                objections,
                is_broken,
                began: Some(started),
                ended,
                work,
                telemetry: None,
                hooks,
            },
        ))
    }
}

/// Returns the counters of all paths together.
fn counts(reading: &Reading) -> Counts {
    Counts {
        sent_at_ns: reading.at_ns,
        received_at_ns: reading.received_at_ns,
        sent: sum(&reading.sent),
        received: sum(&reading.received),
    }
}

/// Sends until it is stopped, with a time limit.
pub(super) fn until(load_pps: Option<f64>, at_most: Duration) -> Schedule {
    Schedule {
        load: load_pps.into(),
        frames: None,
        at_most: at_most + Duration::from_secs(2),
        // catching up would exceed the intended load, and the losses would look like the DUT's
        // fault
        stall_policy: StallPolicy::Skip,
        path: 0,
    }
}

/// A shorter trial is a burst: the batch of about 100 frames that the sender has not handed over
/// when the time ends is a large part of it.
const BURST: Duration = Duration::from_millis(10);

/// Sends this number of frames within this time; a burst may end slightly later.
pub(super) fn within(load_pps: f64, time: Duration, frames: u64) -> Schedule {
    let late = match time < BURST {
        true => Schedule::CATCH_UP,
        false => Duration::ZERO,
    };
    Schedule {
        frames: Some(frames),
        at_most: time + late,
        ..until(Some(load_pps), time)
    }
}

/// Sends the load of a question over time, in each of `path_count` directions.
pub(super) fn over_time(question: &Question, ways: u64) -> Schedule {
    let of_all = |stretch: &Stretch| Stretch {
        from_pps: stretch.from_pps * ways as f64,
        to_pps: stretch.to_pps * ways as f64,
        ..*stretch
    };
    Schedule {
        load: LoadPlan::from_stretches(question.stretches.iter().map(of_all).collect()),
        at_most: Duration::from_nanos(question.duration_ns()),
        ..until(None, Duration::ZERO)
    }
}

/// Returns true if frames were lost inside the DUT, not only in its input queue.
pub(super) fn loses_inside(counters: &Counters) -> bool {
    let ledger = balance(counters, None);
    ledger.losses.iter().any(|loss| loss.place == Place::Dut)
}

/// Counters of one path at a moment when nothing moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathCounters {
    ports: PortCounters,
    received: ReceiveCounts,
}

/// Returns an objection if frames that came back were lost at the tester's own port: the DUT did
/// forward them.
fn missed(before: &[PathCounters], after: &[PathCounters]) -> Option<String> {
    let of = |path: &[PathCounters]| path.iter().map(|path| path.ports.rx_missed).sum::<u64>();
    let missed = of(after).saturating_sub(of(before));
    (missed > 0).then(|| {
        format!(
            "{missed} frame{} came back and {} lost at the tester's own port, because its receiver was too slow: give it more CPUs",
            if missed == 1 { "" } else { "s" },
            if missed == 1 { "was" } else { "were" },
        )
    })
}

/// Waits until the counters of the DUT's ports are current, while nothing moves.
pub(super) fn settle(bed: &Bed, tester: &dyn Rig) {
    let age = bed.age_of_counters();
    if age > Duration::ZERO {
        tester.wait(age);
    }
}

/// Returns how long the sender waited for a CPU between two readings.
fn sender_waited_s(from: &Reading, to: &Reading) -> f64 {
    to.sender_waited_ns.saturating_sub(from.sender_waited_ns) as f64 / 1e9
}

/// Continues with another arrangement of the generator's memory, and waits until frames flow again.
fn renew(tester: &mut dyn Rig) -> Result<(), LabError> {
    let pause = tester.renew()?;
    if pause > Duration::ZERO {
        tester.wait(pause + REFILL);
    }
    Ok(())
}

fn one_slice(
    bed: &Bed,
    tester: &mut dyn Rig,
    length: Duration,
    configuration: usize,
    place: usize,
) -> Result<Slice, LabError> {
    let waited = bed.waited(place);
    let started = tester.now();
    let from = tester.read()?;
    // the DUT's thread, on the same CPU, waits while the counters are read
    let reading = tester.since(started);
    tester.wait(length);
    let to = tester.read()?;
    let waited = (bed.waited(place)).saturating_sub(waited + reading);
    Ok(Slice {
        configuration,
        is_led: true,
        // DUTs side by side are on one machine, and so is their tester
        duration_s: seconds(&from, &to),
        sent: to.sent[place] - from.sent[place],
        received: to.received[place] - from.received[place],
        dut_waited_s: waited.as_secs_f64(),
    })
}

/// Returns what the meters of one path counted between two moments.
pub(super) fn chain(before: &PortCounters, after: &PortCounters) -> Chain {
    // a port that disappears takes its counters with it; the link witness then invalidates the
    // trial
    let since = u64::saturating_sub;
    let dut = |of: fn(&DutPorts) -> u64| match (&before.dut, &after.dut) {
        (Some(before), Some(after)) => since(of(after), of(before)),
        _ => 0,
    };
    let counts = VethCounts {
        generator_port_tx_packets: since(after.tx.0, before.tx.0),
        generator_port_tx_dropped: since(after.tx.1, before.tx.1),
        dut_in_rx_packets: dut(|dut| dut.input.0),
        dut_in_rx_dropped: dut(|dut| dut.input.1),
        dut_out_tx_packets: dut(|dut| dut.output.0),
        dut_out_tx_dropped: dut(|dut| dut.output.1),
        receiver_port_rx_packets: since(after.rx.0, before.rx.0),
    };
    let mut chain = counts.chain();
    if before.dut.is_none() || after.dut.is_none() {
        chain.not_read(
            &[Stage::DutInput, Stage::DutOutput],
            "the counters of this DUT cannot be read",
        );
        // and do not agree with any other
        let dropped = chain.meters.iter_mut().flat_map(|meter| &mut meter.dropped);
        dropped.for_each(|loss| loss.counter = INPUT_FULL.into());
    }
    if after.dut.is_some_and(|dut| !dut.are_exact) {
        let of_dut = |meter: &&mut Meter| matches!(meter.stage, Stage::DutInput | Stage::DutOutput);
        for meter in chain.meters.iter_mut().filter(of_dut) {
            meter.is_approximate(
                "a device may report counts by SNMP that are some seconds old; settle in its test-bed file says how old".into(),
            );
            meter.dropped.clear();
        }
    }
    if let Some(reason) = after.rx_not_read {
        let reason = match since(after.rx_full, before.rx_full) {
            0 => reason.to_owned(),
            times => format!(
                "{reason}; it found its ring full {times} time{}, so that frames may be lost there",
                if times == 1 { "" } else { "s" }
            ),
        };
        chain.not_read(&[Stage::ReceiverPort], &reason);
    }
    if let (Some(before), Some(after)) = (&before.switch, &after.switch) {
        through_switch(&mut chain, before, after);
    }
    chain
}

/// Adds the meters at the ports of a switch, on both sides of the DUT.
fn through_switch(chain: &mut Chain, before: &SwitchPackets, after: &SwitchPackets) {
    let passed = |of: fn(&SwitchPackets) -> Option<u64>| {
        let (before, after) = (of(before)?, of(after)?);
        Some(after.saturating_sub(before))
    };
    let meter = |name: &str, counter: &str, passed: Option<u64>, is_behind: bool| {
        let stage = Stage::Other(format!("the switch's port {name}"));
        let mut meter = Meter::exact(stage, counter, passed?);
        if !after.is_prompt {
            meter.is_approximate(
                "a switch may report counts by SNMP that are some seconds old".into(),
            );
        }
        Some(match is_behind {
            true => meter.behind(Place::In("the switch".into())),
            false => meter,
        })
    };
    let place = |chain: &Chain, stage: &Stage| chain.meters.iter().position(|m| m.stage == *stage);
    let sides = [
        (
            Stage::DutInput,
            meter(
                "at the generator",
                "rx_packets",
                passed(|of| of.from_sender),
                false,
            ),
            meter("to the DUT", "tx_packets", passed(|of| of.to_dut), true),
        ),
        (
            Stage::ReceiverPort,
            meter(
                "from the DUT",
                "rx_packets",
                passed(|of| of.from_dut),
                false,
            ),
            meter(
                "to the receiver",
                "tx_packets",
                passed(|of| of.to_receiver),
                true,
            ),
        ),
    ];
    for (stage, comes, goes) in sides {
        let Some(at) = place(chain, &stage) else {
            continue;
        };
        // one port alone shows where frames are, but not what happened to them in between
        for meter in [goes, comes].into_iter().flatten() {
            chain.meters.insert(at, meter);
        }
    }
}

/// Returns the number of frames handed over, including those that a router does not forward.
pub(super) fn offered(reading: &Reading) -> u64 {
    sum(&reading.sent) + sum(&reading.beside)
}

/// Returns the part of one direction in a count of both.
fn share(frames: u64, direction: usize) -> u64 {
    (frames + 1 - direction as u64) / 2
}

pub(super) fn sum(counts: &[u64]) -> u64 {
    counts.iter().sum()
}

fn seconds(from: &Reading, to: &Reading) -> f64 {
    (to.at_ns - from.at_ns) as f64 / 1e9
}

/// Returns how long frames were received between two readings, by the receiver's clock.
fn received_seconds(from: &Reading, to: &Reading) -> f64 {
    (to.received_at_ns - from.received_at_ns) as f64 / 1e9
}

/// Returns the telemetry of a trial, if it was read.
pub(super) fn telemetry_of(
    counted: &Counted,
    record: &TrialRecord,
) -> Option<Box<fwdlab_model::telemetry::Telemetry>> {
    let frames = record.ledger.frames_sent + record.ledger.frames_additional;
    (counted.telemetry.as_ref())
        .map(|observed| Box::new(observed.to_telemetry(frames, record.ledger.frames_received)))
}

/// Creates the record of a trial with the parts that all trials have: engines, stream, and the fate
/// of every frame. The caller adds the rest.
pub(super) fn record(
    (engine, receiver): (&str, &str),
    stream: Stream,
    counters: &Counters,
    intended: Option<u64>,
) -> TrialRecord {
    let ledger = balance(counters, intended);
    TrialRecord {
        test_case: String::new(),
        procedure: String::new(),
        iteration: 1,
        trial: 0,
        control: false,
        started_at: String::new(),
        stream,
        variant: Variant::default(),
        directions: Vec::new(),
        engine: engine.into(),
        stall_policy: None,
        receiver: receiver.into(),
        duration_s: 0.0,
        intended_load_pps: None,
        offered_load_pps: 0.0,
        not_saturated: false,
        forwarding_rate_pps: None,
        forwarding_rate_ungated_pps: None,
        quiet: Stratum::default(),
        contended: Stratum::default(),
        other_states: Vec::new(),
        probes: Vec::new(),
        windows_not_offered: 0,
        frame_loss_ratio: ledger.frames_lost as f64 / counters.generator_sent.max(1) as f64,
        ledger,
        counters: counters.clone(),
        work: None,
        telemetry: None,
        asked: None,
        validity: Validity::default(),
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_measure::conservation::objections;

    use super::*;

    fn ports(frames: u64, dut: Option<DutPorts>) -> PortCounters {
        PortCounters {
            tx: (frames, 0),
            dut,
            rx: (frames, 0),
            ..PortCounters::default()
        }
    }

    /// Counters that are as old as they may be show where frames were lost, others do not.
    #[test]
    fn only_counters_of_known_age_place_losses_in_a_black_box() {
        let read = |frames, forwarded, are_exact| {
            let dut = DutPorts {
                input: (frames, 0),
                output: (forwarded, 0),
                are_exact,
            };
            ports(frames, Some(dut))
        };
        for are_exact in [true, false] {
            let chain = chain(
                &read(0, 0, are_exact),
                &PortCounters {
                    rx: (90, 0),
                    ..read(100, 90, are_exact)
                },
            );
            let counters = Counters {
                generator_sent: 100,
                receiver_received: 90,
                chain,
                ..Counters::default()
            };
            let ledger = balance(&counters, None);
            assert_eq!(ledger.losses[0].frames, 10);
            assert_eq!(ledger.losses[0].place == Place::Dut, are_exact);
            assert!(objections(&ledger, &counters).is_empty());
        }
    }

    /// What a DUT behind a wire dropped at its input is a named loss, not an unexplained one.
    #[test]
    fn drops_at_the_input_behind_a_wire_are_named() {
        let dut = |came, dropped| {
            Some(DutPorts {
                input: (came, dropped),
                output: (came, 0),
                are_exact: true,
            })
        };
        let after = PortCounters {
            rx: (90, 0),
            ..ports(100, dut(90, 10))
        };
        let counters = Counters {
            generator_sent: 100,
            receiver_received: 90,
            chain: chain(&ports(0, dut(0, 0)), &after),
            ..Counters::default()
        };
        let ledger = balance(&counters, None);
        let lost = ledger.losses.iter().filter(|loss| loss.frames > 0);
        let lost: Vec<_> = lost.map(|loss| (loss.place.clone(), loss.frames)).collect();
        assert_eq!(lost, [(Place::DutInput, 10)]);
        assert!(objections(&ledger, &counters).is_empty(), "{ledger:?}");
    }

    /// A switch shows where frames were lost: before the DUT, after it, or in the switch itself.
    #[test]
    fn frames_lost_in_a_switch_are_attributed_to_it() {
        let at = |frames: u64, to_dut: u64| PortCounters {
            switch: Some(SwitchPackets {
                from_sender: Some(frames),
                to_dut: Some(to_dut),
                from_dut: Some(to_dut),
                to_receiver: Some(to_dut),
                is_prompt: true,
            }),
            tx: (frames, 0),
            dut: Some(DutPorts {
                input: (to_dut, 0),
                output: (to_dut, 0),
                are_exact: true,
            }),
            rx: (to_dut, 0),
            ..PortCounters::default()
        };
        let chain = chain(&at(10, 10), &at(110, 103));
        let stages: Vec<String> = chain.meters.iter().map(|m| m.stage.to_string()).collect();
        assert_eq!(
            stages,
            [
                "the generator's port",
                "the switch's port at the generator",
                "the switch's port to the DUT",
                "the DUT's input",
                "the DUT's output",
                "the switch's port from the DUT",
                "the switch's port to the receiver",
                "the receiver's port"
            ]
        );
        let counters = Counters {
            generator_sent: 100,
            receiver_received: 93,
            chain,
            ..Counters::default()
        };
        assert!(is_settled(&counters));
        let ledger = balance(&counters, None);
        assert!(objections(&ledger, &counters).is_empty(), "{ledger:?}");
        let lost: Vec<_> = ledger
            .losses
            .iter()
            .map(|loss| (loss.place.words(), loss.frames))
            .collect();
        assert_eq!(lost, [("in the switch".into(), 7)]);
    }

    #[test]
    fn frames_that_the_tester_lost_are_an_objection() {
        let at = |rx_missed| {
            [PathCounters {
                ports: PortCounters {
                    rx_missed,
                    ..PortCounters::default()
                },
                received: ReceiveCounts::default(),
            }]
        };
        assert_eq!(missed(&at(7), &at(7)), None);
        let objection = missed(&at(7), &at(8)).unwrap();
        assert!(objection.starts_with("1 frame came back and was lost at the tester's own port"));
    }

    /// A memif port knows what its peer has read, and nothing is claimed of the rest.
    #[test]
    fn frames_that_a_dut_behind_memif_did_not_read_are_lost_at_its_input() {
        let at = |read, dropped, rx_full| PortCounters {
            tx: (read, dropped),
            rx_not_read: Some("memif"),
            rx_full,
            ..PortCounters::default()
        };
        let chain = chain(&at(5, 1, 7), &at(95, 11, 8));
        let counters = Counters {
            generator_sent: 100,
            receiver_received: 87,
            chain,
            ..Counters::default()
        };
        let ledger = balance(&counters, None);
        assert!(objections(&ledger, &counters).is_empty(), "{ledger:?}");
        let lost = ledger.losses.iter();
        let lost: Vec<_> = lost
            .map(|loss| (loss.place.words(), loss.frames, loss.counter.as_str()))
            .collect();
        assert_eq!(
            lost,
            [
                ("at the DUT's input".into(), 10, INPUT_FULL),
                (
                    "between the generator's port and the receiver".into(),
                    3,
                    "tx_packets of the generator's port less frames that the receiver recognised"
                )
            ]
        );
        let unread: Vec<String> = ledger.not_exact.iter().map(|m| m.to_string()).collect();
        assert_eq!(
            unread,
            [
                "the DUT's input: not read: the counters of this DUT cannot be read",
                "the DUT's output: not read: the counters of this DUT cannot be read",
                "the receiver's port: not read: memif; it found its ring full 1 time, so that frames may be lost there"
            ]
        );
    }

    #[test]
    fn the_ports_of_a_black_box_are_absent_and_the_trial_counts() {
        let chain = chain(&ports(7, None), &ports(107, None));
        assert_eq!(chain.meters[0].dropped[0].counter, INPUT_FULL);
        assert_eq!(chain.passed(&Stage::GeneratorPort), Some(100));
        assert_eq!(chain.passed(&Stage::DutInput), None);
        let counters = Counters {
            generator_sent: 100,
            receiver_received: 100,
            chain,
            ..Counters::default()
        };
        assert!(is_settled(&counters));
        let ledger = balance(&counters, None);
        assert!(objections(&ledger, &counters).is_empty());
        assert_eq!(ledger.not_exact.len(), 2);
    }

    #[test]
    fn a_port_that_went_away_has_no_frames_below_zero() {
        let dut = |frames| {
            Some(DutPorts {
                input: (frames, 0),
                output: (frames, 0),
                are_exact: true,
            })
        };
        let chain = chain(&ports(107, dut(107)), &ports(207, dut(7)));
        assert_eq!(chain.passed(&Stage::GeneratorPort), Some(100));
        assert_eq!(chain.passed(&Stage::DutInput), Some(0));
    }
}
