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
use crate::traffic::share::{self, Share};

/// Maximum number of frames per system call. Larger batches gain nothing measurable, and their
/// bursts do not fit a veth ring of 256 slots twice.
pub const BATCH: usize = 64;

/// How frames get from memory to the ports of one engine.
pub trait Transmit: Send + 'static {
    /// Returns the properties in use.
    fn capabilities(&self) -> Capabilities;

    /// Prepares buffers for such frames. Sends nothing.
    ///
    /// # Errors
    /// As [`Sender::arm`].
    fn arm(&mut self, outline: &Outline) -> Result<(), EngineError>;

    /// Begins a trial: resets the counts. Called in the sender thread.
    ///
    /// # Errors
    /// If the port cannot send now.
    fn begin(&mut self, schedule: &Schedule) -> Result<(), EngineError>;

    /// Takes due frames for a path until none is due, there is no more room, or about [`BATCH`]
    /// were taken. The rest stays due. Also called if nothing is due but it [`holds`](Self::holds)
    /// frames.
    ///
    /// Updates `counters`, at the latest in [`Transmit::end`].
    ///
    /// # Errors
    /// If the port fails; the trial ends.
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
    ///
    /// # Errors
    /// If the port has failed.
    fn end(&mut self, counters: &Counters) -> Result<(), EngineError>;

    /// As [`Sender::stamp`].
    ///
    /// # Errors
    /// As there.
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

/// A [`Sender`] around [`Transmit`]s: one thread for each, which together send the frames of one
/// ([`crate::traffic::share`]).
pub struct SocketSender<T> {
    capabilities: Capabilities,
    cpus: Vec<usize>,
    paths: usize,
    armed: Option<Armed>,
    load: LoadPlan,
    shares_cpu: bool,
    /// At least one.
    workers: Vec<Worker<T>>,
}

/// One thread.
struct Worker<T> {
    share: Share,
    /// `None` while the thread uses it, and after the thread has died.
    transmit: Option<T>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<(T, Result<(), EngineError>)>>,
}

struct Armed {
    frames: Frames,
    streams: usize,
    /// Its frames were precomputed, in the order of their times.
    in_order: bool,
}

/// The common start of several threads: none sends before all are ready.
struct Start {
    /// Threads that are not ready.
    waiting: AtomicU32,
    begin_ns: AtomicU64,
    go: AtomicBool,
    /// Set if a thread could not begin: the others do not send.
    failed: AtomicBool,
}

impl Start {
    /// Waits for the others; returns when all begin, or `None` if they do not.
    fn together(&self, is_ready: bool, stop: &AtomicBool) -> Option<u64> {
        const LOOK: Duration = Duration::from_micros(50);
        if !is_ready {
            self.failed.store(true, Ordering::Relaxed);
        }
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.begin_ns).fetch_max(monotonic_ns() + SOON_NS, Ordering::Relaxed);
            self.go.store(true, Ordering::Release);
        }
        loop {
            let goes = self.go.load(Ordering::Acquire);
            if self.failed.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
                return None;
            }
            if goes {
                return Some(self.begin_ns.load(Ordering::Relaxed));
            }
            thread::sleep(LOOK);
        }
    }
}

/// Several threads begin, and change their load, this much later, so that they do it at the same
/// time.
const SOON_NS: u64 = 500_000;

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
    /// Set if it ended with an error.
    failed: AtomicBool,
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
    /// When a new load or new rates take effect; 0: at once.
    from_ns: AtomicU64,
    /// A new load, as bits; [`NO_LOAD`] once it has been taken.
    load_pps: AtomicU64,
    /// New rates of the streams, if there are any.
    rates: Mutex<Vec<f64>>,
    has_rates: AtomicBool,
}

impl Orders {
    /// Returns when a change takes effect, if that is no later than now.
    #[cold]
    fn is_time(&self, now_ns: u64) -> Option<u64> {
        std::sync::atomic::fence(Ordering::Acquire);
        match self.from_ns.load(Ordering::Relaxed) {
            0 => Some(now_ns),
            from_ns => (from_ns <= now_ns).then_some(from_ns),
        }
    }
}

/// Not the bits of any positive number.
const NO_LOAD: u64 = 0;

impl Shared {
    fn new(paths: usize, streams: usize) -> Shared {
        Shared {
            orders: CacheLine::default(),
            done: AtomicBool::new(true),
            failed: AtomicBool::new(false),
            begun_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            thread: AtomicU32::new(0),
            counters: Counters::new(paths, streams),
        }
    }
}

