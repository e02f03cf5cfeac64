//! Where things are in a frame that came out of a DUT, which may have added or removed a VLAN tag.
//!
//! Looks at no more than is needed to find a signature; what the headers say is not believed here (see
//! [`integrity`](super::integrity)). The twin in the kernel is `bpf/find.h`. Start with [`signature`].

use fwdlab_packet::header::{ipv4, ipv6, udp, vlan};
use fwdlab_packet::signature::LEN;

use crate::generator::SignaturePlace;
use crate::traffic::FLOW_LABEL_MAGIC;

/// Length of an Ethernet header without tags.
const ETHERNET: usize = 14;

/// Where the header after Ethernet begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Its first byte.
    pub at: usize,
    /// What it is.
    pub ethertype: u16,
}

impl Network {
    /// Bytes of VLAN tags before it.
    pub fn tag_bytes(self) -> usize {
        self.at - ETHERNET
    }
}

/// The header behind Ethernet and up to two tags; what is behind a third has the EtherType of a tag. `None`: the frame ends
/// before.
#[inline]
pub fn network(frame: &[u8]) -> Option<Network> {
    let mut at = ETHERNET;
    for tags in 0.. {
        let ethertype = half(frame, at - 2)?;
        if tags == 2 || !vlan::is_tag(ethertype) {
            return Some(Network { at, ethertype });
        }
        at += vlan::HEADER_LEN;
    }
    None
}

/// The 18 bytes where a frame has its signature, if it has one there: whether it is ours, they say. For
/// [`SignaturePlace::FlowLabel`] see [`flow_label`].
#[inline]
pub fn signature(frame: &[u8], network: Network, place: SignaturePlace) -> Option<&[u8]> {
    let at = match place {
        SignaturePlace::UdpPayload => {
            let (protocol, header) = match network.ethertype {
                ipv4::ETHERTYPE => {
                    let first = *frame.get(network.at)?;
                    if first >> 4 != 4 || first & 15 < 5 {
                        return None;
                    }
                    (network.at + 9, usize::from(first & 15) * 4)
                }
                ipv6::ETHERTYPE => (network.at + 6, ipv6::HEADER_LEN),
                _ => return None,
            };
            if *frame.get(protocol)? != udp::PROTOCOL {
                return None;
            }
            network.at + header + udp::HEADER_LEN
        }
        SignaturePlace::Tail => {
            let at = frame.len().checked_sub(LEN)?;
            if at < ETHERNET {
                return None;
            }
            at
        }
        SignaturePlace::FlowLabel => return None,
    };
    frame.get(at..at + LEN)
}

/// The nonce in the flow label of an IPv6 frame, if the label begins like one of ours.
#[inline]
pub fn flow_label(frame: &[u8], network: Network) -> Option<u16> {
    if network.ethertype != ipv6::ETHERTYPE || frame.len() < network.at + ipv6::HEADER_LEN {
        return None;
    }
    let magic = frame[network.at + 1] & 15;
    (magic == FLOW_LABEL_MAGIC).then(|| half(frame, network.at + 2))?
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}
