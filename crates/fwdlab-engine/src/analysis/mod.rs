//! What a receiver looks for and reports: how many frames arrived, and optionally, per stream and
//! per flow, which are missing, duplicated, out of order, damaged or late, and their latencies.
//!
//! This file contains the requests and the results; [`Analyser`] produces the results in user
//! space. At the driver `bpf/analyse.bpf.c` does the same, frame by frame; a test compares the two.
//! Start with [`Expected`] and [`AnalysisPlan`].
//!
//! A frame with this trial's nonce is classified in this order:
//!
//! 1. Its stream is not in the plan: it is *foreign*.
//! 2. It is *corrupt*: no frame of its stream has this length, or a checksum is wrong
//!    ([`integrity`] lists the checks). Its contents are not trusted: it is counted, and nothing
//!    else.
//! 3. Its number is more than [`WINDOW`] below the next expected one: it is *older* than what is
//!    remembered. Whether it came before is unknown, so it is neither a duplicate nor reordered,
//!    and not timed. Its flow is counted.
//! 4. It has come before: it is a *duplicate*. Only the first copy is timed and counted in its flow
//!    (RFC 2679, RFC 5560).
//! 5. Its number is below the next expected one: it is *reordered* (RFC 4737 section 3). Otherwise
//!    it is in order, and the next expected number is one more than its own.
//!
//! Frames that reach 5 are timed: their latency is the time of arrival minus the intended departure
//! in the signature. So the time a frame waited because its sender stalled is part of the latency,
//! and no wait is omitted (no "coordinated omission"); [`StallPolicy`](crate::StallPolicy)
//! describes how missed frames are treated. A frame without a departure is not timed. One that
//! arrived before its departure is *early*, which shows that the two ends use different clocks, and
//! is not timed either.

mod analyser;
pub mod integrity;
mod order;

use self::analyser::Timer;
pub use self::analyser::{Analyser, FrameClass};

use std::collections::{HashMap, HashSet};

use fwdlab_model::latency::{Bucket, Exact, LatencySummary, StalledFrames};
use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::pacer::CATCH_UP_US;
use crate::signature::SignaturePlace;
use crate::stamps::{Kind, Log, Origins};

/// How many frames of a stream, back from the newest, are remembered individually. An older frame
/// cannot be classified as a duplicate or as late. At 10 Mpps that is 6.5 ms.
pub const WINDOW: u64 = 65_536;

/// How many latencies of a stream are remembered, to compare each with those of its two neighbours.
/// A pair of frames that arrive farther apart than this is missing in the delay variation.
pub const PAIRS: u64 = 256;

/// Maximum number of streams in a plan: each takes some 400 KB of memory.
pub const MAX_STREAMS: usize = 1024;

/// Maximum number of flows of all streams of a plan together.
pub const MAX_FLOWS: u64 = 1 << 26;

/// What a receiver must look for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The trial's nonce.
    pub nonce: u16,
    /// Length without FCS and VLAN tags, if all frames have the same.
    pub buffer_bytes: Option<u16>,
    /// Position of the signature in frames.
    pub place: SignaturePlace,
    /// Analysis in addition to counting; `None` is cheapest.
    pub analysis: Option<AnalysisPlan>,
}

/// The counts of a receiver since [`Receiver::expect`](crate::Receiver::expect).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveCounts {
    /// Frames with our signature and this trial's nonce.
    pub received: u64,
    /// Of these, frames with another length than sent.
    pub wrong_length: u64,
    /// Frames with our signature of another trial.
    pub late: u64,
    /// Frames that are not ours.
    pub foreign: u64,
    /// Frames the receiver itself dropped; they are part of `received`.
    pub dropped_by_receiver: u64,
}

/// The requested analysis.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnalysisPlan {
    /// The expected streams; frames of others count as foreign.
    pub streams: Vec<StreamPlan>,
}

/// One stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StreamPlan {
    /// Its number in the signature.
    pub id: u16,
    /// Its frame number n carries flow n modulo this; 0 if flows are not counted.
    pub flows: u32,
    /// Lengths of its frames; `None` if any length is valid.
    pub lengths: Option<Lengths>,
}

/// Lengths of frames in bytes, without FCS and without VLAN tags, which a DUT may add or remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    /// The shortest.
    pub shortest: u16,
    /// The longest.
    pub longest: u16,
}

