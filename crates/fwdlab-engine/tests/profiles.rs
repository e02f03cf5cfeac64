//! Profiles as frames, checked independently: etherparse, tshark and scapy read the frames of
//! random profiles; counts per flow and the values of TRex's field engine match their definitions.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test that runs tools and ends where something is wrong"
)]

#[path = "profiles/random.rs"]
mod random;

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use etherparse::checksum::Sum16BitWords;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use fwdlab_engine::traffic::Addresses;
use fwdlab_engine::traffic::compile::{Compiled, Direction, Setting, compile};
use fwdlab_engine::traffic::expect::Expectation;
use fwdlab_engine::traffic::{Emission, Kind, Stream};
use fwdlab_engine::{SignaturePlace, TrafficFrames};
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::profile::Profile;
use fwdlab_packet::Signature;
use fwdlab_packet::modifier::{
    self, Endian, Instruction, Program, Source, Transport, Variable, Width,
};
use fwdlab_packet::pcap::{ETHERNET, Format, Frame, Writer};
use proptest::prelude::*;
use random::Dice;

const MACS: Addresses = Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

fn no_file(name: &str) -> io::Result<Box<dyn io::Read>> {
    Err(io::Error::other(format!("{name} is not there")))
}

fn setting(direction: Direction) -> Setting<'static> {
    Setting {
        direction,
        addresses: MACS,
        vlan: None,
        link: None,
        read: &no_file,
    }
}

fn compiled(text: &str, direction: Direction) -> Compiled {
    let profile = Profile::parse("test", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    compile(&profile, &setting(direction)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn forward(text: &str) -> Compiled {
    compiled(text, Direction::Forward)
}

/// The only kind of frames of a profile.
fn kind(text: &str) -> Kind {
    let mut compiled = forward(text);
    assert_eq!(compiled.traffic.streams[0].kinds.len(), 1);
    compiled.traffic.streams[0].kinds.remove(0)
}

/// The first frames of a kind.
fn frames(kind: &Kind, stream: u16, count: usize) -> Vec<Vec<u8>> {
    let kind = kind.for_trial(7);
    let mut machine = kind.program.machine(&kind.template).unwrap();
    let mut buffer = vec![0; machine.buffer_len()];
    (0..count as u64)
        .map(|sequence| {
            let signature = Signature {
                nonce: 7,
                stream,
                sequence,
                timestamp_ns: 1000 * sequence,
            };
            // as a sender does: over the previous frame
            let len = match sequence {
                0 => machine.render(&mut buffer, &signature),
                _ => machine.patch(&mut buffer, &signature),
            };
            buffer[..len].to_vec()
        })
        .collect()
}

/// Returns this number of frames of every kind of every stream, with the kind.
fn all_frames(compiled: &Compiled, count: usize) -> Vec<(Kind, Vec<u8>)> {
    let streams = compiled.traffic.streams.iter();
    let kinds = streams.flat_map(|stream| stream.kinds.iter().map(|kind| (stream.id, kind)));
    kinds
        .flat_map(|(id, kind)| {
            frames(kind, id, count)
                .into_iter()
                .map(|frame| (kind.clone(), frame))
        })
        .collect()
}

/// Source and destination address, source and destination port.
type Flow = (Vec<u8>, Vec<u8>, u16, u16);

/// Returns addresses and ports as etherparse reads them, after checking lengths and checksums.
fn flow(frame: &[u8]) -> Flow {
    let sliced =
        SlicedPacket::from_ethernet(frame).unwrap_or_else(|error| panic!("{error}: {frame:02x?}"));
    let (sum, source, destination) = match sliced.net.as_ref() {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            assert_eq!(
                header.to_header().calc_header_checksum(),
                header.header_checksum(),
                "{frame:02x?}"
            );
            let sum = Sum16BitWords::new()
                .add_4bytes(header.source())
                .add_4bytes(header.destination());
            (sum, header.source().to_vec(), header.destination().to_vec())
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header();
            let sum = Sum16BitWords::new()
                .add_16bytes(header.source())
                .add_16bytes(header.destination());
            (sum, header.source().to_vec(), header.destination().to_vec())
        }
        _ => return Default::default(),
    };
    let right = |sum: Sum16BitWords, protocol: u8, segment: &[u8]| {
        let sum = sum
            .add_2bytes([0, protocol])
            .add_2bytes((segment.len() as u16).to_be_bytes());
        assert_eq!(sum.add_slice(segment).ones_complement(), 0, "{frame:02x?}");
    };
    let (from, to) = match sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            right(sum, 17, udp.slice());
            assert_eq!(usize::from(udp.length()), udp.slice().len());
            (udp.source_port(), udp.destination_port())
        }
        Some(TransportSlice::Tcp(tcp)) => {
            right(sum, 6, tcp.slice());
            (tcp.source_port(), tcp.destination_port())
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            right(sum, 58, icmp.slice());
            (0, 0)
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            assert_eq!(
                Sum16BitWords::new()
                    .add_slice(icmp.slice())
                    .ones_complement(),
                0
            );
            (0, 0)
        }
        Some(TransportSlice::Igmp(_)) | None => (0, 0),
    };
    (source, destination, from, to)
}

