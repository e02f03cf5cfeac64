//! VXLAN (RFC 7348): the header between UDP and the inner Ethernet frame.
//!
//! Only the flags that RFC 7348 defines; extensions (group policy, GPE) are an error. Start with
//! [`Repr`].

use super::Error;
use std::fmt;

/// The UDP destination port that announces VXLAN.
pub const PORT: u16 = 4789;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 8;

/// The I flag: the network identifier is valid. All other bits before it are reserved.
const FLAGS: u8 = 8;

/// A VXLAN header as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// VXLAN network identifier, 24 bits.
    pub vni: u32,
}

impl Repr {
    /// Reads a header; returns it with the inner Ethernet frame.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unsupported`] if a reserved bit is set or the I flag is not.
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let (header, inner) = bytes
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(Error::Truncated)?;
        let &[FLAGS, 0, 0, 0, a, b, c, 0] = header else {
            return Err(Error::Unsupported);
        };
        let vni = u32::from_be_bytes([0, a, b, c]);
        Ok((Repr { vni }, inner))
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes. Writes only the low 24 bits of the
    /// network identifier.
    pub fn emit(&self, bytes: &mut [u8]) {
        let [_, a, b, c] = self.vni.to_be_bytes();
        bytes[..HEADER_LEN].copy_from_slice(&[FLAGS, 0, 0, 0, a, b, c, 0]);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VXLAN {}", self.vni)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emit_parse_display() {
        let repr = Repr { vni: 0x00_1234 };
        let mut bytes = [0xee; 9];
        repr.emit(&mut bytes);
        assert_eq!(bytes, [8, 0, 0, 0, 0, 0x12, 0x34, 0, 0xee]);
        assert_eq!(Repr::parse(&bytes), Ok((repr, &[0xee][..])));
        assert_eq!(repr.to_string(), "VXLAN 4660");
        assert_eq!(Repr::parse(&bytes[..7]), Err(Error::Truncated));
        for at in [0, 3, 7] {
            let mut other = bytes;
            other[at] ^= 8;
            assert_eq!(Repr::parse(&other), Err(Error::Unsupported), "byte {at}");
        }
    }
}
