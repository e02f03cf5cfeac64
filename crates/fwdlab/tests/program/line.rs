//! `--link`: line rates where the links have none, counted from outside by the ports; what is said of them, and what is refused.

use std::fs;

use serde_json::Value;

use crate::support::{
    Lab, TINY, all_outcomes, count, dropped, list, number, passed, root, skipped,
};

/// Frames of 64 bytes that fill 100 Mbit/s: 100e6 / ((64 + 20) * 8) (RFC 2544 App. B).
const FULL_PPS: f64 = 148_809.523_8;

const SIM: &[&str] = &["--engine", "sim"];

fn outcome<'a>(document: &'a Value, procedure: &str) -> &'a Value {
    let mut all = all_outcomes(document).into_iter();
    all.find(|outcome| outcome["procedure"] == procedure)
        .unwrap_or_else(|| panic!("no {procedure}: {document}"))
}

/// The largest load that a trial was asked for.
fn peak_pps(trial: &Value) -> f64 {
    let stretches = list(&trial["asked"]["question"]["stretches"]).iter();
    let ends = stretches.flat_map(|s| [number(&s["from_pps"]), number(&s["to_pps"])]);
    ends.fold(0.0, f64::max)
}

/// Theoretical rates of 1 Gbit/s (docs/methodology.md, "Units and line rates"); the link may be
/// said in both places.
#[test]
fn tables_of_rfc2544_have_the_theoretical_maximum() {
    let lab = Lab::new();
    let line = [
        "rfc2544",
        "--sizes",
        "64,512,1518",
        "--tests",
        "throughput,frame-loss",
        "--resolution",
        "0.1",
    ];
    let dut = ["--dut", "capacity=744047", "--link", "1G"];
    let text = lab.run(&[&line[..], SIM, &dut].concat());
    let said = text
        .code(0)
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for words in [
        "64 B 1.488 Mpps",
        "512 B 235.0 kpps 235.0 kpps 100 %",
        "1518 B 81.27 kpps 81.27 kpps 100 %",
        "no loss at line rate",
        "link simulated link 1 Gbit/s",
    ] {
        assert!(said.contains(words), "`{words}` is not in:\n{}", text.out);
    }
    let one = lab.json(&[&line[..], SIM, &dut].concat());
    // 744,047 is half of 1,488,095
    let found = &outcome(&one, "throughput")["found"];
    assert_eq!(number(&found["line_rate_pps"]).floor(), 1_488_095.0);
    assert!((number(&found["percent"]) - 50.0).abs() < 0.1, "{found}");
    for trial in list(&one["trials"]) {
        let line = 1e9 / (8.0 * (number(&trial["frame_size_bytes"]) + 20.0));
        assert!(peak_pps(trial) <= line + 1e-6, "{trial}");
    }
    let dut = ["--dut", "capacity=744047,link=1Gbps"];
    let other = lab.json(&[&line[..], SIM, &dut].concat());
    assert_eq!(all_outcomes(&one), all_outcomes(&other));
    let dut = ["--dut", "capacity=744047,link=1Gbps", "--link", "1G"];
    let again = lab.json(&[&line[..], SIM, &dut].concat());
    assert_eq!(all_outcomes(&one), all_outcomes(&again));
    // a tester that cannot fill the line says so, and what is in percent stays of the line
    let dut = ["--dut", "generator=1e5", "--link", "1G"];
    let short = lab.json(&[&line[..], SIM, &dut].concat());
    let found = &outcome(&short, "throughput")["found"];
    assert_eq!(
        (number(&found["max_load_pps"]), &found["tester_bound"]),
        (1e5, &true.into())
    );
    assert!((number(&found["percent"]) - 6.72).abs() < 1e-6, "{found}");
}

/// In a search the line is the largest load, and what is kept and shown names it.
#[test]
fn a_search_ends_at_the_line() {
    let lab = Lab::new();
    let line = [
        "ndr",
        "--dut",
        "capacity=1e6",
        "--link",
        "100M",
        "--min",
        "1%",
        "--goals",
        "ndr",
    ];
    let document = lab.json(&[&line[..], SIM].concat());
    let search = &all_outcomes(&document)[0]["found"];
    assert_eq!(number(&search["max_load_pps"]).floor(), FULL_PPS.floor());
    assert_eq!(number(&search["min_load_pps"]).round(), 1488.0);
    assert_eq!(
        search["max_load_source"],
        "the line rate of the simulated link 100 Mbit/s"
    );
    assert_eq!(document["info"]["parameters"]["link_bps"], 100_000_000);
    let page = fs::read_to_string(lab.only_run().join("report.html")).unwrap();
    assert!(page.contains("simulated link 100 Mbit/s"));
    let shown = lab.run(&["runs", "show", "@1", "--format", "markdown"]);
    assert!(
        shown
            .code(0)
            .out
            .contains("link: simulated link 100 Mbit/s"),
        "{}",
        shown.out
    );
}

