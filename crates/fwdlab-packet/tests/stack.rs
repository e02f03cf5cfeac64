//! Stacks of layers checked independently: by etherparse, and by tshark if installed. In reverse,
//! decoding returns what was built, and nothing makes the decoder panic.

#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use fwdlab_packet::decode::decode;
use fwdlab_packet::header::options::{self, Options};
use fwdlab_packet::header::{
    arp, ethernet, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, mpls, ndp, tcp, udp, vlan, vxlan,
};
use fwdlab_packet::stack::{Extension, Layer, Size, StackError, build};
use fwdlab_packet::{MacAddr, checksum};
use proptest::prelude::*;
use proptest::strategy::Union;

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn eth() -> impl Strategy<Value = Layer> {
    (mac(), mac()).prop_map(|(source, destination)| {
        Layer::Ethernet(ethernet::Repr {
            destination,
            source,
            ethertype: 0x88b5, // local experimental (IEEE 802)
        })
    })
}

fn tag() -> impl Strategy<Value = Layer> {
    (0..8_u8, any::<bool>(), 0..4096_u16).prop_map(|(priority, drop_eligible, id)| {
        Layer::Vlan(vlan::Repr {
            priority,
            drop_eligible,
            id,
            ethertype: 0x88b5,
        })
    })
}

fn label() -> impl Strategy<Value = Layer> {
    (16..0x10_0000_u32, 0..8_u8, any::<u8>()).prop_map(|(label, traffic_class, ttl)| {
        Layer::Mpls(mpls::Repr {
            label,
            traffic_class,
            bottom: false,
            ttl,
        })
    })
}

fn payload() -> impl Strategy<Value = Vec<Layer>> {
    prop_oneof![
        Just(vec![]),
        proptest::collection::vec(any::<u8>(), 1..80).prop_map(|bytes| vec![Layer::Payload(bytes)])
    ]
}

fn then(
    first: impl Strategy<Value = Layer>,
    rest: impl Strategy<Value = Vec<Layer>>,
) -> impl Strategy<Value = Vec<Layer>> {
    (first, rest).prop_map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    })
}

fn udp_layer() -> impl Strategy<Value = Layer> {
    // Any port except VXLAN's.
    (any::<u16>(), 1..4000_u16).prop_map(|(source_port, destination_port)| {
        Layer::Udp(udp::Repr {
            source_port,
            destination_port,
            payload_len: 0,
        })
    })
}

fn tcp_layer() -> impl Strategy<Value = Layer> {
    (
        any::<[u16; 3]>(),
        any::<[u32; 2]>(),
        any::<u8>(),
        any::<bool>(),
    )
        .prop_map(
            |([source_port, destination_port, window], [sequence, acknowledgment], flags, mss)| {
                Layer::Tcp(tcp::Repr {
                    source_port,
                    destination_port,
                    sequence,
                    acknowledgment,
                    flags,
                    window,
                    urgent: 0,
                    options: match mss {
                        true => Options::new(&[2, 4, 5, 0xb4, 1, 3, 3, 7]).unwrap(),
                        false => options::NONE,
                    },
                })
            },
        )
}

fn ipv4_layer() -> impl Strategy<Value = Layer> {
    (
        any::<[u8; 8]>(),
        any::<(u8, u16, bool)>(),
        1..=255_u8,
        any::<bool>(),
    )
        .prop_map(
            |(addresses, (traffic_class, identification, dont_fragment), ttl, alert)| {
                let [a, b, c, d, e, f, g, h] = addresses;
                Layer::Ipv4(ipv4::Repr {
                    traffic_class,
                    identification,
                    dont_fragment,
                    ttl,
                    protocol: 253, // experimental (RFC 3692)
                    source: [a, b, c, d].into(),
                    destination: [e, f, g, h].into(),
                    options: match alert {
                        true => Options::new(&[0x94, 4, 0, 0]).unwrap(),
                        false => options::NONE,
                    },
                    ..ipv4::Repr::default()
                })
            },
        )
}

