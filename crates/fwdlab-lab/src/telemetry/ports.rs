//! Ports: counters of interfaces and their drivers, by queue if the driver has them, and drops and
//! pauses.
//!
//! The tables contain the drivers' names of counters, one row per form of a name. Pure functions of
//! texts. Start with [`links`] and [`statistics`].

use std::collections::BTreeMap;

use fwdlab_model::telemetry::{PortCount, QueueCount, Way};
use serde_json::Value;

/// Drivers' names of the packet counters of a queue, where `#` is its number. Several names of one
/// queue and direction add up.
const QUEUES: &[(&str, Way)] = &[
    // igb, ixgbe, ice, and virtio_net before kernel 6.10
    ("rx_queue_#_packets", Way::Rx),
    ("tx_queue_#_packets", Way::Tx),
    // i40e, and before kernel 4.20
    ("rx-#.packets", Way::Rx),
    ("tx-#.packets", Way::Tx),
    ("rx-#.rx_packets", Way::Rx),
    ("tx-#.tx_packets", Way::Tx),
    // mlx5, mlx4, and virtio_net
    ("rx#_packets", Way::Rx),
    ("tx#_packets", Way::Tx),
    // ena
    ("queue_#_rx_cnt", Way::Rx),
    ("queue_#_tx_cnt", Way::Tx),
    // bnxt
    ("[#]: rx_ucast_packets", Way::Rx),
    ("[#]: rx_mcast_packets", Way::Rx),
    ("[#]: rx_bcast_packets", Way::Rx),
    ("[#]: tx_ucast_packets", Way::Tx),
    ("[#]: tx_mcast_packets", Way::Tx),
    ("[#]: tx_bcast_packets", Way::Tx),
];

/// vmxnet3 prints a block for each queue: its number, and the counters of the queue.
const BLOCKS: &[(&str, Way)] = &[("Rx Queue#", Way::Rx), ("Tx Queue#", Way::Tx)];
const IN_BLOCKS: &[&str] = &[
    "ucast pkts rx",
    "mcast pkts rx",
    "bcast pkts rx",
    "ucast pkts tx",
    "mcast pkts tx",
    "bcast pkts tx",
];

/// Counter of veth, whose NAPI counts every packet as one for XDP, with or without a program.
/// (virtio_net uses this name, too, for packets that a program saw.) What a queue sends is counted
/// only for XDP, and so is not read.
const VETH_QUEUE: &str = "rx_queue_#_xdp_packets";

/// The counter that identifies a veth.
const VETH: &str = "peer_ifindex";

/// Words in names of counters of drops.
const DROPS: &[&str] = &[
    "drop",
    "discard",
    "missed",
    "no_buf",
    "nobuf",
    "no_dma_resources",
    "out_of_buffer",
    "fifo",
    "overrun",
    "over_errors",
    "allowance_exceeded",
];

/// Words in names of counters of pause frames, and in those that only look like it.
const PAUSES: &[&str] = &["pause", "xon", "xoff", "flow_control"];
const NO_PAUSES: &[&str] = &["duration", "transition", "storm", "watermark"];

/// Parses the output of `ethtool -S` for a port: its packets by queue, and its driver's counters of
/// drops and pauses that are not zero.
pub(super) fn statistics(port: &str, text: &str) -> (Vec<QueueCount>, PortCount) {
    let mut queues: BTreeMap<(Way, u32), u64> = BTreeMap::new();
    let mut count = PortCount::default();
    let lines = text.lines().filter_map(|line| {
        // bnxt's names contain colons
        let (name, value) = line.trim().rsplit_once(':')?;
        Some((name.trim(), value.trim().parse::<u64>().ok()?))
    });
    let lines: Vec<(&str, u64)> = lines.collect();
    let is_veth = lines.iter().any(|(name, _)| *name == VETH);
    let patterns = || {
        let veth = is_veth.then_some((VETH_QUEUE, Way::Rx));
        QUEUES.iter().copied().chain(veth)
    };
    let mut block = None;
    for (name, value) in lines {
        if let Some((_, way)) = BLOCKS.iter().find(|(begin, _)| *begin == name) {
            block = u32::try_from(value).ok().map(|queue| (*way, queue));
            continue;
        }
        let in_block = block.filter(|_| IN_BLOCKS.contains(&name));
        let queue = patterns().find_map(|(pattern, way)| Some((way, number(pattern, name)?)));
        if let Some(queue) = queue.or(in_block) {
            *queues.entry(queue).or_default() += value;
            continue;
        }
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if value == 0 {
            continue;
        }
        if has(PAUSES) && !has(NO_PAUSES) {
            *count.pauses.entry(name.to_owned()).or_default() += value;
        } else if has(DROPS) {
            *count.drops.entry(name.to_owned()).or_default() += value;
        }
    }
    count.driver = is_veth.then(|| "veth".to_owned());
    let queues = queues
        .into_iter()
        .map(|((way, queue), packets)| QueueCount {
            port: port.to_owned(),
            way,
            queue,
            packets,
        });
    (queues.collect(), count)
}

