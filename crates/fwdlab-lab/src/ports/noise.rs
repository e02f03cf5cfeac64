//! Unsolicited frames at the ports of a tester while no test runs: from switches and hosts, by
//! their well-known names.
//!
//! Frames are captured by a packet socket, on this machine or by an agent on its own; their names
//! are a function of their bytes. Advice about them is given elsewhere, to the owner of the test
//! bed. Start with [`capture_noise`] and [`name`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fwdlab_engine::PortSpec;
use fwdlab_engine::capture::{Capture, Options};

use crate::error::LabError;
use crate::host::wire::Noise;

/// Number of bytes that identify a frame.
const SNAP: u32 = 128;

/// Enough for a second, except in a storm.
const RING_BYTES: usize = 4 << 20;

/// Captures frames at ports for this time.
///
/// # Errors
/// Fails if a port went down or disappeared, or cannot be listened to.
pub(crate) fn capture_noise(ports: &[PortSpec], time: Duration) -> Result<Vec<Noise>, LabError> {
    let options = Options {
        snap: SNAP,
        ring_bytes: RING_BYTES,
        promiscuous: true,
        outgoing: false,
        ..Options::default()
    };
    let open = |port: &PortSpec| Ok((port.interface.clone(), Capture::open(port, &options)?));
    let mut captures = ports
        .iter()
        .map(open)
        .collect::<Result<Vec<_>, LabError>>()?;
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    let started = Instant::now();
    while started.elapsed() < time {
        for (port, capture) in &mut captures {
            capture.frames(Duration::from_millis(10), &mut |frame| {
                let action = name(frame.bytes);
                *counts.entry((port.clone(), action)).or_default() += 1;
                true
            })?;
        }
    }
    let noise = counts.into_iter();
    let noise = noise.map(|((port, action), frames)| Noise {
        port,
        what: action,
        frames,
    });
    Ok(noise.collect())
}

/// Returns the name of a frame that does not belong to a test.
pub(crate) fn name(frame: &[u8]) -> String {
    let (Some(to), Some(mut kind)) = (frame.get(..6), word(frame, 12)) else {
        return "a frame without a header".into();
    };
    let mut at = 14;
    while matches!(kind, 0x8100 | 0x88a8) {
        let Some(inner) = word(frame, at + 2) else {
            break;
        };
        (kind, at) = (inner, at + 4);
    }
    let known = match (to, kind) {
        // IEEE 802.1D to 802.1Q: LLC of the spanning tree
        (_, ..=1500) if frame.get(at..at + 2) == Some(&[0x42, 0x42]) => Some("STP"),
        // SNAP of Cisco, 00-00-0c
        (_, ..=1500) if frame.get(at..at + 6) == Some(&[0xaa, 0xaa, 3, 0, 0, 0x0c]) => {
            match word(frame, at + 6) {
                Some(0x2000) => Some("CDP"),
                Some(0x2003) => Some("VTP"),
                Some(0x2004) => Some("DTP"),
                Some(0x0111) => Some("UDLD"),
                Some(0x010b) => Some("STP per VLAN (PVST+)"),
                _ => Some("SNAP of Cisco"),
            }
        }
        (_, 0x88cc) => Some("LLDP"),
        (_, 0x8808) => Some("pause frames (flow control)"),
        (_, 0x8809) => Some("LACP"),
        (_, 0x9000) => Some("keepalive (loopback)"),
        (_, 0x8902) => Some("CFM"),
        (_, 0x888e) => Some("802.1X"),
        (_, 0x0806) => Some("ARP"),
        (_, 0x86dd) => ipv6(frame, at),
        (_, 0x0800) => ipv4(frame, at),
        _ => None,
    };
    match known {
        Some(known) => known.into(),
        None => {
            let mac: Vec<String> = to.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("frames to {} of type {kind:#06x}", mac.join(":"))
        }
    }
}

/// Returns true for frames of a switch on which they can be disabled.
pub(crate) fn is_switch_noise(action: &str) -> bool {
    [
        "STP",
        "CDP",
        "VTP",
        "DTP",
        "UDLD",
        "SNAP of Cisco",
        "LLDP",
        "LACP",
        "keepalive",
        "CFM",
        "802.1X",
    ]
    .iter()
    .any(|of| action.starts_with(of))
}

