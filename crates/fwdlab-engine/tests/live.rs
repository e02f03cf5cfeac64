//! Live frames on the wire: profiles byte for byte, departure times, changing loads, and the
//! cleanup at the end.
//!
//! Needs root, `ip`, `ethtool` and for one test `nft`. Tests that cannot run here print `SKIPPED`
//! and the reason on stderr.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
use fwdlab_engine::capture::{Capture, Options};
use fwdlab_engine::netdev::XdpPass;
use fwdlab_engine::traffic::compile::{self, Direction, Setting};
use fwdlab_engine::traffic::player::Player;
use fwdlab_engine::traffic::{Emission, Kind, Stream, Timing};
use fwdlab_engine::xdp_live::XdpLive;
use fwdlab_engine::{
    EngineError, Frames, LoadPlan, Mode, PathSpec, PortSpec, Schedule, SendCounts, Sender,
    SignaturePlace, StallPolicy, TestFrames, TrafficFrames, open_sender,
};
use fwdlab_model::procedure::Stretch;
use fwdlab_model::profile::Profile;
use fwdlab_packet::flow::{
    DEFAULT_DESTINATION_V4, DEFAULT_DESTINATION_V6, DEFAULT_SOURCE_V4, DEFAULT_SOURCE_V6,
};
use fwdlab_packet::header::{ethernet, icmp, icmpv6, ipv4, ipv6, tcp, udp, vlan};
use fwdlab_packet::modifier::{
    self, Endian, Instruction, Program, Source, Transport, Variable, Width,
};
use fwdlab_packet::stack::{Layer, Size, build};
use fwdlab_packet::{
    FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature, Span, signature,
};

use crate::bed::{ADDRESSES, Bed, allowed, bed, skip, wait_until};

use crate::streams;

const NONCE: u16 = 0x3a7;

/// The EtherType of frames without a signature.
const UNKNOWN: [u8; 2] = [0x88, 0xb5];

/// Opens the sender, or skips the test if privileges are missing.
fn live(paths: &[PathSpec]) -> Option<XdpLive> {
    allowed(XdpLive::open(paths, &[]))
}

fn schedule(load_pps: Option<f64>, frames: Option<u64>) -> Schedule {
    Schedule {
        load: load_pps.into(),
        frames,
        at_most: Duration::from_secs(15),
        stall_policy: StallPolicy::Skip,
        path: 0,
    }
}

fn send(sender: &mut XdpLive, load_pps: Option<f64>, frames: u64) -> SendCounts {
    sender.start(schedule(load_pps, Some(frames))).unwrap();
    wait_until(|| sender.is_done());
    sender.stop().unwrap()
}

/// Captures what arrives at a path's DUT, frame by frame: GRO would delay TCP frames.
struct Listener {
    capture: Capture,
    /// Live frames need NAPI; without this program, only GRO would make the port run it.
    _napi: XdpPass,
}

fn listen(bed: &Bed, path: usize) -> Listener {
    let port = bed.dut_port(path);
    let napi = XdpPass::open(&port).unwrap();
    bed.in_dut(path, "ethtool -K eth0 gro off").unwrap();
    let options = Options {
        outgoing: false,
        ..Options::default()
    };
    Listener {
        capture: Capture::open(&port, &options).unwrap(),
        _napi: napi,
    }
}

/// Returns this number of our frames with their arrival times, or fewer if no more arrive.
fn take(Listener { capture, .. }: &mut Listener, frames: usize) -> Vec<(u64, Vec<u8>)> {
    let mut taken = vec![];
    let mut last = Instant::now();
    while taken.len() < frames && last.elapsed().as_secs() < 2 {
        let before = taken.len();
        capture
            .frames(Duration::from_millis(100), &mut |frame| {
                if frame.bytes[6..12] == ADDRESSES.source_mac {
                    taken.push((frame.timestamp_ns, frame.bytes.to_vec()));
                }
                true
            })
            .unwrap();
        if taken.len() > before {
            last = Instant::now();
        }
    }
    assert_eq!(capture.statistics().unwrap().dropped, 0);
    taken
}

/// Opens this number of senders, each on its own CPU, or skips the test.
fn several(path: &PathSpec, senders: u32) -> Option<Box<dyn Sender>> {
    let opened = open_sender(Mode::XdpLive, std::slice::from_ref(path), &[], senders);
    match opened {
        Err(error @ EngineError::Unsupported { .. }) => {
            skip(error);
            None
        }
        opened => allowed(opened),
    }
}

