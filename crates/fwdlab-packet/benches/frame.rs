//! ns per frame of writing and patching, over rings of which the first fits a second-level cache
//! and the others do not.
//!
//! Each iteration produces one frame in the next slot of a ring of 2048-byte slots, as a sender
//! does. The slot goes through `black_box`: without it the compiler sees that the ring is never
//! read and removes the stores, and the figure is an impossible 0.6 ns. Compare the `walk` figure
//! before blaming the template.
//!
//! `cargo bench -p fwdlab-packet -- --measurement-time 1`. At the end, a table of ratios to a
//! cached frame (one that is sent again unchanged): all kinds of frames take turns in it, so that a
//! change of the CPU's speed affects all of them.

#![expect(clippy::print_stdout, reason = "a benchmark tells its results")]

use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion, criterion_group};
use fwdlab_packet::header::{ethernet, ipv4, ipv6, tcp, udp, vlan, vxlan};
use fwdlab_packet::modifier::{
    Dimension, Direction, Endian, Instruction, Lists, Machine, Program, Source, Transport, Values,
    Variable, Width,
};
use fwdlab_packet::permutation::Visits;
use fwdlab_packet::stack::{Layer, Size, build};
use fwdlab_packet::{
    Flow, FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Order, Signature, Walk,
};
use std::hint::black_box;

const SLOT: usize = 2048;

/// Slots: 1, 8 and 32 MiB. With 64-byte frames only 32 kB, 256 kB and 1 MiB are touched, but slots
/// 2048 bytes apart share few sets of the first-level cache.
const RINGS: [usize; 3] = [512, 4096, 16_384];

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

/// Slots that are filled one after another, repeatedly.
struct Ring {
    bytes: Vec<u8>,
    at: usize,
    walk: Walk,
    sequence: u64,
}