impl<T: Transmit> SocketSender<T> {
    /// One thread on any of these CPUs; empty: all.
    pub fn new(paths: usize, cpus: &[usize], transmit: T) -> Self {
        SocketSender::with_threads(paths, cpus, vec![transmit])
    }

    /// Several threads, each with its own way to the ports; at least one.
    ///
    /// # Panics
    /// Without any.
    pub fn with_threads(paths: usize, cpus: &[usize], transmits: Vec<T>) -> Self {
        let of = transmits.len() as u32;
        let first = transmits.first().expect("a sender has a thread");
        let of_one = first.capabilities();
        let worker = |(sender, transmit)| Worker {
            share: Share { sender, of },
            transmit: Some(transmit),
            shared: Arc::new(Shared::new(paths, 0)),
            thread: None,
        };
        let available = match cpus {
            [] => thread::available_parallelism().map_or(1, usize::from),
            chosen => chosen.len(),
        };
        SocketSender {
            capabilities: Capabilities {
                senders: of as u16,
                queues: of_one.queues * of as u16,
                summary: match of {
                    1 => of_one.summary,
                    _ => "several senders: each has a thread, sockets and memory of its own",
                },
                ..of_one
            },
            cpus: cpus.to_vec(),
            paths,
            armed: None,
            load: LoadPlan::FlatOut,
            // threads that wait for each other's CPU must not spin on it
            shares_cpu: of > 1 && available < of as usize,
            workers: (0..).zip(transmits).map(worker).collect(),
        }
    }

    fn no_path(path: usize) -> EngineError {
        EngineError::Frames(format!("there is no path {path}"))
    }

    fn still_running() -> EngineError {
        EngineError::Frames("the sender is still running".into())
    }

    fn is_running(&self) -> bool {
        self.workers.iter().any(|worker| worker.thread.is_some())
    }

    /// Returns the CPUs of a worker: each has one of its own if there are enough.
    fn cpus_of(&self, share: Share) -> Vec<usize> {
        match share.of > 1 && self.cpus.len() > 1 {
            true => vec![self.cpus[share.sender as usize % self.cpus.len()]],
            false => self.cpus.clone(),
        }
    }

    /// Starts the threads, which wait until `begin_ns`.
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
        let senders = self.workers.len() as u32;
        let own_frames = share::counts(frames, &schedule.load, schedule.frames, senders)?;
        let sources = (self.workers.iter().zip(own_frames)).map(|(worker, frames_of_one)| {
            let schedule = Schedule {
                frames: frames_of_one,
                ..schedule.clone()
            };
            let source = AnySource::new(frames, &schedule, worker.share)?;
            Ok((source, schedule))
        });
        let sources: Vec<_> = sources.collect::<Result<_, EngineError>>()?;
        if self.workers.iter().any(|worker| worker.transmit.is_none()) {
            return Err(Self::still_running());
        }
        prepare_interrupts();
        let start = (self.workers.len() > 1).then(|| {
            Arc::new(Start {
                waiting: AtomicU32::new(self.workers.len() as u32),
                begin_ns: AtomicU64::new(begin_ns),
                go: AtomicBool::new(false),
                failed: AtomicBool::new(false),
            })
        });
        self.load = schedule.load.clone();
        let (paths, streams, shares_cpu) = (self.paths, *streams, self.shares_cpu);
        for (number, (source, schedule)) in sources.into_iter().enumerate() {
            let cpus = self.cpus_of(self.workers[number].share);
            let worker = &mut self.workers[number];
            let Some(transmit) = worker.transmit.take() else {
                continue;
            };
            let shared = Arc::new(Shared::new(paths, streams));
            let orders = &shared.orders.0;
            orders.path.store(schedule.path, Ordering::Relaxed);
            shared.done.store(false, Ordering::Relaxed);
            worker.shared = shared.clone();
            let mut work = Work {
                transmit,
                schedule,
                shares_cpu,
                shared,
            };
            let common = start.clone();
            let thread = thread::Builder::new()
                .name("fwdlab-send".into())
                .spawn(move || {
                    let begun = work.begin(&cpus);
                    let start_ns = match common {
                        None => begun.is_ok().then(|| work.wait_until(begin_ns)),
                        Some(start) => {
                            let stop = &work.shared.orders.0.stop;
                            let start_ns = start.together(begun.is_ok(), stop);
                            // the frames of a thread that is late are due all the same
                            if let Some(start_ns) = start_ns {
                                work.wait_until(start_ns);
                            }
                            start_ns
                        }
                    };
                    let result = begun.and_then(|()| match start_ns {
                        Some(start_ns) => work.run(source, start_ns),
                        None => Ok(()),
                    });
                    let result = result.and(work.transmit.end(&work.shared.counters));
                    work.shared.failed.store(result.is_err(), Ordering::Relaxed);
                    work.shared.done.store(true, Ordering::Release);
                    (work.transmit, result)
                });
            worker.thread = Some(thread.map_err(|error| {
                if let Some(start) = &start {
                    start.failed.store(true, Ordering::Relaxed);
                }
                EngineError::system("start the sender thread", error)
            })?);
        }
        Ok(())
    }

    /// Stops the threads and returns what they worked with; the first error, if there is one.
    fn join(&mut self) -> Result<(), EngineError> {
        for worker in &self.workers {
            worker.shared.orders.0.stop.store(true, Ordering::Release);
        }
        let mut result = Ok(());
        for worker in &mut self.workers {
            let Some(thread) = worker.thread.take() else {
                continue;
            };
            while !thread.is_finished() {
                // a socket may block when its buffer is full
                interrupt(&thread);
                thread::sleep(Duration::from_millis(1));
            }
            let ended = match thread.join() {
                Ok((transmit, ended)) => {
                    worker.transmit = Some(transmit);
                    ended
                }
                Err(_) => Err(EngineError::Thread("it panicked".into())),
            };
            let named = ended.map_err(|error| match worker.share.of {
                1 => error,
                of => EngineError::OfSender {
                    sender: worker.share.sender + 1,
                    of,
                    reason: Box::new(error),
                },
            });
            result = result.and(named);
        }
        result
    }
}

