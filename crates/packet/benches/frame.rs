//! ns per frame of writing and patching, over rings that fit the L2 cache and rings that do not.
//!
//! Each iteration produces one frame in the next slot of a ring of 2048-byte slots, as a sender does. The
//! slot goes through `black_box`: without it the compiler sees that nobody reads the ring and removes the
//! stores, and the figure is an impossible 0.6 ns. Compare the `walk` figure before blaming the template.
//!
//! `cargo bench -p fwdlab-packet -- --measurement-time 1`

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use packet::{Flow, FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Order, Signature, Walk};
use std::hint::black_box;

const SLOT: usize = 2048;

/// Slots: 1 MB, which fits an L2 cache of today, and 32 MB, which does not.
const RINGS: [usize; 2] = [512, 16384];

fn frame(c: &mut Criterion) {
    for (version, frame_size) in [
        (IpVersion::V4, 64),
        (IpVersion::V6, 84),
        (IpVersion::V4, 1518),
    ] {
        let template = FrameTemplate::new(&FrameSpec {
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            version,
            frame_size,
        })
        .expect("a size with room for the signature");
        let flows = match version {
            IpVersion::V4 => FlowSet::default_v4(2000).expect("a default set"),
            IpVersion::V6 => FlowSet::default_v6(2000).expect("a default set"),
        };
        let walk = flows.walk(Order::Shuffled { seed: 1 });

        let mut group = c.benchmark_group(format!("{version}-{frame_size}"));
        for slots in RINGS {
            group.bench_function(BenchmarkId::new("write", slots), |b| {
                let mut ring = Ring::new(slots, &template, walk);
                b.iter(|| ring.next(|slot, flow, signature| template.write(slot, flow, signature)));
            });
            group.bench_function(BenchmarkId::new("patch", slots), |b| {
                let mut ring = Ring::new(slots, &template, walk);
                b.iter(|| ring.next(|slot, flow, signature| template.patch(slot, flow, signature)));
            });
        }
        group.bench_function("walk", |b| {
            let mut walk = walk;
            b.iter(|| black_box(walk.next()));
        });
        group.finish();
    }
}

/// Slots that are filled one after another, round and round.
struct Ring {
    bytes: Vec<u8>,
    at: usize,
    walk: Walk,
    sequence: u64,
}

impl Ring {
    /// Every slot holds a frame already, so that `patch` may be used.
    fn new(slots: usize, template: &FrameTemplate, walk: Walk) -> Ring {
        let mut ring = Ring {
            bytes: vec![0; slots * SLOT],
            at: 0,
            walk,
            sequence: 0,
        };
        for _ in 0..slots {
            ring.next(|slot, flow, signature| template.write(slot, flow, signature));
        }
        ring
    }

    #[inline]
    fn next(&mut self, fill: impl FnOnce(&mut [u8], &Flow, &Signature)) {
        let slot = &mut self.bytes[self.at..self.at + SLOT];
        let flow = self.walk.next().expect("a walk does not end");
        let signature = Signature {
            nonce: 1,
            stream: 0,
            sequence: self.sequence,
            timestamp_ns: self.sequence * 67,
        };
        fill(slot, &flow, &signature);
        black_box(slot);
        self.sequence += 1;
        // Not a remainder: a division costs as much as what is measured here.
        self.at = if self.at + SLOT < self.bytes.len() {
            self.at + SLOT
        } else {
            0
        };
    }
}

criterion_group!(benches, frame);
criterion_main!(benches);
