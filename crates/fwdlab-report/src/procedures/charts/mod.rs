//! The graphs of procedures, which `Shown::charts` chooses. Start with [`outcome_charts`].

pub(crate) mod lines;
pub(super) mod over_time;
pub(crate) mod ramps;
pub(super) mod rfc2544;
pub(super) mod searches;
pub(crate) mod sweeps;

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::Outcome;

use super::shown::shown;
use crate::chart::Chart;

/// Returns the graphs of outcomes of one procedure, measured on this link if it is known.
pub(crate) fn outcome_charts(outcomes: &[&Outcome], link: Option<LinkSpeed>) -> Vec<Chart> {
    let mut charts = Vec::new();
    if let Some(first) = outcomes.first() {
        shown(&first.found).charts(&mut charts, outcomes, link);
    }
    charts
}

/// Returns the outcomes with results of this type.
fn of_type<'a, T: 'static>(
    outcomes: &'a [&'a Outcome],
) -> impl Iterator<Item = (&'a Outcome, &'a T)> {
    let outcomes = outcomes.iter();
    outcomes.filter_map(|outcome| Some((*outcome, outcome.found.get()?)))
}
