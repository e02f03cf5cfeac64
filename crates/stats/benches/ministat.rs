//! ministat on a million values: reading them, and the whole program on two such sets.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stats::ministat::{Arguments, Input, Model, Options, read_values, run};
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

fn ministat(c: &mut Criterion) {
    let mut group = c.benchmark_group("ministat");
    group.sample_size(10);
    let (a, b) = (million(4_000_000), million(4_010_000));

    group.throughput(Throughput::Bytes(a.len() as u64));
    group.bench_function("read 10^6 values", |bencher| {
        bencher.iter(|| read_values(black_box(&a), &Options::default()));
    });

    let arguments =
        Arguments::parse(&["-A", "a", "b"], Model::Freebsd, 74).expect("valid arguments");
    let input = |name: &str, content: &[u8]| Input {
        name: name.into(),
        content: Ok(content.to_vec()),
    };
    let inputs = [input("a", &a), input("b", &b)];
    group.throughput(Throughput::Elements(2 * VALUES));
    group.bench_function("compare 2 x 10^6 values", |bencher| {
        bencher.iter(|| run(black_box(&arguments), &inputs));
    });
    group.finish();
}

criterion_group!(benches, ministat);
criterion_main!(benches);
