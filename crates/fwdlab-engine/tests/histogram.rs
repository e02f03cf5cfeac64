//! The histogram of the BPF programs compared with the library's: both put the same values into the
//! same buckets.
//!
//! Needs the right to load BPF programs.

use aya::Ebpf;
use aya::programs::{TestRun, TestRunOptions, Xdp};
use fwdlab_engine::histogram::{BUCKETS, LARGEST_NS, bounds, index};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/histogram_test.o"));

#[test]
fn bpf_and_rust_agree_on_buckets() {
    let mut programs = match Ebpf::load(OBJECT) {
        Ok(programs) => programs,
        Err(error) => {
            println!("SKIPPED: bpf_and_rust_agree_on_buckets: cannot load BPF programs: {error}");
            return;
        }
    };
    let program: &mut Xdp = programs.program_mut("bucket").unwrap().try_into().unwrap();
    program.load().unwrap();
    let bpf_index = |value: u64| {
        let mut frame = [0; 64];
        frame[..8].copy_from_slice(&value.to_ne_bytes());
        let options = TestRunOptions {
            data_in: Some(&frame),
            ..TestRunOptions::new()
        };
        program.test_run(options).unwrap().return_value as usize
    };
    // both ends of every bucket, to detect boundaries shifted by one
    for bucket in 0..BUCKETS {
        let (low, high) = bounds(bucket);
        assert_eq!(
            [bpf_index(low), bpf_index(high)],
            [bucket; 2],
            "{low} to {high} ns"
        );
    }
    for value in [LARGEST_NS + 1, 1 << 41, 1 << 63, u64::MAX] {
        assert_eq!(bpf_index(value), index(value), "{value} ns");
    }
}
