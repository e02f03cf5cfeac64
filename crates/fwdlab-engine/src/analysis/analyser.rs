//! The analysis in user space: takes frames and their times of arrival, and returns counts and
//! results on request.
//!
//! Reads no clock and no socket. Receivers without XDP use it, and tests compare the program at the
//! driver with it. Start with [`Analyser::frame`].

use fwdlab_packet::Signature;

use super::integrity::is_damaged;
use super::order::{Arrival, Order};
use super::{Analysis, Expected, PAIRS, ReceiveCounts, StreamAnalysis, StreamPlan};
use crate::error::EngineError;
use crate::signature::{self, Network, SignaturePlace};
use crate::stamps::{Origins, Stamped};

/// Classification of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameClass {
    /// A frame of this trial.
    Ours,
    /// A frame of an earlier trial.
    Late,
    /// Another sender's frame, or one of a stream that is not in the plan.
    Foreign,
}

/// Analyses a trial.
#[derive(Debug, Clone)]
pub struct Analyser {
    nonce: u16,
    place: SignaturePlace,
    counts: ReceiveCounts,
    /// For each stream id its index in `streams` plus one; 0: not in the plan.
    index: Box<[u16]>,
    streams: Vec<Stream>,
    /// Individual frames that were timed, or would be if they carried a departure; if requested.
    timed: Option<Vec<Stamped>>,
    /// Set to count frames of all streams and analyse none.
    counting: Option<Counting>,
}

/// Counting alone, as the program `count.bpf.c` does it at the driver.
#[derive(Debug, Clone, Copy)]
struct Counting {
    /// Length without FCS and tags, if all frames have the same.
    buffer_bytes: Option<u16>,
}

#[derive(Debug, Clone)]
struct Stream {
    plan: StreamPlan,
    found: StreamAnalysis,
    order: Order,
    timer: Timer,
}

/// State for comparing latencies.
#[derive(Debug, Clone)]
pub(super) struct Timer {
    /// Latency of the frame that was timed last.
    last_latency_ns: Option<u64>,
    /// Numbers and latencies of the newest frames, each at its number modulo [`PAIRS`].
    latencies: Box<[Option<(u64, u64)>]>,
}

impl Default for Timer {
    fn default() -> Timer {
        Timer {
            last_latency_ns: None,
            latencies: vec![None; PAIRS as usize].into(),
        }
    }
}

impl Analyser {
    /// Prepares for the frames of a trial, with the requested analysis.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: no analysis is requested, or an impossible one.
    pub fn new(engine: &'static str, expected: &Expected) -> Result<Analyser, EngineError> {
        let plan = expected.analysis.as_ref().ok_or(EngineError::Unsupported {
            engine,
            action: "analyse without a plan".into(),
        })?;
        plan.check(engine, expected)?;
        let mut index = vec![0; 1 << 16].into_boxed_slice();
        for (position, stream) in (1..).zip(&plan.streams) {
            index[usize::from(stream.id)] = position;
        }
        Ok(Analyser {
            nonce: expected.nonce,
            place: expected.place,
            counts: ReceiveCounts::default(),
            index,
            streams: plan.streams.iter().map(Stream::new).collect(),
            timed: None,
            counting: None,
        })
    }

    /// Prepares to count the frames of a trial, of any stream, and to analyse none.
    pub(crate) fn counting(expected: &Expected) -> Analyser {
        Analyser {
            nonce: expected.nonce,
            place: expected.place,
            counts: ReceiveCounts::default(),
            index: Box::default(),
            streams: vec![],
            timed: None,
            counting: Some(Counting {
                buffer_bytes: expected.buffer_bytes,
            }),
        }
    }

    /// Keeps the arrival of each frame from now on, for [`take_arrivals`](Self::take_arrivals).
    pub fn keep_arrivals(&mut self) {
        self.timed.get_or_insert_default();
    }

