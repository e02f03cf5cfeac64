//! Builds a frame from a list of layers, with correct lengths, next-protocol fields and checksums.
//!
//! For frames that are built once: templates, answers to ARP, examples. It allocates.
//! [`modifier`](crate::modifier) varies frames, and [`decode`](crate::decode) is the inverse. Start
//! with [`build`].

use crate::header::{
    arp, ethernet, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, mpls, ndp, tcp, udp, vlan, vxlan,
};
use crate::template::FCS_LEN;
use std::net::IpAddr;

/// The smallest Ethernet frame, in bytes with FCS.
pub const MIN_FRAME_SIZE: usize = 64;

/// One layer of a frame: a header as values, or the payload of the last header.
///
/// Lengths are computed; the values given are ignored. So are the fields that name the next layer
/// (EtherType, protocol, next header, bottom of stack), except before a payload or at the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Ethernet II: the outermost layer, and the first layer inside VXLAN and some GRE and MPLS.
    Ethernet(ethernet::Repr),
    /// A VLAN tag. The EtherType before it is kept if it announces a tag; otherwise it becomes that
    /// of a service tag if another tag follows, and that of a customer tag if not.
    Vlan(vlan::Repr),
    /// A label stack entry.
    Mpls(mpls::Repr),
    /// A whole ARP message.
    Arp(arp::Repr),
    /// IPv4. A fragment carries a payload.
    Ipv4(ipv4::Repr),
    /// IPv6.
    Ipv6(ipv6::Repr),
    /// An IPv6 extension header.
    Extension(Extension),
    /// UDP, with a checksum.
    Udp(udp::Repr),
    /// TCP.
    Tcp(tcp::Repr),
    /// ICMP, over IPv4.
    Icmp(icmp::Repr),
    /// ICMPv6, over IPv6.
    Icmpv6(icmpv6::Repr),
    /// A whole neighbor discovery message.
    Ndp(ndp::Repr),
    /// GRE.
    Gre(gre::Repr),
    /// VXLAN, after UDP.
    Vxlan(vxlan::Repr),
    /// Any bytes.
    Payload(Vec<u8>),
}

/// An IPv6 extension header that owns its body; see [`ipv6_ext::Repr`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Extension {
    /// Kind of the header.
    pub kind: ipv6_ext::Kind,
    /// Number of the next header.
    pub next_header: u8,
    /// Everything after the next header and length fields.
    pub body: Vec<u8>,
}

impl Extension {
    /// Returns the header as values that can be written.
    pub fn repr(&self) -> ipv6_ext::Repr<'_> {
        ipv6_ext::Repr {
            kind: self.kind,
            next_header: self.next_header,
            body: &self.body,
        }
    }
}

/// Length of the frame. Bytes in a buffer exclude the 4 bytes of the FCS; frame sizes include them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The sum of all layers, however short: for comparisons with other tools.
    Layers,
    /// The sum of all layers, padded with zeros behind the last layer to the smallest frame.
    Padded,
    /// This frame size, with FCS: the payload is extended with zeros, and all lengths include them.
    /// A frame that cannot have a payload (ARP) is padded.
    Frame(usize),
}

/// A frame as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The frame without FCS.
    pub bytes: Vec<u8>,
    /// Offset of each layer in it.
    pub offsets: Vec<usize>,
    /// Padding bytes at the end.
    pub padding: usize,
}

impl Frame {
    /// Returns the bytes from destination MAC to FCS inclusive.
    pub fn frame_size(&self) -> usize {
        self.bytes.len() + usize::from(FCS_LEN)
    }
}

/// Why layers do not form a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// The first layer is not Ethernet.
    #[error("a frame begins with an Ethernet layer; put one first")]
    NoEthernet,
    /// One layer cannot carry the other.
    #[error("layer {at}: {lower} cannot carry {upper}")]
    Order {
        /// Index of the lower layer.
        at: usize,
        /// Its name.
        lower: &'static str,
        /// Name of the layer after it.
        upper: &'static str,
    },
    /// The layer is larger than its length field allows.
    #[error(
        "layer {at}: {bytes} bytes are more than a {name} packet can have; make the payload smaller"
    )]
    TooLong {
        /// Index of the layer.
        at: usize,
        /// Its name.
        name: &'static str,
        /// Header and payload, in bytes.
        bytes: usize,
    },
    /// The body of an extension header has an impossible size.
    #[error("layer {at}: a body of {bytes} bytes does not fit this IPv6 extension header; pad it")]
    Body {
        /// Index of the layer.
        at: usize,
        /// Size of the body, in bytes.
        bytes: usize,
    },
    /// The layers do not fit the frame size.
    #[error(
        "frame size {frame_size} is too small: these layers need at least {minimum} (with FCS)"
    )]
    TooSmall {
        /// Requested size, in bytes with FCS.
        frame_size: usize,
        /// The smallest size that works, in bytes with FCS.
        minimum: usize,
    },
}

