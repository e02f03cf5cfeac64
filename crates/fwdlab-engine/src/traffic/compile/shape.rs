//! The constant part of a stream's frames: from the layers of a profile, or from a capture file.
//!
//! The resulting checksums and lengths are correct. [`program`](super::program) writes what differs
//! from frame to frame. Start with [`Shape`].

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use fwdlab_model::profile::layer as text;
use fwdlab_model::profile::{Hex, Layer as Text, Mac, Plan, Stream};
use fwdlab_packet::MacAddr;
use fwdlab_packet::flow::DEFAULT_PORT;
use fwdlab_packet::header::{
    arp, ethernet, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, mpls, ndp, options::Options, tcp, udp,
    vlan, vxlan,
};
use fwdlab_packet::permutation::mix;
use fwdlab_packet::stack::{Extension, Layer, Size, build};

use super::{Direction, Setting, StreamError};
use crate::traffic::Addresses;

/// Bytes of the FCS, which sizes include and buffers do not contain.
pub const FCS: usize = 4;

/// A frame and its layout.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Without FCS.
    pub bytes: Vec<u8>,
    /// The layers, outermost first.
    pub layers: Vec<Layer>,
    /// Offset of each layer.
    pub offsets: Vec<usize>,
    /// Bytes at the end that belong to no layer.
    pub padding: usize,
    /// True if a tag that is not in the profile was inserted after the MAC addresses.
    pub tagged: bool,
}

impl Shape {
    /// Iterates over layers with their offsets.
    pub fn placed(&self) -> impl DoubleEndedIterator<Item = (usize, &Layer)> {
        self.offsets.iter().copied().zip(&self.layers)
    }

    /// Returns the two sides of the frame: bytes of a source and of the matching destination.
    pub fn sides(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let mut sides = Vec::new();
        for (number, (at, layer)) in self.placed().enumerate() {
            let pair = match layer {
                Layer::Ethernet(_) => Some((6, 0, 6)),
                Layer::Arp(_) => Some((14, 24, 4)),
                Layer::Ipv4(_) => Some((12, 16, 4)),
                Layer::Ipv6(_) => Some((8, 24, 16)),
                // the port of VXLAN is the same in both directions
                Layer::Udp(_) if matches!(self.layers.get(number + 1), Some(Layer::Vxlan(_))) => {
                    None
                }
                Layer::Udp(_) | Layer::Tcp(_) => Some((0, 2, 2)),
                _ => None,
            };
            if let Some((source, destination, len)) = pair {
                let range = |from: usize| at + from..at + from + len;
                sides.push((range(source), range(destination)));
            }
        }
        sides
    }

    /// Swaps the sides, except for the outermost MAC addresses. Checksums do not change, because a
    /// sum does not depend on the order of its words.
    pub fn reverse(&mut self) {
        for (source, destination) in self.sides().into_iter().skip(1) {
            for (a, b) in source.zip(destination) {
                self.bytes.swap(a, b);
            }
        }
    }
}

/// The layers of a stream, which can be built in any size.
#[derive(Debug, Clone)]
pub struct Blueprint {
    layers: Vec<Layer>,
    payload: Option<text::Payload>,
    tagged: bool,
}

/// The outermost MAC addresses of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs {
    /// Source address.
    pub source: [u8; 6],
    /// Destination address.
    pub destination: [u8; 6],
}

