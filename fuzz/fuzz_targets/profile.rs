//! libFuzzer's door to the target `profile`, and nothing else. Start at `targets/profile.rs`.
#![no_main]

#[path = "../targets/profile.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::profile(data));
