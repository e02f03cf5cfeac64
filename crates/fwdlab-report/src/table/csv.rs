//! Renders a table as CSV: field names, then plain values (RFC 4180). No value is a formula for a
//! spreadsheet.
//!
//! It has the values for programs, not the text for people. Start with [`Table::csv`].

use std::borrow::Cow;

use super::Table;

impl Table {
    /// Renders a table: a line of field names, then the plain values.
    pub fn csv(&self) -> String {
        let fields = self.columns.iter().flat_map(|c| c.fields.iter().copied());
        let mut text = csv_line(fields);
        for row in &self.rows {
            let values = row.cells.iter().flat_map(|cell| cell.raw.iter());
            text.push_str(&csv_line(values.map(String::as_str)));
        }
        text
    }
}

/// Renders a line of values, quoted if necessary (RFC 4180).
pub(crate) fn csv_line<'a>(values: impl Iterator<Item = &'a str>) -> String {
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

/// Prevents spreadsheets from evaluating text as a formula: if it begins like one and is not a
/// number, an apostrophe is put before it, which spreadsheets hide.
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

    /// The examples of RFC 4180, section 2.
    #[test]
    fn quotes_as_rfc_4180() {
        assert_eq!(
            csv_line(["aaa", "bbb", "ccc"].into_iter()),
            "aaa,bbb,ccc\r\n"
        );
        assert_eq!(
            csv_line(["aaa", "b\r\nbb", ""].into_iter()),
            "aaa,\"b\r\nbb\",\r\n"
        );
        assert_eq!(
            csv_line(["aaa", "b\"bb", "c,c"].into_iter()),
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
        let reported = csv_line(values.into_iter());
        assert_eq!(
            reported,
            "'=1+1,'+cmd|' /C calc'!A0,-2.1,-,' @SUM(A1),'\t=1,'-x,1e-9\r\n"
        );
    }
}
