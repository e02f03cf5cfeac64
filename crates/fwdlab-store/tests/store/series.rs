//! Series of values to compare, from the records of a run.

use std::collections::BTreeMap;

use fwdlab_model::event::{Compared, RebuildRecord};
use fwdlab_model::import::ImportedRecord;
use fwdlab_model::outcome::{Found, INSTRUCTIONS};
use fwdlab_model::probe::MachineState;
use fwdlab_model::result::Validity;
use fwdlab_model::series::{
    FORWARDING_RATE, FORWARDING_RATE_LEGACY, FORWARDING_RATE_UNGATED, Series,
};
use fwdlab_model::trial::IpVersion;
use fwdlab_store::{RunWriter, StoredRun, load, load_values};
use serde_json::json;

use super::samples::{finished, info, rebuild, stream, summary, trial};

const ID: &str = "2026-11-21-quick-7f3k";

fn valid() -> Validity {
    Validity::default()
}

/// A run with these records and parameters.
fn state() -> MachineState {
    MachineState {
        slowed: true,
        round_trip_ns: vec![98.0],
        ..MachineState::default()
    }
}

fn stored<T: serde::Serialize>(
    records: &[T],
    parameters: &[(&str, serde_json::Value)],
) -> StoredRun {
    let root = tempfile::tempdir().unwrap();
    let mut info = info(ID, "2026-11-21T09:00:00Z");
    info.facts.states = vec![state()];
    for (name, value) in parameters {
        info.parameters.insert((*name).to_owned(), value.clone());
    }
    let mut run = RunWriter::create(root.path(), &info).unwrap();
    for record in records {
        run.trial(record).unwrap();
    }
    load(&root.path().join(ID)).unwrap()
}

fn with_metric<'a>(all: &'a [Series], metric: &str) -> Vec<&'a Series> {
    all.iter()
        .filter(|series| series.metric == metric)
        .collect()
}

#[test]
fn trials_in_order_without_controls_and_invalid_ones() {
    let mut trials = Vec::new();
    for (number, rate) in [(1, 8e5), (2, 7e5), (3, 9e5), (4, 1e5), (5, 6e5)] {
        let mut record = trial(number);
        record.test_case = "64B-2000flows-ipv4".into();
        record.control = number == 4;
        record.not_saturated = number == 3;
        record.forwarding_rate_pps = Some(rate);
        record.validity = valid();
        trials.push(record);
    }
    trials[1].validity.reasons.push("a link went down".into());
    let run = stored(
        &trials,
        &[("configuration", json!("nft.conf")), ("load", json!("max"))],
    );
    let all = run.series();
    let rates = with_metric(&all, FORWARDING_RATE);
    let [series] = rates[..] else {
        panic!("{all:?}")
    };
    assert_eq!(series.values, [8e5, 9e5, 6e5]);
    assert_eq!((series.left_out, series.generator_limited), (1, 1));
    assert_eq!((series.unit.as_str(), &series.turns), ("pps", &None));
    assert_eq!(series.state, Some(state()));
    // windows of all states are in the figure without the gate
    assert_eq!(with_metric(&all, FORWARDING_RATE_UNGATED)[0].state, None);
    let label = |key: &str| series.labels[key].as_str();
    assert_eq!(
        [
            "configuration",
            "frame_size_bytes",
            "flows",
            "ip_version",
            "run",
            "load",
            "kernel",
            "engine"
        ]
        .map(label),
        [
            "nft.conf",
            "64",
            "2000",
            "ipv4",
            ID,
            "max",
            "6.18.0",
            "live-frames"
        ]
    );
    // a run on a test bed has one sender unless it says otherwise
    assert_eq!(series.labels.get("senders"), None);
    let cpus = ("generator_cpus", json!([0]));
    for (parameters, senders) in [
        (&[cpus.clone()][..], "1"),
        (&[cpus, ("senders", json!(2))][..], "2"),
    ] {
        let all = stored(&trials, parameters).series();
        assert_eq!(all[0].labels["senders"], senders);
    }
    // Another metric of the same trials: the samples have no ungated rate.
    let ungated = with_metric(&all, "forwarding-rate-ungated");
    assert_eq!((ungated[0].values.len(), ungated[0].left_out), (0, 4));
}

