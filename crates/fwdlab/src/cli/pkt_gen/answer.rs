//! `-f ping`, `-f pong` and `-f rxseq`: functions that handle frames one at a time. This module
//! builds and parses the frames; the library sends and receives them. Start with [`run`].

use std::time::{Duration, Instant};

use fwdlab_engine::EngineError;
use fwdlab_lab::LabError;
use fwdlab_lab::ports::{Role, destinations};
use fwdlab_lab::session::one_by_one::queries::{QueryEvent, QueryHandler, Questions};
use fwdlab_lab::session::one_by_one::walk::{Fault, Numbered, Walk, Walked};
use fwdlab_lab::session::one_by_one::{FramePort, FrameSession};
use fwdlab_packet::header::{ethernet, ipv4, ipv6, udp};

use super::arguments::{Arguments, Function};
use super::lines::{self, RoundTrips, place};
use super::{Job, frames};
use crate::exit_code::Code;

const SECOND: Duration = Duration::from_secs(1);

/// Runs the function until it finishes or a signal arrives.
pub fn run(job: &Job<'_>) -> anyhow::Result<Code> {
    let Job { arguments, log, .. } = job;
    let function = arguments.function;
    let roles: &[Role] = match function {
        Function::RxSeq => &[Role::Receive],
        _ => &[Role::Send, Role::Receive],
    };
    let port = job.ports.take_interface(&job.interface, roles)?;
    let mac = job.source_mac(&port.facts)?;
    if function == Function::Ping {
        if !job.to_any_address {
            destinations::check([arguments.destinations()])?;
            destinations::check_sources([arguments.sources()])?;
        }
        job.check_size(arguments.size, port.facts.mtu)?;
        question(arguments, mac, 0, Duration::ZERO).map_err(super::wrong)?;
    }
    let port = FrameSession::open(port, &job.cpus())?;
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
    let ended = port.run(
        job.signals.control(),
        arguments.report,
        |hands| match function {
            Function::Ping => ping(job, mac, hands).map(|()| None),
            Function::Pong => pong(job, mac, hands).map(|()| None),
            _ => check_sequence(job, hands).map(Some),
        },
        &mut |counted, length| log.rate(counted, length),
    );
    let (walk, counted) = ended.map_err(|error| job.failed(error))?;
    if let Some(walk) = walk {
        log.totals("Received", counted, walk.duration.as_secs_f64());
    }
    Ok(job.signals.code(true))
}

/// The text after number and time in a request; identifies its reply.
const MARK: &[u8] = b"fwdlab";
/// Bytes of number, seconds, nanoseconds and mark.
const QUESTION: usize = 12 + MARK.len();

/// Builds a ping request: its number, the time since the start, our mark, and text up to the frame
/// size.
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

/// Returns the number and time in a reply.
fn answer(frame: &[u8]) -> Option<(u32, Duration)> {
    let payload = udp_payload(frame)?;
    if payload.get(12..QUESTION)? != MARK {
        return None;
    }
    let word = |at: usize| Some(u32::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    let nanos = word(8).filter(|nanos| *nanos < 1_000_000_000)?;
    Some((word(0)?, Duration::new(word(4)?.into(), nanos)))
}

/// Returns the UDP payload of a frame, padding included.
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

/// The requests of ping, and the round-trip times.
struct Ping<'a> {
    job: &'a Job<'a>,
    mac: [u8; 6],
    all: RoundTrips,
    second: RoundTrips,
}

impl QueryHandler for Ping<'_> {
    fn question(&mut self, number: u32, at: Duration) -> Result<Vec<u8>, LabError> {
        let frame = question(self.job.arguments, self.mac, number, at);
        Ok(frame.map_err(EngineError::Frames)?)
    }

    fn answer(&self, frame: &[u8]) -> Option<(u32, Duration)> {
        answer(frame)
    }

    fn handle_event(&mut self, what: QueryEvent) {
        let log = self.job.log;
        match what {
            QueryEvent::NoRoom => log.message(place::PING_SEND, "-- ouch, cannot send"),
            QueryEvent::Unanswered => {
                log.message(place::PING_POLL, "poll error on queue 0: timeout")
            }
            QueryEvent::Answered(time) => self.second.record(time.as_nanos() as u64),
            QueryEvent::Second => {
                let second = std::mem::take(&mut self.second);
                if let (Some(line), Some(buckets)) = (second.line(), second.histogram()) {
                    log.message(place::PING_RTT, &line);
                    log.message(place::PING_BUCKETS, &buckets);
                }
                self.all.merge(&second);
            }
        }
    }
}

