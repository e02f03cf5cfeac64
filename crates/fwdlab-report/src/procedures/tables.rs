//! The tables of what procedures found: one or more per procedure, over all frame sizes, as RFC 2544 has them.
//!
//! Which columns there are and what stands in them; how they look is the renderers' business. Every figure has its unit, and
//! columns that say nothing for these outcomes are left out for people, never in CSV. Start with [`tables`].

use fwdlab_model::energy::{joules_per_frame, marginal_joules_per_frame};
use fwdlab_model::outcome::{
    BackToBack, Cost, Energy, EnergyPoint, EquilibriumStep, Estimate, Found, LatencyMode, Outcome,
    PairedPoint, Slope, Spread, Sweep,
};
use fwdlab_model::procedure::{Delays, Interval};

use super::{Group, frames};
use crate::number::{
    bits_per_second, count, delay, delays, difference, energy, interval, percent, rate, seconds,
    watts,
};
use crate::section::Titled;
use crate::table::{Cell, Column, Mark, Table};
use crate::words;

/// A procedure that has no figure to show.
const NOTHING: &str = "-";

/// The tables of a group, among all outcomes of the run. Courses over time have at most so many rows.
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
        "what the event told of its course, by the DUT's clock".into(),
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

/// Columns of a table of results, between frame size and verdict.
fn columns(first: &Outcome, outcomes: &[&Outcome]) -> Vec<Column> {
    let right = Column::right;
    let has_line = outcomes.iter().any(|outcome| match &outcome.found {
        Found::Throughput(found) => found.line_rate_pps.is_some(),
        _ => false,
    });
    match &first.found {
        Found::Throughput(_) => vec![
            match has_line {
                true => right("theoretical", &["line_rate_pps"]),
                false => right("largest load", &["max_load_pps"]),
            },
            right("measured", &["throughput_pps"]),
            right(
                if has_line {
                    "of theoretical"
                } else {
                    "of largest load"
                },
                &["percent"],
            ),
            right("L2 rate", &["l2_bps"]),
        ],
        Found::Latency(found) => {
            let mut columns = vec![
                right("load", &["load_pps"]),
                right("%", &["percent"]),
                match found.mode {
                    LatencyMode::Rfc2544 => right(
                        "mean [p1, p99]",
                        &["latency_ns", "latency_p1_ns", "latency_p99_ns"],
                    ),
                    LatencyMode::Rfc8219 => right(
                        "typical [p1, p99]",
                        &["typical_ns", "typical_p1_ns", "typical_p99_ns"],
                    ),
                },
            ];
            if found.mode == LatencyMode::Rfc8219 {
                columns.push(right(
                    "worst case [p1, p99]",
                    &["worst_case_ns", "worst_case_p1_ns", "worst_case_p99_ns"],
                ));
            }
            columns
        }
        Found::FrameLoss(_) => vec![
            right("of full rate", &["percent"]),
            right("load", &["load_pps"]),
            right("lost", &["loss_percent"]),
            right("forwarded", &["forwarding_rate_pps"]),
        ],
        Found::BackToBack(_) => vec![
            right(
                "longest burst [min, max]",
                &["burst_frames", "min_frames", "max_frames"],
            ),
            right("lasts", &["implied_time_s"]),
            right("corrected", &["corrected_time_s"]),
            right(
                "buffer [min, max]",
                &["buffer_frames", "buffer_min_frames", "buffer_max_frames"],
            ),
        ],
        Found::Recovery(_) => vec![
            right("overload", &["overload_pps"]),
            right("then", &["rest_pps"]),
            right("recovery [min, max]", &["recovery_s", "min_s", "max_s"]),
        ],
        Found::Bursts(_) => vec![
            right("burst", &["burst_frames"]),
            right("smallest gap", &["gap_s"]),
            right("largest with loss", &["lossy_gap_s"]),
            right("average load", &["load_pps"]),
        ],
        Found::Reset(_) => vec![
            right("load", &["load_pps"]),
            right(
                "by lost frames [min, max]",
                &["by_loss_s", "by_loss_min_s", "by_loss_max_s"],
            ),
            right(
                "by timestamps [min, max]",
                &["by_timestamp_s", "by_timestamp_min_s", "by_timestamp_max_s"],
            ),
            right("known to", &["resolution_s"]),
        ],
        Found::Churn(_) => vec![
            right("before", &["base_pps"]),
            right("first dip after", &["first_impact_s"]),
            right("regained after", &["regained_s"]),
            right("depth", &["depth_percent"]),
            right("nothing for", &["blackout_s"]),
            right("missing", &["deficit_s"]),
            right("frames", &["deficit_frames"]),
            right("by lost frames", &["by_loss_s"]),
        ],
        Found::Management(_) => vec![
            Column::left("request", &["request"]),
            Column::left("load", &["load"]),
            right("offered", &["offered_load_pps"]),
            right("forwarded", &["forwarding_rate_pps"]),
            right("asked", &["asked"]),
            right("lost", &["lost"]),
            right("wrong", &["wrong"]),
            right("round trip", &["round_trip_median_s"]),
            right("longest", &["round_trip_max_s"]),
            right("no answer for", &["silent_s"]),
            right("as at rest after", &["recovery_s"]),
        ],
        Found::Ramp(_) => vec![
            Column::left("way", &["way"]),
            right("loss above", &["saturation_pps"]),
            right("at least", &["lower_pps"]),
            right("below", &["upper_pps"]),
            right("best", &["max_forwarding_rate_pps"]),
            right("at target", &["held_forwarding_rate_pps"]),
            right("target", &["target_pps"]),
        ],
        Found::Soak(_) => vec![
            right("load", &["load_pps"]),
            right("for", &["duration_s"]),
            right("lost", &["frames_lost"]),
            right("bursts", &["loss_bursts"]),
            right("longest clean", &["longest_lossless_s"]),
            right("trend per h", &["trend_pps_per_hour"]),
        ],
        Found::Sweep(found) if Sweep::is_of_resources(&found.parameter) => vec![
            right(&found.parameter, &["value"]),
            right("median", &["median_pps"]),
            right("speed-up", &["speed_up"]),
            right("efficiency", &["efficiency_percent"]),
        ],
        Found::Sweep(found) => vec![
            right(&found.parameter, &["value"]),
            right("median", &["median_pps"]),
            right("of reference", &["percent_of_reference"]),
            right("time per frame", &["frame_ns"]),
        ],
        Found::Plr(_) => vec![
            right("loss sought", &["loss_ratio"]),
            right("critical load", &["critical_load_pps"]),
            right("from", &["lower_pps"]),
            right("to", &["upper_pps"]),
            right("offered at most", &["max_load_pps"]),
        ],
        Found::Energy(found) => {
            let mut columns = vec![
                Column::left("load", &["load"]),
                right("offered load", &["offered_load_pps"]),
                right("forwarding rate", &["forwarding_rate_pps"]),
            ];
            columns.extend(found.meters.iter().flat_map(|meter| {
                [
                    right(&format!("by {}", meter.name), &["watts"]),
                    right("a frame", &["joules_per_frame"]),
                    right("beyond idle", &["marginal_joules_per_frame"]),
                ]
            }));
            columns
        }
        Found::Mrr(_) => vec![
            right("load", &["load_pps"]),
            right("received", &["receive_rate_pps"]),
            right("lowest", &["min_pps"]),
            right("highest", &["max_pps"]),
            right("trials", &["trials"]),
        ],
        Found::Equilibrium(_) => vec![
            right("largest load", &["max_load_pps"]),
            right("equilibrium", &["equilibrium_pps"]),
            right("largest seen", &["max_seen_pps"]),
        ],
        Found::ForwardingRate(_) => vec![
            right("offered", &["offered_load_pps"]),
            right("forwarded", &["forwarding_rate_pps"]),
            right("lowest", &["min_pps"]),
            right("highest", &["max_pps"]),
            right("CV", &["variation_percent"]),
        ],
        Found::Mlrsearch(_) => vec![
            Column::left("goal", &["name"]),
            right("lower bound", &["relevant_lower_bound_pps"]),
            right("upper bound", &["relevant_upper_bound_pps"]),
            right("forwards there", &["conditional_throughput_pps"]),
            right("of largest load", &["share_of_largest_load_percent"]),
        ],
        Found::Maxfwd(_) => vec![
            right("offered", &["offered_load_pps"]),
            right("forwarded", &["forwarding_rate_pps"]),
            right("all windows", &["forwarding_rate_ungated_pps"]),
            right("quiet windows", &["windows", "windows_not_quiet"]),
        ],
        Found::Paired(found) => {
            let value = found.parameter.as_ref();
            let value = value.map(|parameter| right(parameter, &["value"]));
            value.into_iter().chain(difference_columns()).collect()
        }
        Found::Exact(_) => vec![
            right("instructions/frame", &["instructions_per_frame"]),
            right("with the tester", &["through_per_frame"]),
            right("tester alone", &["tester_per_frame"]),
            right("bursts", &["bursts"]),
        ],
        Found::Trial(_) => vec![
            right("intended", &["intended_load_pps"]),
            right("offered", &["offered_load_pps"]),
            right("forwarded", &["forwarding_rate_pps"]),
            right("lost", &["frame_loss_ratio"]),
            right("for", &["duration_s"]),
        ],
    }
}

