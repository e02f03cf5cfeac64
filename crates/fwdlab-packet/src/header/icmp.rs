//! ICMP for IPv4 (RFC 792): the header that all messages share.
//!
//! Its payload (the data of an echo, the packet that an error reports) is not parsed.
//! [`icmpv6`] uses the same view and values; only the meaning of the numbers differs there.
//! Start with [`Repr`].

use super::{Error, icmpv6, view};
use crate::checksum;
use std::fmt;

/// Protocol number of ICMP.
pub const PROTOCOL: u8 = 1;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 8;

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;

/// Type: echo request.
pub const ECHO_REQUEST: u8 = 8;

/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;

view! {
    /// View of an ICMP or ICMPv6 message.
    pub struct Packet<T>;

    /// Type of the message.
    pub fn kind(&self) -> u8 = 0..1;
    pub fn set_kind(&mut self, value: u8);

    /// Code, within the type.
    pub fn code(&self) -> u8 = 1..2;
    pub fn set_code(&mut self, value: u8);

    /// Checksum.
    pub fn checksum(&self) -> u16 = 2..4;
    pub fn set_checksum(&mut self, value: u16);

    /// The second word, whose meaning depends on the type.
    pub fn word(&self) -> u32 = 4..8;
    pub fn set_word(&mut self, value: u32);
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps bytes that start with an ICMP header.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        Ok(Packet { buffer })
    }

    /// Returns true if the checksum is correct. `pseudo_header` is the sum from the IPv6 header's
    /// `Repr`, or 0 in IPv4, where ICMP has none. The message is the whole buffer.
    pub fn verify_checksum(&self, pseudo_header: u16) -> bool {
        checksum::combine(&[pseudo_header, checksum::sum(self.buffer.as_ref())]) == 0xffff
    }

    /// The bytes after the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and sets the checksum of the message, which is the whole buffer. `pseudo_header`:
    /// as in [`verify_checksum`](Self::verify_checksum).
    pub fn fill_checksum(&mut self, pseudo_header: u16) {
        self.set_checksum(0);
        let sum = checksum::combine(&[pseudo_header, checksum::sum(self.buffer.as_ref())]);
        self.set_checksum(!sum);
    }
}

/// An ICMP header as values, without the checksum, which covers the payload.
pub type Repr = Header<4>;

/// A header of ICMP for this version of IP, as values, without the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header<const VERSION: u8> {
    /// Type of the message.
    pub kind: u8,
    /// Code, within the type.
    pub code: u8,
    /// The second word: identifier and sequence number of an echo, next-hop MTU, pointer, unused.
    pub word: u32,
}

impl<const VERSION: u8> Header<VERSION> {
    /// An echo request, as `ping` sends it.
    pub fn echo_request(identifier: u16, sequence: u16) -> Self {
        Header {
            kind: match VERSION {
                4 => ECHO_REQUEST,
                _ => icmpv6::ECHO_REQUEST,
            },
            code: 0,
            word: u32::from(identifier) << 16 | u32::from(sequence),
        }
    }

    /// Reads a header; returns it with the payload. Does not verify the checksum.
    ///
    /// # Errors
    /// As [`Packet::new`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let packet = Packet::new(bytes)?;
        let repr = Header {
            kind: packet.kind(),
            code: packet.code(),
            word: packet.word(),
        };
        Ok((repr, &bytes[HEADER_LEN..]))
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes, with a zero checksum.
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_kind(self.kind);
        packet.set_code(self.code);
        packet.set_checksum(0);
        packet.set_word(self.word);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { kind, code, word } = self;
        let (high, low) = (word >> 16, word & 0xffff);
        match *kind {
            ECHO_REQUEST => write!(f, "ICMP echo request {high} sequence {low}"),
            ECHO_REPLY => write!(f, "ICMP echo reply {high} sequence {low}"),
            UNREACHABLE => write!(f, "ICMP destination unreachable code {code}"),
            TIME_EXCEEDED => write!(f, "ICMP time exceeded code {code}"),
            _ => write!(f, "ICMP type {kind} code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emit_parse_display() {
        let repr = Repr::echo_request(0x1234, 1);
        let mut bytes = *b"........abc";
        repr.emit(&mut bytes);
        assert_eq!(bytes, *b"\x08\0\0\0\x12\x34\0\x01abc");
        Packet::new(&mut bytes).unwrap().fill_checksum(0);
        // 0x0800 + 0x1234 + 0x0001 + 0x6162 + 0x6300 = 0xde97 by hand
        assert_eq!(bytes[2..4], (!0xde97_u16).to_be_bytes());
        assert!(Packet::new(&bytes).unwrap().verify_checksum(0));
        assert_eq!(Repr::parse(&bytes), Ok((repr, &b"abc"[..])));
        assert_eq!(repr.to_string(), "ICMP echo request 4660 sequence 1");
        assert_eq!(Repr::parse(&bytes[..7]), Err(Error::Truncated));
        bytes[10] ^= 1;
        assert!(!Packet::new(&bytes).unwrap().verify_checksum(0));
    }
}
