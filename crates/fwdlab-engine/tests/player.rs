//! Playing traffic compared with a naive model with exact fractions, with the times in TRex's
//! documentation, and with frames rendered one by one.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashMap;

use fwdlab_engine::traffic::player::{Player, own_load_pps};
use fwdlab_engine::traffic::share::{self, Part, Share};
use fwdlab_engine::traffic::{Emission, Kind, Stream, Timing};
use fwdlab_engine::{Frames, SignaturePlace, TrafficFrames};
use fwdlab_packet::Signature;
use fwdlab_packet::modifier::{
    Dimension, Direction, Endian, Instruction, Program, Source, Values, Variable, Width,
};
use fwdlab_packet::permutation::Visits;
use proptest::prelude::*;

use crate::streams::stream;

use crate::streams;

const US: u64 = 1000;
const UNIT: u64 = 65536;
const NONCE: u16 = 77;

fn traffic(streams: Vec<Stream>) -> TrafficFrames {
    streams::traffic(streams, NONCE)
}

fn write(variable: &str, offset: u16) -> Instruction {
    Instruction::Write {
        variable: variable.into(),
        offset,
        add: 0,
        endian: Endian::Big,
    }
}

/// A frame whose bytes 20 to 24 count in a range, and whose first byte marks its kind.
fn counting(mark: u8, range: u64, len: usize, signed: bool) -> Kind {
    let mut template = vec![0xee; len];
    template[0] = mark;
    let counter = Variable {
        name: "n".into(),
        width: Width::Four,
        source: Source::Counter {
            direction: Direction::Increment,
            initial: 0,
            min: 0,
            max: range - 1,
            step: 1,
        },
        split: true,
        next: None,
    };
    let mut instructions = vec![write("n", 20)];
    if signed {
        instructions.push(Instruction::Signature { offset: 42 });
    }
    Kind {
        template,
        program: Program {
            variables: vec![counter],
            instructions,
            cache: None,
        },
        place: signed.then_some(SignaturePlace::Tail),
    }
}

/// Streams that differ only in their timing.
fn timed(timings: &[Timing]) -> TrafficFrames {
    let streams = (0..)
        .zip(timings)
        .map(|(id, timing)| stream(id, vec![counting(id as u8, 1, 60, false)], vec![0], *timing));
    traffic(streams.collect())
}

/// Returns times and streams of the first frames.
fn times(player: &mut Player, frames: usize) -> Vec<(u64, usize)> {
    let mut times = vec![];
    while let Some(upcoming) = player.upcoming().filter(|_| times.len() < frames) {
        times.push((upcoming.due, upcoming.stream as usize));
        player.skip();
    }
    times
}

/// Rates here are multiples of 1 kpps up to 12, so all times are multiples of this part of a unit.
const PARTS: u128 = 27_720;