/// What was found, with the verdict below where it says more than that.
fn results(outcomes: &[&Outcome], all: &[Outcome]) -> Table {
    let Some(first) = outcomes.first() else {
        return Table::default();
    };
    let mut own = columns(first, outcomes);
    let fields: Vec<usize> = own.iter().map(|column| column.fields.len()).collect();
    let has_line = own[0].head == "theoretical";
    let both = outcomes.iter().any(|o| both_directions(o).is_some());
    if both {
        own.push(Column::right("both ways", &["both_directions_pps"]));
    }
    let modified = (outcomes.iter()).any(|o| percent_of_unmodified(o, all).is_some());
    if modified {
        own.push(Column::right("of unmodified", &["percent_of_unmodified"]));
    }
    own.push(Column::below("verdict", &["verdict"]));
    let mut table = table_of(own);
    for outcome in outcomes {
        let mut rows = rows(outcome, has_line);
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
            cells.push(Cell {
                text: match n == last {
                    true => verdict(outcome),
                    false => String::new(),
                },
                raw: vec![outcome.verdict.clone()],
            });
            add_row(&mut table, outcome, cells);
        }
    }
    table
}

/// The verdict, where the figures do not say it.
fn verdict(outcome: &Outcome) -> String {
    let is_plain = matches!(outcome.verdict.as_str(), "found" | "measured");
    let is_said = match &outcome.found {
        Found::Latency(_) | Found::Trial(_) | Found::Mrr(_) => outcome.answered,
        _ => false,
    };
    match is_plain || is_said {
        true => String::new(),
        false => outcome.verdict.clone(),
    }
}

