//! Arranges series in rows and columns.
//!
//! Columns are the values of one label, or of several together. By default, rows are distinguished
//! by the traffic, by other labels that vary within a column, and by the run if that leaves
//! something to compare; the user may choose other labels. Start with [`arrange`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use fwdlab_model::facts::EMULATOR;
use fwdlab_model::instructions::{BURST, GENERATOR};
use fwdlab_model::series::{SENDERS, Series};

use super::{Column, CompareError, Filter, Options, SOURCE, Source, Unmatched};
use crate::number::flows;

/// Labels of the traffic: series that differ in one of them are not compared, unless one of them
/// makes the columns.
const TRAFFIC: [&str; 5] = [
    "traffic",
    "frame_size_bytes",
    "flows",
    "ip_version",
    "series",
];
/// Labels of the origin of a series: they do not distinguish test cases.
const ORIGIN: [&str; 14] = [
    "run",
    "kernel",
    "cpu_model",
    "test_bed",
    "engine",
    "load",
    SENDERS,
    "procedure",
    "date",
    "dut",
    "profile",
    EMULATOR,
    BURST,
    GENERATOR,
];
/// Short names that campaigns and commands use for labels.
const ALIASES: [(&str, &str); 2] = [("size", "frame_size_bytes"), ("ip", "ip_version")];
/// Length of the longest list in a message.
const LISTED: usize = 8;

/// Series in rows and columns.
pub(super) struct Arranged<'a> {
    pub by: String,
    pub unit: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Line<'a>>,
    pub unmatched: Vec<Unmatched>,
}

/// A row.
pub(super) struct Line<'a> {
    pub test_case: String,
    pub labels: BTreeMap<String, String>,
    /// The series of each column: none, one, or several to join.
    pub cells: Vec<Vec<&'a Series>>,
}

/// A series and the name of its source.
#[derive(Clone, Copy)]
struct FoundSeries<'a> {
    source: &'a str,
    series: &'a Series,
}

impl<'a> FoundSeries<'a> {
    fn label(self, key: &str) -> Option<&'a str> {
        if key == SOURCE {
            Some(self.source)
        } else {
            self.series.labels.get(key).map(String::as_str)
        }
    }

    /// Returns the values of one label, or of several separated by commas; `None` if the series has
    /// none of them.
    fn projected(self, keys: &str) -> Option<Cow<'a, str>> {
        if !keys.contains(',') {
            return self.label(keys).map(Cow::Borrowed);
        }
        let values: Vec<&str> = keys.split(',').filter_map(|key| self.label(key)).collect();
        (!values.is_empty()).then(|| Cow::Owned(values.join(", ")))
    }
}

/// Replaces short names of labels: `size` becomes `frame_size_bytes`.
fn keys(typed: &str) -> String {
    let kept = |key: &str| {
        let key = key.trim();
        let alias = ALIASES.iter().find(|(alias, _)| *alias == key);
        alias.map_or(key, |(_, kept)| kept).to_owned()
    };
    typed.split(',').map(kept).collect::<Vec<_>>().join(",")
}

impl Filter {
    /// Returns true if the filter keeps a series.
    fn keeps(&self, found: FoundSeries<'_>) -> bool {
        let value = found.projected(&keys(&self.key));
        let is_one = value.is_some_and(|value| self.values.iter().any(|one| *one == value));
        is_one != self.excludes
    }
}

