//! Single packets of TRex's client: pushed, captured, queued; next hops that it finds by itself; and its console.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use fwdlab_packet::pcap;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{found, python, serve};
use crate::support::{Lab, root, skipped};
use crate::wire::{MAC_A, MAC_B, Wire};

/// Python and `tcpdump`, or a line that says what is missing.
fn tools(name: &str) -> Option<&'static str> {
    if !root(name) {
        return None;
    }
    let Some(python) = python() else {
        skipped(name, "no Python that has lbr-trex-client");
        return None;
    };
    if Command::new("tcpdump").arg("--version").output().is_err() {
        skipped(name, "no tcpdump");
        return None;
    }
    Some(python)
}

#[test]
fn packets_are_pushed_and_captured_byte_for_byte() {
    let Some(python) = tools("packets_are_pushed_and_captured_byte_for_byte") else {
        return;
    };
    let lab = Lab::new();
    let wire = Wire::new();
    let (server, ports) = serve(&lab, &wire.arguments("--ports pa,pb"));
    let file = lab.path().join("vlan.pcap");
    let found = found(
        python,
        "packets.py",
        &[&ports[0], &ports[1], file.to_str().unwrap()],
    );
    println!("{found}");
    // really set, and undone at the end
    let takes = |port: &str| {
        let text = wire.ip(&format!("-d -j link show dev {port}"));
        let json: Value = serde_json::from_str(&text).unwrap();
        (
            json[0]["promiscuity"].as_u64().unwrap(),
            json[0]["allmulti"].as_u64().unwrap(),
        )
    };
    assert_eq!([takes("pa"), takes("pb")], [(1, 1), (0, 0)]);
    let mac = |text: &str| text.replace(':', "");
    let cut = |n: u8| format!("{}{}0000{n:02x}{n:02x}", mac(MAC_B), mac(MAC_A));
    for (what, wanted) in [
        ("service", json!("fetch all")),
        ("counts", found["wanted"].clone()),
        ("byte for byte", json!(true)),
        ("times", json!(true)),
        ("gaps", json!(true)),
        ("said", json!(["RX", 1, 0, 90])),
        ("going", json!(true)),
        ("the last", json!(true)),
        ("file", json!(true)),
        ("left", json!({})),
        ("cut", json!([cut(0), cut(1)])),
        ("pending", json!(1)),
        ("matched", json!([9, 2, 1])),
        ("queue", json!(true)),
        ("pushed", json!(1)),
        ("map without L3", json!([[0, 1]])),
        ("attributes", json!(["on", "off"])),
        ("vlan", json!("3/4 (QinQ)")),
    ] {
        assert_eq!(found[what], wanted, "{what} in {found}");
    }
    for (what, words) in [
        ("eleventh", "there are 10 captures"),
        ("service refused", "active capture or queue"),
        ("queue refused", "active capture or queue"),
    ] {
        let said = found[what].to_string();
        assert!(said.contains(words), "{what}: {said}");
    }
    for (what, words) in [
        ("13", "it may have 14 to 9238"),
        ("9239", "it may have 14 to 9238"),
        ("no base64", "no base64"),
        ("too long", "more than 1 s"),
        ("filter", "syntax error"),
        ("limit", "100000 packets"),
        ("port", "no port 7"),
        ("link", "does not set 'link_status'"),
        ("led", "does not set 'led_status'"),
        ("flow", "does not set 'flow_ctrl_mode'"),
    ] {
        let said = found["refused"][what]["error"].to_string();
        assert!(said.contains(words), "{what}: {said}");
    }
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
    assert_eq!([takes("pa"), takes("pb")], [(0, 0), (0, 0)]);
    assert_eq!(wire.attached(), "");
}

#[test]
fn next_hops_are_resolved_and_pinged_through_a_dut() {
    let Some(python) = tools("next_hops_are_resolved_and_pinged_through_a_dut") else {
        return;
    };
    let lab = Lab::new();
    let (server, ports) = serve(&lab, &[]);
    let found = found(python, "resolves.py", &[&ports[0], &ports[1]]);
    println!("{found}");
    let resolved = |source: &str, mac: &str| json!([source, mac, "IPv4"]);
    for (what, wanted) in [
        (
            "resolved",
            json!([
                resolved("198.18.0.2", "02:00:01:d0:17:01"),
                resolved("198.19.0.2", "02:00:02:d0:17:02")
            ]),
        ),
        ("next hop", json!([true, true])),
        ("beyond", json!([true, true])),
        ("rtt", json!(true)),
        ("unresolved", json!(["198.18.0.2", "unresolved", "IPv4"])),
        ("l2", json!(["-", "-", "Ethernet"])),
        ("ipv6", json!("2001:db8::1")),
    ] {
        assert_eq!(found[what], wanted, "{what} in {found}");
    }
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
}

/// What users of TRex type, in its own console.
#[test]
fn trexs_console_does_what_is_typed() {
    let Some(python) = tools("trexs_console_does_what_is_typed") else {
        return;
    };
    let lab = Lab::new();
    let (server, ports) = serve(&lab, &[]);
    let batch = lab.path().join("batch");
    let typed = "portattr -p 0 --prom on\nservice -p 0 1\nl3 -p 0 --src 198.18.0.2 --dst 198.18.0.1\narp -p 0\n\
        ping -p 0 -d 198.19.0.1 -n 2\nstats -g\nstats -x\nstats --ps\n";
    std::fs::write(&batch, typed).unwrap();
    let file = lab.path().join("arp.pcap");
    let mut console = Command::new(python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/program/trex/console.py"
        ))
        .args([
            "-s",
            "127.0.0.1",
            "-p",
            &ports[0],
            "--async_port",
            &ports[1],
        ])
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
    let said = String::from_utf8_lossy(&ended.stdout);
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
        assert!(said.contains(words), "{words}: {said}");
    }
    // the one refusal is that of service mode while something is captured
    assert_eq!(said.matches("FAILED").count(), 1, "{said}");
    let captured = std::fs::read(&file).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(pcap::frames(&captured).count(), 1);
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
}

/// Who is not on the list is let go before anything is said.
#[test]
fn who_is_not_allowed_does_not_get_in() {
    if !root("who_is_not_allowed_does_not_get_in") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for (allow, is_in) in [("127.0.0.0/8", true), ("10.0.0.0/8,::1", false)] {
        let options = format!("--ports pa --allow {allow}");
        let (server, ports) = serve(&lab, &wire.arguments(&options));
        for port in &ports {
            let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let mut greeting = [0; 10];
            assert_eq!(stream.read_exact(&mut greeting).is_ok(), is_in, "{allow}");
        }
        server.signal(Signal::INT);
        assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
    }
    let wrong = lab.run(&["serve", "--trex", "--allow", "10.0.0.0/99"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("no network such as"), "{}", wrong.err);
}

/// Another client package, unmodified.
#[test]
fn pytrex_sends_and_captures() {
    let name = "pytrex_sends_and_captures";
    let Some(python) = tools(name) else {
        return;
    };
    let asked = Command::new(python).args(["-c", "import pytrex"]).output();
    if !asked.is_ok_and(|output| output.status.success()) {
        return skipped(name, "no pytrex");
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let (server, ports) = serve(&lab, &wire.arguments("--ports pa,pb"));
    let found = found(python, "others.py", &[&ports[0], &ports[1]]);
    assert_eq!(
        found,
        json!({
            "ports": 2, "state": "PortState.STREAMS", "sent": 50, "received": 50, "xstats": true, "captured": 20, "relative": true,
        })
    );
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
}
