//! The fuzz targets of this crate, run on their corpora and on mutations of them, without a fuzzer.
//!
//! `fuzz/targets/` contains the targets, `fuzz/replay.rs` runs them.

#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/netbenches.rs"]
mod target;

#[test]
fn netbenches() {
    replay::replay("netbenches", 1_500, target::netbenches);
}
