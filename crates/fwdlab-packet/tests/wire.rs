//! Frames as tshark reads them: the protocols that etherparse does not know, nested frames, and
//! every checksum.

#![expect(clippy::disallowed_methods, reason = "asks an independent program")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use fwdlab_packet::MacAddr;
use fwdlab_packet::header::options::Options;
use fwdlab_packet::header::{
    arp, ethernet, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, mpls, ndp, tcp, udp, vlan, vxlan,
};
use fwdlab_packet::pcap::{ETHERNET, Format, Frame, Writer};
use fwdlab_packet::stack::{Extension, Layer, Size, build};
use std::io::Write;
use std::process::{Command, Stdio};

fn eth() -> Layer {
    Layer::Ethernet(ethernet::Repr {
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        ethertype: 0,
    })
}

fn tag(id: u16) -> Layer {
    Layer::Vlan(vlan::Repr {
        priority: 3,
        drop_eligible: false,
        id,
        ethertype: 0,
    })
}

fn label(label: u32) -> Layer {
    Layer::Mpls(mpls::Repr {
        label,
        traffic_class: 1,
        bottom: false,
        ttl: 64,
    })
}

fn v4() -> Layer {
    Layer::Ipv4(ipv4::Repr {
        source: [198, 18, 0, 1].into(),
        destination: [198, 19, 0, 1].into(),
        ..ipv4::Repr::default()
    })
}

fn v6() -> Layer {
    Layer::Ipv6(ipv6::Repr {
        source: "2001:2::1".parse().unwrap(),
        destination: "2001:2:0:8000::1".parse().unwrap(),
        ..ipv6::Repr::default()
    })
}

fn udp_to(destination_port: u16) -> Layer {
    Layer::Udp(udp::Repr {
        source_port: 50_000,
        destination_port,
        payload_len: 0,
    })
}

fn data() -> Layer {
    Layer::Payload((0..33).collect())
}

fn syn() -> Layer {
    Layer::Tcp(tcp::Repr {
        source_port: 1024,
        destination_port: 81,
        options: Options::new(&[2, 4, 5, 0xb4, 1, 3, 3, 7]).unwrap(),
        ..tcp::Repr::default()
    })
}

fn extension(kind: ipv6_ext::Kind, body: Vec<u8>) -> Layer {
    Layer::Extension(Extension {
        kind,
        next_header: 59,
        body,
    })
}