#[test]
fn rebuilds_give_one_series_per_configuration_in_turns() {
    let mut rebuilds = Vec::new();
    for number in 1..=4 {
        let mut record = rebuild(number);
        record.forwarding_rate_pps = vec![8e5, 8.01e5, 7e5 + f64::from(number), 4e5];
        record.difference_percent = vec![0.0, 0.1, -12.5, -50.0];
        rebuilds.push(record);
    }
    rebuilds[2].difference_percent.clear();
    let parameters = [
        ("versus", json!(["nft a", "nft b"])),
        ("test_cases", json!(["84B-1flow-ipv6"])),
    ];
    let all = stored(&rebuilds, &parameters).series();
    let names: Vec<&str> = all
        .iter()
        .map(|s| s.labels["configuration"].as_str())
        .collect();
    assert_eq!(
        names,
        ["plain", "nft a", "nft b"],
        "the A/A control is no configuration"
    );
    assert_eq!(all[1].values, [700_001.0, 700_002.0, 700_004.0]);
    assert_eq!(all[1].left_out, 1);
    assert_eq!(all[1].labels["frame_size_bytes"], "84");
    assert_eq!(
        (
            all[1].labels["flows"].as_str(),
            all[1].labels["ip_version"].as_str()
        ),
        ("1", "ipv6")
    );
    let turns = all[2].turns.as_ref().unwrap();
    assert_eq!(
        (turns.run.as_str(), &turns.rebuilds[..]),
        (
            format!("{ID}/{}", all[2].test_case).as_str(),
            &[1, 2, 4][..]
        )
    );
    assert!(
        turns
            .ln_ratios
            .iter()
            .all(|ln| (ln - 0.5_f64.ln()).abs() < 1e-12)
    );
}

/// A matrix may list the reference, too, which is then measured three times in every rebuild.
#[test]
fn a_reference_that_is_also_a_test_case_gives_one_series() {
    let dut = |configuration: &str, control: bool| Compared {
        test_case: format!("{configuration}/64B-1flow-ipv4"),
        configuration: configuration.into(),
        control,
        stream: stream(),
        setting: None,
    };
    let record = RebuildRecord {
        compared: vec![
            dut("plain", false),
            dut("plain", true),
            dut("plain", false),
            dut("nat", false),
        ],
        forwarding_rate_pps: vec![8e5, 8.01e5, 8.02e5, 4e5],
        difference_percent: vec![0.0, 0.1, 0.2, -50.0],
        ..rebuild(1)
    };
    let all = stored(&[record], &[]).series();
    let found: Vec<(&str, &[f64])> = all
        .iter()
        .map(|s| (s.labels["configuration"].as_str(), &s.values[..]))
        .collect();
    assert_eq!(found, [("plain", &[8e5][..]), ("nat", &[4e5][..])]);
}

#[test]
fn imported_records_by_both_rules() {
    let record = |configuration: &str, iteration: u32, rate: Option<f64>, flows: Option<u64>| {
        let labels: BTreeMap<String, String> = [
            ("image".to_owned(), "fbsd11.1".to_owned()),
            ("configuration".to_owned(), configuration.to_owned()),
        ]
        .into();
        // Through JSON, so that new fields need no change here.
        serde_json::from_value::<ImportedRecord>(json!({
            "imported_from": "netbenches",
            "test_case": format!("fbsd11.1.{configuration}"),
            "labels": labels,
            "iteration": iteration,
            "forwarding_rate_pps": rate,
            "forwarding_rate_legacy_pps": rate.map(|r| r + 1.0),
            "samples": 60, "samples_legacy": 40,
            "ip_version": IpVersion::Ipv4, "frame_size_bytes": 64, "flows": flows,
            "sources": [], "warnings": [], "validity": valid(),
        }))
        .unwrap()
    };
    let records = [
        record("pf", 1, Some(5e6), Some(2000)),
        record("ipfw", 1, Some(4e6), Some(1)),
        record("pf", 2, None, None),
        record("pf", 3, Some(5.1e6), Some(2000)),
        record("ipfw", 2, Some(4.1e6), Some(2000)),
    ];
    let all = stored(&records, &[]).series();
    let ours = with_metric(&all, FORWARDING_RATE);
    assert_eq!(ours.len(), 2);
    assert_eq!(
        (&ours[0].values[..], ours[0].left_out),
        (&[5e6, 5.1e6][..], 1)
    );
    assert_eq!(
        ours[0].labels["flows"], "2000",
        "what one log does not say, another says"
    );
    assert_eq!(
        ours[1].labels.get("flows"),
        None,
        "logs that disagree say nothing"
    );
    assert_eq!(ours[0].labels["image"], "fbsd11.1");
    assert_eq!(ours[0].labels["frame_size_bytes"], "64");
    assert_eq!(
        with_metric(&all, FORWARDING_RATE_LEGACY)[1].values,
        [4_000_001.0, 4_100_001.0]
    );
}

