//! Default routes: finds routes of a host that lead to the whole Internet, as one route or as the
//! halves that VPNs set.
//!
//! Routes are read with `ip`, in all tables, on this machine or on another one;
//! [`dangers`](super::dangers) judges the use of a port with such a route. Start with
//! [`default_route`].

use std::net::IpAddr;

use crate::host::{Host, HostError};

/// Lists candidates only: a router may have a million routes. A kernel without IPv6 has no IPv6
/// routes.
const LOOK: &str = "for f in -4 -6; do ip $f -o route show table all 2>/dev/null; done | \
                    grep -E '^(default|[0-9a-f.:]+/([0-9]|1[01])) ' || :";

/// Returns the prefix of a default route through this interface: `default`, or `0.0.0.0/1`.
///
/// `interface` is the interface's own name, as the kernel prints it; routes never contain
/// alternative names.
///
/// # Errors
/// Fails as [`Host::run`] does.
pub(crate) fn default_route(host: &dyn Host, interface: &str) -> Result<Option<String>, HostError> {
    let routes = host.query("sh", &["-c", LOOK])?;
    let mut defaults = routes
        .lines()
        .filter_map(|route| parse_line(route, interface));
    Ok(defaults.next().map(str::to_owned))
}

/// Parses `0.0.0.0/1 via 10.0.0.1 dev eth0`; of several next hops each has its `dev`. A route that
/// is not unicast begins with its type.
fn parse_line<'a>(route: &'a str, interface: &str) -> Option<&'a str> {
    let words: Vec<&str> = route.split_whitespace().collect();
    let leaves = words.windows(2).any(|two| two == ["dev", interface]);
    let prefix = words
        .first()
        .filter(|prefix| leaves && is_default(prefix))?;
    Some(prefix)
}

/// Describes a port with such a route.
pub(crate) fn words(prefix: &str) -> String {
    match prefix {
        "default" => "it carries the default route".into(),
        part => format!("it carries a part of a default route ({part})"),
    }
}

/// Returns true if the prefix is everything, or so large that it can only be a part of everything.
/// The largest assignments ever made are a /8 of IPv4 and a /12 of IPv6; VPNs split default routes
/// into such parts (0.0.0.0/1 and 128.0.0.0/1, 2000::/3).
pub(crate) fn is_default(prefix: &str) -> bool {
    if prefix == "default" {
        return true;
    }
    let Some((address, length)) = prefix.split_once('/') else {
        return false;
    };
    match (address.parse(), length.parse::<u32>()) {
        (Ok(IpAddr::V4(address)), Ok(length)) => length < 8 && !address.is_multicast(),
        // the part that is in use begins with the bits 001
        (Ok(IpAddr::V6(address)), Ok(length)) => {
            let first_bits = (u128::from(address) >> 125) as u32;
            length < 12 && (first_bits ^ 0b001) >> (3 - length.min(3)) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_halves_of_a_default_route_count_as_one() {
        for (prefix, expected) in [
            ("default", true),
            ("0.0.0.0/0", true),
            ("0.0.0.0/1", true),
            ("128.0.0.0/1", true),
            ("64.0.0.0/2", true),
            ("8.0.0.0/7", true),
            ("10.0.0.0/8", false),
            ("224.0.0.0/4", false),
            ("198.18.0.0/15", false),
            ("10.0.0.1", false),
            ("::/0", true),
            ("::/1", true),
            ("8000::/1", false),
            ("2000::/3", true),
            ("3000::/4", true),
            ("2400::/12", false),
            ("fc00::/7", false),
            ("fe80::/10", false),
            ("x/1", false),
        ] {
            assert_eq!(is_default(prefix), expected, "{prefix}");
        }
    }

    /// Output of `ip -o route show table all` (iproute2 6.1).
    #[test]
    fn routes_are_those_of_the_interface_they_leave_by() {
        for (route, interface, expected) in [
            (
                "default via 10.0.0.1 dev eth0 proto dhcp metric 100 ",
                "eth0",
                Some("default"),
            ),
            ("default via 10.0.0.1 dev eth0 table 100 ", "eth1", None),
            (
                "128.0.0.0/1 dev tun0 scope link ",
                "tun0",
                Some("128.0.0.0/1"),
            ),
            (
                "default proto static \\\tnexthop via 10.1.0.1 dev eth1 weight 1 \\\tnexthop dev eth2 weight 1 ",
                "eth2",
                Some("default"),
            ),
            (
                "unreachable default dev lo metric 4294967295 error 4294967195 ",
                "lo",
                None,
            ),
            (
                "multicast ff00::/8 dev eth0 table local proto kernel metric 256 ",
                "eth0",
                None,
            ),
            ("", "eth0", None),
        ] {
            assert_eq!(parse_line(route, interface), expected, "{route}");
        }
    }
}
