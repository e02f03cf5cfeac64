//! Chooses the graphs of each procedure; the neighbouring files draw them. Start with [`outcome_charts`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{Found, Outcome};

use super::{over_time, rfc2544, searches, sweeps};
use crate::chart::Chart;

/// Returns the graphs of outcomes of one procedure, measured on this link if it is known.
pub(crate) fn outcome_charts(outcomes: &[&Outcome], link: Option<LinkSpeed>) -> Vec<Chart> {
    let mut charts = Vec::new();
    let Some(first) = outcomes.first() else {
        return charts;
    };
    match &first.found {
        Found::Throughput(_) => rfc2544::throughput(&mut charts, outcomes),
        Found::Latency(_) => rfc2544::latency(&mut charts, outcomes, "the throughput"),
        Found::LoadedLatency(_) => rfc2544::latency(&mut charts, outcomes, "the load"),
        Found::FrameLoss(_) => rfc2544::frame_loss(&mut charts, outcomes),
        Found::BackToBack(_) => rfc2544::back_to_back(&mut charts, outcomes),
        Found::Plr(_) => searches::critical_load(&mut charts, outcomes),
        Found::Mlrsearch(_) => searches::searches(&mut charts, outcomes),
        Found::Sweep(_) => sweeps::sweep(&mut charts, outcomes, link),
        Found::Paired(_) => sweeps::differences(&mut charts, outcomes),
        _ => over_time::over_time(&mut charts, outcomes),
    }
    charts
}
