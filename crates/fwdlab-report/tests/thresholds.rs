//! Tests of a campaign's thresholds: kept, missed and inconclusive.
//!
//! Test cases are lists of values. Thresholds relative to another run or configuration use
//! `compare`, which has its own tests in the next file.

use std::collections::BTreeMap;

use fwdlab_model::campaign::{Campaign, Threshold};
use fwdlab_model::instructions::Exact;
use fwdlab_model::outcome::{Better, Compliance, Found, INSTRUCTIONS, Outcome, Unit};
use fwdlab_model::series::Series;
use fwdlab_model::test_case::{CaseFigure, TestCase};
use fwdlab_model::threshold::Judged;
use fwdlab_model::variant::Variant;
use fwdlab_report::compare::Source;
use fwdlab_report::thresholds::{judge, words};

const CAMPAIGN: &str = "campaign = 'c'\n[configuration]\nnat = 'true'\n[matrix]\nconfiguration = ['plain', 'nat']\n[procedure]\nid = 'mrr'\n";

fn thresholds(text: &str) -> Vec<Threshold> {
    let all = Campaign::parse("c.toml", &format!("{CAMPAIGN}{text}"));
    all.expect("a campaign").thresholds
}

/// Returns the test cases of the campaign, each with these values of one figure.
fn cases(name: &str, unit: Unit, better: Better, values: [&[f64]; 2]) -> Vec<TestCase> {
    let campaign = Campaign::parse("c.toml", CAMPAIGN).expect("a campaign");
    let each = campaign.cases.into_iter().zip(values);
    each.map(|(case, values)| TestCase {
        test_case: case.id(),
        case,
        figures: match values {
            [] => Vec::new(),
            values => vec![CaseFigure {
                name: name.into(),
                unit,
                better,
                values: values.to_vec(),
                median: values[0],
                interval_half_width: None,
                variation_percent: None,
                generator_limited: 0,
            }],
        },
        outcomes: Vec::new(),
        iterations: Vec::new(),
        findings: Vec::new(),
        doubt: None,
        work: None,
        stopped: None,
    })
    .collect()
}

fn source(name: &str, cases: &[TestCase]) -> Source {
    let series = cases.iter().flat_map(|case| {
        let configuration = case.case.configuration.clone();
        case.figures.iter().map(move |figure| Series {
            test_case: case.case.variant.id(&case.case.stream),
            labels: BTreeMap::from([
                ("configuration".to_owned(), configuration.clone()),
                ("frame_size_bytes".into(), "64".into()),
            ]),
            metric: fwdlab_model::series::metric(&figure.name),
            unit: figure.unit.symbol().into(),
            values: figure.values.clone(),
            ..Series::default()
        })
    });
    Source {
        name: name.into(),
        series: series.collect(),
    }
}

fn rates(values: [&[f64]; 2]) -> Vec<TestCase> {
    cases(
        "receive rate",
        Unit::FramesPerSecond,
        Better::Higher,
        values,
    )
}

fn judged(text: &str, own: &[TestCase], other: Option<&[TestCase]>) -> Judged {
    let thresholds = thresholds(text);
    let reference = other.map(|other| source("before", other));
    let mut all = judge(&thresholds, own, &source("now", own), &[reference], 0.002);
    all.pop().expect("one threshold")
}

const MILLION: [f64; 5] = [1.00e6, 1.01e6, 0.99e6, 1.005e6, 0.995e6];
const TENTH_LESS: [f64; 5] = [0.90e6, 0.91e6, 0.89e6, 0.905e6, 0.895e6];

#[test]
fn a_figure_reaches_what_its_interval_lies_above() {
    let own = rates([&MILLION, &TENTH_LESS]);
    let of = |text: &str| judged(text, &own, None);
    let kept = of("[[threshold]]\nat-least = '870kpps'");
    assert!(kept.passed && kept.kept == 2, "{kept:?}");
    // one is proven to be below the threshold, the other is not mentioned
    let failed = of("[[threshold]]\nat-least = '950kpps'");
    assert!(!failed.passed && failed.failed.len() == 1, "{failed:?}");
    assert!(
        failed.failed[0].starts_with("nat/64B-2000flows-ipv4, receive rate: 890"),
        "{failed:?}"
    );
    let plain = of("[[threshold]]\ncase = 'plain/*'\nat-least = '950kpps'");
    assert!(plain.passed && plain.kept == 1);
    // if the interval contains the threshold it is inconclusive, on whichever side the mean is
    for limit in ["1.001Mpps", "0.999Mpps"] {
        let blind = of(&format!(
            "[[threshold]]\ncase = 'plain/*'\nat-least = '{limit}'"
        ));
        assert!(
            !blind.passed && blind.failed.is_empty() && blind.inconclusive.len() == 1,
            "{blind:?}"
        );
    }
    let most = of("[[threshold]]\ncase = 'nat/*'\nat-most = '950kpps'");
    assert!(most.passed, "{most:?}");
    assert!(
        !of("[[threshold]]\ncase = 'plain/*'\nat-most = '950kpps'")
            .failed
            .is_empty()
    );
}

