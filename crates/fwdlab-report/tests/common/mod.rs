//! The test data of this crate: runs like those of the instrument, made from trials with plausible
//! numbers.
//!
//! Nothing is random; `stats` computes every statistic from the trials. Start with [`Run`].

#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::BTreeMap;

use fwdlab_measure::campaign::summarise;
use fwdlab_measure::maxfwd::iterations;
use fwdlab_model::campaign::{Case, PLAIN};
use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::event::RebuildRecord;
use fwdlab_model::facts::{Card, Facts};
use fwdlab_model::loss::{Counters, Ledger, Loss, Place, Reason};
use fwdlab_model::outcome::{Better, Compliance, Found, Outcome, Paired, PairedPoint, Unit};
use fwdlab_model::result::{Noise, RunInfo, RunState, Stratum, Summary, TrialRecord, Validity};
use fwdlab_model::telemetry::{
    Cause, CpuShare, Evidence, Finding, QueueShare, Size, Telemetry, Way,
};
use fwdlab_model::test_case::{CaseFigure, Iteration, TestCase};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::{FrameSize, imix_estimate_l2_bps};
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;
use fwdlab_stats::{Confidence, Sample, compare_paired};

/// The input of a report.
pub struct Run {
    pub name: &'static str,
    pub info: RunInfo,
    pub summary: Summary,
    pub trials: Vec<TrialRecord>,
    pub rebuilds: Vec<RebuildRecord>,
}

/// Returns every run of this module.
pub fn all() -> Vec<Run> {
    vec![
        normal(),
        one_case(),
        twelve_cases(),
        noisy(),
        one_noisy(),
        invalid(),
        no_valid_iteration(),
        does_not_forward(),
        not_saturated(),
        comparison(),
        one_configuration(),
        ten_configurations(),
        cannot_tell(),
        extreme(),
        hostile(),
        explained(),
    ]
}

/// Deviations of repeated measurements, in units of their spread: 16 draws of a normal
/// distribution.
const SCATTER: [f64; 16] = [
    0.31, -1.12, 0.74, -0.22, 1.43, -0.58, 0.09, -1.71, 0.92, 0.47, -0.83, 1.18, -0.36, 0.02,
    -1.27, 0.66,
];

/// Ratio of offered load to forwarding rate below which the generator is the limit.
const SATURATION: f64 = 1.1;

fn scatter(index: usize) -> f64 {
    SCATTER[index * 7 % SCATTER.len()]
}

fn stream(ip_version: IpVersion, size: u16, flows: u32) -> Stream {
    let size = FrameSize::new(size).expect("a size of this file is in range");
    Stream::new(ip_version, size, flows).expect("a stream of this file is right")
}

fn facts() -> Facts {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    Facts {
        system: None,
        kernel: "6.18.0".into(),
        kernel_command_line: Some("console=ttyS0 root=/dev/vda1 ro quiet".into()),
        cpu_model: "AMD EPYC 7B13".into(),
        cpus: 2,
        threads_per_core: Some(2),
        cpu_governor: None,
        virtual_machine: true,
        mitigations: map(&[
            ("gather_data_sampling", "Not affected"),
            ("retbleed", "Mitigation: untrained return thunk; SMT enabled with STIBP protection"),
            ("spectre_v1", "Mitigation: usercopy/swapgs barriers and __user pointer sanitization"),
            ("spectre_v2", "Mitigation: Retpolines; IBPB: conditional; STIBP: always-on; RSB filling"),
        ]),
        memory_bytes: 8_323_072_000,
        clock_source: Some("kvm-clock".into()),
        privileged: true,
        placement: map(&[
            ("dut", "NAPI thread of d0 on CPU 1, SCHED_OTHER nice -20"),
            ("generator", "CPU 0"),
            ("receiver", "in the kernel, on the CPU of the DUT"),
        ]),
        states: Vec::new(),
        sysctls: map(&[
            ("dut:net.ipv4.ip_forward", "1"),
            ("dut:net.ipv6.conf.all.forwarding", "1"),
            ("dut:net.ipv4.conf.all.rp_filter", "0"),
            ("gen:net.ipv6.conf.all.accept_dad", "0"),
        ]),
        machine: Some("Dell Inc. PowerEdge R640, BIOS 2.10.2 (02/24/2021)".into()),
        testers: map(&[("generator", "Linux 6.1.0, 8 CPUs (AMD EPYC 7B13)")]),
        cards: vec![Card {
            host: "generator".into(),
            port: "eth1".into(),
            name: Some("Intel Corporation Ethernet Controller X710".into()),
            pci_id: Some("8086:1572".into()),
            driver: Some("i40e".into()),
            driver_version: Some("6.1.0".into()),
            firmware: Some("8.30 0x8000".into()),
            speed_mbps: Some(10_000),
            rx_queues: Some(8),
            tx_queues: Some(8),
            numa_node: Some(1),
        }],
        driver: Some("veth".into()),
        link: None,
        offloads: map(&[("d0:gro", "off"), ("d0:tso", "off"), ("d1:gro", "off"), ("d1:tso", "off")]),
        engine: "live-frames: XDP test run of frames in the kernel, proven by 1000 of 1000 frames forwarded"
            .into(),
        engines_rejected: BTreeMap::new(),
    }
}

