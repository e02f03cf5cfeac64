//! What a sender does about frames that it missed while it stalled: exact counts, compared with the
//! port's own counters. Start with [`sent`].

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lab, PATIENCE, Started, count, root, skipped, words};
use crate::wire::{MAC_B, Wire};

const HELD_UP: Duration = Duration::from_millis(20);

/// Stops the process some time after its start, and continues it later. The time counts from when
/// the last thread has stopped: a thread that waits for a CPU may be the one that takes the signal,
/// and only then does the kernel stop the others.
fn stall_process(sender: &mut Started, time: Duration) {
    sender.event("started");
    sleep(Duration::from_millis(300));
    sender.signal(Signal::STOP);
    sender.wait_until("its stop", |sender| {
        sender.has_ended() || is_stopped(sender.pid())
    });
    sleep(time);
    sender.signal(Signal::CONT);
}

/// Returns true if all threads of the process are stopped.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // `pid (name) state ...`; a thread may end meanwhile
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok())
        .all(|stat| {
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
        })
}

/// Sends with a stall. Returns the sender's results, after comparing them with the port.
fn sent(lab: &Lab, wire: &Wire, words: &str) -> Value {
    let before = wire.counter("pa", "tx", "packets") + wire.counter("pa", "tx", "dropped");
    let words = format!("send --port pa --dst-mac {MAC_B} --json-stream {words}");
    let mut sender = wire.start(lab, &words);
    stall_process(&mut sender, HELD_UP);
    let finished = sender.event("finished");
    sender.wait(PATIENCE);
    let after = wire.counter("pa", "tx", "packets") + wire.counter("pa", "tx", "dropped");
    let sent = finished["send"][0].clone();
    assert_eq!(count(&sent["frames_sent"]), after - before, "{words}");
    sent
}

#[derive(Debug)]
struct Figures {
    sent: u64,
    not_sent: u64,
    made_up: u64,
    latest_ns: u64,
}

impl Figures {
    fn parse(sent: &Value) -> Figures {
        Figures {
            sent: count(&sent["frames_sent"]),
            not_sent: count(&sent["frames_not_sent"]),
            made_up: count(&sent["frames_made_up"]),
            latest_ns: count(&sent["lateness"]["max_ns"]),
        }
    }

    /// Returns true if the results account for all intended frames of 0.6 s at 20 kpps. Frames
    /// skipped in bursty streams are exact only on average.
    fn is_complete(&self) -> bool {
        let off = (self.sent + self.not_sent).abs_diff(12_000);
        off <= if self.not_sent == 0 { 0 } else { 20 }
    }

    /// Returns true if the machine was so busy with other tests that they stalled it for longer
    /// than this test, which is 400 frames.
    fn was_starved(&self) -> bool {
        self.made_up + self.not_sent >= 800 || self.latest_ns > 50_000_000
    }
}

#[test]
fn a_fixed_number_of_frames_is_sent_in_spite_of_stalls() {
    if !root("a_fixed_number_of_frames_is_sent_in_spite_of_stalls") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for how in ["af-xdp --on-stall skip", "af-packet --on-stall catch-up"] {
        let words = format!("--load 20kpps --for 12000frames --engine {how}");
        assert_eq!(count(&sent(&lab, &wire, &words)["frames_sent"]), 12_000);
    }
}

mod alone {
    use super::*;

    /// Live frames and frames built one by one, of one kind and of several.
    const ENGINES_AND_FRAMES: [(&str, &str); 4] = [
        ("xdp-live", "--flows 100"),
        ("xdp-live", "--profile imix"),
        ("af-xdp", "--flows 100"),
        ("af-packet", "--profile imix"),
    ];

