//! Which flows never arrived, derived from numbers alone, compared with what etherparse reads in
//! every played frame.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test ends where something is wrong"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use fwdlab_engine::analysis::{Analyser, Analysis};
use fwdlab_engine::stamps::Origins;
use fwdlab_engine::traffic::Addresses;
use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
use fwdlab_engine::traffic::expect::{Expectation, Flows, StreamExpected, Uncounted, count_flows};
use fwdlab_engine::traffic::player::Player;
use fwdlab_engine::traffic::share::{Part, Share};
use fwdlab_engine::{Expected, Frames, TestFrames, Traffic, TrafficFrames};
use fwdlab_model::profile::Profile;
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature};

fn traffic(text: &str) -> Arc<Traffic> {
    let profile = Profile::parse("test", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let setting = Setting {
        direction: Direction::Forward,
        addresses: Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
        vlan: None,
        link: None,
        read: &|name| Err(io::Error::other(name.to_owned())),
    };
    let compiled = compile(&profile, &setting).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Arc::new(compiled.traffic)
}

fn expectation(traffic: &Arc<Traffic>) -> Expectation {
    Expectation::from_frames(&Frames::Traffic(TrafficFrames {
        traffic: traffic.clone(),
        nonce: 7,
    }))
}

/// Returns the innermost flow and its VLANs, as etherparse reads them, in the usual notation.
fn flow(frame: &[u8]) -> String {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let vlans = match sliced.vlan_ids()[..] {
        [] => String::new(),
        [id] => format!(" VLAN {}", id.value()),
        [outer, inner, ..] => format!(" VLAN {}/{}", outer.value(), inner.value()),
    };
    let (from, to): (IpAddr, IpAddr) = match sliced.net.unwrap() {
        NetSlice::Ipv4(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        NetSlice::Ipv6(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        other => panic!("{other:?}"),
    };
    let (a, b, protocol) = match sliced.transport.unwrap() {
        TransportSlice::Udp(udp) => (udp.source_port(), udp.destination_port(), ""),
        TransportSlice::Tcp(tcp) => (tcp.source_port(), tcp.destination_port(), " TCP"),
        other => panic!("{other:?}"),
    };
    let end = |address: IpAddr, port: u16| match address {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    };
    format!("{} > {}{protocol}{vlans}", end(from, a), end(to, b))
}

fn flows(stream: &StreamExpected) -> &Flows {
    stream.flows.as_ref().unwrap()
}

/// Plays this number of frames; the DUT drops the flows selected by `is_dropped`. Counts every flow
/// of every stream both by the contents of its frames and by their numbers.
fn check(text: &str, frames: u64, is_dropped: impl Fn(usize) -> bool) {
    let traffic = traffic(text);
    let expectation = expectation(&traffic);
    assert_eq!(expectation.streams.len(), traffic.streams.len());
    let plan = expectation.plan();
    let mut player = Player::new(
        &TrafficFrames {
            traffic: traffic.clone(),
            nonce: 7,
        },
        None,
    )
    .unwrap();
    let mut buffer = vec![0; player.buffer_len()];
    let mut actual: BTreeMap<u16, Vec<(String, u64)>> = BTreeMap::new();
    let mut numbers: BTreeMap<u16, (Vec<u32>, u64)> = (plan.streams.iter())
        .map(|stream| (stream.id, (vec![0; stream.flows as usize], 0)))
        .collect();
    let place = traffic.place().unwrap();
    for _ in 0..frames {
        let len = player.take(&mut buffer, None, 1);
        let frame = &buffer[..len];
        let at = match place {
            fwdlab_engine::SignaturePlace::Tail => len - fwdlab_packet::signature::LEN,
            _ => {
                let sliced = SlicedPacket::from_ethernet(frame).unwrap();
                let Some(TransportSlice::Udp(udp)) = sliced.transport else {
                    panic!("UDP is expected");
                };
                udp.payload().as_ptr() as usize - frame.as_ptr() as usize
            }
        };
        let signature = Signature::read(
            frame[at..at + fwdlab_packet::signature::LEN]
                .try_into()
                .unwrap(),
        )
        .unwrap();
        let name = flow(frame);
        let known = actual.entry(signature.stream).or_default();
        let flow = match known.iter().position(|(other, _)| *other == name) {
            Some(flow) => flow,
            None => {
                known.push((name, 0));
                known.len() - 1
            }
        };
        let (counts, sent) = numbers.get_mut(&signature.stream).unwrap();
        *sent += 1;
        let lengths = plan.streams.iter().find(|s| s.id == signature.stream);
        if let Some(lengths) = lengths.unwrap().lengths {
            let untagged = len - 4 * text.matches("'vlan'").count();
            assert!(lengths.contain(untagged), "{len} is not in {lengths:?}");
        }
        if !is_dropped(flow) {
            known[flow].1 += 1;
            let cycle = counts.len() as u64;
            counts[(signature.sequence % cycle) as usize] += 1;
        }
    }
    for stream in &expectation.streams {
        let found = flows(stream);
        let (counts, sent) = &numbers[&stream.id];
        let actual = &actual[&stream.id];
        assert_eq!(found.among(*sent) as usize, actual.len(), "{text}");
        let arrivals = found.arrivals(counts);
        let requested: Vec<u32> = (0..found.among(*sent)).collect();
        let names = found.names(&requested, Some(&traffic.streams[stream.index]));
        let reported: BTreeSet<(String, u64)> = names.into_iter().zip(arrivals).collect();
        assert_eq!(reported, actual.iter().cloned().collect(), "{text}");
    }
}

#[test]
fn every_flow_that_is_missing_has_its_name() {
    let imix = "size = 'imix'";
    for (text, frames) in [
        // one kind of frames
        ("[[stream]]\nflows = 20".to_owned(), 95),
        // 12 frames of three sizes, each of which cycles through the flows independently
        (format!("[[stream]]\n{imix}\nflows = 20"), 12 * 20 * 2),
        (format!("[[stream]]\n{imix}\nflows = 6\norder = 'shuffled'\nseed = 5"), 200),
        ("[[stream]]\nlayers = ['ipv6', 'tcp']\nsize = 128\nflows = 15".into(), 400),
        // less than a cycle
        (format!("[[stream]]\n{imix}\nflows = 100"), 37),
        // sizes with a cycle of their own
        ("[[stream]]\nsize = { from = 64, to = 70 }\nflows = 4".into(), 100),
        // fields that vary without being part of a flow
        ("[[stream]]\nsize = 128\nvary = [{ field = 'ipv4.source', count = 3 }, { field = 'ipv4.ttl', from = 9, to = 12 }]".into(), 50),
        // several streams at different rates
        (format!("[[stream]]\n{imix}\nflows = 20\nshare = 3\n[[stream]]\nlayers = ['ipv6', 'udp']\nsize = 100\nflows = 7"), 900),
        // tags and addresses in lists
        ("[[stream]]\nlayers = ['vlan', 'ipv4', 'udp']\nsize = 200\nvary = [{ field = 'ipv4.destination', values = ['198.19.0.9', '198.19.7.1', '198.19.3.3'] }]".into(), 100),
        // the same addresses in several VLANs; the priority is not part of a flow
        ("[[stream]]\nlayers = ['vlan', 'ipv4', 'udp']\nsize = 100\nvary = [{ field = 'vlan.id', from = 250, count = 9 }, { field = 'vlan.priority', count = 3 }]".into(), 100),
        ("[[stream]]\nlayers = ['vlan', 'vlan', 'ipv4', 'udp']\nsize = 100\nvary = [{ field = 'vlan[2].id', count = 3 }, { field = 'vlan.id', count = 2 }, { field = 'ipv4.source', count = 2 }]".into(), 100),
    ] {
        check(&text, frames, |_| false);
        check(&text, frames, |flow| flow % 5 == 2);
        check(&text, frames, |flow| flow == 0 || flow == 3);
    }
}

/// Flows that etherparse does not parse: they differ only by a label, a network or a key.
#[test]
fn labels_and_networks_are_flows_of_their_own() {
    let ends = "198.18.10.1:2000 > 198.19.10.1:2000";
    for (layers, field, inside) in [
        (
            "{ mpls = { label = 16 } }, 'mpls', 'ipv4', 'udp'",
            "mpls[2].label",
            ["MPLS 16/1048574", "MPLS 16/1048575"],
        ),
        (
            "'ipv4', 'udp', 'vxlan', 'ethernet', 'ipv4', 'udp'",
            "vxlan.vni",
            ["VXLAN 1048574", "VXLAN 1048575"],
        ),
        (
            "'ipv4', { gre = { key = 1 } }, 'ipv4', 'udp'",
            "gre.key",
            ["GRE 1048574", "GRE 1048575"],
        ),
    ] {
        // every label with two traffic classes
        let class = match field {
            "mpls[2].label" => "{ field = 'mpls[2].traffic-class', count = 2 }",
            _ => "{ field = 'ipv4.ttl', from = 9, to = 10 }",
        };
        let traffic = traffic(&format!(
            "[[stream]]\nlayers = [{layers}]\nsize = 200\nvary = [{{ field = '{field}', from = 1048574, count = 2 }}, {class}]"
        ));
        let expectation = expectation(&traffic);
        let found = flows(&expectation.streams[0]);
        assert_eq!((found.cycle(), found.count()), (4, 2), "{field}");
        assert_eq!(
            found.names(&[0, 1], Some(&traffic.streams[0])),
            inside.map(|inside| format!("{ends} {inside}"))
        );
    }
}

#[test]
fn flows_that_cannot_be_counted_have_a_reason() {
    for (text, reason) in [
        (
            "[[stream]]\nflows = 20\norder = 'drawn'",
            Uncounted::Endless,
        ),
        (
            "[[stream]]\nsize = 128\nvary = [{ field = 'ipv4.source', count = 100_003 }, { field = 'udp.source-port', from = 1, to = 30_000 }]",
            Uncounted::TooMany,
        ),
    ] {
        let expectation = expectation(&traffic(text));
        assert_eq!(expectation.streams[0].flows.as_ref().unwrap_err(), &reason);
        assert_eq!(expectation.plan().streams[0].flows, 0);
    }
}

#[test]
fn streams_without_signatures_are_named() {
    let text = "[[stream]]\nname = 'syn'\nlayers = ['ipv4', 'tcp']\nsize = 64\n[[stream]]\nname = 'udp'\nsize = 64";
    let expectation = expectation(&traffic(text));
    assert_eq!(expectation.unsigned, ["syn"]);
    assert_eq!(expectation.streams.len(), 1);
    assert_eq!(
        (expectation.streams[0].id, expectation.streams[0].index),
        (2, 1)
    );
}

#[test]
fn all_flows_are_counted_or_the_limit_is_reported() {
    let two = "[[stream]]\nname = 'a'\nsize = 64\nflows = 30\n[[stream]]\nname = 'b'\nsize = 64\nflows = 5";
    for (text, flows) in [
        ("[[stream]]\nsize = 64", (1, true)),
        (two, (35, true)),
        ("[[stream]]\nflows = 100_000", (100_000, true)),
        (
            "[[stream]]\nsize = 64\nflows = 10_000_000",
            (1 << 18, false),
        ),
        // without signatures, and in an order that never repeats
        ("[[stream]]\nlayers = ['ipv4', 'tcp']\nsize = 64", (1, true)),
        ("[[stream]]\nflows = 20\norder = 'drawn'", (20, true)),
    ] {
        assert_eq!(count_flows(&traffic(text).streams), flows, "{text}");
    }
}

#[test]
fn test_frames_carry_one_flow_after_the_other() {
    let set = FlowSet::default_v4(2000).unwrap();
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        version: IpVersion::V4,
        frame_size: 64,
    })
    .unwrap();
    let expectation = Expectation::from_frames(&Frames::Test(TestFrames {
        template: template.clone(),
        flows: set,
        nonce: 7,
    }));
    let stream = &expectation.streams[0];
    let mut frame = vec![0; template.buffer_len()];
    let requested = [0, 1, 20, 99, 1999];
    let names = flows(stream).names(&requested, None);
    for (number, name) in requested.iter().zip(names) {
        let signature = Signature {
            nonce: 7,
            stream: 0,
            sequence: u64::from(*number),
            timestamp_ns: 0,
        };
        template.write(&mut frame, &set.flow(u64::from(*number)), &signature);
        assert_eq!(flow(&frame), name);
    }
    assert_eq!((flows(stream).count(), flows(stream).among(5)), (2000, 5));
}

/// Plays the first frames of each stream by several senders, all of the first sender before those
/// of the second; the DUT drops every fifth frame of a stream and sends every seventh twice.
fn analysed(traffic: &Arc<Traffic>, senders: u32, frames: u64) -> Analysis {
    let all = Frames::Traffic(TrafficFrames {
        traffic: traffic.clone(),
        nonce: 7,
    });
    let expectation = Expectation::from_frames(&all).from_senders(&all, senders);
    let expected = Expected {
        nonce: 7,
        buffer_bytes: None,
        place: traffic.place().unwrap(),
        analysis: Some(expectation.plan()),
    };
    let mut analyser = Analyser::new("test", &expected).unwrap();
    let Frames::Traffic(frames_of_all) = &all else {
        unreachable!()
    };
    for share in Share::all(senders).unwrap() {
        let mut player = Player::of_share(frames_of_all, None, share).unwrap();
        let mut buffer = vec![0; player.buffer_len()];
        let mut sent = vec![0; traffic.streams.len()];
        // the rarest stream has a quarter of all frames
        for _ in 0..frames * 4 / u64::from(senders) + 16 {
            let Some(next) = player.upcoming() else { break };
            let stream = next.stream as usize;
            let len = player.take(&mut buffer, None, 5);
            let number = match share.part(traffic, stream) {
                Part::Every { first, every } => first + sent[stream] * every,
                _ => sent[stream],
            };
            sent[stream] += 1;
            if number >= frames || number % 5 == 3 {
                continue;
            }
            for _ in 0..1 + u32::from(number % 7 == 2) {
                analyser.frame(&buffer[..len], 5 + number % 3);
            }
        }
    }
    let origins = Origins::default();
    expectation.together(analyser.analysis(origins))
}

/// However far senders are apart, what is found of their frames is what is found of one sender's.
#[test]
fn results_of_several_senders_are_those_of_one() {
    let imix = "size = 'imix'";
    for text in [
        "[[stream]]\nflows = 20".to_owned(),
        format!("[[stream]]\n{imix}\nflows = 6\norder = 'shuffled'\nseed = 5"),
        "[[stream]]\nflows = 7\nshare = 3\n[[stream]]\nflows = 4\nsize = 128".into(),
    ] {
        let traffic = traffic(&text);
        let one = analysed(&traffic, 1, 400);
        for stream in &one.streams {
            assert_eq!((stream.received, stream.duplicates), (366, 46), "{text}");
        }
        for senders in [2, 3, 4, 8] {
            let several = analysed(&traffic, senders, 400);
            for (found, expected) in several.streams.iter().zip(&one.streams) {
                let case = format!("{senders} senders, {text}");
                assert_eq!(found.id, expected.id, "{case}");
                assert_eq!(found.received, expected.received, "{case}");
                assert_eq!(found.bytes, expected.bytes, "{case}");
                assert_eq!(found.duplicates, expected.duplicates, "{case}");
                assert_eq!(
                    (found.reordered, found.older, found.corrupt),
                    (0, 0, 0),
                    "{case}"
                );
                assert_eq!(found.flows, expected.flows, "{case}");
                assert_eq!(found.latency, expected.latency, "{case}");
                assert_eq!(found.latency_sum_ns, expected.latency_sum_ns, "{case}");
                assert_eq!(found.latency_min_ns, expected.latency_min_ns, "{case}");
                assert_eq!(found.latency_max_ns, expected.latency_max_ns, "{case}");
            }
        }
    }
}

#[test]
fn a_flow_has_one_sender_if_their_number_divides_that_of_flows() {
    for (text, senders, keeps) in [
        ("[[stream]]\nflows = 20", 4, Some(true)),
        ("[[stream]]\nflows = 20", 3, Some(false)),
        // two kinds take turns: one sender has each, with all its flows
        ("[[stream]]\nflows = 3\nsize = [64, 128]", 2, Some(false)),
        (
            "[[stream]]\nvary = [{ field = 'udp.source-port', from = 1, to = 9000, change = 'random' }]",
            2,
            None,
        ),
    ] {
        let traffic = traffic(text);
        let frames = Frames::Traffic(TrafficFrames {
            traffic: traffic.clone(),
            nonce: 7,
        });
        let expectation = expectation(&traffic).from_senders(&frames, senders);
        assert_eq!(expectation.streams[0].senders, senders);
        assert_eq!(expectation.streams[0].keeps_flows(), keeps, "{text}");
        // the first sender is one frame behind: of the first 3 * senders frames one is missing
        let mut sent = vec![3; senders as usize];
        assert_eq!(
            expectation.streams[0].complete(&sent),
            3 * u64::from(senders)
        );
        sent[0] = 2;
        assert_eq!(
            expectation.streams[0].complete(&sent),
            2 * u64::from(senders)
        );
    }
}
