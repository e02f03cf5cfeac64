//! TCP (RFC 9293): the header, for frames that look like TCP to a router or firewall.
//!
//! No connection, no state; options are carried, not interpreted. The pseudo header comes from the
//! IP header's `Repr`. Start with [`Repr`].

use super::options::{self, Options};
use super::{Error, view};
use crate::checksum;
use std::fmt;

/// Protocol number of TCP in IPv4 and IPv6.
pub const PROTOCOL: u8 = 6;

/// Length of the header without options, in bytes.
pub const HEADER_LEN: usize = 20;

/// Position of the data offset and the reserved bits.
const OFFSET: usize = 12;

/// Control bits (RFC 9293 §3.1), at their position in [`Repr::flags`].
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number is valid.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

view! {
    /// View of a TCP segment.
    pub struct Packet<T>;

    /// Source port.
    pub fn source_port(&self) -> u16 = 0..2;
    pub fn set_source_port(&mut self, value: u16);

    /// Destination port.
    pub fn destination_port(&self) -> u16 = 2..4;
    pub fn set_destination_port(&mut self, value: u16);

    /// Sequence number.
    pub fn sequence(&self) -> u32 = 4..8;
    pub fn set_sequence(&mut self, value: u32);

    /// Acknowledgment number.
    pub fn acknowledgment(&self) -> u32 = 8..12;
    pub fn set_acknowledgment(&mut self, value: u32);

    /// Control bits, see [`flag`].
    pub fn flags(&self) -> u8 = 13..14;
    pub fn set_flags(&mut self, value: u8);

    /// Window, unscaled.
    pub fn window(&self) -> u16 = 14..16;
    pub fn set_window(&mut self, value: u16);

    /// Checksum.
    pub fn checksum(&self) -> u16 = 16..18;
    pub fn set_checksum(&mut self, value: u16);

    /// Urgent pointer.
    pub fn urgent(&self) -> u16 = 18..20;
    pub fn set_urgent(&mut self, value: u16);
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps bytes that start with a TCP header. Does not verify the checksum.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] when the data offset is smaller than the header.
    pub fn new(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Packet { buffer };
        if packet.header_len() < HEADER_LEN {
            return Err(Error::Malformed);
        }
        if packet.buffer.as_ref().len() < packet.header_len() {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    /// Length of the header with options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[OFFSET] >> 4) * 4
    }

    /// The four bits after the data offset, reserved.
    #[inline]
    pub fn reserved(&self) -> u8 {
        self.buffer.as_ref()[OFFSET] & 0x0f
    }

    /// The options' bytes.
    #[inline]
    pub fn options(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..self.header_len()]
    }

    /// Returns true if the checksum is correct. `pseudo_header` is the sum from the IP header's
    /// `Repr`; the segment is the whole buffer.
    pub fn verify_checksum(&self, pseudo_header: u16) -> bool {
        checksum::combine(&[pseudo_header, checksum::sum(self.buffer.as_ref())]) == 0xffff
    }

    /// The bytes after header and options.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the length of the header with options, in bytes: a multiple of 4 up to 60. Clears the
    /// reserved bits.
    #[inline]
    pub fn set_header_len(&mut self, header_len: usize) {
        self.buffer.as_mut()[OFFSET] = ((header_len / 4) as u8) << 4;
    }

    /// Computes and sets the checksum of the segment, which is the whole buffer.
    pub fn fill_checksum(&mut self, pseudo_header: u16) {
        self.set_checksum(0);
        let sum = checksum::combine(&[pseudo_header, checksum::sum(self.buffer.as_ref())]);
        self.set_checksum(!sum);
    }
}

