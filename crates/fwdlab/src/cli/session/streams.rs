//! Results of each stream: lost, duplicate, reordered and damaged frames, flows that never arrived,
//! and latencies.
//!
//! The receiver computes them; this module formats them as text and JSON. Start with [`StreamEnd`].

use std::time::{Duration, SystemTime};

use anyhow::Context;
use fwdlab_engine::SendCounts;
use fwdlab_engine::analysis::{self, StreamAnalysis};
use fwdlab_engine::stamps::Origins;
use fwdlab_engine::traffic::Stream;
use fwdlab_engine::traffic::expect::{Expectation, StreamExpected, Uncounted};
use fwdlab_engine::{Frames, PortReceiver};
use fwdlab_lab::session::Source;
use fwdlab_lab::session::stamping::{StampingResult, analysis};
use fwdlab_model::latency::{LatencySummary, StalledFrames};
use fwdlab_report::number;
use fwdlab_store::hdr;
use serde_json::{Value, json};

use super::words::short_time;
use crate::exit_code::Usage;

/// Maximum number of missing flows listed in text, and in JSON.
const NAMED_IN_LINES: usize = 4;
const NAMED_IN_JSON: usize = 100;

/// Returns what to expect of these frames. Fails if no stream can be checked.
pub fn expectation(frames: &Frames) -> anyhow::Result<Expectation> {
    let expectation = Expectation::from_frames(frames);
    if expectation.streams.is_empty() {
        return Err(Usage(format!(
            "no frame of {} carries a signature, so none can be checked; count them without --analyse",
            expectation.unsigned.join(", ")
        ))
        .into());
    }
    Ok(expectation)
}

/// The frames sent of each stream.
pub struct SentOfStreams<'a> {
    /// Of all senders together.
    pub all: &'a [u64],
    /// Of each of several senders; empty for one.
    pub senders: &'a [SendCounts],
}

impl SentOfStreams<'_> {
    /// Returns up to which number all frames of a stream were sent.
    fn complete(&self, stream: &StreamExpected) -> Option<u64> {
        let all = self.all.get(stream.index).copied()?;
        if stream.senders == 1 {
            return Some(all);
        }
        // test frames are one stream, which has no counter of its own
        let of = |own: &SendCounts| match own.streams.get(stream.index) {
            Some(frames) => *frames,
            None => own.total(),
        };
        let of_senders: Vec<u64> = self.senders.iter().map(of).collect();
        Some(stream.complete(&of_senders))
    }
}

/// The result of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEnd {
    id: u16,
    name: String,
    /// Sent frames of the stream, if the sender is known.
    sent: Option<u64>,
    found: StreamAnalysis,
    flows: Option<FlowsEnd>,
    /// Why flows were not counted, if a user may expect it.
    uncounted: Option<&'static str>,
    latency: Option<LatencySummary>,
}

/// The flows of a stream.
#[derive(Debug, Clone, PartialEq)]
struct FlowsEnd {
    /// Number of flows; only those that were sent, if that is known.
    all: usize,
    /// Frames of the rarest and of the commonest flow.
    least: u64,
    most: u64,
    /// Number of flows that never arrived, and the names of the first ones.
    missing: usize,
    named: Vec<String>,
}

/// Returns the results of a receiver's streams and of its timestamps, if an analysis was requested.
/// `sent` counts the frames of each stream, `stalled` the frames of all streams that the sender
/// sent late or never.
pub fn ends(
    receiver: &mut PortReceiver,
    expectation: &Expectation,
    sender: Option<&mut Source>,
    frames: Option<&Frames>,
    sent: Option<&SentOfStreams<'_>>,
    stalled: Option<StalledFrames>,
) -> anyhow::Result<(Vec<StreamEnd>, StampingResult)> {
    let Some((analysis, taken)) = analysis(sender, receiver)? else {
        return Ok((Vec::new(), StampingResult::default()));
    };
    let streams = match frames {
        Some(Frames::Traffic(frames)) => &frames.traffic.streams[..],
        _ => &[],
    };
    let analysis = expectation.together(analysis);
    let of_all = sent.map_or(0, |sent| sent.all.iter().sum());
    let ends = (expectation.streams.iter()).zip(&analysis.streams);
    let ends = ends
        .map(|(expected, found)| {
            let of_stream = sent.and_then(|sent| sent.all.get(expected.index).copied());
            let stalled = stalled.map(|all| all.share(of_stream.unwrap_or(0), of_all));
            let complete = sent.and_then(|sent| sent.complete(expected));
            StreamEnd::new(
                expected,
                streams.get(expected.index),
                of_stream,
                complete,
                found,
                stalled,
                &analysis.timestamps,
            )
        })
        .collect();
    Ok((ends, taken))
}