/// Checks that the signature is at its position.
fn check_signature(kind: &Kind, frame: &[u8]) {
    let at = match kind.place {
        None => return,
        Some(SignaturePlace::FlowLabel) => {
            let sliced = SlicedPacket::from_ethernet(frame).unwrap();
            let Some(NetSlice::Ipv6(ip)) = sliced.net else {
                panic!("a flow label is in IPv6: {frame:02x?}");
            };
            assert_eq!(ip.header().flow_label().value(), 0x9_0007);
            return;
        }
        Some(SignaturePlace::Tail) => frame.len() - 18,
        Some(SignaturePlace::UdpPayload) => {
            let sliced = SlicedPacket::from_ethernet(frame).unwrap();
            let Some(TransportSlice::Udp(udp)) = &sliced.transport else {
                panic!("a UDP payload is in UDP: {frame:02x?}");
            };
            assert_eq!(sliced.ip_payload().map(|ip| ip.fragmented), Some(false));
            udp.payload().as_ptr() as usize - frame.as_ptr() as usize
        }
    };
    // magic 0xb39d with nonce 7
    assert_eq!(frame[at..at + 2], [0xb3, 0x9a], "{frame:02x?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_profiles_are_right_to_etherparse(seed: u64) {
        let text = Dice(seed).profile();
        for direction in [Direction::Forward, Direction::Reverse] {
            let compiled = compiled(&text, direction);
            for (kind, frame) in all_frames(&compiled, 8) {
                flow(&frame);
                check_signature(&kind, &frame);
                prop_assert!(frame.len() >= 60);
            }
        }
    }

    /// The reverse direction swaps sources and destinations, and nothing else.
    #[test]
    fn reverse_is_forward_with_its_sides_swapped(seed: u64) {
        let text = Dice(seed).profile();
        let there = all_frames(&compiled(&text, Direction::Forward), 8);
        let back = all_frames(&compiled(&text, Direction::Reverse), 8);
        prop_assert_eq!(there.len(), back.len());
        for ((_, there), (_, back)) in there.iter().zip(&back) {
            let (source, destination, from, to) = flow(there);
            // the port of VXLAN is the same in both directions
            let ports = if to == 4789 { (from, to) } else { (to, from) };
            prop_assert_eq!(
                flow(back),
                (destination, source, ports.0, ports.1),
                "{}",
                text
            );
            prop_assert_eq!(there.len(), back.len());
        }
    }
}

/// A capture of the frames of many random profiles.
fn capture(profiles: u64) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut all = Vec::new();
    for seed in 0..profiles {
        let text = Dice(seed).profile();
        let direction = if seed % 2 == 0 {
            Direction::Forward
        } else {
            Direction::Reverse
        };
        all.extend(
            all_frames(&compiled(&text, direction), 4)
                .into_iter()
                .map(|(_, frame)| frame),
        );
    }
    let mut file = Vec::new();
    let writer = Writer::start(Format::Nano, ETHERNET, &mut file);
    for frame in &all {
        writer.frame(&Frame::new(0, frame), &mut file);
    }
    (all, file)
}

/// Returns a command's output for this input; `None` if it is not installed.
fn output_of(command: &mut Command, input: &[u8]) -> Option<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().ok()?;
    let written = writer.join().expect("a thread that writes");
    assert!(written.is_ok() && output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn random_profiles_are_right_to_tshark() {
    let (frames, file) = capture(300);
    let mut tshark = Command::new("tshark");
    tshark.args(["-r", "-", "-T", "fields"]);
    // do not let it guess protocols from ports
    for ports in [
        "udp.port==0-4788",
        "udp.port==4790-65535",
        "tcp.port==0-65535",
    ] {
        tshark.args(["-d", &format!("{ports},data")]);
    }
    for check in ["ip", "udp", "tcp"] {
        tshark.args(["-o", &format!("{check}.check_checksum:TRUE")]);
    }
    let fields = ["ip", "udp", "tcp", "icmp", "icmpv6", "gre"];
    tshark.args(["-e", "frame.protocols", "-e", "_ws.expert.message"]);
    for field in fields {
        tshark.args(["-e", &format!("{field}.checksum.status")]);
    }
    let Some(output) = output_of(&mut tshark, &file) else {
        println!("SKIPPED: random_profiles_are_right_to_tshark: needs tshark");
        return;
    };
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), frames.len());
    let mut checked = [0; 6];
    for (line, frame) in lines.iter().zip(&frames) {
        let columns: Vec<&str> = line.split('\t').collect();
        let says = columns[1].to_lowercase();
        for complaint in [
            "checksum",
            "malformed",
            "bogus",
            "length",
            "truncated",
            "exceed",
        ] {
            assert!(!says.contains(complaint), "{line}: {frame:02x?}");
        }
        for (column, checked) in columns[2..].iter().zip(&mut checked) {
            // 1 is "good"
            for status in column.split(',').filter(|status| !status.is_empty()) {
                assert_eq!(status, "1", "{line}: {frame:02x?}");
                *checked += 1;
            }
        }
    }
    // every kind of checksum was checked often
    assert!(checked.iter().all(|checked| *checked > 50), "{checked:?}");
}

/// Counts the frames of each flow.
fn counts(frames: &[Vec<u8>]) -> HashMap<Flow, u32> {
    let mut counts = HashMap::new();
    for frame in frames {
        *counts.entry(flow(frame)).or_default() += 1;
    }
    counts
}

