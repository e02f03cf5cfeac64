//! Results of each stream and flow: compared with the counters of a DUT that drops some of the
//! frames. Start with [`exactly_the_flows_that_a_dut_drops_are_named`].

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::by_hand::last_line;
use crate::formats::{committed, follows};
use crate::support::{CommandResult, Lab, Started, count, list, root, skipped, try_tool, words};
use crate::wire::{MAC_A, Wire};

const MAC_E0: &str = "02:00:00:00:00:e0";
const MAC_E1: &str = "02:00:00:00:00:e1";
const MAC_C: &str = "02:00:00:00:00:0c";

/// Not live frames: the ports of the router have no NAPI.
const ONE_WAY: &str = "send --port pa --engine af-xdp";

/// A router between two ports of the test: frames into `pa` come out of `pc`, and vice versa.
struct Dut {
    lab: Lab,
    ours: Wire,
    router: Wire,
}

impl Dut {
    /// Creates a router that drops frames by these rules, one `counter drop` each. `None` without
    /// nft.
    fn new(rules: &[&str]) -> Option<Dut> {
        try_tool(&["nft", "--version"]).ok()?;
        let (ours, router) = (Wire::new(), Wire::new());
        ours.ip("link delete pa");
        for (ours_name, mac, port, router_mac) in
            [("pa", MAC_A, "e0", MAC_E0), ("pc", MAC_C, "e1", MAC_E1)]
        {
            ours.ip(&format!(
                "link add name {ours_name} address {mac} type veth peer name {port} address {router_mac} netns {}",
                router.name
            ));
            ours.ip(&format!("link set {ours_name} up"));
            router.ip(&format!("link set {port} up"));
        }
        router.exec("echo 1 > /proc/sys/net/ipv4/ip_forward");
        for (port, net, mac) in [("e0", "198.18", MAC_A), ("e1", "198.19", MAC_C)] {
            router.ip(&format!("address add {net}.0.1/30 dev {port}"));
            router.ip(&format!(
                "neighbour add {net}.0.2 lladdr {mac} dev {port} nud permanent"
            ));
            router.ip(&format!("route add {net}.10.0/24 via {net}.0.2 dev {port}"));
        }
        if !rules.is_empty() {
            let rules: Vec<String> = rules.iter().map(|r| format!("{r} counter drop;")).collect();
            router.exec(&format!(
                "nft 'table ip t {{ chain f {{ type filter hook forward priority 0; {} }}; }}'",
                rules.join(" ")
            ));
        }
        Some(Dut {
            lab: Lab::new(),
            ours,
            router,
        })
    }

    /// Returns the number of frames that each rule has dropped.
    fn dropped(&self) -> Vec<u64> {
        let text = self.router.exec("nft list ruleset");
        (text.split("packets ").skip(1))
            .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
            .collect()
    }

