//! IPv4 (RFC 791; traffic class as in RFC 2474 and 3168).
//!
//! Options are carried, not interpreted, and fragments are not reassembled. Start with [`Repr`].

use super::options::{self, Options};
use super::{Error, view};
use crate::checksum;
use std::fmt;
use std::net::Ipv4Addr;

/// EtherType of IPv4.
pub const ETHERTYPE: u16 = 0x0800;

/// Protocol number of IPv4 inside IPv4 and IPv6 (encapsulation).
pub const PROTOCOL: u8 = 4;

/// Length of the header without options, in bytes.
pub const HEADER_LEN: usize = 20;

view! {
    /// View of an IPv4 packet.
    pub struct Packet<T>;

    /// DSCP (6 bits) and ECN (2 bits).
    pub fn traffic_class(&self) -> u8 = 1..2;
    pub fn set_traffic_class(&mut self, value: u8);

    /// Length of header and payload, in bytes.
    pub fn total_len(&self) -> u16 = 2..4;
    pub fn set_total_len(&mut self, value: u16);

    /// Identification.
    pub fn identification(&self) -> u16 = 4..6;
    pub fn set_identification(&mut self, value: u16);

    /// Flags (3 bits) and fragment offset (13 bits, in units of 8 bytes).
    pub fn flags_fragment(&self) -> u16 = 6..8;
    pub fn set_flags_fragment(&mut self, value: u16);

    /// Time to live, in hops.
    pub fn ttl(&self) -> u8 = 8..9;
    pub fn set_ttl(&mut self, value: u8);

    /// Protocol of the payload, for example [`udp::PROTOCOL`](super::udp::PROTOCOL).
    pub fn protocol(&self) -> u8 = 9..10;
    pub fn set_protocol(&mut self, value: u8);

    /// Header checksum.
    pub fn checksum(&self) -> u16 = 10..12;
    pub fn set_checksum(&mut self, value: u16);

    /// Source address.
    pub fn source(&self) -> Ipv4Addr = 12..16;
    pub fn set_source(&mut self, value: Ipv4Addr);

    /// Destination address.
    pub fn destination(&self) -> Ipv4Addr = 16..20;
    pub fn set_destination(&mut self, value: Ipv4Addr);
}

/// "Don't fragment" and "more fragments" in the word of flags and fragment offset, and its reserved
/// bit.
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const RESERVED: u16 = 0x8000;

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps bytes that start with an IPv4 header. Does not verify the checksum.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] if the version is not 4 or a length is smaller
    /// than what it includes.
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Packet { buffer };
        let total_len = usize::from(packet.total_len());
        if packet.version() != 4
            || packet.header_len() < HEADER_LEN
            || total_len < packet.header_len()
        {
            return Err(Error::Malformed);
        }
        if packet.buffer.as_ref().len() < total_len {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    /// Version: 4.
    #[inline]
    pub fn version(&self) -> u8 {
        self.buffer.as_ref()[0] >> 4
    }

    /// Length of the header with options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[0] & 0x0f) * 4
    }

    /// The options' bytes.
    #[inline]
    pub fn options(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..self.header_len()]
    }

    /// Returns the header as values. Does not verify the checksum.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the reserved flag is set.
    pub fn repr(&self) -> Result<Repr, Error> {
        let word = self.flags_fragment();
        if word & RESERVED != 0 {
            return Err(Error::Unsupported);
        }
        Ok(Repr {
            traffic_class: self.traffic_class(),
            identification: self.identification(),
            dont_fragment: word & DONT_FRAGMENT != 0,
            more_fragments: word & MORE_FRAGMENTS != 0,
            fragment_offset: word & 0x1fff,
            ttl: self.ttl(),
            protocol: self.protocol(),
            source: self.source(),
            destination: self.destination(),
            payload_len: self.total_len() - self.header_len() as u16,
            options: Options::new(self.options())?,
        })
    }

    /// Returns true if the header checksum is correct.
    pub fn verify_checksum(&self) -> bool {
        checksum::sum(&self.buffer.as_ref()[..self.header_len()]) == 0xffff
    }

    /// The bytes after header and options, according to the total length: no Ethernet padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..usize::from(self.total_len())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 4 and the header length with options, in bytes: a multiple of 4 up to 60.
    #[inline]
    pub fn set_version_and_header_len(&mut self, header_len: usize) {
        self.buffer.as_mut()[0] = 4 << 4 | (header_len / 4) as u8 & 0x0f;
    }

    /// Computes and sets the header checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = checksum::sum(&self.buffer.as_ref()[..self.header_len()]);
        self.set_checksum(!sum);
    }
}

/// An IPv4 header as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// DSCP (6 bits) and ECN (2 bits).
    pub traffic_class: u8,
    /// Identification.
    pub identification: u16,
    /// "Don't fragment".
    pub dont_fragment: bool,
    /// "More fragments" of this packet follow.
    pub more_fragments: bool,
    /// Position of this fragment's payload, in units of 8 bytes; 13 bits.
    pub fragment_offset: u16,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Protocol of the payload, for example [`udp::PROTOCOL`](super::udp::PROTOCOL).
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Length of the payload, in bytes; at most 65 515 without options.
    pub payload_len: u16,
    /// Options.
    pub options: Options,
}

