//! Which samples of a log determine the value of a run: the archive's own rule, exact to the line,
//! and ours.
//!
//! A run's value is the median of its samples. The archive drops 15 lines at the start and 10 at
//! the end of any kind; ours drops 5 s after the first received frame and 2 s before the last sent
//! one. Start with [`legacy`] and [`apply_rule`].

use super::log::{Log, Sample};
use super::scan::general8;

/// Lines that the archive's rule drops at the start of a log.
const HEAD: u32 = 15;
/// Lines that it drops at the end.
const TAIL: u64 = 10;
/// Minimum number of samples for ministat.
const FEWEST: usize = 3;
/// Time that our rule drops after the first received frame.
const AFTER_FIRST_US: u64 = 5_000_000;
/// Time that our rule drops before the last sent frame.
const BEFORE_LAST_US: u64 = 2_000_000;
/// Clocks of two hosts agree if the first frames of sender and receiver are no further apart than
/// this.
const SAME_CLOCK_US: u64 = 15_000_000;
/// Timestamps are known modulo this.
const WRAP_US: i64 = 1_000_000_000;

/// The value of a run by the archive's own rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Legacy {
    /// Number of samples.
    pub samples: u32,
    /// Median; for an even number the mean of the two middle ones, as in ministat since late 2015.
    pub median: f64,
    /// Median as in ministat of 2015: for an even number the upper of the two middle ones.
    pub upper: f64,
    /// Smallest and largest sample.
    pub range: [f64; 2],
}

impl Legacy {
    /// Returns what the rule appends to the `.pps` file, by either median.
    pub fn texts(&self) -> [String; 2] {
        [general8(self.median), general8(self.upper)]
    }
}

/// Why a log has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoValue {
    /// No line contains a sample.
    Empty,
    /// Fewer than three samples remain.
    TooShort,
    /// A line that is not dropped matches but has no number in its fourth field.
    NotANumber,
}

impl NoValue {
    /// Describes the reason.
    pub fn words(self) -> &'static str {
        match self {
            NoValue::Empty => "the log has no samples",
            NoValue::TooShort => "the log is too short for the rule",
            NoValue::NotANumber => "a line of the log that the rule picks has no number",
        }
    }
}

/// Applies the archive's own rule to a log.
///
/// # Errors
/// [`NoValue`]: ministat then prints nothing, and the `.pps` file lacks a line.
pub fn legacy(log: &Log) -> Result<Legacy, NoValue> {
    let values = legacy_samples(log)?;
    if values.len() < FEWEST {
        let empty = log.counts.samples == log.counts.zero + log.counts.negative;
        return Err(if empty {
            NoValue::Empty
        } else {
            NoValue::TooShort
        });
    }
    let mut sorted = values;
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Ok(Legacy {
        samples: sorted.len() as u32,
        median: median(&sorted).unwrap_or_default(),
        upper: sorted[middle],
        range: [sorted[0], sorted[sorted.len() - 1]],
    })
}

/// Returns the samples of that rule, in order.
///
/// # Errors
/// [`NoValue::NotANumber`].
pub fn legacy_samples(log: &Log) -> Result<Vec<f64>, NoValue> {
    let end = log.counts.lines.saturating_sub(TAIL);
    log.picked
        .iter()
        .filter(|picked| picked.line > HEAD && u64::from(picked.line) <= end)
        .map(|picked| picked.value.ok_or(NoValue::NotANumber))
        .collect()
}

/// The value of a run by our rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleResult {
    /// Number of samples.
    pub samples: u32,
    /// Their median; for an even number the mean of the two middle ones. Absent without samples.
    pub median: Option<f64>,
    /// Seconds of traffic that they cover.
    pub duration_s: f64,
    /// Source of the end of the traffic.
    pub end: End,
}

/// Source of the end of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The sender's log.
    Sender,
    /// The receiver's log: there is no sender's log, or it uses another clock.
    Receiver,
}

/// Applies our rule to a receiver's log; `sender` contains the time of the last sent frame.
pub fn apply_rule(receiver: &Log, sender: Option<&Log>) -> RuleResult {
    let positive = |sample: &&Sample| sample.pps > 0.0;
    let first = receiver
        .samples
        .iter()
        .find(positive)
        .and_then(Sample::start_us);
    let (last, end) = match (
        first,
        sender.and_then(|s| sender_end_on_receiver(receiver, s)),
    ) {
        (Some(_), Some(last)) => (Some(last), End::Sender),
        _ => (end_of_traffic(receiver), End::Receiver),
    };
    let window = first.zip(last);
    let used: Vec<&Sample> = receiver
        .samples
        .iter()
        .filter(positive)
        .filter(|sample| {
            let times = sample.start_us().zip(sample.end_us).zip(window);
            times.is_some_and(|((start, stop), (first, last))| {
                start >= first + AFTER_FIRST_US && stop + BEFORE_LAST_US <= last
            })
        })
        .collect();
    let mut sorted: Vec<f64> = used.iter().map(|sample| sample.pps).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let micros: u64 = used.iter().filter_map(|sample| sample.interval_us).sum();
    RuleResult {
        samples: used.len() as u32,
        median: median(&sorted),
        duration_s: micros as f64 / 1e6,
        end,
    }
}

/// Returns the median rate of a sender while it sent: of its samples without the first and the
/// last, which are partial.
pub fn offered(sender: &Log) -> Option<f64> {
    let positive: Vec<f64> = sender
        .samples
        .iter()
        .map(|sample| sample.pps)
        .filter(|pps| *pps > 0.0)
        .collect();
    let inner = match positive.len() {
        0..3 => &positive[..],
        n => &positive[1..n - 1],
    };
    let mut sorted = inner.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median(&sorted)
}

