//! Tests comparisons of series: how they are arranged, judged and rendered.

use std::collections::BTreeMap;

use fwdlab_model::comparison::Verdict;
use fwdlab_model::outcome::Better;
use fwdlab_model::probe::MachineState;
use fwdlab_model::series::{FORWARDING_RATE, Series, Turns};
use fwdlab_model::stacks::Profile;
use fwdlab_report::compare::{
    CompareError, Filter, Judged, Limit, Options, Outcome, Source, TestChoice, changes,
    changes_text, compare, csv, markdown, ministat,
};
use fwdlab_stats::Confidence;
use fwdlab_stats::ministat::Model;

fn text(outcome: &Outcome, judged: &[Judged], verbose: bool) -> String {
    fwdlab_report::compare::text(outcome, judged, verbose).to_string()
}

/// The netbenches archive, machdep.hyperthreading_allowed: five runs each.
const HT_8: [f64; 5] = [4648451.0, 4735822.0, 4724896.0, 4632222.0, 4500078.0];
const HT_16: [f64; 5] = [4925106.0, 5070589.5, 5104512.0, 5198632.0, 5142971.0];
const NO_HT: [f64; 5] = [5801231.5, 5783115.0, 5765684.0, 5780396.0, 5794597.0];
/// The same archive, chelsio-bind-cpu on an Atom: no difference proven.
const UNBOUND: [f64; 5] = [4059502.0, 4149250.0, 4232479.0, 4066276.0, 4190823.0];
const BOUND: [f64; 5] = [4173030.0, 4112849.5, 4187634.0, 4118224.0, 4212811.0];

fn options() -> Options {
    Options {
        metric: FORWARDING_RATE.into(),
        by: None,
        rows: None,
        filters: Vec::new(),
        baseline: None,
        test: TestChoice::Auto,
        paired: false,
        allowance: 0.002,
        confidence: Confidence::P95,
        equivalence_percent: None,
    }
}

fn series(labels: &[(&str, &str)], values: &[f64]) -> Series {
    Series {
        test_case: labels.iter().map(|(_, v)| *v).collect::<Vec<_>>().join("."),
        labels: labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        metric: FORWARDING_RATE.into(),
        unit: "pps".into(),
        values: values.to_vec(),
        ..Series::default()
    }
}

fn source(name: &str, series: Vec<Series>) -> Source {
    Source {
        name: name.into(),
        series,
    }
}

fn files(files: &[(&str, &[f64])]) -> Vec<Source> {
    let one = |(name, values): &(&str, &[f64])| source(name, vec![series(&[], values)]);
    files.iter().map(one).collect()
}

fn hyperthreading() -> Vec<Source> {
    files(&[
        ("8 queues", &HT_8),
        ("16 queues", &HT_16),
        ("disabled", &NO_HT),
    ])
}

fn cases(outcome: &Outcome) -> Vec<&str> {
    outcome.rows.iter().map(|r| r.test_case.as_str()).collect()
}

fn columns(outcome: &Outcome) -> Vec<&str> {
    outcome.columns.iter().map(|c| c.name.as_str()).collect()
}

/// The results of R 4's t.test and wilcox.test for such data are in the tests of `stats`. Here the
/// published ministat values (docs/methodology.md, "ministat") must appear in the outcome: 9.46731
/// %, 24.4544 %, 440068 +/- 144126.
#[test]
fn student_is_that_of_the_published_blocks() {
    let options = Options {
        test: TestChoice::Student,
        ..options()
    };
    let outcome = compare(&hyperthreading(), &options).unwrap();
    let [sixteen, none] = &outcome.rows[0].comparisons[..] else {
        panic!("{outcome:?}")
    };
    assert!((sixteen.difference_percent.unwrap() - 9.46731).abs() < 5e-6);
    assert!((none.difference_percent.unwrap() - 24.4544).abs() < 5e-5);
    let [low, high] = sixteen.interval.unwrap();
    assert!(
        ((high - low) / 2.0 - 144_126.0).abs() < 30.0,
        "the table's t has three decimals"
    );
    assert!((sixteen.difference.unwrap() - 440_068.0).abs() < 0.5);
    assert_eq!((sixteen.test, sixteen.verdict), ("student", Verdict::More));
    let bind = compare(
        &files(&[("unbound", &UNBOUND), ("bound", &BOUND)]),
        &options,
    )
    .unwrap();
    assert_eq!(bind.rows[0].comparisons[0].verdict, Verdict::NoDifference);
    // docs/methodology.md, "How many iterations": at n = 5, 2.02 times the coefficient of variation
    // is detectable with 80 % power
    let cv = 100.0 * 62_070.0 / 4_139_666.0;
    let detectable = bind.rows[0].comparisons[0].detectable_percent.unwrap();
    assert!(
        (detectable / (2.02 * cv) - 1.0).abs() < 0.01,
        "{detectable}"
    );
}

#[test]
fn ministat_prints_the_published_block() {
    let outcome = compare(&hyperthreading(), &options()).unwrap();
    let block = ministat(&outcome, Model::Freebsd).unwrap();
    let block = String::from_utf8(block).unwrap();
    for line in [
        "x 8 queues",
        "*   5       5765684     5801231.5       5783115     5785004.7     13724.265",
        "\t440068 +/- 144126",
        "\t9.46731% +/- 3.23827%",
        "\t(Student's t, pooled s = 98821.9)",
        "\t24.4544% +/- 2.62824%",
    ] {
        assert!(block.lines().any(|l| l == line), "{line}\n{block}");
    }
    let older = ministat(&outcome, Model::Debian).unwrap();
    assert!(
        String::from_utf8(older)
            .unwrap()
            .contains("9.46731% +/- 3.10062%")
    );
    let odd = Options {
        confidence: Confidence::new(0.97).unwrap(),
        ..options()
    };
    let outcome = compare(&hyperthreading(), &odd).unwrap();
    let error = ministat(&outcome, Model::Freebsd).unwrap_err().to_string();
    assert!(error.contains("80, 90, 95, 98, 99, 99.5"), "{error}");
}

