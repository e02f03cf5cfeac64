//! Checks whether a frame is intact, as far as possible without knowing what was sent.
//!
//! | what | checked |
//! |---|---|
//! | IPv4 | version, header length, header checksum; the frame has as many bytes as the total length says |
//! | IPv6 | version; the frame has as many bytes as the payload length says |
//! | UDP, TCP, ICMP right behind IPv4 | length and checksum, over all of the payload; not of fragments, nor of UDP without a checksum |
//! | UDP, TCP, ICMPv6 right behind IPv6 | the same; not behind extension headers |
//! | everything else, and bytes behind the IP packet | nothing |
//!
//! A signature in the last bytes of a frame that are padding, or in one that is not IP, is not
//! protected. The twin in the kernel is `bpf/analyse.bpf.c`. Start with [`is_damaged`].

use fwdlab_packet::checksum::{combine, sum};
use fwdlab_packet::header::{icmp, icmpv6, ipv4, ipv6, tcp, udp};

use crate::signature::Network;

/// Returns true if one of these checks fails.
pub fn is_damaged(frame: &[u8], network: Network) -> bool {
    let packet = &frame[network.at.min(frame.len())..];
    match network.ethertype {
        ipv4::ETHERTYPE => ipv4_is_damaged(packet),
        ipv6::ETHERTYPE => ipv6_is_damaged(packet),
        _ => false,
    }
}

fn ipv4_is_damaged(packet: &[u8]) -> bool {
    let Some(fixed) = packet.first_chunk::<20>() else {
        return true;
    };
    let header = usize::from(fixed[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if fixed[0] >> 4 != 4 || header < 20 || total < header || total > packet.len() {
        return true;
    }
    if sum(&packet[..header]) != 0xffff {
        return true;
    }
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff;
    let protocol = fixed[9];
    fragment == 0
        && transport_is_damaged(
            &packet[header..total],
            protocol,
            sum(&fixed[12..20]),
            icmp::PROTOCOL,
        )
}

fn ipv6_is_damaged(packet: &[u8]) -> bool {
    let Some(fixed) = packet.first_chunk::<40>() else {
        return true;
    };
    let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    fixed[0] >> 4 != 6
        || packet.len() < 40 + length
        || transport_is_damaged(
            &packet[40..40 + length],
            fixed[6],
            sum(&fixed[8..40]),
            icmpv6::PROTOCOL,
        )
}

/// `addresses`: their sum. `icmp`: the ICMP protocol of this IP version.
fn transport_is_damaged(segment: &[u8], protocol: u8, addresses: u16, icmp: u8) -> bool {
    let (bytes, pseudo) = match protocol {
        udp::PROTOCOL => {
            let Some(header) = segment.first_chunk::<8>() else {
                return true;
            };
            let length = u16::from_be_bytes([header[4], header[5]]);
            if usize::from(length) < 8 || usize::from(length) > segment.len() {
                return true;
            }
            if header[6..8] == [0, 0] {
                return false;
            }
            (&segment[..length.into()], true)
        }
        tcp::PROTOCOL if segment.len() < 20 => return true,
        tcp::PROTOCOL => (segment, true),
        _ if protocol == icmp && segment.len() < 8 => return true,
        // ICMPv6's checksum includes a pseudo header, ICMP's does not
        _ if protocol == icmp => (segment, icmp == icmpv6::PROTOCOL),
        _ => return false,
    };
    let whole = if pseudo {
        combine(&[
            addresses,
            u16::from(protocol),
            bytes.len() as u16,
            sum(bytes),
        ])
    } else {
        sum(bytes)
    };
    whole != 0xffff
}