/// Builds a frame from layers.
///
/// # Errors
/// Any [`StackError`].
pub fn build(layers: &[Layer], size: Size) -> Result<Frame, StackError> {
    let mut layers = layers.to_vec();
    if !matches!(layers.first(), Some(Layer::Ethernet(_))) {
        return Err(StackError::NoEthernet);
    }
    let fcs = usize::from(FCS_LEN);
    if let Size::Frame(frame_size) = size {
        let minimum = MIN_FRAME_SIZE.max(total_len(&layers) + fcs);
        if frame_size < minimum {
            return Err(StackError::TooSmall {
                frame_size,
                minimum,
            });
        }
        let missing = frame_size - fcs - total_len(&layers);
        lengthen(&mut layers, missing);
    }
    name_next_layers(&mut layers)?;

    let offsets: Vec<usize> = layers
        .iter()
        .scan(0, |at, layer| {
            *at += layer.header_len();
            Some(*at - layer.header_len())
        })
        .collect();
    let content = total_len(&layers);
    let len = match size {
        Size::Layers => content,
        Size::Padded => content.max(MIN_FRAME_SIZE - fcs),
        Size::Frame(frame_size) => frame_size - fcs,
    };
    let mut bytes = vec![0; len];
    // From the inside out: a checksum covers what comes after it.
    for at in (0..layers.len()).rev() {
        let (below, layer) = (&layers[..at], &layers[at]);
        emit(at, layer, below, &mut bytes[offsets[at]..content])?;
    }
    Ok(Frame {
        bytes,
        offsets,
        padding: len - content,
    })
}

/// Returns the bytes of all layers.
fn total_len(layers: &[Layer]) -> usize {
    layers.iter().map(Layer::header_len).sum()
}

/// Adds zeros to the payload, if the frame can have one.
fn lengthen(layers: &mut Vec<Layer>, bytes: usize) {
    match layers.last_mut() {
        Some(Layer::Payload(payload)) => payload.resize(payload.len() + bytes, 0),
        Some(Layer::Arp(_) | Layer::Ndp(_)) | None => {}
        Some(_) if bytes == 0 => {}
        Some(_) => layers.push(Layer::Payload(vec![0; bytes])),
    }
}

/// Sets the next-protocol field of every layer.
fn name_next_layers(layers: &mut [Layer]) -> Result<(), StackError> {
    for at in 0..layers.len() {
        let (head, tail) = layers.split_at_mut(at + 1);
        let another_tag = matches!(tail.get(1), Some(Layer::Vlan(_)));
        let (lower, next) = (&mut head[at], tail.first());
        if !lower.carries(next, another_tag) {
            return Err(StackError::Order {
                at,
                lower: lower.name(),
                upper: next.map_or("nothing", Layer::name),
            });
        }
    }
    Ok(())
}

