//! Tests of reports in every format: states in cells, sentences from figures, escaping of text from
//! outside.
//!
//! Start with [`foreign_text_is_escaped_in_every_format`].

use crate::common;

use fwdlab_model::outcome::{
    Compliance, Cost, Edge, Found, Outcome, Ramp, Stretch, Sweep, SweepPoint,
};
use fwdlab_model::procedure::Interval;
use fwdlab_model::result::Summary;
use fwdlab_model::test_case::{NoResult, TestCase};
use fwdlab_model::trial::IpVersion;
use fwdlab_model::units::FrameSize;
use fwdlab_report::chart::{Chart, Curve, Plot, gnuplot, svg};
use fwdlab_report::charts::{all as charts, families, ramps, sweeps};
use fwdlab_report::html::{self, ShownFacts};
use fwdlab_report::run::Run;
use fwdlab_report::{executive, github, junit, loadtest, markdown, ministat, prometheus, text};
use fwdlab_stats::ministat::Model;

fn run(own: &common::Run) -> Run<'_> {
    Run {
        trials: &own.trials,
        rebuilds: &own.rebuilds,
        ..Run::new(&own.info, &own.summary)
    }
}

/// Returns a test case measured by a ramp that reaches 1 Mpps and ends at this rate at the target.
fn ramp_of(case: &TestCase, name: &str, held: f64) -> TestCase {
    let sample = |n: u32| {
        let offered = 20_000 * u64::from(n);
        let received = match n {
            0..=50 => offered,
            _ => held as u64,
        };
        Interval {
            at_ns: u64::from(n) * 1_000_000_000,
            length_ns: 1_000_000_000,
            intended_load_pps: offered as f64,
            frames_sent: offered,
            frames_received: received,
        }
    };
    let edge = Edge {
        saturation_pps: Some(1e6),
        resolution_pps: 2e4,
        lower_pps: None,
        upper_pps: None,
        at_s: Some(51.0),
        from_s: None,
        until_s: None,
        reason: "loss".into(),
    };
    let mut own = case.clone();
    own.case.configuration = name.into();
    own.iterations.clear();
    own.figures.truncate(1);
    own.figures[0].name = "loss begins".into();
    own.figures[0].median = 1e6;
    own.outcomes = vec![Outcome {
        frame_size_bytes: case.case.stream.frame_size_bytes,
        variant: case.case.variant.clone(),
        found: Found::Ramp(Ramp {
            target_pps: 1.4e6,
            loss_threshold: 0.001,
            up: edge,
            down: None,
            max_ok_pps: 1e6,
            max_forwarding_rate_pps: 1e6,
            max_line_percent: None,
            held_forwarding_rate_pps: Some(held),
            collapse_ratio: Some(held / 1e6),
            tester_bound: false,
            samples: (1..=70).map(sample).collect(),
            directions: Vec::new(),
        }),
        verdict: "loss begins above 1.000 Mpps".into(),
        answered: true,
        not_applicable: false,
        compliance: Compliance::default(),
        warnings: Vec::new(),
        trials: 1,
    }];
    own
}

/// A run with ramps of two devices.
fn two_ramps(names: [&str; 2]) -> common::Run {
    let mut own = common::one_case();
    let case = own.summary.test_cases[0].clone();
    own.info.kind = "ramp".into();
    own.summary.procedure = "ramp".into();
    own.summary.test_cases = vec![
        ramp_of(&case, names[0], 1e6),
        ramp_of(&case, names[1], 0.6e6),
    ];
    own.info.facts.link = Some("1 Gbit/s".into());
    own
}

const BAD: &str = "</style><script>alert('1')</script>\"' & | `x` $(y) % \\ ]]> \u{1b}[2J\né";

