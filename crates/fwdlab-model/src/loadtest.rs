//! Files of TRex load tests: written by `trex-loadtest.py` and drawn by trex-loadtest-viz, and the
//! figures that the latter derives from them.
//!
//! A file has `vars`, the parameters of the load, and `stats`, one entry per second with its time:
//! what each port and all of them sent and received. Channel 0 goes from port 0 to port 1, channel
//! 1 the other way. Units are TRex's: rates in frames and bits per second, utilisation in percent
//! of the line rate of layer 1. Start with [`LoadTest`] and [`performance`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The kind of a run made from such files, and its procedure.
pub const KIND: &str = "loadtest";

/// The viewer's default threshold: the share of lost frames above which a second failed.
pub const FAIL_THRESHOLD: f64 = 0.001;

/// Replaces zero frames per second in files that we write: the viewer divides by the sent frames,
/// and writes no page for NaN.
pub const NONE_SENT: f64 = 1e-9;

/// Thresholds that the viewer accepts.
pub const FAIL_THRESHOLDS: std::ops::RangeInclusive<f64> = 0.0001..=1.0;

/// The keys of `vars` that the viewer requires, with the same values in all files.
pub const CONFIGURATION: [&str; 5] = [
    "warmup_mult",
    "warmup_duration",
    "rampup_target",
    "rampup_duration",
    "hold_duration",
];

/// A load test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadTest {
    /// How the load was made.
    pub vars: BTreeMap<String, Value>,
    /// What was counted.
    pub stats: Seconds,
}

/// Counts by time in seconds, in chronological order ([`LoadTest::parse`] sorts): JSON objects have
/// no order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seconds(pub Vec<(String, BTreeMap<String, Port>)>);

/// The counts of one port in one second. `global` and other entries that are not ports have other
/// keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Port {
    /// Frames sent per second.
    pub tx_pps: f64,
    /// Frames received per second.
    pub rx_pps: f64,
    /// Bits sent per second, of frames with FCS.
    #[serde(default)]
    pub tx_bps: f64,
    /// Bits received per second, of frames with FCS.
    #[serde(default)]
    pub rx_bps: f64,
    /// Share of the line rate sent, in percent.
    #[serde(default)]
    pub tx_util: f64,
    /// Share of the line rate received, in percent.
    #[serde(default)]
    pub rx_util: f64,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A direction through the DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// From port 0 to port 1.
    Zero,
    /// From port 1 to port 0.
    One,
}

impl Channel {
    /// Both, in the viewer's order.
    pub const ALL: [Channel; 2] = [Channel::Zero, Channel::One];

    /// Returns its number.
    pub fn number(self) -> u32 {
        match self {
            Channel::Zero => 0,
            Channel::One => 1,
        }
    }

    /// Returns its sending and its receiving port.
    pub fn ports(self) -> (&'static str, &'static str) {
        match self {
            Channel::Zero => ("0", "1"),
            Channel::One => ("1", "0"),
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.ports();
        write!(f, "{from}\u{2192}{to}")
    }
}

/// A channel's row in the viewer's table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Performance {
    /// Received frames per second at the onset of lasting loss; without one the maximum.
    pub max_ok_pps: f64,
    /// Maximum received frames per second.
    pub max_pps: f64,
    /// Maximum received share of the line rate, in percent, at most 100.
    pub max_line_percent: f64,
}

/// Why a file is not a load test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadTestError {
    /// It is not JSON, or has another structure.
    #[error("it is not a load test: {0}")]
    Shape(String),
    /// It has no seconds.
    #[error("it has no entries in `stats`")]
    Empty,
    /// A key that the viewer requires is missing.
    #[error("`{0}` is missing in `vars`")]
    Missing(&'static str),
    /// A port is missing.
    #[error("second {second} has no port {port} with tx_pps and rx_pps")]
    Port {
        /// The key of the second.
        second: String,
        /// The port.
        port: &'static str,
    },
    /// The key of a second is not a time.
    #[error("the key {0:?} in `stats` is no time in seconds")]
    Time(String),
    /// Two seconds have the same time.
    #[error("second {0} is there twice")]
    Twice(String),
    /// A rate is below 0.
    #[error("second {second}: port {port} has a negative rate ({rate} frames/s)")]
    Negative {
        /// The key of the second.
        second: String,
        /// The port.
        port: &'static str,
        /// The rate.
        rate: String,
    },
}

