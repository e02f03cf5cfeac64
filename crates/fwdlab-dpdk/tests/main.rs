//! Tests of the engine on DPDK's virtual devices, through its public functions.
//!
//! DPDK runs once in a process, with the huge pages that are free, or without any. Every test has
//! devices of its own. Start with [`trial`].

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod memif;
mod packet;
mod refused;
mod ring;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_dpdk::OpenPort;
use fwdlab_engine::analysis::StreamAnalysis;
use fwdlab_engine::part::PortFacts;
use fwdlab_engine::traffic::expect::Expectation;
use fwdlab_engine::traffic::{Emission, Kind, Stream, Timing};
use fwdlab_engine::{
    Expected, Frames, LoadPlan, PortSpec, ReceiveCounts, Receiver, Schedule, SendCounts, Sender,
    SignaturePlace, StallPolicy, TestFrames, Traffic, TrafficFrames,
};
use fwdlab_packet::modifier::{Instruction, Program};
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature};

/// Generous: the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(60);

const FLOWS: u32 = 12;

/// Returns the port of a new device; its name has a number of its own.
fn port(driver: &str, options: &str) -> PortSpec {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    PortSpec {
        netns: None,
        interface: format!("dpdk:{driver}{number}{options}"),
    }
}

/// Returns what is known of a port, which is open meanwhile.
fn facts(port: &PortSpec) -> PortFacts {
    OpenPort::open(port).unwrap().facts().unwrap()
}

fn until(action: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < DEADLINE, "{action}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn next_nonce() -> u16 {
    static NONCE: AtomicU16 = AtomicU16::new(1);
    NONCE.fetch_add(1, Ordering::Relaxed)
}

fn template(frame_size: u16) -> FrameTemplate {
    let spec = FrameSpec {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        version: IpVersion::V4,
        frame_size,
    };
    FrameTemplate::new(&spec).unwrap()
}

fn test_frames(frame_size: u16) -> Frames {
    Frames::Test(TestFrames {
        template: template(frame_size),
        flows: FlowSet::default_v4(FLOWS).unwrap(),
        nonce: next_nonce(),
    })
}

/// Two streams with frames of several sizes; signed, so that each frame is another, or all the
/// same, so that a sender keeps them.
fn mix(is_signed: bool) -> Frames {
    let kind = |(id, size): (u16, u16)| {
        let template = template(size);
        let mut bytes = vec![0; template.buffer_len()];
        let flow = FlowSet::default_v4(FLOWS).unwrap().flow(id.into());
        template.write(&mut bytes, &flow, &Signature::default());
        // no checksum, instead of one that covers the signature
        bytes[40..42].fill(0);
        if !is_signed {
            bytes[42..].fill(id as u8);
        }
        let instructions = match is_signed {
            true => vec![Instruction::Signature { offset: 42 }],
            false => vec![],
        };
        Kind {
            template: bytes,
            program: Program {
                instructions,
                ..Program::default()
            },
            place: is_signed.then_some(SignaturePlace::UdpPayload),
        }
    };
    let stream = |(id, rate_pps, sizes, pattern): (u16, f64, &[u16], &[u16])| Stream {
        id,
        name: id.to_string(),
        kinds: sizes.iter().map(|size| kind((id, *size))).collect(),
        pattern: pattern.into(),
        timing: Timing::new(rate_pps, Emission::Continuous),
        path: 0,
    };
    let streams = [
        (1, 2.0, &[64, 576, 1518][..], &[0, 0, 1, 0, 2][..]),
        (2, 1.0, &[128], &[0]),
    ];
    Frames::Traffic(TrafficFrames {
        traffic: Arc::new(Traffic {
            name: "mix".into(),
            streams: streams.map(stream).into(),
        }),
        nonce: next_nonce(),
    })
}

fn nonce(frames: &Frames) -> u16 {
    match frames {
        Frames::Test(frames) => frames.nonce,
        Frames::Traffic(frames) => frames.nonce,
    }
}

fn flat_out(frames: u64) -> Schedule {
    Schedule {
        load: LoadPlan::FlatOut,
        frames: Some(frames),
        at_most: DEADLINE,
        stall_policy: StallPolicy::CatchUp { most_pps: None },
        path: 0,
    }
}

/// Tells a receiver what to expect of these frames from this number of senders.
fn expect(receiver: &mut dyn Receiver, frames: &Frames, senders: u32) -> Expectation {
    let expectation = Expectation::from_frames(frames).from_senders(frames, senders);
    let plan = expectation.plan();
    let expected = Expected {
        nonce: nonce(frames),
        buffer_bytes: None,
        place: SignaturePlace::UdpPayload,
        analysis: (!plan.streams.is_empty()).then_some(plan),
    };
    receiver.expect(&expected).unwrap();
    expectation
}

/// Sends until everything is sent; returns the final counts.
fn send(sender: &mut dyn Sender, frames: &Frames, schedule: Schedule) -> SendCounts {
    sender.arm(frames).unwrap();
    sender.start(schedule).unwrap();
    until("the sender did not end", || sender.is_done());
    sender.stop().unwrap()
}

/// Waits until as many frames have arrived as were sent, of ours and others.
fn arrived(receiver: &mut dyn Receiver, sent: u64) -> ReceiveCounts {
    let mut counts = ReceiveCounts::default();
    let begin = Instant::now();
    while counts.received + counts.foreign < sent && begin.elapsed() < DEADLINE {
        thread::sleep(Duration::from_millis(1));
        counts = receiver.counts().unwrap();
    }
    assert_eq!((counts.received + counts.foreign, counts.late), (sent, 0));
    counts
}

/// One trial: every frame that was sent comes back once, unchanged, and in the order of its sender.
fn trial(
    sender: &mut dyn Sender,
    receiver: &mut dyn Receiver,
    frames: &Frames,
    schedule: Schedule,
) -> SendCounts {
    let senders = sender.capabilities().senders.into();
    let expectation = expect(receiver, frames, senders);
    let counts = send(sender, frames, schedule);
    let received = arrived(receiver, counts.total());
    assert_eq!(received.foreign, 0, "{received:?}");
    let analysis = receiver.analysis().unwrap().unwrap();
    for stream in &analysis.streams {
        let StreamAnalysis {
            duplicates,
            reordered,
            older,
            corrupt,
            early,
            ..
        } = *stream;
        let wrong = [duplicates, reordered, older, corrupt, early];
        assert_eq!(
            (wrong, stream.next),
            ([0; 5], stream.received),
            "{stream:?}"
        );
    }
    let streams = expectation.together(analysis).streams;
    let delivered: u64 = streams.iter().map(StreamAnalysis::delivered).sum();
    assert_eq!(delivered, counts.total());
    for (stream, own) in streams.iter().zip(&counts.streams) {
        assert_eq!(stream.received, *own, "stream {}", stream.id);
    }
    if let Frames::Test(_) = frames {
        let each = counts.total() / u64::from(FLOWS);
        let all = streams[0].flows.iter().map(|n| u64::from(*n));
        assert!(
            all.clone().all(|n| n == each || n == each + 1),
            "{each}: {all:?}"
        );
        assert_eq!(streams[0].flows.len(), FLOWS as usize);
    }
    counts
}
