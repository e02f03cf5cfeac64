//! The output of pkt-gen, to the byte: first lines, one line per interval, and totals.
//!
//! Pure: values in, text out; [`Log`](super::log::Log) adds the timestamp and chooses the stream.
//! Line numbers in brackets are those of a published build, the last one in the netbenches archive
//! (`main_thread [2786]`), because some parsers identify the build by them. Start with [`Interval`]
//! and [`Totals`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fwdlab_lab::session::figures::Counted;

/// The origin of a message in pkt-gen: function and line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(pub &'static str, pub u32);

/// The origins in that build. Its logs show the first nine; the others are interpolated from
/// neighbouring builds.
pub mod place {
    use super::Place;

    pub const INTERFACE: Place = Place("main", 3036);
    pub const BURST: Place = Place("main", 3159);
    pub const CPUS: Place = Place("main", 3167);
    pub const RANGE: Place = Place("extract_ip_range", 477);
    pub const WAIT: Place = Place("start_threads", 2695);
    pub const READY: Place = Place("start_threads", 2697);
    pub const READING: Place = Place("receiver_body", 1940);
    pub const WAITING: Place = Place("receiver_body", 1955);
    pub const RATE: Place = Place("main_thread", 2786);
    pub const SENDING: Place = Place("main", 3371);
    pub const SENDER_START: Place = Place("sender_body", 1634);
    pub const SENDER_FLUSH: Place = Place("sender_body", 1786);
    pub const SEQUENCE_START: Place = Place("txseq_body", 2119);
    pub const SEQUENCE_FLUSH: Place = Place("txseq_body", 2248);
    pub const SEQUENCE_READING: Place = Place("rxseq_body", 2336);
    pub const SEQUENCE_WAITING: Place = Place("rxseq_body", 2343);
    pub const SEQUENCE_SMALL: Place = Place("rxseq_body", 2441);
    pub const SEQUENCE_GAP: Place = Place("rxseq_body", 2460);
    pub const SEQUENCE_ORDER: Place = Place("rxseq_body", 2463);
    pub const PING_SEND: Place = Place("ping_body", 1364);
    pub const PING_POLL: Place = Place("ping_body", 1397);
    pub const PING_RTT: Place = Place("ping_body", 1449);
    pub const PING_BUCKETS: Place = Place("ping_body", 1466);
    pub const PING_TOTAL: Place = Place("ping_body", 1486);
    pub const PONG_COUNT: Place = Place("pong_body", 1516);
    pub const PONG_POLL: Place = Place("pong_body", 1526);
    pub const OUCH: Place = Place("main_thread", 2819);
    pub const BAD: Place = Place("main", 3020);
}

/// Returns a message with pkt-gen's timestamp: seconds modulo 1000, and microseconds.
pub fn message(at: SystemTime, Place(function, line): Place, text: &str) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    format!(
        "{:03}.{:06} {function} [{line}] {text}\n",
        since.as_secs() % 1000,
        since.subsec_micros()
    )
}

/// The format of numbers; `-N` selects plain numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// `877894 `
    Plain,
    /// `877.894 K`
    Scaled,
}

impl Units {
    /// Returns the number with its prefix, ready for the unit.
    pub fn write(self, value: f64) -> String {
        match self {
            Units::Plain => format!("{value:.0} "),
            Units::Scaled => {
                const PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];
                let mut value = value;
                let mut prefix = 0;
                while value >= 1000.0 && prefix < PREFIXES.len() - 1 {
                    value /= 1000.0;
                    prefix += 1;
                }
                format!("{value:.3} {}", PREFIXES[prefix])
            }
        }
    }
}

/// Returns the frames per batch; 0 if the number of batches is unknown.
fn per_batch(counted: Counted) -> f64 {
    match counted.batches {
        0 => 0.0,
        batches => counted.frames as f64 / batches as f64,
    }
}

