//! Socket senders with profiles: frames on the wire, byte for byte; counts; and ports that
//! disappear.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use fwdlab_engine::af_xdp::{BusyPoll, Options, ZeroCopy};
use fwdlab_engine::analysis::{AnalysisPlan, StreamPlan};
use fwdlab_engine::netdev::XdpPass;
use fwdlab_engine::traffic::player::Player;
use fwdlab_engine::traffic::share::{Part, Share};
use fwdlab_engine::traffic::{Emission, Kind, Stream, Timing};
use fwdlab_engine::{
    Choice, Copies, EngineError, Frames, Mode, PathSpec, PortSpec, Schedule, SendCounts, Sender,
    SignaturePlace, StallPolicy, Tester, Timestamps, TrafficFrames, af_packet, af_xdp,
};
use fwdlab_model::trial::{IpVersion, Stream as TestStream};
use fwdlab_model::units::FrameSize;
use fwdlab_packet::modifier::{
    Dimension, Endian, Instruction, Machine, Program, Source, Transport, Values, Variable, Width,
};
use fwdlab_packet::permutation::Visits;
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, MacAddr, Signature};

use super::{Capture, check_with_etherparse, stream};
use crate::bed::{ADDRESSES, Bed, allowed, bed, skip, wait_until};
use crate::streams;

const NONCE: u16 = 0x3a7;

fn traffic(streams: Vec<Stream>) -> TrafficFrames {
    streams::traffic(streams, NONCE)
}

const SIGNATURE_AT: usize = fwdlab_packet::signature::OFFSET_IPV4_UDP;

/// The senders with a socket, by the names of their modes.
fn senders(paths: &[PathSpec]) -> Vec<(&'static str, Box<dyn Sender>)> {
    senders_on(paths, &[])
}

/// The same senders on these CPUs.
fn senders_on(paths: &[PathSpec], cpus: &[usize]) -> Vec<(&'static str, Box<dyn Sender>)> {
    let mut senders: Vec<(&'static str, Box<dyn Sender>)> = vec![];
    if let Some(sender) = allowed(af_xdp::sender(paths, cpus)) {
        senders.push((Mode::AfXdp.name(), Box::new(sender)));
    }
    if let Some(sender) = allowed(af_packet::sender(paths, cpus)) {
        senders.push((Mode::AfPacket.name(), Box::new(sender)));
    }
    senders
}

/// UDP frames of one size in `flows` flows that differ in both addresses; checksums are correct in
/// every frame.
fn kind(frame_size: u16, flows: u64, signed: bool) -> Kind {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr(ADDRESSES.source_mac),
        destination: MacAddr(ADDRESSES.destination_mac),
        version: fwdlab_packet::IpVersion::V4,
        frame_size,
    })
    .unwrap();
    let mut bytes = vec![0; template.buffer_len()];
    let first = FlowSet::default_v4(1).unwrap().flow(0);
    template.write(&mut bytes, &first, &Signature::default());
    let addresses = |name: &str, first| Dimension {
        name: name.into(),
        width: Width::Four,
        values: Values::Range {
            first,
            step: 3,
            count: flows,
        },
    };
    let write = |variable: &str, offset| Instruction::Write {
        variable: variable.into(),
        offset,
        add: 0,
        endian: Endian::Big,
    };
    let mut instructions = vec![write("flow.from", 26), write("flow.to", 30)];
    if signed {
        instructions.push(Instruction::Signature {
            offset: SIGNATURE_AT as u16,
        });
    }
    instructions.push(Instruction::FixTransport {
        l2_len: 14,
        l3_len: 20,
        transport: Transport::Udp,
    });
    Kind {
        template: bytes,
        program: Program {
            variables: vec![Variable {
                name: "flow".into(),
                width: Width::Four,
                source: Source::Grid {
                    // one address of the second for each round of the first
                    dimensions: vec![
                        addresses("from", 0xc612_0a01),
                        Dimension {
                            values: Values::List(vec![0xc613_0a01]),
                            ..addresses("to", 0)
                        },
                    ],
                    visits: Visits::Sequential,
                },
                split: true,
                next: None,
            }],
            instructions,
            cache: None,
        },
        place: signed.then_some(SignaturePlace::UdpPayload),
    }
}

