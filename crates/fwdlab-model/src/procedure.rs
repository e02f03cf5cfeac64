//! The interface between procedures and trials: a question and its answer.
//!
//! A question contains the load over time, what to observe, and the reason. The simulated DUT or
//! the test bed that answers it does not know the procedure. `measure` chooses the questions;
//! [`crate::outcome`] holds the results. Start with [`Question`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::latency::{self, Bucket, StalledFrames};
use crate::management::{self, Requests};
use crate::units::FrameSize;
use crate::variant::DirectionCounts;

/// A part of a trial in which the load changes linearly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// Duration, in nanoseconds.
    pub duration_ns: u64,
    /// Intended load at its start, in frames per second.
    pub from_pps: f64,
    /// Intended load at its end, in frames per second.
    pub to_pps: f64,
}

impl Stretch {
    /// Returns a stretch of constant load.
    pub fn constant(load_pps: f64, duration_ns: u64) -> Stretch {
        Stretch {
            duration_ns,
            from_pps: load_pps,
            to_pps: load_pps,
        }
    }

    /// Returns the frames that are due in it.
    pub fn frames(&self) -> f64 {
        (self.from_pps + self.to_pps) / 2.0 * (self.duration_ns as f64 / 1e9)
    }

    /// Returns the intended load at a time after its start.
    pub fn load_at(&self, at_ns: u64) -> f64 {
        let share = at_ns.min(self.duration_ns) as f64 / self.duration_ns.max(1) as f64;
        self.from_pps + (self.to_pps - self.from_pps) * share
    }
}

/// Frames that leave in bursts with a constant average load (RFC 2544 §21).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// Frames per burst.
    pub frames: u32,
    /// Frames per second within a burst.
    pub rate_pps: f64,
}

impl Bursts {
    /// Returns the average load of bursts with this gap, in nanoseconds, between the last frame of
    /// one and the first of the next.
    pub fn load_pps(&self, gap_ns: f64) -> f64 {
        let within_ns = f64::from(self.frames.saturating_sub(1)) * 1e9 / self.rate_pps;
        f64::from(self.frames) * 1e9 / (within_ns + gap_ns)
    }

    /// Returns the gap between the last frame of a burst and the first of the next at an average
    /// load, in nanoseconds.
    pub fn gap_ns(&self, load_pps: f64) -> f64 {
        let frames = f64::from(self.frames);
        frames * 1e9 / load_pps - (frames - 1.0) * 1e9 / self.rate_pps
    }
}

/// Waits around the traffic of a trial (RFC 2544 §23).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waits {
    /// Wait between learning addresses and sending traffic.
    pub learn_ns: u64,
    /// Wait after the last frame, for late frames.
    pub drain_ns: u64,
    /// Wait after the counters were read, for the DUT to settle.
    pub settle_ns: u64,
}

impl Waits {
    /// The waits of RFC 2544 §23: 2 s for learning, 2 s for late frames, 5 s for the DUT.
    pub const RFC2544: Waits = Waits {
        learn_ns: 2_000_000_000,
        drain_ns: 2_000_000_000,
        settle_ns: 5_000_000_000,
    };

    /// Returns their sum.
    pub fn total_ns(&self) -> u64 {
        self.learn_ns + self.drain_ns + self.settle_ns
    }
}

/// A condition that ends a trial early, because the rest of the trial cannot change its result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "when")]
pub enum Ending {
    /// More than this number of frames were lost.
    Lost {
        /// Number of frames that may be lost.
        frames: u64,
    },
    /// After a reset, the DUT has forwarded this share of the load for this time.
    Recovered {
        /// Share of the intended load.
        share: f64,
        /// Duration, in nanoseconds.
        for_ns: u64,
    },
    /// After an event, the DUT has forwarded this share of its previous forwarding rate for this
    /// time.
    Regained {
        /// Share of the forwarding rate before the event.
        share: f64,
        /// Duration, in nanoseconds.
        for_ns: u64,
    },
}

