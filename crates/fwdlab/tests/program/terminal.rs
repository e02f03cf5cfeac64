//! The full screen on a terminal: its contents for a fixed journal at several sizes, restoring the
//! terminal however the program ends, and steering a run by keys. Start with [`with_journal`].

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Lab, json_lines, root, texts};
use crate::tty::Tty;
use crate::wire::Wire;

const HELD: Duration = Duration::from_millis(700);
const END: &str = "\x1b[F";
const LEFT: &str = "\x1b[D";

/// Creates a lab with the fixed journal as a stored run.
fn with_journal() -> Lab {
    let lab = Lab::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/journal");
    let head = fs::read_to_string(from.join("run.json")).unwrap();
    let id = head.split("\"id\": \"").nth(1).unwrap();
    let to = lab.runs().join(id.split('"').next().unwrap());
    fs::create_dir_all(&to).unwrap();
    for name in ["run.json", "events.jsonl"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    lab
}

/// Starts `top` on the fixed journal.
fn replay(lab: &Lab, size: (u16, u16), more: &[(&str, &str)]) -> Tty {
    let mut tty = Tty::start(lab, &["top", "@1"], size, more);
    tty.wait_for_text("REPLAY");
    tty
}

/// Starts `top` on the fixed journal, and goes to its end.
fn replayed(lab: &Lab, size: (u16, u16), more: &[(&str, &str)]) -> Tty {
    let mut tty = replay(lab, size, more);
    tty.keys(END).wait_for_text("REPLAY end").settle(HELD);
    tty
}

#[test]
fn a_finished_run_its_panes_and_explanations_at_80x24() {
    let lab = with_journal();
    let mut tty = replayed(&lab, (80, 24), &[]);
    assert!(tty.has_colour());
    insta::assert_snapshot!("screen_80x24", tty.text());
    // the manual shows the same screen
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/terminal.md");
    let manual = fs::read_to_string(manual).unwrap();
    for line in tty.text().lines() {
        let shown = format!("    {}\n", line.trim_end());
        assert!(manual.contains(&shown), "{line}");
    }
    for (keys, waits_for, name) in [
        ("\t\t", "[events]", "screen_events"),
        ("\x1b[De", "other trials", "screen_loss"),
        ("q?", "Esc back", "screen_help"),
        ("q\t\t", "[dut]", "screen_dut"),
    ] {
        tty.keys(keys).wait_for_text(waits_for).settle(HELD);
        insta::assert_snapshot!(name, tty.text());
    }
}

/// For slow connections: sends nothing while nothing changes, and changes are smaller than the
/// screen.
#[test]
fn a_finished_run_at_120x40_and_only_differences_are_sent() {
    let lab = with_journal();
    let mut tty = replayed(&lab, (120, 40), &[]);
    assert!(tty.has_colour());
    insta::assert_snapshot!("screen_120x40", tty.text());
    let whole = tty.bytes;
    tty.settle(HELD);
    assert_eq!(tty.bytes, whole);
    tty.keys("\t\t").settle(HELD);
    tty.keys(LEFT).wait_for_text("REPLAY held").settle(HELD);
    let moved = tty.bytes - whole;
    assert!(0 < moved && moved < whole / 2, "{moved} of {whole}");
}

#[test]
fn without_colour_and_in_ascii_nothing_is_missing() {
    let lab = with_journal();
    let tty = replayed(&lab, (80, 24), &[("NO_COLOR", "1"), ("LANG", "C")]);
    assert!(!tty.has_colour());
    assert!(tty.text().is_ascii(), "{}", tty.text());
    insta::assert_snapshot!("screen_ascii", tty.text());
}

/// Latencies of a search that measured them, the functions in a boot's profile, and a screen whose
/// text remains at the end.
#[test]
fn latencies_profiles_and_final_messages() {
    let lab = Lab::new();
    let line = "rfc2544 --size 64 --tests throughput,latency --engine sim --dut capacity=1e6,latency=20us --max 3Mpps";
    lab.run(line).code(0);
    let mut tty = replayed(&lab, (80, 24), &[]);
    tty.keys("l")
        .wait_for_text("p99.9")
        .wait_for_text("other trials")
        .settle(HELD);
    assert!(
        tty.text().contains("20.0 us") || tty.text().contains("20.0 µs"),
        "{}",
        tty.text()
    );
    // without a profile, there is a message
    tty.keys("lf")
        .wait_for_text("no profile of this test case is kept");
    let case = lab.only_run().join("raw/64B-2000flows-ipv4/0");
    fs::create_dir_all(&case).unwrap();
    let folded = "irq;net_rx;ip_rcv 30\nirq;net_rx;fib_lookup 60\nidle 10\n";
    fs::write(case.join("perf.folded"), folded).unwrap();
    tty.keys("f").wait_for_text("where it went").settle(HELD);
    let screen = tty.text();
    let at = |words: &str| {
        let mut lines = screen.lines();
        lines.position(|line| line.contains(words)).unwrap()
    };
    assert!(at("fib_lookup") < at("ip_rcv"), "{screen}");
    assert!(
        screen.contains("60.0 %") && screen.contains("90.0 %"),
        "{screen}"
    );
    tty.keys("fQ");
    assert_eq!(tty.end(), 0);
    assert!(tty.is_restored());
    tty.wait_for_text("rfc2544 on a simulated DUT")
        .wait_for_text("trial 15");
}

/// A terminal that cannot draw gets lines instead.
#[test]
fn a_dumb_terminal_has_lines() {
    let lab = with_journal();
    // a CI system must not turn colours on
    let dumb = [("TERM", "dumb"), ("CI", "true")];
    let ndr = "ndr --engine sim --dut capacity=1e6";
    for (line, words) in [
        (ndr, ["run       ", "NDR 999.4 kpps", "saved"]),
        ("top @2", ["run       ", "trial 126", "iteration 2"]),
    ] {
        let mut tty = Tty::start(&lab, line, (120, 200), &dumb);
        assert_eq!(tty.end(), 0, "{}", tty.text());
        for words in words {
            tty.wait_for_text(words);
        }
        assert_eq!(tty.escapes, 0, "{}", tty.text());
    }
    if !root() {
        return;
    }
    let wire = Wire::new();
    let line = format!("console --port pa --netns {}", wire.name);
    let mut tty = Tty::start(&lab, &line, (120, 200), &dumb);
    tty.wait_for_text("fwdlab> ")
        .keys("tui\n")
        .wait_for_text("tui needs a terminal that can draw");
    tty.keys("stats\n")
        .wait_for_text("intended load")
        .keys("quit\n");
    assert_eq!(tty.end(), 0, "{}", tty.text());
    assert_eq!(tty.escapes, 0, "{}", tty.text());
}

#[test]
fn the_terminal_is_restored() {
    let lab = with_journal();
    for end in ["q", "\x03", "TERM", "INT", "HUP"] {
        let mut tty = replay(&lab, (80, 24), &[]);
        assert!(!tty.is_restored());
        match end {
            "TERM" => tty.signal(Signal::TERM),
            "INT" => tty.signal(Signal::INT),
            "HUP" => tty.signal(Signal::HUP),
            keys => drop(tty.keys(keys)),
        }
        assert_eq!(tty.end(), 0, "{end:?}");
        assert!(tty.is_restored(), "{end:?}");
    }
    // a screen whose window was closed ends, and does not wait for keys forever
    assert_eq!(replay(&lab, (80, 24), &[]).close_terminal(), 0);
}

/// Writes a campaign on this host's kernel that takes longer than any test.
fn long(lab: &Lab) -> String {
    let text = "campaign = 'long'\niterations = 500\n[bed]\nmax = '100kpps'\n[procedure]\nid = 'trial'\nload = '10kpps'\nfor = '200ms'";
    lab.write("long.toml", text)
}

#[test]
fn a_run_is_controlled_by_keys_detached_and_reattached() {
    let Some(lab) = Lab::root() else { return };
    let mut own = Tty::start(&lab, &["run", &long(&lab)], (80, 24), &[]);
    own.wait_for_text("running")
        .wait_for_text("forwarded")
        .wait_for_text("trial 2");
    own.keys("p")
        .wait_for_text("PAUSED")
        .keys("p")
        .wait_for_text(" running ");
    own.keys(" ")
        .wait_for_text("FROZEN")
        .keys(" ")
        .wait_for_text("running");
    own.keys("d");
    assert_eq!(own.end(), 0);
    assert!(own.is_restored());
    own.wait_for_text("continues without this terminal");
    let mut events = json_lines(&lab.only_run().join("events.jsonl"));
    events.retain(|event| event["request"].is_string() && event["heeded"] == true);
    assert_eq!(texts(&events.into(), "request"), ["pause", "resume"]);
    // on another terminal; leaving that screen does not affect the run
    let mut other = Tty::start(&lab, &["top"], (120, 40), &[]);
    other.wait_for_text("running").wait_for_text("test cases");
    lab.run("runs steer @1 pause").code(0);
    other.wait_for_text("PAUSED");
    other.signal(Signal::TERM);
    assert_eq!(other.end(), 0);
    assert!(other.is_restored());
    // the question before leaving disappears with the run
    let mut other = Tty::start(&lab, &["top"], (80, 24), &[]);
    other
        .wait_for_text("PAUSED")
        .keys("q")
        .wait_for_text("quit?");
    lab.run("runs steer @1 stop").code(0);
    other.wait_for_text(" ended ").settle(HELD);
    assert!(!other.text().contains("quit?"), "{}", other.text());
    other.keys("q");
    assert_eq!(other.end(), 0);
    while !lab.processes().is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    lab.run("runs steer @1 stop").code(2).says(&["runs ls"]);
    lab.assert_clean("a run that was left");
}

/// Ctrl-C on the screen of our own run stops it. The exit code is that of `run` without a screen.
#[test]
fn an_interrupt_stops_an_own_run() {
    let Some(lab) = Lab::root() else { return };
    let mut own = Tty::start(&lab, &["run", &long(&lab)], (80, 24), &[]);
    own.wait_for_text("trial 1").keys("\x03");
    assert_eq!(own.end(), 130, "{}", own.text());
    assert!(own.is_restored());
    lab.assert_clean("a run that was interrupted");
}