impl Lengths {
    /// Returns true if frames of this stream can have this length.
    pub fn contain(self, bytes: usize) -> bool {
        (usize::from(self.shortest)..=usize::from(self.longest)).contains(&bytes)
    }
}

/// The results of an analysis.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Analysis {
    /// Of each stream of the plan, in its order.
    pub streams: Vec<StreamAnalysis>,
    /// The origins of the two times of each latency: source, place and clock.
    pub timestamps: Origins,
    /// Set if the time of day was set during the trial and the times depend on it, by this much as
    /// far as known: no time is reliable.
    pub clock_step_ns: Option<i64>,
}

/// The frames of one stream. The terms are explained [above](self).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StreamAnalysis {
    /// Its number in the signature.
    pub id: u16,
    /// Frames that arrived, including duplicates and corrupt ones.
    pub received: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
    /// Frames that had already arrived.
    pub duplicates: u64,
    /// Frames that arrived after one with a higher number (RFC 4737 section 3).
    pub reordered: u64,
    /// The largest number of frames by which one was too late (RFC 4737 section 4.2): how many
    /// arrived from the first one with a higher number until it came.
    pub reordering_extent: u64,
    /// Frames more than [`WINDOW`] behind: late or duplicates, which is unknown.
    pub older: u64,
    /// Frames whose length, checksums or contents are wrong.
    pub corrupt: u64,
    /// Of these, frames of a wrong length.
    pub wrong_length: u64,
    /// Frames that arrived before they were due to leave: the clocks differ.
    pub early: u64,
    /// One more than the highest number that arrived: what lies below and has not arrived is lost,
    /// or will be reordered.
    pub next: u64,
    /// When the first frame arrived, on the receiver's clock; 0: none has.
    pub first_ns: u64,
    /// When the last frame arrived.
    pub last_ns: u64,
    /// From intended departure to arrival, in nanoseconds.
    pub latency: Histogram,
    /// The shortest latency, in exact nanoseconds; 0 if there is none.
    pub latency_min_ns: u64,
    /// The longest latency, in exact nanoseconds.
    pub latency_max_ns: u64,
    /// Sum of all latencies, for their mean.
    pub latency_sum_ns: u64,
    /// Smoothed variation of the latency in order of arrival (RFC 3550 section 6.4.1), in 1/16 ns.
    pub jitter_16ths_ns: u64,
    /// Differences of the latencies of frames n and n + 1, without sign (RFC 3393), in nanoseconds.
    /// How latencies differ from the shortest (PDV, RFC 5481) is in `latency` and `latency_min_ns`.
    pub delay_variation: Histogram,
    /// How often each flow arrived, without duplicates and corrupt frames; empty if not requested.
    pub flows: Vec<u32>,
}

impl Analysis {
    /// Replaces all latencies, from the stamps of both ends: each is the difference between the two
    /// stamps of a frame, and the departures in the frames are ignored. A frame without one of them
    /// is not timed.
    ///
    /// # Errors
    /// If the stamps are on two clocks, whose times cannot be subtracted.
    pub fn retime(&mut self, departures: &Log, arrivals: &Log) -> Result<(), EngineError> {
        let (left, returned) = (departures.origin, arrivals.origin);
        if left.clock != returned.clock {
            return Err(EngineError::NoStamps {
                kind: returned.kind.name(),
                reason: format!(
                    "departures use {} and arrivals {}: times from two clocks cannot be subtracted",
                    left.clock, returned.clock
                ),
                instead: "--timestamps user",
            });
        }
        let departed: HashMap<(u16, u64), u64> = (departures.times.iter())
            .map(|stamped| ((stamped.stream, stamped.number), stamped.at_ns))
            .collect();
        for stream in &mut self.streams {
            let mut timer = Timer::default();
            stream.forget_times();
            let id = stream.id;
            for arrival in arrivals.times.iter().filter(|a| a.stream == id) {
                let Some(&at_ns) = departed.get(&(id, arrival.number)) else {
                    continue;
                };
                match arrival.at_ns.checked_sub(at_ns) {
                    Some(latency_ns) => timer.time(stream, arrival.number, latency_ns),
                    None => stream.early += 1,
                }
            }
        }
        self.clock_step_ns = departures.step_ns.or(arrivals.step_ns);
        self.timestamps = Origins {
            departures: left,
            arrivals: returned,
        };
        Ok(())
    }
}