/// What the meters say at a load. A frame of a DUT that idles has no price.
fn energies(found: &Energy, point: &EnergyPoint) -> Vec<Cell> {
    let rate_pps = point.forwarding_rate_pps;
    let load = match point.share {
        None => "overload".to_owned(),
        Some(0.0) => "idle".to_owned(),
        Some(share) => percent(100.0 * share),
    };
    let mut cells = vec![
        Cell::text(load),
        Cell::number(rate(point.offered_load_pps), point.offered_load_pps),
        Cell::number(rate(rate_pps), rate_pps),
    ];
    for meter in &found.meters {
        let power = point.watts.get(&meter.name).copied();
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
                    .zip(meter.idle_watts)
                    .and_then(|(w, idle)| marginal_joules_per_frame(w, idle, rate_pps)),
                NOTHING,
                energy,
            ),
        ]);
    }
    cells
}

/// A table whose rows begin with the frames they are of.
fn table_of(further: Vec<Column>) -> Table {
    let mut columns = vec![Column::right("frames", &["frame_size_bytes"])];
    columns.extend(further);
    Table::new(columns)
}

/// Adds a row of an outcome, behind its frames.
fn add_row(table: &mut Table, outcome: &Outcome, further: Vec<Cell>) {
    let mut cells = vec![Cell::number(frames(outcome), outcome.frame_size_bytes)];
    cells.extend(further);
    table.push(Mark::None, cells);
}

/// The rate of a modified series in percent of the unmodified one's, as far as both have one.
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

/// Both directions together, where there are two: what one offers and gets is in the figures.
fn both_directions(outcome: &Outcome) -> Option<f64> {
    let both = outcome.variant.both_directions && outcome.answered;
    let rate = outcome.found.rate_pps().filter(|_| both);
    rate.map(|pps| 2.0 * pps)
}

fn pps(value: f64) -> Cell {
    Cell::number(rate(value), value)
}

fn optional_pps(value: Option<f64>) -> Cell {
    Cell::optional(value, NOTHING, rate)
}

/// A rate that may be the tester's limit: `>= 1.234 Mpps`.
fn bounded(tester_bound: bool, pps: f64) -> String {
    match tester_bound {
        true => format!(">= {}", rate(pps)),
        false => rate(pps),
    }
}

/// A loss in percent.
fn loss(value: f64) -> Cell {
    Cell::number(percent(value), value)
}

fn plain_percent(value: f64) -> Cell {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    Cell::number(format!("{text} %"), value)
}

