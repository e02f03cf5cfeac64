//! IPv6 (RFC 8200), the fixed header.
//!
//! Extension headers are payload: `next_header` is the number of the first one. Start with
//! [`Repr`].

use super::{Error, get, view};
use crate::checksum;
use std::fmt;
use std::net::Ipv6Addr;

/// EtherType of IPv6.
pub const ETHERTYPE: u16 = 0x86dd;

/// Protocol number of IPv6 inside IPv4 and IPv6 (encapsulation).
pub const PROTOCOL: u8 = 41;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 40;

view! {
    /// View of an IPv6 packet.
    pub struct Packet<T>;

    /// Length of what follows the header, in bytes.
    pub fn payload_len(&self) -> u16 = 4..6;
    pub fn set_payload_len(&mut self, value: u16);

    /// Number of the next header, for example [`udp::PROTOCOL`](super::udp::PROTOCOL).
    pub fn next_header(&self) -> u8 = 6..7;
    pub fn set_next_header(&mut self, value: u8);

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 = 7..8;
    pub fn set_hop_limit(&mut self, value: u8);

    /// Source address.
    pub fn source(&self) -> Ipv6Addr = 8..24;
    pub fn set_source(&mut self, value: Ipv6Addr);

    /// Destination address.
    pub fn destination(&self) -> Ipv6Addr = 24..40;
    pub fn set_destination(&mut self, value: Ipv6Addr);
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps bytes that start with an IPv6 header.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] when the version is not 6.
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Packet { buffer };
        if packet.version() != 6 {
            return Err(Error::Malformed);
        }
        if packet.buffer.as_ref().len() < HEADER_LEN + usize::from(packet.payload_len()) {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    /// Version: 6.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_label() >> 28) as u8
    }

    /// DSCP (6 bits) and ECN (2 bits).
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_label() >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_label() & 0xf_ffff
    }

    /// The bytes after the header, according to the payload length: no Ethernet padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..][..usize::from(self.payload_len())]
    }

    #[inline]
    fn version_class_label(&self) -> u32 {
        u32::from_be_bytes(get(self.buffer.as_ref(), 0..4))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 6, traffic class, and the low 20 bits of the flow label, which share bytes.
    #[inline]
    pub fn set_version_class_label(&mut self, traffic_class: u8, flow_label: u32) {
        let value = 6 << 28 | u32::from(traffic_class) << 20 | flow_label & 0xf_ffff;
        self.buffer.as_mut()[0..4].copy_from_slice(&value.to_be_bytes());
    }
}

/// An IPv6 header as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// DSCP (6 bits) and ECN (2 bits).
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Number of the next header, for example [`udp::PROTOCOL`](super::udp::PROTOCOL).
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Length of what follows the header, in bytes.
    pub payload_len: u16,
}

impl Repr {
    /// Reads a header; returns it with the payload, without Ethernet padding.
    ///
    /// # Errors
    /// As [`Packet::new`].
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let packet = Packet::new(bytes)?;
        let end = HEADER_LEN + usize::from(packet.payload_len());
        let repr = Repr {
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            source: packet.source(),
            destination: packet.destination(),
            payload_len: packet.payload_len(),
        };
        Ok((repr, &bytes[HEADER_LEN..end]))
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes. Writes only the low 20 bits of the flow
    /// label.
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_version_class_label(self.traffic_class, self.flow_label);
        packet.set_payload_len(self.payload_len);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_source(self.source);
        packet.set_destination(self.destination);
    }

    /// Returns the sum of the pseudo header for the payload's checksum, if the payload follows
    /// directly.
    pub fn pseudo_header(&self) -> u16 {
        let Repr {
            source,
            destination,
            next_header,
            payload_len,
            ..
        } = *self;
        checksum::pseudo_header_v6(source, destination, next_header, payload_len.into())
    }
}

impl Default for Repr {
    /// The defaults of our test frames: hop limit 64, everything else zero, addresses unspecified.
    fn default() -> Self {
        Repr {
            traffic_class: 0,
            flow_label: 0,
            next_header: super::udp::PROTOCOL,
            hop_limit: 64,
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
            payload_len: 0,
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr {
            source,
            destination,
            next_header,
            hop_limit,
            payload_len,
            ..
        } = self;
        write!(
            f,
            "IPv6 {source} > {destination} next header {next_header} hop limit {hop_limit} \
             payload {payload_len} bytes"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traffic class 0xb8 (expedited forwarding), flow label 0xabcde, four bytes of payload, two of
    /// padding.
    const BYTES: [u8; 46] = [
        0x6b, 0x8a, 0xbc, 0xde, 0x00, 0x04, 0x11, 0x40, //
        0x20, 0x01, 0x00, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, //
        0x20, 0x01, 0x00, 0x02, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 2, //
        1, 2, 3, 4, 0, 0,
    ];

    fn repr() -> Repr {
        Repr {
            traffic_class: 0xb8,
            flow_label: 0xabcde,
            source: "2001:2::1".parse().unwrap(),
            destination: "2001:2:0:8000::2".parse().unwrap(),
            payload_len: 4,
            ..Repr::default()
        }
    }

    #[test]
    fn parse_and_emit() {
        assert_eq!(Repr::parse(&BYTES), Ok((repr(), &[1, 2, 3, 4][..])));
        assert_eq!(Packet::new(&BYTES).unwrap().payload(), [1, 2, 3, 4]);
        let mut bytes = [0xee; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES[..HEADER_LEN]);
    }

    #[test]
    fn impossible_headers() {
        assert_eq!(Repr::parse(&BYTES[..39]), Err(Error::Truncated));
        assert_eq!(Repr::parse(&BYTES[..43]), Err(Error::Truncated));
        let mut bytes = BYTES;
        bytes[0] = 0x4b;
        assert_eq!(Repr::parse(&bytes), Err(Error::Malformed));
    }

    #[test]
    fn display() {
        assert_eq!(
            repr().to_string(),
            "IPv6 2001:2::1 > 2001:2:0:8000::2 next header 17 hop limit 64 payload 4 bytes"
        );
    }
}
