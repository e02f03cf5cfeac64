//! IPv6 extension headers (RFC 8200 §4), and the authentication header (RFC 4302), which looks much
//! like them.
//!
//! Read and written as next header, length and body. Two bodies are parsed, because checksums and
//! payload depend on them: [fragments](Repr::fragment) and [routing](Repr::final_destination). ESP
//! hides what follows, so it counts as payload. There is no view, because these headers are never
//! patched in place. Start with [`Repr`].

use super::Error;
use std::fmt;
use std::net::Ipv6Addr;
use std::ops::Range;

/// Length of the shortest header, in bytes.
pub const HEADER_LEN: usize = 8;

/// Kind of extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Hop-by-hop options: for every router; always the first.
    HopByHop,
    /// Routing: addresses of hops.
    Routing,
    /// Fragment: part of a packet.
    Fragment,
    /// Authentication.
    Authentication,
    /// Destination options.
    Destination,
}

/// Every kind with its number and its name.
const KINDS: [(Kind, u8, &str); 5] = [
    (Kind::HopByHop, 0, "hop-by-hop options"),
    (Kind::Routing, 43, "routing"),
    (Kind::Fragment, 44, "fragment"),
    (Kind::Authentication, 51, "authentication"),
    (Kind::Destination, 60, "destination options"),
];

impl Kind {
    /// Returns the kind with this next-header number.
    pub fn from_number(number: u8) -> Option<Kind> {
        let found = KINDS.iter().find(|(_, of_kind, _)| *of_kind == number);
        found.map(|(kind, ..)| *kind)
    }

    /// Returns its next-header number.
    pub fn number(self) -> u8 {
        self.row().1
    }

    /// Returns the unit of the length field in bytes, and the number of units that it does not
    /// count.
    fn unit(self) -> (usize, usize) {
        match self {
            Kind::Authentication => (4, 2),
            _ => (8, 1),
        }
    }

    fn row(self) -> (Kind, u8, &'static str) {
        let row = KINDS.into_iter().find(|(kind, ..)| *kind == self);
        row.expect("every kind has a row")
    }
}

/// Position of a fragment in its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Position of its payload, in units of 8 bytes.
    pub offset: u16,
    /// True if more fragments follow.
    pub more: bool,
    /// The same in all fragments of a packet.
    pub identification: u32,
}

/// An extension header as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr<'a> {
    /// Kind of the header.
    pub kind: Kind,
    /// Number of the next header.
    pub next_header: u8,
    /// Everything after the next header and length fields, 2 bytes shorter than the header; see
    /// [`check`](Self::check).
    pub body: &'a [u8],
}

impl<'a> Repr<'a> {
    /// Reads a header of this kind; returns it with what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] when an authentication header is too short to be
    /// one; [`Error::Unsupported`] when a fragment header's reserved byte is set.
    pub fn parse(kind: Kind, bytes: &'a [u8]) -> Result<(Repr<'a>, &'a [u8]), Error> {
        let &[next_header, length, ..] = bytes else {
            return Err(Error::Truncated);
        };
        let (unit, uncounted) = kind.unit();
        let header_len = match kind {
            Kind::Fragment if length != 0 => return Err(Error::Unsupported),
            Kind::Fragment => HEADER_LEN,
            _ => (usize::from(length) + uncounted) * unit,
        };
        let body = bytes.get(2..header_len).ok_or(Error::Truncated)?;
        let repr = Repr {
            kind,
            next_header,
            body,
        };
        repr.check()?;
        Ok((repr, &bytes[header_len..]))
    }

    /// Length of the header, in bytes.
    pub fn header_len(&self) -> usize {
        self.body.len() + 2
    }

    /// Checks that a header of this kind can have a body of this size.
    ///
    /// # Errors
    /// [`Error::Malformed`]: a fragment header has 8 bytes, authentication at least 12 and a
    /// multiple of 4, the others a multiple of 8; a size beyond the range of the length field is
    /// malformed, too.
    pub fn check(&self) -> Result<(), Error> {
        let (unit, uncounted) = self.kind.unit();
        let len = self.header_len();
        let possible = match self.kind {
            Kind::Fragment => len == HEADER_LEN,
            Kind::Authentication => len >= 12,
            _ => len >= HEADER_LEN,
        };
        if possible && len.is_multiple_of(unit) && len / unit - uncounted <= 0xff {
            Ok(())
        } else {
            Err(Error::Malformed)
        }
    }

    /// Writes the header to the first [`header_len`](Self::header_len) bytes.
    ///
    /// # Panics
    /// If [`check`](Self::check) rejects the size of the body.
    pub fn emit(&self, bytes: &mut [u8]) {
        self.check().expect("the caller has checked the body");
        let (unit, uncounted) = self.kind.unit();
        bytes[0] = self.next_header;
        bytes[1] = match self.kind {
            Kind::Fragment => 0,
            _ => (self.header_len() / unit - uncounted) as u8,
        };
        bytes[2..self.header_len()].copy_from_slice(self.body);
    }

