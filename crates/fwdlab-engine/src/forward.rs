//! A router in the driver, for a DUT that loads it with
//! `ip link set dev PORT xdp object FILE section SECTION`.
//!
//! No engine uses it: it forwards the frames that they send. Start with [`OBJECT`];
//! `bpf/forward.bpf.c` describes what it does.

/// The compiled programs, each in its own section: `forward` and `pass`.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forward.o"));
