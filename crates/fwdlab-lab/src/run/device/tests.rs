//! Trials on the embedded test bed: resets of the kernel whose outage is known independently (from
//! the clock of the command that causes it, and because forwarding or a port is down for one
//! second), and loads that the sender cannot sustain.
//!
//! These tests call the device directly, without a load search. Start with
//! [`the_duration_of_a_reset_is_measured`].

use std::io::Write as _;
use std::path::Path;

use fwdlab_model::procedure::Purpose;
use fwdlab_model::trial::IpVersion;

use super::*;
use crate::placement::Placement;
use crate::site::Site;

const SECOND: u64 = 1_000_000_000;

/// A load that any host carries.
const LOAD_PPS: f64 = 20_000.0;

/// A trial gives a usable outage by lost frames if the sender stalled for less than this in all;
/// and the number of attempts.
const HELD_UP_S: f64 = 0.1;
const ATTEMPTS: u32 = 3;

#[test]
fn the_longest_silence_after_a_moment() {
    let ms = 1_000_000;
    let mut silence = Silence::default();
    // frames until 100 ms, none until 120, some until 200, none until 500, then some more
    for at in 0..=600u64 {
        let received = at.min(100) + at.clamp(120, 200) - 120 + at.clamp(500, 600) - 500;
        silence.look(at * ms, received, (at > 150).then_some(150 * ms));
    }
    let outage = silence.outage();
    assert_eq!(
        (outage.last_before_ns, outage.first_after_ns),
        (200 * ms, Some(501 * ms))
    );
    assert_eq!(silence.resolution_ns, ms);
    // and a silence that has not ended
    silence.look(1000 * ms, 280, Some(150 * ms));
    assert_eq!(silence.outage().first_after_ns, None);
    assert_eq!(silence.outage().last_before_ns, 600 * ms);
}

