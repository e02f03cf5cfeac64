//! `pkt-gen`: its lines as lab scripts and our importer read them, its frames as tshark does, its counts as the kernel's.
//!
//! Traffic stays on a veth pair between two namespaces of the test's own. [`Wire`] is that pair.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fwdlab_store::import::netbenches::log::Log;
use rustix::process::Signal;

use crate::support::{
    Ended, Lab, PATIENCE, PROGRAM, Started, own_run, root, skipped, tool, try_tool,
};

/// `tx0` in one namespace, `rx0` in another, and nothing that speaks by itself.
struct Wire {
    tx: String,
    rx: String,
}

impl Wire {
    fn new() -> Wire {
        own_run();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!(
            "pktgen-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let wire = Wire {
            tx: format!("{id}-tx"),
            rx: format!("{id}-rx"),
        };
        for netns in [&wire.tx, &wire.rx] {
            tool(&["ip", "netns", "add", netns]);
            let quiet = "net.ipv6.conf.default.disable_ipv6=1";
            tool(&["ip", "netns", "exec", netns, "sysctl", "-qw", quiet]);
        }
        tool(&[
            "ip", "link", "add", "tx0", "netns", &wire.tx, "type", "veth", "peer", "name", "rx0",
            "netns", &wire.rx,
        ]);
        tool(&["ip", "-n", &wire.tx, "link", "set", "tx0", "up"]);
        tool(&["ip", "-n", &wire.rx, "link", "set", "rx0", "up"]);
        wire
    }

    /// What the kernel counted: frames that left `tx0` and frames that came to `rx0`.
    fn counted(&self) -> (u64, u64) {
        (
            self.counter(&self.tx, "tx0", 9),
            self.counter(&self.rx, "rx0", 1),
        )
    }

    /// A column of /proc/net/dev.
    fn counter(&self, netns: &str, interface: &str, column: usize) -> u64 {
        let text = tool(&["ip", "netns", "exec", netns, "cat", "/proc/net/dev"]);
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("{interface}:")))
            .unwrap();
        line.split_whitespace()
            .nth(column)
            .unwrap()
            .parse()
            .unwrap()
    }

    /// No program is attached, and nothing waits for frames.
    fn assert_detached(&self) {
        for (netns, interface) in [(&self.tx, "tx0"), (&self.rx, "rx0")] {
            let link = tool(&["ip", "-d", "-n", netns, "link", "show", interface]);
            assert!(!link.contains("xdp"), "{link}");
            assert!(!link.contains("promiscuity 1"), "{link}");
            let packet = tool(&["ip", "netns", "exec", netns, "cat", "/proc/net/packet"]);
            assert_eq!(packet.lines().count(), 1, "{packet}");
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = try_tool(&["ip", "netns", "del", &self.tx]);
        let _ = try_tool(&["ip", "netns", "del", &self.rx]);
    }
}

/// pkt-gen in a namespace, both streams into one log as a lab's scripts have it.
fn pkt_gen(lab: &Lab, netns: &str, line: &str) -> Started {
    let mut command = lab.with(&["sh"], &["-c"]);
    command.arg(format!(
        "exec {PROGRAM} pkt-gen --netns {netns} {line} 2>&1"
    ));
    lab.start_command(command)
}

fn run(lab: &Lab, netns: &str, line: &str) -> Ended {
    pkt_gen(lab, netns, line).wait(PATIENCE)
}

/// Frames, bytes and seconds of the totals.
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

