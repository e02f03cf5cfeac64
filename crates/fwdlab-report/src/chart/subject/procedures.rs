//! The graphs of what procedures found. Which procedure has which is decided here, how they look in the files beside.

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{Found, Outcome};

use super::{over_time, rfc2544, searches, sweeps};
use crate::chart::Chart;
use crate::procedures::frames;

/// The graphs of outcomes of one procedure, measured on this link, where there is one.
pub(crate) fn of(outcomes: &[&Outcome], link: Option<LinkSpeed>) -> Vec<Chart> {
    let mut charts = Vec::new();
    let Some(first) = outcomes.first() else {
        return charts;
    };
    match &first.found {
        Found::Throughput(_) => rfc2544::throughput(&mut charts, outcomes),
        Found::Latency(_) => rfc2544::latency(&mut charts, outcomes),
        Found::FrameLoss(_) => rfc2544::frame_loss(&mut charts, outcomes),
        Found::BackToBack(_) => rfc2544::back_to_back(&mut charts, outcomes),
        Found::Ramp(_)
        | Found::Soak(_)
        | Found::Trial(_)
        | Found::ForwardingRate(_)
        | Found::Churn(_) => {
            for outcome in outcomes {
                let title = match outcomes.len() {
                    1 => String::new(),
                    _ => frames(outcome),
                };
                over_time::over_time(&mut charts, outcome, title);
            }
        }
        Found::Plr(_) => searches::critical_load(&mut charts, outcomes),
        Found::Sweep(_) => sweeps::sweep(&mut charts, outcomes, link),
        Found::Mlrsearch(_) => {
            for outcome in outcomes {
                if let Found::Mlrsearch(found) = &outcome.found {
                    searches::search(&mut charts, found);
                }
            }
        }
        Found::Recovery(_)
        | Found::Reset(_)
        | Found::Management(_)
        | Found::Bursts(_)
        | Found::Energy(_)
        | Found::Mrr(_)
        | Found::Maxfwd(_)
        | Found::Equilibrium(_)
        | Found::Exact(_) => {}
        Found::Paired(_) => sweeps::differences(&mut charts, outcomes),
    }
    charts
}
