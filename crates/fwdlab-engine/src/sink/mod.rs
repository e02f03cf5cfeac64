//! A sink: takes every frame that arrives on a port and counts it, regardless of its sender and
//! contents.
//!
//! For counting foreign frames; a [`Receiver`](crate::Receiver) counts the frames of a trial. It is
//! an XDP program that drops the frames it counts, so none of them reaches the stack. Dropping the
//! value detaches it, and so does the end of the process. Needs CAP_BPF and CAP_NET_ADMIN. Start
//! with [`Sink::open`].

mod sys;

use aya::Ebpf;
use aya::maps::{MapData, PerCpuArray};
use aya::programs::{Xdp, xdp::XdpMode};

use self::sys::Counters;
use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sink.o"));

/// An open sink.
pub struct Sink {
    counters: PerCpuArray<MapData, Counters>,
    _attached: Ebpf,
}

/// The counts of a sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Frames.
    pub frames: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
}

impl Sink {
    /// Attaches a sink to a port, in the driver.
    ///
    /// # Errors
    /// Missing privileges, a driver without XDP, or another program that is already attached.
    pub fn open(port: &PortSpec) -> Result<Sink, EngineError> {
        Sink::with("sink", port)
    }

    /// Like `open`, for kernels before 5.18, which do not support frames in several buffers.
    ///
    /// # Errors
    /// As [`Sink::open`].
    pub(crate) fn linear(port: &PortSpec) -> Result<Sink, EngineError> {
        Sink::with("sink_linear", port)
    }

    fn with(program: &str, port: &PortSpec) -> Result<Sink, EngineError> {
        let action = format!("count with XDP on {}", port.interface);
        let failed = |e: &dyn std::error::Error| EngineError::bpf(&*action, e);
        within(&port.netns, || {
            let mut programs = Ebpf::load(OBJECT).map_err(|e| failed(&e))?;
            let missing = || EngineError::Frames("the object lacks a part".into());
            let program: &mut Xdp = programs
                .program_mut(program)
                .and_then(|program| program.try_into().ok())
                .ok_or_else(missing)?;
            let index = interface_index(&port.interface)?;
            program
                .load()
                .and_then(|()| program.attach_to_if_index(index, XdpMode::Driver))
                .map_err(|e| failed(&e))?;
            let counters = programs.take_map("counters").ok_or_else(missing)?;
            Ok(Sink {
                counters: PerCpuArray::try_from(counters).map_err(|e| failed(&e))?,
                _attached: programs,
            })
        })
    }

    /// Returns the counts since it was opened.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn counts(&self) -> Result<SinkCounts, EngineError> {
        let per_cpu = self
            .counters
            .get(&0, 0)
            .map_err(|e| EngineError::bpf("read the counters of a sink", &e))?;
        let mut sum = SinkCounts::default();
        for cpu in per_cpu.iter() {
            sum.frames += cpu.frames;
            sum.bytes += cpu.bytes;
        }
        Ok(sum)
    }
}
