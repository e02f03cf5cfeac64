//! One-way latencies in figures: what results keep of a histogram of times.
//!
//! Code that has timed frames creates a [`LatencySummary`] from their buckets, which the engine
//! defines. All times are in nanoseconds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A percentile is reported only if at least this many frames are above it: with fewer it is mostly
/// random.
const ABOVE: f64 = 10.0;

/// A number of values between two bounds, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value of the bucket, in nanoseconds.
    pub low: u64,
    /// The largest.
    pub high: u64,
    /// Number of values.
    pub count: u64,
}

/// Exact statistics of the times before they were put into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exact {
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// Smoothed variation (RFC 3550 section 6.4.1).
    pub jitter_ns: u64,
}

/// Frames that were due while their sender stalled for more than 100 us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StalledFrames {
    /// Number of frames that left later, or never.
    pub frames: u64,
    /// Frames among them that never left. They have no latency, or an infinite one.
    pub not_sent: u64,
    /// The longest stall of the sender; 0 if none exceeded 100 us.
    pub longest_ns: u64,
}

impl StalledFrames {
    /// Returns the part for a stream that sent `sent` of all `of` frames, if its frames were
    /// affected as often as others.
    #[must_use]
    pub fn share(self, sent: u64, of: u64) -> StalledFrames {
        let part = |frames: u64| {
            let part = u128::from(frames) * u128::from(sent);
            part.div_ceil(u128::from(of.max(1))) as u64
        };
        StalledFrames {
            frames: part(self.frames),
            not_sent: part(self.not_sent),
            longest_ns: self.longest_ns,
        }
    }

    /// Returns true if a percentile of `all` frames may reflect the sender rather than the DUT: if
    /// fewer frames are above it than were delayed by a stall, because the delayed ones alone could
    /// determine it, or are missing above it if they never left.
    pub fn speaks(self, all: u64, share: f64) -> bool {
        self.frames > 0 && (all as f64) * (1.0 - share) < self.frames as f64 * (1.0 - 1e-9)
    }
}

/// One-way latency of the frames of a trial or a stream, from intended departure to arrival.
///
/// A percentile is the upper bound of the bucket that contains it (nearest rank). It is absent when
/// fewer than 10 frames are above it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Frames with a measured latency.
    pub latency_frames: u64,
    /// Frames that never arrived and have no latency. Percentiles exclude them; figures with
    /// `with_loss` count their latency as infinite.
    pub latency_lost_frames: u64,
    /// Frames that were due while their sender stalled for more than 100 us, and that left late or
    /// never; with several streams, in proportion to the frames sent by each. Absent when the
    /// sender is unknown, and when departures are timestamped, because these latencies do not
    /// include stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_stalled_frames: Option<u64>,
    /// Frames among these that never left: `with_loss` counts their latency as infinite, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_not_sent_frames: Option<u64>,
    /// The longest stall of the sender; 0 if none exceeded 100 us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_longest_stall_ns: Option<u64>,
    /// Names of the figures here that may reflect the sender rather than the DUT: fewer frames are
    /// above them than were delayed by a stall.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_of_sender: Vec<String>,
    /// The minimum.
    pub latency_min_ns: u64,
    /// The mean.
    pub latency_mean_ns: f64,
    /// The standard deviation, from the buckets.
    pub latency_stdev_ns: f64,
    /// The median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p50_ns: Option<u64>,
    /// The 90th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p90_ns: Option<u64>,
    /// The 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99_ns: Option<u64>,
    /// The 99.9th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p999_ns: Option<u64>,
    /// The 99.99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p9999_ns: Option<u64>,
    /// The maximum.
    pub latency_max_ns: u64,
    /// The median, counting frames that were lost or never left as infinitely late; also absent
    /// when it is infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_with_loss_p50_ns: Option<u64>,
    /// The 99th percentile, counting these frames likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_with_loss_p99_ns: Option<u64>,
    /// The 99.9th percentile, counting these frames likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_with_loss_p999_ns: Option<u64>,
    /// Packet delay variation (RFC 5481): the 99.9th percentile minus the minimum (RFC 8219 section
    /// 7.3.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdv_p999_ns: Option<u64>,
    /// Absolute difference between the latencies of consecutively sent frames (IPDV, RFC 3393): the
    /// median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipdv_p50_ns: Option<u64>,
    /// The 99th percentile of these differences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipdv_p99_ns: Option<u64>,
    /// The 99.9th percentile of these differences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipdv_p999_ns: Option<u64>,
    /// Final value of the smoothed variation in order of arrival (RFC 3550 section 6.4.1).
    pub jitter_ns: u64,
    /// The clocks of the timestamps, and where they were read.
    pub timestamps: String,
    /// What took the departure times, where, and on which clock; absent in results of versions that
    /// did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departure_timestamps: Option<TimestampOrigin>,
    /// The same for the arrival times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival_timestamps: Option<TimestampOrigin>,
}

