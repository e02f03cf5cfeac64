//! Test frames as another header library reads them, and as another sender would build them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use fwdlab_packet::{
    Addresses, Flow, FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Order, Signature,
    header, signature, template,
};
use proptest::prelude::*;

fn any_spec() -> impl Strategy<Value = FrameSpec> {
    // Small sizes as often as large ones, because they have the corner cases.
    let size = prop_oneof![84..=128_u16, 84..=9216_u16, Just(u16::MAX)];
    (any::<[u8; 6]>(), any::<[u8; 6]>(), any::<bool>(), size).prop_map(
        |(source, destination, v4, size)| FrameSpec {
            source: MacAddr(source),
            destination: MacAddr(destination),
            version: if v4 { IpVersion::V4 } else { IpVersion::V6 },
            // 64.. for IPv4, 84.. for IPv6
            frame_size: if v4 && size < 9216 { size - 20 } else { size },
        },
    )
}

/// Any flow, inside or outside the benchmark blocks: the template only sees numbers.
fn any_flow(version: IpVersion) -> impl Strategy<Value = Flow> {
    (
        any::<[u8; 16]>(),
        any::<[u8; 16]>(),
        any::<u16>(),
        any::<u16>(),
    )
        .prop_map(
            move |(source, destination, source_port, destination_port)| Flow {
                addresses: match version {
                    IpVersion::V4 => Addresses::V4 {
                        source: <[u8; 4]>::try_from(&source[..4]).unwrap().into(),
                        destination: <[u8; 4]>::try_from(&destination[..4]).unwrap().into(),
                    },
                    IpVersion::V6 => Addresses::V6 {
                        source: source.into(),
                        destination: destination.into(),
                    },
                },
                source_port,
                destination_port,
            },
        )
}

fn any_signature() -> impl Strategy<Value = Signature> {
    (any::<u16>(), any::<u16>(), any::<u64>(), any::<u64>()).prop_map(
        |(nonce, stream, sequence, timestamp_ns)| Signature {
            nonce,
            stream,
            sequence,
            timestamp_ns,
        },
    )
}

/// A template's spec and two frames of it.
fn any_frames() -> impl Strategy<Value = (FrameSpec, [(Flow, Signature); 2])> {
    any_spec().prop_flat_map(|spec| {
        let frame = || (any_flow(spec.version), any_signature());
        (Just(spec), [frame(), frame()])
    })
}

fn written(spec: &FrameSpec, flow: &Flow, signature: &Signature) -> Vec<u8> {
    let template = FrameTemplate::new(spec).unwrap();
    let mut buffer = vec![0xee; template.buffer_len()];
    template.write(&mut buffer, flow, signature);
    buffer
}

