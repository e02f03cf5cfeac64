//! The cost of senders: the CPU time of their threads, as counted by the kernel. Start with
//! [`Load::end_window`].

use std::collections::VecDeque;
use std::fs;
use std::time::Instant;

/// Name of sender threads.
const SENDERS: &str = "fwdlab-send";

/// Number of values that clients show for a CPU.
const HISTORY: usize = 20;

/// The load of the CPUs of all senders.
pub struct Load {
    before_ns: u64,
    at: Instant,
    history: VecDeque<f64>,
}

impl Load {
    pub fn new(now: Instant) -> Load {
        Load {
            before_ns: sender_cpu_ns(),
            at: now,
            history: VecDeque::new(),
        }
    }

    /// Ends a window of time.
    pub fn end_window(&mut self, now: Instant) {
        let used = sender_cpu_ns();
        let window = now.saturating_duration_since(self.at).as_nanos();
        if window == 0 {
            return;
        }
        // the time of a thread that has ended is no longer included
        let share = used.saturating_sub(self.before_ns) as f64 / window as f64;
        self.history.push_front(share * 100.0);
        self.history.truncate(HISTORY);
        (self.before_ns, self.at) = (used, now);
    }

    /// Returns the load in the last window: percent of one CPU, and more than 100 if several
    /// senders use several.
    pub fn percent(&self) -> f64 {
        self.history.front().copied().unwrap_or_default()
    }

    /// Returns the last windows, newest first, in the clients' format: integers, in a fixed number.
    pub fn history(&self, cpus: usize) -> Vec<u32> {
        let share = |at: usize| {
            self.history
                .get(at)
                .map_or(0.0, |all| all / cpus.max(1) as f64)
        };
        (0..HISTORY).map(|at| share(at).round() as u32).collect()
    }
}

/// Returns the nanoseconds that all sender threads have run.
fn sender_cpu_ns() -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let of = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let ran: u64 = text.split_whitespace().next()?.parse().ok()?;
        name.starts_with(SENDERS).then_some(ran)
    };
    tasks.flatten().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_that_works_is_seen_and_others_are_not() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let work = || {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let named = |name: &str| {
            std::thread::Builder::new()
                .name(name.into())
                .spawn(work)
                .unwrap()
        };
        let _other = named("other");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(sender_cpu_ns(), 0);
        let begin = Instant::now();
        let mut load = Load::new(begin);
        let sender = named("fwdlab-send");
        while sender_cpu_ns() == 0 && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        load.end_window(Instant::now());
        assert!(load.percent() > 0.0);
        assert_eq!(load.history(2).len(), HISTORY);
        STOP.store(true, Ordering::Relaxed);
        sender.join().unwrap();
    }
}
