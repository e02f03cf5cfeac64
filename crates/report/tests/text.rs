//! What people see in the terminal, kept as files. After a wanted change: `INSTA_UPDATE=always cargo test -p fwdlab-report`.

mod common;

use common::Run;

fn check(run: Run) {
    let text = report::text::quick(&run.info, &run.summary);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{}: too wide: {line}", run.name);
        assert!(
            line.chars().all(|c| c.is_ascii() || matches!(c, '±' | '×')),
            "{}: not ASCII: {line}",
            run.name
        );
        assert_eq!(line, line.trim_end(), "{}: trailing blanks", run.name);
    }
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(run.name, text);
    });
}

#[test]
fn a_normal_run() {
    check(common::normal());
}

#[test]
fn one_test_case_with_one_flow() {
    check(common::one_case());
}

#[test]
fn twelve_test_cases_of_both_ip_versions() {
    check(common::twelve_cases());
}

#[test]
fn a_noisy_machine() {
    check(common::noisy());
}

#[test]
fn invalid_trials() {
    check(common::invalid());
}

#[test]
fn no_valid_trial_at_all() {
    check(common::nothing_valid());
}

#[test]
fn a_dut_that_does_not_forward() {
    check(common::does_not_forward());
}

#[test]
fn a_comparison_with_its_control() {
    check(common::comparison());
}

#[test]
fn ten_configurations() {
    check(common::ten_configurations());
}

#[test]
fn one_rebuild_cannot_tell() {
    check(common::cannot_tell());
}

#[test]
fn extreme_numbers() {
    check(common::extreme());
}
