//! Addresses that test traffic may go to without being asked for: RFC 6815 forbids benchmarks on production networks.
//!
//! Blocks and ranges only; which addresses frames carry says [`engine::traffic::reach`]. Start with [`check`].

use std::net::IpAddr;

use engine::traffic::reach::Reach;

use crate::error::LabError;

/// A block of addresses, as first and last address; the words say what it is for.
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

/// Is this an address of the blocks for benchmarks and documentation, which nobody has?
pub fn is_for_tests(address: IpAddr) -> bool {
    block_of(address, address) == Some(true)
}

/// The block that a whole range is in: is it one for tests? `None` when it is in no block of ours.
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

/// May test traffic go to all of these ranges, first and last address each?
///
/// # Errors
/// [`LabError::Preflight`] with the first range that is not wholly in a block for benchmarks, documentation, private or
/// link-local use, and what to do.
pub fn check(ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>) -> Result<(), LabError> {
    (ranges.into_iter()).try_for_each(|range| check_range(range, ""))
}

/// May frames be sent that go there? All destinations are judged: a DUT may unpack what is in a tunnel, and forward it.
///
/// # Errors
/// As of [`check`], with the layer that the destination is in.
pub fn check_reach(reach: &[Reach]) -> Result<(), LabError> {
    (reach.iter()).try_for_each(
        |Reach {
             destination, to, ..
         }| {
            let layer = match destination.inside {
                Some(_) => format!(" ({destination}, which a DUT may unpack)"),
                None => String::new(),
            };
            check_range(*to, &layer)
        },
    )
}

fn check_range((first, last): (IpAddr, IpAddr), layer: &str) -> Result<(), LabError> {
    if block_of(first, last).is_some() {
        return Ok(());
    }
    let range = if first == last {
        first.to_string()
    } else {
        format!("{first} to {last}")
    };
    Err(LabError::Preflight(format!(
        "nothing is sent to {range}{layer}, only to addresses for benchmarks (198.18.0.0/15, 2001:2::/48), documentation, \
         private and link-local use (RFC 6815). Take such addresses; or, if these are yours, say --to-any-address"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn range(text: &str) -> (IpAddr, IpAddr) {
        let (first, last) = text.split_once(' ').unwrap_or((text, text));
        (first.parse().unwrap(), last.parse().unwrap())
    }

    #[test]
    fn blocks_begin_and_end_where_the_registries_say() {
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

    #[test]
    fn others_are_refused_with_the_words_that_allow_them() {
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
