//! One VLAN tag (IEEE 802.1Q clause 9), without the EtherType that announces it.
//!
//! A tag begins after the tag protocol identifier, which is the EtherType of the previous header.
//! Two consecutive tags are QinQ (IEEE 802.1ad). Start with [`Repr`].

use super::Error;
use std::fmt;

/// EtherType that announces a customer tag (C-TAG).
pub const ETHERTYPE: u16 = 0x8100;

/// EtherType that announces a service tag (S-TAG), the outer of two.
pub const ETHERTYPE_SERVICE: u16 = 0x88a8;

/// EtherType with which older switches announce the outer of two tags.
pub const ETHERTYPE_OLD: u16 = 0x9100;

/// Length of a tag without its tag protocol identifier, in bytes.
pub const HEADER_LEN: usize = 4;

/// Returns true if this EtherType announces a tag.
pub fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ETHERTYPE | ETHERTYPE_SERVICE | ETHERTYPE_OLD)
}

/// A tag as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 12 bits; 0 is a tag that only carries a priority.
    pub id: u16,
    /// EtherType of what follows.
    pub ethertype: u16,
}

impl Repr {
    /// Reads a tag; returns it with what follows, padding included.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let (&[a, b, c, d], rest) = bytes.split_first_chunk().ok_or(Error::Truncated)?;
        let control = u16::from_be_bytes([a, b]);
        let repr = Repr {
            priority: (control >> 13) as u8,
            drop_eligible: control & 0x1000 != 0,
            id: control & 0xfff,
            ethertype: u16::from_be_bytes([c, d]),
        };
        Ok((repr, rest))
    }

    /// Writes the tag to the first [`HEADER_LEN`] bytes: the low 3 bits of the priority and the low
    /// 12 bits of the identifier.
    pub fn emit(&self, bytes: &mut [u8]) {
        let control =
            u16::from(self.priority) << 13 | u16::from(self.drop_eligible) << 12 | self.id & 0xfff;
        bytes[0..2].copy_from_slice(&control.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.ethertype.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VLAN {} priority {}", self.id, self.priority)?;
        if self.drop_eligible {
            f.write_str(" drop eligible")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Priority 5, VLAN 100, IPv4 next.
    const BYTES: [u8; 5] = [0xa0, 0x64, 0x08, 0x00, 0x45];

    #[test]
    fn parse_emit_display() {
        let (repr, rest) = Repr::parse(&BYTES).unwrap();
        assert_eq!(
            (repr.priority, repr.drop_eligible, repr.id),
            (5, false, 100)
        );
        assert_eq!(rest, [0x45]);
        let mut bytes = [0xee; HEADER_LEN];
        repr.emit(&mut bytes);
        assert_eq!(bytes, BYTES[..HEADER_LEN]);
        assert_eq!(repr.to_string(), "VLAN 100 priority 5");
        assert_eq!(Repr::parse(&BYTES[..3]), Err(Error::Truncated));
    }
}
