//! Stamps of the kernel on veth, at both ends of a DUT, against the times of user space: as many as frames, and in order.
//!
//! Needs root, `ip` and `ethtool`. What cannot run here says `SKIPPED` on stderr and why.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashMap;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use engine::af_packet::SinglePort;
use engine::analysis::{AnalysisPlan, StreamPlan};
use engine::capture::{self, Capture};
use engine::stamps::clock::Ahead;
use engine::stamps::{Kind, Log, Offers, Origin, choose};
use engine::sys::monotonic_ns;
use engine::{
    Counting, EngineError, Expected, Frames, HoldUps, LoneReceiver, LoneSender, Mode, PathSpec,
    Schedule, SignaturePlace, TestFrames,
};
use packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature, signature};

use self::bed::{ADDRESSES, Bed};

#[path = "veth/bed.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of veth.rs, which use all of it"
)]
mod bed;

const NONCE: u16 = 41_000;
const FRAMES: u64 = 1500;

fn skip(reason: impl std::fmt::Display) {
    let name = thread::current().name().unwrap_or("?").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {reason}");
}

fn bed() -> Option<Bed> {
    if !rustix::process::geteuid().is_root() {
        skip("not root");
        return None;
    }
    Bed::new(1).map_err(skip).ok()
}

fn frames() -> Frames {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr(ADDRESSES.source_mac),
        destination: MacAddr(ADDRESSES.destination_mac),
        version: IpVersion::V4,
        frame_size: 64,
    });
    Frames::Test(TestFrames {
        template: template.unwrap(),
        flows: FlowSet::default_v4(7).unwrap(),
        nonce: NONCE,
    })
}

fn expected() -> Expected {
    Expected {
        nonce: NONCE,
        buffer_bytes: None,
        place: SignaturePlace::UdpPayload,
        analysis: Some(AnalysisPlan {
            streams: vec![StreamPlan::default()],
        }),
    }
}

fn schedule(frames: u64) -> Schedule {
    Schedule {
        load_pps: Some(2000.0),
        frames: Some(frames),
        at_most: Duration::from_secs(20),
        hold_ups: HoldUps::Forgive,
        path: 0,
    }
}

/// A frame that user space has received: what it says of its departure, and when it was read.
struct Seen {
    departure_ns: u64,
    read_ns: u64,
}

/// Reads frames of ours from a port until the sender is done and no more come.
fn read(port: &SinglePort, sender: &mut LoneSender, frames: u64) -> HashMap<u64, Seen> {
    let mut seen = HashMap::new();
    let mut buffer = [0; 256];
    let mut last = Instant::now();
    while (seen.len() as u64) < frames && last.elapsed() < Duration::from_secs(2) {
        let Some(len) = port
            .receive(&mut buffer, Duration::from_millis(20))
            .unwrap()
        else {
            if !sender.sender().unwrap().is_done() {
                last = Instant::now();
            }
            continue;
        };
        let read_ns = monotonic_ns();
        let at = signature::OFFSET_IPV4_UDP;
        let found = buffer[..len].get(at..).and_then(Signature::read);
        if let Some(found) = found.filter(|found| found.nonce == NONCE) {
            last = Instant::now();
            seen.insert(
                found.sequence,
                Seen {
                    departure_ns: found.timestamp_ns,
                    read_ns,
                },
            );
        }
    }
    seen
}

fn times(log: &Log) -> HashMap<u64, u64> {
    log.times.iter().map(|s| (s.number, s.at_ns)).collect()
}

fn open(path: &PathSpec) -> (LoneSender, LoneReceiver) {
    let mut sender = LoneSender::open(&path.tx, None, &[]).unwrap();
    sender.stamp(Kind::Software).unwrap();
    let mut receiver = LoneReceiver::open(&path.rx, None).unwrap();
    receiver.stamp(Kind::Software).unwrap();
    (sender, receiver)
}

