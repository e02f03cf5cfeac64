//! Units in input and output: frame sizes, rates, durations.
//!
//! This is the only place where a text becomes a number; a value that exists is valid. It does not
//! format tables (`report` does) and knows no link except its arguments. Start with [`FrameSize`]
//! and [`Load`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::link::{Layer, MeanSize};
pub use crate::mix::imix_estimate_l2_bps;

/// Bytes that every frame occupies on the wire beyond its own size: 7 preamble, 1 start delimiter,
/// 12 inter-frame gap.
pub const WIRE_OVERHEAD_BYTES: u64 = 20;

/// Bytes of Ethernet header and FCS around the IP packet of an untagged frame.
pub const ETHERNET_OVERHEAD_BYTES: u64 = 18;

/// Bytes of the frame check sequence: included in the frame size, never in a buffer.
pub const FCS_BYTES: u16 = 4;

/// Returns a count with its noun: `1 trial`, `24 trials`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Why a text is not a value of a unit. Displays as a sentence that contains the text and shows
/// valid ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: {reason}")]
pub struct UnitError {
    /// The typed text.
    pub text: String,
    /// The expected kind of value.
    pub what: &'static str,
    /// Why it is invalid, and the correct form.
    pub reason: String,
}

impl UnitError {
    pub(crate) fn new(text: &str, what: &'static str, cause: impl Into<String>) -> Self {
        // enough to recognise it; the text may be a whole file by mistake
        let end = text.char_indices().nth(80).map_or(text.len(), |(at, _)| at);
        let dots = if end < text.len() { "..." } else { "" };
        UnitError {
            text: format!("{}{dots}", &text[..end]),
            what,
            reason: cause.into(),
        }
    }
}

/// Decimal numbers: digits with a decimal point, no sign, no exponent, no separators.
pub(crate) mod decimal {
    /// Splits a text into a number and the unit behind it, both trimmed.
    pub(crate) fn split(text: &str) -> (&str, &str) {
        let typed = text.trim();
        let end = typed
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(typed.len());
        let (number, unit) = typed.split_at(end);
        (number, unit.trim())
    }

    /// Returns the number times a power of ten, correctly rounded once: 14.88 with 6 is 14880000
    /// exactly.
    pub(crate) fn parse(number: &str, exponent: u32) -> Option<f64> {
        let plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let value: f64 = plain
            .then(|| format!("{number}e{exponent}").parse().ok())
            .flatten()?;
        value.is_finite().then_some(value)
    }
}

/// Returns why a unit of a rate with a capital `B` is refused: in other tools that means bytes,
/// which are eight times as much.
pub fn bytes_or_bits(unit: &str) -> Option<&'static str> {
    unit.contains('B').then_some(
        "a capital B means bytes, and rates are in bits here: write 80Mbps for 10 MB/s, with a small b",
    )
}

/// The size of an Ethernet frame from destination MAC to FCS inclusive (RFC 1242 §3.5, RFC 2544
/// §9.1), in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct FrameSize(u16);

impl FrameSize {
    /// The smallest Ethernet frame.
    pub const MIN: FrameSize = FrameSize(64);
    /// The largest frame that senders and receivers support. The engine checks it against the MTU
    /// of a port.
    pub const MAX: FrameSize = FrameSize(16_384);

    /// Creates a frame size of 64 to 16384 bytes, including the FCS.
    ///
    /// # Errors
    /// If the number is out of range.
    pub fn new(bytes: u16) -> Result<Self, UnitError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&bytes) {
            Ok(FrameSize(bytes))
        } else {
            Err(UnitError::new(
                &bytes.to_string(),
                "frame size",
                "64 to 16384 bytes and no more than the MTU plus 18, including the FCS (what pkt-gen calls 60 is 64 here)",
            ))
        }
    }

    /// Returns the bytes from destination MAC to FCS.
    pub fn bytes(self) -> u16 {
        self.0
    }

    /// Returns the bytes of the same frame in memory, without the FCS.
    pub fn buffer_bytes(self) -> u16 {
        self.0 - FCS_BYTES
    }

    /// Returns the frames per second of a link that is full of frames of this size:
    /// `link / ((S + 20) * 8)`.
    pub fn line_rate_pps(self, link_bps: f64) -> f64 {
        link_bps / ((u64::from(self.0) + WIRE_OVERHEAD_BYTES) as f64 * 8.0)
    }

    /// Returns the bits per second at the physical layer, including preamble and gap.
    pub fn l1_bps(self, pps: f64) -> f64 {
        pps * (u64::from(self.0) + WIRE_OVERHEAD_BYTES) as f64 * 8.0
    }

    /// Returns the bits per second of frames, including the FCS.
    pub fn l2_bps(self, pps: f64) -> f64 {
        pps * f64::from(self.0) * 8.0
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FrameSize {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let advice = match text.contains("imix") {
            true => {
                "use a number of bytes such as 64; mixes are profiles, as in fwdlab trial --profile imix"
            }
            false => "use a number of bytes such as 64",
        };
        let bytes = text.trim().parse();
        let bytes = bytes.map_err(|_| UnitError::new(text, "frame size", advice))?;
        FrameSize::new(bytes)
    }
}