#[test]
fn every_flow_comes_equally_often() {
    for order in ["sequential", "shuffled", "random"] {
        for (layers, network, text) in [
            (
                "'ipv4', 'udp'",
                "ipv4",
                "{ field = 'ipv4.destination', values = ['198.19.0.9', '198.19.7.1', '198.19.3.3'] }",
            ),
            (
                "'ipv6', 'tcp'",
                "ipv6",
                "{ field = 'ipv6.destination', from = '2001:2:0:8000::1', count = 3, step = '0:0:0:1::' }",
            ),
        ] {
            let ports = if network == "ipv4" { "udp" } else { "tcp" };
            let kind = kind(&format!(
                "[[stream]]\nlayers = [{layers}]\nsize = 128\norder = '{order}'\nseed = 3\nvary = [{text}, \
                 {{ field = '{network}.source', count = 7 }}, {{ field = '{ports}.source-port', from = 65531, to = 65535, step = 2 }}]"
            ));
            let counts = counts(&frames(&kind, 0, 3 * 7 * 3 * 4));
            assert_eq!(counts.len(), 3 * 7 * 3, "{order} {network}");
            assert!(
                counts.values().all(|count| *count == 4),
                "{order} {network}"
            );
            let ports: std::collections::BTreeSet<u16> = counts.keys().map(|flow| flow.2).collect();
            assert_eq!(
                ports.into_iter().collect::<Vec<_>>(),
                [65_531, 65_533, 65_535]
            );
        }
    }
}

#[test]
fn flows_in_the_default_shape() {
    for (flows, sources, destinations, ports) in [
        (1, 1, 1, 1),
        (100, 4, 25, 1),
        (2000, 20, 100, 1),
        (5000, 25, 200, 1),
    ] {
        for layers in ["'ipv4', 'udp'", "'ipv6', 'udp'", "'vlan', 'ipv4', 'tcp'"] {
            let kind = kind(&format!(
                "[[stream]]\nlayers = [{layers}]\nflows = {flows}\norder = 'shuffled'"
            ));
            let counts = counts(&frames(&kind, 0, flows * 2));
            assert_eq!(counts.len(), flows);
            assert!(counts.values().all(|count| *count == 2));
            let distinct = |of: fn(&Flow) -> Vec<u8>| {
                counts
                    .keys()
                    .map(of)
                    .collect::<std::collections::HashSet<_>>()
                    .len()
            };
            assert_eq!(distinct(|flow| flow.0.clone()), sources);
            assert_eq!(distinct(|flow| flow.1.clone()), destinations);
            assert_eq!(distinct(|flow| flow.2.to_be_bytes().to_vec()), ports);
        }
    }
}

/// Returns the numbers at these bytes of the first frames.
fn numbers(kind: &Kind, at: usize, bytes: usize, count: usize) -> Vec<u64> {
    frames(kind, 0, count)
        .iter()
        .map(|frame| {
            frame[at..at + bytes]
                .iter()
                .fold(0, |n, byte| n << 8 | u64::from(*byte))
        })
        .collect()
}

/// Check values of TRex's field engine (its repeatable random, tuples, counters that wrap, masks,
/// chains).
#[test]
fn the_field_engine_of_trex() {
    let stream = |vary: &str| {
        kind(&format!(
            "[[stream]]\nsize = 128\nsignature = false\nchecksums = false\nvary = [{vary}]"
        ))
    };
    let random = stream(
        "{ at = 60, bytes = 2, change = 'random', limit = 3, seed = 0, from = 1024, to = 65535 }",
    );
    assert_eq!(
        numbers(&random, 60, 2, 6),
        [1062, 8743, 22_262, 1062, 8743, 22_262]
    );
    let random = stream(
        "{ at = 60, bytes = 4, change = 'random', limit = 5, seed = 4661, from = 1000, to = 1254 }",
    );
    assert_eq!(numbers(&random, 60, 4, 5), [1158, 1079, 1056, 1023, 1018]);
    let tuple = stream(
        "{ name = 'c', field = 'ipv4.source', from = '16.0.0.1', to = '16.0.0.3', ports = { field = 'udp.source-port', from = 1025, to = 1026 }, limit = 5 }, \
         { use = 'c.port', at = 70 }, { use = 'c', at = 80, add = 1 }",
    );
    let ips = [1, 2, 3, 1, 2, 1, 2, 3].map(|n| 0x1000_0000 + n);
    assert_eq!(numbers(&tuple, 26, 4, 8), ips);
    assert_eq!(numbers(&tuple, 80, 4, 8), ips.map(|ip| ip + 1));
    let ports = [1025, 1025, 1025, 1026, 1026, 1025, 1025, 1025];
    assert_eq!(numbers(&tuple, 34, 2, 8), ports);
    assert_eq!(numbers(&tuple, 70, 2, 8), ports);
    // crossing the end costs one step; a range that is not a multiple of the step is extended
    let up = stream("{ at = 60, bytes = 1, from = 1, to = 4, step = 3, independent = true }");
    assert_eq!(numbers(&up, 60, 1, 4), [1, 4, 1, 4]);
    let down = stream("{ at = 60, bytes = 1, from = 0, to = 3, start = 1, change = 'decrement' }");
    assert_eq!(numbers(&down, 60, 1, 5), [1, 0, 3, 2, 1]);
    let masked = stream(
        "{ at = 60, bytes = 2, from = 1, to = 5, independent = true, mask = 0x0ff0, shift = 4, add = 1 }",
    );
    assert_eq!(numbers(&masked, 60, 2, 3), [0x20, 0x30, 0x40]);
    let little = stream("{ at = 60, bytes = 4, from = 0x01020304, count = 2, endian = 'little' }");
    assert_eq!(numbers(&little, 60, 4, 2), [0x0403_0201, 0x0503_0201]);
    let chain = stream(
        "{ name = 'low', at = 61, bytes = 1, from = 8, to = 9, next = 'high' }, { name = 'high', at = 60, bytes = 1, values = [1, 7], independent = true }",
    );
    assert_eq!(
        numbers(&chain, 60, 2, 5),
        [0x108, 0x109, 0x708, 0x709, 0x108]
    );
    let down_list = stream("{ at = 60, bytes = 1, values = [1, 5, 9], change = 'decrement' }");
    assert_eq!(numbers(&down_list, 60, 1, 4), [9, 5, 1, 9]);
    let cached = kind(
        "[[stream]]\nsize = 128\nsignature = false\ncache = 2\nvary = [{ at = 60, bytes = 1, from = 0, count = 9 }]",
    );
    assert_eq!(numbers(&cached, 60, 1, 5), [0, 1, 0, 1, 0]);
}

