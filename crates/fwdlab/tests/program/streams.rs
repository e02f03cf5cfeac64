//! Results of each stream and flow: compared with the counters of a DUT that drops some of the
//! frames. Start with [`exactly_the_flows_that_a_dut_drops_are_named`].

use serde_json::Value;

use crate::by_hand::last_line;
use crate::formats::{committed, follows};
use crate::support::{CommandResult, Lab, count, list, refused, skipped, try_tool, words};
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
    fn new(lab: Lab, rules: [&str; 4]) -> Option<Dut> {
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
        let rules = rules.map(|rule| format!("{rule} counter drop;")).join(" ");
        router.exec(&format!(
            "nft 'table ip t {{ chain f {{ type filter hook forward priority 0; {rules} }}; }}'"
        ));
        Some(Dut { lab, ours, router })
    }

    /// Returns the number of frames that each rule has dropped.
    fn dropped(&self) -> Vec<u64> {
        let text = self.router.exec("nft list ruleset");
        (text.split("packets ").skip(1))
            .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
            .collect()
    }

    fn run(&self, words: &str) -> CommandResult {
        self.ours.run(&self.lab, words)
    }

    #[track_caller]
    fn json(&self, words: &str) -> Value {
        self.ours.json(&self.lab, words)
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

const RULES: [&str; 4] = [
    "ip saddr 198.18.10.1 ip daddr 198.19.10.3 udp dport 2000",
    "ip saddr 198.18.10.2 ip daddr 198.19.10.7 udp dport 2000",
    "udp dport 3000",
    "ip saddr 198.19.10.2 ip daddr 198.18.10.1",
];
const BLOCKED: [&str; 2] = [
    "198.18.10.1:2000 > 198.19.10.3:2000",
    "198.18.10.2:2000 > 198.19.10.7:2000",
];

/// In the second tier, because they take long.
mod slow {
    use super::*;

    /// Checks by the sender itself, in JSON and as text, by a receiver that knows only the profile,
    /// and in both directions. `engine` tests flows that differ by VLAN or label.
    #[test]
    fn exactly_the_flows_that_a_dut_drops_are_named() {
        let Some(lab) = Lab::root() else { return };
        let Some(dut) = Dut::new(lab, RULES) else {
            return skipped("no nft");
        };
        let profile = dut.lab.write("test.toml", TWO_STREAMS);
        let one = format!("{ONE_WAY} --dst-mac {MAC_E0}");
        let send = format!("{one} --profile {profile} --for 4800frames --load 5kpps");
        let document = dut.json(&format!("{send} --rx-port pc --analyse"));
        let dropped = dut.dropped();
        let received = &document["receive"][0];
        let [mix, blocked] = list(&received["streams"]) else {
            panic!("{received}");
        };
        let names = [mix, blocked].map(|stream| &stream["name"]);
        assert_eq!(names, ["mix", "blocked"]);
        assert_eq!(words(&mix["flows_missing"]), BLOCKED, "{mix}");
        assert_eq!(
            words(&blocked["flows_missing"]),
            ["198.18.10.1:2000 > 198.19.10.1:3000"]
        );
        let lost: u64 = dropped[..3].iter().sum();
        for (of, counter, frames) in [
            (mix, "flows", 20),
            (mix, "flows_not_seen", 2),
            (mix, "frames_lost", dropped[0] + dropped[1]),
            (mix, "frames_sent", 4800 - dropped[2]),
            (blocked, "frames_lost", dropped[2]),
            (blocked, "frames_received", 0),
            (received, "frames_given", 4800),
            (received, "frames_lost_elsewhere", lost),
            (received, "frames_delivered", 4800 - lost),
        ] {
            assert_eq!(of[counter], frames, "{counter}: {of}");
        }
        is_latency(&mix["latency"]);
        assert_eq!(mix["latency"]["latency_lost_frames"], mix["frames_lost"]);
        assert!(blocked["latency"].is_null());

        let receive = format!(
            "receive --port pc --profile {profile} --for 2000frames --engine af-packet --json-stream"
        );
        let mut receive = dut.ours.start(&dut.lab, &receive);
        receive.event("started");
        let sent = dut.json(&send);
        assert_eq!(list(&sent["send"][0]["streams_sent"]).len(), 2);
        let document = last_line(receive);
        let received = &document["receive"][0];
        assert_eq!(received["receiver"], "af-packet");
        let mix = &received["streams"][0];
        assert_eq!(words(&mix["flows_missing"]), BLOCKED, "{mix}");
        assert_eq!(mix["frames_lost_is_lower_bound"], true);
        // two of twenty flows, each equally often, among the frames numbered so far
        let (lost, expected) = (count(&mix["frames_lost"]), count(&mix["frames_expected"]));
        assert!(lost.abs_diff(expected / 10) <= 12 * 2, "{mix}");

        // both directions: the rules drop one flow of the reverse direction, and none of the first
        // ten of the other
        let both = format!(
            "{ONE_WAY} --port pc --dst-mac {MAC_E0},{MAC_E1} --flows 10 --for 1000frames --load 2kpps"
        );
        let hdr = dut.lab.path().join("latency.hlog");
        let before = dut.dropped();
        let document = dut.json(&format!("{both} --analyse --hdr {}", hdr.display()));
        let reverse = &document["receive"][1];
        assert_eq!(reverse["port"], "pa");
        assert_eq!(reverse["frames_lost"], dut.dropped()[3] - before[3]);
        assert_eq!(
            words(&reverse["streams"][0]["flows_missing"]),
            ["198.19.10.2:2000 > 198.18.10.1:2000"]
        );
        let log = std::fs::read_to_string(&hdr).unwrap();
        assert_eq!(log.matches("\nTag=0_test_frames,").count(), 2, "{log}");

        // the last: frames too small for a signature
        let table = "BOTH --rx-port pb --analyse => 2: omit --rx-port
            BOTH --hdr x => 2: --analyse
            ONE --analyse => 2: --rx-port
            ONE --rx-port pc --profile tcp-syn --analyse => 2: carries a signature";
        let table = table.replace("BOTH", &both).replace("ONE", &one);
        refused(&table, |line| dut.run(line));

        // as text; without --analyse, frames are counted but not checked
        let before: u64 = dut.dropped().iter().sum();
        let sent = dut.run(&format!(
            "{one} --rx-port pc --profile {profile} --for 1200frames --load 5kpps --analyse"
        ));
        let lost = dut.dropped().iter().sum::<u64>() - before;
        sent.measured().prints(&[
            &format!("lost elsewhere {lost}"),
            "stream    0 mix ",
            "never     0  198.18.10.1:2000 > 198.19.10.3:2000",
            "latency   0  min",
            "clocks    departures: user, intended departure, CLOCK_MONOTONIC; arrivals: software",
        ]);
        let before = dut.dropped()[3];
        let reverse = &dut.json(&format!("{both} --count"))["receive"][1];
        assert_eq!(reverse["frames_lost"], dut.dropped()[3] - before);
        assert!(reverse["streams"].is_null());
        dut.lab.assert_clean("streams");
    }
}
