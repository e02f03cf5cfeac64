//! Receive-side scaling (RSS): the hash by which a network card chooses a receive queue for a
//! frame.
//!
//! Cards hash addresses and ports of the outermost IP packet with Toeplitz's function and a key;
//! the low bits of the hash select an entry of their indirection table, which contains the queue.
//! Start with [`input`] and [`toeplitz`].
//!
//! Source: Microsoft, "Introduction to Receive Side Scaling", with the values that tests compare.

use std::fmt;
use std::str::FromStr;

use crate::decode::decode;
use crate::stack::Layer;

/// The key of Microsoft's examples, which FreeBSD and several drivers use.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Packets that cards have separate settings for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// UDP over IPv4.
    Udp4,
    /// TCP over IPv4.
    Tcp4,
    /// UDP over IPv6.
    Udp6,
    /// TCP over IPv6.
    Tcp6,
}

impl Transport {
    /// Returns the name that ethtool uses.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp4 => "udp4",
            Transport::Tcp4 => "tcp4",
            Transport::Udp6 => "udp6",
            Transport::Tcp6 => "tcp6",
        }
    }
}

/// Which fields of a packet are hashed, as ethtool's letters: `sd`, `sdfn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// The source address, `s`.
    pub source: bool,
    /// The destination address, `d`.
    pub destination: bool,
    /// The source port, `f`.
    pub source_port: bool,
    /// The destination port, `n`.
    pub destination_port: bool,
}

impl Fields {
    /// Only the addresses: all that is known of a fragment, and of other protocols.
    pub const ADDRESSES: Fields = Fields {
        source: true,
        destination: true,
        source_port: false,
        destination_port: false,
    };
    /// Addresses and ports.
    pub const ALL: Fields = Fields {
        source: true,
        destination: true,
        source_port: true,
        destination_port: true,
    };

    fn letters(self) -> [(char, bool); 4] {
        [
            ('s', self.source),
            ('d', self.destination),
            ('f', self.source_port),
            ('n', self.destination_port),
        ]
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.letters().into_iter().filter(|(_, is_set)| *is_set);
        set.map(|(letter, _)| letter)
            .try_for_each(|letter| write!(f, "{letter}"))
    }
}

impl FromStr for Fields {
    type Err = String;

    fn from_str(text: &str) -> Result<Fields, String> {
        let has = |letter| text.contains(letter);
        let fields = Fields {
            source: has('s'),
            destination: has('d'),
            source_port: has('f'),
            destination_port: has('n'),
        };
        match !text.is_empty() && fields.to_string().len() == text.len() {
            true => Ok(fields),
            false => Err(format!(
                "{text:?} are no fields of a hash: s and d are the addresses, f and n the ports, such as sdfn"
            )),
        }
    }
}

/// Returns the bytes of a frame that are hashed; `None` if it has no IP packet, and then no hash.
/// Most cards hash the packet behind VLAN tags, and do not look into tunnels.
pub fn input(frame: &[u8], fields: impl Fn(Transport) -> Fields) -> Option<Vec<u8>> {
    let layers = decode(frame).layers;
    let at = layers
        .iter()
        .position(|layer| !matches!(layer, Layer::Ethernet(_) | Layer::Vlan(_)))?;
    let ports = |udp, tcp| match layers.get(at + 1) {
        Some(Layer::Udp(repr)) => Some((udp, repr.source_port, repr.destination_port)),
        Some(Layer::Tcp(repr)) => Some((tcp, repr.source_port, repr.destination_port)),
        _ => None,
    };
    let (source, destination, ports) = match &layers[at] {
        Layer::Ipv4(repr) => (
            repr.source.octets().to_vec(),
            repr.destination.octets().to_vec(),
            ports(Transport::Udp4, Transport::Tcp4),
        ),
        Layer::Ipv6(repr) => (
            repr.source.octets().to_vec(),
            repr.destination.octets().to_vec(),
            ports(Transport::Udp6, Transport::Tcp6),
        ),
        _ => return None,
    };
    let hashed = ports.map_or(Fields::ADDRESSES, |(transport, ..)| fields(transport));
    let (_, from, to) = ports.unwrap_or((Transport::Udp4, 0, 0));
    let parts = [
        source,
        destination,
        from.to_be_bytes().into(),
        to.to_be_bytes().into(),
    ];
    let chosen = parts.into_iter().zip(hashed.letters());
    Some(
        chosen
            .filter(|(_, (_, is_set))| *is_set)
            .flat_map(|(bytes, _)| bytes)
            .collect(),
    )
}