/// The frames that two senders put on the wire are those of one, in their turns and at their times.
#[test]
fn two_senders_take_turns() {
    const FRAMES: u64 = 1000;
    const FLOWS: u64 = 64;
    let Some(bed) = bed(1) else { return };
    let Some((path, peer)) = bed.wide_pair(8) else {
        return;
    };
    let options = Options {
        outgoing: false,
        ..Options::default()
    };
    let mut listener = Listener {
        capture: Capture::open(&peer, &options).unwrap(),
        _napi: XdpPass::open(&peer).unwrap(),
    };
    let Some(mut sender) = several(&path, 2) else {
        return;
    };
    assert_eq!(sender.capabilities().reached(), "xdp-live, 2 senders");
    for load in [
        LoadPlan::Constant(5000.0),
        LoadPlan::from_stretches(vec![
            Stretch {
                duration_ns: 100_000_000,
                from_pps: 0.0,
                to_pps: 10_000.0,
            },
            Stretch::constant(5000.0, 1_000_000_000),
        ]),
    ] {
        let is_constant = matches!(load, LoadPlan::Constant(_));
        sender.arm(&test_frames(64)).unwrap();
        sender
            .start(Schedule {
                load,
                stall_policy: StallPolicy::CatchUp { most_pps: None },
                ..schedule(None, Some(FRAMES))
            })
            .unwrap();
        wait_until(|| sender.is_done());
        let counts = sender.stop().unwrap();
        if counts.not_sent > 0 {
            return skip("the senders stalled for a second");
        }
        let is_on_time = counts.made_up == 0;
        if !is_on_time {
            skip("the times were not compared: the senders stalled");
        }
        let of_each: Vec<u64> = counts.senders.iter().map(SendCounts::total).collect();
        assert_eq!(of_each, [FRAMES / 2; 2]);
        let captured = take(&mut listener, FRAMES as usize);
        let frames = streams::by_number(captured.iter().map(|(_, frame)| frame), |signature| {
            assert_eq!(signature.nonce, NONCE);
            2 * signature.sequence + u64::from(signature.stream >> 12)
        });
        assert!(
            frames.keys().copied().eq(0..FRAMES),
            "{} frames",
            frames.len()
        );
        let flows = FlowSet::default_v4(FLOWS as u32).unwrap();
        let first_ns = frames[&0].0.timestamp_ns;
        for (number, (signature, frame)) in &frames {
            let template = template(IpVersion::V4, 64);
            let mut expected = vec![0; template.buffer_len()];
            let flow = flows.flow(number % FLOWS);
            template.write(&mut expected, &flow, signature);
            assert_eq!(**frame, expected, "{number}");
            // the intended departure
            let planned_ns = first_ns + number * 200_000;
            if is_constant && is_on_time {
                assert!(
                    signature.timestamp_ns.abs_diff(planned_ns) <= 1,
                    "{number}: {signature:?}"
                );
            }
        }
        let departures: Vec<u64> = frames
            .values()
            .map(|(signature, _)| signature.timestamp_ns)
            .collect();
        assert!(departures.is_sorted() || !is_on_time, "they take turns");
    }
}

/// At full speed: every frame is in the counters of both ends of the pair.
#[test]
fn frames_of_two_live_senders_are_in_the_ports_counters() {
    const FRAMES: u64 = 200_000;
    let Some(bed) = bed(1) else { return };
    let Some((path, peer)) = bed.wide_pair(8) else {
        return;
    };
    let _napi = XdpPass::open(&peer).unwrap();
    for senders in [1, 2] {
        let Some(mut sender) = several(&path, senders) else {
            return;
        };
        sender.arm(&test_frames(64)).unwrap();
        // then fewer frames than senders: the idle one counts none of the trial before
        for frames in [FRAMES, 1] {
            let before = bed.counted_at_wide_pair();
            sender.start(schedule(None, Some(frames))).unwrap();
            wait_until(|| sender.is_done());
            let counts = sender.stop().unwrap();
            assert_eq!(counts.sent[0], frames, "{senders} senders: {counts:?}");
            let (port, received) = bed.counted_at_wide_pair_since(before, frames);
            let case = format!("{senders} senders: {counts:?} {port:?}");
            assert_eq!(port.total(), frames, "{case}");
            assert_eq!(received, port.packets, "{case}");
            if senders > 1 {
                let of_each: Vec<u64> = counts.senders.iter().map(SendCounts::total).collect();
                assert_eq!(of_each, [frames.div_ceil(2), frames / 2], "{case}");
            }
        }
    }
    let three = open_sender(Mode::XdpLive, &[path], &[0, 8, 16], 3);
    let error = three.err().unwrap().to_string();
    assert!(error.contains("modulo the 8 receive queues"), "{error}");
}

fn template(version: IpVersion, frame_size: u16) -> FrameTemplate {
    FrameTemplate::new(&FrameSpec {
        source: MacAddr(ADDRESSES.source_mac),
        destination: MacAddr(ADDRESSES.destination_mac),
        version,
        frame_size,
    })
    .unwrap()
}

fn test_frames(frame_size: u16) -> Frames {
    Frames::Test(TestFrames {
        template: template(IpVersion::V4, frame_size),
        flows: FlowSet::default_v4(64).unwrap(),
        nonce: NONCE,
    })
}