/// The first frames by a model without queues, which writes down each run of a stream as a whole.
fn model(timings: &[Timing], times_load: u32, frames: usize) -> Vec<(u64, usize)> {
    let parts = |ns: u64| u128::from(ns) * u128::from(UNIT) * PARTS;
    let run = |stream: usize, from: u128| -> Vec<(u128, usize, bool)> {
        let timing = &timings[stream];
        let gap = 1_000_000_000 * u128::from(UNIT) * PARTS
            / (timing.rate_pps as u128 * u128::from(times_load));
        let from = from + parts(timing.delay_ns);
        let (group, groups, pause) = match timing.mode {
            Emission::Continuous => (frames as u64, 1, 0),
            Emission::Burst { frames } => (frames, 1, 0),
            Emission::Bursts {
                frames: group,
                pause_ns,
                bursts,
            } => (group, bursts.unwrap_or(frames as u64), pause_ns),
        };
        let ends = !matches!(
            timing.mode,
            Emission::Continuous | Emission::Bursts { bursts: None, .. }
        );
        let group_lasts = gap * u128::from(group - 1) + parts(pause);
        (0..groups)
            .flat_map(|n| (0..group).map(move |k| (n, k)))
            .take(frames + 1)
            .map(|(n, k)| {
                let last = ends && (n, k) == (groups - 1, group - 1);
                let at = from + group_lasts * u128::from(n) + gap * u128::from(k);
                (at, stream, last)
            })
            .collect()
    };
    let rounded = |at: u128| ((2 * at + PARTS) / (2 * PARTS)) as u64;
    let mut to_come: Vec<(u128, usize, bool)> = (0..timings.len())
        .filter(|&stream| !timings[stream].waits)
        .flat_map(|stream| run(stream, 0))
        .collect();
    let mut ended = vec![0; timings.len()];
    let mut out = vec![];
    while out.len() < frames {
        let first = (0..to_come.len()).min_by_key(|&at| {
            let (time, stream, last) = to_come[at];
            (rounded(time), stream, time, last)
        });
        let Some(first) = first else { break };
        let (time, stream, last) = to_come.remove(first);
        out.push((rounded(time), stream));
        if !last {
            continue;
        }
        ended[stream] += 1;
        let Timing { next, runs, .. } = timings[stream];
        let sends = |next: usize| to_come.iter().any(|(_, stream, _)| *stream == next);
        if let Some(next) = next
            && runs.is_none_or(|runs| ended[stream] < runs)
            && !sends(next)
        {
            to_come.extend(run(next, time));
        }
    }
    out
}

fn emissions() -> impl Strategy<Value = Emission> {
    prop_oneof![
        Just(Emission::Continuous),
        (1_u64..8).prop_map(|frames| Emission::Burst { frames }),
        (1_u64..5, 0_u64..3000, prop::option::of(1_u64..4)).prop_map(
            |(frames, pause_us, bursts)| Emission::Bursts {
                frames,
                pause_ns: pause_us * US,
                bursts,
            }
        ),
    ]
}

fn timings() -> impl Strategy<Value = Vec<Timing>> {
    let one = (
        1_u64..=12,
        emissions(),
        0_u64..4,
        any::<bool>(),
        prop::option::of(0_usize..5),
        prop::option::of(1_u32..4),
    );
    prop::collection::vec(one, 1..6).prop_map(|all| {
        let streams = all.len();
        type Drawn = (u64, Emission, u64, bool, Option<usize>, Option<u32>);
        let timing = |(at, (rate, mode, delay, waits, next, runs)): (usize, Drawn)| Timing {
            rate_pps: (rate * 1000) as f64,
            mode,
            delay_ns: delay * 250 * US,
            // the first one starts, so that there are frames
            waits: waits && at > 0,
            next: next.filter(|&next| next < streams),
            runs,
            held: false,
        };
        all.into_iter().enumerate().map(timing).collect()
    })
}