impl Blueprint {
    /// Prepares a stream of layers. `macs`: used if the profile has none; those in the profile are
    /// swapped with the sides in reverse.
    pub fn new(
        stream: &Stream,
        macs: Macs,
        setting: &Setting<'_>,
    ) -> Result<Blueprint, StreamError> {
        let vlan = setting.vlan;
        let given = match &stream.layers {
            Some(layers) => layers.clone(),
            None => {
                let ip = if stream.plan == Plan::Rfc5180 {
                    "ipv6"
                } else {
                    "ipv4"
                };
                [ip, "udp"].into_iter().filter_map(Text::named).collect()
            }
        };
        let mut blueprint = Blueprint {
            layers: Vec::new(),
            payload: None,
            tagged: vlan.is_some(),
        };
        let mut rest = given.as_slice();
        let mut outer = match rest.split_first() {
            Some((Text::Ethernet(ethernet), others)) => {
                rest = others;
                ethernet.clone()
            }
            _ => text::Ethernet::default(),
        };
        if setting.direction == Direction::Reverse {
            std::mem::swap(&mut outer.source, &mut outer.destination);
        }
        outer.source = outer.source.or(Some(Mac(macs.source)));
        outer.destination = outer.destination.or(Some(Mac(macs.destination)));
        blueprint.layers.push(ethernet(&outer));
        if let Some(id) = vlan {
            blueprint.layers.push(Layer::Vlan(vlan::Repr {
                priority: 0,
                drop_eligible: false,
                id,
                ethertype: outer.ethertype.unwrap_or(0),
            }));
        }
        for (number, layer) in rest.iter().enumerate() {
            if let Text::Payload(payload) = layer {
                if number + 1 < rest.len() {
                    return Err(StreamError::at(
                        "layers",
                        "a payload must be the last layer",
                    ));
                }
                blueprint.payload = Some(payload.clone());
                break;
            }
            let next = rest.get(number + 1);
            let layer = one(
                layer,
                next,
                stream.plan,
                &setting.addresses,
                &mut blueprint.layers,
            )?;
            blueprint.layers.push(layer);
        }
        Ok(blueprint)
    }

    /// Returns the bytes of all headers.
    fn headers(&self) -> usize {
        self.layers.iter().map(Layer::header_len).sum()
    }

    /// Returns true if bytes can follow the last header.
    fn carries(&self) -> bool {
        !matches!(self.layers.last(), Some(Layer::Arp(_) | Layer::Ndp(_)))
    }

    /// Returns the minimum bytes of the payload.
    fn least_payload(&self) -> usize {
        let Some(payload) = &self.payload else {
            return 0;
        };
        let text = payload.text.as_ref().map_or(0, String::len);
        let hex = payload.hex.as_ref().map_or(0, |Hex(bytes)| bytes.len());
        text.max(hex).max(payload.bytes.unwrap_or(0) as usize)
    }

    /// Returns the smallest frame with room for this number of bytes in addition to the headers, in
    /// bytes with FCS.
    pub fn smallest(&self, room: usize) -> usize {
        let room = if self.carries() {
            room.max(self.least_payload())
        } else {
            0
        };
        (self.headers() + room + FCS).max(fwdlab_model::profile::size::SMALLEST as usize)
    }

    /// Builds the frame of this size, including the FCS.
    pub fn build(&self, frame_size: usize) -> Result<Shape, StreamError> {
        let headers = self.headers();
        let least = headers + self.least_payload() + FCS;
        if frame_size < least {
            return Err(StreamError::at(
                "size",
                format!(
                    "frame size {frame_size} is too small: these layers need at least {least} (with FCS)"
                ),
            ));
        }
        let room = frame_size - FCS - headers;
        let mut layers = self.layers.clone();
        // The smallest TCP frame has no payload but padding.
        let bare_tcp = matches!(layers.last(), Some(Layer::Tcp(_))) && self.payload.is_none();
        let smallest = frame_size == fwdlab_model::profile::size::SMALLEST as usize;
        let size = match bare_tcp && smallest {
            true => Size::Padded,
            false => Size::Frame(frame_size),
        };
        if let Some(payload) = &self.payload
            && room > 0
        {
            layers.push(Layer::Payload(contents(payload, room)));
        }
        let frame =
            build(&layers, size).map_err(|error| StreamError::at("layers", error.to_string()))?;
        // a payload that build appended to the last header is a layer, too
        if frame.offsets.len() > layers.len() {
            layers.push(Layer::Payload(frame.bytes[headers..].to_vec()));
        }
        Ok(Shape {
            bytes: frame.bytes,
            layers,
            offsets: frame.offsets,
            padding: frame.padding,
            tagged: self.tagged,
        })
    }
}

