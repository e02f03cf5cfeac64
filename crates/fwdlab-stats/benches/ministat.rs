//! ministat on a million values: parsing them, and the whole program on two such sets, compared
//! with the minimum for the same bytes, which is to parse and add them.
//!
//! Ratios within one run are more reliable than absolute figures (docs/reference/ministat.md has
//! both).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fwdlab_stats::ministat::{Arguments, Model, Options, read_values, run};
use std::hint::black_box;

const VALUES: u64 = 1_000_000;

fn million(centre: u64) -> Vec<u8> {
    let mut state = centre;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        centre + (state >> 44)
    };
    let lines: Vec<String> = (0..VALUES).map(|_| format!("{}\n", next())).collect();
    lines.concat().into_bytes()
}

fn sum(content: &[u8]) -> f64 {
    let text = std::str::from_utf8(content).expect("digits");
    let number = |line: &str| line.parse::<f64>().expect("a number a line");
    text.lines().map(number).sum()
}

fn ministat(c: &mut Criterion) {
    let mut group = c.benchmark_group("ministat");
    group.sample_size(20);
    let (a, b) = (million(4_000_000), million(4_010_000));
    group.throughput(Throughput::Bytes(a.len() as u64));
    group.bench_function("plain sum of 10^6 values", |bencher| {
        bencher.iter(|| sum(black_box(&a)));
    });
    group.bench_function("read 10^6 values", |bencher| {
        bencher.iter(|| read_values(black_box(&a[..]), &Options::default()));
    });

    group.throughput(Throughput::Bytes((a.len() + b.len()) as u64));
    for (name, line) in [
        ("compare 2 x 10^6 values", &["-A", "a", "b"][..]),
        ("compare and plot 2 x 10^6 values", &["a", "b"]),
    ] {
        let arguments = Arguments::parse(line, Model::Freebsd, 74).expect("valid arguments");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                run(black_box(&arguments), |name| {
                    Ok(if name == b"a" { &a[..] } else { &b[..] })
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, ministat);
criterion_main!(benches);