/// For each frame: intended departure <= the driver takes it <= it enters the kernel at the other end <= somebody reads it.
#[test]
fn stamps_are_as_many_as_frames_and_lie_between_the_times_of_user_space() {
    let Some(bed) = bed() else { return };
    let path = &bed.paths()[0];
    let (mut sender, mut receiver) = open(path);
    // the faster ones have no stamps, and say so
    let taken: Vec<&str> = sender.rejected().iter().map(|r| r.engine).collect();
    assert_eq!(taken, ["xdp-live", "af-xdp"]);
    let words = sender.rejected()[1].reason.to_string();
    assert!(words.contains("software timestamps"), "{words}");
    assert_eq!(receiver.rejected().len(), 1);
    let reader = SinglePort::open(&path.rx).unwrap();
    // a second trial on the same sockets counts from 0 again
    for trial in 0..2 {
        receiver.expect(&expected()).unwrap();
        sender.arm(&frames()).unwrap();
        let before = Ahead::read();
        sender.sender().unwrap().start(schedule(FRAMES)).unwrap();
        let seen = read(&reader, &mut sender, FRAMES);
        let counts = sender.sender().unwrap().stop().unwrap();
        let ahead = Ahead::read();
        if before.step_to(ahead).is_some() {
            return skip("somebody set the clock");
        }
        // a host that is held up for long gives frames up before they are sent
        let sent = counts.total();
        assert_eq!(seen.len() as u64, sent, "trial {trial}");
        let departures = sender.sender().unwrap().departures().unwrap();
        let receiver = receiver.receiver().unwrap();
        let mut analysis = receiver.analysis().unwrap().unwrap();
        let by_user = analysis.streams[0].clone();
        let arrivals = receiver.arrivals().unwrap();
        assert_eq!(departures.origin, Origin::LEAVING);
        assert_eq!(arrivals.origin, Origin::ENTERING);
        for log in [&departures, &arrivals] {
            assert_eq!(
                (log.times.len() as u64, log.missing),
                (sent, 0),
                "trial {trial}"
            );
            assert_eq!(log.step_ns, None);
        }
        let (left, came) = (times(&departures), times(&arrivals));
        let off = before.within_ns.min(ahead.within_ns);
        let ahead = before.min(ahead);
        for (number, seen) in &seen {
            let (left, came) = (left[number], came[number]);
            assert!(
                ahead.to_realtime(seen.departure_ns) <= left + off,
                "frame {number}"
            );
            assert!(left <= came, "frame {number}: {left} {came}");
            assert!(
                came <= ahead.to_realtime(seen.read_ns) + off,
                "frame {number}"
            );
        }
        analysis.retime(&departures, &arrivals).unwrap();
        let by_kernel = &analysis.streams[0];
        assert_eq!((by_kernel.latency.len(), by_kernel.early), (sent, 0));
        assert_eq!(by_user.latency.len(), sent);
        assert!(by_kernel.latency_sum_ns <= by_user.latency_sum_ns + off * sent);
        assert!(by_kernel.latency_min_ns <= by_user.latency_min_ns + off);
        assert!(by_kernel.latency_min_ns > 0);
    }
}

/// Frames that the DUT's full queue drops have left, and have no arrival; those lost are not timed.
#[test]
fn lost_frames_have_a_departure_and_no_arrival() {
    let Some(bed) = bed() else { return };
    let path = &bed.paths()[0];
    bed.in_dut(0, "ip route add blackhole 198.19.10.3/32")
        .unwrap();
    let (mut sender, mut receiver) = open(path);
    receiver.expect(&expected()).unwrap();
    sender.arm(&frames()).unwrap();
    sender.sender().unwrap().start(schedule(700)).unwrap();
    while !sender.sender().unwrap().is_done() {
        thread::sleep(Duration::from_millis(5));
    }
    let sent = sender.sender().unwrap().stop().unwrap().total();
    thread::sleep(Duration::from_millis(50));
    let departures = sender.sender().unwrap().departures().unwrap();
    let receiver = receiver.receiver().unwrap();
    let received = receiver.counts().unwrap().received;
    let mut analysis = receiver.analysis().unwrap().unwrap();
    let arrivals = receiver.arrivals().unwrap();
    if received == sent {
        return skip("no flow goes to 198.19.10.3");
    }
    assert_eq!(departures.times.len() as u64, sent);
    assert_eq!(arrivals.times.len() as u64, received);
    analysis.retime(&departures, &arrivals).unwrap();
    assert_eq!(analysis.streams[0].latency.len(), received);
}

