//! Charts of runs: those that show several runs or systems in one, then those of each.
//!
//! Which values a chart has is decided by its file in `subject`. Start with [`all`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::test_case::TestCase;

use super::Chart;
use super::subject::{families, named_apart, of, ramps, sweeps};
use crate::grid;
use crate::link;
use crate::name::label;
use crate::run::Run;
use crate::table::capital;

/// What procedures of all runs found, each with the name of its system and the link that it was measured on.
fn outcomes(runs: &[Run<'_>]) -> Vec<(String, Outcome, Option<LinkSpeed>)> {
    let several = runs.len() > 1;
    let of_run = |run: &Run<'_>| -> Vec<(String, Outcome, Option<LinkSpeed>)> {
        let cases = &run.summary.test_cases;
        let speed = link::of(run.info);
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

/// Ramps of all runs that sent the same frames, in one graph each.
pub fn ramps(runs: &[Run<'_>]) -> Vec<Chart> {
    let all = outcomes(runs);
    let named = all.iter();
    ramps::ramps(named.map(|(name, outcome, link)| (name.clone(), outcome, *link)))
}

/// Sweeps of all runs over the same parameter, in one graph each.
pub fn sweeps(runs: &[Run<'_>]) -> Vec<Chart> {
    let all = outcomes(runs);
    let named = all.iter();
    let named = named.map(|(name, outcome, link)| (name.clone(), outcome, *link));
    let named: Vec<sweeps::Named<'_>> = named.collect();
    sweeps::together(&named)
}

/// IPv4 beside IPv6 in all runs, where both were measured with all else the same.
pub fn families(runs: &[Run<'_>]) -> Option<Chart> {
    let (figure, unit, bars) = grid::families(runs)?;
    families::families(&figure, unit, &bars)
}

/// All charts of runs: those that have several of them in one first, then those of each.
pub fn all(runs: &[Run<'_>]) -> Vec<Chart> {
    let mut all: Vec<Chart> = families(runs).into_iter().collect();
    all.extend(ramps(runs));
    all.extend(sweeps(runs));
    for run in runs {
        let own = of(run.info, run.summary, run.trials, run.rebuilds);
        all.extend(own.into_iter().map(|chart| match runs.len() {
            1 => chart,
            _ => Chart {
                title: format!("{}: {}", run.name, capital(&chart.title)),
                ..chart
            },
        }));
    }
    named_apart(&mut all);
    all
}
