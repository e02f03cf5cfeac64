//! The fuzz targets of this crate, run on their corpora and on mutations of them, without a fuzzer.
//!
//! `fuzz/targets/` contains the targets, `fuzz/replay.rs` runs them.

#[expect(
    clippy::disallowed_methods,
    reason = "a watchdog needs a thread of its own"
)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/ministat.rs"]
mod target;

#[test]
fn ministat() {
    replay::replay("ministat", 20_000, target::ministat);
}
