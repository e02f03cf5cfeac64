//! Values to compare: one [`Series`] per test case, whatever kind of record they come from.

use std::collections::BTreeMap;

/// The results of one test case in the order in which they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the test case.
    pub test_case: String,
    /// What tells it from others: `configuration`, `frame_size_bytes`, `flows`, `ip_version`, `image`, `traffic`, `run` ...
    pub labels: BTreeMap<String, String>,
    /// The unit of the values: `pps`; empty for bare numbers.
    pub unit: String,
    /// Valid values, in order of measurement.
    pub values: Vec<f64>,
    /// Records left out because they were invalid or had no result.
    pub left_out: u32,
}
