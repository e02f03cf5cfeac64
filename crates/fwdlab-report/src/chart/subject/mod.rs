//! Builds charts from results: one file per subject, each a function of a summary.
//!
//! Start with [`charts`].

pub(crate) mod comparison;
pub(crate) mod differences;
pub(crate) mod families;
pub(crate) mod fates;
pub(crate) mod imported;
mod lines;
mod over_time;
pub(crate) mod procedures;
pub(crate) mod ramps;
pub(crate) mod rates;
mod rfc2544;
mod searches;
pub(crate) mod strata;
pub(crate) mod sweeps;

use fwdlab_model::comparison::Comparison;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{RunInfo, Summary};

use super::Chart;
use crate::name::label;
use crate::run::Run;
use crate::shape::{self, Shape};
use crate::table::capital;
use crate::{campaign, link};

/// Returns all charts of a run in the order of its page, each with a unique title and name.
pub(crate) fn charts(run: &Run<'_>) -> Vec<Chart> {
    let Run {
        info,
        summary,
        trials,
        rebuilds,
        ..
    } = *run;
    let mut all = Vec::new();
    let cases = &summary.test_cases;
    if !summary.imported.is_empty() {
        all.push(titled("Forwarding rate", imported::imported(summary)));
    }
    let mut found = |before: &str, outcomes: &[Outcome]| {
        for group in crate::procedures::groups(outcomes) {
            for chart in procedures::outcome_charts(&group.outcomes, link::link_speed(info)) {
                let title = match chart.title.as_str() {
                    "" => group.title.clone(),
                    own => format!("{}: {own}", group.title),
                };
                all.push(Chart {
                    title: format!("{before}{title}"),
                    ..chart
                });
            }
        }
    };
    match Shape::from_summary(summary) {
        Shape::Procedures => found("", &crate::procedures::outcomes(summary)),
        Shape::Campaign => {
            for case in cases {
                found(&format!("{}: ", label(case, cases)), &case.outcomes);
            }
            let own = campaign_charts(info, summary)
                .into_iter()
                .map(|chart| Chart {
                    title: capital(&chart.title),
                    ..chart
                });
            all.splice(0..0, own);
        }
        Shape::Windows | Shape::Slices => {}
    }
    let compared = shape::comparisons(summary);
    if !compared.is_empty() {
        all.push(titled(
            "Difference from the plain DUT",
            differences::differences(&compared, "rebuild"),
        ));
    }
    let rated = shape::rated(summary);
    let has_rates = rated.iter().any(|c| c.found.forwarding_rate_pps.is_some());
    if has_rates {
        all.push(titled(
            "Forwarding rate",
            rates::forwarding_rates(info, summary),
        ));
    }
    let fates = crate::fates::fates(summary, rebuilds);
    if !fates.is_empty() {
        all.push(titled("Where the frames went", fates::fates(&fates)));
    }
    if has_rates && !trials.is_empty() {
        all.push(titled("Noise", strata::strata(summary, trials)));
    }
    number_duplicates(&mut all);
    all
}

/// Returns the differences of a campaign if it has any, else its figures.
pub(crate) fn campaign_charts(info: &RunInfo, summary: &Summary) -> Vec<Chart> {
    let cases = &summary.test_cases;
    if campaign::differences(cases).is_none() {
        return rates::figures(info, cases);
    }
    let named = campaign::named_differences(cases);
    let named = named.iter().map(|(_, one)| one);
    let compared: Vec<&Comparison> = named.chain(&summary.control).collect();
    match compared.is_empty() {
        true => Vec::new(),
        false => vec![titled(
            "Differences",
            differences::differences(&compared, "iteration"),
        )],
    }
}

fn titled(title: &str, chart: Chart) -> Chart {
    Chart {
        title: title.to_owned(),
        ..chart
    }
}

/// Numbers charts that have the same name.
pub(crate) fn number_duplicates(all: &mut [Chart]) {
    for n in 0..all.len() {
        let name = all[n].name.clone();
        let before = all[..n].iter().filter(|c| {
            let rest = c.name.strip_prefix(&name);
            rest.is_some_and(|rest| {
                rest.is_empty()
                    || rest
                        .strip_prefix('-')
                        .is_some_and(|r| r.parse::<u32>().is_ok())
            })
        });
        match before.count() {
            0 => {}
            count => all[n].name = format!("{name}-{}", count + 1),
        }
    }
}
