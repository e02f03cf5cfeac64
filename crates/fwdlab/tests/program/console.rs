//! The traffic console: on a pipe, where its output is compared with the kernel's counters, and on
//! a terminal, where lines are edited, remembered and completed. Start with
//! [`commands_of_the_manual_are_typed`].

use std::path::Path;

use rustix::process::Signal;

use crate::support::{CommandResult, Lab, command_result, root};
use crate::tty::Tty;
use crate::wire::{MAC_A, MAC_B, Wire, wired};

/// Runs a console with these lines until it ends.
fn console(lab: &Lab, wire: &Wire, more: &str, lines: &str) -> CommandResult {
    let words = format!("console --port pa --port pb --dst-mac {MAC_B},{MAC_A} {more}");
    let mut command = assert_cmd::Command::from_std(lab.program(&wire.arguments(&words)));
    command_result(command.write_stdin(lines).output().unwrap())
}

/// Returns the numbers of the `stats` line with this name.
fn row(text: &str, name: &str) -> Vec<u64> {
    let line = text.lines().rfind(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    let cells = line[name.len()..].split_whitespace();
    cells
        .map(|cell| cell.replace(',', "").parse().unwrap())
        .collect()
}

#[test]
fn sent_frames_of_a_console_equal_the_kernel_counters() {
    let Some((lab, wire)) = wired() else { return };
    let ended = console(
        &lab,
        &wire,
        "--link 100M --engine af-packet",
        "start -m 2kpps -p 0 -d 500ms   # a comment\n\
         wait\nstats\n\
         start -m 1kpps --size 128 --flows 3\nwait 200ms\npause -p 1\nupdate -m 1% -p 0\nresume\nstop\nstats\n\
         clear\nports\nstats\nquit\nstart -m 1kpps\n",
    );
    ended.prints(&[
        "port 0 pa  UDP, 64 B  2.000 kpps = 1.344 Mbit/s L1  for 500.0 ms  af-packet",
        "port 0 pa  ended: ",
        "port 1 pb  paused",
        // 1 % of 100 Mbit/s at layer 1, 128 B
        "844.6 pps = 1.000 Mbit/s L1  until stop",
        "02:00:00:00:00:0a",
    ]);
    let out = ended.out;
    let before_clear = out.split("all counters are 0").next().unwrap();
    let (sent, ours) = (row(before_clear, "frames sent"), row(before_clear, "ours"));
    for (at, (port, other)) in [("pa", 1), ("pb", 0)].into_iter().enumerate() {
        // frames that the host itself sends on a port come on top
        let left = wire.counter(port, "tx", "packets");
        assert!(
            sent[at] > 0 && sent[at] <= left && left < sent[at] + 50,
            "{sent:?} {left} {out}"
        );
        assert_eq!(sent[at], ours[other], "{out}");
    }
    assert_eq!(row(&out, "frames sent"), [0, 0, 0]);
    // nothing runs after quit, and nothing is left
    assert_eq!(wire.attached(), "");
    lab.assert_clean("console");
}

#[test]
fn a_wrong_command_ends_a_script_and_its_traffic() {
    let Some((lab, wire)) = wired() else { return };
    for (lines, code, reason) in [
        (
            "start -m 1kpps\nstart -m 1kpps\nports\n",
            2,
            "port 0 (pa) sends already",
        ),
        ("start -m 1kpps --to 8.8.8.8 -p 0\nports\n", 3, "8.8.8.8"),
    ] {
        let ended = console(&lab, &wire, "--engine af-packet", lines);
        ended.code(code).says(&[reason]);
        assert!(!ended.out.contains("interface"), "it went on: {ended:?}");
        assert_eq!(wire.attached(), "", "{lines}");
    }
    console(&lab, &wire, "--port pa", "quit\n").code(2);
}

/// Starts a console on a terminal, and waits for its first prompt. The history is in the lab's
/// folder.
fn on_terminal(lab: &Lab, wire: &Wire, size: (u16, u16)) -> Tty {
    let words = format!(
        "console --port pa --port pb --dst-mac {MAC_B},{MAC_A} --link 100M --engine af-packet"
    );
    let arguments = wire.arguments(&words);
    let state = lab.path().join("state");
    let more = [("XDG_STATE_HOME", state.to_str().unwrap())];
    let mut tty = Tty::start(lab, &arguments, size, &more);
    at_prompt(&mut tty, "fwdlab>");
    tty
}

/// Waits until the last line that is not empty is this one.
#[track_caller]
fn at_prompt<'a>(tty: &'a mut Tty, line: &str) -> &'a mut Tty {
    tty.wait_for(&format!("line `{line}` at the end"), |text| {
        text.trim_end().lines().last() == Some(line)
    })
}

