//! The layout of the maps of `bpf/groups.bpf.c`.
#![allow(unsafe_code, reason = "plain old data shared with BPF programs")]

use crate::histogram::BUCKETS;

/// `struct config`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Config {
    pub pass: u32,
    pub window: u32,
}

/// `struct count`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub frames: u64,
    pub bytes: u64,
}

/// `struct timed`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Timed {
    pub lock: u32,
    pub generation: u32,
    pub expected: u32,
    pub is_timed: u32,
    pub frames: u64,
    pub bytes: u64,
    pub dropped: u64,
    pub out_of_order: u64,
    pub duplicates: u64,
    pub too_high: u64,
    pub too_low: u64,
    pub other_generation: u64,
    pub latencies: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
    pub last: u64,
    pub jitter_16ths: u64,
    pub window: u64,
    pub window_most: u64,
    pub before_most: u64,
}

/// `struct histogram`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub counts: [u64; BUCKETS],
}

pub(super) static EMPTY_TIMES: Times = Times {
    counts: [0; BUCKETS],
};

// SAFETY: repr(C), integers only, no padding.
unsafe impl aya::Pod for Config {}
// SAFETY: repr(C), integers only, no padding.
unsafe impl aya::Pod for Count {}
// SAFETY: repr(C), integers only, no padding: the size below is the sum of the fields.
unsafe impl aya::Pod for Timed {}
// SAFETY: repr(C), an array of integers.
unsafe impl aya::Pod for Times {}

const _: () = assert!(size_of::<Timed>() == 4 * 4 + 17 * 8);
