//! Tests imported sets in every format.

use fwdlab_model::facts::Facts;
use fwdlab_model::import::{ImportedCase, ImportedSeries};
use fwdlab_model::result::{Noise, RunInfo, RunState, Summary};
use fwdlab_model::trial::IpVersion;
use fwdlab_model::version::RUN_FORMAT;
use fwdlab_report::chart::Plot;
use fwdlab_report::html::ShownFacts;
use fwdlab_report::run::Run;
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
        note: None,
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
    let text = fwdlab_report::text::quick(&info(), &summary()).to_string();
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
    let page = fwdlab_report::html::page(&Run::new(&info(), &summary()), ShownFacts::Brief);
    let parsed = Html::parse_document(&page);
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    let select = |text: &str| {
        let selector = Selector::parse(text).expect("a selector of this file is right");
        parsed.select(&selector).count()
    };
    // the chart is in the first section, with a dot per value
    assert_eq!(select("section:first-of-type figure svg.row[role=img]"), 4);
    assert_eq!(select("section:first-of-type circle.dot"), 3 + 1 + 1);
    assert!(!page.contains("<our>"));
    // an empty set is shown, too
    let nothing = Summary {
        imported: Vec::new(),
        ..summary()
    };
    assert!(
        fwdlab_report::html::page(&Run::new(&info(), &nothing), ShownFacts::Brief)
            .contains("no value")
    );
    assert!(
        fwdlab_report::text::quick(&info(), &nothing)
            .to_string()
            .contains("no value")
    );
}

/// A set with both address families compares them, and its configurations with the first. The
/// values are those that netbenches published (Xeon E5-2650, Chelsio T540, `forwarding-vlan`,
/// FreeBSD 11.1), by our rule.
#[test]
fn families_and_configurations_of_an_archive() {
    let (info, mut summary) = (info(), summary());
    let like = summary.imported[0].clone();
    let of = |configuration: &str, traffic: &str, values: [f64; 5]| {
        let mut one = like.clone();
        one.test_case = format!("{configuration}.{traffic}");
        one.labels = [("configuration", configuration), ("traffic", traffic)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        one.ours.iterations_pps = values.into();
        one.ours.median_pps = Some(sorted[2]);
        one.ip_version = Some(match traffic {
            "inet4" => IpVersion::Ipv4,
            _ => IpVersion::Ipv6,
        });
        one.frame_size_bytes = Some(if traffic == "inet4" { 64 } else { 66 });
        one
    };
    summary.imported = vec![
        of(
            "vlan-no-hw",
            "inet4",
            [8030074.0, 8017702.0, 8007000.5, 8075207.0, 8016594.5],
        ),
        of(
            "vlan-no-hw",
            "inet6",
            [6717141.0, 6682191.0, 6700616.0, 6687282.0, 6705123.0],
        ),
        of(
            "vlan",
            "inet4",
            [9055310.0, 9061769.0, 9087808.0, 9056449.0, 9104195.0],
        ),
        of(
            "vlan",
            "inet6",
            [7851658.0, 7855423.0, 7857494.5, 7863106.0, 7859684.0],
        ),
    ];
    let run = Run {
        name: &info.id,
        info: &info,
        summary: &summary,
        trials: &[],
        rebuilds: &[],
        profiles: &[],
    };
    let text = fwdlab_report::markdown::repository(&[run], &[]);
    assert!(text.contains("|  | inet4 | inet6 |"), "{text}");
    assert!(text.contains("| vlan-no-hw | 8.018 Mpps ± 0.4"), "{text}");
    // ratios of the means: 9,073,106 to 8,029,316, and 7,857,473 to 6,698,471
    let row = text.lines().find(|line| line.starts_with("| vlan | +13.0"));
    assert!(row.is_some_and(|row| row.contains("| +17.3")), "{text}");
    let chart = fwdlab_report::charts::families(&[run]).expect("both families are there");
    let Plot::Rows(rows) = &chart.plot else {
        panic!("{chart:?}");
    };
    let reported: Vec<String> = rows
        .rows
        .iter()
        .map(|row| row.screen_reader_text())
        .collect();
    assert_eq!(
        reported,
        [
            "vlan-no-hw, IPv4: 8.018 Mpps, 8.007 Mpps to 8.075 Mpps",
            "IPv6: 6.701 Mpps, 6.682 Mpps to 6.717 Mpps",
            "vlan, IPv4: 9.062 Mpps, 9.055 Mpps to 9.104 Mpps",
            "IPv6: 7.857 Mpps, 7.852 Mpps to 7.863 Mpps",
        ]
    );
}
