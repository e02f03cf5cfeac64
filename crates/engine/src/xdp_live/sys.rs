//! The layout of the maps of `bpf/transmit.bpf.c`, byte for byte.
#![allow(unsafe_code, reason = "plain old data shared with BPF programs")]

/// Paths one sender can switch between (`MAX_PATHS` in `bpf/wire.h`).
pub(super) const MAX_PATHS: usize = 16;

/// `struct stream`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Stream {
    pub head: [u8; 80],
    pub source_base: u32,
    pub source_count: u32,
    pub destination_base: u32,
    pub destination_count: u32,
    pub source_port_base: u16,
    pub source_port_count: u16,
    pub destination_port_base: u16,
    pub destination_port_count: u16,
    pub ip_sum: u32,
    pub udp_sum: u32,
    pub timestamps: u32,
}

/// `struct control`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Control {
    pub start_ns: u64,
    pub end_ns: u64,
    pub gap: u64,
    pub frames: u64,
    pub path: u32,
    pub catch_up_us: u32,
}

/// `struct progress`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    pub sent: [u64; MAX_PATHS],
    pub not_sent: u64,
    pub spins: u64,
    pub next: u64,
    pub now: u64,
    pub sequence: u64,
    pub last_ns: u64,
    pub start_ns: u64,
    pub source: u32,
    pub destination: u32,
    pub source_port: u32,
    pub destination_port: u32,
}

// SAFETY: repr(C), integers only, and no padding: the sizes below are the sums of the fields.
unsafe impl aya::Pod for Stream {}
// SAFETY: as above.
unsafe impl aya::Pod for Control {}
// SAFETY: as above.
unsafe impl aya::Pod for Progress {}

const _: () = assert!(size_of::<Stream>() == 80 + 4 * 4 + 2 * 4 + 4 * 3);
const _: () = assert!(size_of::<Control>() == 8 * 4 + 4 * 2);
const _: () = assert!(size_of::<Progress>() == 8 * (MAX_PATHS + 7) + 4 * 4);
