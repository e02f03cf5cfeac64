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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chart::Plot;

    /// Returns the names of the charts, each with its moments.
    fn drawn(found: serde_json::Value) -> Vec<(String, Vec<(f64, String)>)> {
        let mut outcome = json!({
            "frame_size_bytes": 64, "verdict": "found", "answered": true,
            "compliance": { "standard": "" }, "trials": 1,
        });
        let whole = outcome.as_object_mut().unwrap();
        whole.extend(found.as_object().unwrap().clone());
        let outcome: Outcome = serde_json::from_value(outcome).unwrap();
        let charts = outcome_charts(&[&outcome], None).into_iter();
        let moments = |plot: Plot| match plot {
            Plot::Curves(curves) => curves.moments,
            Plot::Rows(_) => Vec::new(),
        };
        charts
            .map(|chart| {
                let moments = moments(chart.plot).into_iter();
                let moments = moments.map(|one| (one.at, one.label));
                (chart.name, moments.collect())
            })
            .collect()
    }

    #[test]
    fn a_procedure_draws_its_own_charts_and_moments() {
        let point = |percent: f64, lost: f64| json!({ "percent": percent, "load_pps": 1e4 * percent, "loss_percent": lost, "forwarding_rate_pps": 9e5 });
        let loss = drawn(json!({
            "procedure": "frame-loss",
            "found": { "max_load_pps": 1e6, "points": [point(100.0, 10.0), point(90.0, 0.0)], "ended_clean": false },
        }));
        let frame_loss = || ("frame-loss".to_owned(), Vec::new());
        assert_eq!(loss, [frame_loss(), frame_loss()]);
        let sample = |at: u64| json!({ "at_ns": at * 1_000_000_000, "length_ns": 1_000_000_000, "intended_load_pps": 1e3, "frames_sent": 1000, "frames_received": 900 });
        let dip = json!({
            "base_pps": 1e3, "before_ratio": 1.0, "fell_short_ratio": 0.0, "first_impact_s": 0.1, "regained_s": 0.5,
            "depth": 0.5, "blackout_s": 0.0, "deficit_s": 0.1,
        });
        let event = drawn(json!({
            "procedure": "churn",
            "found": {
                "event": "flap", "load_pps": 1e3, "share": 0.9, "resolution_s": 0.1, "dips": [dip],
                "samples": [sample(0), sample(1), sample(2)], "event_at_s": 1.0,
            },
        }));
        let moments = vec![(1.0, "event".to_owned()), (1.5, "regained".to_owned())];
        let over_time = || ("over-time".to_owned(), moments.clone());
        assert_eq!(event, [over_time(), over_time()]);
    }
}