/// Frames whose delay is measured, spread evenly over a part of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tagging {
    /// Start of that part, in nanoseconds since the trial began.
    pub from_ns: u64,
    /// End of that part, in nanoseconds since the trial began.
    pub until_ns: u64,
    /// Number of frames.
    pub frames: u32,
}

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Its result is not used.
    WarmUp,
    /// It guides a search.
    Search,
    /// It confirms the result of a search.
    Confirm,
    /// It is a measurement.
    Measure,
}

/// The request for a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Frame size, including the FCS.
    pub frame_size_bytes: FrameSize,
    /// The load over time, in consecutive parts.
    pub stretches: Vec<Stretch>,
    /// Waits before and after the traffic.
    pub waits: Waits,
    /// Count sent and received frames in intervals of this length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_ns: Option<u64>,
    /// Measure the delay of some frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tagging: Option<Tagging>,
    /// Send frames in bursts; the load is their average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// Report when the last lost frame was sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locate_loss: bool,
    /// The condition on which the trial may end early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Reset the DUT at this time, and report how long it did not forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at_ns: Option<u64>,
    /// What to reset, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
    /// Report the power of the DUT's host from this time on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_from_ns: Option<u64>,
    /// Value of the swept parameter: rules, table entries, flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<u64>,
    /// Management requests to the DUT during the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    /// The trial is invalid if the load was not offered.
    pub needs_load: bool,
    /// The load exceeds what the DUT forwards: a small part of it may be missing (see
    /// `fwdlab_measure::validity`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overload: bool,
    /// Its purpose.
    pub purpose: Purpose,
    /// Why the trial is made, in words.
    pub reason: String,
}

impl Question {
    /// Returns a question with a constant load for some time, counted as a whole.
    pub fn constant(
        size: FrameSize,
        load_pps: f64,
        duration_ns: u64,
        purpose: Purpose,
        reason: impl Into<String>,
    ) -> Question {
        Question {
            frame_size_bytes: size,
            stretches: vec![Stretch::constant(load_pps, duration_ns)],
            waits: Waits::default(),
            sample_ns: None,
            tagging: None,
            bursts: None,
            locate_loss: false,
            ending: None,
            reset_at_ns: None,
            reset: None,
            power_from_ns: None,
            setting: None,
            requests: None,
            needs_load: true,
            overload: false,
            purpose,
            reason: reason.into(),
        }
    }

    /// Returns true if the load is constant.
    pub fn is_constant(&self) -> bool {
        matches!(&self.stretches[..], [one] if one.from_pps == one.to_pps)
    }

    /// Returns the duration of sending, unless it ends early.
    pub fn duration_ns(&self) -> u64 {
        self.stretches.iter().map(|s| s.duration_ns).sum()
    }

    /// Returns the frames that are due, unless it ends early.
    pub fn frames(&self) -> u64 {
        let frames: f64 = self.stretches.iter().map(Stretch::frames).sum();
        frames.round() as u64
    }

    /// Returns the largest load.
    pub fn peak_pps(&self) -> f64 {
        let ends = self.stretches.iter().flat_map(|s| [s.from_pps, s.to_pps]);
        ends.fold(0.0, f64::max)
    }

    /// Returns the intended load at a time after the start.
    pub fn load_at(&self, at_ns: u64) -> f64 {
        let mut begin = 0;
        for stretch in &self.stretches {
            if at_ns < begin + stretch.duration_ns {
                return stretch.load_at(at_ns - begin);
            }
            begin += stretch.duration_ns;
        }
        self.stretches.last().map_or(0.0, |last| last.to_pps)
    }
}

/// Counts over a part of a trial; both sides were read at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Start, in nanoseconds since the trial began.
    pub at_ns: u64,
    /// Actual length, in nanoseconds.
    pub length_ns: u64,
    /// Intended load in the middle of the interval, in frames per second.
    pub intended_load_pps: f64,
    /// Frames sent in it.
    pub frames_sent: u64,
    /// Frames received in it.
    pub frames_received: u64,
}

