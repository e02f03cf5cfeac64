//! Readings of the machine's probes: the speed of its CPUs, and the distance between them.
//!
//! `fwdlab_measure::gate` evaluates the readings and their states.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::Stratum;

/// The readings of the probes at one moment: before or after a window or a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Speed of the DUT's CPU, in additions per nanosecond.
    pub additions_per_ns: f64,
    /// Round-trip times of a cache line between the DUT's first CPU and each other CPU on the
    /// frames' path, in nanoseconds: first the generator's, then further CPUs of the DUT. Empty if
    /// they could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances_ns: Vec<f64>,
}

impl Reading {
    /// Nothing probes the machine of the DUT: it is remote, or has no login.
    pub const NONE: Reading = Reading {
        additions_per_ns: 0.0,
        distances_ns: Vec::new(),
    };
}

/// A state of the machine, caused by the hypervisor and by other work on the same cores, as found
/// in a run's own readings: the speed of the DUT's CPU, and the distances between the CPUs on the
/// frames' path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineState {
    /// Other work uses a share of the DUT's core, on this or another virtual machine, as a busy SMT
    /// sibling does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slowed: bool,
    /// Median speed of the DUT's CPU, in additions per nanosecond.
    #[serde(default)]
    pub additions_per_ns: f64,
    /// Median round-trip time of a cache line for each pair of CPUs, in nanoseconds: the DUT's
    /// first CPU with the generator's, then with further CPUs of the DUT. Empty if no distance
    /// could be read.
    pub round_trip_ns: Vec<f64>,
    /// Number of readings in this state.
    pub readings: u32,
    /// Their share of the readings in any state, in percent.
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
            (true, true) => write!(f, "with the DUT's slowed"),
        }
    }
}

/// Windows in another state of the machine than the one that the figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApartStratum {
    /// The DUT's CPU was slowed ([`MachineState::slowed`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slowed: bool,
    /// Distances between the CPUs ([`MachineState::round_trip_ns`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trip_ns: Vec<f64>,
    /// The state changed during the window, or is not a common one. It then has neither speed nor
    /// distance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// The windows, and their forwarding rate.
    #[serde(flatten)]
    pub stratum: Stratum,
}

impl ApartStratum {
    /// Returns the windows of this state.
    pub fn new(state: &MachineState, stratum: Stratum) -> ApartStratum {
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
