//! One entry of an MPLS label stack (RFC 3032; traffic class as in RFC 5462).
//!
//! MPLS does not identify the payload of the last entry: the router that assigned the label knows
//! it. Start with [`Repr`].

use super::Error;
use std::fmt;

/// EtherType of a label stack (unicast).
pub const ETHERTYPE: u16 = 0x8847;

/// Length of an entry, in bytes.
pub const HEADER_LEN: usize = 4;

/// An entry as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 0 to 7.
    pub traffic_class: u8,
    /// True for the last entry of the stack.
    pub bottom: bool,
    /// Time to live, in hops.
    pub ttl: u8,
}

impl Repr {
    /// Reads an entry; returns it with what follows, padding included.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let (&entry, rest) = bytes.split_first_chunk().ok_or(Error::Truncated)?;
        let word = u32::from_be_bytes(entry);
        let repr = Repr {
            label: word >> 12,
            traffic_class: (word >> 9) as u8 & 7,
            bottom: word & 0x100 != 0,
            ttl: word as u8,
        };
        Ok((repr, rest))
    }

    /// Writes the entry to the first [`HEADER_LEN`] bytes: the low 20 bits of the label and the low
    /// 3 bits of the traffic class.
    pub fn emit(&self, bytes: &mut [u8]) {
        let word = self.label << 12
            | u32::from(self.traffic_class & 7) << 9
            | u32::from(self.bottom) << 8
            | u32::from(self.ttl);
        bytes[..HEADER_LEN].copy_from_slice(&word.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MPLS {} ttl {}", self.label, self.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_emit_display() {
        // Label 16 (the first unreserved one, RFC 3032 §2.1), class 5, bottom, TTL 64: the diagram
        // of §2.1.
        let bytes = [0x00, 0x01, 0x0b, 0x40, 0x45];
        let (repr, rest) = Repr::parse(&bytes).unwrap();
        assert_eq!(
            (repr.label, repr.traffic_class, repr.bottom, repr.ttl),
            (16, 5, true, 64)
        );
        assert_eq!(rest, [0x45]);
        let mut again = [0xee; HEADER_LEN];
        repr.emit(&mut again);
        assert_eq!(again, bytes[..HEADER_LEN]);
        assert_eq!(repr.to_string(), "MPLS 16 ttl 64");
        assert_eq!(Repr::parse(&bytes[..3]), Err(Error::Truncated));
    }
}
