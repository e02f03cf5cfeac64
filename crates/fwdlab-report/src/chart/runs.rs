//! Returns charts of several runs: those that combine runs or systems, then those of each run.
//!
//! The files in `subject` choose the values of each chart. Start with [`all`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::test_case::TestCase;

use super::Chart;
use super::subject::{charts, families, number_duplicates, ramps, sweeps};
use crate::grid;
use crate::link;
use crate::name::label;
use crate::run::Run;
use crate::table::capital;

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
            _ => Chart {
                title: format!("{}: {}", run.name, capital(&chart.title)),
                ..chart
            },
        }));
    }
    number_duplicates(&mut all);
    all
}