impl StreamEnd {
    fn new(
        expected: &StreamExpected,
        stream: Option<&Stream>,
        sent: Option<u64>,
        complete: Option<u64>,
        found: &StreamAnalysis,
        stalled: Option<StalledFrames>,
        timestamps: &Origins,
    ) -> StreamEnd {
        let flows = expected.flows.as_ref().ok().filter(|f| f.cycle() > 0);
        let flows = flows.map(|flows| {
            let arrivals = flows.arrivals(&found.flows);
            let all = complete.map_or(flows.count(), |frames| flows.among(frames)) as usize;
            let missing: Vec<u32> = (0..)
                .zip(&arrivals[..all])
                .filter_map(|(flow, &frames)| (frames == 0).then_some(flow))
                .collect();
            let first = &missing[..missing.len().min(NAMED_IN_JSON)];
            FlowsEnd {
                all,
                least: arrivals[..all].iter().copied().min().unwrap_or(0),
                most: arrivals[..all].iter().copied().max().unwrap_or(0),
                missing: missing.len(),
                named: flows.names(first, stream),
            }
        });
        let mut end = StreamEnd {
            id: expected.id,
            name: expected.name.clone(),
            sent,
            found: found.clone(),
            flows,
            uncounted: match expected.flows {
                Err(Uncounted::Endless) => Some("they never repeat in the same order"),
                Err(Uncounted::TooMany) => Some("too many frames before they repeat"),
                _ => None,
            },
            latency: None,
        };
        end.latency = found.latency_summary(end.lost().max(0) as u64, stalled, timestamps);
        end
    }

    /// Returns the number of frames of which at least one undamaged copy arrived.
    pub fn delivered(&self) -> u64 {
        self.found.delivered()
    }

    /// Returns the number of sent frames, if the sender is known.
    pub fn sent(&self) -> Option<u64> {
        self.sent
    }

    /// Returns the clocks of its latencies.
    pub fn timestamps(&self) -> Option<&str> {
        self.latency.as_ref().map(|l| l.timestamps.as_str())
    }

    /// Returns the number of sent frames; if the sender is unknown, the lower limit given by the
    /// highest number that arrived.
    fn expected(&self) -> u64 {
        self.sent.unwrap_or(self.found.next)
    }

    fn lost(&self) -> i64 {
        self.expected() as i64 - self.delivered() as i64
    }

