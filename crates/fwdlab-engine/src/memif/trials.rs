//! Trials over memif between two of our own ports: senders, receivers, peers that restart.
//!
//! Compiled for tests only. Start with [`Bed`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_packet::modifier::Program;
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr};

use super::port::Half;
use super::ring::{Incoming, Outgoing};
use super::*;
use crate::analysis::{AnalysisPlan, Expected, ReceiveCounts, StreamPlan};
use crate::generator::{Schedule, SendCounts};
use crate::load::LoadPlan;
use crate::pacer::StallPolicy;
use crate::signature::SignaturePlace;
use crate::traffic::player::{Room, Slot};
use crate::traffic::{Emission, Frames, Kind, Stream, TestFrames, Timing, Traffic, TrafficFrames};

/// Generous: the machine may be busy.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

pub(super) const NONCE: u16 = 21;

/// A socket path of this test alone; removed with its folder.
pub(super) struct Bed {
    folder: PathBuf,
}

impl Bed {
    pub(super) fn new() -> Bed {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("fwdlab-memif-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the socket");
        Bed { folder }
    }

    pub(super) fn options(&self, role: Role) -> Options {
        Options {
            ring_log2: 6,
            buffer_bytes: 256,
            ..Options::new(self.folder.join("memif.sock"), role)
        }
    }

    /// Opens both ends and waits until they are connected.
    fn ports(&self, queues: u16) -> (Port, Port) {
        let open = |role| {
            let options = Options {
                queues,
                ..self.options(role)
            };
            Port::open(&options).expect("a port")
        };
        let (server, client) = (open(Role::Server), open(Role::Client));
        for port in [&server, &client] {
            port.wait_for_peer(DEADLINE).expect("a peer");
        }
        (server, client)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn until(action: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < DEADLINE, "{action}");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn test_frames(nonce: u16) -> Frames {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        version: IpVersion::V4,
        frame_size: 64,
    })
    .expect("a size with room for the signature");
    Frames::Test(TestFrames {
        template,
        flows: FlowSet::default_v4(12).expect("a default set"),
        nonce,
    })
}

/// Streams whose frames never change, so that senders keep them.
fn cached_frames() -> Frames {
    let stream = |(id, bytes): (u16, usize)| Stream {
        id,
        name: id.to_string(),
        kinds: vec![Kind {
            template: vec![id as u8; bytes],
            program: Program::default(),
            place: None,
        }],
        pattern: vec![0],
        timing: Timing::new(1.0, Emission::Continuous),
        path: 0,
    };
    let traffic = Traffic {
        name: "same".into(),
        streams: [(1, 60), (2, 200), (3, 61)].map(stream).into(),
    };
    Frames::Traffic(TrafficFrames {
        traffic: Arc::new(traffic),
        nonce: NONCE,
    })
}

pub(super) fn flat_out(frames: u64) -> Schedule {
    Schedule {
        load: LoadPlan::FlatOut,
        frames: Some(frames),
        at_most: DEADLINE,
        stall_policy: StallPolicy::CatchUp { most_pps: None },
        path: 0,
    }
}

pub(super) fn expected(nonce: u16, analysis: bool) -> Expected {
    let plan = || AnalysisPlan {
        streams: vec![StreamPlan {
            id: 0,
            flows: 12,
            lengths: None,
        }],
    };
    Expected {
        nonce,
        buffer_bytes: Some(60),
        place: SignaturePlace::UdpPayload,
        analysis: analysis.then(plan),
    }
}

/// Sends until everything is sent; returns the final counts.
pub(super) fn send(sender: &mut dyn Sender, frames: &Frames, schedule: Schedule) -> SendCounts {
    sender.arm(frames).expect("room for the frames");
    sender.start(schedule).expect("a thread");
    until("the sender did not end", || sender.is_done());
    sender.stop().expect("a sender that did not fail")
}

pub(super) fn received(receiver: &mut dyn Receiver) -> ReceiveCounts {
    receiver.counts().expect("counts")
}