/// Returns when the last frame was sent: from the sender's own message, or else from the last
/// sample with traffic, whose interval was filled in proportion to its rate compared with the usual
/// one.
fn end_of_traffic(log: &Log) -> Option<u64> {
    if let Some(drained) = log.drained_us {
        return Some(drained);
    }
    let last = log.samples.iter().rev().find(|sample| sample.pps > 0.0)?;
    let (start, end) = (last.start_us()?, last.end_us?);
    let share = offered(log).map_or(1.0, |usual| (last.pps / usual).min(1.0));
    Some(start + ((end - start) as f64 * share) as u64)
}

/// Returns the end of the sender's traffic on the receiver's clock, if both use the same.
fn sender_end_on_receiver(receiver: &Log, sender: &Log) -> Option<u64> {
    let first = |log: &Log| {
        let sample = log.samples.iter().find(|sample| sample.pps > 0.0)?;
        sample.start_us()
    };
    let (here, there) = (first(receiver)?, first(sender)?);
    let end = end_of_traffic(sender)?;
    // One of the two logs may have begun before the clock wrapped and the other after it.
    [0, WRAP_US, -WRAP_US]
        .into_iter()
        .find(|shift| (there as i64 + shift).abs_diff(here as i64) <= SAME_CLOCK_US)
        .map(|shift| end.saturating_add_signed(shift))
}

/// Returns the median of sorted values; for an even number the mean of the two middle ones.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n.is_multiple_of(2) => Some((sorted[middle] + sorted[middle - 1]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Log {
        Log::read(&mut text.as_bytes(), &mut Vec::new()).unwrap()
    }

    fn sample(second: u32, pps: u64) -> String {
        format!(
            "{:03}.000000 main_thread [1] {pps} pps ({pps} pkts in 1000000 usec)\n",
            second % 1000
        )
    }

    /// As with coreutils: `tail -n +16 | head -n -10`.
    #[test]
    fn head_and_tail_are_lines() {
        let text: String = (1..=40).map(|n| sample(n, u64::from(n))).collect();
        let rule = legacy(&read(&text)).unwrap();
        // lines 16 to 30
        assert_eq!((rule.samples, rule.range), (15, [16.0, 30.0]));
        assert_eq!((rule.median, rule.upper), (23.0, 23.0));
        // an even number: the two medians differ
        let text: String = (1..=41).map(|n| sample(n, u64::from(n))).collect();
        let rule = legacy(&read(&text)).unwrap();
        assert_eq!((rule.median, rule.upper), (23.5, 24.0));
        assert_eq!(rule.texts(), ["23.5", "24"]);
        // two samples are too few for ministat
        let text: String = (1..=27).map(|n| sample(n, u64::from(n))).collect();
        assert_eq!(legacy(&read(&text)), Err(NoValue::TooShort));
        assert_eq!(legacy(&read("")), Err(NoValue::Empty));
    }

    #[test]
    fn zero_samples_are_no_samples_and_words_stop_the_rule() {
        let text: String = (1..=40).map(|n| sample(n, u64::from(n % 2))).collect();
        assert_eq!(legacy(&read(&text)).unwrap().samples, 7);
        let mut lines: Vec<String> = (1..=40).map(|n| sample(n, u64::from(n))).collect();
        lines[20] = "x 021.000000 main_thread [1] 21 pps (21 pkts in 1000000 usec)\n".into();
        assert_eq!(legacy(&read(&lines.concat())), Err(NoValue::NotANumber));
    }

    #[test]
    fn our_rule_cuts_by_time() {
        // Frames from second 10 to 40, the receiver idle before and after, with a wrap of the clock
        // at 1000.
        for begin in [0, 975] {
            let text: String = (1..=60)
                .map(|n| {
                    sample(
                        begin + n,
                        if (11..=40).contains(&n) {
                            100 + u64::from(n)
                        } else {
                            0
                        },
                    )
                })
                .collect();
            let sender: String = (8..=45)
                .map(|n| sample(begin + n, if (11..=40).contains(&n) { 1000 } else { 0 }))
                .collect();
            let log = read(&text);
            for (sender, end) in [(Some(read(&sender)), End::Sender), (None, End::Receiver)] {
                let found = apply_rule(&log, sender.as_ref());
                // first interval begins at 10, samples from 16; last frame at 40, samples up to 38
                assert_eq!((found.samples, found.end), (23, end), "{begin}");
                assert_eq!(found.median, Some(127.0));
                assert_eq!(found.duration_s, 23.0);
            }
            // A sender with another clock does not determine the end.
            let other: String = (1..=40).map(|n| sample(begin + 300 + n, 1000)).collect();
            let other = apply_rule(&log, Some(&read(&other)));
            assert_eq!(other.end, End::Receiver);
        }
    }

    #[test]
    fn the_sender_may_have_wrapped_before_the_receiver_began() {
        let sender: String = (998..=1040).map(|n| sample(n, 1000)).collect();
        let receiver: String = (2..=60)
            .map(|n| sample(n, if n <= 40 { 500 } else { 0 }))
            .collect();
        let ours = apply_rule(&read(&receiver), Some(&read(&sender)));
        assert_eq!(ours.end, End::Sender);
        // From 1 + 5 to 40 - 2.
        assert_eq!(ours.samples, 32);
    }

    #[test]
    fn a_partial_last_sample_ends_where_its_traffic_ended() {
        let mut text: String = (1..=30).map(|n| sample(n, 1000)).collect();
        text += &sample(31, 250);
        assert_eq!(end_of_traffic(&read(&text)), Some(30_250_000));
        assert_eq!(offered(&read(&text)), Some(1000.0));
        assert_eq!(offered(&read("")), None);
    }
}