/// Two quick runs, one with a configuration: rows by traffic, and test cases that only one of them
/// has.
fn two_runs() -> Vec<Source> {
    let run = |run: &str, configuration: &str, sizes: &[(&str, &[f64])]| {
        let one = |(size, values): &(&str, &[f64])| {
            let labels = [
                ("configuration", configuration),
                ("flows", "2000"),
                ("frame_size_bytes", size),
                ("ip_version", "ipv4"),
                ("kernel", "6.18.0"),
                ("run", run),
            ];
            series(&labels, values)
        };
        source(run, sizes.iter().map(one).collect())
    };
    vec![
        run(
            "2026-11-21-quick-aaaa",
            "plain",
            &[("64", &HT_16), ("512", &UNBOUND), ("1518", &NO_HT)],
        ),
        run(
            "2026-11-21-quick-bbbb",
            "nft.conf",
            &[("64", &HT_8), ("512", &BOUND)],
        ),
    ]
}

#[test]
fn runs_are_matched_by_their_traffic() {
    let outcome = compare(&two_runs(), &options()).unwrap();
    assert_eq!(cases(&outcome), ["64 B", "512 B"]);
    assert_eq!(outcome.by, "source");
    assert_eq!(outcome.rows[0].comparisons[0].verdict, Verdict::Less);
    assert_eq!(
        outcome.rows[1].comparisons[0].verdict,
        Verdict::NoDifference
    );
    assert_eq!(outcome.unmatched.len(), 1);
    assert_eq!(outcome.unmatched[0].test_case, "1518 B");
    assert_eq!(outcome.unmatched[0].missing_in, ["2026-11-21-quick-bbbb"]);
    let shown = text(&outcome, &[], false);
    assert!(
        shown.contains("configuration: plain against nft.conf"),
        "{shown}"
    );
    assert!(!shown.contains("kernel"), "{shown}");

    // different traffic is never compared, even if each column has only one series
    let mut runs = two_runs();
    runs[0].series.truncate(1);
    runs[1].series.remove(0);
    let error = compare(&runs, &options()).unwrap_err();
    assert!(matches!(error, CompareError::NothingInCommon { .. }));
    assert!(
        error
            .to_string()
            .contains("aaaa: 64 B. 2026-11-21-quick-bbbb: 512 B"),
        "{error}"
    );
}

/// An imported set: images, configurations and traffic in one run.
fn archive() -> Vec<Source> {
    let mut all = Vec::new();
    for (image, shift) in [("fbsd10", 0.0), ("fbsd11", 1e5)] {
        for (configuration, cost) in [("none", 0.0), ("pf", 4e5), ("ipfw", 2e5)] {
            for traffic in ["smallest", "imix"] {
                let labels = [
                    ("image", image),
                    ("configuration", configuration),
                    ("traffic", traffic),
                    ("run", "r"),
                ];
                let values: Vec<f64> = HT_8.iter().map(|v| v + shift - cost).collect();
                all.push(series(&labels, &values));
            }
        }
    }
    vec![source("r", all)]
}

#[test]
fn labels_make_columns_and_rows() {
    let outcome = compare(&archive(), &options()).unwrap();
    assert_eq!(
        (outcome.by.as_str(), columns(&outcome)),
        ("configuration", vec!["none", "pf", "ipfw"])
    );
    assert_eq!(
        cases(&outcome),
        [
            "fbsd10, smallest",
            "fbsd10, imix",
            "fbsd11, smallest",
            "fbsd11, imix"
        ]
    );
    let by = |key: &str, baseline: Option<&str>| {
        let options = Options {
            by: Some(key.into()),
            baseline: baseline.map(str::to_owned),
            ..options()
        };
        compare(&archive(), &options)
    };
    let images = by("image", Some("fbsd11")).unwrap();
    assert_eq!(columns(&images), ["fbsd11", "fbsd10"]);
    assert_eq!(images.rows.len(), 6);
    assert!(
        images
            .rows
            .iter()
            .all(|row| row.comparisons[0].difference == Some(-1e5))
    );
    for (key, baseline, words) in [
        ("frame_size", None, "configuration, image, traffic"),
        ("run", None, "--by configuration, image, traffic"),
        ("image", Some("fbsd"), "the beginning of several columns"),
        (
            "image",
            Some("linux"),
            "no column; columns are fbsd10, fbsd11",
        ),
    ] {
        let error = by(key, baseline).unwrap_err().to_string();
        assert!(error.contains(words), "{key}: {error}");
    }
}

/// Projections as in benchstat: several labels as columns, selected ones as rows, and only series
/// that pass the filters.
#[test]
fn labels_are_projected_and_filtered() {
    let project = |col: Option<&str>, row: Option<&str>, filters: &[&str]| {
        let options = Options {
            by: col.map(str::to_owned),
            rows: row.map(str::to_owned),
            filters: filters.iter().map(|typed| typed.parse().unwrap()).collect(),
            ..options()
        };
        compare(&archive(), &options)
    };
    let both = project(Some("configuration,image"), None, &["-configuration:ipfw"]).unwrap();
    assert_eq!(
        columns(&both),
        ["none, fbsd10", "pf, fbsd10", "none, fbsd11", "pf, fbsd11"]
    );
    assert_eq!(cases(&both), ["smallest", "imix"]);
    let joined = project(None, Some("traffic"), &[]).unwrap();
    assert_eq!(cases(&joined), ["smallest", "imix"]);
    let values = |outcome: &Outcome| outcome.rows[0].cells[0].as_ref().map(|cell| cell.n);
    let apart = project(None, None, &["image:fbsd10"]).unwrap();
    assert_eq!(cases(&apart), ["smallest", "imix"]);
    // the rows contain only the traffic, so they join both images
    assert_eq!(values(&joined), values(&apart).map(|n| 2 * n));
    let error = |col, row, filters: &[&str]| project(col, row, filters).unwrap_err().to_string();
    assert!(error(None, Some("colour"), &[]).contains("no series has a label `colour`"));
    assert!(error(None, None, &["colour:red"]).contains("no series has a label `colour`"));
    assert!(error(None, None, &["image:fbsd9"]).contains("no series passes all filters"));
    assert!(
        "image"
            .parse::<Filter>()
            .unwrap_err()
            .contains("is not a filter")
    );
}

