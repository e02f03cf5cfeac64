//! Groups of frames as TRex marks them: counted, put in order and timed where they arrive.
//!
//! A frame belongs to group n when bit 0 of its traffic class is set and the identification of its IPv4 header (of IPv6 the flow
//! label) is [`mark`]`(n)`. Groups with a latency header share one mark, [`TIMED_MARK`], and have their number in the
//! [trailer](fwdlab_packet::modifier::trailer). It is an XDP program of the port, in its driver or, where that knows no XDP, before the
//! kernel's stack; it takes frames of traffic away and leaves what a host must hear (ARP, neighbour discovery, ping).
//! Dropping the value detaches it, and so does the end of the process. Needs CAP_BPF and CAP_NET_ADMIN. Start with [`Groups::open`].
//!
//! Our own frames are known by their signature, see [`Receiver`](crate::Receiver): this is for frames whose bytes others decide.

mod sys;

use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray, PerCpuValues};
use aya::programs::{Xdp, xdp::XdpMode};
use fwdlab_packet::modifier::TRAILER_FIRST;

use self::sys::{Config, Count, EMPTY_TIMES, Timed, Times};
use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::port::{PortSpec, interface_index, within};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/groups.o"));

/// Groups that are only counted.
pub const COUNTED: u16 = 1023;
/// Groups with a latency header.
pub const TIMED: u16 = 128;
/// The smallest mark: traffic that belongs to no group stays below.
pub const FIRST_MARK: u16 = 0xfc00;
/// The mark of all groups with a latency header.
pub const TIMED_MARK: u16 = FIRST_MARK + COUNTED;

/// What frames of a group that is counted have in their header.
pub fn mark(group: u16) -> u16 {
    FIRST_MARK + group
}

/// Groups that arrive on one port.
pub struct Groups {
    config: Array<MapData, Config>,
    counts: PerCpuArray<MapData, Count>,
    timed: Array<MapData, Timed>,
    times: Array<MapData, Times>,
    now: Config,
    _attached: Ebpf,
}

/// Frames of a group that arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrived {
    /// How many.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
}

/// What is known of a group with a latency header.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Order {
    /// Frames that arrived, of this generation.
    pub arrived: Arrived,
    /// Numbers that did not arrive, so far.
    pub dropped: u64,
    /// Frames that came after one with a higher number.
    pub out_of_order: u64,
    /// Frames that came twice in a row.
    pub duplicates: u64,
    /// How often a number was higher than expected.
    pub too_high: u64,
    /// How often it was lower.
    pub too_low: u64,
    /// Frames of an earlier generation.
    pub other_generation: u64,
    /// How many latencies there are.
    pub latencies: u64,
    /// Their sum, in nanoseconds.
    pub sum_ns: u64,
    /// The smallest.
    pub least_ns: u64,
    /// The largest.
    pub most_ns: u64,
    /// The largest of the last window of time.
    pub window_most_ns: u64,
    /// RFC 3550's estimate, in nanoseconds.
    pub jitter_ns: u64,
}

impl Groups {
    /// Attaches it to a port.
    ///
    /// # Errors
    /// No privileges, a program that is attached already, or a kernel without XDP.
    pub fn open(port: &PortSpec) -> Result<Groups, EngineError> {
        let what = format!("tell groups of frames apart on {}", port.interface);
        let failed = |e: &dyn std::error::Error| EngineError::bpf(&*what, e);
        within(&port.netns, || {
            let mut programs = load().map_err(|e| failed(&e))?;
            let program: &mut Xdp = programs
                .program_mut("groups")
                .and_then(|program| program.try_into().ok())
                .ok_or_else(missing)?;
            program.load().map_err(|e| failed(&e))?;
            let index = interface_index(&port.interface)?;
            if program.attach_to_if_index(index, XdpMode::Driver).is_err() {
                (program.attach_to_if_index(index, XdpMode::Skb)).map_err(|e| failed(&e))?;
            }
            Groups::of(programs)
        })
    }

    fn of(mut programs: Ebpf) -> Result<Groups, EngineError> {
        let failed = |e: &dyn std::error::Error| EngineError::bpf("open the maps of groups", e);
        let mut map = |name| programs.take_map(name).ok_or_else(missing);
        Ok(Groups {
            config: Array::try_from(map("config")?).map_err(|e| failed(&e))?,
            counts: PerCpuArray::try_from(map("counts")?).map_err(|e| failed(&e))?,
            timed: Array::try_from(map("timed")?).map_err(|e| failed(&e))?,
            times: Array::try_from(map("times")?).map_err(|e| failed(&e))?,
            now: Config::default(),
            _attached: programs,
        })
    }