/// Returns the time of a second, from its key.
pub fn time_s(key: &str) -> Option<f64> {
    let time: f64 = key.parse().ok()?;
    (time.is_finite() && time >= 0.0).then_some(time)
}

impl LoadTest {
    /// Parses a file.
    ///
    /// # Errors
    /// If it lacks something that the viewer requires.
    pub fn parse(bytes: &[u8]) -> Result<LoadTest, LoadTestError> {
        let mut read: LoadTest = serde_json::from_slice(bytes)
            .map_err(|reason| LoadTestError::Shape(reason.to_string()))?;
        if read.stats.0.is_empty() {
            return Err(LoadTestError::Empty);
        }
        for key in CONFIGURATION.into_iter().chain(["profile_file"]) {
            if !read.vars.contains_key(key) {
                return Err(LoadTestError::Missing(key));
            }
        }
        for (second, ports) in &read.stats.0 {
            if time_s(second).is_none() {
                return Err(LoadTestError::Time(second.clone()));
            }
            for port in ["0", "1"] {
                let second = second.clone();
                let Some(found) = ports.get(port) else {
                    return Err(LoadTestError::Port { second, port });
                };
                if let Some(rate) = [found.tx_pps, found.rx_pps].iter().find(|pps| **pps < 0.0) {
                    let rate = rate.to_string();
                    return Err(LoadTestError::Negative { second, port, rate });
                }
            }
        }
        let time = |(key, _): &(String, _)| time_s(key);
        let seconds = &mut read.stats.0;
        seconds.sort_by(|a, b| time(a).partial_cmp(&time(b)).unwrap_or(Ordering::Equal));
        if let Some(pair) = seconds
            .windows(2)
            .find(|pair| time(&pair[0]) == time(&pair[1]))
        {
            return Err(LoadTestError::Twice(pair[1].0.clone()));
        }
        Ok(read)
    }

    /// Returns the name of the profile in the viewer: `imix`, `64B`, or the file's name without its
    /// extension.
    pub fn profile(&self) -> String {
        let file = self
            .vars
            .get("profile_file")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let base = file.rsplit('/').next().unwrap_or(file);
        match file {
            "udp_1pkt_simple_bdir.py" => "64B".into(),
            _ => base.strip_suffix(".py").unwrap_or(base).to_owned(),
        }
    }

    /// Returns true if a channel never sent anything.
    pub fn is_silent(&self, channel: Channel) -> bool {
        self.channel(channel)
            .all(|(_, from, _)| from.tx_pps <= NONE_SENT)
    }

    /// Returns the seconds in which a channel received at least twice what it sent, which no router
    /// does.
    pub fn doubled(&self, channel: Channel) -> Vec<&str> {
        let all = self.channel(channel);
        let doubled =
            all.filter(|(_, from, to)| to.rx_pps >= 1.0 && to.rx_pps >= 2.0 * from.tx_pps);
        doubled.map(|(second, ..)| second).collect()
    }

    /// Iterates over what a channel sent and received, second by second: the sending and the
    /// receiving port.
    pub fn channel(&self, channel: Channel) -> impl Iterator<Item = (&str, &Port, &Port)> {
        let (from, to) = channel.ports();
        let seconds = self.stats.0.iter();
        seconds.filter_map(move |(second, ports)| {
            Some((second.as_str(), ports.get(from)?, ports.get(to)?))
        })
    }
}