#[test]
fn loads_that_no_line_carries_are_refused_before_any_traffic() {
    let lab = Lab::new();
    const NO_LINK: &str = "50% needs a link speed, and these links are virtual: add --link 1G";
    const ABOVE: &str =
        "more than the emulated link 100 Mbit/s carries: 148810 frames per second of 64 bytes";
    for (line, words) in [
        ("trial --load 50%", NO_LINK),
        ("trial --engine sim --load 50%", NO_LINK),
        ("trial --max 50%", NO_LINK),
        ("ramp --max 1Mpps --target 50%", NO_LINK),
        ("soak --load 50%", NO_LINK),
        ("ndr --max 50%", NO_LINK),
        ("ndr --min 50%", NO_LINK),
        ("rfc2544 --max 50%", NO_LINK),
        ("quick --load 50%", NO_LINK),
        ("trial --link 100M --load 200%", ABOVE),
        ("trial --link 100M --load 1Mpps", ABOVE),
        ("trial --link 100M --max 1Mpps", ABOVE),
        ("ramp --link 100M --target 101%", ABOVE),
        ("soak --link 100M --load 150kpps", ABOVE),
        ("soak --link 100M --min 150kpps", ABOVE),
        ("ndr --link 100M --max 148810", ABOVE),
        ("rfc2544 --link 100M --max 1Gbps", ABOVE),
        ("quick --link 100M --size 64 --load 150kpps", ABOVE),
        (
            "rfc2544 --link 100M --max 148kpps",
            "84459 frames per second of 128 bytes",
        ),
        (
            "trial --engine sim --link 100M --max 1Mpps",
            "more than the simulated link 100 Mbit/s carries",
        ),
        (
            "trial --engine sim --dut link=1G --link 10G",
            "the link is 10G, but link= of the simulated DUT is 1G",
        ),
        ("trial --link 100", "for example 1G, 2.5G or 100M"),
    ] {
        let words_of: Vec<&str> = line.split(' ').collect();
        let ended = lab.run(&words_of);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        ended.says(&[words]);
    }
    assert!(!lab.runs().exists() || fs::read_dir(lab.runs()).unwrap().next().is_none());
}

#[test]
fn campaigns_have_the_same_link() {
    let lab = Lab::new();
    let path = lab.path().join("c.toml");
    let file = path.to_str().unwrap();
    let write = |text: &str| fs::write(&path, text).unwrap();
    let bed = "campaign = 'c'\niterations = 1\n[bed]\nengine = 'sim'\nlink = '100M'\n";
    let matrix = "[matrix]\nsize = [64, 1518]\n";
    write(&format!(
        "{bed}{matrix}[procedure]\nid = 'trial'\nload = '50%'\nfor = '1s'\n"
    ));
    let document = lab.json(&["run", file]);
    let mut loads: Vec<f64> = (list(&document["trials"]).iter())
        .map(|trial| number(&trial["intended_load_pps"]).round())
        .collect();
    loads.sort_by(f64::total_cmp);
    assert_eq!(loads, [4064.0, 74_405.0]);
    assert_eq!(
        document["info"]["facts"]["link"],
        "simulated link 100 Mbit/s"
    );
    for (text, words) in [
        (
            "campaign = 'c'\n[procedure]\nid = 'trial'\nload = '50%'\n".to_owned(),
            ":4:8: the load: 50% needs a link speed",
        ),
        (
            "campaign = 'c'\n[bed]\nmax = '50%'\n[procedure]\nid = 'mrr'\n".into(),
            ":3:7: the load: 50% needs a link speed",
        ),
        (
            format!("{bed}max = '200%'\n[procedure]\nid = 'mrr'\n"),
            ":6:7: the load: 200% is more than the simulated link 100 Mbit/s carries",
        ),
        (
            format!("{bed}dut = 'link=1G'\n[procedure]\nid = 'mrr'\n"),
            ":5:8: the link is 100M, but link= of the simulated DUT is 1G",
        ),
        (
            "campaign = 'c'\n[bed]\nlink = 1\n[procedure]\nid = 'mrr'\n".into(),
            ":3:8: ",
        ),
    ] {
        write(&text);
        let ended = lab.run(&["check", file]);
        let said = format!("{}{}", ended.out, ended.err);
        assert!(ended.code == 2 && said.contains(words), "{text}: {said}");
    }
}