/// Types a line at the prompt, and waits for this output.
#[track_caller]
fn types<'a>(tty: &'a mut Tty, line: &str, output: &str) -> &'a mut Tty {
    at_prompt(tty, "fwdlab>").keys(line).wait_for_text(output)
}

const UP: &str = "\x1b[A";

#[test]
fn lines_are_completed_and_remembered() {
    let Some((lab, wire)) = wired() else { return };
    let mut tty = on_terminal(&lab, &wire, (100, 60));
    // completes the common prefix, then lists the candidates; several lines arrive at once, as if
    // pasted
    tty.keys("stats\rports\rpor");
    at_prompt(&mut tty, "fwdlab> por").keys("\x15");
    tty.wait_for_text("frames sent").wait_for_text("MTU");
    tty.keys("s\t\t").wait_for_text("start  stats  stop");
    at_prompt(&mut tty, "fwdlab> st").keys("ar\t--du\t");
    at_prompt(&mut tty, "fwdlab> start --duration")
        .keys("1 -f imix5\t\t")
        .wait_for_text("imix512  imix570");
    tty.keys("70\t-p 1 p\t\t").wait_for_text("pa  pb");
    at_prompt(&mut tty, "fwdlab> start --duration 1 -f imix570 -p 1 p");
    // Ctrl-U: deletes the line
    tty.keys("\x15");
    at_prompt(&mut tty, "fwdlab>").keys("por\t\r");
    tty.wait_for("the ports twice", |text| text.matches(MAC_A).count() == 3);
    at_prompt(&mut tty, "fwdlab>").keys(UP);
    at_prompt(&mut tty, "fwdlab> ports").keys("\r");
    tty.wait_for("ports again", |text| text.matches(MAC_A).count() == 4);
    // on a terminal, an error does not end the console
    for (line, reason) in [
        ("fly\r", "unrecognized subcommand 'fly'"),
        ("update -m 1kpps\r", "nothing is being sent"),
        ("stop -p 7\r", "0 (pa), 1 (pb)"),
    ] {
        types(&mut tty, line, reason);
    }
    at_prompt(&mut tty, "fwdlab>").keys("quit\r");
    assert_eq!(tty.end(), 0);
    assert!(tty.is_restored());
    // the history is available in the next console, and to no other user
    let mut tty = on_terminal(&lab, &wire, (80, 24));
    for line in ["quit", "stop -p 7", "update -m 1kpps"] {
        tty.keys(UP);
        at_prompt(&mut tty, &format!("fwdlab> {line}"));
    }
    // Ctrl-D on an empty line
    tty.keys("\x15\x04");
    assert_eq!(tty.end(), 0);
    assert!(tty.is_restored());
    use std::os::unix::fs::PermissionsExt;
    let file = std::fs::metadata(lab.path().join("state/fwdlab/console_history")).unwrap();
    assert_eq!(file.permissions().mode() & 0o077, 0);
}

/// Types every command in the manual's table, in that order; none is refused.
#[test]
fn commands_of_the_manual_are_typed() {
    if !root() {
        return;
    }
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/terminal.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let table = manual.split("## Traffic by hand").nth(1).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let typed = rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').step_by(2));
    // tui needs a terminal
    let typed = typed.filter(|command| !["", "tui"].contains(command));
    let commands: Vec<&str> = typed.collect();
    assert!(commands.len() >= 13, "{commands:?}");
    // lower rates, and shorter durations
    let lines = commands.join("\n").replace("10mpps", "1kpps");
    let lines = lines
        .replace("-d 30", "-d 10m")
        .replace("wait 5", "wait 200ms");
    let (lab, wire) = (Lab::new(), Wire::new());
    let ended = console(&lab, &wire, "--link 100M --engine af-packet", &lines);
    ended.measured();
    assert!(!ended.err.contains("fwdlab: "), "{ended:?}");
    assert_eq!(commands.last(), Some(&"quit"));
}

