//! `fwdlab report`: other programs can read every format, and it has the figures of the run.
//!
//! The readers are gnuplot and ministat. Runs are simulated, so that figures are the same
//! everywhere. Start with [`every_format_is_written_and_read`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Lab, command_result, directories, id_of, read_json, skipped, try_tool};

/// A fast campaign with two sizes and a threshold.
const CAMPAIGN: &str = r#"
campaign = "report"
iterations = 5
seed = 7
[bed]
engine = "sim"
dut = "capacity=1e6,noise=0.01,link=1Gbps"
[matrix]
size = [64, 512]
[procedure]
id = "mrr"
[[threshold]]
case = "plain/64B-*"
at-least = "50kpps"
"#;

/// Runs a ramp on a DUT with this capacity. Returns the run.
fn ramp(lab: &Lab, capacity: &str) -> String {
    let document = lab.json(&format!(
        "ramp --engine sim --target 1.4Mpps --ramp 40s --warm-up 2s --hold 5s --dut capacity={capacity},link=1Gbps"
    ));
    id_of(&document)
}

/// Reports runs in these formats, to a new directory.
fn report(lab: &Lab, runs: &[&str], formats: &str, name: &str) -> PathBuf {
    let runs = runs.join(" ");
    let line = format!("report {runs} --format {formats} --model debian -o {name}/");
    lab.run(&line).code(0);
    lab.path().join(name)
}

/// Returns the files in a directory with this extension, by name.
fn ending(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut all = directories(dir);
    all.retain(|path| path.extension().is_some_and(|own| own == ending));
    all
}

fn names(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|path| path.to_str().unwrap()).collect()
}

#[test]
fn every_format_is_written_and_read() {
    let lab = Lab::new();
    lab.campaign(CAMPAIGN).measured();
    ramp(&lab, "1e6");
    let formats = "html,text,markdown,ministat,gnuplot,csv,json,junit,svg,loadtest,github,prometheus,bencher,benchmark";
    let dir = report(&lab, &["@2", "@1"], formats, "all");
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();

    // one chart for the campaign, and those of a ramp
    let pictures = ending(&dir, "svg");
    assert!(pictures.len() >= 4, "{pictures:?}");
    assert_eq!(ending(&dir, "plt").len(), pictures.len());
    gnuplot_draws(&dir);
    ministat_agrees(&read("ministat.txt"), &dir);
    // only the campaign's chart, because each takes a second to draw
    let png = ending(&report(&lab, &["@2"], "png", "png"), "png");
    assert_eq!(png.len(), 1);
    let bytes = fs::read(&png[0]).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"));
    let wide = u32::from_be_bytes(bytes[16..20].try_into().unwrap());
    assert!(wide >= 900, "{wide}");

    // the targets of links exist
    let markdown = read("report.md");
    let linked: Vec<&str> = markdown
        .split("](")
        .skip(1)
        .map(|rest| rest.split_once(')').unwrap().0)
        .collect();
    assert_eq!(linked.len(), pictures.len());
    assert!(
        linked.iter().all(|name| dir.join(name).is_file()),
        "{linked:?}"
    );

    // the same figure in all formats
    let runs = read_json(&dir.join("report.json"));
    let median = runs[0]["test_cases"][0]["figures"][0]["median"]
        .as_f64()
        .unwrap();
    let id = runs[0]["info"]["id"].as_str().unwrap();
    let people = format!("{:.3} Mpps", median / 1e6);
    for (name, figure) in [
        ("metrics.prom", &*format!(" {median}\n")),
        (&*format!("{id}.csv"), &*median.to_string()),
        ("report.html", &*people),
        ("report.txt", &*people),
        ("report.md", &*people),
        ("summary.md", &*people),
        ("junit.xml", &*people),
        ("junit.xml", "tests=\"6\""),
        ("benchmark.json", &format!(" {median}")),
    ] {
        let text = read(name).replace('\u{a0}', " ");
        assert!(text.contains(figure), "{name}: {figure}: {text}");
    }
    // the schema of Bencher: a name, a measure, a value between lower and upper
    let bencher = read_json(&dir.join("bencher.json"));
    let case = runs[0]["test_cases"][0]["test_case"].as_str().unwrap();
    let own = bencher.as_object().unwrap().iter();
    let (_, measures) = own.clone().find(|(name, _)| name.ends_with(case)).unwrap();
    let [lower, value, upper] = ["lower_value", "value", "upper_value"]
        .map(|key| measures["receive-rate"][key].as_f64().unwrap());
    assert_eq!(value, median);
    assert!(lower < upper, "{measures}");
    assert_eq!(own.count(), 3, "two test cases and a ramp");

    // throughput and latency: larger is better, and smaller
    lab.run(
        "rfc2544 --engine sim --dut capacity=1e6,link=1Gbps --sizes 64 --tests throughput,latency",
    )
    .code(0);
    let refused = lab.run("report @1 --format benchmark");
    refused.code(2).says(&["because smaller values"]);
}

