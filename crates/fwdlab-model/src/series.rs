//! Values to compare: one [`Series`] per test case and metric, whatever kind of record they come from.
//!
//! It says what was measured and under which labels; what differs from what is not its business. Runs are made into series
//! by `store`, files of numbers by the program. Start with [`Series`].

use crate::probe::MachineState;
use std::collections::BTreeMap;

/// The forwarding rate by our rule, and what a series is about unless it says otherwise.
pub const FORWARDING_RATE: &str = "forwarding-rate";
/// Our trials without the gate: the median of all windows.
pub const FORWARDING_RATE_UNGATED: &str = "forwarding-rate-ungated";
/// Imported runs by their archive's own rule.
pub const FORWARDING_RATE_LEGACY: &str = "forwarding-rate-legacy";
/// The metric of a figure of this name, as people type it: `receive-rate` for `receive rate`, `pdr-0.5` for `PDR 0.5 %`.
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
    /// What tells it from others: `configuration`, `frame_size_bytes`, `flows`, `ip_version`, `image`, `traffic`, `run` ...
    pub labels: BTreeMap<String, String>,
    /// What the values are: [`FORWARDING_RATE`], or a figure of a procedure by its [`metric`].
    pub metric: String,
    /// The unit of the values: `pps`, `ns`, `%`; empty for bare numbers.
    pub unit: String,
    /// Valid values, in order of measurement.
    pub values: Vec<f64>,
    /// Records left out because they were invalid or had no result.
    pub left_out: u32,
    /// Values in which the generator was the limit: the DUT may forward more.
    pub generator_limited: u32,
    /// The state of the machine that all values are of, where its states were told apart.
    pub state: Option<MachineState>,
    /// Where the values were measured in turns with those of other series.
    pub turns: Option<Turns>,
}

/// Which values of several series belong together because they were measured in turns, within fractions of a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Turns {
    /// The run that measured them, and what was sent; series with the same one can be compared pair by pair.
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
