//! The page of an imported set: the plot first, then its table, what was sent, and where it comes from.
//!
//! Its sentences and tables are those of [`crate::imported`]. Start with [`body`].

use fwdlab_model::import::ImportedCase;
use fwdlab_model::result::{RunInfo, Summary};

use super::charts::{axis_line, chart, line};
use super::markup::Markup;
use super::svg::{Scale, row};
use super::{section, table};
use crate::imported::{METHOD, cases, headline, median, name, traffic, warnings};
use crate::number::{Prefix, rate, time};

/// Everything on the page.
pub(super) fn body(m: &mut Markup, info: &RunInfo, summary: &Summary) {
    m.within("header", &[], |m| {
        let origin = format!("fwdlab {}, imported {}", info.id, time(&info.started_at));
        m.leaf("p", &[("class", "origin")], &origin);
        m.leaf("h1", &[("class", "long")], &headline(info, summary));
        let warnings = warnings(summary);
        if !warnings.is_empty() {
            m.within("div", &[("class", "warnings")], |m| {
                m.leaf("strong", &[], "Notes");
                m.within("ul", &[], |m| {
                    for warning in &warnings {
                        m.leaf("li", &[], warning);
                    }
                });
            });
        }
    });
    section(m, "Forwarding rate", |m| {
        m.within("figure", &[], |m| {
            forwarding_rates(m, summary);
            table(m, &cases(summary));
        });
        m.leaf("p", &[], METHOD);
    });
    section(m, "What was sent", |m| table(m, &traffic(summary)));
    section(m, "Source", |m| {
        m.within("ul", &[], |m| {
            for (key, value) in &info.parameters {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                m.leaf("li", &[], &format!("{key}: {text}"));
            }
        });
    });
}

/// A bar to the median, whiskers, a dot per run; a line where the archive's own rule has its median.
fn forwarding_rates(m: &mut Markup, summary: &Summary) {
    let values = |case: &'_ ImportedCase| -> Vec<f64> {
        let ours = &case.ours.iterations_pps;
        let shown = if ours.is_empty() {
            &case.legacy.iterations_pps
        } else {
            ours
        };
        shown.clone()
    };
    let all = summary.imported.iter().flat_map(|case| {
        let legacy = case.legacy.median_pps;
        values(case).into_iter().chain(legacy)
    });
    let scale = Scale::covering(all.chain([0.0]), 6);
    let prefix = Prefix::for_largest([scale.high()]);
    let legend = [
        ("bar", "median"),
        ("whisker", "smallest to largest"),
        ("dot", "one run, first at the top"),
        ("offered", "median by the archive's own rule"),
    ];
    chart(m, &legend, |m| {
        for case in &summary.imported {
            let values = values(case);
            let value = median(case).map_or("no value".to_owned(), rate);
            let words = format!("{}: {value}", name(case));
            let draw = |m: &mut Markup| {
                row(m, scale, 46.0, &words, |row| {
                    if let Some(median) = median(case) {
                        let low = values.iter().copied().fold(median, f64::min);
                        let high = values.iter().copied().fold(median, f64::max);
                        let title = format!("median {}", rate(median));
                        row.bar(0.0, median, 22.0, "bar", &title);
                        row.whisker(low, high, "whisker");
                    }
                    row.dots(&values, "dot", |index, pps| {
                        format!("run {}: {}", index + 1, rate(pps))
                    });
                    if let Some(legacy) = case.legacy.median_pps {
                        let title = format!("by the archive's own rule {}", rate(legacy));
                        row.upright(legacy, 4.0, 4.0, "offered", &title);
                    }
                });
            };
            line(m, "line", |m| m.text(name(case)), draw, |m| m.text(&value));
        }
        let title = format!("forwarding rate, {}", prefix.pps());
        axis_line(m, scale, &title, |pps| prefix.tick(pps, scale.step()));
    });
}