/// A TCP header as values, without the checksum, which covers the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Control bits, see [`flag`].
    pub flags: u8,
    /// Window, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Repr {
    /// Length of the header with options, in bytes.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.as_bytes().len()
    }

    /// Reads a header; returns it with the payload. Does not verify the checksum.
    ///
    /// # Errors
    /// As [`Packet::new`]; [`Error::Unsupported`] when reserved bits are set.
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let packet = Packet::new(bytes)?;
        if packet.reserved() != 0 {
            return Err(Error::Unsupported);
        }
        let repr = Repr {
            source_port: packet.source_port(),
            destination_port: packet.destination_port(),
            sequence: packet.sequence(),
            acknowledgment: packet.acknowledgment(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
            options: Options::new(packet.options())?,
        };
        Ok((repr, &bytes[repr.header_len()..]))
    }

    /// Writes the header to the first [`header_len`](Self::header_len) bytes, with a zero checksum.
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.header_len();
        let mut packet = Packet::new_unchecked(&mut *bytes);
        packet.set_source_port(self.source_port);
        packet.set_destination_port(self.destination_port);
        packet.set_sequence(self.sequence);
        packet.set_acknowledgment(self.acknowledgment);
        packet.set_header_len(header_len);
        packet.set_flags(self.flags);
        packet.set_window(self.window);
        packet.set_checksum(0);
        packet.set_urgent(self.urgent);
        bytes[HEADER_LEN..header_len].copy_from_slice(self.options.as_bytes());
    }
}

impl Default for Repr {
    /// The defaults of our test frames: a SYN without options and with a full window.
    fn default() -> Self {
        Repr {
            source_port: 0,
            destination_port: 0,
            sequence: 0,
            acknowledgment: 0,
            flags: flag::SYN,
            window: 0xffff,
            urgent: 0,
            options: options::NONE,
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        write!(f, "TCP {} > {}", self.source_port, self.destination_port)?;
        for (bit, name) in NAMES.iter().enumerate() {
            if self.flags & 1 << bit != 0 {
                write!(f, " {name}")?;
            }
        }
        write!(f, " sequence {}", self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::ipv4;

    fn repr() -> Repr {
        Repr {
            source_port: 1024,
            destination_port: 80,
            sequence: 7,
            // Maximum segment size 1460 (RFC 9293 §3.2).
            options: Options::new(&[2, 4, 5, 0xb4]).unwrap(),
            ..Repr::default()
        }
    }

    #[test]
    fn emit_parse_display() {
        let mut bytes = [0xee; 27];
        repr().emit(&mut bytes);
        assert_eq!(
            bytes[..24],
            [
                4, 0, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, 0x60, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4
            ]
        );
        assert_eq!(Repr::parse(&bytes), Ok((repr(), &[0xee; 3][..])));
        assert_eq!(repr().to_string(), "TCP 1024 > 80 SYN sequence 7");
        assert_eq!(Repr::parse(&bytes[..19]), Err(Error::Truncated));
        assert_eq!(Repr::parse(&bytes[..23]), Err(Error::Truncated));
        bytes[12] = 0x4f;
        assert_eq!(Repr::parse(&bytes), Err(Error::Malformed));
        bytes[12] = 0x61;
        assert_eq!(Repr::parse(&bytes), Err(Error::Unsupported));
    }

    #[test]
    fn the_checksum_covers_every_bit_and_the_pseudo_header() {
        let mut bytes = [0x11; 27];
        repr().emit(&mut bytes);
        let ip = ipv4::Repr {
            protocol: PROTOCOL,
            payload_len: 27,
            ..ipv4::Repr::default()
        };
        let mut packet = Packet::new(&mut bytes).unwrap();
        packet.fill_checksum(ip.pseudo_header());
        for bit in 0..27 * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 0x80 >> (bit % 8);
            if let Ok(packet) = Packet::new(damaged) {
                assert!(!packet.verify_checksum(ip.pseudo_header()), "bit {bit}");
            }
        }
        let packet = Packet::new(&bytes).unwrap();
        assert!(packet.verify_checksum(ip.pseudo_header()));
        assert!(!packet.verify_checksum(checksum::combine(&[ip.pseudo_header(), 1])));
    }
}
