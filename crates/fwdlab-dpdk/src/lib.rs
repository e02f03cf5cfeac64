//! The engine for ports of DPDK: one more sender and receiver of `fwdlab_engine`, for a program
//! of its own, because DPDK cannot be in a static program.
//!
//! Which frames leave when, and what is counted and analysed, is code of the engine; this crate
//! adds how they get into DPDK's buffers and out of them. Empty without the feature `driver`, which
//! needs DPDK. Frames of a driver that counts none of those it sends are sent once it accepted
//! them. Start with `sender` and `receiver`.
#![cfg(feature = "driver")]

mod environment;
mod port;
mod rx;
mod sys;
mod tx;

use std::sync::Arc;

use fwdlab_engine::part::PortFacts;
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

/// A port that is open as long as this or a sender or receiver of it lives.
pub struct OpenPort(Arc<port::Port>);

impl OpenPort {
    /// Opens a port.
    ///
    /// # Errors
    /// If it is not the name of a DPDK port, there is no such device, or it cannot be set up.
    pub fn open(spec: &PortSpec) -> Result<OpenPort, EngineError> {
        Ok(OpenPort(port::open(spec)?))
    }

    /// Returns what it is and what it has counted.
    ///
    /// # Errors
    /// If its driver cannot tell.
    pub fn facts(&self) -> Result<PortFacts, EngineError> {
        let port = &self.0;
        let stats = port.stats()?;
        let link = port.device.link();
        let counters = port.device.counters();
        Ok(PortFacts {
            driver: port.info.driver(),
            version: version(),
            mac: port.info.mac,
            mtu: port.info.mtu.into(),
            has_link: link.is_some(),
            link_mbps: link.filter(|mbps| *mbps != u32::MAX),
            numa_node: port.info.numa_node(),
            queues: (port.receive_queues, port.send_queues()),
            sent: stats.sent,
            received: stats.received,
            missed: port.missed()?,
            counters: counters
                .map_err(|e| port.error(format!("cannot read the counters of its driver: {e}")))?,
        })
    }
}
