//! What a receiver should expect: the streams, the lengths of their frames, and the flow of each
//! frame.
//!
//! The receiver counts numbers: frame n of a stream counts for n modulo the stream's cycle, after
//! which the same flows repeat in the same order. This file maps numbers to flows, by the addresses
//! and ports of the frames themselves, so that a flow that never arrived has a name. Start with
//! [`Expectation::from_frames`].

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::ops::{ControlFlow, Range};

use fwdlab_packet::decode::decode;
use fwdlab_packet::modifier::{Instruction, MIN_TRIM, Machine};
use fwdlab_packet::stack::Layer;
use fwdlab_packet::{Addresses, FlowSet, Signature};

use super::player::{gcd, lcm};
use super::share::{self, Share};
use super::{Frames, Kind, Stream};
use crate::analysis::{Analysis, AnalysisPlan, Lengths, MAX_FLOWS, StreamAnalysis, StreamPlan};
use crate::signature::{self, SignaturePlace};

/// The longest cycle whose frames are examined one by one: some 100 MB and a second.
pub const MOST_FRAMES: u64 = 1 << 22;

/// Frames of an endless or longer cycle to examine if only the number of flows is needed.
const LOOKED_AT: u32 = 1 << 18;

/// The streams of some frames, as their receiver sees them.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// Streams whose frames can be identified, in the order of the traffic.
    pub streams: Vec<StreamExpected>,
    /// Names of streams that are sent but cannot be checked: some of their frames have no 18-byte
    /// signature.
    pub unsigned: Vec<String>,
}

/// A stream, as its receiver sees it.
#[derive(Debug, Clone)]
pub struct StreamExpected {
    /// Its number in signatures.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its index among the traffic's streams.
    pub index: usize,
    /// Lengths of its frames, for [`StreamPlan::lengths`].
    pub lengths: Option<Lengths>,
    /// Its flows, or why they cannot be counted.
    pub flows: Result<Flows, Uncounted>,
    /// Number of senders that share its frames ([`share`]): each numbers its own.
    pub senders: u32,
}

/// Why the flows of a stream cannot be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncounted {
    /// They were not requested.
    Unasked,
    /// They never repeat in the same order.
    Endless,
    /// They repeat after more than [`MOST_FRAMES`] frames.
    TooMany,
}

/// The flow of each frame of a stream.
#[derive(Debug, Clone)]
pub struct Flows {
    carried: Carried,
}

#[derive(Debug, Clone)]
enum Carried {
    /// Consecutive flows, repeated; nothing else is known about them.
    Numbers(u32),
    /// Consecutive flows of a set, repeated.
    Set(FlowSet),
    /// The flows that the frames of a cycle carry.
    Cycle {
        /// The flow of each frame. Flows are numbered in the order of their first frames.
        of_frame: Box<[u32]>,
        /// The first frame of each flow.
        first: Box<[u32]>,
    },
}

impl Expectation {
    /// Returns what to expect of these frames. Writes every frame of a cycle once, which may take a
    /// second.
    pub fn from_frames(frames: &Frames) -> Expectation {
        let traffic = match frames {
            Frames::Traffic(frames) => &frames.traffic,
            Frames::Test(frames) => {
                let bytes = frames.template.buffer_len() as u16;
                let flows = match frames.flows.len() {
                    ..=MAX_FLOWS => Ok(Flows {
                        carried: Carried::Set(frames.flows),
                    }),
                    _ => Err(Uncounted::TooMany),
                };
                let stream = StreamExpected {
                    id: 0,
                    name: "test frames".into(),
                    index: 0,
                    lengths: Some(Lengths {
                        shortest: bytes,
                        longest: bytes,
                    }),
                    flows,
                    senders: 1,
                };
                return Expectation {
                    streams: vec![stream],
                    unsigned: Vec::new(),
                };
            }
        };
        let mut expectation = Expectation::default();
        for (index, stream) in traffic.streams.iter().enumerate() {
            if !stream.kinds.iter().all(Kind::is_signed) {
                expectation.unsigned.push(stream.name.clone());
                continue;
            }
            let walked = walk(stream);
            // a DUT may have changed the bytes before a signature at the end of a frame
            let at_end = (stream.kinds.iter()).any(|k| k.place == Some(SignaturePlace::Tail));
            let lengths = match &walked {
                Ok((_, lengths)) => *lengths,
                Err(_) => lengths_of(stream),
            };
            expectation.streams.push(StreamExpected {
                id: stream.id,
                name: stream.name.clone(),
                index,
                lengths: (!at_end).then_some(lengths),
                flows: walked.map(|(flows, _)| flows),
                senders: 1,
            });
        }
        expectation
    }

