//! Senders, receivers, captures and probes by hand: exact counts, judged by the kernel's counters and by tshark.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::support::{Lab, PATIENCE, count, list, root, skipped};
use crate::wire::{MAC_B, Wire, capture_file, frame, frames, tshark};

fn send(more: &str) -> String {
    format!("send --port pa --dst-mac {MAC_B} {more}")
}

/// Starts to capture at pb, runs `work`, and returns the file when so many frames are in it.
fn captured(lab: &Lab, wire: &Wire, frames: usize, work: impl FnOnce()) -> std::path::PathBuf {
    let file = lab.path().join("captured.pcapng");
    let mut capture = wire.start(
        lab,
        &format!(
            "capture --port pb -c {frames} --for 30s -o {}",
            file.display()
        ),
    );
    capture.wait_until("its begin", |capture| {
        capture.err().contains("capture   pb")
    });
    work();
    capture.wait(PATIENCE).code(0);
    file
}

#[test]
fn every_flow_is_sent_equally_often_and_tshark_finds_nothing_wrong() {
    const TEST: &str = "every_flow_is_sent_equally_often_and_tshark_finds_nothing_wrong";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for engine in ["af-packet", "af-xdp"] {
        let words = format!("--for 600frames --load 5kpps --flows 60 --engine {engine}");
        let file = captured(&lab, &wire, 600, || {
            let document = wire.json(&lab, &send(&words));
            let sent = &document["send"][0];
            assert_eq!(count(&sent["frames_sent"]), 600);
            assert_eq!(count(&sent["port_tx_packets"]), 600);
            assert_eq!(sent["engine"], engine);
            assert_eq!(sent["loads"][0], "5 kpps = 3.360 Mbit/s L1 at 64 B");
        });
        let Some(flows) = tshark(
            &file,
            "ip.addr",
            "ip.checksum.status==1 && udp.checksum.status==1",
        ) else {
            return skipped(TEST, "no tshark");
        };
        let mut often = BTreeMap::new();
        for flow in flows {
            *often.entry(flow).or_insert(0) += 1;
        }
        assert_eq!(often.len(), 60);
        assert!(often.values().all(|&frames| frames == 10), "{often:?}");
    }
    lab.assert_clean("flows");
}

#[test]
fn tags_addresses_and_profiles_are_on_the_wire_as_they_were_typed() {
    const TEST: &str = "tags_addresses_and_profiles_are_on_the_wire_as_they_were_typed";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for (words, field, expected) in [
        ("--vlan 7 --flows 1", "vlan.id", &["7"][..]),
        (
            "--from 10.0.0.1-2 --to 10.1.0.9",
            "ip.src",
            &["10.0.0.1", "10.0.0.2"],
        ),
        (
            "--from 10.0.0.1 --to 10.1.0.9:53-55",
            "udp.dstport",
            &["53", "54", "55"],
        ),
        (
            "--from fd00::1 --to fd00:1::1-fd00:1::2",
            "ipv6.dst",
            &["fd00:1::1", "fd00:1::2"],
        ),
        ("--profile qinq", "eth.type", &["0x88a8"]),
        ("--size 1518 --flows 1", "frame.len", &["1514"]),
        (
            "--src-mac 02:00:00:00:00:77 --flows 1",
            "eth.src",
            &["02:00:00:00:00:77"],
        ),
    ] {
        let file = captured(&lab, &wire, 60, || {
            let document = wire.json(&lab, &send(&format!("{words} --for 60frames --load 1kpps")));
            assert_eq!(
                count(&document["send"][0]["port_tx_packets"]),
                60,
                "{words}"
            );
        });
        let Some(mut values) = tshark(&file, field, "") else {
            return skipped(TEST, "no tshark");
        };
        assert_eq!(values.len(), 60, "{words}");
        values.sort();
        values.dedup();
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(values, expected, "{words}");
    }
}

