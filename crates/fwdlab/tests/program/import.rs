//! `import netbenches`: turns an archive into runs that other commands can read; programs can read
//! its audit. Start with [`archive`].

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::formats::all_valid;
use crate::support::{Lab, refused};

/// Creates an archive with one set: two configurations, five runs each.
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
            for (side, word, rate) in [
                ("receiver", "Received", rate + 1000 * run),
                ("sender", "Sent", 14_880_000),
            ] {
                let mut text = format!(
                    "CMD: pkt-gen -N -f {side} -i cxl0 -l 60 -4 -d 198.19.10.1:2000-198.19.10.100 -s 198.18.10.1:2000-198.18.10.20\n"
                );
                text.push_str(&"009.000000 main [2512] interface is cxl0\n".repeat(8));
                for second in 10..70 {
                    let _ = writeln!(
                        text,
                        "{second:03}.000000 main_thread [2671] {rate} pps ({rate} pkts 1 bps in 1000000 usec) 1.0 avg_batch 0 min_space"
                    );
                }
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

/// Returns the output of FreeBSD's and Debian's ministat for these values.
fn block() -> &'static str {
    "```\nx fw.pps\n    N           Min           Max        Median           Avg        Stddev\n\
     x   5       4001000       4005000       4003000       4003000     1581.1388\n```\n"
}

#[test]
fn an_archive_becomes_runs() {
    let (archive, lab) = (archive(), Lab::new());
    let import = ["import", "netbenches", archive.path().to_str().unwrap()];
    lab.run(&import)
        .code(0)
        .prints(&["imported", "2 test cases, 10 runs"])
        .says(&["10 receiver logs and 10 sender logs"]);
    lab.run("runs show @1").prints(&[
        "cpu/nic/topic/results/os",
        "fw",
        "4.003",
        "73.1 %",
        "+0.00 %",
    ]);
    let json = lab.json("runs show @1");
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
    lab.run("runs ls")
        .prints(&["import-cpu-nic-topic-os", "4.003 Mpps"]);

    lab.run(&import).code(0).prints(&["there already"]);
    let replaced = lab.json(&[&import[..], &["--replace"]].concat());
    assert_eq!(replaced["sets"][0]["result"], "replaced");
    assert_eq!(replaced["lines_unknown"], 0);
    assert_eq!(fs::read_dir(lab.runs()).unwrap().count(), 1);
    // lines of trials.jsonl follow the schema
    all_valid(
        &lab.json("schema imported"),
        json["imported"].as_array().unwrap(),
    );
}

#[test]
fn an_audit_is_one_document() {
    let (archive, lab) = (archive(), Lab::new());
    let audit = format!("import netbenches {} --audit", archive.path().display());
    let document = lab.json(&audit);
    for (at, value) in [
        ("/blocks/0/readme", "cpu/nic/topic/results/os/README.md"),
        ("/blocks/0/status", "exact"),
        ("/files/0/status", "exact"),
        ("/files/1/status", "exact"),
    ] {
        assert_eq!(document.pointer(at), Some(&value.into()), "{document}");
    }
    assert_eq!(document["blocks"][0]["line"], 2);
    assert_eq!(document["problems"], Value::Array(Vec::new()));
    lab.run(&audit).code(0).prints(&[
        "ministat blocks in READMEs: 1, 1 follow from the logs",
        "files of values: 2, 2 follow from the logs",
    ]);

    let set = archive.path().join("cpu/nic/topic/results/os");
    fs::write(set.join("README.md"), block().replace("4005000", "4006000")).unwrap();
    fs::write(set.join("none.pps"), "5001000\n5002000\n5004000\n5005000\n").unwrap();
    lab.run(&audit).code(0).prints(&[
        "1, 0 follow",
        "max 4006000",
        "run removed: 1",
        "5003000 of cpu/nic/topic/results/os/bench.none.3.receiver",
    ]);
    assert!(!lab.runs().exists(), "an audit keeps nothing");
}

#[test]
fn usage_errors_of_import_are_reported() {
    let (archive, lab) = (archive(), Lab::new());
    let table = "/no/such/archive => 2: not a directory
        ARCHIVE --set gpu/* => 2: no result set
        ARCHIVE --audit --replace => 2: --replace";
    let table = table.replace("ARCHIVE", archive.path().to_str().unwrap());
    refused(&table, |line| lab.run(&format!("import netbenches {line}")));
}