/// Every script runs without output and draws its chart.
fn gnuplot_draws(dir: &Path) {
    if try_tool(&["gnuplot", "--version"]).is_err() {
        skipped("gnuplot is not installed; apt-get install gnuplot-nox");
        return;
    }
    for script in ending(dir, "plt") {
        let mut command = Command::new("gnuplot");
        let drawn = command_result(command.arg(&script).current_dir(dir).output().unwrap());
        assert_eq!(drawn.code(0).err, "", "{}", script.display());
        assert!(script.with_extension("png").is_file(), "{drawn:?}");
    }
}

/// Debian's ministat prints the same blocks, to the byte, from the files next to them.
fn ministat_agrees(text: &str, dir: &Path) {
    assert!(text.contains("$ ministat -w 74 "), "{text}");
    if try_tool(&["ministat", "-h"]).is_err_and(|reason| reason.contains("No such file")) {
        skipped("ministat is not installed; apt-get install ministat");
        return;
    }
    for block in text.split("# ").skip(1) {
        let (_, shown) = block.split_once("\n$ ").unwrap();
        let (command, printed) = shown.split_once('\n').unwrap();
        let mut shell = Command::new("sh");
        let theirs = command_result(
            shell
                .args(["-c", command])
                .current_dir(dir)
                .output()
                .unwrap(),
        )
        .out;
        assert_eq!(printed.trim_end(), theirs.trim_end(), "{command}");
    }
}

