//! What a sender does about frames that it missed while it stalled: exact counts, compared with the
//! port's own counters. Start with [`stall_process`].

use std::thread::sleep;
use std::time::Duration;

use crate::support::{Lab, PATIENCE, Started, count, skipped, words};
use crate::wire::{MAC_B, Wire};
use rustix::process::Signal;

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

mod alone {
    use super::*;

    /// The sender is stopped for a tenth of a second, 1000 frames. Other processes may stall it,
    /// too, before and after its clock is read: its lateness and the latencies have only lower
    /// bounds in common. `engine` tests their percentiles.
    #[test]
    fn a_sender_that_stalled_catches_up_or_reports_missing_frames_and_hides_nothing() {
        const STOPPED_NS: u64 = 100_000_000;
        const GAP_NS: u64 = 100_000;
        let Some(lab) = Lab::root_alone() else { return };
        let wire = Wire::new();
        let left = || wire.counter("pa", "tx", "packets") + wire.counter("pa", "tx", "dropped");
        // live frames and frames built one by one, of one kind and of several
        for (engine, frames) in [
            ("xdp-live", "--flows 100"),
            ("xdp-live", "--profile imix"),
            ("af-xdp", "--flows 100"),
            ("af-packet", "--profile imix"),
        ] {
            for how in ["catch-up", "skip"] {
                let before = left();
                let line = format!(
                    "send --port pa --rx-port pb --dst-mac {MAC_B} --load 10kpps --for 800ms --analyse --json-stream \
                     --engine {engine} {frames} --on-stall {how}"
                );
                let mut sender = wire.start(&lab, &line);
                stall_process(&mut sender, Duration::from_nanos(STOPPED_NS));
                let finished = sender.event("finished");
                sender.wait(PATIENCE);
                let sent = &finished["send"][0];
                let latency = &finished["receive"][0]["streams"][0]["latency"];
                let at = |name: &str| count(&latency[name]);
                let of_sender = words(&latency["latency_of_sender"]);
                let [frames, not_sent, made_up] =
                    ["frames_sent", "frames_not_sent", "frames_made_up"].map(|of| count(&sent[of]));
                let latest_ns = count(&sent["lateness"]["max_ns"]);
                let reported = format!("{line}: {sent}, {latency}");
                assert_eq!(frames, left() - before, "{reported}");
                assert_eq!(sent["stall_policy"], how);
                // all frames of 0.8 s; skipped frames of bursty streams are exact only on average
                let off = (frames + not_sent).abs_diff(8000);
                assert!(off <= if not_sent == 0 { 0 } else { 20 }, "{reported}");
                if how == "skip" {
                    assert!(not_sent >= 990 && made_up == 0, "{reported}");
                    assert_eq!(at("latency_not_sent_frames"), not_sent);
                    // at least every tenth frame never left: the percentile is infinite
                    assert!(latency["latency_with_loss_p99_ns"].is_null(), "{reported}");
                    assert!(of_sender.contains(&"latency_max_ns".to_owned()));
                    continue;
                }
                if not_sent > 0 {
                    skipped(&format!("this machine is too busy: {reported}"));
                    continue;
                }
                // 1000 frames and no fewer, because no signal arrives early
                assert!(made_up >= 990, "{reported}");
                assert!(at("latency_stalled_frames") >= 990, "{reported}");
                // the frame that was due when the process stopped left late and arrived late
                for late_ns in [latest_ns, at("latency_max_ns")] {
                    assert!(late_ns + 2 * GAP_NS >= STOPPED_NS, "{reported}");
                }
                assert_eq!(at("latency_longest_stall_ns"), latest_ns);
                assert!(of_sender.contains(&"latency_p99_ns".to_owned()));
            }
        }
    }
}
