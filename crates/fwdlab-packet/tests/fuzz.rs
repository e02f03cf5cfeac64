//! The fuzz targets of this crate, run on their corpora and on mutations of them, without a fuzzer.
//!
//! `fuzz/targets/` contains the targets, `fuzz/replay.rs` runs them.

#[path = "../../../fuzz/targets/frames.rs"]
mod frames;
#[path = "../../../fuzz/targets/pcap.rs"]
mod pcap;
#[expect(
    clippy::disallowed_methods,
    reason = "a watchdog needs a thread of its own, and a corpus is in files"
)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn frames() {
    replay::replay("frames", 20_000, frames::frames);
}

#[test]
fn pcap() {
    replay::replay("pcap", 20_000, pcap::pcap);
}
