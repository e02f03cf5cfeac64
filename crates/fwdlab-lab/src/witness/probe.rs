//! The probes of the machine: the current speed of a CPU, and the distance of the CPUs between
//! which frames cross.
//!
//! *Speed* is the best of a few short bursts of independent additions, some tenths of a millisecond
//! in all, on the calling thread's CPU. It shows a busy SMT sibling and a lowered clock rate, which
//! steal time in `/proc/stat` does not. *Distance* is the round trip of a cache line between two
//! threads on different CPUs: it shows where a hypervisor has placed virtual CPUs, which the speed
//! does not show and the guest cannot query. `fwdlab_measure::gate` decides what a reading means.
//! Start with [`Probes`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fwdlab_model::probe::Reading;

use crate::placement::Placement;
use crate::sys::{BURST_ADDITIONS, burst};

/// Bursts per reading: the best one is not disturbed by an interrupt.
const BURSTS: u32 = 8;

/// Round trips that are timed together: reading the clock takes some 30 ns, as long as one round
/// trip.
const ROUND_TRIPS: u64 = 20;

/// Groups of round trips per reading: the best one is not disturbed by an interrupt on either CPU.
const GROUPS: u64 = 10;

/// How long to wait for a thread that does not start or answer: DUT and generator are paused
/// meanwhile.
const PATIENCE: Duration = Duration::from_millis(2);

/// Returns one reading of the speed, in additions per nanosecond.
pub fn reading() -> f64 {
    let best = (0..BURSTS)
        .map(|_| {
            let started = Instant::now();
            burst();
            started.elapsed()
        })
        .min()
        .unwrap_or_default();
    BURST_ADDITIONS as f64 / best.as_nanos().max(1) as f64
}

/// Both probes. They belong to a thread on the DUT's first CPU with real-time priority, and have a
/// thread on each other CPU that frames cross to or from. These sleep except during the
/// microseconds of a reading, in which the sender pauses.
pub struct Probes {
    /// False if none of the DUT's CPUs is this machine's: nothing is read then.
    is_on_dut: bool,
    threads: Vec<ProbeThread>,
}

impl Probes {
    /// Starts the threads. If generator and DUT share their CPU, or a thread cannot be pinned or
    /// get priority over the sender, readings have no distances.
    pub fn open(placement: &Placement) -> Probes {
        let others = others(placement);
        let far: Vec<ProbeThread> = others
            .iter()
            .map_while(|&cpu| ProbeThread::open(cpu))
            .collect();
        // of all pairs or of none, because a state consists of all of them
        Probes {
            is_on_dut: !placement.dut_cpus.is_empty(),
            threads: if far.len() == others.len() {
                far
            } else {
                Vec::new()
            },
        }
    }

    /// Runs `work` on the DUT's first CPU, with the priority that the probes need; `None` if none
    /// of the DUT's CPUs is this machine's, or the work panicked.
    pub fn on_dut_cpu<T: Send>(
        placement: &Placement,
        work: impl FnOnce(&mut Probes) -> T + Send,
    ) -> Option<T> {
        let cpu = placement.dut_cpus.get(..1)?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _ = fwdlab_engine::port::pin(cpu);
                // without the privilege there is no distance either
                let _ = fwdlab_engine::sys::become_real_time();
                work(&mut Probes::open(placement))
            });
            thread.join().ok()
        })
    }

    /// Reads both now; [`Reading::NONE`] if none of the DUT's CPUs is this machine's.
    pub fn read(&mut self) -> Reading {
        if !self.is_on_dut {
            return Reading::NONE;
        }
        let distances: Option<Vec<f64>> = self
            .threads
            .iter_mut()
            .map(ProbeThread::distance_ns)
            .collect();
        Reading {
            additions_per_ns: reading(),
            distances_ns: distances.unwrap_or_default(),
        }
    }

    /// Returns the best of several readings.
    pub fn best_of(&mut self, readings: usize) -> Reading {
        let all = (0..readings).map(|_| self.read());
        all.reduce(|best, next| Reading {
            additions_per_ns: best.additions_per_ns.max(next.additions_per_ns),
            distances_ns: match best.distances_ns.len() == next.distances_ns.len() {
                true => {
                    let both = best.distances_ns.iter().zip(&next.distances_ns);
                    both.map(|(a, b)| a.min(*b)).collect()
                }
                false if best.distances_ns.is_empty() => next.distances_ns,
                false => best.distances_ns,
            },
        })
        .unwrap_or_default()
    }
}

