//! Traffic profiles: files that define which frames are sent, how they differ, and when they leave.
//!
//! A [`Profile`] is well formed, but it is still text about frames: an engine adds addresses of
//! ports, the speed of a link and the bytes when it compiles it. The caller reads the files. Start
//! with [`Profile::parse`].
//!
//! ```
//! let profile = fwdlab_model::profile::Profile::parse("small.toml", "
//!     about = 'One flow of the smallest frames'
//!     [[stream]]
//!     size = 64
//! ")?;
//! assert_eq!(profile.streams.len(), 1);
//!
//! let text = "[[stream]]\nsise = 64";
//! let error = fwdlab_model::profile::Profile::parse("small.toml", text).unwrap_err();
//! assert_eq!(error.to_string(), "small.toml:2:1: unknown key `sise`; did you mean `size`?");
//! # Ok::<(), fwdlab_model::profile::ProfileError>(())
//! ```

pub mod field;
pub mod layer;
pub mod size;
pub mod timing;
pub mod value;
pub mod vary;

use schemars::JsonSchema;
use serde::Deserialize;

pub use crate::file::{FileError as ProfileError, Origin, Step};
pub use field::{Field, FieldName};
pub use layer::Layer;
pub use size::Size;
pub use timing::{Bursts, Rate};
pub use value::{Hex, Mac, Time, Value};
pub use vary::{Change, Endian, Order, Vary};

/// Maximum number of streams in a profile: both directions of each have a 16-bit id of their own.
pub const MOST_STREAMS: usize = 32_768;

/// Maximum number of frames of one stream: more would take months, and products of this stay far
/// from an overflow.
const MOST_FRAMES: u64 = 1_000_000_000_000_000;

/// Largest file, in bytes.
pub const LARGEST_FILE: usize = 4 << 20;

/// A traffic profile
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// Its name: that of the file without ending.
    #[serde(skip)]
    pub name: String,
    /// The version of fwdlab that this file was written for
    pub fwdlab: Option<String>,
    /// Its purpose, in one line
    pub about: String,
    /// Its source: a standard, another program's profile
    pub source: Option<String>,
    /// The total load of all streams with a share; by default the line rate
    pub rate: Option<Rate>,
    /// The streams
    #[serde(rename = "stream")]
    #[schemars(length(min = 1, max = 32_768))]
    pub streams: Vec<Stream>,
    /// Where it was read, for errors.
    #[serde(skip)]
    pub origin: Origin,
}

/// Frames sent at one rate
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stream {
    /// Its name, for results and for next; by default its number, from 1
    pub name: Option<String>,
    /// Its direction: forward, or reverse with sources and destinations swapped
    pub direction: Direction,

    /// The layers of the frame, outermost first; by default Ethernet, IPv4 and UDP
    #[schemars(with = "Option<Vec<layer::Form>>")]
    pub layers: Option<Vec<Layer>>,
    /// How to choose addresses and ports that a layer omits
    pub plan: Plan,
    /// A capture file with the frames, instead of layers
    pub pcap: Option<String>,
    /// Use only this frame of the capture file, counted from 1 as in Wireshark
    #[schemars(range(min = 1))]
    pub frame: Option<u32>,
    /// Keep the MAC addresses of the capture file, instead of using those of the ports
    pub keep_macs: bool,
    /// Frame sizes, including the FCS; by default the smallest with room for the layers and a
    /// signature
    pub size: Option<Size>,

    /// Number of flows in the default shape: 2000 are 20 sources times 100 destinations
    #[schemars(range(min = 1))]
    pub flows: Option<u32>,
    /// Fields that change from frame to frame
    pub vary: Vec<Vary>,
    /// Order of the flows
    pub order: Order,
    /// Seed of orders other than sequential, and of the random values of a plan
    pub seed: u64,
    /// Repeat the frames after this number
    #[schemars(range(min = 1))]
    pub cache: Option<u32>,
    /// Correct the checksums of every frame: all, none, or those of these layers
    pub checksums: Checksums,
    /// Add a signature to frames, which distinguishes them from other frames and by which each is
    /// counted and timed
    pub signature: Option<bool>,

    /// The load: 1kpps, 10%, 1Gbps, max
    pub rate: Option<Rate>,
    /// Share of the total load, relative to the shares of the other streams; by default 1
    #[schemars(range(min = 0.0))]
    pub share: Option<f64>,
    /// Maximum number of frames
    #[schemars(range(min = 1))]
    pub burst: Option<u64>,
    /// Send frames in groups with pauses between them
    pub bursts: Option<Bursts>,
    /// Time before the first frame leaves
    pub delay: Option<Time>,
    /// The stream to start when this one has ended
    pub next: Option<String>,
    /// How often a chain of streams may run this one
    #[schemars(range(min = 1))]
    pub runs: Option<u32>,
    /// Wait for another stream to end; by default true if an earlier stream has this one as its
    /// next
    pub waits: Option<bool>,
}

