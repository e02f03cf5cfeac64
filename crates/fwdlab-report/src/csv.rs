//! The tables as CSV: plain numbers in base units, the units in the column names (RFC 4180).
//!
//! For spreadsheets and scripts that do not read JSON; people read [`text`](crate::text). Start
//! with [`summary`].

use fwdlab_model::result::Summary;

use crate::shape::Shape;
use crate::table::csv_line;
use crate::windows::tables;

/// Returns the results of a run, one line per row of its kind:
///
/// - imported results: per test case
/// - paired comparison: per configuration
/// - search: per goal
/// - procedures: per row of their tables, which share their columns
/// - campaign: per figure of a test case
/// - windows: per test case
pub fn summary(summary: &Summary) -> String {
    if !summary.imported.is_empty() {
        return crate::imported::cases(summary).csv();
    }
    match Shape::from_summary(summary) {
        Shape::Windows => tables::all_of_cases(summary).csv(),
        Shape::Slices => tables::comparisons(summary).csv(),
        Shape::Campaign => crate::campaign::table(&summary.test_cases).csv(),
        Shape::Procedures => {
            let outcomes: Vec<_> = summary.outcomes().cloned().collect();
            let (fields, rows) = crate::procedures::one_table(&outcomes);
            let rows = rows
                .iter()
                .map(|row| csv_line(row.iter().map(String::as_str)))
                .collect::<String>();
            csv_line(fields.into_iter()) + &rows
        }
    }
}