/// IPv4 and IPv6 of one archive: the smallest frames differ in size, the traffic in name.
#[test]
fn labels_that_follow_the_columns_do_not_split_rows() {
    let of = |traffic: &str, size: &str, version: &str, configuration: &str, values: &[f64]| {
        let labels = [
            ("traffic", traffic),
            ("frame_size_bytes", size),
            ("ip_version", version),
            ("configuration", configuration),
        ];
        series(&labels, values)
    };
    let sources = [source(
        "r",
        vec![
            of("inet4", "64", "ipv4", "vlan", &HT_8),
            of("inet4", "64", "ipv4", "none", &HT_16),
            of("inet6", "66", "ipv6", "vlan", &BOUND),
            of("inet6", "66", "ipv6", "none", &UNBOUND),
        ],
    )];
    let by = |key: &str| {
        let options = Options {
            by: Some(key.into()),
            ..options()
        };
        compare(&sources, &options).unwrap()
    };
    let outcome = by("ip_version");
    assert_eq!(columns(&outcome), ["IPv4", "IPv6"]);
    assert_eq!(cases(&outcome), ["vlan", "none"]);
    assert!(text(&outcome, &[], false).contains("frame_size_bytes: 64 against 66"));
    assert_eq!(
        cases(&by("configuration")),
        ["inet4, 64 B, IPv4", "inet6, 66 B, IPv6"]
    );
}

#[test]
fn a_warning_of_many_places_is_printed_once() {
    let sizes = ["64", "128"].into_iter();
    let all = sizes.flat_map(|size| {
        ["a", "b"].map(|configuration| {
            let labels = [("frame_size_bytes", size), ("configuration", configuration)];
            series(&labels, &HT_8[..3])
        })
    });
    let outcome = compare(&[source("r", all.collect())], &options()).unwrap();
    let text = text(&outcome, &[], false).replace("\n         ", " ");
    let warning = "3 values are too few to see outliers";
    for column in ["a", "b"] {
        let once = format!("64 B and 1 more, {column}: {warning}");
        assert!(text.contains(&once), "{text}");
    }
    assert_eq!(text.matches(warning).count(), 2, "{text}");
}

/// Two machines, each with two configurations: compared within each machine, never across.
#[test]
fn runs_are_separate_if_each_has_a_comparison() {
    let of = |run: &str, configuration: &str, values: &[f64]| {
        series(&[("run", run), ("configuration", configuration)], values)
    };
    let by = |sources: &[Source]| {
        let options = Options {
            by: Some("configuration".into()),
            ..options()
        };
        compare(sources, &options).unwrap()
    };
    let outcome = by(&[
        source(
            "xeon",
            vec![of("xeon", "a", &NO_HT), of("xeon", "b", &HT_8)],
        ),
        source(
            "atom",
            vec![of("atom", "a", &UNBOUND), of("atom", "b", &BOUND)],
        ),
    ]);
    assert_eq!(cases(&outcome), ["xeon", "atom"]);
    assert!(
        outcome
            .rows
            .iter()
            .all(|row| row.comparisons[0].n == [5, 5])
    );
    // repeated runs with one configuration each can only be joined, with a note
    let outcome = by(&[
        source("1", vec![of("1", "a", &UNBOUND)]),
        source("2", vec![of("2", "b", &BOUND)]),
        source("3", vec![of("3", "a", &UNBOUND)]),
    ]);
    assert_eq!(outcome.rows[0].comparisons[0].n, [10, 5]);
    let baseline = outcome.rows[0].cells[0].as_ref().unwrap();
    assert_eq!(baseline.joined, ["1", "3"]);
    assert!(baseline.warnings[0].contains("2 series follow one another"));
}

/// Holm by hand: of the p-values 0.01 and 0.04, the first is doubled and the second stays.
#[test]
fn several_comparisons_are_adjusted() {
    let outcome = compare(&archive(), &options()).unwrap();
    for row in &outcome.rows {
        let p: Vec<f64> = row.comparisons.iter().map(|c| c.p_value.unwrap()).collect();
        let adjusted: Vec<f64> = row
            .comparisons
            .iter()
            .map(|c| c.p_value_adjusted.unwrap())
            .collect();
        // pf costs twice as much as ipfw, so its p-value is smaller
        assert_eq!(adjusted, [2.0 * p[0], p[1]]);
    }
    // just significant alone, but not among four
    let near: Vec<f64> = HT_8.iter().map(|v| v + 1.5e5).collect();
    let alone = compare(&files(&[("a", &HT_8), ("b", &near)]), &options()).unwrap();
    assert_eq!(alone.rows[0].comparisons[0].verdict, Verdict::More);
    assert_eq!(alone.rows[0].comparisons[0].p_value_adjusted, None);
    let many = files(&[
        ("a", &HT_8),
        ("b", &near),
        ("c", &near),
        ("d", &near),
        ("e", &near),
    ]);
    let among = compare(&many, &options()).unwrap();
    assert!(
        among.rows[0]
            .comparisons
            .iter()
            .all(|c| c.verdict == Verdict::NoDifference)
    );
}

#[test]
fn the_test_is_chosen_and_named() {
    let mut outlier = BOUND;
    outlier[2] = 9e6;
    let sources = files(&[("plain", &UNBOUND), ("odd", &outlier)]);
    let outcome = compare(&sources, &options()).unwrap();
    let compared = &outcome.rows[0].comparisons[0];
    assert_eq!(compared.test, "mann_whitney");
    assert!(
        compared
            .reason
            .as_ref()
            .unwrap()
            .starts_with("odd: value 3 (9000000) lies far")
    );
    let beside: Vec<&str> = compared.other_tests.iter().map(|b| b.test).collect();
    assert_eq!(beside, ["student", "welch"]);
    let welch = Options {
        test: TestChoice::Welch,
        ..options()
    };
    let outcome = compare(&sources, &welch).unwrap();
    assert_eq!(outcome.rows[0].comparisons[0].test, "welch");
    assert!(outcome.rows[0].comparisons[0].warnings[0].starts_with("odd: value 3"));
    // a row without spread needs no test
    let same = compare(&files(&[("a", &[5.0; 4]), ("b", &[5.0; 4])]), &options()).unwrap();
    assert_eq!(same.rows[0].comparisons[0].test, "exact");
    assert!(same.rows[0].comparisons[0].warnings[0].contains("all 4 values are 5"));
}

