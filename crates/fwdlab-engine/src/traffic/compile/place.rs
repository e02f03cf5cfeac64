//! The positions of a profile's fields in a frame.
//!
//! Start with [`Place::for_field`].

use std::ops::Range;

use fwdlab_model::profile::{Field, FieldName};
use fwdlab_packet::header::{gre, ipv6_ext};
use fwdlab_packet::stack::Layer;

use super::shape::Shape;

/// Some bytes of a frame, or some of their bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub at: usize,
    /// Number of bytes: 1, 2, 4, 6, 8 or 16.
    pub bytes: usize,
    /// Mask of the bits, and the shift of their value to the left.
    pub bits: Option<(u32, u8)>,
}

impl Place {
    /// Returns the position of this field.
    pub fn for_field(field: Field, shape: &Shape) -> Result<Place, String> {
        let layers = shape
            .placed()
            .filter(|(_, layer)| is_layer(layer, field.name.layer()));
        let mut layers = layers.skip(match (shape.tagged, field.name.layer()) {
            // skip the tag of the port, which is not in the profile
            (true, "vlan") => 1,
            _ => 0,
        });
        let Some((start, layer)) = layers.nth(field.layer as usize - 1) else {
            let layer = field.name.layer();
            return Err(match field.layer {
                1 => format!("{field}: the frame has no {layer} layer"),
                n => format!("{field}: the frame has fewer than {n} {layer} layers"),
            });
        };
        let whole = |at, bytes| (at, bytes, None);
        let some = |at, bytes, mask: u32| (at, bytes, Some((mask, mask.trailing_zeros() as u8)));
        use FieldName::*;
        let (at, bytes, bits) = match field.name {
            FrameLength => {
                return Err("the length of the frame is not one of its fields".to_owned());
            }
            EthernetDestination => whole(0, 6),
            EthernetSource => whole(6, 6),
            EthernetEthertype => whole(12, 2),
            VlanId => some(0, 2, 0x0fff),
            VlanPriority => some(0, 2, 0xe000),
            VlanDropEligible => some(0, 2, 0x1000),
            MplsLabel => some(0, 4, 0xffff_f000),
            MplsTrafficClass => some(0, 4, 0x0e00),
            MplsTtl => whole(3, 1),
            ArpOperation => whole(6, 2),
            ArpSenderMac => whole(8, 6),
            ArpSenderIp => whole(14, 4),
            ArpTargetMac => whole(18, 6),
            ArpTargetIp => whole(24, 4),
            Ipv4TrafficClass => whole(1, 1),
            Ipv4Dscp => some(1, 1, 0xfc),
            Ipv4Identification => whole(4, 2),
            Ipv4FragmentOffset => some(6, 2, 0x1fff),
            Ipv4Ttl => whole(8, 1),
            Ipv4Protocol => whole(9, 1),
            Ipv4Source => whole(12, 4),
            Ipv4Destination => whole(16, 4),
            Ipv6TrafficClass => some(0, 4, 0x0ff0_0000),
            Ipv6FlowLabel => some(0, 4, 0x000f_ffff),
            Ipv6NextHeader => whole(6, 1),
            Ipv6HopLimit => whole(7, 1),
            Ipv6Source => whole(8, 16),
            Ipv6Destination => whole(24, 16),
            FragmentIdentification => whole(4, 4),
            UdpSourcePort | TcpSourcePort => whole(0, 2),
            UdpDestinationPort | TcpDestinationPort => whole(2, 2),
            TcpSequence => whole(4, 4),
            TcpAcknowledgment => whole(8, 4),
            TcpFlags => whole(13, 1),
            TcpWindow => whole(14, 2),
            IcmpType | Icmpv6Type => whole(0, 1),
            IcmpCode | Icmpv6Code => whole(1, 1),
            IcmpIdentifier | Icmpv6Identifier => whole(4, 2),
            IcmpSequence | Icmpv6Sequence => whole(6, 2),
            NdTarget => whole(8, 16),
            GreKey | GreSequence => {
                let Layer::Gre(gre::Repr {
                    checksum,
                    key,
                    sequence,
                    ..
                }) = layer
                else {
                    return Err(format!("{field}: the frame has no GRE layer"));
                };
                let present = if field.name == GreKey { key } else { sequence };
                if present.is_none() {
                    return Err(format!("{field}: this GRE header has none; give it one"));
                }
                let behind_key = if field.name == GreSequence && key.is_some() {
                    4
                } else {
                    0
                };
                whole(4 + if *checksum { 4 } else { 0 } + behind_key, 4)
            }
            VxlanVni => some(4, 4, 0xffff_ff00),
        };
        Ok(Place {
            at: start + at,
            bytes,
            bits,
        })
    }

    /// Returns its bytes.
    pub fn range(&self) -> Range<usize> {
        self.at..self.at + self.bytes
    }

    /// Returns the width of its values in bits.
    pub fn width_bits(&self) -> u32 {
        self.bits
            .map_or(self.bytes as u32 * 8, |(mask, _)| mask.count_ones())
    }

    /// Reads its value from a frame.
    pub fn read(&self, frame: &[u8]) -> u128 {
        let bytes = &frame[self.range()];
        let all = bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u128::from(*byte));
        self.bits
            .map_or(all, |(mask, shift)| (all & u128::from(mask)) >> shift)
    }

    /// Writes a value that fits.
    pub fn write(&self, frame: &mut [u8], value: u128) {
        let value = match self.bits {
            None => value,
            Some((mask, shift)) => {
                let old = Place {
                    bits: None,
                    ..self.clone()
                }
                .read(frame);
                old & !u128::from(mask) | value << shift & u128::from(mask)
            }
        };
        let bytes = value.to_be_bytes();
        frame[self.range()].copy_from_slice(&bytes[16 - self.bytes..]);
    }

    /// Returns the same field on the other side of the frame: the destination for a source, and
    /// vice versa.
    pub fn mirrored(&self, shape: &Shape) -> Result<Place, String> {
        let range = self.range();
        let inside = |side: &Range<usize>| side.start <= range.start && range.end <= side.end;
        let touches = |side: &Range<usize>| side.start < range.end && range.start < side.end;
        for (a, b) in shape.sides() {
            for (from, to) in [(&a, &b), (&b, &a)] {
                if inside(from) {
                    return Ok(Place {
                        at: to.start + (range.start - from.start),
                        ..self.clone()
                    });
                }
            }
            if touches(&a) || touches(&b) {
                return Err(format!(
                    "bytes {} to {} overlap a source or destination, which are swapped in reverse; make the stream forward only",
                    range.start, range.end
                ));
            }
        }
        Ok(self.clone())
    }
}

/// Returns true if a profile uses this name for the layer.
fn is_layer(layer: &Layer, name: &str) -> bool {
    match layer {
        Layer::Ethernet(_) => name == "ethernet",
        Layer::Vlan(_) => name == "vlan",
        Layer::Mpls(_) => name == "mpls",
        Layer::Arp(_) => name == "arp",
        Layer::Ipv4(_) => name == "ipv4",
        Layer::Ipv6(_) => name == "ipv6",
        Layer::Extension(extension) => {
            name == "fragment" && extension.kind == ipv6_ext::Kind::Fragment
        }
        Layer::Udp(_) => name == "udp",
        Layer::Tcp(_) => name == "tcp",
        Layer::Icmp(_) => name == "icmp",
        Layer::Icmpv6(_) => name == "icmpv6",
        Layer::Ndp(_) => name == "nd",
        Layer::Gre(_) => name == "gre",
        Layer::Vxlan(_) => name == "vxlan",
        Layer::Payload(_) => false,
    }
}
