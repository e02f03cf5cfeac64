//! `--help` of every command, and the response to usage errors. Start with
//! [`help_of_every_command`].

use std::fs::File;
use std::process::Stdio;

use crate::support::{Lab, PROGRAM, ended, skipped, tool, try_tool};

const COMMANDS: &str = ", quick, trial, bisect, ndr, throughput, ramp, rfc2544, soak, run, plan, check, doctor, compare, report, \
    runs, runs ls, runs show, runs rm, bed, bed up, bed down, bed show, image, import, import netbenches, import loadtest, ministat, \
    traffic, traffic send, traffic receive, traffic ping, traffic capture, traffic selftest, traffic queues, traffic pkt-gen, \
    traffic profile, traffic profile ls, traffic profile show, traffic profile frames, traffic rate, new, new schema";

/// Commands with an older name: the parent, and the name without it.
const MOVED: [(&str, &str); 2] = [
    (
        "traffic",
        "send, receive, ping, capture, console, queues, selftest, pkt-gen, profile, profile frames, rate",
    ),
    ("new", "schema, completions, man"),
];

#[test]
fn help_of_every_command() {
    for command in COMMANDS.split(", ") {
        let mut line = vec!["env", "-u", "FWDLAB_RUNS", "COLUMNS=100", PROGRAM];
        line.extend(command.split_whitespace());
        line.push("--help");
        let name = format!("help {command}").trim().replace(' ', "-");
        insta::assert_snapshot!(name, tool(&line));
    }
}

/// Scripts and pages from before `traffic` and `new` keep working.
#[test]
fn older_names_of_commands_mean_the_same() {
    for (above, names) in MOVED {
        for name in names.split(", ") {
            let help = |line: &str| {
                let words: Vec<&str> = line.split(' ').collect();
                let help = tool(&[&[PROGRAM], &words[..], &["--help"]].concat());
                help.replace(&format!("fwdlab {above} {name}"), &format!("fwdlab {name}"))
            };
            assert_eq!(help(name), help(&format!("{above} {name}")));
        }
    }
    let lab = Lab::new();
    let run = |line: &str| lab.run(line).code(0).out.clone();
    for (above, line) in [
        ("traffic", "rate 1Mpps --json"),
        ("traffic", "profile frames imix -n 3"),
        ("new", "schema run"),
    ] {
        assert_eq!(run(line), run(&format!("{above} {line}")));
    }
    // global options are accepted everywhere, and prefixes mean commands
    run("rate 1Mpps -q --json-stream --runs x");
    assert_eq!(run("rat 1Mpps"), run("tra ra 1Mpps"));
    assert_eq!(run("tr --help"), run("trial --help"));
}

/// Standard error names what is wrong; `--json` prints one document with the exit code and its
/// kind.
#[test]
fn wrong_use_is_code_2_and_names_the_argument() {
    let lab = Lab::new();
    for (line, words) in [
        ("quick --size 63", "63"),
        ("quick --engine warp", "af-packet"),
        ("quick --rebuilds 2", "3..=1000"),
        ("quick --for 1s --vs true", "5s"),
        ("quick --size 84 --vs ", "empty"),
        ("ndr --goal loss=2", "loss"),
        ("rfc2544 --tests reset", "what is reset"),
        ("compare no-file no-other", "no-file"),
        ("runs rm", "<RUN>"),
        ("schema nothing", "summary"),
        ("ministat no-file", "no-file"),
        ("no-such-command", "no-such-command"),
    ] {
        let ended = lab.run(&line.split(' ').collect::<Vec<_>>());
        ended.code(2).says(&[words]);
        assert_eq!(ended.out, "", "{line:?}");
        let line = format!("--json {line}");
        let ended = lab.run(&line.split(' ').collect::<Vec<_>>());
        assert!(!ended.err.is_empty(), "people are told as well");
        let error = &ended.code(2).document()["error"];
        assert!(error["code"] == 2 && error["kind"] == "usage", "{error}");
        assert!(error["message"].to_string().contains(words), "{error}");
    }
    // both select the output
    lab.run("quick --json --json-stream")
        .code(2)
        .prints(&["\"usage\"", "--json-stream"]);
}

