//! The layers of a frame as written in a profile: `"udp"`, or `{ ipv4 = { ttl = 10 } }` to change
//! values.
//!
//! An omitted value has the usual default, or follows from the layers around it; lengths, checksums
//! and the numbers that announce the next layer always do. Does not know the bytes of a layer.
//! Start with [`Layer`].

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::value::{Hex, Mac};

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Layer {
    Ethernet(Ethernet),
    Vlan(Vlan),
    Mpls(Mpls),
    Arp(Arp),
    Ipv4(Ipv4),
    Ipv6(Ipv6),
    HopByHop(Extension),
    DestinationOptions(Extension),
    Routing(Extension),
    Authentication(Extension),
    Fragment(Fragment),
    Udp(Udp),
    Tcp(Tcp),
    Icmp(Icmp),
    Icmpv6(Icmp),
    Nd(Nd),
    Gre(Gre),
    Vxlan(Vxlan),
    Payload(Payload),
}

/// Ethernet. The outermost Ethernet layer may be omitted. Its addresses are those of the ports by
/// default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ethernet {
    /// Source MAC address
    pub source: Option<Mac>,
    /// Destination MAC address
    pub destination: Option<Mac>,
    /// EtherType, if only a payload follows
    pub ethertype: Option<u16>,
}

/// An IEEE 802.1Q tag. Two in a row are QinQ: the first one is the service tag.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vlan {
    /// VLAN identifier
    #[schemars(range(max = 4095))]
    pub id: u16,
    /// Priority code point
    #[schemars(range(max = 7))]
    pub priority: u8,
    /// Drop eligible
    pub drop_eligible: bool,
    /// EtherType in front of this tag: 0x8100, 0x88a8 or 0x9100
    #[serde(alias = "announced-by")]
    pub tpid: Option<u16>,
    /// EtherType of the next header, if only a payload follows
    pub ethertype: Option<u16>,
}

impl Default for Vlan {
    fn default() -> Self {
        Vlan {
            id: 1,
            priority: 0,
            drop_eligible: false,
            tpid: None,
            ethertype: None,
        }
    }
}

/// An MPLS label.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mpls {
    /// Label
    #[schemars(range(max = 1_048_575))]
    pub label: u32,
    /// Traffic class
    #[schemars(range(max = 7))]
    pub traffic_class: u8,
    /// Time to live
    pub ttl: u8,
}

impl Default for Mpls {
    fn default() -> Self {
        Mpls {
            label: 16,
            traffic_class: 0,
            ttl: 64,
        }
    }
}

/// An ARP message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Arp {
    /// 1 request, 2 reply
    #[schemars(range(min = 1))]
    pub operation: Option<u16>,
    /// MAC address of the sender
    pub sender_mac: Option<Mac>,
    /// IPv4 address of the sender
    pub sender_ip: Option<Ipv4Addr>,
    /// MAC address of the target
    pub target_mac: Option<Mac>,
    /// IPv4 address of the target
    pub target_ip: Option<Ipv4Addr>,
}

/// IPv4.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ipv4 {
    /// Source address
    pub source: Option<Ipv4Addr>,
    /// Destination address
    pub destination: Option<Ipv4Addr>,
    /// Time to live
    pub ttl: Option<u8>,
    /// DSCP and ECN: the second byte
    pub traffic_class: u8,
    /// Identification
    pub identification: u16,
    /// Don't fragment
    pub dont_fragment: bool,
    /// More fragments follow
    pub more_fragments: bool,
    /// Offset of this fragment, in units of 8 bytes
    #[schemars(range(max = 8191))]
    pub fragment_offset: u16,
    /// Protocol, if only a payload follows
    pub protocol: Option<u8>,
    /// Options, a multiple of 4 bytes, at most 40
    pub options: Hex,
}

