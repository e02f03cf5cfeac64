//! `fwdlab serve --trex` with TRex's own, unmodified clients, from the packages `lbr-trex-client`
//! and `pytrex`.
//!
//! The Python files next to this one run the clients; this module checks their results. Start with
//! [`found`].

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use fwdlab_packet::pcap;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Lab, PATIENCE, Started, list, number, python_with, root, skipped};
use crate::wire::{MAC_A, MAC_B, Wire};

/// Returns a Python that has the client; otherwise reports what is missing.
fn python() -> Option<&'static str> {
    python_with("lbr_trex_client, sys; assert sys.version_info < (3, 12)").or_else(|| {
        skipped("no Python that has lbr-trex-client (it needs 3.11 or older)");
        None
    })
}

/// Like [`python`], for tests that need root.
fn client() -> Option<&'static str> {
    root().then(python).flatten()
}

/// Returns true if `tcpdump` is installed, which compiles the filters of captures.
fn has_tcpdump() -> bool {
    let has = Command::new("tcpdump").arg("--version").output().is_ok();
    if !has {
        skipped("no tcpdump");
    }
    has
}

/// Starts a server with these options. Returns its addresses.
fn serve(lab: &Lab, options: &[&str]) -> (Started, [String; 2]) {
    let mut words = vec!["serve", "--trex", "--json"];
    words.extend(["--listen", "127.0.0.1:0", "--publisher", "127.0.0.1:0"]);
    words.extend(options);
    let mut server = lab.start(&words);
    let mut ports = [String::new(), String::new()];
    server.wait_until("addresses", |this| {
        let Ok(output) = serde_json::from_str::<Value>(&this.out()) else {
            return false;
        };
        ports = ["rpc", "publisher"].map(|which| {
            let address = output[which].as_str().unwrap();
            address.rsplit_once(':').unwrap().1.to_owned()
        });
        true
    });
    (server, ports)
}

/// Stops a server like its users do.
fn end(server: Started) {
    server.signal(Signal::INT);
    server.wait(PATIENCE).code(0);
}