#[test]
fn loads_are_resolved_aloud_and_a_link_is_never_fuller_than_full() {
    if !root("loads_are_resolved_aloud_and_a_link_is_never_fuller_than_full") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    wire.run(&lab, &send("--load 50% --for 10frames"))
        .code(2)
        .says(&["virtual port without a speed", "--link 1G"]);
    let sent = wire.run(&lab, &send("--load 50% --link 1G --for 10frames"));
    sent.measured()
        .says(&["load      50% of 1.000 Gbit/s L1 = 744.048 kpps at 64 B"]);
    let sent = wire.run(&lab, &send("--load 1Gbps --link 100M --for 10frames"));
    sent.measured()
        .says(&["held at the line rate of 100.0 Mbit/s L1: 148.81 kpps"]);
    // 14,880.95 frames in a second of 10 Mbit/s, and not one more than is due
    for load in ["max", "100%", "200%"] {
        let document = wire.json(
            &lab,
            &send(&format!("--load {load} --link 10M --for 500ms")),
        );
        let frames = count(&document["send"][0]["frames_sent"]);
        let seconds = document["duration_s"].as_f64().unwrap();
        // the clock of the sender begins a little before that of its counts
        let due = 14_880.95 * (seconds + 0.1);
        assert!(
            frames > 0 && (frames as f64) < due,
            "{load}: {frames} of {due}"
        );
        assert_eq!(frames, count(&document["send"][0]["port_tx_packets"]));
    }
}

#[test]
fn a_next_hop_is_asked_for_and_the_hosts_tables_stay_as_they_are() {
    if !root("a_next_hop_is_asked_for_and_the_hosts_tables_stay_as_they_are") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    wire.run(&lab, "send --port pa --for 1frame")
        .code(3)
        .says(&[
            "nobody on pa answers for 198.19.10.1 (ARP)",
            "--dst-mac",
            "--via",
        ]);
    // the other end in a namespace of its own, so that it answers for itself
    let other = Wire::new();
    wire.ip(&format!("link set pb netns {} name pc", other.name));
    other.exec(
        "echo 0 > /proc/sys/net/ipv6/conf/pc/disable_ipv6; ip link set pc up; \
         ip address add 198.18.0.1/24 dev pc; ip address add 2001:2::1/64 dev pc nodad",
    );
    for (words, via) in [("", "198.18.0.1"), ("--ipv6", "2001:2::1")] {
        let before = other.counter("pc", "rx", "packets");
        let ended = wire.run(
            &lab,
            &format!("send --port pa --via {via} --for 20frames --load 1kpps {words}"),
        );
        ended.measured();
        assert!(other.counter("pc", "rx", "packets") >= before + 20);
        let neighbours = wire.ip("neighbour show dev pa");
        assert_eq!(neighbours, "", "{via}");
    }
}

#[test]
fn a_receiver_counts_ours_by_number_and_others_by_kind() {
    if !root("a_receiver_counts_ours_by_number_and_others_by_kind") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let others: Vec<_> = (0..40)
        .map(|n| (u64::from(n) * 1000, frame([198, 19, 0, 1], n, 30)))
        .collect();
    let others = capture_file(&lab, "others.pcapng", &others);
    for engine in ["xdp", "af-packet"] {
        let mut receive = wire.start(
            &lab,
            &format!(
                "receive --port pb --flows 10 --for 500frames --engine {engine} --json-stream"
            ),
        );
        receive.event("started");
        wire.run(&lab, &format!("send --port pa --pcap {}", others.display()))
            .code(0);
        wire.run(
            &lab,
            &send("--for 250frames --load 2kpps --flows 10 --session 9"),
        )
        .measured();
        wire.run(&lab, &send("--for 500frames --load 2kpps --flows 10"))
            .measured();
        let ended = receive.wait(PATIENCE);
        ended.code(0);
        let last = ended.out.lines().last().unwrap();
        let document: Value = serde_json::from_str(last).unwrap();
        let received = &document["receive"][0];
        assert_eq!(received["receiver"], engine);
        assert_eq!(count(&received["frames_received"]), 500, "{engine}");
        let stream = &received["streams"][0];
        assert_eq!(count(&stream["frames_expected"]), 500);
        assert_eq!(stream["frames_lost"], 0);
        assert_eq!(stream["frames_duplicate"], 0);
        assert_eq!(
            (count(&stream["flows"]), count(&stream["flows_not_seen"])),
            (10, 0)
        );
        if engine == "xdp" {
            assert_eq!(count(&received["frames_foreign"]), 40 + 250);
            let kinds = &received["foreign_kinds"]["frames"];
            assert_eq!(count(&kinds["IPv4 / UDP"]), 40 + 250, "{kinds}");
        }
    }
    lab.assert_clean("receivers");
}

