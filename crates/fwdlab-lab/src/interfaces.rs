//! Interfaces of a Linux host: their counters, whether they are up, and how often their links
//! changed.
//!
//! Reads texts of the kernel over any [`Host`]. Start with [`read_counters`].

use std::collections::BTreeMap;

use crate::error::LabError;
use crate::host::{Host, not_understood};

/// Counts of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets received and dropped.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that should have been sent and were dropped.
    pub tx_dropped: u64,
}

/// Reads the counters of all interfaces of a host.
pub(crate) fn read_counters(host: &dyn Host) -> Result<BTreeMap<String, Counted>, LabError> {
    let text = host.read("/proc/thread-self/net/dev")?;
    Ok(parse_net_dev(&String::from_utf8_lossy(&text)))
}

/// Returns the counters of one of them.
pub(crate) fn counters_of(
    table: &BTreeMap<String, Counted>,
    port: &str,
    host: &dyn Host,
) -> Result<Counted, LabError> {
    table.get(port).copied().ok_or_else(|| {
        let action = format!("read the counters of {port} in {}", host.name());
        LabError::system(action, std::io::ErrorKind::NotFound)
    })
}

/// Columns after the name: receive bytes packets errs drop fifo frame compressed multicast,
/// transmit the same way.
pub(crate) fn parse_net_dev(text: &str) -> BTreeMap<String, Counted> {
    text.lines()
        .filter_map(|line| {
            let (name, numbers) = line.split_once(':')?;
            let n: Vec<u64> = numbers
                .split_whitespace()
                .map_while(|n| n.parse().ok())
                .collect();
            let counted = Counted {
                rx_packets: *n.get(1)?,
                rx_dropped: *n.get(3)?,
                tx_packets: *n.get(9)?,
                tx_dropped: *n.get(11)?,
            };
            Some((name.trim().to_owned(), counted))
        })
        .collect()
}

/// Returns the ports of a host that are down or missing.
pub(crate) fn port_problems(host: &dyn Host, ports: &[String]) -> Result<Vec<String>, LabError> {
    let text = host.query("ip", &["-o", "link", "show"])?;
    let mut problem = Vec::new();
    for port in ports {
        // `2: tx0@if3: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu ...`
        let line = text.lines().find(|line| {
            let name = line.split(": ").nth(1).unwrap_or_default();
            name.split('@').next() == Some(port)
        });
        match line {
            None => problem.push(format!("{port} in {} is gone", host.name())),
            Some(line) if !line.contains("LOWER_UP") => {
                problem.push(format!("{port} in {} is down", host.name()));
            }
            Some(_) => {}
        }
    }
    Ok(problem)
}

/// Returns how often the links of these ports have changed so far, by `eth1 in HOST`.
pub(crate) fn link_changes(
    host: &dyn Host,
    ports: &[String],
) -> Result<BTreeMap<String, u64>, LabError> {
    #[derive(serde::Deserialize)]
    struct Link {
        ifname: String,
        stats64: Option<Stats>,
    }
    #[derive(serde::Deserialize)]
    struct Stats {
        tx: Sent,
    }
    #[derive(serde::Deserialize)]
    struct Sent {
        carrier_changes: Option<u64>,
    }
    let words = ["-json", "-s", "-s", "link", "show"];
    let output = host.query("ip", &words)?;
    let links: Vec<Link> = serde_json::from_str(&output)
        .map_err(|_| not_understood(host, &format!("ip {}", words.join(" ")), &output))?;
    let of_ours = links
        .into_iter()
        .filter(|link| ports.contains(&link.ifname));
    Ok(of_ours
        .filter_map(|link| {
            let changes = link.stats64?.tx.carrier_changes?;
            Some((format!("{} in {}", link.ifname, host.name()), changes))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_kernel_are_read_by_column() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
             tx0:      10       2    0    7    0     0          0         0 89294400 1488240    0 7252858    0     0       0          0\n    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n";
        let table = parse_net_dev(text);
        let expect = Counted {
            rx_packets: 2,
            rx_dropped: 7,
            tx_packets: 1_488_240,
            tx_dropped: 7_252_858,
        };
        assert_eq!(table["tx0"], expect);
        assert_eq!(table.len(), 2);
    }
}
