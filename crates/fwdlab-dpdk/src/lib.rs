//! The engine for ports of DPDK: one more sender and receiver of [`fwdlab_engine`], for a program
//! of its own, because DPDK cannot be in a static program.
//!
//! Which frames leave when, and what is counted and analysed, is code of the engine; this crate
//! adds how they get into DPDK's buffers and out of them. Empty without the feature `driver`, which
//! needs DPDK. Frames of a driver that counts none of those it sends are sent once it accepted
//! them. Start with [`sender`] and [`receiver`].
#![cfg(feature = "driver")]

mod environment;
mod port;
mod rx;
mod sys;
mod tx;

use fwdlab_engine::{EngineError, PortSpec, Receiver, Sender};

/// Returns the version of the DPDK that this process runs with.
pub fn version() -> String {
    sys::version()
}

/// Opens a sender into these ports, one for each path, with this number of threads, each of which
/// has a queue of each port. A port has one sender at a time.
///
/// # Errors
/// If a port cannot be opened, has a sender, or has fewer queues.
pub fn sender(
    ports: &[PortSpec],
    cpus: &[usize],
    senders: u32,
) -> Result<Box<dyn Sender>, EngineError> {
    Ok(Box::new(tx::sender(ports, cpus, senders)?))
}

/// Opens a receiver on this port, whose thread runs on these CPUs; empty: any. A port has one
/// receiver at a time.
///
/// # Errors
/// If it cannot be opened, or has a receiver.
pub fn receiver(port: &PortSpec, cpus: &[usize]) -> Result<Box<dyn Receiver>, EngineError> {
    Ok(Box::new(rx::receiver(port, cpus)?))
}

/// The properties of a port, and its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its driver.
    pub driver: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The longest frame that it takes, without headers.
    pub mtu: u16,
    /// True if it has a link.
    pub link_up: bool,
    /// Speed of the link in Mbit/s, if there is one and the driver knows it.
    pub link_mbps: Option<u32>,
    /// The NUMA node of its device, if it has one.
    pub numa_node: Option<u32>,
    /// Its receive queues in use.
    pub rx_queues: u16,
    /// The queues that senders can use: the most threads that send into it.
    pub tx_queues: u16,
    /// The driver's own counters with their names.
    pub counters: Vec<(String, u64)>,
    /// Frames that it sent, by the driver.
    pub sent: u64,
    /// Frames that it received, by the driver.
    pub received: u64,
    /// Frames that it lost since its receiver expects frames: none of its descriptors or buffers
    /// was free, or they were damaged. The tester lost them, and not a device under test.
    pub missed: u64,
}

/// Opens a port and returns what it is and what it counts. If nobody else has it open, it is given
/// back then.
///
/// # Errors
/// If it cannot be opened or read.
pub fn facts(spec: &PortSpec) -> Result<Facts, EngineError> {
    let port = port::open(spec)?;
    let stats = port.stats()?;
    let link = port.device.link();
    let counters = port.device.counters();
    Ok(Facts {
        driver: port.info.driver(),
        mac: port.info.mac,
        mtu: port.info.mtu,
        link_up: link.is_some(),
        link_mbps: link.filter(|mbps| *mbps != u32::MAX),
        numa_node: port.info.numa_node(),
        rx_queues: port.receive_queues,
        tx_queues: port.send_queues(),
        counters: counters
            .map_err(|e| port.error(format!("cannot read the counters of its driver: {e}")))?,
        sent: stats.sent,
        received: stats.received,
        missed: port.missed()?,
    })
}
