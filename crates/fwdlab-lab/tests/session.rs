//! Ports driven by hand through the library, as a server would: with the memory engine without
//! root, over a cable of our own with root.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::capture::{Captured, Options};
use fwdlab_engine::{
    Expected, Frames, LoadPlan, Mode, PortSpec, Schedule, SignaturePlace, StallPolicy, TestFrames,
};
use fwdlab_lab::LabError;
use fwdlab_lab::control::Control;
use fwdlab_lab::ports::Port;
use fwdlab_lab::session::absorber::{Absorber, Absorbing};
use fwdlab_lab::session::capture::{Capturing, Keeper};
use fwdlab_lab::session::figures::Counted;
use fwdlab_lab::session::one_by_one::FrameSession;
use fwdlab_lab::session::one_by_one::queries::{QueryEvent, QueryHandler, Questions};
use fwdlab_lab::session::one_by_one::walk::{Fault, Numbered, Walked};
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
        stall_policy: StallPolicy::CatchUp { most_pps: None },
        path: 0,
    }
}

fn sending(port: Port, mode: Mode, nonce: u16, schedule: Schedule) -> Sending {
    let mean = MeanSize::new(64, 1).unwrap();
    Sending::open(port, &[mode], &[], frames(nonce), schedule, mean, 1).unwrap()
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

/// Makes a cable of our own; `None` if that is not possible here.
fn cable(test: &str) -> Option<BackToBack> {
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: needs root");
        return None;
    }
    Some(BackToBack::new(1).unwrap())
}

fn wait(session: &mut Session) {
    let started = Instant::now();
    while !session.is_over().unwrap() {
        assert!(started.elapsed() < PATIENCE, "it does not end");
        thread::sleep(Duration::from_millis(2));
    }
}

fn ramp() -> LoadPlan {
    LoadPlan::from_stretches(vec![Stretch {
        duration_ns: 400_000_000,
        from_pps: 0.0,
        to_pps: 20_000.0,
    }])
}

