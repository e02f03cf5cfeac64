//! The fuzz targets of this crate over their corpora and mutations of them, without a fuzzer.
//!
//! What is run is in `fuzz/targets/`, how in `fuzz/replay.rs`.

#[path = "../../../fuzz/targets/analysis.rs"]
mod analysis;
#[path = "../../../fuzz/targets/profile.rs"]
mod profile;
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn analysis() {
    replay::replay("analysis", 10_000, analysis::analysis);
}

#[test]
fn profile() {
    replay::replay("profile", 15_000, profile::profile);
}
