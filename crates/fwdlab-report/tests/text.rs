//! Snapshot tests of the terminal output. After an intended change:
//! `INSTA_UPDATE=always cargo test -p fwdlab-report`.

use crate::common;

use crate::common::Run;
use fwdlab_model::outcome::Found;
use fwdlab_model::probe::{ApartStratum, MachineState};
use fwdlab_model::result::Stratum;
use fwdlab_report::text::Level;

fn check(run: Run) {
    let text = fwdlab_report::text::quick(&run.info, &run.summary).to_string();
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
    check(common::one_noisy());
}

#[test]
fn invalid_trials() {
    check(common::invalid());
}

#[test]
fn no_valid_trial_at_all() {
    check(common::no_valid_iteration());
}

#[test]
fn a_dut_that_does_not_forward() {
    check(common::does_not_forward());
}

#[test]
fn a_generator_at_its_limit() {
    check(common::not_saturated());
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

#[test]
fn strings_from_outside_do_not_steer_the_terminal() {
    let mut run = common::one_configuration();
    run.summary.warnings = vec!["\u{1b}[31mred\u{7}\r".into()];
    common::comparison_of(&mut run.summary, 0).configuration = "a\u{1b}]0;title\u{7}\nb".into();
    let text = fwdlab_report::text::quick(&run.info, &run.summary).to_string();
    assert!(text.contains("[31mred"), "{text}");
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
}

#[test]
fn a_run_without_tables_explains_none() {
    for mut run in [common::normal(), common::comparison()] {
        let words = ["loss: whole trials", "the interval contains the difference"];
        let explains = |run: &Run| {
            let text = fwdlab_report::text::quick(&run.info, &run.summary).to_string();
            words.map(|words| text.replace('\n', " ").contains(words))
        };
        let is_paired = run.summary.procedure == "paired";
        assert_eq!(explains(&run), [!is_paired, is_paired]);
        run.summary.test_cases.clear();
        assert_eq!(explains(&run), [false, false]);
    }
}

#[test]
fn a_configuration_that_does_not_forward() {
    let mut run = common::one_configuration();
    let comparison = common::comparison_of(&mut run.summary, 0);
    comparison.values_percent.clear();
    comparison.difference_percent = None;
    comparison.interval_percent = None;
    comparison.verdict = fwdlab_model::comparison::Verdict::CannotTell;
    comparison.forwarding_rate_pps = Some(0.0);
    let text = fwdlab_report::text::quick(&run.info, &run.summary).to_string();
    assert!(
        text.starts_with("Does not forward: nft add table"),
        "{text}"
    );
    assert!(text.contains("     does not forward\n"), "{text}");
    assert!(!text.contains("0 pps"), "{text}");
}

/// The output shows which CPU state the figures belong to, and the results in the others.
#[test]
fn states_of_the_machine_are_named() {
    let mut run = common::one_case();
    let state = |ns: f64, readings: u32, percent: f64| MachineState {
        slowed: false,
        additions_per_ns: 17.5,
        round_trip_ns: vec![ns],
        readings,
        percent,
    };
    run.summary.noise.states = vec![state(118.0, 260, 65.0), state(475.0, 140, 35.0)];
    let stratum = Stratum {
        windows: 140,
        forwarding_rate_pps: Some(498e3),
    };
    let apart = ApartStratum::new(&run.summary.noise.states[1], stratum);
    match &mut run.summary.test_cases[0].outcomes[0].found {
        Found::Maxfwd(found) => found.other_states = vec![apart],
        other => panic!("{other:?}"),
    }
    let text = fwdlab_report::text::quick(&run.info, &run.summary).to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains(
            "figures are for CPUs 118 ns apart, as in 65.0 % of readings; also 475 ns apart (35.0 % of readings): 84 B 498.0 kpps"
        ),
        "{text}"
    );
    assert!(words.contains("in another state"), "{text}");
    run.summary.noise.states[0].slowed = true;
    let text = fwdlab_report::text::quick(&run.info, &run.summary).to_string();
    let head: Vec<&str> = text.split_whitespace().take(25).collect();
    assert!(head.join(" ").contains("its CPU slowed"), "{text}");
    assert!(
        text.contains("CPUs 118 ns apart and the DUT's slowed"),
        "{text}"
    );
    run.summary.noise.states[0].slowed = false;
    run.summary.noise.states.truncate(1);
    let text = fwdlab_report::text::quick(&run.info, &run.summary).to_string();
    assert!(
        text.contains("the CPUs were 118 ns apart throughout"),
        "{text}"
    );
}

/// Without root there is a figure, and the first line warns about it.
#[test]
fn the_headline_mentions_missing_root() {
    let mut run = common::one_case();
    let head = |run: &Run| {
        let text = fwdlab_report::text::quick(&run.info, &run.summary).to_string();
        let words: Vec<&str> = text.split_whitespace().take(30).collect();
        words.join(" ")
    };
    assert!(!head(&run).contains("without root"), "{}", head(&run));
    run.info.facts.privileged = false;
    assert!(
        head(&run).contains("; measured without root"),
        "{}",
        head(&run)
    );
    run.info.facts.engine = "sim: capacity=1Mpps".into();
    assert!(!head(&run).contains("without root"), "{}", head(&run));
}

#[test]
fn explanations_from_telemetry() {
    check(common::explained());
}

/// The name of a kind of sentence has a level, and not the words at the beginning of a line.
#[test]
fn a_paragraph_has_the_level_of_its_kind() {
    let mut run = common::one_configuration();
    run.summary.warnings = vec!["failed to be quiet ".repeat(9)];
    run.summary.noise.to_do = vec!["wait".into()];
    run.info.facts.link = Some("warning of a link".into());
    let text = fwdlab_report::text::quick(&run.info, &run.summary);
    let judged = text
        .parts()
        .iter()
        .filter(|(level, _)| *level != Level::Plain);
    let judged: Vec<_> = judged
        .map(|(level, words)| (*level, words.split_whitespace().next().unwrap()))
        .collect();
    assert!(judged.contains(&(Level::Warn, "warning")), "{judged:?}");
    assert!(judged.contains(&(Level::Warn, "to")), "{judged:?}");
    let warned = judged
        .iter()
        .filter(|one| **one == (Level::Warn, "warning"));
    assert_eq!(warned.count(), 1, "{judged:?}");
    assert!(judged.iter().all(|(level, _)| *level == Level::Warn));
}
