//! Latencies as an HDR histogram log, for the tools of that family: HdrHistogram's plotter, wrk2,
//! hdr-plot.
//!
//! One line for each interval, in the compressed encoding V2. Values are in nanoseconds, with three
//! significant digits; a bucket counts as its upper bound, as for percentiles everywhere in fwdlab.
//! Start with [`log`].

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fwdlab_model::latency::Bucket;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

/// Number of significant digits.
const DIGITS: u8 = 3;

/// The largest time that is distinguished from larger ones: some 18 minutes.
const LARGEST_NS: u64 = (1 << 40) - 1;

/// Points of a curve for every halving of the remaining share.
const TICKS_PER_HALF: u32 = 5;

/// Latencies of a stream in a part of a trial.
#[derive(Debug, Clone)]
pub struct Interval<'a> {
    /// The stream; `None`: all. Commas, spaces and line ends become underscores.
    pub tag: Option<String>,
    /// Time since the beginning of the log.
    pub start: Duration,
    /// Length of the interval.
    pub duration: Duration,
    /// The latencies in it.
    pub latencies: &'a [Bucket],
}

/// Returns a log that begins at this time. `about` is a comment of one line at its start.
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
        // nanoseconds, including the column of the largest value
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

/// Returns the curve of a log: percentiles of all its frames, regardless of their stream, and the
/// latency in nanoseconds that this share did not exceed. Denser towards 100, as usual in plots of
/// such curves. `None` if it is not such a log.
pub fn percentiles(log: &str) -> Option<Vec<(f64, u64)>> {
    let mut all = Histogram::<u64>::new_with_bounds(1, LARGEST_NS, DIGITS).ok()?;
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        let LogEntry::Interval(interval) = entry.ok()? else {
            continue;
        };
        // a stream with a tag is part of the interval without one, or there is only one stream
        let bytes = BASE64.decode(interval.encoded_histogram()).ok()?;
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
        if interval.tag().is_none() || all.is_empty() {
            all.add(&read).ok()?;
        }
    }
    let points = all.iter_quantiles(TICKS_PER_HALF);
    Some(
        points
            .map(|at| (at.quantile_iterated_to() * 100.0, at.value_iterated_to()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_read_back() {
        let bucket = |high, count| Bucket {
            low: high,
            high,
            count,
        };
        let interval = Interval {
            tag: None,
            start: Duration::ZERO,
            duration: Duration::from_secs(1),
            latencies: &[bucket(1000, 900), bucket(2000, 99), bucket(8000, 1)],
        };
        let log = log("test", SystemTime::UNIX_EPOCH, &[interval]);
        let curve = percentiles(&log).unwrap();
        let at = |requested: f64| curve.iter().find(|(p, _)| *p >= requested).unwrap().1;
        assert_eq!((at(50.0), at(90.1)), (1000, 2000));
        // the bucket of 8000 ns ends slightly above it, at three digits
        assert!((8000..8008).contains(&at(100.0)), "{}", at(100.0));
        assert_eq!(percentiles("nonsense"), None);
    }

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
