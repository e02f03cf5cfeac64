//! Reports the tests of RFC 2544.
//!
//! Their charts are in `chart`. Start with `Throughput`.

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::{
    BackToBack, FrameLoss, Latency, LatencyMode, LatencyPoint, Outcome, Recovery, Reset, Spread,
    Throughput,
};

use super::charts;
use super::shown::{
    LoadDelays, Shown, at_least, between, bounded_pps, loss, mean_and_ends, optional, optional_pps,
    plain_percent, pps, seconds_between, time,
};
use super::tables::marked;
use crate::chart::Chart;
use crate::number::{bits_per_second, count, counted, delay, delays, percent, rate, seconds};
use crate::table::{Cell, Column, Mark, Table, table};

impl Shown for Throughput {
    fn figure(&self) -> Option<String> {
        let share = self.percent;
        let share = share.map_or(String::new(), |p| format!(" ({})", percent(p)));
        self.throughput_pps
            .map(|pps| format!("{}{share}", at_least(self.tester_bound, pps)))
    }

    fn table(&self, group: &[&Outcome]) -> Table {
        let mut group = group.iter().filter_map(|outcome| outcome.found.get());
        let has_line = group.any(|found: &Throughput| found.line_rate_pps.is_some());
        let throughput = bounded_pps(self.throughput_pps, self.tester_bound);
        let (share, l2) = (
            optional(self.percent, percent),
            optional(self.l2_bps, bits_per_second),
        );
        match has_line {
            true => table! {
                right("theoretical", "line_rate_pps") => optional_pps(self.line_rate_pps),
                right("measured", "throughput_pps") => throughput,
                right("of theoretical", "percent") => share,
                right("L2 rate", "l2_bps") => l2,
            },
            false => table! {
                right("largest load", "max_load_pps") => pps(self.max_load_pps),
                right("measured", "throughput_pps") => throughput,
                right("of largest load", "percent") => share,
                right("L2 rate", "l2_bps") => l2,
            },
        }
    }

    fn line_rate_pps(&self) -> Option<(f64, f64)> {
        self.line_rate_pps.zip(self.throughput_pps)
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        charts::rfc2544::throughput(charts, group);
    }
}

impl Shown for Latency {
    fn figure(&self) -> Option<String> {
        let first = self.points.first()?;
        let spread = first.typical_ns.or(first.latency_ns)?;
        Some(format!("typical {}", delay(spread.median)))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        let measured = self.points.iter();
        let measured = measured.filter(|point| !point.repetitions.is_empty());
        let of = |point: &LatencyPoint, spread: Option<Spread>, share| {
            let cell = between(spread.map(|s| [s.median, s.p1, s.p99]), delays);
            marked(cell, &point.repetitions, share)
        };
        match self.mode {
            LatencyMode::Rfc2544 => table! {
                point in measured;
                right("load", "load_pps") => pps(point.load_pps),
                right("%", "percent") => plain_percent(point.percent),
                right("mean [p1, p99]", "latency_ns", "latency_p1_ns", "latency_p99_ns") =>
                    between(point.latency_ns.map(|s| [s.mean, s.p1, s.p99]), delays),
            },
            LatencyMode::Rfc8219 => table! {
                point in measured;
                right("load", "load_pps") => pps(point.load_pps),
                right("%", "percent") => plain_percent(point.percent),
                right("typical [p1, p99]", "typical_ns", "typical_p1_ns", "typical_p99_ns") =>
                    of(point, point.typical_ns, 0.5),
                right("worst case [p1, p99]", "worst_case_ns", "worst_case_p1_ns", "worst_case_p99_ns") =>
                    of(point, point.worst_case_ns, 0.999),
            },
        }
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
        charts::rfc2544::latency(charts, group, "the throughput");
    }
}

impl Shown for FrameLoss {
    fn figure(&self) -> Option<String> {
        let first = self.points.first()?;
        let (lost, load) = (percent(first.loss_percent), rate(first.load_pps));
        Some(format!("{lost} lost at {load}"))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        table! {
            point in &self.points;
            right("of full rate", "percent") => plain_percent(point.percent),
            right("load", "load_pps") => pps(point.load_pps),
            right("lost", "loss_percent") => loss(point.loss_percent),
            right("forwarded", "forwarding_rate_pps") => pps(point.forwarding_rate_pps),
        }
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        charts::rfc2544::frame_loss(charts, group);
    }
}

