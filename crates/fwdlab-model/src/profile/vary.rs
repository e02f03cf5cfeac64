//! What differs from frame to frame of a stream, according to a profile.
//!
//! Entries that count or list values, and have no other settings of their movement, span a set
//! together: every combination is a flow, and every flow is sent equally often. All others move
//! independently. The engine implements this, and knows the position of fields in a frame. Start
//! with [`Vary`].

use schemars::JsonSchema;
use serde::Deserialize;

use super::field::{Field, FieldName};
use super::value::Value;
use crate::typed::several;

/// Maximum number of flows of a stream.
pub const MOST_FLOWS: u64 = u32::MAX as u64;

/// A field that changes from frame to frame: its position, its values, and their order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vary {
    /// A field, or several that get the same value
    #[serde(deserialize_with = "several")]
    #[schemars(with = "Option<crate::typed::Several<Field>>")]
    pub field: Vec<Field>,
    /// Position by offset: bytes from the start of the destination MAC address
    pub at: Option<u16>,
    /// Width in bytes, if no field determines it: 1, 2, 4 or 8
    pub bytes: Option<u8>,
    /// Write only these bits of the field
    pub mask: Option<u32>,
    /// Shift the value left by this number of bits before it is written; negative: right
    #[schemars(range(min = -31, max = 31))]
    pub shift: Option<i8>,
    /// Add this to the value before it is written
    pub add: Option<i64>,
    /// Byte order of the field
    pub endian: Option<Endian>,

    /// The first value; by default the one in the frame
    pub from: Option<Value>,
    /// The last value
    pub to: Option<Value>,
    /// Number of values, instead of the last one
    #[schemars(range(min = 1))]
    pub count: Option<u64>,
    /// Step between values; by default 1
    pub step: Option<Value>,
    /// A list of values
    pub values: Option<Vec<Value>>,
    /// Order of the values
    pub change: Change,
    /// For an independent entry: the value in the first frame
    pub start: Option<Value>,
    /// Seed of random values
    pub seed: Option<u64>,
    /// Repeat random values after this number; with ports: repeat after this number of flows
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// Combine addresses with ports, as clients do: the port advances when all addresses have been
    /// used
    pub ports: Option<Ports>,

    /// Advance with every frame, independently of the stream's set of flows
    pub independent: bool,
    /// Share the values among sender threads; false: each thread sends all of them
    pub split: Option<bool>,
    /// Name of the entry that advances only when this one wraps around, like the next digit of a
    /// number
    pub next: Option<String>,
    /// Name of this entry, for next and use
    pub name: Option<String>,
    /// Write the value of the entry with this name (of its ports: name.port) again
    #[serde(rename = "use")]
    pub uses: Option<String>,
}

/// Order of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Ascending, or in the order of the list
    #[default]
    Increment,
    /// Descending, or in the reverse order of the list
    Decrement,
    /// Random
    Random,
}

/// Byte order of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Endian {
    /// Network byte order
    #[default]
    Big,
    /// Little endian
    Little,
}

/// The ports that belong to addresses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ports {
    /// A field, or several
    #[serde(default, deserialize_with = "several")]
    #[schemars(with = "Option<crate::typed::Several<Field>>")]
    pub field: Vec<Field>,
    /// Position by offset: bytes from the start of the destination MAC address
    pub at: Option<u16>,
    /// The first port
    pub from: u16,
    /// The last port
    pub to: u16,
}

/// The order in which the flows of a stream are sent. With all but `drawn`, every flow occurs once
/// per round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In order, the first entry fastest
    #[default]
    Sequential,
    /// Pseudo-random, the same order in every round
    Shuffled,
    /// Pseudo-random, a new order in every round
    Random,
    /// Drawn with replacement, so some flows appear late
    Drawn,
}

impl Vary {
    /// Returns true if it is part of the set of flows, and false if it moves independently.
    pub fn spans_flows(&self) -> bool {
        !self.independent
            && self.change == Change::Increment
            && self.uses.is_none()
            && self.start.is_none()
            && self.next.is_none()
            && self.split.is_none()
            && self.limit.is_none()
            && self.ports.is_none()
            && !self
                .field
                .iter()
                .any(|field| field.name == FieldName::FrameLength)
    }

