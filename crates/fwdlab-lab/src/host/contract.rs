//! Tests that every kind of host must pass.
//!
//! Behaviour of a single kind is tested in its own file. Start with [`keeps_the_contract`].

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::scratch::Namespace;
use super::ssh::tests::{Server, program};
use super::{Command, Failure, Host, Limit, Local, Netns, Process, ProcessEvent, Remote};
use crate::agent::serve::serve;
use crate::host::wire::connection::{Connection, EndReason};

/// Time limit for something that should take a moment.
const PATIENCE: Duration = Duration::from_secs(30);

fn keeps_the_contract(host: &dyn Host) {
    commands(host);
    files(host);
    followed(host);
    // last, because some hosts are lost by it
    limited(host);
}

fn commands(host: &dyn Host) {
    let odd = [
        "",
        "a b",
        "it's",
        "$HOME `x` \"y\" \\n",
        "*",
        "two\nlines",
        "-n",
        "\u{e4}\u{20ac}",
        "!\u{7}\t#;&|",
    ];
    let printf = [&["%s|"], &odd[..]].concat();
    let printed = host.query("printf", &printf).unwrap();
    assert_eq!(printed, format!("{}|", odd.join("|")));

    let input = "y\n".repeat(150_000);
    let both = Command::shell("cat; printf said >&2").with_input(input.clone());
    let output = host.run(&both, Limit::OURS).unwrap();
    assert_eq!(output.stdout, input.as_bytes());
    assert_eq!(output.stderr, b"said");
    let nothing = host.query("cat", &[]).unwrap();
    assert_eq!(nothing, "", "there is nothing to read");
    host.feed("true", &[], "that nobody reads").unwrap();

    let failure = |command: &Command| host.run(command, Limit::OURS).unwrap_err().failure;
    for code in [1, 2, 42, 126, 127, 255] {
        let text = format!("echo out; echo no such thing >&2; exit {code}");
        let expected = Failure::Exit {
            status: format!("exit status: {code}"),
            said: "no such thing\n".into(),
        };
        assert_eq!(failure(&Command::shell(&text)), expected);
    }
    let missing = failure(&Command::new("fwdlab-no-such-program", &["x"]));
    let program = "fwdlab-no-such-program".to_owned();
    assert_eq!(missing, Failure::Missing { program });
    let daemon = host.query("sh", &["-c", "sleep 20 & echo $!"]).unwrap();
    host.query("kill", &[daemon.trim()]).unwrap();
}

fn files(host: &dyn Host) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("it's a $file\nof ours");
    let path = file.to_str().unwrap();
    for content in ["", "a", "a\nb\n\n", &"\u{e4}\\".repeat(100_000)] {
        host.write(path, content.as_bytes()).unwrap();
        assert_eq!(host.read(path).unwrap(), content.as_bytes());
    }
    let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    host.write(path, &bytes).unwrap();
    assert_eq!(
        host.read(path).unwrap(),
        bytes,
        "no text, and no byte is lost"
    );
    let text = host.read("/no/such/file").unwrap_err().to_string();
    assert!(text.contains("read /no/such/file"), "{text}");
    assert!(text.contains("No such file"), "{text}");
    let text = host.write("/no/such/file", b"x").unwrap_err().to_string();
    assert!(text.contains("write /no/such/file"), "{text}");

    let other = folder.path().join("other");
    let other = other.to_str().unwrap();
    let text = "two\nlines, \u{e4}\n\n";
    let files = [(path, text), ("/no/such/file", "x"), (other, "")];
    let written = host.write_each(&files).unwrap();
    let is_written: Vec<bool> = written.iter().map(Result::is_ok).collect();
    assert_eq!(is_written, [true, false, true], "{written:?}");
    let read = host.read_each(&[path, "/no/such/file", other]).unwrap();
    assert_eq!(read[0].as_ref().unwrap(), text.as_bytes());
    assert_eq!(read[2].as_ref().unwrap(), b"");
    for error in [
        written[1].as_ref().unwrap_err(),
        read[1].as_ref().unwrap_err(),
    ] {
        let is_missing =
            |reason: &str| reason.contains("No such file") || reason.contains("nonexistent");
        let is = matches!(&error.failure, Failure::File(reason) if is_missing(reason));
        assert!(is, "{error:?}");
        assert!(error.to_string().contains(" /no/such/file"), "{error}");
    }

    let program = folder.path().join("pro gram");
    std::fs::write(&program, "#!/bin/sh\necho \"$@\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let there = host.put(&program).unwrap();
    assert_eq!(host.query(&there, &["a", "b"]).unwrap(), "a b\n");
    let there = host.put(folder.path()).unwrap();
    let there = host.query(&format!("{there}/pro gram"), &["c"]).unwrap();
    assert_eq!(there, "c\n");
}

