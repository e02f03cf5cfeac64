//! `fwdlab report`: every format is what other programs read, and says what the run found.
//!
//! The readers are not ours: gnuplot, ministat, Python's XML and zlib. Runs are simulated, so that figures are the same everywhere.
//! Start with [`every_format_is_written_and_read`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Lab, skipped, tool, try_tool};

/// Two rates, thresholds, reference lines: a campaign that takes no time.
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

/// A ramp of a DUT with this capacity; gives back the run.
fn ramp(lab: &Lab, capacity: &str) -> String {
    let dut = format!("capacity={capacity},link=1Gbps");
    let line = "ramp --engine sim --target 1.4Mpps --ramp 40s --warm-up 2s --hold 5s --dut";
    let words: Vec<&str> = line.split(' ').chain([dut.as_str()]).collect();
    let document = lab.json(&words);
    document["info"]["id"].as_str().unwrap().to_owned()
}

/// The files of a directory with this ending, by name.
fn ending(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = all
        .filter(|path| path.extension().is_some_and(|own| own == ending))
        .collect();
    all.sort();
    all
}

fn names(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|path| path.to_str().unwrap()).collect()
}

#[test]
fn every_format_is_written_and_read() {
    let lab = Lab::new();
    let file = lab.path().join("campaign.toml");
    fs::write(&file, CAMPAIGN).unwrap();
    lab.run(&["run", file.to_str().unwrap()]).measured();
    ramp(&lab, "1e6");
    let dir = lab.path().join("all");
    let out = dir.to_str().unwrap();
    let formats =
        "html,text,markdown,ministat,gnuplot,csv,json,junit,svg,png,loadtest,github,prometheus";
    lab.run(&[
        "report",
        "@2",
        "@1",
        "--format",
        formats,
        "--model",
        "debian",
        "-o",
        &format!("{out}/"),
    ])
    .code(0);
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();

    // a chart for the campaign, and what a ramp has
    let pictures = ending(&dir, "svg");
    assert!(pictures.len() >= 4, "{pictures:?}");
    assert_eq!(ending(&dir, "png").len(), pictures.len());
    assert_eq!(ending(&dir, "plt").len(), pictures.len());
    well_formed(
        &[
            names(&pictures),
            vec![dir.join("junit.xml").to_str().unwrap()],
        ]
        .concat(),
    );
    for picture in &pictures {
        let text = fs::read_to_string(picture).unwrap();
        for active in ["<script", "<foreignObject", "href", "onload"] {
            assert!(!text.contains(active), "{}: {active}", picture.display());
        }
    }
    whole_png(&names(&ending(&dir, "png")));
    gnuplot_draws(&dir);
    ministat_agrees(&read("ministat.txt"), &dir);

    // what is linked is there
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

    // the same figure everywhere
    let runs: Vec<Value> = serde_json::from_str(&read("report.json")).unwrap();
    let figure = &runs[0]["test_cases"][0]["figures"][0];
    let median = figure["median"].as_f64().unwrap();
    let plain = format!("{median}");
    let prometheus = read("metrics.prom");
    assert!(
        prometheus.contains(&format!(" {plain}\n")),
        "{plain}\n{prometheus}"
    );
    let id = runs[0]["info"]["id"].as_str().unwrap();
    assert!(read(&format!("{id}.csv")).contains(&plain));
    let people = format!("{:.3} Mpps", median / 1e6);
    for name in [
        "report.html",
        "report.txt",
        "report.md",
        "summary.md",
        "junit.xml",
    ] {
        let text = read(name).replace('\u{a0}', " ");
        assert!(text.contains(&people), "{name}: {people}");
    }
    assert!(
        read("junit.xml").contains("tests=\"6\""),
        "{}",
        read("junit.xml")
    );
}

/// Python's parser reads them.
#[track_caller]
fn well_formed(files: &[&str]) {
    let program =
        "import sys, xml.etree.ElementTree as tree\nfor name in sys.argv[1:]: tree.parse(name)";
    tool(&[&["python3", "-c", program], files].concat());
}