/// What bench-lab-ministat.sh of the netbenches project does with a log, with tools that every host has: the lines but the
/// first 15 and the last 10; of those that match, the fourth field.
fn lab_script(log: &Path) -> Vec<f64> {
    let script = r#"awk -v lines="$(wc -l < "$1")" 'NR > 15 && NR <= lines - 10' "$1" \
        | grep -E 'main_thread[[:space:]]\[[[:digit:]]+\][[:space:]][1-9].*pps' | sed 's/  */ /g' | cut -d ' ' -f 4"#;
    let text = tool(&["sh", "-c", script, "sh", log.to_str().unwrap()]);
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// A sender and a receiver as in bench-lab-2nodes.config, shorter and with more lines per second.
#[test]
fn a_labs_script_and_our_importer_read_its_logs() {
    if !root("a_labs_script_and_our_importer_read_its_logs") {
        return;
    }
    const FRAMES: u64 = 30_000;
    const RATE: f64 = 5000.0;
    let lab = Lab::new();
    let wire = Wire::new();
    let receiver_line = "-N -f rx -i rx0 -w 1 -W -T 100";
    let sender_line = format!(
        "-f tx -N -i tx0 -n {FRAMES} -l 60 -4 -d 198.19.10.1:2001-198.19.10.100 -D 00:0d:b9:41:ca:3d \
         -s 198.18.10.1:2001-198.18.10.20 -S 0c:c4:7a:ab:29:35 -w 1 -R {RATE} -T 100"
    );
    let before = wire.counted();
    let mut receiver = pkt_gen(&lab, &wire.rx, receiver_line);
    receiver.wait_until("the receiver", |_| {
        tool(&["ip", "-d", "-n", &wire.rx, "link", "show", "rx0"]).contains("xdp")
    });
    std::thread::sleep(Duration::from_secs(1));
    let sender = run(&lab, &wire.tx, &sender_line);
    let receiver = receiver.wait(PATIENCE);
    sender.code(0);
    receiver.code(0);
    let after = wire.counted();
    assert_eq!(
        (after.0 - before.0, after.1 - before.1),
        (FRAMES, FRAMES),
        "the kernel's counters"
    );
    wire.assert_detached();

    for (side, line, ended, what) in [
        ("receiver", receiver_line, &receiver, "Received"),
        ("sender", sender_line.as_str(), &sender, "Sent"),
    ] {
        let file = lab.path().join(format!("bench.1.{side}"));
        std::fs::write(&file, format!("CMD: pkt-gen {line}\n{}", ended.out)).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        let log = Log::read(&mut &bytes[..], &mut Vec::new()).unwrap();
        let told = totals(&ended.out, what);
        assert_eq!((told.0, told.1), (FRAMES, FRAMES * 60), "{}", ended.out);

        assert_eq!(log.counts.unknown, 0, "{:?}", log.unknown);
        assert_eq!(log.counts.damaged, 0);
        let total = if side == "sender" {
            log.sent
        } else {
            log.received
        };
        assert_eq!(total.and_then(|total| total.count()), Some(FRAMES));
        let frames: f64 = log.samples.iter().filter_map(|sample| sample.frames).sum();
        // a last interval of less than 20 ms has no line, as it says nothing about a rate
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
        assert!(rates.len() > 15, "{} rates", rates.len());
        let last = log.counts.lines - 10;
        let picked: Vec<f64> = log
            .picked
            .iter()
            .filter(|picked| (16..=last).contains(&u64::from(picked.line)))
            .filter_map(|picked| picked.value)
            .collect();
        assert_eq!(rates, picked);
        // single intervals are as uneven as the host is busy; over all of their time the rate is slower at most. Who waits for the first
        // frame, and after the last, receives nothing
        let intervals = log.samples.iter();
        let intervals: Vec<(f64, f64)> = intervals
            .map(|s| (s.frames.unwrap(), s.interval_us.unwrap() as f64))
            .collect();
        let waits = |(frames, us): &&(f64, f64)| frames * 1e6 / us < RATE / 2.0;
        let before = intervals.iter().take_while(waits).count();
        let after = intervals.iter().rev().take_while(waits).count();
        let flow = &intervals[before..intervals.len() - after];
        let (frames, us) = flow
            .iter()
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mean = frames * 1e6 / us;
        assert!(mean < RATE * 1.1, "{mean}: {rates:?}");
        if !sender.out.contains("could not be sent") {
            assert!(mean > RATE * 0.9, "{mean}: {rates:?}");
        }
    }
    // frame n is due n / RATE after the first, which may leave late where the host is busy
    let seconds = totals(&sender.out, "Sent").2;
    assert!(seconds >= (FRAMES as f64 - 1.0) / RATE - 0.5, "{seconds} s");
    ministat_reads(&lab.path().join("bench.1.receiver"));
}

/// The script's last step, with ministat itself.
fn ministat_reads(log: &Path) {
    let rates = lab_script(log);
    let file = log.with_extension("rates");
    let lines: Vec<String> = rates.iter().map(f64::to_string).collect();
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    match try_tool(&["ministat", "-n", file.to_str().unwrap()]) {
        Ok(text) => {
            let last = text.lines().last().unwrap();
            let printed: f64 = last.split_whitespace().nth(4).unwrap().parse().unwrap();
            assert!((printed / median(&rates) - 1.0).abs() < 0.01, "{text}");
        }
        Err(why) => skipped(
            "a_labs_script_and_our_importer_read_its_logs: ministat",
            &why,
        ),
    }
}

/// tshark reads what is on the wire: flows in the original's order, each equally often, and checksums that are right.
#[test]
fn frames_are_right_and_flows_are_equal() {
    let name = "frames_are_right_and_flows_are_equal";
    if !root(name) {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let four = "-s 198.18.10.1:2000-198.18.10.3:2001 -d 198.19.10.1:53-198.19.10.4 -S 02:00:00:00:00:07 -D 02:00:00:00:00:09";
    let six =
        "-6 -l 62 -s [2001:2:0:10::1]-[2001:2:0:10::4] -d [2001:2:0:8010::1]-[2001:2:0:8010::6]";
    for (line, flows, size) in [(four, 24, "60"), (six, 24, "62")] {
        let Some(capture) = Capturing::start(&lab, &wire, name) else {
            return;
        };
        let ended = run(
            &lab,
            &wire.tx,
            &format!("-f tx -N -i tx0 -w 0 -n 240 -R 2000 {line}"),
        );
        ended.code(0);
        let fields = [
            "frame.len",
            "eth.src",
            "eth.dst",
            "ip.src",
            "ipv6.src",
            "udp.srcport",
            "ip.dst",
            "ipv6.dst",
            "udp.dstport",
            "ip.checksum.status",
            "udp.checksum.status",
        ];
        let rows = capture.rows(240, &fields);
        assert_eq!(rows.len(), 240, "{}", ended.out);
        let mut counts: BTreeMap<&[String], u32> = BTreeMap::new();
        for row in &rows {
            assert_eq!(row[0], size, "{row:?}");
            // 1 is good; IPv6 has no checksum of its own
            assert!(row[9] == "1" || size == "62", "{row:?}");
            assert_eq!(row[10], "1", "{row:?}");
            *counts.entry(&row[3..9]).or_default() += 1;
        }
        assert_eq!(counts.len(), flows);
        assert!(counts.values().all(|n| *n == 10), "{counts:?}");
        if size == "60" {
            assert_eq!(
                (&*rows[0][1], &*rows[0][2]),
                ("02:00:00:00:00:07", "02:00:00:00:00:09")
            );
            let seen: Vec<(&str, &str, &str)> = rows[..8]
                .iter()
                .map(|row| (&*row[3], &*row[5], &*row[6]))
                .collect();
            assert_eq!(seen[0], ("198.18.10.1", "2000", "198.19.10.1"));
            assert_eq!(seen[1], ("198.18.10.1", "2001", "198.19.10.1"));
            assert_eq!(seen[2], ("198.18.10.2", "2000", "198.19.10.1"));
            assert_eq!(seen[6], ("198.18.10.1", "2000", "198.19.10.2"));
        }
    }
}

/// tcpdump on `rx0`.
struct Capturing {
    file: PathBuf,
    tcpdump: std::process::Child,
}

impl Capturing {
    fn start(lab: &Lab, wire: &Wire, name: &str) -> Option<Capturing> {
        for program in ["tcpdump", "tshark"] {
            if let Err(why) = try_tool(&[program, "--version"]) {
                skipped(name, &format!("{program}: {why}"));
                return None;
            }
        }
        let file = lab.path().join("wire.pcap");
        let said = lab.path().join("tcpdump.err");
        let tcpdump = Command::new("ip")
            .args([
                "netns", "exec", &wire.rx, "tcpdump", "-i", "rx0", "-U", "-p",
            ])
            // short places for frames, so that all have one while a busy host leaves tcpdump no time
            .args(["--immediate-mode", "-s", "256", "-Z", "root", "-w"])
            .arg(&file)
            .stderr(std::fs::File::create(&said).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while !std::fs::read_to_string(&said)
            .unwrap()
            .contains("listening")
        {
            assert!(began.elapsed() < PATIENCE, "tcpdump does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Capturing { file, tcpdump })
    }

    /// Fields of so many frames, as soon as they are there.
    fn rows(self, frames: usize, fields: &[&str]) -> Vec<Vec<String>> {
        let read = || {
            let mut words = vec!["tshark", "-r", self.file.to_str().unwrap(), "-n"];
            words.extend(["-o", "udp.check_checksum:TRUE"]);
            words.extend(["-o", "ip.check_checksum:TRUE", "-T", "fields"]);
            fields.iter().for_each(|field| words.extend(["-e", field]));
            // a file that is being written to may end in the middle of a frame
            try_tool(&words).unwrap_or_default()
        };
        let began = Instant::now();
        loop {
            let text = read();
            if text.lines().count() >= frames || began.elapsed() > Duration::from_secs(10) {
                let row = |line: &str| line.split('\t').map(str::to_owned).collect();
                return text.lines().map(row).collect();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

#[test]
fn signals_end_it_with_its_last_lines() {
    if !root("signals_end_it_with_its_last_lines") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for (signal, code) in [(Signal::INT, 0), (Signal::TERM, 143)] {
        let before = wire.counted();
        let mut receiver = pkt_gen(&lab, &wire.rx, "-i rx0 -w 0");
        receiver.wait_until("the receiver", |_| {
            tool(&["ip", "-d", "-n", &wire.rx, "link", "show", "rx0"]).contains("xdp")
        });
        let mut sender = pkt_gen(&lab, &wire.tx, "-f tx -i tx0 -w 0 -R 1k -n 0");
        sender.wait_until("frames", |_| wire.counted().0 > before.0 + 100);
        sender.signal(signal);
        let sender = sender.wait(PATIENCE);
        sender.code(code);
        receiver.wait_until("the last frames", |_| wire.counted().0 == wire.counted().1);
        std::thread::sleep(Duration::from_millis(50));
        receiver.signal(signal);
        let receiver = receiver.wait(PATIENCE);
        receiver.code(code);
        let sent = wire.counted().0 - before.0;
        assert_eq!(totals(&sender.out, "Sent").0, sent, "{}", sender.out);
        assert_eq!(
            totals(&receiver.out, "Received").0,
            sent,
            "{}",
            receiver.out
        );
        for ended in [&sender, &receiver] {
            assert!(
                ended.out.contains("Kpps (") || ended.out.contains(" pps ("),
                "{}",
                ended.out
            );
            assert!(ended.out.contains("\nSpeed: "), "{}", ended.out);
        }
        wire.assert_detached();
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
    let mut pong = pkt_gen(&lab, &wire.rx, "-f pong -i rx0 -w 0");
    pong.wait_until("pong", |_| {
        let sockets = tool(&["ip", "netns", "exec", &wire.rx, "cat", "/proc/net/packet"]);
        sockets.lines().count() > 1
    });
    std::thread::sleep(Duration::from_millis(100));
    let ping = run(&lab, &wire.tx, "-f ping -i tx0 -w 0 -N -n 2500 -R 1k");
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
    assert_eq!(number(0), 2500, "{}", ping.out);
    let (least, mean) = (number(3), number(5));
    assert!(
        least > 0 && least <= mean && mean < 1_000_000_000,
        "{total}"
    );
    // 2.5 s have two seconds that are told where the host is quiet, with their buckets, which add up
    let lines: Vec<&str> = ping.out.lines().collect();
    let told: Vec<usize> = (0..lines.len())
        .filter(|at| lines[*at].contains("] count "))
        .collect();
    assert!(!told.is_empty(), "{}", ping.out);
    for at in told {
        let count: u64 = lines[at].split(' ').nth(4).unwrap().parse().unwrap();
        assert!(lines[at + 1].contains("] k: "), "{}", lines[at + 1]);
        let buckets = lines[at + 2].split_whitespace();
        assert_eq!(
            buckets.map(|n| n.parse::<u64>().unwrap()).sum::<u64>(),
            count
        );
    }
    // every question left and every answer came, by the kernel's counters
    assert_eq!(wire.counter(&wire.tx, "tx0", 9), 2500);
    assert_eq!(wire.counter(&wire.tx, "tx0", 1), 2500);
    wire.assert_detached();
}

#[test]
fn rxseq_sees_what_txseq_left_out() {
    if !root("rxseq_sees_what_txseq_left_out") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let mut receiver = pkt_gen(&lab, &wire.rx, "-f rxseq -i rx0 -N -w 0");
    receiver.wait_until("the receiver", |_| {
        let sockets = tool(&["ip", "netns", "exec", &wire.rx, "cat", "/proc/net/packet"]);
        sockets.lines().count() > 1
    });
    std::thread::sleep(Duration::from_millis(100));
    let mut sent = 0;
    for _ in 0..2 {
        let before = wire.counted();
        let mut sender = pkt_gen(&lab, &wire.tx, "-f txseq -i tx0 -N -w 0 -R 2k -n 7");
        sender.wait_until("frames", |_| wire.counted().1 > before.1 + 200);
        sender.signal(Signal::INT);
        let sender = sender.wait(PATIENCE);
        sender.code(0);
        assert!(sender.out.contains("ignored: -n: txseq sends without end"));
        sent += totals(&sender.out, "Sent").0;
    }
    receiver.wait_until("the last frames", |_| wire.counted().1 == sent);
    std::thread::sleep(Duration::from_millis(100));
    receiver.signal(Signal::INT);
    let receiver = receiver.wait(PATIENCE);
    receiver.code(0);
    // the second sender begins at 0 again: one jump back, and no other
    assert!(
        receiver.out.contains("Sequence OUT OF ORDER: exp "),
        "{}",
        receiver.out
    );
    assert!(receiver.out.contains(" found 0\n"), "{}", receiver.out);
    assert!(
        receiver
            .out
            .contains("0 gaps with 0 frames missing, 1 frames out of order"),
        "{}",
        receiver.out
    );
    assert_eq!(totals(&receiver.out, "Received").0, sent);
}

/// Every command line of the archive's logs is understood: it fails for the interface, which is not here, and for nothing
/// else.
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
    assert!(
        !lines.is_empty(),
        "no command lines in {}",
        archive.display()
    );
    for line in &lines {
        // the shell takes the quotes off, as it did then
        let (_, arguments) = line.split_once("pkt-gen").unwrap();
        let ended = Command::new("sh")
            .args([
                "-c",
                &format!("{PROGRAM} pkt-gen {arguments} -i nosuch0 </dev/null"),
            ])
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{line}: {err}");
        assert!(err.contains("no interface nosuch0"), "{line}: {err}");
    }
    let _ = writeln!(
        std::io::stderr(),
        "{name}: {} different lines of {} logs",
        lines.len(),
        text.lines().count()
    );
}

#[test]
fn wrong_use_is_answered_as_the_original_does() {
    let run = |arguments: &[&str]| {
        let output = Command::new(PROGRAM)
            .arg("pkt-gen")
            .args(arguments)
            .output()
            .unwrap();
        // who asks for JSON is answered in JSON, also when it went wrong
        assert_eq!(output.stdout.is_empty(), !arguments.contains(&"--json"));
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, err) = run(&["-f", "tx"]);
    assert_eq!(code, 255, "{err}");
    assert!(
        err.contains("main [3020] missing ifname\nUsage:\npkt-gen arguments\n"),
        "{err}"
    );
    let (code, err) = run(&["-i", "lo", "-y"]);
    assert_eq!(code, 255, "{err}");
    assert!(err.contains("bad option y\nUsage:"), "{err}");
    let (code, err) = run(&["-h"]);
    assert_eq!((code, err.lines().next()), (0, Some("Usage:")));
    let (code, err) = run(&["-i", "nosuch0", "--json"]);
    assert_eq!(code, 2, "{err}");
    // somebody has this address
    let (code, err) = run(&["-i", "lo", "-f", "tx", "-w", "0"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("--allow-address"), "{err}");
}

#[test]
fn ports_are_safe_and_sizes_fit() {
    if !root("ports_are_safe_and_sizes_fit") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for (line, code, why) in [
        ("-f tx -i tx0 -d 8.8.8.8", 3, "--to-any-address"),
        ("-f tx -i tx0 -Z", 3, "0.0.0.0 to 255.255.255.255"),
        ("-f ping -i tx0 -d 8.8.8.8", 3, "--to-any-address"),
        ("-f tx -i tx0 -l 1515", 255, "must be <= 1514"),
        ("-f tx -i tx0 -l 59", 255, "at least 60 bytes"),
        (
            "-f tx -i tx0 -P nosuch.pcap",
            2,
            "failed to open pcap file nosuch.pcap",
        ),
    ] {
        let ended = run(&lab, &wire.tx, &format!("{line} -w 0 -n 1"));
        assert_eq!(ended.code, code, "{line}: {}", ended.out);
        assert!(ended.out.contains(why), "{line}: {}", ended.out);
    }
    assert_eq!(wire.counted(), (0, 0), "nothing was sent");

    tool(&[
        "ip",
        "-n",
        &wire.tx,
        "address",
        "add",
        "10.9.9.9/24",
        "dev",
        "tx0",
    ]);
    let before = wire.counted().0;
    let refused = run(&lab, &wire.tx, "-f tx -i tx0 -w 0 -n 1");
    assert_eq!(refused.code, 3, "{}", refused.out);
    let accepted = run(
        &lab,
        &wire.tx,
        "-f tx -i tx0 -w 0 -n 50 -R 1k -d 8.8.8.8 --to-any-address --allow-address",
    );
    accepted.code(0);
    assert_eq!(wire.counted().0 - before, 50);
}

#[test]
fn a_link_called_pkt_gen_is_pkt_gen() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("pkt-gen");
    symlink(PROGRAM, &link).unwrap();
    let output = Command::new(&link).arg("-h").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("Usage:\npkt-gen arguments\n"), "{err}");
}
