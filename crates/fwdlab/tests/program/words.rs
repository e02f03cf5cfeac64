//! `--help` of every command, as people read it, and what wrong use is answered.

use crate::support::{PROGRAM, tool};

#[test]
fn help_of_every_command() {
    for command in [
        "",
        "quick",
        "trial",
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
        "doctor",
        "compare",
        "runs",
        "runs ls",
        "runs show",
        "runs rm",
        "bed",
        "bed up",
        "bed down",
        "bed show",
        "import",
        "import netbenches",
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
        (&["quick", "--json", "--json-stream"], "--json-stream"),
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