/// The numbers of sources, destinations, source ports and destination ports.
fn flow_set(version: IpVersion, counts: [u32; 4]) -> FlowSet {
    fn spans<T: Copy>(first: [T; 2], counts: [u32; 2]) -> [Span<T>; 2] {
        [0, 1].map(|side| Span {
            first: first[side],
            count: counts[side],
        })
    }
    let [from_ports, to_ports] = spans([2000, 3000], [counts[2], counts[3]]);
    match version {
        IpVersion::V4 => {
            let first = [DEFAULT_SOURCE_V4, DEFAULT_DESTINATION_V4];
            let [sources, destinations] = spans(first, [counts[0], counts[1]]);
            FlowSet::v4(sources, destinations, from_ports, to_ports)
        }
        IpVersion::V6 => {
            let first = [DEFAULT_SOURCE_V6, DEFAULT_DESTINATION_V6];
            let [sources, destinations] = spans(first, [counts[0], counts[1]]);
            FlowSet::v6(sources, destinations, from_ports, to_ports)
        }
    }
    .unwrap()
}

/// A kind of frames that differ in four bytes, with its signature at the end or at an offset.
fn kind(
    layers: &[Layer],
    frame_size: usize,
    (offset, values): (u16, u64),
    signature: Option<u16>,
    fix: Option<Instruction>,
) -> Kind {
    let mut all = vec![Layer::Ethernet(ethernet::Repr {
        destination: MacAddr(ADDRESSES.destination_mac),
        source: MacAddr(ADDRESSES.source_mac),
        ethertype: u16::from_be_bytes(UNKNOWN),
    })];
    all.extend_from_slice(layers);
    let payload: Vec<u8> = (0..=255).collect();
    all.push(Layer::Payload(payload[..18].to_vec()));
    let template = build(&all, Size::Frame(frame_size)).unwrap().bytes;
    let first = u32::from_be_bytes(*template[usize::from(offset)..].first_chunk().unwrap());
    let mut instructions = vec![Instruction::Write {
        variable: "n".into(),
        offset,
        add: 0,
        endian: Endian::Big,
    }];
    instructions.extend(signature.map(|offset| Instruction::Signature { offset }));
    instructions.extend(fix);
    Kind {
        program: Program {
            variables: vec![Variable {
                name: "n".into(),
                width: Width::Four,
                source: Source::Counter {
                    direction: modifier::Direction::Increment,
                    initial: first.into(),
                    min: first.into(),
                    max: u64::from(first) + values - 1,
                    step: 1,
                },
                split: true,
                next: None,
            }],
            instructions,
            cache: None,
        },
        place: signature.map(
            |at| match usize::from(at) + signature::LEN == template.len() {
                true => SignaturePlace::Tail,
                false => SignaturePlace::UdpPayload,
            },
        ),
        template,
    }
}

fn stream(id: u16, kinds: Vec<Kind>, pattern: Vec<u16>, rate_pps: f64) -> Stream {
    let timing = Timing::new(rate_pps, Emission::Continuous);
    streams::stream(id, kinds, pattern, timing)
}

fn traffic(streams: Vec<Stream>) -> TrafficFrames {
    streams::traffic(streams, NONCE)
}

/// An IMIX of UDP; UDP over IPv6 in a VLAN; TCP, ICMP and ICMPv6 with signatures at odd and even
/// offsets within their checksummed bytes; frames without a signature. Their rates make them leave
/// unevenly.
fn mix() -> TrafficFrames {
    let ipv4 = Layer::Ipv4(ipv4::Repr {
        source: [198, 18, 0, 2].into(),
        destination: [198, 19, 0, 2].into(),
        ..ipv4::Repr::default()
    });
    let ipv6 = Layer::Ipv6(ipv6::Repr {
        source: "2001:2::2".parse().unwrap(),
        destination: "2001:2:0:8000::2".parse().unwrap(),
        ..ipv6::Repr::default()
    });
    let udp = Layer::Udp(udp::Repr {
        source_port: 4000,
        destination_port: 9,
        payload_len: 0,
    });
    let tag = Layer::Vlan(vlan::Repr {
        priority: 5,
        drop_eligible: false,
        id: 77,
        ethertype: 0,
    });
    let fix = |l2_len, l3_len, transport| {
        Some(Instruction::FixTransport {
            l2_len,
            l3_len,
            transport,
        })
    };
    let imix = |frame_size, flows| {
        let layers = [ipv4.clone(), udp.clone()];
        let fix = fix(14, 20, Transport::Udp);
        kind(&layers, frame_size, (26, flows), Some(42), fix)
    };
    let segment = Layer::Tcp(tcp::Repr {
        source_port: 4000,
        destination_port: 80,
        sequence: 1,
        acknowledgment: 2,
        flags: tcp::flag::ACK,
        window: 1000,
        urgent: 0,
        options: Default::default(),
    });
    let echo = Layer::Icmp(icmp::Repr::echo_request(7, 1));
    let echo6 = Layer::Icmpv6(icmpv6::Repr::echo_request(7, 1));
    let tail = |frame_size: usize| Some((frame_size - 4 - signature::LEN) as u16);
    traffic(vec![
        stream(
            1,
            vec![imix(64, 5), imix(594, 3), imix(1518, 2)],
            vec![0, 1, 0, 0, 1, 0, 0, 2, 0, 1, 0, 1],
            4000.0,
        ),
        stream(
            2,
            vec![kind(
                &[tag, ipv6.clone(), udp],
                128,
                (38, 6),
                Some(66),
                fix(18, 40, Transport::Udp),
            )],
            vec![0],
            2000.0,
        ),
        stream(
            3,
            [105, 204]
                .map(|size| {
                    let layers = [ipv4.clone(), segment.clone()];
                    kind(
                        &layers,
                        size,
                        (26, 2),
                        tail(size),
                        fix(14, 20, Transport::Tcp),
                    )
                })
                .to_vec(),
            vec![0, 1],
            1000.0,
        ),
        stream(
            4,
            vec![kind(
                &[ipv4, echo],
                99,
                (26, 3),
                tail(99),
                fix(14, 20, Transport::Icmp),
            )],
            vec![0],
            1000.0,
        ),
        stream(
            5,
            vec![kind(
                &[ipv6, echo6],
                300,
                (34, 2),
                tail(300),
                Some(Instruction::FixIcmpv6 {
                    l2_len: 14,
                    l3_len: 40,
                }),
            )],
            vec![0],
            1000.0,
        ),
        stream(6, vec![kind(&[], 64, (20, 4), None, None)], vec![0], 500.0),
    ])
}

