//! The figures that the archive publishes next to its logs: `.pps` and `.equilibrium` files (one
//! number per run), `gnuplot.data` and the older `.data` (one line per test case).
//!
//! Texts are kept as written, because they are compared with the logs to the last digit. Start with
//! [`Values::parse`] and [`Plotted::parse`].

use super::scan::{general8, shown, words};

/// A file with one number per line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    /// The numbers as written and as values, in the order of the file.
    pub values: Vec<(String, f64)>,
    /// Lines without a number.
    pub unknown: Vec<String>,
}

impl Values {
    /// Parses it like ministat: the first column; skips empty lines and those that begin with `#`.
    pub fn parse(bytes: &[u8]) -> Values {
        let mut parsed = Values::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            let Some(word) = words(line).next().filter(|word| word[0] != b'#') else {
                continue;
            };
            match number(word) {
                Some(value) => parsed
                    .values
                    .push((String::from_utf8_lossy(word).into_owned(), value)),
                None => parsed.unknown.push(shown(line)),
            }
        }
        parsed
    }

    /// Returns the contents of a file with these values.
    pub fn text(values: impl IntoIterator<Item = f64>) -> String {
        values
            .into_iter()
            .map(|value| general8(value) + "\n")
            .collect()
    }
}

/// A file with one line per test case: median, minimum, maximum of the runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plotted {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Lines that are neither a row nor a comment.
    pub unknown: Vec<String>,
}

/// One row of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The test case; the escaped line breaks of quoted names are blanks.
    pub index: String,
    /// Median.
    pub median: f64,
    /// Minimum; older files only have the median.
    pub min: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

impl Plotted {
    /// Parses a file.
    pub fn parse(bytes: &[u8]) -> Plotted {
        let mut parsed = Plotted::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            match row(line) {
                Some(row) => parsed.rows.push(row),
                None => parsed.unknown.push(shown(line)),
            }
        }
        parsed
    }

    /// Returns the contents of a file with these rows.
    pub fn text(rows: &[Row]) -> String {
        let mut text = String::from("#index median minimum maximum\n");
        for row in rows {
            let name = if row.index.contains(char::is_whitespace) {
                format!("\"{}\"", row.index.replace('"', "'"))
            } else {
                row.index.clone()
            };
            text.push_str(&name);
            for value in [Some(row.median), row.min, row.max].into_iter().flatten() {
                text.push(' ');
                text.push_str(&general8(value));
            }
            text.push('\n');
        }
        text
    }
}

fn row(line: &[u8]) -> Option<Row> {
    let (index, rest) = match line {
        [b'"', inside @ ..] => {
            let end = inside.iter().position(|byte| *byte == b'"')?;
            (&inside[..end], &inside[end + 1..])
        }
        _ => line.split_at(line.iter().position(u8::is_ascii_whitespace)?),
    };
    let numbers: Vec<f64> = words(rest).map(number).collect::<Option<_>>()?;
    let (&median, others) = numbers.split_first()?;
    Some(Row {
        index: String::from_utf8_lossy(index).replace("\\n", " "),
        median,
        min: others.first().copied(),
        max: others.get(1).copied(),
    })
}

fn number(word: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_per_run() {
        let parsed = Values::parse(b"4322481\n4201494.5\r\n\n# note\n 7 x\nInvalid\n1e3");
        let texts: Vec<&str> = parsed.values.iter().map(|(text, _)| &text[..]).collect();
        assert_eq!(texts, ["4322481", "4201494.5", "7", "1e3"]);
        assert_eq!(parsed.unknown, ["Invalid"]);
        assert_eq!(Values::text([4201494.5, 4322481.0]), "4201494.5\n4322481\n");
    }

    #[test]
    fn one_row_per_test_case() {
        let text = b"#index median minimum maximum\nbridge 4201494.5 4040161 4322481\n\"two\\nlines\" 1 2 3\nnone\t1785695\n???\n";
        let parsed = Plotted::parse(text);
        assert_eq!(parsed.rows.len(), 3);
        assert_eq!(parsed.rows[0].max, Some(4_322_481.0));
        assert_eq!(parsed.rows[1].index, "two lines");
        assert_eq!(
            (parsed.rows[2].median, parsed.rows[2].min),
            (1_785_695.0, None)
        );
        assert_eq!(parsed.unknown, ["???"]);
        assert_eq!(
            Plotted::text(&parsed.rows[..1]),
            "#index median minimum maximum\nbridge 4201494.5 4040161 4322481\n"
        );
    }
}
