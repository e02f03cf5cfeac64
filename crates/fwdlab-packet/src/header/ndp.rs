//! Neighbor discovery (RFC 4861): neighbor solicitations and advertisements, ARP's counterpart in
//! IPv6.
//!
//! Whole ICMPv6 messages, with one link-layer address or none; with other options they are plain
//! [`icmpv6`] messages. The checksum and the view are ICMPv6's. Start with [`Repr`].

use super::ethernet::MacAddr;
use super::{Error, get, icmpv6};
use std::fmt;
use std::net::Ipv6Addr;

/// ICMPv6 type: a request for the owner of an address.
pub const SOLICITATION: u8 = 135;

/// ICMPv6 type: the owner's announcement.
pub const ADVERTISEMENT: u8 = 136;

/// Length of a message without a link-layer address, in bytes.
pub const HEADER_LEN: usize = field::TARGET.end;

/// Flags of an advertisement, at their position in the second word: router, solicited, override.
pub mod flag {
    /// The sender is a router.
    pub const ROUTER: u32 = 0x8000_0000;
    /// It answers a solicitation.
    pub const SOLICITED: u32 = 0x4000_0000;
    /// It overrides the receiver's cache.
    pub const OVERRIDE: u32 = 0x2000_0000;
    /// All of them.
    pub(super) const ALL: u32 = ROUTER | SOLICITED | OVERRIDE;
}

mod field {
    use std::ops::Range;

    pub const TARGET: Range<usize> = 8..24;
    /// Type and length (in units of 8 bytes) of the only option, and its address.
    pub const OPTION: Range<usize> = 24..26;
    pub const LINK_ADDRESS: Range<usize> = 26..32;
}

/// A message as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// True for an advertisement, false for a solicitation.
    pub advertisement: bool,
    /// Flags of an advertisement, see [`flag`]; zero in a solicitation.
    pub flags: u32,
    /// The requested or announced address.
    pub target: Ipv6Addr,
    /// MAC address of the sender of a solicitation, or of the target of an advertisement.
    pub link_address: Option<MacAddr>,
}

impl Repr {
    /// Length of the message, in bytes.
    pub fn header_len(&self) -> usize {
        match self.link_address {
            Some(_) => field::LINK_ADDRESS.end,
            None => HEADER_LEN,
        }
    }

    /// Returns the message type, and type and length of its option.
    fn kinds(advertisement: bool) -> (u8, [u8; 2]) {
        match advertisement {
            false => (SOLICITATION, [1, 1]),
            true => (ADVERTISEMENT, [2, 1]),
        }
    }

    /// Parses a message, which is all of `bytes`. Does not verify the checksum.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unsupported`] if it is another ICMPv6 message, has options
    /// other than one link-layer address, or has reserved bits set.
    pub fn parse(bytes: &[u8]) -> Result<Repr, Error> {
        let message = icmpv6::Packet::new(bytes)?;
        let advertisement = message.kind() == ADVERTISEMENT;
        let (kind, option) = Repr::kinds(advertisement);
        let allowed = if advertisement { flag::ALL } else { 0 };
        if message.kind() != kind || message.code() != 0 || message.word() & !allowed != 0 {
            return Err(Error::Unsupported);
        }
        if bytes.len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let link_address = match bytes.len() {
            HEADER_LEN => None,
            32 if get(bytes, field::OPTION) == option => {
                Some(MacAddr(get(bytes, field::LINK_ADDRESS)))
            }
            _ => return Err(Error::Unsupported),
        };
        Ok(Repr {
            advertisement,
            flags: message.word(),
            target: Ipv6Addr::from(get::<16>(bytes, field::TARGET)),
            link_address,
        })
    }

    /// Writes the message to the first [`header_len`](Self::header_len) bytes, with a zero
    /// checksum.
    pub fn emit(&self, bytes: &mut [u8]) {
        let (kind, option) = Repr::kinds(self.advertisement);
        icmpv6::Repr {
            kind,
            code: 0,
            word: self.flags,
        }
        .emit(bytes);
        bytes[field::TARGET].copy_from_slice(&self.target.octets());
        if let Some(address) = self.link_address {
            bytes[field::OPTION].copy_from_slice(&option);
            bytes[field::LINK_ADDRESS].copy_from_slice(&address.0);
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.advertisement {
            false => write!(f, "ND who has {}?", self.target)?,
            true => write!(f, "ND {} is here", self.target)?,
        }
        match self.link_address {
            Some(address) if self.advertisement => write!(f, ", at {address}"),
            Some(address) => write!(f, " tell {address}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solicitation() {
        let target: Ipv6Addr = "2001:2::abcd:ef01".parse().unwrap();
        let repr = Repr {
            advertisement: false,
            flags: 0,
            target,
            link_address: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        };
        let mut bytes = [0xee; 32];
        repr.emit(&mut bytes);
        assert_eq!(bytes[..8], [135, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..], [1, 1, 2, 0, 0, 0, 0, 1]);
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        assert_eq!(
            repr.to_string(),
            "ND who has 2001:2::abcd:ef01? tell 02:00:00:00:00:01"
        );
        assert_eq!(Repr::parse(&bytes[..23]), Err(Error::Truncated));
        assert_eq!(Repr::parse(&bytes[..25]), Err(Error::Unsupported));
        bytes[4] = 0x80;
        assert_eq!(Repr::parse(&bytes), Err(Error::Unsupported));
    }
}