/// Returns a table of frame losses with a row per load and a column per frame size. `None` if there
/// is only one size, or one without points.
pub(super) fn losses_side_by_side(outcomes: &[&Outcome]) -> Option<Table> {
    let mut loads: Vec<f64> = Vec::new();
    let mut sizes = Vec::new();
    for outcome in outcomes {
        let found: &FrameLoss = outcome.found.get()?;
        if found.points.is_empty() {
            return None;
        }
        loads.extend(found.points.iter().map(|point| point.percent));
        sizes.push((outcome.frame_size_bytes, &found.points));
    }
    loads.sort_by(|a, b| b.total_cmp(a));
    loads.dedup();
    if sizes.len() < 2 {
        return None;
    }
    let mut columns = vec![Column::right("load", &[])];
    let heads = sizes.iter().map(|(size, _)| format!("{size} B"));
    columns.extend(heads.map(|head| Column::right(&head, &[])));
    let mut table = Table::new(columns);
    for load in loads {
        let mut cells = vec![plain_percent(load)];
        cells.extend(sizes.iter().map(|(_, points)| {
            let point = points.iter().find(|point| point.percent == load);
            Cell::text(point.map_or_else(String::new, |point| percent(point.loss_percent)))
        }));
        table.push(Mark::None, cells);
    }
    Some(table)
}

impl Shown for BackToBack {
    fn figure(&self) -> Option<String> {
        self.burst_frames
            .map(|burst| counted(burst.mean.round() as i128, "frame"))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        table! {
            right("longest burst [min, max]", "burst_frames", "min_frames", "max_frames") =>
                between(self.burst_frames.map(mean_and_ends), frames_between),
            right("lasts", "implied_time_s") => optional(self.implied_time_s, seconds),
            right("corrected", "corrected_time_s") => optional(self.corrected_time_s, seconds),
            right("buffer [min, max]", "buffer_frames", "buffer_min_frames", "buffer_max_frames") =>
                buffer(self),
        }
    }

    fn charts(&self, charts: &mut Vec<Chart>, group: &[&Outcome], _: Option<LinkSpeed>) {
        charts::rfc2544::back_to_back(charts, group);
    }
}

/// Formats a number of frames with its interval: `501 [501, 501] frames`.
fn frames_between([middle, low, high]: [f64; 3]) -> String {
    let [middle, low, high] = [middle, low, high].map(|frames| count(frames.round() as i128));
    format!("{middle} [{low}, {high}] frames")
}

/// Returns the cell of the buffer size; old runs have no interval.
fn buffer(found: &BackToBack) -> Cell {
    let ends = found.buffer_min_frames.zip(found.buffer_max_frames);
    match (found.buffer_frames, ends) {
        (Some(frames), Some((low, high))) => between(Some([frames, low, high]), frames_between),
        (Some(frames), None) => Cell::with_values(
            counted(frames.round() as i128, "frame"),
            [frames.to_string(), String::new(), String::new()],
        ),
        _ => between(None, frames_between),
    }
}

impl Shown for Recovery {
    fn figure(&self) -> Option<String> {
        self.recovery_s.map(|s| time(s.mean))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        table! {
            right("overload", "overload_pps") => pps(self.overload_pps),
            right("then", "rest_pps") => pps(self.rest_pps),
            right("recovery [min, max]", "recovery_s", "min_s", "max_s") =>
                seconds_between(self.recovery_s),
        }
    }
}

impl Shown for Reset {
    fn figure(&self) -> Option<String> {
        self.by_timestamp_s.map(|s| time(s.mean))
    }

    fn table(&self, _: &[&Outcome]) -> Table {
        table! {
            right("load", "load_pps") => pps(self.load_pps),
            right("by lost frames [min, max]", "by_loss_s", "by_loss_min_s", "by_loss_max_s") =>
                seconds_between(self.by_loss_s),
            right("by timestamps [min, max]", "by_timestamp_s", "by_timestamp_min_s", "by_timestamp_max_s") =>
                seconds_between(self.by_timestamp_s),
            right("known to", "resolution_s") => optional(self.resolution_s, time),
        }
    }
}