impl Interval {
    /// Returns the frames sent per second.
    pub fn offered_load_pps(&self) -> f64 {
        self.frames_sent as f64 / (self.length_ns as f64 / 1e9)
    }

    /// Returns the frames received per second.
    pub fn forwarding_rate_pps(&self) -> f64 {
        self.frames_received as f64 / (self.length_ns as f64 / 1e9)
    }

    /// Returns the share of the sent frames that did not come back, never below 0.
    pub fn loss_ratio(&self) -> f64 {
        let lost = self.frames_sent.saturating_sub(self.frames_received);
        lost as f64 / self.frames_sent.max(1) as f64
    }
}

/// Returns when the DUT had forwarded this share of the load for this time, in nanoseconds since
/// the trial began: the end of the first such series of intervals that began at `from_ns` or later.
/// `None` if it has not.
pub fn recovered_at(samples: &[Interval], from_ns: u64, share: f64, for_ns: u64) -> Option<u64> {
    let mut begin = None;
    for sample in samples.iter().filter(|sample| sample.at_ns >= from_ns) {
        // one frame more or less depends on the time of the reading
        let due = share * sample.frames_sent as f64 - 1.0;
        if sample.frames_sent == 0 || (sample.frames_received as f64) < due {
            begin = None;
            continue;
        }
        let end = sample.at_ns + sample.length_ns;
        if end - *begin.get_or_insert(sample.at_ns) >= for_ns {
            return Some(end);
        }
    }
    None
}

/// Length of the windows in which rates are compared with the rate before.
const REGAINED_WINDOW_NS: u64 = 1_000_000_000;

/// Returns the forwarding rate before an event: the median rate of the intervals that ended by
/// then, in frames per second. `None` if there are none, or nothing was forwarded.
pub fn base_pps(samples: &[Interval], event_ns: u64) -> Option<f64> {
    let before = samples
        .iter()
        .filter(|sample| sample.length_ns > 0 && sample.at_ns + sample.length_ns <= event_ns);
    let mut rates: Vec<f64> = before.map(Interval::forwarding_rate_pps).collect();
    rates.sort_by(f64::total_cmp);
    let middle = rates.len() / 2;
    let median = match rates.len() {
        0 => return None,
        n if n % 2 == 1 => rates[middle],
        _ => f64::midpoint(rates[middle - 1], rates[middle]),
    };
    Some(median).filter(|pps| *pps > 0.0)
}

/// Returns how many frames are due at the rate before an event, at most as many as were sent.
pub fn due_frames(base_pps: f64, frames_sent: u64, ns: u64) -> f64 {
    (base_pps * (ns as f64 / 1e9)).min(frames_sent as f64)
}

/// Returns when the DUT was forwarding this share of `base_pps` again, or of the sent frames if
/// that is less, in nanoseconds since the trial began: the start of the first interval at `from_ns`
/// or later that has it itself, and from which on every window of a second has it for this time,
/// and for this time after the event was over (methods of RFC 6412). `None` if that was never
/// observed.
pub fn regained_at(
    samples: &[Interval],
    from_ns: u64,
    over_ns: u64,
    base_pps: f64,
    share: f64,
    for_ns: u64,
) -> Option<u64> {
    let first = samples.iter().position(|sample| sample.at_ns >= from_ns)?;
    let samples = &samples[first..];
    let is_enough = |received: u64, sent: u64, ns: u64| {
        // one frame more or less depends on the time of the reading
        received as f64 >= share * due_frames(base_pps, sent, ns) - 1.0
    };
    let (mut begin, mut end, mut sent, mut received) = (None, 0, 0, 0);
    for sample in samples {
        while let Some(next) = samples.get(end)
            && next.at_ns < sample.at_ns + REGAINED_WINDOW_NS
        {
            sent += next.frames_sent;
            received += next.frames_received;
            end += 1;
        }
        let last = &samples[end - 1];
        let until = last.at_ns + last.length_ns;
        let length = until - sample.at_ns;
        if length < REGAINED_WINDOW_NS {
            return None;
        }
        let itself = is_enough(sample.frames_received, sample.frames_sent, sample.length_ns);
        if is_enough(received, sent, length) && (begin.is_some() || itself) {
            let since = *begin.get_or_insert(sample.at_ns);
            if until >= since.max(over_ns) + for_ns {
                return Some(since);
            }
        } else {
            begin = None;
        }
        sent -= sample.frames_sent;
        received -= sample.frames_received;
    }
    None
}