/// The origin of the timestamps at one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimestampOrigin {
    /// What took the timestamps.
    pub kind: TimestampKind,
    /// The point on a frame's path where they were taken.
    pub place: String,
    /// Their clock: `CLOCK_MONOTONIC`, `CLOCK_REALTIME`, or a card's own clock such as `/dev/ptp0`.
    pub clock: String,
}

/// What takes a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimestampKind {
    /// The sender's schedule.
    User,
    /// The kernel or an XDP program.
    Software,
    /// The network card.
    Hardware,
}

impl LatencySummary {
    /// Computes the figures from times in ascending buckets, none of them empty; from differences
    /// between neighbours; from the number of lost frames; and from what is known about the sender.
    pub fn new(
        times: &[Bucket],
        differences: &[Bucket],
        exact: &Exact,
        lost: u64,
        stalled: Option<StalledFrames>,
        timestamps: &str,
    ) -> LatencySummary {
        let frames = count(times);
        let endless = lost + stalled.map_or(0, |stalled| stalled.not_sent);
        let mean = exact.sum_ns as f64 / frames.max(1) as f64;
        let squares: f64 = times
            .iter()
            .map(|bucket| {
                let middle = bucket.low as f64 / 2.0 + bucket.high as f64 / 2.0;
                (middle - mean).powi(2) * bucket.count as f64
            })
            .sum();
        // the upper bound of the last bucket may exceed all values
        let of = |share| percentile(times, frames, share).map(|high| high.min(exact.max_ns));
        let with_loss = |share| {
            percentile(times, frames + endless, share).map(|high: u64| high.min(exact.max_ns))
        };
        let difference = |share| percentile(differences, count(differences), share);
        let mut summary = LatencySummary {
            latency_frames: frames,
            latency_lost_frames: lost,
            latency_stalled_frames: stalled.map(|stalled| stalled.frames),
            latency_not_sent_frames: stalled.map(|stalled| stalled.not_sent),
            latency_longest_stall_ns: stalled.map(|stalled| stalled.longest_ns),
            latency_of_sender: Vec::new(),
            latency_min_ns: exact.min_ns,
            latency_mean_ns: mean,
            latency_stdev_ns: (squares / frames.max(1) as f64).sqrt(),
            latency_p50_ns: of(0.5),
            latency_p90_ns: of(0.9),
            latency_p99_ns: of(0.99),
            latency_p999_ns: of(0.999),
            latency_p9999_ns: of(0.9999),
            latency_max_ns: exact.max_ns,
            latency_with_loss_p50_ns: with_loss(0.5),
            latency_with_loss_p99_ns: with_loss(0.99),
            latency_with_loss_p999_ns: with_loss(0.999),
            pdv_p999_ns: of(0.999).map(|high| high.saturating_sub(exact.min_ns)),
            ipdv_p50_ns: difference(0.5),
            ipdv_p99_ns: difference(0.99),
            ipdv_p999_ns: difference(0.999),
            jitter_ns: exact.jitter_ns,
            timestamps: timestamps.to_owned(),
            departure_timestamps: None,
            arrival_timestamps: None,
        };
        let (all, pairs) = (frames + endless, count(differences));
        let reported = [
            ("latency_p50_ns", summary.latency_p50_ns, frames, 0.5),
            ("latency_p90_ns", summary.latency_p90_ns, frames, 0.9),
            ("latency_p99_ns", summary.latency_p99_ns, frames, 0.99),
            ("latency_p999_ns", summary.latency_p999_ns, frames, 0.999),
            ("latency_p9999_ns", summary.latency_p9999_ns, frames, 0.9999),
            ("latency_max_ns", Some(exact.max_ns), frames, 1.0),
            (
                "latency_with_loss_p50_ns",
                summary.latency_with_loss_p50_ns,
                all,
                0.5,
            ),
            (
                "latency_with_loss_p99_ns",
                summary.latency_with_loss_p99_ns,
                all,
                0.99,
            ),
            (
                "latency_with_loss_p999_ns",
                summary.latency_with_loss_p999_ns,
                all,
                0.999,
            ),
            ("pdv_p999_ns", summary.pdv_p999_ns, frames, 0.999),
            ("ipdv_p50_ns", summary.ipdv_p50_ns, pairs, 0.5),
            ("ipdv_p99_ns", summary.ipdv_p99_ns, pairs, 0.99),
            ("ipdv_p999_ns", summary.ipdv_p999_ns, pairs, 0.999),
        ];
        let stalled = stalled.unwrap_or_default();
        summary.latency_of_sender = reported
            .into_iter()
            .filter(|(_, value, of, share)| value.is_some() && stalled.speaks(*of, *share))
            .map(|(name, ..)| name.to_owned())
            .collect();
        summary
    }