/// An IMIX, bursts with pauses, and a chain: a burst that starts another stream, which starts the
/// burst again.
fn bursty() -> TrafficFrames {
    let bursts = Emission::Bursts {
        frames: 20,
        pause_ns: 7_000_000,
        bursts: None,
    };
    let chained = |next, waits, frames| Timing {
        next: Some(next),
        waits,
        delay_ns: 2_000_000,
        ..Timing::new(2000.0, Emission::Burst { frames })
    };
    traffic(vec![
        streams::stream(
            7,
            vec![kind(64, 12, true), kind(594, 7, true), kind(1518, 5, true)],
            vec![0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 2],
            Timing::new(3000.0, Emission::Continuous),
        ),
        streams::stream(
            8,
            vec![kind(64, 30, true)],
            vec![0],
            Timing::new(5000.0, bursts),
        ),
        streams::stream(9, vec![kind(128, 4, true)], vec![0], chained(3, false, 6)),
        streams::stream(10, vec![kind(64, 3, true)], vec![0], chained(2, true, 3)),
    ])
}

/// Streams in proportion 3 to 2 to 1, without signatures: 36 frames, repeated.
fn steady() -> TrafficFrames {
    let steady = |share: u32| Timing::new(f64::from(share) * 100.0, Emission::Continuous);
    traffic(vec![
        streams::stream(1, vec![kind(64, 9, false)], vec![0], steady(3)),
        streams::stream(
            2,
            vec![kind(64, 2, false), kind(1518, 2, false)],
            vec![0, 1],
            steady(2),
        ),
        streams::stream(3, vec![kind(200, 2, false)], vec![0], steady(1)),
    ])
}

/// A stream rendered separately, every frame in full.
struct Rendering<'a> {
    stream: &'a Stream,
    machines: Vec<Machine>,
    sequence: u64,
}

impl<'a> Rendering<'a> {
    fn from_frames(frames: &'a TrafficFrames) -> Vec<Rendering<'a>> {
        let machine = |kind: &Kind| kind.program.machine(&kind.template).unwrap();
        let rendering = |stream: &'a Stream| Rendering {
            stream,
            machines: stream.kinds.iter().map(machine).collect(),
            sequence: 0,
        };
        frames.traffic.streams.iter().map(rendering).collect()
    }

    fn next(&mut self, timestamp_ns: u64) -> Vec<u8> {
        self.next_as(Signature {
            nonce: NONCE,
            stream: self.stream.id,
            sequence: self.sequence,
            timestamp_ns,
        })
    }

    /// Returns the next frame with another signature.
    fn next_as(&mut self, signature: Signature) -> Vec<u8> {
        let pattern = &self.stream.pattern;
        let kind = pattern[self.sequence as usize % pattern.len()];
        self.sequence += 1;
        let mut frame = vec![0; 2048];
        let len = self.machines[usize::from(kind)].render(&mut frame, &signature);
        frame.truncate(len);
        frame
    }
}

fn schedule(load_pps: Option<f64>, frames: Option<u64>) -> Schedule {
    Schedule {
        load: load_pps.into(),
        frames,
        at_most: Duration::from_secs(8),
        stall_policy: StallPolicy::Skip,
        path: 0,
    }
}

/// Sends this number of frames; returns the counts.
fn send(
    sender: &mut dyn Sender,
    frames: &TrafficFrames,
    load_pps: Option<f64>,
    count: u64,
) -> SendCounts {
    sender.arm(&Frames::Traffic(frames.clone())).unwrap();
    sender.start(schedule(load_pps, Some(count))).unwrap();
    wait_until(|| sender.is_done());
    sender.stop().unwrap()
}