/// IPv6.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ipv6 {
    /// Source address
    pub source: Option<Ipv6Addr>,
    /// Destination address
    pub destination: Option<Ipv6Addr>,
    /// Hop limit
    pub hop_limit: Option<u8>,
    /// DSCP and ECN
    pub traffic_class: u8,
    /// Flow label
    #[schemars(range(max = 1_048_575))]
    pub flow_label: Option<u32>,
    /// Next header, if only a payload follows
    pub next_header: Option<u8>,
}

/// An IPv6 extension header.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Extension {
    /// Everything after next header and length: 6 bytes plus a multiple of 8 (authentication: 10
    /// plus a multiple of 4); by default padding, for authentication zeros
    pub body: Option<Hex>,
    /// Next header, if only a payload follows
    pub next_header: Option<u8>,
}

/// The IPv6 fragment header.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Fragment {
    /// Offset of this fragment, in units of 8 bytes; 0 without `more` is an atomic fragment, a
    /// whole packet
    #[schemars(range(max = 8191))]
    pub offset: u16,
    /// More fragments follow
    pub more: bool,
    /// Identification
    pub identification: u32,
    /// Next header, if only a payload follows
    pub next_header: Option<u8>,
}

/// UDP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Udp {
    /// Source port
    pub source_port: Option<u16>,
    /// Destination port; 4789 before a VXLAN layer
    pub destination_port: Option<u16>,
}

/// TCP, header only.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tcp {
    /// Source port
    pub source_port: Option<u16>,
    /// Destination port
    pub destination_port: Option<u16>,
    /// Sequence number
    pub sequence: u32,
    /// Acknowledgment number
    pub acknowledgment: u32,
    /// Control bits; by default SYN
    pub flags: Option<Vec<Flag>>,
    /// Window
    pub window: Option<u16>,
    /// Urgent pointer
    pub urgent: u16,
    /// Options, a multiple of 4 bytes, at most 40
    pub options: Hex,
}

/// A control bit of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "RFC 9293 §3.1")]
pub enum Flag {
    Fin,
    Syn,
    Rst,
    Psh,
    Ack,
    Urg,
    Ece,
    Cwr,
}

impl Flag {
    /// Returns its bit in the header.
    pub fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// ICMP or ICMPv6: by default an echo request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Icmp {
    /// Type of the message
    #[serde(rename = "type")]
    pub kind: Option<u8>,
    /// Message code, for its type
    pub code: u8,
    /// Identifier of an echo message: bytes 5 and 6
    pub identifier: u16,
    /// Sequence number of an echo message: bytes 7 and 8
    pub sequence: u16,
}

/// A neighbor discovery message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nd {
    /// True for an advertisement, false for a solicitation
    pub advertisement: bool,
    /// In an advertisement: the sender is a router
    pub router: bool,
    /// In an advertisement: it answers a solicitation
    pub solicited: bool,
    /// In an advertisement: it overrides existing entries
    #[serde(rename = "override")]
    pub overrides: bool,
    /// The solicited or advertised address; by default the destination address of the IPv6 layer
    pub target: Option<Ipv6Addr>,
    /// The MAC address in the message; by default none
    pub link_address: Option<Mac>,
}

/// GRE.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Gre {
    /// Include a checksum
    pub checksum: bool,
    /// Key
    pub key: Option<u32>,
    /// Sequence number
    pub sequence: Option<u32>,
    /// EtherType, if only a payload follows
    pub ethertype: Option<u16>,
}

/// VXLAN, after UDP. An Ethernet layer follows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vxlan {
    /// Network identifier
    #[schemars(range(max = 16_777_215))]
    pub vni: u32,
}

impl Default for Vxlan {
    fn default() -> Self {
        Vxlan { vni: 1 }
    }
}

/// The payload of the last header: text, hex or random, otherwise zeros. The frame size determines
/// its length.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Payload {
    /// These characters
    pub text: Option<String>,
    /// These bytes
    pub hex: Option<Hex>,
    /// Pseudo-random bytes from this seed
    pub random: Option<u64>,
    /// Repeat it to the end of the frame; by default, zeros follow
    pub repeat: bool,
    /// Minimum length in bytes
    pub bytes: Option<u32>,
}