/// Many frames through few buffers: every frame of every flow arrives once and unchanged, in both
/// directions; with one queue, or where a flow stays on its queue, in order.
#[test]
fn all_frames_arrive_in_order_through_1_2_and_4_queues() {
    for queues in [1, 2, 4] {
        let bed = Bed::new();
        let (server, client) = bed.ports(queues);
        assert_eq!(client.status().queues, (queues.into(), queues.into()));
        for (from, to) in [(&client, &server), (&server, &client)] {
            let mut sender = sender(std::slice::from_ref(from), &[]);
            assert_eq!(sender.capabilities().queues, queues);
            let mut receiver = receiver(to, &[]).expect("a receiver");
            receiver.expect(&expected(NONCE, true)).expect("a plan");
            let frames = 30_000;
            let counts = send(&mut sender, &test_frames(NONCE), flat_out(frames));
            assert_eq!((counts.sent, counts.not_sent), (vec![frames], 0));
            until("frames are missing", || {
                received(&mut receiver).received == frames
            });
            let counts = received(&mut receiver);
            let none = (counts.wrong_length, counts.late, counts.foreign);
            assert_eq!(none, (0, 0, 0));
            let analysis = receiver.analysis().expect("results").expect("a plan");
            let stream = &analysis.streams[0];
            assert_eq!((stream.received, stream.lost(frames)), (frames, 0));
            assert_eq!((stream.corrupt, stream.duplicates), (0, 0));
            assert!(
                stream
                    .flows
                    .iter()
                    .all(|&of_flow| u64::from(of_flow) == frames / 12)
            );
            if queues == 1 {
                assert_eq!(stream.reordered, 0);
            }
        }
        for port in [&server, &client] {
            let status = port.status();
            let lost = (status.lost_in_rings, status.unread_in_rings);
            assert_eq!((status.connections, lost), (1, (0, 0)));
        }
    }
}

/// Frames at a load, from a profile that can be cached, counted by stream.
#[test]
fn streams_are_counted_and_keep_their_frames() {
    let bed = Bed::new();
    let (server, client) = bed.ports(2);
    // the third time with the rings that the first has given back
    for (from, to) in [(&client, &server), (&server, &client), (&client, &server)] {
        let mut sender = sender(std::slice::from_ref(from), &[]);
        let mut receiver = receiver(to, &[]).expect("a receiver");
        receiver.expect(&expected(NONCE, false)).expect("no plan");
        let schedule = Schedule {
            load: LoadPlan::Constant(60_000.0),
            ..flat_out(3000)
        };
        let counts = send(&mut sender, &cached_frames(), schedule);
        assert_eq!(counts.sent, [3000], "{counts:?}");
        assert_eq!(counts.streams.iter().sum::<u64>(), 3000);
        if counts.not_sent == 0 {
            assert_eq!(counts.streams, [1000; 3]);
        }
        // without a signature they are foreign
        until("frames are missing", || {
            received(&mut receiver).foreign == counts.sent[0]
        });
        assert_eq!(received(&mut receiver).received, 0);
    }
}

