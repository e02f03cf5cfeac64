//! Reads the results of `bpf/analyse.bpf.c` from its maps.
//!
//! The program is the twin of [`Analyser`](crate::analysis::Analyser); the tests below compare the
//! two, frame by frame. Start with [`Analysing`].

use aya::maps::{Array, Map, MapData, MapError};
use aya::{Ebpf, EbpfError, EbpfLoader};

use super::sys::{
    EMPTY_FLOWS, EMPTY_TIMES, EMPTY_WINDOW, FLOWS_PER_ENTRY, Flows, Plan, Stream, Times, Window,
};
use crate::analysis::{Analysis, AnalysisPlan, StreamAnalysis};
use crate::error::EngineError;
use crate::histogram::{BUCKETS, Histogram};
use crate::stamps::{Origin, Origins};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/analyse.o"));

/// Sizes of the maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    numbers: u32,
    streams: u32,
    flow_entries: u32,
}

impl Shape {
    pub(super) fn for_plan(plan: &AnalysisPlan) -> Shape {
        let highest = plan.streams.iter().map(|stream| stream.id).max();
        Shape {
            numbers: u32::from(highest.unwrap_or(0)) + 1,
            streams: plan.streams.len() as u32,
            flow_entries: plan
                .streams
                .iter()
                .map(|stream| entries(stream.flows))
                .sum::<u32>()
                .max(1),
        }
    }

    pub(super) fn load(&self) -> Result<Ebpf, EbpfError> {
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("plan", self.numbers);
        for map in ["streams", "windows", "places", "times"] {
            loader.map_max_entries(map, self.streams);
        }
        loader.map_max_entries("flows", self.flow_entries);
        loader.load(OBJECT)
    }
}

/// Returns the number of map entries for this number of flows.
fn entries(flows: u32) -> u32 {
    flows.div_ceil(FLOWS_PER_ENTRY as u32)
}

/// The maps of the analysing program.
pub(super) struct Analysing {
    of: AnalysisPlan,
    plan: Array<MapData, Plan>,
    streams: Array<MapData, Stream>,
    windows: Array<MapData, Window>,
    times: Array<MapData, Times>,
    flows: Array<MapData, Flows>,
}

impl Analysing {
    pub(super) fn new(programs: &mut Ebpf) -> Result<Analysing, EngineError> {
        Ok(Analysing {
            of: AnalysisPlan::default(),
            plan: array(programs, "plan")?,
            streams: array(programs, "streams")?,
            windows: array(programs, "windows")?,
            times: array(programs, "times")?,
            flows: array(programs, "flows")?,
        })
    }

    /// Begins a trial with this plan.
    pub(super) fn begin(&mut self, plan: &AnalysisPlan) -> Result<(), EngineError> {
        let failed = |e: MapError| EngineError::bpf("prepare the analysis", &e);
        for number in 0..self.plan.len() {
            self.plan.set(number, Plan::default(), 0).map_err(failed)?;
        }
        for entry in 0..self.flows.len() {
            self.flows.set(entry, EMPTY_FLOWS, 0).map_err(failed)?;
        }
        let mut flow_entry = 0;
        for (position, stream) in (0..).zip(&plan.streams) {
            self.streams
                .set(position, Stream::default(), 0)
                .and_then(|()| self.windows.set(position, EMPTY_WINDOW, 0))
                .and_then(|()| self.times.set(position, EMPTY_TIMES, 0))
                .map_err(failed)?;
            let lengths = stream.lengths;
            let entry = Plan {
                stream: position + 1,
                flows: stream.flows,
                flow_entry,
                shortest: lengths.map_or(0, |lengths| lengths.shortest),
                longest: lengths.map_or(0, |lengths| lengths.longest),
            };
            flow_entry += entries(stream.flows);
            self.plan.set(stream.id.into(), entry, 0).map_err(failed)?;
        }
        self.of = plan.clone();
        Ok(())
    }