/// Returns the Toeplitz hash. A key that is shorter than the input and four bytes continues with
/// zeros.
pub fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let of_key = |at: usize| key.get(at).copied().unwrap_or(0);
    let mut window = u32::from_be_bytes([0, 1, 2, 3].map(of_key));
    let mut hash = 0;
    for (at, byte) in input.iter().enumerate() {
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(of_key(at + 4) >> bit & 1);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;
    use crate::header::ethernet;
    use crate::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature};

    /// Source, destination, and the published hashes without and with ports.
    const PUBLISHED: [(&str, &str, u32, u32); 8] = [
        (
            "66.9.149.187:2794",
            "161.142.100.80:1766",
            0x323e_8fc2,
            0x51cc_c178,
        ),
        (
            "199.92.111.2:14230",
            "65.69.140.83:4739",
            0xd718_262a,
            0xc626_b0ea,
        ),
        (
            "24.19.198.95:12898",
            "12.22.207.184:38024",
            0xd2d0_a5de,
            0x5c2b_394a,
        ),
        (
            "38.27.205.30:48228",
            "209.142.163.6:2217",
            0x8298_9176,
            0xafc7_327f,
        ),
        (
            "153.39.163.191:44251",
            "202.188.127.2:1303",
            0x5d18_09c5,
            0x10e8_28a2,
        ),
        (
            "[3ffe:2501:200:1fff::7]:2794",
            "[3ffe:2501:200:3::1]:1766",
            0x2cc1_8cd5,
            0x4020_7d3d,
        ),
        (
            "[3ffe:501:8::260:97ff:fe40:efab]:14230",
            "[ff02::1]:4739",
            0x0f0c_461c,
            0xdde5_1bbf,
        ),
        (
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            "[fe80::200:f8ff:fe21:67cf]:38024",
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    #[test]
    fn hashes_are_the_published_ones() {
        for (source, destination, addresses, ports) in PUBLISHED {
            let [from, to]: [SocketAddr; 2] = [source, destination].map(|end| end.parse().unwrap());
            let bytes = |address: IpAddr| match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            let mut input = [bytes(from.ip()), bytes(to.ip())].concat();
            assert_eq!(toeplitz(&MICROSOFT_KEY, &input), addresses, "{source}");
            input.extend([from.port().to_be_bytes(), to.port().to_be_bytes()].concat());
            assert_eq!(toeplitz(&MICROSOFT_KEY, &input), ports, "{source}");
        }
    }

    #[test]
    fn the_fields_are_those_of_the_outermost_packet() {
        let template = FrameTemplate::new(&FrameSpec {
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            version: IpVersion::V4,
            frame_size: 64,
        })
        .unwrap();
        let flow = FlowSet::default_v4(1).unwrap().flow(0);
        let mut frame = vec![0; template.buffer_len()];
        template.write(&mut frame, &flow, &Signature::default());
        let of = |frame: &[u8], letters: &str| {
            let fields: Fields = letters.parse().unwrap();
            input(frame, |transport| match transport {
                Transport::Udp4 => fields,
                _ => panic!("{transport:?}"),
            })
        };
        // the positions in the frame of source, destination and ports
        let (addresses, ports) = (frame[26..34].to_vec(), frame[34..38].to_vec());
        assert_eq!(
            of(&frame, "sdfn"),
            Some([addresses.clone(), ports.clone()].concat())
        );
        assert_eq!(
            of(&frame, "dn"),
            Some([&addresses[4..], &ports[2..]].concat())
        );
        let tagged = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
        assert_eq!(of(&tagged, "sd"), Some(addresses.clone()));
        // a fragment has no ports
        let mut fragment = frame.clone();
        fragment[20] = 0x20;
        assert_eq!(of(&fragment, "sdfn"), Some(addresses));
        let mut other = frame.clone();
        other[12..14].copy_from_slice(&0x8864u16.to_be_bytes());
        assert_eq!(of(&other, "sdfn"), None);
        assert_eq!(of(&frame[..ethernet::HEADER_LEN], "sdfn"), None);
    }

    #[test]
    fn fields_are_ethtools_letters() {
        let of = |text: &str| text.parse::<Fields>().map(|fields| fields.to_string());
        assert_eq!(of("nfds").as_deref(), Ok("sdfn"));
        for wrong in ["", "x", "ss", "sdx"] {
            assert!(of(wrong).unwrap_err().contains("no fields"), "{wrong}");
        }
    }
}