    /// Offset and identification, if this is a fragment header.
    pub fn fragment(&self) -> Option<Fragment> {
        let &[high, low, a, b, c, d] = self.body else {
            return None;
        };
        let word = u16::from_be_bytes([high, low]);
        (self.kind == Kind::Fragment).then_some(Fragment {
            offset: word >> 3,
            more: word & 1 != 0,
            identification: u32::from_be_bytes([a, b, c, d]),
        })
    }

    /// Returns true if only a part of a packet follows.
    pub fn is_part(&self) -> bool {
        let fragment = self.fragment();
        fragment.is_some_and(|fragment| fragment.more || fragment.offset != 0)
    }

    /// Returns the packet's final destination, which checksums cover (RFC 8200 §8.1).
    ///
    /// Only for a routing header with segments left, of type 0, 2 or 4 (segment routing, RFC 8754).
    pub fn final_destination(&self) -> Option<Ipv6Addr> {
        let (routing_type, segments_left) = (*self.body.first()?, *self.body.get(1)?);
        if self.kind != Kind::Routing || segments_left == 0 {
            return None;
        }
        let addresses = self.body.get(6..)?;
        let address: &[u8; 16] = match routing_type {
            0 => addresses.last_chunk()?,
            2 | 4 => addresses.first_chunk()?,
            _ => return None,
        };
        Some(Ipv6Addr::from(*address))
    }

    /// Returns the positions of the addresses of the hops in a routing header, for the same headers
    /// as [`final_destination`](Repr::final_destination); for types 0 and 4 all addresses, visited
    /// or not.
    pub fn hops(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let count = match *self.body {
            _ if self.kind != Kind::Routing => 0,
            [_, 0, ..] => 0,
            [0, ..] => usize::MAX,
            [2, ..] => 1,
            [4, _, last_entry, ..] => usize::from(last_entry) + 1,
            _ => 0,
        };
        // behind next header, length, type, segments left and four more bytes
        let end = self.header_len();
        (8..end)
            .step_by(16)
            .map(|at| at..at + 16)
            .take(count)
            .filter(move |hop| hop.end <= end)
    }
}

impl fmt::Display for Repr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv6 {}", self.kind.row().2)?;
        if let Some(fragment) = self.fragment() {
            let at = u32::from(fragment.offset) * 8;
            let more = if fragment.more { ", more follow" } else { "" };
            write!(f, " {:#x} at {at}{more}", fragment.identification)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_router_alert() {
        // RFC 2711 §2.1, padded with PadN, before UDP.
        let bytes = [17, 0, 5, 2, 0, 0, 1, 0, 0xee];
        let (repr, rest) = Repr::parse(Kind::HopByHop, &bytes).unwrap();
        assert_eq!((repr.next_header, repr.body), (17, &bytes[2..8]));
        assert_eq!(rest, [0xee]);
        let mut again = [0; 8];
        repr.emit(&mut again);
        assert_eq!(again, bytes[..8]);
        assert_eq!(repr.to_string(), "IPv6 hop-by-hop options");
        let short = Repr::parse(Kind::HopByHop, &bytes[..7]);
        assert_eq!(short, Err(Error::Truncated));
        assert_eq!(Repr::parse(Kind::Routing, &[]), Err(Error::Truncated));
    }

    #[test]
    fn fragments() {
        let bytes = [17, 0, 0x00, 0x09, 0, 0, 0, 7];
        let (repr, _) = Repr::parse(Kind::Fragment, &bytes).unwrap();
        let fragment = repr.fragment().unwrap();
        assert_eq!((fragment.offset, fragment.more), (1, true));
        assert_eq!(repr.to_string(), "IPv6 fragment 0x7 at 8, more follow");
    }

    #[test]
    fn where_a_routed_packet_goes_in_the_end() {
        let mut body = vec![4, 1, 0, 0, 0, 0];
        body.extend([0xaa; 16]);
        body.extend([0xbb; 16]);
        fn end(body: &[u8]) -> Option<Ipv6Addr> {
            let (kind, next_header) = (Kind::Routing, 17);
            let repr = Repr {
                kind,
                next_header,
                body,
            };
            repr.final_destination()
        }
        assert_eq!(end(&body), Some(Ipv6Addr::from([0xaa; 16])));
        body[0] = 0;
        assert_eq!(end(&body), Some(Ipv6Addr::from([0xbb; 16])));
        body[1] = 0;
        assert_eq!(end(&body), None);
    }

    #[test]
    fn impossible_bodies() {
        for (kind, len) in [
            (Kind::HopByHop, 7),
            (Kind::Destination, 2048),
            (Kind::Fragment, 14),
            (Kind::Authentication, 6),
            (Kind::Authentication, 11),
        ] {
            let body = vec![0; len];
            let next_header = 59;
            let repr = Repr {
                kind,
                next_header,
                body: &body,
            };
            assert_eq!(repr.check(), Err(Error::Malformed), "{kind:?} {len}");
        }
    }
}