impl Ring {
    /// Fills every slot with a frame, so that `patch` may be used.
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
        let flow = self.walk.next().expect("a walk does not end");
        self.slot(|slot, signature| fill(slot, &flow, signature));
    }

    /// Fills the next slot without a flow argument: for frames with their own flows, or without
    /// any.
    #[inline]
    fn slot(&mut self, fill: impl FnOnce(&mut [u8], &Signature)) {
        let slot = &mut self.bytes[self.at..self.at + SLOT];
        let signature = Signature {
            nonce: 1,
            stream: 0,
            sequence: self.sequence,
            timestamp_ns: self.sequence * 67,
        };
        fill(slot, &signature);
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

/// The frame of all kinds in the table: IPv4/UDP, 64 bytes.
fn spec() -> FrameSpec {
    FrameSpec {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        version: IpVersion::V4,
        frame_size: 64,
    }
}

/// A program for that frame.
fn machine(source: Option<Source>, instructions: Vec<Instruction>, fix: Instruction) -> Machine {
    let (program, template) = program(source, instructions, fix);
    at_work(&program, &template)
}

fn program(
    source: Option<Source>,
    mut instructions: Vec<Instruction>,
    fix: Instruction,
) -> (Program, Vec<u8>) {
    instructions.push(fix);
    let template = FrameTemplate::new(&spec()).expect("a size with room for the signature");
    let flows = FlowSet::default_v4(1).expect("a default set");
    let mut bytes = vec![0; template.buffer_len()];
    template.write(&mut bytes, &flows.flow(0), &Signature::default());
    let program = Program {
        variables: source.into_iter().map(variable).collect(),
        instructions,
        cache: None,
    };
    (program, bytes)
}

fn at_work(program: &Program, template: &[u8]) -> Machine {
    let mut machine = program
        .machine(template)
        .expect("a program that fits its template");
    machine.use_lists(&mut Lists::default());
    machine
}

fn write(variable: &str, offset: u16) -> Instruction {
    Instruction::Write {
        variable: variable.to_owned(),
        offset,
        add: 0,
        endian: Endian::Big,
    }
}

/// The programs of the table.
fn machines() -> Vec<(&'static str, Machine)> {
    let fix_ipv4 = || Instruction::FixIpv4 { offset: 14 };
    let fix_udp = || Instruction::FixTransport {
        l2_len: 14,
        l3_len: 20,
        transport: Transport::Udp,
    };
    let address = Source::Counter {
        direction: Direction::Increment,
        initial: 0xc612_0001,
        min: 0xc612_0001,
        max: 0xc612_07d0,
        step: 1,
    };
    let tuple = Source::Tuple {
        ip_min: 0xc612_0001,
        ip_max: 0xc612_00ff,
        port_min: 1024,
        port_max: 65_535,
        limit: 0,
    };
    let grid = |root, visits| Source::Grid {
        dimensions: vec![
            dimension("to", Width::Four, 0xc613_0001, root),
            dimension("from", Width::Four, 0xc612_0001, root),
        ],
        visits,
    };
    let (sequential, shuffled) = (Visits::Sequential, Visits::Shuffled { seed: 1 });
    let pair = || vec![write("v.to", 30), write("v.from", 26)];
    let tail = || Instruction::Signature { offset: 42 };
    let signed = |root, visits| {
        machine(
            Some(grid(root, visits)),
            [pair(), vec![tail()]].concat(),
            fix_udp(),
        )
    };
    // the frames of the fourth of eight senders
    let one_of_eight = |root, visits| {
        let instructions = [pair(), vec![tail()]].concat();
        let (program, template) = program(Some(grid(root, visits)), instructions, fix_udp());
        let mut machine = (program.every(&template, 3, 8)).expect("a program that fits");
        machine.use_lists(&mut Lists::default());
        machine
    };
    let random = Source::Random {
        min: 0,
        max: 0xffff_ffff,
        seed: 1,
    };
    // A write across the border of two headers, so that the checksum is computed in full.
    let across = vec![write("v", 32)];
    let mut machines = vec![
        ("signed: 1M flows, 1 of 8", one_of_eight(1000, sequential)),
        ("signed: 1M shuffled, 1 of 8", one_of_eight(1000, shuffled)),
        (
            "1 address, IPv4 checksum",
            machine(Some(address.clone()), vec![write("v", 26)], fix_ipv4()),
        ),
        (
            "1 address, both checksums",
            machine(Some(address), vec![write("v", 26)], fix_udp()),
        ),
        (
            "tuple, both checksums",
            machine(
                Some(tuple),
                vec![write("v.ip", 26), write("v.port", 34)],
                fix_udp(),
            ),
        ),
        (
            "1M flows shuffled, unsigned",
            machine(Some(grid(1000, shuffled)), pair(), fix_udp()),
        ),
        (
            "random, checksum in full",
            machine(Some(random), across, fix_udp()),
        ),
        ("signed: constant", machine(None, vec![tail()], fix_udp())),
        ("signed: 1 flow", signed(1, sequential)),
        ("signed: 2025 flows", signed(45, sequential)),
        ("signed: 2025 flows shuffled", signed(45, shuffled)),
        ("signed: 1M flows", signed(1000, sequential)),
        ("signed: 1M flows shuffled", signed(1000, shuffled)),
    ];
    machines.extend(stacks());
    machines
}

/// One million flows, shuffled and signed, in other stacks of headers.
fn stacks() -> Vec<(&'static str, Machine)> {
    let ethernet = || {
        Layer::Ethernet(ethernet::Repr {
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            ethertype: 0,
        })
    };
    let vlan = || {
        Layer::Vlan(vlan::Repr {
            priority: 0,
            drop_eligible: false,
            id: 1,
            ethertype: 0,
        })
    };
    let v4 = || Layer::Ipv4(ipv4::Repr::default());
    let v6 = || Layer::Ipv6(ipv6::Repr::default());
    let udp = |destination_port| {
        Layer::Udp(udp::Repr {
            source_port: 9,
            destination_port,
            payload_len: 0,
        })
    };
    let tcp = || Layer::Tcp(tcp::Repr::default());
    let vxlan = || Layer::Vxlan(vxlan::Repr { vni: 1 });
    let payload = || Layer::Payload(vec![0; 18]);
    [
        (
            "stack: 802.1Q",
            vec![ethernet(), vlan(), v4(), udp(9), payload()],
        ),
        ("stack: IPv6", vec![ethernet(), v6(), udp(9), payload()]),
        ("stack: IPv4, TCP", vec![ethernet(), v4(), tcp(), payload()]),
        (
            "stack: VXLAN, both ends",
            vec![
                ethernet(),
                v4(),
                udp(4789),
                vxlan(),
                ethernet(),
                v4(),
                udp(9),
                payload(),
            ],
        ),
    ]
    .into_iter()
    .map(|(name, layers)| (name, stacked(&layers)))
    .collect()
}

/// Changes the addresses of all IP headers, signs the payload, and corrects every checksum.
fn stacked(layers: &[Layer]) -> Machine {
    let frame = build(layers, Size::Layers).expect("layers that go together");
    let mut instructions = vec![];
    let mut fixes = vec![];
    for (number, layer) in layers.iter().enumerate() {
        let at = frame.offsets[number];
        let (from, to, len) = match layer {
            Layer::Ipv4(_) => (at + 12, at + 16, 20),
            Layer::Ipv6(_) => (at + 20, at + 36, 40),
            _ => continue,
        };
        instructions.extend([write("v.from", from as u16), write("v.to", to as u16)]);
        let transport = match layers[number + 1] {
            Layer::Tcp(_) => Transport::Tcp,
            _ => Transport::Udp,
        };
        // from the inside to the outside, because checksums cover checksums
        fixes.insert(
            0,
            Instruction::FixTransport {
                l2_len: at as u16,
                l3_len: len,
                transport,
            },
        );
    }
    instructions.push(Instruction::Signature {
        offset: (frame.bytes.len() - fwdlab_packet::signature::LEN) as u16,
    });
    instructions.extend(fixes);
    let set = Source::Grid {
        dimensions: vec![
            dimension("to", Width::Four, 0xc613_0001, 1000),
            dimension("from", Width::Four, 0xc612_0001, 1000),
        ],
        visits: Visits::Shuffled { seed: 1 },
    };
    let program = Program {
        variables: vec![variable(set)],
        instructions,
        cache: None,
    };
    at_work(&program, &frame.bytes)
}

fn variable(source: Source) -> Variable {
    Variable {
        name: "v".to_owned(),
        width: Width::Four,
        source,
        split: true,
        next: None,
    }
}

fn dimension(name: &str, width: Width, first: u64, count: u64) -> Dimension {
    Dimension {
        name: name.to_owned(),
        width,
        values: Values::Range {
            first,
            step: 1,
            count,
        },
    }
}

/// Fills the next slot of a ring; boxed, because each kind of frame has its own type.
type Fill = Box<dyn FnMut(&mut Ring, u32)>;

fn modifiers(c: &mut Criterion) {
    let mut group = c.benchmark_group("modifiers");
    for (name, mut machine) in machines() {
        group.bench_function(name, |b| {
            let mut ring = ring(1024);
            b.iter(|| ring.slot(|slot, signature| _ = machine.patch(slot, signature)));
        });
    }
    group.finish();
}

fn ring(slots: usize) -> Ring {
    let template = FrameTemplate::new(&spec()).expect("a size with room for the signature");
    let flows = FlowSet::default_v4(2000).expect("a default set");
    Ring::new(slots, &template, flows.walk(Order::Sequential))
}

/// Measures the median ns per frame of every kind, in turns, and the ratios to a cached frame.
fn ratios() {
    const FRAMES: u32 = 20_000;
    const TURNS: usize = 41;
    let template = FrameTemplate::new(&spec()).expect("a size with room for the signature");
    for slots in RINGS {
        let (written, patched) = (template.clone(), template.clone());
        let mut kinds: Vec<(&str, Fill)> = vec![
            (
                "cached",
                Box::new(|ring, frames| (0..frames).for_each(|_| ring.slot(|_, _| ()))),
            ),
            (
                "template, written",
                Box::new(move |ring, frames| {
                    (0..frames).for_each(|_| ring.next(|slot, f, s| written.write(slot, f, s)));
                }),
            ),
            (
                "template, patched",
                Box::new(move |ring, frames| {
                    (0..frames).for_each(|_| ring.next(|slot, f, s| patched.patch(slot, f, s)));
                }),
            ),
        ];
        for (name, mut machine) in machines() {
            if name == "signed: 1M flows shuffled" {
                let mut machine = machine.clone();
                kinds.push((
                    "the next, with its template",
                    Box::new(move |ring, frames| {
                        (0..frames).for_each(|_| ring.slot(|slot, s| _ = machine.render(slot, s)));
                    }),
                ));
            }
            kinds.push((
                name,
                Box::new(move |ring, frames| {
                    (0..frames).for_each(|_| ring.slot(|slot, s| _ = machine.patch(slot, s)));
                }),
            ));
        }
        let mut rings: Vec<Ring> = kinds.iter().map(|_| ring(slots)).collect();
        let mut turns: Vec<Vec<f64>> = vec![Vec::new(); kinds.len()];
        for _ in 0..TURNS {
            for (((_, fill), ring), times) in kinds.iter_mut().zip(&mut rings).zip(&mut turns) {
                let start = WallTime.start();
                fill(ring, FRAMES);
                times.push(WallTime.end(start).as_nanos() as f64 / f64::from(FRAMES));
            }
        }
        let mut median = turns.iter_mut().map(|times| {
            times.sort_by(f64::total_cmp);
            times[TURNS / 2]
        });
        let cached = median.next().expect("the first kind");
        println!("\nring of {slots:5} slots            ns per frame    x cached");
        println!("{:30} {cached:14.2} {:11.2}", "cached", 1.0);
        for ((name, _), ns) in kinds.iter().skip(1).zip(median) {
            println!("{name:30} {ns:14.2} {:11.2}", ns / cached);
        }
    }
}

criterion_group!(benches, frame, modifiers);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    // `cargo test` runs benchmarks once, to check that they work.
    if std::env::args().any(|argument| argument == "--bench") {
        ratios();
    }
}
