//! The sender thread that the socket engines share: it reads the clock, takes the due frames, and
//! counts.
//!
//! An engine only adds a [`Transmit`]: how a batch of frames gets from memory to a port. A
//! [`Source`] decides which frames are due and what they contain. The loop does not allocate, lock
//! or log. Start with [`SocketSender`].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::counters::{CacheLine, Counters};
use super::source::{Outline, Source, TestSource, TrafficSource};
use super::warp::LoadWarp;
use crate::error::EngineError;
use crate::generator::{Capabilities, Schedule, SendCounts, Sender, SendingTimes};
use crate::histogram::Histogram;
use crate::load::LoadPlan;
use crate::pacer::{Curve, LONGEST_NS};
use crate::port::pin;
use crate::stamps::{Kind, Log, no_stamps};
use crate::sys::{
    become_preferred, interrupt, monotonic_ns, own_thread, prepare_interrupts, waited_ns,
};
use crate::traffic::Frames;
use crate::traffic::player::Player;

/// Maximum number of frames per system call. Larger batches gain nothing measurable, and their
/// bursts do not fit a veth ring of 256 slots twice.
pub(crate) const BATCH: usize = 64;

/// How frames get from memory to the ports of one engine.
pub(crate) trait Transmit: Send + 'static {
    /// Returns the properties in use.
    fn capabilities(&self) -> Capabilities;

    /// Prepares buffers for such frames. Sends nothing.
    fn arm(&mut self, outline: &Outline) -> Result<(), EngineError>;

    /// Begins a trial: resets the counts.
    fn begin(&mut self, schedule: &Schedule) -> Result<(), EngineError>;

    /// Takes due frames for a path until none is due, there is no more room, or about [`BATCH`]
    /// were taken. The rest stays due. Also called if nothing is due but it [`holds`](Self::holds)
    /// frames.
    ///
    /// Updates `counters`, at the latest in [`Transmit::end`].
    fn send<S: Source>(
        &mut self,
        path: usize,
        frames: &mut S,
        counters: &Counters,
    ) -> Result<(), EngineError>;

    /// Returns true if it holds frames that were not yet given to the kernel.
    fn holds(&self) -> bool {
        false
    }

    /// Returns true if those must leave before frames for another path are taken.
    fn is_bound(&self) -> bool {
        self.holds()
    }

    /// Ends a trial: no more frames may leave, and `counters` become final.
    fn end(&mut self, counters: &Counters) -> Result<(), EngineError>;

    /// As [`Sender::stamp`].
    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        match kind {
            Kind::User => Ok(()),
            _ => Err(no_stamps(self.capabilities().mode.name(), kind)),
        }
    }

    /// As [`Sender::departures`].
    fn departures(&mut self) -> Option<Log> {
        None
    }
}

/// A [`Sender`] around one [`Transmit`].
pub(crate) struct SocketSender<T> {
    capabilities: Capabilities,
    cpus: Vec<usize>,
    paths: usize,
    armed: Option<Armed>,
    /// `None` while the thread uses it, and after the thread has died.
    transmit: Option<T>,
    load: LoadPlan,
    shares_cpu: bool,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<(T, Result<(), EngineError>)>>,
}

struct Armed {
    frames: Frames,
    streams: usize,
    /// Its frames were precomputed, in the order of their times.
    in_order: bool,
}

impl Armed {
    /// Returns true if streams keep their order at these rates.
    fn keeps_order(&self, rates: &[f64]) -> bool {
        let Frames::Traffic(frames) = &self.frames else {
            return true;
        };
        let own = frames.traffic.streams.iter().map(|s| s.timing.rate_pps);
        let factors: Vec<f64> = rates
            .iter()
            .zip(own)
            .map(|(rate, own)| rate / own)
            .collect();
        let first = factors.first().copied().unwrap_or_default();
        factors.iter().all(|f| (f - first).abs() <= 1e-12 * first)
    }
}

struct Shared {
    orders: CacheLine<Orders>,
    done: AtomicBool,
    /// When the schedule began, and when everything was sent; 0: not yet.
    begun_ns: AtomicU64,
    ended_ns: AtomicU64,
    counters: Counters,
    /// The thread's id; 0: it has not started.
    thread: AtomicU32,
}

/// Orders to the thread, which reads them whenever it reads the clock. They seldom change.
#[derive(Default)]
struct Orders {
    stop: AtomicBool,
    path: AtomicUsize,
    /// A new load, as bits; [`NO_LOAD`] once it has been taken.
    load_pps: AtomicU64,
    /// New rates of the streams, if there are any.
    rates: Mutex<Vec<f64>>,
    has_rates: AtomicBool,
}