/// The parts of each file have their checksums, and what they hold is as long as the picture is large.
#[track_caller]
fn whole_png(files: &[&str]) {
    let program = r#"
import struct, sys, zlib
for name in sys.argv[1:]:
    data = open(name, "rb").read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", name
    at, held, head = 8, b"", None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at+8])
        body = data[at+8:at+8+size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at+8+size:at+12+size])[0], name
        if kind == b"IHDR": head = struct.unpack(">IIBBBBB", body)
        if kind == b"IDAT": held += body
        at += 12 + size
    wide, tall, depth, colour = head[:4]
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    assert len(zlib.decompress(held)) == tall * (1 + (wide * channels * depth + 7) // 8), name
    assert wide >= 900, name
"#;
    tool(&[&["python3", "-c", program], files].concat());
}

/// Every script runs without a word and makes its picture.
fn gnuplot_draws(dir: &Path) {
    if try_tool(&["gnuplot", "--version"]).is_err() {
        skipped(
            "report::gnuplot_draws",
            "gnuplot is not installed; apt-get install gnuplot-nox",
        );
        return;
    }
    for script in ending(dir, "plt") {
        let picture = script.with_extension("png");
        fs::remove_file(&picture).unwrap();
        let output = Command::new("gnuplot")
            .arg(script.file_name().unwrap())
            .current_dir(dir)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", script.display());
        assert_eq!(said, "", "{}", script.display());
        assert!(picture.is_file(), "{}", script.display());
    }
}

/// Debian's ministat prints the blocks of its generation to the byte, from the files beside them.
fn ministat_agrees(text: &str, dir: &Path) {
    assert!(text.contains("$ ministat -w 74 "), "{text}");
    if try_tool(&["ministat", "-h"]).is_err_and(|why| why.contains("No such file")) {
        skipped(
            "report::ministat_agrees",
            "ministat is not installed; apt-get install ministat",
        );
        return;
    }
    for block in text.split("# ").skip(1) {
        let (command, printed) = block
            .split_once("\n$ ")
            .unwrap()
            .1
            .split_once('\n')
            .unwrap();
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(dir)
            .output()
            .unwrap();
        let theirs = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.trim_end(), theirs.trim_end(), "{command}");
    }
}

#[test]
fn ramps_leave_as_load_tests_and_come_back_with_the_same_figures() {
    let lab = Lab::new();
    let (fast, slow) = (ramp(&lab, "1.3e6"), ramp(&lab, "1e6"));
    lab.run(&["runs", "tag", &fast, "fast"]).code(0);
    let out = lab.path().join("tests");
    let dir = format!("{}/", out.display());
    lab.run(&["report", &fast, &slow, "--format", "loadtest", "-o", &dir])
        .code(0);
    let files = ending(&out, "json");
    assert_eq!(files.len(), 2);
    for file in &files {
        let test: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        for second in test["stats"].as_object().unwrap().values() {
            // the viewer divides by what each port sent, and writes no page of what is no number
            let mut ports = second.as_object().unwrap().values();
            assert!(
                ports.all(|port| port["tx_pps"].as_f64().unwrap() > 0.0),
                "{second}"
            );
        }
    }
    let arguments = [
        &["import", "loadtest", "--title", "two"],
        &names(&files)[..],
    ]
    .concat();
    let imported = lab.run(&[&arguments[..], &["--json"]].concat());
    imported.code(0);
    let imported: Value = serde_json::from_str(&imported.out).unwrap();
    let id = imported["run"].as_str().unwrap();
    assert!(id.contains("two"), "{id}");
    let shown = |id: &str| -> Value {
        serde_json::from_str(&lab.run(&["runs", "show", id, "--json"]).code(0).out).unwrap()
    };
    let back = shown(id);
    // the silent way is left out; the one that fills more of its link is first
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
        let told = after["max_line_percent"].as_f64().unwrap();
        assert!((told - share).abs() < 0.01, "{told} {share}");
    }
    // and leaves again as it came
    let again = lab.path().join("again");
    let dir = format!("{}/", again.display());
    lab.run(&["report", id, "--format", "loadtest", "-o", &dir])
        .code(0);
    let seconds = |path: &Path| -> Value {
        let test: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        test["stats"].as_object().unwrap().len().into()
    };
    let second = ending(&again, "json");
    assert_eq!(second.len(), 2);
    assert_eq!(seconds(&second[0]), seconds(&files[0]));
    // both in one graph, under the names people gave
    let page = lab.run(&["report", &fast, &slow, "-o", "-"]);
    page.code(0).prints(&[
        "Forwarded over time, 64 B",
        ">fast<",
        "line rate of 1 Gbit/s missed by",
    ]);
}