fn ipv6_layers() -> impl Strategy<Value = Vec<Layer>> {
    let ip = any::<([u8; 16], [u8; 16], u8, u32, u8)>().prop_map(
        |(source, destination, traffic_class, label, hop_limit)| {
            Layer::Ipv6(ipv6::Repr {
                traffic_class,
                flow_label: label & 0xf_ffff,
                next_header: 253,
                hop_limit,
                source: source.into(),
                destination: destination.into(),
                payload_len: 0,
            })
        },
    );
    let extension = |kind, body: Vec<u8>| {
        Layer::Extension(Extension {
            kind,
            next_header: 253,
            body,
        })
    };
    let alert = extension(ipv6_ext::Kind::HopByHop, vec![5, 2, 0, 0, 1, 0]);
    let pad = extension(ipv6_ext::Kind::Destination, vec![1, 4, 0, 0, 0, 0]);
    let mut segments = vec![4, 1, 1, 0, 0, 0];
    segments.extend([0x20; 32]);
    let routing = extension(ipv6_ext::Kind::Routing, segments);
    (ip, any::<[bool; 3]>()).prop_map(move |(ip, there)| {
        let extensions = [&alert, &routing, &pad].into_iter().zip(there);
        let extensions = extensions.filter(|(_, there)| *there);
        let extensions = extensions.map(|(layer, _)| layer.clone());
        [ip].into_iter().chain(extensions).collect()
    })
}

/// Payloads of IP; `v6` selects the kind of ICMP.
fn transport(v6: bool, inner: BoxedStrategy<Vec<Layer>>) -> impl Strategy<Value = Vec<Layer>> {
    let echo = any::<(u16, u16)>().prop_map(move |(identifier, sequence)| match v6 {
        true => Layer::Icmpv6(icmpv6::Repr::echo_request(identifier, sequence)),
        false => Layer::Icmp(icmp::Repr::echo_request(identifier, sequence)),
    });
    let gre_layer =
        any::<(bool, Option<u32>, Option<u32>)>().prop_map(|(checksum, key, sequence)| {
            Layer::Gre(gre::Repr {
                checksum,
                key,
                sequence,
                ethertype: 0x88b5,
            })
        });
    let vxlan =
        (0..0x100_0000_u32, any::<u16>(), inner.clone()).prop_map(|(vni, source_port, inner)| {
            let udp = Layer::Udp(udp::Repr {
                source_port,
                destination_port: vxlan::PORT,
                payload_len: 0,
            });
            [vec![udp, Layer::Vxlan(vxlan::Repr { vni })], inner].concat()
        });
    Union::new([
        then(udp_layer(), payload()).boxed(),
        then(tcp_layer(), payload()).boxed(),
        then(echo, payload()).boxed(),
        then(gre_layer, inner).boxed(),
        vxlan.boxed(),
        payload().boxed(),
    ])
}

/// Payloads of Ethernet, with nested frames up to a depth.
fn network(depth: u32) -> BoxedStrategy<Vec<Layer>> {
    let inner = match depth {
        0 => then(eth(), payload()).boxed(),
        _ => then(eth(), network(depth - 1)).boxed(),
    };
    let v4 = then(ipv4_layer(), transport(false, inner.clone()));
    let v6 = (ipv6_layers(), transport(true, inner)).prop_map(|(ip, rest)| [ip, rest].concat());
    let nd = (ipv6_layers(), any::<(bool, [u8; 16], Option<[u8; 6]>)>()).prop_map(
        |(ip, (advertisement, target, address))| {
            let message = ndp::Repr {
                advertisement,
                flags: if advertisement {
                    ndp::flag::SOLICITED
                } else {
                    0
                },
                target: target.into(),
                link_address: address.map(MacAddr),
            };
            [ip, vec![Layer::Ndp(message)]].concat()
        },
    );
    let arp = (mac(), any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(sender_mac, from, to)| {
        vec![Layer::Arp(arp::Repr {
            operation: arp::REQUEST,
            sender_mac,
            sender_ip: from.into(),
            target_mac: MacAddr([0; 6]),
            target_ip: to.into(),
        })]
    });
    let tags = proptest::collection::vec(tag(), 0..3);
    let labels = proptest::collection::vec(label(), 0..3);
    let ip = prop_oneof![v4, v6, nd];
    let labelled = (labels, ip).prop_map(|(labels, ip)| [labels, ip].concat());
    let any = prop_oneof![4 => labelled, 1 => arp, 1 => payload()];
    (tags, any)
        .prop_map(|(tags, rest)| [tags, rest].concat())
        .boxed()
}