/// Returns where each kind of frames has its signature, numbered through all streams.
fn signatures(frames: &TrafficFrames) -> Vec<Option<usize>> {
    let at = |kind: &Kind| {
        kind.program.instructions.iter().find_map(|i| match i {
            Instruction::Signature { offset } => Some(usize::from(*offset)),
            _ => None,
        })
    };
    let kinds = frames.traffic.streams.iter().flat_map(|s| &s.kinds);
    kinds.map(at).collect()
}

/// Checks that the captured frames equal those of the player, and if no departure was skipped, that
/// they were due at its times. Frames with a signature arrive in its order. Those without have an
/// EtherType that the kernel does not know; of a batch of frames it passes those to a capture last,
/// so they are matched by their bytes at any position.
fn assert_as_played(
    case: &str,
    frames: &TrafficFrames,
    load_pps: f64,
    captured: &[(u64, Vec<u8>)],
    counts: &SendCounts,
) {
    let mut player = Player::new(frames, Some(load_pps)).unwrap();
    let signatures = signatures(frames);
    let mut buffer = vec![0; player.buffer_len()];
    let mut of_streams = vec![0; player.streams()];
    let mut start = None;
    let mut left: Vec<&[u8]> = captured.iter().map(|(_, frame)| &frame[..]).collect();
    for at in 0..captured.len() {
        let upcoming = player.upcoming().unwrap();
        let due_ns = upcoming.due >> 16;
        of_streams[upcoming.stream as usize] += 1;
        let id = frames.traffic.streams[upcoming.stream as usize].id;
        let signature = |frame: &[u8]| {
            let signed = frame.get(signatures[upcoming.kind as usize]?..)?;
            let signature = Signature::read(signed)?;
            let is_its = Signature::matches(signed, frames.nonce) && signature.stream == id;
            is_its.then_some(signature)
        };
        let next = signatures[upcoming.kind as usize]
            .and_then(|_| left.iter().position(|frame| frame[12..14] != UNKNOWN));
        let time = next.and_then(|next| signature(left[next]).map(|s| s.timestamp_ns));
        let bytes = player.take(&mut buffer, None, time.unwrap_or(0));
        let next = next.or_else(|| left.iter().position(|frame| *frame == &buffer[..bytes]));
        let frame = left.remove(next.unwrap_or(0));
        assert_eq!(*frame, buffer[..bytes], "{case}, frame {at}: {upcoming:?}");
        if let Some(time) = time.filter(|_| counts.not_sent == 0) {
            let start = *start.get_or_insert(time - due_ns);
            assert!(
                (start + due_ns).abs_diff(time) <= 1,
                "{case}, frame {at}: due {due_ns}, {time}"
            );
        }
    }
    assert_eq!(counts.streams, of_streams, "{case}");
}