proptest! {
    #[test]
    fn frames_leave_at_the_times_of_the_model(timings in timings(), times_load in prop::sample::select(vec![1_u32, 2, 4, 5])) {
        let frames = timed(&timings);
        let own = own_load_pps(&frames.traffic);
        let load = (times_load > 1).then_some(own * f64::from(times_load));
        let mut player = Player::new(&frames, load).unwrap();
        let expected = model(&timings, times_load, 300);
        prop_assert_eq!(times(&mut player, 300), expected);
    }

    #[test]
    fn cycles_repeat_exactly(
        rates in prop::collection::vec(1_u32..6, 1..4), ranges in prop::collection::vec(1_u64..5, 6),
        pattern in prop::collection::vec(0_u16..2, 1..4), load in 1.0..1e7_f64,
    ) {
        let streams = (0..).zip(&rates).map(|(id, rate)| {
            let at = 2 * usize::from(id);
            let kinds = vec![counting(2 * id as u8, ranges[at], 60, false), counting(2 * id as u8 + 1, ranges[at + 1], 64, false)];
            stream(id, kinds, pattern.clone(), Timing::new(f64::from(*rate) * 100.0 / 3.0, Emission::Continuous))
        });
        let frames = traffic(streams.collect());
        let mut player = Player::new(&frames, Some(load)).unwrap();
        let cycle = player.cycle().unwrap() as usize;
        prop_assume!(cycle < 5000);
        let all: Vec<_> = (0..3 * cycle).map(|_| next(&mut player, None)).collect();
        for at in 0..2 * cycle {
            prop_assert!(all[at] == all[at + cycle], "frame {at} of {cycle}");
        }
    }

    /// At full speed: the same frames in the same order, whether it repeats or not.
    #[test]
    fn the_order_stays_without_times(timings in timings(), rates in prop::collection::vec(1_u32..9, 1..5)) {
        let steady: Vec<Timing> = rates.iter().map(|rate| Timing::new(f64::from(*rate) / 7.0, Emission::Continuous)).collect();
        for timings in [timings, steady] {
            let frames = timed(&timings);
            let mut player = Player::new(&frames, None).unwrap();
            let mut flat_out = player.clone().without_times();
            for _ in 0..300 {
                let streams = [&player, &flat_out].map(|player| player.upcoming().map(|next| next.stream));
                prop_assert_eq!(streams[0], streams[1]);
                if streams[0].is_none() {
                    break;
                }
                prop_assert_eq!(next(&mut player, None), next(&mut flat_out, None));
            }
        }
    }

    /// A buffer may contain anything.
    #[test]
    fn frames_are_those_that_each_machine_renders(picks in prop::collection::vec(any::<bool>(), 200)) {
        let frames = traffic(three_streams(true));
        let mut player = Player::new(&frames, Some(1e6)).unwrap();
        let mut model = Rendering::new(&frames);
        let mut buffers = vec![(vec![0; player.buffer_len()], None); 2];
        for pick in picks {
            let upcoming = player.upcoming().unwrap();
            let (buffer, held) = &mut buffers[usize::from(pick)];
            let len = player.take(buffer, *held, upcoming.due);
            *held = Some(upcoming.kind);
            prop_assert_eq!(&buffer[..len], model.next(upcoming.stream as usize, upcoming.due));
        }
    }
}