/// Returns this number of bytes of payload.
fn contents(payload: &text::Payload, len: usize) -> Vec<u8> {
    if let Some(seed) = payload.random {
        return (0..len as u64)
            .map(|n| (mix(seed, n / 8) >> (n % 8 * 8)) as u8)
            .collect();
    }
    let text = payload.text.as_ref().map(|text| text.as_bytes());
    let given = text.or(payload.hex.as_ref().map(|Hex(bytes)| bytes.as_slice()));
    let mut bytes: Vec<u8> = match given {
        None | Some([]) => Vec::new(),
        Some(bytes) if payload.repeat => bytes.iter().copied().cycle().take(len).collect(),
        Some(bytes) => bytes.to_vec(),
    };
    bytes.resize(len, 0);
    bytes
}

fn mac(mac: Option<Mac>) -> MacAddr {
    MacAddr(mac.map_or([0; 6], |Mac(bytes)| bytes))
}

fn ethernet(layer: &text::Ethernet) -> Layer {
    Layer::Ethernet(ethernet::Repr {
        destination: mac(layer.destination),
        source: mac(layer.source),
        ethertype: layer.ethertype.unwrap_or(0),
    })
}

/// Returns source and destination for a layer without addresses.
fn addresses_v4(plan: Plan, addresses: &Addresses) -> (Ipv4Addr, Ipv4Addr) {
    match plan {
        Plan::Rfc2544 => (Ipv4Addr::new(198, 18, 1, 2), Ipv4Addr::new(198, 19, 65, 2)),
        _ => addresses.ipv4,
    }
}

/// Returns UDP ports for a layer without ports: RFC 2544 C.2.6.4 sends to the echo port.
fn ports(plan: Plan) -> (u16, u16) {
    match plan {
        Plan::Rfc2544 => (49_184, 7),
        _ => (DEFAULT_PORT, DEFAULT_PORT),
    }
}