/// Without a receiver the rings fill up: what is in them at the end was not sent. A receiver that
/// comes later finds these frames, which belong to an earlier trial then.
#[test]
fn frames_left_in_the_rings_are_not_sent() {
    for from_client in [true, false] {
        let bed = Bed::new();
        let (server, client) = bed.ports(1);
        let (from, to) = match from_client {
            true => (&client, &server),
            false => (&server, &client),
        };
        let mut sender = sender(std::slice::from_ref(from), &[]);
        let schedule = Schedule {
            at_most: Duration::from_millis(100),
            ..flat_out(1000)
        };
        let counts = send(&mut sender, &test_frames(NONCE), schedule);
        let left_over = counts.not_sent;
        assert_eq!(counts.sent, [0]);
        // on a stalled machine fewer than the ring holds
        assert!(left_over <= 64 && (left_over < 64 || counts.ring_full > 0));
        let mut receiver = receiver(to, &[]).expect("a receiver");
        // its thread must leave them alone until it knows what to expect
        thread::sleep(Duration::from_millis(30));
        receiver
            .expect(&expected(NONCE + 1, false))
            .expect("no plan");
        until("the frames are lost", || received(&mut receiver).late == 64);
        // they do not count for the next trial either
        let counts = send(&mut sender, &test_frames(NONCE + 1), flat_out(500));
        assert_eq!((counts.sent, counts.not_sent), (vec![500], 0));
        until("frames are missing", || {
            received(&mut receiver).received == 500
        });
        assert_eq!(received(&mut receiver).late, left_over);
        // nor for its streams
        drop(receiver);
        let mut left = |frames, at_most| {
            let schedule = Schedule {
                at_most,
                ..flat_out(frames)
            };
            send(&mut sender, &cached_frames(), schedule)
        };
        assert_eq!(left(1000, Duration::from_millis(100)).streams, [0; 3]);
        let mut receiver = super::receiver(to, &[]).expect("a receiver");
        receiver.expect(&expected(NONCE, false)).expect("no plan");
        assert_eq!(left(300, DEADLINE).streams, [100; 3]);
    }
}

/// In a trial the sender does not wait for a peer that is too slow: frames that find the ring full
/// are lost at its input. By hand they wait.
#[test]
fn in_trials_a_full_ring_loses_frames() {
    let load = [LoadPlan::Constant(200_000.0), LoadPlan::FlatOut];
    for (frames, load) in [test_frames(NONCE), cached_frames()].iter().zip(load) {
        for (queues, from_client) in [(1, true), (2, false)] {
            let bed = Bed::new();
            let (server, client) = bed.ports(queues);
            let from = if from_client { &client } else { &server };
            let mut sender = sender(std::slice::from_ref(from), &[]);
            let mut trial = |stall_policy| {
                let schedule = Schedule {
                    load: load.clone(),
                    stall_policy,
                    at_most: Duration::from_millis(200),
                    ..flat_out(5000)
                };
                send(&mut sender, frames, schedule)
            };
            let waits = trial(StallPolicy::CatchUp { most_pps: None });
            assert_eq!((waits.sent, from.status().tx_dropped), (vec![0], 0));
            // the first frames after a stall are not sent
            let counts = trial(StallPolicy::Skip);
            let dropped = from.status().tx_dropped;
            assert!(counts.sent[0] == dropped && dropped > 0, "{counts:?}");
            assert_eq!(
                (from.status().tx_packets, counts.streams.iter().sum()),
                match counts.streams.len() {
                    0 => (0, 0),
                    _ => (0, dropped),
                }
            );
            assert!(counts.ring_full >= dropped);
        }
    }
}

/// What a receiver did not get in a trial was dropped at its full ring.
#[test]
fn a_receiver_gets_what_was_not_dropped() {
    let bed = Bed::new();
    let (server, client) = bed.ports(1);
    let mut receiver = receiver(&server, &[]).expect("a receiver");
    receiver.expect(&expected(NONCE, false)).expect("no plan");
    let mut sender = sender(std::slice::from_ref(&client), &[]);
    let schedule = Schedule {
        stall_policy: StallPolicy::Skip,
        ..flat_out(100_000)
    };
    let counts = send(&mut sender, &test_frames(NONCE), schedule);
    let status = client.status();
    assert_eq!(counts.sent[0] + counts.not_sent, 100_000);
    assert_eq!(counts.sent[0], status.tx_packets + status.tx_dropped);
    until("frames are missing", || {
        received(&mut receiver).received == status.tx_packets
    });
    // with a ring of 64, every look at frames may be one at a full ring
    assert!(server.status().rx_full > 0);
}