    /// Returns what to expect of the streams of a plan, which carry these frames.
    pub fn from_plan(plan: &AnalysisPlan, frames: &Frames) -> Expectation {
        let index = |id: u16| match frames {
            Frames::Test(_) => Some(0),
            Frames::Traffic(frames) => frames.traffic.streams.iter().position(|s| s.id == id),
        };
        let of_stream = |stream: &StreamPlan| StreamExpected {
            id: stream.id,
            name: String::new(),
            // no stream has this id: its frames are not split
            index: index(stream.id).unwrap_or(usize::MAX),
            lengths: stream.lengths,
            flows: match stream.flows {
                0 => Err(Uncounted::Unasked),
                flows => Ok(Flows::numbered(flows)),
            },
            senders: 1,
        };
        Expectation {
            streams: plan.streams.iter().map(of_stream).collect(),
            unsigned: Vec::new(),
        }
    }

    /// Returns what to expect of the same frames from several senders of one port.
    #[must_use]
    pub fn from_senders(mut self, frames: &Frames, senders: u32) -> Expectation {
        for stream in &mut self.streams {
            let is_split = match frames {
                Frames::Test(_) => senders > 1,
                Frames::Traffic(frames) => share::is_split(&frames.traffic, stream.index, senders),
            };
            stream.senders = if is_split { senders } else { 1 };
        }
        self
    }

    /// Returns the plan for the receiver: each sender's frames of a stream are one of its streams.
    /// [`Expectation::together`] joins them again.
    pub fn plan(&self) -> AnalysisPlan {
        let of_sender = |stream: &StreamExpected, share: Share| StreamPlan {
            id: share.id(stream.id),
            flows: stream.flows.as_ref().map_or(0, |flows| {
                let cycle = flows.cycle();
                cycle / gcd(cycle.into(), share.of.into()).max(1) as u32
            }),
            lengths: stream.lengths,
        };
        let streams = self.streams.iter().flat_map(|stream| {
            let shares = stream.shares();
            shares.map(move |share| of_sender(stream, share))
        });
        AnalysisPlan {
            streams: streams.collect(),
        }
    }

    /// Joins what was found of each sender's frames: the results of each stream, in order.
    ///
    /// Counts add up. Order, duplicates, jitter and the differences between the latencies of
    /// consecutive frames are those of the frames of one sender: two senders do not wait for each
    /// other, so the order of their frames says nothing about the DUT. The jitter is the mean of
    /// the senders', each weighted by its timed frames.
    #[must_use]
    pub fn together(&self, analysis: Analysis) -> Analysis {
        let mut of_senders = analysis.streams.into_iter();
        let of_stream = |stream: &StreamExpected| {
            let mut found = of_senders.by_ref().take(stream.senders as usize);
            match stream.senders {
                1 => found.next().unwrap_or_default(),
                _ => stream.together(&found.collect::<Vec<_>>()),
            }
        };
        Analysis {
            streams: self.streams.iter().map(of_stream).collect(),
            ..analysis
        }
    }
}

impl StreamExpected {
    fn shares(&self) -> impl Iterator<Item = Share> + use<> {
        let of = self.senders;
        (0..of).map(move |sender| Share { sender, of })
    }

