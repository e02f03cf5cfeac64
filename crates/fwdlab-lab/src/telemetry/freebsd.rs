//! Telemetry of FreeBSD: counters of network cards in their drivers' sysctl trees, and the output
//! of `netstat`, `pfctl` and `sysctl`.
//!
//! The names are those of the manuals and of BSDRP's `nic-queue-usage`; nothing here was run on the
//! real thing yet. cxl counts packets whose checksums it verified, ixl and bxe only unicast. Pure
//! functions of texts. Start with [`tree`] and [`statistics`].

use std::collections::BTreeMap;

use fwdlab_model::telemetry::{CpuTime, PortCount, QueueCount, Reading, Size, Way};
use serde_json::Value;

/// A driver: its sysctl root, where `#` is the number of the interface; its names of a queue's
/// packet counters, where `#` is the number of the queue, in and out; and those of the port's, in
/// and out.
struct Driver {
    names: &'static [&'static str],
    root: &'static str,
    queues: [&'static str; 2],
    port: [&'static str; 2],
}

const DRIVERS: &[Driver] = &[
    Driver {
        names: &["cxl", "cc"],
        root: "dev.NAME.#",
        queues: ["rxq.#.rxcsum", "txq.#.txpkt_wrs"],
        port: ["stats.rx_frames", "stats.tx_frames"],
    },
    Driver {
        names: &["ix"],
        root: "dev.NAME.#",
        queues: ["queue#.rx_packets", "queue#.tx_packets"],
        port: ["mac_stats.total_pkts_rcvd", "mac_stats.total_pkts_txd"],
    },
    Driver {
        names: &["igb"],
        root: "dev.NAME.#",
        queues: ["queue#.rx_packets", "queue#.tx_packets"],
        port: ["mac_stats.total_pkts_recvd", "mac_stats.total_pkts_txd"],
    },
    Driver {
        names: &["ixl"],
        root: "dev.NAME.#",
        queues: ["pf.que#.rx_packets", "pf.que#.tx_packets"],
        port: ["mac.ucast_pkts_rcvd", "mac.ucast_pkts_txd"],
    },
    Driver {
        names: &["bxe"],
        root: "dev.NAME.#",
        queues: ["queue.#.rx_pkts", "queue.#.tx_pkts"],
        port: ["rx_ucast_packets", "tx_ucast_packets"],
    },
    Driver {
        names: &["mce"],
        root: "dev.NAME.#",
        queues: ["rxstat#.packets", "txstat#tc0.packets"],
        port: ["pstats.frames_rx", "pstats.frames_tx"],
    },
    Driver {
        names: &["mlxen"],
        root: "hw.NAME#",
        queues: ["stat.rx_ring#.packets", "stat.tx_ring#.packets"],
        port: ["stat.rx_packets", "stat.tx_packets"],
    },
    Driver {
        names: &["oce"],
        root: "dev.NAME.#",
        queues: ["stats.rx.queue#.rx_pkts", "stats.tx.queue#.tx_pkts"],
        port: ["stats.rx.total_pkts", "stats.tx.total_tx_pkts"],
    },
];

/// Words in names of counters of drops, and of pause frames.
const DROPS: &[&str] = &[
    "drop", "discard", "missed", "no_desc", "nobuf", "overrun", "rx_ovflw", "trunc",
];
const PAUSES: &[&str] = &["pause", "xon", "xoff"];

/// Returns the driver of an interface such as `ix0`, and the root of its sysctl tree.
fn of(interface: &str) -> Option<(&'static Driver, String)> {
    let digits = interface.find(|c: char| c.is_ascii_digit())?;
    let (name, number) = interface.split_at(digits);
    let number: u32 = number.parse().ok()?;
    let driver = DRIVERS.iter().find(|driver| driver.names.contains(&name))?;
    let root = driver
        .root
        .replace("NAME", name)
        .replace('#', &number.to_string());
    Some((driver, root))
}

/// Returns the sysctl tree that has an interface's counters; `None` for an unknown driver.
pub fn tree(interface: &str) -> Option<String> {
    of(interface).map(|(_, root)| root)
}

/// Parses the output of `sysctl TREE` for an interface: its packets by queue, and the counts of the
/// port.
pub fn statistics(interface: &str, text: &str) -> (Vec<QueueCount>, PortCount) {
    let mut port = PortCount::default();
    let mut queues: BTreeMap<(Way, u32), u64> = BTreeMap::new();
    let Some((driver, root)) = of(interface) else {
        return (Vec::new(), port);
    };
    for line in text.lines() {
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        let own = name
            .strip_prefix(&root)
            .and_then(|name| name.strip_prefix('.'));
        let (Some(own), Ok(value)) = (own, value.trim().parse::<u64>()) else {
            continue;
        };
        let [rx, tx] = driver.queues.map(|pattern| number(pattern, own));
        match (rx, tx) {
            (Some(queue), _) => drop(queues.insert((Way::Rx, queue), value)),
            (_, Some(queue)) => drop(queues.insert((Way::Tx, queue), value)),
            _ if own == driver.port[0] => port.rx_packets = value,
            _ if own == driver.port[1] => port.tx_packets = value,
            _ if value == 0 => {}
            _ if PAUSES.iter().any(|word| own.contains(word)) => {
                port.pauses.insert(own.to_owned(), value);
            }
            _ if DROPS.iter().any(|word| own.contains(word)) => {
                port.drops.insert(own.to_owned(), value);
            }
            _ => {}
        }
    }
    let of = |((way, queue), packets)| QueueCount {
        port: interface.to_owned(),
        way,
        queue,
        packets,
    };
    (queues.into_iter().map(of).collect(), port)
}

/// Returns the number in place of `#`.
fn number(pattern: &str, name: &str) -> Option<u32> {
    let (before, behind) = pattern.split_once('#')?;
    name.strip_prefix(before)?
        .strip_suffix(behind)?
        .parse()
        .ok()
}

/// Parses `kern.cp_times`: five numbers for each CPU: user, nice, system, interrupt, idle, in ticks
/// whose number per second is in `kern.clockrate` (`stathz`). Threads that forward count as
/// interrupt or system there.
fn cpus(times: &str, clockrate: &str) -> Vec<CpuTime> {
    let hz = clockrate.split_once("stathz = ").and_then(|(_, rest)| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok().filter(|hz| *hz > 0)
    });
    let Some(hz) = hz else { return Vec::new() };
    let numbers = times.trim().trim_start_matches("kern.cp_times:");
    let numbers: Vec<u64> = (numbers.split_whitespace())
        .map_while(|n| n.parse().ok())
        // our ticks have 10 ms
        .map(|ticks: u64| ticks * 100 / hz)
        .collect();
    let of = |(cpu, n): (u32, &[u64])| CpuTime {
        cpu,
        user_ticks: n[0] + n[1],
        system_ticks: n[2],
        irq_ticks: n[3],
        idle_ticks: n[4],
        ..CpuTime::default()
    };
    (0..).zip(numbers.chunks_exact(5)).map(of).collect()
}