proptest! {
    // each case plays up to 400 frames several times
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Several senders: each frame of one sender is sent by one of them, at the same time, with the
    /// same bytes except for its number. A sender ends after its part of a number of frames, and
    /// has what it needs to know how many that are.
    #[test]
    fn senders_together_send_the_frames_of_one(
        timings in timings(), steady: bool, times_load in prop::sample::select(vec![1_u32, 3, 5]),
        pattern in prop::collection::vec(0_u16..3, 1..14), ranges in prop::collection::vec(1_u64..9, 3),
        senders in prop::sample::select(vec![1_u32, 2, 3, 4, 8]), most in 0_u64..400, seed: u64,
    ) {
        let streams = (0..).zip(&timings).map(|(id, timing)| {
            let kinds = (0..3).map(|n| {
                let mut kind = counting(n as u8, ranges[n], 60 + 10 * n, true);
                kind.program.variables.push(Variable {
                    name: "random".into(),
                    source: Source::Random { min: 0, max: u32::MAX.into(), seed: seed + n as u64 },
                    ..kind.program.variables[0].clone()
                });
                kind.program.instructions.insert(0, write("random", 30));
                kind
            });
            let timing = match steady {
                true => Timing::new(timing.rate_pps, Emission::Continuous),
                false => *timing,
            };
            stream(id, kinds.collect(), pattern.clone(), timing)
        });
        let frames = traffic(streams.collect());
        let own = own_load_pps(&frames.traffic);
        let load = (times_load > 1).then_some(own * f64::from(times_load));
        // from the signature in bytes 42 to 60 on
        let unnumbered = |mut bytes: Vec<u8>| {
            bytes[42..60].fill(0);
            bytes
        };
        let play = |player: &mut Player, number: &dyn Fn(u32, u64) -> u64, frames: u64| {
            let mut played = Vec::new();
            while let Some(upcoming) = player.upcoming().filter(|_| (played.len() as u64) < frames) {
                let mut bytes = vec![0; player.buffer_len()];
                let len = player.take(&mut bytes, None, upcoming.due);
                bytes.truncate(len);
                let signature = Signature::read(&bytes[42..]).unwrap();
                assert_eq!((signature.nonce, signature.timestamp_ns), (NONCE, upcoming.due));
                let number = number(upcoming.stream, signature.sequence);
                played.push((upcoming.due, upcoming.stream, number, signature.stream & 0xfff, unnumbered(bytes)));
            }
            played
        };
        let mut one = Player::new(&frames, load).unwrap();
        let expected = play(&mut one, &|_, sequence| sequence, most);
        let all = Frames::Traffic(frames.clone());
        share::check(&all, senders).unwrap();
        let counts = share::counts(&all, &load.into(), Some(most), senders).unwrap();
        let places: HashMap<_, _> = (0..)
            .zip(&expected)
            .map(|(place, (_, stream, number, ..))| ((*stream, *number), place))
            .collect();
        let mut together = Vec::new();
        for (share, own) in Share::all(senders).unwrap().into_iter().zip(counts) {
            let mut player = Player::of_share(&frames, load, share).unwrap();
            let number = |stream: u32, sequence: u64| match share.part(&frames.traffic, stream as usize) {
                Part::Every { first, every } => first + sequence * every,
                _ => sequence,
            };
            let mut flat_out = Player::of_share(&frames, None, share).unwrap().without_times();
            let played = play(&mut player, &number, own.unwrap());
            // one sender has the limit itself
            prop_assert!(senders == 1 || Some(played.len() as u64) == own);
            let places = played.iter().map(|(_, stream, number, ..)| places.get(&(*stream, *number)));
            let places: Option<Vec<_>> = places.collect();
            prop_assert!(places.is_some_and(|places| places.is_sorted()));
            // at full speed they are the same, in the order at the own load
            if load.is_none() {
                for frame in &played {
                    prop_assert_eq!(flat_out.upcoming().map(|next| next.stream), Some(frame.1));
                    let (_, bytes) = next(&mut flat_out, None);
                    prop_assert!(unnumbered(bytes) == frame.4);
                }
            }
            together.extend(played);
        }
        together.sort();
        let mut sorted = expected.clone();
        sorted.sort();
        prop_assert_eq!(together.len(), sorted.len());
        for (found, expected) in together.iter().zip(&sorted) {
            prop_assert!(found == expected, "{:?}, not {:?}", &found, &expected);
        }
    }
}

/// Returns the next frame and its stream.
fn next(player: &mut Player, held: Option<u32>) -> (u32, Vec<u8>) {
    let mut buffer = vec![0; player.buffer_len()];
    let stream = player.upcoming().unwrap().stream;
    let len = player.take(&mut buffer, held, 0);
    buffer.truncate(len);
    (stream, buffer)
}

/// An IMIX, a repeating burst, and a few large frames.
fn three_streams(signed: bool) -> Vec<Stream> {
    let kinds = |mark| {
        vec![
            counting(mark, 7, 60, signed),
            counting(mark + 1, 5, 590, signed),
            counting(mark + 2, 3, 1514, signed),
        ]
    };
    let bursts = Emission::Bursts {
        frames: 5,
        pause_ns: 20 * US,
        bursts: None,
    };
    vec![
        stream(
            11,
            kinds(10),
            vec![0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 2],
            Timing::new(700_000.0, Emission::Continuous),
        ),
        stream(12, kinds(20), vec![0], Timing::new(500_000.0, bursts)),
        stream(
            13,
            kinds(30),
            vec![2, 1],
            Timing::new(30_000.0, Emission::Continuous),
        ),
    ]
}

/// Each kind rendered by its own machine, always in full.
struct Rendering {
    streams: Vec<(Stream, Vec<fwdlab_packet::modifier::Machine>, u64)>,
    buffer: Vec<u8>,
}

