//! The fuzz targets of this crate over their corpora and mutations of them, without a fuzzer.
//!
//! What is run is in `fuzz/targets/`, how in `fuzz/replay.rs`.

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
