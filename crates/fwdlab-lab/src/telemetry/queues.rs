//! The live view of a port's queues: packets of each in the last second, and of the port itself, in
//! and out.
//!
//! Over any host: `ethtool -S` and the interface's own counters on Linux, the driver's sysctl tree
//! on FreeBSD. It sends nothing and changes nothing. Start with [`read_counters`] and [`rates`].

use std::time::Instant;

use fwdlab_model::telemetry::{QueueCount, Way};

use super::{freebsd, ports};
use crate::error::LabError;
use crate::host::{Command, Host, Limit, quoted};

/// Counters of a port at a moment.
#[derive(Debug, Clone)]
pub struct PortReading {
    /// When the counters were read, by our clock.
    at: Instant,
    queues: Vec<QueueCount>,
    rx_packets: u64,
    tx_packets: u64,
}

/// Packets between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Time between them in seconds.
    pub seconds: f64,
    /// Number and packets of each receive queue.
    pub rx_queues: Vec<(u32, u64)>,
    /// Number and packets of each transmit queue, if the driver counts them.
    pub tx_queues: Vec<(u32, u64)>,
    /// Packets received by the port.
    pub rx_packets: u64,
    /// Packets sent by it.
    pub tx_packets: u64,
}

impl Rates {
    /// Returns the packets of all receive queues.
    pub fn rx_of_queues(&self) -> u64 {
        self.rx_queues.iter().map(|(_, packets)| packets).sum()
    }

    /// Converts a number of packets to packets per second.
    pub fn pps(&self, packets: u64) -> f64 {
        packets as f64 / self.seconds
    }
}

/// Reads the counters of a port once.
///
/// # Errors
/// Fails if there is no such port, if it cannot be read, or if its driver does not count packets by
/// queue.
pub fn read_counters(host: &dyn Host, port: &str) -> Result<PortReading, LabError> {
    let (name, text) = (quoted(port), freebsd::tree(port));
    let text = match &text {
        Some(tree) => format!("sysctl {tree}"),
        None => format!("ethtool -S {name} && cat /proc/net/dev"),
    };
    let output = host.run(&Command::shell(&text), Limit::OURS)?;
    let at = Instant::now();
    let printed = String::from_utf8_lossy(&output.stdout);
    let (queues, rx_packets, tx_packets) = match freebsd::tree(port) {
        Some(_) => {
            let (queues, count) = freebsd::statistics(port, &printed);
            (queues, count.rx_packets, count.tx_packets)
        }
        None => {
            let table = crate::interfaces::parse_net_dev(&printed);
            let count = crate::interfaces::counters_of(&table, port, host)?;
            let (queues, _) = ports::statistics(port, &printed);
            (queues, count.rx_packets, count.tx_packets)
        }
    };
    if queues.is_empty() {
        return Err(LabError::Preflight(format!(
            "no counters for the queues of {port} on {}: `{text}` has no packets per queue under a known name. Its driver may not count \
             them; docs/reference/telemetry.md lists those that do",
            host.name()
        )));
    }
    Ok(PortReading {
        at,
        queues,
        rx_packets,
        tx_packets,
    })
}

/// Returns the packets between two readings.
pub fn rates(before: &PortReading, after: &PortReading) -> Rates {
    let all = fwdlab_measure::telemetry::queues(&before.queues, &after.queues);
    let of = |way: Way| {
        let own = all.iter().filter(|queue| queue.way == way);
        own.map(|queue| (queue.queue, queue.packets)).collect()
    };
    Rates {
        seconds: (after.at - before.at).as_secs_f64(),
        rx_queues: of(Way::Rx),
        tx_queues: of(Way::Tx),
        rx_packets: after.rx_packets.saturating_sub(before.rx_packets),
        tx_packets: after.tx_packets.saturating_sub(before.tx_packets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scripted::Scripted;

    #[test]
    fn ports_of_both_systems() {
        let linux = Scripted::new(|action, _| {
            assert!(action.contains("ethtool -S eth1"), "{action}");
            "NIC statistics:\n rx_queue_0_packets: 7\n tx_queue_0_packets: 5\nInter-|   Receive\n  eth1: 900 9 0 0 0 0 0 0 800 8 0 0 0 0 0 0\n".into()
        });
        let one = read_counters(&linux, "eth1").unwrap();
        assert_eq!(
            (one.queues.len(), one.rx_packets, one.tx_packets),
            (2, 9, 8)
        );
        let freebsd = Scripted::new(|action, _| {
            assert!(action.contains("sysctl dev.ix.0"), "{action}");
            "dev.ix.0.queue0.rx_packets: 7\ndev.ix.0.mac_stats.total_pkts_rcvd: 70\n".into()
        });
        let one = read_counters(&freebsd, "ix0").unwrap();
        assert_eq!((one.queues[0].packets, one.rx_packets), (7, 70));
        let later = PortReading {
            queues: vec![QueueCount {
                packets: 10,
                ..one.queues[0].clone()
            }],
            rx_packets: 71,
            ..one.clone()
        };
        let rates = rates(&one, &later);
        assert_eq!((rates.rx_queues, rates.rx_packets), (vec![(0, 3)], 1));
    }

    #[test]
    fn a_driver_without_queues_and_a_missing_port() {
        let host = Scripted::new(|_, _| "  eth1: 900 9 0 0 0 0 0 0 800 8 0 0 0 0 0 0\n".into());
        let error = read_counters(&host, "eth1").unwrap_err().to_string();
        assert!(
            error.contains("queues of eth1 on router1")
                && error.contains("docs/reference/telemetry.md"),
            "{error}"
        );
        let error = read_counters(&host, "eth2").unwrap_err().to_string();
        assert!(error.contains("eth2"), "{error}");
    }
}
