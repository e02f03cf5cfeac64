//! One entry of an MPLS label stack (RFC 3032; traffic class as in RFC 5462).
//!
//! MPLS does not identify the payload of the last entry: the router that assigned the label knows
//! it. Start with [`Repr`].

use super::{Error, get};
use std::fmt;

/// EtherType of a label stack (unicast).
pub const ETHERTYPE: u16 = 0x8847;

/// Length of an entry, in bytes.
pub const HEADER_LEN: usize = field::ENTRY.end;

/// View of an entry and what follows it.
#[derive(Debug, Clone, Copy)]
pub struct Entry<T> {
    buffer: T,
}

mod field {
    use std::ops::Range;

    pub const ENTRY: Range<usize> = 0..4;
}

impl<T: AsRef<[u8]>> Entry<T> {
    /// Wraps bytes that start with a label stack entry.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        Ok(Entry { buffer })
    }

    /// The whole entry: label (20 bits), traffic class (3), bottom of stack (1), TTL (8).
    #[inline]
    pub fn word(&self) -> u32 {
        u32::from_be_bytes(get(self.buffer.as_ref(), field::ENTRY))
    }

    /// Label, 20 bits.
    #[inline]
    pub fn label(&self) -> u32 {
        self.word() >> 12
    }

    /// Traffic class, 0 to 7.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.word() >> 9) as u8 & 7
    }

    /// True for the last entry of the stack.
    #[inline]
    pub fn bottom(&self) -> bool {
        self.word() & 0x100 != 0
    }

    /// Time to live, in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.word() as u8
    }

    /// Everything after the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Entry<T> {
    /// Wraps bytes that the caller is about to fill; getters may panic until then.
    #[inline]
    pub(crate) fn new_unchecked(buffer: T) -> Self {
        Entry { buffer }
    }

    /// Sets the whole entry.
    #[inline]
    pub fn set_word(&mut self, value: u32) {
        self.buffer.as_mut()[field::ENTRY].copy_from_slice(&value.to_be_bytes());
    }
}

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
        let entry = Entry::new(bytes)?;
        let repr = Repr {
            label: entry.label(),
            traffic_class: entry.traffic_class(),
            bottom: entry.bottom(),
            ttl: entry.ttl(),
        };
        Ok((repr, &bytes[HEADER_LEN..]))
    }

    /// Writes the entry to the first [`HEADER_LEN`] bytes: the low 20 bits of the label and the low
    /// 3 bits of the traffic class.
    pub fn emit(&self, bytes: &mut [u8]) {
        Entry::new_unchecked(bytes).set_word(
            self.label << 12
                | u32::from(self.traffic_class & 7) << 9
                | u32::from(self.bottom) << 8
                | u32::from(self.ttl),
        );
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