impl Rendering {
    fn new(frames: &TrafficFrames) -> Rendering {
        let streams = frames.traffic.streams.iter().map(|stream| {
            let machine = |kind: &Kind| kind.program.machine(&kind.template).unwrap();
            (
                stream.clone(),
                stream.kinds.iter().map(machine).collect(),
                0,
            )
        });
        Rendering {
            streams: streams.collect(),
            buffer: vec![0; 2048],
        }
    }

    fn next(&mut self, stream: usize, timestamp_ns: u64) -> &[u8] {
        let (stream, machines, sequence) = &mut self.streams[stream];
        let signature = Signature {
            nonce: NONCE,
            stream: stream.id,
            sequence: *sequence,
            timestamp_ns,
        };
        let kind = stream.pattern[*sequence as usize % stream.pattern.len()];
        *sequence += 1;
        let len = machines[usize::from(kind)].render(&mut self.buffer, &signature);
        &self.buffer[..len]
    }
}

/// Times in microseconds, rounded.
fn in_us(times: &[(u64, usize)]) -> Vec<(u64, usize)> {
    let us = |&(due, stream): &(u64, usize)| ((due + UNIT * US / 2) / (UNIT * US), stream);
    times.iter().map(us).collect()
}

/// The example of a chain in the description of TRex's protocol: twelve packets and their departure
/// times.
#[test]
fn a_chain_as_in_trex() {
    let burst = |frames, next, delay_us: u64, waits, runs| Timing {
        delay_ns: delay_us * US,
        next,
        waits,
        runs,
        ..Timing::new(10.0, Emission::Burst { frames })
    };
    let frames = timed(&[
        burst(1, Some(1), 10, false, None),
        burst(2, Some(2), 0, true, None),
        burst(3, Some(0), 0, true, Some(2)),
    ]);
    let mut player = Player::new(&frames, None).unwrap();
    let expected = [
        (10, 0),
        (10, 1),
        (100_010, 1),
        (100_010, 2),
        (200_010, 2),
        (300_010, 2),
        (300_020, 0),
        (300_020, 1),
        (400_020, 1),
        (400_020, 2),
        (500_020, 2),
        (600_020, 2),
    ];
    assert_eq!(in_us(&times(&mut player, 100)), expected);
    assert_eq!((player.due(), player.upcoming()), (None, None));
    assert_eq!(player.take(&mut [0; 60], None, 0), 0);
    // one stream sends at a time
    assert_eq!(own_load_pps(&frames.traffic), 10.0);
}

/// At twice the rate, gaps are half as long, and the delay stays the same.
#[test]
fn the_load_scales_rates_and_neither_delays_nor_pauses() {
    let bursts = Emission::Bursts {
        frames: 2,
        pause_ns: 500 * US,
        bursts: Some(2),
    };
    let frames = timed(&[Timing {
        delay_ns: 100 * US,
        ..Timing::new(1000.0, bursts)
    }]);
    let mut player = Player::new(&frames, Some(2000.0)).unwrap();
    let expected = [(100, 0), (600, 0), (1100, 0), (1600, 0)];
    assert_eq!(in_us(&times(&mut player, 100)), expected);
}

#[test]
fn the_own_load_is_the_largest_sum_of_concurrent_streams() {
    let at = |delay_us: u64, timing: Timing| Timing {
        delay_ns: delay_us * US,
        ..timing
    };
    let chained = Timing {
        next: Some(1),
        ..Timing::new(1000.0, Emission::Burst { frames: 11 })
    };
    let waits = |rate| Timing {
        waits: true,
        ..Timing::new(rate, Emission::Continuous)
    };
    for (timings, expected) in [
        (
            vec![
                Timing::new(10.0, Emission::Continuous),
                Timing::new(20.5, Emission::Continuous),
            ],
            30.5,
        ),
        // 10 ms of one, then the other
        (vec![chained, waits(700.0)], 1000.0),
        (vec![chained, waits(1700.0)], 1700.0),
        (
            vec![
                chained,
                waits(700.0),
                at(5000, Timing::new(400.0, Emission::Continuous)),
            ],
            1400.0,
        ),
        (
            vec![
                chained,
                waits(700.0),
                at(20_000, Timing::new(400.0, Emission::Continuous)),
            ],
            1100.0,
        ),
    ] {
        assert_eq!(own_load_pps(&timed(&timings).traffic), expected);
    }
}

