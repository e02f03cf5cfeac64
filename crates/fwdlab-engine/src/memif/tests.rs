//! Tests of memif between our own two ends, and against a peer that writes anything anywhere.
//!
//! `tests/memif.rs` has those against DPDK. Start with [`every_frame_is_received_left_or_refused`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::control::{self, Control, Failure, Layout, Link, event, pair};
use super::message::{AddRing, BYTES, Hello, Init, Message, VERSION};
use super::ring::{Incoming, MAX_FRAME_BYTES, Outgoing};
use super::sys::{Descriptor, Region, RingMemory};
use super::*;
use crate::testing::chance::chance;
use crate::traffic::player::{Room, Slot};

fn layout(queues: usize, log2_size: u8) -> Layout {
    Layout {
        s2m: queues,
        m2s: queues,
        log2_size,
        buffer_bytes: 256,
    }
}

/// Sends a frame, if there is room.
fn push(ring: &mut Outgoing, frame: &[u8], stream: u32) -> bool {
    let Some((buffer, _)) = ring.next() else {
        return false;
    };
    buffer[..frame.len()].copy_from_slice(frame);
    ring.filled(Slot {
        bytes: frame.len() as u32,
        stream,
        kind: None,
    });
    true
}

/// Receives all frames that are there.
fn pull(ring: &mut Incoming) -> Vec<Vec<u8>> {
    let mut frames = vec![];
    while ring.poll().expect("our own peer") > 0 {
        ring.frames(|frame| frames.push(frame.to_vec()));
    }
    frames
}

/// In both directions: random bursts of frames of random lengths and bytes, read in random
/// portions, around the ends of rings and positions many times.
#[test]
fn every_frame_is_received_left_or_refused() {
    for (queues, log2_size) in [(1, 3), (2, 2), (4, 0), (1, 10)] {
        let (client, server, _) = pair(layout(queues, log2_size));
        let directions = [
            (client.outgoing, server.incoming, 256),
            (server.outgoing, client.incoming, 256),
        ];
        for (outgoing, incoming, longest) in directions {
            assert_eq!((outgoing.len(), incoming.len()), (queues, queues));
            for (mut sender, mut receiver) in outgoing.into_iter().zip(incoming) {
                // positions of 16 bits wrap within the first number
                let total = if log2_size == 3 { 70_000 } else { 4000 };
                conserve(&mut sender, &mut receiver, longest, 1 << log2_size, total);
            }
        }
    }
}

fn conserve(sender: &mut Outgoing, receiver: &mut Incoming, longest: u64, size: u64, total: u64) {
    let mut random = chance(0x5eed + size);
    let (mut sent, mut full, mut received, mut read) = (0_u64, 0, 0_u64, 0_u64);
    let mut in_ring = VecDeque::new();
    while sent < total {
        let in_order = |stream: u32| {
            assert_eq!(u64::from(stream), read % 1000);
            read += 1;
        };
        sender.poll(in_order).expect("our own peer");
        assert_eq!(u64::from(sender.left()), in_ring.len() as u64);
        let published = in_ring.len();
        for _ in 0..=random(size.min(40) * 2) {
            let mut frame = vec![random(256) as u8; 1 + random(longest) as usize];
            let last = frame.len() - 1;
            (frame[0], frame[last]) = (sent as u8, (sent >> 8) as u8);
            let is_full = in_ring.len() as u64 == size;
            if !push(sender, &frame, (sent % 1000) as u32) {
                assert!(is_full && sender.is_full() || !sender.has_room());
                full += u64::from(is_full);
                break;
            }
            assert!(!is_full);
            in_ring.push_back(frame);
            sent += 1;
        }
        let visible = receiver.poll().expect("our own peer");
        assert_eq!(
            usize::from(visible),
            published,
            "seen before it was published"
        );
        sender.publish();
        if random(3) > 0 {
            let available = receiver.poll().expect("our own peer");
            assert_eq!(usize::from(available), in_ring.len());
            received += receiver.frames(|frame| {
                assert_eq!(in_ring.pop_front().as_deref(), Some(frame));
            }) as u64;
        }
        assert_eq!(sent, received + in_ring.len() as u64);
    }
    assert!(full > 0 || size > 100, "the ring was never full");
    sender.poll(|_| read += 1).expect("our own peer");
    assert_eq!(u64::from(sender.left()), in_ring.len() as u64);
    assert_eq!((sender.placed(), sender.refused()), (sent, 0));
    assert_eq!((read, receiver.malformed()), (received, 0));
}