    #[test]
    fn a_sender_that_stalled_catches_up_or_reports_missing_frames() {
        if !root("a_sender_that_stalled_catches_up_or_reports_missing_frames") {
            return;
        }
        let lab = Lab::alone();
        let wire = Wire::new();
        for (engine, frames) in ENGINES_AND_FRAMES {
            let words = format!("--load 20kpps --for 600ms --engine {engine} {frames}");
            let made_up = sent(&lab, &wire, &words);
            assert_eq!(made_up["stall_policy"], "catch-up");
            let figures = Figures::parse(&made_up);
            assert!(figures.is_complete(), "{words}: {figures:?}");
            if figures.not_sent > 0 {
                assert!(figures.was_starved(), "{words}: {figures:?}");
            } else {
                // 400 frames and no fewer, because no signal arrives early
                assert!(figures.made_up >= 390, "{words}: {figures:?}");
            }

            let forgiven = sent(&lab, &wire, &format!("{words} --on-stall skip"));
            let figures = Figures::parse(&forgiven);
            assert!(figures.is_complete(), "{words}: {figures:?}");
            assert!(figures.not_sent >= 390, "{words}: {figures:?}");
            assert_eq!(count(&forgiven["frames_made_up"]), 0);
            assert_eq!(forgiven["stall_policy"], "skip");
        }
    }

    /// A second at 10 kpps; the sender is stopped for a tenth of it. Other processes may stall it,
    /// too, so the latencies are compared with the lateness in the same run.
    #[test]
    fn a_sender_that_was_stopped_does_not_hide_it_from_latencies() {
        const TEST: &str = "a_sender_that_was_stopped_does_not_hide_it_from_latencies";
        const STOPPED: Duration = Duration::from_millis(100);
        const GAP_NS: u64 = 100_000;
        if !root(TEST) {
            return;
        }
        let lab = Lab::alone();
        let wire = Wire::new();
        let analysed = |arguments: &str| {
            let command = format!(
                "send --port pa --rx-port pb --dst-mac {MAC_B} --load 10kpps --for 1s --analyse --json-stream {arguments}"
            );
            let mut sender = wire.start(&lab, &command);
            stall_process(&mut sender, STOPPED);
            let finished = sender.event("finished");
            sender.wait(PATIENCE);
            let figures = Figures::parse(&finished["send"][0]);
            (
                figures,
                finished["receive"][0]["streams"][0]["latency"].clone(),
            )
        };
        for (engine, frames) in ENGINES_AND_FRAMES {
            let arguments = format!("--engine {engine} {frames}");
            let (figures, latency) = analysed(&arguments);
            let at = |name: &str| count(&latency[name]);
            if figures.not_sent > 0 {
                skipped(
                    TEST,
                    &format!("{arguments}: this machine is too busy: {figures:?}"),
                );
                continue;
            }
            let reported = format!("{arguments}: {figures:?}, {latency}");
            // a lateness is rounded up to the end of its bucket, 1/64 wide
            let stopped_ns = figures.latest_ns - figures.latest_ns / 64;
            assert!(stopped_ns >= 98_000_000, "{reported}");
            assert!(
                at("latency_max_ns") + 2 * GAP_NS >= stopped_ns,
                "{reported}"
            );
            // 1000 of 10,000 frames became due during the stop, evenly: the 100 that waited longest
            // waited for at least nine tenths of it
            assert!(at("latency_p99_ns") >= 88_000_000, "{reported}");
            assert!(at("latency_stalled_frames") >= 990, "{reported}");
            assert_eq!(
                at("latency_longest_stall_ns"),
                figures.latest_ns,
                "{reported}"
            );
            let marked = words(&latency["latency_of_sender"]);
            assert!(marked.contains(&"latency_p99_ns".to_owned()), "{reported}");
        }
        for engine in ["xdp-live", "af-packet"] {
            let arguments = format!("--engine {engine} --on-stall skip");
            let (figures, latency) = analysed(&arguments);
            let reported = format!("{arguments}: {figures:?}, {latency}");
            assert!(figures.not_sent >= 990, "{reported}");
            assert_eq!(
                count(&latency["latency_not_sent_frames"]),
                figures.not_sent,
                "{reported}"
            );
            assert!(
                latency["latency_p99_ns"].is_u64() || figures.sent < 1000,
                "{reported}"
            );
            // at least every tenth frame never left: the percentile is infinite
            assert!(latency["latency_with_loss_p99_ns"].is_null(), "{reported}");
            assert!(
                words(&latency["latency_of_sender"]).contains(&"latency_max_ns".to_owned()),
                "{reported}"
            );
        }
    }
}
