//! A run as formats take it: everything that is stored of it, and nothing of where.

use fwdlab_model::event::RebuildRecord;
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{RunInfo, Summary, TrialRecord};
use fwdlab_model::test_case::TestCase;

use crate::campaign;
use crate::chart::{self, Chart};
use crate::grid;
use crate::html::CaseProfile;
use crate::lines;
use crate::words::capital;

/// A run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What it is called beside others.
    pub name: &'a str,
    /// Its head.
    pub info: &'a RunInfo,
    /// What was found.
    pub summary: &'a Summary,
    /// Its trials.
    pub trials: &'a [TrialRecord],
    /// Its rebuilds.
    pub rebuilds: &'a [RebuildRecord],
    /// Where its frames spent their time, where that was counted.
    pub profiles: &'a [CaseProfile],
}

/// What procedures of all runs found, each with the name of its system and the link that it was measured on.
fn outcomes(runs: &[Run<'_>]) -> Vec<(String, Outcome, Option<LinkSpeed>)> {
    let several = runs.len() > 1;
    let of_run = |run: &Run<'_>| -> Vec<(String, Outcome, Option<LinkSpeed>)> {
        let cases = &run.summary.test_cases;
        let link = lines::link(run.info);
        let of_case = |case: &TestCase| -> Vec<(String, Outcome, Option<LinkSpeed>)> {
            let label = campaign::label(case, cases);
            let name = match (several, cases.len()) {
                (true, 1) => run.name.to_owned(),
                (true, _) => format!("{}, {label}", run.name),
                (false, _) => label,
            };
            case.outcomes
                .iter()
                .map(|outcome| (name.clone(), outcome.clone(), link))
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
    chart::ramps(named.map(|(name, outcome, link)| (name.clone(), outcome, *link)))
}

/// Sweeps of all runs over the same parameter, in one graph each.
pub fn sweeps(runs: &[Run<'_>]) -> Vec<Chart> {
    let all = outcomes(runs);
    let named = all.iter();
    let named = named.map(|(name, outcome, link)| (name.clone(), outcome, *link));
    let named: Vec<chart::sweeps::Named<'_>> = named.collect();
    chart::sweeps::together(&named)
}

/// IPv4 beside IPv6 in all runs, where both were measured with all else the same.
pub fn families(runs: &[Run<'_>]) -> Option<Chart> {
    let (figure, unit, bars) = grid::families(runs)?;
    chart::families::families(&figure, unit, &bars)
}

/// All charts of runs: those that have several of them in one first, then those of each.
pub fn charts(runs: &[Run<'_>]) -> Vec<Chart> {
    let mut all: Vec<Chart> = families(runs).into_iter().collect();
    all.extend(ramps(runs));
    all.extend(sweeps(runs));
    for run in runs {
        let own = chart::of(run.info, run.summary, run.trials, run.rebuilds);
        all.extend(own.into_iter().map(|chart| match runs.len() {
            1 => chart,
            _ => Chart {
                title: format!("{}: {}", run.name, capital(&chart.title)),
                ..chart
            },
        }));
    }
    chart::named_apart(&mut all);
    all
}