/// Returns the viewer's results for a channel: the arithmetic of trex-loadtest-viz, step by step.
pub fn performance(test: &LoadTest, channel: Channel, fail_threshold: f64) -> Performance {
    let mut mark = None;
    let (mut max_pps, mut max_line_percent) = (0.0_f64, 0.0_f64);
    for (_, from, to) in test.channel(channel) {
        // NaN if nothing was sent, and NaN is not above the threshold
        if (from.tx_pps - to.rx_pps) / from.tx_pps > fail_threshold {
            mark.get_or_insert(to.rx_pps);
        } else {
            mark = None;
        }
        max_pps = max_pps.max(to.rx_pps);
        max_line_percent = max_line_percent.max(to.rx_util);
    }
    Performance {
        max_ok_pps: mark.unwrap_or(max_pps),
        max_pps,
        max_line_percent: max_line_percent.min(100.0),
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (second, ports) in &self.0 {
            map.serialize_entry(second, ports)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Seconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("counts by their time")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seconds, A::Error> {
                let mut all = Vec::new();
                while let Some((second, ports)) =
                    map.next_entry::<String, BTreeMap<String, Value>>()?
                {
                    // besides the ports there are totals, which have other keys
                    let ports = ports.into_iter().filter_map(|(name, value)| {
                        let port = serde_json::from_value(value).ok()?;
                        name.parse::<u32>().ok().map(|_| (name, port))
                    });
                    all.push((second, ports.collect()));
                }
                Ok(Seconds(all))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(rates: &[(f64, f64)]) -> LoadTest {
        let second = |(n, (tx_pps, rx_pps)): (usize, &(f64, f64))| {
            let port = |tx_pps: f64, rx_pps: f64| Port {
                tx_pps,
                rx_pps,
                rx_util: rx_pps / 10.0,
                ..Port::default()
            };
            // keys whose text order differs from that of the seconds
            let ports = [
                ("0".to_owned(), port(*tx_pps, 0.0)),
                ("1".to_owned(), port(0.0, *rx_pps)),
            ];
            (format!("{n}.5"), BTreeMap::from(ports))
        };
        let mut vars: BTreeMap<String, Value> = CONFIGURATION
            .map(|key| (key.to_owned(), Value::from(1)))
            .into();
        vars.insert("profile_file".into(), "stl/imix.py".into());
        LoadTest {
            vars,
            stats: Seconds(rates.iter().enumerate().map(second).collect()),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let rates: Vec<(f64, f64)> = (0..12).map(|n| (f64::from(n), f64::from(n))).collect();
        let written = test(&rates);
        let text = serde_json::to_string(&written).unwrap();
        // a whole number of frames must not be written as an integer: Ruby would do an integer
        // division
        assert!(text.contains("\"tx_pps\":1.0"));
        let read = LoadTest::parse(text.as_bytes()).unwrap();
        assert_eq!(read, written);
        let keys: Vec<&str> = read.stats.0.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys[8..], ["8.5", "9.5", "10.5", "11.5"]);
        assert_eq!(read.profile(), "imix");
    }

    /// A JSON object has no order: programs that rewrite it sort its keys as text.
    #[test]
    fn seconds_are_in_the_order_of_time_however_keys_are_sorted() {
        let rates = |n: u32| {
            let sent = f64::from(1000 * n);
            (sent, sent.min(10_500.0))
        };
        let written = test(&(0..120).map(rates).collect::<Vec<_>>());
        let mut sorted = written.clone();
        sorted.stats.0.sort_by(|a, b| a.0.cmp(&b.0));
        assert_ne!(sorted, written);
        let read = LoadTest::parse(&serde_json::to_vec(&sorted).unwrap()).unwrap();
        assert_eq!(read, written);
        let found = performance(&read, Channel::Zero, FAIL_THRESHOLD);
        assert_eq!(found.max_ok_pps, 10_500.0);
    }

    #[test]
    fn more_received_than_a_router_forwards_is_noticed() {
        let one = test(&[(0.0, 0.5), (100.0, 199.0), (100.0, 200.0), (0.0, 7.0)]);
        assert_eq!(one.doubled(Channel::Zero), ["2.5", "3.5"]);
        assert!(one.doubled(Channel::One).is_empty());
    }

    #[test]
    fn missing_values_are_reported() {
        let mut one = test(&[(1.0, 1.0)]);
        one.vars.remove("hold_duration");
        let parse =
            |test: &LoadTest| LoadTest::parse(&serde_json::to_vec(test).unwrap()).unwrap_err();
        assert_eq!(parse(&one), LoadTestError::Missing("hold_duration"));
        assert_eq!(parse(&test(&[])), LoadTestError::Empty);
        let mut one = test(&[(1.0, 1.0)]);
        one.stats.0[0].1.remove("1");
        let words = "second 0.5 has no port 1 with tx_pps and rx_pps";
        assert_eq!(parse(&one).to_string(), words);
        for (keys, words) in [
            (
                ["0.5", "one"],
                "the key \"one\" in `stats` is no time in seconds",
            ),
            (
                ["NaN", "1"],
                "the key \"NaN\" in `stats` is no time in seconds",
            ),
            (
                ["-1", "1"],
                "the key \"-1\" in `stats` is no time in seconds",
            ),
            (["1.0", "1"], "second 1 is there twice"),
        ] {
            let mut one = test(&[(1.0, 1.0), (2.0, 2.0)]);
            for ((key, _), new) in one.stats.0.iter_mut().zip(keys) {
                *key = new.to_owned();
            }
            assert_eq!(parse(&one).to_string(), words);
        }
        assert_eq!(
            parse(&test(&[(1.0, -2.0)])).to_string(),
            "second 0.5: port 1 has a negative rate (-2 frames/s)"
        );
        assert!(matches!(
            LoadTest::parse(b"[]"),
            Err(LoadTestError::Shape(_))
        ));
    }

    #[test]
    fn the_viewers_rule() {
        let of = |rates: &[(f64, f64)]| performance(&test(rates), Channel::Zero, 0.001);
        // a clean second clears the mark: the dip is not the result
        let dip = of(&[
            (100.0, 100.0),
            (200.0, 150.0),
            (300.0, 300.0),
            (400.0, 350.0),
            (500.0, 360.0),
        ]);
        assert_eq!(
            (dip.max_ok_pps, dip.max_pps, dip.max_line_percent),
            (350.0, 360.0, 36.0)
        );
        let clean = of(&[(0.0, 0.0), (100.0, 100.0), (2000.0, 1999.0)]);
        assert_eq!((clean.max_ok_pps, clean.max_line_percent), (1999.0, 100.0));
        // nothing was sent in the other direction
        let none = performance(&test(&[(100.0, 90.0)]), Channel::One, 0.001);
        assert_eq!((none.max_ok_pps, none.max_pps), (0.0, 0.0));
    }

    /// A test of a minute in both directions: one channel dips once and flattens, the other always
    /// loses a little.
    fn golden() -> LoadTest {
        let line_rate = 1_488_095.0;
        let second = |n: u32| {
            let at = f64::from(n);
            let forth = 25_000.0 * at + f64::from(n * 7919 % 97) + 1.0;
            let back = 20_000.0 * at + f64::from(n * 6353 % 89) + 1.0;
            let flat = 1_150_000.0 + (at - 48.0) * 3000.0 + f64::from(n * 31 % 50);
            let forth_received = match n {
                20 => forth * 0.7,
                _ => forth.min(flat),
            };
            let back_received = match n {
                0..55 => back * (1.0 - 0.0008),
                _ => back * (1.0 - 0.0011),
            };
            let port = |tx_pps: f64, rx_pps: f64| Port {
                tx_pps,
                rx_pps,
                tx_util: 100.0 * tx_pps / line_rate,
                rx_util: 100.0 * rx_pps / line_rate,
                ..Port::default()
            };
            let ports = [
                ("0".to_owned(), port(forth, back_received)),
                ("1".to_owned(), port(back, forth_received)),
            ];
            (format!("{:.2}", at + 0.25), BTreeMap::from(ports))
        };
        LoadTest {
            stats: Seconds((0..60).map(second).collect()),
            ..test(&[])
        }
    }

    /// The table of trex-loadtest-viz for that test, with three thresholds, as its arithmetic
    /// prints it under Ruby.
    #[test]
    fn the_same_table_as_the_viewer() {
        let table = [
            (0.0001, "1.144 1.183 79.50%", "0.000 1.179 79.21%"),
            (0.001, "1.144 1.183 79.50%", "1.099 1.179 79.21%"),
            (0.01, "1.147 1.183 79.50%", "1.179 1.179 79.21%"),
        ];
        for (threshold, forth, back) in table {
            for (channel, printed) in Channel::ALL.into_iter().zip([forth, back]) {
                let found = performance(&golden(), channel, threshold);
                let row = format!(
                    "{:.3} {:.3} {:.2}%",
                    found.max_ok_pps / 1e6,
                    found.max_pps / 1e6,
                    found.max_line_percent
                );
                assert_eq!(row, printed, "{channel} {threshold}");
            }
        }
    }
}