    /// Returns the arrivals kept since the last call: of frames that are neither corrupt, older nor
    /// duplicates.
    pub fn take_arrivals(&mut self) -> Vec<Stamped> {
        self.timed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Analyses a frame without FCS; `arrival_ns` is on the clock of its departure.
    pub fn frame(&mut self, frame: &[u8], arrival_ns: u64) -> FrameClass {
        let seen = self.classify(frame, arrival_ns);
        match seen {
            FrameClass::Ours => self.counts.received += 1,
            FrameClass::Late => self.counts.late += 1,
            FrameClass::Foreign => self.counts.foreign += 1,
        }
        seen
    }

    fn classify(&mut self, frame: &[u8], arrival_ns: u64) -> FrameClass {
        let Some(network) = signature::network(frame) else {
            return FrameClass::Foreign;
        };
        if let Some(counting) = self.counting {
            return self.count(frame, network, counting);
        }
        let signature = signature::find(frame, network, self.place).and_then(Signature::read);
        let Some(signature) = signature else {
            return FrameClass::Foreign;
        };
        if signature.nonce != self.nonce {
            return if signature.is_late(self.nonce) {
                FrameClass::Late
            } else {
                FrameClass::Foreign
            };
        }
        let position = usize::from(self.index[usize::from(signature.stream)]);
        let Some(stream) = position.checked_sub(1).map(|p| &mut self.streams[p]) else {
            return FrameClass::Foreign;
        };
        let wrong_length = stream.found.wrong_length;
        let is_timed = stream.frame(frame, network, &signature, arrival_ns);
        if let (true, Some(timed)) = (is_timed, &mut self.timed) {
            timed.push(Stamped {
                stream: signature.stream,
                number: signature.sequence,
                at_ns: arrival_ns,
            });
        }
        self.counts.wrong_length += stream.found.wrong_length - wrong_length;
        FrameClass::Ours
    }

    fn count(&mut self, frame: &[u8], network: Network, counting: Counting) -> FrameClass {
        let nonce = match self.place {
            SignaturePlace::FlowLabel => signature::nonce_in_label(frame, network),
            place => signature::find(frame, network, place)
                .and_then(Signature::read)
                .map(|signature| signature.nonce),
        };
        let Some(nonce) = nonce else {
            return FrameClass::Foreign;
        };
        let signature = Signature {
            nonce,
            ..Signature::default()
        };
        if signature.is_late(self.nonce) {
            return FrameClass::Late;
        }
        if nonce != self.nonce {
            return FrameClass::Foreign;
        }
        let bytes = frame.len() - network.tag_bytes();
        let is_wrong = |right: u16| bytes != usize::from(right);
        self.counts.wrong_length += u64::from(counting.buffer_bytes.is_some_and(is_wrong));
        FrameClass::Ours
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> ReceiveCounts {
        self.counts
    }

    /// Returns the results so far. `timestamps`: the origin of the times.
    pub fn analysis(&self, timestamps: Origins) -> Analysis {
        Analysis {
            streams: self.streams.iter().map(|s| s.found.clone()).collect(),
            timestamps,
            clock_step_ns: None,
        }
    }
}

impl Stream {
    fn new(plan: &StreamPlan) -> Stream {
        Stream {
            plan: *plan,
            found: StreamAnalysis {
                id: plan.id,
                flows: vec![0; plan.flows as usize],
                ..StreamAnalysis::default()
            },
            order: Order::default(),
            timer: Timer::default(),
        }
    }

    /// Returns whether the frame is one that is timed.
    fn frame(
        &mut self,
        frame: &[u8],
        network: Network,
        signature: &Signature,
        arrival_ns: u64,
    ) -> bool {
        let found = &mut self.found;
        found.received += 1;
        found.bytes += frame.len() as u64;
        if found.first_ns == 0 {
            found.first_ns = arrival_ns;
        }
        found.last_ns = arrival_ns;
        let lengths = self.plan.lengths;
        let wrong_length =
            lengths.is_some_and(|lengths| !lengths.contain(frame.len() - network.tag_bytes()));
        if wrong_length || is_damaged(frame, network) {
            found.corrupt += 1;
            found.wrong_length += u64::from(wrong_length);
            return false;
        }
        let number = signature.sequence;
        let arrival = self.order.arrive(number);
        found.next = self.order.next();
        match arrival {
            Arrival::Duplicate => {
                found.duplicates += 1;
                return false;
            }
            Arrival::Older => found.older += 1,
            Arrival::Reordered { extent } => {
                found.reordered += 1;
                found.reordering_extent = found.reordering_extent.max(extent);
            }
            Arrival::InOrder => {}
        }
        if self.plan.flows > 0 {
            let arrived = &mut found.flows[(number % u64::from(self.plan.flows)) as usize];
            *arrived = arrived.wrapping_add(1);
        }
        if arrival != Arrival::Older && signature.timestamp_ns != 0 {
            match arrival_ns.checked_sub(signature.timestamp_ns) {
                Some(latency_ns) => self.timer.time(found, number, latency_ns),
                None => found.early += 1,
            }
        }
        arrival != Arrival::Older
    }
}

impl Timer {
    /// Adds the latency of one more frame of a stream, in order of arrival.
    pub(super) fn time(&mut self, found: &mut StreamAnalysis, number: u64, latency_ns: u64) {
        if found.latency_max_ns < latency_ns {
            found.latency_max_ns = latency_ns;
        }
        if self.last_latency_ns.is_none() || latency_ns < found.latency_min_ns {
            found.latency_min_ns = latency_ns;
        }
        found.latency_sum_ns = found.latency_sum_ns.wrapping_add(latency_ns);
        found.latency.record(latency_ns);
        if let Some(last_ns) = self.last_latency_ns {
            // RFC 3550, appendix A.8
            let difference_ns = latency_ns.abs_diff(last_ns);
            found.jitter_16ths_ns = found
                .jitter_16ths_ns
                .wrapping_add(difference_ns)
                .wrapping_sub(found.jitter_16ths_ns.wrapping_add(8) >> 4);
        }
        self.last_latency_ns = Some(latency_ns);
        for neighbour in [number.wrapping_sub(1), number + 1] {
            match self.latencies[(neighbour % PAIRS) as usize] {
                Some((other, other_ns)) if other == neighbour => {
                    found.delay_variation.record(latency_ns.abs_diff(other_ns));
                }
                _ => {}
            }
        }
        let place = &mut self.latencies[(number % PAIRS) as usize];
        if place.is_none_or(|(other, _)| other < number) {
            *place = Some((number, latency_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{AnalysisPlan, Lengths};
    use crate::testing::signed_frame;
    use fwdlab_packet::IpVersion;

    const NONCE: u16 = 9;

    fn numbered(sequence: u64, timestamp_ns: u64) -> Vec<u8> {
        signed_frame(
            IpVersion::V4,
            &Signature {
                nonce: NONCE,
                stream: 3,
                sequence,
                timestamp_ns,
            },
        )
    }

    fn analyser(flows: u32) -> Analyser {
        let plan = StreamPlan {
            id: 3,
            flows,
            lengths: Some(Lengths {
                shortest: 60,
                longest: 80,
            }),
        };
        Analyser::new(
            "test",
            &Expected {
                nonce: NONCE,
                buffer_bytes: None,
                place: SignaturePlace::UdpPayload,
                analysis: Some(AnalysisPlan {
                    streams: vec![plan],
                }),
            },
        )
        .unwrap()
    }

    fn stream(analyser: &Analyser) -> StreamAnalysis {
        analyser.analysis(Origins::default()).streams[0].clone()
    }

    /// Sent every 1000 ns, arrived after 500, 516, 484, 500 and 660 ns. By hand, RFC 3550 section
    /// 6.4.1: differences 16, 32, 16, 160; in sixteenths 16, 16+32-1=47, 47+16-3=60, 60+160-4=216;
    /// so 13.5 ns.
    #[test]
    fn jitter_computed_by_hand() {
        let mut analyser = analyser(0);
        let after = [500, 516, 484, 500, 660];
        for (number, latency_ns) in (0..).zip(after) {
            let departure_ns = 1_000_000 + number * 1000;
            analyser.frame(&numbered(number, departure_ns), departure_ns + latency_ns);
        }
        let stream = stream(&analyser);
        assert_eq!(stream.jitter_16ths_ns, 216);
        assert_eq!(stream.jitter_ns(), 13);
        assert_eq!((stream.latency_min_ns, stream.latency_max_ns), (484, 660));
        assert_eq!(stream.latency_sum_ns, after.iter().sum::<u64>());
        let pairs: u64 = stream.delay_variation.buckets().map(|(.., n)| n).sum();
        assert_eq!((stream.latency.len(), pairs), (5, 4));
    }

    #[test]
    fn jitter_compares_neighbours_in_any_order_of_arrival() {
        let mut analyser = analyser(0);
        // 0 and 1, then 3 and 2: pairs (0,1), (2,3), (1,2)
        for (number, latency_ns) in [(0, 10), (1, 20), (3, 50), (2, 90), (2, 95)] {
            analyser.frame(&numbered(number, 1000), 1000 + latency_ns);
        }
        let stream = stream(&analyser);
        let differences: Vec<u64> = stream
            .delay_variation
            .buckets()
            .map(|(low, ..)| low)
            .collect();
        assert_eq!(differences, [10, 40, 70]);
        assert_eq!(
            (
                stream.duplicates,
                stream.reordered,
                stream.reordering_extent
            ),
            (1, 1, 1)
        );
    }

    #[test]
    fn flows_that_never_arrived_have_numbers() {
        let mut analyser = analyser(10);
        for number in (0..100).filter(|number| number % 10 != 4 && number % 10 != 7) {
            analyser.frame(&numbered(number, 0), 5);
        }
        let stream = stream(&analyser);
        assert_eq!(stream.silent_flows().collect::<Vec<_>>(), [4, 7]);
        assert_eq!(
            (stream.lost(100), stream.next, stream.latency.len()),
            (20, 100, 0)
        );
    }

    #[test]
    fn every_single_wrong_bit_behind_the_addresses_is_found() {
        for version in [IpVersion::V4, IpVersion::V6] {
            let signature = Signature {
                nonce: NONCE,
                stream: 3,
                sequence: 5,
                timestamp_ns: 77,
            };
            let whole = signed_frame(version, &signature);
            let mut analyser = analyser(0);
            for bit in 14 * 8..whole.len() * 8 {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                analyser.frame(&damaged, 100);
            }
            let found = stream(&analyser);
            // bytes without a checksum: class, flow label and hop limit of IPv6
            let unprotected = if version == IpVersion::V4 {
                0
            } else {
                8 + 20 + 8
            };
            assert_eq!(found.received - found.corrupt, unprotected, "{version}");
            // and frames that no longer look like ours
            let foreign = analyser.counts().foreign + analyser.counts().late;
            assert_eq!(found.received + foreign, whole.len() as u64 * 8 - 14 * 8);
        }
    }

    #[test]
    fn foreign_frames_are_not_counted_as_test_frames() {
        let mut analyser = analyser(0);
        let ours = Signature {
            nonce: NONCE,
            stream: 3,
            sequence: 0,
            timestamp_ns: 50,
        };
        for (signature, seen) in [
            (ours, FrameClass::Ours),
            (
                Signature {
                    nonce: NONCE - 1,
                    ..ours
                },
                FrameClass::Late,
            ),
            (
                Signature {
                    nonce: NONCE + 1,
                    ..ours
                },
                FrameClass::Foreign,
            ),
            (Signature { stream: 4, ..ours }, FrameClass::Foreign),
        ] {
            assert_eq!(
                analyser.frame(&signed_frame(IpVersion::V6, &signature), 49),
                seen
            );
        }
        let counts = analyser.counts();
        assert_eq!((counts.received, counts.late, counts.foreign), (1, 1, 2));
        // and it arrived before it left
        assert_eq!(
            (stream(&analyser).early, stream(&analyser).latency.len()),
            (1, 0)
        );
    }

    #[test]
    fn counting_needs_no_plan_and_takes_all_streams() {
        let mut expected = Expected {
            nonce: NONCE,
            buffer_bytes: Some(60),
            place: SignaturePlace::UdpPayload,
            analysis: None,
        };
        let mut counter = Analyser::counting(&expected);
        let of = |nonce, stream| {
            let signature = Signature {
                nonce,
                stream,
                ..Signature::default()
            };
            signed_frame(IpVersion::V4, &signature)
        };
        let mut tagged = of(NONCE, 7);
        tagged.splice(12..12, [0x81, 0, 0, 6]);
        let mut longer = of(NONCE, 3);
        longer.push(0);
        let frames = [
            (of(NONCE, 3), FrameClass::Ours),
            (tagged, FrameClass::Ours),
            (longer, FrameClass::Ours),
            (of(NONCE - 2, 3), FrameClass::Late),
            (of(NONCE + 1, 3), FrameClass::Foreign),
            (vec![0; 60], FrameClass::Foreign),
            (vec![0; 13], FrameClass::Foreign),
        ];
        for (frame, seen) in &frames {
            assert_eq!(counter.frame(frame, 0), *seen, "{frame:x?}");
        }
        let counts = counter.counts();
        assert_eq!((counts.received, counts.wrong_length), (3, 1));
        assert_eq!((counts.late, counts.foreign), (1, 3));
        // and by the flow label alone
        expected.place = SignaturePlace::FlowLabel;
        let mut counter = Analyser::counting(&expected);
        let mut labelled = signed_frame(IpVersion::V6, &Signature::default());
        labelled[15] = 0xf0 | signature::FLOW_LABEL_MAGIC;
        labelled[16..18].copy_from_slice(&NONCE.to_be_bytes());
        assert_eq!(counter.frame(&labelled, 0), FrameClass::Ours);
        labelled[17] -= 1;
        assert_eq!(counter.frame(&labelled, 0), FrameClass::Late);
        labelled[15] = 0;
        assert_eq!(counter.frame(&labelled, 0), FrameClass::Foreign);
    }

    #[test]
    fn lengths_are_without_tags() {
        let mut analyser = analyser(0);
        let plain = numbered(0, 0);
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]);
        let mut padded = plain.clone();
        padded.resize(81, 0);
        for frame in [&plain, &tagged, &padded] {
            assert_eq!(analyser.frame(frame, 1), FrameClass::Ours);
        }
        let stream = stream(&analyser);
        assert_eq!(
            (stream.duplicates, stream.corrupt, stream.wrong_length),
            (1, 1, 1)
        );
        assert_eq!(analyser.counts().wrong_length, 1);
        // a third tag hides the signature
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(analyser.frame(&tagged, 1), FrameClass::Foreign);
    }
}
