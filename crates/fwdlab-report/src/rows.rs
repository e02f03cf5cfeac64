//! Values of runs as rows for other programs: a row per figure and value, as JSON lines or CSV.
//!
//! Both have the same columns, described in `docs/reference/runs.md`. Nothing is averaged or judged.
//! Start with [`of_series`].

use std::collections::BTreeMap;

use fwdlab_model::result::RunState;
use fwdlab_model::series::Series;
use serde::Serialize;

use crate::table::csv_line;

/// The columns that are the same in all rows of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunColumns<'a> {
    /// Id of the run.
    pub run: &'a str,
    /// Kind of the run: `quick`, `campaign`, `import`.
    pub kind: &'a str,
    /// State of the run.
    pub state: RunState,
    /// When it was measured (RFC 3339, UTC), if known.
    pub measured_at: Option<String>,
    /// Tags of the run.
    pub tags: Vec<&'a str>,
}

/// A row: a value of a figure; or a figure without any value, so that it does not disappear.
#[derive(Debug, Clone, Serialize)]
pub struct Row<'a> {
    #[serde(flatten)]
    common: &'a RunColumns<'a>,
    test_case: &'a str,
    metric: &'a str,
    /// Empty for bare numbers.
    unit: &'a str,
    /// The place of the value among those of the figure, in order of measurement, from 1.
    n: Option<usize>,
    value: Option<f64>,
    /// Measurements of the figure that were invalid or had no result.
    left_out: u32,
    /// Values of the figure that were limited by the generator.
    generator_limited: u32,
    /// Labels of the test case, without the run.
    labels: BTreeMap<&'a str, &'a str>,
}

/// Names of the columns, in order.
const COLUMNS: [&str; 13] = [
    "run",
    "kind",
    "state",
    "measured_at",
    "tags",
    "test_case",
    "metric",
    "unit",
    "n",
    "value",
    "left_out",
    "generator_limited",
    "labels",
];

/// Returns the rows of a run from its series.
pub fn of_series<'a>(
    common: &'a RunColumns<'a>,
    all: &'a [Series],
) -> impl Iterator<Item = Row<'a>> + use<'a> {
    all.iter().flat_map(move |series| {
        let labels = series.labels.iter().filter(|(key, _)| *key != "run");
        let labels: BTreeMap<_, _> = labels.map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let values = series.values.iter().enumerate();
        let values = values.map(|(at, value)| (Some(at + 1), Some(*value)));
        let none = series.values.is_empty().then_some((None, None));
        values.chain(none).map(move |(n, value)| Row {
            common,
            test_case: &series.test_case,
            metric: &series.metric,
            unit: &series.unit,
            n,
            value,
            left_out: series.left_out,
            generator_limited: series.generator_limited,
            labels: labels.clone(),
        })
    })
}

/// Returns rows as JSON lines.
pub fn jsonl<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let line = |row| serde_json::to_string(&row).expect("texts and numbers") + "\n";
    rows.map(line).collect()
}

/// Returns the line of CSV with the names of the columns.
pub fn csv_head() -> String {
    csv_line(COLUMNS.into_iter())
}

/// Returns rows as CSV. Tags and labels are JSON.
pub fn csv<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let line = |row: Row<'a>| {
        let row = serde_json::to_value(&row).expect("texts and numbers");
        let cells = COLUMNS.map(|column| match &row[column] {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        csv_line(cells.iter().map(String::as_str))
    };
    rows.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(as_csv: bool) -> String {
        let common = RunColumns {
            run: "r1",
            kind: "campaign",
            state: RunState::Finished,
            measured_at: Some("2026-11-28T08:00:00Z".into()),
            tags: vec!["baseline"],
        };
        let labels = [("run", "r1"), ("configuration", "100 \"rules\", nft")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let whole = Series {
            test_case: "64B".into(),
            labels: labels.into(),
            metric: "forwarding-rate".into(),
            unit: "pps".into(),
            values: vec![1e6, 999_999.5],
            ..Series::default()
        };
        let empty = Series {
            values: Vec::new(),
            left_out: 2,
            ..whole.clone()
        };
        let all = [whole, empty];
        let rows = of_series(&common, &all);
        match as_csv {
            true => csv_head() + &csv(rows),
            false => jsonl(rows),
        }
    }

    #[test]
    fn a_row_is_a_value_and_a_figure_without_values_has_one() {
        let lines = text(false);
        let lines: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let values: Vec<_> = lines.iter().map(|line| line["value"].as_f64()).collect();
        assert_eq!(values, [Some(1e6), Some(999_999.5), None]);
        assert_eq!(lines[1]["n"], 2);
        assert_eq!(
            (&lines[2]["left_out"], lines[2]["n"].as_u64()),
            (&2.into(), None)
        );
        let expected = serde_json::json!({"configuration": "100 \"rules\", nft"});
        assert_eq!(lines[0]["labels"], expected);
        // no field without a column
        for line in lines {
            let mut fields: Vec<_> = line.as_object().unwrap().keys().cloned().collect();
            let mut columns = COLUMNS.map(str::to_owned).to_vec();
            fields.sort();
            columns.sort();
            assert_eq!(fields, columns);
        }
    }

    #[test]
    fn csv_has_the_same_columns() {
        let text = text(true);
        let expected = "r1,campaign,finished,2026-11-28T08:00:00Z,\"[\"\"baseline\"\"]\",64B,forwarding-rate,pps,2,999999.5,0,0,\
                        \"{\"\"configuration\"\":\"\"100 \\\"\"rules\\\"\", nft\"\"}\"\r\n";
        assert!(
            text.starts_with("run,kind,state,measured_at,tags,"),
            "{text}"
        );
        assert!(text.contains(expected), "{text}");
        assert!(text.contains(",pps,,,2,0,"), "{text}");
    }
}
