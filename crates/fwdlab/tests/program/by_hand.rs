//! `send`, `receive`, `capture` and `ping`: exact counts, checked against the kernel's counters and
//! tshark. Start with [`last_line`], which reads the totals of a receiver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Lab, PATIENCE, PROGRAM, Started, count, list, number, refused, skipped};
use crate::wire::{MAC_B, Wire, capture_file, frame, frames, tshark, wired};

fn send(more: &str) -> String {
    format!("send --port pa --dst-mac {MAC_B} {more}")
}

/// Starts a capture on pb.
fn capture(lab: &Lab, wire: &Wire, words: &str) -> Started {
    let mut capture = wire.start(lab, &format!("capture --port pb {words}"));
    has_begun(&mut capture);
    capture
}

fn has_begun(capture: &mut Started) {
    capture.wait_until("its begin", |capture| {
        capture.err().contains("capture   pb")
    });
}

/// Captures on pb while `work` runs. Returns the file when it contains this number of frames.
fn captured(lab: &Lab, wire: &Wire, frames: usize, work: impl FnOnce()) -> PathBuf {
    let file = lab.path().join("captured.pcapng");
    let words = format!("-c {frames} --for 240s -o {}", file.display());
    let capture = capture(lab, wire, &words);
    work();
    capture.wait(PATIENCE).code(0);
    file
}

