//! A frame as bytes, taken apart into layers, with one line of text that says what it is.
//!
//! Never fails and never panics: what is not understood is payload, and what is wrong is a [`Note`]. A frame without notes
//! loses nothing: [`stack::build`](crate::stack::build) gives its bytes again. It allocates, and is for frames that people look at, not
//! for counting. Start with [`decode`].

use crate::checksum;
use crate::header::{
    Error, arp, ethernet, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, mpls, ndp, tcp, udp, vlan, vxlan,
};
use crate::stack::{Extension, Layer};
use std::fmt;
use std::net::IpAddr;

/// A frame, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The layers, outermost first.
    pub layers: Vec<Layer>,
    /// Where each of them starts, in bytes.
    pub offsets: Vec<usize>,
    /// Bytes after the last layer: what an Ethernet frame has when its packet is shorter than 46 bytes.
    pub padding: usize,
    /// What is wrong or unusual.
    pub notes: Vec<Note>,
}

/// Something that a reader of the frame should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// This protocol was announced, but what follows is not its header. It is shown as payload.
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
    /// Bytes inside the packet that belong to no layer.
    Trailing {
        /// Name of the protocol they come after.
        name: &'static str,
        /// How many.
        bytes: usize,
    },
}

/// Takes a frame apart. `bytes`: from the destination MAC on, without FCS.
pub fn decode(bytes: &[u8]) -> Decoded {
    let mut decoder = Decoder {
        bytes,
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
        decoder.push(Layer::Payload(rest.to_vec()), &[]);
    }
    decoder.decoded
}

/// What the last header announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Ethernet,
    /// What an EtherType says.
    Ethertype(u16),
    /// After a label: an entry, or what its first four bits tell.
    Label {
        bottom: bool,
    },
    /// What IPv4 or IPv6 says.
    Protocol(u8),
    Vxlan,
    /// Nothing that we know, or nothing more.
    Payload,
}

struct Decoder<'a> {
    bytes: &'a [u8],
    /// What is left of the innermost packet; always a piece of `bytes`.
    rest: &'a [u8],
    /// Addresses of the innermost IP header, for checksums; the destination as the pseudo header wants it.
    ip: Option<(IpAddr, IpAddr)>,
    /// Is this inside of another packet? Bytes behind it are then no padding that the outer Ethernet needs.
    tunnelled: bool,
    decoded: Decoded,
}

impl<'a> Decoder<'a> {
    /// Adds a layer that ends where `rest` begins.
    fn push(&mut self, layer: Layer, rest: &'a [u8]) {
        let at = self.bytes.len() - self.decoded.padding - self.trailing() - self.rest.len();
        self.decoded.offsets.push(at);
        self.decoded.layers.push(layer);
        self.rest = rest;
    }

    /// Bytes at the end that were found to belong to no layer.
    fn trailing(&self) -> usize {
        let bytes = self.decoded.notes.iter().map(|note| match note {
            Note::Trailing { bytes, .. } => *bytes,
            _ => 0,
        });
        bytes.sum()
    }

    /// Leaves out what is behind the first `len` bytes of the rest, the end of a packet of this protocol.
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

    fn verified(&mut self, name: &'static str, right: bool) {
        if !right {
            self.decoded.notes.push(Note::WrongChecksum { name });
        }
    }

    /// Sum of the pseudo header for the rest.
    fn pseudo_header(&self, protocol: u8) -> u16 {
        self.ip.map_or(0, |(from, to)| {
            checksum::pseudo_header(from, to, protocol, self.rest.len())
        })
    }

    /// Reads one layer; says what comes after it.
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
            // The port is only a hint, so what is not VXLAN is no mistake.
            Next::Vxlan => match vxlan::Repr::parse(rest) {
                Ok((repr, inner)) => {
                    self.push(Layer::Vxlan(repr), inner);
                    self.inner_ethernet()
                }
                Err(_) => Next::Payload,
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
        self.verified("IPv4", packet.verify_checksum());
        self.end("IPv4", packet.total_len().into());
        self.ip = Some((repr.source.into(), repr.destination.into()));
        let payload = &self.rest[repr.header_len()..];
        self.push(Layer::Ipv4(repr), payload);
        match repr.is_fragment() {
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
        match repr.is_part() {
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
                    let right = packet.verify_checksum(self.pseudo_header(protocol));
                    self.verified("TCP", right);
                    self.push(Layer::Tcp(repr), payload);
                    Next::Payload
                }
                (Err(error), _) | (_, Err(error)) => self.note("TCP", error),
            },
            icmp::PROTOCOL if !in_ipv6 => {
                match (icmp::Packet::new(rest), icmp::Repr::parse(rest)) {
                    (Ok(packet), Ok((repr, payload))) => {
                        self.verified("ICMP", packet.verify_checksum(0));
                        self.push(Layer::Icmp(repr), payload);
                        Next::Payload
                    }
                    (Err(error), _) | (_, Err(error)) => self.note("ICMP", error),
                }
            }
            icmpv6::PROTOCOL if in_ipv6 => match icmpv6::Packet::new(rest) {
                Ok(packet) => {
                    let right = packet.verify_checksum(self.pseudo_header(protocol));
                    self.verified("ICMPv6", right);
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
                    let right = !packet.has_checksum() || packet.verify_checksum();
                    self.verified("GRE", right);
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
            Err(error) => return self.note("UDP", error),
        };
        self.end("UDP", packet.length().into());
        let pseudo_header = self.pseudo_header(udp::PROTOCOL);
        match packet.checksum() {
            0 if !in_ipv6 => self.decoded.notes.push(Note::NoChecksum),
            _ => self.verified("UDP", packet.verify_checksum(pseudo_header)),
        }
        let repr = udp::Repr {
            source_port: packet.source_port(),
            destination_port: packet.destination_port(),
            payload_len: packet.length() - udp::HEADER_LEN as u16,
        };
        let payload = &self.rest[udp::HEADER_LEN..];
        self.push(Layer::Udp(repr), payload);
        match repr.destination_port {
            vxlan::PORT => Next::Vxlan,
            _ => Next::Payload,
        }
    }
}

impl fmt::Display for Decoded {
    /// One line: the layers from the outside in, then what is wrong in brackets.
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
    /// What people want to know of a layer: addresses, identifiers, lifetime. Lengths are left out.
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