/// Not the bits of any positive number.
const NO_LOAD: u64 = 0;

impl Shared {
    fn new(paths: usize, streams: usize) -> Shared {
        Shared {
            orders: CacheLine::default(),
            done: AtomicBool::new(true),
            begun_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            thread: AtomicU32::new(0),
            counters: Counters::new(paths, streams),
        }
    }
}

impl<T: Transmit> SocketSender<T> {
    pub(crate) fn new(paths: usize, cpus: &[usize], transmit: T) -> Self {
        SocketSender {
            capabilities: transmit.capabilities(),
            cpus: cpus.to_vec(),
            paths,
            armed: None,
            transmit: Some(transmit),
            load: LoadPlan::FlatOut,
            shares_cpu: false,
            shared: Arc::new(Shared::new(paths, 0)),
            thread: None,
        }
    }

    fn no_path(path: usize) -> EngineError {
        EngineError::Frames(format!("there is no path {path}"))
    }

    /// Starts the thread, which waits until `begin_ns`.
    fn begin(&mut self, schedule: Schedule, begin_ns: u64) -> Result<(), EngineError> {
        if schedule.path >= self.paths {
            return Err(Self::no_path(schedule.path));
        }
        let Some(Armed {
            frames, streams, ..
        }) = &self.armed
        else {
            return Err(EngineError::Frames("the sender is not armed".into()));
        };
        schedule.load.check()?;
        let source = AnySource::new(frames, &schedule)?;
        let Some(mut transmit) = self.transmit.take() else {
            return Err(EngineError::Frames("the sender is still running".into()));
        };
        prepare_interrupts();
        let shared = Arc::new(Shared::new(self.paths, *streams));
        let orders = &shared.orders.0;
        orders.path.store(schedule.path, Ordering::Relaxed);
        shared.done.store(false, Ordering::Relaxed);
        self.shared = shared.clone();
        self.load = schedule.load.clone();
        let cpus = self.cpus.clone();
        let shares_cpu = self.shares_cpu;
        let thread = thread::Builder::new()
            .name("fwdlab-send".into())
            .spawn(move || {
                let pinned = pin(&cpus);
                become_preferred();
                shared.thread.store(own_thread(), Ordering::Relaxed);
                let begun = pinned.and_then(|()| transmit.begin(&schedule));
                let result = begun.and_then(|()| {
                    // The clock of the schedule starts here, so that a thread that started slowly
                    // owes nothing.
                    let start_ns = wait_until(begin_ns, &shared.orders.0.stop);
                    let job = Job {
                        transmit: &mut transmit,
                        schedule: &schedule,
                        start_ns,
                        shares_cpu,
                        shared: &shared,
                    };
                    match source {
                        AnySource::Test(source) => job.run(source.starting(start_ns)),
                        AnySource::TestOverTime(source) => job.run(source.starting(start_ns)),
                        AnySource::Traffic(source) => job.run(source.starting(start_ns)),
                        AnySource::TrafficOverTime(source) => job.run(source.starting(start_ns)),
                    }
                });
                let result = result.and(transmit.end(&shared.counters));
                shared.done.store(true, Ordering::Release);
                (transmit, result)
            })
            .map_err(|e| EngineError::system("start the sender thread", e))?;
        self.thread = Some(thread);
        Ok(())
    }
}

/// Yields the CPU if nothing is due for long enough.
fn yield_cpu(idle_ns: u64) {
    /// A sleeping thread is back within this time.
    const BACK_NS: u64 = 80_000;
    /// Orders are read at least this often.
    const LONGEST_NS: u64 = 1_000_000;
    match idle_ns.checked_sub(BACK_NS) {
        Some(sleep) if sleep > 0 => thread::sleep(Duration::from_nanos(sleep.min(LONGEST_NS))),
        _ => thread::yield_now(),
    }
}

/// Sleeps until shortly before that time, then polls the clock; returns the current time, or
/// `begin_ns` if it is only slightly later.
fn wait_until(begin_ns: u64, stop: &AtomicBool) -> u64 {
    const SHORTLY_NS: u64 = 2_000_000;
    loop {
        let now_ns = monotonic_ns();
        if now_ns >= begin_ns || stop.load(Ordering::Relaxed) {
            // slightly late counts as on time: the frames due since then leave at once
            return match now_ns.saturating_sub(begin_ns) < SHORTLY_NS {
                true => begin_ns,
                false => now_ns,
            };
        }
        match (begin_ns - now_ns).checked_sub(SHORTLY_NS) {
            Some(0) | None => std::hint::spin_loop(),
            Some(left) => thread::sleep(Duration::from_nanos(left.min(SHORTLY_NS * 5))),
        }
    }
}