    fn together(&self, found: &[StreamAnalysis]) -> StreamAnalysis {
        let mut all = StreamAnalysis {
            id: self.id,
            flows: vec![0; self.flows.as_ref().map_or(0, Flows::cycle) as usize],
            ..StreamAnalysis::default()
        };
        let mut weighted_jitter = 0_u128;
        for (own, share) in found.iter().zip(self.shares()) {
            all.received += own.received;
            all.bytes += own.bytes;
            all.duplicates += own.duplicates;
            all.reordered += own.reordered;
            all.reordering_extent = all.reordering_extent.max(own.reordering_extent);
            all.older += own.older;
            all.corrupt += own.corrupt;
            all.wrong_length += own.wrong_length;
            all.early += own.early;
            all.next += own.next;
            if own.first_ns > 0 && (all.first_ns == 0 || own.first_ns < all.first_ns) {
                all.first_ns = own.first_ns;
            }
            all.last_ns = all.last_ns.max(own.last_ns);
            if !own.latency.is_empty() {
                all.latency_min_ns = match all.latency.len() {
                    0 => own.latency_min_ns,
                    _ => all.latency_min_ns.min(own.latency_min_ns),
                };
            }
            all.latency.merge(&own.latency);
            all.latency_max_ns = all.latency_max_ns.max(own.latency_max_ns);
            all.latency_sum_ns = all.latency_sum_ns.wrapping_add(own.latency_sum_ns);
            weighted_jitter += u128::from(own.jitter_16ths_ns) * u128::from(own.latency.len());
            all.delay_variation.merge(&own.delay_variation);
            let cycle = all.flows.len() as u64;
            for (number, frames) in (0..).zip(&own.flows) {
                let frame = share.first(self.index) + number * u64::from(share.of);
                let flow = &mut all.flows[(frame % cycle) as usize];
                *flow = flow.wrapping_add(*frames);
            }
        }
        let timed = u128::from(all.latency.len().max(1));
        all.jitter_16ths_ns = (weighted_jitter / timed) as u64;
        all
    }

    /// Returns up to which number all frames of the stream were sent, given how many each sender
    /// sent of it.
    pub fn complete(&self, of_senders: &[u64]) -> u64 {
        let frames = self.shares().zip(of_senders).map(|(share, frames)| {
            let first = if share.of > 1 {
                share.first(self.index)
            } else {
                0
            };
            first + frames * u64::from(share.of)
        });
        frames.min().unwrap_or(0)
    }

    /// Returns true if every flow is sent by one sender, so that no frame of a flow can overtake
    /// another: the number of flows must be a multiple of the number of senders. `None` if the
    /// flows are not known.
    pub fn keeps_flows(&self) -> Option<bool> {
        let (flows, senders) = (self.flows.as_ref().ok()?, self.senders);
        let Carried::Cycle { of_frame, first } = &flows.carried else {
            return Some(flows.cycle().is_multiple_of(senders));
        };
        let is_first = |(frame, &flow): (usize, &u32)| {
            frame as u32 % senders == first[flow as usize] % senders
        };
        let all_first = of_frame.iter().enumerate().all(is_first);
        Some(flows.cycle().is_multiple_of(senders) && all_first)
    }
}

impl Flows {
    /// Returns this number of consecutive flows, about which nothing else is known.
    pub fn numbered(flows: u32) -> Flows {
        Flows {
            carried: Carried::Numbers(flows),
        }
    }

    /// Returns the number of frames after which the same flows repeat in the same order.
    pub fn cycle(&self) -> u32 {
        match &self.carried {
            Carried::Numbers(flows) => *flows,
            Carried::Set(set) => set.len() as u32,
            Carried::Cycle { of_frame, .. } => of_frame.len() as u32,
        }
    }

    /// Returns the number of flows.
    pub fn count(&self) -> u32 {
        match &self.carried {
            Carried::Cycle { first, .. } => first.len() as u32,
            _ => self.cycle(),
        }
    }

    /// Returns how many of them are in the first `frames` frames: these are the first flows.
    pub fn among(&self, frames: u64) -> u32 {
        match &self.carried {
            Carried::Cycle { first, .. } => {
                first.partition_point(|&frame| u64::from(frame) < frames) as u32
            }
            _ => frames.min(self.cycle().into()) as u32,
        }
    }

    /// Returns how often each flow arrived, given how often each number of the cycle did.
    pub fn arrivals(&self, numbers: &[u32]) -> Vec<u64> {
        let mut arrivals = vec![0; self.count() as usize];
        for (number, &frames) in numbers.iter().enumerate() {
            let flow = match &self.carried {
                Carried::Cycle { of_frame, .. } => of_frame[number] as usize,
                _ => number,
            };
            arrivals[flow] += u64::from(frames);
        }
        arrivals
    }