/// A command without its subcommand prints its help, with or without the variable.
#[test]
fn a_command_that_is_missing_is_answered_with_help() {
    let lab = Lab::new();
    for command in ["", "traffic", "new", "runs", "profile"] {
        let words: Vec<&str> = command.split_whitespace().collect();
        for is_set in [true, false] {
            let run = |words: &[&str]| {
                let mut program = lab.program(words);
                if !is_set {
                    program.env_remove("FWDLAB_RUNS");
                }
                ended(program)
            };
            let help = run(&[&words[..], &["-h"]].concat()).out;
            let without = run(&words);
            without.code(2);
            assert_eq!(
                without.err.trim_end(),
                help.trim_end(),
                "{command} {is_set}"
            );
        }
    }
}

/// Messages that cannot be written are dropped; results that cannot be written are code 1, unless
/// their reader closed the pipe.
#[test]
fn output_that_cannot_be_written() {
    let lab = Lab::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let closed = || std::io::pipe().unwrap().1;
    let with = |line: &str, out: Stdio, err: Stdio| {
        let mut command = lab.program(line);
        let output = command.stdout(out).stderr(err).output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), printed)
    };
    let trial = "trial --engine sim --load 10kpps --for 1s";
    lab.run(trial).code(0);
    lab.write("1.pps", "1\n2\n3\n");
    for (line, code) in [
        (trial, 0),
        (&format!("{trial} --json"), 0),
        (&format!("{trial} --json-stream"), 0),
        ("ministat 1.pps", 0),
        ("runs export @1 -o -", 0),
        ("report @1 -o -", 0),
        ("compare @1 @1 --metric forwarding-rate --json", 0),
        ("profile frames imix --pcap -", 0),
        ("rate 1Mpps", 0),
        ("--help", 0),
        ("no-such-command --json", 2),
        ("quick --size 63 --json", 2),
        ("trial --engine sim --load 50% --json", 2),
    ] {
        let (ended, printed) = with(line, Stdio::null(), Stdio::piped());
        assert_eq!(ended, code, "{line}: {printed}");
        assert_eq!(with(line, Stdio::null(), full().into()).0, code, "{line}");
        let (ended, printed) = with(line, Stdio::from(closed()), Stdio::piped());
        assert_eq!(ended, code, "{line}: {printed}");
        assert!(!printed.contains("standard output"), "{line}: {printed}");
        let (ended, printed) = with(line, full().into(), Stdio::piped());
        assert_eq!(ended, 1, "{line}: {printed}");
        let last = printed.lines().last().unwrap();
        let reason = "fwdlab: cannot write to standard output: ";
        assert!(last.starts_with(reason), "{line}: {printed}");
    }
    assert_eq!(with(trial, closed().into(), closed().into()).0, 0);
    assert_eq!(with(trial, full().into(), full().into()).0, 1);
    // the standard library reports success for a descriptor that is not open for writing
    let read_only = File::open("/dev/null").unwrap();
    assert_eq!(with(trial, read_only.into(), Stdio::piped()).0, 1);
}