/// Shorter delays are better, and a number without a unit has that of the figure.
#[test]
fn units_are_those_of_the_figure() {
    let own = cases(
        "latency at 100 %",
        Unit::Nanoseconds,
        Better::Lower,
        [&[15e3, 16e3, 15.5e3], &[30e3, 31e3, 30.5e3]],
    );
    let of = |keys: &str| {
        let mut all = thresholds("[[threshold]]\nat-least = 1");
        let read: Threshold = toml_of(keys);
        all[0] = read;
        judge(&all, &own, &source("now", &own), &[None], 0.002).remove(0)
    };
    assert!(of("at-most = '40us'").passed);
    assert_eq!(of("at-most = '20us'").failed.len(), 1);
    assert_eq!(of("at-most = 20000").failed.len(), 1);
    assert_eq!(of("at-least = '1Mpps'").not_judged.len(), 2);
}

fn toml_of(keys: &str) -> Threshold {
    let text = format!("campaign = 'c'\n[[threshold]]\n{keys}\n[procedure]\nid = 'rfc2544'");
    Campaign::parse("c.toml", &text)
        .expect("a campaign")
        .thresholds
        .remove(0)
}

#[test]
fn an_inconclusive_gate_fails() {
    let two: &[f64] = &[1e6, 1.01e6];
    for values in [[&MILLION[..], two], [&MILLION[..], &[]]] {
        let own = rates(values);
        for text in [
            "[[threshold]]\nat-least = '1kpps'",
            "[[threshold]]\nnot-slower-than = { run = 'x', by = '2%' }",
        ] {
            let found = judged(text, &own, Some(&rates([&MILLION, &MILLION])));
            assert!(
                !found.passed && found.failed.is_empty(),
                "{values:?}: {found:?}"
            );
            assert!(
                found.not_judged.len() + found.inconclusive.len() == 1,
                "{found:?}"
            );
        }
    }
    let own = rates([&MILLION, &MILLION]);
    let without = judged(
        "[[threshold]]\nnot-slower-than = { run = 'x', by = '3%' }",
        &own,
        None,
    );
    assert!(!without.passed && without.kept == 0, "{without:?}");
}

#[test]
fn another_run_is_the_measure_by_the_rule_of_comparisons() {
    let before = rates([&MILLION, &MILLION]);
    let text = "[[threshold]]\nnot-slower-than = { run = 'x', by = '3%' }";
    let same = judged(text, &before, Some(&before));
    assert!(same.passed && same.kept == 2, "{same:?}");
    let slower = judged(text, &rates([&MILLION, &TENTH_LESS]), Some(&before));
    assert_eq!(
        (slower.failed.len(), slower.kept, slower.passed),
        (1, 1, false),
        "{slower:?}"
    );
    assert!(
        slower.failed[0].contains("nat") && slower.failed[0].contains("-10"),
        "{slower:?}"
    );
    // noise that hides 3 % keeps no threshold
    let noisy: &[f64] = &[0.8e6, 1.2e6, 0.9e6, 1.1e6, 1.0e6];
    let blind = judged(text, &rates([&MILLION, noisy]), Some(&before));
    assert!(!blind.passed && blind.inconclusive.len() == 1, "{blind:?}");
    // test cases that only the other run has are ignored
    let own = &rates([&MILLION, &MILLION])[..1];
    let part = judged(
        "[[threshold]]\ncase = 'plain/*'\nnot-slower-than = { run = 'x', by = '3%' }",
        own,
        Some(&before),
    );
    assert!(part.passed && part.kept == 1, "{part:?}");
    let lower = |values| cases("latency", Unit::Nanoseconds, Better::Lower, values);
    let longer = judged(
        text,
        &lower([&MILLION, &MILLION]),
        Some(&lower([&MILLION, &TENTH_LESS])),
    );
    assert_eq!(longer.failed.len(), 1, "longer is worse: {longer:?}");
    let shorter = judged(
        text,
        &lower([&MILLION, &TENTH_LESS]),
        Some(&lower([&MILLION, &MILLION])),
    );
    assert!(shorter.passed, "{shorter:?}");
}

#[test]
fn another_configuration_is_the_measure() {
    let text = |by: &str| {
        format!("[[threshold]]\nnot-slower-than = {{ configuration = 'plain', by = '{by}' }}")
    };
    let own = rates([&MILLION, &TENTH_LESS]);
    let failed = judged(&text("3%"), &own, None);
    assert_eq!((failed.failed.len(), failed.kept), (1, 0), "{failed:?}");
    let kept = judged(&text("15%"), &own, None);
    assert!(kept.passed && kept.kept == 1, "{kept:?}");
    let words = words(&thresholds(&text("3%"))[0]);
    assert_eq!(
        words,
        "every test case: not slower than configuration plain by more than 3 %"
    );
}