impl<T: Transmit> Sender for SocketSender<T> {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        let Some(transmit) = &mut self.transmit else {
            return Err(EngineError::Frames("the sender is still running".into()));
        };
        let outline = Outline::from_frames(frames)?;
        if outline.paths > self.paths {
            return Err(Self::no_path(outline.paths - 1));
        }
        self.armed = None;
        transmit.arm(&outline)?;
        self.armed = Some(Armed {
            frames: frames.clone(),
            streams: outline.streams,
            in_order: outline.cycle.is_some(),
        });
        Ok(())
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        self.begin(schedule, 0)
    }

    fn share_cpu(&mut self) {
        self.shares_cpu = true;
    }

    fn start_at(&mut self, schedule: Schedule, begin_ns: u64) -> Result<(), EngineError> {
        self.begin(schedule, begin_ns)
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        if path >= self.paths {
            return Err(Self::no_path(path));
        }
        self.shared.orders.0.path.store(path, Ordering::Relaxed);
        Ok(())
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        if !(load_pps > 0.0 && load_pps.is_finite()) {
            return Err(EngineError::Frames(format!(
                "{load_pps} frames/s is not a load; it must be a positive number"
            )));
        }
        if self.thread.is_none() {
            return Err(EngineError::Frames(
                "the sender is not running; start it with this load".into(),
            ));
        }
        if !matches!(self.load, LoadPlan::Constant(_)) {
            return Err(self.load.unchangeable());
        }
        let orders = &self.shared.orders.0;
        orders.load_pps.store(load_pps.to_bits(), Ordering::Relaxed);
        Ok(())
    }

    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError> {
        let wrong = |operation: String| Err(EngineError::Frames(operation));
        let Some(armed) = self.armed.as_ref().filter(|_| self.thread.is_some()) else {
            return wrong("the sender is not running; start it with these rates".into());
        };
        if !matches!(self.load, LoadPlan::Constant(_)) {
            return Err(self.load.unchangeable());
        }
        if rates.len() != armed.streams {
            return wrong(format!(
                "{} rates, and the traffic has {} streams",
                rates.len(),
                armed.streams
            ));
        }
        if let Some(rate) = (rates.iter()).find(|rate| !(**rate >= 0.0 && rate.is_finite())) {
            return wrong(format!(
                "{rate} frames/s is not a valid rate; it must be 0 or more"
            ));
        }
        if armed.in_order && !armed.keeps_order(rates) {
            return Err(EngineError::Unsupported {
                engine: self.capabilities.mode.name(),
                action: "change the rates of streams against each other where it has written their frames beforehand".into(),
            });
        }
        let orders = &self.shared.orders.0;
        let mut new = orders.rates.lock().unwrap_or_else(PoisonError::into_inner);
        *new = rates.to_vec();
        orders.has_rates.store(true, Ordering::Release);
        Ok(())
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        Ok((!self.load.is_flat_out()).then(|| self.shared.counters.lateness()))
    }

    fn sending_times(&self) -> Option<SendingTimes> {
        let read = |time: &AtomicU64| Some(time.load(Ordering::Relaxed)).filter(|ns| *ns > 0);
        Some(SendingTimes {
            begun_ns: read(&self.shared.begun_ns)?,
            ended_ns: read(&self.shared.ended_ns),
            planned_ns: None,
        })
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        Ok(SendCounts {
            waited_ns: waited_ns(self.shared.thread.load(Ordering::Relaxed)),
            ..self.shared.counters.read()
        })
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        if let Some(thread) = self.thread.take() {
            self.shared.orders.0.stop.store(true, Ordering::Release);
            while !thread.is_finished() {
                // a socket may block when its buffer is full
                interrupt(&thread);
                thread::sleep(Duration::from_millis(1));
            }
            let (transmit, result) = thread
                .join()
                .map_err(|_| EngineError::Thread("it panicked".into()))?;
            self.transmit = Some(transmit);
            result?;
        }
        self.counts()
    }

    fn is_done(&self) -> bool {
        self.shared.done.load(Ordering::Acquire)
    }

    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        match &mut self.transmit {
            Some(transmit) => transmit.stamp(kind),
            None => Err(EngineError::Frames("the sender is still running".into())),
        }
    }

    fn departures(&mut self) -> Option<Log> {
        self.transmit.as_mut()?.departures()
    }
}