fn stacks() -> impl Strategy<Value = Vec<Layer>> {
    then(eth(), network(1))
}

/// Returns whether etherparse finds the UDP, TCP or ICMP checksum of a frame correct; `None` if it
/// finds none.
fn transport_is_right(bytes: &[u8]) -> Option<bool> {
    use etherparse::{NetSlice, TransportSlice};
    let sliced = etherparse::SlicedPacket::from_ethernet(bytes).expect("etherparse understands it");
    let (from, to): (Vec<u8>, Vec<u8>) = match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => (
            ip.header().source().into(),
            ip.header().destination().into(),
        ),
        Some(NetSlice::Ipv6(ip)) => (
            ip.header().source().into(),
            ip.header().destination().into(),
        ),
        _ => return None,
    };
    let (protocol, slice) = match sliced.transport? {
        TransportSlice::Udp(udp) => (17, udp.slice().to_vec()),
        TransportSlice::Tcp(tcp) => (6, tcp.slice().to_vec()),
        TransportSlice::Icmpv4(icmp) => return Some(checksum::sum(icmp.slice()) == 0xffff),
        TransportSlice::Icmpv6(icmp) => (58, icmp.slice().to_vec()),
        _ => return None,
    };
    let mut sum = etherparse::checksum::Sum16BitWords::new();
    for address in [from, to] {
        sum = sum.add_slice(&address);
    }
    let sum = sum
        .add_2bytes([0, protocol])
        .add_2bytes((slice.len() as u16).to_be_bytes());
    Some(sum.add_slice(&slice).ones_complement() == 0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn built_frames_can_be_decoded(layers in stacks(), size in prop_oneof![Just(Size::Layers), Just(Size::Padded)]) {
        let frame = build(&layers, size).unwrap();
        let decoded = decode(&frame.bytes);
        prop_assert_eq!(&decoded.notes, &[], "{}", decoded);
        // Zeros behind a frame without a length field are payload to its reader.
        if frame.padding == decoded.padding {
            prop_assert_eq!(&decoded.offsets, &frame.offsets, "{}", decoded);
        }
        let again = build(&decoded.layers, Size::Layers).unwrap();
        let content = frame.bytes.len() - decoded.padding;
        prop_assert_eq!(&again.bytes[..], &frame.bytes[..content]);
        for (ours, theirs) in layers.iter().zip(&decoded.layers) {
            prop_assert_eq!(ours.name(), theirs.name());
        }
    }

    #[test]
    fn etherparse_finds_checksums_right(mut layers in stacks()) {
        // etherparse does not know labels or the last segments of routing headers, and shows inner
        // packets as payload.
        layers.retain(|layer| !matches!(layer, Layer::Mpls(_)));
        let routed = layers.iter().any(|layer| {
            matches!(layer, Layer::Extension(extension) if extension.kind == ipv6_ext::Kind::Routing)
        });
        let frame = build(&layers, Size::Padded).unwrap();
        let right = transport_is_right(&frame.bytes);
        prop_assert!(routed || right != Some(false));
    }

    #[test]
    fn any_size(layers in stacks(), frame_size in 0..400_usize) {
        let minimum = 64.max(build(&layers, Size::Layers).unwrap().frame_size());
        match build(&layers, Size::Frame(frame_size)) {
            Ok(frame) => {
                prop_assert_eq!(frame.frame_size(), frame_size);
                let decoded = decode(&frame.bytes);
                prop_assert_eq!(&decoded.notes, &[], "{}", decoded);
                prop_assert_eq!(frame.padding, decoded.padding);
            }
            Err(error) => {
                prop_assert!(frame_size < minimum);
                prop_assert_eq!(error, StackError::TooSmall { frame_size, minimum });
            }
        }
    }

    #[test]
    fn damage_is_no_panic_and_no_loss(layers in stacks(), damage in proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4), cut: Option<prop::sample::Index>) {
        let mut bytes = build(&layers, Size::Padded).unwrap().bytes;
        for (at, byte) in damage {
            *at.get_mut(&mut bytes) = byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        let decoded = decode(&bytes);
        let covered: usize = decoded.layers.iter().map(Layer::header_len).sum();
        prop_assert!(covered + decoded.padding <= bytes.len());
        prop_assert!(!decoded.to_string().contains('\n'));
        if decoded.notes.is_empty() && !bytes.is_empty() {
            let again = build(&decoded.layers, Size::Layers).unwrap();
            prop_assert_eq!(&again.bytes[..], &bytes[..bytes.len() - decoded.padding]);
        }
    }

    #[test]
    fn noise_is_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), ethertype in prop::sample::select(&[0x8100_u16, 0x8847, 0x0806, 0x0800, 0x86dd][..])) {
        let mut bytes = bytes;
        if let Some(field) = bytes.get_mut(12..14) {
            field.copy_from_slice(&ethertype.to_be_bytes());
        }
        let _ = decode(&bytes).to_string();
    }
}