    /// Does everything go on to the system, or is traffic taken away once it is counted?
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pass(&mut self, everything: bool) -> Result<(), EngineError> {
        self.now.pass = everything.into();
        self.configure()
    }

    /// A group that is counted begins anew.
    ///
    /// # Errors
    /// There is no such group.
    pub fn begin_count(&mut self, group: u16) -> Result<(), EngineError> {
        let zero = |e| EngineError::bpf("prepare a group", &e);
        let before = self.counts.get(&group.into(), 0).map_err(zero)?;
        let none = PerCpuValues::try_from(vec![Count::default(); before.len()])
            .map_err(|e| EngineError::system("prepare a group", e))?;
        self.counts.set(group.into(), none, 0).map_err(zero)
    }

    /// A group with a latency header begins anew; frames of other generations are not its frames. Generation 0: it ends.
    ///
    /// # Errors
    /// There is no such group.
    pub fn begin_timed(&mut self, group: u16, generation: u8) -> Result<(), EngineError> {
        let begin = Timed {
            generation: generation.into(),
            expected: TRAILER_FIRST,
            ..Timed::default()
        };
        self.timed
            .set(group.into(), begin, 0)
            .and_then(|()| self.times.set(group.into(), EMPTY_TIMES, 0))
            .map_err(|e| EngineError::bpf("prepare a group", &e))
    }

    /// Frames of a group with a latency header begin anew with this generation; what was counted stays.
    ///
    /// # Errors
    /// There is no such group.
    pub fn restart_timed(&mut self, group: u16, generation: u8) -> Result<(), EngineError> {
        let again = Timed {
            lock: 0,
            generation: generation.into(),
            expected: TRAILER_FIRST,
            is_timed: 0,
            ..self.state(group)?
        };
        self.timed
            .set(group.into(), again, 0)
            .map_err(|e| EngineError::bpf("prepare a group", &e))
    }

    /// Frames of a group that is counted.
    ///
    /// # Errors
    /// There is no such group.
    pub fn counted(&self, group: u16) -> Result<Arrived, EngineError> {
        let per_cpu = self.counts.get(&group.into(), 0);
        let per_cpu = per_cpu.map_err(|e| EngineError::bpf("read a group", &e))?;
        let mut sum = Arrived::default();
        for cpu in per_cpu.iter() {
            sum.frames += cpu.frames;
            sum.bytes += cpu.bytes;
        }
        Ok(sum)
    }

    /// All frames, of whatever group or none, since it was opened.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn all(&self) -> Result<Arrived, EngineError> {
        self.counted(COUNTED)
    }

    /// What is known of a group with a latency header.
    ///
    /// # Errors
    /// There is no such group.
    pub fn timed(&self, group: u16) -> Result<Order, EngineError> {
        let found = self.state(group)?;
        Ok(Order {
            arrived: Arrived {
                frames: found.frames,
                bytes: found.bytes,
            },
            dropped: found.dropped,
            out_of_order: found.out_of_order,
            duplicates: found.duplicates,
            too_high: found.too_high,
            too_low: found.too_low,
            other_generation: found.other_generation,
            latencies: found.latencies,
            sum_ns: found.sum,
            least_ns: found.least,
            most_ns: found.most,
            window_most_ns: match u64::from(self.now.window).wrapping_sub(found.window) {
                0 => found.before_most,
                1 => found.window_most,
                _ => 0,
            },
            jitter_ns: (found.jitter_16ths + 8) >> 4,
        })
    }

    /// All latencies of a group.
    ///
    /// # Errors
    /// There is no such group.
    pub fn times(&self, group: u16) -> Result<Histogram, EngineError> {
        let times = self.times.get(&group.into(), 0);
        let times = times.map_err(|e| EngineError::bpf("read a group's latencies", &e))?;
        let mut histogram = Histogram::default();
        for (index, &count) in times.counts.iter().enumerate() {
            histogram.add(index, count);
        }
        Ok(histogram)
    }

    /// Ends a window of time and begins the next: [`Order::window_most_ns`] is of the one that ended last.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn end_window(&mut self) -> Result<(), EngineError> {
        self.now.window = self.now.window.wrapping_add(1);
        self.configure()
    }

    fn state(&self, group: u16) -> Result<Timed, EngineError> {
        let found = self.timed.get(&group.into(), 0);
        found.map_err(|e| EngineError::bpf("read a group", &e))
    }

    fn configure(&mut self) -> Result<(), EngineError> {
        self.config
            .set(0, self.now, 0)
            .map_err(|e| EngineError::bpf("configure the groups of a port", &e))
    }
}

fn load() -> Result<Ebpf, aya::EbpfError> {
    Ebpf::load(OBJECT)
}

fn missing() -> EngineError {
    EngineError::Frames("the object lacks a part".into())
}