/// Arranges all series of the metric. Every row has a value in the baseline, which is the first
/// column, and in another column.
pub(super) fn arrange<'a>(
    sources: &'a [Source],
    options: &Options,
) -> Result<Arranged<'a>, CompareError> {
    let arranged = all_rows(sources, options)?;
    if arranged.columns.len() < 2 {
        return Err(one_column(sources, &arranged));
    }
    let (rows, others): (Vec<Line<'_>>, Vec<Line<'_>>) =
        arranged.rows.into_iter().partition(|row| {
            let has_values = |cell: &Vec<&Series>| cell.iter().any(|s| !s.values.is_empty());
            has_values(&row.cells[0]) && row.cells[1..].iter().any(has_values)
        });
    let columns = arranged.columns;
    if rows.is_empty() {
        let baseline = columns[0].name.clone();
        let cases = |index: usize| {
            let has = others.iter().filter(|row| !row.cells[index].is_empty());
            let names: Vec<&str> = has.map(|row| row.test_case.as_str()).collect();
            let more = names.len().saturating_sub(LISTED);
            let names = names[..names.len() - more].join("; ");
            if more > 0 {
                format!("{names} and {more} more")
            } else {
                names
            }
        };
        let there_is: Vec<String> = (0..columns.len().min(LISTED))
            .map(|index| format!("{}: {}", columns[index].name, cases(index)))
            .collect();
        return Err(CompareError::NothingInCommon {
            baseline,
            there_is: there_is.join(". "),
        });
    }
    let unmatched = |row: &Line<'_>| {
        let named = |with: bool| -> Vec<String> {
            let has = |index: &usize| row.cells[*index].iter().any(|s| !s.values.is_empty());
            let chosen = (0..columns.len()).filter(|index| has(index) == with);
            chosen.map(|index| columns[index].name.clone()).collect()
        };
        Unmatched {
            test_case: row.test_case.clone(),
            only_in: named(true),
            missing_in: named(false),
        }
    };
    let unmatched = rows
        .iter()
        .chain(&others)
        .map(unmatched)
        .filter(|row| !row.missing_in.is_empty())
        .collect();
    Ok(Arranged {
        by: arranged.by,
        unit: arranged.unit,
        columns,
        rows,
        unmatched,
    })
}

/// Returns every row in the order of the sources, even if columns lack values; one column is
/// enough.
pub(super) fn all_rows<'a>(
    sources: &'a [Source],
    options: &Options,
) -> Result<Arranged<'a>, CompareError> {
    let every: Vec<FoundSeries<'a>> = sources
        .iter()
        .flat_map(|source| {
            let found = |series| FoundSeries {
                source: &source.name,
                series,
            };
            source.series.iter().map(found)
        })
        .collect();
    let all: Vec<FoundSeries<'a>> = every
        .iter()
        .copied()
        .filter(|found| found.series.metric == options.metric)
        .collect();
    if let Some(filter) = options.filters.iter().find(|filter| {
        let key = keys(&filter.key);
        !all.is_empty() && all.iter().all(|found| found.projected(&key).is_none())
    }) {
        return Err(CompareError::NoLabel {
            key: filter.key.clone(),
            there_is: varying(&all),
        });
    }
    let there_was = !all.is_empty();
    let all: Vec<FoundSeries<'a>> = all
        .into_iter()
        .filter(|found| options.filters.iter().all(|filter| filter.keeps(*found)))
        .collect();
    if there_was && all.is_empty() {
        return Err(CompareError::NothingLeft);
    }
    if all.is_empty() {
        let metrics: BTreeSet<&str> = every.iter().map(|f| f.series.metric.as_str()).collect();
        return Err(CompareError::NoMetric {
            metric: options.metric.clone(),
            there_is: if metrics.is_empty() {
                "no values".into()
            } else {
                list(metrics)
            },
        });
    }
    let by = match &options.by {
        Some(by) => keys(by),
        None if sources.len() > 1 => SOURCE.into(),
        None if values(&all, "configuration").len() > 1 => "configuration".into(),
        None => SOURCE.into(),
    };
    let mut names = values(&all, &by);
    if names.is_empty() {
        return Err(CompareError::NoLabel {
            key: by,
            there_is: varying(&all),
        });
    }
    if let Some(baseline) = &options.baseline {
        let index = column_of(&names, baseline)?;
        let name = names.remove(index);
        names.insert(0, name);
    }
    let columns: Vec<Vec<FoundSeries<'a>>> = names
        .iter()
        .map(|name| series_in_column(&all, &by, name))
        .collect();
    let rows = match &options.rows {
        Some(typed) => {
            let requested = keys(typed);
            if let Some(key) = (requested.split(',')).find(|key| values(&all, key).is_empty()) {
                return Err(CompareError::NoLabel {
                    key: key.to_owned(),
                    there_is: varying(&all),
                });
            }
            let requested: Vec<String> = requested.split(',').map(str::to_owned).collect();
            rows(&all, &columns, &requested, options)
        }
        None => {
            // the remaining labels distinguish rows; but if no row has two columns, rows of
            // different runs are joined
            let found = rows(&all, &columns, &row_keys(&columns, &by, true), options);
            let has_two =
                |row: &Line<'_>| row.cells.iter().filter(|cell| !cell.is_empty()).count() > 1;
            match found.iter().any(has_two) {
                true => found,
                false => rows(&all, &columns, &row_keys(&columns, &by, false), options),
            }
        }
    };
    let unit = all[0].series.unit.clone();
    let one_unit = all.iter().all(|found| found.series.unit == unit);
    Ok(Arranged {
        unit: if one_unit { unit } else { String::new() },
        columns: names
            .iter()
            .zip(&columns)
            .map(|(name, found)| described(&by, name, found))
            .collect(),
        by,
        rows,
        unmatched: Vec::new(),
    })
}

