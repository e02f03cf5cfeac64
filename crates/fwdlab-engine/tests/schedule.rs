//! The schedule of the BPF senders compared with the library's: both let the same frames leave at
//! the same times, even if the sender stalls.
//!
//! Needs the right to load BPF programs.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write;

use aya::Ebpf;
use aya::maps::Array;
use aya::programs::{TestRun, TestRunOptions, Xdp};
use fwdlab_engine::analysis::{
    Analyser, AnalysisPlan, FrameClass, StreamAnalysis, StreamPlan, stalled_frames,
};
use fwdlab_engine::pacer::Pacer;
use fwdlab_engine::stamps::Origins;
use fwdlab_engine::{Expected, SignaturePlace, StallPolicy};
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature};

use self::chance::chance;

#[path = "../src/testing/chance.rs"]
mod chance;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/schedule_test.o"));

const START: u64 = 1_000_000_000_000;
const MS: u64 = 1_000_000;

/// `struct control` and `struct progress` of `bpf/schedule.h`, in words of 8 bytes.
type Control = [u64; 9];
type Progress = [u64; 82];
const NOT_SENT: usize = 16;
const MADE_UP: usize = 17;
const LAG: usize = 20;

/// A sender in BPF without frames.
struct Sender {
    programs: Ebpf,
}

impl Sender {
    fn load() -> Option<Sender> {
        let mut programs = match Ebpf::load(OBJECT) {
            Ok(programs) => programs,
            Err(error) => {
                let name = std::thread::current().name().unwrap_or("?").to_owned();
                let reason = format!("cannot load BPF programs: {error}");
                let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {reason}");
                return None;
            }
        };
        let program: &mut Xdp = programs.program_mut("tick").unwrap().try_into().unwrap();
        program.load().unwrap();
        Some(Sender { programs })
    }

    fn steer(&mut self, load_pps: u64, makes_up: bool, end: u64, frames: u64) {
        let relief = if makes_up { 16384 } else { 0 };
        let gap = (1_000_000_000 << 16) / load_pps;
        let control: Control = [START, end, gap, frames, 100 << 32, relief << 32, 0, 0, 0];
        let map = self.programs.map_mut("control").unwrap();
        Array::<_, Control>::try_from(map)
            .unwrap()
            .set(0, control, 0)
            .unwrap();
    }

    fn reset(&mut self) {
        let map = self.programs.map_mut("progress").unwrap();
        let nothing: Progress = [0; 82];
        Array::<_, Progress>::try_from(map)
            .unwrap()
            .set(0, nothing, 0)
            .unwrap();
    }

    fn progress(&self) -> Progress {
        let map = self.programs.map("progress").unwrap();
        Array::<_, Progress>::try_from(map)
            .unwrap()
            .get(&0, 0)
            .unwrap()
    }

    /// Returns all frames that leave at this time: their intended departures, and those in their
    /// signatures.
    fn departures(&mut self, now: u64) -> Vec<(u64, u64)> {
        let program: &mut Xdp = self
            .programs
            .program_mut("tick")
            .unwrap()
            .try_into()
            .unwrap();
        let mut departures = vec![];
        loop {
            let mut frame = [0; 64];
            frame[..8].copy_from_slice(&now.to_ne_bytes());
            let mut out = [0; 64];
            let options = TestRunOptions {
                data_in: Some(&frame),
                data_out: Some(&mut out),
                ..TestRunOptions::new()
            };
            const PASS: u32 = 2;
            if program.test_run(options).unwrap().return_value != PASS {
                return departures;
            }
            let [intended, slot] =
                [0, 8].map(|at| u64::from_ne_bytes(out[at..at + 8].try_into().unwrap()));
            departures.push((START + (slot >> 16), intended));
        }
    }
}