/// The direction of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// As written in the profile
    Forward,
    /// Reversed: sources and destinations swapped
    Reverse,
    /// In every direction that the test uses; reversed in the reverse direction
    #[default]
    Both,
}

/// How to choose addresses and ports that a layer omits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// 198.18.10.1 to 198.19.10.1 and 2001:2:0:10::1 to 2001:2:0:8010::1, UDP and TCP ports 2000 to
    /// 2000
    #[default]
    Default,
    /// RFC 2544 appendix C: 198.18.1.2 to 198.19.65.2, TTL 10, UDP ports 49184 to 7
    Rfc2544,
    /// RFC 4814: a pseudo-random source MAC address, and pseudo-random ports in every frame
    Rfc4814,
    /// RFC 5180: as the default, and IPv6 if no layers are given
    Rfc5180,
}

/// The checksums that are corrected in every frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Checksums {
    /// All checksums.
    #[default]
    All,
    /// Only those of these layers; the others keep the value of the first frame.
    Only(Vec<String>),
}

impl Checksums {
    /// Returns true if those of layers with this name are corrected.
    pub fn of(&self, layer: &str) -> bool {
        match self {
            Checksums::All => true,
            Checksums::Only(layers) => layers.iter().any(|name| name == layer),
        }
    }
}

impl<'de> Deserialize<'de> for Checksums {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        const LAYERS: [&str; 6] = ["ipv4", "udp", "tcp", "icmp", "icmpv6", "gre"];
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "true, false, or a list such as [\"ipv4\"]")]
        enum Form {
            All(bool),
            Only(Vec<String>),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::All(true) => Checksums::All,
            Form::All(false) => Checksums::Only(Vec::new()),
            Form::Only(layers) => {
                if let Some(unknown) = layers
                    .iter()
                    .find(|layer| !LAYERS.contains(&layer.as_str()))
                {
                    return Err(D::Error::unknown_variant(unknown, &LAYERS));
                }
                Checksums::Only(layers)
            }
        })
    }
}

#[cfg(feature = "schemas")]
impl JsonSchema for Checksums {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Checksums".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "true, false, or a list of layers",
            "anyOf": [
                { "type": "boolean" },
                { "type": "array", "items": { "enum": ["ipv4", "udp", "tcp", "icmp", "icmpv6", "gre"] } }
            ]
        })
    }
}

