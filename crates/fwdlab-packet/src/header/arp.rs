//! ARP (RFC 826) for IPv4 over Ethernet: a whole message.
//!
//! Other hardware and protocol addresses are an error. Start with [`Repr`].

use super::ethernet::MacAddr;
use super::{Error, get};
use std::fmt;
use std::net::Ipv4Addr;

/// EtherType of ARP.
pub const ETHERTYPE: u16 = 0x0806;

/// Length of a message, in bytes.
pub const HEADER_LEN: usize = field::TARGET_IP.end;

/// Operation: a request for the owner of an address.
pub const REQUEST: u16 = 1;

/// Operation: the owner's reply.
pub const REPLY: u16 = 2;

/// Ethernet (1), IPv4 (0x0800), and their address lengths 6 and 4.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

mod field {
    use std::ops::Range;

    pub const OPERATION: Range<usize> = 6..8;
    pub const SENDER_MAC: Range<usize> = 8..14;
    pub const SENDER_IP: Range<usize> = 14..18;
    pub const TARGET_MAC: Range<usize> = 18..24;
    pub const TARGET_IP: Range<usize> = 24..28;
    /// Types and lengths of the addresses.
    pub const KIND: Range<usize> = 0..6;
}

/// An ARP message as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Operation: [`REQUEST`], [`REPLY`], or another.
    pub operation: u16,
    /// MAC address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// MAC address of the target; zero in a request.
    pub target_mac: MacAddr,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Reads a message; returns it with the rest, which is padding.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unsupported`] if it is not about IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        if bytes[field::KIND] != KIND {
            return Err(Error::Unsupported);
        }
        let repr = Repr {
            operation: u16::from_be_bytes(get(bytes, field::OPERATION)),
            sender_mac: MacAddr(get(bytes, field::SENDER_MAC)),
            sender_ip: Ipv4Addr::from(get::<4>(bytes, field::SENDER_IP)),
            target_mac: MacAddr(get(bytes, field::TARGET_MAC)),
            target_ip: Ipv4Addr::from(get::<4>(bytes, field::TARGET_IP)),
        };
        Ok((repr, &bytes[HEADER_LEN..]))
    }

    /// Writes the message to the first [`HEADER_LEN`] bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::KIND].copy_from_slice(&KIND);
        bytes[field::OPERATION].copy_from_slice(&self.operation.to_be_bytes());
        bytes[field::SENDER_MAC].copy_from_slice(&self.sender_mac.0);
        bytes[field::SENDER_IP].copy_from_slice(&self.sender_ip.octets());
        bytes[field::TARGET_MAC].copy_from_slice(&self.target_mac.0);
        bytes[field::TARGET_IP].copy_from_slice(&self.target_ip.octets());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr {
            operation,
            sender_mac,
            sender_ip,
            target_mac,
            target_ip,
        } = self;
        match *operation {
            REQUEST => write!(
                f,
                "ARP who has {target_ip}? tell {sender_ip} at {sender_mac}"
            ),
            REPLY => write!(
                f,
                "ARP {sender_ip} is at {sender_mac}, to {target_ip} at {target_mac}"
            ),
            _ => write!(f, "ARP operation {operation} {sender_ip} > {target_ip}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Repr {
        Repr {
            operation: REQUEST,
            sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            sender_ip: Ipv4Addr::new(198, 18, 1, 2),
            target_mac: MacAddr([0; 6]),
            target_ip: Ipv4Addr::new(198, 18, 1, 1),
        }
    }

    #[test]
    fn emit_and_parse() {
        let mut bytes = [0xee; HEADER_LEN + 1];
        request().emit(&mut bytes);
        assert_eq!(
            bytes[..HEADER_LEN],
            [
                0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 198, 18, 1, 2, 0, 0, 0, 0, 0, 0, 198, 18,
                1, 1
            ]
        );
        assert_eq!(Repr::parse(&bytes), Ok((request(), &[0xee][..])));
        assert_eq!(Repr::parse(&bytes[..27]), Err(Error::Truncated));
        bytes[1] = 6;
        assert_eq!(Repr::parse(&bytes), Err(Error::Unsupported));
    }

    #[test]
    fn display() {
        assert_eq!(
            request().to_string(),
            "ARP who has 198.18.1.1? tell 198.18.1.2 at 02:00:00:00:00:01"
        );
    }
}