/// Delays of the timed frames of one trial, in nanoseconds. Percentiles are by nearest rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delays {
    /// Number of frames.
    pub frames: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The minimum.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile; absent when fewer than 10 frames are above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_ns: Option<u64>,
    /// The 99th percentile; absent when fewer than 10 frames are above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile; absent when fewer than 10 frames are above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<u64>,
    /// The 99.99th percentile; absent when fewer than 10 frames are above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999_ns: Option<u64>,
    /// The maximum.
    pub max_ns: u64,
    /// Frames that were due while the sender stalled for more than 100 us, and that left late or
    /// never.
    #[serde(default, alias = "held_up_frames", skip_serializing_if = "is_zero")]
    pub stalled_frames: u64,
    /// Frames among these that never left.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_sent_frames: u64,
    /// The longest stall of the sender; 0 if none exceeded 100 us.
    #[serde(default, alias = "held_up_max_ns", skip_serializing_if = "is_zero")]
    pub longest_stall_ns: u64,
    /// The median, counting frames that were lost or never left as infinitely late; absent when it
    /// is infinite or when these frames are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_loss_p50_ns: Option<u64>,
    /// The 99th percentile, counting these frames likewise; also absent when fewer than 10 frames
    /// are above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_loss_p99_ns: Option<u64>,
    /// The 99.9th percentile, counting these frames likewise; also absent when fewer than 10 frames
    /// are above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_loss_p999_ns: Option<u64>,
    /// The worst case of RFC 8219 §7.2: the 99.9th percentile, regardless of the number of frames
    /// above it; the maximum if there are fewer than 1000 frames.
    #[serde(default)]
    pub worst_case_ns: u64,
}

impl Delays {
    /// Computes delays from times in ascending buckets, none of them empty, with their exact
    /// statistics. `None` if there are none.
    pub fn from_buckets(
        times: &[Bucket],
        min_ns: u64,
        max_ns: u64,
        mean_ns: f64,
    ) -> Option<Delays> {
        let frames = latency::count(times);
        // the upper bound of the last bucket may exceed all values
        let at = |share| latency::at_rank(times, frames, share).map(|high| high.min(max_ns));
        let if_many = |share| at(share).filter(|_| latency::has_enough_values(frames, share));
        Some(Delays {
            frames,
            mean_ns,
            min_ns,
            p50_ns: at(0.5)?,
            p90_ns: if_many(0.9),
            p99_ns: if_many(0.99),
            p999_ns: if_many(0.999),
            p9999_ns: if_many(0.9999),
            max_ns,
            worst_case_ns: at(0.999)?,
            ..Delays::default()
        })
    }

    /// Adds frames without a delay: those that were lost, and those that never left or left late.
    #[must_use]
    pub fn with_missing(self, times: &[Bucket], lost: u64, stalled: StalledFrames) -> Delays {
        let all = self.frames + lost + stalled.not_sent;
        let at = |share| latency::at_rank(times, all, share).map(|high| high.min(self.max_ns));
        let if_many = |share| at(share).filter(|_| latency::has_enough_values(all, share));
        Delays {
            stalled_frames: stalled.frames,
            not_sent_frames: stalled.not_sent,
            longest_stall_ns: stalled.longest_ns,
            with_loss_p50_ns: at(0.5),
            with_loss_p99_ns: if_many(0.99),
            with_loss_p999_ns: if_many(0.999),
            ..self
        }
    }

