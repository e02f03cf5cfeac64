//! VXLAN (RFC 7348): the header between UDP and the inner Ethernet frame.
//!
//! Only the flags that RFC 7348 defines; extensions (group policy, GPE) are an error. Start with
//! [`Repr`].

use super::{Error, get};
use std::fmt;

/// The UDP destination port that announces VXLAN.
pub const PORT: u16 = 4789;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = field::NETWORK.end;

/// The I flag: the network identifier is valid. All other bits of that word are reserved.
const FLAGS: u32 = 0x0800_0000;

/// View of a VXLAN header and the inner frame.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
}

mod field {
    use std::ops::Range;

    pub const FLAGS: Range<usize> = 0..4;
    pub const NETWORK: Range<usize> = 4..8;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps bytes that start with a VXLAN header.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unsupported`] if a reserved bit is set or the I flag is not.
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Packet { buffer };
        if packet.flags() != FLAGS || packet.network() & 0xff != 0 {
            return Err(Error::Unsupported);
        }
        Ok(packet)
    }

    /// Flags and reserved bits.
    #[inline]
    pub fn flags(&self) -> u32 {
        u32::from_be_bytes(get(self.buffer.as_ref(), field::FLAGS))
    }

    /// Network identifier (VNI, 24 bits) and 8 reserved bits.
    #[inline]
    pub fn network(&self) -> u32 {
        u32::from_be_bytes(get(self.buffer.as_ref(), field::NETWORK))
    }

    /// VXLAN network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        self.network() >> 8
    }

    /// The inner Ethernet frame, without FCS.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Wraps bytes that the caller is about to fill; getters may panic until then.
    #[inline]
    pub(crate) fn new_unchecked(buffer: T) -> Self {
        Packet { buffer }
    }

    /// Sets flags and reserved bits.
    #[inline]
    pub fn set_flags(&mut self, value: u32) {
        self.buffer.as_mut()[field::FLAGS].copy_from_slice(&value.to_be_bytes());
    }

    /// Sets network identifier and reserved bits.
    #[inline]
    pub fn set_network(&mut self, value: u32) {
        self.buffer.as_mut()[field::NETWORK].copy_from_slice(&value.to_be_bytes());
    }
}

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
    /// As [`Packet::new`].
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let vni = Packet::new(bytes)?.vni();
        Ok((Repr { vni }, &bytes[HEADER_LEN..]))
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes. Writes only the low 24 bits of the
    /// network identifier.
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_flags(FLAGS);
        packet.set_network(self.vni << 8);
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
