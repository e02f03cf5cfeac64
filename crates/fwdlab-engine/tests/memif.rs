//! Testers, senders and receivers on memif ports, by the names of the ports: back to back, in one
//! process. `src/memif/testpmd.rs` has those against DPDK.
//!
//! Needs nothing: no root, no interface. Start with [`a_tester_proves_and_measures_a_path`].

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::analysis::{AnalysisPlan, Lengths, StreamPlan};
use fwdlab_engine::{
    Addresses, Choice, Counting, EngineError, Expected, Frames, Mode, PathSpec, PortReceiver,
    PortSender, PortSpec, Schedule, SignaturePlace, StallPolicy, TestFrames, Tester,
};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, MacAddr};

const DEADLINE: Duration = Duration::from_secs(60);
const ADDRESSES: Addresses = Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

/// A folder for sockets, removed when dropped.
struct Sockets(PathBuf);

impl Sockets {
    fn new(name: &str) -> Sockets {
        let folder = format!("fwdlab-memif-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Sockets(folder)
    }

    fn port(&self, number: u32, options: &str) -> PortSpec {
        let socket = self.0.join(number.to_string());
        PortSpec {
            netns: None,
            interface: format!("memif:{}{options}", socket.display()),
        }
    }

    /// The client sends, the server receives; or the other way round.
    fn path(&self, number: u32, client_sends: bool) -> PathSpec {
        let client = self.port(number, ",queues=2,ring=256");
        let server = self.port(number, ",queues=2,role=server");
        match client_sends {
            true => PathSpec {
                tx: client,
                rx: server,
            },
            false => PathSpec {
                tx: server,
                rx: client,
            },
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stream(flows: u32) -> Stream {
    Stream::new(IpVersion::Ipv4, FrameSize::MIN, flows).unwrap()
}

fn schedule(load_pps: Option<f64>, frames: u64, path: usize) -> Schedule {
    Schedule {
        load: load_pps.into(),
        frames: Some(frames),
        at_most: DEADLINE,
        stall_policy: StallPolicy::CatchUp { most_pps: None },
        path,
    }
}

fn until(action: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < DEADLINE, "{action}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The tester chooses memif by the name of the port, proves both paths, and accounts for every
/// frame of two trials: their order, their latencies.
#[test]
fn a_tester_proves_and_measures_a_path() {
    let sockets = Sockets::new("tester");
    let paths = [sockets.path(1, true), sockets.path(2, false)];
    let choice = Choice {
        mode: None,
        first: None,
        cpus: vec![],
        senders: 1,
        prove: Some(stream(10)),
        way_back: None,
        traffic: vec![],
    };
    let (mut tester, rejected) = Tester::open(&paths, &ADDRESSES, &choice).unwrap();
    assert!(rejected.is_empty(), "{rejected:?}");
    assert_eq!(
        (tester.mode(), tester.receiver_name()),
        (Mode::Memif, "memif")
    );
    assert_eq!(tester.capabilities().queues, 2);
    assert_eq!(tester.capabilities().reached(), "memif, 2 queues");
    let plan = AnalysisPlan {
        streams: vec![StreamPlan {
            id: 0,
            flows: 10,
            lengths: Some(Lengths {
                shortest: 60,
                longest: 60,
            }),
        }],
    };
    for (path, load_pps, frames) in [(0, Some(20_000.0), 2000), (1, None, 20_000)] {
        tester.arm_with(&stream(10), Some(plan.clone())).unwrap();
        tester.start(schedule(load_pps, frames, path)).unwrap();
        until("the sender did not end", || tester.is_done());
        let reading = tester.stop().unwrap();
        assert_eq!(reading.sent[path], frames, "{reading:?}");
        until("frames are missing", || {
            tester.receive_counts(path).unwrap().received == frames
        });
        let analysis = tester.analysis(path).unwrap().unwrap();
        let found = &analysis.streams[0];
        assert_eq!((found.lost(frames), found.corrupt, found.early), (0, 0, 0));
        assert_eq!((found.latency.len(), found.duplicates), (frames, 0));
        // the other path got none
        assert_eq!(tester.receive_counts(1 - path).unwrap().received, 0);
        assert_eq!(reading.sent[1 - path], 0);
    }
}

#[test]
fn a_lone_sender_and_receiver_share_the_connection_of_a_port() {
    let sockets = Sockets::new("lone");
    let (client, server) = (sockets.port(1, ""), sockets.port(1, ",role=server"));
    // both directions at once, on the same two ports
    let mut here = PortReceiver::open(&client, None).unwrap();
    let mut there = PortReceiver::open(&server, Some(Counting::Memif)).unwrap();
    let mut senders = [
        PortSender::open(&server, None, &[]).unwrap(),
        PortSender::open(&client, Some(Mode::Memif), &[]).unwrap(),
    ];
    for (sender, receiver) in senders.iter_mut().zip([&mut here, &mut there]) {
        receiver.expect(&expected(7)).unwrap();
        sender.arm(&frames(7)).unwrap();
        let sender = sender.sender().unwrap();
        assert_eq!(sender.capabilities().mode, Mode::Memif);
        sender.start(schedule(None, 5000, 0)).unwrap();
    }
    for (sender, receiver) in senders.iter_mut().zip([&mut here, &mut there]) {
        let sender = sender.sender().unwrap();
        until("the sender did not end", || sender.is_done());
        assert_eq!(sender.stop().unwrap().sent, [5000]);
        let receiver = receiver.receiver().unwrap();
        until("frames are missing", || {
            receiver.counts().unwrap().received == 5000
        });
    }
}

/// What does not work says what to do.
#[test]
fn ports_that_cannot_be_used() {
    let sockets = Sockets::new("wrong");
    let wrong = sockets.port(1, ",mode=server");
    let error = PortSender::open(&wrong, None, &[])
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("`mode=server` is not valid in `memif:"),
        "{error}"
    );
    let socket = sockets.port(1, "");
    let error = PortSender::open(&socket, Some(Mode::AfPacket), &[]).err();
    assert!(
        matches!(error, Some(EngineError::Unsupported { .. })),
        "{error:?}"
    );
    let interface = PortSpec {
        netns: None,
        interface: "lo".into(),
    };
    let error = PortReceiver::open(&interface, Some(Counting::Memif))
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("a network interface: memif ports are named memif:SOCKET"),
        "{error}"
    );
}

fn expected(nonce: u16) -> Expected {
    Expected {
        nonce,
        buffer_bytes: Some(60),
        place: SignaturePlace::UdpPayload,
        analysis: None,
    }
}

fn frames(nonce: u16) -> Frames {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr(ADDRESSES.source_mac),
        destination: MacAddr(ADDRESSES.destination_mac),
        version: fwdlab_packet::IpVersion::V4,
        frame_size: 64,
    });
    Frames::Test(TestFrames {
        template: template.unwrap(),
        flows: FlowSet::default_v4(10).unwrap(),
        nonce,
    })
}
