//! Import and audit of a synthetic archive: megabytes of logs per second, and the memory it takes.
//!
//! `FWDLAB_BENCH_LOGS` sets the number of receivers' logs (default 1000; the public archive has
//! 18,126). The archive is made in a temporary directory and never kept.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use fwdlab_netbenches::{self as netbenches, Options};

/// Logs of a result set: four configurations, five runs each.
const PER_SET: usize = 20;
/// Samples of a log: 170 MB over 18,126 logs is 9.4 kB each.
const SAMPLES: u64 = 76;

/// Makes an archive with this number of receivers' logs, and senders' logs, `.info`, `.pps` and
/// README files; returns its size in bytes.
fn make(root: &Path, logs: usize) -> u64 {
    let mut bytes = 0;
    let mut state = 1_u64;
    let mut random = |range: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % range
    };
    for set in 0..logs.div_ceil(PER_SET) {
        let directory = root.join(format!(
            "cpu{}/nic{}/topic{set}/results/os",
            set % 7,
            set % 31
        ));
        fs::create_dir_all(&directory).expect("a writable directory");
        for log in 0..PER_SET {
            let (case, run) = (["fw", "pf", "ipfw", "none"][log % 4], log / 4 + 1);
            for side in ["receiver", "sender"] {
                let mut text = format!(
                    "CMD: pkt-gen -N -f {side} -i vcxl1 -w 4 -l 60 -4 -d 198.19.10.1:2000-198.19.10.100 -s 198.18.10.1:2000-198.18.10.20\n"
                );
                for line in 0..8 {
                    let _ = writeln!(text, "0{line}0.412888 main [2512] interface is vcxl1");
                }
                // Senders report every 2 s.
                let (step, count) = if side == "sender" {
                    (2, SAMPLES / 2)
                } else {
                    (1, SAMPLES)
                };
                for second in 0..count {
                    let pps = 4_000_000 + random(100_000);
                    let _ = writeln!(
                        text,
                        "{:03}.{:06} main_thread [2277] {pps} pps ({} pkts {} bps in {} usec) 26.36 avg_batch 691 min_space",
                        100 + step * second,
                        random(1_000_000),
                        pps + 999,
                        pps * 480,
                        step * 1_000_999,
                    );
                }
                text.push_str("Terminated\n");
                bytes += text.len() as u64;
                let name = format!("bench.{case}.{run}.{side}");
                fs::write(directory.join(name), text).expect("a writable directory");
            }
        }
        for case in ["fw", "pf", "ipfw", "none"] {
            let info = format!("IMAGE=\"\"\nCFG=\"{case}\"\nPKTGEN=\"\"\n");
            fs::write(directory.join(format!("bench.{case}.info")), info)
                .expect("a writable directory");
            fs::write(directory.join(format!("{case}.pps")), "1\n2\n3\n4\n5\n")
                .expect("a writable directory");
        }
        let block = "```\nx fw\n    N           Min           Max        Median           Avg        Stddev\n\
                     x   5       4046911       4050002       4049001       4049000     1290.9944\n```\n";
        fs::write(directory.join("README.md"), block).expect("a writable directory");
    }
    bytes
}

/// Returns the peak memory of this process, in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

#[expect(clippy::print_stdout, reason = "a benchmark says what it found")]
fn main() {
    let logs = std::env::var("FWDLAB_BENCH_LOGS").ok();
    let logs = logs.and_then(|text| text.parse().ok()).unwrap_or(1000);
    let archive = tempfile::tempdir().expect("a temporary directory");
    let bytes = make(archive.path(), logs);
    let mut criterion = Criterion::default()
        .sample_size(10)
        .measurement_time(Duration::from_secs(10));
    let mut group =
        criterion.benchmark_group(format!("netbenches, {logs} logs, {} MB", bytes / 1_000_000));
    group.throughput(Throughput::Bytes(bytes));
    let never = AtomicBool::new(false);
    group.bench_function("import", |bencher| {
        bencher.iter_with_large_drop(|| {
            let runs = tempfile::tempdir().expect("a temporary directory");
            let imported = netbenches::import(
                &Options {
                    archive: archive.path(),
                    runs: runs.path(),
                    choices: &[],
                    again: false,
                    tool_version: "0",
                    command_line: &[],
                    entropy: 1,
                },
                &never,
                &|_, _| "report".to_owned(),
                &mut |_| {},
            );
            assert_eq!(
                imported.expect("an archive").tally.receivers as usize,
                logs.div_ceil(PER_SET) * PER_SET
            );
            runs
        });
    });
    group.bench_function("audit", |bencher| {
        bencher.iter(|| {
            netbenches::audit(archive.path(), &[], &never, &mut |_| {}).expect("an archive")
        });
    });
    group.finish();
    println!("peak memory {} MB", peak_memory() / 1_000_000);
}
