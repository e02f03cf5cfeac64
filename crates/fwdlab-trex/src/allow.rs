//! Who may connect, by the address of the client: TRex's protocol has no authentication. Start with
//! [`Source`].

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Client addresses: one, or those of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    address: IpAddr,
    length: u8,
}

impl Source {
    /// Returns true if this is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        // a dual-stack socket shows IPv4 addresses as IPv6
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differs = u32::from(ours) ^ u32::from(theirs);
                differs.leading_zeros() >= self.length.into()
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differs = u128::from(ours) ^ u128::from(theirs);
                differs.leading_zeros() >= self.length.into()
            }
            _ => false,
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let wrong = || format!("'{text}' is neither an address nor a network such as 10.0.0.0/8");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => longest,
            Some(length) => length.parse().map_err(|_| wrong())?,
        };
        match length <= longest {
            true => Ok(Source { address, length }),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_addresses() {
        let has = |source: &str, address: &str| {
            let source: Source = source.parse().unwrap();
            source.contains(address.parse().unwrap())
        };
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("10.1.2.3", "10.1.2.3") && !has("10.1.2.3", "10.1.2.2"));
        assert!(has("0.0.0.0/0", "203.0.113.9") && !has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("10.0.0.0/8", "::ffff:10.0.0.1"));
        assert!(
            has("2001:db8::/33", "2001:db8:7fff::1") && !has("2001:db8::/33", "2001:db8:8000::1")
        );
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0/8",
            "::/129",
            "host",
            "10.0.0.0/-1",
        ] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong}");
        }
    }
}