#[test]
fn what_ports_offer_is_what_ethtool_says() {
    let Some(bed) = bed() else { return };
    let port = &bed.paths()[0].tx;
    let offers = Offers::of(port).unwrap();
    let said = bed.in_tester("ethtool -T tx0; ethtool -i tx0").unwrap();
    for (offered, words) in [
        (offers.tx_software, "software-transmit"),
        (offers.rx_software, "software-receive"),
        (offers.tx_hardware, "hardware-transmit"),
        (offers.rx_hardware, "hardware-receive"),
        (offers.clock.is_none(), "PTP Hardware Clock: none"),
    ] {
        assert_eq!(offered, said.contains(words), "{words}: {said}");
    }
    assert!(said.contains(&format!("driver: {}", offers.driver)));
    let gone = engine::PortSpec {
        interface: "nosuch0".into(),
        ..port.clone()
    };
    assert!(
        Offers::of(&gone)
            .unwrap_err()
            .to_string()
            .contains("nosuch0")
    );
}

#[test]
fn hardware_stamps_are_refused_before_anything_is_changed() {
    let Some(bed) = bed() else { return };
    let path = &bed.paths()[0];
    let (tx, rx) = (Offers::of(&path.tx).unwrap(), Offers::of(&path.rx).unwrap());
    let words = choose(Some(Kind::Hardware), &tx, &rx)
        .unwrap_err()
        .to_string();
    for part in [
        "no hardware timestamps: tx0 (veth) has no clock of its own",
        "SIOCGHWTSTAMP says: Operation not supported",
        "Nothing was changed. Use --timestamps software",
    ] {
        assert!(words.contains(part), "{words}");
    }
    let (kind, not_taken) = choose(None, &tx, &rx).unwrap();
    assert_eq!((kind, not_taken.len()), (Kind::Software, 1));
    let error = engine::stamps::card::set(&path.tx, engine::stamps::card::Setting::ALL);
    assert!(error.unwrap_err().to_string().contains("tx0"));
    for mode in Mode::ALL {
        let Ok(mut sender) = LoneSender::open(&path.tx, Some(mode), &[]) else {
            skip(format!("{} does not open here", mode.name()));
            continue;
        };
        let refused = sender.stamp(Kind::Hardware).unwrap_err();
        assert!(
            matches!(refused, EngineError::Unsupported { .. }),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("hardware timestamps"),
            "{refused}"
        );
    }
    for counting in Counting::ALL {
        let Ok(mut receiver) = LoneReceiver::open(&path.rx, Some(counting)) else {
            skip(format!("{} does not open here", counting.name()));
            continue;
        };
        let refused = receiver.stamp(Kind::Hardware).unwrap_err();
        assert!(
            refused.to_string().contains("hardware timestamps"),
            "{refused}"
        );
    }
}

/// A capture says of each frame who stamped it: the kernel where it entered, when asked for that.
#[test]
fn a_capture_has_the_stamps_of_the_kernel() {
    let Some(bed) = bed() else { return };
    let path = &bed.paths()[0];
    let options = capture::Options {
        outgoing: false,
        stamps: Kind::Software,
        ..capture::Options::default()
    };
    let mut capture = Capture::open(&path.rx, &options).unwrap();
    let mut sender = LoneSender::open(&path.tx, Some(Mode::AfPacket), &[]).unwrap();
    sender.arm(&frames()).unwrap();
    let ahead = Ahead::read();
    sender.sender().unwrap().start(schedule(100)).unwrap();
    let (mut taken, begin) = (Vec::new(), Instant::now());
    while taken.len() < 100 && begin.elapsed() < Duration::from_secs(10) {
        capture
            .frames(Duration::from_millis(100), &mut |frame| {
                let found = capture::signatures(frame.bytes).find(|s| s.nonce == NONCE);
                taken.extend(found.map(|s| (frame.stamped, frame.timestamp_ns, s.timestamp_ns)));
                true
            })
            .unwrap();
    }
    let sent = sender.sender().unwrap().stop().unwrap().total();
    assert_eq!(taken.len() as u64, sent);
    if ahead.step_to(Ahead::read()).is_some() {
        return skip("somebody set the clock");
    }
    for (stamped, arrival_ns, departure_ns) in taken {
        assert_eq!(stamped, Kind::Software);
        assert!(ahead.to_realtime(departure_ns) <= arrival_ns + ahead.within_ns);
    }
}
