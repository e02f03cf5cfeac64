//! Ports driven by hand through the library, as a server would: by the memory engine without root, over a cable of its own with it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::{
    Expected, Frames, HoldUps, LoadPlan, Mode, PortSpec, Schedule, SignaturePlace, TestFrames,
};
use fwdlab_lab::LabError;
use fwdlab_lab::ports::Port;
use fwdlab_lab::run::Control;
use fwdlab_lab::session::{BackToBack, Receiving, Sending, Session, Totals};
use fwdlab_model::link::MeanSize;
use fwdlab_model::procedure::Stretch;
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr};

const PATIENCE: Duration = Duration::from_secs(20);

fn frames(nonce: u16) -> Frames {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        version: IpVersion::V4,
        frame_size: 64,
    });
    Frames::Test(TestFrames {
        template: template.unwrap(),
        flows: FlowSet::default_v4(10).unwrap(),
        nonce,
    })
}

fn schedule(load: LoadPlan, at_most: Duration) -> Schedule {
    Schedule {
        load,
        frames: None,
        at_most,
        hold_ups: HoldUps::MakeUp { most_pps: None },
        path: 0,
    }
}

fn sending(port: Port, mode: Mode, nonce: u16, schedule: Schedule) -> Sending {
    let mean = MeanSize::new(64, 1).unwrap();
    Sending::open(port, &[mode], &[], frames(nonce), schedule, mean).unwrap()
}

fn receiving(port: Port, nonce: u16) -> Receiving {
    let expected = Expected {
        nonce,
        buffer_bytes: Some(60),
        place: SignaturePlace::UdpPayload,
        analysis: None,
    };
    Receiving::open(port, None, expected).unwrap()
}

/// A cable of our own; `None`: not here.
fn cable(test: &str) -> Option<BackToBack> {
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: needs root");
        return None;
    }
    Some(BackToBack::new().unwrap())
}

fn wait(session: &mut Session) {
    let began = Instant::now();
    while !session.is_over().unwrap() {
        assert!(began.elapsed() < PATIENCE, "it does not end");
        thread::sleep(Duration::from_millis(2));
    }
}

fn ramp() -> LoadPlan {
    LoadPlan::over(vec![Stretch {
        duration_ns: 400_000_000,
        from_pps: 0.0,
        to_pps: 20_000.0,
    }])
}

/// What a front end does: start, read, another load, read, stop, and once more.
#[test]
fn a_session_is_steered_and_told_as_values() {
    let port = Port::of_ours(&PortSpec {
        netns: None,
        interface: "lo".into(),
    });
    let port = match port {
        Ok(port) => port,
        Err(error) => return println!("SKIPPED: a_session_is_steered_and_told_as_values: {error}"),
    };
    let load = schedule(LoadPlan::Constant(10_000.0), Duration::from_millis(500));
    let mut session = Session::new(vec![sending(port, Mode::Memory, 1, load)], vec![]);
    let control = Control::default();
    assert!(session.read().is_err(), "it has not begun");
    for _ in 0..2 {
        session.start(&control).unwrap();
        thread::sleep(Duration::from_millis(50));
        let first = session.read().unwrap();
        let sent = &first.sent[0];
        assert!(sent.given > 0 && sent.rate_pps > 0.0, "{first:?}");
        session.set_load(0, 20_000.0).unwrap();
        assert!(session.set_load(1, 1.0).is_err(), "there is one port");
        thread::sleep(Duration::from_millis(50));
        let second = session.read().unwrap();
        assert_eq!(second.sent[0].intended_pps, Some(20_000.0));
        assert!(second.at_s > first.at_s && second.received.is_empty());
        wait(&mut session);
        let Totals { rest, whole } = session.stop(&control).unwrap();
        // where this host was slow, hardly anything is left for it
        let is_all = rest.is_some();
        let parts = [first, second].into_iter().chain(rest);
        let told: u64 = parts.map(|part| part.sent[0].given).sum();
        let all = whole.sent[0].given;
        assert!(told == all || !is_all && told < all, "{told} of {all}");
        assert!(
            whole.sent[0]
                .lateness
                .as_ref()
                .is_some_and(|late| !late.is_empty())
        );
        assert!(session.stop(&control).is_err(), "it has ended");
        session.sending[0].schedule.load = LoadPlan::Constant(10_000.0);
    }
}

/// A load over time and both directions of a cable: every frame of the integral, in the counts of both ends and in those of the ports.
#[test]
fn both_directions_of_a_cable() {
    let Some(cable) = cable("both_directions_of_a_cable") else {
        return;
    };
    let ((a, b), (c, d)) = (cable.ports().unwrap(), cable.ports().unwrap());
    let at_most = Duration::from_millis(400);
    let constant = schedule(LoadPlan::Constant(5_000.0), at_most);
    let mut session = Session::new(
        vec![
            sending(a, Mode::AfPacket, 1, schedule(ramp(), at_most)),
            sending(d, Mode::AfPacket, 2, constant),
        ],
        vec![receiving(b, 1), receiving(c, 2)],
    );
    let control = Control::default();
    session.start(&control).unwrap();
    assert!(session.set_load(0, 1e3).is_err(), "it is known before");
    let mut told = [0, 0];
    let whole = session
        .run(&control, Duration::from_millis(100), &mut |period| {
            told[0] += period.sent[0].given;
            told[1] += period.sent[1].given;
        })
        .unwrap();
    for (at, due) in [(0, 4000), (1, 2000)] {
        let (sent, received) = (&whole.sent[at], &whole.received[at]);
        assert_eq!(sent.given + sent.not_sent, due, "{sent:?}");
        assert!(told[at] <= sent.given, "{told:?}");
        assert_eq!(sent.port.tx_packets, sent.given, "{sent:?}");
        assert_eq!(received.counts.received, sent.left(), "{received:?}");
    }
}

#[test]
fn it_is_stopped_from_outside_and_leaves_its_ports() {
    let Some(cable) = cable("it_is_stopped_from_outside_and_leaves_its_ports") else {
        return;
    };
    for _ in 0..2 {
        let (a, b) = cable.ports().unwrap();
        let load = schedule(LoadPlan::Constant(1e3), PATIENCE);
        let sending = sending(a, Mode::AfPacket, 1, load);
        let mut session = Session::new(vec![sending], vec![receiving(b, 1)]);
        let control = Control::default();
        session.start(&control).unwrap();
        let stop = control.clone();
        let stopper = thread::spawn(move || {
            thread::sleep(Duration::from_millis(60));
            stop.stop();
        });
        let whole = session.run(&control, PATIENCE, &mut |_| {}).unwrap();
        stopper.join().unwrap();
        assert!((1..10_000).contains(&whole.sent[0].given));
        assert!(whole.duration_s < 5.0);
    }
}

#[test]
fn an_engine_that_cannot_is_refused_with_its_port() {
    let Some(cable) = cable("an_engine_that_cannot_is_refused_with_its_port") else {
        return;
    };
    let (a, _) = cable.ports().unwrap();
    let load = schedule(LoadPlan::Constant(1e3), Duration::from_secs(1));
    let too_long = Frames::Test(TestFrames {
        template: FrameTemplate::new(&FrameSpec {
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            version: IpVersion::V4,
            frame_size: 9000,
        })
        .unwrap(),
        flows: FlowSet::default_v4(1).unwrap(),
        nonce: 1,
    });
    let mean = MeanSize::new(9000, 1).unwrap();
    let refused = Sending::open(a, &Mode::ALL, &[], too_long, load, mean);
    assert!(matches!(refused, Err(LabError::Engine(_))));
}
