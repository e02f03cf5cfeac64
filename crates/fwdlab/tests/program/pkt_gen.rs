//! `pkt-gen`: its output as lab scripts and our importer read it, its counts as the kernel's. Start
//! with [`a_labs_script_and_our_importer_read_its_logs`].

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fwdlab_netbenches::log::Log;
use rustix::process::Signal;

use crate::support::{CommandResult, Lab, PATIENCE, PROGRAM, Started, cases, skipped, tool};
use crate::wire::{Wire, wired};

/// Starts pkt-gen in the namespace of the ports, with both streams in one log, as in a lab's
/// scripts.
fn pkt_gen(lab: &Lab, wire: &Wire, line: &str) -> Started {
    let mut command = lab.with(&["sh"], &["-c"]);
    command.arg(format!(
        "exec {PROGRAM} pkt-gen --netns {} {line} 2>&1",
        wire.name
    ));
    lab.start_command(command)
}

fn run(lab: &Lab, wire: &Wire, line: &str) -> CommandResult {
    pkt_gen(lab, wire, line).wait(PATIENCE)
}

/// Starts a receiver, and waits until it receives.
fn receiving(lab: &Lab, wire: &Wire, line: &str) -> Started {
    let mut receiver = pkt_gen(lab, wire, line);
    receiver.wait_until("a receiver", |this| this.out().contains("Ready..."));
    receiver
}

/// Returns the frames that left `pa` and that reached `pb`, as counted by the kernel.
fn counted(wire: &Wire) -> (u64, u64) {
    let [sent, received] =
        [("pa", "tx"), ("pb", "rx")].map(|(port, way)| wire.counter(port, way, "packets"));
    (sent, received)
}

/// Returns frames, bytes and seconds of the totals.
fn totals(log: &str, what: &str) -> (u64, u64, f64) {
    let line = log
        .lines()
        .find(|line| line.starts_with(what))
        .unwrap_or_else(|| panic!("no totals in:\n{log}"));
    let words: Vec<&str> = line.split(' ').collect();
    (
        words[1].parse().unwrap(),
        words[3].parse().unwrap(),
        words[11].parse().unwrap(),
    )
}

