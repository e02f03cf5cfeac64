//! Values in campaigns and command-line options: times, shares, loads.
//!
//! A value that exists is valid. Start with [`Period`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::link::LinkLoad;
use crate::typed::{Numbers, typed};
use crate::units::{Load, UnitError, parse_duration, parse_load};

/// A time above 0: `10s`, `500ms`, `20min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period(pub Duration);

/// A time that may be zero: `0s`, `10s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause(pub Duration);

/// A share: `0.5%`, `0.005`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

/// A percentage: `50%`, `50`. Its context defines the base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(pub f64);

/// A load: `1Mpps`, `1e6`, `10Gbps`, `50%` of the line rate, `max`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub LinkLoad);

impl Period {
    /// Returns a number of seconds.
    pub const fn seconds(seconds: u64) -> Period {
        Period(Duration::from_secs(seconds))
    }

    /// Returns the time in nanoseconds.
    pub fn ns(self) -> u64 {
        whole_ns(self.0)
    }
}

impl Pause {
    /// Returns a number of seconds.
    pub const fn seconds(seconds: u64) -> Pause {
        Pause(Duration::from_secs(seconds))
    }

    /// Returns the time in nanoseconds.
    pub fn ns(self) -> u64 {
        whole_ns(self.0)
    }
}

fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl FromStr for Period {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_duration(text).map(Period)
    }
}

impl FromStr for Pause {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim() {
            "0" | "0s" => Ok(Pause(Duration::ZERO)),
            typed => parse_duration(typed).map(Pause),
        }
    }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let number = match text.trim().strip_suffix('%') {
            Some(percent) => format!("{}e-2", percent.trim()).parse(),
            None => text.trim().parse(),
        };
        match number {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Share(share)),
            _ => Err(UnitError::new(
                text,
                "share",
                "for example 0.5% or 0.005; it must be from 0 to 1",
            )),
        }
    }
}

impl FromStr for Percent {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let typed = text.trim();
        match typed.strip_suffix('%').unwrap_or(typed).trim().parse() {
            Ok(percent) if percent > 0.0 && percent <= 1000.0 => Ok(Percent(percent)),
            _ => Err(UnitError::new(
                text,
                "percentage",
                "for example 50%; it must be above 0 and at most 1000",
            )),
        }
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim().ends_with('%') {
            true => text.parse().map(Rate),
            false => parse_load(text).map(|load| Rate(LinkLoad::Load(load))),
        }
    }
}

/// Writes a time in the largest unit in which it is a whole number.
fn write_time(f: &mut fmt::Formatter<'_>, time: Duration) -> fmt::Result {
    let ms = time.as_secs_f64() * 1e3;
    match time.as_secs() {
        0 if time.is_zero() => f.write_str("0s"),
        _ if time.subsec_nanos() > 0 => write!(f, "{ms}ms"),
        seconds if seconds.is_multiple_of(3600) => write!(f, "{}h", seconds / 3600),
        seconds if seconds.is_multiple_of(60) => write!(f, "{}min", seconds / 60),
        seconds => write!(f, "{seconds}s"),
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_time(f, self.0)
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_time(f, self.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LinkLoad::Load(Load::Frames(pps)) => pps.fmt(f),
            other => other.fmt(f),
        }
    }
}

typed!(Period, Numbers::No, "a time in quotes, such as \"10s\"", {
    "description": "A time above 0: 10s, 500ms, 20min, 1h",
    "type": "string",
    "pattern": "^\\s*[0-9.]+\\s*(ms|s|m|min|h)\\s*$"
});
typed!(Pause, Numbers::No, "a time in quotes, such as \"1s\", or \"0s\" for none", {
    "description": "A time: 0s, 10s, 500ms",
    "type": "string",
    "pattern": "^\\s*([0-9.]+\\s*(ms|s|m|min|h)|0)\\s*$"
});
typed!(Share, Numbers::Any, "a share such as \"0.5%\" or 0.005", {
    "description": "A share: \"0.5%\" or 0.005",
    "anyOf": [{ "type": "number", "minimum": 0, "maximum": 1 }, { "type": "string" }]
});
typed!(Percent, Numbers::Any, "a percentage such as \"50%\"", {
    "description": "A percentage: \"50%\" or 50",
    "anyOf": [{ "type": "number", "exclusiveMinimum": 0, "maximum": 1000 }, { "type": "string" }]
});
typed!(Rate, Numbers::Any, "a load such as \"1Mpps\" or 1e6", {
    "description": "A load: \"1Mpps\", 1e6 (frames per second), \"10Gbps\" (L1), \"9.4Gbps-l2\", \"50%\" (of link), \"max\"",
    "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string" }]
});

/// Values are kept in the form in which they are typed.
macro_rules! kept {
    ($($type:ty),*) => {
        $(impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        })*
    };
}

kept!(Period, Pause, Share, Percent, Rate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back_as_they_print() {
        for text in ["10s", "500ms", "20min", "1h", "1.5ms"] {
            assert_eq!(text.parse::<Period>().unwrap().to_string(), text);
        }
        assert_eq!("90s".parse::<Period>().unwrap().to_string(), "90s");
        assert_eq!("0s".parse::<Pause>().unwrap().to_string(), "0s");
        assert!("0s".parse::<Period>().is_err() && "5".parse::<Pause>().is_err());
    }

    #[test]
    fn shares_and_percentages() {
        for (text, share) in [
            ("0.5%", 0.005),
            ("0.005", 0.005),
            ("1e-7", 1e-7),
            ("29%", 0.29),
        ] {
            assert_eq!(text.parse::<Share>().unwrap().0, share, "{text}");
        }
        for text in ["", "200%", "-1%", "x", "NaN"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert_eq!("29%".parse::<Percent>().unwrap().0, 29.0);
        assert!("0%".parse::<Percent>().is_err());
        for text in ["9001", "50%", "12.5%"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert!("0%".parse::<Rate>().is_err());
    }
}