/// Checks all checksums with another implementation; returns the kind of the frame.
fn check_with_etherparse(frame: &[u8]) -> &'static str {
    let headers = PacketHeaders::from_ethernet_slice(frame).unwrap();
    let payload = headers.payload.slice();
    let (Some(net), Some(transport)) = (&headers.net, &headers.transport) else {
        return "other";
    };
    if let NetHeaders::Ipv4(ip, _) = net {
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    }
    match (net, transport) {
        (NetHeaders::Ipv4(ip, _), TransportHeader::Udp(udp)) => {
            assert_eq!(udp.checksum, udp.calc_checksum_ipv4(ip, payload).unwrap());
            "udp"
        }
        (NetHeaders::Ipv6(ip, _), TransportHeader::Udp(udp)) => {
            assert_eq!(udp.checksum, udp.calc_checksum_ipv6(ip, payload).unwrap());
            assert!(!headers.link_exts.is_empty());
            "udp over IPv6 in a VLAN"
        }
        (NetHeaders::Ipv4(ip, _), TransportHeader::Tcp(tcp)) => {
            assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(ip, payload).unwrap());
            "tcp"
        }
        (NetHeaders::Ipv4(..), TransportHeader::Icmpv4(icmp)) => {
            assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(payload));
            "icmp"
        }
        (NetHeaders::Ipv6(ip, _), TransportHeader::Icmpv6(icmp)) => {
            let checksum = icmp
                .icmp_type
                .calc_checksum(ip.source, ip.destination, payload);
            assert_eq!(icmp.checksum, checksum.unwrap());
            "icmpv6"
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn profiles_are_sent_as_packet_renders_them() {
    const LOAD_PPS: f64 = 20_000.0;
    const FRAMES: u64 = 6000;
    let Some(bed) = bed(1) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    let frames = mix();
    sender.arm(&Frames::Traffic(frames.clone())).unwrap();
    let mut capture = listen(&bed, 0);
    let before = bed.transmitted(0);
    let counts = send(&mut sender, Some(LOAD_PPS), FRAMES);
    let captured = take(&mut capture, FRAMES as usize);
    let port = bed.transmitted_of(0, before, FRAMES);
    assert_eq!((port.packets, port.dropped), (FRAMES, 0));
    assert_eq!(counts.sent, [FRAMES]);
    assert_eq!(captured.len() as u64, FRAMES);
    assert_as_played("mix", &frames, LOAD_PPS, &captured, &counts);
    let mut seen = BTreeMap::new();
    for (_, frame) in &captured {
        *seen.entry(check_with_etherparse(frame)).or_insert(0) += 1;
    }
    let expected = [
        ("icmp", counts.streams[3]),
        ("icmpv6", counts.streams[4]),
        ("other", counts.streams[5]),
        ("tcp", counts.streams[2]),
        ("udp", counts.streams[0]),
        ("udp over IPv6 in a VLAN", counts.streams[1]),
    ];
    assert_eq!(seen, expected.into());
    // in proportion to the rates: 8 to 4 to 2 to 2 to 2 to 1
    let share = FRAMES as f64 / 19.0;
    for (sent, rate) in counts.streams.iter().zip([8.0, 4.0, 2.0, 2.0, 2.0, 1.0]) {
        assert!((*sent as f64 - rate * share).abs() <= 2.0, "{counts:?}");
    }
    let lateness = sender.lateness().unwrap().unwrap();
    assert!((1..=FRAMES).contains(&lateness.len()));
}

/// Every sequence number and time has its own checksum; some of the checksums are 0 before they are
/// written.
#[test]
fn checksums_are_right_flat_out_and_never_none_in_udp() {
    let Some(bed) = bed(1) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    let frames = mix();
    sender.arm(&Frames::Traffic(frames.clone())).unwrap();
    // the peer handles them on this CPU, one batch after another
    let mut capture = listen(&bed, 0);
    let before = bed.transmitted(0);
    let counts = send(&mut sender, None, 30_000);
    let port = bed.transmitted_of(0, before, 30_000);
    assert_eq!(counts.sent, [port.total()]);
    assert_eq!(sender.lateness().unwrap(), None);
    let captured = take(&mut capture, port.packets as usize);
    assert_eq!(captured.len() as u64, port.packets);
    for (_, frame) in &captured {
        check_with_etherparse(frame);
    }
}

/// Sets of all shapes at full speed: in every round, each frame is the one that the template
/// writes.
#[test]
fn test_frames_flat_out_are_those_of_the_template() {
    const FRAMES: u64 = 4000;
    let Some(bed) = bed(1) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    for (version, frame_size) in [(IpVersion::V4, 64), (IpVersion::V6, 84)] {
        for flows in [
            flow_set(version, [1, 1, 1, 1]),
            flow_set(version, [3, 1, 5, 1]),
            flow_set(version, [2, 7, 3, 5]),
            flow_set(version, [1, 1000, 1, 1]),
        ] {
            let frames = TestFrames {
                template: template(version, frame_size),
                flows,
                nonce: NONCE,
            };
            sender.arm(&Frames::Test(frames.clone())).unwrap();
            let mut capture = listen(&bed, 0);
            let before = bed.transmitted(0);
            let counts = send(&mut sender, None, FRAMES);
            let port = bed.transmitted_of(0, before, FRAMES);
            assert_eq!(counts.sent, [port.total()]);
            let captured = take(&mut capture, port.packets as usize);
            assert_eq!(captured.len() as u64, port.packets);
            for (_, frame) in &captured {
                let at = match version {
                    IpVersion::V4 => signature::OFFSET_IPV4_UDP,
                    IpVersion::V6 => signature::OFFSET_IPV6_UDP,
                };
                let signature = Signature::read(&frame[at..]).unwrap();
                let flow = flows.flow(signature.sequence % flows.len());
                let mut expected = vec![0; frames.template.buffer_len()];
                frames.template.write(&mut expected, &flow, &signature);
                assert_eq!(frame, &expected, "{flows:?}, {signature:?}");
            }
        }
    }
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.insert(path);
        }
    }
    files
}

