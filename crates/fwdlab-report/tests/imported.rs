//! Imported sets: what people read of them, in every format.

use fwdlab_model::facts::Facts;
use fwdlab_model::import::{ImportedCase, ImportedSeries};
use fwdlab_model::result::{Noise, RunInfo, RunState, Summary};
use fwdlab_model::trial::IpVersion;
use fwdlab_model::version::RUN_FORMAT;
use fwdlab_report::html::ShownFacts;
use scraper::{Html, Selector};

fn info() -> RunInfo {
    RunInfo {
        format: RUN_FORMAT,
        id: "2026-11-21-import-atom-vlan-7f3k".into(),
        kind: "import".into(),
        tool_version: "0.1.0".into(),
        command_line: vec!["fwdlab".into(), "import".into()],
        seed: 0,
        started_at: "2026-11-21T08:50:00Z".into(),
        finished_at: Some("2026-11-21T08:50:01Z".into()),
        state: RunState::Finished,
        gaps: Vec::new(),
        error: None,
        parameters: [("set".to_owned(), "Atom/vlan/results/\u{1b}[31mnew".into())].into(),
        facts: Facts::default(),
    }
}

fn series(values: &[f64]) -> ImportedSeries {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    ImportedSeries {
        iterations_pps: values.to_vec(),
        median_pps: sorted.get(sorted.len() / 2).copied(),
        min_pps: sorted.first().copied(),
        max_pps: sorted.last().copied(),
    }
}

fn summary() -> Summary {
    let case = |name: &str| ImportedCase {
        test_case: name.into(),
        labels: [("configuration".to_owned(), name.to_owned())].into(),
        ip_version: Some(IpVersion::Ipv4),
        frame_size_bytes: Some(64),
        flows: Some(2000),
        ..ImportedCase::default()
    };
    Summary {
        format: RUN_FORMAT,
        run: info().id,
        procedure: "netbenches".into(),
        test_cases: Vec::new(),
        control: None,
        imported: vec![
            ImportedCase {
                ours: series(&[4_322_481.0, 4_040_161.0, 4_201_494.5]),
                legacy: series(&[4_322_000.0, 4_040_000.0, 4_201_000.0]),
                rule_difference_percent: Some(0.012),
                offered_load_pps: Some(14_880_000.0),
                frame_loss_ratio: Some(0.7177),
                ..case("vlan.inet4")
            },
            ImportedCase {
                legacy: series(&[8_017_098.0]),
                iterations_invalid: 1,
                warnings: vec!["run 1: the log is too short for <our> rule".into()],
                ..case("vlan-no-hw.inet4.with.a.very.long.name")
            },
            ImportedCase {
                throughput_l2_bps: Some(904e6),
                ..case("ipsec")
            },
            case("nothing"),
        ],
        noise: Noise::default(),
        warnings: vec!["1 of 6 runs are not valid: see their reasons".into()],
        imix_estimate_l2_bps: None,
        thresholds: Vec::new(),
    }
}

#[test]
fn in_the_terminal() {
    let text = fwdlab_report::text::quick(&info(), &summary());
    assert!(!text.contains('\u{1b}'));
    insta::assert_snapshot!(text);
}

#[test]
fn as_markdown_and_csv() {
    insta::assert_snapshot!(fwdlab_report::markdown::summary(&info(), &summary()));
    insta::assert_snapshot!("csv", fwdlab_report::csv::summary(&summary()));
}

#[test]
fn as_a_page_that_opens_with_a_plot() {
    let page = fwdlab_report::html::page(&info(), &summary(), &[], &[], &[], ShownFacts::Brief);
    let parsed = Html::parse_document(&page);
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    let select = |text: &str| {
        let selector = Selector::parse(text).expect("a selector of this file is right");
        parsed.select(&selector).count()
    };
    // The plot is in the first section, and every value is a dot of it.
    assert_eq!(select("section:first-of-type figure svg.row[role=img]"), 4);
    assert_eq!(select("section:first-of-type circle.dot"), 3 + 1 + 1);
    assert!(!page.contains("<our>"));
    // A set without anything is shown too.
    let nothing = Summary {
        imported: Vec::new(),
        ..summary()
    };
    assert!(
        fwdlab_report::html::page(&info(), &nothing, &[], &[], &[], ShownFacts::Brief)
            .contains("no value")
    );
    assert!(fwdlab_report::text::quick(&info(), &nothing).contains("no value"));
}