/// A program with every instruction that a profile can request equals one written in Rust.
#[test]
fn modifier_programs_do_what_they_print() {
    let kind = kind(
        r#"
        [[stream]]
        size = 300
        signature = false
        checksums = ["ipv4"]
        cache = 64
        vary = [
            { name = "len", field = "frame.length", from = 60, to = 296, independent = true },
            { use = "len", at = 16, bytes = 2, add = -14 },
            { use = "len", at = 38, bytes = 2, add = -34, endian = "little" },
            { name = "a", bytes = 4, from = 5, to = 9, step = 5, start = 6, split = false },
            { use = "a", at = 50, bytes = 1, mask = 0x7f, shift = -2, add = 3 },
            { at = 60, bytes = 8, from = 0, to = "18446744073709551615", change = "random", seed = 9 },
        ]
        "#,
    );
    let write = |variable: &str, offset, add, endian| Instruction::Write {
        variable: variable.to_owned(),
        offset,
        add,
        endian,
    };
    let up = modifier::Direction::Increment;
    let counter = |initial, min, max, step| Source::Counter {
        direction: up,
        initial,
        min,
        max,
        step,
    };
    let variable = |name: &str, width, source, split| Variable {
        name: name.to_owned(),
        width,
        source,
        split,
        next: None,
    };
    let expected = Program {
        variables: vec![
            variable("len", Width::Two, counter(60, 60, 296, 1), true),
            variable("a", Width::Four, counter(6, 5, 9, 5), false),
            variable(
                "entry 6",
                Width::Eight,
                Source::Random {
                    min: 0,
                    max: u64::MAX,
                    seed: 9,
                },
                true,
            ),
        ],
        instructions: vec![
            Instruction::Trim {
                variable: "len".to_owned(),
            },
            write("len", 16, -14, Endian::Big),
            write("len", 38, -34, Endian::Little),
            Instruction::WriteMask {
                variable: "a".to_owned(),
                offset: 50,
                width: Width::One,
                mask: 0x7f,
                shift: -2,
                add: 3,
                endian: Endian::Big,
            },
            write("entry 6", 60, 0, Endian::Big),
            Instruction::FixIpv4 { offset: 14 },
        ],
        cache: Some(64),
    };
    assert_eq!(kind.program, expected);
}

#[test]
fn one_flow_of_the_smallest_frames_in_two_lines() {
    let kind = kind("[[stream]]\nsize = 64");
    assert_eq!(kind.template.len(), 60);
    assert_eq!(kind.place, Some(SignaturePlace::UdpPayload));
    // only the signature and the checksum that it needs
    let fix = Instruction::FixTransport {
        l2_len: 14,
        l3_len: 20,
        transport: Transport::Udp,
    };
    assert_eq!(
        kind.program.instructions,
        [Instruction::Signature { offset: 42 }, fix]
    );
    let expected = (vec![198, 18, 10, 1], vec![198, 19, 10, 1], 2000, 2000);
    assert_eq!(flow(&frames(&kind, 0, 1)[0]), expected);
}

#[test]
fn the_signature_goes_where_all_frames_have_room() {
    let places = |text: &str| -> Vec<Option<SignaturePlace>> {
        let compiled = forward(text);
        let kinds = compiled
            .traffic
            .streams
            .iter()
            .flat_map(|stream| &stream.kinds);
        kinds.map(|kind| kind.place).collect()
    };
    use SignaturePlace::{FlowLabel, Tail, UdpPayload};
    for (text, expected) in [
        ("[[stream]]\nsize = 64", vec![Some(UdpPayload)]),
        ("[[stream]]\nsize = 64\nsignature = false", vec![None]),
        (
            "[[stream]]\nlayers = ['vlan', 'ipv4', 'udp']\nsize = 64",
            vec![None],
        ),
        (
            "[[stream]]\nlayers = ['vlan', 'ipv4', 'udp']",
            vec![Some(UdpPayload)],
        ),
        (
            "[[stream]]\nlayers = ['ipv4', 'tcp']\nsize = 64",
            vec![None],
        ),
        (
            "[[stream]]\nlayers = ['ipv4', 'tcp']\nsize = 76",
            vec![Some(Tail)],
        ),
        (
            "[[stream]]\nlayers = [{ ipv4 = { options = '94040000' } }, 'udp']",
            vec![Some(Tail)],
        ),
        (
            "[[stream]]\nlayers = ['mpls', 'ipv4', 'udp']",
            vec![Some(Tail)],
        ),
        (
            "[[stream]]\nlayers = ['ipv6', 'udp']\nsize = 66",
            vec![Some(FlowLabel)],
        ),
        (
            "[[stream]]\nlayers = [{ ipv6 = { flow-label = 7 } }, 'udp']\nsize = 66",
            vec![None],
        ),
        (
            "[[stream]]\nlayers = ['ipv6', 'udp']\nsize = 66\nvary = [{ field = 'ipv6.flow-label', count = 5 }]",
            vec![None],
        ),
        (
            "[[stream]]\nlayers = ['ipv6', 'udp']\nsize = [66, 84]",
            vec![Some(FlowLabel); 2],
        ),
        (
            "[[stream]]\n[[stream]]\nlayers = ['ipv4', 'tcp']",
            vec![Some(Tail); 2],
        ),
        (
            "[[stream]]\nsize = { from = 64, to = 1518 }",
            vec![Some(UdpPayload)],
        ),
        (
            "[[stream]]\nlayers = ['ipv6', 'udp']\nsize = { from = 66, to = 1518 }",
            vec![Some(FlowLabel)],
        ),
        (
            "[[stream]]\nlayers = ['ipv6', 'udp']\nsize = { from = 84, to = 1518 }",
            vec![Some(UdpPayload)],
        ),
        // values that the profile sets itself are kept
        (
            "[[stream]]\nsize = 128\nvary = [{ at = 50, bytes = 4, from = 1, count = 9 }]",
            vec![Some(Tail)],
        ),
        ("[[stream]]\nlayers = ['arp']", vec![None]),
    ] {
        assert_eq!(places(text), expected, "{text}");
    }
    let notes = forward("[[stream]]\nlayers = ['vlan', 'ipv4', 'udp']\nsize = [64, 65]").notes;
    assert_eq!(
        notes,
        [
            "stream 1: frames of 64, 65 bytes have no room for a signature: they are neither counted individually nor timed"
        ]
    );
}

