//! The layout of the map of `bpf/sink.bpf.c`.
#![allow(unsafe_code, reason = "plain old data shared with BPF programs")]

/// `struct counters`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Counters {
    pub frames: u64,
    pub bytes: u64,
    pub pad: [u64; 6],
}

// SAFETY: repr(C), integers only, no padding.
unsafe impl aya::Pod for Counters {}
