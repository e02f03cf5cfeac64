//! Values of runs as rows for other programs: a row per figure and value, as JSON lines or CSV.
//!
//! Both have the same columns, described in `docs/reference/runs.md`. Nothing is averaged or
//! judged. Start with [`of_series`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use fwdlab_model::result::RunState;
use fwdlab_model::series::Series;
use serde::Serialize;
use serde_json::Value;

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
    /// Version of fwdlab that measured it.
    pub fwdlab: &'a str,
}

/// The columns before those of a value, the same in all rows of a figure.
#[derive(Serialize)]
struct Before<'a> {
    #[serde(flatten)]
    common: &'a RunColumns<'a>,
    test_bed: Option<&'a str>,
    test_case: &'a str,
    metric: &'a str,
    /// Empty for bare numbers.
    unit: &'a str,
}

/// The columns after those of a value, which are its place among the values of the figure, in order
/// of measurement, from 1, and the value.
#[derive(Serialize)]
struct After<'a> {
    /// That of the mean of the values at 95 %, or that of a count.
    half_width: Option<f64>,
    /// Measurements of the figure that were invalid or had no result.
    left_out: u32,
    /// Values of the figure that were limited by the generator.
    generator_limited: u32,
    /// Why the values are unreliable, if they are.
    doubt: Option<&'a str>,
    /// Labels of the test case, without the run.
    labels: BTreeMap<&'a str, &'a str>,
}

/// Names of the columns, in order.
const COLUMNS: [&str; 18] = [
    "run",
    "kind",
    "state",
    "measured_at",
    "tags",
    "fwdlab",
    "test_bed",
    "test_case",
    "metric",
    "unit",
    "n",
    "iteration",
    "value",
    "half_width",
    "left_out",
    "generator_limited",
    "doubt",
    "labels",
];

/// Number of columns before those of a value, and of those of a value.
const BEFORE: usize = 10;
const OF_VALUE: usize = 3;

/// Returns the rows of a run from its series: a row for every value, and one for a figure without
/// any, so that it does not disappear. `test_bed` is that of the run. `safe` escapes text before it
/// is printed.
pub fn of_series(
    common: &RunColumns<'_>,
    test_bed: Option<&str>,
    all: &[Series],
    format: Format,
    safe: impl Fn(&str) -> Cow<'_, str>,
) -> String {
    let mut text = String::new();
    for series in all {
        let labels = series.labels.iter().filter(|(key, _)| *key != "run");
        let before = Before {
            common,
            // parts of a joined run have their own
            test_bed: series
                .labels
                .get("test_bed")
                .map(String::as_str)
                .or(test_bed),
            test_case: &series.test_case,
            metric: &series.metric,
            unit: &series.unit,
        };
        let after = After {
            half_width: series.half_width.or(series.mean_half_width),
            left_out: series.left_out,
            generator_limited: series.generator_limited,
            doubt: series.doubt.as_deref(),
            labels: labels.map(|(k, v)| (k.as_str(), v.as_str())).collect(),
        };
        // a million rows: what they share is converted once for all values
        let (before, after) = (format.begin(&before), format.end(&after));
        let (before, after) = (safe(&before), safe(&after));
        let mut row = |n: Option<usize>, value: Option<f64>| {
            let iteration = n.and_then(|n| series.iterations.get(n - 1));
            let [n, iteration, value] = [json(&n), json(&iteration), json(&value)];
            text.push_str(&before);
            text.push_str(&match format {
                Format::Jsonl => format!(r#","n":{n},"iteration":{iteration},"value":{value},"#),
                Format::Csv => format!(",{n},{iteration},{value},").replace("null", ""),
            });
            text.push_str(&after);
        };
        for (n, value) in (1..).zip(&series.values) {
            row(Some(n), Some(*value));
        }
        if series.values.is_empty() {
            row(None, None);
        }
    }
    text
}

/// The formats of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON object per line.
    Jsonl,
    /// CSV; tags and labels are JSON.
    Csv,
}

impl Format {
    /// Returns the text of a row up to the value.
    fn begin(self, columns: &Before<'_>) -> String {
        let (text, end) = match self {
            Format::Jsonl => (json(columns), "}"),
            Format::Csv => (cells(&COLUMNS[..BEFORE], columns), "\r\n"),
        };
        text.strip_suffix(end).unwrap_or(&text).to_owned()
    }

    /// Returns the text of a row from the value on.
    fn end(self, columns: &After<'_>) -> String {
        match self {
            Format::Jsonl => json(columns)[1..].to_owned() + "\n",
            Format::Csv => cells(&COLUMNS[BEFORE + OF_VALUE..], columns),
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers")
}

/// Returns the line of CSV with the names of the columns.
pub fn csv_head() -> String {
    csv_line(COLUMNS.into_iter())
}

/// Returns a line of CSV with these columns.
fn cells(names: &[&str], columns: &impl Serialize) -> String {
    let columns = serde_json::to_value(columns).expect("texts and numbers");
    let cells = names.iter().map(|column| match &columns[*column] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let cells: Vec<String> = cells.collect();
    csv_line(cells.iter().map(String::as_str))
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
            fwdlab: "0.2.0",
        };
        let labels = [("run", "r1"), ("configuration", "100 \"rules\", nft")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let whole = Series {
            test_case: "64B".into(),
            labels: labels.into(),
            metric: "forwarding-rate".into(),
            unit: "pps".into(),
            values: vec![1e6, 999_999.5],
            iterations: vec![1, 3],
            mean_half_width: Some(2.5),
            ..Series::default()
        };
        let mut empty = Series {
            values: Vec::new(),
            iterations: Vec::new(),
            left_out: 2,
            doubt: Some("too noisy".into()),
            ..whole.clone()
        };
        let own = ("test_bed".to_owned(), "rack2".to_owned());
        empty.labels.extend([own]);
        let all = [whole, empty];
        let rows = |format| of_series(&common, Some("rack1"), &all, format, |text| text.into());
        match as_csv {
            true => csv_head() + &rows(Format::Csv),
            false => rows(Format::Jsonl),
        }
    }

    #[test]
    fn a_row_is_a_value_and_a_figure_without_values_has_one() {
        let lines = text(false);
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let values: Vec<_> = lines.iter().map(|line| line["value"].as_f64()).collect();
        assert_eq!(values, [Some(1e6), Some(999_999.5), None]);
        assert_eq!(lines[1]["n"], 2);
        let column = |name: &str| {
            lines
                .iter()
                .map(|line| line[name].clone())
                .collect::<Value>()
        };
        assert_eq!(column("iteration"), serde_json::json!([1, 3, null]));
        assert_eq!(column("half_width"), serde_json::json!([2.5, 2.5, 2.5]));
        assert_eq!(
            column("doubt"),
            serde_json::json!([null, null, "too noisy"])
        );
        assert_eq!(column("fwdlab")[0], "0.2.0");
        let beds = serde_json::json!(["rack1", "rack1", "rack2"]);
        assert_eq!(column("test_bed"), beds);
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
        let expected = "r1,campaign,finished,2026-11-28T08:00:00Z,\"[\"\"baseline\"\"]\",0.2.0,rack1,64B,forwarding-rate,pps,2,3,999999.5,2.5,0,0,,\
                        \"{\"\"configuration\"\":\"\"100 \\\"\"rules\\\"\", nft\"\"}\"\r\n";
        assert!(
            text.starts_with("run,kind,state,measured_at,tags,"),
            "{text}"
        );
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains(",rack2,64B,forwarding-rate,pps,,,,2.5,2,0,too noisy,"),
            "{text}"
        );
    }
}