/// For an hour, every stream keeps its schedule: frame n is due where the exact fraction says.
#[test]
fn nothing_drifts() {
    let rates = [1000.0, 3000.0, 7000.0];
    let frames = timed(&rates.map(|rate| Timing::new(rate, Emission::Continuous)));
    let mut player = Player::new(&frames, Some(11_000_000.0 / 7.0)).unwrap();
    let mut sent = [0_u64; 3];
    let second = 1_000_000_000 * u128::from(UNIT);
    for n in 0..2_000_000_u64 {
        let upcoming = player.upcoming().unwrap();
        let stream = upcoming.stream as usize;
        // gap: a second over rate * (11e6 / 7) / 11e3
        let exact = u128::from(sent[stream]) * second * 7 / (rates[stream] as u128 * 1000);
        assert!(
            u128::from(upcoming.due).abs_diff(exact) <= 1,
            "frame {n} of {stream}"
        );
        sent[stream] += 1;
        player.skip();
    }
    assert_eq!(sent[0] + sent[1] + sent[2], 2_000_000);
}

#[test]
fn every_flow_equally_often() {
    let dimension = |name: &str, count| Dimension {
        name: name.into(),
        width: Width::Two,
        values: Values::Range {
            first: 100,
            step: 3,
            count,
        },
    };
    let flows = |id: u16, a, b| {
        let program = Program {
            variables: vec![Variable {
                name: "v".into(),
                width: Width::Two,
                source: Source::Grid {
                    dimensions: vec![dimension("a", a), dimension("b", b)],
                    visits: Visits::Sequential,
                },
                split: true,
                next: None,
            }],
            instructions: vec![write("v.a", 30), write("v.b", 34)],
            cache: None,
        };
        let template = vec![id as u8; 60];
        let kind = Kind {
            template,
            program,
            place: None,
        };
        stream(
            id,
            vec![kind],
            vec![0],
            Timing::new(f64::from(id), Emission::Continuous),
        )
    };
    // as many frames per second of a stream as it has flows
    let frames = traffic(vec![flows(6, 2, 3), flows(20, 5, 4), flows(35, 5, 7)]);
    let mut player = Player::new(&frames, Some(1e6)).unwrap();
    assert_eq!(player.cycle(), Some(6 + 20 + 35));
    let mut counts = HashMap::new();
    for _ in 0..1000 * (6 + 20 + 35) {
        *counts.entry(next(&mut player, None)).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 6 + 20 + 35);
    assert!(counts.values().all(|&count| count == 1000), "{counts:?}");
}

#[test]
fn only_endless_periodic_traffic_has_a_cycle() {
    let player = |frames: TrafficFrames| Player::new(&frames, Some(1e6)).unwrap();
    let steady = Timing::new(1000.0, Emission::Continuous);
    assert_eq!(player(timed(&[steady, steady])).cycle(), Some(2));
    let third = Timing::new(1000.0 / 3.0, Emission::Continuous);
    assert_eq!(player(timed(&[steady, third])).cycle(), Some(4));
    let odd = Timing::new(1000.0 * std::f64::consts::PI, Emission::Continuous);
    assert_eq!(player(timed(&[steady, odd])).cycle(), None);
    let later = Timing {
        delay_ns: 1,
        ..steady
    };
    assert_eq!(player(timed(&[steady, later])).cycle(), None);
    let burst = Timing::new(1000.0, Emission::Burst { frames: 3 });
    assert_eq!(player(timed(&[steady, burst])).cycle(), None);
    let signed = |signed| {
        let kinds = vec![counting(0, 7, 60, signed), counting(1, 6, 60, signed)];
        traffic(vec![stream(1, kinds, vec![0, 0, 1], steady)])
    };
    // three frames per round; kind 0 repeats after 7 rounds, kind 1 after 6
    assert_eq!(player(signed(false)).cycle(), Some(3 * 42));
    assert_eq!(player(signed(true)).cycle(), None);
}

