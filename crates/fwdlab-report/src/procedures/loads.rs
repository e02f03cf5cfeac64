//! Reports procedures that offer loads and find a rate: ramps, searches, overload, single trials.
//!
//! Their charts are in `chart`. Start with `Ramp`.

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{
    CriticalLoad, Equilibrium, ForwardingRate, Maxfwd, Mrr, Outcome, Ramp, SingleTrial, Soak,
};
use fwdlab_model::procedure::Interval;
use fwdlab_model::search::SearchOutcome;

use super::charts;
use super::shown::{LoadDelays, Shown, at_least, bounded_pps, optional, optional_pps, plain, pps};
use crate::chart::Chart;
use crate::number::{counted, percent, rate, seconds};
use crate::search;
use crate::state::LIVELOCK;
use crate::table::{Cell, Table, table};

impl Shown for Ramp {
    fn figure(&self) -> Option<String> {
        let pps = rate(self.up.saturation_pps?);
        let tester = if self.tester_bound {
            ", the tester's limit"
        } else {
            ""
        };
        Some(match self.up.at_s {
            Some(_) => format!("loss begins above {pps}{tester}"),
            None => format!("no lasting loss up to {pps}"),
        })
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let down = self.down.as_ref().map(|down| (down, "down"));
        table! {
            (edge, way) in [(&self.up, "up")].into_iter().chain(down);
            left("way", "way") => Cell::text(way),
            right("loss above", "saturation_pps") => optional_pps(edge.saturation_pps),
            right("at least", "lower_pps") => optional_pps(edge.lower_pps),
            right("below", "upper_pps") => optional_pps(edge.upper_pps),
            right("best", "max_forwarding_rate_pps") => pps(self.max_forwarding_rate_pps),
            right("at target", "held_forwarding_rate_pps") => optional_pps(self.held_forwarding_rate_pps),
            right("target", "target_pps") => pps(self.target_pps),
        }
    }

    fn samples(&self) -> &[Interval] {
        &self.samples
    }

    fn overload(&self) -> Option<String> {
        let held = self.held_forwarding_rate_pps.zip(self.collapse_ratio);
        let Some((pps, ratio)) = held else {
            return Some("cannot tell whether the output collapses: there is no forwarding rate at the largest load".into());
        };
        let share = percent(100.0 * ratio);
        let (pps, best) = (rate(pps), rate(self.max_forwarding_rate_pps));
        Some(match (ratio < LIVELOCK, self.tester_bound) {
            (true, _) => format!(
                "the output collapses: at the largest load the DUT forwards {pps}, {share} of its best rate"
            ),
            (false, true) => format!(
                "the output does not collapse up to the largest load that the tester offered: {pps}, {share} of the best rate ({best})"
            ),
            (false, false) => format!(
                "the output does not collapse: at the largest load the DUT forwards {pps}, {share} of its best rate ({best})"
            ),
        })
    }

    fn line_rate_pps(&self) -> Option<(f64, f64)> {
        let percent = self.max_line_percent.filter(|percent| *percent > 0.0)?;
        let most = self.max_forwarding_rate_pps;
        Some((100.0 * most / percent, most))
    }

    fn moments(&self) -> Vec<(&'static str, f64)> {
        let down = self.down.as_ref().and_then(|edge| edge.at_s);
        let edges = [("loss begins", self.up.at_s), ("loss ends", down)];
        let edges = edges.into_iter();
        edges.filter_map(|(name, at)| Some((name, at?))).collect()
    }
}

impl Shown for Mrr {
    fn figure(&self) -> Option<String> {
        self.receive_rate_pps
            .map(|r| at_least(self.tester_bound, r.mean))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let (found, trials) = (self.receive_rate_pps, self.trials_pps.len());
        table! {
            right("load", "load_pps") => pps(self.load_pps),
            right("received", "receive_rate_pps") => bounded_pps(found.map(|s| s.mean), self.tester_bound),
            right("lowest", "min_pps") => optional_pps(found.map(|s| s.min)),
            right("highest", "max_pps") => optional_pps(found.map(|s| s.max)),
            right("trials", "trials") => plain(trials),
        }
    }

    fn is_verdict_in_table(&self) -> bool {
        true
    }
}

impl Shown for Soak {
    fn table(&self, _: &[&Outcome]) -> Table {
        let lost = counted(self.frames_lost, "frame");
        table! {
            right("load", "load_pps") => pps(self.load_pps),
            right("for", "duration_s") => Cell::new(seconds(self.duration_s), self.duration_s),
            right("lost", "frames_lost") => Cell::new(lost, self.frames_lost),
            right("bursts", "loss_bursts") => plain(self.loss_bursts),
            right("longest clean", "longest_lossless_s") =>
                Cell::new(seconds(self.longest_lossless_s), self.longest_lossless_s),
            right("trend per h", "trend_pps_per_hour") =>
                optional(self.trend_pps_per_hour, |pps| format!("{pps:+.0} pps")),
        }
    }

    fn samples(&self) -> &[Interval] {
        &self.samples
    }
}

impl Shown for CriticalLoad {
    fn figure(&self) -> Option<String> {
        let pps = self.critical_load_pps?;
        Some(match self.lower_pps.zip(self.upper_pps) {
            Some((lower, upper)) => format!("{} ({} to {})", rate(pps), rate(lower), rate(upper)),
            None => at_least(self.is_tester_bound(), pps),
        })
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let sought = format!("{:e}", self.loss_ratio);
        table! {
            right("loss sought", "loss_ratio") => Cell::new(sought, self.loss_ratio),
            right("critical load", "critical_load_pps") =>
                bounded_pps(self.critical_load_pps, self.is_tester_bound()),
            right("from", "lower_pps") => optional_pps(self.lower_pps),
            right("to", "upper_pps") => optional_pps(self.upper_pps),
            right("offered at most", "max_load_pps") => pps(self.max_load_pps),
        }
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        charts::searches::critical_load(charts, group);
    }
}