/// A peer that restarts during a trial: sending continues, and exactly the frames that it read
/// were sent; those in the rings were not.
#[test]
fn a_peer_may_restart_during_a_trial() {
    for (own, other) in [(Role::Client, Role::Server), (Role::Server, Role::Client)] {
        let bed = Bed::new();
        let port = Port::open(&bed.options(own)).expect("a port");
        let mut sender = sender(std::slice::from_ref(&port), &[]);
        sender
            .arm(&test_frames(NONCE))
            .expect("room for the frames");
        let mut read = 0;
        for start in 1..=3 {
            let peer = Port::open(&bed.options(other)).expect("a port");
            peer.wait_for_peer(DEADLINE).expect("a peer");
            if start == 1 {
                let schedule = Schedule {
                    frames: None,
                    ..flat_out(0)
                };
                sender.start(schedule).expect("a thread");
            }
            let mut half = Half::<Incoming>::new(&peer);
            let before = read;
            until("no frames", || {
                half.renew();
                for ring in &mut half.rings {
                    ring.poll().expect("our own peer");
                    read += ring.frames(|frame| assert_eq!(frame.len(), 60)) as u64;
                }
                read > before + 1000
            });
            // what is in the ring now is lost with this peer
            until("the ring is not full", || {
                half.rings[0].poll().expect("our own peer") == 64
            });
            peer.close();
            until("the port did not notice", || port.status().peer.is_none());
        }
        until("the sender did not notice", || {
            port.status().lost_in_rings == 3 * 64
        });
        let counts = sender.stop().expect("a sender that did not fail");
        assert_eq!((counts.sent, counts.not_sent), (vec![read], 3 * 64));
        assert_eq!(port.status().connections, 3);
    }
}

/// Frames that a peer sent before it left are received, and then those of its successor.
#[test]
fn frames_of_a_peer_that_left_are_received() {
    for (own, other) in [(Role::Client, Role::Server), (Role::Server, Role::Client)] {
        let bed = Bed::new();
        let port = Port::open(&bed.options(own)).expect("a port");
        let expected_frames = 3 * 64;
        for start in 1..=3 {
            let peer = Port::open(&bed.options(other)).expect("a port");
            peer.wait_for_peer(DEADLINE).expect("a peer");
            let mut receiver = receiver(&port, &[]).expect("a receiver");
            receiver.expect(&expected(NONCE, false)).expect("no plan");
            let mut sender = sender(std::slice::from_ref(&peer), &[]);
            let counts = send(&mut sender, &test_frames(NONCE), flat_out(expected_frames));
            assert_eq!(counts.sent, [expected_frames]);
            peer.close();
            until("frames are missing", || {
                received(&mut receiver).received == expected_frames
            });
            until("the port did not notice", || {
                port.status().peer.is_none() && port.status().connections == start
            });
        }
    }
}

/// Frames without a proper description count as foreign.
#[test]
fn malformed_frames_are_foreign() {
    let bed = Bed::new();
    let (server, client) = bed.ports(1);
    let mut receiver = receiver(&server, &[]).expect("a receiver");
    receiver.expect(&expected(NONCE, false)).expect("no plan");
    let mut half = Half::<Outgoing>::new(&client);
    half.renew();
    let sender = &mut half.rings[0];
    for number in 0..6 {
        sender.next().expect("room");
        sender.filled(Slot {
            bytes: 60,
            stream: 0,
            kind: None,
        });
        if number % 3 == 0 {
            sender.spoil();
        }
    }
    sender.publish();
    until("frames are missing", || {
        received(&mut receiver).foreign == 6
    });
}

