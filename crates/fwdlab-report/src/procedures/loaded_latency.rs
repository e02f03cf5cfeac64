//! Reports delays at shares of one load.

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{LoadedLatency, LoadedPoint, Outcome, Spread};

use super::charts;
use super::shown::{LoadDelays, Shown, between, loss, mean_and_ends, or_empty, plain_percent, pps};
use super::tables::marked;
use crate::chart::Chart;
use crate::number::{delay, delays, rate};
use crate::table::{Table, table};

impl Shown for LoadedLatency {
    fn figure(&self) -> Option<String> {
        let at = |point: &LoadedPoint| {
            let typical = delay(point.typical_ns?.median);
            Some(format!("{typical} at {} %", point.percent))
        };
        let timed: Vec<String> = self.points.iter().filter_map(at).collect();
        match &timed[..] {
            [] => None,
            [only] => Some(format!("typical {only} of {}", rate(self.load_pps))),
            [first, .., last] => Some(format!(
                "typical {first}, {last} of {}",
                rate(self.load_pps)
            )),
        }
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let of = |point: &LoadedPoint, spread: Option<Spread>, share| {
            let cell = between(spread.map(mean_and_ends), delays);
            marked(cell, &point.repetitions, share)
        };
        let table = table! {
            point in &self.points;
            right("%", "percent") => plain_percent(point.percent),
            right("load", "load_pps") => pps(point.load_pps),
            right("forwarded", "forwarding_rate_pps") => pps(point.forwarding_rate_pps),
            right("lost", "loss_percent") => loss(100.0 * point.frame_loss_ratio),
            right("typical [min, max]", "typical_ns", "typical_min_ns", "typical_max_ns") =>
                of(point, point.typical_ns, 0.5),
            right("worst case [min, max]", "worst_case_ns", "worst_case_min_ns", "worst_case_max_ns") =>
                of(point, point.worst_case_ns, 0.999),
        };
        or_empty(table, !self.points.is_empty())
    }

    fn is_verdict_in_table(&self) -> bool {
        true
    }

    fn delays(&self) -> Vec<LoadDelays> {
        let points = self.points.iter();
        points
            .map(|one| LoadDelays::new(one.percent, one.worst_case_ns, &one.repetitions))
            .collect()
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        charts::rfc2544::latency(charts, group, "the load");
    }
}