mod alone {
    use super::*;

    /// Half of the line is what the generator's port counts, in each direction.
    #[test]
    fn half_of_an_emulated_link_is_offered() {
        const TEST: &str = "half_of_an_emulated_link_is_offered";

        let lab = Lab::alone();
        let half = [
            "trial", "--link", "100M", "--load", "50%", "--size", "64", "--for", "2s",
        ];
        let of = |document: &Value| {
            let trial = list(&document["trials"]).last().unwrap().clone();
            let handed = passed(&trial, "generator_port") + dropped(&trial, "generator_port");
            let due = count(&trial["frames_sent"]) + count(&trial["frames_not_sent"]);
            assert_eq!(handed, count(&trial["frames_sent"]), "{trial}");
            (handed, due, document["info"]["facts"]["link"].clone())
        };
        // 74,404.76 frames per second for two seconds
        let due = FULL_PPS.round() as u64;
        let sim = of(&lab.json(&[&half[..], SIM].concat()));
        assert_eq!(sim, (due, due, "simulated link 100 Mbit/s".into()));
        let both = of(&lab.json(&[&half[..], SIM, &["--both-directions"]].concat()));
        assert_eq!((both.0, both.1), (2 * due, 2 * due));
        let mix = [
            "trial",
            "--link",
            "100M",
            "--load",
            "50%",
            "--profile",
            "imix",
            "--for",
            "2s",
        ];
        // twelve frames in 4582 bytes of the line
        let mix = of(&lab.json(&[&mix[..], SIM].concat()));
        assert_eq!(mix.1, (1e8_f64 * 12.0 / (8.0 * 4582.0)).round() as u64);

        if !root(TEST) {
            return;
        }
        let (handed, all, link) = of(&lab.json(&half));
        assert_eq!(all, due);
        assert_eq!(link, "emulated link 100 Mbit/s");
        // what the host held the sender up for is not made up
        // and a generator that fell short says so
        assert!(handed <= due, "{handed} of {due}");
        if handed * 1000 < due * 995 {
            skipped(
                TEST,
                &format!("this host held the sender up: {handed} of {due} frames"),
            );
        }
        lab.assert_clean("half of a link");
    }

    /// On the kernel of this host: 10 Mbit/s are 14,880 frames of 64 bytes per second, which it forwards.
    #[test]
    fn the_kernel_of_this_host_is_measured_on_an_emulated_link() {
        if !root("the_kernel_of_this_host_is_measured_on_an_emulated_link") {
            return;
        }
        let lab = Lab::alone();
        let line = [
            "rfc2544",
            "--sizes",
            "64",
            "--tests",
            "throughput",
            "--link",
            "10M",
            "--search",
            "200ms",
            "--trial",
            "500ms",
            "--resolution",
            "20",
        ];
        let document = lab.json(&line);
        let outcome = outcome(&document, "throughput");
        assert_eq!(number(&outcome["found"]["line_rate_pps"]).floor(), 14_880.0);
        // a host that is busy elsewhere may find none
        if let Some(pps) = outcome["found"]["throughput_pps"].as_f64() {
            let percent = 100.0 * pps / (1e7 / 672.0);
            assert!(
                (number(&outcome["found"]["percent"]) - percent).abs() < 1e-6,
                "{outcome}"
            );
        }

        let label = outcome["compliance"]["shortened"].to_string();
        assert!(
            label.contains("emulated link 10 Mbit/s, not a medium"),
            "{label}"
        );
        assert!(!label.contains("does not reach"), "{label}");
        for trial in list(&document["trials"]) {
            let ports = passed(trial, "generator_port") as f64;
            assert!(peak_pps(trial) <= 1e7 / 672.0 + 1e-6, "{trial}");
            let asked = list(&trial["asked"]["question"]["stretches"]);
            let most = 1e7 / 672.0 * number(&asked[0]["duration_ns"]) / 1e9;

            assert!(ports <= most + 1.0, "{ports} of {most}: {trial}");
        }

        let tiny = lab.json(&[TINY, &["--link", "10M"]].concat());
        for trial in list(&tiny["trials"]) {
            assert!(
                (number(&trial["intended_load_pps"]) - 1e7 / 672.0).abs() < 1e-6,
                "{trial}"
            );
        }
        lab.assert_clean("an emulated link");
    }
}
