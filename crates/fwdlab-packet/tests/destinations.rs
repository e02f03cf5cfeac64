//! Destinations of frames, as scapy reads them: every IP header behind every kind of tag and
//! tunnel.

#![expect(clippy::disallowed_methods, reason = "asks an independent program")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use fwdlab_packet::decode::{address, destinations};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints frames in hex, each with the destinations that scapy finds when it parses the bytes.
const SCRIPT: &str = r#"
import logging
logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import *
load_contrib("mpls")
bind_layers(UDP, VXLAN, dport=8472)
eth = lambda: Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
n = 0
def v4(**more):
    global n
    n += 1
    return IP(src="198.18.0.1", dst="10.1.2.%d" % n, **more)
def v6(**more):
    global n
    n += 1
    return IPv6(src="2001:2::1", dst="fd00::%x" % n, **more)
inner = lambda: v4() / UDP(sport=1, dport=2) / b"payload"
inner6 = lambda: v6() / TCP()
frames = [
    eth() / inner(),
    eth() / inner6(),
    eth() / Dot1Q(vlan=7) / inner(),
    Ether(type=0x88a8) / Dot1AD(vlan=5) / Dot1Q(vlan=7) / inner6(),
    eth() / MPLS(label=16, s=0) / MPLS(label=17, s=1) / inner(),
    eth() / Dot1Q(vlan=7) / MPLS(label=16, s=1) / inner6(),
    eth() / v4() / GRE() / inner(),
    eth() / v4() / GRE(chksum_present=1, key_present=1, seqnum_present=1, key=7) / inner6(),
    eth() / v6() / GRE() / inner(),
    eth() / v4() / GRE(proto=0x6558) / eth() / Dot1Q(vlan=9) / inner(),
    eth() / v4() / GRE(proto=0x8847) / MPLS(label=99, s=1) / inner(),
    eth() / v4() / v4() / UDP(),
    eth() / v4(options=[IPOption_RR(routers=["10.9.9.9"])]) / inner6(),
    eth() / v6() / inner(),
    eth() / v6() / IPv6ExtHdrDestOpt() / inner6(),
    eth() / v4() / UDP(sport=50000, dport=4789) / VXLAN(vni=5, flags=8) / eth() / inner(),
    eth() / v6() / UDP(sport=50000, dport=4789) / VXLAN(vni=5, flags=8) / eth() / Dot1Q(vlan=3) / inner6(),
    eth() / v4() / UDP(sport=50000, dport=8472) / VXLAN(vni=5, flags=8) / eth() / inner(),
    eth() / v4() / UDP(sport=50000, dport=4789) / VXLAN(vni=5, flags=0x88, gpid=9) / eth() / inner(),
    eth() / v4() / UDP(sport=50000, dport=4789) / VXLAN(flags=8) / eth() / v4() / GRE() / v6() / inner(),
    eth() / v4() / UDP(sport=50000, dport=8472) / VXLAN(flags=8) / eth() / v6() / UDP(sport=50000, dport=4789) / VXLAN(flags=8) / eth() / inner(),
    eth() / ARP(pdst="8.8.8.8"),
    eth() / v4() / ICMP(type=11) / v4() / UDP(),
]
for frame in frames:
    raw = bytes(frame)
    found = []
    layer = Ether(raw)
    while layer:
        # what an ICMP error quotes is not forwarded
        if isinstance(layer, (IP, IPv6)) and not isinstance(layer, (IPerror, IPerror6)):
            found.append(layer.dst)
        layer = layer.payload
    print(raw.hex(), *found)
# scapy's own cut: the rest of these tunnels is elsewhere
for frame, found in [
    (eth() / fragment(IP(dst="10.0.0.1") / GRE() / IP(dst="10.0.0.2") / UDP() / (b"x" * 200), 64)[0], "10.0.0.1 10.0.0.2"),
    (eth() / fragment(IP(dst="10.0.0.1") / UDP(sport=50000, dport=4789) / VXLAN(flags=8) / eth() / IP(dst="10.0.0.2") / UDP() / (b"x" * 200), 64)[0], "10.0.0.1 10.0.0.2"),
    (eth() / fragment(IP(dst="10.0.0.1") / GRE() / IP(dst="10.0.0.2") / UDP() / (b"x" * 200), 64)[1], "10.0.0.1"),
    (eth() / IPv6(dst="fd00::1") / IPv6ExtHdrRouting(type=0, segleft=2, addresses=["fd00::2", "fd00::3"]) / UDP(), "fd00::1 fd00::2 fd00::3"),
    (eth() / IPv6(dst="fd00::1") / IPv6ExtHdrSegmentRouting(segleft=1, lastentry=1, addresses=["fd00::4", "fd00::1"]) / IP(dst="10.0.0.5") / UDP(), "fd00::1 fd00::4 fd00::1 10.0.0.5"),
    (eth() / IPv6(dst="fd00::1") / IPv6ExtHdrRouting(type=0, segleft=0, addresses=["fd00::2"]) / UDP(), "fd00::1"),
    (eth() / IP(dst="10.0.0.1") / GRE() / IP(dst="10.0.0.2", len=9999) / UDP(), "10.0.0.1 10.0.0.2"),
]:
    print(bytes(frame).hex(), found)
"#;

fn found(frame: &[u8]) -> Vec<String> {
    let found = destinations(frame).into_iter();
    found
        .map(|to| address(&frame[to.field]).unwrap().to_string())
        .collect()
}

#[test]
fn every_destination_that_scapy_sees() {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/python3");
    let has_scapy = |python: &PathBuf| {
        let probe = Command::new(python)
            .args(["-c", "import scapy.all"])
            .output();
        probe.is_ok_and(|output| output.status.success())
    };
    let Some(python) = [venv, "python3".into()].into_iter().find(has_scapy) else {
        println!("SKIPPED: every_destination_that_scapy_sees: needs the Python package scapy");
        return;
    };
    let output = Command::new(python).args(["-c", SCRIPT]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(text.lines().count(), 30);
    for line in text.lines() {
        let mut words = line.split(' ');
        let frame: Vec<u8> = words
            .next()
            .unwrap()
            .as_bytes()
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect();
        let expected: Vec<&str> = words.collect();
        assert_eq!(found(&frame), expected, "{line}");
        for len in 0..frame.len() {
            let less = found(&frame[..len]);
            assert_eq!(less[..], expected[..less.len()], "{len} bytes of {line}");
        }
    }
}

#[test]
fn where_a_destination_is_packed() {
    let mut frame = vec![0; 12];
    frame.extend([0x88, 0x47, 0, 1, 1, 64]);
    frame.extend([
        0x45, 0, 0, 44, 0, 0, 0, 0, 64, 47, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1,
    ]);
    frame.extend([0, 0, 8, 0]);
    frame.extend([
        0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 198, 18, 0, 1, 8, 8, 8, 8,
    ]);
    let words: Vec<String> = (destinations(&frame).iter())
        .map(|to| to.to_string())
        .collect();
    assert_eq!(words, ["IPv4 in MPLS", "IPv4 in GRE"]);
    let from = destinations(&frame)[1].source().unwrap();
    assert_eq!(frame[from], [198, 18, 0, 1]);
}
