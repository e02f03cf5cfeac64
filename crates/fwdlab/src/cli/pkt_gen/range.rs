//! Addresses with ports in the syntax of pkt-gen's `-s` and `-d`: `198.18.10.1:2000-198.18.10.20`,
//! `[2001:2::1]:53-[2001:2::14]`.
//!
//! A range defines the sequence of addresses and ports; [`frames`](super::frames) writes them to
//! frames. Start with [`Range::parse`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fwdlab_model::trial::IpVersion;

/// The port of an end without one.
const DEFAULT_PORT: u16 = 1234;
/// Index of the last group of an IPv6 address.
const LAST_GROUP: usize = 7;

/// The first and the last address, and the first and the last port. It includes every combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub first: IpAddr,
    /// The last address; IPv6 addresses may differ in one group only.
    pub last: IpAddr,
    /// The first port and the last.
    pub ports: (u16, u16),
    /// The 16-bit groups of an IPv6 address that the two ends name; the first of them is the one
    /// that varies.
    pub groups: (usize, usize),
}

impl Range {
    /// Parses a range. An error is text to follow `bad address range`.
    pub fn parse(text: &str, version: IpVersion) -> Result<Range, String> {
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (first, Some(last)),
            None => (text, None),
        };
        let first = End::parse(first, version)?;
        let last = match last {
            Some(last) => End::parse(last, version)?,
            None => first,
        };
        let port = first.port.unwrap_or(DEFAULT_PORT);
        let mut range = Range {
            first: first.address,
            last: last.address,
            ports: (port, last.port.unwrap_or(port)),
            groups: {
                let group = first.group.unwrap_or(LAST_GROUP);
                (group, last.group.unwrap_or(group))
            },
        };
        range.check()?;
        if range.first > range.last {
            (range.first, range.last) = (range.last, range.first);
        }
        if range.ports.0 > range.ports.1 {
            range.ports = (range.ports.1, range.ports.0);
        }
        Ok(range)
    }

    /// Returns a range with one address and the default port.
    pub fn one(address: IpAddr) -> Range {
        Range {
            first: address,
            last: address,
            ports: (DEFAULT_PORT, DEFAULT_PORT),
            groups: (LAST_GROUP, LAST_GROUP),
        }
    }

    /// Checks that the ends differ only in the group that pkt-gen varies; it would never reach the
    /// last address otherwise.
    fn check(&self) -> Result<(), String> {
        let (IpAddr::V6(first), IpAddr::V6(last)) = (self.first, self.last) else {
            return Ok(());
        };
        let (group, first, last) = (self.groups.0, first.segments(), last.segments());
        let elsewhere = (0..8).any(|at| at != group && first[at] != last[at]);
        if elsewhere {
            return Err(format!(
                "both ends must be the same but for group {group} (counted from 0), the one in which addresses count up; \
                 `5@[...]` names another group"
            ));
        }
        Ok(())
    }

    /// Returns the number of addresses.
    pub fn addresses(&self) -> u64 {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                u64::from(u32::from(last)) - u64::from(u32::from(first)) + 1
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                let at = |address: Ipv6Addr| u64::from(address.segments()[self.groups.0]);
                at(last) - at(first) + 1
            }
            _ => 1,
        }
    }

    /// Returns the number of ports.
    pub fn port_count(&self) -> u64 {
        u64::from(self.ports.1) - u64::from(self.ports.0) + 1
    }
}

/// Formats a range like pkt-gen: `range is 10.0.0.1:1234 to 10.0.0.1:1234`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.ports;
        match self.first {
            IpAddr::V4(_) => write!(f, "range is {}:{from} to {}:{to}", self.first, self.last),
            IpAddr::V6(_) => write!(
                f,
                "range is {}@[{}]:{from} to {}@[{}]:{to}",
                self.groups.0, self.first, self.groups.1, self.last
            ),
        }
    }
}

/// One end of a range.
#[derive(Clone, Copy)]
struct End {
    address: IpAddr,
    port: Option<u16>,
    group: Option<usize>,
}

impl End {
    fn parse(text: &str, version: IpVersion) -> Result<End, String> {
        match version {
            IpVersion::Ipv4 => {
                let (address, port) = match text.split_once(':') {
                    Some((address, port)) => (address, Some(port)),
                    None => (text, None),
                };
                let address: Ipv4Addr = address
                    .parse()
                    .map_err(|_| format!("`{address}` is not an IPv4 address (-6 for IPv6)"))?;
                Ok(End {
                    address: address.into(),
                    port: port.map(parse_port).transpose()?,
                    group: None,
                })
            }
            IpVersion::Ipv6 => End::ipv6(text),
        }
    }

