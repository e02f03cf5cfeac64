//! Logs of pkt-gen, receiver's or sender's, in both grammars and all their variants.
//!
//! Every line is counted as a sample, as one of the known other lines, or as unknown; the first
//! unknown ones are kept for messages. [`super::rule`] decides which samples count. Start with
//! [`Log::read`].

use std::io::{self, Read};

use super::command::Command;
use super::equilibrium::{self, Equilibrium};
use super::lines::{Line, for_each_line};
use super::scan::{Scan, find, shown};

/// Maximum number of samples kept of one log: three days of one per second. Further ones are
/// counted, and the log is reported as too long.
pub const MOST_SAMPLES: usize = 250_000;
/// Number of unknown lines kept for messages.
const NAMED: usize = 3;
/// Timestamps are seconds modulo this.
const WRAP_US: u64 = 1000 * 1_000_000;

/// One line of figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Number of the line in the file, from 1.
    pub line: u32,
    /// End of its interval, in microseconds; continues past wraps of the log's clock. Absent on a
    /// damaged line.
    pub end_us: Option<u64>,
    /// The printed rate, with prefixes resolved.
    pub pps: f64,
    /// Length of the interval.
    pub interval_us: Option<u64>,
    /// Frames in the interval.
    pub frames: Option<f64>,
}

impl Sample {
    /// Returns the start of its interval.
    pub fn start_us(&self) -> Option<u64> {
        Some(
            self.end_us?
                .saturating_sub(self.interval_us.unwrap_or(1_000_000)),
        )
    }
}

/// Numbers of lines of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All lines.
    pub lines: u64,
    /// Lines with a rate.
    pub samples: u64,
    /// Samples with a rate of zero.
    pub zero: u64,
    /// Samples below zero, which a crash leaves behind.
    pub negative: u64,
    /// Samples that are cut off or mixed with another line after the rate.
    pub damaged: u64,
    /// Samples with a prefix (`Mpps`), from a pkt-gen without `-N`.
    pub prefixed: u64,
    /// Known lines that are not samples: the header, messages of pkt-gen, totals, the shell's
    /// `Terminated`.
    pub known: u64,
    /// Lines among these with `waiting for initial packets`.
    pub waiting: u64,
    /// Empty lines among these.
    pub empty: u64,
    /// Lines of no known form, and lines longer than any line of a log.
    pub unknown: u64,
}

/// The totals at the end of a log, from `Sent` or `Received`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    /// Frames; below zero after a crash.
    pub frames: f64,
    /// Seconds.
    pub seconds: Option<f64>,
}

/// The value that the archive's own rule picks from a line of any kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Picked {
    /// Number of the line, from 1.
    pub line: u32,
    /// The fourth field; `None` if it is not a number, which stops ministat.
    pub value: Option<f64>,
}

/// The contents of one log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// The command at its start.
    pub command: Option<Command>,
    /// Numbers of lines.
    pub counts: Counts,
    /// The samples in the order of the file.
    pub samples: Vec<Sample>,
    /// The values that the archive's own rule picks, before it drops lines at both ends.
    pub picked: Vec<Picked>,
    /// `Sent N packets`.
    pub sent: Option<Total>,
    /// `Received N packets`.
    pub received: Option<Total>,
    /// When the sender had passed on its last frame and waited for its rings to drain.
    pub drained_us: Option<u64>,
    /// `ouch, thread 0 exited with error`.
    pub ouch: bool,
    /// The estimate of an equilibrium log.
    pub equilibrium: Option<Equilibrium>,
    /// The first unknown lines, with their numbers.
    pub unknown: Vec<(u64, String)>,
    /// True if the last line has no newline.
    pub unended: bool,
    /// Bytes read.
    pub bytes: u64,
    clock: Clock,
}

/// A clock that continues past wraps of timestamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Clock {
    last_us: Option<u64>,
    wrapped_us: u64,
}

impl Clock {
    /// Returns the time of a timestamp. Threads write slightly out of order; a jump back of half a
    /// period is a wrap.
    fn unwrap(&mut self, stamp_us: u64) -> u64 {
        if self
            .last_us
            .is_some_and(|last| stamp_us + WRAP_US / 2 < last)
        {
            self.wrapped_us += WRAP_US;
        }
        self.last_us = Some(stamp_us);
        self.wrapped_us + stamp_us
    }
}

