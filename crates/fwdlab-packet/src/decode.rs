//! Decodes a frame into layers, and describes it in one line.
//!
//! Never fails and never panics: unknown content becomes payload, and a mistake becomes a [`Note`].
//! A frame without notes loses nothing: [`stack::build`](crate::stack::build) restores its bytes.
//! It allocates, and is for frames that people read, not for counting. Start with [`decode`];
//! [`destinations`] lists where a frame may go, including the destinations of packets inside it.

use crate::checksum;
use crate::header::{
    Error, arp, ethernet, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, mpls, ndp, tcp, udp, vlan, vxlan,
};
use crate::stack::{Extension, Layer};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

/// A decoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The layers, outermost first.
    pub layers: Vec<Layer>,
    /// Offset of each layer, in bytes.
    pub offsets: Vec<usize>,
    /// Bytes after the last layer: Ethernet pads packets that are shorter than 46 bytes.
    pub padding: usize,
    /// Mistakes and unusual contents.
    pub notes: Vec<Note>,
}

/// Something that a reader of the frame should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The previous header announced this protocol, but no valid header follows. It is shown as
    /// payload.
    Header {
        /// Name of the protocol.
        name: &'static str,
        /// What is wrong with it.
        error: Error,
    },
    /// The checksum is wrong.
    WrongChecksum {
        /// Name of the protocol.
        name: &'static str,
    },
    /// There is no UDP checksum, as IPv4 allows.
    NoChecksum,
    /// Bytes inside the packet belong to no layer.
    Trailing {
        /// Name of the protocol before them.
        name: &'static str,
        /// Number of bytes.
        bytes: usize,
    },
}

/// A destination in a frame: of its IP header, of an encapsulated IP header, or of a hop in a
/// routing header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Position of its 4 or 16 bytes.
    pub field: Range<usize>,
    /// Name of the protocol.
    pub name: &'static str,
    /// The encapsulating protocol; `None` for the first IP header behind Ethernet and its tags.
    pub inside: Option<&'static str>,
}

impl Destination {
    /// Returns the position of the matching source. A hop has none.
    pub fn source(&self) -> Option<Range<usize>> {
        // just before the destination, in IPv4 and IPv6
        let start = self.field.start - self.field.len();
        (self.inside != Some(ROUTING)).then_some(start..self.field.start)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.inside {
            Some(inside) => write!(f, " in {inside}"),
            None => Ok(()),
        }
    }
}

/// The encapsulating protocol of a hop.
const ROUTING: &str = "a routing header";

/// Returns the address in 4 or 16 bytes.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(*bytes.first_chunk::<4>()?)),
        16 => Some(IpAddr::from(*bytes.first_chunk::<16>()?)),
        _ => None,
    }
}

/// Returns all destinations in a frame, outermost first: behind VLAN tags, in MPLS, GRE, VXLAN and
/// IP, and the remaining hops of IPv6 routing headers.
///
/// For callers that must know every place a frame may go: any UDP port may carry VXLAN, first
/// fragments are decoded, and an IP header counts even if its lengths are wrong. Empty for ARP and
/// the like.
pub fn destinations(bytes: &[u8]) -> Vec<Destination> {
    let decoded = run(bytes, Purpose::Reach);
    let mut found = Vec::new();
    let mut inside = None;
    let mut add = |field: Range<usize>, name, inside| {
        if field.end <= bytes.len() {
            found.push(Destination {
                field,
                name,
                inside,
            });
        }
    };
    for (layer, &at) in decoded.layers.iter().zip(&decoded.offsets) {
        match layer {
            Layer::Ipv4(_) => add(at + 16..at + 20, "IPv4", inside),
            Layer::Ipv6(_) => add(at + 24..at + 40, "IPv6", inside),
            Layer::Extension(extension) => {
                for hop in extension.repr().hops() {
                    add(at + hop.start..at + hop.end, "IPv6", Some(ROUTING));
                }
            }
            // announced as IP, with wrong lengths
            Layer::Payload(_) => match decoded.notes.last() {
                Some(Note::Header { name: "IPv4", .. }) => add(at + 16..at + 20, "IPv4", inside),
                Some(Note::Header { name: "IPv6", .. }) => add(at + 24..at + 40, "IPv6", inside),
                _ => {}
            },
            _ => {}
        }
        match layer {
            Layer::Mpls(_) | Layer::Ipv4(_) | Layer::Ipv6(_) | Layer::Gre(_) | Layer::Vxlan(_) => {
                inside = Some(layer.name());
            }
            _ => {}
        }
    }
    found
}