/// A middle with the ends it lies between, in one unit: `23.46 [23.16, 23.91] us`.
fn between(ends: Option<[f64; 3]>, format: impl Fn([f64; 3]) -> String) -> Cell {
    match ends {
        Some(ends) => Cell {
            text: format(ends),
            raw: ends.iter().map(ToString::to_string).collect(),
        },
        None => Cell {
            text: NOTHING.into(),
            raw: vec![String::new(); 3],
        },
    }
}

fn mean_and_ends(spread: Spread) -> [f64; 3] {
    [spread.mean, spread.min, spread.max]
}

/// `501 [501, 501] frames`.
fn frames_between([middle, low, high]: [f64; 3]) -> String {
    let [middle, low, high] = [middle, low, high].map(|frames| count(frames.round() as i128));
    format!("{middle} [{low}, {high}] frames")
}

/// Early runs have no ends of a buffer.
fn buffer(found: &BackToBack) -> Cell {
    let ends = found.buffer_min_frames.zip(found.buffer_max_frames);
    match (found.buffer_frames, ends) {
        (Some(frames), Some((low, high))) => between(Some([frames, low, high]), frames_between),
        (Some(frames), None) => Cell {
            text: format!("{} frames", count(frames.round() as i128)),
            raw: vec![frames.to_string(), String::new(), String::new()],
        },
        _ => between(None, frames_between),
    }
}

fn seconds_between(ends: [f64; 3]) -> String {
    delays(ends.map(|s| s * 1e9))
}

fn instructions(value: f64) -> Cell {
    Cell::number(crate::number::instructions(value), value)
}

