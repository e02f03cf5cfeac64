//! What the probes of the machine read: how fast its CPUs are, and how far apart.
//!
//! They are readings and what they fall into; what is made of them is decided in `measure::gate`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::Stratum;

/// The probes' readings at one moment: before or after a window, or a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Speed of the DUT's CPU, in additions per nanosecond.
    pub additions_per_ns: f64,
    /// Round trip of a cache line between the DUT's first CPU and each other one that frames cross to or from: the generator's,
    /// then further ones of the DUT. Empty where it could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances_ns: Vec<f64>,
}

/// One state of distance between the CPUs that frames cross, as found in a run's own readings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DistanceClass {
    /// Median round trip of a cache line, in nanoseconds, of each pair of CPUs: the DUT's first with the generator's, then with
    /// further ones of the DUT.
    pub round_trip_ns: Vec<f64>,
    /// Readings of it.
    pub readings: u32,
    /// Share of the readings at full speed, in percent.
    pub percent: f64,
}

/// Written as people say it: `118 ns apart`; several pairs are `118/45 ns apart`.
impl fmt::Display for DistanceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self
            .round_trip_ns
            .iter()
            .map(|ns| format!("{ns:.0}"))
            .collect();
        write!(f, "{} ns apart", all.join("/"))
    }
}

/// Windows that were quiet but for the distance of the CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApartStratum {
    /// Which class of distance: its round trips ([`DistanceClass::round_trip_ns`]). Empty: the distance changed, or was of no class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trip_ns: Vec<f64>,
    /// The windows, and what came out in them.
    #[serde(flatten)]
    pub stratum: Stratum,
}

impl ApartStratum {
    /// Windows of all these strata.
    pub fn windows(strata: &[ApartStratum]) -> u32 {
        strata.iter().map(|s| s.stratum.windows).sum()
    }
}