fn skipped(test: &str, reason: &str) {
    // past the harness's capture
    let line = format!("SKIPPED: {test}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Runs `work` on the router of a test bed.
fn on_bed<T>(
    stream: &Stream,
    work: impl FnOnce(&mut Real<'_>) -> Result<T, LabError>,
) -> Result<T, LabError> {
    let common = crate::run::Parameters {
        streams: vec![stream.clone()],
        traffic: Traffic::default(),
        load: None,
        line: None,
        configuration: None,
        telemetry: None,
        unconfined: false,
        is_managed: false,
        dut: fwdlab_model::campaign::Dut::default(),
        engine: None,
        site: Site::default(),
        placement: Placement::choose(&[], 1)?,
        privileged: true,
        seed: 1,
        command_line: Vec::new(),
    };
    let bed = common.bed(1)?;
    let (tester, _) = open_tester(&bed, &common)?;
    let control = Control::default();
    work(&mut Real::new(bed, tester, &common, &control))
}

/// When the DUT is reset, and for how long it must forward again.
const BEFORE_NS: u64 = SECOND / 4;
const AFTER_NS: u64 = SECOND / 2;

/// Resets the DUT in a trial: sends frames for a moment, resets, then sends until the DUT forwards
/// again, for at most three seconds. Repeated if the sender stalled.
fn measured(action: &str, version: IpVersion) -> Result<Answer, LabError> {
    let stream = Stream::new(version, version.smallest_frame(), 100).unwrap();
    let question = Question {
        reset_at_ns: Some(BEFORE_NS),
        reset: Some(action.into()),
        sample_ns: Some(SECOND / 50),
        ending: Some(Ending::Recovered {
            share: 0.99,
            for_ns: AFTER_NS,
        }),
        ..Question::constant(
            stream.frame_size_bytes,
            LOAD_PPS,
            3 * SECOND + BEFORE_NS + AFTER_NS,
            Purpose::Measure,
            "",
        )
    };
    on_bed(&stream, |device| {
        let mut best: Option<Answer> = None;
        for _ in 0..ATTEMPTS {
            let answer = device.trial(&stream, &question)?.answer;
            assert!(answer.reset_at_ns.unwrap() >= BEFORE_NS);
            let links = |reason: &&String| reason.ends_with(WENT_DOWN);
            assert_eq!(answer.objections.iter().find(links), None);
            if best
                .as_ref()
                .is_none_or(|best| total_stall_s(&answer) < total_stall_s(best))
            {
                best = Some(answer);
            }
            if best
                .as_ref()
                .is_some_and(|best| total_stall_s(best) < HELD_UP_S)
            {
                break;
            }
        }
        Ok(best.unwrap())
    })
}

/// Returns for how long the sender stalled in all: with or without frames arriving.
fn total_stall_s(answer: &Answer) -> f64 {
    (answer.frames_intended - answer.frames_sent) as f64 / LOAD_PPS
}

/// Returns how many frames were lost while the DUT was not reset, as on a host that stalls it.
fn lost_outside(answer: &Answer, outage: Outage, end_ns: u64) -> i64 {
    let before = |s: &&Interval| s.at_ns + s.length_ns < outage.last_before_ns;
    let after = |s: &&Interval| s.at_ns > end_ns;
    let lost = |s: &Interval| s.frames_sent as i64 - s.frames_received as i64;
    let samples = || answer.samples.iter();
    // frames on their way at the end of a sample are received in the next
    let sums: [i64; 2] = [
        samples().filter(before).map(lost).sum(),
        samples().filter(after).map(lost).sum(),
    ];
    sums.iter().map(|sum| sum.max(&0)).sum()
}

/// Checks that a reset took a time within these bounds, by lost frames and by timestamps, within
/// the reported resolution and the sender's lateness. Returns false if the sender stalled too long
/// to conclude anything.
fn check(answer: &Answer, shortest_s: f64, longest_s: f64) -> bool {
    let stalled = total_stall_s(answer);
    if stalled >= HELD_UP_S {
        return false;
    }
    let outage = answer.outage.unwrap();
    let first_after_ns = outage.first_after_ns;
    let first_after_ns = first_after_ns.unwrap_or_else(|| panic!("no frame after: {answer:?}"));
    let by_moments = (first_after_ns - outage.last_before_ns) as f64 / 1e9;
    let offered_pps = answer.frames_sent as f64 / (answer.duration_ns as f64 / 1e9);
    let by_loss = answer.frames_lost() as f64 / offered_pps;
    let resolution = answer.resolution_ns.unwrap() as f64 / 1e9;
    let outside = lost_outside(answer, outage, first_after_ns) as f64 / offered_pps;
    let words = format!(
        "{by_loss} s by lost frames, {outside} s of them while the DUT was not reset, {by_moments} s by timestamps, known to \
         {resolution} s; sender stalled for {stalled} s; it was {shortest_s} to {longest_s} s"
    );
    // a host that stalls the sender also delays counters and commands for about as long; a frame
    // that was not sent in that time was not lost
    let slack = resolution + 1.1 * stalled + 0.005;
    for (seconds, outside) in [(by_moments, 0.0), (by_loss, outside)] {
        assert!(seconds >= shortest_s - slack, "{words}");
        assert!(seconds <= longest_s + slack + outside, "{words}");
    }
    true
}

/// Reads a clock value in nanoseconds from a file. Returns seconds.
fn clock(path: &Path) -> f64 {
    let text = std::fs::read_to_string(path).unwrap();
    text.trim().parse::<f64>().unwrap() / 1e9
}

/// Tests that take a minute.
mod slow {
    use super::*;

    /// One after another, because in parallel they would disturb each other.
    #[test]
    fn the_duration_of_a_reset_is_measured() {
        const TEST: &str = "the_duration_of_a_reset_is_measured";
        if !rustix::process::geteuid().is_root() {
            return skipped(TEST, "not root");
        }
        if std::env::var_os("FWDLAB_LONG").is_none() {
            return skipped(TEST, "FWDLAB_LONG=1 runs it, for a minute");
        }
        // an outage timed by its own clock
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let stamp = |name: &str| format!("date +%s%N > {}", at(name).display());
        let forward = "/proc/sys/net/ipv4/ip_forward";
        let command = format!(
            "command: {}; echo 0 > {forward}; {}; sleep 0.3; {}; echo 1 > {forward}; {}",
            stamp("a"),
            stamp("b"),
            stamp("c"),
            stamp("d")
        );
        let known = measured(&command, IpVersion::Ipv4).unwrap();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| clock(&at(name)));
        assert!(c - b >= 0.3);
        let mut exact = check(&known, c - b, d - a);

        // After a port was down, its addresses, neighbours and routes are restored for both IP
        // versions; otherwise no frame would come back. The upper bound is one second, plus what a
        // busy host takes to start and end it.
        for (action, version) in [
            ("forwarding", IpVersion::Ipv4),
            ("interface", IpVersion::Ipv4),
            ("interface", IpVersion::Ipv6),
        ] {
            exact &= check(&measured(action, version).unwrap(), 1.0, 2.0);
        }
        if !exact {
            skipped(
                TEST,
                "the sender stalled for more than 0.1 s in every attempt: these were not compared",
            );
        }

        let gone = "command: echo 0 > /proc/sys/net/ipv4/ip_forward";
        let error = measured(gone, IpVersion::Ipv4).err().unwrap();
        assert!(matches!(error, LabError::NotBack { .. }), "{error}");
        assert!(error.to_string().contains("does not forward"), "{error}");
        let error = measured("command: exit 3", IpVersion::Ipv4).err().unwrap();
        let words = error.to_string();
        assert!(matches!(error, LabError::NotReset { .. }), "{words}");
        assert!(words.contains("`command: exit 3`"), "{words}");
    }
}

/// The load is far above what any sender of this test bed can send: the clock ends the trial, and
/// frames that were not sent are counted. If the trial lasted until all frames had left, it would
/// be longer than it reports, and its rates too high.
#[test]
fn a_sender_that_falls_short_does_not_make_the_trial_longer() {
    const TEST: &str = "a_sender_that_falls_short_does_not_make_the_trial_longer";
    const FRAMES: u64 = 15_000_000;
    if !rustix::process::geteuid().is_root() {
        return skipped(TEST, "not root");
    }
    let version = IpVersion::Ipv4;
    let stream = Stream::new(version, version.smallest_frame(), 100).unwrap();
    let plain = Question::constant(
        stream.frame_size_bytes,
        50e6,
        3 * SECOND / 10,
        Purpose::Measure,
        "",
    );
    let looked_at = Question {
        ending: Some(Ending::Lost { frames: FRAMES }),
        ..plain.clone()
    };
    let made = on_bed(&stream, |device| {
        let mut make = |question| device.trial(&stream, question);
        Ok([make(&plain)?, make(&looked_at)?])
    });
    for made in made.unwrap() {
        let answer = made.answer;
        assert_eq!(answer.duration_ns, 3 * SECOND / 10);
        assert_eq!(answer.frames_intended, FRAMES);
        assert!(
            (1000..FRAMES / 2).contains(&answer.frames_sent),
            "{answer:?}"
        );
        assert!(!answer.ended_early);
    }
}

/// A burst that ends before the sender has handed over its last batch is still a complete burst:
/// losses in a search for the longest burst are the DUT's, and the burst is not cut off. One
/// successful attempt is enough, because the sender may stall in any of them.
#[test]
fn a_short_burst_leaves_whole() {
    const TEST: &str = "a_short_burst_leaves_whole";
    const LOAD_PPS: f64 = 6e6;
    const ATTEMPTS: usize = 20;
    if !rustix::process::geteuid().is_root() {
        return skipped(TEST, "not root");
    }
    let version = IpVersion::Ipv4;
    let stream = Stream::new(version, version.smallest_frame(), 100).unwrap();
    let sent = on_bed(&stream, |device| {
        let mut most = Vec::new();
        for frames in [1u64, 63, 150] {
            let duration_ns = (frames as f64 / LOAD_PPS * 1e9).round() as u64;
            let size = stream.frame_size_bytes;
            let burst = Question::constant(size, LOAD_PPS, duration_ns, Purpose::Search, "");
            assert_eq!(burst.frames(), frames);
            let mut sent = 0;
            for _ in 0..ATTEMPTS {
                let answer = device.trial(&stream, &burst)?.answer;
                assert_eq!(answer.frames_intended, frames, "{answer:?}");
                sent = sent.max(answer.frames_sent);
                if sent == frames {
                    break;
                }
            }
            most.push((sent, frames));
        }
        Ok(most)
    });
    for (sent, frames) in sent.unwrap() {
        assert_eq!(sent, frames);
    }
}

/// Frames are counted, port counters are reported as not read, and actions on the DUT are refused.
#[test]
fn a_dut_without_login_is_measured_from_outside() {
    const TEST: &str = "a_dut_without_login_is_measured_from_outside";
    if !rustix::process::geteuid().is_root() {
        return skipped(TEST, "not root");
    }
    let version = IpVersion::Ipv4;
    let stream = Stream::new(version, version.smallest_frame(), 100).unwrap();
    let plain = Question::constant(
        stream.frame_size_bytes,
        LOAD_PPS,
        SECOND / 5,
        Purpose::Measure,
        "",
    );
    let with_reset = Question {
        reset_at_ns: Some(SECOND / 10),
        reset: Some("interface".into()),
        sample_ns: Some(SECOND / 10),
        ..plain.clone()
    };
    let (made, refused) = on_bed(&stream, |device| {
        device.standing.as_mut().unwrap().bed.make_black_box("fw1");
        let made = device.trial(&stream, &plain)?;
        let refused = device.trial(&stream, &with_reset).err();
        Ok((made, refused.unwrap()))
    })
    .unwrap();
    assert!(made.counters.generator_sent > 0 && made.counters.receiver_received > 0);
    for stage in [Stage::DutInput, Stage::DutOutput] {
        assert_eq!(made.counters.chain.passed(&stage), None);
    }
    let ledger = balance(&made.counters, None);
    assert!(
        ledger
            .not_exact
            .iter()
            .any(|m| m.stage == Stage::DutInput && !m.is_read)
    );
    assert_eq!(ledger.frames_unexplained, 0, "{ledger:?}");
    let words = refused.to_string();
    assert!(
        words.contains("the reset `interface`")
            && words.contains("on fw1: fwdlab cannot log into it"),
        "{words}"
    );
}