/// Sends a batch of requests, waits for a reply, and prints round-trip times every second.
fn ping(job: &Job<'_>, mac: [u8; 6], hands: &FramePort<'_>) -> Result<(), LabError> {
    let Job { arguments, log, .. } = job;
    let mut ping = Ping {
        job,
        mac,
        all: RoundTrips::default(),
        second: RoundTrips::default(),
    };
    let questions = Questions {
        burst: arguments.burst().into(),
        rate_pps: arguments.rate_pps,
        frames: arguments.frames,
    };
    hands.query(&questions, &mut ping)?;
    ping.all.merge(&ping.second);
    if let Some(line) = ping.all.total() {
        log.message(place::PING_TOTAL, &line);
    }
    Ok(())
}

/// Sends every UDP frame back to its source.
fn pong(job: &Job<'_>, mac: [u8; 6], hands: &FramePort<'_>) -> Result<(), LabError> {
    let Job { arguments, log, .. } = job;
    if let Some(frames) = arguments.frames {
        log.message(
            place::PONG_COUNT,
            &format!("understood ponger {frames}: ends after this many answers"),
        );
    }
    hands.answer(
        arguments.frames,
        &mut |frame| {
            let is_udp = udp_payload(frame).is_some();
            if is_udp {
                swap_addresses(frame, mac);
            }
            is_udp
        },
        &mut || log.message(place::PONG_POLL, "poll error on queue 0: timeout"),
    )
}

/// Swaps the MAC addresses. A reply to a group address gets our own address as its source.
fn swap_addresses(frame: &mut [u8], mac: [u8; 6]) {
    let (destination, source) = frame.split_at_mut(6);
    destination.swap_with_slice(&mut source[..6]);
    if source[0] & 1 == 1 {
        source[..6].copy_from_slice(&mac);
    }
}

/// Receives frames and checks the numbers of txseq.
fn check_sequence(job: &Job<'_>, hands: &FramePort<'_>) -> Result<Walk, LabError> {
    let Job { arguments, log, .. } = job;
    let mut output = MessageLimiter::default();
    let walk = hands.walk(
        arguments.until_silence,
        &|frame| match udp_payload(frame).map(<[u8]>::first_chunk) {
            None => Numbered::No,
            Some(None) => Numbered::TooShort,
            Some(Some(number)) => Numbered::Number(u32::from_be_bytes(*number)),
        },
        &mut |what| {
            let (place, words) = match what {
                Walked::Waiting => {
                    let words = "waiting for initial packets, poll returns 0 0";
                    return log.message(place::SEQUENCE_WAITING, words);
                }
                Walked::TooShort(len) => (
                    place::SEQUENCE_SMALL,
                    format!("rxseq_body: packet too small (len={len})"),
                ),
                Walked::Wrong(number, Fault::Gap(expected)) => (
                    place::SEQUENCE_GAP,
                    format!("Sequence GAP: exp {expected} found {number}"),
                ),
                Walked::Wrong(number, Fault::OutOfOrder(expected)) => (
                    place::SEQUENCE_ORDER,
                    format!("Sequence OUT OF ORDER: exp {expected} found {number}"),
                ),
            };
            if output.may() {
                log.message(place, &words);
            }
        },
    )?;
    let (sequence, dropped) = (walk.sequence, walk.dropped);
    log.remark(&format!(
        "{} gaps with {} frames missing, {} frames out of order",
        sequence.gaps, sequence.missing, sequence.late
    ));
    if dropped > 0 {
        log.remark(&format!(
            "{dropped} frames arrived but could not be processed in time: gaps may be caused by this host"
        ));
    }
    Ok(walk)
}

/// Limits messages to two per second.
#[derive(Default)]
struct MessageLimiter {
    since: Option<Instant>,
    count: u32,
}

impl MessageLimiter {
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
    fn queries_are_returned_as_answers() {
        let at = Duration::new(7, 89);
        for line in ["-f ping -i x", "-f ping -i x -6 -l 80"] {
            let requested = question(&arguments(line), [2; 6], 42, at).unwrap();
            assert_eq!(answer(&requested), Some((42, at)));
            let mut back = requested.clone();
            swap_addresses(&mut back, [6; 6]);
            // sent to a group address: the reply comes from us
            assert_eq!((&back[..6], &back[6..12]), (&[2; 6][..], &[6; 6][..]));
            assert_eq!(answer(&back), Some((42, at)));
            swap_addresses(&mut back, [6; 6]);
            assert_eq!(back[..6], [6; 6]);
            for len in 0..requested.len().min(60) {
                assert_eq!(answer(&requested[..len]), None);
            }
        }
        let small = question(&arguments("-f ping -i x -6 -l 62"), [2; 6], 0, at);
        assert!(small.unwrap_err().contains("at least 80"));
    }

    proptest! {
        #[test]
        fn any_frame(frame in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = answer(&frame);
            if frame.len() >= 14 {
                swap_addresses(&mut frame.clone(), [2; 6]);
            }
        }
    }
}
