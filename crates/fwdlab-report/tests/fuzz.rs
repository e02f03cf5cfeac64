//! The fuzz targets of this crate over their corpora and mutations of them, without a fuzzer.
//!
//! What is run is in `fuzz/targets/`, how in `fuzz/replay.rs`.

#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/folded.rs"]
mod target;

#[test]
fn folded() {
    replay::replay("folded", 3_000, target::folded);
}