    /// Returns addresses and ports of these flows, in the same order. `stream`: their stream.
    pub fn names(&self, requested: &[u32], stream: Option<&Stream>) -> Vec<String> {
        match (&self.carried, stream) {
            (Carried::Set(set), _) => requested
                .iter()
                .map(|&flow| name_in_set(set, flow.into()))
                .collect(),
            (Carried::Cycle { first, .. }, Some(stream)) => {
                let mut names = vec![String::new(); requested.len()];
                let last = requested.iter().map(|&flow| first[flow as usize]).max();
                for_each_frame(
                    stream,
                    last.map_or(0, |last| last + 1),
                    |number, _, frame| {
                        for (name, &flow) in names.iter_mut().zip(requested) {
                            if first[flow as usize] == number {
                                *name = name_of(frame);
                            }
                        }
                        ControlFlow::Continue(())
                    },
                );
                names
            }
            _ => requested
                .iter()
                .map(|flow| format!("flow {flow}"))
                .collect(),
        }
    }
}

/// Returns the number of flows of these streams, as far as their frames are examined, and whether
/// that is all of them: not if frames do not soon repeat in the same order and new flows still
/// appear in the second half of the examined frames.
pub fn count_flows(streams: &[Stream]) -> (u32, bool) {
    let (mut count, mut is_all) = (0_u32, true);
    for stream in streams {
        let keys: Vec<Key> = stream
            .kinds
            .iter()
            .map(|k| Key::from_template(&k.template))
            .collect();
        let (mut seen, mut key) = (HashSet::<u64>::new(), Vec::new());
        let (frames, is_whole) = match cycle(stream) {
            Ok(cycle) => (cycle, true),
            Err(_) => (LOOKED_AT, false),
        };
        let hashes = RandomState::new();
        let mut newest = 0;
        for_each_frame(stream, frames, |number, kind, frame| {
            keys[kind].read(frame, &mut key);
            // among four million flows, two have the same hash once in two million runs
            if seen.insert(hashes.hash_one(&key)) {
                newest = number;
            }
            ControlFlow::Continue(())
        });
        count = count.saturating_add(seen.len() as u32);
        is_all &= is_whole || newest < frames / 2;
    }
    (count, is_all)
}

/// Walks through the cycle of a stream, frame by frame.
fn walk(stream: &Stream) -> Result<(Flows, Lengths), Uncounted> {
    let cycle = cycle(stream)?;
    let keys: Vec<Key> = stream
        .kinds
        .iter()
        .map(|k| Key::from_template(&k.template))
        .collect();
    let mut numbers: HashMap<Box<[u8]>, u32> = HashMap::new();
    let (mut of_frame, mut first) = (Vec::with_capacity(cycle as usize), Vec::new());
    let mut lengths: Option<Lengths> = None;
    let mut key = Vec::new();
    for_each_frame(stream, cycle, |number, kind, frame| {
        keys[kind].read(frame, &mut key);
        let flow = match numbers.get(key.as_slice()) {
            Some(&flow) => flow,
            None => {
                let flow = first.len() as u32;
                numbers.insert(key.as_slice().into(), flow);
                first.push(number);
                flow
            }
        };
        of_frame.push(flow);
        let len = untagged(frame);
        let known = lengths.get_or_insert(Lengths {
            shortest: len,
            longest: len,
        });
        known.shortest = known.shortest.min(len);
        known.longest = known.longest.max(len);
        ControlFlow::Continue(())
    });
    let carried = Carried::Cycle {
        of_frame: of_frame.into(),
        first: first.into(),
    };
    Ok((Flows { carried }, lengths.ok_or(Uncounted::Endless)?))
}

/// Returns the number of frames of a stream after which everything but the signatures repeats.
///
/// Of P frames of the pattern c are of one kind, which repeats after F of its frames: so all its
/// flows have been at all their positions in the pattern after F / gcd(F, c) patterns.
fn cycle(stream: &Stream) -> Result<u32, Uncounted> {
    let mut often = vec![0_u64; stream.kinds.len()];
    for &kind in &stream.pattern {
        often[usize::from(kind)] += 1;
    }
    let mut rounds = 1;
    for (machine, often) in machines(stream).into_iter().zip(often) {
        let period = match machine.map(|machine| machine.period()) {
            _ if often == 0 => continue,
            Some(Some(period)) => period,
            _ => return Err(Uncounted::Endless),
        };
        rounds = lcm(rounds, period / gcd(period, often)).ok_or(Uncounted::TooMany)?;
    }
    match rounds.checked_mul(stream.pattern.len() as u64) {
        Some(cycle @ 1..=MOST_FRAMES) => Ok(cycle as u32),
        _ => Err(Uncounted::TooMany),
    }
}