/// The rows of one outcome, without size and verdict; none where there is nothing to show.
fn rows(outcome: &Outcome, has_line: bool) -> Vec<Vec<Cell>> {
    match &outcome.found {
        Found::Throughput(found) => vec![vec![
            match has_line {
                true => optional_pps(found.line_rate_pps),
                false => pps(found.max_load_pps),
            },
            Cell::optional(found.throughput_pps, NOTHING, |pps| {
                bounded(found.tester_bound, pps)
            }),
            Cell::optional(found.percent, NOTHING, percent),
            Cell::optional(found.l2_bps, NOTHING, bits_per_second),
        ]],
        Found::Latency(found) => {
            let points = found.points.iter();
            points
                .filter(|point| !point.repetitions.is_empty())
                .map(|point| {
                    let middle = |s: Spread| [s.median, s.p1, s.p99];
                    let mean = |s: Spread| [s.mean, s.p1, s.p99];
                    let mut cells = vec![pps(point.load_pps), plain_percent(point.percent)];
                    match found.mode {
                        LatencyMode::Rfc2544 => {
                            cells.push(between(point.latency_ns.map(mean), delays));
                        }
                        LatencyMode::Rfc8219 => {
                            let of = |spread: Option<Spread>, share| {
                                let cell = between(spread.map(middle), delays);
                                marked(cell, &point.repetitions, share)
                            };
                            cells.push(of(point.typical_ns, 0.5));
                            cells.push(of(point.worst_case_ns, 0.999));
                        }
                    }
                    cells
                })
                .collect()
        }
        Found::FrameLoss(found) => {
            let points = found.points.iter();
            points
                .map(|point| {
                    vec![
                        plain_percent(point.percent),
                        pps(point.load_pps),
                        loss(point.loss_percent),
                        pps(point.forwarding_rate_pps),
                    ]
                })
                .collect()
        }
        Found::BackToBack(found) => vec![vec![
            between(found.burst_frames.map(mean_and_ends), frames_between),
            Cell::optional(found.implied_time_s, NOTHING, seconds),
            Cell::optional(found.corrected_time_s, NOTHING, seconds),
            buffer(found),
        ]],
        Found::Recovery(found) => vec![vec![
            pps(found.overload_pps),
            pps(found.rest_pps),
            between(found.recovery_s.map(mean_and_ends), seconds_between),
        ]],
        Found::Bursts(found) if found.bursts.is_empty() => vec![vec![Cell::text(""); 4]],
        Found::Bursts(found) => (found.bursts.iter())
            .map(|burst| {
                vec![
                    Cell::number(count(burst.frames), burst.frames),
                    Cell::optional(burst.gap_s, "", |s| delay(1e9 * s)),
                    Cell::optional(burst.lossy_gap_s, "", |s| delay(1e9 * s)),
                    Cell::optional(burst.load_pps, "", rate),
                ]
            })
            .collect(),
        Found::Reset(found) => vec![vec![
            pps(found.load_pps),
            between(found.by_loss_s.map(mean_and_ends), seconds_between),
            between(found.by_timestamp_s.map(mean_and_ends), seconds_between),
            Cell::optional(found.resolution_s, NOTHING, |s| delay(1e9 * s)),
        ]],
        Found::Churn(found) if found.dips.is_empty() => vec![vec![Cell::text(""); 8]],
        Found::Churn(found) => (found.dips.iter())
            .map(|dip| {
                let time = |s: f64| delay(1e9 * s);
                vec![
                    pps(dip.base_pps),
                    Cell::optional(dip.first_impact_s, "no dip", time),
                    Cell::optional(dip.regained_s, "not seen", time),
                    loss(100.0 * dip.depth),
                    Cell::number(time(dip.blackout_s), dip.blackout_s),
                    Cell::number(time(dip.deficit_s), dip.deficit_s),
                    Cell::optional(dip.deficit_frames, NOTHING, |frames| count(frames as i64)),
                    Cell::optional(dip.by_loss_s, NOTHING, time),
                ]
            })
            .collect(),
        Found::Management(found) if found.requests.is_empty() => vec![vec![Cell::text(""); 11]],
        Found::Management(found) => (found.requests.iter())
            .flat_map(|one| {
                let flood = found.loads.len().saturating_sub(1);
                let steps = found.loads.iter().zip(&one.at).enumerate();
                steps.map(move |(n, (load, at))| {
                    let time = |s: f64| delay(1e9 * s);
                    let trip = |of: fn(Spread) -> f64| {
                        Cell::optional(at.round_trip_s.map(of), NOTHING, time)
                    };
                    vec![
                        Cell::text(one.request.clone()),
                        Cell::text(load.name.clone()),
                        pps(load.offered_load_pps),
                        pps(load.forwarding_rate_pps),
                        Cell::number(count(at.asked), at.asked),
                        Cell::number(count(at.lost), at.lost),
                        Cell::number(count(at.wrong), at.wrong),
                        trip(|s| s.median),
                        trip(|s| s.max),
                        Cell::number(time(at.silent_s), at.silent_s),
                        match n == flood {
                            true => Cell::optional(one.recovery_s, "not seen", |s| match s > 0.0 {
                                true => time(s),
                                false => "at once".into(),
                            }),
                            false => Cell::text(""),
                        },
                    ]
                })
            })
            .collect(),
        Found::Ramp(found) => {
            let edge = |edge: &fwdlab_model::outcome::Edge, way: &str| {
                vec![
                    Cell::text(way),
                    optional_pps(edge.saturation_pps),
                    optional_pps(edge.lower_pps),
                    optional_pps(edge.upper_pps),
                    pps(found.max_forwarding_rate_pps),
                    optional_pps(found.held_forwarding_rate_pps),
                    pps(found.target_pps),
                ]
            };
            let mut rows = vec![edge(&found.up, "up")];
            rows.extend(found.down.as_ref().map(|down| edge(down, "down")));
            rows
        }
        Found::Soak(found) => vec![vec![
            pps(found.load_pps),
            Cell::number(seconds(found.duration_s), found.duration_s),
            Cell::number(
                format!("{} frames", count(found.frames_lost)),
                found.frames_lost,
            ),
            Cell::number(found.loss_bursts.to_string(), found.loss_bursts),
            Cell::number(seconds(found.longest_lossless_s), found.longest_lossless_s),
            Cell::optional(found.trend_pps_per_hour, NOTHING, |pps| {
                format!("{pps:+.0} pps")
            }),
        ]],
        Found::Sweep(found) if Sweep::is_of_resources(&found.parameter) => {
            let points = found.points.iter();
            points
                .map(|point| {
                    let of = found.speed_up(point);
                    vec![
                        Cell::number(point.value.to_string(), point.value),
                        optional_pps(point.median_pps),
                        Cell::optional(of.map(|of| of.0), NOTHING, |times| format!("{times:.2}")),
                        Cell::optional(of.map(|of| of.1), NOTHING, percent),
                    ]
                })
                .collect()
        }
        Found::Sweep(found) => {
            let points = found.points.iter();
            points
                .map(|point| {
                    vec![
                        Cell::number(point.value.to_string(), point.value),
                        optional_pps(point.median_pps),
                        Cell::optional(point.percent_of_reference, NOTHING, percent),
                        Cell::optional(point.median_pps.map(|pps| 1e9 / pps), NOTHING, |ns| {
                            format!("{ns:.1} ns")
                        }),
                    ]
                })
                .collect()
        }
        Found::Plr(found) => vec![vec![
            Cell::number(format!("{:e}", found.loss_ratio), found.loss_ratio),
            Cell::optional(found.critical_load_pps, NOTHING, |pps| {
                bounded(found.is_tester_bound(), pps)
            }),
            optional_pps(found.lower_pps),
            optional_pps(found.upper_pps),
            pps(found.max_load_pps),
        ]],
        Found::Energy(found) => (found.points.iter())
            .map(|point| energies(found, point))
            .collect(),
        Found::Mrr(found) => vec![vec![
            pps(found.load_pps),
            Cell::optional(found.receive_rate_pps.map(|s| s.mean), NOTHING, |pps| {
                bounded(found.tester_bound, pps)
            }),
            optional_pps(found.receive_rate_pps.map(|spread| spread.min)),
            optional_pps(found.receive_rate_pps.map(|spread| spread.max)),
            Cell::number(found.trials_pps.len().to_string(), found.trials_pps.len()),
        ]],
        Found::Equilibrium(found) => vec![vec![
            pps(found.max_load_pps),
            optional_pps(found.equilibrium_pps),
            optional_pps(found.max_seen_pps),
        ]],
        Found::ForwardingRate(found) => {
            let of = |value: fn(&Spread) -> f64| {
                optional_pps(found.forwarding_rate_pps.as_ref().map(value))
            };
            vec![vec![
                optional_pps(found.offered_load_pps),
                Cell::optional(
                    found.forwarding_rate_pps.map(|s| s.median),
                    NOTHING,
                    |pps| bounded(found.not_saturated, pps),
                ),
                of(|s| s.min),
                of(|s| s.max),
                Cell::optional(found.variation_percent, NOTHING, percent),
            ]]
        }
        Found::Mlrsearch(found) => found
            .goals
            .iter()
            .zip(crate::search::labels(found))
            .map(|(goal, label)| {
                let share = |pps: f64| 100.0 * pps / found.max_load_pps;
                vec![
                    Cell {
                        text: label,
                        raw: vec![goal.name.clone()],
                    },
                    Cell::optional(goal.relevant_lower_bound_pps, NOTHING, |pps| {
                        bounded(goal.tester_bound, pps)
                    }),
                    optional_pps(goal.relevant_upper_bound_pps),
                    optional_pps(goal.conditional_throughput_pps),
                    Cell::optional(goal.relevant_lower_bound_pps.map(share), NOTHING, percent),
                ]
            })
            .collect(),
        Found::Maxfwd(found) => vec![vec![
            optional_pps(found.offered_load_pps),
            Cell::optional(found.forwarding_rate_pps, NOTHING, |pps| {
                bounded(found.not_saturated, pps)
            }),
            optional_pps(found.forwarding_rate_ungated_pps),
            Cell {
                text: format!("{} of {}", found.quiet.windows, found.windows()),
                raw: vec![
                    found.quiet.windows.to_string(),
                    (found.windows() - found.quiet.windows - found.windows_not_offered).to_string(),
                ],
            },
        ]],
        Found::Paired(found) => (found.points.iter())
            .map(|point| {
                let value = point
                    .value
                    .map(|value| Cell::number(value.to_string(), value));
                value.into_iter().chain(difference_cells(point)).collect()
            })
            .collect(),
        Found::Exact(found) => vec![vec![
            instructions(found.instructions_per_frame),
            instructions(found.through_per_frame),
            instructions(found.tester_per_frame),
            Cell::number(found.bursts.to_string(), found.bursts),
        ]],
        Found::Trial(found) => vec![vec![
            pps(found.intended_load_pps),
            pps(found.offered_load_pps),
            pps(found.forwarding_rate_pps),
            Cell {
                raw: vec![found.frame_loss_ratio.to_string()],
                ..loss(100.0 * found.frame_loss_ratio)
            },
            Cell::number(seconds(found.duration_s), found.duration_s),
        ]],
    }
}

