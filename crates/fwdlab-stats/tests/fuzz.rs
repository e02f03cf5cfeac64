//! The fuzz targets of this crate over their corpora and mutations of them, without a fuzzer.
//!
//! What is run is in `fuzz/targets/`, how in `fuzz/replay.rs`.

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
