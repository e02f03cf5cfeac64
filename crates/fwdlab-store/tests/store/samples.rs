//! Records with a value in every field, and small helpers.

use std::fs;
use std::path::Path;

use fwdlab_model::campaign::{Case, Kind};
use fwdlab_model::event::{Event, EventKind, RebuildRecord};
use fwdlab_model::facts::Facts;
use fwdlab_model::loss::{Ledger, Loss, Place, Reason};
use fwdlab_model::outcome::{Better, Compliance, Found, Maxfwd, Outcome, Unit};
use fwdlab_model::result::{
    Noise, RunInfo, RunState, StallPolicy, Stratum, Summary, TrialRecord, Validity,
};
use fwdlab_model::test_case::{CaseFigure, Iteration, TestCase};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;

pub fn info(id: &str, started_at: &str) -> RunInfo {
    RunInfo {
        format: RUN_FORMAT,
        id: id.into(),
        kind: "quick".into(),
        tool_version: "0.1.0".into(),
        command_line: vec!["fwdlab".into(), "quick".into()],
        seed: u64::MAX,
        started_at: started_at.into(),
        finished_at: None,
        state: RunState::Running,
        gaps: Vec::new(),
        error: None,
        note: None,
        parameters: [("iterations".to_owned(), 5.into())].into(),
        facts: Facts {
            kernel: "6.18.0".into(),
            cpus: 2,
            ..Facts::default()
        },
    }
}

pub fn finished(info: &RunInfo) -> RunInfo {
    RunInfo {
        state: RunState::Finished,
        finished_at: Some("2026-11-21T09:01:00Z".into()),
        ..info.clone()
    }
}

pub fn stream() -> Stream {
    Stream::new(IpVersion::Ipv4, FrameSize::new(64).unwrap(), 2000).unwrap()
}

fn ledger() -> Ledger {
    Ledger {
        frames_intended: None,
        frames_not_sent: 0,
        gen_limited: false,
        frames_additional: 0,
        frames_sent: 1000,
        frames_received: 900,
        frames_lost: 100,
        losses: vec![Loss {
            place: Place::DutInput,
            frames: 100,
            counter: "tx_dropped of tx0".into(),
            reasons: vec![Reason {
                reason: "full ring".into(),
                frames: 100,
            }],
        }],
        frames_unexplained: 0,
        not_exact: Vec::new(),
    }
}

pub fn trial(number: u32) -> TrialRecord {
    TrialRecord {
        test_case: "64B-2000flows-ipv4/control".into(),
        procedure: "maxfwd".into(),
        iteration: 1,
        trial: number,
        control: true,
        started_at: "2026-11-21T09:00:00Z".into(),
        variant: Variant::default(),
        directions: Vec::new(),
        stream: stream(),
        engine: "live-frames".into(),
        stall_policy: Some(StallPolicy::Skip),
        receiver: "xdp".into(),
        duration_s: 0.1 + 0.2,
        intended_load_pps: None,
        offered_load_pps: 1.5e6,
        not_saturated: false,
        forwarding_rate_pps: Some(812_345.678_9),
        forwarding_rate_ungated_pps: None,
        quiet: Stratum {
            windows: 40,
            forwarding_rate_pps: Some(1.0 / 3.0),
        },
        contended: Stratum::default(),
        other_states: Vec::new(),
        probes: Vec::new(),
        windows_not_offered: 0,
        frame_loss_ratio: 0.1,
        ledger: ledger(),
        counters: fwdlab_model::loss::Counters::default(),
        work: None,
        telemetry: None,
        asked: None,
        validity: Validity {
            reasons: vec!["a \"quoted\"\nreason".into()],
        },
    }
}

pub fn rebuild(number: u32) -> RebuildRecord {
    RebuildRecord {
        compared: Vec::new(),
        rebuild: number,
        started_at: "2026-11-21T09:00:00Z".into(),
        places: vec![1, 0],
        blocks: 100,
        blocks_not_offered: 2,
        slice_s: None,
        forwarding_rate_pps: vec![8e5, 7.9e5],
        difference_percent: vec![0.0, -1.25],
        frames_sent: u64::MAX,
        frames_received: 1,
        ledgers: vec![ledger(), ledger()],
        validity: Validity::default(),
    }
}