/// Writes one layer to the start of `bytes`, which extends to the end of the content, checksum
/// included.
fn emit(at: usize, layer: &Layer, below: &[Layer], bytes: &mut [u8]) -> Result<(), StackError> {
    let too_long = |len: usize| StackError::TooLong {
        at,
        name: layer.name(),
        bytes: len,
    };
    let len = bytes.len();
    // Length of header and payload, if the header has a field for it.
    let checked = |most: usize| match len {
        len if len <= most => Ok((len - layer.header_len()) as u16),
        len => Err(too_long(len)),
    };
    const FRESH: &str = "bytes that emit has just written";
    match layer {
        Layer::Ethernet(repr) => repr.emit(bytes),
        Layer::Vlan(repr) => repr.emit(bytes),
        Layer::Mpls(repr) => repr.emit(bytes),
        Layer::Arp(repr) => repr.emit(bytes),
        Layer::Ipv4(repr) => ipv4::Repr {
            payload_len: checked(0xffff)?,
            ..*repr
        }
        .emit(bytes),
        Layer::Ipv6(repr) => ipv6::Repr {
            payload_len: checked(0xffff + ipv6::HEADER_LEN)?,
            ..*repr
        }
        .emit(bytes),
        Layer::Extension(extension) => {
            let repr = extension.repr();
            repr.check().map_err(|_| StackError::Body {
                at,
                bytes: repr.body.len(),
            })?;
            repr.emit(bytes);
        }
        Layer::Udp(repr) => {
            udp::Repr {
                payload_len: checked(0xffff)?,
                ..*repr
            }
            .emit(bytes);
            udp::Packet::new(bytes)
                .expect(FRESH)
                .fill_checksum(pseudo_header(below, udp::PROTOCOL, len));
        }
        Layer::Tcp(repr) => {
            repr.emit(bytes);
            tcp::Packet::new(bytes)
                .expect(FRESH)
                .fill_checksum(pseudo_header(below, tcp::PROTOCOL, len));
        }
        Layer::Icmp(repr) => {
            repr.emit(bytes);
            icmp::Packet::new(bytes).expect(FRESH).fill_checksum(0);
        }
        Layer::Icmpv6(_) | Layer::Ndp(_) => {
            match layer {
                Layer::Ndp(repr) => repr.emit(bytes),
                Layer::Icmpv6(repr) => repr.emit(bytes),
                _ => {}
            }
            icmpv6::Packet::new(bytes)
                .expect(FRESH)
                .fill_checksum(pseudo_header(below, icmpv6::PROTOCOL, len));
        }
        Layer::Gre(repr) => {
            repr.emit(bytes);
            gre::Packet::new(bytes).expect(FRESH).fill_checksum();
        }
        Layer::Vxlan(repr) => repr.emit(bytes),
        Layer::Payload(payload) => bytes.copy_from_slice(payload),
    }
    Ok(())
}

/// Returns the sum of the pseudo header for `len` bytes of this protocol inside the innermost IP
/// layer of `below`.
fn pseudo_header(below: &[Layer], protocol: u8, len: usize) -> u16 {
    let mut last_stop = None;
    for layer in below.iter().rev() {
        match layer {
            Layer::Extension(extension) => {
                last_stop = last_stop.or(extension.repr().final_destination());
            }
            Layer::Ipv4(ip) => {
                let (from, to) = (IpAddr::V4(ip.source), IpAddr::V4(ip.destination));
                return crate::checksum::pseudo_header(from, to, protocol, len);
            }
            Layer::Ipv6(ip) => {
                let to = IpAddr::V6(last_stop.unwrap_or(ip.destination));
                return crate::checksum::pseudo_header(ip.source.into(), to, protocol, len);
            }
            _ => {}
        }
    }
    0
}