/// Decodes a frame. `bytes`: from the destination MAC on, without FCS.
pub fn decode(bytes: &[u8]) -> Decoded {
    run(bytes, Purpose::Show)
}

/// Why a frame is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To show it to people, with its mistakes.
    Show,
    /// For [`destinations`]: every possible interpretation counts. Checksums are not verified.
    Reach,
}

fn run(bytes: &[u8], purpose: Purpose) -> Decoded {
    let mut decoder = Decoder {
        bytes,
        purpose,
        rest: bytes,
        ip: None,
        tunnelled: false,
        decoded: Decoded {
            layers: Vec::new(),
            offsets: Vec::new(),
            padding: 0,
            notes: Vec::new(),
        },
    };
    let mut next = Next::Ethernet;
    while next != Next::Payload {
        next = decoder.layer(next);
    }
    let rest = decoder.rest;
    if !rest.is_empty() {
        let kept = match purpose {
            Purpose::Show => rest,
            Purpose::Reach => &[],
        };
        decoder.push(Layer::Payload(kept.to_vec()), &[]);
    }
    decoder.decoded
}

/// The protocol that the last header announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Ethernet,
    /// An EtherType.
    Ethertype(u16),
    /// After a label: another entry, or a protocol that the first four bits reveal.
    Label {
        bottom: bool,
    },
    /// A protocol number of IPv4 or IPv6.
    Protocol(u8),
    /// The payload of UDP: VXLAN if the port announces it, or for [`destinations`] if it looks like
    /// VXLAN.
    Vxlan {
        announced: bool,
    },
    /// Unknown content, or nothing.
    Payload,
}

struct Decoder<'a> {
    bytes: &'a [u8],
    purpose: Purpose,
    /// The rest of the innermost packet; always a slice of `bytes`.
    rest: &'a [u8],
    /// Addresses of the innermost IP header, for checksums; the destination is the one that the
    /// pseudo header uses.
    ip: Option<(IpAddr, IpAddr)>,
    /// True inside another packet: bytes behind it are then not padding of the outer Ethernet.
    tunnelled: bool,
    decoded: Decoded,
}

impl<'a> Decoder<'a> {
    /// Adds a layer that ends at the start of `rest`.
    fn push(&mut self, layer: Layer, rest: &'a [u8]) {
        let at = self.bytes.len() - self.decoded.padding - self.trailing() - self.rest.len();
        self.decoded.offsets.push(at);
        self.decoded.layers.push(layer);
        self.rest = rest;
    }

    /// Returns the number of bytes at the end that belong to no layer.
    fn trailing(&self) -> usize {
        let bytes = self.decoded.notes.iter().map(|note| match note {
            Note::Trailing { bytes, .. } => *bytes,
            _ => 0,
        });
        bytes.sum()
    }

    /// Cuts the rest after its first `len` bytes, where a packet of this protocol ends.
    fn end(&mut self, name: &'static str, len: usize) {
        let (kept, cut) = self.rest.split_at(len.min(self.rest.len()));
        if cut.is_empty() {
            return;
        }
        if self.tunnelled || name == "UDP" {
            let bytes = cut.len();
            self.decoded.notes.push(Note::Trailing { name, bytes });
        } else {
            self.decoded.padding += cut.len();
        }
        self.rest = kept;
    }

    fn note(&mut self, name: &'static str, error: Error) -> Next {
        self.decoded.notes.push(Note::Header { name, error });
        Next::Payload
    }

    fn verified(&mut self, name: &'static str, is_right: impl FnOnce(&Self) -> bool) {
        if self.purpose == Purpose::Show && !is_right(self) {
            self.decoded.notes.push(Note::WrongChecksum { name });
        }
    }

    /// Returns the sum of the pseudo header for the rest.
    fn pseudo_header(&self, protocol: u8) -> u16 {
        self.ip.map_or(0, |(from, to)| {
            checksum::pseudo_header(from, to, protocol, self.rest.len())
        })
    }

