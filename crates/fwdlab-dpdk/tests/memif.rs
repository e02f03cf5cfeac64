//! DPDK's memif against the engine's own, which is written in Rust: two independent ends of one
//! connection, in one process.
//!
//! Start with [`all_frames_arrive_in_both_directions`].

use std::path::PathBuf;

use fwdlab_dpdk::{receiver, sender};
use fwdlab_engine::{Counting, Mode, PathSpec, open_receiver, open_sender};

use super::*;

/// A folder for a socket, removed when dropped.
struct Socket(PathBuf);

impl Socket {
    fn new() -> Socket {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = format!("fwdlab-dpdk-memif-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Socket(folder)
    }

    /// DPDK's end and ours.
    fn ports(&self, dpdk_is_client: bool, ring_log2: u32) -> (PortSpec, PortSpec) {
        let (its, our) = match dpdk_is_client {
            true => ("client", "server"),
            false => ("server", "client"),
        };
        let socket = self.0.join("socket");
        let socket = socket.display();
        let dpdk = port(
            "net_memif",
            &format!(
                ",role={its},id=0,socket={socket},socket-abstract=no,rsize={ring_log2},queues=2"
            ),
        );
        let ring = 1 << ring_log2;
        let ours = PortSpec {
            netns: None,
            interface: format!("memif:{socket},role={our},queues=2,ring={ring}"),
        };
        (dpdk, ours)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Keeps the port of a sender open until the process ends. DPDK 22.11's driver crashes at times if
/// a port is closed while it is connected, in its interrupt thread.
fn keep_open(sender: Box<dyn Sender>) {
    std::mem::forget(sender);
}

fn path(port: &PortSpec) -> PathSpec {
    PathSpec {
        tx: port.clone(),
        rx: port.clone(),
    }
}

#[test]
fn all_frames_arrive_in_both_directions() {
    for dpdk_is_client in [true, false] {
        let socket = Socket::new();
        let (dpdk, ours) = socket.ports(dpdk_is_client, 10);
        // a server first, so that its client finds it
        let mut our_receiver = open_receiver(Counting::Memif, &ours).unwrap();
        let mut its_receiver = receiver(&dpdk, &[]).unwrap();
        let mut its_sender = sender(std::slice::from_ref(&dpdk), &[], 1).unwrap();
        let mut our_sender = open_sender(Mode::Memif, &[path(&ours)], &[], 1).unwrap();
        let counts = trial(
            &mut *its_sender,
            &mut *our_receiver,
            &test_frames(64),
            flat_out(30_000),
        );
        assert_eq!((counts.total(), counts.not_sent), (30_000, 0));
        let counts = trial(
            &mut *its_sender,
            &mut *our_receiver,
            &mix(true),
            flat_out(9000),
        );
        assert_eq!(counts.streams, [6000, 3000]);
        // several queues carry its flows, each in order
        let frames = test_frames(64);
        expect(&mut *its_receiver, &frames, 1);
        let counts = send(&mut *our_sender, &frames, flat_out(30_000));
        assert_eq!((counts.total(), counts.not_sent), (30_000, 0));
        assert_eq!(arrived(&mut *its_receiver, 30_000).received, 30_000);
        let analysis = its_receiver.analysis().unwrap().unwrap();
        let stream = &analysis.streams[0];
        assert_eq!(
            (stream.delivered(), stream.corrupt, stream.early),
            (30_000, 0, 0)
        );
        keep_open(its_sender);
    }
}

/// A peer that does not read: what the ring holds was sent, and the frames that wait for room are
/// not. A reader that comes later finds exactly those that count as sent.
#[test]
fn frames_that_the_driver_does_not_take_are_not_sent() {
    let socket = Socket::new();
    let (dpdk, ours) = socket.ports(true, 6);
    let mut our_receiver = open_receiver(Counting::Memif, &ours).unwrap();
    let mut sender = sender(std::slice::from_ref(&dpdk), &[], 1).unwrap();
    let frames = test_frames(64);
    sender.arm(&frames).unwrap();
    sender.start(flat_out(1000)).unwrap();
    until("the ring is not full", || {
        sender.counts().unwrap().ring_full > 0
    });
    let counts = sender.stop().unwrap();
    assert!((1..1000).contains(&counts.total()), "{counts:?}");
    assert!((1..=64).contains(&counts.not_sent), "{counts:?}");
    expect(&mut *our_receiver, &frames, 1);
    assert_eq!(arrived(&mut *our_receiver, counts.total()).foreign, 0);
    // and those that waited are not sent later
    let again = trial(
        &mut *sender,
        &mut *our_receiver,
        &test_frames(64),
        flat_out(500),
    );
    assert_eq!((again.total(), again.not_sent), (500, 0));
    keep_open(sender);
}