/// A buffer is offered again with the frame that it had, and with its description.
#[test]
fn our_own_buffers_keep_their_frames() {
    let (mut client, mut server, _) = pair(layout(1, 2));
    let (sender, receiver) = (&mut client.outgoing[0], &mut server.incoming[0]);
    for number in 0..12 {
        sender.poll(|_| {}).expect("our own peer");
        let (buffer, held) = sender.next().expect("room");
        let fresh = number < 4;
        assert_eq!(held.kind, (!fresh).then_some(number % 4));
        assert_eq!(
            buffer[..2],
            if fresh {
                [0, 0]
            } else {
                [number as u8 % 4, 77]
            }
        );
        buffer[..2].copy_from_slice(&[number as u8 % 4, 77]);
        sender.filled(Slot {
            bytes: 2,
            stream: 0,
            kind: Some(number % 4),
        });
        sender.publish();
        assert_eq!(pull(receiver), [[number as u8 % 4, 77]]);
    }
    sender.poll(|_| {}).expect("our own peer");
    sender.forget();
    assert_eq!(sender.next().expect("room").1, Slot::EMPTY);
}

/// A cached frame is written once for each buffer, and again after other frames were there.
#[test]
fn a_cached_frame_is_written_only_where_another_was() {
    let (mut client, mut server, other) = pair(layout(1, 1));
    let (sender, receiver) = (&mut client.outgoing[0], &mut server.incoming[0]);
    let cached = |kind| Slot {
        bytes: 3,
        stream: 0,
        kind: Some(kind),
    };
    let mut turn = |bytes: &[u8; 3], kind| {
        sender.poll(|_| {}).expect("our own peer");
        sender.put(bytes, cached(kind));
        sender.publish();
        pull(receiver).concat()
    };
    assert_eq!(
        (turn(b"one", 1), turn(b"two", 2)),
        (b"one".into(), b"two".into())
    );
    // if it were written again, this would be lost
    let buffers = layout(1, 1).client_buffers();
    assert!(other.copy_in(buffers, b"ONE"));
    assert_eq!(
        (turn(b"one", 1), turn(b"six", 6)),
        (b"ONE".into(), b"six".into())
    );
    assert_eq!(
        (turn(b"ten", 10), turn(b"six", 6)),
        (b"ten".into(), b"six".into())
    );
}

/// Frames of an earlier trial that are read in this one belong to no stream.
#[test]
fn disowned_frames_are_reported_to_nobody() {
    let (mut client, mut server, _) = pair(layout(1, 3));
    let (sender, receiver) = (&mut client.outgoing[0], &mut server.incoming[0]);
    assert!(push(sender, b"old", 9));
    sender.publish();
    sender.disown();
    assert!(push(sender, b"new", 1));
    sender.publish();
    assert_eq!(pull(receiver), [b"old", b"new"]);
    let mut streams = vec![];
    sender
        .poll(|stream| streams.push(stream))
        .expect("our own peer");
    assert_eq!(streams, [1]);
}

