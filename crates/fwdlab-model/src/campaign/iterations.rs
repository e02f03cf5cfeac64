//! How often test cases are measured: a fixed number of times, or until the result is precise
//! enough.
//!
//! `fwdlab_measure::precision` decides that from the finished iterations; this file holds the
//! request. Start with [`UntilPrecise`].

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
#[cfg(feature = "schemas")]
use schemars::{Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::value::Share;
use super::{Campaign, Counting};
use crate::file::FileError;
use crate::typed::{Numbers, typed};
use crate::units::UnitError;

/// Default number of iterations.
pub(super) const ITERATIONS: u32 = 5;

/// More iterations count as an error.
const MOST: u32 = 1000;

/// Checking after every iteration whether the interval is narrow enough stops too often when it is
/// so by chance, and more often with fewer values. Of 95 % intervals, 90 % contain the mean in the
/// worst case with at least 3 values, 92 % with 5 and 93 % with 10 (`fwdlab_measure::precision`,
/// whose tests count them).
pub const FEWEST: u32 = 5;
const MIN: u32 = 10;
const MAX: u32 = 50;

/// Measure test cases until the interval of their figure is narrow enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UntilPrecise {
    /// Half of the 95 % interval, as a share of the figure.
    pub width: HalfWidth,
    /// Minimum number of iterations.
    pub min: u32,
}

/// Half of an interval, as a share of its middle: `±1%`, `1%`, `0.01`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HalfWidth(pub f64);

impl FromStr for HalfWidth {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<HalfWidth, UnitError> {
        let typed = text.trim();
        let typed = ["±", "+-", "+/-"]
            .iter()
            .find_map(|sign| typed.strip_prefix(sign))
            .unwrap_or(typed);
        match typed.parse() {
            Ok(Share(share)) if share > 0.0 && share <= 0.5 => Ok(HalfWidth(share)),
            _ => Err(UnitError::new(
                text,
                "half-width",
                "for example ±1%; it must be above 0 and at most 50 %",
            )),
        }
    }
}

impl fmt::Display for HalfWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 1 and not 1.0000000000000002
        write!(f, "±{}%", (self.0 * 1e10).round() / 1e8)
    }
}

typed!(HalfWidth, Numbers::Any, "half of an interval such as \"±1%\"", {
    "description": "Half of the 95 % interval as a share of the figure: \"±1%\" or 0.01",
    "anyOf": [{ "type": "number", "exclusiveMinimum": 0, "maximum": 0.5 }, { "type": "string" }]
});

/// The iterations that a campaign requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Iterations {
    /// Number of iterations, or their maximum.
    pub max: u32,
    pub until: Option<UntilPrecise>,
}

impl Default for Iterations {
    fn default() -> Iterations {
        Iterations {
            max: ITERATIONS,
            until: None,
        }
    }
}

/// Repeat until the interval is narrow enough
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    /// Stop measuring a test case when half of the 95 % interval of its figure is at most this
    /// share of the figure: ±1%
    until: HalfWidth,
    /// Minimum number of iterations
    #[serde(default = "fewest")]
    #[schemars(range(min = 5, max = 1000))]
    min: u32,
    /// Maximum number of iterations
    #[serde(default = "most")]
    #[schemars(range(min = 5, max = 1000))]
    max: u32,
}

fn fewest() -> u32 {
    MIN
}

fn most() -> u32 {
    MAX
}

impl<'de> Deserialize<'de> for Iterations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Iterations, D::Error> {
        struct NumberOrTable;

        impl<'de> Visitor<'de> for NumberOrTable {
            type Value = Iterations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or { until = \"±1%\", min = 10, max = 50 }")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Iterations, E> {
                let max = u32::try_from(number);
                max.map(|max| Iterations { max, until: None })
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Iterations, A::Error> {
                let Table { until, min, max } =
                    Table::deserialize(MapAccessDeserializer::new(map))?;
                let until = Some(UntilPrecise { width: until, min });
                Ok(Iterations { max, until })
            }
        }

        deserializer.deserialize_any(NumberOrTable)
    }
}

#[cfg(feature = "schemas")]
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let table = generator.subschema_for::<Table>();
    schemars::json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1, "maximum": MOST }, table] })
}

impl Campaign {
    /// Describes how often test cases are measured: `5 iterations`, `10 to 50 iterations`.
    pub fn iterations_in_words(&self) -> String {
        match (self.until, self.iterations) {
            (Some(UntilPrecise { min, .. }), max) if min < max => {
                format!("{min} to {max} iterations")
            }
            (_, 1) => "1 iteration".into(),
            (_, all) => format!("{all} iterations"),
        }
    }

    pub(super) fn check_iterations(&self) -> Result<(), FileError> {
        let Some(until) = self.until else {
            return match (1..=MOST).contains(&self.iterations) {
                true => Ok(()),
                false => Err(self.error(&["iterations"], "iterations must be 1 to 1000")),
            };
        };
        let wrong = |key: &str, reason: String| Err(self.error(&["iterations", key], reason));
        if self.procedure.counting() == Counting::Instructions {
            let reason = "this procedure counts instructions, whose uncertainty is set by precision in [procedure]: give a number of iterations";
            return wrong("until", reason.into());
        }
        if until.min < FEWEST {
            let reason = format!(
                "an interval of fewer values is often narrow by chance, because it is checked after each of them: min is at least {FEWEST}, {MIN} by default"
            );
            return wrong("min", reason);
        }
        if self.iterations > MOST {
            return wrong("max", format!("at most {MOST} iterations are possible"));
        }
        match until.min > self.iterations {
            // refer to the value in the file
            true if self.iterations == MAX => {
                wrong("min", format!("min is above max, which is {MAX}"))
            }
            true => wrong("max", format!("max is below min, which is {}", until.min)),
            false => Ok(()),
        }
    }
}