    /// Decodes one layer; returns the protocol that follows.
    fn layer(&mut self, next: Next) -> Next {
        let rest = self.rest;
        match next {
            Next::Ethernet => match ethernet::Repr::parse(rest) {
                Ok((repr, rest)) => {
                    self.push(Layer::Ethernet(repr), rest);
                    Next::Ethertype(repr.ethertype)
                }
                Err(error) => self.note("Ethernet", error),
            },
            Next::Ethertype(ethertype) => self.ethertype(ethertype),
            Next::Label { bottom: false } => self.ethertype(mpls::ETHERTYPE),
            Next::Label { bottom: true } => match rest.first().map(|byte| byte >> 4) {
                Some(4) => self.ipv4(),
                Some(6) => self.ipv6(),
                _ => Next::Payload,
            },
            Next::Protocol(protocol) => self.protocol(protocol),
            // The port is only a hint, so other contents are not a mistake.
            Next::Vxlan { announced } => match (vxlan::Repr::parse(rest), rest) {
                (Ok((repr, inner)), _) => {
                    self.push(Layer::Vxlan(repr), inner);
                    self.inner_ethernet()
                }
                // receivers ignore the bits that RFC 7348 reserves
                (Err(_), &[flags, _, _, _, a, b, c, _, ref inner @ ..])
                    if announced && flags & 8 != 0 && self.purpose == Purpose::Reach =>
                {
                    let vni = u32::from_be_bytes([0, a, b, c]);
                    self.push(Layer::Vxlan(vxlan::Repr { vni }), inner);
                    self.inner_ethernet()
                }
                (Err(_), _) => Next::Payload,
            },
            Next::Payload => Next::Payload,
        }
    }

    fn inner_ethernet(&mut self) -> Next {
        self.tunnelled = true;
        match self.rest.is_empty() {
            true => Next::Payload,
            false => Next::Ethernet,
        }
    }

    fn ethertype(&mut self, ethertype: u16) -> Next {
        let rest = self.rest;
        match ethertype {
            tag if vlan::is_tag(tag) => match vlan::Repr::parse(rest) {
                Ok((repr, rest)) => {
                    self.push(Layer::Vlan(repr), rest);
                    Next::Ethertype(repr.ethertype)
                }
                Err(error) => self.note("VLAN", error),
            },
            mpls::ETHERTYPE => match mpls::Repr::parse(rest) {
                Ok((repr, rest)) => {
                    self.push(Layer::Mpls(repr), rest);
                    Next::Label {
                        bottom: repr.bottom,
                    }
                }
                Err(error) => self.note("MPLS", error),
            },
            arp::ETHERTYPE => match arp::Repr::parse(rest) {
                Ok((repr, _)) => {
                    self.end("ARP", arp::HEADER_LEN);
                    self.push(Layer::Arp(repr), &[]);
                    Next::Payload
                }
                Err(error) => self.note("ARP", error),
            },
            ipv4::ETHERTYPE => self.ipv4(),
            ipv6::ETHERTYPE => self.ipv6(),
            _ => Next::Payload,
        }
    }

