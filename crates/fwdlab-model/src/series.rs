//! Values to compare: one [`Series`] per test case and metric, for all kinds of records.
//!
//! Contains what was measured and the labels; comparisons are made elsewhere. `store` makes series
//! from runs, the program from files of numbers. Start with [`Series`].

use std::collections::BTreeMap;

use crate::outcome::Better;
use crate::probe::MachineState;
use crate::stacks::Profile;

/// The forwarding rate by our rule, and the default metric of a series.
pub const FORWARDING_RATE: &str = "forwarding-rate";
/// Our trials without the gate: the median of all windows.
pub const FORWARDING_RATE_UNGATED: &str = "forwarding-rate-ungated";
/// Imported runs by their archive's own rule.
pub const FORWARDING_RATE_LEGACY: &str = "forwarding-rate-legacy";
/// The label with the number of threads that send into each port.
pub const SENDERS: &str = "senders";

/// Returns the metric for a figure's name, as users type it: `receive-rate` for `receive rate`,
/// `pdr-0.5` for `PDR 0.5 %`.
pub fn metric(figure: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
        true => c.to_ascii_lowercase(),
        false => ' ',
    };
    let words: String = figure.chars().map(letter).collect();
    words.split_whitespace().collect::<Vec<_>>().join("-")
}

/// The results of one test case in the order in which they were measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Name of the test case; empty for a file of numbers.
    pub test_case: String,
    /// Its labels: `configuration`, `frame_size_bytes`, `flows`, `ip_version`, `image`, `traffic`,
    /// `run` ...
    pub labels: BTreeMap<String, String>,
    /// The metric of the values: [`FORWARDING_RATE`], or a figure of a procedure by its [`metric`].
    pub metric: String,
    /// The unit of the values: `pps`, `ns`, `%`; empty for bare numbers.
    pub unit: String,
    /// The direction in which the values improve. Bare numbers count as rates.
    pub better: Better,
    /// Valid values, in order of measurement.
    pub values: Vec<f64>,
    /// The iteration, or else the rebuild, of each value; empty if it is unknown.
    pub iterations: Vec<u32>,
    /// Records omitted because they were invalid or had no result.
    pub left_out: u32,
    /// Number of values limited by the generator: the DUT may forward more.
    pub generator_limited: u32,
    /// Half the width of the interval of their median, for counts, whose uncertainty is known from
    /// the counts themselves.
    pub half_width: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean of the values, if a result has
    /// one.
    pub mean_half_width: Option<f64>,
    /// Why the values are unreliable, if they are: their machine was too noisy, or they vary too
    /// much.
    pub doubt: Option<String>,
    /// The largest share of frames that were lost while they were counted, for counts.
    pub frame_loss_ratio: f64,
    /// Counts by function, of the same kind as the values; empty without a profile.
    pub functions: Profile,
    /// The state of the machine that all values belong to, if its states were distinguished.
    pub state: Option<MachineState>,
    /// Set if the values were measured in turns with those of other series.
    pub turns: Option<Turns>,
}

/// Which values of several series belong together because they were measured in turns, within
/// fractions of a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Turns {
    /// The run that measured them, and the traffic; series with the same one can be compared pair
    /// by pair.
    pub run: String,
    /// The rebuild of each value.
    pub rebuilds: Vec<u32>,
    /// `ln(rate / rate of the plain DUT)` of each value, from the slices of its rebuild.
    pub ln_ratios: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_typed_without_quotes() {
        for (figure, typed) in [
            ("receive rate", "receive-rate"),
            ("NDR", "ndr"),
            ("PDR 0.5 %", "pdr-0.5"),
            ("rules, cost of one", "rules-cost-of-one"),
        ] {
            assert_eq!(metric(figure), typed);
        }
    }
}
