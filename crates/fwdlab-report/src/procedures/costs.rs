//! Reports procedures that measure costs: sweeps, paired slices, energy, instructions.
//!
//! Tables over several test cases are in `campaign` and `exact`. Start with `Sweep`.

use fwdlab_model::energy::{joules_per_frame, marginal_joules_per_frame};
use fwdlab_model::instructions::Exact;
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{
    Cost, Energy, EnergyPoint, Outcome, Paired, PairedPoint, Slope, Sweep,
};

use super::charts;
use super::shown::{NOTHING, Shown, optional, optional_pps, plain};
use crate::chart::Chart;
use crate::number::{difference, energy, instructions, interval, percent, plural, rate, watts};
use crate::table::{Cell, Column, Mark, Table, table};
use crate::words;

impl Shown for Sweep {
    fn figure(&self) -> Option<String> {
        describe_sweep(self)
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        match Sweep::is_resource_sweep(&self.parameter) {
            true => table! {
                point in &self.points;
                right(self.parameter, "value") => plain(point.value),
                right("median", "median_pps") => optional_pps(point.median_pps),
                right("speed-up", "speed_up") =>
                    optional(self.speed_up(point).map(|of| of.0), |times| format!("{times:.2}")),
                right("efficiency", "efficiency_percent") =>
                    optional(self.speed_up(point).map(|of| of.1), percent),
            },
            false => table! {
                point in &self.points;
                right(self.parameter, "value") => plain(point.value),
                right("median", "median_pps") => optional_pps(point.median_pps),
                right("of reference", "percent_of_reference") =>
                    optional(point.percent_of_reference, percent),
                right("time per frame", "frame_ns") =>
                    optional(point.median_pps.map(|pps| 1e9 / pps), |ns| format!("{ns:.1} ns")),
            },
        }
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], link: Option<LinkSpeed>) {
        charts::sweeps::sweep(charts, group, link);
    }
}

/// Describes a sweep: the cost of a unit, or the gain of more cores. `None` if there are too few
/// values.
pub(crate) fn describe_sweep(found: &Sweep) -> Option<String> {
    if !Sweep::is_resource_sweep(&found.parameter) {
        return found.cost().map(cost);
    }
    let mut points: Vec<_> = (found.points.iter())
        .filter(|point| found.speed_up(point).is_some())
        .collect();
    points.sort_by_key(|point| point.value);
    let (last, first) = (points.last()?, points.first()?);
    let (times, efficiency) = found.speed_up(last)?;
    let steps = points.windows(2).filter_map(|pair| {
        let (from, to) = (pair[0].median_pps?, pair[1].median_pps?);
        let more = difference(100.0 * (to / from - 1.0), None);
        Some(format!("{} to {}: {more} %", pair[0].value, pair[1].value))
    });
    (first.value != last.value).then(|| {
        format!(
            "{} {} forward {times:.2} times what one does, efficiency {} ({})",
            last.value,
            found.parameter,
            percent(efficiency),
            steps.collect::<Vec<_>>().join(", ")
        )
    })
}

/// Describes the cost of a parameter.
fn cost(cost: &Cost) -> String {
    match cost {
        Cost::Constant { frame_ns } => format!("no cost found, {frame_ns:.1} ns per frame"),
        Cost::Linear {
            unit_ns,
            unit_ns_interval: (low, high),
            ..
        } => format!("{unit_ns:.3} ns each ({low:.3} to {high:.3})"),
        Cost::Logarithmic {
            doubling_ns,
            doubling_ns_interval: (low, high),
            ..
        } => format!("{doubling_ns:.3} ns per doubling ({low:.3} to {high:.3})"),
        Cost::Cliff {
            frame_ns,
            beyond_ns,
            last_before,
            first_after,
        } => format!(
            "a cliff between {last_before} and {first_after}: {frame_ns:.0} to {beyond_ns:.0} ns per frame"
        ),
        Cost::Stretches { stretches, .. } => {
            let reported = stretches.iter().map(|stretch| {
                let (low, high) = stretch.unit_ns_interval;
                format!(
                    "{:.2} ns each ({low:.2} to {high:.2}) from {} to {}",
                    stretch.unit_ns, stretch.from, stretch.to
                )
            });
            format!("not linear: {}", reported.collect::<Vec<_>>().join(", "))
        }
    }
}