    fn ipv4(&mut self) -> Next {
        let parsed = ipv4::Packet::new(self.rest).and_then(|packet| Ok((packet, packet.repr()?)));
        let (packet, repr) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return self.note("IPv4", error),
        };
        self.verified("IPv4", |_| packet.verify_checksum());
        self.end("IPv4", packet.total_len().into());
        self.ip = Some((repr.source.into(), repr.destination.into()));
        let payload = &self.rest[repr.header_len()..];
        self.push(Layer::Ipv4(repr), payload);
        let is_first = repr.fragment_offset == 0;
        match repr.is_fragment() && !(is_first && self.purpose == Purpose::Reach) {
            true => Next::Payload,
            false => Next::Protocol(repr.protocol),
        }
    }

    fn ipv6(&mut self) -> Next {
        let repr = match ipv6::Repr::parse(self.rest) {
            Ok((repr, _)) => repr,
            Err(error) => return self.note("IPv6", error),
        };
        self.end("IPv6", ipv6::HEADER_LEN + usize::from(repr.payload_len));
        self.ip = Some((repr.source.into(), repr.destination.into()));
        let payload = &self.rest[ipv6::HEADER_LEN..];
        self.push(Layer::Ipv6(repr), payload);
        Next::Protocol(repr.next_header)
    }

    fn extension(&mut self, kind: ipv6_ext::Kind) -> Next {
        let (repr, rest) = match ipv6_ext::Repr::parse(kind, self.rest) {
            Ok(parsed) => parsed,
            Err(error) => return self.note("IPv6 extension", error),
        };
        if let (Some((_, to)), Some(end)) = (&mut self.ip, repr.final_destination()) {
            *to = end.into();
        }
        let extension = Extension {
            kind,
            next_header: repr.next_header,
            body: repr.body.to_vec(),
        };
        self.push(Layer::Extension(extension), rest);
        let is_first = repr.fragment().is_some_and(|fragment| fragment.offset == 0);
        let is_part = repr.is_part() && !(is_first && self.purpose == Purpose::Reach);
        match is_part {
            true => Next::Payload,
            false => Next::Protocol(repr.next_header),
        }
    }

    fn protocol(&mut self, protocol: u8) -> Next {
        let rest = self.rest;
        let in_ipv6 = matches!(self.ip, Some((IpAddr::V6(_), _)));
        if let (true, Some(kind)) = (in_ipv6, ipv6_ext::Kind::from_number(protocol)) {
            return self.extension(kind);
        }
        match protocol {
            udp::PROTOCOL => self.udp(in_ipv6),
            tcp::PROTOCOL => match (tcp::Packet::new(rest), tcp::Repr::parse(rest)) {
                (Ok(packet), Ok((repr, payload))) => {
                    self.verified("TCP", |decoder| {
                        packet.verify_checksum(decoder.pseudo_header(protocol))
                    });
                    self.push(Layer::Tcp(repr), payload);
                    Next::Payload
                }
                (Err(error), _) | (_, Err(error)) => self.note("TCP", error),
            },
            icmp::PROTOCOL if !in_ipv6 => {
                match (icmp::Packet::new(rest), icmp::Repr::parse(rest)) {
                    (Ok(packet), Ok((repr, payload))) => {
                        self.verified("ICMP", |_| packet.verify_checksum(0));
                        self.push(Layer::Icmp(repr), payload);
                        Next::Payload
                    }
                    (Err(error), _) | (_, Err(error)) => self.note("ICMP", error),
                }
            }
            icmpv6::PROTOCOL if in_ipv6 => match icmpv6::Packet::new(rest) {
                Ok(packet) => {
                    self.verified("ICMPv6", |decoder| {
                        packet.verify_checksum(decoder.pseudo_header(protocol))
                    });
                    match (ndp::Repr::parse(rest), icmpv6::Repr::parse(rest)) {
                        (Ok(repr), _) => self.push(Layer::Ndp(repr), &[]),
                        (_, Ok((repr, payload))) => self.push(Layer::Icmpv6(repr), payload),
                        _ => {}
                    }
                    Next::Payload
                }
                Err(error) => self.note("ICMPv6", error),
            },
            gre::PROTOCOL => match (gre::Packet::new(rest), gre::Repr::parse(rest)) {
                (Ok(packet), Ok((repr, payload))) => {
                    self.verified("GRE", |_| {
                        !packet.has_checksum() || packet.verify_checksum()
                    });
                    self.push(Layer::Gre(repr), payload);
                    self.tunnelled = true;
                    match repr.ethertype {
                        gre::ETHERNET => self.inner_ethernet(),
                        ethertype => Next::Ethertype(ethertype),
                    }
                }
                (Err(error), _) | (_, Err(error)) => self.note("GRE", error),
            },
            ipv4::PROTOCOL | ipv6::PROTOCOL => {
                self.tunnelled = true;
                match protocol {
                    ipv4::PROTOCOL => self.ipv4(),
                    _ => self.ipv6(),
                }
            }
            _ => Next::Payload,
        }
    }

    fn udp(&mut self, in_ipv6: bool) -> Next {
        let packet = match udp::Packet::new(self.rest) {
            Ok(packet) => packet,
            // the length in a first fragment refers to the whole packet
            Err(error) => {
                let (header, payload) = match self.rest.split_at_checked(udp::HEADER_LEN) {
                    Some(split) if self.purpose == Purpose::Reach => split,
                    _ => return self.note("UDP", error),
                };
                self.rest = payload;
                let announced = header[2..4] == vxlan::PORT.to_be_bytes();
                return Next::Vxlan { announced };
            }
        };
        self.end("UDP", packet.length().into());
        match packet.checksum() {
            0 if !in_ipv6 => self.decoded.notes.push(Note::NoChecksum),
            _ => self.verified("UDP", |decoder| {
                packet.verify_checksum(decoder.pseudo_header(udp::PROTOCOL))
            }),
        }
        let repr = udp::Repr {
            source_port: packet.source_port(),
            destination_port: packet.destination_port(),
            payload_len: packet.length() - udp::HEADER_LEN as u16,
        };
        let payload = &self.rest[udp::HEADER_LEN..];
        self.push(Layer::Udp(repr), payload);
        match (repr.destination_port, self.purpose) {
            (vxlan::PORT, _) => Next::Vxlan { announced: true },
            (_, Purpose::Reach) => Next::Vxlan { announced: false },
            _ => Next::Payload,
        }
    }
}

