//! Latencies as an HDR histogram log, which the tools of that family read: HdrHistogram's plotter, wrk2, hdr-plot.
//!
//! One line for each interval, in the compressed encoding V2. Values are in nanoseconds, to three digits; a bucket counts as
//! its upper bound, as percentiles do everywhere in fwdlab. Start with [`log`].

use std::time::{Duration, SystemTime};

use fwdlab_model::latency::Bucket;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

/// Digits that are told apart.
const DIGITS: u8 = 3;

/// The largest time that is told from larger ones: some 18 minutes.
const LARGEST_NS: u64 = (1 << 40) - 1;

/// Latencies of a stream in a part of a trial.
#[derive(Debug, Clone)]
pub struct Interval<'a> {
    /// Of which stream; `None`: of all. Commas, spaces and line ends become underscores.
    pub tag: Option<String>,
    /// Since the beginning of the log.
    pub start: Duration,
    /// How long it was.
    pub duration: Duration,
    /// What was found in it.
    pub latencies: &'a [Bucket],
}

/// A log that begins at this time. `about` is a comment at its head, of one line.
///
/// # Panics
/// Never: it is written into memory, and its values are in range.
pub fn log(about: &str, begin: SystemTime, intervals: &[Interval<'_>]) -> String {
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let about: String = about.split(['\r', '\n']).collect::<Vec<_>>().join(" ");
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment(&format!("[{about}]"))
        .with_start_time(begin)
        .with_base_time(begin)
        // nanoseconds, also in the column of the largest value
        .with_max_value_divisor(1.0)
        .begin_log_with(&mut text, &mut serializer)
        .expect("memory can be written");
    for interval in intervals {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, LARGEST_NS, DIGITS)
            .expect("bounds and digits are valid");
        for bucket in interval.latencies {
            histogram.saturating_record_n(bucket.high.min(LARGEST_NS), bucket.count);
        }
        let tag = interval
            .tag
            .as_ref()
            .map(|tag| tag.replace([',', ' ', '\r', '\n'], "_"));
        writer
            .write_histogram(
                &histogram,
                interval.start,
                interval.duration,
                tag.as_deref().and_then(Tag::new),
            )
            .expect("memory can be written");
    }
    String::from_utf8(text).expect("the log is base 64 and numbers, and what was text before")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_does_not_break_lines() {
        let interval = Interval {
            tag: Some("a, b\nc".into()),
            start: Duration::ZERO,
            duration: Duration::from_secs(1),
            latencies: &[],
        };
        let log = log("one\ntwo", SystemTime::UNIX_EPOCH, &[interval]);
        assert!(log.lines().any(|line| line == "#[one two]"), "{log}");
        assert!(
            log.lines().last().unwrap().starts_with("Tag=a__b_c,"),
            "{log}"
        );
    }
}