/// Each direction is a channel with its own counts; what the DUT lost of one is not said of the other.
#[test]
fn a_ramp_in_both_directions_is_a_load_test_of_two_channels() {
    let lab = Lab::new();
    let line =
        "ramp --engine sim --target 1.4Mpps --ramp 20s --warm-up 2s --hold 2s --both-directions";
    let words: Vec<&str> = line.split(' ').collect();
    let document = lab.json(&[&words[..], &["--dut", "capacity=1e6,loss=1e-4,seed=3"]].concat());
    let directions = &document["trials"][0]["directions"];
    let out = lab.path().join("tests");
    let dir = format!("{}/", out.display());
    lab.run(&["report", "@1", "--format", "loadtest", "-o", &dir])
        .code(0);
    lab.run(&["runs", "verify", "@1"])
        .code(0)
        .prints(&["intact"]);
    let file = fs::read_to_string(&ending(&out, "json")[0]).unwrap();
    let test: Value = serde_json::from_str(&file).unwrap();
    let sum = |port: &str, counter: &str| -> f64 {
        let seconds = test["stats"].as_object().unwrap().values();
        seconds.map(|s| s[port][counter].as_f64().unwrap()).sum()
    };
    for (way, from, to) in [(0, "0", "1"), (1, "1", "0")] {
        let is = |name: &str| directions[way][name].as_f64().unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 2.0;
        assert!(
            near(sum(from, "tx_pps"), is("frames_sent")),
            "{way}: {file}"
        );
        let received = sum(to, "rx_pps");
        // what was still in a buffer at the end came in no second
        let missing = is("frames_received") - received;
        assert!((-2.0..5000.0).contains(&missing), "{way}: {missing}");
    }
    lab.run(&[
        "import",
        "loadtest",
        ending(&out, "json")[0].to_str().unwrap(),
    ])
    .code(0)
    .prints(&["0\u{2192}1", "1\u{2192}0"]);
}

#[test]
fn what_is_no_load_test_is_refused_with_its_name() {
    let lab = Lab::new();
    let file = lab.path().join("x.json");
    let path = file.to_str().unwrap();
    for (text, why) in [
        ("[]", "no load test"),
        ("{\"vars\": {}, \"stats\": {}}", "no entries"),
    ] {
        fs::write(&file, text).unwrap();
        lab.run(&["import", "loadtest", path])
            .code(2)
            .says(&["x.json", why]);
    }
    for wrong in [&["--only-channels", "2"], &["--fail-threshold", "7"]] {
        lab.run(&[&["import", "loadtest", path], &wrong[..]].concat())
            .code(2);
    }
    assert!(!lab.runs().exists() || fs::read_dir(lab.runs()).unwrap().next().is_none());
}

#[test]
fn several_files_want_a_directory_and_a_run_without_a_result_is_named() {
    let lab = Lab::new();
    let run = ramp(&lab, "1e6");
    lab.run(&["report", &run, "--format", "svg"])
        .code(2)
        .says(&["-o DIR/"]);
    lab.run(&["report", "nothing"]).code(2).says(&["nothing"]);
    // ministat refuses fewer than three values, and so nothing is written
    let file = lab.path().join("m.txt");
    lab.run(&[
        "report",
        &run,
        "--format",
        "ministat",
        "-o",
        file.to_str().unwrap(),
    ])
    .code(0)
    .says(&["nothing for --format ministat"]);
    assert!(!file.exists());
}
