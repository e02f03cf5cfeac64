//! The fate of every frame: compares our counts with the kernel's own counters, read from outside
//! by other programs.
//!
//! The test holds the bed's namespaces open, so that they outlive the run. It then reads the final
//! counters without haste, and compares them exactly. Apart from trials, there is the path check,
//! 200 frames per attempt, and in the first bed the load search, whose frames no record counts:
//! that bed may have seen more than the records claim, the others exactly as much. Start with
//! [`conserved`].

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{
    Lab, PATIENCE, bed_of, count, dropped, is_valid, json_lines, list, meter, number, passed,
    try_tool,
};

/// Frames per attempt of the path check, and the maximum number of attempts.
const PROOF: u64 = 200;
const PROOF_TRIES: u64 = 3;

/// A namespace that is kept alive until this is dropped.
struct HeldNamespace(File);

impl HeldNamespace {
    /// Opens a namespace; `None` if it does not exist yet.
    fn open(name: &str) -> Option<HeldNamespace> {
        let held = HeldNamespace(File::open(Path::new("/run/netns").join(name)).ok()?);
        held.links().ok().map(|_| held)
    }

    /// Runs a tool in the namespace. Returns its output.
    fn tool(&self, words: &[&str]) -> Result<String, String> {
        let file = format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd());
        try_tool(&[&["nsenter", &format!("--net={file}")], words].concat())
    }

    /// Returns the counters of every interface.
    fn links(&self) -> Result<Value, String> {
        let text = self.tool(&["ip", "-j", "-s", "link"])?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    }

    /// Returns the number of frames that the kernel sent itself, such as reports of multicast
    /// listeners.
    fn sent_by_kernel(&self, interface: &str) -> u64 {
        let path = format!("/proc/net/dev_snmp6/{interface}");
        // a kernel without IPv6 sends none
        let text = self.tool(&["cat", &path]).unwrap_or_default();
        let line = text.lines().find(|l| l.starts_with("Icmp6OutMsgs"));
        line.map_or(0, |l| l.split_whitespace().nth(1).unwrap().parse().unwrap())
    }
}

/// Returns the counters of both namespaces at the same moment: the kernel sent no frames of its own
/// while they were read.
fn at_rest(generator: &HeldNamespace, dut: &HeldNamespace) -> (Value, Value, u64) {
    loop {
        let own = dut.sent_by_kernel("eth1");
        let links = (generator.links().unwrap(), dut.links().unwrap());
        if dut.sent_by_kernel("eth1") == own {
            return (links.0, links.1, own);
        }
    }
}

/// Returns a counter of an interface, such as `rx packets`.
fn counter(links: &Value, interface: &str, side: &str, name: &str) -> u64 {
    let mut links = list(links).iter();
    let link = links.find(|link| link["ifname"] == interface).unwrap();
    count(&link["stats64"][side][name])
}