fn followed(host: &dyn Host) {
    let text = Command::shell("cat; echo two >&2; printf three; exit 4").with_input("one\n");
    let mut process = host.start(&text).unwrap();
    let mut received = Vec::new();
    let status = loop {
        match process.next(PATIENCE).unwrap() {
            ProcessEvent::Line(line) => received.push(line),
            ProcessEvent::Silence => panic!("{received:?}"),
            ProcessEvent::End(end) => break end.status,
        }
    };
    received.sort();
    assert_eq!(received, ["one", "three", "two"]);
    assert_eq!(status, "exit status: 4");

    let mut process = host
        .start(&Command::shell("sleep 60 & echo $!; sleep 60"))
        .unwrap();
    let child = line(&mut process);
    assert_eq!(process.next(Duration::ZERO).unwrap(), ProcessEvent::Silence);
    drop(process);
    // it was killed; it takes a moment until it is gone
    let started = Instant::now();
    while !is_gone(host, &child) {
        assert!(started.elapsed() < PATIENCE, "it still runs");
    }
}

fn limited(host: &dyn Host) {
    let limit = |ms, is_stopped| Limit {
        time: Duration::from_millis(ms),
        is_stopped,
    };
    let sleep = Command::shell("exec sleep 60");
    let stopped = host.run(&sleep, limit(20_000, &|| true)).unwrap_err();
    assert_eq!(stopped.failure, Failure::Stopped);
    if host.query("true", &[]).is_err() {
        return;
    }
    let slow = host.run(&sleep, limit(1000, &|| false)).unwrap_err();
    let text = slow.to_string();
    assert!(
        text.contains("timed out after 1 s and was killed"),
        "{text}"
    );
}

fn line(of: &mut Box<dyn Process>) -> String {
    match of.next(PATIENCE).unwrap() {
        ProcessEvent::Line(line) => line,
        other => panic!("{other:?}"),
    }
}

/// Returns true if a process is gone or a zombie: a killed process exists until it is reaped.
fn is_gone(host: &dyn Host, process: &str) -> bool {
    let state = format!("sed 's/.*) //' /proc/{process}/stat 2>/dev/null || true");
    let state = host.query("sh", &["-c", &state]).unwrap();
    state.is_empty() || state.starts_with('Z')
}

#[test]
fn this_machine_keeps_the_contract() {
    keeps_the_contract(&Local);
}

#[test]
fn a_namespace_keeps_the_contract() {
    if !crate::user_namespace::is_root() {
        return println!("SKIPPED: a_namespace_keeps_the_contract: not root");
    }
    let namespace = Namespace::new("contract");
    keeps_the_contract(&Netns::bare(&namespace.0));
    keeps_the_contract(&Netns::ours(&namespace.0));
}

#[derive(Debug)]
struct Unknown;

impl EndReason for Unknown {
    fn words(&self) -> String {
        "nobody knows why".into()
    }
}

#[test]
fn a_machine_behind_an_agent_keeps_the_contract() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || serve(&mut theirs));
    let connection = Arc::new(Connection::new(ours, Box::new(Unknown)));
    keeps_the_contract(&Remote::new("guest", connection));
}

/// Behind sshd.
mod slow {
    use super::*;

    #[test]
    fn a_machine_that_answers_to_ssh_keeps_the_contract() {
        let test = "a_machine_that_answers_to_ssh_keeps_the_contract";
        let Some(server) = Server::start(test) else {
            return;
        };
        keeps_the_contract(&server.host());
        // and so does an agent there
        let folder = tempfile::tempdir().unwrap();
        if let Some(program) = program(test, folder.path()) {
            let host = server.host();
            keeps_the_contract(&host.start_agent(&program, Limit::OURS).unwrap());
        }
    }
}