#[test]
fn captures_are_files_that_tshark_reads_with_nanoseconds() {
    const TEST: &str = "captures_are_files_that_tshark_reads_with_nanoseconds";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let file = lab.path().join("c.pcap");
    for (options, own_only, length) in [
        ("", false, "60"),
        ("--format pcap --snap 40", false, "40"),
        ("--format pcap-us", false, "60"),
        ("--filter own --session 5", true, "60"),
    ] {
        let mut capture = wire.start(
            &lab,
            format!(
                "capture --port pb -c 50 --for 30s -o {} {options}",
                file.display()
            )
            .trim(),
        );
        capture.wait_until("its begin", |capture| {
            capture.err().contains("capture   pb")
        });
        if own_only {
            wire.run(&lab, &send("--for 30frames --load 1kpps --session 4"))
                .measured();
        }
        wire.run(&lab, &send("--for 50frames --load 1kpps --session 5"))
            .measured();
        let ended = capture.wait(PATIENCE);
        ended
            .code(0)
            .says(&["captured  50 frames", "software, CLOCK_REALTIME"]);
        let Some(lengths) = tshark(&file, "frame.cap_len", "") else {
            return skipped(TEST, "no tshark");
        };
        assert_eq!(lengths, [length; 50].map(str::to_owned), "{options}");
        let times: Vec<f64> = (tshark(&file, "frame.time_epoch", "").unwrap().iter())
            .map(|time| time.parse().unwrap())
            .collect();
        assert!(times.is_sorted(), "{times:?}");
        let whole: Vec<String> = tshark(&file, "frame.len", "").unwrap();
        assert!(whole.iter().all(|len| len == "60"), "{options}");
    }
    // into a pipe, as it happens
    let script = format!(
        "{} capture --port pb --netns {} -c 5 -o - | tshark -r - -T fields -e udp.dstport",
        crate::support::PROGRAM,
        wire.name
    );
    let mut piped = lab.start_command(lab.with(&["sh", "-c"], &[&script]));
    piped.wait_until("its begin", |capture| {
        capture.err().contains("capture   pb")
    });
    wire.run(&lab, &send("--for 2s --load 100pps")).measured();
    assert_eq!(piped.wait(PATIENCE).out.lines().count(), 5);
}

#[test]
fn a_capture_that_cannot_be_written_says_so() {
    if !root("a_capture_that_cannot_be_written_says_so") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    wire.run(&lab, "capture --port pb -o /nonexistent/x.pcapng --for 1s")
        .code(3)
        .says(&["cannot write /nonexistent/x.pcapng", "No such file"]);
    let mut full = wire.start(&lab, "capture --port pb -o /dev/full --for 20s");
    full.wait_until("its begin", |capture| {
        capture.err().contains("capture   pb")
    });
    wire.run(&lab, &send("--for 3000frames --load 20kpps --size 1518"))
        .measured();
    full.wait(PATIENCE)
        .code(4)
        .says(&["/dev/full", "No space left on device"]);
    assert_eq!(wire.attached(), "");
}

#[test]
fn a_recording_is_replayed_byte_by_byte_at_its_own_times() {
    if !root("a_recording_is_replayed_byte_by_byte_at_its_own_times") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    // gaps from nothing to 20 ms, sizes from small to large
    let begin = 1_700_000_000_123_456_789;
    let mut at = begin;
    let recorded: Vec<(u64, Vec<u8>)> = (0..60_u64)
        .map(|n| {
            at += n * n * 7_919_003 % 20_000_011;
            (at, frame([198, 19, 0, 1], n as u8, 18 + 23 * n as usize))
        })
        .collect();
    let file = capture_file(&lab, "recorded.pcapng", &recorded);
    for (options, speed, rounds) in [("", 1.0, 1), ("--speed 2x", 2.0, 1), ("--loop 3", 1.0, 3)] {
        let mut late_ns = 0;
        let file = captured(&lab, &wire, 60 * rounds, || {
            let words = format!("send --port pa --pcap {} {options}", file.display());
            let document = wire.json(&lab, words.trim());
            let sent = &document["send"][0];
            assert_eq!(count(&sent["frames_sent"]), 60 * rounds as u64);
            assert_eq!(count(&sent["frames_not_sent"]), 0);
            late_ns = count(&sent["lateness"]["max_ns"]);
        });
        let arrived = frames(&file);
        for (n, (time, bytes)) in arrived.iter().enumerate() {
            let (recorded_at, expected) = &recorded[n % 60];
            assert_eq!(bytes, expected, "{options}: frame {n}");
            if n >= 60 {
                continue;
            }
            // a busy machine may hold up the sender, which it tells, and no frame is early
            let offset = (time - arrived[0].0) as f64;
            let due = (recorded_at - recorded[0].0) as f64 / speed;
            let slack = late_ns as f64 + 5e6;
            assert!(
                (offset - due).abs() <= slack,
                "{options}: frame {n} at {offset} ns instead of {due} ns, late {late_ns} ns"
            );
        }
    }
    // at a load of its own, with other MAC addresses
    let file = captured(&lab, &wire, 60, || {
        let words = format!(
            "send --port pa --pcap {} --load 1kpps --dst-mac 02:00:00:00:00:99",
            file.display()
        );
        assert_eq!(
            count(&wire.json(&lab, &words)["send"][0]["frames_sent"]),
            60
        );
    });
    assert!(frames(&file).iter().all(|(_, bytes)| bytes[5] == 0x99));
}

