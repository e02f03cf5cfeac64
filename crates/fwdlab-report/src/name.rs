//! Names of test cases, DUTs and files, and figures with their units.
//!
//! All formats use them. Start with [`label`] and [`value`].

use fwdlab_model::campaign::Kind;
use fwdlab_model::outcome::Unit;
use fwdlab_model::test_case::{CaseFigure, TestCase};
use fwdlab_model::variant::Variant;

use crate::number::{
    NOT_DETERMINED, count, delay, energy, instructions, percent, plural, rate, seconds,
};

/// Returns the name of a test case, without what all test cases have in common.
pub(crate) fn label(case: &TestCase, all: &[TestCase]) -> String {
    let all: Vec<&TestCase> = all.iter().collect();
    label_without(case, &all, None)
}

/// A number of a test case that may be an axis of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// The frame size in bytes.
    Size,
    /// The number of flows.
    Flows,
}

/// Returns the name of a test case without this number, which may be empty.
pub(crate) fn label_without(case: &TestCase, all: &[&TestCase], number: Option<Number>) -> String {
    let (stream, variant) = (&case.case.stream, &case.case.variant);
    let differ = |same: &dyn Fn(&TestCase) -> bool| !all.iter().copied().all(same);
    let mut parts = Vec::new();
    if differ(&|other| other.case.configuration == case.case.configuration) {
        parts.push(case.case.configuration.clone());
    }
    let is_first = parts.is_empty();
    match &variant.profile {
        Some(profile) => {
            if is_first || differ(&|other| other.case.variant.profile == variant.profile) {
                parts.push(profile.clone());
            }
        }
        None => {
            let differs =
                differ(&|other| other.case.stream.frame_size_bytes == stream.frame_size_bytes);
            if number != Some(Number::Size) && (is_first || differs) {
                parts.push(format!("{} B", stream.frame_size_bytes));
            }
            if number != Some(Number::Flows)
                && differ(&|other| other.case.stream.flows == stream.flows)
            {
                parts.push(plural(stream.flows as usize, "flow"));
            }
            if differ(&|other| other.case.stream.ip_version == stream.ip_version) {
                parts.push(stream.ip_version.to_string());
            }
        }
    }
    if differ(&|other| other.case.dut == case.case.dut) {
        parts.push(dut(case.case.dut).into());
    }
    if differ(&|other| other.case.image == case.case.image) {
        parts.extend(case.case.image.clone());
    }
    let series = series(variant);
    if differ(&|other| self::series(&other.case.variant) == series) {
        parts.push(match series.as_str() {
            "" => "plain series".into(),
            _ => series,
        });
    }
    parts.join(", ")
}

/// Returns how a series differs from a plain one, apart from the profile.
fn series(variant: &Variant) -> String {
    let rest = Variant {
        profile: None,
        ..variant.clone()
    };
    rest.to_string()
}

/// Formats the median of a figure, as a lower bound if the generator was the limit.
pub(crate) fn central(figure: &CaseFigure) -> String {
    match figure.is_undetermined() {
        _ if figure.generator_limited > 0 => format!(">= {}", value(figure.unit, figure.median)),
        true => NOT_DETERMINED.into(),
        false => value(figure.unit, figure.median),
    }
}

/// Formats the median of a figure with half of its interval.
pub(crate) fn with_interval(figure: &CaseFigure) -> String {
    let half = figure.interval_half_width;
    let half = half.filter(|_| !figure.is_undetermined());
    let half = half.map(|half| format!(" \u{b1} {}", value(figure.unit, half)));
    format!("{}{}", central(figure), half.unwrap_or_default())
}

/// Formats a value with its unit.
pub(crate) fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::FramesPerSecond => rate(value),
        Unit::Nanoseconds | Unit::Cost if value >= 1e3 => delay(value),
        Unit::Nanoseconds | Unit::Cost => format!("{value:.2} ns"),
        Unit::Seconds => seconds(value),
        Unit::Frames => format!("{} frames", count(value.round() as i128)),
        Unit::Percent => percent(value),
        Unit::Joules => format!("{} a frame", energy(value)),
        Unit::Instructions => instructions(value),
    }
}

/// Returns the name of a kind of DUT.
pub(crate) fn dut(kind: Kind) -> &'static str {
    match kind {
        Kind::Linux => "Linux",
        Kind::Vpp => "VPP",
        Kind::VppHugePages => "VPP in huge pages",
        Kind::Testpmd => "testpmd",
        Kind::OvsDpdk => "Open vSwitch with DPDK",
    }
}

/// Converts any text to a file name: lower-case letters, digits and `-`.
pub(crate) fn slug(words: &str) -> String {
    let mut name = String::new();
    for c in words.chars().take(60) {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => name.push(c),
            _ if !name.ends_with('-') && !name.is_empty() => name.push('-'),
            _ => {}
        }
    }
    let name = name.trim_end_matches('-');
    match name {
        "" => "chart".into(),
        name => name.to_owned(),
    }
}
