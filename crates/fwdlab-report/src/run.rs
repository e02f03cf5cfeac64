//! A run as formats take it: everything that is stored of it, and nothing of where.

use fwdlab_model::event::RebuildRecord;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{RunInfo, Summary, TrialRecord};

use crate::campaign;
use crate::chart::{self, Chart};
use crate::html::CaseProfile;
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

/// Ramps of all runs that sent the same frames, in one graph each.
pub fn ramps(runs: &[Run<'_>]) -> Vec<Chart> {
    let several = runs.len() > 1;
    let of_run = |run: &Run<'_>| -> Vec<(String, Outcome)> {
        let cases = &run.summary.test_cases;
        let of_case = |case: &fwdlab_model::test_case::TestCase| -> Vec<(String, Outcome)> {
            let label = campaign::label(case, cases);
            let name = match (several, cases.len()) {
                (true, 1) => run.name.to_owned(),
                (true, _) => format!("{}, {label}", run.name),
                (false, _) => label,
            };
            case.outcomes
                .iter()
                .map(|outcome| (name.clone(), outcome.clone()))
                .collect()
        };
        cases.iter().flat_map(of_case).collect()
    };
    let all: Vec<(String, Outcome)> = runs.iter().flat_map(of_run).collect();
    chart::ramps(all.iter().map(|(name, outcome)| (name.clone(), outcome)))
}

/// All charts of runs: those that have several of them in one first, then those of each.
pub fn charts(runs: &[Run<'_>]) -> Vec<Chart> {
    let mut all = ramps(runs);
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
