//! What a campaign can be expected to show before it runs: the smallest difference between two of
//! its test cases, or from the reference.
//!
//! That follows from the number of iterations and the variation of figures from the same procedure
//! on the same test bed in earlier runs; without those, from a stated assumption. The formula is
//! `fwdlab_stats::planned_precision`, the same as for comparisons. Start with [`expected`].

use fwdlab_model::campaign::{Campaign, Counting};
use fwdlab_model::outcome::Unit;
use fwdlab_model::result::Summary;
use fwdlab_stats::{Confidence, Sample, planned_precision, planned_precision_of_pairs};

/// Assumed variation of a test case's rate from bed to bed, in percent: on bare metal 0.8 %
/// (docs/methodology.md, "How many iterations"), on virtual machines a few percent.
const VARIATION_PERCENT: f64 = 3.0;

/// Assumed variation of the difference from a DUT measured in turns, from rebuild to rebuild, in
/// points.
const OF_DIFFERENCES_PERCENT: f64 = 0.8;

/// The variation of fewer values of a figure is unknown.
const FEWEST: usize = 3;

/// The expectation for a campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Differences from this size on are shown in 80 of 100 campaigns, in percent.
    pub detectable_percent: f64,
    /// The same if every test case is measured the minimum number of times.
    pub detectable_at_least_percent: Option<f64>,
    /// Half of the 95 % interval of such a difference, in percent.
    pub half_width_percent: f64,
    /// True if differences are from a reference that is measured in turns.
    pub paired: bool,
    /// Variation of the figures: coefficient of variation, or standard deviation of differences, in
    /// percent.
    pub variation_percent: f64,
    /// Number of earlier figures and of the runs they are from; zero: assumed.
    pub known_from: (usize, usize),
}

/// Returns what a campaign can be expected to show, given the results of earlier runs of the same
/// procedure on the same test bed; `None` for procedures without random variation, and for a single
/// iteration.
pub fn expected(campaign: &Campaign, earlier: &[Summary]) -> Option<Expected> {
    let paired = match campaign.procedure.counting() {
        // the variation of a simulated DUT is in its specification
        _ if campaign.is_simulated() => return None,
        Counting::Slices => true,
        Counting::Trials | Counting::Windows => false,
        Counting::Instructions => return None,
    };
    let each: Vec<Vec<f64>> = earlier
        .iter()
        .map(|one| summary_variation(one, paired))
        .collect();
    let runs = each.iter().filter(|found| !found.is_empty()).count();
    let variations = each.concat();
    let figures = variations.len();
    let variation_percent = match Sample::new(variations) {
        Ok(sample) => sample.median(),
        Err(_) if paired => OF_DIFFERENCES_PERCENT,
        Err(_) => VARIATION_PERCENT,
    };
    let of = |n: u32| {
        let planned = match paired {
            true => planned_precision_of_pairs,
            false => planned_precision,
        };
        planned(n as usize, variation_percent, Confidence::P95)
    };
    let precision = of(campaign.iterations)?;
    let least = campaign.until.and_then(|until| of(until.min));
    Some(Expected {
        detectable_percent: precision.detectable_percent,
        detectable_at_least_percent: least.map(|least| least.detectable_percent),
        half_width_percent: precision.half_width_percent,
        paired,
        variation_percent,
        known_from: (figures, runs),
    })
}

impl Expected {
    /// Describes the expectation.
    pub fn words(&self, iterations: &str) -> String {
        let Expected {
            detectable_percent,
            variation_percent,
            paired,
            known_from: (figures, runs),
            ..
        } = self;
        let between = match paired {
            true => "a difference from the reference",
            false => "a difference between two test cases",
        };
        let from = match self.detectable_at_least_percent {
            Some(least) if least > *detectable_percent => {
                format!("{least:.1} % ({detectable_percent:.1} % after all iterations)")
            }
            _ => format!("{detectable_percent:.1} %"),
        };
        let varies = match paired {
            true => "differences vary",
            false => "figures vary",
        };
        let because = match runs {
            0 => format!(
                "{varies} by {variation_percent:.1} %: assumed, because there is no earlier run of this procedure on this test bed"
            ),
            _ => format!(
                "{varies} by {variation_percent:.1} %, as in {} of {} on this test bed",
                plural(*figures, "figure"),
                plural(*runs, "earlier run")
            ),
        };
        format!(
            "{between} of {from} or more is shown in 4 of 5 campaigns of {iterations}, if {because}"
        )
    }
}