/// A client with long frames splits them; one that breaks off a frame, or whose frame is longer
/// than we take, loses it and nothing else.
#[test]
fn frames_in_several_buffers_are_joined() {
    let (client, mut server, other) = pair(layout(1, 9));
    let receiver = &mut server.incoming[0];
    let ring = raw_ring(&Arc::new(other), 0, 9);
    let part = |flags, offset, length| Descriptor {
        flags,
        region: 0,
        length,
        offset,
    };
    let buffers = layout(1, 9).client_buffers();
    let mut head = 0_u16;
    let mut write = |parts: &[Descriptor]| {
        for part in parts {
            ring.set_descriptor(head, *part);
            head += 1;
        }
        ring.set_head(head);
    };
    drop(client.outgoing);
    let mut frames = vec![];
    let long = 60_000_u32;
    for (parts, malformed) in [
        (
            vec![
                part(1, buffers, 100),
                part(1, buffers, 0),
                part(0, buffers + 100, 28),
            ],
            0,
        ),
        (vec![part(1, buffers, 100)], 1),
        (vec![part(0, buffers, 64)], 1),
        (vec![part(1, buffers, long), part(0, buffers, 1)], 2),
        (vec![part(1, buffers, 10_000), part(0, buffers, 10_000)], 3),
        (vec![part(0, buffers, u32::MAX)], 4),
        (vec![part(0, u32::MAX, 64)], 5),
        (
            vec![Descriptor {
                region: 1,
                ..part(0, buffers, 64)
            }],
            6,
        ),
        (vec![part(0xfffe, buffers, 65)], 6),
    ] {
        write(&parts);
        receiver.poll().expect("positions are right");
        receiver.frames(|frame| frames.push(frame.len()));
        assert_eq!(receiver.malformed(), malformed, "{parts:?}");
    }
    assert_eq!(frames, [128, 64, 65]);
}

/// Returns a ring of the client as the peer sees it.
fn raw_ring(region: &Arc<Region>, number: usize, log2_size: u8) -> RingMemory {
    let offset = layout(1, log2_size).ring_offset(number);
    RingMemory::new(region, offset, log2_size).expect("a ring")
}

/// A server that gets a buffer that is too short, or one that is nowhere.
#[test]
fn buffers_of_the_peer_are_checked_before_they_are_written() {
    let (client, mut server, other) = pair(layout(1, 2));
    let ring = raw_ring(&Arc::new(other), 1, 2);
    let sender = &mut server.outgoing[0];
    sender.poll(|_| {}).expect("our own peer");
    let good = ring.descriptor(0);
    ring.set_descriptor(0, Descriptor { length: 10, ..good });
    assert!(push(sender, &[7; 11], 0), "taken, and refused");
    assert!(push(sender, &[8; 10], 0));
    sender.publish();
    assert_eq!(
        (sender.placed(), sender.refused(), sender.left()),
        (1, 1, 1)
    );
    assert_eq!(ring.tail(), 1);
    drop(client);
    for bad in [
        Descriptor { region: 1, ..good },
        Descriptor {
            region: u16::MAX,
            ..good
        },
        Descriptor {
            offset: u32::MAX,
            ..good
        },
        Descriptor {
            offset: 1 << 30,
            length: u32::MAX,
            ..good
        },
    ] {
        let (_client, mut server, other) = pair(layout(1, 2));
        let ring = raw_ring(&Arc::new(other), 1, 2);
        ring.set_descriptor(0, bad);
        let sender = &mut server.outgoing[0];
        sender.poll(|_| {}).expect("positions are right");
        assert!(push(sender, &[7; 64], 0));
        assert!(!push(sender, &[7; 64], 0), "nothing after a fault");
        sender.publish();
        assert_eq!((sender.placed(), sender.refused(), ring.tail()), (0, 1, 0));
        let fault = sender.poll(|_| {}).expect_err("a fault").to_string();
        assert!(fault.contains("not there"), "{fault}");
    }
}

