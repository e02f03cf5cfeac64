//! libFuzzer's door to the target `pcap`, and nothing else. Start at `targets/pcap.rs`.
#![no_main]

#[path = "../targets/pcap.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::pcap(data));