const SECOND: u64 = 1_000_000_000 * UNIT;

/// Returns times in units, and streams, of the frames up to a time.
fn until(player: &mut Player, end: u64) -> Vec<(u64, usize)> {
    let mut buffer = [0; 60];
    let mut all = vec![];
    while let Some(next) = player.upcoming().filter(|next| next.due <= end) {
        player.take(&mut buffer, None, 0);
        all.push((next.due, next.stream as usize));
    }
    all
}

#[test]
fn streams_are_steered_one_by_one_and_held() {
    let ms = |ms: u64| ms * 1_000_000 * UNIT;
    let second = Timing::new(500.0, Emission::Continuous);
    let frames = timed(&[Timing::new(1000.0, Emission::Continuous), second]);
    let mut player = Player::new(&frames, None).unwrap();
    let count = |all: &[(u64, usize)], stream| all.iter().filter(|one| one.1 == stream).count();
    until(&mut player, ms(10) + ms(1) / 4);
    // the first is paused a quarter of a millisecond after it sent, the second is four times as
    // fast
    player.set_rates(&[0.0, 2000.0], ms(10) + ms(1) / 4);
    let held = until(&mut player, ms(20));
    assert_eq!((count(&held, 0), count(&held, 1)), (0, 19));
    // it resumes with as much time to its next frame as it had left
    player.set_rates(&[1000.0, 500.0], ms(20));
    let again = until(&mut player, ms(30));
    let first = again.iter().find(|one| one.1 == 0).unwrap().0;
    assert_eq!(first, ms(20) + ms(3) / 4);
    assert_eq!((count(&again, 0), count(&again, 1)), (10, 5));
    // all are paused: nothing is due, but nothing has ended
    player.set_rates(&[0.0, 0.0], ms(30));
    assert_eq!(player.upcoming(), None);
    player.set_rates(&[1000.0, 500.0], ms(50));
    let later = until(&mut player, ms(60));
    assert_eq!((count(&later, 0), count(&later, 1)), (10, 5));
    assert_eq!(later[0].0, ms(50) + ms(3) / 4);
    assert_eq!(player.not_sent(), 0);

    // one that starts paused sends when its rate is set
    let held = Timing {
        held: true,
        ..second
    };
    let mut player = Player::new(&timed(&[held]), None).unwrap();
    assert_eq!(player.upcoming(), None);
    player.set_rates(&[500.0], ms(7));
    assert_eq!(player.upcoming().unwrap().due, ms(7));
}

#[test]
fn a_new_load_leaves_no_gap_and_no_debt() {
    let frames = timed(&[
        Timing::new(1000.0, Emission::Continuous),
        Timing::new(3000.0, Emission::Continuous),
        Timing::new(
            1000.0,
            Emission::Bursts {
                frames: 2,
                pause_ns: 10_000 * US,
                bursts: None,
            },
        ),
    ]);
    let mut player = Player::new(&frames, Some(5000.0)).unwrap();
    let until = |player: &mut Player, end: u64| {
        let mut counts = [0_u64; 3];
        let mut last = 0;
        while let Some(upcoming) = player.upcoming().filter(|next| next.due < end) {
            counts[upcoming.stream as usize] += 1;
            assert!(upcoming.due >= last, "in order");
            last = upcoming.due;
            player.skip();
        }
        (counts, last)
    };
    let (first, last) = until(&mut player, SECOND);
    assert_eq!(&first[..2], [1000, 3000]);
    // at most 333 us after the last frame of the second stream
    assert!(SECOND - last < 334 * US * UNIT);
    // a tenth of a gap of stream 0 has elapsed
    let now = SECOND + 100 * US * UNIT;
    until(&mut player, now);
    player.set_load(50_000.0, now);
    let (faster, last) = until(&mut player, now + SECOND);
    // what was left of the gap is now 90 us instead of 900
    assert_eq!(&faster[..2], [10_000, 30_000]);
    assert!(now + SECOND - last < 34 * US * UNIT);
    // pauses stay: a burst is 100 us and 10 ms
    assert!((198..=202).contains(&faster[2]), "{faster:?}");
    // no frame was taken for 80 us
    let now = now + SECOND + 80 * US * UNIT;
    player.set_load(5000.0, now);
    let (slower, _) = until(&mut player, now + SECOND);
    assert_eq!(&slower[..2], [1000, 3000]);
    assert_eq!(player.not_sent(), 1, "of 30 kpps two are due in 80 us");
}