/// Returns the error for a single column.
fn one_column(sources: &[Source], arranged: &Arranged<'_>) -> CompareError {
    let all: Vec<FoundSeries<'_>> = sources
        .iter()
        .flat_map(|s| {
            s.series.iter().map(|series| FoundSeries {
                source: &s.name,
                series,
            })
        })
        .collect();
    let varying = varying(&all);
    CompareError::OneColumn {
        by: arranged.by.clone(),
        only: arranged.columns[0].name.clone(),
        advice: if varying == NONE {
            "name another run or file".into()
        } else {
            format!(
                "name another run or file, or give the label that separates columns: --by {varying}"
            )
        },
    }
}

fn series_in_column<'a>(all: &[FoundSeries<'a>], by: &str, name: &str) -> Vec<FoundSeries<'a>> {
    let mut column = all.to_vec();
    column.retain(|found| found.projected(by).is_some_and(|value| value == name));
    column
}

/// Returns the values of a label in order of appearance.
fn values(all: &[FoundSeries<'_>], key: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let labels = all.iter().filter_map(|found| found.projected(key));
    labels
        .filter(|value| seen.insert(value.clone()))
        .map(Cow::into_owned)
        .collect()
}

const NONE: &str = "nothing, because no label varies";

/// Lists the labels that have more than one value.
fn varying(all: &[FoundSeries<'_>]) -> String {
    let keys: BTreeSet<&str> = all
        .iter()
        .flat_map(|found| found.series.labels.keys().map(String::as_str))
        .collect();
    let varying: Vec<&str> = keys
        .into_iter()
        .filter(|key| values(all, key).len() > 1)
        .collect();
    if varying.is_empty() {
        NONE.into()
    } else {
        list(varying)
    }
}

fn column_of(names: &[String], requested: &str) -> Result<usize, CompareError> {
    let error = |what| CompareError::Baseline {
        name: requested.to_owned(),
        what,
        columns: list(names.iter().map(String::as_str)),
    };
    if let Some(index) = names.iter().position(|name| name == requested) {
        return Ok(index);
    }
    let mut beginning = (0..names.len()).filter(|&i| names[i].starts_with(requested));
    match (beginning.next(), beginning.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(error("the beginning of several columns")),
        (None, _) => Err(error("no column")),
    }
}

/// Returns the labels that distinguish rows; `run` decides whether the run may be one of them.
fn row_keys(columns: &[Vec<FoundSeries<'_>>], by: &str, run: bool) -> Vec<String> {
    // a bare file of numbers has no traffic labels: compare it with the only series of each other
    // column
    let bare = |found: &FoundSeries<'_>| found.series.labels.is_empty();
    let alone = columns.iter().all(|column| column.len() == 1);
    if alone && columns.iter().flatten().any(bare) {
        return Vec::new();
    }
    let keys: BTreeSet<&str> = columns
        .iter()
        .flatten()
        .flat_map(|found| found.series.labels.keys().map(String::as_str))
        .filter(|key| by.split(',').all(|by| by != *key))
        .collect();
    let varies = |key: &str| {
        columns.iter().any(|column| {
            let present: BTreeSet<_> = column.iter().map(|found| found.label(key)).collect();
            present.len() > 1
        })
    };
    // IPv4 compared with IPv6 is 64 bytes compared with 66: labels that vary with the columns do
    // not separate rows
    let by_traffic = by.split(',').any(|key| TRAFFIC.contains(&key));
    let always = |key: &str| TRAFFIC.contains(&key) && !by_traffic;
    let never = |key: &str| ORIGIN.contains(&key) && !(run && key == "run");
    let tells = |key: &&str| always(key) || !never(key) && varies(key);
    let mut keys: Vec<String> = keys.into_iter().filter(tells).map(str::to_owned).collect();
    // labels that were varied on purpose first, then the traffic in its usual order
    keys.sort_by_key(|key| TRAFFIC.iter().position(|traffic| traffic == key));
    keys
}

fn rows<'a>(
    all: &[FoundSeries<'a>],
    columns: &[Vec<FoundSeries<'a>>],
    keys: &[String],
    options: &Options,
) -> Vec<Line<'a>> {
    let labels = |found: &FoundSeries<'a>| -> BTreeMap<String, String> {
        let label = |key: &String| Some((key.clone(), found.label(key)?.to_owned()));
        keys.iter().filter_map(label).collect()
    };
    let mut rows: Vec<Line<'a>> = Vec::new();
    let mut index: BTreeMap<BTreeMap<String, String>, usize> = BTreeMap::new();
    for (column, series) in columns.iter().enumerate() {
        for found in series {
            let labels = labels(found);
            let row = *index.entry(labels.clone()).or_insert_with(|| {
                rows.push(Line {
                    test_case: String::new(),
                    labels,
                    cells: vec![Vec::new(); columns.len()],
                });
                rows.len() - 1
            });
            rows[row].cells[column].push(found.series);
        }
    }
    let vary = |key: &&String| {
        let values: BTreeSet<_> = rows.iter().map(|row| row.labels.get(*key)).collect();
        values.len() > 1
    };
    let mut shown: Vec<&String> = keys.iter().filter(vary).collect();
    if shown.is_empty() {
        shown.extend(keys.iter().filter(|key| TRAFFIC.contains(&key.as_str())));
    }
    let mut named = all.iter().map(|found| found.series.test_case.as_str());
    let one_name = named
        .next()
        .filter(|first| named.all(|name| name == *first));
    let names: Vec<String> = rows
        .iter()
        .map(|row| {
            let words = shown.iter().filter_map(|key| {
                let value = row.labels.get(*key)?;
                Some(in_words(key, value))
            });
            let words: Vec<String> = words.collect();
            if !words.is_empty() {
                words.join(", ")
            } else if let Some(name) = one_name.filter(|name| !name.is_empty()) {
                name.to_owned()
            } else {
                options.metric.replace('-', " ")
            }
        })
        .collect();
    for (row, name) in rows.iter_mut().zip(names) {
        row.test_case = name;
    }
    rows
}

/// Formats a label's value: `64 B`, `2,000 flows`, `IPv4`, `rules 10`; names and other words stay
/// as they are.
fn in_words(key: &str, value: &str) -> String {
    match (key, value.parse()) {
        (SOURCE | "configuration" | "run", _) => value.to_owned(),
        ("frame_size_bytes", _) => format!("{value} B"),
        ("flows", Ok(number)) => flows(number),
        ("ip_version", _) => value.replace("ip", "IP"),
        _ if value.parse::<f64>().is_ok() => format!("{key} {value}"),
        _ => value.to_owned(),
    }
}

fn described(by: &str, name: &str, column: &[FoundSeries<'_>]) -> Column {
    let sources: BTreeSet<&str> = column.iter().map(|found| found.source).collect();
    let mut labels = column
        .first()
        .map(|found| found.series.labels.clone())
        .unwrap_or_default();
    labels.retain(|key, value| {
        let same = |found: &FoundSeries<'_>| found.label(key) == Some(value.as_str());
        column.iter().all(same)
    });
    let words = column.first().map(|found| {
        let words = by
            .split(',')
            .filter_map(|key| Some(in_words(key, found.label(key)?)));
        words.collect::<Vec<_>>().join(", ")
    });
    Column {
        name: words.unwrap_or_else(|| name.to_owned()),
        sources: sources.into_iter().map(str::to_owned).collect(),
        labels,
    }
}

/// Formats a list: `a, b, c and 5 more`.
fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.len() {
        0 => "nothing".into(),
        n if n <= LISTED => words.join(", "),
        n => format!("{} and {} more", words[..LISTED].join(", "), n - LISTED),
    }
}
