//! One trial on the test bed: counters at standstill, traffic, windows or slices, counters at standstill again.
//!
//! The measuring loop runs on a thread of its own on the DUT's CPU with real-time priority: it sleeps nearly always, and
//! what it costs falls on every configuration alike. It decides nothing about results. Start with [`Bench`].

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime};

use engine::{Reading, Schedule, Tester};
use measure::maxfwd::Window;
use measure::paired::Slice;
use model::loss::{Counters, Reason};
use model::trial::Stream;

use crate::bed::{Bed, PortCounters};
use crate::error::LabError;
use crate::link_watch::LinkWatch;
use crate::placement::Placement;
use crate::probe;
use crate::run::Control;

/// Frames that prove a path.
pub(super) const PROOF_FRAMES: u64 = 1000;

/// Length of a window or slice: short against the seconds in which the host changes its mind, long against the
/// milliseconds of a scheduler.
const WINDOW: Duration = Duration::from_millis(20);

/// From the start of the traffic to the first window: rings fill, caches warm, the DUT's thread wakes.
const WARM_UP: Duration = Duration::from_millis(80);

/// After switching to another DUT (`dataplane.md` §9: takes effect well within 6 ms).
const SETTLE: Duration = Duration::from_millis(6);

/// A slice in which the generator was held up, or the DUT's CPU taken, is repeated so often.
const SLICE_RETRIES: u32 = 4;

/// A trial that finds no quiet windows is given so many times its duration.
const PATIENCE: u32 = 3;

/// A load counts as overload from this ratio of offered to forwarded on.
const OVERLOAD: f64 = 1.5;

/// What a trial needs, together.
pub(super) struct Bench<'a> {
    pub bed: &'a Bed,
    pub tester: &'a mut Tester,
    pub drops: Option<&'a mut engine::DropMonitor>,
    pub placement: &'a Placement,
    pub control: &'a Control,
}

/// Counts of one trial, from standstill to standstill.
pub(super) struct Counted {
    /// Counters per path.
    pub counters: Vec<Counters>,
    /// Conditions that make the trial invalid.
    pub objections: Vec<String>,
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
        let bed = self.bed;
        self.count(stream, load_pps, longest, |tester, control| {
            let began = Instant::now();
            let mut windows: Vec<Window> = Vec::new();
            let mut before = probe::reading();
            while !control.is_stopped()
                && began.elapsed() < longest
                && (began.elapsed() < duration || !enough(&windows))
            {
                let start_s = began.elapsed().as_secs_f64();
                let waited = bed.waited(0);
                let from = tester.read()?;
                std::thread::sleep(WINDOW);
                let to = tester.read()?;
                let waited = bed.waited(0) - waited;
                let after = probe::reading();
                let window = Window {
                    start_s,
                    duration_s: seconds(&from, &to),
                    sent: sum(&to.sent) - sum(&from.sent),
                    received: sum(&to.received) - sum(&from.received),
                    dut_waited_s: waited.as_secs_f64(),
                    probe_before: before,
                    probe_after: after,
                };
                before = after;
                windows.push(window);
                // nobody listening is no reason to stop
                let _ = glimpse.send(Glimpse {
                    offered_load_pps: window.offered_load_pps(),
                    forwarding_rate_pps: window.forwarding_rate_pps(),
                });
            }
            Ok(windows)
        })
    }

    /// Makes blocks of slices, in the orders that `order` yields, for `duration`.
    pub fn slices(
        &mut self,
        stream: &Stream,
        load_pps: f64,
        duration: Duration,
        order: &mut (dyn FnMut() -> Vec<usize> + Send),
        places: &[usize],
    ) -> Result<(Vec<Vec<Slice>>, Counted), LabError> {
        let bed = self.bed;
        self.count(stream, Some(load_pps), duration * 2, |tester, control| {
            let began = Instant::now();
            let mut blocks = Vec::new();
            while !control.is_stopped() && began.elapsed() < duration {
                let mut block = Vec::new();
                for configuration in order() {
                    let place = places
                        .iter()
                        .position(|&c| c == configuration)
                        .expect("every configuration has a place");
                    tester.select(place)?;
                    std::thread::sleep(SETTLE);
                    let mut slice = one_slice(bed, tester, configuration, place)?;
                    for _ in 0..SLICE_RETRIES {
                        if slice.is_undisturbed(load_pps) || control.is_stopped() {
                            break;
                        }
                        slice = one_slice(bed, tester, configuration, place)?;
                    }
                    block.push(slice);
                }
                blocks.push(block);
            }
            Ok(blocks)
        })
    }

    /// Finds a load that overloads the DUT: twice of what it forwards. `None` means flat out, when the generator has no
    /// more to give.
    pub fn overload(&mut self, stream: &Stream) -> Result<Option<f64>, LabError> {
        let mut load = 1e6;
        loop {
            let mut forwarded = 0.0;
            let mut offered = 0.0;
            self.count(stream, Some(load), Duration::from_secs(1), |tester, _| {
                let from = tester.read()?;
                std::thread::sleep(WINDOW * 3);
                let to = tester.read()?;
                let span = seconds(&from, &to);
                offered = (sum(&to.sent) - sum(&from.sent)) as f64 / span;
                forwarded = (sum(&to.received) - sum(&from.received)) as f64 / span;
                Ok(())
            })?;
            if offered >= OVERLOAD * forwarded && forwarded > 0.0 {
                // two significant digits: the same load in the next run of the same machine
                let digits = 10f64.powf((2.0 * forwarded).log10().floor() - 1.0);
                return Ok(Some((2.0 * forwarded / digits).round() * digits));
            }
            if offered < 0.9 * load || load > 1e8 {
                return Ok(None);
            }
            load *= 2.0;
        }
    }

    /// Counts frames from standstill to standstill around `work`, which runs on the DUT's CPU while traffic flows.
    fn count<T: Send>(
        &mut self,
        stream: &Stream,
        load_pps: Option<f64>,
        at_most: Duration,
        work: impl FnOnce(&mut Tester, &Control) -> Result<T, LabError> + Send,
    ) -> Result<(T, Counted), LabError> {
        let paths = self.bed.duts();
        self.tester.arm(stream)?;
        if let Some(drops) = &mut self.drops {
            drops.expect(self.tester.nonce())?;
        }
        let before = (0..paths)
            .map(|k| self.bed.counters(k))
            .collect::<Result<Vec<_>, _>>()?;
        let mut watch = LinkWatch::open(self.bed)?;
        let clock = ClockWatch::new();

        self.tester.start(Schedule {
            load_pps,
            frames: None,
            at_most: at_most + Duration::from_secs(2),
            path: 0,
        })?;
        let tester = &mut *self.tester;
        let (control, cpus) = (
            self.control,
            self.placement.dut_cpus.get(..1).unwrap_or_default(),
        );
        let result = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                engine::port::pin(cpus)?;
                // without the privilege the loop is less punctual, and the windows say how long they really were
                let _ = engine::sys::become_real_time();
                std::thread::sleep(WARM_UP);
                work(tester, control)
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let last = self.tester.stop()?;
        let result = result?;

        let mut objections = Vec::new();
        objections.extend(clock.step());
        objections.extend(watch.events()?);
        let reasons = match &mut self.drops {
            None => None,
            Some(drops) => {
                let counts = drops.counts()?;
                Some(
                    counts
                        .into_iter()
                        .map(|(reason, frames)| Reason { reason, frames })
                        .collect(),
                )
            }
        };
        let mut counters = Vec::with_capacity(paths);
        for (k, before) in before.iter().enumerate() {
            let after = self.bed.counters(k)?;
            let seen = self.tester.receive_counts(k)?;
            counters.push(Counters {
                generator_sent: last.sent[k],
                generator_not_sent: if k == 0 { last.not_sent } else { 0 },
                receiver_received: seen.received,
                receiver_wrong_length: seen.wrong_length,
                receiver_late: seen.late,
                receiver_foreign: seen.foreign,
                drop_reasons: if paths == 1 { reasons.clone() } else { None },
                ..ports(before, &after)
            });
        }
        Ok((
            result,
            Counted {
                counters,
                objections,
            },
        ))
    }
}

