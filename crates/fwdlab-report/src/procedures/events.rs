//! Reports procedures that act on a DUT under load: events, management requests, bursts.
//!
//! What a DUT itself reported about an event is a table in `tables`. Start with `Churn`.

use fwdlab_model::management::Management;
use fwdlab_model::outcome::{BurstGaps, Churn, Outcome, Spread};
use fwdlab_model::procedure::Interval;

use super::shown::{Shown, loss, optional, or_empty, pps, time};
use crate::number::{count, rate};
use crate::table::{Cell, Table, table};

impl Shown for Churn {
    fn figure(&self) -> Option<String> {
        self.deficit_s
            .map(|s| format!("{} of the forwarding rate missing", time(s.median)))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let table = table! {
            dip in &self.dips;
            right("before", "base_pps") => pps(dip.base_pps),
            right("first dip after", "first_impact_s") => Cell::optional(dip.first_impact_s, "no dip", time),
            right("regained after", "regained_s") => Cell::optional(dip.regained_s, "not seen", time),
            right("depth", "depth_percent") => loss(100.0 * dip.depth),
            right("nothing for", "blackout_s") => Cell::new(time(dip.blackout_s), dip.blackout_s),
            right("missing", "deficit_s") => Cell::new(time(dip.deficit_s), dip.deficit_s),
            right("frames", "deficit_frames") =>
                optional(dip.deficit_frames, |frames| count(frames as i64)),
            right("by lost frames", "by_loss_s") => optional(dip.by_loss_s, time),
        };
        or_empty(table, !self.dips.is_empty())
    }

    fn samples(&self) -> &[Interval] {
        &self.samples
    }

    fn moments(&self) -> Vec<(&'static str, f64)> {
        let Some(event) = self.event_at_s else {
            return Vec::new();
        };
        let first = self.dips.first();
        let regained = first.filter(|dip| dip.first_impact_s.is_some());
        let regained = regained.and_then(|dip| dip.regained_s);
        let regained = regained.map(|s| ("regained", event + s));
        [("event", event)].into_iter().chain(regained).collect()
    }
}

impl Shown for Management {
    fn table(&self, _: &[&Outcome]) -> Table {
        let flood = self.loads.len().saturating_sub(1);
        let steps = self.requests.iter().flat_map(|one| {
            let steps = self.loads.iter().zip(&one.at).enumerate();
            steps.map(move |(n, (load, at))| (one, load, at, n == flood))
        });
        let trip = |spread: Option<Spread>, of: fn(Spread) -> f64| optional(spread.map(of), time);
        let at_rest = |s: f64| match s > 0.0 {
            true => time(s),
            false => "at once".into(),
        };
        let table = table! {
            (one, load, at, is_flood) in steps;
            left("request", "request") => Cell::text(one.request.clone()),
            left("load", "load") => Cell::text(load.name.clone()),
            right("offered", "offered_load_pps") => pps(load.offered_load_pps),
            right("forwarded", "forwarding_rate_pps") => pps(load.forwarding_rate_pps),
            right("asked", "asked") => Cell::new(count(at.asked), at.asked),
            right("lost", "lost") => Cell::new(count(at.lost), at.lost),
            right("wrong", "wrong") => Cell::new(count(at.wrong), at.wrong),
            right("round trip", "round_trip_median_s") => trip(at.round_trip_s, |s| s.median),
            right("longest", "round_trip_max_s") => trip(at.round_trip_s, |s| s.max),
            right("no answer for", "silent_s") => Cell::new(time(at.silent_s), at.silent_s),
            right("recovered after", "recovery_s") => match is_flood {
                true => Cell::optional(one.recovery_s, "not seen", at_rest),
                false => Cell::text(""),
            },
        };
        or_empty(table, !self.requests.is_empty())
    }
}

impl Shown for BurstGaps {
    fn figure(&self) -> Option<String> {
        let mut known = self.bursts.iter();
        let (frames, gap) = known.find_map(|burst| Some((burst.frames, burst.gap_s?)))?;
        Some(format!(
            "bursts of {frames} frames may be {} apart",
            time(gap)
        ))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let table = table! {
            burst in &self.bursts;
            right("burst", "burst_frames") => Cell::new(count(burst.frames), burst.frames),
            right("smallest gap", "gap_s") => Cell::optional(burst.gap_s, "", time),
            right("largest with loss", "lossy_gap_s") => Cell::optional(burst.lossy_gap_s, "", time),
            right("average load", "load_pps") => Cell::optional(burst.load_pps, "", rate),
        };
        or_empty(table, !self.bursts.is_empty())
    }
}