impl StreamAnalysis {
    /// Resets all times.
    fn forget_times(&mut self) {
        self.early = 0;
        self.latency = Histogram::default();
        self.delay_variation = Histogram::default();
        (self.latency_min_ns, self.latency_max_ns) = (0, 0);
        (self.latency_sum_ns, self.jitter_16ths_ns) = (0, 0);
    }

    /// Returns the number of frames of which at least one intact copy arrived; assumed for those in
    /// `older`.
    pub fn delivered(&self) -> u64 {
        self.received - self.duplicates - self.corrupt
    }

    /// Returns how many of `sent` frames did not arrive intact.
    pub fn lost(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.delivered())
    }

    /// Returns the flows that never arrived.
    pub fn silent_flows(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.flows)
            .filter_map(|(flow, &frames)| (frames == 0).then_some(flow))
    }

    /// Smoothed variation of the latency (RFC 3550 section 6.4.1), in whole nanoseconds.
    pub fn jitter_ns(&self) -> u64 {
        self.jitter_16ths_ns / 16
    }

    /// Summarises the latencies for results; `None` if nothing was timed.
    ///
    /// `lost` frames have no latency, or an infinite one: the summary has percentiles with and
    /// without them. What is known about stalls of the sender is part of latencies from intended
    /// departures, and of no others.
    pub fn latency_summary(
        &self,
        lost: u64,
        stalled: Option<StalledFrames>,
        timestamps: &Origins,
    ) -> Option<LatencySummary> {
        let frames = self.latency.len();
        if frames == 0 {
            return None;
        }
        let exact = Exact {
            min_ns: self.latency_min_ns,
            max_ns: self.latency_max_ns,
            sum_ns: self.latency_sum_ns,
            jitter_ns: self.jitter_ns(),
        };
        let mut summary = LatencySummary::new(
            &buckets(&self.latency),
            &buckets(&self.delay_variation),
            &exact,
            lost,
            stalled.filter(|_| timestamps.departures.kind == Kind::User),
            &timestamps.to_string(),
        );
        summary.departure_timestamps = Some(timestamps.departures.kept());
        summary.arrival_timestamps = Some(timestamps.arrivals.kept());
        Some(summary)
    }
}

/// Derives the sender's stalls from its counts and the [lateness](crate::Sender::lateness) of its
/// frames. The frames that were due in a stall are those that the sender missed and the one that
/// left when it ended.
pub fn stalled_frames(made_up: u64, not_sent: u64, lateness: Option<&Histogram>) -> StalledFrames {
    let late = || {
        let buckets = lateness.into_iter().flat_map(Histogram::buckets);
        buckets.filter(|(low, ..)| *low > u64::from(CATCH_UP_US) * 1000)
    };
    StalledFrames {
        frames: made_up + not_sent + late().map(|(.., count)| count).sum::<u64>(),
        not_sent,
        longest_ns: late().map(|(_, high, _)| high).max().unwrap_or(0),
    }
}

/// Returns the non-empty buckets of a histogram, for results and logs.
pub fn buckets(histogram: &Histogram) -> Vec<Bucket> {
    histogram
        .buckets()
        .map(|(low, high, count)| Bucket { low, high, count })
        .collect()
}