/// Does what bench-lab-ministat.sh of the netbenches project does with a log, with common tools:
/// skips the first 15 and the last 10 lines, and returns the fourth field of those that match.
fn lab_script(log: &str) -> Vec<f64> {
    let script = r#"awk -v lines="$(wc -l < "$1")" 'NR > 15 && NR <= lines - 10' "$1" \
        | grep -E 'main_thread[[:space:]]\[[[:digit:]]+\][[:space:]][1-9].*pps' | sed 's/  */ /g' | cut -d ' ' -f 4"#;
    let text = tool(&["sh", "-c", script, "sh", log]);
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Number of lines that the script skips, at the beginning and at the end.
const SKIPPED: u64 = 15 + 10;

/// A sender and a receiver as in bench-lab-2nodes.config, for a shorter time and with more lines
/// per second.
#[test]
fn a_labs_script_and_our_importer_read_its_logs() {
    const FRAMES: u64 = 10_000;
    const RATE: f64 = 5000.0;
    let Some((lab, wire)) = wired() else { return };
    let receiver_line = "-N -f rx -i pb -w 0 -W -T 40";
    let sender_line = format!(
        "-f tx -N -i pa -n {FRAMES} -l 60 -4 -d 198.19.10.1:2001-198.19.10.100 -D 00:0d:b9:41:ca:3d \
         -s 198.18.10.1:2001-198.18.10.20 -S 0c:c4:7a:ab:29:35 -w 0 -R {RATE} -T 40"
    );
    let receiver = receiving(&lab, &wire, receiver_line);
    let sender = run(&lab, &wire, &sender_line);
    let receiver = receiver.wait(PATIENCE);
    sender.code(0);
    receiver.code(0);
    assert_eq!(counted(&wire), (FRAMES, FRAMES), "the kernel's counters");
    assert_eq!(wire.attached(), "");
    let seconds = totals(&sender.out, "Sent").2;

    for (side, line, ended, what) in [
        ("receiver", receiver_line, &receiver, "Received"),
        ("sender", sender_line.as_str(), &sender, "Sent"),
    ] {
        let bytes = format!("CMD: pkt-gen {line}\n{}", ended.out);
        let file = lab.write(&format!("bench.1.{side}"), &bytes);
        let log = Log::read(&mut bytes.as_bytes(), &mut Vec::new()).unwrap();
        let (frames, octets, _) = totals(&ended.out, what);
        assert_eq!((frames, octets), (FRAMES, FRAMES * 60), "{bytes}");

        assert_eq!(log.counts.unknown, 0, "{:?}", log.unknown);
        assert_eq!(log.counts.damaged, 0);
        let total = if side == "sender" {
            log.sent
        } else {
            log.received
        };
        assert_eq!(total.and_then(|total| total.count()), Some(FRAMES));
        let frames: f64 = log.samples.iter().filter_map(|sample| sample.frames).sum();
        // a last interval shorter than 20 ms has no line, because it would not give a rate
        let left_out = FRAMES as f64 - frames;
        let most = RATE * 0.02 + 1.0;
        assert!(
            (0.0..=most).contains(&left_out),
            "intervals leave out {left_out}"
        );
        let lines = log.counts.lines;
        if lines <= SKIPPED {
            let reason = format!("this host is so busy that the {side} printed {lines} lines");
            return skipped(&reason);
        }
        let rates = lab_script(&file);
        assert!(!rates.is_empty(), "{lines}");
        let picked = log.picked.iter();
        let picked = picked.filter(|one| (16..=lines - 10).contains(&u64::from(one.line)));
        assert!(picked.filter_map(|one| one.value).eq(rates), "{bytes}");
    }
    // frame n is due n / RATE after the first, which may leave late on a busy host
    assert!(seconds >= (FRAMES as f64 - 1.0) / RATE - 0.5, "{seconds} s");
}

#[test]
fn ping_is_answered_by_pong() {
    let Some((lab, wire)) = wired() else { return };
    let pong = receiving(&lab, &wire, "-f pong -i pb -w 0");
    let ping = run(&lab, &wire, "-f ping -i pa -w 0 -N -n 1500 -R 1k");
    ping.code(0);
    pong.signal(Signal::INT);
    pong.wait(PATIENCE).code(0);
    let (_, total) = ping.out.split_once("RTT over ").unwrap();
    let words: Vec<&str> = total.lines().next().unwrap().split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    assert_eq!(words[1], "packets:");
    assert_eq!(number(0), 1500, "{}", ping.out);
    let (least, mean) = (number(3), number(5));
    assert!(
        least > 0 && least <= mean && mean < 1_000_000_000,
        "{total}"
    );
    // 1.5 s include one printed second
    ping.prints(&["] count ", "] k: "]);
    // every request left and every reply arrived, by the kernel's counters
    assert_eq!(
        ["tx", "rx"].map(|way| wire.counter("pa", way, "packets")),
        [1500, 1500]
    );
    assert_eq!(wire.attached(), "");
}

/// One sender after another, each ended by another signal, with its last lines.
#[test]
fn rxseq_sees_what_txseq_left_out() {
    let Some((lab, wire)) = wired() else { return };
    let mut receiver = receiving(&lab, &wire, "-f rxseq -i pb -N -w 0");
    let mut sent = 0;
    for (signal, code) in [(Signal::INT, 0), (Signal::TERM, 143)] {
        let before = counted(&wire);
        let mut sender = pkt_gen(&lab, &wire, "-f txseq -i pa -N -w 0 -R 2k -n 7");
        sender.wait_until("frames", |_| counted(&wire).1 > before.1 + 200);
        sender.signal(signal);
        let sender = sender.wait(PATIENCE);
        sender
            .code(code)
            .prints(&["ignored: -n: txseq sends without end", "\nSpeed: "]);
        sent += totals(&sender.out, "Sent").0;
    }
    assert_eq!(counted(&wire).0, sent, "the kernel's counter");
    receiver.wait_until("the last frames", |_| counted(&wire).1 == sent);
    std::thread::sleep(Duration::from_millis(100));
    receiver.signal(Signal::INT);
    let receiver = receiver.wait(PATIENCE);
    // the second sender starts at 0 again: one jump back, and no other
    receiver.code(0).prints(&[
        "Sequence OUT OF ORDER: exp ",
        " found 0\n",
        "0 gaps with 0 frames missing, 1 frames out of order",
    ]);
    assert_eq!(totals(&receiver.out, "Received").0, sent);
    assert_eq!(wire.attached(), "");
    lab.assert_clean("signals");
}

/// Every command line in the logs of the archive is understood: it fails only because its interface
/// does not exist here.
#[test]
fn the_archives_command_lines_are_understood() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/netbenches");
    let archive = std::env::var_os("FWDLAB_NETBENCHES").map_or(beside, PathBuf::from);
    if !archive.is_dir() {
        return skipped("the sample of the netbenches archive is not here (FWDLAB_NETBENCHES)");
    }
    let find = r#"find "$1" -type f \( -name '*.sender' -o -name '*.receiver' -o -name '*.sender_*' \) -exec head -qn 1 {} + \
        | grep -a '^CMD.*pkt-gen' | sed 's/^CMD[^:]*: *//'"#;
    let text = tool(&["sh", "-c", find, "sh", archive.to_str().unwrap()]);
    let lines: BTreeSet<&str> = text.lines().collect();
    assert!(!lines.is_empty(), "none in {}", archive.display());
    for line in &lines {
        // the shell removes the quotes, as it did then
        let (_, arguments) = line.split_once("pkt-gen").unwrap();
        let typed = format!("{PROGRAM} pkt-gen {arguments} -i nosuch0 </dev/null");
        let ended = Command::new("sh").args(["-c", &typed]).output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{line}: {err}");
        assert!(err.contains("no interface nosuch0"), "{line}: {err}");
    }
}

