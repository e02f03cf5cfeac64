//! libFuzzer's door to the target `folded`, and nothing else. Start at `targets/folded.rs`.
#![no_main]

#[path = "../targets/folded.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::folded(data));
