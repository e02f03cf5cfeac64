//! The cheapest receiver: an XDP program that counts our frames at the driver and drops them there,
//! or analyses them.
//!
//! It runs where the port's NAPI runs; on veth, by default, that is the CPU of the DUT. Dropping
//! the value detaches the program, and so does the end of the process. Needs CAP_BPF and
//! CAP_NET_ADMIN. Start with [`XdpCount`]; `analyse.rs` reads the results of the analysing program.

mod analyse;
mod sys;

use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray, PerCpuValues};
use aya::programs::Xdp;
use aya::programs::xdp::XdpLink;

use self::analyse::{Analysing, Shape};
use self::sys::{Counters, Expect};
use crate::analysis::{Analysis, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::generator::Receiver;
use crate::netdev::attach;
use crate::port::{PortSpec, within};
use crate::signature::SignaturePlace;

static COUNT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/count.o"));

/// The receiver.
///
/// The trial decides which program is attached: one that counts, for each place of a signature, or
/// the one that analyses, with maps as large as the plan. Programs are replaced atomically: there
/// is always one attached.
pub struct XdpCount {
    port: PortSpec,
    loaded: Loaded,
    /// `None` after the port refused a program.
    link: Option<XdpLink>,
    base: ReceiveCounts,
}

/// The task of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Task {
    Count(SignaturePlace),
    Analyse(Shape),
}

/// A program in the kernel, and its maps.
struct Loaded {
    task: Task,
    expect: Array<MapData, Expect>,
    expected: Expect,
    counters: PerCpuArray<MapData, Counters>,
    analysing: Option<Analysing>,
    programs: Ebpf,
}

impl XdpCount {
    /// Attaches a counting program to a port, in the driver.
    ///
    /// # Errors
    /// Missing privileges, a driver without XDP, or another program that is already attached.
    pub fn open(port: &PortSpec) -> Result<Self, EngineError> {
        within(&port.netns, || {
            let mut loaded = Loaded::new(Task::Count(SignaturePlace::UdpPayload), port)?;
            let link = loaded.attach(port, None)?;
            Ok(XdpCount {
                port: port.clone(),
                loaded,
                link: Some(link),
                base: ReceiveCounts::default(),
            })
        })
    }

    /// Notes when this number of further frames has arrived; a profiler's section ends then.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn end_after(&mut self, frames: u32) -> Result<(), EngineError> {
        // the program compares the lower half
        let received = self.loaded.counts()?.received as u32;
        self.loaded.expected.last = received.wrapping_add(frames);
        self.loaded.set_expected()
    }

    /// Returns when that was, by the monotonic clock; before, an earlier time.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn ended_ns(&self) -> Result<u64, EngineError> {
        let per_cpu = self.loaded.per_cpu()?;
        Ok(per_cpu.iter().map(|one| one.last_ns).max().unwrap_or(0))
    }
}

impl Receiver for XdpCount {
    fn name(&self) -> &'static str {
        "xdp"
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        let task = match &expected.analysis {
            None => Task::Count(expected.place),
            Some(plan) => {
                plan.check(self.name(), expected)?;
                Task::Analyse(Shape::for_plan(plan))
            }
        };
        if task != self.loaded.task || self.link.is_none() {
            let (port, before) = (&self.port, self.link.take());
            let (loaded, link) = within(&port.netns, move || {
                let mut loaded = Loaded::new(task, port)?;
                let link = loaded.attach(port, before)?;
                Ok((loaded, link))
            })?;
            (self.loaded, self.link) = (loaded, Some(link));
        }
        self.loaded.expect(expected)?;
        self.base = self.loaded.counts()?;
        Ok(())
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        let now = self.loaded.counts()?;
        Ok(ReceiveCounts {
            received: now.received - self.base.received,
            wrong_length: now.wrong_length - self.base.wrong_length,
            late: now.late - self.base.late,
            foreign: now.foreign - self.base.foreign,
            dropped_by_receiver: 0,
        })
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        self.loaded
            .analysing
            .as_ref()
            .map(Analysing::read)
            .transpose()
    }
}

impl Loaded {
    fn new(task: Task, port: &PortSpec) -> Result<Loaded, EngineError> {
        let action = what(port);
        let failed = |e: &dyn std::error::Error| EngineError::bpf(&*action, e);
        let mut programs = match &task {
            Task::Count(_) => Ebpf::load(COUNT).map_err(|e| failed(&e))?,
            Task::Analyse(shape) => shape.load().map_err(|e| failed(&e))?,
        };
        program(&mut programs, task.program())?
            .load()
            .map_err(|e| failed(&e))?;
        let missing = || EngineError::Frames("the object lacks a map".into());
        let expect = programs.take_map("expect").ok_or_else(missing)?;
        let counters = programs.take_map("counters").ok_or_else(missing)?;
        let analysing = match &task {
            Task::Count(_) => None,
            Task::Analyse(_) => Some(Analysing::new(&mut programs)?),
        };
        Ok(Loaded {
            task,
            expect: Array::try_from(expect).map_err(|e| failed(&e))?,
            expected: Expect::default(),
            counters: PerCpuArray::try_from(counters).map_err(|e| failed(&e))?,
            analysing,
            programs,
        })
    }

    /// Attaches the program to a port of the calling thread's namespace, replacing the previous one
    /// if there is one.
    fn attach(&mut self, port: &PortSpec, before: Option<XdpLink>) -> Result<XdpLink, EngineError> {
        let program = program(&mut self.programs, self.task.program())?;
        attach(program, port, before, &what(port))
    }

    /// The kernel's own counts continue, everything else restarts.
    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        self.expected = Expect {
            nonce: expected.nonce.into(),
            buffer_bytes: expected.buffer_bytes.unwrap_or(0).into(),
            tail: u32::from(expected.place == SignaturePlace::Tail),
            last: 0,
        };
        // first the nonce: from now on frames of the previous trial are late and change nothing
        self.set_expected()?;
        match (&mut self.analysing, &expected.analysis) {
            (Some(analysing), Some(plan)) => analysing.begin(plan),
            _ => Ok(()),
        }
    }

    fn set_expected(&mut self) -> Result<(), EngineError> {
        let set = self.expect.set(0, self.expected, 0);
        set.map_err(|e| EngineError::bpf("tell the receiver what to expect", &e))
    }

    fn per_cpu(&self) -> Result<PerCpuValues<Counters>, EngineError> {
        let counters = self.counters.get(&0, 0);
        counters.map_err(|e| EngineError::bpf("read the receiver's counters", &e))
    }

    fn counts(&self) -> Result<ReceiveCounts, EngineError> {
        let per_cpu = self.per_cpu()?;
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

impl Task {
    fn program(&self) -> &'static str {
        match self {
            Task::Count(SignaturePlace::UdpPayload) => "count",
            Task::Count(SignaturePlace::Tail) => "count_tail",
            Task::Count(SignaturePlace::FlowLabel) => "count_label",
            Task::Analyse(_) => "analyse",
        }
    }
}

fn what(port: &PortSpec) -> String {
    format!("count with XDP on {}", port.interface)
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp, EngineError> {
    programs
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| EngineError::Frames(format!("the object has no XDP program {name}")))
}
