//! `pkt-gen`: its output as lab scripts and our importer read it, its frames as tshark reads them,
//! its counts as the kernel's. Start with [`a_labs_script_and_our_importer_read_its_logs`].

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fwdlab_netbenches::log::Log;
use rustix::process::Signal;

use crate::support::{CommandResult, Lab, PATIENCE, PROGRAM, Started, root, skipped, tool};
use crate::wire::{Wire, tshark};

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
fn lab_script(log: &Path) -> Vec<f64> {
    let script = r#"awk -v lines="$(wc -l < "$1")" 'NR > 15 && NR <= lines - 10' "$1" \
        | grep -E 'main_thread[[:space:]]\[[[:digit:]]+\][[:space:]][1-9].*pps' | sed 's/  */ /g' | cut -d ' ' -f 4"#;
    let text = tool(&["sh", "-c", script, "sh", log.to_str().unwrap()]);
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// A sender and a receiver as in bench-lab-2nodes.config, for a shorter time and with more lines
/// per second.
#[test]
fn a_labs_script_and_our_importer_read_its_logs() {
    if !root("a_labs_script_and_our_importer_read_its_logs") {
        return;
    }
    const FRAMES: u64 = 25_000;
    const RATE: f64 = 5000.0;
    let lab = Lab::new();
    let wire = Wire::new();
    let receiver_line = "-N -f rx -i pb -w 0 -W -T 80";
    let sender_line = format!(
        "-f tx -N -i pa -n {FRAMES} -l 60 -4 -d 198.19.10.1:2001-198.19.10.100 -D 00:0d:b9:41:ca:3d \
         -s 198.18.10.1:2001-198.18.10.20 -S 0c:c4:7a:ab:29:35 -w 1 -R {RATE} -T 80"
    );
    let before = counted(&wire);
    let receiver = receiving(&lab, &wire, receiver_line);
    let sender = run(&lab, &wire, &sender_line);
    let receiver = receiver.wait(PATIENCE);
    sender.code(0);
    receiver.code(0);
    let after = counted(&wire);
    assert_eq!(
        (after.0 - before.0, after.1 - before.1),
        (FRAMES, FRAMES),
        "the kernel's counters"
    );
    assert_eq!(wire.attached(), "");
    let seconds = totals(&sender.out, "Sent").2;

    for (side, line, ended, what) in [
        ("receiver", receiver_line, &receiver, "Received"),
        ("sender", sender_line.as_str(), &sender, "Sent"),
    ] {
        let file = lab.path().join(format!("bench.1.{side}"));
        std::fs::write(&file, format!("CMD: pkt-gen {line}\n{}", ended.out)).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        let log = Log::read(&mut &bytes[..], &mut Vec::new()).unwrap();
        let reported = totals(&ended.out, what);
        assert_eq!(
            (reported.0, reported.1),
            (FRAMES, FRAMES * 60),
            "{}",
            ended.out
        );

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
        assert!(
            (0.0..=RATE * 0.02 + 1.0).contains(&left_out),
            "intervals leave out {left_out}"
        );
        for sample in &log.samples {
            let (frames, us) = (sample.frames.unwrap(), sample.interval_us.unwrap() as f64);
            assert_eq!(
                sample.pps,
                ((frames * 1e6 + (us / 2.0).floor()) / us).floor()
            );
            assert!(sample.end_us.is_some());
        }

        let rates = lab_script(&file);
        // the script skips 25 lines, and a busy host prints fewer
        assert!(!rates.is_empty(), "{}", log.counts.lines);
        let last = log.counts.lines - 10;
        let picked: Vec<f64> = log
            .picked
            .iter()
            .filter(|picked| (16..=last).contains(&u64::from(picked.line)))
            .filter_map(|picked| picked.value)
            .collect();
        assert_eq!(rates, picked);
        // intervals vary on a busy host, where frames that had to wait leave later; from the first
        // frame to the last, the rate can only be too low. The other intervals are empty
        let intervals = log.samples.iter();
        let intervals: Vec<(f64, f64)> = intervals
            .map(|s| (s.frames.unwrap(), s.interval_us.unwrap() as f64))
            .collect();
        let is_empty = |(frames, _): &&(f64, f64)| *frames == 0.0;
        let before = intervals.iter().take_while(is_empty).count();
        let after = intervals.iter().rev().take_while(is_empty).count();
        let flow = &intervals[before..intervals.len() - after];
        let (frames, us) = flow
            .iter()
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mean = frames * 1e6 / us;
        assert!(mean < RATE * 1.1, "{mean}: {rates:?}");
        // a sender that gets too little of a CPU takes longer, and says so
        let reached = FRAMES as f64 / seconds;
        if !sender.out.contains("could not be sent") {
            assert!(mean > reached.min(RATE) * 0.9, "{mean}: {rates:?}");
        }
    }
    // frame n is due n / RATE after the first, which may leave late on a busy host
    assert!(seconds >= (FRAMES as f64 - 1.0) / RATE - 0.5, "{seconds} s");
}

/// tshark reads the frames on the wire: flows in the original's order, each equally often, with
/// correct checksums.
#[test]
fn frames_are_right_and_flows_are_equal() {
    let name = "frames_are_right_and_flows_are_equal";
    if !root(name) {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let file = lab.path().join("sent.pcapng");
    let words = format!("capture --port pb -c 480 --for 60s -o {}", file.display());
    let mut capture = wire.start(&lab, &words);
    capture.wait_until("its begin", |this| this.err().contains("capture   pb"));
    for line in [
        "-s 198.18.10.1:2000-198.18.10.3:2001 -d 198.19.10.1:53-198.19.10.4 -S 02:00:00:00:00:07 -D 02:00:00:00:00:09",
        "-6 -l 62 -s [2001:2:0:10::1]-[2001:2:0:10::4] -d [2001:2:0:8010::1]-[2001:2:0:8010::6]",
    ] {
        let line = format!("-f tx -N -i pa -w 0 -n 240 -R 2000 {line}");
        run(&lab, &wire, &line).code(0);
    }
    capture.wait(PATIENCE).code(0);
    let fields = "frame.len eth.src eth.dst ip.src ipv6.src udp.srcport ip.dst ipv6.dst udp.dstport ip.checksum.status \
        udp.checksum.status";
    let Some(lines) = tshark(&file, fields, "") else {
        return skipped(name, "no tshark");
    };
    let rows: Vec<Vec<&str>> = lines
        .iter()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(rows.len(), 480);
    // IPv6 has no header checksum
    for (rows, size, ip_checksum) in [(&rows[..240], "60", "1"), (&rows[240..], "62", "")] {
        let mut counts: BTreeMap<&[&str], u32> = BTreeMap::new();
        for row in rows {
            assert_eq!(
                (row[0], row[9], row[10]),
                (size, ip_checksum, "1"),
                "{row:?}"
            );
            *counts.entry(&row[3..9]).or_default() += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|n| *n == 10), "{counts:?}");
    }
    assert_eq!(rows[0][1..3], ["02:00:00:00:00:07", "02:00:00:00:00:09"]);
    let seen = [0, 1, 2, 6].map(|at: usize| (rows[at][3], rows[at][5], rows[at][6]));
    assert_eq!(
        seen,
        [
            ("198.18.10.1", "2000", "198.19.10.1"),
            ("198.18.10.1", "2001", "198.19.10.1"),
            ("198.18.10.2", "2000", "198.19.10.1"),
            ("198.18.10.1", "2000", "198.19.10.2"),
        ]
    );
}

#[test]
fn signals_end_it_with_its_last_lines() {
    if !root("signals_end_it_with_its_last_lines") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for (signal, code) in [(Signal::INT, 0), (Signal::TERM, 143)] {
        let before = counted(&wire);
        let mut receiver = receiving(&lab, &wire, "-i pb -w 0");
        let mut sender = pkt_gen(&lab, &wire, "-f tx -i pa -w 0 -R 1k -n 0");
        sender.wait_until("frames", |_| counted(&wire).0 > before.0 + 100);
        sender.signal(signal);
        let sender = sender.wait(PATIENCE);
        receiver.wait_until("the last frames", |_| counted(&wire).0 == counted(&wire).1);
        std::thread::sleep(Duration::from_millis(50));
        receiver.signal(signal);
        let receiver = receiver.wait(PATIENCE);
        let sent = counted(&wire).0 - before.0;
        for (ended, what) in [(&sender, "Sent"), (&receiver, "Received")] {
            ended.code(code);
            assert_eq!(totals(&ended.out, what).0, sent, "{}", ended.out);
            assert!(
                ended.out.contains("Kpps (") || ended.out.contains(" pps ("),
                "{}",
                ended.out
            );
            assert!(ended.out.contains("\nSpeed: "), "{}", ended.out);
        }
        assert_eq!(wire.attached(), "");
    }
    lab.assert_clean("signals");
}

#[test]
fn ping_is_answered_by_pong() {
    if !root("ping_is_answered_by_pong") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let pong = receiving(&lab, &wire, "-f pong -i pb -w 0");
    let ping = run(&lab, &wire, "-f ping -i pa -w 0 -N -n 1500 -R 1k");
    ping.code(0);
    pong.signal(Signal::INT);
    pong.wait(PATIENCE).code(0);
    let total = ping
        .out
        .lines()
        .find_map(|line| line.split_once("RTT over "))
        .unwrap_or_else(|| panic!("{}", ping.out))
        .1;
    let words: Vec<&str> = total.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    assert_eq!(words[1], "packets:");
    assert_eq!(number(0), 1500, "{}", ping.out);
    let (least, mean) = (number(3), number(5));
    assert!(
        least > 0 && least <= mean && mean < 1_000_000_000,
        "{total}"
    );
    // 1.5 s include one printed second, with its buckets, which add up
    let lines: Vec<&str> = ping.out.lines().collect();
    let reported: Vec<usize> = (0..lines.len())
        .filter(|at| lines[*at].contains("] count "))
        .collect();
    assert!(!reported.is_empty(), "{}", ping.out);
    for at in reported {
        let count: u64 = lines[at].split(' ').nth(4).unwrap().parse().unwrap();
        assert!(lines[at + 1].contains("] k: "), "{}", lines[at + 1]);
        let buckets = lines[at + 2].split_whitespace();
        assert_eq!(
            buckets.map(|n| n.parse::<u64>().unwrap()).sum::<u64>(),
            count
        );
    }
    // every request left and every reply arrived, by the kernel's counters
    assert_eq!(
        ["tx", "rx"].map(|way| wire.counter("pa", way, "packets")),
        [1500, 1500]
    );
    assert_eq!(wire.attached(), "");
}

#[test]
fn rxseq_sees_what_txseq_left_out() {
    if !root("rxseq_sees_what_txseq_left_out") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let mut receiver = receiving(&lab, &wire, "-f rxseq -i pb -N -w 0");
    let mut sent = 0;
    for _ in 0..2 {
        let before = counted(&wire);
        let mut sender = pkt_gen(&lab, &wire, "-f txseq -i pa -N -w 0 -R 2k -n 7");
        sender.wait_until("frames", |_| counted(&wire).1 > before.1 + 200);
        sender.signal(Signal::INT);
        let sender = sender.wait(PATIENCE);
        sender
            .code(0)
            .prints(&["ignored: -n: txseq sends without end"]);
        sent += totals(&sender.out, "Sent").0;
    }
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
}

/// Every command line in the logs of the archive is understood: it fails only because its interface
/// does not exist here.
#[test]
fn the_archives_command_lines_are_understood() {
    let name = "the_archives_command_lines_are_understood";
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/netbenches");
    let archive = std::env::var_os("FWDLAB_NETBENCHES").map_or(beside, PathBuf::from);
    if !archive.is_dir() {
        return skipped(
            name,
            "the sample of the netbenches archive is not here (FWDLAB_NETBENCHES)",
        );
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
    if !root("ports_are_safe_and_sizes_fit") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for (line, code, reason) in [
        ("-f tx -i pa -d 8.8.8.8", 3, "--to-any-address"),
        ("-f tx -i pa -Z", 3, "0.0.0.0 to 255.255.255.255"),
        ("-f ping -i pa -d 8.8.8.8", 3, "--to-any-address"),
        ("-f tx -i pa -l 1515", 255, "must be <= 1514"),
        ("-f tx -i pa -l 59", 255, "at least 60 bytes"),
        (
            "-f tx -i pa -P nosuch.pcap",
            2,
            "failed to open pcap file nosuch.pcap",
        ),
    ] {
        let ended = run(&lab, &wire, &format!("{line} -w 0 -n 1"));
        ended.code(code).prints(&[reason]);
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