impl Layer {
    /// Returns the name of the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Layer::Ethernet(_) => "Ethernet",
            Layer::Vlan(_) => "VLAN",
            Layer::Mpls(_) => "MPLS",
            Layer::Arp(_) => "ARP",
            Layer::Ipv4(_) => "IPv4",
            Layer::Ipv6(_) => "IPv6",
            Layer::Extension(_) => "IPv6 extension",
            Layer::Udp(_) => "UDP",
            Layer::Tcp(_) => "TCP",
            Layer::Icmp(_) => "ICMP",
            Layer::Icmpv6(_) => "ICMPv6",
            Layer::Ndp(_) => "ND",
            Layer::Gre(_) => "GRE",
            Layer::Vxlan(_) => "VXLAN",
            Layer::Payload(_) => "payload",
        }
    }

    /// Returns the bytes of this layer alone.
    pub fn header_len(&self) -> usize {
        match self {
            Layer::Ethernet(_) => ethernet::HEADER_LEN,
            Layer::Vlan(_) => vlan::HEADER_LEN,
            Layer::Mpls(_) => mpls::HEADER_LEN,
            Layer::Arp(_) => arp::HEADER_LEN,
            Layer::Ipv4(repr) => repr.header_len(),
            Layer::Ipv6(_) => ipv6::HEADER_LEN,
            Layer::Extension(extension) => extension.repr().header_len(),
            Layer::Udp(_) => udp::HEADER_LEN,
            Layer::Tcp(repr) => repr.header_len(),
            Layer::Icmp(_) => icmp::HEADER_LEN,
            Layer::Icmpv6(_) => icmpv6::HEADER_LEN,
            Layer::Ndp(repr) => repr.header_len(),
            Layer::Gre(repr) => repr.header_len(),
            Layer::Vxlan(_) => vxlan::HEADER_LEN,
            Layer::Payload(bytes) => bytes.len(),
        }
    }

    /// Returns its EtherType, if it has one. Tags have several, see [`Layer::Vlan`].
    fn ethertype(&self) -> Option<u16> {
        match self {
            Layer::Mpls(_) => Some(mpls::ETHERTYPE),
            Layer::Arp(_) => Some(arp::ETHERTYPE),
            Layer::Ipv4(_) => Some(ipv4::ETHERTYPE),
            Layer::Ipv6(_) => Some(ipv6::ETHERTYPE),
            _ => None,
        }
    }

    /// Returns its number in IPv4's protocol or IPv6's next header, if it has one there.
    fn protocol(&self, in_ipv6: bool) -> Option<u8> {
        match self {
            Layer::Ipv4(_) => Some(ipv4::PROTOCOL),
            Layer::Ipv6(_) => Some(ipv6::PROTOCOL),
            Layer::Udp(_) => Some(udp::PROTOCOL),
            Layer::Tcp(_) => Some(tcp::PROTOCOL),
            Layer::Gre(_) => Some(gre::PROTOCOL),
            Layer::Icmp(_) if !in_ipv6 => Some(icmp::PROTOCOL),
            Layer::Icmpv6(_) | Layer::Ndp(_) if in_ipv6 => Some(icmpv6::PROTOCOL),
            Layer::Extension(extension) if in_ipv6 => Some(extension.kind.number()),
            _ => None,
        }
    }

    /// Returns true if this layer can carry the next one (or nothing), and sets the field that
    /// names it.
    fn carries(&mut self, next: Option<&Layer>, another_tag: bool) -> bool {
        let Some(next) = next else {
            if let Layer::Mpls(repr) = self {
                repr.bottom = true;
            }
            return true;
        };
        let payload = matches!(next, Layer::Payload(_));
        let in_gre = matches!(self, Layer::Gre(_));
        let (ethertype, protocol) = match self {
            Layer::Ethernet(ethernet::Repr { ethertype, .. })
            | Layer::Vlan(vlan::Repr { ethertype, .. })
            | Layer::Gre(gre::Repr { ethertype, .. }) => (Some(ethertype), None),
            Layer::Ipv4(repr) if !repr.is_fragment() => (None, Some((&mut repr.protocol, false))),
            Layer::Ipv6(repr) => (None, Some((&mut repr.next_header, true))),
            Layer::Extension(extension) if !extension.repr().is_part() => {
                (None, Some((&mut extension.next_header, true)))
            }
            Layer::Mpls(repr) => {
                repr.bottom = !matches!(next, Layer::Mpls(_));
                let ethernet = matches!(next, Layer::Ethernet(_));
                let ip = matches!(next, Layer::Ipv4(_) | Layer::Ipv6(_));
                return payload || ethernet || ip || !repr.bottom;
            }
            Layer::Udp(_) => return payload || matches!(next, Layer::Vxlan(_)),
            Layer::Vxlan(_) => return payload || matches!(next, Layer::Ethernet(_)),
            Layer::Arp(_) | Layer::Ndp(_) | Layer::Payload(_) => return false,
            Layer::Ipv4(_)
            | Layer::Extension(_)
            | Layer::Tcp(_)
            | Layer::Icmp(_)
            | Layer::Icmpv6(_) => (None, None),
        };
        match (ethertype, protocol) {
            _ if payload => true,
            (Some(ethertype), _) => {
                let number = match next {
                    Layer::Vlan(_) if vlan::is_tag(*ethertype) => Some(*ethertype),
                    Layer::Vlan(_) if another_tag => Some(vlan::ETHERTYPE_SERVICE),
                    Layer::Vlan(_) => Some(vlan::ETHERTYPE),
                    Layer::Ethernet(_) if in_gre => Some(gre::ETHERNET),
                    _ => next.ethertype(),
                };
                number.map(|number| *ethertype = number).is_some()
            }
            (_, Some((protocol, in_ipv6))) => {
                let number = next.protocol(in_ipv6);
                number.map(|number| *protocol = number).is_some()
            }
            (None, None) => false,
        }
    }
}