impl Shown for Paired {
    fn figure(&self) -> Option<String> {
        Some(match (&self.slope, &self.points[..]) {
            (Some(found), _) => slope(found, self.parameter.as_deref().unwrap_or("units")),
            (None, [point]) => words::finding(&point.comparison),
            (None, points) => plural(points.len(), "value"),
        })
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let value = self.parameter.as_ref();
        let value = value.map(|parameter| Column::right(parameter, &["value"]));
        let columns = value.into_iter().chain(difference_columns());
        let mut table = Table::new(columns.collect());
        for point in &self.points {
            let value = point.value;
            let value = value.map(|value| Cell::new(value.to_string(), value));
            let cells = value.into_iter().chain(difference_cells(point));
            table.push(Mark::None, cells.collect());
        }
        table
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        charts::sweeps::differences(charts, group);
    }
}

/// Returns the columns of a difference from a reference DUT.
pub(crate) fn difference_columns() -> Vec<Column> {
    vec![
        Column::right("forwarded", &["forwarding_rate_pps"]),
        Column::right("difference", &["difference_percent"]),
        Column::right(
            "95 % interval",
            &["interval_low_percent", "interval_high_percent"],
        ),
        Column::right("costs a frame", &["cost_ns"]),
        Column::right("from, to", &["cost_low_ns", "cost_high_ns"]),
        Column::left("result", &["result"]),
    ]
}

/// Returns the cells of [`difference_columns`].
pub(crate) fn difference_cells(point: &PairedPoint) -> Vec<Cell> {
    let comparison = &point.comparison;
    let ends = comparison.interval_percent;
    let both = |ends: Option<[f64; 2]>, text: &dyn Fn([f64; 2]) -> String| Cell {
        text: ends.map_or_else(|| NOTHING.into(), text),
        raw: match ends {
            Some([low, high]) => vec![low.to_string(), high.to_string()],
            None => vec![String::new(); 2],
        },
    };
    vec![
        optional_pps(comparison.forwarding_rate_pps),
        Cell::optional(comparison.difference_percent, NOTHING, |value| {
            format!("{} %", difference(value, ends))
        }),
        both(ends, &|ends| format!("{} %", interval(ends))),
        Cell::optional(point.cost_ns, NOTHING, |ns| format!("{ns:.1} ns")),
        both(point.cost_interval_ns, &|[low, high]| {
            format!("{low:.1}, {high:.1}")
        }),
        Cell::text(words::short_verdict(comparison)),
    ]
}

/// Describes the cost of a unit, and the additional cost of the first:
/// `11.90 ns a frame per rule [11.50, 12.30]`.
pub(crate) fn slope(slope: &Slope, parameter: &str) -> String {
    let interval = slope.unit_ns_interval.map_or(String::new(), |[low, high]| {
        format!(" [{low:.2}, {high:.2}]")
    });
    format!(
        "{:.2} ns a frame per {}{interval}, and {:.0} ns for having any; the reference DUT takes {:.0} ns",
        slope.unit_ns,
        one_of(parameter),
        slope.fixed_ns,
        slope.frame_ns
    )
}

/// Returns the singular of a swept parameter with a regular English plural: `rules`, `entries`.
fn one_of(parameter: &str) -> String {
    match (parameter.strip_suffix("ies"), parameter.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) => stem.to_owned(),
        (None, None) => parameter.to_owned(),
    }
}

impl Shown for Energy {
    fn figure(&self) -> Option<String> {
        let mut meters = self.meters.iter();
        let (meter, joules) = meters.find_map(|meter| Some((meter, meter.joules_per_frame?)))?;
        let idle = meter.idle_watts;
        let idle = idle.map_or(String::new(), |idle| format!(", {} idle", watts(idle)));
        Some(format!("{} a frame{idle}", energy(joules)))
    }

    fn table(&self, group: &[&Outcome]) -> Table {
        let meters = meters(group);
        let mut columns = vec![
            Column::left("load", &["load"]),
            Column::right("offered load", &["offered_load_pps"]),
            Column::right("forwarding rate", &["forwarding_rate_pps"]),
        ];
        columns.extend(meters.iter().flat_map(|meter| {
            [
                Column::right(&format!("by {meter}"), &["watts"]),
                Column::right("a frame", &["joules_per_frame"]),
                Column::right("beyond idle", &["marginal_joules_per_frame"]),
            ]
        }));
        let mut table = Table::new(columns);
        for point in &self.points {
            table.push(Mark::None, energies(self, point, &meters));
        }
        table
    }
}