#[test]
fn foreign_text_is_escaped_in_every_format() {
    let ramped = two_ramps([BAD, "plain"]);
    let hostile = common::hostile();
    let runs = [
        Run {
            name: BAD,
            ..run(&hostile)
        },
        run(&ramped),
    ];
    let all = charts(&runs);
    assert!(all.iter().any(|chart| chart.title.contains(BAD)));
    for chart in &all {
        let text = svg::draw(chart);
        let read = roxmltree::Document::parse(&text).expect("an SVG is XML");
        let active = ["script", "foreignObject", "a", "image", "use"];
        let is_active = |node: roxmltree::Node<'_, '_>| active.contains(&node.tag_name().name());
        assert!(!read.descendants().any(is_active), "{}", chart.name);
        assert!(
            chart
                .name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-')
        );
    }
    for (name, text) in gnuplot::files(&all) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            // gnuplot would replace format specifiers by numbers
            if line.starts_with("set xtics") || line.starts_with("set ytics") {
                assert!(!line.replace("%%", "").contains('%'), "{name}: {line}");
            }
            // everything is inside quotes, and contains no commands
            if name == gnuplot::DATA {
                let values = line.split(" # ").next().unwrap_or_default();
                let mut words = values.split_whitespace();
                assert!(words.all(|word| word.parse::<f64>().is_ok()), "{line}");
                continue;
            }
            assert_eq!(line.matches('\'').count() % 2, 0, "{name}: {line}");
            assert!(
                !line.contains('`') && !line.contains('\u{1b}'),
                "{name}: {line}"
            );
        }
    }
    let text = junit::text(&runs);
    let read = roxmltree::Document::parse(&text).expect("JUnit is XML");
    let suites = read
        .descendants()
        .filter(|node| node.has_tag_name("testsuite"));
    assert_eq!(suites.count(), 2);

    for line in prometheus::text(&[(&hostile.info, &hostile.summary)]).lines() {
        let is_comment = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
        let is_sample = line.starts_with("fwdlab_")
            && line
                .rsplit_once("} ")
                .is_some_and(|(_, value)| value.parse::<f64>().is_ok());
        assert!(is_comment || is_sample, "{line}");
    }
    let page = html::pages(&runs, None, ShownFacts::Brief);
    assert!(!page.contains("<script"));
    assert_eq!(page.matches("</style>").count(), 1);

    let all_markdown = [github::text(&runs), markdown::repository(&runs, &all)];
    for text in all_markdown {
        assert!(!text.contains('\u{1b}'));
        // outside of code fences there is no markup
        let outside: Vec<&str> = text.split("```").step_by(2).collect();
        for part in outside {
            for (at, _) in part.match_indices('<') {
                let known = ["<details>", "</details>", "<summary>", "</summary>"];
                let is_ours = known.iter().any(|own| part[at..].starts_with(own));
                assert!(is_ours || part[..at].ends_with('\\'), "{}", &part[at..]);
            }
        }
    }
    for (name, test) in loadtest::files(&run(&ramped)) {
        assert!(
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "{name}"
        );
        let bytes = serde_json::to_vec(&test).unwrap();
        fwdlab_model::loadtest::LoadTest::parse(&bytes).unwrap();
    }
    for block in ministat::blocks(&runs) {
        assert!(
            !block.command().contains(['$', '`', '\'', ';', '\n']),
            "{}",
            block.command()
        );
        block.printed(Model::default()).unwrap();
    }
}