#[test]
fn captures_that_are_none_are_told_with_their_place() {
    if !root("captures_that_are_none_are_told_with_their_place") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let good = capture_file(
        &lab,
        "good.pcapng",
        &[
            (0, frame([198, 19, 0, 1], 1, 40)),
            (9, frame([198, 19, 0, 1], 2, 40)),
        ],
    );
    let bytes = std::fs::read(&good).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = lab.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let empty = capture_file(&lab, "empty.pcapng", &[]);
    let long = capture_file(&lab, "long.pcapng", &[(0, frame([198, 19, 0, 1], 1, 1600))]);
    for (path, code, words) in [
        (Path::new("/nonexistent").to_owned(), 2, "No such file"),
        (
            file("text", b"This is not a capture"),
            2,
            "not a capture file",
        ),
        (file("nothing", b""), 2, "the capture ends at byte 0"),
        (
            file("cut.pcapng", &bytes[..bytes.len() - 7]),
            2,
            "the capture ends at byte",
        ),
        (empty, 2, "has no frames"),
        (long, 3, "its MTU is 1500"),
    ] {
        wire.run(&lab, &format!("send --port pa --pcap {}", path.display()))
            .code(code)
            .says(&[words]);
    }
    assert_eq!(wire.counter("pa", "tx", "packets"), 0);
}

#[test]
fn a_probe_tells_latencies_beside_the_testers_own() {
    if !root("a_probe_tells_latencies_beside_the_testers_own") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let document = wire.json(
        &lab,
        &format!("ping --port pa --rx-port pb --dst-mac {MAC_B} -c 300"),
    );
    assert!(count(&document["frames_sent"]) > 0);
    assert_eq!(document["frames_lost"], 0);
    for part in ["latency", "floor"] {
        let latency = &document[part];
        let at = |name: &str| count(&latency[name]);
        assert!(at("latency_min_ns") > 0, "{document}");
        assert!(
            at("latency_min_ns") <= at("latency_p50_ns")
                && at("latency_p50_ns") <= at("latency_p90_ns")
                && at("latency_p90_ns") <= at("latency_max_ns"),
            "{latency}"
        );
    }
    wire.run(&lab, "ping --port pa --rx-port pb --load max")
        .code(2);
    lab.assert_clean("a probe");
}

