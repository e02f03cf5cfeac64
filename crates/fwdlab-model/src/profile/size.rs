//! The sizes of a stream's frames, including the FCS: one, several, a mix by name, a genome, or a
//! range.
//!
//! Start with [`Size`].

use std::fmt;

use schemars::JsonSchema;
#[cfg(feature = "schemas")]
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use super::vary::Change;
use crate::genome::Genome;
use crate::mix::Mix;

/// The smallest frame, in bytes with FCS.
pub const SMALLEST: u32 = 64;
/// The largest frame, slightly above the largest IP packet.
pub const LARGEST: u32 = 65_535;
/// Maximum number of frames in one round of a stream.
pub const LONGEST_PATTERN: usize = 65_536;

/// Frame sizes, in bytes with FCS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Size {
    /// These sizes in order, repeated.
    Pattern(Pattern),
    /// A different size for every frame.
    Range(Range),
}

/// Sizes in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Its name: `imix`, `7a4dg`, `64`.
    pub name: String,
    /// The sizes of one round.
    pub sizes: Vec<u32>,
    /// Requested sizes that do not exist on Ethernet and are sent as [`SMALLEST`].
    pub padded: Vec<u32>,
}

/// A range of sizes, another one for every frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Range {
    /// The smallest size
    #[schemars(range(min = 64, max = 65_535))]
    pub from: u32,
    /// The largest size
    #[schemars(range(min = 64, max = 65_535))]
    pub to: u32,
    /// Step between sizes
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub step: u32,
    /// Order of the sizes
    #[serde(default)]
    pub change: Change,
    /// Seed of random sizes
    #[serde(default)]
    pub seed: u64,
}

fn one() -> u32 {
    1
}

fn fits(size: u64) -> Result<u32, String> {
    let bytes = u32::try_from(size).ok();
    bytes
        .filter(|bytes| (SMALLEST..=LARGEST).contains(bytes))
        .ok_or_else(|| {
            format!("a frame has {SMALLEST} to {LARGEST} bytes, including the FCS (what pkt-gen calls 60 is 64 here), not {size}")
        })
}

impl Size {
    /// Returns frames of one size.
    pub fn one(size: u32) -> Result<Size, String> {
        Self::new(size.to_string(), vec![size.into()])
    }

    fn new(name: String, sizes: Vec<u64>) -> Result<Size, String> {
        let sizes: Vec<u32> = sizes.into_iter().map(fits).collect::<Result<_, _>>()?;
        match sizes.len() {
            0 => Err("no sizes; give at least one, such as 64".to_owned()),
            1..=LONGEST_PATTERN => Ok(Size::Pattern(Pattern {
                name,
                sizes,
                padded: Vec::new(),
            })),
            more => Err(too_long(more as u64)),
        }
    }

    /// Parses a size, a mix or a genome.
    fn named(text: &str) -> Result<Size, String> {
        let typed = text.trim();
        if let Some(mix) = Mix::named(typed) {
            let frames: u64 = mix.genome().map_or(u64::MAX, |genome| genome.frame_count());
            if frames > LONGEST_PATTERN as u64 {
                return Err(too_long(frames));
            }
            return Ok(Size::Pattern(Pattern {
                name: mix.name().to_owned(),
                sizes: mix.pattern().collect(),
                padded: mix
                    .padded()
                    .iter()
                    .map(|padded| padded.size_bytes)
                    .collect(),
            }));
        }
        if let Ok(genome) = typed.parse::<Genome>() {
            if genome.frame_count() > LONGEST_PATTERN as u64 {
                return Err(too_long(genome.frame_count()));
            }
            return Self::new(genome.to_string(), genome.frames().map(u64::from).collect());
        }
        match typed.parse::<Mix>() {
            Ok(mix) => Self::new(typed.to_owned(), mix.pattern().map(u64::from).collect()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn too_long(frames: u64) -> String {
    format!("a round of {frames} frames; a stream's has at most {LONGEST_PATTERN}")
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct OfSize;

        impl<'de> Visitor<'de> for OfSize {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 64, a list of sizes, a mix such as \"imix\", or { from = 64, to = 1518 }")
            }

            fn visit_i64<E: de::Error>(self, size: i64) -> Result<Size, E> {
                let size =
                    u64::try_from(size).map_err(|_| E::custom(format!("{size} is below 0")))?;
                Size::new(size.to_string(), vec![size]).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                Size::named(text).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Size, A::Error> {
                let mut sizes: Vec<u64> = Vec::new();
                while let Some(size) = items.next_element()? {
                    sizes.push(size);
                    if sizes.len() > LONGEST_PATTERN {
                        break;
                    }
                }
                let name = match sizes.as_slice() {
                    [] => String::new(),
                    few if few.len() <= 8 => {
                        let few: Vec<String> = few.iter().map(u64::to_string).collect();
                        few.join(",")
                    }
                    [first, ..] => format!("{first},..."),
                };
                Size::new(name, sizes).map_err(de::Error::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Size, A::Error> {
                let range = Range::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let wrong = |reason: String| Err(de::Error::custom(reason));
                for size in [range.from, range.to] {
                    if let Err(reason) = fits(size.into()) {
                        return wrong(reason);
                    }
                }
                if range.from > range.to {
                    return wrong(format!("from = {} is above to = {}", range.from, range.to));
                }
                if range.step == 0 {
                    return wrong("the step is 0; it must be at least 1".to_owned());
                }
                Ok(Size::Range(range))
            }
        }

        deserializer.deserialize_any(OfSize)
    }
}

#[cfg(feature = "schemas")]
impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let range = generator.subschema_for::<Range>();
        json_schema!({
            "description": "Frame sizes in bytes, including the FCS: 64, [64, 512], a mix such as imix, a genome (RFC 6985) \
             such as 7a4dg, or a range",
            "anyOf": [
                { "type": "integer", "minimum": SMALLEST, "maximum": LARGEST },
                { "type": "string" },
                { "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": SMALLEST, "maximum": LARGEST } },
                range
            ]
        })
    }
}