/// No remains of another trial's longer or shorter frames are left in the pages.
#[test]
fn test_frames_and_profiles_take_turns() {
    let Some(bed) = bed(1) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    for round in 0..3 {
        sender.arm(&test_frames(64 + round)).unwrap();
        let counts = send(&mut sender, Some(20_000.0), 100);
        assert_eq!((counts.sent, counts.streams), (vec![100], vec![]));
        let mut frames = mix();
        frames.nonce += round;
        sender.arm(&Frames::Traffic(frames.clone())).unwrap();
        let mut capture = listen(&bed, 0);
        let counts = send(&mut sender, Some(20_000.0), 500);
        let captured = take(&mut capture, 500);
        assert_eq!(captured.len(), 500);
        assert_as_played("again", &frames, 20_000.0, &captured, &counts);
    }
}

/// Departures are exact: consecutive frames are one gap apart, and at a change of the load at most
/// the longer of both. Skipped departures are counted.
#[test]
fn a_load_changes_without_a_gap_and_without_a_debt() {
    const LOADS: [f64; 3] = [20_000.0, 47_000.0, 9_700.0];
    let Some(bed) = bed(1) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    let gap = |phase: usize| 1e9 / LOADS[phase];
    for frames in [
        test_frames(64),
        Frames::Traffic(traffic(vec![mix().traffic.streams[0].clone()])),
    ] {
        sender.arm(&frames).unwrap();
        assert!(sender.set_load(1000.0).is_err(), "it does not send yet");
        let mut capture = listen(&bed, 0);
        sender.start(schedule(Some(LOADS[0]), None)).unwrap();
        for (phase, more) in [1000, 2000, 800].into_iter().enumerate() {
            if phase > 0 {
                sender.set_load(LOADS[phase]).unwrap();
            }
            let before = sender.counts().unwrap().sent[0];
            wait_until(|| sender.counts().unwrap().sent[0] > before + more);
        }
        let counts = sender.stop().unwrap();
        let captured = take(&mut capture, counts.sent[0] as usize);
        assert_eq!(captured.len() as u64, counts.sent[0]);
        let due: Vec<u64> = captured
            .iter()
            .map(|(_, frame)| Signature::read(&frame[42..]).unwrap().timestamp_ns)
            .collect();
        let (mut phase, mut left_out) = (0, 0);
        for (at, pair) in due.windows(2).enumerate() {
            let between = (pair[1] - pair[0]) as f64;
            let gaps = (between / gap(phase)).round().max(1.0);
            if (between - gaps * gap(phase)).abs() <= 2.0 {
                left_out += gaps as u64 - 1;
                continue;
            }
            phase += 1;
            assert!(
                phase < LOADS.len(),
                "frame {at}: {between} ns between frames"
            );
            let longest = gap(phase).max(gap(phase - 1)) + 2.0;
            assert!(
                between <= longest || counts.not_sent > 0,
                "frame {at}: {between} ns at a change of the load"
            );
        }
        assert_eq!(phase, LOADS.len() - 1);
        assert!(
            left_out <= counts.not_sent,
            "{left_out} left out, {counts:?}"
        );
        // and they left at those times: both clocks run at the same rate, whatever their offset
        let mut late: Vec<u64> = captured
            .iter()
            .zip(&due)
            .map(|((at, _), due)| at - due)
            .collect();
        late.sort_unstable();
        assert!(late[late.len() / 2] - late[0] < 1_000_000, "{late:?}");
    }
    sender.start(schedule(None, Some(1000))).unwrap();
    assert!(sender.set_load(1000.0).is_err(), "flat out has no load");
    sender.stop().unwrap();
}

/// All frames that were due until the end were sent or counted as not sent: the intended load to
/// the last frame.
#[test]
fn due_frames_equal_the_load() {
    let Some(bed) = bed(1) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    for (load_pps, millis) in [(10_000.0, 300), (333_333.0, 300), (1e6, 200), (5e6, 100)] {
        for frames in [test_frames(64), Frames::Traffic(mix())] {
            let before = bed.transmitted(0);
            sender.arm(&frames).unwrap();
            sender
                .start(Schedule {
                    at_most: Duration::from_millis(millis),
                    ..schedule(Some(load_pps), None)
                })
                .unwrap();
            wait_until(|| sender.is_done());
            // the sender reads the clock for the last time after the end
            thread::sleep(Duration::from_millis(50));
            let counts = sender.stop().unwrap();
            let port = bed.transmitted_of(0, before, counts.sent[0]);
            assert_eq!(counts.sent, [port.total()]);
            let due = load_pps * millis as f64 / 1000.0;
            let off = (counts.sent[0] + counts.not_sent) as f64 - due;
            // streams of a profile do not leave evenly, so the number of skipped frames is right
            // only on average
            let allowed = match frames {
                Frames::Test(_) => 1.0,
                Frames::Traffic(_) => 20.0,
            };
            assert!(off.abs() <= allowed, "{load_pps}: {off} off, {counts:?}");
        }
    }
}

