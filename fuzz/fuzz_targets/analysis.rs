//! libFuzzer's door to the target `analysis`, and nothing else. Start at `targets/analysis.rs`.
#![no_main]

#[path = "../targets/analysis.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::analysis(data));
