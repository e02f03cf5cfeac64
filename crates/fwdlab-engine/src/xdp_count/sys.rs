//! The layout of the maps of `bpf/count.bpf.c` and `bpf/analyse.bpf.c`.
#![allow(unsafe_code, reason = "plain old data shared with BPF programs")]

use crate::analysis::{PAIRS, WINDOW};
use crate::histogram::BUCKETS;

/// Flows in one entry of their map.
pub(super) const FLOWS_PER_ENTRY: usize = 1024;

/// `struct expect`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Expect {
    pub nonce: u32,
    pub buffer_bytes: u32,
    pub tail: u32,
    pub last: u32,
}

/// `struct counters`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Counters {
    pub received: u64,
    pub wrong_length: u64,
    pub late: u64,
    pub foreign: u64,
    pub last_ns: u64,
    pub pad: [u64; 3],
}

/// `struct plan`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Plan {
    pub stream: u32,
    pub flows: u32,
    pub flow_entry: u32,
    pub shortest: u16,
    pub longest: u16,
}

/// `struct stream`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Stream {
    pub lock: u32,
    pub timed: u32,
    pub received: u64,
    pub bytes: u64,
    pub duplicates: u64,
    pub reordered: u64,
    pub extent: u64,
    pub older: u64,
    pub corrupt: u64,
    pub wrong_length: u64,
    pub early: u64,
    pub next: u64,
    pub arrived: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub latency_min: u64,
    pub latency_max: u64,
    pub latency_sum: u64,
    pub last_latency: u64,
    pub jitter_16ths: u64,
}

const WORDS: usize = 2 * WINDOW as usize / 64;

/// `struct window`: only written as zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Window {
    words: [[u64; 3]; WORDS],
    pairs: [[u64; 2]; PAIRS as usize],
}

/// `struct times`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub latency: [u64; BUCKETS],
    pub variation: [u64; BUCKETS],
}

/// `struct flows`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Flows {
    pub arrived: [u32; FLOWS_PER_ENTRY],
}

pub(super) static EMPTY_WINDOW: Window = Window {
    words: [[0; 3]; WORDS],
    pairs: [[0; 2]; PAIRS as usize],
};
pub(super) static EMPTY_TIMES: Times = Times {
    latency: [0; BUCKETS],
    variation: [0; BUCKETS],
};
pub(super) static EMPTY_FLOWS: Flows = Flows {
    arrived: [0; FLOWS_PER_ENTRY],
};

// SAFETY: repr(C), integers only, no padding.
unsafe impl aya::Pod for Expect {}
// SAFETY: repr(C), integers only, no padding.
unsafe impl aya::Pod for Counters {}
// SAFETY: repr(C), integers only, no padding: the sizes below are the sums of the fields.
unsafe impl aya::Pod for Plan {}
// SAFETY: as above.
unsafe impl aya::Pod for Stream {}
// SAFETY: repr(C), arrays of integers of one size.
unsafe impl aya::Pod for Window {}
// SAFETY: as above.
unsafe impl aya::Pod for Times {}
// SAFETY: as above.
unsafe impl aya::Pod for Flows {}

const _: () = assert!(size_of::<Plan>() == 3 * 4 + 2 * 2);
const _: () = assert!(size_of::<Stream>() == 2 * 4 + 18 * 8);