/// The columns of a difference from a reference DUT.
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

/// Their cells.
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

/// What a unit costs, and what comes with the first: `11.90 ns a frame per rule [11.50, 12.30]`.
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

/// One of what is swept, where its name is a plural of English: `rules`, `entries`.
fn one_of(parameter: &str) -> String {
    match (parameter.strip_suffix("ies"), parameter.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) => stem.to_owned(),
        (None, None) => parameter.to_owned(),
    }
}

/// What a percentile is called, its field, of which share of the frames it is, and where it is in the delays of a trial.
pub(crate) type Percentile = (
    &'static str,
    &'static [&'static str],
    f64,
    fn(&Delays) -> Option<u64>,
);

/// The percentiles that are shown, from the smallest.
pub(crate) const PERCENTILES: [Percentile; 6] = [
    ("p50", &["p50_ns"], 0.5, |d| Some(d.p50_ns)),
    ("p90", &["p90_ns"], 0.9, |d| d.p90_ns),
    ("p99", &["p99_ns"], 0.99, Delays::told_p99_ns),
    ("p99.9", &["p999_ns"], 0.999, Delays::told_p999_ns),
    ("p99.99", &["p9999_ns"], 0.9999, |d| d.p9999_ns),
    ("max", &["max_ns"], 1.0, |d| Some(d.max_ns)),
];