    /// Returns true if this figure may reflect the sender rather than the DUT.
    pub fn may_reflect_sender(&self, name: &str) -> bool {
        self.latency_of_sender.iter().any(|marked| marked == name)
    }
}

/// Returns single values as buckets of their own, ascending.
pub fn exact_buckets(mut values_ns: Vec<u64>) -> Vec<Bucket> {
    values_ns.sort_unstable();
    let alike = values_ns.chunk_by(|a, b| a == b);
    alike
        .map(|same| Bucket {
            low: same[0],
            high: same[0],
            count: same.len() as u64,
        })
        .collect()
}

/// Returns the number of values.
pub(crate) fn count(buckets: &[Bucket]) -> u64 {
    buckets.iter().map(|bucket| bucket.count).sum()
}

/// Returns true if enough of `all` values are above this share of them.
pub(crate) fn has_enough_values(all: u64, share: f64) -> bool {
    (all as f64) * (1.0 - share) >= ABOVE * (1.0 - 1e-9)
}

/// Returns the upper bound of the bucket that contains the value at this share of `all` values;
/// values that are in no bucket are larger than all others. `None` if it is one of these.
pub(crate) fn at_rank(buckets: &[Bucket], all: u64, share: f64) -> Option<u64> {
    // 0.9 of 10 is 9 and not 10: subtract the rounding error of a product of decimals
    let rank = ((share * all as f64 - 1e-6).ceil() as u64).max(1);
    let mut seen = 0;
    buckets.iter().find_map(|bucket| {
        seen += bucket.count;
        (seen >= rank).then_some(bucket.high)
    })
}

