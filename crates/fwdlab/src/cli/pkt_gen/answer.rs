//! `-f ping`, `-f pong` and `-f rxseq`: frames handled one at a time, on a thread beside the one that prints rates.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fwdlab_engine::EngineError;
use fwdlab_engine::af_packet::SinglePort;
use fwdlab_lab::ports::{Role, destinations, state};
use fwdlab_packet::header::{ethernet, ipv4, ipv6, udp};

use super::arguments::{Arguments, Function};
use super::lines::{self, Counted, RoundTrips, place};
use super::{Job, frames};
use crate::exit_code::Code;

/// How long a system call waits before it looks whether it is over.
const SLICE: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);
/// The original's patience for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest frame, with offloads.
const BUFFER: usize = 1 << 16;

/// What the thread counts.
#[derive(Default)]
struct Counts {
    frames: AtomicU64,
    bytes: AtomicU64,
    batches: AtomicU64,
}

impl Counts {
    fn add(&self, bytes: usize) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn read(&self) -> Counted {
        Counted {
            frames: self.frames.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
        }
    }
}

/// The thread's view of the world.
struct Work<'a> {
    job: &'a Job<'a>,
    port: SinglePort,
    mac: [u8; 6],
    counts: &'a Counts,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.job.signals.is_stopped()
    }
}

/// Runs the function to its end, or until a signal comes.
pub fn run(job: &Job<'_>) -> anyhow::Result<Code> {
    let Job { arguments, log, .. } = job;
    let function = arguments.function;
    let roles: &[Role] = match function {
        Function::RxSeq => &[Role::Receive],
        _ => &[Role::Send, Role::Receive],
    };
    let taken = job.ports.take(&job.interface, roles)?;
    let mac = job.source_mac(&taken.facts)?;
    if function == Function::Ping {
        if !job.to_any_address {
            destinations::check([arguments.destinations()])?;
            destinations::check_sources([arguments.sources()])?;
        }
        job.check_size(arguments.size, taken.facts.mtu)?;
        question(arguments, mac, 0, Duration::ZERO).map_err(super::wrong)?;
    }
    let port = SinglePort::open(&taken.spec)?;
    let what = match function {
        Function::RxSeq => "Receiving from",
        _ => "Working on",
    };
    log.print(&lines::opened(what, &job.shown, 1, arguments.cpus));
    if !job.wait() {
        return Ok(job.signals.code(true));
    }
    if function == Function::RxSeq {
        log.message(
            place::SEQUENCE_READING,
            &format!("reading from {} fd 3 main_fd 3", job.shown),
        );
    }

    let (counts, stop) = (Counts::default(), AtomicBool::new(false));
    let work = Work {
        job,
        port,
        mac,
        counts: &counts,
        stop: &stop,
    };
    let times = Mutex::new(None);
    let result: anyhow::Result<()> = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            fwdlab_engine::port::pin(&job.cpus())?;
            match function {
                Function::Ping => ping(&work),
                Function::Pong => pong(&work),
                _ => check_sequence(&work).map(|span| {
                    if let Ok(mut times) = times.lock() {
                        *times = span;
                    }
                }),
            }
        });
        let mut reported = (Instant::now(), Counted::default());
        let mut checked = Instant::now();
        let mut gone = None;
        loop {
            std::thread::sleep(Duration::from_millis(2));
            let over = thread.is_finished();
            let (now, counted) = (Instant::now(), counts.read());
            let since = now - reported.0;
            if since >= arguments.report || over && since >= Duration::from_millis(10) {
                log.rate(counted.since(reported.1), since.as_micros() as u64);
                reported = (now, counted);
            }
            if over {
                break;
            }
            if now - checked >= SECOND {
                checked = now;
                if let Err(error) = state::check(&taken.spec) {
                    gone.get_or_insert(error);
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        let ended = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match gone {
            Some(error) => Err(error.into()),
            None => Ok(ended?),
        }
    });
    if let Err(error) = result {
        log.message(place::OUCH, "ouch, thread 0 exited with error");
        return Err(error);
    }
    if function == Function::RxSeq {
        let span = times.into_inner().ok().flatten();
        let seconds = span.map_or(0.0, |span: Duration| span.as_secs_f64());
        log.totals("Received", counts.read(), seconds);
    }
    Ok(job.signals.code(true))
}