    /// Returns the results so far. For a stream whose frames are arriving, the parts may differ by
    /// a few frames.
    pub(super) fn read(&self) -> Result<Analysis, EngineError> {
        let failed = |e: MapError| EngineError::bpf("read the analysis", &e);
        let mut streams = vec![];
        let mut flow_entry = 0;
        for (position, of) in (0..).zip(&self.of.streams) {
            let found = self.streams.get(&position, 0).map_err(failed)?;
            let times = self.times.get(&position, 0).map_err(failed)?;
            let mut flows = Vec::with_capacity(of.flows as usize);
            for _ in 0..entries(of.flows) {
                let entry = self.flows.get(&flow_entry, 0).map_err(failed)?;
                flows.extend_from_slice(&entry.arrived);
                flow_entry += 1;
            }
            flows.truncate(of.flows as usize);
            streams.push(StreamAnalysis {
                id: of.id,
                received: found.received,
                bytes: found.bytes,
                duplicates: found.duplicates,
                reordered: found.reordered,
                reordering_extent: found.extent,
                older: found.older,
                corrupt: found.corrupt,
                wrong_length: found.wrong_length,
                early: found.early,
                next: found.next,
                first_ns: found.first_ns,
                last_ns: found.last_ns,
                latency: histogram(&times.latency),
                latency_min_ns: found.latency_min,
                latency_max_ns: found.latency_max,
                latency_sum_ns: found.latency_sum,
                jitter_16ths_ns: found.jitter_16ths,
                delay_variation: histogram(&times.variation),
                flows,
            });
        }
        Ok(Analysis {
            streams,
            timestamps: Origins::from_intended(Origin::XDP),
            clock_step_ns: None,
        })
    }
}

fn histogram(counts: &[u64; BUCKETS]) -> Histogram {
    let mut histogram = Histogram::default();
    for (index, &count) in counts.iter().enumerate() {
        histogram.add(index, count);
    }
    histogram
}