#[test]
fn a_profile_on_the_wire_is_the_profile() {
    const FRAMES: u64 = 3000;
    let Some(bed) = bed(1) else { return };
    let frames = bursty();
    for (name, mut sender) in senders(&bed.paths()) {
        let capture = Capture::open(&bed);
        if !capture.has_room {
            return skip("no room for a capture");
        }
        let before = bed.transmitted(0);
        let counts = send(&mut *sender, &frames, Some(10_000.0), FRAMES);
        let captured = capture.take(FRAMES as usize);
        assert_eq!(counts.sent, [FRAMES], "{name}: {counts:?}");
        assert_eq!(captured.len() as u64, FRAMES, "{name}: {counts:?}");
        let port = bed.transmitted_of(0, before, FRAMES);
        assert_eq!((port.packets, port.dropped), (FRAMES, 0), "{name}");

        let mut renderings = Rendering::from_frames(&frames);
        let mut flows: Vec<HashMap<String, u64>> = vec![HashMap::new(); renderings.len()];
        let mut last = vec![0; renderings.len()];
        for (at, captured) in captured.iter().enumerate() {
            let signature = Signature::read(&captured[SIGNATURE_AT..]).unwrap();
            let stream = renderings
                .iter()
                .position(|rendering| rendering.stream.id == signature.stream)
                .unwrap();
            let case = format!("{name}: frame {at}, {signature:?}");
            let expected = renderings[stream].next(signature.timestamp_ns);
            assert_eq!(*captured, expected, "{case}");
            let flow = check_with_etherparse(captured);
            *flows[stream].entry(flow).or_insert(0) += 1;
            // each stream is in the order of its intended departures; a frame delayed by a stall
            // may leave after one of another stream that was due later
            let now = signature.timestamp_ns;
            assert!(now >= last[stream], "{case} after {}", last[stream]);
            last[stream] = now;
        }
        let of_streams: Vec<u64> = renderings.iter().map(|r| r.sequence).collect();
        assert_eq!(counts.streams, of_streams, "{name}");
        assert!(
            of_streams.iter().all(|&frames| frames > 60),
            "{of_streams:?}"
        );
        // each of a stream's kinds cycles through its own flows, so only streams of one kind have
        // equal shares
        for (stream, flows) in (1..).zip(&flows[1..]) {
            let (least, most) = (flows.values().min().unwrap(), flows.values().max().unwrap());
            assert!(most - least <= 1, "{name} {stream}: {flows:?}");
        }
        assert_eq!(flows[1].len(), 30, "{name}");
        let lateness = sender.lateness().unwrap().unwrap();
        assert!((1..=FRAMES).contains(&lateness.len()), "{name}");
    }
}