    /// Returns the number of its values, if that is in the entry itself.
    pub(super) fn values_said(&self) -> Option<u64> {
        let listed = self.values.as_ref().map(|values| values.len() as u64);
        listed.or(self.count)
    }

    /// Returns the key that makes no sense, and why.
    pub(super) fn wrong(&self) -> Option<(&'static str, String)> {
        let wrong = |key: &'static str, reason: &str| Some((key, reason.to_owned()));
        let has_values = self.values.is_some();
        let has_range = self.from.is_some() || self.to.is_some() || self.count.is_some();
        let nowhere = self.field.is_empty() && self.at.is_none();
        if !self.field.is_empty() && self.at.is_some() {
            return wrong("at", "use either field or at, not both");
        }
        if self.at.is_some() && self.bytes.is_none() && self.ports.is_none() && self.uses.is_none()
        {
            return wrong("at", "at requires bytes: 1, 2, 4 or 8");
        }
        if let Some(bytes) = self.bytes
            && !matches!(bytes, 1 | 2 | 4 | 8)
        {
            return wrong("bytes", "a value has 1, 2, 4 or 8 bytes");
        }
        if self.bytes.is_some() && !self.field.is_empty() && self.uses.is_none() {
            return wrong("bytes", "the field has a fixed width; bytes requires at");
        }
        if (self.mask.is_some() || self.shift.is_some()) && self.bytes == Some(8) {
            return wrong("mask", "a masked field has 1, 2 or 4 bytes");
        }
        if let Some(shift) = self.shift
            && !(-31..=31).contains(&shift)
        {
            return wrong("shift", "a shift is between -31 and 31 bits");
        }
        if self.uses.is_some() {
            let moves = has_values || has_range || self.change != Change::Increment;
            if moves || self.next.is_some() || self.name.is_some() || self.ports.is_some() {
                return wrong(
                    "use",
                    "an entry that uses another entry's value must not set its own",
                );
            }
            return match nowhere {
                true => wrong("use", "field or at is missing"),
                false => None,
            };
        }
        if nowhere && self.name.is_none() {
            return wrong(
                "field",
                "field (such as \"ipv4.source\"), or at and bytes, is missing",
            );
        }
        if nowhere && self.bytes.is_none() && self.ports.is_none() {
            return wrong(
                "name",
                "an entry without field needs bytes, the width of its value",
            );
        }
        if has_values && has_range {
            return wrong(
                "values",
                "use use either a list of values, or from, to and count",
            );
        }
        if self.to.is_some() && self.count.is_some() {
            return wrong("count", "use either to or count, not both");
        }
        if !has_values && self.to.is_none() && self.count.is_none() {
            return wrong(
                "field",
                "values are missing: use from and to, from and count, or values",
            );
        }
        if self.values.as_ref().is_some_and(Vec::is_empty) {
            return wrong("values", "the list has no values");
        }
        if self.count == Some(0) {
            return wrong("count", "the count is 0; it must be at least 1");
        }
        if self.step.is_some_and(|step| step.bits() == 0) {
            return wrong("step", "the step is 0; it must be at least 1");
        }
        if self.limit == Some(0) {
            return wrong("limit", "the limit is 0; it must be at least 1");
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from.bits() > to.bits()
        {
            return wrong("to", "the last value is below the first");
        }
        if let Some(ports) = &self.ports {
            if ports.from > ports.to {
                return wrong("ports", "the last port is below the first");
            }
            if ports.field.is_empty() == ports.at.is_none() {
                return wrong("ports", "field or at is missing");
            }
            if has_values
                || self.change != Change::Increment
                || self.next.is_some()
                || self.step.is_some()
            {
                return wrong(
                    "ports",
                    "addresses with ports must count upwards in steps of one",
                );
            }
        } else if self.limit.is_some() && (self.change != Change::Random || has_values) {
            return wrong(
                "limit",
                "limit applies only to random values between from and to, and to ports",
            );
        }
        if self.change == Change::Random {
            if self.step.is_some() || self.start.is_some() {
                return wrong("change", "random values have neither step nor start");
            }
            if self.next.is_some() && self.limit.is_none() {
                return wrong("next", "random values without limit never start again");
            }
        }
        if self.start.is_some() && has_values {
            return wrong(
                "start",
                "a list starts at its beginning, or, when counting down, at its end",
            );
        }
        None
    }
}
