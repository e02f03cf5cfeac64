//! Runs the fuzz targets of this crate on their corpora and mutations of them, without a fuzzer.
//!
//! The targets are in `fuzz/targets/`; `fuzz/replay.rs` runs them.

#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/netbenches.rs"]
mod target;

#[test]
fn netbenches() {
    replay::replay("netbenches", 1_500, target::netbenches);
}