/// Converts one layer to its form in bytes; `before`: the layers below it.
fn one(
    layer: &Text,
    next: Option<&Text>,
    plan: Plan,
    addresses: &Addresses,
    before: &mut [Layer],
) -> Result<Layer, StreamError> {
    let options = |hex: &Hex| {
        Options::new(&hex.0)
            .map_err(|_| StreamError::at("layers", "these are not valid header options"))
    };
    Ok(match layer {
        Text::Ethernet(layer) => {
            // inside a tunnel, no port supplies an address
            let default = text::Ethernet {
                source: layer.source.or(Some(Mac([2, 0, 0, 0, 0, 1]))),
                destination: layer.destination.or(Some(Mac([2, 0, 0, 0, 0, 2]))),
                ethertype: layer.ethertype,
            };
            ethernet(&default)
        }
        Text::Vlan(layer) => {
            if let Some(announced) = layer.tpid {
                match before.last_mut() {
                    Some(Layer::Ethernet(below)) => below.ethertype = announced,
                    Some(Layer::Vlan(below)) => below.ethertype = announced,
                    _ => {}
                }
            }
            Layer::Vlan(vlan::Repr {
                priority: layer.priority,
                drop_eligible: layer.drop_eligible,
                id: layer.id,
                ethertype: layer.ethertype.unwrap_or(0),
            })
        }
        Text::Mpls(layer) => Layer::Mpls(mpls::Repr {
            label: layer.label,
            traffic_class: layer.traffic_class,
            bottom: true,
            ttl: layer.ttl,
        }),
        Text::Arp(layer) => {
            let (source, destination) = addresses_v4(plan, addresses);
            let below = before.iter().find_map(|layer| match layer {
                Layer::Ethernet(repr) => Some(repr.source),
                _ => None,
            });
            Layer::Arp(arp::Repr {
                operation: layer.operation.unwrap_or(arp::REQUEST),
                sender_mac: layer
                    .sender_mac
                    .map_or(below.unwrap_or(MacAddr([0; 6])), |m| MacAddr(m.0)),
                sender_ip: layer.sender_ip.unwrap_or(source),
                target_mac: mac(layer.target_mac),
                target_ip: layer.target_ip.unwrap_or(destination),
            })
        }
        Text::Ipv4(layer) => {
            let (source, destination) = addresses_v4(plan, addresses);
            Layer::Ipv4(ipv4::Repr {
                traffic_class: layer.traffic_class,
                identification: layer.identification,
                dont_fragment: layer.dont_fragment,
                more_fragments: layer.more_fragments,
                fragment_offset: layer.fragment_offset,
                ttl: layer
                    .ttl
                    .unwrap_or(if plan == Plan::Rfc2544 { 10 } else { 64 }),
                protocol: layer.protocol.unwrap_or(253), // for experiments (RFC 3692)
                source: layer.source.unwrap_or(source),
                destination: layer.destination.unwrap_or(destination),
                payload_len: 0,
                options: options(&layer.options)?,
            })
        }
        Text::Ipv6(layer) => Layer::Ipv6(ipv6::Repr {
            traffic_class: layer.traffic_class,
            flow_label: layer.flow_label.unwrap_or(0),
            next_header: layer.next_header.unwrap_or(59), // nothing follows
            hop_limit: layer.hop_limit.unwrap_or(64),
            source: layer.source.unwrap_or(addresses.ipv6.0),
            destination: layer.destination.unwrap_or(addresses.ipv6.1),
            payload_len: 0,
        }),
        Text::HopByHop(layer) => extension(layer, ipv6_ext::Kind::HopByHop, before)?,
        Text::DestinationOptions(layer) => extension(layer, ipv6_ext::Kind::Destination, before)?,
        Text::Routing(layer) => extension(layer, ipv6_ext::Kind::Routing, before)?,
        Text::Authentication(layer) => extension(layer, ipv6_ext::Kind::Authentication, before)?,
        Text::Fragment(layer) => {
            let word = layer.offset << 3 | u16::from(layer.more);
            let mut body = word.to_be_bytes().to_vec();
            body.extend(layer.identification.to_be_bytes());
            Layer::Extension(Extension {
                kind: ipv6_ext::Kind::Fragment,
                next_header: layer.next_header.unwrap_or(59),
                body,
            })
        }
        Text::Udp(layer) => {
            let (source, destination) = ports(plan);
            let to = match next {
                Some(Text::Vxlan(_)) => vxlan::PORT,
                _ => destination,
            };
            Layer::Udp(udp::Repr {
                source_port: layer.source_port.unwrap_or(source),
                destination_port: layer.destination_port.unwrap_or(to),
                payload_len: 0,
            })
        }
        Text::Tcp(layer) => {
            let default = tcp::Repr::default();
            let flags = layer.flags.as_ref();
            Layer::Tcp(tcp::Repr {
                source_port: layer.source_port.unwrap_or(DEFAULT_PORT),
                destination_port: layer.destination_port.unwrap_or(DEFAULT_PORT),
                sequence: layer.sequence,
                acknowledgment: layer.acknowledgment,
                flags: flags.map_or(default.flags, |flags| {
                    flags.iter().fold(0, |bits, flag| bits | flag.bit())
                }),
                window: layer.window.unwrap_or(default.window),
                urgent: layer.urgent,
                options: options(&layer.options)?,
            })
        }
        Text::Icmp(layer) => Layer::Icmp(icmp::Repr {
            kind: layer.kind.unwrap_or(icmp::ECHO_REQUEST),
            code: layer.code,
            word: u32::from(layer.identifier) << 16 | u32::from(layer.sequence),
        }),
        Text::Icmpv6(layer) => Layer::Icmpv6(icmpv6::Repr {
            kind: layer.kind.unwrap_or(icmpv6::ECHO_REQUEST),
            code: layer.code,
            word: u32::from(layer.identifier) << 16 | u32::from(layer.sequence),
        }),
        Text::Nd(layer) => {
            let below = destination_below(before);
            let flag = |set: bool, flag: u32| if set { flag } else { 0 };
            Layer::Ndp(ndp::Repr {
                advertisement: layer.advertisement,
                flags: flag(layer.router, ndp::flag::ROUTER)
                    | flag(layer.solicited, ndp::flag::SOLICITED)
                    | flag(layer.overrides, ndp::flag::OVERRIDE),
                target: layer.target.or(below).unwrap_or(Ipv6Addr::UNSPECIFIED),
                link_address: layer.link_address.map(|m| MacAddr(m.0)),
            })
        }
        Text::Gre(layer) => Layer::Gre(gre::Repr {
            checksum: layer.checksum,
            key: layer.key,
            sequence: layer.sequence,
            ethertype: layer.ethertype.unwrap_or(0),
        }),
        Text::Vxlan(layer) => Layer::Vxlan(vxlan::Repr { vni: layer.vni }),
        Text::Payload(_) => {
            return Err(StreamError::at(
                "layers",
                "a payload must be the last layer",
            ));
        }
    })
}

