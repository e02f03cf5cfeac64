//! The packet receiver: counts our frames with a classic BPF filter; only needs a network namespace
//! that we own.
//!
//! The socket's buffer is as small as the kernel allows and is never read, so nearly every frame is
//! counted and dropped before anything is copied; `PACKET_STATISTICS` includes these frames. A
//! frame still goes up the stack of the receiving namespace, which costs CPU time: prefer
//! [`crate::xdp_count`]. Analyses read a capture of the port (`analyse.rs`). Start with
//! [`PacketCount`]; the filters are in `filter.rs`.

use std::os::fd::OwnedFd;

use fwdlab_packet::header::ipv6;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{RecvFlags, recv};

use super::analyse::Analysing;
use super::filter::{Age, filter, not_ours, reject_all};
use super::sys::{self, Instruction};
use crate::analysis::{Analysis, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::generator::Receiver;
use crate::port::{PortSpec, interface_index, within};
use crate::stamps::{Kind, Log, Offers, Origin};

/// All protocols: one socket for IPv4 and IPv6.
const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;

/// The receiver, with one socket for this trial's frames, one for late ones, and one for those that
/// a router sends on its own.
///
/// Counts what the kernel delivers to packet sockets: frames as they arrive, before any firewall,
/// and not those that an XDP program has taken. `foreign` counts IPv6 only (neighbour discovery,
/// multicast reports: what a DUT with static neighbours sends on its own), on a socket that IPv4
/// traffic never touches. `wrong_length` stays 0 without an analysis, because it would cost another
/// filter per frame. So does `dropped_by_receiver`, because the socket drops nearly every frame on
/// purpose, after counting it; with an analysis it is the number of frames of this trial that were
/// counted and not analysed. More than 2^32 frames between two readings are miscounted.
pub struct PacketCount {
    port: PortSpec,
    current: Counter,
    late: Counter,
    foreign: Counter,
    analysing: Option<Analysing>,
    /// The origin of individual arrivals, if they are requested.
    stamps: Option<Origin>,
}

impl PacketCount {
    /// Opens the sockets on a port. Counts nothing before [`Receiver::expect`].
    ///
    /// # Errors
    /// If the interface does not exist, or without CAP_NET_RAW in its namespace.
    pub fn open(port: &PortSpec) -> Result<Self, EngineError> {
        within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let counter = |protocol| {
                Counter::open(index, protocol).map_err(|e| {
                    EngineError::system(format!("count packets on {}", port.interface), e)
                })
            };
            Ok(PacketCount {
                port: port.clone(),
                current: counter(ETH_P_ALL)?,
                late: counter(ETH_P_ALL)?,
                foreign: counter(ipv6::ETHERTYPE)?,
                analysing: None,
                stamps: None,
            })
        })
    }
}

#[cfg(test)]
impl PacketCount {
    pub(super) fn analysing(&self) -> Option<&Analysing> {
        self.analysing.as_ref()
    }
}

impl Receiver for PacketCount {
    fn name(&self) -> &'static str {
        "af-packet"
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        // stop the thread of the previous trial first
        self.analysing = None;
        if expected.analysis.is_some() {
            self.analysing = Some(Analysing::start(
                self.name(),
                &self.port,
                expected,
                self.stamps,
            )?);
        }
        let Expected { nonce, place, .. } = *expected;
        self.current
            .restart(&filter(Age::Current, nonce, place))
            .and_then(|()| self.late.restart(&filter(Age::Late, nonce, place)))
            .and_then(|()| self.foreign.restart(&not_ours(nonce, place)))
            .map_err(|e| {
                EngineError::system(format!("expect a trial on {}", self.port.interface), e)
            })
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        let read = |counter: &mut Counter| {
            counter
                .read()
                .map_err(|e| EngineError::system("read the packet counters", e))
        };
        let mut counts = ReceiveCounts {
            received: read(&mut self.current)?,
            late: read(&mut self.late)?,
            foreign: read(&mut self.foreign)?,
            ..ReceiveCounts::default()
        };
        if let Some(analysing) = &mut self.analysing {
            analysing.complete(&mut counts)?;
        }
        Ok(counts)
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        let received = self
            .current
            .read()
            .map_err(|e| EngineError::system("read the packet counters", e))?;
        self.analysing
            .as_mut()
            .map(|analysing| analysing.read(received))
            .transpose()
    }

    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        let offers = Offers::query(&self.port)?;
        if let Some(reason) = offers.against_arrivals(kind) {
            return Err(EngineError::Unsupported {
                engine: self.name(),
                action: format!("provide {} timestamps: {reason}", kind.name()),
            });
        }
        self.stamps = match (kind, offers.clock) {
            (Kind::User, _) => None,
            (Kind::Hardware, Some(clock)) => Some(Origin::card(clock)),
            (Kind::Software | Kind::Hardware, _) => Some(Origin::ENTERING),
        };
        Ok(())
    }

    fn arrivals(&mut self) -> Option<Log> {
        self.analysing.as_mut()?.arrivals()
    }
}

/// A socket that counts what passes its filter.
struct Counter {
    socket: OwnedFd,
    frames: u64,
}

impl Counter {
    fn open(interface: u32, protocol: u16) -> std::io::Result<Counter> {
        let socket = sys::open()?;
        sys::ignore_outgoing(&socket)?;
        sys::attach_filter(&socket, &reject_all())?;
        set_socket_recv_buffer_size(&socket, 0)?;
        sys::bind(&socket, interface, protocol)?;
        Ok(Counter { socket, frames: 0 })
    }

    fn restart(&mut self, program: &[Instruction]) -> std::io::Result<()> {
        sys::attach_filter(&self.socket, program)?;
        self.read()?;
        self.frames = 0;
        Ok(())
    }

    fn read(&mut self) -> std::io::Result<u64> {
        self.frames += u64::from(sys::take_statistics(&self.socket)?);
        // Read the few frames that did fit: their memory may belong to the sender, which needs it
        // back at its end.
        while recv(&self.socket, &mut [0_u8; 1][..], RecvFlags::DONTWAIT).is_ok() {}
        Ok(self.frames)
    }
}
