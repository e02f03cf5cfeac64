//! Defines what a report shows of the outcome of a procedure, and the cells of its tables.
//!
//! Each procedure implements [`Shown`] once: its figure, and its table with each column next to its
//! cells. RFC 2544's are in `rfc2544`, others in `loads`, `events` and `costs`. Start with
//! [`shown`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{Found, Outcome, Spread};
use fwdlab_model::procedure::{Delays, Interval};

use super::charts::over_time::over_time;
use crate::chart::Chart;
use crate::number::{delay, delays, percent, rate};
use crate::table::{Cell, Mark, Table};

/// The parts of an outcome that a report shows.
pub(crate) trait Shown {
    /// Returns the figure of an answered outcome; `None` if only the verdict contains it.
    fn figure(&self) -> Option<String> {
        None
    }

    /// Returns the table of results: the columns between frame size and verdict, and their rows.
    /// `group` has the outcomes that share the table.
    fn table(&self, group: &[&Outcome]) -> Table;

    /// Returns true if the table contains everything that the verdict of an answered outcome does.
    fn is_verdict_in_table(&self) -> bool {
        false
    }

    /// Describes whether the forwarding rate collapses under a higher load than the DUT forwards.
    fn overload(&self) -> Option<String> {
        None
    }

    /// Returns the line rate it was measured against, and the rate it reached.
    fn line_rate_pps(&self) -> Option<(f64, f64)> {
        None
    }

    /// Returns the counts over time.
    fn samples(&self) -> &[Interval] {
        &[]
    }

    /// Draws the graphs of the outcomes that share the table.
    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        over_time(charts, group);
    }

    /// Returns the moments to mark in graphs over time, in seconds.
    fn moments(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Returns the delays of the trials at each load.
    fn delays(&self) -> Vec<LoadDelays> {
        Vec::new()
    }
}

/// Delays at one load.
pub(crate) struct LoadDelays {
    /// The load in percent, if there are several loads.
    pub percent: Option<f64>,
    /// The worst case (RFC 8219), if it was measured.
    pub worst_case_ns: Option<f64>,
    /// Delays of each trial.
    pub trials: Vec<Delays>,
}

impl LoadDelays {
    pub(super) fn new(
        percent: f64,
        worst_case_ns: Option<Spread>,
        trials: &[Delays],
    ) -> LoadDelays {
        LoadDelays {
            percent: Some(percent),
            worst_case_ns: worst_case_ns.map(|spread| spread.median),
            trials: trials.to_vec(),
        }
    }
}

/// Returns what a report shows of an outcome.
pub(crate) fn shown(found: &Found) -> &dyn Shown {
    procedure(found).1
}

/// Returns the name of a procedure as a title.
pub(super) fn name(found: &Found) -> &'static str {
    procedure(found).0
}

/// Lists all procedures: name and what a report shows.
fn procedure(found: &Found) -> (&'static str, &dyn Shown) {
    match found {
        Found::Ramp(found) => ("Ramp", found),
        Found::Throughput(found) => ("Throughput", found),
        Found::Latency(found) => ("Latency", found),
        Found::FrameLoss(found) => ("Frame loss rate", found),
        Found::BackToBack(found) => ("Back-to-back frames", found),
        Found::Recovery(found) => ("System recovery", found),
        Found::Reset(found) => ("Reset", found),
        Found::Churn(found) => ("Event under load", found),
        Found::Energy(found) => ("Energy", found),
        Found::Management(found) => ("Management under load", found),
        Found::Bursts(found) => ("Bursty traffic", found),
        Found::Mrr(found) => ("Maximum receive rate", found),
        Found::Soak(found) => ("Soak", found),
        Found::LoadedLatency(found) => ("Latency over load", found),
        Found::Plr(found) => ("Critical load", found),
        Found::Equilibrium(found) => ("Equilibrium", found),
        Found::Sweep(found) => ("Sweep", found),
        Found::Trial(found) => ("Trial", found),
        Found::ForwardingRate(found) => ("Forwarding rate in overload", found),
        Found::Mlrsearch(found) => ("Loads that meet goals", found),
        Found::Maxfwd(found) => ("Forwarding rate in overload", found.as_ref()),
        Found::Paired(found) => ("Difference from the reference DUT", found),
        Found::Exact(found) => ("Instructions per frame", found.as_ref()),
    }
}

/// Adds an empty row if nothing was measured.
pub(super) fn or_empty(mut table: Table, is_measured: bool) -> Table {
    if !is_measured {
        table.push(Mark::None, vec![Cell::text(""); table.columns.len()]);
    }
    table
}

/// Text of a cell without a value.
pub(super) const NOTHING: &str = "-";

/// Returns the cell of a number without a unit.
pub(super) fn plain(value: impl ToString) -> Cell {
    Cell::new(value.to_string(), value)
}

/// Returns the cell of a value that may be missing.
pub(super) fn optional<T: ToString + Copy>(value: Option<T>, format: impl Fn(T) -> String) -> Cell {
    Cell::optional(value, NOTHING, format)
}

pub(super) fn pps(value: f64) -> Cell {
    Cell::new(rate(value), value)
}

pub(super) fn optional_pps(value: Option<f64>) -> Cell {
    optional(value, rate)
}

/// Returns the cell of a rate, which is a lower bound if the tester was the limit: `>= 1.234 Mpps`.
pub(super) fn bounded_pps(value: Option<f64>, is_bound: bool) -> Cell {
    optional(value, |pps| match is_bound {
        true => format!(">= {}", rate(pps)),
        false => rate(pps),
    })
}

/// Formats the rate for a sentence: `at least 1.234 Mpps`.
pub(super) fn at_least(is_bound: bool, pps: f64) -> String {
    let at_least = if is_bound { "at least " } else { "" };
    format!("{at_least}{}", rate(pps))
}

/// Returns the cell of a loss in percent.
pub(super) fn loss(value: f64) -> Cell {
    Cell::new(percent(value), value)
}

pub(super) fn plain_percent(value: f64) -> Cell {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    Cell::new(format!("{text} %"), value)
}

/// Formats a time in seconds with the unit that suits it.
pub(super) fn time(s: f64) -> String {
    delay(1e9 * s)
}

/// Returns the cell of a value with its interval, in one unit: `23.46 [23.16, 23.91] us`.
pub(super) fn between(ends: Option<[f64; 3]>, format: impl Fn([f64; 3]) -> String) -> Cell {
    match ends {
        Some(ends) => Cell::with_values(format(ends), ends.map(|end| end.to_string())),
        None => Cell::with_values(NOTHING, [const { String::new() }; 3]),
    }
}

/// Returns the cell of a mean with its smallest and largest value, in seconds.
pub(super) fn seconds_between(spread: Option<Spread>) -> Cell {
    between(spread.map(mean_and_ends), |ends| {
        delays(ends.map(|s| s * 1e9))
    })
}

pub(super) fn mean_and_ends(spread: Spread) -> [f64; 3] {
    [spread.mean, spread.min, spread.max]
}