/// A peer that breaks the protocol is cut off, with the reason, and may come again.
#[test]
fn a_peer_that_breaks_the_protocol_is_cut_off() {
    let bed = Bed::new();
    let server = Port::open(&bed.options(Role::Server)).expect("a port");
    let mut receiver = receiver(&server, &[]).expect("a receiver");
    receiver.expect(&expected(NONCE, false)).expect("no plan");
    for start in 1..=2 {
        let client = Port::open(&bed.options(Role::Client)).expect("a port");
        client.wait_for_peer(DEADLINE).expect("a peer");
        let mut half = Half::<Outgoing>::new(&client);
        half.renew();
        half.rings[0].set_position(1000);
        until("it was not cut off", || {
            let problem = server.status().problem.unwrap_or_default();
            problem.contains("it moved the head of a ring of 64 from 0 to 1000")
        });
        until("it does not know why", || {
            let problem = client.status().problem.unwrap_or_default();
            problem.contains("the peer disconnected: it moved the head")
        });
        assert!(server.status().connections >= start);
    }
}

#[test]
fn a_port_has_one_peer_and_says_why_there_is_none() {
    let bed = Bed::new();
    let lonely = Port::open(&bed.options(Role::Client)).expect("a port");
    let error = lonely
        .wait_for_peer(Duration::from_millis(200))
        .expect_err("no server");
    let error = error.to_string();
    assert!(
        error.contains("no server is connected to interface 0"),
        "{error}"
    );
    assert!(error.contains("No such file"), "{error}");
    // it keeps trying
    let server = Port::open(&bed.options(Role::Server)).expect("a port");
    lonely.wait_for_peer(DEADLINE).expect("a peer");
    server.wait_for_peer(DEADLINE).expect("a peer");
    let second = Port::open(&bed.options(Role::Client)).expect("a port");
    until("the second client is not turned away", || {
        let problem = second.status().problem;
        problem.is_some_and(|reason| reason.contains("already connected"))
    });
    assert_eq!(server.status().connections, 1);
    // its turn comes once the first has gone
    drop(lonely);
    second.wait_for_peer(DEADLINE).expect("a peer");
    second.close();
    for (other, reason) in [
        (
            Options {
                id: 5,
                ..bed.options(Role::Client)
            },
            "no interface 5",
        ),
        (
            Options {
                secret: "x".into(),
                ..bed.options(Role::Client)
            },
            "wrong secret",
        ),
    ] {
        let third = Port::open(&other).expect("a port");
        until(reason, || {
            third
                .status()
                .problem
                .is_some_and(|problem| problem.contains(reason))
        });
        assert!(third.status().peer.is_none());
    }
}

#[test]
fn a_dead_server_is_replaced_and_a_living_one_is_not() {
    let bed = Bed::new();
    let options = bed.options(Role::Server);
    let server = Port::open(&options).expect("a port");
    let error = Port::open(&options).expect_err("it lives").to_string();
    assert!(
        error.contains("another program listens for memif clients there; end it"),
        "{error}"
    );
    drop(server);
    assert!(!options.socket.exists(), "its socket is left behind");
    // a file without a listener, as after a crash
    let dead = std::os::unix::net::UnixDatagram::bind(&options.socket).expect("a socket");
    drop(dead);
    assert!(options.socket.exists());
    Port::open(&options).expect("the file is replaced");
    for wrong in [
        Options {
            queues: 0,
            ..options.clone()
        },
        Options {
            queues: 17,
            ..options.clone()
        },
        Options {
            ring_log2: 15,
            ..options.clone()
        },
        Options {
            buffer_bytes: 100,
            ..options.clone()
        },
        Options {
            buffer_bytes: 0,
            ..options.clone()
        },
        Options {
            secret: "x".repeat(25),
            ..options.clone()
        },
    ] {
        assert!(Port::open(&wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn frames_that_do_not_fit_are_refused_before_they_are_sent() {
    let bed = Bed::new();
    let client = Port::open(&Options {
        buffer_bytes: 192,
        ..bed.options(Role::Client)
    });
    let client = client.expect("a port");
    let mut sender = sender(&[client], &[]);
    let error = sender
        .arm(&cached_frames())
        .expect_err("200 bytes")
        .to_string();
    assert!(
        error.contains("200 bytes without FCS do not fit"),
        "{error}"
    );
}
