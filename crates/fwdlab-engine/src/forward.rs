//! A router in the driver, for a DUT that `ip link set dev PORT xdp object FILE section SECTION` loads it into.
//!
//! Nothing here uses it: it forwards what others send. Start with [`OBJECT`]; what it does is in `bpf/forward.bpf.c`.

/// The compiled programs, each in a section of its own: `forward` and `pass`.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forward.o"));