/// Names of packets that were not forwarded, in the output of `netstat -s -p ip`.
const IP: &[&str] = &[
    "bad header checksum",
    "not forwardable",
    "dropped due to no bufs",
    "discarded due to no route",
    "fragments dropped",
    "can't be fragmented",
    "bad address in header",
    "unknown/unsupported protocol",
];

/// Parses counters of `netstat -s`: `ip:` alone on a line, then a count and its words.
fn ip(text: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut group = "";
    for line in text.lines() {
        if let Some(name) = line
            .strip_suffix(':')
            .filter(|name| !name.starts_with(char::is_whitespace))
        {
            group = name;
            continue;
        }
        let Some((count, words)) = line.trim().split_once(' ') else {
            continue;
        };
        if let (Ok(count), true) = (count.parse(), IP.iter().any(|known| words.contains(known))) {
            all.insert(format!("{group} {words}"), count);
        }
    }
    all
}

/// Parses the states of pf and their limit, as printed by `pfctl -si` and `pfctl -sm`, and what pf
/// dropped for lack of states.
fn pf(text: &str, into: &mut Reading) {
    let mut states = Size::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["current", "entries", count, ..] => states.value = count.parse().unwrap_or(0),
            ["states", "hard", "limit", count] => states.limit = count.parse().ok(),
            [
                what @ ("memory" | "state-limit" | "congestion" | "state-mismatch"),
                count,
                ..,
            ] => {
                if let Ok(count) = count.parse() {
                    into.drops.insert(format!("pf {what}"), count);
                }
            }
            _ => {}
        }
    }
    if states.limit.is_some() {
        into.sizes.insert("pf states".into(), states);
    }
}

