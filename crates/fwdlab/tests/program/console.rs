//! The traffic console, by a pipe: what it answers is held against the kernel's counters of the ports.

use std::io::Write;
use std::process::Stdio;

use crate::support::{Lab, PROGRAM, root};
use crate::wire::{MAC_A, MAC_B, Wire};

/// What it says to these lines: its code, what it printed and what it complained about.
fn console(lab: &Lab, wire: &Wire, more: &str, lines: &str) -> (i32, String, String) {
    let words = format!("console --port pa --port pb --dst-mac {MAC_B},{MAC_A} {more}");
    let arguments = wire.arguments(&words);
    let mut child = lab
        .with(&[PROGRAM], &arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// The numbers of a line of `stats` that is called so.
fn row(text: &str, name: &str) -> Vec<u64> {
    let line = text.lines().rfind(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    let cells = line[name.len()..].split_whitespace();
    cells
        .map(|cell| cell.replace(',', "").parse().unwrap())
        .collect()
}

#[test]
fn what_a_console_says_it_sent_is_what_the_kernel_counted() {
    if !root("what_a_console_says_it_sent_is_what_the_kernel_counted") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let (_, out, err) = console(
        &lab,
        &wire,
        "--link 100M --engine af-packet",
        "start -m 2kpps -p 0 -d 500ms   # a comment\n\
         wait\nstats\n\
         start -m 1kpps --size 128 --flows 3\nwait 200ms\npause -p 1\nupdate -m 1% -p 0\nresume\nstop\nstats\n\
         clear\nports\nstats\nquit\nstart -m 1kpps\n",
    );
    assert!(
        out.contains("port 0 pa  UDP, 64 B  2.000 kpps = 1.344 Mbit/s L1  for 500.0 ms  af-packet"),
        "{out}{err}"
    );
    assert!(out.contains("port 0 pa  ended: "), "{out}");
    assert!(out.contains("port 1 pb  paused"), "{out}");
    // 1 % of 100 Mbit/s on the wire at 128 B
    assert!(
        out.contains("844.6 pps = 1.000 Mbit/s L1  until stop"),
        "{out}"
    );
    assert!(out.contains("02:00:00:00:00:0a"), "{out}");
    let before_clear = out.split("all counters are 0").next().unwrap();
    let (sent, ours) = (row(before_clear, "frames sent"), row(before_clear, "ours"));
    for (at, (port, other)) in [("pa", 1), ("pb", 0)].into_iter().enumerate() {
        // what the host itself says on a port comes on top
        let left = wire.counter(port, "tx", "packets");
        assert!(
            sent[at] > 0 && sent[at] <= left && left < sent[at] + 50,
            "{sent:?} {left} {out}"
        );
        assert_eq!(sent[at], ours[other], "{out}");
    }
    assert_eq!(row(&out, "frames sent"), [0, 0, 0]);
    // nothing happens after quit, and nothing is left
    assert_eq!(wire.attached(), "");
    lab.assert_clean("console");
}

#[test]
fn a_wrong_command_ends_a_script_and_its_traffic() {
    if !root("a_wrong_command_ends_a_script_and_its_traffic") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for (lines, code, words) in [
        ("fly\nports\n", 2, "unrecognized subcommand 'fly'"),
        (
            "start -m 1kpps\nstart -m 1kpps\nports\n",
            2,
            "port 0 (pa) sends already",
        ),
        ("start\nports\n", 2, "-m 10kpps"),
        ("start -m 5%\nports\n", 2, "--link 1G"),
        ("start -f no-such\nports\n", 2, "no profile `no-such`"),
        ("start -m 1kpps --to 8.8.8.8 -p 0\nports\n", 3, "8.8.8.8"),
        ("update -m 1kpps\n", 2, "nothing is being sent"),
        ("stop -p 7\n", 2, "0 (pa), 1 (pb)"),
    ] {
        let (found, out, err) = console(&lab, &wire, "--engine af-packet", lines);
        assert_eq!(found, code, "{lines}: {out}{err}");
        assert!(err.contains(words), "{lines}: {err}");
        assert!(!out.contains("interface"), "{lines} went on: {out}");
        assert_eq!(wire.attached(), "", "{lines}");
    }
    let taken = console(&lab, &wire, "--port pa", "quit\n");
    assert_eq!(taken.0, 2, "{taken:?}");
}