#[test]
fn rates_shares_and_chains() {
    let text = r#"
        rate = "1Mpps"
        [[stream]]
        name = "small"
        share = 3
        burst = 10
        next = "large"
        delay = "5us"
        [[stream]]
        name = "large"
        size = 1518
        bursts = { frames = 2, pause = "1ms", count = 4 }
        next = "small"
        runs = 3
        [[stream]]
        name = "rated"
        rate = "50%"
        size = 64
        direction = "forward"
    "#;
    let profile = Profile::parse("test", text).unwrap();
    let on_10g = Setting {
        link: Some("10G".parse::<LinkSpeed>().unwrap()),
        ..setting(Direction::Forward)
    };
    let streams: Vec<Stream> = compile(&profile, &on_10g).unwrap().traffic.streams;
    let rates: Vec<f64> = streams
        .iter()
        .map(|stream| stream.timing.rate_pps)
        .collect();
    assert_eq!(rates[..2], [750_000.0, 250_000.0]);
    // RFC 2544: 14 880 952 frames per second of 64 bytes on 10G
    assert!((rates[2] / (14_880_952.38 / 2.0) - 1.0).abs() < 1e-9);
    let timing: Vec<_> = streams
        .iter()
        .map(|s| (s.timing.waits, s.timing.next, s.timing.delay_ns))
        .collect();
    assert_eq!(
        timing,
        [(false, Some(1), 5000), (true, Some(0), 0), (false, None, 0)]
    );
    assert_eq!(streams[0].timing.mode, Emission::Burst { frames: 10 });
    let bursts = Emission::Bursts {
        frames: 2,
        pause_ns: 1_000_000,
        bursts: Some(4),
    };
    assert_eq!(
        (streams[1].timing.mode, streams[1].timing.runs),
        (bursts, Some(3))
    );
    let ids: Vec<u16> = streams.iter().map(|stream| stream.id).collect();
    assert_eq!(ids, [0, 2, 4]);

    let back = compile(&profile, &setting(Direction::Reverse))
        .unwrap()
        .traffic
        .streams;
    assert_eq!(
        back.iter().map(|stream| stream.id).collect::<Vec<_>>(),
        [1, 3]
    );
    let error = compile(&profile, &setting(Direction::Forward))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(
            "test:17:16: stream rated: 50% refers to the line rate, but the speed of the link is not known"
        ),
        "{error}"
    );
    // without its own rate, it fills the line
    let full = Profile::parse("test", "[[stream]]\nsize = 'imix'").unwrap();
    let streams = compile(&full, &on_10g).unwrap().traffic.streams;
    assert_eq!(streams[0].timing.rate_pps.floor(), 3_273_679.0);
    assert_eq!(streams[0].pattern, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2]);
}