#[test]
fn cells_without_a_reliable_figure_have_a_reason() {
    // one device forwards less under a higher load
    let own = two_ramps(["steady", "collapses"]);
    let text = markdown::summary(&own.info, &own.summary);
    let row = |name: &str| {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| {name}")));
        row.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    assert!(row("collapses").contains("livelock"), "{text}");
    assert!(!row("steady").contains("livelock"), "{text}");

    let mut own = common::one_case();
    let case = &mut own.summary.test_cases[0];
    case.figures.clear();
    case.outcomes.clear();
    for iteration in &mut case.iterations {
        iteration.failure = Some("the link went down".into());
        iteration.outcomes.clear();
    }
    let words = |summary: &Summary| markdown::summary(&own.info, summary);
    let mut summary = own.summary.clone();
    assert!(words(&summary).contains("failed"), "{}", words(&summary));
    summary.test_cases[0].iterations.clear();
    let text = words(&summary);
    assert!(text.contains("not measured"), "{text}");
}

#[test]
fn sentences_are_made_from_figures() {
    let own = two_ramps(["a", "b"]);
    let reported = |own: &common::Run| {
        let all = executive::sentences(&own.info, &own.summary);
        let all = all
            .iter()
            .map(|one| one.with_evidence(&own.info, &own.summary));
        all.collect::<Vec<_>>().join("\n")
    };
    // 1 Mpps of 1.202 Mpps, which is 1 Gbit/s with 84 bytes per frame and 20 between frames
    let said = "a: line rate of 1 Gbit/s missed by 201.9 kpps, 83.2 % of it reached";
    assert!(reported(&own).contains(said), "{}", reported(&own));
    let mut own = own;
    own.info.facts.link = Some("832 Mbit/s".into());
    let said = "Line rate of 832 Mbit/s reached: a; b";
    assert!(reported(&own).contains(said), "{}", reported(&own));
    // without a link there is no line rate
    own.info.facts.link = None;
    assert!(!reported(&own).contains("ine rate"), "{}", reported(&own));

    // the load at which loss begins is not all that the DUT forwards
    own.info
        .parameters
        .insert("dut_cpus".into(), vec![1].into());
    let text = reported(&own);
    assert!(text.contains("pps without loss with "), "{text}");

    // one CPU only if that is known, and every sentence has its evidence
    let mut own = common::normal();
    let case = own.summary.test_cases[0].clone();
    own.summary.test_cases = [1, 2000]
        .map(|flows| {
            let mut case = case.clone();
            case.case.stream.flows = flows;
            case.test_case = format!("64B-{flows}");
            case
        })
        .into();
    assert!(
        reported(&own).contains("At 64 bytes it forwards "),
        "{}",
        reported(&own)
    );
    own.info
        .parameters
        .insert("dut_cpus".into(), vec![1].into());
    let text = reported(&own);
    assert!(text.contains("At 64 bytes one CPU forwards "), "{text}");
    let evidence = format!("with 2,000 flows (64B-1, 64B-2000 of run {})", own.info.id);
    assert!(text.contains(&evidence), "{text}");
    // a simulated DUT has no CPUs
    own.info.facts.engine = "sim: nothing is sent".into();
    assert!(!reported(&own).contains("CPU"), "{}", reported(&own));

    // slices are differences already: there are no differences of them
    let own = common::ten_configurations();
    let text = reported(&own);
    assert!(!text.contains("beside"), "{text}");
    // the headline is not repeated
    let tally = "8 proven slower, 1 proven faster";
    assert!(!text.contains(tally), "{text}");
    let headline = text::quick(&own.info, &own.summary).to_string();
    assert!(headline.replace('\n', " ").contains(tally), "{headline}");

    // energy only if a meter was read
    let mut own = common::explained();
    let text = reported(&own);
    assert!(text.contains("a frame took 42.0 uJ by package-0"), "{text}");
    for one in &mut own.summary.test_cases[0].iterations {
        one.telemetry = None;
    }
    assert!(!reported(&own).contains(" uJ "), "{}", reported(&own));
}

/// A campaign of these configurations at 64 and 512 bytes, each with its forwarding rates in kpps.
fn matrix(rows: &[(&str, [f64; 2])]) -> common::Run {
    let mut own = common::normal();
    own.info.kind = "campaign".into();
    own.summary.control = None;
    let case = own.summary.test_cases[0].clone();
    own.summary.test_cases.clear();
    for (name, rates) in rows {
        for (size, kpps) in [64, 512].into_iter().zip(rates) {
            let mut case = case.clone();
            case.case.configuration = (*name).to_owned();
            case.case.stream.frame_size_bytes = FrameSize::new(size).expect("a size in range");
            case.test_case = format!("{name}/{size}B");
            let figure = &mut case.figures[0];
            let scatter = [-1.0, 0.5, 1.0, -0.5, 0.2];
            figure.values = scatter.map(|part| 1e3 * (kpps + part)).into();
            figure.median = 1e3 * (kpps + 0.2);
            figure.interval_half_width = Some(1e3);
            own.summary.test_cases.push(case);
        }
    }
    own
}

#[test]
fn systems_are_compared_with_the_reference_under_every_condition() {
    let mut own = matrix(&[
        ("nat", [500.0, 450.0]),
        ("plain", [1000.0, 900.0]),
        ("same", [1000.0, 900.0]),
        ("broken", [0.0, 0.0]),
    ]);
    for (at, reason, kind) in [
        (6, "panic", NoResult::DidNotBoot),
        (7, "the link went down", NoResult::Failed),
    ] {
        let case = &mut own.summary.test_cases[at];
        case.figures.clear();
        for one in &mut case.iterations {
            one.failure = Some(reason.into());
            one.no_result = kind;
            one.outcomes.clear();
        }
    }
    let text = markdown::repository(&[run(&own)], &[]);
    let row = |name: &str| {
        let mut rows = text
            .lines()
            .filter(|line| line.starts_with(&format!("| {name} |")));
        rows.find(|row| !row.contains(" B |"))
            .unwrap_or_else(|| panic!("{name}: {text}"))
    };
    // the plain DUT is the reference, although it is not the first
    assert!(text.contains("|  | 64 B | 512 B |"), "{text}");
    assert!(
        row("plain").contains("1.000 Mpps ± 0.10 % | 900.2 kpps ± 0.1 %"),
        "{text}"
    );
    assert!(
        text.find("| plain | 1.0") < text.find("| nat | -50"),
        "{text}"
    );
    assert!(row("nat").starts_with("| nat | -50.00 % ± 0.0"), "{text}");
    assert!(row("same").contains("~ "), "{text}");
    assert_eq!(row("broken"), "| broken | did not boot | failed |");
    assert!(text.contains("± half of its 95 % interval"), "{text}");

    // several runs have a row each; a simulated run is shown, but not compared
    let mut simulated = matrix(&[("plain", [2000.0, 800.0])]);
    simulated.info.facts.engine = "sim: nothing is sent".into();
    simulated.summary.test_cases.pop();
    let mut first = matrix(&[("plain", [1000.0, 900.0])]);
    first.info.facts.engine = "af-packet: proven".into();
    let two = [
        Run {
            name: "apu2",
            ..run(&first)
        },
        Run {
            name: "model",
            ..run(&simulated)
        },
    ];
    let text = markdown::repository(&two, &[]);
    assert!(
        text.contains("| model | 2.000 Mpps ± 0.050 %, not comparable | not measured |"),
        "{text}"
    );
    assert!(
        text.contains("model is not comparable with apu2: it is simulated"),
        "{text}"
    );
    // a remark on noise accompanies the figures
    let mut noisy = matrix(&[("plain", [2000.0, 800.0])]);
    noisy.summary.noise.too_noisy = true;
    let noisy = [
        two[0],
        Run {
            name: "loud",
            ..run(&noisy)
        },
    ];
    let said = "loud: the machine was too noisy for its figures";
    assert!(!text.contains(said));
    assert!(markdown::repository(&noisy, &[]).contains(said));
    // the page has the same content
    let page = html::pages(&two, None, ShownFacts::Brief);
    assert!(page.contains("not measured") && page.contains("not comparable"));
}

#[test]
fn tips_are_numbered_and_have_evidence_and_lines_to_copy() {
    let rows = [
        ("plain", [1000.0, 900.0]),
        ("gro", [1200.0, 1000.0]),
        ("busy", [1100.0, 950.0]),
        ("worse", [1300.0, 400.0]),
        ("same", [1000.0, 900.0]),
    ];
    let mut own = matrix(&rows);
    own.info
        .parameters
        .insert("dut_cpus".into(), vec![1].into());
    own.info.parameters.insert(
        "configurations".into(),
        serde_json::json!({
            "gro": ["ethtool -K eth0 gro on"],
            "busy": ["sysctl -w net.core.netdev_budget=600\nsysctl -w net.core.dev_weight=128", "sets/busy"],
            "worse": ["true"], "same": ["true"],
        }),
    );
    let text = markdown::repository(&[run(&own)], &[]);
    let tips = text
        .split("Tips:\n")
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"));
    assert!(
        text.contains("- plain: at 64 bytes one CPU forwards 1"),
        "{text}"
    );
    assert!(tips.contains("1. gro: forwarding rate +20.0"), "{tips}");
    assert!(tips.contains(" at 64 B; +11.1"), "{tips}");
    assert!(tips.contains("ethtool -K eth0 gro on\n"), "{tips}");
    assert!(
        tips.contains("sysctl -w net.core.netdev_budget=600\n"),
        "{tips}"
    );
    assert!(
        tips.contains("# sets/busy, kept in inputs/ of the run"),
        "{tips}"
    );
    // a configuration that is better in one condition and worse in another is no advice, nor is one
    // without effect
    assert!(!tips.contains("3. ") && !tips.contains("worse:"), "{tips}");
    // no configuration contains both
    assert!(
        tips.contains("All of them at once was not measured"),
        "{tips}"
    );

    // a configuration that contains both is reported
    let mut own = matrix(&[rows[0], rows[1], rows[2], ("all", [1250.0, 1020.0])]);
    own.info.parameters.insert(
        "configurations".into(),
        serde_json::json!({ "gro": ["a b"], "busy": ["c d"], "all": ["a b", "c d"] }),
    );
    let text = markdown::repository(&[run(&own)], &[]);
    assert!(
        text.contains("Before against after all of it: all: forwarding rate +25.0"),
        "{text}"
    );
    let page = html::pages(&[run(&own), run(&own)], None, ShownFacts::Brief);
    assert!(page.contains("Before against after all of it"));
    // both together are no better than neither
    let mut none = matrix(&[rows[0], rows[1], rows[2], ("all", rows[0].1)]);
    none.info.parameters = own.info.parameters.clone();
    let text = markdown::repository(&[run(&none)], &[]);
    assert!(
        text.contains("all has all of these lines, and is not proven better")
            && !text.contains("was not measured"),
        "{text}"
    );
    // no advice if the run is too noisy
    own.summary.noise.too_noisy = true;
    let text = markdown::repository(&[run(&own)], &[]);
    assert!(!text.contains("Tips:"), "{text}");

    // causes from telemetry come with their remedy
    let mut own = common::explained();
    let text = markdown::repository(&[run(&own)], &[]);
    assert!(
        text.contains("frames dropped 1,500 frames; in 3 of 5 trials"),
        "{text}"
    );
    assert!(text.contains("nft delete rule"), "{text}");
    for one in &mut own.summary.test_cases[0].findings {
        one.evidence.clear();
    }
    let text = markdown::repository(&[run(&own)], &[]);
    assert!(!text.contains("Tips:"), "no tip without evidence: {text}");
}

#[test]
fn several_firewalls_come_with_a_warning() {
    let warned = |names: &[&str]| {
        let mut own = common::normal();
        let case = own.summary.test_cases[0].clone();
        own.summary.test_cases = names
            .iter()
            .map(|name| {
                let mut case = case.clone();
                case.case.configuration = (*name).to_owned();
                case
            })
            .collect();
        let page = html::pages(&[run(&own), run(&own)], None, ShownFacts::Brief);
        let text = markdown::repository(&[run(&own)], &[]);
        let said = "A firewall is not its forwarding rate";
        assert_eq!(page.contains(said), text.contains(said));
        page.contains(said)
    };
    assert!(warned(&["nft-stateful", "plain"]));
    assert!(!warned(&["nft-stateful"]));
    assert!(!warned(&["jumbo", "plain"]));
}

#[test]
fn ramps_of_several_devices_share_a_graph() {
    let (one, two) = (two_ramps(["a", "b"]), two_ramps(["a", "b"]));
    let names = ["apu2", "apu6"];
    let runs = [&one, &two]
        .into_iter()
        .zip(names)
        .map(|(own, name)| Run { name, ..run(own) });
    let runs: Vec<Run<'_>> = runs.collect();
    let together = ramps(&runs);
    assert_eq!(together.len(), 2, "over load and over time");
    for chart in &together {
        let drawn = svg::draw(chart);
        for name in ["apu2, a", "apu2, b", "apu6, a", "apu6, b"] {
            assert!(drawn.contains(name), "{}: {name}", chart.name);
        }
    }
    let alone = common::normal();
    assert!(ramps(&[run(&alone)]).is_empty());
}

#[test]
fn address_families_are_in_adjacent_columns() {
    let mut own = matrix(&[("plain", [1000.0, 900.0]), ("nat", [500.0, 450.0])]);
    for case in &mut own.summary.test_cases.clone() {
        // the smallest frames of IPv6 are longer
        case.case.stream.ip_version = IpVersion::Ipv6;
        if case.case.stream.frame_size_bytes == FrameSize::MIN {
            case.case.stream.frame_size_bytes = IpVersion::Ipv6.smallest_frame();
        }
        case.test_case += "-ipv6";
        for value in &mut case.figures[0].values {
            *value *= 0.9;
        }
        case.figures[0].median *= 0.9;
        own.summary.test_cases.push(case.clone());
    }
    let chart = families(&[run(&own)]).expect("both are there");
    let Plot::Rows(rows) = &chart.plot else {
        panic!("{chart:?}");
    };
    let reported: Vec<String> = rows
        .rows
        .iter()
        .map(|row| row.screen_reader_text())
        .collect();
    assert_eq!(reported.len(), 8, "{reported:?}");
    assert_eq!(
        reported[0],
        "smallest frames, plain, IPv4, 64 B: 1.000 Mpps, 999.0 kpps to 1.001 Mpps"
    );
    assert!(
        reported[1].starts_with("IPv6, 84 B: 900.2 kpps, 899.1 kpps to 900.9 kpps"),
        "{reported:?}"
    );
    assert!(
        reported[2].starts_with("512 B, plain, IPv4"),
        "{reported:?}"
    );
    // in every format, and once
    let all = charts(&[run(&own)]);
    assert_eq!(all.iter().filter(|one| one.name == "families").count(), 1);
    assert!(svg::draw(&chart).contains("IPv6, 84 B"));
    let script = gnuplot::files(&all);
    assert!(
        script.iter().any(|(name, _)| name.contains("families")),
        "{script:?}"
    );
    let page = html::pages(&[run(&own), run(&own)], None, ShownFacts::Brief);
    assert!(page.contains("IPv4 next to IPv6"));
    // with one family there is no comparison
    own.summary.test_cases.truncate(4);
    assert!(families(&[run(&own)]).is_none());
}

/// A sweep over rules, each of which adds `rule_ns` nanoseconds to a microsecond.
fn sweep_of(own: &mut common::Run, rule_ns: f64, cost: Option<Cost>) {
    let points = [0_u64, 10, 100].map(|value| {
        let pps = 1e9 / (1000.0 + rule_ns * value as f64);
        SweepPoint {
            value,
            runs_pps: vec![pps],
            median_pps: Some(pps),
            interval_pps: None,
            percent_of_reference: None,
        }
    });
    let case = &mut own.summary.test_cases[0];
    let outcome = Outcome {
        found: Found::Sweep(Sweep {
            parameter: "rules".into(),
            inner: "mrr".into(),
            points: points.into(),
            reference_pps: Vec::new(),
            cost,
        }),
        ..case.outcomes[0].clone()
    };
    case.outcomes = vec![outcome];
}

#[test]
fn sweeps_have_a_reference_a_cost_per_unit_and_a_ceiling() {
    let mut own = two_ramps(["a", "b"]);
    own.summary.procedure = "sweep".into();
    own.summary.test_cases.truncate(1);
    sweep_of(&mut own, 20.0, None);
    let curves = |all: &[Chart], title: &str| -> Vec<Curve> {
        let found = all.iter().find(|chart| chart.title.contains(title));
        match found.map(|chart| &chart.plot) {
            Some(Plot::Curves(curves)) => curves.curves.clone(),
            other => panic!("{title}: {other:?}"),
        }
    };
    let named = |curves: &[Curve], name: &str| -> Vec<(f64, f64)> {
        let found = curves.iter().find(|curve| curve.name == name);
        found
            .unwrap_or_else(|| panic!("{name}: {curves:?}"))
            .points
            .clone()
    };
    let all = charts(&[run(&own)]);
    // 1 Gbit/s carries 1.202 Mpps of 84 bytes
    let line = named(&curves(&all, "Forwarding rate"), "line rate 1G");
    assert!(
        line.iter().all(|(_, pps)| (pps - 1_201_923.0).abs() < 1.0),
        "{line:?}"
    );
    let costs = named(&curves(&all, "Time per frame"), "linear reference");
    assert_eq!(costs, [(0.0, 1000.0), (100.0, 3000.0)]);
    let rest = named(&curves(&all, "Distance from a straight line"), "84 B");
    assert!(
        rest.len() == 3 && rest.iter().all(|(_, ns)| ns.abs() < 1e-6),
        "{rest:?}"
    );
    // a line far above the values would compress them
    own.info.facts.link = Some("10 Gbit/s".into());
    let all = charts(&[run(&own)]);
    let rates = curves(&all, "Forwarding rate");
    assert!(
        rates
            .iter()
            .all(|curve| !curve.name.starts_with("line rate"))
    );
    // several systems share one graph, each with its reference
    let mut other = two_ramps(["a", "b"]);
    other.summary.test_cases.truncate(1);
    sweep_of(&mut other, 5.0, None);
    let two = [
        Run {
            name: "old",
            ..run(&own)
        },
        Run {
            name: "new",
            ..run(&other)
        },
    ];
    let together = sweeps(&two);
    assert_eq!(together.len(), 3);
    let shared = curves(&together, "Time per frame");
    let names: Vec<&str> = shared.iter().map(|curve| &curve.name[..]).collect();
    assert_eq!(
        names,
        [
            "old",
            "old, linear reference",
            "new",
            "new, linear reference"
        ]
    );
    assert!(sweeps(&two[..1]).is_empty());
}

/// The case of a bug report: sixteen cores, of which the last eight bring little, and a flat
/// reference.
#[test]
fn cores_are_judged_by_their_speed_up() {
    let mut own = two_ramps(["a", "b"]);
    own.summary.procedure = "sweep".into();
    own.summary.test_cases.truncate(1);
    let point = |(value, pps): (u64, f64)| SweepPoint {
        value,
        runs_pps: vec![pps],
        median_pps: Some(pps),
        interval_pps: None,
        percent_of_reference: None,
    };
    let case = &mut own.summary.test_cases[0];
    case.outcomes[0].found = Found::Sweep(Sweep {
        parameter: "cores".into(),
        inner: "mrr".into(),
        points: [(1, 1e6), (8, 7e6), (16, 8e6)].map(point).into(),
        reference_pps: Vec::new(),
        cost: Some(Cost::Constant { frame_ns: 0.0 }),
    });
    let text = text::with_charts(&run(&own))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let page = html::page(&Run::new(&own.info, &own.summary), ShownFacts::Brief);
    for said in [&text, &markdown::summary(&own.info, &own.summary), &page] {
        for words in [
            "16 cores forward 8.00 times",
            "efficiency 50",
            "8 to 16: +14.3",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        for words in ["cost of one", "per unit", "Time per frame"] {
            assert!(!said.contains(words), "{words}: {said}");
        }
    }
    let all = charts(&[run(&own)]);
    let [chart] = &all[..] else { panic!("{all:?}") };
    let Plot::Curves(curves) = &chart.plot else {
        panic!("{chart:?}")
    };
    let linear = curves
        .curves
        .iter()
        .find(|curve| curve.name == "linear reference");
    assert_eq!(
        linear.unwrap().points,
        [(1.0, 1e6), (8.0, 8e6), (16.0, 16e6)]
    );
}

/// A model that does not fit the points does not have a single cost: each stretch has its own, in
/// the answer and in the table.
#[test]
fn a_nonlinear_cost_is_reported() {
    let mut own = two_ramps(["a", "b"]);
    own.summary.procedure = "sweep".into();
    own.summary.test_cases.truncate(1);
    let stretch = |from, to, unit_ns: f64| Stretch {
        from,
        to,
        unit_ns,
        unit_ns_interval: (unit_ns - 0.5, unit_ns + 0.5),
    };
    let stretches = vec![stretch(0, 25, 20.0), stretch(25, 100, 30.0)];
    sweep_of(
        &mut own,
        20.0,
        Some(Cost::Stretches {
            frame_ns: 800.0,
            stretches,
        }),
    );
    let text = text::with_charts(&run(&own))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let page = html::page(&Run::new(&own.info, &own.summary), ShownFacts::Brief);
    for said in [&text, &markdown::summary(&own.info, &own.summary), &page] {
        let words = "not linear: 20.00 ns each (19.50 to 20.50) from 0 to 25, 30.00 ns each (29.50 to 30.50) from 25 to 100";
        assert!(said.contains(words), "{said}");
        assert!(!said.contains("cost of one"), "{said}");
    }
}

/// Exit code 5 is explained in the first line and below it.
#[test]
fn a_test_case_that_is_too_noisy_has_a_reason() {
    let mut own = two_ramps(["a", "b"]);
    let reason = "loss begins: known only to \u{b1}41 %";
    own.summary.test_cases[0].doubt = Some(reason.into());
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(text::with_charts(&run(&own)));
    let page = html::page(&Run::new(&own.info, &own.summary), ShownFacts::Brief);
    for said in [
        text,
        words(markdown::summary(&own.info, &own.summary)),
        words(page),
    ] {
        let said = said.replace('\u{a0}', " ");
        assert!(said.contains("Too noisy to tell: a, loss begins"), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}
