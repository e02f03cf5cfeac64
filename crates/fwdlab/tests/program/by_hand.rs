//! Senders, receivers, captures and probes by hand: exact counts, judged by the kernel's counters and by tshark.

use std::collections::BTreeMap;
use std::path::Path;

use fwdlab_packet::pcap::{self, Format, Frame, Writer};
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
    let sent = [
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
    ];
    // one file, for tshark takes a second to start
    let all = 60 * sent.len();
    let file = captured(&lab, &wire, all, || {
        for (words, ..) in sent {
            let document = wire.json(&lab, &send(&format!("{words} --for 60frames --load 1kpps")));
            assert_eq!(
                count(&document["send"][0]["port_tx_packets"]),
                60,
                "{words}"
            );
        }
    });
    let Some(rows) = tshark(&file, &sent.map(|(_, field, _)| field).join(" "), "") else {
        return skipped(TEST, "no tshark");
    };
    assert_eq!(rows.len(), all);
    for (column, ((words, _, expected), frames)) in sent.iter().zip(rows.chunks(60)).enumerate() {
        let of = |row: &String| row.split('\t').nth(column).unwrap_or_default().to_owned();
        let mut values: Vec<String> = frames.iter().map(of).collect();
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

/// Loads one after another are the frames of their integral, whatever the engine.
#[test]
fn steps_and_ramps_are_exact_to_the_frame() {
    const TEST: &str = "steps_and_ramps_are_exact_to_the_frame";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for engine in ["af-packet", "af-xdp"] {
        for (words, due) in [
            ("--load 1kpps,4kpps,2kpps --every 200ms --for 500ms", 1200),
            ("--load 2kpps,10kpps --every 300ms --ramp --for 400ms", 2800),
            (
                "--load 10kpps,2kpps --every 300ms --ramp --for 400ms --hold-ups forgive",
                2000,
            ),
            (
                "--profile imix --load 2kpps,10kpps --every 300ms --ramp --for 400ms",
                2800,
            ),
        ] {
            let document = wire.json(&lab, &send(&format!("{words} --engine {engine}")));
            let sent = &document["send"][0];
            let all = count(&sent["frames_given"]) + count(&sent["frames_not_sent"]);
            assert_eq!(all, due, "{engine} {words}: {sent}");
            assert_eq!(
                sent["port_tx_packets"], sent["frames_given"],
                "{engine} {words}"
            );
        }
    }
    let profile = lab.path().join("later.toml");
    std::fs::write(
        &profile,
        "[[stream]]\nlayers = [\"ipv4\", \"udp\"]\ndelay = \"1ms\"\n",
    )
    .unwrap();
    let own = format!(
        "--profile {} --load 1kpps,2kpps --every 1s --ramp --for 2s",
        profile.display()
    );
    let refused = wire.run(&lab, &send(&own));
    assert!(
        refused.err.contains("times of their own"),
        "{}",
        refused.err
    );
    lab.assert_clean("steps");
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
            "no answer for 198.19.10.1 on pa (ARP)",
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
        let Some(rows) = tshark(&file, "frame.cap_len frame.len frame.time_epoch", "") else {
            return skipped(TEST, "no tshark");
        };
        assert_eq!(rows.len(), 50);
        let mut times = Vec::new();
        for row in rows {
            let [captured, whole, time] = row.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{row}");
            };
            assert_eq!((captured, whole), (length, "60"), "{options}");
            times.push(time.parse::<f64>().unwrap());
        }
        assert!(times.is_sorted(), "{times:?}");
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
        for (n, (_, bytes)) in arrived.iter().enumerate() {
            let (_, expected) = &recorded[n % 60];
            assert_eq!(bytes, expected, "{options}: frame {n}");
        }
        // a busy machine may hold up the sender, which it tells, and what takes the time at the other end, which nobody tells: half of the
        // frames are where they belong
        let mut apart_ns: Vec<f64> = (arrived.iter().zip(&recorded))
            .map(|((time, _), (recorded_at, _))| {
                let due = (recorded_at - recorded[0].0) as f64 / speed;
                ((time - arrived[0].0) as f64 - due).abs()
            })
            .collect();
        apart_ns.sort_by(f64::total_cmp);
        assert!(
            apart_ns[30] <= late_ns as f64 + 5e6,
            "{options}: {apart_ns:?}, late {late_ns} ns"
        );
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

/// The first frame leaves at once, the third four seconds later, and nothing is waited for after it.
#[test]
fn less_than_a_frame_a_second_takes_no_longer() {
    if !root("less_than_a_frame_a_second_takes_no_longer") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let document = wire.json(
        &lab,
        "send --port pa --load 0.5pps --for 3frames --dst-mac 02:00:00:00:00:0b",
    );
    let of = |name: &str| document["send"][0][name].as_f64().unwrap();
    assert_eq!((of("frames_sent"), of("planned_s")), (3.0, 4.0));
    assert!((4.0..4.2).contains(&of("took_s")), "{document}");
    assert!((of("rate_pps") / 0.5 - 1.0).abs() < 0.05, "{document}");
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
        (long, 3, "an MTU of 1500 bytes"),
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
            "use --engine af-packet",
        ),
        (
            format!("ping {ends} -c 5000000"),
            2,
            "use --timestamps user",
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

/// Without NAPI at its other end the kernel takes live frames for a veth and drops them: nothing on the port counts them.
#[test]
fn an_engine_whose_frames_do_not_leave_is_not_taken() {
    if !root("an_engine_whose_frames_do_not_leave_is_not_taken") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    wire.exec("ethtool -K pb gro off");
    let words = "--for 10frames --load 1kpps";
    let document = wire.json(&lab, &send(words));
    assert_eq!(count(&document["send"][0]["frames_sent"]), 10);
    let asked = wire.run(&lab, &send(&format!("{words} --engine xdp-live")));
    asked
        .code(2)
        .says(&["none left the port", "ethtool -K PEER gro on"]);
    lab.assert_clean("frames that do not leave");
}

/// A veth drops what is longer than the MTU of its other end, and counts that.
#[test]
fn what_the_port_drops_was_not_sent() {
    if !root("what_the_port_drops_was_not_sent") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    wire.exec("ip link set pb mtu 1000");
    for engine in ["xdp-live", "af-xdp", "af-packet"] {
        let words = format!("--size 1518 --for 100frames --load 1kpps --engine {engine}");
        let ended = wire.run(&lab, &send(&words));
        ended.code(5);
        for words in [
            "sent      pa  0 frames in ",
            "dropped   pa  100 of 100 frames that it accepted but never sent",
            "no frame left the port",
        ] {
            assert!(ended.out.contains(words), "{engine}: {words}: {ended:?}");
        }
    }
    let document = wire.json(
        &lab,
        &send("--rx-port pb --size 1518 --for 100frames --load 1kpps --engine af-packet"),
    );
    let (sent, received) = (&document["send"][0], &document["receive"][0]);
    assert_eq!(count(&sent["frames_sent"]), 0);
    assert_eq!(count(&sent["frames_given"]), 100);
    assert_eq!(count(&sent["port_tx_dropped"]), 100);
    assert_eq!(sent["rate_pps"], 0.0);
    assert_eq!(count(&received["frames_given"]), 100);
    assert_eq!(count(&received["frames_tx_dropped"]), 100);
    assert_eq!(count(&received["frames_lost_elsewhere"]), 0);
    lab.assert_clean("a smaller MTU");
}

#[test]
fn one_rule_says_which_frames_a_port_takes() {
    if !root("one_rule_says_which_frames_a_port_takes") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    wire.exec("ip link set pa mtu 1000; ip link set pb mtu 9000");
    let profile = lab.path().join("tagged.toml");
    let tagged = "about = 'tagged'\n[[stream]]\nlayers = ['vlan', 'ipv4', 'udp']\nsize = 1023\n";
    std::fs::write(&profile, tagged).unwrap();
    let capture = capture_file(&lab, "long.pcapng", &[(0, frame([198, 19, 0, 1], 1, 973))]);
    let mut refused: Vec<(String, u32)> = ["auto", "xdp-live", "af-xdp", "af-packet"]
        .into_iter()
        .flat_map(|engine| {
            [
                (
                    format!("--size 1019 --for 10frames --engine {engine}"),
                    1001,
                ),
                (
                    format!("--size 1514 --for 10frames --engine {engine}"),
                    1496,
                ),
                (
                    format!(
                        "--profile {} --for 10frames --engine {engine}",
                        profile.display()
                    ),
                    1001,
                ),
            ]
        })
        .collect();
    refused.push((format!("--pcap {}", capture.display()), 1001));
    for (words, mtu) in &refused {
        wire.run(&lab, &send(words)).code(3).says(&[
            "pa has an MTU of 1000 bytes",
            &format!("ip link set pa mtu {mtu}"),
        ]);
    }
    assert_eq!(wire.counter("pa", "tx", "packets"), 0);
    // what is said helps
    for (words, mtu) in &refused {
        let before = wire.counter("pa", "tx", "packets");
        wire.ip(&format!("link set pa mtu {mtu}"));
        wire.run(&lab, &send(&format!("{words} --load 1kpps")))
            .measured();
        assert!(wire.counter("pa", "tx", "packets") > before, "{words}");
    }
    // as large as the port takes, by the engine that can
    wire.ip("link set pa mtu 9000");
    for (size, engine) in [
        (1519, "xdp-live"),
        (3076, "xdp-live"),
        (3077, "af-packet"),
        (9018, "af-packet"),
    ] {
        let before = wire.counter("pa", "tx", "bytes");
        let document = wire.json(
            &lab,
            &send(&format!("--size {size} --for 10frames --load 1kpps")),
        );
        assert_eq!(document["send"][0]["engine"], engine, "{size}");
        assert_eq!(count(&document["send"][0]["frames_sent"]), 10, "{size}");
        let bytes = wire.counter("pa", "tx", "bytes") - before;
        assert_eq!(bytes, 10 * (size - 4), "{size}");
    }
    wire.run(&lab, &send("--size 9019 --for 1frame")).code(3);
    wire.run(&lab, &send("--size 63 --for 1frame"))
        .code(2)
        .says(&["what pkt-gen calls 60 is 64 here"]);
}

/// More frames than are looked at before the first leaves.
const MANY: usize = 60_000;

/// A capture of 1 GiB, most of it blocks that nobody knows and that take no room on the disk: many frames, the blocks, ten more.
/// The fifth of these goes to `odd`.
fn large_capture(lab: &Lab, name: &str, odd: [u8; 4]) -> std::path::PathBuf {
    use std::io::{Seek, SeekFrom, Write};
    const BLOCK: u32 = 16 << 20;
    let path = lab.path().join(name);
    let mut bytes = Vec::new();
    let writer = Writer::start(Format::Ng, pcap::ETHERNET, &mut bytes);
    let one = frame([198, 19, 0, 1], 1, 18);
    for n in 0..MANY as u64 {
        writer.frame(&Frame::new(n * 1000, &one), &mut bytes);
    }
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&bytes).unwrap();
    for _ in 0..64 {
        file.write_all(&0x0bad_u32.to_le_bytes()).unwrap();
        file.write_all(&BLOCK.to_le_bytes()).unwrap();
        file.seek(SeekFrom::Current(i64::from(BLOCK) - 12)).unwrap();
        file.write_all(&BLOCK.to_le_bytes()).unwrap();
    }
    bytes.clear();
    for n in 0..10_u64 {
        let to = if n == 4 { odd } else { [198, 19, 0, 1] };
        let at = (MANY as u64 + n) * 1000;
        writer.frame(&Frame::new(at, &frame(to, 2, 18)), &mut bytes);
    }
    file.write_all(&bytes).unwrap();
    path
}

/// The program may not have as much memory as the file is large.
fn with_little_memory(lab: &Lab, wire: &Wire, words: &str) -> crate::support::Ended {
    let script = format!(
        "ulimit -d 307200; exec {} {words} --netns {}",
        crate::support::PROGRAM,
        wire.name
    );
    lab.start_command(lab.with(&["sh", "-c"], &[&script]))
        .wait(PATIENCE)
}

#[test]
fn captures_of_any_size_are_read_while_they_are_sent() {
    if !root("captures_of_any_size_are_read_while_they_are_sent") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let good = large_capture(&lab, "large.pcapng", [198, 19, 0, 1]);
    let bad = large_capture(&lab, "bad.pcapng", [8, 8, 8, 8]);
    let sent = |words: &str| {
        let before = wire.counter("pa", "tx", "packets");
        let ended = with_little_memory(&lab, &wire, words);
        (ended, wire.counter("pa", "tx", "packets") - before)
    };
    let file = good.display();
    for (words, frames) in [
        // at its own times: a frame each microsecond
        (
            format!("send --port pa --pcap {file} --speed 0.1"),
            MANY as u64 + 10,
        ),
        (
            format!("send --port pa --pcap {file} --load max --loop 2"),
            2 * (MANY as u64 + 10),
        ),
        (
            format!("send --port pa --pcap {file} --load 1kpps --for 10frames"),
            10,
        ),
    ] {
        let (ended, left) = sent(&words);
        ended.measured().says(&["(mean of the first "]);
        assert_eq!(left, frames, "{words}: {ended:?}");
    }
    // all frames left, but not in the time in which they were to leave: no generator sends one in a nanosecond
    let (ended, left) = sent(&format!(
        "send --port pa --pcap {file} --speed 1000x --loop 5"
    ));
    ended.code(5).prints(&["instead of"]);
    assert_eq!(left, 5 * (MANY as u64 + 10));
    // what is wrong far behind is found when it is read, and all before that is sent
    let words = format!("send --port pa --pcap {} --load max", bad.display());
    let (ended, left) = sent(&words);
    ended.code(4).says(&[
        &format!("frame {} of ", MANY + 5),
        "8.8.8.8",
        "the frames before that were sent",
    ]);
    assert_eq!(left, MANY as u64 + 4);
    let (ended, left) = sent(&format!("{words} --for 10frames"));
    assert_eq!((ended.measured().code, left), (ended.code, 10));
    let (ended, left) = sent(&format!("{words} --to-any-address"));
    ended.measured();
    assert_eq!(left, MANY as u64 + 10);
    // a profile takes one frame out of it, and reads no further
    let profile = lab.path().join("one.toml");
    std::fs::write(
        &profile,
        "about = 'one'\n[[stream]]\npcap = 'large.pcapng'\nframe = 3\n",
    )
    .unwrap();
    let (ended, left) = sent(&send(&format!(
        "--profile {} --load 1kpps --for 10frames",
        profile.display()
    )));
    ended.measured();
    assert_eq!(left, 10);
    lab.assert_clean("large captures");
}

#[test]
fn a_capture_that_is_not_sent_to_its_end_owes_nothing() {
    if !root("a_capture_that_is_not_sent_to_its_end_owes_nothing") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    // two frames an hour apart; one at time 0 would be one without a time
    let (first_ns, hour_ns) = (1_700_000_000_000_000_000, 3_600_000_000_000);
    let file = capture_file(
        &lab,
        "hour.pcapng",
        &[
            (first_ns, frame([198, 19, 0, 1], 1, 30)),
            (first_ns + hour_ns, frame([198, 19, 0, 1], 2, 30)),
        ],
    );
    for more in ["--for 100ms", "--for 100ms --loop 0"] {
        let words = format!("send --port pa --pcap {} {more}", file.display());
        let document = wire.json(&lab, &words);
        let sent = &document["send"][0];
        assert_eq!(count(&sent["frames_sent"]), 1, "{sent}");
        assert_eq!(count(&sent["frames_not_sent"]), 0, "{sent}");
    }
}
