//! libFuzzer's door to the target `ministat`, and nothing else. Start at `targets/ministat.rs`.
#![no_main]

#[path = "../targets/ministat.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::ministat(data));