/// Returns the programs of a stream without their signatures; `None` for one that cannot be played,
/// which the sender reports.
fn machines(stream: &Stream) -> Vec<Option<Machine>> {
    let machine = |kind: &Kind| {
        let mut program = kind.program.clone();
        (program.instructions).retain(|i| !matches!(i, Instruction::Signature { .. }));
        program.machine(&kind.template).ok()
    };
    stream.kinds.iter().map(machine).collect()
}

/// Writes the first `frames` frames of a stream, without signatures, and passes on number, kind and
/// bytes.
fn for_each_frame(
    stream: &Stream,
    frames: u32,
    mut look: impl FnMut(u32, usize, &[u8]) -> ControlFlow<()>,
) {
    let mut machines = machines(stream);
    let longest = stream.kinds.iter().map(|kind| kind.template.len()).max();
    let mut buffer = vec![0; longest.unwrap_or(0)];
    let signature = Signature {
        nonce: 0,
        stream: stream.id,
        sequence: 0,
        timestamp_ns: 0,
    };
    for (number, &kind) in (0..frames).zip(stream.pattern.iter().cycle()) {
        let kind = usize::from(kind);
        let Some(Some(machine)) = machines.get_mut(kind) else {
            return;
        };
        let len = machine.render(&mut buffer, &signature);
        if look(number, kind, &buffer[..len]).is_break() {
            return;
        }
    }
}

/// Returns the lengths of frames that cannot all be examined.
fn lengths_of(stream: &Stream) -> Lengths {
    let mut lengths = Lengths {
        shortest: u16::MAX,
        longest: 0,
    };
    for kind in &stream.kinds {
        let longest = untagged(&kind.template);
        let cuts = |i: &Instruction| matches!(i, Instruction::Trim { .. });
        let shortest = match kind.program.instructions.iter().any(cuts) {
            // with the maximum number of tags
            true => (MIN_TRIM - 8).min(longest),
            false => longest,
        };
        lengths.shortest = lengths.shortest.min(shortest);
        lengths.longest = lengths.longest.max(longest);
    }
    lengths
}

/// Returns the bytes of a frame without its tags.
fn untagged(frame: &[u8]) -> u16 {
    let tags = signature::network(frame).map_or(0, signature::Network::tag_bytes);
    (frame.len() - tags) as u16
}

/// The bytes that identify the flow of a kind's frames: addresses, protocol and ports of every IP
/// header, and the tags, labels and networks around it; without an IP header, the Ethernet header.
///
/// A receiver needs none of them: it knows a frame's flow by its number. So it does not matter what
/// a DUT does to tags, and whether the receiving port removes them.
struct Key {
    /// Frames with different headers are in different flows, regardless of their bytes.
    headers: Vec<u8>,
    parts: Vec<Part>,
}

/// Bytes of a frame, without the bits before and behind an identifier.
struct Part {
    at: Range<usize>,
    first_mask: u8,
    last_mask: u8,
}

const WHOLE: [u8; 2] = [0xff; 2];

impl Key {
    fn from_template(template: &[u8]) -> Key {
        let decoded = decode(template);
        let mut key = Key {
            headers: Vec::new(),
            parts: Vec::new(),
        };
        let mut has_ip = false;
        for (layer, &at) in decoded.layers.iter().zip(&decoded.offsets) {
            // the code of the header here, its fields, and the bits of an identifier in its first
            // and its last byte
            let (header, fields, [first_mask, last_mask]): (u8, &[(usize, usize)], [u8; 2]) =
                match layer {
                    Layer::Ipv4(_) => (4, &[(9, 10), (12, 20)], WHOLE),
                    Layer::Ipv6(_) => (6, &[(6, 7), (8, 40)], WHOLE),
                    Layer::Udp(_) | Layer::Tcp(_) => (1, &[(0, 4)], WHOLE),
                    // without priority
                    Layer::Vlan(_) => (2, &[(0, 2)], [0x0f, 0xff]),
                    // without traffic class and bottom of stack
                    Layer::Mpls(_) => (3, &[(0, 3)], [0xff, 0xf0]),
                    Layer::Vxlan(_) => (5, &[(4, 7)], WHOLE),
                    Layer::Gre(gre) => match (gre.key, gre.checksum) {
                        (Some(_), false) => (7, &[(4, 8)], WHOLE),
                        (Some(_), true) => (7, &[(8, 12)], WHOLE),
                        (None, _) => continue,
                    },
                    _ => continue,
                };
            has_ip |= matches!(layer, Layer::Ipv4(_) | Layer::Ipv6(_));
            key.headers.push(header);
            key.parts.extend(fields.iter().map(|&(from, to)| Part {
                at: at + from..at + to,
                first_mask,
                last_mask,
            }));
        }
        if !has_ip {
            let [first_mask, last_mask] = WHOLE;
            key.parts.push(Part {
                at: 0..14,
                first_mask,
                last_mask,
            });
        }
        key
    }