#[test]
fn bpf_and_rust_keep_the_same_schedule() {
    let Some(mut sender) = Sender::load() else {
        return;
    };
    let mut below = chance(4);
    for round in 0..60 {
        let load = [1_000, 10_000, 50_000, 100_000, 1_000_000][below(5) as usize];
        let makes_up = below(3) > 0;
        let length = (2 + below(60)) * MS + below(1000);
        let (gap, end) = (1_000_000_000 / load, START + length);
        let stall_policy = match makes_up {
            true => StallPolicy::CatchUp { most_pps: None },
            false => StallPolicy::Skip,
        };
        let mut pacer = Pacer::new(load as f64, stall_policy, START, end);
        sender.reset();
        sender.steer(load, makes_up, end, 0);
        let mut now = START;
        let (mut sent, mut over) = (0, false);
        while !over {
            now += match below(100) {
                // now and then longer than can be made up after the end
                0 => below(30 * MS) * below(10),
                1..5 => below(300_000),
                _ => below(20 * gap + 1),
            };
            let mut due = vec![];
            over = now >= end && !pacer.goes_on(now);
            if !over {
                // after a stall the newest frame is due, and then perhaps another one
                while pacer.due(now) > 0 {
                    due.push((pacer.departure_ns(), pacer.intended_ns()));
                    pacer.taken(1);
                }
            }
            let of_bpf = sender.departures(now);
            assert_eq!(of_bpf, due, "round {round}, {} ns, {pacer:?}", now - START);
            sent += due.len() as u64;
        }
        let progress = sender.progress();
        assert_eq!(progress[NOT_SENT], pacer.not_sent(), "round {round}");
        assert_eq!(
            (progress[MADE_UP] >> 16, progress[LAG]),
            (pacer.made_up(), 0)
        );
        assert_eq!(
            sent + pacer.not_sent(),
            (length * load).div_ceil(1_000_000_000)
        );
    }
}

/// 10 s at 10 kpps through a DUT that takes 20 us, with a sender that is stopped for 100 ms. `send`
/// returns the frames sent at a time, as the intended departures that they contain. Returns the
/// receiver's analysis.
fn stopped_once(mut send: impl FnMut(u64) -> Vec<u64>) -> StreamAnalysis {
    const DELAY_NS: u64 = 20_000;
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        version: IpVersion::V4,
        frame_size: 64,
    })
    .unwrap();
    let flow = FlowSet::default_v4(1).unwrap().flow(0);
    let mut frame = vec![0; template.buffer_len()];
    let plan = AnalysisPlan {
        streams: vec![StreamPlan::default()],
    };
    let mut analyser = Analyser::new(
        "test",
        &Expected {
            nonce: 1,
            buffer_bytes: None,
            place: SignaturePlace::UdpPayload,
            analysis: Some(plan),
        },
    )
    .unwrap();
    let (mut now, mut sequence) = (START, 0);
    while now < START + 10_000 * MS {
        for timestamp_ns in send(now) {
            let signature = Signature {
                nonce: 1,
                sequence,
                timestamp_ns,
                ..Signature::default()
            };
            template.write(&mut frame, &flow, &signature);
            assert_eq!(analyser.frame(&frame, now + DELAY_NS), FrameClass::Ours);
            sequence += 1;
        }
        now += match (now - START) / MS {
            5000 if now == START + 5000 * MS => 100 * MS,
            // while it catches up, frames do not leave with the clock's ticks
            5100..5600 => 5_000,
            _ => 100_000,
        };
    }
    let analysis = analyser.analysis(Origins::default());
    analysis.streams.into_iter().next().unwrap()
}

/// Checks the percentiles of 100,000 frames, 999 of which were due while the sender was stopped.
fn check_stall_percentiles(found: &StreamAnalysis) {
    let ms = |share| found.latency.quantile(share).unwrap() as f64 / 1e6;
    assert_eq!((found.received, found.early), (100_000, 0));
    assert!(ms(0.989) < 0.03, "{}", ms(0.989));
    assert!((49.5..51.0).contains(&ms(0.995)), "{}", ms(0.995));
    assert!((89.5..91.5).contains(&ms(0.999)), "{}", ms(0.999));
    assert_eq!(found.latency_max_ns, 99_920_000);
}

