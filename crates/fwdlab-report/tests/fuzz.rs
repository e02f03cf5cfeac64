//! Runs the fuzz targets of this crate on their corpora and mutations of them, without a fuzzer.
//!
//! The targets are in `fuzz/targets/`; `fuzz/replay.rs` runs them.

#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/folded.rs"]
mod target;

#[test]
fn folded() {
    replay::replay("folded", 3_000, target::folded);
}
