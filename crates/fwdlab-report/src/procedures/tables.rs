//! Builds the tables of procedures: one or more per procedure, over all frame sizes, as in RFC
//! 2544.
//!
//! The results come from [`shown`](super::shown()); this module adds frame sizes and verdicts, and
//! tables over time. Every figure has its unit. Start with [`tables`].

use fwdlab_model::outcome::{Churn, CriticalLoad, Equilibrium, Estimate, Found, Outcome};
use fwdlab_model::procedure::{Delays, Interval};

use super::shown::{
    LoadDelays, NOTHING, loss, optional_pps, plain, plain_percent, pps, shown, time,
};
use super::{Group, frames};
use crate::number::{count, delay, percent, seconds};
use crate::section::Titled;
use crate::table::{Cell, Column, Mark, Table, table};

/// Returns the tables of a group, among all outcomes of the run. Tables over time have at most
/// `most_rows` rows.
pub(crate) fn tables(group: &Group<'_>, all: &[Outcome], most_rows: usize) -> Vec<Titled> {
    let outcomes = group.outcomes.as_slice();
    let mut tables = vec![Titled {
        title: String::new(),
        table: results(outcomes, all),
    }];
    let mut add = |title: String, table: Table| {
        if !table.rows.is_empty() {
            tables.push(Titled { title, table });
        }
    };
    add(
        "latencies within a trial; for several trials the median, and the largest of all".into(),
        percentiles(outcomes),
    );
    add(
        "output of the event, by the DUT's clock".into(),
        moments(outcomes),
    );
    let (table, every) = samples(outcomes, most_rows);
    let rows = match every {
        1 => String::new(),
        n => format!(", each row combines {n} intervals"),
    };
    add(format!("over time{rows}"), table);
    let (table, every) = estimates(outcomes, most_rows);
    let rows = match every {
        1 => String::new(),
        n => format!(", one trial of {n}"),
    };
    add(format!("the search{rows}"), table);
    add("the search".into(), steps(outcomes));
    tables
}

/// Returns the table of results, with the verdict below if it adds anything.
fn results(outcomes: &[&Outcome], all: &[Outcome]) -> Table {
    let each = outcomes.iter().map(|one| shown(&one.found).table(outcomes));
    let each: Vec<Table> = each.collect();
    let Some(first) = each.first() else {
        return Table::default();
    };
    let mut own = first.columns.clone();
    let fields: Vec<usize> = own.iter().map(|column| column.fields.len()).collect();
    let both = outcomes.iter().any(|o| both_directions(o).is_some());
    if both {
        own.push(Column::right("both ways", &["both_directions_pps"]));
    }
    let modified = (outcomes.iter()).any(|o| percent_of_unmodified(o, all).is_some());
    if modified {
        own.push(Column::right("of unmodified", &["percent_of_unmodified"]));
    }
    own.push(Column::below("verdict", &["verdict"]));
    own.insert(0, Column::right("frames", &["frame_size_bytes"]));
    let mut table = Table::new(own);
    for (outcome, found) in outcomes.iter().zip(each) {
        let mut rows: Vec<Vec<Cell>> = found.rows.into_iter().map(|row| row.cells).collect();
        if rows.is_empty() {
            let absent = |&fields: &usize| Cell {
                text: NOTHING.into(),
                raw: vec![String::new(); fields],
            };
            rows.push(fields.iter().map(absent).collect());
        }
        let last = rows.len() - 1;
        for (n, mut cells) in rows.into_iter().enumerate() {
            if both {
                cells.push(optional_pps(both_directions(outcome)));
            }
            if modified {
                let compared = percent_of_unmodified(outcome, all);
                cells.push(Cell::optional(compared, NOTHING, percent));
            }
            let words = (n == last).then(|| verdict(outcome));
            cells.push(Cell::new(words.unwrap_or_default(), &outcome.verdict));
            cells.insert(0, of_frames(outcome));
            table.push(Mark::None, cells);
        }
    }
    table
}

/// Returns the verdict, if the figures do not contain it.
fn verdict(outcome: &Outcome) -> String {
    let is_plain = matches!(outcome.verdict.as_str(), "found" | "measured");
    let is_said = outcome.answered && shown(&outcome.found).is_verdict_in_table();
    match is_plain || is_said {
        true => String::new(),
        false => outcome.verdict.clone(),
    }
}

/// Returns the cell of an outcome's frames, the first in its rows.
fn of_frames(outcome: &Outcome) -> Cell {
    Cell::new(frames(outcome), outcome.frame_size_bytes)
}