    /// Returns what is known about stalls of the sender.
    pub fn stalled_frames(&self) -> StalledFrames {
        StalledFrames {
            frames: self.stalled_frames,
            not_sent: self.not_sent_frames,
            longest_ns: self.longest_stall_ns,
        }
    }

    /// Returns true if the delay that this share of the frames does not exceed may reflect the
    /// sender rather than the DUT.
    pub fn may_reflect_sender(&self, share: f64) -> bool {
        self.stalled_frames().speaks(self.frames, share)
    }

    /// Returns the 99th percentile, if enough frames are above it: early runs have one for any
    /// number of frames.
    pub fn supported_p99_ns(&self) -> Option<u64> {
        self.p99_ns
            .filter(|_| latency::has_enough_values(self.frames, 0.99))
    }

    /// Returns the 99.9th percentile, likewise.
    pub fn supported_p999_ns(&self) -> Option<u64> {
        self.p999_ns
            .filter(|_| latency::has_enough_values(self.frames, 0.999))
    }
}

/// A period without any frame from the DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outage {
    /// Arrival of the last frame before it, in nanoseconds since the trial began.
    pub last_before_ns: u64,
    /// Arrival of the first frame after it; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_after_ns: Option<u64>,
}

/// Queries to the management of a DUT while it forwards (RFC 2544 §11.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queries {
    /// Number of queries.
    pub asked: u64,
    /// Correct answers.
    pub answered: u64,
    /// Wrong answers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wrong: u64,
    /// What was wrong with the first of the queries that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Queries {
    /// Returns the queries without an answer.
    pub fn missing(&self) -> u64 {
        self.asked.saturating_sub(self.answered + self.wrong)
    }
}

/// The result of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Frames that were due during the trial.
    pub frames_intended: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Of the frames that were due and not sent, those of each of several senders of a port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames_not_sent_by_sender: Vec<u64>,
    /// Frames received: first copies of this trial's own frames.
    pub frames_received: u64,
    /// Routing updates that the DUT processed during the trial.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub route_updates: u64,
    /// Results of queries to the DUT's management during the trial, if it was queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management: Option<Queries>,
    /// Mean power of the DUT's host while frames flowed, in watts, by meter; empty unless requested
    /// and readable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub power_watts: BTreeMap<String, f64>,
    /// Results of the management requests in the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<management::Asked>,
    /// Additional frames that a router does not forward: they are part of the load, and never count
    /// as lost.
    #[serde(default, alias = "frames_beside", skip_serializing_if = "is_zero")]
    pub frames_additional: u64,
    /// For a trial in both directions, the counts of each. All other counts are of the direction
    /// that lost more. Stored next to the answer in the record of the trial.
    #[serde(skip)]
    pub directions: Vec<DirectionCounts>,
    /// Duration of sending.
    pub duration_ns: u64,
    /// Duration of the trial with all its waits.
    pub took_ns: u64,
    /// It ended early, because its result could not change any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended_early: bool,
    /// Counts over time, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Interval>,
    /// Delays of the tagged frames, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
    /// Time at which the last lost frame was sent, in nanoseconds since the trial began; absent
    /// when none was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_lost_ns: Option<u64>,
    /// Start of the reset, in nanoseconds since the trial began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at_ns: Option<u64>,
    /// End of the reset, in nanoseconds since the trial began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_over_ns: Option<u64>,
    /// Moments that the reset itself reported, by the DUT's clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
    /// In a trial with a reset, the longest period without any frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<Outage>,
    /// Time resolution of losses, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_ns: Option<u64>,
    /// Duplicate frames.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frames_duplicate: u64,
    /// Foreign frames.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frames_foreign: u64,
    /// Frames lost by the receiver itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frames_lost_by_receiver: u64,
    /// Reasons why the trial is invalid, as seen by the test bed or the simulation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(frames: &u64) -> bool {
    *frames == 0
}

/// A moment reported by an event on the DUT: from a daemon's log, or from looking at a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// What happened.
    pub name: String,
    /// Seconds after the start of the event, both by the DUT's clock.
    pub at_s: f64,
}