impl Log {
    /// Reads a log to its end; `buffer` is working memory.
    ///
    /// # Errors
    /// If reading from `input` fails.
    pub fn read(input: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Log> {
        let mut log = Log::default();
        log.bytes = for_each_line(input, buffer, |line| log.line(line))?;
        Ok(log)
    }

    fn line(&mut self, line: Line<'_>) {
        self.counts.lines += 1;
        self.unended = !line.ended;
        let bytes = line.bytes.strip_suffix(b"\r").unwrap_or(line.bytes);
        if !line.cut && self.sample(bytes) {
            return;
        }
        if line.cut || !self.known(bytes) {
            self.counts.unknown += 1;
            if self.unknown.len() < NAMED {
                self.unknown.push((self.counts.lines, shown(bytes)));
            }
        } else {
            self.counts.known += 1;
        }
    }

    /// Returns the line's number, which fits for lines that can be kept.
    fn number(&self) -> u32 {
        u32::try_from(self.counts.lines).unwrap_or(u32::MAX)
    }

    /// `... 499.526652 main_thread [1534] 1963119 pps (1966910 pkts in 1001931 usec)`.
    fn sample(&mut self, bytes: &[u8]) -> bool {
        let Some(at) = find(bytes, b"main_thread") else {
            return false;
        };
        let number = self.number();
        if let Some(value) = pick(bytes, at)
            && self.picked.len() < MOST_SAMPLES
        {
            self.picked.push(Picked {
                line: number,
                value,
            });
        }
        // If two lines were written into each other the last one may be complete.
        let mut at = Some(at);
        while let Some(start) = at {
            let after = start + b"main_thread".len();
            if let Some(figures) = figures(&bytes[after..]) {
                let end_us = stamp_before(&bytes[..start]).map(|stamp| self.clock.unwrap(stamp));
                self.keep(Sample {
                    line: number,
                    end_us,
                    pps: figures.pps,
                    interval_us: figures.interval_us,
                    frames: figures.frames,
                });
                self.counts.damaged += u64::from(figures.interval_us.is_none() || end_us.is_none());
                self.counts.prefixed += u64::from(figures.prefixed);
                return true;
            }
            at = find(&bytes[after..], b"main_thread").map(|next| after + next);
        }
        false
    }

    fn keep(&mut self, sample: Sample) {
        self.counts.samples += 1;
        self.counts.zero += u64::from(sample.pps == 0.0);
        self.counts.negative += u64::from(sample.pps < 0.0);
        if self.samples.len() < MOST_SAMPLES {
            self.samples.push(sample);
        }
    }

    fn known(&mut self, bytes: &[u8]) -> bool {
        let text = bytes.trim_ascii();
        match text {
            [] => {
                self.counts.empty += 1;
                return true;
            }
            [b'0'..=b'9', ..] if self.message(text) => return true,
            [b'C', ..] => {
                if let Some(command) = Command::parse(text) {
                    self.command.get_or_insert(command);
                    return true;
                }
            }
            [b'S', ..] | [b'R', ..] => {
                for (word, total) in [
                    (&b"Sent "[..], &mut self.sent),
                    (b"Received ", &mut self.received),
                ] {
                    if let Some(found) = text.strip_prefix(word).and_then(Total::parse) {
                        *total = Some(found);
                        return true;
                    }
                }
            }
            [b'E', ..] => {
                if let Some(found) = Equilibrium::parse(text) {
                    self.equilibrium = Some(found);
                    return true;
                }
            }
            _ => {}
        }
        equilibrium::is_step(text)
            || SHAPES.iter().any(|beginning| text.starts_with(beginning))
            || is_addresses(text)
    }

    /// `503.565509 nm_open [456] ...`: any message of pkt-gen.
    fn message(&mut self, text: &[u8]) -> bool {
        let mut scan = Scan(text);
        let Some(stamp) = stamp(&mut scan) else {
            return false;
        };
        scan.blanks();
        let end = scan
            .0
            .iter()
            .position(|b| !(b.is_ascii_alphanumeric() || *b == b'_'))
            .unwrap_or(scan.0.len());
        let (function, rest) = scan.0.split_at(end);
        let mut rest = Scan(rest);
        rest.blanks();
        if function.is_empty()
            || !rest.skip_text(b"[")
            || rest.digits().is_empty()
            || !rest.skip_text(b"]")
        {
            return false;
        }
        let time = self.clock.unwrap(stamp);
        let words = rest.0.trim_ascii_start();
        if function == b"sender_body"
            && (words.starts_with(b"pending tx") || words.starts_with(b"flush tail"))
        {
            self.drained_us.get_or_insert(time);
        }
        self.counts.waiting += u64::from(words.starts_with(b"waiting for initial"));
        self.ouch |= words.starts_with(b"ouch");
        true
    }

    /// Returns true if there are more samples than are kept.
    pub fn too_long(&self) -> bool {
        self.counts.samples > self.samples.len() as u64 || self.counts.lines > u64::from(u32::MAX)
    }
}

/// Prefixes of the other known lines.
const SHAPES: [&[u8]; 22] = [
    b"Terminated",
    b"Killed",
    b"Hangup",
    b"Sending on ",
    b"Receiving from ",
    b"Speed:",
    b"+ ",
    b"usage:",
    b"Usage:",
    b"Connection to ",
    b"Shared connection to ",
    b"Connection closed",
    b"Warning: Permanently added",
    b"ssh: ",
    b"pkt-gen",
    b"CMD",
    b"Sent ",
    b"Received ",
    b"flush tail",
    b"ping: ",
    b"kldload: ",
    b"killed",
];

/// `198.18.10.1:2000-198.18.10.20 -> 198.19.10.1 (00:07:43:2e:e4:89 -> 90:e2:ba:84:20:38)`.
fn is_addresses(text: &[u8]) -> bool {
    find(text, b" -> ").is_some() && text.ends_with(b")") && find(text, b" (").is_some()
}

/// `ddd.dddddd`, in microseconds.
fn stamp(scan: &mut Scan<'_>) -> Option<u64> {
    let seconds = scan.whole().filter(|s| *s < 1000)?;
    if !scan.skip_text(b".") {
        return None;
    }
    let micros = scan.digits();
    if micros.len() != 6 {
        return None;
    }
    let micros = super::scan::whole(micros)?;
    Some(seconds * 1_000_000 + micros)
}

/// Parses the timestamp right before `main_thread`.
fn stamp_before(before: &[u8]) -> Option<u64> {
    let text = before.trim_ascii_end();
    let start = text.len().checked_sub(b"000.000000".len())?;
    let mut scan = Scan(&text[start..]);
    stamp(&mut scan).filter(|_| scan.0.is_empty())
}

struct Figures {
    pps: f64,
    prefixed: bool,
    interval_us: Option<u64>,
    frames: Option<f64>,
}

/// ` [1534] 14.8 Mpps (14.9 Mpkts 7.1 Gbps in 1001931 usec) ...`; only the rate must be complete.
fn figures(text: &[u8]) -> Option<Figures> {
    let mut scan = Scan(text);
    scan.blanks();
    if !scan.skip_text(b"[") || scan.digits().is_empty() || !scan.skip_text(b"]") {
        return None;
    }
    scan.blanks();
    let pps = scan.scaled()?;
    let after_number = scan.0;
    scan.blanks();
    if !scan.skip_text(b"pps") {
        return None;
    }
    // The prefix was consumed right before `pps`.
    let before = text.len() - after_number.len();
    let prefixed = text[before - 1].is_ascii_alphabetic();
    let mut figures = Figures {
        pps,
        prefixed,
        interval_us: None,
        frames: None,
    };
    scan.blanks();
    if scan.skip_text(b"(") {
        figures.frames = scan.scaled();
        scan.blanks();
        if scan.skip_text(b"pkts") {
            scan.blanks();
            if !scan.0.starts_with(b"in ") {
                // bits of the interval or per second, depending on the build: not used
                let _ = scan.scaled();
                scan.blanks();
                scan.skip_text(b"bps");
                scan.blanks();
            }
            if scan.skip_text(b"in ") {
                let micros = scan.whole().filter(|us| *us > 0);
                scan.blanks();
                figures.interval_us = micros.filter(|_| scan.skip_text(b"usec"));
            }
        } else {
            figures.frames = None;
        }
    }
    Some(figures)
}

/// Applies `main_thread[[:space:]]\[[[:digit:]]+\][[:space:]][1-9].*pps` and the fourth field to a
/// line, given the first position of `main_thread`. `None`: the line does not match.
fn pick(line: &[u8], first: usize) -> Option<Option<f64>> {
    let mut at = first;
    loop {
        let rest = &line[at + b"main_thread".len()..];
        if matches(rest) {
            break;
        }
        at += b"main_thread".len() + find(rest, b"main_thread")?;
    }
    let field = line
        .split(|b| matches!(b, b' ' | b'\t'))
        .filter(|f| !f.is_empty())
        .nth(3)?;
    let mut scan = Scan(field);
    let value = scan.decimal().filter(|_| scan.0.is_empty());
    Some(value)
}

fn matches(rest: &[u8]) -> bool {
    let [space, b'[', rest @ ..] = rest else {
        return false;
    };
    let mut scan = Scan(rest);
    let digits = scan.digits();
    let [b']', after, b'1'..=b'9', rest @ ..] = scan.0 else {
        return false;
    };
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    is_space(space) && !digits.is_empty() && is_space(after) && find(rest, b"pps").is_some()
}

impl Total {
    /// `800066601 packets 48003996060 bytes 123 events 60 bytes each in 67.33 seconds.`
    fn parse(text: &[u8]) -> Option<Total> {
        let mut scan = Scan(text);
        let frames = scan.decimal()?;
        if !scan.skip_text(b" packets") {
            return None;
        }
        let seconds = find(scan.0, b" in ").and_then(|at| {
            let mut scan = Scan(&scan.0[at + 4..]);
            scan.decimal().filter(|_| scan.skip_text(b" second"))
        });
        Some(Total { frames, seconds })
    }