pub fn event(number: u32, kind: EventKind) -> Event {
    Event {
        t: f64::from(number),
        run: "r".into(),
        kind,
    }
}

pub fn warning(number: u32) -> Event {
    let text = format!("warning {number}: the machine is noisy; größer als sonst");
    event(number, EventKind::Warning { text })
}

pub fn summary(run: &str) -> Summary {
    Summary {
        format: RUN_FORMAT,
        run: run.into(),
        procedure: "maxfwd".into(),
        test_cases: vec![case("64B-2000flows-ipv4"), case("512B-2000flows-ipv4")],
        control: None,
        imported: Vec::new(),
        noise: Noise::default(),
        warnings: Vec::new(),
        imix_estimate_l2_bps: Some(2.5e9),
        thresholds: Vec::new(),
    }
}

fn case(name: &str) -> TestCase {
    let found = |rate: f64| Outcome {
        frame_size_bytes: stream().frame_size_bytes,
        variant: Variant::default(),
        verdict: "measured".into(),
        answered: true,
        not_applicable: false,
        compliance: Compliance::default(),
        warnings: Vec::new(),
        trials: 1,
        found: Found::Maxfwd(Box::new(Maxfwd {
            forwarding_rate_pps: Some(rate),
            ledger: ledger(),
            ..Maxfwd::default()
        })),
    };
    let rates = [8.1e5, 8.2e5];
    let iterations = rates.iter().zip(1..).map(|(rate, iteration)| Iteration {
        iteration,
        outcomes: vec![found(*rate)],
        failure: None,
        trials: vec![iteration],
        ..Iteration::default()
    });
    TestCase {
        test_case: name.into(),
        case: Case {
            configuration: "plain".into(),
            stream: stream(),
            variant: Variant::default(),
            image: None,
            dut: Kind::Linux,
        },
        figures: vec![CaseFigure {
            name: "forwarding rate".into(),
            unit: Unit::FramesPerSecond,
            better: Better::Higher,
            values: rates.to_vec(),
            median: 815_000.0,
            interval_half_width: Some(4_000.0),
            variation_percent: Some(0.9),
            generator_limited: 0,
        }],
        outcomes: vec![found(815_000.0)],
        iterations: iterations.collect(),
        findings: Vec::new(),
        doubt: None,
        work: None,
        stopped: None,
    }
}

/// A finished run with three trials and three events.
pub fn finished_run(root: &Path, id: &str, started_at: &str) {
    let info = info(id, started_at);
    let mut run = fwdlab_store::RunWriter::create(root, &info).unwrap();
    run.input("nft.conf", b"add table x\n").unwrap();
    for number in 1..=3 {
        run.event(&warning(number)).unwrap();
        run.trial(&trial(number)).unwrap();
    }
    run.finish(&finished(&info), Some(&summary(id)), Some("<html>"))
        .unwrap();
}

/// Converts a run to the format without checksums.
pub fn unprotect(dir: &Path) {
    fs::remove_file(dir.join("checksums.sfv")).unwrap();
    for name in ["run.json", "summary.json", "trials.jsonl", "events.jsonl"] {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        let mut old = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("\"crc32\":") {
            let (_, after) = after.split_once('}').unwrap();
            let before = before.trim_end().strip_suffix(',').unwrap();
            let newline = if name.ends_with("l") { "" } else { "\n" };
            old += &format!("{before}{newline}}}");
            rest = after;
        }
        fs::write(dir.join(name), old + rest).unwrap();
    }
}

/// Prints on stderr, bypassing the harness's capture, that a test could not run and why.
#[expect(
    clippy::explicit_write,
    reason = "the harness captures eprintln of a test that passes"
)]
pub fn skipped(test: &str, reason: &str) {
    use std::io::Write;
    writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}").unwrap();
}