/// Rates that drift by 40 %, in pairs that differ by 2 %: proven as pairs, invisible otherwise.
#[test]
fn pairs_prove_what_the_wander_hides() {
    let speed = |i: usize| 8e5 * (1.0 + 0.2 * (i as f64 * 0.9).sin());
    let noise = |i: usize| 1.0 + 0.003 * (i as f64 * 2.3).cos();
    let a: Vec<f64> = (0..12).map(speed).collect();
    let b: Vec<f64> = (0..12).map(|i| speed(i) * 0.98 * noise(i)).collect();
    let sources = files(&[("a", &a), ("b", &b)]);
    let apart = compare(&sources, &options()).unwrap();
    assert_eq!(apart.rows[0].comparisons[0].verdict, Verdict::NoDifference);
    assert!(apart.rows[0].comparisons[0].detectable_percent.unwrap() > 10.0);
    let paired = Options {
        paired: true,
        ..options()
    };
    let outcome = compare(&sources, &paired).unwrap();
    let compared = &outcome.rows[0].comparisons[0];
    assert_eq!(
        (compared.test, compared.verdict),
        ("paired_t", Verdict::Less)
    );
    let [low, high] = compared.interval_percent.unwrap();
    assert!(
        low < -2.0 && -2.0 < high && high - low < 0.6,
        "{low} {high}"
    );
    let pairs = compared.pairs.as_ref().unwrap();
    assert_eq!(pairs.n, 12);
    assert!(pairs.drift_of_differences.unwrap().change_percent.abs() < 0.5);
    let shown = text(&outcome, &[], false);
    assert!(
        shown.contains("12 by order (--paired)") && shown.contains("the baseline drifts by"),
        "{shown}"
    );

    let uneven = files(&[("a", &a), ("b", &b[..11])]);
    let error = compare(&uneven, &paired).unwrap_err().to_string();
    assert!(error.contains("12 and 11"), "{error}");
    let negative = files(&[("a", &[1.0, 2.0, 3.0]), ("b", &[1.0, -2.0, 3.0])]);
    assert!(
        compare(&negative, &paired)
            .unwrap_err()
            .to_string()
            .contains("positive")
    );
}

/// Rebuilds of one run are paired automatically; a rebuild that one side lacks is left out.
#[test]
fn rebuilds_of_one_run_are_pairs() {
    let of = |configuration: &str, rebuilds: &[u32], differences: &[f64]| Series {
        turns: Some(Turns {
            run: "r".into(),
            rebuilds: rebuilds.to_vec(),
            ln_ratios: differences
                .iter()
                .map(|d| (d / 100.0_f64).ln_1p())
                .collect(),
        }),
        ..series(
            &[("configuration", configuration)],
            &rebuilds
                .iter()
                .map(|r| 8e5 + f64::from(*r))
                .collect::<Vec<_>>(),
        )
    };
    let sources = vec![source(
        "r",
        vec![
            of("plain", &[1, 2, 3, 4, 5, 6], &[0.0; 6]),
            of("nft", &[1, 2, 4, 5, 6], &[-2.0, -2.2, -1.9, -2.1, -1.8]),
        ],
    )];
    let outcome = compare(&sources, &options()).unwrap();
    let compared = &outcome.rows[0].comparisons[0];
    assert_eq!(compared.pairs.as_ref().unwrap().n, 5);
    assert_eq!(
        (compared.test, compared.verdict),
        ("paired_t", Verdict::Less)
    );
    assert!((compared.difference_percent.unwrap() + 2.0).abs() < 0.01);
    // t(4) = 2.776 times 0.158 / sqrt(5) is 0.196; and 0.2 of allowance on each side
    let [low, high] = compared.interval_percent.unwrap();
    assert!(((high - low) / 2.0 - 0.39).abs() < 0.01, "{low} {high}");
}

#[test]
fn limits_are_broken_by_proven_differences_only() {
    let limit = |text: &str| text.parse::<Limit>().unwrap();
    let outcome = compare(&two_runs(), &options()).unwrap();
    let judged = limit("forwarding-rate < -2%").judge(&outcome, false);
    assert_eq!(judged.failed, ["64 B, 2026-11-21-quick-bbbb: -8.6 %"]);
    assert_eq!((judged.kept, judged.not_judged.len()), (1, 1));
    assert!(judged.inconclusive[0].starts_with("512 B"), "{judged:?}");
    assert_eq!(
        limit("forwarding-rate < -10%")
            .judge(&outcome, false)
            .failed
            .len(),
        0
    );
    assert_eq!(
        limit("forwarding-rate > 0%")
            .judge(&outcome, false)
            .failed
            .len(),
        0
    );
    let lines = judged.lines(fwdlab_report::compare::ACCEPT_INCONCLUSIVE);
    assert!(lines[0].contains("FAILED by 64 B"), "{lines:?}");
}

/// Counts of instructions, each with the width of its own interval, as `exact` determines them.
/// Half of them are in one function.
fn counted(columns: &[(&str, &str, &[f64], f64)]) -> Outcome {
    let metric = "instructions-per-frame";
    let sources: Vec<Source> = columns
        .iter()
        .map(|(name, emulator, values, half)| {
            let labels = [("configuration", "plain"), ("emulator", emulator)];
            let series = Series {
                metric: metric.into(),
                unit: "instructions".into(),
                half_width: Some(*half),
                functions: Profile::from_iter([
                    ("ip_rcv".into(), values[0] / 2.0),
                    ("nf".into(), 7.0),
                ]),
                test_case: "plain".into(),
                ..series(&labels, values)
            };
            source(name, vec![series])
        })
        .collect();
    compare(&sources, &Options::new(metric)).expect("two columns")
}

