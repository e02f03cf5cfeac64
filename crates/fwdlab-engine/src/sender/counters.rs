//! The counters of a sender thread, on their own cache lines: only the thread writes, everyone may
//! read at any time.
//!
//! Nothing here locks or waits. Start with [`Counters`].

use std::sync::atomic::{AtomicU64, Ordering};

use crate::generator::SendCounts;
use crate::histogram::{self, Histogram};

/// Two cache lines, which some CPUs fetch together: avoids false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CacheLine<T>(pub(crate) T);

const PER_LINE: usize = 16;

/// An array of counters.
#[derive(Debug)]
struct Cells(Box<[CacheLine<[AtomicU64; PER_LINE]>]>);

impl Cells {
    fn new(count: usize) -> Cells {
        let lines = count.div_ceil(PER_LINE);
        Cells((0..lines).map(|_| CacheLine::default()).collect())
    }

    #[inline]
    fn at(&self, index: usize) -> &AtomicU64 {
        &self.0[index / PER_LINE].0[index % PER_LINE]
    }

    fn read(&self, count: usize) -> Vec<u64> {
        (0..count)
            .map(|index| self.at(index).load(Ordering::Relaxed))
            .collect()
    }
}

/// Batches counts: consecutive frames of the same stream are added in one step.
#[derive(Debug)]
pub struct Tally<'a> {
    counters: &'a Counters,
    stream: u32,
    frames: u64,
}

impl Tally<'_> {
    /// Counts one more frame.
    #[inline]
    pub fn add(&mut self, stream: u32) {
        if stream != self.stream {
            self.flush();
            self.stream = stream;
        }
        self.frames += 1;
    }

    fn flush(&mut self) {
        if self.frames > 0 {
            self.counters.add_of_stream(self.stream, self.frames);
            self.frames = 0;
        }
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The counts of one trial.
#[derive(Debug)]
pub struct Counters {
    paths: usize,
    streams: usize,
    sent: Cells,
    refused: Cells,
    of_stream: Cells,
    forgiven: CacheLine<AtomicU64>,
    made_up: CacheLine<AtomicU64>,
    ring_full: CacheLine<AtomicU64>,
    wakeups: CacheLine<AtomicU64>,
    late: Cells,
}

impl Counters {
    pub(crate) fn new(paths: usize, streams: usize) -> Counters {
        Counters {
            paths,
            streams,
            sent: Cells::new(paths),
            refused: Cells::new(paths),
            of_stream: Cells::new(streams),
            forgiven: CacheLine::default(),
            made_up: CacheLine::default(),
            ring_full: CacheLine::default(),
            wakeups: CacheLine::default(),
            late: Cells::new(histogram::BUCKETS),
        }
    }

    /// Sets the number of frames of this trial given to the driver of a path's port.
    #[inline]
    pub fn set_sent(&self, path: usize, frames: u64) {
        self.sent.at(path).store(frames, Ordering::Relaxed);
    }

    /// Sets the number of frames of this trial that were taken but did not reach the driver.
    #[inline]
    pub fn set_refused(&self, path: usize, frames: u64) {
        self.refused.at(path).store(frames, Ordering::Relaxed);
    }

    /// Adds frames of a stream that were given to a driver. Test frames are not counted by stream.
    #[inline]
    pub fn add_of_stream(&self, stream: u32, frames: u64) {
        if self.streams > 0 {
            add(self.of_stream.at(stream as usize), frames);
        }
    }

    /// Returns a tally to count frames of streams one by one; the counts are visible once it is
    /// dropped.
    #[inline]
    pub fn tally(&self) -> Tally<'_> {
        Tally {
            counters: self,
            stream: 0,
            frames: 0,
        }
    }

    /// Sets the number of frames that were due and will never leave, and of frames that were missed
    /// and have left since.
    #[inline]
    pub(crate) fn set_missed(&self, forgiven: u64, made_up: u64) {
        self.forgiven.0.store(forgiven, Ordering::Relaxed);
        self.made_up.0.store(made_up, Ordering::Relaxed);
    }

    /// Counts that frames were due while the ring was full.
    #[inline]
    pub fn ring_was_full(&self) {
        add(&self.ring_full.0, 1);
    }

    /// Counts a system call that woke the kernel to send.
    #[inline]
    pub fn count_wakeup(&self) {
        add(&self.wakeups.0, 1);
    }

    /// Records the lateness of the oldest due frame.
    #[inline]
    pub(crate) fn is_late(&self, ns: u64) {
        add(self.late.at(histogram::index(ns)), 1);
    }

    /// Returns the number of streams that are counted.
    pub(crate) fn streams(&self) -> usize {
        self.streams
    }

    pub(crate) fn read(&self) -> SendCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let refused: u64 = self.refused.read(self.paths).iter().sum();
        SendCounts {
            sent: self.sent.read(self.paths),
            not_sent: read(&self.forgiven.0) + refused,
            made_up: read(&self.made_up.0),
            streams: self.of_stream.read(self.streams),
            ring_full: read(&self.ring_full.0),
            wakeups: read(&self.wakeups.0),
            ..SendCounts::default()
        }
    }

    pub(crate) fn lateness(&self) -> Histogram {
        let mut histogram = Histogram::default();
        for (index, count) in (0..).zip(self.late.read(histogram::BUCKETS)) {
            histogram.add(index, count);
        }
        histogram
    }
}

/// Adds without a locked instruction, because only one thread writes.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}