/// Every kind of timestamps that there is on veth, and what is said of those that there are not.
#[test]
fn who_took_the_times_is_told_of_both_ends() {
    if !root("who_took_the_times_is_told_of_both_ends") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let ping = format!("ping --port pa --rx-port pb --dst-mac {MAC_B} -c 200 --no-floor");
    let (monotonic, realtime) = ("CLOCK_MONOTONIC", "CLOCK_REALTIME");
    for (words, used, departure, arrival) in [
        (
            "",
            "software",
            ("software", realtime),
            ("software", realtime),
        ),
        (
            "--timestamps software",
            "software",
            ("software", realtime),
            ("software", realtime),
        ),
        (
            "--timestamps user",
            "user",
            ("user", monotonic),
            ("software", monotonic),
        ),
        (
            "--engine af-xdp",
            "user",
            ("user", monotonic),
            ("software", monotonic),
        ),
    ] {
        let document = wire.json(&lab, &format!("{ping} {words}"));
        let stamps = &document["timestamps"];
        assert_eq!(
            (&stamps["kind"], &stamps["valid"]),
            (&used.into(), &true.into()),
            "{document}"
        );
        let latency = &document["latency"];
        for (end, (kind, clock)) in [("departure", departure), ("arrival", arrival)] {
            let origin = &latency[format!("{end}_timestamps")];
            assert_eq!(origin["kind"], kind, "{words}: {origin}");
            assert_eq!(origin["clock"], clock, "{words}: {origin}");
        }
        assert_eq!(latency["latency_frames"], document["frames_received"]);
        if used == "software" {
            for end in ["departures", "arrivals"] {
                assert_eq!(stamps[format!("{end}_stamped")], document["frames_sent"]);
                assert_eq!(stamps[format!("{end}_not_stamped")], 0);
            }
            assert_eq!(document["engine"], "af-packet");
        }
        let not_taken = list(&stamps["not_taken"]).len();
        assert_eq!(
            not_taken,
            usize::from(!words.contains("--timestamps")),
            "{stamps}"
        );
    }
    let told = wire.run(&lab, &ping);
    told.measured();
    for words in [
        "clocks    departures: software, as the driver takes the frame (SO_TIMESTAMPING), CLOCK_REALTIME",
        " departures, ",
        "not hardware: pa (veth) has no clock of its own",
        "not part of the latency",
    ] {
        assert!(told.out.contains(words), "{words}: {told:?}");
    }
    // the receiver alone has the departures that frames carry
    let send =
        format!("send --port pa --rx-port pb --dst-mac {MAC_B} --for 150frames --load 1kpps");
    let document = wire.json(&lab, &format!("{send} --analyse --timestamps software"));
    let port = &document["receive"][0];
    assert_eq!(
        port["timestamps"]["departures_stamped"],
        document["send"][0]["frames_sent"]
    );
    assert_eq!(
        port["streams"][0]["latency"]["departure_timestamps"]["kind"],
        "software"
    );
    let document = wire.json(&lab, &format!("{send} --analyse"));
    assert_eq!(document["receive"][0]["timestamps"]["kind"], "user");
    lab.assert_clean("timestamps");
}

#[test]
fn timestamps_that_cannot_be_had_are_refused_before_a_frame_is_sent() {
    if !root("timestamps_that_cannot_be_had_are_refused_before_a_frame_is_sent") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let refused = "pa (veth) has no clock of its own (ethtool -T: PTP Hardware Clock: none), and SIOCGHWTSTAMP says: \
                   Operation not supported (os error 95). Nothing was changed. Use --timestamps software";
    let ends = format!("--port pa --rx-port pb --dst-mac {MAC_B}");
    for (words, code, says) in [
        (format!("ping {ends} --timestamps hardware"), 3, refused),
        (
            format!("send {ends} --analyse --timestamps hardware"),
            3,
            refused,
        ),
        ("receive --port pa --timestamps hardware".into(), 3, refused),
        (
            "capture --port pa --timestamps hardware -c 1".into(),
            3,
            refused,
        ),
        (
            format!("ping {ends} --timestamps software --engine xdp-live"),
            2,
            "say --engine af-packet",
        ),
        (
            format!("ping {ends} -c 5000000"),
            2,
            "say --timestamps user",
        ),
        (format!("send {ends} --timestamps software"), 2, "--analyse"),
    ] {
        wire.run(&lab, &words).code(code).says(&[says]);
    }
    assert_eq!(wire.counter("pa", "tx", "packets"), 0);
    lab.assert_clean("refused timestamps");
}

#[test]
fn the_tester_measures_itself() {
    if !root("the_tester_measures_itself") {
        return;
    }
    let lab = Lab::new();
    let document = lab.json(&[
        "selftest", "--trial", "100ms", "--size", "64", "--loads", "1kpps",
    ]);
    assert_eq!(document["engines_that_do_not_work"], Value::Array(vec![]));
    let limits = list(&document["limits"]);
    let engines: Vec<&str> = limits
        .iter()
        .map(|l| l["engine"].as_str().unwrap())
        .collect();
    assert_eq!(engines, ["xdp-live", "af-xdp", "af-packet"]);
    for limit in limits {
        assert!(limit["received_pps"].as_f64().unwrap() > 0.0, "{limit}");
    }
    assert_eq!(list(&document["pacing"]).len(), 3);
    assert!(!list(&document["floors"]).is_empty());
    // on ports of one's own, and nothing stays behind
    let wire = Wire::new();
    let words = "selftest pa pb --trial 100ms --size 64 --loads 1kpps --engine af-xdp";
    assert_eq!(list(&wire.json(&lab, words)["limits"]).len(), 1);
    assert_eq!(wire.attached(), "");
    wire.run(&lab, "selftest pa").code(2);
    lab.assert_clean("a self-test");
}
