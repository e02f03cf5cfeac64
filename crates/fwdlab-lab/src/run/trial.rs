//! One trial on the test bed: counters at standstill, traffic, windows or slices, counters at standstill again.
//!
//! The measuring loop runs on a thread of its own on the DUT's CPU with real-time priority: it sleeps nearly always, and
//! what it costs falls on every configuration alike. It decides nothing about results. Start with [`Bench`].

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use fwdlab_engine::analysis::AnalysisPlan;
use fwdlab_engine::{HoldUps, LoadPlan, Reading, ReceiveCounts, Schedule};
use fwdlab_measure::conservation::{balance, is_settled, overcount};
use fwdlab_measure::maxfwd::Window;
use fwdlab_measure::paired::{self, Slice};
use fwdlab_model::efficiency::Work;
use fwdlab_model::hook::HookRecord;
use fwdlab_model::loss::{Chain, Counters, Meter, Place, Stage, VethCounts};
use fwdlab_model::procedure::{Question, Stretch};
use fwdlab_model::result::{Stratum, TrialRecord, Validity};
use fwdlab_model::trial::Stream;
use fwdlab_model::variant::Variant;

use super::hooks::{During, Going, Watched};
use crate::bed::{Bed, DutPorts, PortCounters, SwitchPackets};
use crate::control::Control;
use crate::dut::Ended;
use crate::error::LabError;
use crate::placement::Placement;
use crate::telemetry::{self, Seen, Wanted};
use crate::tester::{Frames, Rig};
use crate::witness::probe::Probes;
use crate::witness::{self, Witnesses};

/// Frames that prove a path.
pub(super) const PROOF_FRAMES: u64 = 1000;

/// Length of a window: short against the seconds in which the host changes its mind, long against the
/// milliseconds of a scheduler.
const WINDOW: Duration = Duration::from_millis(20);

/// From a reading of the probes to the window after it: the DUT's thread and the sender waited for the probes, catch up, and have that
/// waiting booked before the counters of the window are read.
const AFTER_PROBES: Duration = Duration::from_micros(300);

/// From the start of the traffic to the first window: rings fill, caches warm, the DUT's thread wakes.
pub(super) const WARM_UP: Duration = Duration::from_millis(80);

/// Windows between two renewals of the generator's memory: a trial of a second sees four arrangements.
const WINDOWS_PER_ARRANGEMENT: usize = 8;

/// Blocks of slices between two renewals.
const BLOCKS_PER_ARRANGEMENT: usize = 3;

/// From the first frame after a renewal to the next window.
const REFILL: Duration = Duration::from_millis(30);

/// After switching to another DUT (`dataplane.md` §9: takes effect well within 6 ms).
const SETTLE: Duration = Duration::from_millis(6);

/// A slice in which the generator stalled, or the DUT's CPU was taken, is repeated for this long.
const SLICE_RETRIES: Duration = Duration::from_millis(80);

/// A trial without quiet windows, or with too few undisturbed slices, may take this many times its duration.
const PATIENCE: u32 = 3;

/// A DUT that takes long for a batch of frames looks as if nothing moved meanwhile: while frames are unaccounted for, it gets so much
/// time. 64 frames that pass 20,000 rules of 12 ns take 15 ms, and more on a busy host.
const LATE_BATCH: Duration = Duration::from_millis(500);

/// Counters that do not come to rest are taken as they are after so many readings; conservation then tells.
const STANDSTILL_READINGS: u32 = 50;

/// A load counts as overload from this ratio of offered to forwarded on.
const OVERLOAD: f64 = 1.5;

/// From this ratio on it is looked at once more with less: a DUT that collapses, or whose CPU was taken just then, forwards more of a
/// smaller load.
const FAR: f64 = 3.0;

/// A look for a load is read so often, and so often in one of its windows.
const LOOK_READINGS: usize = 20;
const READINGS_PER_WINDOW: usize = 4;

/// A load is offered in a look from this share of it on.
const OFFERED: f64 = 0.9;

/// The load that is then offered, relative to what the DUT forwards at its best. More is not better: generator and DUT
/// write to the same full ring, and at twice the rate the forwarding rate varied by half as much again.
pub(super) const SURPLUS: f64 = 1.6;

/// A block of slices of so many DUTs: each twice, in mirrored order.
pub(super) fn block(duts: u32) -> Duration {
    (SETTLE + paired::SLICE) * 2 * duts
}

