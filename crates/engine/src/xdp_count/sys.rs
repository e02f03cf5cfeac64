//! The layout of the maps of `bpf/count.bpf.c`, byte for byte.
#![allow(unsafe_code, reason = "plain old data shared with BPF programs")]

/// `struct expect`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Expect {
    pub nonce: u32,
    pub buffer_bytes: u32,
}

/// `struct counters`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Counters {
    pub received: u64,
    pub wrong_length: u64,
    pub late: u64,
    pub foreign: u64,
    pub pad: [u64; 4],
}

// SAFETY: repr(C), integers only, no padding.
unsafe impl aya::Pod for Expect {}
// SAFETY: repr(C), integers only, no padding.
unsafe impl aya::Pod for Counters {}