/// Returns the bits, with 24 bytes of framing and FCS per frame if `-B` is set.
fn bits(counted: Counted, framing: bool) -> f64 {
    let framing = if framing { 24.0 * 8.0 } else { 0.0 };
    8.0 * counted.bytes as f64 + counted.frames as f64 * framing
}

/// pkt-gen's value for unknown space in a ring; it starts with this at each report.
const SPACE_UNKNOWN: u64 = 99_999;

/// A report interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// What was counted.
    pub counted: Counted,
    /// Its duration in microseconds; at least 1.
    pub us: u64,
    /// True for the first interval, for which pkt-gen prints a space of 0.
    pub first: bool,
}

impl Interval {
    /// Returns the frames per second, rounded like pkt-gen.
    pub fn pps(&self) -> u64 {
        let us = u128::from(self.us.max(1));
        let pps = (u128::from(self.counted.frames) * 1_000_000 + us / 2) / us;
        u64::try_from(pps).unwrap_or(u64::MAX)
    }

    /// Returns a line such as `877894 pps (878710 pkts 421389329 bps in 1000929 usec) 3.11
    /// avg_batch 99999 min_space`.
    pub fn line(&self, units: Units, framing: bool, average: &str) -> String {
        let bps = 1e6 * bits(self.counted, framing) / self.us.max(1) as f64;
        format!(
            "{}pps {average}({}pkts {}bps in {} usec) {:.2} avg_batch {} min_space",
            units.write(self.pps() as f64),
            units.write(self.counted.frames as f64),
            units.write(bps),
            self.us,
            per_batch(self.counted),
            if self.first { 0 } else { SPACE_UNKNOWN }
        )
    }
}

/// Rates of the most recent intervals (`-A`).
#[derive(Debug, Default)]
pub struct Window {
    rates: [u64; Window::LEN],
    next: usize,
}

impl Window {
    const LEN: usize = 15;

    /// Adds a rate. Returns the text to print: mean and standard deviation of the rates other than
    /// 0.
    pub fn add(&mut self, pps: u64, units: Units) -> String {
        self.rates[self.next] = pps;
        self.next = (self.next + 1) % Window::LEN;
        let counted = || self.rates.iter().filter(|r| **r > 0).map(|r| *r as f64);
        let n = counted().count().max(1) as f64;
        let mean = counted().fold(0.0, |sum, r| sum + r) / n;
        let deviation = (counted().fold(0.0, |sum, r| sum + (r - mean).powi(2)) / n).sqrt();
        format!(
            "[avg/std {}/{}pps]",
            units.write(mean),
            units.write(deviation)
        )
    }
}

/// The totals of `tx`, `rx`, `txseq` and `rxseq`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    /// `Sent` or `Received`.
    pub what: &'static str,
    /// What was counted.
    pub counted: Counted,
    /// Seconds from the first frame to the last.
    pub seconds: f64,
}

impl Totals {
    /// Returns two lines, or one if no frame was counted.
    pub fn lines(&self, units: Units, framing: bool) -> String {
        let Counted {
            frames,
            bytes,
            batches,
        } = self.counted;
        if frames == 0 {
            return format!("{} nothing.\n", self.what);
        }
        let seconds = if self.seconds > 0.0 {
            self.seconds
        } else {
            1e-6
        };
        format!(
            "{} {frames} packets {bytes} bytes {batches} events {} bytes each in {:.2} seconds.\n\
             Speed: {}pps Bandwidth: {}bps (raw {}bps). Average batch: {:.2} pkts\n",
            self.what,
            bytes / frames,
            self.seconds,
            units.write(frames as f64 / seconds),
            units.write(8.0 * bytes as f64 / seconds),
            units.write(bits(self.counted, framing) / seconds),
            per_batch(self.counted)
        )
    }
}

/// Returns a line such as `Sending on netmap:igb1: 1 queues, 1 threads and 1 cpus.`
pub fn opened(what: &str, interface: &str, threads: u32, cpus: usize) -> String {
    format!("{what} {interface}: {threads} queues, {threads} threads and {cpus} cpus.\n")
}