/// What a trial needs, together.
pub(super) struct Bench<'a> {
    pub bed: &'a Bed,
    pub tester: &'a mut dyn Rig,
    /// Offered instead of the stream's test frames.
    pub traffic: Option<Arc<fwdlab_engine::Traffic>>,
    /// Have the kernel's reasons for dropping frames counted. That costs the DUT time for every frame the kernel frees,
    /// so only a stream that loses frames inside the DUT is measured so.
    pub count_reasons: bool,
    /// What is read of the DUT's host around the load.
    pub telemetry: Option<&'a Wanted>,
    /// Commands of the user's while frames flow.
    pub hooks: Option<&'a During>,
    pub placement: &'a Placement,
    pub control: &'a Control,
}

/// What overloads the DUT.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overload {
    /// The load; `None` is flat out, when the generator has no more to give.
    pub load_pps: Option<f64>,
    /// Frames were lost inside the DUT, not only in its input queue.
    pub loses_inside: bool,
}

/// Counts of one trial, from standstill to standstill.
pub(super) struct Counted {
    /// Counters per path.
    pub counters: Vec<Counters>,
    /// Conditions that make the trial invalid.
    pub objections: Vec<String>,
    /// A port of the bed went down or away: one of them.
    pub is_broken: bool,
    /// When the tester was started.
    pub began: Option<Instant>,
    /// Daemons of the DUTs' configurations that live no more.
    pub ended: Vec<Ended>,
    /// What forwarding took of the DUT, where there is one and it tells that.
    pub work: Option<Work>,
    /// What the DUT's host counted; absent where it was not read.
    pub telemetry: Option<Box<Seen>>,
    /// What became of the hooks that ran while frames flowed.
    pub hooks: Vec<HookRecord>,
}

impl Counted {
    /// Of a trial that a port of the bed ended: nothing is known of its frames.
    pub fn nothing(paths: usize, why: String) -> Counted {
        Counted {
            counters: vec![Counters::default(); paths],
            objections: vec![why],
            is_broken: true,
            began: None,
            ended: Vec::new(),
            work: None,
            telemetry: None,
            hooks: Vec::new(),
        }
    }

    /// Of a look, which is not repeated as a trial is.
    pub fn whole(self) -> Result<Counted, LabError> {
        match self.is_broken {
            false => Ok(self),
            true => Err(LabError::Disturbed {
                what: self.objections.join("; "),
                source: Box::new(LabError::Preflight("what was seen is of no use".into())),
            }),
        }
    }

    /// Did nothing come back? A port may have gone down between two trials, and taken its routes along.
    pub fn is_mute(&self) -> bool {
        let all = Counters::total(&self.counters);
        all.generator_sent > 0 && all.receiver_received == 0
    }

    /// Of so many frames that were due, those that never left were not sent, whether the sender was held up, was at its limit or
    /// ended with an error. (Its schedule may have counted one more: that a frame is due just as the time ends is a rounding.)
    pub fn were_due(&mut self, ways: u64, frames: u64) {
        let sent = self
            .counters
            .iter()
            .map(|c| c.generator_sent + c.generator_beside);
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

/// What the listener is told while a trial runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glimpse {
    pub offered_load_pps: f64,
    pub forwarding_rate_pps: f64,
}

impl Bench<'_> {
    /// Makes a trial of windows on path 0: at least `duration`, and until `enough` says so or patience ends.
    pub fn windows(
        &mut self,
        stream: &Stream,
        load_pps: Option<f64>,
        duration: Duration,
        enough: &(dyn Fn(&[Window]) -> bool + Sync),
        glimpse: &Sender<Glimpse>,
    ) -> Result<(Vec<Window>, Counted), LabError> {
        let longest = duration * PATIENCE;
        let (bed, placement) = (self.bed, self.placement);
        self.count(stream, until(load_pps, longest), |tester, control| {
            let mut probes = Probes::open(placement);
            let began = tester.now();
            let mut windows: Vec<Window> = Vec::new();
            let mut before = probes.read();
            while !control.is_stopped()
                && tester.since(began) < longest
                && (tester.since(began) < duration || !enough(&windows))
            {
                if !windows.is_empty() && windows.len().is_multiple_of(WINDOWS_PER_ARRANGEMENT) {
                    renew(tester)?;
                    before = probes.read();
                }
                tester.wait(AFTER_PROBES);
                let start_s = tester.since(began).as_secs_f64();
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
                // nobody listening is no reason to stop
                let _ = glimpse.send(Glimpse {
                    offered_load_pps: window.offered_load_pps(),
                    forwarding_rate_pps: window.forwarding_rate_pps(),
                });
                windows.push(window);
            }
            Ok(windows)
        })
    }

