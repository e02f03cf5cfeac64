//! Resolves the MAC address of a next hop with ARP (RFC 826) or neighbour solicitation (RFC 4861).
//!
//! [`reply`] answers such requests. Both use frames of our own instead of the kernel's tables, so
//! nothing on the host changes and a port needs no address. Start with [`resolve`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use fwdlab_packet::header::{arp, ethernet, icmpv6, ipv6, ndp};
use fwdlab_packet::{MacAddr, checksum};

use crate::capture::{Capture, Options};
use crate::error::EngineError;
use crate::port::PortSpec;

/// Number of requests, and the time to wait for each answer.
const TRIES: usize = 4;
const PATIENCE: Duration = Duration::from_millis(300);

/// Asks on a port for the owner of an address, as the owner of `source`, and returns the MAC
/// address of the answer; `None` if no host answers. Both addresses must have the same IP version.
///
/// # Errors
/// If the port cannot be used, or the versions differ.
pub fn resolve(
    port: &PortSpec,
    ours: [u8; 6],
    source: IpAddr,
    target: IpAddr,
) -> Result<Option<[u8; 6]>, EngineError> {
    let questions = match (source, target) {
        // a host that does not answer this source may answer one that has no address yet (RFC 5227
        // section 1.1)
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            [source, Ipv4Addr::UNSPECIFIED].map(|source| arp_request(ours, source, target))
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            [(); 2].map(|()| solicitation(ours, source, target))
        }
        _ => {
            return Err(EngineError::Frames(format!(
                "{source} cannot ask for {target}: one is IPv4 and the other IPv6"
            )));
        }
    };
    let mut capture = Capture::open(
        port,
        &Options {
            snap: 128,
            ring_bytes: 1 << 20,
            promiscuous: false,
            outgoing: false,
            ..Options::default()
        },
    )?;
    let mut found = None;
    for question in questions.iter().cycle().take(TRIES) {
        capture.send(question)?;
        let requested = Instant::now();
        while found.is_none() && requested.elapsed() < PATIENCE {
            capture.frames(PATIENCE.saturating_sub(requested.elapsed()), &mut |frame| {
                found = found.or(answer(frame.bytes, target));
                found.is_none()
            })?;
        }
        if found.is_some() {
            break;
        }
    }
    Ok(found)
}

fn arp_request(ours: [u8; 6], source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; 60];
    ethernet::Repr {
        destination: MacAddr([0xff; 6]),
        source: MacAddr(ours),
        ethertype: arp::ETHERTYPE,
    }
    .emit(&mut frame);
    arp::Repr {
        operation: arp::REQUEST,
        sender_mac: MacAddr(ours),
        sender_ip: source,
        target_mac: MacAddr([0; 6]),
        target_ip: target,
    }
    .emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}

