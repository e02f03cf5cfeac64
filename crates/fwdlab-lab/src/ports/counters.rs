//! The kernel's counters of a port: all frames on the wire, from any sender.
//!
//! They are read in the port's namespace at any time, and not judged here. Start with [`read`].

use std::fs;

use fwdlab_engine::PortSpec;

use crate::error::LabError;

/// Counters of an interface since it came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that arrived.
    pub rx_packets: u64,
    /// Their bytes without FCS.
    pub rx_bytes: u64,
    /// Frames that arrived and were dropped.
    pub rx_dropped: u64,
    /// Frames that left.
    pub tx_packets: u64,
    /// Their bytes without FCS.
    pub tx_bytes: u64,
    /// Frames that should have left and were dropped by the port.
    pub tx_dropped: u64,
}

impl Counters {
    /// Returns the difference to an earlier reading.
    pub fn since(self, before: Counters) -> Counters {
        Counters {
            rx_packets: self.rx_packets.wrapping_sub(before.rx_packets),
            rx_bytes: self.rx_bytes.wrapping_sub(before.rx_bytes),
            rx_dropped: self.rx_dropped.wrapping_sub(before.rx_dropped),
            tx_packets: self.tx_packets.wrapping_sub(before.tx_packets),
            tx_bytes: self.tx_bytes.wrapping_sub(before.tx_bytes),
            tx_dropped: self.tx_dropped.wrapping_sub(before.tx_dropped),
        }
    }
}

/// Reads the counters of a port.
///
/// # Errors
/// Fails if the namespace or the interface is gone.
pub fn read(spec: &PortSpec) -> Result<Counters, LabError> {
    let action = || format!("read the counters of {}", spec.interface);
    super::interface_facts::within(&spec.netns, || {
        let text = fs::read_to_string("/proc/thread-self/net/dev")
            .map_err(|e| LabError::system(action(), e))?;
        parse_interface(&text, &spec.interface).ok_or_else(|| {
            let gone = std::io::Error::new(std::io::ErrorKind::NotFound, "the interface is gone");
            LabError::system(action(), gone)
        })
    })
}

/// Names of all kernel counters of an interface, as in `ip -s -s link`; the same for all
/// interfaces.
pub const NAMES: [&str; 16] = [
    "rx_bytes",
    "rx_packets",
    "rx_errors",
    "rx_dropped",
    "rx_fifo_errors",
    "rx_frame_errors",
    "rx_compressed",
    "rx_multicast",
    "tx_bytes",
    "tx_packets",
    "tx_errors",
    "tx_dropped",
    "tx_fifo_errors",
    "tx_collisions",
    "tx_carrier_errors",
    "tx_compressed",
];

/// Reads all of [`NAMES`], in their order.
///
/// # Errors
/// Fails if the namespace or the interface is gone.
pub fn all(spec: &PortSpec) -> Result<Vec<u64>, LabError> {
    let action = || format!("read the counters of {}", spec.interface);
    super::interface_facts::within(&spec.netns, || {
        let text = fs::read_to_string("/proc/thread-self/net/dev")
            .map_err(|e| LabError::system(action(), e))?;
        numbers(&text, &spec.interface).ok_or_else(|| {
            let gone = std::io::Error::new(std::io::ErrorKind::NotFound, "the interface is gone");
            LabError::system(action(), gone)
        })
    })
}

fn numbers(text: &str, name: &str) -> Option<Vec<u64>> {
    let (_, numbers) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(interface, _)| interface.trim() == name)?;
    Some(
        numbers
            .split_whitespace()
            .map_while(|n| n.parse().ok())
            .collect(),
    )
}

/// Columns after the name: receive bytes packets errs drop fifo frame compressed multicast,
/// transmit the same way.
fn parse_interface(text: &str, name: &str) -> Option<Counters> {
    let n = numbers(text, name)?;
    Some(Counters {
        rx_bytes: *n.first()?,
        rx_packets: *n.get(1)?,
        rx_dropped: *n.get(3)?,
        tx_bytes: *n.get(8)?,
        tx_packets: *n.get(9)?,
        tx_dropped: *n.get(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let text = "Inter-|   Receive                                                |  Transmit\n face |bytes\n\
            tx0:      10       2    0    7    0     0          0         0 89294400 1488240    0 7252858    0     0       0          0\n";
        let expected = Counters {
            rx_bytes: 10,
            rx_packets: 2,
            rx_dropped: 7,
            tx_bytes: 89_294_400,
            tx_packets: 1_488_240,
            tx_dropped: 7_252_858,
        };
        assert_eq!(parse_interface(text, "tx0"), Some(expected));
        assert_eq!(parse_interface(text, "x0"), None);
        assert_eq!(expected.since(expected), Counters::default());
    }
}
