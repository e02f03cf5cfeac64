//! Groups of frames marked by TRex: counted, ordered and timed on arrival.
//!
//! A frame belongs to group n if bit 0 of its traffic class is set and the identification of its
//! IPv4 header (in IPv6 the flow label) is [`mark`]`(n)`. Groups with a latency header share one
//! mark, [`TIMED_MARK`], and have their number in the [trailer](fwdlab_packet::modifier::trailer).
//! It is an XDP program of the port, in its driver or, if the driver does not support XDP, before
//! the kernel's stack; it drops traffic and passes what a host needs (ARP, neighbour discovery,
//! ping). Dropping the value detaches it, and so does the end of the process. Needs CAP_BPF and
//! CAP_NET_ADMIN. Start with [`Groups::open`].
//!
//! Our own frames are recognised by their signature, see [`Receiver`](crate::Receiver): this is for
//! frames with contents that others define.

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

/// Number of groups that are only counted.
pub const COUNTED: u16 = 1023;
/// Number of groups with a latency header.
pub const TIMED: u16 = 128;
/// The smallest mark: traffic without a group is below.
pub const FIRST_MARK: u16 = 0xfc00;
/// The mark of all groups with a latency header.
pub const TIMED_MARK: u16 = FIRST_MARK + COUNTED;

/// Returns the mark in the header of a counted group's frames.
pub fn mark(group: u16) -> u16 {
    FIRST_MARK + group
}

/// The groups that arrive on one port.
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
    /// Number of frames.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
}

/// The results of a group with a latency header.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Order {
    /// Frames of this generation that arrived.
    pub arrived: Arrived,
    /// Numbers that have not arrived so far.
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
    /// Number of latencies.
    pub latencies: u64,
    /// Their sum, in nanoseconds.
    pub sum_ns: u64,
    /// The smallest latency.
    pub least_ns: u64,
    /// The largest latency.
    pub most_ns: u64,
    /// The largest latency of the last window of time; `None` if it had no frame.
    pub window_most_ns: Option<u64>,
    /// RFC 3550's estimate, in nanoseconds.
    pub jitter_ns: u64,
}