/// In the second tier, because they take long.
mod slow {
    use super::*;

    #[test]
    fn traffic_is_watched_from_the_prompt_and_back() {
        let Some((lab, wire)) = wired() else { return };
        let mut tty = on_terminal(&lab, &wire, (80, 24));
        types(&mut tty, "start -m 200pps -p 0\r", "until stop");
        types(&mut tty, "tui\r", "back to the prompt");
        assert!(tty.screen().alternate_screen());
        let counted = |text: &str| {
            let line = text.lines().find(|line| line.contains("frames sent"))?;
            let cell = line.split_whitespace().nth(2)?;
            cell.replace(',', "").parse::<u64>().ok()
        };
        const FRAMES: u64 = 300;
        tty.wait_for("300 frames", |text| counted(text) > Some(FRAMES));
        // c resets the counters, which then continue: from here on they lack what was sent before
        tty.keys("c");
        tty.wait_for("other counters than the kernel's", |text| {
            let sent = wire.counter("pa", "tx", "packets");
            counted(text).is_some_and(|shown| shown + FRAMES < sent)
        });
        for key in ["q", "\x1b", "\x03"] {
            tty.keys(key);
            at_prompt(&mut tty, "fwdlab>");
            assert!(!tty.screen().alternate_screen());
            tty.keys("tui\r").wait_for_text("sending");
        }
        tty.keys("q");
        // leaving the screen does not change the traffic; Ctrl-C at the prompt stops it
        types(&mut tty, "\x03", "all traffic stopped");
        tty.keys("\x03")
            .wait_for_text("nothing is being sent; quit ends");
        // traffic that ends by itself prints a message above the line being typed
        types(&mut tty, "start -m 1kpps -p 1 -d 1\r", "for 1.00 s");
        types(&mut tty, "sta", "port 1 pb  ended");
        at_prompt(&mut tty, "fwdlab> sta").keys("\x15");
        // Ctrl-C ends a wait, not the console
        let output = "kpps = 672.0 kbit/s L1  until stop";
        tty.keys("start -m 1kpps -p 0\r").wait_for_text(output);
        let stops = |text: &str| text.matches("all traffic stopped").count();
        let before = stops(&tty.text());
        tty.keys("wait 10m\r");
        tty.settle(std::time::Duration::from_millis(200));
        tty.keys("\x03");
        tty.wait_for("an end", |text| stops(text) > before);
        // the traffic has stopped, or this would be refused; Ctrl-D ends the console and its
        // traffic
        types(
            &mut tty,
            "start -m 2kpps\r",
            "port 1 pb  UDP, 64 B  2.000 kpps",
        );
        at_prompt(&mut tty, "fwdlab>").keys("\x04");
        assert_eq!(tty.end(), 0);
        assert!(tty.is_restored());
        assert_eq!(wire.attached(), "");
        lab.assert_clean("a console on a terminal");
    }

    #[test]
    fn a_console_that_ends_restores_the_terminal() {
        let Some((lab, wire)) = wired() else { return };
        let foot = "q back to the prompt  c clear counters";
        for (started, last, signal, code) in [
            ("start -m 1kpps\rtui\r", foot, Signal::TERM, 143),
            ("start -m 1kpps\rsta", "fwdlab> sta", Signal::HUP, 130),
        ] {
            let mut tty = on_terminal(&lab, &wire, (80, 24));
            at_prompt(tty.keys(started), last);
            assert!(!tty.is_restored());
            tty.signal(signal);
            assert_eq!(tty.end(), code, "{started:?}: {}", tty.text());
            assert!(tty.is_restored(), "{started:?}: {}", tty.text());
            // the next output starts on a new line
            assert_eq!(tty.screen().cursor_position().1, 0, "{}", tty.text());
            assert_eq!(wire.attached(), "", "{started:?}");
        }
        let mut tty = on_terminal(&lab, &wire, (80, 24));
        tty.keys("start -m 1kpps\r").wait_for_text("until stop");
        tty.close_terminal();
        assert_eq!(wire.attached(), "");
        lab.assert_clean("a console whose terminal went");
    }
}
