//! Flow sets: the addresses and ports that test frames carry.
//!
//! A [`FlowSet`] is Cartesian, n sources × n destinations × n source ports × n destination ports,
//! numbered without gaps, and never leaves the benchmark address blocks (RFC 2544 appendix C, RFC
//! 5180 §8). The order of the flows is up to [`walk`](crate::walk), their bytes up to
//! [`template`](crate::template). Start with [`FlowSet::default_v4`].

use serde::{Deserialize, Serialize};

use crate::walk::{Order, Walk};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Source addresses of default flow sets start here.
pub const DEFAULT_SOURCE_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 10, 1);
/// Destination addresses of default flow sets start here.
pub const DEFAULT_DESTINATION_V4: Ipv4Addr = Ipv4Addr::new(198, 19, 10, 1);
/// Source addresses of default IPv6 flow sets start here.
pub const DEFAULT_SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0x10, 0, 0, 0, 1);
/// Destination addresses of default IPv6 flow sets start here.
pub const DEFAULT_DESTINATION_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0x8010, 0, 0, 0, 1);
/// UDP ports of default flow sets start here.
pub const DEFAULT_PORT: u16 = 2000;

/// First and last address of the two halves of a benchmark block: one for each side of the DUT.
type Halves<A> = [(A, A); 2];

/// 198.18.0.0/16 and 198.19.0.0/16.
const HALVES_V4: Halves<Ipv4Addr> = [
    (
        Ipv4Addr::new(198, 18, 0, 0),
        Ipv4Addr::new(198, 18, 255, 255),
    ),
    (
        Ipv4Addr::new(198, 19, 0, 0),
        Ipv4Addr::new(198, 19, 255, 255),
    ),
];

/// 2001:2:0:0::/49 and 2001:2:0:8000::/49.
const HALVES_V6: Halves<Ipv6Addr> = [
    (
        Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0),
        Ipv6Addr::new(0x2001, 2, 0, 0x7fff, 0xffff, 0xffff, 0xffff, 0xffff),
    ),
    (
        Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 0),
        Ipv6Addr::new(0x2001, 2, 0, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff),
    ),
];

/// IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// Source and destination address of one IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "source and destination say it")]
pub enum Addresses {
    /// IPv4
    V4 {
        source: Ipv4Addr,
        destination: Ipv4Addr,
    },
    /// IPv6
    V6 {
        source: Ipv6Addr,
        destination: Ipv6Addr,
    },
}

/// One UDP flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flow {
    /// Source and destination address.
    pub addresses: Addresses,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
}

/// `count` consecutive values from `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span<T> {
    /// The first value.
    pub first: T,
    /// Number of values; at least 1.
    pub count: u32,
}

/// Why a flow set cannot exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// A dimension has no values, or there are zero flows.
    #[error("{dimension}: the count is 0; a flow set needs at least 1")]
    Empty {
        /// Name of the dimension.
        dimension: &'static str,
    },
    /// The addresses are outside the benchmark block, or span its two halves.
    #[error(
        "{dimension}: {count} starting at {first} do not fit in one half of the benchmark block \
         (198.18.0.0/16 or 198.19.0.0/16, 2001:2::/49 or 2001:2:0:8000::/49); \
         use fewer addresses and more ports"
    )]
    OutsideBenchmarkBlock {
        /// Name of the dimension.
        dimension: &'static str,
        /// The first address.
        first: IpAddr,
        /// Number of addresses.
        count: u32,
    },
    /// Both are in the same half of the block: such traffic would not cross the DUT.
    #[error(
        "sources and destinations are in the same half of the benchmark block; \
         put one in each half (198.18.0.0/16 and 198.19.0.0/16, 2001:2::/49 and 2001:2:0:8000::/49)"
    )]
    SameSide,
    /// The ports are outside 1..=65535.
    #[error(
        "{dimension}: {count} starting at {first} do not fit in 1 to 65535; use fewer or start lower"
    )]
    Ports {
        /// Name of the dimension.
        dimension: &'static str,
        /// The first port.
        first: u16,
        /// Number of ports.
        count: u32,
    },
    /// There are more than 2^32 - 1 flows.
    #[error("{flows} flows are more than the {} a flow set can number", u32::MAX)]
    TooMany {
        /// Requested number of flows.
        flows: u128,
    },
    /// The number of flows has a prime factor larger than any dimension.
    #[error("{flows} flows are not a product of addresses and ports in range; {nearest} are")]
    NotAProduct {
        /// Requested number of flows.
        flows: u32,
        /// The next smaller number that works.
        nearest: u32,
    },
}