/// Like `at_rank`; `None` also if too few values are above it.
fn percentile(buckets: &[Bucket], all: u64, share: f64) -> Option<u64> {
    at_rank(buckets, all, share).filter(|_| has_enough_values(all, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 to `n` nanoseconds, once each.
    fn up_to(n: u64) -> Vec<Bucket> {
        (1..=n)
            .map(|value| Bucket {
                low: value,
                high: value,
                count: 1,
            })
            .collect()
    }

    fn summary(times: &[Bucket], lost: u64) -> LatencySummary {
        let exact = Exact {
            min_ns: 1,
            max_ns: times.len() as u64,
            sum_ns: times.iter().map(|bucket| bucket.low).sum(),
            jitter_ns: 3,
        };
        LatencySummary::new(times, times, &exact, lost, None, "made up")
    }

    #[test]
    fn nearest_rank_of_sorted_values() {
        let found = summary(&up_to(100_000), 0);
        assert_eq!(found.latency_p50_ns, Some(50_000));
        assert_eq!(found.latency_p90_ns, Some(90_000));
        assert_eq!(found.latency_p99_ns, Some(99_000));
        assert_eq!(found.latency_p999_ns, Some(99_900));
        assert_eq!(found.latency_p9999_ns, Some(99_990));
        assert_eq!((found.latency_min_ns, found.latency_max_ns), (1, 100_000));
        assert_eq!(found.latency_mean_ns, 50_000.5);
        // for a discrete uniform distribution: sqrt((n^2 - 1) / 12)
        assert!((found.latency_stdev_ns - 28_867.5).abs() < 0.1);
        assert_eq!(found.pdv_p999_ns, Some(99_899));
        assert_eq!(found.ipdv_p99_ns, Some(99_000));
        assert_eq!(found.latency_with_loss_p99_ns, Some(99_000));
    }

    #[test]
    fn too_few_frames_have_no_tail() {
        let found = summary(&up_to(999), 0);
        assert_eq!(found.latency_p90_ns, Some(900));
        assert_eq!(found.latency_p99_ns, None);
        assert_eq!(summary(&up_to(19), 0).latency_p50_ns, None);
        assert_eq!(summary(&up_to(20), 0).latency_p50_ns, Some(10));
    }

    #[test]
    fn lost_frames_are_endlessly_late() {
        // half a percent is lost: the 99th percentile is known, the 99.9th is infinite
        let found = summary(&up_to(99_500), 500);
        assert_eq!(found.latency_p99_ns, Some(98_505));
        assert_eq!(found.latency_with_loss_p99_ns, Some(99_000));
        assert_eq!(found.latency_with_loss_p999_ns, None);
        assert!(found.latency_p999_ns.is_some());
    }

    /// 1000 of 100,000 frames were delayed by a stall: more than are above the 99.9th percentile,
    /// and as many as above the 99th.
    #[test]
    fn percentiles_that_stalls_may_explain_are_marked() {
        let exact = Exact {
            min_ns: 1,
            max_ns: 100_000,
            sum_ns: 1,
            jitter_ns: 3,
        };
        let of = |frames, not_sent| {
            let stalled = StalledFrames {
                frames,
                not_sent,
                longest_ns: 7,
            };
            let times = up_to(100_000 - not_sent);
            LatencySummary::new(&times, &times, &exact, 0, Some(stalled), "made up")
        };
        let left_later = of(1000, 0);
        assert_eq!(
            left_later.latency_of_sender,
            [
                "latency_p999_ns",
                "latency_p9999_ns",
                "latency_max_ns",
                "latency_with_loss_p999_ns",
                "pdv_p999_ns",
                "ipdv_p999_ns"
            ]
        );
        assert!(of(1001, 0).may_reflect_sender("latency_p99_ns"));
        assert_eq!(of(1, 0).latency_of_sender, ["latency_max_ns"]);
        assert!(of(0, 0).latency_of_sender.is_empty());
        // those that never left are infinitely late, which does not affect the others
        let never_left = of(1000, 1000);
        assert_eq!(never_left.latency_not_sent_frames, Some(1000));
        assert_eq!(never_left.latency_p999_ns, Some(98_901));
        assert_eq!(never_left.latency_with_loss_p99_ns, Some(99_000));
        assert_eq!(never_left.latency_with_loss_p999_ns, None);
        assert!(never_left.may_reflect_sender("latency_p999_ns"));
        assert!(
            never_left.may_reflect_sender("latency_p99_ns"),
            "990 of those that came are above it"
        );
    }

    #[test]
    fn a_stream_has_the_stalls_of_its_sender() {
        let all = StalledFrames {
            frames: 1000,
            not_sent: 10,
            longest_ns: 7,
        };
        let part = all.share(40, 40_000);
        assert_eq!((part.frames, part.not_sent, part.longest_ns), (1, 1, 7));
        assert_eq!(all.share(5, 5), all);
        assert_eq!(all.share(0, 0).frames, 0);
    }

    #[test]
    fn unknown_values_are_absent() {
        let json = serde_json::to_value(summary(&up_to(30), 0)).unwrap();
        assert_eq!(json["latency_p50_ns"], 15);
        assert!(json.get("latency_p99_ns").is_none());
    }
}