    /// Makes blocks of slices of this length, in the orders that `order` yields, for `duration`; and on, until patience ends, while too few
    /// of them can be used.
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
                let began = tester.now();
                let mut blocks: Vec<Vec<Slice>> = Vec::new();
                let mut usable = 0;
                while !control.is_stopped()
                    && tester.since(began) < longest
                    && (tester.since(began) < duration || usable < paired::MIN_BLOCKS)
                {
                    if !blocks.is_empty() && blocks.len().is_multiple_of(BLOCKS_PER_ARRANGEMENT) {
                        renew(tester)?;
                    }
                    let mut block = Vec::new();
                    for configuration in order() {
                        let place = places
                            .iter()
                            .position(|&c| c == configuration)
                            .expect("every configuration has a place");
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

    /// Makes a trial of one load on path 0: as many frames as are due in `duration`, which is the clock's. What the sender could
    /// not send in it is counted as not sent: a trial that waited for it would be longer, and its DUT better than it is.
    /// `false` when it was stopped from outside before its end.
    pub fn load(
        &mut self,
        stream: &Stream,
        load_pps: f64,
        duration: Duration,
    ) -> Result<(bool, Counted), LabError> {
        self.load_at(stream, load_pps, load_pps, duration)
    }

    /// The same with frames that leave at another rate than the load, and not all the time.
    pub fn load_at(
        &mut self,
        stream: &Stream,
        load_pps: f64,
        rate_pps: f64,
        duration: Duration,
    ) -> Result<(bool, Counted), LabError> {
        // the load is that of each direction
        let ways = self.ways();
        let frames = ways * (load_pps * duration.as_secs_f64()).round() as u64;
        let schedule = within(rate_pps * ways as f64, duration, frames);
        // whoever waits for the first frames sees them in a reading
        let reads = self.hooks.is_some_and(|hooks| !hooks.is_empty());
        let (ended, mut counted) = self.count(stream, schedule, |tester, control| {
            while !tester.is_done() && !control.is_stopped() {
                tester.wait(WINDOW);
                if reads {
                    tester.read()?;
                }
            }
            Ok(!control.is_stopped())
        })?;
        counted.were_due(ways, frames);
        Ok((ended, counted))
    }

    /// How many directions the frames have that are offered.
    pub fn ways(&self) -> u64 {
        (self.bed.ways() - self.bed.duts() + 1) as u64
    }

    /// What the generator offers flat out, in frames per second.
    pub fn flat_out(&mut self, stream: &Stream) -> Result<f64, LabError> {
        let schedule = until(None, Duration::from_secs(1));
        let (offered, counted) = self.count(stream, schedule, |tester, _| {
            let from = tester.read()?;
            tester.wait(WINDOW * 20);
            let to = tester.read()?;
            Ok((offered(&to) - offered(&from)) as f64 / seconds(&from, &to))
        })?;
        counted.whole()?;
        Ok(offered / self.ways() as f64)
    }

    /// Finds a load that overloads the DUT: 1.6 times of what it forwards at its best.
    pub fn overload(&mut self, stream: &Stream) -> Result<Overload, LabError> {
        let mut load = 1e6;
        let mut held_up = 0;
        let (mut most, mut was_far) = (0.0, false);
        loop {
            let (readings, counted) = self.count(
                stream,
                until(Some(load), Duration::from_secs(1)),
                |tester, _| {
                    let mut readings = vec![tester.read()?];
                    for _ in 0..LOOK_READINGS {
                        tester.wait(WINDOW / READINGS_PER_WINDOW as u32);
                        readings.push(tester.read()?);
                    }
                    Ok(readings)
                },
            )?;
            let counted = counted.whole()?;
            let (mut offered, mut forwarded) = best_of(&readings, READINGS_PER_WINDOW);
            if offered < OFFERED * load {
                // between two hold-ups of the sender there may be no room for a whole window
                (offered, forwarded) = best_of(&readings, 1);
            }
            let loses_inside = counted.counters.iter().any(loses_inside);
            most = f64::max(most, forwarded);
            if offered >= FAR * forwarded && forwarded > 0.0 && !was_far {
                was_far = true;
                load = SURPLUS * forwarded;
                continue;
            }
            if offered >= OVERLOAD * forwarded && forwarded > 0.0 {
                // two significant digits: the same load in the next run of the same machine
                let load = SURPLUS * most;
                let digits = 10f64.powf(load.log10().floor() - 1.0);
                return Ok(Overload {
                    load_pps: Some((load / digits).round() * digits),
                    loses_inside,
                });
            }
            if load > 1e8 || (offered < OFFERED * load && held_up == 3) {
                return Ok(Overload {
                    load_pps: None,
                    loses_inside,
                });
            }
            if offered < OFFERED * load {
                // a busy host may hold the sender up once; an engine at its limit does it every time
                held_up += 1;
            } else if forwarded < 0.9 * offered {
                // nearly there: far more would be another regime, in which the DUT forwards less
                load = (SURPLUS * forwarded).max(1.1 * load);
            } else {
                load *= 2.0;
            }
        }
    }

    /// Reads all counters until two readings agree: a frame of the DUT's own between two reads would look like a residue.
    fn standstill(&mut self) -> Result<Vec<Standing>, LabError> {
        let mut last = None;
        for _ in 0..STANDSTILL_READINGS {
            let now = (0..self.bed.ways())
                .map(|k| {
                    Ok(Standing {
                        ports: self.bed.counters(k)?,
                        seen: self.tester.receive_counts(k)?,
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

    /// Counts frames from standstill to standstill around `work`, which runs on the DUT's CPU while traffic flows.
    fn count<T: Send>(
        &mut self,
        stream: &Stream,
        schedule: Schedule,
        work: impl FnOnce(&mut dyn Rig, &Control) -> Result<T, LabError> + Send,
    ) -> Result<(T, Counted), LabError> {
        let most_pps = schedule.load.peak_pps();
        self.count_and_analyse(stream, None, schedule, most_pps, work)
    }

    /// The same, and the receivers look at every frame when there is a plan. The load never is more than `most_pps`.
    pub fn count_and_analyse<T: Send>(
        &mut self,
        stream: &Stream,
        analysis: Option<AnalysisPlan>,
        schedule: Schedule,
        most_pps: Option<f64>,
        work: impl FnOnce(&mut dyn Rig, &Control) -> Result<T, LabError> + Send,
    ) -> Result<(T, Counted), LabError> {
        let reading = self.telemetry.and_then(|wanted| {
            // DUTs beside each other share a host, whose counts nobody could divide
            let alone = (self.bed.duts() == 1).then(|| self.bed.dut(0).observed());
            Some(telemetry::Beside::begin(alone??, wanted))
        });
        // where another program forwards, the kernel drops every frame once that has its copy
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

    /// What failed with a port of the bed is no result, and no reason to give up.
    fn disturbed(&self, error: LabError, beside: &mut Witnesses) -> LabError {
        if matches!(error, LabError::Interrupted | LabError::Store(_)) {
            return error;
        }
        let what = beside.of_failure(self.bed);
        match what.is_empty() {
            true => error,
            false => LabError::Disturbed {
                what: what.join("; "),
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
        let (paths, both_ways) = (self.bed.ways(), self.ways() > 1);
        let frames = match &self.traffic {
            Some(traffic) => Frames::Traffic(traffic),
            None => Frames::Stream(stream),
        };
        self.tester.arm(frames, analysis)?;
        beside.begin(self.tester.nonce())?;
        let before = self.standstill()?;

        // of several DUTs nobody could say whose frames they were
        let account = match self.bed.duts() {
            1 => self.bed.dut(0).account()?,
            _ => None,
        };
        let waiting = (self.hooks.filter(|hooks| !hooks.is_empty())).map(During::wait_for_frames);
        let began = self.tester.now();
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
                // without the privilege the loop is less punctual, and the windows say how long they really were
                let _ = fwdlab_engine::sys::become_real_time();
                let Some(begin) = begin else {
                    tester.wait(WARM_UP);
                    return work(tester, control);
                };
                let mut watched = Watched::new(tester, begin);
                watched.wait_for_frames(WARM_UP)?;
                work(&mut watched, control)
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let last = self.tester.stop();
        let elapsed_s = self.tester.since(began).as_secs_f64();
        let hooks = waiting.map(Going::end).unwrap_or_default();
        // the first error is the one to report; a rig that is lost cannot be stopped either
        let (result, last) = (result?, last?);

        let witness::Seen {
            mut objections,
            is_broken,
            ended,
            reasons,
        } = beside.say(self.bed)?;
        objections.extend(hooks.iter().filter_map(|hook| hook.failure.clone()));
        objections.extend(
            most_pps.and_then(|load| overcount(offered(&last), last.not_sent, load, elapsed_s)),
        );
        let count = |after: &[Standing]| -> Vec<Counters> {
            let counters = before.iter().zip(after).enumerate();
            let of_path = counters.map(|(k, (before, after))| Counters {
                generator_sent: last.sent[k],
                generator_beside: last.beside[k],
                generator_not_sent: match k {
                    // frames of both directions take turns
                    _ if both_ways => share(last.not_sent, k),
                    0 => last.not_sent,
                    _ => 0,
                },
                generator_ring_full: if k == 0 { last.ring_full } else { 0 },
                generator_wakeups: if k == 0 { last.wakeups } else { 0 },
                receiver_received: after.seen.received - before.seen.received,
                receiver_wrong_length: after.seen.wrong_length - before.seen.wrong_length,
                receiver_late: after.seen.late - before.seen.late,
                receiver_foreign: after.seen.foreign - before.seen.foreign,
                // one DUT's, of both directions together; of several nobody could say whose they are
                drop_reasons: match (paths, both_ways, k) {
                    (1, ..) | (_, true, 0) => reasons.clone(),
                    _ => None,
                },
                chain: chain(&before.ports, &after.ports),
            });
            of_path.collect()
        };
        let stopped = self.tester.now();
        let mut counters = count(&self.standstill()?);
        while !counters.iter().all(is_settled) && self.tester.since(stopped) < LATE_BATCH {
            self.tester.wait(WINDOW);
            counters = count(&self.standstill()?);
        }
        let mut work = account.map(|close| close()).transpose()?;
        if let Some(work) = &mut work {
            work.frames = counters.iter().map(|c| c.receiver_received).sum();
            // the DUT's own reasons; the kernel below it knows nothing of what was forwarded
            if !work.drops.is_empty() {
                counters[0].drop_reasons = Some(work.drops.clone());
            }
        }
        Ok((
            result,
            Counted {
                counters,
                objections,
                is_broken,
                began: Some(began),
                ended,
                work,
                telemetry: None,
                hooks,
            },
        ))
    }
}

/// The most that was offered, and the most that came back, between readings that are so many apart.
fn best_of(readings: &[Reading], apart: usize) -> (f64, f64) {
    let all: Vec<&Reading> = readings.iter().step_by(apart).collect();
    all.windows(2)
        .fold((0.0, 0.0), |(offered, forwarded), pair| {
            let (from, to) = (pair[0], pair[1]);
            let sent = (sum(&to.sent) - sum(&from.sent)) as f64;
            let received = (sum(&to.received) - sum(&from.received)) as f64;
            (
                f64::max(offered, sent / seconds(from, to)),
                f64::max(forwarded, received / received_seconds(from, to)),
            )
        })
}

/// Sends until it is stopped, and never much longer than it should take.
pub(super) fn until(load_pps: Option<f64>, at_most: Duration) -> Schedule {
    Schedule {
        load: load_pps.into(),
        frames: None,
        at_most: at_most + Duration::from_secs(2),
        // made up, they would be a load above the intended one, and what is lost by that looks like the DUT's fault
        hold_ups: HoldUps::Forgive,
        path: 0,
    }
}

/// A trial that is shorter is a burst: what the sender has not handed over when its time ends, a batch of some 100 frames, is much of it.
const BURST: Duration = Duration::from_millis(10);

/// Sends so many frames, and none later than in this time, or hardly later if it is a burst.
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

/// Sends what a question asks for over time, in each of so many directions.
pub(super) fn over_time(question: &Question, ways: u64) -> Schedule {
    let of_all = |stretch: &Stretch| Stretch {
        from_pps: stretch.from_pps * ways as f64,
        to_pps: stretch.to_pps * ways as f64,
        ..*stretch
    };
    Schedule {
        load: LoadPlan::over(question.stretches.iter().map(of_all).collect()),
        at_most: Duration::from_nanos(question.duration_ns()),
        ..until(None, Duration::ZERO)
    }
}

/// Were frames lost inside the DUT, not only in its input queue?
pub(super) fn loses_inside(counters: &Counters) -> bool {
    let ledger = balance(counters, None);
    ledger.losses.iter().any(|loss| loss.place == Place::Dut)
}

/// Counters of one path at a moment when nothing moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    ports: PortCounters,
    seen: ReceiveCounts,
}

/// For how long the sender waited for a CPU between two readings.
fn sender_waited_s(from: &Reading, to: &Reading) -> f64 {
    to.sender_waited_ns.saturating_sub(from.sender_waited_ns) as f64 / 1e9
}

/// Goes on with another arrangement of the generator's memory, and waits until frames flow again.
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
    let began = tester.now();
    let from = tester.read()?;
    // on its CPU the DUT's thread waits for the reading of the counters
    let reading = tester.since(began);
    tester.wait(length);
    let to = tester.read()?;
    let waited = (bed.waited(place)).saturating_sub(waited + reading);
    Ok(Slice {
        configuration,
        is_led: true,
        // DUTs beside each other are on one machine, and so is their tester
        duration_s: seconds(&from, &to),
        sent: to.sent[place] - from.sent[place],
        received: to.received[place] - from.received[place],
        dut_waited_s: waited.as_secs_f64(),
    })
}

/// The meters of one path from one moment to another.
pub(super) fn chain(before: &PortCounters, after: &PortCounters) -> Chain {
    // a port that goes away takes its counters with it; that the trial is invalid then is said by who watches links
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
            "nobody can read the counters of this DUT",
        );
    }
    if after.rx_is_blind {
        chain.not_read(
            &[Stage::ReceiverPort],
            "a TAP device does not count what a receiver in XDP takes",
        );
    }
    if let (Some(before), Some(after)) = (&before.switch, &after.switch) {
        through_switch(&mut chain, before, after);
    }
    chain
}

/// Meters at the ports of a switch, on both sides of the DUT.
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
                "a switch may say by SNMP what it counted some seconds before".into(),
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
        // a port without the other one says where frames are, and not what became of them in between
        for meter in [goes, comes].into_iter().flatten() {
            chain.meters.insert(at, meter);
        }
    }
}

/// Frames handed over, those that a router does not forward included.
pub(super) fn offered(reading: &Reading) -> u64 {
    sum(&reading.sent) + sum(&reading.beside)
}

/// What one of two directions has of a count of both.
fn share(frames: u64, direction: usize) -> u64 {
    (frames + 1 - direction as u64) / 2
}

pub(super) fn sum(counts: &[u64]) -> u64 {
    counts.iter().sum()
}

fn seconds(from: &Reading, to: &Reading) -> f64 {
    (to.at_ns - from.at_ns) as f64 / 1e9
}

/// How long frames were received between two readings, by the clock of who receives.
fn received_seconds(from: &Reading, to: &Reading) -> f64 {
    (to.received_at_ns - from.received_at_ns) as f64 / 1e9
}

/// What telemetry says of a trial, where it was read.
pub(super) fn telemetry_of(
    counted: &Counted,
    record: &TrialRecord,
) -> Option<Box<fwdlab_model::telemetry::Telemetry>> {
    let frames = record.ledger.frames_sent + record.ledger.frames_beside;
    (counted.telemetry.as_ref())
        .map(|seen| Box::new(seen.told(frames, record.ledger.frames_received)))
}

/// The record of a trial with what all have: who sent and counted, what, and what became of every frame. The rest is for who made it.
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
        hold_ups: None,
        receiver: receiver.into(),
        duration_s: 0.0,
        intended_load_pps: None,
        offered_load_pps: 0.0,
        not_saturated: false,
        forwarding_rate_pps: None,
        forwarding_rate_ungated_pps: None,
        quiet: Stratum::default(),
        contended: Stratum::default(),
        apart: Vec::new(),
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
            rx_is_blind: false,
            switch: None,
        }
    }

    /// A switch says where frames were lost: before the DUT, or behind it, or in itself.
    #[test]
    fn what_a_switch_lost_is_named() {
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
            }),
            rx: (to_dut, 0),
            rx_is_blind: false,
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
    fn the_ports_of_a_black_box_are_absent_and_the_trial_counts() {
        let chain = chain(&ports(7, None), &ports(107, None));
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
            })
        };
        let chain = chain(&ports(107, dut(107)), &ports(207, dut(7)));
        assert_eq!(chain.passed(&Stage::GeneratorPort), Some(100));
        assert_eq!(chain.passed(&Stage::DutInput), Some(0));
    }
}