impl AnalysisPlan {
    /// Checks that a receiver can make this analysis.
    ///
    /// # Errors
    /// Signatures in flow labels, which identify no streams; no stream, too many, or two with one
    /// id; too many flows.
    pub(crate) fn check(
        &self,
        engine: &'static str,
        expected: &Expected,
    ) -> Result<(), EngineError> {
        let refuse = |operation: String| {
            Err(EngineError::Unsupported {
                engine,
                action: operation,
            })
        };
        if expected.place == SignaturePlace::FlowLabel {
            return refuse("analyse frames whose signature is a flow label: it contains no streams, numbers or times; use \
                frames of at least 84 bytes".into());
        }
        if !(1..=MAX_STREAMS).contains(&self.streams.len()) {
            return refuse(format!(
                "analyse {} streams; 1 to {MAX_STREAMS} are possible",
                self.streams.len()
            ));
        }
        let mut ids = HashSet::new();
        if let Some(twice) = self.streams.iter().find(|stream| !ids.insert(stream.id)) {
            return refuse(format!("analyse two streams with the number {}", twice.id));
        }
        let flows: u64 = self.streams.iter().map(|s| u64::from(s.flows)).sum();
        if flows > MAX_FLOWS {
            return refuse(format!("count {flows} flows; {MAX_FLOWS} are possible"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamps::{Clock, Origin, Stamped};
    use proptest::prelude::*;

    fn log(origin: Origin, times: &[(u16, u64, u64)]) -> Log {
        let times = (times.iter())
            .map(|&(stream, number, at_ns)| Stamped {
                stream,
                number,
                at_ns,
            })
            .collect();
        Log {
            times,
            ..Log::new(origin)
        }
    }

    /// Two streams, a frame without a departure, one without an arrival, one that arrived before it
    /// left; in order of arrival.
    #[test]
    fn timestamps_of_both_ends_replace_those_in_frames() {
        let mut analysis = Analysis {
            streams: [3, 4]
                .map(|id| StreamAnalysis {
                    id,
                    latency_max_ns: 9999,
                    latency_sum_ns: 9999,
                    early: 7,
                    ..StreamAnalysis::default()
                })
                .into(),
            ..Analysis::default()
        };
        let departures = log(
            Origin::LEAVING,
            &[
                (3, 0, 100),
                (3, 1, 200),
                (4, 0, 210),
                (3, 2, 300),
                (3, 4, 500),
            ],
        );
        let arrivals = log(
            Origin::ENTERING,
            &[
                (3, 0, 150),
                (4, 0, 200),
                (3, 2, 390),
                (3, 1, 400),
                (3, 3, 410),
            ],
        );
        analysis.retime(&departures, &arrivals).unwrap();
        let [first, second] = &analysis.streams[..] else {
            panic!("two streams")
        };
        assert_eq!((first.latency.len(), first.early), (3, 0));
        assert_eq!((first.latency_min_ns, first.latency_max_ns), (50, 200));
        assert_eq!(first.latency_sum_ns, 50 + 90 + 200);
        assert_eq!(first.delay_variation.len(), 2);
        assert_eq!((second.latency.len(), second.early), (0, 1));
        assert_eq!(analysis.timestamps.departures, Origin::LEAVING);
        let summary = first
            .latency_summary(0, None, &analysis.timestamps)
            .unwrap();
        let kept = serde_json::to_value(&summary).unwrap();
        assert_eq!(kept["departure_timestamps"]["kind"], "software");
        assert_eq!(kept["arrival_timestamps"]["clock"], "CLOCK_REALTIME");
    }

    #[test]
    fn times_of_two_clocks_are_never_subtracted() {
        let untouched = Analysis::default();
        for (left, returned) in [
            (Origin::LEAVING, Origin::card(0)),
            (Origin::card(0), Origin::card(1)),
            (Origin::INTENDED, Origin::ENTERING),
        ] {
            let mut analysis = untouched.clone();
            let refused = analysis.retime(&log(left, &[]), &log(returned, &[]));
            let words = refused.unwrap_err().to_string();
            assert!(words.contains(&returned.clock.to_string()), "{words}");
            assert_eq!(analysis, untouched);
        }
        let same = Origin::card(2);
        assert_eq!(same.clock, Clock::Card(2));
        assert!(
            untouched
                .clone()
                .retime(&log(same, &[]), &log(same, &[]))
                .is_ok()
        );
    }

    proptest! {
        /// Compares percentiles of our buckets, of the HDR histogram made from them, and of all
        /// values, sorted.
        #[test]
        fn percentiles_are_those_of_sorted_values_and_of_hdr_histograms(
            mut values in proptest::collection::vec(
                prop_oneof![0..100_u64, 0..100_000_u64, 0..(1_u64 << 40)], 1..400),
            share in 0.0..=1.0_f64,
        ) {
            let mut histogram = Histogram::default();
            let mut hdr = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).unwrap();
            for &value in &values {
                histogram.record(value);
                hdr.record(value).unwrap();
            }
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let ours = histogram.quantile(share).unwrap();
            prop_assert!(exact <= ours && ours <= exact + exact / 64, "{ours} for {exact}");
            let theirs = hdr.value_at_quantile(share);
            prop_assert!(theirs <= ours + ours / 1000 && ours <= theirs + theirs / 64, "{ours}, {theirs}");
        }
    }
}
