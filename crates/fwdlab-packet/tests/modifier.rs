//! Programs compared with a straightforward model of trex-stl-rpc.md and with its check values;
//! checksums compared with etherparse.

#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use fwdlab_packet::header::{ethernet, icmpv6, ipv4, ipv6, tcp, udp};
use fwdlab_packet::modifier::{
    Dimension, Direction, Endian, Instruction, Lists, Machine, ModifierError, Program, Room,
    Source, Transport, Values, Variable, Width,
};
use fwdlab_packet::permutation::Visits;
use fwdlab_packet::stack::{Layer, Size, build};
use fwdlab_packet::{MacAddr, Signature};
use proptest::prelude::*;
use std::collections::HashMap;

fn variable(name: &str, width: Width, source: Source) -> Variable {
    Variable {
        name: name.to_owned(),
        width,
        source,
        split: true,
        next: None,
    }
}

fn counter(direction: Direction, initial: u64, min: u64, max: u64, step: u64) -> Source {
    Source::Counter {
        direction,
        initial,
        min,
        max,
        step,
    }
}

fn up(initial: u64, min: u64, max: u64, step: u64) -> Source {
    counter(Direction::Increment, initial, min, max, step)
}

fn write(variable: &str, offset: u16) -> Instruction {
    Instruction::Write {
        variable: variable.to_owned(),
        offset,
        add: 0,
        endian: Endian::Big,
    }
}

fn program(variables: Vec<Variable>, instructions: Vec<Instruction>) -> Program {
    Program {
        variables,
        instructions,
        cache: None,
    }
}

/// Returns the next frame.
fn next(machine: &mut Machine) -> Vec<u8> {
    let mut frame = vec![0; machine.buffer_len()];
    let len = machine.render(&mut frame, &Signature::default());
    frame.truncate(len);
    frame
}

/// Alternating buffers, each longer than a frame, and what was written into them.
struct Ring<'a> {
    buffers: &'a mut [(Vec<u8>, bool)],
    frames: Vec<Vec<u8>>,
    room: usize,
}

impl Room for Ring<'_> {
    fn next(&mut self) -> Option<(&mut [u8], bool)> {
        let turn = self.frames.len() % self.buffers.len();
        let (buffer, held) = &mut self.buffers[turn];
        (self.frames.len() < self.room).then_some((buffer, *held))
    }

    fn filled(&mut self, bytes: usize) {
        let turn = self.frames.len() % self.buffers.len();
        let (buffer, held) = &mut self.buffers[turn];
        *held = true;
        self.frames.push(buffer[..bytes].to_vec());
    }
}

/// Returns the big-endian number in the first bytes of consecutive frames.
fn values(machine: &mut Machine, width: Width, count: usize) -> Vec<u64> {
    let value = |frame: Vec<u8>| {
        let bytes = &frame[..width.bytes()];
        bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    };
    (0..count).map(|_| value(next(machine))).collect()
}

/// The values of one variable, in a frame of 64 zeros.
fn sequence(source: Source, width: Width, count: usize) -> Vec<u64> {
    let program = program(vec![variable("x", width, source)], vec![write("x", 0)]);
    values(&mut program.machine(&[0; 64]).unwrap(), width, count)
}

#[test]
fn counters_as_described() {
    assert_eq!(sequence(up(3, 1, 4, 1), Width::One, 6), [3, 4, 1, 2, 3, 4]);
    // 10 values, step 3: the range is widened to 12, and 11 is the end.
    assert_eq!(sequence(up(0, 0, 9, 3), Width::Two, 6), [0, 3, 6, 9, 0, 3]);
    assert_eq!(sequence(up(1, 0, 9, 3), Width::Two, 6), [1, 4, 7, 10, 1, 4]);
    let down = |initial, min, max, step| counter(Direction::Decrement, initial, min, max, step);
    assert_eq!(sequence(down(2, 1, 4, 1), Width::One, 5), [2, 1, 4, 3, 2]);
    // 9 values, step 2: lowered to 1.
    assert_eq!(
        sequence(down(10, 2, 10, 2), Width::Four, 6),
        [10, 8, 6, 4, 2, 10]
    );
    let all = u64::MAX;
    assert_eq!(sequence(up(all, 0, all, 1), Width::Eight, 3), [all, 0, 1]);
    let list = |direction, step| Source::List {
        direction,
        values: vec![5, 9, 7],
        step,
    };
    assert_eq!(
        sequence(list(Direction::Increment, 1), Width::One, 4),
        [5, 9, 7, 5]
    );
    assert_eq!(
        sequence(list(Direction::Decrement, 1), Width::One, 4),
        [7, 9, 5, 7]
    );
    assert_eq!(
        sequence(list(Direction::Increment, 2), Width::One, 4),
        [5, 7, 9, 5]
    );
}

#[test]
fn repeatable_random_is_trex_bit_for_bit() {
    // Check values of trex-stl-rpc.md §6.
    let limit = |seed, min, max, limit| Source::RandomLimit {
        min,
        max,
        limit,
        seed,
    };
    let found = sequence(limit(0, 1024, 65_535, 100), Width::Two, 3);
    assert_eq!(found, [1062, 8743, 22_262]);
    let (min, max) = (0x1000_0001, 0x1000_0001 + 254);
    let found = sequence(limit(4661, min, max, 100), Width::Four, 5);
    assert_eq!(found, [158, 79, 56, 23, 18].map(|offset| min + offset));
    // After `limit` values they repeat.
    let found = sequence(limit(7, 0, 255, 4), Width::One, 12);
    assert_eq!(found[..4], found[4..8]);
    assert_eq!(found[..4], found[8..]);
    // Eight bytes: the first draw is high. The draws of seed 0 are 38, 7719, 21238, 2437
    // (Microsoft's rand).
    let wide = sequence(limit(0, 0, u64::MAX, 9), Width::Eight, 1);
    assert_eq!(wide, [(38 << 16 | 7719) << 32 | (21_238 << 16 | 2437)]);
}

