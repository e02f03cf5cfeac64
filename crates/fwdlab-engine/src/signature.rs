//! Finds the signature of a frame, also behind a DUT, which may have added or removed a VLAN tag.
//!
//! Parses no more than needed to find a signature. [`integrity`](crate::analysis::integrity)
//! verifies headers; the fields of a signature are in [`fwdlab_packet::Signature`]. The twin in the
//! kernel is `bpf/find.h`. Start with [`SignaturePlace`] and [`find`].

use fwdlab_packet::header::{ipv4, ipv6, udp, vlan};
use fwdlab_packet::signature::LEN;
use serde::{Deserialize, Serialize};

/// Length of an Ethernet header without tags.
const ETHERNET: usize = 14;

/// Position of the signature in a frame that comes out of the DUT, which may have added or removed
/// a tag or a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignaturePlace {
    /// At the start of the payload of UDP over IPv4 without options or IPv6 without extensions.
    UdpPayload,
    /// In the last bytes of the frame, regardless of what precedes them.
    Tail,
    /// Only the trial's nonce, in the flow label of IPv6 behind Ethernet and any VLAN tags: see
    /// [`flow_label`]. For frames without room for more.
    FlowLabel,
}

/// The first bits of a 20-bit flow label that is a signature; the trial's nonce follows.
pub const FLOW_LABEL_MAGIC: u8 = 0x9;

/// Returns the flow label of a trial's frames.
pub fn flow_label(nonce: u16) -> u32 {
    u32::from(FLOW_LABEL_MAGIC) << 16 | u32::from(nonce)
}

/// Returns the byte whose low half is the start of an IPv6 frame's flow label: behind Ethernet and
/// any VLAN tags. `None` for other frames.
pub fn flow_label_at(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    loop {
        let ethertype = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
        at += 2;
        match ethertype {
            ipv6::ETHERTYPE => break,
            tag if vlan::is_tag(tag) => at += 2,
            _ => return None,
        }
    }
    (frame.len() >= at + ipv6::HEADER_LEN).then_some(at + 1)
}

/// Position of the header after Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Its first byte.
    pub at: usize,
    /// Its EtherType.
    pub ethertype: u16,
}

impl Network {
    /// Returns the bytes of VLAN tags before it.
    pub fn tag_bytes(self) -> usize {
        self.at - ETHERNET
    }
}

/// Returns the header behind Ethernet and up to two tags; behind a third tag, the EtherType is that
/// of a tag. `None` if the frame ends before.
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

/// Returns the 18 bytes where a frame's signature would be; the bytes show whether it is ours. For
/// [`SignaturePlace::FlowLabel`] see [`nonce_in_label`].
#[inline]
pub fn find(frame: &[u8], network: Network, place: SignaturePlace) -> Option<&[u8]> {
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

/// Returns the nonce in the flow label of an IPv6 frame, if the label begins like one of ours.
#[inline]
pub fn nonce_in_label(frame: &[u8], network: Network) -> Option<u16> {
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
