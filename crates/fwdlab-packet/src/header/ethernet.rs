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

/// View of an Ethernet frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<T> {
    buffer: T,
}

mod field {
    use std::ops::Range;

    pub const DESTINATION: Range<usize> = 0..6;
    pub const SOURCE: Range<usize> = 6..12;
    pub const ETHERTYPE: Range<usize> = 12..14;
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Wraps bytes that start with an Ethernet header.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        Ok(Frame { buffer })
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> MacAddr {
        MacAddr(get(self.buffer.as_ref(), field::DESTINATION))
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> MacAddr {
        MacAddr(get(self.buffer.as_ref(), field::SOURCE))
    }

    /// EtherType; below 0x0600 it is an 802.3 length.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        u16::from_be_bytes(get(self.buffer.as_ref(), field::ETHERTYPE))
    }

    /// Everything after the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Wraps bytes that the caller is about to fill; getters may panic until then.
    #[inline]
    pub(crate) fn new_unchecked(buffer: T) -> Self {
        Frame { buffer }
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_destination(&mut self, value: MacAddr) {
        self.buffer.as_mut()[field::DESTINATION].copy_from_slice(&value.0);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_source(&mut self, value: MacAddr) {
        self.buffer.as_mut()[field::SOURCE].copy_from_slice(&value.0);
    }

    /// Sets the EtherType.
    #[inline]
    pub fn set_ethertype(&mut self, value: u16) {
        self.buffer.as_mut()[field::ETHERTYPE].copy_from_slice(&value.to_be_bytes());
    }
}

/// An Ethernet header as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// EtherType, for example [`ipv4::ETHERTYPE`](super::ipv4::ETHERTYPE).
    pub ethertype: u16,
}

impl Repr {
    /// Reads a header; returns it with the payload, padding included.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let frame = Frame::new(bytes)?;
        let repr = Repr {
            destination: frame.destination(),
            source: frame.source(),
            ethertype: frame.ethertype(),
        };
        Ok((repr, &bytes[HEADER_LEN..]))
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut frame = Frame::new_unchecked(bytes);
        frame.set_destination(self.destination);
        frame.set_source(self.source);
        frame.set_ethertype(self.ethertype);
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
        assert_eq!(Frame::new(&BYTES).unwrap().payload(), &BYTES[14..]);
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
