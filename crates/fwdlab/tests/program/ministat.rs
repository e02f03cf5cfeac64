//! `fwdlab ministat`: the library's output reaches a shell unchanged.
//!
//! The library's own test compares thousands of cases with Debian's program. This one tests what
//! only the program can get wrong: the order of options, file names, terminals, pipes. Start with
//! [`the_librarys_bytes_reach_the_shell`].

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use fwdlab_stats::ministat::{Arguments, Model, run};
use tempfile::TempDir;

use crate::support::{CommandResult, PROGRAM, ended, skipped};

/// Debian's ministat.
const ORIGINAL: &str = "/usr/bin/ministat";

/// Values of machdep.hyperthreading_allowed in the netbenches archive, and ministat's output for
/// them (docs/methodology.md, "ministat").
const DEFAULT: &str = "4648451\n4735822\n4724896\n4632222\n4500078\n";
const MORE_QUEUES: &str = "4925106\n5070589.5\n5104512\n5198632\n5142971\n";

/// Creates a folder with the two sets as files `a` and `b`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), DEFAULT).unwrap();
    fs::write(folder.path().join("b"), MORE_QUEUES).unwrap();
    folder
}

fn fwdlab(folder: &TempDir, line: &str) -> CommandResult {
    let mut command = Command::new(PROGRAM);
    command
        .args(line.split(' '))
        .current_dir(folder.path())
        .stdin(Stdio::null());
    ended(command)
}

/// Also with a file name that is not UTF-8.
#[test]
fn the_librarys_bytes_reach_the_shell() {
    let folder = folder();
    let name = OsStr::from_bytes(b"a b\n\xff");
    fs::write(folder.path().join(name), DEFAULT).unwrap();
    let output = Command::new(PROGRAM)
        .args(["ministat", "--model", "debian", "b"])
        .arg(name)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let words = [&b"b"[..], name.as_bytes()];
    let arguments = Arguments::parse(&words, Model::Debian, 74).unwrap();
    let library = run(&arguments, |name| {
        File::open(folder.path().join(OsStr::from_bytes(name)))
    });
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        (output.stdout, output.stderr),
        (library.stdout, library.stderr)
    );
    fwdlab(&folder, "ministat --model debian none").code(1);
}

#[test]
fn options_of_the_program_and_of_the_original_keep_apart() {
    let folder = folder();
    let json = |line: &str| fwdlab(&folder, line).code(0).out.clone();
    let ours = "-q --runs ministat minis --json --model=freebsd -q a b";
    assert_eq!(json(ours), json("ministat a b --json"));
    // -q is the original's: no names, no header; Debian's has no such option
    let quiet = fwdlab(&folder, "ministat -qA a");
    assert_eq!(quiet.code(0).out.lines().count(), 1);
    assert!(quiet.out.starts_with("x   5 "), "{quiet:?}");
    for (line, reason) in [
        ("--model debian -q a", "ministat: invalid option -- 'q'"),
        ("--model linux a", "debian, 2015, 2016, freebsd"),
    ] {
        fwdlab(&folder, &format!("ministat {line}"))
            .code(2)
            .says(&[reason]);
    }
}

#[test]
fn json_has_the_numbers_that_others_published() {
    let folder = folder();
    let document = fwdlab(&folder, "ministat --json a b").code(0).document();
    assert_eq!(document["model"], "freebsd");
    for (at, published) in [
        ("/confidence_percent", 95.0),
        ("/sets/0/mean", 4_648_293.8),
        ("/sets/1/difference/difference_percent", 9.46731),
    ] {
        let ours = document.pointer(at).unwrap().as_f64().unwrap();
        assert!((ours / published - 1.0).abs() < 2e-6, "{at}: {ours}");
    }
    // 0 in 0 has no percentage
    fs::write(folder.path().join("zero"), "-1\n0\n1\n").unwrap();
    let document = fwdlab(&folder, "ministat --json zero b").document();
    let difference = &document["sets"][1]["difference"];
    assert_eq!(difference["proven"], true);
    assert!(difference.get("difference_percent").is_none());
}

/// A stream is refused at its first bad line, without waiting for the rest, which is endless here.
#[test]
fn an_endless_stream_is_refused() {
    let mut command = Command::new("sh");
    command.args(["-c", "yes | \"$1\" ministat", "sh", PROGRAM]);
    let ended = ended(command);
    ended.code(2);
    assert_eq!(ended.err, "ministat: Invalid data on line 1 in <stdin>\n");
}

/// On a terminal, the plot is as wide as the original's.
#[test]
fn width_of_a_terminal() {
    for tool in [ORIGINAL, "/usr/bin/script"] {
        if !Path::new(tool).exists() {
            return skipped(&format!("no {tool}"));
        }
    }
    let folder = folder();
    let shown = |environment: &str, program: &str| {
        let line = format!("stty cols 60; env {environment} {program} a b");
        let mut command = Command::new("script");
        command
            .args(["-qec", &line, "/dev/null"])
            .env_remove("COLUMNS")
            .current_dir(folder.path())
            .stdin(Stdio::null());
        ended(command).code(0).out.clone()
    };
    let ours = format!("{PROGRAM} ministat --model debian");
    for environment in ["", "COLUMNS=40"] {
        let theirs = shown(environment, ORIGINAL);
        assert!(theirs.contains("440068 +/- 144126"), "{theirs}");
        assert_eq!(shown(environment, &ours), theirs, "{environment}");
    }
}