impl Shown for Equilibrium {
    fn figure(&self) -> Option<String> {
        self.equilibrium_pps.map(rate)
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        table! {
            right("largest load", "max_load_pps") => pps(self.max_load_pps),
            right("equilibrium", "equilibrium_pps") => optional_pps(self.equilibrium_pps),
            right("largest seen", "max_seen_pps") => optional_pps(self.max_seen_pps),
        }
    }
}

impl Shown for ForwardingRate {
    fn figure(&self) -> Option<String> {
        self.forwarding_rate_pps
            .map(|r| at_least(self.not_saturated, r.median))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let found = self.forwarding_rate_pps;
        table! {
            right("offered", "offered_load_pps") => optional_pps(self.offered_load_pps),
            right("forwarded", "forwarding_rate_pps") =>
                bounded_pps(found.map(|s| s.median), self.not_saturated),
            right("lowest", "min_pps") => optional_pps(found.map(|s| s.min)),
            right("highest", "max_pps") => optional_pps(found.map(|s| s.max)),
            right("CV", "variation_percent") => optional(self.variation_percent, percent),
        }
    }

    fn samples(&self) -> &[Interval] {
        &self.samples
    }

    fn overload(&self) -> Option<String> {
        let pps = self.forwarding_rate_pps?.median;
        let lower = self
            .lower_forwarding_rate_pps
            .filter(|lower| *lower > 0.0)?;
        let ratio = pps / lower;
        let (share, pps, lower) = (percent(100.0 * ratio), rate(pps), rate(lower));
        Some(match (ratio < LIVELOCK, self.not_saturated) {
            (_, true) => format!(
                "cannot tell whether the output collapses: the offered load was less than 1.1 times the output ({pps})"
            ),
            (true, _) => format!(
                "the output collapses: {pps} in overload, {share} of the output at a lower load ({lower})"
            ),
            (false, _) => format!(
                "the output does not collapse: {pps} in overload, {share} of the output at a lower load ({lower})"
            ),
        })
    }
}

impl Shown for SearchOutcome {
    fn figure(&self) -> Option<String> {
        Some(search::headline(self))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let share = |pps: f64| 100.0 * pps / self.max_load_pps;
        table! {
            (goal, label) in self.goals.iter().zip(search::labels(self));
            left("goal", "name") => Cell::new(label, &goal.name),
            right("lower bound", "relevant_lower_bound_pps") =>
                bounded_pps(goal.relevant_lower_bound_pps, goal.tester_bound),
            right("upper bound", "relevant_upper_bound_pps") => optional_pps(goal.relevant_upper_bound_pps),
            right("forwards there", "conditional_throughput_pps") =>
                optional_pps(goal.conditional_throughput_pps),
            right("of largest load", "share_of_largest_load_percent") =>
                optional(goal.relevant_lower_bound_pps.map(share), percent),
        }
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        charts::searches::searches(charts, group);
    }
}

impl Shown for Maxfwd {
    fn figure(&self) -> Option<String> {
        self.forwarding_rate_pps
            .map(|pps| at_least(self.not_saturated, pps))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let quiet = self.quiet.windows;
        let not_quiet = self.windows() - quiet - self.windows_not_offered;
        let windows = format!("{quiet} of {}", self.windows());
        let windows = Cell::with_values(windows, [quiet, not_quiet].map(|n| n.to_string()));
        table! {
            right("offered", "offered_load_pps") => optional_pps(self.offered_load_pps),
            right("forwarded", "forwarding_rate_pps") =>
                bounded_pps(self.forwarding_rate_pps, self.not_saturated),
            right("all windows", "forwarding_rate_ungated_pps") =>
                optional_pps(self.forwarding_rate_ungated_pps),
            right("quiet windows", "windows", "windows_not_quiet") => windows,
        }
    }
}

impl Shown for SingleTrial {
    fn figure(&self) -> Option<String> {
        Some(trial(self, false))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let lost = percent(100.0 * self.frame_loss_ratio);
        table! {
            right("intended", "intended_load_pps") => pps(self.intended_load_pps),
            right("offered", "offered_load_pps") => pps(self.offered_load_pps),
            right("forwarded", "forwarding_rate_pps") => pps(self.forwarding_rate_pps),
            right("lost", "frame_loss_ratio") => Cell::new(lost, self.frame_loss_ratio),
            right("for", "duration_s") => Cell::new(seconds(self.duration_s), self.duration_s),
        }
    }

    fn is_verdict_in_table(&self) -> bool {
        true
    }

    fn samples(&self) -> &[Interval] {
        &self.samples
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        charts::over_time::over_time(charts, group);
        charts::rfc2544::percentiles(charts, group);
    }

    fn delays(&self) -> Vec<LoadDelays> {
        vec![LoadDelays {
            percent: None,
            worst_case_ns: None,
            trials: self.delays.into_iter().collect(),
        }]
    }
}

/// Describes a trial: `283 pps of 283 pps offered (of 1.000 kpps intended) came back, 0 % lost`.
pub(super) fn trial(found: &SingleTrial, fell_short: bool) -> String {
    let intended = match fell_short {
        true => format!(" (of {} intended)", rate(found.intended_load_pps)),
        false => String::new(),
    };
    format!(
        "{} of {} offered{intended} came back, {} lost",
        rate(found.forwarding_rate_pps),
        rate(found.offered_load_pps),
        percent(100.0 * found.frame_loss_ratio)
    )
}
