//! libFuzzer's door to the target `netbenches`, and nothing else. Start at `targets/netbenches.rs`.
#![no_main]

#[path = "../targets/netbenches.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::netbenches(data));