fn tuple(limit: u64) -> Source {
    Source::Tuple {
        ip_min: 0x1000_0001,
        ip_max: 0x1000_0003,
        port_min: 1025,
        port_max: 1026,
        limit,
    }
}

/// Returns the last bytes of address and port, for this number of frames of thread `thread`.
fn pairs(limit: u64, thread: usize, threads: u32, count: usize) -> Vec<(u64, u64)> {
    let program = program(
        vec![variable("c", Width::Four, tuple(limit))],
        vec![write("c.port", 0), write("c.ip", 4)],
    );
    let machine = &mut program.split(&[0; 64], threads).unwrap()[thread];
    (0..count)
        .map(|_| {
            let frame = next(machine);
            assert_eq!(frame[4..7], [0x10, 0, 0]);
            (
                frame[7].into(),
                u64::from(frame[0]) << 8 | u64::from(frame[1]),
            )
        })
        .collect()
}

#[test]
fn tuples_as_described() {
    let all = [
        (1, 1025),
        (2, 1025),
        (3, 1025),
        (1, 1026),
        (2, 1026),
        (3, 1026),
    ];
    assert_eq!(pairs(0, 0, 1, 12), [all, all].concat());
    assert_eq!(pairs(4, 0, 1, 8), [&all[..4], &all[..4]].concat());
    // A limit of 3 over two threads: 2 and 1.
    assert_eq!(pairs(3, 0, 2, 4), [all[0], all[2], all[0], all[2]]);
    assert_eq!(pairs(3, 1, 2, 2), [all[1], all[1]]);
    let few = program(vec![variable("c", Width::Four, tuple(2))], vec![]);
    let error = few.split(&[0; 64], 3).unwrap_err();
    assert!(matches!(
        error,
        ModifierError::TooManyThreads {
            limit: 2,
            threads: 3,
            ..
        }
    ));
}

#[test]
fn chained_variables_are_digits() {
    let mut ones = variable("ones", Width::One, up(1, 0, 2, 1));
    ones.next = Some("threes".to_owned());
    let mut threes = variable("threes", Width::One, up(0, 0, 1, 1));
    threes.split = false;
    let chained = program(
        vec![ones, threes],
        vec![write("threes", 0), write("ones", 1)],
    );
    let digits = [1, 2, 0x100, 0x101, 0x102, 0, 1, 2];
    let mut machine = chained.machine(&[0; 64]).unwrap();
    assert_eq!(machine.period(), Some(6));
    assert_eq!(values(&mut machine, Width::Two, 8), digits);
    // Two threads take turns.
    let mut threads = chained.split(&[0; 64], 2).unwrap();
    assert_eq!(values(&mut threads[0], Width::Two, 4), [1, 0x100, 0x102, 1]);
    assert_eq!(values(&mut threads[1], Width::Two, 4), [2, 0x101, 0, 2]);
    assert_eq!(threads[0].period(), Some(3));
}

#[test]
fn a_variable_behind_a_repeatable_random_moves_at_its_restart() {
    let source = Source::RandomLimit {
        min: 0,
        max: 255,
        limit: 3,
        seed: 1,
    };
    let mut random = variable("r", Width::One, source);
    random.next = Some("n".to_owned());
    let mut n = variable("n", Width::One, up(0, 0, 9, 1));
    n.split = false;
    let program = program(vec![random, n], vec![write("n", 0)]);
    let mut machine = program.machine(&[0; 64]).unwrap();
    assert_eq!(machine.period(), Some(30));
    assert_eq!(
        values(&mut machine, Width::One, 8),
        [0, 0, 0, 1, 1, 1, 2, 2]
    );
}

#[test]
fn masked_writes_as_described() {
    let mask = |mask, shift, add, endian| Instruction::WriteMask {
        variable: "x".to_owned(),
        offset: 0,
        width: Width::Two,
        mask,
        shift,
        add,
        endian,
    };
    let written = |instruction| {
        let x = variable("x", Width::Two, up(0x0123, 0, 0xffff, 1));
        let program = program(vec![x], vec![instruction]);
        let frame = next(&mut program.machine(&[0xaa; 64]).unwrap());
        assert_eq!(frame[2..], [0xaa; 62]);
        [frame[0], frame[1]]
    };
    // The position of an MPLS label or a VLAN: 0x124 << 4 = 0x1240, of which the mask keeps 0x0240.
    assert_eq!(written(mask(0x0ff0, 4, 1, Endian::Big)), [0xa2, 0x4a]);
    assert_eq!(written(mask(0x0ff0, 4, 1, Endian::Little)), [0x4a, 0xa2]);
    assert_eq!(written(mask(0x00ff, -4, 0, Endian::Big)), [0xaa, 0x12]);
    assert_eq!(written(mask(0xffff, 0, -0x124, Endian::Big)), [0xff, 0xff]);
}

#[test]
fn a_wide_variable_fills_narrow_fields_side_by_side() {
    let low_byte = |offset| Instruction::WriteMask {
        variable: "x".to_owned(),
        offset,
        width: Width::One,
        mask: 0xff,
        shift: 0,
        add: 0,
        endian: Endian::Big,
    };
    let x = variable("x", Width::Four, up(0x0102_03fe, 0, u32::MAX.into(), 1));
    let bytes = [20, 21, 22, 23, 26].map(low_byte).to_vec();
    let (frame, _) = template(4, udp::PROTOCOL, 18);
    let instructions = [bytes, vec![Instruction::FixIpv4 { offset: 14 }]].concat();
    let mut machine = program(vec![x], instructions).machine(&frame).unwrap();
    for low in [0xfe, 0xff, 0x00, 0x01] {
        let mut expected = frame.clone();
        expected[20..24].fill(low);
        expected[26] = low;
        ipv4::Packet::new(&mut expected[14..])
            .unwrap()
            .fill_checksum();
        assert_eq!(next(&mut machine)[..expected.len()], expected[..]);
    }
}