/// A Cartesian set of UDP flows, numbered from 0 to `len() - 1`.
///
/// The destination address changes fastest, then source address, source port, destination port. A
/// flow set is correct by construction: addresses in the benchmark block, sources and destinations
/// in different halves, ports in range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSet {
    first: Flow,
    /// Radices of the flow number, fastest first, as in [`Digits`].
    counts: Digits,
}

/// One number per dimension of a flow set: destination address, source address, source port,
/// destination port.
pub(crate) type Digits = [u64; 4];

#[expect(
    clippy::len_without_is_empty,
    reason = "a flow set has at least one flow"
)]
impl FlowSet {
    /// Combines all of these IPv4 addresses and ports.
    ///
    /// Sources are in one half of 198.18.0.0/15 and destinations in the other, in either direction.
    ///
    /// # Errors
    /// Any [`FlowError`] but [`FlowError::NotAProduct`].
    pub fn v4(
        sources: Span<Ipv4Addr>,
        destinations: Span<Ipv4Addr>,
        source_ports: Span<u16>,
        destination_ports: Span<u16>,
    ) -> Result<FlowSet, FlowError> {
        let last = |span: Span<Ipv4Addr>| {
            u32::from(span.first)
                .checked_add(span.count - 1)
                .map(Ipv4Addr::from)
        };
        check_sides(sources, destinations, last, &HALVES_V4)?;
        let addresses = Addresses::V4 {
            source: sources.first,
            destination: destinations.first,
        };
        Self::new(
            addresses,
            sources.count,
            destinations.count,
            source_ports,
            destination_ports,
        )
    }

    /// Combines all of these IPv6 addresses and ports. Addresses count up in the interface
    /// identifier.
    ///
    /// Sources are in one half of 2001:2::/48 and destinations in the other, in either direction.
    ///
    /// # Errors
    /// Any [`FlowError`] but [`FlowError::NotAProduct`].
    pub fn v6(
        sources: Span<Ipv6Addr>,
        destinations: Span<Ipv6Addr>,
        source_ports: Span<u16>,
        destination_ports: Span<u16>,
    ) -> Result<FlowSet, FlowError> {
        let last = |span: Span<Ipv6Addr>| {
            u128::from(span.first)
                .checked_add(u128::from(span.count - 1))
                .map(Ipv6Addr::from)
        };
        check_sides(sources, destinations, last, &HALVES_V6)?;
        let addresses = Addresses::V6 {
            source: sources.first,
            destination: destinations.first,
        };
        Self::new(
            addresses,
            sources.count,
            destinations.count,
            source_ports,
            destination_ports,
        )
    }

    /// Returns exactly `flows` IPv4 flows, in the default shape.
    ///
    /// Of all ways to write `flows` as sources × destinations, this is the one with a ratio nearest
    /// to 1:5, as in 2000 = 20 × 100; fewer sources on a tie. If addresses run out (62 975 per side
    /// from [`DEFAULT_SOURCE_V4`] on), it uses as few source ports as possible. IPv6 sets have the
    /// same shape.
    ///
    /// # Errors
    /// [`FlowError::Empty`] for 0; [`FlowError::NotAProduct`].
    pub fn default_v4(flows: u32) -> Result<FlowSet, FlowError> {
        Self::from_v4(flows, DEFAULT_SOURCE_V4, DEFAULT_DESTINATION_V4)
    }

    /// Like [`FlowSet::default_v4`], starting at these addresses.
    ///
    /// # Errors
    /// As [`FlowSet::default_v4`]; [`FlowError::OutsideBenchmarkBlock`] and
    /// [`FlowError::SameSide`].
    pub fn from_v4(
        flows: u32,
        source: Ipv4Addr,
        destination: Ipv4Addr,
    ) -> Result<FlowSet, FlowError> {
        let [sources, destinations, ports] = shape(flows)?;
        let (sources, destinations) = (span(source, sources), span(destination, destinations));
        Self::v4(
            sources,
            destinations,
            span(DEFAULT_PORT, ports),
            span(DEFAULT_PORT, 1),
        )
    }