/// Two kernels in one run are different DUTs, and neither of them is the host that emulated them.
#[test]
fn images_are_apart_and_have_their_own_kernels() {
    let root = tempfile::tempdir().unwrap();
    let info = info(ID, "2026-11-21T09:00:00Z");
    let mut of_images = summary(ID);
    "exact".clone_into(&mut of_images.procedure);
    let images = [
        ("debian:a", "5.10.0-1", Some("pktgen")),
        ("debian:b", "6.12.117", None),
    ];
    for (case, (image, kernel, generator)) in of_images.test_cases.iter_mut().zip(images) {
        case.case.image = Some(image.into());
        INSTRUCTIONS.clone_into(&mut case.figures[0].name);
        let exact = json!({
            "image": image, "kernel": kernel, "instructions_per_frame": 4329.0, "interval": [4328.0, 4330.0],
            "through_per_frame": 6000.0, "tester_per_frame": 1671.0, "frames": 20000, "bursts": 5, "warm_up": 1,
            "frame_loss_ratio": 0.0, "generator": generator,
        });
        case.outcomes[0].found = Found::Exact(serde_json::from_value(exact).unwrap());
    }
    let run = RunWriter::create(root.path(), &info).unwrap();
    run.finish(&finished(&info), Some(&of_images), None)
        .unwrap();
    let all = load(&root.path().join(ID)).unwrap().series();
    let counted = with_metric(&all, "instructions-per-frame");
    // and their own generator, if it was recorded
    let labels = counted.iter().map(|series| {
        let label = |key: &str| series.labels.get(key).map(String::as_str);
        let [image, kernel] = ["image", "kernel"].map(|key| label(key).unwrap());
        (image, kernel, label("generator"))
    });
    assert_eq!(labels.collect::<Vec<_>>(), images);
}

/// Linux and VPP in one run are distinguished by a label that both have; a run of Linux alone has
/// no such label.
#[test]
fn kinds_of_duts_are_apart() {
    let root = tempfile::tempdir().unwrap();
    let info = info(ID, "2026-11-21T09:00:00Z");
    let kinds_of = |with_vpp: bool| {
        let mut summary = summary(ID);
        summary.procedure = "mrr".into();
        for (n, case) in summary.test_cases.iter_mut().enumerate() {
            case.figures[0].name = "receive rate".into();
            if with_vpp && n == 1 {
                case.case.dut = fwdlab_model::campaign::Kind::Vpp;
            }
        }
        let _ = std::fs::remove_dir_all(root.path().join(ID));
        let run = RunWriter::create(root.path(), &info).unwrap();
        run.finish(&finished(&info), Some(&summary), None).unwrap();
        let all = load(&root.path().join(ID)).unwrap().series();
        with_metric(&all, "receive-rate")
            .iter()
            .map(|series| series.labels.get("dut_kind").cloned())
            .collect::<Vec<_>>()
    };
    assert!(kinds_of(false).iter().all(Option::is_none));
    assert_eq!(kinds_of(true), [Some("linux".into()), Some("vpp".into())]);
}