#[test]
fn trim_is_clamped_and_cache_repeats() {
    let length = variable("length", Width::Two, up(58, 58, 103, 1));
    let trim = Instruction::Trim {
        variable: "length".to_owned(),
    };
    let mut program = program(vec![length], vec![trim, write("length", 0)]);
    let mut machine = program.machine(&[0; 100]).unwrap();
    let lengths: Vec<usize> = (0..46).map(|_| next(&mut machine).len()).collect();
    assert_eq!(lengths[..4], [60, 60, 60, 61]);
    assert_eq!(lengths[41..], [99, 100, 100, 100, 100]);

    program.cache = Some(5);
    for (thread, machine) in program.split(&[0; 100], 2).unwrap().iter_mut().enumerate() {
        let share = 3 - thread;
        assert_eq!(machine.period(), Some(share as u64));
        let values = values(machine, Width::Two, 9);
        assert!(
            values
                .iter()
                .enumerate()
                .all(|(n, v)| *v == (58 + thread + n % share * 2) as u64)
        );
    }
    program.cache = Some(1);
    assert!(
        program
            .split(&[0; 100], 3)
            .unwrap()
            .iter()
            .all(|m| m.period() == Some(1))
    );
}

#[test]
fn grids_visit_every_flow_equally_often() {
    let dimension = |name: &str, width, first, count| Dimension {
        name: name.to_owned(),
        width,
        values: Values::Range {
            first,
            step: 2,
            count,
        },
    };
    let orders = [
        Visits::Sequential,
        Visits::Shuffled { seed: 9 },
        Visits::Reshuffled { seed: 9 },
    ];
    for visits in orders {
        let grid = Source::Grid {
            dimensions: vec![
                dimension("a", Width::One, 10, 7),
                Dimension {
                    name: "b".to_owned(),
                    width: Width::One,
                    values: Values::List(vec![3, 200, 0, 7, 100]),
                },
            ],
            visits,
        };
        let grid = variable("flow", Width::One, grid);
        let program = program(vec![grid], vec![write("flow.a", 1), write("flow.b", 0)]);
        for threads in [1, 2, 3] {
            let mut times: HashMap<u64, u32> = HashMap::new();
            for (thread, machine) in program
                .split(&[0; 64], threads)
                .unwrap()
                .iter_mut()
                .enumerate()
            {
                let frames = (35 * 4 - thread as u32).div_ceil(threads);
                for value in values(machine, Width::Two, frames as usize) {
                    *times.entry(value).or_default() += 1;
                }
            }
            assert!(
                times.len() == 35 && times.values().all(|n| *n == 4),
                "{visits:?} {threads}"
            );
        }
    }
    let first = sequence(up(0, 0, 1, 1), Width::One, 1);
    assert_eq!(first, [0]);
}

#[test]
fn programs_that_cannot_run_are_refused() {
    let error = |program: Program| program.machine(&[0; 60]).unwrap_err().to_string();
    let one = |source| error(program(vec![variable("x", Width::One, source)], vec![]));
    assert_eq!(
        one(up(0, 0, 256, 1)),
        "variable x: 256 does not fit 1 bytes (at most 255)"
    );
    assert_eq!(
        one(up(9, 0, 8, 1)),
        "variable x: the initial value 9 is not between 0 and 8"
    );
    assert_eq!(
        one(up(0, 9, 8, 1)),
        "variable x: the smallest value 9 is above the largest 8"
    );
    assert_eq!(
        one(up(0, 0, 8, 0)),
        "variable x: the step is 0; it must be at least 1"
    );
    assert!(one(up(0, 0, 255, 3)).contains("256 values are not a multiple of the step 3"));
    assert!(one(counter(Direction::Decrement, 5, 0, 7, 3)).contains("no room for 1 more"));

    let x = || variable("x", Width::Four, up(0, 0, 9, 1));
    let with = |instruction| error(program(vec![x()], vec![instruction]));
    assert_eq!(
        with(write("x", 57)),
        "instruction 0: bytes 57 to 61 are beyond the template's 60 (without FCS)"
    );
    assert_eq!(with(write("y", 0)), "there is no variable y");
    let trim = Instruction::Trim {
        variable: "x".to_owned(),
    };
    assert!(with(trim).contains("2 bytes"));
    assert!(with(Instruction::FixIpv4 { offset: 14 }).contains("no IPv4 header"));
    assert_eq!(
        error(program(vec![x(), x()], vec![])),
        "two variables are called x; each needs its own name"
    );

    let mut linked = x();
    linked.next = Some("y".to_owned());
    assert!(error(program(vec![linked.clone()], vec![])).contains("directly after it"));
    let y = variable("y", Width::One, up(0, 0, 9, 1));
    assert!(error(program(vec![linked, y], vec![])).contains("cannot be split"));
}

/// A frame with correct checksums.
fn template(version: u8, protocol: u8, payload: usize) -> (Vec<u8>, u16) {
    let ethernet = Layer::Ethernet(ethernet::Repr {
        destination: MacAddr([2; 6]),
        source: MacAddr([4; 6]),
        ethertype: 0,
    });
    let ip = match version {
        4 => Layer::Ipv4(ipv4::Repr {
            source: [16, 0, 0, 1].into(),
            destination: [48, 0, 0, 1].into(),
            ..ipv4::Repr::default()
        }),
        _ => Layer::Ipv6(ipv6::Repr::default()),
    };
    let transport = match protocol {
        17 => Layer::Udp(udp::Repr {
            source_port: 1025,
            destination_port: 12,
            payload_len: 0,
        }),
        6 => Layer::Tcp(tcp::Repr::default()),
        _ => Layer::Icmpv6(icmpv6::Repr::echo_request(1, 2)),
    };
    let payload = Layer::Payload((0..payload).map(|n| n as u8).collect());
    let frame = build(&[ethernet, ip, transport, payload], Size::Layers).unwrap();
    (frame.bytes, (frame.offsets[2] - frame.offsets[1]) as u16)
}