/// The text behind number and time in a question, by which its answer is known.
const MARK: &[u8] = b"fwdlab";
/// Bytes of number, seconds, nanoseconds and mark.
const QUESTION: usize = 12 + MARK.len();

/// One frame of ping: its number, the time since the begin, our mark, and text up to the size.
fn question(
    arguments: &Arguments,
    mac: [u8; 6],
    number: u32,
    at: Duration,
) -> Result<Vec<u8>, String> {
    let mut payload = frames::payload(arguments)?;
    if payload.len() < QUESTION {
        return Err(format!(
            "bad pktsize {}: a ping has at least {} bytes (without FCS)",
            arguments.size,
            usize::from(frames::head_len(arguments)) + QUESTION
        ));
    }
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload[4..8].copy_from_slice(&(at.as_secs() as u32).to_be_bytes());
    payload[8..12].copy_from_slice(&at.subsec_nanos().to_be_bytes());
    payload[12..QUESTION].copy_from_slice(MARK);
    frames::frame(arguments, mac, payload)
}

/// Number and time of a question that came back.
fn answer(frame: &[u8]) -> Option<(u32, Duration)> {
    let payload = udp_payload(frame)?;
    if payload.get(12..QUESTION)? != MARK {
        return None;
    }
    let word = |at: usize| Some(u32::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    let nanos = word(8).filter(|nanos| *nanos < 1_000_000_000)?;
    Some((word(0)?, Duration::new(word(4)?.into(), nanos)))
}

/// What a UDP frame carries, padding included.
fn udp_payload(frame: &[u8]) -> Option<&[u8]> {
    let half = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let at = ethernet::HEADER_LEN;
    let head = match half(12)? {
        ipv4::ETHERTYPE if *frame.get(at + 9)? == udp::PROTOCOL => {
            at + usize::from(frame.get(at)? & 0x0f) * 4
        }
        ipv6::ETHERTYPE if *frame.get(at + 6)? == udp::PROTOCOL => at + ipv6::HEADER_LEN,
        _ => return None,
    };
    frame.get(head + udp::HEADER_LEN..)
}

/// Sends a batch of questions, waits for an answer, and says every second how long they took.
fn ping(work: &Work<'_>) -> Result<(), EngineError> {
    let Job { arguments, log, .. } = work.job;
    let burst = u64::from(arguments.burst());
    let begin = Instant::now();
    let gap = arguments
        .rate_pps
        .map(|rate| Duration::from_nanos(1_000_000_000 * burst / rate));
    let mut next = begin;
    let mut printed = begin;
    let mut sent = 0_u64;
    let mut buffer = vec![0; BUFFER];
    let (mut all, mut second) = (RoundTrips::default(), RoundTrips::default());
    let mut tell = |second: &mut RoundTrips| {
        if let (Some(line), Some(buckets)) = (second.line(), second.histogram()) {
            log.message(place::PING_RTT, &line);
            log.message(place::PING_BUCKETS, &buckets);
            all.merge(second);
            *second = RoundTrips::default();
        }
    };
    while !work.is_over() && arguments.frames.is_none_or(|frames| sent < frames) {
        if let Some(gap) = gap {
            while next > Instant::now() && !work.is_over() {
                std::thread::sleep(SLICE.min(next.saturating_duration_since(Instant::now())));
            }
            next += gap;
        }
        let left = arguments.frames.map_or(burst, |frames| frames - sent);
        for _ in 0..burst.min(left) {
            let frame = question(arguments, work.mac, sent as u32, begin.elapsed())
                .map_err(EngineError::Frames)?;
            if !work.port.send(&frame)? {
                log.message(place::PING_SEND, "-- ouch, cannot send");
                break;
            }
            sent += 1;
            work.counts.add(frame.len());
        }
        work.counts.batches.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        let mut answered = false;
        // after the first answer, only what is there already is taken
        loop {
            let patience = if answered { Duration::ZERO } else { SLICE };
            match work.port.receive(&mut buffer, patience)? {
                Some(len) => {
                    let now = begin.elapsed();
                    let found = answer(&buffer[..len.min(BUFFER)]);
                    if let Some((number, at)) = found
                        && u64::from(number) < sent.max(1)
                        && let Some(trip) = now.checked_sub(at)
                    {
                        second.record(trip.as_nanos() as u64);
                        answered = true;
                    }
                }
                None if answered || work.is_over() => break,
                None if asked.elapsed() >= PATIENCE => {
                    log.message(place::PING_POLL, "poll error on queue 0: timeout");
                    break;
                }
                None => {}
            }
        }
        if printed.elapsed() >= SECOND {
            printed = Instant::now();
            tell(&mut second);
        }
    }
    all.merge(&second);
    if let Some(line) = all.total() {
        log.message(place::PING_TOTAL, &line);
    }
    Ok(())
}

/// Sends every UDP frame back to where it came from.
fn pong(work: &Work<'_>) -> Result<(), EngineError> {
    let Job { arguments, log, .. } = work.job;
    if let Some(frames) = arguments.frames {
        log.message(
            place::PONG_COUNT,
            &format!("understood ponger {frames}: ends after this many answers"),
        );
    }
    let mut buffer = vec![0; BUFFER];
    let mut sent = 0;
    let mut quiet_since = Instant::now();
    while !work.is_over() && arguments.frames.is_none_or(|frames| sent < frames) {
        let Some(len) = work.port.receive(&mut buffer, SLICE)? else {
            if quiet_since.elapsed() >= SECOND {
                quiet_since = Instant::now();
                log.message(place::PONG_POLL, "poll error on queue 0: timeout");
            }
            continue;
        };
        quiet_since = Instant::now();
        let Some(frame) = buffer.get_mut(..len) else {
            continue;
        };
        if udp_payload(frame).is_none() {
            continue;
        }
        turn_back(frame, work.mac);
        if work.port.send(frame)? {
            sent += 1;
            work.counts.add(len);
            work.counts.batches.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Swaps the MAC addresses. A frame to a group goes back from us.
fn turn_back(frame: &mut [u8], mac: [u8; 6]) {
    let (destination, source) = frame.split_at_mut(6);
    destination.swap_with_slice(&mut source[..6]);
    if source[0] & 1 == 1 {
        source[..6].copy_from_slice(&mac);
    }
}

/// Frames in the order of their numbers: what is missing, and what comes too late.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sequence {
    expected: Option<u32>,
    gaps: u64,
    missing: u64,
    late: u64,
}

/// What is wrong with a number.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Gap(u32),
    OutOfOrder(u32),
}

impl Sequence {
    /// Takes the next number; a fault names the one that was expected.
    fn take(&mut self, number: u32) -> Option<Fault> {
        let expected = self.expected.replace(number.wrapping_add(1))?;
        let delta = number.wrapping_sub(expected);
        match delta {
            0 => None,
            delta if delta < u32::MAX >> 1 => {
                self.gaps += 1;
                self.missing += u64::from(delta);
                Some(Fault::Gap(expected))
            }
            _ => {
                self.late += 1;
                Some(Fault::OutOfOrder(expected))
            }
        }
    }
}

/// Receives and looks at the numbers of txseq. Returns the time from the first frame to the last.
fn check_sequence(work: &Work<'_>) -> Result<Option<Duration>, EngineError> {
    let Job { arguments, log, .. } = work.job;
    let mut buffer = vec![0; BUFFER];
    let mut sequence = Sequence::default();
    let mut said = Said::default();
    let mut first: Option<Instant> = None;
    let mut last = Instant::now();
    let mut dropped = 0;
    while !work.is_over() {
        let Some(len) = work.port.receive(&mut buffer, SLICE)? else {
            if last.elapsed() >= SECOND {
                if first.is_some() && arguments.until_silence {
                    break;
                }
                if first.is_none() {
                    last = Instant::now();
                    log.message(
                        place::SEQUENCE_WAITING,
                        "waiting for initial packets, poll returns 0 0",
                    );
                }
            }
            continue;
        };
        last = Instant::now();
        first.get_or_insert(last);
        work.counts.add(len);
        let Some(payload) = udp_payload(&buffer[..len.min(BUFFER)]) else {
            continue;
        };
        let Some(number) = payload.first_chunk() else {
            if said.may() {
                let words = format!("rxseq_body: packet too small (len={len})");
                log.message(place::SEQUENCE_SMALL, &words);
            }
            continue;
        };
        let number = u32::from_be_bytes(*number);
        let (place, words) = match sequence.take(number) {
            None => continue,
            Some(Fault::Gap(expected)) => (
                place::SEQUENCE_GAP,
                format!("Sequence GAP: exp {expected} found {number}"),
            ),
            Some(Fault::OutOfOrder(expected)) => (
                place::SEQUENCE_ORDER,
                format!("Sequence OUT OF ORDER: exp {expected} found {number}"),
            ),
        };
        if said.may() {
            log.message(place, &words);
        }
        dropped += u64::from(work.port.dropped()?);
    }
    dropped += u64::from(work.port.dropped()?);
    log.remark(&format!(
        "{} gaps with {} frames missing, {} frames out of order",
        sequence.gaps, sequence.missing, sequence.late
    ));
    if dropped > 0 {
        log.remark(&format!(
            "{dropped} frames arrived but could not be processed in time: gaps may be caused by this host"
        ));
    }
    let end = if work.is_over() { Instant::now() } else { last };
    Ok(first.map(|first| end - first))
}

/// At most two messages in a second.
#[derive(Default)]
struct Said {
    since: Option<Instant>,
    count: u32,
}

impl Said {
    fn may(&mut self) -> bool {
        if self.since.is_none_or(|since| since.elapsed() >= SECOND) {
            self.since = Some(Instant::now());
            self.count = 0;
        }
        self.count += 1;
        self.count <= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arguments(line: &str) -> Arguments {
        let words: Vec<&str> = line.split(' ').collect();
        Arguments::parse(&words, 2).unwrap()
    }

    #[test]
    fn questions_come_back_as_answers() {
        let at = Duration::new(7, 89);
        for line in ["-f ping -i x", "-f ping -i x -6 -l 80"] {
            let asked = question(&arguments(line), [2; 6], 42, at).unwrap();
            assert_eq!(answer(&asked), Some((42, at)));
            let mut back = asked.clone();
            turn_back(&mut back, [6; 6]);
            // it was sent to everybody, and comes back from us
            assert_eq!((&back[..6], &back[6..12]), (&[2; 6][..], &[6; 6][..]));
            assert_eq!(answer(&back), Some((42, at)));
            turn_back(&mut back, [6; 6]);
            assert_eq!(back[..6], [6; 6]);
            for len in 0..asked.len().min(60) {
                assert_eq!(answer(&asked[..len]), None);
            }
        }
        let small = question(&arguments("-f ping -i x -6 -l 62"), [2; 6], 0, at);
        assert!(small.unwrap_err().contains("at least 80"));
    }

    #[test]
    fn numbers_that_jump() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.take(u32::MAX), None);
        assert_eq!(sequence.take(0), None);
        assert_eq!(sequence.take(3), Some(Fault::Gap(1)));
        assert_eq!(sequence.take(2), Some(Fault::OutOfOrder(4)));
        assert_eq!(sequence.take(3), None);
        let Sequence {
            gaps,
            missing,
            late,
            ..
        } = sequence;
        assert_eq!((gaps, missing, late), (1, 2, 1));
    }

    proptest! {
        #[test]
        fn any_frame(frame in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = answer(&frame);
            if frame.len() >= 14 {
                turn_back(&mut frame.clone(), [2; 6]);
            }
        }
    }
}