/// Parses counters of interfaces, as printed by `netstat -ibdn --libxo json`.
fn links(text: &str) -> Option<BTreeMap<String, PortCount>> {
    let all: Value = serde_json::from_str(text.trim()).ok()?;
    let of = |one: &Value| {
        // for each interface only the line of its link, not those of its addresses
        let is_link = one.get("network")?.as_str()?.starts_with("<Link");
        let number = |name: &str| one.get(name).and_then(Value::as_u64).unwrap_or(0);
        let mut port = PortCount {
            rx_packets: number("received-packets"),
            rx_bytes: number("received-bytes"),
            tx_packets: number("sent-packets"),
            tx_bytes: number("sent-bytes"),
            ..PortCount::default()
        };
        for (name, own) in [
            ("received-errors", "rx_errors"),
            ("dropped-packets", "rx_dropped"),
            ("send-errors", "tx_errors"),
        ] {
            if number(name) > 0 {
                port.drops.insert(own.into(), number(name));
            }
        }
        let name = one.get("name")?.as_str()?.to_owned();
        is_link.then_some((name, port))
    };
    let all = all.get("statistics")?.get("interface")?.as_array()?;
    Some(all.iter().filter_map(of).collect())
}

/// Returns the `sh` script that reads a FreeBSD host, each part after a line with its name; missing
/// parts print nothing.
pub(super) fn script(ports: &[String], mark: &str) -> String {
    let mut text = String::from("exec 2>/dev/null\n");
    let trees = ports.iter().filter_map(|port| tree(port));
    for (name, command) in [
        ("clock", "sysctl kern.clockrate".to_owned()),
        ("times", "sysctl kern.cp_times".to_owned()),
        ("links", "netstat -ibdn --libxo json".to_owned()),
        ("ip", "netstat -s -p ip; netstat -s -p ip6".to_owned()),
        ("pf", "pfctl -si; pfctl -sm".to_owned()),
        (
            "trees",
            trees
                .map(|tree| format!("sysctl {tree}; "))
                .collect::<String>()
                + "true",
        ),
        ("temperature", "sysctl dev.cpu".to_owned()),
        ("end", "exit 0".to_owned()),
    ] {
        text.push_str(&format!("echo '{mark}{name}'\n{command}\n"));
    }
    text
}