/// Checks whether the layers can be stacked.
fn check(layers: &[Layer]) -> Result<(), StackError> {
    build(layers, Size::Padded).map(|_| ())
}

#[test]
fn impossible_stacks_are_refused() {
    let zero = MacAddr([0; 6]);
    let eth = Layer::Ethernet(ethernet::Repr {
        destination: zero,
        source: zero,
        ethertype: 0,
    });
    let v4 = Layer::Ipv4(ipv4::Repr::default());
    let v6 = Layer::Ipv6(ipv6::Repr::default());
    let udp = Layer::Udp(udp::Repr {
        source_port: 1,
        destination_port: 2,
        payload_len: 0,
    });
    let big = Layer::Payload(vec![0; 65_528]);
    assert_eq!(check(&[]), Err(StackError::NoEthernet));
    assert_eq!(
        check(&[v4.clone(), udp.clone()]),
        Err(StackError::NoEthernet)
    );
    let order = |at, lower, upper| Err(StackError::Order { at, lower, upper });
    assert_eq!(
        check(&[eth.clone(), udp.clone()]),
        order(0, "Ethernet", "UDP")
    );
    let ping = Layer::Icmp(icmp::Repr::echo_request(1, 1));
    assert_eq!(
        check(&[eth.clone(), v6.clone(), ping]),
        order(1, "IPv6", "ICMP")
    );
    let fragment = Layer::Ipv4(ipv4::Repr {
        more_fragments: true,
        ..ipv4::Repr::default()
    });
    assert_eq!(
        check(&[eth.clone(), fragment, udp.clone()]),
        order(1, "IPv4", "UDP")
    );
    for ip in [v4, v6] {
        let too_long = check(&[eth.clone(), ip, udp.clone(), big.clone()]);
        assert!(
            matches!(too_long, Err(StackError::TooLong { at: 2, .. })),
            "{too_long:?}"
        );
    }
    let odd = Layer::Extension(Extension {
        kind: ipv6_ext::Kind::HopByHop,
        next_header: 59,
        body: vec![0; 5],
    });
    let body = check(&[eth, Layer::Ipv6(ipv6::Repr::default()), odd]);
    assert_eq!(body, Err(StackError::Body { at: 2, bytes: 5 }));
}

#[test]
fn one_line_per_frame() {
    let show = |bytes: &[u8]| decode(bytes).to_string();
    let layers = [
        Layer::Ethernet(ethernet::Repr {
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            ethertype: 0,
        }),
        Layer::Vlan(vlan::Repr {
            priority: 0,
            drop_eligible: false,
            id: 7,
            ethertype: 0,
        }),
        Layer::Ipv4(ipv4::Repr {
            source: [198, 18, 0, 1].into(),
            destination: [198, 19, 0, 1].into(),
            ..ipv4::Repr::default()
        }),
        Layer::Udp(udp::Repr {
            source_port: 2000,
            destination_port: 53,
            payload_len: 0,
        }),
    ];
    let mut bytes = build(&layers, Size::Padded).unwrap().bytes;
    let line = "02:00:00:00:00:01 > 02:00:00:00:00:02, VLAN 7 priority 0, \
                IPv4 198.18.0.1 > 198.19.0.1 ttl 64, UDP 2000 > 53, padding 14 bytes";
    assert_eq!(show(&bytes), line);
    bytes[39] ^= 1; // the source port's low byte
    let line = line.replace("2000", "2001");
    assert_eq!(show(&bytes), format!("{line} [wrong UDP checksum]"));
    assert_eq!(
        show(&bytes[..5]),
        "payload 5 bytes [Ethernet: truncated: fewer bytes than the header says]"
    );
}
