//! Chart of the rates of an imported set: a bar to the median, a dot per run, and a line at the
//! median by the archive's own rule. Start with [`imported`].

use fwdlab_model::import::ImportedCase;
use fwdlab_model::result::Summary;

use crate::chart::{Axis, Chart, Mark, Row, Tone, legend_of_values};
use crate::imported::{median, name};
use crate::number::rate;

/// Draws the chart.
pub(crate) fn imported(summary: &Summary) -> Chart {
    let values = |case: &'_ ImportedCase| -> Vec<f64> {
        match case.ours.iterations_pps.as_slice() {
            [] => case.legacy.iterations_pps.clone(),
            ours => ours.to_vec(),
        }
    };
    let all = summary.imported.iter().flat_map(|case| {
        let legacy = case.legacy.median_pps;
        values(case).into_iter().chain(legacy)
    });
    let rows = summary.imported.iter().map(|case| {
        let mut marks = Row::of_values(median(case), &values(case), rate, "run");
        marks.extend(case.legacy.median_pps.map(|legacy| Mark::Line {
            at: legacy,
            tone: Tone::Offered,
            words: format!("by the archive's own rule {}", rate(legacy)),
        }));
        Row {
            label: name(case).to_owned(),
            value: median(case).map_or("no value".to_owned(), rate),
            marks,
            ..Row::default()
        }
    });
    let mut legend = legend_of_values("run");
    legend.push((Tone::Offered, "median by the archive's own rule".into()));
    Chart::rows(
        "forwarding-rate",
        Axis::rates_along("forwarding rate", all),
        legend,
        rows,
    )
}
