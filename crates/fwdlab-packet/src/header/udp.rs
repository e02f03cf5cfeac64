//! UDP (RFC 768), over IPv4 or IPv6.
//!
//! Header and checksum only: the pseudo header comes from the IP header's `Repr`, so this file does
//! not depend on the IP version. Start with [`Repr`].

use super::{Error, view};
use crate::checksum;
use std::fmt;

/// Protocol number of UDP in IPv4 and IPv6.
pub const PROTOCOL: u8 = 17;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 8;

view! {
    /// View of a UDP datagram.
    pub struct Packet<T>;

    /// Source port.
    pub fn source_port(&self) -> u16 = 0..2;
    pub fn set_source_port(&mut self, value: u16);

    /// Destination port.
    pub fn destination_port(&self) -> u16 = 2..4;
    pub fn set_destination_port(&mut self, value: u16);

    /// Length of header and payload, in bytes.
    pub fn length(&self) -> u16 = 4..6;
    pub fn set_length(&mut self, value: u16);

    /// Checksum; 0 means that there is none.
    pub fn checksum(&self) -> u16 = 6..8;
    pub fn set_checksum(&mut self, value: u16);
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps bytes that start with a UDP header.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] when the length field is smaller than the header.
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Packet { buffer };
        let length = usize::from(packet.length());
        if length < HEADER_LEN {
            return Err(Error::Malformed);
        }
        if packet.buffer.as_ref().len() < length {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    /// Returns true if there is a checksum and it is correct. `pseudo_header` is the sum from the
    /// IP header's `Repr`.
    ///
    /// False for a missing checksum: a caller that accepts those (as RFC 768 does, and RFC 8200
    /// §8.1 does not) tests [`checksum`](Self::checksum) `== 0` first.
    pub fn verify_checksum(&self, pseudo_header: u16) -> bool {
        let datagram = &self.buffer.as_ref()[..usize::from(self.length())];
        self.checksum() != 0
            && checksum::combine(&[pseudo_header, checksum::sum(datagram)]) == 0xffff
    }

    /// The bytes after the header, according to the length field.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..usize::from(self.length())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the checksum from the `sum` of pseudo header, header with a zero checksum, and payload.
    ///
    /// A computed zero is transmitted as 0xffff, because zero means "no checksum" (RFC 768).
    #[inline]
    pub fn set_checksum_of(&mut self, sum: u16) {
        self.set_checksum(if sum == 0xffff { 0xffff } else { !sum });
    }

    /// Computes and sets the checksum. `pseudo_header` is the sum from the IP header's `Repr`.
    pub fn fill_checksum(&mut self, pseudo_header: u16) {
        self.set_checksum(0);
        let datagram = &self.buffer.as_ref()[..usize::from(self.length())];
        self.set_checksum_of(checksum::combine(&[pseudo_header, checksum::sum(datagram)]));
    }
}

/// A UDP header as values, without the checksum, which covers the payload: see
/// [`Packet::verify_checksum`] and [`Packet::fill_checksum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Length of the payload, in bytes; at most 65 527.
    pub payload_len: u16,
}

impl Repr {
    /// Reads a header; returns it with the payload. Does not verify the checksum.
    ///
    /// # Errors
    /// As [`Packet::new`].
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let packet = Packet::new(bytes)?;
        let length = usize::from(packet.length());
        let repr = Repr {
            source_port: packet.source_port(),
            destination_port: packet.destination_port(),
            payload_len: packet.length() - HEADER_LEN as u16,
        };
        Ok((repr, &bytes[HEADER_LEN..length]))
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes, with a zero checksum.
    ///
    /// # Panics
    /// If `payload_len` is more than 65 527.
    pub fn emit(&self, bytes: &mut [u8]) {
        let length = self.payload_len.checked_add(HEADER_LEN as u16);
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_source_port(self.source_port);
        packet.set_destination_port(self.destination_port);
        packet.set_length(length.expect("payload_len is at most 65527"));
        packet.set_checksum(0);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr {
            source_port,
            destination_port,
            payload_len,
        } = self;
        write!(
            f,
            "UDP {source_port} > {destination_port} payload {payload_len} bytes"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{ipv4, ipv6};

    const PAYLOAD: [u8; 5] = *b"hello";

    fn repr() -> Repr {
        Repr {
            source_port: 2000,
            destination_port: 53,
            payload_len: 5,
        }
    }

    /// A datagram with trailing padding, as Ethernet delivers it, and its pseudo header.
    fn datagram() -> ([u8; 20], u16) {
        let mut bytes = [0xee; 20];
        repr().emit(&mut bytes);
        bytes[HEADER_LEN..13].copy_from_slice(&PAYLOAD);
        let ip = ipv4::Repr {
            payload_len: 13,
            ..ipv4::Repr::default()
        };
        (bytes, ip.pseudo_header())
    }

    #[test]
    fn emit_and_parse() {
        let (bytes, _) = datagram();
        assert_eq!(
            bytes[..HEADER_LEN],
            [0x07, 0xd0, 0x00, 0x35, 0x00, 0x0d, 0x00, 0x00]
        );
        assert_eq!(Repr::parse(&bytes), Ok((repr(), &PAYLOAD[..])));
        assert_eq!(Packet::new(&bytes).unwrap().payload(), PAYLOAD);
    }

    #[test]
    fn checksum_ignores_padding_and_sees_every_payload_byte() {
        let (mut bytes, pseudo_header) = datagram();
        Packet::new(&mut bytes)
            .unwrap()
            .fill_checksum(pseudo_header);
        bytes[13] ^= 1;
        assert!(Packet::new(&bytes).unwrap().verify_checksum(pseudo_header));
        for at in HEADER_LEN..13 {
            bytes[at] ^= 1;
            assert!(!Packet::new(&bytes).unwrap().verify_checksum(pseudo_header));
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn a_computed_zero_is_sent_as_ones() {
        let (mut bytes, pseudo_header) = datagram();
        let mut packet = Packet::new(&mut bytes).unwrap();
        packet.fill_checksum(pseudo_header);
        // Adding the checksum to any word makes the sum all ones, and the next checksum zero.
        let missing = packet.checksum();
        packet.set_source_port(checksum::combine(&[packet.source_port(), missing]));
        packet.fill_checksum(pseudo_header);
        assert_eq!(packet.checksum(), 0xffff);
        assert!(packet.verify_checksum(pseudo_header));
    }

    #[test]
    fn an_absent_checksum_is_not_valid() {
        let (bytes, _) = datagram();
        // A pseudo header with which a zero checksum field would pass.
        let pseudo_header = !checksum::sum(&bytes[..13]);
        assert!(!Packet::new(&bytes).unwrap().verify_checksum(pseudo_header));
    }

    #[test]
    fn same_datagram_over_ipv6() {
        let (mut bytes, _) = datagram();
        let ip = ipv6::Repr {
            payload_len: 13,
            ..ipv6::Repr::default()
        };
        let mut packet = Packet::new(&mut bytes).unwrap();
        packet.fill_checksum(ip.pseudo_header());
        assert!(packet.verify_checksum(ip.pseudo_header()));
    }

    #[test]
    fn impossible_lengths() {
        let (mut bytes, _) = datagram();
        assert_eq!(Repr::parse(&bytes[..7]), Err(Error::Truncated));
        assert_eq!(Repr::parse(&bytes[..12]), Err(Error::Truncated));
        bytes[5] = 7;
        assert_eq!(Repr::parse(&bytes), Err(Error::Malformed));
    }

    #[test]
    fn display() {
        assert_eq!(repr().to_string(), "UDP 2000 > 53 payload 5 bytes");
    }
}