impl Profile {
    /// Parses a profile. `file`: for errors, and for its name.
    ///
    /// # Errors
    /// The position in the file and what is wrong there.
    pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
        let origin = Origin {
            file: file.into(),
            text: text.into(),
        };
        if text.len() > LARGEST_FILE {
            let reason = format!("{} bytes; a profile has at most {LARGEST_FILE}", text.len());
            return Err(Origin {
                text: "".into(),
                ..origin
            }
            .error(&[], reason));
        }
        let mut profile: Profile = origin.read()?;
        let name = file.strip_suffix(".toml").unwrap_or(file);
        profile.name = name.to_owned();
        profile.origin = origin;
        profile.check()?;
        Ok(profile)
    }

    /// Returns an error about the value at this path.
    pub fn error(&self, key_path: &[Step<'_>], cause: impl Into<String>) -> ProfileError {
        match self.origin.file.is_empty() {
            true => ProfileError {
                file: self.name.clone(),
                place: None,
                reason: cause.into(),
            },
            false => self.origin.error(key_path, cause),
        }
    }

    /// Returns an error about a stream, as a whole or in one of its keys.
    pub fn stream_error(
        &self,
        stream: usize,
        key_path: &[Step<'_>],
        cause: impl Into<String>,
    ) -> ProfileError {
        let all: Vec<Step<'_>> = [Step::Key("stream"), Step::Item(stream)]
            .into_iter()
            .chain(key_path.iter().copied())
            .collect();
        let mut error = self.error(&all, cause);
        if self.streams.len() > 1 || error.place.is_none() {
            error.reason = format!("stream {}: {}", self.stream_name(stream), error.reason);
        }
        error
    }

    /// Returns the name of a stream: its own, or its number from 1 on.
    pub fn stream_name(&self, stream: usize) -> String {
        let own = self
            .streams
            .get(stream)
            .and_then(|stream| stream.name.clone());
        own.unwrap_or_else(|| (stream + 1).to_string())
    }

    /// Returns the index of the stream with this name.
    pub fn stream_named(&self, name: &str) -> Option<usize> {
        (0..self.streams.len()).find(|stream| self.stream_name(*stream) == name)
    }

    /// Returns true if this stream waits for another one to end before it starts.
    pub fn waits(&self, stream: usize) -> bool {
        let said = self.streams.get(stream).and_then(|stream| stream.waits);
        said.unwrap_or_else(|| {
            let name = self.stream_name(stream);
            let before = self.streams.iter().take(stream);
            before
                .filter_map(|stream| stream.next.as_ref())
                .any(|next| *next == name)
        })
    }

    /// Checks that every part of it is possible, and that they fit together. [`Profile::parse`] has
    /// done this; a profile made in code may need it.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), ProfileError> {
        match self.streams.len() {
            0 => {
                return Err(self.error(
                    &[],
                    "no streams; a stream begins with [[stream]], such as\n[[stream]]\nsize = 64",
                ));
            }
            1..=MOST_STREAMS => {}
            more => {
                let reason = format!("{more} streams; a profile has at most {MOST_STREAMS}");
                return Err(self.error(&["stream".into()], reason));
            }
        }
        let mut names = std::collections::HashMap::new();
        let mut next_of_earlier = std::collections::HashSet::new();
        let mut starts = false;
        for (number, stream) in self.streams.iter().enumerate() {
            let wrong = |key_path: &[Step<'_>], reason: String| {
                Err(self.stream_error(number, key_path, reason))
            };
            if let Some((key_path, reason)) = stream.wrong() {
                return wrong(&key_path, reason);
            }
            let name = self.stream_name(number);
            if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) {
                return wrong(
                    &["name".into()],
                    "a name has 1 to 100 printable bytes".to_owned(),
                );
            }
            starts |= !stream.waits.unwrap_or(next_of_earlier.contains(&name));
            if let Some(next) = &stream.next {
                next_of_earlier.insert(next.clone());
            }
            if names.insert(name.clone(), number).is_some() {
                return wrong(&["name".into()], format!("two streams are called `{name}`"));
            }
        }
        for (number, stream) in self.streams.iter().enumerate() {
            if let Some(next) = &stream.next
                && !names.contains_key(next)
            {
                let known: Vec<&String> = names.keys().collect();
                let reason = format!(
                    "next: there is no stream `{next}`; {}",
                    crate::file::did_you_mean(next, &known)
                );
                return Err(self.stream_error(number, &["next".into()], reason));
            }
        }
        if !starts {
            return Err(self.error(
                &["stream".into()],
                "all streams wait for another one to end, so none ever starts; set waits = false for one",
            ));
        }
        Ok(())
    }
}

