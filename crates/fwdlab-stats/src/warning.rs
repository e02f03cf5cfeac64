//! Reasons to doubt a number, as values that accompany it to the report.
//!
//! A warning never changes a result: values are flagged, not dropped. The caller chooses how to
//! show a warning; [`Display`](std::fmt::Display) formats one sentence. Start at [`warnings`].

use crate::drift::{Drift, drift};
use crate::format::general;
use crate::sample::{Confidence, Sample, median_of};
use std::fmt;

/// A contradiction between the data and the assumptions of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warning {
    /// There are fewer values than the analysis needs.
    TooFewValues {
        /// Number of values.
        n: usize,
        /// Number of values needed.
        needed: usize,
    },
    /// There are enough values for the analysis, but too few to check its assumptions.
    Unchecked {
        /// Number of values.
        n: usize,
        /// Number of values needed.
        needed: usize,
    },
    /// The values have no spread.
    NoSpread {
        /// Number of values, at least two.
        n: usize,
        /// The value.
        value: f64,
    },
    /// One value is far from the others.
    Outlier {
        /// Index in the order of measurement, from 0.
        index: usize,
        /// The value.
        value: f64,
        /// `0.6745 (value - median) / MAD`; infinite if most values are equal.
        modified_z: f64,
    },
    /// Many values are far from the others: too many to list.
    Outliers {
        /// Number of values far from the others.
        n: usize,
        /// Number of all values.
        out_of: usize,
        /// Index of the farthest value in the order of measurement, from 0.
        index: usize,
        /// The farthest value.
        value: f64,
    },
    /// The values form two groups.
    Bimodal {
        /// Number of values in the lower group.
        n_low: usize,
        /// Mean of the lower group.
        low_centre: f64,
        /// Number of values in the upper group.
        n_high: usize,
        /// Mean of the upper group.
        high_centre: f64,
    },
    /// The values rise or fall over the order of measurement.
    Drift {
        /// Change from first to last along the trend, in percent of the median, or in percentage
        /// points if the values are percentages.
        change_percent: f64,
    },
}

/// Fewest values checked for outliers.
const MIN_JUDGED: usize = 5;
/// Fewest values of a mode. In simulations, six normal values have two modes of three in 0.44 % of
/// the cases, ten in 0.01 %; with modes of two values, five have some in 3.4 %
/// (docs/methodology.md, "Outliers and trends").
const MIN_MODE: usize = 3;
/// Limit of |modified z| (Iglewicz and Hoaglin 1993; docs/methodology.md, "Outliers and trends"). A
/// normal sample of 5 has a value beyond it in a fifth of the cases, so it is a reason to look at a
/// value, never a reason to drop it.
const OUTLIER_Z: f64 = 3.5;
/// Beyond this number, outliers are only counted, with the farthest one: a million normal values
/// have 460.
const MOST_NAMED: usize = 5;
/// Two groups are two modes if the gap between them is more than this many times the width of the
/// wider one (docs/methodology.md, "Outliers and trends").
const MODE_GAP: f64 = 3.0;
/// Drift below this share of the median is not reported (docs/methodology.md, "Outliers and
/// trends").
const MIN_DRIFT_PERCENT: f64 = 1.0;

impl Warning {
    /// Returns true if the warning means that the values are not normal.
    pub fn is_not_normal(&self) -> bool {
        matches!(
            self,
            Self::Outlier { .. } | Self::Outliers { .. } | Self::Bimodal { .. }
        )
    }

    /// Returns the warning about size or spread of a sample, if there is one.
    pub(crate) fn spread_warning(sample: &Sample) -> Option<Self> {
        let n = sample.n();
        if n > 1 && sample.variance() == Some(0.0) {
            let value = sample.median();
            return Some(Self::NoSpread { n, value });
        }
        let needed = MIN_JUDGED;
        (n < needed).then_some(Self::Unchecked { n, needed })
    }
}

/// Returns the warnings about outliers, two modes and drift of one sample, in that order.
pub fn warnings(sample: &Sample) -> Vec<Warning> {
    found(sample, |drift| drift.change_percent)
}