/// A server that writes a wrong description of our own buffer: its length counts, and is checked.
#[test]
fn our_own_buffers_are_where_we_put_them() {
    let (mut client, _server, other) = pair(layout(1, 2));
    let ring = raw_ring(&Arc::new(other), 1, 2);
    let good = ring.descriptor(0);
    for (position, length) in [(0, 256), (1, 257), (2, u32::MAX), (3, 0)] {
        let wrong = Descriptor {
            flags: 0,
            region: 9,
            length,
            offset: u32::MAX,
        };
        ring.set_descriptor(position, wrong);
    }
    ring.set_tail(4);
    let receiver = &mut client.incoming[0];
    assert_eq!(receiver.poll(), Ok(4));
    let mut lengths = vec![];
    assert_eq!(receiver.frames(|frame| lengths.push(frame.len())), 4);
    assert_eq!((lengths, receiver.malformed()), (vec![256, 0], 2));
    // and they are offered as before
    assert_eq!((ring.descriptor(4), ring.head()), (good, 8));
}

/// Only a peer that waits for events gets one.
#[test]
fn a_peer_that_polls_is_not_woken() {
    let (mut client, mut server, other) = pair(layout(1, 4));
    let region = Arc::new(other);
    server.outgoing[0].poll(|_| {}).expect("our own peer");
    for (sender, ring) in [(&mut client.outgoing[0], 0), (&mut server.outgoing[0], 1)] {
        let ring = raw_ring(&region, ring, 4);
        assert_eq!(ring.flags(), 1, "receivers mask interrupts");
        assert!(push(sender, b"x", 0) && !sender.publish());
        ring.set_flags(0);
        assert!(!sender.publish(), "there is nothing new");
        assert!(push(sender, b"x", 0) && sender.publish());
        assert_eq!(sender.events(), 1);
    }
}

/// A client's event counter that would block a writer does not block us.
#[test]
fn events_never_block() {
    let (reader, event) = rustix::pipe::pipe().expect("a pipe");
    let begin = (Message::Init(init()), None);
    let layout = layout(1, 4);
    let (client, _, _) = pair(layout);
    let region = Region::create(65_536).expect("memory");
    let ring = AddRing {
        from_client: false,
        ..add_ring()
    };
    let file = region.file().try_clone_to_owned().expect("a file");
    let region = Arc::new(region);
    let memory = RingMemory::new(&region, 0, 4).expect("a ring");
    memory.clear();
    memory.set_head(16);
    (0..16).for_each(|position| {
        let offset = 4096 + u32::from(position) * 64;
        let buffer = Descriptor {
            length: 64,
            offset,
            ..Descriptor::default()
        };
        memory.set_descriptor(position, buffer);
    });
    drop(client);
    let link = talk(vec![
        begin,
        (
            Message::AddRegion {
                index: 0,
                size: 65_536,
            },
            Some(file),
        ),
        (Message::AddRing(ring), Some(event)),
        (Message::Connect { name: "c".into() }, None),
    ]);
    let mut link = link.unwrap_or_else(|failure| panic!("{failure}"));
    let sender = &mut link.outgoing[0];
    // a pipe holds 64 KiB: 8192 events
    for number in 0..9000_u16 {
        sender.poll(|_| {}).expect("positions are right");
        assert!(push(sender, b"x", 0) && sender.publish());
        memory.set_head(number.wrapping_add(17));
    }
    drop(reader);
}

/// Positions may move forward, by no more than what is in the ring.
#[test]
fn positions_that_no_peer_can_have_are_faults() {
    for wrong in [2, 5, 100, 0x7fff, 0xffff] {
        let (mut client, mut server, other) = pair(layout(1, 2));
        let region = Arc::new(other);
        let (s2m, m2s) = (raw_ring(&region, 0, 2), raw_ring(&region, 1, 2));
        // the client has one frame in the ring, the server read none
        assert!(push(&mut client.outgoing[0], b"x", 0));
        client.outgoing[0].publish();
        s2m.set_tail(wrong);
        assert!(client.outgoing[0].poll(|_| {}).is_err(), "{wrong}");
        assert!(client.outgoing[0].poll(|_| {}).is_err(), "a fault stays");
        m2s.set_tail(if wrong == 2 { 5 } else { wrong });
        assert!(client.incoming[0].poll().is_err(), "{wrong}");
        s2m.set_head(if wrong == 2 { 5 } else { wrong });
        assert!(server.incoming[0].poll().is_err(), "{wrong}");
        m2s.set_head(if wrong == 2 { 5 } else { wrong });
        assert!(server.outgoing[0].poll(|_| {}).is_err(), "{wrong}");
    }
}