/// Returns the rate of a modified series in percent of that of the unmodified one, if both have
/// one.
fn percent_of_unmodified(outcome: &Outcome, all: &[Outcome]) -> Option<f64> {
    if outcome.variant.modifiers.is_empty() {
        return None;
    }
    let unmodified = outcome.variant.unmodified();
    let other = all.iter().find(|other| {
        other.variant == unmodified
            && other.frame_size_bytes == outcome.frame_size_bytes
            && other.found.procedure() == outcome.found.procedure()
    })?;
    let rate = |outcome: &Outcome| outcome.found.rate_pps().filter(|_| outcome.answered);
    Some(100.0 * rate(outcome)? / rate(other)?)
}

/// Returns the sum of both directions of a bidirectional outcome, if it is known; the figures are
/// per direction.
fn both_directions(outcome: &Outcome) -> Option<f64> {
    if !outcome.variant.both_directions || !outcome.answered {
        return None;
    }
    match &outcome.found {
        Found::Trial(found) => {
            let received = found.directions.iter().map(|one| one.frames_received);
            (found.directions.len() == 2)
                .then(|| received.sum::<u64>() as f64 / found.duration_s.max(1e-9))
        }
        // received frames of the direction that lost more: the other one may have forwarded more
        Found::Mrr(_) | Found::ForwardingRate(_) | Found::Maxfwd(_) => None,
        // a load, which is the same in both directions
        found => found.rate_pps().map(|pps| 2.0 * pps),
    }
}

/// A percentile: its name, its field, its share of the frames, and its value in the delays of a
/// trial.
pub(crate) type Percentile = (
    &'static str,
    &'static [&'static str],
    f64,
    fn(&Delays) -> Option<u64>,
);

/// The percentiles that are shown, in ascending order.
pub(crate) const PERCENTILES: [Percentile; 6] = [
    ("p50", &["p50_ns"], 0.5, |d| Some(d.p50_ns)),
    ("p90", &["p90_ns"], 0.9, |d| d.p90_ns),
    ("p99", &["p99_ns"], 0.99, Delays::supported_p99_ns),
    ("p99.9", &["p999_ns"], 0.999, Delays::supported_p999_ns),
    ("p99.99", &["p9999_ns"], 0.9999, |d| d.p9999_ns),
    ("max", &["max_ns"], 1.0, |d| Some(d.max_ns)),
];

/// Returns a percentile over the trials of a load: the median of the trials, but for `max` the
/// largest. `None` if any trial lacks it.
pub(crate) fn median_over_trials(trials: &[Delays], (name, _, _, of): Percentile) -> Option<f64> {
    let values: Option<Vec<f64>> = trials.iter().map(|d| Some(of(d)? as f64)).collect();
    let mut values = values.filter(|values| !values.is_empty())?;
    values.sort_by(f64::total_cmp);
    let (middle, last) = (values.len() / 2, values.len() - 1);
    Some(match (name, values.len() % 2) {
        ("max", _) => values[last],
        (_, 1) => values[middle],
        (_, _) => f64::midpoint(values[middle - 1], values[middle]),
    })
}

/// Adds a `*` to a delay if, in any of its trials, it may be due to the sender rather than the DUT.
pub(super) fn marked(mut cell: Cell, trials: &[Delays], share: f64) -> Cell {
    if trials.iter().any(|trial| trial.may_reflect_sender(share)) {
        cell.text.push('*');
    }
    cell
}

/// Returns the table of delay percentiles.
fn percentiles(outcomes: &[&Outcome]) -> Table {
    let right = Column::right;
    let mut columns = vec![
        right("frames", &["frame_size_bytes"]),
        right("load", &["percent"]),
        right("timed", &["frames_timed"]),
    ];
    columns.extend(PERCENTILES.map(|(name, field, ..)| right(name, field)));
    let mut table = Table::new(columns);
    for outcome in outcomes {
        for LoadDelays {
            percent, trials, ..
        } in shown(&outcome.found).delays()
        {
            let Some(fewest) = trials.iter().map(|delays| delays.frames).min() else {
                continue;
            };
            let load = percent.map(plain_percent);
            let mut cells = vec![
                of_frames(outcome),
                load.unwrap_or_else(|| Cell::new(NOTHING, "")),
                Cell::new(count(fewest), fewest),
            ];
            cells.extend(PERCENTILES.map(|percentile| {
                let reported = median_over_trials(&trials, percentile);
                let cell = Cell::optional(reported, "n/a", delay);
                match reported {
                    Some(_) => marked(cell, &trials, percentile.2),
                    None => cell,
                }
            }));
            table.push(Mark::None, cells);
        }
    }
    let mut all = (outcomes.iter()).flat_map(|outcome| shown(&outcome.found).delays());
    if all.all(|one| one.percent.is_none()) {
        table.remove("load");
    }
    table
}

/// Returns how many rows over time are merged into one row of the table.
fn every(rows: usize, most: usize) -> usize {
    rows.div_ceil(most).max(1)
}