    /// Parses `7@[2001:2::1]:53`; a port requires brackets.
    fn ipv6(text: &str) -> Result<End, String> {
        let (group, text) = match text.split_once('@') {
            Some((group, text)) => {
                let group: usize = group
                    .parse()
                    .map_err(|_| format!("`{group}` is not a group from 0 to 7"))?;
                (Some(group.min(LAST_GROUP)), text)
            }
            None => (None, text),
        };
        let (address, port) = match text.strip_prefix('[').and_then(|t| t.split_once(']')) {
            Some((address, "")) => (address, None),
            Some((address, after)) => {
                let port = after
                    .strip_prefix(':')
                    .ok_or_else(|| format!("`{after}` after the bracket is not a port"))?;
                (address, Some(parse_port(port)?))
            }
            None => (text, None),
        };
        let address: Ipv6Addr = address
            .parse()
            .map_err(|_| format!("`{address}` is not an IPv6 address (-4 for IPv4)"))?;
        Ok(End {
            address: address.into(),
            port,
            group,
        })
    }
}

/// Parses a decimal port, or a hexadecimal one after `0x`.
fn parse_port(text: &str) -> Result<u16, String> {
    match text.strip_prefix("0x") {
        Some(hexadecimal) => u16::from_str_radix(hexadecimal, 16),
        None => text.parse(),
    }
    .map_err(|_| format!("`{text}` is not a port from 0 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use IpVersion::{Ipv4, Ipv6};

    /// Ranges as typed, what the logs in the archive print for them (build 2277 and build 2786),
    /// and their number of flows.
    #[test]
    fn ranges_are_understood_as_the_archives_logs_show() {
        for (typed, version, shown, flows) in [
            (
                "198.18.10.1:2001-198.18.10.20",
                Ipv4,
                "range is 198.18.10.1:2001 to 198.18.10.20:2001",
                20,
            ),
            (
                "198.19.10.1:2001-198.19.10.100",
                Ipv4,
                "range is 198.19.10.1:2001 to 198.19.10.100:2001",
                100,
            ),
            (
                "10.0.0.1",
                Ipv4,
                "range is 10.0.0.1:1234 to 10.0.0.1:1234",
                1,
            ),
            (
                "10.0.0.9:9-10.0.0.1:3",
                Ipv4,
                "range is 10.0.0.1:3 to 10.0.0.9:9",
                63,
            ),
            (
                "0.0.0.0:0-255.255.255.255:0xffff",
                Ipv4,
                "range is 0.0.0.0:0 to 255.255.255.255:65535",
                1 << 48,
            ),
            (
                "[2001:2:0:10::1]-[2001:2:0:10::14]",
                Ipv6,
                "range is 7@[2001:2:0:10::1]:1234 to 7@[2001:2:0:10::14]:1234",
                20,
            ),
            (
                "5@[2001:2::1:0:0]:53-2001:2::9:0:0",
                Ipv6,
                "range is 5@[2001:2::1:0:0]:53 to 5@[2001:2::9:0:0]:53",
                9,
            ),
        ] {
            let range = Range::parse(typed, version).unwrap();
            assert_eq!(range.to_string(), shown);
            assert_eq!(range.addresses() * range.port_count(), flows, "{typed}");
        }
    }

    #[test]
    fn invalid_ranges_have_a_reason() {
        for (typed, version, reason) in [
            ("", Ipv4, "not an IPv4 address"),
            ("10.0.0", Ipv4, "not an IPv4 address"),
            ("10.0.0.1:70000", Ipv4, "not a port"),
            ("10.0.0.1-", Ipv4, "not an IPv4 address"),
            ("[2001:2::1]", Ipv4, "not an IPv4 address"),
            ("10.0.0.1", Ipv6, "not an IPv6 address"),
            ("[2001:2::1]53", Ipv6, "after the bracket"),
            ("x@2001:2::1", Ipv6, "not a group"),
            ("[2001:2::1]-[2001:3::1]", Ipv6, "group 7"),
        ] {
            let error = Range::parse(typed, version).unwrap_err();
            assert!(error.contains(reason), "{typed}: {error}");
        }
    }
}