impl Stream {
    /// Returns the path of the first error, and what is wrong.
    fn wrong(&self) -> Option<(Vec<Step<'static>>, String)> {
        let wrong =
            |key: &'static str, reason: &str| Some((vec![Step::Key(key)], reason.to_owned()));
        for (number, layer) in self.layers.iter().flatten().enumerate() {
            if let Some((key, reason)) = layer.wrong() {
                let key_path = vec![
                    "layers".into(),
                    number.into(),
                    layer.name().into(),
                    key.into(),
                ];
                return Some((key_path, reason));
            }
        }
        match &self.layers {
            Some(layers) if layers.is_empty() => {
                return wrong("layers", "no layers; omit layers for UDP over IPv4");
            }
            Some(layers) if layers.len() > 32 => return wrong("layers", "more than 32 layers"),
            _ => {}
        }
        if self.pcap.is_some() {
            if self.layers.is_some() {
                return wrong("layers", "use either layers or a capture file");
            }
            if self.size.is_some() {
                return wrong("size", "frames of a capture file have their own sizes");
            }
            if self.flows.is_some() {
                return wrong(
                    "flows",
                    "frames of a capture file have their own flows; use vary",
                );
            }
            if self.plan != Plan::Default {
                return wrong("plan", "frames of a capture file have their own addresses");
            }
        } else if self.frame.is_some() || self.keep_macs {
            let key = if self.frame.is_some() {
                "frame"
            } else {
                "keep-macs"
            };
            return wrong(key, "this requires pcap");
        }
        if self.frame == Some(0) {
            return wrong("frame", "frames are numbered from 1, as in Wireshark");
        }
        if self.flows == Some(0) {
            return wrong("flows", "0 flows; a stream needs at least 1");
        }
        if self.cache == Some(0) {
            return wrong("cache", "frames cannot repeat after 0");
        }
        if self.flows.is_some() && !self.vary.is_empty() {
            return wrong("flows", "flows is short for vary; use only one of them");
        }
        if self.vary.len() > 64 {
            return wrong("vary", "more than 64 entries");
        }
        let mut flows = 1_u64;
        for (number, vary) in self.vary.iter().enumerate() {
            if let Some((key, reason)) = vary.wrong() {
                return Some((vec!["vary".into(), number.into(), key.into()], reason));
            }
            if vary.spans_flows() {
                flows = flows.saturating_mul(vary.values_said().unwrap_or(1));
            }
        }
        if flows > vary::MOST_FLOWS {
            let reason = format!(
                "{} flows; a stream has at most {}",
                said(flows),
                vary::MOST_FLOWS
            );
            return Some((vec!["vary".into()], reason));
        }
        self.wrong_timing()
    }

    fn wrong_timing(&self) -> Option<(Vec<Step<'static>>, String)> {
        let wrong =
            |key: &'static str, reason: &str| Some((vec![Step::Key(key)], reason.to_owned()));
        if self.rate.is_some() && self.share.is_some() {
            return wrong("share", "use either rate or share, not both");
        }
        if let Some(share) = self.share
            && !(share.is_finite() && share > 0.0 && share <= 1e12)
        {
            return wrong("share", "a share must be above 0; omit the stream instead");
        }
        if self.burst.is_some() && self.bursts.is_some() {
            return wrong("bursts", "use either burst or bursts, not both");
        }
        if self.burst == Some(0) {
            return wrong("burst", "a burst of 0 frames; omit the stream instead");
        }
        if self.burst.is_some_and(|frames| frames > MOST_FRAMES) {
            return wrong(
                "burst",
                "more than 10^15 frames; omit burst for an endless stream",
            );
        }
        if let Some(Bursts { frames, count, .. }) = self.bursts {
            if frames.saturating_mul(count.unwrap_or(1)) > MOST_FRAMES {
                return wrong(
                    "bursts",
                    "more than 10^15 frames; omit count for an endless stream",
                );
            }
            if frames == 0 {
                return wrong("bursts", "bursts of 0 frames; omit the stream instead");
            }
            if count == Some(0) {
                return wrong("bursts", "0 bursts; omit the stream instead");
            }
        }
        let ends = self.burst.is_some() || self.bursts.is_some_and(|bursts| bursts.count.is_some());
        if self.next.is_some() && !ends {
            return wrong(
                "next",
                "this stream never ends, so nothing can follow it; use burst, or bursts with a count",
            );
        }
        if self.runs == Some(0) {
            return wrong("runs", "0 runs; omit the stream instead");
        }
        None
    }
}

/// Formats a number of flows that may have overflowed.
fn said(flows: u64) -> String {
    match flows {
        u64::MAX => "more than 10^19".to_owned(),
        flows => flows.to_string(),
    }
}

#[cfg(test)]
mod tests;
