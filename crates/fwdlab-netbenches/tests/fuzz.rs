//! The fuzz targets of this crate over their corpora and mutations of them, without a fuzzer.
//!
//! What is run is in `fuzz/targets/`, how in `fuzz/replay.rs`.

#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/netbenches.rs"]
mod target;

#[test]
fn netbenches() {
    replay::replay("netbenches", 1_500, target::netbenches);
}
