//! `fwdlab ministat` beside Debian's own program: what reaches a shell, byte for byte.
//!
//! The library's own test has thousands of cases; here are hundreds, and what only a program can get wrong: the order of
//! options, names of files, terminals, pipes. Start with [`same_bytes_as_debian`].

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use fwdlab_stats::ministat::{Arguments, Model, report};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Ended, PROGRAM, ended, skipped};

#[path = "../../../fwdlab-stats/tests/generated/mod.rs"]
mod generated;

const CASES: u64 = 150;

/// The netbenches archive, machdep.hyperthreading_allowed: values and what ministat said of them
/// (docs/methodology.md, "ministat").
const DEFAULT: &str = "4648451\n4735822\n4724896\n4632222\n4500078\n";
const MORE_QUEUES: &str = "4925106\n5070589.5\n5104512\n5198632\n5142971\n";

/// A folder with the two sets as files `a` and `b`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), DEFAULT).unwrap();
    fs::write(folder.path().join("b"), MORE_QUEUES).unwrap();
    folder
}

fn fwdlab(folder: &TempDir, arguments: &[&str]) -> Ended {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::null());
    ended(command)
}

#[test]
fn same_bytes_as_debian() {
    if !Path::new(generated::PROGRAM).exists() {
        skipped(
            "ministat::same_bytes_as_debian",
            "ministat is not installed; apt-get install ministat",
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut tally = generated::Tally::default();
    // none of the library's cases
    for seed in 1_000_000..1_000_000 + CASES {
        let case = generated::case(folder, &mut generated::Dice::new(seed));
        let theirs = generated::theirs(&case, folder);
        let mut command = Command::new(PROGRAM);
        command.args(["ministat", "--model", "debian"]);
        let ours = generated::outcome(command, &case, folder).unwrap();
        let what = format!("case {seed}: ministat {}", generated::line(&case));
        tally.judge(&what, &ours, theirs.as_ref(), || sets(&case, folder));
        generated::clear(folder);
    }
    println!("{CASES} cases: {tally:?}");
    assert!(tally.is_representative(), "{tally:?}");
}

/// The numbers behind our output, to see whether the original's is defined at all.
fn sets(case: &generated::Case, folder: &Path) -> Vec<fwdlab_stats::ministat::Set> {
    let open = |name: &[u8]| -> std::io::Result<Box<dyn Read>> {
        Ok(match name {
            b"-" => Box::new(std::io::Cursor::new(case.stdin.clone())),
            name => Box::new(File::open(folder.join(OsStr::from_bytes(name)))?),
        })
    };
    let arguments = Arguments::parse(&case.arguments, Model::Debian, 74).unwrap();
    report(&arguments, open).unwrap().sets
}

#[test]
fn options_of_the_program_and_of_the_original_keep_apart() {
    let folder = folder();
    let json = |arguments: &[&str]| -> Value {
        let ended = fwdlab(&folder, arguments);
        ended.code(0).says(&[]);
        serde_json::from_str(&ended.out).unwrap()
    };
    let behind = json(&["ministat", "--json", "a", "b"]);
    for arguments in [
        &["--json", "ministat", "a", "b"][..],
        &["ministat", "a", "b", "--json"],
        &["ministat", "-s", "a", "--json", "-w", "1", "--", "b"],
        &[
            "-q",
            "--runs",
            "ministat",
            "minis",
            "--json",
            "--model=freebsd",
            "-q",
            "a",
            "b",
        ],
    ] {
        assert_eq!(json(arguments), behind, "{arguments:?}");
    }

    // -q is the original's: no names, no head; and no option of Debian's
    let quiet = fwdlab(&folder, &["ministat", "-qA", "a"]);
    quiet.code(0);
    assert_eq!((quiet.out.lines().count(), &quiet.out[..6]), (1, "x   5 "));
    let refused = fwdlab(&folder, &["ministat", "--model", "debian", "-q", "a"]);
    refused.code(2).says(&[
        "ministat: invalid option -- 'q'",
        "Usage: ministat [-C column]",
    ]);

    // what an option waits for, and what follows --, is the original's even if it looks like ours
    let value = fwdlab(&folder, &["ministat", "-Ad", "--json", "a"]);
    value.code(0);
    assert!(value.out.starts_with("x a\n"));
    let file = fwdlab(&folder, &["ministat", "-A", "--", "--json"]);
    file.code(2)
        .says(&["ministat: Cannot open --json: No such file or directory\n"]);
    let unknown = fwdlab(&folder, &["ministat", "--what", "a"]);
    unknown.code(2).says(&["ministat: illegal option -- -\n"]);
    let model = fwdlab(&folder, &["ministat", "--model", "linux", "a"]);
    model
        .code(2)
        .says(&["'linux'", "debian, 2015, 2016, freebsd"]);
}

#[test]
fn json_has_the_numbers_that_others_published() {
    let folder = folder();
    let ended = fwdlab(&folder, &["ministat", "--json", "a", "b"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["model"], "freebsd");
    assert_eq!(document["confidence_percent"], 95.0);
    let [reference, other] = document["sets"].as_array().unwrap().as_slice() else {
        panic!("{document}");
    };
    assert_eq!(
        (&reference["name"], &reference["n"]),
        (&"a".into(), &5.into())
    );
    assert_eq!(
        (&reference["median"], &reference["mean"]),
        (&4_648_451.0.into(), &4_648_293.8.into())
    );
    assert!(reference.get("difference").is_none());
    let difference = &other["difference"];
    assert_eq!(difference["proven"], true);
    for (name, published) in [
        ("difference", 440_068.0),
        ("half_width", 144_126.0),
        ("difference_percent", 9.46731),
        ("half_width_percent", 3.23827),
        ("pooled_stdev", 98_821.9),
    ] {
        let ours = difference[name].as_f64().unwrap();
        assert!((ours / published - 1.0).abs() < 2e-6, "{name}: {ours}");
    }

    // 0 in 0 has no percentage
    fs::write(folder.path().join("zero"), "-1\n0\n1\n").unwrap();
    let ended = fwdlab(&folder, &["ministat", "--json", "zero", "b"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let difference = &document["sets"][1]["difference"];
    assert_eq!(difference["proven"], true);
    assert!(difference.get("difference_percent").is_none());

    let refused = fwdlab(&folder, &["ministat", "--json", "a", "nofile"]);
    refused
        .code(2)
        .says(&["ministat: Cannot open nofile: No such file or directory\n"]);
    let said: Value = serde_json::from_str(&refused.out).unwrap();
    assert_eq!(said["error"]["code"], 2);
}

#[test]
fn names_are_bytes() {
    let folder = folder();
    let name = OsStr::from_bytes(b"a b\n\xff");
    fs::write(folder.path().join(name), DEFAULT).unwrap();
    let output = Command::new(PROGRAM)
        .args(["ministat", "-n"])
        .arg(name)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"x a b\n\xff\n    N "));
}

#[test]
fn what_crashes_the_original_is_refused() {
    let folder = folder();
    fwdlab(&folder, &["ministat", "-w", "1", "a"])
        .code(2)
        .says(&["ministat: cannot plot in so few columns; use -w 2 or more"]);
    fs::write(folder.path().join("inf"), "1\ninf\n2\n").unwrap();
    fwdlab(&folder, &["ministat", "inf"])
        .code(2)
        .says(&["ministat: cannot plot values that are not finite"]);
    fwdlab(&folder, &["ministat", "-A", "inf"]).code(0);
}

/// A stream is refused at its first bad line; the rest of it, here without end, is not waited for.
#[test]
fn an_endless_stream_is_refused() {
    let mut command = Command::new("sh");
    command.args(["-c", "yes | \"$1\" ministat", "sh", PROGRAM]);
    let ended = ended(command);
    ended.code(2);
    assert_eq!(ended.err, "ministat: Invalid data on line 1 in <stdin>\n");
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_a_full_disk_is_one() {
    let folder = folder();
    // more than a pipe holds
    let mut child = Command::new(PROGRAM)
        .args(["ministat", "-w", "200000", "a"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));

    let mut command = Command::new("sh");
    command
        .args(["-c", "\"$1\" ministat a >/dev/full", "sh", PROGRAM])
        .current_dir(folder.path());
    ended(command)
        .code(1)
        .says(&["cannot write to standard output: No space left on device"]);
}

/// On a terminal the plot is as wide as the original's.
#[test]
fn width_of_a_terminal() {
    for tool in [generated::PROGRAM, "/usr/bin/script"] {
        if !Path::new(tool).exists() {
            skipped("ministat::width_of_a_terminal", &format!("no {tool}"));
            return;
        }
    }
    let folder = folder();
    let shown = |columns: u16, environment: &str, program: &str| {
        let line = format!("stty cols {columns}; env {environment} {program} a b");
        let mut command = Command::new("script");
        command
            .args(["-qec", &line, "/dev/null"])
            .env_remove("COLUMNS")
            .current_dir(folder.path())
            .stdin(Stdio::null());
        let ended = ended(command);
        ended.code(0);
        ended.out
    };
    let ours = format!("{PROGRAM} ministat --model debian");
    for (columns, environment) in [
        (60, ""),
        (0, ""),
        (2, ""),
        (60, "COLUMNS=40"),
        (60, "COLUMNS="),
        (60, "COLUMNS=30x"),
        (60, "COLUMNS=abc"),
    ] {
        let theirs = shown(columns, environment, generated::PROGRAM);
        assert!(theirs.contains("440068 +/- 144126"), "{theirs}");
        assert_eq!(
            shown(columns, environment, &ours),
            theirs,
            "{columns} {environment}"
        );
    }
}
