//! `import netbenches`: an archive becomes runs that other commands know, and its audit is read by programs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{PROGRAM, skipped};

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(runs: &Path, arguments: &[&str]) -> Ended {
    let output = assert_cmd::Command::new(PROGRAM)
        .arg("--runs")
        .arg(runs)
        .args(arguments)
        .output()
        .unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// An archive of one set: two configurations, five runs each.
fn archive() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let set = root.path().join("cpu/nic/topic/results/os");
    fs::create_dir_all(&set).unwrap();
    for (case, rate) in [("fw", 4_000_000), ("none", 5_000_000)] {
        fs::write(
            set.join(format!("bench.{case}.info")),
            format!("IMAGE=\"\"\nCFG=\"{case}\"\nPKTGEN=\"\"\n"),
        )
        .unwrap();
        let mut values = String::new();
        for run in 1..=5_u64 {
            for (side, rate, from) in [
                ("receiver", rate + 1000 * run, 10),
                ("sender", 14_880_000, 10),
            ] {
                let mut text = format!(
                    "CMD: pkt-gen -N -f {side} -i cxl0 -l 60 -4 -d 198.19.10.1:2000-198.19.10.100 -s 198.18.10.1:2000-198.18.10.20\n"
                );
                text.push_str(&"009.000000 main [2512] interface is cxl0\n".repeat(8));
                for second in from..from + 60 {
                    let _ = writeln!(
                        text,
                        "{second:03}.000000 main_thread [2671] {rate} pps ({rate} pkts 1 bps in 1000000 usec) 1.0 avg_batch 0 min_space"
                    );
                }
                let word = if side == "sender" { "Sent" } else { "Received" };
                let _ = writeln!(
                    text,
                    "{word} {} packets 1 bytes 1 events 60 bytes each in 60.00 seconds.",
                    60 * rate
                );
                fs::write(set.join(format!("bench.{case}.{run}.{side}")), text).unwrap();
            }
            let _ = writeln!(values, "{}", rate + 1000 * run);
        }
        fs::write(set.join(format!("{case}.pps")), values).unwrap();
    }
    fs::write(set.join("README.md"), block()).unwrap();
    root
}

/// As FreeBSD's and Debian's ministat print it for these values.
fn block() -> &'static str {
    "```\nx fw.pps\n    N           Min           Max        Median           Avg        Stddev\n\
     x   5       4001000       4005000       4003000       4003000     1581.1388\n```\n"
}

#[test]
fn an_archive_becomes_runs() {
    let (archive, runs) = (archive(), tempfile::tempdir().unwrap());
    let path = archive.path().to_str().unwrap();
    let ended = run(runs.path(), &["import", "netbenches", path]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(
        ended.out.contains("imported") && ended.out.contains("2 test cases, 10 runs"),
        "{}",
        ended.out
    );
    assert!(
        ended.err.contains("10 receiver logs and 10 sender logs"),
        "{}",
        ended.err
    );

    let shown = run(runs.path(), &["runs", "show", "@1"]);
    for words in [
        "cpu/nic/topic/results/os",
        "fw",
        "4.003",
        "73.1 %",
        "+0.00 %",
    ] {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
    let json = run(runs.path(), &["runs", "show", "@1", "--json"]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["imported"].as_array().unwrap().len(), 10);
    assert_eq!(json["imported"][0]["flows"], 2000);
    let directory = PathBuf::from(json["directory"].as_str().unwrap());
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(
        page.contains("<svg") && page.contains("median by the archive"),
        "no plot"
    );
    assert_eq!(
        fs::read_to_string(directory.join("gnuplot.data")).unwrap(),
        "#index median minimum maximum\nfw 4003000 4001000 4005000\nnone 5003000 5001000 5005000\n"
    );
    let listed = run(runs.path(), &["runs", "ls"]);
    assert!(
        listed.out.contains("import-cpu-nic-topic-os") && listed.out.contains("4.003 Mpps"),
        "{}",
        listed.out
    );

    let again = run(runs.path(), &["import", "netbenches", path]);
    assert_eq!(again.code, Some(0));
    assert!(again.out.contains("there already"), "{}", again.out);
    let replaced = run(
        runs.path(),
        &["import", "netbenches", path, "--again", "--json"],
    );
    let replaced: Value = serde_json::from_str(&replaced.out).unwrap();
    assert_eq!(replaced["sets"][0]["result"], "replaced");
    assert_eq!(replaced["lines_unknown"], 0);
    assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 1);
    // Lines of trials.jsonl are what the schema says.
    let schema = run(runs.path(), &["schema", "imported"]);
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema.out).unwrap()).unwrap();
    for record in json["imported"].as_array().unwrap() {
        assert!(validator.is_valid(record), "{record}");
    }
}