/// Counts of instructions of two configurations on two images.
fn counts(values: [f64; 4]) -> (Vec<TestCase>, Source) {
    let campaign = Campaign::parse("c.toml", COUNTS).expect("a campaign");
    let counted = campaign.cases.into_iter().zip(values).map(|(case, value)| {
        let image = case.image.clone().unwrap_or_default();
        let found = Exact {
            image: image.clone(),
            kernel: String::new(),
            generator: None,
            instructions_per_frame: value,
            interval: [value - 2.0, value + 2.0],
            through_per_frame: value,
            tester_per_frame: 0.0,
            frames: 32,
            bursts: 5,
            warm_up: 1,
            frame_loss_ratio: 0.0,
            functions: Vec::new(),
            difference: None,
            not_compared: None,
        };
        let series = Series {
            test_case: case.variant.id(&case.stream),
            labels: BTreeMap::from([
                ("configuration".to_owned(), case.configuration.clone()),
                ("image".into(), image),
            ]),
            metric: "instructions-per-frame".into(),
            values: vec![value],
            half_width: Some(found.half_width()),
            ..Series::default()
        };
        let mut own = cases(
            INSTRUCTIONS,
            Unit::Instructions,
            Better::Lower,
            [&[value], &[]],
        );
        let own = TestCase {
            test_case: case.id(),
            outcomes: vec![Outcome {
                frame_size_bytes: case.stream.frame_size_bytes,
                variant: Variant::default(),
                found: Found::Exact(Box::new(found)),
                verdict: String::new(),
                answered: true,
                not_applicable: false,
                compliance: Compliance::default(),
                warnings: Vec::new(),
                trials: 1,
            }],
            case,
            ..own.remove(0)
        };
        (own, series)
    });
    let (cases, series) = counted.unzip();
    let name = "now".into();
    (cases, Source { name, series })
}

const COUNTS: &str = "campaign = 'c'\niterations = 1\n[configuration]\nnat = 'true'\n[matrix]\nconfiguration = ['plain', 'nat']\n\
                      image = ['old', 'new']\n[procedure]\nid = 'exact'\n";

/// One boot is enough, because counts know their own uncertainty.
#[test]
fn counts_have_an_interval_after_one_boot() {
    let (cases, own) = counts([4000.0, 4004.0, 5000.0, 5100.0]);
    let judged = |text: &str, run: Option<Source>| {
        let all = Campaign::parse("c.toml", &format!("{COUNTS}[[threshold]]\n{text}"));
        let all = all.expect("a campaign").thresholds;
        judge(&all, &cases, &own, &[run], 0.002).remove(0)
    };
    let most = judged("at-most = 4050", None);
    assert_eq!((most.kept, most.failed.len()), (2, 2), "{most:?}");
    assert_eq!(
        judged("case = 'plain/*'\nat-most = 4003", None)
            .inconclusive
            .len(),
        1
    );
    let image = judged("not-slower-than = { image = 'old', by = '0.5%' }", None);
    assert_eq!(
        (image.kept, image.failed.len(), image.not_judged.len()),
        (1, 1, 0),
        "{image:?}"
    );
    assert!(
        image.failed[0].contains("nat") && image.failed[0].contains("+2"),
        "{image:?}"
    );
    // a reference that differs from itself proves nothing
    let mut doubtful = cases.clone();
    doubtful[3].doubt = Some("the reference differs from itself".into());
    let all = format!("{COUNTS}[[threshold]]\nnot-slower-than = {{ image = 'old', by = '0.5%' }}");
    let all = Campaign::parse("c.toml", &all)
        .expect("a campaign")
        .thresholds;
    let found = judge(&all, &doubtful, &own, &[None], 0.0).remove(0);
    assert_eq!(
        (found.failed.len(), found.not_judged.len(), found.passed),
        (0, 1, false),
        "{found:?}"
    );
    // only some test cases: the others of the reference are not missing
    let part = judged(
        "case = 'plain/*'\nnot-slower-than = { image = 'old', by = '0.5%' }",
        None,
    );
    assert!(part.passed, "{part:?}");
    let part = judged(
        "case = 'nat/*@new'\nnot-slower-than = { configuration = 'plain', by = '30%' }",
        None,
    );
    assert!(part.passed && part.kept == 1, "{part:?}");
}

/// The image of a pull request has another name than that of the run which it is compared with.
#[test]
fn a_run_of_one_image_is_compared_with_a_run_of_another() {
    let (cases, all) = counts([4000.0, 4100.0, 5000.0, 5004.0]);
    let is_new = |case: &TestCase| case.case.image.as_deref() == Some("new");
    let own: Vec<TestCase> = cases.into_iter().filter(is_new).collect();
    let half = |image: &str| Source {
        name: image.into(),
        series: (all.series.iter())
            .filter(|series| series.labels["image"] == image)
            .cloned()
            .collect(),
    };
    let text = COUNTS.replace("['old', 'new']", "['new']");
    let text = format!("{text}[[threshold]]\nnot-slower-than = {{ run = 'x', by = '0.5%' }}");
    let thresholds = Campaign::parse("c.toml", &text)
        .expect("a campaign")
        .thresholds;
    let found = judge(&thresholds, &own, &half("new"), &[Some(half("old"))], 0.0).remove(0);
    assert_eq!(
        (found.kept, found.failed.len(), found.not_judged.len()),
        (1, 1, 0),
        "{found:?}"
    );
    assert!(found.failed[0].contains("plain"), "{found:?}");
}