    fn profile(&self, text: &str) -> PathBuf {
        let path = self.lab.path().join("test.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, words: &str) -> CommandResult {
        self.ours.run(&self.lab, words)
    }

    #[track_caller]
    fn json(&self, words: &str) -> Value {
        self.ours.json(&self.lab, words)
    }

    /// Starts a user-space receiver that knows the profile.
    fn receive(&self, profile: &Path, frames: u64) -> Started {
        let words = format!(
            "receive --port pc --profile {} --for {frames}frames --engine af-packet --json-stream",
            profile.display()
        );
        let mut receive = self.ours.start(&self.lab, &words);
        receive.event("started");
        receive
    }
}

/// Asserts that the value has exactly the documented fields of latencies.
#[track_caller]
fn is_latency(value: &Value) {
    follows("latency", value);
    let schema = committed("latency");
    for key in value.as_object().unwrap().keys() {
        assert!(!schema["properties"][key].is_null(), "{key}");
    }
    let at = |name: &str| count(&value[name]);
    assert!(0 < at("latency_min_ns") && at("latency_min_ns") <= at("latency_p50_ns"));
    assert!(at("latency_p50_ns") <= at("latency_max_ns"));
}

const TWO_STREAMS: &str = "
[[stream]]
name = 'mix'
size = 'imix'
flows = 20

[[stream]]
name = 'blocked'
layers = ['ipv4', { udp = { destination-port = 3000 } }]
size = 100
";

const RULES: [&str; 3] = [
    "ip saddr 198.18.10.1 ip daddr 198.19.10.3 udp dport 2000",
    "ip saddr 198.18.10.2 ip daddr 198.19.10.7 udp dport 2000",
    "udp dport 3000",
];
const BLOCKED: [&str; 2] = [
    "198.18.10.1:2000 > 198.19.10.3:2000",
    "198.18.10.2:2000 > 198.19.10.7:2000",
];

/// Checks by the sender itself, and by a receiver that knows only the profile.
#[test]
fn exactly_the_flows_that_a_dut_drops_are_named() {
    const TEST: &str = "exactly_the_flows_that_a_dut_drops_are_named";
    if !root(TEST) {
        return;
    }
    let Some(dut) = Dut::new(&RULES) else {
        return skipped(TEST, "no nft");
    };
    let profile = dut.profile(TWO_STREAMS);
    let send = format!(
        "{ONE_WAY} --dst-mac {MAC_E0} --profile {} --for 4800frames --load 5kpps",
        profile.display()
    );
    let document = dut.json(&format!("{send} --rx-port pc --analyse"));
    let dropped = dut.dropped();
    let received = &document["receive"][0];
    let [mix, blocked] = list(&received["streams"]) else {
        panic!("{received}");
    };
    assert_eq!(
        (&mix["name"], &blocked["name"]),
        (&"mix".into(), &"blocked".into())
    );
    assert_eq!(words(&mix["flows_missing"]), BLOCKED, "{mix}");
    assert_eq!(
        (count(&mix["flows"]), count(&mix["flows_not_seen"])),
        (20, 2)
    );
    assert_eq!(
        count(&mix["frames_sent"]) + count(&blocked["frames_sent"]),
        4800
    );
    assert_eq!(count(&mix["frames_lost"]), dropped[0] + dropped[1], "{mix}");
    assert_eq!(count(&blocked["frames_lost"]), dropped[2], "{blocked}");
    assert_eq!(blocked["frames_lost"], blocked["frames_sent"]);
    assert_eq!(
        words(&blocked["flows_missing"]),
        ["198.18.10.1:2000 > 198.19.10.1:3000"]
    );
    assert_eq!(count(&received["frames_given"]), 4800);
    assert_eq!(
        count(&received["frames_lost_elsewhere"]),
        dropped.iter().sum::<u64>()
    );
    assert_eq!(
        count(&received["frames_given"]),
        count(&received["frames_delivered"]) + count(&received["frames_lost_elsewhere"])
    );
    for clean in ["frames_duplicate", "frames_reordered", "frames_corrupt"] {
        assert_eq!(count(&mix[clean]), 0, "{clean}");
    }
    is_latency(&mix["latency"]);
    assert_eq!(mix["latency"]["latency_lost_frames"], mix["frames_lost"]);
    assert!(blocked["latency"].is_null());

    let receive = dut.receive(&profile, 2000);
    let sent = dut.json(&send);
    assert_eq!(list(&sent["send"][0]["streams_sent"]).len(), 2);
    let document = last_line(receive);
    let received = &document["receive"][0];
    assert_eq!(received["receiver"], "af-packet");
    let [mix, blocked] = list(&received["streams"]) else {
        panic!("{received}");
    };
    assert_eq!(words(&mix["flows_missing"]), BLOCKED, "{mix}");
    assert_eq!(mix["frames_lost_is_lower_bound"], true);
    // two of twenty flows, each equally often, among the frames numbered so far
    let (lost, expected) = (count(&mix["frames_lost"]), count(&mix["frames_expected"]));
    assert!(lost.abs_diff(expected / 10) <= 12 * 2, "{mix}");
    assert_eq!(count(&blocked["frames_received"]), 0);
    is_latency(&mix["latency"]);
    dut.lab.assert_clean("streams");
}

/// JSON in both directions, and text in one: only its 20 flows have a second source.
#[test]
fn two_ports_check_each_others_frames_and_list_missing_flows() {
    const TEST: &str = "two_ports_check_each_others_frames_and_list_missing_flows";
    if !root(TEST) {
        return;
    }
    let rules = [
        "ip saddr 198.19.10.2 ip daddr 198.18.10.1",
        "ip saddr 198.18.10.2",
    ];
    let Some(dut) = Dut::new(&rules) else {
        return skipped(TEST, "no nft");
    };
    let hdr = dut.lab.path().join("latency.hlog");
    let both = format!(
        "{ONE_WAY} --port pc --dst-mac {MAC_E0},{MAC_E1} --flows 10 --for 1000frames --load 2kpps"
    );
    let document = dut.json(&format!("{both} --analyse --hdr {}", hdr.display()));
    let [forward, reverse] = list(&document["receive"]) else {
        panic!("{document}");
    };
    assert_eq!(
        (&forward["port"], &reverse["port"]),
        (&"pc".into(), &"pa".into())
    );
    assert_eq!(count(&forward["frames_lost"]), 0);
    assert_eq!(count(&reverse["frames_lost"]), dut.dropped()[0]);
    assert_eq!(
        words(&reverse["streams"][0]["flows_missing"]),
        ["198.19.10.2:2000 > 198.18.10.1:2000"]
    );
    let log = std::fs::read_to_string(&hdr).unwrap();
    let lines = log
        .lines()
        .filter(|line| line.starts_with("Tag=0_test_frames,"));
    assert_eq!(lines.count(), 2, "{log}");
    // counted but not checked
    let document = dut.json(&format!("{both} --count"));
    let reverse = &document["receive"][1];
    assert_eq!(count(&reverse["frames_lost"]), 100, "{reverse}");
    assert!(reverse["streams"].is_null());

    let one = format!("{ONE_WAY} --dst-mac {MAC_E0}");
    for (line, words) in [
        (format!("{both} --rx-port pb --analyse"), "omit --rx-port"),
        (format!("{both} --hdr x"), "--analyse"),
        (format!("{one} --analyse"), "--rx-port"),
        // frames too small for a signature
        (
            format!("{one} --rx-port pc --profile tcp-syn --analyse"),
            "carries a signature",
        ),
    ] {
        dut.run(&line).code(2).says(&[words]);
    }

    let words = "--rx-port pc --flows 20 --for 1000frames --load 2kpps --analyse";
    let sent = dut.run(&format!("{one} {words}"));
    let lost = dut.dropped()[1];
    sent.measured().prints(&[
        &format!("lost elsewhere {lost}"),
        &format!(
            "stream    0 test frames  sent 1,000, received {}, lost {lost}",
            1000 - lost
        ),
        "never     0  198.18.10.2:2000 > 198.19.10.1:2000",
        "and 6 others",
        "latency   0  min",
        "clocks    departures: user, intended departure, CLOCK_MONOTONIC; arrivals: software",
    ]);
    dut.lab.assert_clean("both directions");
}

/// A bridge drops one VLAN and one label. The kernel removes tags on the way; both receivers give
/// the same results.
#[test]
fn flows_that_differ_only_by_vlan_or_label_are_distinguished() {
    const TEST: &str = "flows_that_differ_only_by_vlan_or_label_are_distinguished";
    if !root(TEST) {
        return;
    }
    let Some(dut) = Dut::new(&[]) else {
        return skipped(TEST, "no nft");
    };
    dut.router.ip("link add name br0 type bridge");
    for port in ["e0", "e1"] {
        dut.router.ip(&format!("link set {port} master br0"));
    }
    dut.router.ip("link set br0 up");
    dut.router.exec(
        "nft 'table bridge t { chain f { type filter hook forward priority 0; vlan id 107 counter drop; \
         ether type 0x8847 @nh,0,20 1003 counter drop; }; }'",
    );
    let profile = dut.profile(
        "
[[stream]]
name = 'tagged'
layers = ['vlan', 'ipv4', 'udp']
size = 100
vary = [{ field = 'vlan.id', from = 101, count = 10 }]

[[stream]]
name = 'labelled'
layers = ['mpls', 'ipv4', 'udp']
size = 100
vary = [{ field = 'mpls.label', from = 1001, count = 10 }]
",
    );
    let missing = ["VLAN 107", "MPLS 1003"];
    let missing = missing.map(|inside| [format!("198.18.10.1:2000 > 198.19.10.1:2000 {inside}")]);
    let send = format!(
        "{ONE_WAY} --dst-mac {MAC_C} --profile {} --for 1000frames --load 2kpps",
        profile.display()
    );
    let receive = dut.receive(&profile, 400);
    dut.json(&send);
    let document = last_line(receive);
    let streams = list(&document["receive"][0]["streams"]);
    assert_eq!(streams.len(), 2);
    for (stream, missing) in streams.iter().zip(&missing) {
        assert_eq!(words(&stream["flows_missing"]), missing, "{stream}");
        assert_eq!(
            (count(&stream["flows"]), count(&stream["frames_corrupt"])),
            (10, 0)
        );
    }
    // with the XDP receiver
    let before = dut.dropped();
    let sent = dut.json(&format!("{send} --rx-port pc --analyse"));
    let dropped = dut.dropped();
    assert!(before.iter().all(|frames| *frames > 0), "{before:?}");
    let streams = list(&sent["receive"][0]["streams"]);
    assert_eq!(streams.len(), 2);
    for (n, (stream, missing)) in streams.iter().zip(&missing).enumerate() {
        assert_eq!(words(&stream["flows_missing"]), missing, "{stream}");
        assert_eq!(count(&stream["frames_lost"]), dropped[n] - before[n]);
    }
}