impl Layer {
    /// The names of all layers that have default values.
    pub const NAMES: [&str; 19] = [
        "ethernet",
        "vlan",
        "mpls",
        "arp",
        "ipv4",
        "ipv6",
        "hop-by-hop",
        "destination-options",
        "routing",
        "authentication",
        "fragment",
        "udp",
        "tcp",
        "icmp",
        "icmpv6",
        "nd",
        "gre",
        "vxlan",
        "payload",
    ];

    /// Returns the layer of this name with default values.
    pub fn named(name: &str) -> Option<Layer> {
        Some(match name {
            "ethernet" => Layer::Ethernet(Ethernet::default()),
            "vlan" => Layer::Vlan(Vlan::default()),
            "mpls" => Layer::Mpls(Mpls::default()),
            "arp" => Layer::Arp(Arp::default()),
            "ipv4" => Layer::Ipv4(Ipv4::default()),
            "ipv6" => Layer::Ipv6(Ipv6::default()),
            "hop-by-hop" => Layer::HopByHop(Extension::default()),
            "destination-options" => Layer::DestinationOptions(Extension::default()),
            "routing" => Layer::Routing(Extension::default()),
            "authentication" => Layer::Authentication(Extension::default()),
            "fragment" => Layer::Fragment(Fragment::default()),
            "udp" => Layer::Udp(Udp::default()),
            "tcp" => Layer::Tcp(Tcp::default()),
            "icmp" => Layer::Icmp(Icmp::default()),
            "icmpv6" => Layer::Icmpv6(Icmp::default()),
            "nd" => Layer::Nd(Nd::default()),
            "gre" => Layer::Gre(Gre::default()),
            "vxlan" => Layer::Vxlan(Vxlan::default()),
            "payload" => Layer::Payload(Payload::default()),
            _ => return None,
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        let number = match self {
            Layer::Ethernet(_) => 0,
            Layer::Vlan(_) => 1,
            Layer::Mpls(_) => 2,
            Layer::Arp(_) => 3,
            Layer::Ipv4(_) => 4,
            Layer::Ipv6(_) => 5,
            Layer::HopByHop(_) => 6,
            Layer::DestinationOptions(_) => 7,
            Layer::Routing(_) => 8,
            Layer::Authentication(_) => 9,
            Layer::Fragment(_) => 10,
            Layer::Udp(_) => 11,
            Layer::Tcp(_) => 12,
            Layer::Icmp(_) => 13,
            Layer::Icmpv6(_) => 14,
            Layer::Nd(_) => 15,
            Layer::Gre(_) => 16,
            Layer::Vxlan(_) => 17,
            Layer::Payload(_) => 18,
        };
        Self::NAMES[number]
    }

    /// Returns the key whose value its field cannot hold, and why.
    pub(super) fn wrong(&self) -> Option<(&'static str, String)> {
        let most = |key, value: u32, most: u32| {
            (value > most).then(|| (key, format!("{value} is above the maximum, {most}")))
        };
        let options = |options: &Hex| match options.0.len() {
            len if len > 40 || !len.is_multiple_of(4) => Some((
                "options",
                format!(
                    "{len} bytes of options; the length must be a multiple of 4 and at most 40"
                ),
            )),
            _ => None,
        };
        match self {
            Layer::Vlan(vlan) => most("id", vlan.id.into(), 4095)
                .or_else(|| most("priority", vlan.priority.into(), 7))
                .or_else(|| match vlan.tpid {
                    None | Some(0x8100 | 0x88a8 | 0x9100) => None,
                    Some(_) => Some(("tpid", "it must be 0x8100, 0x88a8 or 0x9100".into())),
                }),
            Layer::Mpls(mpls) => most("label", mpls.label, 0xf_ffff)
                .or_else(|| most("traffic-class", mpls.traffic_class.into(), 7)),
            Layer::Ipv4(ip) => most("fragment-offset", ip.fragment_offset.into(), 8191)
                .or_else(|| options(&ip.options)),
            Layer::Ipv6(ip) => most("flow-label", ip.flow_label.unwrap_or(0), 0xf_ffff),
            Layer::Fragment(fragment) => most("offset", fragment.offset.into(), 8191),
            Layer::Tcp(tcp) => options(&tcp.options),
            Layer::Vxlan(vxlan) => most("vni", vxlan.vni, 0xff_ffff),
            Layer::Payload(payload) => {
                let ways = [
                    payload.text.is_some(),
                    payload.hex.is_some(),
                    payload.random.is_some(),
                ];
                let empty = payload.text.as_ref().is_some_and(String::is_empty)
                    || payload.hex.as_ref().is_some_and(|hex| hex.0.is_empty());
                if ways.iter().filter(|key_path| **key_path).count() > 1 {
                    Some(("text", "use only one of text, hex and random".to_owned()))
                } else if payload.repeat && empty {
                    Some(("repeat", "there is nothing to repeat".to_owned()))
                } else {
                    most("bytes", payload.bytes.unwrap_or(0), super::size::LARGEST)
                }
            }
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Layer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Layer, D::Error> {
        struct OfLayer;

        impl<'de> Visitor<'de> for OfLayer {
            type Value = Layer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a layer, such as \"udp\" or { ipv4 = { ttl = 10 } }")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Layer, E> {
                Layer::named(name).ok_or_else(|| E::unknown_variant(name, &Layer::NAMES))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Layer, A::Error> {
                let Some(Name(mut layer)) = map.next_key()? else {
                    return Err(de::Error::custom(
                        "an empty layer; write { ipv4 = { ttl = 10 } }",
                    ));
                };
                match &mut layer {
                    Layer::Ethernet(values) => *values = map.next_value()?,
                    Layer::Vlan(values) => *values = map.next_value()?,
                    Layer::Mpls(values) => *values = map.next_value()?,
                    Layer::Arp(values) => *values = map.next_value()?,
                    Layer::Ipv4(values) => *values = map.next_value()?,
                    Layer::Ipv6(values) => *values = map.next_value()?,
                    Layer::HopByHop(values)
                    | Layer::DestinationOptions(values)
                    | Layer::Routing(values)
                    | Layer::Authentication(values) => *values = map.next_value()?,
                    Layer::Fragment(values) => *values = map.next_value()?,
                    Layer::Udp(values) => *values = map.next_value()?,
                    Layer::Tcp(values) => *values = map.next_value()?,
                    Layer::Icmp(values) | Layer::Icmpv6(values) => *values = map.next_value()?,
                    Layer::Nd(values) => *values = map.next_value()?,
                    Layer::Gre(values) => *values = map.next_value()?,
                    Layer::Vxlan(values) => *values = map.next_value()?,
                    Layer::Payload(values) => *values = map.next_value()?,
                }
                match map.next_key::<IgnoredAny>()? {
                    None => Ok(layer),
                    Some(_) => Err(de::Error::custom(
                        "two layers in one pair of braces; each needs its own",
                    )),
                }
            }
        }

        deserializer.deserialize_any(OfLayer)
    }
}

/// The key of a layer with values.
struct Name(Layer);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        struct OfName;

        impl Visitor<'_> for OfName {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a layer")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name, E> {
                let layer = Layer::named(name);
                layer
                    .map(Name)
                    .ok_or_else(|| E::unknown_variant(name, &Layer::NAMES))
            }
        }

        deserializer.deserialize_identifier(OfName)
    }
}

/// The form of a layer in the file, for the schema: its name, for one with default values, or name
/// and values.
#[cfg(feature = "schemas")]
pub(crate) struct Form;

#[cfg(feature = "schemas")]
impl JsonSchema for Form {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LayerForm".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Name of the layer, alone (default values) or with values",
            "anyOf": [{ "enum": Layer::NAMES }, generator.subschema_for::<Layer>()]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_layers() {
        for name in Layer::NAMES {
            assert_eq!(Layer::named(name).map(|layer| layer.name()), Some(name));
        }
        assert_eq!(Layer::named("ucp"), None);
    }
}