#[test]
fn impossible_profiles_are_refused_with_the_position() {
    for (text, expected) in [
        (
            "[[stream]]\nlayers = ['udp']",
            "test:2:1: layer 0: Ethernet cannot carry UDP",
        ),
        (
            "[[stream]]\nlayers = ['ipv4', 'payload', 'udp']",
            "test:2:1: a payload must be the last layer",
        ),
        (
            "[[stream]]\nlayers = ['ipv6', 'udp']\nsize = 64",
            "test:3:8: frame size 64 is too small: these layers need at least 66 (with FCS)",
        ),
        (
            "[[stream]]\nsize = 64\nlayers = ['ipv4', 'udp', { payload = { text = 'nineteen characters' } }]",
            "test:2:8: frame size 64 is too small: these layers need at least 65 (with FCS)",
        ),
        (
            "[[stream]]\nvary = [{ field = 'tcp.window', count = 2 }]",
            "test:2:19: tcp.window: the frame has no tcp layer",
        ),
        (
            "[[stream]]\nvary = [{ field = 'ipv4[2].ttl', count = 2 }]",
            "test:2:19: ipv4[2].ttl: the frame has fewer than 2 ipv4 layers",
        ),
        (
            "[[stream]]\nvary = [{ field = 'ipv4.ttl', from = 250, count = 20 }]",
            "test:2:38: 269 does not fit 8 bits",
        ),
        (
            "[[stream]]\nvary = [{ field = 'ipv4.source', from = '2001:2::1', count = 2 }]",
            "test:2:41: 2001:2::1 is not a value of a field of 4 bytes",
        ),
        (
            "[[stream]]\nvary = [{ field = 'ipv4.source', from = '198.18.0.0', to = '255.255.255.255' }, { field = 'udp.source-port', from = 0, to = 65535 }]",
            "test:2:1: 63694364999680 flows; a stream has at most 4294967295",
        ),
        (
            "[[stream]]\nvary = [{ at = 60, bytes = 4, from = 1, count = 2 }]",
            "test:2:16: bytes 60 to 64 are beyond the frame's 60 (without FCS)",
        ),
        (
            "[[stream]]\nvary = [{ use = 'x', at = 20 }]",
            "test:2:17: there is no entry called `x`; no entry has a name",
        ),
        (
            "[[stream]]\nvary = [{ at = 20, bytes = 1, from = 0, to = 9, next = 'x' }]",
            "test:2:56: there is no entry called `x`; no entry has a name",
        ),
        (
            "[[stream]]\nflows = 4294967291",
            "test:2:9: 4294967291 flows are not a product of addresses and ports in range; 4294967289 are",
        ),
        (
            "[[stream]]\nlayers = ['arp']\nflows = 5",
            "test:3:9: flows differ in their addresses, but this frame has no IP layer",
        ),
        (
            "[[stream]]\npcap = 'x.pcap'",
            "test:2:8: x.pcap: cannot be read: x.pcap is not there",
        ),
        (
            "[[stream]]\nlayers = ['ipv6', { routing = { body = '0001 00000000 20010002000080100000000000000009' } }, 'udp']",
            "test:2:1: checksums behind a routing header with segments left cannot follow the varying fields; leave no \
             segments, or set checksums = false",
        ),
        (
            "[[stream]]\ndirection = 'reverse'",
            "test: no stream goes forward",
        ),
        (
            "[[stream]]\nburst = 1\nnext = 'b'\n[[stream]]\nname = 'b'\ndirection = 'reverse'",
            "test:3:8: stream 1: stream b does not go in this direction",
        ),
        (
            "[[stream]]\nsize = [9000, 9001]\nlayers = ['ipv4', 'udp', { payload = { bytes = 9100 } }]",
            "test:2:1: frame size 9000 is too small: these layers need at least 9146 (with FCS)",
        ),
    ] {
        let error = match Profile::parse("test", text) {
            Ok(profile) => compile(&profile, &setting(Direction::Forward)).expect_err(text),
            Err(error) => error,
        };
        assert_eq!(error.to_string(), expected, "{text}");
    }
    let large: Vec<String> = (60_000..62_000).map(|size| size.to_string()).collect();
    let text = format!("[[stream]]\nsize = [{}]", large.join(","));
    let profile = Profile::parse("test", &text).unwrap();
    let error = compile(&profile, &setting(Direction::Forward))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("those of a port have at most 67108864"),
        "{error}"
    );
    let straddles = Profile::parse(
        "test",
        "[[stream]]\nvary = [{ at = 28, bytes = 4, from = 1, count = 2 }]",
    )
    .unwrap();
    assert!(compile(&straddles, &setting(Direction::Forward)).is_ok());
    let error = compile(&straddles, &setting(Direction::Reverse))
        .unwrap_err()
        .to_string();
    assert!(error.contains("overlap a source or destination"), "{error}");
}

#[test]
fn frames_of_a_capture_file() {
    let sent: Vec<Vec<u8>> = [
        "[[stream]]\nsize = 100",
        "[[stream]]\nlayers = ['ipv6', 'tcp']\nsize = 200",
    ]
    .map(|text| frames(&kind(text), 0, 1).remove(0))
    .into();
    let mut file = Vec::new();
    let writer = Writer::start(Format::Ng, ETHERNET, &mut file);
    for frame in &sent {
        writer.frame(&Frame::new(0, frame), &mut file);
    }
    let whole = file.clone();
    let read = move |name: &str| -> io::Result<Box<dyn io::Read>> {
        let bytes = match name {
            "a.pcapng" => whole.clone(),
            "cut.pcapng" => whole[..whole.len() - 9].to_vec(),
            "empty.pcap" => Vec::new(),
            _ => b"no capture at all".to_vec(),
        };
        Ok(Box::new(io::Cursor::new(bytes)))
    };
    let at = |direction, addresses| Setting {
        direction,
        addresses,
        vlan: None,
        link: None,
        read: &read,
    };
    let other = Addresses::between([2, 0, 0, 0, 0, 8], [2, 0, 0, 0, 0, 9]);
    let compiled = |text: &str, setting: &Setting<'_>| {
        compile(&Profile::parse("test", text).unwrap(), setting)
    };

    let all = compiled(
        "[[stream]]\npcap = 'a.pcapng'\nkeep-macs = true",
        &at(Direction::Forward, other),
    )
    .unwrap();
    let stream = &all.traffic.streams[0];
    assert_eq!(
        stream
            .kinds
            .iter()
            .map(|kind| &kind.template)
            .collect::<Vec<_>>(),
        sent.iter().collect::<Vec<_>>()
    );
    assert_eq!(
        (stream.pattern.as_slice(), all.notes.len()),
        (&[0, 1][..], 1)
    );

    let second = compiled("[[stream]]\npcap = 'a.pcapng'\nframe = 2\nsignature = true\nvary = [{ field = 'tcp.source-port', from = 1, count = 3 }]", &at(Direction::Reverse, other)).unwrap();
    let kind = &second.traffic.streams[0].kinds[0];
    assert_eq!(kind.place, Some(SignaturePlace::Tail));
    let (source, destination, from, _) = flow(&sent[1]);
    for (n, frame) in frames(kind, 1, 3).iter().enumerate() {
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8]);
        assert_eq!(
            flow(frame),
            (destination.clone(), source.clone(), from, n as u16 + 1)
        );
    }
    for (text, expected) in [
        (
            "pcap = 'a.pcapng'\nframe = 3",
            "a.pcapng: there is no frame 3",
        ),
        (
            "pcap = 'cut.pcapng'",
            "cut.pcapng: frame 2: the capture ends at byte",
        ),
        (
            "pcap = 'empty.pcap'",
            "empty.pcap: frame 1: the capture ends at byte 0",
        ),
        ("pcap = 'text'", "text: frame 1: not a capture file"),
        (
            "pcap = 'a.pcapng'\nvary = [{ field = 'udp.source-port', count = 2 }]",
            "a.pcapng: frame 2: udp.source-port: the frame has no udp layer",
        ),
    ] {
        let error = compiled(
            &format!("[[stream]]\n{text}"),
            &at(Direction::Forward, other),
        )
        .unwrap_err();
        assert!(error.reason.contains(expected), "{error}");
    }
}

