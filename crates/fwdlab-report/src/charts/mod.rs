//! Builds the charts of runs: one file per subject, each a function of a summary; those of
//! procedures are in `procedures`.
//!
//! Start with [`all`].

pub(crate) mod comparison;
mod crossed;
pub(crate) mod differences;
mod families;
pub(crate) mod fates;
pub(crate) mod imported;
pub(crate) mod rates;
pub(crate) mod strata;

use fwdlab_model::comparison::Comparison;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{RunInfo, Summary};

use crate::chart::{Chart, number_duplicates};
use crate::grid;
use crate::name::label;
use crate::procedures::charts::{outcome_charts, ramps, sweeps};
use crate::run::Run;
use crate::shape::{self, Shape};
use crate::table::capital;
use crate::{campaign, link, procedures};
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::test_case::TestCase;

/// Returns all charts of a run in the order of its page, each with a unique title and name.
fn charts(run: &Run<'_>) -> Vec<Chart> {
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
        all.push(imported::imported(summary).titled("Forwarding rate"));
    }
    let mut found = |before: &str, outcomes: &[Outcome]| {
        for group in procedures::groups(outcomes) {
            for chart in outcome_charts(&group.outcomes, link::link_speed(info)) {
                let title = match chart.title.as_str() {
                    "" => group.title.clone(),
                    own => format!("{}: {own}", group.title),
                };
                all.push(chart.titled(format!("{before}{title}")));
            }
        }
    };
    match Shape::from_summary(summary) {
        Shape::Procedures => found("", &procedures::outcomes(summary)),
        Shape::Campaign => {
            for case in cases {
                found(&format!("{}: ", label(case, cases)), &case.outcomes);
            }
            let own = campaign_charts(info, summary).into_iter();
            let own = own.map(|chart| {
                let title = capital(&chart.title);
                chart.titled(title)
            });
            all.splice(0..0, own);
        }
        Shape::Windows | Shape::Slices => {}
    }
    let compared = shape::comparisons(summary);
    if !compared.is_empty() {
        all.push(
            differences::differences(&compared, "rebuild").titled("Difference from the plain DUT"),
        );
    }
    let rated = shape::rated(summary);
    let has_rates = rated.iter().any(|c| c.found.forwarding_rate_pps.is_some());
    if has_rates {
        all.push(rates::forwarding_rates(info, summary).titled("Forwarding rate"));
    }
    let fates = crate::fates::fates(summary, rebuilds);
    if !fates.is_empty() {
        all.push(fates::fates(&fates).titled("Where the frames went"));
    }
    if has_rates && !trials.is_empty() {
        all.push(strata::strata(summary, trials).titled("Noise"));
    }
    number_duplicates(&mut all);
    all
}

/// Returns the differences of a campaign if it has any, else its figures.
pub(crate) fn campaign_charts(info: &RunInfo, summary: &Summary) -> Vec<Chart> {
    let cases = &summary.test_cases;
    if let Some(counted) = differences::counted(cases) {
        return vec![counted.titled("Instructions per frame")];
    }
    if campaign::differences(cases).is_none() {
        return rates::figures(info, cases);
    }
    let named = campaign::named_differences(cases);
    let named = named.iter().map(|(_, one)| one);
    let compared: Vec<&Comparison> = named.chain(&summary.control).collect();
    match compared.is_empty() {
        true => Vec::new(),
        false => vec![differences::differences(&compared, "iteration").titled("Differences")],
    }
}

/// Returns the outcomes of all runs, each with the name of its system and its link.
fn outcomes(runs: &[Run<'_>]) -> Vec<(String, Outcome, Option<LinkSpeed>)> {
    let several = runs.len() > 1;
    let of_run = |run: &Run<'_>| -> Vec<(String, Outcome, Option<LinkSpeed>)> {
        let cases = &run.summary.test_cases;
        let speed = link::link_speed(run.info);
        let of_case = |case: &TestCase| -> Vec<(String, Outcome, Option<LinkSpeed>)> {
            let label = label(case, cases);
            let name = match (several, cases.len()) {
                (true, 1) => run.name.to_owned(),
                (true, _) => format!("{}, {label}", run.name),
                (false, _) => label,
            };
            case.outcomes
                .iter()
                .map(|outcome| (name.clone(), outcome.clone(), speed))
                .collect()
        };
        cases.iter().flat_map(of_case).collect()
    };
    runs.iter().flat_map(of_run).collect()
}

/// Returns the ramps of all runs, one graph for those that sent the same frames.
pub fn ramps(runs: &[Run<'_>]) -> Vec<Chart> {
    let all = outcomes(runs);
    let named = all.iter();
    ramps::ramps(named.map(|(name, outcome, link)| (name.clone(), outcome, *link)))
}

/// Returns the sweeps of all runs, one graph for those over the same parameter.
pub fn sweeps(runs: &[Run<'_>]) -> Vec<Chart> {
    let all = outcomes(runs);
    let named = all.iter();
    let named = named.map(|(name, outcome, link)| (name.clone(), outcome, *link));
    let named: Vec<sweeps::Named<'_>> = named.collect();
    sweeps::combine(&named)
}

/// Compares IPv4 with IPv6 in all runs, if both were measured under otherwise equal conditions.
pub fn families(runs: &[Run<'_>]) -> Option<Chart> {
    let (figure, unit, bars) = grid::families(runs)?;
    families::families(&figure, unit, &bars)
}

/// Returns all charts of runs: the combined ones first, then those of each run.
pub fn all(runs: &[Run<'_>]) -> Vec<Chart> {
    let mut all: Vec<Chart> = families(runs).into_iter().collect();
    all.extend(ramps(runs));
    all.extend(sweeps(runs));
    for run in runs {
        let own = charts(run);
        all.extend(own.into_iter().map(|chart| match runs.len() {
            1 => chart,
            _ => {
                let title = format!("{}: {}", run.name, capital(&chart.title));
                chart.titled(title)
            }
        }));
    }
    number_duplicates(&mut all);
    all
}
