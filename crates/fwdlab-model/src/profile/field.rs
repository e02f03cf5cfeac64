//! The fields that a profile may vary, by name: `ipv4.source`, `udp.destination-port`,
//! `ipv4[2].ttl`.
//!
//! Does not know their position in a frame. Start with [`Field`].

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "schemas")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer};

use crate::file::did_you_mean;
use crate::typed::{Numbers, parsed};

macro_rules! names {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// A field, without the index of its layer among several with the same name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum FieldName {
            $($name),*
        }

        impl FieldName {
            /// All fields, with their names.
            pub const ALL: [(FieldName, &str); { [$($text),*].len() }] = [$((FieldName::$name, $text)),*];
        }
    };
}

names! {
    FrameLength = "frame.length",
    EthernetSource = "ethernet.source",
    EthernetDestination = "ethernet.destination",
    EthernetEthertype = "ethernet.ethertype",
    VlanId = "vlan.id",
    VlanPriority = "vlan.priority",
    VlanDropEligible = "vlan.drop-eligible",
    MplsLabel = "mpls.label",
    MplsTrafficClass = "mpls.traffic-class",
    MplsTtl = "mpls.ttl",
    ArpOperation = "arp.operation",
    ArpSenderMac = "arp.sender-mac",
    ArpSenderIp = "arp.sender-ip",
    ArpTargetMac = "arp.target-mac",
    ArpTargetIp = "arp.target-ip",
    Ipv4TrafficClass = "ipv4.traffic-class",
    Ipv4Dscp = "ipv4.dscp",
    Ipv4Identification = "ipv4.identification",
    Ipv4FragmentOffset = "ipv4.fragment-offset",
    Ipv4Ttl = "ipv4.ttl",
    Ipv4Protocol = "ipv4.protocol",
    Ipv4Source = "ipv4.source",
    Ipv4Destination = "ipv4.destination",
    Ipv6TrafficClass = "ipv6.traffic-class",
    Ipv6FlowLabel = "ipv6.flow-label",
    Ipv6NextHeader = "ipv6.next-header",
    Ipv6HopLimit = "ipv6.hop-limit",
    Ipv6Source = "ipv6.source",
    Ipv6Destination = "ipv6.destination",
    FragmentIdentification = "fragment.identification",
    UdpSourcePort = "udp.source-port",
    UdpDestinationPort = "udp.destination-port",
    TcpSourcePort = "tcp.source-port",
    TcpDestinationPort = "tcp.destination-port",
    TcpSequence = "tcp.sequence",
    TcpAcknowledgment = "tcp.acknowledgment",
    TcpFlags = "tcp.flags",
    TcpWindow = "tcp.window",
    IcmpType = "icmp.type",
    IcmpCode = "icmp.code",
    IcmpIdentifier = "icmp.identifier",
    IcmpSequence = "icmp.sequence",
    Icmpv6Type = "icmpv6.type",
    Icmpv6Code = "icmpv6.code",
    Icmpv6Identifier = "icmpv6.identifier",
    Icmpv6Sequence = "icmpv6.sequence",
    NdTarget = "nd.target",
    GreKey = "gre.key",
    GreSequence = "gre.sequence",
    VxlanVni = "vxlan.vni",
}

impl FieldName {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the name of its layer.
    pub fn layer(self) -> &'static str {
        self.name().split_once('.').map_or("", |(layer, _)| layer)
    }
}

/// A field of one layer of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name.
    pub name: FieldName,
    /// The index of its layer among those with the same name: from 1 on, the outermost first.
    pub layer: u32,
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let names = FieldName::ALL.map(|(_, name)| name);
            // names in other programs
            let meant = text
                .replace("sport", "source-port")
                .replace("dport", "destination-port")
                .replace("src", "source")
                .replace("dst", "destination")
                .to_ascii_lowercase();
            format!(
                "there is no field `{text}`; {}",
                did_you_mean(&meant, &names)
            )
        };
        let (name, layer) = match text.split_once('[') {
            None => (text.to_owned(), 1),
            Some((before, rest)) => {
                let (number, after) = rest.split_once(']').ok_or_else(wrong)?;
                let number = number.parse().ok().filter(|number| *number > 0);
                (format!("{before}{after}"), number.ok_or_else(wrong)?)
            }
        };
        let found = FieldName::ALL.iter().find(|(_, known)| *known == name);
        found
            .map(|(name, _)| Field { name: *name, layer })
            .ok_or_else(wrong)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.layer, self.name.name().split_once('.')) {
            (2.., Some((layer, field))) => write!(f, "{layer}[{}].{field}", self.layer),
            _ => f.write_str(self.name.name()),
        }
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, "the name of a field, in quotes", Numbers::No)
    }
}

#[cfg(feature = "schemas")]
impl JsonSchema for Field {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Field".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A field: ipv4.source; of the second layer of that name: ipv4[2].source",
            "type": "string",
            "anyOf": [
                { "enum": FieldName::ALL.map(|(_, name)| name).as_slice() },
                { "pattern": "^[a-z0-9-]+\\[[1-9][0-9]*\\]\\.[a-z-]+$" }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_read_back_as_they_print() {
        for (number, (field, name)) in FieldName::ALL.into_iter().enumerate() {
            assert_eq!(field as usize, number);
            for layer in 1..3 {
                let field = Field { name: field, layer };
                assert_eq!(field.to_string().parse(), Ok(field), "{name}");
            }
        }
        for (text, hint) in [
            ("ipv4.src", "did you mean `ipv4.source`?"),
            ("UDP.dport", "did you mean `udp.destination-port`?"),
            ("frobnicate", "known are"),
            ("ipv4.sorce", "did you mean `ipv4.source`?"),
            ("ipv4[0].source", "ipv4.source"),
            ("ipv4[x.source", "no field"),
        ] {
            let error = text.parse::<Field>().unwrap_err();
            assert!(error.contains(hint), "{error}");
        }
    }
}