    /// Returns the frames, unless a crash spoiled them.
    pub fn count(&self) -> Option<u64> {
        (self.frames >= 0.0 && self.frames < 9e15).then_some(self.frames as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: impl AsRef<[u8]>) -> Log {
        Log::read(&mut text.as_ref(), &mut Vec::new()).unwrap()
    }

    const OLD: &str = "CMD: pkt-gen -f rx -i ncxl2 -w 4
998.526652 main [1737] interface is ncxl2
998.526717 extract_ip_range [292] range is 10.0.0.1:0 to 10.0.0.1:0
999.567483 main_thread [1534] 1963119 pps (1966910 pkts in 1001931 usec)
000.568473 main_thread [1534] 0 pps (0 pkts in 1000989 usec)
Terminated
";

    #[test]
    fn the_old_grammar_over_a_wrap_of_the_clock() {
        let log = read(OLD);
        assert_eq!(log.samples.len(), 2);
        assert_eq!(
            log.samples[0],
            Sample {
                line: 4,
                end_us: Some(999_567_483),
                pps: 1_963_119.0,
                interval_us: Some(1_001_931),
                frames: Some(1_966_910.0),
            }
        );
        assert_eq!(log.samples[1].end_us, Some(1_000_568_473));
        assert_eq!(
            (log.counts.zero, log.counts.known, log.counts.unknown),
            (1, 4, 0)
        );
        assert_eq!(
            log.picked,
            [Picked {
                line: 4,
                value: Some(1_963_119.0)
            }]
        );
        assert!(!log.unended);
        assert_eq!(log.bytes, OLD.len() as u64);
    }

    #[test]
    fn the_new_grammar_with_its_tail() {
        let log = read(
            "CMD on sm1: pkt-gen -N -f rx -i igb2 -w 2 -W\n\
             444.466936 receiver_body [1955] waiting for initial packets, poll returns 0 0\n\
             444.509159 main_thread [2786] 0 pps (0 pkts 0 bps in 1063365 usec) 0.00 avg_batch 0 min_space\n\
             499.708932 main_thread [2786] 877894 pps (878710 pkts 421389329 bps in 1000929 usec) 3.11 avg_batch 1013 min_space\n\
             Receiving from netmap:igb2: 9 queues, 1 threads and 1 cpus.\n\
             Received 800066601 packets 48003996060 bytes 123 events 60 bytes each in 67.33 seconds.\n\
             Speed: 11882 pps Bandwidth: 700609213 bps (raw 700609213 bps). Average batch: 385.14 pkts\n+ return 1",
        );
        assert_eq!(log.counts.waiting, 1);
        assert_eq!(log.counts.unknown, 0, "{:?}", log.unknown);
        assert_eq!(log.samples[1].interval_us, Some(1_000_929));
        assert_eq!(
            log.received,
            Some(Total {
                frames: 800_066_601.0,
                seconds: Some(67.33)
            })
        );
        assert!(log.unended);
    }

    #[test]
    fn senders_of_both_kinds() {
        let log = read(
            "809.217187 sender_body [1200] pending tx tail 1496 head 1117 on ring 0\n\
             Sending on netmap:ncxl3: 2 queues, 1 threads and 1 cpus.\n\
             198.18.10.1 -> 198.19.10.1 (00:07:43:2e:e4:89 -> 90:e2:ba:84:20:38)\n\
             Sent 1000000000 packets, 60 bytes each, in 67.32 seconds.\n\
             Speed: 14.85 Mpps Bandwidth: 7.13 Gbps (raw 9.98 Gbps)\n",
        );
        assert_eq!(log.counts.known, 5, "{:?}", log.unknown);
        assert_eq!(log.sent.and_then(|t| t.count()), Some(1_000_000_000));
        assert_eq!(log.drained_us, Some(809_217_187));
    }

    #[test]
    fn prefixes_are_scaled_and_the_archives_rule_does_not_know_them() {
        let log = read(
            "001.000000 main_thread [2786] 14.856 Mpps (14.871 Mpkts 7.138 Gbps in 1000999 usec) 1.00 avg_batch\n",
        );
        assert_eq!(log.samples[0].pps, 14_856_000.0);
        assert_eq!(log.samples[0].frames, Some(14_871_000.0));
        assert_eq!(log.counts.prefixed, 1);
        assert_eq!(log.picked[0].value, Some(14.856));
    }

    #[test]
    fn what_crashes_leave_behind() {
        let log = read(
            "001.000000 main_thread [2786] -5 pps (-5 pkts 0 bps in 1000999 usec)\n\
             002.000000 main_thread [1502] ouch, thread 0 exited with error\n\
             Received -12 packets 0 bytes 1 events 0 bytes each in -3.00 seconds.\n\
             003.000000 main_thread [2786] 877\n\
             004.000000 main_thread [2786] 877 pps (8\n\
             garbage005.000000 main_thread [2786] 878 pps (878 pkts 1 bps in 1000000 usec) 1 avg_batch 1 min_space\n\
             \x00\x01\x02\n",
        );
        assert_eq!(log.counts.negative, 1);
        assert!(log.ouch);
        assert_eq!(log.received.and_then(|t| t.count()), None);
        assert_eq!(log.samples.len(), 3);
        assert_eq!(log.counts.damaged, 1);
        assert_eq!(log.samples[2].end_us, Some(5_000_000));
        // the rest of a sample is a message of main_thread
        assert_eq!((log.counts.known, log.counts.unknown), (3, 1));
        assert_eq!(log.unknown[0].0, 7);
    }

    #[test]
    fn the_pattern_of_the_archives_rule() {
        for (line, expect) in [
            ("1 main_thread [1] 5 pps", Some(Some(5.0))),
            ("1 main_thread [1] 05 pps", None),
            ("1 main_thread [1] -5 pps", None),
            ("1 main_thread [] 5 pps", None),
            ("1  main_thread [1] 5 pps", Some(Some(5.0))),
            ("main_thread [1] 5 pps", Some(None)),
            ("main_thread [x] main_thread [1] 5 pps", Some(None)),
            ("1 main_thread [1] 5 p p s", None),
        ] {
            let at = find(line.as_bytes(), b"main_thread").unwrap();
            assert_eq!(pick(line.as_bytes(), at), expect, "{line}");
        }
    }

    #[test]
    fn a_huge_log_is_truncated_and_marked() {
        let line = "001.000000 main_thread [1] 5 pps (5 pkts in 1000000 usec)\n";
        let log = read(line.repeat(MOST_SAMPLES + 5));
        assert_eq!(log.samples.len(), MOST_SAMPLES);
        assert_eq!(log.counts.samples, MOST_SAMPLES as u64 + 5);
        assert!(log.too_long());
    }

    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            prop::sample::select(
                OLD.lines()
                    .map(|l| l.as_bytes().to_vec())
                    .collect::<Vec<_>>()
            ),
            prop::collection::vec(any::<u8>(), 0..80),
            "[0-9.]{0,12} main_thread \\[[0-9]{0,4}\\] [-0-9.]{0,22} ?[KMG]?pps.{0,40}"
                .prop_map(String::into_bytes),
            "(CMD|Sent|Received|Estimated)[ -~]{0,60}".prop_map(String::into_bytes),
        ];
        prop::collection::vec(line, 0..30).prop_map(|lines| lines.join(&b'\n'))
    }

    proptest! {
        #[test]
        fn every_line_is_counted_once(bytes in pieces()) {
            let log = read(&bytes);
            let counts = log.counts;
            prop_assert_eq!(counts.samples + counts.known + counts.unknown, counts.lines);
            let lines = io::BufRead::split(&bytes[..], b'\n').count() as u64;
            prop_assert_eq!(counts.lines, lines);
            prop_assert_eq!(log.bytes, bytes.len() as u64);
            prop_assert!(log.samples.iter().all(|s| s.pps.is_finite()));
        }
    }
}