    /// A truncated frame keeps the rest of its headers.
    fn read(&self, frame: &[u8], key: &mut Vec<u8>) {
        key.clear();
        key.extend(&self.headers);
        for part in &self.parts {
            let start = key.len();
            key.extend(frame.get(part.at.clone()).unwrap_or_default());
            if let [first, .., last] = &mut key[start..] {
                *first &= part.first_mask;
                *last &= part.last_mask;
            }
        }
    }
}

fn name_in_set(set: &FlowSet, index: u64) -> String {
    let flow = set.flow(index);
    let (from, to): (IpAddr, IpAddr) = match flow.addresses {
        Addresses::V4 {
            source,
            destination,
        } => (source.into(), destination.into()),
        Addresses::V6 {
            source,
            destination,
        } => (source.into(), destination.into()),
    };
    ends(from, to, Some((flow.source_port, flow.destination_port)))
}

/// Returns the innermost addresses and ports of a frame: `198.18.10.3:2000 > 198.19.10.7:2000`. A
/// protocol other than UDP follows, then the encapsulation, as in `VLAN 100/7`.
fn name_of(frame: &[u8]) -> String {
    let decoded = decode(frame);
    let (mut addresses, mut ports, mut protocol) = (None, None, None);
    let mut inside = String::new();
    let mut before = "";
    for layer in &decoded.layers {
        if let Some(identifier) = identifier(layer) {
            inside += &match layer.name() {
                name if name == before => format!("/{identifier}"),
                name => format!(" {name} {identifier}"),
            };
        }
        before = layer.name();
        match layer {
            Layer::Ipv4(ip) => {
                addresses = Some((IpAddr::from(ip.source), IpAddr::from(ip.destination)));
                (ports, protocol) = (None, None);
            }
            Layer::Ipv6(ip) => {
                addresses = Some((IpAddr::from(ip.source), IpAddr::from(ip.destination)));
                (ports, protocol) = (None, None);
            }
            Layer::Udp(udp) => ports = Some((udp.source_port, udp.destination_port)),
            Layer::Tcp(tcp) => {
                ports = Some((tcp.source_port, tcp.destination_port));
                protocol = Some("TCP");
            }
            Layer::Payload(_) => {}
            other => protocol = protocol.or(Some(other.name())),
        }
    }
    let name = match (addresses, decoded.layers.first()) {
        (Some((from, to)), _) => match protocol {
            Some(protocol) => format!("{} {protocol}", ends(from, to, ports)),
            None => ends(from, to, ports),
        },
        (None, Some(Layer::Ethernet(ethernet))) => {
            format!("{} > {}", ethernet.source, ethernet.destination)
        }
        _ => "a frame without addresses".into(),
    };
    name + &inside
}

/// Returns what distinguishes frames with such a header from each other.
fn identifier(layer: &Layer) -> Option<u32> {
    match layer {
        Layer::Vlan(tag) => Some(tag.id.into()),
        Layer::Mpls(entry) => Some(entry.label),
        Layer::Vxlan(network) => Some(network.vni),
        Layer::Gre(tunnel) => tunnel.key,
        _ => None,
    }
}

fn ends(from: IpAddr, to: IpAddr, ports: Option<(u16, u16)>) -> String {
    match ports {
        Some((a, b)) => format!("{} > {}", SocketAddr::new(from, a), SocketAddr::new(to, b)),
        None => format!("{from} > {to}"),
    }
}