    /// Returns exactly `flows` IPv6 flows, in the same shape as [`FlowSet::default_v4`].
    ///
    /// # Errors
    /// [`FlowError::Empty`] for 0; [`FlowError::NotAProduct`].
    pub fn default_v6(flows: u32) -> Result<FlowSet, FlowError> {
        Self::from_v6(flows, DEFAULT_SOURCE_V6, DEFAULT_DESTINATION_V6)
    }

    /// Like [`FlowSet::default_v6`], starting at these addresses.
    ///
    /// # Errors
    /// As [`FlowSet::default_v6`]; [`FlowError::OutsideBenchmarkBlock`] and
    /// [`FlowError::SameSide`].
    pub fn from_v6(
        flows: u32,
        source: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> Result<FlowSet, FlowError> {
        let [sources, destinations, ports] = shape(flows)?;
        let (sources, destinations) = (span(source, sources), span(destination, destinations));
        Self::v6(
            sources,
            destinations,
            span(DEFAULT_PORT, ports),
            span(DEFAULT_PORT, 1),
        )
    }

    /// Returns the same flows in the other direction: addresses and ports swapped.
    pub fn reversed(&self) -> FlowSet {
        let addresses = match self.first.addresses {
            Addresses::V4 {
                source,
                destination,
            } => Addresses::V4 {
                source: destination,
                destination: source,
            },
            Addresses::V6 {
                source,
                destination,
            } => Addresses::V6 {
                source: destination,
                destination: source,
            },
        };
        let [destinations, sources, source_ports, destination_ports] = self.counts;
        FlowSet {
            first: Flow {
                addresses,
                source_port: self.first.destination_port,
                destination_port: self.first.source_port,
            },
            counts: [sources, destinations, destination_ports, source_ports],
        }
    }

    /// IPv4 or IPv6.
    pub fn version(&self) -> IpVersion {
        match self.first.addresses {
            Addresses::V4 { .. } => IpVersion::V4,
            Addresses::V6 { .. } => IpVersion::V6,
        }
    }

    /// Returns the number of flows: 1 to 2^32 - 1.
    pub fn len(&self) -> u64 {
        self.counts.iter().product()
    }

    /// Returns flow number `index`. For consecutive frames, [`walk`](Self::walk) is faster: it does
    /// not divide.
    ///
    /// # Panics
    /// If `index` is not less than `len()`.
    pub fn flow(&self, index: u64) -> Flow {
        assert!(
            index < self.len(),
            "flow {index} of a set of {}",
            self.len()
        );
        self.at(self.digits(index))
    }

    /// Returns the flows of frames 0, 1, 2, ... in the given order, round after round, without end.
    pub fn walk(&self, order: Order) -> Walk {
        Walk::new(*self, order)
    }

    fn new(
        first: Addresses,
        sources: u32,
        destinations: u32,
        source_ports: Span<u16>,
        destination_ports: Span<u16>,
    ) -> Result<FlowSet, FlowError> {
        check_ports("source ports", source_ports)?;
        check_ports("destination ports", destination_ports)?;
        let counts = [
            destinations,
            sources,
            source_ports.count,
            destination_ports.count,
        ];
        let flows = counts.iter().map(|count| u128::from(*count)).product();
        if flows > u128::from(u32::MAX) {
            return Err(FlowError::TooMany { flows });
        }
        Ok(FlowSet {
            first: Flow {
                addresses: first,
                source_port: source_ports.first,
                destination_port: destination_ports.first,
            },
            counts: counts.map(u64::from),
        })
    }

    /// Returns the number of values in each dimension.
    #[inline]
    pub(crate) fn counts(&self) -> Digits {
        self.counts
    }

    /// Converts `index` to mixed radix.
    pub(crate) fn digits(&self, index: u64) -> Digits {
        let mut rest = index;
        self.counts.map(|count| {
            let digit = rest % count;
            rest /= count;
            digit
        })
    }

    /// Returns the flow with these digits. The additions cannot overflow: `new` checked the last
    /// value of each span.
    #[inline]
    pub(crate) fn at(&self, digits: Digits) -> Flow {
        let [to, from, source_port, destination_port] = digits;
        Flow {
            addresses: match self.first.addresses {
                Addresses::V4 {
                    source,
                    destination,
                } => Addresses::V4 {
                    source: Ipv4Addr::from(u32::from(source) + from as u32),
                    destination: Ipv4Addr::from(u32::from(destination) + to as u32),
                },
                Addresses::V6 {
                    source,
                    destination,
                } => Addresses::V6 {
                    source: Ipv6Addr::from(u128::from(source) + u128::from(from)),
                    destination: Ipv6Addr::from(u128::from(destination) + u128::from(to)),
                },
            },
            source_port: self.first.source_port + source_port as u16,
            destination_port: self.first.destination_port + destination_port as u16,
        }
    }
}

fn span<T>(first: T, count: u32) -> Span<T> {
    Span { first, count }
}

/// Returns the sources, destinations and source ports of the default set: see
/// [`FlowSet::default_v4`].
fn shape(flows: u32) -> Result<[u32; 3], FlowError> {
    if flows == 0 {
        return Err(FlowError::Empty { dimension: "flows" });
    }
    let product = |flows| {
        let ports = 1..=u32::from(u16::MAX - DEFAULT_PORT) + 1;
        ports
            .filter(|ports| flows % ports == 0)
            .find_map(|ports| grid(flows / ports).map(|[from, to]| [from, to, ports]))
    };
    product(flows).ok_or_else(|| FlowError::NotAProduct {
        flows,
        nearest: (1..flows)
            .rev()
            .find(|fewer| product(*fewer).is_some())
            .unwrap_or(1),
    })
}

/// Returns the factorisation into sources × destinations whose ratio is nearest to 1:5, if any
/// fits.
fn grid(pairs: u32) -> Option<[u32; 2]> {
    let most = u32::from(HALVES_V4[0].1) - u32::from(DEFAULT_SOURCE_V4) + 1;
    let skew = |[from, to]: [u32; 2]| {
        let (from, to) = (5.0 * f64::from(from), f64::from(to));
        f64::max(from / to, to / from)
    };
    (1..=most.min(pairs))
        .filter(|from| pairs.is_multiple_of(*from) && pairs / from <= most)
        .map(|from| [from, pairs / from])
        .min_by(|a, b| skew(*a).total_cmp(&skew(*b)))
}

/// Checks that sources are in one half and destinations in the other. `last`: last address of a
/// span, if there is one.
fn check_sides<A: Copy + Ord + Into<IpAddr>>(
    sources: Span<A>,
    destinations: Span<A>,
    last: impl Fn(Span<A>) -> Option<A>,
    halves: &Halves<A>,
) -> Result<(), FlowError> {
    let half = |dimension, span: Span<A>| {
        let Span { first, count } = span;
        if count == 0 {
            return Err(FlowError::Empty { dimension });
        }
        let last = last(span);
        halves
            .iter()
            .position(|(low, high)| *low <= first && last.is_some_and(|last| last <= *high))
            .ok_or(FlowError::OutsideBenchmarkBlock {
                dimension,
                first: first.into(),
                count,
            })
    };
    if half("sources", sources)? == half("destinations", destinations)? {
        return Err(FlowError::SameSide);
    }
    Ok(())
}

fn check_ports(dimension: &'static str, ports: Span<u16>) -> Result<(), FlowError> {
    let Span { first, count } = ports;
    if count == 0 {
        return Err(FlowError::Empty { dimension });
    }
    if first == 0 || count > u32::from(u16::MAX - first) + 1 {
        return Err(FlowError::Ports {
            dimension,
            first,
            count,
        });
    }
    Ok(())
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IpVersion::V4 => "IPv4",
            IpVersion::V6 => "IPv6",
        })
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flow {
            addresses,
            source_port,
            destination_port,
        } = self;
        match addresses {
            Addresses::V4 {
                source,
                destination,
            } => {
                write!(
                    f,
                    "{source}:{source_port} > {destination}:{destination_port}"
                )
            }
            Addresses::V6 {
                source,
                destination,
            } => {
                write!(
                    f,
                    "[{source}]:{source_port} > [{destination}]:{destination_port}"
                )
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// A set in which each digit carries over the last octet or near the end of the ports.
    fn set(sources: u32, destinations: u32, source_ports: u32, destination_ports: u32) -> FlowSet {
        FlowSet::v4(
            Span {
                first: Ipv4Addr::new(198, 18, 10, 254),
                count: sources,
            },
            Span {
                first: Ipv4Addr::new(198, 19, 10, 254),
                count: destinations,
            },
            Span {
                first: 65_500,
                count: source_ports,
            },
            Span {
                first: 1,
                count: destination_ports,
            },
        )
        .unwrap()
    }

    #[test]
    fn numbering() {
        let flows: Vec<String> = set(2, 3, 1, 2)
            .walk(Order::Sequential)
            .take(13)
            .map(|flow| flow.to_string())
            .collect();
        assert_eq!(
            flows,
            [
                "198.18.10.254:65500 > 198.19.10.254:1",
                "198.18.10.254:65500 > 198.19.10.255:1",
                "198.18.10.254:65500 > 198.19.11.0:1",
                "198.18.10.255:65500 > 198.19.10.254:1",
                "198.18.10.255:65500 > 198.19.10.255:1",
                "198.18.10.255:65500 > 198.19.11.0:1",
                "198.18.10.254:65500 > 198.19.10.254:2",
                "198.18.10.254:65500 > 198.19.10.255:2",
                "198.18.10.254:65500 > 198.19.11.0:2",
                "198.18.10.255:65500 > 198.19.10.254:2",
                "198.18.10.255:65500 > 198.19.10.255:2",
                "198.18.10.255:65500 > 198.19.11.0:2",
                "198.18.10.254:65500 > 198.19.10.254:1",
            ]
        );
        let last = FlowSet::default_v6(2000).unwrap().flow(1999).to_string();
        assert_eq!(last, "[2001:2:0:10::14]:2000 > [2001:2:0:8010::64]:2000");
    }

    #[test]
    fn default_shapes() {
        // Expected values from a search over all divisor pairs with exact fractions (Python).
        for (flows, sources, destinations, ports) in [
            (1, 1, 1, 1),
            (7, 1, 7, 1),
            (10, 1, 10, 1),
            (64, 4, 16, 1),
            (1000, 10, 100, 1),
            (2000, 20, 100, 1),
            (5000, 25, 200, 1),
            (62_971, 1, 62_971, 1),
            (62_975, 55, 1145, 1),
            (62_981, 1, 1, 62_981),
            (10_000_000, 1250, 8000, 1),
            (1_041_537_223, 1013, 1019, 1009),
        ] {
            for set in [FlowSet::default_v4(flows), FlowSet::default_v6(flows)] {
                let set = set.unwrap();
                assert_eq!(set.counts, [destinations, sources, ports, 1], "{flows}");
                assert_eq!(set.len(), u64::from(flows));
            }
        }
    }

    #[test]
    fn a_large_prime_factor_is_refused_with_a_number_that_works() {
        let error = FlowSet::default_v4(2_000_006).unwrap_err();
        assert_eq!(
            error.to_string(),
            "2000006 flows are not a product of addresses and ports in range; 2000005 are"
        );
        assert!(FlowSet::default_v4(2_000_005).is_ok());
        assert_eq!(
            FlowSet::default_v6(0).unwrap_err().to_string(),
            "flows: the count is 0; a flow set needs at least 1"
        );
    }

    #[test]
    fn sets_outside_the_benchmark_blocks_are_refused() {
        let a = |third, fourth, count| Span {
            first: Ipv4Addr::new(198, third, 255, fourth),
            count,
        };
        let port = Span {
            first: 2000,
            count: 1,
        };
        let v4 = |sources, destinations| FlowSet::v4(sources, destinations, port, port);
        assert!(v4(a(18, 0, 256), a(19, 0, 256)).is_ok());
        assert!(v4(a(19, 0, 256), a(18, 0, 256)).is_ok());
        assert_eq!(v4(a(18, 0, 1), a(18, 1, 1)), Err(FlowError::SameSide));
        for (sources, destinations) in [
            (a(18, 0, 257), a(19, 0, 1)), // across the halves
            (a(18, 0, 1), a(19, 0, 257)), // into 198.20
            (a(17, 255, 1), a(19, 0, 1)),
            (a(17, 255, 2), a(19, 0, 1)),
            (a(18, 0, 1), a(20, 0, 1)),
            (a(18, 0, u32::MAX), a(19, 0, 1)), // past the end of IPv4
        ] {
            let error = v4(sources, destinations).unwrap_err();
            assert!(
                matches!(error, FlowError::OutsideBenchmarkBlock { .. }),
                "{error}"
            );
        }

        let a = |text: &str, count| Span {
            first: text.parse::<Ipv6Addr>().unwrap(),
            count,
        };
        let v6 = |sources, destinations| FlowSet::v6(sources, destinations, port, port);
        let (low, high) = (a("2001:2::", 9), a("2001:2:0:8000::", 9));
        assert!(v6(low, high).is_ok() && v6(high, low).is_ok());
        assert_eq!(v6(low, low), Err(FlowError::SameSide));
        for outside in [
            a("2001:2:0:7fff:ffff:ffff:ffff:ffff", 2),
            a("2001:1:ffff:ffff:ffff:ffff:ffff:ffff", 1),
            a("2001:2:1::", 1),
            a("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 2),
        ] {
            let error = v6(outside, high).unwrap_err();
            assert!(
                matches!(error, FlowError::OutsideBenchmarkBlock { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn impossible_dimensions_are_refused() {
        let side = |third, count| Span {
            first: Ipv4Addr::new(198, third, 0, 0),
            count,
        };
        let set = |sources, first, ports| {
            let ports = Span {
                first,
                count: ports,
            };
            FlowSet::v4(
                side(18, sources),
                side(19, 65_536),
                ports,
                Span { first: 1, count: 1 },
            )
        };
        assert_eq!(
            set(0, 1, 1),
            Err(FlowError::Empty {
                dimension: "sources"
            })
        );
        assert_eq!(
            set(1, 1, 0),
            Err(FlowError::Empty {
                dimension: "source ports"
            })
        );
        assert!(matches!(
            set(1, 0, 1),
            Err(FlowError::Ports { first: 0, .. })
        ));
        assert!(matches!(
            set(1, 65_535, 2),
            Err(FlowError::Ports { count: 2, .. })
        ));
        assert_eq!(set(1, 1, 65_535).unwrap().len(), 65_536 * 65_535);
        assert_eq!(
            set(65_536, 1, 1),
            Err(FlowError::TooMany { flows: 1 << 32 })
        );
    }

    #[test]
    fn the_last_flow_is_the_last_of_every_span() {
        let flow = set(300, 300, 36, 9).flow(300 * 300 * 36 * 9 - 1);
        assert_eq!(flow.to_string(), "198.18.12.41:65535 > 198.19.12.41:9");
    }

    #[test]
    #[should_panic(expected = "flow 6 of a set of 6")]
    fn there_is_no_flow_after_the_last() {
        set(2, 3, 1, 1).flow(6);
    }

    pub(crate) fn any_set() -> impl Strategy<Value = FlowSet> {
        (1..9_u32, 1..9_u32, 1..5_u32, 1..5_u32).prop_map(|(a, b, c, d)| set(a, b, c, d))
    }

    proptest! {
        #[test]
        fn flows_are_distinct(set in any_set()) {
            let flows: HashSet<Flow> = (0..set.len()).map(|index| set.flow(index)).collect();
            prop_assert_eq!(flows.len() as u64, set.len());
        }

        #[test]
        fn reversed_swaps_every_flow(set in any_set()) {
            let ends = |flow: Flow| match flow.addresses {
                Addresses::V4 { source, destination } => {
                    ((source, flow.source_port), (destination, flow.destination_port))
                }
                Addresses::V6 { .. } => unreachable!("any_set is IPv4"),
            };
            let there: HashSet<_> = (0..set.len()).map(|index| ends(set.flow(index))).collect();
            let reversed = set.reversed();
            let back: HashSet<_> =
                (0..set.len()).map(|index| ends(reversed.flow(index))).map(|(a, b)| (b, a)).collect();
            prop_assert_eq!(there, back);
            prop_assert_eq!(reversed.reversed(), set);
        }
    }
}
