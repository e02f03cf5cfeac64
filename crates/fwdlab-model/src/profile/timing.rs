//! When the frames of a stream leave, according to a profile.
//!
//! Shares of a line rate are kept as shares, because the link is not known here. Start with
//! [`Rate`].

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;

use super::value::Time;
use crate::link::LinkLoad;
use crate::typed::{Numbers, typed};
use crate::units::UnitError;

/// A load: `1kpps`, `10%` of the line, `1Gbps`, `max` for all of the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub LinkLoad);

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        text.parse().map(Rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

typed!(Rate, Numbers::No, "a load in quotes, such as \"1kpps\" or \"10%\"", {
    "description": "A load: 1kpps, 14.88Mpps, 10%, 1Gbps, 9.4Gbps-l2, max",
    "type": "string"
});

/// Groups of frames with pauses between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bursts {
    /// Frames per group
    #[schemars(range(min = 1))]
    pub frames: u64,
    /// Time from the last frame of a group to the first of the next
    pub pause: Time,
    /// Number of groups; by default unlimited
    #[schemars(range(min = 1))]
    pub count: Option<u64>,
}
