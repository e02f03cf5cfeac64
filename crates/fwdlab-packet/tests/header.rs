//! Headers on arbitrary bytes: parsing never panics, loses nothing, and agrees with etherparse.

use fwdlab_packet::header::{Error, ethernet, ipv4, ipv6, udp};
use proptest::prelude::*;

/// Arbitrary bytes, most of which pass the first checks.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![Just(0x45), Just(0x46), Just(0x60), any::<u8>()];
    (
        first,
        proptest::collection::vec(any::<u8>(), 0..100),
        any::<bool>(),
    )
        .prop_map(|(first, mut bytes, short)| {
            bytes.insert(0, first);
            // IPv4 total length, and both of IPv6 payload length and UDP length.
            for at in [2, 4] {
                if short && bytes.len() > at + 1 {
                    bytes[at] = 0;
                    bytes[at + 1] %= 100;
                }
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn views_of_arbitrary_bytes(mut bytes in bytes()) {
        if let Ok(packet) = ipv4::Packet::new(&mut bytes) {
            prop_assert_eq!(
                packet.payload().len() + packet.header_len(),
                usize::from(packet.total_len())
            );
            let mut packet = packet;
            packet.fill_checksum();
            prop_assert!(packet.verify_checksum());
        }
        if let Ok(packet) = ipv6::Packet::new(&bytes) {
            prop_assert_eq!(packet.payload().len(), usize::from(packet.payload_len()));
        }
        if let Ok(mut packet) = udp::Packet::new(&mut bytes) {
            packet.fill_checksum(0);
            prop_assert!(packet.verify_checksum(0));
            prop_assert_eq!(packet.payload().len() + 8, usize::from(packet.length()));
        }
    }

    #[test]
    fn ethernet_parse_is_etherparse_and_loses_nothing(bytes in bytes()) {
        match (ethernet::Repr::parse(&bytes), etherparse::Ethernet2Header::from_slice(&bytes)) {
            (Ok((repr, rest)), Ok((theirs, their_rest))) => {
                prop_assert_eq!(repr.source.0, theirs.source);
                prop_assert_eq!(repr.destination.0, theirs.destination);
                prop_assert_eq!(repr.ethertype, theirs.ether_type.0);
                prop_assert_eq!(rest, their_rest);
                let mut again = [0; ethernet::HEADER_LEN];
                repr.emit(&mut again);
                prop_assert_eq!(&again[..], &bytes[..ethernet::HEADER_LEN]);
            }
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
    }

    #[test]
    fn ipv4_parse_is_etherparse_and_loses_nothing(mut bytes in bytes()) {
        if let Ok(mut packet) = ipv4::Packet::new(&mut bytes) {
            packet.fill_checksum();
        }
        match (ipv4::Repr::parse(&bytes), etherparse::Ipv4Slice::from_slice(&bytes)) {
            (Ok((repr, payload)), Ok(theirs)) => {
                let header = theirs.header().to_header();
                prop_assert_eq!(repr.traffic_class, header.dscp.value() << 2 | header.ecn.value());
                prop_assert_eq!(repr.identification, header.identification);
                prop_assert_eq!(repr.dont_fragment, header.dont_fragment);
                prop_assert_eq!(repr.ttl, header.time_to_live);
                prop_assert_eq!(repr.protocol, header.protocol.0);
                prop_assert_eq!(repr.source.octets(), header.source);
                prop_assert_eq!(repr.destination.octets(), header.destination);
                prop_assert_eq!(repr.payload_len, header.payload_len().unwrap());
                prop_assert_eq!(repr.more_fragments, header.more_fragments);
                prop_assert_eq!(repr.fragment_offset, header.fragment_offset.value());
                prop_assert_eq!(repr.options.as_bytes(), &header.options[..]);
                prop_assert_eq!(repr.header_len(), header.header_len());
                let end = usize::from(header.total_len);
                prop_assert_eq!(payload, &bytes[repr.header_len()..end]);
                let mut again = vec![0; repr.header_len()];
                repr.emit(&mut again);
                prop_assert_eq!(&again[..], &bytes[..repr.header_len()]);
            }
            // Beyond etherparse's header checks: it also refuses bad IPsec extension headers.
            (Ok((repr, _)), Err(_)) => prop_assert_eq!(repr.protocol, 51),
            (Err(Error::Unsupported), Ok(_)) => prop_assert!(bytes[6] & 0x80 != 0),
            (Err(_), theirs) => prop_assert!(theirs.is_err()),
        }
    }

    #[test]
    fn ipv6_parse_is_etherparse_and_loses_nothing(bytes in bytes()) {
        match (ipv6::Repr::parse(&bytes), etherparse::Ipv6Header::from_slice(&bytes)) {
            (Ok((repr, payload)), Ok((theirs, _))) => {
                prop_assert_eq!(repr.traffic_class, theirs.traffic_class);
                prop_assert_eq!(repr.flow_label, theirs.flow_label.value());
                prop_assert_eq!(repr.next_header, theirs.next_header.0);
                prop_assert_eq!(repr.hop_limit, theirs.hop_limit);
                prop_assert_eq!(repr.source.octets(), theirs.source);
                prop_assert_eq!(repr.destination.octets(), theirs.destination);
                prop_assert_eq!(payload.len(), usize::from(theirs.payload_length));
                let mut again = [0; ipv6::HEADER_LEN];
                repr.emit(&mut again);
                prop_assert_eq!(&again[..], &bytes[..ipv6::HEADER_LEN]);
            }
            (Ok(_), Err(error)) => prop_assert!(false, "etherparse: {}", error),
            // etherparse's header does not check whether the payload is there.
            (Err(Error::Truncated), Ok((theirs, rest))) => {
                prop_assert!(rest.len() < usize::from(theirs.payload_length));
            }
            (Err(_), theirs) => prop_assert!(theirs.is_err()),
        }
    }

    #[test]
    fn udp_parse_is_etherparse_and_loses_nothing(bytes in bytes()) {
        // Length 0 means "to the end" to etherparse (jumbograms, RFC 2675), which test frames never
        // are.
        prop_assume!(bytes.get(4..6) != Some(&[0, 0]));
        match (udp::Repr::parse(&bytes), etherparse::UdpSlice::from_slice(&bytes)) {
            (Ok((repr, payload)), Ok(theirs)) => {
                prop_assert_eq!(repr.source_port, theirs.source_port());
                prop_assert_eq!(repr.destination_port, theirs.destination_port());
                prop_assert_eq!(usize::from(repr.payload_len), theirs.payload().len());
                prop_assert_eq!(payload, theirs.payload());
                let mut again = [0; udp::HEADER_LEN];
                repr.emit(&mut again);
                prop_assert_eq!(&again[..6], &bytes[..6]);
            }
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
    }
}