fn info(parameters: &[(&str, serde_json::Value)], command_line: &[&str]) -> RunInfo {
    RunInfo {
        format: RUN_FORMAT,
        id: "2026-11-21-quick-7f3k".into(),
        kind: "quick".into(),
        tool_version: "0.1.0".into(),
        command_line: command_line.iter().map(|word| (*word).to_owned()).collect(),
        seed: 4_242,
        started_at: "2026-11-21T08:50:12Z".into(),
        finished_at: Some("2026-11-21T08:51:04Z".into()),
        state: RunState::Finished,
        gaps: Vec::new(),
        error: None,
        note: None,
        parameters: parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
        facts: facts(),
    }
}

fn maxfwd_info() -> RunInfo {
    info(
        &[
            ("iterations", 5.into()),
            ("trial_s", 1.0.into()),
            ("window_ms", 20.into()),
            ("load", "1.8Mpps".into()),
            ("sizes", vec![64, 512, 1518].into()),
            ("flows", vec![1, 2000].into()),
            ("ipv6", false.into()),
            ("dut_cpus", 1.into()),
        ],
        &["fwdlab", "quick"],
    )
}

/// A trial: `load` is offered, `rate` is forwarded in quiet windows, part of the loss is inside the
/// DUT.
struct Shape {
    offered: f64,
    rate: f64,
    spread: f64,
    quiet: f64,
    contended_rate: f64,
    /// Share of the lost frames that the DUT itself dropped, and the reason.
    in_dut: (f64, &'static str),
}

fn shape(offered: f64, rate: f64) -> Shape {
    Shape {
        offered,
        rate,
        spread: 0.006,
        quiet: 0.83,
        contended_rate: 0.62,
        in_dut: (0.0, ""),
    }
}

fn trial(
    stream: &Stream,
    shape: &Shape,
    number: u32,
    iteration: u32,
    control: bool,
) -> TrialRecord {
    let rate = shape.rate * (1.0 + shape.spread * scatter(number as usize));
    let quiet_share = (shape.quiet * (1.0 + 0.12 * scatter(number as usize + 3))).clamp(0.0, 1.0);
    let quiet = (50.0 * quiet_share) as u32;
    let contended = 49 - quiet.min(49);
    let slow = rate * shape.contended_rate;
    let average = rate * quiet_share + slow * (1.0 - quiet_share);
    let sent = shape.offered as u64;
    let received = (average as u64).min(sent);
    let lost = sent - received;
    let in_dut = (lost as f64 * shape.in_dut.0) as u64;
    let at_input = lost - in_dut;
    let stratum = |windows: u32, pps: f64| Stratum {
        windows,
        forwarding_rate_pps: (windows >= 10).then_some(pps),
    };
    let loss = |place, frames, counter: &str, reasons| Loss {
        place,
        frames,
        counter: counter.into(),
        reasons,
    };
    let reasons = vec![Reason {
        reason: shape.in_dut.1.into(),
        frames: in_dut,
    }];
    let losses = vec![
        loss(
            Place::DutInput,
            at_input,
            "tx_dropped of the generator's port and rx_dropped of the DUT's input, which agree: input ring full",
            vec![],
        ),
        loss(
            Place::Dut,
            in_dut,
            "rx_packets of the DUT's input minus frames offered to its output",
            reasons,
        ),
    ];
    TrialRecord {
        test_case: format!("{}{}", stream.id(), if control { "/control" } else { "" }),
        procedure: "maxfwd".into(),
        iteration,
        trial: number,
        control,
        started_at: format!("2026-11-21T08:50:{:02}Z", (12 + number) % 60),
        variant: Variant::default(),
        directions: Vec::new(),
        stream: stream.clone(),
        engine: "live-frames".into(),
        stall_policy: None,
        receiver: "xdp-counter".into(),
        duration_s: 1.0003,
        intended_load_pps: Some(shape.offered * 1.0002),
        offered_load_pps: shape.offered * (1.0 - 0.0004 * scatter(number as usize + 5).abs()),
        not_saturated: shape.offered < SATURATION * rate,
        forwarding_rate_pps: (quiet >= 10).then_some(rate),
        forwarding_rate_ungated_pps: Some(average * (1.0 + 0.02 * scatter(number as usize + 9))),
        quiet: stratum(quiet, rate),
        contended: stratum(contended, slow),
        other_states: Vec::new(),
        probes: Vec::new(),
        windows_not_offered: 1,
        frame_loss_ratio: lost as f64 / sent as f64,
        ledger: Ledger {
            frames_intended: Some(sent + 212),
            frames_not_sent: 212,
            gen_limited: false,
            frames_additional: 0,
            frames_sent: sent,
            frames_received: received,
            frames_lost: lost as i64,
            losses: losses.into_iter().filter(|l| l.frames > 0).collect(),
            frames_unexplained: 0,
            not_exact: Vec::new(),
        },
        counters: Counters::default(),
        work: None,
        telemetry: None,
        asked: None,
        validity: Validity::default(),
    }
}

/// Returns `iterations` blocks of the cases, with the first case twice for the control.
fn trials(cases: &[(Stream, Shape)], iterations: u32) -> Vec<TrialRecord> {
    let mut records = Vec::new();
    for iteration in 1..=iterations {
        for (stream, shape) in cases {
            records.push(trial(
                stream,
                shape,
                records.len() as u32 + 1,
                iteration,
                false,
            ));
        }
        let (stream, shape) = &cases[0];
        records.push(trial(
            stream,
            shape,
            records.len() as u32 + 1,
            iteration,
            true,
        ));
    }
    records
}

fn case_of(stream: &Stream, records: &[TrialRecord]) -> TestCase {
    let own = |trial: &&TrialRecord| &trial.stream == stream && !trial.control;
    let case = Case {
        configuration: PLAIN.into(),
        stream: stream.clone(),
        variant: Variant::default(),
        image: None,
        dut: fwdlab_model::campaign::Kind::Linux,
    };
    let iterations = iterations(records.iter().filter(own));
    TestCase {
        // the runs below set doubts
        doubt: None,
        ..summarise(stream.id(), &case, iterations)
    }
}

fn compared(
    configuration: &str,
    control: bool,
    values_percent: Vec<f64>,
    plain: f64,
) -> Comparison {
    let logarithms: Vec<f64> = values_percent.iter().map(|v| (v / 100.0).ln_1p()).collect();
    let outcome = Sample::new(logarithms)
        .ok()
        .map(|sample| compare_paired(&sample, Confidence::P95));
    let difference = outcome.as_ref().map(|o| o.difference_percent);
    Comparison {
        configuration: configuration.into(),
        control,
        difference_percent: difference,
        interval_percent: outcome.as_ref().and_then(|o| o.interval_percent),
        detectable_percent: outcome.as_ref().and_then(|o| o.detectable_percent),
        spread_percent: outcome.as_ref().and_then(|o| o.spread_percent),
        p_value: outcome.as_ref().and_then(|o| o.p_value),
        verdict: outcome.map_or(Verdict::CannotTell, |o| match o.verdict {
            fwdlab_stats::Verdict::Less => Verdict::Less,
            fwdlab_stats::Verdict::Greater => Verdict::More,
            fwdlab_stats::Verdict::NoDifference => Verdict::NoDifference,
            fwdlab_stats::Verdict::TooFewValues => Verdict::CannotTell,
        }),
        values_percent,
        forwarding_rate_pps: difference.map(|d| plain * (1.0 + d / 100.0)),
        plain_forwarding_rate_pps: Some(plain),
        warnings: Vec::new(),
        doubt: None,
    }
}

fn maxfwd(name: &'static str, cases: &[(Stream, Shape)], trials: Vec<TrialRecord>) -> Run {
    let test_cases: Vec<TestCase> = cases
        .iter()
        .map(|(stream, _)| case_of(stream, &trials))
        .collect();
    let rate = |iteration: u32, control: bool| {
        trials
            .iter()
            .filter(|t| t.validity.is_valid() && t.stream == cases[0].0)
            .find(|t| t.iteration == iteration && t.control == control)
            .and_then(|t| t.forwarding_rate_pps)
    };
    let last = trials
        .iter()
        .map(|t| t.iteration)
        .max()
        .expect("there are trials");
    let control: Vec<f64> = (1..=last)
        .filter_map(|i| Some(100.0 * (rate(i, true)? / rate(i, false)? - 1.0)))
        .collect();
    let smallest = test_cases[0].forwarding_rate().map(|figure| figure.median);
    Run {
        name,
        info: maxfwd_info(),
        summary: Summary {
            format: RUN_FORMAT,
            run: "2026-11-21-quick-7f3k".into(),
            procedure: "maxfwd".into(),
            control: Some(compared("control", true, control, smallest.unwrap_or(0.0))),
            imported: Vec::new(),
            noise: Noise {
                probe_threshold: Some(16.28),
                calibration: "two speeds, 9.04 and 17.51 additions/ns; the CPU had the higher one in 81 % of 180 readings"
                    .into(),
                states: Vec::new(),
                quiet_percent: Some(81.6),
                verdict: "quiet enough: the iterations of no test case vary by more than 0.9 %".into(),
                ..Noise::default()
            },
            warnings: vec![
                "generator and DUT share 2 CPUs; these numbers compare settings on this machine, not machines".into(),
            ],
            imix_estimate_l2_bps: smallest.map(imix_estimate_l2_bps),
            thresholds: Vec::new(),
            test_cases,
        },
        trials,
        rebuilds: Vec::new(),
    }
}

fn usual_cases() -> Vec<(Stream, Shape)> {
    let v4 = |size, flows| stream(IpVersion::Ipv4, size, flows);
    vec![
        (v4(64, 2000), shape(1.8e6, 841_300.0)),
        (v4(512, 2000), shape(1.8e6, 812_900.0)),
        (v4(1518, 2000), shape(1.42e6, 699_100.0)),
        (v4(64, 1), shape(1.8e6, 902_700.0)),
    ]
}

/// A quiet machine, five iterations, no problems.
pub fn normal() -> Run {
    let mut cases = usual_cases();
    // one flow overloads only a rule of the DUT: a different kind of loss
    cases[3].1.in_dut = (0.9, "netfilter drop");
    let trials = trials(&cases, 5);
    maxfwd("normal", &cases, trials)
}

/// One test case, one flow.
pub fn one_case() -> Run {
    let cases = vec![(stream(IpVersion::Ipv6, 84, 1), shape(1.8e6, 702_400.0))];
    let trials = trials(&cases, 5);
    maxfwd("one-case", &cases, trials)
}

/// Both IP versions, three sizes, one flow and many, ten iterations.
pub fn twelve_cases() -> Run {
    let mut cases = Vec::new();
    for ip_version in [IpVersion::Ipv4, IpVersion::Ipv6] {
        for size in [
            if ip_version == IpVersion::Ipv4 {
                64
            } else {
                84
            },
            512,
            1518,
        ] {
            for flows in [1, 2000] {
                let rate = 900e3 - 120.0 * f64::from(size) - f64::from(flows) * 22.0;
                let rate = if ip_version == IpVersion::Ipv6 {
                    rate * 0.81
                } else {
                    rate
                };
                cases.push((stream(ip_version, size, flows), shape(1.8e6, rate)));
            }
        }
    }
    let trials = trials(&cases, 10);
    maxfwd("twelve-cases", &cases, trials)
}

/// Another process takes the CPU most of the time.
pub fn noisy() -> Run {
    let mut cases = usual_cases();
    for (_, shape) in &mut cases {
        shape.quiet = 0.22;
        shape.spread = 0.14;
    }
    let trials = trials(&cases, 5);
    let mut run = maxfwd("noisy", &cases, trials);
    run.summary.noise = Noise {
        quiet_percent: Some(20.8),
        verdict: "too noisy: known only to ±25 % (limit ±10 %). 150 of 720 windows had the CPU at \
                  full speed"
            .into(),
        too_noisy: true,
        doubts: vec!["known only to ±25 % (limit ±10 %)".into()],
        ..run.summary.noise
    };
    for case in &mut run.summary.test_cases {
        case.doubt = Some("known only to ±25 % (limit ±10 %)".into());
        case.outcomes[0].warnings = vec!["the values drift: later iterations are lower".into()];
    }
    run
}

/// One of four test cases is noisy, and it is not that of the headline.
pub fn one_noisy() -> Run {
    let cases = usual_cases();
    let trials = trials(&cases, 5);
    let mut run = maxfwd("one-noisy", &cases, trials);
    let doubt = "known only to ±14 % (limit ±10 %)";
    run.summary.test_cases[3].doubt = Some(doubt.into());
    run.summary.noise.verdict = format!(
        "quiet enough for 3 of 4 test cases: 585 of 720 windows had the CPU at full speed; too noisy for the rest: {doubt}"
    );
    run
}

/// Some trials are invalid: one residue, one generator-limited.
pub fn invalid() -> Run {
    let cases = usual_cases();
    let mut trials = trials(&cases, 5);
    trials[2].validity.reasons = vec!["the generator stood still for 0.4 s".into()];
    for index in [5, 15] {
        trials[index].ledger.frames_unexplained = 17;
        trials[index].validity.reasons =
            vec!["17 frames are unexplained: the counters of the ports do not add up".into()];
    }
    trials[7].validity.reasons = vec![
        "3 frames of an earlier trial arrived".into(),
        "the clock was stepped".into(),
    ];
    maxfwd("invalid", &cases, trials)
}

/// Every iteration is invalid, and the run was stopped.
pub fn no_valid_iteration() -> Run {
    let cases = usual_cases();
    let mut trials = trials(&cases, 2);
    for trial in &mut trials {
        trial.validity.reasons = vec!["the link of d1 went down".into()];
    }
    let mut run = maxfwd("nothing-valid", &cases, trials);
    run.info.state = RunState::Interrupted;
    run.summary.noise = Noise {
        verdict: "not judged: the run was interrupted".into(),
        quiet_percent: None,
        ..run.summary.noise
    };
    run
}

/// A configuration that drops everything.
pub fn does_not_forward() -> Run {
    let mut cases = vec![(stream(IpVersion::Ipv4, 64, 2000), shape(1.8e6, 0.0))];
    cases[0].1.in_dut = (1.0, "netfilter drop");
    let trials = trials(&cases, 3);
    let mut run = maxfwd("does-not-forward", &cases, trials);
    run.summary.control = None;
    run.summary.imix_estimate_l2_bps = None;
    run
}

/// The generator is too slow for this DUT.
pub fn not_saturated() -> Run {
    let cases = vec![(stream(IpVersion::Ipv4, 64, 2000), shape(860e3, 841_300.0))];
    let trials = trials(&cases, 5);
    maxfwd("not-saturated", &cases, trials)
}

/// A configuration compared with the plain DUT.
fn of_slices(comparison: Comparison, rebuilds: usize) -> TestCase {
    let stream = stream(IpVersion::Ipv4, 64, 2000);
    let case = Case {
        configuration: comparison.configuration.clone(),
        stream: stream.clone(),
        variant: Variant::default(),
        image: None,
        dut: fwdlab_model::campaign::Kind::Linux,
    };
    let iterations = (1..=rebuilds as u32).map(|iteration| Iteration {
        iteration,
        ..Iteration::default()
    });
    TestCase {
        test_case: case.id(),
        case,
        figures: figure_of(&comparison).into_iter().collect(),
        outcomes: vec![Outcome {
            frame_size_bytes: stream.frame_size_bytes,
            variant: Variant::default(),
            verdict: "measured".into(),
            answered: true,
            not_applicable: false,
            compliance: Compliance::default(),
            warnings: Vec::new(),
            trials: rebuilds as u32,
            found: Found::Paired(Paired {
                reference: PLAIN.into(),
                parameter: None,
                points: vec![PairedPoint {
                    value: None,
                    comparison,
                    cost_ns: None,
                    cost_interval_ns: None,
                }],
                slope: None,
            }),
        }],
        iterations: iterations.collect(),
        findings: Vec::new(),
        doubt: None,
        work: None,
        stopped: None,
    }
}

fn figure_of(comparison: &Comparison) -> Option<CaseFigure> {
    Some(CaseFigure {
        name: "difference".into(),
        unit: Unit::Percent,
        better: Better::Higher,
        values: comparison.values_percent.clone(),
        median: comparison.difference_percent?,
        interval_half_width: None,
        variation_percent: None,
        generator_limited: 0,
    })
}

/// Returns the comparison of a configuration, to be changed.
pub fn comparison_of(summary: &mut Summary, configuration: usize) -> &mut Comparison {
    match &mut summary.test_cases[configuration].outcomes[0].found {
        Found::Paired(found) => &mut found.points[0].comparison,
        other => panic!("{other:?}"),
    }
}

fn paired(name: &'static str, configurations: &[(&str, f64)], rebuilds: usize, spread: f64) -> Run {
    let plain = 841_300.0;
    let mut all: Vec<(&str, f64)> = vec![("control", 0.12)];
    all.extend(configurations);
    let value = |configuration: usize, rebuild: usize| {
        // the control scatters as if it were the last configuration
        let place = (configuration + configurations.len()) % all.len();
        all[configuration].1 + spread * scatter(place * 3 + rebuild * 5 + place * rebuild)
    };
    let mut comparisons = all.iter().enumerate().map(|(index, (command, _))| {
        let values = (0..rebuilds).map(|r| value(index, r)).collect();
        compared(command, index == 0, values, plain)
    });
    let control = comparisons.next();
    let test_cases: Vec<TestCase> = comparisons.map(|c| of_slices(c, rebuilds)).collect();
    let count = all.len() as u32 + 1;
    let ledger = |rate: f64| {
        let (sent, received) = (1_080_000, (rate * 0.6) as u64);
        Ledger {
            frames_sent: sent,
            frames_received: received,
            frames_lost: (sent - received) as i64,
            losses: vec![Loss {
                place: Place::DutInput,
                frames: sent - received,
                counter: "tx_dropped of the generator's port: input ring full".into(),
                reasons: vec![],
            }],
            ..Ledger::default()
        }
    };
    let records = (0..rebuilds)
        .map(|r| {
            let differences: Vec<f64> = [0.0]
                .into_iter()
                .chain((0..all.len()).map(|c| value(c, r)))
                .collect();
            let base = plain * (1.0 + 0.008 * scatter(r));
            let rates: Vec<f64> = differences
                .iter()
                .map(|d| base * (1.0 + d / 100.0))
                .collect();
            let ledgers: Vec<Ledger> = rates.iter().map(|rate| ledger(*rate)).collect();
            RebuildRecord {
                compared: Vec::new(),
                rebuild: r as u32 + 1,
                started_at: format!("2026-11-21T08:50:{:02}Z", 12 + 3 * r),
                places: (0..count).map(|place| (place + r as u32) % count).collect(),
                blocks: 27,
                blocks_not_offered: u32::from(r % 3 == 1),
                slice_s: None,
                frames_sent: ledgers.iter().map(|l| l.frames_sent).sum(),
                frames_received: ledgers.iter().map(|l| l.frames_received).sum(),
                forwarding_rate_pps: rates,
                difference_percent: differences,
                ledgers,
                validity: Validity::default(),
            }
        })
        .collect();
    let mut command: Vec<&str> = vec!["fwdlab", "quick"];
    for (configuration, _) in configurations {
        command.extend(["--vs", configuration]);
    }
    Run {
        name,
        info: info(
            &[
                ("rebuilds", rebuilds.into()),
                ("slice_ms", 20.into()),
                ("settle_ms", 6.into()),
                ("load", "1.8Mpps".into()),
                ("size", 64.into()),
                ("flows", 2000.into()),
            ],
            &command,
        ),
        summary: Summary {
            format: RUN_FORMAT,
            run: "2026-11-21-quick-9c2d".into(),
            procedure: "paired".into(),
            test_cases,
            control,
            imported: Vec::new(),
            noise: Noise {
                verdict: "quiet enough: the rebuilds of the control vary by 1.0 %".into(),
                calibration: "one speed, 17.40 additions/ns (upper quartile of 180 readings)"
                    .into(),
                ..Noise::default()
            },
            warnings: Vec::new(),
            imix_estimate_l2_bps: None,
            thresholds: Vec::new(),
        },
        trials: Vec::new(),
        rebuilds: records,
    }
}

const ONE_RULE: &str = "nft add table inet t; nft add chain inet t f '{ type filter hook forward priority 0; }'; nft add rule inet t f ip saddr 192.0.2.1 drop";

/// Two configurations: one slower, one equal.
pub fn comparison() -> Run {
    let configurations = [
        (ONE_RULE, -2.1),
        ("sysctl -w net.core.netdev_budget=600", 0.2),
    ];
    paired("comparison", &configurations, 12, 0.9)
}

/// The usual question: does this rule cost anything?
pub fn one_configuration() -> Run {
    paired("one-configuration", &[(ONE_RULE, -2.4)], 12, 0.8)
}

/// As many configurations as anyone will type.
pub fn ten_configurations() -> Run {
    let configurations = [
        ("./configs/nft-1-rule", -2.1),
        ("./configs/nft-10-rules", -7.4),
        ("./configs/nft-100-rules", -38.2),
        ("./configs/nft-set-10000", -3.9),
        ("./configs/conntrack", -27.4),
        ("./configs/flowtable", 31.0),
        ("./configs/rp-filter-strict", -1.2),
        ("sysctl -w net.core.netdev_budget=600", 0.2),
        ("tc qdisc add dev d1 root fq_codel", -4.4),
        ("ip rule add from 192.0.2.0/24 lookup 100", -0.9),
    ];
    let mut run = paired("ten-configurations", &configurations, 11, 1.0);
    run.rebuilds[4].validity.reasons = vec!["the generator was held up in 12 of 27 blocks".into()];
    run
}

/// A run that was stopped after the first rebuild.
pub fn cannot_tell() -> Run {
    let mut run = paired("cannot-tell", &[(ONE_RULE, -2.1)], 1, 0.9);
    run.info.state = RunState::Interrupted;
    run.summary.noise.verdict = "not judged: the run was interrupted".into();
    comparison_of(&mut run.summary, 0).warnings =
        vec!["1 rebuild is too few for an interval".into()];
    run
}

/// Extreme numbers: a slow DUT under a huge load, and a single value.
pub fn extreme() -> Run {
    let v4 = |size, flows| stream(IpVersion::Ipv4, size, flows);
    let cases = vec![
        (v4(64, 60_000), shape(148.8e6, 1_204.0)),
        (v4(1518, 1), shape(8.1e6, 7_900_000.0)),
    ];
    let trials = trials(&cases, 1);
    let mut run = maxfwd("extreme", &cases, trials);
    run.info.seed = u64::MAX;
    run.info.command_line = vec![
        "fwdlab".into(),
        "quick".into(),
        "--set".into(),
        ONE_RULE.repeat(6),
    ];
    run.info.finished_at = None;
    run
}

/// Strings from outside that would break a page, a table or a line.
pub fn hostile() -> Run {
    let bad = "<script>alert('1')</script>\"' & | `x` \\ </style> ]]> é";
    let mut run = paired("hostile", &[(bad, -2.1)], 6, 0.5);
    run.info.id = bad.into();
    run.info.kind = bad.into();
    run.info.command_line = vec!["fwdlab".into(), bad.into(), "two\nlines".into()];
    run.info.tool_version = bad.into();
    run.info.parameters.insert(bad.into(), bad.into());
    let facts = &mut run.info.facts;
    facts.kernel = bad.into();
    facts.cpu_model = bad.into();
    facts.driver = Some(bad.into());
    facts.engine = bad.into();
    facts.kernel_command_line = Some(bad.into());
    for map in [
        &mut facts.placement,
        &mut facts.sysctls,
        &mut facts.offloads,
        &mut facts.mitigations,
    ] {
        map.insert(bad.into(), bad.into());
    }
    run.summary.warnings = vec![bad.into()];
    run.summary.noise.verdict = bad.into();
    run.summary.noise.calibration = bad.into();
    comparison_of(&mut run.summary, 0).warnings = vec![bad.into()];
    run.summary.procedure = bad.into();
    for rebuild in &mut run.rebuilds {
        rebuild.started_at = bad.into();
        rebuild.validity.reasons = vec![bad.into()];
        rebuild.ledgers[1].losses[0].counter = bad.into();
        rebuild.ledgers[1].losses[0].reasons = vec![Reason {
            reason: bad.into(),
            frames: 1,
        }];
    }
    run
}

/// A run with telemetry of the DUT: findings with text from outside, and the activity of its host.
pub fn explained() -> Run {
    let bad = "<b>`x`</b> | & \u{1b}[2J";
    let mut run = one_case();
    run.name = "explained";
    let finding = |cause, trials, of_trials| Finding {
        cause,
        sentence: format!("nft ip t f: ip saddr {bad} drop: 1,500 frames, 50.0 % of those lost"),
        evidence: vec![Evidence {
            what: "frames dropped".into(),
            value: 1500.0,
            unit: "frames".into(),
        }],
        setting: "this rule: nft list ruleset".into(),
        remedy: vec![format!("nft delete rule {bad}")],
        trials,
        of_trials,
    };
    let queue = |queue, packets, ratio| QueueShare {
        port: "eth0".into(),
        way: Way::Rx,
        queue,
        packets,
        ratio,
    };
    let case = &mut run.summary.test_cases[0];
    case.findings = vec![
        finding(Cause::Dropped, 3, 5),
        finding(Cause::HotQueue, 5, 5),
    ];
    for iteration in &mut case.iterations {
        iteration.telemetry = Some(Box::new(Telemetry {
            host: "router1".into(),
            trials: 1,
            between_s: 2.3,
            frames_sent: 1_000_000,
            frames_received: 1_000_000,
            cpus: vec![CpuShare {
                cpu: 3,
                forwards: true,
                ticks: 230,
                softirq_ratio: 0.75,
                idle_ratio: 0.25,
                ..CpuShare::default()
            }],
            queues: vec![queue(0, 750_000, 0.75), queue(1, 250_000, 0.25)],
            drops: [(bad.to_owned(), 1500)].into(),
            sizes: [(
                "conntrack entries".to_owned(),
                Size {
                    value: 12,
                    limit: Some(262_144),
                },
            )]
            .into(),
            energy_joules: [("package-0".to_owned(), 42.0)].into(),
            missing: [("nft".to_owned(), bad.to_owned())].into(),
            ..Telemetry::default()
        }));
    }
    run
}
