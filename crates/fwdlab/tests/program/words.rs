//! `--help` of every command, as people read it, and what wrong use is answered.

use crate::support::{PROGRAM, tool};

#[test]
fn help_of_every_command() {
    for command in [
        "",
        "quick",
        "trial",
        "bisect",
        "ndr",
        "throughput",
        "ramp",
        "rfc2544",
        "soak",
        "run",
        "plan",
        "check",
        "send",
        "receive",
        "ping",
        "capture",
        "selftest",
        "queues",
        "doctor",
        "compare",
        "report",
        "runs",
        "runs ls",
        "runs show",
        "runs rm",
        "bed",
        "bed up",
        "bed down",
        "bed show",
        "image",
        "import",
        "import netbenches",
        "import loadtest",
        "ministat",
        "profile",
        "profile ls",
        "profile show",
        "profile frames",
        "pkt-gen",
        "rate",
        "schema",
    ] {
        let mut line = vec!["env", "-u", "FWDLAB_RUNS", "COLUMNS=100", PROGRAM];
        line.extend(command.split_whitespace());
        line.push("--help");
        let name = format!("help {command}").trim().replace(' ', "-");
        insta::assert_snapshot!(name, tool(&line));
    }
}

#[test]
fn wrong_use_is_code_2_and_names_the_argument() {
    for (arguments, words) in [
        (&["quick", "--size", "63"][..], "63"),
        (&["quick", "--flows", "many"], "many"),
        (&["quick", "--engine", "warp"], "af-packet"),
        (&["quick", "--rebuilds", "2"], "3..=1000"),
        (&["quick", "--for", "1s", "--vs", "true"], "5s"),
        (&["runs", "rm"], "<RUN>"),
        (&["schema", "nothing"], "summary"),
        (&["no-such-command"], "no-such-command"),
    ] {
        let output = assert_cmd::Command::new(PROGRAM)
            .args(arguments)
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(err.contains(words), "{arguments:?}: {err}");
        assert!(output.stdout.is_empty());
    }
}

/// Whatever goes wrong, `--json` answers with one document, and it says so with the exit code and its kind.
#[test]
fn json_answers_errors_too() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    for (arguments, code, kind, words) in [
        (&["quick", "--size", "63"][..], 2, "usage", "63"),
        (&["quick", "--size", "84", "--vs", ""], 2, "usage", "empty"),
        (&["quick", "--json-stream"], 2, "usage", "--json-stream"),
        (&["ndr", "--goal", "loss=2"], 2, "usage", "loss"),
        (
            &["rfc2544", "--tests", "reset"],
            2,
            "usage",
            "what is reset",
        ),
        (
            &["rfc2544", "--tests", "latency", "--reset", "interface"],
            2,
            "usage",
            "no reset test",
        ),
        (&["runs", "show", "nothing"], 3, "preflight", "nothing"),
        (&["compare", "no-file", "no-other"], 2, "usage", "no-file"),
        (&["check", "no-file.toml"], 2, "usage", "no-file"),
        (&["ministat", "no-file"], 2, "usage", "no-file"),
        (&["no-such-command"], 2, "usage", "no-such-command"),
    ] {
        let output = assert_cmd::Command::new(PROGRAM)
            .arg("--json")
            .args(arguments)
            .env("FWDLAB_RUNS", &runs)
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let document: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {out}"));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}");
        if arguments[0] == "check" {
            // it answers for each file
            continue;
        }
        let error = &document["error"];
        assert_eq!(
            (&error["code"], &error["kind"]),
            (&code.into(), &kind.into()),
            "{out}"
        );
        assert!(error["message"].as_str().unwrap().contains(words), "{out}");
        assert!(!output.stderr.is_empty(), "people are told as well");
    }
}

#[test]
fn an_empty_variable_is_as_if_it_were_not_set() {
    let directory = tempfile::tempdir().unwrap();
    let output = assert_cmd::Command::new(PROGRAM)
        .args(["runs", "ls"])
        .env("FWDLAB_RUNS", "")
        .env("XDG_DATA_HOME", directory.path())
        .current_dir(directory.path())
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains(directory.path().to_str().unwrap()), "{err}");
}

/// Too noisy to tell is an answer to somebody who reads; all else is for make to complain of.
#[test]
fn make_quick_ends_well_on_a_noisy_machine() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("fwdlab");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (code, ends_well) in [(0, true), (5, true), (4, false), (130, false)] {
        std::fs::write(&program, format!("#!/bin/sh\necho page\nexit {code}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let made = std::process::Command::new("make")
            .args(["--no-print-directory", "quick", "CARGO=true"])
            .arg(format!("FWDLAB={}", program.display()))
            .current_dir(&root)
            .env_remove("MAKEFLAGS")
            .output();
        let Ok(made) = made else {
            println!("SKIPPED: make_quick_ends_well_on_a_noisy_machine: no make");
            return;
        };
        assert_eq!(made.status.success(), ends_well, "{code}: {made:?}");
        assert_eq!(made.stdout, b"page\n");
    }
}

/// What people see on a terminal and nobody else: colours, unless they are not wanted, and lines that fit.
#[test]
fn a_terminal_has_colours_and_its_width() {
    let directory = tempfile::tempdir().unwrap();
    let on_a_terminal = |columns: u16, no_color: bool| {
        let line = format!(
            "stty cols {columns} rows 25; exec {PROGRAM} ndr --engine sim --dut capacity=1e6,link=10Gbps,seed=1 -q"
        );
        let mut command = std::process::Command::new("script");
        command
            .args(["-qec", &line, "/dev/null"])
            .env("FWDLAB_RUNS", directory.path().join("runs"))
            .env("TERM", "xterm")
            .stdin(std::process::Stdio::null());
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let output = command.output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(coloured) = on_a_terminal(80, false) else {
        println!("SKIPPED: a_terminal_has_colours_and_its_width: script(1) is not installed");
        return;
    };
    assert!(coloured.contains("\u{1b}[1m"), "{coloured:?}");
    let plain = on_a_terminal(40, true).unwrap();
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let result = plain.split("saved").next().unwrap();
    assert!(result.lines().count() > 10, "{plain}");
    for line in result.lines() {
        assert!(line.trim_end().chars().count() <= 40, "{line:?}");
    }
}