/// Like [`warnings`], for values that are percentages themselves, such as differences of pairs.
pub(crate) fn warnings_of_percentages(sample: &Sample) -> Vec<Warning> {
    found(sample, |drift| Some(drift.change))
}

fn found(sample: &Sample, change_percent: impl Fn(&Drift) -> Option<f64>) -> Vec<Warning> {
    let modes = bimodal(sample);
    // Two modes explain values that would otherwise look like several outliers.
    let mut found = if modes.is_some() {
        Vec::new()
    } else {
        outliers(sample)
    };
    found.extend(modes);
    if let Some(drift) = drift(sample, Confidence::P99)
        && let Some(change_percent) = change_percent(&drift)
        && !drift.interval.contains(0.0)
        && change_percent.abs() > MIN_DRIFT_PERCENT
    {
        found.push(Warning::Drift { change_percent });
    }
    found
}

fn outliers(sample: &Sample) -> Vec<Warning> {
    if sample.n() < MIN_JUDGED {
        return Vec::new();
    }
    let median = sample.median();
    let mut deviations: Vec<f64> = sample.values().iter().map(|v| (v - median).abs()).collect();
    let mad = median_of(&mut deviations);
    // A value equal to the median has 0 even if MAD is 0; any other value is then infinitely far.
    let modified_z = |value: f64| match value == median {
        true => 0.0,
        false => 0.6745 * (value - median) / mad,
    };
    let values = sample.values().iter().copied().enumerate();
    let far: Vec<(usize, f64)> = values
        .filter(|&(_, value)| modified_z(value).abs() > OUTLIER_Z)
        .collect();
    let distance = |value: f64| (value - median).abs();
    let farthest = far
        .iter()
        .max_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    match farthest {
        Some(&(index, value)) if far.len() > MOST_NAMED => vec![Warning::Outliers {
            n: far.len(),
            out_of: sample.n(),
            index,
            value,
        }],
        _ => far
            .into_iter()
            .map(|(index, value)| Warning::Outlier {
                index,
                value,
                modified_z: modified_z(value),
            })
            .collect(),
    }
}

fn bimodal(sample: &Sample) -> Option<Warning> {
    let sorted = sample.sorted();
    let n = sorted.len();
    let cut = (MIN_MODE..=n.saturating_sub(MIN_MODE)).find(|&cut| {
        let (low, high) = sorted.split_at(cut);
        let range = |group: &[f64]| group[group.len() - 1] - group[0];
        high[0] - low[cut - 1] > MODE_GAP * range(low).max(range(high))
    })?;
    let (low, high) = sorted.split_at(cut);
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    Some(Warning::Bimodal {
        n_low: cut,
        low_centre: mean(low),
        n_high: n - cut,
        high_centre: mean(high),
    })
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooFewValues { n, needed } => {
                write!(f, "too few values: {n}, at least {needed} are needed")
            }
            Self::Unchecked { n, needed } => {
                let values = if n == 1 { "value is" } else { "values are" };
                write!(
                    f,
                    "{n} {values} too few to see outliers; {needed} are needed"
                )
            }
            Self::NoSpread { n, value } => {
                let value = short(value);
                write!(
                    f,
                    "all {n} values are {value}: at a limit, or one measurement repeated"
                )
            }
            Self::Outlier {
                index,
                value,
                modified_z,
            } if modified_z.is_infinite() => {
                let (place, value) = (index + 1, short(value));
                write!(
                    f,
                    "value {place} ({value}) differs while most others are equal"
                )
            }
            Self::Outlier {
                index,
                value,
                modified_z,
            } => {
                let (place, value) = (index + 1, short(value));
                write!(
                    f,
                    "value {place} ({value}) lies far from the others (modified z {modified_z:.1})"
                )
            }
            Self::Outliers {
                n,
                out_of: of,
                index,
                value,
            } => {
                let (place, value) = (index + 1, short(value));
                write!(
                    f,
                    "{n} of {of} values lie far from the others, value {place} ({value}) farthest"
                )
            }
            Self::Bimodal {
                n_low,
                low_centre,
                n_high,
                high_centre,
            } => {
                let (low, high) = (short(low_centre), short(high_centre));
                write!(
                    f,
                    "two modes: {n_low} values near {low}, {n_high} near {high}"
                )
            }
            Self::Drift { change_percent } => {
                write!(
                    f,
                    "the values drift by {change_percent:+.1} % from first to last"
                )
            }
        }
    }
}