fn array<V: aya::Pod>(programs: &mut Ebpf, name: &str) -> Result<Array<MapData, V>, EngineError> {
    let map: Map = programs
        .take_map(name)
        .ok_or_else(|| EngineError::Frames(format!("the object has no map {name}")))?;
    Array::try_from(map).map_err(|e| EngineError::bpf(format!("open the map {name}"), &e))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write;

    use aya::programs::{TestRun, TestRunOptions, Xdp};
    use fwdlab_packet::header::{ethernet, icmp, ipv4, ipv6, tcp, udp, vlan};
    use fwdlab_packet::stack::{Layer, Size, build};
    use fwdlab_packet::{MacAddr, Signature};
    use proptest::prelude::*;

    use super::super::{Loaded, Task, program};
    use super::*;
    use crate::analysis::{Analyser, Expected, FrameClass, Lengths, StreamPlan};
    use crate::port::PortSpec;
    use crate::signature::{self, SignaturePlace};

    const NONCE: u16 = 300;
    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;

    /// Runs a program on one frame at a time.
    struct Bench {
        loaded: Loaded,
        name: &'static str,
    }

    impl Bench {
        /// Returns `None`, and reports a skip, without privileges.
        fn new(task: Task, name: &'static str) -> Option<Bench> {
            let port = PortSpec {
                netns: None,
                interface: "nowhere".into(),
            };
            let loaded = Loaded::new(task, &port).and_then(|mut loaded| {
                program(&mut loaded.programs, name)?;
                Ok(loaded)
            });
            match loaded {
                Ok(mut loaded) => {
                    let program = program(&mut loaded.programs, name).unwrap();
                    // the task's own program is loaded already
                    if program.fd().is_err() {
                        program.load().unwrap();
                    }
                    Some(Bench { loaded, name })
                }
                Err(error) if error.to_string().contains("not permitted") => {
                    let test = std::thread::current().name().unwrap_or("?").to_owned();
                    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {error}");
                    None
                }
                Err(error) => panic!("{error}"),
            }
        }

        /// Runs the program on a frame, with a preceding time of arrival if the program needs one;
        /// returns its verdict.
        fn frame(&mut self, frame: &[u8], arrival_ns: Option<u64>) -> u32 {
            let before = arrival_ns.map(u64::to_ne_bytes);
            let before = before.as_ref().map_or(&[][..], |bytes| &bytes[..]);
            let data = [before, frame].concat();
            // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index,
            // egress_ifindex
            let context: Vec<u8> = [before.len() as u32, data.len() as u32, 0, 0, 0, 0]
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            program(&mut self.loaded.programs, self.name)
                .unwrap()
                .test_run(TestRunOptions {
                    data_in: Some(&data),
                    ctx_in: Some(&context),
                    ..TestRunOptions::new()
                })
                .unwrap()
                .return_value
        }
    }

    /// The protocol above IP.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Upper {
        Udp,
        UdpUnsummed,
        Tcp,
        Icmp,
        Other,
        Fragment,
        NotIp,
    }

    #[derive(Debug, Clone)]
    struct Make {
        tags: usize,
        version: IpVersion,
        options: bool,
        upper: Upper,
        payload: usize,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum IpVersion {
        V4,
        V6,
    }

    /// A frame with the signature at the start and at the end of its payload, so that it is found
    /// in either place.
    fn frame(make: &Make, signature: &Signature) -> Vec<u8> {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let mut layers = vec![Layer::Ethernet(ethernet::Repr {
            destination: mac,
            source: mac,
            ethertype: 0x88b5,
        })];
        for id in 0..make.tags {
            layers.push(Layer::Vlan(vlan::Repr {
                priority: 0,
                drop_eligible: false,
                id: id as u16,
                ethertype: 0x88b5,
            }));
        }
        if make.upper != Upper::NotIp {
            let protocol = 254;
            layers.push(match make.version {
                IpVersion::V4 => {
                    let mut repr = ipv4::Repr {
                        protocol,
                        source: [198, 18, 0, 1].into(),
                        destination: [198, 19, 0, 1].into(),
                        more_fragments: make.upper == Upper::Fragment,
                        ..ipv4::Repr::default()
                    };
                    if make.options {
                        repr.options =
                            fwdlab_packet::header::options::Options::new(&[1, 1, 1, 0]).unwrap();
                    }
                    Layer::Ipv4(repr)
                }
                IpVersion::V6 => Layer::Ipv6(ipv6::Repr {
                    next_header: protocol,
                    source: "2001:2::1".parse().unwrap(),
                    destination: "2001:2:0:8000::1".parse().unwrap(),
                    ..ipv6::Repr::default()
                }),
            });
            match (make.upper, make.version) {
                (Upper::Udp | Upper::UdpUnsummed, _) => layers.push(Layer::Udp(udp::Repr {
                    source_port: 49184,
                    destination_port: 7,
                    payload_len: 0,
                })),
                (Upper::Tcp, _) => layers.push(Layer::Tcp(tcp::Repr {
                    source_port: 49184,
                    destination_port: 7,
                    ..tcp::Repr::default()
                })),
                (Upper::Icmp, IpVersion::V4) => {
                    layers.push(Layer::Icmp(icmp::Repr::echo_request(1, 2)));
                }
                (Upper::Icmp, IpVersion::V6) => {
                    layers.push(Layer::Icmpv6(
                        fwdlab_packet::header::icmpv6::Repr::echo_request(1, 2),
                    ));
                }
                _ => {}
            }
        }
        let mut payload = vec![0x5a; make.payload.max(fwdlab_packet::signature::LEN)];
        let end = payload.len() - fwdlab_packet::signature::LEN;
        signature.write(&mut payload);
        signature.write(&mut payload[end..]);
        layers.push(Layer::Payload(payload));
        let frame = build(&layers, Size::Layers).unwrap();
        let mut bytes = frame.bytes;
        if make.upper == Upper::UdpUnsummed {
            let udp = frame.offsets[make.tags + 2];
            bytes[udp + 6..udp + 8].fill(0);
        }
        bytes
    }

    fn makes() -> impl Strategy<Value = Make> {
        let upper = prop_oneof![
            6 => Just(Upper::Udp),
            1 => Just(Upper::UdpUnsummed),
            1 => Just(Upper::Tcp),
            1 => Just(Upper::Icmp),
            1 => Just(Upper::Other),
            1 => Just(Upper::Fragment),
            1 => Just(Upper::NotIp),
        ];
        let version = prop_oneof![Just(IpVersion::V4), Just(IpVersion::V6)];
        let payload = prop_oneof![8 => 18..60_usize, 1 => 18..1500_usize];
        (0..4_usize, version, any::<bool>(), upper, payload).prop_map(
            |(tags, version, options, upper, payload)| Make {
                tags: if tags == 3 { 0 } else { tags },
                version,
                options,
                upper,
                payload,
            },
        )
    }

    /// What the network does next.
    #[derive(Debug, Clone)]
    enum Step {
        /// Delivers the next frame of a stream: stream, frames lost before it, and lateness.
        Next(usize, u64, u64),
        /// Delivers an earlier frame: a duplicate of one that came, or one that was missing.
        Back(usize, u64, u64),
        /// Delivers the next frame with a flipped bit.
        Damaged(usize, usize),
        /// Delivers the next frame truncated or extended.
        Length(usize, isize),
        /// Delivers the next number with another nonce.
        Nonce(usize, u16),
        /// Delivers a frame without a departure time.
        Untimed(usize),
        /// Delivers a frame before its departure.
        Early(usize, u64),
        /// Delivers random bytes.
        Noise(Vec<u8>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let stream = 0..4_usize;
        let latency = prop_oneof![0..200_u64, 0..3_000_000_u64, 0..(1_u64 << 44)];
        let lost =
            prop_oneof![12 => Just(0_u64), 2 => 1..10_u64, 1 => 1..300_u64, 1 => 0..200_000_u64];
        let edge = crate::analysis::WINDOW - 1..crate::analysis::WINDOW + 3;
        let back = prop_oneof![6 => 1..12_u64, 2 => 1..400_u64, 1 => 1..140_000_u64, 1 => edge];
        let step = prop_oneof![
            12 => (stream.clone(), lost, latency.clone()).prop_map(|(s, n, l)| Step::Next(s, n, l)),
            6 => (stream.clone(), back, latency).prop_map(|(s, n, l)| Step::Back(s, n, l)),
            2 => (stream.clone(), any::<usize>()).prop_map(|(s, bit)| Step::Damaged(s, bit)),
            2 => (stream.clone(), -60..20_isize).prop_map(|(s, by)| Step::Length(s, by)),
            1 => (stream.clone(), prop_oneof![280..320_u16, any::<u16>()])
                .prop_map(|(s, nonce)| Step::Nonce(s, nonce)),
            1 => stream.clone().prop_map(Step::Untimed),
            1 => (stream, 1..1000_u64).prop_map(|(s, by)| Step::Early(s, by)),
            1 => proptest::collection::vec(any::<u8>(), 14..200).prop_map(Step::Noise),
        ];
        proptest::collection::vec(step, 1..150)
    }

    fn plan() -> AnalysisPlan {
        let stream = |id, flows, lengths: Option<[u16; 2]>| StreamPlan {
            id,
            flows,
            lengths: lengths.map(|[shortest, longest]| Lengths { shortest, longest }),
        };
        AnalysisPlan {
            streams: vec![
                stream(7, 0, None),
                stream(0, 3, Some([60, 90])),
                stream(300, 2050, Some([32, 1514])),
            ],
        }
    }

    /// Returns the frames of some steps and their arrival times.
    fn frames(steps: &[Step], make: &Make) -> Vec<(Vec<u8>, u64)> {
        // the last is not in the plan
        let ids = [7, 0, 300, 301];
        let mut next = [0_u64; 4];
        let mut now = 1 << 45;
        steps
            .iter()
            .map(|step| {
                now += 700;
                let mut of = |stream: usize, skip: u64, timestamp_ns: u64| {
                    let sequence = next[stream] + skip;
                    next[stream] = sequence + 1;
                    Signature {
                        nonce: NONCE,
                        stream: ids[stream],
                        sequence,
                        timestamp_ns,
                    }
                };
                let bytes = match *step {
                    Step::Next(stream, lost, latency) => {
                        frame(make, &of(stream, lost, now - latency))
                    }
                    Step::Back(stream, back, latency) => {
                        let sequence = next[stream].saturating_sub(back);
                        let signature = Signature {
                            nonce: NONCE,
                            stream: ids[stream],
                            sequence,
                            timestamp_ns: now - latency,
                        };
                        frame(make, &signature)
                    }
                    Step::Damaged(stream, bit) => {
                        let mut bytes = frame(make, &of(stream, 0, now - 10));
                        let bit = bit % (bytes.len() * 8);
                        bytes[bit / 8] ^= 1 << (bit % 8);
                        bytes
                    }
                    Step::Length(stream, by) => {
                        let mut bytes = frame(make, &of(stream, 0, now - 10));
                        bytes.resize(bytes.len().saturating_add_signed(by).max(14), 0);
                        bytes
                    }
                    Step::Nonce(stream, nonce) => frame(
                        make,
                        &Signature {
                            nonce,
                            ..of(stream, 0, now - 10)
                        },
                    ),
                    Step::Untimed(stream) => frame(make, &of(stream, 0, 0)),
                    Step::Early(stream, by) => frame(make, &of(stream, 0, now + by)),
                    Step::Noise(ref bytes) => bytes.clone(),
                };
                (bytes, now)
            })
            .collect()
    }

    fn expected(place: SignaturePlace, analysis: Option<AnalysisPlan>) -> Expected {
        Expected {
            nonce: NONCE,
            buffer_bytes: None,
            place,
            analysis,
        }
    }

    #[test]
    fn the_program_in_the_kernel_finds_what_the_analyser_finds() {
        let Some(bench) = Bench::new(Task::Analyse(Shape::for_plan(&plan())), "analyse_at") else {
            return;
        };
        let bench = RefCell::new(bench);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let place = prop_oneof![Just(SignaturePlace::UdpPayload), Just(SignaturePlace::Tail)];
        runner
            .run(&(steps(), makes(), place), |(steps, make, place)| {
                let expected = expected(place, Some(plan()));
                let mut bench = bench.borrow_mut();
                let mut analyser = Analyser::new("test", &expected).unwrap();
                bench.loaded.expect(&expected).unwrap();
                let before = bench.loaded.counts().unwrap();
                for (bytes, now) in frames(&steps, &make) {
                    let verdict = match analyser.frame(&bytes, now) {
                        FrameClass::Ours | FrameClass::Late => XDP_DROP,
                        FrameClass::Foreign => XDP_PASS,
                    };
                    prop_assert_eq!(bench.frame(&bytes, Some(now)), verdict, "{:02x?}", bytes);
                }
                let counts = bench.loaded.counts().unwrap();
                let ours = analyser.counts();
                prop_assert_eq!(counts.received - before.received, ours.received);
                prop_assert_eq!(counts.late - before.late, ours.late);
                prop_assert_eq!(counts.foreign - before.foreign, ours.foreign);
                prop_assert_eq!(counts.wrong_length - before.wrong_length, ours.wrong_length);
                let found = bench.loaded.analysing.as_ref().unwrap().read().unwrap();
                for (found, analysed) in found
                    .streams
                    .iter()
                    .zip(analyser.analysis(Origins::default()).streams)
                {
                    prop_assert_eq!(found, &analysed);
                }
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn programs_that_count_find_signatures_where_they_are() {
        for (place, name) in [
            (SignaturePlace::UdpPayload, "count"),
            (SignaturePlace::Tail, "count_tail"),
        ] {
            let Some(mut bench) = Bench::new(Task::Count(place), name) else {
                return;
            };
            let expected = expected(place, None);
            bench.loaded.expect(&expected).unwrap();
            let bench = RefCell::new(bench);
            let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
                cases: 300,
                failure_persistence: None,
                ..ProptestConfig::default()
            });
            // counts of all streams: the analyser gets a plan for every stream that is sent
            let mut all = plan();
            all.streams.push(StreamPlan {
                id: 301,
                ..StreamPlan::default()
            });
            runner
                .run(&(steps(), makes()), |(steps, make)| {
                    let expected = Expected {
                        analysis: Some(all.clone()),
                        ..expected.clone()
                    };
                    let mut bench = bench.borrow_mut();
                    let mut analyser = Analyser::new("test", &expected).unwrap();
                    for (bytes, now) in frames(&steps, &make) {
                        let seen = analyser.frame(&bytes, now);
                        let id = signature::network(&bytes)
                            .and_then(|n| signature::find(&bytes, n, place))
                            .and_then(Signature::read)
                            .filter(|signature| signature.nonce == NONCE);
                        // the stream number may be damaged
                        if seen == FrameClass::Foreign && id.is_some() {
                            continue;
                        }
                        let verdict = if seen == FrameClass::Foreign {
                            XDP_PASS
                        } else {
                            XDP_DROP
                        };
                        prop_assert_eq!(bench.frame(&bytes, None), verdict, "{:02x?}", bytes);
                    }
                    Ok(())
                })
                .unwrap();
        }
    }

    #[test]
    fn flow_labels_are_counted_behind_tags() {
        let place = SignaturePlace::FlowLabel;
        let Some(mut bench) = Bench::new(Task::Count(place), "count_label") else {
            return;
        };
        bench.loaded.expect(&expected(place, None)).unwrap();
        let make = |tags, version| Make {
            tags,
            version,
            options: false,
            upper: Upper::Udp,
            payload: 18,
        };
        for (version, tags, label, verdict) in [
            (IpVersion::V6, 0, signature::flow_label(NONCE), XDP_DROP),
            (IpVersion::V6, 1, signature::flow_label(NONCE), XDP_DROP),
            (IpVersion::V6, 2, signature::flow_label(NONCE - 1), XDP_DROP),
            (IpVersion::V6, 0, signature::flow_label(NONCE + 1), XDP_PASS),
            (IpVersion::V6, 0, 0x8_0000 + u32::from(NONCE), XDP_PASS),
            (IpVersion::V4, 0, 0, XDP_PASS),
        ] {
            let mut bytes = frame(&make(tags, version), &Signature::default());
            if let Some(at) = signature::flow_label_at(&bytes) {
                let label = label.to_be_bytes();
                bytes[at] = label[1];
                bytes[at + 1..at + 3].copy_from_slice(&label[2..]);
            }
            assert_eq!(bench.frame(&bytes, None), verdict, "{tags} {label:x}");
            // too short for IPv6
            let short = &bytes[..(14 + 4 * tags + 39).min(bytes.len())];
            if version == IpVersion::V6 {
                assert_eq!(bench.frame(short, None), XDP_PASS);
            }
        }
        let counts = bench.loaded.counts().unwrap();
        assert_eq!((counts.received, counts.late), (2, 1));
    }

    #[test]
    fn a_million_flows_are_counted_one_by_one() {
        const FLOWS: u32 = 1_048_577;
        let plan = AnalysisPlan {
            streams: vec![StreamPlan {
                id: 1,
                flows: FLOWS,
                lengths: None,
            }],
        };
        let Some(mut bench) = Bench::new(Task::Analyse(Shape::for_plan(&plan)), "analyse") else {
            return;
        };
        let expected = expected(SignaturePlace::UdpPayload, Some(plan));
        bench.loaded.expect(&expected).unwrap();
        let make = Make {
            tags: 0,
            version: IpVersion::V6,
            options: false,
            upper: Upper::Udp,
            payload: 18,
        };
        let last = u64::from(FLOWS) - 1;
        for sequence in [0, 5, 1024, last, last + 1, 3 * (last + 1) + 5] {
            let signature = Signature {
                nonce: NONCE,
                stream: 1,
                sequence,
                timestamp_ns: 0,
            };
            assert_eq!(bench.frame(&frame(&make, &signature), None), XDP_DROP);
        }
        let found = bench.loaded.analysing.as_ref().unwrap().read().unwrap();
        let stream = &found.streams[0];
        assert_eq!(stream.flows.len(), FLOWS as usize);
        let arrived = (0..FLOWS).filter(|&flow| stream.flows[flow as usize] > 0);
        assert_eq!(arrived.collect::<Vec<_>>(), [0, 5, 1024, FLOWS - 1]);
        assert_eq!((stream.flows[0], stream.flows[5]), (2, 2));
        assert_eq!(stream.silent_flows().count(), FLOWS as usize - 4);
    }

    /// Two CPUs run the program over frames of one stream as fast as possible: nothing is counted
    /// twice or missed.
    #[test]
    fn two_cpus_at_once_lose_no_count() {
        const RUNS: u32 = 200_000;
        let Some(mut bench) = Bench::new(Task::Analyse(Shape::for_plan(&plan())), "analyse") else {
            return;
        };
        let expected = expected(SignaturePlace::UdpPayload, Some(plan()));
        bench.loaded.expect(&expected).unwrap();
        let make = Make {
            tags: 0,
            version: IpVersion::V4,
            options: false,
            upper: Upper::Udp,
            payload: 18,
        };
        let numbered = |sequence| {
            let signature = Signature {
                nonce: NONCE,
                stream: 300,
                sequence,
                timestamp_ns: 0,
            };
            frame(&make, &signature)
        };
        // the newest frame first, so that all others are older; each time they are counted in their
        // flow
        let newest = 10 * crate::analysis::WINDOW;
        let before = bench.loaded.counts().unwrap();
        bench.frame(&numbered(newest), None);
        let ready = std::sync::Barrier::new(2);
        let may = rustix::thread::sched_getaffinity(None).unwrap();
        let cpus: Vec<usize> = (0..1024).filter(|&cpu| may.is_set(cpu)).collect();
        let [first, second, ..] = cpus[..] else {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: two_cpus_at_once_lose_no_count: one CPU"
            );
            return;
        };
        let run = |cpu: usize, bytes: &[u8]| {
            crate::port::pin(&[cpu]).unwrap();
            let program: &Xdp = bench
                .loaded
                .programs
                .program("analyse")
                .unwrap()
                .try_into()
                .unwrap();
            ready.wait();
            let result = program.test_run(TestRunOptions {
                data_in: Some(bytes),
                repeat: RUNS,
                ..TestRunOptions::new()
            });
            assert_eq!(result.unwrap().return_value, XDP_DROP);
        };
        // both belong to flow 5 of 2050; then duplicates
        let (one, other) = (numbered(5), numbered(2055));
        std::thread::scope(|scope| {
            scope.spawn(|| run(first, &one));
            scope.spawn(|| run(second, &other));
        });
        let newest = numbered(newest);
        std::thread::scope(|scope| {
            scope.spawn(|| run(first, &newest));
            scope.spawn(|| run(second, &newest));
        });
        let runs = u64::from(RUNS);
        let found = bench.loaded.analysing.as_ref().unwrap().read().unwrap();
        let stream = &found.streams[2];
        assert_eq!((stream.received, stream.older), (4 * runs + 1, 2 * runs));
        assert_eq!((stream.duplicates, stream.corrupt), (2 * runs, 0));
        assert_eq!(stream.bytes, (4 * runs + 1) * 60);
        assert_eq!(u64::from(stream.flows[5]), 2 * runs);
        let counts = bench.loaded.counts().unwrap();
        assert_eq!(counts.received - before.received, 4 * runs + 1);
    }
}