/// Returns the destination of the innermost IPv6 packet below.
fn destination_below(before: &[Layer]) -> Option<Ipv6Addr> {
    before.iter().rev().find_map(|layer| match layer {
        Layer::Ipv6(repr) => Some(repr.destination),
        _ => None,
    })
}

/// Returns an extension header; without a body, it contains padding.
fn extension(
    layer: &text::Extension,
    kind: ipv6_ext::Kind,
    before: &[Layer],
) -> Result<Layer, StreamError> {
    let body = match (&layer.body, kind) {
        (Some(Hex(bytes)), _) => bytes.clone(),
        (None, ipv6_ext::Kind::Authentication) => vec![0; 10],
        // segment routing (type 4, RFC 8754 §2): no segments left, and the list contains only the
        // destination
        (None, ipv6_ext::Kind::Routing) => {
            let segment = destination_below(before).unwrap_or(Ipv6Addr::UNSPECIFIED);
            [&[4, 0, 0, 0, 0, 0][..], &segment.octets()].concat()
        }
        // PadN of 4 bytes (RFC 8200 §4.2)
        (None, _) => vec![1, 4, 0, 0, 0, 0],
    };
    let extension = Extension {
        kind,
        next_header: layer.next_header.unwrap_or(59),
        body,
    };
    match extension.repr().check() {
        Ok(()) => Ok(Layer::Extension(extension)),
        Err(_) => Err(StreamError::at(
            "layers",
            format!(
                "a body of {} bytes does not fit this IPv6 extension header; pad it",
                extension.body.len()
            ),
        )),
    }
}

/// Returns the frame of a capture file. `macs` replaces those in the capture, which are otherwise
/// swapped with the sides in `reverse`. `vlan`: a tag that the port needs.
pub fn from_capture(
    bytes: &[u8],
    macs: Option<Macs>,
    reverse: bool,
    vlan: Option<u16>,
) -> Result<Shape, String> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < ethernet::HEADER_LEN {
        return Err(format!("{} bytes are not an Ethernet frame", bytes.len()));
    }
    match macs {
        Some(Macs {
            source,
            destination,
        }) => {
            bytes[..6].copy_from_slice(&destination);
            bytes[6..12].copy_from_slice(&source);
        }
        None if reverse => bytes[..12].rotate_left(6),
        None => {}
    }
    if let Some(id) = vlan {
        let mut tag = vlan::ETHERTYPE.to_be_bytes().to_vec();
        tag.extend(id.to_be_bytes());
        bytes.splice(12..12, tag);
    }
    let smallest = fwdlab_model::profile::size::SMALLEST as usize - FCS;
    if bytes.len() < smallest {
        bytes.resize(smallest, 0);
    }
    let decoded = fwdlab_packet::decode::decode(&bytes);
    Ok(Shape {
        layers: decoded.layers,
        offsets: decoded.offsets,
        padding: decoded.padding,
        tagged: vlan.is_some(),
        bytes,
    })
}