impl Groups {
    /// Attaches the program to a port.
    ///
    /// # Errors
    /// Missing privileges, another program that is already attached, or a kernel without XDP.
    pub fn open(port: &PortSpec) -> Result<Groups, EngineError> {
        let action = format!("tell groups of frames apart on {}", port.interface);
        let failed = |e: &dyn std::error::Error| EngineError::bpf(&*action, e);
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
            Groups::from_programs(programs)
        })
    }

    fn from_programs(mut programs: Ebpf) -> Result<Groups, EngineError> {
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

    /// Sets whether everything is passed to the system, or traffic is dropped once it is counted.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn pass(&mut self, everything: bool) -> Result<(), EngineError> {
        self.now.pass = everything.into();
        self.configure()
    }

    /// Resets a counted group.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn begin_count(&mut self, group: u16) -> Result<(), EngineError> {
        let zero = |e| EngineError::bpf("prepare a group", &e);
        let before = self.counts.get(&group.into(), 0).map_err(zero)?;
        let none = PerCpuValues::try_from(vec![Count::default(); before.len()])
            .map_err(|e| EngineError::system("prepare a group", e))?;
        self.counts.set(group.into(), none, 0).map_err(zero)
    }

    /// Resets a group with a latency header; frames of other generations do not count. Generation 0
    /// ends the group.
    ///
    /// # Errors
    /// If there is no such group.
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

    /// Starts a new generation of a group with a latency header; keeps the counts.
    ///
    /// # Errors
    /// If there is no such group.
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

    /// Returns the frames of a counted group.
    ///
    /// # Errors
    /// If there is no such group.
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

    /// Returns all frames since it was opened, with or without a group.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn all(&self) -> Result<Arrived, EngineError> {
        self.counted(COUNTED)
    }

    /// Returns the results of a group with a latency header.
    ///
    /// # Errors
    /// If there is no such group.
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
                0 => Some(found.before_most),
                1 => Some(found.window_most),
                _ => None,
            }
            .filter(|most| *most > 0),
            jitter_ns: (found.jitter_16ths + 8) >> 4,
        })
    }

    /// Returns all latencies of a group.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn times(&self, group: u16) -> Result<Histogram, EngineError> {
        let times = self.times.get(&group.into(), 0);
        let times = times.map_err(|e| EngineError::bpf("read a group's latencies", &e))?;
        let mut histogram = Histogram::default();
        for (index, &count) in times.counts.iter().enumerate() {
            histogram.add(index, count);
        }
        Ok(histogram)
    }

    /// Ends a window of time and begins the next: [`Order::window_most_ns`] refers to the last one
    /// that ended.
    ///
    /// # Errors
    /// If the kernel refuses.
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use aya::programs::{TestRun, TestRunOptions};
    use fwdlab_packet::Signature;
    use fwdlab_packet::modifier::trailer;

    use super::*;

    const DROP: u32 = 1;
    const PASS: u32 = 2;

    /// Returns `None`, and reports a skip, without privileges.
    fn groups() -> Option<Groups> {
        let loaded = load().map_err(|e| e.to_string()).and_then(|mut programs| {
            let program: &mut Xdp = programs
                .program_mut("groups_at")
                .unwrap()
                .try_into()
                .unwrap();
            program.load().map_err(|e| e.to_string())?;
            Ok(programs)
        });
        match loaded {
            Ok(programs) => Some(Groups::from_programs(programs).unwrap()),
            Err(error) => {
                let test = std::thread::current().name().unwrap_or("?").to_owned();
                let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {error}");
                None
            }
        }
    }

    /// Returns the program's verdict on a frame that arrives at a given time.
    fn arrive(groups: &mut Groups, frame: &[u8], now_ns: u64) -> u32 {
        let data = [&now_ns.to_ne_bytes(), frame].concat();
        let context: Vec<u8> = [8, data.len() as u32, 0, 0, 0, 0]
            .iter()
            .flat_map(|word: &u32| word.to_ne_bytes())
            .collect();
        let programs = &mut groups._attached;
        let program: &mut Xdp = programs
            .program_mut("groups_at")
            .unwrap()
            .try_into()
            .unwrap();
        let options = TestRunOptions {
            data_in: Some(&data),
            ctx_in: Some(&context),
            ..TestRunOptions::new()
        };
        program.test_run(options).unwrap().return_value
    }

    /// Ethernet, a number of tags, an IP header with this mark and protocol, and 30 bytes.
    fn frame(tags: usize, version: u8, mark: Option<u16>, protocol: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0, 0, 5]);
        }
        let class = u8::from(mark.is_some());
        let mark = mark.unwrap_or(0xfc05).to_be_bytes();
        match version {
            4 => {
                frame.extend([8, 0, 0x45, class, 0, 50]);
                frame.extend(mark);
                frame.extend([0, 0, 64, protocol, 0, 0, 16, 0, 0, 1, 48, 0, 0, 1]);
            }
            _ => {
                frame.extend([0x86, 0xdd, 0x60, class << 4]);
                frame.extend(mark);
                frame.extend([0, 30, protocol, 64]);
                frame.extend([0x20; 32]);
            }
        }
        frame.extend([7; 30]);
        frame
    }

    #[test]
    fn marks_are_found_behind_tags_and_in_both_versions() {
        let Some(mut groups) = groups() else { return };
        for (tags, version) in [(0, 4), (1, 4), (2, 4), (0, 6), (1, 6), (2, 6)] {
            groups.begin_count(7).unwrap();
            let marked = frame(tags, version, Some(mark(7)), 17);
            for _ in 0..3 {
                assert_eq!(arrive(&mut groups, &marked, 0), DROP);
            }
            let requested = Arrived {
                frames: 3,
                bytes: 3 * (marked.len() as u64 + 4),
            };
            assert_eq!(
                groups.counted(7).unwrap(),
                requested,
                "{tags} tags, IPv{version}"
            );
        }
        // the number alone is not a mark; traffic without a mark is dropped, except what a host
        // needs
        for (version, protocol, action) in
            [(4, 17, DROP), (4, 1, PASS), (6, 6, DROP), (6, 58, PASS)]
        {
            let plain = frame(0, version, None, protocol);
            assert_eq!(
                arrive(&mut groups, &plain, 0),
                action,
                "IPv{version}, protocol {protocol}"
            );
        }
        assert_eq!(groups.counted(5).unwrap(), Arrived::default());
        let mut arp = vec![0xff; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(arrive(&mut groups, &arp, 0), PASS);
        assert_eq!(groups.all().unwrap().frames, 6 * 3 + 5);
        groups.pass(true).unwrap();
        assert_eq!(
            arrive(&mut groups, &frame(0, 4, Some(mark(7)), 17), 0),
            PASS
        );
        assert_eq!(groups.counted(7).unwrap().frames, 4);
    }

    #[test]
    fn order_and_latency_are_those_of_trexs_documentation() {
        let Some(mut groups) = groups() else { return };
        groups.begin_timed(3, 1).unwrap();
        let come = |groups: &mut Groups, sequence: u64, generation: u8, latency: u64| {
            let signature = Signature {
                sequence,
                timestamp_ns: 1_000_000,
                ..Signature::default()
            };
            let mut timed = frame(0, 4, Some(TIMED_MARK), 17);
            let end = timed.len() - 16;
            timed[end..].copy_from_slice(&trailer(3, generation, &signature));
            assert_eq!(arrive(groups, &timed, 1_000_000 + latency), DROP);
        };
        // 0 1 2, then 5 (3 and 4 are missing), 5 again, and 3 after all; one of the previous
        // generation
        for (number, latency) in [(0, 10), (1, 30), (2, 20), (5, 40), (5, 40), (3, 50)] {
            come(&mut groups, number, 1, latency * 1000);
        }
        come(&mut groups, 6, 9, 1);
        let order = groups.timed(3).unwrap();
        assert_eq!((order.arrived.frames, order.other_generation), (6, 1));
        assert_eq!(
            (order.dropped, order.out_of_order, order.duplicates),
            (1, 1, 1)
        );
        assert_eq!((order.too_high, order.too_low), (1, 2));
        assert_eq!((order.least_ns, order.most_ns), (10_000, 50_000));
        assert_eq!((order.latencies, order.sum_ns), (6, 190_000));
        // RFC 3550: a sixteenth of each change, 20, 10, 20, 0 and 10 us
        let mut jitter = 0.0_f64;
        for change in [20.0, 10.0, 20.0, 0.0, 10.0] {
            jitter += (change * 1000.0 - jitter) / 16.0;
        }
        assert!(
            (order.jitter_ns as f64 - jitter).abs() < 20.0,
            "{} {jitter}",
            order.jitter_ns
        );
        assert_eq!(groups.times(3).unwrap().len(), 6);
        // the largest of the window that ended, and of one without frames
        assert_eq!(order.window_most_ns, None);
        groups.end_window().unwrap();
        assert_eq!(groups.timed(3).unwrap().window_most_ns, Some(50_000));
        come(&mut groups, 6, 1, 15_000);
        assert_eq!(groups.timed(3).unwrap().window_most_ns, Some(50_000));
        groups.end_window().unwrap();
        assert_eq!(groups.timed(3).unwrap().window_most_ns, Some(15_000));
        groups.end_window().unwrap();
        assert_eq!(groups.timed(3).unwrap().window_most_ns, None);
        // a new generation begins with its own first number, and the counts are kept
        groups.restart_timed(3, 2).unwrap();
        come(&mut groups, 0, 2, 20_000);
        let order = groups.timed(3).unwrap();
        assert_eq!(
            (order.arrived.frames, order.dropped, order.too_low),
            (8, 1, 2)
        );
        assert_eq!(order.least_ns, 10_000);
        // no group has it: it is foreign
        groups.begin_timed(3, 0).unwrap();
        let signature = Signature::default();
        let mut timed = frame(0, 4, Some(TIMED_MARK), 1);
        let end = timed.len() - 16;
        timed[end..].copy_from_slice(&trailer(3, 2, &signature));
        assert_eq!(arrive(&mut groups, &timed, 0), PASS);
        assert_eq!(groups.timed(3).unwrap(), Order::default());
    }
}