/// What a thread needs, except the frames.
struct Work<T> {
    transmit: T,
    schedule: Schedule,
    shares_cpu: bool,
    shared: Arc<Shared>,
}

impl<T: Transmit> Work<T> {
    fn begin(&mut self, cpus: &[usize]) -> Result<(), EngineError> {
        let pinned = pin(cpus);
        become_preferred();
        self.shared.thread.store(own_thread(), Ordering::Relaxed);
        pinned.and_then(|()| self.transmit.begin(&self.schedule))
    }

    fn wait_until(&self, begin_ns: u64) -> u64 {
        wait_until(begin_ns, &self.shared.orders.0.stop)
    }

    /// The clock of the schedule starts at `start_ns`, so that a thread that started slowly owes
    /// nothing.
    fn run(&mut self, source: AnySource, start_ns: u64) -> Result<(), EngineError> {
        let job = Job {
            transmit: &mut self.transmit,
            schedule: &self.schedule,
            start_ns,
            shares_cpu: self.shares_cpu,
            shared: &self.shared,
        };
        match source {
            AnySource::Test(source) => job.run(source.starting(start_ns)),
            AnySource::TestOverTime(source) => job.run(source.starting(start_ns)),
            AnySource::Traffic(source) => job.run(source.starting(start_ns)),
            AnySource::TrafficOverTime(source) => job.run(source.starting(start_ns)),
        }
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
        if self.workers.iter().any(|worker| worker.transmit.is_none()) {
            return Err(Self::still_running());
        }
        share::check(frames, self.workers.len() as u32)?;
        self.armed = None;
        let (mut streams, mut in_order) = (0, false);
        for worker in &mut self.workers {
            let outline = Outline::from_frames(frames, worker.share)?;
            if outline.paths > self.paths {
                return Err(Self::no_path(outline.paths - 1));
            }
            if let Some(transmit) = &mut worker.transmit {
                transmit.arm(&outline)?;
            }
            streams = outline.streams;
            in_order |= outline.cycle.is_some();
        }
        self.armed = Some(Armed {
            frames: frames.clone(),
            streams,
            in_order,
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
        for worker in &self.workers {
            (worker.shared.orders.0.path).store(path, Ordering::Relaxed);
        }
        Ok(())
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        if !(load_pps > 0.0 && load_pps.is_finite()) {
            return Err(EngineError::Frames(format!(
                "{load_pps} frames/s is not a load; it must be a positive number"
            )));
        }
        if !self.is_running() {
            return Err(EngineError::Frames(
                "the sender is not running; start it with this load".into(),
            ));
        }
        if !matches!(self.load, LoadPlan::Constant(_)) {
            return Err(self.load.unchangeable());
        }
        let from_ns = self.soon_ns();
        for worker in &self.workers {
            let orders = &worker.shared.orders.0;
            orders.from_ns.store(from_ns, Ordering::Relaxed);
            orders.load_pps.store(load_pps.to_bits(), Ordering::Release);
        }
        Ok(())
    }

    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError> {
        let wrong = |operation: String| Err(EngineError::Frames(operation));
        let Some(armed) = self.armed.as_ref().filter(|_| self.is_running()) else {
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
        let from_ns = self.soon_ns();
        for worker in &self.workers {
            let orders = &worker.shared.orders.0;
            let mut new = orders.rates.lock().unwrap_or_else(PoisonError::into_inner);
            *new = rates.to_vec();
            orders.from_ns.store(from_ns, Ordering::Relaxed);
            orders.has_rates.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        if self.load.is_flat_out() {
            return Ok(None);
        }
        let mut all = Histogram::default();
        for worker in &self.workers {
            all.merge(&worker.shared.counters.lateness());
        }
        Ok(Some(all))
    }

    /// Since the first thread has begun, until the last has sent everything.
    fn sending_times(&self) -> Option<SendingTimes> {
        let read = |time: &AtomicU64| Some(time.load(Ordering::Relaxed)).filter(|ns| *ns > 0);
        let begun = self.workers.iter().map(|w| read(&w.shared.begun_ns));
        let ended = self.workers.iter().map(|w| read(&w.shared.ended_ns));
        Some(SendingTimes {
            begun_ns: begun.flatten().min()?,
            ended_ns: (ended.collect::<Option<Vec<_>>>()).and_then(|all| all.into_iter().max()),
            planned_ns: None,
        })
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        let mut of_each = self.workers.iter().map(|worker| SendCounts {
            waited_ns: waited_ns(worker.shared.thread.load(Ordering::Relaxed)),
            ..worker.shared.counters.read()
        });
        match self.workers.len() {
            1 => Ok(of_each.next().unwrap_or_default()),
            _ => Ok(SendCounts::of_senders(of_each.collect())),
        }
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        self.join()?;
        self.counts()
    }

    fn is_done(&self) -> bool {
        let is_done = |worker: &Worker<T>| worker.shared.done.load(Ordering::Acquire);
        let has_failed = |worker: &Worker<T>| worker.shared.failed.load(Ordering::Relaxed);
        let mut workers = self.workers.iter();
        workers.clone().all(is_done) || workers.any(|w| is_done(w) && has_failed(w))
    }

    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        (self.workers.iter_mut()).try_for_each(|worker| match &mut worker.transmit {
            Some(transmit) => transmit.stamp(kind),
            None => Err(Self::still_running()),
        })
    }

    fn departures(&mut self) -> Option<Log> {
        let logs = (self.workers.iter_mut()).filter_map(|w| w.transmit.as_mut()?.departures());
        logs.reduce(Log::and)
    }
}

impl<T> SocketSender<T> {
    /// Returns when a change takes effect: at once for one thread, and for several at a time that
    /// all of them reach after they have read it.
    fn soon_ns(&self) -> u64 {
        match self.workers.len() {
            1 => 0,
            _ => monotonic_ns() + SOON_NS,
        }
    }
}

impl<T> Drop for SocketSender<T> {
    fn drop(&mut self) {
        for worker in &self.workers {
            worker.shared.orders.0.stop.store(true, Ordering::Release);
        }
        for thread in self.workers.iter_mut().filter_map(|w| w.thread.take()) {
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
    fn new(frames: &Frames, schedule: &Schedule, share: Share) -> Result<AnySource, EngineError> {
        Ok(match (frames, &schedule.load) {
            (Frames::Test(frames), LoadPlan::Stretches(stretches)) => {
                AnySource::TestOverTime(TestSource::over(stretches, frames, schedule, share))
            }
            (Frames::Test(frames), _) => AnySource::Test(TestSource::new(frames, schedule, share)),
            (Frames::Traffic(frames), LoadPlan::Stretches(stretches)) => {
                AnySource::TrafficOverTime(TrafficSource::over(stretches, frames, schedule, share)?)
            }
            (Frames::Traffic(frames), LoadPlan::Constant(pps)) => {
                let player = Player::of_share(frames, Some(*pps), share)?;
                AnySource::Traffic(TrafficSource::new(player, schedule))
            }
            (Frames::Traffic(frames), LoadPlan::FlatOut) => {
                let player = Player::of_share(frames, None, share)?.without_times();
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
        if orders.load_pps.load(Ordering::Relaxed) != NO_LOAD
            && let Some(at_ns) = orders.is_time(now_ns)
        {
            let bits = orders.load_pps.swap(NO_LOAD, Ordering::Relaxed);
            frames.set_load(f64::from_bits(bits), at_ns);
        }
        if orders.has_rates.load(Ordering::Relaxed)
            && let Some(at_ns) = orders.is_time(now_ns)
        {
            orders.has_rates.store(false, Ordering::Relaxed);
            let rates = orders.rates.lock();
            frames.set_rates(&rates.unwrap_or_else(PoisonError::into_inner), at_ns);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacer::StallPolicy;
    use crate::signature;
    use crate::testing::test_frames;
    use crate::traffic::player::Slot;
    use crate::traffic::{Emission, Kind, Stream, Timing, Traffic, TrafficFrames};
    use fwdlab_model::procedure::Stretch;
    use fwdlab_packet::Signature;
    use fwdlab_packet::modifier::{Instruction, Program};

    const START: u64 = 5_000_000_000;

    /// A frame: its intended departure, stream and number, and the bytes before its signature.
    type Sent = (u64, u16, u64, Vec<u8>);

    /// Takes all frames of a source, which looks at the clock every microsecond.
    fn play<S: Source>(mut source: S, share: Share, first: &[u64]) -> Vec<Sent> {
        let (mut sent, mut now_ns) = (Vec::new(), START);
        let mut buffer = vec![0; 1514];
        while !source.has_ended() && (now_ns < START + 10_000_000 || source.goes_on(now_ns)) {
            source.set_time(now_ns);
            while source.has_next() {
                let mut slot = Slot::EMPTY;
                source.write(&mut buffer, &mut slot);
                let frame = &buffer[..slot.bytes as usize];
                let network = signature::network(frame).unwrap();
                let place = signature::SignaturePlace::UdpPayload;
                let signature = signature::find(frame, network, place).unwrap();
                let signature = Signature::read(signature).unwrap();
                let stream = signature.stream & 0xfff;
                assert_eq!(share.id(stream), signature.stream);
                let number = first[stream as usize] + signature.sequence * u64::from(share.of);
                // without the checksums, which cover the number
                let bytes = [&frame[..24], &frame[26..40]].concat();
                sent.push((signature.timestamp_ns - START, stream, number, bytes));
            }
            now_ns += 1000;
        }
        assert_eq!(source.not_sent(), 0);
        sent
    }

    /// The frames of several senders, in order.
    fn together(frames: &Frames, schedule: &Schedule, senders: u32) -> Vec<Sent> {
        let counts = share::counts(frames, &schedule.load, schedule.frames, senders).unwrap();
        let mut all = Vec::new();
        for (share, frames_of_one) in Share::all(senders).unwrap().into_iter().zip(counts) {
            let schedule = Schedule {
                frames: frames_of_one,
                ..schedule.clone()
            };
            let first = [share.first(0), share.first(1)];
            all.extend(match AnySource::new(frames, &schedule, share).unwrap() {
                AnySource::Test(s) => play(s.starting(START), share, &first),
                AnySource::TestOverTime(s) => play(s.starting(START), share, &first),
                AnySource::Traffic(s) => play(s.starting(START), share, &first),
                AnySource::TrafficOverTime(s) => play(s.starting(START), share, &first),
            });
        }
        all.sort();
        all
    }

    /// Test frames and the streams of a profile, at one load and at one that changes, for a time
    /// and for a number of frames: the same frames at the same nanosecond.
    #[test]
    fn senders_together_send_the_frames_of_one_at_their_times() {
        let mut buffer = vec![0; 60];
        let test = test_frames(7);
        let mut walk = test.flows.walk(fwdlab_packet::Order::Sequential);
        let flow = walk.next().unwrap();
        test.template
            .write(&mut buffer, &flow, &Signature::default());
        let stream = |(id, rate_pps): (u16, f64)| Stream {
            id,
            name: id.to_string(),
            kinds: vec![Kind {
                template: buffer.clone(),
                program: Program {
                    instructions: vec![Instruction::Signature { offset: 42 }],
                    ..Program::default()
                },
                place: Some(signature::SignaturePlace::UdpPayload),
            }],
            pattern: vec![0],
            timing: Timing::new(rate_pps, Emission::Continuous),
            path: 0,
        };
        let traffic = Traffic {
            name: "two".into(),
            streams: [(0, 2.0), (1, 3.0)].into_iter().map(stream).collect(),
        };
        let stretch = |ms: u64, from_pps, to_pps| Stretch {
            duration_ns: ms * 1_000_000,
            from_pps,
            to_pps,
        };
        let stretches = vec![
            stretch(5, 0.0, 3e5),
            stretch(2, 0.0, 0.0),
            stretch(4, 1e5, 2e5),
        ];
        for frames in [
            Frames::Test(test),
            Frames::Traffic(TrafficFrames {
                traffic: traffic.into(),
                nonce: 1,
            }),
        ] {
            for load in [
                LoadPlan::Constant(123_456.7),
                LoadPlan::from_stretches(stretches.clone()),
            ] {
                for most in [None, Some(0), Some(1), Some(1001)] {
                    let schedule = Schedule {
                        load: load.clone(),
                        frames: most,
                        at_most: Duration::from_millis(10),
                        stall_policy: StallPolicy::Skip,
                        path: 0,
                    };
                    let one = together(&frames, &schedule, 1);
                    match most {
                        Some(most) => assert_eq!(one.len() as u64, most),
                        None => assert!(one.len() > 1001),
                    }
                    for senders in [2, 3, 4, 8] {
                        let several = together(&frames, &schedule, senders);
                        assert_eq!(several.len(), one.len(), "{senders} {schedule:?}");
                        for (found, expected) in several.iter().zip(&one) {
                            assert_eq!(found, expected, "{senders} {schedule:?}");
                        }
                    }
                }
            }
        }
    }

    /// Its second sender cannot begin.
    struct Failing {
        number: u32,
        sent: Arc<AtomicU64>,
    }

    impl Transmit for Failing {
        fn capabilities(&self) -> Capabilities {
            Capabilities::plain(crate::Mode::Memory, "fails")
        }

        fn arm(&mut self, _: &Outline) -> Result<(), EngineError> {
            Ok(())
        }

        fn begin(&mut self, _: &Schedule) -> Result<(), EngineError> {
            match self.number {
                2 => Err(EngineError::Thread("no memory".into())),
                _ => Ok(()),
            }
        }

        fn send<S: Source>(
            &mut self,
            _: usize,
            _: &mut S,
            _: &Counters,
        ) -> Result<(), EngineError> {
            self.sent.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn end(&mut self, _: &Counters) -> Result<(), EngineError> {
            Ok(())
        }
    }

    #[test]
    fn a_sender_that_cannot_begin_is_named_and_the_others_send_nothing() {
        let sent = Arc::new(AtomicU64::new(0));
        let all = [1, 2, 3].map(|number| Failing {
            number,
            sent: sent.clone(),
        });
        let mut sender = SocketSender::with_threads(1, &[], all.into());
        sender.arm(&Frames::Test(test_frames(3))).unwrap();
        let schedule = Schedule {
            load: LoadPlan::FlatOut,
            frames: None,
            at_most: Duration::from_secs(5),
            stall_policy: StallPolicy::Skip,
            path: 0,
        };
        sender.start(schedule).unwrap();
        while !sender.is_done() {
            thread::sleep(Duration::from_millis(1));
        }
        let error = sender.stop().unwrap_err().to_string();
        assert!(
            error.contains("sender 2 of 3") && error.contains("no memory"),
            "{error}"
        );
        assert_eq!(sent.load(Ordering::Relaxed), 0);
    }

    /// Threads on one CPU that spin would keep each other from sending.
    #[test]
    fn senders_yield_on_a_cpu_that_they_share() {
        let shares = |senders: u32, cpus: &[usize]| {
            let failing = |number| Failing {
                number,
                sent: Arc::default(),
            };
            SocketSender::with_threads(1, cpus, (0..senders).map(failing).collect()).shares_cpu
        };
        assert!(shares(2, &[0]));
        assert!(!shares(2, &[0, 1]) && !shares(1, &[0]));
        assert!(shares(10_000, &[]));
    }
}
