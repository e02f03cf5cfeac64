//! Ethernet II (IEEE 802.3 clause 3), without preamble and FCS.
//!
//! Not for VLAN tags: this header treats an 802.1Q tag as an EtherType. Start with [`Repr`].

use super::{Error, get};
use std::fmt;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = field::ETHERTYPE.end;

/// A 48-bit MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

mod field {
    use std::ops::Range;

    pub const DESTINATION: Range<usize> = 0..6;
    pub const SOURCE: Range<usize> = 6..12;
    pub const ETHERTYPE: Range<usize> = 12..14;
}

/// An Ethernet header as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// EtherType, for example [`ipv4::ETHERTYPE`](super::ipv4::ETHERTYPE); below 0x0600 it is an
    /// 802.3 length.
    pub ethertype: u16,
}

impl Repr {
    /// Reads a header; returns it with the payload, padding included.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let repr = Repr {
            destination: MacAddr(get(bytes, field::DESTINATION)),
            source: MacAddr(get(bytes, field::SOURCE)),
            ethertype: u16::from_be_bytes(get(bytes, field::ETHERTYPE)),
        };
        Ok((repr, &bytes[HEADER_LEN..]))
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::DESTINATION].copy_from_slice(&self.destination.0);
        bytes[field::SOURCE].copy_from_slice(&self.source.0);
        bytes[field::ETHERTYPE].copy_from_slice(&self.ethertype.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Ethernet {} > {} type {:#06x}",
            self.source, self.destination, self.ethertype
        )
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ARP request's header: broadcast, from a Raspberry Pi's address block.
    const BYTES: [u8; 16] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xb8, 0x27, 0xeb, 0x01, 0x02, 0x03, 0x08, 0x06, //
        0x00, 0x01,
    ];

    fn repr() -> Repr {
        Repr {
            destination: MacAddr([0xff; 6]),
            source: MacAddr([0xb8, 0x27, 0xeb, 1, 2, 3]),
            ethertype: 0x0806,
        }
    }

    #[test]
    fn parse_and_emit() {
        assert_eq!(Repr::parse(&BYTES), Ok((repr(), &BYTES[14..])));
        let mut bytes = [0; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES[..HEADER_LEN]);
    }

    #[test]
    fn thirteen_bytes_are_no_header() {
        assert_eq!(Repr::parse(&BYTES[..13]), Err(Error::Truncated));
    }

    #[test]
    fn display() {
        assert_eq!(
            repr().to_string(),
            "Ethernet b8:27:eb:01:02:03 > ff:ff:ff:ff:ff:ff type 0x0806"
        );
    }
}