/// Returns true if etherparse finds every checksum of the frame correct.
fn is_right(frame: &[u8]) -> bool {
    use etherparse::{NetSlice, TransportSlice, checksum::Sum16BitWords};
    let sliced =
        etherparse::SlicedPacket::from_ethernet(frame).expect("a frame etherparse understands");
    let (sum, header_is_right) = match sliced.net.expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let sum = Sum16BitWords::new()
                .add_4bytes(header.source())
                .add_4bytes(header.destination());
            (
                sum,
                header.to_header().calc_header_checksum() == header.header_checksum(),
            )
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            (
                Sum16BitWords::new()
                    .add_16bytes(header.source())
                    .add_16bytes(header.destination()),
                true,
            )
        }
        NetSlice::Arp(_) => return false,
    };
    let (protocol, segment) = match sliced.transport.expect("a transport") {
        TransportSlice::Udp(udp) => (17, udp.slice().to_vec()),
        TransportSlice::Tcp(tcp) => (6, tcp.slice().to_vec()),
        TransportSlice::Icmpv6(icmp) => (58, icmp.slice().to_vec()),
        _ => return false,
    };
    let sum = sum
        .add_2bytes([0, protocol])
        .add_2bytes((segment.len() as u16).to_be_bytes());
    header_is_right && sum.add_slice(&segment).ones_complement() == 0
}

fn any_width() -> impl Strategy<Value = Width> {
    prop::sample::select(&[Width::One, Width::Two, Width::Four, Width::Eight][..])
}

fn any_endian() -> impl Strategy<Value = Endian> {
    prop::sample::select(&[Endian::Big, Endian::Little][..])
}

/// Writes of variables of every width at any offset of addresses, ports and payload.
fn any_writes(from: u16, to: u16) -> impl Strategy<Value = Vec<Instruction>> {
    let name = prop::sample::select(&["w1", "w2", "w4", "w8"][..]);
    let write = (name.clone(), from..to - 8, any::<i64>(), any_endian()).prop_map(
        |(name, offset, add, endian)| Instruction::Write {
            variable: name.to_owned(),
            offset,
            add,
            endian,
        },
    );
    let masked = (
        name,
        from..to - 8,
        any_width(),
        any::<u32>(),
        -31..=31_i8,
        any::<i64>(),
        any_endian(),
    )
        .prop_map(
            |(name, offset, width, mask, shift, add, endian)| Instruction::WriteMask {
                variable: name.to_owned(),
                offset,
                width: if width == Width::Eight {
                    Width::Four
                } else {
                    width
                },
                mask,
                shift,
                add,
                endian,
            },
        );
    proptest::collection::vec(prop_oneof![2 => write, 1 => masked], 0..5)
}

/// One variable of every width: random, ascending or descending in steps, or constant, depending on
/// the seed.
fn four_variables(seed: u64) -> Vec<Variable> {
    [
        ("w1", Width::One),
        ("w2", Width::Two),
        ("w4", Width::Four),
        ("w8", Width::Eight),
    ]
    .into_iter()
    .zip([1, 5, 25, 125])
    .map(|((name, width), digit)| {
        let (min, max) = (0, width.max());
        let in_steps = |direction| counter(direction, seed & max, min, max, 1 << (seed % 7));
        let source = match seed / digit % 5 {
            0 | 1 => Source::Random { min, max, seed },
            2 => in_steps(Direction::Increment),
            3 => in_steps(Direction::Decrement),
            _ => up(seed & max, seed & max, seed & max, 1),
        };
        variable(name, width, source)
    })
    .collect()
}

/// The model: executes instruction after instruction on a copy of the template, without checksums.
fn model(
    template: &[u8],
    instructions: &[Instruction],
    values: &HashMap<&str, (u64, usize)>,
) -> Vec<u8> {
    let mut frame = template.to_vec();
    for instruction in instructions {
        match instruction {
            Instruction::Write {
                variable,
                offset,
                add,
                endian,
            } => {
                let (value, width) = values[variable.as_str()];
                let value = (i128::from(value) + i128::from(*add)).rem_euclid(1 << (8 * width));
                for n in 0..width {
                    let place = if *endian == Endian::Big {
                        width - 1 - n
                    } else {
                        n
                    };
                    frame[usize::from(*offset) + n] = (value >> (8 * place)) as u8;
                }
            }
            Instruction::WriteMask {
                variable,
                offset,
                width,
                mask,
                shift,
                add,
                endian,
            } => {
                let (value, _) = values[variable.as_str()];
                let value = (i128::from(value) + i128::from(*add)).rem_euclid(1 << 32);
                let value = match *shift < 0 {
                    true => value >> -shift,
                    false => value << shift,
                };
                for bit in 0..8 * width.bytes() {
                    let byte = match endian {
                        Endian::Big => width.bytes() - 1 - bit / 8,
                        Endian::Little => bit / 8,
                    };
                    if mask >> bit & 1 == 1 {
                        let byte = &mut frame[usize::from(*offset) + byte];
                        *byte = *byte & !(1 << (bit % 8)) | ((value >> bit & 1) as u8) << (bit % 8);
                    }
                }
            }
            _ => {}
        }
    }
    frame
}