impl<T> Drop for SocketSender<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.orders.0.stop.store(true, Ordering::Release);
            while !thread.is_finished() {
                interrupt(&thread);
                thread::sleep(Duration::from_millis(1));
            }
            let _ = thread.join();
        }
    }
}

/// Frames and their times: one kind of source for each kind of plan, so that a constant load does
/// not pay for the others.
enum AnySource {
    Test(TestSource),
    TestOverTime(TestSource<Curve>),
    Traffic(TrafficSource),
    TrafficOverTime(TrafficSource<LoadWarp>),
}

impl AnySource {
    fn new(frames: &Frames, schedule: &Schedule) -> Result<AnySource, EngineError> {
        Ok(match (frames, &schedule.load) {
            (Frames::Test(frames), LoadPlan::Stretches(stretches)) => {
                AnySource::TestOverTime(TestSource::over(stretches, frames, schedule))
            }
            (Frames::Test(frames), _) => AnySource::Test(TestSource::new(frames, schedule)),
            (Frames::Traffic(frames), LoadPlan::Stretches(stretches)) => {
                AnySource::TrafficOverTime(TrafficSource::over(stretches, frames, schedule)?)
            }
            (Frames::Traffic(frames), LoadPlan::Constant(pps)) => {
                let player = Player::new(frames, Some(*pps))?;
                AnySource::Traffic(TrafficSource::new(player, schedule))
            }
            (Frames::Traffic(frames), LoadPlan::FlatOut) => {
                let player = Player::new(frames, None)?.without_times();
                AnySource::Traffic(TrafficSource::new(player, schedule))
            }
        })
    }
}

/// The thread's work, except the frames.
struct Job<'a, T> {
    transmit: &'a mut T,
    schedule: &'a Schedule,
    start_ns: u64,
    shares_cpu: bool,
    shared: &'a Shared,
}

impl<T: Transmit> Job<'_, T> {
    fn run<S: Source>(self, frames: S) -> Result<(), EngineError> {
        send(self, frames)
    }
}

/// The loop of the sender thread: runs until it is stopped, everything is sent, or the time is
/// over.
fn send<T: Transmit, S: Source>(job: Job<'_, T>, mut frames: S) -> Result<(), EngineError> {
    let Job {
        transmit,
        schedule,
        start_ns,
        shares_cpu,
        shared,
    } = job;
    let at_most_ns = (schedule.at_most.as_nanos()).min(LONGEST_NS.into()) as u64;
    let end_ns = start_ns.saturating_add(at_most_ns);
    let (orders, counters) = (&shared.orders.0, &shared.counters);
    let paced = !schedule.load.is_flat_out();
    shared.begun_ns.store(start_ns, Ordering::Relaxed);
    let mut turn = 0;
    while !orders.stop.load(Ordering::Acquire) {
        let holds = transmit.holds();
        if frames.has_ended() && !holds {
            shared.ended_ns.store(monotonic_ns(), Ordering::Relaxed);
            break;
        }
        let now_ns = monotonic_ns();
        if now_ns >= end_ns && !frames.goes_on(now_ns) {
            break;
        }
        if orders.load_pps.load(Ordering::Relaxed) != NO_LOAD {
            let bits = orders.load_pps.swap(NO_LOAD, Ordering::Relaxed);
            frames.set_load(f64::from_bits(bits), now_ns);
        }
        if orders.has_rates.load(Ordering::Relaxed) {
            orders.has_rates.store(false, Ordering::Relaxed);
            let rates = orders.rates.lock();
            frames.set_rates(&rates.unwrap_or_else(PoisonError::into_inner), now_ns);
        }
        match frames.set_time(now_ns) {
            Some(late_ns) if paced => counters.is_late(late_ns),
            Some(_) => {}
            None if holds => {}
            None => {
                match shares_cpu {
                    true => yield_cpu(frames.idle_ns(now_ns)),
                    false => std::hint::spin_loop(),
                }
                continue;
            }
        }
        counters.set_missed(frames.not_sent(), frames.made_up());
        if !transmit.is_bound() {
            turn = frames.turn();
        }
        let path = orders.path.load(Ordering::Relaxed) + turn;
        transmit.send(path, &mut frames, counters)?;
    }
    frames.end();
    counters.set_missed(frames.not_sent(), frames.made_up());
    Ok(())
}
