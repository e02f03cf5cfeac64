//! libFuzzer's door to the target `frames`, and nothing else. Start at `targets/frames.rs`.
#![no_main]

#[path = "../targets/frames.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::frames(data));