/// Type 135 with our address as option 1, to the target's solicited-node multicast address.
fn solicitation(ours: [u8; 6], source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    const MESSAGE: usize = 4 + 4 + 16 + 8;
    let last = target.octets();
    let [.., a, b, c] = last;
    let group = Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | u16::from(a),
        u16::from_be_bytes([b, c]),
    );
    let mut frame = vec![0; ethernet::HEADER_LEN + ipv6::HEADER_LEN + MESSAGE];
    ethernet::Repr {
        destination: MacAddr([0x33, 0x33, 0xff, a, b, c]),
        source: MacAddr(ours),
        ethertype: ipv6::ETHERTYPE,
    }
    .emit(&mut frame);
    let ip = ipv6::Repr {
        source,
        destination: group,
        next_header: icmpv6::PROTOCOL,
        hop_limit: 255,
        payload_len: MESSAGE as u16,
        ..ipv6::Repr::default()
    };
    ip.emit(&mut frame[ethernet::HEADER_LEN..]);
    let message = &mut frame[ethernet::HEADER_LEN + ipv6::HEADER_LEN..];
    message[0] = 135;
    message[8..24].copy_from_slice(&target.octets());
    message[24..26].copy_from_slice(&[1, 1]);
    message[26..32].copy_from_slice(&ours);
    let sum = !checksum::combine(&[ip.pseudo_header(), checksum::sum(message)]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Returns the MAC address in an answer for this target; `None` for all other frames.
fn answer(frame: &[u8], target: IpAddr) -> Option<[u8; 6]> {
    let (ethernet, payload) = ethernet::Repr::parse(frame).ok()?;
    match target {
        IpAddr::V4(target) if ethernet.ethertype == arp::ETHERTYPE => {
            let (reply, _) = arp::Repr::parse(payload).ok()?;
            (reply.operation == arp::REPLY && reply.sender_ip == target)
                .then_some(reply.sender_mac.0)
        }
        IpAddr::V6(target) if ethernet.ethertype == ipv6::ETHERTYPE => {
            let message = payload.get(ipv6::HEADER_LEN..)?;
            let is_answer = payload.get(6) == Some(&icmpv6::PROTOCOL)
                && payload.get(7) == Some(&255)
                && message.first() == Some(&136)
                && message.get(8..24) == Some(&target.octets()[..]);
            if !is_answer {
                return None;
            }
            // the option with the address; a host may omit it in a unicast exchange, and then the
            // frame's source is its address
            match message.get(24..32) {
                Some([2, 1, mac @ ..]) => mac.try_into().ok(),
                _ => Some(ethernet.source.0),
            }
        }
        _ => None,
    }
}

/// Returns the answer to an ARP request or a neighbour solicitation for one of our addresses;
/// `None` for all other frames, for announcements, and for a host that probes whether an address is
/// free (RFC 5227, RFC 4862).
pub fn reply(frame: &[u8], ours: [u8; 6], is_ours: impl Fn(IpAddr) -> bool) -> Option<Vec<u8>> {
    let (requested, payload) = ethernet::Repr::parse(frame).ok()?;
    let header = |destination, ethertype| ethernet::Repr {
        destination,
        source: MacAddr(ours),
        ethertype,
    };
    if requested.ethertype == arp::ETHERTYPE {
        let (request, _) = arp::Repr::parse(payload).ok()?;
        let checks = request.sender_ip.is_unspecified() || request.sender_ip == request.target_ip;
        if request.operation != arp::REQUEST || checks || !is_ours(request.target_ip.into()) {
            return None;
        }
        let mut frame = vec![0; 60];
        header(request.sender_mac, arp::ETHERTYPE).emit(&mut frame);
        arp::Repr {
            operation: arp::REPLY,
            sender_mac: MacAddr(ours),
            sender_ip: request.target_ip,
            target_mac: request.sender_mac,
            target_ip: request.sender_ip,
        }
        .emit(&mut frame[ethernet::HEADER_LEN..]);
        return Some(frame);
    }
    if requested.ethertype != ipv6::ETHERTYPE {
        return None;
    }
    let (ip, message) = ipv6::Repr::parse(payload).ok()?;
    let message = message.get(..ip.payload_len.into())?;
    let solicitation = ndp::Repr::parse(message).ok()?;
    let is_one = ip.next_header == icmpv6::PROTOCOL && ip.hop_limit == 255;
    if !is_one
        || solicitation.advertisement
        || ip.source.is_unspecified()
        || !is_ours(solicitation.target.into())
    {
        return None;
    }
    let answer = ndp::Repr {
        advertisement: true,
        flags: ndp::flag::SOLICITED | ndp::flag::OVERRIDE,
        target: solicitation.target,
        link_address: Some(MacAddr(ours)),
    };
    let mut frame = vec![0; ethernet::HEADER_LEN + ipv6::HEADER_LEN + answer.header_len()];
    let asker = solicitation.link_address.unwrap_or(requested.source);
    header(asker, ipv6::ETHERTYPE).emit(&mut frame);
    let ip = ipv6::Repr {
        source: solicitation.target,
        destination: ip.source,
        next_header: icmpv6::PROTOCOL,
        hop_limit: 255,
        payload_len: answer.header_len() as u16,
        ..ipv6::Repr::default()
    };
    ip.emit(&mut frame[ethernet::HEADER_LEN..]);
    let message = &mut frame[ethernet::HEADER_LEN + ipv6::HEADER_LEN..];
    answer.emit(message);
    let sum = !checksum::combine(&[ip.pseudo_header(), checksum::sum(message)]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_packet::decode::decode;

    const OURS: [u8; 6] = [2, 0, 0, 0, 1, 1];
    const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn questions_are_well_formed() {
        let requested = arp_request(
            OURS,
            Ipv4Addr::new(198, 18, 0, 2),
            Ipv4Addr::new(198, 18, 0, 1),
        );
        assert_eq!(decode(&requested).notes, [], "{}", decode(&requested));
        let requested = solicitation(
            OURS,
            "2001:2::2".parse().unwrap(),
            "2001:2::1".parse().unwrap(),
        );
        assert_eq!(decode(&requested).notes, [], "{}", decode(&requested));
        assert_eq!(requested[..6], [0x33, 0x33, 0xff, 0, 0, 1]);
    }

    #[test]
    fn questions_for_our_addresses_are_answered() {
        let (source, target) = (Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 18, 0, 1));
        let all = |_| true;
        let requested = arp_request(OURS, source, target);
        let replied = reply(&requested, THEIRS, |address| {
            address == IpAddr::from(target)
        })
        .unwrap();
        assert_eq!(decode(&replied).notes, [], "{}", decode(&replied));
        assert_eq!(answer(&replied, target.into()), Some(THEIRS));
        assert_eq!(replied[..6], OURS);
        assert_eq!(
            reply(&requested, THEIRS, |_| false),
            None,
            "of somebody else"
        );
        assert_eq!(reply(&replied, THEIRS, all), None, "an answer");
        for checks in [Ipv4Addr::UNSPECIFIED, target] {
            let requested = arp_request(OURS, checks, target);
            assert_eq!(reply(&requested, THEIRS, all), None, "{checks} has it");
        }
        let (source, target): (Ipv6Addr, Ipv6Addr) =
            ("2001:2::2".parse().unwrap(), "2001:2::1".parse().unwrap());
        let requested = solicitation(OURS, source, target);
        let replied = reply(&requested, THEIRS, |address| {
            address == IpAddr::from(target)
        })
        .unwrap();
        assert_eq!(decode(&replied).notes, [], "{}", decode(&replied));
        assert_eq!(answer(&replied, target.into()), Some(THEIRS));
        assert_eq!(reply(&requested, THEIRS, |_| false), None);
        assert_eq!(reply(&replied, THEIRS, all), None);
        let free = solicitation(OURS, Ipv6Addr::UNSPECIFIED, target);
        assert_eq!(reply(&free, THEIRS, all), None);
        for len in 0..requested.len() {
            assert_eq!(reply(&requested[..len], THEIRS, all), None, "{len} bytes");
        }
    }

    #[test]
    fn only_the_answer_for_the_target_counts() {
        let target = Ipv4Addr::new(198, 18, 0, 1);
        let mut reply = arp_request(THEIRS, target, Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(answer(&reply, target.into()), None, "a question");
        reply[ethernet::HEADER_LEN + 7] = 2;
        assert_eq!(answer(&reply, target.into()), Some(THEIRS));
        assert_eq!(answer(&reply, Ipv4Addr::new(198, 18, 0, 3).into()), None);
        for len in 0..ethernet::HEADER_LEN + 28 {
            assert_eq!(answer(&reply[..len], target.into()), None);
        }
        let target: Ipv6Addr = "2001:2::1".parse().unwrap();
        let mut reply = solicitation(THEIRS, target, target);
        let message = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
        reply[message] = 136;
        reply[message + 24] = 2;
        assert_eq!(answer(&reply, target.into()), Some(THEIRS));
        for len in 0..message + 24 {
            assert_eq!(answer(&reply[..len], target.into()), None);
        }
    }
}