#[test]
fn a_stop_of_the_sender_is_in_the_latency_of_the_frames_that_were_due() {
    let end = START + 10_000 * MS;
    let mut pacer = Pacer::new(1e4, StallPolicy::CatchUp { most_pps: None }, START, end);
    let found = stopped_once(|now| {
        let mut sent = vec![];
        while pacer.due(now) > 0 {
            sent.push(pacer.intended_ns());
            pacer.taken(1);
        }
        sent
    });
    check_stall_percentiles(&found);
    assert_eq!((pacer.made_up(), pacer.not_sent()), (999, 0));
    let summary = |stalled| found.latency_summary(0, Some(stalled), &Origins::default());
    let summary = summary(stalled_frames(pacer.made_up(), 0, None)).unwrap();
    assert!(
        summary.may_reflect_sender("latency_p999_ns")
            && summary.may_reflect_sender("latency_max_ns")
    );
    assert!(
        !summary.may_reflect_sender("latency_p99_ns"),
        "1000 frames are above it"
    );
}

#[test]
fn a_stop_of_the_bpf_sender_is_in_the_latency_of_the_frames_that_were_due() {
    let Some(mut sender) = Sender::load() else {
        return;
    };
    sender.reset();
    sender.steer(10_000, true, START + 10_000 * MS, 0);
    let found = stopped_once(|now| {
        sender
            .departures(now)
            .into_iter()
            .map(|(_, at)| at)
            .collect()
    });
    check_stall_percentiles(&found);
    assert_eq!(sender.progress()[MADE_UP] >> 16, 999);
}

#[test]
fn frames_that_a_stopped_sender_forgives_are_endlessly_late() {
    let end = START + 10_000 * MS;
    let mut pacer = Pacer::new(1e4, StallPolicy::Skip, START, end);
    let found = stopped_once(|now| {
        let due = pacer.due(now);
        let take = |_| {
            let at = pacer.intended_ns();
            pacer.taken(1);
            at
        };
        (0..due).map(take).collect()
    });
    assert_eq!((found.received, pacer.not_sent()), (99_001, 999));
    let stalled = stalled_frames(0, pacer.not_sent(), None);
    let summary = found.latency_summary(0, Some(stalled), &Origins::default());
    let summary = summary.unwrap();
    // none of the frames that came back was late, and the lost ones are attributed to the sender
    assert_eq!(summary.latency_max_ns, 20_000);
    assert_eq!(summary.latency_p999_ns, Some(20_000));
    assert!(summary.may_reflect_sender("latency_p999_ns"));
    assert_eq!(summary.latency_with_loss_p99_ns, Some(20_000));
    assert_eq!(summary.latency_with_loss_p999_ns, None);
}

/// The number of owed frames survives a change of the load, and the intended number stays correct
/// to a fraction of a frame.
#[test]
fn missed_frames_survive_a_change_of_load() {
    let Some(mut sender) = Sender::load() else {
        return;
    };
    let mut below = chance(7);
    for round in 0..30 {
        let end = START + 200 * MS;
        let loads: Vec<u64> = (0..6).map(|_| 10_000 + below(90_000)).collect();
        sender.reset();
        let (mut now, mut sent, mut intended) = (START, 0, 0.0);
        for (phase, &load) in (1..).zip(&loads) {
            sender.steer(load, true, end, 0);
            // the sender sees a new load when it checks for the first time
            let from = now;
            while now < START + phase * 30 * MS {
                sent += sender.departures(now).len();
                now += if below(1000) == 0 {
                    below(3 * MS)
                } else {
                    below(30_000)
                };
            }
            sent += sender.departures(now).len();
            let to = if phase == 6 { end } else { now };
            intended += (to - from) as f64 * load as f64 / 1e9;
        }
        while now < end + 100 * MS {
            sent += sender.departures(now).len();
            now += 5000;
        }
        let progress = sender.progress();
        assert_eq!((progress[NOT_SENT], progress[LAG]), (0, 0), "round {round}");
        assert!(progress[MADE_UP] > 0);
        // a gap in progress is shortened or extended at each change
        let off = sent as f64 - intended;
        assert!(off.abs() <= 7.0, "round {round}: {off} off");
    }
}