impl Moment {
    /// Parses the moments that an event printed, in lines such as
    /// `moment 1764035693.123 session down`: seconds of the system's clock, and a description. The
    /// first of them is the event's start, and is not part of the result, which is in chronological
    /// order.
    pub fn parse_all(printed: &str) -> Vec<Moment> {
        let mut reported = printed.lines().filter_map(|line| {
            let (at, name) = line.trim().strip_prefix("moment ")?.split_once(' ')?;
            let at: f64 = at.parse().ok().filter(|at: &f64| at.is_finite())?;
            Some((at, name.trim().to_owned()))
        });
        let Some((started, _)) = reported.next() else {
            return Vec::new();
        };
        let mut moments: Vec<Moment> = reported
            .map(|(at, name)| Moment {
                name,
                // a number of this size has no further digits on a system clock
                at_s: ((at - started) * 1e6).round() / 1e6,
            })
            .collect();
        moments.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        moments
    }
}

impl Answer {
    /// Returns frames sent minus frames received; negative if more came back.
    pub fn frames_lost(&self) -> i64 {
        self.frames_sent as i64 - self.frames_received as i64
    }

    /// Returns the frames received per second of the time in which frames were sent.
    pub fn forwarding_rate_pps(&self) -> f64 {
        self.frames_received as f64 / (self.duration_ns as f64 / 1e9)
    }
}