/// Formats a MAC address: `0c:c4:7a:ab:29:35`.
pub fn mac(octets: [u8; 6]) -> String {
    octets.map(|octet| format!("{octet:02x}")).join(":")
}

/// Round-trip times of `ping`, in buckets of powers of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundTrips {
    count: u64,
    least_ns: u64,
    sum_ns: u64,
    buckets: [u64; 64],
}

impl Default for RoundTrips {
    fn default() -> Self {
        RoundTrips {
            count: 0,
            least_ns: u64::MAX,
            sum_ns: 0,
            buckets: [0; 64],
        }
    }
}

impl RoundTrips {
    /// Adds a round-trip time.
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        self.least_ns = self.least_ns.min(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.buckets[ns.max(1).ilog2() as usize] += 1;
    }

    /// Adds those of another period.
    pub fn merge(&mut self, other: &RoundTrips) {
        self.count += other.count;
        self.least_ns = self.least_ns.min(other.least_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
    }

    fn mean_ns(&self) -> u64 {
        self.sum_ns / self.count.max(1)
    }

    /// Returns a line such as `count 9876 RTT: min 5012 av 6101 ns`; `None` without round trips.
    pub fn line(&self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "count {} RTT: min {} av {} ns",
                self.count,
                self.least_ns,
                self.mean_ns()
            )
        })
    }

    /// Returns `k: 4096 .. 65536` and, below it, the number of round trips from each power of two
    /// to the next.
    pub fn histogram(&self) -> Option<String> {
        let first = self.buckets.iter().position(|&n| n > 0)?;
        let last = self.buckets.iter().rposition(|&n| n > 0)?;
        let counts: String = self.buckets[first..=last]
            .iter()
            .map(|n| format!(" {n:5}"))
            .collect();
        Some(format!(
            "k: {} .. {}\n\t{counts}",
            1_u64 << first,
            1_u64 << last
        ))
    }

    /// Returns a line such as `RTT over 9876 packets: min 5012 av 6101 ns`. It counts round trips,
    /// not requests.
    pub fn total(&self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "RTT over {} packets: min {} av {} ns",
                self.count,
                self.least_ns,
                self.mean_ns()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interval(frames: u64, bytes: u64, us: u64, batches: u64) -> Interval {
        Interval {
            counted: Counted {
                frames,
                bytes,
                batches,
            },
            us,
            first: false,
        }
    }

    /// Lines of real logs, from the archive and from luigirizzo/netmap issue 368. The latter is
    /// from a build whose `bps` is the bits of the interval (436.931 M); later builds, and this
    /// program, print bits per second.
    #[test]
    fn rates_are_printed_as_in_published_logs() {
        let line = interval(1_413_127, 1_413_127 * 60, 1_000_337, 2997);
        assert_eq!(
            line.line(Units::Plain, false, ""),
            "1412651 pps (1413127 pkts 678072450 bps in 1000337 usec) 471.51 avg_batch 99999 min_space"
        );
        let line = interval(910_273, 910_273 * 60, 1_001_001, 4011);
        assert_eq!(
            line.line(Units::Scaled, false, ""),
            "909.363 Kpps (910.273 Kpkts 436.494 Mbps in 1001001 usec) 226.94 avg_batch 99999 min_space"
        );
        let nothing = Interval {
            first: true,
            ..interval(0, 0, 1_063_365, 0)
        };
        assert_eq!(
            nothing.line(Units::Plain, false, ""),
            "0 pps (0 pkts 0 bps in 1063365 usec) 0.00 avg_batch 0 min_space"
        );
        assert_eq!(
            nothing.line(Units::Scaled, false, ""),
            "0.000 pps (0.000 pkts 0.000 bps in 1063365 usec) 0.00 avg_batch 0 min_space"
        );
    }

    /// `-B`: a line from luigirizzo/netmap issue 919, of 2.5 Gbit/s filled with frames of 128 bytes
    /// and 24 of framing.
    #[test]
    fn framing_counts_24_bytes() {
        let line = interval(2_055_300, 2_055_300 * 128, 1_000_994, 0);
        assert!(
            line.line(Units::Scaled, true, "")
                .starts_with("2.053 Mpps (2.055 Mpkts 2.497 Gbps in 1000994 usec)")
        );
    }

    #[test]
    fn totals_as_in_published_logs() {
        let totals = Totals {
            what: "Sent",
            counted: Counted {
                frames: 80_000_000,
                bytes: 4_800_000_000,
                batches: 207_719,
            },
            seconds: 54.809_442,
        };
        assert_eq!(
            totals.lines(Units::Plain, false),
            "Sent 80000000 packets 4800000000 bytes 207719 events 60 bytes each in 54.81 seconds.\n\
             Speed: 1459603 pps Bandwidth: 700609213 bps (raw 700609213 bps). Average batch: 385.14 pkts\n"
        );
        let nothing = Totals {
            what: "Received",
            counted: Counted::default(),
            seconds: 0.0,
        };
        assert_eq!(nothing.lines(Units::Plain, false), "Received nothing.\n");
    }

    #[test]
    fn stamps_wrap_at_a_thousand_seconds() {
        let at = UNIX_EPOCH + Duration::from_micros(1_700_000_009_000_042);
        assert_eq!(
            message(at, place::RATE, "x"),
            "009.000042 main_thread [2786] x\n"
        );
    }

    #[test]
    fn averages_exclude_zeros() {
        let mut window = Window::default();
        assert_eq!(window.add(0, Units::Plain), "[avg/std 0 /0 pps]");
        window.add(100, Units::Plain);
        assert_eq!(window.add(300, Units::Plain), "[avg/std 200 /100 pps]");
        let line = interval(300, 18_000, 1_000_000, 0);
        let average = window.add(200_000, Units::Scaled);
        assert!(
            line.line(Units::Plain, false, &average)
                .starts_with("300 pps [avg/std ")
        );
        // push the first three out of the window
        for _ in 0..15 {
            window.add(7, Units::Plain);
        }
        assert_eq!(window.add(7, Units::Plain), "[avg/std 7 /0 pps]");
    }

    #[test]
    fn round_trips() {
        let mut trips = RoundTrips::default();
        assert_eq!((trips.line(), trips.histogram()), (None, None));
        [0, 5000, 9000, 70_000]
            .iter()
            .for_each(|&ns| trips.record(ns));
        assert_eq!(trips.line().unwrap(), "count 4 RTT: min 0 av 21000 ns");
        assert_eq!(
            trips.histogram().unwrap(),
            format!(
                "k: 1 .. 65536\n\t     1{}     1     1     0     0     1",
                "     0".repeat(11)
            )
        );
        let mut all = RoundTrips::default();
        all.merge(&trips);
        assert_eq!(
            all.total().unwrap(),
            "RTT over 4 packets: min 0 av 21000 ns"
        );
    }

    proptest! {
        /// Field 4 is the rate; the figures in parentheses give the same rate with pkt-gen's
        /// rounding.
        #[test]
        fn a_plain_line_can_be_read_back(frames in 0_u64..1 << 40, us in 10_000_u64..1 << 33) {
            let line = message(UNIX_EPOCH, place::RATE, &interval(frames, frames * 60, us, 1).line(Units::Plain, false, ""));
            let fields: Vec<&str> = line.split(' ').collect();
            let pps: u64 = fields[3].parse().unwrap();
            prop_assert_eq!(fields[4], "pps");
            let read: u64 = fields[5].trim_start_matches('(').parse().unwrap();
            prop_assert_eq!(read, frames);
            prop_assert_eq!(fields[10].parse::<u64>().unwrap(), us);
            let exact = frames as f64 * 1e6 / us as f64;
            prop_assert!((pps as f64 - exact).abs() <= 0.5 + exact * 1e-12);
        }
    }
}