/// Returns the CPUs whose distance from the DUT's first one matters: the generator's, and those
/// over which packet steering spreads flows.
pub fn others(placement: &Placement) -> Vec<usize> {
    let Some((first, steered)) = placement.dut_cpus.split_first() else {
        return Vec::new();
    };
    let all = placement.generator_cpus.iter().chain(steered);
    all.copied().filter(|cpu| cpu != first).collect()
}

/// Describes the pairs whose distances are read: `CPU 1 and CPU 0`.
pub fn pairs(placement: &Placement) -> String {
    let near = placement.dut_cpus.first().copied().unwrap_or_default();
    let far: Vec<String> = others(placement)
        .iter()
        .map(|cpu| format!("CPU {cpu}"))
        .collect();
    format!("CPU {near} and {}", far.join(", "))
}

/// A value with a cache line of its own, and the adjacent line that a CPU fetches with it.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// The shared data of the two threads of a pair. Numbers of round trips increase over all readings,
/// so that they are unique.
#[derive(Default)]
struct Shared {
    /// The number of the requested reading, and of the last finished one.
    wanted: Line,
    done: Line,
    /// Round trips begun by the near thread, and answered by the far one.
    ping: Line,
    pong: Line,
    quits: AtomicBool,
}

/// The thread on another CPU.
struct ProbeThread {
    shared: Arc<Shared>,
    patience: Duration,
    number: u64,
    thread: Option<JoinHandle<()>>,
}

impl ProbeThread {
    /// Returns `None` if it cannot be pinned to that CPU, or cannot get priority over the sender.
    fn open(cpu: usize) -> Option<ProbeThread> {
        let shared = Arc::new(Shared::default());
        let (report, reported) = std::sync::mpsc::channel();
        let thread = {
            let shared = shared.clone();
            let answer = move || {
                let ready = fwdlab_engine::port::pin(&[cpu]).is_ok()
                    && fwdlab_engine::sys::become_real_time().is_ok();
                let _ = report.send(ready);
                if ready {
                    shared.answer();
                }
            };
            thread::Builder::new()
                .name("fwdlab-far".into())
                .spawn(answer)
                .ok()?
        };
        let far = ProbeThread {
            shared,
            patience: PATIENCE,
            number: 0,
            thread: Some(thread),
        };
        reported.recv().ok().filter(|ready| *ready).map(|_| far)
    }

