//! Renders a figure over runs: where it changed, and what else was different there.
//!
//! Start with [`trend_fragment`].

use std::collections::BTreeMap;

use fwdlab_model::result::RunInfo;

use super::elements::{note, section, table};
use super::measured::card;
use crate::chart::{Axis, Chart, Curve, Curves, Reference, Size, html};
use crate::compare::{Changes, Group, Groups, Scale};
use crate::markup::Markup;
use crate::number::{difference, plural};
use crate::table::{Cell, shorten, table};

/// More lines than this are drawn each in a graph of its own.
const LINES: usize = 6;

/// With fewer runs no change is shown.
const FEWEST: usize = 4;

/// Width in columns of the name of a change in a chart, which fits into half of a narrow page, and
/// of a fact in the table.
const WIDTH: (usize, usize) = (20, 60);

/// Where a series of runs changed.
struct Change<'a> {
    row: &'a Groups,
    before: &'a Group,
    after: &'a Group,
    /// Facts that differ between the two runs, each with both values.
    differs: Vec<String>,
}

/// Renders the trend of a figure over runs of this name, the first of them first, for the page of
/// another program.
pub fn trend_fragment(name: &str, runs: &[&RunInfo], changes: &Changes) -> String {
    let mut m = Markup::default();
    let found = found(runs, changes);
    let metric = &changes.metric;
    m.within("header", &[], |m| {
        let origin = format!("{metric} of {name}, {}", plural(runs.len(), "run"));
        m.leaf("p", &[("class", "origin")], &origin);
        m.leaf("h1", &[("class", "long")], &headline(runs, &found));
    });
    section(&mut m, "Over runs", |m| {
        for chart in charts(changes, &found) {
            m.within("figure", &[], |m| html::draw(m, &chart));
        }
    });
    if !found.is_empty() {
        section(&mut m, "Changes", |m| changed(m, changes, &found));
    }
    let once = changes.rows.len() - drawn(changes).count();
    let once = (once > 0).then(|| {
        let cases = plural(once, "test case");
        note(&format!(
            "not drawn: {cases} measured in fewer than two of these runs"
        ))
    });
    let words = "A step is shown if two groups of values describe the series in fewer bits than one (jumpavg of FD.io CSIT). \
                 One of a single last run waits for the next run";
    super::keys(&mut m, once.into_iter().chain([note(words)]));
    m.finish()
}

fn headline(runs: &[&RunInfo], found: &[Change<'_>]) -> String {
    let Some(last) = found.iter().max_by_key(|change| change.after.first) else {
        return match runs.len() < FEWEST {
            true => "Too few runs to see a change".into(),
            false => "No change".into(),
        };
    };
    let percent = last
        .after
        .difference_percent
        .map_or_else(String::new, |percent| {
            format!(": {} %", difference(percent, None))
        });
    let wait = match last.after.unconfirmed {
        true => ", in one run only",
        false => "",
    };
    format!(
        "{}, the last in {} from {} on{percent}{wait}",
        plural(found.len(), "change"),
        last.row.test_case,
        last.after.from
    )
}

fn found<'a>(runs: &[&RunInfo], changes: &'a Changes) -> Vec<Change<'a>> {
    let facts: BTreeMap<&str, _> = runs
        .iter()
        .map(|info| (&info.id[..], facts(info)))
        .collect();
    let of_row = |row: &'a Groups| {
        let steps = row.groups.iter().zip(row.groups.iter().skip(1));
        steps.map(move |(before, after)| (row, before, after))
    };
    let all = changes.rows.iter().flat_map(of_row);
    let all = all.map(|(row, before, after)| {
        let [old, new] = [&before.to, &after.from].map(|run| facts.get(&run[..]));
        let pairs = old.into_iter().flatten().zip(new.into_iter().flatten());
        // a fact that was not read does not differ
        let differing =
            pairs.filter(|((_, old), (_, new))| old != new && !old.is_empty() && !new.is_empty());
        let differs = differing.map(|((name, old), (_, new))| {
            let [old, new] = [old, new].map(|value| shorten(value, WIDTH.1));
            format!("{name}: {old} \u{2192} {new}")
        });
        Change {
            row,
            before,
            after,
            differs: differs.collect(),
        }
    });
    all.collect()
}