fn plural(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

/// Returns the variation of the first figure of each test case.
fn summary_variation(summary: &Summary, paired: bool) -> Vec<f64> {
    let enough = |values: &[f64]| values.len() >= FEWEST;
    let first = summary.test_cases.iter().filter_map(|case| {
        let requested = |unit: Unit| paired == (unit == Unit::Percent);
        let mut figures = case.figures.iter().filter(|figure| requested(figure.unit));
        let figure = figures.find(|figure| enough(&figure.values))?;
        match paired {
            true => Sample::new(figure.values.clone()).ok()?.stdev(),
            false => figure.variation_percent,
        }
    });
    first.filter(|percent| percent.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use fwdlab_model::result::Noise;

    use super::*;

    fn campaign(more: &str) -> Campaign {
        Campaign::parse("c.toml", &format!("campaign = 'c'\n{more}")).unwrap()
    }

    fn of(more: &str) -> Option<Expected> {
        expected(&campaign(more), &[])
    }

    /// (t.975 + t.80) with 8 degrees of freedom times √(2/5) is 2.02; for pairs, with 4 of them and
    /// √(1/5), 1.66.
    #[test]
    fn the_detectable_difference_follows_from_iterations_and_variation() {
        let found = of("[procedure]\nid = 'mrr'").unwrap();
        assert!((found.detectable_percent - 2.021 * VARIATION_PERCENT).abs() < 0.01);
        assert!(
            found
                .words("5 iterations")
                .contains("assumed, because there is no earlier run")
        );
        let paired = of("[procedure]\nid = 'paired'").unwrap();
        assert!((paired.detectable_percent - 1.662 * OF_DIFFERENCES_PERCENT).abs() < 0.01);
        assert!(
            paired.paired
                && paired
                    .words("5 iterations")
                    .starts_with("a difference from the reference of 1.3 % or more is shown")
        );
        assert_eq!(of("iterations = 1\n[procedure]\nid = 'mrr'"), None);
        assert_eq!(of("[procedure]\nid = 'exact'"), None);
        assert_eq!(of("[bed]\nengine = 'sim'\n[procedure]\nid = 'mrr'"), None);
        let until =
            of("iterations = { until = '±1%', min = 5, max = 20 }\n[procedure]\nid = 'mrr'")
                .unwrap();
        let least = until.detectable_at_least_percent.unwrap();
        assert!(
            (least - found.detectable_percent).abs() < 1e-9
                && until.detectable_percent < least / 2.0
        );
    }

    #[test]
    fn the_variation_is_estimated_from_earlier_runs() {
        let iteration = |(pps, n): (f64, u32)| {
            let mut made = crate::precision::tests::iteration(n, Some(pps));
            made.iteration = n;
            made
        };
        let campaign = campaign("[procedure]\nid = 'trial'");
        let values = [99.0, 100.0, 101.0, 99.0, 101.0];
        let iterations = values.into_iter().zip(1..).map(iteration).collect();
        let case = crate::campaign::summarise("x".into(), &campaign.cases[0], iterations);
        let summary = crate::trust::tests::of(vec![case], Noise::default());
        let found = expected(&campaign, &[summary.clone(), summary]).unwrap();
        assert_eq!(found.known_from, (2, 2));
        assert!((found.variation_percent - 1.0).abs() < 1e-9);
        let words = found.words("5 iterations");
        assert!(
            words.contains("vary by 1.0 %, as in 2 figures of 2 earlier runs on this test bed"),
            "{words}"
        );
    }
}