    /// Returns one reading, in nanoseconds; `None` if the other thread did not get its CPU in time.
    fn distance_ns(&mut self) -> Option<f64> {
        let shared = &*self.shared;
        let deadline = Instant::now() + self.patience;
        self.number += 1;
        shared.wanted.0.store(self.number, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        let first = self.number * TURNS;
        let answered = |turn: u64| {
            shared.ping.0.store(turn, Ordering::Release);
            let mut spins = 0u32;
            while shared.pong.0.load(Ordering::Acquire) != turn {
                std::hint::spin_loop();
                spins = spins.wrapping_add(1);
                if spins.is_multiple_of(256) && Instant::now() > deadline {
                    return false;
                }
            }
            true
        };
        // the first turn waits until the other thread is running
        let best = answered(first).then(|| {
            let groups = (0..GROUPS).map(|group| {
                let from = first + 1 + group * ROUND_TRIPS;
                let started = Instant::now();
                let all = (from..from + ROUND_TRIPS).all(answered);
                all.then(|| started.elapsed())
            });
            groups.collect::<Option<Vec<_>>>()?.into_iter().min()
        });
        shared.done.0.store(self.number, Ordering::Release);
        let best = best.flatten()?;
        Some(best.as_nanos().max(1) as f64 / ROUND_TRIPS as f64)
    }
}

impl Drop for ProbeThread {
    fn drop(&mut self) {
        self.shared.quits.store(true, Ordering::Release);
        // it may wait for a turn of a reading that was aborted
        self.shared.done.0.store(u64::MAX, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Turns of a reading: the first, and all round trips.
const TURNS: u64 = 1 + GROUPS * ROUND_TRIPS;

impl Shared {
    /// The far thread: sleeps until a reading is requested, and answers every turn of it.
    fn answer(&self) {
        let mut number = 0;
        loop {
            let requested = self.wanted.0.load(Ordering::Acquire);
            if self.quits.load(Ordering::Acquire) {
                return;
            }
            if requested == number {
                thread::park();
                continue;
            }
            number = requested;
            let first = number * TURNS;
            'reading: for turn in first..first + TURNS {
                while self.ping.0.load(Ordering::Acquire) != turn {
                    if self.done.0.load(Ordering::Acquire) >= number {
                        break 'reading;
                    }
                    std::hint::spin_loop();
                }
                self.pong.0.store(turn, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.1 to 100 additions per nanosecond: true for any CPU of this century, and shows that the
    /// loop is not optimised away.
    #[test]
    fn a_reading_is_a_speed() {
        let speed = reading();
        assert!((0.1..100.0).contains(&speed), "{speed}");
    }

    /// A round trip takes some nanoseconds to some microseconds on any CPUs, and every reading is a
    /// new one.
    #[test]
    fn two_cpus_have_a_distance() {
        const TEST: &str = "two_cpus_have_a_distance";
        let placement = Placement::choose(&[], 1).unwrap();
        if !placement.is_separate() {
            return println!("SKIPPED: {TEST}: one CPU");
        }
        let cpu = [placement.dut_cpus[0]];
        let readings = thread::spawn(move || {
            fwdlab_engine::port::pin(&cpu).unwrap();
            fwdlab_engine::sys::become_real_time().ok()?;
            let mut probes = Probes::open(&placement);
            Some((0..50).map(|_| probes.read()).collect::<Vec<_>>())
        });
        let Some(readings) = readings.join().unwrap() else {
            return println!("SKIPPED: {TEST}: no real-time priority without privileges");
        };
        assert!(readings.iter().all(|r| r.additions_per_ns > 0.1));
        let read: Vec<f64> = readings.into_iter().flat_map(|r| r.distances_ns).collect();
        if read.is_empty() {
            return println!("SKIPPED: {TEST}: the other CPU was taken for too long each time");
        }
        assert!(
            read.iter().all(|ns| (2.0..100_000.0).contains(ns)),
            "{read:?}"
        );
    }

    #[test]
    fn an_unresponsive_probe_is_not_awaited() {
        let mut far = ProbeThread {
            shared: Arc::default(),
            patience: PATIENCE,
            number: 0,
            thread: None,
        };
        assert_eq!(far.distance_ns(), None);
        assert_eq!(far.distance_ns(), None);
        // a late thread answers the requested reading, not the ones that were aborted
        let late = far.shared.clone();
        far.thread = Some(thread::spawn(move || late.answer()));
        // whenever the scheduler lets both run
        far.patience = Duration::from_secs(60);
        assert!(far.distance_ns().is_some());
    }

    #[test]
    fn every_pair_of_cpus_that_frames_cross_is_probed() {
        let placement = |generator: &[usize], dut: &[usize]| Placement {
            generator_cpus: generator.to_vec(),
            dut_cpus: dut.to_vec(),
            ..Placement::default()
        };
        assert_eq!(others(&placement(&[0], &[3])), [0]);
        assert_eq!(others(&placement(&[0], &[3, 1, 2])), [0, 1, 2]);
        assert!(others(&placement(&[0], &[0])).is_empty());
        let shared = Probes::open(&placement(&[0], &[0])).read();
        assert!(shared.additions_per_ns > 0.1 && shared.distances_ns.is_empty());
    }

    #[test]
    fn a_dut_on_remote_cpus_has_no_probe() {
        let elsewhere = Placement::default();
        let read = Probes::on_dut_cpu(&elsewhere, |probes| probes.best_of(1));
        assert_eq!(read, None);
        assert_eq!(Probes::open(&elsewhere).read(), Reading::NONE);
    }

    #[test]
    fn the_best_of_some_readings_is_of_each_probe() {
        let mut probes = Probes {
            is_on_dut: true,
            threads: Vec::new(),
        };
        let best = probes.best_of(3);
        assert!(best.additions_per_ns > 0.1 && best.distances_ns.is_empty());
    }
}