/// Layers, and their names in tshark.
fn cases() -> Vec<(Vec<Layer>, &'static str)> {
    use ipv6_ext::Kind::{Destination, HopByHop, Routing};
    let target = "2001:2::9".parse().unwrap();
    let arp = Layer::Arp(arp::Repr {
        operation: arp::REQUEST,
        sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sender_ip: [198, 18, 0, 1].into(),
        target_mac: MacAddr([0; 6]),
        target_ip: [198, 18, 0, 2].into(),
    });
    let nd = |advertisement, flags| {
        Layer::Ndp(ndp::Repr {
            advertisement,
            flags,
            target,
            link_address: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        })
    };
    let gre = |checksum, key, sequence| {
        Layer::Gre(gre::Repr {
            checksum,
            key,
            sequence,
            ethertype: 0,
        })
    };
    let alert = Layer::Ipv4(ipv4::Repr {
        source: [198, 18, 0, 1].into(),
        destination: [198, 19, 0, 1].into(),
        options: Options::new(&[0x94, 4, 0, 0]).unwrap(),
        ..ipv4::Repr::default()
    });
    let mut segments = vec![4, 1, 1, 0, 0, 0];
    segments.extend([0x20; 32]);
    let vxlan = Layer::Vxlan(vxlan::Repr { vni: 4660 });
    vec![
        (
            vec![eth(), v4(), udp_to(9999), data()],
            "eth:ethertype:ip:udp:data",
        ),
        (
            vec![eth(), v6(), udp_to(9999), data()],
            "eth:ethertype:ipv6:udp:data",
        ),
        (
            vec![eth(), tag(7), v4(), syn()],
            "eth:ethertype:vlan:ethertype:ip:tcp",
        ),
        (
            vec![eth(), tag(7), tag(8), v6(), syn(), data()],
            "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ipv6:tcp:data",
        ),
        (
            vec![eth(), label(16), label(17), v4(), udp_to(9999), data()],
            "eth:ethertype:mpls:ip:udp:data",
        ),
        (vec![eth(), arp], "eth:ethertype:arp"),
        (
            vec![
                eth(),
                alert,
                Layer::Icmp(icmp::Repr::echo_request(7, 1)),
                data(),
            ],
            "eth:ethertype:ip:icmp:data",
        ),
        (
            vec![
                eth(),
                v6(),
                Layer::Icmpv6(icmpv6::Repr::echo_request(7, 1)),
                data(),
            ],
            "eth:ethertype:ipv6:icmpv6:data",
        ),
        (vec![eth(), v6(), nd(false, 0)], "eth:ethertype:ipv6:icmpv6"),
        (
            vec![eth(), v6(), nd(true, ndp::flag::OVERRIDE)],
            "eth:ethertype:ipv6:icmpv6",
        ),
        (
            vec![
                eth(),
                v6(),
                extension(HopByHop, vec![5, 2, 0, 0, 1, 0]),
                extension(Destination, vec![1, 4, 0, 0, 0, 0]),
                udp_to(9999),
                data(),
            ],
            "eth:ethertype:ipv6:ipv6.hopopts:ipv6.dstopts:udp:data",
        ),
        (
            vec![
                eth(),
                v6(),
                extension(Routing, segments),
                udp_to(9999),
                data(),
            ],
            "eth:ethertype:ipv6:ipv6.routing:udp:data",
        ),
        (
            vec![
                eth(),
                v4(),
                gre(true, Some(5), Some(6)),
                v4(),
                udp_to(9999),
                data(),
            ],
            "eth:ethertype:ip:gre:ip:udp:data",
        ),
        (
            vec![eth(), v6(), gre(false, None, None), eth(), v4(), syn()],
            "eth:ethertype:ipv6:gre:eth:ethertype:ip:tcp",
        ),
        (
            vec![
                eth(),
                v4(),
                udp_to(4789),
                vxlan.clone(),
                eth(),
                tag(9),
                v6(),
                udp_to(9999),
                data(),
            ],
            "eth:ethertype:ip:udp:vxlan:eth:ethertype:vlan:ethertype:ipv6:udp:data",
        ),
        (
            vec![eth(), v6(), udp_to(4789), vxlan, eth(), v4(), syn(), data()],
            "eth:ethertype:ipv6:udp:vxlan:eth:ethertype:ip:tcp:data",
        ),
        (
            vec![eth(), v4(), v6(), udp_to(9999), data()],
            "eth:ethertype:ip:ipv6:udp:data",
        ),
    ]
}

#[test]
fn tshark_decodes_the_intended_frames_with_valid_checksums() {
    let mut file = Vec::new();
    let writer = Writer::start(Format::Ng, ETHERNET, &mut file);
    for (layers, _) in cases() {
        let frame = build(&layers, Size::Padded).unwrap();
        writer.frame(&Frame::new(0, &frame.bytes), &mut file);
    }
    let arguments = [
        "-r",
        "-",
        "-T",
        "fields",
        "-e",
        "frame.protocols",
        "-e",
        "_ws.expert.message",
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
        "-e",
        "ip.checksum.status",
        "-e",
        "udp.checksum.status",
        "-e",
        "tcp.checksum.status",
        "-e",
        "icmp.checksum.status",
        "-e",
        "icmpv6.checksum.status",
    ];
    let child = Command::new("tshark")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        println!("SKIPPED: tshark_decodes_the_intended_frames_with_valid_checksums: needs tshark");
        return;
    };
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&file)
        .expect("tshark reads");
    let output = child.wait_with_output().expect("tshark ends");
    let lines = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), cases().len());
    for (line, (layers, protocols)) in lines.iter().zip(cases()) {
        let fields: Vec<_> = line.split('\t').collect();
        assert_eq!(fields[0], protocols);
        let says = fields[1].to_lowercase();
        for complaint in ["checksum", "malformed", "bogus", "length", "truncated"] {
            assert!(!says.contains(complaint), "{protocols}: {says}");
        }
        // 1 is "good"; one per header that has such a checksum, inner frames included.
        for (field, names) in fields[2..].iter().zip([
            &["IPv4"][..],
            &["UDP"],
            &["TCP"],
            &["ICMP"],
            &["ICMPv6", "ND"],
        ]) {
            let good: Vec<_> = field.split(',').filter(|status| *status == "1").collect();
            let all = field.split(',').filter(|status| !status.is_empty()).count();
            let expected = layers
                .iter()
                .filter(|layer| names.contains(&layer.name()))
                .count();
            assert_eq!(
                (good.len(), all),
                (expected, expected),
                "{protocols}: {names:?} {field}"
            );
        }
    }
}