/// Parses the frame with etherparse and checks every field and checksum.
fn check_with_etherparse(bytes: &[u8], spec: &FrameSpec, flow: &Flow, signature: &Signature) {
    assert_eq!(bytes.len(), usize::from(spec.frame_size) - 4);
    let packet = SlicedPacket::from_ethernet(bytes).unwrap();

    let Some(etherparse::LinkSlice::Ethernet2(ethernet)) = packet.link else {
        panic!("not Ethernet II")
    };
    assert_eq!(ethernet.source(), spec.source.0);
    assert_eq!(ethernet.destination(), spec.destination.0);

    let Some(TransportSlice::Udp(udp)) = packet.transport else {
        panic!("not UDP")
    };
    assert_eq!(udp.source_port(), flow.source_port);
    assert_eq!(udp.destination_port(), flow.destination_port);
    let header = udp.to_header();

    let signature_at = match (packet.net.unwrap(), flow.addresses) {
        (
            NetSlice::Ipv4(slice),
            Addresses::V4 {
                source,
                destination,
            },
        ) => {
            let ip = slice.header().to_header();
            assert_eq!(
                (ip.source, ip.destination),
                (source.octets(), destination.octets())
            );
            assert_eq!(
                (ip.time_to_live, ip.identification, ip.dont_fragment),
                (64, 0, false)
            );
            assert_eq!(usize::from(ip.total_len), usize::from(spec.frame_size) - 18);
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            let expect = header.calc_checksum_ipv4(&ip, udp.payload()).unwrap();
            assert_eq!(header.checksum, expect);
            signature::OFFSET_IPV4_UDP
        }
        (
            NetSlice::Ipv6(slice),
            Addresses::V6 {
                source,
                destination,
            },
        ) => {
            let ip = slice.header().to_header();
            assert_eq!(
                (ip.source_addr(), ip.destination_addr()),
                (source, destination)
            );
            assert_eq!(
                (ip.hop_limit, ip.traffic_class, ip.flow_label.value()),
                (64, 0, 0)
            );
            assert_eq!(
                usize::from(ip.payload_length),
                usize::from(spec.frame_size) - 58
            );
            assert_eq!(
                header.checksum,
                header.calc_checksum_ipv6(&ip, udp.payload()).unwrap()
            );
            signature::OFFSET_IPV6_UDP
        }
        (net, addresses) => panic!("{net:?} for {addresses:?}"),
    };
    assert_ne!(header.checksum, 0);

    assert_eq!(udp.payload(), &bytes[signature_at..]);
    let carried = Signature {
        sequence: signature.sequence % (1 << 48),
        ..*signature
    };
    assert_eq!(Signature::read(udp.payload()), Some(carried));
    assert!(
        udp.payload()[signature::LEN..]
            .iter()
            .all(|byte| *byte == 0)
    );
}

/// Parses the frame with our own headers, as a receiver does.
fn check_with_our_headers(bytes: &[u8]) -> Result<(), header::Error> {
    let (ethernet, rest) = header::ethernet::Repr::parse(bytes)?;
    let (pseudo_header, rest) = match ethernet.ethertype {
        header::ipv4::ETHERTYPE => {
            let (ip, rest) = header::ipv4::Repr::parse(rest)?;
            (ip.pseudo_header(), rest)
        }
        header::ipv6::ETHERTYPE => {
            let (ip, rest) = header::ipv6::Repr::parse(rest)?;
            (ip.pseudo_header(), rest)
        }
        other => panic!("EtherType {other:#06x}"),
    };
    assert!(header::udp::Packet::new(rest)?.verify_checksum(pseudo_header));
    Ok(())
}

proptest! {
    #[test]
    fn frames_are_what_etherparse_expects((spec, [(flow, signature), _]) in any_frames()) {
        let bytes = written(&spec, &flow, &signature);
        check_with_etherparse(&bytes, &spec, &flow, &signature);
        prop_assert_eq!(check_with_our_headers(&bytes), Ok(()));
    }

    #[test]
    fn patching_one_frame_gives_the_other((spec, [before, after]) in any_frames()) {
        let template = FrameTemplate::new(&spec).unwrap();
        let mut patched = vec![0xee; template.buffer_len() + 9];
        template.write(&mut patched, &before.0, &before.1);
        template.patch(&mut patched, &after.0, &after.1);
        let (frame, beyond) = patched.split_at(template.buffer_len());
        prop_assert_eq!(frame, written(&spec, &after.0, &after.1));
        prop_assert_eq!(beyond, [0xee; 9]);
    }

    /// The signature can make the UDP sum all ones; then the checksum is sent as 0xffff (RFC 768).
    #[test]
    fn a_zero_udp_checksum_is_sent_as_ones((spec, [(flow, mut signature), _]) in any_frames()) {
        signature.stream = 0;
        let at = match spec.version { IpVersion::V4 => 40, IpVersion::V6 => 60 };
        let checksum = |bytes: &[u8]| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        signature.stream = checksum(&written(&spec, &flow, &signature));
        let bytes = written(&spec, &flow, &signature);
        prop_assert_eq!(checksum(&bytes), 0xffff);
        check_with_etherparse(&bytes, &spec, &flow, &signature);
    }

    /// A BPF sender: little-endian loads, the constants swapped once, and no other knowledge.
    #[test]
    fn partial_sums_are_all_a_little_endian_sender_needs((spec, [(flow, signature), _]) in any_frames()) {
        fn fold(mut sum: u32) -> u16 {
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            sum as u16
        }
        fn add(sum: u32, words: &[u8]) -> u32 {
            words.chunks(2).fold(sum, |sum, word| sum + u32::from(u16::from_le_bytes([word[0], word[1]])))
        }
        let template = FrameTemplate::new(&spec).unwrap();
        let sums = template.partial_sums();
        let frame = written(&spec, &flow, &signature);

        let (addresses, ports) = match spec.version {
            IpVersion::V4 => (26..34, 34..38),
            IpVersion::V6 => (22..54, 54..58),
        };
        let signature = &frame[ports.end + 4..][..signature::LEN];
        let udp = add(u32::from(sums.udp.swap_bytes()), &frame[addresses.clone()]);
        let udp = match !fold(add(add(udp, &frame[ports.clone()]), signature)) {
            0 => 0xffff,
            checksum => checksum,
        };
        prop_assert_eq!(&udp.to_le_bytes(), &frame[ports.end + 2..ports.end + 4]);
        if spec.version == IpVersion::V4 {
            let ip = !fold(add(u32::from(sums.ipv4_header.swap_bytes()), &frame[addresses]));
            prop_assert_eq!(&ip.to_le_bytes(), &frame[24..26]);
        } else {
            prop_assert_eq!(sums.ipv4_header, 0);
        }
    }
}

