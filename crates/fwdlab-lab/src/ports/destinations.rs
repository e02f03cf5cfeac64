//! Addresses that test traffic may have without confirmation: RFC 6815 forbids benchmarks on
//! production networks.
//!
//! Covers destinations, sources (to which a DUT sends its answers), and the Ethernet broadcast
//! address. Contains only blocks and ranges; [`fwdlab_engine::traffic::reach`] returns the
//! addresses that frames carry. Start with [`check_frame`] and [`check`].

use std::net::IpAddr;

use fwdlab_engine::traffic::reach::{self, Reach};

use crate::error::LabError;

/// A block of addresses, from first to last address.
struct Block<A> {
    first: A,
    last: A,
    for_tests: bool,
}

const fn v4(address: [u8; 4], bits: u32, for_tests: bool) -> Block<u32> {
    let first = u32::from_be_bytes(address);
    Block {
        first,
        last: first | (u32::MAX >> bits),
        for_tests,
    }
}

const fn v6(address: [u16; 3], bits: u32, for_tests: bool) -> Block<u128> {
    let first =
        (address[0] as u128) << 112 | (address[1] as u128) << 96 | (address[2] as u128) << 80;
    Block {
        first,
        last: first | (u128::MAX >> bits),
        for_tests,
    }
}

const V4: [Block<u32>; 8] = [
    v4([198, 18, 0, 0], 15, true),   // benchmarks: RFC 2544
    v4([192, 0, 2, 0], 24, true),    // documentation: RFC 5737
    v4([198, 51, 100, 0], 24, true), //
    v4([203, 0, 113, 0], 24, true),  //
    v4([10, 0, 0, 0], 8, false),     // private: RFC 1918
    v4([172, 16, 0, 0], 12, false),  //
    v4([192, 168, 0, 0], 16, false), //
    v4([169, 254, 0, 0], 16, false), // link-local: RFC 3927
];

const V6: [Block<u128>; 5] = [
    v6([0x2001, 2, 0], 48, true), // benchmarks: RFC 5180, with its erratum
    v6([0x2001, 0xdb8, 0], 32, true), // documentation: RFC 3849
    v6([0x3fff, 0, 0], 20, true), // documentation: RFC 9637
    v6([0xfc00, 0, 0], 7, false), // private (ULA): RFC 4193
    v6([0xfe80, 0, 0], 10, false), // link-local: RFC 4291
];

/// Returns true if this address is in the blocks for benchmarks and documentation, which no host
/// has.
pub fn is_for_tests(address: IpAddr) -> bool {
    block_of(address, address) == Some(true)
}

/// Returns whether the block that contains a whole range is for tests; `None` if no block of ours
/// contains it.
fn block_of(first: IpAddr, last: IpAddr) -> Option<bool> {
    fn find<A: Ord + Copy>(blocks: &[Block<A>], first: A, last: A) -> Option<bool> {
        blocks
            .iter()
            .find(|block| block.first <= first && first <= last && last <= block.last)
            .map(|block| block.for_tests)
    }
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => find(&V4, first.into(), last.into()),
        (IpAddr::V6(first), IpAddr::V6(last)) => find(&V6, first.into(), last.into()),
        _ => None,
    }
}

/// Checks that test traffic may go to all of these ranges, each given as first and last address.
///
/// # Errors
/// [`LabError::Preflight`] with the first range that is not wholly in a block for benchmarks,
/// documentation, private or link-local use, and what to do.
pub fn check(ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>) -> Result<(), LabError> {
    (ranges.into_iter()).try_for_each(|range| check_range("to", range, ""))
}

/// Checks that test traffic may come from all of these ranges, because a DUT sends answers there
/// (such as ICMP errors).
///
/// # Errors
/// Fails as [`check`] does.
pub fn check_sources(ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>) -> Result<(), LabError> {
    // the unspecified address is used by hosts that have none yet, and cannot be answered
    let mut named = ranges
        .into_iter()
        .filter(|(first, last)| first != last || !first.is_unspecified());
    named.try_for_each(|range| check_range("from", range, ""))
}

