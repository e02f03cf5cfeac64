//! A ring of DPDK, which returns every frame to its own port: the same buffer, from queue to queue.
//!
//! Start with [`every_frame_comes_back_in_order`].

use std::thread;
use std::time::Duration;

use fwdlab_dpdk::{receiver, sender};
use fwdlab_engine::{LoadPlan, Schedule, StallPolicy};

use super::*;

/// One and two senders, at full speed: more frames than there are buffers, and numbers that no
/// burst divides. The second trial has the buffers of the first.
#[test]
fn every_frame_comes_back_in_order() {
    for senders in [1, 2] {
        let port = port("net_ring", &format!(",queues={senders}"));
        let opened = sender(std::slice::from_ref(&port), &[], senders);
        let mut sender = match opened {
            Ok(sender) => sender,
            Err(error) if senders > 1 && error.to_string().contains("1 queues") => {
                println!("SKIPPED: every_frame_comes_back_in_order: two senders need two CPUs");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let mut receiver = receiver(&port, &[]).unwrap();
        for (size, frames) in [(64, 50_001), (1518, 20_003)] {
            let frames_of_trial = test_frames(size);
            let counts = trial(
                &mut *sender,
                &mut *receiver,
                &frames_of_trial,
                flat_out(frames),
            );
            assert_eq!((counts.total(), counts.not_sent), (frames, 0));
        }
        let facts = facts(&port);
        assert_eq!(facts.driver, "net_ring");
        assert_eq!(
            (facts.sent, facts.received, facts.missed),
            (70_004, 70_004, 0)
        );
        assert!(
            facts.has_link && facts.queues.1 >= senders as u16,
            "{facts:?}"
        );
    }
}

/// Frames of several sizes and kinds in the same buffers, counted by stream; those that repeat,
/// too.
#[test]
fn streams_of_several_sizes_are_counted() {
    let port = port("net_ring", "");
    let mut sender = sender(std::slice::from_ref(&port), &[], 1).unwrap();
    let mut receiver = receiver(&port, &[]).unwrap();
    let counts = trial(&mut *sender, &mut *receiver, &mix(true), flat_out(30_000));
    assert_eq!((counts.total(), counts.not_sent), (30_000, 0));
    assert_eq!(counts.streams, [20_000, 10_000]);
    // without a signature they are foreign
    let same = mix(false);
    for load in [LoadPlan::FlatOut, LoadPlan::Constant(100_000.0)] {
        expect(&mut *receiver, &same, 1);
        let schedule = Schedule {
            load,
            ..flat_out(9000)
        };
        let counts = send(&mut *sender, &same, schedule);
        let received = arrived(&mut *receiver, counts.total());
        assert_eq!((counts.total(), received.foreign), (9000, 9000));
        assert_eq!(counts.streams.iter().sum::<u64>(), 9000);
        if counts.not_sent == 0 {
            assert_eq!(counts.streams, [6000, 3000]);
        }
    }
}

/// Due frames are sent or counted as not sent; a trial that is stopped has sent what it counts.
#[test]
fn a_load_has_its_rate_and_a_trial_may_be_stopped() {
    let port = port("net_ring", "");
    let mut sender = sender(std::slice::from_ref(&port), &[], 1).unwrap();
    let mut receiver = receiver(&port, &[]).unwrap();
    let schedule = Schedule {
        load: LoadPlan::Constant(10_000.0),
        frames: None,
        at_most: Duration::from_millis(300),
        stall_policy: StallPolicy::Skip,
        path: 0,
    };
    let counts = trial(
        &mut *sender,
        &mut *receiver,
        &test_frames(64),
        schedule.clone(),
    );
    assert_eq!(counts.total() + counts.not_sent, 3000, "{counts:?}");
    let frames = test_frames(64);
    expect(&mut *receiver, &frames, 1);
    sender.arm(&frames).unwrap();
    let endless = Schedule {
        at_most: DEADLINE,
        ..schedule
    };
    sender.start(endless).unwrap();
    until("nothing arrives", || {
        receiver.counts().unwrap().received > 100
    });
    let counts = sender.stop().unwrap();
    arrived(&mut *receiver, counts.total());
    thread::sleep(Duration::from_millis(20));
    arrived(&mut *receiver, counts.total());
}

/// A queue has 4095 buffers, and a sender holds up to 64 of them between two trials.
#[test]
fn senders_give_their_buffers_back() {
    let port = port("net_ring", "");
    let mut receiver = receiver(&port, &[]).unwrap();
    for _ in 0..80 {
        let mut sender = sender(std::slice::from_ref(&port), &[], 1).unwrap();
        let counts = trial(&mut *sender, &mut *receiver, &test_frames(64), flat_out(10));
        assert_eq!(counts.total(), 10);
    }
}

/// Its device is given back with its last user, and is as new then.
#[test]
fn a_port_can_be_opened_again() {
    let port = port("net_ring", "");
    for _ in 0..3 {
        let mut first = sender(std::slice::from_ref(&port), &[], 1).unwrap();
        let counts = send(&mut *first, &test_frames(64), flat_out(100));
        assert_eq!(counts.total(), 100);
        // the frames in the ring are of an earlier trial, and of another sender
        drop(first);
        assert_eq!(facts(&port).sent, 0);
        let mut sender = sender(std::slice::from_ref(&port), &[], 1).unwrap();
        let mut receiver = receiver(&port, &[]).unwrap();
        trial(
            &mut *sender,
            &mut *receiver,
            &test_frames(64),
            flat_out(5000),
        );
    }
}