/// Each row of a column may have another generator: that of its kernel.
#[test]
fn counts_of_two_generators_are_never_judged() {
    let metric = "instructions-per-frame";
    let column = |name: &str, generators: [&str; 2]| {
        let rows = ["old", "new"].iter().zip(generators);
        let rows = rows.map(|(configuration, generator)| {
            let mut labels = vec![("configuration", *configuration)];
            labels.extend((!generator.is_empty()).then_some(("generator", generator)));
            Series {
                metric: metric.into(),
                unit: "instructions".into(),
                half_width: Some(2.0),
                test_case: (*configuration).into(),
                ..series(&labels, &[if name == "base" { 4000.0 } else { 4100.0 }])
            }
        });
        source(name, rows.collect())
    };
    let compared = |base: [&str; 2], head: [&str; 2]| {
        let sources = [column("base", base), column("head", head)];
        let outcome = compare(&sources, &Options::new(metric)).expect("two columns");
        let limit: Limit = format!("{metric} > 0.2%").parse().unwrap();
        let judged = limit.judge(&outcome, false);
        let all = outcome.rows.iter().flat_map(|row| &row.comparisons);
        let proven = all.filter(|one| one.is_proven()).count();
        let text = text(&outcome, std::slice::from_ref(&judged), false);
        (proven, judged.failed.len(), judged.not_judged, text)
    };
    let (live, pktgen, unknown) = ("live frames", "pktgen", "");
    for alike in [[live, live], [pktgen, live], [unknown, unknown]] {
        let (proven, failed, not_judged, _) = compared(alike, alike);
        assert_eq!((proven, failed, not_judged.len()), (2, 2, 0), "{alike:?}");
    }
    // only the row of the new kernel is comparable
    let (proven, failed, not_judged, text) = compared([pktgen, live], [live, live]);
    assert_eq!(
        (proven, failed, not_judged.len()),
        (1, 1, 1),
        "{not_judged:?}"
    );
    let words = "its frames came from live frames, those of the reference from pktgen";
    assert!(not_judged[0].contains(words), "{not_judged:?}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let warning = "warning old, head: its frames came from live frames, those of the reference";
    assert!(text.contains(warning), "{text}");
    // nothing was tested in that row
    assert!(!text.contains("assumes none"), "{text}");
    // a run from before generators were recorded
    for [base, head] in [[unknown, live], [pktgen, unknown]] {
        let (proven, failed, not_judged, _) = compared([base; 2], [head; 2]);
        assert_eq!(
            (proven, failed, not_judged.len()),
            (0, 0, 2),
            "{not_judged:?}"
        );
    }
}

/// Counts are per frame sent: a head that drops frames is no improvement.
#[test]
fn counts_with_other_losses_are_never_judged() {
    let metric = "instructions-per-frame";
    let judged = |losses: [f64; 2]| {
        let sides = [("base", 4000.0), ("head", 3000.0)].into_iter().zip(losses);
        let sources = sides.map(|((name, value), loss)| {
            let counted = Series {
                metric: metric.into(),
                half_width: Some(2.0),
                frame_loss_ratio: loss,
                ..series(&[], &[value])
            };
            source(name, vec![counted])
        });
        let sources: Vec<Source> = sources.collect();
        let outcome = compare(&sources, &Options::new(metric)).expect("two columns");
        let limit: Limit = format!("{metric} > 0.2%").parse().unwrap();
        let judged = limit.judge(&outcome, false);
        let verdict = outcome.rows[0].comparisons[0].verdict;
        (verdict, judged.passed, judged.not_judged.join(" "))
    };
    for losses in [[0.0, 1e-6], [0.25, 0.0], [0.25, 0.26]] {
        let (verdict, passed, reason) = judged(losses);
        assert_eq!(
            (verdict, passed),
            (Verdict::CannotTell, false),
            "{losses:?}"
        );
        assert!(reason.contains("were lost"), "{reason}");
    }
    for alike in [0.0, 0.25] {
        assert_eq!(judged([alike; 2]), (Verdict::Less, true, String::new()));
    }
}

#[test]
fn counts_are_compared_by_their_own_uncertainty() {
    let limit =
        |text: &str, outcome: &Outcome| text.parse::<Limit>().unwrap().judge(outcome, false);
    let judged = |outcome: &Outcome| limit("instructions-per-frame > 0.2%", outcome);
    let only = |outcome: &Outcome| outcome.rows[0].comparisons[0].clone();
    // one boot each: 10 more, and both together are uncertain by 5
    let more = counted(&[
        ("base", "7.2", &[4000.0], 2.0),
        ("head", "7.2", &[4010.0], 3.0),
    ]);
    let found = only(&more);
    assert_eq!((found.verdict, found.test), (Verdict::More, "counts"));
    assert_eq!(found.interval, Some([5.0, 15.0]));
    assert_eq!(found.interval_percent, Some([0.125, 0.375]));
    assert_eq!(
        judged(&more).failed,
        ["plain, head: +0.25 %, most in ip_rcv +5.0"]
    );
    // the limit is not exceeded, because the estimate is not beyond it
    assert!(limit("instructions-per-frame > 0.3%", &more).passed);
    // within the uncertainty; 0.2 % might not have shown, 0.25 % would
    let equal = counted(&[
        ("base", "7.2", &[4000.0], 2.0),
        ("head", "7.2", &[4004.0], 3.0),
    ]);
    let found = only(&equal);
    assert_eq!(
        (found.verdict, found.detectable_percent),
        (Verdict::NoDifference, Some(0.25))
    );
    assert_eq!(judged(&equal).inconclusive.len(), 1);
    assert!(!judged(&equal).passed);
    assert!(limit("instructions-per-frame > 0.25%", &equal).passed);
    // boots that differ by more than they claim
    let apart = counted(&[
        ("base", "7.2", &[4000.0, 4016.0, 4008.0], 2.0),
        ("head", "7.2", &[4018.0], 1.0),
    ]);
    assert_eq!(only(&apart).interval, Some([1.0, 19.0]));
    // a test that was chosen is made
    let chosen = Options {
        test: TestChoice::Welch,
        ..Options::new("instructions-per-frame")
    };
    let sources = [("base", 4000.0), ("head", 4010.0)].map(|(name, value)| {
        let counted = Series {
            metric: "instructions-per-frame".into(),
            half_width: Some(2.0),
            ..series(&[], &[value, value + 1.0, value + 2.0])
        };
        source(name, vec![counted])
    });
    let welch = only(&compare(&sources, &chosen).unwrap());
    assert_eq!(welch.test, "welch");
    // another emulator may count the same differently
    let other = counted(&[
        ("base", "7.2", &[4000.0], 2.0),
        ("head", "8.0", &[4100.0], 2.0),
    ]);
    let judged = judged(&other);
    assert_eq!(
        (judged.failed.len(), judged.kept, judged.not_judged.len()),
        (0, 0, 1)
    );
    assert!(
        judged.not_judged[0].contains("emulator 8.0 against 7.2"),
        "{judged:?}"
    );
    let answer = text(&other, &[], false);
    assert!(
        answer.starts_with("head is not comparable with base: emulator 8.0"),
        "{answer}"
    );
    let shown = text(&more, &[], false);
    assert!(
        shown.contains("+0.25 % [+0.12, +0.38]") && !shown.contains("Holm"),
        "{shown}"
    );
    assert!(
        shown.contains(" function ") && shown.contains("ip_rcv +5.0"),
        "{shown}"
    );
    let shown = text(&equal, &[], false);
    assert!(
        shown.contains("certain to show") && shown.contains("% would show"),
        "{shown}"
    );
}

/// Data of a noisy machine: an outlier moves the mean above that of the baseline, and the median is
/// below it.
#[test]
fn medians_and_means_that_disagree_are_no_difference() {
    let plain = [88.7e3, 88.1e3, 89.0e3, 88.5e3, 88.9e3];
    let nat = [74.6e3, 74.1e3, 74.9e3, 74.4e3, 193e3];
    let options = Options {
        test: TestChoice::Welch,
        ..options()
    };
    let outcome = compare(&files(&[("plain", &plain), ("nat", &nat)]), &options).unwrap();
    let found = &outcome.rows[0].comparisons[0];
    let reason = found.disagreement.as_deref().unwrap();
    assert_eq!(
        reason,
        "the medians differ by -15.9 %, the means by +10.8 %"
    );
    assert!(!found.is_proven());
    assert!(found.warnings.iter().any(|warning| warning == reason));
    let options = Options {
        paired: true,
        ..options
    };
    let outcome = compare(&files(&[("plain", &plain), ("nat", &nat)]), &options).unwrap();
    let found = &outcome.rows[0].comparisons[0];
    assert!(
        found.disagreement.is_some() && !found.is_proven(),
        "{found:?}"
    );
    let options = Options {
        paired: false,
        ..options
    };
    // nor if a test proves one thing and the median contradicts it
    let rare = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0];
    let often = [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.1];
    let outcome = compare(&files(&[("rare", &rare), ("often", &often)]), &options).unwrap();
    let found = &outcome.rows[0].comparisons[0];
    assert!(found.disagreement.is_some(), "{found:?}");
    assert_ne!(found.verdict, Verdict::Less);
}