/// Checks the destinations of frames, and the sources that belong to them, including those in
/// tunnels, which a DUT may decapsulate and forward.
///
/// # Errors
/// Fails as [`check`] does, with the layer of the address.
pub fn check_reach(reach: &[Reach]) -> Result<(), LabError> {
    reach.iter().try_for_each(|reach| {
        let layer = match reach.destination.inside {
            Some(_) => format!(" ({}, which a DUT may decapsulate)", reach.destination),
            None => String::new(),
        };
        check_range("to", reach.to, &layer)?;
        match reach.from {
            Some((first, last)) if first == last && first.is_unspecified() => Ok(()),
            Some(range) => check_range("from", range, &layer),
            None => Ok(()),
        }
    })
}

/// Checks that frames may be sent to this Ethernet address. A broadcast reaches every host on the
/// network.
///
/// # Errors
/// [`LabError::Preflight`]: it is the broadcast address.
pub fn check_mac(destination: [u8; 6]) -> Result<(), LabError> {
    if destination != [0xff; 6] {
        return Ok(());
    }
    Err(LabError::Preflight(
        "refusing to send to the broadcast address (ff:ff:ff:ff:ff:ff): every host on the network would receive the frames. \
         Use --dst-mac of the next hop, or, on an isolated network, --to-any-address"
            .into(),
    ))
}

/// Checks that this frame may be sent, by its Ethernet address and its IP addresses.
///
/// # Errors
/// Fails as [`check_reach`] and [`check_mac`] do.
pub fn check_frame(frame: &[u8]) -> Result<(), LabError> {
    check_reach(&reach::frame_reach(frame))?;
    frame.first_chunk().copied().map_or(Ok(()), check_mac)
}

