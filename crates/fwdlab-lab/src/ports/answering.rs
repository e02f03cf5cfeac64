//! Answers ARP and neighbour discovery: a port that receives test frames is their sender's next
//! hop, whose MAC address the sender asks for. A port of a test bed asks for that of the DUT, too.
//!
//! Answers only for addresses reserved for benchmarks and documentation, which tests use by
//! default, and for the next hop of a test bed. The kernel keeps its tables, and a host that checks
//! whether an address is free gets no answer. Start with [`Answering::start`].

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fwdlab_engine::PortSpec;
use fwdlab_engine::af_packet::SinglePort;
use fwdlab_engine::resolve::{reply, resolve};

use super::Port;
use super::destinations::is_for_tests;
use crate::error::LabError;
use crate::networks::Side;

/// Interval at which the thread checks whether it should stop.
const SLICE: Duration = Duration::from_millis(50);

/// A thread that answers ARP and neighbour solicitations on a port until this is dropped.
#[derive(Debug)]
pub struct Answering {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Answers for all addresses of tests with the port's own MAC address. A port without one does
    /// not answer.
    ///
    /// # Errors
    /// Fails if the port cannot be opened.
    pub fn start(port: &Port) -> Result<Answering, LabError> {
        match port.facts.mac {
            Some(ours) => Answering::with(&port.spec, ours, is_for_tests),
            None => Ok(Answering {
                stop: Arc::default(),
                thread: None,
            }),
        }
    }

    /// Answers the DUT on a link of a test bed: for its next hop, and for all addresses of tests
    /// but the DUT's own.
    ///
    /// # Errors
    /// As [`start`](Answering::start).
    pub(crate) fn to_dut(port: &PortSpec, side: Side) -> Result<Answering, LabError> {
        let own: [IpAddr; 2] = [side.ipv4.dut.into(), side.ipv6.dut.into()];
        let next_hops: [IpAddr; 2] = [side.ipv4.next_hop.into(), side.ipv6.next_hop.into()];
        let is_ours = move |address| {
            next_hops.contains(&address) || is_for_tests(address) && !own.contains(&address)
        };
        Answering::with(port, side.tester_mac, is_ours)
    }

    fn with(
        port: &PortSpec,
        ours: [u8; 6],
        is_ours: impl Fn(IpAddr) -> bool + Send + 'static,
    ) -> Result<Answering, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let single = SinglePort::open_for_questions(port)?;
        let until = stop.clone();
        let work = move || {
            let mut buffer = [0; 128];
            while !until.load(Ordering::Relaxed) {
                // senders and receivers report a port that is gone
                let Ok(len) = single.receive(&mut buffer, SLICE) else {
                    return;
                };
                let question = len.and_then(|len| buffer.get(..len));
                if let Some(answer) = question.and_then(|frame| reply(frame, ours, &is_ours)) {
                    let _ = single.send(&answer);
                }
            }
        };
        let thread = thread::Builder::new()
            .name("fwdlab-answer".into())
            .spawn(work)
            .map_err(|e| LabError::system("start the thread that answers ARP", e))?;
        Ok(Answering {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Asks for the MAC address of the DUT's port, by its IPv4 address and then by its IPv6 address;
/// `None` if it does not answer.
///
/// # Errors
/// Fails if the port cannot be used.
pub(crate) fn mac_of_dut(port: &PortSpec, side: &Side) -> Result<Option<[u8; 6]>, LabError> {
    let ask = |source, target| resolve(port, side.tester_mac, source, target);
    let found = ask(side.ipv4.next_hop.into(), side.ipv4.dut.into())?;
    Ok(match found {
        Some(mac) => Some(mac),
        None => ask(side.ipv6.next_hop.into(), side.ipv6.dut.into())?,
    })
}
