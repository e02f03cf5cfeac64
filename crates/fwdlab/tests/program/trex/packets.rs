//! Single packets of TRex's client: pushed, captured, queued; next hops that it finds by itself; and its console.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

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
    let mac = |text: &str| text.replace(':', "");
    let cut = |n: u8| format!("{}{}0000{n:02x}{n:02x}", mac(MAC_B), mac(MAC_A));
    for (what, wanted) in [
        ("service", json!("fetch all")),
        ("counts", found["wanted"].clone()),
        ("byte for byte", json!(true)),
        ("times", json!(true)),
        ("gaps", json!(true)),
        ("said", json!(["RX", 1, 0, 74])),
        ("going", json!(true)),
        ("the last", json!(true)),
        ("file", json!(true)),
        ("left", json!({})),
        ("cut", json!([cut(0), cut(1)])),
        ("pending", json!(1)),
        ("matched", json!([9, 2, 1])),
        ("queue", json!(true)),
        ("pushed", json!(1)),
        ("attributes", json!(["on", "off"])),
        ("vlan", json!("3/4 (QinQ)")),
    ] {
        assert_eq!(found[what], wanted, "{what} in {found}");
    }
    for (what, words) in [
        ("capture refused", "service mode"),
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
    ] {
        let said = found["refused"][what]["error"].to_string();
        assert!(said.contains(words), "{what}: {said}");
    }
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
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