impl fmt::Display for Decoded {
    /// One line: the layers from the outside in, then the notes in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, layer) in self.layers.iter().enumerate() {
            if n > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{layer}")?;
            let untold = matches!(self.layers.get(n + 1), Some(Layer::Payload(_)));
            match layer {
                Layer::Ethernet(ethernet::Repr { ethertype, .. })
                | Layer::Vlan(vlan::Repr { ethertype, .. })
                    if untold =>
                {
                    write!(f, " type {ethertype:#06x}")?;
                }
                Layer::Ipv4(ipv4::Repr { protocol, .. }) if untold => {
                    write!(f, " protocol {protocol}")?;
                }
                Layer::Ipv6(ipv6::Repr { next_header, .. }) if untold => {
                    write!(f, " next header {next_header}")?;
                }
                _ => {}
            }
        }
        if self.padding > 0 {
            write!(f, ", padding {} bytes", self.padding)?;
        }
        for note in &self.notes {
            write!(f, " [{note}]")?;
        }
        Ok(())
    }
}

impl fmt::Display for Layer {
    /// The fields that people look for in a layer: addresses, identifiers, lifetime. Lengths are
    /// omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::Ethernet(repr) => write!(f, "{} > {}", repr.source, repr.destination),
            Layer::Vlan(repr) => write!(f, "{repr}"),
            Layer::Mpls(repr) => write!(f, "{repr}"),
            Layer::Arp(repr) => write!(f, "{repr}"),
            Layer::Ipv4(repr) => {
                write!(
                    f,
                    "IPv4 {} > {} ttl {}",
                    repr.source, repr.destination, repr.ttl
                )?;
                if !repr.options.is_empty() {
                    f.write_str(" options")?;
                }
                if repr.is_fragment() {
                    let at = u32::from(repr.fragment_offset) * 8;
                    write!(f, " fragment {:#x} at {at}", repr.identification)?;
                }
                Ok(())
            }
            Layer::Ipv6(repr) => write!(
                f,
                "IPv6 {} > {} hop limit {}",
                repr.source, repr.destination, repr.hop_limit
            ),
            Layer::Extension(extension) => write!(f, "{}", extension.repr()),
            Layer::Udp(repr) => write!(f, "UDP {} > {}", repr.source_port, repr.destination_port),
            Layer::Tcp(repr) => write!(f, "{repr}"),
            Layer::Icmp(repr) => write!(f, "{repr}"),
            Layer::Icmpv6(repr) => write!(f, "{repr}"),
            Layer::Ndp(repr) => write!(f, "{repr}"),
            Layer::Gre(repr) => write!(f, "{repr}"),
            Layer::Vxlan(repr) => write!(f, "{repr}"),
            Layer::Payload(bytes) => write!(f, "payload {} bytes", bytes.len()),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Header { name, error } => write!(f, "{name}: {error}"),
            Note::WrongChecksum { name } => write!(f, "wrong {name} checksum"),
            Note::NoChecksum => f.write_str("no UDP checksum"),
            Note::Trailing { name, bytes } => write!(f, "{bytes} bytes after the {name} packet"),
        }
    }
}