#[test]
fn everything_sent_is_in_the_ports_counters_under_overload() {
    const FRAMES: u64 = 50_000;
    let Some(bed) = bed(1) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    bed.in_dut(0, "echo 1 > /sys/class/net/eth0/threaded")
        .unwrap();
    let rules = "nft add table ip slow && \
        nft add chain ip slow forward '{ type filter hook forward priority 0; }' && \
        for i in $(seq 1000); do echo add rule ip slow forward ip saddr 192.0.2.1 drop; done | nft -f -";
    if let Err(reason) = bed.in_dut(0, rules) {
        return skip(reason);
    }
    let before = bed.transmitted(0);
    sender.arm(&Frames::Traffic(mix())).unwrap();
    let counts = send(&mut sender, None, FRAMES);
    assert_eq!(counts.sent, [FRAMES]);
    let port = bed.transmitted_of(0, before, FRAMES);
    assert!(port.dropped > 0, "no overload: {port:?}");
    assert_eq!(port.total(), FRAMES);
    assert_eq!(counts.streams.iter().sum::<u64>(), FRAMES);
}

#[test]
fn select_steers_frames_and_the_cycle_continues() {
    let Some(bed) = bed(2) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    let frames = mix();
    sender.arm(&Frames::Traffic(frames.clone())).unwrap();
    let mut captures = [0, 1].map(|path| listen(&bed, path));
    sender.start(schedule(Some(20_000.0), Some(4000))).unwrap();
    wait_until(|| sender.counts().unwrap().sent[0] > 1000);
    sender.select(1).unwrap();
    wait_until(|| sender.is_done());
    let counts = sender.stop().unwrap();
    assert_eq!(counts.total(), 4000);
    let mut captured = take(&mut captures[0], counts.sent[0] as usize);
    captured.extend(take(&mut captures[1], counts.sent[1] as usize));
    assert_eq!(captured.len(), 4000);
    assert_as_played("two paths", &frames, 20_000.0, &captured, &counts);
}

#[test]
fn traffic_that_cannot_be_sent_is_refused_with_a_reason() {
    let Some(bed) = bed(1) else { return };
    let Some(mut sender) = live(&bed.paths()) else {
        return;
    };
    let reason =
        |sender: &mut XdpLive, frames: &Frames| sender.arm(frames).unwrap_err().to_string();
    let with = |change: &dyn Fn(&mut Stream)| {
        let mut streams = mix().traffic.streams.clone();
        change(&mut streams[1]);
        Frames::Traffic(traffic(streams))
    };
    let burst = with(&|s| s.timing.mode = Emission::Burst { frames: 9 });
    assert_eq!(
        reason(&mut sender, &burst),
        "xdp-live cannot send a stream in bursts or to an end (stream s2 of test)"
    );
    let delay = with(&|s| s.timing.delay_ns = 1);
    assert!(reason(&mut sender, &delay).contains("start one stream later than another"));
    let odd = with(&|s| s.timing.rate_pps = 1e-4);
    assert!(reason(&mut sender, &odd).contains("do not repeat"));
    let long = with(&|s| match &mut s.kinds[0].program.variables[0].source {
        Source::Counter { max, .. } => *max += 3_000_000,
        other => panic!("{other:?}"),
    });
    assert!(reason(&mut sender, &long).contains("it has room for 1048576"));
    let too_long = reason(&mut sender, &test_frames(3077));
    assert!(
        too_long.contains("more than 3072 bytes without FCS, and one has 3073"),
        "{too_long}"
    );
    assert!(
        sender.start(schedule(None, None)).is_err(),
        "nothing is armed"
    );
    bed.in_tester("ip link set tx0 mtu 3100").unwrap();
    bed.in_dut(0, "ip link set eth0 mtu 3100").unwrap();
    sender.arm(&test_frames(3076)).unwrap();
    assert_eq!(send(&mut sender, Some(10_000.0), 10).sent, [10]);
}

#[test]
fn a_port_that_goes_down_or_away_ends_the_trial_with_an_error() {
    for command in ["set tx0 down", "set eth0 down", "delete tx0"] {
        let Some(bed) = bed(1) else { return };
        let Some(mut sender) = live(&bed.paths()) else {
            return;
        };
        sender.arm(&Frames::Traffic(mix())).unwrap();
        sender.start(schedule(Some(10_000.0), None)).unwrap();
        wait_until(|| sender.counts().unwrap().sent[0] > 100);
        let command = format!("ip link {command}");
        match command.contains("eth0") {
            true => bed.in_dut(0, &command).unwrap(),
            false => bed.in_tester(&command).unwrap(),
        };
        let begin = Instant::now();
        wait_until(|| sender.is_done());
        assert!(begin.elapsed().as_secs() < 3, "{command}");
        let error = sender.stop().unwrap_err().to_string();
        assert!(error.contains("send into tx0"), "{command}: {error}");
        let again = sender.start(schedule(Some(10_000.0), Some(10)));
        assert!(again.is_err(), "{command}");
    }
}