/// The senders that can have several threads.
fn several(path: &PathSpec, count: u32) -> Vec<(&'static str, Box<dyn Sender>)> {
    let paths = std::slice::from_ref(path);
    let mut senders: Vec<(&'static str, Box<dyn Sender>)> = vec![];
    if let Some(sender) = allowed(af_xdp::senders(paths, &[], count)) {
        senders.push((Mode::AfXdp.name(), Box::new(sender)));
    }
    if let Some(sender) = allowed(af_packet::senders(paths, &[], count)) {
        senders.push((Mode::AfPacket.name(), Box::new(sender)));
    }
    senders
}

/// Any number of senders: every frame of the profile, once, byte for byte, and numbered by its
/// sender.
#[test]
fn several_senders_put_the_profile_on_the_wire() {
    const FRAMES: u64 = 2000;
    let Some(bed) = bed(1) else { return };
    let Some((path, _)) = bed.wide_pair(8) else {
        return;
    };
    let frames = bursty();
    for count in [1, 2, 3, 4, 8] {
        for (name, mut sender) in several(&path, count) {
            let capture = Capture::open(&bed);
            if !capture.has_room {
                return skip("no room for a capture");
            }
            // with the pauses of a profile; frames that a busy host delays are sent all the same
            let schedule = Schedule {
                stall_policy: StallPolicy::CatchUp { most_pps: None },
                ..schedule(Some(10_000.0), Some(FRAMES))
            };
            sender.share_cpu();
            sender.arm(&Frames::Traffic(frames.clone())).unwrap();
            sender.start(schedule).unwrap();
            wait_until(|| sender.is_done());
            let counts = sender.stop().unwrap();
            if counts.not_sent > 0 {
                skip(format!("{name}: {count} senders were stalled for a second"));
                continue;
            }
            let captured = capture.take(FRAMES as usize);
            let case = format!("{name}, {count} senders: {counts:?}");
            assert_eq!(counts.sent, [FRAMES], "{case}");
            assert_eq!(captured.len() as u64, FRAMES, "{case}");
            let by_number = streams::by_number(&captured, |signature| {
                let stream = frames.traffic.streams.iter();
                let stream = stream
                    .map(|stream| stream.id)
                    .position(|id| id == signature.stream & 0xfff);
                let share = Share {
                    sender: u32::from(signature.stream >> 12),
                    of: count,
                };
                let number = match share.part(&frames.traffic, stream.unwrap()) {
                    Part::None => panic!("{case}: not its stream: {signature:?}"),
                    Part::Whole => signature.sequence,
                    Part::Every { first, every } => first + signature.sequence * every,
                };
                (stream.unwrap(), number)
            });
            for (stream, rendering) in Rendering::from_frames(&frames).iter_mut().enumerate() {
                for number in 0..counts.streams[stream] {
                    let (signature, frame) = &by_number[&(stream, number)];
                    let expected = rendering.next_as(*signature);
                    assert_eq!(**frame, expected, "{case}: {number} of {stream}");
                    check_with_etherparse(frame);
                }
            }
            let own = counts.senders.iter().map(SendCounts::total);
            assert_eq!(
                own.clone().count(),
                if count > 1 { count as usize } else { 0 }
            );
            assert!(own.clone().all(|own| own > 100), "{case}");
        }
    }
}

/// At full speed into a port that drops: every frame is in the counters of both ends.
#[test]
fn frames_of_several_senders_are_in_the_ports_counters() {
    const FRAMES: u64 = 60_000;
    let Some(bed) = bed(1) else { return };
    let Some((path, peer)) = bed.wide_pair(8) else {
        return;
    };
    // makes it run NAPI, whose queue overflows
    let Some(_pass) = allowed(XdpPass::open(&peer)) else {
        return;
    };
    for count in [1, 2, 3, 4, 8] {
        for (name, mut sender) in several(&path, count) {
            for frames in [bursty(), steady()] {
                let before = bed.counted_at_wide_pair();
                let counts = send(&mut *sender, &frames, None, FRAMES);
                let (port, received) = bed.counted_at_wide_pair_since(before, counts.sent[0]);
                let case = format!("{name}, {count} senders: {counts:?} {port:?} {received}");
                assert_eq!(counts.sent[0] + counts.not_sent, FRAMES, "{case}");
                assert_eq!(counts.sent[0], port.total(), "{case}");
                assert_eq!(received, port.packets, "{case}");
                assert_eq!(counts.streams.iter().sum::<u64>(), counts.sent[0], "{case}");
            }
        }
    }
}

/// A trial with several senders: sent and received once, and the analysis is that of one sender.
#[test]
fn a_tester_analyses_the_frames_of_several_senders() {
    const FLOWS: u32 = 96;
    const FRAMES: u64 = 40 * FLOWS as u64;
    let Some(bed) = bed(1) else { return };
    let Some((path, peer)) = bed.wide_pair(8) else {
        return;
    };
    let paths = [PathSpec { rx: peer, ..path }];
    let flows = TestStream::new(IpVersion::Ipv4, FrameSize::MIN, FLOWS).unwrap();
    let plan = AnalysisPlan {
        streams: vec![StreamPlan {
            flows: FLOWS,
            ..StreamPlan::default()
        }],
    };
    for senders in [1, 2, 3, 4, 8] {
        for mode in [Mode::AfXdp, Mode::AfPacket] {
            let choice = Choice {
                mode: Some(mode),
                first: None,
                cpus: Vec::new(),
                senders,
                prove: None,
                way_back: None,
                traffic: Vec::new(),
            };
            let opened = Tester::open(&paths, &ADDRESSES, &choice);
            let Some((mut tester, _)) = allowed(opened) else {
                continue;
            };
            tester.arm_with(&flows, Some(plan.clone())).unwrap();
            let schedule = Schedule {
                stall_policy: StallPolicy::CatchUp { most_pps: None },
                ..schedule(Some(10_000.0), Some(FRAMES))
            };
            tester.start(schedule).unwrap();
            wait_until(|| tester.is_done());
            let reading = tester.stop().unwrap();
            if reading.not_sent > 0 {
                skip(format!(
                    "{}: {senders} senders stalled for a second",
                    mode.name()
                ));
                continue;
            }
            let case = format!("{}, {senders} senders: {reading:?}", mode.name());
            assert_eq!(
                (&reading.sent[..], &reading.received[..]),
                (&[FRAMES][..], &[FRAMES][..]),
                "{case}"
            );
            let of_each = if senders > 1 { senders as usize } else { 0 };
            assert_eq!(reading.not_sent_by_sender, vec![0; of_each], "{case}");
            let analysis = tester.analysis(0).unwrap().unwrap();
            let [stream] = &analysis.streams[..] else {
                panic!("{case}: {analysis:?}");
            };
            let wrong = stream.duplicates + stream.reordered + stream.corrupt + stream.wrong_length;
            assert_eq!((stream.received, wrong), (FRAMES, 0), "{case}");
            assert_eq!(stream.latency.len(), FRAMES, "{case}");
            assert_eq!(stream.flows, vec![40; FLOWS as usize], "{case}");
        }
    }
}

#[test]
fn a_port_with_too_few_queues_is_refused() {
    let Some(bed) = bed(1) else { return };
    let Some((path, _)) = bed.wide_pair(3) else {
        return;
    };
    let open = |count| af_xdp::senders(std::slice::from_ref(&path), &[], count);
    if allowed(open(1)).is_none() {
        return;
    }
    let error = open(9).err().unwrap().to_string();
    assert!(error.contains("which has 8 queues to send into"), "{error}");
    let error = open(4).err().unwrap().to_string();
    assert!(
        error.contains("its veth peer has 3 receive queues"),
        "{error}"
    );
    let sender = open(3).unwrap();
    assert_eq!(
        sender.capabilities().reached(),
        "af-xdp copy, 3 senders, need-wakeup"
    );
}

/// Cached frames: the order of the whole cycle, compared with a sender that renders each frame when
/// the player requests it.
#[test]
fn a_cycle_is_sent_over_and_over() {
    const ROUNDS: usize = 50;
    let Some(bed) = bed(1) else { return };
    let frames = steady();
    let mut player = Player::new(&frames, None).unwrap();
    assert_eq!(player.cycle(), Some(36));
    let mut renderings = Rendering::from_frames(&frames);
    let mut expected = vec![];
    let mut of_streams = [0; 3];
    for _ in 0..36 {
        let stream = player.upcoming().unwrap().stream as usize;
        of_streams[stream] += ROUNDS as u64;
        expected.push(renderings[stream].next(0));
        player.skip();
    }
    let count = (36 * ROUNDS) as u64;
    for (name, mut sender) in senders(&bed.paths()) {
        for paced in [true, false] {
            let capture = Capture::open(&bed);
            if !capture.has_room {
                return skip("no room for a capture");
            }
            let load_pps = paced.then_some(50_000.0);
            let counts = send(&mut *sender, &frames, load_pps, count);
            let captured = capture.take(count as usize);
            let case = format!("{name}, paced: {paced}");
            assert_eq!(counts.sent, [count], "{case}");
            assert_eq!(counts.streams, of_streams, "{case}");
            assert_eq!(captured.len(), expected.len() * ROUNDS, "{case}");
            for (at, captured) in captured.iter().enumerate() {
                assert!(*captured == expected[at % 36], "{case}: frame {at}");
                check_with_etherparse(captured);
            }
            assert!((1..=count).contains(&counts.wakeups), "{case}: {counts:?}");
        }
    }
}

#[test]
fn everything_sent_is_in_the_ports_counters() {
    const FRAMES: u64 = 60_000;
    let Some(bed) = bed(1) else { return };
    for (name, mut sender) in senders(&bed.paths()) {
        for (action, frames) in [("bursty", bursty()), ("steady", steady())] {
            for load_pps in [None, Some(200_000.0)] {
                // a paced profile with pauses takes its time
                let count = if action == "bursty" && load_pps.is_some() {
                    3000
                } else {
                    FRAMES
                };
                let before = bed.transmitted(0);
                let counts = send(&mut *sender, &frames, load_pps, count);
                let port = bed.transmitted_of(0, before, counts.sent[0]);
                let case = format!("{name} {action} {load_pps:?}: {counts:?} {port:?}");
                assert_eq!(counts.sent[0], port.total(), "{case}");
                assert_eq!(counts.streams.iter().sum::<u64>(), counts.sent[0], "{case}");
                assert_eq!(counts.sent[0], count, "{case}");
            }
        }
    }
}

/// A DUT that does not keep up: refused and dropped frames are attributed to streams, too.
#[test]
fn streams_add_up_under_overload() {
    let Some(bed) = bed(1) else { return };
    let Some(_pass) = super::slow_dut(&bed, 1000) else {
        return;
    };
    for (name, mut sender) in senders_on(&bed.paths(), &[super::SENDER_CPU]) {
        for frames in [bursty(), steady()] {
            let before = bed.transmitted(0);
            let counts = send(&mut *sender, &frames, None, 30_000);
            let sent = counts.sent[0];
            let port = bed.transmitted_of(0, before, sent);
            let case = format!("{name}: {counts:?} {port:?}");
            assert_eq!(sent, port.total(), "{case}");
            assert_eq!(counts.streams.iter().sum::<u64>(), sent, "{case}");
            assert!(
                port.dropped > 0 || counts.ring_full > 0,
                "no overload: {case}"
            );
        }
    }
}

/// The times in the signatures follow the schedule: one gap, then the other, and at most the longer
/// one between them.
#[test]
fn a_load_changes_without_a_gap() {
    const SLOW_NS: u64 = 100_000;
    const FAST_NS: u64 = 40_000;
    let Some(bed) = bed(1) else { return };
    let one = traffic(vec![streams::stream(
        1,
        vec![kind(64, 10, true)],
        vec![0],
        Timing::new(1.0, Emission::Continuous),
    )]);
    let test = super::frames(&stream(IpVersion::Ipv4, 0), NONCE);
    for (name, mut sender) in senders(&bed.paths()) {
        for frames in [Frames::Traffic(one.clone()), Frames::Test(test.clone())] {
            let capture = Capture::open(&bed);
            if !capture.has_room {
                return skip("no room for a capture");
            }
            sender.arm(&frames).unwrap();
            assert!(sender.set_load(1e4).is_err(), "it is not running");
            sender.start(schedule(Some(1e4), None)).unwrap();
            assert!(sender.set_load(0.0).is_err() && sender.set_load(f64::NAN).is_err());
            wait_until(|| sender.counts().unwrap().sent[0] > 500);
            sender.set_load(25e3).unwrap();
            // on a busy host, many more than 500 are sent by then
            let before = sender.counts().unwrap().sent[0];
            wait_until(|| sender.counts().unwrap().sent[0] > before + 1500);
            let counts = sender.stop().unwrap();
            let captured = capture.take(counts.sent[0] as usize);
            assert_eq!(captured.len() as u64, counts.sent[0], "{name}");
            let times: Vec<u64> = captured
                .iter()
                .map(|frame| {
                    Signature::read(&frame[SIGNATURE_AT..])
                        .unwrap()
                        .timestamp_ns
                })
                .collect();
            let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let is = |gap: u64, nominal: u64| gap > 0 && (gap + 1) % nominal <= 2;
            let change = gaps.iter().position(|&gap| !is(gap, SLOW_NS)).unwrap();
            assert!(change >= 490, "{name}: changed at {change}");
            // a multiple of a gap means skipped frames, which were counted; others may have been
            // skipped before the first
            let missing = |gaps: &[u64], nominal| {
                assert!(gaps.iter().all(|&gap| is(gap, nominal)), "{name}: {gaps:?}");
                gaps.iter().map(|gap| (gap + 1) / nominal - 1).sum::<u64>()
            };
            let forgiven = missing(&gaps[..change], SLOW_NS)
                + (gaps[change] / SLOW_NS).saturating_sub(1)
                + missing(&gaps[change + 1..], FAST_NS);
            assert!(
                counts.not_sent >= forgiven,
                "{name}: {forgiven}, a gap of {} at the change, {counts:?}",
                gaps[change]
            );
            sender.start(schedule(None, Some(10))).unwrap();
            assert!(sender.set_load(1e4).is_err(), "flat out");
            wait_until(|| sender.is_done());
            sender.stop().unwrap();
            assert_eq!(sender.lateness().unwrap(), None);
        }
    }
}

#[test]
fn af_xdp_reports_its_mode_and_uses_two_queues() {
    let Some(bed) = bed(1) else { return };
    let paths = bed.paths();
    let open = |options| af_xdp::sender_with(&paths, &[], options);
    let Some(sender) = allowed(open(Options::default())) else {
        return;
    };
    let capabilities = sender.capabilities();
    assert_eq!(capabilities.reached(), "af-xdp copy, need-wakeup");
    assert!(capabilities.profiles && capabilities.hot_load && !capabilities.needs_privileges);
    if capabilities.timestamps == Timestamps::Software {
        skip("veth cannot say when a frame left");
    }
    drop(sender);
    let two = Options {
        queues: Some(2),
        ..Options::default()
    };
    let error = open(two).err().unwrap().to_string();
    assert!(error.contains("tx0 has 1 queues"), "{error}");
    let taken = open(Options::default()).unwrap();
    let error = open(Options::default()).err().unwrap().to_string();
    drop(taken);
    for words in [
        "queue 0 of tx0 (veth, Linux ",
        "busy",
        "another AF_XDP socket",
    ] {
        assert!(error.contains(words), "{error}");
    }
    let zero_copy = open(Options {
        zero_copy: ZeroCopy::Require,
        ..Options::default()
    });
    match zero_copy {
        Ok(sender) => assert_eq!(sender.capabilities().copies, Copies::ZeroCopy),
        Err(error) => skip(format!("no zero-copy here: {error}")),
    }

    for (namespace, port) in [("dut", "eth0"), ("tester", "tx0")] {
        let command = format!("ethtool -L {port} rx 2 tx 2");
        let result = match namespace {
            "dut" => bed.in_dut(0, &command),
            _ => bed.in_tester(&command),
        };
        if let Err(reason) = result {
            return skip(reason);
        }
    }
    let Some(_pass) = allowed(XdpPass::open(&bed.dut_port(0))) else {
        return;
    };
    let busy = Options {
        busy_poll: Some(BusyPoll {
            wait_us: 20,
            budget: 64,
        }),
        ..two
    };
    for (options, reached) in [
        (Options::default(), "af-xdp copy, need-wakeup"),
        (two, "af-xdp copy, 2 queues, need-wakeup"),
        (busy, "af-xdp copy, 2 queues, need-wakeup, busy-poll"),
    ] {
        let mut sender = match open(options) {
            Err(error) if options.busy_poll.is_some() => {
                skip(error);
                continue;
            }
            result => result.unwrap(),
        };
        assert_eq!(sender.capabilities().reached(), reached);
        let queues = if options.queues.is_some() { 2 } else { 1 };
        for (frames, shares) in [(bursty(), None), (steady(), Some([2.0 / 6.0, 4.0 / 6.0]))] {
            let (ports, before) = (bed.transmitted(0), received_by_queue(&bed));
            let counts = send(&mut sender, &frames, Some(50_000.0), 3600);
            let port = bed.transmitted_of(0, ports, 3600);
            assert_eq!(counts.sent, [3600], "{reached}");
            assert_eq!((port.packets, port.dropped), (3600, 0), "{reached}");
            wait_until(|| {
                let now = received_by_queue(&bed);
                now[0] + now[1] >= before[0] + before[1] + 3600
            });
            let now = received_by_queue(&bed);
            let received = [now[0] - before[0], now[1] - before[1]];
            match shares {
                _ if queues == 1 => assert_eq!(received, [3600, 0], "{reached}"),
                // stream 1 in queue 1; 0 and 2 in queue 0
                Some([second, first]) => {
                    let expected = [first * 3600.0, second * 3600.0];
                    assert_eq!(received.map(|frames| frames as f64), expected, "{reached}");
                }
                None => assert!(
                    received[0] > 0 && received[1] > 0,
                    "{reached}: {received:?}"
                ),
            }
        }
    }
}

/// Returns the frames that the DUT's port received from each of our queues, as counted by its
/// driver.
fn received_by_queue(bed: &Bed) -> [u64; 2] {
    let text = bed.in_dut(0, "ethtool -S eth0").unwrap();
    [0, 1].map(|queue| {
        let name = format!("rx_queue_{queue}_xdp_packets:");
        let value = text.split(&name).nth(1).unwrap();
        value.split_whitespace().next().unwrap().parse().unwrap()
    })
}

/// A port that is removed while frames flow: the error contains its name, the thread ends, and the
/// counts remain available.
#[test]
fn a_port_that_vanishes_or_goes_down_ends_the_trial_with_an_error() {
    for (command, says) in [("ip link set tx0 down", "down"), ("ip link delete tx0", "")] {
        for mode in 0..2 {
            let Some(bed) = bed(1) else { return };
            let mut all = senders(&bed.paths());
            if mode >= all.len() {
                continue;
            }
            let (name, mut sender) = all.swap_remove(mode);
            drop(all);
            sender.arm(&Frames::Traffic(bursty())).unwrap();
            sender.start(schedule(Some(10_000.0), None)).unwrap();
            wait_until(|| sender.counts().unwrap().sent[0] > 100);
            bed.in_tester(command).unwrap();
            wait_until(|| sender.is_done());
            let case = format!("{name}, {command}");
            let error = sender.stop().unwrap_err().to_string();
            assert!(
                error.contains("tx0") && error.contains(says),
                "{case}: {error}"
            );
            assert!(sender.counts().unwrap().sent[0] > 100, "{case}");
            // again an error, and no hang
            let again = sender.start(schedule(Some(10_000.0), Some(10)));
            wait_until(|| sender.is_done());
            let again = again.and_then(|()| sender.stop());
            assert!(again.is_err(), "{case}: {again:?}");
            if command.ends_with("down") {
                bed.in_tester("ip link set tx0 up").unwrap();
                thread::sleep(Duration::from_millis(50));
                let counts = send(&mut *sender, &steady(), Some(10_000.0), 100);
                assert_eq!(counts.sent, [100], "{case}");
            }
        }
    }
}

/// When a process is killed, the kernel closes what it had open: its frames stop, and its queue is
/// free.
#[test]
fn a_killed_sender_leaves_nothing_behind() {
    if let Ok(port) = std::env::var(PORT) {
        return send_until_killed(&port);
    }
    let Some(bed) = bed(1) else { return };
    if allowed(af_xdp::sender(&bed.paths(), &[])).is_none() {
        return;
    }
    for mode in [Mode::AfXdp, Mode::AfPacket] {
        let before = bed.transmitted(0);
        let mut child = KilledChild(victim(&bed, mode));
        wait_until(|| {
            assert!(
                child.0.try_wait().unwrap().is_none(),
                "the victim died by itself"
            );
            bed.transmitted(0).since(before).packets > 1000
        });
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        bed.transmitted_at_rest(0);
        let link = bed.in_tester("ip -d link show dev tx0").unwrap();
        assert!(!link.contains("xdp") && !link.contains("PROMISC"), "{link}");
        let (_, mut sender) = senders(&bed.paths()).remove(0);
        assert_eq!(
            send(&mut *sender, &steady(), Some(50_000.0), 100).sent,
            [100]
        );
    }
}

/// A child process that is killed at the end of the test.
struct KilledChild(Child);

impl Drop for KilledChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PORT: &str = "FWDLAB_TEST_VICTIM";

/// Runs this test again as a process that finds a port to send to, and is killed while sending.
fn victim(bed: &Bed, mode: Mode) -> Child {
    let tx = &bed.paths()[0].tx;
    let netns = tx.netns.as_ref().unwrap().display().to_string();
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "veth::traffic::a_killed_sender_leaves_nothing_behind",
        ])
        .env(PORT, format!("{netns} {} {}", tx.interface, mode.name()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn send_until_killed(port: &str) {
    let words: Vec<&str> = port.split(' ').collect();
    let tx = PortSpec {
        netns: Some(words[0].into()),
        interface: words[1].into(),
    };
    let path = PathSpec { rx: tx.clone(), tx };
    let mut sender: Box<dyn Sender> = match words[2] {
        "af-xdp" => Box::new(af_xdp::sender(&[path], &[]).unwrap()),
        _ => Box::new(af_packet::sender(&[path], &[]).unwrap()),
    };
    sender.arm(&Frames::Traffic(bursty())).unwrap();
    sender.start(schedule(None, None)).unwrap();
    wait_until(|| sender.is_done());
}

#[test]
fn frames_too_large_for_a_chunk_are_for_another_engine() {
    let Some(bed) = bed(1) else { return };
    let large = traffic(vec![streams::stream(
        1,
        vec![kind(3000, 1, true)],
        vec![0],
        Timing::new(1.0, Emission::Continuous),
    )]);
    bed.in_tester("ip link set tx0 mtu 4000").unwrap();
    bed.in_dut(0, "ip link set eth0 mtu 4000").unwrap();
    for (name, mut sender) in senders(&bed.paths()) {
        match sender.arm(&Frames::Traffic(large.clone())) {
            Err(EngineError::Unsupported {
                engine,
                action: what,
            }) => {
                assert_eq!((engine, name), ("af-xdp", "af-xdp"));
                assert!(what.contains("2996"), "{what}");
            }
            result => {
                assert_eq!(name, "af-packet");
                result.unwrap();
                sender.start(schedule(Some(10_000.0), Some(100))).unwrap();
                wait_until(|| sender.is_done());
                assert_eq!(sender.stop().unwrap().sent, [100]);
            }
        }
    }
}
