//! Ranges of addresses and ports: `198.18.10.1-20`, `198.19.10.1-198.19.10.100:2000-2010`.
//!
//! Start with [`Range`].

use std::net::IpAddr;
use std::str::FromStr;

use fwdlab_model::units::UnitError;

/// A range of addresses, with a range of ports if given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub first: IpAddr,
    /// The last address: same version, and not before the first.
    pub last: IpAddr,
    /// The first and the last port.
    pub ports: Option<(u16, u16)>,
}

impl Range {
    /// Returns the number of addresses; `None` if it exceeds 32 bits.
    pub fn count(&self) -> Option<u32> {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6),
        };
        u32::try_from(bits(self.last) - bits(self.first) + 1).ok()
    }
}

impl FromStr for Range {
    type Err = UnitError;

    /// Parses one address, or two separated by `-`, then `:` and ports. The last part of the second
    /// address is enough. IPv6 addresses with ports need brackets.
    fn from_str(text: &str) -> Result<Range, UnitError> {
        let bad = |cause: &str| UnitError {
            text: text.into(),
            what: "range of addresses",
            reason: cause.into(),
        };
        const RIGHT: &str = "say 198.18.10.1, 198.18.10.1-20, 198.18.10.1-198.18.10.20:2000-2010, 2001:2::1-2001:2::14, or \
                             [2001:2::1]-[2001:2::14]:2000";
        let typed = text.trim();
        let is_v4 = !typed.contains("::") && typed.matches(':').count() < 2;
        let (addresses, ports) = if is_v4 {
            typed
                .split_once(':')
                .map_or((typed, None), |(a, p)| (a, Some(p)))
        } else {
            typed
                .rsplit_once("]:")
                .map_or((typed, None), |(a, p)| (a, Some(p)))
        };
        let address = |text: &str| -> Option<IpAddr> {
            text.trim_matches(|c| c == '[' || c == ']').parse().ok()
        };
        let (first, last) = match addresses.split_once('-') {
            None => (addresses, None),
            Some((first, last)) => (first, Some(last)),
        };
        let first = address(first).ok_or_else(|| bad(RIGHT))?;
        let last = match (first, last) {
            (_, None) => first,
            (IpAddr::V4(v4), Some(short)) if short.parse::<u8>().is_ok() => {
                let [a, b, c, _] = v4.octets();
                IpAddr::from([a, b, c, short.parse().unwrap_or(0)])
            }
            (_, Some(last)) => address(last).ok_or_else(|| bad(RIGHT))?,
        };
        if first.is_ipv4() != last.is_ipv4() {
            return Err(bad("one address is IPv4 and the other IPv6"));
        }
        if last < first {
            return Err(bad("the last address is before the first"));
        }
        let port = |text: &str| text.parse::<u16>().map_err(|_| bad("a port is 0 to 65535"));
        let ports = match ports.map(|ports| ports.split_once('-').unwrap_or((ports, ports))) {
            None => None,
            Some((first, last)) => Some((port(first)?, port(last)?)),
        };
        if ports.is_some_and(|(first, last)| last < first) {
            return Err(bad("the last port is before the first"));
        }
        Ok(Range { first, last, ports })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_people_type_them() {
        for (text, first, last, ports) in [
            ("198.18.10.1", "198.18.10.1", "198.18.10.1", None),
            ("198.18.10.1-20", "198.18.10.1", "198.18.10.20", None),
            (
                "198.18.10.1-198.18.11.20:2000",
                "198.18.10.1",
                "198.18.11.20",
                Some((2000, 2000)),
            ),
            (
                "198.18.10.1:2000-2010",
                "198.18.10.1",
                "198.18.10.1",
                Some((2000, 2010)),
            ),
            ("2001:2::1-2001:2::64", "2001:2::1", "2001:2::64", None),
            (
                "[2001:2::1]-[2001:2::64]:53",
                "2001:2::1",
                "2001:2::64",
                Some((53, 53)),
            ),
            (
                "[2001:2::1]:53-54",
                "2001:2::1",
                "2001:2::1",
                Some((53, 54)),
            ),
        ] {
            let range: Range = text.parse().unwrap();
            assert_eq!(range.first.to_string(), first, "{text}");
            assert_eq!(range.last.to_string(), last, "{text}");
            assert_eq!(range.ports, ports, "{text}");
        }
        assert_eq!("198.18.10.1-20".parse::<Range>().unwrap().count(), Some(20));
        assert_eq!("::1-ff::1".parse::<Range>().unwrap().count(), None);
    }

    #[test]
    fn others_are_refused() {
        for bad in [
            "",
            "x",
            "198.18.10",
            "198.18.10.9-1",
            "198.18.10.1-300",
            "198.18.10.1-2001:2::1",
            "198.18.10.1:70000",
            "198.18.10.1:9-1",
            "198.18.10.1:",
        ] {
            let error = bad.parse::<Range>().unwrap_err().to_string();
            assert!(
                error.contains("is not a range of addresses"),
                "{bad}: {error}"
            );
        }
    }
}