/// A load to offer: a rate in frames or bits per second, or as fast as the engine can.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// As fast as the engine can (full speed).
    Max,
    /// Frames per second.
    Frames(f64),
    /// Bits per second with preamble and gap (the meaning of plain `Gbps`).
    BitsL1(f64),
    /// Bits per second of frames with FCS.
    BitsL2(f64),
    /// Bits per second of IP packets.
    BitsL3(f64),
}

impl Load {
    /// Returns the load in frames per second of one size or of a mix; `None` for [`Load::Max`].
    pub fn pps(self, frames: impl Into<MeanSize>) -> Option<f64> {
        let frames = frames.into();
        match self {
            Load::Max => None,
            Load::Frames(pps) => Some(pps),
            Load::BitsL1(bps) => Some(frames.pps(Layer::L1, bps)),
            Load::BitsL2(bps) => Some(frames.pps(Layer::L2, bps)),
            Load::BitsL3(bps) => Some(frames.pps(Layer::L3, bps)),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Load::Max => f.write_str("max"),
            Load::Frames(pps) => write!(f, "{}pps", scaled(pps)),
            Load::BitsL1(bps) => write!(f, "{}bps-l1", scaled(bps)),
            Load::BitsL2(bps) => write!(f, "{}bps-l2", scaled(bps)),
            Load::BitsL3(bps) => write!(f, "{}bps-l3", scaled(bps)),
        }
    }
}

fn scaled(value: f64) -> String {
    let (divisor, prefix) = match value {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{}{prefix}", value / divisor)
}

impl FromStr for Load {
    type Err = UnitError;

    /// `max`, `14.88Mpps`, `1kpps`, `10Gbps` (layer 1), `9.4Gbps-l2`, `5Gbps-l3`. Prefixes are
    /// decimal (k is 1000, never 1024); `bps` and `pps` are case-insensitive.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WHAT: &str = "load";
        const RIGHT: &str = "use max, 1.5Mpps, 10Gbps (on the wire, L1) or 9.4Gbps-l2";
        let bad = |reason: &str| UnitError::new(text, WHAT, reason);
        let typed = text.trim();
        if typed.eq_ignore_ascii_case("max") {
            return Ok(Load::Max);
        }
        if typed.ends_with('%') {
            return Err(bad(
                "a percentage needs a link speed, and these links are virtual; use a rate such as 1.5Mpps",
            ));
        }
        if typed.contains(',') {
            return Err(bad(
                "a comma is ambiguous (decimals or thousands); write 1.488Mpps, or 1488kpps",
            ));
        }
        let (number, unit) = decimal::split(typed);
        let (exponent, unit) = match unit.chars().next() {
            Some('k' | 'K') => (3, &unit[1..]),
            Some('M' | 'm') => (6, &unit[1..]),
            Some('G' | 'g') => (9, &unit[1..]),
            _ => (0, unit),
        };
        if let Some(reason) = bytes_or_bits(unit) {
            return Err(bad(reason));
        }
        let value = decimal::parse(number, exponent).ok_or_else(|| bad(RIGHT))?;
        let load = match unit.to_ascii_lowercase().as_str() {
            "pps" | "fps" => Load::Frames(value),
            "bps" | "bps-l1" | "bit/s" => Load::BitsL1(value),
            "bps-l2" => Load::BitsL2(value),
            "bps-l3" => Load::BitsL3(value),
            "" => return Err(bad(&format!("the number has no unit; {RIGHT}"))),
            _ => return Err(bad(RIGHT)),
        };
        if value > 0.0 && value <= 1e12 {
            Ok(load)
        } else {
            Err(bad("it must be above 0 and at most 1000 G"))
        }
    }
}

/// Parses a load for a command or a campaign; a plain number is frames per second: `1e6`, `10kpps`,
/// `100Mbps`.
///
/// # Errors
/// If the text is not a load.
pub fn parse_load(text: &str) -> Result<Load, UnitError> {
    let typed = text.trim();
    let plain = typed
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e'));
    match typed.parse::<f64>() {
        Ok(pps) if plain && pps > 0.0 && pps <= 1e12 => Ok(Load::Frames(pps)),
        Ok(_) if plain => {
            let reason = "it must be above 0 and at most 1e12 frames per second";
            Err(UnitError::new(text, "load", reason))
        }
        _ => typed.parse(),
    }
}