/// Parses the answer of a FreeBSD host, whose parts are found by their names; `None` if it lacks
/// CPU times, whose ticks are the clock.
pub(super) fn understood(part: &dyn Fn(&str) -> String, ports: &[String]) -> Option<Reading> {
    let cpus = cpus(&part("times"), &part("clock"));
    let mut reading = Reading {
        uptime_s: cpus.first()?.total_ticks() as f64 / 100.0,
        cpus,
        drops: ip(&part("ip")),
        ..Reading::default()
    };
    pf(&part("pf"), &mut reading);
    match links(&part("links")) {
        Some(links) => reading.ports = links,
        None => drop(reading.missing.insert(
            "links".into(),
            "netstat prints no JSON: FreeBSD 11 and later do".into(),
        )),
    }
    let trees = part("trees");
    for port in ports {
        let (queues, of_driver) = statistics(port, &trees);
        let rx_queues = queues.iter().filter(|queue| queue.way == Way::Rx).count();
        if queues.is_empty() {
            let reason = "the tree of its driver is not known";
            reading
                .missing
                .insert(format!("queues of {port}"), reason.into());
        }
        let count = reading.ports.entry(port.clone()).or_default();
        count.drops.extend(of_driver.drops);
        count.pauses.extend(of_driver.pauses);
        count.driver = Some(
            port.trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned(),
        );
        count.rx_queues = (rx_queues > 0).then_some(rx_queues as u32);
        reading.queues.extend(queues);
    }
    for line in part("temperature").lines() {
        // `dev.cpu.0.temperature: 45.0C`
        if let Some((name, value)) = line.split_once(".temperature: ")
            && let Ok(celsius) = value.trim().trim_end_matches('C').parse()
        {
            reading.temperature_celsius.insert(name.to_owned(), celsius);
        }
    }
    reading.drops.retain(|_, count| *count > 0);
    Some(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns queues with their packets, and the counts of the port.
    fn parse_queues(interface: &str, text: &str) -> (Vec<(Way, u32, u64)>, u64, u64) {
        let (queues, port) = statistics(interface, text);
        let queues = queues.iter().map(|q| (q.way, q.queue, q.packets)).collect();
        (queues, port.rx_packets, port.tx_packets)
    }

    /// As in BSDRP's tool and the drivers' manuals.
    #[test]
    fn trees_of_all_drivers() {
        use Way::{Rx, Tx};
        for (interface, root, rx, tx, in_, out) in [
            (
                "cxl0",
                "dev.cxl.0",
                "rxq.3.rxcsum",
                "txq.3.txpkt_wrs",
                "stats.rx_frames",
                "stats.tx_frames",
            ),
            (
                "cc1",
                "dev.cc.1",
                "rxq.3.rxcsum",
                "txq.3.txpkt_wrs",
                "stats.rx_frames",
                "stats.tx_frames",
            ),
            (
                "ix1",
                "dev.ix.1",
                "queue3.rx_packets",
                "queue3.tx_packets",
                "mac_stats.total_pkts_rcvd",
                "mac_stats.total_pkts_txd",
            ),
            (
                "igb2",
                "dev.igb.2",
                "queue3.rx_packets",
                "queue3.tx_packets",
                "mac_stats.total_pkts_recvd",
                "mac_stats.total_pkts_txd",
            ),
            (
                "ixl0",
                "dev.ixl.0",
                "pf.que3.rx_packets",
                "pf.que3.tx_packets",
                "mac.ucast_pkts_rcvd",
                "mac.ucast_pkts_txd",
            ),
            (
                "bxe0",
                "dev.bxe.0",
                "queue.3.rx_pkts",
                "queue.3.tx_pkts",
                "rx_ucast_packets",
                "tx_ucast_packets",
            ),
            (
                "mce0",
                "dev.mce.0",
                "rxstat3.packets",
                "txstat3tc0.packets",
                "pstats.frames_rx",
                "pstats.frames_tx",
            ),
            (
                "mlxen1",
                "hw.mlxen1",
                "stat.rx_ring3.packets",
                "stat.tx_ring3.packets",
                "stat.rx_packets",
                "stat.tx_packets",
            ),
            (
                "oce0",
                "dev.oce.0",
                "stats.rx.queue3.rx_pkts",
                "stats.tx.queue3.tx_pkts",
                "stats.rx.total_pkts",
                "stats.tx.total_tx_pkts",
            ),
        ] {
            assert_eq!(tree(interface).as_deref(), Some(root));
            let text = format!(
                "{root}.%desc: a card: of somebody\n{root}.{rx}: 7\n{root}.{tx}: 5\n{root}.{in_}: 70\n{root}.{out}: 50\n{root}9.{rx}: 99\n"
            );
            let found = parse_queues(interface, &text);
            assert_eq!(found, (vec![(Rx, 3, 7), (Tx, 3, 5)], 70, 50), "{interface}");
        }
        assert_eq!(tree("em0"), None);
        assert_eq!(tree("eth0"), None);
        assert_eq!(tree("ix"), None);
    }

    #[test]
    fn drops_and_pauses() {
        let text = "dev.ix.0.mac_stats.rx_missed_packets: 12\ndev.ix.0.mac_stats.xoff_recvd: 3\ndev.ix.0.mac_stats.xon_txd: 0\n\
            dev.ix.0.queue0.rx_discarded: 4\ndev.ix.0.fc: 3\n";
        let (_, port) = statistics("ix0", text);
        assert_eq!(
            port.drops,
            [
                ("mac_stats.rx_missed_packets".into(), 12),
                ("queue0.rx_discarded".into(), 4)
            ]
            .into()
        );
        assert_eq!(port.pauses, [("mac_stats.xoff_recvd".into(), 3)].into());
    }

    #[test]
    fn the_time_of_each_cpu() {
        let clock = "kern.clockrate: { hz = 1000, tick = 1000, profhz = 8128, stathz = 127 }\n";
        let times = cpus("kern.cp_times: 0 0 0 0 127 127 254 0 1270 0\n", clock);
        assert_eq!(times.len(), 2);
        assert_eq!((times[0].cpu, times[0].idle_ticks), (0, 100), "a second");
        assert_eq!(
            (times[1].cpu, times[1].user_ticks, times[1].irq_ticks),
            (1, 300, 1000)
        );
        assert!(cpus("sysctl: unknown oid", clock).is_empty());
        assert!(cpus("kern.cp_times: 1 2 3 4 5", "").is_empty());
    }

    /// As in the manuals of the programs, shortened.
    #[test]
    fn a_recorded_host_is_parsed() {
        let part = |name: &str| -> String {
            match name {
                "clock" => "kern.clockrate: { hz = 1000, tick = 1000, profhz = 8128, stathz = 100 }\n",
                "times" => "kern.cp_times: 100 0 50 50 800\n",
                "links" => r#"{"statistics":{"interface":[{"name":"ix0","mtu":1500,"network":"<Link#1>","received-packets":70,"received-errors":2,
                    "dropped-packets":3,"received-bytes":4200,"sent-packets":50,"send-errors":0,"sent-bytes":3000},
                    {"name":"ix0","network":"198.18.0.0/24","received-packets":1}]}}"#,
                "ip" => "ip:\n\t900 total packets received\n\t4 packets not forwardable\n\t0 output packets discarded due to no route\nip6:\n\t5 packets not forwardable\n",
                "pf" => "Status: Enabled\n\nState Table                          Total             Rate\n  current entries                      950               \n  \
                    searches                          123456         1234.5/s\nCounters\n  match                               1000          100.0/s\n  memory                                12            0.1/s\n\
                    states        hard limit     1000\nsrc-nodes     hard limit    10000\n",
                "trees" => "dev.ix.0.queue0.rx_packets: 40\ndev.ix.0.queue1.rx_packets: 30\ndev.ix.0.mac_stats.rx_missed_packets: 9\n",
                "temperature" => "dev.cpu.0.temperature: 45.0C\ndev.cpu.0.freq: 2400\n",
                _ => "",
            }
            .to_owned()
        };
        let ports = ["ix0".to_owned()];
        let reading = understood(&part, &ports).unwrap();
        assert_eq!(reading.uptime_s, 10.0);
        let port = &reading.ports["ix0"];
        assert_eq!(
            (port.rx_packets, port.tx_bytes, port.rx_queues),
            (70, 3000, Some(2))
        );
        assert_eq!(port.drops.len(), 3, "{:?}", port.drops);
        assert_eq!(port.driver.as_deref(), Some("ix"));
        let drops: Vec<(&str, u64)> = reading
            .drops
            .iter()
            .map(|(n, c)| (n.as_str(), *c))
            .collect();
        assert_eq!(
            drops,
            [
                ("ip packets not forwardable", 4),
                ("ip6 packets not forwardable", 5),
                ("pf memory", 12)
            ]
        );
        let states = reading.sizes["pf states"];
        assert_eq!((states.value, states.limit), (950, Some(1000)));
        assert_eq!(reading.temperature_celsius["dev.cpu.0"], 45.0);
        assert!(reading.missing.is_empty(), "{:?}", reading.missing);
        assert_eq!(understood(&|_| String::new(), &ports), None);
        let text = script(&["ix0".into(), "em0".into()], "@@ ");
        assert!(
            text.contains("sysctl dev.ix.0") && !text.contains("dev.em"),
            "{text}"
        );
    }
}