/// Returns the names of all meters that were read for any of these outcomes: a meter may fail for a
/// single frame size.
fn meters<'a>(group: &[&'a Outcome]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let found = group.iter().filter_map(|outcome| outcome.found.get());
    for meter in found.flat_map(|found: &Energy| &found.meters) {
        if !names.contains(&meter.name.as_str()) {
            names.push(&meter.name);
        }
    }
    names
}

/// Returns the cells of the meters at a load. Without load there is no energy per frame.
fn energies(found: &Energy, point: &EnergyPoint, meters: &[&str]) -> Vec<Cell> {
    let rate_pps = point.forwarding_rate_pps;
    let load = match point.share {
        None => "overload".to_owned(),
        Some(0.0) => "idle".to_owned(),
        Some(share) => percent(100.0 * share),
    };
    let mut cells = vec![
        Cell::text(load),
        Cell::new(rate(point.offered_load_pps), point.offered_load_pps),
        Cell::new(rate(rate_pps), rate_pps),
    ];
    for name in meters {
        let power = point.watts.get(*name).copied();
        let meter = found.meters.iter().find(|meter| meter.name == *name);
        let idle_watts = meter.and_then(|meter| meter.idle_watts);
        let of_load = power.filter(|_| point.share != Some(0.0) && rate_pps > 0.0);
        cells.extend([
            Cell::optional(power, NOTHING, watts),
            Cell::optional(
                of_load.map(|w| joules_per_frame(w, rate_pps)),
                NOTHING,
                energy,
            ),
            Cell::optional(
                of_load
                    .zip(idle_watts)
                    .and_then(|(w, idle)| marginal_joules_per_frame(w, idle, rate_pps)),
                NOTHING,
                energy,
            ),
        ]);
    }
    cells
}

impl Shown for Exact {
    fn figure(&self) -> Option<String> {
        let number = instructions(self.instructions_per_frame);
        Some(format!("{number} instructions per frame"))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let number = |value: f64| Cell::new(instructions(value), value);
        table! {
            right("instructions/frame", "instructions_per_frame") => number(self.instructions_per_frame),
            right("with the tester", "through_per_frame") => number(self.through_per_frame),
            right("tester alone", "tester_per_frame") => number(self.tester_per_frame),
            right("bursts", "bursts") => plain(self.bursts),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fwdlab_model::outcome::{Compliance, Found, Meter};
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::variant::Variant;

    use super::*;

    /// The first outcome determines the columns of a table, so each outcome needs cells for the
    /// meters of all.
    #[test]
    fn a_meter_that_fails_for_one_frame_size_leaves_its_cells_empty() {
        let outcome = |names: &[&str]| Outcome {
            frame_size_bytes: FrameSize::MIN,
            variant: Variant::default(),
            found: Found::Energy(Energy {
                meters: (names.iter())
                    .map(|name| Meter {
                        name: (*name).into(),
                        idle_watts: Some(10.0),
                        full_watts: Some(20.0),
                        joules_per_frame: Some(2e-5),
                        marginal_joules_per_frame: Some(1e-5),
                        proportionality: Some(0.5),
                    })
                    .collect(),
                points: vec![EnergyPoint {
                    share: None,
                    intended_load_pps: 1e6,
                    offered_load_pps: 1e6,
                    forwarding_rate_pps: 1e6,
                    watts: (names.iter())
                        .map(|name| ((*name).to_owned(), 20.0))
                        .collect::<BTreeMap<_, _>>(),
                }],
            }),
            verdict: "measured".into(),
            answered: true,
            not_applicable: false,
            compliance: Compliance::default(),
            warnings: Vec::new(),
            trials: 1,
        };
        let [both, one] = [outcome(&["plug", "rapl"]), outcome(&["rapl"])];
        let group = [&both, &one];
        for outcome in group {
            let Some(found) = outcome.found.get::<Energy>() else {
                panic!("{outcome:?}")
            };
            let table = found.table(&group);
            let names: Vec<&str> = table.columns.iter().map(|one| one.head.as_str()).collect();
            assert_eq!(
                names[3..7],
                ["by plug", "a frame", "beyond idle", "by rapl"]
            );
            assert!(table.rows.iter().all(|row| row.cells.len() == names.len()));
        }
    }
}