/// Parses `30s`, `500ms`, `2m`, `1.5s`; a plain number is refused because it has no unit.
///
/// # Errors
/// If the text is not a duration, or it is zero or longer than a day.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const WHAT: &str = "duration";
    let typed = text.trim();
    let digits = typed
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(typed.len());
    let (number, unit) = typed.split_at(digits);
    let bad = || UnitError::new(text, WHAT, "for example 30s, 500ms or 2m");
    let number: f64 = number.parse().map_err(|_| bad())?;
    let seconds = match unit.trim() {
        "ms" => number / 1e3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(bad()),
    };
    if seconds > 0.0 && seconds <= 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(UnitError::new(
            text,
            WHAT,
            "it must be above 0 and at most 24h",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_as_people_type_them() {
        for (text, pps_at_64) in [
            ("14.88Mpps", 14.88e6),
            ("1kpps", 1e3),
            ("250 kpps", 250e3),
            ("10Gbps", 10e9 / 672.0),
            ("1gbps", 1e9 / 672.0),
            ("5.12Mbps-l2", 1e4),
            ("3.68Mbps-l3", 1e4),
        ] {
            let load: Load = text.parse().unwrap();
            let pps = load.pps(FrameSize::MIN).unwrap();
            assert!((pps / pps_at_64 - 1.0).abs() < 1e-12, "{text}: {pps}");
        }
        // rounded once: rate displays round down, and 14,879,999 would be a frame short
        assert_eq!(
            "14.88Mpps".parse::<Load>().unwrap(),
            Load::Frames(14_880_000.0)
        );
        // K is 1000: a tool that used 1024 showed these frames as 551.6 K
        assert_eq!(
            "564.842Kpps".parse::<Load>().unwrap(),
            Load::Frames(564_842.0)
        );
        assert_eq!("max".parse::<Load>().unwrap().pps(FrameSize::MIN), None);
    }

    #[test]
    fn jumbo_frames_are_sizes() {
        for bytes in [64_u16, 1519, 2048, 4096, 9018, 9216, 16_384] {
            let size: FrameSize = bytes.to_string().parse().unwrap();
            assert_eq!(
                (size.bytes(), FrameSize::new(bytes).unwrap()),
                (bytes, size)
            );
        }
        // 9978 Mbit/s of frames on a line of 10 Gbit/s
        let size = FrameSize::new(9000).unwrap();
        let l2_bps = size.l2_bps(size.line_rate_pps(10e9));
        assert_eq!((l2_bps / 1e6).round(), 9978.0);
    }

    #[test]
    fn errors_in_units_list_valid_ones() {
        for bytes in [63, 16_385] {
            let error = FrameSize::new(bytes).unwrap_err().to_string();
            assert!(
                error.contains("what pkt-gen calls 60 is 64 here"),
                "{error}"
            );
        }
        for text in [
            "",
            "5",
            "fast",
            "50%",
            "-1kpps",
            "0pps",
            "1e3pps",
            "3Tpps",
            "inf",
            "nanpps",
            "1,488Mpps",
            "..pps",
            ".pps",
        ] {
            let error = text.parse::<Load>().unwrap_err().to_string();
            assert!(
                error.contains("Mpps") || error.contains("above 0"),
                "{text}: {error}"
            );
        }
        // bytes are eight times as much
        for text in ["10MBps", "10KBps", "10Bps", "10MB/s", "10GBPS"] {
            let error = text.parse::<Load>().unwrap_err().to_string();
            assert!(error.contains("a capital B means bytes"), "{text}: {error}");
            assert!(text.parse::<crate::link::LinkSpeed>().is_err(), "{text}");
        }
        for text in ["", "5", "0s", "s", "1d", "25h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("1.5s").unwrap(), Duration::from_millis(1500));
        for text in ["63", "16385", "x", "-64", ""] {
            assert!(text.parse::<FrameSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn line_rates_of_the_field() {
        // RFC 2544 App. B and every talk in this field: 64 bytes on 1G and 10G
        assert_eq!(FrameSize::MIN.line_rate_pps(1e9).round(), 1_488_095.0);
        assert_eq!(FrameSize::MIN.line_rate_pps(10e9).round(), 14_880_952.0);
        assert_eq!(FrameSize(1518).line_rate_pps(10e9).round(), 812_744.0);
    }

    proptest::proptest! {
        #[test]
        fn a_load_reads_back_as_it_prints(value in 1.0f64..1e11, kind in 0..4) {
            let load = match kind { 0 => Load::Frames(value), 1 => Load::BitsL1(value), 2 => Load::BitsL2(value), _ => Load::BitsL3(value) };
            let again: Load = load.to_string().parse().unwrap();
            let (a, b) = (load.pps(FrameSize::MIN).unwrap(), again.pps(FrameSize::MIN).unwrap());
            proptest::prop_assert!((a / b - 1.0).abs() < 1e-12);
        }
    }
}
