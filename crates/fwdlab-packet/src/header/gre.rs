//! GRE (RFC 2784), with key and sequence number (RFC 2890).
//!
//! Version 0 only: PPTP's version 1 and RFC 1701's routing are an error. Start with [`Repr`].

use super::{Error, get, view};
use crate::checksum;
use std::fmt;
use std::ops::Range;

/// Protocol number of GRE in IPv4 and IPv6.
pub const PROTOCOL: u8 = 47;

/// The protocol type that announces an inner Ethernet frame (transparent Ethernet bridging).
pub const ETHERNET: u16 = 0x6558;

/// Length of the header without optional fields, in bytes.
pub const HEADER_LEN: usize = 4;

/// Flag bits: a checksum, a key, a sequence number follows, in this order.
const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;

/// Position of the checksum if there is one, before 16 reserved bits; key and sequence number
/// follow.
const CHECKSUM_AT: Range<usize> = 4..6;

view! {
    /// View of a GRE packet.
    pub struct Packet<T>;

    /// Flags, reserved bits and version.
    pub fn flags(&self) -> u16 = 0..2;
    pub fn set_flags(&mut self, value: u16);

    /// Protocol type of what follows: an EtherType.
    pub fn ethertype(&self) -> u16 = 2..4;
    pub fn set_ethertype(&mut self, value: u16);
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps bytes that start with a GRE header. Does not verify the checksum.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unsupported`] when version or reserved bits are not zero.
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Packet { buffer };
        if packet.flags() & !(CHECKSUM | KEY | SEQUENCE) != 0 {
            return Err(Error::Unsupported);
        }
        if packet.buffer.as_ref().len() < packet.header_len() {
            return Err(Error::Truncated);
        }
        if packet.has_checksum() && get(packet.buffer.as_ref(), 6..8) != [0, 0] {
            return Err(Error::Unsupported);
        }
        Ok(packet)
    }

    /// True if there is a checksum.
    #[inline]
    pub fn has_checksum(&self) -> bool {
        self.flags() & CHECKSUM != 0
    }

    /// Length of the header with its optional fields, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + 4 * (self.flags() & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize
    }

    /// Checksum, if there is one.
    pub fn checksum(&self) -> Option<u16> {
        self.has_checksum()
            .then(|| u16::from_be_bytes(get(self.buffer.as_ref(), CHECKSUM_AT)))
    }

    /// Key, if there is one.
    pub fn key(&self) -> Option<u32> {
        self.optional(KEY, CHECKSUM)
    }

    /// Sequence number, if there is one.
    pub fn sequence(&self) -> Option<u32> {
        self.optional(SEQUENCE, CHECKSUM | KEY)
    }

    /// Returns the optional field of this flag, which follows those of the flags in `before`.
    fn optional(&self, flag: u16, before: u16) -> Option<u32> {
        let at = HEADER_LEN + 4 * (self.flags() & before).count_ones() as usize;
        (self.flags() & flag != 0)
            .then(|| u32::from_be_bytes(get(self.buffer.as_ref(), at..at + 4)))
    }

    /// Returns true if there is a checksum and it is correct. It covers the whole buffer.
    pub fn verify_checksum(&self) -> bool {
        self.has_checksum() && checksum::sum(self.buffer.as_ref()) == 0xffff
    }

    /// The bytes after the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and sets the checksum, if there is one, over the whole buffer.
    pub fn fill_checksum(&mut self) {
        if self.has_checksum() {
            self.buffer.as_mut()[CHECKSUM_AT].fill(0);
            let sum = checksum::sum(self.buffer.as_ref());
            self.buffer.as_mut()[CHECKSUM_AT].copy_from_slice(&(!sum).to_be_bytes());
        }
    }
}

/// A GRE header as values, without the checksum, which covers the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Repr {
    /// True if there is a checksum.
    pub checksum: bool,
    /// Key; in NVGRE (RFC 7637) the virtual subnet and the flow.
    pub key: Option<u32>,
    /// Sequence number.
    pub sequence: Option<u32>,
    /// Protocol type of what follows: an EtherType, or [`ETHERNET`].
    pub ethertype: u16,
}

impl Repr {
    /// Length of the header with its optional fields, in bytes.
    pub fn header_len(&self) -> usize {
        let fields = [self.checksum, self.key.is_some(), self.sequence.is_some()];
        HEADER_LEN + 4 * fields.iter().filter(|there| **there).count()
    }

    /// Reads a header; returns it with the payload. Does not verify the checksum.
    ///
    /// # Errors
    /// As [`Packet::new`].
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let packet = Packet::new(bytes)?;
        let repr = Repr {
            checksum: packet.has_checksum(),
            key: packet.key(),
            sequence: packet.sequence(),
            ethertype: packet.ethertype(),
        };
        Ok((repr, &bytes[repr.header_len()..]))
    }

    /// Writes the header to the first [`header_len`](Self::header_len) bytes, with a zero checksum
    /// if it has one.
    pub fn emit(&self, bytes: &mut [u8]) {
        let flag = |there, flag| if there { flag } else { 0 };
        let mut packet = Packet::new_unchecked(&mut *bytes);
        packet.set_flags(
            flag(self.checksum, CHECKSUM)
                | flag(self.key.is_some(), KEY)
                | flag(self.sequence.is_some(), SEQUENCE),
        );
        packet.set_ethertype(self.ethertype);
        let fields = [self.checksum.then_some(0), self.key, self.sequence];
        let room = bytes[HEADER_LEN..self.header_len()].chunks_exact_mut(4);
        for (word, value) in room.zip(fields.into_iter().flatten()) {
            word.copy_from_slice(&value.to_be_bytes());
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GRE")?;
        if let Some(key) = self.key {
            write!(f, " key {key}")?;
        }
        if let Some(sequence) = self.sequence {
            write!(f, " sequence {sequence}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Repr {
        Repr {
            checksum: true,
            key: Some(0x0102_0304),
            sequence: Some(5),
            ethertype: 0x0800,
        }
    }

    #[test]
    fn emit_parse_display() {
        let mut bytes = [0xee; 17];
        full().emit(&mut bytes);
        assert_eq!(
            bytes,
            [0xb0, 0, 8, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 5, 0xee]
        );
        assert_eq!(Repr::parse(&bytes), Ok((full(), &[0xee][..])));
        assert_eq!(full().to_string(), "GRE key 16909060 sequence 5");
        Packet::new(&mut bytes).unwrap().fill_checksum();
        assert!(Packet::new(&bytes).unwrap().verify_checksum());
        bytes[16] ^= 1;
        assert!(!Packet::new(&bytes).unwrap().verify_checksum());
        assert_eq!(Repr::parse(&bytes[..15]), Err(Error::Truncated));
        bytes[1] = 1;
        assert_eq!(Repr::parse(&bytes), Err(Error::Unsupported));
    }

    #[test]
    fn the_shortest() {
        let bytes = [0, 0, 0x65, 0x58];
        let (repr, rest) = Repr::parse(&bytes).unwrap();
        assert_eq!(
            (repr.ethertype, repr.header_len(), rest.len()),
            (ETHERNET, 4, 0)
        );
        assert!(!Packet::new(&bytes).unwrap().verify_checksum());
    }
}