#[test]
fn a_positive_quantity_has_no_interval_below_zero() {
    let far_apart = [25e3, 303e3, 800e3];
    let files = files(&[("a", &[500e3, 520e3, 510e3]), ("b", &far_apart)]);
    let outcome = compare(&files, &options()).unwrap();
    let found = &outcome.rows[0].comparisons[0];
    let [low, high] = found.interval_percent.unwrap();
    assert!((-100.0..0.0).contains(&low) && high > 0.0, "{low} {high}");
    let cell = outcome.rows[0].cells[1].as_ref().unwrap();
    assert_eq!(cell.interval_half_width_percent, None);
}

/// A row is missing in a run, another could not have shown such a small difference, and in the end
/// nothing is left.
#[test]
fn an_inconclusive_gate_fails() {
    let limit = |text: &str| text.parse::<Limit>().unwrap();
    let whole = compare(&two_runs(), &options()).unwrap();
    let passes = |outcome: &Outcome, text, accept| limit(text).judge(outcome, accept).passed;

    // a row that only one run has
    let mut missing = whole.clone();
    missing.rows.retain(|row| row.test_case == "64 B");
    assert!(!missing.unmatched.is_empty());
    assert!(!passes(&missing, "forwarding-rate < -10%", false));
    assert!(passes(&missing, "forwarding-rate < -10%", true));
    // the same without that row
    let mut seen = missing.clone();
    seen.unmatched.clear();
    assert!(passes(&seen, "forwarding-rate < -10%", false));
    assert!(!passes(&seen, "forwarding-rate < -2%", true), "broken");

    // a row whose values vary too much for the limit
    let mut blind = whole.clone();
    blind.unmatched.clear();
    blind.rows.retain(|row| row.test_case == "512 B");
    assert!(!passes(&blind, "forwarding-rate < -2%", false));
    assert!(passes(&blind, "forwarding-rate < -2%", true));
    assert!(passes(&blind, "forwarding-rate < -20%", false));
    // and whose detectable difference is unknown
    blind.rows[0].comparisons[0].detectable_percent = None;
    assert!(!passes(&blind, "forwarding-rate < -20%", false));
    // a row with too few values; then nothing was judged, which is never accepted
    blind.rows[0].comparisons[0].p_value = None;
    assert!(!passes(&blind, "forwarding-rate < -20%", false));
    assert!(!passes(&blind, "forwarding-rate < -20%", true));
}

#[test]
fn equivalence_is_claimed_only_if_proven() {
    let options = Options {
        equivalence_percent: Some(2.0),
        ..options()
    };
    let near: Vec<f64> = NO_HT.iter().map(|v| v * 1.002).collect();
    let sources = files(&[("a", &NO_HT), ("near", &near), ("far", &HT_8)]);
    let outcome = compare(&sources, &options).unwrap();
    let verdicts: Vec<&str> = outcome.rows[0]
        .comparisons
        .iter()
        .map(|c| c.equivalence.unwrap().verdict)
        .collect();
    assert_eq!(verdicts, ["equivalent", "different"]);
    assert!(text(&outcome, &[], false).contains("within 2 %"));
}