/// Returns the moments that events reported in addition to the frames: a row for each moment of
/// each repetition.
fn moments(outcomes: &[&Outcome]) -> Table {
    let all = outcomes.iter().flat_map(|outcome| {
        let found = outcome.found.get::<Churn>();
        let dips = found.into_iter().flat_map(|found| &found.dips).zip(1..);
        dips.flat_map(move |(dip, n)| dip.moments.iter().map(move |moment| (outcome, n, moment)))
    });
    table! {
        (outcome, n, moment) in all;
        right("frames", "frame_size_bytes") => of_frames(outcome),
        right("repetition", "repetition") => plain(n),
        right("after", "at_s") => Cell::new(time(moment.at_s), moment.at_s),
        left("moment", "moment") => Cell::text(&moment.name),
    }
}

/// Returns offered load and forwarding rate over time, and the number of intervals merged into each
/// row; sums keep every lost frame.
fn samples(outcomes: &[&Outcome], most_rows: usize) -> (Table, usize) {
    let samples = |outcome: &'_ &Outcome| shown(&outcome.found).samples().len();
    let every = every(outcomes.iter().map(samples).max().unwrap_or(0), most_rows);
    let parts = outcomes.iter().flat_map(|outcome| {
        let parts = shown(&outcome.found).samples().chunks(every);
        parts.map(move |part| (outcome, combine(part)))
    });
    let end_s = |part: &Interval| (part.at_ns + part.length_ns) as f64 / 1e9;
    let lost = |part: &Interval| part.frames_sent as i64 - part.frames_received as i64;
    let table = table! {
        (outcome, part) in parts;
        right("frames", "frame_size_bytes") => of_frames(outcome),
        right("until", "at_s") => Cell::new(seconds(end_s(&part)), end_s(&part)),
        right("intended", "intended_load_pps") => pps(part.intended_load_pps),
        right("offered", "offered_load_pps") => pps(part.offered_load_pps()),
        right("forwarded", "forwarding_rate_pps") => pps(part.forwarding_rate_pps()),
        right("lost", "frames_lost") => Cell::new(count(lost(&part)), lost(&part)),
        right("loss", "loss_percent") => loss(100.0 * part.loss_ratio()),
    };
    (table, every)
}

/// Merges successive intervals into one.
fn combine(part: &[Interval]) -> Interval {
    let sum = |of: fn(&Interval) -> u64| part.iter().map(of).sum::<u64>();
    let intended: f64 = part.iter().map(|i| i.intended_load_pps).sum();
    let ends = |i: &Interval| i.at_ns + i.length_ns;
    let at_ns = part.first().map_or(0, |first| first.at_ns);
    Interval {
        at_ns,
        length_ns: part.last().map_or(0, ends) - at_ns,
        intended_load_pps: intended / part.len().max(1) as f64,
        frames_sent: sum(|i| i.frames_sent),
        frames_received: sum(|i| i.frames_received),
    }
}

/// Returns how the estimates of a critical load converged, and the number of estimates per row.
fn estimates(outcomes: &[&Outcome], most_rows: usize) -> (Table, usize) {
    fn of(outcome: &Outcome) -> &[Estimate] {
        let found = outcome.found.get::<CriticalLoad>();
        found.map_or(&[], |found| &found.estimates)
    }
    let most = outcomes.iter().map(|outcome| of(outcome).len());
    let every = every(most.max().unwrap_or(0), most_rows);
    let estimates = outcomes.iter().flat_map(|outcome| {
        let some = of(outcome).iter().skip(every - 1).step_by(every);
        some.map(move |estimate| (outcome, estimate))
    });
    let table = table! {
        (outcome, estimate) in estimates;
        right("frames", "frame_size_bytes") => of_frames(outcome),
        right("time", "at_s") => Cell::new(seconds(estimate.at_s), estimate.at_s),
        right("load", "load_pps") => pps(estimate.load_pps),
        right("lost", "loss_percent") => loss(100.0 * estimate.loss_ratio),
        right("stretch model", "stretch_pps") => pps(estimate.stretch_pps),
        right("erf model", "erf_pps") => pps(estimate.erf_pps),
    };
    (table, every)
}

/// Returns the steps of a search for an equilibrium.
fn steps(outcomes: &[&Outcome]) -> Table {
    let steps = outcomes.iter().flat_map(|outcome| {
        let found = outcome.found.get::<Equilibrium>().into_iter();
        let steps = found.flat_map(|found| &found.steps);
        steps.map(move |step| (outcome, step))
    });
    table! {
        (outcome, step) in steps;
        right("frames", "frame_size_bytes") => of_frames(outcome),
        right("load", "load_pps") => pps(step.load_pps),
        right("forwarded", "forwarding_rate_pps") => pps(step.forwarding_rate_pps),
        right("step", "step_pps") => pps(step.step_pps),
    }
}