/// A percentile over the trials of a load: their median, of the largest values the largest. `None` where it cannot be told
/// of every trial.
pub(crate) fn over_trials(trials: &[Delays], (name, _, _, of): Percentile) -> Option<f64> {
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

/// A delay with a `*` behind it where in any of its trials it may say more of the sender than of the DUT.
fn marked(mut cell: Cell, trials: &[Delays], share: f64) -> Cell {
    if trials.iter().any(|trial| trial.is_of_sender(share)) {
        cell.text.push('*');
    }
    cell
}

/// Loads with the delays of each of their trials.
fn delays_of(outcome: &Outcome) -> Vec<(Option<f64>, Vec<Delays>)> {
    match &outcome.found {
        Found::Latency(found) => {
            let points = found.points.iter();
            points
                .map(|point| (Some(point.percent), point.repetitions.clone()))
                .collect()
        }
        Found::Trial(found) => vec![(None, found.delays.into_iter().collect())],
        _ => Vec::new(),
    }
}

/// The percentiles of delays.
fn percentiles(outcomes: &[&Outcome]) -> Table {
    let right = Column::right;
    let mut columns = vec![
        right("load", &["percent"]),
        right("timed", &["frames_timed"]),
    ];
    columns.extend(PERCENTILES.map(|(name, field, ..)| right(name, field)));
    let mut table = table_of(columns);
    for outcome in outcomes {
        for (percent, trials) in delays_of(outcome) {
            let Some(fewest) = trials.iter().map(|delays| delays.frames).min() else {
                continue;
            };
            let mut cells = vec![
                match percent {
                    Some(percent) => plain_percent(percent),
                    None => Cell {
                        text: NOTHING.into(),
                        raw: vec![String::new()],
                    },
                },
                Cell::number(count(fewest), fewest),
            ];
            cells.extend(PERCENTILES.map(|percentile| {
                let told = over_trials(&trials, percentile);
                let cell = Cell::optional(told, "n/a", delay);
                match told {
                    Some(_) => marked(cell, &trials, percentile.2),
                    None => cell,
                }
            }));
            add_row(&mut table, outcome, cells);
        }
    }
    let all = || outcomes.iter().flat_map(|outcome| delays_of(outcome));
    if all().all(|(percent, _)| percent.is_none()) {
        table.remove("load");
    }
    table
}

/// Counts over time of an outcome.
pub(crate) fn samples_of(outcome: &Outcome) -> &[Interval] {
    match &outcome.found {
        Found::Ramp(found) => &found.samples,
        Found::Soak(found) => &found.samples,
        Found::Trial(found) => &found.samples,
        Found::ForwardingRate(found) => &found.samples,
        Found::Churn(found) => &found.samples,
        _ => &[],
    }
}

/// How many rows of a course stand for one of the table.
fn every(rows: usize, most: usize) -> usize {
    rows.div_ceil(most).max(1)
}

/// What events told of their course, beside what the frames show: a row for each moment of each repetition.
fn moments(outcomes: &[&Outcome]) -> Table {
    let mut table = table_of(vec![
        Column::right("repetition", &["repetition"]),
        Column::right("after", &["at_s"]),
        Column::left("moment", &["moment"]),
    ]);
    for outcome in outcomes {
        let Found::Churn(found) = &outcome.found else {
            continue;
        };
        for (n, dip) in found.dips.iter().enumerate() {
            for moment in &dip.moments {
                let cells = vec![
                    Cell::number((n + 1).to_string(), n + 1),
                    Cell::number(delay(1e9 * moment.at_s), moment.at_s),
                    Cell::text(&moment.name),
                ];
                add_row(&mut table, outcome, cells);
            }
        }
    }
    table
}

/// What was offered and what came back over time, and how many intervals are together in one row: no lost frame is left out.
fn samples(outcomes: &[&Outcome], most_rows: usize) -> (Table, usize) {
    let right = Column::right;
    let mut table = table_of(vec![
        right("until", &["at_s"]),
        right("intended", &["intended_load_pps"]),
        right("offered", &["offered_load_pps"]),
        right("forwarded", &["forwarding_rate_pps"]),
        right("lost", &["frames_lost"]),
        right("loss", &["loss_percent"]),
    ]);
    let most = outcomes.iter().map(|outcome| samples_of(outcome).len());
    let every = every(most.max().unwrap_or(0), most_rows);
    for outcome in outcomes {
        for part in samples_of(outcome).chunks(every) {
            let together = together(part);
            let end_s = (together.at_ns + together.length_ns) as f64 / 1e9;
            let lost = together.frames_sent as i64 - together.frames_received as i64;
            add_row(
                &mut table,
                outcome,
                vec![
                    Cell::number(seconds(end_s), end_s),
                    pps(together.intended_load_pps),
                    pps(together.offered_load_pps()),
                    pps(together.forwarding_rate_pps()),
                    Cell::number(count(lost), lost),
                    loss(100.0 * together.loss_ratio()),
                ],
            );
        }
    }
    (table, every)
}

/// Intervals that follow one another as one.
fn together(part: &[Interval]) -> Interval {
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

/// How the estimates of a critical load came closer, and how many stand for one row.
fn estimates(outcomes: &[&Outcome], most_rows: usize) -> (Table, usize) {
    let right = Column::right;
    let mut table = table_of(vec![
        right("time", &["at_s"]),
        right("load", &["load_pps"]),
        right("lost", &["loss_percent"]),
        right("stretch model", &["stretch_pps"]),
        right("erf model", &["erf_pps"]),
    ]);
    let of = |outcome: &Outcome| -> Vec<Estimate> {
        match &outcome.found {
            Found::Plr(found) => found.estimates.clone(),
            _ => Vec::new(),
        }
    };
    let most = outcomes.iter().map(|outcome| of(outcome).len());
    let every = every(most.max().unwrap_or(0), most_rows);
    for outcome in outcomes {
        for estimate in of(outcome).iter().skip(every - 1).step_by(every) {
            add_row(
                &mut table,
                outcome,
                vec![
                    Cell::number(seconds(estimate.at_s), estimate.at_s),
                    pps(estimate.load_pps),
                    loss(100.0 * estimate.loss_ratio),
                    pps(estimate.stretch_pps),
                    pps(estimate.erf_pps),
                ],
            );
        }
    }
    (table, every)
}

/// The steps of a search for an equilibrium.
fn steps(outcomes: &[&Outcome]) -> Table {
    let right = Column::right;
    let mut table = table_of(vec![
        right("load", &["load_pps"]),
        right("forwarded", &["forwarding_rate_pps"]),
        right("step", &["step_pps"]),
    ]);
    for outcome in outcomes {
        let Found::Equilibrium(found) = &outcome.found else {
            continue;
        };
        for EquilibriumStep {
            load_pps,
            step_pps,
            forwarding_rate_pps,
        } in &found.steps
        {
            add_row(
                &mut table,
                outcome,
                vec![pps(*load_pps), pps(*forwarding_rate_pps), pps(*step_pps)],
            );
        }
    }
    table
}

/// Frame loss of all sizes side by side: a row per load, a column per size. `None` where there is one size, or one without
/// points.
pub(crate) fn losses_side_by_side(outcomes: &[&Outcome]) -> Option<Table> {
    let mut loads: Vec<f64> = Vec::new();
    let mut sizes = Vec::new();
    for outcome in outcomes {
        let Found::FrameLoss(found) = &outcome.found else {
            return None;
        };
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

/// What a sweep says, in words: what a unit costs, or what more cores bring. `None` of too few values.
pub(crate) fn of_sweep(found: &Sweep) -> Option<String> {
    if !Sweep::is_of_resources(&found.parameter) {
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

/// What a parameter costs, in words.
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
            let told = stretches.iter().map(|stretch| {
                let (low, high) = stretch.unit_ns_interval;
                format!(
                    "{:.2} ns each ({low:.2} to {high:.2}) from {} to {}",
                    stretch.unit_ns, stretch.from, stretch.to
                )
            });
            format!("not linear: {}", told.collect::<Vec<_>>().join(", "))
        }
    }
}