/// Somebody who asks whether two things differ reads one sentence; the table is for who asks how
/// that is known.
#[test]
fn the_first_sentence_answers() {
    let answer = |sources: &[Source], options: &Options, limit: Option<&str>| {
        let outcome = compare(sources, options).unwrap();
        let judged = limit.map(|limit| limit.parse::<Limit>().unwrap().judge(&outcome, false));
        let text = text(&outcome, judged.as_slice(), false);
        let answer = text.split("\n\n").next().unwrap();
        answer.replace('\n', " ")
    };
    let same = files(&[("unbound", &UNBOUND), ("bound", &BOUND)]);
    let near: Vec<f64> = NO_HT.iter().map(|v| v * 1.002).collect();
    let near = files(&[("disabled", &NO_HT), ("near", &near)]);
    let slower = files(&[("16", &HT_16), ("8", &HT_8)]);
    let within = Options {
        equivalence_percent: Some(2.0),
        ..options()
    };
    let alone = files(&[("a", &[1.0]), ("b", &[2.0])]);
    for (sources, options, limit, expect) in [
        (
            &slower,
            &options(),
            None,
            "`8` differs from `16`: forwarding rate -8.6 % [-11.3, -5.9].",
        ),
        (
            &same,
            &options(),
            None,
            "No difference found between `unbound` and `bound` (measured +0.5 %; anything from -1.7 to +2.8 % is possible).",
        ),
        (
            &near,
            &within,
            None,
            "`disabled` and `near` are equal within 2 % (measured +0.2 %; anything from -0.1 to +0.5 % is possible).",
        ),
        (
            &alone,
            &options(),
            None,
            "No result for `a` and `b`: a: too few values: 1, at least 2 are needed.",
        ),
        (
            &hyperthreading(),
            &options(),
            Some("forwarding-rate < -2%"),
            "Within the limits. 2 of 2 comparisons with `8 queues` show a difference of +9.5 to +24.5 %.",
        ),
        (
            &slower,
            &options(),
            Some("forwarding-rate < -2%"),
            "Limit exceeded. `8` differs from `16`: forwarding rate -8.6 % [-11.3, -5.9].",
        ),
        (
            &same,
            &options(),
            Some("forwarding-rate < -2%"),
            "No result for the limits, because not every comparison could be judged. No difference found between `unbound` and \
             `bound` (measured +0.5 %; anything from -1.7 to +2.8 % is possible).",
        ),
    ] {
        assert_eq!(answer(sources, options, limit), expect);
    }
    let [a, b] = &mut two_runs()[..] else {
        panic!()
    };
    a.series
        .iter_mut()
        .chain(&mut b.series)
        .for_each(|series| series.values.truncate(1));
    let few = [a.clone(), b.clone()];
    assert_eq!(
        answer(&few, &options(), None),
        "No result: none of 2 comparisons with `2026-11-21-quick-aaaa` can tell."
    );
}

#[test]
fn incomparable_figures_are_reported() {
    let one = compare(&files(&[("a", &HT_8)]), &options())
        .unwrap_err()
        .to_string();
    assert!(
        one.contains("only one column") && one.contains("name another"),
        "{one}"
    );
    let huge = compare(
        &files(&[("a", &HT_8), ("b", &[1e300, 1.0, 2.0])]),
        &options(),
    );
    assert!(huge.unwrap_err().to_string().contains("b: value 1 is 1"));
    let empty = vec![source("r", vec![]), source("s", vec![])];
    assert!(matches!(
        compare(&empty, &options()),
        Err(CompareError::NoMetric { .. })
    ));
    let single = compare(&files(&[("a", &[1.0]), ("b", &[2.0])]), &options()).unwrap();
    assert_eq!(single.rows[0].comparisons[0].verdict, Verdict::CannotTell);
    assert!(text(&single, &[], false).contains("cannot tell"));
}