impl Repr {
    /// Length of the header with options, in bytes.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.as_bytes().len()
    }

    /// Returns true if this is a fragment of a packet.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Reads a header and verifies its checksum; returns it with the payload, without Ethernet
    /// padding.
    ///
    /// # Errors
    /// As [`Packet::new`]; [`Error::Checksum`]; [`Error::Unsupported`] for the reserved flag.
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let packet = Packet::new(bytes)?;
        if !packet.verify_checksum() {
            return Err(Error::Checksum);
        }
        let total_len = usize::from(packet.total_len());
        Ok((packet.repr()?, &bytes[packet.header_len()..total_len]))
    }

    /// Writes the header to the first [`header_len`](Self::header_len) bytes, with its checksum.
    /// Writes only the low 13 bits of the fragment offset.
    ///
    /// # Panics
    /// If `payload_len` is more than 65 515 minus the options.
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.header_len();
        let total_len = self.payload_len.checked_add(header_len as u16);
        let flag = |there, flag| if there { flag } else { 0 };
        bytes[HEADER_LEN..header_len].copy_from_slice(self.options.as_bytes());
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_version_and_header_len(header_len);
        packet.set_traffic_class(self.traffic_class);
        packet.set_total_len(total_len.expect("header and payload have at most 65535 bytes"));
        packet.set_identification(self.identification);
        packet.set_flags_fragment(
            flag(self.dont_fragment, DONT_FRAGMENT)
                | flag(self.more_fragments, MORE_FRAGMENTS)
                | self.fragment_offset & 0x1fff,
        );
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_source(self.source);
        packet.set_destination(self.destination);
        packet.fill_checksum();
    }

    /// Returns the sum of the pseudo header for the payload's checksum.
    pub fn pseudo_header(&self) -> u16 {
        checksum::pseudo_header_v4(
            self.source,
            self.destination,
            self.protocol,
            self.payload_len,
        )
    }
}

impl Default for Repr {
    /// The defaults of our test frames: TTL 64, everything else zero or clear, addresses
    /// unspecified.
    fn default() -> Self {
        Repr {
            traffic_class: 0,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: super::udp::PROTOCOL,
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
            payload_len: 0,
            options: options::NONE,
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr {
            source,
            destination,
            protocol,
            ttl,
            payload_len,
            ..
        } = self;
        write!(
            f,
            "IPv4 {source} > {destination} protocol {protocol} ttl {ttl} payload {payload_len} bytes"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of Wikipedia's "Internet checksum", with the 95-byte payload left zero.
    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, //
        0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    fn packet() -> [u8; 0x73] {
        let mut bytes = [0; 0x73];
        bytes[..20].copy_from_slice(&HEADER);
        bytes
    }

    fn repr() -> Repr {
        Repr {
            dont_fragment: true,
            source: Ipv4Addr::new(192, 168, 0, 1),
            destination: Ipv4Addr::new(192, 168, 0, 199),
            payload_len: 95,
            ..Repr::default()
        }
    }

    /// Changes `HEADER`, corrects the checksum, and parses the result.
    fn parse_changed(change: impl FnOnce(&mut [u8])) -> Result<Repr, Error> {
        let mut bytes = packet();
        change(&mut bytes);
        Packet::new_unchecked(&mut bytes).fill_checksum();
        Repr::parse(&bytes).map(|(repr, _)| repr)
    }

    #[test]
    fn parse_and_emit() {
        assert_eq!(Repr::parse(&packet()), Ok((repr(), &[0; 95][..])));
        assert_eq!(Packet::new(packet()).unwrap().payload(), [0; 95]);
        let mut bytes = [0xee; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, HEADER);
    }

    #[test]
    fn every_flipped_bit_is_an_error() {
        for bit in 0..HEADER_LEN * 8 {
            let mut bytes = packet();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            assert!(Repr::parse(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn impossible_headers() {
        assert_eq!(Repr::parse(&packet()[..19]), Err(Error::Truncated));
        assert_eq!(Repr::parse(&packet()[..0x72]), Err(Error::Truncated));
        assert_eq!(
            parse_changed(|bytes| bytes[0] = 0x65),
            Err(Error::Malformed)
        );
        assert_eq!(
            parse_changed(|bytes| bytes[0] = 0x44),
            Err(Error::Malformed)
        );
        assert_eq!(parse_changed(|bytes| bytes[3] = 19), Err(Error::Malformed));
    }

    #[test]
    fn options_and_fragments() {
        let with_options = parse_changed(|bytes| bytes[0] = 0x46).unwrap();
        assert_eq!(with_options.options.as_bytes(), [0; 4]);
        assert_eq!(
            (with_options.header_len(), with_options.payload_len),
            (24, 91)
        );
        let more = parse_changed(|bytes| bytes[6] = 0x20).unwrap();
        assert!(more.more_fragments && more.is_fragment() && !more.dont_fragment);
        let later = parse_changed(|bytes| bytes[7] = 0x01).unwrap();
        assert_eq!((later.fragment_offset, later.is_fragment()), (1, true));
        assert!(!repr().is_fragment());
        assert_eq!(
            parse_changed(|bytes| bytes[6] = 0x80),
            Err(Error::Unsupported)
        );
    }

    #[test]
    fn display() {
        assert_eq!(
            repr().to_string(),
            "IPv4 192.168.0.1 > 192.168.0.199 protocol 17 ttl 64 payload 95 bytes"
        );
    }
}