proptest! {
    // each case renders 1500 frames
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any step, from any frame: the same bytes, also of random values, lists, linked variables and
    /// sets, patched or not.
    #[test]
    fn every_nth_frame_is_that_of_a_single_thread(
        writes in any_writes(34, 80), seed: u64, first in 0..40_u64, step in 1..20_u64, shuffled: bool, lists: bool,
    ) {
        let mut variables = four_variables(seed);
        let linked = |name: &str, count: u64, next: Option<&str>| Variable {
            split: next.is_some(),
            next: next.map(str::to_owned),
            ..variable(name, Width::One, up(seed % count, 0, count - 1, 1))
        };
        let dimension = |name: &str, count| Dimension {
            name: name.into(),
            width: Width::Four,
            values: Values::Range { first: seed % 7, step: 3, count },
        };
        let draws = Source::RandomLimit { min: 3, max: 200, limit: 5 + seed % 9, seed: seed as u32 };
        let list = Source::List { direction: Direction::Decrement, values: (0..1 + seed % 11).collect(), step: 1 };
        let grid = Source::Grid {
            dimensions: vec![dimension("a", 1 + seed % 40), dimension("b", 3 + seed % 5)],
            visits: if shuffled { Visits::Shuffled { seed } } else { Visits::Sequential },
        };
        let random_list = Source::RandomList { values: vec![1, 5, 9], seed };
        variables.extend([
            linked("d0", 2 + seed % 3, Some("d1")),
            linked("d1", 5, None),
            variable("draws", Width::One, draws),
            variable("list", Width::One, list),
            variable("drawn", Width::One, random_list),
            variable("flow", Width::One, grid),
        ]);
        let mut instructions = writes;
        instructions.extend([
            write("d0", 80), write("d1", 81), write("draws", 82), write("list", 83), write("drawn", 84),
            write("flow.a", 86), write("flow.b", 90),
            Instruction::Signature { offset: 100 },
            Instruction::FixTransport { l2_len: 14, l3_len: 20, transport: Transport::Udp },
        ]);
        let mut template = vec![0x55; 130];
        template[12..14].copy_from_slice(&[8, 0]);
        template[14..34].copy_from_slice(&[
            0x45, 0, 0, 116, 0, 0, 0, 0, 64, 17, 0, 0, 16, 0, 0, 1, 48, 0, 0, 1,
        ]);
        let program = program(variables, instructions);
        prop_assert!(program.skips());
        let mut whole = program.machine(&template).unwrap();
        let mut own = program.every(&template, first, step).unwrap();
        if lists {
            let mut lists = Lists::default();
            whole.use_lists(&mut lists);
            own.use_lists(&mut lists);
        }
        let (mut frame, mut patched) = (vec![0; 130], vec![0; 130]);
        let mut is_first = true;
        for sequence in 0..first + 150 * step {
            let signature = Signature { sequence, ..Signature::default() };
            whole.render(&mut frame, &signature);
            if sequence >= first && (sequence - first).is_multiple_of(step) {
                match std::mem::take(&mut is_first) {
                    true => own.render(&mut patched, &signature),
                    false => own.patch(&mut patched, &signature),
                };
                prop_assert!(frame == patched, "frame {sequence}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn counters_are_the_model(
        width in any_width(),
        bounds in any::<[u64; 3]>(),
        step in prop_oneof![1..20_u64, any::<u64>()],
        small: bool,
        decrement: bool,
        threads in 1..5_u32,
    ) {
        let mut bounds = bounds.map(|b| b & width.max() & if small { 15 } else { u64::MAX });
        bounds.sort_unstable();
        let [min, initial, max] = bounds;
        let step = step.max(1);
        let direction = if decrement { Direction::Decrement } else { Direction::Increment };
        let source = counter(direction, initial, min, max, step);
        let program = program(vec![variable("x", width, source)], vec![write("x", 0)]);

        // Widened as described, then in single steps.
        let (mut low, mut high) = (i128::from(min), i128::from(max));
        let more = (i128::from(step) - (high - low + 1) % i128::from(step)) % i128::from(step);
        if decrement { low -= more } else { high += more }
        let machines = program.split(&[0; 64], threads);
        if low < 0 || high > i128::from(width.max()) {
            let refused = matches!(machines, Err(ModifierError::Variable { .. }));
            prop_assert!(refused);
            return Ok(());
        }
        let mut value = i128::from(initial);
        let mut expected = Vec::new();
        for _ in 0..60 * threads {
            expected.push(value as u64);
            value += if decrement { -i128::from(step) } else { i128::from(step) };
            if value > high {
                value = low + (value - high - 1);
            } else if value < low {
                value = high - (low - value - 1);
            }
        }
        let mut machines = machines.unwrap();
        for (thread, machine) in machines.iter_mut().enumerate() {
            let own: Vec<u64> = expected.iter().copied().skip(thread).step_by(threads as usize).collect();
            let period = machine.period();
            prop_assert_eq!(values(machine, width, own.len()), own);
            if let Some(period) = period.filter(|period| *period < 60) {
                let mut again = program.split(&[0; 64], threads).unwrap().swap_remove(thread);
                let round = values(&mut again, width, 60);
                prop_assert!(round.iter().zip(&round[period as usize..]).all(|(a, b)| a == b));
            }
        }
    }

    #[test]
    fn chains_over_threads_are_one_chain(
        ranges in proptest::collection::vec((1..6_u64, 0..6_u64), 1..4),
        threads in 1..8_u32,
    ) {
        let last = ranges.len() - 1;
        let variables = ranges.iter().enumerate().map(|(n, (count, initial))| Variable {
            name: format!("d{n}"),
            width: Width::One,
            source: up(initial % count, 0, count - 1, 1),
            split: n == 0,
            next: (n < last).then(|| format!("d{}", n + 1)),
        });
        let writes = (0..=last).map(|n| write(&format!("d{n}"), n as u16));
        let program = program(variables.collect(), writes.collect());
        // Digits of a number that counts up from the initial digits.
        let start: u64 = ranges.iter().rev().fold(0, |n, (count, initial)| n * count + initial % count);
        let digits = |frame: u64| -> Vec<u8> {
            let mut rest = start + frame;
            ranges.iter().map(|(count, _)| {
                let digit = rest % count;
                rest /= count;
                digit as u8
            }).collect()
        };
        for (thread, machine) in program.split(&[0; 64], threads).unwrap().iter_mut().enumerate() {
            for n in 0..100 {
                let frame = n * u64::from(threads) + thread as u64;
                prop_assert_eq!(&next(machine)[..=last], &digits(frame)[..]);
            }
            let period = machine.period().unwrap();
            let mut again = program.split(&[0; 64], threads).unwrap().swap_remove(thread);
            let first = next(&mut again);
            for _ in 1..period {
                next(&mut again);
            }
            prop_assert_eq!(next(&mut again), first);
        }
    }

    #[test]
    fn tuples_over_threads_are_one_tuple(
        ips in 1..6_u32, ports in 1..6_u16, limit in 0..40_u64, threads in 1..8_u32,
    ) {
        let source = Source::Tuple { ip_min: 7, ip_max: 6 + ips, port_min: 9, port_max: 8 + ports, limit };
        let program = program(vec![variable("c", Width::Four, source)], vec![write("c.ip", 0), write("c.port", 4)]);
        let machines = program.split(&[0; 64], threads);
        if limit > 0 && limit < u64::from(threads) {
            prop_assert!(machines.is_err());
            return Ok(());
        }
        for (thread, machine) in machines.unwrap().iter_mut().enumerate() {
            let share = (thread as u64..limit.max(1)).step_by(threads as usize).count() as u64;
            for n in 0..100_u64 {
                let n = if limit > 0 { n % share } else { n };
                let frame = n * u64::from(threads) + thread as u64;
                let ip = 7 + (frame % u64::from(ips)) as u32;
                let port = 9 + (frame / u64::from(ips) % u64::from(ports)) as u16;
                let bytes = next(machine);
                prop_assert_eq!(&bytes[..4], &ip.to_be_bytes());
                prop_assert_eq!(&bytes[4..6], &port.to_be_bytes());
            }
        }
    }

    #[test]
    fn writes_are_the_model_and_checksums_always_right(
        version in prop::sample::select(&[4_u8, 6][..]),
        protocol in prop::sample::select(&[17_u8, 6, 58][..]),
        instructions in any_writes(0, 120),
        seed: u64,
        payload in 60..90_usize,
        signed: bool,
    ) {
        let protocol = if version == 4 && protocol == 58 { 17 } else { protocol };
        let (template, l3_len) = template(version, protocol, payload);
        // Everything except the fields that determine the position of headers: EtherType, version,
        // lengths, protocols, data offset. To etherparse, UDP's length is one of them.
        let l4 = 14 + usize::from(l3_len);
        let mut forbidden: Vec<usize> = vec![12, 13, 14];
        forbidden.extend(match version {
            4 => [16, 17, 20, 21, 23],
            _ => [18, 19, 20, 20, 20],
        });
        forbidden.extend(match protocol {
            17 => vec![l4 + 4, l4 + 5],
            6 => vec![l4 + 12],
            _ => vec![l4],
        });
        let instructions: Vec<Instruction> = instructions.into_iter().filter(|instruction| {
            let offset = usize::from(match instruction {
                Instruction::Write { offset, .. } | Instruction::WriteMask { offset, .. } => *offset,
                _ => 0,
            });
            offset + 8 <= template.len() && !forbidden.iter().any(|at| (offset..offset + 8).contains(at))
        }).collect();
        let mut with_fix = instructions.clone();
        if signed {
            with_fix.push(Instruction::Signature { offset: template.len() as u16 - 18 });
        }
        with_fix.push(match protocol {
            58 => Instruction::FixIcmpv6 { l2_len: 14, l3_len },
            17 => Instruction::FixTransport { l2_len: 14, l3_len, transport: Transport::Udp },
            _ => Instruction::FixTransport { l2_len: 14, l3_len, transport: Transport::Tcp },
        });
        let program = program(four_variables(seed), with_fix);
        let mut probe = program_of_values(&program).machine(&[0; 64]).unwrap();
        let mut machine = program.machine(&template).unwrap();
        let mut patching = program.machine(&template).unwrap();
        let (mut frame, mut patched) = (vec![0; template.len()], template.clone());
        for n in 0..40 {
            let signature = Signature { nonce: 3, stream: 4, sequence: n, timestamp_ns: n << 40 | seed };
            machine.render(&mut frame, &signature);
            patching.patch(&mut patched, &signature);
            prop_assert_eq!(&frame, &patched);
            prop_assert!(is_right(&frame), "frame {}", n);

            let bytes = next(&mut probe);
            let value = |at: usize, width: usize| {
                (bytes[at..at + width].iter().fold(0, |v, b| v << 8 | u64::from(*b)), width)
            };
            let values = HashMap::from([
                ("w1", value(0, 1)), ("w2", value(8, 2)), ("w4", value(16, 4)), ("w8", value(24, 8)),
            ]);
            let mut expected = model(&template, &instructions, &values);
            if signed {
                let at = expected.len() - 18;
                signature.write(&mut expected[at..]);
            }
            // The checksums are already correct; the model ignores their position.
            let mut sums = match protocol { 17 => vec![l4 + 6], 6 => vec![l4 + 16], _ => vec![l4 + 2] };
            if version == 4 {
                sums.push(24);
            }
            for at in sums {
                expected[at..at + 2].copy_from_slice(&frame[at..at + 2]);
            }
            prop_assert_eq!(&frame, &expected);
        }
    }

    #[test]
    fn a_checksum_covers_the_bytes_at_its_computation(seed: u64, before: bool) {
        // A write after the fix: as in TRex, the checksum is that of the template.
        let (template, l3_len) = template(4, 17, 40);
        let fix = Instruction::FixTransport { l2_len: 14, l3_len, transport: Transport::Udp };
        let write = write("w4", 26);
        let order = if before { vec![write, fix] } else { vec![fix, write] };
        let program = program(four_variables(seed), order);
        let mut machine = program.machine(&template).unwrap();
        let mut frame = template.clone();
        for _ in 0..5 {
            machine.patch(&mut frame, &Signature::default());
            // one address in 65,535 has the same sum, and then every checksum is right
            let adds_up_to = |bytes: &[u8]| {
                let word = u32::from_be_bytes(bytes[26..30].try_into().unwrap());
                ((word >> 16) + (word & 0xffff)) % 0xffff
            };
            let same = adds_up_to(&frame) == adds_up_to(&template);
            prop_assert_eq!(is_right(&frame), before || same);
            prop_assert_eq!(frame[24..26] == template[24..26], !before || same);
        }
    }

    #[test]
    fn patching_is_rendering_even_when_written_after_a_checksum(seed: u64, at in 20..60_u16, across in 30..34_u16) {
        // The first write crosses a header boundary, so that the checksum is computed in full.
        let (template, l3_len) = template(4, 17, 40);
        let fix = Instruction::FixTransport { l2_len: 14, l3_len, transport: Transport::Udp };
        let order = vec![write("w4", across), fix, write("w4", at)];
        let program = program(four_variables(seed), order);
        let mut rendering = program.machine(&template).unwrap();
        let mut patching = rendering.clone();
        let (mut rendered, mut patched) = (template.clone(), template.clone());
        for _ in 0..5 {
            rendering.render(&mut rendered, &Signature::default());
            patching.patch(&mut patched, &Signature::default());
            prop_assert_eq!(&rendered, &patched);
        }
    }

    #[test]
    fn filling_is_rendering_one_after_another(
        instructions in any_writes(24, 120),
        seed: u64,
        fixes in 0..3_usize,
        signed: bool,
        start in prop_oneof![0..1_u64 << 48, (1_u64 << 32) - 50..1 << 32, (1_u64 << 48) - 50..1 << 48],
        cache in prop::option::of(1..100_u32),
        batches in prop::collection::vec((0..80_u64, 0..80_usize), 1..8),
    ) {
        let (template, l3_len) = template(4, 17, 100);
        let mut instructions: Vec<Instruction> = instructions.into_iter().filter(|instruction| match instruction {
            Instruction::Write { offset, .. } | Instruction::WriteMask { offset, .. } => usize::from(*offset) + 8 <= template.len(),
            _ => true,
        }).collect();
        if signed {
            instructions.insert(0, Instruction::Signature { offset: template.len() as u16 - 18 });
        }
        // no fix, before the writes, or after them
        let fix = Instruction::FixTransport { l2_len: 14, l3_len, transport: Transport::Udp };
        match fixes {
            1 => instructions.insert(0, fix),
            2 => instructions.push(fix),
            _ => {}
        }
        let program = Program { cache, ..program(four_variables(seed), instructions) };
        let mut rendering = program.machine(&template).unwrap();
        let mut filling = rendering.clone();
        let mut signature = Signature { nonce: 3, stream: 4, sequence: start, timestamp_ns: seed };
        let mut buffers = vec![(vec![0xee; template.len() + 5], false); 3];
        for (frames, room) in batches {
            let mut ring = Ring { buffers: &mut buffers, frames: vec![], room };
            let begin = signature.sequence;
            let filled = filling.fill(frames, &mut signature, &mut ring);
            prop_assert_eq!(filled, frames.min(room as u64));
            prop_assert_eq!(signature.sequence, begin + filled);
            prop_assert_eq!(ring.frames.len() as u64, filled);
            for (sequence, filled) in (begin..).zip(&ring.frames) {
                let mut rendered = vec![0; template.len()];
                rendering.render(&mut rendered, &Signature { sequence, ..signature });
                prop_assert_eq!(filled, &rendered);
            }
        }
    }

    #[test]
    fn a_written_ip_length_limits_the_checksum(seed: u64, version in prop::sample::select(&[4_u8, 6][..])) {
        // IP and UDP end before the frame does: the rest is padding that contains numbers.
        let (template, l3_len) = template(version, 17, 100);
        let length = variable("length", Width::Two, Source::Random { min: 70, max: template.len() as u64, seed });
        let (ip_at, ip_add) = if version == 4 { (16, -14) } else { (18, -54) };
        let of = |offset, add| Instruction::Write {
            variable: "length".to_owned(), offset, add, endian: Endian::Big,
        };
        let instructions = vec![
            of(ip_at, ip_add),
            of(14 + l3_len + 4, -14 - i64::from(l3_len)),
            Instruction::FixTransport { l2_len: 14, l3_len, transport: Transport::Udp },
        ];
        let mut machine = program(vec![length], instructions).machine(&template).unwrap();
        let mut buffer = template.clone();
        for _ in 0..20 {
            machine.patch(&mut buffer, &Signature::default());
            prop_assert!(is_right(&buffer));
        }
    }

    #[test]
    fn trimmed_frames_with_lengths_written_are_right(seed: u64, version in prop::sample::select(&[4_u8, 6][..])) {
        let (template, l3_len) = template(version, 17, 200);
        let length = variable("length", Width::Two, Source::Random { min: 90, max: template.len() as u64, seed });
        let (ip_at, ip_add) = if version == 4 { (16, -14) } else { (18, -54) };
        let of = |offset, add| Instruction::Write {
            variable: "length".to_owned(), offset, add, endian: Endian::Big,
        };
        let instructions = vec![
            Instruction::Trim { variable: "length".to_owned() },
            of(ip_at, ip_add),
            of(14 + l3_len + 4, -14 - i64::from(l3_len)),
            Instruction::FixTransport { l2_len: 14, l3_len, transport: Transport::Udp },
        ];
        let mut machine = program(vec![length], instructions).machine(&template).unwrap();
        let mut buffer = template.clone();
        for _ in 0..20 {
            let len = machine.patch(&mut buffer, &Signature::default());
            prop_assert!(len >= 90 && is_right(&buffer[..len]));
        }
    }
}

/// The same variables, written at readable offsets: 0, 8, 16 and 24.
fn program_of_values(program: &Program) -> Program {
    let names = program
        .variables
        .iter()
        .map(|variable| variable.name.clone());
    let writes = names
        .zip([0, 8, 16, 24])
        .map(|(name, offset)| write(&name, offset));
    Program {
        variables: program.variables.clone(),
        instructions: writes.collect(),
        cache: None,
    }
}

/// ICMP and GRE have checksums of other kinds; tshark and etherparse check them in other tests,
/// plain RFC 1071 here.
#[test]
fn icmp_and_gre_are_put_right() {
    use fwdlab_packet::header::{gre, icmp};
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let below = [
        Layer::Ethernet(ethernet::Repr {
            destination: mac,
            source: mac,
            ethertype: 0,
        }),
        Layer::Ipv4(ipv4::Repr::default()),
    ];
    let gre = |checksum| gre::Repr {
        checksum,
        key: Some(7),
        sequence: None,
        ethertype: 0x88b5,
    };
    for (layer, transport, checked) in [
        (
            Layer::Icmp(icmp::Repr::echo_request(1, 2)),
            Transport::Icmp,
            true,
        ),
        (Layer::Gre(gre(true)), Transport::Gre, true),
        (Layer::Gre(gre(false)), Transport::Gre, false),
    ] {
        let mut layers = below.to_vec();
        layers.extend([layer, Layer::Payload(vec![0x5a; 50])]);
        let template = build(&layers, Size::Layers).unwrap().bytes;
        let length = variable("length", Width::Two, up(81, 81, 96, 1));
        let instructions = vec![
            Instruction::Trim {
                variable: "length".to_owned(),
            },
            Instruction::Write {
                variable: "length".to_owned(),
                offset: 16,
                add: -14,
                endian: Endian::Big,
            },
            Instruction::Signature { offset: 60 },
            Instruction::FixTransport {
                l2_len: 14,
                l3_len: 20,
                transport,
            },
        ];
        let mut machine = program(vec![length], instructions)
            .machine(&template)
            .unwrap();
        let mut buffer = template.clone();
        for sequence in 0..32 {
            let signature = Signature {
                sequence,
                ..Signature::default()
            };
            let len = machine.patch(&mut buffer, &signature);
            let sum = fwdlab_packet::checksum::sum(&buffer[34..len]);
            assert_eq!(sum == 0xffff, checked, "{transport:?} {len}");
            assert_eq!(fwdlab_packet::checksum::sum(&buffer[14..34]), 0xffff);
        }
    }
}

#[test]
fn trexs_latency_header_is_at_the_end_however_long_the_frame_is() {
    use fwdlab_packet::modifier::{TRAILER_LEN, trailer};
    let mut template = vec![0x55; 100];
    template[12..14].copy_from_slice(&[8, 0]);
    template[14..34].copy_from_slice(&[
        0x45, 0, 0, 86, 0xff, 0xff, 0, 0, 64, 17, 0, 0, 16, 0, 0, 1, 48, 0, 0, 1,
    ]);
    template[38..40].copy_from_slice(&66_u16.to_be_bytes());
    let program = Program {
        variables: vec![Variable {
            name: "length".into(),
            width: Width::Two,
            source: Source::List {
                direction: Direction::Increment,
                values: vec![100, 80, 64],
                step: 1,
            },
            split: true,
            next: None,
        }],
        instructions: vec![
            Instruction::Trim {
                variable: "length".into(),
            },
            Instruction::Trailer {
                group: 0x0102,
                generation: 3,
            },
        ],
        cache: None,
    };
    let mut machine = program.machine(&template).unwrap();
    assert_eq!(machine.period(), None, "numbers and times never repeat");
    let mut buffer = vec![0; 100];
    for (sequence, length) in [(0, 100), (1, 80), (2, 64), (3, 100)] {
        let signature = Signature {
            sequence,
            timestamp_ns: 0x0807_0605_0403_0201,
            ..Signature::default()
        };
        assert_eq!(machine.render(&mut buffer, &signature), length);
        assert_eq!(
            buffer[..length - TRAILER_LEN],
            template[..length - TRAILER_LEN]
        );
        let number = (0xffff_fffe_u32)
            .wrapping_add(sequence as u32)
            .to_le_bytes();
        let [a, b, c, d] = number;
        let requested = [0xab, 3, 2, 1, a, b, c, d, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(buffer[length - TRAILER_LEN..length], requested);
        assert_eq!(trailer(0x0102, 3, &signature), requested);
    }
    // a checksum that covers it is correct, whether the frame is rewritten or patched
    let mut whole = program.clone();
    whole.instructions.remove(0);
    whole.variables.clear();
    whole.instructions.push(Instruction::FixTransport {
        l2_len: 14,
        l3_len: 20,
        transport: Transport::Udp,
    });
    let mut machine = whole.machine(&template).unwrap();
    for sequence in 0..4 {
        let signature = Signature {
            sequence,
            timestamp_ns: 77 * sequence,
            ..Signature::default()
        };
        match sequence {
            0 => machine.render(&mut buffer, &signature),
            _ => machine.patch(&mut buffer, &signature),
        };
        let parsed = etherparse::SlicedPacket::from_ethernet(&buffer).unwrap();
        let Some(etherparse::TransportSlice::Udp(udp)) = parsed.transport else {
            panic!("UDP is expected");
        };
        let Some(etherparse::NetSlice::Ipv4(ip)) = parsed.net else {
            panic!("IPv4 is expected");
        };
        let right = udp
            .to_header()
            .calc_checksum_ipv4(&ip.header().to_header(), udp.payload());
        assert_eq!(udp.checksum(), right.unwrap());
    }
}