/// More senders also give the DUT of the embedded test bed more queues.
#[test]
fn runs_with_other_numbers_of_senders_are_not_comparable() {
    let of = |name: &str, senders: &str| {
        let labels = [("frame_size_bytes", "64"), ("senders", senders)];
        source(name, vec![series(&labels, &HT_8)])
    };
    let first = |two: &str| {
        let outcome = compare(&[of("r", "1"), of("s", two)], &options()).unwrap();
        assert_eq!(outcome.rows.len(), 1, "{outcome:?}");
        text(&outcome, &[], false)
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert!(first("2").starts_with("s is not comparable with r: senders 2 against 1. "));
    assert!(!first("1").contains("not comparable"));
}

/// 14.88 Mpps of 64-byte frames is 10 Gbit/s Ethernet: line rate = 1e10 / (84 * 8).
#[test]
fn line_rate_and_generator_limits_are_reported() {
    let labels = [("frame_size_bytes", "64"), ("configuration", "a")];
    let full = series(&labels, &[14.87e6, 14.88e6, 14.879e6, 14.88e6, 14.875e6]);
    let mut other = series(&[("frame_size_bytes", "64"), ("configuration", "b")], &HT_8);
    other.generator_limited = 2;
    other.left_out = 1;
    let outcome = compare(&[source("r", vec![full, other])], &options()).unwrap();
    let warnings: Vec<&str> = outcome.rows[0]
        .cells
        .iter()
        .flatten()
        .flat_map(|cell| cell.warnings.iter().map(String::as_str))
        .collect();
    assert_eq!(
        warnings,
        [
            "100.0 % of the line rate of 10.00 Gbit/s Ethernet (14.88 Mpps): if that is the link, it is the limit, not the DUT",
            "in 2 of 5 values the generator was the limit: the DUT may forward more",
            "1 record left out: invalid or without a result",
        ]
    );
    // lower bounds are not compared, however far apart they are
    let compared = &outcome.rows[0].comparisons[0];
    assert_eq!(compared.generator_limited, Some([0, 2]));
    assert_eq!(compared.verdict, Verdict::CannotTell);
    assert_eq!(compared.difference_percent, None);
    assert!(compared.interval_percent.is_none() && compared.p_value.is_none());
    let shown = text(&outcome, &[], false);
    assert!(shown.contains("cannot tell"), "{shown}");
}

#[test]
fn a_page_has_every_difference_and_needs_nothing_else() {
    let hostile = files(&[
        ("<script>alert(1)</script>", &HT_8),
        ("b\" onload=\"x", &NO_HT),
    ]);
    for sources in [two_runs(), archive(), hyperthreading(), hostile] {
        let outcome = compare(&sources, &options()).unwrap();
        let page = fwdlab_report::html::comparison(&outcome, &[]);
        let parsed = scraper::Html::parse_document(&page);
        assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
        let select = |selector: &str| {
            let selector = scraper::Selector::parse(selector).unwrap();
            parsed.select(&selector).count()
        };
        assert_eq!(
            select("script, link, img, iframe, [src], [href], [onload]"),
            0
        );
        let compared: Vec<_> = outcome.rows.iter().flat_map(|r| &r.comparisons).collect();
        assert!(!compared.is_empty());
        let has_interval = compared.iter().filter(|c| c.interval_percent.is_some());
        assert_eq!(select(".chart rect.interval"), has_interval.count());
        let values = outcome.rows.iter().flat_map(|r| r.cells.iter().flatten());
        assert_eq!(
            select(".chart circle.dot"),
            values.map(|cell| cell.values.len()).sum::<usize>()
        );
        assert_eq!(select("tbody tr"), outcome.rows.len());
    }
}

/// The check values of docs/methodology.md, "Change points", as nine versions; the fifth is a dip.
#[test]
fn change_points_of_runs() {
    let values = [100.0, 101.0, 99.0, 100.0, 70.0, 100.0, 101.0, 99.0, 100.0];
    let names: Vec<String> = (1..=9).map(|i| format!("v{i}")).collect();
    let sources: Vec<Source> = names
        .iter()
        .zip(values)
        .map(|(name, value)| source(name, vec![series(&[("run", name)], &[value])]))
        .collect();
    let found = changes(&sources, &options()).unwrap();
    let groups = &found.rows[0].groups;
    let of: Vec<_> = groups
        .iter()
        .map(|g| (g.from.as_str(), g.to.as_str(), g.shift))
        .collect();
    assert_eq!(
        of,
        [
            ("v1", "v4", "first"),
            ("v5", "v5", "regression"),
            ("v6", "v9", "progression")
        ]
    );
    assert!((found.rows[0].bits - 107.601976).abs() < 5e-7);
    // with one file, its values are the series
    let one = changes(&files(&[("f", &values)]), &options()).unwrap();
    assert!((one.rows[0].bits - 107.601976).abs() < 5e-7);
    let shown = changes_text(&found);
    assert!(
        shown.contains("v5") && shown.contains("regression of -30.0 %"),
        "{shown}"
    );
    assert!(!shown.contains("wait"), "{shown}");
    let last = changes(&files(&[("f", &values[..5])]), &options()).unwrap();
    assert!(changes_text(&last).contains("wait for the next"));
    let negative = files(&[("f", &[1.0, -1.0])]);
    assert!(changes(&negative, &options()).is_err());
}

/// Fewer instructions are better, and counts with another generator, or with other losses, are not
/// a step.
#[test]
fn change_points_of_counts() {
    let counted = |name: &str, value: f64, generator: &str, loss: f64| {
        let labels = [("run", name), ("generator", generator)];
        let counted = Series {
            metric: "instructions-per-frame".into(),
            better: Better::Lower,
            unit: String::new(),
            half_width: Some(2.0),
            frame_loss_ratio: loss,
            ..series(&labels, &[value])
        };
        source(name, vec![counted])
    };
    let sources = [
        counted("v1", 3854.0, "pktgen", 0.0),
        counted("v2", 4321.0, "live frames", 0.0),
        counted("v3", 4322.0, "live frames", 0.0),
        counted("v4", 2900.0, "live frames", 0.25),
        counted("v5", 4000.0, "live frames", 0.0),
        counted("v6", 4001.0, "live frames", 0.0),
        counted("v7", 4410.0, "live frames", 0.0),
        // a failed run is no reference
        source(
            "v8",
            vec![Series {
                values: Vec::new(),
                half_width: None,
                ..counted("v8", 0.0, "live frames", 0.0).series.remove(0)
            }],
        ),
    ];
    let found = changes(&sources, &Options::new("instructions-per-frame")).unwrap();
    let row = &found.rows[0];
    let groups = row.groups.iter();
    let of: Vec<_> = groups.map(|g| (&*g.from, &*g.to, g.shift)).collect();
    assert_eq!(
        of,
        [
            ("v2", "v3", "first"),
            ("v5", "v6", "progression"),
            ("v7", "v7", "regression")
        ]
    );
    assert_eq!(row.not_comparable.len(), 2, "{row:?}");
    assert_eq!(row.missing, ["v8"]);
    let drawn: Vec<usize> = row.medians.iter().map(|(number, _)| *number).collect();
    assert_eq!(drawn, [2, 3, 5, 6, 7]);
    let shown = changes_text(&found);
    for words in [
        "v1: its frames came from pktgen",
        "v4: of its frames, 25.00 %",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
}

fn check(name: &str, outcome: &Outcome) {
    let limit: Limit = "forwarding-rate < -2%".parse().expect("a limit");
    let judged = [limit.judge(outcome, false)];
    let shown = text(outcome, &judged, false);
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "too wide: {line}");
        assert!(
            line.chars().all(|c| c.is_ascii() || c == '±'),
            "not ASCII: {line}"
        );
        assert_eq!(line, line.trim_end());
    }
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(format!("compare-{name}"), shown);
        insta::assert_snapshot!(format!("compare-{name}.md"), markdown(outcome, &judged));
        insta::assert_snapshot!(format!("compare-{name}.csv"), csv(outcome).replace('\r', ""));
    });
}

#[test]
fn two_runs_are_rendered() {
    check("runs", &compare(&two_runs(), &options()).unwrap());
}

#[test]
fn an_archive_is_rendered() {
    check("archive", &compare(&archive(), &options()).unwrap());
}

#[test]
fn hostile_names_steer_no_terminal() {
    let hostile = "a\u{1b}[31m|\nb`<i>";
    let outcome = compare(&files(&[(hostile, &HT_8), ("b", &HT_16)]), &options()).unwrap();
    let shown = text(&outcome, &[], false);
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert!(markdown(&outcome, &[]).contains("\\|"));
    let _: BTreeMap<String, serde_json::Value> =
        serde_json::from_value(serde_json::to_value(&outcome).unwrap()).unwrap();
}

/// Figures from two states of a machine may differ because of other processes: the comparison
/// warns.
#[test]
fn two_states_of_the_machine_are_reported() {
    let of = |name: &str, slowed: bool, ns: f64| {
        let state = MachineState {
            slowed,
            round_trip_ns: vec![ns],
            ..MachineState::default()
        };
        let values = [700e3, 701e3, 702e3, 703e3];
        let series = Series {
            state: Some(state),
            ..series(&[("frame_size_bytes", "64")], &values)
        };
        source(name, vec![series])
    };
    let warned = |a: Source, b: Source| {
        let outcome = compare(&[a, b], &options()).unwrap();
        let warnings = &outcome.rows[0].comparisons[0].warnings;
        warnings
            .iter()
            .any(|w| w.contains("may be due to the machine"))
    };
    assert!(warned(of("a", false, 98.0), of("b", true, 98.0)));
    assert!(warned(of("a", false, 98.0), of("b", false, 402.0)));
    assert!(!warned(of("a", false, 98.0), of("b", false, 105.0)));
}