#[test]
fn ramps_leave_as_load_tests_and_come_back_with_the_same_figures() {
    let lab = Lab::new();
    let (fast, slow) = (ramp(&lab, "1.3e6"), ramp(&lab, "1e6"));
    lab.run(&["runs", "tag", &fast, "fast"]).code(0);
    let files = report(&lab, &[&fast, &slow], "loadtest", "tests");
    let files = ending(&files, "json");
    assert_eq!(files.len(), 2);
    for file in &files {
        for second in read_json(file)["stats"].as_object().unwrap().values() {
            // the viewer divides by what each port sent, and cannot show values that are not
            // numbers
            let mut ports = second.as_object().unwrap().values();
            assert!(
                ports.all(|port| port["tx_pps"].as_f64().unwrap() > 0.0),
                "{second}"
            );
        }
    }
    let options = ["import", "loadtest", "--title", "two", "--json"];
    let imported = lab.run(&[&options, &names(&files)[..]].concat());
    let imported = imported.code(0).document();
    let id = imported["run"].as_str().unwrap();
    assert!(id.contains("two"), "{id}");
    let shown = |id: &str| -> Value { lab.run(&["runs", "show", id, "--json"]).code(0).document() };
    let back = shown(id);
    // omits the silent direction; the ramp that fills more of its link comes first
    let cases = back["test_cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for (case, run) in cases.iter().zip([&fast, &slow]) {
        let before = &shown(run)["test_cases"][0]["outcomes"][0]["found"];
        let after = &case["outcomes"][0]["found"];
        for figure in ["max_ok_pps", "max_forwarding_rate_pps"] {
            let [before, after] = [before, after].map(|found| found[figure].as_f64().unwrap());
            assert!((before - after).abs() < 1.0, "{figure}: {before} {after}");
        }
        let line_rate = 1e9 / 8.0 / 84.0;
        let share = after["max_forwarding_rate_pps"].as_f64().unwrap() / line_rate * 100.0;
        let reported = after["max_line_percent"].as_f64().unwrap();
        assert!((reported - share).abs() < 0.01, "{reported} {share}");
    }
    // the export equals the imported file
    let again = ending(&report(&lab, &[id], "loadtest", "again"), "json");
    assert_eq!(again.len(), 2);
    let seconds = |path: &Path| read_json(path)["stats"].as_object().unwrap().len();
    assert_eq!(seconds(&again[0]), seconds(&files[0]));
    // both in one graph, under the names of the tags
    let page = lab.run(&["report", &fast, &slow, "-o", "-"]);
    page.code(0).prints(&[
        "Forwarded over time, 64 B",
        ">fast<",
        "line rate of 1 Gbit/s missed by",
    ]);
}

/// Each direction is a channel with its own counts; the DUT's losses in one do not appear in the
/// other.
#[test]
fn a_ramp_in_both_directions_is_a_load_test_of_two_channels() {
    let lab = Lab::new();
    let line = "ramp --engine sim --target 1.4Mpps --ramp 20s --warm-up 2s --hold 2s --both-directions \
                --dut capacity=1e6,loss=1e-4,seed=3";
    let document = lab.json(line);
    lab.run("runs verify @1").code(0).prints(&["intact"]);
    let files = ending(&report(&lab, &["@1"], "loadtest", "tests"), "json");
    let test = read_json(&files[0]);
    let sum = |port: &str, counter: &str| -> f64 {
        let seconds = test["stats"].as_object().unwrap().values();
        seconds.map(|s| s[port][counter].as_f64().unwrap()).sum()
    };
    for (way, from, to) in [(0, "0", "1"), (1, "1", "0")] {
        let direction = &document["trials"][0]["directions"][way];
        let is = |name: &str| direction[name].as_f64().unwrap();
        let difference = is("frames_sent") - sum(from, "tx_pps");
        assert!(difference.abs() < 2.0, "{way}: {difference}");
        // frames still in a buffer at the end were received in no second
        let missing = is("frames_received") - sum(to, "rx_pps");
        assert!((-2.0..5000.0).contains(&missing), "{way}: {missing}");
    }
    lab.run(&[&["import", "loadtest"], &names(&files)[..]].concat())
        .code(0)
        .prints(&["0\u{2192}1", "1\u{2192}0"]);
}

#[test]
fn impossible_exports_and_imports_are_refused() {
    let lab = Lab::new();
    let run = ramp(&lab, "1e6");
    lab.run(&["report", &run, "--format", "svg"])
        .code(2)
        .says(&["-o DIR/"]);
    // ministat refuses fewer than three values, so no file is written
    let file = lab.path().join("x.json");
    let path = file.to_str().unwrap();
    lab.run(&["report", &run, "--format", "ministat", "-o", path])
        .code(0)
        .says(&["nothing for --format ministat"]);
    assert!(!file.exists());
    fs::write(&file, "[]").unwrap();
    let import = ["import", "loadtest", path];
    lab.run(&import)
        .code(2)
        .says(&["x.json", "not a load test"]);
    for wrong in [["--only-channels", "2"], ["--fail-threshold", "7"]] {
        lab.run(&[&import[..], &wrong].concat()).code(2);
    }
    lab.only_run();
}
