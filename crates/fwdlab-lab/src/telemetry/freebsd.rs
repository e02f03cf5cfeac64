//! FreeBSD's counters of network cards: their sysctl trees, driver by driver.
//!
//! The names are those of the drivers' manuals and of BSDRP's `nic-queue-usage`. cxl counts what its checksums were verified of, ixl and
//! bxe only unicast. Functions of texts. Start with [`tree`] and [`statistics`].

use std::collections::BTreeMap;

use fwdlab_model::telemetry::{CpuTime, PortCount, QueueCount, Way};

/// A driver: its root, `#` being the number of the interface; what it calls the packets of a queue, `#` being that of the queue, in and
/// out; and those of the port, in and out.
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

/// Words in names of counters of what was dropped, and of pause frames.
const DROPS: &[&str] = &[
    "drop", "discard", "missed", "no_desc", "nobuf", "overrun", "rx_ovflw", "trunc",
];
const PAUSES: &[&str] = &["pause", "xon", "xoff"];

/// The driver of an interface, and its number: `ix0`.
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

/// The sysctl tree that has an interface's counters; `None` for a driver that is not known here.
pub fn tree(interface: &str) -> Option<String> {
    of(interface).map(|(_, root)| root)
}

/// What `sysctl TREE` prints of an interface: its packets by queue, and what the port counted.
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

/// The number for which `#` stands.
fn number(pattern: &str, name: &str) -> Option<u32> {
    let (before, behind) = pattern.split_once('#')?;
    name.strip_prefix(before)?
        .strip_suffix(behind)?
        .parse()
        .ok()
}

/// `kern.cp_times`: five numbers for each CPU: user, nice, system, interrupt, idle, in ticks of `kern.clockrate`'s `stathz`. Threads that
/// forward are interrupts there.
pub fn cpus(text: &str) -> Vec<CpuTime> {
    let numbers = text.trim().trim_start_matches("kern.cp_times:");
    let numbers: Vec<u64> = (numbers.split_whitespace())
        .map_while(|n| n.parse().ok())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues with their packets, and what the port counted.
    fn said(interface: &str, text: &str) -> (Vec<(Way, u32, u64)>, u64, u64) {
        let (queues, port) = statistics(interface, text);
        let queues = queues.iter().map(|q| (q.way, q.queue, q.packets)).collect();
        (queues, port.rx_packets, port.tx_packets)
    }

    /// As BSDRP's tool and the drivers' manuals have them.
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
            let found = said(interface, &text);
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
        let times = cpus("kern.cp_times: 1 2 3 4 5 10 20 30 40 50\n");
        assert_eq!(times.len(), 2);
        assert_eq!(
            (
                times[1].cpu,
                times[1].user_ticks,
                times[1].irq_ticks,
                times[1].idle_ticks
            ),
            (1, 30, 40, 50)
        );
        assert!(cpus("sysctl: unknown oid").is_empty());
    }
}
