//! The receiver of lowest cost: an XDP program that counts our frames at the driver and drops them there.
//!
//! It runs where the port's NAPI runs; on veth, unless told otherwise, that is the CPU of the DUT. Dropping the value
//! detaches the program, and so does the end of the process. Needs CAP_BPF and CAP_NET_ADMIN.

mod sys;

use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::{Xdp, xdp::XdpMode};

use self::sys::{Counters, Expect};
use crate::analysis::Analysis;
use crate::error::EngineError;
use crate::generator::{Expected, ReceiveCounts, Receiver};
use crate::port::{PortSpec, interface_index, within};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/count.o"));

/// The receiver.
pub struct XdpCount {
    expect: Array<MapData, Expect>,
    counters: PerCpuArray<MapData, Counters>,
    base: ReceiveCounts,
    _attached: Ebpf,
}

impl XdpCount {
    /// Attaches the counter to a port, in the driver.
    ///
    /// # Errors
    /// No privileges, a driver without XDP, or a program that is attached already.
    pub fn open(port: &PortSpec) -> Result<Self, EngineError> {
        let what = format!("count with XDP on {}", port.interface);
        within(&port.netns, || {
            let mut programs = attach(&port.interface, "count", &what)?;
            let missing = || EngineError::Frames("the object lacks a map".into());
            let expect = programs.take_map("expect").ok_or_else(missing)?;
            let counters = programs.take_map("counters").ok_or_else(missing)?;
            Ok(XdpCount {
                expect: Array::try_from(expect).map_err(|e| EngineError::bpf(&*what, &e))?,
                counters: PerCpuArray::try_from(counters)
                    .map_err(|e| EngineError::bpf(&*what, &e))?,
                base: ReceiveCounts::default(),
                _attached: programs,
            })
        })
    }

    fn read(&self) -> Result<ReceiveCounts, EngineError> {
        let per_cpu = self
            .counters
            .get(&0, 0)
            .map_err(|e| EngineError::bpf("read the receiver's counters", &e))?;
        let mut sum = ReceiveCounts::default();
        for counters in per_cpu.iter() {
            sum.received += counters.received;
            sum.wrong_length += counters.wrong_length;
            sum.late += counters.late;
            sum.foreign += counters.foreign;
        }
        Ok(sum)
    }
}

impl Receiver for XdpCount {
    fn name(&self) -> &'static str {
        "xdp"
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        let expect = Expect {
            nonce: expected.udp_payload(self.name())?.into(),
            buffer_bytes: expected.buffer_bytes.unwrap_or(0).into(),
        };
        self.expect
            .set(0, expect, 0)
            .map_err(|e| EngineError::bpf("tell the receiver what to expect", &e))?;
        self.base = self.read()?;
        Ok(())
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        let now = self.read()?;
        Ok(ReceiveCounts {
            received: now.received - self.base.received,
            wrong_length: now.wrong_length - self.base.wrong_length,
            late: now.late - self.base.late,
            foreign: now.foreign - self.base.foreign,
            dropped_by_receiver: 0,
        })
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        Ok(None)
    }
}

/// An XDP program on a DUT's port that passes every frame on, so that the port's NAPI handles frames of socket senders
/// too. Detached when dropped.
pub struct XdpPass {
    _attached: Ebpf,
}

impl XdpPass {
    /// Attaches it.
    ///
    /// # Errors
    /// As [`XdpCount::open`].
    pub fn open(port: &PortSpec) -> Result<Self, EngineError> {
        let what = format!("attach XDP to {}", port.interface);
        within(&port.netns, || {
            Ok(XdpPass {
                _attached: attach(&port.interface, "pass", &what)?,
            })
        })
    }
}

fn attach(interface: &str, name: &str, what: &str) -> Result<Ebpf, EngineError> {
    let mut programs = Ebpf::load(OBJECT).map_err(|e| EngineError::bpf(what, &e))?;
    let program: &mut Xdp = programs
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| EngineError::Frames(format!("the object has no XDP program {name}")))?;
    let index = interface_index(interface)?;
    program
        .load()
        .and_then(|()| program.attach_to_if_index(index, XdpMode::Driver))
        .map_err(|e| EngineError::bpf(what, &e))?;
    Ok(programs)
}
