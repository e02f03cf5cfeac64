//! Keeps CPUs busy while the tester is measured alone, as a DUT on them would: a CPU is slower
//! while the other thread of its core works, or while all cores do.
//!
//! It measures nothing. Start with [`BusyCpus::start`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use fwdlab_engine::port::pin;

use crate::sys::{burst, set_nice};

/// The lowest priority: receivers and other programs get the CPU first.
const NICE: i32 = 19;

/// CPUs that compute until this is dropped.
pub struct BusyCpus {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyCpus {
    /// Starts a thread on each of these CPUs.
    pub fn start(cpus: impl Iterator<Item = usize>) -> BusyCpus {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |cpu| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                // elsewhere it would take time from the sender
                if set_nice(0, NICE).is_err() || pin(&[cpu]).is_err() {
                    return;
                }
                while !stop.load(Ordering::Relaxed) {
                    burst();
                }
            })
        };
        let threads = cpus.map(start).collect();
        BusyCpus { stop, threads }
    }
}

impl Drop for BusyCpus {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
