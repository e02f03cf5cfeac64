//! Values in a profile: addresses, numbers, bytes, times.
//!
//! Does not know where they are written. Start with [`Value`].

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::typed::{Numbers, typed};

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a MAC address such as 02:00:00:00:00:01");
        let mut bytes = [0; 6];
        let mut pieces = text.split([':', '-']);
        for byte in &mut bytes {
            let piece = pieces.next().filter(|piece| matches!(piece.len(), 1 | 2));
            let piece = piece.filter(|piece| piece.bytes().all(|b| b.is_ascii_hexdigit()));
            let number = piece.and_then(|piece| u8::from_str_radix(piece, 16).ok());
            *byte = number.ok_or_else(wrong)?;
        }
        match pieces.next() {
            None => Ok(Mac(bytes)),
            Some(_) => Err(wrong()),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A value of a field: a number, or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value {
    /// `7`, `"0xff"`, or for numbers beyond those of TOML `"18446744073709551615"`.
    Number(u64),
    /// `"198.18.0.1"`
    Ipv4(Ipv4Addr),
    /// `"2001:2::1"`
    Ipv6(Ipv6Addr),
    /// `"02:00:00:00:00:01"`
    Mac(Mac),
}

impl Value {
    /// Returns the value as a number; the first byte of an address is the highest.
    pub fn bits(self) -> u128 {
        match self {
            Value::Number(number) => number.into(),
            Value::Ipv4(address) => u32::from(address).into(),
            Value::Ipv6(address) => address.into(),
            Value::Mac(Mac(bytes)) => bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b)),
        }
    }
}

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        number
            .map(Value::Number)
            .or_else(|| text.parse().map(Value::Ipv4).ok())
            .or_else(|| text.parse().map(Value::Mac).ok())
            .or_else(|| text.parse().map(Value::Ipv6).ok())
            .ok_or_else(|| format!("`{text}` is neither a number nor an IP or MAC address"))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Ipv4(address) => address.fmt(f),
            Value::Ipv6(address) => address.fmt(f),
            Value::Mac(mac) => mac.fmt(f),
        }
    }
}

/// Bytes as hexadecimal digits: `"de ad be ef"`, `"deadbeef"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Hex(pub Vec<u8>);

impl FromStr for Hex {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits: Option<Vec<u8>> = text
            .strip_prefix("0x")
            .unwrap_or(text)
            .chars()
            .filter(|c| !matches!(c, ' ' | ':' | '\n' | '\t'))
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        match digits {
            Some(digits) if digits.len().is_multiple_of(2) => {
                Ok(Hex(digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()))
            }
            Some(_) => Err("an odd number of hexadecimal digits; a byte has two".to_owned()),
            None => Err("bytes are hexadecimal digits, such as \"de ad be ef\"".to_owned()),
        }
    }
}

/// A time: `"10us"`, `"1.5ms"`, `"2s"`. May be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// In nanoseconds.
    pub ns: u64,
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const LONGEST_NS: f64 = 86_400e9;
        let (number, unit) = crate::units::decimal::split(text);
        let exponent = match unit {
            "ns" => 0,
            "us" | "µs" => 3,
            "ms" => 6,
            "s" => 9,
            _ => return Err(format!("`{text}` is not a time such as 10us, 1.5ms or 2s")),
        };
        match crate::units::decimal::parse(number, exponent) {
            Some(ns) if ns <= LONGEST_NS => Ok(Time {
                ns: ns.round() as u64,
            }),
            Some(_) => Err(format!("`{text}` is longer than a day")),
            None => Err(format!("`{text}` is not a time such as 10us, 1.5ms or 2s")),
        }
    }
}

typed!(Mac, Numbers::No, "a MAC address in quotes", {
    "description": "A MAC address: 02:00:00:00:00:01",
    "type": "string",
    "pattern": "^[0-9A-Fa-f]{1,2}([:-][0-9A-Fa-f]{1,2}){5}$"
});
typed!(Value, Numbers::Whole, "a number or an address in quotes", {
    "description": "A number, or an IPv4, IPv6 or MAC address, or 0x and hexadecimal digits",
    "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }]
});
typed!(Hex, Numbers::No, "hexadecimal digits in quotes", {
    "description": "Bytes as hexadecimal digits: de ad be ef",
    "type": "string",
    "pattern": "^(0x)?[0-9A-Fa-f:\\s]*$"
});
typed!(Time, Numbers::No, "a time in quotes, such as \"1ms\"", {
    "description": "A time: 10us, 1.5ms, 2s",
    "type": "string",
    "pattern": "^\\s*[0-9.]+\\s*(ns|us|µs|ms|s)\\s*$"
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_kind() {
        for (text, bits) in [
            ("7", 7),
            ("0xff", 255),
            ("18446744073709551615", u128::from(u64::MAX)),
            ("198.18.0.1", 0xc612_0001),
            ("02:00:00:00:00:01", 0x0200_0000_0001),
            ("2-0-0-0-0-1", 0x0200_0000_0001),
            ("2001:2::1", 0x2001_0002 << 96 | 1),
            ("::1", 1),
        ] {
            assert_eq!(text.parse::<Value>().map(Value::bits), Ok(bits), "{text}");
        }
        for text in ["", "x", "-1", "0x", "1.2.3", "2:0:0:0:0:0:1", "1.5"] {
            assert!(text.parse::<Value>().is_err(), "{text}");
        }
        assert!("2:0:0:0:0".parse::<Mac>().is_err());
        assert!("+2:0:0:0:0:1".parse::<Mac>().is_err());
        assert_eq!(
            "de ad:BE\nef".parse(),
            Ok(Hex(vec![0xde, 0xad, 0xbe, 0xef]))
        );
        assert!("abc".parse::<Hex>().is_err() && "zz".parse::<Hex>().is_err());
        for (text, ns) in [
            ("0s", 0),
            ("1.5ms", 1_500_000),
            ("10us", 10_000),
            ("7ns", 7),
        ] {
            assert_eq!(text.parse(), Ok(Time { ns }), "{text}");
        }
        for text in ["", "5", "1h", "-1s", "90000s", "1e3s"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }
}