/// Returns the number in place of `#`.
fn number(pattern: &str, name: &str) -> Option<u32> {
    let (before, behind) = pattern.split_once('#')?;
    let number = name.strip_prefix(before)?.strip_suffix(behind)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().ok()).flatten()
}

/// Parses the output of `ip -s -s -j link show`: counters of all interfaces.
pub(super) fn links(text: &str) -> Result<BTreeMap<String, PortCount>, String> {
    let all: Vec<Value> = serde_json::from_str(text.trim()).map_err(|error| {
        format!("`ip -s -s -j link show` prints no JSON ({error}): use iproute2 of 2018 or later")
    })?;
    let of = |link: &Value| {
        let name = link.get("ifname")?.as_str()?.to_owned();
        let stats = link.get("stats64")?;
        let number = |way: &str, action: &str| stats.get(way)?.get(action)?.as_u64();
        let mut count = PortCount {
            rx_packets: number("rx", "packets")?,
            rx_bytes: number("rx", "bytes")?,
            tx_packets: number("tx", "packets")?,
            tx_bytes: number("tx", "bytes")?,
            ..PortCount::default()
        };
        for way in ["rx", "tx"] {
            let counters = stats.get(way).and_then(Value::as_object);
            for (action, value) in counters.into_iter().flatten() {
                // names with two words are parts of `errors`
                let is_drop = matches!(action.as_str(), "dropped" | "nohandler" | "errors")
                    || action.ends_with("_errors");
                if let Some(frames) = value.as_u64().filter(|frames| is_drop && *frames > 0) {
                    count.drops.insert(format!("{way}_{action}"), frames);
                }
            }
        }
        Some((name, count))
    };
    Ok(all.iter().filter_map(of).collect())
}