/// What a front end does: start, read, change the load, read, stop, and once more.
#[test]
fn a_session_is_controlled_and_reports_values() {
    let port = Port::own_port(&PortSpec {
        netns: None,
        interface: "lo".into(),
    });
    let port = match port {
        Ok(port) => port,
        Err(error) => {
            return println!("SKIPPED: a_session_is_controlled_and_reports_values: {error}");
        }
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
        // if this host was slow, hardly anything is left for it
        let is_all = rest.is_some();
        let parts = [first, second].into_iter().chain(rest);
        let reported: u64 = parts.map(|part| part.sent[0].given).sum();
        let all = whole.sent[0].given;
        assert!(
            reported == all || !is_all && reported < all,
            "{reported} of {all}"
        );
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

/// A load over time in both directions of a cable: every frame of the integral is in the counts of
/// both ends and of the ports.
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
    let mut reported = [0, 0];
    let whole = session
        .run(&control, Duration::from_millis(100), &mut |period| {
            reported[0] += period.sent[0].given;
            reported[1] += period.sent[1].given;
        })
        .unwrap();
    for (at, due) in [(0, 4000), (1, 2000)] {
        let (sent, received) = (&whole.sent[at], &whole.received[at]);
        assert_eq!(sent.given + sent.not_sent, due, "{sent:?}");
        assert!(reported[at] <= sent.given, "{reported:?}");
        assert_eq!(sent.port.unwrap().tx_packets, sent.given, "{sent:?}");
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
fn an_unsuitable_engine_is_refused_with_its_port() {
    let Some(cable) = cable("an_unsuitable_engine_is_refused_with_its_port") else {
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
    let refused = Sending::open(a, &Mode::ALL, &[], too_long, load, mean, 1);
    assert!(matches!(refused, Err(LabError::Engine(_))));
}

/// Sends this number of frames over a cable, at most as many as its queue holds (256), and returns
/// when they have left.
fn send(port: Port, count: u64) {
    let mut schedule = schedule(LoadPlan::Constant(500.0), PATIENCE);
    schedule.frames = Some(count);
    let mut session = Session::new(vec![sending(port, Mode::AfPacket, 7, schedule)], vec![]);
    let control = Control::default();
    session.start(&control).unwrap();
    let whole = session.run(&control, PATIENCE, &mut |_| {}).unwrap();
    assert_eq!(whole.sent[0].given, count);
}

/// Every frame is counted once, also in the intervals, and does not reach the stack.
#[test]
fn frames_of_others_are_counted_and_taken_away() {
    let Some(cable) = cable("frames_of_others_are_counted_and_taken_away") else {
        return;
    };
    let (a, b) = cable.ports().unwrap();
    let mut beside = Capturing::open(&b.spec, &Options::default(), None).unwrap();
    beside.at_most = Duration::from_millis(20);
    let mut absorber = Absorber::open(b);
    assert!(absorber.refusal().is_none(), "{:?}", absorber.refusal());
    absorber.until_silence = true;
    let sender = thread::spawn(move || send(a, 200));
    let mut reported = Counted::default();
    let interval = Duration::from_millis(30);
    let control = Control::default();
    let absorbed = absorber.run(&control, interval, &mut |action| match action {
        Absorbing::Waiting => {}
        Absorbing::Interval(counted, length) => {
            assert!(length >= interval || absorbing_ends(counted), "{length:?}");
            reported.frames += counted.frames;
            reported.bytes += counted.bytes;
        }
    });
    sender.join().unwrap();
    let absorbed = absorbed.unwrap();
    let all = Counted {
        frames: 200,
        bytes: 200 * 60,
        batches: 0,
    };
    assert_eq!((absorbed.counted, reported), (all, all));
    // 200 frames at 500 per second, without the silence after them
    let elapsed = absorbed.duration;
    assert!(
        elapsed > Duration::ZERO && elapsed < PATIENCE,
        "{elapsed:?}"
    );
    let observed = beside.run(&control, &mut FrameLimit::default()).unwrap();
    assert_eq!(
        observed.kept, 0,
        "the stack saw frames that were taken away"
    );
}

/// An interval without frames is the one that the silence ended.
fn absorbing_ends(counted: Counted) -> bool {
    counted.frames == 0
}

/// Keeps this number of frames and refuses the next one.
#[derive(Default)]
struct FrameLimit {
    frames: Vec<Vec<u8>>,
    most: Option<usize>,
    fails: bool,
}

impl Keeper for FrameLimit {
    fn keep(&mut self, frame: &Captured<'_>) -> Result<bool, LabError> {
        if self.fails {
            return Err(LabError::Preflight("the disk is full".into()));
        }
        if self.most == Some(self.frames.len()) {
            return Ok(false);
        }
        self.frames.push(frame.bytes.to_vec());
        Ok(true)
    }
}

#[test]
fn a_capture_ends_at_its_limit() {
    let Some(cable) = cable("a_capture_ends_at_its_limit") else {
        return;
    };
    let control = Control::default();
    let case = |set: &dyn Fn(&mut Capturing), mut keeper: FrameLimit| {
        let (a, b) = cable.ports().unwrap();
        let mut capturing = Capturing::open(&b.spec, &Options::default(), None).unwrap();
        capturing.at_most = PATIENCE;
        set(&mut capturing);
        send(a, 50);
        let totals = capturing.run(&control, &mut keeper);
        (totals, keeper.frames.len() as u64)
    };
    let (totals, kept) = case(&|c| c.keep_at_most = Some(30), FrameLimit::default());
    let totals = totals.unwrap();
    assert_eq!((totals.kept, kept, totals.bytes), (30, 30, 30 * 60));
    assert!(!totals.is_refused && totals.failed.is_none(), "{totals:?}");
    assert_eq!(totals.statistics.frames, 50);

    let keeper = FrameLimit {
        most: Some(20),
        ..FrameLimit::default()
    };
    let (totals, _) = case(&|_| {}, keeper);
    let totals = totals.unwrap();
    assert!(totals.is_refused && totals.kept == 20, "{totals:?}");

    // frames of another session are not ours
    for (nonce, due) in [(7, 50), (8, 0)] {
        let set = move |c: &mut Capturing| {
            c.own = Some(nonce);
            c.snap = 40;
            c.at_most = Duration::from_millis(300);
        };
        let (totals, _) = case(&set, FrameLimit::default());
        let totals = totals.unwrap();
        assert_eq!(
            (totals.kept, totals.bytes, totals.cut),
            (due, 40 * due, due),
            "session {nonce}"
        );
    }

    let keeper = FrameLimit {
        fails: true,
        ..FrameLimit::default()
    };
    assert!(case(&|_| {}, keeper).0.is_err());
}

/// Queries with frames of sixty bytes, whose last four are their number.
#[derive(Default)]
struct EchoQueries {
    events: Vec<QueryEvent>,
}

impl QueryHandler for EchoQueries {
    fn question(&mut self, number: u32, _: Duration) -> Result<Vec<u8>, LabError> {
        // one is out of sequence
        let number = if number == 5 { 50 } else { number };
        let mut frame = vec![0; 60];
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[56..].copy_from_slice(&number.to_be_bytes());
        Ok(frame)
    }

    fn answer(&self, frame: &[u8]) -> Option<(u32, Duration)> {
        (frame.get(14) == Some(&1)).then_some((0, Duration::ZERO))
    }

    fn handle_event(&mut self, action: QueryEvent) {
        self.events.push(action);
    }
}

#[test]
fn questions_are_answered_one_by_one() {
    let Some(cable) = cable("questions_are_answered_one_by_one") else {
        return;
    };
    let ((a, b), (_, d)) = (cable.ports().unwrap(), cable.ports().unwrap());
    let answering = FrameSession::open(b, &[]).unwrap();
    let walking = FrameSession::open(d, &[]).unwrap();
    let asking = FrameSession::open(a, &[]).unwrap();
    let control = Control::default();
    let answers = control.clone();
    let answerer = thread::spawn(move || {
        let mut quiet = 0;
        let (_, counted) = answering
            .run(
                &answers,
                PATIENCE,
                |hands| {
                    let turn = &mut |frame: &mut [u8]| {
                        frame[14] = 1;
                        frame[59] != 1
                    };
                    hands.answer(Some(19), turn, &mut || quiet += 1)
                },
                &mut |_, _| {},
            )
            .unwrap();
        counted
    });
    let walks = control.clone();
    let walker = thread::spawn(move || {
        let number = |frame: &[u8]| match frame.get(56..) {
            Some([.., number]) => Numbered::Number((*number).into()),
            _ => Numbered::TooShort,
        };
        let mut wrong = Vec::new();
        let report = &mut |action| {
            if let Walked::Wrong(number, fault) = action {
                wrong.push((number, fault));
            }
        };
        let walked = walking.run(
            &walks,
            PATIENCE,
            |hands| hands.walk(true, &number, report),
            &mut |_, _| {},
        );
        (walked.unwrap(), wrong)
    });
    let mut asker = EchoQueries::default();
    let questions = Questions {
        burst: 10,
        rate_pps: None,
        frames: Some(20),
    };
    let mut reported = Counted::default();
    let requested = asking.run(
        &control,
        Duration::from_millis(1),
        |hands| hands.query(&questions, &mut asker),
        &mut |counted, _| reported.frames += counted.frames,
    );
    let ((), requested) = requested.unwrap();
    assert_eq!(
        (requested.frames, requested.bytes, requested.batches),
        (20, 1200, 2)
    );
    let answered =
        (asker.events.iter()).filter(|reported| matches!(reported, QueryEvent::Answered(_)));
    assert!(answered.count() >= 2, "{:?}", asker.events);
    assert!(!asker.events.contains(&QueryEvent::Unanswered));
    // all but the one with the number 1, and it ended by itself
    assert_eq!(answerer.join().unwrap().frames, 19);
    let ((walk, counted), wrong) = walker.join().unwrap();
    assert_eq!((counted.frames, walk.dropped), (20, 0));
    let sequence = walk.sequence;
    let faults = (sequence.gaps, sequence.missing, sequence.late);
    assert_eq!(faults, (1, 45, 1), "{wrong:?}");
    assert_eq!(wrong, [(50, Fault::Gap(5)), (6, Fault::OutOfOrder(51))]);
    assert!(walk.duration < PATIENCE);
}

/// Ctrl-C ends the work, and its result is returned.
#[test]
fn work_ends_when_it_is_stopped() {
    let Some(cable) = cable("work_ends_when_it_is_stopped") else {
        return;
    };
    let (a, _) = cable.ports().unwrap();
    let port = FrameSession::open(a, &[]).unwrap();
    let control = Control::default();
    let mut intervals = 0;
    let ended = port.run(
        &control,
        Duration::from_millis(20),
        |hands| {
            hands.walk(false, &|_| Numbered::No, &mut |_| {})?;
            Err::<(), _>(LabError::Interrupted)
        },
        &mut |_, _| {
            intervals += 1;
            if intervals == 3 {
                control.stop();
            }
        },
    );
    assert!(matches!(ended, Err(LabError::Interrupted)));
    assert!(intervals >= 3);
}