/// Whatever a command does, `--json` prints one document; an unknown run is the same error
/// everywhere.
#[test]
fn json_is_one_document_and_one_mistake_has_one_code() {
    let lab = Lab::new();
    let json = |line: &str| {
        let ended = lab.run(&format!("{line} --json"));
        (ended.code, ended.document())
    };
    let trial = "trial --engine sim --load 10kpps --for 1s";
    let run = json(trial).1["info"]["id"].as_str().unwrap().to_owned();
    for (name, text) in [("a.pps", "1\n2\n"), ("b.pps", "3\n4\n")] {
        lab.write(&format!("archive/a-result-set/{name}"), text);
    }
    let lines = "new campaign c, completions bash, man, man --dir man, import netbenches archive --audit, report @1 -o page.html, \
         report @1 -o all/ --format csv,markdown, report @1, runs tag @1 first, runs note @1 words, runs verify, \
         runs rebuild @1, runs export @1, runs prune --keep 1, profile ls, run --list, schema run";
    for line in lines.split(", ") {
        assert_eq!(json(line).0, 0, "{line}");
    }
    for line in ["runs export @1 -o -", "report @1 --format csv"] {
        assert_eq!(json(line).0, 2, "{line}");
    }
    let lines = "runs show RUN, runs verify RUN, runs tag RUN x, runs note RUN x, runs rebuild RUN, runs export RUN, \
        runs steer RUN stop, runs rm RUN, report RUN, compare RUN @1, run --resume RUN, runs import RUN, import loadtest RUN, \
        import netbenches RUN, run RUN, check RUN, profile show RUN, bisect --resume RUN";
    for line in lines.split(", ") {
        let (code, document) = json(&line.replace("RUN", "no-such-one"));
        assert_eq!(code, 2, "{line}: {document}");
    }
    let output = lab.run("runs show no-such-one");
    assert!(output.err.starts_with("fwdlab: ") && output.err.contains(&run));
    let output = lab.run("runs no-such-one");
    assert!(output.err.starts_with("fwdlab: "), "{}", output.err);
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let lab = Lab::new();
    let mut command = lab.program("runs ls");
    command
        .env("FWDLAB_RUNS", "")
        .env("XDG_DATA_HOME", lab.path())
        .current_dir(lab.path());
    ended(command).code(0).says(&[lab.path().to_str().unwrap()]);
}

/// "Too noisy" is an answer for the reader; make fails for all other errors.
#[test]
fn make_quick_ends_well_on_a_noisy_machine() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    if try_tool(&["make", "--version"]).is_err() {
        return skipped("no make");
    }
    for (code, ends_well) in [(0, true), (5, true), (4, false), (130, false)] {
        let program = lab.write("fwdlab", &format!("#!/bin/sh\necho page\nexit {code}\n"));
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut make = std::process::Command::new("make");
        make.args(["--no-print-directory", "quick", "CARGO=true", "-C", root])
            .arg(format!("FWDLAB={program}"))
            .env_remove("MAKEFLAGS");
        let made = ended(make);
        assert_eq!(made.code == 0, ends_well, "{code}: {made:?}");
        assert_eq!(made.out, "page\n");
    }
}

/// Only a terminal gets colours, unless the user turned them off, and lines that fit its width.
#[test]
fn a_terminal_has_colours_and_its_width() {
    if try_tool(&["script", "--version"]).is_err() {
        return skipped("script(1) is not installed");
    }
    let lab = Lab::new();
    let terminal = |columns: u16, variable: &str, command: &str| {
        let line = format!(
            "stty cols {columns} rows 25; env -u NO_COLOR -u CLICOLOR -u CLICOLOR_FORCE TERM=xterm FWDLAB_RUNS={} \
             {variable} {PROGRAM} {command}",
            lab.runs().display()
        );
        let script = "script -qec \"$1\" /dev/null </dev/null";
        tool(&["sh", "-c", script, "sh", &line])
    };
    let on_a_terminal = |columns: u16, variable: &str| {
        let command = "ndr --engine sim --dut capacity=1e6,link=10Gbps,seed=1 -q";
        terminal(columns, variable, command)
    };
    let coloured = on_a_terminal(80, "");
    assert!(coloured.contains("\u{1b}[1m"), "{coloured:?}");
    assert!(coloured.contains("\u{1b}[32m"), "{coloured:?}");
    let plain = on_a_terminal(40, "NO_COLOR=1");
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let result = plain.split("saved").next().unwrap();
    assert!(result.lines().count() > 10, "{plain}");
    assert!(
        result
            .lines()
            .all(|line| line.trim_end().chars().count() <= 40),
        "{result}"
    );
    // messages and short results, too; only a word that is longer by itself is not broken
    for (command, lines) in [
        ("runs show nope || :", 3),
        ("runs verify", 4),
        ("profile ls", 60),
        ("doctor -q || :", 2),
    ] {
        let printed = terminal(40, "NO_COLOR=1", command);
        assert!(printed.lines().count() >= lines, "{printed}");
        for line in printed.lines().map(str::trim) {
            assert!(
                line.chars().count() <= 40 || !line.contains(' '),
                "{line:?}"
            );
        }
    }
}