/// Returns the path of a file next to this one.
fn sibling_path(name: &str) -> String {
    format!("{}/tests/program/trex/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a client's script, and returns its results.
fn found(python: &str, script: &str, arguments: &[&str]) -> Value {
    let output = Command::new(python)
        .arg(sibling_path(script))
        .args(arguments)
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let last = out.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .unwrap_or_else(|_| panic!("{out}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Asserts that the results include these.
#[track_caller]
fn has(found: &Value, requested: &Value) {
    for (what, requested) in requested.as_object().unwrap() {
        assert_eq!(&found[what], requested, "{what} in {found}");
    }
}

/// Asserts that these requests were refused, with these words.
#[track_caller]
fn refused(found: &Value, requested: &[(&str, &str)]) {
    for (what, words) in requested {
        let output = found[what].to_string();
        assert!(output.contains(words), "{what}: {output}");
    }
}

/// A client that is not on the list is disconnected before any reply.
#[test]
fn unauthorised_clients_are_rejected() {
    let Some(lab) = Lab::root() else { return };
    let wire = Wire::new();
    let options = wire.arguments("--ports pa --allow 10.0.0.0/8,::1");
    let (server, ports) = serve(&lab, &options);
    for port in &ports {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let patience = Some(PATIENCE);
        stream.set_read_timeout(patience).unwrap();
        assert!(stream.read_exact(&mut [0; 10]).is_err());
    }
    end(server);
    lab.run("serve --trex --allow 10.0.0.0/99")
        .code(2)
        .says(&["nor a network such as"]);
}

/// Every instruction of TRex's field engine, with flow-stats groups, chains and addresses: compares
/// the frames that leave the port with TRex's documentation, as computed by the Python file.
#[test]
fn frames_are_those_of_trexs_documentation() {
    let Some(python) = client() else { return };
    let lab = Lab::new();
    let wire = Wire::new();
    let file = lab.path().join("sent.pcap");
    let file = file.to_str().unwrap();
    let mut capture = wire.start(&lab, &format!("capture --port pb --for 60s -o {file}"));
    capture.wait_until("that it captures", |this| {
        this.err().contains("capture   pb")
    });
    let options = format!("--ports pa --dst-mac {MAC_B} --mtu 9000");
    // a kernel with IPv6 sends frames of its own, which the client's count does not include
    let kernel = "cat /proc/sys/net/ipv6/conf/pa/disable_ipv6; ip -o link show dev pa";
    wire.exec("echo 0 > /proc/sys/net/ipv6/conf/pa/disable_ipv6");
    let (server, ports) = serve(&lab, &wire.arguments(&options));
    let held = wire.exec(kernel);
    assert!(held.starts_with('1') && held.contains("mtu 9000"), "{held}");
    let found = found(python, "sends.py", &[&ports[0], &ports[1], file]);
    has(
        &found,
        &json!({
            "opackets": 375, "wrong": [], "cases": 13, "groups": [10, 10], "addresses": [[MAC_B, MAC_A], [MAC_B, MAC_A]],
            "chain": [0, 1, 1, 2, 2, 2, 0, 1, 1, 2, 2, 2],
        }),
    );
    for (times, requested_ms) in [
        (
            "chain us",
            &[0, 0, 100, 100, 200, 300, 300, 300, 400, 400, 500, 600][..],
        ),
        ("burst us", &[0, 10, 20, 70, 80, 90]),
    ] {
        let times = list(&found[times]);
        assert_eq!(times.len(), requested_ms.len(), "{times:?}");
        for (at, requested) in times.iter().zip(requested_ms) {
            // on a busy host frames may leave late, never early
            let late_us = at.as_i64().unwrap() - requested * 1000;
            assert!(
                (-2_000..60_000).contains(&late_us),
                "{at} us, not {requested} ms"
            );
        }
    }
    refused(&found["refused"], &[("pause", "only continuous streams")]);
    end(server);
    capture.signal(Signal::INT);
    capture.wait(PATIENCE);
    assert_eq!(wire.attached(), "");
    let after = wire.exec(kernel);
    assert!(
        after.starts_with('0') && after.contains("mtu 1500"),
        "{after}"
    );
}

/// Measures a TRex profile, through the user's TRex library, like any other; reports why if it
/// cannot.
#[test]
fn a_profile_of_trexs_is_measured() {
    let lab = Lab::new();
    // the path is relative to the current directory
    std::fs::copy(sibling_path("mix.py"), lab.path().join("mix.py")).unwrap();
    let trial = |more: &str| {
        lab.run(&format!(
            "trial --for 300ms --load 10kpps --trex-profile mix.py {more}"
        ))
    };
    trial("--trex-python /nonexistent/python").code(2).says(&[
        "cannot run /nonexistent/python",
        "--trex-python names another",
    ]);
    trial("--tunable size")
        .code(2)
        .says(&["expected NAME=VALUE"]);
    let Some(python) = python() else { return };
    trial(&format!("--trex-python {python} -t sise=64"))
        .code(2)
        .says(&["does not take these tunables: sise"]);
    if !root() {
        return;
    }
    let ended = trial(&format!(
        "--trex-python {python} -t scale=100 --both-directions --json"
    ));
    // the fastest engine does not support a delayed start, and is excluded before anything is
    // measured
    ended.measured().says(&["not possible here: xdp-live"]);
    let document = ended.document();
    let trial = &list(&document["trials"])[0];
    assert_eq!(trial["variant"]["profile"], "mix", "{trial}");
    let streams: Value = serde_json::from_str(&lab.kept("inputs/profiles/mix.json")).unwrap();
    assert_eq!(streams[0]["1"]["mode"]["rate"]["value"], json!(2800));
    assert_eq!(streams[1]["3"]["isg"].as_f64(), Some(200.0));
}

/// Types commands in its first session on a server.
fn console_does_what_is_typed(lab: &Lab, python: &str, ports: &[String; 2]) {
    let batch = lab.path().join("batch");
    let typed = "portattr -p 0 --prom on\nservice -p 0 1\nl3 -p 0 --src 198.18.0.2 --dst 198.18.0.1\narp -p 0\n\
        ping -p 0 -d 198.19.0.1 -n 2\nstats -g\nstats -x\nstats --ps\n";
    std::fs::write(&batch, typed).unwrap();
    let file = lab.path().join("arp.pcap");
    let there = format!("-s 127.0.0.1 -p {} --async_port {}", ports[0], ports[1]);
    let mut console = Command::new(python)
        .arg(sibling_path("console.py"))
        .args(there.split(' '))
        .arg("--batch")
        .arg(&batch)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let more = format!(
        "capture record start --rx 0 -l 9 -f arp\narp -p 0\ncapture show\nservice --off\ncapture record stop -i 5 -o {}\nstats -c\nservice --off\nquit\n",
        file.display()
    );
    let mut input = console.stdin.take().unwrap();
    input.write_all(more.as_bytes()).unwrap();
    drop(input);
    let ended = console.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&ended.stdout);
    for words in [
        "Server version:",
        "Recieved ARP reply from: 198.18.0.1, hw: 02:00:01:d0:17:01",
        "Reply from 198.19.0.1: bytes=64",
        "rx_good_packets",
        "02:00:01:d0:17:01",
        "fetch all",
        "[1/9]",
        "the port has an active capture or queue",
        "Cpu Util(%)",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
    // the only refusal is that of service mode during a capture
    assert_eq!(output.matches("FAILED").count(), 1, "{output}");
    let captured = std::fs::read(&file).unwrap_or_else(|_| panic!("{output}"));
    assert_eq!(pcap::frames(&captured).count(), 1);
}

/// Judges loads.
mod alone {
    use super::*;

    /// Through a DUT, in both directions: every frame is counted in the right place, and the load
    /// is as requested.
    #[test]
    fn traffic_goes_through_a_dut_and_is_steered() {
        let Some(python) = client() else { return };
        let lab = Lab::alone();
        let (server, ports) = serve(&lab, &[]);
        let found = found(python, "forwards.py", &[&ports[0], &ports[1]]);
        let order: Vec<f64> = serde_json::from_value(found["order"].clone()).unwrap();
        assert!(order.is_sorted(), "{found}");
        let of = |what: &str| -> Vec<u64> { serde_json::from_value(found[what].clone()).unwrap() };
        let (packets, again) = (of("packets"), of("twice"));
        let is_short = packets[0] < 2900 && packets[0] == packets[3];
        if is_short || again[0] + again[1] < 2600 && again[2] == 0 {
            // no frame was lost: a sender that stalls for more than a second skips frames
            let reason = format!(
                "the sender stalled: it sent {} of 2900 frames, and then {} of 2600",
                packets[0],
                again[0] + again[1]
            );
            return skipped(&reason);
        }
        let there_bytes = 2000 * 64 + 600 * 204 + 300 * 1004;
        has(
            &found,
            &json!({
                "active": [0, 1], "over": true, "packets": [2900, 1000, 1000, 2900], "bytes": [there_bytes, 64_000, 64_000, there_bytes],
                "group 7": [2000, 1000, 1000, 2000], "group 7 bytes": [128_000, 64_000, 64_000, 128_000], "group 8": [600, 0, 0, 600],
                "errors": {"dropped": 0, "out_of_order": 0, "dup": 0, "seq_too_high": 0, "seq_too_low": 0}, "times": 600,
                "hdrh": "HIST", "twice": [2000, 600, 0], "paused": [0, 0], "after": [0, 0], "paused state": "PAUSE",
                "watching saw": "IDLE", "playing": "PCAP_TX", "played": [60, 60, 60 * 76], "xstats": true,
            }),
        );
        refused(&found, &[("too much", "Gbit/s on layer 1")]);
        // on a busy host the sender catches up, so the load is right within some percent; skipped
        // frames are not sent later
        for (what, [plain, timed]) in [
            ("2100pps", [2000.0, 100.0]),
            ("times 4", [4000.0, 100.0]),
            ("half", [2000.0, 100.0]),
            ("resumed", [2000.0, 100.0]),
            ("one held", [0.0, 100.0]),
            ("not held", [2000.0, 100.0]),
        ] {
            let is = [0, 1].map(|at: usize| number(&found[what][at]));
            let shares = [is[0] / plain, is[1] / timed];
            if plain > 0.0 && shares[0] < 0.7 && (shares[1] / shares[0] - 1.0).abs() < 0.3 {
                // steered as requested, and both stalled alike
                let percent = 100.0 * shares[0];
                return skipped(&format!(
                    "the sender stalled: {percent:.0} % of {what} left"
                ));
            }
            for (is, requested) in is.into_iter().zip([plain, timed]) {
                let is_near = (is - requested).abs() <= requested * 0.3;
                assert!(is_near, "{what}: {is}, not {requested}: {found}");
            }
        }
        end(server);
    }
}

/// TRex's own console.
mod slow {
    use super::*;

    /// On one test bed: TRex's own console with its TUI on a terminal, the same with typed
    /// commands, a client that resolves its next hops, and finally clients that call everything.
    #[test]
    fn trexs_console_works_and_any_calls_leave_nothing() {
        let Some(python) = client() else { return };
        if !has_tcpdump() {
            return;
        }
        let lab = Lab::new();
        let (server, ports) = serve(&lab, &[]);
        let profile = sibling_path("mix.py");
        let its = found(python, "tui.py", &[&ports[0], &ports[1], &profile]);
        assert_eq!(its, json!({"missed": [], "ended": 0}));
        console_does_what_is_typed(&lab, python, &ports);

        let its = found(python, "resolves.py", &[&ports[0], &ports[1]]);
        has(
            &its,
            &json!({
                "resolved": [["198.18.0.2", "02:00:01:d0:17:01", "IPv4"], ["198.19.0.2", "02:00:02:d0:17:02", "IPv4"]],
                "beyond": [true, true], "rtt": true, "unresolved": ["198.18.0.2", "unresolved", "IPv4"],
                "l2": ["-", "-", "Ethernet"], "ipv6": "2001:db8::1",
            }),
        );

        // at one call per second, a client makes 86,400 calls a day; this makes as many as possible
        // in a few seconds
        let seconds = std::env::var("FWDLAB_FUZZ_S").unwrap_or("3".into());
        let pid = server.pid().to_string();
        let its = found(python, "any_calls.py", &[&ports[0], &pid, &seconds]);
        has(
            &its,
            &json!({
                "unanswered": null, "states": ["IDLE", "IDLE"], "sent when stopped": [0, 0],
                "groups": {"flow_stats": [], "latency": []},
            }),
        );
        assert!(its["calls"].as_u64().unwrap() > 100, "{its}");
        // threads and files of recently closed connections, memory kept by the allocator, and a
        // ring of 64 MiB for each port that is still capturing
        for (what, more) in [("threads", 8), ("files", 16), ("kB", 100_000 + 2 * 65_536)] {
            let [before, after] = ["before", "after"].map(|when| its[when][what].as_i64().unwrap());
            assert!(after <= before + more, "{what}: {its}");
        }
        end(server);
    }

    /// Clients on a wire: ports pass from one client to another, and packets are pushed and
    /// captured, byte for byte.
    #[test]
    fn clients_acquire_ports_push_and_capture_packets_and_release() {
        let Some(python) = client() else { return };
        if !has_tcpdump() {
            return;
        }
        let lab = Lab::new();
        let wire = Wire::new();
        let options = "--ports pa,pb --allow 127.0.0.0/8";
        let (server, ports) = serve(&lab, &wire.arguments(options));
        // the server has a higher priority, like its senders: a second port does not wait for a
        // sender that fills a CPU
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        let (_, behind_its_name) = stat.rsplit_once(')').unwrap();
        assert_eq!(behind_its_name.split(' ').nth(17), Some("-20"), "{stat}");
        let file = lab.path().join("vlan.pcap");
        let file = file.to_str().unwrap();
        let its = found(python, "packets.py", &[&ports[0], &ports[1], file]);
        // really set, and undone at the end
        let takes = |port: &str| {
            let text = wire.ip(&format!("-d -j link show dev {port}"));
            let json: Value = serde_json::from_str(&text).unwrap();
            ["promiscuity", "allmulti"].map(|what| json[0][what].as_u64().unwrap())
        };
        assert_eq!([takes("pa"), takes("pb")], [[1, 1], [0, 0]]);
        let mac = |text: &str| text.replace(':', "");
        let cut = |n: u8| format!("{}{}0000{n:02x}{n:02x}", mac(MAC_B), mac(MAC_A));
        has(
            &its,
            &json!({
                "connected": true, "ports": 2, "owned": [0, 1], "id": 1, "opackets": [0, 0], "xstats": true, "bob owns": [0, 1],
                "bob sees": [1, 1000], "service": "fetch all", "counts": its["wanted"], "byte for byte": true, "times": true,
                "gaps": true, "said": ["RX", 1, 0, 90], "going": true, "the last": true, "file": true, "left": {},
                "cut": [cut(0), cut(1)], "pending": 1, "matched": [9, 2, 1], "queue": true, "pushed": 1,
                "map without L3": [[0, 1]], "attributes": ["on", "off"], "vlan": "3/4 (QinQ)",
            }),
        );
        refused(
            &its,
            &[
                ("bob is refused", "already taken by 'alice'"),
                ("eleventh", "there are 10 captures"),
                ("service refused", "active capture or queue"),
                ("queue refused", "active capture or queue"),
            ],
        );
        refused(
            &its["refused"],
            &[
                ("13", "it may have 14 to 9238"),
                ("9239", "it may have 14 to 9238"),
                ("no base64", "is not base64"),
                ("too long", "more than 1 s"),
                ("filter", "syntax error"),
                ("limit", "100000 packets"),
                ("port", "no port 7"),
                ("link", "does not set 'link_status'"),
                ("led", "does not set 'led_status'"),
                ("flow", "does not set 'flow_ctrl_mode'"),
            ],
        );
        // another client package
        let requested = Command::new(python).args(["-c", "import pytrex"]).output();
        match requested.is_ok_and(|output| output.status.success()) {
            false => skipped("no pytrex"),
            true => assert_eq!(
                found(python, "others.py", &[&ports[0], &ports[1]]),
                json!({
                    "ports": 2, "state": "PortState.STREAMS", "sent": 50, "received": 50, "xstats": true, "captured": 20, "relative": true,
                })
            ),
        }
        end(server);
        assert_eq!([takes("pa"), takes("pb")], [[0, 0], [0, 0]]);
        assert_eq!(wire.attached(), "");
    }
}