#[test]
fn a_tag_of_the_port_is_outside_of_all() {
    let text = "[[stream]]\nlayers = ['vlan', 'ipv4', 'udp']\nsize = 128\nvary = [{ field = 'vlan.id', from = 5, count = 3 }, { at = 30, bytes = 4, from = '10.0.0.1', count = 3 }]";
    let profile = Profile::parse("test", text).unwrap();
    let tagged = Setting {
        vlan: Some(77),
        ..setting(Direction::Forward)
    };
    let kind = compile(&profile, &tagged)
        .unwrap()
        .traffic
        .streams
        .remove(0)
        .kinds
        .remove(0);
    assert_eq!(kind.template.len(), 124);
    for frame in frames(&kind, 0, 9) {
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let ids = sliced.vlan_ids();
        assert_eq!(ids[0].value(), 77);
        assert!((5..8).contains(&ids[1].value()));
        let (source, ..) = flow(&frame);
        assert_eq!(source[..3], [10, 0, 0]);
    }
}

#[test]
fn rfc_4814_ports_are_in_its_ranges_and_spread() {
    let kind = kind("[[stream]]\nplan = 'rfc4814'\nseed = 5");
    // (RR & 0xFC):PP:PP:RR:RR:RR
    assert_eq!(
        (kind.template[6] & 3, &kind.template[7..9]),
        (0, &[0, 1][..])
    );
    let flows: Vec<_> = frames(&kind, 0, 4000)
        .iter()
        .map(|frame| flow(frame))
        .collect();
    assert!(
        flows
            .iter()
            .all(|flow| (1024..=65_535).contains(&flow.2) && (1..=49_151).contains(&flow.3))
    );
    let distinct: std::collections::HashSet<_> = flows.iter().collect();
    assert!(distinct.len() > 3990);
    // each third of the range is drawn about equally often (a fair draw never differs by more than
    // 8 standard deviations here)
    for (of, from, to) in [(2, 1024_u32, 65_536_u32), (3, 1, 49_152)] {
        let third = (to - from) / 3;
        let low = flows
            .iter()
            .filter(|flow| u32::from(if of == 2 { flow.2 } else { flow.3 }) < from + third)
            .count();
        assert!((1333 - 240..1333 + 240).contains(&low), "{low}");
    }
}

fn shipped() -> Vec<(String, Profile)> {
    fn walk(folder: &Path, prefix: &str, found: &mut Vec<(String, Profile)>) {
        let mut entries: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            let name = format!("{prefix}{}", path.file_stem().unwrap().to_string_lossy());
            if path.is_dir() {
                walk(&path, &format!("{name}/"), found);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                let profile =
                    Profile::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
                found.push((name, profile));
            }
        }
    }
    let mut found = Vec::new();
    walk(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../fwdlab/profiles"),
        "",
        &mut found,
    );
    found
}

/// Frames have the bed's addresses in both directions where a profile sets none; addresses in the
/// profile are kept.
#[test]
fn frames_have_the_addresses_of_the_bed_where_a_profile_says_none() {
    let addresses = Addresses {
        ipv4: ([198, 19, 7, 1].into(), [198, 18, 9, 1].into()),
        ipv6: (
            "2001:2:0:8007::1".parse().unwrap(),
            "2001:2:0:9::1".parse().unwrap(),
        ),
        ..MACS
    };
    let of = |text: &str, direction| {
        let setting = Setting {
            addresses,
            ..setting(direction)
        };
        let all = compile(&Profile::parse("test", text).unwrap(), &setting).unwrap();
        all.traffic.streams[0].kinds[0].template.clone()
    };
    let (v4, v6) = (
        "[[stream]]\nlayers = ['ipv4', 'udp']",
        "[[stream]]\nlayers = ['ipv6', 'udp']",
    );
    let (there, back) = (of(v4, Direction::Forward), of(v4, Direction::Reverse));
    assert_eq!(there[26..34], [198, 19, 7, 1, 198, 18, 9, 1]);
    assert_eq!(back[26..34], [198, 18, 9, 1, 198, 19, 7, 1]);
    let (there, back) = (of(v6, Direction::Forward), of(v6, Direction::Reverse));
    let octets = [addresses.ipv6.0.octets(), addresses.ipv6.1.octets()];
    assert_eq!([&there[22..38], &there[38..54]], octets);
    assert_eq!([&back[38..54], &back[22..38]], octets);
    let output = "[[stream]]\nlayers = [{ ipv4 = { destination = '198.18.77.1' } }, 'udp']";
    assert_eq!(
        of(output, Direction::Forward)[26..34],
        [198, 19, 7, 1, 198, 18, 77, 1]
    );
    let arp = of(
        "[[stream]]\nlayers = ['arp']\nsignature = false",
        Direction::Forward,
    );
    assert_eq!(arp[28..32], [198, 19, 7, 1]);
}