    /// Returns a line of text, with more lines for flows and latencies, if any.
    pub fn text(&self) -> String {
        let (id, found) = (self.id, &self.found);
        let lost = self.lost();
        let ratio = number::percent(100.0 * lost as f64 / self.expected().max(1) as f64);
        let expected = number::count(self.expected());
        // a stream without a name is called by its number in the profile
        let mut text = match self.name.parse::<u32>() {
            Ok(_) => format!("stream    {id}  "),
            Err(_) => format!("stream    {id} {}  ", self.name),
        };
        text += &match self.sent {
            Some(_) => format!(
                "sent {expected}, received {}, lost {} ({ratio})",
                number::count(found.received),
                number::count(lost)
            ),
            None => format!(
                "received {}, lost at least {} of {expected} ({ratio})",
                number::count(found.received),
                number::count(lost)
            ),
        };
        text += &format!(", duplicates {}", number::count(found.duplicates));
        text += &format!(", reordered {}", number::count(found.reordered));
        if found.reordered > 0 {
            text += &format!(" (by {} at most)", number::count(found.reordering_extent));
        }
        text += &format!(", corrupt {}", number::count(found.corrupt));
        for (frames, what) in [
            (found.older, "older than the window"),
            (found.early, "early: the clocks differ"),
        ] {
            if frames > 0 {
                text += &format!(", {} {what}", number::count(frames));
            }
        }
        if let Some(flows) = &self.flows {
            text += &format!(
                "\nflows     {id}  {} of {} arrived, each {} to {} times",
                number::count((flows.all - flows.missing) as u64),
                number::count(flows.all as u64),
                number::count(flows.least),
                number::count(flows.most),
            );
            for name in flows.named.iter().take(NAMED_IN_LINES) {
                text += &format!("\nnever     {id}  {name}");
            }
            if flows.missing > NAMED_IN_LINES {
                let more = (flows.missing - NAMED_IN_LINES) as u64;
                text += &format!("\n          {id}  and {} others", number::count(more));
            }
        }
        if let Some(reason) = self.uncounted {
            text += &format!("\nflows     {id}  not counted: {reason}");
        }
        if let Some(latency) = &self.latency {
            text += &format!("\nlatency   {id}  {}", percentiles(latency));
            text += &format!("\nvariation {id}  {}", variation(latency));
            if let Some(words) = describe_stalls(latency) {
                text += &format!("\nstalled   {id}  {words}");
            }
        }
        text
    }

    /// Returns the result as JSON.
    pub fn json(&self) -> Value {
        let found = &self.found;
        let mut value = json!({
            "stream": self.id,
            "name": self.name,
            "frames_received": found.received,
            "frames_expected": self.expected(),
            "frames_lost": self.lost(),
            "frames_lost_is_lower_bound": self.sent.is_none(),
            "frame_loss_ratio": self.lost() as f64 / self.expected().max(1) as f64,
            "frames_duplicate": found.duplicates,
            "frames_reordered": found.reordered,
            "reordering_extent": found.reordering_extent,
            "frames_corrupt": found.corrupt,
            "frames_wrong_length": found.wrong_length,
            "frames_older": found.older,
            "frames_early": found.early,
        });
        if let Some(sent) = self.sent {
            value["frames_sent"] = sent.into();
        }
        if let Some(flows) = &self.flows {
            value["flows"] = flows.all.into();
            value["flows_not_seen"] = flows.missing.into();
            value["flows_missing"] = flows.named.clone().into();
            value["flow_frames_min"] = flows.least.into();
            value["flow_frames_max"] = flows.most.into();
        }
        if let Some(reason) = self.uncounted {
            value["flows_not_counted"] = reason.into();
        }
        if let Some(latency) = &self.latency {
            value["latency"] = json!(latency);
        }
        value
    }
}

/// Returns a line such as `min 579 ns  p50 887 ns  p90 1.0 us ...`, with the percentiles that have
/// enough frames. A `*` marks those that may describe the sender rather than the DUT.
pub fn percentiles(latency: &LatencySummary) -> String {
    figures(
        latency,
        &[
            ("min", "latency_min_ns", Some(latency.latency_min_ns)),
            ("p50", "latency_p50_ns", latency.latency_p50_ns),
            ("p90", "latency_p90_ns", latency.latency_p90_ns),
            ("p99", "latency_p99_ns", latency.latency_p99_ns),
            ("p99.9", "latency_p999_ns", latency.latency_p999_ns),
            ("p99.99", "latency_p9999_ns", latency.latency_p9999_ns),
            ("max", "latency_max_ns", Some(latency.latency_max_ns)),
        ],
    )
}

/// Returns a line such as `jitter 12 ns  IPDV p50 8 ns ...`: the variation of latencies.
fn variation(latency: &LatencySummary) -> String {
    figures(
        latency,
        &[
            ("jitter", "jitter_ns", Some(latency.jitter_ns)),
            ("IPDV p50", "ipdv_p50_ns", latency.ipdv_p50_ns),
            ("IPDV p99", "ipdv_p99_ns", latency.ipdv_p99_ns),
            ("IPDV p99.9", "ipdv_p999_ns", latency.ipdv_p999_ns),
            ("PDV p99.9", "pdv_p999_ns", latency.pdv_p999_ns),
        ],
    )
}