#[test]
fn counters_read_from_outside_agree_to_the_frame() {
    let Some(lab) = Lab::root() else { return };
    let line = "quick --size 64 --flows 2000 -n 2 --trial 600ms --load max --engine xdp-live";
    let mut quick = lab.start(line);

    // one bed per iteration; each is held as soon as it exists
    let mut beds: Vec<(String, HeldNamespace, HeldNamespace)> = Vec::new();
    let started = Instant::now();
    while !quick.has_ended() {
        assert!(started.elapsed() < PATIENCE, "{}", quick.err());
        if let [generator, dut, ..] = &bed_of(quick.pid())[..]
            && beds.iter().all(|(name, ..)| name != generator)
            && let (Some(g), Some(d)) = (HeldNamespace::open(generator), HeldNamespace::open(dut))
        {
            beds.push((generator.clone(), g, d));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    quick.wait(PATIENCE).measured();
    // more if a trial was invalid and repeated in a new bed
    assert!(beds.len() >= 2, "a fresh DUT for each of two iterations");

    let records = json_lines(&lab.only_run().join("trials.jsonl"));
    let per_bed: Vec<&[Value]> = records
        .chunk_by(|before, after| before["iteration"] == after["iteration"] && is_valid(before))
        .collect();
    assert_eq!(per_bed.len(), beds.len(), "beds and the trials in them");
    for (number, (of_bed, (name, generator, dut))) in per_bed.iter().zip(&beds).enumerate() {
        let sum =
            |field: &str| -> u64 { of_bed.iter().map(|r| count(&r["counters"][field])).sum() };
        let at = |of: fn(&Value, &str) -> u64, stage: &str| -> u64 {
            of_bed.iter().map(|trial| of(trial, stage)).sum()
        };

        let (generator, dut, own) = at_rest(generator, dut);
        let both = |links, port, side| {
            let [passed, dropped] =
                ["packets", "dropped"].map(|name| counter(links, port, side, name));
            passed + dropped
        };
        // for each stage: the kernel's count, and that in the records
        let stages = [
            (
                "generator's port",
                both(&generator, "tx0", "tx"),
                sum("generator_sent"),
            ),
            (
                "DUT's input",
                both(&dut, "eth0", "rx"),
                // both ends count the frames that found the ring full
                at(passed, "dut_input") + at(dropped, "generator_port"),
            ),
            (
                "DUT's output",
                counter(&dut, "eth1", "tx", "packets") - own,
                at(passed, "dut_output") - sum("receiver_foreign"),
            ),
            (
                "receiver's port",
                counter(&generator, "rx0", "rx", "packets") - own,
                sum("receiver_received") + sum("receiver_late"),
            ),
        ];
        // the frames of the path check; a DUT that waits for its CPU may drop some of them
        let mut offered = None;
        for (stage, outside, recorded) in stages {
            let rest = outside.checked_sub(recorded).unwrap_or_else(|| {
                panic!("{name}: the {stage} saw {outside} frames and the records claim {recorded}")
            });
            let is_proof = match offered {
                None => rest % PROOF == 0 && (1..=PROOF_TRIES).contains(&(rest / PROOF)),
                Some(before) => rest <= before && rest > 0,
            };
            assert!(
                is_proof || (number == 0 && rest > PROOF),
                "{name}: the {stage} saw {outside} frames, the records claim {recorded}: {rest} is no proof of a path"
            );
            offered = Some(rest);
        }
        let rx = counter(&generator, "rx0", "rx", "packets");
        assert_eq!(
            counter(&dut, "eth1", "tx", "packets"),
            rx,
            "{name}: a veth loses nothing by itself"
        );
    }
    for record in &records {
        conserved(record);
        rate_is_frames_over_time(&lab.only_run(), record);
    }
    lab.assert_clean("conservation");
}

/// Asserts that the frames sent are the frames received plus all named losses, and that every loss
/// is the difference of two counters of the kernel.
#[track_caller]
pub fn conserved(record: &Value) {
    let c = |name: &str| count(&record["counters"][name]);
    let losses = list(&record["losses"]);
    let named: u64 = losses.iter().map(|loss| count(&loss["frames"])).sum();
    let of = |name: &str| count(&record[name]);
    let (sent, received) = (of("frames_sent"), of("frames_received"));
    assert_eq!(sent, received + named, "{record}");
    let lost = (of("frames_lost"), of("frames_unexplained"));
    assert_eq!(lost, (named, 0), "{record}");
    assert!(sent > 0, "{record}");

    assert_eq!(
        (sent, received),
        (c("generator_sent"), c("receiver_received"))
    );
    let [port, input, output, receiver] =
        ["generator_port", "dut_input", "dut_output", "receiver_port"].map(|stage| {
            assert_eq!(meter(record, stage)["standing"], "exact", "{record}");
            passed(record, stage)
        });
    let full = |stage| dropped(record, stage);
    assert_eq!(c("generator_sent"), port + full("generator_port"));
    assert_eq!(port, input);
    assert_eq!(output, receiver);

    let others = c("receiver_foreign") + c("receiver_late");
    let expected = [
        ("dut_input", full("generator_port")),
        ("dut", input + others - output - full("dut_output")),
        ("dut_output", full("dut_output")),
        ("receiver", receiver - c("receiver_received") - others),
    ];
    for (place, frames) in expected {
        let reported = losses
            .iter()
            .find(|loss| loss["place"] == place)
            .map_or(0, |loss| count(&loss["frames"]));
        assert_eq!(reported, frames, "{place}: {record}");
    }
    for loss in losses {
        let reasons = loss["reasons"].as_array().into_iter().flatten();
        let reasons: u64 = reasons.map(|one| count(&one["frames"])).sum();
        assert!(reasons <= count(&loss["frames"]), "{loss}");
        assert!(!loss["counter"].as_str().unwrap().is_empty());
    }
}

/// Returns the number of judged windows of a trial, over all strata.
fn windows_judged(trial: &Value) -> u64 {
    let apart = trial["other_states"].as_array().into_iter().flatten();
    let strata = apart.chain([&trial["quiet"], &trial["contended"]]);
    strata.map(|stratum| count(&stratum["windows"])).sum()
}

/// Checks the rate: it comes from the stored windows, whose frames are part of the port's count,
/// and whose time is part of the trial.
fn rate_is_frames_over_time(run: &Path, record: &Value) {
    let case = record["test_case"].as_str().unwrap().replace('/', "+");
    let path = format!("raw/{case}/{}/intervals.csv", record["trial"]);
    let text = fs::read_to_string(run.join(path)).unwrap();
    let (head, lines) = text.split_once('\n').unwrap();
    let probes = ",probe_before_per_ns,probe_after_per_ns,distance_before_ns,distance_after_ns";
    assert!(head.ends_with(probes), "{head}");
    // the receiver counts frames, at times of its own
    let names = "duration_s received_s frames_received frames_sent sender_waited_s";
    let windows = lines.lines().map(|line| {
        let cells = || head.split(',').zip(line.split(','));
        let of = |name| cells().find(|(column, _)| *column == name).unwrap().1;
        let values = names.split(' ').map(|name| of(name).parse().unwrap());
        values.collect()
    });
    let windows: Vec<Vec<f64>> = windows.collect();
    let judged = windows_judged(record) + count(&record["windows_not_offered"]);
    assert_eq!(judged, windows.len() as u64, "every window has one stratum");
    let [seconds, received_s, received] =
        [0, 1, 2].map(|at: usize| windows.iter().map(|window| window[at]).sum::<f64>());
    let differ = (received_s / seconds - 1.0).abs();
    assert!(differ < 0.01, "{received_s} s and {seconds} s");

    // before the first window the DUT settles; after the last one its queues drain
    let counted = number(&record["frames_received"]);
    let duration = number(&record["duration_s"]);
    assert!(
        (0.25 * counted..=counted).contains(&received)
            && (0.5 * duration..=duration).contains(&seconds),
        "{received} frames in windows of {seconds} s: {record}"
    );
    // flat out: the load is whatever a sender without pauses sends
    let offered = windows.iter().filter(|w| w[3] > 0.0 && w[4] <= 0.02 * w[0]);
    let mut rates: Vec<f64> = offered.map(|window| window[2] / window[1]).collect();
    let not_offered = windows.len() - rates.len();
    assert_eq!(count(&record["windows_not_offered"]), not_offered as u64);
    if rates.is_empty() {
        return;
    }
    rates.sort_by(f64::total_cmp);
    let median = (rates[(rates.len() - 1) / 2] + rates[rates.len() / 2]) / 2.0;
    let reported = number(&record["forwarding_rate_ungated_pps"]);
    assert!(
        (reported / median - 1.0).abs() < 1e-6,
        "{reported} is reported, not {median}"
    );
    if let Some(gated) = record["forwarding_rate_pps"].as_f64() {
        assert!(rates[0] <= gated && gated <= rates[rates.len() - 1]);
    }
}
