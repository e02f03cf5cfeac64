//! Chart of quiet windows, all windows and contended windows of every test case, as deviations from
//! the result. Start with [`strata`].

use fwdlab_model::result::{Summary, TrialRecord};

use crate::chart::{Axis, Chart, Mark, Row, Tone};
use crate::number::{difference, percent, rate};
use crate::shape::{self, Labels, Rated};

/// Draws the chart.
pub(crate) fn strata(summary: &Summary, trials: &[TrialRecord]) -> Chart {
    type Pick = fn(&TrialRecord) -> Option<f64>;
    let strata: [(&str, Tone, Pick); 3] = [
        ("quiet", Tone::Quiet, |t| t.quiet.forwarding_rate_pps),
        ("ungated", Tone::Ungated, |t| t.forwarding_rate_ungated_pps),
        ("contended", Tone::Contended, |t| {
            t.contended.forwarding_rate_pps
        }),
    ];
    let all = shape::rated(summary);
    let labels = Labels::from_cases(&all);
    let deviations = |case: &Rated<'_>, pick: Pick| -> Vec<f64> {
        let Some(result) = case.found.forwarding_rate_pps.filter(|pps| *pps > 0.0) else {
            return Vec::new();
        };
        trials
            .iter()
            .filter(|t| t.test_case == case.case.test_case && t.validity.is_valid())
            .filter_map(pick)
            .map(|pps| 100.0 * (pps / result - 1.0))
            .collect()
    };
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for case in &all {
        let found = &case.found;
        for (index, (name, tone, pick)) in strata.iter().enumerate() {
            let own = deviations(case, *pick);
            values.extend(own.iter().copied());
            let figure = match index {
                0 => (found.forwarding_rate_pps, case.variation_percent),
                1 => (
                    found.forwarding_rate_ungated_pps,
                    found.variation_ungated_percent,
                ),
                _ => (found.contended.forwarding_rate_pps, None),
            };
            let dots = Mark::dots(&own, *tone, |index, value| {
                let value = difference(value, Some([-0.5, 0.5]));
                format!("iteration {}, {name}: {value} %", index + 1)
            });
            rows.push(Row {
                group: match index {
                    0 => labels.label(case),
                    _ => String::new(),
                },
                label: (*name).into(),
                is_thin: true,
                value: match figure {
                    (Some(pps), Some(cv)) => format!("{}, CV {}", rate(pps), percent(cv)),
                    (Some(pps), None) => rate(pps),
                    (None, _) => "-".into(),
                },
                marks: vec![dots],
                ..Row::default()
            });
        }
    }
    let title = "deviation of each iteration from the result of its test case, %";
    Chart::rows(
        "noise",
        Axis::differences(title, values),
        strata.map(|(name, tone, _)| (tone, name.to_owned())).into(),
        rows,
    )
}