fn ipv6(frame: &[u8], at: usize) -> Option<&'static str> {
    // hop-by-hop options precede the reports of multicast listeners
    let (next, at) = match *frame.get(at + 6)? {
        0 => (*frame.get(at + 40)?, at + 48),
        next => (next, at + 40),
    };
    match (next, *frame.get(at)?) {
        (58, 133..=136) => Some("IPv6 neighbour discovery"),
        (58, 130..=132 | 143) => Some("IPv6 multicast listeners (MLD)"),
        (17, _) if word(frame, at + 2)? == 5353 => Some("mDNS"),
        (17, _) if word(frame, at + 2)? == 547 => Some("DHCPv6"),
        (89, _) => Some("OSPF"),
        _ => Some("IPv6"),
    }
}

fn ipv4(frame: &[u8], at: usize) -> Option<&'static str> {
    let header = usize::from(frame.get(at)? & 0x0f) * 4;
    let port = || word(frame, at + header + 2);
    match *frame.get(at + 9)? {
        2 => Some("IGMP"),
        17 if port()? == 67 || port()? == 68 => Some("DHCP"),
        17 if port()? == 5353 => Some("mDNS"),
        89 => Some("OSPF"),
        112 => Some("VRRP"),
        _ => Some("IPv4"),
    }
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: [u8; 6], rest: &[u8]) -> Vec<u8> {
        let mut frame = [&to[..], &[2, 0, 0, 0, 0, 1], rest].concat();
        frame.resize(60.max(frame.len()), 0);
        frame
    }

    /// As they are in the standards, and in captures of switches.
    #[test]
    fn frames_are_described_by_their_protocol() {
        let bridges = [0x01, 0x80, 0xc2, 0, 0, 0];
        let nearest = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
        let cisco = [0x01, 0, 0x0c, 0xcc, 0xcc, 0xcc];
        let snap =
            |kind: u16| [&[0, 36, 0xaa, 0xaa, 3, 0, 0, 0x0c][..], &kind.to_be_bytes()].concat();
        let ipv6 = |next: u8, first: &[u8]| {
            let mut packet = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, next, 255];
            packet.extend([0; 32]);
            packet.extend(first);
            packet
        };
        for (bytes, name_) in [
            (frame(bridges, &[0, 38, 0x42, 0x42, 3, 0, 0]), "STP"),
            (frame(nearest, &[0x88, 0xcc, 2, 7]), "LLDP"),
            (frame(cisco, &snap(0x2000)), "CDP"),
            (frame(cisco, &snap(0x2004)), "DTP"),
            (frame(cisco, &snap(0x0111)), "UDLD"),
            (
                frame([0x01, 0, 0x0c, 0xcc, 0xcc, 0xcd], &snap(0x010b)),
                "STP per VLAN (PVST+)",
            ),
            (
                frame([0x01, 0x80, 0xc2, 0, 0, 1], &[0x88, 0x08, 0, 1]),
                "pause frames (flow control)",
            ),
            (frame([0x01, 0x80, 0xc2, 0, 0, 2], &[0x88, 0x09, 1]), "LACP"),
            (frame([0xff; 6], &[8, 6, 0, 1]), "ARP"),
            (frame(bridges, &[0x81, 0, 0, 7, 0x88, 0xcc, 2, 7]), "LLDP"),
            (
                frame([0x33, 0x33, 0, 0, 0, 2], &ipv6(58, &[133, 0])),
                "IPv6 neighbour discovery",
            ),
            (
                frame(
                    [0x33, 0x33, 0, 0, 0, 0x16],
                    &ipv6(0, &[58, 0, 5, 2, 0, 0, 1, 0, 143, 0]),
                ),
                "IPv6 multicast listeners (MLD)",
            ),
            (
                frame([2; 6], &[0x12, 0x34]),
                "frames to 02:02:02:02:02:02 of type 0x1234",
            ),
            (vec![1, 2, 3], "a frame without a header"),
        ] {
            assert_eq!(name(&bytes), name_);
        }
        assert!(
            is_switch_noise("STP per VLAN (PVST+)")
                && is_switch_noise("CDP")
                && !is_switch_noise("ARP")
        );
    }

    /// Truncated frames: no byte beyond the end is read.
    #[test]
    fn truncated_frames_are_described() {
        let whole = frame(
            [0x33, 0x33, 0, 0, 0, 0x16],
            &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 0, 255],
        );
        for end in 0..whole.len() {
            assert!(!name(&whole[..end]).is_empty());
        }
        for kind in 0..=u16::MAX {
            let bytes = [&[0; 12][..], &kind.to_be_bytes(), &[0x45, 0, 0]].concat();
            assert!(!name(&bytes).is_empty());
        }
    }
}