#[test]
fn an_audit_is_one_document() {
    let (archive, runs) = (archive(), tempfile::tempdir().unwrap());
    let path = archive.path().to_str().unwrap();
    let audit = |more: &[&str]| {
        let ended = run(
            runs.path(),
            &[&["import", "netbenches", path, "--audit"], more].concat(),
        );
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        ended.out
    };
    let document: Value = serde_json::from_str(&audit(&["--json"])).unwrap();
    let [found] = &document["blocks"].as_array().unwrap()[..] else {
        panic!("{document}");
    };
    assert_eq!(found["readme"], "cpu/nic/topic/results/os/README.md");
    assert_eq!(
        (&found["line"], &found["status"]),
        (&Value::from(2), &Value::from("exact"))
    );
    assert_eq!(found["models"].as_array().unwrap().len(), 4);
    assert_eq!(found["sources"].as_array().unwrap().len(), 5);
    let files = document["files"].as_array().unwrap();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|file| file["status"] == "exact"));
    assert_eq!(document["problems"], Value::Array(Vec::new()));
    assert!(audit(&[]).contains("ministat blocks in READMEs: 1, 1 follow from the logs"));

    let set = archive.path().join("cpu/nic/topic/results/os");
    fs::write(set.join("README.md"), block().replace("4005000", "4006000")).unwrap();
    fs::write(set.join("none.pps"), "5001000\n5002000\n5004000\n5005000\n").unwrap();
    let told = audit(&[]);
    for words in [
        "1, 0 follow",
        "max 4006000",
        "run removed: 1",
        "5003000 of cpu/nic/topic/results/os/bench.none.3.receiver",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(
        fs::read_dir(runs.path()).unwrap().next().is_none(),
        "an audit keeps nothing"
    );
}

#[test]
fn wrong_use_of_import_is_told() {
    let (archive, runs) = (archive(), tempfile::tempdir().unwrap());
    let path = archive.path().to_str().unwrap();
    for (arguments, words) in [
        (
            &["import", "netbenches", "/no/such/archive"][..],
            "not a directory",
        ),
        (
            &["import", "netbenches", path, "--set", "gpu/*"],
            "no result set",
        ),
        (
            &["import", "netbenches", path, "--audit", "--again"],
            "--again",
        ),
        (&["import", "netbenches"], "DIR"),
    ] {
        let ended = run(runs.path(), arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(words), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn the_sample_is_audited_as_a_whole() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/netbenches");
    let sample = std::env::var_os("FWDLAB_NETBENCHES").map_or(beside, PathBuf::from);
    if !sample.is_dir() {
        return skipped(
            "the_sample_is_audited_as_a_whole",
            "the sample of the netbenches archive is not here",
        );
    }
    let runs = tempfile::tempdir().unwrap();
    let ended = run(
        runs.path(),
        &["import", "netbenches", sample.to_str().unwrap(), "--audit"],
    );
    assert!(
        ended
            .out
            .contains("ministat blocks in READMEs: 9, 9 follow from the logs"),
        "{}",
        ended.out
    );
    assert!(
        ended
            .out
            .contains("files of values: 21, 21 follow from the logs"),
        "{}",
        ended.out
    );
}