/// Adds other properties of a port: `/sys/class/net/eth0/device/numa_node:1`,
/// `/sys/class/net/eth0/device/msi_irqs/41:msix`, `/sys/class/net/eth0/device/uevent:DRIVER=ice`,
/// `queues:8`, `large-receive-offload: on`.
pub(super) fn describe(count: &mut PortCount, text: &str) {
    for line in text.lines() {
        let Some((action, value)) = line.rsplit_once(':') else {
            continue;
        };
        let value = value.trim();
        match action.trim().rsplit('/').next().unwrap_or_default() {
            "numa_node" => count.node = value.parse().ok(),
            "uevent" => {
                let driver = value.strip_prefix("DRIVER=").map(str::to_owned);
                count.driver = driver.or_else(|| count.driver.take());
            }
            "queues" => count.rx_queues = value.parse().ok(),
            "large-receive-offload" => {
                count.lro = value.split_whitespace().next().map(|state| state == "on");
            }
            number if action.contains("/msi_irqs/") => {
                count.interrupts.extend(number.parse::<u32>())
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Direction, number, packets.
    type Queue = (Way, u32, u64);

    /// Returns queues with their packets, and counters of drops and pauses.
    fn parse_counters(text: &str) -> (Vec<Queue>, Vec<String>, Vec<String>) {
        let (queues, count) = statistics("eth0", text);
        (
            queues.iter().map(|q| (q.way, q.queue, q.packets)).collect(),
            count
                .drops
                .into_iter()
                .map(|(name, n)| format!("{name} {n}"))
                .collect(),
            count
                .pauses
                .into_iter()
                .map(|(name, n)| format!("{name} {n}"))
                .collect(),
        )
    }

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// As printed in the drivers' documentation and in reports of users, shortened.
    #[test]
    fn queues_of_the_common_drivers() {
        use Way::{Rx, Tx};
        let i40e = "NIC statistics:\n     rx_packets: 33\n     port.rx_dropped: 4\n     port.link_xon_rx: 2\n     \
            tx-0.packets: 5\n     tx-0.bytes: 500\n     rx-0.packets: 7\n     rx-0.bytes: 700\n     tx-11.packets: 6\n     rx-11.packets: 8\n";
        assert_eq!(
            parse_counters(i40e).0,
            [(Rx, 0, 7), (Rx, 11, 8), (Tx, 0, 5), (Tx, 11, 6)]
        );
        assert_eq!(parse_counters(i40e).1, ["port.rx_dropped 4"]);
        assert_eq!(parse_counters(i40e).2, ["port.link_xon_rx 2"]);
        let i40e_of_old =
            "     tx-0.tx_packets: 5\n     rx-0.rx_packets: 7\n     rx-0.rx_bytes: 700\n";
        assert_eq!(parse_counters(i40e_of_old).0, [(Rx, 0, 7), (Tx, 0, 5)]);

        let ixgbe = "     rx_missed_errors: 12\n     rx_no_dma_resources: 3\n     tx_flow_control_xoff: 9\n     \
            tx_queue_0_packets: 1\n     tx_queue_0_bytes: 60\n     rx_queue_0_packets: 2\n     rx_queue_1_packets: 4\n";
        assert_eq!(
            parse_counters(ixgbe).0,
            [(Rx, 0, 2), (Rx, 1, 4), (Tx, 0, 1)]
        );
        assert_eq!(
            parse_counters(ixgbe).1,
            ["rx_missed_errors 12", "rx_no_dma_resources 3"]
        );
        assert_eq!(parse_counters(ixgbe).2, ["tx_flow_control_xoff 9"]);

        let igb = "     rx_no_buffer_count: 5\n     rx_queue_0_packets: 2\n     rx_queue_0_drops: 1\n     rx_queue_0_csum_err: 0\n";
        assert_eq!(parse_counters(igb).0, [(Rx, 0, 2)]);
        assert_eq!(
            parse_counters(igb).1,
            ["rx_no_buffer_count 5", "rx_queue_0_drops 1"]
        );

        let ice = "     rx_queue_63_packets: 2\n     tx_queue_63_packets: 3\n     rx_dropped.nic: 8\n     link_xoff_rx.nic: 1\n     \
            mac_local_faults.nic: 1\n";
        assert_eq!(parse_counters(ice).0, [(Rx, 63, 2), (Tx, 63, 3)]);
        assert_eq!(
            (parse_counters(ice).1, parse_counters(ice).2),
            (list(&["rx_dropped.nic 8"]), list(&["link_xoff_rx.nic 1"]))
        );

        let mlx5 = "     rx_packets: 9\n     rx_out_of_buffer: 6\n     rx_discards_phy: 4\n     rx_pause_ctrl_phy: 2\n     \
            rx_prio0_pause_duration: 77\n     tx_pause_storm_warning_events: 1\n     rx0_packets: 5\n     rx0_xdp_drop: 0\n     tx0_packets: 3\n     rx23_packets: 4\n";
        assert_eq!(
            parse_counters(mlx5).0,
            [(Rx, 0, 5), (Rx, 23, 4), (Tx, 0, 3)]
        );
        assert_eq!(
            parse_counters(mlx5).1,
            ["rx_discards_phy 4", "rx_out_of_buffer 6"]
        );
        assert_eq!(parse_counters(mlx5).2, ["rx_pause_ctrl_phy 2"]);

        let ena = "     pps_allowance_exceeded: 40\n     queue_0_tx_cnt: 10\n     queue_0_tx_bytes: 1\n     queue_0_rx_cnt: 11\n     \
            queue_0_rx_rx_drops: 2\n     queue_7_rx_cnt: 12\n";
        assert_eq!(
            parse_counters(ena).0,
            [(Rx, 0, 11), (Rx, 7, 12), (Tx, 0, 10)]
        );
        assert_eq!(
            parse_counters(ena).1,
            ["pps_allowance_exceeded 40", "queue_0_rx_rx_drops 2"]
        );

        let virtio = "     rx_queue_0_packets: 4\n     rx_queue_0_xdp_packets: 4\n     tx_queue_0_packets: 2\n";
        assert_eq!(
            parse_counters(virtio).0,
            [(Rx, 0, 4), (Tx, 0, 2)],
            "what XDP saw is not counted twice"
        );
        let virtio = "     rx0_packets: 4\n     rx0_drops: 0\n     rx0_xdp_packets: 4\n     tx0_packets: 2\n";
        assert_eq!(parse_counters(virtio).0, [(Rx, 0, 4), (Tx, 0, 2)]);

        let veth = "     peer_ifindex: 2\n     rx_queue_0_xdp_packets: 7\n     rx_queue_0_drops: 3\n     rx_queue_1_xdp_packets: 8\n     \
            tx_queue_0_xdp_xmit: 0\n     tx_queue_0_xdp_xmit_errors: 0\n";
        assert_eq!(parse_counters(veth).0, [(Rx, 0, 7), (Rx, 1, 8)]);
        assert_eq!(parse_counters(veth).1, ["rx_queue_0_drops 3"]);
        assert_eq!(statistics("eth0", veth).1.driver.as_deref(), Some("veth"));

        let bnxt = "     [0]: rx_ucast_packets: 5\n     [0]: rx_mcast_packets: 1\n     [0]: rx_bcast_packets: 2\n     [0]: rx_discards: 3\n     \
            [0]: tx_ucast_packets: 9\n     [1]: rx_ucast_packets: 4\n     rx_pause_frames: 6\n";
        assert_eq!(parse_counters(bnxt).0, [(Rx, 0, 8), (Rx, 1, 4), (Tx, 0, 9)]);
        assert_eq!(parse_counters(bnxt).1, ["[0]: rx_discards 3"]);
        assert_eq!(parse_counters(bnxt).2, ["rx_pause_frames 6"]);

        assert!(parse_counters("no stats available\n").0.is_empty());
        assert!(parse_counters("\u{fffd} 17: eth\n\n: :\n").0.is_empty());
    }

    #[test]
    fn counters_of_links() {
        let text = r#"[{"ifindex":2,"ifname":"eth0","stats64":{"rx":{"bytes":90,"packets":1,"errors":2,"dropped":3,"over_errors":0,"missed_errors":4},
            "tx":{"bytes":60,"packets":5,"errors":0,"dropped":7,"carrier_changes":2}}},{"ifname":"half","stats64":{}}]"#;
        let all = links(text).unwrap();
        let port = &all["eth0"];
        assert_eq!(
            (
                port.rx_packets,
                port.rx_bytes,
                port.tx_packets,
                port.tx_bytes
            ),
            (1, 90, 5, 60)
        );
        let drops: Vec<(&str, u64)> = port.drops.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(
            drops,
            [
                ("rx_dropped", 3),
                ("rx_errors", 2),
                ("rx_missed_errors", 4),
                ("tx_dropped", 7)
            ]
        );
        assert_eq!(all.len(), 1);
        assert!(links("2: eth0: <UP>").unwrap_err().contains("iproute2"));
    }

    #[test]
    fn port_properties_are_parsed() {
        let mut port = PortCount::default();
        describe(
            &mut port,
            "/sys/class/net/eth0/device/numa_node:1\n/sys/class/net/eth0/device/uevent:DRIVER=ice\n/sys/class/net/eth0/device/uevent:PCI_SLOT_NAME=0000:01:00.0\nqueues:8\nlarge-receive-offload: on [fixed]\n",
        );
        assert_eq!(
            (port.node, port.rx_queues, port.lro),
            (Some(1), Some(8), Some(true))
        );
        assert_eq!(port.driver.as_deref(), Some("ice"));
        let mut veth = PortCount {
            driver: Some("veth".into()),
            ..PortCount::default()
        };
        describe(
            &mut veth,
            "/sys/class/net/eth0/device/numa_node:-1\nlarge-receive-offload: off [fixed]\n",
        );
        assert_eq!((veth.node, veth.lro), (None, Some(false)), "-1 is no node");
        assert_eq!(veth.driver.as_deref(), Some("veth"));
    }
}
