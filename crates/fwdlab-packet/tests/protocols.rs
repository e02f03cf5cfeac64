//! The other headers on arbitrary bytes: parsing never panics, loses nothing, and agrees with
//! etherparse for the protocols that it knows (not MPLS, GRE, VXLAN: tests/wire.rs checks those
//! with tshark).

use fwdlab_packet::header::{
    Error, arp, gre, icmp, icmpv6, ipv6_ext, mpls, ndp, options, tcp, vlan, vxlan,
};
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..100)
}

/// Arbitrary bytes after a start that passes the first checks.
fn bytes_after(beginnings: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(beginnings), bytes()).prop_map(|(begin, rest)| [begin, &rest].concat())
}

/// Returns what `emit` writes into this number of bytes.
fn written(len: usize, emit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    emit(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn vlan_is_etherparse(bytes in bytes()) {
        match (vlan::Repr::parse(&bytes), etherparse::SingleVlanHeader::from_slice(&bytes)) {
            (Ok((repr, rest)), Ok((theirs, their_rest))) => {
                prop_assert_eq!(repr.priority, theirs.pcp.value());
                prop_assert_eq!(repr.drop_eligible, theirs.drop_eligible_indicator);
                prop_assert_eq!(repr.id, theirs.vlan_id.value());
                prop_assert_eq!(repr.ethertype, theirs.ether_type.0);
                prop_assert_eq!(rest, their_rest);
                prop_assert_eq!(&written(4, |b| repr.emit(b))[..], &bytes[..4]);
            }
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
    }

    #[test]
    fn arp_is_etherparse(bytes in bytes_after(&[&[0, 1, 8, 0, 6, 4, 0, 1], &[]])) {
        let theirs = etherparse::ArpPacket::from_slice(&bytes);
        match arp::Repr::parse(&bytes) {
            Ok((repr, rest)) => {
                let theirs = theirs.unwrap().try_eth_ipv4().unwrap();
                prop_assert_eq!(repr.operation, theirs.operation.0);
                prop_assert_eq!(repr.sender_mac.0, theirs.sender_mac);
                prop_assert_eq!(repr.sender_ip.octets(), theirs.sender_ipv4);
                prop_assert_eq!(repr.target_mac.0, theirs.target_mac);
                prop_assert_eq!(repr.target_ip.octets(), theirs.target_ipv4);
                prop_assert_eq!(rest, &bytes[28..]);
                prop_assert_eq!(&written(28, |b| repr.emit(b))[..], &bytes[..28]);
            }
            Err(_) => prop_assert!(!theirs.is_ok_and(|theirs| theirs.try_eth_ipv4().is_ok())),
        }
    }

    #[test]
    fn tcp_is_etherparse(mut bytes in bytes()) {
        // Only we refuse reserved bits, so half of the time there are none.
        if bytes.len() > 12 && bytes[0] & 1 == 0 {
            bytes[12] &= 0xf0;
        }
        match (tcp::Repr::parse(&bytes), etherparse::TcpHeader::from_slice(&bytes)) {
            (Ok((repr, payload)), Ok((theirs, rest))) => {
                prop_assert_eq!(repr.source_port, theirs.source_port);
                prop_assert_eq!(repr.destination_port, theirs.destination_port);
                prop_assert_eq!(repr.sequence, theirs.sequence_number);
                prop_assert_eq!(repr.acknowledgment, theirs.acknowledgment_number);
                prop_assert_eq!(repr.window, theirs.window_size);
                prop_assert_eq!(repr.urgent, theirs.urgent_pointer);
                prop_assert_eq!(repr.options.as_bytes(), theirs.options.as_slice());
                let flags = [
                    theirs.fin, theirs.syn, theirs.rst, theirs.psh, theirs.ack, theirs.urg, theirs.ece,
                    theirs.cwr,
                ];
                for (bit, flag) in flags.into_iter().enumerate() {
                    prop_assert_eq!(repr.flags & 1 << bit != 0, flag);
                }
                prop_assert_eq!(payload, rest);
                let len = repr.header_len();
                let mut again = written(len, |b| repr.emit(b));
                again[16..18].copy_from_slice(&bytes[16..18]);
                prop_assert_eq!(&again[..], &bytes[..len]);
            }
            (Err(Error::Unsupported), Ok(_)) => prop_assert!(bytes[12] & 0x0f != 0),
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
    }

    #[test]
    fn tcp_checksum_is_etherparse(
        ports: (u16, u16),
        source: [u8; 4],
        destination: [u8; 4],
        payload in bytes(),
        words in proptest::collection::vec(any::<[u8; 4]>(), 0..10),
    ) {
        let repr = tcp::Repr {
            source_port: ports.0,
            destination_port: ports.1,
            options: options::Options::new(words.as_flattened()).unwrap(),
            ..tcp::Repr::default()
        };
        let ip = fwdlab_packet::header::ipv4::Repr {
            source: source.into(),
            destination: destination.into(),
            protocol: tcp::PROTOCOL,
            payload_len: (repr.header_len() + payload.len()) as u16,
            ..Default::default()
        };
        let mut bytes = written(repr.header_len(), |b| repr.emit(b));
        bytes.extend(&payload);
        let mut packet = tcp::Packet::new(&mut bytes).unwrap();
        packet.fill_checksum(ip.pseudo_header());
        let ours = packet.checksum();
        let (theirs, _) = etherparse::TcpHeader::from_slice(&bytes).unwrap();
        let expect = theirs.calc_checksum_ipv4_raw(source, destination, &payload).unwrap();
        prop_assert_eq!(ours, expect);
    }

    #[test]
    fn icmp_is_etherparse(bytes in bytes_after(&[&[8, 0], &[3, 4], &[]])) {
        // To etherparse, a timestamp message's header (RFC 792) has 20 bytes.
        prop_assume!(!matches!(bytes.first(), Some(13 | 14)));
        match (icmp::Repr::parse(&bytes), etherparse::Icmpv4Slice::from_slice(&bytes)) {
            (Ok((repr, payload)), Ok(theirs)) => {
                prop_assert_eq!((repr.kind, repr.code), (theirs.type_u8(), theirs.code_u8()));
                prop_assert_eq!(repr.word.to_be_bytes(), theirs.bytes5to8());
                prop_assert_eq!(payload, theirs.payload());
                let mut again = bytes.clone();
                repr.emit(&mut again);
                icmp::Packet::new(&mut again).unwrap().fill_checksum(0);
                // etherparse computes the checksum from what it parsed, which is complete for an
                // echo.
                if repr.kind == icmp::ECHO_REQUEST && repr.code == 0 {
                    let (header, payload) = etherparse::Icmpv4Header::from_slice(&again).unwrap();
                    prop_assert_eq!(header.icmp_type.calc_checksum(payload), header.checksum);
                }
                again[2..4].copy_from_slice(&bytes[2..4]);
                prop_assert_eq!(again, bytes);
            }
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
    }

    #[test]
    fn icmpv6_is_etherparse(
        bytes in bytes_after(&[&[128, 0], &[135, 0], &[]]),
        source: [u8; 16],
        destination: [u8; 16],
    ) {
        match (icmpv6::Repr::parse(&bytes), etherparse::Icmpv6Slice::from_slice(&bytes)) {
            (Ok((repr, payload)), Ok(theirs)) => {
                prop_assert_eq!((repr.kind, repr.code), (theirs.type_u8(), theirs.code_u8()));
                prop_assert_eq!(repr.word.to_be_bytes(), theirs.bytes5to8());
                // For some messages etherparse counts more bytes as header.
                prop_assert!(payload.ends_with(theirs.payload()));
                let mut again = bytes.clone();
                repr.emit(&mut again);
                let ip = fwdlab_packet::header::ipv6::Repr {
                    source: source.into(),
                    destination: destination.into(),
                    next_header: icmpv6::PROTOCOL,
                    payload_len: bytes.len() as u16,
                    ..Default::default()
                };
                icmpv6::Packet::new(&mut again).unwrap().fill_checksum(ip.pseudo_header());
                let theirs = etherparse::Icmpv6Slice::from_slice(&again).unwrap();
                prop_assert!(theirs.is_checksum_valid(source, destination));
                again[2..4].copy_from_slice(&bytes[2..4]);
                prop_assert_eq!(again, bytes);
            }
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
    }

    #[test]
    fn ndp_loses_nothing(
        bytes in bytes_after(&[
            &[135, 0, 0, 0, 0, 0, 0, 0],
            &[136, 0, 0, 0, 0xe0, 0, 0, 0],
        ]),
        address: bool,
        option: [u8; 6],
    ) {
        let mut bytes = bytes;
        bytes.truncate(24);
        if address && bytes.len() == 24 {
            bytes.extend([bytes[0] - 134, 1]);
            bytes.extend(option);
        }
        match ndp::Repr::parse(&bytes) {
            Ok(repr) => {
                prop_assert_eq!(written(repr.header_len(), |b| repr.emit(b)), bytes);
                prop_assert_eq!(repr.link_address.is_some(), address);
            }
            Err(error) => prop_assert!(error == Error::Truncated && bytes.len() < 24),
        }
    }

    #[test]
    fn extension_headers_are_etherparse(bytes in bytes_after(&[&[17, 0], &[58, 1], &[6, 2], &[]])) {
        use ipv6_ext::Kind;
        for kind in [Kind::HopByHop, Kind::Routing, Kind::Destination] {
            match (ipv6_ext::Repr::parse(kind, &bytes), etherparse::Ipv6RawExtHeader::from_slice(&bytes)) {
                (Ok((repr, rest)), Ok((theirs, their_rest))) => {
                    prop_assert_eq!(repr.next_header, theirs.next_header.0);
                    prop_assert_eq!(repr.body, theirs.payload());
                    prop_assert_eq!(rest, their_rest);
                    let len = repr.header_len();
                    prop_assert_eq!(&written(len, |b| repr.emit(b))[..], &bytes[..len]);
                }
                (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
            }
        }
        match (
            ipv6_ext::Repr::parse(Kind::Authentication, &bytes),
            etherparse::IpAuthHeader::from_slice(&bytes),
        ) {
            (Ok((repr, rest)), Ok((theirs, their_rest))) => {
                prop_assert_eq!(repr.next_header, theirs.next_header.0);
                prop_assert_eq!(&repr.body[10..], theirs.raw_icv());
                prop_assert_eq!(rest, their_rest);
                let len = repr.header_len();
                prop_assert_eq!(&written(len, |b| repr.emit(b))[..], &bytes[..len]);
            }
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
        match (
            ipv6_ext::Repr::parse(Kind::Fragment, &bytes),
            etherparse::Ipv6FragmentHeader::from_slice(&bytes),
        ) {
            (Ok((repr, rest)), Ok((theirs, their_rest))) => {
                let fragment = repr.fragment().unwrap();
                prop_assert_eq!(fragment.offset, theirs.fragment_offset.value());
                prop_assert_eq!(fragment.more, theirs.more_fragments);
                prop_assert_eq!(fragment.identification, theirs.identification);
                prop_assert_eq!(rest, their_rest);
                prop_assert_eq!(&written(8, |b| repr.emit(b))[..], &bytes[..8]);
            }
            (Err(Error::Unsupported), Ok(_)) => prop_assert!(bytes[1] != 0),
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
    }

    #[test]
    fn tunnels_lose_nothing(
        bytes in bytes_after(&[&[0xb0, 0, 8, 0, 1, 2, 0, 0], &[0x20, 0], &[0, 0], &[8, 0, 0, 0], &[]]),
    ) {
        if let Ok((repr, rest)) = mpls::Repr::parse(&bytes) {
            prop_assert_eq!(rest, &bytes[4..]);
            prop_assert_eq!(&written(4, |b| repr.emit(b))[..], &bytes[..4]);
        }
        if let Ok((repr, rest)) = gre::Repr::parse(&bytes) {
            let len = repr.header_len();
            prop_assert_eq!(rest, &bytes[len..]);
            let mut again = written(len, |b| repr.emit(b));
            if repr.checksum {
                again[4..6].copy_from_slice(&bytes[4..6]);
            }
            prop_assert_eq!(&again[..], &bytes[..len]);
        }
        if let Ok((repr, rest)) = vxlan::Repr::parse(&bytes) {
            prop_assert_eq!(rest, &bytes[8..]);
            prop_assert_eq!(&written(8, |b| repr.emit(b))[..], &bytes[..8]);
        }
        if let Ok(options) = options::Options::new(&bytes) {
            prop_assert!(options.as_bytes().starts_with(&bytes));
            prop_assert!(options.iter().count() <= 40);
        }
    }
}