fn one_slice(
    bed: &Bed,
    tester: &mut Tester,
    configuration: usize,
    place: usize,
) -> Result<Slice, LabError> {
    let waited = bed.waited(place);
    let from = tester.read()?;
    std::thread::sleep(WINDOW);
    let to = tester.read()?;
    Ok(Slice {
        configuration,
        duration_s: seconds(&from, &to),
        sent: to.sent[place] - from.sent[place],
        received: to.received[place] - from.received[place],
        dut_waited_s: (bed.waited(place) - waited).as_secs_f64(),
    })
}

fn ports(before: &PortCounters, after: &PortCounters) -> Counters {
    Counters {
        generator_port_tx_packets: after.tx.0 - before.tx.0,
        generator_port_tx_dropped: after.tx.1 - before.tx.1,
        dut_in_rx_packets: after.dut_in.0 - before.dut_in.0,
        dut_in_rx_dropped: after.dut_in.1 - before.dut_in.1,
        dut_out_tx_packets: after.dut_out.0 - before.dut_out.0,
        dut_out_tx_dropped: after.dut_out.1 - before.dut_out.1,
        receiver_port_rx_packets: after.rx.0 - before.rx.0,
        ..Counters::default()
    }
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().sum()
}

fn seconds(from: &Reading, to: &Reading) -> f64 {
    (to.at_ns - from.at_ns) as f64 / 1e9
}

/// Notices when somebody sets the wall clock: no duration of ours uses it, but a step means that somebody works on this
/// host while it measures.
struct ClockWatch {
    wall: SystemTime,
    steady: Instant,
}

impl ClockWatch {
    fn new() -> Self {
        ClockWatch {
            wall: SystemTime::now(),
            steady: Instant::now(),
        }
    }

    fn step(&self) -> Option<String> {
        let wall = match self.wall.elapsed() {
            Ok(forward) => forward.as_secs_f64(),
            Err(backward) => -backward.duration().as_secs_f64(),
        };
        let step = wall - self.steady.elapsed().as_secs_f64();
        (step.abs() > 0.1).then(|| format!("the clock was set by {step:+.1} s during the trial"))
    }
}