/// Returns what can differ between runs, as text, always in the same order.
fn facts(info: &RunInfo) -> [(&'static str, String); 13] {
    let facts = &info.facts;
    let testers = facts.testers.iter();
    let testers: Vec<String> = testers
        .map(|(role, words)| format!("{role}: {words}"))
        .collect();
    let of_card = facts.cards.iter().map(card);
    let cards: Vec<String> = of_card
        .map(|(place, words)| format!("{place}: {words}"))
        .collect();
    [
        ("fwdlab", info.tool_version.clone()),
        ("kernel", facts.kernel.clone()),
        ("CPU", facts.cpu_model.clone()),
        ("CPUs", facts.cpus.to_string()),
        ("driver", facts.driver.clone().unwrap_or_default()),
        ("governor", facts.cpu_governor.clone().unwrap_or_default()),
        ("engine", facts.engine.clone()),
        ("machine", facts.machine.clone().unwrap_or_default()),
        ("testers", testers.join("; ")),
        ("cards", cards.join("; ")),
        ("sysctls", format!("{:?}", facts.sysctls)),
        ("mitigations", format!("{:?}", facts.mitigations)),
        ("offloads", format!("{:?}", facts.offloads)),
    ]
}

/// Returns the test cases that were measured in several runs.
fn drawn(changes: &Changes) -> impl Iterator<Item = &Groups> {
    changes.rows.iter().filter(|row| row.medians.len() > 1)
}

/// Draws up to [`LINES`] test cases in one graph, more of them each in its own.
fn charts(changes: &Changes, found: &[Change<'_>]) -> Vec<Chart> {
    let all: Vec<&Groups> = drawn(changes).collect();
    let (together, size) = match all.len() <= LINES {
        true => (all.len(), Size::Whole),
        false => (1, Size::Strip),
    };
    let runs = all.iter().flat_map(|row| &row.medians);
    let last = runs.map(|(run, _)| *run).max().unwrap_or(1);
    let groups = all.chunks(together.max(1));
    let charts = groups.map(|rows| {
        let curves = rows.iter().map(|row| {
            let points = row
                .medians
                .iter()
                .map(|(run, median)| (*run as f64, *median));
            Curve::new(row.test_case.clone(), points.collect())
        });
        let curves: Vec<Curve> = curves.collect();
        let up = match changes.unit.as_str() {
            "pps" => Axis::close_rates(&curves),
            _ => Axis::close_numbers(&changes.metric, &curves),
        };
        let mut moments: Vec<Reference> = Vec::new();
        for change in found {
            let is_here = rows.iter().any(|row| std::ptr::eq(*row, change.row));
            let first = change.row.medians.get(change.after.first - 1);
            if let (true, Some((run, _))) = (is_here, first) {
                let words = change.differs.first();
                let words = words.map_or("change", |differs| {
                    // the table has the values
                    let name = differs.split(": ").next().unwrap_or(differs);
                    let fits = differs.chars().count() <= WIDTH.0;
                    if fits { differs } else { name }
                });
                moments.push(Reference::new(*run as f64 - 0.5, words));
            }
        }
        // one line for what changed in several test cases
        moments.dedup_by(|a, b| a.at.total_cmp(&b.at).is_eq());
        let across = Axis::runs(last);
        let curves = Curves::new(across, up, curves).moments(moments).size(size);
        Chart::curves("trend", "", curves)
    });
    charts.collect()
}

fn changed(m: &mut Markup, changes: &Changes, found: &[Change<'_>]) {
    let means = found
        .iter()
        .flat_map(|change| [change.before.mean, change.after.mean]);
    let scale = Scale::new(&changes.unit, means);
    let mean = |group: &Group| Cell::new(scale.number(group.mean, group.stdev), group.mean);
    let rows = table! {
        change in found.iter();
        left("test case", "test_case") => Cell::text(&change.row.test_case),
        left("from run", "from") => Cell::text(&change.after.from),
        right("before", "before") => mean(change.before),
        right("after", "after") => mean(change.after),
        right("difference, %", "difference_percent") =>
            Cell::optional(change.after.difference_percent, "-", |percent| difference(percent, None)),
        below("what else was different", "differs") => Cell::text(match change.differs.is_empty() {
            true => "no recorded fact".to_owned(),
            false => change.differs.join("; "),
        }),
    };
    table(m, &rows);
}

#[cfg(test)]
mod tests {
    use fwdlab_model::series::Series;
    use serde_json::json;

    use super::*;
    use crate::compare::{Options, Source, changes};

    /// A kernel that costs a tenth, and nothing after it.
    #[test]
    fn a_change_is_named_with_what_differed() {
        let kernels = ["6.1", "6.1", "6.1", "6.12", "6.12", "6.12"];
        let runs: Vec<RunInfo> = (1..)
            .zip(kernels)
            .map(|(n, kernel)| info(n, kernel))
            .collect();
        let sources = |rates: &[f64]| -> Vec<Source> {
            let all = runs.iter().zip(rates);
            let all = all.map(|(info, rate)| Source {
                name: info.id.clone(),
                series: vec![series("64B", *rate), series("512B", 500.0)],
            });
            let mut all: Vec<Source> = all.collect();
            all[0].series.push(series("1518B", 400.0));
            all
        };
        let page = |rates: &[f64]| {
            let options = Options::new("rate");
            let found = changes(&sources(rates), &options).unwrap();
            let runs: Vec<&RunInfo> = runs.iter().take(rates.len()).collect();
            trend_fragment("c", &runs, &found)
        };
        let stepped = page(&[1000.0, 1001.0, 1000.0, 900.0, 901.0, 900.0]);
        for words in [
            "1 change, the last in 64B",
            "from run-4 on: -10.0 %",
            "kernel: 6.1 \u{2192} 6.12",
            "1 test case measured in fewer than two of these runs",
        ] {
            assert!(stepped.contains(words), "{words}: {stepped}");
        }
        assert!(!stepped.contains("1518B"), "{stepped}");
        let steady = page(&[1000.0, 1001.0, 1000.0, 1001.0, 1000.0, 1001.0]);
        assert!(
            steady.contains(">No change<") && !steady.contains("6.12"),
            "{steady}"
        );
        let few = page(&[1000.0, 1001.0]);
        assert!(few.contains("Too few runs"), "{few}");
    }

    fn series(test_case: &str, rate: f64) -> Series {
        Series {
            test_case: test_case.into(),
            labels: BTreeMap::from([("configuration".to_owned(), test_case.to_owned())]),
            metric: "rate".into(),
            unit: "pps".into(),
            values: vec![rate, rate + 1.0, rate - 1.0],
            ..Series::default()
        }
    }

    fn info(number: u32, kernel: &str) -> RunInfo {
        serde_json::from_value(json!({
            "format": 1, "id": format!("run-{number}"), "kind": "quick", "tool_version": "1", "command_line": [],
            "seed": 1, "started_at": "2026-11-28T10:00:00Z", "state": "finished", "parameters": {},
            "facts": {
                "kernel": kernel, "cpu_model": "x", "cpus": 1, "virtual_machine": false, "mitigations": {},
                "memory_bytes": 1, "privileged": true, "placement": {}, "sysctls": {}, "offloads": {}, "engine": "e",
            },
        }))
        .unwrap()
    }
}