/// Every value appears equally often, with correct checksums.
#[test]
fn flows_tags_addresses_and_profiles_are_on_the_wire_as_they_were_typed() {
    const EACH: usize = 12;
    let Some((lab, wire)) = wired() else { return };
    // for each command: fields, and all of their values
    let table = "--flows 4 --size 1518 --src-mac 02:00:00:00:00:77 --engine af-xdp => \
            ip.dst=198.19.10.1 198.19.10.2 198.19.10.3 198.19.10.4, frame.len=1514, eth.src=02:00:00:00:00:77
        --vlan 7 --from 10.0.0.1-2 --to 10.1.0.9:53-54 --engine af-packet => vlan.id=7, ip.src=10.0.0.1 10.0.0.2, udp.dstport=53 54
        --from fd00::1 --to fd00:1::1-fd00:1::2 => ipv6.dst=fd00:1::1 fd00:1::2
        --profile qinq => eth.type=0x88a8";
    let cases = table.lines().map(|case| case.split_once(" => ").unwrap());
    let cases: Vec<(&str, &str)> = cases.collect();
    // one file, because tshark takes a second to start
    let all = EACH * cases.len();
    let file = captured(&lab, &wire, all, || {
        for (words, _) in &cases {
            let amount = format!("--for {EACH}frames --load 1kpps");
            let document = wire.json(&lab, &send(&format!("{amount} {words}")));
            let sent = &document["send"][0];
            for counter in ["frames_sent", "port_tx_packets"] {
                assert_eq!(count(&sent[counter]), EACH as u64, "{words}");
            }
            assert!(sent["senders"].is_null(), "one has no table: {sent}");
            if let Some((_, engine)) = words.split_once("--engine ") {
                assert_eq!(sent["engine"], engine);
            }
        }
    });
    let right = "udp.checksum.status==1 && (ip.checksum.status==1 || ipv6)";
    let expected =
        |case: &(&str, &'static str)| case.1.split(", ").map(|one| one.split_once('=').unwrap());
    let fields: Vec<&str> = cases
        .iter()
        .flat_map(expected)
        .map(|(field, _)| field)
        .collect();
    let Some(rows) = tshark(&file, &fields.join(" "), right) else {
        return skipped("no tshark");
    };
    assert_eq!(rows.len(), all);
    for (case, frames) in cases.iter().zip(rows.chunks(EACH)) {
        for (field, values) in expected(case) {
            let column = fields.iter().position(|one| *one == field).unwrap();
            let mut often = BTreeMap::new();
            for row in frames {
                let value = row.split('\t').nth(column).unwrap_or_default();
                *often.entry(value).or_insert(0) += 1;
            }
            let values: Vec<&str> = values.split(' ').collect();
            let due = values.iter().map(|value| (*value, EACH / values.len()));
            assert_eq!(often, due.collect(), "{case:?}: {field}");
        }
    }
    lab.assert_clean("flows");
}

#[test]
fn loads_are_printed_and_kept_to_the_frame() {
    let Some((lab, wire)) = wired() else { return };
    wire.run(&lab, &send("--load 50% --for 10frames"))
        .code(2)
        .says(&["virtual port without a speed", "--link 1G"]);
    for (words, output) in [
        ("5kpps", "load      5 kpps = 3.360 Mbit/s L1 at 64 B"),
        (
            "50% --link 1G",
            "load      50% of 1.000 Gbit/s L1 = 744.048 kpps at 64 B",
        ),
        (
            "1Gbps --link 100M",
            "held at the line rate of 100.0 Mbit/s L1: 148.81 kpps",
        ),
    ] {
        let sent = wire.run(&lab, &send(&format!("--for 10frames --load {words}")));
        sent.measured().says(&[output]);
    }
    // 10 Mbit/s are 14,880.95 frames per second; not one more may be sent
    let document = wire.json(&lab, &send("--load max --link 10M --for 500ms"));
    let sent = &document["send"][0];
    // the sender's clock starts a little before that of its counters
    let due = 14_880.95 * (number(&document["duration_s"]) + 0.1);
    let frames = number(&sent["frames_sent"]);
    assert!(0.0 < frames && frames < due, "{frames} of {due}");
    assert_eq!(sent["frames_sent"], sent["port_tx_packets"]);
    // a sequence of loads sends the integral of their frames
    for (words, due) in [
        (
            "--load 1kpps,4kpps,2kpps --every 200ms --for 500ms --engine af-xdp",
            1200,
        ),
        (
            "--profile imix --load 2kpps,10kpps --every 300ms --ramp --for 400ms --engine af-packet",
            2800,
        ),
    ] {
        let document = wire.json(&lab, &send(words));
        let sent = &document["send"][0];
        let all = count(&sent["frames_given"]) + count(&sent["frames_not_sent"]);
        assert_eq!(all, due, "{words}: {sent}");
        assert_eq!(sent["port_tx_packets"], sent["frames_given"], "{words}");
    }
    // less than a frame per second: the first leaves at once, the second after 1.25 s, and then the
    // command ends
    let document = wire.json(&lab, &send("--load 0.8pps --for 2frames"));
    let of = |name: &str| number(&document["send"][0][name]);
    assert_eq!((of("frames_sent"), of("planned_s")), (2.0, 1.25));
    assert!((1.25..1.45).contains(&of("took_s")), "{document}");
    assert!((of("rate_pps") / 0.8 - 1.0).abs() < 0.05, "{document}");
    lab.assert_clean("loads");
}

/// Several senders on a port with several queues: the kernel counts the same frames at both ends.
/// `engine` tests every number of senders, and that each frame arrives once.
#[test]
fn several_senders_share_the_frames_of_a_port() {
    const FRAMES: u64 = 12_001;
    let Some((lab, wire)) = wired() else { return };
    wire.exec(&format!(
        "ip link add pc numtxqueues 4 numrxqueues 4 type veth \
           peer name pd address {MAC_B} numtxqueues 4 numrxqueues 4; \
         for port in pc pd; do ip link set $port up; done"
    ));
    let send = |engine: &str, senders: u32, more: &str| {
        format!("send --port pc --dst-mac {MAC_B} --engine {engine} --senders {senders} {more}")
    };
    for (round, engine, senders) in [(1, "af-xdp", 4), (2, "af-packet", 3)] {
        let words = format!("--rx-port pd --analyse --flows 12 --load 60kpps --for {FRAMES}frames");
        let document = wire.json(&lab, &send(engine, senders, &words));
        let case = format!("{engine}, {senders} senders: {document}");
        let (sent, received) = (&document["send"][0], &document["receive"][0]);
        assert_eq!(sent["engine"], engine, "{case}");
        for (port, way) in [("pc", "tx"), ("pd", "rx")] {
            let counted = wire.counter(port, way, "packets");
            assert_eq!(counted, round * FRAMES, "{port}, {case}");
        }
        let stream = &received["streams"][0];
        for (of, field, expected) in [
            (sent, "frames_sent", FRAMES),
            (received, "frames_received", FRAMES),
            (stream, "frames_received", FRAMES),
            (stream, "frames_lost", 0),
            (stream, "flows", 12),
            (stream, "flow_frames_max", FRAMES / 12 + 1),
        ] {
            assert_eq!(count(&of[field]), expected, "{field}, {case}");
        }
        let own = list(&sent["senders"]);
        assert_eq!(own.len(), senders as usize, "{case}");
        for (number, own) in (0..).zip(own) {
            let share = (FRAMES - number).div_ceil(senders.into());
            assert_eq!(count(&own["frames_given"]), share, "{case}");
        }
    }
    let text = wire.run(
        &lab,
        &send("af-packet", 3, "--flows 20 --load 10kpps --for 30frames"),
    );
    // a busy host does not reach the load
    text.measured()
        .says(&[
            "engine    af-packet, 3 senders",
            "test frames can overtake each other: 3 senders",
        ])
        .prints(&["sender    pc  2 of 3: given to the port 10"]);
    // a receiver on its own
    let words = "receive --port pd --flows 12 --senders 2 --for 40frames --json-stream";
    let mut receiver = wire.start(&lab, words);
    receiver.event("started");
    let words = "--flows 12 --load 1kpps --for 40frames -q";
    wire.run(&lab, &send("af-xdp", 2, words)).measured();
    let received = last_line(receiver);
    let stream = &received["receive"][0]["streams"][0];
    assert_eq!(count(&stream["frames_received"]), 40, "{received}");
    assert_eq!(count(&stream["flow_frames_min"]), 3, "{received}");
    let table = "af-xdp --senders 5 => 2: pc, which has 4 queues to send into
        xdp-live --senders 5 => 2: its veth peer has 4 receive queues";
    refused(table, |engine| {
        wire.run(
            &lab,
            &format!("send --port pc --for 10frames --dst-mac {MAC_B} --engine {engine}"),
        )
    });
    lab.assert_clean("several senders");
}

#[test]
fn a_next_hop_is_resolved_without_changing_the_host() {
    let Some((lab, wire)) = wired() else { return };
    let unknown = wire.run(&lab, "send --port pa --for 1frame");
    unknown.code(3).says(&[
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
    for via in ["198.18.0.1", "2001:2::1 --ipv6"] {
        let before = other.counter("pc", "rx", "packets");
        let words = format!("send --port pa --for 20frames --load 1kpps --via {via}");
        wire.run(&lab, &words).measured();
        assert!(other.counter("pc", "rx", "packets") >= before + 20);
        assert_eq!(wire.ip("neighbour show dev pa"), "", "{via}");
    }
}

/// The user-space receiver counts the frames of a profile in `streams`.
#[test]
fn a_receiver_counts_ours_by_number_and_others_by_kind() {
    let Some((lab, wire)) = wired() else { return };
    let others: Vec<_> = (0..40)
        .map(|n| (u64::from(n) * 1000, frame([198, 19, 0, 1], n, 30)))
        .collect();
    let others = capture_file(&lab, "others.pcapng", &others);
    let words = "receive --port pb --flows 10 --for 500frames --engine xdp --json-stream";
    let mut receive = wire.start(&lab, words);
    receive.event("started");
    wire.run(&lab, &format!("send --port pa --pcap {}", others.display()))
        .code(0);
    for words in [
        "--for 50frames --load 2kpps --flows 10 --session 9",
        "--for 500frames --load 5kpps --flows 10",
    ] {
        wire.run(&lab, &send(words)).measured();
    }
    let document = last_line(receive);
    let received = &document["receive"][0];
    assert_eq!(received["receiver"], "xdp");
    let stream = &received["streams"][0];
    for (of, counter, frames) in [
        (received, "frames_received", 500),
        (received, "frames_foreign", 40 + 50),
        (&received["foreign_kinds"]["frames"], "IPv4 / UDP", 40 + 50),
        (stream, "frames_expected", 500),
        (stream, "frames_lost", 0),
        (stream, "frames_duplicate", 0),
        (stream, "flows", 10),
        (stream, "flows_not_seen", 0),
    ] {
        assert_eq!(of[counter], frames, "{counter}: {of}");
    }
    lab.assert_clean("receivers");
}

/// Returns the totals of a receiver that ends by itself.
#[track_caller]
pub fn last_line(receive: Started) -> Value {
    let ended = receive.wait(PATIENCE);
    ended.code(0);
    serde_json::from_str(ended.out.lines().last().unwrap()).unwrap()
}

#[test]
fn captures_are_files_that_tshark_reads_with_nanoseconds() {
    let Some((lab, wire)) = wired() else { return };
    let file = lab.path().join("c.pcap");
    let words = "-c 50 --for 30s -o c.pcap --format pcap-us --filter own --session 5";
    let capture = capture(&lab, &wire, words);
    for words in ["--for 30frames --session 4", "--for 50frames --session 5"] {
        wire.run(&lab, &send(&format!("{words} --load 1kpps")))
            .measured();
    }
    let ended = capture.wait(PATIENCE);
    ended
        .code(0)
        .says(&["captured  50 frames", "software, CLOCK_REALTIME"]);
    let Some(rows) = tshark(&file, "frame.len frame.time_epoch", "") else {
        return skipped("no tshark");
    };
    assert_eq!(rows.len(), 50);
    assert!(rows.iter().all(|row| row.starts_with("60\t")), "{rows:?}");
    // all have the same length before their point
    assert!(rows.is_sorted(), "{rows:?}");
    // live, as pcapng, into a pipe
    let script = format!(
        "{PROGRAM} capture --port pb --netns {} -c 5 --filter own --snap 40 -o - | tshark -r - -T fields -e frame.cap_len",
        wire.name
    );
    let mut piped = lab.start_command(lab.with(&["sh", "-c"], &[&script]));
    has_begun(&mut piped);
    wire.run(&lab, &send("--for 20frames --load 100pps"))
        .measured();
    assert_eq!(piped.wait(PATIENCE).out, "40\n".repeat(5));
}

#[test]
fn captures_that_cannot_be_written_or_read_are_named() {
    let Some((lab, wire)) = wired() else { return };
    let two = [1, 2].map(|n| (u64::from(n), frame([198, 19, 0, 1], n, 40)));
    let bytes = std::fs::read(capture_file(&lab, "good.pcapng", &two)).unwrap();
    std::fs::write(lab.path().join("cut.pcapng"), &bytes[..bytes.len() - 7]).unwrap();
    capture_file(&lab, "empty.pcapng", &[]);
    let table = "send --port pa --pcap /nonexistent => 2: No such file
        send --port pa --pcap cut.pcapng => 2: the capture ends at byte
        send --port pa --pcap empty.pcapng => 2: has no frames
        capture --port pb -o /nonexistent/x.pcapng --for 1s => 3: cannot write /nonexistent/x.pcapng | No such file";
    refused(table, |line| wire.run(&lab, line));
    assert_eq!(wire.counter("pa", "tx", "packets"), 0);
    let full = capture(&lab, &wire, "-o /dev/full --for 20s");
    wire.run(&lab, &send("--for 3000frames --load 20kpps --size 1518"))
        .measured();
    full.wait(PATIENCE)
        .code(4)
        .says(&["/dev/full", "No space left on device"]);
    assert_eq!(wire.attached(), "");
}

#[test]
fn a_recording_is_replayed_byte_by_byte_at_its_own_times() {
    let Some((lab, wire)) = wired() else { return };
    // gaps from zero to 20 ms, sizes from small to large
    let begin = 1_700_000_000_123_456_789;
    let mut at = begin;
    let recorded: Vec<(u64, Vec<u8>)> = (0..60_u64)
        .map(|n| {
            at += n * n * 7_919_003 % 20_000_011;
            (at, frame([198, 19, 0, 1], n as u8, 18 + 23 * n as usize))
        })
        .collect();
    let recording = capture_file(&lab, "recorded.pcapng", &recorded);
    let replay = |file: &Path, options: &str| {
        let words = format!("send --port pa --pcap {} {options}", file.display());
        wire.json(&lab, &words)["send"][0].clone()
    };
    for (options, speed, rounds) in [
        ("", 1.0, 1),
        ("--speed 2x --loop 2 --dst-mac 02:00:00:00:00:99", 2.0, 2),
    ] {
        let mut late_ns = 0;
        let file = captured(&lab, &wire, 60 * rounds, || {
            let sent = replay(&recording, options);
            assert_eq!(count(&sent["frames_sent"]), 60 * rounds as u64);
            assert_eq!(count(&sent["frames_not_sent"]), 0);
            late_ns = count(&sent["lateness"]["max_ns"]);
        });
        let arrived = frames(&file);
        for (n, (_, bytes)) in arrived.iter().enumerate() {
            let mut expected = recorded[n % 60].1.clone();
            if options.contains("--dst-mac") {
                expected[5] = 0x99;
            }
            assert_eq!(bytes, &expected, "{options}: frame {n}");
        }
        // A busy machine may stall the sender, which reports it, and delay the timestamps at the
        // other end by tens of milliseconds, which nothing reports: compare frames that are far
        // apart.
        let due = |n: usize| (recorded[n].0 - recorded[0].0) as f64 / speed;
        let mut wrong: Vec<f64> = (0..30)
            .map(|n| {
                let (is, due) = (arrived[n + 30].0 - arrived[n].0, due(n + 30) - due(n));
                ((is as f64 - due).abs() - late_ns as f64) / due
            })
            .collect();
        wrong.sort_by(f64::total_cmp);
        assert!(wrong[15] <= 0.3, "{options}: {wrong:?}, late {late_ns} ns");
    }
    // two frames an hour apart: when the time is over, the second is not due
    let hour = [0, 3_600_000_000_000].map(|ns| (begin + ns, frame([198, 19, 0, 1], 1, 30)));
    let file = capture_file(&lab, "hour.pcapng", &hour);
    for options in ["--for 100ms", "--for 100ms --loop 0"] {
        let sent = replay(&file, options);
        let frames = ["frames_sent", "frames_not_sent"].map(|of| count(&sent[of]));
        assert_eq!(frames, [1, 0], "{sent}");
    }
}

#[test]
fn the_tester_measures_itself() {
    let Some(lab) = Lab::root() else { return };
    // a sender of each engine, and two if each has a CPU; its pair has a queue for each
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let numbers = ["1", "1,2"][usize::from(cpus > 1)];
    let words = format!("selftest --trial 100ms --size 64 --loads 1kpps --senders {numbers}");
    let document = lab.json(&words);
    assert!(list(&document["engines_that_do_not_work"]).is_empty());
    let limits = list(&document["limits"]);
    let engines = ["xdp-live", "af-xdp", "af-packet"].into_iter();
    let expected = engines.flat_map(|engine| numbers.split(',').map(move |n| (engine, n)));
    for (limit, (engine, senders)) in limits.iter().zip(expected) {
        assert_eq!(limit["engine"], engine);
        assert_eq!(limit["senders"].to_string(), senders);
        assert!(number(&limit["received_pps"]) > 0.0, "{limit}");
        let [lowest, median, highest] =
            ["sent_min_pps", "sent_pps", "sent_max_pps"].map(|of| number(&limit[of]));
        assert!(
            0.0 < lowest && lowest <= median && median <= highest,
            "{limit}"
        );
        let per_frame = 1e9 * number(&limit["senders"]) / median;
        assert!(
            (number(&limit["ns_per_frame"]) / per_frame - 1.0).abs() < 1e-6,
            "{limit}"
        );
        // a load below the lowest rate, or the reason why there is none
        match limit["promised_pps"].as_f64() {
            Some(promised) => assert!(
                promised < lowest && limit["cannot_tell"].is_null(),
                "{limit}"
            ),
            None => assert!(limit["cannot_tell"].is_string(), "{limit}"),
        }
    }
    let of_one = list(&document["pacing"]).len();
    assert_eq!((limits.len(), of_one), (3 * numbers.split(',').count(), 3));
    assert!(!list(&document["floors"]).is_empty());
    // trials of 100 ms promise nothing
    assert!(document["kept_in"].is_null() && !lab.path().join("state").exists());
    // on given ports; nothing is left on them
    let wire = Wire::new();
    let words = "selftest pa pb --trial 100ms --size 64 --loads 1kpps --engine af-xdp";
    assert_eq!(list(&wire.json(&lab, words)["limits"]).len(), 1);
    assert_eq!(wire.attached(), "");
    wire.run(&lab, "selftest pa").code(2);
    if cpus < 2 {
        skipped("generator and DUT share the only CPU, of which nothing is promised");
    } else {
        plans_and_runs_know_the_promises(&lab, &document);
    }
    lab.assert_clean("a self-test");
}

/// The file is written by hand, from what the self-test measured with: promises of this machine
/// would be those of a noisy one.
fn plans_and_runs_know_the_promises(lab: &Lab, document: &Value) {
    let keep = |kernel: &Value, promised: [f64; 3]| {
        let limits = list(&document["limits"]).iter();
        let of_one = limits.filter(|limit| limit["senders"] == 1);
        let promises = of_one.zip(promised).map(|(limit, promised)| {
            let mut one = limit.clone();
            one["promised_pps"] = promised.into();
            one["cannot_tell"] = Value::Null;
            one["machine"] = document["machine"].clone();
            one["machine"]["kernel"] = kernel.clone();
            one
        });
        let file = json!({ "version": 1, "promises": promises.collect::<Vec<_>>() });
        lab.write("state/fwdlab/promises.json", &file.to_string());
    };
    let text = "campaign = 'c'\niterations = 1\n[procedure]\nid = 'trial'\nload = '20kpps'\nfor = '300ms'\n";
    let file = lab.write("c.toml", text);
    let plan = || lab.json(&["plan", &file])["generator"][0].clone();
    let none = plan();
    assert_eq!(none["verdict"], "cannot-tell", "{none}");
    assert_eq!(none["advice"], "fwdlab traffic selftest --size 64");
    let kernel = &document["machine"]["kernel"];
    // the fastest engine is enough
    keep(kernel, [50e3, 60e3, 70e3]);
    let enough = plan();
    assert_eq!(enough["verdict"], "promised", "{enough}");
    assert_eq!(
        (&enough["engine"], &enough["senders"]),
        (&json!("xdp-live"), &json!(1))
    );
    // promises of another kernel say nothing
    keep(&json!("5.10"), [50e3, 60e3, 70e3]);
    assert_eq!(plan(), none);
    // only the third is enough: it is tried first, also by a run
    keep(kernel, [10e3, 15e3, 70e3]);
    assert_eq!(plan()["engine"], "af-packet");
    let run = lab.json(&["run", &file]);
    let engine = run["info"]["facts"]["engine"].as_str().unwrap();
    assert!(engine.starts_with("af-packet"), "{engine}");
    assert!(
        engine.ends_with("reaches the load according to the self-test"),
        "{engine}"
    );
    // none is
    keep(kernel, [10e3, 15e3, 12e3]);
    lab.run(&["plan", &file]).code(0).prints(&[
        "It asks more of the generator than the self-test promises (below).",
        "warning: 64 B IPv4: 20.00 kpps is too much: xdp-live with 1 sender promises 10.00 kpps (self-test of",
        "lower the load, or send larger frames",
    ]);
}

#[test]
fn frames_that_do_not_leave_the_port_were_not_sent() {
    let Some((lab, wire)) = wired() else { return };
    // without NAPI at its other end, the kernel accepts live frames for a veth and drops them, and
    // no counter of the port shows it
    wire.exec("ethtool -K pb gro off");
    let words = send("--for 10frames --load 1kpps");
    let document = wire.json(&lab, &words);
    assert_eq!(document["send"][0]["frames_sent"], 10);
    wire.run(&lab, &format!("{words} --engine xdp-live"))
        .code(2)
        .says(&["none left the port", "ethtool -K PEER gro on"]);

    // a veth drops and counts frames longer than the MTU of its other end
    wire.exec("ethtool -K pb gro on; ip link set pb mtu 1000");
    let words = send("--size 1518 --for 100frames --load 1kpps");
    wire.run(&lab, &words).code(5).prints(&[
        "sent      pa  0 frames in ",
        "dropped   pa  100 of 100 frames that it accepted but never sent",
        "no frame left the port",
    ]);
    let words = format!("{words} --engine af-packet --rx-port pb --json");
    let document = wire.run(&lab, &words).code(5).document();
    let (sent, received) = (&document["send"][0], &document["receive"][0]);
    for (of, counter, frames) in [
        (sent, "frames_sent", 0),
        (sent, "frames_given", 100),
        (sent, "port_tx_dropped", 100),
        (received, "frames_given", 100),
        (received, "frames_tx_dropped", 100),
        (received, "frames_lost_elsewhere", 0),
    ] {
        assert_eq!(of[counter], frames, "{counter}: {of}");
    }
    assert_eq!(sent["rate_pps"], 0.0);
    lab.assert_clean("frames that do not leave");
}

#[test]
fn one_rule_decides_which_frames_a_port_takes() {
    let Some((lab, wire)) = wired() else { return };
    wire.exec("ip link set pa mtu 1000; ip link set pb mtu 9000");
    let tagged = "about = 'tagged'\n[[stream]]\nlayers = ['vlan', 'ipv4', 'udp']\nsize = 1023\n";
    lab.write("tagged.toml", tagged);
    capture_file(&lab, "long.pcapng", &[(0, frame([198, 19, 0, 1], 1, 973))]);
    let refused = [
        ("--size 1514 --for 10frames", 1496),
        (
            "--profile tagged.toml --for 10frames --engine xdp-live",
            1001,
        ),
        ("--pcap long.pcapng", 1001),
    ];
    for (words, mtu) in refused {
        let advice = format!("ip link set pa mtu {mtu}");
        wire.run(&lab, &send(words))
            .code(3)
            .says(&["pa has an MTU of 1000 bytes", &advice]);
    }
    assert_eq!(wire.counter("pa", "tx", "packets"), 0);
    // following the advice in the message works
    for (words, mtu) in refused {
        let before = wire.counter("pa", "tx", "packets");
        wire.ip(&format!("link set pa mtu {mtu}"));
        let words = send(&format!("{words} --load 1kpps"));
        wire.run(&lab, &words).measured();
        assert!(wire.counter("pa", "tx", "packets") > before, "{words}");
    }
    // the largest frames of the port, sent by an engine that supports them
    wire.ip("link set pa mtu 9000");
    for (size, engine) in [(3076, "xdp-live"), (9018, "af-packet")] {
        let before = wire.counter("pa", "tx", "bytes");
        let words = format!("--size {size} --for 10frames --load 1kpps");
        let document = wire.json(&lab, &send(&words));
        assert_eq!(document["send"][0]["engine"], engine, "{size}");
        assert_eq!(count(&document["send"][0]["frames_sent"]), 10, "{size}");
        let bytes = wire.counter("pa", "tx", "bytes") - before;
        assert_eq!(bytes, 10 * (size - 4), "{size}");
    }
    wire.run(&lab, &send("--size 9019 --for 1frame")).code(3);
}

/// More frames than are checked before the first one leaves.
const MANY: u64 = 60_000;

/// In the second tier, because they take long.
mod slow {
    use super::*;

    /// Tests every kind of timestamps that veth has. For the others, the command fails before any
    /// frame is sent.
    #[test]
    fn the_source_of_timestamps_is_reported_for_both_ends() {
        let Some((lab, wire)) = wired() else { return };
        let ends = format!("--port pa --rx-port pb --dst-mac {MAC_B}");
        let table = "ping ENDS --timestamps hardware => 3: NO-CLOCK
            capture --port pa --timestamps hardware -c 1 => 3: NO-CLOCK
            ping ENDS --timestamps software --engine xdp-live => 2: use --engine af-packet
            ping ENDS -c 5000000 => 2: use --timestamps user
            ping ENDS --load max => 2: the load of a probe must be low
            send ENDS --timestamps software => 2: --analyse";
        let no_clock = "pa (veth) has no clock of its own (ethtool -T: PTP Hardware Clock: none), and SIOCGHWTSTAMP says: \
                        Operation not supported (os error 95). Nothing was changed. Use --timestamps software";
        let table = table.replace("ENDS", &ends).replace("NO-CLOCK", no_clock);
        refused(&table, |line| wire.run(&lab, line));
        assert_eq!(wire.counter("pa", "tx", "packets"), 0);

        for (words, used, origins) in [
            ("", "software", ["software CLOCK_REALTIME"; 2]),
            (
                "--no-floor --engine af-xdp",
                "user",
                ["user CLOCK_MONOTONIC", "software CLOCK_MONOTONIC"],
            ),
        ] {
            let document = wire.json(&lab, &format!("ping {ends} -c 300 {words}"));
            let (stamps, latency) = (&document["timestamps"], &document["latency"]);
            assert_eq!(stamps["kind"], used, "{document}");
            assert_eq!(stamps["valid"], true, "{document}");
            for (end, origin) in ["departure", "arrival"].into_iter().zip(origins) {
                let reported = &latency[format!("{end}_timestamps")];
                let (kind, clock) = origin.split_once(' ').unwrap();
                assert_eq!(reported["kind"], kind, "{words}: {reported}");
                assert_eq!(reported["clock"], clock, "{words}: {reported}");
            }
            assert_eq!(latency["latency_frames"], document["frames_received"]);
            assert_eq!(list(&stamps["not_taken"]).len(), 1, "{stamps}");
            if used == "user" {
                continue;
            }
            for end in ["departures", "arrivals"] {
                assert_eq!(stamps[format!("{end}_stamped")], document["frames_sent"]);
                assert_eq!(stamps[format!("{end}_not_stamped")], 0);
            }
            assert_eq!(document["engine"], "af-packet");
            assert_eq!(document["frames_lost"], 0);
            // the output includes the tester's own latency
            for part in ["latency", "floor"] {
                assert!(count(&document[part]["latency_min_ns"]) > 0, "{document}");
            }
        }
        let reported = wire.run(&lab, &format!("ping {ends} -c 30 --no-floor"));
        reported.measured().prints(&[
            "clocks    departures: software, as the driver takes the frame (SO_TIMESTAMPING), CLOCK_REALTIME",
            " departures, ",
            "not hardware: pa (veth) has no clock of its own",
            "not part of the latency",
        ]);
        // also for the receiver of `send`
        let words = "--for 150frames --load 1kpps --analyse --timestamps software";
        let document = wire.json(&lab, &format!("send {ends} {words}"));
        let port = &document["receive"][0];
        let sent = &document["send"][0]["frames_sent"];
        assert_eq!(&port["timestamps"]["departures_stamped"], sent);
        let latency = &port["streams"][0]["latency"];
        assert_eq!(latency["departure_timestamps"]["kind"], "software");
        lab.assert_clean("timestamps");
    }

    /// `engine` tests that a small part of a capture is in memory.
    #[test]
    fn captures_are_read_while_they_are_sent() {
        let Some((lab, wire)) = wired() else { return };
        let to = |n| {
            if n == MANY + 4 {
                [8; 4]
            } else {
                [198, 19, 0, 1]
            }
        };
        let frames: Vec<_> = (0..MANY + 10)
            .map(|n| (n * 1000, frame(to(n), 1, 18)))
            .collect();
        capture_file(&lab, "large.pcapng", &frames);
        // an error far into the file is found when it is read; all frames before it are sent
        let words = "send --port pa --pcap large.pcapng --load max";
        wire.run(&lab, words).code(4).says(&[
            &format!("frame {} of ", MANY + 5),
            "8.8.8.8",
            "the frames before that were sent",
        ]);
        assert_eq!(wire.counter("pa", "tx", "packets"), MANY + 4);
        // a profile uses one frame of the capture, and reads no further
        let text = "about = 'one'\n[[stream]]\npcap = 'large.pcapng'\nframe = 3\n";
        let words = format!("--profile {} --for 10frames", lab.write("one.toml", text));
        wire.run(&lab, &send(&words)).measured();
        assert_eq!(wire.counter("pa", "tx", "packets"), MANY + 14);
        lab.assert_clean("large captures");
    }
}