#[test]
fn shipped_profiles_match_their_descriptions() {
    let all = shipped();
    assert!(all.len() >= 50);
    for (name, profile) in all {
        assert!(
            !profile.about.is_empty() && profile.source.is_some(),
            "{name}"
        );
        for direction in [Direction::Forward, Direction::Reverse] {
            let compiled =
                compile(&profile, &setting(direction)).unwrap_or_else(|error| panic!("{error}"));
            for (kind, frame) in all_frames(&compiled, 16) {
                flow(&frame);
                check_signature(&kind, &frame);
            }
            let streams = &compiled.traffic.streams;
            let folder_and_size = name
                .split_once('/')
                .and_then(|(folder, size)| Some((folder, size.parse::<usize>().ok()?)));
            match folder_and_size {
                Some(("rfc2544" | "ipv6", size)) => {
                    assert_eq!(streams[0].kinds[0].template.len() + 4, size, "{name}")
                }
                Some(("flows", flows)) => {
                    let expected =
                        Expectation::from_frames(&fwdlab_engine::Frames::Traffic(TrafficFrames {
                            traffic: std::sync::Arc::new(compiled.traffic.clone()),
                            nonce: 1,
                        }));
                    let counted = expected.streams[0].flows.as_ref().unwrap();
                    assert_eq!(counted.count() as usize, flows.max(1), "{name}");
                    assert_eq!(counted.cycle(), counted.count(), "{name}");
                }
                _ => {}
            }
            // all frames can be counted, except for those whose file says that they cannot
            let unsigned = streams
                .iter()
                .flat_map(|stream| &stream.kinds)
                .any(|kind| kind.place.is_none());
            assert_eq!(
                unsigned,
                matches!(name.as_str(), "tcp-syn" | "bench/udp-1pkt-simple"),
                "{name}"
            );
        }
    }
    let million = all_frames(
        &compile(
            &Profile::parse("m", include_str!("../../fwdlab/profiles/flows/1M.toml")).unwrap(),
            &setting(Direction::Forward),
        )
        .unwrap(),
        1_000_000,
    );
    let flows: std::collections::HashSet<&[u8]> =
        million.iter().map(|(_, frame)| &frame[26..38]).collect();
    assert_eq!(flows.len(), 1_000_000);
}

/// The addresses of TRex's bench.py: 251 ascending sources, with matching destinations.
#[test]
fn bench_profiles_are_those_of_trex() {
    let of = |text: &str| frames(&kind(text), 0, 252);
    let one = of(include_str!("../../fwdlab/profiles/bench/vm-none.toml"));
    assert!(
        one.iter()
            .all(|frame| flow(frame) == (vec![16, 0, 0, 1], vec![48, 0, 0, 1], 1025, 12))
    );
    for (n, frame) in of(include_str!("../../fwdlab/profiles/bench/var1.toml"))
        .iter()
        .enumerate()
    {
        assert_eq!(
            flow(frame),
            (
                vec![16, 0, 0, 4 + (n % 251) as u8],
                vec![48, 0, 0, 1],
                1025,
                12
            )
        );
    }
    for (n, frame) in of(include_str!("../../fwdlab/profiles/bench/var2.toml"))
        .iter()
        .enumerate()
    {
        let host = 4 + (n % 251) as u8;
        assert_eq!(
            flow(frame),
            (vec![16, 0, 0, host], vec![48, 0, 0, host], 1025, 12)
        );
    }
}

/// Scapy takes a second to start and milliseconds for a frame.
mod slow {
    use super::*;

    /// Scapy recomputes all lengths and checksums from the fields that it reads.
    #[test]
    fn random_profiles_are_right_to_scapy() {
        const SCRIPT: &str = r#"
import sys, io, logging
logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import *
load_contrib("mpls")
right = 0
for number, (raw, _) in enumerate(RawPcapReader(io.BytesIO(sys.stdin.buffer.read()))):
    frame = Ether(raw)
    layer = frame
    while layer:
        for field in ("len", "plen", "chksum", "cksum", "ihl", "dataofs"):
            if field in layer.fields and not (isinstance(layer, GRE) and not layer.chksum_present):
                if not isinstance(layer, (IPv6ExtHdrHopByHop, IPv6ExtHdrDestOpt, IPv6ExtHdrRouting)):
                    del layer.fields[field]
        layer = layer.payload
    again = bytes(frame)
    if again != raw:
        print("frame", number, raw.hex(), again.hex(), frame.summary())
        sys.exit(0)
    right += 1
print(right)
"#;
        let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/python3");
        let has_scapy = |python: &PathBuf| {
            let probe = Command::new(python)
                .args(["-c", "import scapy.all"])
                .output();
            probe.is_ok_and(|output| output.status.success())
        };
        let Some(python) = [venv, "python3".into()].into_iter().find(has_scapy) else {
            println!("SKIPPED: random_profiles_are_right_to_scapy: needs the Python package scapy");
            return;
        };
        let (frames, file) = capture(120);
        let output =
            output_of(Command::new(python).args(["-c", SCRIPT]), &file).expect("Python runs");
        assert_eq!(output.trim(), frames.len().to_string());
    }
}
