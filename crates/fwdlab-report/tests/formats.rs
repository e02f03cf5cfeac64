//! Snapshot tests of Markdown and CSV. After an intended change:
//! `INSTA_UPDATE=always cargo test -p fwdlab-report`.

use crate::common;

use crate::common::Run;

fn check(run: &Run) {
    let markdown = fwdlab_report::markdown::summary(&run.info, &run.summary);
    let csv = fwdlab_report::csv::summary(&run.summary);
    let lines = csv.lines().count();
    let is_paired = run.summary.comparisons().next().is_some();
    // the A/A control is a row among comparisons
    let results = run.summary.test_cases.len() + usize::from(is_paired);
    assert_eq!(lines, 1 + results, "{}", run.name);
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(format!("{}.md", run.name), markdown);
        insta::assert_snapshot!(format!("{}.csv", run.name), rounded(&csv));
    });
}

/// Rounds every fraction to six digits: the last digits depend on the mathematical library.
fn rounded(csv: &str) -> String {
    let value = |value: &str| match value.parse::<f64>() {
        Ok(number) if value.contains('.') => format!("{number:.6e}"),
        _ => value.to_owned(),
    };
    let line = |line: &str| line.split(',').map(value).collect::<Vec<_>>().join(",");
    csv.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn test_cases() {
    check(&common::normal());
}

#[test]
fn test_cases_without_a_result() {
    check(&common::no_valid_iteration());
}

#[test]
fn comparisons() {
    check(&common::comparison());
}

#[test]
fn strings_from_outside() {
    check(&common::hostile());
}

#[test]
fn explanations_from_telemetry() {
    check(&common::explained());
}
