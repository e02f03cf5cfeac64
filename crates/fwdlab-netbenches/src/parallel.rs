//! Spreads work over threads, and passes the results to the caller's thread one by one.
//!
//! It knows nothing about the work. Start with [`each`].

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Maximum number of threads: more would only wait for the same disk.
const THREADS: usize = 8;

/// Passes every item to `work` on some thread and every result to `done` on this one, in the order
/// of completion.
///
/// Stops taking items if `stop` is set or `done` returns false; items in progress are finished.
/// Results wait in a short queue, so memory does not depend on the number of items.
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    stop: &AtomicBool,
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(R) -> bool,
) {
    let threads = thread::available_parallelism()
        .map_or(2, NonZero::get)
        .min(THREADS)
        .min(items.len().max(1));
    let (next, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(2 * threads);
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, ended, work) = (&next, &ended, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && !ended.load(Ordering::Relaxed) {
                    let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    // The receiver is only gone if this thread is to end, too.
                    if sender.send(work(item)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for result in receiver {
            if !ended.load(Ordering::Relaxed) && !done(result) {
                ended.store(true, Ordering::Relaxed);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once() {
        let items: Vec<u64> = (0..1000).collect();
        let mut sum = 0;
        each(
            &items,
            &AtomicBool::new(false),
            |n| n * n,
            |square| {
                sum += square;
                true
            },
        );
        let expect: u64 = (0..1000).map(|n| n * n).sum();
        assert_eq!(sum, expect);
    }

    #[test]
    fn parallel_work_ends_early_on_request() {
        let items: Vec<u64> = (0..100_000).collect();
        let mut seen = 0;
        each(
            &items,
            &AtomicBool::new(false),
            |n| *n,
            |_| {
                seen += 1;
                seen < 10
            },
        );
        assert_eq!(seen, 10);
        each(
            &items,
            &AtomicBool::new(true),
            |n| *n,
            |_| panic!("no work"),
        );
    }
}