#[test]
fn wrong_use_is_answered_as_the_original_does() {
    // a link to fwdlab named pkt-gen behaves like pkt-gen
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("pkt-gen");
    symlink(PROGRAM, &link).unwrap();
    let usage = "Usage:\npkt-gen arguments\n";
    for (program, line, code, words) in [
        (link.to_str().unwrap(), "-h", 0, usage),
        (PROGRAM, "pkt-gen -h", 0, usage),
        (
            PROGRAM,
            "pkt-gen -f tx",
            255,
            &format!("main [3020] missing ifname\n{usage}"),
        ),
        (PROGRAM, "pkt-gen -i lo -y", 255, "bad option y\nUsage:"),
        (PROGRAM, "pkt-gen -i nosuch0 --json", 2, ""),
        // lo has an IP address, so it may be in use
        (PROGRAM, "pkt-gen -i lo -f tx -w 0", 3, "--allow-address"),
    ] {
        let mut command = Command::new(program);
        let output = command.args(line.split(' ')).output().unwrap();
        // with --json, errors are JSON, too
        assert_eq!(output.stdout.is_empty(), !line.contains("--json"), "{line}");
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {err}");
        match code {
            0 => assert!(err.starts_with(words), "{line}: {err}"),
            _ => assert!(err.contains(words), "{line}: {err}"),
        }
    }
}

#[test]
fn ports_are_safe_and_sizes_fit() {
    let Some((lab, wire)) = wired() else { return };
    let table = "-f tx -i pa -d 8.8.8.8 => 3: --to-any-address
        -f tx -i pa -Z => 3: 0.0.0.0 to 255.255.255.255
        -f ping -i pa -d 8.8.8.8 => 3: --to-any-address
        -f tx -i pa -l 1515 => 255: must be <= 1514
        -f tx -i pa -l 59 => 255: at least 60 bytes
        -f tx -i pa -P nosuch.pcap => 2: failed to open pcap file nosuch.pcap";
    for (line, code, words) in cases(table) {
        let ended = run(&lab, &wire, &format!("{line} -w 0 -n 1"));
        ended.code(code).prints(&words);
    }
    assert_eq!(counted(&wire), (0, 0), "nothing was sent");

    wire.ip("address add 10.9.9.9/24 dev pa");
    let before = counted(&wire).0;
    run(&lab, &wire, "-f tx -i pa -w 0 -n 1").code(3);
    run(
        &lab,
        &wire,
        "-f tx -i pa -w 0 -n 50 -R 1k -d 8.8.8.8 --to-any-address --allow-address",
    )
    .code(0);
    assert_eq!(counted(&wire).0 - before, 50);
}
