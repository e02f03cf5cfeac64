//! The tables as CSV: plain numbers in base units, the units in the column names (RFC 4180).
//!
//! For spreadsheets and scripts that do not read JSON; people read [`text`](crate::text). Start with [`summary`].

use std::borrow::Cow;

use fwdlab_model::result::Summary;

use crate::content;
use crate::table::Table;
use crate::words::Shape;

/// The results of a run: one line per configuration of a paired comparison, per goal of a search, or per row of the tables of
/// procedures, which share their columns, or per figure of a campaign's test case; else one per test case.
pub fn summary(summary: &Summary) -> String {
    if !summary.imported.is_empty() {
        return table(&crate::imported::cases(summary));
    }
    match Shape::of(summary) {
        Shape::Windows => table(&content::all_of_cases(summary)),
        Shape::Slices => table(&content::comparisons(summary)),
        Shape::Campaign => {
            let all = &summary.test_cases;
            table(&crate::campaign::differences(all).unwrap_or_else(|| crate::campaign::cases(all)))
        }
        Shape::Procedures => {
            let outcomes: Vec<_> = summary.outcomes().cloned().collect();
            let (fields, rows) = crate::procedures::one_table(&outcomes);
            let rows = rows
                .iter()
                .map(|row| line(row.iter().map(String::as_str)))
                .collect::<String>();
            line(fields.into_iter()) + &rows
        }
    }
}

/// One table: a line of field names, then the plain values.
pub(crate) fn table(table: &Table) -> String {
    let fields = table.columns.iter().flat_map(|c| c.fields.iter().copied());
    let mut text = line(fields);
    for row in &table.rows {
        let values = row.cells.iter().flat_map(|cell| cell.raw.iter());
        text.push_str(&line(values.map(String::as_str)));
    }
    text
}

pub(crate) fn line<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let values: Vec<String> = values.map(quoted).collect();
    format!("{}\r\n", values.join(","))
}

fn quoted(value: &str) -> String {
    let value = &*harmless(value);
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

/// A text that no spreadsheet takes for a formula: what begins like one and is no number gets an apostrophe before it, which they do not show.
fn harmless(value: &str) -> Cow<'_, str> {
    let begins = value.trim_start().starts_with(['=', '+', '-', '@'])
        || value.starts_with(['\t', '\r', '\n']);
    match begins && value != "-" && value.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{value}")),
        false => Cow::Borrowed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4180 section 2.
    #[test]
    fn quotes_as_rfc_4180() {
        assert_eq!(line(["aaa", "bbb", "ccc"].into_iter()), "aaa,bbb,ccc\r\n");
        assert_eq!(
            line(["aaa", "b\r\nbb", ""].into_iter()),
            "aaa,\"b\r\nbb\",\r\n"
        );
        assert_eq!(
            line(["aaa", "b\"bb", "c,c"].into_iter()),
            "aaa,\"b\"\"bb\",\"c,c\"\r\n"
        );
    }

    #[test]
    fn no_text_is_a_formula_and_numbers_stay_numbers() {
        let values = [
            "=1+1",
            "+cmd|' /C calc'!A0",
            "-2.1",
            "-",
            " @SUM(A1)",
            "\t=1",
            "-x",
            "1e-9",
        ];
        let told = line(values.into_iter());
        assert_eq!(
            told,
            "'=1+1,'+cmd|' /C calc'!A0,-2.1,-,' @SUM(A1),'\t=1,'-x,1e-9\r\n"
        );
    }
}