/// After a process was killed, its programs and maps disappear, and its frames stop.
#[test]
fn a_killed_sender_leaves_nothing_behind() {
    if let Ok(netns) = std::env::var(VICTIM) {
        return send_until_killed(&netns);
    }
    let Some(bed) = bed(1) else { return };
    if live(&bed.paths()).is_none() {
        return;
    }
    let before = bed.transmitted(0);
    let netns = bed.paths()[0].tx.netns.clone().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "live::a_killed_sender_leaves_nothing_behind"])
        .env(VICTIM, netns)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut victim = KilledChild(child.unwrap());
    wait_until(|| {
        assert!(victim.0.try_wait().unwrap().is_none(), "it died by itself");
        bed.transmitted(0).since(before).packets > 1000
    });
    let ids = programs_of(victim.0.id());
    assert!(!ids.is_empty());
    assert!(ids.is_subset(&loaded_programs()));
    victim.0.kill().unwrap();
    victim.0.wait().unwrap();
    // programs are freed after a grace period
    wait_until(|| ids.is_disjoint(&loaded_programs()));
    bed.transmitted_at_rest(0);
    let link = bed.in_tester("ip -d link show dev tx0").unwrap();
    assert!(!link.contains("xdp") && !link.contains("PROMISC"), "{link}");
    let mut sender = live(&bed.paths()).unwrap();
    sender.arm(&test_frames(64)).unwrap();
    assert_eq!(send(&mut sender, Some(50_000.0), 100).sent, [100]);
}

const VICTIM: &str = "FWDLAB_TEST_LIVE_VICTIM";

struct KilledChild(Child);

impl Drop for KilledChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends until it is killed, with a time limit.
fn send_until_killed(netns: &str) {
    let port = PortSpec {
        netns: Some(netns.into()),
        interface: "tx0".into(),
    };
    let path = PathSpec {
        tx: port.clone(),
        rx: port,
    };
    let mut sender = XdpLive::open(&[path], &[]).unwrap();
    sender.arm(&Frames::Traffic(mix())).unwrap();
    sender.start(schedule(Some(100_000.0), None)).unwrap();
    thread::sleep(Duration::from_secs(15));
}

/// Returns the ids of the BPF programs that a process holds.
fn programs_of(process: u32) -> BTreeSet<u32> {
    let mut ids = BTreeSet::new();
    for file in std::fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap_or_default();
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
        ids.extend(id.map(|id| id.trim().parse::<u32>().unwrap()));
    }
    ids
}

fn loaded_programs() -> BTreeSet<u32> {
    aya::programs::loaded_programs()
        .filter_map(|program| Some(program.ok()?.id()))
        .collect()
}

/// Every shipped profile on every engine.
mod slow {
    use super::*;

    /// Every shipped profile, through the compiler: sent as played, or refused with a reason.
    #[test]
    fn shipped_profiles_are_sent_or_refused_with_a_reason() {
        const LOAD_PPS: f64 = 20_000.0;
        if std::env::var_os("FWDLAB_LONG").is_none() {
            return skip("all shipped profiles: FWDLAB_LONG=1 sends them, for half a minute");
        }
        let Some(bed) = bed(1) else { return };
        let Some(mut sender) = live(&bed.paths()) else {
            return;
        };
        bed.in_tester("ip link set tx0 mtu 3000").unwrap();
        bed.in_dut(0, "ip link set eth0 mtu 3000").unwrap();
        let (mut sent, mut refused) = (0, vec![]);
        for file in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fwdlab/profiles")) {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            // three passes over a million frames take too long in a test build
            if name == "1M" {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            let profile = Profile::parse(&name, &text).unwrap();
            let setting = Setting {
                direction: Direction::Forward,
                addresses: ADDRESSES,
                vlan: None,
                link: None,
                read: &|name| Ok(Box::new(std::fs::File::open(file.with_file_name(name))?)),
            };
            let frames = TrafficFrames {
                traffic: compile::compile(&profile, &setting).unwrap().traffic.into(),
                nonce: NONCE,
            };
            match sender.arm(&Frames::Traffic(frames.clone())) {
                Err(EngineError::Unsupported {
                    engine,
                    action: what,
                }) => {
                    assert_eq!(engine, "xdp-live");
                    refused.push(format!("{name}: {what}"));
                    continue;
                }
                armed => armed.unwrap(),
            }
            let mut capture = listen(&bed, 0);
            let counts = send(&mut sender, Some(LOAD_PPS), 1000);
            let captured = take(&mut capture, 1000);
            assert_eq!(captured.len(), 1000, "{name}: {counts:?}");
            assert_as_played(&name, &frames, LOAD_PPS, &captured, &counts);
            sent += 1;
        }
        assert!(
            sent > 20 && sent > 3 * refused.len(),
            "{sent} sent, refused: {refused:#?}"
        );
    }
}