/// Uses one end of a connection as senders and receivers do, for a number of rounds.
fn use_end(link: &mut Link, rounds: usize) {
    for _ in 0..rounds {
        for ring in &mut link.outgoing {
            let _ = ring.poll(|stream| assert_eq!(stream, 5));
            while push(ring, &[0xaa; 60], 5) {}
            ring.publish();
            assert!(ring.left() <= 16 && ring.placed() >= u64::from(ring.left()));
        }
        for ring in &mut link.incoming {
            let Ok(available) = ring.poll() else {
                continue;
            };
            assert!(available <= 16);
            let frames = ring.frames(|frame| assert!(frame.len() <= MAX_FRAME_BYTES));
            assert!(frames <= usize::from(available));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The peer writes any bytes anywhere, between any two calls.
    #[test]
    fn a_peer_may_write_anything_into_shared_memory(
        writes in prop::collection::vec((any::<u16>(), any::<u64>(), 0_u8..4), 1..200),
    ) {
        let (mut client, mut server, other) = pair(layout(2, 4));
        let rings = other.length() as u32 / 16;
        for (at, value, kind) in writes {
            let value = value.to_ne_bytes();
            // mostly into the rings, and there also single positions, which keep the others right
            let (at, bytes) = match kind {
                0 => (u32::from(at) % other.length() as u32, &value[..]),
                1 => (u32::from(at) % rings, &value[..]),
                2 => (u32::from(at) % 4 * layout(2, 4).ring_offset(1) + 6, &value[..2]),
                _ => (u32::from(at) % 4 * layout(2, 4).ring_offset(1) + 64, &value[..1]),
            };
            let _ = other.copy_in(at, bytes);
            use_end(&mut client, 1);
            use_end(&mut server, 1);
        }
    }
}

/// The peer writes while we read.
#[test]
fn a_peer_may_write_at_the_same_time() {
    let (mut client, mut server, other) = pair(layout(2, 4));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = chance(77);
            while !stop.load(Ordering::Relaxed) {
                let at = match random(3) {
                    0 => random(other.length() as u64),
                    _ => random(1024),
                };
                let _ = other.copy_in(at as u32, &random(u64::MAX).to_ne_bytes());
            }
        });
        // a fault ends a connection: begin again and again
        for _ in 0..300 {
            use_end(&mut client, 20);
            use_end(&mut server, 20);
            let layout = layout(2, 4);
            for number in 0..4 {
                let at = layout.ring_offset(number);
                let _ = other.copy_in(at + 6, &[0; 2]);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Two connected control sockets: ours, and the peer's.
fn sockets() -> (Control, OwnedFd) {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("sockets");
    let stop = Arc::new(event().expect("an event"));
    (Control { socket: ours, stop }, theirs)
}

fn peer(socket: OwnedFd) -> Control {
    let stop = Arc::new(event().expect("an event"));
    Control { socket, stop }
}

fn options(role: Role) -> Options {
    Options {
        queues: 2,
        ring_log2: 4,
        ..Options::new("/nowhere", role)
    }
}

#[test]
fn the_two_handshakes_agree() {
    for (client_queues, server_queues, queues) in [(1, 1, 1), (4, 2, 2), (2, 4, 2), (4, 4, 4)] {
        let (client, server) = sockets();
        let server = peer(server);
        let with = |role, queues| Options {
            queues,
            ..options(role)
        };
        let accepting = thread::spawn(move || {
            control::accept(&server, &with(Role::Server, server_queues)).map(|link| (link, server))
        });
        let mut ours =
            control::connect(&client, &with(Role::Client, client_queues)).expect("a link");
        let (mut theirs, _server) = accepting.join().expect("no panic").expect("a link");
        assert!(ours.peer.starts_with("fwdlab ") && theirs.peer == ours.peer);
        for end in [&ours, &theirs] {
            assert_eq!((end.outgoing.len(), end.incoming.len()), (queues, queues));
        }
        for queue in 0..queues {
            let frame = [queue as u8; 60];
            assert!(push(&mut ours.outgoing[queue], &frame, 0));
            ours.outgoing[queue].publish();
            assert_eq!(pull(&mut theirs.incoming[queue]), [frame]);
            theirs.outgoing[queue].poll(|_| {}).expect("our own peer");
            assert!(push(&mut theirs.outgoing[queue], &frame, 0));
            theirs.outgoing[queue].publish();
            assert_eq!(pull(&mut ours.incoming[queue]), [frame]);
        }
    }
}

/// Sends this to a server, hangs up, and returns what the server made of it.
fn talk(messages: Vec<(Message, Option<OwnedFd>)>) -> Result<Link, Failure> {
    let (ours, theirs) = sockets();
    let theirs = peer(theirs);
    for (message, file) in &messages {
        // it fails once the buffer is full
        if theirs
            .send(message, file.as_ref().map(|f| f.as_fd()))
            .is_err()
        {
            break;
        }
    }
    rustix::net::shutdown(&theirs.socket, rustix::net::Shutdown::Write).expect("a socket");
    control::accept(&ours, &options(Role::Server))
}

fn init() -> Init {
    Init {
        version: VERSION,
        id: 0,
        mode: 0,
        secret: [0; 24],
        name: "client".into(),
    }
}

fn hello() -> Hello {
    Hello {
        name: "server".into(),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 0,
        max_m2s_ring: 0,
        max_s2m_ring: 0,
        max_log2_ring_size: 10,
    }
}

fn add_ring() -> AddRing {
    AddRing {
        from_client: true,
        index: 0,
        region: 0,
        offset: 0,
        log2_size: 4,
        private_header_bytes: 0,
    }
}

fn memory() -> OwnedFd {
    let region = Region::create(8192).expect("memory");
    region.file().try_clone_to_owned().expect("a file")
}

/// Every refusal, with its reason.
#[test]
fn what_a_server_refuses() {
    let file = || Some(event().expect("an event"));
    let begin = || (Message::Init(init()), None);
    let region = |index, size| (Message::AddRegion { index, size }, Some(memory()));
    let ring = |ring| (Message::AddRing(ring), file());
    let connect = || (Message::Connect { name: "c".into() }, None);
    let cases = [
        (vec![connect()], "before INIT"),
        (vec![region(0, 8192)], "before INIT"),
        (vec![begin(), begin()], "INIT twice"),
        (
            vec![(
                Message::Init(Init {
                    version: 0x0100,
                    ..init()
                }),
                None,
            )],
            "no version 0x0100",
        ),
        (
            vec![(Message::Init(Init { id: 7, ..init() }), None)],
            "no interface 7",
        ),
        (
            vec![(Message::Init(Init { mode: 1, ..init() }), None)],
            "Ethernet",
        ),
        (
            vec![(
                Message::Init(Init {
                    secret: [1; 24],
                    ..init()
                }),
                None,
            )],
            "wrong secret",
        ),
        (vec![begin(), region(1, 8192)], "added region 1"),
        (vec![begin(), region(0, 8193)], "has 8192"),
        (
            vec![begin(), (Message::AddRegion { index: 0, size: 8 }, None)],
            "without a file",
        ),
        (
            vec![begin(), (Message::AddRegion { index: 0, size: 8 }, file())],
            "not sealed",
        ),
        (
            vec![begin(), (Message::AddRing(add_ring()), None)],
            "without a file",
        ),
        (
            vec![
                begin(),
                ring(AddRing {
                    index: 1,
                    ..add_ring()
                }),
            ],
            "added ring 1",
        ),
        (
            vec![
                begin(),
                ring(AddRing {
                    log2_size: 15,
                    ..add_ring()
                }),
            ],
            "the limit is 2^14",
        ),
        (
            vec![begin(), ring(add_ring()), connect()],
            "region 0 is not inside",
        ),
        (
            vec![begin(), region(0, 8192), ring(add_ring()), connect()],
            "the cookie 0x0",
        ),
        (
            vec![
                begin(),
                region(0, 8192),
                ring(AddRing {
                    offset: 8000,
                    ..add_ring()
                }),
                connect(),
            ],
            "not inside",
        ),
        (vec![begin(), (Message::Ack, None)], "sent ACK to a server"),
        (
            vec![begin(), (Message::Hello(hello()), None)],
            "sent HELLO to a server",
        ),
        (
            vec![
                begin(),
                (
                    Message::Disconnect {
                        code: 3,
                        reason: "tired".into(),
                    },
                    None,
                ),
            ],
            "the peer disconnected: tired (code 3)",
        ),
        (vec![begin()], "closed the socket"),
    ];
    for (messages, reason) in cases {
        let sent = format!("{messages:?}");
        let failure = talk(messages).err().expect(reason).to_string();
        assert!(failure.contains(reason), "{sent}: {failure}");
    }
    let rings = (0..3).map(|index| {
        ring(AddRing {
            index,
            ..add_ring()
        })
    });
    let failure = talk([begin()].into_iter().chain(rings).collect()).err();
    let failure = failure.expect("too many rings").to_string();
    assert!(failure.contains("ring 2 after 2 of at most 2"), "{failure}");
    let regions = (0..17).map(|index| region(index, 8192));
    let failure = talk([begin()].into_iter().chain(regions).collect()).err();
    let failure = failure.expect("too many regions").to_string();
    assert!(
        failure.contains("region 16 after 16 of at most 16"),
        "{failure}"
    );
}

#[test]
fn what_a_client_refuses() {
    let cases = [
        (
            vec![(Message::Ack, None::<OwnedFd>)],
            "ACK instead of HELLO",
        ),
        (
            vec![(
                Message::Hello(Hello {
                    min_version: 0x0201,
                    ..hello()
                }),
                None,
            )],
            "versions 0x0201 to 0x0200",
        ),
        (
            vec![(
                Message::Hello(Hello {
                    max_version: 0x0100,
                    ..hello()
                }),
                None,
            )],
            "versions 0x0200 to 0x0100",
        ),
        (
            vec![
                (Message::Hello(hello()), None),
                (Message::Hello(hello()), None),
            ],
            "instead of ACK",
        ),
        (
            vec![
                (Message::Hello(hello()), None),
                (
                    Message::Disconnect {
                        code: 0,
                        reason: "wrong id".into(),
                    },
                    None,
                ),
            ],
            "wrong id",
        ),
    ];
    for (messages, reason) in cases {
        // INIT must find a socket that is open
        let (ours, theirs) = sockets();
        let theirs = peer(theirs);
        for (message, _) in &messages {
            theirs.send(message, None).expect("room for a few messages");
        }
        let failure = control::connect(&ours, &options(Role::Client));
        let failure = failure.err().expect(reason).to_string();
        assert!(failure.contains(reason), "{failure}");
    }
}

/// As DPDK's server does it: all positions are 0 when it says CONNECTED.
#[test]
fn buffers_are_offered_again_to_a_server_that_resets_the_rings() {
    let (ours, theirs) = sockets();
    let theirs = peer(theirs);
    let server = thread::spawn(move || {
        let next = || loop {
            match theirs.receive() {
                Err(Failure::System(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::yield_now();
                }
                received => return received.expect("a message"),
            }
        };
        let answer = |message| theirs.send(&message, None).expect("a client");
        answer(Message::Hello(hello()));
        let mut region = None;
        loop {
            match next() {
                (Message::AddRegion { size, .. }, file) => {
                    let file = file.expect("its memory");
                    region = Some(Arc::new(Region::adopt(file, size).expect("sealed")));
                }
                (Message::Connect { .. }, _) => break,
                _ => {}
            }
            answer(Message::Ack);
        }
        let ring = raw_ring(&region.expect("a region"), 1, 4);
        assert_eq!(ring.head(), 16);
        ring.set_head(0);
        // and it may send at once
        let first = ring.descriptor(0);
        ring.set_descriptor(0, Descriptor { length: 7, ..first });
        ring.set_tail(1);
        answer(Message::Connected { name: "s".into() });
        ring
    });
    let mut link = control::connect(&ours, &options(Role::Client)).expect("a link");
    let ring = server.join().expect("no panic");
    assert_eq!((ring.head(), ring.tail()), (16, 1));
    assert_eq!(
        (ring.descriptor(0).length, ring.descriptor(15).length),
        (7, 2048)
    );
    assert_eq!(pull(&mut link.incoming[0]), [[0; 7]]);
    assert_eq!(ring.head(), 17);
}

fn message() -> impl Strategy<Value = (Vec<u8>, u8)> {
    let small = || prop_oneof![0_u16..3, any::<u16>()];
    let plausible = prop_oneof![
        Just(Message::Ack),
        Just(Message::Init(init())),
        Just(Message::Hello(hello())),
        Just(Message::Connect { name: "c".into() }),
        Just(Message::Connected { name: "s".into() }),
        (small(), prop_oneof![Just(8192), any::<u64>()])
            .prop_map(|(index, size)| Message::AddRegion { index, size }),
        (any::<bool>(), small(), small(), any::<u32>(), any::<u8>()).prop_map(
            |(from_client, index, region, offset, log2_size)| {
                Message::AddRing(AddRing {
                    from_client,
                    index,
                    region,
                    offset: offset % 9000,
                    log2_size: log2_size % 18,
                    ..add_ring()
                })
            }
        ),
        (small(), small(), small(), any::<u8>()).prop_map(|(max_region, m2s, s2m, log2)| {
            Message::Hello(Hello {
                max_region,
                max_m2s_ring: m2s,
                max_s2m_ring: s2m,
                max_log2_ring_size: log2 % 18,
                ..hello()
            })
        }),
    ]
    .prop_map(|message| message.encode().to_vec());
    let any_bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), BYTES),
        prop::collection::vec(any::<u8>(), 1..200),
    ];
    (prop_oneof![9 => plausible, 1 => any_bytes], 0_u8..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The peer sends any messages, with any files, and hangs up.
    #[test]
    fn a_peer_may_send_any_messages(messages in prop::collection::vec(message(), 0..12), to_server: bool) {
        let (ours, theirs) = sockets();
        let theirs = peer(theirs);
        for (bytes, file) in &messages {
            let file = match file {
                0 => None,
                1 => Some(memory()),
                2 => Some(event().expect("an event")),
                _ => Some(rustix::pipe::pipe().expect("a pipe").0),
            };
            let _ = theirs.send_bytes(bytes, file.as_ref().map(|f| f.as_fd()));
        }
        rustix::net::shutdown(&theirs.socket, rustix::net::Shutdown::Write).expect("a socket");
        let link = match to_server {
            true => control::accept(&ours, &options(Role::Server)),
            false => control::connect(&ours, &options(Role::Client)),
        };
        if let Ok(mut link) = link {
            use_end(&mut link, 3);
        }
    }
}
