//! Readings of the machine's probes: the speed of its CPUs, and the distance between them.
//!
//! `fwdlab_measure::gate` evaluates the readings and their states.

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

/// One state that the hypervisor and other work on the same cores put the machine into, as found in a run's own readings: how fast the DUT's CPU is, and
/// how far the CPUs are apart that frames cross.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineState {
    /// Something else takes a share of the DUT's core, here or on another virtual machine, as a busy SMT sibling does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slowed: bool,
    /// Median speed of the DUT's CPU, in additions per nanosecond.
    #[serde(default)]
    pub additions_per_ns: f64,
    /// Median round trip of a cache line, in nanoseconds, of each pair of CPUs: the DUT's first with the generator's, then with
    /// further ones of the DUT. Empty where no distance could be read.
    pub round_trip_ns: Vec<f64>,
    /// Readings of it.
    pub readings: u32,
    /// Share of the readings that are of any state, in percent.
    pub percent: f64,
}

/// Round trips whose ratio exceeds this belong to different levels: one core, one cache and two
/// caches differ by factors of 2.5 and 4, and readings of one level on two days by some percent.
const SAME_DISTANCE: f64 = 1.5;

impl MachineState {
    /// Returns true if figures of the two states are comparable.
    pub fn is_like(&self, other: &MachineState) -> bool {
        let near = |(a, b): (&f64, &f64)| a.max(*b) <= SAME_DISTANCE * a.min(*b);
        self.slowed == other.slowed
            && (self.round_trip_ns.iter())
                .zip(&other.round_trip_ns)
                .all(near)
    }
}

/// The usual form for CPUs: `118 ns apart`; several pairs are `118/45 ns apart`.
impl fmt::Display for MachineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self
            .round_trip_ns
            .iter()
            .map(|ns| format!("{ns:.0}"))
            .collect();
        match (all.is_empty(), self.slowed) {
            (false, false) => write!(f, "{} ns apart", all.join("/")),
            (false, true) => write!(f, "{} ns apart and the DUT's slowed", all.join("/")),
            (true, false) => write!(f, "at full speed"),
            (true, true) => write!(f, "of which the DUT's is slowed"),
        }
    }
}

/// Windows in another state of the machine than the one that figures are of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApartStratum {
    /// Was the DUT's CPU slowed ([`MachineState::slowed`])?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slowed: bool,
    /// How far the CPUs were apart ([`MachineState::round_trip_ns`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trip_ns: Vec<f64>,
    /// The state changed from one edge to the other, or was none that is common: it has neither speed nor distance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// The windows, and what came out in them.
    #[serde(flatten)]
    pub stratum: Stratum,
}

impl ApartStratum {
    /// Returns the windows of this state.
    pub fn of(state: &MachineState, stratum: Stratum) -> ApartStratum {
        ApartStratum {
            slowed: state.slowed,
            round_trip_ns: state.round_trip_ns.clone(),
            moved: false,
            stratum,
        }
    }

    /// Returns the windows in which the state changed.
    pub fn moved(stratum: Stratum) -> ApartStratum {
        ApartStratum {
            slowed: false,
            round_trip_ns: Vec::new(),
            moved: true,
            stratum,
        }
    }

    /// Returns true if both belong to the same state.
    pub fn is_like(&self, other: &ApartStratum) -> bool {
        (self.slowed, self.moved) == (other.slowed, other.moved)
            && self.round_trip_ns == other.round_trip_ns
    }

    /// Returns the number of windows in all these strata.
    pub fn windows(strata: &[ApartStratum]) -> u32 {
        strata.iter().map(|s| s.stratum.windows).sum()
    }
}