/// Returns the known figures, each by its name and its field.
fn figures(latency: &LatencySummary, figures: &[(&str, &str, Option<u64>)]) -> String {
    let known = figures.iter().filter_map(|(name, field, ns)| {
        let mark = if latency.may_reflect_sender(field) {
            "*"
        } else {
            ""
        };
        Some(format!("{name} {}{mark}", short_time((*ns)?)))
    });
    known.collect::<Vec<_>>().join("  ")
}

/// Returns how stalls of the sender affect the latencies, if there were any.
pub fn describe_stalls(latency: &LatencySummary) -> Option<String> {
    let frames = latency
        .latency_stalled_frames
        .filter(|&frames| frames > 0)?;
    let of = match latency.latency_longest_stall_ns {
        Some(longest_ns) if longest_ns > 0 => format!(", for up to {}", short_time(longest_ns)),
        _ => String::new(),
    };
    let not_sent = match latency.latency_not_sent_frames {
        Some(frames) if frames > 0 => format!(" ({} of them never left)", number::count(frames)),
        _ => String::new(),
    };
    Some(format!(
        "{} {} due while the sender stalled{of}{not_sent}: * may describe the sender rather than the DUT",
        number::count(frames),
        if frames == 1 {
            "frame was"
        } else {
            "frames were"
        },
    ))
}

/// Writes the latencies of all streams as an HDR histogram log.
pub fn write_hdr(
    path: &std::path::Path,
    begin: SystemTime,
    duration_s: f64,
    ends: &[&StreamEnd],
) -> anyhow::Result<()> {
    let buckets: Vec<_> = (ends.iter())
        .map(|end| analysis::buckets(&end.found.latency))
        .collect();
    let intervals: Vec<hdr::Interval<'_>> = (ends.iter().zip(&buckets))
        .map(|(end, latencies)| hdr::Interval {
            tag: Some(format!("{} {}", end.id, end.name)),
            start: Duration::ZERO,
            duration: Duration::from_secs_f64(duration_s),
            latencies,
        })
        .collect();
    let log = hdr::log("fwdlab send: latencies in ns", begin, &intervals);
    std::fs::write(path, log).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use fwdlab_model::latency::{Bucket, Exact};

    use super::*;

    /// Returns 10,000 latencies of 1 us each; the sender stalled for some of the frames.
    fn latency(stalled: Option<StalledFrames>) -> LatencySummary {
        let times = [Bucket {
            low: 1000,
            high: 1000,
            count: 10_000,
        }];
        let exact = Exact {
            min_ns: 1000,
            max_ns: 1000,
            sum_ns: 10_000_000,
            jitter_ns: 0,
        };
        LatencySummary::new(&times, &times, &exact, 0, stalled, "made up")
    }

    #[test]
    fn the_effect_of_the_sender_on_latencies_is_reported() {
        let all = "min 1.0 us  p50 1.0 us  p90 1.0 us  p99 1.0 us  p99.9 1.0 us";
        let quiet = latency(Some(StalledFrames::default()));
        assert_eq!(percentiles(&quiet), format!("{all}  max 1.0 us"));
        assert_eq!(
            (describe_stalls(&quiet), describe_stalls(&latency(None))),
            (None, None)
        );
        let mut times = StalledFrames {
            frames: 1,
            not_sent: 0,
            longest_ns: 3_400_000,
        };
        let once = latency(Some(times));
        assert_eq!(percentiles(&once), format!("{all}  max 1.0 us*"));
        assert_eq!(
            describe_stalls(&once).unwrap(),
            "1 frame was due while the sender stalled, for up to 3.4 ms: * may describe the sender rather than the DUT"
        );
        (times.frames, times.not_sent) = (1053, 50);
        let often = latency(Some(times));
        assert_eq!(
            percentiles(&often),
            "min 1.0 us  p50 1.0 us  p90 1.0 us*  p99 1.0 us*  p99.9 1.0 us*  max 1.0 us*"
        );
        assert_eq!(
            describe_stalls(&often).unwrap(),
            "1,053 frames were due while the sender stalled, for up to 3.4 ms (50 of them never left): * may describe the \
             sender rather than the DUT"
        );
    }
}