fn check_range(way: &str, (first, last): (IpAddr, IpAddr), layer: &str) -> Result<(), LabError> {
    if block_of(first, last).is_some() {
        return Ok(());
    }
    let range = if first == last {
        first.to_string()
    } else {
        format!("{first} to {last}")
    };
    Err(LabError::Preflight(format!(
        "refusing to send {way} {range}{layer}, which is not a test address: those are for benchmarking (198.18.0.0/15, \
         2001:2::/48), documentation, private and link-local use (RFC 6815). Use such addresses, or, if these are yours, \
         --to-any-address"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use fwdlab_engine::Addresses;
    use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
    use fwdlab_model::profile::Profile;

    fn range(text: &str) -> (IpAddr, IpAddr) {
        let (first, last) = text.split_once(' ').unwrap_or((text, text));
        (first.parse().unwrap(), last.parse().unwrap())
    }

    #[test]
    fn address_blocks_match_the_iana_registries() {
        // IANA special-purpose address registries
        for good in [
            "198.18.0.0 198.19.255.255",
            "192.0.2.0 192.0.2.255",
            "198.51.100.0 198.51.100.255",
            "203.0.113.0 203.0.113.255",
            "10.0.0.0 10.255.255.255",
            "172.16.0.0 172.31.255.255",
            "192.168.0.0 192.168.255.255",
            "169.254.0.0 169.254.255.255",
            "2001:2:: 2001:2:0:ffff:ffff:ffff:ffff:ffff",
            "2001:db8:: 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            "3fff:: 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fc00:: fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fe80:: febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            check([range(good)]).unwrap();
            let (first, last) = range(good);
            let (before, after) = match (first, last) {
                (IpAddr::V4(first), IpAddr::V4(last)) => (
                    IpAddr::from(Ipv4Addr::from(u32::from(first) - 1)),
                    IpAddr::from(Ipv4Addr::from(u32::from(last) + 1)),
                ),
                (IpAddr::V6(first), IpAddr::V6(last)) => (
                    IpAddr::from(Ipv6Addr::from(u128::from(first) - 1)),
                    IpAddr::from(Ipv6Addr::from(u128::from(last) + 1)),
                ),
                _ => unreachable!(),
            };
            for bad in [before, after] {
                assert!(check([(bad, bad)]).is_err(), "{bad}");
            }
            assert!(check([(first, after)]).is_err(), "{good}");
        }
    }

    /// Checks the frames of a profile with one stream.
    fn check_profile(layers: &str, vary: &str) -> Result<(), LabError> {
        let text = format!("[[stream]]\nlayers = [{layers}]\nvary = [{vary}]\n");
        let profile = Profile::parse("p", &text).unwrap();
        let setting = Setting {
            direction: Direction::Forward,
            addresses: Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
            vlan: None,
            link: None,
            read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        };
        let traffic = compile(&profile, &setting).unwrap().traffic;
        let mut kinds = traffic.streams.iter().flat_map(|stream| &stream.kinds);
        kinds.try_for_each(|kind| check_reach(&kind.reach()))
    }

    #[test]
    fn destinations_in_a_tunnel_are_judged_too() {
        let outer = "{ ipv4 = { destination = '198.19.1.1' } }";
        let public = "{ ipv4 = { destination = '8.8.8.8' } }, 'udp'";
        let public6 = "{ ipv6 = { destination = '2a00:1450::1' } }, 'udp'";
        let inner = format!("{outer}, 'udp', 'vxlan', 'ethernet', 'ipv4', 'udp'");
        for (layers, vary, words) in [
            (
                format!("{outer}, 'udp', 'vxlan', 'ethernet', {public}"),
                "",
                "8.8.8.8 (IPv4 in VXLAN",
            ),
            (
                format!("{outer}, 'gre', {public}"),
                "",
                "8.8.8.8 (IPv4 in GRE",
            ),
            (
                format!("'vlan', {outer}, 'gre', 'ethernet', {public6}"),
                "",
                "2a00:1450::1 (IPv6 in GRE",
            ),
            (
                format!("'mpls', 'mpls', {public}"),
                "",
                "8.8.8.8 (IPv4 in MPLS",
            ),
            (
                format!("{outer}, {public6}"),
                "",
                "2a00:1450::1 (IPv6 in IPv4",
            ),
            // a range that leaves the block, and one of a list that does so far along
            (
                inner.clone(),
                "{ field = 'ipv4[2].destination', from = '198.19.255.0', count = 1000 }",
                "198.19.0.0 to 198.20.255.255 (IPv4 in VXLAN",
            ),
            (
                inner.clone(),
                "{ field = 'ipv4[2].destination', values = ['198.18.0.1', '10.1.1.1', '8.8.8.8'] }, \
                 { field = 'udp[2].source-port', count = 50_000 }",
                "8.0.0.0 to ",
            ),
        ] {
            let error = check_profile(&layers, vary).unwrap_err().to_string();
            assert!(error.contains(words), "{layers} {vary}: {error}");
        }
        let near = "{ field = 'ipv4[2].destination', values = ['198.18.0.1', '198.18.0.9'] }";
        check_profile(&inner, near).unwrap();
    }

    #[test]
    fn sources_are_judged_like_destinations_and_everybody_needs_consent() {
        check_sources([
            range("198.18.0.1 198.19.255.255"),
            range("::"),
            range("0.0.0.0"),
        ])
        .unwrap();
        for bad in ["8.8.8.8", "0.0.0.0 0.0.0.9", "2a00::1"] {
            let error = check_sources([range(bad)]).unwrap_err().to_string();
            assert!(error.starts_with("refusing to send from "), "{error}");
            assert!(error.contains("--to-any-address"), "{error}");
        }
        let mut frame = [0; 34];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[26..30].copy_from_slice(&[198, 18, 0, 1]);
        frame[30..34].copy_from_slice(&[198, 19, 0, 1]);
        frame[16..18].copy_from_slice(&20_u16.to_be_bytes());
        check_frame(&frame).unwrap();
        let refused = |frame: &[u8], words: &str| {
            let error = check_frame(frame).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains("--to-any-address"),
                "{error}"
            );
        };
        let everybody = [&[0xff; 6][..], &frame[6..]].concat();
        refused(&everybody, "ff:ff:ff:ff:ff:ff");
        for (at, words) in [(26, "from 8.8.8.8"), (30, "to 8.8.8.8")] {
            let mut frame = frame;
            frame[at..at + 4].copy_from_slice(&[8; 4]);
            refused(&frame, words);
        }
        // not IP, and not a broadcast
        check_frame(&[2; 14]).unwrap();
    }

    #[test]
    fn other_destinations_are_refused_with_the_option_that_allows_them() {
        for bad in [
            "8.8.8.8",
            "100.64.0.1",
            "192.18.0.1",
            "224.0.0.1",
            "::1",
            "2001:200::1",
            "10.0.0.9 10.0.0.1",
        ] {
            let error = check([range("10.0.0.1"), range(bad)])
                .unwrap_err()
                .to_string();
            assert!(error.contains("--to-any-address"), "{error}");
            assert!(error.contains(bad.split(' ').next().unwrap()), "{error}");
        }
        assert!(is_for_tests("198.18.3.4".parse().unwrap()));
        assert!(
            !is_for_tests("10.0.0.1".parse().unwrap()),
            "private addresses are somebody's"
        );
    }
}