#[test]
fn late_frames_of_endless_streams_are_dropped_and_of_others_delayed() {
    let frames = timed(&[
        Timing::new(100_000.0, Emission::Continuous),
        Timing::new(10_000.0, Emission::Burst { frames: 30 }),
    ]);
    let mut player = Player::new(&frames, None).unwrap();
    player.forgive(100 * US * UNIT, 100 * US * UNIT);
    assert_eq!((player.not_sent(), player.due()), (0, Some(0)), "caught up");
    let now = 1000 * US * UNIT;
    player.forgive(now, 100 * US * UNIT);
    assert_eq!(player.not_sent(), 100);
    let all = times(&mut player, 120);
    assert_eq!(all[..2], [(now, 0), (now, 1)]);
    let of_burst: Vec<u64> = all
        .iter()
        .filter(|(_, s)| *s == 1)
        .map(|(due, _)| *due)
        .collect();
    assert_eq!(of_burst[1], now + 100 * US * UNIT);
    let rest = times(&mut player, 1000);
    let burst = rest.iter().filter(|(_, stream)| *stream == 1).count() + of_burst.len();
    assert_eq!(burst, 30, "a burst has all its frames");
}

#[test]
fn traffic_that_cannot_be_played_is_refused_with_a_reason() {
    let good = || three_streams(false).remove(0);
    let with = |change: fn(&mut Stream)| {
        let mut stream = good();
        change(&mut stream);
        Player::new(&traffic(vec![stream]), None)
            .unwrap_err()
            .to_string()
    };
    for (change, says) in [
        (
            (|s| s.timing.rate_pps = 0.0) as fn(&mut Stream),
            "rate is 0",
        ),
        (|s| s.timing.rate_pps = f64::NAN, "rate is NaN"),
        (|s| s.timing.rate_pps = f64::INFINITY, "rate is inf"),
        (|s| s.pattern.clear(), "no frames"),
        (|s| s.pattern.push(3), "kind 3, and it has 3"),
        (
            |s| s.timing.mode = Emission::Burst { frames: 0 },
            "burst without frames",
        ),
        (|s| s.timing.next = Some(1), "the next stream 1"),
        (|s| s.timing.waits = true, "waits for another"),
        (|s| s.kinds[0].template.truncate(20), "beyond the template"),
    ] {
        let error = with(change);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn absurd_times_do_not_overflow() {
    let far = Emission::Bursts {
        frames: u64::MAX,
        pause_ns: u64::MAX,
        bursts: Some(u64::MAX),
    };
    for (rate, load) in [
        (1e-300, 1e300),
        (1e300, 1e-300),
        (1.0, 0.0),
        (1.0, f64::NAN),
        (1.0, -1.0),
    ] {
        let next = Some(0);
        let timing = Timing {
            delay_ns: u64::MAX,
            next,
            ..Timing::new(rate, far)
        };
        let once = Timing {
            mode: Emission::Burst { frames: 1 },
            ..timing
        };
        let frames = timed(&[
            timing,
            once,
            Timing {
                delay_ns: 0,
                ..once
            },
        ]);
        let mut player = Player::new(&frames, Some(load)).unwrap();
        for now in [0, SECOND, u64::MAX] {
            times(&mut player, 10);
            player.forgive(now, 100 * US * UNIT);
            player.set_load(1e6, now);
        }
    }
}