/// Five significant digits, but no exponent for whole units.
fn short(value: f64) -> String {
    let whole = (1e5..1e15).contains(&value.abs());
    if whole {
        format!("{value:.0}")
    } else {
        general(value, 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(values: &[f64]) -> Vec<String> {
        warnings(&Sample::new(values).unwrap())
            .iter()
            .map(Warning::to_string)
            .collect()
    }

    #[test]
    fn sentences() {
        let none: [&str; 0] = [];
        assert_eq!(texts(&[100.0, 101.0, 99.0, 100.5, 99.5]), none);
        assert_eq!(texts(&[1.0, 50.0, 2.0]), none);
        assert_eq!(
            texts(&[100.0, 101.0, 99.0, 140.0, 100.5]),
            ["value 4 (140) lies far from the others (modified z 53.3)"]
        );
        assert_eq!(
            texts(&[100.0, 100.0, 99.0, 100.0, 100.0]),
            ["value 3 (99) differs while most others are equal"]
        );
        assert_eq!(
            texts(&[10.0, 20.5, 10.5, 20.0, 21.0, 9.5]),
            ["two modes: 3 values near 10, 3 near 20.5"]
        );
        // two values are no mode
        assert_eq!(
            texts(&[100.0, 205.0, 101.0, 200.0, 210.0])[0],
            "value 1 (100) lies far from the others (modified z -6.7)"
        );
        let rising: Vec<f64> = (0..12).map(|i| 100.0 + f64::from(i)).collect();
        assert_eq!(
            texts(&rising),
            ["the values drift by +10.4 % from first to last"]
        );
        assert_eq!(
            texts(&[
                4_648_293.83,
                4_648_100.5,
                4_648_400.0,
                1e7 / 3.0,
                4_648_500.0
            ]),
            ["value 4 (3333333) lies far from the others (modified z -4587.7)"]
        );
        // six of twenty: two below, three above, and the farthest
        let mut many: Vec<f64> = (0..14).map(|i| 100.0 + f64::from(i % 3)).collect();
        many.extend([80.0, 120.0, 121.0, 60.0, 122.0, 139.0]);
        let far = "6 of 20 values lie far from the others, value 18 (60) farthest";
        assert_eq!(texts(&many)[0], far);
        let few = Warning::TooFewValues { n: 2, needed: 3 };
        assert_eq!(few.to_string(), "too few values: 2, at least 3 are needed");
    }

    /// The rates of docs/methodology.md, in percent of normal samples, by the number of values.
    #[test]
    fn two_modes_are_rarely_found_in_normal_values() {
        let mut random = crate::random::SplitMix64::new(3);
        let mut normal = || {
            let uniform = (random.below(1 << 52) as f64 + 0.5) / (1_u64 << 52) as f64;
            crate::normal::quantile(uniform)
        };
        for (n, at_most) in [(5, 0), (6, 130), (10, 10)] {
            let mut draw = || Sample::new((0..n).map(|_| normal()).collect::<Vec<_>>()).unwrap();
            let alarms = (0..20_000).filter(|_| bimodal(&draw()).is_some()).count();
            // 0.44 % of 20,000 are 88, with a standard deviation of 9
            assert!(alarms <= at_most, "{n}: {alarms} of 20000");
        }
    }

    proptest! {
        #[test]
        fn outliers_name_the_value_they_mean(values in prop::collection::vec(-1e9..1e9_f64, 1..40)) {
            for warning in warnings(&Sample::new(values.clone()).unwrap()) {
                if let Warning::Outlier { index, value, .. } | Warning::Outliers { index, value, .. } = warning {
                    prop_assert_eq!(values[index], value);
                }
            }
        }
    }
}
