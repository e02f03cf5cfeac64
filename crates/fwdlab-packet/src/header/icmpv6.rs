//! ICMPv6 (RFC 4443): the header that all messages share.
//!
//! Its payload is not parsed here; [`ndp`](super::ndp) reads the neighbor discovery messages. View
//! and values are those of [`icmp`](super::icmp), with the pseudo header from the IPv6 header's
//! `Repr`. Start with [`Repr`].

pub use super::icmp::{HEADER_LEN, Packet};

use super::icmp::Header;
use std::fmt;

/// Protocol number of ICMPv6.
pub const PROTOCOL: u8 = 58;

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 1;

/// Type: packet too big.
pub const TOO_BIG: u8 = 2;

/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;

/// Type: echo request.
pub const ECHO_REQUEST: u8 = 128;

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 129;

/// An ICMPv6 header as values, without the checksum, which covers the payload.
pub type Repr = Header<6>;

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { kind, code, word } = self;
        let (high, low) = (word >> 16, word & 0xffff);
        match *kind {
            ECHO_REQUEST => write!(f, "ICMPv6 echo request {high} sequence {low}"),
            ECHO_REPLY => write!(f, "ICMPv6 echo reply {high} sequence {low}"),
            UNREACHABLE => write!(f, "ICMPv6 destination unreachable code {code}"),
            TOO_BIG => write!(f, "ICMPv6 packet too big, mtu {word}"),
            TIME_EXCEEDED => write!(f, "ICMPv6 time exceeded code {code}"),
            _ => write!(f, "ICMPv6 type {kind} code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Error, ipv6};

    #[test]
    fn emit_parse_display() {
        let repr = Repr::echo_request(0x1234, 1);
        let ip = ipv6::Repr {
            next_header: PROTOCOL,
            payload_len: 8,
            ..ipv6::Repr::default()
        };
        let mut bytes = [0xee; 8];
        repr.emit(&mut bytes);
        Packet::new(&mut bytes)
            .unwrap()
            .fill_checksum(ip.pseudo_header());
        // 0x8000 + 0x1234 + 0x0001 and the pseudo header's 58 + 8, by hand
        assert_eq!(bytes[2..4], (!0x9277_u16).to_be_bytes());
        assert!(
            Packet::new(&bytes)
                .unwrap()
                .verify_checksum(ip.pseudo_header())
        );
        assert_eq!(Repr::parse(&bytes), Ok((repr, &[][..])));
        assert_eq!(repr.to_string(), "ICMPv6 echo request 4660 sequence 1");
        assert_eq!(Repr::parse(&bytes[..7]), Err(Error::Truncated));
        bytes[7] ^= 1;
        assert!(
            !Packet::new(&bytes)
                .unwrap()
                .verify_checksum(ip.pseudo_header())
        );
    }
}