#[test]
fn flow_sets_fill_templates() {
    for set in [
        FlowSet::default_v4(60).unwrap(),
        FlowSet::default_v6(60).unwrap(),
    ] {
        for set in [set, set.reversed()] {
            let spec = spec(set.version(), 84);
            for (sequence, flow) in (0..120).zip(set.walk(Order::Shuffled { seed: 1 })) {
                let signature = Signature {
                    nonce: 1,
                    stream: 2,
                    sequence,
                    timestamp_ns: 3,
                };
                let bytes = written(&spec, &flow, &signature);
                check_with_etherparse(&bytes, &spec, &flow, &signature);
            }
        }
    }
}

fn spec(version: IpVersion, frame_size: u16) -> FrameSpec {
    FrameSpec {
        source: MacAddr([2; 6]),
        destination: MacAddr([4; 6]),
        version,
        frame_size,
    }
}

#[test]
fn the_signature_just_fits_the_smallest_frame() {
    let template = FrameTemplate::new(&spec(IpVersion::V4, template::MIN_FRAME_SIZE_V4)).unwrap();
    assert_eq!(
        template.buffer_len(),
        signature::OFFSET_IPV4_UDP + signature::LEN
    );
    let template = FrameTemplate::new(&spec(IpVersion::V6, template::MIN_FRAME_SIZE_V6)).unwrap();
    assert_eq!(
        template.buffer_len(),
        signature::OFFSET_IPV6_UDP + signature::LEN
    );
}

#[test]
fn smaller_frames_are_refused_with_the_size_that_works() {
    let error = |version, size| {
        FrameTemplate::new(&spec(version, size))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(IpVersion::V4, 63),
        "frame size 63 is too small: IPv4/UDP with the 18-byte signature needs at least 64 (with FCS)"
    );
    assert_eq!(
        error(IpVersion::V6, 66),
        "frame size 66 is too small: IPv6/UDP with the 18-byte signature needs at least 84 (with FCS); \
         66, the smallest IPv6/UDP frame, has no payload"
    );
    assert!(FrameTemplate::new(&spec(IpVersion::V6, 0)).is_err());
}

#[test]
#[should_panic(expected = "in a template for IPv6")]
fn a_flow_of_the_other_ip_version_is_refused() {
    let flow = FlowSet::default_v4(1).unwrap().flow(0);
    written(&spec(IpVersion::V6, 84), &flow, &Signature::default());
}