/// A stored trial of a procedure: its question, its answer, and how the procedure evaluated it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// The request.
    pub question: Question,
    /// The result.
    pub answer: Answer,
    /// The evaluation in words; empty for an invalid trial.
    #[serde(alias = "says")]
    pub evaluation: String,
    /// The HDR histogram log of the frames' delays, in nanoseconds: a path in the run's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_log: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::exact_buckets;

    #[test]
    fn moments_are_parsed_from_lines() {
        let printed = "moment 1764035693.100000000 began\npeer1: restarted\nmoment 1764035694.350 session up\n\
                       moment 1764035693.123 session down\nmoment of rest\nmoment inf never\n";
        let moments = Moment::parse_all(printed);
        let reported: Vec<(&str, f64)> =
            moments.iter().map(|m| (m.name.as_str(), m.at_s)).collect();
        assert_eq!(reported, [("session down", 0.023), ("session up", 1.25)]);
        // a clock without fractions of a second cannot determine the start
        assert_eq!(Moment::parse_all("moment 1764035693.N began\n"), []);
    }

    /// 200 of 10,000 frames were never sent, 50 were lost.
    #[test]
    fn frames_that_never_left_are_endlessly_late_in_delays_too() {
        let times = exact_buckets((1..=9750).collect());
        let delays = Delays::from_buckets(&times, 1, 9750, 4875.5).unwrap();
        assert_eq!(
            (delays.with_loss_p50_ns, delays.may_reflect_sender(1.0)),
            (None, false)
        );
        let stalled = StalledFrames {
            frames: 203,
            not_sent: 200,
            longest_ns: 9,
        };
        let beside = delays.with_missing(&times, 50, stalled);
        assert_eq!(beside.stalled_frames(), stalled);
        assert_eq!(
            (beside.p99_ns, beside.with_loss_p50_ns),
            (Some(9653), Some(5000))
        );
        assert_eq!(
            (beside.with_loss_p99_ns, beside.with_loss_p999_ns),
            (None, None)
        );
        assert!(beside.may_reflect_sender(0.99) && !beside.may_reflect_sender(0.9));
    }

    #[test]
    fn frames_due() {
        let ramp = Stretch {
            duration_ns: 600_000_000_000,
            from_pps: 0.0,
            to_pps: 14_880_000.0,
        };
        assert_eq!(ramp.frames(), 14_880_000.0 * 300.0);
        assert_eq!(ramp.load_at(1_000_000_000), 24_800.0);
        let mut question = Question::constant(FrameSize::MIN, 1e6, 1_500_000, Purpose::Measure, "");
        assert_eq!(question.frames(), 1500);
        question.stretches.push(Stretch::constant(2e6, 1_000));
        assert_eq!((question.frames(), question.peak_pps()), (1502, 2e6));
        assert_eq!(question.load_at(1_499_999), 1e6);
        assert_eq!(question.load_at(1_500_000), 2e6);
        assert_eq!(question.load_at(9_999_999), 2e6);
    }

    /// 16 frames of 64 bytes at 10 Gbit/s and the same time without any: half the line, plus one
    /// frame's gap.
    #[test]
    fn gaps_between_bursts_and_loads() {
        let line = 1e10 / 672.0;
        let bursts = Bursts {
            frames: 16,
            rate_pps: line,
        };
        assert!((bursts.load_pps(17.0 * 67.2) - line / 2.0).abs() < 1e-6);
        assert!((bursts.gap_ns(line / 2.0) - 17.0 * 67.2).abs() < 1e-6);
        assert!((bursts.gap_ns(line) - 67.2).abs() < 1e-9);
    }

    #[test]
    fn a_dut_has_recovered_when_it_forwards_for_a_while() {
        let second = 1_000_000_000;
        let samples: Vec<Interval> = [100, 0, 0, 99, 50, 99, 100, 98, 99, 100, 100]
            .into_iter()
            .zip(0..)
            .map(|(frames_received, k)| Interval {
                at_ns: k * second,
                length_ns: second,
                intended_load_pps: 100.0,
                frames_sent: 100,
                frames_received,
            })
            .collect();
        assert_eq!(
            recovered_at(&samples, second, 0.99, 3 * second),
            Some(8 * second)
        );
        assert_eq!(recovered_at(&samples, second, 0.99, 7 * second), None);
        assert_eq!(recovered_at(&samples, 0, 0.99, second), Some(second));
        assert_eq!(
            recovered_at(&samples, 4 * second, 0.4, second),
            Some(5 * second)
        );
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let of = |values: Vec<u64>| {
            let mean = values.iter().sum::<u64>() as f64 / values.len().max(1) as f64;
            let (min, max) = (values.iter().min().copied(), values.iter().max().copied());
            let times = exact_buckets(values);
            Delays::from_buckets(&times, min.unwrap_or(0), max.unwrap_or(0), mean)
        };
        let delays = of((1..=1000).rev().collect()).unwrap();
        assert_eq!(
            (delays.min_ns, delays.max_ns, delays.mean_ns),
            (1, 1000, 500.5)
        );
        assert_eq!(
            (delays.p50_ns, delays.p99_ns, delays.worst_case_ns),
            (500, Some(990), 999)
        );
        // ten are above the 99th percentile, one is above the 99.9th
        assert_eq!(
            (delays.p90_ns, delays.supported_p99_ns()),
            (Some(900), Some(990))
        );
        assert_eq!((delays.p999_ns, delays.p9999_ns), (None, None));
        // what the text omits is not in the records either
        let few = of((1..=500).collect()).unwrap();
        assert_eq!(
            (few.p99_ns, few.p999_ns, few.worst_case_ns),
            (None, None, 500)
        );
        let json = serde_json::to_value(few).unwrap();
        assert!(json.get("p99_ns").is_none() && json.get("p999_ns").is_none());
        // nor shown for a run that has it
        let early: Delays = serde_json::from_str(
            r#"{"frames":500,"mean_ns":9,"min_ns":1,"p50_ns":5,"p99_ns":495,"p999_ns":500,"max_ns":500}"#,
        )
        .unwrap();
        assert_eq!(
            (early.supported_p99_ns(), early.supported_p999_ns()),
            (None, None)
        );
        assert_eq!(of(vec![7, 7]).unwrap().worst_case_ns, 7);
        assert_eq!(of(Vec::new()), None);
        let many = of((1..=100_000).collect()).unwrap();
        assert_eq!(many.p9999_ns, Some(99_990));
    }
}