/// A test case that failed in every iteration is not compared, and does not disappear.
#[test]
fn a_test_case_without_figures_is_separate() {
    let root = tempfile::tempdir().unwrap();
    let info = info(ID, "2026-11-21T09:00:00Z");
    let mut summary = summary(ID);
    let case = &mut summary.test_cases[0];
    "broken".clone_into(&mut case.case.configuration);
    (case.figures, case.outcomes) = (Vec::new(), Vec::new());
    for iteration in &mut case.iterations {
        iteration.outcomes.clear();
        iteration.failure = Some("nothing came back".into());
    }
    let run = RunWriter::create(root.path(), &info).unwrap();
    run.finish(&finished(&info), Some(&summary), None).unwrap();
    let run = load(&root.path().join(ID)).unwrap();
    let is_it = |series: &&Series| series.labels["configuration"] == "broken";
    assert!(
        run.series()
            .iter()
            .filter(is_it)
            .all(|s| s.values.is_empty())
    );
    let without = run.without_figures();
    let [series] = &without[..] else {
        panic!("{without:?}");
    };
    assert!(is_it(&series) && series.values.is_empty() && series.metric.is_empty());
    assert_eq!(series.left_out, 2);
}

/// Without journals, series are the same, and what cannot do without them has them.
#[test]
fn values_come_from_the_result_if_it_is_whole() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join(ID);
    let new = |procedure: &str| {
        let _ = std::fs::remove_dir_all(&path);
        let mut summary = summary(ID);
        procedure.clone_into(&mut summary.procedure);
        summary.test_cases[1].doubt = Some("it varies".into());
        if procedure == "mrr" {
            let case = &mut summary.test_cases[0];
            case.iterations[1].failure = Some("nothing came back".into());
            for case in &mut summary.test_cases {
                case.outcomes.clear();
                case.iterations.iter_mut().for_each(|i| i.outcomes.clear());
            }
        }
        let mut run = RunWriter::create(root.path(), &info(ID, "2026-11-21T09:00:00Z")).unwrap();
        (1..=3).for_each(|number| run.trial(&trial(number)).unwrap());
        if procedure == "paired" {
            (1..=3).for_each(|number| run.trial(&rebuild(number)).unwrap());
        }
        (run, summary)
    };
    let finish = |(run, summary): (RunWriter, _)| {
        let info = finished(&info(ID, "2026-11-21T09:00:00Z"));
        run.finish(&info, Some(&summary), None).unwrap();
    };
    let same = || {
        let (all, values) = (load(&path).unwrap(), load_values(&path).unwrap());
        assert_eq!(values.series(), all.series());
        let is_doubtful = |one: &Series| one.doubt.as_deref() == Some("it varies");
        assert!(all.summary.is_none() || values.series().iter().any(is_doubtful));
        assert_eq!(values.without_figures(), all.without_figures());
        assert_eq!(values.problems, all.problems);
        assert_eq!(all.trials.len(), 3);
        values.trials.len()
    };
    for (procedure, read) in [("mrr", 1), ("trial", 1), ("maxfwd", 3), ("paired", 3)] {
        finish(new(procedure));
        assert_eq!(same(), read, "{procedure}");
    }
    // in progress, without a result, or with one that has changed
    let in_progress = new("mrr");
    assert_eq!(same(), 3);
    drop(in_progress);
    finish(new("mrr"));
    let result = path.join("summary.json");
    let text = std::fs::read_to_string(&result).unwrap();
    std::fs::write(&result, text.replacen("810000", "910000", 1)).unwrap();
    assert_eq!(same(), 3);
    assert!(load_values(&path).unwrap().problems[0].contains("checksum"));
    // the journal's first line is checked, and the others are not read
    finish(new("mrr"));
    let (trials, from) = (path.join("trials.jsonl"), r#""trial":2"#);
    let text = std::fs::read_to_string(&trials).unwrap();
    std::fs::write(&trials, text.replacen(from, r#""trial":7"#, 1)).unwrap();
    assert_eq!(load_values(&path).unwrap().problems, [""; 0]);
    std::fs::write(&trials, text.replacen(r#""trial":1"#, from, 1)).unwrap();
    assert_eq!(load_values(&path).unwrap().problems.len(), 1);
}
