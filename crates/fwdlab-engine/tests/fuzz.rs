//! The fuzz targets of this crate, run on their corpora and on mutations of them, without a fuzzer.
//!
//! `fuzz/targets/` contains the targets, `fuzz/replay.rs` runs them.

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
